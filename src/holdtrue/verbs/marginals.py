"""MARGINALS: all tables of two or three columns, or named ones, released in one request at two questions each (V2.3)."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Literal, NamedTuple, TypeAlias, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from holdtrue.bounds.transfer import transfer_ends
from holdtrue.codec import digest_of, encode
from holdtrue.errors import InvalidParameter, RefusedError
from holdtrue.events import NoCost, Repeated
from holdtrue.exact import ROUNDING, read_list, text_among, truth
from holdtrue.mechanisms import Gaussian
from holdtrue.planning.plans import AnyPlan
from holdtrue.planning.tables import (
    TablePrice,
    WorkloadPrice,
    check_price,
    move_to_total,
    place_price,
    price_marginal,
    price_workload,
)
from holdtrue.queries.cards import Card, Label
from holdtrue.records import Certificate, Marginals, Response, Table, Unions, Workload
from holdtrue.requests import Cut
from holdtrue.verbs import Answered, Curation, Job, Measured, Planned, Release, Standing
from holdtrue.verbs.asking import NOT_INDEPENDENT
from holdtrue.verbs.tables import TableLayout, list_sizes, list_widest, read_groups

__all__ = ["MOST_TOGETHER", "Sets", "count_spreads", "find_spreads", "preview_marginals", "release_marginals"]

Sets: TypeAlias = Literal["pairs", "triples"] | Sequence[Sequence[str]]
"""Which columns each table has: all pairs, all triples, or the columns of each."""
_Floats: TypeAlias = npt.NDArray[np.float64]


class MarginalOptions(TypedDict):
    """What is asked for beside the sets of columns, as :meth:`Curator.marginals` takes it."""

    columns: Sequence[str | Cut] | None
    keys: Mapping[str, Sequence[Label]] | None
    margins: bool
    questions: int
    workload: Sequence[Mapping[str, Label]] | None


MOST_TOGETHER = 500_000
"""The most cells that all tables of one request have."""
_MOST_DECLARED = 100_000
"""The most questions that are declared with one request."""
_SIZES = {"pairs": 2, "triples": 3}
_PARTS = "marginal"
_LEAST_PRICE = 2
_ADDED = 2.0**-40  # more than sums of answers are rounded by


def release_marginals(
    curation: Curation, sets: Sets, *, key: str | None, analyst: str | None, **given: Unpack[MarginalOptions]
) -> Marginals:
    """Return all tables; nothing is charged before every label and every size was checked, and none twice."""
    asked = _read_task(curation, sets, **given)
    found = curation.run(Job(partial(_plan_marginals, curation, asked), key, analyst))
    tables = tuple(each for each in found if isinstance(each, Table))
    newest = max((each.certificate for each in tables), key=lambda each: each.entry)
    declared = next((each for each in found if isinstance(each, Workload)), UNSET)
    return Marginals(tables, newest, repeated=all(each.repeated for each in tables), workload=declared)


def preview_marginals(curation: Curation, sets: Sets, **given: Unpack[MarginalOptions]) -> tuple[int, int]:
    """Return what tables would cost that were not released before: in questions and in units. Free; no row is read."""
    asked = _read_task(curation, sets, **given)
    with curation.lock_index() as index:
        release = _plan_marginals(curation, asked, index).release
    return release.draws, release.cost


def _read_task(curation: Curation, sets: Sets, **given: Unpack[MarginalOptions]) -> "_MarginalTask":
    price = check_price(given["questions"])
    layouts = _read_layouts(curation, sets, given["columns"], given["keys"], margins=given["margins"])
    return _MarginalTask(curation.plan, curation.card.rows, layouts, price, _read_workload(layouts, given["workload"]))


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
            here = f"{'is' if len(names) == 1 else 'are'} {', '.join(names)}"
            message = f"{sets} need {size} columns or more, and here {here}: name more, with ht.cut for numbers, or keys="
            raise InvalidParameter.saying("sets", message)
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
        widest = list_widest({name: sizes[name] for each in chosen for name in each})
        message = f"these tables have {cells:,} cells together, and {MOST_TOGETHER:,} fit: bin {widest} with ht.cut or keys="
        raise InvalidParameter.saying("columns", message)


class _DeclaredQuestions(NamedTuple):
    """Questions that are declared with tables: the columns, and the labels of each question, None where any will do."""

    columns: tuple[str, ...]
    labels: tuple[tuple[Label | None, ...], ...]

    @property
    def digest(self) -> str:
        """Return what stands for the questions, in their order."""
        return digest_of({"columns": list(self.columns), "labels": [list(each) for each in self.labels]})

    def list_sets(self) -> list[tuple[str, ...]]:
        """Return the columns that each question has a label of."""
        return [
            tuple(name for name, label in zip(self.columns, each, strict=True) if label is not None) for each in self.labels
        ]

    @property
    def request(self) -> dict[str, object]:
        """Return what the ledger keeps before the draw: what stands for the questions, and how many have which columns."""
        numbers = Counter(self.list_sets())
        return {"digest": self.digest, "sets": [[list(names), number] for names, number in numbers.items()]}


def _read_workload(
    layouts: Sequence[TableLayout], workload: Sequence[Mapping[str, Label]] | None
) -> _DeclaredQuestions | None:
    """Return the declared questions; refuse one that no table answers, before anything is charged."""
    if workload is None:
        return None
    expected = "a list of labels by column: [{'sex': 'F', 'region': 'N'}, {'region': 'S'}]"
    given = read_list("workload", workload, expected=expected)
    if not 0 < len(given) <= _MOST_DECLARED:
        raise InvalidParameter("workload", len(given), f"1 to {_MOST_DECLARED:,} questions")
    known = {
        name: dict.fromkeys(each[at] for each in layout.groups.labels)
        for layout in layouts
        for at, name in enumerate(layout.groups.names)
    }
    together = [frozenset(layout.groups.names) for layout in layouts]
    seen: dict[frozenset[str], bool] = {}
    for each in given:
        if not isinstance(each, Mapping) or not each:
            raise InvalidParameter.without_value("workload", expected)
        for name, label in each.items():
            if name not in known or not isinstance(label, (str, int, float, bool)) or label not in known[name]:
                raise InvalidParameter("workload", f"{name} = {label}", "labels of cells of these tables, by column")
        names = frozenset(each)
        if not seen.setdefault(names, any(names <= own for own in together)):
            raise InvalidParameter("workload", sorted(names), "columns that are together in one of these tables")
    columns = tuple(known)
    return _DeclaredQuestions(columns, tuple(dict.fromkeys(tuple(each.get(name) for name in columns) for each in given)))


class _Source(NamedTuple):
    """A table that answers a question: its place, how many cells it adds up, and with which weight."""

    place: int
    cells: int
    weight: float


def _find_sources(names: Sequence[str], tables: Sequence[Mapping[str, int]]) -> list[_Source]:
    """Return the tables that have these columns, weighted by the inverse of their variance.

    ``tables`` are the numbers of labels by column.
    """
    found = [
        (at, math.prod(size for name, size in sizes.items() if name not in names))
        for at, sizes in enumerate(tables)
        if set(names) <= set(sizes)
    ]
    whole = math.fsum(1 / cells for _, cells in found)
    return [_Source(at, cells, 1 / cells / whole) for at, cells in found]


def find_spreads(names: Sequence[str], tables: Sequence[Mapping[str, int]]) -> tuple[float, float]:
    """Return the deviations of the sums that bound a question with labels of some columns, in those of one cell.

    The lower end is of the cells with its labels, the upper one also of the rows in no cell of tables with other columns,
    which may have these labels. Law: the sum of n cells has the variance of n cells at most, also where answers are moved
    to the known total (U1.5); noise of different tables is independent.
    """
    found, own = _find_sources(names, tables), len(set(names))
    low = math.fsum(each.weight**2 * each.cells for each in found)
    more = math.fsum(each.weight**2 for each in found if len(tables[each.place]) > own)
    return math.sqrt(low) * ROUNDING, math.sqrt(low + more) * ROUNDING


def count_spreads(sets: Iterable[tuple[Sequence[str], int]], tables: Sequence[Mapping[str, int]]) -> dict[float, int]:
    """Return the deviations of both ends of declared questions, and how many ends have each."""
    found: Counter[float] = Counter()
    for names, number in sets:
        for spread in find_spreads(names, tables):
            found[spread] += number
    return dict(found)


@dataclass(frozen=True, slots=True, eq=False)
class _MarginalTask:
    """What is asked for: the tables, the price of each in questions, and the questions that are declared with them."""

    plan: AnyPlan
    rows: int
    layouts: Sequence[TableLayout]
    questions: int
    workload: _DeclaredQuestions | None

    @property
    def parts(self) -> tuple[str, ...]:
        """Return what each table is found again by, and last the answers to the declared questions."""
        own = tuple(f"{_PARTS} {each.digest}" for each in self.layouts)
        if self.workload is None:
            return own
        return (*own, f"workload {digest_of({'tables': list(own), 'workload': self.workload.digest})}")

    @property
    def request(self) -> dict[str, object]:
        """Return the whole request; what is left at its default is not in it."""
        found: dict[str, object] = {"tables": [each.request for each in self.layouts]}
        found |= {} if self.questions == _LEAST_PRICE else {"questions": self.questions}
        return found if self.workload is None else found | {"workload": self.workload.request}

    @property
    def sizes(self) -> list[dict[str, int]]:
        """Return how many labels each column of each table has."""
        return [dict(zip(each.groups.names, each.groups.sizes, strict=True)) for each in self.layouts]

    def find_price(self, layout: TableLayout) -> TablePrice:
        """Return what one table costs."""
        own = {"questions": self.questions, "workload": self.workload is not None}
        return price_marginal(self.plan, layout.groups.cells.number + 1, unions=layout.count_unions(), **own)  # type: ignore[arg-type]

    def find_workload_price(self, prices: Sequence[TablePrice], *, draw: int = 1, spent: int = 0) -> WorkloadPrice | None:
        """Return the boxes of the declared questions; None where there are none."""
        if self.workload is None or not prices:
            return None
        spreads = count_spreads(Counter(self.workload.list_sets()).items(), self.sizes)
        paid = sum(price.questions for price in prices)
        return price_workload(self.plan, spreads, sigma=prices[0].sigma, questions=paid, draw=draw, spent=spent)


def _plan_marginals(curation: Curation, task: _MarginalTask, answered: Answered) -> Planned:
    """Plan the tables that were not released before, as one charge; those that were are told again for nothing."""
    parts, known = task.parts, [answered.has(part) for part in task.parts]
    if task.workload is not None and not known[-1] and any(known):
        message = (
            "some of these tables were released before, and a workload holds only if it is declared before the draw: leave "
            "it out, and share(...) sums the cells' boxes, or release other tables with it"
        )
        raise RefusedError(message)
    missing = replace(task, layouts=[each for each, has in zip(task.layouts, known, strict=False) if not has])
    missing = replace(missing, workload=None) if not missing.layouts else missing
    release = _make_release(missing)
    request = encode(task.request | {"verb": "marginals"})

    def measure() -> Measured:
        engine, bits, shown = curation.engine, curation.plan.bits, curation.progress
        found = [engine.sum_cells(each.groups.cells, bits=bits, progress=shown) for each in missing.layouts]
        return np.concatenate([np.array(each, dtype=np.int64) for each in found])

    return Planned(parts, release, request, measure if missing.layouts else list)


def _make_release(task: _MarginalTask) -> Release:
    """Return the release of tables of all rows: one event for each move of a row in each of them.

    Law: replacing a row moves two cells of each table by 1 at most, so that M tables have squared sensitivity 2 M, and
    2 M times the event of one cell is their composition (U1.1, V2.3).
    """
    plan, layouts = task.plan, task.layouts
    prices = [task.find_price(each) for each in layouts]
    unit, total = 1 << plan.bits, task.rows << plan.bits
    mechanism = Gaussian(sigma=Fraction(prices[0].sigma) * task.rows * unit, sensitivity=unit) if prices else None
    declared = task.find_workload_price(prices)

    def draw(sums: Measured) -> Sequence[int]:
        cells: list[int] = []
        start = 0
        for each in layouts:
            counted = np.asarray(sums[start : start + each.groups.cells.number])
            start += len(counted)
            cells += [*counted.tolist(), total - int(counted.sum())]
        return [] if mechanism is None else mechanism.release(np.array(cells)).tolist()

    def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
        found: list[Table] = []
        start, place = 0, standing.draws - (declared.draws if declared else 0) - sum(price.questions for price in prices)
        for layout, price in zip(layouts, prices, strict=True):
            stop, place = start + layout.groups.cells.number + 1, place + price.questions
            placed = place_price(plan, price, draw=place, spent=standing.spent)
            moved = move_to_total(drawn[start:stop], total) if price.whole else drawn[start:stop]
            found.append(layout.make_table(moved, plan, rows=task.rows, price=placed, certificate=certificate))
            start = stop
        boxes = task.find_workload_price(prices, draw=standing.draws, spent=standing.spent)
        return [*found, *(() if boxes is None else (_answer_workload(task, prices, boxes, found),))]

    columns = dict.fromkeys(name for each in layouts for name in each.groups.names)
    words = f"{len(layouts):,} table{'s' * (len(layouts) != 1)} of {', '.join(columns)}"
    return Release(
        verb="marginals",
        request=task.request | ({"target": words} if layouts else {}),
        parts=task.parts,
        event=NoCost() if mechanism is None else Repeated(mechanism.event, 2 * len(layouts)),
        cost=sum(price.cost for price in prices),
        draws=sum(price.questions for price in prices) + (declared.draws if declared else 0),
        queries=(),
        draw=draw,
        respond=respond,
    )


def _answer_workload(
    task: _MarginalTask, prices: Sequence[TablePrice], boxes: WorkloadPrice, tables: Sequence[Table]
) -> Workload:
    """Return the answers to the declared questions: means over all tables that have their columns, with their ends (V2.3).

    Rows that a table has in none of its cells may have a question's labels: the upper end counts them.
    """
    plan, declared = task.plan, task.workload or _DeclaredQuestions((), ())
    sigma, told = prices[0].sigma, tables[0]
    means = {names: _TableMean.of(names, task, tables) for names in dict.fromkeys(declared.list_sets())}
    places = {name: {label: at for at, label in enumerate(_list_labels(task.layouts, name))} for name in declared.columns}
    values, near, far = [], [], []
    for labels, names in zip(declared.labels, declared.list_sets(), strict=True):
        mean = means[names]
        at = tuple(places[name][label] for name, label in zip(declared.columns, labels, strict=True) if label is not None)
        values.append(min(max(float(mean.answers[at]), 0.0), 1.0))
        near.append(mean.find_ends(at, sigma * boxes.sample))
        far.append(mean.find_ends(at, sigma * (boxes.population or 0.0)))
    ends, known = None, None
    if boxes.population is not None:
        slacks = (boxes.slack, boxes.slack)
        ends = [*zip(*[transfer_ends(each, epsilon=boxes.epsilon, slacks=slacks) for each in far], strict=True)]
        known = [*zip(*far, strict=True)]
    rows = [*zip(*near, strict=True)]
    return Workload(
        columns=declared.columns,
        labels=declared.labels,
        values=tuple(values),
        low=None if ends is None else ends[0],
        high=None if ends is None else ends[1],
        sample_low=rows[0],
        sample_high=rows[1],
        confidence=1 - plan.beta,
        certificate=told.certificate,
        reason=NOT_INDEPENDENT if ends is None else None,
        box_low=None if known is None else known[0],
        box_high=None if known is None else known[1],
    )


def _list_labels(layouts: Sequence[TableLayout], name: str) -> list[Label]:
    layout = next(each for each in layouts if name in each.groups.names)
    at = layout.groups.names.index(name)
    return list(dict.fromkeys(each[at] for each in layout.groups.labels))


class _TableMean(NamedTuple):
    """The mean of all tables that have some columns, added up over their others: an answer for each combination of labels.

    ``spreads`` are the deviations of its lower and its upper end in those of a cell, ``rounding`` what it may be off by
    beside noise, ``rest`` the mean of the rows in no cell, which the upper end counts.
    """

    answers: _Floats
    spreads: tuple[float, float]
    rounding: float
    rest: float

    @classmethod
    def of(cls, names: tuple[str, ...], task: _MarginalTask, tables: Sequence[Table]) -> "_TableMean":
        """Return the mean of the tables that have these columns, in the order of the names."""
        answers: _Floats = np.zeros(())
        rounding, rest = _ADDED, 0.0
        for source in _find_sources(names, task.sizes):
            table, rule = tables[source.place], tables[source.place].unions
            if not isinstance(rule, Unions):
                continue
            others = tuple(at for at, name in enumerate(table.columns) if name not in names)
            kept = [name for name in table.columns if name in names]
            summed = np.array(rule.answers[:-1]).reshape(rule.sizes).sum(axis=others)
            answers = answers + source.weight * summed.transpose([kept.index(name) for name in names])
            rounding += source.weight * (source.cells + 1) * rule.rounding
            rest += source.weight * rule.answers[-1] if others else 0.0
        return cls(answers, find_spreads(names, task.sizes), rounding * ROUNDING, rest)

    def find_ends(self, at: tuple[int, ...], noise: float) -> tuple[float, float]:
        """Return the ends of one combination, given the box of one deviation, cut to 0 and 1."""
        value = float(self.answers[at])
        low = value - self.spreads[0] * noise - self.rounding
        high = value + self.rest + self.spreads[1] * noise + self.rounding
        middle = min(max(value, 0.0), 1.0)
        return min(max(low, 0.0), middle), max(min(high, 1.0), middle)
