"""A frame that reads like pandas: it writes conditions and calls the curator's verbs, and does nothing else.

Nothing is computed here and no row is read: ``df[df.age > 65].income.mean(low=0, high=10)`` is
``curator.mean("income", low=0, high=10, where="age > 65")``, charged and answered as that request is.
"""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, NoReturn

import numpy as np

from holdtrue.errors import InvalidParameter, UnsupportedQuery
from holdtrue.exact import Number, rational, read_list
from holdtrue.queries.dates import Point
from holdtrue.queries.sql_words import quote_name, quote_text

__all__ = ["Condition", "Expression", "Frame", "GroupedFrame"]

_NO_ROWS = "rows never leave a curator: ask about them, as in df[df.age > 65].income.mean(low=0, high=200_000)"
# What pandas has under these names, and what there is in its place.
_INSTEAD = {
    "agg": "call one verb at a time: mean, sum, median, quantile, value_counts, hist",
    "apply": "write it with operators on columns: df.income / 12 > 3000",
    "corr": "there is no correlation yet; ask for a table of both columns: curator.table(...)",
    "count": "the number of rows is len(df); shares of them are (df.age > 65).mean()",
    "describe": "ask for what is needed: mean(low=, high=), quantile([.25, .5, .75], low=, high=)",
    "head": _NO_ROWS,
    "iloc": _NO_ROWS,
    "iterrows": _NO_ROWS,
    "loc": "write a condition: df[df.age > 65]",
    "max": "an extreme is one row's value; ask for a quantile such as quantile(.99, low=, high=)",
    "merge": "join the tables before a curator is opened on them",
    "min": "an extreme is one row's value; ask for a quantile such as quantile(.01, low=, high=)",
    "nunique": "labels are public before any row is read; see value_counts()",
    "query": "write a condition: df[df.age > 65], or curator.ask('age > 65')",
    "sample": _NO_ROWS,
    "std": "there is no standard deviation yet; ask for quantiles: quantile([.25, .75], low=, high=)",
    "tail": _NO_ROWS,
    "to_numpy": _NO_ROWS,
    "unique": "labels are public before any row is read; see value_counts()",
    "values": _NO_ROWS,
    "var": "there is no variance yet; ask for quantiles: quantile([.25, .75], low=, high=)",
}


def _refuse(what: str, name: str) -> NoReturn:
    """Raise what to call instead of something that pandas has."""
    message = f"{what} has no {name}: {_INSTEAD[name]}"
    raise UnsupportedQuery(message)


class Condition:
    """A yes-or-no condition on the rows of a frame, as text. ``mean()`` asks which share of the rows meets it."""

    def __init__(self, frame: "Frame", text: str) -> None:
        self._frame, self.text = frame, text

    def mean(self, *, key: str | None = None) -> Any:  # noqa: ANN401 - an answer
        """Ask which share of the rows meets the condition: ``curator.ask(text)``."""
        if self._frame.where is not None:
            message = (
                "the share within a part of the rows is a share of a group: use df.groupby(...), or ask for both shares, "
                f"curator.ask([{_join([self._frame.where, self.text])!r}, {self._frame.where!r}])"
            )
            raise UnsupportedQuery(message)
        return self._frame.curator.ask(self.text, key=key)

    def __and__(self, other: "Condition | Expression") -> "Condition":
        return self._combine("AND", other)

    def __or__(self, other: "Condition | Expression") -> "Condition":
        return self._combine("OR", other)

    def __invert__(self) -> "Condition":
        return Condition(self._frame, f"NOT ({self.text})")

    def _combine(self, word: str, other: "Condition | Expression") -> "Condition":
        return Condition(self._frame, f"({self.text}) {word} ({_read_condition(self._frame, other)})")

    def __bool__(self) -> bool:
        message = (
            "a condition is neither true nor false before it is asked: combine conditions with & and |, and negate with ~"
        )
        raise UnsupportedQuery(message)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        message = f"a condition has no {name}; it has mean(), &, | and ~, and df[condition] keeps its rows"
        raise UnsupportedQuery(message)

    def __repr__(self) -> str:
        return f"<Condition {self.text}>"


