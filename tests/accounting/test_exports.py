"""Events in dp_accounting's words: each no more private than ours, and its accountants take them."""

import builtins

import dp_accounting
import pytest
from dp_accounting import pld, rdp

from holdtrue.accounting.composition import compose
from holdtrue.accounting.conversions import to_dp_events
from holdtrue.errors import MissingExtra, NotPrivate
from holdtrue.events import (
    Approximate,
    BoundedRange,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    GaussianNoise,
    NoCost,
    NonPrivate,
    Pure,
    Repeated,
    ZeroConcentrated,
)


def test_every_kind_has_a_counterpart():
    listed = [
        NoCost(),
        NonPrivate(),
        GaussianNoise(0.5),
        DiscreteLaplace(1, 4),
        ZeroConcentrated(0.5),
        DiscreteGaussian(2, 2),
        Approximate(0, 0),
    ]
    assert to_dp_events(listed) == [
        dp_accounting.NoOpDpEvent(),
        dp_accounting.NonPrivateDpEvent(),
        dp_accounting.GaussianDpEvent(2.0),
        dp_accounting.dp_event.DiscreteLaplaceDpEvent(0.25, 4),
        dp_accounting.dp_event.ZCDpEvent(0.5),
        dp_accounting.dp_event.ZCDpEvent(0.5),
        dp_accounting.NoOpDpEvent(),
    ]
    nested = to_dp_events([Composed([Repeated(GaussianNoise(1), 3), NoCost()])])[0]
    assert nested == dp_accounting.ComposedDpEvent(
        [dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(1.0), 3), dp_accounting.NoOpDpEvent()]
    )


@pytest.mark.parametrize("event", [Pure(0.3), BoundedRange(0.3), Approximate(0.3, 0)])
def test_pure_events_become_randomised_response(event):
    # Discrete Laplace noise of sensitivity 1 has the two losses of randomised response (A5).
    assert to_dp_events([event]) == [dp_accounting.dp_event.DiscreteLaplaceDpEvent(0.3, 1)]


@pytest.mark.parametrize(
    ("listed", "relation"),
    [
        ([GaussianNoise(0.3)] * 10, dp_accounting.NeighboringRelation.REPLACE_SPECIAL),
        (
            [Pure(0.2), DiscreteLaplace(0.4, 3), Repeated(GaussianNoise(0.2), 4)],
            dp_accounting.NeighboringRelation.REPLACE_SPECIAL,
        ),
    ],
)
def test_their_accountant_agrees(listed, relation):
    accountant = pld.PLDAccountant(relation)
    for event in to_dp_events(listed):
        accountant.compose(event)
    theirs = accountant.get_epsilon(1e-6)
    ours = compose(listed, delta=1e-6).epsilon
    assert ours == pytest.approx(theirs, rel=1e-3)


def test_their_renyi_accountant_takes_zcdp():
    accountant = rdp.RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    for event in to_dp_events([ZeroConcentrated(0.5)]):
        accountant.compose(event)
    assert compose([ZeroConcentrated(0.5)], delta=1e-6).epsilon <= accountant.get_epsilon(1e-6) * (1 + 1e-9)


def test_what_has_no_counterpart_is_refused():
    with pytest.raises(NotPrivate, match="delta > 0"):
        to_dp_events([Approximate(1, 1e-6)])


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("dp_accounting"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"holdtrue\[accounting\]"):
        to_dp_events([Pure(1)])
