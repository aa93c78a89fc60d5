"""Populations whose truth is known: samples have the law that the truth is computed from, and votes are what they say."""

import itertools
import math

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.auditing.populations import PlainMeans, PlainScores, Signs, Vote
from holdtrue.testing import SeededBits

ROWS = 20_000


def near(share, chance, number):
    """Return whether a share of so many independent draws is within six standard deviations of its chance."""
    return abs(share - chance) <= 6 * math.sqrt(chance * (1 - chance) / number) + 1e-12


def by_enumeration(population, vote):
    """Return how often a vote is right, over all rows that there can be, the definition of it written out."""
    columns = [column for column, _ in vote.weights]
    total = 0.0
    for label, *values in itertools.product((0, 1), repeat=1 + len(columns)):
        chance = 0.5
        for column, value in zip(columns, values, strict=True):
            agreed = population.chances[column]
            chance *= agreed if value == label else 1 - agreed
        said = sum(weight * (2 * value - 1) for (_, weight), value in zip(vote.weights, values, strict=True)) > 0
        total += chance * (int(said) == label)
    return total


# Votes


def test_a_vote_keeps_its_columns_in_order():
    assert Vote.of({3: 1, 1: -2}).weights == ((1, -2), (3, 1))


@pytest.mark.parametrize("weights", [(), ((0, 1), (0, 2)), ((0, 0),)])
def test_a_vote_needs_different_columns_and_weights_other_than_0(weights):
    with pytest.raises(ht.InvalidParameter, match="different columns, at least one"):
        Vote(weights)


def test_a_vote_of_a_column_that_cannot_be_is_refused():
    with pytest.raises(ht.InvalidParameter, match="column must be"):
        Vote.of({-1: 1})


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        ({0: 1}, "x0 = y"),
        ({0: -1}, "(CASE WHEN 2 * (-1 * x0) > -1 THEN 1 ELSE 0 END) = y"),
        ({0: 1, 1: 1, 2: 1}, "(CASE WHEN 2 * (x0 + (x1 + x2)) > 3 THEN 1 ELSE 0 END) = y"),
        ({0: 2, 1: 1}, "(CASE WHEN 2 * ((2 * x0) + x1) > 3 THEN 1 ELSE 0 END) = y"),
    ],
)
def test_a_vote_as_text(weights, text):
    assert Vote.of(weights).to_query() == text


def test_the_text_of_many_columns_is_not_deep():
    text = Vote.of(dict.fromkeys(range(500), 1)).to_query()
    depth = deepest = 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        deepest = max(deepest, depth)
    assert deepest <= 2 + math.ceil(math.log2(500))


def test_a_vote_predicts_the_sign_of_its_weighted_sum():
    sample = {"x0": np.array([0, 0, 1, 1], dtype=np.int8), "x1": np.array([0, 1, 0, 1], dtype=np.int8)}
    assert Vote.of({0: 1, 1: 1}).predict(sample).tolist() == [0, 0, 0, 1]
    assert Vote.of({0: 2, 1: -1}).predict(sample).tolist() == [0, 0, 1, 1]
    assert Vote.of({0: -1}).predict(sample).tolist() == [1, 1, 0, 0]


def test_many_columns_do_not_overflow_a_vote():
    sample = {f"x{column}": np.ones(3, dtype=np.int8) for column in range(200)}
    assert Vote.of(dict.fromkeys(range(200), 100)).predict(sample).tolist() == [1, 1, 1]


def test_a_vote_is_named_by_its_first_columns():
    assert str(Vote.of({0: 1, 4: -1})) == "vote of x0, x4"
    assert str(Vote.of(dict.fromkeys(range(1203), 1))) == "vote of x0, x1, x2 and 1,200 more"


# Samples


def test_a_sample_has_the_columns_the_rows_and_fair_labels(bits):
    population = Signs(rows=ROWS, columns=3)
    sample = population.draw(bits)
    assert tuple(sample) == population.names == ("x0", "x1", "x2", "y")
    assert all(values.shape == (ROWS,) and set(values.tolist()) == {0, 1} for values in sample.values())
    assert all(near(values.mean(), 0.5, ROWS) for values in sample.values())


def test_columns_agree_with_the_label_as_often_as_stated(bits):
    chances = (0.5, 0.7, 0.1, 1, 0)
    sample = Signs(rows=ROWS, columns=5, agreement=chances).draw(bits)
    for column, chance in enumerate(chances):
        assert near((sample[f"x{column}"] == sample["y"]).mean(), chance, ROWS)


def test_columns_are_independent_given_the_label(bits):
    sample = Signs(rows=ROWS, columns=2, agreement=0.7).draw(bits)
    both = [(sample[f"x{column}"] == sample["y"]).astype(float) for column in range(2)]
    assert near((both[0] * both[1]).mean(), 0.49, ROWS)


