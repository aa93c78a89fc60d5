"""The private gate: a yes is a proof at a level by depth, and what is compared has noise (V1.4)."""

import math
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from typing import Any

from msgspec.structs import replace

from holdtrue.accounting.closed_forms import smallest
from holdtrue.bounds.gate_levels import VALUE_UNIT, bet_surplus, threshold_tail, wins_table
from holdtrue.curator.pipeline import Pipeline
from holdtrue.errors import HoldtrueError, RefusedError
from holdtrue.events import NoCost
from holdtrue.exact import UNIT, round_up
from holdtrue.holdouts import sparse
from holdtrue.holdouts.cases import BITS, Cases
from holdtrue.holdouts.depth_gates import DepthGate
from holdtrue.holdouts.gating import is_look
from holdtrue.holdouts.mode import PlannedLook, Submission, used_up
from holdtrue.holdouts.records import Score
from holdtrue.holdouts.submissions import Question
from holdtrue.holdouts.terms import Facts
from holdtrue.ledgers import Entry
from holdtrue.ledgers.sealed_store import SealedStore
from holdtrue.mechanisms import AboveThreshold, Gaussian
from holdtrue.planning.plans import Plan
from holdtrue.records import Certificate, Response
from holdtrue.verbs import Measured

__all__ = ["PrivateDepthGate"]

_SHIFT = VALUE_UNIT.bit_length() - 1 - BITS


