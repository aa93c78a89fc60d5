"""Ledgers of every verb, estimator and holdout mode: both verifiers accept each, and notice what none of them writes."""

import json
import shutil

import numpy as np
import pytest
import sqlalchemy as sa
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier

import holdtrue as ht
from holdouts.old_gates import open_releasing
from holdtrue.auditing import ledger as auditing
from holdtrue.auditing.ledger.ledger_rules import LedgerRules
from holdtrue.codec import encode
from holdtrue.estimators import (
    Handle,
    PrivateLearner,
    SoftMajorityClassifier,
    StableClassifier,
    StableRegressor,
    ThresholdClassifier,
)
from holdtrue.ledgers.entries import VERBS
from ledgers.tables import ENTRIES, TERMS, line_digest

ROWS = 4000
RANDOM = np.random.default_rng(17)
X = RANDOM.normal(size=(ROWS, 2))
Y = (X[:, 0] + RANDOM.normal(size=ROWS) > 0).astype(int)
TABLE = {"a": X[:, 0], "b": X[:, 1], "y": Y, "hours": np.clip(X[:, 1] + 4, 0, 8)}
GUESSES = [np.where(RANDOM.random(ROWS) < rate, 1 - Y, Y) for rate in (0.5, 0.3, 0.1)]
POINTS = {"a": [0.1, 0.2, -1.0], "b": [0.0, 0.3, 0.5]}


ROOMY = {"queries": 20, "epsilon": 8, "delta": 1e-6, "iid": True, "cap": "privacy", "reserve": 0.8}


def curate(path, act, **given):
    with ht.Curator(TABLE, **given, ledger=path) as curator:
        act(curator)


def ask(curator):
    curator.grant("ben", asks=3)
    curator.ask("a > 0")
    curator.ask(["a > 0", "b > 0", "y = 1"])
    curator.ask("a > 0.5", key="one", analyst="ben")
    curator.ask("a > 0", key="again")
    curator.ask(values=TABLE["hours"] / 8)
    curator.ask(values=TABLE["hours"] / 8, name="hours")
    curator.ask(values=TABLE["hours"] / 8, name="hours")


def tabulate_purely(curator):
    curator.table("y", keys=[0, 1])
    curator.table(ht.cut("a", [-1, 0, 1]), where="y = 1")
    curator.table("y", keys=[1])


def watch(curator):
    watch = curator.watch(threshold=0.5, alarms=2)
    watch.ask("a > 100")
    watch.ask("a > -100")
    watch.ask("b > 0")


def select(curator):
    curator.select({"left": "a < 0", "right": "a > 0"})
    curator.select(["a < 0", "b > 0"], epsilon=0.1)
    curator.select({"first": 3, "second": 70})
    curator.select({"first": 3, "second": 70}, name="monday")
    curator.select({"first": 4, "second": 70}, name="monday")


def learn(curator):
    for steps in (4, 8):
        curator.learn(ht.Stumps(bounds={"a": (-3, 3)}, steps=steps), target="y = 1", check=True)


def fit(curator):
    for kind, target in (("logistic", "y = 1"), ("ridge", "hours")):
        curator.fit("m", kind, target=target, features=["a"], bounds={"a": (-3, 3), "hours": (0, 8)})


def predict_kept(curator):
    given = {"features": ["a"], "bounds": {"a": (-3, 3), "hours": (0, 8)}, "epsilon": 0.2}
    curator.fit("hours", "huber", target="hours", release="each", **given)
    curator.fit("line", "logistic", target="y = 1", release="each", method="descent", basis=ht.Fourier(4, 1.0, 1), **given)
    curator.fit("cut", "thresholds", target="y = 1", **given)
    for name in ("hours", "line", "cut"):
        curator.predict(name, {"a": [0.1, 0.2]})
        curator.predict(name, {"a": 0.1})


def predict(curator):
    curator.train("tree", DecisionTreeClassifier(max_depth=2), target="y = 1", features=["a", "b"], parts=40)
    curator.predict("tree", {"a": 0.1, "b": 0.2}, epsilon=0.2)
    for epsilon in (0.2, 0.2, 0.3):
        curator.predict("tree", POINTS, epsilon=epsilon)
    curator.predict("tree", {"a": [1.0, 2.0], "b": [0.0, 1.0]}, epsilon=0.2, screen=0.7)
    curator.train("best", hypotheses=ht.Stumps(bounds={"a": (-3, 3)}, steps=8), target="y = 1", parts=40, order="fixed")
    curator.predict("best", {"a": 0.1}, epsilon=0.2, method="agnostic")


