"""The gate: yes or no to "better than the incumbent by the margin?", and nothing else.

Whoever hears only yes and no, with few yes, cannot go far wrong: the submissions that any strategy could ever reach number
less than k N, N = sum_{j <= B} C(k, j), so one bound for all of them holds for those that came. No privacy.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from holdtrue.bounds.looks import gate_cells, gate_gain, gate_interval
from holdtrue.curator.houses import House
from holdtrue.errors import IntegrityError, InvalidParameter, RefusedError
from holdtrue.events import NoCost, NonPrivate
from holdtrue.holdouts.cases import BITS, Cases
from holdtrue.holdouts.opening import Facts
from holdtrue.holdouts.questions import Question
from holdtrue.holdouts.records import Score, Verdict
from holdtrue.holdouts.scoring import about, name_of, once, refuse_spent, used_up
from holdtrue.holdouts.transcripts import Transcript
from holdtrue.records import Answer, Certificate, Interval, Prediction, Response
from holdtrue.verbs import Release, Standing

__all__ = ["Gate"]

_THEOREM = "transcripts of a gate, counted (T9, T11)"
_YES, _NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class _State:
    """Where a gate stands: the incumbent by name, between which means on these cases it is known to lie, and yes used.

    A charge that was never answered counts as a yes: nobody knows what it would have said.
    """

    incumbent: str | None = None
    low: Fraction = Fraction(0)
    high: Fraction = Fraction(1)
    used: int = 0
    closed: bool = False


class Gate:
    """A gate over cases that answers yes at most B times in k looks.

    Guarantee: with probability 1 - beta every interval it ever gives covers the truth it is about, at once, however the
    submissions were chosen; k, B and beta are fixed beforehand. Needs: nothing else about these cases is told anyone.
    It keeps no privacy, and says so. Fails: BudgetExceeded when looks or yes are used up, with nothing spent.
    """

    def __init__(self, cases: Cases, facts: Facts, house: House) -> None:
        if cases.weights is not None:
            raise InvalidParameter("weights", "given", "left out for a gate: all cases count alike")
        self.cases, self.facts, self.house = cases, facts, house
        self._transcript = Transcript(house.ledger)
        self._incumbent: tuple[str, Question] | None = None
        self._settled = _State(), 0
        self._ends = lru_cache(256)(self._bounds)

    def start(self, incumbent: Question | None) -> None:
        """Take the incumbent; its score is told once, in one of k/2 cells, when the gate is new."""
        with self.house.lock:
            state = self._follow()
            if incumbent is None:
                return
            name = name_of(incumbent, self.house)
            if len(self._transcript) and state.incumbent != name:
                raise InvalidParameter("incumbent", "another submission", "left out, or the one that last had a yes")
            self._incumbent = name, incumbent
            if not len(self._transcript):
                self._carry(self._opening(incumbent, name), incumbent)

    def look(self, asked: Question, *, margin: Fraction, analyst: str | None = None) -> Verdict:
        """Say whether a submission is better than the incumbent by more than the margin; if so it takes its place."""
        house = self.house
        house.check_open()
        name = name_of(asked, house)
        with house.lock:
            state = self._follow()
            against = self._met(state)
            part = f"gate {name} {margin} {state.incumbent or 'nothing'}"
            found = house.known(part, repeated=True)
            if found is None:
                if name == state.incumbent:
                    raise InvalidParameter("y_pred", "the incumbent itself", "another submission than the incumbent")
                self._refuse(state)
                release = self._release(asked, name, part, margin, state.incumbent)
                found = self._carry(release, asked, against, analyst=analyst)
            if not isinstance(found, Prediction):
                message = "the ledger has another kind of response to this look"
                raise IntegrityError(message)
            if found.label == _YES and not found.repeated:
                self._incumbent = name, asked
            return self._verdict(found, self._follow(), asked, against, margin)

    def certify(self, *, analyst: str | None = None) -> Score:
        """Close the gate for good, and tell the incumbent's score with its interval: the last thing that is told."""
        house = self.house
        house.check_open()
        with house.lock:
            state = self._follow()
            against = self._met(state)
            if against is None:
                message = "there is no incumbent to certify: no submission had a yes yet"
                raise RefusedError(message)
            part = f"certify {state.incumbent}"
            found = house.known(part, repeated=True)
            if found is None:
                found = self._carry(self._closing(against, part), against, analyst=analyst)
            if not isinstance(found, Answer):
                message = "the ledger has another kind of response to this request"
                raise IntegrityError(message)
            return self._score(found, against)

    @property
    def incumbent(self) -> Interval:
        """Return what is known of the incumbent's true score. Free."""
        with self.house.lock:
            return self._interval(self._follow())

    @property
    def leading(self) -> str | None:
        """Return the name under which the ledger has the incumbent; None before the first."""
        with self.house.lock:
            return self._follow().incumbent

    @property
    def looks_left(self) -> int:
        """Return how many looks are left; none once the yes are used up or the gate is closed."""
        with self.house.lock:
            return self._left(self._follow())

    def _left(self, state: _State) -> int:
        open_still = not state.closed and state.used < self._most
        return self.facts.looks - self.house.register.draws if open_still else 0

    @property
    def _most(self) -> int:
        return self.facts.yes or 1

    def _follow(self, before: int | None = None) -> _State:
        """Return the state after everything in the ledger, or before an entry."""
        self.house.register.follow()
        self._transcript.follow()
        state, first = self._settled
        settled, cells = True, gate_cells(self.facts.looks)
        for place, look in enumerate(self._transcript.looks[first:], start=first + 1):
            if before is not None and look.number >= before:
                break
            state = _after(state, look.verb, look.request, look.told, cells=cells)
            settled = settled and look.told is not None
            if settled:  # what was told is told for good
                self._settled = state, place
        return state

    def _met(self, state: _State) -> Question | None:
        """Return the incumbent's question; refuse where the ledger knows another incumbent than this process has."""
        if state.incumbent is None:
            return None
        if self._incumbent is None or self._incumbent[0] != state.incumbent:
            message = "another submission is the incumbent; open the holdout with incumbent= the one that last had a yes"
            raise RefusedError(message)
        return self._incumbent[1]

    def _refuse(self, state: _State) -> None:
        if state.closed:
            message = "this gate was closed when its incumbent was certified; nothing more can be asked of these cases"
            raise RefusedError(message)
        if state.used >= self._most:
            message = f"no yes is left of {self._most:,}; certify() tells its incumbent's score"
            raise used_up(message, "yes")
        refuse_spent(self.house, self.facts)

    def _carry(
        self, release: Release, asked: Question, against: Question | None = None, *, analyst: str | None = None
    ) -> Response:
        def measure() -> Sequence[int]:
            if release.verb == "gate":
                self._refuse_late(release.request)
            return [asked.total(), 0 if against is None else against.total()]

        return once(self.house, release, analyst=analyst, measure=measure)

    def _refuse_late(self, request: dict[str, object]) -> None:
        """Look again once the charge has its place: others may have been charged before it, and order decides."""
        self._transcript.follow()
        mine = max(look.number for look in self._transcript if look.told is None and look.request == request)
        state = self._follow(before=mine)
        if state.closed or state.used >= self._most:
            message = "the gate was closed in the meantime"
            raise RefusedError(message)

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

    def _opening(self, asked: Question, name: str) -> Release:
        cells = gate_cells(self.facts.looks)

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing
            low, high = Fraction(drawn[0], cells), Fraction(drawn[0] + 1, cells)
            return [self._told(low, high, (low + high) / 2, certificate)]

        def draw(sums: Sequence[int]) -> list[int]:
            return [min(int(sums[0]) * cells // self.cases.grid, cells - 1)]

        request = {"target": asked.name, "values": name, "private": False}
        return Release("incumbent", request, (f"incumbent {name}",), NoCost(), 0, 0, (), draw, respond)  # type: ignore[arg-type]  # integers

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
        return Interval(*self._ends(state.low, state.high), sure, "population")

    def _verdict(
        self, found: Prediction, state: _State, asked: Question, against: Question | None, margin: Fraction
    ) -> Verdict:
        yes = found.label == _YES
        return Verdict(
            yes=yes,
            margin=float(margin),
            looks_left=self._left(state),
            yes_left=max(0, self._most - state.used),
            interval=self._interval(state),
            gain=None if against is None else self._gain(asked, against, float(margin), yes=yes),
            about=about(self.facts),
            certificate=found.certificate,
            repeated=found.repeated,
        )

    def _gain(self, asked: Question, against: Question, margin: float, *, yes: bool) -> Interval:
        facts, number = self.facts, self.cases.number
        # Where predictions differ is public, but drawn with the cases; where results differ depends on their labels.
        known = not facts.unseen and facts.metric == "accuracy"
        differing = _differing(asked, against, number) if known else number
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


def _after(state: _State, verb: str, request: dict[str, object], told: Response | None, *, cells: int) -> _State:
    """Return where a gate stands after one more charge."""
    match verb:
        case "incumbent":
            if not isinstance(told, Answer):
                return replace(state, incumbent=str(request["values"]))
            middle, half = Fraction(told.value), Fraction(1, 2 * cells)
            # The middle of a cell is a float: a hair on either side makes up for its rounding.
            hair = Fraction(1, 1 << 50)
            return replace(state, incumbent=str(request["values"]), low=middle - half - hair, high=middle + half + hair)
        case "certify":
            return replace(state, closed=True)
        case _ if told is None:
            return replace(state, used=state.used + 1)
        case _ if isinstance(told, Prediction) and told.label == _YES:
            low = max(Fraction(0), state.low) + Fraction(str(request["margin"]))
            return _State(str(request["values"]), low, max(Fraction(1), low), state.used + 1)
        case _:
            return state


def _open(certificate: Certificate) -> Certificate:
    """Return a certificate that claims no privacy."""
    return replace(certificate.proving(_THEOREM), event=NonPrivate())


def _differing(asked: Question, against: Question, cases: int) -> int:
    """Return in how many cases two submissions differ: public, since submissions are."""
    if asked.submitted is None or against.submitted is None:
        return cases
    return int(np.count_nonzero(asked.submitted != against.submitted))
