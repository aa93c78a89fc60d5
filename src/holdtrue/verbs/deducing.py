"""DEDUCE: what follows from answers that were given, free and without a row (U7)."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import TypeAlias

import numpy as np
from msgspec import UNSET, structs

from holdtrue.bounds.deduction import Multipliers, Program, frechet_ends
from holdtrue.bounds.transfer import transfer_ends
from holdtrue.codec import digest_of, encode
from holdtrue.errors import InvalidParameter, RefusedError
from holdtrue.exact import ROUNDING
from holdtrue.planning.plans import AnyPlan, Plan, refuse_one_side
from holdtrue.queries.atoms import AtomPartition
from holdtrue.queries.cards import Card
from holdtrue.queries.checking import conjoin, disjoin
from holdtrue.queries.syntax_tree import And, Boolean, Or, Query, Tree, columns
from holdtrue.records import Answer, Certificate, Deduction, Interval, Response, Table, Workload, count_boxes
from holdtrue.verbs import DEDUCED, Answered, Planned, Standing
from holdtrue.verbs.asking import NOT_INDEPENDENT, QuestionRule, part_of
from holdtrue.verbs.tables import write_conditions

__all__ = ["Fact", "FactGroup", "deduce", "is_within", "plan_free", "read_facts", "refuse_deduction"]

Ends: TypeAlias = tuple[float, float]
MOST_ATOMS = 1 << 12
_MOST_VALUES = 1 << 22  # of all queries on all atoms together
_MOST_SOLVED = 1 << 18  # of those that a program is made of
_MOST_READ = 1 << 14  # cells of tables that have other columns too
_MOST_RANGED = 24
_INCONSISTENT = (
    "the answers contradict each other: an interval missed, as planned for with probability beta, or the rows are not "
    "independent draws"
)
_THEOREM = "follows from earlier answers (U7)"


@dataclass(frozen=True, slots=True)
class Fact:
    """One answer: the query, and between which ends its mean over these rows and over the population is.

    ``box`` is around v of the transfer theorem, which is one measure for all answers; None where no such box is promised.
    """

    tree: Tree
    sample: Ends
    box: Ends | None
    population: Ends | None


@dataclass(frozen=True, eq=False)
class FactGroup:
    """Answers of one ledger entry about the same columns, which are read when they are needed."""

    entry: int
    columns: frozenset[str]
    number: int
    make: Callable[[], list[Fact]]

    @cached_property
    def facts(self) -> list[Fact]:
        """Return the answers."""
        return self.make()

    @cached_property
    def by_tree(self) -> dict[Tree, Fact]:
        """Return the answers by what they are about."""
        return {fact.tree: fact for fact in self.facts}


def deduce(plan: AnyPlan, query: Query, groups: Sequence[FactGroup], *, complete: Collection[str] = ()) -> Deduction:
    """Return between which ends the answer to a query must be, given what was answered. Free; reads no row.

    ``complete`` are the columns of the card whose type has no missing values: there a NOT is a complement.

    Guarantee: on the event on which all intervals of the plan hold, so do these, however many questions are deduced and
    however they are chosen (U7.1). By two programs over atoms: one on the noise boxes, with the transfer theorem applied
    once to what it gives, and where that is not within alpha one on the population's intervals. On a plan with one beta the
    slack is multiplied by the largest multiplier above 1 (S1 c). Beyond 2^12 atoms: from the answers that have columns in
    common with the query, those with the fewest others first; a query that has more atoms by itself is taken apart
    (Fréchet). What was answered itself, as a cell of a table of any size is, has no wider interval than it was told with.
    Failure: NotCertified where the plan promises one end only.
    """
    refuse_one_side(plan, "what follows has")
    return _meet_told(plan, _find_interval(plan, query, groups, complete), query, groups)


def _meet_told(plan: AnyPlan, found: Deduction, query: Query, groups: Sequence[FactGroup]) -> Deduction:
    """Return what follows, cut to the intervals that answers about the very same question were told with."""
    read = _list_telling(groups, set(query.columns))
    told = [(each.entry, each.by_tree[query.tree]) for each in read if query.tree in each.by_tree]
    if not told or found.inconsistent or found.sample_interval is None:
        return found
    sample = _meet_ends([_ends_of(found.sample_interval), *(fact.sample for _, fact in told)])
    known = [fact.population for _, fact in told if fact.population is not None]
    ends = None if found.interval is None else _meet_ends([_ends_of(found.interval), *known])
    sources = tuple(sorted({*found.sources, *(entry for entry, _ in told)}))
    made = _make_record(plan, query.text, ends, sample, sources=sources, atoms=found.atoms)
    return made if made.inconsistent else structs.replace(made, answered=True)


def _list_telling(groups: Sequence[FactGroup], own: set[str]) -> list[FactGroup]:
    """Return the groups about these columns, and of those about more the smallest, as they are read for sums of cells."""
    found, room = [each for each in groups if each.columns == own], _MOST_READ
    for each in sorted((each for each in groups if each.columns > own), key=lambda group: group.number):
        room -= each.number
        if room < 0:
            break
        found.append(each)
    return found


def _meet_ends(ends: Sequence[Ends]) -> Ends:
    return max(low for low, _ in ends), min(high for _, high in ends)


def _find_interval(plan: AnyPlan, query: Query, groups: Sequence[FactGroup], complete: Collection[str]) -> Deduction:
    """Return what follows by programs; see :func:`deduce`."""
    partition = AtomPartition(complete)
    if not partition.add([query.tree], most=MOST_ATOMS):
        return _take_apart(plan, query, groups, complete)
    chosen = _choose_groups(partition, query, groups)
    facts = [(fact, group.entry) for group in chosen for fact in group.facts]
    target = partition.evaluate(query.tree)
    values = np.array([partition.evaluate(fact.tree) for fact, _ in facts]).reshape(len(facts), len(target))
    kept = _choose_rows(target, values)
    search = _Search(plan, [facts[place][0] for place in kept], Program(target, values[kept]))
    ends = search.find_population()
    sample = search.find_sample()
    if not query.columns and ends is not None:
        ends = sample  # the same number in every row of any population
    sources = tuple(sorted({facts[kept[place]][1] for place in search.used}))
    return _make_record(plan, query.text, ends, sample, sources=sources, atoms=len(target))


def _choose_groups(partition: AtomPartition, query: Query, groups: Sequence[FactGroup]) -> list[FactGroup]:
    """Return the groups whose queries fit into the atoms: all, or those nearest to the query; add these queries."""
    own, found, room = set(query.columns), [], _MOST_VALUES
    near = sorted(groups, key=lambda group: (not own & group.columns, len(group.columns - own), len(group.columns)))
    usable = [group for group in near if group.number <= MOST_ATOMS]
    if sum(group.number for group in usable) <= MOST_ATOMS and partition.add(_list_trees(usable), most=MOST_ATOMS):
        return usable
    for group in usable:
        fits = group.number <= room // MOST_ATOMS and bool(own & group.columns)
        if fits and partition.add(_list_trees([group]), most=MOST_ATOMS):
            found.append(group)
            room -= group.number * MOST_ATOMS
    return found


def _list_trees(groups: Iterable[FactGroup]) -> list[Tree]:
    return [fact.tree for group in groups for fact in group.facts]


def _choose_rows(target: np.ndarray, values: np.ndarray) -> list[int]:
    """Return the rows that a program is made of: all, or those most like the target or its opposite."""
    most = max(16, _MOST_SOLVED // len(target))
    if len(values) <= most:
        return list(range(len(values)))
    goal, rows = target - target.mean(), values - values.mean(axis=1, keepdims=True)
    alike = np.abs(rows @ goal) / (np.linalg.norm(rows, axis=1) * np.linalg.norm(goal) + 2.0**-40)
    return sorted(np.argsort(-alike, kind="stable")[:most].tolist())


class _Search:
    """The programs of one query: for the population by boxes or intervals, and for these rows by the same multipliers."""

    def __init__(self, plan: AnyPlan, facts: Sequence[Fact], program: Program) -> None:
        self._plan, self._facts, self._program = plan, facts, program
        self._used: set[int] = set()
        self._best: list[Multipliers] = []

    @property
    def used(self) -> list[int]:
        """Return the places of the facts that the ends rest on."""
        return sorted(self._used)

    def find_population(self) -> Ends | None:
        """Return the ends for the population; the lower one is above the upper one where answers contradict each other."""
        if not self._plan.iid:
            return None
        frozen = self._plan.transfer if isinstance(self._plan, Plan) else None
        found: Ends = (0.0, 1.0)
        if frozen is not None and all(fact.box is not None for fact in self._facts):
            ends, largest = self._solve([fact.box or (0.0, 1.0) for fact in self._facts])
            if ends[0] > ends[1]:
                return ends
            times = [max(1.0, each) if frozen.overshoot else 1.0 for each in largest]
            slacks = (frozen.slack * times[0] * ROUNDING, frozen.slack * times[1] * ROUNDING)
            found = transfer_ends(ends, epsilon=frozen.epsilon, slacks=slacks)
        if frozen is None or (found[1] - found[0]) / 2 > self._plan.alpha:
            ends, _ = self._solve([fact.population or (0.0, 1.0) for fact in self._facts])
            found = max(found[0], ends[0]), min(found[1], ends[1])
        return found

    def find_sample(self) -> Ends:
        """Return the ends for these rows: by multipliers that were found for the population, where there are any."""
        ends = [fact.sample for fact in self._facts]
        if not self._best:
            return self._solve(ends)[0]
        low, high = [each[0] for each in ends], [each[1] for each in ends]
        tried = [self._program.find_ends(chosen, low, high) for chosen in self._best]
        return max(each[0] for each in tried), min(each[1] for each in tried)

    def _solve(self, ends: Sequence[Ends]) -> tuple[Ends, Ends]:
        """Return the ends of a program and its largest multipliers; (1, 0) where nothing fits."""
        low, high = [each[0] for each in ends], [each[1] for each in ends]
        chosen = self._program.solve(low, high)
        if chosen is None:
            return (1.0, 0.0), (0.0, 0.0)
        self._best.append(chosen)
        self._used.update(chosen.used)
        return self._program.find_ends(chosen, low, high), chosen.largest


def _take_apart(plan: AnyPlan, query: Query, groups: Sequence[FactGroup], complete: Collection[str]) -> Deduction:
    """Return what follows from what is deduced of each part of a conjunction or a disjunction (Fréchet)."""
    tree, parts = query.tree, []
    if isinstance(tree, (And, Or)):
        for child in tree.children:
            inner = Query(child, "", "", boolean=True, columns=tuple(columns(child)))
            parts.append(deduce(plan, inner, groups, complete=complete))
    if not parts or any(part.inconsistent for part in parts):
        both = (0.0, 1.0) if not parts else (1.0, 0.0)
        return _make_record(plan, query.text, both if plan.iid else None, both, sources=(), atoms=0)
    every = isinstance(tree, And)
    known = [(part.interval.low, part.interval.high) for part in parts if part.interval is not None]
    ends = frechet_ends(known, every=every) if len(known) == len(parts) else None
    rows = [(part.sample_interval.low, part.sample_interval.high) for part in parts if part.sample_interval is not None]
    sources = tuple(sorted({entry for part in parts for entry in part.sources}))
    return _make_record(plan, query.text, ends, frechet_ends(rows, every=every), sources=sources, atoms=0)


def _make_record(  # noqa: PLR0913 - the fields of one record
    plan: AnyPlan, text: str, ends: Ends | None, sample: Ends, *, sources: tuple[int, ...], atoms: int
) -> Deduction:
    sure = 1 - plan.beta
    if sample[0] > sample[1] or (ends is not None and ends[0] > ends[1]):
        return refuse_deduction(Deduction(text, None, None, sources, atoms, _THEOREM))
    population = None if ends is None else Interval(*ends, sure, "population")
    reason = NOT_INDEPENDENT if ends is None else None
    return Deduction(text, population, Interval(*sample, sure, "sample"), sources, atoms, _THEOREM, reason)


def refuse_deduction(found: Deduction) -> Deduction:
    """Return that nothing follows from answers that contradict each other."""
    nothing: dict[str, None] = {"interval": None, "sample_interval": None}
    return structs.replace(found, **nothing, reason=_INCONSISTENT, inconsistent=True, answered=UNSET)


def is_within(plan: AnyPlan, found: Deduction, *, draws: int, spent: int) -> bool:
    """Return whether what follows is as narrow as the plan promises of the next answer at its widest, or was told itself."""
    if found.answered is True:
        return True
    if found.interval is not None:
        return found.interval.width / 2 <= plan.alpha_after(draws + 1, spent + plan.cost)
    return found.sample_interval is not None and found.sample_interval.width / 2 <= plan.sample_alpha_at(draws + 1)


def plan_free(  # noqa: PLR0913 - what is asked, what follows, and what may be done about the rest
    rule: QuestionRule,
    queries: Sequence[Query],
    found: Mapping[str, Deduction],
    key: str | None,
    answered: Answered,
    *,
    paying: bool = True,
) -> Planned:
    """Plan questions of which some follow from earlier answers, by digest in ``found``: only the others are drawn.

    Law: what is told is stored first, at no cost and with no draw; under a key, what was told first is told again. A
    question that was answered before has its stored answer in any case. Without ``paying`` nothing is drawn: RefusedError
    where a question would be.
    """
    parts: list[str] = []
    fresh: dict[str, Query] = {}
    free: dict[str, Deduction] = {}
    room = answered.has_room()
    for query in queries:
        asked, told = part_of(query), found.get(query.digest)
        own = _part_of_deduced(query, told, key)
        if answered.has(own):
            parts.append(own)
        elif told is None or not room or answered.has(asked):
            parts.append(asked)
            fresh |= {} if answered.has(asked) else {asked: query}
        else:
            parts.append(own)
            free[own] = told
    if fresh and not paying:
        message = "this does not follow from the answers as closely as an answer would be; ask it, for one question"
        raise RefusedError(message)
    paid = rule.release_queries(list(fresh.values()))
    # Asked again under another key, or when more was answered, it is told anew: to the ledger it is another request.
    told_as = {"parts": parts} if key is None else {"key": key}
    request = encode({"deduce": "first", "queries": [query.text for query in queries], "verb": "ask"} | told_as)

    def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
        return [*paid.respond(drawn, certificate, standing), *(_make_answer(each, certificate) for each in free.values())]

    words: dict[str, object] = paid.request | ({"deduced": [each.text for each in free.values()]} if free else {})
    release = structs.replace(paid, parts=(*paid.parts, *free), request=words, respond=respond)
    return Planned(tuple(parts), release, request)


def plan_constants(rule: QuestionRule, queries: Sequence[Query], request: str, answered: Answered) -> Planned:
    """Plan questions of which some read no column: these are the same for every row, and cost nothing."""
    found = {query.digest: deduce(rule.plan, query, ()) for query in queries if not query.columns}
    return structs.replace(plan_free(rule, queries, found, None, answered), request=request)


def _part_of_deduced(query: Query, found: Deduction | None, key: str | None) -> str:
    """Return what a free answer is found again by: the request's key, or what it says and what that follows from."""
    if key is not None:
        return f"{DEDUCED} {digest_of({'query': query.digest, 'key': key})}"
    ends = None if found is None else found.interval or found.sample_interval
    known = [] if found is None or ends is None else [ends.low, ends.high, *found.sources]
    return f"{DEDUCED} {digest_of({'query': query.digest, 'from': known})}"


