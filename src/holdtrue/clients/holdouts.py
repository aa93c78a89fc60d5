"""Holdouts and leaderboards of a service: the same looks, shared by everyone who has a key."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from holdtrue.clients.wires import Kind, Wire, segment
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number
from holdtrue.holdouts import Place, Score, Verdict

__all__ = ["RemoteHoldout", "RemoteLeaderboard", "listed"]


def listed(name: str, values: object) -> list[Any]:
    """Return one row of values as plain JSON; missing numbers are null."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidParameter(name, f"an array with {array.ndim} dimensions", "one row of values")
    return [_plain(name, value) for value in array.tolist()]


def _plain(name: str, value: object) -> object:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    raise InvalidParameter(name, type(value).__name__, "numbers, texts, True or False")


class _Standings(Struct):
    standings: list[Place]


class _Kept:
    """What the service keeps under a name."""

    def __init__(self, wire: Wire, name: str) -> None:
        self._wire = wire
        self.name = name
        self._path = f"/v1/holdouts/{segment(name)}"

    @property
    def card(self) -> dict[str, Any]:
        """Return what is public: kind, mode, cases, looks and how many are left."""
        found: dict[str, Any] = self._wire.read(self._path)
        return found

    @property
    def looks_left(self) -> int:
        """Return how many looks are left, over everyone."""
        return int(self.card["looks_left"])

    def _look(self, verb: str, document: Mapping[str, object], kind: type[Kind], key: str | None) -> Kind:
        told = {name: value for name, value in document.items() if value is not None}
        return self._wire.send(f"{self._path}/{verb}", told, kind, key=key)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self._wire.url}>"


class RemoteHoldout(_Kept):
    """A holdout of a service, with the looks of :class:`~holdtrue.holdouts.Holdout`; functions are not sent as metrics."""

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
        """Return the score of predictions, or of results that came from elsewhere (``cases``), one a case."""
        if not isinstance(metric, str):
            raise InvalidParameter("metric", type(metric).__name__, "the name of a metric; give cases= for one of your own")
        asked = _submitted(y_pred, cases, ids) | {"train": _row("train", train), "of": of, "name": name}
        if threshold is not None:
            asked["threshold"] = float(threshold)
        if y_pred is not None:
            asked["metric"] = metric
        return self._look("score", asked, Score, key)

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
        asked = _submitted(y_pred, cases, ids) | {"margin": float(margin), "name": name}
        return self._look("gate", asked, Verdict, key)

    def certify(self, *, key: str | None = None) -> Score:
        """Close a gate for good and return its incumbent's score; for the owner."""
        return self._look("certify", {}, Score, key)

    def compare(self, first: object, second: object, *, ids: object = None, key: str | None = None) -> Score:
        """Return by how much the first submission's accuracy is above the second's: one look."""
        asked = {"first": _row("first", first), "second": _row("second", second), "ids": _row("ids", ids)}
        return self._look("compare", asked, Score, key)

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
            "first": _row("first", first),
            "second": _row("second", second),
            "ids": _row("ids", ids),
            "differ": _row("differ", differ),
            "name": name,
            "results": True,
        }
        return self._look("compare", asked, Score, key)


class RemoteLeaderboard(_Kept):
    """A leaderboard of a service."""

    def submit(self, name: str | None, y_pred: object, *, ids: object = None, key: str | None = None) -> Score:
        """Take a submission; it stands under the key's name, with ``name`` behind it if given."""
        asked = {"name": name, "y_pred": _row("y_pred", y_pred), "ids": _row("ids", ids)}
        return self._look("submit", asked, Score, key)

    def standings(self) -> list[Place]:
        """Return every name with what was told of its best submission, the best first, ties as ties. Free."""
        return self._wire.read(f"{self._path}/standings", _Standings).standings

    @property
    def left(self) -> int:
        """Return how many submissions are left."""
        return self.looks_left


def _row(name: str, values: object) -> list[Any] | None:
    return None if values is None else listed(name, values)


def _submitted(y_pred: object, cases: object, ids: object) -> dict[str, Any]:
    if (y_pred is None) == (cases is None):
        raise InvalidParameter("y_pred", "none or two", "given, or cases in its place")
    return {"y_pred": _row("y_pred", y_pred), "cases": _row("cases", cases), "ids": _row("ids", ids)}
