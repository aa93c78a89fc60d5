"""Events in the words of Google's dp_accounting, for those who keep their books there (extra ``accounting``)."""

from collections.abc import Iterable
from typing import Any

from holdtrue.accounting import curves
from holdtrue.errors import MissingExtra, NotPrivate
from holdtrue.events import (
    Approximate,
    BoundedRange,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    NoCost,
    NonPrivate,
    Pure,
    Repeated,
    ZeroConcentrated,
)
from holdtrue.exact import round_down, round_up

__all__ = ["to_dp_events"]


def to_dp_events(events: Iterable[Event]) -> list[Any]:
    """Return dp_accounting's DpEvents, one for each event, in the same order.

    Guarantee: each is no more private than the event it stands for. Gaussian noise, discrete Laplace noise and zCDP have
    an event of their own there. An epsilon-DP or bounded-range event becomes discrete Laplace noise on a count of
    sensitivity 1: that is randomised response, which dominates it, in words that fit the same neighbours as all others. The
    discrete Gaussian becomes its zCDP. An (epsilon, delta)-DP event with delta > 0 has no counterpart and is refused with
    NotPrivate. Accountants there are to be set up so that their sensitivities mean one row replaced, as ours do
    (``NeighboringRelation.REPLACE_SPECIAL`` for the PLD accountant). Needs the extra ``accounting``.
    """
    try:
        from dp_accounting import dp_event
    except ImportError:
        raise MissingExtra("accounting", purpose="exporting events to dp_accounting") from None
    return [_exported(event, dp_event) for event in events]


def _exported(event: Event, kinds: Any) -> Any:  # noqa: ANN401 - dp_accounting carries no types
    match event:
        case NoCost():
            return kinds.NoOpDpEvent()
        case NonPrivate():
            return kinds.NonPrivateDpEvent()
        case Gaussian(mu=value):
            return kinds.GaussianDpEvent(round_down(1 / value))
        case DiscreteLaplace():
            return kinds.DiscreteLaplaceDpEvent(round_up(event.epsilon / event.sensitivity), event.sensitivity)
        case BoundedRange(epsilon=value) | Pure(epsilon=value):
            return kinds.DiscreteLaplaceDpEvent(round_up(value), 1)
        case Approximate(epsilon=value, delta=slack) if slack == 0:
            return kinds.DiscreteLaplaceDpEvent(round_up(value), 1) if value else kinds.NoOpDpEvent()
        case ZeroConcentrated() | DiscreteGaussian():
            return kinds.ZCDpEvent(curves.rho(event))
        case Repeated(event=inner, times=times):
            return kinds.SelfComposedDpEvent(_exported(inner, kinds), times)
        case Composed(events=inner):
            return kinds.ComposedDpEvent([_exported(one, kinds) for one in inner])
        case _:
            message = (
                "dp_accounting has no event for an (epsilon, delta)-DP release with delta > 0; "
                "give holdtrue.compose the list, or export the release's own mechanism"
            )
            raise NotPrivate(message)
