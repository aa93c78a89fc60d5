"""Call everything public with hostile arguments, in a process of its own; print what got out of the error tree.

``python tests/hostile_calls.py SEED FIRST LAST`` prints one JSON line: how many calls, and every breach by target.
"""

import dataclasses
import faulthandler
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

import holdtrue as ht
from holdtrue import events
from holdtrue.codec import convert, decode, encode, plain
from holdtrue.estimators import (
    PrivateLearner,
    SoftMajorityClassifier,
    StableClassifier,
    StableRegressor,
    ThresholdClassifier,
)
from holdtrue.hypotheses import Union, read_class
from holdtrue.ledgers import open_ledger
from holdtrue.planning.plans import read_plan
from holdtrue.queries import parse
from holdtrue.queries.cards import Card, Column
from holdtrue.requests import Variance
from hostile_values import CLOCKS, VALUES, Lying, Raising, write_files

_STABLE = ("loss", "strength", "bounds", "norm", "radius", "release", "epsilon", "delta", "mu", "steps")
SECONDS = 10
MEMORY = 1 << 30
ROWS = 400


def _over_half(rows: Any) -> Any:
    return np.asarray(rows)[:, 0] > 0.5


class Hung(BaseException):
    """A call took too long."""


@dataclasses.dataclass(frozen=True)
class Target:
    """Something public: how to call it rightly, and which errors beside the tree are documented of it."""

    name: str
    call: Callable[..., Any]
    given: dict[str, Any]
    free: tuple[str, ...] = ()
    allowed: tuple[type[BaseException], ...] = ()
    share: float = 1.0


def _data() -> pd.DataFrame:
    numbers = np.arange(ROWS)
    return pd.DataFrame(
        {
            "age": numbers % 90,
            "smoker": numbers % 3 == 0,
            "region": np.where(numbers % 2, "N", "S"),
            "bmi": 15.0 + numbers % 20,
        }
    )


def _planners() -> list[Target]:
    asked = ("rows", "queries", "alpha", "beta", "epsilon", "delta", "reserve", "uses", "cap", "method", "bits", "iid")
    asked += ("side",)
    learned = ("size", "alpha", "beta", "epsilon", "rows", "method", "realizable")
    chosen = ("candidates", "beta", "epsilon", "shortfall", "sensitivity", "range", "monotone")
    predicted = ("size", "dimension", "alpha", "beta", "rows", "epsilon", "mu", "rho", "predictions", "realizable")
    fitted = ("rows", "excess", "mu", "epsilon", "release", "radius", "loss_lipschitz", "predictor_lipschitz", "smoothness")
    held = ("cases", "looks", "yes", "overfits", "beta", "private", "alpha", "gain", "discordant", "tells")
    made = ht.plan(rows=10_000, queries=100)
    return [
        Target("plan", ht.plan, {"rows": 10_000, "queries": 100}, asked, share=3),
        Target("plan", ht.plan, {"queries": 100, "alpha": 0.1, "epsilon": 1.0, "delta": 1e-6}, asked),
        Target("plan_learning", ht.plan_learning, {"size": 100, "alpha": 0.1, "beta": 0.05, "epsilon": 0.5}, learned),
        Target("cut", ht.cut, {"column": "age", "points": [18, 65]}, ("column", "points", "inside")),
        Target("plan_selection", ht.plan_selection, {"candidates": 50, "epsilon": 0.5, "beta": 0.05}, chosen),
        Target(
            "plan_prediction",
            ht.plan_prediction,
            {"epsilon": 1.0, "alpha": 0.1, "beta": 0.05, "size": 100},
            (*predicted, "method", "ledger"),
        ),
        Target("plan_regression", ht.plan_regression, {"rows": 1_000, "epsilon": 0.5}, fitted),
        Target("Fourier", ht.Fourier, {"pairs": 8, "scale": 1.0, "seed": 3}),
        Target("Polynomial", ht.Polynomial, {"degree": 2}),
        Target("plan_holdout", ht.plan_holdout, {"cases": 500, "looks": 20, "beta": 0.05}, (*held, "gain", "discordant")),
        Target("Plan.decode", lambda text: decode(text, ht.Plan), {"text": encode(made)}),
        Target("read_plan", read_plan, {"text": encode(made)}),
        Target(
            "compose",
            ht.compose,
            {"events": [events.GaussianNoise(1)], "delta": 1e-6, "adaptive": False},
            ("delta", "adaptive"),
        ),
    ]


