"""What a stored response must say, by its charge and by the plan that the ledger was created with (T5, T6, T6b, T7)."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, partial
from typing import Any, TypeAlias

from msgspec import UNSET

from holdtrue.bounds.transfer import EDGE_SHARE, transfer_ends
from holdtrue.codec import convert, digest_of, encode
from holdtrue.curator.history import responses_of
from holdtrue.errors import HoldtrueError, IntegrityError
from holdtrue.events import NonPrivate
from holdtrue.exact import amount, units_down, units_up
from holdtrue.ledgers import Entry, Terms
from holdtrue.ledgers.entries import VERBS, read_charge
from holdtrue.planning.plans import AnyPlan, Plan, find_intervals, read_plan
from holdtrue.planning.quantiles import CurvePrice, price_curve, rebuild_grid
from holdtrue.planning.tables import (
    TablePrice,
    WorkloadPrice,
    count_unions,
    find_cell_ends,
    find_ends,
    loosen,
    place_price,
    price_marginal,
    price_means,
    price_table,
    price_workload,
)
from holdtrue.queries.cards import Card
from holdtrue.queries.parser import parse
from holdtrue.records import (
    Answer,
    Certificate,
    Estimates,
    Evaluation,
    Interval,
    Means,
    Prediction,
    Quantiles,
    Response,
    Statistic,
    Table,
    Unions,
    Workload,
)
from holdtrue.verbs import DEDUCED
from holdtrue.verbs.asking import part_of
from holdtrue.verbs.deducing import FactGroup, deduce, read_facts
from holdtrue.verbs.evaluating import FIRST_SHARE, bound_level, find_error_ends
from holdtrue.verbs.marginals import count_spreads, find_spreads
from holdtrue.verbs.quantiles import QuantileTask, make_curve

__all__ = ["Found", "LedgerRules"]

# Numbers are stored in full; another machine's functions may round the last digits of a bound otherwise.
_ROUNDING = 1e-9
_CLOSE = 1 + 1e-9
# What all cases weigh is read off an interval, to the digits of a float; so ends that follow from it have a few fewer.
_WEIGHED = 1e-6
# Another version of the solver may find other multipliers, of which the largest widens what is deduced (S1).
_DEDUCED = 1e-3
_UNREADABLE = (HoldtrueError, ValueError, TypeError, KeyError, AttributeError, ArithmeticError)
# Modes made of runs of above threshold, and the verbs of their looks (T10).
_RUN_MODES = ("private gate", "private ladder", "thresholdout")
_LOOKS = ("gate", "score", "submit")
_TABLES = ("mean", "table")
# Every part of these is a question of its own.
_BY_PART = ("ask", "auc", "best_error", "correlation", "covariance", "gini", "pairs", "r_squared", "ratio", "variance")

Found: TypeAlias = Iterator[tuple[str, str]]
"""Rules that are broken, and in which way."""


@dataclass(frozen=True, slots=True)
class _ChargeState:
    """Where a charge stands: its request and parts, its draws, all draws up to it, and what other verbs cost up to it."""

    request: Mapping[str, Any]
    parts: Sequence[str]
    draws: int
    drawn: int
    other: int


@dataclass(slots=True)
class LedgerRules:
    """A plan, and where every charge stands under it; ``plan`` is None for a ledger that was created without one.

    ``runs`` has the runs of above threshold that were paid for, and by which entry each was ended, None while it goes on;
    ``shown`` the scores that looks of this ledger were told.
    """

    terms: Terms
    plan: AnyPlan | None
    card: Mapping[str, Any]
    unreadable: str | None = None
    drawn: int = 0
    other: int = 0
    charges: dict[int, _ChargeState] = field(default_factory=dict)
    told: dict[int, Sequence[Response]] = field(default_factory=dict)
    weighed: int | None = None
    runs: dict[str, int | None] = field(default_factory=dict)
    shown: set[object] = field(default_factory=lambda: {0.0})

    @classmethod
    def of(cls, terms: Terms) -> "LedgerRules":
        """Read the plan and the card of a ledger's terms."""
        try:
            document, card = json.loads(terms.plan), dict(json.loads(terms.card))
            return cls(terms, read_plan(terms.plan) if "plan" in document else None, card)
        except _UNREADABLE:
            return cls(terms, None, {}, unreadable="the plan cannot be read")

    def check_terms(self) -> Found:
        """Say in what the terms differ from the plan."""
        return _stop_at_unreadable(self._compare_terms(), "plan", "the plan or the card is malformed")

    def _compare_terms(self) -> Found:
        plan, terms = self.plan, self.terms
        if self.unreadable is not None:
            yield "plan", self.unreadable
        if plan is None:
            return
        if terms.cap != plan.cap_units:
            yield "plan", f"the cap is {terms.cap} units, and the plan counts on {plan.cap_units}"
        if terms.kind != (plan.ledger or "pure"):
            yield "plan", f"the ledger counts in {terms.kind}, and the plan in {plan.ledger}"
        if terms.iid != plan.iid:
            yield "plan", "the ledger and the plan disagree on whether rows are independent"
        if self.rows < plan.rows:
            yield "plan", f"the plan needs {plan.rows} rows, and the card has {self.rows}"
        if isinstance(plan, Plan) and plan.has_small_purse:
            yield "plan", f"the noise of its answers exceeds what the plan pays for, with side={plan.side!r}"
        if plan.second is not None:
            yield from _check_purses(plan)

    @property
    def rows(self) -> int:
        """Return how many rows the card says there are: of a holdout its clusters, or cases."""
        return int(
            self.card["holdout"].get("clusters") or self.card["cases"] if "holdout" in self.card else self.card["rows"]
        )

    @property
    def has_runs(self) -> bool:
        """Return whether these are looks in runs of above threshold, of which only the first one is paid for."""
        facts = self.card.get("holdout")
        return isinstance(facts, Mapping) and facts.get("mode") in _RUN_MODES and facts.get("noise") != "gaussian"

    def check_charge(self, entry: Entry) -> Found:
        """Follow the draws of a charge, as its body tells them; say where it has a verb or a body that no charge has."""
        try:
            charged = read_charge(entry)
        except IntegrityError:
            known = entry.verb in VERBS
            yield (
                "form",
                "its body is not that of a charge" if known else f"{entry.verb!r} is not a verb of a charge",
            )
            return
        if charged.purse != self.terms.name_purse(charged.draws):
            yield "form", f"it names the purse {charged.purse}, and {self.terms.name_purse(charged.draws)} pays for it"
        self.drawn += charged.draws
        self.other += 0 if charged.draws else entry.cost
        self.charges[entry.number] = _ChargeState(charged.request, charged.parts, charged.draws, self.drawn, self.other)
        if self.has_runs and entry.verb in _LOOKS and not charged.request.get("vacuous"):
            yield from _stop_at_unreadable(self._check_run(entry, charged.request.get("run")), "run", "its run has no price")

    def _check_run(self, entry: Entry, run: object) -> Found:
        """Say where a look was not paid for: one that costs nothing must name a run that was paid for and goes on (T10)."""
        if not isinstance(run, str):
            yield "run", "the look belongs to no run"
        elif entry.cost:
            price = self._price_of_run(self.card["holdout"])
            if entry.cost < price:
                yield "run", f"it pays {entry.cost} units for its run, which costs {price}"
            self.runs.setdefault(run, None)
        elif run not in self.runs:
            yield "run", "it costs nothing, and no look before it paid for its run"
        elif self.runs[run] is not None:
            yield "run", f"it costs nothing, and its run ended with entry {self.runs[run]}"

    def _price_of_run(self, facts: Mapping[str, Any]) -> int:
        """Return what a run costs: its threshold and its release, or the threshold alone on a gate by depth (V1.4)."""
        if facts.get("rule") == "depth":
            return units_down(Fraction(facts["epsilon"]) / facts["yes"])
        return 2 * units_up(1 / (Fraction(facts["scale"]) * self.rows))

    def check_response(self, charge: Entry, response: Entry) -> Found:
        """Say what of a response does not follow from its charge and the plan."""
        found = self._compare_response(charge, response)
        return _stop_at_unreadable(found, "response", "it is malformed")

    def _compare_response(self, charge: Entry, response: Entry) -> Found:
        state = self.charges.get(charge.number)
        try:
            records = responses_of(response.body or "")
        except _UNREADABLE:
            records = []
        if state is not None and self._is_released(charge.verb, state.request, records):
            self.runs[str(state.request.get("run"))] = response.number
        self.told.setdefault(charge.number, records)
        if self.plan is None:
            return
        kept = state is not None and "estimator" in state.request
        if state is not None and not state.parts and response.body == "[]" and (kept or not charge.cost):
            return  # an estimator keeps what was drawn, or a key was bound to a request that older answers serve
        if state is None or not records or len(records) != len(state.parts):
            yield "response", f"it does not answer what entry {charge.number} asked"
            return
        yield from self._check_limits(charge, state, self.plan)
        yield from self._check_questions(charge, state)
        for place, record in enumerate(records):
            yield from _check_certificate(record.certificate, charge, self.terms, self.plan, draws=state.draws)
            if (record.certificate.unit or None) != self.card.get("unit"):
                yield "certificate", "its certificate names another unit than the ledger protects"
            yield from self._check_intervals(record, charge, state, place)

    def _is_released(self, verb: str, request: Mapping[str, Any], records: Sequence[Response]) -> bool:
        """Return whether a response ended its run: it tells a number that was neither given nor told before."""
        if not self.has_runs or verb not in _LOOKS or not records:
            return False
        if isinstance(records[0], Prediction):
            return records[0].label == "yes"
        if not isinstance(records[0], Answer):
            return False
        known = {"gate": set(), "score": {request.get("guess")}, "submit": self.shown}[verb]
        released = records[0].value not in known
        self.shown.add(records[0].value)
        return released

    def _check_limits(self, charge: Entry, state: _ChargeState, plan: AnyPlan) -> Found:
        if state.draws not in self._find_right_draws(charge, state, plan):
            yield "plan", f"entry {charge.number} counts {state.draws} draws for {len(state.parts)} answers"
        if state.draws and state.drawn > plan.queries:
            yield "plan", f"it answers draw {state.drawn}, and {plan.queries} were planned"
        if not state.draws and charge.cost and state.other > max(plan.reserve_units, 0):
            yield "plan", f"other verbs have spent {state.other} units with it, and {plan.reserve_units} were reserved"
        if charge.verb == "quantile":
            least = _price_of_curve(plan, state, self.rows).cost if _is_curve(state) else 0
        elif charge.verb == "marginals":
            least = sum(each.cost for each in _list_marginal_prices(state, plan))
        elif charge.verb in _TABLES:
            costs = [each.cost for each in _list_cell_prices(charge, state, plan) if each.questions == state.draws]
            least = min(costs, default=plan.cap_units)
        else:
            least = plan.cost * state.draws
        if charge.cost < least:
            yield "cost", f"entry {charge.number} costs {charge.cost} units for {state.draws} draws of {plan.cost}"

    def _find_right_draws(self, charge: Entry, state: _ChargeState, plan: AnyPlan) -> tuple[int, ...]:
        """Return how many draws a charge may count: one for each question, and for a table what its cells cost."""
        if charge.verb == "marginals":
            declared = _price_declared(state, plan, spent=charge.spent)
            return (
                sum(each.questions for each in _list_marginal_prices(state, plan)) + (declared.draws if declared else 0),
            )
        if charge.verb in _TABLES:
            return tuple(each.questions for each in _list_cell_prices(charge, state, plan))
        if charge.verb == "quantile":
            return (_price_of_curve(plan, state, self.rows).draws,) if _is_curve(state) else (0,)
        return (sum(not part.startswith(DEDUCED) for part in state.parts),) if charge.verb in _BY_PART else (0, 1)

    def _check_questions(self, charge: Entry, state: _ChargeState) -> Found:
        """Compare the questions as the ledger tells them with the names under which their answers are found again."""
        texts = state.request.get("queries")
        if charge.verb != "ask" or not isinstance(texts, list):
            return
        try:
            card = convert(self.card, Card)
            parts = [part_of(parse(text, card)) for text in texts]
        except _UNREADABLE:
            parts = []
        if parts != [part for part in state.parts if not part.startswith(DEDUCED)]:
            yield "request", f"entry {charge.number} lists other questions than those that were answered"

    def _check_intervals(self, record: Response, charge: Entry, state: _ChargeState, place: int) -> Found:
        plan = self.plan
        if plan is not None and isinstance(record, (Table, Means, Workload)):
            yield from self._check_table(record, charge, state, plan, place)
        if plan is not None and isinstance(record, Quantiles) and _is_curve(state):
            yield from _check_curve(record, charge, state, plan, self.rows)
        if plan is not None and isinstance(record, Statistic) and record.interval is not None and not plan.iid:
            yield "interval", "it has an interval for the population, although rows are not declared independent"
        if plan is not None and isinstance(record, Evaluation):
            yield from _check_evaluation(record, charge, state, plan, self.rows)
        if not isinstance(record, Answer) or plan is None:
            return
        if charge.verb == "ask" and state.parts[place].startswith(DEDUCED):
            yield from self._check_deduced(record, charge, state, place)
        elif charge.verb == "ask":
            draw = state.drawn - state.draws + 1 + place
            by_position = state.parts[place].startswith("values ")
            rows, ends = find_intervals(plan, record.value, draw=draw, spent=charge.spent, by_position=by_position)
            yield from _check_grid(record.value, self.rows << plan.bits)
            yield from _compare_ends(record.interval, ends, plan, "population")
            yield from _compare_ends(record.sample_interval, rows, plan, "sample")
        elif charge.verb == "score" and isinstance(plan, Plan) and plan.transfer is not None:
            target = str(state.request.get("target", ""))
            # Their ceilings are the submission's, of which the ledger has a keyed name only.
            if not target.startswith(("recall", "difference")):
                yield from self._check_score(record, plan)

    def _check_table(
        self, record: Table | Means | Workload, charge: Entry, state: _ChargeState, plan: AnyPlan, at: int
    ) -> Found:
        if isinstance(record, Workload):
            yield from _check_workload(record, charge, state, plan)
            return
        if charge.verb == "marginals":
            prices = _list_marginal_prices(state, plan)
            declared = _price_declared(state, plan, spent=charge.spent)
            draw = state.drawn - (declared.draws if declared else 0) - sum(each.questions for each in prices[at + 1 :])
            placed = place_price(plan, prices[at], draw=draw, spent=charge.spent)
            yield from _check_cells(record, placed, plan, self.rows << plan.bits)
            return
        for price in _list_cell_prices(charge, state, plan):
            if price.questions == state.draws and bool(price.whole) == _is_moved(record):
                placed = place_price(plan, price, draw=state.drawn, spent=charge.spent)
                yield from _check_cells(record, placed, plan, self.rows << plan.bits)
                return
        yield "interval", "its cells have answers or a price that no table or mean has"

    def _check_deduced(self, record: Answer, charge: Entry, state: _ChargeState, place: int) -> Found:
        """Deduce a free answer again, from the entries that it names: it must not say more than follows from them (U7)."""
        if self.plan is None:
            return
        card, sources = convert(self.card, Card), record.deduced or ()
        texts, free = state.request["deduced"], [part.startswith(DEDUCED) for part in state.parts]
        query = parse(texts[sum(free[:place])], card)
        groups: list[FactGroup] = []
        for number in sources:
            earlier = self.charges[number]
            if number >= charge.number:
                yield "deduced", f"it follows from entry {number}, which came later"
                return
            held: dict[str, Any] = {
                "request": dict(earlier.request),
                "parts": earlier.parts,
                "responses": self.told.get(number, ()),
            }
            groups += read_facts(self.plan, card, partial(parse, card=card), entry=number, **held)
        found = deduce(self.plan, query, groups, complete=card.complete)
        told, follows = record.interval or record.sample_interval, found.interval or found.sample_interval
        if follows is None or told.low > follows.low + _DEDUCED or told.high < follows.high - _DEDUCED:
            yield "deduced", f"it says more than follows from entries {', '.join(map(str, sources))}"

    def _check_score(self, record: Answer, plan: Plan) -> Found:
        """Recompute the interval of a score (T6b).

        What all cases weigh together is the same for all looks, and is read off the interval for these cases: the noise's
        half-width is known. An interval with both ends cut off, or around a value that was, does not tell it.
        """
        from holdtrue.holdouts.scoring import ends_of
        from holdtrue.holdouts.submissions import Question

        rows, grid = record.sample_interval, plan.rows << plan.bits
        if 0 < record.value < 1 and (rows.low > 0 or rows.high < 1):
            half = max(record.value - rows.low, rows.high - record.value)
            weighed = round(plan.sample_alpha / half * grid) if half > 0 else 2 * grid
            known = grid if self.weighed is None else self.weighed
            if weighed > known * (1 + _ROUNDING) or (self.weighed and weighed < known * (1 - _ROUNDING)):
                yield (
                    "interval",
                    f"its interval for these cases has a half-width of {half:.6g}, which does not follow from the noise",
                )
                return
            self.weighed = weighed
        if self.weighed is not None:
            asked = Question("", (), lambda: 0, self.weighed, self.weighed)
            ends = ends_of(asked, round(record.value * self.weighed), plan=plan, grid=grid)
            yield from _compare_ends(record.interval, ends, plan, "population", near=_WEIGHED)


