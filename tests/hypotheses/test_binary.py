"""Classes over yes-or-no columns: the counts of a naive double loop, whatever the numbers, the layout and the kernels."""

import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest

from holdtrue.codec import encode
from holdtrue.errors import InvalidParameter, UnknownColumn
from holdtrue.hypotheses import Conjunctions, DecisionLists, Disjunctions, Parities, Trees, classes, read_class
from holdtrue.kernels import column_sets, column_sets_compiled
from holdtrue.kernels.column_sets import (
    _pack_rows,
    add_totals,
    columns_by_label,
    count_sets,
    find_set,
    iterate_cells,
    list_sets,
    transform_to_errors,
)

CLASSES = [
    Conjunctions(5, width=3),
    Conjunctions(5, width=5),
    Conjunctions(2, width=3),
    Disjunctions(5, width=3),
    Parities(5),
    Parities(8, width=1),
    Parities(5, width=3),
    DecisionLists(4, length=3),
    DecisionLists(1, length=2),
    Trees(5),
    Trees(5, depth=1),
    Trees(1),
]


@pytest.fixture(params=["numba", "numpy"])
def kernel(request, monkeypatch):
    monkeypatch.setattr(column_sets.compiled, "_settled", True)
    monkeypatch.setattr(column_sets.compiled, "_module", column_sets_compiled if request.param == "numba" else None)
    return request.param


def _rows(count, columns, *, seed=0):
    """Rows with every kind of yes and no: negative, huge and tiny numbers, both zeros, and missing ones."""
    rng = np.random.default_rng(seed)
    kinds = [0.0, -0.0, np.nan, 1.0, -3.5, np.inf, -np.inf, 5e-324, 1e300, 0.0, 1.0]
    return rng.choice(kinds, (count, columns)), rng.random(count) < 0.4


def _said(sentence, cells):
    """Read a sentence aloud: the label that it gives to one row of yes and no."""

    def literal(text):
        name = text.removeprefix("NOT ")
        return int(name) if name in "01" else int(cells[int(name[1:])]) ^ text.startswith("NOT ")

    if sentence.startswith("ALWAYS "):
        return int(sentence[-1])
    if sentence.startswith("IF "):
        condition, _, rest = sentence[3:].partition(" THEN ")
        label, _, rest = rest.partition(" ELSE ")
        return literal(label) if literal(condition) else _said(rest, cells) if rest.startswith("IF ") else literal(rest)
    formula = sentence.removesuffix(" → 1")
    for word, joined in (("AND", all), ("OR", any), ("XOR", lambda truths: sum(truths) % 2)):
        if f" {word} " in formula:
            return int(joined([literal(part) for part in formula.split(f" {word} ")]))
    return literal(formula)


@pytest.mark.parametrize("hypotheses", CLASSES, ids=repr)
@pytest.mark.parametrize("rows", [0, 1, 70])
def test_counts_are_those_of_a_naive_double_loop(kernel, hypotheses, rows):
    assert kernel
    matrix, y = _rows(rows, hypotheses.width, seed=rows)
    counts = hypotheses.error_counts(matrix, y)
    assert counts.dtype == np.int64
    assert counts.shape == (hypotheses.size,)
    flags = [[value != 0 and not math.isnan(value) for value in row] for row in matrix.tolist()]
    for index in range(hypotheses.size):
        sentence = hypotheses.describe(index)
        labels = [_said(sentence, cells) for cells in flags]
        assert hypotheses.evaluate(matrix, index).tolist() == [label == 1 for label in labels]
        assert counts[index] == sum(label != truth for label, truth in zip(labels, y, strict=True)), sentence


def _tables(hypotheses):
    """Return each hypothesis as what it says to every row there can be."""
    rows = np.array(list(itertools.product([0, 1], repeat=hypotheses.width)))
    return [hypotheses.evaluate(rows, index).tobytes() for index in range(hypotheses.size)]


@pytest.mark.parametrize("hypotheses", [kind for kind in CLASSES if not isinstance(kind, Trees)], ids=repr)
def test_no_function_is_there_twice(hypotheses):
    tables = _tables(hypotheses)
    assert len(set(tables)) == len(tables) == hypotheses.size


def test_every_list_is_there():
    rows = np.array(list(itertools.product([False, True], repeat=4)))
    literals = [(rows[:, column] == wanted, column) for column in range(4) for wanted in (False, True)]
    found = set()
    for length in range(4):
        for chosen in itertools.permutations(literals, length):
            for labels in itertools.product([False, True], repeat=length + 1):
                table = np.full(len(rows), labels[-1])
                for (applies, _), label in reversed(list(zip(chosen, labels, strict=False))):
                    table[applies] = label
                if len({column for _, column in chosen}) == length:
                    found.add(table.tobytes())
    assert found == set(_tables(DecisionLists(4, length=3)))


