"""A mode of a holdout: how a look is planned, priced and answered, and where the holdout stands by what was told."""

import hashlib
import json
import os
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakSet

from msgspec import Struct
from msgspec.structs import replace

from holdtrue.codec import encode
from holdtrue.curator.history import responses_of
from holdtrue.curator.pipeline import Job, Pipeline
from holdtrue.entropy import SYSTEM
from holdtrue.errors import BudgetExceeded, IntegrityError, RefusedError
from holdtrue.holdouts.cases import Cases
from holdtrue.holdouts.records import FRESH, THESE, Score, Verdict
from holdtrue.holdouts.submissions import Question
from holdtrue.holdouts.terms import Facts
from holdtrue.ledgers import Entry, Ledger
from holdtrue.planning.plans import Plan
from holdtrue.records import Answer, Interval, Response
from holdtrue.verbs import Measured, Release, plan_single

if TYPE_CHECKING:
    from holdtrue.holdouts.open_gates import Notes

__all__ = [
    "OPEN_ELSEWHERE",
    "BestSoFar",
    "Look",
    "Mode",
    "Moment",
    "PlannedLook",
    "Submission",
    "Told",
    "Transcript",
    "find_open_gates",
    "is_new",
    "name_of",
    "note_folders",
    "request_id_of",
    "used_up",
    "was_told_here",
]

Told = TypeVar("Told", Score, Verdict)
_GATES: "WeakSet[Mode[Any]]" = WeakSet()  # those of this process; others with other ledgers cannot be seen from here
_LOOKED: "WeakSet[Mode[Any]]" = WeakSet()  # those of this process that had a look
_GATES_LOCK = Lock()
OPEN_ELSEWHERE = (
    "a gate on these cases is open under another ledger: until it has closed, nothing else about them is told; ask that "
    "gate, or certify its incumbent, which closes it; if these are other cases, give them other ids"
)


def note_folders(ledger: Path | None) -> list[Path]:
    """Return where it is noted which ledgers are of the same cases: beside one that is a file, and a folder of its user.

    The user's is left out where there is no home, and where the environment has ``HOLDTRUE_GATES=off``.
    """
    folders = [] if ledger is None else [ledger.parent / "holdtrue.gates"]
    if os.environ.get("HOLDTRUE_GATES", "") != "off":
        with suppress(RuntimeError):
            state = Path(os.environ.get("XDG_STATE_HOME", ""))
            folders.append((state if state.is_absolute() else Path.home() / ".local/state") / "holdtrue/gates")
    return folders


@dataclass(frozen=True, slots=True, eq=False)
class Submission:
    """What is submitted for one look: its question, the ledger's name of it, what is said beside it, and whose it is.

    ``key`` is the caller's name of the request: under it the same submission is told once more what was told first.
    """

    asked: Question
    name: str
    key: str | None = None
    analyst: str | None = None
    team: str | None = None
    margin: Fraction = Fraction(0)
    guess: float = 0.0
    threshold: float | None = None

    def request_id(self, part: str) -> str:
        """Return the id under which the look is charged: its key, else that of what it asks, whoever asks it."""
        return request_id_of(part) if self.key is None else self.key


@dataclass(frozen=True, slots=True)
class Moment:
    """Up to where the ledger counts for what is said of a look: the totals there.

    ``entry`` is the one that the caller's key names, which a look under that key is told of for ever; None is now.
    """

    draws: int
    spent: int
    entry: int | None = None


@dataclass(frozen=True, eq=False)
class PlannedLook:
    """The release of one look at its price, what measures it or whose sum is measured, and the id that it is charged under.

    Without one that is the submission's key, else the id of what it asks.
    """

    release: Release
    measure: Callable[[], Measured] | Question
    id: str | None = None


def name_of(asked: Question, pipeline: Pipeline) -> str:
    """Return a question's name under the ledger's key; one that cannot be told from others gets a random name."""
    if not asked.content:
        return SYSTEM.words(4).tobytes().hex()
    return asked.name_under_key(bytes.fromhex(pipeline.ledger.terms.key))


