"""Every public call with private arguments: everything but the drawn value is the same on neighbouring inputs (P8).

Each call is made twice in two worlds: with the same private contents again, or with one element changed; or on data that
differ in one row. What an analyst, or a reader of the ledger, could compare is compared: repeated flags, costs,
certificates, counts left, lengths, errors, and which of the names in the ledger are equal. What was drawn is left out.
"""

import hashlib
import inspect
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import msgspec
import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import holdtrue as ht
from holdtrue.ledgers import open_ledger

CASES = 3000
RANDOM = np.random.default_rng(5)
Y = RANDOM.integers(0, 2, CASES)
TABLE = {"a": RANDOM.normal(size=CASES), "y": Y}
HALF = RANDOM.integers(0, 2, CASES)
GOOD = np.where(RANDOM.random(CASES) < 0.1, 1 - Y, Y)
RESULTS = (HALF == Y).astype(float)
BETTER = (GOOD == Y).astype(float)
ROOMY = {"queries": 20, "epsilon": 8, "delta": 1e-6, "iid": True, "cap": "privacy", "reserve": 0.8}
# What is drawn, or follows from it: no more than these is left out of what is compared.
DRAWN = {
    *("value", "low", "high", "interval", "sample_interval", "gain"),
    *("label", "index", "hypothesis", "shortfall", "description", "text", "weights"),
    *("digest", "previous", "time"),
}
NAMES = re.compile(r"[0-9a-f]{32,}")
TOLD = re.compile(r"\b[01]\.\d{6,}(e-\d+)?")  # a noisy score that was told before, in the name of what is compared with it


def changed(values, place=7):
    """Return the same values with one of them changed."""
    found = np.array(values, copy=True)
    found[place] = 1 - found[place]
    return found


def changed_scores(scores):
    return scores | {"first": scores["first"] + 1}


def changed_table(table):
    return {"a": np.where(np.arange(CASES) == 7, 0.123, table["a"]), "y": changed(table["y"])}


@dataclass(frozen=True)
class Call:
    """Calls with a private argument: who is opened, what is called, the argument, and a neighbour of it."""

    opened: Callable[..., Any]
    act: Callable[[Any, Any], Any]
    private: Any
    change: Callable[[Any], Any] = changed


def curator(path, data=TABLE):
    return ht.Curator(data, **ROOMY, ledger=path)


VISITS = {"id": np.repeat(np.arange(CASES), 2), "cost": np.arange(2 * CASES) % 9}


def curator_of_units(path, visits=VISITS):
    """Open persons who own visits."""
    return ht.Curator(
        {"id": np.arange(CASES)}, unit="id", tables={"visits": visits}, bounds={"visits.cost": (0, 9)}, **ROOMY, ledger=path
    )


def changed_person(visits):
    """Return the same visits, those of one person replaced: fewer, others, and a visit that belongs to nobody."""
    kept = visits["id"] != 7
    return {"id": np.append(visits["id"][kept], [7, -1]), "cost": np.append(visits["cost"][kept], [8, 8])}


def ask_about_units(who, _):
    return [
        who.ask(["visits.ANY(cost > 3)", "visits.SUM(cost) / 9", "visits.COUNT(*) >= 2"]),
        who.ask("visits.ANY(cost > 3)"),
    ]


def holdout(y_true=Y, **given):
    return lambda path: ht.Holdout(y_true, looks=20, ledger=path, **given)


def board(rule):
    return lambda path, y_true=Y: ht.Leaderboard(y_true, submissions=20, rule=rule, ledger=path)


def wins_then(argument):
    """Let a submission win a gate, then ask with the argument: whether it equals the incumbent must not be told."""

    def act(gate, private):
        gate.gate(cases=BETTER)
        return gate.gate(cases=private, **argument)

    return act


SCORES = {"first": 300, "second": 2000}
MODES = {
    "scores": {"private": True},
    "rounding": {"private": False},
    "thresholdout": {"train": Y, "overfits": 3, "threshold": 0.5},  # so high that no noise passes it, or one time in e^30
    "guess-and-check": {"train": Y, "overfits": 3, "private": False},
}


