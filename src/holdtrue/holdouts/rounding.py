"""Full scores without noise, rounded: every look is answered with the middle of one of so many cells (T9). Not private."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdtrue.curator.pipeline import Pipeline
from holdtrue.errors import IntegrityError, InvalidParameter
from holdtrue.events import NoCost, NonPrivate
from holdtrue.holdouts.cases import Cases
from holdtrue.holdouts.opening import Facts
from holdtrue.holdouts.questions import Question
from holdtrue.holdouts.records import Score
from holdtrue.holdouts.scoring import about, name_of, once, refuse_spent, turned
from holdtrue.planning.plans import Plan
from holdtrue.records import Answer, Certificate, Interval, Response
from holdtrue.verbs import Release, Standing

__all__ = ["Rounding"]

_THEOREM = "description length (T9)"


@dataclass(frozen=True, slots=True, eq=False)
class Rounding:
    """How every look is answered where scores are rounded: narrower than noise for few looks, and no privacy.

    Guarantee: with probability 1 - beta every score told is within the plan's alpha of the truth, at once, however the
    submissions were chosen. Needs: nothing of these cases is told anyone but the answers of the planned looks. Fails:
    BudgetExceeded when the looks are used up.
    """

    cases: Cases
    facts: Facts
    plan: Plan
    pipeline: Pipeline

    def look(self, asked: Question, *, analyst: str | None = None) -> Score:
        """Answer one question with the middle of the cell that its mean lies in."""
        if asked.difference or asked.divisor != self.cases.grid:
            raise InvalidParameter("metric", asked.name, "a mean over all cases: other questions need a private holdout")
        pipeline = self.pipeline
        pipeline.check_open()
        name = name_of(asked, pipeline)
        with pipeline.lock:
            part = f"score {name}"
            if not pipeline.index.has(part):
                refuse_spent(pipeline, self.facts, part=part)
            found = once(pipeline, self._release(asked, name), analyst=analyst, measure=lambda: [asked.total()])
            left = self.facts.looks - pipeline.index.draws
        if not isinstance(found, Answer):
            message = "the ledger has another kind of response to this look"
            raise IntegrityError(message)
        return Score(
            value=1 - found.value if asked.flipped else found.value,
            interval=turned(asked, found.interval),
            sample_interval=turned(asked, found.sample_interval) or found.sample_interval,
            certificate=found.certificate,
            repeated=found.repeated,
            looks_left=left,
            about=about(self.facts),
            metric=asked.name,
            looks=self.facts.looks,
            private=False,
        )

    def _release(self, asked: Question, name: str) -> Release:
        cells = self.facts.cells or 2

        def draw(sums: Sequence[int]) -> list[int]:
            return [min(int(sums[0]) * cells // asked.ceiling, cells - 1)]

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing
            bare = certificate.proving(_THEOREM, event=NonPrivate())
            value, sure = (2 * drawn[0] + 1) / (2 * cells), 1 - self.facts.beta
            rows = Interval(drawn[0] / cells, (drawn[0] + 1) / cells, 1.0, "sample")
            near = self.plan.alpha
            return [Answer(value, Interval(max(0.0, value - near), min(1.0, value + near), sure, "population"), rows, bare)]

        # The ledger keeps accuracy also where error was asked for: they are one answer.
        target = "accuracy" if asked.flipped else asked.name
        request: dict[str, object] = {"target": target, "values": name, "private": False}
        return Release("score", request, (f"score {name}",), NoCost(), 1, 1, (), draw, respond)  # type: ignore[arg-type]  # integers
