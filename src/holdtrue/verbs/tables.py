"""TABLE: the shares of disjoint cells of the rows, all released at once, each with an interval for the population (U1)."""

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from itertools import pairwise, product
from typing import Any, Literal, TypeAlias

import numpy as np
from msgspec import UNSET

from holdtrue.codec import digest_of
from holdtrue.errors import InvalidParameter, NotCertified, UnknownColumn, UnsupportedQuery
from holdtrue.events import Repeated
from holdtrue.exact import count, rational, read_list, truth
from holdtrue.mechanisms import Gaussian, Laplace
from holdtrue.mechanisms.base import AdditiveMechanism
from holdtrue.planning.plans import AnyPlan
from holdtrue.planning.tables import (
    SHARE_BITS,
    TablePrice,
    count_unions,
    find_cell_ends,
    find_sample_ends,
    has_normal_noise,
    loosen,
    move_to_total,
    place_price,
    price_table,
    pure_epsilon,
    refuse_laplace_noise,
)
from holdtrue.queries.cards import HIGHEST, LOWEST, Card, Label
from holdtrue.queries.cells import CellAxis, DisjointCells, make_axis
from holdtrue.queries.dates import DAY, Point, is_date, list_starts, read_moment, write_moment
from holdtrue.queries.parser import SharedColumn, find_column, find_shared, parse
from holdtrue.queries.sql_words import quote_text
from holdtrue.queries.syntax_tree import Query
from holdtrue.records import Certificate, Response, Table, Unions
from holdtrue.requests import Cut
from holdtrue.verbs import Curation, Job, Measured, Release, Standing, plan_single
from holdtrue.verbs.asking import NOT_INDEPENDENT

__all__ = [
    "Cut",
    "Groups",
    "TableLayout",
    "cut",
    "list_sizes",
    "make_bins",
    "make_noise",
    "plan_table",
    "read_axis",
    "read_groups",
    "tabulate",
    "write_conditions",
]

_UnionKind: TypeAlias = Literal["margins", "ranges"]
_Keys: TypeAlias = Mapping[str, Sequence[Label]] | Sequence[Label] | None
_Rollups: TypeAlias = Sequence[Sequence[Label]]
_Axes: TypeAlias = tuple[tuple[str, ...], tuple[tuple[str, ...], ...], tuple[CellAxis, ...], tuple[tuple[Label, ...], ...]]
_MOMENTS = (str, dt.date, np.datetime64)
_KEYWORDS = {"date": "DATE", "timestamp": "TIMESTAMP"}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_MOST_CELLS = 100_000
_MOST_RANGED = 10_000
_MOST_SHOWN = 20


def cut(column: str, points: Sequence[Point], *, inside: bool = False) -> Cut:
    """Cut a column of numbers, or of dates or timestamps, at public points, for :meth:`Curator.table`.

    >>> cut("age", [18, 65]).points
    (18.0, 65.0)
    >>> cut("admitted", ["2026-01-01", "2026-07-01"]).points
    ('2026-01-01', '2026-07-01')
    """
    name: object = column
    if not isinstance(name, str):
        raise InvalidParameter("column", type(name).__name__, "the name of a column")
    given = read_list("points", points, expected="a list of numbers, or of dates")
    dated = any(isinstance(point, _MOMENTS) for point in given)
    read = [_read_point("points", point) if dated else float(rational("points", point)) for point in given]
    if len(read) < 1 + truth("inside", inside) or any(high <= low for low, high in pairwise(read)):
        raise InvalidParameter.saying(
            "points", "points must be increasing: one or more (two with inside=True), each above the one before"
        )
    return Cut(column, tuple(write_moment(int(point)) for point in read) if dated else tuple(read), inside)


def _read_point(name: str, point: object) -> int:
    found = read_moment(point)
    if found is None:
        shown = point if isinstance(point, str) else type(point).__name__
        raise InvalidParameter(name, shown, "numbers, or dates of the calendar such as 2026-01-31, and not both")
    return found


