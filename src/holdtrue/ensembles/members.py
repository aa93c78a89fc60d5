"""Members of an ensemble, and what they say of a point: votes for labels, or numbers.

Linear members become one table of weights and trees one array of nodes, so that all of them answer at once; others are asked
one after the other; members from a finite class are its numbers. Which it is depends on the type of the estimator alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.ensembles.own_estimators import ExactMinimiser, PickMembers
from holdtrue.ensembles.parts import FEATURE_LIMIT, Label
from holdtrue.errors import InvalidParameter, PreconditionError
from holdtrue.exact import describe_array, rational
from holdtrue.kernels import Floats, Integers
from holdtrue.kernels.predictors import Forest, WeightTable, count_table_votes, count_tree_votes, score_table, tree_outputs
from holdtrue.silence import silence

__all__ = [
    "Block",
    "ConstantMember",
    "Domain",
    "Ensemble",
    "Kind",
    "LinearMembers",
    "Members",
    "OtherMembers",
    "Tree",
    "TreeMembers",
    "kind_of",
    "make_fixed_block",
    "make_fixed_tree",
    "read_block",
    "read_tree",
    "stack_blocks",
    "stack_trees",
    "width_of",
]

Whatever = npt.NDArray[Any]
Kind: TypeAlias = Literal["linear", "trees", "picks", "other"]

# Public classes whose ``predict`` is the sign or the largest of X coef + intercept, or that sum itself for a regressor.
_PAIR = 2
_LINEAR = {
    "linear_model": (
        "ARDRegression BayesianRidge ElasticNet ElasticNetCV HuberRegressor Lars LarsCV Lasso LassoCV LassoLars LassoLarsCV "
        "LassoLarsIC LinearRegression LogisticRegression LogisticRegressionCV OrthogonalMatchingPursuit "
        "OrthogonalMatchingPursuitCV Perceptron Ridge RidgeCV RidgeClassifier RidgeClassifierCV SGDClassifier SGDRegressor "
        "TheilSenRegressor"
    ),
    "svm": "LinearSVC LinearSVR",
    "discriminant_analysis": "LinearDiscriminantAnalysis",
}
_TREES = {"tree": "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier ExtraTreeRegressor"}


class Members(Protocol):
    """What an ensemble needs of its members. Points are finite and within the public bounds; no point makes this raise."""

    @property
    def kind(self) -> Kind:
        """Return how the members answer."""
        ...

    @property
    def parts(self) -> int:
        """Return the number of members."""
        ...

    def votes(self, points: Floats, *, labels: tuple[Label, ...]) -> Integers:
        """Return how many members vote for each label at each point."""
        ...

    def outputs(self, points: Floats, *, fallback: float) -> Floats:
        """Return the number that each member gives to each point, ``fallback`` where it gives none."""
        ...


@dataclass(frozen=True, eq=False)
class LinearMembers:
    """Members that are rows of one table of weights."""

    table: WeightTable
    kind: ClassVar[Literal["linear"]] = "linear"

    @property
    def parts(self) -> int:
        """Return the number of members."""
        return self.table.starts.size - 1

    def votes(self, points: Floats, *, labels: tuple[Label, ...]) -> Integers:
        """Return how many members vote for each label at each point."""
        return count_table_votes(self.table, points, labels=len(labels))

    def outputs(self, points: Floats, *, fallback: float) -> Floats:
        """Return the score of each member at each point."""
        scores = score_table(self.table, points)
        return np.where(np.isnan(scores), fallback, scores)


@dataclass(frozen=True, eq=False)
class TreeMembers:
    """Members that are trees: a code for every leaf, or a value."""

    forest: Forest
    codes: Integers
    values: Floats
    kind: ClassVar[Literal["trees"]] = "trees"

    @property
    def parts(self) -> int:
        """Return the number of members."""
        return self.forest.roots.size

    def votes(self, points: Floats, *, labels: tuple[Label, ...]) -> Integers:
        """Return how many members vote for each label at each point."""
        return count_tree_votes(self.forest, self.codes, points, labels=len(labels))

    def outputs(self, points: Floats, *, fallback: float) -> Floats:  # noqa: ARG002 - a leaf always has a value
        """Return the value of the leaf that each point reaches."""
        return tree_outputs(self.forest, self.values, points)


@dataclass(frozen=True, slots=True)
class ConstantMember:
    """A member that predicts one label everywhere."""

    label: Label

    def predict(self, points: Floats) -> Whatever:
        """Return the label of each point."""
        return np.full(len(points), self.label)


@dataclass(frozen=True, eq=False)
class OtherMembers:
    """Members of any other type, asked one by one; None stands for a part without a member."""

    estimators: tuple[Any, ...]
    kind: ClassVar[Literal["other"]] = "other"

    @property
    def parts(self) -> int:
        """Return the number of members."""
        return len(self.estimators)

    def votes(self, points: Floats, *, labels: tuple[Label, ...]) -> Integers:
        """Return how many members vote for each label at each point; what is not in the list is a vote for its first."""
        counts = np.zeros((len(points), len(labels)), dtype=np.int64)
        lines = np.arange(len(points))
        for chosen in self._ask_members(points, lambda said: _find_places(said, labels), 0):
            counts[lines, chosen] += 1
        return counts

    def outputs(self, points: Floats, *, fallback: float) -> Floats:
        """Return the number that each member gives to each point."""
        said = list(self._ask_members(points, lambda said: said.astype(np.float64), fallback))
        numbers = np.stack(said, axis=1)
        return np.where(np.isnan(numbers), fallback, numbers)

    def _ask_members(self, points: Floats, read: Callable[[Whatever], Whatever], fixed: float) -> Iterator[Whatever]:
        with silence():
            for member in self.estimators:
                yield np.full(len(points), fixed) if member is None else _predict_safely(member, points, read, fixed)


def _find_places(said: Whatever, labels: tuple[Label, ...]) -> Integers:
    chosen = np.zeros(len(said), dtype=np.int64)
    for code in range(1, len(labels)):
        chosen[said == labels[code]] = code
    return chosen


def _predict_safely(member: Any, points: Floats, read: Callable[[Whatever], Whatever], fixed: float) -> Whatever:  # noqa: ANN401 - any
    """Return a member's predictions: one point at a time if it fails on all together, ``fixed`` where it fails on one."""
    try:
        said = np.asarray(member.predict(points))
        if said.shape == (len(points),):
            return read(said)
    except Exception:  # noqa: BLE001, S110 - whatever it is, it may depend on private rows and is not to be seen
        pass
    if len(points) <= 1:
        return np.full(len(points), fixed)
    return np.concatenate([_predict_safely(member, points[place : place + 1], read, fixed) for place in range(len(points))])


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """Where the features of a point may lie: ``low[i] <= x[i] <= high[i]``, public. What lies beyond moves to the edge."""

    low: Floats
    high: Floats

    @classmethod
    def of(cls, bounds: object, *, width: int) -> "Domain":
        """Return the domain of ``width`` columns: from one pair for all, one pair per column, or None for no bounds."""
        if bounds is None:
            return cls(np.full(width, -FEATURE_LIMIT), np.full(width, FEATURE_LIMIT))
        pairs = bounds if isinstance(bounds, Sequence) else ()
        if len(pairs) == _PAIR and not isinstance(pairs[0], Sequence):
            pairs = [tuple(pairs)] * width
        if len(pairs) != width or any(not isinstance(pair, Sequence) or len(pair) != _PAIR for pair in pairs):
            raise InvalidParameter("bounds", bounds, f"a pair (low, high), or one for each of {width} columns")
        edges = np.array([[float(rational("bounds", end)) for end in pair] for pair in pairs]).reshape(width, _PAIR)
        if (edges[:, 0] > edges[:, 1]).any() or (np.abs(edges) > FEATURE_LIMIT).any():
            raise InvalidParameter("bounds", bounds, "pairs (low, high) with low <= high, within the range of 32-bit floats")
        return cls(np.ascontiguousarray(edges[:, 0]), np.ascontiguousarray(edges[:, 1]))

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return self.low.size

    def clamp_points(self, X: object) -> Floats:
        """Return points as members see them: missing numbers are 0, and then all are moved into the bounds.

        So no member ever meets a NaN or an infinity. Failure: InvalidParameter on types and shapes, never on a number.
        """
        points = _read_numbers(X)
        if points.ndim != _PAIR or points.shape[1] != self.width:
            raise InvalidParameter("X", describe_array(points), f"a matrix of numbers with {self.width} columns")
        missing = points != points  # noqa: PLR0124 - true for NaN only
        if missing.any():
            points = np.where(missing, 0.0, points)
        return np.minimum(np.maximum(points, self.low), self.high)


