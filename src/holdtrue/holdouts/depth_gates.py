"""The gate by depth: a yes is a proof, at a level that falls with the number of yes before (V1)."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from msgspec import UNSET
from msgspec.structs import replace

from holdtrue.bounds.accuracy import binomial_end
from holdtrue.bounds.gate_levels import (
    AT_ONCE,
    BOUND_STEPS,
    betting_end,
    betting_tail,
    depth_level,
    pairs_tail,
    threshold_tail,
    wins_needed,
)
from holdtrue.curator.pipeline import Pipeline
from holdtrue.errors import InvalidParameter, RefusedError
from holdtrue.events import NoCost
from holdtrue.exact import round_up
from holdtrue.holdouts.cases import BITS, Cases
from holdtrue.holdouts.gating import Gate, GateState, had_yes, is_look, proved_bound
from holdtrue.holdouts.mode import Look, PlannedLook, Submission
from holdtrue.holdouts.records import Verdict
from holdtrue.holdouts.submissions import Question
from holdtrue.holdouts.terms import Facts
from holdtrue.ledgers.sealed_store import SealedStore
from holdtrue.planning.plans import Plan
from holdtrue.records import Answer, Certificate, Interval, Prediction, Response
from holdtrue.verbs import Measured, Release, Standing

__all__ = ["DepthGate"]

_TAKEN = "taken"
_SCALE = 1 << 40  # ends of intervals are whole multiples of its inverse, rounded outwards


class DepthGate(Gate):
    """A gate whose every yes is true, with probability 1 - beta for all of them at once (V1.1).

    Guarantee: with probability 1 - beta, however the submissions were chosen after earlier answers, every submission that
    had a yes is better in truth than the incumbent it met, by more than its margin, and the one certificate after closing
    holds, or the bounds of its yes do where these are told (``tells``). A look says yes if its p-value is at most the level
    of its charge: that of as many yes as the charges before it had, or may have had where they were unanswered then. So the
    level is a function of the ledger up to the charge, the same in every process, and never above that of the node in the
    tree. A no says nothing. Needs: as :class:`Gate`, and independent cases (or clusters of them).
    """

    def __init__(self, cases: Cases, facts: Facts, plan: Plan, pipeline: Pipeline, *, store: SealedStore | None) -> None:
        super().__init__(cases, facts, plan, pipeline, store=store)
        self.enter_gate()

    def count_before(self, number: int | None) -> tuple[int, bool]:
        """Return how many yes there may have been when an entry was charged, and whether the gate was closed then."""
        if number is None:
            return super().count_before(None)
        looks = [look for look in (*self.transcript.looks, *self.transcript.unanswered.values()) if look.number < number]
        used = sum(is_look(look) and (_was_open(look, number) or had_yes(look.told)) for look in looks)
        return used, any(look.verb == "certify" for look in looks)

    def release_opening(self, asked: Question, name: str, part: str) -> PlannedLook:
        """Return how the first incumbent is taken: nothing is measured, and nothing of the cases is told."""

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del drawn, standing
            return [Prediction(_TAKEN, self.open_certificate(certificate))]

        request = {"target": asked.name, "values": name, "private": self.facts.private}
        return PlannedLook(Release("incumbent", request, (part,), NoCost(), 0, 0, (), lambda _: [0], respond), list)

    def measure_look(self, given: Submission, against: Question | None, used: int) -> Measured:
        """Return the number of yes before, and wins and losses, hits, or the difference of each case or cluster."""
        values = given.asked.values()
        if against is not None:
            values -= against.values()
        if not self.are_whole:
            return np.concatenate([[used], self.cases.sum_clusters(values)])
        wins, losses = int(np.count_nonzero(values > 0)), int(np.count_nonzero(values < 0))
        if self.facts.pairs == "public" and against is not None:
            losses = self._count_differing(given.asked, against) - wins
        return [used, wins, losses]

    def is_vacuous(self, given: Submission, against: Question | None) -> bool:
        """Return whether a look's best outcome, a win in every case that may differ, would be no yes.

        It depends on the submission, on how many yes there were, and on numbers of the plan: on nothing of the cases.
        """
        used, closed = self.count_before(None)
        differing = self._count_differing(given.asked, against)
        open_ = not closed and used < self.most
        return open_ and not self.can_pass(given.margin, self.level_after(used), differing, paired=against is not None)

    def can_pass(self, margin: Fraction, level: float, differing: int, *, paired: bool) -> bool:
        """Return whether winning all cases that may differ would be a yes at a level."""
        numbers: Measured = self.best_sums() if not self.are_whole else [differing, 0]
        return self._log_p(margin, numbers, paired=paired) <= -level

    def best_sums(self) -> npt.NDArray[np.int64]:
        """Return the sums of clusters, or cases, that were all won."""
        sizes = np.ones(self.cases.number, dtype=np.int64) if self.cases.sizes is None else self.cases.sizes
        return sizes << BITS

    def prove_bound(self, given: Submission, against: Question | None, measured: Measured) -> Fraction | None:
        """Return the margin if its p-value is at most the level, or the largest step above it up to which all are."""
        level, proved = self.level_after(int(measured[0])), None
        for step in BOUND_STEPS if self.facts.tells == AT_ONCE else BOUND_STEPS[:1]:
            if self._log_p(given.margin + step, measured[1:], paired=against is not None) > -level:
                break
            proved = given.margin + step
        return proved

    def _log_p(self, bound: Fraction, numbers: Measured, *, paired: bool) -> float:
        """Return ln p of "better by at most the bound"; which p-value it is depends on what is public only (V1.2)."""
        least_gain = round_up(bound)
        if least_gain >= 1:
            return 0.0
        if not self.are_whole:
            return self._bet(np.asarray(numbers), least_gain, least=-1.0 if paired else 0.0)
        if not paired:
            return threshold_tail(int(numbers[0]), cases=self.cases.number, threshold=least_gain)
        wins, losses = (int(number) for number in numbers)
        if self.uses_pairs(bound):
            return pairs_tail(wins, wins + losses)
        often = [wins, losses, self.cases.number - wins - losses]
        return betting_tail([1.0, -1.0, 0.0], counts=often, margin=least_gain, planned=self.planned_bet)

    @property
    def planned_bet(self) -> float | None:
        """Return the bet that was planned for when the gate was opened."""
        return self.facts.bet or None

    def _bet(self, sums: npt.NDArray[np.int64], margin: float, *, least: float) -> float:
        """Return ln p for sums of each case or cluster; results that were rounded to the grid are off by a unit at most."""
        least_gain = margin + (0.0 if self.are_exact else 2.0**-BITS)
        return (
            0.0
            if least_gain >= 1
            else betting_tail(self._means(sums), margin=least_gain, least=least, planned=self.planned_bet)
        )

    def _means(self, sums: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        sizes = 1 if self.cases.sizes is None else self.cases.sizes
        found: npt.NDArray[np.float64] = sums / (sizes * float(1 << BITS))
        return found

    @property
    def are_exact(self) -> bool:
        """Return whether the value of a case is its score itself, and no rounded one."""
        return self.facts.metric != "cases"

    @property
    def are_whole(self) -> bool:
        """Return whether scores are 0 or 1, one per case, by what is public."""
        return self.are_exact and self.cases.sizes is None

    def uses_pairs(self, margin: Fraction) -> bool:
        """Return whether scores are compared by exact pairs at a margin."""
        return bool(self.facts.pairs) and not margin

    def level_after(self, used: int) -> float:
        """Return ln(1/l_j), after j yes."""
        facts, after = self.facts, min(used, self.most - 1)
        return depth_level(
            facts.looks, yes=self.most, beta=facts.beta_levels or facts.beta, after=after, tells=facts.tells or None
        )

    def plan_certificate(self, given: Submission, part: str, state: GateState, what: str) -> PlannedLook:
        """Return the release of the incumbent's score, or of its gain over the first one, at the level of its charge."""
        del state
        if what == "bound":
            return self._plan_bound(given, part)
        if what not in ("score", "gain"):
            raise InvalidParameter("what", what, "'score' or 'gain'")
        first = self.find_first() if what == "gain" else None
        if what == "gain" and (first is None or first[0] == given.name):
            message = (
                "there is no gain to certify: the gate was opened without an incumbent that is known here, or has it still"
            )
            raise RefusedError(message)

        def measure() -> Measured:
            self._follow()
            mine = self.transcript.find_unanswered(given.request_id(part))
            if mine is not None:  # others may have been charged before it
                self.refuse_second_certificate(what, mine.number)
            values = given.asked.values()
            if first is not None:
                values -= first[1].values()
            used = 0 if mine is None else self.count_before(mine.number)[0]
            return np.concatenate([[used], self.cases.sum_clusters(values)])

        def draw(measured: Measured) -> list[int]:
            ends = self._certify_ends(np.asarray(measured[1:]), self.level_after(int(measured[0])), gain=first is not None)
            return [round(ends[0] * _SCALE), math.floor(ends[1] * _SCALE), math.ceil(ends[2] * _SCALE)]

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing
            value, low, high = (number / _SCALE for number in drawn)
            ends = Interval(low, high, 1 - self.facts.beta, "population")
            return [Answer(value, ends, Interval(value, value, 1.0, "sample"), self.open_certificate(certificate))]

        request = {"target": given.asked.name, "values": given.name, "what": what, "private": False}
        return PlannedLook(Release("certify", request, (part,), NoCost(), 0, 0, (), draw, respond), measure)

    def _plan_bound(self, given: Submission, part: str) -> PlannedLook:
        """Return the release of the lower bound of a yes, at the level of its own charge and behind it only (V1.1)."""
        looks = (look for look in self.transcript.looks if look.verb == "gate" and had_yes(look.told))
        look = next((look for look in looks if look.request["values"] == given.name), None)
        if look is None:
            message = "the first incumbent had no yes, so there is no bound of it"
            raise RefusedError(message)
        margin, paired = Fraction(str(look.request["margin"])), look.request["against"] is not None
        against = self._find_opponent(look.request["against"], None)

        def measure() -> Measured:
            self._follow()
            values = given.asked.values() - (0 if against is None else against.values())
            return np.concatenate([[self.count_before(look.number)[0]], self.cases.sum_clusters(values)])

        def draw(measured: Measured) -> list[int]:
            level, sums = self.level_after(int(measured[0])), np.asarray(measured[1:])
            if self.are_whole and not paired:
                found = binomial_end(int(np.count_nonzero(sums)), rows=self.cases.number, level=level)
            else:
                off = 0.0 if self.are_exact else 2.0**-BITS
                least = -1.0 if paired else 0.0
                found = betting_end(self._means(sums), level=level, least=least, planned=self.planned_bet) - off
            return [math.floor(max(Fraction(found), margin) * _SCALE)]

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing
            low = drawn[0] / _SCALE
            ends = Interval(low, 1.0, 1 - self.facts.beta, "population")
            return [Answer(low, ends, Interval(low, 1.0, 1.0, "sample"), self.open_certificate(certificate))]

        request = {"target": given.asked.name, "values": given.name, "what": "bound", "private": False}
        return PlannedLook(Release("certify", request, (part,), NoCost(), 0, 0, (), draw, respond), measure)

    def _certify_ends(self, sums: npt.NDArray[np.int64], level: float, *, gain: bool) -> tuple[float, float, float]:
        """Return the mean and an interval for its truth, each side at half of the level's failure."""
        side, means = level + math.log(2), self._means(sums)
        value = float(means.mean())
        if self.are_whole and not gain:
            hits, rows = int(np.count_nonzero(sums)), self.cases.number
            return value, binomial_end(hits, rows=rows, level=side), 1 - binomial_end(rows - hits, rows=rows, level=side)
        least, off = (-1.0, 2.0**-BITS) if gain else (0.0, 2.0**-BITS / 2)
        off = 0.0 if self.are_exact else off
        low = max(least, betting_end(means, level=side, least=least, planned=self.planned_bet) - off)
        turned = betting_end(-means if gain else 1 - means, level=side, least=least) - off
        return value, low, min(1.0, (-turned if gain else 1 - turned))

    def known_of(self, state: GateState) -> Interval:
        """Return what is known of the incumbent's true score: the margins of the yes that led to it."""
        low = 0.0 if state.incumbent is None else min(1.0, float(state.mean()[0]))
        return Interval(low, 1.0, 1 - self.facts.beta, "population")

    def say_verdict(self, verdict: Verdict, look: Look, end: int) -> Verdict:
        """Return the verdict with its level, what it claims, and the wins it needs where these are public."""
        sure, against = 1 - self.facts.beta, look.request["against"]
        level = self.level_after(self.count_before(look.number)[0])
        gain = None
        if against is not None:
            gain = Interval(float(proved_bound(look)) if verdict.yes else -1.0, 1.0, sure, "population")
        needed = None
        if against is not None and self.facts.pairs == "public":
            cases = None if self.uses_pairs(Fraction(str(look.request["margin"]))) else self.cases.number
            needed = (self.facts.extra or 0) + wins_needed(
                int(look.request["differing"]), level=level, cases=cases, margin=verdict.margin, planned=self.planned_bet
            )
        claim = self._claim_yes(look, sure) if verdict.yes else self._claim_no(look, end)
        free = UNSET if is_look(look) else True
        needs = UNSET if needed is None else needed
        return replace(verdict, gain=gain, at_level=math.exp(-level), needs=needs, claims=claim, costs_nothing=free)

    def _claim_yes(self, look: Look, sure: float) -> str:
        margin = proved_bound(look)
        by = f" by more than {float(margin):g}" if margin else ""
        if look.request["against"] is None:
            what = f"a score above {float(margin):g}"
        elif margin < 0:
            what = f"not worse than the incumbent by {-float(margin):g} or more"
        else:
            what = f"better than the incumbent{by}"
        units = "" if self.cases.sizes is None else " on average over clusters"
        return f"{what}{units}, for {self.about}; with {sure:.0%} confidence every yes of this gate is true{self.condition}"

    def _claim_no(self, look: Look, end: int) -> str:
        against = look.request["against"]
        if not is_look(look):
            which = f"all {int(look.request['differing']):,} cases in which it may differ"
            return f"not even winning {which} would be a yes here, so no look was charged; a no is no claim that it is worse"
        met = {
            each.request["values"]
            for each in self.transcript.until(end)
            if each.verb == "gate" and each.request["against"] == against and not had_yes(each.told)
        }
        one = f"of {len(met):,} candidates none" if len(met) > 1 else "this candidate"
        whom = "the incumbent" if against is not None else "the threshold it was asked for"
        is_told = "is told apart from" if len(met) > 1 else "is not told apart from"
        return f"{one} {is_told} {whom}; a no is no claim that it is worse"


def _was_open(look: Look, number: int) -> bool:
    """Return whether a look had no answer yet when an entry was charged."""
    return look.told is None or look.told_at > number
