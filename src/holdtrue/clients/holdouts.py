"""Holdouts and leaderboards of a service: the same looks, shared by everyone who has a key."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from holdtrue.clients.transport import Kind, Transport, quote_segment
from holdtrue.curator.history import Line, Page
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number
from holdtrue.holdouts.records import HoldoutBudget, Place, Score, Verdict
from holdtrue.records import Listing

__all__ = ["RemoteHoldout", "RemoteLeaderboard", "read_pages", "to_json_list", "to_optional_list"]

_LINES = 1000


def to_json_list(name: str, values: object) -> list[Any]:
    """Return one row of values as plain JSON; missing numbers are null."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidParameter.without_value(name, f"one row of values, not an array with {array.ndim} dimensions")
    return [_to_json_value(name, value) for value in array.tolist()]


def to_optional_list(name: str, values: object) -> list[Any] | None:
    """Return one row of values as plain JSON, or nothing where none is given."""
    return None if values is None else to_json_list(name, values)


def _to_json_value(name: str, value: object) -> object:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    raise InvalidParameter(name, type(value).__name__, "numbers, texts, True or False")


def read_pages(transport: Transport, path: str) -> Listing[Line]:
    """Return a history, oldest first, read page by page."""
    place = f"{path}?limit={_LINES}"
    pages = [transport.read(place, Page)]
    while pages[-1].before is not None:
        pages.append(transport.read(f"{place}&before={pages[-1].before}", Page))
    return Listing(line for page in reversed(pages) for line in page.lines)


class _Standings(Struct):
    standings: list[Place]


class _RemoteCases:
    """A holdout or a leaderboard that the service has under a name."""

    def __init__(self, transport: Transport, name: str) -> None:
        self._transport = transport
        self.name = name
        self._path = f"/v1/holdouts/{quote_segment(name)}"

    @property
    def card(self) -> dict[str, Any]:
        """Return what is public: kind, mode, cases, looks and how many are left."""
        found: dict[str, Any] = self._transport.read(self._path)
        return found

    @property
    def looks_left(self) -> int:
        """Return how many looks are left for all callers together."""
        return int(self.card["looks_left"])

    @property
    def budget(self) -> HoldoutBudget:
        """Return how many looks and yes are left, and how wide what is told is."""
        return self._transport.read(f"{self._path}/budget", HoldoutBudget)

    @property
    def history(self) -> Listing[Line]:
        """Return the looks that this key may see and what they said, oldest first; read page by page."""
        return read_pages(self._transport, f"{self._path}/history")

    def _send_look(self, verb: str, document: Mapping[str, object], kind: type[Kind], key: str | None) -> Kind:
        told = {name: value for name, value in document.items() if value is not None}
        return self._transport.send(f"{self._path}/{verb}", told, kind, key=key)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self._transport.url}>"


class RemoteHoldout(_RemoteCases):
    """A holdout of a service, with the methods of :class:`~holdtrue.holdouts.Holdout`; a metric cannot be a function."""

    def score(  # noqa: PLR0913 - a submission, how to score it, and its key
        self,
        y_pred: object = None,
        *,
        metric: str = "accuracy",
        cases: object = None,
        train: object = None,
        of: object = None,
        ids: object = None,
        name: str | None = None,
        threshold: Number | None = None,
        key: str | None = None,
    ) -> Score:
        """Return the score of predictions, or of results computed elsewhere (``cases``), one per case."""
        if not isinstance(metric, str):
            raise InvalidParameter("metric", type(metric).__name__, "the name of a metric; give cases= for one of your own")
        asked = _make_submission(y_pred, cases, ids) | {"train": to_optional_list("train", train), "of": of, "name": name}
        if threshold is not None:
            asked["threshold"] = float(threshold)
        if y_pred is not None:
            asked["metric"] = metric
        return self._send_look("score", asked, Score, key)

    def gate(  # noqa: PLR0913 - a submission, how it is known, and its key
        self,
        y_pred: object = None,
        *,
        margin: Number = 0,
        cases: object = None,
        ids: object = None,
        name: str | None = None,
        key: str | None = None,
    ) -> Verdict:
        """Say yes or no: is this better than the incumbent by more than the margin? A yes makes it the incumbent."""
        asked = _make_submission(y_pred, cases, ids) | {"margin": float(margin), "name": name}
        return self._send_look("gate", asked, Verdict, key)

    def certify(self, what: str = "score", *, of: str | None = None, key: str | None = None) -> Score:
        """Close a gate for good and return its incumbent's score, its gain, or the bound ``of`` a yes; for the owner."""
        return self._send_look("certify", {"what": what, "of": of}, Score, key)

    def compare(self, first: object, second: object, *, ids: object = None, key: str | None = None) -> Score:
        """Return by how much the first submission's accuracy is above the second's: one look."""
        asked = {
            "first": to_optional_list("first", first),
            "second": to_optional_list("second", second),
            "ids": to_optional_list("ids", ids),
        }
        return self._send_look("compare", asked, Score, key)

    def compare_cases(  # noqa: PLR0913 - two submissions, how they are known, and a key
        self,
        first: object,
        second: object,
        *,
        differ: object = None,
        ids: object = None,
        name: str | None = None,
        key: str | None = None,
    ) -> Score:
        """Return by how much the first submission's results are above the second's: one look."""
        asked = {
            "first": to_optional_list("first", first),
            "second": to_optional_list("second", second),
            "ids": to_optional_list("ids", ids),
            "differ": to_optional_list("differ", differ),
            "name": name,
            "results": True,
        }
        return self._send_look("compare", asked, Score, key)


class RemoteLeaderboard(_RemoteCases):
    """A leaderboard of a service."""

    def submit(self, name: str | None, y_pred: object, *, ids: object = None, key: str | None = None) -> Score:
        """Submit predictions under the key's name, followed by ``name`` if given."""
        asked = {"name": name, "y_pred": to_optional_list("y_pred", y_pred), "ids": to_optional_list("ids", ids)}
        return self._send_look("submit", asked, Score, key)

    def standings(self) -> list[Place]:
        """Return each name with the score of its best submission, best first; ties share a rank. Free."""
        return self._transport.read(f"{self._path}/standings", _Standings).standings

    @property
    def left(self) -> int:
        """Return how many submissions are left."""
        return self.looks_left


def _make_submission(y_pred: object, cases: object, ids: object) -> dict[str, Any]:
    if (y_pred is None) == (cases is None):
        raise InvalidParameter.without_value("y_pred", "given, or cases instead of it, and not both")
    return {
        "y_pred": to_optional_list("y_pred", y_pred),
        "cases": to_optional_list("cases", cases),
        "ids": to_optional_list("ids", ids),
    }