def _mechanisms() -> list[Target]:
    made = {
        "Laplace": ht.Laplace(epsilon=1.0),
        "Gaussian": ht.Gaussian(sigma=2.0),
        "Exponential": ht.Exponential(epsilon=1.0),
        "PermuteAndFlip": ht.PermuteAndFlip(epsilon=1.0),
        "AboveThreshold": ht.AboveThreshold(epsilon=1.0),
    }
    targets = [
        Target("Laplace", ht.Laplace, {"epsilon": 1.0}, ("sensitivity",)),
        Target("Gaussian", ht.Gaussian, {"sigma": 1.0}, ("mu", "sensitivity")),
        Target("Exponential", ht.Exponential, {"epsilon": 1.0}, ("sensitivity", "range", "monotone", "weights")),
        Target("PermuteAndFlip", ht.PermuteAndFlip, {"epsilon": 1.0}, ("sensitivity", "range", "monotone")),
        Target("AboveThreshold", ht.AboveThreshold, {"epsilon": 1.0}, ("threshold", "sensitivity", "monotone")),
        Target("Watch.above", lambda value: made["AboveThreshold"].watch().above(value), {"value": 3}),
    ]
    for name, mechanism in made.items():
        targets += [
            Target(f"{name}.release", mechanism.release, {"values": [1, 2, 3]}),
            Target(f"{name}.delta", mechanism.delta, {"epsilon": 0.5}),
            Target(f"{name}.epsilon", mechanism.epsilon, {"delta": 1e-6}),
        ]
    return targets


def _classes() -> list[Target]:
    boxes = {"bounds": [(0, 1), (0, 1)], "steps": 4}
    made: dict[str, tuple[Callable[..., Any], dict[str, Any], tuple[str, ...]]] = {
        "Thresholds": (ht.Thresholds, {"low": 0, "high": 1, "steps": 10}, ("column",)),
        "Intervals": (ht.Intervals, {"low": 0, "high": 1, "steps": 10}, ("column",)),
        "Stumps": (ht.Stumps, boxes, ()),
        "Rectangles": (ht.Rectangles, boxes, ()),
        "Conjunctions": (ht.Conjunctions, {"columns": 3, "width": 2}, ()),
        "Disjunctions": (ht.Disjunctions, {"columns": 3, "width": 2}, ()),
        "Parities": (ht.Parities, {"columns": 3, "width": 2}, ()),
        "DecisionLists": (ht.DecisionLists, {"columns": 3, "length": 2}, ()),
        "Trees": (ht.Trees, {"columns": 3, "depth": 1}, ()),
        "LinearNet": (ht.LinearNet, {"dimension": 2, "count": 20}, ("resolution", "bounds")),
        "Hypotheses": (ht.Hypotheses, {"items": [_over_half, _over_half]}, ("columns", "names")),
        "Union": (Union, {"classes": [ht.Thresholds(0, 1, steps=3)]}, ("weights",)),
    }
    targets = []
    for name, (make, given, free) in made.items():
        targets.append(Target(name, make, given, free))
        found = make(**given)
        width = (
            1 if name in ("Thresholds", "Intervals", "Union") else 2 if name in ("Stumps", "Rectangles", "LinearNet") else 3
        )
        rows, labels = np.arange(12 * width).reshape(12, width) % 2, np.arange(12) % 2
        if name != "Hypotheses":
            targets += [
                Target(f"{name}.error_counts", found.error_counts, {"X": rows, "y": labels}),
                Target(f"{name}.evaluate", found.evaluate, {"X": rows, "index": 0}),
            ]
        targets.append(Target(f"{name}.describe", found.describe, {"index": 0}))
    document = plain(ht.Stumps(**boxes).document)
    return [*targets, Target("read_class", lambda **document: read_class(document), dict(document))]


