"""The engine for rows in memory: NumPy, pandas, Polars, Arrow, and whatever speaks Arrow's PyCapsule interface."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from holdtrue.engines.bitmaps import MEMORY, Progress
from holdtrue.engines.chunks import Cells, cells_of_array, cells_of_arrow, check_names
from holdtrue.engines.declaring import Declared
from holdtrue.engines.features import values_of
from holdtrue.engines.fingerprints import TextCells
from holdtrue.engines.measuring import CHUNK, Measuring, total
from holdtrue.engines.sealing import opening
from holdtrue.errors import RequestError
from holdtrue.kernels import Words
from holdtrue.kernels.bitmaps import pack
from holdtrue.queries.cards import Card
from holdtrue.queries.evaluating import Values, evaluate, satisfies
from holdtrue.queries.trees import Boolean, Query, columns

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

__all__ = ["ArrayEngine", "Table", "open_table", "read_table"]

Table = dict[str, tuple[str, Cells]]

_FEW_STRINGS = 1 << 12


class ArrayEngine(Measuring):
    """Rows in memory, a column each: 64-bit values with their validity, text by its distinct strings."""

    def __init__(self, card: Card, table: Mapping[str, tuple[str, Cells]], *, memory: int = MEMORY) -> None:
        self._table = {column.name: table[column.name][1] for column in card.columns}
        super().__init__(card, memory=memory)

    def mark(self, atoms: Sequence[Boolean], words: Sequence[Words], *, progress: Progress | None) -> None:
        """Set the bits of the rows that satisfy each atom; an atom over one text column is looked up by string."""
        for number, (atom, bits) in enumerate(zip(atoms, words, strict=True)):
            read = list(columns(atom))
            cells = self._table[read[0]] if len(read) == 1 else None
            if isinstance(cells, TextCells):
                # The place after the last string stands for NULL, and is where a place of -1 leads.
                places = np.arange(len(cells.strings) + 1)
                listed = Values(places, places < len(cells.strings), cells.strings or ("",))
                verdicts = satisfies(atom, {read[0]: listed})
                for start in range(0, self.rows, CHUNK):
                    pack(np.take(verdicts, cells.places[start : start + CHUNK], mode="wrap"), bits, start=start)
            else:
                for start in range(0, self.rows, CHUNK):
                    pack(satisfies(atom, self._values(read, start)), bits, start=start)
            if progress is not None:
                progress((number + 1) / len(atoms))

    def numbers(self, column: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Return the values of a column of numbers and which of them are there."""
        cells = self._table[column]
        if isinstance(cells, TextCells):
            message = f"column {column!r} holds text, not numbers"
            raise RequestError(message)
        return cells

    def _scan(self, queries: Sequence[Query], bits: int, progress: Progress | None) -> list[int]:
        sums = [0] * len(queries)
        read = sorted({name for query in queries for name in query.columns})
        for start in range(0, self.rows, CHUNK):
            values = self._values(read, start)
            for number, query in enumerate(queries):
                sums[number] += total(evaluate(query, values, bits))
            if progress is not None:
                progress(min(1.0, (start + CHUNK) / self.rows))
        return sums

    def _values(self, names: Sequence[str], start: int) -> dict[str, Values]:
        """Return a chunk of the named columns, or of any one, so that it tells how many rows there are."""
        stop = min(start + CHUNK, self.rows)
        found: dict[str, Values] = {}
        for name in names or list(self._table)[:1]:
            found[name] = values_of(_cut(self._table[name], start, stop))
        return found

    def _pieces(self, names: Sequence[str]) -> Iterator[tuple[list[Cells], int]]:
        for start in range(0, self.rows, CHUNK):
            stop = min(start + CHUNK, self.rows)
            yield [_cut(self._table[name], start, stop) for name in names], stop - start

    def _release(self) -> None:
        self._table = {}


def open_table(data: object, *, declared: Declared, memory: int = MEMORY) -> ArrayEngine:
    """Return an engine over a table in memory, from a copy of its columns where they are not 64 bits wide already."""
    table, rows = read_table(data, types=declared.types)
    return ArrayEngine(declared.card([(name, kind) for name, (kind, _) in table.items()], rows=rows), table, memory=memory)


def _cut(cells: Cells, start: int, stop: int) -> Cells:
    """Return some rows of a column; where it has many strings, with a list of those that occur among them only."""
    if not isinstance(cells, TextCells):
        return cells[0][start:stop], cells[1][start:stop]
    places = cells.places[start:stop]
    if len(cells.strings) <= _FEW_STRINGS:
        return TextCells(cells.strings, places)
    used, places = np.unique(places, return_inverse=True)
    missing = int(used.size > 0 and used[0] < 0)
    return TextCells(tuple(cells.strings[place] for place in used[missing:].tolist()), places - missing)


def read_table(data: object, *, types: Mapping[str, str]) -> tuple[Table, int]:
    """Return the columns of a table in memory, and the number of rows; refuse what is no table, naming the column."""
    if isinstance(data, np.ndarray):
        if data.dtype.names is None or data.ndim != 1:
            message = "a NumPy array needs names for its columns: give a structured array, or a dict with an array a column"
            raise RequestError(message)
        data = {name: data[name] for name in data.dtype.names}
    if isinstance(data, Mapping):
        named = {str(name): values for name, values in data.items()}
        check_names(list(named), types)
        table = {name: cells_of_array(name, values, wanted=types.get(name)) for name, values in named.items()}
    else:
        arrow = opening(lambda: _arrow(data), failure=f"a {type(data).__name__} could not be read as a table")
        names = [str(name) for name in arrow.column_names]
        check_names(names, types)
        table = {
            name: cells_of_arrow(name, _whole(arrow.column(number)), wanted=types.get(name))
            for number, name in enumerate(names)
        }
    if isinstance(data, Mapping) or type(data).__module__.startswith("pandas"):
        table = {name: (kind, _copied(cells)) for name, (kind, cells) in table.items()}
    lengths = {_length(cells) for _, cells in table.values()}
    if len(lengths) != 1:
        message = "the columns differ in length"
        raise RequestError(message)
    return table, lengths.pop()


def _copied(cells: Cells) -> Cells:
    """Return numbers that nobody else can change: Arrow's own are fixed, those of NumPy and pandas are not."""
    return cells if isinstance(cells, TextCells) else (cells[0].copy(), cells[1])


def _length(cells: Cells) -> int:
    return int(cells.places.size if isinstance(cells, TextCells) else cells[0].size)


def _whole(column: "pa.ChunkedArray") -> "pa.Array":
    import pyarrow as pa

    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # older versions, and columns beyond 2^31 bytes of text
        whole = pa.concat_arrays(whole.chunks)
    return whole


def _arrow(data: Any) -> "pa.Table":  # noqa: ANN401 - whatever turns out to be a table
    import narwhals.stable.v2 as nw
    import pyarrow as pa

    if nw.dependencies.is_pandas_dataframe(data):
        return pa.Table.from_pandas(data, preserve_index=False)
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data).read_all()
    if hasattr(data, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(data)])
    frame = nw.from_native(data)
    return (frame.collect() if isinstance(frame, nw.LazyFrame) else frame).to_arrow()