def width_of(X: object) -> int:
    """Return the number of columns of a matrix of numbers."""
    points = _read_numbers(X)
    if points.ndim != _PAIR or points.shape[1] == 0:
        raise InvalidParameter("X", describe_array(points), "a matrix of numbers, rows by columns")
    return int(points.shape[1])


@dataclass(frozen=True, eq=False, repr=False)
class Ensemble:
    """Members trained on disjoint parts. Their votes are private, and may be released only through a mechanism.

    Guarantee (E4): replacing one row changes one member, and so moves at most one vote at every point, from one label to
    another; and one of the numbers of ``outputs``, by at most the width of ``output_bounds``.
    """

    members: Members
    domain: Domain
    labels: tuple[Label, ...] | None
    output_bounds: tuple[float, float] | None
    fallback: float

    @property
    def parts(self) -> int:
        """Return the number of parts, and of members."""
        return self.members.parts

    @property
    def kind(self) -> Kind:
        """Return "linear", "trees", "picks" or "other": how the members answer."""
        return self.members.kind

    @property
    def stored(self) -> bool:
        """Return whether it can be saved; otherwise it exists only in memory."""
        if isinstance(self.members, PickMembers):
            return self.members.source.document is not None
        return self.kind != "other"

    def votes(self, X: object) -> Integers:
        """Return points by labels: how many members vote for each label at each point. Each line adds up to ``parts``."""
        if self.labels is None:
            message = "the members of this ensemble give numbers, not labels; use outputs"
            raise PreconditionError(message)
        return self.members.votes(self.domain.clamp_points(X), labels=self.labels)

    def outputs(self, X: object) -> Floats:
        """Return points by parts: the number of each member at each point, moved into ``output_bounds``."""
        if self.output_bounds is None:
            message = "the members of this ensemble give labels, not numbers; use votes"
            raise PreconditionError(message)
        return np.clip(self.members.outputs(self.domain.clamp_points(X), fallback=self.fallback), *self.output_bounds)

    def __repr__(self) -> str:
        gives = f"labels {', '.join(map(repr, self.labels))}" if self.labels else f"numbers in {self.output_bounds}"
        return f"<Ensemble of {self.parts} parts, {self.kind}, {gives}{'' if self.stored else '; in memory only'}>"