def _queries() -> list[Target]:
    card = Card((Column("age", "integer", bounds=(0, 120)), Column("region", "text", labels=("N", "S"))), 10)
    return [
        Target("parse", lambda text: parse(text, card), {"text": "age > 65"}, share=3),
        Target("Column", Column, {"name": "age", "type": "integer"}, ("bounds", "labels")),
        Target("Card", Card, {"columns": (Column("age", "integer"),), "rows": 10}),
        Target("convert", lambda document: convert(document, Card), {"document": plain(card)}),
        Target("Card.column", card.column, {"name": "age"}),
    ]


def _curator(folder: Path, files: list[str]) -> list[Target]:
    from sklearn.linear_model import LogisticRegression

    frame = _data()
    planned = {"queries": 20, "epsilon": 1.0, "delta": 1e-6}
    keys = ("key", "analyst")
    options = ("alpha", "beta", "reserve", "uses", "cap", "iid", "pure", "types", "bounds", "labels", "plan", "header")
    options += ("side", "group")
    curator = ht.Curator(frame, epsilon=1000.0, delta=1e-6, ledger=folder / "curator.ledger")
    judged = {"order": "fixed", "held_out": 0.2}
    curator.train("risk", LogisticRegression(), target="smoker", features=["age", "bmi"], parts=10, **judged)
    number = iter(range(10**9))

    def open_data(data: object, **given: Any) -> object:
        with ht.Curator(data, **given) as opened:
            return opened.budget

    def open_at(ledger: object) -> object:
        return open_data(frame, ledger=ledger, second_budget=True, **planned)

    def ask_fresh(**given: Any) -> object:
        return curator.ask(f"age > {next(number)}.5", **given)

    roomy = ht.Curator(frame, queries=10**6, epsilon=1000.0, delta=1e-6)
    averaged = {"column": "age", "low": 0, "high": 100}
    stumps = ht.Stumps(bounds={"age": (0, 90)}, steps=5)
    spans = {"age": (0, 100), "bmi": (10, 50)}
    learner = {"hypotheses": ht.Stumps(bounds={"age": (0, 90)}, steps=5), "target": "smoker", "epsilon": 0.001}
    learned = ("features", "alpha", "beta", "weights", "anyway", *keys)
    rows = {"age": [1, 2], "bmi": [20.0, 30.0]}
    on_class = {"name": "x", "hypotheses": ht.Stumps(bounds={"age": (0, 120)}, steps=4), "target": "smoker", "parts": 5}
    trained = {"name": "x", "estimator": LogisticRegression(), "target": "smoker", "features": ["age"], "parts": 5}
    targets = [
        Target("Curator", open_data, {"data": frame, **planned}, (*options, "analyst", "progress"), share=2),
        Target("Curator ledger", open_at, {"ledger": folder / "new.ledger"}),
        Target("Curator.ask", curator.ask, {"queries": "age > 65"}, keys, share=3),
        Target("Curator.ask values", curator.ask, {"values": np.zeros(ROWS)}, keys),
        Target("Curator.ask fresh", ask_fresh, {}, keys),
        Target("Curator.ask by", roomy.ask, {"queries": "age > 65", "by": "smoker"}, ("keys", *keys)),
        Target("Curator.mean", roomy.mean, averaged, ("where", "by", "keys", *keys), share=2),
        Target(
            "Curator.marginals",
            roomy.marginals,
            {"sets": "pairs", "columns": ["smoker", "region"]},
            ("keys", "margins", "questions", "workload", *keys),
        ),
        Target("Curator.synthesize", roomy.synthesize, {"columns": ["smoker"], "rows": 10}, ("seed", "analyst")),
        Target("Curator.variance", roomy.variance, averaged, keys),
        Target("Curator.covariance", roomy.covariance, {"first": "age", "second": "bmi", "bounds": spans}, keys),
        Target("Curator.correlation", roomy.correlation, {"first": "age", "second": "bmi", "bounds": spans}, keys),
        Target("Curator.r_squared", roomy.r_squared, {"prediction": "age", "target": "bmi", "low": 0, "high": 9}, keys),
        Target("Curator.gini", roomy.gini, averaged, keys),
        Target("Curator.ratio", roomy.ratio, {"numerator": "age", "denominator": "bmi", "cap": 9}, ("low", "high", *keys)),
        Target("Curator.auc", roomy.auc, {"score": "age", "label": "smoker", "low": 0, "high": 100}, keys),
        Target("Curator.pairs", roomy.pairs, {"kernel": "abs(a.age - b.bmi)", "low": 0, "high": 100}, keys, share=2),
        Target("Curator.best_error", roomy.best_error, {"hypotheses": stumps, "target": "smoker"}, ("features", *keys)),
        Target("Curator.preview_statistic", roomy.preview_statistic, {"request": Variance(**averaged)}),
        Target("Curator.sum", roomy.sum, averaged, ("where", "by", "population")),
        Target(
            "Curator.quantile",
            curator.quantile,
            {"column": "age", "levels": [0.25, 0.5], "low": 0, "high": 90},
            ("step", "where", "method", "epsilon", *keys),
        ),
        Target(
            "Curator.median", curator.median, {"column": "bmi", "low": 10, "high": 40}, ("step", "where", "method", *keys)
        ),
        Target("Curator.frame value", lambda value: (curator.frame().age > value).mean(), {"value": 3}),
        Target("Curator.frame column", lambda name: curator.frame()[name].isin(["N"]).mean(), {"name": "region"}),
        Target("Curator.frame groups", lambda columns: curator.frame().groupby(columns), {"columns": ["region"]}),
        Target(
            "Curator.preview_quantile",
            curator.preview_quantile,
            {"column": "age", "levels": 0.5, "low": 0, "high": 90},
            ("step", "where", "method"),
        ),
        Target("Curator.select", curator.select, {"candidates": ["age > 3", "smoker"], "epsilon": 0.001}, keys, share=2),
        Target(
            "Curator.select scores",
            curator.select,
            {"scores": {"a": 3, "b": 7}, "epsilon": 0.001},
            ("sensitivity", "weights", "top", "name"),
            share=2,
        ),
        Target(
            "Curator.watch",
            lambda query="smoker", key=None, **terms: curator.watch(**terms).ask(query, key=key),
            {"threshold": 0.9, "epsilon": 0.001},
            ("alarms", "name", "analyst", "query", "key"),
            share=2,
        ),
        Target("Curator.learn", curator.learn, learner, learned, share=2),
        Target(
            "Curator.fit",
            curator.fit,
            {"name": "m", "kind": "logistic", "target": "smoker", "features": ["age"], "bounds": spans, "mu": 0.001},
            ("labels", "radius", "strength", *keys),
            share=2,
        ),
        Target("Curator.train", curator.train, trained, ("labels", "bounds")),
        Target("Curator.train(hypotheses)", curator.train, on_class, ("assuming",)),
        Target(
            "Curator.predict", curator.predict, {"name": "risk", "rows": rows, "epsilon": 0.001}, ("method", "screen", *keys)
        ),
        Target(
            "Curator.distill",
            curator.distill,
            {"name": "risk", "public_rows": rows, "student": LogisticRegression(), "epsilon": 0.001},
            ("labels", "groups", "screen", "analyst"),
        ),
        Target(
            "Curator.evaluate", curator.evaluate, {"model": "risk", "at_most": 0.3, "mu": 0.001}, ("epsilon", "beta", *keys)
        ),
        Target("Curator.predictions_left", curator.predictions_left, {"epsilon": 0.1}),
        Target("Curator.preview", curator.preview, {"query": "age > 65"}),
        Target("Curator.deduce", curator.deduce, {"query": "age > 65"}, ("analyst",)),
        Target("Curator.grant", curator.grant, {"analyst": "ann", "asks": 10}),
        Target("Curator.model", curator.model, {"name": "risk"}),
        Target("Curator.report", curator.report, {"path": folder / "report.html"}),
    ]
    targets += [
        Target("Curator file", open_data, {"data": file, **planned}, ("header", "types"), share=0.15) for file in files
    ]
    whole = folder / "curator.ledger"
    return [
        *targets,
        Target("verify", ht.verify, {"where": whole, "receipts": []}),
        Target("audit_ledger", ht.audit_ledger, {"where": whole}, ("receipts", "data")),
        Target("open_ledger", open_ledger, {"where": whole}, ("kind", "cap", "plan", "card", "iid")),
    ]