def test_samples_are_fresh_each_time_and_the_same_for_the_same_bits():
    population = Signs(rows=100, columns=2)
    bits = SeededBits("one")
    first, second = population.draw(bits), population.draw(bits)
    again = population.draw(SeededBits("one"))
    assert any((first[name] != second[name]).any() for name in first)
    assert all((first[name] == again[name]).all() for name in first)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rows": 0, "columns": 1}, "rows must be"),
        ({"rows": 1, "columns": 0}, "columns must be"),
        ({"rows": 1, "columns": 1, "agreement": 1.5}, "agreement must be"),
        ({"rows": 1, "columns": 2, "agreement": (0.5,)}, "one number, or 2"),
    ],
)
def test_impossible_populations_are_refused(given, words):
    with pytest.raises(ht.InvalidParameter, match=words):
        Signs(**given)


# Truth


@pytest.mark.parametrize(
    "weights", [{0: 1}, {0: -1}, {0: 1, 1: 1}, {0: 1, 1: 1, 2: 1}, {0: 3, 1: -2, 2: 1}, {0: 1, 1: -1}, {2: 5}]
)
def test_the_accuracy_of_a_vote_is_that_of_enumerating_all_rows(weights):
    population = Signs(rows=1, columns=3, agreement=(0.9, 0.6, 0.2))
    vote = Vote.of(weights)
    assert population.mean(vote) == pytest.approx(by_enumeration(population, vote))


def test_columns_that_know_nothing_make_every_vote_a_coin():
    population = Signs(rows=10, columns=60)
    for size in (1, 2, 31, 60):
        assert population.mean(Vote.of(dict.fromkeys(range(size), 1))) == pytest.approx(0.5, abs=1e-12)


def test_many_columns_that_know_a_little_know_much_together():
    found = Signs(rows=10, columns=101, agreement=0.6).mean(Vote.of(dict.fromkeys(range(101), 1)))
    exact = sum(math.comb(101, k) * 0.6**k * 0.4 ** (101 - k) for k in range(51, 102))
    assert found == pytest.approx(exact)


def test_the_truth_of_a_text_is_its_mean_over_all_rows():
    population = Signs(rows=10, columns=2, agreement=(0.9, 0.5))
    assert population.mean("x0 = y") == pytest.approx(0.9)
    assert population.mean("x0 = 1 AND y = 1") == pytest.approx(0.45)
    assert population.mean("(x0 + x1 + y) / 3") == pytest.approx(0.5, abs=1e-5)


def test_a_text_over_too_many_columns_is_refused():
    population = Signs(rows=10, columns=20)
    text = " + ".join(f"x{column}" for column in range(17))
    with pytest.raises(ht.UnsupportedQuery, match="up to 16 columns, not 17"):
        population.mean(f"({text}) / 17")


def test_the_truth_of_predictions_is_their_accuracy_on_fresh_labels(bits):
    """Labels drawn again given the columns: the mean over many such draws is what is stated."""
    population = Signs(rows=4, columns=2, agreement=(0.8, 0.6))
    sample = population.draw(bits)
    predictions = np.array([1, 0, 1, 1])
    chance = np.empty(4)
    for row in range(4):
        ones, zeros = 1.0, 1.0
        for column, agreed in enumerate((0.8, 0.6)):
            ones *= agreed if sample[f"x{column}"][row] == 1 else 1 - agreed
            zeros *= agreed if sample[f"x{column}"][row] == 0 else 1 - agreed
        chance[row] = ones / (ones + zeros)
    expected = np.where(predictions == 1, chance, 1 - chance).mean()
    assert population.mean(predictions, sample=sample) == pytest.approx(expected)


def test_predictions_need_their_sample_and_one_for_each_case():
    population = Signs(rows=4, columns=1)
    with pytest.raises(ht.InvalidParameter, match="one prediction per case, 4 in all"):
        population.mean(np.zeros(4))
    with pytest.raises(ht.InvalidParameter, match="one prediction per case, 4 in all"):
        population.mean(np.zeros(3), sample=population.draw(SeededBits("short")))


# Controls


def test_plain_means_are_the_means_of_the_sample(bits):
    sample = Signs(rows=1000, columns=1, agreement=0.7).draw(bits)
    plain = PlainMeans(sample, beta=0.1, questions=5)
    answer = plain.ask("x0 = y")
    assert answer.value == (sample["x0"] == sample["y"]).mean()
    near_ = math.sqrt(math.log(2 * 5 / 0.1) / (2 * 1000))
    assert answer.interval.low == pytest.approx(answer.value - near_)
    assert answer.interval.high == pytest.approx(answer.value + near_)
    assert answer.interval.confidence == pytest.approx(0.9)
    plain.close()


def test_plain_scores_are_the_share_that_is_right_within_0_and_1():
    plain = PlainScores([0, 1, 1, 0], beta=0.05, looks=1)
    answer = plain.score([0, 1, 1, 1])
    assert answer.value == 0.75
    assert (answer.interval.low, answer.interval.high) == (pytest.approx(0.75 - math.sqrt(math.log(40) / 8)), 1.0)
    assert answer.interval.target == "population"
