"""Runs of above threshold on a ledger: the private gate and the reusable holdout, Thresholdout (T10).

A run draws a noisy threshold once and compares with it until something is above; then one noisy number is released and the
next run begins. A run is paid for when its threshold is drawn, its release with it, so silent answers cost nothing more. A
threshold lives in this process only: whoever opens the holdout again, or has it open beside, begins a new run, and pays.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from holdtrue.curator.pipeline import Pipeline
from holdtrue.entropy import SYSTEM
from holdtrue.errors import IntegrityError, InvalidParameter, ReleaseError
from holdtrue.events import Composed, Event, NoCost
from holdtrue.exact import Number, probability, round_up, units_up
from holdtrue.holdouts.cases import BITS, Cases
from holdtrue.holdouts.opening import Facts
from holdtrue.holdouts.questions import Question
from holdtrue.holdouts.records import Score, Verdict
from holdtrue.holdouts.scoring import about, look_job, name_of, refuse_spent, request_id_of, used_up
from holdtrue.holdouts.transcripts import Transcript
from holdtrue.mechanisms import AboveThreshold, Laplace
from holdtrue.mechanisms.thresholding import Watch
from holdtrue.planning.plans import Plan
from holdtrue.records import Answer, Certificate, Interval, Prediction, Response
from holdtrue.verbs import Release, Standing

__all__ = ["PrivateGate", "Runs", "Thresholdout"]

_NO = "no"
_ENDS = {
    "thresholdout": "so many training scores overfitted, or the holdout was opened so often",
    "private gate": "so many yes were said, or the gate was opened so often",
    "private ladder": "the lead changed so often, or the leaderboard was opened so often",
}
_ROUNDING = 2.0**-48
_THEOREM = "above threshold and transfer, by position (T10, T6b)"


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """A run under way: its id, which every charge of it names, and the noisy threshold that it was paid for with."""

    id: str
    watch: Watch


def _request_id_in_run(part: str, run: str) -> str:
    """Return the id under which a look is charged: that of what it asks and of the run that it is asked in."""
    return request_id_of(f"{part} in run {run}")


class Runs:
    """Above threshold, run after run, each run one event of 2 e = 2/(s cases) on a pure ledger.

    Guarantee: B runs and their releases are 2 B e-DP, however many looks were silent (T10). A run belongs to the object
    that drew its threshold: the charge that opens it pays for the threshold and the release, and every later look in it is
    charged 0 under a request id that holds the run's own random id. So no other process, and not this one after a crash,
    can answer a look that was charged 0 with a threshold of its own: its look is another request and opens a run that it
    pays for. A look that was charged and never answered stays so. Whatever fails once a threshold or a comparison was
    drawn ends the run. Fails: BudgetExceeded when all runs are used, before anything is measured.
    """

    def __init__(self, cases: Cases, facts: Facts, plan: Plan, pipeline: Pipeline) -> None:
        self.cases, self.facts, self.plan, self.pipeline = cases, facts, plan, pipeline
        self.transcript = Transcript(pipeline.ledger)
        each, unit = 1 / (Fraction(facts.scale or 1) * cases.number), 1 << BITS
        self._above = AboveThreshold(epsilon=each, sensitivity=unit)
        self._noise = Laplace(epsilon=each, sensitivity=unit)
        self._cost = 2 * units_up(each)
        self._most = plan.cap_units // self._cost
        self._run: _Run | None = None

    @property
    def left(self) -> int:
        """Return how many runs can still be begun, the one under way included."""
        return self.pipeline.ledger.left // self._cost + int(self._run is not None)

    def carry(  # noqa: PLR0913 - the parts of one look
        self,
        asked: Question,
        *,
        verb: str,
        part: str,
        request: dict[str, object],
        excess: Callable[[int], int],
        respond: Callable[[int | None, Certificate], Response],
        analyst: str | None,
    ) -> Response:
        """Make one look: is ``excess`` of the sum above the run's threshold? If so the noisy sum is told, else None is.

        Needs: the pipeline's lock, from the state that ``excess`` and ``respond`` were made with to the return.
        """
        pipeline = self.pipeline
        found = pipeline.index.repeat(part)
        if found is not None:
            return found
        refuse_spent(pipeline, self.facts)
        run = self._run
        if run is None and self._cost > pipeline.ledger.left:
            message = f"no run of above threshold is left of {self._most:,}: {_ENDS[self.facts.mode]}"
            raise used_up(message, "runs")
        name = SYSTEM.words(2).tobytes().hex() if run is None else run.id
        drawn_in: list[_Run] = []
        responses: list[Response] = []

        def draw(sums: Sequence[int]) -> list[int]:
            self._run = None  # until the response is stored: a failure from here on ends the run
            mine = _Run(name, self._above.watch()) if run is None else run
            drawn_in.append(mine)
            if mine.watch.above(excess(int(sums[0]))):
                return [1, self._noise.release(int(sums[0]))]
            return [0, 0]

        def answered(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing
            responses.append(respond(drawn[1] if drawn[0] else None, certificate.proving(_THEOREM)))
            return responses

        event: Event = NoCost() if run is not None else Composed((self._above.event, self._noise.event))
        cost = 0 if run is not None else self._cost
        release = Release(verb, request | {"run": name}, (part,), event, cost, 1, (), draw, answered)  # type: ignore[arg-type]  # integers
        key = _request_id_in_run(part, name)
        pipeline.run(look_job(release, key=key, analyst=analyst, measure=lambda: [asked.total()]))
        return self._keep_run(part, drawn_in, responses)

    def _keep_run(self, part: str, drawn_in: list[_Run], responses: list[Response]) -> Response:
        """Return what the ledger has for a look that went through; its run goes on if that is what was drawn in it."""
        if not responses:  # another process answered the same submission in the meantime
            found = self.pipeline.index.repeat(part)
        else:
            self.transcript.follow()
            found = self.transcript.find_told(responses[0].certificate.entry)
            if found == responses[0] and not drawn_in[0].watch.over:
                self._run = drawn_in[0]
        if found is None:
            message = "the look was charged, but its response is not in the ledger"
            raise ReleaseError(message)
        return found

    def interval(self, middle: float, *, width: float) -> Interval:
        """Return the middle plus and minus a width, within [0, 1], with the plan's confidence."""
        low, high = max(0.0, middle - width), min(1.0, middle + width)
        return Interval(min(low, 1.0), max(high, 0.0), 1 - self.facts.beta, "population")