def _holdouts() -> list[Target]:
    truth = np.arange(ROWS) % 2
    guess = (np.arange(ROWS) // 2) % 2
    given = {"y_true": truth, "looks": 100}
    free = ("beta", "yes", "incumbent", "train", "overfits", "private", "epsilon", "delta", "threshold", "tolerance")
    more = ("reserve", "metric", "ids", "weights", "labels", "classes", "unseen", "tells", "gain", "discordant", "analyst")
    scoring = ht.Holdout(truth, looks=500)
    gating = ht.Holdout(truth, looks=500, yes=5, incumbent=guess)
    board = ht.Leaderboard(truth, submissions=500)
    ruled = ("rule", "beta", "step", "moves", "epsilon", "delta", "ids", "labels", "classes", "unseen", "analyst")
    return [
        Target("Holdout", ht.Holdout, given, (*free, *more), share=2),
        Target("Holdout.score", scoring.score, {"y_pred": guess}, ("metric", "ids", "name", "analyst"), share=2),
        Target("Holdout.gate", gating.gate, {"y_pred": guess, "margin": 0.01}, ("ids", "name", "analyst")),
        Target("Leaderboard", ht.Leaderboard, {"y_true": truth, "submissions": 100}, ruled),
        Target("Leaderboard.submit", board.submit, {"name": "ann", "y_pred": guess}, ("ids",)),
    ]


def _estimators() -> list[Target]:
    from sklearn.linear_model import LogisticRegression

    rows, labels = np.random.default_rng(0).random((200, 2)), np.arange(200) % 2
    own = (TypeError, ValueError, AttributeError)  # what scikit-learn's own checks raise

    def fit(make: Callable[..., Any]) -> Callable[..., Any]:
        def fitted(X: object, y: object, **given: Any) -> object:  # noqa: N803 - scikit-learn's names
            return make(**given).fit(X, y).predict(rows[:3])

        return fitted

    base = {"X": rows, "y": labels}
    bounds = [(0.0, 1.0)] * 2
    soft = lambda **given: SoftMajorityClassifier(LogisticRegression(), **{"parts": 10} | given)  # noqa: E731 - short
    grid = lambda **given: PrivateLearner(ht.Stumps(bounds=bounds, steps=5), **given)  # noqa: E731
    cut = lambda **given: ThresholdClassifier(ht.Thresholds(0, 1, steps=5), **given)  # noqa: E731
    return [
        Target("SoftMajorityClassifier", fit(soft), base | {"epsilon": 1.0}, ("parts", "classes", "bounds", "jobs"), own),
        Target("PrivateLearner", fit(grid), base | {"epsilon": 1.0}, ("beta",), own),
        Target("StableClassifier", fit(StableClassifier), base, _STABLE, own),
        Target("StableRegressor", fit(StableRegressor), base, (*_STABLE, "label_bounds"), own),
        Target(
            "ThresholdClassifier",
            fit(cut),
            {"X": rows[:, :1], "y": labels},
            ("epsilon", "column", "direction", "classes"),
            own,
        ),
    ]


def _audits() -> list[Target]:
    laplace = ht.Laplace(epsilon=1.0)

    def run(data: int, count: int) -> Any:
        return laplace.release([data if type(data) is int else 0] * count)

    paired = {"run": run, "left": 0, "right": 1, "samples": 300}
    free = ("delta", "confidence", "rows", "search")
    general = {"factory": lambda _: None, "runs": 2}
    return [
        Target("audit_privacy", ht.audit_privacy, paired | {"epsilon": 1.0}, free),
        Target("audit_stability", ht.audit_stability, paired | {"tv": 0.5}, free[1:]),
        Target(
            "audit_replicability",
            ht.audit_replicability,
            {"mechanism": lambda sample, _: sample, "draw_sample": lambda _: 1, "claim": 0.9, "runs": 50},
            ("confidence",),
        ),
        Target(
            "audit_timing",
            ht.audit_timing,
            {"run": abs, "left": 1, "right": 2, "samples": 50},
            ("auc", "confidence", "clock"),
        ),
        Target("audit_generalization", ht.audit_generalization, general, ("analyst", "population", "beta", "confidence")),
        Target(
            "connect",
            ht.connect,
            {"url": "http://127.0.0.1:9", "key": "k", "insecure": True, "retries": 0},
            ("dataset", "timeout", "certificates"),
            share=0.3,
        ),
    ]


def targets_in(folder: Path) -> list[Target]:
    """Return everything that is called."""
    (folder / "files").mkdir()
    files = write_files(folder / "files")
    return [
        *_planners(),
        *_mechanisms(),
        *_classes(),
        *_queries(),
        *_curator(folder, files),
        *_holdouts(),
        *_estimators(),
        *_audits(),
    ]


def spoil(target: Target, dice: random.Random) -> dict[str, Any]:
    """Return right arguments with one, a few or all of them replaced."""
    given = dict(target.given)
    names = [*given, *target.free]
    if not names:
        return given
    several = dice.choice([1, 1, 1, 2, 3, len(names)])
    for name in dice.sample(names, min(several, len(names))):
        given[name] = dice.choice(VALUES)
        if target.allowed and isinstance(given[name], (range, Raising, Lying)):
            given[name] = None  # scikit-learn lists whatever it is given, and lets its errors through
    return given


def holds_nan(value: object, depth: int = 0) -> bool:
    """Return whether a response holds what is not a number."""
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    if isinstance(value, np.ndarray):
        return value.dtype.kind == "f" and bool(np.isnan(value).any())
    if depth > 3:
        return False
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return any(holds_nan(getattr(value, field.name, None), depth + 1) for field in dataclasses.fields(value))
    if isinstance(value, msgspec.Struct):
        return any(holds_nan(each, depth + 1) for each in msgspec.structs.astuple(value))
    if isinstance(value, (list, tuple)):
        return any(holds_nan(each, depth + 1) for each in value[:20])
    return False


def call_once(target: Target, dice: random.Random) -> str | None:
    """Make one call; return what got out of the tree, None where all is well."""
    given = spoil(target, dice)
    clock = dice.choice(CLOCKS) if dice.random() < 0.05 else None
    real = time.time
    try:
        if clock is not None:
            time.time = lambda: clock
        signal.alarm(SECONDS)
        try:
            found = target.call(**given)
        finally:
            signal.alarm(0)
            time.time = real
        return "NaN in the response" if holds_nan(found) else None
    except (ht.HoldtrueError, *target.allowed):
        return None
    except Hung:
        return f"hung: {_shown(given, target)}"
    except BaseException as error:  # noqa: BLE001 - this is what is counted
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "holdtrue" in frame.filename]
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
        try:
            words = str(error)[:90]
        except RuntimeError:
            words = "?"
        return f"{type(error).__name__} at {place} ({words!r}): {_shown(given, target)}{f' clock {clock}' if clock else ''}"


