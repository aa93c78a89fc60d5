"""Holdouts over HTTP: shared looks, once for each key, over restarts and workers; and everything hostile refused."""

import json
import logging
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import holdtrue as ht
from holdtrue.command import application
from ledgers.conftest import server as postgres  # noqa: F401 - a fixture: the PostgreSQL server that the ledgers' tests start
from service.conftest import closed, made
from service.living import living

CASES = 3_000


def truth_and(share, *, seed=0, text=False):
    """Return labels, and predictions that are right on about a share of them."""
    random = np.random.default_rng([seed, 1871])
    truth = np.random.default_rng(1871).integers(0, 2, CASES)
    said = np.where(random.random(CASES) < share, truth, 1 - truth)
    words = np.array(["no", "yes"])
    return (words[truth].tolist(), words[said].tolist()) if text else (truth.tolist(), said.tolist())


TRUTH, GOOD = truth_and(0.8)


def registered(owner, name, **given):
    response = owner.post("/v1/holdouts", json={"name": name, "y_true": TRUTH, "looks": 10} | given)
    assert response.status_code == 201, response.text
    return response.json()


def posted(client, name, verb, body, key):
    return client.post(f"/v1/holdouts/{name}/{verb}", json=body, headers={"Idempotency-Key": key})


def left(client, name):
    return client.get(f"/v1/holdouts/{name}").json()["looks_left"]


def refused(response, *statuses):
    assert response.status_code in statuses, response.text
    assert response.headers["content-type"] == "application/problem+json"
    return response.json()


def test_looks_are_shared_by_all_and_paid_once_a_key(owner, analyst):
    card = registered(owner, "shared", description="of a town")
    assert (card["kind"], card["mode"], card["cases"], card["looks_left"]) == ("holdout", "scores", CASES, 10)
    first = posted(analyst, "shared", "score", {"y_pred": GOOD}, "one")
    assert first.status_code == 200
    score = first.json()
    assert (score["record"], score["looks_left"], score["repeated"]) == ("score", 9, False)
    assert score["interval"]["low"] <= 0.8 <= score["interval"]["high"]
    assert posted(analyst, "shared", "score", {"y_pred": GOOD}, "one").content == first.content
    other = posted(owner, "shared", "score", {"y_pred": GOOD}, "one").json()
    assert (other["value"], other["repeated"]) == (score["value"], True)
    assert posted(owner, "shared", "score", {"y_pred": TRUTH}, "two").json()["looks_left"] == 8
    assert left(analyst, "shared") == 8
    assert [each["name"] for each in owner.get("/v1/holdouts").json()["holdouts"]].count("shared") == 1


def test_a_card_says_how_wide_it_is(owner):
    scores = registered(owner, "wide")
    assert scores["width"].startswith("±0.")
    assert "cases would give ±0.03; a gate with 1 yes gives ±0.0" in scores["width"]
    gate = registered(owner, "sharp", yes=3, y_true=[1 - label for label in TRUTH])
    assert "where a tenth of them differ it finds gains of 0.0" in gate["width"]


def test_a_gate_registered_by_its_number_of_cases_takes_results(owner, analyst):
    ids = [f"case {number}" for number in range(400)]
    registered(owner, "counted", y_true=None, cases=400, ids=ids, yes=3, incumbent=[0.0] * 400)
    said = posted(analyst, "counted", "gate", {"cases": [1.0] * 400, "ids": ids, "name": "a commit"}, "one").json()
    assert (said["yes"], said["looks_left"]) == (True, 9)
    wrong = posted(analyst, "counted", "gate", {"cases": [1.0] * 400, "ids": ["x", "y", *ids[2:]]}, "two")
    told = refused(wrong, 422)["detail"]
    assert "2 of the 400 ids in these results are not ids of the holdout (x, y), and 2 of its 400 cases are not" in told
    assert left(analyst, "counted") == 9


