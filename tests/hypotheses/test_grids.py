"""Classes over grids: the same errors as a double loop gives, whatever the rows hold, and bounds that are public."""

import json
import math

import numpy as np
import pytest

from holdtrue.codec import encode
from holdtrue.errors import InvalidParameter, NotCertified, UnknownColumn
from holdtrue.hypotheses import Intervals, Rectangles, Stumps, Thresholds, classes, read_class
from holdtrue.hypotheses.grid_classes import _count_pairs, _find_ends
from holdtrue.hypotheses.grids import grid_of
from holdtrue.kernels import grids, grids_compiled

# One for every way in which the kernels find cells.
FLOOR, SUM, QUOTIENT = (0.0, 1.0, 16), (-5.0, 5.0, 10), (0.1, 0.8, 7)
GRIDS = [
    FLOOR,
    SUM,
    QUOTIENT,
    (-0.3, 1e-3, 3),
    (0.0, 120.0, 240),
    (1e16, 1e16 + 64, 8),
    (0.0, 1e-300, 8),
    (2.0, 3.0, 1),
]
CLASSES = [
    Thresholds(0.1, 0.8, steps=7),
    Intervals(0, 1, steps=6),
    Stumps(bounds=[(0.1, 0.8), (-1, 1), (0, 1)], steps=5),
    Stumps(bounds=(0, 1), steps=4).over(11),
    Rectangles(bounds=[(0, 1), (-0.7, 0.2)], steps=4),
]


@pytest.fixture(params=["numpy", "numba"])
def kernel(request, monkeypatch):
    chosen = grids_compiled if request.param == "numba" else None
    monkeypatch.setattr(grids, "compiled", lambda _: chosen)
    return request.param


def _cell(value, low, high, steps):
    """Return the cell of one number by the definition, looking at one edge after the other."""
    held = low if math.isnan(value) else min(max(value, low), high)
    return max(j for j in range(steps) if low + (j * (high - low)) / steps <= held)


def _wild(rng, low, high, steps, rows):
    """Return numbers within, beyond, on the edges, next to them, equal, and missing."""
    edges = [low + (j * (high - low)) / steps for j in range(steps)] + [low, high]
    beside = [math.nextafter(edge, way) for edge in edges for way in (-math.inf, math.inf)]
    odd = [math.nan, math.inf, -math.inf, -0.0, 0.0, 1e308, -1e308, 5e-324, -5e-324, low, high]
    within = (low + (high - low) * rng.random(max(1, rows))).tolist()
    return rng.choice(np.array(edges * 3 + beside + odd + within), rows)


def _pairs_of(given):
    return [(given.low, given.high)] if hasattr(given, "low") else list(given.bounds.pairs)


def _data(given, rows, *, seed=0):
    rng = np.random.default_rng(seed)
    table = np.stack([_wild(rng, low, high, given.steps, rows) for low, high in _pairs_of(given)], axis=1)
    return table, rng.random(rows) < 0.4


def _hypotheses(given):
    """Return what the class says that it holds, in its order, as functions of a row's cells."""
    s = given.steps
    spans = [(i, j) for i in range(s) for j in range(i + 1, s + 1)]
    match given:
        case Thresholds():
            return [lambda c, j=j: c[0] >= j for j in range(s)]
        case Intervals():
            return [*(lambda c, i=i, j=j: i <= c[0] < j for i, j in spans), lambda _: False]
        case Stumps():
            places = [(k, j) for k in range(given.width) for j in range(s)]
            both = [((lambda c, k=k, j=j: c[k] >= j), (lambda c, k=k, j=j: c[k] < j)) for k, j in places]
            return [one for two in both for one in two]
        case Rectangles():
            sides = [(a, b) for a in spans for b in spans]
            inside = [lambda c, a=a, b=b: a[0] <= c[0] < a[1] and b[0] <= c[1] < b[1] for a, b in sides]
            return [*inside, lambda _: False]


def _by_hand(given, table, y):
    """Return the errors by a double loop over rows and hypotheses."""
    ends_of = _pairs_of(given)
    cells = [[_cell(float(v), *ends_of[k], given.steps) for k, v in enumerate(row)] for row in table]
    return [sum(bool(h(c)) != bool(label) for c, label in zip(cells, y, strict=True)) for h in _hypotheses(given)]


