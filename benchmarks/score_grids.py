"""Counting the errors of all stumps, thresholds, intervals and rectangles, against scikit-learn and NumPy."""

import time
import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
from sklearn.tree import DecisionTreeClassifier

from benchmarks.peers import best_time, show, without_numba
from holdtrue.hypotheses import HypothesisClass, Intervals, Rectangles, Stumps, Thresholds
from holdtrue.kernels import Flags, Integers, Matrix, grids

__all__ = ["run"]

Data = tuple[Matrix, Flags]

_ROWS = 10**6
_COLUMNS = 64
_STEPS = 256
_SHARE = 40
_HEADER = ["holdtrue", "without numba", "ps a row and hypothesis", "memory", "peer", "peer / holdtrue"]


def run() -> None:
    """Print times, ratios with the targets that the project promises, and the memory that a count takes beside the rows."""
    rng = np.random.default_rng(1)  # noqa: TID251 - data to be measured on
    matrix = rng.random((_ROWS, _COLUMNS))
    labels = matrix[:, 3] + 0.3 * rng.random(_ROWS) > 0.6
    rectangles = Rectangles(bounds=[(0, 1)] * 2, steps=64)
    _compile((matrix[:1000], labels[:1000]), rectangles)
    title = f"all {2 * _COLUMNS * _STEPS:,} stumps, {_ROWS:,} rows, {_COLUMNS} columns, {_STEPS} steps"
    show(f"{title}; peer: DecisionTreeClassifier(max_depth=1).fit", ["given as", *_HEADER], list(_stumps(matrix, labels)))
    column, two = np.ascontiguousarray(matrix[:, 3:4]), np.ascontiguousarray(matrix[:, 3:5])
    rows = [_thresholds((column, labels)), _thresholds((column.astype(np.float32), labels))]
    rows += [_one_by_one(Intervals(0, 1, steps=2048), (column, labels)), _one_by_one(rectangles, (two, labels))]
    show(f"other classes, {_ROWS:,} rows", ["class; peer", *_HEADER], rows)


def _compile(data: Data, rectangles: Rectangles) -> None:
    matrix, labels = data
    start = time.perf_counter()
    grids.compiled(1 << 40)
    loaded = time.perf_counter()
    for kind in (np.float64, np.float32, np.uint8):
        for layout in (np.ascontiguousarray, np.asfortranarray):
            for steps in (_STEPS, 1 << 16):
                Stumps(bounds=(0, 1), steps=steps).error_counts(layout(matrix.astype(kind)), labels)
        rectangles.error_counts(matrix[:, :2].astype(kind), labels)
    done = time.perf_counter()
    print(f"apart: loading numba {loaded - start:.1f} s, compiling kernels or reading them from disk {done - loaded:.1f} s")


def _stumps(matrix: Matrix, labels: Flags) -> Iterator[list[str]]:
    """Yield a row for each type and layout. The fit is timed once for each type, on contiguous rows."""
    for kind, high in ((np.float64, 1), (np.float32, 1), (np.uint8, 256)):
        given = (matrix * high).astype(kind)
        start = time.perf_counter()
        DecisionTreeClassifier(max_depth=1).fit(given, labels)
        theirs = time.perf_counter() - start
        stumps = Stumps(bounds=[(0, high)] * _COLUMNS, steps=_STEPS)
        target = "" if kind is np.uint8 else " (>= 300)"
        yield _row(f"{kind.__name__}, rows", stumps, (given, labels), theirs, target=target)
        yield _row(f"{kind.__name__}, columns", stumps, (np.asfortranarray(given), labels), theirs)
        if kind is np.float64:
            uneven = Stumps(bounds=[(0.1, 0.7 + number / 1000) for number in range(_COLUMNS)], steps=_STEPS - 1)
            yield _row("float64, rows, 255 uneven steps", uneven, (given, labels), theirs)


def _thresholds(data: Data) -> list[str]:
    """Return the row of thresholds. The peer's time leaves out finding the edges in the order of its rows."""
    thresholds = Thresholds(0, 1, steps=1 << 16)
    values, labels = data[0][:, 0], data[1]

    def peer() -> tuple[npt.NDArray[np.intp], Integers]:
        order = np.argsort(values)
        return order, np.cumsum(labels[order])

    order, ones = peer()
    before = np.searchsorted(values[order], thresholds.grid.edges())
    ones = np.concatenate(([0], ones))
    expected = ones[before] + (labels.size - ones[-1]) - (before - ones[before])
    _check(np.array_equal(thresholds.error_counts(*data), expected))
    name = f"65,536 thresholds, {values.dtype}; argsort + cumsum"
    return _row(name, thresholds, data, best_time(peer), target=" (>= 50)", repeat=50)


def _one_by_one(given: HypothesisClass, data: Data) -> list[str]:
    """Return the row of a class whose peer evaluates hypotheses one by one: a share of them, its time scaled up."""
    some = np.linspace(0, given.size - 1, _SHARE).astype(np.int64).tolist()
    start = time.perf_counter()
    found = [int(np.count_nonzero(given.evaluate(data[0], index) != data[1])) for index in some]
    theirs = (time.perf_counter() - start) * given.size / _SHARE
    _check(given.error_counts(*data)[some].tolist() == found)
    return _row(f"{given.size:,} {given.kind}; one by one ({_SHARE}, scaled)", given, data, theirs)


def _row(  # noqa: PLR0913 - what a row shows
    name: str, given: HypothesisClass, data: Data, theirs: float, *, target: str = "", repeat: int = 7
) -> list[str]:
    def count() -> Integers:
        return given.error_counts(*data)

    ours = best_time(count, repeat=repeat)
    with without_numba(grids.compiled):
        plain = best_time(count, repeat=1)
    each = f"{ours * 1e12 / given.size / len(data[1]):.3g}"
    return [name, _time(ours), _time(plain), each, _memory(count), _time(theirs), f"{theirs / ours:,.0f}{target}"]


def _check(same: bool) -> None:  # noqa: FBT001 - a claim
    if not same:
        message = "the two do not count the same"
        raise AssertionError(message)


def _memory(action: Callable[[], object]) -> str:
    tracemalloc.start()
    action()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return f"{peak / 1e6:,.1f} MB"


def _time(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds >= 1 else f"{seconds * 1e3:,.2f} ms"
