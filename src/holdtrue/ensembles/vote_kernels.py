"""Votes counted by compiled kernels. Imported only where numba is there and pays; NumPy gives the same integers.

Nothing is reassociated and nothing is fused: a score is ((x0 w0 + x1 w1) + x2 w2) + ... + b in doubles, rounded after every
step, whatever the number of points and members and wherever they stand. SIMD lanes are members, so each keeps its order.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from holdtrue.compiling import kernel
from holdtrue.ensembles.votes import STRIP

__all__ = ["scores", "tree_nodes", "tree_votes", "two_label_votes", "votes"]

Doubles = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Steps = npt.NDArray[np.int32]
Nodes = npt.NDArray[np.uint32]
Forest = tuple[Nodes, Singles, Nodes, Nodes, Integers]
Ballots = tuple[Integers, Integers, Integers]

_FOUR: Final = 4
_EIGHT: Final = 8


@kernel
def _scored(points: Doubles, i: int, weights: Doubles, biases: Doubles, sums: Doubles) -> None:
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


@kernel
def two_label_votes(points: Doubles, strips: Doubles, biases: Doubles, steps: Steps, counts: Integers) -> None:
    """Add to ``counts[i]`` the ``steps`` of all rows whose score at point i is positive."""
    sums = np.empty(STRIP, dtype=np.float64)
    for strip in range(strips.shape[0]):
        weights, bias, step = strips[strip], biases[strip], steps[strip]
        for i in range(points.shape[0]):
            _scored(points, i, weights, bias, sums)
            more = 0
            for j in range(STRIP):
                more += step[j] if sums[j] > 0.0 else 0
            counts[i] += more


@kernel
def votes(points: Doubles, strips: Doubles, biases: Doubles, ballots: Ballots, counts: Integers) -> None:
    """Count votes of members with any number of rows each: the first of the largest scores, or the sign of the only one."""
    starts, codes, others = ballots
    sums = np.empty((strips.shape[0], STRIP), dtype=np.float64)
    flat = sums.reshape(sums.size)
    for i in range(points.shape[0]):
        for strip in range(strips.shape[0]):
            _scored(points, i, strips[strip], biases[strip], sums[strip])
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


@kernel
def scores(points: Doubles, strips: Doubles, biases: Doubles, sums: Doubles) -> None:
    """Write the scores of all rows at all points."""
    held = np.empty(STRIP, dtype=np.float64)
    for strip in range(strips.shape[0]):
        first = strip * STRIP
        for i in range(points.shape[0]):
            _scored(points, i, strips[strip], biases[strip], held)
            for j in range(min(STRIP, sums.shape[1] - first)):
                sums[i, first + j] = held[j]


@kernel
def _walked(points: Singles, i: int, forest: Forest, tree: int) -> int:
    """Return the leaf that point ``i`` reaches in a tree."""
    features, thresholds, children, roots, depths = forest
    node = roots[tree]
    for _ in range(depths[tree]):
        node = children[np.uint32(2) * node + np.uint32(points[i, features[node]] > thresholds[node])]
    return int(node)


@kernel
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
            counts[i, codes[_walked(points, i, forest, tree)]] += 1


@kernel
def tree_nodes(points: Singles, forest: Forest, nodes: Nodes) -> None:
    """Write the leaf that each point reaches in each tree."""
    for tree in range(forest[3].size):
        for i in range(points.shape[0]):
            nodes[i, tree] = _walked(points, i, forest, tree)
