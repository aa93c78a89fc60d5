"""The gate: yes or no to "better than the incumbent by the margin?", and nothing else.

Whoever hears only yes and no, with few yes, cannot go far wrong: the submissions that any strategy could ever reach number
less than k N, N = sum_{j <= B} C(k, j), so one bound for all of them holds for those that came. No privacy.
"""

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NoReturn, TypeAlias

import msgspec
import numpy as np

from holdtrue.bounds.transcripts import gate_cells, gate_gain, gate_interval
from holdtrue.curator.pipeline import Pipeline
from holdtrue.errors import IntegrityError, InvalidParameter, RefusedError, ReleaseError
from holdtrue.events import NoCost, NonPrivate
from holdtrue.holdouts.cases import BITS, Cases
from holdtrue.holdouts.mode import Look, Mode, Moment, PlannedLook, Submission, name_of, request_id_of, used_up
from holdtrue.holdouts.records import Score, Verdict
from holdtrue.holdouts.submissions import Question, kept_question
from holdtrue.holdouts.terms import Facts
from holdtrue.ledgers import Entry, read_charge
from holdtrue.ledgers.sealed_store import SealedStore, check_seal, seal_document
from holdtrue.planning.plans import Plan
from holdtrue.records import Answer, Certificate, Interval, Prediction, Response
from holdtrue.verbs import Measured, Release, Standing

__all__ = ["Gate"]

_YES, _NO = "yes", "no"
_RESULTS = "cases"
_FIRST = "the first incumbent"


_Known: TypeAlias = tuple[Fraction, Fraction, int]
_UNKNOWN: _Known = (Fraction(0), Fraction(1), 0)


@dataclass(frozen=True, slots=True)
class _State:
    """Where a gate stands by what was told, in the order of the responses: its incumbent's name, its yes by their charges.

    ``means``: for everyone who ever was the incumbent, between which means on these cases it is known to lie, and the charge
    of the look that had the yes, 0 for the first incumbent. A yes is about the incumbent that it was asked against
    (``request["against"]``), which need not be the last one told; ``beaten`` is whom the incumbent's yes was against.
    """

    incumbent: str | None = None
    beaten: str | None = None
    means: Mapping[str, _Known] = field(default_factory=dict)
    yes: tuple[int, ...] = ()
    closed: tuple[int, ...] = ()

    def mean(self) -> _Known:
        """Return between which means on these cases the incumbent is known to lie, and by which look."""
        return self.means.get(self.incumbent or "", _UNKNOWN)


