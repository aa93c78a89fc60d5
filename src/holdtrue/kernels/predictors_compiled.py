"""Votes and half-spaces counted in numba; imported only through :mod:`holdtrue.kernels.predictors`.

Votes: nothing is reassociated and nothing is fused. A score is ((x0 w0 + x1 w1) + x2 w2) + ... + b in doubles, rounded
after every step, whatever the number of points and members and wherever they stand. SIMD lanes are members, so each keeps
its order.

Half-spaces: dot product, comparison and count stay in registers. Two 16-bit products are added into a 32-bit lane at a time.
That is written as plain vector arithmetic, which compilers turn into one instruction where the processor has it (vpdpwssd,
vpmaddwd) and into a few where it does not: the integers are the same, since nothing can overflow (see ``count_below``).
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils as written
from numba.extending import intrinsic

from holdtrue.kernels import compile_kernel
from holdtrue.kernels.predictors import GROUP, STRIP

__all__ = ["ROWS", "count_below", "count_votes", "tree_nodes", "tree_votes", "two_label_votes", "write_scores"]

Doubles = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Steps = npt.NDArray[np.int32]
Nodes = npt.NDArray[np.uint32]
Forest = tuple[Nodes, Singles, Nodes, Nodes, Integers]
Ballots = tuple[Integers, Integers, Integers]

_FOUR: Final = 4
_EIGHT: Final = 8

# The sums of GROUP members in STRIPS vectors of rows stay in registers: 16 of 32 wide ones, or 8 of 16.
_WIDE = bool(binding.get_host_cpu_features().get("avx512bw"))
_LANES = 16 if _WIDE else 8
_STRIPS = 4 if _WIDE else 2
_PAIR_BYTES = 4
_CACHE_BYTES = 24_000

ROWS = _LANES * _STRIPS
"""How many rows a block has. Rows come as (block, pair of columns, row of the block, column of the pair)."""

cgutils: Any = written  # numba has no types
_INT32 = ir.IntType(32)
_INT64 = ir.IntType(64)
_LANE = ir.VectorType(_INT32, _LANES)
_HALVES = ir.VectorType(ir.IntType(16), 2 * _LANES)
_PRODUCTS = ir.VectorType(_INT32, 2 * _LANES)


@compile_kernel
def _score_strip(points: Doubles, i: int, weights: Doubles, biases: Doubles, sums: Doubles) -> None:
    """Write the scores of one strip of rows (features by STRIP) at point ``i``."""
    features = points.shape[1]
    whole = features // _FOUR * _FOUR
    for j in range(STRIP):
        sums[j] = 0.0
    for k in range(0, whole, _FOUR):
        a, b, c, d = points[i, k], points[i, k + 1], points[i, k + 2], points[i, k + 3]
        for j in range(STRIP):
            sums[j] = (((sums[j] + a * weights[k, j]) + b * weights[k + 1, j]) + c * weights[k + 2, j]) + d * weights[
                k + 3, j
            ]
    for k in range(whole, features):
        a = points[i, k]
        for j in range(STRIP):
            sums[j] += a * weights[k, j]
    for j in range(STRIP):
        sums[j] += biases[j]


@compile_kernel
def two_label_votes(points: Doubles, strips: Doubles, biases: Doubles, steps: Steps, counts: Integers) -> None:
    """Add to ``counts[i]`` the ``steps`` of all rows whose score at point i is positive."""
    sums = np.empty(STRIP, dtype=np.float64)
    for strip in range(strips.shape[0]):
        weights, bias, step = strips[strip], biases[strip], steps[strip]
        for i in range(points.shape[0]):
            _score_strip(points, i, weights, bias, sums)
            more = 0
            for j in range(STRIP):
                more += step[j] if sums[j] > 0.0 else 0
            counts[i] += more


@compile_kernel
def count_votes(points: Doubles, strips: Doubles, biases: Doubles, ballots: Ballots, counts: Integers) -> None:
    """Count votes of members with any number of rows each: the first of the largest scores, or the sign of the only one."""
    starts, codes, others = ballots
    sums = np.empty((strips.shape[0], STRIP), dtype=np.float64)
    flat = sums.reshape(sums.size)
    for i in range(points.shape[0]):
        for strip in range(strips.shape[0]):
            _score_strip(points, i, strips[strip], biases[strip], sums[strip])
        for member in range(starts.size - 1):
            row = starts[member]
            if starts[member + 1] == row + 1:
                counts[i, codes[row] if flat[row] > 0.0 else others[row]] += 1
                continue
            best = row
            for other in range(row + 1, starts[member + 1]):
                if flat[other] > flat[best]:
                    best = other
            counts[i, codes[best]] += 1


@compile_kernel
def write_scores(points: Doubles, strips: Doubles, biases: Doubles, sums: Doubles) -> None:
    """Write the scores of all rows at all points."""
    held = np.empty(STRIP, dtype=np.float64)
    for strip in range(strips.shape[0]):
        first = strip * STRIP
        for i in range(points.shape[0]):
            _score_strip(points, i, strips[strip], biases[strip], held)
            for j in range(min(STRIP, sums.shape[1] - first)):
                sums[i, first + j] = held[j]


@compile_kernel
def _find_leaf(points: Singles, i: int, forest: Forest, tree: int) -> int:
    """Return the leaf that point ``i`` reaches in a tree."""
    features, thresholds, children, roots, depths = forest
    node = roots[tree]
    for _ in range(depths[tree]):
        node = children[np.uint32(2) * node + np.uint32(points[i, features[node]] > thresholds[node])]
    return int(node)


@compile_kernel
def tree_votes(points: Singles, forest: Forest, codes: Integers, counts: Integers) -> None:
    """Count the code of the leaf that each point reaches in each tree: as many steps as the tree is deep, for all.

    Eight points walk at once, since each of their steps waits for memory.
    """
    features, thresholds, children, roots, depths = forest
    two = np.uint32(2)
    whole = points.shape[0] // _EIGHT * _EIGHT
    for tree in range(roots.size):
        for i in range(0, whole, _EIGHT):
            a = b = c = d = e = f = g = h = roots[tree]
            for _ in range(depths[tree]):
                a = children[two * a + np.uint32(points[i, features[a]] > thresholds[a])]
                b = children[two * b + np.uint32(points[i + 1, features[b]] > thresholds[b])]
                c = children[two * c + np.uint32(points[i + 2, features[c]] > thresholds[c])]
                d = children[two * d + np.uint32(points[i + 3, features[d]] > thresholds[d])]
                e = children[two * e + np.uint32(points[i + 4, features[e]] > thresholds[e])]
                f = children[two * f + np.uint32(points[i + 5, features[f]] > thresholds[f])]
                g = children[two * g + np.uint32(points[i + 6, features[g]] > thresholds[g])]
                h = children[two * h + np.uint32(points[i + 7, features[h]] > thresholds[h])]
            counts[i, codes[a]] += 1
            counts[i + 1, codes[b]] += 1
            counts[i + 2, codes[c]] += 1
            counts[i + 3, codes[d]] += 1
            counts[i + 4, codes[e]] += 1
            counts[i + 5, codes[f]] += 1
            counts[i + 6, codes[g]] += 1
            counts[i + 7, codes[h]] += 1
        for i in range(whole, points.shape[0]):
            counts[i, codes[_find_leaf(points, i, forest, tree)]] += 1


@compile_kernel
def tree_nodes(points: Singles, forest: Forest, nodes: Nodes) -> None:
    """Write the leaf that each point reaches in each tree."""
    for tree in range(forest[3].size):
        for i in range(points.shape[0]):
            nodes[i, tree] = _find_leaf(points, i, forest, tree)


class _Writer:
    """Writes vector arithmetic through a builder."""

    def __init__(self, builder: Any) -> None:  # noqa: ANN401 - llvmlite has no types
        self.builder = builder

    def load(self, address: Any, offset: Any, kind: Any) -> Any:  # noqa: ANN401 - likewise
        """Read what stands some bytes behind an address."""
        place = self.builder.add(address, offset if isinstance(offset, ir.Value) else ir.Constant(_INT64, offset))
        return self.builder.load(self.builder.inttoptr(place, kind.as_pointer()), align=2)

    def spread_number(self, number: Any) -> Any:  # noqa: ANN401 - likewise
        """Put one number into all lanes."""
        alone = self.builder.insert_element(ir.Constant(_LANE, ir.Undefined), number, ir.Constant(_INT32, 0))
        return self.builder.shuffle_vector(alone, alone, ir.Constant(_LANE, None))

    def pick_lanes(self, vector: Any, lanes: range) -> Any:  # noqa: ANN401 - likewise
        """Return some of a vector's lanes."""
        chosen = ir.Constant(ir.VectorType(_INT32, len(lanes)), [ir.Constant(_INT32, lane) for lane in lanes])
        return self.builder.shuffle_vector(vector, vector, chosen)

    def dot_pairs(self, left: Any, right: Any) -> Any:  # noqa: ANN401 - likewise
        """Multiply pairs of 16 bits and add each pair into 32 bits."""
        products = self.builder.mul(self.builder.sext(left, _PRODUCTS), self.builder.sext(right, _PRODUCTS))
        return self.builder.add(
            self.pick_lanes(products, range(0, 2 * _LANES, 2)), self.pick_lanes(products, range(1, 2 * _LANES, 2))
        )

    def sum_lanes(self, vector: Any) -> Any:  # noqa: ANN401 - likewise
        """Add up all lanes."""
        lanes = _LANES
        while lanes > 1:
            lanes //= 2
            vector = self.builder.add(
                self.pick_lanes(vector, range(lanes)), self.pick_lanes(vector, range(lanes, 2 * lanes))
            )
        return self.builder.zext(self.builder.extract_element(vector, ir.Constant(_INT32, 0)), _INT64)


