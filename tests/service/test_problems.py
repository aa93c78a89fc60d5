"""Refusals: one form for all of them, nothing of the request in it, and nothing that depends on a row (P8)."""

import asyncio
import io
import json
import logging
import re

import httpx
import pytest
from fastapi import APIRouter

from holdtrue import errors
from holdtrue.errors import (
    BudgetExceeded,
    HoldtrueError,
    InsufficientSamples,
    InvalidParameter,
    MissingExtra,
    ReleaseError,
    UnknownColumn,
    UnsupportedQuery,
)
from holdtrue.queries.cards import Card, Column
from holdtrue.queries.parser import parse
from holdtrue.service.http import telemetry
from holdtrue.service.http.problems import Refused, to_problem
from service.conftest import CANARY, CANARY_NUMBER, closed, made

MARK = "zzmarkzz"
CARD = Card((Column("age", "integer"), Column("name", "text")), 10)


def sent(app, requests):
    async def all_of_them():
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://testserver", timeout=60.0
        ) as client:
            return [await client.request(method, path, **given) for method, path, given in requests]

    return asyncio.run(all_of_them())


def made_errors() -> list[HoldtrueError]:
    special = {
        "InvalidParameter": InvalidParameter(f"bounds of {MARK}", MARK, f"something else, unlike {MARK!r}"),
        "InsufficientSamples": InsufficientSamples("too few", required=7),
        "BudgetExceeded": BudgetExceeded(requested=2.0, left=1.0, unit="mu squared"),
        "ReleaseError": ReleaseError("failed", entry=3),
        "MissingExtra": MissingExtra("spark", purpose="this"),
    }
    return [special.get(name) or getattr(errors, name)(f"about {MARK!r}, no") for name in errors.__all__]


@pytest.mark.parametrize("error", made_errors(), ids=lambda error: type(error).__name__)
def test_every_error_of_the_tree_is_a_problem_with_its_public_fields(error):
    reply = to_problem(error, request_id="one")
    told = json.loads(reply.body)
    assert reply.status_code == told["status"] == error.http_status
    assert reply.media_type == "application/problem+json"
    assert told["type"] == "urn:holdtrue:" + re.sub(r"(?<!^)(?=[A-Z])", "-", type(error).__name__).lower()
    assert told["request_id"] == "one"
    assert MARK not in reply.body.decode()
    for field in ("required", "requested", "left", "unit", "entry"):
        assert told.get(field) == getattr(error, field, None)


@pytest.mark.parametrize(
    "name",
    [MARK, f"{MARK}'; did you mean 'x", f'{MARK}"; the card has "{MARK}"', f"; the card has {MARK}", f"{MARK}\\", "agee"],
)
def test_an_unknown_column_is_answered_with_the_cards_names_alone(name):
    with pytest.raises(UnknownColumn) as raised:
        CARD.column(name)
    told = json.loads(to_problem(raised.value).body)["detail"]
    assert MARK not in told
    assert "'age'" in told


@pytest.mark.parametrize(
    "query",
    [
        f"{MARK}(age)",
        f"age > '{MARK}'",
        f"{MARK} > 3",
        f'"{MARK}" > 3',
        f"name LIKE '{MARK}' ESCAPE '{MARK}'",
        f"CAST(age AS {MARK})",
        f"'{MARK}' + age",
        f"age IN ('{MARK}')",
        f"{MARK}.age > 3",
        f"age > 3 {MARK}",
        f"SELECT {MARK}",
        f"age > :{MARK}",
        f"age > @{MARK}",
        f"CASE WHEN {MARK} THEN 1 END",
        f"INTERVAL '{MARK}' DAY",
        f"DATE '{MARK}' > age",
        f"name COLLATE {MARK} = 'x'",
        f"age > 3 -- {MARK}",
        f"age > `{MARK}`",
        f"age > ${MARK}$x${MARK}$",
    ],
)
def test_a_refused_query_is_not_quoted(query):
    refusals = []
    try:
        parse(query, CARD)
    except HoldtrueError as error:
        refusals.append(to_problem(error).body.decode().lower())
    assert MARK not in "".join(refusals)


