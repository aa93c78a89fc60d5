"""Verbs: what a request costs, what it measures, how the measured is drawn from, and what is said about the drawn.

A verb turns a request and public numbers into a :class:`Release`. It sees no rows, no ledger and no engine: the curator
charges what the release costs, has an engine measure what it asks for, and gives the integers to ``draw``. Only what
``draw`` returns reaches ``respond``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.codec import encode
from holdtrue.events import Event, NoCost
from holdtrue.queries.syntax_tree import Query
from holdtrue.records import Certificate, Response

__all__ = ["Answered", "Measured", "Planned", "Release", "Standing", "plan_single"]

Measured: TypeAlias = Sequence[int] | npt.NDArray[np.int64]
"""Exact integers from an engine."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a charge stands in the ledger's one order: public numbers that a theorem may ask for.

    ``draws`` counts the noise draws of questions up to this charge and ``spent`` the units, its own included; ``charges``
    counts the charges before it, of every verb and analyst.
    """

    draws: int
    spent: int
    charges: int


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """One release: charged as one event, measured in one pass.

    ``parts`` names, for each response, what it answers: a repeated part is found by it. ``request`` is what the ledger keeps
    of the request, in words that are public. ``draws`` is how many noise draws of the plan's questions it makes. ``draw``
    maps exact integers to noisy ones, ``respond`` noisy ones to responses, given where the charge stands.
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

    def without_parts(self) -> "Release":
        """Return the release of nothing, for a request whose every part was answered before."""
        return replace(self, parts=(), event=NoCost(), cost=0, draws=0, queries=(), draw=lambda _: [], respond=lambda *_: [])


class Answered(Protocol):
    """What a verb may know of the ledger when it plans: which parts were answered, and where a charge would stand."""

    def has(self, part: str) -> bool:
        """Return whether a part was answered."""
        ...

    def standing(self) -> Standing:
        """Return where a charge that costs nothing would stand if it were made now."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """A request that is understood: what names its responses, in order, and the release of those that are missing.

    ``request`` is the whole request as canonical JSON, which a key is bound to. ``measure`` gives the integers for the
    release; None: the sums of its queries. ``key`` names what is asked, where the caller gave the request no key of its
    own: what a crash left unanswered is found by it, whoever asks again.
    """

    parts: tuple[str, ...]
    release: Release
    request: str
    measure: Callable[[], Measured] | None = None
    key: str | None = None


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
