"""Unions of classes: counts of the classes, and a prior in whole errors whose bound holds exactly."""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from holdtrue.bounds.selection import selection_probabilities, selection_shortfall
from holdtrue.codec import encode
from holdtrue.errors import InvalidParameter, NotCertified, RequestError
from holdtrue.hypotheses import read_class
from holdtrue.hypotheses.classes import Footprint, HypothesisClass
from holdtrue.hypotheses.custom import Hypotheses
from holdtrue.hypotheses.linear import LinearNet
from holdtrue.hypotheses.unions import Union


class Anything(HypothesisClass):
    """Every column on its own is a hypothesis; any number of columns, and two totals for each."""

    kind = "anything"

    def __init__(self, width=None):
        self.settled = width

    @property
    def size(self):
        if self.settled is None:
            message = "call over first"
            raise NotCertified(message)
        return self.settled

    @property
    def dimension(self):
        return self.settled

    def over(self, columns):
        return self if self.settled is not None else Anything(columns if isinstance(columns, int) else len(columns))

    @property
    def footprint(self):
        return Footprint(2 * self.size, 24 * self.size, "width", self.settled)

    def add_rows(self, X, y, totals):  # noqa: N803 - the name of the interface
        totals[: self.size] += ((X > 0) & ~y[:, None]).sum(axis=0)
        totals[self.size :] += (~(X > 0) & y[:, None]).sum(axis=0)

    def count_errors(self, totals):
        return totals.reshape(2, -1).sum(axis=0)

    def label_rows(self, X, index):  # noqa: N803 - likewise
        return X[:, index] > 0

    def describe(self, index):
        return f"x{self.check_index(index)} > 0 → 1"

    @property
    def document(self):
        return {"class": self.kind, "width": self.settled}


def _table(rows, width, *, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0, 0.5, (rows, width)), rng.random(rows) < 0.5


def test_counts_are_those_of_the_classes_one_after_the_other():
    table, y = _table(500, 3)
    parts = [
        LinearNet(3, count=9),
        Anything(3),
        LinearNet(3, resolution=1),
        Hypotheses([lambda rows: rows[:, 2] > 0], columns=3),
    ]
    union = Union(parts)
    counts = union.error_counts(table, y)
    assert counts.tolist() == [count for part in parts for count in part.error_counts(table, y).tolist()]
    assert union.size == sum(part.size for part in parts) == len(counts)
    assert [np.count_nonzero(union.evaluate(table, index) != y) for index in range(union.size)] == counts.tolist()
    assert union.describe(9) == "x0 > 0 → 1"
    assert union.find_member(8) == (parts[0], 8)
    assert union.find_member(12) == (parts[2], 0)
    for index in (-1, union.size, True):
        with pytest.raises(InvalidParameter, match="index"):
            union.find_member(index)


def test_classes_may_read_different_named_columns():
    table, y = _table(300, 4)
    frame = dict(zip("abcd", table.T, strict=True))
    parts = [
        LinearNet(["d", "b"], count=9),
        LinearNet(["b", "a", "d"], count=20),
        Hypotheses([lambda r: r[:, 0] > 0], columns=["c"]),
    ]
    union = Union(parts)
    assert union.columns == ("d", "b", "a", "c")
    assert union.width == 4
    expected = [count for part in parts for count in part.error_counts(frame, y).tolist()]
    assert union.error_counts(frame, y).tolist() == expected
    in_order = table[:, [3, 1, 0, 2]]
    assert union.error_counts(in_order, y).tolist() == expected
    for index in range(union.size):
        assert np.count_nonzero(union.evaluate(frame, index) != y) == expected[index]
        assert np.count_nonzero(union.evaluate(in_order, index) != y) == expected[index]
    assert union.over(["a", "b", "c", "d"]) == union


