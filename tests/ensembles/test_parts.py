"""Parts by key, by content and by position, and rows and labels by rules that look at one row alone."""

import itertools

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.ensembles import part_of
from holdtrue.ensembles.members import Domain, width_of
from holdtrue.ensembles.parts import (
    FEATURE_LIMIT,
    PartRule,
    codes_of,
    hash_contents,
    hash_rows,
    labels_of,
    outputs_of,
    shares_of,
    targets_of,
)
from holdtrue.queries.features import hash_keys


@pytest.mark.parametrize(("rows", "parts"), [(1, 1), (7, 7), (20, 3), (23, 5), (64, 8)])
def test_parts_are_disjoint_of_one_size_and_by_position(rows, parts):
    held = [share.tolist() for share in shares_of(rows, parts=parts)]
    assert {len(part) for part in held} == {rows // parts}
    assert sorted(itertools.chain(*held)) == list(range(rows // parts * parts))
    for part, places in enumerate(held):
        assert all(part_of(place, parts=parts) == part for place in places)
    assert held == [list(range(part, rows // parts * parts, parts)) for part in range(parts)]


def test_parts_of_a_sorted_file_are_alike():
    """Strides, not runs: every part of a sorted column spans nearly all of it."""
    column = np.arange(1000)
    assert np.ptp([column[share].mean() for share in shares_of(1000, parts=10)]) < 10


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


def _sets(names, labels, *, parts):
    """Return the rows of each part, told by their labels."""
    return [[labels[row] for row in share] for share in shares_of(len(labels), parts=parts, names=names)]


@pytest.mark.parametrize("text", [False, True])
def test_a_row_with_a_public_key_has_the_same_part_wherever_it_stands(text):
    rng = np.random.default_rng(1)
    keys = rng.permutation(1000)[:23]
    keys = np.array([f"seat {key:04}" for key in keys]) if text else keys
    shuffled = rng.permutation(23)
    first, second = (_sets(hash_keys(some, rows=23), some.tolist(), parts=5) for some in (keys, keys[shuffled]))
    assert first == second
    assert sorted(itertools.chain(*first)) == sorted(keys.tolist())


def test_rows_of_one_key_share_a_part_and_numbers_are_keys_like_their_texts():
    keys = np.array([4, 9, 4, 4, 7, 9])
    assert np.array_equal(hash_keys(keys, rows=6), hash_keys(keys.astype(str), rows=6))
    for part in _sets(hash_keys(keys, rows=6), keys.tolist(), parts=3):
        assert part == sorted(part, key=part.index)
    assert len(set(hash_keys(keys, rows=6).tolist())) == 3


def test_another_key_in_the_place_of_one_changes_two_parts_and_no_more():
    """Where a key goes with its row, rank among keys would move every row after it; the hash moves one row."""
    keys = np.arange(200)
    before = _sets(hash_keys(keys, rows=200), keys.tolist(), parts=20)
    for replaced in range(0, 200, 7):
        other = np.where(keys == replaced, 1000 + replaced, keys)
        after = _sets(hash_keys(other, rows=200), other.tolist(), parts=20)
        assert sum(set(one) != set(two) for one, two in zip(before, after, strict=True)) <= 2


def test_parts_by_key_are_of_about_one_size():
    sizes = [share.size for share in shares_of(40_000, parts=100, names=hash_keys(np.arange(40_000), rows=40_000))]
    assert sum(sizes) == 40_000
    assert 300 < min(sizes) <= max(sizes) < 500


@pytest.mark.parametrize("seed", range(5))
def test_parts_by_content_change_in_two_places_in_any_order_and_with_copies(seed):
    """E4 without an order: as sets of rows, all parts but two are the same, also where rows are copies of each other."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 3, (60, 2)).astype(float)
    table[rng.random((60, 2)) < 0.1] = np.nan
    before = _contents(table)
    for _ in range(40):
        other = table.copy()
        other[rng.integers(60)] = [rng.integers(0, 4), np.nan if rng.random() < 0.2 else rng.integers(0, 4)]
        after = _contents(other[rng.permutation(60)])
        changed = sum(one != two for one, two in zip(before, after, strict=True))
        assert changed <= 2
    assert _contents(table[::-1]) == before
    assert sum(map(len, before)) == 60


def _contents(table):
    names = hash_contents(list(table.T))
    return [sorted(map(repr, part)) for part in _sets(names, table.tolist(), parts=12)]


def test_contents_are_hashed_as_numbers_and_copies_are_counted():
    columns = [np.array([0.0, -0.0, 1.0, 0.0]), np.array([True, True, False, True])]
    names = hash_contents(columns)
    assert len(set(names.tolist())) == 4
    assert sorted(names.tolist()) == sorted(hash_rows(columns, copies=np.array([0, 1, 0, 2])).tolist())
    assert (names >= 0).all()


def test_a_rule_says_how_many_votes_a_row_moves_and_what_it_counts_on():
    key, content, position = PartRule("key", "id"), PartRule("content"), PartRule("position")
    assert [rule.votes for rule in (key, content, position)] == [1, 2, 1]
    assert "assuming" in position.sentence
    assert not any("assum" in rule.sentence for rule in (key, content))
    for wrong in (("key", None), ("content", "id"), ("rank", None)):
        with pytest.raises(ht.InvalidParameter):
            PartRule(*wrong)


@pytest.mark.parametrize("keys", [[1.0, 2.0, 3.0], [1, 2], [None, 1, 2], [[1], [2], [3]], "abc", [True, False, True]])
def test_keys_that_are_no_keys_are_refused(keys):
    with pytest.raises(ht.InvalidParameter):
        hash_keys(keys, rows=3)


def test_features_are_clamped_row_by_row_and_missing_ones_are_zero():
    x = np.array([[np.nan, np.inf, -np.inf, 5e300], [1.0, -2.0, 3.0, 4.0]])
    free = Domain.of(None, width=4).clamp_points(x)
    assert free.tolist() == [[0.0, FEATURE_LIMIT, -FEATURE_LIMIT, FEATURE_LIMIT], [1.0, -2.0, 3.0, 4.0]]
    assert np.isfinite(free.astype(np.float32)).all()
    pairs = Domain.of([(1, 2), (-1, 1), (0, 1), (3.5, 3.75)], width=4)
    assert pairs.clamp_points(x).tolist() == [[1.0, 1.0, 0.0, 3.75], [1.0, -1.0, 1.0, 3.75]]
    assert Domain.of((0, 2), width=4).clamp_points(x[1]).tolist() == [[1.0, 0.0, 2.0, 2.0]]
    assert np.isnan(x[0, 0])
    for type_ in (np.int8, np.uint64, np.float16, bool):
        assert Domain.of((0, 1), width=2).clamp_points(np.array([[1, 0]], dtype=type_)).tolist() == [[1.0, 0.0]]


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
        Domain.of(None, width=2).clamp_points(x)
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
