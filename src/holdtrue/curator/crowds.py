"""Questions of several analysts at once: charged in one transaction, measured in one pass, stored in one transaction."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias, TypeVar

from holdtrue.curator.houses import House
from holdtrue.curator.steps import Errand, Round
from holdtrue.curator.wording import listed
from holdtrue.errors import HoldtrueError, ReleaseError
from holdtrue.queries.trees import Query
from holdtrue.records import Answer
from holdtrue.verbs.asking import Asking, part_of

__all__ = ["Ask", "Replies", "ask_along", "ask_together"]

T = TypeVar("T")
_MOST_TURNS = 16


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: questions in their order, the caller's key for it (None: no replay is expected), and who asks."""

    queries: tuple[str, ...]
    key: str | None
    analyst: str | None


Replies: TypeAlias = list[Answer] | HoldtrueError


@dataclass(frozen=True, slots=True, eq=False)
class _Parsed(Generic[T]):
    token: T
    ask: Ask
    queries: tuple[Query, ...]
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Flight(Generic[T]):
    """Requests whose answers are drawn and go into the next commit; until then nobody hears of them."""

    round: Round
    items: list[_Parsed[T]]
    parts: frozenset[str]


def ask_together(house: House, asking: Asking, asks: Sequence[Ask]) -> list[Replies]:
    """Return for each request its answers, or its own error.

    Guarantee: the same as for requests one after the other in this order. An answer says that it is a repeat exactly if
    another charge than this request's own paid for it, so a replayed key gives the same answers, flags included.
    """
    replies: list[Replies] = [[] for _ in asks]

    def tell(told: Sequence[tuple[int, Replies]]) -> None:
        for place, reply in told:
            replies[place] = reply

    ask_along(house, asking, [(ask, place) for place, ask in enumerate(asks)], more=list, tell=tell)
    return replies


def ask_along(
    house: House,
    asking: Asking,
    crowd: Sequence[tuple[Ask, T]],
    *,
    more: Callable[[], Sequence[tuple[Ask, T]]],
    tell: Callable[[Sequence[tuple[T, Replies]]], None],
) -> None:
    """Answer requests like :func:`ask_together`, and with them those that come meanwhile, so that commits are shared.

    Guarantee: the answers of one round and the charges of the next are one transaction; ``tell`` hears of an answer, by the
    token that came with its request, only after the commit that stored it, and of a refusal as soon as it is final; each
    token is told once. ``more`` is asked for newcomers before each commit, a limited number of times, so that whoever waits
    for the curator's lock gets it. Fails: with an error of the ledger, for all that were not told.
    """
    waiting = _parsed(house, crowd, tell)
    with house.lock:
        flying: _Flight[T] | None = None
        for turn in itertools.count():
            if turn < _MOST_TURNS:
                waiting += _parsed(house, more(), tell)
            if not waiting and flying is None:
                return
            flying, waiting = _turn(house, asking, waiting, flying, tell)


def _parsed(
    house: House, crowd: Sequence[tuple[Ask, T]], tell: Callable[[Sequence[tuple[T, Replies]]], None]
) -> list[_Parsed[T]]:
    """Return the requests that can be read; those that cannot, or that ask nothing, are told."""
    read: list[_Parsed[T]] = []
    told: list[tuple[T, Replies]] = []
    for ask, token in crowd:
        try:
            queries = tuple([house.parse(text) for text in ask.queries])
        except HoldtrueError as error:
            told.append((token, error))
            continue
        if queries:
            read.append(_Parsed(token, ask, queries, tuple([part_of(query) for query in queries])))
        else:
            told.append((token, []))
    if told:
        tell(told)
    return read


def _turn(
    house: House,
    asking: Asking,
    waiting: Sequence[_Parsed[T]],
    flying: _Flight[T] | None,
    tell: Callable[[Sequence[tuple[T, Replies]]], None],
) -> tuple[_Flight[T] | None, list[_Parsed[T]]]:
    """Store what was drawn, charge what waits, tell the one and measure the other.

    Those wait on that ask what another one of this turn pays for, since that one may be refused, or what is drawn already.
    """
    if waiting:
        house.register.follow()
    claimed = set(flying.parts) if flying is not None else set[str]()
    errands: list[Errand] = []
    bound: list[_Parsed[T]] = []
    known: list[_Parsed[T]] = []
    later: list[_Parsed[T]] = []
    for item in waiting:
        if not claimed.isdisjoint(item.parts):
            later.append(item)
            continue
        errand = _errand(house, asking, item)
        if errand is None:
            known.append(item)
        else:
            claimed.update(errand.release.parts)
            errands.append(errand)
            bound.append(item)
    charging = house.round(errands)
    stored, entries = house.ledger.settle(flying.round.bodies if flying is not None else (), charging.charges)
    told: list[tuple[T, Replies]] = [(item.token, _replies(house, item, own=0)) for item in known]
    if flying is not None:
        flying.round.stored(stored)
        told += _told(house, flying.items, flying.round)
    if told:
        tell(told)
    charging.charged(entries)
    if charging.bodies:
        drawn = frozenset([part for errand in errands for part in errand.release.parts])
        return _Flight(charging, bound, drawn), later
    charging.stored(())
    if bound:
        tell(_told(house, bound, charging))
    return None, later


def _told(house: House, items: Sequence[_Parsed[T]], settled: Round) -> list[tuple[T, Replies]]:
    told: list[tuple[T, Replies]] = []
    for item, outcome in zip(items, settled.outcomes, strict=True):
        if isinstance(outcome, HoldtrueError):
            told.append((item.token, outcome))
            continue
        # A request that an older answer served is told of that answer's entry, which is not its own.
        mine = outcome.fresh or outcome.request_id == item.ask.key
        told.append((item.token, _replies(house, item, own=outcome.number if mine else 0)))
    return told


def _errand(house: House, asking: Asking, item: _Parsed[T]) -> Errand | None:
    """Return what has to be charged: questions without an answer, or a key that is to be remembered; else None."""
    fresh = {
        part: query
        for part, query in zip(item.parts, item.queries, strict=True)
        if house.known(part, repeated=False) is None
    }
    if not fresh and not house.register.binds(item.ask.key):
        return None
    # The canonical JSON of {"queries": ..., "verb": "ask"}.
    request = f'{{"queries":{listed([query.text for query in item.queries])},"verb":"ask"}}'
    return Errand(
        asking.queries(list(fresh.values())),
        request,
        item.ask.key,
        house.analyst if item.ask.analyst is None else item.ask.analyst,
    )


def _replies(house: House, item: _Parsed[T], *, own: int) -> Replies:
    """Return the stored answers; an answer is a repeat if another charge than the own one paid for it."""
    found = []
    for part in item.parts:
        answer = house.known(part, repeated=False)
        if not isinstance(answer, Answer):
            return ReleaseError("the request was charged, but its response is not in the ledger")
        repeated = answer.certificate.entry != own
        found.append(answer if answer.repeated == repeated else replace(answer, repeated=repeated))
    return found