def make_bins(column: str, *, low: Point, high: Point, bins: int | str, plan: AnyPlan) -> Cut:
    """Return a column cut between two public ends: into bins of one width, or dates by "month", "quarter" or "year"."""
    if not isinstance(bins, str) and count("bins", bins) > _MOST_CELLS:
        price = price_table(plan, int(bins) + 1).questions
        most = f"at most {_MOST_CELLS:,} cells together; {int(bins):,} would cost {price} questions"
        raise InvalidParameter.without_value("bins", most)
    if isinstance(bins, str) or isinstance(low, _MOMENTS):
        return cut(column, [write_moment(point) for point in _list_moments(low, high, bins)], inside=True)
    first, last, number = rational("low", low), rational("high", high), int(bins)
    if first >= last:
        raise InvalidParameter("low", low, "below high")
    return cut(column, [float(first + (last - first) * Fraction(at, number)) for at in range(number + 1)], inside=True)


def list_widest(sizes: Mapping[str, int]) -> str:
    """Return the three columns with the most cells, in words."""
    return ", ".join(f"{name} ({sizes[name]:,} cells)" for name in sorted(sizes, key=lambda name: -sizes[name])[:3])


def _list_moments(low: object, high: object, bins: object) -> list[int]:
    """Return the ends of bins of dates; bins of one width between two dates begin at midnight."""
    first, last = _read_point("low", low), _read_point("high", high)
    if first >= last:
        raise InvalidParameter.saying("low", "low must be before high")
    if isinstance(bins, str):
        if bins not in _MONTHS:
            raise InvalidParameter("bins", bins, f"a number, or one of {', '.join(_MONTHS)}")
        return [first, *list_starts(first, last, _MONTHS[bins]), last]
    number, step = count("bins", bins, most=_MOST_CELLS), 1 if first % DAY or last % DAY else DAY
    found = [first + (last - first) * at // number // step * step for at in range(number)]
    if len(set(found)) < number:
        raise InvalidParameter("bins", bins, "at most one for each day")
    return [*found, last]


@dataclass(frozen=True, slots=True)
class _Cell:
    """One cell of one column: what it is called, and the condition that its rows meet."""

    label: Label
    condition: str


def tabulate(  # noqa: PLR0913 - one request, and who makes it
    curation: Curation,
    columns: Sequence[str | Cut],
    *,
    where: str | None,
    keys: _Keys,
    key: str | None,
    analyst: str | None,
    margins: bool = False,
    ranges: bool = False,
    rollups: _Rollups = (),
    questions: int | None = None,
) -> Table:
    """Return the shares of all cells; nothing is charged before every label and every condition was checked."""
    declared: dict[str, Any] = {"margins": margins, "ranges": ranges, "rollups": rollups}
    release = plan_table(curation, columns, where=where, keys=keys, questions=questions, **declared)
    (found,) = curation.run(Job(partial(plan_single, release), key, analyst))
    return found  # type: ignore[return-value]  # the response to a table


def _loosen_shares(plan: AnyPlan, price: TablePrice, cells: int) -> TablePrice:
    """Return the price of cells that count a unit by shares, which only normal noise has an exact event for (U1.1)."""
    if not has_normal_noise(plan):
        refuse_laplace_noise("shares of a person's rows")
    return loosen(price, cells, bits=plan.bits)


def list_sizes(card: Card, columns: Sequence[str | Cut], keys: _Keys) -> list[int]:
    """Return how many cells each column has, by public labels or cut points. Failure: NotCertified where none are public."""
    return [len(each) for each in _read_columns(card, columns, keys)]


def plan_table(  # noqa: PLR0913 - one request
    curation: Curation,
    columns: Sequence[str | Cut],
    *,
    where: str | None = None,
    keys: _Keys = None,
    margins: bool = False,
    ranges: bool = False,
    rollups: _Rollups = (),
    questions: int | None = None,
) -> Release:
    """Return the release of a table: one charge, one draw of noise for each cell and one for the rows in none of them.

    Law: cells are the values of one function of a row, made of labels and cut points that are public, and every other row of
    ``where`` is in one further cell, so that replacing a row moves two cells by 1 at most, whatever the number of cells. One
    cell and the further one, of all rows, are one count: it alone is drawn, and the other cell is what it leaves (U1.5).
    By SHARE(value) a unit counts in several cells, by the share of its rows in each; shares are rounded down to the grid and
    the further cell has what they leave, so that what a unit adds is nonnegative and 1 in all, and moves no more (U1.2, U4).
    """
    if not columns:
        raise InvalidParameter("columns", list(columns), "one column or more, or ht.cut(column, points)")
    groups = read_groups(curation, columns, where=where, keys=keys, shares=True)
    declared = _read_unions(groups.sizes, margins=margins, ranges=ranges)
    layout = TableLayout(groups, groups.cells.find_name(), declared, questions, _read_rollups(groups, rollups))
    return _make_release(curation.plan, curation.card.rows, layout)


@lru_cache(64)
def read_axis(card: Card, column: str, texts: tuple[str, ...]) -> CellAxis:
    """Return the axis of disjoint conditions on one column, given as texts, and keep it: all of it is public."""
    return make_axis(column, [parse(text, card) for text in texts])


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Disjoint groups of rows: the columns, the labels of each group, and the cells that engines count.

    Law: the groups are values of one function of a row, made of labels and cut points that are public, so that every row of
    ``where`` is in one of them at most; ``shared`` groups count a unit in several, by shares that are at most 1 together.
    """

    names: tuple[str, ...]
    labels: tuple[tuple[Label, ...], ...]
    cells: DisjointCells
    texts: tuple[tuple[str, ...], ...]
    cut: frozenset[str] = frozenset()
    shared: bool = False

    @property
    def base(self) -> Query | None:
        """Return the query of ``where``."""
        return self.cells.base

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return how many labels each column has."""
        return tuple(len(each) for each in self.texts)

    def list_conditions(self) -> list[tuple[str, ...]]:
        """Return the conditions that the rows of each group meet, as texts; that of ``where`` is the last one."""
        last = () if self.base is None else (f"({self.base.text})",)
        return [(*each, *last) for each in product(*self.texts)]


def read_groups(  # noqa: PLR0913 - what groups are made of
    curation: Curation,
    columns: Sequence[str | Cut],
    *,
    where: str | None,
    keys: _Keys,
    most: int = _MOST_CELLS,
    shares: bool = False,
) -> Groups:
    """Return the groups that columns and keys name; where there is no column, one group of all rows of ``where``."""
    read = _keep_axes if keys is None and all(type(each) is str for each in columns) else _read_axes
    names, texts, axes, labels = read(curation.plan, curation.card, tuple(columns), keys, most)
    base = None if where is None else curation.parse(where)
    if base is not None and not base.boolean:
        raise InvalidParameter.without_value("where", "a yes-or-no condition")
    cut_names = frozenset(each.column for each in columns if isinstance(each, Cut))
    shared = _find_shared_places(curation.card, columns, keys)
    if not shared:
        return Groups(names, labels, DisjointCells(axes, base), texts, cut_names)
    if not shares or shared != [len(columns) - 1]:
        wanted = "once, as the last column of a table" if shares else "in a table only, since groups are of whole units"
        raise InvalidParameter.saying("columns", f"SHARE(value) stands {wanted}")
    grid = f"{1 << min(curation.plan.bits, SHARE_BITS)}.0"
    weights = tuple(curation.parse(f"CAST({text} * {grid} AS INTEGER) / {grid}") for text in texts[-1])
    return Groups(names, labels, DisjointCells(axes[:-1], base, weights=weights), texts, cut_names, shared=True)


def _read_axes(plan: AnyPlan, card: Card, columns: tuple[str | Cut, ...], keys: _Keys, most: int) -> _Axes:
    """Return the columns, the texts and the axis of the conditions of each, and the labels of each group."""
    read = _read_columns(card, columns, keys)
    number = math.prod(len(cells) for cells in read)
    names = tuple(each.column if isinstance(each, Cut) else each for each in columns)
    if number > most:
        price = price_table(plan, number + 1).questions
        widest = list_widest(dict(zip(names, map(len, read), strict=True)))
        room = f"{number:,} cells, which would cost {price} questions, and {most:,} fit"
        raise InvalidParameter.saying("columns", f"this table has {room}: bin {widest} with ht.cut or keys=")
    texts = tuple(tuple([cell.condition for cell in cells]) for cells in read)
    axes = tuple(read_axis(card, name, each) for name, each in zip(names, texts, strict=True))
    for asked, axis in zip(columns, axes, strict=True):
        _check_disjoint(asked, axis)
    return names, texts, axes, tuple(product(*[[cell.label for cell in cells] for cells in read]))


_keep_axes = lru_cache(8)(_read_axes)  # by names alone: 1 and True are one key


def _find_shared_places(card: Card, columns: Sequence[str | Cut], keys: object) -> list[int]:
    """Return the places of columns that are SHARE(value)."""
    return [place for place, each in enumerate(columns) if _find_shared_column(card, each, keys) is not None]


def _find_shared_column(card: Card, column: str | Cut, keys: object) -> SharedColumn | None:
    """Return what SHARE(value) tells rows apart by. SHARE of a yes-or-no column with labels is a number that has them."""
    name = column.column if isinstance(column, Cut) else column
    found = find_shared(name, card)
    is_cut = isinstance(column, Cut) or (name in keys if isinstance(keys, Mapping) else keys is not None)
    return None if found is not None and found.kind == "boolean" and is_cut else found


def write_conditions(
    request: Mapping[str, object], names: Sequence[str], labels: Sequence[Sequence[Label | None]], card: Card
) -> list[list[str]] | None:
    """Return the conditions of each column's labels, in their order, as a table was asked for; the last cell has none.

    None for a table of numbers that were cut by an earlier version, which kept their labels only, and for one of shares.
    """
    if request.get("shared"):
        return None  # what is known of shares is no condition
    found: list[list[str]] = []
    cuts = request.get("cuts", {})
    for place, name in enumerate(names):
        known: dict[Label | None, None] = dict.fromkeys(each[place] for each in labels[:-1])
        kind, written = find_column(name, card)
        if isinstance(cuts, dict) and name in cuts:
            found.append([str(text) for text in cuts[name]])
        elif kind == "boolean":
            found.append([written if label else f"NOT {written}" for label in known])
        elif kind in ("integer", "real") and any(isinstance(label, str) for label in known):
            return None
        else:
            found.append([f"{written} = {_quote_label(label)}" for label in known if label is not None])
    return found


def _read_unions(sizes: tuple[int, ...], *, margins: bool, ranges: bool) -> tuple[_UnionKind, ...]:
    """Return which unions are declared; refuse those that these columns do not have."""
    if truth("margins", margins) and len(sizes) == 1:
        raise InvalidParameter("margins", margins, "False for one column: its cells have no margins")
    if truth("ranges", ranges) and (len(sizes) > 1 or sizes[0] > _MOST_RANGED):
        raise InvalidParameter("ranges", ranges, f"False, except for one column with at most {_MOST_RANGED:,} cells")
    kinds: tuple[tuple[_UnionKind, bool], ...] = (("margins", bool(margins)), ("ranges", bool(ranges)))
    return tuple(kind for kind, wanted in kinds if wanted)


def _read_rollups(groups: Groups, given: _Rollups) -> tuple[tuple[int, ...], ...]:
    """Return the places of the cells of each union that is declared by labels; refuse what is no union of one column."""
    read = read_list("rollups", given, expected="a list of lists of labels")
    if not read:
        return ()
    if len(groups.sizes) > 1 or groups.shared or len(read) > _MOST_RANGED:
        words = f"rollups are for a table by one column, {_MOST_RANGED:,} of them at most; margins are for several columns"
        raise InvalidParameter.saying("rollups", words)
    known = {label: place for place, (label,) in enumerate(groups.labels)}
    found = []
    for each in read:
        labels = [_read_label(label) for label in read_list("rollups", each, expected="lists of labels")]
        places = {known[label] for label in labels if label in known}
        if len(places) < max(2, len(labels)):
            shown = ", ".join(map(str, list(known)[:_MOST_SHOWN]))
            raise InvalidParameter.without_value("rollups", f"lists of two or more different labels of the table: {shown}")
        found.append(tuple(sorted(places)))
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True, eq=False)
class TableLayout:
    """The cells of a table: the groups, the name of their cells, the unions that are declared, and a price of its own."""

    groups: Groups
    name: str
    declared: tuple[_UnionKind, ...]
    questions: int | None = None
    rollups: tuple[tuple[int, ...], ...] = ()

    @property
    def priced(self) -> dict[str, object]:
        """Return what stands for a price that somebody chose, and for rollups: with others it is another table."""
        found: dict[str, object] = {} if self.questions is None else {"questions": self.questions}
        return found | ({"rollups": self.rollups} if self.rollups else {})

    @property
    def cuts(self) -> dict[str, list[str]]:
        """Return the conditions of columns whose labels do not say them: numbers that were cut."""
        groups = self.groups
        return {name: list(texts) for name, texts in zip(groups.names, groups.texts, strict=True) if name in groups.cut}

    @property
    def digest(self) -> str:
        """Return what stands for its cells and the unions that are declared."""
        return digest_of({"cells": self.name, "unions": list(self.declared)} | self.priced)

    @property
    def request(self) -> dict[str, object]:
        """Return what the ledger keeps of the request, in words that are public."""
        groups = self.groups
        found: dict[str, object] = {"columns": list(groups.names), "labels": groups.labels}
        found["where"] = None if groups.base is None else groups.base.text
        found |= {"cuts": self.cuts} if self.cuts else {}
        found |= {"shared": True} if groups.shared else {}
        found |= self.priced
        return found | ({"unions": list(self.declared)} if self.declared else {})

    def count_unions(self) -> dict[int, int]:
        """Return how many unions of how many cells are declared."""
        margins, ranges = "margins" in self.declared, "ranges" in self.declared
        return count_unions(self.groups.sizes, margins=margins, ranges=ranges, rollups=self.rollups)

    def find_price(self, plan: AnyPlan) -> TablePrice:
        """Return what the cells, the further one and the declared unions cost; without ``where`` they are all rows."""
        number, whole = self.groups.cells.number, self.groups.base is None
        price = price_table(plan, number + 1, unions=self.count_unions(), whole=whole, questions=self.questions)
        return _loosen_shares(plan, price, number) if self.groups.shared else price

    def make_table(
        self, drawn: Sequence[int], plan: AnyPlan, *, rows: int, price: TablePrice, certificate: Certificate
    ) -> Table:
        """Say what noisy counts say: shares clipped to [0, 1], and what they prove about the rows and the population."""
        grid, groups, terms = rows << plan.bits, self.groups, price.terms or (None, None, None)
        answers = tuple([number / grid for number in drawn])
        values = tuple(np.clip(answers, 0.0, 1.0).tolist())
        ends, near = find_cell_ends(plan, price, values), find_sample_ends(price, values)
        return Table(
            columns=groups.names,
            labels=(*groups.labels, (None,) * len(groups.names)),
            values=values,
            low=None if ends is None else tuple(ends[0]),
            high=None if ends is None else tuple(ends[1]),
            sample_low=tuple(near[0]),
            sample_high=tuple(near[1]),
            confidence=1 - plan.beta,
            certificate=certificate,
            reason=NOT_INDEPENDENT if ends is None else None,
            unions=Unions(
                declared=self.declared,
                sizes=groups.sizes,
                answers=answers,
                sample_noise=price.sample_box,
                rounding=price.rounding,
                noise=terms[0],
                epsilon=terms[1],
                slack=terms[2],
                whole=True if price.whole else UNSET,
                rollups=self.rollups or UNSET,
            ),
        )


