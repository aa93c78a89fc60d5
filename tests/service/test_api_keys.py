"""Keys: 256 bits, shown once, kept as digests, compared in constant time, revoked at once in every worker."""

import asyncio
import base64
import hmac
import multiprocessing
import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdtrue.errors import InvalidParameter, RefusedError, Unauthorized, UnknownName
from holdtrue.service.database import open_database
from holdtrue.service.http.problems import Refused
from holdtrue.service.identity import Caller
from holdtrue.service.identity import api_keys as keys
from holdtrue.service.identity.api_keys import SECONDS, Keyring
from holdtrue.service.settings import Settings
from service.conftest import made
from service.living import living


class Clock:
    """A clock that the test moves."""

    def __init__(self, now=1_800_000_000.0):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def settings(tmp_path):
    return Settings(home=tmp_path / "home")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def keyring(settings, clock):
    database = open_database(settings)
    made = Keyring(database, now=clock)
    yield made
    made.close()
    database.close()


def test_a_key_is_256_bits_behind_a_prefix(keyring):
    texts = [keyring.create("ann", "analyst")[0] for _ in range(50)]
    assert all(re.fullmatch(r"ht_[a-z2-7]{8}_[A-Za-z0-9_-]{43}", text) for text in texts)
    secrets = {base64.urlsafe_b64decode(text[12:] + "=") for text in texts}
    assert len(secrets) == 50
    assert {len(secret) for secret in secrets} == {32}
    assert len({text[3:11] for text in texts}) == 50


def test_a_key_is_known_by_its_whole_text(keyring):
    text, key = keyring.create("ann", "analyst", {"people": 10})
    assert keyring.check(text) == Caller("ann", "analyst", key.prefix)
    assert asyncio.run(keyring.find_caller(text)) == Caller("ann", "analyst", key.prefix)
    for wrong in (text[:-1], text + "A", text.upper(), " " + text, text.replace("_", "-", 1), text[:12] + text[13:] + "A"):
        with pytest.raises(Unauthorized):
            keyring.check(wrong)


def test_every_changed_character_is_another_key(keyring):
    text, _ = keyring.create("ann", "analyst")
    for place in range(len(text)):
        changed = text[:place] + ("B" if text[place] == "A" else "A") + text[place + 1 :]
        with pytest.raises(Unauthorized):
            keyring.check(changed)


def test_the_secret_is_nowhere_in_the_database(keyring, settings):
    text, _ = keyring.create("ann", "analyst")
    content = (settings.home / "service.db").read_bytes()
    assert text.encode() not in content
    assert text[12:].encode() not in content
    assert base64.urlsafe_b64decode(text[12:] + "=") not in content
    assert (settings.home / "service.db").stat().st_mode & 0o077 == 0


def test_what_is_stored_is_the_hmac_under_the_pepper(keyring, settings):
    text, key = keyring.create("ann", "analyst")
    with sqlite3.connect(settings.home / "service.db") as connection:
        (pepper,) = connection.execute("SELECT value FROM secrets WHERE name = 'pepper'").fetchone()
        (digest,) = connection.execute("SELECT digest FROM keys WHERE prefix = ?", (key.prefix,)).fetchone()
    connection.close()
    assert len(bytes.fromhex(pepper)) == 32
    assert digest == hmac.digest(pepper.encode(), text.encode(), "sha256").hex()


def test_a_pepper_from_outside_is_not_in_the_database(settings, monkeypatch):
    database = open_database(settings)
    monkeypatch.setenv("HOLDTRUE_PEPPER", "p" * 40)
    keyring = Keyring(database)
    text, _ = keyring.create("ann", "analyst")
    assert keyring.check(text).name == "ann"
    monkeypatch.setenv("HOLDTRUE_PEPPER", "q" * 40)
    with pytest.raises(Unauthorized):
        Keyring(database).check(text)
    monkeypatch.setenv("HOLDTRUE_PEPPER", "short")
    with pytest.raises(InvalidParameter) as refused:
        Keyring(database)
    assert "short" not in str(refused.value)
    database.close()


