"""Rates: each caller has its own, what is too much is refused with a time to come back."""

import pytest

from holdtrue.service.http.problems import Refused
from holdtrue.service.identity import Caller, Rates

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


def test_a_share_comes_back_at_the_rate():
    time = [0.0]
    rates = Rates("10/second", now=lambda: time[0])
    assert _passed(rates, ANN, 50) == 10
    time[0] = 0.35
    assert _passed(rates, ANN, 50) == 3
    time[0] = 60.0
    assert _passed(rates, ANN, 50) == 10  # no more than the whole amount, however long nobody asked


def test_what_is_refused_counts_against_nothing():
    time = [0.0]
    rates = Rates("2/second;100/hour", now=lambda: time[0])
    assert _passed(rates, ANN, 1000) == 2
    time[0] = 1.0
    assert _passed(rates, ANN, 1000) == 2
    with pytest.raises(Refused) as refused:
        rates.check(ANN)
    assert refused.value.headers["Retry-After"] == "1"


def test_callers_whose_share_is_whole_are_forgotten_when_there_are_many(monkeypatch):
    monkeypatch.setattr("holdtrue.service.identity._MOST_CALLERS", 10)
    time = [0.0]
    rates = Rates("10/second", now=lambda: time[0])
    for number in range(100):
        time[0] += 1
        rates.check(Caller(f"caller {number}", "analyst", "cccccccc"))
        assert len(rates._used) <= 11
