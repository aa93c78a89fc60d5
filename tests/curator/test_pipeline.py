"""The pipeline: requests that come together are answered as if they had come one after the other."""

import sqlite3
import threading
import time
from dataclasses import dataclass

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.codec import plain
from holdtrue.curator import pipeline
from holdtrue.curator.pipeline import GateWatch, Pending, Pipeline


@pytest.fixture
def people():
    random = np.random.default_rng(3)
    return {"age": random.integers(0, 100, 4_000), "smoker": random.random(4_000) < 0.3}


def opened(people, place, **terms):
    return ht.Curator(people, ledger=place, **({"queries": 40, "epsilon": 1, "delta": 1e-6} | terms))


@pytest.fixture
def place(tmp_path):
    return tmp_path / "people.ledger"


@dataclass(frozen=True)
class Ask:
    queries: tuple[str, ...]
    key: str | None
    analyst: str


def submit(curator, asks):
    """Let requests wait together, and return their futures."""
    with curator.pipeline.lock:
        return [curator.pipeline.submit(curator.ask_job(ask.queries, key=ask.key, analyst=ask.analyst)) for ask in asks]


def outcomes(futures):
    return [future.exception(60) or future.result() for future in futures]


def ask_together(curator, asks):
    """Return what became of requests that came together: their answers, or their errors."""
    return outcomes(submit(curator, asks))


def asks(count, *, analyst="ann"):
    return [Ask((f"age > {age}",), f"key {age}", analyst) for age in range(count)]


def count_commits(curator):
    """Return a list that grows with every transaction, by how many requests and answers it settles."""
    ledger, sizes = curator.pipeline.ledger, []
    settle = ledger.settle

    def counting(bodies, requests):
        sizes.extend([len(bodies) + len(requests)] if bodies or requests else [])
        return settle(bodies, requests)

    ledger.settle = counting
    return sizes


def test_a_crowd_is_charged_in_one_transaction_and_answered_in_another(people, place):
    with opened(people, place) as curator:
        commits = count_commits(curator)
        found = ask_together(curator, asks(16))
        assert commits == [16, 16]
        entries = curator.pipeline.ledger.entries()
    assert [entry.kind for entry in entries] == ["charge"] * 16 + ["response"] * 16
    assert [answers[0].certificate.entry for answers in found] == list(range(1, 17))
    assert all(len(answers) == 1 and not answers[0].repeated for answers in found)
    assert ht.verify(place)


def test_an_open_gate_is_looked_for_once_before_the_charges_of_each_batch(people, place):
    class Watch(GateWatch):
        looks, is_open = 0, False

        def find(self, *, again):
            del again
            self.looks += 1
            return self.is_open

    with opened(people, place) as curator:
        watch = curator.pipeline.gates = Watch([])
        watch.is_near = True
        ask_together(curator, asks(8))
        assert watch.looks == 1
        watch.is_open = True
        refused = ask_together(curator, [Ask((f"age < {age}",), f"other {age}", "ann") for age in range(8)])
        assert watch.looks == 2
        assert {str(each)[:14] for each in refused} == {"a gate is open"}
        watch.is_open = False
        assert len(outcomes(submit(curator, [Ask(("age < 3",), "once more", "ann")]))[0]) == 1
        assert len(curator.pipeline.ledger.entries()) == 18


def test_a_crowd_is_measured_in_one_pass_after_its_charges_are_durable(people, place):
    with opened(people, place) as curator:
        engine, seen = curator.pipeline.engine, []

        class Watched:
            card = engine.card

            def sums(self, queries, **settings):
                with ht.Curator(people, ledger=place) as other:
                    seen.append((len(queries), len(other.history)))
                return engine.sums(queries, **settings)

        curator.pipeline.engine = Watched()
        ask_together(curator, asks(5))
        curator.pipeline.engine = engine
    assert seen == [(5, 5)]


def test_every_request_of_a_crowd_has_its_own_outcome(people, place):
    with opened(people, place) as curator:
        curator.grant("poor", asks=1)
        crowd = [
            Ask(("age > 1",), "a", "poor"),
            Ask(("age > 2",), "b", "poor"),
            Ask(("height > 2",), "c", "ann"),
            Ask(("age > 2", "smoker"), "d", "ann"),
            Ask(("age > 2",), "a", "poor"),
        ]
        first, refused, unknown, both, other = ask_together(curator, crowd)
        assert first[0].certificate.entry == 2
        assert isinstance(refused, ht.BudgetExceeded)
        assert isinstance(unknown, ht.UnknownColumn)
        assert [answer.repeated for answer in both] == [False, False]  # what "b" failed to pay for is paid for here
        assert isinstance(other, ht.RefusedError)
        assert "another request" in str(other)
        assert len(curator.history) == 2


