"""MEAN: the mean of a column within public bounds in each of several groups, all released at once (U1, U2)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Literal, TypeAlias

from msgspec import UNSET

from holdtrue.codec import digest_of
from holdtrue.errors import InvalidParameter
from holdtrue.events import DiscreteLaplace, Pure, Repeated
from holdtrue.exact import Number, rational, read_list
from holdtrue.planning.plans import AnyPlan
from holdtrue.planning.tables import CellEnds, TablePrice, find_ends, find_ratio, move_to_total, place_price, price_means
from holdtrue.queries.cards import Label
from holdtrue.queries.cells import DisjointCells
from holdtrue.queries.parser import find_column
from holdtrue.records import Certificate, Estimates, Means, Response
from holdtrue.requests import By, Cut
from holdtrue.verbs import Curation, Job, Measured, Release, Standing, plan_single
from holdtrue.verbs.asking import NOT_INDEPENDENT, refuse_own_units
from holdtrue.verbs.tables import Groups, make_noise, read_axis, read_groups

__all__ = ["Keys", "average", "average_query", "find_bounds", "plan_mean", "plan_share", "read_bounds", "read_by"]

Keys: TypeAlias = Mapping[str, Sequence[Label]] | Sequence[Label]
_MOST_GROUPS = 25_000
_LARGEST = 1e200


def average(  # noqa: PLR0913 - one request, and who makes it
    curation: Curation,
    column: str,
    *,
    low: Number | None,
    high: Number | None,
    where: str | None,
    by: By | None,
    keys: Keys | None,
    questions: int | None,
    key: str | None,
    analyst: str | None,
) -> Means:
    """Return the mean of a column in each group; nothing is charged before every name and every bound was checked."""
    release = plan_mean(curation, column, low=low, high=high, where=where, by=by, keys=keys, questions=questions)
    (found,) = curation.run(Job(partial(plan_single, release), key, analyst))
    return found  # type: ignore[return-value]  # the response to a mean


def average_query(  # noqa: PLR0913 - one request, and who makes it
    curation: Curation,
    query: object,
    *,
    by: By,
    keys: Keys | None,
    questions: int | None,
    key: str | None,
    analyst: str | None,
) -> Means:
    """Return the share of a query within each group, and the groups' own shares."""
    release = plan_share(curation, query, by=by, keys=keys, questions=questions)
    (found,) = curation.run(Job(partial(plan_single, release), key, analyst))
    return found  # type: ignore[return-value]  # the response to a mean


def plan_mean(  # noqa: PLR0913 - one request
    curation: Curation,
    column: str,
    *,
    low: Number | None,
    high: Number | None,
    where: str | None = None,
    by: By | None = None,
    keys: Keys | None = None,
    questions: int | None = None,
) -> Release:
    """Return the release of the means of a column: one charge, one draw of noise for each of the cells.

    Law: a row of a group whose value is inside adds y to one cell and 1 - y to another, y = (value - low)/(high - low)
    rounded to the grid; below and above have cells of their own, and every other row of ``where`` is in one further cell, so
    that what a row adds is nonnegative and 1 in all, and replacing it moves all cells by a square of 2 at most (U1.1).
    """
    kind, name = find_column(column, curation.card)
    if kind not in ("integer", "real"):
        raise InvalidParameter("column", column, f"a column of numbers; it is {kind}, whose share ask(query, by=...) gives")
    bounds = find_bounds(curation, column, low, high)
    groups = read_groups(curation, read_by(by), where=where, keys=keys, most=_MOST_GROUPS)
    first, last = (repr(end) for end in bounds)
    width = float(Fraction(bounds[1]) - Fraction(bounds[0]))
    sides = (f"{name} >= {first} AND {name} <= {last}", f"{name} < {first}", f"{name} > {last}")
    value = curation.parse(f"({name} - ({first})) / {width!r}")
    cells = replace(groups.cells, value=value, sides=read_axis(curation.card, column, sides))
    return _MeanLayout("mean", column, bounds, groups, cells, cells.find_name(), questions).to_release(curation)


