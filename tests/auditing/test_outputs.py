"""Outputs of any kind become numbers: the same output always the same ones, and different outputs different ones."""

import math

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.auditing.search.outputs import (
    LAST,
    MISSING,
    Cells,
    Feature,
    OutputReader,
    Seen,
    call_function,
    draw_outputs,
    hash_rows,
    list_features,
    lowest_bit,
    measure_width,
)

LARGEST = np.finfo(np.float64).max


def draw(outputs):
    """Return outputs as an audit draws them."""
    return draw_outputs(lambda _, count: outputs[:count], None, len(outputs))


def read(outputs):
    """Return outputs as the matrix that an audit works on."""
    drawn = draw(outputs)
    return OutputReader.of(drawn).to_matrix(drawn)


def named(numeric):
    return {feature.words: feature for feature in list_features(numeric)}


# Drawing


def test_numbers_keep_their_type_and_become_rows():
    assert draw(np.arange(6).reshape(3, 2)).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert draw([1, 2, 3]).dtype.kind == "i"
    assert draw([True, False]).dtype.kind == "b"
    assert draw([0.5, 2]).tolist() == [[0.5], [2.0]]


def test_outputs_of_several_axes_are_flattened_into_one_row_each():
    assert draw(np.arange(12).reshape(2, 2, 3)).shape == (2, 6)


def test_rows_of_different_lengths_end_in_missing_numbers():
    drawn = draw([(1, 2, 3), (4,), ()])
    assert drawn.shape == (3, 3)
    assert drawn[0].tolist() == [1, 2, 3]
    assert drawn[1, 0] == 4
    assert all(map(math.isnan, drawn[1, 1:].tolist()))
    assert all(map(math.isnan, drawn[2].tolist()))


def test_nested_tuples_and_arrays_are_flattened():
    assert draw([("a", (1, [2, 3])), ("b", (4, [5, 6]))]).tolist() == [["a", 1, 2, 3], ["b", 4, 5, 6]]
    assert draw([("a", np.array([[1, 2], [3, 4]]))]).tolist() == [["a", 1, 2, 3, 4]]


@pytest.mark.parametrize("outputs", [np.array(3.0), np.array([1j]), np.array(["2020-01-01"], dtype="M8[D]")])
def test_arrays_of_other_kinds_are_refused(outputs):
    with pytest.raises(ht.InvalidParameter, match="outputs must be"):
        draw_outputs(lambda *_: outputs, None, 1)


@pytest.mark.parametrize("outputs", ["text", b"bytes", 5, None])
def test_what_is_no_list_of_outputs_is_refused(outputs):
    with pytest.raises(ht.InvalidParameter, match="one output per run"):
        draw_outputs(lambda *_: outputs, None, 1)


def test_values_that_cannot_be_compared_are_named():
    with pytest.raises(ht.InvalidParameter, match="dict, set"):
        draw([({1},), ({},)])


def test_a_run_that_returns_too_few_outputs_is_told_how_many_it_owes():
    with pytest.raises(ht.InvalidParameter, match="asked for 1,000, it returned 2"):
        draw_outputs(lambda *_: [1, 2], None, 1000)


def test_a_function_that_raises_is_an_argument_that_will_not_do():
    with pytest.raises(ht.InvalidParameter, match="ZeroDivisionError") as wrong:
        call_function(lambda: 1 / 0)
    assert isinstance(wrong.value.__cause__, ZeroDivisionError)
    with pytest.raises(ht.InvalidParameter, match="TypeError"):
        call_function(None)


def test_errors_of_holdtrue_come_through_as_they_are():
    def refuse():
        raise ht.BudgetExceeded(requested=2, left=1, unit="questions")

    with pytest.raises(ht.BudgetExceeded):
        call_function(refuse)


def test_the_width_is_that_of_the_longest_of_a_few_outputs():
    assert measure_width(lambda _, count: [0] * count, None) == 1
    assert measure_width(lambda _, count: np.zeros((count, 7)), None) == 7
    assert measure_width(lambda _, count: [(1,) * (1 + place) for place in range(count)], None) == 8
    assert measure_width(lambda _, count: np.zeros((count, 0)), None) == 1


# Reading


def test_labels_get_codes_in_their_order_and_a_new_one_gets_none():
    reader = OutputReader.of(draw(["b", "a", "c"]), draw(["a", "a"]))
    assert reader.numeric == (False,)
    assert reader.to_matrix(draw(["a", "b", "c", "never seen"]))[:, 0].tolist() == [0, 1, 2, -1]


