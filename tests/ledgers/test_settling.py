"""Answers and the next charges in one transaction, and what a store need not read again."""

import sqlite3

import pytest

import holdtrue as ht
from holdtrue.ledgers import Charge, open_ledger, verify
from ledgers.places import request, rows


def charges(*names, **more):
    return [Charge(**request(name, **more)) for name in names]


def commits_of(ledger):
    sizes = []
    commit = ledger.store.commit

    def counting(entries):
        sizes.append(len(entries))
        commit(entries)

    ledger.store.commit = counting
    return sizes


def charge_all(ledger, requests):
    return ledger.settle((), requests)[1]


def test_responses_and_charges_are_settled_in_one_transaction_responses_first(place):
    ledger = place.open()
    first = charge_all(ledger, charges("a", "b"))
    sizes = commits_of(ledger)
    stored, charged = ledger.settle([(entry.number, f"said {entry.number}") for entry in first], charges("c", "d", "e"))
    assert sizes == [5]
    assert [entry.kind for entry in ledger.entries()] == ["charge"] * 2 + ["response"] * 2 + ["charge"] * 3
    assert [(entry.fresh, entry.response) for entry in stored] == [(True, "said 1"), (True, "said 2")]
    assert [(entry.fresh, entry.response) for entry in charged] == [(True, None)] * 3
    assert not any(entry.fresh for entry in ledger.entries())
    assert verify(ledger).charges == 5


def test_a_question_answered_and_asked_again_in_one_transaction_is_a_repeat(place):
    ledger = place.open()
    first, _ = charge_all(ledger, charges("a", "b"))
    again = Charge(**request("a") | {"request_id": "another id"})
    _, (found,) = ledger.settle([(first.number, "said")], [again])
    assert (found.number, found.response, found.fresh) == (first.number, "said", False)
    assert ledger.spent == 2000


def test_each_of_those_settled_has_its_own_outcome(place):
    ledger = place.open(cap=2000)
    (first,) = charge_all(ledger, charges("a"))
    stored, charged = ledger.settle([(first.number, "said"), (99, "nothing")], charges("b", "c"))
    assert stored[0].body == "said"
    assert isinstance(stored[1], ht.UnknownName)
    assert charged[0].cost == 1000
    assert isinstance(charged[1], ht.BudgetExceeded)
    assert verify(ledger).spent == 2000


def test_a_request_that_comes_twice_in_one_transaction_is_fresh_once(place):
    ledger = place.open()
    first, second = charge_all(ledger, charges("a", "a"))
    assert (first.fresh, second.fresh) == (True, False)
    assert first.number == second.number
    assert not ledger.charge(**request("a")).fresh


@pytest.fixture
def two(quick):
    path = quick / "people.ledger"
    with open_ledger(path, kind="gdp", cap=10**15, fingerprint=rows) as first, open_ledger(path) as second:
        yield first, second


def test_what_another_connection_answered_first_stays(two):
    first, second = two
    for turn in range(6):
        charged = first.charge(**request(turn))
        if turn % 2:
            second.respond(charged.number, "theirs")
        assert first.respond(charged.number, "ours").body == ("theirs" if turn % 2 else "ours")
    assert verify(first).charges == 6


def test_an_old_charge_is_looked_up_though_nobody_wrote_since_the_last_commit(two):
    first, second = two
    charged = first.charge(**request("a"))
    second.respond(charged.number, "theirs")
    first.charge(**request("b"))  # sees that others have written
    assert first.respond(charged.number, "ours").body == "theirs"


def test_a_store_that_does_not_see_others_write_is_caught(two):
    # The planted fault: the count of other connections' writes is taken for the one that was seen last.
    first, second = two
    charged = first.charge(**request("a"))
    second.respond(charged.number, "theirs")
    store = first.store
    store._commits = store._driver.execute("PRAGMA data_version").fetchone()[0]
    with pytest.raises(ht.HoldtrueError):
        first.respond(charged.number, "ours")
    with sqlite3.connect(store.where) as file:
        assert file.execute("SELECT body FROM holdtrue_entries WHERE answers IS NOT NULL").fetchall() == [("theirs",)]


def test_p6_what_another_connection_wrote_of_an_analyst_counts(lasting):
    first, second = lasting.open(), lasting.reopen()
    first.charge(**request("a"))
    second.charge(**request("b"))
    second.grant("ann", allowance=2500)
    with pytest.raises(ht.BudgetExceeded):
        first.charge(**request("c"))
    assert first.spent_by("ann") == 2000
    second.grant("ann", allowance=None)
    assert first.charge(**request("c")).analyst_spent == 3000
    assert verify(first).charges == 3


def test_p6_a_store_that_goes_by_an_analysts_older_entry_is_caught(two):
    # The planted fault: what was last seen of an analyst is kept though another connection has written since.
    first, second = two
    older = first.charge(**request("a"))
    second.charge(**request("b"))
    assert first.spent == 2000  # sees that others have written
    first.store._last["ann"] = older
    assert first.charge(**request("c")).analyst_spent == 2000
    with pytest.raises(ht.IntegrityError):
        verify(first)


def test_more_requests_and_analysts_than_one_statement_can_look_up_share_a_transaction(place):
    ledger = place.open()
    several = [Charge(**request(name, analyst=f"analyst {name}")) for name in range(600)]
    first = charge_all(ledger, several)
    assert [entry.number for entry in first] == list(range(1, 601))
    stored, again = ledger.settle([(entry.number, "said") for entry in first], several)
    assert {entry.response for entry in stored} == {"said"}
    assert [(entry.number, entry.response) for entry in again] == [(entry.number, "said") for entry in first]
    assert ledger.spent_by("analyst 599") == 1000
    assert verify(ledger).entries == 1200


def test_many_rows_are_written_by_few_statements_and_all_of_them(place):
    ledger = place.open()
    entries = charge_all(ledger, charges(*range(150)))
    assert [entry.number for entry in entries] == list(range(1, 151))
    assert len(ledger.entries()) == 150
    assert verify(ledger).charges == 150