def request_id_of(part: str) -> str:
    """Return the id of what a look asks."""
    return hashlib.sha256(part.encode()).hexdigest()


def is_new(known: Entry | None) -> bool:
    """Return whether nothing was told under a charge, or there is none: its answer is as new as any other."""
    return known is None or known.response is None


def used_up(words: str, unit: str) -> BudgetExceeded:
    """Return the refusal of one more of what was planned to be few, in words of its own."""
    return BudgetExceeded.saying(words, requested=1, left=0, unit=unit)


def was_told_here(cases: Cases) -> bool:
    """Return whether a holdout that this process has open had a look at these cases."""
    return bool(_find_open(_LOOKED, cases, but=""))


def find_open_gates(cases: int) -> "list[Mode[Any]]":
    """Return the gates over this many cases that this process has open, whether or not they may still say yes."""
    with _GATES_LOCK:
        return [gate for gate in _GATES if not gate.pipeline.closed and gate.cases.number == cases]


def _find_open(modes: "WeakSet[Mode[Any]]", cases: Cases, *, but: str) -> "list[Mode[Any]]":
    """Return those that are open on these cases in this process, but not under the ledger with a key."""
    with _GATES_LOCK:
        others = [mode for mode in modes if not mode.pipeline.closed and mode.cases.number == cases.number]
    others = [mode for mode in others if mode.pipeline.ledger.terms.key != but]
    known = cases.identify() if others else None
    return [mode for mode in others if known is not None and mode.cases.identify() == known]


