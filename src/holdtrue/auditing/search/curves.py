"""The whole trade-off between two output laws: hockey-stick and Rényi curves, proved from samples or exact (A4, T2)."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holdtrue.accounting.divergences import Probabilities, hockey_stick
from holdtrue.auditing.search.confidence_bounds import Distance, Floats
from holdtrue.auditing.search.events import STRATEGIES, Parts, Trial, choose_event, search_scores
from holdtrue.auditing.search.outputs import MOST_SAMPLES, Run, Seen, draw_outputs
from holdtrue.errors import InsufficientSamples, InvalidParameter
from holdtrue.exact import Number, count, probability
from holdtrue.planning.plotting import make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Curves", "law_curves", "privacy_curves"]

_EPSILONS = tuple(np.round(np.arange(0.0, 4.01, 0.05), 10).tolist())
_ORDERS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0, 64.0)
_LEAST = 200
_LINE, _FAINT = "#00695f", "#e8eaec"


@dataclass(frozen=True, slots=True)
class Curves:
    """Delta at each epsilon and Rényi divergence at each order, in the worse order of the two sides.

    Guarantee: every number is at most the truth of this pair, all of them at once, with probability at least
    ``confidence``; with confidence 1 they are the truth, up to rounding.
    """

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]
    orders: tuple[float, ...]
    divergences: tuple[float, ...]
    confidence: float

    def plot(self, *, ax: "Axes | None" = None) -> "Axes":
        """Draw delta against epsilon on a logarithmic scale; return the axes. Needs the extra ``plots``."""
        return _draw_curve(ax, self.epsilons, self.deltas, ("epsilon", "delta"), self.confidence)

    def plot_renyi(self, *, ax: "Axes | None" = None) -> "Axes":
        """Draw the Rényi divergence against its order; return the axes. Needs the extra ``plots``."""
        return _draw_curve(ax, self.orders, self.divergences, ("order", "Rényi divergence"), self.confidence)


def privacy_curves(  # noqa: PLR0913 - how hard to try, and where to look
    run: Run,
    left: object,
    right: object,
    *,
    samples: int = 10**6,
    confidence: Number = 0.95,
    epsilons: tuple[float, ...] = _EPSILONS,
    orders: tuple[float, ...] = _ORDERS,
) -> Curves:
    """Prove both curves from outputs.

    Law: a score is learned on one half of the samples. On the other half the distribution function of the score lies
    within sqrt(ln(4 / (1 - confidence)) / (2 n)) of the truth on both sides, everywhere at once (Dvoretzky, Kiefer,
    Wolfowitz and Massart); each cut then bounds delta(epsilon) by p - e^epsilon q, and the Rényi divergence by
    that of two coins, which cannot be larger (post-processing). Needs and fails as
    :func:`~holdtrue.auditing.audit_privacy`.
    """
    sure = float(probability("confidence", confidence))
    if count("samples", samples, most=MOST_SAMPLES) < _LEAST:
        message = f"{samples} samples on each side prove nothing; give at least {_LEAST}"
        raise InsufficientSamples(message, required=_LEAST)
    parts = Parts.of(samples, 0.5)
    trial = Trial(run, left, right, parts, [Distance(1 - sure)], 1 - sure)
    reader, tallies = search_scores(trial)
    if not tallies:
        return Curves(epsilons, (0.0,) * len(epsilons), orders, (0.0,) * len(orders), sure)
    score = choose_event(tallies, STRATEGIES[-1], rules=trial.rules, runs=parts.counting).score
    sides = [np.sort(score(Seen(reader.to_matrix(draw_outputs(run, data, parts.counting))))) for data in (left, right)]
    cuts = np.unique(np.concatenate([side[:: max(1, side.size // 2000)] for side in sides]))
    over = [1 - np.searchsorted(side, cuts) / side.size for side in sides]
    margin = math.sqrt(math.log(4 / (1 - sure)) / (2 * parts.counting))
    coins = [pair for p, q in ((over[0], over[1]), (over[1], over[0])) for pair in _bound_coins(p, q, margin)]
    p, q = (np.concatenate(each) for each in zip(*coins, strict=True))
    deltas = tuple(max(0.0, float((p - math.exp(epsilon) * q).max())) for epsilon in epsilons)
    return Curves(epsilons, deltas, orders, tuple(_largest_renyi(p, q, order) for order in orders), sure)


def _bound_coins(p: Floats, q: Floats, margin: float) -> list[tuple[Floats, Floats]]:
    """Return what is sure of an event, likelier first, and of its complement, in the other order: at least and at most."""
    low, high = np.maximum(p - margin, 0.0), np.minimum(q + margin, 1.0)
    return [(low, high), (1 - high, 1 - low)]


def _largest_renyi(p: Floats, q: Floats, order: float) -> float:
    """Return the largest Rényi divergence of coins that show heads with at least p against at most q."""
    if order <= 1:
        raise InvalidParameter("orders", order, "numbers above 1")
    useful = (p > q) & (q > 0)
    if not useful.any():
        return 0.0
    p, q = p[useful], q[useful]
    with np.errstate(divide="ignore"):
        heads = order * np.log(p) + (1 - order) * np.log(q)
        tails = order * np.log1p(-p) + (1 - order) * np.log1p(-np.minimum(q, 1 - 1e-16))
    return float((np.logaddexp(heads, tails) / (order - 1)).max())


def law_curves(
    left: Probabilities,
    right: Probabilities,
    *,
    epsilons: tuple[float, ...] = _EPSILONS,
    orders: tuple[float, ...] = _ORDERS,
) -> Curves:
    """Return both curves of two laws given as probabilities, outcome by outcome."""
    deltas = tuple(max(hockey_stick(left, right, epsilon=e), hockey_stick(right, left, epsilon=e)) for e in epsilons)
    p, q = np.asarray(left, dtype=np.float64).ravel(), np.asarray(right, dtype=np.float64).ravel()
    divergences = tuple(max(_exact_renyi(p, q, order), _exact_renyi(q, p, order)) for order in orders)
    return Curves(epsilons, deltas, orders, divergences, 1.0)


def _exact_renyi(p: Floats, q: Floats, order: float) -> float:
    if order <= 1:
        raise InvalidParameter("orders", order, "numbers above 1")
    if bool(np.any((p > 0) & (q == 0))):
        return math.inf
    both = (p > 0) & (q > 0)
    terms = order * np.log(p[both]) + (1 - order) * np.log(q[both])
    return max(0.0, float(np.logaddexp.reduce(terms)) / (order - 1))


def _draw_curve(
    ax: "Axes | None", x: tuple[float, ...], y: tuple[float, ...], names: tuple[str, str], confidence: float
) -> "Axes":
    words = "exact" if confidence == 1 else f"at least this, confidence {confidence:.4g}"
    axes = make_axes(ax, f"{names[1]} by {names[0]}: {words}", "of the two sides, in the worse order", size=(7.2, 4.2))
    shown = [(a, b) for a, b in zip(x, y, strict=True) if b > 0 and math.isfinite(b)]
    axes.plot([a for a, _ in shown], [b for _, b in shown], color=_LINE, linewidth=2.4)
    axes.set(xlabel=names[0], ylabel=names[1], yscale="log" if shown else "linear")
    axes.grid(visible=True, color=_FAINT)
    return axes