def scored(name):
    def act(opened, private):
        given = {"train": np.full(CASES, 0.5)} if "train" in MODES[name] else {}
        return opened.score(cases=private, **given)

    return act


def scored_by_name(name):
    def act(opened, private):
        given = {"train": np.full(CASES, 0.5)} if "train" in MODES[name] else {}
        return opened.score(cases=private, name="a commit", **given)

    return act


ARGUMENTS = {
    ("Curator", "ask", "values"): {
        "new each time": Call(curator, lambda who, values: who.ask(values=values), RESULTS),
        "by name": Call(curator, lambda who, values: who.ask(values=values, name="hours"), RESULTS),
        "by key": Call(curator, lambda who, values: who.ask(values=values, key="one"), RESULTS),
        "refused": Call(curator, lambda who, values: who.ask(values=values[:-1]), RESULTS),
    },
    ("Curator", "select", "candidates"): {
        "new each time": Call(curator, lambda who, scores: who.select(scores), SCORES, changed_scores),
        "by name": Call(curator, lambda who, scores: who.select(scores, name="monday"), SCORES, changed_scores),
        "by key": Call(curator, lambda who, scores: who.select(scores, key="one"), SCORES, changed_scores),
    },
    ("Curator", "select", "scores"): {
        "new each time": Call(curator, lambda who, scores: who.select(scores=scores, top=2), SCORES, changed_scores),
        "by name": Call(curator, lambda who, scores: who.select(scores=scores, name="monday"), SCORES, changed_scores),
        "by key": Call(curator, lambda who, scores: who.select(scores=scores, key="one"), SCORES, changed_scores),
    },
    ("Curator", "select", "cuts"): {
        "new each time": Call(
            curator,
            lambda who, cuts: who.select(scores=[0] * (len(cuts) + 1), line=(0, 1), cuts=cuts, epsilon=0.01),
            RESULTS,
        ),
        "by name": Call(
            curator,
            lambda who, cuts: who.select(scores=[0] * (len(cuts) + 1), line=(0, 1), cuts=cuts, epsilon=0.01, name="one"),
            RESULTS,
        ),
    },
    ("Holdout", "score", "cases"): {
        **{f"{mode}, new each time": Call(holdout(**MODES[mode]), scored(mode), RESULTS) for mode in MODES},
        **{f"{mode}, by name": Call(holdout(**MODES[mode]), scored_by_name(mode), RESULTS) for mode in MODES},
    },
    ("Holdout", "gate", "cases"): {
        "new each time": Call(holdout(yes=3, metric="cases"), wins_then({}), BETTER),
        "by name": Call(holdout(yes=3, metric="cases"), wins_then({"name": "a commit"}), BETTER),
        "private": Call(
            holdout(yes=3, metric="cases", private=True), lambda gate, cases: gate.gate(cases=cases, margin=0.6), 1 - BETTER
        ),
    },
    ("Holdout", "compare_cases", "first"): {
        "new each time": Call(holdout(private=True), lambda who, first: who.compare_cases(first, RESULTS), BETTER),
        "by name": Call(holdout(private=True), lambda who, one: who.compare_cases(one, RESULTS, name="pair"), BETTER),
    },
    ("Holdout", "compare_cases", "second"): {
        "new each time": Call(holdout(private=True), lambda who, second: who.compare_cases(BETTER, second), RESULTS),
    },
    ("Holdout", "named", "cases"): {
        "by name": Call(holdout(private=True), lambda who, cases: len(who.named(cases=cases, name="a commit")), RESULTS),
        "refused": Call(holdout(private=True), lambda who, cases: who.named(cases=cases), RESULTS),
    },
}
"""Private arguments of calls: made again with the same contents, or with one element changed."""