def evaluate(curator):
    given = {"target": "y = 1", "features": ["a", "b"], "parts": 40, "order": "fixed", "held_out": 0.2}
    curator.train("tree", LogisticRegression(), **given)
    for level in ([0.45, 0.4], 0.45):
        curator.evaluate("tree", at_most=level, epsilon=0.2, mu=0.02)
    curator.evaluate("tree", at_most=0.9, epsilon=0.2, mu=0.5)
    curator.train("hours", LogisticRegression(), target="y = 1", features=["a", "b"], parts=40)
    points = {"a": X[:6, 0], "b": X[:6, 1]}
    student = curator.distill("hours", points, DecisionTreeClassifier(max_depth=1), epsilon=0.02)
    assert curator.evaluate(student) == curator.history[-1].responses[0]


def predict_numbers(curator):
    curator.train("hours", Ridge(), target="hours", features=["a", "b"], parts=40, bounds={"hours": (0, 8)})
    curator.predict("hours", POINTS, epsilon=0.2)


def distill(curator):
    curator.train("tree", LogisticRegression(), target="y = 1", features=["a", "b"], parts=40)
    points = {"a": X[:6, 0], "b": X[:6, 1]}
    curator.distill("tree", points, DecisionTreeClassifier(max_depth=1), epsilon=0.05)
    curator.distill("tree", points, DecisionTreeClassifier(max_depth=1), groups=2, epsilon=0.05)


def spend_both_purses(curator):
    curator.ask("a > 0")
    curator.grant("ben", asks=12)
    curator.train("tree", DecisionTreeClassifier(max_depth=2), target="y = 1", features=["a", "b"], parts=40)
    curator.predict("tree", POINTS, epsilon=0.2, analyst="ben")
    curator.select({"left": "a < 0", "right": "a > 0"}, epsilon=0.1)
    curator.ask(["a > 0", "b > 0"])


def tabulate(curator):
    curator.table(ht.cut("a", [-1, 0, 1]), key="one")
    curator.table(ht.cut("a", [-1, 0, 1]), "y", keys={"y": [0, 1]}, where="b > 0")
    curator.table(ht.cut("a", [-1, 0, 1]))


def release_marginals(curator):
    cells = {"columns": [ht.cut("a", [0]), ht.cut("b", [0, 1]), "y"], "keys": {"y": [0, 1]}}
    curator.marginals("pairs", key="one", **cells)
    curator.marginals([["a"], ["a", "b"]], **cells)
    curator.marginals([["a", "y"]], margins=True, **cells)
    curator.marginals([["b"]], workload=[{"b": "below 0"}], questions=3, **cells)


def average(curator):
    curator.mean("a", low=-1, high=1, key="one")
    curator.mean("a", low=-1, high=1, by="y", keys=[0, 1], where="b > 0")
    curator.sum("a", low=-1, high=1)
    curator.ask("a > 0", by=ht.cut("b", [0]))


def find_quantiles(curator):
    given = {"low": -3, "high": 3, "step": 1}
    curator.quantile("a", [0.25, 0.5], method="curve", key="one", **given)
    curator.quantile("a", 0.75, method="curve", key="free", **given)
    curator.median("a", where="b > 0", method="search", key="two", **given)
    curator.median("a", where="b > 0", method="search", key="three", **given)


def find_statistics(curator):
    given = {"low": -3, "high": 3}
    curator.variance("a", key="one", **given)
    curator.covariance("a", "b", bounds={"a": (-3, 3), "b": (-3, 3)})
    curator.correlation("a", "b", bounds={"a": (-3, 3), "b": (-3, 3)})
    curator.r_squared("a", "b", **given)
    curator.gini("hours", low=0, high=8)
    curator.ratio("a", "hours", cap=8, **given)
    curator.auc("a", "y = 1", **given)
    curator.pairs("abs(a.hours - b.hours)", low=0, high=8)
    curator.best_error(ht.Stumps(bounds={"a": (-3, 3)}, steps=4), target="y = 1")


CURATORS = {
    "ask": ask,
    "table": tabulate,
    "marginals": release_marginals,
    "mean": average,
    "quantile": find_quantiles,
    "statistics": find_statistics,
    "select": select,
    "watch": watch,
    "learn": learn,
    "fit": fit,
    "kept": predict_kept,
    "predict": predict,
    "evaluate": evaluate,
    "numbers": predict_numbers,
    "distill": distill,
}
PURSES = {
    f"in {currency}": ROOMY | {"reserve": {"predictions": 40, "epsilon": 0.2, "currency": currency}}
    for currency in ("mu", "rho", "draws")
}
PLANS = {
    "planned": {"queries": 20, "iid": True},
    "open": {"epsilon": 8, "delta": 1e-6, "iid": True},
    "not independent": {"queries": 20, "epsilon": 8, "delta": 1e-6},
}


