"""Guess and check: the training score if the holdout proves it, otherwise the holdout's, rounded (T12). Not private."""

import math
from collections.abc import Sequence
from dataclasses import replace

from holdtrue.bounds.baselines import guess_and_check_level
from holdtrue.bounds.looks import check_cells, check_passes
from holdtrue.curator.houses import House
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

__all__ = ["GuessAndCheck", "checked"]

_THEOREM = "guess and check (T12)"
_STOP = "stop"
_PASSED = -1
_STOPPED = -2


def checked(  # noqa: PLR0913 - the numbers of one check
    guess: float, *, total: int, cases: int, whole: bool, tolerance: float, beta: float, query: int, cells: tuple[int, ...]
) -> tuple[int, int]:
    """Return what query number ``query`` is answered with, after failures that had so many cells.

    (-1, 0): the guess passed. (i, L): it failed, and the holdout's mean is in cell i of L. (-2, 0): it failed, and no
    number of cells is fine enough: nothing more can be told.
    """
    level = guess_and_check_level(beta, query=query, cells=cells)
    if check_passes(guess, total=total, rows=cases, bits=BITS, tolerance=tolerance, level=level, whole=whole):
        return _PASSED, 0
    number = check_cells(cases, tolerance=tolerance, query=query, beta=beta, cells=cells)
    if number is None:
        return _STOPPED, 0
    return min(total * number // (cases << BITS), number - 1), number


class GuessAndCheck:
    """A reusable holdout that tells the truth within a tolerance fixed beforehand, as long as it can.

    Guarantee: with probability 1 - beta every score told is within the tolerance of the truth, at once, over any number of
    looks up to the plan's. Needs: guesses that depend on these cases only through what was told before. Fails:
    BudgetExceeded once a guess fails that no cell is fine enough to answer; from then on nothing is told. No privacy.
    """

    def __init__(self, cases: Cases, facts: Facts, house: House) -> None:
        self.cases, self.facts, self.house = cases, facts, house
        self._transcript = Transcript(house.ledger)

    @property
    def tolerance(self) -> float:
        """Return how far what is told may be from the truth."""
        return self.facts.threshold or 1.0

    def look(self, asked: Question, guess: float, *, analyst: str | None = None) -> Score:
        """Answer one question whose score on the training cases is given."""
        house = self.house
        house.check_open()
        name = name_of(asked, house)
        part = f"score {name} {guess!r}"
        with house.lock:
            house.register.follow()
            if house.known(part, repeated=True) is None:
                refuse_spent(house, self.facts)
                self._refuse_stopped()
            release = self._release(asked, name, part, guess)
            found = once(house, release, analyst=analyst, measure=lambda: [asked.total()])
            left = self.facts.looks - house.register.draws
            self._refuse_stopped()
        if not isinstance(found, Answer) or found.interval is None:
            message = "the ledger has another kind of response to this look"
            raise IntegrityError(message)
        return Score(
            value=found.value,
            interval=found.interval,
            sample_interval=found.interval,
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
        with self.house.lock:
            return len(self._past()[1])

    def _refuse_stopped(self) -> None:
        self._transcript.follow()
        if any(isinstance(look.told, Prediction) for look in self._transcript):
            message = "too many training scores failed their checks: the holdout can prove nothing finer, and tells no more"
            raise used_up(message, "checks")

    def _past(self, mine: dict[str, object] | None = None) -> tuple[int, tuple[int, ...]]:
        """Return the number of the next query and the cells of the failures before it, or before one's own charge.

        A charge that was never answered counts as a failure.
        """
        self._transcript.follow()
        number = 1
        cells: tuple[int, ...] = ()
        stop = math.inf
        if mine is not None:
            stop = max(look.number for look in self._transcript if look.told is None and look.request == mine)
        for look in self._transcript:
            if look.number >= stop:
                break
            passed = isinstance(look.told, Answer) and look.told.value == look.request["guess"]
            if not passed:
                found = self._cells(number, cells)
                cells = cells if found is None else (*cells, found)
            number += 1
        return number, cells

    def _cells(self, number: int, cells: tuple[int, ...]) -> int | None:
        facts = self.facts
        return check_cells(self.cases.number, tolerance=self.tolerance, query=number, beta=facts.beta, cells=cells)

    def _release(self, asked: Question, name: str, part: str, guess: float) -> Release:
        request: dict[str, object] = {"target": asked.name, "values": name, "guess": guess, "private": False}

        def draw(sums: Sequence[int]) -> list[int]:
            number, cells = self._past(request)
            return list(
                checked(
                    guess,
                    total=int(sums[0]),
                    cases=self.cases.number,
                    whole=asked.whole,
                    tolerance=self.tolerance,
                    beta=self.facts.beta,
                    query=number,
                    cells=cells,
                )
            )

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing
            bare = replace(certificate.proving(_THEOREM), event=NonPrivate())
            if drawn[0] == _STOPPED:
                return [Prediction(_STOP, bare)]
            value = guess if drawn[0] == _PASSED else (2 * drawn[0] + 1) / (2 * drawn[1])
            return [Answer(value, self._interval(value), self._interval(value), bare)]

        return Release("score", request, (part,), NoCost(), 1, 1, (), draw, respond)  # type: ignore[arg-type]  # integers

    def _interval(self, value: float) -> Interval:
        near = self.tolerance
        return Interval(max(0.0, value - near), min(1.0, value + near), 1 - self.facts.beta, "population")
