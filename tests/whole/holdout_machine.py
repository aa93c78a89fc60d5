"""Holdouts and leaderboards with crashes, retries and two workers, step by step against a reference in memory."""

import contextlib
import json
import math
import shutil
import tempfile
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import holdtrue as ht
from holdtrue.bounds.gate_levels import depth_levels
from holdtrue.holdouts import mode, sparse
from holdtrue.mechanisms import thresholding
from whole.faults import STEPS, Worker, at, kill

CASES = 3000
SUBMISSIONS = 12
TRUTH = np.random.default_rng(0).integers(0, 2, CASES)
TRAIN = np.random.default_rng(1).integers(0, 2, CASES)
WORKERS = st.integers(0, 1)
SUBMITTED = st.integers(0, SUBMISSIONS - 1)
MOMENTS = st.sampled_from(STEPS)
KEYS = st.sampled_from([None, None, "k1", "k2", "k3", "k4"])


def predict(number, truth=TRUTH):
    """Return submission number so many: its accuracy rises and falls with the number, so that leads change."""
    accuracy = 0.45 + 0.5 * ((number * 5) % SUBMISSIONS) / SUBMISSIONS
    wrong = np.random.default_rng(100 + number).random(truth.size) > accuracy
    return np.where(wrong, 1 - truth, truth)


def accuracy_of(number):
    return Fraction(int((predict(number) == TRUTH).sum()), CASES)


def folder():
    """Return a folder in memory where there is one: the machine makes many commits, and needs no disk."""
    shared = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
    return Path(tempfile.mkdtemp(prefix="holdtrue-whole-", dir=shared if shared.is_dir() else None))


class HoldoutMachine(RuleBasedStateMachine):
    """Two workers on one ledger. Subclasses say how to open, how to look, and what the answers must be."""

    looks = 40

    def open(self):
        raise NotImplementedError

    def look_at(self, held, number, key):
        """Make one look with a submission, under a key or none, and return what was told."""
        raise NotImplementedError

    def check(self, number, told):
        """Compare what was told of a submission with the reference."""
        raise NotImplementedError

    @initialize()
    def start(self):
        mode._GATES.clear()  # whoever died in another run was in another process
        self.folder = folder()
        self.path = self.folder / "cases.ledger"
        self.workers = [Worker(self.open), Worker(self.open)]
        self.thresholds = 0
        self._watch = thresholding.AboveThreshold.watch

        def counted(mechanism):
            self.thresholds += 1
            return self._watch(mechanism)

        thresholding.AboveThreshold.watch = counted
        self.told = {}
        self.tried = {}
        self.keyed = {}
        self.new = 0
        self.prepare()

    def prepare(self):
        """Make room for what a mode's reference remembers."""

    def teardown(self):
        if hasattr(self, "folder"):
            thresholding.AboveThreshold.watch = self._watch
            for worker in self.workers:
                worker.close()
            shutil.rmtree(self.folder)

    def ask(self, place, number, key=None):
        """Make a look; compare what is told, and that a refusal for want of budget spends nothing.

        Under a key the very same is told for ever, on every worker; another submission under it is refused.
        """
        worker = self.workers[place]
        ledger = worker.object.ledger
        before = ledger.head
        self.tried.setdefault(key, set()).add(number)
        try:
            told = self.look_at(worker.object, number, key)
        except ht.BudgetExceeded:
            if worker.moment is None:
                assert ledger.head == before
            return
        except ht.UsedKey:
            assert self.tried[key] - {number}, "a key that never named another look was refused"
            return
        except ht.ReleaseError:
            return  # charged, and another one's answer or death came in between
        if key is not None:
            known = self.keyed.setdefault(key, (number, told))
            assert known == (number, told), "one key, two looks"
        self.check(number, told)

    @rule(place=WORKERS, number=SUBMITTED, key=KEYS)
    def look(self, place, number, key):
        self.ask(place, number, key)

    @rule(place=WORKERS, number=SUBMITTED, key=KEYS, step=MOMENTS)
    def look_and_die(self, place, number, key, step):
        with at(self.workers[place], step, kill):
            self.ask(place, number, key)

    @rule(place=WORKERS, number=SUBMITTED, other=SUBMITTED, step=MOMENTS)
    def look_while_another_looks(self, place, number, other, step):
        with at(self.workers[place], step, lambda: self.ask(1 - place, other)):
            self.ask(place, number)

    @rule(place=WORKERS, step=st.sampled_from(("after charge", "before store")))
    def look_twice_at_once_for_the_first_time(self, place, step):
        """Two submissions that nobody made before, the second answered while the first is under way."""
        number, other = self.new, self.new + 1
        if other < SUBMISSIONS:
            self.new += 2
            self.look_while_another_looks(place, number, other, step)

    @rule(place=WORKERS)
    def reopen(self, place):
        self.workers[place].close()

    @invariant()
    def totals_are_those_of_the_entries(self):
        if not hasattr(self, "workers"):
            return
        ledger = self.workers[0].object.ledger
        charges = [entry for entry in ledger.entries() if entry.kind == "charge"]
        assert ledger.spent == sum(entry.cost for entry in charges) <= ledger.terms.cap
        assert sum(entry.verb in ("score", "gate", "submit") for entry in charges) <= self.looks
        self.check_state(self.workers[0].object)

    def check_state(self, held):
        """Compare where the mode stands."""


