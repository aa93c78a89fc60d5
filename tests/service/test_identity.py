"""Who comes in: one and the same 401 for every reason, roles, rates, cookies that do not count, idempotency keys."""

import hashlib
import json
from typing import Annotated

import pytest
from fastapi import Depends, FastAPI

from holdtrue.service import create
from holdtrue.service.identity import Analyst, Anyone, Auditor, Caller, IdempotencyKey, Owner, request_id_of
from holdtrue.service.settings import Settings
from service.living import living

ROWS = (
    "age,smoker\n" + "\n".join(f"{20 + number % 60},{'true' if number % 3 else 'false'}" for number in range(20_000)) + "\n"
)


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """A whole service with one dataset, and four routes that say who came in."""
    folder = tmp_path_factory.mktemp("callers")
    (folder / "people.csv").write_text(ROWS, encoding="utf-8")
    made: FastAPI = create(Settings(home=folder / "home", tick=0.0, rate="100000/minute"))

    async def said(caller: Caller) -> dict[str, str]:
        return {"name": caller.name, "role": caller.role, "prefix": caller.prefix}

    for name, kind in {"anyone": Anyone, "analyst": Analyst, "auditor": Auditor, "owner": Owner}.items():

        async def route(caller: kind):
            return await said(caller)

        made.add_api_route(f"/v1/test/{name}", route, methods=["GET"])

    async def keyed(request_id: IdempotencyKey, again: Annotated[str, Depends(lambda: "x")]):
        return {"request_id": request_id, "again": again}

    made.add_api_route("/v1/test/keyed", keyed, methods=["POST"])
    return made


@pytest.fixture(scope="module")
def client(app):
    with living(app) as made:
        yield made


@pytest.fixture(scope="module")
def keyring(app):
    return app.state.service.keyring


@pytest.fixture(scope="module")
def texts(keyring):
    return {role: keyring.create(f"{role} one", role)[0] for role in ("owner", "analyst", "auditor")}


def bearer(text, **more):
    return {"Authorization": f"Bearer {text}"} | more


@pytest.fixture(scope="module")
def people(client, texts):
    body = {
        "name": "people",
        "path": "people.csv",
        "queries": 100,
        "iid": True,
        "types": {"age": "integer", "smoker": "boolean"},
    }
    made = client.post("/v1/datasets", json=body, headers=bearer(texts["owner"], **{"Idempotency-Key": "people"}))
    assert made.status_code < 300, made.text
    return "people"


def _refused(keyring):
    revoked, gone = keyring.create("rex", "analyst")
    keyring.revoke(gone.prefix)
    expired, _ = keyring.create("eve", "analyst", expires=2**40)
    valid, key = keyring.create("ann", "analyst")
    return {
        "nothing": {},
        "empty": {"Authorization": ""},
        "scheme alone": {"Authorization": "Bearer"},
        "another scheme": {"Authorization": f"Basic {valid}"},
        "no scheme": {"Authorization": valid},
        "malformed": bearer("ht_x"),
        "long": bearer("h" * 8000),
        "two words": bearer(f"{valid} {valid}"),
        "with comma": bearer(f"{valid},"),
        "other letters": {"Authorization": b"Bearer \xe9\xff"},
        "unknown prefix": bearer(f"ht_aaaaaaaa_{'A' * 43}"),
        "wrong secret": bearer(f"ht_{key.prefix}_{'A' * 43}"),
        "revoked": bearer(revoked),
        "no issuer": bearer("eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ."),
        "expired": bearer(expired),
    }


def _same(response):
    headers = {name: value for name, value in response.headers.items() if name not in ("x-request-id", "date")}
    body = json.loads(response.content)
    assert body.pop("request_id") == response.headers["x-request-id"]
    return json.dumps([response.status_code, len(response.content), sorted(headers.items()), body])


def test_every_401_is_the_same(client, keyring, monkeypatch):
    reasons = _refused(keyring)
    now = keyring._now
    monkeypatch.setattr(keyring, "_now", lambda: now() + 2**41)
    for path in ("/v1/test/anyone", "/v1/test/owner", "/v1/me", "/v1/keys"):
        answers = {name: client.get(path, headers=headers) for name, headers in reasons.items()}
        assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(reasons, 401)
        assert len({_same(answer) for answer in answers.values()}) == 1, path
    assert answers["nothing"].headers["www-authenticate"] == "Bearer"
    assert answers["nothing"].headers["content-type"] == "application/problem+json"
    assert answers["nothing"].json()["type"] == "urn:holdtrue:unauthorized"