def test_a_handler_that_quotes_would_be_caught():
    """The planted fault: the errors' own texts do quote, so the tests above see something."""
    with pytest.raises(UnknownColumn, match=MARK):
        CARD.column(MARK)
    with pytest.raises(UnsupportedQuery, match=MARK):
        parse(f"{MARK}(age)", CARD)


def test_unknown_routes_methods_and_hosts_are_problems(held):
    requests = [
        ("GET", "/zzmarkzz", {}),
        ("GET", "/v1/zzmarkzz", {}),
        ("PUT", "/v1/datasets", {}),
        ("BREW", "/v1/datasets", {}),
        ("GET", "/v1/datasets/people/ask", {}),
        ("GET", "/v1/datasets/", {}),
        ("GET", "/healthz", {"headers": {"Host": "zzmarkzz"}}),
    ]
    for (_, path, _given), reply in zip(requests, sent(held.app, requests), strict=True):
        assert reply.status_code in (404, 405, 421), path
        assert reply.headers["content-type"] == "application/problem+json"
        assert MARK not in reply.text


def test_every_response_has_an_id_and_security_headers(held):
    paths = ["/healthz", "/openapi.json", "/v1/datasets", "/nowhere", "/metrics", "/readyz"]
    for reply in sent(held.app, [("GET", path, {"headers": {"X-Request-Id": "mine-1.0"}}) for path in paths]):
        assert reply.headers["x-request-id"] == "mine-1.0"
        assert reply.headers["content-security-policy"].startswith("default-src 'none'")
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert reply.headers["cache-control"] == "no-store"
    made_here = {reply.headers["x-request-id"] for reply in sent(held.app, [("GET", "/healthz", {})] * 20)}
    assert len(made_here) == 20


def test_an_unforeseen_failure_is_told_by_its_type_in_the_log_alone(tmp_path):
    found = made(tmp_path)
    router = APIRouter()

    @router.get("/fails")
    async def fails():
        raise RuntimeError(CANARY)

    found.app.include_router(router)
    lines = io.StringIO()
    logger = logging.getLogger("holdtrue.service")
    before = logger.handlers[:], logger.level, logger.propagate
    telemetry.configure_logs(lines)
    try:
        (reply,) = sent(found.app, [("GET", "/fails", {})])
    finally:
        logger.handlers[:], logger.level, logger.propagate = before
        closed(found)
    assert reply.status_code == 500
    assert reply.json()["type"] == "urn:holdtrue:internal"
    assert CANARY not in reply.text + lines.getvalue()
    assert '"kind": "RuntimeError"' in lines.getvalue()


def conversation(held) -> list[tuple[str, str, dict]]:
    """Return requests of every kind, about the row that differs."""
    analyst = {"Authorization": f"Bearer {held.keys['analyst']}"}
    owner = {"Authorization": f"Bearer {held.keys['owner']}"}
    asks = [
        f"note = '{CANARY}'",
        f"income = {CANARY_NUMBER}",
        f"1 / (income - {CANARY_NUMBER})",
        f"note = '{CANARY}' AND nobody > 1",
        "age / 0",
        "CAST(note AS INTEGER) > 3",
        "note > 3",
        "age > 'x'",
    ]
    found = [
        ("POST", "/v1/datasets/people/ask", {"json": {"query": text}, "headers": analyst | {"Idempotency-Key": f"c{place}"}})
        for place, text in enumerate(asks)
    ]
    candidates = {"here": f"note = '{CANARY}'", "there": "age > 50"}
    found.append(
        (
            "POST",
            "/v1/datasets/people/select",
            {"json": {"candidates": candidates}, "headers": analyst | {"Idempotency-Key": "s"}},
        )
    )
    wrong = {"name": "m", "estimator": {"kind": "ridge"}, "target": "note", "parts": 5}
    found.append(("POST", "/v1/datasets/people/train", {"json": wrong, "headers": owner}))
    nobody = {"model": "nobody", "row": {"age": 99}}
    found.append(("POST", "/v1/datasets/people/predict", {"json": nobody, "headers": analyst | {"Idempotency-Key": "p"}}))
    found += [("GET", f"/v1/datasets/people{path}", {"headers": owner}) for path in ("", "/budget")]
    return found


