"""Full scores without noise, rounded: every look is answered with the middle of one of so many cells (T9). Not private."""

from collections.abc import Sequence

from holdtrue.bounds.transcripts import rounding_width
from holdtrue.errors import InvalidParameter
from holdtrue.events import NoCost, NonPrivate
from holdtrue.holdouts.mode import Mode, PlannedLook, Submission
from holdtrue.holdouts.plans import widen_for_rounding
from holdtrue.holdouts.records import Score
from holdtrue.holdouts.submissions import Question
from holdtrue.ledgers import Entry
from holdtrue.records import Answer, Certificate, Interval, Response
from holdtrue.verbs import Release, Standing

__all__ = ["Rounding"]


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
        release = self._release(asked, given.name)
        return PlannedLook(release, lambda: [asked.total()])

    def _near(self, look: int) -> float:
        """Return how far a look's score may be from the truth, by its number; the plan's alpha in ledgers before S5."""
        facts = self.facts
        if not facts.by_place:
            return self.plan.alpha
        width = rounding_width(facts.cells or 2, cases=self.cases.number, looks=facts.looks, beta=facts.beta, look=look)
        return min(self.plan.alpha, widen_for_rounding(width, self.cases.number))

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
