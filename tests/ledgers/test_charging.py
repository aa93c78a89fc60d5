"""One interface over every store: charges, allowances, responses, repeats, refusals."""

import threading

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.events import Approximate, Composed, DiscreteLaplace, GaussianNoise, NoCost, NonPrivate, Repeated
from holdtrue.ledgers import Charge, Limits, read_charge, verify
from holdtrue.testing import Rehearsal
from ledgers.places import THOUSAND_UNITS, digest, request


def test_a_charge_is_an_entry_with_running_totals(place):
    ledger = place.open(cap=10_000)
    first = ledger.charge(**request("a", request='{"ask":"age > 65"}'))
    second = ledger.charge(**request("b", analyst="ben", cost=1500))
    assert (first.number, first.cost, first.spent, first.analyst_spent, first.fresh) == (1, 1000, 1000, 1000, True)
    assert (second.number, second.cost, second.spent, second.analyst_spent) == (2, 1500, 2500, 1500)
    assert first.previous == ledger.terms.digest
    assert second.previous == first.digest
    assert (ledger.spent, ledger.left, ledger.spent_by("ann"), ledger.spent_by("nobody")) == (2500, 7500, 1000, 0)
    assert ledger.head == second.receipt
    assert list(ledger.entries()) == [first, second]
    assert list(ledger.entries(2, 3)) == [second]
    assert ledger.entries()[0].body == '{"draws":0,"parts":[],"request":{"ask":"age > 65"}}'
    assert abs(first.time - second.time) <= 5


def test_never_a_unit_more_than_the_cap(place):
    ledger = place.open(cap=2500)
    ledger.charge(**request("a"))
    ledger.charge(**request("b"))
    with pytest.raises(ht.BudgetExceeded) as refused:
        ledger.charge(**request("c"))
    assert refused.value.requested == pytest.approx(1e-12)
    assert refused.value.left == pytest.approx(5e-13)
    assert refused.value.unit == "mu squared"
    assert (ledger.spent, ledger.head[0]) == (2000, 2)
    ledger.charge(**request("d", event=NoCost(), cost=500))
    assert ledger.left == 0
    ledger.charge(**request("e", event=NoCost()))
    assert verify(ledger).spent == 2500


def test_a_cost_is_never_less_than_that_of_the_event(place):
    ledger = place.open()
    with pytest.raises(ht.InvalidParameter, match="at least what the event costs, 1000 units"):
        ledger.charge(**request("a", cost=999))
    batch = ledger.charge(**request("batch", event=Repeated(THOUSAND_UNITS, 7)))
    mixed = ledger.charge(**request("mixed", event=Composed([THOUSAND_UNITS, Repeated(THOUSAND_UNITS, 2), NoCost()])))
    assert (batch.cost, mixed.cost) == (7000, 3000)


@pytest.mark.parametrize("kind", ["gdp", "zcdp", "pure"])
def test_every_filter(place, kind):
    ledger = place.open(kind=kind, cap=10**15)
    entry = ledger.charge(**request("a", event=DiscreteLaplace(0.01)))
    assert entry.cost == ledger.terms.filter.cost(DiscreteLaplace(0.01))
    with pytest.raises(ht.NotPrivate):
        ledger.charge(**request("b", event=Approximate(0.1, 1e-9)))
    if kind == "pure":
        with pytest.raises(ht.NotPrivate):
            ledger.charge(**request("c", event=GaussianNoise(0.1)))


@pytest.mark.parametrize(
    "event", [NonPrivate(), Repeated(NonPrivate(), 3), Composed([THOUSAND_UNITS, Composed([NonPrivate()])])]
)
def test_an_event_without_a_guarantee_is_refused_and_costs_nothing(place, event):
    ledger = place.open()
    with pytest.raises(ht.NotPrivate):
        ledger.charge(**request("a", event=event, cost=1000))
    assert (ledger.spent, ledger.head[0]) == (0, 0)


