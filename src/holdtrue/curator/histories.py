"""What happened, as the ledger has it."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import get_args

from holdtrue.accounting.filters import amount
from holdtrue.errors import HoldtrueError, IntegrityError
from holdtrue.ledgers import Ledger, read_charge
from holdtrue.records import Response, from_json

__all__ = ["Line", "history_of", "responses_of"]


@dataclass(frozen=True, slots=True)
class Line:
    """One charge: who asked what and when, what it cost, and what came back (empty where it was never answered)."""

    entry: int
    time: datetime
    analyst: str
    verb: str
    request: str
    cost: float
    spent: float
    digest: str
    responses: tuple[Response, ...]

    def __str__(self) -> str:
        said = "; ".join(response.brief for response in self.responses) or "not answered"
        when = f"{self.entry:>5}  {self.time:%Y-%m-%d %H:%M}  {self.analyst}"
        return f"{when}  {self.verb} {self.request}  {said}  cost {self.cost:.3g}"


def history_of(ledger: Ledger) -> list[Line]:
    """Return a line for every charge, oldest first."""
    entries = ledger.entries()
    answered = {
        entry.answers: tuple(responses_of(entry.body))
        for entry in entries
        if entry.kind == "response" and entry.body is not None
    }
    return [
        Line(
            entry=entry.number,
            time=datetime.fromtimestamp(entry.time, tz=UTC),
            analyst=entry.analyst or "",
            verb=entry.verb,
            request=_words(read_charge(entry).request),
            cost=amount(entry.cost),
            spent=amount(entry.spent),
            digest=entry.digest,
            responses=answered.get(entry.number, ()),
        )
        for entry in entries
        if entry.kind == "charge"
    ]


def responses_of(body: str) -> list[Response]:
    """Return the responses that an entry stored; IntegrityError for a body that this version does not write."""
    try:
        return [record for record in map(from_json, json.loads(body)) if isinstance(record, get_args(Response))]
    except (ValueError, KeyError, TypeError, AttributeError, HoldtrueError):
        pass
    message = "the ledger has a response that cannot be read"
    raise IntegrityError(message)


def _words(request: dict[str, object]) -> str:
    queries = request.get("queries")
    if isinstance(queries, list):
        return "; ".join(map(str, queries))
    if "points" in request:
        return f"{request['model']} at {_points(request['points'])}"
    if "target" in request:
        return str(request["target"])
    for kind in ("values", "scores"):
        if kind in request:
            name = str(request[kind])
            return f"{kind} {name}" if name.startswith("named ") else kind
    return ""


def _points(points: object) -> str:
    listed = points if isinstance(points, list) else []
    first = ", ".join(f"{name} = {value}" for name, value in listed[0].items()) if listed else "no point"
    return first if len(listed) <= 1 else f"{first} and {len(listed) - 1:,} more"