def test_every_tree_is_there():
    rows = np.array(list(itertools.product([False, True], repeat=3)))
    sides = [np.zeros(8, dtype=bool), np.ones(8, dtype=bool), *rows.T, *~rows.T]
    found = {np.where(root, left, right).tobytes() for root in rows.T for left in sides for right in sides}
    assert found == set(_tables(Trees(3)))


def test_sizes_are_those_of_the_formulas():
    assert Conjunctions(64, width=3).size == Disjunctions(64, width=3).size == 341_504
    assert Conjunctions(3, width=7).size == 3**3 - 1
    assert Parities(20).size == 2**20
    assert Parities(100).size == 2**100
    assert Parities(64, width=3).size == 1 + 64 + 2016 + 41_664
    assert DecisionLists(64, length=3).size == 2 + 2 * 64 + 8 * 2016 + 64 * 41_664
    assert Trees(64).size == 64 * 128**2
    assert Trees(64, depth=1).size == 4 * 64


def test_hypotheses_keep_their_numbers():
    names = ["smoker", "retired", "insured"]
    some = Conjunctions(names, width=2)
    assert [some.describe(index) for index in (0, 3, 6, 7, 8, 9, 17)] == [
        "smoker → 1",
        "NOT smoker → 1",
        "smoker AND retired → 1",
        "smoker AND insured → 1",
        "retired AND insured → 1",
        "NOT smoker AND retired → 1",
        "NOT retired AND NOT insured → 1",
    ]
    assert Disjunctions(names, width=2).describe(12) == "smoker OR NOT retired → 1"
    assert [Parities(names).describe(index) for index in (0, 5)] == ["ALWAYS 0", "smoker XOR insured → 1"]
    assert Parities(100).describe(2**99 + 1) == "x0 XOR x99 → 1"
    assert Parities(100).evaluate(np.eye(100)[[0, 1, 99]], 2**99 + 1).tolist() == [True, False, True]
    assert Conjunctions(100, width=100).evaluate(np.ones((1, 100)), Conjunctions(100, width=99).size).tolist() == [True]
    assert Parities(names, width=2).describe(4) == "smoker XOR retired → 1"
    lists = DecisionLists(names, length=2)
    assert [lists.describe(index) for index in (0, 1, 2)] == ["ALWAYS 0", "ALWAYS 1", "IF smoker THEN 0 ELSE 1"]
    assert lists.describe(8) == "IF smoker THEN 0 ELSE IF retired THEN 0 ELSE 1"
    assert Trees(names).describe(36 * 1 + 6 * 4 + 3) == "IF retired THEN insured ELSE NOT smoker"


class _Twice(Conjunctions):
    """A planted fault: the first row counts twice."""

    kind = "twice"

    def add_rows(self, matrix, y, totals):
        super().add_rows(matrix, y, totals)
        super().add_rows(matrix[:1], y[:1], totals)


class _Paired(Parities):
    """A planted fault: what a row says depends on the row before it."""

    kind = "paired"

    def add_rows(self, matrix, y, totals):
        said = np.nan_to_num(matrix) != 0
        super().add_rows(said ^ np.roll(said, 1, axis=0), y, totals)


def _largest_move(hypotheses, *, seed):
    matrix, y = _rows(40, hypotheses.width, seed=seed)
    rng = np.random.default_rng(seed)
    before = hypotheses.error_counts(matrix, y)
    largest = 0
    for _ in range(20):
        row = int(rng.choice([0, 0, rng.integers(40)]))
        other, labels = matrix.copy(), y.copy()
        other[row], labels[row] = _rows(1, hypotheses.width, seed=rng.integers(2**32))[0][0], rng.random() < 0.5
        largest = max(largest, int(np.abs(hypotheses.error_counts(other, labels) - before).max()))
    return largest


@pytest.mark.parametrize("hypotheses", CLASSES, ids=repr)
def test_replacing_one_row_moves_each_count_by_at_most_one(hypotheses):
    assert _largest_move(hypotheses, seed=hypotheses.size) <= 1


@pytest.mark.parametrize("faulty", [_Twice(5, width=2), _Paired(5)], ids=["twice", "paired"])
def test_a_planted_fault_moves_a_count_by_more_than_one(faulty):
    assert _largest_move(faulty, seed=5) > 1