def plan_share(
    curation: Curation, query: object, *, by: By, keys: Keys | None = None, questions: int | None = None
) -> Release:
    """Return the release of the share of a query, or the mean of one that is a number from 0 to 1, within each group."""
    if not isinstance(query, str):
        raise InvalidParameter("queries", type(query).__name__, "one question in text, where by= is given")
    asked, columns = curation.parse(query), read_by(by)
    refuse_own_units(asked, curation.card)
    if not columns:
        raise InvalidParameter("by", by, "one column or more, or ht.cut(column, points)")
    groups = read_groups(curation, columns, where=None, keys=keys, most=_MOST_GROUPS)
    cells = replace(groups.cells, value=asked)
    return _MeanLayout("share", asked.text, (0.0, 1.0), groups, cells, cells.find_name(), questions).to_release(curation)


def read_by(by: object) -> tuple[str | Cut, ...]:
    """Return the columns of groups: none, one, or several."""
    if by is None:
        return ()
    given = [by] if isinstance(by, (str, Cut)) else read_list("by", by, expected="a column, or a list of them")
    for each in given:
        if not isinstance(each, (str, Cut)):
            raise InvalidParameter("by", type(each).__name__, "a column, ht.cut(column, points), or a list of them")
    return tuple(given)


def find_bounds(curation: Curation, column: str, low: Number | None, high: Number | None) -> tuple[float, float]:
    """Return the ends that were given, or those that the card declares."""
    card = curation.card
    known = (card.column(column).bounds if column in card else None) or (None, None)
    first, last = known[0] if low is None else low, known[1] if high is None else high
    if first is None or last is None:
        raise InvalidParameter.saying("low", f"give low and high, public ends of {column}: the card declares none")
    return read_bounds(first, last)


def read_bounds(low: Number, high: Number) -> tuple[float, float]:
    """Return two public ends as doubles; refuse what is no range."""
    first, last = float(rational("low", low)), float(rational("high", high))
    if first >= last:
        raise InvalidParameter("low", low, "below high")
    for name, end in (("low", first), ("high", last)):
        if abs(end) > _LARGEST:
            raise InvalidParameter(name, end, f"between {-_LARGEST:g} and {_LARGEST:g}")
    if last - first < 1 / _LARGEST:
        raise InvalidParameter("high", high, f"at least {1 / _LARGEST:g} above low")
    return first, last


