"""Parts by position, and rows and labels by rules that look at one row alone."""

import itertools

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.ensembles import part_of
from holdtrue.ensembles.parts import (
    FEATURE_LIMIT,
    Domain,
    codes_of,
    labels_of,
    order_of,
    outputs_of,
    positions,
    shares_of,
    targets_of,
    width_of,
)


@pytest.mark.parametrize(("rows", "parts"), [(1, 1), (7, 7), (20, 3), (23, 5), (64, 8)])
def test_parts_are_disjoint_of_one_size_and_by_position(rows, parts):
    held = [list(positions(part, rows=rows, parts=parts)) for part in range(parts)]
    assert {len(part) for part in held} == {rows // parts}
    assert sorted(itertools.chain(*held)) == list(range(rows // parts * parts))
    for part, places in enumerate(held):
        assert all(part_of(place, parts=parts) == part for place in places)
    assert shares_of(rows, parts=parts).T.tolist() == held


def test_parts_of_a_sorted_file_are_alike():
    """Strides, not runs: every part of a sorted column spans nearly all of it."""
    column = np.arange(1000)
    assert np.ptp(column[shares_of(1000, parts=10)].mean(axis=0)) < 10


@pytest.mark.parametrize("rows", [0, 4])
def test_more_parts_than_rows_are_refused(rows):
    with pytest.raises(ht.InsufficientSamples) as caught:
        shares_of(rows, parts=5)
    assert caught.value.required == 5


@pytest.mark.parametrize("parts", [0, -1, 2.0, True, "3", None])
def test_bad_numbers_of_parts_are_refused(parts):
    with pytest.raises(ht.InvalidParameter):
        shares_of(10, parts=parts)
    with pytest.raises(ht.InvalidParameter):
        part_of(3, parts=parts)


@pytest.mark.parametrize("part", [-1, 5])
def test_there_is_no_part_beyond_the_last(part):
    with pytest.raises(ht.InvalidParameter):
        positions(part, rows=10, parts=5)


@pytest.mark.parametrize("names", [False, True])
def test_a_row_with_a_public_key_has_the_same_part_wherever_it_stands(names):
    rng = np.random.default_rng(1)
    keys = rng.permutation(1000)[:23]
    keys = np.array([f"seat {key:04}" for key in keys]) if names else keys
    shuffled = rng.permutation(23)
    first, second = shares_of(23, parts=5, keys=keys), shares_of(23, parts=5, keys=keys[shuffled])
    assert keys[first].tolist() == keys[shuffled][second].tolist()
    assert order_of(keys, rows=23).tolist() == np.argsort(keys).tolist()


@pytest.mark.parametrize(
    "keys", [[1, 1, 2], [1.0, 2.0, 3.0], [1, 2], [None, 1, 2], [[1], [2], [3]], "abc", [True, False, True]]
)
def test_keys_that_are_no_keys_are_refused(keys):
    with pytest.raises(ht.InvalidParameter):
        shares_of(3, parts=1, keys=keys)


def test_features_are_clamped_row_by_row_and_missing_ones_are_zero():
    x = np.array([[np.nan, np.inf, -np.inf, 5e300], [1.0, -2.0, 3.0, 4.0]])
    free = Domain.of(None, width=4).clamped(x)
    assert free.tolist() == [[0.0, FEATURE_LIMIT, -FEATURE_LIMIT, FEATURE_LIMIT], [1.0, -2.0, 3.0, 4.0]]
    assert np.isfinite(free.astype(np.float32)).all()
    pairs = Domain.of([(1, 2), (-1, 1), (0, 1), (3.5, 3.75)], width=4)
    assert pairs.clamped(x).tolist() == [[1.0, 1.0, 0.0, 3.75], [1.0, -1.0, 1.0, 3.75]]
    assert Domain.of((0, 2), width=4).clamped(x[1]).tolist() == [[1.0, 0.0, 2.0, 2.0]]
    assert np.isnan(x[0, 0])
    for type_ in (np.int8, np.uint64, np.float16, bool):
        assert Domain.of((0, 1), width=2).clamped(np.array([[1, 0]], dtype=type_)).tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    "bounds",
    [
        (1, 0),
        [(0, 1)],
        [(0, 1)] * 3,
        [(0, 1), (0,)],
        (0, np.nan),
        (0, np.inf),
        (0, 1e39),
        "ab",
        5,
        [(0, 1), 3],
        (True, 2),
        {"x": (0, 1)},
    ],
)
def test_bad_bounds_are_refused(bounds):
    with pytest.raises(ht.InvalidParameter):
        Domain.of(bounds, width=2)


@pytest.mark.parametrize("x", [[["secret", 1]], [[1, 2], [3]], [[1, 2, 3]], [[[1, 2]]], 7, None, np.array([[1j, 2]])])
def test_points_of_other_types_and_shapes_are_refused_without_a_word_about_cells(x):
    with pytest.raises(ht.InvalidParameter) as caught:
        Domain.of(None, width=2).clamped(x)
    assert "secret" not in str(caught.value)


def test_the_width_is_the_number_of_columns():
    assert width_of(np.zeros((0, 3))) == 3
    for x in (np.zeros((3, 0)), 5, [["a"]]):
        with pytest.raises(ht.InvalidParameter):
            width_of(x)


@pytest.mark.parametrize(
    ("y", "labels", "codes"),
    [
        (np.array([3, 1, 2, 7]), (1, 2, 3), [2, 0, 1, 0]),
        (np.array([1.0, 0.0, np.nan, 0.5, np.inf]), (0, 1), [1, 0, 0, 0, 0]),
        (np.array(["no", "yes", "YES", ""]), ("no", "yes"), [0, 1, 0, 0]),
        (["yes", None, 3, [1], np.array([1, 2]), "yes"], ("no", "yes"), [0 + 1, 0, 0, 0, 0, 1]),
        ([0, 1, "x", 2.5, 1.0, object()], (0, 1), [0, 1, 0, 0, 1, 0]),
        (np.array([True, False]), (False, True), [1, 0]),
        (np.array([2**63, 1], dtype=np.uint64), (0, 1), [0, 1]),
    ],
)
def test_a_label_outside_the_list_counts_as_the_first(y, labels, codes):
    assert codes_of(y, labels=labels, rows=len(y)).tolist() == codes


@pytest.mark.parametrize(("y", "rows"), [(np.array(["secret"]), 1), (np.array([1, 2]), 3), (np.array([[1]]), 1)])
def test_labels_of_another_type_or_number_are_refused_without_a_word_about_them(y, rows):
    with pytest.raises(ht.InvalidParameter) as caught:
        codes_of(y, labels=(0, 1), rows=rows)
    assert "secret" not in str(caught.value)


def test_public_labels_keep_their_order():
    assert labels_of(["b", "a"]) == ("b", "a")
    assert labels_of(np.array([3, 1])) == (3, 1)
    assert type(labels_of([np.int64(3), 1])[0]) is int


@pytest.mark.parametrize("labels", [None, [], [1], [1, 1], ["a", 1], [True, 1], [0.0, 1.0], "ab", 5, [[1], [2]], [0, 2**70]])
def test_bad_lists_of_labels_are_refused(labels):
    with pytest.raises(ht.InvalidParameter):
        labels_of(labels)


def test_targets_are_clamped_row_by_row():
    y = np.array([np.nan, -np.inf, np.inf, 0.5, 9.0])
    assert targets_of(y, outputs=(0.0, 2.0), fallback=0.25, rows=5).tolist() == [0.25, 0.0, 2.0, 0.5, 2.0]
    with pytest.raises(ht.InvalidParameter):
        targets_of(np.array(["1"]), outputs=(0.0, 2.0), fallback=0.25, rows=1)


@pytest.mark.parametrize(
    ("outputs", "fallback"), [((1, 1), None), ((2, 1), None), ((0, np.inf), None), ((0, 1), 2), ((0, 1), np.nan), (3, None)]
)
def test_bad_bounds_of_outputs_are_refused(outputs, fallback):
    with pytest.raises(ht.InvalidParameter):
        outputs_of(outputs, fallback)
    assert outputs_of((0, 3), None) == ((0.0, 3.0), 1.5)