def _stop_at_unreadable(found: Found, rule: str, otherwise: str) -> Found:
    """Yield what is found; where stored values cannot even be compared, say so and stop."""
    try:
        yield from found
    except _UNREADABLE:
        yield rule, otherwise


def _check_purses(plan: AnyPlan) -> Found:
    """Say where a plan with two purses promises more than the curve of both caps gives (V3.1)."""
    if not isinstance(plan, Plan) or plan.second is None or plan.cap is None:
        return
    if plan.epsilon is not None and plan.second.delta(plan.cap, plan.epsilon) > (plan.delta or 0.0) * _CLOSE:
        yield "plan", "both purses together are not as private as the plan says"
    frozen = plan.transfer
    if frozen is not None:
        failing = plan.second.delta(plan.cap, frozen.epsilon) + math.exp(frozen.epsilon) * frozen.overshoot
        edges = [plan.second.delta(plan.cap, each.epsilon) / each.slack for each in frozen.edges]
        over = any(each > EDGE_SHARE * plan.beta * _CLOSE for each in edges)
        if over or failing > frozen.slack * frozen.transfer_beta * _CLOSE:
            yield "plan", "its intervals do not count on both purses"


def _check_certificate(certificate: Certificate, charge: Entry, terms: Terms, plan: AnyPlan, *, draws: int) -> Found:
    """Compare a certificate with its entry. It may claim less privacy than its event, never more."""
    second = None if draws else terms.purse
    spent, cap = (charge.spent, terms.cap) if second is None else (charge.other_spent, second.cap_units)
    expected = {
        "entry": charge.number,
        "digest": charge.digest,
        "cost": amount(charge.cost),
        "spent": amount(spent),
        "left": amount(cap - spent),
        "purse": terms.name_purse(draws) or UNSET,
        "epsilon": plan.epsilon or 0.0,
        "delta": plan.delta or 0.0,
        "group": plan.group if plan.group > 1 else UNSET,
    }
    for name, value in expected.items():
        if getattr(certificate, name) != value:
            yield "certificate", f"its certificate says {name} {getattr(certificate, name)}, and the ledger {value}"
    if not isinstance(certificate.event, NonPrivate) and encode(certificate.event) != charge.event:
        yield "certificate", f"its certificate names another event than entry {charge.number}"