class Block(NamedTuple):
    """The rows of one linear member: weights rows by columns, and for each row its bias and its codes (see Table)."""

    weights: Floats
    biases: Floats
    codes: Integers
    others: Integers


class Tree(NamedTuple):
    """The nodes of one tree, numbered from 0 (see Forest), and for each node a code or a value."""

    features: Integers
    thresholds: npt.NDArray[np.float32]
    children: Integers
    depth: int
    codes: Integers
    values: Floats


def kind_of(estimator: object) -> Kind:
    """Return how members of this type answer. Subclasses may predict otherwise, and are asked one by one."""
    found = type(estimator)
    if found is ExactMinimiser:
        return "picks"
    return "linear" if found in _list_classes("linear") else "trees" if found in _list_classes("trees") else "other"


@cache
def _list_classes(kind: Kind) -> frozenset[type]:
    from importlib import import_module

    listed = _LINEAR if kind == "linear" else _TREES
    modules = {name: import_module(f"sklearn.{name}") for name in listed}
    return frozenset(getattr(modules[home], name) for home, names in listed.items() for name in names.split())


def read_block(member: Any, *, labels: tuple[Label, ...] | None) -> Block:  # noqa: ANN401 - a fitted estimator
    """Return the rows of a fitted linear member; raises where its numbers are not finite."""
    weights = np.atleast_2d(np.asarray(member.coef_, dtype=np.float64))
    biases = np.broadcast_to(np.asarray(member.intercept_, dtype=np.float64).ravel(), len(weights)).copy()
    if not (np.isfinite(weights).all() and np.isfinite(biases).all()):
        raise ArithmeticError
    codes = np.zeros(2, dtype=np.int64) if labels is None else _read_codes(member, labels)
    return Block(weights, biases, codes[1:], codes[:1]) if len(weights) == 1 else Block(weights, biases, codes, codes)


