"""Ladders tell the best score so far, only when it improves: rounded, by a step (T11); or private, with noise (T10)."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from holdtrue.bounds.transcripts import ladder_alpha
from holdtrue.curator.pipeline import Pipeline
from holdtrue.errors import RefusedError
from holdtrue.events import NoCost, NonPrivate
from holdtrue.exact import ROUNDING
from holdtrue.holdouts.cases import Array, Cases
from holdtrue.holdouts.mode import BestSoFar, Mode, Moment, PlannedLook, Submission
from holdtrue.holdouts.records import Score
from holdtrue.holdouts.sparse import Runs, await_answer
from holdtrue.holdouts.terms import Facts
from holdtrue.ledgers import Entry
from holdtrue.planning.plans import Plan
from holdtrue.records import Answer, Certificate, Interval, Response
from holdtrue.verbs import Release, Standing

__all__ = ["BEST", "FREE", "Ladder", "PrivateLadder", "best_step"]

BEST = "best accuracy so far"
FREE = "parameter-free ladder"
_THEOREM = "ladder, transcripts counted (T11)"
_NO_BOUND = "the parameter-free rule has no bound here: its steps depend on the cases"
_MOST_LEVELS = 4000


def best_step(cases: int, *, submissions: int, beta: float) -> tuple[float, float]:
    """Return the step that makes the ladder's width smallest, and that width: steps just above 1/(L + 1) for whole L."""
    levels = np.unique(np.rint(np.geomspace(1, _MOST_LEVELS, 400)).astype(int))
    steps = [1 / (int(level) + 1) * ROUNDING for level in levels]
    return min((ladder_alpha(cases, submissions=submissions, beta=beta, step=step), step) for step in steps)[::-1]


class Ladder(Mode[Score]):
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
        super().__init__(cases, facts, plan, pipeline)
        self._shown = BestSoFar(self.transcript)
        self._leader: tuple[str, Array] | None = None

    def plan_look(self, given: Submission, known: Entry | None) -> PlannedLook:
        """Return the release of the best score so far, the submission's own if it leads."""
        del known  # who leads is read when it is drawn
        part = f"submit {given.name}"
        self.pipeline.index.follow()
        self._shown.follow()
        return PlannedLook(self._release(given, part), given.asked)

    def refuse(self, given: Submission) -> None:
        """Refuse also where the parameter-free rule would need a leader's predictions that this process has not seen."""
        super().refuse(given)
        leading = self._shown.leading
        if self.facts.mode == FREE and leading is not None and (self._leader is None or self._leader[0] != leading):
            message = "submit the leader's predictions again first (it costs nothing): the rule compares with them"
            raise RefusedError(message)

    def settle(self, given: Submission, planned: PlannedLook, found: Response) -> None:
        """Keep the leader's predictions, which the parameter-free rule compares with."""
        del planned, found
        self._shown.follow()
        if self._shown.leading == given.name and given.asked.submitted is not None:
            self._leader = given.name, given.asked.submitted

    def answer(self, given: Submission, found: Response, moment: Moment) -> Score:
        """Return the best score so far, as it was when this look was answered."""
        return replace(self.score(given, self._shown.show(found), moment), metric=BEST)

    def list_submissions(self) -> list[tuple[str, Answer, bool]]:
        """Return every submission in the order of the responses: whose it was, what was shown, and whether it led."""
        with self.pipeline.lock:
            return self._shown.all()

    def _release(self, given: Submission, part: str) -> Release:
        asked, step = given.asked, Fraction(self.facts.scale or 1)

        def draw(sums: Sequence[int]) -> list[int]:
            self._shown.follow()
            best = self._shown.best
            loss = asked.ceiling - int(sums[0])
            if self.facts.mode == FREE:
                return self._freely(loss, asked.submitted, best)
            level = None if best is None else round(Fraction(1 - best.value) / step)
            share = Fraction(loss, asked.ceiling)
            moved = level is None or share < (level - 1) * step
            return [int(moved), round(share / step) if moved else level or 0]

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing
            free = self.facts.mode == FREE
            loss = drawn[1] / asked.ceiling if free else float(drawn[1] * step)
            return [self._make_answer(1 - loss, certificate.with_theorem(certificate.theorem, event=NonPrivate()))]

        request = {"target": asked.name, "values": given.name, "team": given.team, "private": False}
        return Release("submit", request, (part,), NoCost(), 1, 1, (), draw, respond)  # type: ignore[arg-type]  # integers

    def _freely(self, loss: int, predicted: Array | None, best: Answer | None) -> list[int]:
        """Return whether a loss is below the best by more than the standard error of the difference to the leader."""
        if best is None or self._leader is None or predicted is None:
            return [1, loss]
        before = round((1 - best.value) * self.cases.grid)
        gap = self._deviation(predicted, self._leader[1]) / math.sqrt(self.cases.number)
        return [1, loss] if loss < before - gap * self.cases.grid else [0, before]

    def _deviation(self, one: Array, other: Array) -> float:
        truth = self.cases.truth
        differences: npt.NDArray[np.float64] = (one != truth).astype(np.float64) - (other != truth)
        return float(differences.std(ddof=1))

    def _make_answer(self, value: float, certificate: Certificate) -> Answer:
        rows = Interval(min(value, 1.0), min(value, 1.0), 1 - self.facts.beta, "sample")
        if self.facts.mode == FREE:
            return Answer(value, None, rows, certificate.with_theorem(None), reason=_NO_BOUND)
        near = self.plan.alpha
        ends = Interval(
            max(0.0, min(1.0, value - near)), min(1.0, max(0.0, value + near)), 1 - self.facts.beta, "population"
        )
        return Answer(value, ends, rows, certificate.with_theorem(_THEOREM))