def test_two_authorization_headers_are_as_good_as_none(client, texts):
    pair = [("Authorization", f"Bearer {texts['owner']}"), ("Authorization", f"Bearer {texts['owner']}")]
    assert client.get("/v1/me", headers=pair).status_code == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_is_read_in_any_case(client, texts, scheme):
    assert client.get("/v1/me", headers={"Authorization": f"{scheme} {texts['owner']}"}).status_code == 200


ALLOWED = {
    "anyone": {"owner", "analyst", "auditor"},
    "analyst": {"owner", "analyst"},
    "auditor": {"owner", "auditor"},
    "owner": {"owner"},
}


@pytest.mark.parametrize("route", ALLOWED)
@pytest.mark.parametrize("role", ["owner", "analyst", "auditor"])
def test_a_role_opens_what_it_should_and_nothing_else(client, texts, route, role):
    answer = client.get(f"/v1/test/{route}", headers=bearer(texts[role]))
    assert answer.status_code == (200 if role in ALLOWED[route] else 403)
    if answer.status_code == 403:
        assert answer.headers["content-type"] == "application/problem+json"
        assert "www-authenticate" not in answer.headers
    else:
        assert answer.json() == {"name": f"{role} one", "role": role, "prefix": texts[role][3:11]}


def test_a_cookie_never_opens_the_api(client, keyring, texts):
    cookie = keyring.sessions.begin(keyring.check(texts["owner"]))
    for value in (cookie, texts["owner"]):
        for name in ("holdtrue_session", "session", "Authorization"):
            assert client.get("/v1/me", headers={"Cookie": f"{name}={value}"}).status_code == 401


def test_a_revoked_key_is_out_at_the_next_request(client, keyring, texts):
    text, key = keyring.create("rex", "analyst")
    assert client.get("/v1/me", headers=bearer(text)).status_code == 200
    gone = client.delete(f"/v1/keys/{key.prefix}", headers=bearer(texts["owner"]))
    assert gone.status_code == 200
    assert gone.json()["revoked"] is not None
    assert client.get("/v1/me", headers=bearer(text)).status_code == 401


def test_the_ledgers_request_id_is_the_callers_own(client, texts):
    found = {}
    for role in ("owner", "analyst"):
        answer = client.post("/v1/test/keyed", headers=bearer(texts[role], **{"Idempotency-Key": "again"}))
        found[role] = answer.json()["request_id"]
        assert found[role] == hashlib.sha256(f"{role} one\nagain".encode()).hexdigest()
    assert found["owner"] != found["analyst"]


def test_names_and_keys_cannot_be_shifted_into_each_other():
    one, two = Caller("ann", "analyst", "a"), Caller("ann b", "analyst", "b")
    assert request_id_of(one, "b x") != request_id_of(two, "x")
    assert request_id_of(one, "x") == request_id_of(Caller("ann", "owner", "c"), "x")


@pytest.mark.parametrize("key", [None, "", "a" * 129, "a\tb", b"\xc3\xa9"])
def test_a_missing_or_unfit_idempotency_key_is_a_400(client, texts, key):
    headers = bearer(texts["analyst"]) if key is None else bearer(texts["analyst"], **{"Idempotency-Key": key})
    answer = client.post("/v1/test/keyed", headers=headers)
    assert answer.status_code == 400
    assert answer.json()["type"] == "urn:holdtrue:idempotency-key-needed"


def test_without_a_key_an_idempotency_key_says_nothing(client):
    assert client.post("/v1/test/keyed").status_code == 401