@pytest.mark.parametrize("kind", ["?", "u1", "i1", "u2", "i4", "i8", "f2", "f4", "f8", ">f8", ">i4", "g"])
@pytest.mark.parametrize("layout", ["rows", "columns", "gaps", "slice", "backwards", "same"])
def test_types_and_layouts_do_not_matter(kernel, kind, layout):
    assert kernel
    rng = np.random.default_rng(7)
    for rows, columns in ((1100, 3), (700, 64), (520, 70)):
        held = rng.choice([0, 0, 1, 2], (rows, 2 * columns)).astype(kind)
        if held.dtype.kind == "f":
            held[rng.random(held.shape) < 0.1] = np.nan
        matrix = {
            "rows": lambda held: np.ascontiguousarray(held[:, ::2]),
            "columns": lambda held: np.asfortranarray(held[:, ::2]),
            "gaps": lambda held: held[:, ::2],
            "slice": lambda held: np.asfortranarray(held)[5:-3, 1 : 1 + held.shape[1] // 2],
            "backwards": lambda held: held[::-1, : held.shape[1] // 2],
            "same": lambda held: np.broadcast_to(held[3, : held.shape[1] // 2], (held.shape[0], held.shape[1] // 2)),
        }[layout](held)
        y = rng.random(len(matrix)) < 0.3
        flags = np.array([[value != 0 and not math.isnan(value) for value in row] for row in matrix.tolist()])
        words = _pack_rows(matrix)
        bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").view(bool)
        assert np.array_equal(bits[:, :columns], flags)
        assert not bits[:, columns:].any()
        packed, split = columns_by_label(matrix, y)
        for part, wanted in ((packed[:columns, :split], ~y), (packed[:columns, split:], y)):
            bits = np.unpackbits(np.ascontiguousarray(part).view(np.uint8), axis=1, bitorder="little").view(bool)
            assert np.array_equal(bits[:, : wanted.sum()], flags[wanted].T)
            assert not bits[:, wanted.sum() :].any()


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (1, 64), (1, 65), (3, 200), (64, 1), (513, 63)])
def test_words_are_read_from_no_further_than_the_matrix(kernel, shape):
    assert kernel
    # A sub-matrix at the very end of its memory: cells beyond it would be read as yes, or not be there at all.
    rng = np.random.default_rng(shape[0])
    matrix = rng.integers(0, 2, shape).astype(np.float32)
    bits = np.unpackbits(_pack_rows(matrix).view(np.uint8), axis=1, bitorder="little").view(bool)
    assert np.array_equal(bits[:, : shape[1]], matrix == 1)
    assert not bits[:, shape[1] :].any()


@pytest.mark.parametrize("columns", [3, 64, 70, 131])
def test_totals_of_sets_are_those_of_flags(kernel, columns):
    assert kernel
    rng = np.random.default_rng(columns)
    matrix, y = rng.random((900, columns)) < 0.6, rng.random(900) < 0.5
    most = 4 if columns == 3 else 3
    totals = np.zeros(count_sets(columns, most=most), dtype=np.int64)
    add_totals(matrix, y, most=most, totals=totals)
    signs = 1 - 2 * y.astype(np.int64)
    position = 0
    for size in range(most + 1):
        lines = list_sets(columns, size)
        for rank in rng.integers(len(lines), size=60) if len(lines) else ():
            assert find_set(int(rank), size) == tuple(lines[rank])
            assert totals[position + rank] == signs[matrix[:, lines[rank]].all(axis=1)].sum()
        position += len(lines)


def test_cells_of_sets_partition_the_rows(kernel):
    assert kernel
    rng = np.random.default_rng(11)
    matrix, y = rng.random((300, 6)) < 0.6, rng.random(300) < 0.5
    totals = np.zeros(count_sets(6, most=4), dtype=np.int64)
    add_totals(matrix, y, most=4, totals=totals)
    signs = 1 - 2 * y.astype(np.int64)
    for size, cells in enumerate(iterate_cells(totals, 6, most=4)):
        assert (cells.sum(axis=0) == totals[0]).all()
        for rank, chosen in enumerate(list_sets(6, size)):
            numbers = (
                (~matrix[:, chosen]).astype(np.int64) @ (1 << np.arange(size)) if size else np.zeros(300, dtype=np.int64)
            )
            assert cells[:, rank].tolist() == [int(signs[numbers == cell].sum()) for cell in range(1 << size)]


def test_rows_may_come_in_any_pieces_and_threads():
    rng = np.random.default_rng(12)
    matrix, y = rng.random((140_000, 9)) < 0.5, rng.random(140_000) < 0.5
    for hypotheses in (Conjunctions(9, width=3), Parities(9), Trees(9), DecisionLists(9, length=2)):
        totals = hypotheses.make_totals()
        for part in np.array_split(rng.permutation(140_000), [0, 1, 64, 5000, 100_000]):
            hypotheses.add_rows(matrix[part], y[part], totals)
        assert np.array_equal(hypotheses.count_errors(totals), hypotheses.error_counts(matrix, y))


@pytest.mark.parametrize("columns", [11, 12, 13, 14, 15])
def test_all_parities_by_transform_are_those_counted_one_by_one(kernel, columns):
    assert kernel
    rng = np.random.default_rng(columns)
    matrix, y = rng.random((500, columns)) < 0.5, rng.random(500) < 0.5
    counts = Parities(columns).error_counts(matrix, y)
    for index in [0, 1, 2**columns - 1, *rng.integers(2**columns, size=200).tolist()]:
        chosen = [column for column in range(columns) if index >> column & 1]
        assert counts[index] == ((matrix[:, chosen].sum(axis=1) % 2 == 1) != y).sum()
    limited = Parities(columns, width=3)
    assert limited._whole is (2**columns <= 32 * limited.size)
    for index, count in enumerate(limited.error_counts(matrix, y)):
        assert count == counts[sum(1 << column for column in limited._find_subset(index)[0])]


def test_parities_of_more_rows_than_32_bits_hold(kernel):
    assert kernel
    cells = np.zeros(1 << 12, dtype=np.int64)
    cells[[0, 5, 4095]] = 2**40, -(2**33), 2**31 + 7
    rows = int(np.abs(cells).sum())
    errors = transform_to_errors(cells, rows)
    signs = 1 - 2 * (np.bitwise_count(np.arange(1 << 12)[:, np.newaxis] & np.array([0, 5, 4095])) % 2).astype(np.int64)
    assert np.array_equal(errors, (rows - signs @ cells[[0, 5, 4095]]) // 2)


def test_small_inputs_never_wait_for_numba(monkeypatch):
    monkeypatch.setattr(column_sets.compiled, "_settled", False)
    monkeypatch.setattr(column_sets.compiled, "_module", None)
    monkeypatch.setattr(column_sets.compiled, "_work", 0)
    matrix, y = _rows(1000, 10)
    Conjunctions(10, width=3).error_counts(matrix, y)
    Parities(10).error_counts(matrix, y)
    assert not column_sets.compiled._settled
    monkeypatch.setattr(column_sets.compiled, "_work", 1 << 40)
    assert column_sets.compiled(1) is column_sets_compiled
    assert column_sets.compiled._settled


def test_columns_are_found_by_name():
    frame = pd.DataFrame({"b": [0.0, 1.0, np.nan], "other": ["u", "v", "w"], "a": [2, 0, 1]})
    some = Conjunctions(["a", "b"], width=2)
    assert some.columns == ("a", "b")
    assert some.width == 2
    assert some.over(["a", "b"]) is some
    index = next(index for index in range(some.size) if some.describe(index) == "a AND NOT b → 1")
    assert some.evaluate(frame, index).tolist() == [True, False, True]
    assert some.evaluate({"b": 0, "a": True}, index).tolist() == [True]
    assert some.error_counts(frame, [1, 1, 1])[index] == 1
    with pytest.raises(UnknownColumn, match="no column 'b'"):
        some.error_counts(frame[["a"]], [1, 1, 1])


@pytest.mark.parametrize("hypotheses", [*CLASSES, Conjunctions(["a", "b"], width=1), Trees(("a", "b"))], ids=repr)
def test_json_reads_back_equal(hypotheses):
    document = json.loads(encode(hypotheses.document))
    assert document["class"] == hypotheses.kind == type(hypotheses).__name__.lower()
    back = read_class(document)
    assert back == hypotheses
    assert hash(back) == hash(hypotheses)
    assert eval(repr(hypotheses), globals()) == hypotheses  # noqa: S307 - our own text
    for wrong in (document | {"more": 1}, document | {"class": "stumps"}, {"class": hypotheses.kind}):
        with pytest.raises(InvalidParameter, match=r"(more|columns|bounds|width|depth|length) must be"):
            read_class(wrong)


def test_classes_of_one_shape_are_not_equal():
    assert Conjunctions(4, width=2) != Disjunctions(4, width=2)
    assert Parities(4) != Parities(4, width=4)
    with pytest.raises(AttributeError):
        Conjunctions(4, width=2)._limit = 3


@pytest.mark.parametrize("columns", [0, -1, True, 2.0, None, [], ["a", "a"], ["a", ""], [1, 2], "ab"])
def test_columns_are_a_number_or_distinct_names(columns):
    for kind, limit in (
        (Conjunctions, "width"),
        (Disjunctions, "width"),
        (Parities, "width"),
        (DecisionLists, "length"),
        (Trees, "depth"),
    ):
        with pytest.raises(InvalidParameter, match="columns must be"):
            kind(columns, **{limit: 1})


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3"])
def test_limits_are_whole_numbers_above_zero(value):
    for kind, limit in (
        (Conjunctions, "width"),
        (Disjunctions, "width"),
        (Parities, "width"),
        (DecisionLists, "length"),
        (Trees, "depth"),
    ):
        with pytest.raises(InvalidParameter, match=f"{limit} must be"):
            kind(3, **{limit: value})


def test_lists_and_trees_stop_where_their_counts_do():
    with pytest.raises(InvalidParameter, match="at most 3 rules"):
        DecisionLists(9, length=4)
    with pytest.raises(InvalidParameter, match="depth must be 1 or 2; got 3"):
        Trees(9, depth=3)


@pytest.mark.parametrize(
    "hypotheses",
    [Parities(28), Parities(100), Parities(20_000), Conjunctions(1000, width=3), Trees(600), DecisionLists(400, length=3)],
    ids=repr,
)
def test_a_class_beyond_memory_says_how_much_it_needs_before_it_starts(hypotheses):
    with pytest.raises(InvalidParameter, match=r"takes .* bytes, and the limit is 4,294,967,296") as caught:
        hypotheses.error_counts(np.zeros((2, hypotheses.width), dtype=np.int8), [0, 1])
    assert classes.MOST_BYTES < hypotheses.footprint.size >= 8 * hypotheses.size
    said = f"{hypotheses.footprint.size:,}" if hypotheses.size < 1 << 50 else "more than 2^"
    assert f"takes {said}" in str(caught.value)


def test_no_more_memory_is_asked_for_than_is_needed():
    assert Parities(27).make_totals().nbytes == 8 * (2**27 + 1)
    assert Trees(500).make_totals().nbytes == 8 * (1 + 500 + 500 * 499 // 2 + 1)


def test_a_class_just_within_memory_is_counted(monkeypatch):
    some = Conjunctions(6, width=2)
    need = 16 * (1 + 6 + 15 + 1) + 16 * some.size
    matrix, y = _rows(20, 6)
    monkeypatch.setattr(classes, "MOST_BYTES", need)
    assert some.error_counts(matrix, y).size == some.size
    monkeypatch.setattr(classes, "MOST_BYTES", need - 1)
    with pytest.raises(InvalidParameter, match=f"takes {need:,} bytes"):
        some.error_counts(matrix, y)


@pytest.mark.parametrize("index", [-1, 72, 1.0, True, None])
def test_there_is_no_hypothesis_of_another_number(index):
    some = Conjunctions(["a", "b", "c", "d"], width=2)
    assert some.size == 32
    for look in (some.describe, lambda number: some.evaluate([[1, 0, 1, 0]], number)):
        with pytest.raises(InvalidParameter, match="index must be a whole number from 0 to 31"):
            look(index)


def test_refusals_show_no_cell():
    some = Parities(2)
    for matrix, y in (([[7.25, 0.0]], [3]), ([[7.25, 0.0, 1.0]], [1]), ([["7.25", "x"]], [1]), ([[7.25, 0.0]], [1, 0])):
        with pytest.raises(InvalidParameter) as caught:
            some.error_counts(matrix, y)
        assert "7.25" not in str(caught.value)
    with pytest.raises(InvalidParameter, match="the class has 2"):
        some.evaluate([[7.25, 0.0, 1.0]], 0)


def test_counts_stay_between_zero_and_all_rows():
    matrix, y = _rows(333, 7)
    for hypotheses in (Conjunctions(7, width=3), DecisionLists(7, length=3), Parities(7), Trees(7)):
        counts = hypotheses.error_counts(matrix, y)
        assert 0 <= counts.min() <= counts.max() <= 333
    one, other = (kind(7, width=3).error_counts(matrix, y) for kind in (Conjunctions, Disjunctions))
    assert np.array_equal(one[:14], other[:14])
    assert not np.array_equal(one, other)