def make_noise(plan: AnyPlan, price: TablePrice, *, rows: int) -> AdditiveMechanism:
    """Return the noise on each of the cells that a price is of: normal, or on a pure ledger that of Laplace."""
    return _keep_noise(plan, price, rows, (Gaussian._bits, Laplace._bits))  # noqa: SLF001 - what its event depends on


@lru_cache(64)
def _keep_noise(plan: AnyPlan, price: TablePrice, rows: int, _bits: object) -> AdditiveMechanism:
    unit = 1 << plan.bits
    if has_normal_noise(plan):
        return Gaussian(sigma=Fraction(price.sigma) * rows * unit, sensitivity=unit)
    return Laplace(epsilon=pure_epsilon(plan, price), sensitivity=unit)


def _make_release(plan: AnyPlan, rows: int, layout: TableLayout) -> Release:
    price, unit, base = layout.find_price(plan), 1 << plan.bits, layout.groups.base
    mechanism = make_noise(plan, price, rows=rows)

    def draw(sums: Measured) -> Sequence[int]:
        cells = list(sums[: layout.groups.cells.number])
        if price.questions == 1:  # one count, and the rows that it leaves
            (noisy,) = mechanism.release(np.array(cells)).tolist()
            return [noisy, rows * unit - noisy]
        rest = (rows * unit if base is None else int(sums[-1])) - sum(cells)
        drawn: list[int] = mechanism.release(np.array([*cells, rest])).tolist()
        return drawn

    def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
        placed = place_price(plan, price, draw=standing.draws, spent=standing.spent)
        moved = move_to_total(drawn, rows * unit) if price.whole else drawn
        return [layout.make_table(moved, plan, rows=rows, price=placed, certificate=certificate)]

    return Release(
        verb="table",
        request=layout.request,
        parts=(f"table {layout.digest}",),
        event=mechanism.event if price.questions == 1 else Repeated(mechanism.event, 2),
        cost=price.cost,
        draws=price.questions,
        queries=(),
        draw=draw,
        respond=respond,
        cells=layout.groups.cells,
    )


