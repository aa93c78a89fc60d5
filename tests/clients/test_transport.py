"""Retries: what is sent again, under which key, and that a lost answer is never paid for twice."""

import json
import time
import zlib
from types import SimpleNamespace

import httpx
import numpy as np
import pytest

import holdtrue as ht
from clients.relays import Relay, cuts, passes, says
from holdtrue.clients import Unreachable, transport
from holdtrue.clients.transport import make_error
from holdtrue.errors import HoldtrueError


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch):
    """Note how long a client would have waited, and do not wait."""
    monkeypatch.setattr(transport, "time", SimpleNamespace(sleep=_WAITED.append))
    _WAITED.clear()


_WAITED: list[float] = []
ANSWER = {
    "record": "answer",
    "value": 0.25,
    "interval": None,
    "sample_interval": {"record": "interval", "low": 0.2, "high": 0.3, "confidence": 0.95, "target": "sample"},
    "certificate": {
        "record": "certificate",
        "event": {"kind": "NoCost"},
        "cost": 0.0,
        "spent": 0.0,
        "left": 1.0,
        "entry": 1,
        "digest": "00",
        "theorem": None,
        "epsilon": 1.0,
        "delta": 0.0,
    },
    "reason": "none was declared",
    "repeated": False,
}
GOOD = says(200, json.dumps(ANSWER).encode())


def problem(kind: str, status: int, **fields: object) -> bytes:
    return json.dumps({"type": f"urn:holdtrue:{kind}", "title": kind, "status": status, "detail": "no", **fields}).encode()


def asked(relay: Relay, **given: object):
    with ht.connect(relay.url, "ht_key", dataset="people", **given) as remote:
        return remote.ask("age > 65")


@pytest.mark.parametrize(
    "first",
    [
        cuts(),
        cuts(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{"),
        says(502, b"<html>bad gateway</html>"),
        says(503, problem("not-ready", 503), Retry_After="1"),
        says(504),
        says(429, problem("too-many-requests", 429), Retry_After="2"),
        says(429),
    ],
)
def test_what_may_pass_is_sent_again_under_the_same_key(first):
    with Relay([first, first, GOOD]) as relay:
        assert asked(relay).value == 0.25
    assert len(relay.requests) == 3
    assert len(set(relay.keys)) == 1
    assert relay.keys[0]
    assert len({body for *_, body in relay.requests}) == 1


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (says(502, problem("release-error", 502, entry=7)), ht.ReleaseError),
        (says(429, problem("budget-exceeded", 429, requested=0.5, left=0.25, unit="mu squared")), ht.BudgetExceeded),
        (says(422, problem("insufficient-samples", 422, required=12)), ht.InsufficientSamples),
        (says(500, problem("integrity-error", 500)), ht.IntegrityError),
        (says(500, b"not ours"), HoldtrueError),
        (says(404, b"not ours"), ht.UnknownName),
        (says(400, problem("unreadable-body", 400)), ht.RequestError),
        (says(409, problem("key-used-before", 409)), ht.RefusedError),
        (says(200, b"no JSON"), HoldtrueError),
        (says(200, b'{"record":"choice"}'), HoldtrueError),
    ],
)
def test_what_the_curator_said_is_not_asked_again(line, error):
    with Relay([line]) as relay, pytest.raises(error) as refused:
        asked(relay)
    assert len(relay.requests) == 1
    assert type(refused.value) is error


def test_tries_are_bounded_and_pauses_grow():
    with Relay([cuts()]) as relay, pytest.raises(Unreachable, match="in 4 tries") as lost:
        asked(relay, retries=3)
    assert len(relay.requests) == 4
    assert isinstance(lost.value, ConnectionError)
    assert lost.value.key == relay.keys[0]
    assert repr(lost.value.key) in str(lost.value)
    assert len(_WAITED) == 3
    assert sorted(_WAITED) == _WAITED
    assert _WAITED[2] >= 3.9 * _WAITED[0]
    with pytest.raises(Unreachable), ht.connect("http://127.0.0.1:9", "ht_key", dataset="a", retries=1) as remote:
        remote.ask("age > 65")


def test_the_service_says_how_long_to_wait():
    with Relay([says(429, b"{}", Retry_After="3"), GOOD]) as relay:
        asked(relay)
    assert _WAITED == [3.0]
    with Relay([says(429, b"{}", Retry_After="3600")]) as relay, pytest.raises(ht.RefusedError):
        asked(relay)
    assert len(relay.requests) == 1


def test_a_slow_answer_is_asked_for_again():
    def slow(handler, body):
        del body
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            pass
        handler.cut()

    with Relay([slow, GOOD]) as relay:
        assert asked(relay, timeout=0.3).value == 0.25
    assert len(set(relay.keys)) == 1


def test_the_key_does_not_follow_a_redirect():
    with Relay([GOOD]) as elsewhere:
        with (
            Relay([says(307, b"", Location=f"{elsewhere.url}/v1/datasets/people/ask")]) as relay,
            pytest.raises(HoldtrueError),
        ):
            asked(relay)
        assert not elsewhere.requests