def test_p8_neighbouring_tables_give_identical_headers_and_refusals(tmp_path):
    """Law: whatever is not a noisy answer is the same, byte for byte, whether the row is there or not."""
    replies = []
    for canary in (True, False):
        found = made(tmp_path / str(canary), canary=canary)
        replies.append(sent(found.app, conversation(found)))
        closed(found)
    refusals = 0
    for left, right in zip(*replies, strict=True):
        assert left.status_code == right.status_code
        ours, theirs = (
            {name: value for name, value in reply.headers.items() if name not in ("x-request-id", "date", "content-length")}
            for reply in (left, right)
        )
        assert ours == theirs
        if left.status_code != 200:
            refusals += 1
            assert len(left.content) == len(right.content)
            alike = [re.sub(r'"request_id":"[0-9a-f]+"', "", reply.text) for reply in (left, right)]
            assert alike[0] == alike[1]
    assert refusals >= 4


def test_p8_the_canary_is_in_no_log_metric_header_or_body(tmp_path):
    found = made(tmp_path)
    lines = io.StringIO()
    logger = logging.getLogger("holdtrue.service")
    before = logger.handlers[:], logger.level, logger.propagate
    telemetry.configure_logs(lines)
    try:
        requests = [
            item
            for item in conversation(found)
            if CANARY not in str(item[2].get("json")) and str(CANARY_NUMBER) not in str(item)
        ]
        owner = {"Authorization": f"Bearer {found.keys['owner']}"}
        ask = {"json": {"query": "note LIKE 'k%' AND age > 98"}, "headers": owner | {"Idempotency-Key": "near"}}
        requests.append(("POST", "/v1/datasets/people/ask", ask))
        requests += [
            ("GET", path, {"headers": owner}) for path in ("/metrics", "/v1/datasets/people/history", "/v1/datasets")
        ]
        replies = sent(found.app, requests)
    finally:
        logger.handlers[:], logger.level, logger.propagate = before
        closed(found)
    seen = lines.getvalue() + "".join(reply.text + str(reply.headers) for reply in replies)
    assert CANARY not in seen
    assert str(CANARY_NUMBER) not in seen
    logged = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert len(logged) == len(requests)
    assert all(set(line) == {"time", "request_id", "method", "route", "status", "key", "entry"} for line in logged)
    assert "LIKE" not in lines.getvalue()
    assert {line["route"] for line in logged} >= {"/v1/datasets/{name}/ask", "/metrics"}


def test_refused_carries_its_headers():
    reply = to_problem(Refused(429, "too many requests", "wait", headers={"Retry-After": "3"}))
    assert reply.headers["retry-after"] == "3"
    assert json.loads(reply.body)["type"] == "urn:holdtrue:too-many-requests"


def test_a_part_that_is_not_installed_is_named():
    document = json.loads(to_problem(MissingExtra("mcp", purpose="the address for agents")).body)
    assert document["detail"] == "the address for agents needs an extra package: pip install 'holdtrue[mcp]'"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (InvalidParameter("sets", 3, "'pairs', 'triples', or a list"), "sets must be 'pairs', 'triples', or a list"),
        (
            UnsupportedQuery("a quote is not closed; text stands in '...', a name in \"...\""),
            "text stands in '...', a name in \"...\"",
        ),
        (UnsupportedQuery(f"'pairs' of '{MARK}'"), "'pairs' of …"),
    ],
)
def test_words_of_our_own_stay_where_quotations_of_the_request_are_left_out(error, told):
    assert told in json.loads(to_problem(error, request_id="one").body)["detail"]
