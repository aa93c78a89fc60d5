"""Ensembles against a loop over scikit-learn's estimators: votes at many points, votes at one, and training."""

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers import best_time, show, without_numba
from holdtrue.curator import Curator
from holdtrue.ensembles import Ensemble, train
from holdtrue.ensembles.members import Domain, Members, read_block, read_tree, stack_blocks, stack_trees
from holdtrue.kernels import predictors

__all__ = ["run"]

_PARTS = 1000
_POINTS = 100_000
_COLUMNS = 20
_LABELS = (0, 1)
_RNG = np.random.default_rng(7)  # noqa: TID251 - rows to be measured on


def run() -> None:
    """Print times and ratios, and check that both sides count the same votes. Compiling is warmed up before."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.tree import DecisionTreeClassifier

    x, y = _rows(100 * _PARTS)
    logistic, fits, ours = _training(LogisticRegression(), x, y)
    rows = [
        _row(f"training {_PARTS:,} logistic members on 100 rows each, batched", ours, fits, f"{fits / ours:,.0f} (>= 10)")
    ]
    x, y = _rows(_PARTS * 1000)
    trees, fits, ours = _training(DecisionTreeClassifier(max_depth=6), x, y)
    cores = os.cpu_count() or 1
    share = f"{ours / (fits / cores):.2f} of the loop / {cores} cores (<= 1.3)"
    rows.append(_row(f"training {_PARTS:,} trees of depth 6 on 1,000 rows each", ours, fits, share))
    points, _ = _rows(_POINTS)
    stacked = stack_blocks([read_block(member, labels=_LABELS) for member in logistic])
    rows += _voting("logistic members", stacked, logistic, points, least=8)
    rows += _voting(
        "trees of depth 6", stack_trees([read_tree(member, labels=_LABELS) for member in trees]), trees, points, least=4
    )
    rows.append(_judging())
    show(f"{_COLUMNS} columns, two labels, {cores} cores", ["what", "holdtrue", "loop", "loop / holdtrue"], rows)


def _rows(count: int) -> tuple[Any, Any]:
    x = _RNG.normal(size=(count, _COLUMNS))
    return x, (x[:, 0] * x[:, 1] + x[:, 2] + _RNG.normal(size=count) > 0).astype(np.int64)


def _training(estimator: Any, x: Any, y: Any) -> tuple[list[Any], float, float]:  # noqa: ANN401 - scikit-learn's and arrays
    """Return the members of a loop of fits, its time, and ours, after a few parts to warm up."""
    from sklearn.base import clone
    from threadpoolctl import threadpool_limits

    train(estimator, x[: 3 * _PARTS], y[: 3 * _PARTS], parts=_PARTS // 3, labels=_LABELS)
    start = time.perf_counter()
    train(estimator, x, y, parts=_PARTS, labels=_LABELS)
    ours = time.perf_counter() - start
    parts = [(x[part::_PARTS].copy(), y[part::_PARTS].copy()) for part in range(_PARTS)]
    # The loop is quickest when its linear algebra keeps to one thread.
    with threadpool_limits(1):
        start = time.perf_counter()
        members = [clone(estimator).fit(*part) for part in parts]
        return members, time.perf_counter() - start, ours


def _voting(name: str, stacked: Members, members: list[Any], points: Any, *, least: int) -> list[list[str]]:  # noqa: ANN401
    ensemble = Ensemble(stacked, Domain.of(None, width=_COLUMNS), _LABELS, None, 0.0)
    ours = best_time(lambda: ensemble.votes(points), repeat=3)
    start = time.perf_counter()
    ahead = sum(member.predict(points) for member in members)
    loop = time.perf_counter() - start
    same = float((ensemble.votes(points)[:, 1] == ahead).mean())
    title = f"{_PARTS:,} {name}, {_POINTS:,} points ({same:.4%} of counts equal)"
    one = points[:1].copy()
    single = _mean(lambda: ensemble.votes(one), 2000)
    each = _mean(lambda: sum(member.predict(one) for member in members), 1)
    with without_numba(predictors.compiled):
        plain = _mean(lambda: ensemble.votes(one), 200)
    wanted = " (>= 500)" if ensemble.kind == "linear" else ""
    return [
        _row(title, ours, loop, f"{loop / ours:,.1f} (>= {least})"),
        _row(f"{_PARTS:,} {name}, one point", single, each, f"{each / single:,.0f}{wanted}"),
        _row(f"{_PARTS:,} {name}, one point, without numba", plain, each, f"{each / plain:,.0f}"),
    ]


def _judging() -> list[str]:
    """Return the time of evaluating 200 linear members on 6,512 held-out rows, beside a loop that counts their votes."""
    from sklearn.linear_model import LogisticRegression

    x, y = _rows(32_561)
    table = {f"x{place}": x[:, place] for place in range(_COLUMNS)} | {"y": y == 1}
    levels = iter(range(10, 900))
    with Curator(table, epsilon=6, delta=1e-6) as curator:
        curator.train("members", LogisticRegression(), target="y", parts=200, order="fixed", held_out=0.2)
        ours = best_time(lambda: curator.evaluate("members", at_most=next(levels) / 1000, epsilon=0.1, mu=0.01), repeat=3)
    members = [LogisticRegression().fit(x[part::200], y[part::200]) for part in range(200)]
    loop = best_time(lambda: sum(member.predict(x[:6512]) for member in members), repeat=3)
    return _row("evaluating 200 linear members on 6,512 rows", ours, loop, "(holdtrue <= 1 s)")


def _mean(action: Callable[[], object], times: int) -> float:
    """Return the mean time of an action that is too short to be timed alone."""
    return best_time(lambda: [action() for _ in range(times)], repeat=3) / times


def _row(what: str, ours: float, loop: float, ratio: str) -> list[str]:
    return [what, _time(ours), _time(loop), ratio]


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds * 1e6:,.1f} µs"