def same_again(machine, number, told):
    """A submission that was told once is told the same for ever, on every worker."""
    known = machine.told.setdefault(number, told.value)
    assert told.value == known


def one_of_those_paid(machine, number, told):
    """A repeat is what was told before; two workers that look at once each pay for a run, and each have their own answer."""
    known = machine.told.setdefault(number, set())
    assert not told.repeated or not known or told.value in known
    known.add(told.value)


class ScoresMachine(HoldoutMachine):
    def open(self):
        return ht.Holdout(TRUTH, looks=self.looks, ledger=self.path)

    def look_at(self, held, number, key):
        return held.score(predict(number), key=key)

    def check(self, number, told):
        same_again(self, number, told)
        assert told.interval.low <= told.value <= told.interval.high


class PrivateResultsMachine(ScoresMachine):
    """Results made with the labels: never a repeat by what they hold."""

    def ask(self, place, number, key=None):
        # Results are known by their key, whatever they hold: under one key they must be the same ones.
        super().ask(place, number, key if key is None else f"{key} {number}")

    def look_at(self, held, number, key):
        return held.score(cases=(predict(number) == TRUTH).astype(float), key=key)

    def check(self, number, told):
        del number
        assert not told.repeated
        assert told.certificate.cost > 0


class RoundingMachine(ScoresMachine):
    def open(self):
        return ht.Holdout(TRUTH, looks=self.looks, private=False, ledger=self.path)

    def check(self, number, told):
        same_again(self, number, told)
        rows = told.sample_interval
        assert rows.low <= accuracy_of(number) <= rows.high


class GateMachine(HoldoutMachine):
    margin = Fraction(1, 10)
    first = 0
    yes = 8
    levels = depth_levels(HoldoutMachine.looks, yes=yes, beta=0.05)

    def prepare(self):
        self.new = 6  # two that are both better than the first incumbent

    def open(self):
        return ht.Holdout(TRUTH, looks=self.looks, yes=self.yes, incumbent=predict(self.first), ledger=self.path)

    def look_at(self, held, number, key):
        return held.gate(predict(number), margin=self.margin, key=key)

    def ask(self, place, number, key=None):
        with contextlib.suppress(ht.InvalidParameter):  # the incumbent itself
            super().ask(place, number, key)

    def check(self, number, told):
        del number
        assert told.interval.low <= told.interval.high
        assert told.claim
        assert any(told.level == pytest.approx(math.exp(-level)) for level in self.levels)

    def check_state(self, held):
        """Every answer follows from the entries before its charge, by a count and a p-value of the reference's own."""
        gate = held._mode
        state = gate._follow()
        names = {gate_name(held, number): number for number in range(SUBMISSIONS)}
        charged, yes, waiting, least = {}, 0, set(), {self.first: Fraction(0)}
        for entry in held.ledger.entries():
            if entry.kind == "charge" and entry.verb == "gate":
                charged[entry.number] = yes + len(waiting), json.loads(entry.body)["request"]
                waiting.add(entry.number)
            elif entry.kind == "response" and entry.answers in waiting:
                waiting.remove(entry.answers)
                used, request = charged[entry.answers]
                told, number, other = '"yes"' in entry.body, names[request["values"]], names[request["against"]]
                assert gate.count_before(entry.answers)[0] == used
                assert told == (bet_on(number, other, self.margin) >= self.levels[used])
                if told:
                    yes, least[number] = yes + 1, least[other] + self.margin
                    assert least[number] <= accuracy_of(number)
        assert not state.means or {names[name]: low for name, (low, *_) in state.means.items()} == least
        assert (len(state.yes), yes <= self.yes) == (yes, True)


@cache
def bet_on(number, other, margin):
    """Return ln of what betting on the difference of two submissions has made in the end."""
    gains = (predict(number) == TRUTH).astype(float) - (predict(other) == TRUTH) - float(margin)
    logs = [np.log(1 + 0.98 * 2 ** (-i / 2) / (1 + float(margin)) * gains).sum() for i in range(14)]
    return np.logaddexp.reduce(logs) - math.log(14)


def gate_name(held, number):
    return held.named(predict(number))


class LadderMachine(HoldoutMachine):
    rule_name = "ladder"

    def prepare(self):
        self.best = 0.0

    def open(self):
        return ht.Leaderboard(TRUTH, submissions=self.looks, rule=self.rule_name, ledger=self.path)

    def look_at(self, held, number, key):
        return held.submit(f"team {number}", predict(number), key=key)

    def check(self, number, told):
        if not told.repeated:
            self.told[number] = told.value

    def check_state(self, held):
        """The best that is shown never falls, and nobody who was answered is above it by more than two steps."""
        shown = [place.score for place in held.standings() if place.score is not None]
        best = max(shown, default=0.0)
        assert best >= self.best
        self.best = best
        if self.told:
            step = held.facts.scale
            assert best >= float(max(accuracy_of(number) for number in self.told)) - 2 * step
        told = [answer.value for _, answer, _ in held._mode.list_submissions()]
        assert told == sorted(told)


