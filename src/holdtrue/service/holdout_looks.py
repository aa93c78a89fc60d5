"""One holdout behind the service: looked at by everyone with a key, each look once for each request.

A holdout has no key for a request, only the submission itself; so what was told under a key is written down, and told again
in the same words. A gate's submissions are kept while they may be the incumbent, since only whoever has the incumbent's
predictions can go on with a gate: another worker, or this one after a restart.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from holdtrue.codec import encode, plain
from holdtrue.errors import HoldtrueError, InvalidParameter, RefusedError, ReleaseError
from holdtrue.holdouts import Holdout, Leaderboard, Place, Score, Verdict
from holdtrue.service.holdout_replies import Replies

__all__ = ["HoldoutDesk"]

_TRIES = 5
_BOTH = ("beta", "epsilon", "delta", "ids", "labels", "unseen")
_HOLDOUT = (*_BOTH, "looks", "yes", "train", "overfits", "private", "threshold", "tolerance", "metric", "weights")
_LEADERBOARD = (*_BOTH, "submissions", "rule", "step", "moves")
_REGISTERED = "registered"  # the public name of the results that a gate was registered with
_T = TypeVar("_T")


class HoldoutDesk:
    """One holdout or leaderboard, and the thread that everything about it goes through.

    Guarantee: a key that comes again with the same body gets the same bytes and is no second look; with another body it is
    refused (P5). Fails: a worker killed between a look and its reply may make the next try a repeat, told by ``repeated``.
    """

    def __init__(  # noqa: PLR0913 - what is kept of a holdout, and where
        self,
        name: str,
        document: dict[str, Any],
        *,
        truth: object,
        ledger: str | Path,
        replies: Replies,
        new: bool,
    ) -> None:
        self.name = name
        self.description = str(document.get("description", ""))
        self._document, self._truth, self._ledger, self._replies = document, truth, ledger, replies
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="looks")
        self._met: str | None = None
        self._kept = self._opened(new=new)

    @property
    def board(self) -> bool:
        """Return whether this is a leaderboard."""
        return self._document.get("kind") == "leaderboard"

    async def card(self) -> dict[str, Any]:
        """Return what is public: how many cases, in which mode, and how many looks are left."""
        return await self._run(self._card)

    async def standings(self) -> list[Place]:
        """Return the standings of a leaderboard. Free."""
        return await self._run(self._leaderboard().standings)

    async def look(self, verb: str, given: Mapping[str, Any], *, key: str, analyst: str) -> bytes:
        """Return what is told for a look, as JSON; the same bytes whenever the same key and body come."""
        return await self._run(lambda: self._look(verb, dict(given), key, analyst))

    def close(self) -> None:
        """Finish what is under way and let go of the cases."""
        self._thread.shutdown()
        self._kept.close()

    async def _run(self, function: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    def _look(self, verb: str, given: dict[str, Any], key: str, analyst: str) -> bytes:
        content = encode({"verb": verb, "given": given}).encode()
        said = self._replies.begun(key, content)
        if said is None:
            try:
                record = self._told(verb, given, key, analyst)
            except ReleaseError as error:
                failed = {"failed": str(error), "entry": error.entry}
                said = self._replies.keep(key, encode(failed))
            except HoldtrueError:
                self._replies.forget(key)  # nothing was spent, so the key is free again
                raise
            else:
                said = self._replies.keep(key, encode(record))
        document = json.loads(said)
        if "failed" in document:
            raise ReleaseError(document["failed"], entry=document["entry"])
        return said.encode()

    def _told(self, verb: str, given: dict[str, Any], key: str, analyst: str) -> Score | Verdict:
        given = {name: value for name, value in given.items() if value is not None}
        match verb:
            case "submit":
                board = self._leaderboard()
                return board.submit(given["name"], given["y_pred"], ids=given.get("ids"))
            case "gate":
                return self._gate(_named(given, key), key, analyst)
            case "certify":
                self._meet()
                return self._holdout().certify(analyst=analyst)
            case "compare" if given.pop("results", False):
                pair = {name: given[name] for name in ("first", "second")}
                about = {name: given[name] for name in ("differ", "ids") if name in given}
                return self._holdout().compare_cases(**pair, **about, name=f"request {key}", analyst=analyst)
            case "compare":
                if "differ" in given:
                    raise InvalidParameter("differ", "given", "left out, but for a comparison of results")
                return self._holdout().compare(given["first"], given["second"], ids=given.get("ids"), analyst=analyst)
            case _:
                return self._holdout().score(**_named(given, key), analyst=analyst)

    def _gate(self, given: dict[str, Any], key: str, analyst: str) -> Verdict:
        """Make one look at a gate, as whoever has the incumbent; kept before, since the look may make it the next one."""
        for _ in range(_TRIES):
            holdout = self._meet()
            if holdout.facts.mode != "gate":
                return holdout.gate(**given, analyst=analyst)
            submitted = {part: value for part, value in given.items() if part in ("y_pred", "cases", "ids")}
            name = holdout.named(**submitted, name=given.get("name"))
            self._replies.hold(name, key, submitted)
            try:
                verdict = holdout.gate(**given, analyst=analyst)
            except HoldtrueError as error:
                leading = holdout.leading
                if leading != name:
                    self._replies.drop(name, key)
                if not isinstance(error, RefusedError) or leading == self._met:
                    raise
                continue  # another worker's submission became the incumbent in between
            if verdict.yes and not verdict.repeated:
                self._met = name
            if holdout.leading != name:
                self._replies.drop(name, key)
            return verdict
        message = "the incumbent changes faster than this look can be made; send it again"
        raise RefusedError(message)

    def _meet(self) -> Holdout:
        """Return the gate with the incumbent that the ledger has, opened anew where another worker made it."""
        holdout = self._holdout()
        if holdout.facts.mode == "gate" and holdout.leading != self._met:
            holdout.close()
            holdout = self._reopened()
            self._kept = holdout
        return holdout

    def _opened(self, *, new: bool) -> Holdout | Leaderboard:
        if self.board:
            return Leaderboard(self._truth, ledger=self._ledger, **self._given)
        if not new:
            return self._reopened()
        # In memory first: what cannot be opened must not leave a ledger under the name.
        first = self._incumbent(self._document.get("incumbent"), _REGISTERED)
        Holdout(self._truth, **self._given, **first).close()
        holdout = Holdout(self._truth, ledger=self._ledger, **self._given, **first)
        self._met = holdout.leading if holdout.facts.mode == "gate" else None
        return holdout

    def _incumbent(self, submitted: list[Any] | None, name: str) -> dict[str, Any]:
        """Return how a gate is opened with an incumbent: results are known by a name, predictions by themselves."""
        known = {"incumbent_name": name} if submitted is not None and self._document.get("metric") == "cases" else {}
        return {"incumbent": submitted} | known

    def _reopened(self) -> Holdout:
        """Return the holdout as its ledger has it; a gate goes on with the incumbent of its last yes."""
        holdout = Holdout(self._truth, ledger=self._ledger, **self._given)
        if holdout.facts.mode != "gate":
            return holdout
        leading, first = holdout.leading, self._document.get("incumbent")
        if leading is None and first is None:
            self._met = None
            return holdout
        held = None if leading is None else self._replies.held(leading)
        holdout.close()
        met = self._incumbent(first, _REGISTERED)
        if held is not None and leading is not None:
            met = self._incumbent(self._in_order(held), leading)
        holdout = Holdout(self._truth, ledger=self._ledger, **self._given, **met)
        self._met = holdout.leading
        return holdout

    def _in_order(self, submitted: dict[str, Any]) -> list[Any]:
        """Return a submission in the order in which the cases were registered."""
        values: list[Any] = submitted["y_pred"] if "y_pred" in submitted else submitted["cases"]
        if "ids" not in submitted:
            return values
        by_id = dict(zip(submitted["ids"], values, strict=True))
        return [by_id[each] for each in self._document["ids"]]

    @property
    def _given(self) -> dict[str, Any]:
        document, names = self._document, _LEADERBOARD if self.board else _HOLDOUT
        given = {name: document[name] for name in names if document.get(name) is not None}
        if document.get("classes") is not None:
            given["classes"] = {label: number for label, number in document["classes"]}  # noqa: C416 - a list of pairs
        return given

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


def _named(given: dict[str, Any], key: str) -> dict[str, Any]:
    """Return a look with a public name where results have none of their own: that of the request."""
    return {"name": f"request {key}"} | given if "cases" in given else given
