"""Hypotheses that someone brings: labels of rows alone, and not a word about any of them."""

import functools
import sys
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from holdtrue.errors import InvalidParameter, RequestError, UnknownColumn
from holdtrue.hypotheses import Stumps, Union, classes, read_class
from holdtrue.hypotheses.custom import Hypotheses

SECRET = 77.125


def positive(rows):
    return rows[:, 0] > 0


def _table(rows, *, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 3)), rng.random(rows) < 0.5


def _fitted():
    table, _ = _table(200, seed=9)
    y = table[:, 0] + 0.2 * table[:, 1] > 0
    return [model.fit(table, y.astype(int)) for model in (LogisticRegression(), DecisionTreeClassifier(max_depth=2))]


@pytest.mark.parametrize("chunk", [1, 7, 1 << 16])
def test_counts_are_those_of_a_double_loop(monkeypatch, chunk):
    monkeypatch.setattr(classes, "_CHUNK", chunk)
    table, y = _table(60)
    brought = Hypotheses([positive, lambda rows: (rows[:, 1] > rows[:, 2]).astype(float), *_fitted()])
    expected = []
    for index, item in enumerate(brought.items):
        label = getattr(item, "predict", item)
        alone = [bool(label(table[row : row + 1])[0]) for row in range(len(table))]
        assert brought.evaluate(table, index).tolist() == alone
        expected.append(int((np.array(alone) != y).sum()))
    assert brought.error_counts(table, y).tolist() == expected
    assert brought.error_counts(table[:0], y[:0]).tolist() == [0, 0, 0, 0]


def fails_on_secrets(rows):
    if (rows == SECRET).any():
        message = f"there is {SECRET} in a row"
        raise ValueError(message)
    return rows[:, 0] > 0


def drops_secrets(rows):
    return (rows[:, 0] > 0)[~(rows == SECRET).any(axis=1)]


def warns_of_secrets(rows):
    warnings.warn(f"row {rows.max()}", stacklevel=1)
    return 1 / (rows[:, 0] - SECRET) < 0


def one_at_a_time(rows):
    (row,) = rows
    return row[0] > 0


@pytest.mark.parametrize("item", [fails_on_secrets, drops_secrets, warns_of_secrets, one_at_a_time])
def test_a_row_that_cannot_be_labelled_is_labelled_0_and_nothing_is_said(item, capsys):
    table, y = _table(50)
    brought = Hypotheses([item])
    before = brought.evaluate(table, 0)
    table[13] = SECRET
    after = brought.evaluate(table, 0)
    assert np.flatnonzero(before != after).tolist() in ([], [13])
    assert not after[13] or item is one_at_a_time
    assert brought.error_counts(table, y).tolist() == [np.count_nonzero(after != y)]
    said = capsys.readouterr()
    assert "77" not in said.out + said.err


def centred(rows):
    return rows[:, 0] > rows[:, 0].mean()


def _largest_move(item):
    rng = np.random.default_rng(4)
    brought, moved = Hypotheses([item]), 0
    for _ in range(60):
        table, y = rng.normal(size=(20, 3)), rng.random(20) < 0.5
        other, labels = table.copy(), y.copy()
        row = rng.integers(20)
        other[row], labels[row] = rng.choice([SECRET, -50.0, np.nan, 0.0]), not y[row]
        moved = max(moved, int(np.abs(brought.error_counts(table, y) - brought.error_counts(other, labels)).max()))
    return moved


def test_replacing_one_row_moves_every_count_by_at_most_one():
    for item in (positive, fails_on_secrets, drops_secrets, warns_of_secrets, one_at_a_time, *_fitted()):
        assert _largest_move(item) == 1
    # An item that looks at other rows breaks its contract; this is what it would do.
    assert _largest_move(centred) > 1


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 0.0, np.nan, 2.0], [1, 0, 0, 0]),
        ([True, False, True, False], [1, 0, 1, 0]),
        ([-1, 1, 1, -1], [0, 1, 1, 0]),
        (["1", "0", "yes", "1"], [0, 0, 0, 0]),
        ([None, 1, "1", 1.0], [0, 1, 0, 1]),
        ([[1], [0], [1], [1]], [1, 0, 1, 1]),
        (1, [0, 0, 0, 0]),
        (None, [0, 0, 0, 0]),
        ([1, 1, 1], [0, 0, 0, 0]),
        ([[1, 1], [1]], [0, 0, 0, 0]),
        (object(), [0, 0, 0, 0]),
    ],
)
def test_only_what_equals_1_is_1(values, expected):
    table = np.arange(8.0).reshape(4, 2)

    def item(rows):
        # Of a single row only lists of four have an answer: what fails on all rows together fails on each.
        return values if len(rows) == 4 else []

    assert Hypotheses([item]).evaluate(table, 0).tolist() == [bool(one) for one in expected]


def test_items_cannot_change_rows_for_one_another():
    def spoils(rows):
        rows[:] = -1
        return rows[:, 0] > 0

    table, y = _table(30)
    kept = table.copy()
    assert Hypotheses([spoils, positive]).error_counts(table, y)[1] == np.count_nonzero((kept[:, 0] > 0) != y)
    assert (table == kept).all()


