"""What is left, and what a request would cost: public numbers, free to look at."""

from msgspec import Struct

from holdtrue.accounting.filters import Filter, GaussianFilter, PureFilter, ZeroConcentratedFilter
from holdtrue.exact import Number, amount
from holdtrue.planning.methods import SIDES, Side
from holdtrue.planning.plans import AnyPlan
from holdtrue.queries.syntax_tree import Query
from holdtrue.records import Deduction, Interval

__all__ = ["Budget", "Preview", "budget_of", "preview_of"]


_FILTERS: dict[str, type[Filter]] = {kind.currency: kind for kind in (GaussianFilter, ZeroConcentratedFilter, PureFilter)}


class Budget(Struct, frozen=True):
    """What the ledger may spend in all, has spent, and has left, in its unit; over all analysts.

    ``asks`` is how many questions of the plan are left, ``reserve`` what other verbs may still spend, ``cap_units`` the cap
    in whole units of 1e-15.
    """

    unit: str
    cap: float
    spent: float
    left: float
    asks: int
    reserve: float
    cap_units: int

    def epsilon(self, delta: Number) -> float:
        """Return the epsilon of everything the ledger can ever pay for, at a delta. It is that of the cap (T3)."""
        return _FILTERS[self.unit](self.cap_units).epsilon(delta)

    def __str__(self) -> str:
        share = f"{self.spent / self.cap:.1%}" if self.cap else "all"
        details = f"{self.asks:,} questions, {self.reserve:.3g} in reserve"
        return f"{self.left:.4g} of {self.cap:.4g} {self.unit} left ({share} spent): {details}"


def budget_of(plan: AnyPlan, limit: Filter, *, spent: int, draws: int, other: int) -> Budget:
    """Return the budget from whole units."""
    asks = min(plan.queries - draws, (limit.budget - spent) // plan.cost) if plan.cost else 0
    return Budget(
        unit=limit.currency,
        cap=amount(limit.budget),
        spent=amount(spent),
        left=amount(limit.budget - spent),
        asks=max(0, asks),
        reserve=amount(max(0, min(plan.reserve_units - other, limit.budget - spent))),
        cap_units=limit.budget,
    )


class Preview(Struct, frozen=True, omit_defaults=True):
    """What a question would cost and how wide its answer would be, before asking. Free, and says nothing about rows.

    ``alpha`` is how far the population's ends are from the answer at most: both, or the one that ``side`` says (S6).
    ``population`` says whom they are about where rows belong to units (U4). ``follows`` is what follows from earlier answers
    already, free (U7); None where nothing does.
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

    @property
    def width(self) -> str:
        """Return in words how wide the interval for the population would be."""
        if self.alpha is None:
            return "no interval for the population"
        about = "" if self.population is None else f" ({self.population})"
        return f"population{about}" + ("" if self.side == "both" else f"'s {SIDES[self.side]}") + f" within {self.alpha:.4g}"

    def __str__(self) -> str:
        cost = "nothing, asked before" if self.repeated else f"{self.cost:.3g}"
        known = (
            "" if self.follows is None else f"\n  this already follows: {self.follows.low:.4g} to {self.follows.high:.4g}"
        )
        width = f"{self.width}, these rows within {self.sample_alpha:.4g}"
        return f"{self.text}\n  {width}\n  costs {cost}; {self.left:.3g} left{known}"


def preview_of(  # noqa: PLR0913 - what is public about one question
    query: Query,
    plan: AnyPlan,
    *,
    draws: int,
    spent: int,
    repeated: bool,
    population: str | None = None,
    found: Deduction | None = None,
) -> Preview:
    """Return the preview of a query from whole units; ``draws`` and ``spent`` count what was asked and paid before it.

    ``found`` is what follows from earlier answers.
    """
    return Preview(
        text=query.text,
        cost=0.0 if repeated else amount(plan.cost),
        left=amount(plan.cap_units - spent),
        alpha=plan.alpha_after(draws + 1, spent + plan.cost) if plan.iid else None,
        sample_alpha=plan.sample_alpha_at(draws + 1),
        repeated=repeated,
        side=plan.side,
        population=population,
        follows=found.interval or found.sample_interval if found is not None and found.sources else None,
    )