class Expression:
    """A column, or a number computed from columns of one row, as text; comparisons of it are conditions."""

    def __init__(self, frame: "Frame", text: str, column: str | None = None) -> None:
        self._frame, self.text, self._column = frame, text, column

    def mean(self, *, low: Number | None = None, high: Number | None = None, key: str | None = None) -> Any:  # noqa: ANN401 - a response
        """Ask for the mean: ``curator.mean(column, low=, high=, where=)``, or the share of a yes-or-no column."""
        if self._is_yes_or_no() and low is None and high is None:
            return Condition(self._frame, self.text).mean(key=key)
        return self._call("mean", low=low, high=high, key=key)

    def sum(self, *, low: Number | None = None, high: Number | None = None, key: str | None = None) -> Any:  # noqa: ANN401 - a response
        """Ask for the sum over these rows: ``curator.sum(column, low=, high=, where=)``."""
        return self._call("sum", low=low, high=high, key=key)

    def median(
        self, *, low: Point | None = None, high: Point | None = None, step: Number = 1, key: str | None = None
    ) -> Any:  # noqa: ANN401 - a response
        """Ask for the median: ``curator.median(column, low=, high=, step=, where=)``."""
        return self._call("median", low=low, high=high, step=step, key=key)

    def quantile(
        self,
        q: Number | Sequence[Number] = 0.5,
        *,
        low: Point | None = None,
        high: Point | None = None,
        step: Number = 1,
        key: str | None = None,
    ) -> Any:  # noqa: ANN401 - a response
        """Ask for quantiles: ``curator.quantile(column, q, low=, high=, step=, where=)``."""
        return self._call("quantile", q, low=low, high=high, step=step, key=key)

    def value_counts(self, *, keys: Sequence[Any] | None = None, key: str | None = None) -> Any:  # noqa: ANN401 - a table
        """Ask for the share of the rows with each public label: ``curator.table(column, where=)``."""
        labels = None if keys is None else {self._name("value_counts"): keys}
        return self._frame.curator.table(self._name("value_counts"), where=self._frame.where, keys=labels, key=key)

    def isin(self, values: Sequence[Any]) -> Condition:
        """Return the condition that the value is one of a few."""
        listed = [_write_value(self._frame, each) for each in read_list("values", values, expected="a list of values")]
        if not listed:
            raise InvalidParameter.saying("values", "give at least one value")
        return Condition(self._frame, f"{self.text} IN ({', '.join(listed)})")

    def between(self, left: object, right: object) -> Condition:
        """Return the condition that the value is between two others, both ends included."""
        low, high = _write_value(self._frame, left), _write_value(self._frame, right)
        return Condition(self._frame, f"{self.text} BETWEEN {low} AND {high}")

    def isna(self) -> Condition:
        """Return the condition that the value is missing."""
        return Condition(self._frame, f"{self.text} IS NULL")

    def notna(self) -> Condition:
        """Return the condition that there is a value."""
        return Condition(self._frame, f"{self.text} IS NOT NULL")

    def _call(self, verb: str, *given: object, low: Point | None, high: Point | None, **more: object) -> Any:  # noqa: ANN401 - a response
        """Call a verb that needs public bounds; those on the card are taken where none are given."""
        column = self._name(verb)
        bounds = self._frame.curator.card.column(column).bounds or (None, None)
        ends = {"low": bounds[0] if low is None else low, "high": bounds[1] if high is None else high}
        for name, end in ends.items():
            if end is None:
                raise InvalidParameter.saying(name, f"give public bounds: df.{column}.{verb}(low=..., high=...)")
        return getattr(self._frame.curator, verb)(column, *given, **ends, where=self._frame.where, **more)

    def _name(self, verb: str) -> str:
        if self._column is None:
            message = f"{verb} is of a column; {self.text} is computed: ask for a condition on it, or a column"
            raise UnsupportedQuery(message)
        return self._column

    def _is_yes_or_no(self) -> bool:
        return self._column is not None and self._frame.curator.card.column(self._column).type == "boolean"

    def _compare(self, sign: str, other: object) -> Condition:
        if other is None:
            message = "nothing compares with None: write isna() or notna()"
            raise UnsupportedQuery(message)
        return Condition(self._frame, f"{self.text} {sign} {_write_value(self._frame, other)}")

    def _compute(self, sign: str, other: object, *, turned: bool = False) -> "Expression":
        first, second = self.text, _write_value(self._frame, other)
        return Expression(self._frame, f"({second} {sign} {first})" if turned else f"({first} {sign} {second})")

    def __gt__(self, other: object) -> Condition:
        return self._compare(">", other)

    def __ge__(self, other: object) -> Condition:
        return self._compare(">=", other)

    def __lt__(self, other: object) -> Condition:
        return self._compare("<", other)

    def __le__(self, other: object) -> Condition:
        return self._compare("<=", other)

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]  # a condition on rows, as in pandas
        return self._compare("=", other)

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]  # a condition on rows, as in pandas
        return self._compare("<>", other)

    __hash__ = None  # type: ignore[assignment]  # what is equal is asked of rows

    def __add__(self, other: object) -> "Expression":
        return self._compute("+", other)

    def __radd__(self, other: object) -> "Expression":
        return self._compute("+", other, turned=True)

    def __sub__(self, other: object) -> "Expression":
        return self._compute("-", other)

    def __rsub__(self, other: object) -> "Expression":
        return self._compute("-", other, turned=True)

    def __mul__(self, other: object) -> "Expression":
        return self._compute("*", other)

    def __rmul__(self, other: object) -> "Expression":
        return self._compute("*", other, turned=True)

    def __truediv__(self, other: object) -> "Expression":
        return self._compute("/", other)

    def __rtruediv__(self, other: object) -> "Expression":
        return self._compute("/", other, turned=True)

    def __and__(self, other: "Condition | Expression") -> Condition:
        return Condition(self._frame, _read_condition(self._frame, self)) & other

    def __or__(self, other: "Condition | Expression") -> Condition:
        return Condition(self._frame, _read_condition(self._frame, self)) | other

    def __invert__(self) -> Condition:
        return ~Condition(self._frame, _read_condition(self._frame, self))

    def __bool__(self) -> bool:
        message = (
            "a column is neither true nor false: write a condition such as df.age > 65, and combine conditions with & and |"
        )
        raise UnsupportedQuery(message)

    def __iter__(self) -> NoReturn:
        raise UnsupportedQuery(_NO_ROWS)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in _INSTEAD:
            _refuse("a column", name)
        known = "mean, sum, median, quantile, value_counts, isin, between, isna and notna"
        message = f"a column has no {name}; it has {known}"
        raise UnsupportedQuery(message)

    def __repr__(self) -> str:
        return f"<Expression {self.text}>"