class PrivateLadder(Runs[Score]):
    """A leaderboard that keeps secrets and tells one number: the leader's score when it took the lead, with noise.

    Every submission is compared with the score told last, not with the leader's own, through above threshold: a submission
    that is not found above it by the step changes nothing and costs nothing more. So what is told is never the best of many
    noisy scores. Guarantee: as :class:`Runs` for privacy, at most ``moves`` runs; with probability 1 - beta every score
    told is within the plan's alpha of its leader's truth, at once, however submissions were chosen (T10, T6b). What is
    shown is the best in the order of the stored responses (:class:`BestSoFar`): it never falls, whatever other processes do.
    """

    def __init__(self, cases: Cases, facts: Facts, plan: Plan, pipeline: Pipeline) -> None:
        super().__init__(cases, facts, plan, pipeline)
        self._shown = BestSoFar(self.transcript)

    def plan_look(self, given: Submission, known: Entry | None) -> PlannedLook:
        """Return the release of the score that leads from now on, or of the one that still does."""
        await_answer(self.pipeline, known)
        asked, step = given.asked, Fraction(self.facts.threshold or 0)
        self._shown.follow()
        best = self._shown.best
        best = best if best is not None and best.value > 0 else None
        # Nothing told yet: compared with -1, so that whoever comes first leads, unless noise is larger than it ever is.
        least = int((Fraction(best.value) + step) * asked.divisor) if best is not None else -asked.divisor

        def respond(total: int | None, certificate: Certificate) -> Response:
            if total is not None and (best is None or asked.score(total) > best.value):
                value = asked.score(total)
                interval = self.interval(value, width=self.plan.alpha)
                return Answer(value, interval, interval, certificate)
            # Also where noise alone brought it here: the run is spent, and who leads still does.
            known = self._everything() if best is None else best.interval or self._everything()
            return Answer(0.0 if best is None else best.value, known, known, certificate)

        return self.plan_in_run(
            given,
            verb="submit",
            part=f"submit {given.name}",
            request={"target": asked.name, "values": given.name, "team": given.team},
            excess=lambda total: total - least,
            respond=respond,
        )

    def answer(self, given: Submission, found: Response, moment: Moment) -> Score:
        """Return the best score so far, as it was when this look was answered."""
        score = replace(self.score(given, self._shown.show(found), moment), metric=BEST)
        return score if self.left_at(moment, under_way=True) else replace(score, looks_left=0)

    def list_submissions(self) -> list[tuple[str, Answer, bool]]:
        """Return every submission in the order of the responses: whose it was, what was shown, and whether it led."""
        with self.pipeline.lock:
            return [(team, shown, led and shown.value > 0) for team, shown, led in self._shown.all()]

    def _everything(self) -> Interval:
        return Interval(0.0, 1.0, 1 - self.facts.beta, "population")