def test_a_rehearsal_takes_it_and_says_so():
    ledger = Rehearsal(cap=5000)
    assert ledger.charge(**request("a", event=NonPrivate(), cost=1000)).cost == 1000
    assert "nothing here is private" in repr(ledger)
    assert not ledger.durable
    assert verify(ledger).spent == 1000
    with pytest.raises(ht.InvalidParameter):
        ledger.charge(**request("b", event=NonPrivate()))
    with pytest.raises(ht.BudgetExceeded):
        ledger.charge(**request("b", event=NonPrivate(), cost=4001))


def test_p5_the_same_request_is_charged_once_and_gives_the_stored_bytes(place):
    ledger = place.open()
    first = ledger.charge(**request("a"))
    again = ledger.charge(**request("a"))
    assert again == first
    assert (again.fresh, again.response) == (False, None)
    stored = ledger.respond(first.number, "0.25 ± 0.01 \N{SNOWMAN}")
    assert (stored.kind, stored.answers, stored.cost, stored.fresh) == ("response", 1, 0, True)
    assert ledger.charge(**request("a")).response == "0.25 ± 0.01 \N{SNOWMAN}"
    assert ledger.find(request_id="id a").response == "0.25 ± 0.01 \N{SNOWMAN}"
    assert (ledger.spent, ledger.head[0]) == (1000, 2)


def test_p5_the_same_id_with_another_request_is_refused(place):
    ledger = place.open()
    ledger.charge(**request("a"))
    with pytest.raises(ht.RefusedError, match="used for another request"):
        ledger.charge(**request("a") | {"request_digest": digest("b")})
    assert ledger.spent == 1000


def test_an_answered_question_is_free_for_everyone_and_its_id_is_taken(place):
    ledger = place.open(cap=1000)
    ledger.respond(ledger.charge(**request("a")).number, "the answer")
    repeat = ledger.charge(**request("a", analyst="ben") | {"request_id": "another"})
    assert (repeat.number, repeat.fresh, repeat.response) == (1, False, "the answer")
    assert ledger.charge(**request("a") | {"request_id": "another"}).response == "the answer"
    assert ledger.find(request_id="another").number == 1
    assert ledger.find(request_digest=digest("a")).response == "the answer"
    with pytest.raises(ht.RefusedError, match="used for another request"):
        ledger.charge(**request("b") | {"request_id": "another"})
    assert [entry.kind for entry in ledger.entries()] == ["charge", "response", "repeat"]
    assert (ledger.spent, ledger.spent_by("ben")) == (1000, 0)
    assert verify(ledger).charges == 1


def test_one_charge_lets_one_answer_out(place):
    ledger = place.open()
    number = ledger.charge(**request("a")).number
    assert ledger.respond(number, "first").body == "first"
    late = ledger.respond(number, "second")
    assert (late.body, late.fresh) == ("first", False)
    assert ledger.head[0] == 2


def test_two_charges_of_one_question_keep_an_answer_each(place):
    ledger = place.open()
    one = ledger.charge(**request("a"))
    two = ledger.charge(**request("a") | {"request_id": "two"})
    assert two.fresh
    assert ledger.spent == 2000
    ledger.respond(two.number, "from two")
    ledger.respond(one.number, "from one")
    assert ledger.charge(**request("a")).response == "from one"
    assert ledger.charge(**request("a") | {"request_id": "two"}).response == "from two"
    assert ledger.charge(**request("a") | {"request_id": "three"}).response == "from two"
    assert verify(ledger)


def test_find_knows_what_is_not_there(place):
    ledger = place.open()
    ledger.charge(**request("a"))
    assert ledger.find(request_id="id b") is None
    assert ledger.find(request_digest=digest("a")) is None
    with pytest.raises(ht.InvalidParameter):
        ledger.find()
    with pytest.raises(ht.UnknownName):
        ledger.respond(2, "to nothing")
    ledger.respond(1, "an answer")
    with pytest.raises(ht.UnknownName):
        ledger.respond(2, "to a response")


def test_wait_returns_the_response_or_says_that_there_is_none(place):
    ledger = place.open()
    number = ledger.charge(**request("a")).number
    with pytest.raises(ht.ReleaseError) as failed:
        ledger.wait(number, seconds=0.01)
    assert failed.value.entry == number
    later = threading.Timer(0.05, ledger.respond, (number, "late"))
    later.start()
    assert ledger.wait(number).response == "late"
    later.join()
    with pytest.raises(ht.UnknownName):
        ledger.wait(3)