def ask_all(who, _):
    who.ask(["a > 0", "y = 1"])
    who.ask("a > 0", key="again")
    who.select({"left": "a < 0", "right": "a > -9"})
    who.learn(ht.Stumps(bounds={"a": (-3, 3)}, steps=4), target="y = 1")
    who.fit("line", "logistic", target="y = 1", features=["a"], bounds={"a": (-3, 3)})
    kept = {"target": "y = 1", "features": ["a"], "bounds": {"a": (-3, 3)}, "epsilon": 0.1}
    who.fit("kept", "logistic", release="each", **kept)
    who.fit("cut", "thresholds", **kept)
    who.predict("kept", {"a": 0.5})
    who.predict("cut", {"a": [0.5, -0.5]})
    who.train("tree", DecisionTreeClassifier(max_depth=1), target="y = 1", features=["a"], parts=30)
    who.predict("tree", {"a": [0.5, -0.5]}, epsilon=0.1)
    who.train("best", hypotheses=ht.Stumps(bounds={"a": (-3, 3)}, steps=4), target="y = 1", parts=30, order="fixed")
    who.predict("best", {"a": [0.5]}, epsilon=0.1)
    return who.budget.left


def bounded(y_true, y_pred):
    return np.where(y_true == y_pred, 1.0, 0.25)


def look_all(who, _):
    found = [who.score(HALF), who.score(HALF), who.score(HALF, metric=bounded), who.score(HALF, metric="error")]
    return [*found, who.looks_left]


def guess_all(who, _):
    return [who.score(HALF, train=HALF), who.score(HALF, train=HALF), who.looks_left]


def gate_all(who, _):
    return [who.gate(GOOD), who.gate(GOOD), who.looks_left]


def gate_clearly(who, _):
    """Ask nothing that noise decides: whether it says yes is drawn."""
    return [who.gate(GOOD), who.gate(1 - GOOD), who.gate(1 - GOOD), who.looks_left]


def submit_all(who, _):
    return [who.submit("one", GOOD), who.submit("two", GOOD), who.submit("one", HALF), who.left]


def with_labels(**given):
    return lambda path, y_true: holdout(y_true, **given)(path)


def with_incumbent(path, incumbent):
    return ht.Holdout(Y, looks=20, yes=3, metric="cases", incumbent=incumbent, incumbent_name="old", ledger=path)


OPENED = {
    ("Curator", "__init__", "data"): {"every verb": Call(curator, ask_all, TABLE, changed_table)},
    ("Curator", "__init__", "tables"): {"units": Call(curator_of_units, ask_about_units, VISITS, changed_person)},
    ("Holdout", "__init__", "y_true"): {
        "scores": Call(with_labels(private=True), look_all, Y),
        "rounding": Call(with_labels(private=False), look_all, Y),
        "gate": Call(with_labels(yes=3, incumbent=HALF), gate_all, Y),
        "private gate": Call(with_labels(yes=3, private=True), gate_clearly, Y),
        "thresholdout": Call(with_labels(train=Y, overfits=3, threshold=0.5), guess_all, Y),
        "guess-and-check": Call(with_labels(train=Y, overfits=3, private=False), guess_all, Y),
    },
    ("Holdout", "__init__", "incumbent"): {"results": Call(with_incumbent, lambda who, _: who.gate(cases=RESULTS), RESULTS)},
    ("Leaderboard", "__init__", "y_true"): {
        rule: Call(board(rule), submit_all, Y) for rule in ("ladder", "parameter-free ladder", "private ladder", "private")
    },
}
"""Private arguments that are given when something is opened: the same calls on two neighbours."""