def test_classes_of_any_number_of_columns_wait_for_it():
    union = Union([Anything(), LinearNet(3, count=5)], weights=(1, 3))
    assert (union.width, union.columns) == (None, None)
    with pytest.raises(NotCertified):
        _ = union.size
    table, y = _table(50, 3)
    settled = union.over(3)
    assert (settled.size, settled.width, settled.weights) == (8, 3, (Fraction(1, 4), Fraction(3, 4)))
    assert union.error_counts(table, y).tolist() == settled.error_counts(table, y).tolist()
    assert union.evaluate(table, 1).tolist() == (table[:, 1] > 0).tolist()
    for columns in (4, ["a", "b", "c"]):
        with pytest.raises(InvalidParameter):
            union.over(columns)


class Leaking(Union):
    """Planted fault: the handicap of a class depends on the rows."""

    __slots__ = ()

    def count_errors(self, totals):
        counts = Union.count_errors(self, totals)
        return counts + int(counts[0]) % 2 * np.arange(counts.size)


def _largest_move(union):
    rng = np.random.default_rng(2)
    moved = 0
    for _ in range(40):
        table, y = rng.normal(0, 0.5, (30, 2)), rng.random(30) < 0.5
        other, labels, row = table.copy(), y.copy(), rng.integers(30)
        other[row], labels[row] = rng.choice([-2.0, np.nan, 2.0], 2), not y[row]
        scores = [union.handicap(union.error_counts(*given), epsilon=1) for given in ((table, y), (other, labels))]
        moved = max(moved, int(np.abs(scores[0] - scores[1]).max()))
    return moved


def test_replacing_one_row_moves_every_handicapped_count_by_at_most_one():
    parts = [Anything(2), LinearNet(2, count=300)]
    assert _largest_move(Union(parts)) == 1
    assert _largest_move(Leaking(parts)) > 1


def _sized(size):
    return LinearNet(1, count=size)


def _tail(scores, sizes, handicaps, epsilon, limit):
    """Return the exact probability that the pick has ``limit`` errors or more."""
    counts = np.array(scores)
    charged = counts + np.repeat(handicaps, sizes)
    return float(selection_probabilities(-charged, rate=Fraction(epsilon) / 2)[counts >= limit].sum())


def _worst_excess(union, epsilon, beta, handicaps, shortfalls):
    """Return the largest tail over beta, over all ways in which small classes may score."""
    sizes = [part.size for part in union.classes]
    worst = 0.0
    for best in itertools.product((0, 3, 11), repeat=len(sizes)):
        limit = min(m + s for m, s in zip(best, shortfalls, strict=True))
        for rest in (0, 1, math.ceil(limit), math.ceil(limit) + 4):
            scores = []
            for m, size in zip(best, sizes, strict=True):
                scores += [m] + [max(m, rest)] * (size - 1)
            worst = max(worst, _tail(scores, sizes, handicaps, epsilon, limit) / beta)
    return worst


CASES = [
    ((1, 40), (1, 1)),
    ((3, 500, 7), (1, 1, 1)),
    ((2, 2), (1, 9)),
    ((1, 1, 1), (5, 2, 1)),
    ((30, 1000), (1, 1000)),
    ((5,), (1,)),
]


@pytest.mark.parametrize(("sizes", "weights"), CASES)
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1, 3])
def test_the_pick_has_fewer_errors_than_any_class_promises(sizes, weights, epsilon):
    union = Union([_sized(size) for size in sizes], weights=weights)
    handicaps = union.handicaps(epsilon)
    for beta in (0.5, 0.05, 0.001):
        shortfalls = union.shortfalls(epsilon=epsilon, beta=beta)
        assert _worst_excess(union, epsilon, beta, handicaps, shortfalls) <= 1
        for size, weight, shortfall in zip(sizes, union.weights, shortfalls, strict=True):
            assert shortfall <= 2 / epsilon * math.log(size / (float(weight) * beta)) + 1 + 1e-9


def test_without_handicaps_the_promise_to_the_small_class_would_be_broken():
    union = Union([_sized(3), _sized(2000)])
    shortfalls = union.shortfalls(epsilon=0.5, beta=0.05)
    assert _worst_excess(union, 0.5, 0.05, union.handicaps(0.5), shortfalls) <= 1
    assert _worst_excess(union, 0.5, 0.05, [0, 0], shortfalls) > 2
    assert _worst_excess(union, 0.5, 0.05, union.handicaps(0.5)[::-1], shortfalls) > 2


