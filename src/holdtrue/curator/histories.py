"""What happened, as the ledger has it."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from holdtrue.accounting.filters import amount
from holdtrue.ledgers import Ledger
from holdtrue.records import Answer, Choice, Record, from_json

__all__ = ["Line", "history_of"]


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
    responses: tuple[Record, ...]

    def __str__(self) -> str:
        said = "; ".join(_brief(response) for response in self.responses) or "not answered"
        when = f"{self.entry:>5}  {self.time:%Y-%m-%d %H:%M}  {self.analyst}"
        return f"{when}  {self.verb} {self.request}  {said}  cost {self.cost:.3g}"


def history_of(ledger: Ledger) -> list[Line]:
    """Return a line for every charge, oldest first."""
    entries = ledger.entries()
    answered = {
        entry.answers: tuple(from_json(document) for document in json.loads(entry.body))
        for entry in entries
        if entry.kind == "response" and entry.body is not None
    }
    return [
        Line(
            entry=entry.number,
            time=datetime.fromtimestamp(entry.time, tz=UTC),
            analyst=entry.analyst or "",
            verb=entry.verb,
            request=_words(json.loads(entry.body)["request"]) if entry.body else "",
            cost=amount(entry.cost),
            spent=amount(entry.spent),
            digest=entry.digest,
            responses=answered.get(entry.number, ()),
        )
        for entry in entries
        if entry.kind == "charge"
    ]


def _words(request: dict[str, object]) -> str:
    queries = request.get("queries")
    return "; ".join(map(str, queries)) if isinstance(queries, list) else "values" if "values" in request else "scores"


def _brief(response: Record) -> str:
    match response:
        case Answer(value=value, interval=interval):
            return f"{value:.4g}" + (f" [{interval.low:.3g}, {interval.high:.3g}]" if interval else "")
        case Choice(name=name):
            return name
        case _:
            return type(response).__name__.lower()