# Who asks, how, where and for what; predictions, points and queries, which belong to whoever asks.
PUBLIC = {
    *(
        "analyst",
        "asks",
        "deduce",
        "denominator",
        "key",
        "ledger",
        "name",
        "numerator",
        "path",
        "plan",
        "progress",
        "query",
        "texts",
    ),
    *(
        "alpha",
        "beta",
        "cap",
        "delta",
        "epsilon",
        "iid",
        "mu",
        "pure",
        "reserve",
        "uses",
        "second_budget",
        "side",
        "group",
        "rehash",
    ),
    *("bounds", "classes", "cluster", "header", "ids", "labels", "order", "row_weights", "types", "weights"),
    *("anyway", "estimator", "features", "groups", "hypotheses", "method", "parts", "public_rows", "queries", "rows"),
    *("bins", "by", "column", "columns", "high", "keys", "levels", "low", "margins", "population", "ranges", "rollups"),
    *("assuming", "at_most", "check", "held_out", "screen", "student", "target", "unit", "where"),
    *("differ", "entry", "incumbent_name", "looks", "margin", "metric", "moves", "of", "overfits", "private", "rule"),
    *("discordant", "gain", "model", "replace", "tells"),
    *(
        "alarms",
        "sensitivity",
        "step",
        "submissions",
        "threshold",
        "tolerance",
        "top",
        "train",
        "unseen",
        "what",
        "y_pred",
        "yes",
    ),
}
PUBLIC_HERE = {("Holdout", "compare", "first"), ("Holdout", "compare", "second")}
PUBLIC_HERE |= {("Curator", verb, name) for verb in ("correlation", "covariance") for name in ("first", "second")}
PUBLIC_HERE |= {("Curator", "auc", "label"), ("Curator", "auc", "score"), ("Curator", "pairs", "kernel")}
PUBLIC_HERE |= {("Curator", "r_squared", "prediction"), ("Curator", "synthesize", "seed")}
PUBLIC_HERE |= {("Curator", "select", "line"), ("Curator", "ask_free", "paying"), ("Curator", "ask_free", "seen_by")}
PUBLIC_HERE |= {("Curator", "marginals", name) for name in ("sets", "workload")}
PUBLIC_HERE |= {("Curator", verb, "questions") for verb in ("ask", "marginals", "mean", "sum", "table")}
PUBLIC_HERE |= {("Curator", "fit", name) for name in ("kind", "radius", "strength", "release", "basis")}
PUBLIC_HERE |= {("Curator", "fit", name) for name in ("gamma", "certified_by")}
PUBLIC_HERE |= {("Curator", "find_statistic", "request"), ("Curator", "preview_statistic", "request")}


def shape(found, names):
    """Return what was told without what was drawn; names that nobody chose are told by which of them are equal."""
    if is_dataclass(found):
        told = {field.name: getattr(found, field.name) for field in fields(found)}
        return type(found).__name__, shape(told, names)
    if isinstance(found, msgspec.Struct):
        return type(found).__name__, shape(msgspec.structs.asdict(found), names)
    if isinstance(found, dict):
        told = {key: str(value) if key == "against" else value for key, value in found.items() if key not in DRAWN}
        return {key: shape(value, names) for key, value in told.items()}
    if isinstance(found, list | tuple):
        return [shape(value, names) for value in found]
    if isinstance(found, str):
        return TOLD.sub("~", NAMES.sub(lambda match: f"#{names.setdefault(match[0], len(names))}:{len(match[0])}", found))
    return found if isinstance(found, int | float | None) else repr(found)


def line_of(entry, names):
    """Return a ledger's line: with bodies read, so that what was drawn can be left out."""
    told = {name: getattr(entry, name) for name in entry.__struct_fields__ if name not in ("body", "event")}
    body = None if entry.body is None else json.loads(entry.body)
    if entry.kind == "charge":
        told["length"] = len(TOLD.sub("~", entry.body))
    return shape(told | {"body": body, "event": json.loads(entry.event or "null")}, names)


def observe(path, opened, acts):
    """Return everything that can be seen of some acts, one after another, and of the ledger they leave."""
    names: dict[str, int] = {}
    seen = []
    path.parent.mkdir()
    with opened(path) as who:
        for act in acts:
            try:
                seen.append(shape(act(who), names))
            except ht.HoldtrueError as error:
                seen.append((type(error).__name__, str(error)))
    with open_ledger(path) as ledger:
        return seen, [line_of(entry, names) for entry in ledger.entries()]


