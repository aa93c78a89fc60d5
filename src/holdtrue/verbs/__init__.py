"""Verbs: what a request costs, what it measures, how the measured is drawn from, and what is said about the drawn.

A verb turns a request and public numbers into a :class:`Release`, and submits it to the pipeline that it is given, of which
it knows no more than :class:`Curation`. The pipeline charges what the release costs, has rows measured by what the release
asks for, and gives the integers to ``draw``. Only what ``draw`` returns reaches ``respond``.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from msgspec.structs import replace

from holdtrue.codec import encode
from holdtrue.errors import IntegrityError
from holdtrue.events import Event, NoCost
from holdtrue.queries.syntax_tree import Query
from holdtrue.records import Certificate, Response

if TYPE_CHECKING:
    from holdtrue.accounting.filters import Filter
    from holdtrue.ensembles.members import Ensemble
    from holdtrue.ensembles.parts import PartRule
    from holdtrue.ensembles.training import Recipe
    from holdtrue.errors import HoldtrueError
    from holdtrue.hypotheses.classes import HypothesisClass
    from holdtrue.planning.plans import AnyPlan
    from holdtrue.queries.cards import Card
    from holdtrue.queries.cells import DisjointCells
    from holdtrue.queries.features import Feature

__all__ = [
    "DEDUCED",
    "Answered",
    "Curation",
    "Job",
    "Measured",
    "Planned",
    "Release",
    "Rows",
    "Standing",
    "expect_kind",
    "plan_single",
]

Measured: TypeAlias = Sequence[int] | npt.NDArray[np.int64]
"""Exact integers from an engine."""
Fitted = TypeVar("Fitted")
Told = TypeVar("Told")
DEDUCED = "deduced"
"""What the names of free answers begin with."""


class Standing(Struct, frozen=True):
    """Where a charge stands in the ledger's one order: public numbers that a theorem may ask for.

    ``draws`` counts the noise draws of questions up to this charge and ``spent`` the units, its own included; ``charges``
    counts the charges before it, of every verb and analyst.
    """

    draws: int
    spent: int
    charges: int


class Release(Struct, frozen=True, eq=False):
    """One release: charged as one event, measured in one pass.

    ``parts`` names, for each response, what it answers: a repeated part is found by it. ``request`` is what the ledger keeps
    of the request, in words that are public. ``draws`` is how many noise draws of the plan's questions it makes. Measured
    are the sums of ``queries``, or those of ``cells`` where there are any. ``draw`` maps exact integers to noisy ones,
    ``respond`` noisy ones to responses, given where the charge stands.
    """

    verb: str
    request: dict[str, object]
    parts: tuple[str, ...]
    event: Event
    cost: int
    draws: int
    queries: tuple[Query, ...]
    draw: Callable[[Measured], Sequence[int]]
    respond: Callable[[Sequence[int], Certificate, Standing], list[Response]]
    cells: "DisjointCells | None" = None

    def without_parts(self) -> "Release":
        """Return the release of nothing, for a request whose every part was answered before."""
        nothing = replace(self, parts=(), event=NoCost(), cost=0, draws=0, queries=(), cells=None)
        return replace(nothing, draw=lambda _: [], respond=lambda *_: [])


class Answered(Protocol):
    """What a verb may know of the ledger when it plans: which parts were answered, and where a charge would stand."""

    def has(self, part: str) -> bool:
        """Return whether a part was answered."""
        ...

    def answer(self, part: str) -> Response | None:
        """Return the answer to a part as it was stored, or None where it was never answered."""
        ...

    def standing(self) -> Standing:
        """Return where a charge that costs nothing would stand if it were made now."""
        ...

    def find_payer(self, part: str) -> str | None:
        """Return which analyst paid for the answer to a part, None where it was never answered."""
        ...

    def has_room(self) -> bool:
        """Return whether the ledger still takes entries that cost nothing, of which it has a limited number."""
        ...


class Planned(Struct, frozen=True, eq=False):
    """A request that is understood: what names its responses, in order, and the release of those that are missing.

    ``request`` is the whole request as canonical JSON, which a key is bound to. ``measure`` gives the integers for the
    release; None: the sums of its queries or cells. ``key`` names what is asked, where the caller gave the request no key of
    its own: what a crash left unanswered is found by it, whoever asks again.
    """

    parts: tuple[str, ...]
    release: Release
    request: str
    measure: Callable[[], Measured] | None = None
    key: str | None = None


class Job(Struct, frozen=True, eq=False):
    """One request on its way: how it is planned, under which key, by whom.

    ``plan`` is called with the ledger read up to now, and raises what refuses the request. ``key`` is the caller's name of
    the request: it is bound to it also where older answers serve it, and a replay is told what was told first. ``slow``
    lets others go on while this one is measured.

    A plan that depends on more of the ledger's state than on which parts were answered needs the pipeline's lock from
    reading that state to the answer.
    """

    plan: Callable[[Answered], Planned]
    key: str | None = None
    analyst: str | None = None
    slow: bool = False
    future: "Future[list[Response]]" = field(default_factory=Future)


class Rows(Protocol):
    """The rows as verbs have them measured: an engine, which gives exact integers and trained members, and no row."""

    ordered: bool
    pairs: bool
    key: str | None

    def sum_values(self, values: object, *, bits: int) -> int:
        """Return the sum of a curator's own numbers, one for each row, in units of 2^-bits."""
        ...

    def sums(self, queries: Sequence[Query], *, bits: int, progress: Callable[[float], None] | None = None) -> list[int]:
        """Return for each query the sum over all rows of its value in units of 2^-bits, all in one pass."""
        ...

    def sum_cells(self, cells: "DisjointCells", *, bits: int, progress: Callable[[float], None] | None = None) -> list[int]:
        """Return the sums of disjoint cells, in the order of their queries."""
        ...

    def sum_pairs(
        self,
        query: Query,
        order: npt.NDArray[np.int64],
        *,
        bits: int,
        progress: Callable[[float], None] | None = None,
    ) -> int:
        """Return the sum of an expression in two rows over every row of an order and the next, the last with the first."""
        ...

    def error_counts(
        self,
        hypotheses: "HypothesisClass",
        features: "Sequence[Feature]",
        target: Query,
        *,
        progress: Callable[[float], None] | None = None,
    ) -> npt.NDArray[np.int64]:
        """Return how many rows each hypothesis gets wrong."""
        ...

    def train(
        self,
        recipe: "Recipe",
        features: "Sequence[Feature]",
        goal: "Feature",
        *,
        rule: "PartRule",
        progress: Callable[[float], None] | None = None,
    ) -> "Ensemble":
        """Return an ensemble with a member for each part of the rows."""
        ...

    def vote_held_out(
        self, ensemble: "Ensemble", features: "Sequence[Feature]", goal: "Feature", *, rule: "PartRule"
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the votes at the rows that no member was trained on, and the places of their labels."""

    def check_room(self, columns: int) -> None:
        """Raise NotCertified where this many columns of all rows are too much for :meth:`fit`."""

    def fit(
        self,
        learn: Callable[[npt.NDArray[np.float64], npt.NDArray[np.float64]], Fitted],
        features: "Sequence[Feature]",
        goal: "Feature",
        *,
        progress: Callable[[float], None] | None = None,
    ) -> Fitted:
        """Return what a learner makes of all rows at once: the features of each, and its goal."""
        ...


class Curation(Protocol):
    """The pipeline as verbs see it: what is public about one dataset, how its rows are measured, where requests go."""

    @property
    def plan(self) -> "AnyPlan":
        """Return the plan of the ledger."""
        ...

    @property
    def card(self) -> "Card":
        """Return what is public about the rows."""
        ...

    @property
    def limit(self) -> "Filter":
        """Return the filter that prices events."""
        ...

    @property
    def engine(self) -> Rows:
        """Return what measures rows; only what :class:`Planned` has as ``measure`` may call it, or a training."""
        ...

    @property
    def progress(self) -> Callable[[float], None] | None:
        """Return the callback for the progress of a long measurement."""
        ...

    @property
    def parse(self) -> Callable[[str], Query]:
        """Return the parser of questions about these rows."""
        ...

    def run(self, job: Job) -> list[Response]:
        """Return the responses to a request."""
        ...

    def run_all(self, jobs: Sequence[Job]) -> "list[list[Response] | HoldtrueError]":
        """Return what became of each of several requests that wait together: its responses, or its error."""
        ...

    def lock_index(self) -> AbstractContextManager[Answered]:
        """Yield the up-to-date index of the ledger while no request of this process is served."""
        ...

    def has_used(self, key: str) -> bool:
        """Return whether a key names a request already."""
        ...

    def refuse_used_key(self, key: str | None, request: str) -> None:
        """Refuse a key that names another request, before anything is charged: for verbs that charge more than once."""
        ...

    def left_beside_asks(self, analyst: str | None) -> int:
        """Return what other verbs than ask may spend, in units: of the reserve, the cap and the analyst's allowance."""
        ...


def expect_kind(found: Response, kind: type[Told]) -> Told:
    """Return a response of the kind that a verb gives; IntegrityError for what no request of that verb was answered with."""
    if not isinstance(found, kind):
        message = f"entry {found.certificate.entry} is malformed: it answers a request of another kind"
        raise IntegrityError(message)
    return found


def plan_single(
    release: Release,
    answered: Answered,
    *,
    request: str | None = None,
    measure: Callable[[], Measured] | None = None,
    key: str | None = None,
) -> Planned:
    """Plan a release with a single part: it is made unless that part was answered before."""
    written = encode({"verb": release.verb} | release.request) if request is None else request
    if answered.has(release.parts[0]):
        return Planned(release.parts, release.without_parts(), written, list)
    return Planned(release.parts, release, written, measure, key)