@dataclass(frozen=True, slots=True, eq=False)
class _MeanLayout:
    """The cells of means: what is averaged between which bounds, the groups, what is summed, and the name of that.

    A mean has four sums for each group: rows inside, the sum of y, rows below and rows above. A share has two: the rows of
    the group, and the sum of the query.
    """

    measure: Literal["mean", "share"]
    column: str
    bounds: tuple[float, float]
    groups: Groups
    cells: DisjointCells
    name: str
    questions: int | None = None

    @property
    def priced(self) -> dict[str, object]:
        """Return what stands for a price that somebody chose: means at another price are others."""
        return {} if self.questions is None else {"questions": self.questions}

    @property
    def outside(self) -> bool:
        """Return whether rows may lie outside of the bounds."""
        return self.measure == "mean"

    @property
    def part(self) -> str:
        """Return what the means are found again by: their cells and their bounds."""
        known = {"cells": self.name, "bounds": [repr(end) for end in self.bounds]}
        return f"{self.measure} {digest_of(known | self.priced)}"

    def split(self, sums: Sequence[int]) -> list[int]:
        """Return the cells from the sums of all queries: y, 1 - y, and the sides where there are any, for each group.

        The complement is what is left of whole rows, and is not rounded by itself (U1.2).
        """
        step = 4 if self.outside else 2
        found: list[int] = []
        for start in range(0, self.cells.number, step):
            whole, part, *sides = sums[start : start + step]
            found += [part, whole - part, *sides]
        return found

    def to_release(self, curation: Curation) -> Release:
        """Return the release of these cells and of one for every other row of ``where``."""
        plan, rows, base = curation.plan, curation.card.rows, self.groups.base
        number, unit = len(self.groups.labels), 1 << plan.bits
        price = price_means(plan, number, outside=self.outside, whole=base is None, questions=self.questions)
        mechanism = make_noise(plan, price, rows=rows)
        # A row may move many cells by a part of a unit each: in pure epsilon that is no more than two by a whole one.
        claim = mechanism.event
        event = Pure(2 * claim.epsilon) if isinstance(claim, DiscreteLaplace) else Repeated(claim, 2)

        def draw(sums: Measured) -> Sequence[int]:
            counted = [int(value) for value in sums]
            cells = self.split(counted)
            rest = (rows * unit if base is None else counted[-1]) - sum(cells)
            return [int(value) for value in mechanism.release([*cells, rest])]

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            moved = move_to_total(drawn, rows * unit) if price.whole else drawn
            answers = [value / (rows * unit) for value in moved]
            placed = place_price(plan, price, draw=standing.draws, spent=standing.spent)
            return [_read_means(answers, plan, self, price=placed, rows=rows, certificate=certificate)]

        request: dict[str, object] = {"measure": self.measure, "column": self.column, "bounds": list(self.bounds)}
        request |= {"columns": list(self.groups.names), "labels": [list(each) for each in self.groups.labels]}
        request |= {"where": None if base is None else base.text} | self.priced
        return Release(
            verb="mean",
            request=request,
            parts=(self.part,),
            event=event,
            cost=price.cost,
            draws=price.questions,
            queries=(),
            draw=draw,
            respond=respond,
            cells=self.cells,
        )


@dataclass(frozen=True, slots=True)
class _GroupEnds:
    """What one group's noisy cells say: numbers with their ends."""

    mean: tuple[float, CellEnds]
    share: tuple[float, CellEnds]
    per_head: tuple[float, CellEnds]
    below: tuple[float, CellEnds] | None
    above: tuple[float, CellEnds] | None


def _read_means(  # noqa: PLR0913 - the public parts of one release
    answers: Sequence[float], plan: AnyPlan, layout: _MeanLayout, *, price: TablePrice, rows: int, certificate: Certificate
) -> Means:
    """Say what noisy cells say of each group's mean, in the column's own units."""
    step, groups = 4 if layout.outside else 2, layout.groups
    found = [
        _read_group(answers[start : start + step], plan, price, layout.bounds) for start in range(0, len(answers) - 1, step)
    ]
    means = _gather(each.mean for each in found)
    rest = _clip(answers[-1]), find_ends(plan, price, answers[-1:])
    return Means(
        columns=groups.names,
        labels=groups.labels,
        values=means.values,
        low=means.low,
        high=means.high,
        sample_low=means.sample_low,
        sample_high=means.sample_high,
        confidence=1 - plan.beta,
        certificate=certificate,
        reason=NOT_INDEPENDENT if means.low is None else None,
        measure=layout.measure,
        column=layout.column,
        bounds=layout.bounds,
        rows=rows,
        where=None if groups.base is None else groups.base.text,
        shares=_gather(each.share for each in found),
        per_head=_gather(each.per_head for each in found),
        below=_gather(each.below for each in found if each.below is not None) if layout.outside else None,
        above=_gather(each.above for each in found if each.above is not None) if layout.outside else None,
        missing=_gather([rest]),
        whole=True if price.whole else UNSET,
    )