def _make_answer(found: Deduction, certificate: Certificate) -> Answer:
    """Return what follows as an answer, at no cost: the middle of the interval for these rows.

    That is what was answered where one answer says it all; the interval for the population reaches further up than down.
    """
    if found.sample_interval is None:
        raise InvalidParameter.without_value("found", "what follows from answers that agree")
    low, high = _ends_of(found.sample_interval)
    least, most = _ends_of(found.interval or found.sample_interval)
    value, receipt = min(max((low + high) / 2, least), most), certificate.with_theorem(found.theorem)
    return Answer(value, found.interval, found.sample_interval, receipt, found.reason, deduced=found.sources)


def read_facts(  # noqa: PLR0913 - a charge, and what it is read with
    plan: AnyPlan,
    card: Card,
    parse: Callable[[str], Query],
    *,
    request: dict[str, object],
    parts: Sequence[str],
    responses: Sequence[Response],
    entry: int,
) -> list[FactGroup]:
    """Return what a charge and its stored responses say: answers to questions, and cells of tables.

    Answers about per-row numbers, means and statistics say nothing of other questions, and are left out.
    """
    found: list[FactGroup] = []
    queries = request.get("queries")
    for text, part, answer in zip(queries if isinstance(queries, list) else (), parts, responses, strict=False):
        if isinstance(answer, Answer):
            query = parse(str(text))
            if part_of(query) == part:
                found.append(_group_answer(plan, query, answer, entry))
    given = request.get("tables")
    asked = given if isinstance(given, list) else [request]
    for held, answer in zip(asked, [each for each in responses if isinstance(each, Table)], strict=False):
        found += _group_table(_TableContext(plan, card, parse, entry), held, answer)
    for told in [each for each in responses if isinstance(each, Workload)]:
        tables = [(held, each) for held, each in zip(asked, responses, strict=False) if isinstance(each, Table)]
        found += _group_workload(_TableContext(plan, card, parse, entry), tables, told)
    return found