class Mode(ABC, Generic[Told]):
    """How every look of one holdout is answered; subclasses are the modes.

    Law: what decides a price or an answer is computed from the ledger, in the order in which responses were stored, so it
    is the same after a crash and in every process. A look is charged once under its key, or under the id of what it asks,
    and what a crash left unanswered is answered under its own charge. What is said under a key is what stood in the ledger
    at that key's entry, and so is the same whenever it comes (P5).
    """

    def __init__(self, cases: Cases, facts: Facts, plan: Plan, pipeline: Pipeline) -> None:
        self.cases, self.facts, self.plan, self.pipeline = cases, facts, plan, pipeline
        self.transcript, self._watched = Transcript(pipeline.ledger), Transcript(pipeline.ledger)
        self._watching = Lock()
        self._file = path if pipeline.ledger.durable and (path := Path(pipeline.ledger.store.where)).is_file() else None
        self._folders = note_folders(self._file)
        pipeline.index.follow()  # whoever opens a ledger that is used up is told so at the first look

    @abstractmethod
    def plan_look(self, given: Submission, known: Entry | None) -> PlannedLook:
        """Return how a look is released; ``known`` is the charge that the request's key names, if it was made before."""

    def answer(self, given: Submission, found: Response, moment: Moment) -> Told:
        """Say what the ledger has as the response to a look: its score, unless a mode has more to say."""
        return self.score(given, found, moment)  # type: ignore[return-value]  # modes with verdicts say their own

    def refuse(self, given: Submission) -> None:
        """Refuse a look that is new and beyond what was planned."""
        del given
        if self.pipeline.index.draws >= self.facts.looks:
            message = f"all {self.facts.looks:,} looks are used; open a new holdout with new cases"
            raise used_up(message, "looks")

    def settle(self, given: Submission, planned: PlannedLook, found: Response) -> None:
        """Take note of a look that went through."""

    def look(self, asked: Question, **words: Any) -> Told:  # noqa: ANN401 - the other fields of a submission
        """Answer one look: from the ledger, or charged, measured, drawn and stored."""
        self.pipeline.check_open()
        given = Submission(asked, name_of(asked, self.pipeline), **words)
        with self.pipeline.lock:
            known = None if given.key is None else self.pipeline.ledger.find(request_id=given.key)
            planned = self.plan_look(given, known)
            (part,) = planned.release.parts
            request_id = planned.id or given.request_id(part)
            # What the index knows can only be too little here: the ledger decides again when the charge is made.
            if is_new(known) and not self.pipeline.index.has(part):
                self.refuse_beside_gate()
                self._check_left(given, request_id)
                self._note_look()
            found = self.run(planned, request_id, bound=given.key is not None, analyst=given.analyst)
            self.settle(given, planned, found)
            return self.answer(given, found, self._moment(given.key))

    def enter_gate(self) -> None:
        """Enter this mode as a gate: while it is open, nothing else about its cases is told, by no other ledger (V1.1).

        What a gate promises rests on it. Two gates on one set of cases are one tree, so they are one ledger. A gate is noted
        before others are looked for: of two that open at once, one at least finds the other.
        """
        from holdtrue.holdouts.held_curators import hold_curators

        with _GATES_LOCK:
            _GATES.add(self)
        hold_curators(self.cases)
        made = self._note_cases(gate=True)
        try:
            if self.is_open:  # one that is used up or certified may be read, and tells again what it told
                self.refuse_beside_gate()
                if not self.facts.told_before and not self.pipeline.index.draws:
                    self._refuse_told(noted=made)
        except RefusedError:
            with _GATES_LOCK:
                _GATES.discard(self)
            if made:
                self._notes.remove("json")
            self._notes.close()
            raise

    def _note_cases(self, *, gate: bool) -> bool:
        from holdtrue.holdouts.open_gates import note_cases

        return note_cases(self._notes, self.pipeline.ledger.terms.key, self.cases, gate=gate)

    def _note_look(self) -> None:
        """Note, before the first look of this object, that something is told of these cases."""
        with _GATES_LOCK:
            noted = self in _LOOKED or self in _GATES
            _LOOKED.add(self)
        if not noted:
            self._note_cases(gate=False)

    def _refuse_told(self, *, noted: bool) -> None:
        """Refuse a new gate where others told of its cases since its terms were fixed, which say that nobody had."""
        from holdtrue.holdouts.held_curators import were_told
        from holdtrue.holdouts.open_gates import find_told

        here = were_told(self.cases) or _find_open(_LOOKED, self.cases, but=self.pipeline.ledger.terms.key)
        if here or (noted and find_told(self._notes, self.cases)):
            message = "another ledger told of these cases while this gate was opened; open the gate under a new ledger"
            raise RefusedError(message)

    @cached_property
    def _notes(self) -> "Notes":
        """Return where gates are noted: beside ledgers that are files or in the same database, and in the user's folder."""
        from holdtrue.holdouts.open_gates import DatabaseNotes, FolderNotes

        url = getattr(self.pipeline.ledger.store, "url", None)
        return DatabaseNotes(url) if url else FolderNotes(self._file)

    def close(self) -> None:
        """Let go of the ledger, and of where gates are noted."""
        self.pipeline.close()
        notes = vars(self).get("_notes")
        if notes is not None:
            notes.close()

    def refuse_beside_gate(self) -> None:
        """Refuse whatever is told of cases on which another ledger has an open gate."""
        others = _find_open(_GATES, self.cases, but=self.pipeline.ledger.terms.key)
        if any(gate.is_open for gate in others) or self._is_noted_elsewhere():
            raise RefusedError(OPEN_ELSEWHERE)

    @property
    def is_open(self) -> bool:
        """Return whether this gate may still say yes. It waits for no look, so two gates may ask it of each other."""
        from holdtrue.holdouts.open_gates import may_say_yes

        with self._watching:
            self._watched.follow()
            return may_say_yes(self.facts, self._watched)

    def _is_noted_elsewhere(self) -> bool:
        """Return whether another ledger that is noted has an open gate on these cases, in whatever process."""
        noted = (any(folder.glob("*.json")) for folder in self._folders)
        if not hasattr(self.pipeline.ledger.store, "url") and not any(noted):
            return False  # no gate at all: notes of looks have another ending
        from holdtrue.holdouts.open_gates import find_open_gate

        return find_open_gate(self._notes, self.cases) is not None

    def run(self, planned: PlannedLook, request_id: str, *, bound: bool = False, analyst: str | None = None) -> Response:
        """Return the response to a planned look: the stored one, or one that is paid for once, whoever asks for it.

        ``bound``: its id is the caller's key, which names this request also where an older answer serves it.
        """
        release, measure = planned.release, partial(self._measure_ungated, planned.measure)
        request = encode({"verb": release.verb, "part": release.parts[0]})
        plan = partial(plan_single, release, request=request, measure=measure, key=request_id)
        (found,) = self.pipeline.run(Job(plan, key=request_id if bound else None, analyst=analyst))
        return found

    def _measure_ungated(self, what: Callable[[], Measured] | Question) -> Measured:
        """Measure what was charged, unless a gate was opened on these cases since: it may have found no charge."""
        self.refuse_beside_gate()
        return [what.total()] if isinstance(what, Question) else what()

    def _check_left(self, given: Submission, request_id: str) -> None:
        """Refuse a look beyond the plan; one that was charged and never answered is not: its charge is there."""
        try:
            self.refuse(given)
        except RefusedError:
            charged = self.pipeline.ledger.find(request_id=request_id)
            if charged is None or charged.response is not None:
                raise

    def _moment(self, key: str | None) -> Moment:
        entry = None if key is None else self.pipeline.ledger.find_entry(key)
        if entry is None:
            return Moment(self.pipeline.index.draws, self.pipeline.index.spent)
        return Moment(entry.draws, entry.spent, entry.number)

    @property
    def about(self) -> str:
        """Return in words what the intervals of this holdout are about."""
        return self._name_cases(FRESH if self.facts.unseen else THESE)

    def _name_cases(self, words: str) -> str:
        """Return the words with clusters in place of cases, where an interval is about these."""
        return words.replace("cases", "clusters") if self.facts.clusters else words

    @property
    def looks_left(self) -> int:
        """Return how many looks are left."""
        with self.pipeline.lock_index() as index:
            return max(0, self.facts.looks - index.draws)

    def score(self, given: Submission, found: Response, moment: Moment) -> Score:
        """Say a stored answer in the metric that was asked for: accuracy and error are one answer."""
        asked = given.asked
        if not isinstance(found, Answer):
            message = "the ledger has another kind of response to this look"
            raise IntegrityError(message)
        return Score(
            value=1 - found.value if asked.flipped else found.value,
            interval=_turn(asked, found.interval),
            sample_interval=_turn(asked, found.sample_interval) or found.sample_interval,
            certificate=found.certificate,
            reason=found.reason,
            repeated=found.repeated,
            looks_left=max(0, self.facts.looks - moment.draws),
            about=self._name_cases(THESE) if asked.narrowed else self.about,
            metric=asked.name,
            looks=self.facts.looks,
            private=self.facts.private,
        )


