"""WATCH: is the share of rows above a threshold? Silence costs next to nothing until an alarm (V2.1, S3).

A run draws a noisy threshold once and compares one question after the other with it until one is above: the alarm. A run is
paid for when its threshold is drawn. The threshold lives in this process only: whoever opens the data again, or has it open
beside, begins a new run of the watch, and pays.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from holdtrue.bounds.sparse_vector import one_sided_boxes
from holdtrue.codec import digest_of, encode
from holdtrue.entropy import SYSTEM
from holdtrue.errors import InvalidParameter, RefusedError
from holdtrue.events import NoCost
from holdtrue.exact import UNIT, Number, count, positive, probability
from holdtrue.mechanisms import AboveThreshold
from holdtrue.mechanisms.thresholding import Watch
from holdtrue.queries.syntax_tree import Query
from holdtrue.records import Certificate, Interval, Response, WatchAnswer, WatchRun
from holdtrue.verbs import Answered, Curation, Job, Measured, Release, Standing, plan_single
from holdtrue.verbs.asking import NOT_INDEPENDENT, refuse_own_units
from holdtrue.verbs.selecting import epsilon_of_use

__all__ = ["QueryWatch"]

_MOST_ALARMS = 1000
_SILENT = "above threshold with one-sided noise, transferred to the population (V2.1, S1)"


@dataclass(slots=True, eq=False)
class _OwnRun:
    """A run that this process drew the threshold of: its number in the watch, and its random id in the ledger."""

    number: int
    id: str
    watch: Watch
    generation: object


class QueryWatch:
    """A watch over one threshold, known by its public terms: threshold, alarms, epsilon, name and whose it is.

    Guarantee: each run is epsilon-DP whatever the number of questions, and there are at most ``alarms`` runs. A run begins
    with a charge whose key is the watch and the run's number, so it is paid once; whose random id its response has owns it,
    and only that process compares with its threshold. Looks in it are charged 0, under a request id that holds the run's.
    With probability 1 - beta, all answers of this watch at once: silence says that the share is at most a width above the
    threshold, which does not depend on how many questions there were; an alarm that it is at most a wider one below.
    Any thread may ask. Fails: RefusedError once the runs are used up, before anything is measured.
    """

    def __init__(  # noqa: PLR0913 - the public terms of a watch
        self,
        curation: Curation,
        *,
        threshold: Number,
        alarms: int,
        epsilon: Number | None,
        name: str | None,
        analyst: str | None,
    ) -> None:
        plan = curation.plan
        self._curation, self._analyst = curation, analyst
        self._level = probability("threshold", threshold, zero=True, one=True)
        self.alarms = count("alarms", alarms)
        if self.alarms > _MOST_ALARMS:
            raise InvalidParameter("alarms", self.alarms, f"at most {_MOST_ALARMS:,}")
        given = None if epsilon is None else positive("epsilon", epsilon)
        self.epsilon = epsilon_of_use(plan, picks=self.alarms) if given is None else given
        self.threshold = float(self._level)
        least, unit = math.ceil(self._level * (curation.card.rows << plan.bits)), 1 << plan.bits
        self._above = AboveThreshold(epsilon=self.epsilon, threshold=least, sensitivity=unit, one_sided=True)
        self.terms: dict[str, object] = {"threshold": str(self._level), "alarms": self.alarms, "epsilon": str(self.epsilon)}
        self.terms |= {"name": name or "", "analyst": analyst or ""}
        self.id = digest_of(self.terms)
        self._run: _OwnRun | None = None

    @property
    def alarms_left(self) -> int:
        """Return how many alarms are left, that of the run under way included. Free."""
        with self._curation.lock_index() as index:
            return self._count_left(index)

    @property
    def run_price(self) -> int:
        """Return what one run costs, in units."""
        return self._curation.limit.cost(self._above.event)

    def ask(self, query: str, *, key: str | None = None) -> WatchAnswer:
        """Return whether the share of rows that a question counts is above the threshold, with noise.

        A question that this watch answered before is told again, free. After an alarm, and in a process that has no run of
        this watch, the answer begins a new run, which is paid for.
        """
        curation, asked = self._curation, self._curation.parse(query)
        refuse_own_units(asked, curation.card)
        part = f"watch {self.id} {asked.text}"
        request = encode({"verb": "watch", "query": asked.text} | self.terms)
        with curation.lock_index() as index:
            curation.refuse_used_key(key, request)
            run, run_cost = None, 0.0
            if not index.has(part):
                run_cost = float(self.run_price * UNIT) if self.is_idle else 0.0
                run = self._run = self._begin_run(index) if self.is_idle else self._run
            going_on = self._run
            release = self._compare(asked, part, run, alarms_left=self._count_left(index), run_cost=run_cost)
            known = None if run is None else digest_of({"part": part, "run": run.id})
            self._run = None  # until the answer is stored: a failure from here on ends the run
            (found,) = curation.run(Job(partial(plan_single, release, request=request, key=known), key, self._analyst))
            self._run = None if going_on is None or going_on.watch.over else going_on
        return found  # type: ignore[return-value]  # the response to a look

    @property
    def is_idle(self) -> bool:
        """Return whether no run is under way here; one that a forked process took along is its parent's."""
        return self._run is None or self._run.generation is not SYSTEM.generation

    def _count_left(self, index: Answered) -> int:
        begun = next(number for number in range(self.alarms + 1) if not index.has(self._name_run(number + 1)))
        return self.alarms - begun + int(not self.is_idle)

    def _name_run(self, number: int) -> str:
        return f"watch {self.id} run {number}"

    def _begin_run(self, index: Answered) -> _OwnRun:
        """Pay for a run and draw its threshold; where another process took a number first, take the next one."""
        while True:
            number = self.alarms - self._count_left(index) + 1
            if number > self.alarms:
                message = f"no alarms are left of {self.alarms:,}, or it was opened that often; open one with another name="
                raise RefusedError(message)
            mine = SYSTEM.words(4).tobytes().hex()
            opening = partial(plan_single, self._open(number, mine), key=self._name_run(number))
            (found,) = self._curation.run(Job(opening, None, self._analyst))
            if isinstance(found, WatchRun) and found.id == mine:
                return _OwnRun(number, mine, self._above.watch(), SYSTEM.generation)

    def _open(self, number: int, mine: str) -> Release:
        """Return the release of a run's id, which nobody else has: nothing about the rows."""
        event, part = self._above.event, self._name_run(number)

        def respond(_: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing
            return [WatchRun(mine, certificate)]

        return Release(
            "watch",
            self.terms | {"run": number, "target": f"run {number} of a watch at {self.threshold:g}"},
            (part,),
            event,
            self.run_price,
            0,
            (),
            lambda _: [],
            respond,
        )

    def _compare(self, query: Query, part: str, run: _OwnRun | None, *, alarms_left: int, run_cost: float) -> Release:
        """Return the release of one comparison in a run, which costs nothing more."""

        def draw(sums: Measured) -> Sequence[int]:
            if run is None:
                message = "no run of this watch is under way"
                raise RefusedError(message)
            return [int(run.watch.above(int(sums[0])))]

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            number = 0 if run is None else run.number
            place = number, alarms_left - drawn[0], run_cost
            return [self._say(query, drawn[0], certificate, standing, place=place)]

        request = self.terms | {"queries": [query.text], "run": "" if run is None else run.id}
        return Release("watch", request, (part,), NoCost(), 0, 0, (query,), draw, respond)

    def _say(
        self, query: Query, above: int, certificate: Certificate, standing: Standing, *, place: tuple[int, int, float]
    ) -> WatchAnswer:
        """Return what a comparison says; ``place`` is its run, how many alarms are left after it, and what it paid."""
        plan, look = self._curation.plan, standing.charges + 1
        rows = self._interval(above, self._boxes(query, look, plan.beta), plan.beta, "sample")
        population = None
        if plan.iid:
            gap, share = plan.joint_gap(plan.beta, spent=standing.spent)
            booked = epsilon_of_use(plan) if plan.use_units > 0 else Fraction(plan.epsilon or 1) / plan.uses
            widths = tuple(width + gap for width in self._boxes(query, look, share, booked))
            population = self._interval(above, widths, plan.beta, "population")
            certificate = certificate.with_theorem(_SILENT)
        reason = None if plan.iid else NOT_INDEPENDENT
        return WatchAnswer(bool(above), self.threshold, population, rows, *place, certificate, reason=reason)

    def _boxes(self, query: Query, look: int, beta: float, booked: Fraction | None = None) -> tuple[float, ...]:
        """Return the widths of silence and of an alarm, in shares; numbers are counted on a grid, booleans exactly."""
        grain = 0.0 if query.boolean else 2.0**-self._curation.plan.bits
        boxes = one_sided_boxes(self.alarms, look=look, epsilon=self.epsilon, beta=beta, booked=booked)
        return tuple(box / self._curation.card.rows * (1 + 2.0**-50) + grain for box in boxes)

    def _interval(self, above: int, widths: Sequence[float], beta: float, target: str) -> Interval:
        if above:
            return Interval(min(1.0, max(0.0, self.threshold - widths[1])), 1.0, 1 - beta, target)  # type: ignore[arg-type]
        return Interval(0.0, max(0.0, min(1.0, self.threshold + widths[0])), 1 - beta, target)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"<QueryWatch at {self.threshold:g}, {self.alarms} alarms>"
