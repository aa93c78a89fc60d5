"""Rates: each caller has its own, what is too much is refused with a time to come back."""

import pytest

from holdtrue.service.callers import Caller
from holdtrue.service.problems import Refused
from holdtrue.service.rates import Rates

ANN, BOB = Caller("ann", "analyst", "aaaaaaaa"), Caller("bob", "analyst", "bbbbbbbb")


def _passed(rates, caller, count):
    passed = 0
    for _ in range(count):
        try:
            rates.check(caller)
        except Refused:
            continue
        passed += 1
    return passed


def test_exactly_the_rate_passes():
    assert _passed(Rates("20/hour"), ANN, 50) == 20


def test_callers_do_not_use_up_each_others_rate():
    rates = Rates("20/hour")
    assert _passed(rates, ANN, 50) == 20
    assert _passed(rates, BOB, 50) == 20
    assert _passed(rates, Caller("oidc:ann", "analyst", "oidc"), 50) == 20
    assert _passed(rates, Caller("oidc:bob", "analyst", "oidc"), 50) == 20


def test_the_tightest_of_several_rates_holds():
    assert _passed(Rates("1000/second;7/hour;100/day"), ANN, 50) == 7


def test_a_refusal_says_when_to_come_back():
    rates = Rates("1/hour")
    rates.check(ANN)
    with pytest.raises(Refused) as refused:
        rates.check(ANN)
    assert 3_500 <= int(refused.value.headers["Retry-After"]) <= 3_601
    assert "ann" not in refused.value.detail
    assert (refused.value.status, refused.value.title) == (429, "too many requests")


def test_a_refusal_never_says_come_back_before_now():
    rates = Rates("1/hour", now=lambda: 1e12)
    rates.check(ANN)
    with pytest.raises(Refused) as refused:
        rates.check(ANN)
    assert refused.value.headers["Retry-After"] == "1"
