"""Hostile bodies against every POST route: never a 500, always a problem document, nothing spent, nothing echoed."""

import asyncio
import json

import httpx
import pytest

from holdtrue.errors import InvalidParameter
from holdtrue.requests import Ask, Register
from holdtrue.service.http import bodies
from holdtrue.service.http.problems import Refused

MARK = "zzmarkzz"
DEEP = b"[" * 100_000 + b"]" * 100_000
# Each is one body that no route may take; the mark in it must not come back.
CORPUS = {
    "NaN": b'{"query": NaN, "zzmarkzz": 1}',
    "Infinity": b'{"query": Infinity}',
    "-Infinity": b'{"query": [-Infinity]}',
    "1e400": b'{"query": 1e400, "epsilon": 1e400}',
    "-1e400": b'{"epsilon": -1e400}',
    "huge integer": b'{"epsilon": ' + b"9" * 30 + b"}",
    "more digits than Python reads": b'{"epsilon": ' + b"9" * 6_000 + b"}",
    "just above 64 bits": b'{"parts": 9223372036854775808}',
    "deep": DEEP,
    "deep objects": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "a little too deep": b"[" * 40 + b"]" * 40,
    "deep inside": b'{"query": ' + b"[" * 33 + b'"zzmarkzz"' + b"]" * 33 + b"}",
    "ten megabytes": b'{"query": "' + b"z" * 10_000_000 + b'"}',
    "duplicate keys": b'{"query": "age > 1", "query": "age > 2"}',
    "duplicate keys by escapes": b'{"query": "age > 1", "qu\\u0065ry": "zzmarkzz"}',
    "lone high surrogate": b'{"query": "zzmarkzz \\ud800"}',
    "lone low surrogate": b'{"query": "\\udc00 zzmarkzz"}',
    "surrogate in a name": b'{"\\ud834": 1}',
    "NUL": b'{"query": "zzmarkzz\\u0000"}',
    "not UTF-8": b'{"query": "\xff\xfe zzmarkzz"}',
    "UTF-16": '{"query": "zzmarkzz"}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"query": "zzmarkzz"}',
    "empty": b"",
    "spaces": b"   ",
    "nothing": b"null",
    "a text": b'"zzmarkzz"',
    "a number": b"3",
    "a list": b'["zzmarkzz"]',
    "cut off": b'{"query": "zzmarkzz',
    "trailing": b'{"query": "age > 1"} zzmarkzz',
    "single quotes": b"{'query': 'zzmarkzz'}",
    "comment": b'{"query": "age > 1" /* zzmarkzz */}',
    "unknown field": b'{"zzmarkzz": "zzmarkzz"}',
    "prototype": b'{"__proto__": {"zzmarkzz": 1}}',
    "wrong types": b'{"query": {"zzmarkzz": 1}, "queries": 7, "candidates": 3, "hypotheses": "zzmarkzz", "name": []}',
    "unknown column": b'{"query": "zzmarkzz > 3"}',
    "unknown function": b'{"query": "zzmarkzz(age)"}',
    "a path outside": b'{"name": "other", "path": "../../../etc/zzmarkzz"}',
    "bad SQL": b'{"query": "age > \'zzmarkzz"}',
}
# These are JSON, and refused for what they say.
JSON = {"wrong types", "unknown field", "prototype", "unknown column", "unknown function", "a path outside", "bad SQL"}
JSON |= {"ten megabytes", "nothing", "a text", "a number", "a list"}
TYPES = ["", "text/plain", "application/xml", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
         "application/json; charset=latin-1", "application/zzmarkzz"]  # fmt: skip


def posts(app) -> list[str]:
    """Return every address to post to, with names that exist where there are any."""
    found = [path for path, methods in app.openapi()["paths"].items() if "post" in methods]
    return [path.replace("{name}", "people").replace("{model}", "people.risk").replace("{prefix}", "x") for path in found]


def headers(held, role: str, media: str = "application/json") -> dict[str, str]:
    return {"Authorization": f"Bearer {held.keys[role]}", "Content-Type": media, "Idempotency-Key": "corpus"}


