"""Scores of every look: by Gaussian noise (S1, T6b); rounded (T9); or the training score where it can be proved (T12)."""

import math
from collections.abc import Sequence
from fractions import Fraction

from msgspec.structs import replace

from holdtrue.bounds.transcripts import check_cells, check_passes, guess_and_check_level, rounding_width
from holdtrue.curator.pipeline import Pipeline
from holdtrue.errors import InsufficientSamples, IntegrityError, InvalidParameter
from holdtrue.events import NoCost, NonPrivate
from holdtrue.holdouts.cases import BITS, Cases
from holdtrue.holdouts.mode import Mode, Moment, PlannedLook, Submission, used_up
from holdtrue.holdouts.records import Score
from holdtrue.holdouts.submissions import Question
from holdtrue.holdouts.terms import Facts, widen_for_rounding
from holdtrue.ledgers import Entry
from holdtrue.mechanisms import Gaussian
from holdtrue.planning.plans import Plan
from holdtrue.records import Answer, Certificate, Interval, Prediction, Response
from holdtrue.verbs import Release, Standing

__all__ = ["GuessAndCheck", "Rounding", "Scoring", "check_guess", "count_cells", "ends_of"]

_SPLIT, _JOINT = "transfer, by position (T6b)", "transfer, one beta for noise and gap, by position (S1, T6b)"
_CHECKED = "guess and check (T12)"
_STOP = "stop"
_PASSED = -1
_STOPPED = -2
_UNSURE = math.nextafter(1.0, 0.0)
_NO_MORE = "too many training scores failed their checks: the holdout can prove nothing finer, and tells no more"


def ends_of(asked: Question, total: int, *, plan: Plan, grid: int) -> tuple[float, float]:
    """Return the ends for the true score behind a noisy sum (T6b).

    The lower end comes from the sum, the upper one from what is missing to the ceiling, which is a query as well; so both
    are narrow where the sum can only be small, as for recall or a difference of similar submissions.
    """
    if plan.transfer is None or plan.side != "both":
        message = "the ledger's plan has no transfer theorem for both ends: it is not one of a scoring holdout"
        raise IntegrityError(message)
    ceiling = asked.ceiling
    low, high = plan.interval_below(min(max(total, 0), ceiling) / grid, most=ceiling / grid)
    return asked.score(low * grid), asked.score(high * grid)


class Scoring(Mode[Score]):
    """How every look of a scoring holdout is answered.

    Guarantee: the scores of all looks together are private as the plan's cap says, and with probability 1 - beta every
    interval covers the truth it is about at once, however the submissions were chosen (S1, T6b). The same submission again
    is answered from the ledger and is no look.
    """

    def __init__(self, cases: Cases, facts: Facts, plan: Plan, pipeline: Pipeline) -> None:
        super().__init__(cases, facts, plan, pipeline)
        self._grid, self._near = cases.grid, plan.sample_alpha * cases.grid
        self.mechanism = Gaussian(sigma=Fraction(plan.sigma) * cases.grid, sensitivity=1 << BITS)

    def plan_look(self, given: Submission, known: Entry | None) -> PlannedLook:
        """Return the release of a noisy sum; ``team``, whose it is, goes with it where it is told."""
        asked = given.asked
        if asked.difference and known is None and not self.pipeline.index.has(f"score {given.name}"):
            self._refuse_vacuous(asked)
        words: dict[str, object] = {} if given.team is None else {"team": given.team}
        return PlannedLook(self._release(asked, given.name, words), asked)

    def _refuse_vacuous(self, asked: Question) -> None:
        """Refuse a comparison that could tell nothing: by public numbers its interval holds all that is possible."""
        most = asked.ceiling / asked.divisor
        low, _ = ends_of(asked, asked.ceiling, plan=self.plan, grid=self._grid)
        if low > -most:
            return
        where = "nowhere" if not asked.ceiling else f"in {most:.2%} of the cases"
        message = (
            f"this comparison could tell nothing and is not charged: the two can differ {where}, and the noise of a look is "
            "larger than that; compare by a gate (yes=), or open a holdout with more cases or fewer looks"
        )
        raise InsufficientSamples(message, required=None)

    def _release(self, asked: Question, name: str, words: dict[str, object]) -> Release:
        # The ledger keeps accuracy also where error was asked for: they are one answer.
        target = "accuracy" if asked.flipped else asked.name

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing  # the plan counts on all looks
            joint = self.plan.transfer is not None and self.plan.transfer.overshoot > 0
            return [self._answer(asked, drawn[0], certificate.with_theorem(_JOINT if joint else _SPLIT))]

        return Release(
            verb="score",
            request={"target": target, "values": name} | words,
            parts=(f"score {name}",),
            event=self.mechanism.event,
            cost=self.plan.cost,
            draws=1,
            queries=(),
            draw=lambda sums: [self.mechanism.release(value) for value in sums],
            respond=respond,
        )

    def _answer(self, asked: Question, drawn: int, certificate: Certificate) -> Answer:
        grid, sure = self._grid, 1 - self.plan.beta
        ends = ends_of(asked, drawn, plan=self.plan, grid=grid)
        rows = Interval(asked.score(drawn - self._near), asked.score(drawn + self._near), sure, "sample")
        return Answer(asked.score(drawn), Interval(*ends, sure, "population"), rows, certificate)


