"""What a ledger's answers say of other questions, read once and then followed; no row is needed for it (U7)."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from holdtrue.curator.history import responses_of
from holdtrue.ledgers.entries import Entry, read_charge
from holdtrue.ledgers.ledger import Ledger
from holdtrue.planning.plans import AnyPlan
from holdtrue.queries.cards import Card
from holdtrue.queries.syntax_tree import Query
from holdtrue.records import Deduction, Synthetic, Table
from holdtrue.verbs.deducing import FactGroup, deduce, read_facts, refuse_deduction
from holdtrue.verbs.synthesizing import synthesize

__all__ = ["AnsweredFacts"]

_VERBS = frozenset({"ask", "marginals", "table"})


class _Owned(NamedTuple):
    """Answers, and which analyst paid for them."""

    analyst: str | None
    group: FactGroup


class AnsweredFacts:
    """The answers of a ledger as facts about its rows, in the order in which they were stored.

    Law: an analyst who is named has those answers only that this analyst paid for, as in a history. Once some
    of these were found to contradict each other, nothing is deduced for that analyst any more (U7.3).
    """

    def __init__(self, ledger: Ledger, *, plan: AnyPlan, card: Card, parse: Callable[[str], Query]) -> None:
        self._ledger, self._plan, self._card, self._parse = ledger, plan, card, parse
        self._lock = threading.Lock()
        self._seen = 0
        self._open: dict[int, Entry] = {}
        self._facts: list[_Owned] = []
        self._tables: list[tuple[str | None, Table]] = []
        self._contradicted: set[str | None] = set()

    def deduce(self, query: Query, *, analyst: str | None = None) -> Deduction:
        """Return what follows from the answers that an analyst may see; from all of them without one."""
        found = deduce(self._plan, query, self._list_groups(analyst), complete=self._card.complete)
        if found.inconsistent:
            self._contradicted.add(analyst)
        return refuse_deduction(found) if analyst in self._contradicted else found

    def synthesize(
        self, columns: Sequence[str] | None, *, rows: int | None, seed: int, analyst: str | None = None
    ) -> Synthetic:
        """Return rows made from the tables of all rows that an analyst may see; from all of them without one."""
        with self._lock:
            self._follow()
            tables = [table for owner, table in self._tables if analyst is None or owner == analyst]
        return synthesize(tables, columns=columns, rows=self._card.rows if rows is None else rows, seed=seed)

    def _list_groups(self, analyst: str | None) -> list[FactGroup]:
        """Return the answers that an analyst may see, with those of entries made since the last call."""
        with self._lock:
            self._follow()
            return [each.group for each in self._facts if analyst is None or each.analyst == analyst]

    def _follow(self) -> None:
        last = self._ledger.newest()
        if last > self._seen:
            for entry in self._ledger.entries(self._seen + 1, last + 1):
                self._note_entry(entry)
            self._seen = last

    def _note_entry(self, entry: Entry) -> None:
        if entry.kind == "charge" and entry.verb in _VERBS:
            self._open[entry.number] = entry
        elif entry.kind == "response" and entry.body is not None and entry.answers in self._open:
            charge = self._open.pop(entry.answers)
            paid = read_charge(charge)
            held: dict[str, Any] = {"request": paid.request, "parts": paid.parts, "responses": responses_of(entry.body)}
            found = read_facts(self._plan, self._card, self._parse, entry=charge.number, **held)
            self._facts += [_Owned(charge.analyst, group) for group in found]
            if paid.request.get("where") is None:
                self._tables += [(charge.analyst, each) for each in held["responses"] if isinstance(each, Table)]
