"""Errors of 10^5 half-spaces on 10^5 rows and 20 columns, against products of matrices in cache-sized blocks."""

import time
import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from benchmarks.peers import best_time, show, without_numba
from holdtrue.hypotheses import LinearNet
from holdtrue.kernels import predictors

__all__ = ["run"]

_ROWS = 10**5
_COLUMNS = 20
_MEMBERS = 10**5
_SHARE = 1_000
_BLOCKS = ((256, 64), (512, 128), (1024, 256), (4096, 64), (16_384, 16))
_RNG = np.random.default_rng(1)  # noqa: TID251 - data to be measured on

Table = npt.NDArray[np.floating]
Counts = npt.NDArray[np.int64]


def run() -> None:
    """Print times, the ratio that the project promises, and what it takes to load or compile."""
    table = _RNG.normal(0, 0.5, (_ROWS, _COLUMNS))
    y = _RNG.random(_ROWS) < 0.5
    net = LinearNet(_COLUMNS, count=_MEMBERS)
    start = time.perf_counter()
    net.error_counts(table[:4000], y[:4000])
    loading = time.perf_counter() - start
    ours = best_time(lambda: net.error_counts(table, y), repeat=3)
    plain = _without_numba(lambda: _share(net).error_counts(table, y)) * _MEMBERS / _SHARE
    theirs = _products(net, table, y) * _MEMBERS / _SHARE
    rows = [
        _row("float64, rows contiguous", ours, theirs, _peak(lambda: net.error_counts(table, y))),
        *_layouts(net, table, y, theirs),
        _row(f"without numba ({_SHARE:,}, scaled)", plain, theirs, ""),
        _row(f"peer: NumPy sgemm, >=, != ({_SHARE:,}, scaled)", theirs, theirs, ""),
    ]
    show(
        f"{_MEMBERS:,} half-spaces, {_ROWS:,} rows, {_COLUMNS} columns",
        ["what", "time", "members / s", "ps / (row · member)", "peer / ours (>= 4)", "peak"],
        rows,
    )
    print(f"apart from that: {loading:.1f} s to load numba and the kernel, or to compile it")
    show("other widths", ["what", "time", "members / s", "multiply-adds / s"], list(_widths()))


def _layouts(net: LinearNet, table: Table, y: npt.NDArray[np.bool_], theirs: float) -> Iterator[list[str]]:
    for name, given in (
        ("float64, columns contiguous", np.asfortranarray(table)),
        ("float32, rows contiguous", table.astype(np.float32)),
    ):
        taken = best_time(lambda given=given: net.error_counts(given, y), repeat=2)  # type: ignore[misc]
        yield _row(name, taken, theirs, "")


def _widths() -> Iterator[list[str]]:
    rows, members = 1 << 16, 20_000
    y = _RNG.random(rows) < 0.5
    for width in (2, 8, 64, 256):
        table = _RNG.normal(0, 0.5, (rows, width))
        net = LinearNet(width, count=members)
        taken = best_time(lambda table=table, net=net: net.error_counts(table, y), repeat=2)  # type: ignore[misc]
        work = f"{rows * members * width / taken / 1e9:,.0f} billion"
        yield [f"{members:,} members, {rows:,} rows, {width} columns", f"{taken:.2f} s", f"{members / taken:,.0f}", work]


def _row(name: str, taken: float, theirs: float, peak: str) -> list[str]:
    each = taken / _ROWS / _MEMBERS * 1e12
    return [name, f"{taken:.2f} s", f"{_MEMBERS / taken:,.0f}", f"{each:,.0f}", f"{theirs / taken:.1f}", peak]


def _share(net: LinearNet) -> LinearNet:
    return LinearNet(net.width, count=_SHARE)


def _products(net: LinearNet, table: Table, y: npt.NDArray[np.bool_]) -> float:
    """Return the best time of the peer over several blockings, having seen that it counts the same."""
    share = _share(net)
    cells = share._to_cells(table).astype(np.float32)  # noqa: SLF001 - the same numbers for both
    kept = share._find_net()  # noqa: SLF001 - likewise
    weights, offsets = kept.weights.astype(np.float32), kept.offsets.astype(np.float32)

    def count(rows: int, members: int) -> Counts:
        counts = np.zeros(_SHARE, dtype=np.int64)
        for start in range(0, _ROWS, rows):
            here, labels = cells[start : start + rows], y[start : start + rows]
            for first in range(0, _SHARE, members):
                some = slice(first, first + members)
                inside = weights[some] @ here.T >= offsets[some, np.newaxis]
                counts[some] += np.count_nonzero(inside != labels, axis=1)
        return counts

    if not (count(1024, 256) == share.error_counts(table, y)).all():
        message = "the two do not count the same"
        raise AssertionError(message)
    return min(best_time(lambda block=block: count(*block), repeat=2) for block in _BLOCKS)  # type: ignore[misc]


def _without_numba(action: Callable[[], object]) -> float:
    with without_numba(predictors.compiled):
        return best_time(action, repeat=2)


def _peak(action: Callable[[], object]) -> str:
    tracemalloc.start()
    action()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return f"{peak / 1e6:.0f} MB"