def _group_workload(
    context: "_TableContext", tables: Sequence[tuple[dict[str, object], Table]], told: Workload
) -> list[FactGroup]:
    """Return the questions that were declared with tables, one group for all that have labels of the same columns."""
    conditions: dict[tuple[str, object], Boolean] = {}
    for request, table in tables:
        written = write_conditions(request, table.columns, table.labels, context.card) or []
        for place, (name, texts) in enumerate(zip(table.columns, written, strict=False)):
            if (name, table.labels[0][place]) not in conditions:
                labels = dict.fromkeys(each[place] for each in table.labels[:-1])
                read = [context.parse(text).tree for text in texts]
                conditions |= {(name, label): tree for label, tree in zip(labels, read, strict=True)}  # type: ignore[misc]  # conditions
    places: dict[tuple[str, ...], list[int]] = {}
    for place, chosen in enumerate(told.labels):
        names = tuple(name for name, label in zip(told.columns, chosen, strict=True) if label is not None)
        places.setdefault(names, []).append(place)

    def list_facts(names: tuple[str, ...], chosen: list[int]) -> list[Fact]:
        at = [told.columns.index(name) for name in names]
        pairs = [
            [conditions[name, told.labels[place][one]] for name, one in zip(names, at, strict=True)] for place in chosen
        ]
        return [Fact(conjoin(each), *_ends_told(told, place)) for each, place in zip(pairs, chosen, strict=True)]

    return [
        FactGroup(context.entry, frozenset(names), len(found), partial(list_facts, names, found))
        for names, found in places.items()
    ]


