"""MARGINALS: all tables of two or three columns, or named ones, released in one request at two questions each (V2.3)."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Literal, TypeAlias

import numpy as np

from holdtrue.codec import encode
from holdtrue.errors import InvalidParameter
from holdtrue.events import NoCost, Repeated
from holdtrue.exact import read_list, text_among, truth
from holdtrue.mechanisms import Gaussian
from holdtrue.planning.plans import AnyPlan
from holdtrue.planning.tables import TablePrice, move_to_total, place_price, price_marginal
from holdtrue.queries.cards import Card, Label
from holdtrue.records import Certificate, Marginals, Response, Table
from holdtrue.requests import Cut
from holdtrue.verbs import Answered, Curation, Job, Measured, Planned, Release, Standing
from holdtrue.verbs.tables import TableLayout, list_sizes, read_groups

__all__ = ["MOST_TOGETHER", "Sets", "release_marginals"]

Sets: TypeAlias = Literal["pairs", "triples"] | Sequence[Sequence[str]]
"""Which columns each table has: all pairs, all triples, or the columns of each."""

MOST_TOGETHER = 500_000
"""The most cells that all tables of one request have."""
_SIZES = {"pairs": 2, "triples": 3}
_PARTS = "marginal"


def release_marginals(  # noqa: PLR0913 - one request, and who makes it
    curation: Curation,
    sets: Sets,
    *,
    columns: Sequence[str | Cut] | None,
    keys: Mapping[str, Sequence[Label]] | None,
    margins: bool,
    key: str | None,
    analyst: str | None,
) -> Marginals:
    """Return all tables; nothing is charged before every label and every size was checked, and none twice."""
    layouts = _read_layouts(curation, sets, columns, keys, margins=margins)
    found = curation.run(Job(partial(_plan_marginals, curation, layouts), key, analyst))
    tables = tuple(each for each in found if isinstance(each, Table))
    newest = max((each.certificate for each in tables), key=lambda each: each.entry)
    return Marginals(tables, newest, repeated=all(each.repeated for each in tables))


def _read_layouts(
    curation: Curation,
    sets: Sets,
    columns: Sequence[str | Cut] | None,
    keys: Mapping[str, Sequence[Label]] | None,
    *,
    margins: bool,
) -> list[TableLayout]:
    given = _find_columns(curation.card, columns, keys)
    names = [each.column if isinstance(each, Cut) else each for each in given]
    sizes = dict(zip(names, list_sizes(curation.card, given, keys), strict=True))
    chosen = _list_sets(sets, names)
    _check_room(chosen, sizes)
    declared: tuple[Literal["margins"], ...] = ("margins",) if truth("margins", margins) else ()
    by_name, layouts = dict(zip(names, given, strict=True)), []
    for each in chosen:
        own = None if keys is None else {name: keys[name] for name in each if name in keys}
        groups = read_groups(curation, [by_name[name] for name in each], where=None, keys=own)
        layouts.append(TableLayout(groups, groups.cells.find_name(), declared if len(each) > 1 else ()))
    return layouts


def _find_columns(
    card: Card, columns: Sequence[str | Cut] | None, keys: Mapping[str, Sequence[Label]] | None
) -> list[str | Cut]:
    """Return the columns: those given, or all whose cells are public."""
    if keys is not None and not isinstance(keys, Mapping):
        raise InvalidParameter.without_value("keys", "labels by column: keys={'region': ['N', 'S']}")
    if columns is not None:
        return read_list("columns", columns, expected="a list of columns, or of ht.cut(column, points)")
    known = [
        each.name
        for each in card.columns
        if each.type == "boolean" or each.labels is not None or (keys is not None and each.name in keys)
    ]
    if not known:
        raise InvalidParameter.saying(
            "columns", "no column has public labels: name columns, with ht.cut for numbers, or keys="
        )
    return list(known)


def _list_sets(sets: Sets, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the columns of each table."""
    if isinstance(sets, str):
        size = _SIZES[text_among("sets", sets, tuple(_SIZES))]
        if len(names) < size:
            raise InvalidParameter("sets", sets, f"the columns of each table: there are {len(names)} columns")
        return list(combinations(names, size))
    expected = "'pairs', 'triples', or a list with the columns of each table"
    found: dict[frozenset[str], tuple[str, ...]] = {}
    for each in read_list("sets", sets, expected=expected):
        if isinstance(each, str) or not isinstance(each, Sequence) or not each:
            raise InvalidParameter.without_value("sets", expected)
        for name in each:
            if name not in names:
                raise InvalidParameter("sets", name, f"one of the columns {', '.join(names)}")
        if len(set(each)) < len(each) or frozenset(each) in found:
            raise InvalidParameter.without_value("sets", "different columns in each table, and different tables")
        found[frozenset(each)] = tuple(each)
    if not found:
        raise InvalidParameter.without_value("sets", expected)
    return list(found.values())


