"""The dispatcher: everyone who asks hears once, whatever becomes of the ledger."""

import asyncio

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.curator.pipeline import Pending
from holdtrue.ledgers import verify
from holdtrue.service.dispatch import Dispatcher


@pytest.fixture
def curator(tmp_path):
    ages = np.random.default_rng(11).integers(0, 100, 4_000)
    with ht.Curator({"age": ages}, ledger=tmp_path / "people.ledger", queries=400, epsilon=1, delta=1e-6) as found:
        yield found


async def gathered(dispatcher, ages, *, stagger=0.0):
    async def one(place, age):
        await asyncio.sleep(stagger * place)
        return await dispatcher.ask([f"age > {age}"], f"key {age}", "ann")

    return await asyncio.gather(*(one(place, age) for place, age in enumerate(ages)), return_exceptions=True)


def test_those_who_come_while_others_are_answered_share_their_commit(curator):
    dispatcher, ledger = Dispatcher(curator), curator.pipeline.ledger
    settled, settle = [], ledger.settle

    def slow(bodies, requests):
        settled.append((len(bodies), len(requests)))
        return settle(bodies, requests)

    ledger.settle = slow
    found = asyncio.run(gathered(dispatcher, range(80), stagger=0.0005))
    del ledger.settle
    assert [answers[0].certificate.entry > 0 for answers in found] == [True] * 80
    assert sum(charged for _, charged in settled) == sum(stored for stored, _ in settled) == 80
    assert any(stored and charged for stored, charged in settled)
    assert verify(ledger).charges == 80


def test_p6_whoever_is_under_way_when_the_ledger_fails_is_told_so(curator):
    dispatcher, ledger = Dispatcher(curator), curator.pipeline.ledger
    turns, settle = [], ledger.settle

    def failing(bodies, requests):
        if bodies and not turns:
            turns.append(len(bodies))
            message = "the ledger failed earlier"
            raise ht.RefusedError(message)
        return settle(bodies, requests)

    ledger.settle = failing
    found = asyncio.run(asyncio.wait_for(gathered(dispatcher, range(60), stagger=0.001), timeout=60))
    del ledger.settle
    refused = [each for each in found if isinstance(each, ht.HoldtrueError)]
    assert len(refused) >= turns[0] > 0
    # Whoever was refused asks again under the same key, and everyone has paid once.
    again = asyncio.run(gathered(dispatcher, range(60)))
    assert all(len(answers) == 1 for answers in again)
    assert all(old == new for old, new in zip(found, again, strict=True) if isinstance(old, list))
    assert verify(ledger).charges == 60


def test_a_desk_that_was_closed_refuses(curator):
    dispatcher = Dispatcher(curator)
    dispatcher.close()
    (found,) = asyncio.run(gathered(dispatcher, [1]))
    assert isinstance(found, ht.CuratorClosed)


def test_who_has_gone_takes_nothing_from_the_others(curator):
    dispatcher = Dispatcher(curator)

    async def crowd():
        tasks = [asyncio.create_task(dispatcher.ask([f"age > {age}"], f"key {age}", "ann")) for age in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    found = asyncio.run(crowd())
    assert all(isinstance(each, asyncio.CancelledError) for each in found[::2])
    assert all(len(each) == 1 for each in found[1::2])
    assert verify(curator.ledger).charges == 20


def test_what_another_worker_charged_is_waited_for_out_of_the_way(curator, monkeypatch):
    dispatcher = Dispatcher(curator)
    (answer,) = curator.ask(["age > 5"], key="key 5", analyst="ann")

    def pending(job):
        monkeypatch.undo()
        job.future.set_exception(Pending("charged elsewhere", entry=1))
        return job.future

    monkeypatch.setattr(curator.pipeline, "submit", pending)
    (found,) = asyncio.run(asyncio.wait_for(gathered(dispatcher, [5]), timeout=60))
    assert found == [answer]


def test_one_analysts_flood_is_answered_beside_others_not_before_them(curator):
    dispatcher, told = Dispatcher(curator), []

    async def ask(name, number):
        await dispatcher.ask(["age > 1"], f"{name} {number}", name)
        told.append(name)

    async def crowd():
        with curator.pipeline.lock:
            tasks = [asyncio.create_task(ask("ann", number)) for number in range(1000)]
            tasks.append(asyncio.create_task(ask("bob", 0)))
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)

    asyncio.run(crowd())
    assert len(told) == 1001
    assert told.index("bob") < 300  # in the first batch of 256, whoever comes after it