def _refusals(keyring, clock):
    """Return one text for each reason to refuse."""
    revoked, gone = keyring.create("rex", "analyst")
    keyring.revoke(gone.prefix)
    expired, _ = keyring.create("eve", "analyst", expires=int(clock.now) + 5)
    valid, key = keyring.create("ann", "analyst")
    clock.now += 10
    wrong = f"ht_{key.prefix}_{'A' * 43}"
    unknown = f"ht_aaaaaaaa_{'A' * 43}"
    malformed = ["", "ht_", "x" * 100_000, "ht_short_x", "é" * 60, "\ud800", "Bearer", valid[:-1]]
    return {"revoked": revoked, "expired": expired, "wrong": wrong, "unknown": unknown} | dict(enumerate(malformed))


def test_every_reason_is_refused_alike(keyring, clock):
    said = set()
    for text in _refusals(keyring, clock).values():
        for check in (keyring.check, lambda text: asyncio.run(keyring.find_caller(text))):
            with pytest.raises(Unauthorized) as refused:
                check(text)
            said.add((type(refused.value), str(refused.value)))
    assert len(said) == 1


def test_every_reason_costs_one_read_one_digest_and_one_comparison(keyring, clock, monkeypatch):
    work = []
    digest, compare, rows = keyring.make_digest, hmac.compare_digest, keyring._read_rows
    monkeypatch.setattr(keyring, "make_digest", lambda text: work.append("digest") or digest(text))
    monkeypatch.setattr(keys.hmac, "compare_digest", lambda a, b: work.append(f"compare {len(a)} {len(b)}") or compare(a, b))
    monkeypatch.setattr(keyring, "_read_rows", lambda prefixes: work.append("read") or rows(prefixes))
    texts = _refusals(keyring, clock)
    done = set()
    for text in texts.values():
        work.clear()
        with pytest.raises(Unauthorized):
            keyring.check(text)
        done.add(tuple(work))
    assert done == {("read", "digest", "compare 64 64")}


def test_a_lookup_without_the_comparison_is_caught(keyring, monkeypatch):
    # The planted fault: whoever knows the prefix comes in.
    _, key = keyring.create("ann", "analyst")
    wrong = f"ht_{key.prefix}_{'A' * 43}"
    monkeypatch.setattr(keys.hmac, "compare_digest", lambda *_: True)
    assert keyring.check(wrong).name == "ann"
    monkeypatch.undo()
    with pytest.raises(Unauthorized):
        keyring.check(wrong)


def test_a_key_expires_to_the_second(keyring, clock):
    text, key = keyring.create("ann", "analyst", expires=int(clock.now) + 60)
    clock.now = key.expires - 1
    assert keyring.check(text).name == "ann"
    clock.now = key.expires
    with pytest.raises(Unauthorized):
        keyring.check(text)


def _other_worker(settings, texts, answers):
    keyring = Keyring(open_database(settings))
    for text in iter(texts.get, None):
        try:
            answers.put(asyncio.run(keyring.find_caller(text)).name)
        except Unauthorized:
            answers.put(None)


def test_a_revocation_counts_at_once_in_every_worker(keyring, settings):
    fresh = multiprocessing.get_context("spawn")
    texts, answers = fresh.Queue(), fresh.Queue()
    worker = fresh.Process(target=_other_worker, args=(settings, texts, answers))
    worker.start()
    for _ in range(10):
        text, key = keyring.create("ann", "analyst")
        texts.put(text)
        assert answers.get(timeout=60) == "ann"
        keyring.revoke(key.prefix)
        texts.put(text)
        assert answers.get(timeout=60) is None
    texts.put(None)
    worker.join(60)
    assert worker.exitcode == 0


def _counted(keyring, monkeypatch):
    reads, rows = [], keyring._read_rows
    monkeypatch.setattr(keyring._reading, "_rows", lambda prefixes: reads.append(1) or rows(prefixes))
    return reads


def test_a_valid_key_is_read_once_until_something_is_written(keyring, monkeypatch):
    reads = _counted(keyring, monkeypatch)
    text, _ = keyring.create("ann", "analyst")
    for _ in range(5):
        assert asyncio.run(keyring.find_caller(text)).name == "ann"
    assert len(reads) == 1
    keyring.create("bob", "analyst")
    assert asyncio.run(keyring.find_caller(text)).name == "ann"
    assert len(reads) == 2


def test_a_remembered_key_still_expires(keyring, clock):
    text, key = keyring.create("ann", "analyst", expires=int(clock.now) + 60)
    assert asyncio.run(keyring.find_caller(text)).name == "ann"
    clock.now = key.expires
    with pytest.raises(Unauthorized):
        asyncio.run(keyring.find_caller(text))