def test_allowances_are_sub_limits_and_their_changes_are_entries(place):
    ledger = place.open(cap=5000)
    granted = ledger.grant("ann", allowance=1500)
    assert (granted.kind, granted.allowance, granted.cost) == ("grant", 1500, 0)
    assert (ledger.allowance("ann"), ledger.allowance("ben"), ledger.left_for("ann"), ledger.left_for("ben")) == (
        1500,
        None,
        1500,
        5000,
    )
    ledger.charge(**request("a"))
    with pytest.raises(ht.BudgetExceeded) as refused:
        ledger.charge(**request("b"))
    assert refused.value.left == pytest.approx(5e-13)
    ledger.charge(**request("c", analyst="ben", event=NoCost(), cost=3700))
    ledger.grant("ann", allowance=None)
    with pytest.raises(ht.BudgetExceeded) as refused:
        ledger.charge(**request("b"))
    assert refused.value.left == pytest.approx(3e-13)
    ledger.grant("ann", allowance=500)
    assert (ledger.left_for("ann"), ledger.spent_by("ann")) == (0, 1000)
    assert verify(ledger).entries == 5


def test_p12_one_cap_and_allowances_obey_the_formula_a_thousand_times(place):
    numbers = np.random.default_rng(12)
    cap = 200_000
    ledger = place.open(cap=cap)
    spent, allowance = {"ann": 0, "ben": 0}, {"ann": None, "ben": None}
    outcomes = {True: 0, False: 0}
    for step in range(1000):
        analyst = ("ann", "ben")[numbers.integers(2)]
        if numbers.random() < 0.05:
            allowance[analyst] = int(numbers.integers(cap))
            ledger.grant(analyst, allowance=allowance[analyst])
        cost = int(numbers.integers(1, 1000))
        limit = allowance[analyst]
        fits = sum(spent.values()) + cost <= cap and (limit is None or spent[analyst] + cost <= limit)
        try:
            ledger.charge(**request(step, analyst=analyst, event=NoCost(), cost=cost))
            admitted = True
        except ht.BudgetExceeded:
            admitted = False
        assert admitted == fits
        outcomes[admitted] += 1
        spent[analyst] += cost * admitted
    assert min(outcomes.values()) > 100
    assert (ledger.spent, ledger.spent_by("ann"), ledger.spent_by("ben")) == (sum(spent.values()), *spent.values())
    assert verify(ledger).spent == sum(spent.values())


@pytest.mark.parametrize(
    "wrong",
    [
        {"request_id": ""},
        {"request_id": "x" * 201},
        {"request_id": "a\0b"},
        {"request_id": 7},
        {"request_digest": "abc"},
        {"request_digest": "A" * 64},
        {"analyst": ""},
        {"analyst": "\ud800"},
        {"verb": ""},
        {"cost": -1},
        {"cost": 1.5},
        {"cost": True},
        {"event": "Gaussian"},
        {"request": b"bytes"},
        {"draws": -1},
        {"draws": True},
        {"verb": "transmute"},
        {"cost": np.int64(5)},
        {"draws": 2**63},
        {"parts": ("\ud800",)},
        {"parts": (b"bytes",)},
    ],
)
def test_a_bad_request_is_told_apart_and_costs_nothing(place, wrong):
    ledger = place.open()
    with pytest.raises(ht.InvalidParameter):
        ledger.charge(**request("a") | wrong)
    assert ledger.head[0] == 0
    ledger.charge(**request("a"))


def test_bad_responses_and_grants(place):
    ledger = place.open()
    number = ledger.charge(**request("a")).number
    for body in (b"bytes", "a\0b", "\udfff", None):
        with pytest.raises(ht.InvalidParameter):
            ledger.respond(number, body)
    for allowance in (-1, 2**63, 0.5):
        with pytest.raises(ht.InvalidParameter):
            ledger.grant("ann", allowance=allowance)
    with pytest.raises(ht.InvalidParameter):
        ledger.grant("", allowance=1)
    assert ledger.respond(number, "well").body == "well"


