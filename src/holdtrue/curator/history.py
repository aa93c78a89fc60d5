"""What happened, as the ledger has it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from holdtrue.codec import decode, digest_of, plain
from holdtrue.errors import IntegrityError, InvalidParameter, RequestError
from holdtrue.exact import amount
from holdtrue.ledgers.entries import Entry, read_charge
from holdtrue.ledgers.ledger import Ledger
from holdtrue.records import FittedModel, Hypothesis, Listing, Response

__all__ = ["Line", "Page", "digest_released", "find_released", "history_of", "history_page", "responses_of"]

_WINDOW = 64  # entries read at a time: whoever charges waits no longer than for these
_SPARE = 8  # entries that are neither a charge nor its response
_MOST_READ = 5_000
_LATER = frozenset({"certificate", "repeated", "checked", "reason"})  # what a response says of itself besides the rule


@dataclass(frozen=True, slots=True)
class Line:
    """One charge: who asked what and when, what it cost, and what came back.

    ``responses`` are empty where it was never answered, and where what was drawn is in the ``estimator`` that asked.
    """

    entry: int
    time: datetime
    analyst: str
    verb: str
    request: str
    cost: float
    spent: float
    digest: str
    responses: tuple[Response, ...]
    estimator: str = ""

    def list_values(self) -> dict[str, Any]:
        """Return what a table of the history has in its row."""
        facts = {"entry": self.entry, "time": self.time, "analyst": self.analyst, "verb": self.verb}
        return facts | {"request": self.request, "response": self.told, "cost": self.cost}

    @property
    def told(self) -> str:
        """Return what came back, in a few words."""
        said = "; ".join(response.brief for response in self.responses)
        free = "a search began" if self.verb == "quantile" else "asked before"
        return said or (f"kept by {self.estimator}" if self.estimator else "not answered" if self.cost else free)

    def __str__(self) -> str:
        when = f"{self.entry:>5}  {self.time:%Y-%m-%d %H:%M}  {self.analyst}"
        return f"{when}  {self.verb} {self.request}  {self.told}  cost {self.cost:.3g}"


def history_of(ledger: Ledger) -> Listing[Line]:
    """Return a line for every charge, oldest first."""
    entries = ledger.entries()
    answered = {
        entry.answers: tuple(responses_of(entry.body))
        for entry in entries
        if entry.kind == "response" and entry.body is not None
    }
    return Listing(_make_line(entry, answered.get(entry.number, ())) for entry in entries if entry.kind == "charge")


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a history, oldest first. Older lines, if there are any, are before the entry ``before``; else it is None."""

    lines: tuple[Line, ...]
    before: int | None


def history_page(ledger: Ledger, *, before: int | None = None, limit: int = 100, analyst: str | None = None) -> Page:
    """Return the newest charges, or the newest before an entry: at most ``limit`` of them, of one analyst if one is named.

    Law: following ``before`` from page to page gives every line of :func:`history_of` once. Work: at most 5,000 entries are
    read, a few hundred at a time, so nobody who charges waits long, however long the ledger is; a page of one analyst may
    have fewer lines than ``limit``, or none, and still say where older ones are.
    """
    stop = min(before or ledger.newest() + 1, ledger.newest() + 1)
    found: list[Entry] = []
    answered: dict[int, str] = {}
    first = max(1, stop - _MOST_READ)
    while stop > first and len(found) < limit:
        start = max(first, stop - min(_WINDOW, 2 * (limit - len(found)) + _SPARE))
        for entry in reversed(ledger.entries(start, stop)):
            if entry.kind == "response" and entry.body is not None and entry.answers is not None:
                answered[entry.answers] = entry.body
            elif entry.kind == "charge" and (analyst is None or entry.analyst == analyst) and len(found) < limit:
                found.append(entry)
                start = entry.number if len(found) == limit else start
        stop = start
    lines = [_make_line(entry, _find_responses(ledger, entry, answered)) for entry in reversed(found)]
    return Page(tuple(lines), stop if stop > 1 else None)


def _find_responses(ledger: Ledger, entry: Entry, answered: Mapping[int, str]) -> tuple[Response, ...]:
    """Return the responses to a charge; one that was stored after the page's own entries is looked up."""
    body = answered.get(entry.number)
    if body is None:
        paid = ledger.find(request_id=entry.request_id)
        body = None if paid is None else paid.response
    return () if body is None else tuple(responses_of(body))