def same_again_or_changed(call, folder):
    """Return what is seen where a call is made again with the same contents, and with one element changed."""
    worlds = []
    for place, second in enumerate((call.private, call.change(call.private))):
        acts = [lambda who, given=given: call.act(who, given) for given in (call.private, second, call.private)]
        worlds.append(observe(folder / str(place) / "rows.ledger", call.opened, acts))
    return worlds


def on_neighbours(call, folder):
    """Return what is seen of the same calls on two neighbours."""
    return [
        observe(
            folder / str(place) / "rows.ledger",
            lambda path, given=given: call.opened(path, given),
            [lambda who: call.act(who, None)],
        )
        for place, given in enumerate((call.private, call.change(call.private)))
    ]


AGAIN = [(argument, case) for argument, calls in ARGUMENTS.items() for case in calls]
NEIGHBOURS = [(argument, case) for argument, calls in OPENED.items() for case in calls]


def words(value):
    return value if isinstance(value, str) else ".".join(value)


@pytest.mark.parametrize(("argument", "case"), AGAIN, ids=words)
def test_p8_whether_private_contents_are_equal_is_told_nowhere(tmp_path, argument, case):
    same, other = same_again_or_changed(ARGUMENTS[argument][case], tmp_path)
    assert same == other


@pytest.mark.parametrize(("argument", "case"), NEIGHBOURS, ids=words)
def test_p8_neighbouring_inputs_differ_in_what_is_drawn_only(tmp_path, argument, case):
    one, other = on_neighbours(OPENED[argument][case], tmp_path)
    assert one == other


def test_every_parameter_of_a_public_call_is_known_to_be_public_or_is_in_the_table():
    """A new parameter fails here until somebody has thought about it."""
    table = set(ARGUMENTS) | set(OPENED)
    found = {
        (each.__name__, name, parameter)
        for each in (ht.Curator, ht.Holdout, ht.Leaderboard)
        for name, method in inspect.getmembers(each, inspect.isfunction)
        if name == "__init__" or not name.startswith("_")
        for parameter in inspect.signature(method).parameters
        if parameter != "self"
    }
    assert table <= found
    unknown = {each for each in found - table - PUBLIC_HERE if each[2] not in PUBLIC}
    assert unknown == set()
    assert not {each for each in table if each[2] in PUBLIC}


def by_content(method, argument):
    """Return a method as it was when private contents named a repeat."""

    def called(self, *args, **given):
        private = args[0] if args and argument not in given else given[argument]
        content = json.dumps(private) if isinstance(private, dict) else np.asarray(private).tobytes().hex()
        return method(self, *args, **({"name": hashlib.sha256(content.encode()).hexdigest()} | given))

    return called


PLANTED = {
    ("Curator", "ask", "values"): "new each time",
    ("Curator", "select", "candidates"): "new each time",
    ("Holdout", "score", "cases"): "scores, new each time",
    ("Holdout", "gate", "cases"): "new each time",
    ("Holdout", "compare_cases", "first"): "new each time",
}


@pytest.mark.parametrize("argument", PLANTED, ids=words)
def test_repeats_by_content_are_found(tmp_path, monkeypatch, argument):
    """The control: names that follow from private contents tell whether they are equal."""
    owner, name, parameter = getattr(ht, argument[0]), argument[1], argument[2]
    monkeypatch.setattr(owner, name, by_content(getattr(owner, name), parameter))
    same, other = same_again_or_changed(ARGUMENTS[argument][PLANTED[argument]], tmp_path)
    assert same != other


def test_an_error_that_tells_of_contents_is_found(tmp_path, monkeypatch):
    """The control: a refusal that names what a private vector holds."""
    whole = ht.Curator.ask

    def refusing(self, *args, values=None, **given):
        if values[7]:
            message = "values must not be 1 there"
            raise ht.RefusedError(message)
        return whole(self, *args, values=values, **given)

    monkeypatch.setattr(ht.Curator, "ask", refusing)
    same, other = same_again_or_changed(ARGUMENTS["Curator", "ask", "values"]["new each time"], tmp_path)
    assert same != other