def test_odd_text_comes_back_as_it_was(place):
    ledger = place.open()
    words = "'; DROP TABLE holdtrue_entries; -- \\ \" %s %(x)s :x ? \N{GREEK SMALL LETTER EPSILON}\U0001f512\n\t\x7f"
    number = ledger.charge(**request("a", analyst=words, parts=(words,)) | {"request_id": words}).number
    ledger.respond(number, words * 1000)
    found = ledger.find(request_id=words)
    assert (found.analyst, read_charge(found).parts, found.response) == (words, (words,), words * 1000)
    assert verify(ledger, receipts=[ledger.head])


def test_text_of_another_class_is_kept_as_text(place):
    ledger = place.open()
    words = request("a", analyst=np.str_("ann"), parts=(np.str_("part"),), request=np.str_("{}"))
    entry = ledger.charge(**words | {"request_id": np.str_("id"), "request_digest": np.str_(digest("a"))})
    ledger.respond(entry.number, np.str_("said"))
    found = ledger.find(request_id="id")
    assert {type(value) for value in (found.analyst, found.request_id, found.response, *read_charge(found).parts)} == {str}
    assert verify(ledger).charges == 1


def test_threads_that_charge_one_ledger_each_get_their_own_outcome(place):
    ledger = place.open(cap=100_000)
    outcomes = []

    def work(name):
        for step in range(20):
            try:
                outcomes.append(ledger.charge(**request(f"{name} {step}", analyst=f"analyst {name % 3}")).number)
            except ht.BudgetExceeded:
                outcomes.append(None)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(number for number in outcomes if number) == list(range(1, 101))
    assert outcomes.count(None) == 220
    assert verify(ledger).spent == 100_000


LIMITS = Limits(draws=5, other=2500)


def planned(name, **more):
    return request(name, limits=LIMITS, **more)


def test_p4_the_plan_is_checked_in_the_transaction_of_the_charge(place):
    ledger = place.open()
    first = ledger.charge(**planned("a", draws=3))
    second = ledger.charge(**planned("b"))
    assert (first.draws, first.other_spent, first.charges) == (3, 0, 1)
    assert (second.draws, second.other_spent, second.charges) == (3, 1000, 2)
    with pytest.raises(ht.BudgetExceeded, match="questions") as refused:
        ledger.charge(**planned("c", draws=3))
    assert (refused.value.requested, refused.value.left) == (3, 2)
    ledger.charge(**planned("d", draws=2))
    ledger.charge(**planned("e"))
    with pytest.raises(ht.BudgetExceeded, match="in reserve"):
        ledger.charge(**planned("f"))
    assert ledger.charge(**planned("g", event=NoCost())).cost == 0
    assert verify(ledger).charges == 5


def test_a_request_that_was_charged_is_found_though_the_plan_is_used_up(place):
    ledger = place.open()
    first = ledger.charge(**planned("a", draws=5))
    again = ledger.charge(**planned("a", draws=5))
    assert (again.number, again.fresh) == (first.number, False)


def test_p4_many_threads_never_draw_more_than_the_plan_holds(place):
    ledger = place.open()
    charged = []

    def work(name):
        for step in range(6):
            found = ledger.settle((), [Charge(**planned(f"{name} {step}", draws=1))])[1]
            charged.extend(entry for entry in found if not isinstance(entry, ht.HoldtrueError))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(charged) == LIMITS.draws
    assert verify(ledger).charges == LIMITS.draws


def test_p4_a_plan_that_is_checked_before_the_transaction_is_overdrawn(place):
    # The planted fault: each looks at the totals first, and charges without limits afterwards.
    ledger = place.open()
    drawn = sum(read_charge(entry).draws for entry in ledger.entries())
    looked = [drawn + 1 <= LIMITS.draws for _ in range(8)]
    for name, fits in enumerate(looked):
        if fits:
            ledger.charge(**request(name, draws=1))
    assert ledger.entries()[-1].draws > LIMITS.draws


def test_an_entry_that_no_verb_writes_is_refused_before_it_is_written(place):
    ledger = place.open()
    with pytest.raises(ht.InvalidParameter, match="verb"):
        ledger.charge(**request("a") | {"verb": "transmute"})
    assert ledger.head[0] == 0