def _list_cell_prices(charge: Entry, state: _ChargeState, plan: AnyPlan) -> list[TablePrice]:
    """Return what the cells of a table or of means may have cost; none for another verb or a request without cells.

    Cells that are all rows have their answers moved to the total, or had none of it before that was done (U1.5).
    """
    labels = state.request.get("labels")
    if charge.verb not in _TABLES or not isinstance(labels, list):
        return []
    known, paid = (True, False) if state.request.get("where") is None else (False,), state.request.get("questions")
    if charge.verb == "mean":
        outside = state.request.get("measure") == "mean"
        return [price_means(plan, len(labels), outside=outside, whole=whole, questions=paid) for whole in known]
    declared, sizes = state.request.get("unions", ()), [len(set(column)) for column in zip(*labels, strict=True)]
    unions = count_unions(
        sizes, margins="margins" in declared, ranges="ranges" in declared, rollups=state.request.get("rollups", ())
    )
    found = [price_table(plan, 1 + len(labels), unions=unions, whole=whole, questions=paid) for whole in known]
    return [loosen(price, len(labels), bits=plan.bits) for price in found] if state.request.get("shared") else found


def _list_marginal_prices(state: _ChargeState, plan: AnyPlan) -> list[TablePrice]:
    """Return what each table of marginals costs."""
    found, asked = [], state.request
    own: dict[str, Any] = {"questions": asked.get("questions", 2), "workload": "workload" in asked}
    for each in asked["tables"]:
        unions = count_unions([*_find_sizes(each).values()], margins="margins" in each.get("unions", ()), ranges=False)
        found.append(price_marginal(plan, 1 + len(each["labels"]), unions=unions, **own))
    return found