def estimate(path, estimator, **given):
    handle = Handle(path, epsilon=40, delta=1e-6)
    fitted = estimator(**given, ledger=handle).fit(X if estimator is not ThresholdClassifier else X[:, :1], Y)
    fitted.predict(X[:5] if estimator is not ThresholdClassifier else X[:5, :1])


ESTIMATORS = {
    "PrivateLearner": (PrivateLearner, {"hypotheses": ht.Stumps(bounds=[(-3, 3)] * 2, steps=8), "epsilon": 0.5}),
    "SoftMajorityClassifier": (SoftMajorityClassifier, {"epsilon": 0.5, "parts": 20}),
    "StableClassifier": (StableClassifier, {"bounds": (-3, 3), "epsilon": 0.5}),
    "StableRegressor": (StableRegressor, {"bounds": (-3, 3), "release": "each", "epsilon": 0.5}),
    "ThresholdClassifier": (ThresholdClassifier, {"epsilon": 0.5}),
}

HOLDOUTS = {
    "scores": {"private": True},
    "weights": {"private": True, "weights": 1 + np.arange(ROWS) % 7},
    "rounding": {"private": False},
    "gate": {"yes": 3, "incumbent": 1 - Y},
    "gate of results": {"yes": 3, "metric": "cases"},
    "private gate": {"yes": 3, "private": True, "epsilon": 9, "delta": 1e-6, "incumbent": 1 - Y},
    "private gate in runs": {"yes": 3, "private": True, "epsilon": 30},
    "private gate of an old ledger": {"yes": 3},
    "thresholdout": {"train": Y, "overfits": 3},
    "guess-and-check": {"train": Y, "overfits": 3, "private": False},
}
RULES = ("ladder", "parameter-free ladder", "private ladder", "private")


def look(path, mode):
    given = HOLDOUTS[mode]
    opened = open_releasing if mode.endswith("old ledger") else ht.Holdout
    with opened(Y, looks=20, ledger=path, **given) as holdout:
        results = [(guess == Y).astype(float) for guess in GUESSES]
        train = {"train": GUESSES[0]} if "train" in given else {}
        if "yes" not in given:
            for guess in (*GUESSES, GUESSES[0]):
                holdout.score(guess, **train)
            for _ in range(2):
                holdout.score(cases=results[1], name="a commit", **({"train": results[0]} if train else {}))
        for guess, result in zip(GUESSES, results, strict=True):
            if given.get("metric") == "cases":
                holdout.gate(cases=result)
            elif "yes" in given:
                holdout.gate(guess)
        if mode.startswith("gate"):
            holdout.certify()
        if mode == "scores":
            holdout.compare(GUESSES[0], GUESSES[1])
            holdout.compare_cases(results[0], results[1])


def submit(path, rule):
    with ht.Leaderboard(Y, submissions=20, rule=rule, ledger=path) as board:
        for number, guess in enumerate((*GUESSES, GUESSES[0])):
            board.submit(f"team {number}", guess)


WRITERS = {
    **{f"curator: {verb}": (lambda path, verb=verb: curate(path, CURATORS[verb], **ROOMY)) for verb in CURATORS},
    "curator: pure table": lambda path: curate(path, tabulate_purely, queries=30, pure=True, epsilon=8, iid=True),
    **{f"curator: {name}": (lambda path, name=name: curate(path, spend_both_purses, **PURSES[name])) for name in PURSES},
    **{f"curator: {plan} plan": (lambda path, plan=plan: curate(path, ask, **PLANS[plan])) for plan in PLANS},
    **{
        f"estimator: {name}": (lambda path, name=name: estimate(path, ESTIMATORS[name][0], **ESTIMATORS[name][1]))
        for name in ESTIMATORS
    },
    **{f"holdout: {mode}": (lambda path, mode=mode: look(path, mode)) for mode in HOLDOUTS},
    **{f"leaderboard: {rule}": (lambda path, rule=rule: submit(path, rule)) for rule in RULES},
}


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory):
    """Every ledger, written once, when it is first asked for."""
    folder, written = tmp_path_factory.mktemp("every"), {}

    def at(name):
        if name not in written:
            written[name] = folder / str(len(written)) / "rows.ledger"
            written[name].parent.mkdir()
            WRITERS[name](written[name])
        return written[name]

    return at


def lines_of(path):
    engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        return [dict(row) for row in connection.execute(sa.select(ENTRIES).order_by(ENTRIES.c.number)).mappings()]


