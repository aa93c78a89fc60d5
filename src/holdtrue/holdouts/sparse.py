"""Runs of above threshold on a ledger: the private gate and the reusable holdout, Thresholdout (T10, V2.1).

A run draws a noisy threshold once and compares with it until something is above; then one noisy number is released and the
next run begins. A run is paid for when its threshold is drawn, its release with it, so silent answers cost nothing more. A
threshold lives in this process only: whoever opens the holdout again, or has it open beside, begins a new run, and pays.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from msgspec.structs import replace

from holdtrue.curator.pipeline import Pipeline
from holdtrue.entropy import SYSTEM
from holdtrue.errors import InvalidParameter
from holdtrue.events import Composed, Event, NoCost
from holdtrue.exact import units_up
from holdtrue.holdouts.cases import BITS, Cases
from holdtrue.holdouts.mode import Mode, Moment, PlannedLook, Submission, Told, request_id_of, used_up
from holdtrue.holdouts.records import Score, Verdict
from holdtrue.holdouts.submissions import Question
from holdtrue.holdouts.terms import ONE_SIDED, Facts
from holdtrue.ledgers import Entry, read_charge
from holdtrue.mechanisms import AboveThreshold, Laplace
from holdtrue.mechanisms.thresholding import Watch
from holdtrue.planning.plans import Plan
from holdtrue.records import Answer, Certificate, Interval, Prediction, Response
from holdtrue.verbs import Release, Standing

__all__ = ["LookInRun", "PrivateGate", "Run", "Runs", "Thresholdout", "await_answer", "name_run", "request_id_in_run"]

_NO = "no"
_ENDS = {
    "thresholdout": "that many training scores overfitted, or the holdout was opened that often",
    "private gate": "that many candidates were accepted, or the gate was opened that often",
    "private ladder": "the lead changed so often, or the leaderboard was opened so often",
}
_ROUNDING = 2.0**-48
_PATIENCE = 2.0  # seconds that a look waits for another process which is answering its request


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A run under way: its id, which every charge of it names, and the noisy threshold that it was paid for with."""

    id: str
    watch: Watch


def request_id_in_run(part: str, run: str) -> str:
    """Return the id of what a look asks, in the run that it is asked in."""
    return request_id_of(f"{part} in run {run}")


def name_run() -> str:
    """Return a name of its own for a new run."""
    return SYSTEM.words(2).tobytes().hex()


def await_answer(pipeline: Pipeline, known: Entry | None) -> None:
    """Wait for another process that is answering a request; ReleaseError if its answer does not come."""
    pipeline.index.follow()
    if known is not None and known.response is None:
        pipeline.ledger.wait(known.number, seconds=_PATIENCE)


@dataclass(frozen=True, eq=False)
class LookInRun(PlannedLook):
    """A look in a run: the run that it was drawn in and its own response, once they are there."""

    drawn_in: list[Run] = field(default_factory=list)
    responses: list[Response] = field(default_factory=list)


