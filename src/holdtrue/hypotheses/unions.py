"""Several classes as one, with a price for the larger ones that is paid in whole errors."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from holdtrue import exact
from holdtrue.codec import encode
from holdtrue.errors import InvalidParameter, RequestError
from holdtrue.exact import ROUNDING, Number, floor_positive, floor_probability, read_list
from holdtrue.hypotheses.classes import Flags, Footprint, HypothesisClass, Integers, Matrix
from holdtrue.noise.enclosures import logarithm
from holdtrue.requests import UnionDocument

__all__ = ["Union", "join_classes", "write_document"]

_LARGEST = 1 << 62


@dataclass(frozen=True, slots=True)
class Union(HypothesisClass):
    """The members of several classes, one class after the other, and a prior over the classes.

    ``weights`` are positive rationals, one for each class, equal unless given, whatever their sum; each is spread evenly
    over the members of its class. Classes have names for all their columns, and then may read different ones, or all go
    by position and have as many columns.

    Guarantee: error counts are those of the classes, of sensitivity 1; so are counts plus :meth:`handicaps`, since those are
    public, and a choice among them by the exponential mechanism (B6) is epsilon-DP and epsilon-bounded-range as ever. With
    probability at least 1 - beta the pick has fewer errors than, for every class i at once, the best of class i and
    :meth:`shortfalls` i, which is at most (2 / epsilon) ln(size_i / (weight_i beta)) + 1: a small class is not made to pay
    for a large one beside it. Needs: classes and weights fixed before any row is seen.
    """

    kind: ClassVar[str] = "union"

    classes: tuple[HypothesisClass, ...]
    weights: tuple[Fraction, ...]

    def __init__(self, classes: Sequence[HypothesisClass], *, weights: Sequence[Number] | None = None) -> None:
        given: object = classes
        if not isinstance(given, (list, tuple)) or not given or not all(_is_simple(one) for one in given):
            raise InvalidParameter("classes", given, "a list of classes of hypotheses, not empty, none of them a union")
        numbers = [1] * len(given) if weights is None else exact.read_list("weights", weights, expected="numbers above 0")
        if len(numbers) != len(given):
            raise InvalidParameter("weights", weights, f"{len(given)} numbers above 0, one for each class")
        shares = [exact.positive("weights", number) for number in numbers]
        object.__setattr__(self, "classes", tuple(given))
        object.__setattr__(self, "weights", tuple(share / sum(shares) for share in shares))
        if self._settled and not self._columns_agree():
            raise InvalidParameter("classes", given, "classes that all name their columns, or all have as many by position")

    @property
    def size(self) -> int:
        """Return how many members the classes have together."""
        return sum(one.size for one in self.classes)

    @property
    def dimension(self) -> int | tuple[str, ...] | None:
        """Return the names of all columns, in the order in which the classes first name them; their number by position."""
        if not self._settled:
            return None
        named = [one.columns for one in self.classes if one.columns is not None]
        if len(named) < len(self.classes):
            return self.classes[0].width
        return tuple(dict.fromkeys(name for names in named for name in names))

    @property
    def footprint(self) -> Footprint:
        """Return what counting all classes takes."""
        each = [one.footprint for one in self.classes]
        largest = max(each, key=lambda one: one.size)
        return largest._replace(totals=sum(one.totals for one in each), size=sum(one.size for one in each))

    def count_steps(self, rows: int) -> int:
        """Return about how many steps all classes take."""
        return sum(one.count_steps(rows) for one in self.classes)

    def over(self, columns: int | Sequence[str]) -> Self:
        """Return the union of the classes over these columns; a class with names of its own keeps them."""
        settled = tuple(one if one.columns is not None else one.over(columns) for one in self.classes)
        return type(self)(settled, weights=self.weights)

    def add_rows(self, X: Matrix, y: Flags, totals: Integers) -> None:
        """Add some rows to the totals of every class."""
        for one, part in self._split_totals(totals):
            one.add_rows(self._read_columns(one, X), y, part)

    def try_out(self, row: Matrix) -> None:
        """Try the code of every class that was brought."""
        for one in self.classes:
            one.try_out(self._read_columns(one, row))

    def count_errors(self, totals: Integers) -> Integers:
        """Return the errors of all members."""
        return np.concatenate([one.count_errors(part) for one, part in self._split_totals(totals)])

    def label_rows(self, X: Matrix, index: int) -> Flags:
        """Return the labels that a member gives to rows."""
        one, number = self.find_member(index)
        return one.label_rows(self._read_columns(one, X), number)

    def describe(self, index: int) -> str:
        """Return a member as its class describes it."""
        one, number = self.find_member(index)
        return one.describe(number)

    def find_member(self, index: int) -> tuple[HypothesisClass, int]:
        """Return the class that a member belongs to, and its number there."""
        number = self.check_index(index)
        for one in self.classes:
            if number < one.size:
                return one, number
            number -= one.size
        raise AssertionError

    def handicaps(self, epsilon: Number) -> list[int]:
        """Return how many errors each class is charged in advance, all its members alike: the prior, in whole errors.

        The nearest whole number to (2 / epsilon) ln(size / weight), less the same of the class where it is smallest. Its
        logarithm is enclosed until the whole number is sure, so that it is the same everywhere.
        """
        rate = 2 / exact.positive("epsilon", epsilon)
        prices = [one.size / weight for one, weight in zip(self.classes, self.weights, strict=True)]
        found = [_round_log(rate, price / min(prices)) for price in prices]
        if max(found) >= _LARGEST:
            raise InvalidParameter("epsilon", epsilon, "larger; the handicaps would exceed 2^62 errors")
        return found

    def handicap(self, errors: Integers, *, epsilon: Number) -> Integers:
        """Return error counts with every member's handicap added, to choose by. They depend on the rows, as errors do."""
        return errors + np.repeat(np.array(self.handicaps(epsilon), dtype=np.int64), [one.size for one in self.classes])

    def shortfalls(self, *, epsilon: Number, beta: Number) -> list[float]:
        """Return, for each class, by how many errors the pick may exceed its best member (B5).

        All hold at once, except with probability beta.

        With sizes n, handicaps a and the fewest errors m of each class, the pick has t errors or more with probability at
        most the sum over classes j of n_j e^(-(t + a_j) epsilon / 2), over the weight e^(-(m_i + a_i) epsilon / 2) of the
        best of any class i. That is beta at t = m_i + a_i + (2 / epsilon) ln(sum of n_j e^(-a_j epsilon / 2) / beta). As a
        is the prior's logarithm to within half an error, t is at most m_i + (2 / epsilon) ln(n_i / (weight_i beta)) + 1.
        """
        handicaps = self.handicaps(epsilon)
        half = floor_positive("epsilon", epsilon) / 2
        mass = math.fsum(one.size * math.exp(-half * a) for one, a in zip(self.classes, handicaps, strict=True))
        spread = (math.log(mass) - math.log(floor_probability("beta", beta))) / half
        return [(a + spread) * ROUNDING * ROUNDING for a in handicaps]

    @property
    def document(self) -> UnionDocument:
        """Return the classes and their weights."""
        return UnionDocument(tuple(one.document for one in self.classes), self.weights)  # type: ignore[misc]  # no unions

    @property
    def _settled(self) -> bool:
        return all(one.width is not None for one in self.classes)

    def _columns_agree(self) -> bool:
        if any(one.columns is not None for one in self.classes):
            return self.columns is not None
        return len({one.width for one in self.classes}) == 1

    def _split_totals(self, totals: Integers) -> Iterator[tuple[HypothesisClass, Integers]]:
        start = 0
        for one in self.classes:
            stop = start + one.footprint.totals
            yield one, totals[start:stop]
            start = stop

    def _read_columns(self, one: HypothesisClass, X: Matrix) -> Matrix:
        """Return the columns that a class reads."""
        if one.columns in (None, self.columns):
            return X
        names = self.columns or ()
        return X[:, [names.index(name) for name in one.columns or ()]]