def rewrite(path, number, **values):
    """Change a line, and chain all that follow anew, as a writer could who knows how digests are made."""
    engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.pool.NullPool)
    lines = lines_of(path)
    lines[number - 1] |= values
    with engine.begin() as connection:
        ledger_id, previous = connection.execute(sa.select(TERMS.c.ledger_id, TERMS.c.digest)).one()
        for line in lines:
            line["previous"] = previous
            line["digest"] = previous = line_digest(line, ledger_id=ledger_id)
        connection.execute(ENTRIES.delete())
        connection.execute(ENTRIES.insert(), lines)


@pytest.mark.parametrize("name", WRITERS)
def test_both_verifiers_accept_what_was_written(ledgers, name):
    path = ledgers(name)
    found = ht.audit_ledger(path)
    assert found.breaches == ()
    verified = ht.verify(path)
    assert (verified.entries, verified.charges, verified.spent) == (found.entries, found.charges, found.spent)
    assert verified.charges > 0


def test_every_verb_is_written_by_one_of_them(ledgers):
    """All but "restore", which a ledger that came back from an older copy is charged (tests/ledgers)."""
    charges = [line for name in WRITERS for line in lines_of(ledgers(name)) if line["kind"] == "charge"]
    assert {line["verb"] for line in charges} == VERBS - {"restore"}
    for line in charges:
        assert set(json.loads(line["body"])) - {"purse"} == {"draws", "parts", "request"}


STRANGE = {
    "unknown verb": {"verb": "borrow"},
    "missing body": {"body": None},
    "empty body": {"body": ""},
    "body of another form": {"body": '{"verb":"fit"}'},
    "body that is a list": {"body": "[]"},
    "body without parts": {"body": '{"draws":0,"request":{}}'},
    "parts that are no texts": {"body": '{"draws":0,"parts":[1],"request":{}}'},
    "request that is no mapping": {"body": '{"draws":0,"parts":[],"request":"x"}'},
}


@pytest.mark.parametrize("strange", STRANGE)
@pytest.mark.parametrize("name", ["curator: ask", "estimator: PrivateLearner", "holdout: gate", "leaderboard: ladder"])
def test_both_verifiers_notice_a_charge_that_nobody_wrote(ledgers, tmp_path, name, strange):
    path = shutil.copy(ledgers(name), tmp_path / "copy.ledger")
    (number, *_) = (line["number"] for line in lines_of(path) if line["kind"] == "charge")
    rewrite(path, number)
    assert {line["number"] for line in lines_of(path)} == set(range(1, len(lines_of(path)) + 1))
    rewrite(path, number, **STRANGE[strange])
    with pytest.raises(ht.IntegrityError, match=f"entry {number} "):
        ht.verify(path)
    found = ht.audit_ledger(path)
    assert (number, "form") in {(breach.entry, breach.rule) for breach in found.breaches}


@pytest.mark.parametrize("strange", ["unknown verb", "body of another form"])
def test_whoever_opens_such_a_ledger_is_told_so(ledgers, tmp_path, strange):
    """Never a KeyError, and nothing is asked of it."""
    path = shutil.copy(ledgers("curator: ask"), tmp_path / "copy.ledger")
    rewrite(path, 2, **STRANGE[strange])
    with pytest.raises(ht.IntegrityError, match="entry 2 "), ht.Curator(TABLE, ledger=path) as curator:
        curator.ask("b > 1")


@pytest.mark.parametrize("strange", ["missing body", "body of another form"])
def test_passing_over_what_cannot_be_read_calls_such_a_ledger_whole(ledgers, tmp_path, monkeypatch, strange):
    """The control: as it was, when a charge of another form was skipped in silence."""
    path = shutil.copy(ledgers("estimator: PrivateLearner"), tmp_path / "copy.ledger")
    rewrite(path, 1, **STRANGE[strange])
    assert ht.audit_ledger(path).violated
    for kept, name in ((LedgerRules, "check_charge"), (auditing._LedgerAudit, "_check_totals")):
        monkeypatch.setattr(kept, name, lambda *_: iter(()))
    monkeypatch.setattr(auditing, "_find_recount_error", lambda *_: None)
    assert not ht.audit_ledger(path).violated


@pytest.fixture(scope="module")
def gated(tmp_path_factory):
    """A private gate that said yes, then no in a run that it paid for, then no again in that run, for nothing."""
    path = tmp_path_factory.mktemp("gated") / "cases.ledger"
    with ht.Holdout(Y, looks=20, yes=3, private=True, epsilon=30, ledger=path) as holdout:
        said = [holdout.gate(guess).yes for guess in (GUESSES[2], GUESSES[0], GUESSES[1])]
    assert said == [True, False, False]
    assert [line["cost"] > 0 for line in lines_of(path) if line["kind"] == "charge"] == [True, True, False]
    return path