def _read_columns(card: Card, columns: Sequence[str | Cut], keys: _Keys) -> list[list[_Cell]]:
    """Return the cells of each column, by public labels or cut points."""
    if not all(isinstance(each, (str, Cut)) for each in columns):
        raise InvalidParameter.without_value("columns", "names of columns, or ht.cut(column, points)")
    plain = [each for each in columns if isinstance(each, str)]
    if keys is not None and not isinstance(keys, Mapping):
        if len(plain) != 1:
            raise InvalidParameter.without_value("keys", "labels by column: keys={'region': ['N', 'S']}")
        keys = {plain[0]: keys}
    names = [each.column if isinstance(each, Cut) else each for each in columns]
    if len(set(names)) < len(names):
        raise InvalidParameter("columns", names, "different columns")
    for name in keys or {}:
        if name not in plain:
            raise InvalidParameter("keys", name, f"labels of {' and '.join(plain) or 'no column'}")
    return [_read_cells(card, each, keys or {}) for each in columns]


def _read_cells(card: Card, column: str | Cut, keys: Mapping[str, Sequence[Label]]) -> list[_Cell]:
    shared = _find_shared_column(card, column, keys)
    name = column.column if isinstance(column, Cut) else column
    if shared is None and isinstance(column, str) and name not in card and card.unit is None:
        _refuse_condition(name, card)
    kind, written = find_column(name, card) if shared is None else (shared.kind, shared.written)
    if isinstance(column, Cut):
        cells = _read_cut(column, kind, written)
    else:
        known = shared.labels if shared is not None else card.column(name).labels if name in card else None
        cells = _read_labels(name, kind, written, known, keys)
    return cells if shared is None else [_Cell(cell.label, shared.write_share(cell.condition)) for cell in cells]