@dataclass(frozen=True, slots=True, eq=False)
class Thresholdout:
    """The reusable holdout: the training score, unless it differs from the holdout's by more than a noisy threshold.

    Guarantee: with probability 1 - beta every score told is within the plan's alpha of the truth, at once, if the training
    cases are independent of the holdout; only the holdout is protected (T10).
    """

    runs: Runs

    def look(self, asked: Question, guess: float, *, threshold: Number | None = None, analyst: str | None = None) -> Score:
        """Answer one question whose score on the training cases is given.

        A threshold of its own is as public as the question, and may be chosen like it; the interval is wider by it.
        """
        runs = self.runs
        pipeline, facts = runs.pipeline, runs.facts
        pipeline.check_open()
        name = name_of(asked, pipeline)
        planned = facts.threshold or 0.0
        level = planned if threshold is None else round_up(probability("threshold", threshold))
        near = Fraction(level) * asked.divisor
        width = runs.plan.alpha - planned + level + _ROUNDING
        expected = round(guess * asked.divisor)

        def respond(total: int | None, certificate: Certificate) -> Response:
            value = guess if total is None else asked.score(total)
            rows = Interval(value, value, 1 - facts.beta, "sample")
            return Answer(value, runs.interval(value, width=width), rows, certificate)

        with pipeline.lock:
            pipeline.index.follow()
            found = runs.carry(
                asked,
                verb="score",
                part=f"score {name} {guess!r} {level!r}",
                request={"target": asked.name, "values": name, "guess": guess, "threshold": level},
                excess=lambda total: abs(total - expected) - int(near),
                respond=respond,
                analyst=analyst,
            )
            left = facts.looks - pipeline.index.draws
        if not isinstance(found, Answer) or found.interval is None:
            message = "the ledger has another kind of response to this look"
            raise IntegrityError(message)
        return Score(
            value=found.value,
            interval=found.interval,
            sample_interval=found.interval,
            certificate=found.certificate,
            repeated=found.repeated,
            looks_left=left if runs.left else 0,
            about=about(facts),
            metric=asked.name,
            looks=facts.looks,
        )


