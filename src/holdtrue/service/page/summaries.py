"""Tables, means, sums, quantiles and statistics on the page of a dataset: their price before, bars and intervals after."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from anyio import to_thread
from fastapi import APIRouter, Request
from msgspec.structs import asdict
from starlette.responses import Response

from holdtrue.codec import encode
from holdtrue.curator import Curator
from holdtrue.demo.population import find_true_mean, find_true_quantile, find_true_shares, find_true_sum
from holdtrue.errors import HoldtrueError, InvalidParameter
from holdtrue.exact import amount
from holdtrue.planning.plans import OpenPlan
from holdtrue.planning.quantiles import MOST_CELLS
from holdtrue.planning.tables import find_ends, price_table
from holdtrue.queries.cards import Card, Label
from holdtrue.records import Means, Quantiles, Statistic
from holdtrue.records import Table as TableResponse
from holdtrue.requests import Cut, Mean, Quantile, Table, Total
from holdtrue.service.datasets import Dataset
from holdtrue.service.http.bodies import decode_body, fields_of
from holdtrue.service.http.problems import detail_of
from holdtrue.service.identity import Caller, demand_role
from holdtrue.service.page.access import PageRoute, Visitor, form_of, make_key, text_of
from holdtrue.service.page.form_fields import (
    STATISTICS,
    find_true_statistic,
    read_column_ends,
    read_number,
    read_numbers,
    read_statistic_form,
    read_whole,
)
from holdtrue.service.page.rendering import asked_by_htmx, show_page
from holdtrue.service.page.summary_views import (
    MOMENTS,
    Summary,
    from_means,
    from_quantiles,
    from_statistic,
    from_table,
    suggest_points,
    suggest_step,
)
from holdtrue.service.page.views import find_dataset, make_context, read_standing
from holdtrue.verbs import Release
from holdtrue.verbs.means import find_bounds, plan_mean, read_by
from holdtrue.verbs.pairs import StatisticRequest, read_statistic
from holdtrue.verbs.quantiles import QuantileTask, plan_curve, read_task
from holdtrue.verbs.tables import plan_table, read_groups

__all__ = ["read_mean", "read_quantile", "read_table", "router"]

router = APIRouter(route_class=PageRoute, include_in_schema=False)

Asked: TypeAlias = Table | Mean | Quantile | StatisticRequest
Found: TypeAlias = TableResponse | Means | Quantiles | Statistic

_LONGEST = 4096
_SHORT = 400
_MOST_CELLS = 100


def _add_routes(kind: str) -> None:
    """Add the two routes of a form: what it would cost, for nothing, and its answer. One form is charged once."""

    async def show_price(request: Request, caller: Visitor, name: str) -> Response:
        return await _show_price(request, caller, name, kind)

    async def show_answer(request: Request, caller: Visitor, name: str) -> Response:
        return await _answer(request, caller, name, kind)

    for path, handler in ((f"preview-{kind}", show_price), (kind, show_answer)):
        router.add_api_route(f"/page/datasets/{{name}}/{path}", handler, methods=["POST"], response_model=None, name=path)


def read_table(card: Card, form: Mapping[str, str]) -> Table:
    """Return the table that a form asks for; nothing is charged for a form that asks for none."""
    columns = _read_groups(card, form)
    if not columns:
        raise InvalidParameter.saying("by", "choose a column")
    rollups = _read_rollups(card, form, columns[0])
    return Table(columns=columns, where=_read_where(form), rollups=rollups, questions=read_whole(form, "questions"))


def read_mean(card: Card, form: Mapping[str, str]) -> Mean:
    """Return the mean that a form asks for; bounds that are left empty are those of the card."""
    column, low, high = read_column_ends(card, form)
    given: dict[str, Any] = {"where": _read_where(form), "by": _read_groups(card, form) or None}
    return Mean(column=column, low=low, high=high, questions=read_whole(form, "questions"), **given)


def read_quantile(card: Card, form: Mapping[str, str]) -> Quantile:
    """Return the quantiles that a form asks for; ends and step that are left empty are those that the card suggests."""
    column, low, high = _read_line(card, form)
    levels = read_numbers(form, "levels") or (0.5,)
    written = read_number(form, "step")
    step = suggest_step(card.column(column)) if written is None else written
    curve = bool(text_of(form, "curve", longest=8))
    if curve and step > 0 and isinstance(low, float) and isinstance(high, float) and (high - low) / step > MOST_CELLS:
        raise InvalidParameter.saying("step", f"a distribution has at most {MOST_CELLS:,} points; take a larger step")
    return Quantile(
        column=column,
        levels=levels[0] if len(levels) == 1 else levels,
        low=low,
        high=high,
        step=step,
        where=_read_where(form),
        method="curve" if curve else None,
    )


def _read_line(card: Card, form: Mapping[str, str]) -> tuple[str, float | str, float | str]:
    """Return a column of numbers or dates with its ends; those of dates are always written."""
    name = text_of(form, "column", longest=_SHORT, least=1)
    if card.column(name).type not in MOMENTS:
        return read_column_ends(card, form)
    low, high = (text_of(form, end, longest=_SHORT).strip() for end in ("low", "high"))
    for end, written in (("low", low), ("high", high)):
        if not written:
            raise InvalidParameter.saying(end, f"give {end}, a date such as 2026-01-31")
    return name, low, high


def read_sum(card: Card, form: Mapping[str, str]) -> Total:
    """Return the sum that a form asks for: that of a mean, and the size of the population if its total is wanted."""
    population = read_whole(form, "population")
    return decode_body(fields_of(read_mean(card, form)) | {"population": population}, Total)


_READERS: dict[str, Callable[[Card, Mapping[str, str]], Asked]] = {
    "table": read_table,
    "mean": read_mean,
    "sum": read_sum,
    "quantile": read_quantile,
    **{kind: partial(read_statistic_form, kind) for kind in STATISTICS},
}
for _kind in _READERS:
    _add_routes(_kind)


def _read_groups(card: Card, form: Mapping[str, str]) -> tuple[str | Cut, ...]:
    """Return the columns that make groups: by their labels, or cut at the points that the form or else the card has."""
    found: list[str | Cut] = []
    for field in ("by", "second"):
        name = text_of(form, field, longest=_SHORT)
        if not name:
            continue
        column = card.column(name)
        points: tuple[float, ...] | tuple[str, ...] = ()
        if column.type in ("integer", "real") and column.labels is None:
            points = read_numbers(form, f"{field}_points") or suggest_points(column)
            if not points:
                raise InvalidParameter.saying(f"{field}_points", f"give the points to cut {name} at, such as 10, 20, 30")
        elif column.type in MOMENTS:
            points = _read_dates(form, f"{field}_points", name)
        found.append(Cut(name, points) if points else name)
    cells = math.prod(_count_cells(card, each) for each in found)
    if cells > _MOST_CELLS:
        message = f"the page shows at most {_MOST_CELLS} cells and these are {cells:,}; ask for them in Python or over HTTP"
        raise InvalidParameter.saying("by", message)
    return tuple(found)


def _read_rollups(card: Card, form: Mapping[str, str], column: str | Cut) -> tuple[tuple[Label, ...], ...]:
    """Return the sums that a form declares: a line for each, its labels with commas between them."""
    lines = [line.split(",") for line in text_of(form, "rollups", longest=_LONGEST).splitlines() if line.strip()]
    labels = () if isinstance(column, Cut) else card.column(column).labels or (True, False)
    known = {str(label): label for label in labels}
    return tuple(tuple(known.get(word.strip(), word.strip()) for word in line) for line in lines)


def _read_dates(form: Mapping[str, str], field: str, name: str) -> tuple[str, ...]:
    """Return the dates and times of a field, separated by commas or semicolons; a time has spaces of its own."""
    words = [each.strip() for each in text_of(form, field, longest=_SHORT).replace(";", ",").split(",")]
    if not any(words):
        raise InvalidParameter.saying(field, f"give the dates to cut {name} at, such as 2026-01-31, 2026-07-01")
    return tuple(each for each in words if each)


def _count_cells(card: Card, column: str | Cut) -> int:
    if isinstance(column, Cut):
        return len(column.points) + 1
    return len(card.column(column).labels or (True, False))


def _read_where(form: Mapping[str, str]) -> str | None:
    return text_of(form, "where", longest=_LONGEST).strip() or None


async def _show_price(request: Request, caller: Caller, name: str, kind: str) -> Response:
    dataset, form = await find_dataset(request, name), await form_of(request)
    priced = await dataset.dispatcher.run_short(_find_price, dataset.curator, caller, kind, form)
    if asked_by_htmx(request):
        return show_page(request, "parts/price.html", {"priced": priced})
    context = make_context(request, await read_standing(dataset, caller))
    builder = replace(context["builder"], kind=kind, filled=form, priced=priced)
    return show_page(request, "dataset.html", context | {"builder": builder})


def _find_price(curator: Curator, caller: Caller, kind: str, form: Mapping[str, str]) -> dict[str, Any]:
    """Return what a form would cost, or what is wrong with it; no row is read."""
    try:
        asked = _READERS[kind](curator.card, form)
        plan, budget = curator.plan, curator.budget
        cap = amount(plan.cap_units) or 1.0
        if isinstance(asked, Quantile):
            most = curator.preview_quantile(**asdict(asked))
            curve = most.method == "curve"
            known = curve and _was_answered(curator, caller, plan_curve(curator.pipeline, _read_task(curator, asked)).parts)
            priced: dict[str, Any] = {
                "questions": most.asks,
                "share": most.cost / cap,
                "repeated": known,
                "points": most.points,
            }
            priced |= {"exact": curve}
        elif not isinstance(asked, (Table, Mean)):
            price, tasks = curator.preview_statistic(asked), read_statistic(curator.pipeline, asked).tasks
            repeated = _was_answered(curator, caller, [task.part for task in tasks])
            priced = {"questions": price.questions, "share": price.cost / cap, "repeated": repeated, "exact": True}
            priced |= {"wide": price.alphas or price.sample_alphas}
        else:
            release = _plan_release(curator, asked)
            repeated = _was_answered(curator, caller, release.parts)
            priced = {"questions": release.draws, "share": amount(release.cost) / cap, "repeated": repeated, "exact": True}
            priced |= {"alpha": _bound_cells(curator, asked)} if isinstance(asked, Table) else {}
    except HoldtrueError as error:
        return {"wrong": detail_of(error)}
    return priced | {"kind": kind, "iid": plan.iid, "left": budget.asks}


def _bound_cells(curator: Curator, asked: Table) -> float:
    """Return the widest that the interval of a cell can be, to one side: the plan's alpha, or what a price buys."""
    plan = curator.plan
    if asked.questions is None or isinstance(plan, OpenPlan):
        return plan.alpha if plan.iid else plan.sample_alpha
    cells = read_groups(curator.pipeline, asked.columns, where=asked.where, keys=None).cells.number + 1
    declared: dict[str, Any] = {"unions": Counter(map(len, asked.rollups)), "questions": asked.questions}
    ends = find_ends(plan, price_table(plan, cells, whole=asked.where is None, **declared), [0.5])
    low, high = ends.population or ends.sample
    return (high - low) / 2


