"""Full scores: every look is answered with Gaussian noise, and an interval that holds for all looks at once (T5, T6b)."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from holdtrue.bounds.transfer import position_interval
from holdtrue.codec import encode
from holdtrue.curator.pipeline import Job, Pipeline
from holdtrue.entropy import SYSTEM
from holdtrue.errors import BudgetExceeded, IntegrityError
from holdtrue.holdouts.cases import BITS, Cases
from holdtrue.holdouts.opening import Facts
from holdtrue.holdouts.questions import Question
from holdtrue.holdouts.records import FRESH, THESE, Score
from holdtrue.mechanisms import Gaussian
from holdtrue.planning.plans import Plan
from holdtrue.records import Answer, Certificate, Interval, Response
from holdtrue.verbs import Release, Standing, plan_single

__all__ = [
    "Scoring",
    "about",
    "ends_of",
    "look_job",
    "name_of",
    "once",
    "refuse_spent",
    "request_id_of",
    "turned",
    "used_up",
    "waits_for_answer",
]

_THEOREM = "transfer, by position (T6b)"


def about(facts: Facts) -> str:
    """Return in words what the intervals of a holdout are about."""
    return FRESH if facts.unseen else THESE


def name_of(asked: Question, pipeline: Pipeline) -> str:
    """Return a question's name under the ledger's key; one that cannot be told from others gets a random name."""
    if not asked.content:
        return SYSTEM.words(4).tobytes().hex()
    return asked.keyed(bytes.fromhex(pipeline.ledger.terms.key))


def request_id_of(part: str) -> str:
    """Return the id under which a look is charged: that of what it asks, whoever asks it."""
    return hashlib.sha256(part.encode()).hexdigest()


def waits_for_answer(pipeline: Pipeline, part: str) -> bool:
    """Return whether this very look was charged before and never answered: it is answered under that charge."""
    charged = pipeline.ledger.find(request_id=request_id_of(part))
    return charged is not None and charged.response is None


def refuse_spent(pipeline: Pipeline, facts: Facts, *, part: str | None = None) -> None:
    """Refuse a look beyond the plan; one that was charged and never answered, named by its part, is not beyond it."""
    if pipeline.index.draws >= facts.looks and not (part is not None and waits_for_answer(pipeline, part)):
        message = f"no look is left of {facts.looks:,}; fresh cases, in a new holdout, have looks of their own"
        raise used_up(message, "looks")


def used_up(words: str, unit: str) -> BudgetExceeded:
    """Return the refusal of one more of what was planned to be few, in words of its own."""
    refusal = BudgetExceeded(requested=1, left=0, unit=unit)
    refusal.args = (words,)
    return refusal


def once(pipeline: Pipeline, release: Release, *, analyst: str | None, measure: Callable[[], Sequence[int]]) -> Response:
    """Return the response to a look: the stored one, or one that is paid for once, whichever processes ask for it.

    The request's id is that of what it asks, so a look that was charged and never answered, because its process was killed,
    is answered now under that charge. Of what several processes draw for one charge only what is stored first ever leaves.
    """
    (found,) = pipeline.run(look_job(release, key=request_id_of(release.parts[0]), analyst=analyst, measure=measure))
    return found


def look_job(release: Release, *, key: str, analyst: str | None, measure: Callable[[], Sequence[int]]) -> Job:
    """Return the request of one look, charged under an id that names what it asks."""
    request = encode({"verb": release.verb, "part": release.parts[0]})
    return Job(partial(plan_single, release, request=request, measure=measure, key=key), analyst=analyst)


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


@dataclass(frozen=True, slots=True, eq=False)
class Scoring:
    """How every look of a scoring holdout is answered.

    Guarantee: the scores of all looks together are private as the plan's cap says, and with probability 1 - beta every
    interval covers the truth it is about at once, however the submissions were chosen (T5, T6b). The same submission again
    is answered from the ledger and is no look.
    """

    cases: Cases
    facts: Facts
    plan: Plan
    pipeline: Pipeline
    mechanism: Gaussian

    @classmethod
    def under(cls, cases: Cases, facts: Facts, plan: Plan, pipeline: Pipeline) -> "Scoring":
        """Return the scoring of a holdout: noise of the plan's deviation on the integer sum."""
        unit = 1 << BITS
        pipeline.index.follow()  # whoever opens a ledger that is used up is told so at the first look
        mechanism = Gaussian(sigma=Fraction(plan.sigma) * cases.number * unit, sensitivity=unit)
        return cls(cases, facts, plan, pipeline, mechanism)

    def look(self, asked: Question, *, analyst: str | None = None, team: str | None = None) -> Score:
        """Answer one question: from the ledger, or charged, measured, drawn and stored. ``team``: whose it is, if told."""
        pipeline = self.pipeline
        pipeline.check_open()
        name = name_of(asked, pipeline)
        release = self._release(asked, name, {} if team is None else {"team": team})
        with pipeline.lock:
            # The ledger is read once, when the charge is made; what is known before can only be too little.
            (part,) = release.parts
            if not pipeline.index.has(part):
                refuse_spent(pipeline, self.facts, part=part)
            found = once(pipeline, release, analyst=analyst, measure=lambda: [asked.total()])
            left = self.facts.looks - pipeline.index.draws
        if not isinstance(found, Answer):
            message = "the ledger has another kind of response to this look"
            raise IntegrityError(message)
        return self._score(found, asked, left)

    def _score(self, answer: Answer, asked: Question, left: int) -> Score:
        """Say a stored answer in the metric that was asked for: accuracy and error are one answer."""
        return Score(
            value=1 - answer.value if asked.flipped else answer.value,
            interval=turned(asked, answer.interval),
            sample_interval=turned(asked, answer.sample_interval) or answer.sample_interval,
            certificate=answer.certificate,
            reason=answer.reason,
            repeated=answer.repeated,
            looks_left=left,
            about=THESE if asked.narrowed else about(self.facts),
            metric=asked.name,
            looks=self.facts.looks,
        )

    def _release(self, asked: Question, name: str, words: dict[str, object]) -> Release:
        # The ledger keeps accuracy also where error was asked for: they are one answer.
        target = "accuracy" if asked.flipped else asked.name

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing  # the plan counts on all looks
            return [self._answer(asked, drawn[0], certificate.proving(_THEOREM))]

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
        grid, sure = self.cases.grid, 1 - self.plan.beta
        near = self.plan.sample_alpha * grid
        ends = ends_of(asked, drawn, plan=self.plan, grid=grid)
        rows = Interval(asked.score(drawn - near), asked.score(drawn + near), sure, "sample")
        return Answer(asked.score(drawn), Interval(*ends, sure, "population"), rows, certificate)


def turned(asked: Question, interval: Interval | None) -> Interval | None:
    """Return an interval of accuracy for one of error, and back."""
    if interval is None or not asked.flipped:
        return interval
    return Interval(1 - interval.high, 1 - interval.low, interval.confidence, interval.target)
