"""What a privacy budget buys: the same epsilon spent on each verb alone, from public numbers."""

import math
from dataclasses import dataclass
from functools import cached_property

from holdtrue.accounting.closed_forms import largest_float
from holdtrue.accounting.filters import GaussianFilter, largest_cap
from holdtrue.errors import RequestError
from holdtrue.events import BoundedRange, Event, Pure
from holdtrue.exact import Number, count, positive, probability, round_down
from holdtrue.planning.asking import plan
from holdtrue.planning.learning import plan_learning
from holdtrue.planning.plans import Plan
from holdtrue.planning.quantiles import count_most_asks, read_grid
from holdtrue.planning.regression import plan_regression
from holdtrue.planning.selecting import plan_selection
from holdtrue.planning.tables import price_means, price_table

__all__ = ["BudgetLine", "list_purchases"]

_QUESTIONS = (10, 100, 1_000)
_EACH = 0.05
_CELLS = 20
_CANDIDATES = 50
_HYPOTHESES = 1_000


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """One thing that all of a budget may be spent on: by which verb, how much of it, and how good it is."""

    verb: str
    buys: str
    quality: str


def list_purchases(*, rows: int, epsilon: Number = 1, delta: Number = 1e-6, beta: Number = 0.05) -> list[BudgetLine]:
    """Return what (epsilon, delta) buys over this many rows, by each verb alone, on a ledger of Gaussian noise.

    Law: every line fits under the cap of :func:`~holdtrue.accounting.filters.largest_cap`, and its quality is that of the
    verb's own planner. Widths take rows to be independent draws, and leave nothing in reserve.

    >>> list_purchases(rows=10_000)[1]
    BudgetLine(verb='ask', buys='100 questions', quality='each within 0.0986 of the population, all at once')
    """
    budget = _PrivacyCap(
        count("rows", rows), round_down(positive("epsilon", epsilon)), round_down(probability("delta", delta))
    )
    sure = float(probability("beta", beta))
    return [*_buy_questions(budget, sure), *_buy_picks(budget, sure), *_buy_models(budget)]


@dataclass(frozen=True)
class _PrivacyCap:
    rows: int
    epsilon: float
    delta: float

    @cached_property
    def cap(self) -> int:
        return largest_cap("gdp", self.epsilon, self.delta)

    def count_events(self, event: Event) -> int:
        """Return how often an event fits under the cap."""
        return self.cap // GaussianFilter(self.cap).cost(event)

    def plan_questions(self, queries: int, beta: float, *, iid: bool = True) -> Plan | None:
        try:
            given = {"rows": self.rows, "queries": queries, "beta": beta, "iid": iid}
            return plan(**given, epsilon=self.epsilon, delta=self.delta)  # type: ignore[arg-type]  # by name
        except RequestError:
            return None

    def largest_epsilon(self) -> float:
        """Return the largest epsilon of one choice by the exponential mechanism that fits under the cap."""
        limit = GaussianFilter(self.cap)
        return math.exp(largest_float(lambda at: limit.cost(BoundedRange(math.exp(at))) <= self.cap, -20.0, 5.0, steps=60))


def _buy_questions(budget: _PrivacyCap, beta: float) -> list[BudgetLine]:
    found = []
    for queries in _QUESTIONS:
        made = budget.plan_questions(queries, beta)
        wide = "too wide to say anything" if made is None else f"each within {made.alpha:.3g} of the population, all at once"
        found.append(BudgetLine("ask", f"{queries:,} questions", wide))
    alone = budget.plan_questions(_QUESTIONS[-1], beta, iid=False)
    if alone is not None:
        told = f"each within {alone.alpha:.3g} of these rows (without iid)"
        found.append(BudgetLine("ask", f"{_QUESTIONS[-1]:,} questions", told))
    made = budget.plan_questions(_QUESTIONS[1], beta)
    if made is None:
        return found
    near = f"every number within {made.alpha:.3g}, all at once"
    table, mean = price_table(made, _CELLS).questions, price_means(made, 1, outside=True).questions
    search = count_most_asks(read_grid(0, 127, 1), 1, filtered=False)
    found.append(BudgetLine("table", f"{_QUESTIONS[1] // table} tables of {_CELLS} cells, {table} questions each", near))
    found.append(
        BudgetLine("mean, sum", f"{_QUESTIONS[1] // mean} means, {mean} questions each", "in the column's own units")
    )
    searches = f"{_QUESTIONS[1] // search} searches of 128 points, at most {search} questions each"
    found.append(BudgetLine("median", searches, f"each share within {made.alpha:.3g}"))
    return found


def _buy_picks(budget: _PrivacyCap, beta: float) -> list[BudgetLine]:
    each, whole = BoundedRange(_EACH), budget.largest_epsilon()
    behind = plan_selection(candidates=_CANDIDATES, epsilon=_EACH, beta=beta).shortfall
    picks = f"{budget.count_events(each):,} choices among {_CANDIDATES}, epsilon {_EACH} each"
    found = [BudgetLine("select", picks, f"each at most {behind:.0f} rows behind the best")]
    runs = f"{budget.count_events(Pure(_EACH)):,} runs to an alarm, epsilon {_EACH} each"
    found.append(BudgetLine("watch", runs, "any number of questions below the threshold"))
    try:
        excess = plan_learning(size=_HYPOTHESES, rows=budget.rows, epsilon=whole, beta=beta).alpha
        told = f"errs at most {excess:.3g} more often than the best"
    except RequestError:
        told = "too few rows to certify anything"
    found.append(BudgetLine("learn", f"1 rule out of {_HYPOTHESES:,}, epsilon {whole:.2g}", told))
    return found


def _buy_models(budget: _PrivacyCap) -> list[BudgetLine]:
    labels = budget.count_events(BoundedRange(_EACH))
    lead = math.ceil(2 / _EACH * math.log(19))  # two labels: right with e^(epsilon lead / 2) against 1
    found = [
        BudgetLine("predict", f"{labels:,} labels, epsilon {_EACH} each", f"right 95% of the time where {lead} votes lead"),
        BudgetLine("distill", f"a student taught with {labels:,} labels", "any number of predictions afterwards"),
    ]
    mu = math.sqrt(budget.cap * 1e-15) * (1 - 2**-40)
    fitted = plan_regression(rows=budget.rows, mu=mu, release="once")
    loss = f"expected loss at most {fitted.excess:.3g} above the best of length 1"
    found.append(BudgetLine("fit", f"1 linear model, mu {mu:.2g}", loss))
    return found
