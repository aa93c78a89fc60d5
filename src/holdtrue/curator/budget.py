"""What is left, and what a request would cost: public numbers, free to look at."""

from msgspec import Struct

from holdtrue.accounting.filters import Filter, GaussianFilter, PureFilter, ZeroConcentratedFilter
from holdtrue.accounting.purses import Purse
from holdtrue.exact import Number, amount, probability, round_down
from holdtrue.planning.methods import SIDES, Side
from holdtrue.planning.plans import AnyPlan
from holdtrue.queries.cards import Card, Column
from holdtrue.queries.syntax_tree import Query, list_compared
from holdtrue.records import Deduction, FactTable, Interval, html_table, text_table
from holdtrue.verbs.asking import refuse_own_units

__all__ = ["Allowance", "Budget", "Preview", "allowance_of", "budget_of", "preview_of"]


CLAMPED = "the mean of a number; values below 0 count as 0, above 1 as 1"
_LISTED = 20
_FILTERS: dict[str, type[Filter]] = {kind.currency: kind for kind in (GaussianFilter, ZeroConcentratedFilter, PureFilter)}


class Allowance(Struct, frozen=True):
    """What one analyst may spend of the budget that all share, in questions: granted, spent by every verb, and left."""

    analyst: str
    asks: int
    spent: float
    left: int

    def __str__(self) -> str:
        return f"{self.left:,} of the {self.asks:,} questions that {self.analyst} may ask are left"


class Budget(FactTable, Struct, frozen=True, omit_defaults=True):
    """What the ledger may spend in all, has spent, and has left, in its unit; over all analysts.

    ``asks`` is how many questions of the plan are left, ``reserve`` what other verbs may still spend, ``cap_units`` the cap
    in whole units of 1e-15. ``allowance`` is what whoever asks may spend of it, None without a limit of their own. On a
    ledger with two purses these are the questions' purse, and ``reserve`` is what ``purse``, the other one, has left in its
    own currency.
    """

    unit: str
    cap: float
    spent: float
    left: float
    asks: int
    reserve: float
    cap_units: int
    allowance: Allowance | None = None
    purse: Purse | None = None

    def epsilon(self, delta: Number) -> float:
        """Return the epsilon of everything the ledger can ever pay for, at a delta. It is that of the caps (T3, V3.1)."""
        limit = _FILTERS[self.unit](self.cap_units)
        if self.purse is None or not isinstance(limit, GaussianFilter):
            return limit.epsilon(delta)
        return self.purse.find_epsilon(limit.mu, round_down(probability("delta", delta)))

    @property
    def tv(self) -> float:
        """Return the total variation of everything the ledger can ever pay for: delta of the caps at epsilon 0 (V6.4).

        In the mean over samples, no answer of any adaptive session is farther from the population (A1).
        """
        limit = _FILTERS[self.unit](self.cap_units)
        second = self.purse if isinstance(limit, GaussianFilter) else None
        return limit.tv if second is None or not isinstance(limit, GaussianFilter) else second.delta(limit.mu, 0.0)

    @property
    def reserve_unit(self) -> str:
        """Return in what the reserve is counted."""
        return self.unit if self.purse is None else self.purse.currency

    def list_facts(self) -> dict[str, str]:
        """Return the budget in words: in questions and percent, then in the ledger's unit."""
        share, kept = (each / self.cap if self.cap else 0.0 for each in (self.left, self.reserve))
        own = {} if self.allowance is None else {"your allowance": str(self.allowance)}
        within = f"of which {kept:.1%} is in reserve for other verbs"
        beside = f"and {self.reserve:.4g} {self.reserve_unit} in reserve for other verbs"
        return {
            "questions left": f"{self.asks:,}",
            "budget left": f"{share:.1%}, {within if self.purse is None else beside}",
            f"in {self.unit}": f"{self.left:.4g} of {self.cap:.4g}",
        } | own


