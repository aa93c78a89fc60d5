"""One holdout behind the service: looked at by everyone with a key, each look once for each request."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from holdtrue.codec import plain
from holdtrue.errors import InvalidParameter, RefusedError
from holdtrue.holdouts import Holdout, Leaderboard, Place, Score, Verdict
from holdtrue.ledgers import Ledger

__all__ = ["HoldoutDesk"]

_BOTH = ("beta", "epsilon", "delta", "ids", "labels", "unseen")
_GATE = ("yes", "incumbent", "metric")
_REUSABLE = ("train", "overfits", "threshold", "tolerance")
_HOLDOUT = (*_BOTH, *_GATE, *_REUSABLE, "looks", "private", "weights", "reserve")
_LEADERBOARD = (*_BOTH, "submissions", "rule", "step", "moves")
_REGISTERED = "registered"  # the public name of the results that a gate was registered with
_T = TypeVar("_T")


class HoldoutDesk:
    """One holdout or leaderboard, and the thread that everything about it goes through.

    Guarantee: a key that comes again with the same body gets the same bytes and is no second look; with another body it is
    refused (P5). Results are known by their name, or by the key, and by nothing that they hold.
    """

    def __init__(self, name: str, document: dict[str, Any], *, truth: object, ledger: str | Path, new: bool) -> None:
        self.name = name
        self.description = str(document.get("description", ""))
        self._document = document
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="looks")
        if new:  # in memory first: what cannot be opened must not leave a ledger under the name
            self._opened(truth, None).close()
        self._kept = self._opened(truth, ledger)

    @property
    def board(self) -> bool:
        """Return whether this is a leaderboard."""
        return self._document.get("kind") == "leaderboard"

    @property
    def ledger(self) -> Ledger:
        """Return the ledger of the looks, to be read."""
        return self._kept.ledger

    async def card(self) -> dict[str, Any]:
        """Return what is public: how many cases, in which mode, and how many looks are left."""
        return await self._run(self._card)

    async def standings(self) -> list[Place]:
        """Return the standings of a leaderboard. Free."""
        return await self._run(self._leaderboard().standings)

    async def look(self, verb: str, given: Mapping[str, Any], *, key: str, analyst: str) -> Score | Verdict:
        """Return what is told for a look; the same whenever the same key and body come."""
        return await self._run(lambda: self._look(verb, dict(given), {"key": key, "analyst": analyst}))

    def close(self) -> None:
        """Finish what is under way and let go of the cases."""
        self._thread.shutdown()
        self._kept.close()

    async def _run(self, function: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    def _look(self, verb: str, given: dict[str, Any], who: dict[str, Any]) -> Score | Verdict:
        given = {name: value for name, value in given.items() if value is not None}
        match verb:
            case "submit":
                return self._leaderboard().submit(**given, **who)
            case "gate":
                return self._holdout().gate(**given, **who)
            case "certify":
                return self._holdout().certify(**who)
            case "compare" if given.pop("results", False):
                return self._holdout().compare_cases(**given, **who)
            case "compare":
                for each in {"differ", "name"} & set(given):
                    raise InvalidParameter(each, "given", "left out unless results are compared")
                return self._holdout().compare(**given, **who)
            case _:
                return self._holdout().score(**given, **who)

    def _opened(self, truth: object, ledger: str | Path | None) -> Holdout | Leaderboard:
        document, names = self._document, _LEADERBOARD if self.board else _HOLDOUT
        given: dict[str, Any] = {name: document[name] for name in names if document.get(name) is not None}
        if document.get("classes") is not None:
            given["classes"] = {label: number for label, number in document["classes"]}  # noqa: C416 - a list of pairs
        if self.board:
            return Leaderboard(truth, ledger=ledger, **given)
        if "incumbent" in given and document.get("metric") == "cases":
            given["incumbent_name"] = _REGISTERED
        return Holdout(truth, ledger=ledger, **given)

    def _holdout(self) -> Holdout:
        if not isinstance(self._kept, Holdout):
            message = "this is a leaderboard: it takes submissions, and has standings"
            raise RefusedError(message)
        return self._kept

    def _leaderboard(self) -> Leaderboard:
        if not isinstance(self._kept, Leaderboard):
            message = "this is a holdout: it has scores or a gate, no standings"
            raise RefusedError(message)
        return self._kept

    def _card(self) -> dict[str, Any]:
        kept = self._kept
        left = kept.left if isinstance(kept, Leaderboard) else kept.looks_left
        facts: dict[str, Any] = plain(kept.facts)
        facts.pop("incumbent", None)
        return {
            "name": self.name,
            "kind": "leaderboard" if self.board else "holdout",
            "description": self.description,
            "cases": kept.plan.rows,
            "looks_left": left,
            "alpha": kept.plan.alpha,
            "theorem": kept.plan.theorem,
        } | facts
