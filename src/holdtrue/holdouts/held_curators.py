"""Curators whose rows are the cases of an open gate: until it has closed, nothing new is told of these rows (V1.1).

Rows are a gate's cases where there are as many and one column has its labels in their order; where the gate has ids, one
column has the ids, and another the labels unless these are all alike. Rows in another order, and some of more rows, are not
recognised.
"""

from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import product
from pathlib import Path
from weakref import ref

import numpy as np

from holdtrue.curator.opening import call_for_curators, list_curators
from holdtrue.curator.pipeline import GateWatch, Pipeline
from holdtrue.engines import Engine
from holdtrue.engines.base import LocalEngine, join_pieces
from holdtrue.errors import InvalidParameter, RefusedError
from holdtrue.holdouts.cases import Array, Cases, array_of, cases_of
from holdtrue.holdouts.mode import find_open_gates, note_folders
from holdtrue.holdouts.open_gates import FolderNotes, is_open_at, list_gates
from holdtrue.queries.evaluator import Values

__all__ = ["GatedRows", "hold_curators", "were_told"]

_UNREAD = "the rows could not be compared with the cases of an open gate; nothing was charged"


class GatedRows(GateWatch):
    """Knows of a curator's rows whether a gate is open on them: one of this process, or one that is noted in a folder.

    Law: it depends on which gates are open, and on nothing that was asked.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        ledger = Path(pipeline.ledger.store.where)
        self._ledger = ledger if pipeline.ledger.durable and ledger.is_file() else None
        super().__init__(note_folders(self._ledger))
        self._pipeline, self._rows = ref(pipeline), pipeline.card.rows
        self._noted: list[tuple[str | Path, str]] = []
        self._identities: frozenset[bytes] | None = None
        self.is_near = bool(find_open_gates(self._rows))

    def find(self, *, again: bool) -> bool:
        """Return whether a gate is open on these rows."""
        if again:
            with closing(FolderNotes(self._ledger)) as notes:
                self._noted = list(list_gates(notes, self._rows))
        here = find_open_gates(self._rows)
        self.is_near = bool(here or self._noted)
        return any(self.are(gate.cases) and gate.is_open for gate in here) or any(
            is_open_at(place, digest, known) for place, digest in self._noted for known in self._identify()
        )

    def are(self, cases: Cases) -> bool:
        """Return whether these rows are the cases."""
        return cases.number == self._rows and (cases.identify() or b"") in self._identify()

    def _identify(self) -> frozenset[bytes]:
        """Return what would tell these rows from others if they were cases, in every way in which their columns allow."""
        pipeline = self._pipeline()
        if self._identities is None and pipeline is not None:
            try:
                self._identities = frozenset(_identify_rows(pipeline.engine))
            except Exception:  # noqa: BLE001 - an engine's own words may quote a cell
                raise RefusedError(_UNREAD) from None
        return self._identities or frozenset()


def _identify_rows(engine: Engine) -> Iterator[bytes]:
    columns = list(_read_columns(engine)) if isinstance(engine, LocalEngine) else []
    made = [cases_of(labels) for labels in columns]
    for ids, labels in product(columns, [np.ones(engine.rows), *columns]):
        if labels is not ids:
            with suppress(InvalidParameter):  # ids that are not unique
                made.append(cases_of(labels, ids=ids))
    yield from (known for cases in made if (known := cases.identify()) is not None)


def _read_columns(engine: LocalEngine) -> Iterator[Array]:
    """Yield the columns that may be labels or ids: without missing values, numbers or text."""
    for column in engine.card.columns:
        values = join_pieces([held[column.name] for held, _ in engine.read_pieces([column.name])])
        with suppress(InvalidParameter):
            if values.valid is None or values.valid.all():
                yield array_of(column.name, _list_values(values))


def _list_values(values: Values) -> object:
    if values.dictionary is not None:
        return np.asarray(values.dictionary)[values.data]
    return values.data if values.data.dtype.kind in "biuf" else [str(text) for text in values.data]


def hold_curators(cases: Cases) -> None:
    """Have every curator of this process whose rows may be a gate's cases look for it before its next charge."""
    for pipeline in list_curators():
        if pipeline.gates is not None and pipeline.card.rows == cases.number:
            pipeline.gates.is_near = True


def were_told(cases: Cases) -> bool:
    """Return whether a curator that this process has open told anything of these cases, or has charged what it will tell."""
    for pipeline in list_curators():
        if isinstance(pipeline.gates, GatedRows) and pipeline.gates.are(cases):
            with pipeline.lock:  # what was planned before is charged then
                if pipeline.ledger.spent:
                    return True
    return False


def _watch(pipeline: Pipeline) -> None:
    pipeline.gates = pipeline.gates or GatedRows(pipeline)


call_for_curators(_watch)  # once the process has holdouts