def test_a_replayed_key_gives_the_same_answers_flags_included(people, place):
    with opened(people, place) as curator:
        curator.ask("smoker")
        crowd = [
            Ask(("age > 1", "smoker"), "mixed", "ann"),
            Ask(("smoker",), "known", "ann"),
            Ask(("smoker", "age > 1"), "all known", "ann"),
            Ask(("age > 1", "smoker"), "mixed", "ann"),
        ]
        first = ask_together(curator, crowd)
        spent = curator.budget.spent
        assert [[answer.repeated for answer in answers] for answers in first] == [
            [False, True],
            [True],
            [True, True],
            [False, True],
        ]
        again = ask_together(curator, crowd)
    with opened(people, place) as reopened:
        once_more = ask_together(reopened, list(reversed(crowd)))[::-1]
        assert reopened.budget.spent == spent
    told = [[[plain(answer) for answer in answers] for answers in replies] for replies in (first, again, once_more)]
    assert told[0] == told[1] == told[2]


def test_the_same_question_in_one_crowd_is_paid_once(people, place):
    with opened(people, place) as curator:
        found = ask_together(curator, [Ask(("smoker",), f"key {number}", "ann") for number in range(20)])
        assert curator.budget.spent == pytest.approx(found[0][0].certificate.cost)
        assert {answers[0].value for answers in found} == {found[0][0].value}
        assert [answers[0].repeated for answers in found] == [False] + [True] * 19
        assert curator.budget.asks == curator.plan.queries - 1


def test_a_crowd_never_passes_the_plan(people, place):
    with opened(people, place, queries=10) as curator:
        found = ask_together(curator, asks(16))
        assert [isinstance(answers, ht.BudgetExceeded) for answers in found] == [False] * 10 + [True] * 6
        assert curator.budget.asks == 0
        assert len(curator.history) == 10


def lost(curator, ask, monkeypatch):
    """Charge a request and let it fail before anything is stored, as a process does that is killed."""
    with monkeypatch.context() as broken:
        broken.setattr(Pipeline, "_sum_queries", lambda *_: 1 / 0)
        (failed,) = ask_together(curator, [ask])
    assert isinstance(failed, ht.ReleaseError)
    return failed.entry


def test_a_charge_that_was_never_answered_is_answered_under_its_key(people, place, monkeypatch):
    ask = Ask(("smoker", "age > 3"), "lost", "ann")
    with opened(people, place) as curator:
        entry = lost(curator, ask, monkeypatch)
        spent = curator.budget.spent
    with opened(people, place) as curator:
        found, other = ask_together(curator, [ask, Ask(("age > 5",), "new", "ann")])
        assert [answer.certificate.entry for answer in found] == [entry, entry]
        assert [answer.repeated for answer in found] == [False, False]
        assert curator.budget.spent == pytest.approx(spent + other[0].certificate.cost)
        (again,) = ask_together(curator, [ask])
        assert again == found
    assert ht.verify(place)


def test_one_charge_lets_one_answer_out_though_two_processes_draw_for_it(people, place, monkeypatch):
    ask = Ask(("smoker",), "lost", "ann")
    with opened(people, place) as first, opened(people, place) as second:
        lost(first, ask, monkeypatch)
        respond, drawn, other = Pipeline._draw_and_respond, [], []

        def meanwhile(self, items, measure):
            respond(self, items, measure)
            drawn.append(items[0].body)
            if self is first.pipeline:
                other.extend(ask_together(second, [ask]))

        monkeypatch.setattr(Pipeline, "_draw_and_respond", meanwhile)
        (found,) = ask_together(first, [ask])
        assert len(set(drawn)) == 2  # both drew, and the second one's was stored first
        assert found == other[0]
        assert len(first.history[0].responses) == 1
    assert ht.verify(place).charges == 1


def test_a_charge_for_other_parts_is_pending_and_blocks_nobody(people, place, monkeypatch):
    both = Ask(("smoker", "age > 3"), "lost", "ann")
    with opened(people, place) as curator:
        entry = lost(curator, both, monkeypatch)
        curator.ask("smoker")
        pending, served = ask_together(curator, [both, Ask(("age > 4",), "new", "ann")])
        assert isinstance(pending, Pending)
        assert pending.entry == entry
        assert not served[0].repeated
        (anew,) = ask_together(curator, [Ask(("smoker", "age > 3"), "another", "ann")])
        assert [answer.repeated for answer in anew] == [True, False]


