"""The engine for rows in memory: NumPy, pandas, Polars, Arrow, and whatever speaks Arrow's PyCapsule interface."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from holdtrue.engines.base import CHUNK, LocalEngine, add_exactly
from holdtrue.engines.bitmaps import MEMORY, Progress
from holdtrue.errors import RequestError
from holdtrue.kernels import Flags, Words
from holdtrue.kernels.bitmaps import pack
from holdtrue.queries.cards import Card, Declared
from holdtrue.queries.columns import find_complete, read_table
from holdtrue.queries.evaluator import Values, evaluate, satisfies
from holdtrue.queries.syntax_tree import COMPARE, Boolean, Field, Number, Query, ValueComparison, columns

__all__ = ["ArrayEngine", "open_table"]

_FEW_STRINGS = 1 << 12


class ArrayEngine(LocalEngine):
    """Rows in memory, by columns: 64-bit values with their validity, text by its distinct strings.

    The columns are never changed, so that any number of threads may read them.
    """

    def __init__(self, card: Card, table: Mapping[str, tuple[str, Values]], *, memory: int = MEMORY) -> None:
        self._table = {column.name: table[column.name][1] for column in card.columns}
        super().__init__(card, memory=memory)

    def mark_rows(self, atoms: Sequence[Boolean], words: Sequence[Words], *, progress: Progress | None) -> None:
        """Set the bits of the rows that satisfy each atom; an atom over one text column is looked up by string."""
        for number, (atom, bits) in enumerate(zip(atoms, words, strict=True)):
            read = list(columns(atom))
            cells = self._table[read[0]] if len(read) == 1 else None
            if cells is not None and cells.dictionary is not None:
                # The place after the last string stands for NULL, and is where a place of -1 leads.
                places = np.arange(len(cells.dictionary) + 1)
                listed = Values(places, places < len(cells.dictionary), cells.dictionary)
                verdicts = satisfies(atom, {read[0]: listed})
                for start in range(0, self.rows, CHUNK):
                    pack(np.take(verdicts, cells.data[start : start + CHUNK], mode="wrap"), bits, start=start)
            elif cells is not None and cells.valid is not None and isinstance(constant := _find_constant(atom), Number):
                compare = COMPARE[atom.operator]  # type: ignore[union-attr]  # a comparison
                for start in range(0, self.rows, CHUNK):
                    found = compare(cells.data[start : start + CHUNK], constant.value)
                    pack(found & cells.valid[start : start + CHUNK], bits, start=start)
            else:
                for start in range(0, self.rows, CHUNK):
                    pack(satisfies(atom, self._cut_chunk(read, start)), bits, start=start)
            if progress is not None:
                progress((number + 1) / len(atoms))

    def read_numbers(self, column: str) -> tuple[npt.NDArray[Any], Flags]:
        """Return the values of a column of numbers and which of them are there."""
        cells = self._table[column]
        if cells.dictionary is not None or cells.valid is None:
            message = f"column {column!r} holds text, not numbers"
            raise RequestError(message)
        return cells.data, cells.valid

    def _scan_rows(self, queries: Sequence[Query], bits: int, progress: Progress | None) -> list[int]:
        sums = [0] * len(queries)
        read = sorted({name for query in queries for name in query.columns})
        for start in range(0, self.rows, CHUNK):
            values = self._cut_chunk(read, start)
            for number, query in enumerate(queries):
                sums[number] += add_exactly(evaluate(query, values, bits))
            if progress is not None:
                progress(min(1.0, (start + CHUNK) / self.rows))
        return sums

    def _cut_chunk(self, names: Sequence[str], start: int) -> dict[str, Values]:
        """Return a chunk of the named columns; of any one column if none is named, so that its rows can be counted."""
        return {name: _slice_column(self._table[name], start, start + CHUNK) for name in names or list(self._table)[:1]}

    def _yield_pieces(self, names: Sequence[str]) -> Iterator[tuple[list[Values], int]]:
        for start in range(0, self.rows, CHUNK):
            yield list(self._cut_chunk(names, start).values()), min(CHUNK, self.rows - start)

    def _release_rows(self) -> None:
        self._table = {}


def open_table(data: object, *, declared: Declared, memory: int = MEMORY) -> ArrayEngine:
    """Return an engine over a table in memory, from a copy of its columns where they are not 64 bits wide already."""
    table, rows = read_table(data, types=declared.types)
    kinds = [(name, kind) for name, (kind, _) in table.items()]
    complete = find_complete(data)
    for name in sorted(complete):
        if (valid := table[name][1].valid) is not None and not valid.all():  # no library checks it
            message = f"column {name!r} has missing values, and its schema says that it has none"
            raise RequestError(message)
    card = declared.make_card(kinds, rows=rows, complete=complete)
    return ArrayEngine(card, table, memory=memory)


def _find_constant(atom: Boolean) -> Number | None:
    """Return what a column of numbers is compared with by a sign that no NaN satisfies; None for any other atom."""
    match atom:
        case ValueComparison(operator="=" | "<" | "<=" | ">" | ">=", left=Field(type=kind), right=Number() as constant):
            return constant if constant.type == kind else None
        case _:
            return None


def _slice_column(cells: Values, start: int, stop: int) -> Values:
    """Return some rows of a column; where it has many strings, list only those that occur in these rows."""
    data, valid = cells.data[start:stop], None if cells.valid is None else cells.valid[start:stop]
    if cells.dictionary is None or len(cells.dictionary) <= _FEW_STRINGS:
        return Values(data, valid, cells.dictionary)
    used, places = np.unique(data, return_inverse=True)
    missing = int(used.size > 0 and used[0] < 0)
    return Values(places - missing, valid, tuple(cells.dictionary[place] for place in used[missing:].tolist()) or ("",))
