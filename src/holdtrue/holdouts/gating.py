"""The gate: yes or no to "better than the incumbent by more than the margin?", and nothing else.

What every gate has, whatever rule it answers by: its incumbent, its yes and its charges, followed on the ledger; what the
incumbent submitted, kept beside a ledger that lasts; and that nothing else about its cases is told while it is open.
"""

import io
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NoReturn, TypeAlias

import msgspec
import numpy as np

from holdtrue.bounds.gate_levels import AT_THE_END
from holdtrue.curator.pipeline import Pipeline
from holdtrue.errors import IntegrityError, InvalidParameter, RefusedError, ReleaseError
from holdtrue.events import NoCost, NonPrivate
from holdtrue.holdouts.cases import Cases
from holdtrue.holdouts.mode import Look, Mode, Moment, PlannedLook, Submission, is_new, name_of, request_id_of, used_up
from holdtrue.holdouts.records import Score, Verdict
from holdtrue.holdouts.submissions import Question, kept_question
from holdtrue.holdouts.terms import Facts
from holdtrue.ledgers import Entry, read_charge
from holdtrue.ledgers.sealed_store import SealedStore, check_seal, seal_document
from holdtrue.planning.plans import Plan
from holdtrue.records import Certificate, Interval, Prediction, Response
from holdtrue.verbs import Measured, Release, Standing

__all__ = ["NO", "UNKNOWN", "YES", "Gate", "GateState", "Known", "had_yes", "is_look", "proved_bound"]

YES, NO = "yes", "no"
_CONDITION = ", if submissions do not depend on what these cases told before under another ledger"
_HUNDRED = 100  # bounds that are told at once lie whole hundredths above the margin
_ABOVE = f"{YES} above "
_FIRST = "the first incumbent"
_VACUOUS = "vacuous"


Known: TypeAlias = tuple[Fraction, Fraction, int]
UNKNOWN: Known = (Fraction(0), Fraction(1), 0)


@dataclass(frozen=True, slots=True)
class GateState:
    """Where a gate stands by what was told, in the order of the responses: its incumbent's name, its yes by their charges.

    ``means``: for everyone who ever was the incumbent, between which numbers its mean is known to lie (on these cases where
    transcripts are counted, in truth where levels go by depth), and the charge of the look that had the yes, 0 for the
    first incumbent. A yes is about the incumbent that it was asked against (``request["against"]``), which need not be the
    last one told; ``beaten`` is whom the incumbent's yes was against, ``first`` whom the gate was opened with.
    """

    incumbent: str | None = None
    beaten: str | None = None
    first: str | None = None
    means: Mapping[str, Known] = field(default_factory=dict)
    yes: tuple[int, ...] = ()
    closed: tuple[int, ...] = ()

    def mean(self) -> Known:
        """Return between which numbers the incumbent's mean is known to lie, and by which look."""
        return self.means.get(self.incumbent or "", UNKNOWN)

    def open_with(self, name: str, known: Known) -> "GateState":
        """Return the state after the first incumbent was taken."""
        return replace(self, incumbent=name, first=name, means={name: known})

    def accept(self, look: Look) -> "GateState":
        """Return the state after a yes: the incumbent it met is beaten by more than the margin, or than the bound told."""
        name, against = str(look.request["values"]), look.request["against"]
        low, *_ = self.means.get(str(against), UNKNOWN)
        least = max(Fraction(0), max(Fraction(0), low) + proved_bound(look))
        means = {**self.means, name: (least, max(Fraction(1), least), look.number)}
        return replace(self, incumbent=name, beaten=against, means=means, yes=(*self.yes, look.number))


def is_look(look: Look) -> bool:
    """Return whether a charge is a look at the cases; a no that follows from public numbers is none."""
    return look.verb == "gate" and not look.request.get(_VACUOUS)


def had_yes(told: Response | None) -> bool:
    """Return whether a look was answered with yes."""
    return isinstance(told, Prediction) and str(told.label).startswith(YES)