def test_a_known_question_under_new_keys_takes_one_round(people, place):
    with opened(people, place) as curator:
        curator.ask("smoker")
        commits = count_commits(curator)
        found = ask_together(curator, [Ask(("smoker",), f"key {number}", "ann") for number in range(16)])
        assert commits[0] == 16
        assert all(answers[0].repeated for answers in found)


def test_a_key_whose_request_was_answered_before_is_taken_for_every_verb(people, place):
    candidates = {"young": "age < 30", "old": "age >= 30"}
    with opened(people, place) as curator:
        first = curator.select(candidates, epsilon=0.1)
        spent = curator.budget.spent
        assert curator.select(candidates, epsilon=0.1, key="k").index == first.index
        assert curator.select(candidates, epsilon=0.1, key="k").index == first.index
        with pytest.raises(ht.RefusedError, match="another request"):
            curator.select({"young": "age < 31", "old": "age >= 31"}, epsilon=0.1, key="k")
        assert curator.budget.spent == spent


def test_repeats_do_not_grow_the_ledger_without_end(people, place, monkeypatch):
    monkeypatch.setattr("holdtrue.curator.answer_index._MOST_FREE_KEYS", 5)
    candidates = {"young": "age < 30", "old": "age >= 30"}
    with opened(people, place) as curator:
        answer, choice = curator.ask("smoker", key="first"), curator.select(candidates, epsilon=0.1, key="second")
        for number in range(20):
            assert curator.ask("smoker", key=f"ask {number}").value == answer.value
            assert curator.select(candidates, epsilon=0.1, key=f"select {number}").index == choice.index
        entries = len(curator.ledger.entries())
        assert entries <= 4 + 2 * 5 + 2
        # Keys that are in the ledger stay bound to their requests; those that cost nothing and came late do not.
        for known in ("first", "ask 0"):
            with pytest.raises(ht.RefusedError, match="another request"):
                curator.ask("NOT smoker", key=known)
        assert not curator.ask("NOT smoker", key="ask 19").repeated
    assert ht.verify(place)


def test_a_long_ledger_takes_little_memory_and_forgets_nothing(people, place, monkeypatch):
    monkeypatch.setattr("holdtrue.curator.answer_index._RECENT", 3)
    with opened(people, place) as curator:
        answers = [curator.ask(f"age > {age}") for age in range(12)]
        register = curator.pipeline.index
        assert (len(register._recent), len(register._open)) == (3, 0)
        entries = curator.ledger.entries()
        for age, answer in enumerate(answers):
            again = curator.ask(f"age > {age}")
            assert (again.value, again.certificate, again.repeated) == (answer.value, answer.certificate, True)
        charged = [entry for entry in entries if entry.kind == "charge"]
        assert [(entry.draws, entry.charges, entry.other_spent) for entry in charged] == [(n, n, 0) for n in range(1, 13)]


def along(curator, *crowds):
    """Ask crowds of which each comes while the one before is measured; return what became of each, and the order of it."""
    coming, futures, told = list(crowds), [], []
    sums = curator.pipeline._sum_queries

    def send():
        for future in submit(curator, coming.pop(0)) if coming else []:
            futures.append(future)
            future.add_done_callback(told.append)

    def measuring(releases):
        send()
        return sums(releases)

    curator.pipeline._sum_queries = measuring
    send()
    while len(told) < sum(map(len, crowds)):
        time.sleep(0.001)
    del curator.pipeline._sum_queries
    return outcomes(futures), [futures.index(future) for future in told]


def test_answers_and_the_next_charges_share_a_commit(people, place):
    with opened(people, place) as curator:
        commits = count_commits(curator)
        crowd = asks(12)
        found, order = along(curator, crowd[:5], crowd[5:9], crowd[9:])
        assert commits == [5, 5 + 4, 4 + 3, 3]
        assert order == list(range(12))
        assert all(not answers[0].repeated for answers in found)
        kinds = "".join(entry.kind[0] for entry in curator.pipeline.ledger.entries())
    assert kinds == "c" * 5 + "r" * 5 + "c" * 4 + "r" * 4 + "c" * 3 + "r" * 3
    assert ht.verify(place).charges == 12


