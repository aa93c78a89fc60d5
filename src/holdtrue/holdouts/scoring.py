"""Full scores: every look is answered with Gaussian noise, and an interval that holds for all looks at once (S1, T6b)."""

from collections.abc import Sequence
from fractions import Fraction

from holdtrue.bounds.transfer import position_interval
from holdtrue.curator.pipeline import Pipeline
from holdtrue.errors import IntegrityError
from holdtrue.holdouts.cases import BITS, Cases
from holdtrue.holdouts.mode import Mode, PlannedLook, Submission
from holdtrue.holdouts.opening import Facts
from holdtrue.holdouts.records import Score
from holdtrue.holdouts.submissions import Question
from holdtrue.ledgers import Entry
from holdtrue.mechanisms import Gaussian
from holdtrue.planning.plans import Plan
from holdtrue.records import Answer, Certificate, Interval, Response
from holdtrue.verbs import Release, Standing

__all__ = ["Scoring", "ends_of"]

_SPLIT, _JOINT = "transfer, by position (T6b)", "transfer, one beta for noise and gap, by position (S1, T6b)"


def ends_of(asked: Question, total: int, *, plan: Plan, grid: int) -> tuple[float, float]:
    """Return the ends for the true score behind a noisy sum (T6b).

    The lower end comes from the sum, the upper one from what is missing to the ceiling, which is a query as well; so both
    are narrow where the sum can only be small, as for recall or a difference of similar submissions.
    """
    if plan.transfer is None:
        message = "the ledger's plan has no transfer theorem: it is not one of a scoring holdout"
        raise IntegrityError(message)
    frozen, most = plan.transfer, asked.ceiling / grid
    clipped = min(max(total, 0), asked.ceiling) / grid
    numbers = {"noise": frozen.noise, "epsilon": frozen.epsilon, "slack": frozen.slack}
    low, high = position_interval(clipped, **numbers)
    missing, _ = position_interval(most - clipped, **numbers)
    return asked.score(low * grid), asked.score(min(high, most - missing + 2.0**-48) * grid)


class Scoring(Mode[Score]):
    """How every look of a scoring holdout is answered.

    Guarantee: the scores of all looks together are private as the plan's cap says, and with probability 1 - beta every
    interval covers the truth it is about at once, however the submissions were chosen (S1, T6b). The same submission again
    is answered from the ledger and is no look.
    """

    def __init__(self, cases: Cases, facts: Facts, plan: Plan, pipeline: Pipeline) -> None:
        super().__init__(cases, facts, plan, pipeline)
        unit, self._grid = 1 << BITS, cases.grid
        self.mechanism = Gaussian(sigma=Fraction(plan.sigma) * cases.number * unit, sensitivity=unit)

    def plan_look(self, given: Submission, known: Entry | None) -> PlannedLook:
        """Return the release of a noisy sum; ``team``, whose it is, goes with it where it is told."""
        del known  # every look is answered alike
        asked = given.asked
        words: dict[str, object] = {} if given.team is None else {"team": given.team}
        release = self._release(asked, given.name, words)
        return PlannedLook(release, lambda: [asked.total()])

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
        near = self.plan.sample_alpha * grid
        ends = ends_of(asked, drawn, plan=self.plan, grid=grid)
        rows = Interval(asked.score(drawn - near), asked.score(drawn + near), sure, "sample")
        return Answer(asked.score(drawn), Interval(*ends, sure, "population"), rows, certificate)
