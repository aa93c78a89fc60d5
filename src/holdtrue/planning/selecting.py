"""By how many rows a private choice may miss the best candidate, or the privacy at which it will not (B5, N5)."""

from msgspec import Struct

from holdtrue.accounting.closed_forms import bounded_range_mu, bounded_range_rho
from holdtrue.bounds.selection import UTILITY, selection_epsilon, selection_shortfall
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number, count, floor_positive, floor_probability, positive, round_up
from holdtrue.mechanisms.choosing import score_range
from holdtrue.records import text_table

__all__ = ["SelectionPlan", "plan_selection"]


class SelectionPlan(Struct, frozen=True, forbid_unknown_fields=True, tag_field="plan", tag="selection"):
    """A private choice whose score falls short of the best by ``shortfall`` or more with probability beta at most.

    Scores are counts of rows, so the shortfall is in rows. ``range`` is that of the scores (B2); ``mu`` and ``rho`` are
    what the choice costs on a GDP and on a zCDP ledger.
    """

    candidates: int
    epsilon: float
    beta: float
    shortfall: float
    range: float
    mu: float
    rho: float
    theorem: str = UTILITY

    def __str__(self) -> str:
        return text_table(
            f"a private choice among {self.candidates:,} candidates",
            {
                "shortfall": f"less than {self.shortfall:.4g} rows, except with probability {self.beta:.4g}",
                "privacy": f"epsilon {self.epsilon:.4g} (mu {self.mu:.4g}, rho {self.rho:.4g})",
                "theorem": self.theorem,
            },
        )


def plan_selection(  # noqa: PLR0913 - the scores are described in one of three ways
    *,
    candidates: int,
    beta: Number,
    epsilon: Number | None = None,
    shortfall: Number | None = None,
    sensitivity: Number = 1,
    range: Number | None = None,  # noqa: A002 - the word of the theory
    monotone: bool = False,
) -> SelectionPlan:
    """Return the plan for a private choice; give epsilon or shortfall, and the other is computed.

    With probability 1 - beta the chosen score is above best - shortfall, shortfall = (R / epsilon) ln(candidates / beta);
    R is twice the sensitivity, the sensitivity where all scores move the same way, or ``range``. It is about these rows,
    and it holds for permute-and-flip too, which costs more on a GDP or zCDP ledger (B3).

    >>> import holdtrue.planning.selecting as planning
    >>> round(planning.plan_selection(candidates=50, epsilon=0.5, beta=0.05).shortfall, 2)
    27.63
    """
    members, failure = count("candidates", candidates), floor_probability("beta", beta)
    spread = round_up(score_range(sensitivity, range, monotone=monotone))
    if (epsilon is None) == (shortfall is None):
        raise InvalidParameter.saying("epsilon", "give either epsilon or shortfall; the other is computed")
    if epsilon is None:
        missed = round_up(positive("shortfall", shortfall))
        privacy = selection_epsilon(members, shortfall=missed, beta=failure, range=spread)
    else:
        privacy = floor_positive("epsilon", epsilon)
        missed = selection_shortfall(members, epsilon=privacy, beta=failure, range=spread)
    return SelectionPlan(members, privacy, failure, missed, spread, bounded_range_mu(privacy), bounded_range_rho(privacy))
