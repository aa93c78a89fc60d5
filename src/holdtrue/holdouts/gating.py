"""The gate: yes or no to "better than the incumbent by the margin?", and nothing else.

Whoever hears only yes and no, with few yes, cannot go far wrong: the submissions that any strategy could ever reach number
less than k N, N = sum_{j <= B} C(k, j), so one bound for all of them holds for those that came. No privacy.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import NoReturn

import numpy as np

from holdtrue.bounds.transcripts import gate_cells, gate_gain, gate_interval
from holdtrue.curator.pipeline import Pipeline
from holdtrue.errors import IntegrityError, InvalidParameter, RefusedError
from holdtrue.events import NoCost, NonPrivate
from holdtrue.holdouts.cases import BITS, Cases
from holdtrue.holdouts.opening import Facts
from holdtrue.holdouts.questions import Question
from holdtrue.holdouts.records import Score, Verdict
from holdtrue.holdouts.scoring import about, look_job, name_of, once, refuse_spent, request_id_of, used_up, waits_for_answer
from holdtrue.holdouts.transcripts import Look, Transcript
from holdtrue.records import Answer, Certificate, Interval, Prediction, Response
from holdtrue.verbs import Release, Standing

__all__ = ["Gate"]

_THEOREM = "transcripts of a gate, counted (T9, T11)"
_YES, _NO = "yes", "no"
_RESULTS = "cases"
_FIRST = "the first incumbent"


@dataclass(frozen=True, slots=True)
class _State:
    """Where a gate stands by what was told, in the order of the responses: its incumbent's name, its yes by their charges.

    ``means``: for everyone who ever was the incumbent, between which means on these cases it is known to lie. A yes is
    about the incumbent that it was asked against (``request["against"]``), which need not be the last one told;
    ``beaten`` is whom the incumbent's yes was against.
    """

    incumbent: str | None = None
    beaten: str | None = None
    means: Mapping[str, tuple[Fraction, Fraction]] = field(default_factory=dict)
    yes: tuple[int, ...] = ()
    closed: tuple[int, ...] = ()

    def mean(self) -> tuple[Fraction, Fraction]:
        """Return between which means on these cases the incumbent is known to lie."""
        return self.means.get(self.incumbent or "", (Fraction(0), Fraction(1)))


class Gate:
    """A gate over cases that answers yes at most B times in k looks.

    Guarantee: with probability 1 - beta every interval it ever gives covers the truth it is about, at once, however the
    submissions were chosen; k, B and beta are fixed beforehand. It holds for any number of processes and crashes: a look is
    answered only while the charges before its own that had a yes, or no answer yet, are fewer than B. So before every
    response fewer than B yes were stored: of B others, the last one charged would have counted the rest, or this one, which
    was unanswered then. In the order of responses that is the tree which T9 counts, and what was submitted for a look was
    chosen before its response was stored. Needs: nothing else about these cases is told anyone, the order in which
    processes store does not depend on labels, and one name means one submission. It keeps no privacy, and says so. Fails:
    BudgetExceeded when looks or yes are used up, with nothing spent.
    """

    def __init__(self, cases: Cases, facts: Facts, pipeline: Pipeline) -> None:
        if cases.weights is not None:
            raise InvalidParameter("weights", "given", "left out for a gate: all cases count alike")
        self.cases, self.facts, self.pipeline = cases, facts, pipeline
        self._transcript = Transcript(pipeline.ledger)
        self._incumbent: tuple[str, Question] | None = None
        self._state = _State()
        self._read = 0
        self._ends = lru_cache(256)(self._bounds)

    def start(self, incumbent: Question | None, *, known_as: str | None = None) -> None:
        """Take the incumbent; its score is told once, in one of k/2 cells, when the gate is new.

        Predictions are recognised by themselves. Results are recognised by their public name, or by the ledger's own name
        of the incumbent as ``known_as``, never by what they hold.
        """
        with self.pipeline.lock:
            state = self._follow()
            if incumbent is None:
                return
            known = state.incumbent is not None and known_as == state.incumbent
            name = str(state.incumbent) if known else name_of(incumbent, self.pipeline)
            if self._transcript and state.incumbent != name:
                self._refuse_other()
            if not state.means:
                self._open_with(incumbent, name)
            self._incumbent = name, incumbent

    def _open_with(self, incumbent: Question, name: str) -> None:
        """Tell the first incumbent's score in one of k/2 cells; one request of a gate does, whoever opens it."""
        part = f"incumbent {name}"
        release = self._opening(incumbent, name, part)
        try:
            key = request_id_of(_FIRST)
            self.pipeline.run(look_job(release, key=key, analyst=None, measure=lambda: [incumbent.total()]))
        except RefusedError:
            if self._follow().incumbent in (None, name):
                raise
            self._refuse_other()

    def _refuse_other(self) -> NoReturn:
        if self.facts.metric == _RESULTS:
            raise InvalidParameter("incumbent_name", "another name", "that of the results that last had a yes: see leading")
        raise InvalidParameter("incumbent", "another submission", "left out, or the one that last had a yes")

    def look(self, asked: Question, *, margin: Fraction, analyst: str | None = None) -> Verdict:
        """Say whether a submission is better than the incumbent by more than the margin; if so it takes its place."""
        pipeline = self.pipeline
        pipeline.check_open()
        name = name_of(asked, pipeline)
        with pipeline.lock:
            state = self._follow()
            against = self._met(state)
            own = name == state.incumbent  # whoever asks again is told the yes that made it so
            met = state.beaten if own else state.incumbent
            part = f"gate {name} {margin} {met or 'nothing'}"
            found = pipeline.index.repeat(part)
            if found is None:
                if own:
                    raise InvalidParameter("y_pred", "the incumbent itself", "another submission than the incumbent")
                if not waits_for_answer(pipeline, part):
                    self._refuse()
                release = self._release(asked, name, part, margin, state.incumbent)
                found = self._carry(release, asked, against, analyst=analyst)
            if not isinstance(found, Prediction):
                message = "the ledger has another kind of response to this look"
                raise IntegrityError(message)
            if found.label == _YES and not found.repeated:
                self._incumbent = name, asked
            gain = None if met is None else self._gain(asked, None if own else against, margin, yes=found.label == _YES)
            return self._verdict(found, name, margin, gain)

    def certify(self, *, analyst: str | None = None) -> Score:
        """Close the gate for good, and tell the incumbent's score with its interval: the last thing that is told."""
        pipeline = self.pipeline
        pipeline.check_open()
        with pipeline.lock:
            state = self._follow()
            against = self._met(state)
            if against is None:
                message = "there is no incumbent to certify: no submission had a yes yet"
                raise RefusedError(message)
            part = f"certify {state.incumbent}"
            found = pipeline.index.repeat(part)
            if found is None:
                found = once(pipeline, self._closing(against, part), analyst=analyst, measure=lambda: [against.total()])
            if not isinstance(found, Answer):
                message = "the ledger has another kind of response to this request"
                raise IntegrityError(message)
            return self._score(found, against)

    @property
    def incumbent(self) -> Interval:
        """Return what is known of the incumbent's true score. Free."""
        with self.pipeline.lock:
            return self._interval(self._follow())

    @property
    def leading(self) -> str | None:
        """Return the name under which the ledger has the incumbent; None before the first."""
        with self.pipeline.lock:
            return self._follow().incumbent

    @property
    def looks_left(self) -> int:
        """Return how many looks are left; none once the yes are used up or the gate is closed."""
        with self.pipeline.lock:
            self._follow()
            used, closed = self._count_before(None)
            return self.facts.looks - self.pipeline.index.draws if not closed and used < self._most else 0

    @property
    def _most(self) -> int:
        return self.facts.yes or 1

    def _follow(self) -> _State:
        """Return the state after every response in the ledger."""
        self.pipeline.index.follow()
        self._transcript.follow()
        cells = gate_cells(self.facts.looks)
        for look in self._transcript.looks[self._read :]:
            self._read += 1
            self._state = _after(self._state, look, cells=cells)
        opened = next((look for look in self._transcript.unanswered.values() if look.verb == "incumbent"), None)
        if opened is not None and self._state.incumbent is None:  # charged, and its score was never told
            return replace(self._state, incumbent=str(opened.request["values"]))
        return self._state

    def _count_before(self, number: int | None) -> tuple[int, bool]:
        """Return how many yes the charges before an entry may have had, and whether one of them closed the gate.

        A charge without an answer counts as a yes: nobody knows what it will say.
        """
        last = math.inf if number is None else number
        waiting = [look for look in self._transcript.unanswered.values() if look.number < last]
        used = sum(entry < last for entry in self._state.yes) + sum(look.verb == "gate" for look in waiting)
        closed = any(entry < last for entry in self._state.closed) or any(look.verb == "certify" for look in waiting)
        return used, closed

    def _met(self, state: _State) -> Question | None:
        """Return the incumbent's question; refuse where the ledger knows another incumbent than this process has."""
        if state.incumbent is None:
            return None
        if self._incumbent is None or self._incumbent[0] != state.incumbent:
            message = "another submission is the incumbent; open the holdout with incumbent= the one that last had a yes"
            raise RefusedError(message)
        return self._incumbent[1]

    def _refuse(self) -> None:
        used, closed = self._count_before(None)
        if closed:
            message = "this gate was closed when its incumbent was certified; nothing more can be asked of these cases"
            raise RefusedError(message)
        if used >= self._most:
            message = f"no yes is left of {self._most:,}; certify() tells its incumbent's score"
            raise used_up(message, "yes")
        refuse_spent(self.pipeline, self.facts)

    def _carry(self, release: Release, asked: Question, against: Question | None, *, analyst: str | None) -> Response:
        def measure() -> Sequence[int]:
            # Look again once the charge has its place: others may have been charged before it, and order decides.
            self._follow()
            mine = self._transcript.find_unanswered(release.request)
            if mine is None:  # another process has answered it, and that answer is the one that stays
                return [0, 0]
            used, closed = self._count_before(mine.number)
            if closed or used >= self._most:
                message = "the gate was closed in the meantime"
                raise RefusedError(message)
            return [asked.total(), 0 if against is None else against.total()]

        return once(self.pipeline, release, analyst=analyst, measure=measure)

    def _release(self, asked: Question, name: str, part: str, margin: Fraction, met: str | None) -> Release:
        least = margin * self.cases.grid

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing
            return [Prediction(_YES if drawn[0] else _NO, _open(certificate))]

        return Release(
            verb="gate",
            # Against another incumbent it is another request, with an answer of its own.
            request={"target": asked.name, "values": name, "margin": str(margin), "against": met, "private": False},
            parts=(part,),
            event=NoCost(),
            cost=1,
            draws=1,
            queries=(),
            draw=lambda sums: [int(int(sums[0]) - int(sums[1]) > least)],
            respond=respond,
        )

    def _opening(self, asked: Question, name: str, part: str) -> Release:
        cells = gate_cells(self.facts.looks)

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing
            low, high = Fraction(drawn[0], cells), Fraction(drawn[0] + 1, cells)
            return [self._told(low, high, (low + high) / 2, certificate)]

        def draw(sums: Sequence[int]) -> list[int]:
            return [min(int(sums[0]) * cells // self.cases.grid, cells - 1)]

        request = {"target": asked.name, "values": name, "private": False}
        return Release("incumbent", request, (part,), NoCost(), 0, 0, (), draw, respond)  # type: ignore[arg-type]  # integers

    def _closing(self, asked: Question, part: str) -> Release:
        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing
            mean = Fraction(drawn[0], self.cases.grid)
            return [self._told(mean, mean, mean, certificate)]

        request = {"target": asked.name, "private": False}
        return Release("certify", request, (part,), NoCost(), 0, 0, (), lambda sums: [int(sums[0])], respond)

    def _told(self, low: Fraction, high: Fraction, value: Fraction, certificate: Certificate) -> Answer:
        sure = 1 - self.facts.beta
        rows = Interval(float(low), float(high), 1.0, "sample")
        return Answer(float(value), Interval(*self._ends(low, high), sure, "population"), rows, _open(certificate))

    def _bounds(self, low: Fraction, high: Fraction) -> tuple[float, float]:
        # A mean of values that were rounded to the grid is off by half of 2^-20 at most.
        half = Fraction(1, 2 << BITS)
        below, above = max(Fraction(0), low - half), min(Fraction(1), high + half)
        if below > above:  # margins beyond 1 cannot be met; nothing is claimed
            return 0.0, 1.0
        facts = self.facts
        return gate_interval(below, above, cases=self.cases.number, looks=facts.looks, yes=self._most, beta=facts.beta)

    def _interval(self, state: _State) -> Interval:
        sure = 1 - self.facts.beta
        if state.incumbent is None:
            return Interval(0.0, 1.0, sure, "population")
        return Interval(*self._ends(*state.mean()), sure, "population")

    def _verdict(self, found: Prediction, name: str, margin: Fraction, gain: Interval | None) -> Verdict:
        interval = self._interval(self._follow())
        return Verdict(
            yes=found.label == _YES,
            margin=float(margin),
            looks_left=self.looks_left,
            yes_left=max(0, self._most - self._count_before(None)[0]),
            interval=interval,
            gain=gain,
            about=about(self.facts),
            certificate=found.certificate,
            repeated=found.repeated,
            submission=name,
        )

    def _gain(self, asked: Question, against: Question | None, least: Fraction, *, yes: bool) -> Interval:
        """Return what a yes or no says of the true difference; ``against`` is None where it is not at hand any more."""
        facts, number, margin = self.facts, self.cases.number, float(least)
        # Where predictions differ is public, but drawn with the cases; where results differ depends on their labels.
        hidden = facts.unseen or facts.metric != "accuracy"
        differing = number if against is None or hidden else _differing(asked, against, number)
        near = gate_gain(differing, cases=number, looks=facts.looks, yes=self._most, beta=facts.beta)
        ends = (max(-1.0, margin - near), 1.0) if yes else (-1.0, min(1.0, margin + near))
        return Interval(min(ends), max(ends), 1 - facts.beta, "population")

    def _score(self, answer: Answer, asked: Question) -> Score:
        return Score(
            value=answer.value,
            interval=answer.interval,
            sample_interval=answer.sample_interval,
            certificate=answer.certificate,
            repeated=answer.repeated,
            looks_left=0,
            about=about(self.facts),
            metric=asked.name,
            looks=self.facts.looks,
            private=False,
        )


def _after(state: _State, look: Look, *, cells: int) -> _State:
    """Return where a gate stands after one more response."""
    match look.verb, look.told:
        case "incumbent", Answer(value=value):
            name, middle, half = str(look.request["values"]), Fraction(value), Fraction(1, 2 * cells)
            # The middle of a cell is a float: a hair on either side makes up for its rounding.
            hair = Fraction(1, 1 << 50)
            return replace(state, incumbent=name, means={name: (middle - half - hair, middle + half + hair)})
        case "gate", Prediction(label=label) if label == _YES:
            name, against = str(look.request["values"]), look.request["against"]
            low, _ = state.means.get(str(against), (Fraction(0), Fraction(1)))
            least = max(Fraction(0), low) + Fraction(str(look.request["margin"]))
            means = {**state.means, name: (least, max(Fraction(1), least))}
            return replace(state, incumbent=name, beaten=against, means=means, yes=(*state.yes, look.number))
        case "certify", _:
            return replace(state, closed=(*state.closed, look.number))
        case _:
            return state


def _open(certificate: Certificate) -> Certificate:
    """Return a certificate that claims no privacy."""
    return certificate.proving(_THEOREM, event=NonPrivate())


def _differing(asked: Question, against: Question, cases: int) -> int:
    """Return in how many cases two submissions differ: public, since submissions are."""
    if asked.submitted is None or against.submitted is None:
        return cases
    return int(np.count_nonzero(asked.submitted != against.submitted))