def _shown(given: dict[str, Any], target: Target) -> str:
    parts = []
    for name, value in given.items():
        if name in target.given and value is target.given[name]:
            continue
        try:
            text = repr(value)[:40]
        except Exception:  # noqa: BLE001 - hostile on purpose
            text = f"<{type(value).__name__}>"
        parts.append(f"{name}={text}")
    return ", ".join(parts)


def main(seed: str, calls: int) -> None:
    """Make so many calls and print what happened."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(SECONDS * 3, repeat=False, exit=True)
    warnings.simplefilter("ignore")

    def hang(*_: object) -> None:
        raise Hung

    signal.signal(signal.SIGALRM, hang)
    breaches: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # what is no path to somebody is one to us
        targets = targets_in(Path(folder))
        for target in dice.choices(targets, weights=[target.share for target in targets], k=calls):
            faulthandler.dump_traceback_later(SECONDS * 3, repeat=False, exit=True)
            counts[target.name] = counts.get(target.name, 0) + 1
            breach = call_once(target, dice)
            if breach is not None:
                sys.stderr.write(f"{target.name} {breach}\n")
                breaches.setdefault(target.name, []).append(breach)
        faulthandler.cancel_dump_traceback_later()
    report = {"calls": sum(counts.values()), "counts": counts, "breaches": breaches, "memory": peak_memory()}
    sys.stdout.write(json.dumps(report) + "\n")


def peak_memory() -> int:
    """Return this process's peak memory in bytes; getrusage's figure would include that of whoever started us."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
