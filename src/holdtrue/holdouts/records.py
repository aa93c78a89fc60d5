"""What a look at a holdout returns: records of public numbers, each with a sentence that says what is promised."""

import math

from msgspec import UNSET, Struct, UnsetType, field

from holdtrue.errors import InvalidParameter
from holdtrue.records import Answer, Certificate, FactTable, Interval, Tagged

__all__ = ["FRESH", "THESE", "HoldoutBudget", "Place", "Score", "Verdict"]

FRESH = "fresh cases"
THESE = "these cases with fresh labels"
_NAMES = {"cases": "score", "hits": "share right"}


class Score(Answer, frozen=True):
    """The score of a submission: the fields of an answer, how many looks are left, and what the interval is about.

    ``about`` is "fresh cases" where submissions were declared to be made without sight of these cases (``unseen=True``),
    otherwise "these cases with fresh labels": no theorem stops anyone from labelling the cases by hand (T6b).
    ``private`` says whether the look kept the cases' secrets.
    """

    looks_left: int = 0
    about: str = THESE
    metric: str = "accuracy"
    looks: int = 1
    private: bool = True

    @property
    def sentence(self) -> str:
        """Return in plain words what may be concluded."""
        words = f"{_NAMES.get(self.metric, self.metric)} {self.value:.4f}: "
        if self.interval is None:
            words += f"no interval, {self.reason}"
        else:
            ends, sure = self.interval, f"{self.interval.confidence:.0%} confidence over {_looks(self.looks)}"
            words += f"at least {ends.low:.4f} and at most {ends.high:.4f} with {sure}, for {self.about}"
        kept = "; the raw score is not shown" if self.private else "; valid, but not private"
        return f"{words}{kept}; {_looks(self.looks_left)} left"

    def __str__(self) -> str:
        return self.sentence


class Verdict(Tagged, frozen=True):
    """What a gate says: yes or no, and what follows for the incumbent and for the difference.

    ``yes`` is whether the submission was better than the incumbent on these cases by more than the margin; it then is the
    incumbent. ``interval`` is for the truth of the incumbent's score, as far as yes and no tell it; ``gain`` for the true
    difference between the submission and the incumbent it met, None against nothing. All hold at once with one confidence.
    ``submission`` is the name that the ledger has for it: public, and how a gate over results knows its incumbent again.

    Of a gate by depth, ``yes`` is whether it was proved better in truth: ``claim`` says in one sentence what is certified,
    ``level`` is how often such a yes may be wrong by itself, and ``wins_needed``, only where it is public which cases
    differ, of how many of them it had to be right in; more than differ where none are enough. They are None elsewhere.
    """

    yes: bool
    margin: float
    looks_left: int
    yes_left: int
    interval: Interval
    gain: Interval | None
    about: str
    certificate: Certificate
    private: bool = False
    repeated: bool = False
    submission: str = ""
    # What was added later is written only where it is said: what older versions wrote keeps its bytes.
    at_level: float | UnsetType = field(default=UNSET, name="level")
    needs: int | UnsetType = field(default=UNSET, name="wins_needed")
    claims: str | UnsetType = field(default=UNSET, name="claim")
    costs_nothing: bool | UnsetType = field(default=UNSET, name="free")

    @property
    def level(self) -> float | None:
        """Return how often a yes like this one may be wrong by itself."""
        return self.at_level if isinstance(self.at_level, float) else None

    @property
    def wins_needed(self) -> int | None:
        """Return in how many of the differing cases it had to be right for a yes, where they are public."""
        return self.needs if isinstance(self.needs, int) else None

    @property
    def free(self) -> bool:
        """Return whether it is a no by public numbers alone, for which no look was charged."""
        return self.costs_nothing is True

    @property
    def claim(self) -> str | None:
        """Return what is certified, in one sentence."""
        return self.claims or None

    def __post_init__(self) -> None:
        if not math.isfinite(self.margin):
            raise InvalidParameter("margin", self.margin, "a finite number")

    def __bool__(self) -> bool:
        return self.yes

    @property
    def sentence(self) -> str:
        """Return in plain words what may be concluded."""
        left = f"{_looks(self.looks_left)} and {self.yes_left:,} yes left"
        if self.claim:
            kept = "private" if self.private else "valid, but not private"
            return f"{'yes' if self.yes else 'no'}: {self.claim}; {kept}; {left}"
        by = f" by more than {self.margin:g}" if self.margin else ""
        better = "found better" if self.private else "better on these cases"
        answer = f"yes: {better}{by}" if self.yes else f"no: not {better}{by}"
        ends, sure = self.interval, f"{self.interval.confidence:.0%}"
        words = f"{answer}; the incumbent is at least {ends.low:.4f} and at most {ends.high:.4f} ({sure}), for {self.about}"
        kept = "" if self.private else "; valid, but not private"
        return f"{words}{kept}; {left}"

    def __str__(self) -> str:
        return self.sentence


def _looks(number: int) -> str:
    return "1 look" if number == 1 else f"{number:,} looks"


class HoldoutBudget(FactTable, Struct, frozen=True):
    """What a holdout may still tell, read off its ledger alone: no case is needed, and no look is spent.

    ``yes`` and ``yes_left`` are None unless it is a gate; a charge without an answer counts as a yes. ``width`` says how
    wide what it tells is. ``spent`` and ``cap`` are in the ``unit`` of its privacy; the unit is "looks" where it keeps
    none.
    """

    mode: str
    cases: int
    looks: int
    looks_left: int
    yes: int | None
    yes_left: int | None
    closed: bool
    private: bool
    unit: str
    spent: float
    cap: float
    width: str

    @property
    def left(self) -> float:
        """Return what is left to spend."""
        return self.cap - self.spent

    @property
    def asks(self) -> int:
        """Return how many looks are left, as a report calls them."""
        return self.looks_left

    @property
    def reserve(self) -> float:
        """Return 0: looks are all that a holdout pays for."""
        return 0.0

    def list_facts(self) -> dict[str, str]:
        """Return the budget in words."""
        closed = "; it is closed" if self.closed else ""
        facts = {"mode": self.mode, "looks": f"{self.looks_left:,} of {self.looks:,} left{closed}"}
        facts |= {} if self.yes is None else {"yes": f"{self.yes_left:,} of {self.yes:,} left"}
        kept = f"{self.spent:.4g} of {self.cap:.4g} {self.unit} spent" if self.private else "none is kept"
        return facts | {"width": self.width, "privacy": kept}


class Place(Struct, frozen=True):
    """One line of the standings. Names with the same ``rank`` are tied: nothing told shows one above the other.

    ``score`` is what was told of the name's best submission, None where it never led a ladder.
    """

    rank: int
    name: str
    score: float | None
    interval: Interval | None
    tied: bool

    def __str__(self) -> str:
        place = f"{'=' if self.tied else ' '}{self.rank:>4}"
        if self.score is None:
            return f"{place}  {self.name}  not shown better than the leader of its time"
        ends = "" if self.interval is None else f"  {self.interval.low:.4f} to {self.interval.high:.4f}"
        return f"{place}  {self.name}  {self.score:.4f}{ends}"