def sent(held, requests):
    """Send requests in this process, and return the replies."""

    async def all_of_them():
        transport = httpx.ASGITransport(held.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver", timeout=60.0) as client:
            return [await client.request(method, path, **given) for method, path, given in requests]

    return asyncio.run(all_of_them())


def check_refused(reply: httpx.Response, what: str) -> None:
    assert 400 <= reply.status_code < 500, (what, reply.status_code, reply.text)
    assert reply.headers["content-type"] == "application/problem+json", what
    told = reply.json()
    assert told["status"] == reply.status_code, what
    assert told["type"].startswith("urn:holdtrue:"), what
    assert told["request_id"] == reply.headers["x-request-id"], what
    assert MARK not in reply.text, (what, reply.text)
    assert MARK not in str(reply.headers), what
    assert len(reply.content) < 2_000, what


def test_every_post_route_survives_the_corpus_and_spends_nothing(held):
    head = held.service.registry.open_dataset("people").curator.pipeline.ledger.head
    paths = posts(held.app)
    assert len(paths) >= 15
    requests = [
        ("POST", path, {"content": content, "headers": headers(held, "owner")})
        for path in paths
        for content in CORPUS.values()
    ]
    names = [f"{path}: {name}" for path in paths for name in CORPUS]
    for what, reply in zip(names, sent(held, requests), strict=True):
        check_refused(reply, what)
    assert held.service.registry.open_dataset("people").curator.pipeline.ledger.head == head


def test_an_analyst_and_a_stranger_get_problems_too(held):
    path = "/v1/datasets/people/ask"
    for given in (headers(held, "analyst"), {"Content-Type": "application/json"}):
        for what, reply in zip(
            CORPUS, sent(held, [("POST", path, {"content": c, "headers": given}) for c in CORPUS.values()]), strict=True
        ):
            check_refused(reply, what)


def test_wrong_content_types_are_415(held):
    paths = [path for path in posts(held.app) if path.startswith("/v1/")]
    requests = [
        ("POST", path, {"content": b"{}", "headers": headers(held, "owner", media)}) for path in paths for media in TYPES
    ]
    for (_, path, given), reply in zip(requests, sent(held, requests), strict=True):
        assert reply.status_code == 415, (path, given["headers"]["Content-Type"], reply.text)
        check_refused(reply, path)


def test_huge_and_strange_headers_are_refused_or_ignored(held):
    path = "/v1/datasets/people/ask"
    good = headers(held, "analyst")
    body = json.dumps({"query": "nobody > 1"}).encode()
    strange = [
        {"Idempotency-Key": "x" * 129},
        {"Idempotency-Key": ""},
        {"Idempotency-Key": "tab\there"},
        {"Idempotency-Key": "zzmarkzzé".encode()},
        {"Authorization": "Bearer " + "x" * 100_000},
        {"Authorization": "Basic zzmarkzz"},
        {"Authorization": "Bearer"},
        {"X-Request-Id": "x" * 100_000},
        {"X-Request-Id": "zzmarkzz <script>"},
        {"Content-Length": "99999999999999999999999"},
        {"Content-Length": "zzmarkzz"},
        {"Host": "zzmarkzz.example"},
        {"Host": ""},
        {"Accept": "z" * 50_000},
    ]
    for given, reply in zip(
        strange, sent(held, [("POST", path, {"content": body, "headers": good | each}) for each in strange]), strict=True
    ):
        check_refused(reply, str(given)[:60])


MISTAKES = [
    ("ask", {}, "query"),
    ("ask", {"query": "a", "queries": ["b"]}, "query"),
    ("ask", {"query": "age > 1", "name": "zzmarkzz"}, "query"),
    ("ask", {"query": ""}, "query"),
    ("ask", {"query": 7}, "query"),
    ("ask", {"query": "zzmarkzz" * 600}, "query"),
    ("ask", {"queries": ["age > 1", 7]}, "queries[1]"),
    ("ask", {"query": "age > 1", "verb": "zzmarkzz"}, "verb"),
    ("ask", {"query": "age > 1", "zzmarkzz": 1}, "the body"),
    ("ask", {"query": "age > 1", "zzmarkzz.query": 1}, "the body"),
    ("ask", [], "the body"),
    ("select", {"candidates": {"a": "age > 1"}, "epsilon": 0}, "epsilon"),
    ("select", {"candidates": {"a": 1.5}}, "candidates"),
    ("select", {"candidates": {"a": "age > 1"}, "name": "zzmarkzz"}, "name"),
    ("select", {}, "candidates"),
    ("learn", {"target": "smoker", "hypotheses": {"class": "zzmarkzz"}}, "hypotheses.class"),
    ("train", {"name": "zz mark", "estimator": {"kind": "ridge"}, "target": "age"}, "name"),
    ("train", {"name": "a", "estimator": {"kind": "zzmarkzz"}, "target": "age"}, "estimator.kind"),
    ("train", {"name": "a", "estimator": {"kind": "ridge", "zzmarkzz": 1}, "target": "age"}, "estimator"),
    ("train", {"name": "a", "estimator": {"kind": "ridge"}, "target": "age", "parts": 2.5}, "parts"),
    ("train", {"name": "a", "estimator": {"kind": "ridge"}, "target": "age", "order": "zzmarkzz"}, "order"),
    ("predict", {"model": "a", "row": {"zzmarkzz": []}}, "row"),
    ("predict", {"model": "a", "row": {"age": 1}, "screen": 1}, "screen"),
    ("verify", {"receipts": [{"entry": 1, "digest": "zzmarkzz"}]}, "receipts[0].digest"),
]


@pytest.mark.parametrize(("verb", "body", "parameter"), MISTAKES)
def test_a_malformed_body_is_told_by_its_field_and_spends_nothing(held, verb, body, parameter):
    head = held.service.registry.open_dataset("people").curator.pipeline.ledger.head
    reply = sent(held, [("POST", f"/v1/datasets/people/{verb}", {"json": body, "headers": headers(held, "owner")})])[0]
    assert reply.status_code == 422
    check_refused(reply, verb)
    told = reply.json()
    assert (told["type"], told["parameter"]) == ("urn:holdtrue:invalid-parameter", parameter)
    assert told["detail"].startswith((f"{parameter} must be ", f"leave out {parameter}: "))
    assert "\n" not in told["detail"]
    assert held.service.registry.open_dataset("people").curator.pipeline.ledger.head == head


def test_a_field_that_is_not_known_is_answered_with_the_nearest_one():
    with pytest.raises(InvalidParameter, match=r"^the body must be .* does not describe; did you mean query\?$"):
        bodies.decode_body({"quer": "age > 3"}, Ask)
    with pytest.raises(InvalidParameter, match=r"does not describe$"):
        bodies.decode_body({"zzmarkzz": 1}, Ask)


def test_a_pattern_is_told():
    with pytest.raises(InvalidParameter, match=r"name must be text that matches \^\[a-z\]"):
        bodies.decode_body({"name": "ZZ", "path": "people.parquet"}, Register)


@pytest.mark.parametrize(
    "content", [b'{"query": "a", "query": "b"}', b'{"query": null, "query": null}', b'{"query": "a\x00"}']
)
def test_the_short_way_of_a_question_is_as_strict(held, content):
    given = {"content": content, "headers": headers(held, "analyst")}
    reply = sent(held, [("POST", "/v1/datasets/people/ask", given)])[0]
    assert reply.status_code == 400
    check_refused(reply, str(content))


def test_a_body_whose_length_is_not_told_is_bounded_too(held):
    async def pieces():
        for _ in range(3_000):
            yield b"z" * 1_000

    reply = sent(held, [("POST", "/v1/datasets/people/ask", {"content": pieces(), "headers": headers(held, "analyst")})])[0]
    assert reply.status_code == 413
    check_refused(reply, "chunks")


@pytest.mark.parametrize("name", [name for name in CORPUS if name not in JSON])
def test_the_reader_refuses_what_is_not_json(name):
    with pytest.raises(Refused) as refused:
        bodies.parse_json(CORPUS[name])
    assert refused.value.status == 400
    assert MARK not in str(refused.value)
    assert refused.value.__cause__ is None


def test_the_reader_reads_what_json_is():
    for document in ({"a": [1, -1.5, "é😀", None, True]}, [], 7, "x", {"deep": [[[[[[1]]]]]]}, {"n": 2**63 - 1}):
        assert bodies.parse_json(json.dumps(document).encode()) == document
        assert bodies.parse_json(json.dumps(document, ensure_ascii=False).encode()) == document


def test_a_lenient_reader_would_be_caught():
    """The planted fault: Python's own reader takes what the corpus holds, so the corpus is not empty talk."""
    taken = [name for name, content in CORPUS.items() if _taken(content)]
    assert {"NaN", "Infinity", "1e400", "duplicate keys", "lone high surrogate"} <= set(taken)


def _taken(content: bytes) -> bool:
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True
