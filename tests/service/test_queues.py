"""Fair turns: one analyst's thousand requests keep nobody else waiting."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdtrue.curator.pipeline import Inbox
from holdtrue.errors import CuratorClosed
from holdtrue.service.dispatch import FairThreads


def test_everyone_has_a_turn_before_anyone_has_a_second():
    queue = Inbox()
    for number in range(1000):
        queue.add("ann", ("ann", number))
    queue.add("bob", ("bob", 0))
    queue.add("eve", ("eve", 0))
    queue.add("bob", ("bob", 1))
    taken = queue.take(5)
    assert taken == [("ann", 0), ("bob", 0), ("eve", 0), ("ann", 1), ("bob", 1)]
    assert queue.take(2000) == [("ann", number) for number in range(2, 1000)]
    assert not queue
    # The control: first come, first served lets ann's thousand go first.
    plain = [("ann", number) for number in range(1000)] + [("bob", 0)]
    assert ("bob", 0) not in plain[:5]


def test_whoever_waits_for_items_goes_on_with_the_last_of_them_and_not_before():
    queue, over = Inbox(), threading.Event()

    def wait():
        queue.wait_for(3, seconds=60)
        over.set()

    waiting = threading.Thread(target=wait)
    queue.add("ann", 1)
    waiting.start()
    queue.add("bob", 2)
    assert not over.wait(0.05)
    queue.add("ann", 3)
    assert over.wait(50)
    waiting.join()
    assert len(queue) == 3
    queue.wait_for(3, seconds=60)  # they are there already
    queue.wait_for(4, seconds=0.001)  # and this one never comes
    assert queue.take(5) == [1, 2, 3]


def test_one_analysts_long_work_never_takes_every_thread():
    gate, order = threading.Event(), []

    async def work():
        threads = FairThreads(2, name="test")

        def long(number):
            gate.wait(60)
            order.append(("ann", number))

        def short():
            order.append(("bob", 0))
            return "bob's"

        async with asyncio.timeout(60):
            anns = [asyncio.create_task(threads.run("ann", long, number)) for number in range(20)]
            await asyncio.sleep(0.05)
            found = await threads.run("bob", short)  # while ann's first piece waits at the gate
            gate.set()
            await asyncio.gather(*anns)
        threads.close()
        return found

    assert asyncio.run(work()) == "bob's"
    assert order == [("bob", 0), *(("ann", number) for number in range(20))]


def test_control_threads_that_take_whatever_comes_first_are_all_taken():
    gate = threading.Event()

    async def work():
        loop = asyncio.get_running_loop()
        pool = ThreadPoolExecutor(2)
        anns = [loop.run_in_executor(pool, gate.wait, 60) for _ in range(20)]
        bob = loop.run_in_executor(pool, lambda: "bob's")
        done, _ = await asyncio.wait([bob], timeout=0.2)
        gate.set()
        await asyncio.gather(*anns, bob)
        pool.shutdown()
        return done

    assert asyncio.run(work()) == set()


def test_errors_reach_who_waits_and_closed_threads_refuse():
    async def work():
        threads = FairThreads(1, name="test")
        with pytest.raises(ZeroDivisionError):
            await threads.run("ann", lambda: 1 // 0)
        assert await threads.run("ann", lambda: 3) == 3
        gone = asyncio.create_task(threads.run("ann", threading.Event().wait, 0.05))
        await asyncio.sleep(0)
        gone.cancel()
        assert await threads.run("ann", lambda: 4) == 4
        threads.close()
        with pytest.raises(CuratorClosed):
            await threads.run("ann", lambda: 5)

    asyncio.run(work())