def _find_sizes(asked: dict[str, Any]) -> dict[str, int]:
    """Return how many labels each column of a table has."""
    labels = [len(set(column)) for column in zip(*asked["labels"], strict=True)]
    return dict(zip(asked["columns"], labels, strict=True))


def _price_declared(state: _ChargeState, plan: AnyPlan, *, spent: int) -> WorkloadPrice | None:
    """Return the boxes of questions that were declared with marginals; None where there were none."""
    asked, prices = state.request, _list_marginal_prices(state, plan)
    if "workload" not in asked:
        return None
    spreads = count_spreads(asked["workload"]["sets"], [_find_sizes(each) for each in asked["tables"]])
    paid = sum(each.questions for each in prices)
    return price_workload(plan, spreads, sigma=prices[0].sigma, questions=paid, draw=state.drawn, spent=spent)


def _check_workload(record: Workload, charge: Entry, state: _ChargeState, plan: AnyPlan) -> Found:
    """Compare answers to declared questions with what was declared, and with the intervals that follow from their boxes."""
    declared, price = state.request["workload"], _price_declared(state, plan, spent=charge.spent)
    if digest_of({"columns": list(record.columns), "labels": [list(each) for each in record.labels]}) != declared["digest"]:
        yield "request", "it answers other questions than those that were declared before the draw"
    if price is None or price.population is None or record.box_low is None or record.box_high is None:
        if record.low is not None:
            yield "interval", "it has intervals for the population that no theorem gives"
        return
    tables, sigma = [_find_sizes(each) for each in state.request["tables"]], _list_marginal_prices(state, plan)[0].sigma
    spread = cache(lambda names: find_spreads(names, tables))
    for place, answer in enumerate(record):
        names = tuple(name for name, label in zip(record.columns, record.labels[place], strict=True) if label is not None)
        (low, high), ends = spread(names), (record.box_low[place], record.box_high[place])
        # The upper end also counts rows in no cell, unless a table has these columns alone.
        wide = sigma * price.population * low, sigma * price.population * (high if low == high else 0.0)
        inside = (max(0.0, answer.value - wide[0]), min(1.0, answer.value + wide[1]))
        if ends[0] > inside[0] + _ROUNDING or ends[1] < inside[1] - _ROUNDING:
            yield "interval", "its noise box is narrower than the noise"
        expected = transfer_ends(ends, epsilon=price.epsilon, slacks=(price.slack, price.slack))
        yield from _compare_ends(answer.interval, expected, plan, "population")