def in_run(line, run):
    """Return the body of a look, in another run or in none."""
    body = json.loads(line["body"])
    body["request"] = {name: value for name, value in body["request"].items() if name != "run"}
    return encode(body | {"request": body["request"] | ({} if run is None else {"run": run})})


UNPAID = {
    "a run that nobody paid for": (5, lambda lines: {"body": in_run(lines[4], "0" * 32)}, "no look before it paid"),
    "no run": (5, lambda lines: {"body": in_run(lines[4], None)}, "belongs to no run"),
    "a run that was over": (
        5,
        lambda lines: {"body": in_run(lines[4], json.loads(lines[0]["body"])["request"]["run"])},
        "ended with entry 2",
    ),
    "a run begun for nothing": (3, lambda _: {"cost": 0, "event": '{"kind":"NoCost"}'}, "no look before it paid"),
    "a run paid in part": (3, lambda lines: {"cost": lines[2]["cost"] // 2}, "units for its run"),
}


@pytest.mark.parametrize("fault", UNPAID)
def test_a_look_that_nobody_paid_for_is_found(gated, tmp_path, fault):
    """The writer has chained everything anew, and a look that costs nothing has a cost that its event allows."""
    number, change, words = UNPAID[fault]
    path = shutil.copy(gated, tmp_path / "copy.ledger")
    rewrite(path, number)
    assert ht.audit_ledger(path)  # the control: chaining anew changes nothing by itself
    rewrite(path, number, **change(lines_of(path)))
    found = {(breach.entry, breach.rule): breach.words for breach in ht.audit_ledger(path).breaches}
    assert words in found[number, "run"]


def test_looks_in_runs_that_were_paid_for_keep_the_rules(gated):
    found = ht.audit_ledger(gated)
    assert found.breaches == ()
    assert dict(found.checked)["run"] == 3


@pytest.mark.parametrize("fault", ["interval", "plan", "cost"])
def test_a_curve_that_tells_or_pays_otherwise_is_found(ledgers, tmp_path, fault):
    path = shutil.copy(ledgers("curator: quantile"), tmp_path / "copy.ledger")
    lines = lines_of(path)
    charge = next(line for line in lines if line["verb"] == "quantile" and line["cost"])
    answer = next(line for line in lines if line["answers"] == charge["number"])
    body = json.loads((answer if fault == "interval" else charge)["body"])
    if fault == "interval":
        body[0]["low"][0] = body[0]["high"][0]
        rewrite(path, answer["number"], body=encode(body))
    elif fault == "plan":
        rewrite(path, charge["number"], body=encode(body | {"draws": body["draws"] - 1}))
    else:
        rewrite(path, charge["number"], cost=charge["cost"] // 2)
    assert fault in {breach.rule for breach in ht.audit_ledger(path).breaches}


@pytest.mark.parametrize("fault", ["bound", "low", "confidence", "at_most"])
def test_an_evaluation_that_promises_more_than_its_level_gives_is_found(ledgers, tmp_path, fault):
    path = shutil.copy(ledgers("curator: evaluate"), tmp_path / "copy.ledger")
    told = [line for line in lines_of(path) if line["kind"] == "response" and '"record":"evaluation"' in line["body"]]
    proven = {
        "low" in json.loads(line["body"])[0]: line for line in told if json.loads(line["body"])[0]["bound"] is not None
    }
    assert set(proven) == {False, True}  # by held-out rows, and by one question
    line = proven[fault == "low"]
    rewrite(path, line["number"])
    assert not ht.audit_ledger(path).breaches  # the control
    body = json.loads(line["body"])
    body[0][fault] *= 0.99
    rewrite(path, line["number"], body=encode(body))
    assert (line["number"], "interval") in {(breach.entry, breach.rule) for breach in ht.audit_ledger(path).breaches}


def test_a_key_that_older_answers_serve_is_no_finding(tmp_path):
    """Two questions asked apart and then together under a key: nothing is charged, and the ledger keeps the key."""
    path = tmp_path / "keys.ledger"
    with ht.Curator({"age": np.arange(3000) % 90}, queries=20, iid=True, ledger=path) as curator:
        for text in ("age > 3", "age > 5"):
            curator.ask(text)
        curator.ask(["age > 3", "age > 5"], key="both")
    assert not ht.audit_ledger(path).violated