def test_what_is_refused_is_never_remembered(keyring, clock, monkeypatch):
    texts = _refusals(keyring, clock)
    reads = _counted(keyring, monkeypatch)
    for text in texts.values():
        for _ in range(2):
            with pytest.raises(Unauthorized):
                asyncio.run(keyring.find_caller(text))
    assert len(reads) == 2 * len(texts)


def test_a_memory_that_does_not_see_commits_is_caught(keyring, monkeypatch):
    # The planted fault: a version that never changes. The same steps with the real one refuse the key.
    found = []
    for planted in (True, False):
        text, key = keyring.create("ann", "analyst")
        with monkeypatch.context() as fault:
            if planted:
                fault.setattr(keyring._version, "read_now", lambda: 7)
            asyncio.run(keyring.find_caller(text))
            keyring.revoke(key.prefix)
            try:
                found.append(asyncio.run(keyring.find_caller(text)).name)
            except Unauthorized:
                found.append(None)
    assert found == ["ann", None]


def test_while_somebody_writes_nobody_waits_for_a_version(keyring, settings):
    text, _ = keyring.create("ann", "analyst")
    assert asyncio.run(keyring.find_caller(text)).name == "ann"
    other = sqlite3.connect(settings.home / "service.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert keyring._version.read_now() is None
    other.execute("ROLLBACK")
    other.close()
    assert keyring._version.read_now() is not None


def test_many_at_once_are_read_together_and_each_gets_its_own(keyring, monkeypatch):
    known = [keyring.create(f"analyst {number}", "analyst") for number in range(40)]
    reads = []
    rows = keyring._read_rows
    monkeypatch.setattr(keyring._reading, "_rows", lambda prefixes: reads.append(len(set(prefixes))) or rows(prefixes))

    async def all_at_once():
        wrong = f"ht_{known[0][1].prefix}_{'A' * 43}"
        return await asyncio.gather(
            *(keyring.find_caller(text) for text, _ in known), keyring.find_caller(wrong), return_exceptions=True
        )

    *callers, refused = asyncio.run(all_at_once())
    assert [caller.name for caller in callers] == [f"analyst {number}" for number in range(40)]
    assert isinstance(refused, Unauthorized)
    assert len(reads) < 10


def test_a_read_that_fails_is_told_to_all_who_waited_and_to_nobody_after(keyring, monkeypatch):
    text, _ = keyring.create("ann", "analyst")

    def broken(_):
        raise sqlite3.OperationalError

    async def both():
        return await asyncio.gather(keyring.find_caller(text), keyring.find_caller(text), return_exceptions=True)

    with monkeypatch.context() as planted:
        planted.setattr(keyring._reading, "_rows", broken)
        assert {type(each) for each in asyncio.run(both())} == {sqlite3.OperationalError}
    assert asyncio.run(keyring.find_caller(text)).name == "ann"


def test_a_read_begins_after_the_request_that_waits_for_it(keyring):
    text, key = keyring.create("ann", "analyst")

    async def again():
        first = asyncio.create_task(keyring.find_caller(text))
        await asyncio.sleep(0)  # the first read is under way
        keyring.revoke(key.prefix)
        second = asyncio.create_task(keyring.find_caller(text))
        return await asyncio.gather(first, second, return_exceptions=True)

    assert isinstance(asyncio.run(again())[1], Unauthorized)


def test_only_one_first_key_is_made_however_many_start_at_once(settings):
    def first(_):
        database = open_database(settings)
        try:
            return Keyring(database).create_first()
        finally:
            database.close()

    with ThreadPoolExecutor(8) as pool:
        made = [text for text in pool.map(first, range(16)) if text]
    assert len(made) == 1


def test_the_first_key_is_the_owners_even_after_others_were_given(keyring):
    keyring.create("ann", "analyst")
    text = keyring.create_first()
    assert keyring.check(text).role == "owner"
    keyring.revoke(text[3:11])
    assert keyring.create_first() is None


def test_a_list_shows_everything_but_the_secret(keyring):
    text, _ = keyring.create("ann", "analyst", {"people": 10})
    keyring.create("bob", "auditor")
    first, second = sorted(keyring.list(), key=lambda key: key.name)
    assert (first.name, first.allowances, second.role) == ("ann", {"people": 10}, "auditor")
    assert text[12:] not in repr(keyring.list())
    revoked = keyring.revoke(first.prefix)
    assert revoked.revoked is not None
    assert keyring.revoke(first.prefix).revoked == revoked.revoked


@pytest.mark.parametrize("prefix", ["aaaaaaaa", "", "%", "a' OR '1'='1"])
def test_an_unknown_prefix_cannot_be_revoked(keyring, prefix):
    keyring.create("ann", "analyst")
    with pytest.raises(UnknownName):
        keyring.revoke(prefix)
    assert keyring.list()[0].revoked is None


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("name", {"name": ""}),
        ("name", {"name": " ann"}),
        ("name", {"name": "a\nb"}),
        ("name", {"name": "a" * 101}),
        ("name", {"name": "oidc:ann"}),
        ("role", {"role": "root"}),
        ("allowances", {"allowances": {"people": -1}}),
        ("allowances", {"allowances": {"people": 1.5}}),
        ("allowances", {"allowances": {"people": True}}),
        ("expires", {"expires": 1}),
    ],
)
def test_what_no_key_may_have_is_refused(keyring, name, given):
    with pytest.raises(InvalidParameter) as refused:
        keyring.create(**({"name": "ann", "role": "analyst"} | given))
    assert refused.value.parameter == name
    assert keyring.list() == []


