"""How many rows, in how many parts, for private predictions by vote (E5, E11, N4)."""

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from holdtrue.accounting.closed_forms import bounded_range_mu, bounded_range_rho, pure_mu, pure_rho, smallest_enough
from holdtrue.bounds import agnostic_prediction, learning, prediction
from holdtrue.bounds.prediction import BaseRows, Partition
from holdtrue.errors import InsufficientSamples, InvalidParameter
from holdtrue.exact import ROUNDING, LedgerKind, Number, count, floor_positive, floor_probability, text_among, truth
from holdtrue.records import text_table

__all__ = ["PredictionPlan", "plan_prediction"]

PredictionMethod: TypeAlias = Literal["best", "seed", "laplace"]
Cut: TypeAlias = Callable[[float], Partition]

_LARGEST_BOUNDED_ALPHA = 1 / 4
_LARGEST_BOUNDED_BETA = 1 / 12
_LARGEST_ALPHA = 1 - 2.0**-53


class PredictionPlan(Struct, frozen=True, forbid_unknown_fields=True, tag_field="plan", tag="prediction"):
    """Rows in disjoint parts, one predictor a part, whose votes answer each question with error at most alpha.

    With probability 1 - beta over the rows: where ``realizable``, an answer is wrong with probability at most alpha over
    a random point and the coins; otherwise, at most alpha more often than the best hypothesis. ``base_error`` is what each
    predictor is trained to; ``tau`` what the response adds to it (None for soft majority, whose ``rate`` is epsilon / 2).
    ``epsilon`` is one prediction's, ``mu`` and ``rho`` are what all ``predictions`` cost together. ``lower_bound`` is the
    number of rows below which no private predictor of this VC dimension can do it, where that is known.
    """

    parts: int
    part_rows: int
    rows: int
    base_error: float
    epsilon: float
    rate: float | None
    tau: float | None
    alpha: float
    beta: float
    size: int | None
    dimension: int | None
    predictions: int
    method: str
    realizable: bool
    ledger: str
    mu: float
    rho: float
    lower_bound: int | None
    theorem: str

    def __str__(self) -> str:
        lines = {
            "parts": f"{self.parts:,} of {self.part_rows:,} rows, each trained to an error of {self.base_error:.4g}",
            "error": f"{self.alpha:.4g} at most{'' if self.realizable else ' above the best'}, "
            f"except with probability {self.beta:.4g}",
            "privacy": f"epsilon {self.epsilon:.4g} each; {self.predictions:,} cost mu {self.mu:.4g}, rho {self.rho:.4g}",
            "method": f"{self.method}: {self.theorem}",
        }
        if self.lower_bound is not None and self.lower_bound > 1:
            lines["never below"] = f"{self.lower_bound:,} rows, whatever the method"
        return text_table(f"{self.rows:,} rows for private predictions", lines)


def plan_prediction(  # noqa: PLR0913 - each budget and each class can be given in its own words
    *,
    beta: Number,
    size: int | None = None,
    dimension: int | None = None,
    alpha: Number | None = None,
    rows: int | None = None,
    epsilon: Number | None = None,
    mu: Number | None = None,
    rho: Number | None = None,
    predictions: int = 1,
    realizable: bool = True,
    method: PredictionMethod = "best",
    ledger: LedgerKind | None = None,
) -> PredictionPlan:
    """Return the plan for private predictions by vote; give alpha or rows, and the other is computed.

    The class is given by its ``size`` or by its VC ``dimension``, which may be that of an infinite class; unless realizable,
    predictors must then have the fewest errors of all on their parts, exactly (V6.1). The budget is ``epsilon`` for one
    prediction, or ``mu`` (GDP) or ``rho`` (zCDP) for all ``predictions`` together; the ledger is GDP unless they or
    ``ledger`` say otherwise. Realizable: soft majority with the best
    number of parts (E5), or the report's (``method="seed"``). Otherwise: a response table (E11) on which one step of the
    votes moves the log-odds by epsilon, or on a pure ``ledger`` the probabilities by e^epsilon; "laplace" is noise of
    scale 1 / (r epsilon), clipped, with the best number of parts where a dimension is given, and "seed" the report's
    Corollary 1, mended.

    >>> import holdtrue.planning.predicting as planning
    >>> plan = planning.plan_prediction(epsilon=1.0, alpha=0.1, beta=0.05, size=1000)
    >>> plan.parts, plan.part_rows, plan.rows
    (7, 185, 1295)
    """
    failure, times = floor_probability("beta", beta), count("predictions", predictions)
    realizable = truth("realizable", realizable)
    base = _base(size, dimension, method, realizable=realizable)
    noisy = not realizable and method != "best"
    book = _ledger(mu, rho, ledger, noisy=noisy)
    privacy = _budget(epsilon, mu, rho, times)
    cut = _cut_parts(base, failure, privacy, method, book, realizable=realizable, infinite=dimension is not None)
    if (alpha is None) == (rows is None):
        raise InvalidParameter.saying("alpha", "give either alpha or rows; the other is computed")
    error = floor_probability("alpha", alpha) if rows is None else _least_alpha(cut, count("rows", rows))
    found = cut(error)
    pure = not realizable and (noisy or book == "pure")
    one = (pure_mu(privacy), pure_rho(privacy)) if pure else (bounded_range_mu(privacy), bounded_range_rho(privacy))
    return PredictionPlan(
        parts=found.parts,
        part_rows=found.part_rows if rows is None else rows // found.parts,
        rows=found.rows if rows is None else rows,
        base_error=found.base_error,
        epsilon=privacy,
        rate=privacy / 2 if realizable else None,
        tau=None if realizable else _tau(found.parts, privacy, method, book),
        alpha=error,
        beta=failure,
        size=size,
        dimension=dimension,
        predictions=times,
        method=method,
        realizable=realizable,
        ledger=book,
        mu=math.sqrt(times) * one[0] * ROUNDING,
        rho=times * one[1] * ROUNDING,
        lower_bound=_lower_bound(dimension, error, failure, privacy),
        theorem=_THEOREMS[method, realizable] + ("" if dimension is None or realizable else ", agnostic dimension (V6.1)"),
    )


