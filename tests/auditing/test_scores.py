"""Scores: whatever tells two laws apart, one of them tells it, and each is a fixed function once it is made."""

import math

import numpy as np
import pytest

from holdtrue.auditing.search import scores
from holdtrue.auditing.search.outputs import LAST, MISSING, Seen, list_features
from holdtrue.auditing.search.scores import OutputScore, make_scores

SIZE = 4000


def pair(left, right):
    return Seen(np.asarray(left, dtype=np.float64)), Seen(np.asarray(right, dtype=np.float64))


def advantage(score, left, right):
    """Return how much likelier the better of all cuts of a score is on one side than on the other."""
    sides = [np.sort(score(seen)) for seen in (left, right)]
    cuts = np.unique(np.concatenate(sides))
    over = [1 - np.searchsorted(side, cuts) / side.size for side in sides]
    return float(np.abs(over[0] - over[1]).max())


def best(make, rng, **given):
    """Return the largest advantage over fresh outputs of scores learned from others, and the words of that score."""
    left, right = pair(make(rng, 0), make(rng, 1))
    numeric = (True,) * left.matrix.shape[1]
    fresh = pair(make(rng, 0), make(rng, 1))
    found = [(advantage(score, *fresh), score.words) for score in make_scores(left, right, numeric, **given)]
    return max(found)


def test_missing_scores_count_as_the_lowest():
    score = OutputScore("a number", lambda seen: seen.matrix[:, 0])
    assert score(Seen(np.array([[np.nan], [1.0], [-np.inf]]))).tolist() == [-np.inf, 1.0, -np.inf]


def test_a_score_is_found_once_for_the_same_outputs():
    asked = []

    def of(seen):
        asked.append(1)
        return seen.matrix[:, 0]

    score, seen = OutputScore("a number", of), Seen(np.ones((2, 1)))
    assert score.of_known(seen) is score.of_known(seen)
    assert asked == [1]


def test_a_shifted_number_is_told_by_the_number_itself():
    found, _ = best(lambda rng, side: rng.normal(side, size=(SIZE, 1)), np.random.default_rng(1))
    assert found == pytest.approx(math.erf(0.5 / math.sqrt(2)), abs=0.05)


def test_a_wider_law_is_told_by_cells():
    """No cut of the number itself tells it: both laws have one middle."""
    found, words = best(lambda rng, side: rng.normal(scale=1 + side, size=(SIZE, 1)), np.random.default_rng(2))
    assert "likelihood ratio" in words
    assert found > 0.25


def test_floats_on_different_lattices_are_told_by_their_lowest_bit():
    def make(rng, side):
        return np.round(rng.normal(size=(SIZE, 1)) * 2.0 ** (20 + side)) / 2.0 ** (20 + side)

    found, words = best(make, np.random.default_rng(3))
    assert "lowest set bit" in words
    assert found > 0.4


def test_whole_outputs_are_told_where_no_single_number_tells():
    """Two coins that agree, or that do not: each alone is fair on both sides."""

    def make(rng, side):
        first = rng.integers(2, size=SIZE)
        return np.column_stack([first, first ^ side])

    found, _ = best(make, np.random.default_rng(4))
    assert found == 1.0


def test_sums_are_told_where_every_number_tells_little():
    def make(rng, side):
        return rng.normal(0.15 * side, size=(SIZE, 30))

    found, _ = best(make, np.random.default_rng(5))
    alone = math.erf(0.15 / 2 / math.sqrt(2))
    assert found > 3 * alone


def test_what_is_missing_is_told_where_numbers_are_alike():
    def make(rng, side):
        table = rng.normal(size=(SIZE, 3))
        table[np.arange(SIZE), rng.integers(2, size=SIZE) + side] = np.nan
        return table

    found, _ = best(make, np.random.default_rng(6))
    assert found > 0.4


def test_laws_that_are_alike_are_told_by_nothing():
    found, _ = best(lambda rng, _: rng.normal(size=(SIZE, 2)), np.random.default_rng(7))
    assert found < 0.06


def test_scores_are_fixed_once_they_are_made():
    rng = np.random.default_rng(8)
    left, right = pair(rng.normal(size=(SIZE, 2)), rng.normal(0.5, size=(SIZE, 2)))
    made = list(make_scores(left, right, (True, True)))
    outputs = rng.normal(size=(50, 2))
    first = [score(Seen(outputs)) for score in made]
    left.matrix[:] = right.matrix[:] = 0.0
    again = [score(Seen(outputs)) for score in made]
    alone = [score(Seen(outputs[:1])) for score in made]
    for one, other, single in zip(first, again, alone, strict=True):
        assert np.array_equal(one, other)
        assert single[0] == pytest.approx(one[0])


def test_every_score_has_words_of_its_own():
    rng = np.random.default_rng(9)
    left, right = pair(rng.normal(size=(SIZE, 3)), rng.normal(size=(SIZE, 3)))
    words = [score.words for score in make_scores(left, right, (True,) * 3)]
    assert len(set(words)) == len(words)
    assert "a logistic score" in words
    assert "a score of gradient-boosted trees" in words