def _refuse_condition(name: str, card: Card) -> None:
    """Refuse a condition in place of a column: a row may meet two of them, and so be in two cells."""
    with suppress(UnsupportedQuery, UnknownColumn):
        if parse(name, card).boolean:
            words = "cells are labels or cut points of columns, so that no row is in two: ask each condition as a question"
            raise InvalidParameter.saying("columns", words)


def _read_labels(
    name: str, kind: str, written: str, known: tuple[Label, ...] | None, keys: Mapping[str, Sequence[Label]]
) -> list[_Cell]:
    if kind == "boolean" and name not in keys:
        return [_Cell(True, written), _Cell(False, f"NOT {written}")]  # noqa: FBT003 - labels
    if kind == "text" and known is not None and name not in keys:
        return _list_texts(written, known)
    labels = keys.get(name, known)
    if labels is None:
        message = f"the labels of {name} are not public: name them (keys=), have them on the card (labels=), or cut a number"
        raise NotCertified(message)
    given = [_read_label(label) for label in read_list("keys", labels, expected="a list of labels")]
    if not given or len({(type(label) is bool, label) for label in given}) < len(given):
        raise InvalidParameter("keys", list(given), "different labels, one or more")
    return [_Cell(label, f"{written} = {_quote_label(label)}") for label in given]