def proved_bound(look: Look) -> Fraction:
    """Return what a look with a yes was proved to be better by: its margin, or the bound that its yes told at once."""
    label = str(look.told.label) if isinstance(look.told, Prediction) else YES
    return Fraction(label.removeprefix(_ABOVE) if label.startswith(_ABOVE) else str(look.request["margin"]))


class Gate(Mode[Verdict]):
    """A gate over cases that answers yes at most B times in k looks; subclasses are the rules it answers by.

    What is charged and unanswered counts as a yes, since nobody knows what it said. The state is a fold over the ledger, so
    it is the same for any number of processes and after crashes. Needs: nothing else about these cases is told anyone
    before the gate has closed, and one name means one submission. It keeps no privacy unless its rule says so. Fails:
    BudgetExceeded when looks or yes are used up, with nothing spent.

    The ledger names the incumbent. What it submitted is kept beside a ledger that lasts, before its yes is stored, so that
    any process goes on with the gate; results are as private as the labels, and so is what is kept.
    """

    def __init__(self, cases: Cases, facts: Facts, plan: Plan, pipeline: Pipeline, *, store: SealedStore | None) -> None:
        if cases.weights is not None:
            raise InvalidParameter.saying("weights", "a gate takes no weights: all cases count alike")
        super().__init__(cases, facts, plan, pipeline)
        self._store = store
        self._held: dict[str, Question] = {}
        self._state = GateState()
        self._read = 0

    @abstractmethod
    def release_opening(self, asked: Question, name: str, part: str) -> PlannedLook:
        """Return how the first incumbent is taken."""

    @abstractmethod
    def measure_look(self, given: Submission, against: Question | None, used: int) -> Measured:
        """Return the integers that a look needs, charged after this many yes."""

    @abstractmethod
    def prove_bound(self, given: Submission, against: Question | None, measured: Measured) -> Fraction | None:
        """Return what a submission is proved to be better by: the margin, or more where that is told; None is a no."""

    @abstractmethod
    def plan_certificate(self, given: Submission, part: str, state: GateState, what: str) -> PlannedLook:
        """Return the release of what is told when a gate is closed; ``what`` is named before it is computed."""

    @abstractmethod
    def known_of(self, state: GateState) -> Interval:
        """Return what is known of the incumbent's true score."""

    @abstractmethod
    def say_verdict(self, verdict: Verdict, look: Look, end: int) -> Verdict:
        """Return a verdict with what its rule says of the difference, by the ledger up to an entry."""

    def after(self, state: GateState, look: Look) -> GateState:
        """Return where a gate stands after one more response."""
        match look.verb, look.told:
            case "incumbent", _:
                return state.open_with(str(look.request["values"]), UNKNOWN)
            case "gate", told if had_yes(told):
                return state.accept(look)
            case "certify", _:
                return replace(state, closed=(*state.closed, look.number))
            case _:
                return state

    def start(self, incumbent: Question | None, *, known_as: str | None = None) -> None:
        """Take the incumbent, once, when the gate is new.

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
            self._held[name] = incumbent
            self._keep(name, incumbent)

    def _open_with(self, incumbent: Question, name: str) -> None:
        """Enter the first incumbent in the ledger; one request of a gate does, whoever opens it."""
        planned = self.release_opening(incumbent, name, f"incumbent {name}")
        try:
            self.run(planned, request_id_of(_FIRST))
        except RefusedError:
            if self._follow().incumbent in (None, name):
                raise
            self._refuse_other()

    def _refuse_other(self) -> NoReturn:
        if self.facts.takes_results:
            raise InvalidParameter.saying(
                "incumbent_name", "incumbent_name must name the results that last had a yes; see leading"
            )
        raise InvalidParameter.saying("incumbent", "incumbent must be left out, or be the submission that last had a yes")

    def plan_look(self, given: Submission, known: Entry | None) -> PlannedLook:
        """Return the release of yes or no, against the incumbent."""
        state = self._follow()
        own = known is None and given.name == state.incumbent  # whoever asks again is told the yes that made it so
        met = state.beaten if own else state.incumbent
        if own:  # another process may have stored this yes since the index was read
            self.pipeline.index.follow()
        if known is not None:
            met = read_charge(known).request["against"]
        part = f"gate {given.name} {given.margin} {met or 'nothing'}"
        if self.pipeline.index.has(part):
            return PlannedLook(self._release(given, part, met, None), list)
        if own:
            raise InvalidParameter.saying("y_pred", "this submission is the incumbent itself; submit another")
        if met is None and given.margin < 0:
            raise InvalidParameter("margin", float(given.margin), "0 or above while there is no incumbent: a score to pass")
        against = self._find_opponent(met, known)
        mine = self.transcript.find_unanswered(given.request_id(part))
        if mine.request.get(_VACUOUS) if mine is not None else self.is_vacuous(given, against):
            return self._plan_vacuous(given, part, met, against)
        return self.plan_new(given, part, met, against)

    def is_vacuous(self, given: Submission, against: Question | None) -> bool:
        """Return whether a look could be no yes whatever the cases say, where a rule knows that from public numbers."""
        del given, against
        return False

    def _plan_vacuous(self, given: Submission, part: str, met: str | None, against: Question | None) -> PlannedLook:
        """Return the release of a no that follows from public numbers: nothing is measured, and no look is charged."""
        plain = self._release(given, part, met, against)
        free = msgspec.structs.replace(
            plain, request=plain.request | {_VACUOUS: True}, cost=0, draws=0, draw=lambda _: [0, 0]
        )
        return PlannedLook(free, list)

    def plan_new(self, given: Submission, part: str, met: str | None, against: Question | None) -> PlannedLook:
        """Return the release of a look that was not answered before."""
        measure = self._measure(given, given.request_id(part), against)
        return PlannedLook(self._release(given, part, met, against), measure)

    def refuse(self, given: Submission) -> None:
        """Refuse also once the gate is closed, or its yes are used up."""
        used, closed = self.count_before(None)
        if closed:
            message = "this gate was closed when its incumbent was certified; nothing more can be asked of these cases"
            raise RefusedError(message)
        if used >= self.most:
            message = f"no yes is left of {self.most:,}; certify() closes it and tells its incumbent's score"
            raise used_up(message, "yes")
        super().refuse(given)

    def settle(self, given: Submission, planned: PlannedLook, found: Response) -> None:
        """Have the incumbent at hand where this submission is the one."""
        del planned, found
        state = self._follow()
        if state.incumbent == given.name:
            self._held[given.name] = given.asked
            if self.facts.tells == AT_THE_END:  # everyone who ever was the incumbent is needed for the bounds
                return
            gone = {state.beaten, *self._held} - {state.incumbent, state.first, None}
            for name in gone:
                self._held.pop(str(name), None)
            if self._store is not None and state.beaten in gone:
                self._store.remove(str(state.beaten))

    def certify(
        self, what: str = "score", *, of: str | None = None, key: str | None = None, analyst: str | None = None
    ) -> Score:
        """Close the gate for good, and tell the incumbent's score or gain, or the bound of a yes: the last that is told."""
        self.pipeline.check_open()
        with self.pipeline.lock:
            state = self._follow()
            self._check_certificate(what, of, state)
            known = None if key is None else self.pipeline.ledger.find(request_id=key)
            name = (of or state.incumbent) if known is None else str(read_charge(known).request["values"])
            against = self._find_opponent(name, known)
            if against is None or name is None:
                message = "there is no incumbent to certify: no submission had a yes yet"
                raise RefusedError(message)
            part = f"certify {name}" if what == "score" else f"certify {name} {what}"
            given = Submission(against, name, key=key, analyst=analyst)
            if is_new(known) and not self.pipeline.index.has(part):
                self.refuse_beside_gate()
                mine = self.transcript.find_unanswered(given.request_id(part))
                self.refuse_second_certificate(what, math.inf if mine is None else mine.number)
            planned = self.plan_certificate(given, part, state, what)
            found = self.run(planned, given.request_id(part), bound=key is not None, analyst=analyst)
            said = self.score(given, found, self._moment(key))
            return msgspec.structs.replace(said, looks_left=0, metric=said.metric if what == "score" else what)

    def _check_certificate(self, what: str, of: str | None, state: GateState) -> None:
        """Refuse a certificate that this gate does not pay for."""
        if (what == "bound") != (self.facts.tells == AT_THE_END):
            expected = f"'bound' on a gate opened with tells={AT_THE_END!r}, and only there"
            raise InvalidParameter("what", what, expected)
        if of is not None and (what != "bound" or type(of) is not str or of not in state.means):
            raise InvalidParameter.saying(
                "of", "of is the submission of a verdict that was a yes, for a certificate of its bound"
            )

    def refuse_second_certificate(self, what: str, before: float = math.inf) -> None:
        """Refuse to certify one thing where another one was charged before an entry; the same again is one statement."""
        looks = (*self.transcript.looks, *self.transcript.unanswered.values())
        certified = [look for look in looks if look.verb == "certify" and look.number < before]
        if any(look.request.get("what", "score") != what for look in certified):
            message = "this gate was closed by another certificate, and tells one only"
            raise RefusedError(message)

    @property
    def incumbent(self) -> Interval:
        """Return what is known of the incumbent's true score. Free."""
        with self.pipeline.lock:
            return self.known_of(self._follow())

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
            used, closed = self.count_before(None)
            return left if not closed and used < self.most else 0

    @property
    def most(self) -> int:
        """Return how often the gate may say yes."""
        return self.facts.yes or 1

    def _follow(self) -> GateState:
        """Return the state after every response in the ledger."""
        self.pipeline.index.follow()
        self.transcript.follow()
        self._state = self._fold(self._state, self.transcript.looks[self._read :])
        self._read = len(self.transcript.looks)
        opened = next((look for look in self.transcript.unanswered.values() if look.verb == "incumbent"), None)
        if opened is not None and self._state.incumbent is None:  # charged, and its score was never told
            return replace(self._state, incumbent=str(opened.request["values"]))
        return self._state

    def _fold(self, state: GateState, looks: Sequence[Look]) -> GateState:
        for look in looks:
            state = self.after(state, look)
        return state

    def count_before(self, number: int | None) -> tuple[int, bool]:
        """Return how many yes the charges before an entry may have had, and whether one of them closed the gate.

        A charge without an answer counts as a yes: nobody knows what it will say.
        """
        last = math.inf if number is None else number
        waiting = [look for look in self.transcript.unanswered.values() if look.number < last]
        used = sum(entry < last for entry in self._state.yes) + sum(map(is_look, waiting))
        closed = any(entry < last for entry in self._state.closed) or any(look.verb == "certify" for look in waiting)
        return used, closed

    def _count_at(self, end: int, state: GateState) -> tuple[int, bool]:
        """Return how many yes there were up to an entry, those included that charges without an answer then may have."""
        waiting = [look for look in self.transcript.unanswered.values() if look.number <= end]
        waiting += [look for look in self.transcript.looks if look.number <= end < look.told_at]
        closed = bool(state.closed) or any(look.verb == "certify" for look in waiting)
        return len(state.yes) + sum(map(is_look, waiting)), closed

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
        if name in self._held:
            return self._held[str(name)]
        kept = None if self._store is None or name is None else self._store.read(name)
        if kept is None or name is None:
            return None
        check_seal(self.pipeline.ledger.terms.key, name, kept)
        values = np.load(io.BytesIO(kept.content), allow_pickle=False)
        self._held[name] = kept_question(self.cases, values, metric=self.facts.metric)
        return self._held[name]

    def find_first(self) -> tuple[str, Question] | None:
        """Return whom the gate was opened with, and what it submitted; None where it is not known here."""
        first = self._state.first
        found = None if first is None else self._find_submission(first)
        return None if found is None or first is None else (first, found)

    def _keep(self, name: str, asked: Question) -> None:
        """Keep what was submitted beside a ledger that lasts, for other processes and for the next one."""
        if self._store is None or asked.submitted is None or self._store.read_seal(name) is not None:
            return
        content = io.BytesIO()
        np.save(content, asked.submitted, allow_pickle=False)
        key = self.pipeline.ledger.terms.key
        self._store.write(name, seal_document(key, name, facts="{}", content=content.getvalue()))

    def _measure(self, given: Submission, request_id: str, against: Question | None) -> Callable[[], Measured]:
        def measure() -> Measured:
            # Look again once the charge has its place: others may have been charged before it, and order decides.
            self._follow()
            mine = self.transcript.find_unanswered(request_id)
            if mine is None:  # another process has answered it, and that answer is the one that stays
                return []
            used, closed = self.count_before(mine.number)
            if closed or used >= self.most:
                message = "the gate was closed in the meantime"
                raise RefusedError(message)
            return self.measure_look(given, against, used)

        return measure

    def _release(self, given: Submission, part: str, met: str | None, against: Question | None) -> Release:
        asked = given.asked

        def draw(measured: Measured) -> list[int]:
            bound = self.prove_bound(given, against, measured) if len(measured) > 0 else None
            if bound is None:
                return [0, 0]
            # Before the yes is stored: whoever reads it there must find the incumbent. Where that fails, the charge has no
            # answer and counts as a yes.
            self._keep(given.name, asked)
            return [1, round((bound - given.margin) * _HUNDRED)]

        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            del standing
            label = YES if drawn[0] else NO
            if drawn[1]:
                label = f"{_ABOVE}{float(given.margin + Fraction(drawn[1], _HUNDRED))!r}"
            return [Prediction(label, self.open_certificate(certificate))]

        return Release(
            verb="gate",
            # Against another incumbent it is another request, with an answer of its own.
            request={
                "target": asked.name,
                "values": given.name,
                "margin": str(given.margin),
                "against": met,
                "differing": self._count_differing(asked, against),
                "private": self.facts.private,
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
        hidden = self.facts.unseen or self.facts.takes_results
        if against is None or hidden or asked.submitted is None or against.submitted is None:
            return self.cases.number
        return int(np.count_nonzero(asked.submitted != against.submitted))

    def open_certificate(self, certificate: Certificate) -> Certificate:
        """Return a certificate that claims no privacy, and says what it rests on where these cases told something before."""
        return certificate.with_theorem(f"{self.plan.theorem or ''}{self.condition}", event=NonPrivate())

    @property
    def condition(self) -> str:
        """Return what a gate's promises rest on beyond what always holds, in words."""
        return _CONDITION if self.facts.told_before else ""

    def answer(self, given: Submission, found: Response, moment: Moment) -> Verdict:
        """Say yes or no, and what follows."""
        look = self.transcript.find(found.certificate.entry)
        if not isinstance(found, Prediction) or look is None:
            message = "the ledger has another kind of response to this look"
            raise IntegrityError(message)
        end = self.transcript.end_of(moment.entry)
        state = self._follow() if moment.entry is None else self._fold(GateState(), self.transcript.until(end))
        used, closed = self._count_at(end, state)
        verdict = Verdict(
            yes=had_yes(found),
            margin=float(given.margin),
            looks_left=0 if closed or used >= self.most else max(0, self.facts.looks - moment.draws),
            yes_left=max(0, self.most - used),
            interval=self.known_of(state),
            gain=None,
            about=self.about,
            certificate=found.certificate,
            private=self.facts.private,
            repeated=found.repeated,
            submission=given.name,
        )
        return self.say_verdict(verdict, look, end)