def _is_moved(record: Table | Means) -> bool:
    """Return whether the answers of all cells were moved to their total."""
    held = record.unions if isinstance(record, Table) else record
    return isinstance(held, (Unions, Means)) and held.whole is True


def _check_cells(record: Table | Means, price: TablePrice, plan: AnyPlan, grid: int) -> Found:
    """Compare the numbers of single cells with the intervals that follow from their price, and moved answers with 1."""
    if isinstance(record, Means):
        for value, told in _list_single_cells(record):
            yield from _check_grid(value, grid)
            yield from _compare_ends(told, find_ends(plan, price, [value]).population, plan, "population")
        return
    ends = find_cell_ends(plan, price, record.values)
    for place, answer in enumerate(record):
        yield from _check_grid(answer.value, grid)
        expected = None if ends is None else (ends[0][place], ends[1][place])
        yield from _compare_ends(answer.interval, expected, plan, "population")
    if price.whole and isinstance(record.unions, Unions) and abs(math.fsum(record.unions.answers) - 1) > _ROUNDING:
        yield "interval", "its cells are all rows, and their answers do not add up to 1"


def _list_single_cells(record: Means) -> Iterator[tuple[float, Interval | None]]:
    """Yield the numbers of means that are answers of one cell, with their intervals for the population."""
    for found in (record.below, record.above, record.missing):
        if isinstance(found, Estimates):
            for place, value in enumerate(found.values):
                ends = None if found.low is None or found.high is None else (found.low[place], found.high[place])
                yield value, None if ends is None else Interval(*ends, record.confidence, "population")