_THEOREMS = {
    ("best", True): "soft majority, best cut (E5)",
    ("seed", True): "prediction report, Theorem 1 (E5)",
    ("best", False): "response table, best cut (E11)",
    ("laplace", False): "clipped Laplace response (E11)",
    ("seed", False): "prediction report, Corollary 1 (E11)",
}


def _ledger(mu: Number | None, rho: Number | None, ledger: LedgerKind | None, *, noisy: bool) -> LedgerKind:
    """Return the ledger that the budget belongs to."""
    implied: LedgerKind | None = "gdp" if mu is not None else "zcdp" if rho is not None else None
    name = "mu" if mu is not None else "rho"
    if implied is not None and noisy:
        raise InvalidParameter(
            name, rho if mu is None else mu, "left out and epsilon given: clipped noise is no bounded-range answer"
        )
    if ledger is not None:
        text_among("ledger", ledger, ("gdp", "zcdp", "pure"))
    if implied is not None and ledger not in (None, implied):
        raise InvalidParameter("ledger", ledger, f"{implied!r} or left out where {name} is given")
    return implied or ledger or "gdp"


def _budget(epsilon: Number | None, mu: Number | None, rho: Number | None, times: int) -> float:
    """Return one prediction's epsilon."""
    if sum(budget is None for budget in (epsilon, mu, rho)) != 2:  # noqa: PLR2004 - exactly one of the three
        raise InvalidParameter.saying("epsilon", "give one of epsilon, of one prediction, and mu or rho, of all together")
    if epsilon is None:
        return prediction.epsilon_each(times, mu=mu, rho=rho)
    return floor_positive("epsilon", epsilon)


def _lower_bound(dimension: int | None, alpha: float, beta: float, epsilon: float) -> int | None:
    """Return E6's number of rows where its preconditions hold."""
    if dimension is None or dimension == 1 or alpha > _LARGEST_BOUNDED_ALPHA or beta > _LARGEST_BOUNDED_BETA:
        return None
    return prediction.prediction_lower_bound(dimension, alpha=alpha, epsilon=epsilon)


def _base(size: int | None, dimension: int | None, method: str, *, realizable: bool) -> BaseRows:
    """Return what one predictor needs, as a function of its error and its probability of failure."""
    given: object = method
    if not isinstance(given, str) or (method, realizable) not in _THEOREMS:
        known = ", ".join(repr(name) for name, given in _THEOREMS if given == realizable)
        raise InvalidParameter("method", method, f"one of {known} where realizable={realizable}")
    if (size is None) == (dimension is None):
        raise InvalidParameter.saying("size", "give either the size of the class or its VC dimension")
    if dimension is not None:
        width = count("dimension", dimension)
        needed = prediction.dimension_base_rows if realizable else prediction.agnostic_dimension_rows
        return lambda alpha, beta: needed(width, alpha=alpha, beta=beta)
    members = count("size", size)
    agnostic = learning.learning_rows if method == "best" else prediction.uniform_base_rows
    rows: Callable[..., int] = prediction.finite_base_rows if realizable else agnostic
    return lambda alpha, beta: rows(members, alpha=alpha, beta=beta)


def _cut_parts(  # noqa: PLR0913 - the parameters of every theorem
    base: BaseRows, beta: float, epsilon: float, method: str, ledger: str, *, realizable: bool, infinite: bool
) -> Cut:
    """Return the partition as a function of alpha."""

    def cut(alpha: float) -> Partition:
        given = {"alpha": alpha, "beta": beta, "epsilon": epsilon}
        match method, realizable:
            case "best", True:
                return prediction.realizable_partition(**given, base_rows=base)
            case "seed", True:
                return prediction.seed_partition(**given, base_rows=base)
            case "laplace", _ if infinite:
                return agnostic_prediction.best_laplace_partition(**given, base_rows=base)
            case "laplace", _:
                return agnostic_prediction.laplace_partition(**given, base_rows=base)
            case "seed", _:
                return agnostic_prediction.seed_agnostic_partition(**given, base_rows=base)
            case _:
                return agnostic_prediction.agnostic_partition(**given, base_rows=base, limit=_limit(ledger))

    return cut


def _limit(ledger: str) -> agnostic_prediction.Limit:
    return "ratio" if ledger == "pure" else "log-odds"


def _tau(parts: int, epsilon: float, method: str, ledger: str) -> float:
    if method == "best":
        return agnostic_prediction.response_tau(parts, epsilon=epsilon, limit=_limit(ledger))
    return agnostic_prediction.clipped_laplace_bias(parts, epsilon=epsilon, share=0) * ROUNDING


def _least_alpha(cut: Cut, rows: int) -> float:
    required = cut(_LARGEST_ALPHA).rows
    if rows < required:
        message = f"predictions by vote take {required:,} rows at any alpha; there are {rows:,}"
        raise InsufficientSamples(message, required=required)

    def enough(alpha: float) -> bool:
        try:
            return cut(alpha).rows <= rows
        except InsufficientSamples:
            return False

    return smallest_enough(enough, start=_LARGEST_ALPHA)