def _ends_told(told: Workload, place: int) -> tuple[Ends, Ends | None, Ends | None]:
    box = None if told.box_low is None or told.box_high is None else (told.box_low[place], told.box_high[place])
    ends = None if told.low is None or told.high is None else (told.low[place], told.high[place])
    return (told.sample_low[place], told.sample_high[place]), box, ends


def _group_answer(plan: AnyPlan, query: Query, answer: Answer, entry: int) -> FactGroup:
    frozen = plan.transfer if isinstance(plan, Plan) else None
    box = None if frozen is None else _box_around(answer.value, frozen.noise)
    fact = Fact(
        query.tree, _ends_of(answer.sample_interval), box, None if answer.interval is None else _ends_of(answer.interval)
    )
    return FactGroup(entry, frozenset(query.columns), 1, lambda: [fact])


def _ends_of(interval: Interval) -> Ends:
    return interval.low, interval.high


def _box_around(value: float, noise: float) -> Ends:
    clipped = min(max(value, 0.0), 1.0)
    return max(0.0, clipped - noise), min(1.0, clipped + noise)


@dataclass(frozen=True, slots=True, eq=False)
class _TableContext:
    """What a table is read with: the plan, the card, the parser of questions, and its entry."""

    plan: AnyPlan
    card: Card
    parse: Callable[[str], Query]
    entry: int