def test_a_single_number_needs_no_model():
    left, right = pair(np.zeros((10, 1)), np.ones((10, 1)))
    words = [score.words for score in make_scores(left, right, (True,))]
    assert not any("logistic" in each or "trees" in each for each in words)


def test_few_different_outputs_need_no_model():
    rng = np.random.default_rng(10)
    left, right = pair(rng.integers(3, size=(SIZE, 2)), rng.integers(3, size=(SIZE, 2)))
    words = [score.words for score in make_scores(left, right, (True, True))]
    assert "the likelihood ratio of the whole output, one of 9" in words
    assert "the careful likelihood ratio of the whole output, one of 9" in words
    assert not any("logistic" in each for each in words)


def test_too_many_different_outputs_are_not_scored_one_by_one():
    rng = np.random.default_rng(11)
    left, right = pair(rng.normal(size=(SIZE, 2)), rng.normal(size=(SIZE, 2)))
    keys = scores._whole_keys
    assert scores._score_keys("it", keys, left, right, most=100) is None
    found = scores._score_keys("it", keys, left, right, most=1 << 14)
    assert found is not None
    assert found[1] == 2 * SIZE


def test_ratios_of_keys_are_those_of_smoothed_counts_and_luck_is_taken_off():
    left, right = pair([[0.0]] * 9 + [[1.0]], [[0.0]] * 2 + [[1.0]] * 8)
    (plain, careful), number = scores._score_keys("it", scores._whole_keys, left, right, most=10)
    assert number == 2
    asked = Seen(np.array([[0.0], [1.0], [7.0]]))
    ratios = [math.log(9.5 / 2.5), math.log(1.5 / 8.5), 0.0]
    assert plain(asked).tolist() == pytest.approx(ratios)
    luck = [1.5 * math.sqrt(1 / 9.5 + 1 / 2.5), 1.5 * math.sqrt(1 / 1.5 + 1 / 8.5), 0.0]
    expected = [math.copysign(max(0.0, abs(ratio) - less), ratio) for ratio, less in zip(ratios, luck, strict=True)]
    assert careful(asked).tolist() == pytest.approx(expected)


def test_of_many_features_those_that_differ_most_are_kept_and_those_of_what_is_missing_always():
    rng = np.random.default_rng(12)
    table = rng.normal(size=(2, SIZE, 60))
    table[1, :, 17] += 3
    left, right = pair(table[0], table[1])
    features = list_features((True,) * 60)
    chosen = scores._choose_features(features, left, right)
    assert len(chosen) == 64 < len(features)
    assert chosen[0].words in ("output 18", "output 18 less output 17", "output 19 less output 18")
    assert {LAST, MISSING} <= {feature.words for feature in chosen}


def test_few_features_are_all_kept():
    features = list_features((True, True))
    assert scores._choose_features(features, *pair(np.zeros((2, 2)), np.zeros((2, 2)))) is features


def test_a_linear_design_is_centred_and_scaled_and_marks_what_is_missing():
    columns = [np.array([0.0, 2.0, 4.0, np.nan]), np.array([5.0, 5.0, 5.0, 5.0])]
    design = scores._LinearDesign.of(columns)
    matrix = design.to_matrix(columns)
    assert matrix.shape == (4, 4)
    assert matrix[:3, 0] == pytest.approx(np.array([-1.0, 0.0, 1.0]) * math.sqrt(1.5))
    assert matrix[3, 0] == 0.0
    assert matrix[:, 1].tolist() == [0.0] * 4
    assert matrix[:, 2].tolist() == [0.0, 0.0, 0.0, 1.0]


def test_what_lies_beyond_the_ends_that_were_seen_is_moved_to_them():
    design = scores._LinearDesign.of([np.array([0.0, 1.0])])
    matrix = design.to_matrix([np.array([-100.0, np.inf])])
    inside = design.to_matrix([np.array([0.0, 1.0])])
    assert matrix[:, 0].tolist() == inside[:, 0].tolist()
    assert matrix[:, 1].tolist() == [0.0, 1.0]


def test_a_weighted_sum_is_the_matrix_times_the_weights():
    rng = np.random.default_rng(13)
    columns = [rng.normal(size=20), np.where(rng.random(20) < 0.3, np.nan, 1.0)]
    design, weights = scores._LinearDesign.of(columns), rng.normal(size=4)
    assert design.weigh_columns(columns, weights) == pytest.approx(design.to_matrix(columns) @ weights)


def test_a_column_without_a_finite_number_is_no_error():
    columns = [np.full(4, np.nan), np.arange(4.0)]
    matrix = scores._LinearDesign.of(columns).to_matrix(columns)
    assert np.isfinite(matrix).all()
    assert scores._stack_bounded([np.array([np.inf, -np.inf, 1.0])])[:, 0].tolist() == [1e15, -1e15, 1.0]