class Rounding(Mode[Score]):
    """How every look is answered where scores are rounded: narrower than noise for few looks, and no privacy.

    Guarantee: with probability 1 - beta every score told is within its look's width of the truth, which is at most the
    plan's alpha, at once, however the submissions were chosen (T9, S5). Needs: nothing of these cases is told anyone but the
    answers of the planned looks. Fails: BudgetExceeded when the looks are used up.
    """

    def plan_look(self, given: Submission, known: Entry | None) -> PlannedLook:
        """Return the release of the cell that a mean over all cases lies in."""
        del known  # every look is answered alike
        asked = given.asked
        if asked.difference or asked.divisor != self.cases.grid:
            raise InvalidParameter("metric", asked.name, "a mean over all cases: other questions need a private holdout")
        return PlannedLook(self._release(asked, given.name), asked)

    def _near(self, look: int) -> float:
        """Return how far a look's score may be from the truth, by its number; the plan's alpha in ledgers before S5."""
        facts = self.facts
        if not facts.by_place:
            return self.plan.alpha
        number = self.cases.units
        width = rounding_width(facts.cells or 2, cases=number, looks=facts.looks, beta=facts.beta, look=look)
        return min(self.plan.alpha, widen_for_rounding(width, number))

    def _release(self, asked: Question, name: str) -> Release:
        cells = self.facts.cells or 2

        def draw(sums: Sequence[int]) -> list[int]:
            return [min(int(sums[0]) * cells // asked.ceiling, cells - 1)]

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            bare = certificate.with_theorem(self.plan.theorem or "", event=NonPrivate())
            value, sure = (2 * drawn[0] + 1) / (2 * cells), 1 - self.facts.beta
            rows = Interval(drawn[0] / cells, (drawn[0] + 1) / cells, 1.0, "sample")
            near = self._near(standing.draws)
            return [Answer(value, Interval(max(0.0, value - near), min(1.0, value + near), sure, "population"), rows, bare)]

        # The ledger keeps accuracy also where error was asked for: they are one answer.
        target = "accuracy" if asked.flipped else asked.name
        request: dict[str, object] = {"target": target, "values": name, "private": False}
        return Release("score", request, (f"score {name}",), NoCost(), 1, 1, (), draw, respond)  # type: ignore[arg-type]  # integers


def check_guess(  # noqa: PLR0913 - the numbers of one check
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
    """Return the answer to query number ``query``, after failures with these numbers of cells.

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


class GuessAndCheck(Mode[Score]):
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

    @property
    def tolerance(self) -> float:
        """Return how far what is told may be from the truth."""
        return self.facts.threshold or 1.0

    def plan_look(self, given: Submission, known: Entry | None) -> PlannedLook:
        """Return the release of the guess, or of the cell that the holdout's mean lies in."""
        del known  # what was told before is read when it is drawn
        self.pipeline.index.follow()
        asked, part = given.asked, f"score {given.name} {given.guess!r}"
        return PlannedLook(self._release(given, part), asked)

    def refuse(self, given: Submission) -> None:
        """Refuse also once nothing more can be told."""
        super().refuse(given)
        if self._has_stopped():
            raise used_up(_NO_MORE, "checks")

    def answer(self, given: Submission, found: Response, moment: Moment) -> Score:
        """Return the score; BudgetExceeded where nothing could be told."""
        if isinstance(found, Prediction):
            raise used_up(_NO_MORE, "checks")
        return self.score(given, found, moment)

    @property
    def failures(self) -> int:
        """Return how many guesses failed so far."""
        with self.pipeline.lock:
            self.transcript.follow()
            return len(self._cells())

    def _has_stopped(self) -> bool:
        """Return whether a guess failed that no cell was fine enough to answer."""
        self.transcript.follow()
        return any(isinstance(look.told, Prediction) for look in self.transcript)

    def _cells(self) -> tuple[int, ...]:
        """Return in how many cells each failure was told, in the order of the responses."""
        told = (count_cells(look.told) for look in self.transcript if isinstance(look.told, Answer))
        return tuple(cells for cells in told if cells is not None)

    def _release(self, given: Submission, part: str) -> Release:
        asked, guess, request_id = given.asked, given.guess, given.request_id(part)
        request: dict[str, object] = {"target": asked.name, "values": given.name, "guess": guess, "private": False}

        def draw(sums: Sequence[int]) -> list[int]:
            stopped, mine = self._has_stopped(), self.transcript.find_unanswered(request_id)
            if stopped or mine is None:  # where another process has answered it, that answer is the one that stays
                return [_STOPPED, 0]
            return list(
                check_guess(
                    guess,
                    total=int(sums[0]),
                    cases=self.cases.number,
                    whole=asked.whole,
                    tolerance=self.tolerance,
                    beta=self.facts.beta,
                    query=mine.place,
                    cells=self._cells(),
                    answered=len(self.transcript.looks),
                )
            )

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing
            bare = certificate.with_theorem(_CHECKED, event=NonPrivate())
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
