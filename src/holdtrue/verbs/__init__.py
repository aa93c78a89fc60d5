"""Verbs: what a request costs, what it measures, how the measured is drawn from, and what is said about the drawn.

A verb turns a request and public numbers into a :class:`Release`. It sees no rows, no ledger and no engine: the curator
charges what the release costs, has an engine measure what it asks for, and gives the integers to ``draw``. Only what
``draw`` returns reaches ``respond``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.events import Event
from holdtrue.queries.trees import Query
from holdtrue.records import Certificate, Response

__all__ = ["Measured", "Release", "Standing"]

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