def test_what_comes_along_is_answered_as_if_it_had_come_alone(people, place):
    crowd = [*asks(6), Ask(("age > 2",), "again", "ann"), Ask(("age > 3", "age > 99"), "both", "ann")]
    with opened(people, place) as curator:
        told, _ = along(curator, crowd[:4], [*crowd[4:], crowd[1], Ask(("height",), "wrong", "ann")])
        again = ask_together(curator, crowd)
        assert told[:8] == again
        assert told[8] == again[1]  # the same key while the first was under way: the same answer
        assert isinstance(told[9], ht.UnknownColumn)
        assert [answer.repeated for answer in told[6]] == [True]
        assert [answer.repeated for answer in told[7]] == [True, False]
        assert curator.budget.asks == curator.plan.queries - 7
    assert ht.verify(place)


def unstored(people, place):
    """Return how many answers were told before they stood in the file, as another connection sees it."""
    early = []

    def look(future):
        with sqlite3.connect(place) as file:
            stored = {number for (number,) in file.execute("SELECT answers FROM holdtrue_entries WHERE answers > 0")}
        early.extend(answer for answer in future.result() if answer.certificate.entry not in stored)

    with opened(people, place) as curator:
        held = [curator.ask_job(ask.queries, key=ask.key, analyst=ask.analyst) for ask in asks(8)]
        for job in held:
            job.future.add_done_callback(look)
        for crowd in (held[:4], held[4:]):
            for job in crowd:
                curator.pipeline.submit(job)
        outcomes([job.future for job in held])
    return len(early)


def test_p3_nothing_is_told_before_it_is_stored(people, place, tmp_path, monkeypatch):
    assert unstored(people, place) == 0
    # The planted fault: answers are told when they are drawn, before the commit that they go into.
    respond = Pipeline._draw_and_respond

    def hasty(self, items, measure):
        respond(self, items, measure)
        for item in items:
            item.job.future.set_result(item.records)

    monkeypatch.setattr(Pipeline, "_draw_and_respond", hasty)
    assert unstored(people, tmp_path / "hasty.ledger") == 8


def test_p6_after_a_failed_commit_nobody_who_comes_along_is_told_of_an_answer(people, place):
    with opened(people, place) as curator:
        store, done = curator.pipeline.ledger.store, []
        begin = store.begin

        def failing(lookup):
            done.append(lookup)
            if len(done) == 2:
                raise OSError(5, "a secret of the engine")
            return begin(lookup)

        store.begin = failing
        told, _ = along(curator, asks(8)[:4], asks(8)[4:])
        assert len(done) == 2
        assert all(isinstance(outcome, ht.ReleaseError) and "secret" not in str(outcome) for outcome in told)
        with pytest.raises(ht.RefusedError, match="failed earlier"):
            curator.ask("smoker")
    with opened(people, place) as curator:
        # What was charged and not stored is answered under the same charges, once the ledger is there again.
        found = ask_together(curator, asks(8))
        assert [answers[0].certificate.entry for answers in found] == list(range(1, 9))
        assert curator.budget.asks == curator.plan.queries - 8


def test_who_keeps_coming_keeps_nobody_else_out(people, place):
    """Whoever serves the inbox lets go of the lock after a number of batches, however many more wait."""
    with opened(people, place, queries=1000) as curator:
        held, sums, left = curator.pipeline, curator.pipeline.engine.sums, iter(range(40))

        def measuring(*given, **settings):
            held._inbox.add("ann", curator.ask_job((f"age > {next(left)}.5",), key=None, analyst="ann"))
            return sums(*given, **settings)

        held.engine.sums = measuring
        held._inbox.add("ann", curator.ask_job(("smoker",), key=None, analyst="ann"))
        with held.lock:
            held._serve_inbox()
        del held.engine.sums
        assert len(curator.history) == pipeline._MOST_BATCHES
        assert len(held._inbox) == 1


def test_only_what_is_drawn_and_not_stored_yet_is_waited_for(people, place):
    one, two, three = (Ask((f"age > {age}",), f"key {age}", "ann") for age in range(3))
    with opened(people, place) as curator:
        commits = count_commits(curator)
        told, _ = along(curator, [one], [two], [Ask(one.queries, "again", "ben"), three])
        # The third asks what the first was answered two commits ago, and is served beside the second's answer.
        assert commits == [1, 1 + 1, 1 + 2, 1]
        assert told[2][0].repeated
        assert told[2][0].value == told[0][0].value
    assert ht.verify(place).charges == 3