def _group_below(_context: Any, rows: Any, blocks: Any, pairs: Any, weights: Any, offsets: Any, counts: Any) -> Any:  # noqa: ANN401, ARG001, PLR0913, PLR0917 - numba's own signature
    """Add to GROUP counts in how many rows of some blocks the sum of offset and products is negative."""

    def emit(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - likewise
        rows, blocks, pairs, weights, offsets, counts = arguments
        write = _Writer(builder)
        members, strips = range(GROUP), range(_STRIPS)
        line = builder.mul(pairs, ir.Constant(_INT64, _PAIR_BYTES))
        found = [cgutils.alloca_once_value(builder, ir.Constant(_LANE, None)) for _ in members]
        sums = [[cgutils.alloca_once(builder, _LANE) for _ in strips] for _ in members]
        starts = [write.spread_number(write.load(offsets, 4 * member, _INT32)) for member in members]
        with cgutils.for_range(builder, blocks) as outer:
            block = builder.add(rows, builder.mul(builder.mul(outer.index, line), ir.Constant(_INT64, ROWS)))
            for member in members:
                for strip in strips:
                    builder.store(starts[member], sums[member][strip])
            with cgutils.for_range(builder, pairs) as inner:
                at = builder.mul(inner.index, ir.Constant(_INT64, _PAIR_BYTES))
                held = builder.add(block, builder.mul(at, ir.Constant(_INT64, ROWS)))
                cells = [write.load(held, strip * _LANES * _PAIR_BYTES, _HALVES) for strip in strips]
                for member in members:
                    here = builder.add(weights, builder.mul(line, ir.Constant(_INT64, member)))
                    pair = builder.bitcast(write.spread_number(write.load(here, at, _INT32)), _HALVES)
                    for strip in strips:
                        place = sums[member][strip]
                        builder.store(builder.add(builder.load(place), write.dot_pairs(cells[strip], pair)), place)
            for member in members:
                for strip in strips:
                    sign = builder.lshr(builder.load(sums[member][strip]), ir.Constant(_LANE, [31] * _LANES))
                    builder.store(builder.add(builder.load(found[member]), sign), found[member])
        for member in members:
            place = builder.inttoptr(builder.add(counts, ir.Constant(_INT64, 8 * member)), _INT64.as_pointer())
            builder.store(builder.add(builder.load(place), write.sum_lanes(builder.load(found[member]))), place)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6), emit


_group: Any = intrinsic(_group_below)


@compile_kernel
def count_below(blocks: Any, weights: Any, negated: Any, counts: Any) -> None:  # noqa: ANN401 - compiled for what comes
    """Add to each member's count in how many rows its products stay below its offset.

    ``blocks`` are int16 in the layout of :data:`ROWS`, ``weights`` int16 with the columns of the pairs, ``negated`` the
    offsets as int32 with the other sign, ``counts`` int64; all contiguous, and members a multiple of GROUP. Some blocks at a
    time, which stay in the first-level cache, meet all members.
    """
    pairs = blocks.shape[1]
    size = pairs * ROWS * _PAIR_BYTES
    most = max(1, _CACHE_BYTES // size)
    for start in range(0, blocks.shape[0], most):
        some = min(most, blocks.shape[0] - start)
        for member in range(0, weights.shape[0], GROUP):
            _group(
                blocks.ctypes.data + start * size,
                some,
                pairs,
                weights.ctypes.data + member * pairs * _PAIR_BYTES,
                negated.ctypes.data + member * 4,
                counts.ctypes.data + member * 8,
            )
