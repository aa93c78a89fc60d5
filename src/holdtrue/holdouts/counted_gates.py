"""The gate of ledgers that were created before levels went by depth: transcripts are counted (T9, S5, S6).

Whoever hears only yes and no, with few yes, cannot go far wrong: the submissions that any strategy could ever reach number
less than k N, N = sum_{j <= B} C(k, j), so one bound for all of them holds for those that came. No privacy.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from holdtrue.bounds.transcripts import gate_cells, gate_gain, gate_interval
from holdtrue.curator.pipeline import Pipeline
from holdtrue.errors import InvalidParameter
from holdtrue.events import NoCost
from holdtrue.holdouts.cases import BITS, Cases
from holdtrue.holdouts.gating import Gate, GateState, Known
from holdtrue.holdouts.mode import Look, PlannedLook, Submission
from holdtrue.holdouts.records import Verdict
from holdtrue.holdouts.submissions import Question
from holdtrue.holdouts.terms import Facts
from holdtrue.ledgers.sealed_store import SealedStore
from holdtrue.planning.plans import Plan
from holdtrue.records import Answer, Certificate, Interval, Response
from holdtrue.verbs import Measured, Release, Standing

__all__ = ["CountedGate"]


class CountedGate(Gate):
    """A gate that says whether a submission is better on these cases, with intervals for all that any strategy can reach.

    Guarantee: with probability 1 - beta every interval it ever gives covers the truth it is about, at once, however the
    submissions were chosen; k, B and beta are fixed beforehand. It holds for any number of processes and crashes: a look is
    answered only while the charges before its own that had a yes, or no answer yet, are fewer than B. So before every
    response fewer than B yes were stored: of B others, the last one charged would have counted the rest, or this one, which
    was unanswered then. In the order of responses that is the tree which T9 counts, and what was submitted for a look was
    chosen before its response was stored. Needs: the order in which processes store does not depend on labels.
    """

    def __init__(self, cases: Cases, facts: Facts, plan: Plan, pipeline: Pipeline, *, store: SealedStore | None) -> None:
        super().__init__(cases, facts, plan, pipeline, store=store)
        self._places: dict[int, tuple[int, int]] = {}
        self._ends = lru_cache(256)(self._bounds)

    def release_opening(self, asked: Question, name: str, part: str) -> PlannedLook:
        """Return the release of the first incumbent's score in one of k/2 cells."""
        cells = gate_cells(self.facts.looks)

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing
            low, high = Fraction(drawn[0], cells), Fraction(drawn[0] + 1, cells)
            return [self._make_answer((low, high, 0), (low + high) / 2, certificate)]

        def draw(sums: Measured) -> list[int]:
            return [min(int(sums[0]) * cells // self.cases.grid, cells - 1)]

        request = {"target": asked.name, "values": name, "private": False}
        return PlannedLook(Release("incumbent", request, (part,), NoCost(), 0, 0, (), draw, respond), asked)

    def measure_look(self, given: Submission, against: Question | None, used: int) -> Measured:
        """Return the two sums."""
        del used
        return [given.asked.total(), 0 if against is None else against.total()]

    def prove_bound(self, given: Submission, against: Question | None, measured: Measured) -> Fraction | None:
        """Return the margin if the difference on these cases is above it."""
        del against
        return given.margin if int(measured[0]) - int(measured[1]) > given.margin * self.cases.grid else None

    def plan_certificate(self, given: Submission, part: str, state: GateState, what: str) -> PlannedLook:
        """Return the release of the incumbent's score."""
        if what != "score":
            raise InvalidParameter("what", what, "'score' on a gate whose ledger counts transcripts")
        *_, look = state.means.get(given.name, (0, 0, 0))

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing
            mean = Fraction(drawn[0], self.cases.grid)
            return [self._make_answer((mean, mean, look), mean, certificate)]

        request = {"target": given.asked.name, "values": given.name, "private": False}
        release = Release("certify", request, (part,), NoCost(), 0, 0, (), lambda sums: [int(sums[0])], respond)
        return PlannedLook(release, given.asked)

    def _make_answer(self, known: Known, value: Fraction, certificate: Certificate) -> Answer:
        sure = 1 - self.facts.beta
        rows = Interval(float(known[0]), float(known[1]), 1.0, "sample")
        return Answer(
            float(value), Interval(*self._ends(*known), sure, "population"), rows, self.open_certificate(certificate)
        )

    def _bounds(self, low: Fraction, high: Fraction, look: int) -> tuple[float, float]:
        whole = bool(self.facts.by_place) and not self.facts.takes_results
        # A mean of values that were rounded to the grid is off by half of 2^-20 at most; of hits and misses it is exact.
        half = Fraction(0 if whole else 1, 2 << BITS)
        below, above = max(Fraction(0), low - half), min(Fraction(1), high + half)
        if below > above:  # margins beyond 1 cannot be met; nothing is claimed
            return 0.0, 1.0
        return gate_interval(below, above, cases=self.cases.number, whole=whole, **self._numbers(look))

    def _numbers(self, look: int) -> dict[str, Any]:
        """Return the numbers of a statement at the place of a look, by its charge; 0 is before the first look.

        In ledgers created before S5 all places are alike. Otherwise half of beta is for places and half for all alike, and
        what is said before the first look has the second half only.
        """
        facts, place = self.facts, self._places.get(look)
        numbers: dict[str, Any] = {"looks": facts.looks, "yes": self.most, "beta": facts.beta}
        if not facts.by_place:
            return numbers
        if place is None:
            return numbers | {"beta": facts.beta / 2}
        return numbers | {"look": place[0], "after": place[1]}

    def known_of(self, state: GateState) -> Interval:
        """Return what is known of the incumbent's true score."""
        sure = 1 - self.facts.beta
        if state.incumbent is None:
            return Interval(0.0, 1.0, sure, "population")
        return Interval(*self._ends(*state.mean()), sure, "population")

    def say_verdict(self, verdict: Verdict, look: Look, end: int) -> Verdict:
        """Return the verdict with what a yes or no says of the true difference."""
        del end
        if look.request["against"] is None:
            return verdict
        near = gate_gain(int(look.request["differing"]), cases=self.cases.number, **self._numbers(look.number))
        margin = verdict.margin
        ends = (max(-1.0, margin - near), 1.0) if verdict.yes else (-1.0, min(1.0, margin + near))
        return replace(verdict, gain=Interval(min(ends), max(ends), 1 - self.facts.beta, "population"))

    def after(self, state: GateState, look: Look) -> GateState:
        """Return where a gate stands after one more response."""
        if look.verb == "gate":
            self._places.setdefault(look.number, (len(self._places) + 1, len(state.yes)))
        match look.verb, look.told:
            case "incumbent", Answer(value=value):
                middle, half = Fraction(value), Fraction(1, 2 * gate_cells(self.facts.looks))
                # The middle of a cell is a float: a hair on either side makes up for its rounding.
                hair = Fraction(1, 1 << 50)
                return state.open_with(str(look.request["values"]), (middle - half - hair, middle + half + hair, 0))
            case _:
                return super().after(state, look)