@lru_cache(64)
def _list_texts(written: str, labels: tuple[Label, ...]) -> list[_Cell]:
    """Return the cells of a column of text by the labels of its card, which were checked; nobody changes the list."""
    return [_Cell(label, f"{written} = {_quote_label(label)}") for label in labels]


def _read_label(label: object) -> Label:
    """Return a label as text, a finite number or a truth: only these are constants of a query, and no name of a column."""
    value = label.item() if isinstance(label, np.generic) else label
    whole = isinstance(value, int) and LOWEST <= value <= HIGHEST
    if isinstance(value, str) or whole or (isinstance(value, float) and math.isfinite(value)):
        return value  # type: ignore[return-value]  # what was just looked at
    raise InvalidParameter.without_value("keys", "labels that are text, numbers, or True and False")


def _check_disjoint(column: str | Cut, axis: CellAxis) -> None:
    """Refuse labels that a column cannot tell apart: two whole numbers may be one double, and a row be in two cells."""
    if isinstance(column, Cut):
        return  # points increase
    if len({query.digest for query in axis.conditions}) < len(axis.conditions):
        raise InvalidParameter.without_value("keys", f"values that {column} can hold, each once")


def _read_cut(asked: Cut, kind: str, name: str) -> list[_Cell]:
    given = cut(asked.column, asked.points, inside=asked.inside)  # a record may come from anywhere
    points, (before, after) = _write_points(kind, given), ("before", "after") if kind in _KEYWORDS else ("below", "above")
    closed = len(points) - 2 if given.inside else -1  # nothing is above the last cell, so that it holds its upper end
    inner = [
        _Cell(f"{low} to {high}", f"{name} >= {first} AND {name} {'<=' if at == closed else '<'} {end}")
        for at, ((low, first), (high, end)) in enumerate(pairwise(points))
    ]
    if given.inside:
        return inner
    (low, first), (high, end) = points[0], points[-1]
    return [_Cell(f"{before} {low}", f"{name} < {first}"), *inner, _Cell(f"{high} and {after}", f"{name} >= {end}")]


def _write_points(kind: str, given: Cut) -> list[tuple[str, str]]:
    """Return each point as a label shows it and as SQL has it; refuse points that the column cannot be compared with."""
    dated = isinstance(given.points[0], str)
    if kind not in ("integer", "real", *_KEYWORDS) or dated != (kind in _KEYWORDS):
        fitting = "dates" if dated else "numbers"
        raise InvalidParameter("columns", given.column, f"a column of {fitting} to be cut at these points; it is {kind}")
    if not dated:
        short = len({f"{point:g}" for point in given.points}) == len(given.points)
        return [(f"{point:g}" if short else repr(point), repr(point)) for point in given.points]
    if kind == "date" and not all(is_date(str(point)) for point in given.points):
        raise InvalidParameter.saying("points", f"points must be dates, without a time: {given.column} holds dates")
    return [(str(point), f"{_KEYWORDS[kind]} '{point}'") for point in given.points]


def _quote_label(label: Label) -> str:
    if isinstance(label, bool):
        return str(label).upper()
    return quote_text(label) if isinstance(label, str) else repr(label)
