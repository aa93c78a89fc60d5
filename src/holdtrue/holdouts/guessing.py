"""Guess and check: the training score if the holdout proves it, otherwise the holdout's, rounded (T12). Not private."""

import math
from collections.abc import Sequence

from msgspec.structs import replace

from holdtrue.bounds.transcripts import check_cells, check_passes, guess_and_check_level
from holdtrue.curator.pipeline import Pipeline
from holdtrue.errors import IntegrityError
from holdtrue.events import NoCost, NonPrivate
from holdtrue.holdouts.cases import BITS, Cases
from holdtrue.holdouts.opening import Facts
from holdtrue.holdouts.questions import Question
from holdtrue.holdouts.records import Score
from holdtrue.holdouts.scoring import about, name_of, once, refuse_spent, used_up
from holdtrue.holdouts.transcripts import Transcript
from holdtrue.records import Answer, Certificate, Interval, Prediction, Response
from holdtrue.verbs import Release, Standing

__all__ = ["GuessAndCheck", "checked", "count_cells"]

_THEOREM = "guess and check (T12)"
_STOP = "stop"
_PASSED = -1
_STOPPED = -2
_UNSURE = math.nextafter(1.0, 0.0)
_NO_MORE = "too many training scores failed their checks: the holdout can prove nothing finer, and tells no more"


def checked(  # noqa: PLR0913 - the numbers of one check
    guess: float,
    *,
    total: int,
    cases: int,
    whole: bool,
    tolerance: float,
    beta: float,
    query: int,
    cells: tuple[int, ...],
    answered: int | None = None,
) -> tuple[int, int]:
    """Return what query number ``query`` is answered with, after failures that had so many cells.

    (-1, 0): the guess passed. (i, L): it failed, and the holdout's mean is in cell i of L. (-2, 0): it failed, and no
    number of cells is fine enough: nothing more can be told.
    """
    level = guess_and_check_level(beta, query=query, cells=cells, answered=answered)
    if check_passes(guess, total=total, rows=cases, bits=BITS, tolerance=tolerance, level=level, whole=whole):
        return _PASSED, 0
    number = check_cells(cases, tolerance=tolerance, query=query, beta=beta, cells=cells, answered=answered)
    if number is None:
        return _STOPPED, 0
    return min(total * number // (cases << BITS), number - 1), number


def count_cells(told: Answer) -> int | None:
    """Return among how many cells a stored answer was told, None where the guess had passed.

    Only the cell of a failed guess is certain to hold the mean of these cases, and it is as wide as every other cell.
    """
    cell = told.sample_interval
    return round(1 / cell.width) if cell.confidence == 1 else None


class GuessAndCheck:
    """A reusable holdout that tells the truth within a tolerance fixed beforehand, as long as it can.

    Guarantee: with probability 1 - beta every score told is within the tolerance of the truth, at once, over any number of
    looks up to the plan's, for any number of processes and crashes. Needs: guesses that depend on these cases only through
    what was told before, and an order in which processes store that does not depend on labels. Fails: BudgetExceeded once a
    guess fails that no cell is fine enough to answer; from then on nothing is told. No privacy.

    Why it holds with several processes (T12): every look has a number of its own, i, the place of its charge. When it is
    drawn, n responses are stored, f of them failures told in g_1, ..., g_f cells; each response says in how many. Fix which
    responses are stored by then. The transcript is determined by which f of the n failed and in which cells, so with f
    failures there are C(n, f) prod g of them, counted with weights 1/prod g as the g_j follow from what was told before.
    Each determines submission and guess. With beta_i = beta c_i c_{f+1} / (C(n, f) prod g) the failures of look i sum to
    beta c_i over all transcripts, and to beta over all looks. What is not stored was told to nobody, and does not count.
    """

    def __init__(self, cases: Cases, facts: Facts, pipeline: Pipeline) -> None:
        self.cases, self.facts, self.pipeline = cases, facts, pipeline
        self._transcript = Transcript(pipeline.ledger)

    @property
    def tolerance(self) -> float:
        """Return how far what is told may be from the truth."""
        return self.facts.threshold or 1.0

    def look(self, asked: Question, guess: float, *, analyst: str | None = None) -> Score:
        """Answer one question whose score on the training cases is given."""
        pipeline = self.pipeline
        pipeline.check_open()
        name = name_of(asked, pipeline)
        part = f"score {name} {guess!r}"
        with pipeline.lock:
            pipeline.index.follow()
            if not pipeline.index.has(part):
                refuse_spent(pipeline, self.facts, part=part)
                if self._stopped():
                    raise used_up(_NO_MORE, "checks")
            release = self._release(asked, name, part, guess)
            found = once(pipeline, release, analyst=analyst, measure=lambda: [asked.total()])
            left = self.facts.looks - pipeline.index.draws
        if isinstance(found, Prediction):
            raise used_up(_NO_MORE, "checks")
        if not isinstance(found, Answer) or found.interval is None:
            message = "the ledger has another kind of response to this look"
            raise IntegrityError(message)
        return Score(
            value=found.value,
            interval=found.interval,
            sample_interval=found.sample_interval,
            certificate=found.certificate,
            repeated=found.repeated,
            looks_left=left,
            about=about(self.facts),
            metric=asked.name,
            looks=self.facts.looks,
            private=False,
        )

    @property
    def failures(self) -> int:
        """Return how many guesses failed so far."""
        with self.pipeline.lock:
            self._transcript.follow()
            return len(self._cells())

    def _stopped(self) -> bool:
        """Return whether a guess failed that no cell was fine enough to answer."""
        self._transcript.follow()
        return any(isinstance(look.told, Prediction) for look in self._transcript)

    def _cells(self) -> tuple[int, ...]:
        """Return in how many cells each failure was told, in the order of the responses."""
        told = (count_cells(look.told) for look in self._transcript if isinstance(look.told, Answer))
        return tuple(cells for cells in told if cells is not None)

    def _release(self, asked: Question, name: str, part: str, guess: float) -> Release:
        request: dict[str, object] = {"target": asked.name, "values": name, "guess": guess, "private": False}

        def draw(sums: Sequence[int]) -> list[int]:
            stopped, mine = self._stopped(), self._transcript.find_unanswered(request)
            if stopped or mine is None:  # where another process has answered it, that answer is the one that stays
                return [_STOPPED, 0]
            return list(
                checked(
                    guess,
                    total=int(sums[0]),
                    cases=self.cases.number,
                    whole=asked.whole,
                    tolerance=self.tolerance,
                    beta=self.facts.beta,
                    query=mine.place,
                    cells=self._cells(),
                    answered=len(self._transcript.looks),
                )
            )

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing
            bare = certificate.proving(_THEOREM, event=NonPrivate())
            if drawn[0] == _STOPPED:
                return [Prediction(_STOP, bare)]
            cell, cells = drawn
            if cell == _PASSED:
                ends = self._interval(guess)
                return [Answer(guess, ends, replace(ends, confidence=min(ends.confidence, _UNSURE)), bare)]
            rows = Interval(cell / cells, (cell + 1) / cells, 1.0, "sample")
            value = (2 * cell + 1) / (2 * cells)
            return [Answer(value, self._interval(value), rows, bare)]

        return Release("score", request, (part,), NoCost(), 1, 1, (), draw, respond)  # type: ignore[arg-type]  # integers

    def _interval(self, value: float) -> Interval:
        near = self.tolerance
        return Interval(max(0.0, value - near), min(1.0, value + near), 1 - self.facts.beta, "population")