class PrivateDepthGate(DepthGate):
    """A gate by depth that keeps secrets: it tells yes and no, and nothing else, ever.

    Guarantee: everything it ever says is private as the plan's cap says, and with probability 1 - beta every yes is true,
    as :class:`DepthGate` has it. Levels have four fifths of beta. By how many cases a yes is safe moves by at most one
    with a case; to it noise is added, and a yes needs more than ``extra``, which no noise of the gate exceeds but with the
    last fifth of beta: then a noisy yes is one without noise. Noise is drawn freshly and independently of the cases, so
    it joins the submitter's coins. By Gaussian comparisons every look is charged; by the sparse vector every run up to a
    yes, for which :class:`Runs` holds: a run is the object's that drew its threshold. Fails: as :class:`DepthGate`, and
    BudgetExceeded where no run is left.
    """

    def __init__(self, cases: Cases, facts: Facts, plan: Plan, pipeline: Pipeline, *, store: SealedStore | None) -> None:
        super().__init__(cases, facts, plan, pipeline, store=store)
        self._run: sparse.Run | None = None
        self._above: AboveThreshold | None = None
        self._extra = facts.extra or 0
        if facts.noise == "gaussian":
            # mu of one look is the root of what it costs, so that sigma is its inverse, rounded up.
            self._gaussian = Gaussian(sigma=_inverse_root(plan.cost))
        else:
            self._cost = plan.cap_units // self.most
            self._above = AboveThreshold(epsilon=self._cost * UNIT, threshold=1 + self._extra)

    def measure_look(self, given: Submission, against: Question | None, used: int) -> Measured:
        """Return by how many cases a yes without noise is safe at the level of a charge; 0 and less at a no."""
        wins, losses, sums = self._count_wins(given, against)
        return [self._find_surplus(given.margin, self.level_after(used), wins, losses, sums, paired=against is not None)]

    def count_before(self, number: int | None) -> tuple[int, bool]:
        """Return also that the gate was closed where as many looks as are planned were charged before an entry."""
        used, closed = super().count_before(number)
        if number is None:
            return used, closed
        looks = (*self.transcript.looks, *self.transcript.unanswered.values())
        return used, closed or sum(is_look(look) and look.number < number for look in looks) >= self.facts.looks

    def can_pass(self, margin: Fraction, level: float, differing: int, *, paired: bool) -> bool:
        """Return whether winning all cases that may differ would be a yes, if no noise took away from it."""
        best = self.best_sums()
        if self.are_whole:
            best[differing:] = 0
        return self._find_surplus(margin, level, differing, 0, best, paired=paired) > self._extra

    def _count_wins(self, given: Submission, against: Question | None) -> tuple[int, int, Any]:
        values = given.asked.values() - (0 if against is None else against.values())
        wins, losses = int((values > 0).sum()), int((values < 0).sum())
        if self.facts.pairs == "public" and against is not None:
            losses = self._count_differing(given.asked, against) - wins
        return wins, losses, self.cases.sum_clusters(values)

    def _find_surplus(  # noqa: PLR0913 - what was counted, and at which level it is compared
        self,
        margin: Fraction,
        level: float,
        wins: int,
        losses: int,
        sums: Any,  # noqa: ANN401 - an array
        *,
        paired: bool,
    ) -> int:
        number, bound = self.cases.number, round_up(margin)
        if self.are_whole and not paired:
            return wins - self._hits_needed(level, bound) + 1
        if paired and self.uses_pairs(margin):
            return wins - int(wins_table(number, level=level)[wins + losses]) + 1
        sizes = 1 if self.cases.sizes is None else self.cases.sizes
        bound += 0.0 if self.are_exact else 2.0**-BITS
        least = -1.0 if paired else 0.0
        return bet_surplus((sums << _SHIFT) // sizes, level=level, margin=bound, least=least, planned=self.planned_bet)

    def _hits_needed(self, level: float, threshold: float) -> int:
        number = self.cases.number
        found = smallest(
            lambda hits: threshold_tail(hits, cases=number, threshold=threshold) <= -level,
            int(number * threshold) + 1,
            least=0,
            most=number,
        )
        return number + 1 if found is None else found

    def plan_look(self, given: Submission, known: Entry | None) -> PlannedLook:
        """Return the release of yes or no."""
        if self._above is not None:
            sparse.await_answer(self.pipeline, known)
        return super().plan_look(given, known)

    def plan_new(self, given: Submission, part: str, met: str | None, against: Question | None) -> PlannedLook:
        """Return the release of a look at its price: by itself, or in a run."""
        if self._above is None:
            return self._plan_gaussian(given, part, met, against)
        return self._plan_in_run(self._above, given, part, met, against)

    def _plan_gaussian(self, given: Submission, part: str, met: str | None, against: Question | None) -> PlannedLook:
        def is_above(surplus: int) -> bool:
            return self._gaussian.release(surplus) > self._extra

        plain = self._release(given, part, met, against)
        draw = self._draw_by(given, is_above)
        release = replace(plain, event=self._gaussian.event, cost=self.plan.cost, draw=draw)
        return PlannedLook(release, self._measure(given, given.request_id(part), against))

    def _plan_in_run(
        self, above: AboveThreshold, given: Submission, part: str, met: str | None, against: Question | None
    ) -> PlannedLook:
        run, drawn_in, responses = self._run, list[sparse.Run](), list[Response]()
        name = sparse.name_run() if run is None else run.id
        request_id = sparse.request_id_in_run(part, name) if given.key is None else given.key

        def is_above(surplus: int) -> bool:
            self._run = None  # until the response is stored: a failure from here on ends the run
            drawn_in.append(sparse.Run(name, above.watch()) if run is None else run)
            return drawn_in[0].watch.above(surplus)

        def respond(*given: Any) -> list[Response]:  # noqa: ANN401 - as of a release
            responses.extend(plain.respond(*given))
            return responses

        plain = self._release(given, part, met, against)
        cost, event = (self._cost, above.event) if run is None else (0, NoCost())
        words = plain.request | {"run": name}
        draw = self._draw_by(given, is_above)
        release = replace(plain, request=words, event=event, cost=cost, draw=draw, respond=respond)
        return sparse.LookInRun(release, self._measure(given, request_id, against), request_id, drawn_in, responses)

    def _draw_by(self, given: Submission, is_above: Callable[[int], bool]) -> Callable[[Measured], list[int]]:
        def draw(measured: Measured) -> list[int]:
            if len(measured) == 0 or not is_above(int(measured[0])):
                return [0, 0]
            with suppress(HoldtrueError):  # an error with a yes alone would tell of a draw, and nobody pays for the next
                self._keep(given.name, given.asked)
            return [1, 0]

        return draw

    def refuse(self, given: Submission) -> None:
        """Refuse also where a new run is needed and none is left."""
        super().refuse(given)
        if not self._has_run:
            message = (
                f"no run of above threshold is left of {self.most:,}: that many had a yes, or the gate was opened so often"
            )
            raise used_up(message, "runs")

    @property
    def _has_run(self) -> bool:
        """Return whether a look can be made: in the run under way, or in one that can still be paid for."""
        return self._above is None or self._run is not None or self._cost <= self.pipeline.ledger.left

    @property
    def looks_left(self) -> int:
        """Return how many looks are left; none once the runs are used up."""
        return super().looks_left if self._has_run else 0

    def settle(self, given: Submission, planned: PlannedLook, found: Response) -> None:
        """Go on with the run if what was drawn in it is what the ledger has for the look."""
        super().settle(given, planned, found)
        if isinstance(planned, sparse.LookInRun) and found in planned.responses and not planned.drawn_in[0].watch.over:
            self._run = planned.drawn_in[0]

    def certify(
        self, what: str = "score", *, of: str | None = None, key: str | None = None, analyst: str | None = None
    ) -> Score:
        """Refuse: a private gate tells no number."""
        del what, of, key, analyst
        message = "a private gate tells yes and no only; open a gate that is not private for a certificate"
        raise RefusedError(message)

    def open_certificate(self, certificate: Certificate) -> Certificate:
        """Return a certificate with the gate's theorem, and with the event that was charged."""
        return certificate.with_theorem(f"{self.plan.theorem or ''}{self.condition}")


def _inverse_root(units: int) -> Fraction:
    """Return a rational of at least 1 / sqrt(units), in units of the ledger, a hair above."""
    return Fraction(10**30, math.isqrt(units * UNIT.numerator * 10**60 // UNIT.denominator))