@pytest.mark.parametrize("given", CLASSES, ids=repr)
@pytest.mark.parametrize("rows", [0, 1, 257])
def test_errors_are_those_of_a_double_loop(kernel, given, rows):
    assert kernel
    table, y = _data(given, rows)
    expected = _by_hand(given, table, y)
    assert len(expected) == given.size
    for layout in (table, np.asfortranarray(table), np.repeat(table, 2, axis=1)[:, ::2], table[::-1][::-1]):
        counts = given.error_counts(layout, y)
        assert counts.dtype == np.int64
        assert counts.tolist() == expected
    some = range(0, given.size, max(1, given.size // 40))
    assert [int((given.evaluate(table, index) != y).sum()) for index in some] == [expected[index] for index in some]


@pytest.mark.parametrize("given", CLASSES, ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float16", "longdouble", ">f8", "int64", "int8", "uint8", "uint64", "bool"])
def test_numbers_of_every_type_have_the_cell_of_their_value(kernel, given, dtype):
    assert kernel
    table, y = _data(given, 300, seed=1)
    with np.errstate(all="ignore"):
        typed = (table if np.dtype(dtype).kind == "f" else np.random.default_rng(2).integers(0, 4, table.shape)).astype(
            dtype
        )
    expected = given.error_counts(typed.astype(np.float64), y).tolist()
    assert expected == _by_hand(given, typed, y)
    for layout in (typed, np.asfortranarray(typed)):
        assert given.error_counts(layout, y).tolist() == expected


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_number_has_one_cell_also_at_the_edges(kernel, grid, dtype):
    assert kernel
    low, high, steps = grid
    with np.errstate(all="ignore"):
        values = _wild(np.random.default_rng(3), low, high, steps, 3000).astype(dtype)
        values = np.concatenate([values, *(np.nextafter(values, values.dtype.type(way)) for way in (-np.inf, np.inf))])
    expected = [_cell(float(value), *grid) for value in values]
    assert grid_of(*grid).cells(values).tolist() == expected
    totals = np.zeros(steps + 2, dtype=np.int64)
    Thresholds(low, high, steps=steps).add_rows(values[:, np.newaxis], np.ones(values.size, dtype=np.bool_), totals)
    assert totals.tolist() == [*np.bincount(expected, minlength=steps).tolist(), 0, values.size]


def test_the_ways_to_find_cells_are_all_in_use():
    ways = [grids._find_terms((grid_of(*grid),), 1, 8)[-1] for grid in (FLOOR, SUM, QUOTIENT)]
    assert ways == [grids.FLOOR, grids.SUM, grids.QUOTIENT]
    assert grids._find_terms((grid_of(*FLOOR), grid_of(0.0, 1.0, 16)), 1, 8)[-1] == grids.FLOOR
    mixed = grid_of(0.0, 1.0, 7), grid_of(*QUOTIENT)
    assert grids._find_terms(mixed, 2, 8)[-1] == grids.QUOTIENT
    assert grids._find_terms((grid_of(0.0, 1.0, 100),), 1, 4)[-1] == grids.FLOOR


def test_a_product_alone_would_put_numbers_into_the_wrong_cell():
    """The fault that comparing with the edges is there for: floor of the product, taken without a check."""
    low, high, steps = SUM[0], SUM[1], 100
    grid = grid_of(low, high, steps)
    below = np.nextafter(grid.edges(), -np.inf)
    assert np.any(np.floor((below - low) * grid.rate).clip(0) != grid.cells(below))
    assert grids._floor_rate(grid, np.float64) == 0.0


@pytest.mark.parametrize("columns", [1, 9])
@pytest.mark.parametrize("dtype", ["float64", "uint8"])
def test_many_equal_rows_do_not_overflow(kernel, columns, dtype):
    assert kernel
    rows = 3 * 2**16 + 5
    table, y = np.ones((rows, columns), dtype=dtype), np.ones(rows, dtype=np.int64)
    counts = Stumps(bounds=(0, 2), steps=2).error_counts(table, y).reshape(columns, 2, 2)
    assert counts.tolist() == [[[0, rows], [0, rows]]] * columns


@pytest.mark.parametrize("steps", [2048, 2049, 5000])
@pytest.mark.parametrize("columns", [1, 9])
def test_short_and_long_counts_are_the_same(kernel, steps, columns):
    assert kernel
    rng = np.random.default_rng(steps)
    table, y = rng.random((1500, columns)), rng.random(1500) < 0.3
    given = Stumps(bounds=(0, 1), steps=steps)
    counts = given.error_counts(table, y)
    cells = np.stack([grid_of(0.0, 1.0, steps).cells(column) for column in table.T], axis=1)
    for index in (0, 1, 2, 7, 2 * steps - 2, 2 * columns * steps - 1):
        column, number = divmod(index // 2, steps)
        said = (cells[:, column] >= number) ^ bool(index % 2)
        assert counts[index] == int((said != y).sum())
        assert np.array_equal(given.evaluate(table, index), said)


class FromTheRows:
    """A planted fault: thresholds between the least and the largest number of the rows themselves."""

    size = 5

    def error_counts(self, table, y):
        return Thresholds(float(np.nanmin(table)), float(np.nanmax(table)), steps=5).error_counts(table, y)


def _most_moved(given, table, y, *, times, rng):
    """Return the most that any count moves when one row is replaced, by rows that try hard."""
    before, most = given.error_counts(table, y), 0
    for _ in range(times):
        row = rng.integers(len(table))
        moved, labels = table.copy(), y.copy()
        moved[row] = rng.choice([-1e6, -1.0, 0.0, 0.1, 0.5, 0.8, 1.0, 1e6, np.nan, rng.random()], table.shape[1])
        labels[row] = rng.random() < 0.5
        most = max(most, int(np.abs(given.error_counts(moved, labels) - before).max()))
    return most


@pytest.mark.parametrize("given", CLASSES, ids=repr)
def test_neighbouring_rows_move_every_count_by_at_most_one(kernel, given):
    assert kernel
    rng = np.random.default_rng(7)
    table, y = rng.random((60, given.width)), rng.random(60) < 0.5
    assert _most_moved(given, table, y, times=60, rng=rng) == 1


def test_a_grid_from_the_rows_moves_counts_by_more():
    rng = np.random.default_rng(7)
    table, y = rng.random((60, 1)), rng.random(60) < 0.5
    assert _most_moved(FromTheRows(), table, y, times=60, rng=rng) > 1


@pytest.mark.parametrize(
    ("make", "parameter"),
    [
        (lambda table: Stumps(bounds=table, steps=4), "bounds"),
        (lambda table: Stumps(bounds=table.tolist(), steps=4), "bounds"),
        (lambda table: Stumps(bounds={"a": table[:, 0], "b": table[:, 1]}, steps=4), "bounds"),
        (lambda _: Stumps(bounds={0: (0, 1)}, steps=4), "bounds"),
        (lambda _: Stumps(bounds=None, steps=4), "bounds"),
        (lambda _: Stumps(bounds=[], steps=4), "bounds"),
        (lambda _: Stumps(bounds={}, steps=4), "bounds"),
        (lambda _: Stumps(bounds="auto", steps=4), "bounds"),
        (lambda _: Stumps(bounds=(True, False), steps=4), "bounds"),
        (lambda _: Stumps(bounds=(0, math.inf), steps=4), "bounds"),
        (lambda table: Rectangles(bounds=table, steps=4), "bounds"),
        (lambda table: Thresholds(table.min(axis=0), table.max(axis=0), steps=4), "bounds"),
        (lambda _: Thresholds(None, None, steps=4), "bounds"),
        (lambda _: Intervals(0, math.nan, steps=4), "bounds"),
        (lambda _: Thresholds(0, 1, steps=None), "steps"),
        (lambda table: Thresholds(0, 1, steps=table[:, 0]), "steps"),
        (lambda _: Stumps(bounds=(0, 1), steps=0), "steps"),
        (lambda _: Stumps(bounds=(0, 1), steps=2.0), "steps"),
        (lambda _: Stumps(bounds=(0, 1), steps=True), "steps"),
    ],
)
def test_a_grid_taken_from_the_data_is_refused_with_the_reason(make, parameter):
    table = np.full((4, 3), 0.123456)
    with pytest.raises(InvalidParameter, match="chosen before and without the rows") as refusal:
        make(table)
    assert refusal.value.parameter == parameter
    assert "write" in str(refusal.value)
    assert "0.123456" not in str(refusal.value)


@pytest.mark.parametrize("pair", [(1, 1), (2, 1), (1.0, -1.0)])
def test_ends_that_are_not_in_order_are_refused(pair):
    for make in (lambda: Thresholds(*pair, steps=3), lambda: Stumps(bounds=[pair], steps=3)):
        with pytest.raises(InvalidParameter, match="low below high"):
            make()


@pytest.mark.parametrize(
    ("low", "high", "steps"),
    [(1, 1 + 2**-52, 2), (-1e308, 1e308, 4), (0, 1.7e308, 200), (1e16, 1e16 + 20, 20), (0, 5e-324, 3), (0, 2e-322, 8)],
)
def test_steps_that_float64_cannot_tell_apart_are_refused(low, high, steps):
    with pytest.raises(InvalidParameter, match="to tell the edges"):
        Thresholds(low, high, steps=steps)


def test_two_columns_make_a_rectangle():
    for bounds in ((0, 1), [(0, 1)], [(0, 1)] * 3):
        with pytest.raises(InvalidParameter, match="two columns"):
            Rectangles(bounds=bounds, steps=3)


def test_size_waits_for_the_number_of_columns():
    waiting = Stumps(bounds=(0, 1), steps=10)
    assert waiting.width is None
    for ask in (lambda: waiting.size, waiting.make_totals, lambda: waiting.describe(0)):
        with pytest.raises(NotCertified, match=r"call over\(columns\)"):
            ask()
    assert waiting.over(3).size == 60
    named = waiting.over(["a", "b"])
    assert (named.size, named.columns, named.over(7)) == (40, ("a", "b"), named)
    table = np.random.default_rng(0).random((20, 3))
    assert waiting.error_counts(table, table[:, 0] > 0.5).size == 60
    assert waiting.evaluate(table, 59).tolist() == (table[:, 2] < 0.9).tolist()
    assert waiting.evaluate(table[0], 59).tolist() == [table[0, 2] < 0.9]
    for columns in (0, [], ["a", "a"], "ab", True, [1, 2]):
        with pytest.raises(InvalidParameter, match="columns"):
            waiting.over(columns)


def test_columns_are_found_by_name():
    frame = {"z": [9.0, 9.0, 9.0], "bmi": [20.0, 30.0, math.nan], "age": [70, 20, 40]}
    given = Stumps(bounds={"age": (0, 120), "bmi": (10, 60)}, steps=12)
    stacked = np.array([frame["age"], frame["bmi"]], dtype=np.float64).T
    y = [1, 0, 0]
    assert given.error_counts(frame, y).tolist() == given.error_counts(stacked, y).tolist() == _by_hand(given, stacked, y)
    assert given.evaluate({"age": 70, "bmi": 20}, 2 * 7).tolist() == [True]
    assert Thresholds(0, 120, steps=12, column="age").evaluate(frame, 5).tolist() == [True, False, False]
    with pytest.raises(UnknownColumn, match="'age'"):
        given.error_counts({"bmi": [1.0]}, [1])
    with pytest.raises(InvalidParameter, match="2 columns age, bmi"):
        given.evaluate(np.zeros((3, 5)), 0)
    with pytest.raises(InvalidParameter, match="the class has 1"):
        Thresholds(0, 1, steps=2).evaluate(np.zeros((3, 5)), 0)


@pytest.mark.parametrize(
    ("given", "index", "words"),
    [
        (Thresholds(0, 120, steps=240, column="age"), 105, "age ≥ 52.5 → 1"),
        (Thresholds(0, 1, steps=10), 3, "x0 ≥ 0.3 → 1"),
        (Stumps(bounds={"age": (0, 120), "bmi": (10, 60)}, steps=10), 0, "age ≥ 0 → 1"),
        (Stumps(bounds={"age": (0, 120), "bmi": (10, 60)}, steps=10), 39, "bmi < 55 → 1"),
        (Stumps(bounds=[(0, 1)] * 3, steps=2), 11, "x2 < 0.5 → 1"),
        (Intervals(0, 4, steps=4), 0, "0 ≤ x0 < 1 → 1"),
        (Intervals(0, 4, steps=4), 3, "x0 ≥ 0 → 1"),
        (Intervals(0, 4, steps=4), 9, "x0 ≥ 3 → 1"),
        (Intervals(0, 4, steps=4), 10, "no row → 1"),
        (Rectangles(bounds={"age": (0, 2), "bmi": (10, 60)}, steps=2), 3, "age ≥ 0 and 10 ≤ bmi < 35 → 1"),
        (Rectangles(bounds=[(0, 2), (0, 2)], steps=2), 9, "no row → 1"),
    ],
)
def test_hypotheses_in_words(given, index, words):
    assert given.describe(index) == words
    for wrong in (-1, given.size, 1.0, True, "0"):
        with pytest.raises(InvalidParameter, match="index"):
            given.describe(wrong)


@pytest.mark.parametrize("steps", [1, 2, 3, 17, 1000])
def test_ends_of_intervals_follow_the_order(steps):
    expected = [(i, j) for i in range(min(steps, 20)) for j in range(i + 1, steps + 1)]
    assert [_find_ends(index, steps) for index in range(len(expected))] == expected
    assert _find_ends(_count_pairs(steps) - 1, steps) == (steps - 1, steps)
    assert _find_ends(_count_pairs(steps), steps) == (0, 0)


@pytest.mark.parametrize(
    "given", [*CLASSES, Stumps(bounds=(0, 1), steps=3), Stumps(bounds={"b": (0, 1), "a": (0, 2)}, steps=3)]
)
def test_what_a_class_is_made_of_reads_back_equal(given):
    document = json.loads(encode(given.document))
    again = read_class(document)
    assert (again, hash(again), again.columns) == (given, hash(given), given.columns)
    assert eval(repr(given)) == given  # noqa: S307 - our own text
    for broken in (
        {**document, "more": 1},
        {k: v for k, v in document.items() if k != "steps"},
        {**document, "class": "lists"},
        [],
    ):
        with pytest.raises(InvalidParameter, match=r"(more|steps|class|document) must be"):
            read_class(broken)


@pytest.mark.parametrize("columns", [["a"], ["a", "a"], "ab", ["a", "b", "c"], [["a"], "b"]])
def test_columns_that_do_not_fit_the_bounds_are_refused(columns):
    document = {"class": "stumps", "columns": columns, "bounds": [[0, 1], [0, 1]], "steps": 3}
    with pytest.raises(InvalidParameter, match=r"columns|bounds"):
        read_class(document)
    with pytest.raises(InvalidParameter, match="column"):
        Thresholds(0, 1, steps=2, column=3)


@pytest.mark.parametrize(
    ("make", "needed"),
    [
        (lambda: Thresholds(0, 1, steps=2**40), 8 * 2**40),
        (lambda: Intervals(0, 1, steps=50_000), 8 * (50_000 + 50_000 * 50_001 // 2 + 1)),
        (lambda: Rectangles(bounds=[(0, 1)] * 2, steps=300), 8 * (300**2 + (300 * 301 // 2) ** 2 + 1)),
        (lambda: Stumps(bounds=[(0, 1)] * 200, steps=2**20), 24 * 200 * 2**20),
    ],
)
def test_more_than_memory_holds_is_refused_before_anything_is_started(make, needed):
    with pytest.raises(InvalidParameter, match=f"{needed:,} bytes, and the limit is {classes.MOST_BYTES:,}"):
        make().make_totals()


def test_a_class_too_large_to_count_still_evaluates_and_describes():
    given = Intervals(0, 1, steps=50_000)
    assert given.describe(given.size - 2) == "x0 ≥ 0.99998 → 1"
    assert given.evaluate([[0.99999], [0.5]], given.size - 2).tolist() == [True, False]


def test_labels_are_zero_and_one():
    table = np.zeros((3, 1))
    for y in ([0, 1, 2], [0.5, 0, 1], ["a", "b", "c"], [0, 1]):
        with pytest.raises(InvalidParameter, match="label"):
            Thresholds(0, 1, steps=2).error_counts(table, y)


def test_small_tables_never_wait_for_numba(monkeypatch):
    monkeypatch.setattr(grids.compiled, "_settled", False)
    monkeypatch.setattr(grids.compiled, "_module", None)
    monkeypatch.setattr(grids.compiled, "_work", 0)
    Thresholds(0, 1, steps=10).error_counts(np.zeros((100, 1)), np.zeros(100))
    assert not grids.compiled._settled
    assert grids.compiled(1 << 40) is grids_compiled
    assert grids.compiled._settled