def _turn(asked: Question, interval: Interval | None) -> Interval | None:
    """Return an interval of accuracy for one of error, and back."""
    if interval is None or not asked.flipped:
        return interval
    return Interval(1 - interval.high, 1 - interval.low, interval.confidence, interval.target)


class Look(Struct, frozen=True):
    """One charge: its entry, its place among all charges from 1 on, its request's id and public words, and what was told.

    ``told`` is None while there is no response, ``told_at`` the entry of the response.
    """

    number: int
    place: int
    id: str
    verb: str
    request: dict[str, Any]
    told: Response | None = None
    told_at: int = 0


class Transcript:
    """Follows a ledger. Everything in it stands in the ledger, so it is the same for everyone who has it open.

    Law: iterating gives the looks that were answered, in the order in which their *responses* were stored: only what was
    told can have led to anything, and a charge whose process died told nobody anything. ``unanswered`` are the charges
    without a response, in the order of their charges; each may still be answered, or never.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._seen = 0
        self._charged = 0
        self._places: dict[int, int] = {}
        self.looks: list[Look] = []
        self.unanswered: dict[int, Look] = {}

    def follow(self) -> None:
        """Read what was entered since the last time."""
        last = self._ledger.head[0]
        if last > self._seen:
            for entry in self._ledger.entries(self._seen + 1, last + 1):
                if entry.kind == "charge" and entry.body is not None:
                    self._charged += 1
                    request = json.loads(entry.body)["request"]
                    self.unanswered[entry.number] = Look(
                        entry.number, self._charged, entry.request_id or "", entry.verb, request
                    )
                elif entry.kind == "response" and entry.body is not None and entry.answers in self.unanswered:
                    (told,) = responses_of(entry.body)
                    self._places[entry.answers] = len(self.looks)
                    self.looks.append(replace(self.unanswered.pop(entry.answers), told=told, told_at=entry.number))
            self._seen = last

    def find(self, number: int) -> Look | None:
        """Return the look that was answered under a charge, by its entry; None where there is none."""
        place = self._places.get(number)
        return None if place is None else self.looks[place]

    def end_of(self, entry: int | None) -> int:
        """Return the last entry that counts for what is said under an entry: its response, or itself; all, for None."""
        if entry is None:
            return self._seen
        place = self._places.get(entry)
        return entry if place is None else self.looks[place].told_at

    def until(self, end: int) -> list[Look]:
        """Return the looks that were answered up to an entry, in the order of the responses."""
        return self.looks[: bisect_right(self.looks, end, key=lambda look: look.told_at)]

    def find_unanswered(self, request_id: str) -> Look | None:
        """Return the charge of a request that is being answered now; None where another process has answered it."""
        return next((look for look in self.unanswered.values() if look.id == request_id), None)

    def __iter__(self) -> Iterator[Look]:
        return iter(self.looks)

    def __bool__(self) -> bool:
        return bool(self.looks or self.unanswered)


class BestSoFar:
    """What a ladder has shown, look by look: the highest score stored so far, in the order of the responses.

    Law: what is shown never falls. A look that was compared with an older best than the one now standing, because another
    process stored a response between its draw and its own, leads only if its score is above the best that stands; otherwise
    the best that stands is shown for it. So what is shown is one rising sequence, whatever processes and crashes lie behind.
    """

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._read = 0
        self._shown: dict[int, tuple[Answer, bool]] = {}
        self._teams: list[tuple[str, int]] = []
        self.best: Answer | None = None
        self.leading: str | None = None

    def follow(self) -> None:
        """Read what was stored since the last time."""
        self._transcript.follow()
        for look in self._transcript.looks[self._read :]:
            self._read += 1
            if isinstance(look.told, Answer):
                led = self.best is None or look.told.value > self.best.value
                if led:
                    self.best, self.leading = look.told, str(look.request["values"])
                self._shown[look.number] = self._as_shown(look.told), led
                self._teams.append((str(look.request["team"]), look.number))

    def _as_shown(self, told: Answer) -> Answer:
        best = self.best or told
        return replace(told, value=best.value, interval=best.interval, sample_interval=best.sample_interval)

    def show(self, told: Response) -> Answer:
        """Return what is shown for a stored response, now and whenever it is asked for again."""
        if not isinstance(told, Answer):
            message = "the ledger has another kind of response to this submission"
            raise IntegrityError(message)
        self.follow()
        shown, _ = self._shown[told.certificate.entry]
        return replace(shown, repeated=told.repeated)

    def all(self) -> list[tuple[str, Answer, bool]]:
        """Return every submission in the order of the responses: whose it was, what was shown, and whether it led."""
        self.follow()
        return [(team, *self._shown[number]) for team, number in self._teams]
