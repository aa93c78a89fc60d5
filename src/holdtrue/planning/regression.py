"""How many rows, how good and how private: linear models that one row changes very little (E13, E14, E16, V5)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from holdtrue.accounting.closed_forms import pure_mu, smallest_enough
from holdtrue.bounds.stability import (
    FitExcess,
    Noise,
    best_travel,
    fit_excess,
    free_descent_epsilon,
    gaussian_noise,
    laplace_noise,
    travel_excess,
)
from holdtrue.errors import InsufficientSamples, InvalidParameter
from holdtrue.exact import Number, count, floor_positive, positive, rows_at_least, text_among
from holdtrue.records import text_table

__all__ = ["RegressionPlan", "plan_regression"]

ReleaseMode: TypeAlias = Literal["once", "each"]

# Noise below a 2,000th of the stability: no more privacy can be given up to any effect.
_LARGEST_PRIVACY = 2.0**11
_MOST_ROWS = 1 << 62


class RegressionPlan(Struct, frozen=True, forbid_unknown_fields=True, tag_field="plan", tag="regression"):
    """Rows with which a linear model's expected loss is at most ``excess`` above the best of length ``radius`` (V5).

    ``release`` "once" publishes weights with normal noise, mu-GDP, for any number of predictions; "each" answers a
    prediction at a time with Laplace noise, epsilon-DP each. ``mu`` is what one release costs on a GDP ledger. ``strength``
    is that of the regulariser; a plan for a smooth loss has ``travel`` in its place, the sum of the lengths of gradient
    steps. ``gamma`` is how far one row moves a prediction.
    """

    rows: int
    excess: float
    mu: float
    epsilon: float | None
    release: str
    radius: float
    loss_lipschitz: float
    predictor_lipschitz: float
    smoothness: float | None
    strength: float | None
    travel: float | None
    gamma: float
    theorem: str

    @property
    def free_epsilon(self) -> float | None:
        """Return the epsilon of one prediction from which on privacy is free in rate; None without a smoothness (V6.2)."""
        if self.smoothness is None:
            return None
        steep = self.predictor_lipschitz
        slopes = {"lipschitz": self.loss_lipschitz * steep, "predictor_lipschitz": steep}
        return free_descent_epsilon(rows=self.rows, radius=self.radius, loss_smoothness=self.smoothness, **slopes)

    def within(self, beta: Number) -> float:
        """Return what the excess is at most but with probability ``beta``: the bound over beta, by Markov (V5)."""
        return self.excess / floor_positive("beta", beta)

    def __str__(self) -> str:
        each = "one release of all weights" if self.release == "once" else f"epsilon {self.epsilon:.4g} for each prediction"
        free = self.free_epsilon
        lines = {
            "excess": f"{self.excess:.4g} in expectation, above the best of length {self.radius:.4g}",
            "privacy": f"{each}: mu {self.mu:.4g}",
            "method": self.theorem,
        }
        if free is not None:
            lines["free"] = f"privacy costs nothing in rate far above epsilon {free:.3g} a prediction"
        return text_table(f"{self.rows:,} rows to fit a linear model", lines)


def plan_regression(  # noqa: PLR0913 - three of these are solved for each other
    *,
    rows: int | None = None,
    excess: Number | None = None,
    mu: Number | None = None,
    epsilon: Number | None = None,
    release: ReleaseMode | None = None,
    radius: Number = 1,
    loss_lipschitz: Number = 1,
    predictor_lipschitz: Number = 1,
    smoothness: Number | None = None,
) -> RegressionPlan:
    """Return the plan for a fitted linear model; give two of rows, excess and privacy, and the third is computed.

    Privacy is ``mu`` for weights that are published once, or ``epsilon`` for each prediction; ``release`` says which one is
    meant where neither is given. The loss is convex with slopes of at most ``loss_lipschitz``, rows are at most
    ``predictor_lipschitz`` long, and the comparison is with weights of length ``radius``. With a ``smoothness`` of the loss
    the plan is for gradient steps without a regulariser (E16); otherwise for a regularised minimiser (E13, E14). The
    excess is in expectation over rows and noise; it needs rows that are independent draws, and all of this fixed
    before anything is asked about them.

    >>> import holdtrue.planning.regression as planning
    >>> planning.plan_regression(excess=0.05, epsilon=0.5).rows
    4800
    """
    if mu is not None and epsilon is not None:
        raise InvalidParameter.saying("mu", "give either mu or epsilon")
    mode = text_among("release", release or ("each" if epsilon is not None else "once"), ("once", "each"))
    if (mu if mode == "each" else epsilon) is not None:
        raise InvalidParameter.saying("release", "release 'once' takes mu, and 'each' takes epsilon")
    privacy = mu if mode == "once" else epsilon
    left = [name for name, value in (("rows", rows), ("excess", excess), ("privacy", privacy)) if value is None]
    if len(left) != 1:
        message = "give exactly two of rows, excess and privacy (mu or epsilon); the third is computed"
        raise InvalidParameter.saying("rows", message)
    given = (radius, loss_lipschitz, predictor_lipschitz)
    shape = tuple(positive(name, value) for name, value in zip(_SHAPE, given, strict=True))
    task = _FittingTask(mode, shape, None if smoothness is None else floor_positive("smoothness", smoothness))
    strict = None if privacy is None else positive("mu" if mode == "once" else "epsilon", privacy)
    if rows is None and strict is not None:
        goal = positive("excess", excess)
        return task.plan(task.find_rows(goal, strict), strict, excess=float(goal))
    n = count("rows", rows)
    return task.plan(n, strict) if strict is not None else task.find_privacy(n, positive("excess", excess))


_SHAPE = ("radius", "loss_lipschitz", "predictor_lipschitz")


@dataclass(frozen=True, slots=True)
class _FittingTask:
    """What is not solved for: the release, then R, L_l and L_f, and the smoothness."""

    release: str
    shape: tuple[Fraction, ...]
    smoothness: float | None

    @property
    def constants(self) -> dict[str, Any]:
        smooth = {} if self.smoothness is None else {"loss_smoothness": self.smoothness}
        return {name: float(value) for name, value in zip(_SHAPE, self.shape, strict=True)} | smooth

    def noise(self, privacy: Number) -> Callable[[float], Noise]:
        return partial(gaussian_noise, mu=privacy) if self.release == "once" else partial(laplace_noise, epsilon=privacy)

    def solve(self, rows: int, privacy: Number) -> dict[str, float]:
        """Return the travel, or the strength (2 L / R) sqrt(A), that makes the excess least (E14, V5)."""
        if self.smoothness is not None:
            return {"travel": best_travel(rows=rows, noise=self.noise(privacy), **self.constants)}
        radius, steep, longest = map(float, self.shape)
        return {"strength": 2 * steep * longest / radius * math.sqrt((1 + self.weigh(privacy)) / rows)}

    def weigh(self, privacy: Number) -> float:
        """Return the size of the noise in units of the stability."""
        return self.noise(privacy)(1.0).first_moment

    def excess(self, rows: int, privacy: Number) -> FitExcess:
        given: dict[str, Any] = {"rows": rows, "noise": self.noise(privacy)} | self.constants | self.solve(rows, privacy)
        return fit_excess(loss_smoothness=None, **given) if self.smoothness is None else travel_excess(**given)

    def find_rows(self, goal: Fraction, privacy: Fraction) -> int:
        """Return the fewest rows; (2 R L / excess)^2 (1 + 1 / epsilon) exactly, for Laplace noise and no smoothness."""
        if self.smoothness is None:
            scale = (2 * math.prod(self.shape) / goal) ** 2
            if self.release == "each":
                return max(1, math.ceil(scale * (1 + 1 / privacy)))
            return rows_at_least(float(scale) * (1 + self.weigh(privacy)))
        low, high = 0, 1
        while self.excess(high, privacy).total > goal:
            low, high = high, 2 * high
            if high > _MOST_ROWS:
                message = "no number of rows below 2^62 is enough; ask for less"
                raise InsufficientSamples(message, required=None)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.excess(middle, privacy).total <= goal else (middle, high)
        return high

    def find_privacy(self, rows: int, goal: Fraction) -> RegressionPlan:
        """Return the plan with the strictest privacy; InsufficientSamples where these rows do not reach it at any."""
        if self.excess(rows, _LARGEST_PRIVACY).total > goal:
            required = self.find_rows(goal, Fraction(_LARGEST_PRIVACY))
            message = f"an excess of {float(goal):.4g} takes {required:,} rows, even without privacy; there are {rows:,}"
            raise InsufficientSamples(message, required=required)
        enough = partial(self.is_enough, rows, float(goal))
        return self.plan(rows, Fraction(smallest_enough(enough, start=_LARGEST_PRIVACY)), excess=float(goal))

    def is_enough(self, rows: int, goal: float, privacy: float) -> bool:
        return self.excess(rows, privacy).total <= goal

    def plan(self, rows: int, privacy: Fraction, *, excess: float | None = None) -> RegressionPlan:
        found, once = self.excess(rows, privacy), self.release == "once"
        radius, steep, longest = map(float, self.shape)
        solved: dict[str, float | None] = {"strength": None, "travel": None} | self.solve(rows, privacy)
        way = "regularised minimiser" if self.smoothness is None else "gradient steps"
        item = "E14" if self.smoothness is None else "E16"
        return RegressionPlan(
            rows=rows,
            excess=found.total if excess is None else excess,
            mu=float(privacy) if once else pure_mu(float(privacy)),
            epsilon=None if once else float(privacy),
            release=self.release,
            radius=radius,
            loss_lipschitz=steep,
            predictor_lipschitz=longest,
            smoothness=self.smoothness,
            gamma=longest * found.stability,
            theorem=f"{way} with {'normal' if once else 'Laplace'} noise ({item}, V5)",
            **solved,
        )