class RunsMachine(HoldoutMachine):
    """Modes of above threshold: no threshold is drawn that was not paid for."""

    runs = 12

    def prepare(self):
        self._patience, sparse._PATIENCE = sparse._PATIENCE, 0.01  # whoever died answers nothing more

    def teardown(self):
        if hasattr(self, "_patience"):
            sparse._PATIENCE = self._patience
        super().teardown()

    def check_state(self, held):
        cost = held.plan.cost or held._mode._cost
        ledger = held.ledger
        assert self.thresholds <= ledger.spent // cost
        charges = [entry for entry in ledger.entries() if entry.kind == "charge"]
        assert all(entry.cost in (0, cost) for entry in charges)


class PrivateGateMachine(RunsMachine):
    """By the sparse vector: every run is paid for by whoever drew its threshold, and levels follow from the ledger."""

    privacy = {"epsilon": 60}  # noqa: RUF012 - of this class

    def open(self):
        given = {"looks": self.looks, "yes": self.runs, "private": True, "ledger": self.path}
        return ht.Holdout(TRUTH, incumbent=predict(0), **given, **self.privacy)

    def look_at(self, held, number, key):
        # Every second one is below its bar, so that runs go on.
        return held.gate(predict(number), margin=0.3 if number % 2 else 0.02, key=key)

    def ask(self, place, number, key=None):
        with contextlib.suppress(ht.InvalidParameter):  # the incumbent itself
            super().ask(place, number, key)

    def check(self, number, told):
        del number
        assert told.private
        assert told.claim

    def check_state(self, held):
        super().check_state(held)
        gate, told, waiting = held._mode, 0, set()
        gate._follow()
        for entry in held.ledger.entries():
            if entry.kind == "charge" and entry.verb == "gate" and '"vacuous"' not in entry.body:
                assert gate.count_before(entry.number)[0] == told + len(waiting)
                waiting.add(entry.number)
            elif entry.kind == "response" and entry.answers in waiting:
                waiting.remove(entry.answers)
                told += '"yes"' in entry.body
        assert told <= self.runs


class GaussianGateMachine(PrivateGateMachine):
    """By Gaussian comparisons: every look is charged the same, and what a crash left open is answered under its charge."""

    privacy = {"epsilon": 20, "delta": 1e-6}  # noqa: RUF012 - of this class

    def prepare(self):
        super().prepare()
        assert self.workers[0].object.facts.noise == "gaussian"


class ThresholdoutMachine(RunsMachine):
    def open(self):
        return ht.Holdout(TRUTH, looks=self.looks, train=TRAIN, overfits=self.runs, ledger=self.path)

    def look_at(self, held, number, key):
        return held.score(predict(number), train=predict(number // 2, TRAIN), key=key)

    def check(self, number, told):
        one_of_those_paid(self, number, told)


class PrivateLadderMachine(RunsMachine):
    def open(self):
        return ht.Leaderboard(TRUTH, submissions=self.looks, rule="private ladder", moves=self.runs, ledger=self.path)

    def look_at(self, held, number, key):
        return held.submit(f"team {number}", predict(number), key=key)

    def check(self, number, told):
        del number, told

    def check_state(self, held):
        super().check_state(held)
        shown = [answer.value for _, answer, _ in held._mode.list_submissions()]
        assert shown == sorted(shown)


class GuessAndCheckMachine(HoldoutMachine):
    def open(self):
        return ht.Holdout(TRUTH, looks=self.looks, train=TRAIN, overfits=6, private=False, ledger=self.path)

    def look_at(self, held, number, key):
        return held.score(predict(number), train=predict(number // 2, TRAIN), key=key)

    def check(self, number, told):
        same_again(self, number, told)
        if told.sample_interval.confidence == 1:
            assert told.sample_interval.low <= accuracy_of(number) <= told.sample_interval.high

    def check_state(self, held):
        """Later levels count the cells that were really told: those of the stored answers, in their order."""
        way = held._mode
        way.transcript.follow()
        widths = [
            look.told.sample_interval.width
            for look in way.transcript
            if hasattr(look.told, "sample_interval") and look.told.sample_interval.confidence == 1
        ]
        assert way._cells() == tuple(round(1 / width) for width in widths)


class PrivateBoardMachine(LadderMachine):
    rule_name = "private"

    def check(self, number, told):
        same_again(self, number, told)

    def check_state(self, held):
        shown = {place.name: place.score for place in held.standings()}
        for number, value in self.told.items():
            assert shown[f"team {number}"] == value


MACHINES = (
    ScoresMachine,
    PrivateResultsMachine,
    RoundingMachine,
    GateMachine,
    LadderMachine,
    PrivateGateMachine,
    GaussianGateMachine,
    ThresholdoutMachine,
    PrivateLadderMachine,
    GuessAndCheckMachine,
    PrivateBoardMachine,
)