def allowance_of(plan: AnyPlan, analyst: str, *, allowance: int, spent: int, left: int) -> Allowance | None:
    """Return an analyst's allowance in questions, from whole units; None where questions have no cost."""
    if not plan.cost:
        return None
    return Allowance(analyst, allowance // plan.cost, spent / plan.cost, max(0, left) // plan.cost)


def budget_of(  # noqa: PLR0913 - what is public about one ledger
    plan: AnyPlan, limit: Filter, *, spent: int, draws: int, other: int, allowance: Allowance | None = None
) -> Budget:
    """Return the budget from whole units; ``limit`` is the filter of the questions' purse."""
    reserve = plan.reserve_units - other
    asks = min(plan.queries - draws, (limit.budget - spent) // plan.cost) if plan.cost else 0
    return Budget(
        unit=limit.currency,
        cap=amount(limit.budget),
        spent=amount(spent),
        left=amount(limit.budget - spent),
        asks=max(0, asks),
        reserve=amount(max(0, min(reserve, limit.budget - spent) if plan.second is None else reserve)),
        cap_units=limit.budget,
        allowance=allowance,
        purse=plan.second,
    )


class Preview(FactTable, Struct, frozen=True, omit_defaults=True):
    """What a question would cost and how wide its answer would be, before asking. Free, and says nothing about rows.

    ``alpha`` is how far the population's ends are from the answer at most: both, or the one that ``side`` says (S6).
    ``population`` says whom they are about where rows belong to units (U4). ``follows`` is what follows from earlier answers
    already, free (U7), None where nothing does; ``answered`` says that a table or an answer was about this very question.
    ``note`` says what a number is asked for, and which words are no public label of their column. ``asks`` is how many
    questions are left to all, ``allowance`` what is left to whoever asks, None without a limit of their own.
    """

    text: str
    cost: float
    left: float
    alpha: float | None
    sample_alpha: float
    repeated: bool
    side: Side = "both"
    population: str | None = None
    follows: Interval | None = None
    note: str | None = None
    asks: int | None = None
    allowance: Allowance | None = None
    answered: bool = False

    @property
    def fits(self) -> bool:
        """Return whether the budget, and the allowance of whoever asks, pay for it."""
        own = self.allowance is None or self.allowance.left > 0
        return self.repeated or not self.cost or (own and self.asks != 0)

    @property
    def is_told(self) -> bool:
        """Return whether ``ask(..., deduce="first")`` takes what follows: as close as an answer would be, or in a table."""
        wide = self.sample_alpha if self.alpha is None else self.alpha
        return self.follows is not None and (self.answered or self.follows.width / 2 <= wide)

    @property
    def width(self) -> str:
        """Return in words how wide the interval for the population would be."""
        if self.alpha is None:
            return "no interval for the population"
        about = "" if self.population is None else f" ({self.population})"
        return f"population{about}" + ("" if self.side == "both" else f"'s {SIDES[self.side]}") + f" within {self.alpha:.4g}"

    def __str__(self) -> str:
        return text_table(self.text, self.list_facts())

    def list_facts(self) -> dict[str, str]:
        """Return the preview in words, a line each."""
        none = "no interval: rows not declared independent draws"
        wide = none if self.alpha is None else self.width.removeprefix("population ")
        facts = {"population": wide, "these rows": f"within {self.sample_alpha:.4g}"}
        if not self.cost and not self.repeated:
            facts = {"width": "none: exact"}
        if self.repeated:
            facts["cost"] = "nothing: asked before"
        elif not self.cost:
            facts["cost"] = "nothing: it reads no column"
        else:
            facts["cost"] = "1 question" + ("" if self.asks is None else f"; {self.asks:,} left")
        if self.allowance is not None:
            facts["allowance"] = str(self.allowance)
        if self.follows is not None and self.follows.width < 1:
            far = "" if self.is_told else ", though further off than an answer"
            facts["follows"] = (
                f"{self.follows.low:.4g} to {self.follows.high:.4g}: already follows from earlier answers, free{far}"
            )
        return facts if self.note is None else facts | {"note": self.note}

    def _repr_html_(self) -> str:
        return html_table(self.list_facts().items(), title=self.text)


def explain_labels(query: Query, card: Card) -> list[str]:
    """Return a sentence for each column that a query compares with words that are none of its public labels.

    It is asked as it stands: rows may hold what the card does not list. Nothing but query and card is read.
    """
    wrong: dict[Column, set[str]] = {}
    for table, name, value in list_compared(query.tree):
        column = (card if table is None else card.find_table(table).card).column(name)
        if column.labels is not None and value not in column.labels:
            wrong.setdefault(column, set()).add(repr(value))
    return [_say_labels(column, sorted(values)) for column, values in wrong.items()]


def _say_labels(column: Column, values: list[str]) -> str:
    labels = column.labels or ()
    public = ", ".join(map(repr, labels[:_LISTED])) + (f" and {len(labels) - _LISTED:,} more" if labels[_LISTED:] else "")
    return f"{', '.join(values[:_LISTED])}: no public label of {column.name}, whose labels are {public}"


def preview_of(  # noqa: PLR0913 - what is public about one question
    query: Query,
    plan: AnyPlan,
    *,
    draws: int,
    spent: int,
    repeated: bool,
    card: Card,
    asks: int | None = None,
    allowance: Allowance | None = None,
    found: Deduction | None = None,
) -> Preview:
    """Return the preview of a query from whole units; ``draws`` and ``spent`` count what was asked and paid before it.

    ``found`` is what follows from earlier answers.
    """
    refuse_own_units(query, card)
    free = repeated or (not query.columns and plan.side == "both")
    return Preview(
        text=query.text,
        cost=0.0 if free else amount(plan.cost),
        left=amount(plan.cap_units - spent),
        alpha=plan.alpha_after(draws + 1, spent + plan.cost) if plan.iid else None,
        sample_alpha=plan.sample_alpha_at(draws + 1),
        repeated=repeated,
        side=plan.side,
        population=card.population,
        follows=found.interval or found.sample_interval if found is not None and found.sources else None,
        note="; ".join(([] if query.boolean else [CLAMPED]) + explain_labels(query, card)) or None,
        asks=asks,
        allowance=allowance,
        answered=found is not None and found.answered is True,
    )