def _read_task(curator: Curator, asked: Quantile) -> QuantileTask:
    return read_task(curator.pipeline, **asdict(asked))


def _plan_release(curator: Curator, asked: Table | Mean) -> Release:
    given = asdict(asked)
    given.pop("population", None)
    if isinstance(asked, Table):
        return plan_table(curator.pipeline, **given)
    return plan_mean(curator.pipeline, **given)


def _was_answered(curator: Curator, caller: Caller, parts: Sequence[str]) -> bool:
    """Return whether all parts were answered before, as far as a caller may see it: an analyst where the same name paid."""
    with curator.pipeline.lock_index() as index:
        seen = [part for part in parts if index.has(part)]
        own = caller.role != "analyst" or all(index.find_payer(part) == caller.name for part in seen)
    return len(seen) == len(parts) and own


async def _answer(request: Request, caller: Caller, name: str, kind: str) -> Response:
    """Ask what a form asks, and show it: a part for htmx, or the whole page, whose reload sends the same form again."""
    demand_role(caller, "owner", "analyst")
    dataset, form = await find_dataset(request, name), await form_of(request)
    asked = _READERS[kind](dataset.curator.card, form)
    key = make_key(caller, form, kind, encode(asked))
    found = await dataset.dispatcher.run_long(caller.name, _run_request, dataset.curator, asked, key, caller.name)
    request.scope["entry"] = found.certificate.entry
    summary = await to_thread.run_sync(_to_summary, dataset, asked, found)
    context = make_context(request, await read_standing(dataset, caller)) | {"summary": summary}
    if asked_by_htmx(request):
        return show_page(request, "parts/summarised.html", context | {"form_field": f"{kind}-form-id"})
    builder = replace(context["builder"], kind=kind, filled=form)
    return show_page(request, "dataset.html", context | {"builder": builder})