def test_keys_are_given_shown_once_and_listed_without_secret(client, texts, people):
    body = {"name": "new", "role": "analyst", "allowances": {people: 7}, "days": 3}
    made = client.post("/v1/keys", json=body, headers=bearer(texts["owner"]))
    assert made.status_code == 201
    text = made.json()["key"]
    listed = client.get("/v1/keys", headers=bearer(texts["owner"])).text
    assert made.json()["prefix"] in listed
    assert text not in listed
    assert text[12:] not in listed
    share = client.get("/v1/me", headers=bearer(text)).json()["datasets"][0]
    assert (share["dataset"], share["allowed_asks"], share["asks_left"], share["spent"]) == (people, 7, 7, 0.0)
    asked = client.post(
        f"/v1/datasets/{people}/ask", json={"query": "age > 30"}, headers=bearer(text, **{"Idempotency-Key": "1"})
    )
    assert asked.status_code == 200, asked.text
    share = client.get("/v1/me", headers=bearer(text)).json()["datasets"][0]
    assert share["asks_left"] == 6
    assert share["spent"] > 0
    assert share["spent"] + share["left"] == pytest.approx(share["allowance"])


def test_an_allowance_is_a_sub_limit_and_a_429_when_spent(client, texts, people):
    body = {"name": "brief", "role": "analyst", "allowances": {people: 2}}
    text = client.post("/v1/keys", json=body, headers=bearer(texts["owner"])).json()["key"]
    found = []
    for number in range(4):
        headers = bearer(text, **{"Idempotency-Key": str(number)})
        asked = client.post(f"/v1/datasets/{people}/ask", json={"query": f"age > {41 + number}"}, headers=headers)
        found.append(asked.status_code)
    assert found == [200, 200, 429, 429]
    assert asked.json()["type"] == "urn:holdtrue:budget-exceeded"


def test_a_key_for_unknown_data_is_not_given(client, keyring, texts, people):
    before = len(keyring.list())
    body = {"name": "lost", "role": "analyst", "allowances": {people: 2, "nowhere": 2}}
    answer = client.post("/v1/keys", json=body, headers=bearer(texts["owner"]))
    assert answer.status_code == 404
    assert len(keyring.list()) == before


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "a"},
        {"name": "a", "role": "root"},
        {"name": "", "role": "analyst"},
        {"name": "oidc:ann", "role": "analyst"},
        {"name": "a\u0007", "role": "analyst"},
        {"name": "a", "role": "analyst", "secret": "mine"},
        {"name": "a", "role": "analyst", "days": 0},
        {"name": "a", "role": "analyst", "days": 10**9},
        {"name": "a", "role": "analyst", "allowances": {"people": -1}},
        {"name": "a", "role": "analyst", "allowances": {"../people": 1}},
        {"name": "a", "role": "analyst", "allowances": [1]},
        [],
        "key",
    ],
)
def test_a_body_that_is_no_key_is_refused_without_a_trace(client, keyring, texts, body):
    before = len(keyring.list())
    answer = client.post("/v1/keys", json=body, headers=bearer(texts["owner"]))
    assert answer.status_code == 422
    assert "mine" not in answer.text
    assert len(keyring.list()) == before


@pytest.mark.parametrize("role", ["analyst", "auditor"])
def test_only_the_owner_deals_with_keys(client, texts, role):
    headers = bearer(texts[role])
    assert client.get("/v1/keys", headers=headers).status_code == 403
    assert client.post("/v1/keys", json={"name": "a", "role": "owner"}, headers=headers).status_code == 403
    assert client.delete(f"/v1/keys/{texts['owner'][3:11]}", headers=headers).status_code == 403


@pytest.mark.parametrize(("prefix", "status"), [("aaaaaaaa", 404), ("a", 422), ("AAAAAAAA", 422), ("%27%20OR%201", 422)])
def test_an_unknown_key_cannot_be_taken_back(client, texts, prefix, status):
    assert client.delete(f"/v1/keys/{prefix}", headers=bearer(texts["owner"])).status_code == status


def test_the_rate_of_a_key_is_its_own_and_says_when(tmp_path):
    app = create(Settings(home=tmp_path / "home", tick=0.0, rate="5/hour"))
    keyring = app.state.service.keyring
    one, two = (keyring.create(name, "analyst")[0] for name in ("one", "two"))
    with living(app) as client:
        found = [client.get("/v1/me", headers=bearer(one)) for _ in range(7)]
        assert [answer.status_code for answer in found] == [200] * 5 + [429] * 2
        assert 1 <= int(found[-1].headers["retry-after"]) <= 3_601
        assert found[-1].json()["type"] == "urn:holdtrue:too-many-requests"
        assert client.get("/v1/me", headers=bearer(two)).status_code == 200
        assert client.get("/v1/me").status_code == 401
        assert client.get("/healthz").status_code == 200