def test_a_label_that_looks_like_a_number_is_not_that_number():
    found = read([1, "1", b"1", 1.0, True])[:, 0]
    assert found[0] == found[3] == found[4]
    assert len(set(found.tolist())) == 3


def test_missing_values_beside_labels_are_one_label():
    found = read(["yes", None, float("nan"), "no"])[:, 0]
    assert found[1] == found[2]
    assert len(set(found.tolist())) == 3


def test_missing_values_beside_numbers_stay_missing():
    reader = OutputReader.of(draw([1.5, None, 2]))
    assert reader.numeric == (True,)
    assert np.array_equal(reader.to_matrix(draw([1.5, None, 2]))[:, 0], [1.5, np.nan, 2.0], equal_nan=True)


def test_numbers_beyond_floats_become_infinities():
    assert read([10**400, -(10**400), 7])[:, 0].tolist() == [math.inf, -math.inf, 7.0]


def test_columns_are_read_apart():
    reader = OutputReader.of(draw([("x", 1.0), ("y", 2.0)]))
    assert reader.numeric == (False, True)
    assert reader.to_matrix(draw([("y", 5.0)])).tolist() == [[1.0, 5.0]]


def test_outputs_wider_or_narrower_than_those_seen_first_can_be_read():
    reader = OutputReader.of(np.zeros((2, 2)))
    assert reader.to_matrix(np.ones((1, 3))).tolist() == [[1.0, 1.0]]
    narrow = reader.to_matrix(np.ones((1, 1)))
    assert narrow[0, 0] == 1
    assert math.isnan(narrow[0, 1])


def test_the_widest_of_several_samples_counts():
    assert len(OutputReader.of(np.zeros((2, 1)), np.zeros((2, 4))).codes) == 4


# Features


def test_one_number_is_looked_at_with_its_lattice_and_one_label_is_not():
    assert [feature.family for feature in list_features((True,))] == ["value", "lattice", "lattice"]
    assert [feature.words for feature in list_features((False,))] == ["the output"]


def test_several_numbers_are_looked_at_one_by_one_and_together():
    found = named((True,) * 3)
    seen = Seen(np.array([[1.0, 4.0, 2.0], [np.nan, 0.5, np.inf]]))
    assert seen[found["output 2"]].tolist() == [4.0, 0.5]
    assert seen[found["output 2 less output 1"]][0] == 3.0
    assert seen[found["output 3 less output 2"]][0] == -2.0
    assert seen[found["the sum of the outputs"]].tolist() == [7.0, 0.5]
    assert seen[found["the largest output"]].tolist() == [4.0, 0.5]
    assert seen[found["the smallest output"]].tolist() == [1.0, 0.5]
    assert seen[found[LAST]].tolist() == [2.0, 0.5]
    assert seen[found[MISSING]].tolist() == [0.0, 1.0]
    assert len(found) == 3 + 2 + 6


def test_a_row_without_a_finite_number_has_no_last_one():
    last = Seen(np.full((1, 2), np.nan))[named((True, True))[LAST]]
    assert math.isnan(last[0])


def test_labels_among_numbers_are_looked_at_one_by_one_only():
    assert [feature.words for feature in list_features((True, False))] == ["output 1", "output 2"]


def test_the_lattice_of_a_row_is_that_of_its_finest_number():
    finest = named((True, True))["the finest lowest set bit of the outputs"]
    assert Seen(np.array([[4.0, 0.25], [1.0, 3.0]]))[finest].tolist() == [-2.0, 0.0]


@pytest.mark.parametrize(
    ("value", "bit"), [(1.0, 0), (3.0, 0), (6.0, 1), (0.75, -2), (-0.75, -2), (2.0**60, 60), (2.0**-1074, -1074), (0.1, -55)]
)
def test_the_lowest_set_bit_is_that_of_the_float(value, bit):
    assert lowest_bit(np.array([value])).tolist() == [bit]
    scaled = value * 2.0 ** (-bit) if bit > -1000 else 1.0
    assert scaled == int(scaled)


def test_zero_lies_on_every_lattice_and_what_is_not_finite_on_none():
    found = lowest_bit(np.array([0.0, -0.0, np.inf, -np.inf, np.nan]))
    assert found.tolist() == [2000, 2000, -2000, -2000, -2000]


