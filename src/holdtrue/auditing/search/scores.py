"""Likelihood ratios learned from outputs of two data sets; the events of an audit are those where a score is high or low.

Every score is a fixed function once it is made, and is made from outputs that no bound is computed from. So nothing here
can make a bound wrong, only weak.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdtrue.auditing.search.confidence_bounds import Floats
from holdtrue.auditing.search.outputs import LAST, MISSING, Cells, Feature, Seen, hash_rows, list_features

__all__ = ["OutputScore", "make_scores"]

_COARSE = (2, 8, 32)
_FINE = (32, 128)
_MOST_WHOLE = 1 << 14
_FEW_WHOLE = 1 << 11
_MOST_PATTERNS = 1 << 8
_MOST_STEPS = 16
_LEARNED_FROM = 60_000
_MOST_FEATURES = 64
_SMALL = 4
_LARGE = 1e15
_LUCK = 1.5
_AT_ONCE = 1 << 14


@dataclass(frozen=True, slots=True)
class OutputScore:
    """A number of each output, and what it is in words."""

    words: str
    of: Callable[[Seen], Floats]

    def __call__(self, seen: Seen) -> Floats:
        """Return the score of each output; NaN counts as the lowest."""
        found = self.of(seen)
        return np.where(np.isnan(found), -np.inf, found)

    def of_known(self, seen: Seen) -> Floats:
        """Return the score of each output, computed once: events often differ in their cuts alone."""
        return seen.find_or_make(self, lambda: self(seen))


def make_scores(left: Seen, right: Seen, numeric: tuple[bool, ...]) -> Iterator[OutputScore]:
    """Make scores from outputs of both sides: single numbers, cells of them, sums of cells, whole outputs, learned ones."""
    looked = _choose_features(list_features(numeric), left, right)
    for feature in looked:
        if feature.family != "lattice" or len(numeric) > 1 or feature is looked[1]:
            yield OutputScore(feature.words, lambda seen, feature=feature: seen[feature])  # type: ignore[misc]
        cells = Cells.of(feature, left[feature], right[feature])
        for number in _FINE if len(numeric) <= _SMALL else _FINE[:1]:
            yield OutputScore(
                f"the likelihood ratio by {number} cells of {feature.words}", cells.make_score(left, right, number)
            )
    if len(numeric) == 1:
        return
    whole = _score_keys("the whole output", _whole_keys, left, right, most=_MOST_WHOLE)
    if whole is not None:
        yield from whole[0]
    yield from _score_patterns(looked, left, right)
    yield from _score_sums(looked, left, right)
    if whole is None or whole[1] > _FEW_WHOLE:
        yield from _fit_scores(looked, left, right)


def _choose_features(found: list[Feature], left: Seen, right: Seen) -> list[Feature]:
    """Return the features whose means differ most, where they are too many to try each; those of missing outputs stay."""
    if len(found) <= _MOST_FEATURES:
        return found

    def gap(feature: Feature) -> float:
        sides = [np.nan_to_num(seen[feature], posinf=0.0, neginf=0.0) for seen in (left, right)]
        spread = float(np.concatenate(sides).std())
        return abs(float(sides[0].mean() - sides[1].mean())) / spread if spread else 0.0

    kept = [feature for feature in found if feature.words in (LAST, MISSING)]
    others = [feature for feature in found if feature not in kept]
    return [*sorted(others, key=gap, reverse=True)[: _MOST_FEATURES - len(kept)], *kept]


def _score_keys(
    words: str, key: Callable[[Seen], npt.NDArray[np.uint64]], left: Seen, right: Seen, *, most: int
) -> tuple[list[OutputScore], int] | None:
    """Score each distinct key separately, unless there are too many; also return how many there are.

    Twice: by its likelihood ratio, and by that less what luck may have added.
    """
    keys = key(left), key(right)
    if np.unique(keys[0][: 2 * most]).size > most:
        return None
    known, codes = np.unique(np.concatenate(keys), return_inverse=True)
    if known.size > most:
        return None
    counts = [np.bincount(side, minlength=known.size) for side in (codes[: keys[0].size], codes[keys[0].size :])]

    def by(ratios: Floats) -> Callable[[Seen], Floats]:
        def ratio(seen: Seen) -> Floats:
            asked = key(seen)
            places = np.minimum(np.searchsorted(known, asked), known.size - 1)
            return np.where(known[places] == asked, ratios[places], 0.0)

        return ratio

    first, second = counts[0] + 0.5, counts[1] + 0.5
    ratio, luck = np.log(first) - np.log(second), np.sqrt(1 / first + 1 / second)
    made = {"the": ratio, "the careful": np.sign(ratio) * np.maximum(np.abs(ratio) - _LUCK * luck, 0.0)}
    named = f"likelihood ratio of {words}, one of {known.size:,}"
    return [OutputScore(f"{which} {named}", by(ratios)) for which, ratios in made.items()], int(known.size)


def _whole_keys(seen: Seen) -> npt.NDArray[np.uint64]:
    return seen.find_or_make(_whole_keys, lambda: hash_rows(seen.matrix))


def _pattern_keys(seen: Seen) -> npt.NDArray[np.uint64]:
    return seen.find_or_make(_pattern_keys, lambda: hash_rows(np.where(np.isfinite(seen.matrix), 1.0, seen.matrix)))


def _score_patterns(looked: Sequence[Feature], left: Seen, right: Seen) -> Iterator[OutputScore]:
    """Score which outputs are there, that together with cells of the last one, and the last one where many are not."""
    named = {feature.words: feature for feature in looked}
    # Outputs with labels among them have no last number; what is missing there is part of the whole output.
    if MISSING not in named or np.isfinite(left.matrix).all() or np.unique(_pattern_keys(left)).size > _MOST_PATTERNS:
        return
    last, missing = named[LAST], named[MISSING]
    cells = Cells.of(last, left[last], right[last])
    for number in (2, 8):
        group = cells.group_cells(number)

        def keys(seen: Seen, group: npt.NDArray[np.intp] = group) -> npt.NDArray[np.uint64]:
            return _pattern_keys(seen) ^ (group[cells.find_cells(seen)].astype(np.uint64) * np.uint64(0xD1B54A32D192ED03))

        made = _score_keys(f"which outputs are there and {number} cells of the last", keys, left, right, most=_MOST_WHOLE)
        if made is not None:
            yield from made[0]
    for least in np.unique(left[missing])[1:_MOST_STEPS].tolist():
        for sign, word in ((1.0, ""), (-1.0, "minus ")):

            def limited(seen: Seen, least: float = least, sign: float = sign) -> Floats:
                return np.where(seen[missing] >= least, sign * seen[last], -np.inf)

            yield OutputScore(f"{word}{LAST}, where {least:.0f} or more are missing,", limited)


def _score_sums(looked: Sequence[Feature], left: Seen, right: Seen) -> Iterator[OutputScore]:
    """Add the logarithms of ratios over the values or over the differences: each with cells of its own, or all with one."""
    for family in ("value", "difference"):
        chosen = [feature for feature in looked if feature.family == family]
        if not chosen:
            continue
        if family == "difference":
            chosen.append(looked[0])
        own = [Cells.of(feature, left[feature], right[feature]) for feature in chosen]
        edges = Cells.edges_of(np.concatenate([seen[feature] for feature in chosen for seen in (left, right)]))
        shared = [Cells(feature, edges) for feature in chosen]
        for number in _COARSE:
            apart = [cells.find_ratios(left, right, number) for cells in own]
            counts = [np.sum([cells.count_cells(seen) for cells in shared], axis=0) for seen in (left, right)]
            alike = shared[0].ratios_of_counts(counts[0], counts[1], number)
            yield OutputScore(f"the sum of likelihood ratios of each {family}, {number} cells", _add_ratios(own, apart))
            yield OutputScore(
                f"the sum of likelihood ratios of every {family}, {number} cells for all",
                _add_ratios(shared, [alike] * len(shared)),
            )


def _add_ratios(cells: Sequence[Cells], ratios: Sequence[Floats]) -> Callable[[Seen], Floats]:
    def total(seen: Seen) -> Floats:
        found = np.zeros(seen.matrix.shape[0])
        for each, ratio in zip(cells, ratios, strict=True):
            found += ratio[each.find_cells(seen)]
        # Sums of the same terms in another order shall be equal.
        return np.round(found, 10)

    return total


def _fit_scores(looked: Sequence[Feature], left: Seen, right: Seen) -> Iterator[OutputScore]:
    """Fit a logistic regression and gradient-boosted trees to tell the sides apart."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    chosen = [feature for feature in looked if feature.family != "lattice"]
    size = min(_LEARNED_FROM, left.matrix.shape[0])
    # A linear score of values has that of their differences in it.
    straight = [feature for feature in chosen if feature.family == "value"]
    wide, narrow = (
        [np.concatenate([left[feature][:size], right[feature][:size]]) for feature in each] for each in (chosen, straight)
    )
    sides = np.repeat([1, 0], size)
    design = _LinearDesign.of(narrow)
    # Two threads that wait for each other take longer than one where the machine is busy.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        # A fit that has not converged is a score like any other.
        warnings.simplefilter("ignore")
        linear = LogisticRegression(C=0.1, max_iter=100).fit(design.to_matrix(narrow), sides)
        trees = HistGradientBoostingClassifier(
            max_iter=50, max_leaf_nodes=15, min_samples_leaf=max(20, size // 500), early_stopping=False, random_state=0
        ).fit(_stack_bounded(wide), sides)

    def straightly(seen: Seen) -> Floats:
        return design.weigh_columns([seen[each] for each in straight], linear.coef_[0]) + float(linear.intercept_[0])

    def grown(seen: Seen) -> Floats:
        columns = [seen[each] for each in chosen]
        rows = seen.matrix.shape[0]
        with threadpool_limits(limits=1):
            found = [
                trees.decision_function(_stack_bounded([column[start : start + _AT_ONCE] for column in columns]))
                for start in range(0, rows, _AT_ONCE)
            ]
        return np.concatenate(found)

    yield OutputScore("a logistic score", straightly)
    yield OutputScore("a score of gradient-boosted trees", grown)


def _stack_bounded(columns: Sequence[Floats]) -> Floats:
    """Return columns side by side; infinities become large numbers, NaN stays."""
    return np.clip(np.column_stack(columns), -_LARGE, _LARGE)


@dataclass(frozen=True, slots=True)
class _LinearDesign:
    """Columns made fit for a linear model: centred, scaled, within the ends that were seen, and what is missing marked."""

    low: Floats
    high: Floats
    mean: Floats
    scale: Floats

    @classmethod
    def of(cls, columns: Sequence[Floats]) -> "_LinearDesign":
        finite = [column[np.isfinite(column)] for column in columns]
        kept = [column if column.size else np.zeros(1) for column in finite]
        spread = np.array([column.std() for column in kept])
        ends = [np.array([end(column) for column in kept]) for end in (np.min, np.max, np.mean)]
        return cls(ends[0], ends[1], ends[2], np.where(spread > 0, spread, 1.0))

    def to_matrix(self, columns: Sequence[Floats]) -> Floats:
        """Return all columns as they are fit for the model, and then a mark for each where it is missing."""
        made = [self._scale_column(place, column) for place, column in enumerate(columns)]
        return np.column_stack([*made, *(~np.isfinite(column) for column in columns)])

    def weigh_columns(self, columns: Sequence[Floats], weights: Floats) -> Floats:
        """Return the matrix times weights, without making the matrix."""
        found = np.zeros(columns[0].size)
        for place, column in enumerate(columns):
            found += weights[place] * self._scale_column(place, column)
            found += weights[len(columns) + place] * ~np.isfinite(column)
        return found

    def _scale_column(self, place: int, column: Floats) -> Floats:
        known = np.where(np.isnan(column), self.mean[place], column)
        found: Floats = (np.clip(known, self.low[place], self.high[place]) - self.mean[place]) / self.scale[place]
        return found
