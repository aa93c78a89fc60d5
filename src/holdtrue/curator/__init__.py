"""The curator: guards one dataset and answers about it in five steps, once each, in this order.

plan → charge → measure → draw → respond. The charge is durable before a row is read; only *measure* sees rows; only *draw*
sees what it measured; *respond* sees only the drawn value; the answer is stored before it leaves.
"""

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Self, overload

import numpy as np
import numpy.typing as npt

from holdtrue.curator.budgets import Budget, Preview, budget_of, preview_of
from holdtrue.curator.histories import Line, history_of
from holdtrue.curator.opening import open_all
from holdtrue.curator.registers import Register
from holdtrue.curator.steps import carry_out
from holdtrue.errors import CuratorClosed, InvalidParameter, ReleaseError
from holdtrue.exact import Number, integers
from holdtrue.planning import AnyPlan, Plan
from holdtrue.queries.parsing import parse
from holdtrue.queries.trees import Query
from holdtrue.records import Answer, Choice, canonical
from holdtrue.reports import html_report
from holdtrue.verbs import Release, asking, selecting

__all__ = ["Curator"]

_TEXTS = 4096
_LOST = "the request was charged, but its response is not in the ledger"


class Curator:
    """Guards one dataset.

    Guarantee: everything that leaves, over all analysts, sessions and verbs, is private as the plan says, and if the rows
    are independent draws (``iid=True``) every population interval covers at once with the plan's confidence, however the
    questions were chosen. A charge is on disk before rows are read (P3), the ledger never overspends (P4), and the same
    request again returns the stored answer for nothing (P5). Needs: rows that nobody has looked at otherwise, and a
    custodian who is trusted. Fails: with an error of the tree whose branch says whether budget was spent.
    """

    def __init__(  # noqa: PLR0913 - everything that is fixed when a ledger is created
        self,
        data: object,
        *,
        ledger: str | PathLike[str] | None = None,
        plan: AnyPlan | None = None,
        queries: int | None = None,
        alpha: Number | None = None,
        beta: Number = 0.05,
        epsilon: Number | None = None,
        delta: Number | None = None,
        reserve: Number = 0.25,
        uses: int = 10,
        cap: str | None = None,
        iid: bool | None = None,
        pure: bool = False,
        types: Mapping[str, str] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        labels: Mapping[str, Sequence[object]] | None = None,
        analyst: str = "analyst",
    ) -> None:
        opened = open_all(
            data,
            ledger,
            plan=plan,
            queries=queries,
            alpha=alpha,
            beta=beta,
            epsilon=epsilon,
            delta=delta,
            reserve=reserve,
            uses=uses,
            cap=cap,
            iid=iid,
            pure=pure,
            types=types,
            bounds=bounds,
            labels=labels,
        )
        self._engine, self._ledger, self.plan = opened.engine, opened.ledger, opened.plan
        self.card = opened.engine.card
        self._limit = self._ledger.terms.filter
        self._asking = asking.Asking.under(self.plan, rows=self.card.rows)
        self._analyst = analyst
        self._register = Register(self._ledger)
        self._lock = threading.RLock()
        # Parsing depends on text and card alone, and agents ask the same things in the same words.
        self._parse = lru_cache(_TEXTS)(lambda text: parse(text, self.card))
        self._closed = False

    @overload
    def ask(self, queries: str, *, key: str | None = None, analyst: str | None = None) -> Answer: ...
    @overload
    def ask(
        self, queries: list[str] | tuple[str, ...], *, key: str | None = None, analyst: str | None = None
    ) -> list[Answer]: ...
    @overload
    def ask(self, *, values: object, key: str | None = None, analyst: str | None = None) -> Answer: ...
    def ask(
        self,
        queries: str | list[str] | tuple[str, ...] | None = None,
        *,
        values: object = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Answer | list[Answer]:
        """Answer one question, several at once, or the mean of per-row numbers in [0, 1].

        A question asked before is answered from the ledger and costs nothing. ``key`` names this request: sent again with
        the same key, it is charged once. Several questions are charged together and measured in one pass.
        """
        self._check_open()
        if (queries is None) == (values is None):
            raise InvalidParameter("queries", queries, "given, or values in its place")
        if values is not None:
            return self._ask_values(values, key, analyst)
        texts = [queries] if isinstance(queries, str) else list(queries or ())
        parsed = [self._parse(text) for text in texts]
        if not parsed:
            return []
        distinct = {asking.part_of(query): query for query in parsed}
        with self._lock:
            self._register.follow()
            fresh = {part: query for part, query in distinct.items() if self._register.answer(part, repeated=False) is None}
            if fresh or key is not None:
                release = self._asking.queries(list(fresh.values()))
                request = {"verb": "ask", "queries": [query.text for query in parsed]}
                self._carry_out(release, request, key, analyst, self._summed(release))
            answers = [self._register.answer(part, repeated=part not in fresh) for part in map(asking.part_of, parsed)]
        found = [answer for answer in answers if isinstance(answer, Answer)]
        return found[0] if isinstance(queries, str) else found

    def _ask_values(self, values: object, key: str | None, analyst: str | None) -> Answer:
        numbers = self._clamped(values)
        name = self._keyed(numbers.tobytes())
        with self._lock:
            self._register.follow()
            known = self._register.answer(asking.part_of_values(name), repeated=True)
            if not isinstance(known, Answer):
                release = self._asking.values(name)
                request = {"verb": "ask", "values": name}
                self._carry_out(
                    release, request, key, analyst, lambda: [self._engine.sum_values(numbers, bits=self.plan.bits)]
                )
                known = self._register.answer(asking.part_of_values(name), repeated=False)
        if not isinstance(known, Answer):
            raise ReleaseError(_LOST)
        return known

    def select(
        self,
        candidates: Mapping[str, str] | Mapping[str, int] | Sequence[str],
        *,
        epsilon: Number | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Choice:
        """Choose the candidate that most rows speak for: queries, scored in one pass, or whole scores, moved by one a row.

        Without an epsilon it takes an equal share of what the plan reserved for other verbs than ask.
        """
        self._check_open()
        named = dict(candidates) if isinstance(candidates, Mapping) else {str(text): text for text in candidates}
        prepared: dict[str, Query | int] = {
            str(name): self._parse(value) if isinstance(value, str) else int(integers("candidates", value))
            for name, value in named.items()
        }
        scores = [value for value in prepared.values() if isinstance(value, int)]
        scored = self._keyed(canonical({"scores": [str(score) for score in scores]}).encode()) if scores else ""
        release = selecting.select(prepared, plan=self.plan, limit=self._limit, epsilon=epsilon, scored=scored)
        with self._lock:
            self._register.follow()
            known = self._register.answer(release.parts[0], repeated=True)
            if not isinstance(known, Choice):
                request = {"verb": "select"} | release.request
                self._carry_out(release, request, key, analyst, self._summed(release))
                known = self._register.answer(release.parts[0], repeated=False)
        if not isinstance(known, Choice):
            raise ReleaseError(_LOST)
        return known

    def preview(self, query: str) -> Preview:
        """Return what a question would cost and how wide its answer would be. Free."""
        self._check_open()
        parsed = self._parse(query)
        with self._lock:
            self._register.follow()
            repeated = self._register.answer(asking.part_of(parsed), repeated=True) is not None
            spent = self._ledger.spent
            return preview_of(parsed, self.plan, draws=self._register.draws, spent=spent, repeated=repeated)

    @property
    def budget(self) -> Budget:
        """Return what is spent and what is left, over all analysts."""
        self._check_open()
        with self._lock:
            self._register.follow()
            register, spent = self._register, self._ledger.spent
            return budget_of(self.plan, self._limit, spent=spent, draws=register.draws, other=register.other_cost)

    @property
    def history(self) -> list[Line]:
        """Return every charge and its response, oldest first."""
        self._check_open()
        with self._lock:
            return history_of(self._ledger)

    def report(self, path: str | PathLike[str]) -> None:
        """Write everything the ledger has as one self-contained HTML page: plan, budget, questions, answers, receipts."""
        columns = [(column.name, column.type) for column in self.card.columns]
        page = html_report(
            title="Holdtrue",
            plan=self.plan,
            budget=self.budget,
            history=self.history,
            receipt=self._ledger.head,
            columns=columns,
        )
        try:
            Path(path).write_text(page, encoding="utf-8")
        except OSError as error:
            raise InvalidParameter("path", str(path), f"a file that can be written ({error.strerror})") from None

    def grant(self, analyst: str, *, asks: int | None) -> None:
        """Allow an analyst so many questions' worth of the budget, under the one cap; None lifts the limit."""
        self._check_open()
        self._ledger.grant(analyst, allowance=None if asks is None else asks * self.plan.cost)

    def close(self) -> None:
        """Let go of data and ledger; nothing is lost."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._engine.close()
                self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "durable" if self._ledger.durable else "not durable"
        rows, columns = self.card.rows, len(self.card.columns)
        planned = f"{self.plan.queries:,} questions {'planned' if isinstance(self.plan, Plan) else 'at most'}"
        return f"<Curator of {rows:,} rows and {columns} columns; {planned}; ledger {state}>"

    def _check_open(self) -> None:
        if self._closed:
            message = "this curator was closed; open the data again with the same ledger"
            raise CuratorClosed(message)

    def _summed(self, release: Release) -> Callable[[], Sequence[int]]:
        return lambda: self._engine.sums(release.queries, bits=self.plan.bits) if release.queries else []

    def _carry_out(
        self,
        release: Release,
        request: Mapping[str, object],
        key: str | None,
        analyst: str | None,
        measure: Callable[[], Sequence[int]],
    ) -> None:
        carry_out(
            release,
            request=request,
            key=key,
            analyst=analyst or self._analyst,
            plan=self.plan,
            ledger=self._ledger,
            register=self._register,
            measure=measure,
        )

    def _clamped(self, values: object) -> npt.NDArray[np.float64]:
        """Return per-row numbers in [0, 1] by a rule that never fails on a value: clamped, and 0 where not a number."""
        try:
            numbers = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidParameter("values", type(values).__name__, "an array of numbers, one for each row") from None
        if numbers.shape != (self.card.rows,):
            raise InvalidParameter(
                "values", f"an array of shape {numbers.shape}", f"one number for each of {self.card.rows} rows"
            )
        return np.clip(np.nan_to_num(numbers, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)

    def _keyed(self, content: bytes) -> str:
        """Name what may be private so that equal contents have equal names and nobody can check a guess."""
        return hashlib.blake2b(content, key=bytes.fromhex(self._ledger.terms.key), digest_size=32).hexdigest()