def _check_room(chosen: Sequence[tuple[str, ...]], sizes: Mapping[str, int]) -> None:
    """Refuse tables that have too many cells together, and say which columns to bin."""
    cells = sum(1 + math.prod(sizes[name] for name in each) for each in chosen)
    if cells > MOST_TOGETHER:
        used = {name for each in chosen for name in each}
        widest = sorted(used, key=lambda name: -sizes[name])[:3]
        listed = ", ".join(f"{name} ({sizes[name]:,} cells)" for name in widest)
        message = f"these tables have {cells:,} cells together, and {MOST_TOGETHER:,} fit: bin {listed} with ht.cut or keys="
        raise InvalidParameter.saying("columns", message)


def _plan_marginals(curation: Curation, layouts: Sequence[TableLayout], answered: Answered) -> Planned:
    """Plan the tables that were not released before, as one charge; those that were are told again for nothing."""
    parts = tuple(f"{_PARTS} {each.digest}" for each in layouts)
    missing = {part: each for part, each in zip(parts, layouts, strict=True) if not answered.has(part)}
    release = _make_release(curation.plan, curation.card.rows, missing)
    request = encode({"tables": [each.request for each in layouts], "verb": "marginals"})

    def measure() -> Measured:
        engine, bits, shown = curation.engine, curation.plan.bits, curation.progress
        found = [engine.sum_cells(each.groups.cells, bits=bits, progress=shown) for each in missing.values()]
        return np.concatenate([np.array(each, dtype=np.int64) for each in found])

    return Planned(parts, release, request, measure if missing else list)


def _make_release(plan: AnyPlan, rows: int, layouts: Mapping[str, TableLayout]) -> Release:
    """Return the release of tables of all rows: one event for each move of a row in each of them.

    Law: replacing a row moves two cells of each table by 1 at most, so that M tables have squared sensitivity 2 M, and
    2 M times the event of one cell is their composition (U1.1, V2.3).
    """
    prices = [_find_price(plan, each) for each in layouts.values()]
    unit, total = 1 << plan.bits, rows << plan.bits
    mechanism = Gaussian(sigma=Fraction(prices[0].sigma) * rows * unit, sensitivity=unit) if prices else None

    def draw(sums: Measured) -> Sequence[int]:
        cells: list[int] = []
        start = 0
        for each in layouts.values():
            counted = np.asarray(sums[start : start + each.groups.cells.number])
            start += len(counted)
            cells += [*counted.tolist(), total - int(counted.sum())]
        return [] if mechanism is None else mechanism.release(np.array(cells)).tolist()

    def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
        found: list[Response] = []
        start, place = 0, standing.draws - sum(price.questions for price in prices)
        for layout, price in zip(layouts.values(), prices, strict=True):
            stop, place = start + layout.groups.cells.number + 1, place + price.questions
            placed = place_price(plan, price, draw=place, spent=standing.spent)
            moved = move_to_total(drawn[start:stop], total) if price.whole else drawn[start:stop]
            found.append(layout.make_table(moved, plan, rows=rows, price=placed, certificate=certificate))
            start = stop
        return found

    columns = dict.fromkeys(name for each in layouts.values() for name in each.groups.names)
    words = f"{len(layouts):,} table{'s' * (len(layouts) != 1)} of {', '.join(columns)}"
    return Release(
        verb="marginals",
        request={"tables": [each.request for each in layouts.values()], "target": words},
        parts=tuple(layouts),
        event=NoCost() if mechanism is None else Repeated(mechanism.event, 2 * len(layouts)),
        cost=sum(price.cost for price in prices),
        draws=sum(price.questions for price in prices),
        queries=(),
        draw=draw,
        respond=respond,
    )


def _find_price(plan: AnyPlan, layout: TableLayout) -> TablePrice:
    return price_marginal(plan, layout.groups.cells.number + 1, unions=layout.count_unions())