class GroupedFrame:
    """The rows of a frame by columns with public labels; verbs answer for each group at once."""

    def __init__(self, frame: "Frame", columns: tuple[str, ...], column: str | None = None) -> None:
        self._frame, self._columns, self._column = frame, columns, column

    def size(self, *, key: str | None = None) -> Any:  # noqa: ANN401 - a table
        """Ask for the share of the rows in each group: ``curator.table(*columns, where=)``."""
        return self._frame.curator.table(*self._columns, where=self._frame.where, key=key)

    def mean(self, *, low: Number | None = None, high: Number | None = None, key: str | None = None) -> Any:  # noqa: ANN401 - a response
        """Ask for the mean in each group: ``curator.mean(column, low=, high=, by=)``, or the share of a yes-or-no column."""
        column = self._name("mean")
        if self._frame.curator.card.column(column).type == "boolean" and low is None and high is None:
            if self._frame.where is not None:
                message = "shares in groups are of all rows: leave out the condition, or ask curator.table(..., where=)"
                raise UnsupportedQuery(message)
            return self._frame.curator.ask(quote_name(column), by=self._by, key=key)
        return self._call("mean", low, high, key)

    def sum(self, *, low: Number | None = None, high: Number | None = None, key: str | None = None) -> Any:  # noqa: ANN401 - a response
        """Ask for the sum in each group: ``curator.sum(column, low=, high=, by=)``."""
        return self._call("sum", low, high, key)

    @property
    def _by(self) -> str | list[str]:
        return self._columns[0] if len(self._columns) == 1 else list(self._columns)

    def _name(self, verb: str) -> str:
        if self._column is None:
            message = f"say of which column: df.groupby({list(self._columns)!r})['income'].{verb}(low=, high=)"
            raise UnsupportedQuery(message)
        return self._column

    def _call(self, verb: str, low: Number | None, high: Number | None, key: str | None) -> Any:  # noqa: ANN401 - a response
        column = Expression(self._frame, "", self._name(verb))
        return column._call(verb, low=low, high=high, by=self._by, key=key)  # noqa: SLF001 - the same rules for bounds

    def __getitem__(self, column: str) -> "GroupedFrame":
        return GroupedFrame(self._frame, self._columns, self._frame.curator.card.column(column).name)

    def __getattr__(self, name: str) -> "GroupedFrame":
        if name.startswith("_"):
            raise AttributeError(name)
        if name in ("median", "quantile") and name not in self._frame.curator.card:
            message = f"there is no {name} by group: ask for one group at a time, df[df.region == 'N'].income.{name}(...)"
            raise UnsupportedQuery(message)
        if name in _INSTEAD and name not in self._frame.curator.card:
            _refuse("a group", name)
        return self[name]

    def __repr__(self) -> str:
        return f"<GroupedFrame by {', '.join(self._columns)}>"