def test_the_command_scores_on_a_service(owner, service_url, owner_key, tmp_path, monkeypatch):
    """A gate and a scoring holdout by their addresses; a refusal costs nothing."""
    ids = [f"case {number}" for number in range(400)]
    for name, terms in {"far": {"yes": 3, "incumbent": [0.0] * 400}, "full": {}}.items():
        others = [f"{name} {case}" for case in ids]
        registered(owner, name, y_true=None, cases=400, ids=others, **terms)
        rows = "".join(f"{case},1\n" for case in others)
        (tmp_path / f"{name}.csv").write_text(f"id,passed\n{rows}")

    def score(name, *more, file=None):
        command = ["score", str(tmp_path / f"{file or name}.csv"), "--holdout", f"{service_url}/holdouts/{name}", *more]
        return CliRunner().invoke(application, command)

    assert "HOLDTRUE_KEY" in str(score("far").exception)
    monkeypatch.setenv("HOLDTRUE_KEY", owner_key)
    yes = score("far", "--submission", "a commit", "--json")
    assert (yes.exit_code, json.loads(yes.stdout)["yes"]) == (0, True)
    full = score("full", "--submission", "a commit")
    assert "9 of 10 left" in full.stdout
    assert "scored before" in score("full", "--submission", "a commit").stdout  # known by its public name
    assert "400 of the 400 ids" in str(score("far", file="full").exception)
    assert isinstance(score("far", "--create", "--looks", "3").exception, ht.InvalidParameter)
    assert left(owner, "far") == 9