def test_a_feature_is_found_once_however_often_it_is_asked_for():
    asked = []

    def column(matrix):
        asked.append(matrix.shape)
        return matrix[:, 0]

    feature, seen = Feature("a column", "value", column), Seen(np.ones((3, 1)))
    assert seen[feature] is seen[feature]
    assert asked == [(3, 1)]
    assert seen.find_or_make("a key", lambda: "made") == seen.find_or_make("a key", lambda: "never made") == "made"


# Hashes of rows


def test_equal_rows_have_equal_hashes_and_others_do_not():
    rng = np.random.default_rng(3)
    matrix = rng.integers(3, size=(2000, 4)).astype(np.float64)
    found = hash_rows(matrix)
    kinds = {}
    for row, key in zip(map(tuple, matrix.tolist()), found.tolist(), strict=True):
        assert kinds.setdefault(row, key) == key
    assert len(set(kinds.values())) == len(kinds)


def test_the_place_of_a_number_counts_and_the_sign_of_zero_does_not():
    found = hash_rows(np.array([[1.0, 2.0], [2.0, 1.0], [0.0, 1.0], [-0.0, 1.0]]))
    assert found[0] != found[1]
    assert found[2] == found[3]


# Cells


def cut(values):
    """Return cells of one column of values, and the values as outputs."""
    feature = Feature("the output", "value", lambda matrix: matrix[:, 0])
    seen = Seen(np.asarray(values, dtype=np.float64)[:, None])
    return Cells.of(feature, seen[feature], seen[feature]), seen


def test_few_values_have_a_cell_each():
    cells, seen = cut([1.0, 2.0, 2.0, 5.0])
    assert cells.edges.tolist() == [-np.inf, 1.0, 2.0, 5.0, LARGEST, np.inf]
    assert cells.find_cells(seen).tolist() == [1, 2, 2, 3]
    assert cells.count_cells(seen).sum() == 4


def test_infinities_and_missing_numbers_have_cells_of_their_own():
    cells, _ = cut([1.0, 2.0])
    odd = Seen(np.array([[-np.inf], [1.0], [np.inf], [np.nan], [3.0]]))
    found = cells.find_cells(odd).tolist()
    assert len(set(found)) == 5
    assert found[3] == max(found)


def test_many_values_are_cut_at_quantiles_closer_together_in_the_tails():
    values = np.sort(np.random.default_rng(1).normal(size=30_000))
    cells, seen = cut(values)
    inner = cells.edges[1:-2]
    assert 128 <= inner.size < 200
    counts = cells.count_cells(seen)
    assert counts.max() < 0.02 * values.size
    assert 0 < counts[1] < 0.002 * values.size
    assert np.all(np.diff(inner) > 0)


def test_groups_are_about_as_many_as_asked_for_and_keep_the_order():
    cells, _ = cut(np.random.default_rng(2).normal(size=30_000))
    for number in (2, 8, 32):
        group = cells.group_cells(number)
        assert group.size == cells.edges.size + 1
        assert np.all(np.diff(group) >= 0)
        assert len(set(group[1:-2].tolist())) == number
        assert len({group[0], group[-2], group[-1], *group[1:-2].tolist()}) == number + 3


def test_few_cells_are_not_grouped():
    cells, _ = cut([1.0, 2.0, 3.0])
    assert cells.group_cells(32)[1:-2].tolist() == [1, 2, 3, 4]


def test_ratios_are_logarithms_of_smoothed_counts():
    feature = Feature("the output", "value", lambda matrix: matrix[:, 0])
    left, right = Seen(np.array([[0.0]] * 7 + [[1.0]])), Seen(np.array([[0.0]] + [[1.0]] * 3))
    cells = Cells.of(feature, left[feature], right[feature])
    score = cells.make_score(left, right, 32)
    assert score(Seen(np.array([[0.0], [1.0]]))).tolist() == pytest.approx([math.log(7.5 / 1.5), math.log(1.5 / 3.5)])
    unseen = score(Seen(np.array([[np.inf]])))
    assert unseen.tolist() == [0.0]


def test_ratios_from_counts_are_those_from_outputs():
    rng = np.random.default_rng(4)
    feature = Feature("the output", "value", lambda matrix: matrix[:, 0])
    left, right = Seen(rng.normal(size=(3000, 1))), Seen(rng.normal(0.3, size=(3000, 1)))
    cells = Cells.of(feature, left[feature], right[feature])
    from_counts = cells.ratios_of_counts(cells.count_cells(left), cells.count_cells(right), 8)
    assert np.array_equal(cells.find_ratios(left, right, 8), from_counts)
    finite = from_counts[1:-2]
    assert finite[0] > 0 > finite[-1]
