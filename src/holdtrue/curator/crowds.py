"""Questions of several analysts at once: charged in one transaction, measured in one pass, stored in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from holdtrue.curator.houses import House
from holdtrue.curator.steps import Errand
from holdtrue.errors import HoldtrueError, ReleaseError
from holdtrue.queries.trees import Query
from holdtrue.records import Answer
from holdtrue.verbs.asking import Asking, part_of

__all__ = ["Ask", "Replies", "ask_together"]


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: questions in their order, the caller's key for it (None: no replay is expected), and who asks."""

    queries: tuple[str, ...]
    key: str | None
    analyst: str | None


Replies: TypeAlias = list[Answer] | HoldtrueError


@dataclass(frozen=True, slots=True, eq=False)
class _Parsed:
    place: int
    ask: Ask
    queries: tuple[Query, ...]
    parts: tuple[str, ...]


def ask_together(house: House, asking: Asking, asks: Sequence[Ask]) -> list[Replies]:
    """Return for each request its answers, or its own error.

    Guarantee: the same as for requests one after the other in this order. An answer says that it is a repeat exactly if
    another charge than this request's own paid for it, so a replayed key gives the same answers, flags included.
    """
    replies: list[Replies] = [[] for _ in asks]
    waiting: list[_Parsed] = []
    for place, ask in enumerate(asks):
        try:
            queries = tuple(house.parse(text) for text in ask.queries)
        except HoldtrueError as error:
            replies[place] = error
            continue
        if queries:
            waiting.append(_Parsed(place, ask, queries, tuple(part_of(query) for query in queries)))
    with house.lock:
        house.register.follow()
        while waiting:
            waiting = _round(house, asking, waiting, replies)
    return replies


def _round(house: House, asking: Asking, waiting: Sequence[_Parsed], replies: list[Replies]) -> list[_Parsed]:
    """Settle requests, and return those that ask what another one of this round pays for, since that one may be refused."""
    claimed: set[str] = set()
    settled: list[tuple[_Parsed, Errand | None]] = []
    later: list[_Parsed] = []
    for item in waiting:
        if claimed.intersection(item.parts):
            later.append(item)
            continue
        errand = _errand(house, asking, item)
        claimed.update(errand.release.parts if errand is not None else ())
        settled.append((item, errand))
    errands = [errand for _, errand in settled if errand is not None]
    outcomes = iter(house.carry_out(errands) if errands else [])
    for item, errand in settled:
        outcome = None if errand is None else next(outcomes)
        if isinstance(outcome, HoldtrueError):
            replies[item.place] = outcome
            continue
        # A request that an older answer served is told of that answer's entry, which is not its own.
        mine = outcome is not None and (outcome.fresh or outcome.request_id == item.ask.key)
        replies[item.place] = _replies(house, item, own=outcome.number if outcome is not None and mine else 0)
    return later


def _errand(house: House, asking: Asking, item: _Parsed) -> Errand | None:
    """Return what has to be charged: questions without an answer, or a key that is to be remembered; else None."""
    fresh = {
        part: query
        for part, query in zip(item.parts, item.queries, strict=True)
        if house.known(part, repeated=False) is None
    }
    if not fresh and item.ask.key is None:
        return None
    request = {"verb": "ask", "queries": [query.text for query in item.queries]}
    return Errand(asking.queries(list(fresh.values())), request, item.ask.key, item.ask.analyst or house.analyst)


def _replies(house: House, item: _Parsed, *, own: int) -> Replies:
    """Return the stored answers; an answer is a repeat if another charge than the own one paid for it."""
    found = []
    for part in item.parts:
        answer = house.known(part, repeated=False)
        if not isinstance(answer, Answer):
            return ReleaseError("the request was charged, but its response is not in the ledger")
        repeated = answer.certificate.entry != own
        found.append(answer if answer.repeated == repeated else replace(answer, repeated=repeated))
    return found