def test_threads_that_ask_one_curator_share_commits(people, place):
    with opened(people, place) as curator:
        curator.ask("smoker")
        commits, answers, start = count_commits(curator), [], threading.Barrier(9)

        def work(number):
            start.wait()
            answers.append(curator.ask(f"age > {number}", key=f"key {number}", analyst=f"analyst {number}"))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        with curator.pipeline.lock:  # all of them wait in line
            start.wait()
            while len(curator.pipeline._inbox) < len(threads):
                pass
        for thread in threads:
            thread.join()
        assert commits == [8, 8]
        assert sorted(answer.certificate.entry for answer in answers) == list(range(3, 11))
    assert ht.verify(place).charges == 9


def test_threads_that_ask_again_and_again_share_commits(people, place):
    with opened(people, place, queries=100) as curator:
        curator.ask("smoker")
        commits, start = count_commits(curator), threading.Barrier(8)
        store = curator.pipeline.ledger.store
        commit = store.commit
        store.commit = lambda entries: (time.sleep(0.005), commit(entries))

        def work(number):
            start.wait()
            for age in range(5):
                curator.ask(f"age > {10 * number + age}")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(commits) == 80
        assert len(commits) <= 40  # two for every eight asks, if all came together
    assert ht.verify(place).charges == 41


def test_a_thread_is_told_when_the_ledger_fails_for_the_one_that_serves_it(people, place):
    with opened(people, place) as curator:
        curator.ask("smoker")
        failures, start = [], threading.Barrier(5)

        def work(number):
            start.wait()
            try:
                curator.ask(f"age > {number}")
            except ht.HoldtrueError as error:
                failures.append(error)

        def fail(_):
            raise OSError(5, "a secret of the engine")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        with curator.pipeline.lock:
            start.wait()
            while len(curator.pipeline._inbox) < len(threads):
                pass
            curator.pipeline.ledger.store.begin = fail
        for thread in threads:
            thread.join()
        assert len(failures) == 4
        assert "secret" not in "".join(map(str, failures))


def test_questions_are_answered_while_a_class_is_counted(people, place, monkeypatch):
    """Learning holds neither the curator nor the ledger while it counts; a question about the same rows is answered then."""
    counting, answered = threading.Event(), threading.Event()
    with opened(people, place) as curator:
        error_counts = curator.pipeline.engine.error_counts

        def slowly(*given, **settings):
            counting.set()
            assert answered.wait(60)
            return error_counts(*given, **settings)

        monkeypatch.setattr(curator.pipeline.engine, "error_counts", slowly)
        learned = []
        stumps = ht.Stumps(bounds={"age": (0, 100)}, steps=10)
        learner = threading.Thread(target=lambda: learned.append(curator.learn(stumps, target="smoker", epsilon=0.1)))
        learner.start()
        assert counting.wait(60)
        first = curator.ask("age > 30", analyst="ben")
        answered.set()
        learner.join(60)
        assert not first.repeated
        assert learned[0].certificate.entry == 1
        assert [entry.kind for entry in curator.ledger.entries()] == ["charge", "charge", "response", "response"]
        assert [line.responses != () for line in curator.history] == [True, True]
    assert ht.verify(place).charges == 2


def test_a_class_that_is_counted_already_is_not_counted_twice(people, place, monkeypatch):
    """The same lesson from two threads: the second waits for the first one's answer, and costs nothing."""
    counting, counted = threading.Event(), []
    with opened(people, place) as curator:
        error_counts = curator.pipeline.engine.error_counts

        def slowly(*given, **settings):
            counted.append(1)
            counting.set()
            while not curator.pipeline._parked:
                time.sleep(0.001)
            return error_counts(*given, **settings)

        monkeypatch.setattr(curator.pipeline.engine, "error_counts", slowly)
        learned, stumps = [], ht.Stumps(bounds={"age": (0, 100)}, steps=10)
        threads = [
            threading.Thread(target=lambda: learned.append(curator.learn(stumps, target="smoker", epsilon=0.1)))
            for _ in range(2)
        ]
        threads[0].start()
        assert counting.wait(60)
        threads[1].start()
        for thread in threads:
            thread.join(60)
        assert len(counted) == 1
        assert sorted(each.repeated for each in learned) == [False, True]
        assert len({each.index for each in learned}) == 1
    assert ht.verify(place).charges == 1