def test_a_chosen_key_is_sent_and_a_new_one_is_taken_for_each_call():
    with Relay([GOOD]) as relay, ht.connect(relay.url, "ht_key", dataset="people") as remote:
        remote.ask("age > 65", key="mine")
        remote.ask("age > 65")
        remote.ask("age > 65")
    assert relay.keys[0] == "mine"
    assert len(set(relay.keys)) == 3
    assert all(headers["authorization"] == "Bearer ht_key" for _, _, headers, _ in relay.requests)


def test_names_cannot_leave_their_place_in_the_path():
    with Relay([says(404, b"{}")]) as relay, ht.connect(relay.url, "ht_key") as remote:
        for name in ("../keys", "a/b", "a?b", "a#b", "%2e%2e"):
            with pytest.raises(ht.UnknownName):
                remote.dataset(name).ask("age > 65")
        for name in ("", ".", ".."):
            with pytest.raises(ht.UnknownName):
                remote.holdout(name)
    paths = [path for _, path, _, _ in relay.requests]
    assert all(path.startswith("/v1/datasets/") and path.count("/") == 4 and "?" not in path for path in paths)


@pytest.mark.parametrize(
    ("url", "way"),
    [
        ("http://localhost:1/datasets/visits", "dataset='visits'"),
        ("http://localhost:1/v1/holdouts/exam/", "holdout('exam')"),
    ],
)
def test_the_address_of_a_page_says_how_to_name_what_is_there(url, way):
    with pytest.raises(ht.InvalidParameter) as refused:
        ht.connect(url, "ht_key")
    assert str(refused.value).startswith("url is the service's own address, 'http://localhost:1'; ")
    assert way in str(refused.value)


_WORDS = {"entry", "required", "left", "unit", "requested", "parameter"}
_FACTS = {
    "BudgetExceeded": {"requested", "left", "unit"},
    "InsufficientSamples": {"required"},
    "InvalidParameter": {"parameter"},
    "ReleaseError": {"entry"},
}


def test_every_error_of_the_tree_comes_back_with_its_fields():
    for name in ht.errors.__all__:
        kind = "".join(f"-{sign.lower()}" if sign.isupper() else sign for sign in name).lstrip("-")
        document = {
            "type": f"urn:holdtrue:{kind}",
            "detail": "words",
            "entry": 3,
            "required": 9,
            "left": 0.5,
            "unit": "looks",
        }
        error = make_error(400, document | {"requested": 1, "parameter": "alpha"})
        assert type(error).__name__ == name
        assert str(error) == "words"
        refused = {"parameter"} if isinstance(error, ht.RefusedError) else set()
        assert {word for word in _WORDS if hasattr(error, word)} == _FACTS.get(name, set()) | refused
        assert getattr(error, "parameter", "alpha") == "alpha"
    assert make_error(422, {"type": "urn:holdtrue:insufficient-samples", "detail": "few", "required": 9}).required == 9
    assert (
        make_error(429, {"type": "urn:holdtrue:budget-exceeded", "requested": 1, "left": 0.5, "unit": "looks"}).unit
        == "looks"
    )
    assert type(make_error(418, {"type": "urn:holdtrue:os", "detail": 5})) is ht.RequestError


@pytest.fixture
def cases(served, request):
    """A private holdout on which every submission of results is a look: paid twice, if it is sent under two keys."""
    name = "cases-" + str(zlib.crc32(request.node.name.encode()))
    headers = {"Authorization": f"Bearer {served.key('custodian', 'owner')}"}
    made = httpx.post(f"{served.url}/v1/holdouts", json={"name": name, "cases": 4000, "looks": 10}, headers=headers)
    assert made.status_code == 201, made.text
    return name


@pytest.mark.parametrize("lose", ["whole", "middle"])
def test_a_lost_answer_is_fetched_again_without_a_second_charge(served, cases, lose):
    results = np.random.default_rng(4).integers(0, 2, 4000)
    lost = passes(served.url, lose=lose)
    with Relay([lost, lost, passes(served.url)]) as relay, ht.connect(relay.url, served.key("ann")) as remote:
        score = remote.holdout(cases).score(cases=results)
    with ht.connect(served.url, served.key("ann")) as remote:
        assert remote.holdout(cases).looks_left == score.looks_left == 9
        with Relay([passes(served.url)]) as again, ht.connect(again.url, served.key("ann")) as other:
            assert other.holdout(cases).score(cases=results, key=relay.keys[0]) == score
        assert remote.holdout(cases).looks_left == 9


def test_planted_fault_a_new_key_for_each_try_is_charged_twice(served, cases, monkeypatch):
    """Control: the test above sees a client that names its tries differently."""
    results = np.random.default_rng(5).integers(0, 2, 4000)
    tried = transport.Transport._send_with_retries

    def renamed(wire, method, path, body, key):
        try:
            wire.retries = 0
            return tried(wire, method, path, body, key)
        except Unreachable:
            return tried(wire, method, path, body, f"{key}-again")

    monkeypatch.setattr(transport.Transport, "_send_with_retries", renamed)
    script = [passes(served.url, lose="whole"), passes(served.url)]
    with Relay(script) as relay, ht.connect(relay.url, served.key("ann")) as remote:
        remote.holdout(cases).score(cases=results)
    with ht.connect(served.url, served.key("ann")) as remote:
        assert remote.holdout(cases).looks_left == 8