def test_one_class_alone_has_the_shortfall_of_its_size():
    union = Union([_sized(10_000)])
    assert union.handicaps(0.3) == [0]
    assert union.shortfalls(epsilon=0.3, beta=0.01) == pytest.approx(
        [selection_shortfall(10_000, epsilon=0.3, beta=0.01)], rel=1e-12
    )


def test_handicaps_are_the_prior_in_whole_errors():
    union = Union([_sized(100), _sized(10_000), _sized(7)], weights=(Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)))
    for epsilon in (0.01, 0.5, 2, Fraction(1, 3)):
        prices = [2 / float(epsilon) * math.log(size / weight) for size, weight in ((100, 0.5), (10_000, 0.25), (7, 0.25))]
        assert union.handicaps(epsilon) == [round(price - min(prices)) for price in prices]
    assert Union([_sized(4), _sized(4)]).handicaps(1e-9) == [0, 0]
    counts = np.arange(10_107)
    charged = union.handicap(counts, epsilon=0.5) - counts
    assert charged[[0, 99, 100, 10_099, 10_100, 10_106]].tolist() == [h for h in union.handicaps(0.5) for _ in (0, 1)]
    with pytest.raises(InvalidParameter, match="epsilon"):
        union.handicaps(1e-30)
    for epsilon in (0, -1, math.nan):
        with pytest.raises(InvalidParameter, match="epsilon"):
            union.handicaps(epsilon)
    with pytest.raises(InvalidParameter, match="beta"):
        union.shortfalls(epsilon=1, beta=0)


def test_json_reads_back_equal():
    union = Union([LinearNet(["a"], count=3), LinearNet(["b"], resolution=2)], weights=(Fraction(1, 3), Fraction(2, 3)))
    document = json.loads(encode(union.document))
    assert document["weights"] == ["1/3", "2/3"]
    assert read_class(document) == read_class(encode(document)) == union
    assert hash(read_class(document)) == hash(union)
    wrongs = [
        {"weights": ["1/0", "1"]},
        {"weights": ["x", "1"]},
        {"weights": 3},
        {"classes": {}},
        {"more": 1},
        {"class": "net"},
    ]
    for wrong in wrongs:
        with pytest.raises(InvalidParameter):
            read_class(document | wrong)
    with pytest.raises(RequestError, match="code"):
        _ = Union([Hypotheses([abs])]).document


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"classes": []}, "not empty"),
        ({"classes": LinearNet(2, count=1)}, "a list of classes"),
        ({"classes": [3]}, "a list of classes"),
        ({"classes": [Union([LinearNet(2, count=1)])]}, "none of them a union"),
        ({"classes": [LinearNet(2, count=1)], "weights": [1, 1]}, "1 numbers"),
        ({"classes": [LinearNet(2, count=1)], "weights": [0]}, "weights must be"),
        ({"classes": [LinearNet(2, count=1)], "weights": [math.inf]}, "weights must be"),
        ({"classes": [LinearNet(2, count=1), LinearNet(3, count=1)]}, "as many by position"),
        ({"classes": [LinearNet(1, count=1), LinearNet(["a"], count=1)]}, "as many by position"),
    ],
)
def test_bad_parameters_are_refused(given, said):
    with pytest.raises(InvalidParameter, match=said):
        Union(**given)


def test_rows_of_another_width_are_refused():
    union = Union([LinearNet(2, count=3), Anything(2)])
    for action in (lambda table: union.evaluate(table, 0), lambda table: union.error_counts(table, [0])):
        with pytest.raises(InvalidParameter, match="the class has 2"):
            action(np.zeros((1, 3)))


def test_equal_weights_are_the_same_union():
    parts = (LinearNet(2, count=3), LinearNet(2, count=5))
    assert Union(parts) == Union(list(parts), weights=[7, 7.0])
    assert Union(parts) != Union(parts, weights=[1, 2])