def _group_table(context: _TableContext, request: dict[str, object], table: Table) -> list[FactGroup]:
    """Return the cells of a table, and the unions that were declared with it."""
    written, parse = write_conditions(request, table.columns, table.labels, context.card), context.parse
    if written is None:
        return []
    where = request.get("where")
    base: list[Boolean] = [parse(str(where)).tree] if where is not None else []  # type: ignore[list-item]  # a condition
    axes: list[list[Boolean]] = [[parse(text).tree for text in texts] for texts in written]  # type: ignore[misc]  # as above
    names = frozenset(table.columns) | {name for tree in base for name in columns(tree)}
    reader = _TableReader(table, axes, base)
    return [FactGroup(context.entry, names, len(table) + reader.count_unions(), reader.list_facts)]


@dataclass(frozen=True, slots=True, eq=False)
class _TableReader:
    """A table that was released: the conditions of its labels, and its answers."""

    table: Table
    axes: list[list[Boolean]]
    base: list[Boolean]

    def list_facts(self) -> list[Fact]:
        """Return the cells, what lies in any of them where it is told, and the declared unions."""
        cells = list(product(*[range(len(axis)) for axis in self.axes]))
        found = [self._cell(place, labels) for place, labels in enumerate(cells)]
        if not self.base:
            found.append(self._inside())
        return found + [self._union(labels) for labels in self._list_unions()]

    def count_unions(self) -> int:
        """Return how many unions are told."""
        return len(self._list_unions())

    def _cell(self, place: int, labels: tuple[int, ...]) -> Fact:
        tree = conjoin([*(axis[at] for axis, at in zip(self.axes, labels, strict=True)), *self.base])
        return Fact(tree, *self._ends_at(place))

    def _ends_at(self, place: int) -> tuple[Ends, Ends | None, Ends | None]:
        table, rule = self.table, self.table.unions
        noise = rule.noise if rule else None
        box = None if noise is None else _box_around(table.values[place], self._widen(noise, 1))
        ends = None if table.low is None or table.high is None else (table.low[place], table.high[place])
        return (table.sample_low[place], table.sample_high[place]), box, ends

    def _widen(self, noise: float, number: int) -> float:
        """Return the box of a declared union of cells, given that of one before answers were moved (U1.5, U1.6)."""
        rule, whole = self.table.unions, 0
        if rule and rule.whole is True:
            whole = len(self.table)
        rounding = rule.rounding if rule and (whole or number > 1) else 0.0
        return (count_boxes(number, declared=True, whole=whole) * noise + number * rounding) * ROUNDING

    def _inside(self) -> Fact:
        """Return that a row is in one of the cells unless it is in the last one, which has all others."""
        tree = conjoin([disjoin(axis) for axis in self.axes])
        sample, box, ends = self._ends_at(len(self.table) - 1)
        flipped = [None if each is None else _flip(each) for each in (box, ends)]
        return Fact(tree, _flip(sample), flipped[0], flipped[1])

    def _list_unions(self) -> "list[tuple[Sequence[int], ...]]":
        """Return the declared unions, as the places of labels on each axis."""
        rule, sizes = self.table.unions, [len(axis) for axis in self.axes]
        if not rule:
            return []
        found: list[tuple[Sequence[int], ...]] = [(places,) for places in rule.rollups or ()]
        if "ranges" in rule.declared and sizes[0] <= _MOST_RANGED:
            found += [(range(at, at + long),) for long in range(2, sizes[0]) for at in range(sizes[0] - long + 1)]
        if "margins" in rule.declared:
            for fixed in product((True, False), repeat=len(sizes)):
                if any(fixed) and not all(fixed):
                    choices = [
                        [[at] for at in range(size)] if is_fixed else [range(size)]
                        for size, is_fixed in zip(sizes, fixed, strict=True)
                    ]
                    found += product(*choices)
        return found

    def _union(self, labels: tuple[Sequence[int], ...]) -> Fact:
        sizes, rule = [len(axis) for axis in self.axes], self.table.unions
        places = [_find_place(sizes, each) for each in product(*labels)]
        tree = conjoin(
            [*(disjoin([axis[at] for at in each]) for axis, each in zip(self.axes, labels, strict=True)), *self.base]
        )
        answer = self.table.union(*(self.table.labels[place] for place in places))
        box = None
        if rule and rule.noise is not None:
            total = math.fsum(rule.answers[place] for place in places)
            box = _box_around(total, self._widen(rule.noise, len(places)))
        return Fact(
            tree, _ends_of(answer.sample_interval), box, None if answer.interval is None else _ends_of(answer.interval)
        )


def _find_place(sizes: Sequence[int], labels: tuple[int, ...]) -> int:
    place = 0
    for size, at in zip(sizes, labels, strict=True):
        place = place * size + at
    return place


def _flip(ends: Ends) -> Ends:
    return 1 - ends[1], 1 - ends[0]