class Gate(Mode[Verdict]):
    """A gate over cases that answers yes at most B times in k looks.

    Guarantee: with probability 1 - beta every interval it ever gives covers the truth it is about, at once, however the
    submissions were chosen; k, B and beta are fixed beforehand. It holds for any number of processes and crashes: a look is
    answered only while the charges before its own that had a yes, or no answer yet, are fewer than B. So before every
    response fewer than B yes were stored: of B others, the last one charged would have counted the rest, or this one, which
    was unanswered then. In the order of responses that is the tree which T9 counts, and what was submitted for a look was
    chosen before its response was stored. Needs: nothing else about these cases is told anyone, the order in which
    processes store does not depend on labels, and one name means one submission. It keeps no privacy, and says so. Fails:
    BudgetExceeded when looks or yes are used up, with nothing spent.

    The ledger names the incumbent. What it submitted is kept beside a ledger that lasts, before its yes is stored, so that
    any process goes on with the gate; results are as private as the labels, and so is what is kept.
    """

    def __init__(self, cases: Cases, facts: Facts, plan: Plan, pipeline: Pipeline, *, store: SealedStore | None) -> None:
        if cases.weights is not None:
            raise InvalidParameter.saying("weights", "a gate takes no weights: all cases count alike")
        super().__init__(cases, facts, plan, pipeline)
        self._store = store
        self._incumbent: tuple[str, Question] | None = None
        self._state = _State()
        self._read = 0
        self._places: dict[int, tuple[int, int]] = {}
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
            if self.transcript and state.incumbent != name:
                if name in state.means and self._find_submission(state.incumbent) is not None:
                    return  # an earlier incumbent: the gate goes on with the one that took its place
                self._refuse_other()
            if not state.means:
                self._open_with(incumbent, name)
            self._incumbent = name, incumbent
            self._keep(name, incumbent)

    def _open_with(self, incumbent: Question, name: str) -> None:
        """Tell the first incumbent's score in one of k/2 cells; one request of a gate does, whoever opens it."""
        release = self._release_opening(incumbent, name, f"incumbent {name}")
        try:
            self.run(PlannedLook(release, lambda: [incumbent.total()]), request_id_of(_FIRST))
        except RefusedError:
            if self._follow().incumbent in (None, name):
                raise
            self._refuse_other()

    def _refuse_other(self) -> NoReturn:
        if self.facts.metric == _RESULTS:
            raise InvalidParameter.saying(
                "incumbent_name", "incumbent_name must name the results that last had a yes; see leading"
            )
        raise InvalidParameter.saying("incumbent", "incumbent must be left out, or be the submission that last had a yes")

    def plan_look(self, given: Submission, known: Entry | None) -> PlannedLook:
        """Return the release of yes or no, against the incumbent."""
        state = self._follow()
        own = known is None and given.name == state.incumbent  # whoever asks again is told the yes that made it so
        met = state.beaten if own else state.incumbent
        if known is not None:
            met = read_charge(known).request["against"]
        part = f"gate {given.name} {given.margin} {met or 'nothing'}"
        if self.pipeline.index.has(part):
            return PlannedLook(self._release(given, part, met, None), list)
        if own:
            raise InvalidParameter.saying("y_pred", "this submission is the incumbent itself; submit another")
        against = self._find_opponent(met, known)
        measure = self._measure(given, given.request_id(part), against)
        return PlannedLook(self._release(given, part, met, against), measure)

    def refuse(self, given: Submission) -> None:
        """Refuse also once the gate is closed, or its yes are used up."""
        used, closed = self._count_before(None)
        if closed:
            message = "this gate was closed when its incumbent was certified; nothing more can be asked of these cases"
            raise RefusedError(message)
        if used >= self._most:
            message = f"no yes is left of {self._most:,}; certify() tells its incumbent's score"
            raise used_up(message, "yes")
        super().refuse(given)

    def settle(self, given: Submission, planned: PlannedLook, found: Response) -> None:
        """Have the incumbent at hand where this submission is the one."""
        del planned, found
        state = self._follow()
        if state.incumbent == given.name:
            self._incumbent = given.name, given.asked
            if self._store is not None and state.beaten is not None:
                self._store.remove(state.beaten)

    def certify(self, *, key: str | None = None, analyst: str | None = None) -> Score:
        """Close the gate for good, and tell the incumbent's score with its interval: the last thing that is told."""
        self.pipeline.check_open()
        with self.pipeline.lock:
            state = self._follow()
            known = None if key is None else self.pipeline.ledger.find(request_id=key)
            name = state.incumbent if known is None else str(read_charge(known).request["values"])
            against = self._find_opponent(name, known)
            if against is None or name is None:
                message = "there is no incumbent to certify: no submission had a yes yet"
                raise RefusedError(message)
            part = f"certify {name}"
            given = Submission(against, name, key=key, analyst=analyst)
            *_, look = state.means.get(name, _UNKNOWN)
            planned = PlannedLook(self._release_closing(given, part, look), lambda: [against.total()])
            found = self.run(planned, given.request_id(part), bound=key is not None, analyst=analyst)
            return msgspec.structs.replace(self.score(given, found, self._moment(key)), looks_left=0)

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
        left = super().looks_left
        with self.pipeline.lock:
            self._follow()
            used, closed = self._count_before(None)
            return left if not closed and used < self._most else 0

    @property
    def _most(self) -> int:
        return self.facts.yes or 1

    def _follow(self) -> _State:
        """Return the state after every response in the ledger."""
        self.pipeline.index.follow()
        self.transcript.follow()
        new, before = self.transcript.looks[self._read :], len(self._state.yes)
        for look in new:
            if look.verb == "gate":
                self._places[look.number] = len(self._places) + 1, before
                before += isinstance(look.told, Prediction) and look.told.label == _YES
        self._state = self._fold(self._state, new)
        self._read = len(self.transcript.looks)
        opened = next((look for look in self.transcript.unanswered.values() if look.verb == "incumbent"), None)
        if opened is not None and self._state.incumbent is None:  # charged, and its score was never told
            return replace(self._state, incumbent=str(opened.request["values"]))
        return self._state

    def _fold(self, state: _State, looks: Sequence[Look]) -> _State:
        cells = gate_cells(self.facts.looks)
        for look in looks:
            state = _after(state, look, cells=cells)
        return state

    def _count_before(self, number: int | None) -> tuple[int, bool]:
        """Return how many yes the charges before an entry may have had, and whether one of them closed the gate.

        A charge without an answer counts as a yes: nobody knows what it will say.
        """
        last = math.inf if number is None else number
        waiting = [look for look in self.transcript.unanswered.values() if look.number < last]
        used = sum(entry < last for entry in self._state.yes) + sum(look.verb == "gate" for look in waiting)
        closed = any(entry < last for entry in self._state.closed) or any(look.verb == "certify" for look in waiting)
        return used, closed

    def _count_at(self, end: int, state: _State) -> tuple[int, bool]:
        """Return how many yes there were up to an entry, those included that charges without an answer then may have."""
        waiting = [look for look in self.transcript.unanswered.values() if look.number <= end]
        waiting += [look for look in self.transcript.looks if look.number <= end < look.told_at]
        closed = bool(state.closed) or any(look.verb == "certify" for look in waiting)
        return len(state.yes) + sum(look.verb == "gate" for look in waiting), closed

    def _find_opponent(self, name: str | None, known: Entry | None) -> Question | None:
        """Return the question of whom a look is against; refuse where this process cannot find what it submitted."""
        if name is None:
            return None
        found = self._find_submission(name)
        if found is not None:
            return found
        if known is not None:
            message = "this look was charged and never answered, and whom it was against is gone; make it under a new key"
            raise ReleaseError(message, entry=known.number)
        message = (
            "what the incumbent submitted is not kept here: open the holdout with incumbent= the one that last had a yes, "
            "or give it to holdtrue score once more with --incumbent"
        )
        raise RefusedError(message)

    def _find_submission(self, name: str | None) -> Question | None:
        """Return what was submitted under a name that the ledger has: from memory, or from beside the ledger."""
        if self._incumbent is not None and self._incumbent[0] == name:
            return self._incumbent[1]
        kept = None if self._store is None or name is None else self._store.read(name)
        if kept is None or name is None:
            return None
        check_seal(self.pipeline.ledger.terms.key, name, kept)
        values = np.load(io.BytesIO(kept.content), allow_pickle=False)
        found = kept_question(self.cases, values, results=self.facts.metric == _RESULTS)
        self._incumbent = name, found
        return found

    def _keep(self, name: str, asked: Question) -> None:
        """Keep what was submitted beside a ledger that lasts, for other processes and for the next one."""
        if self._store is None or asked.submitted is None or self._store.read_seal(name) is not None:
            return
        content = io.BytesIO()
        np.save(content, asked.submitted, allow_pickle=False)
        key = self.pipeline.ledger.terms.key
        self._store.write(name, seal_document(key, name, facts="{}", content=content.getvalue()))

    def _measure(self, given: Submission, request_id: str, against: Question | None) -> Callable[[], Sequence[int]]:
        def measure() -> Sequence[int]:
            # Look again once the charge has its place: others may have been charged before it, and order decides.
            self._follow()
            mine = self.transcript.find_unanswered(request_id)
            if mine is None:  # another process has answered it, and that answer is the one that stays
                return [0, 0]
            used, closed = self._count_before(mine.number)
            if closed or used >= self._most:
                message = "the gate was closed in the meantime"
                raise RefusedError(message)
            return [given.asked.total(), 0 if against is None else against.total()]

        return measure

    def _release(self, given: Submission, part: str, met: str | None, against: Question | None) -> Release:
        asked, least = given.asked, given.margin * self.cases.grid

        def draw(sums: Measured) -> list[int]:
            yes = int(sums[0]) - int(sums[1]) > least
            if yes:  # before the yes is stored: whoever reads it there must find the incumbent
                self._keep(given.name, asked)
            return [int(yes)]

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing
            return [Prediction(_YES if drawn[0] else _NO, self._open(certificate))]

        return Release(
            verb="gate",
            # Against another incumbent it is another request, with an answer of its own.
            request={
                "target": asked.name,
                "values": given.name,
                "margin": str(given.margin),
                "against": met,
                "differing": self._count_differing(asked, against),
                "private": False,
            },
            parts=(part,),
            event=NoCost(),
            cost=1,
            draws=1,
            queries=(),
            draw=draw,
            respond=respond,
        )

    def _count_differing(self, asked: Question, against: Question | None) -> int:
        """Return in how many cases two submissions can differ, as far as that is public; all cases otherwise.

        Where predictions differ is public, but drawn with the cases; where results differ depends on their labels.
        """
        hidden = self.facts.unseen or self.facts.metric == _RESULTS
        if against is None or hidden or asked.submitted is None or against.submitted is None:
            return self.cases.number
        return int(np.count_nonzero(asked.submitted != against.submitted))

    def _release_opening(self, asked: Question, name: str, part: str) -> Release:
        cells = gate_cells(self.facts.looks)

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing
            low, high = Fraction(drawn[0], cells), Fraction(drawn[0] + 1, cells)
            return [self._make_answer((low, high, 0), (low + high) / 2, certificate)]

        def draw(sums: Sequence[int]) -> list[int]:
            return [min(int(sums[0]) * cells // self.cases.grid, cells - 1)]

        request = {"target": asked.name, "values": name, "private": False}
        return Release("incumbent", request, (part,), NoCost(), 0, 0, (), draw, respond)  # type: ignore[arg-type]  # integers

    def _release_closing(self, given: Submission, part: str, look: int) -> Release:
        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing
            mean = Fraction(drawn[0], self.cases.grid)
            return [self._make_answer((mean, mean, look), mean, certificate)]

        request = {"target": given.asked.name, "values": given.name, "private": False}
        return Release("certify", request, (part,), NoCost(), 0, 0, (), lambda sums: [int(sums[0])], respond)

    def _make_answer(self, known: _Known, value: Fraction, certificate: Certificate) -> Answer:
        sure = 1 - self.facts.beta
        rows = Interval(float(known[0]), float(known[1]), 1.0, "sample")
        return Answer(float(value), Interval(*self._ends(*known), sure, "population"), rows, self._open(certificate))

    def _bounds(self, low: Fraction, high: Fraction, look: int) -> tuple[float, float]:
        whole = bool(self.facts.by_place) and self.facts.metric != _RESULTS
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
        numbers: dict[str, Any] = {"looks": facts.looks, "yes": self._most, "beta": facts.beta}
        if not facts.by_place:
            return numbers
        if place is None:
            return numbers | {"beta": facts.beta / 2}
        return numbers | {"look": place[0], "after": place[1]}

    def _open(self, certificate: Certificate) -> Certificate:
        """Return a certificate that claims no privacy."""
        return certificate.with_theorem(self.plan.theorem or "", event=NonPrivate())

    def _interval(self, state: _State) -> Interval:
        sure = 1 - self.facts.beta
        if state.incumbent is None:
            return Interval(0.0, 1.0, sure, "population")
        return Interval(*self._ends(*state.mean()), sure, "population")

    def answer(self, given: Submission, found: Response, moment: Moment) -> Verdict:
        """Say yes or no, and what follows."""
        look = self.transcript.find(found.certificate.entry)
        if not isinstance(found, Prediction) or look is None:
            message = "the ledger has another kind of response to this look"
            raise IntegrityError(message)
        end = self.transcript.end_of(moment.entry)
        state = self._follow() if moment.entry is None else self._fold(_State(), self.transcript.until(end))
        used, closed = self._count_at(end, state)
        yes = found.label == _YES
        return Verdict(
            yes=yes,
            margin=float(given.margin),
            looks_left=0 if closed or used >= self._most else max(0, self.facts.looks - moment.draws),
            yes_left=max(0, self._most - used),
            interval=self._interval(state),
            gain=None if look.request["against"] is None else self._gain(look, float(given.margin), yes=yes),
            about=self.about,
            certificate=found.certificate,
            repeated=found.repeated,
            submission=given.name,
        )

    def _gain(self, look: Look, margin: float, *, yes: bool) -> Interval:
        """Return what a yes or no says of the true difference."""
        differing = int(look.request["differing"])
        near = gate_gain(differing, cases=self.cases.number, **self._numbers(look.number))
        ends = (max(-1.0, margin - near), 1.0) if yes else (-1.0, min(1.0, margin + near))
        return Interval(min(ends), max(ends), 1 - self.facts.beta, "population")


def _after(state: _State, look: Look, *, cells: int) -> _State:
    """Return where a gate stands after one more response."""
    match look.verb, look.told:
        case "incumbent", Answer(value=value):
            name, middle, half = str(look.request["values"]), Fraction(value), Fraction(1, 2 * cells)
            # The middle of a cell is a float: a hair on either side makes up for its rounding.
            hair = Fraction(1, 1 << 50)
            return replace(state, incumbent=name, means={name: (middle - half - hair, middle + half + hair, 0)})
        case "gate", Prediction(label=label) if label == _YES:
            name, against = str(look.request["values"]), look.request["against"]
            low, *_ = state.means.get(str(against), _UNKNOWN)
            least = max(Fraction(0), low) + Fraction(str(look.request["margin"]))
            means = {**state.means, name: (least, max(Fraction(1), least), look.number)}
            return replace(state, incumbent=name, beaten=against, means=means, yes=(*state.yes, look.number))
        case "certify", _:
            return replace(state, closed=(*state.closed, look.number))
        case _:
            return state