def test_columns_are_read_by_name_or_position():
    table, y = _table(30)
    frame = {"a": table[:, 0], "b": table[:, 1], "c": table[:, 2]}
    named = Hypotheses([positive], columns=["c", "a"])
    assert named.columns == ("c", "a")
    assert named.width == 2
    assert named.evaluate(frame, 0).tolist() == (table[:, 2] > 0).tolist()
    assert named.error_counts(frame, y).tolist() == [np.count_nonzero((table[:, 2] > 0) != y)]
    with pytest.raises(UnknownColumn):
        named.evaluate({"a": [1.0]}, 0)
    free = Hypotheses([positive])
    assert (free.size, free.width, free.columns) == (1, None, None)
    assert free.over(3).width == 3
    assert free.over(["a", "b"]).columns == ("a", "b")
    assert named.over(7) is named
    with pytest.raises(InvalidParameter, match="the class has 2"):
        Hypotheses([positive], columns=2).evaluate(table, 0)


def test_names_describe():
    named = Hypotheses([positive, abs], names=["first", "second"])
    assert named.describe(1) == "second"
    model = LogisticRegression(C=0.25)
    plain = Hypotheses([positive, model, functools.partial(positive)])
    assert [plain.describe(0), plain.describe(1)] == ["positive", "LogisticRegression(C=0.25)"]
    assert "partial" in plain.describe(2)
    assert repr(plain).startswith("Hypotheses(<3: positive, LogisticRegression(C=0.25)")
    assert hash(plain) != hash(named)


def test_code_is_not_written_as_json_nor_read_from_it():
    with pytest.raises(RequestError, match="code"):
        _ = Hypotheses([positive]).document
    with pytest.raises(InvalidParameter, match=r"class must be 'thresholds', .* or 'union'"):
        read_class({"class": "hypotheses", "items": ["os.system"]})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"items": []}, "items must be"),
        ({"items": positive}, "items must be"),
        ({"items": [positive, SECRET]}, "items must be"),
        ({"items": [positive], "names": []}, "1 names"),
        ({"items": [positive], "names": [3]}, "1 names"),
        ({"items": [positive], "columns": 0}, "columns must be"),
        ({"items": [positive], "columns": ["a", "a"]}, "distinct names"),
    ],
)
def test_bad_parameters_are_refused(given, said):
    with pytest.raises(InvalidParameter, match=said) as refused:
        Hypotheses(**given)
    assert "77" not in str(refused.value)


def by_name(rows):
    return rows["c"] > 0


def cell_by_cell(rows):
    return [row["a"] > 0 and row["c"] > 0 for row in rows]


def test_functions_read_columns_by_name_where_the_class_names_them():
    table, y = _table(80)
    frame = {"a": table[:, 0], "b": table[:, 1], "c": table[:, 2]}
    named = Hypotheses([by_name, cell_by_cell, lambda rows: rows[:, 0] > 0, *_fitted_on_two()], columns=["c", "a"])
    assert named.evaluate(frame, 0).tolist() == (table[:, 2] > 0).tolist() == named.evaluate(frame, 2).tolist()
    assert named.evaluate(frame, 1).tolist() == ((table[:, 0] > 0) & (table[:, 2] > 0)).tolist()
    assert named.error_counts(frame, y)[0] == np.count_nonzero((table[:, 2] > 0) != y)
    named.try_out(np.ones((1, 2)))
    joined = Union([Hypotheses([by_name], columns=["c"]), Hypotheses([lambda rows: rows["b"] > 0], columns=["b", "a"])])
    assert joined.error_counts(frame, y).tolist() == [np.count_nonzero((table[:, place] > 0) != y) for place in (2, 1)]
    joined.try_out(np.ones((1, 3)))


def _fitted_on_two():
    table, _ = _table(200, seed=9)
    return [LogisticRegression().fit(table[:, :2], (table[:, 0] > 0).astype(int))]


def says(value):
    return lambda rows: value if len(rows) == 1 else rows[:, 0] > 0


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (lambda rows: rows["age"] > 5, "KeyError"),
        (lambda rows: rows[:, 7] > 5, "IndexError"),
        (lambda: 1, "TypeError"),
        (lambda rows: sys.exit(f"a row {rows}"), "SystemExit"),
        (LogisticRegression(), "NotFittedError"),
        (DecisionTreeClassifier().fit([[0, 0], [1, 1]], ["no", "yes"]), "a str"),
        (says([1, 0]), "2 values for one row"),
        (says(None), "a NoneType"),
        (says("1"), "a str"),
        (says([]), "0 values for one row"),
    ],
)
def test_an_item_that_cannot_label_an_invented_row_is_refused_by_its_place(item, said):
    brought = Hypotheses([lambda rows: rows[:, 0] > 0, item], columns=["a", "b"])
    with pytest.raises(InvalidParameter, match=rf"items\[1\].*got {said}") as refused:
        brought.try_out(np.ones((1, 2)))
    assert "a row" not in str(refused.value)
    assert refused.value.__cause__ is refused.value.__context__ is None
    with pytest.raises(InvalidParameter, match=r"items\[1\]"):
        Union([Stumps(bounds={"a": (0, 1)}, steps=3), brought]).try_out(np.ones((1, 2)))


@pytest.mark.parametrize("value", [True, 0, 1.0, -1, [1], [[0]], np.array([True], dtype=object), np.nan])
def test_one_number_for_an_invented_row_will_do(value):
    Hypotheses([says(value)]).try_out(np.ones((1, 2)))


class Unshown:
    """A function that cannot show itself."""

    def __call__(self, rows):
        return rows[:, 0] > 0

    def __repr__(self):
        raise ValueError(SECRET)


def test_an_item_that_cannot_show_itself_has_its_number():
    """Its words are asked for after the charge, so they must not fail."""
    assert Hypotheses([positive, Unshown()]).describe(1) == "hypothesis 1"