def _is_curve(state: _ChargeState) -> bool:
    return any(part.startswith("curve ") for part in state.parts)


def _price_of_curve(plan: AnyPlan, state: _ChargeState, rows: int) -> CurvePrice:
    grid, filtered = rebuild_grid(*state.request["grid"]), state.request.get("where") is not None
    return price_curve(plan, grid.last + filtered, rows=rows)


def _check_curve(record: Quantiles, charge: Entry, state: _ChargeState, plan: AnyPlan, rows: int) -> Found:
    """Recompute quantiles from the shares that were released."""
    asked = state.request
    task = QuantileTask(asked["column"], record.levels, rebuild_grid(*asked["grid"]), asked.get("where"), "curve")
    held: dict[str, Any] = {"certificate": record.certificate, "place": (state.drawn, charge.spent)}
    right = make_curve(task, plan, record.shares, rows=rows, **held)
    if right != record:
        yield "interval", "its quantiles are not those that follow from its shares"


def _check_evaluation(record: Evaluation, charge: Entry, state: _ChargeState, plan: AnyPlan, rows: int) -> Found:
    """Compute the bound of an evaluation again, from its levels or from its noisy error, and where its charge stands."""
    request, beta = state.request, float(state.request["beta"])
    if not math.isclose(record.confidence, 1 - beta, abs_tol=_ROUNDING):
        yield "interval", f"its confidence is {record.confidence:.6g}, and {1 - beta:.6g} was asked for"
    if record.bound is not None and not plan.iid:
        yield "interval", "it has an interval for the population, although rows are not declared independent"
    elif "released" in request:
        width, grid = float(request.get("width", 1.0)), rows << plan.bits
        value = round(float(record.value or 0.0) / width * grid) / grid
        if value * width != record.value or not 0 <= value <= 1:
            yield "interval", f"its value is not on the public grid of {grid} steps (P1)"
        scaled = "pairs" in request  # before requests said it, pairs were placed whatever their share of beta
        ends = find_error_ends(plan, value, beta=beta, spent=charge.spent, scaled=scaled) if plan.iid else None
        said = None if record.bound is None else ((record.low or 0.0) / width, record.bound / width)
        if (ends is None) != (said is None) or any(
            abs(one - other) > _ROUNDING for one, other in zip(said or (), ends or (), strict=True)
        ):
            yield "interval", "the interval of its error is not the one that the plan gives"
    elif record.bound is not None:
        levels = {float(level): level for level in map(Fraction, map(str, request["levels"]))}
        level = levels.get(record.at_most)
        share = FIRST_SHARE if "noise share" in request else 0.5  # before requests said it
        given: dict[str, Any] = {"beta": beta, "spent": charge.spent, "share": share if charge.charges == 1 else None}
        right = 1.0 if level is None else bound_level(plan, level, record.rows, **given)
        if level is None or not record.certified or not 0 < record.rows <= rows or abs(record.bound - right) > _ROUNDING:
            yield "interval", f"its bound is {record.bound:.6g}, and its level and its rows give {right:.6g}"


def _check_grid(value: float, grid: int) -> Found:
    if not 0 <= value <= 1 or round(value * grid) / grid != value:
        yield "interval", f"its value is not on the public grid of {grid} steps (P1)"


def _compare_ends(
    interval: Interval | None, ends: tuple[float, float] | None, plan: AnyPlan, target: str, *, near: float = _ROUNDING
) -> Found:
    if interval is None or ends is None:
        if interval is not None:
            yield "interval", "it has an interval for the population, although rows are not declared independent"
        elif ends is not None:
            yield "interval", f"it has no interval for the {target}, which the plan promises"
        return
    alike = abs(interval.low - ends[0]) <= near and abs(interval.high - ends[1]) <= near
    if not alike or interval.target != target or not math.isclose(interval.confidence, 1 - plan.beta, abs_tol=_ROUNDING):
        right = f"[{ends[0]:.6g}, {ends[1]:.6g}] ({1 - plan.beta:.6g}, {target})"
        said = f"[{interval.low:.6g}, {interval.high:.6g}] ({interval.confidence:.6g}, {interval.target})"
        yield "interval", f"its interval is {said}, and the plan gives {right}"
