"""Events are exact, closed and read back as they were written."""

import math
from fractions import Fraction

import pytest

from holdtrue import events
from holdtrue.codec import convert, decode, encode, plain
from holdtrue.errors import InvalidParameter
from holdtrue.events import (
    Approximate,
    BoundedRange,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    GaussianNoise,
    NoCost,
    NonPrivate,
    Pure,
    Repeated,
    ZeroConcentrated,
)

ALL = [
    NoCost(),
    NonPrivate(),
    GaussianNoise(0.1),
    DiscreteGaussian(Fraction(7, 3), 2),
    DiscreteLaplace(Fraction(1, 3), 5),
    BoundedRange(1),
    Pure(0.5),
    Approximate(0, 1e-6),
    ZeroConcentrated(0.25),
    Repeated(Pure(1), 7),
    Composed([Pure(1), Composed([Repeated(GaussianNoise(1), 2)])]),
]


@pytest.mark.parametrize("event", ALL, ids=lambda e: type(e).__name__)
def test_events_survive_json_unchanged(event):
    assert decode(encode(event), Event) == event


def test_every_kind_is_tested_and_the_vocabulary_only_grows():
    """A ledger written today must be readable for ever: names and fields are frozen here."""
    assert {type(event) for event in ALL} == set(events._KINDS)
    assert {kind.__struct_config__.tag: list(kind.__struct_fields__) for kind in events._KINDS} == {
        "NoCost": [],
        "NonPrivate": [],
        "Gaussian": ["mu"],
        "DiscreteGaussian": ["sigma", "sensitivity"],
        "DiscreteLaplace": ["epsilon", "sensitivity"],
        "BoundedRange": ["epsilon"],
        "Pure": ["epsilon"],
        "Approximate": ["epsilon", "delta"],
        "ZeroConcentrated": ["rho"],
        "Repeated": ["event", "times"],
        "Composed": ["events"],
    }


def test_numbers_are_exact():
    assert GaussianNoise(0.1).mu == Fraction(0.1) != Fraction(1, 10)
    assert plain(Pure(Fraction(1, 3))) == {"kind": "Pure", "epsilon": "1/3"}


@pytest.mark.parametrize("kind", [GaussianNoise, DiscreteLaplace, DiscreteGaussian, BoundedRange, Pure, ZeroConcentrated])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, True, "1"])
def test_events_check_their_numbers(kind, value):
    with pytest.raises(InvalidParameter):
        kind(value)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"kind": "Unknown"},
        {"kind": "Pure"},
        {"kind": "Pure", "epsilon": "1/0"},
        {"kind": "Pure", "epsilon": "one"},
        {"kind": "Pure", "epsilon": "-1"},
        {"kind": "Pure", "epsilon": "1", "more": 1},
        {"kind": "Repeated", "event_": 1, "times": 2},
        {"kind": "Composed", "events": ["1"]},
    ],
    ids=str,
)
def test_what_is_no_event_is_refused(document):
    with pytest.raises(InvalidParameter):
        convert(document, Event)


def test_only_events_compose():
    with pytest.raises(InvalidParameter, match=r"an event of holdtrue\.events"):
        Composed([1])
    with pytest.raises(InvalidParameter, match="times must be a whole number"):
        Repeated(Pure(1), 0)


def test_events_are_values():
    assert Pure(1) == Pure(1.0)
    assert hash(Pure(1)) == hash(Pure(1.0))
    with pytest.raises(AttributeError):
        Pure(1).epsilon = 2


def test_the_old_name_of_normal_noise_says_the_new_one():
    """The mechanism is called Gaussian, so the event is not; what ledgers have written stays as it is."""
    with pytest.raises(ImportError, match="now called GaussianNoise"):
        events.Gaussian  # noqa: B018 - looking it up is the test
    with pytest.raises(AttributeError, match="no attribute 'Laplace'"):
        events.Laplace  # noqa: B018 - likewise
    assert decode('{"kind":"Gaussian","mu":"1/8"}', Event) == GaussianNoise(Fraction(1, 8))