class Runs(Mode[Told]):
    """Above threshold, run after run, each run one event of 2 e = 2/(s cases) on a pure ledger.

    Guarantee: B runs and their releases are 2 B e-DP, however many looks were silent (T10). A run belongs to the object
    that drew its threshold: the charge that opens it pays for the threshold and the release, and every later look in it is
    charged 0 under a request id that holds the run's own random id. So no other process, and not this one after a crash,
    can answer a look that was charged 0 with a threshold of its own: its look is another request and opens a run that it
    pays for. A look that was charged and never answered stays so, and one whose caller gave it a key must be made again
    under another: ReleaseError. Whatever fails once a threshold or a comparison was drawn ends the run. Fails:
    BudgetExceeded when all runs are used, before anything is measured.
    """

    def __init__(self, cases: Cases, facts: Facts, plan: Plan, pipeline: Pipeline) -> None:
        super().__init__(cases, facts, plan, pipeline)
        each, unit = 1 / (Fraction(facts.scale or 1) * cases.number), 1 << BITS
        self._above = AboveThreshold(epsilon=each, sensitivity=unit, one_sided=facts.noise == ONE_SIDED)
        self._noise = Laplace(epsilon=each, sensitivity=unit)
        self._cost = 2 * units_up(each)
        self._most = plan.cap_units // self._cost
        self._run: Run | None = None

    @property
    def left(self) -> int:
        """Return how many runs can still be begun, the one under way included."""
        return self.pipeline.ledger.left // self._cost + int(self._run is not None)

    def left_at(self, moment: Moment, *, under_way: bool) -> int:
        """Return how many runs were left at a moment; ``under_way``: whether one went on then."""
        if moment.entry is None:
            return self.left
        return (self.plan.cap_units - moment.spent) // self._cost + int(under_way)

    @property
    def looks_left(self) -> int:
        """Return how many looks are left; none once the runs are used up."""
        return super().looks_left if self.left else 0

    def refuse(self, given: Submission) -> None:
        """Refuse also where a new run is needed and none is left."""
        super().refuse(given)
        if self._run is None and self._cost > self.pipeline.ledger.left:
            message = f"no run of above threshold is left of {self._most:,}: {_ENDS[self.facts.mode]}"
            raise used_up(message, "runs")

    def plan_in_run(  # noqa: PLR0913 - the parts of one look
        self,
        given: Submission,
        *,
        verb: str,
        part: str,
        request: dict[str, object],
        excess: Callable[[int], int],
        respond: Callable[[int | None, Certificate], Response],
    ) -> PlannedLook:
        """Plan a look: is ``excess`` of the sum above the run's threshold? If so the noisy sum is told, else None is."""
        run = self._run
        name = name_run() if run is None else run.id
        drawn_in: list[Run] = []
        responses: list[Response] = []

        def draw(sums: Sequence[int]) -> list[int]:
            self._run = None  # until the response is stored: a failure from here on ends the run
            mine = Run(name, self._above.watch()) if run is None else run
            drawn_in.append(mine)
            if mine.watch.above(excess(int(sums[0]))):
                return [1, self._noise.release(int(sums[0]))]
            return [0, 0]

        def answered(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing
            responses.append(respond(drawn[1] if drawn[0] else None, certificate.with_theorem(self.plan.theorem or "")))
            return responses

        event: Event = NoCost() if run is not None else Composed((self._above.event, self._noise.event))
        cost = 0 if run is not None else self._cost
        release = Release(verb, request | {"run": name}, (part,), event, cost, 1, (), draw, answered)  # type: ignore[arg-type]  # integers
        request_id = request_id_in_run(part, name) if given.key is None else given.key
        return LookInRun(release, given.asked, request_id, drawn_in, responses)

    def settle(self, given: Submission, planned: PlannedLook, found: Response) -> None:
        """Go on with the run if what was drawn in it is what the ledger has for the look."""
        del given
        if isinstance(planned, LookInRun) and found in planned.responses and not planned.drawn_in[0].watch.over:
            self._run = planned.drawn_in[0]

    @property
    def near_released(self) -> float:
        """Return how far a released score may be from the truth: as silent answers in ledgers created before S4."""
        return self.facts.alpha_released or self.plan.alpha

    def interval(self, middle: float, *, width: float) -> Interval:
        """Return the middle plus and minus a width, within [0, 1], with the plan's confidence."""
        low, high = max(0.0, middle - width), min(1.0, middle + width)
        return Interval(min(low, 1.0), max(high, 0.0), 1 - self.facts.beta, "population")


class Thresholdout(Runs[Score]):
    """The reusable holdout: the training score, unless it differs from the holdout's by more than a noisy threshold.

    Guarantee: with probability 1 - beta every score told is within the plan's alpha of the truth, and every score of the
    holdout within the smaller width of released ones, at once, if the training cases are independent of the holdout; only
    the holdout is protected (V2.1, S4; S3 in ledgers created before noise was one-sided). A threshold of its own is as
    public as the question, and may be chosen like it; the interval is wider by it.
    """

    def plan_look(self, given: Submission, known: Entry | None) -> PlannedLook:
        """Return the release of the training score, or of the holdout's with noise."""
        await_answer(self.pipeline, known)
        asked, guess, planned = given.asked, given.guess, self.facts.threshold or 0.0
        level = planned if given.threshold is None else given.threshold
        near = Fraction(level) * asked.divisor
        silent = self.plan.alpha - planned + level + _ROUNDING
        loud = self.facts.alpha_released or silent
        expected = round(guess * asked.divisor)

        def respond(total: int | None, certificate: Certificate) -> Response:
            value = guess if total is None else asked.score(total)
            rows = Interval(value, value, 1 - self.facts.beta, "sample")
            return Answer(value, self.interval(value, width=silent if total is None else loud), rows, certificate)

        return self.plan_in_run(
            given,
            verb="score",
            part=f"score {given.name} {guess!r} {level!r}",
            request={"target": asked.name, "values": given.name, "guess": guess, "threshold": level},
            excess=lambda total: abs(total - expected) - int(near),
            respond=respond,
        )

    def answer(self, given: Submission, found: Response, moment: Moment) -> Score:
        """Return the score; the rows are known no better than the population."""
        score = self.score(given, found, moment)
        left = self.left_at(moment, under_way=score.repeated or score.value == given.guess)
        return replace(
            score, sample_interval=score.interval or score.sample_interval, looks_left=score.looks_left if left else 0
        )


class PrivateGate(Runs[Verdict]):
    """The private gate of ledgers created before its levels went by depth.

    It compares with the incumbent's *released* score, and a yes releases the next one.

    Guarantee: as :class:`Runs` for privacy; with probability 1 - beta, all of it at once, every released score is within its
    width of the truth, what a yes says of the gain is what the two released scores say, and after a no the submission is
    within the plan's alpha of the bar that it did not pass (S3, S4).
    """

    def start(self, incumbent: Question | None) -> None:
        """Refuse an incumbent's predictions: this gate compares with released scores only."""
        if incumbent is not None:
            raise InvalidParameter.saying("incumbent", "a private gate takes no incumbent; put it through the gate first")

    def plan_look(self, given: Submission, known: Entry | None) -> PlannedLook:
        """Return the release of a no, or of the score that is better than the incumbent's by more than the margin."""
        await_answer(self.pipeline, known)
        asked, margin, bar = given.asked, given.margin, self._bar_met(known)
        least = (Fraction(bar or 0) + margin) * asked.divisor

        def respond(total: int | None, certificate: Certificate) -> Response:
            if total is None:
                return Prediction(_NO, certificate)
            value = asked.score(total)
            interval = self.interval(value, width=self.near_released)
            return Answer(value, interval, interval, certificate)

        return self.plan_in_run(
            given,
            verb="gate",
            part=f"gate {given.name} {margin} {bar!r}",
            request={"target": asked.name, "values": given.name, "margin": str(margin), "against": bar},
            excess=lambda total: total - int(least),
            respond=respond,
        )

    def _bar_met(self, known: Entry | None) -> float | None:
        """Return the score that this request is compared with: the one it met when it was made, else the last one."""
        if known is None:
            self.transcript.follow()
            return self._bar(self.transcript.end_of(None))
        met = read_charge(known).request["against"]
        return None if met is None else float(str(met))

    def _bar(self, end: int) -> float | None:
        """Return the score that was released last up to an entry, None before the first."""
        looks = self.transcript.until(end)
        return next((look.told.value for look in reversed(looks) if isinstance(look.told, Answer)), None)

    @property
    def incumbent(self) -> Interval:
        """Return what is known of the incumbent's true score. Free."""
        with self.pipeline.lock:
            return self._known_of(self._bar_met(None))

    def _known_of(self, bar: float | None) -> Interval:
        if bar is None:
            return Interval(0.0, 1.0, 1 - self.facts.beta, "population")
        return self.interval(bar, width=self.near_released)

    def answer(self, given: Submission, found: Response, moment: Moment) -> Verdict:
        """Say yes or no, and what follows."""
        self.transcript.follow()
        yes, margin = isinstance(found, Answer), float(given.margin)
        look = self.transcript.find(found.certificate.entry)
        met = None if look is None else look.request["against"]
        left = self.left_at(moment, under_way=found.repeated or not yes)
        return Verdict(
            yes=yes,
            margin=margin,
            looks_left=max(0, self.facts.looks - moment.draws) if left else 0,
            yes_left=left,
            interval=self._known_of(self._bar(self.transcript.end_of(moment.entry))),
            gain=None if met is None else self._gain(found, float(str(met)), margin),
            about=self.about,
            certificate=found.certificate,
            private=True,
            repeated=found.repeated,
            submission=given.name,
        )

    def _gain(self, found: Response, met: float, margin: float) -> Interval:
        """Return what is known of the true difference to the incumbent whose released score a submission met.

        After a yes both scores are released. After a no the submission is at most the plan's alpha above bar and margin.
        Ledgers created before S4 say of a yes what they always did: no less than the margin, up to twice the alpha.
        """
        if not isinstance(found, Answer):
            ends = -1.0, margin + self.plan.alpha + self.near_released
        elif not self.facts.alpha_released:
            ends = margin - 2 * self.plan.alpha, 1.0
        else:
            middle, near = found.value - met, 2 * self.near_released
            ends = middle - near, middle + near
        return Interval(max(-1.0, min(ends)), min(1.0, max(ends)), 1 - self.facts.beta, "population")
