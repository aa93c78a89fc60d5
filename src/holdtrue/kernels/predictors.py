"""What many predictors say at many points: NumPy, or numba where it pays, with the same integers either way.

Linear members of an ensemble are rows of one table of weights, and trees are one array of nodes. A vote is one fixed
function of its member and its point, the same for one point and for a million: scores are summed in the order of the
columns, in doubles that are rounded after every step, and the intercept comes last. It can differ from the member's own
``predict`` only where two scores agree to about the last digit, since that sums in another order. Trees agree with
theirs everywhere. Half-spaces of a linear net are whole weights over whole numbers, and only their errors are counted.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from holdtrue.kernels import Floats, Integers, LazyKernels

__all__ = [
    "GROUP",
    "STRIP",
    "Forest",
    "WeightTable",
    "count_below",
    "count_table_votes",
    "count_tree_votes",
    "score_table",
    "tree_outputs",
]

Singles = npt.NDArray[np.float32]
Nodes = npt.NDArray[np.uint32]

STRIP: Final = 64
"""Rows of weights that are scored together by a compiled kernel; a table is padded with zeros to whole strips."""

GROUP: Final = 4
"""Half-spaces that a compiled kernel counts together; a net is padded with zeros to a multiple of it."""

_LARGE_WORK = 1 << 26
_BLOCK_CELLS = 1 << 16
_RUN_POINTS = 256
_EXACT_FLOAT32 = 1 << 24
# Products this small stay on one thread of the library that multiplies matrices: the threads here are our own.
_BLOCK_ROWS = 256
_BLOCK_MEMBERS = 64

compiled = LazyKernels("predictors_compiled", after=_LARGE_WORK)


@dataclass(frozen=True, eq=False)
class WeightTable:
    """Linear members: columns by rows of weights, and which rows are whose.

    Member m has rows ``starts[m]`` to ``starts[m + 1]``. With one row it votes for ``codes`` of that row where its score is
    above zero and for ``others`` elsewhere; with several, for the codes of the first row whose score no other exceeds.
    """

    weights: Floats
    biases: Floats
    starts: Integers
    codes: Integers
    others: Integers

    @property
    def single(self) -> bool:
        """Return whether every member has one row."""
        return self.starts.size == self.biases.size + 1

    @cached_property
    def strips(self) -> tuple[Floats, Floats]:
        """Return weights as strips by columns by STRIP rows, and biases as strips by STRIP rows."""
        columns, rows = self.weights.shape
        count = -(-rows // STRIP)
        padded = np.zeros((columns, count * STRIP))
        padded[:, :rows] = self.weights
        weights = np.ascontiguousarray(padded.reshape(columns, count, STRIP).transpose(1, 0, 2))
        return weights, _pad_to_strips(self.biases)

    @cached_property
    def steps(self) -> tuple[int, npt.NDArray[np.int32]]:
        """Return how many votes the second label has where no score is positive, and what each positive one adds."""
        change = (self.codes == 1).astype(np.int32) - (self.others == 1)
        return int((self.others == 1).sum()), _pad_to_strips(change.astype(np.int32))


def count_table_votes(table: WeightTable, points: Floats, *, labels: int) -> Integers:
    """Return how many members vote for each label at each point."""
    counts = np.zeros((len(points), labels), dtype=np.int64)
    work = points.size * table.biases.size
    module = compiled(work)
    if module is None:
        _in_blocks(len(points), table.biases.size, lambda block: _count_table_votes(table, points[block], counts[block]))
        return counts
    weights, biases = table.strips
    if labels == 2 and table.single:  # noqa: PLR2004 - of two labels, one count tells the other
        base, steps = table.steps
        ahead = np.full(len(points), base, dtype=np.int64)
        _in_threads(points, ahead, work, lambda some, held: module.two_label_votes(some, weights, biases, steps, held))
        counts[:, 1] = ahead
        np.subtract(table.biases.size, ahead, out=counts[:, 0])
        return counts
    ballots = table.starts, table.codes, table.others
    _in_threads(points, counts, work, lambda some, held: module.count_votes(some, weights, biases, ballots, held))
    return counts


def score_table(table: WeightTable, points: Floats) -> Floats:
    """Return the score of every row at every point."""
    sums = np.empty((len(points), table.biases.size))
    work = points.size * table.biases.size
    module = compiled(work)
    if module is None:
        _in_blocks(len(points), table.biases.size, lambda block: _write_scores(table, points[block], sums[block]))
        return sums
    weights, biases = table.strips
    _in_threads(points, sums, work, lambda some, held: module.write_scores(some, weights, biases, held))
    return sums


class Forest(NamedTuple):
    """Trees: the nodes of all of them, one after the other.

    A point goes from node n to ``children[2 n + 1]`` if its feature is above the threshold, else to ``children[2 n]``; a
    leaf leads to itself, so that ``depths[t]`` steps from ``roots[t]`` end at a leaf of tree t, whatever the point.
    """

    features: Nodes
    thresholds: Singles
    children: Nodes
    roots: Nodes
    depths: Integers


def count_tree_votes(forest: Forest, codes: Integers, points: Floats, *, labels: int) -> Integers:
    """Return how many trees vote for each label at each point: the code of the leaf that it reaches."""
    counts = np.zeros((len(points), labels), dtype=np.int64)
    singles = points.astype(np.float32)
    work = len(points) * int(forest.depths.sum() + forest.roots.size)
    module = compiled(work)
    if module is None:
        _in_blocks(
            len(points),
            forest.roots.size,
            lambda block: _count_codes(codes[_find_leaves(forest, singles[block])], counts[block]),
        )
        return counts

    def count(some: Singles, held: Integers) -> None:
        # Points that fit into the nearest cache, for all trees in turn.
        for start in range(0, len(some), _RUN_POINTS):
            module.tree_votes(some[start : start + _RUN_POINTS], tuple(forest), codes, held[start : start + _RUN_POINTS])

    _in_threads(singles, counts, work, count)
    return counts


def tree_outputs(forest: Forest, values: Floats, points: Floats) -> Floats:
    """Return the value of the leaf that each point reaches in each tree."""
    nodes = np.empty((len(points), forest.roots.size), dtype=np.uint32)
    singles = points.astype(np.float32)
    work = len(points) * int(forest.depths.sum() + forest.roots.size)
    module = compiled(work)
    if module is None:
        for start in range(0, len(points), _RUN_POINTS):
            nodes[start : start + _RUN_POINTS] = _find_leaves(forest, singles[start : start + _RUN_POINTS])
    else:
        _in_threads(singles, nodes, work, lambda some, held: module.tree_nodes(some, tuple(forest), held))
    return values[nodes]


def _count_table_votes(table: WeightTable, points: Floats, counts: Integers) -> None:
    sums = np.empty((len(points), table.biases.size))
    _write_scores(table, points, sums)
    widths = np.diff(table.starts)
    for width in np.unique(widths).tolist():
        rows = table.starts[:-1][widths == width]
        best, chosen = sums[:, rows], np.broadcast_to(table.codes[rows], (len(points), rows.size))
        if width == 1:
            chosen = np.where(best > 0.0, chosen, table.others[rows])
        for later in range(1, width):
            better = sums[:, rows + later] > best
            best = np.where(better, sums[:, rows + later], best)
            chosen = np.where(better, table.codes[rows + later], chosen)
        _count_codes(chosen, counts)


def _write_scores(table: WeightTable, points: Floats, sums: Floats) -> None:
    sums[:] = 0.0
    term = np.empty_like(sums)
    # A score beyond the range of doubles is infinite or NaN, as it is in a kernel; comparisons with it are settled.
    with np.errstate(all="ignore"):
        for column in range(points.shape[1]):
            np.multiply(points[:, column, np.newaxis], table.weights[column], out=term)
            sums += term
        sums += table.biases


def _find_leaves(forest: Forest, points: Singles) -> Integers:
    nodes = np.broadcast_to(forest.roots.astype(np.int64), (len(points), forest.roots.size))
    lines = np.arange(len(points))[:, np.newaxis]
    for _ in range(int(forest.depths.max(initial=0))):
        above = points[lines, forest.features[nodes]] > forest.thresholds[nodes]
        nodes = forest.children[2 * nodes + above].astype(np.int64)
    return nodes


def _count_codes(chosen: Integers, counts: Integers) -> None:
    for code in range(counts.shape[1]):
        counts[:, code] += (chosen == code).sum(axis=1)


def _pad_to_strips(row: npt.NDArray[Any]) -> npt.NDArray[Any]:
    padded = np.zeros(-(-row.size // STRIP) * STRIP, dtype=row.dtype)
    padded[: row.size] = row
    return padded.reshape(-1, STRIP)


def _in_blocks(points: int, members: int, work: Callable[[slice], None]) -> None:
    block = max(1, _BLOCK_CELLS // max(1, members))
    for start in range(0, points, block):
        work(slice(start, start + block))


def _in_threads(points: Any, out: Any, work: int, action: Callable[[Any, Any], None]) -> None:  # noqa: ANN401 - arrays of any kind
    """Run an action on points and the lines of ``out`` that belong to them, on several threads where there is much to do."""
    workers = min(os.cpu_count() or 1, work // (_LARGE_WORK // 16), len(points))
    if workers <= 1:
        action(points, out)
        return
    with ThreadPoolExecutor(workers) as pool:
        parts = zip(np.array_split(points, workers), np.array_split(out, workers), strict=True)
        for done in [pool.submit(action, some, held) for some, held in parts]:
            done.result()


def count_below(
    cells: npt.NDArray[np.int16], weights: npt.NDArray[np.int16], offsets: npt.NDArray[np.int32], *, largest: int
) -> Integers:
    """Return for each half-space in how many rows its products with the cells stay below its offset.

    ``weights`` have a line for each half-space, padded with zeros to an even number of columns and a multiple of GROUP
    lines. Needs: offsets and all partial sums, in any order, of at most ``largest``, which is below 2^30.
    """
    module = compiled(len(cells) * len(weights))
    if module is None:
        return _count_below_by_products(cells, weights, offsets, largest)
    counts = np.zeros(len(weights), dtype=np.int64)
    padded = np.zeros((-(-len(cells) // module.ROWS) * module.ROWS, weights.shape[1]), dtype=np.int16)
    padded[: len(cells), : cells.shape[1]] = cells
    blocks = padded.reshape(-1, module.ROWS, padded.shape[1] // 2, 2).transpose(0, 2, 1, 3)
    module.count_below(np.ascontiguousarray(blocks), weights, -offsets, counts)
    # Rows that only fill up a block are all zeros, and those lie below the offsets above 0.
    counts -= (len(padded) - len(cells)) * (offsets > 0)
    return counts


def _count_below_by_products(
    cells: npt.NDArray[np.int16], weights: npt.NDArray[np.int16], offsets: npt.NDArray[np.int32], largest: int
) -> Integers:
    """Do the same as products of matrices, in the shortest floats that hold every sum."""
    width = cells.shape[1]
    kind: type[np.floating[Any]] = np.float32 if largest < _EXACT_FLOAT32 else np.float64
    counts = np.zeros(len(weights), dtype=np.int64)
    for start in range(0, len(cells), _BLOCK_ROWS):
        rows: npt.NDArray[Any] = cells[start : start + _BLOCK_ROWS].astype(kind)
        for first in range(0, len(counts), _BLOCK_MEMBERS):
            some = slice(first, first + _BLOCK_MEMBERS)
            products = weights[some, :width].astype(kind) @ rows.T
            counts[some] += np.count_nonzero(products < offsets[some, np.newaxis].astype(kind), axis=1)
    return counts
