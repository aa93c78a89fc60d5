"""Error counts of classes over yes-or-no columns, against bit-packed NumPy one by one and NumPy butterflies."""

import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from benchmarks.peers import best_time, show, without_numba
from holdtrue.hypotheses import Conjunctions, DecisionLists, Disjunctions, HypothesisClass, Parities, Trees
from holdtrue.kernels import Flags, Integers, Matrix, column_sets

__all__ = ["run"]

_ROWS = 10**6
_COLUMNS = 64
_BITS = 20
_SHARE = 300
_RNG = np.random.default_rng(1)  # noqa: TID251 - data to be measured on


def run() -> None:
    """Print times, ratios to the peers and peak memory; time to compile apart."""
    matrix = _RNG.integers(0, 2, (_ROWS, _COLUMNS), dtype=np.uint8)
    y = _RNG.random(_ROWS) < 0.5
    few = np.ascontiguousarray(matrix[:, :_BITS])
    warm = [
        _timed(lambda: Conjunctions(_COLUMNS, width=3).error_counts(matrix, y)),
        _timed(lambda: Parities(_BITS).error_counts(few, y)),
    ]
    show(
        f"all error counts, {_ROWS:,} rows (first calls, with loading or compiling: {warm[0]:.1f} s and {warm[1]:.1f} s)",
        ["class and rows", "hypotheses", "time", "ps / row / hypothesis", "peak MB", "peer / holdtrue"],
        [*_conjunctions(matrix, y), *_parities(few, y), *_others(matrix, y)],
    )


def _conjunctions(matrix: Matrix, y: Flags) -> list[list[str]]:
    """Return rows of conjunctions in several layouts. The peer packs bits once, and gets a share, scaled up."""
    some = Conjunctions(_COLUMNS, width=3)
    found = some.error_counts(matrix, y)
    packed = np.packbits(np.ascontiguousarray(matrix.T), axis=1, bitorder="little").view(np.uint64)
    labels = np.packbits(y, bitorder="little").view(np.uint64)
    picked = _RNG.choice(some.size, _SHARE, replace=False).tolist()
    literals = [_literals(some, index) for index in picked]
    start = time.perf_counter()
    counts = [_one(packed, labels, chosen) for chosen in literals]
    theirs = (time.perf_counter() - start) / _SHARE * some.size
    if counts != found[picked].tolist():
        message = "the two do not count the same"
        raise AssertionError(message)
    rows = [
        _row(
            "conjunctions, uint8 by rows",
            some,
            matrix,
            y,
            theirs=theirs,
            target=f"NumPy, {_SHARE} scaled: {{:,.0f}} (>= 100)",
        )
    ]
    for name, other in (
        ("uint8 by columns", np.asfortranarray(matrix)),
        ("booleans by rows", matrix.astype(np.bool_)),
        ("float64 by rows", matrix.astype(np.float64)),
    ):
        rows.append(_row(f"conjunctions, {name}", some, other, y, theirs=theirs, target="{:,.0f}"))
    return rows


def _literals(some: Conjunctions, index: int) -> list[tuple[int, bool]]:
    words = some.describe(index).removesuffix(" → 1").split(" AND ")
    return [(int(word.removeprefix("NOT ")[1:]), word.startswith("NOT ")) for word in words]


def _one(packed: npt.NDArray[np.uint64], labels: npt.NDArray[np.uint64], literals: list[tuple[int, bool]]) -> int:
    kept = np.full(labels.size, ~np.uint64(0))
    for column, negated in literals:
        kept &= ~packed[column] if negated else packed[column]
    kept ^= labels
    return int(np.bitwise_count(kept).sum(dtype=np.int64))


def _parities(matrix: Matrix, y: Flags) -> list[list[str]]:
    """Return rows of all parities: from rows, and the transform alone, from counts of cells, as the peer has it."""
    every = Parities(_BITS)
    totals = every.make_totals()
    every.add_rows(matrix, y, totals)
    theirs = best_time(lambda: _butterflies(totals[:-1]), repeat=3)
    if not np.array_equal((_ROWS - _butterflies(totals[:-1])) // 2, every.count_errors(totals)):
        message = "the two do not count the same"
        raise AssertionError(message)
    ours = best_time(lambda: every.count_errors(totals), repeat=15)
    memory = _peak(lambda: every.count_errors(totals))
    alone = _cells(f"parities of {_BITS} columns, counts of cells given", every, ours, memory)
    return [
        _row(f"parities of {_BITS} columns, uint8 by rows", every, matrix, y),
        [*alone, f"NumPy butterflies: {theirs / ours:,.0f} (>= 5)"],
    ]


def _butterflies(cells: Integers) -> Integers:
    sums = cells.copy()
    step = 1
    while step < sums.size:
        pairs = sums.reshape(-1, 2, step)
        low, high = pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]
        pairs[:, 0], pairs[:, 1] = low, high
        step *= 2
    return sums


def _others(matrix: Matrix, y: Flags) -> list[list[str]]:
    """Return rows of the other classes, and of conjunctions where numba is absent, on a share of the rows, scaled up."""
    classes: dict[str, HypothesisClass] = {
        "disjunctions": Disjunctions(_COLUMNS, width=3),
        "parities of at most 3": Parities(_COLUMNS, width=3),
        "decision lists of at most 3 rules": DecisionLists(_COLUMNS, length=3),
        "trees of depth 2": Trees(_COLUMNS),
    }
    rows = [_row(f"{name}, uint8 by rows", some, matrix, y) for name, some in classes.items()]
    some = Conjunctions(_COLUMNS, width=3)
    share = 20
    with without_numba(column_sets.compiled):
        plain = _timed(lambda: some.error_counts(matrix[: _ROWS // share], y[: _ROWS // share])) * share
    return [*rows, [*_cells(f"conjunctions without numba (1 row in {share}, scaled)", some, plain, None), ""]]


def _row(  # noqa: PLR0913 - a line of the table
    name: str, some: HypothesisClass, matrix: Matrix, y: Flags, *, theirs: float = 0.0, target: str = ""
) -> list[str]:
    ours = best_time(lambda: some.error_counts(matrix, y))
    memory = _peak(lambda: some.error_counts(matrix, y))
    return [*_cells(name, some, ours, memory), target.format(theirs / ours)]


def _cells(name: str, some: HypothesisClass, seconds: float, memory: float | None) -> list[str]:
    each = seconds / _ROWS / some.size * 1e12
    return [name, f"{some.size:,}", f"{seconds * 1e3:,.1f} ms", f"{each:.3g}", "" if memory is None else f"{memory:,.0f}"]


def _timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _peak(action: Callable[[], object]) -> float:
    """Return the most memory that an action holds beside what was there, in MB."""
    tracemalloc.start()
    action()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1e6