def _run_request(curator: Curator, asked: Asked, key: str, analyst: str) -> Found:
    given: dict[str, Any] = asdict(asked)
    who: dict[str, Any] = {"key": key, "analyst": analyst}
    if isinstance(asked, Table):
        return curator.table(*given.pop("columns"), **given, **who)
    if isinstance(asked, Mean):
        return (curator.sum if isinstance(asked, Total) else curator.mean)(**given, **who)
    return curator.quantile(**given, **who) if isinstance(asked, Quantile) else curator.find_statistic(asked, **who)


def _to_summary(dataset: Dataset, asked: Asked, found: Found) -> Summary:
    """Return a response as it is shown, with the truth of each number where the population is known."""
    truths: list[float | None] = [None] * (1 if isinstance(found, Statistic) else len(found))
    if dataset.truth is not None:
        with suppress(HoldtrueError):  # what was paid for is shown whatever becomes of its truth
            truths = _find_truths(dataset.curator, dataset.truth, asked)
    if isinstance(found, Statistic):
        return from_statistic(found, questions=max(1, len(found.parts)), truth=truths[0])
    if isinstance(asked, Quantile) and isinstance(found, Quantiles):
        return from_quantiles(found, grid=(asked.low, asked.high), truths=truths)
    if isinstance(asked, Table) and isinstance(found, TableResponse):
        questions = _plan_release(dataset.curator, asked).draws
        return from_table(found, where=asked.where, questions=questions, truths=truths, sums=asked.rollups)
    if isinstance(asked, Mean) and isinstance(found, Means):
        return from_means(found, questions=_plan_release(dataset.curator, asked).draws, truths=truths)
    raise TypeError(found)


def _find_truths(curator: Curator, truth: Callable[[str], float], asked: Asked) -> list[float | None]:
    """Return the truth of each number of a response."""
    if isinstance(asked, Quantile):
        task = _read_task(curator, asked)
        return [find_true_quantile(truth, task, level) for level in task.levels]
    if not isinstance(asked, (Table, Mean)):
        return [find_true_statistic(truth, asked)]
    columns = asked.columns if isinstance(asked, Table) else read_by(asked.by)
    cells = read_groups(curator.pipeline, columns, where=asked.where, keys=None).list_conditions()
    if isinstance(asked, Table):
        return list(find_true_shares(truth, cells, where=asked.where))
    low, high = find_bounds(curator.pipeline, asked.column, asked.low, asked.high)
    ends = {"low": low, "high": high}
    if isinstance(asked, Total):
        size = asked.population
        heads = [find_true_sum(truth, asked.column, conditions=conditions, **ends) for conditions in cells]
        return [None if size is None else size * head for head in heads]
    return [find_true_mean(truth, asked.column, conditions=conditions, **ends) for conditions in cells]
