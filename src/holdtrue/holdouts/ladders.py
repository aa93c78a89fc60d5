"""The ladder: the best score so far, rounded, told only when it improves by more than a step (T11). Not private."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from holdtrue.bounds.transcripts import ladder_alpha
from holdtrue.curator.pipeline import Pipeline
from holdtrue.errors import IntegrityError, RefusedError
from holdtrue.events import NoCost, NonPrivate
from holdtrue.exact import ROUNDING
from holdtrue.holdouts.cases import Array, Cases
from holdtrue.holdouts.opening import Facts
from holdtrue.holdouts.questions import Question
from holdtrue.holdouts.scoring import name_of, once, refuse_spent
from holdtrue.holdouts.transcripts import BestSoFar, Transcript
from holdtrue.planning.plans import Plan
from holdtrue.records import Answer, Certificate, Interval, Response
from holdtrue.verbs import Release, Standing

__all__ = ["FREE", "Ladder", "best_step"]

FREE = "parameter-free ladder"
_THEOREM = "ladder, transcripts counted (T11)"
_NO_BOUND = "the parameter-free rule has no bound here: its steps depend on the cases"
_MOST_LEVELS = 4000


def best_step(cases: int, *, submissions: int, beta: float) -> tuple[float, float]:
    """Return the step that makes the ladder's width smallest, and that width: steps just above 1/(L + 1) for whole L."""
    levels = np.unique(np.rint(np.geomspace(1, _MOST_LEVELS, 400)).astype(int))
    steps = [1 / (int(level) + 1) * ROUNDING for level in levels]
    return min((ladder_alpha(cases, submissions=submissions, beta=beta, step=step), step) for step in steps)[::-1]


class Ladder:
    """A leaderboard that tells one number: the best score so far, as often as it improves by more than a step.

    Guarantee: with probability 1 - beta the number is within the plan's alpha of the leader's true score and of the best
    true score so far, at every time and however submissions are chosen (T11). It holds for any number of processes and
    crashes: what is shown is the best in the order of the stored responses (:class:`BestSoFar`), one rising sequence of
    levels whose first look always leads, so there are no more transcripts than T11 counts; and whatever was submitted for
    a look was chosen before its response was stored. Needs: the order in which processes store does not depend on labels.
    The parameter-free rule takes for a step the standard error of the difference to the leader, and promises nothing here.
    Neither keeps a secret.
    """

    def __init__(self, cases: Cases, facts: Facts, plan: Plan, pipeline: Pipeline) -> None:
        self.cases, self.facts, self.plan, self.pipeline = cases, facts, plan, pipeline
        self._shown = BestSoFar(Transcript(pipeline.ledger))
        self._leader: tuple[str, Array] | None = None

    def look(self, asked: Question, predicted: Array, *, team: str, analyst: str | None = None) -> Answer:
        """Take a submission; return the best score so far, its own if it led."""
        pipeline = self.pipeline
        pipeline.check_open()
        name = name_of(asked, pipeline)
        part = f"submit {name}"
        with pipeline.lock:
            pipeline.index.follow()
            self._shown.follow()
            if not pipeline.index.has(part):
                refuse_spent(pipeline, self.facts, part=part)
                self._known_leader()
            release = self._release(asked, name, part, predicted, team)
            found = once(pipeline, release, analyst=analyst, measure=lambda: [asked.total()])
            if not isinstance(found, Answer):
                message = "the ledger has another kind of response to this submission"
                raise IntegrityError(message)
            shown = self._shown.show(found)
            if self._shown.leading == name:
                self._leader = name, predicted
        return shown

    def led(self) -> list[tuple[str, Answer, bool]]:
        """Return every submission in the order of the responses: whose it was, what was shown, and whether it led."""
        with self.pipeline.lock:
            return self._shown.all()

    def _known_leader(self) -> None:
        """Refuse where the parameter-free rule would need a leader's predictions that this process has not seen."""
        leading = self._shown.leading
        if self.facts.mode == FREE and leading is not None and (self._leader is None or self._leader[0] != leading):
            message = "submit the leader's predictions again first (it costs nothing): the rule compares with them"
            raise RefusedError(message)

    def _release(self, asked: Question, name: str, part: str, predicted: Array, team: str) -> Release:
        step = Fraction(self.facts.scale or 1)

        def draw(sums: Sequence[int]) -> list[int]:
            self._shown.follow()
            best = self._shown.best
            loss = asked.ceiling - int(sums[0])
            if self.facts.mode == FREE:
                return self._freely(loss, predicted, best)
            level = None if best is None else round(Fraction(1 - best.value) / step)
            share = Fraction(loss, asked.ceiling)
            moved = level is None or share < (level - 1) * step
            return [int(moved), round(share / step) if moved else level or 0]

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing
            free = self.facts.mode == FREE
            loss = drawn[1] / asked.ceiling if free else float(drawn[1] * step)
            return [self._told(1 - loss, certificate.proving(certificate.theorem, event=NonPrivate()))]

        request = {"target": asked.name, "values": name, "team": team, "private": False}
        return Release("submit", request, (part,), NoCost(), 1, 1, (), draw, respond)  # type: ignore[arg-type]  # integers

    def _freely(self, loss: int, predicted: Array, best: Answer | None) -> list[int]:
        """Return whether a loss is below the best by more than the standard error of the difference to the leader."""
        if best is None or self._leader is None:
            return [1, loss]
        before = round((1 - best.value) * self.cases.grid)
        gap = self._deviation(predicted, self._leader[1]) / math.sqrt(self.cases.number)
        return [1, loss] if loss < before - gap * self.cases.grid else [0, before]

    def _deviation(self, one: Array, other: Array) -> float:
        truth = self.cases.truth
        differences: npt.NDArray[np.float64] = (one != truth).astype(np.float64) - (other != truth)
        return float(differences.std(ddof=1))

    def _told(self, value: float, certificate: Certificate) -> Answer:
        rows = Interval(min(value, 1.0), min(value, 1.0), 1 - self.facts.beta, "sample")
        if self.facts.mode == FREE:
            return Answer(value, None, rows, certificate.proving(None), reason=_NO_BOUND)
        near = self.plan.alpha
        ends = Interval(
            max(0.0, min(1.0, value - near)), min(1.0, max(0.0, value + near)), 1 - self.facts.beta, "population"
        )
        return Answer(value, ends, rows, certificate.proving(_THEOREM))