def test_clusters_count_once(owner, analyst):
    card = registered(owner, "clustered", cluster=[number // 3 for number in range(CASES)])
    assert (card["cases"], card["clusters"]) == (CASES // 3, CASES // 3)
    score = posted(analyst, "clustered", "score", {"y_pred": GOOD}, "one").json()
    assert score["about"] == "these clusters with fresh labels"
    assert score["interval"]["low"] <= 0.8 <= score["interval"]["high"]


def test_a_key_of_another_request_is_refused(owner, analyst):
    registered(owner, "keys")
    posted(analyst, "keys", "score", {"y_pred": GOOD}, "one")
    told = refused(posted(analyst, "keys", "score", {"y_pred": TRUTH}, "one"), 409)
    assert told["type"] == "urn:holdtrue:used-key"
    refused(posted(analyst, "keys", "compare", {"first": GOOD, "second": TRUTH}, "one"), 409)
    assert posted(owner, "keys", "score", {"y_pred": TRUTH}, "one").status_code == 200
    assert left(analyst, "keys") == 8


def test_p5_many_at_once_are_one_look(owner, analyst):
    registered(owner, "crowd", cases=CASES, y_true=None)
    body = {"cases": GOOD}
    with ThreadPoolExecutor(12) as threads:
        replies = list(threads.map(lambda _: posted(analyst, "crowd", "score", body, "same"), range(24)))
    assert {reply.status_code for reply in replies} == {200}
    assert len({reply.content for reply in replies}) == 1
    assert left(analyst, "crowd") == 9
    # Control: on a private holdout the same results under another key are another look.
    posted(analyst, "crowd", "score", body, "other")
    assert left(analyst, "crowd") == 8


def test_a_used_up_holdout_says_so(owner, analyst):
    registered(owner, "short", looks=1)
    posted(analyst, "short", "score", {"y_pred": GOOD}, "one")
    told = refused(posted(analyst, "short", "score", {"y_pred": TRUTH}, "two"), 429)
    assert (told["type"], told["left"], told["requested"], told["unit"]) == ("urn:holdtrue:budget-exceeded", 0, 1, "looks")
    # A refusal frees its key.
    assert posted(analyst, "short", "score", {"y_pred": GOOD}, "two").json()["repeated"]


def test_metrics_comparisons_and_results(owner, analyst):
    registered(owner, "several", classes=[[1, sum(TRUTH)]])
    error = posted(analyst, "several", "score", {"y_pred": GOOD, "metric": "error"}, "a").json()
    accuracy = posted(analyst, "several", "score", {"y_pred": GOOD}, "b").json()
    assert error["value"] == pytest.approx(1 - accuracy["value"])
    assert accuracy["repeated"]
    recall = posted(analyst, "several", "score", {"y_pred": GOOD, "metric": "recall", "of": 1}, "c").json()
    assert recall["metric"].startswith("recall")
    gain = posted(analyst, "several", "compare", {"first": TRUTH, "second": GOOD}, "d").json()
    differing = float(np.mean(np.array(GOOD) != TRUTH))
    assert gain["interval"]["low"] <= differing <= gain["interval"]["high"] + 1e-9
    results = {"first": [1] * CASES, "second": GOOD, "results": True, "differ": [True] * CASES}
    assert posted(analyst, "several", "compare", results, "e").status_code == 200
    assert left(analyst, "several") == 6


def test_text_labels_and_ids_in_any_order(owner, analyst):
    truth, said = truth_and(0.8, text=True)
    ids = [f"case {number}" for number in range(CASES)]
    registered(owner, "texts", y_true=truth, ids=ids)
    first = posted(analyst, "texts", "score", {"y_pred": said, "ids": ids}, "a").json()
    again = posted(analyst, "texts", "score", {"y_pred": said[::-1], "ids": ids[::-1]}, "b").json()
    assert again["value"] == first["value"]
    assert again["repeated"]


def test_a_reusable_holdout(owner, analyst):
    registered(owner, "reusable", train=TRUTH, overfits=2, private=False)
    told = posted(analyst, "reusable", "score", {"y_pred": GOOD, "train": GOOD}, "a").json()
    assert told["record"] == "score"
    assert told["value"] == pytest.approx(0.8, abs=0.05)


def test_a_leaderboard_keeps_names_apart(owner, analyst):
    registered(owner, "board", kind="leaderboard", looks=None, submissions=10, rule="ladder")
    first = posted(analyst, "board", "submit", {"y_pred": GOOD}, "a")
    assert posted(analyst, "board", "submit", {"y_pred": GOOD}, "a").content == first.content
    better = truth_and(0.95, seed=3)[1]
    posted(analyst, "board", "submit", {"y_pred": better, "name": "the owner"}, "b")
    posted(owner, "board", "submit", {"y_pred": truth_and(0.5, seed=4)[1], "name": "baseline"}, "c")
    places = analyst.get("/v1/holdouts/board/standings").json()["standings"]
    assert [place["name"] for place in places[:2]] == ["the analyst/the owner", "the analyst"]
    assert "baseline" in {place["name"] for place in places}
    assert left(analyst, "board") == 7
    refused(posted(analyst, "board", "score", {"y_pred": GOOD}, "d"), 403)
    registered(owner, "no-board")
    refused(analyst.get("/v1/holdouts/no-board/standings"), 403)


def test_a_gate_is_certified_by_its_owner_only(owner, analyst):
    registered(owner, "gate-end", looks=20, yes=3, incumbent=truth_and(0.6, seed=5)[1])
    said = posted(analyst, "gate-end", "gate", {"y_pred": GOOD, "margin": 0.05}, "a").json()
    assert (said["record"], said["yes"], said["yes_left"]) == ("verdict", True, 2)
    assert not posted(analyst, "gate-end", "gate", {"y_pred": truth_and(0.5, seed=6)[1]}, "b").json()["yes"]
    refused(posted(analyst, "gate-end", "certify", {}, "c"), 403)
    told = posted(owner, "gate-end", "certify", {}, "c")
    assert told.json()["value"] == pytest.approx(np.mean(np.array(GOOD) == TRUTH), abs=1e-9)
    assert posted(owner, "gate-end", "certify", {}, "c").content == told.content
    refused(posted(analyst, "gate-end", "gate", {"y_pred": TRUTH}, "d"), 403)


@pytest.fixture
def shared(request):
    """Return a setting: where two workers share their ledgers."""
    if request.param == "sqlite":
        return {}
    return {"ledger": request.getfixturevalue("postgres").database()}


@pytest.mark.parametrize(
    ("shared", "ids"),
    [("sqlite", None), ("sqlite", [f"case {number}" for number in range(CASES)]), ("postgresql", None)],
    ids=["sqlite", "sqlite with ids", "postgresql"],
    indirect=["shared"],
)
def test_a_gate_goes_on_in_another_worker_and_after_a_restart(tmp_path, shared, ids):
    """The incumbent's predictions are with the service, not in one process's memory."""

    def sent(values, turned=False):
        if ids is None:
            return {"y_pred": values}
        return {"y_pred": values[::-1], "ids": ids[::-1]} if turned else {"y_pred": values, "ids": ids}

    steps = [truth_and(share, seed=number)[1] for number, share in enumerate((0.6, 0.7, 0.8, 0.9, 0.97))]
    first = made(tmp_path, **shared)
    auth = {"Authorization": f"Bearer {first.keys['owner']}"}
    with living(first.app) as one:
        one.headers.update(auth)
        registered(one, "gate", looks=30, yes=6, incumbent=steps[0], **({} if ids is None else {"ids": ids}))
        second = made_again(tmp_path, shared)
        with living(second) as two:
            two.headers.update(auth)
            kept = posted(one, "gate", "gate", sent(steps[1], turned=True), "a")
            assert kept.json()["yes"]
            assert posted(two, "gate", "gate", sent(steps[2]), "b").json()["yes"]
            assert not posted(one, "gate", "gate", sent(steps[1]), "c").json()["yes"]
            assert posted(one, "gate", "gate", sent(steps[3], turned=True), "d").json()["yes"]
            assert posted(two, "gate", "gate", sent(steps[1], turned=True), "a").content == kept.content
            own = posted(two, "gate", "gate", sent(steps[3]), "e").json()
            assert (own["yes"], own["repeated"]) == (True, True)  # the yes that made it the incumbent
            refused(posted(two, "gate", "gate", sent(steps[3]) | {"margin": 0.25}, "f"), 422)
    with living(made_again(tmp_path, shared)) as three:
        three.headers.update(auth)
        assert posted(three, "gate", "gate", sent(steps[1], turned=True), "a").content == kept.content
        assert posted(three, "gate", "gate", sent(steps[4]), "f").json()["yes"]
        assert left(three, "gate") == 25


def made_again(folder, shared):
    from holdtrue.service import create
    from holdtrue.service.settings import Settings

    return create(Settings(home=folder / "home", tick=0.001, rate="1000000/second", hosts=("127.0.0.1",), **shared))


def test_a_look_that_fails_after_its_charge_is_answered_under_it_later(owner, analyst, monkeypatch):
    registered(owner, "failing")

    def fail(*_, **__):
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr("holdtrue.mechanisms.Gaussian.release", fail)
        told = [refused(posted(analyst, "failing", "score", {"y_pred": GOOD}, "a"), 502) for _ in range(2)]
    assert len({each["entry"] for each in told}) == 1
    found = posted(analyst, "failing", "score", {"y_pred": GOOD}, "a").json()
    assert (found["certificate"]["entry"], found["repeated"], found["looks_left"]) == (told[0]["entry"], False, 9)


def test_a_key_is_answered_in_the_same_bytes_after_a_restart_and_later_looks(tmp_path):
    """What is told under a key stands in the ledger alone, in every mode; results are known by their key."""
    bodies = {"plain": {"y_pred": GOOD}, "results": {"cases": GOOD}}
    bodies["pair"] = {"first": GOOD, "second": TRUTH, "results": True}
    told = {}
    first = made(tmp_path)
    for app in (first.app, made_again(tmp_path, {})):
        with living(app) as owner:
            owner.headers.update({"Authorization": f"Bearer {first.keys['owner']}"})
            if app is first.app:
                registered(owner, "scores", y_true=TRUTH[::-1])  # while a gate is open, nothing else is told of its cases
                registered(owner, "gate", yes=3, incumbent=truth_and(0.6, seed=3)[1])
                registered(owner, "private", yes=3, private=True, y_true=[*TRUTH[5:], *TRUTH[:5]])
            for name, body in bodies.items():
                verb = "compare" if name == "pair" else "score"
                told.setdefault(name, []).append(posted(owner, "scores", verb, body, name).content)
            for name in ("gate", "private"):
                told.setdefault(name, []).append(posted(owner, name, "gate", {"y_pred": GOOD}, "first").content)
                posted(owner, name, "gate", {"y_pred": TRUTH}, "second")
            assert left(owner, "scores") == 7
    assert all(before == after for before, after in told.values())


def test_while_a_gate_is_open_no_other_holdout_tells_of_its_cases(owner, analyst):
    cases = {"y_true": [*TRUTH[1:], TRUTH[0]]}  # its own: other tests leave gates open
    registered(owner, "beside", **cases)
    registered(owner, "open-gate", yes=3, incumbent=GOOD, **cases)
    told = refused(posted(analyst, "beside", "score", {"y_pred": GOOD}, "a"), 403, 409)
    assert "a gate on these cases is open" in told["detail"]
    refused(owner.post("/v1/holdouts", json={"name": "second-gate", "looks": 10, "yes": 2} | cases), 403, 409)
    assert posted(owner, "open-gate", "certify", {"what": "score"}, "b").status_code == 200
    assert posted(analyst, "beside", "score", {"y_pred": GOOD}, "c").status_code == 200


def test_while_a_gate_is_open_no_dataset_tells_of_its_cases(owner, analyst, served):
    labels = pq.read_table(served.folder / "people.parquet")["smoker"].to_pylist()
    registered(owner, "smokers", y_true=labels, yes=3)

    def ask(key):
        return analyst.post("/v1/datasets/people/ask", json={"query": "age > 41"}, headers={"Idempotency-Key": key})

    assert "a gate is open on cases that are these rows" in refused(ask("held"), 403, 409)["detail"]
    assert posted(analyst, "smokers", "gate", {"y_pred": [True] * len(labels), "margin": 0.5}, "one").status_code == 200
    assert posted(owner, "smokers", "gate", {"y_pred": labels, "margin": 0.5}, "two").json()["yes"]
    assert posted(owner, "smokers", "certify", {"what": "score"}, "three").status_code == 200
    assert ask("free").status_code == 200


def test_results_are_compared_under_a_public_name(owner, analyst):
    registered(owner, "named")
    body = {"first": GOOD, "second": TRUTH, "results": True, "name": "monday"}
    first = posted(analyst, "named", "compare", body, "a").json()
    again = posted(analyst, "named", "compare", body, "b").json()
    assert (again["value"], again["repeated"]) == (first["value"], True)
    told = refused(posted(analyst, "named", "compare", {"first": GOOD, "second": TRUTH, "name": "monday"}, "c"), 422)
    assert told["parameter"] == "name"


def test_a_holdout_keeps_a_reserve(owner):
    assert registered(owner, "whole")["alpha"] < registered(owner, "reserved", reserve=0.5)["alpha"]


def test_labels_come_from_files_in_the_folders_for_data_only(owner, served, tmp_path):
    folder = served.folder
    np.save(folder / "labels.npy", np.array(TRUTH))
    (folder / "labels.json").write_text(json.dumps(TRUTH))
    (folder / "labels.csv").write_text("case,label\n" + "".join(f"{n},{label}\n" for n, label in enumerate(TRUTH)))
    np.save(folder / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    (folder / "broken.json").write_text("[1, 2")
    (folder / "labels.txt").write_text("1")
    np.save(tmp_path / "outside.npy", np.array(TRUTH))
    (folder / "link.npy").symlink_to(tmp_path / "outside.npy")
    for number, place in enumerate(
        ({"path": "labels.npy"}, {"path": "labels.json"}, {"path": "labels.csv", "column": "label"})
    ):
        card = registered(owner, f"file{number}", y_true=None, **place)
        assert card["cases"] == CASES
        assert posted(owner, f"file{number}", "score", {"y_pred": GOOD}, "a").status_code == 200
    for wrong in (
        *(
            {"path": path}
            for path in ("../outside.npy", str(tmp_path / "outside.npy"), "link.npy", "/etc/passwd", "nowhere.npy")
        ),
        *({"path": path} for path in ("objects.npy", "broken.json", "labels.txt", "labels.csv", "a\0b", ".", "x" * 4000)),
        {"path": "labels.csv", "column": "labels"},
        {"path": "labels.npy", "column": "label"},
        {"path": "labels.npy", "y_true": TRUTH},
        {},
    ):
        body = {"name": "wrong", "looks": 10} | wrong
        refused(owner.post("/v1/holdouts", json=body), 400, 422)
    assert owner.get("/v1/holdouts/wrong").status_code == 404


def test_what_cannot_be_opened_leaves_its_name_free(owner):
    wrong = [
        {"incumbent": TRUTH, "yes": None},
        {"yes": 2, "incumbent": TRUTH[1:]},
        {"labels": [5, 6]},
        {"ids": [1] * CASES},
        {"overfits": 3},
        {"looks": None},
        {"y_true": [1, "a", 2.5]},
        {"weights": [-1.0] * CASES},
        {"kind": "leaderboard"},
    ]
    for given in wrong:
        body = {"name": "free", "y_true": TRUTH, "looks": 10} | given
        refused(
            owner.post("/v1/holdouts", json={name: value for name, value in body.items() if value is not None}), 422, 403
        )
    registered(owner, "free", looks=7)
    refused(owner.post("/v1/holdouts", json={"name": "free", "y_true": TRUTH, "looks": 7}), 409)


HOSTILE = [
    b'{"y_pred": [NaN]}',
    b'{"y_pred": [1e400]}',
    b'{"y_pred": [Infinity]}',
    b'{"y_pred": [1, 1], "y_pred": [0]}',
    b'{"y_pred": ["\\ud800"]}',
    b'{"y_pred": [99999999999999999999999999]}',
    b'{"y_pred": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    b"[" * 100_000,
    b"\xff\xfe",
    b"",
    b"null",
    b"[]",
    b"{}",
    b'{"y_pred": []}',
    b'{"y_pred": [[0, 1]]}',
    b'{"y_pred": {"0": 1}}',
    b'{"y_pred": [null]}',
    b'{"y_pred": "0101"}',
    b'{"y_pred": [0, 1]}',
    b'{"y_pred": [0, "zauberwort"]}',
    b'{"y_pred": [0], "cases": [0]}',
    b'{"cases": [2]}',
    b'{"cases": [0.5]}',
    b'{"y_pred": [0], "metric": "zauberwort"}',
    b'{"y_pred": [0], "zauberwort": 1}',
    b'{"y_pred": [0], "margin": -1}',
    b'{"first": [0], "second": [0, 1]}',
    json.dumps({"y_pred": ["zauberwort"] * CASES}).encode(),
    json.dumps({"y_pred": GOOD, "ids": GOOD}).encode(),
    json.dumps({"y_pred": GOOD, "train": GOOD}).encode(),
    json.dumps({"y_pred": GOOD, "metric": "recall", "of": "zauberwort"}).encode(),
    json.dumps({"y_pred": GOOD, "name": "zauberwort"}).encode(),
    json.dumps({"first": GOOD, "second": GOOD, "differ": [True]}).encode(),
]


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_everything_hostile_is_refused_and_nothing_is_spent(owner, analyst, caplog, content):
    caplog.set_level(logging.DEBUG)
    if owner.get("/v1/holdouts/hostile").status_code == 404:
        registered(owner, "hostile")
    headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
    for verb in ("score", "gate", "compare", "submit"):
        response = analyst.post(f"/v1/holdouts/hostile/{verb}", content=content, headers=headers)
        told = refused(response, 400, 403, 404, 422)
        assert "zauberwort" not in json.dumps(told)
    assert left(analyst, "hostile") == 10
    assert "zauberwort" not in caplog.text


def test_who_may_what(owner, analyst, served):
    registered(owner, "roles")
    refused(analyst.post("/v1/holdouts", json={"name": "mine", "y_true": TRUTH, "looks": 5}), 403)
    with httpx.Client(base_url=served.url, headers={"Authorization": f"Bearer {served.keys['auditor']}"}) as auditor:
        assert auditor.get("/v1/holdouts/roles").status_code == 200
        refused(posted(auditor, "roles", "score", {"y_pred": GOOD}, "a"), 403)
    with httpx.Client(base_url=served.url) as nobody:
        for path in ("/v1/holdouts", "/v1/holdouts/roles", "/v1/holdouts/roles/standings"):
            refused(nobody.get(path), 401)
        refused(posted(nobody, "roles", "score", {"y_pred": GOOD}, "a"), 401)
    refused(analyst.post("/v1/holdouts/roles/score", json={"y_pred": GOOD}), 400)
    refused(posted(analyst, "nowhere", "score", {"y_pred": GOOD}, "a"), 404)
    refused(analyst.get("/v1/holdouts/UPPER"), 404, 422)
    assert left(analyst, "roles") == 10


def test_bodies_of_holdouts_may_be_larger_and_are_bounded(tmp_path):
    found = made(tmp_path, body_limit=15_000, holdout_limit=60_000)
    with living(found.app) as client:
        large = {"name": "large", "y_true": ["yes" if label else "no" for label in TRUTH], "looks": 5}
        assert 15_000 < len(json.dumps(large)) < 60_000
        refused(client.post("/v1/holdouts", json=large), 401)
        client.headers["Authorization"] = f"Bearer {found.keys['owner']}"
        assert client.post("/v1/holdouts", json=large).status_code == 201
        refused(client.post("/v1/holdouts", json=large | {"name": "larger", "description": "x" * 60_000}), 413)
        refused(client.post("/v1/datasets", json=large), 413)
        chunked = client.post(
            "/v1/holdouts", content=iter([b"x" * 30_000] * 3), headers={"Content-Type": "application/json"}
        )
        refused(chunked, 413)


def test_no_label_leaves(owner, analyst, caplog):
    caplog.set_level(logging.DEBUG)
    canary = "kanarienlabel"
    truth = [canary if label else "other" for label in TRUTH]
    registered(owner, "canary", y_true=truth)
    said = [
        posted(analyst, "canary", "score", {"y_pred": ["other"] * CASES}, "a"),
        posted(analyst, "canary", "score", {"y_pred": [1] * CASES}, "b"),
        posted(analyst, "canary", "score", {"y_pred": ["other"]}, "c"),
        posted(analyst, "canary", "score", {"y_pred": ["other"] * CASES, "metric": "brier"}, "d"),
        posted(analyst, "canary", "score", {"y_pred": ["other"] * CASES, "metric": "recall", "of": "x"}, "e"),
        analyst.get("/v1/holdouts/canary"),
        analyst.get("/v1/holdouts"),
        analyst.get("/metrics"),
    ]
    assert canary not in "".join(str(each.headers) + each.text for each in said) + caplog.text


def test_a_holdout_that_is_gone_is_told_by_name(tmp_path):
    found = made(tmp_path)
    found.service.registry.register_holdout("kept", {"y_true": TRUTH, "looks": 5})
    with pytest.raises(ht.UnknownName):
        found.service.registry.holdouts.find("gone")
    assert [each.name for each in found.service.registry.holdouts.list_open()] == ["kept"]
    closed(found)