class Frame:
    """The rows of a curator as pandas would show them, or those that meet a condition: a way to write requests.

    ``df.age`` and ``df["age"]`` are columns; ``df[df.age > 65]`` keeps rows; ``df.groupby("region")`` is by group. Every
    method that answers is one request to the curator, charged and cached as such. What is not offered says what to call.
    """

    def __init__(self, curator: Any, where: str | None = None) -> None:  # noqa: ANN401 - a curator, here or at a distance
        self.curator, self.where = curator, where

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns."""
        return [column.name for column in self.curator.card.columns]

    def _ipython_key_completions_(self) -> list[str]:
        return self.columns

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name in self.columns if name.isidentifier())]

    def groupby(self, columns: str | Sequence[str]) -> GroupedFrame:
        """Return the rows by one or more columns with public labels."""
        listed = (
            [columns] if isinstance(columns, str) else read_list("columns", columns, expected="a column, or a list of them")
        )
        if not listed:
            raise InvalidParameter.saying("columns", "give at least one column")
        return GroupedFrame(self, tuple(self.curator.card.column(each).name for each in listed))

    def __getitem__(self, wanted: object) -> Any:  # noqa: ANN401 - a column, or a frame
        if isinstance(wanted, str):
            name = self.curator.card.column(wanted).name
            return Expression(self, quote_name(name), name)
        if isinstance(wanted, (Condition, Expression)):
            return Frame(self.curator, _join([self.where, _read_condition(self, wanted)]))
        message = "a frame takes the name of a column, or a condition: df['age'], df[df.age > 65]"
        raise UnsupportedQuery(message)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a column
        if name.startswith("_"):
            raise AttributeError(name)
        if name in _INSTEAD and name not in self.curator.card:
            _refuse("a frame", name)
        return self[name]

    def __setitem__(self, name: object, value: object) -> NoReturn:
        message = "a frame has no columns of its own: write the expression where it is used, df[df.income / 12 > 3000]"
        raise UnsupportedQuery(message)

    def __len__(self) -> int:
        if self.where is not None:
            message = f"how many rows meet a condition is an answer: curator.ask({self.where!r})"
            raise UnsupportedQuery(message)
        return int(self.curator.card.rows)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> NoReturn:
        raise UnsupportedQuery(_NO_ROWS)

    def __repr__(self) -> str:
        kept = "" if self.where is None else f" where {self.where}"
        return f"<Frame of {', '.join(self.columns)}{kept}>"


def _join(conditions: Sequence[str | None]) -> str:
    """Return conditions that must all be met as one."""
    given = [each for each in conditions if each is not None]
    return given[0] if len(given) == 1 else " AND ".join(f"({each})" for each in given)


def _read_condition(frame: Frame, given: object) -> str:
    """Return a condition in text: a condition on the same rows, or a yes-or-no column of them."""
    if not isinstance(given, (Condition, Expression)):
        message = f"conditions are combined with conditions, not with {type(given).__name__}: (df.age > 65) & df.smoker"
        raise UnsupportedQuery(message)
    if given._frame.curator is not frame.curator:  # noqa: SLF001 - of this module
        message = "a condition on one curator's rows says nothing about another's"
        raise UnsupportedQuery(message)
    if isinstance(given, Expression) and not given._is_yes_or_no():  # noqa: SLF001 - of this module
        message = f"{given.text} is no condition: compare it, as in df.age > 65"
        raise UnsupportedQuery(message)
    return given.text


def _write_value(frame: Frame, value: object) -> str:
    """Return a value, or another column of the same rows, as text of the query language."""
    if isinstance(value, Expression):
        if value._frame.curator is not frame.curator:  # noqa: SLF001 - of this module
            message = "a column of one curator is not compared with another's"
            raise UnsupportedQuery(message)
        return value.text
    plain = value.item() if isinstance(value, np.generic) else value
    match plain:
        case bool():
            return str(plain).upper()
        case int() | float():
            rational("value", plain)
            return repr(plain)
        case str():
            return quote_text(plain)
        case date() if not isinstance(plain, datetime):
            return f"DATE '{plain.isoformat()}'"
        case _:
            raise InvalidParameter("value", type(value).__name__, "a finite number, text, True, False or a date")