def test_a_session_stands_for_its_key_for_twelve_hours(keyring, clock):
    text, _ = keyring.create("ann", "analyst")
    caller = keyring.check(text)
    cookie = keyring.sessions.begin(caller)
    clock.now += SECONDS - 1
    assert keyring.sessions.caller_of(cookie) == caller
    clock.now += 1
    with pytest.raises(Unauthorized):
        keyring.sessions.caller_of(cookie)


def test_a_session_ends_with_its_key_and_by_itself(keyring, settings):
    text, key = keyring.create("ann", "analyst")
    caller = keyring.check(text)
    one, two, three = (keyring.sessions.begin(caller) for _ in range(3))
    assert one.encode() not in (settings.home / "service.db").read_bytes()
    keyring.sessions.end(one)
    assert keyring.sessions.caller_of(two) == caller
    keyring.revoke(key.prefix)
    for cookie in (one, two, three, "", text, "A" * 43, two + "A"):
        with pytest.raises(Unauthorized):
            keyring.sessions.caller_of(cookie)


def test_neither_a_cookie_is_a_key_nor_a_key_a_cookie(keyring):
    text, _ = keyring.create("ann", "analyst")
    cookie = keyring.sessions.begin(keyring.check(text))
    with pytest.raises(Unauthorized):
        keyring.check(cookie)
    with pytest.raises(Unauthorized):
        keyring.sessions.caller_of(text)


def test_a_token_opens_no_page(keyring):
    with pytest.raises(RefusedError):
        keyring.sessions.begin(Caller("oidc:ann", "analyst", "oidc"))


def test_the_last_owners_key_is_not_revoked_over_the_api(tmp_path):
    found = made(tmp_path)
    keyring = found.service.keyring
    (first,) = [key.prefix for key in keyring.list() if key.role == "owner"]
    headers = {"Authorization": f"Bearer {found.keys['owner']}"}
    with living(found.app) as client:
        refused = client.delete(f"/v1/keys/{first}", headers=headers)
        assert (refused.status_code, refused.json()["type"]) == (409, "urn:holdtrue:last-owner")
        assert client.get("/v1/keys", headers=headers).status_code == 200
        second = client.post("/v1/keys", headers=headers, json={"name": "bob", "role": "owner"}).json()
        assert client.delete(f"/v1/keys/{first}", headers=headers).status_code == 200
        assert client.delete(f"/v1/keys/{first}", headers=headers).status_code == 401
        last = {"Authorization": f"Bearer {second['key']}"}
        assert client.delete(f"/v1/keys/{second['prefix']}", headers=last).status_code == 409
        # The control: without the check the last one goes, and with it every right of an owner.
        keyring.revoke(second["prefix"])
        assert client.get("/v1/keys", headers=last).status_code == 401


def test_an_owners_key_that_expires_or_is_revoked_does_not_count(keyring, clock):
    _, first = keyring.create("ann", "owner")
    _, brief = keyring.create("eve", "owner", expires=int(clock.now) + 5)
    clock.now += 10
    with pytest.raises(Refused, match="last owner"):
        keyring.revoke(first.prefix, keep_owner=True)
    keyring.revoke(brief.prefix, keep_owner=True)
    _, other = keyring.create("analyst", "analyst")
    assert keyring.revoke(other.prefix, keep_owner=True).revoked is not None