def make_fixed_block(value: float, *, width: int, code: int = 0) -> Block:
    """Return a member with the same score everywhere, and a vote for one label."""
    codes = np.array([code], dtype=np.int64)
    return Block(np.zeros((1, width)), np.array([value]), codes, codes)


def stack_blocks(blocks: Sequence[Block]) -> LinearMembers:
    """Return the members whose rows are given, in the order of their parts."""
    starts = np.cumsum([0, *(len(block.biases) for block in blocks)], dtype=np.int64)
    weights, biases, codes, others = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
    return LinearMembers(WeightTable(np.ascontiguousarray(weights.T), biases, starts, codes, others))


def read_tree(member: Any, *, labels: tuple[Label, ...] | None) -> Tree:  # noqa: ANN401 - a fitted estimator
    """Return the nodes of a fitted tree; raises where its numbers are not finite."""
    tree = member.tree_
    own = np.arange(tree.node_count)
    leaf = tree.children_left < 0
    children = np.stack([np.where(leaf, own, side) for side in (tree.children_left, tree.children_right)], axis=1)
    codes, values = np.zeros(own.size, dtype=np.int64), np.zeros(own.size)
    if labels is None:
        values = np.array(tree.value[:, 0, 0], dtype=np.float64)
    else:
        codes = _read_codes(member, labels)[tree.value[:, 0, :].argmax(axis=1)]
    thresholds = _rounded_down(np.where(leaf, 0.0, tree.threshold))
    if not (np.isfinite(thresholds).all() and np.isfinite(values).all()):
        raise ArithmeticError
    return Tree(np.where(leaf, 0, tree.feature), thresholds, children, int(tree.max_depth), codes, values)


def make_fixed_tree(value: float, *, code: int = 0) -> Tree:
    """Return a single leaf with a value, and a vote for one label."""
    none, codes = np.zeros(1, dtype=np.int64), np.array([code], dtype=np.int64)
    return Tree(none, np.zeros(1, dtype=np.float32), np.zeros((1, 2), dtype=np.int64), 0, codes, np.array([value]))


def stack_trees(trees: Sequence[Tree]) -> TreeMembers:
    """Return trees as one array of nodes, in the order of their parts."""
    roots = np.cumsum([0, *(len(tree.features) for tree in trees[:-1])], dtype=np.int64)
    children = [tree.children + root for tree, root in zip(trees, roots.tolist(), strict=True)]
    forest = Forest(
        np.concatenate([tree.features for tree in trees]).astype(np.uint32),
        np.concatenate([tree.thresholds for tree in trees]),
        np.concatenate(children).astype(np.uint32).ravel(),
        roots.astype(np.uint32),
        np.array([tree.depth for tree in trees], dtype=np.int64),
    )
    return TreeMembers(
        forest, np.concatenate([tree.codes for tree in trees]), np.concatenate([tree.values for tree in trees])
    )


def _read_codes(member: Any, labels: tuple[Label, ...]) -> Integers:  # noqa: ANN401 - a fitted classifier
    return np.array([labels.index(name) for name in member.classes_.tolist()], dtype=np.int64)


def _rounded_down(thresholds: Floats) -> npt.NDArray[np.float32]:
    """Return the largest float of 32 bits that is not above each: features of 32 bits compare alike with both."""
    with np.errstate(over="ignore"):
        nearest = thresholds.astype(np.float32)
    return np.where(nearest > thresholds, np.nextafter(nearest, np.float32(-np.inf)), nearest)


def _read_numbers(X: object) -> Floats:
    try:
        points = np.asarray(X)
    except ValueError:
        points = np.zeros(0, dtype=object)
    if points.dtype.kind not in "biuf":
        raise InvalidParameter("X", describe_array(points), "a matrix of numbers")
    if points.ndim == 1:
        points = points[np.newaxis, :]
    return points.astype(np.float64, copy=False)