def _read_group(cells: Sequence[float], plan: AnyPlan, price: TablePrice, bounds: tuple[float, float]) -> _GroupEnds:
    """Return a group's numbers from its cells: y and 1 - y, and the rows below and above where there are any (U2.6)."""
    inside, outside = cells[:2], cells[2:]
    part, rest = [inside[0], *outside[1:]], [inside[1], *outside[:1]]
    over, under = max(0.0, math.fsum(part)), max(0.0, math.fsum(rest))
    ratio = find_ratio(plan, price, part, rest)
    parts, rests, whole = (find_ends(plan, price, each) for each in (part, rest, cells))
    scale = partial(_scale_ends, bounds=bounds)
    value = over / (over + under) if over + under > 0 else 0.5
    mean = CellEnds(scale(ratio.sample), None if ratio.population is None else scale(ratio.population))
    heads = CellEnds(
        _find_per_head(bounds, parts.sample, rests.sample, whole.sample),
        None
        if parts.population is None or rests.population is None or whole.population is None
        else _find_per_head(bounds, parts.population, rests.population, whole.population),
    )
    sides = [(_clip(each), find_ends(plan, price, [each])) for each in outside]
    return _GroupEnds(
        mean=(_within(bounds[0] + (bounds[1] - bounds[0]) * value, mean.sample), mean),
        share=(_clip(math.fsum(cells)), whole),
        per_head=(_within(bounds[0] * math.fsum(rest) + bounds[1] * math.fsum(part), heads.sample), heads),
        below=sides[0] if sides else None,
        above=sides[1] if sides else None,
    )


def _scale_ends(ends: tuple[float, float], *, bounds: tuple[float, float]) -> tuple[float, float]:
    """Return ends of y as ends in the column's own units, outward by more than any rounding of y and of the scaling."""
    first, last = bounds
    slack = _slack_of(bounds)
    low, high = (first + (last - first) * end for end in ends)
    return max(first, low - slack), min(last, high + slack)


def _slack_of(bounds: tuple[float, float]) -> float:
    """Return more than y, computed in doubles, may be off by, and more than scaling it may be rounded by."""
    return (bounds[1] - bounds[0]) * 2.0**-44 + (abs(bounds[0]) + abs(bounds[1])) * 2.0**-50


def _find_per_head(
    bounds: tuple[float, float], part: tuple[float, float], rest: tuple[float, float], whole: tuple[float, float]
) -> tuple[float, float]:
    """Return ends of low rest + high part, which is also low whole + width part and high whole - width rest (U2.1).

    All rows of a group are at most one whole, so that what they add per head lies between the bounds and 0.
    """
    first, last = bounds
    width, slack = last - first, _slack_of(bounds)
    forms = [((first, rest), (last, part)), ((first, whole), (width, part)), ((last, whole), (-width, rest))]
    spans = [_add_spans(form) for form in forms]
    low, high = max(each[0] for each in spans), min(each[1] for each in spans)
    low, high = (low, high) if low <= high else spans[0]
    public = min(first, 0.0), max(last, 0.0)
    return _within(low - slack, public), _within(high + slack, public)


def _add_spans(terms: Iterable[tuple[float, tuple[float, float]]]) -> tuple[float, float]:
    found = [sorted((factor * ends[0], factor * ends[1])) for factor, ends in terms]
    return sum(each[0] for each in found), sum(each[1] for each in found)


def _within(value: float, ends: tuple[float, float]) -> float:
    return min(max(value, ends[0]), ends[1])


def _clip(value: float) -> float:
    return _within(value, (0.0, 1.0))


def _gather(found: Iterable[tuple[float, CellEnds]]) -> Estimates:
    """Return numbers with their ends, one for each group."""
    pairs = list(found)
    known = [ends.population for _, ends in pairs if ends.population is not None]
    return Estimates(
        values=tuple(value for value, _ in pairs),
        low=tuple(ends[0] for ends in known) if known else None,
        high=tuple(ends[1] for ends in known) if known else None,
        sample_low=tuple(ends.sample[0] for _, ends in pairs),
        sample_high=tuple(ends.sample[1] for _, ends in pairs),
    )