def _is_simple(one: object) -> bool:
    simple = isinstance(one, HypothesisClass) and not isinstance(one, Union)
    return simple and not one.by_position and one.labels is None  # type: ignore[attr-defined]  # it is a class


def _round_log(factor: Fraction, ratio: Fraction) -> int:
    """Return the whole number nearest to factor * ln(ratio), which is irrational, or 0 for a ratio of 1."""
    bits = 64
    while True:
        low, high = (math.floor(factor * end / (1 << bits) + Fraction(1, 2)) for end in logarithm(ratio, bits))
        if low == high:
            return low
        bits *= 2


def join_classes(
    hypotheses: HypothesisClass | Sequence[HypothesisClass], weights: Sequence[Number] | None
) -> HypothesisClass:
    """Return one class for a class or a list of them; several are joined, with prior weights if given."""
    expected = "a class such as Stumps, or a list of them"
    given = [hypotheses] if isinstance(hypotheses, HypothesisClass) else hypotheses
    classes: list[HypothesisClass] = read_list("hypotheses", given, expected=expected)
    for item in classes:
        if not isinstance(item, HypothesisClass):
            raise InvalidParameter("hypotheses", type(item).__name__, expected)
    if not classes:
        raise InvalidParameter.saying("hypotheses", "give at least one class")
    if len(classes) == 1:
        if weights is not None:
            raise InvalidParameter.saying("weights", "leave out weights: there is only one class")
        return classes[0]
    return Union(classes, weights=weights)


def write_document(hypotheses: HypothesisClass) -> str | None:
    """Return the class as canonical JSON; None for classes made of code."""
    try:
        return encode(hypotheses.document)
    except RequestError:
        return None