def _make_line(entry: Entry, responses: tuple[Response, ...]) -> Line:
    request = read_charge(entry).request
    return Line(
        entry=entry.number,
        time=datetime.fromtimestamp(entry.time, tz=UTC),
        analyst=entry.analyst or "",
        verb=entry.verb,
        request=_format_request(request),
        cost=amount(entry.cost),
        spent=amount(entry.spent),
        digest=entry.digest,
        responses=responses,
        estimator=str(request.get("estimator", "")),
    )


def responses_of(body: str) -> list[Response]:
    """Return the responses that an entry stored; IntegrityError for a body that this version does not write."""
    try:
        found: list[Response] = decode(body, list[Response])
    except RequestError:
        message = "the ledger has a response that cannot be read"
        raise IntegrityError(message) from None
    return found


def _format_request(request: dict[str, object]) -> str:
    queries = request.get("queries")
    if isinstance(queries, list):
        deduced = request.get("deduced")
        return "; ".join(map(str, [*queries, *(deduced if isinstance(deduced, list) else [])]))
    if isinstance(statistics := request.get("statistics"), list):
        return "; ".join(map(str, statistics))
    if isinstance(columns := request.get("columns"), list):
        where = request.get("where")
        by = ", ".join(map(str, columns)) + ("" if where is None else f" where {where}")
        if "measure" in request:
            averaged = request["column"] if request["measure"] == "mean" else f"share of {request['column']}"
            return f"{averaged}{' by ' if columns else ''}{by}"
        return by
    if "grid" in request:
        where = request.get("where")
        return str(request["column"]) + ("" if where is None else f" where {where}")
    if "points" in request:
        return f"{request['model']} at {_format_points(request['points'])}"
    if "target" in request:
        return str(request["target"])
    for kind in ("values", "scores"):
        if kind in request:
            name = str(request[kind])
            return f"{kind} {name}" if name.startswith("named ") else kind
    return ""


def _format_points(points: object) -> str:
    listed = points if isinstance(points, list) else []
    first = ", ".join(f"{name} = {value}" for name, value in listed[0].items()) if listed else "no point"
    return first if len(listed) <= 1 else f"{first} and {len(listed) - 1:,} more"


def digest_released(found: Hypothesis | FittedModel) -> str:
    """Return what names a released rule or model: the digest of its entry and of all that was said of it then."""
    said = {name: value for name, value in plain(found).items() if name not in _LATER}
    return digest_of(said | {"entry": found.certificate.digest})


def find_released(
    ledger: Ledger,
    what: Any,  # noqa: ANN401 - or its entry
    *,
    student: bool = False,
    digest: str | None = None,
    seen_by: str | None = None,
) -> tuple[Any, str]:
    """Return what a ledger released, a student or a rule or model or the number of its entry, and what it predicts.

    ``digest`` is :func:`digest_released` of what whoever names an entry has; without it ``seen_by`` may name only what the
    same analyst paid for, and the owner, None, all. Failure: InvalidParameter for anything else,
    such as what another ledger paid for, and for a rule or model that is not as it was released.
    """
    given = what if student or isinstance(what, (Hypothesis, FittedModel)) else None
    number = what if given is None else given.certificate.entry
    entry = ledger.entries(number, number + 1)[0] if type(number) is int and 0 < number <= ledger.newest() else None
    verbs = ("predict", "screen") if student else ("learn", "fit")
    shown = given is not None or digest is not None or seen_by is None or (entry is not None and entry.analyst == seen_by)
    if shown and entry is not None and entry.kind == "charge" and entry.verb in verbs:
        told: Any = what if student else next(iter(_find_responses(ledger, entry, {})), None)
        named = digest if student or given is None else digest_released(given)
        if told is not None and told.certificate.digest == entry.digest and named in (None, named and digest_released(told)):
            return given or told, str(read_charge(entry).request.get("target", ""))
    if given is not None or digest is not None:
        message = "this is not what was released on this ledger: it is another one's, or was changed since it was returned"
        raise InvalidParameter.saying("model", message)
    expected = "the name of a model, or what learn, fit or distill returned on this ledger, or an entry of learn or fit"
    raise InvalidParameter("model", what, expected)
