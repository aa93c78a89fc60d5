"""Accounting against Google's dp_accounting: composed Laplace noise at equal tightness, and an adaptive stream."""

import logging
from typing import Any

from benchmarks.peers import best_time, show
from holdtrue.accounting.composition import compose
from holdtrue.accounting.filters import GaussianFilter, largest_cap
from holdtrue.events import DiscreteLaplace, Event, GaussianNoise, Pure

__all__ = ["run"]

EVENTS, EPSILON, DELTA = 100, 0.1, 1e-6
# Laplace noise on a count of so large a sensitivity differs from the continuous law by 1e-13 of its loss.
FINE = 2**20
SCALES = 300
MANY = 10**5


def run() -> None:
    """Print milliseconds, epsilons and the ratios that the project promises."""
    logging.getLogger().setLevel(logging.ERROR)
    _composed_laplace()
    _adaptive_stream()
    _many_events()


def _composed_laplace() -> None:
    """Compare at the coarsest of their grids that is within 1e-6 of the limit; ours must be within 1e-6, too."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    def theirs(step: float) -> float:
        law = pld.from_laplace_mechanism(1 / EPSILON, value_discretization_interval=step)
        return float(law.self_compose(EVENTS).get_epsilon_for_delta(DELTA))

    def ours() -> float:
        return compose([DiscreteLaplace(EPSILON, FINE)] * EVENTS, delta=DELTA).epsilon

    limit = theirs(2e-5)
    fitting = [step for step in (1e-2, 5e-3, 2e-3, 1e-3, 5e-4, 2e-4, 1e-4) if abs(theirs(step) / limit - 1) <= 1e-6]
    peer, own = best_time(lambda: theirs(fitting[0]), repeat=15), best_time(ours, repeat=15)
    rows = [
        [f"dp_accounting, grid {fitting[0]:g}", f"{1e3 * peer:.2f}", f"{theirs(fitting[0]):.7f}", "1"],
        ["dp_accounting, default grid 1e-4", *_figures(best_time(lambda: theirs(1e-4)), theirs(1e-4), peer)],
        [f"holdtrue, sensitivity {FINE}", *_figures(own, ours(), peer)],
    ]
    title = (
        f"{EVENTS} Laplace events of epsilon {EPSILON}, delta {DELTA:g}, all within 1e-6 of the limit (>= 5 times faster)"
    )
    show(title, ["", "ms", "epsilon", "times faster"], rows)


def _adaptive_stream() -> None:
    """Re-check the budget after each of many events of different scales, chosen along the way."""
    import dp_accounting
    from dp_accounting import pld

    scales = [20 + index / 7 for index in range(SCALES)]

    def theirs(count: int) -> float:
        accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_SPECIAL)
        epsilon = 0.0
        for scale in scales[:count]:
            accountant.compose(dp_accounting.LaplaceDpEvent(scale))
            epsilon = float(accountant.get_epsilon(DELTA))
        return epsilon

    def ours(count: int) -> int:
        guard, spent = GaussianFilter(largest_cap("gdp", 5, DELTA)), 0
        for scale in scales[:count]:
            spent = guard.charge(spent, event=DiscreteLaplace(1 / scale, FINE))
        return spent

    peer, own = best_time(lambda: theirs(SCALES), repeat=1), best_time(lambda: ours(SCALES))
    rows = [
        ["dp_accounting's PLD accountant (not valid for adaptive scales)", f"{1e3 * peer:.1f}", "1"],
        ["holdtrue's GDP filter (valid)", f"{1e3 * own:.2f}", f"{peer / own:.0f}"],
    ]
    show(
        f"{SCALES} events of different scales, re-checked after each (>= 40 times faster)", ["", "ms", "times faster"], rows
    )


def _many_events() -> None:
    kinds: list[Event] = [Pure(0.001), DiscreteLaplace(0.001, FINE), GaussianNoise(0.001)]
    rows = []
    for event in kinds:
        listed = [event] * MANY
        bound = compose(listed, delta=DELTA)
        milliseconds = 1e3 * best_time(lambda listed=listed: compose(listed, delta=DELTA))  # type: ignore[misc]
        rows.append([type(event).__name__, f"{milliseconds:.2f}", f"{bound.epsilon:.6f}", bound.method])
    show(f"{MANY} events of one kind (< 10 ms)", ["", "ms", "epsilon", "method"], rows)


def _figures(seconds: float, epsilon: float, peer: float) -> list[Any]:
    return [f"{1e3 * seconds:.2f}", f"{epsilon:.7f}", f"{peer / seconds:.1f}"]