class PrivateGate:
    """A gate that keeps secrets: it compares with the incumbent's *released* score, and a yes releases the next one.

    Guarantee: as :class:`Runs` for privacy; with probability 1 - beta every released score is within the plan's alpha of
    the truth, and every yes and no is right up to that alpha (T10).
    """

    def __init__(self, runs: Runs) -> None:
        self.runs = runs

    def start(self, incumbent: Question | None) -> None:
        """Refuse an incumbent's predictions: this gate compares with released scores only."""
        if incumbent is not None:
            raise InvalidParameter("incumbent", "given", "left out for a private gate: put it through the gate first")

    def look(self, asked: Question, *, margin: Fraction, analyst: str | None = None) -> Verdict:
        """Say whether a submission is better than the incumbent's released score by more than the margin."""
        runs = self.runs
        pipeline = runs.pipeline
        pipeline.check_open()
        name = name_of(asked, pipeline)
        with pipeline.lock:
            pipeline.index.follow()
            bar = self._bar()
            least = (Fraction(bar or 0) + margin) * asked.divisor

            def respond(total: int | None, certificate: Certificate) -> Response:
                if total is None:
                    return Prediction(_NO, certificate)
                value = asked.score(total)
                interval = runs.interval(value, width=runs.plan.alpha)
                return Answer(value, interval, interval, certificate)

            found = runs.carry(
                asked,
                verb="gate",
                part=f"gate {name} {margin} {bar!r}",
                request={"target": asked.name, "values": name, "margin": str(margin), "against": bar},
                excess=lambda total: total - int(least),
                respond=respond,
                analyst=analyst,
            )
            return self._verdict(found, name, bar, float(margin))

    @property
    def incumbent(self) -> Interval:
        """Return what is known of the incumbent's true score. Free."""
        with self.runs.pipeline.lock:
            return self._incumbent(self._bar())

    @property
    def looks_left(self) -> int:
        """Return how many looks are left; none once the runs are used up."""
        runs = self.runs
        with runs.pipeline.lock:
            runs.pipeline.index.follow()
            return runs.facts.looks - runs.pipeline.index.draws if runs.left else 0

    def _incumbent(self, bar: float | None) -> Interval:
        if bar is None:
            return Interval(0.0, 1.0, 1 - self.runs.facts.beta, "population")
        return self.runs.interval(bar, width=self.runs.plan.alpha)

    def _bar(self) -> float | None:
        """Return the score that was released last, None before the first."""
        self.runs.transcript.follow()
        released = (look.told.value for look in reversed(self.runs.transcript.looks) if isinstance(look.told, Answer))
        return next(released, None)

    def _verdict(self, found: Response, name: str, bar: float | None, margin: float) -> Verdict:
        runs, yes = self.runs, isinstance(found, Answer)
        near = 2 * runs.plan.alpha
        ends = (max(-1.0, margin - near), 1.0) if yes else (-1.0, min(1.0, margin + near))
        return Verdict(
            yes=yes,
            margin=margin,
            looks_left=runs.facts.looks - runs.pipeline.index.draws if runs.left else 0,
            yes_left=runs.left,
            interval=self._incumbent(self._bar()),
            gain=None if bar is None else Interval(*ends, 1 - runs.facts.beta, "population"),
            about=about(runs.facts),
            certificate=found.certificate,
            private=True,
            repeated=found.repeated,
            submission=name,
        )
