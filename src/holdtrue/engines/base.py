"""What engines share: the measure step, one lock, and one way to fail.

An engine's own errors may quote a cell. So none of them leaves: analysts hear fixed words, and custodians, who open the
rows, hear of files, columns and lines.
"""

import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from typing import Any as Whatever

import numpy as np
import numpy.typing as npt

from holdtrue.engines.bitmaps import MEMORY, AtomStore, Bitmaps, Progress, RowArray
from holdtrue.engines.cell_sums import CellTotals, Codes, code_type, make_encoder
from holdtrue.engines.files import FileState
from holdtrue.engines.fingerprints import Fingerprint
from holdtrue.errors import CuratorClosed, HoldtrueError, InvalidParameter, NotCertified, ReleaseError, RequestError
from holdtrue.exact import Shown
from holdtrue.kernels import Flags, Floats, Integers, Words
from holdtrue.queries.cards import Card
from holdtrue.queries.cells import CellAxis, DisjointCells
from holdtrue.queries.columns import open_masked
from holdtrue.queries.evaluator import Values, evaluate, satisfies
from holdtrue.queries.features import Feature, Keys, columns_of, read_features
from holdtrue.queries.pairs import columns_of_pair
from holdtrue.queries.syntax_tree import MOST_BITS, Boolean, Query, checked_bits

if TYPE_CHECKING:
    from holdtrue.ensembles.members import Ensemble
    from holdtrue.ensembles.parts import PartRule
    from holdtrue.ensembles.training import Recipe
    from holdtrue.hypotheses.classes import HypothesisClass

__all__ = ["CHUNK", "FAILED", "Engine", "LocalEngine", "StreamedEngine", "add_exactly", "join_pieces", "tally_rows"]

CHUNK = 1 << 16
"""Rows that are looked at together: a multiple of 64."""

FAILED = "the rows could not be read: the engine failed, or the data changed since they were opened"
CLOSED = "the engine was closed; open the data again"
_FEW = 4
_NO_PAIRS = "this engine cannot bring any two rows together"

T = TypeVar("T")


class Engine(ABC):
    """What every engine does, wherever its rows are: exact integers out, and one way to fail.

    Law: ``sums`` and ``sum_values`` are exact, the same on every engine, in any order of rows and with any number of
    threads; replacing one row moves none of them by more than 2^bits, and no count of errors by more than one. An error that
    leaves is of Holdtrue's own tree (ReleaseError with a fixed text, or CuratorClosed after ``close``), and its text depends
    on the request and on public state only. Calls from several threads run at once: sums return while errors are counted;
    ``_lock`` is held while what is kept between calls is read or changed, and never while rows are learned from.
    ``progress``, where given, is told the share of a long call that is done, from 0 to 1. ``ordered`` says whether rows have
    an order of their own, ``pairs`` whether ``sum_pairs`` can bring any two rows together, and ``key`` names a column of
    public keys, where whoever opened them said so. ``files`` are the files that hold the rows, as they were when they were
    opened; none where rows came from elsewhere. ``reading`` says by what, and how, they were read. Of units, ``file_tables``
    has the table that each file is of.
    """

    ordered: bool = True
    pairs: bool = True
    key: str | None = None
    files: tuple[FileState, ...] = ()
    reading: str = ""
    file_tables: tuple[str, ...] = ()

    def __init__(self, card: Card) -> None:
        self.card = card
        self.rows = card.rows
        self._lock = threading.RLock()
        self._closed = False
        self._under_way = 0

    @abstractmethod
    def sums(self, queries: Sequence[Query], *, bits: int, progress: Progress | None = None) -> list[int]:
        """Return for each query the sum over all rows of round(clamp(value, 0, 1) * 2^bits), all in one pass."""

    def sum_cells(self, cells: DisjointCells, *, bits: int, progress: Progress | None = None) -> list[int]:
        """Return the sums of the queries of disjoint cells."""
        return self.sums(cells.queries, bits=bits, progress=progress)

    @abstractmethod
    def error_counts(
        self, hypotheses: "HypothesisClass", features: Sequence[Feature], target: Query, *, progress: Progress | None = None
    ) -> Integers:
        """Return how many rows each hypothesis gets wrong: it reads the features, and the target says what is right."""

    @abstractmethod
    def train(
        self,
        recipe: "Recipe",
        features: Sequence[Feature],
        goal: Feature,
        *,
        rule: "PartRule",
        progress: Progress | None = None,
    ) -> "Ensemble":
        """Return an ensemble with a member for each part, cut by the rule: the same wherever the rows are (E4, E10)."""

    @abstractmethod
    def vote_held_out(
        self, ensemble: "Ensemble", features: Sequence[Feature], goal: Feature, *, rule: "PartRule"
    ) -> tuple[Integers, Integers]:
        """Return the votes at the rows that no member was trained on, and the places of their labels."""

    @abstractmethod
    def fingerprint(self, key: bytes, *, progress: Progress | None = None) -> bytes:
        """Return 32 bytes for the schema and the rows in any order, under a secret key of 16 bytes or more.

        An engine of several tables returns 32 for each, after 32 for their names.
        """

    def sort(self, columns: Sequence[str] | None = None) -> None:
        """Sort columns of numbers (all, unless named) ahead of the first comparison; check names where none are kept."""
        self._run_masked(lambda: [self.card.column(name) for name in columns or ()])

    @abstractmethod
    def _release_rows(self) -> None:
        """Release the rows and whatever else is held."""

    def check_room(self, columns: int) -> None:
        """Raise NotCertified where this many columns of all rows are too much for :meth:`fit`, by public numbers."""
        del columns  # rows that are in this process already are not too many for it

    @abstractmethod
    def fit(
        self,
        learn: Callable[[Floats, Floats], T],
        features: Sequence[Feature],
        goal: Feature,
        *,
        progress: Progress | None = None,
    ) -> T:
        """Return what a learner makes of all rows at once: the features of each, and its goal, as numbers."""

    def sum_pairs(self, query: Query, order: Integers, *, bits: int, progress: Progress | None = None) -> int:
        """Return the sum of an expression in two rows over every row of an order and the next, the last with the first."""
        del query, order, bits, progress
        raise NotCertified(_NO_PAIRS)

    def sum_values(self, values: object, *, bits: int) -> int:
        """Return the sum of a curator's own numbers, one per row, clamped and rounded as a query's values are."""
        checked_bits(bits)
        array = open_masked(lambda: np.asarray(values), failure="values must be numbers, one for each row")
        if array.dtype.kind not in "biuf" or array.ndim != 1:
            found = Shown(f"an array of {array.dtype}, {array.ndim}-dimensional")
            raise InvalidParameter("values", found, "numbers, one for each row")
        if array.size != self.rows:
            message = f"values has {array.size} numbers for {self.rows} rows; give one per row"
            raise RequestError(message)
        return self._run_masked(
            lambda: sum(_add_rounded(array[start : start + CHUNK], bits) for start in range(0, self.rows, CHUNK))
        )

    def close(self) -> None:
        """Release the rows once the calls in progress have ended; any later call raises CuratorClosed."""
        with self._lock:
            if not self._closed:
                self._closed = True
                if not self._under_way:
                    self._release_rows()

    def _run_masked(self, action: Callable[[], T]) -> T:
        """Return what an action returns; any other error it raises becomes a ReleaseError with a fixed text.

        Law: the error that leaves has no cause, no context, and a text that depends on nothing. Errors of Holdtrue's own
        tree pass as they are, since their texts are written here.
        """
        with self._lock:
            if self._closed:
                raise CuratorClosed(CLOSED)
            self._under_way += 1
        try:
            return action()
        except HoldtrueError:
            raise
        except Exception:  # noqa: BLE001, S110 - raised again below, outside, so that it carries no context
            pass
        finally:
            self._end_call()
        raise ReleaseError(FAILED)

    def _end_call(self) -> None:
        with self._lock:
            self._under_way -= 1
            if self._closed and not self._under_way:
                self._release_rows()


class StreamedEngine(Engine):
    """An engine whose rows come into this process a piece at a time, wherever they are."""

    @abstractmethod
    def _yield_pieces(self, names: Sequence[str]) -> Iterator[tuple[list[Values], int]]:
        """Yield all rows, a piece at a time: the named columns in order, and how many rows. Safe from several threads."""

    def _yield_readers(self, names: Sequence[str]) -> Iterator[tuple[Callable[[], list[Values]], int]]:
        """Yield the pieces, each to be read by whoever calls what stands for it, in a thread of its own choice."""
        for cells, rows in self._yield_pieces(names):
            yield partial(list, cells), rows

    def _yield_all(self) -> Iterator[tuple[Callable[[], list[Values]], int]]:
        """Yield the pieces of all columns as :meth:`_yield_readers` does, the rows in any order."""
        return self._yield_readers([column.name for column in self.card.columns])

    def error_counts(
        self, hypotheses: "HypothesisClass", features: Sequence[Feature], target: Query, *, progress: Progress | None = None
    ) -> Integers:
        """Return how many rows each hypothesis gets wrong, from totals that add over pieces of rows."""
        totals = hypotheses.make_totals()

        def count() -> Integers:
            for arrays in self._read_rows([*features, target], progress):
                tally_rows(hypotheses, arrays, totals)
            return hypotheses.count_errors(totals)

        return self._run_masked(count)

    def train(
        self,
        recipe: "Recipe",
        features: Sequence[Feature],
        goal: Feature,
        *,
        rule: "PartRule",
        progress: Progress | None = None,
    ) -> "Ensemble":
        """Return an ensemble trained in this process, on as many threads as there are processors."""
        from holdtrue.ensembles.parts import hash_contents
        from holdtrue.ensembles.training import train_by

        keyed = [] if rule.key is None else [Keys(rule.key)]

        def take() -> "Ensemble":
            pieces = list(self._read_rows([*features, goal, *keyed], progress))
            columns = [np.concatenate(column) for column in zip(*pieces, strict=True)]
            del pieces
            names = columns.pop() if keyed else hash_contents(columns) if rule.by == "content" else None
            *read, y = columns
            rows = np.column_stack([column.astype(np.float64) for column in read])
            if rule.held_out:
                kept = ~rule.find_held_out(len(rows), names)
                rows, y, names = rows[kept], y[kept], None if names is None else names[kept]
            return train_by(recipe, rows, recipe.read_goal(y), names=names, progress=progress)

        return self._run_masked(take)

    def fit(
        self,
        learn: Callable[[Floats, Floats], T],
        features: Sequence[Feature],
        goal: Feature,
        *,
        progress: Progress | None = None,
    ) -> T:
        """Return what a learner makes of all rows at once: the features of each, and its goal, as numbers."""

        def take() -> T:
            rows, y, start = np.empty((self.rows, len(features))), np.empty(self.rows), 0
            for piece in self._read_rows([*features, goal], progress):
                end = start + len(piece[-1])
                for place, column in enumerate(piece[:-1]):
                    rows[start:end, place] = column
                y[start:end], start = piece[-1], end
            if start != self.rows:
                raise ReleaseError(FAILED)
            return learn(rows, y)

        return self._run_masked(take)

    def vote_held_out(
        self, ensemble: "Ensemble", features: Sequence[Feature], goal: Feature, *, rule: "PartRule"
    ) -> tuple[Integers, Integers]:
        """Return the votes at the rows that no member was trained on, and the places of their labels."""
        keyed = [] if rule.key is None else [Keys(rule.key)]

        def take() -> tuple[Integers, Integers]:
            columns = [
                np.concatenate(column) for column in zip(*self._read_rows([*features, goal, *keyed], None), strict=True)
            ]
            names = columns.pop() if keyed else None
            kept = rule.find_held_out(len(columns[0]), names)
            *read, y = (column[kept].astype(np.float64) for column in columns)
            return ensemble.votes(np.column_stack(read)), np.nan_to_num(y, nan=0.0).astype(np.int64)

        return self._run_masked(take)

    def fingerprint(self, key: bytes, *, progress: Progress | None = None) -> bytes:
        """Return 32 bytes that stand for the schema and the rows in any order, under a secret key of 16 bytes or more."""
        taken = Fingerprint(key, schema=[(column.name, column.type) for column in self.card.columns])

        def total(read: Callable[[], list[Values]], rows: int) -> tuple[int, int, int]:
            return taken.total_rows(read(), rows=rows)

        def take() -> bytes:
            taken.expect_rows(self.rows)
            waiting: deque[Future[tuple[int, int, int]]] = deque()
            beside = max(1, (os.cpu_count() or 1) - 1)  # this thread reads, and hashes too while the others have enough
            with ThreadPoolExecutor(beside, thread_name_prefix="holdtrue-rows") as pool:
                for read, rows in self._tell_progress(self._yield_all(), progress):
                    while waiting and waiting[0].done():
                        taken.merge(waiting.popleft().result())
                    if len(waiting) > beside:
                        taken.merge(total(read, rows))
                    else:
                        waiting.append(pool.submit(total, read, rows))
            for totals in waiting:
                taken.merge(totals.result())
            return taken.finish()

        return self._run_masked(take)

    def read_pieces(self, names: Sequence[str]) -> Iterator[tuple[dict[str, Values], int]]:
        """Yield the named columns of all rows, a piece at a time, to another engine that is made of this one."""
        return ((dict(zip(names, cells, strict=True)), rows) for cells, rows in self._yield_pieces(names))

    def sum_pairs(self, query: Query, order: Integers, *, bits: int, progress: Progress | None = None) -> int:
        """Return the sum of an expression in two rows over every row of an order and the next, the last with the first.

        Law: exact; replacing one row moves it by at most twice what the expression spans, whatever the order. The columns
        that are read are held in memory meanwhile.
        """
        sides = columns_of_pair(query)
        names = list(dict.fromkeys(name for _, name in sides.values()))
        checked_bits(bits)

        def add() -> int:
            pieces = [cells for cells, _ in self._pass_over(names, progress)]
            held = {name: join_pieces([cells[place] for cells in pieces]) for place, name in enumerate(names)}
            total = 0
            for start in range(0, self.rows, CHUNK):
                first = order[start : start + CHUNK]
                rows = {"a": first, "b": order[np.arange(start + 1, start + 1 + first.size) % self.rows]}
                columns = {name: _take_rows(held[own], rows[side]) for name, (side, own) in sides.items()}
                total += add_exactly(evaluate(query, columns, bits, rows=first.size))
            return total

        return self._run_masked(add)

    def _read_rows(self, features: Sequence[Feature], progress: Progress | None) -> Iterator[list[npt.NDArray[Whatever]]]:
        """Yield the features of all rows, a piece at a time: one array per feature."""
        names = columns_of(features) or [self.card.columns[0].name]
        for cells, rows in self._pass_over(names, progress):
            yield read_features(features, dict(zip(names, cells, strict=True)), rows=rows)

    def _pass_over(self, names: Sequence[str], progress: Progress | None) -> Iterator[tuple[list[Values], int]]:
        return self._tell_progress(self._yield_pieces(names), progress)

    def _tell_progress(self, pieces: Iterable[tuple[T, int]], progress: Progress | None) -> Iterator[tuple[T, int]]:
        done = 0
        for piece, rows in pieces:
            yield piece, rows
            done += rows
            if progress is not None:
                progress(done / self.rows)


class LocalEngine(StreamedEngine):
    """An engine of this machine: a cache of bitmaps, and passes over rows that are held or streamed.

    Where ``scans_first`` is true, the first few questions are one pass over the rows, which costs less than the bitmaps that
    only pay from the next ones on: a process that asks once waits for nothing else.
    """

    scans_first: bool = False

    def __init__(self, card: Card, *, memory: int = MEMORY) -> None:
        super().__init__(card)
        self._bitmaps = Bitmaps(self, memory=memory)
        self._asked = False

    @abstractmethod
    def mark_rows(self, atoms: Sequence[Boolean], words: Sequence[Words], *, progress: Progress | None) -> None:
        """Set the bits of the rows that satisfy each atom, in words that are zero before."""

    @abstractmethod
    def read_numbers(self, column: str) -> tuple[npt.NDArray[Whatever], Flags]:
        """Return the values of a column of numbers and which of them are there, in the order of the bits."""

    @abstractmethod
    def _scan_rows(self, queries: Sequence[Query], bits: int, progress: Progress | None) -> list[int]:
        """Return the sum of each query by a pass over the rows. Safe from several threads at once."""

    def sums(self, queries: Sequence[Query], *, bits: int, progress: Progress | None = None) -> list[int]:
        """Return, for each query, the sum over all rows of its value in [0, 1] as a multiple of 2^-bits.

        Booleans over known atoms are counted from bitmaps; all others share one pass over the rows. Raises ReleaseError
        where the rows cannot be read. ``progress`` is told the share that is done, from 0 to 1.
        """
        if type(bits) is not int or not 0 <= bits <= MOST_BITS:
            checked_bits(bits)
        return self._run_masked(lambda: self._sum_queries(list(queries), bits, progress))

    def _sum_queries(self, queries: list[Query], bits: int, progress: Progress | None) -> list[int]:
        first, self._asked = not self._asked, True
        trees: list[Boolean] = [query.tree for query in queries if query.boolean]  # type: ignore[misc]  # what boolean says
        if first and self.scans_first and len(queries) <= _FEW:
            with self._lock:
                kept = len(trees) == len(queries) and self._bitmaps.read_kept(trees)
            if not kept:
                return self._scan_rows(queries, bits, progress)
        sums: list[int | None] = []
        if trees:
            with self._lock:
                sums = self._bitmaps.count_rows(trees, progress=progress)
        if len(trees) < len(queries):
            counted = iter(sums)
            sums = [next(counted) if query.boolean else None for query in queries]
        if None not in sums:
            return [found << bits for found in sums]  # type: ignore[operator]  # no None
        left = [query for query, found in zip(queries, sums, strict=True) if found is None]
        scanned = iter(self._scan_rows(left, bits, progress))
        return [next(scanned) if found is None else found << bits for found in sums]

    def keep_bitmaps(self, store: AtomStore) -> None:
        """Read bitmaps of atoms from a store of these rows in this order, and leave those there that this process made."""
        self._bitmaps.store = store

    def close(self) -> None:
        """Leave bitmaps to the next process where they are kept, and release the rows."""
        with self._lock:
            if not self._closed:
                self._bitmaps.write_kept()
            super().close()

    def sum_cells(self, cells: DisjointCells, *, bits: int, progress: Progress | None = None) -> list[int]:
        """Return the sums of the queries of disjoint cells, from codes that are kept; where they have no room, by a scan."""
        checked_bits(bits)
        return self._run_masked(lambda: self._sum_codes(cells, bits, progress))

    def _sum_codes(self, cells: DisjointCells, bits: int, progress: Progress | None) -> list[int]:
        totals, wanted = CellTotals(cells, bits), self._list_arrays(cells, bits, progress)
        with self._lock:
            if cells.base is not None and len(wanted) == 1:
                ((name, codes),) = wanted.items()
                if (found := self._bitmaps.count_codes(cells.base.tree, name, codes)) is not None:  # type: ignore[arg-type]  # a condition
                    totals.add_counts(*found)
                    return totals.finish()
            kept = None if cells.base is None else self._bitmaps.find_rows(cells.base.tree, progress=progress)  # type: ignore[arg-type]  # a condition
            arrays = None
            if cells.base is None or kept is not None:
                arrays = self._bitmaps.keep_arrays(wanted)
            if arrays is not None:
                totals.add_runs(list(arrays.values()), kept, rows=self.rows)
                return totals.finish()
        names, encoders = cells.columns, [make_encoder(axis) for axis in cells.all_axes]
        for read, rows in self._pass_over(names, progress):
            columns = dict(zip(names, read, strict=True))
            flags = None if cells.base is None else satisfies(cells.base.tree, columns, rows=rows)  # type: ignore[arg-type]  # likewise
            values = None if cells.value is None else evaluate(cells.value, columns, bits, rows=rows)
            totals.add([encode(columns, rows) for encode in encoders], flags, values)
        return totals.finish()

    def _list_arrays(self, cells: DisjointCells, bits: int, progress: Progress | None) -> dict[str, RowArray]:
        """Return the codes of all axes, and the values in units of 2^-bits, as arrays to be kept under their names."""
        found = {
            axis.name: RowArray(code_type(len(axis.conditions)), partial(self._yield_codes, axis, progress))
            for axis in cells.all_axes
        }
        if cells.value is not None:
            make = partial(self._yield_values, cells.value, bits, progress)
            found[f"{cells.value.digest} {bits}"] = RowArray(np.dtype(np.int64), make)
        return found

    def _yield_codes(self, axis: CellAxis, progress: Progress | None) -> Iterator[Codes]:
        encode = make_encoder(axis)
        for (read,), rows in self._pass_over([axis.column], progress):
            yield encode({axis.column: read}, rows)

    def _yield_values(self, query: Query, bits: int, progress: Progress | None) -> Iterator[Integers]:
        names = query.columns or [self.card.columns[0].name]
        for read, rows in self._pass_over(names, progress):
            yield evaluate(query, dict(zip(names, read, strict=True)), bits, rows=rows)

    def sort(self, columns: Sequence[str] | None = None) -> None:
        """Sort columns of numbers and dates (all, unless named) ahead of the first comparison, while the cap has room."""
        known = [column.name for column in self.card.columns if column.type not in ("boolean", "text")]
        chosen = known if columns is None else [self.card.column(name).name for name in columns]

        def sort() -> None:
            with self._lock:
                self._asked = True
                self._bitmaps.sort(name for name in chosen if name in known)

        self._run_masked(sort)


def join_pieces(pieces: Sequence[Values]) -> Values:
    """Return the pieces of a column as one; texts by their places in one list, since each piece may have its own."""
    if len(pieces) == 1:
        return pieces[0]
    there = [np.ones(len(each.data), dtype=np.bool_) if each.valid is None else each.valid for each in pieces]
    if pieces[0].dictionary is None:
        return Values(np.concatenate([each.data for each in pieces]), np.concatenate(there))
    words: dict[str, int] = {}
    data = []
    for each, valid in zip(pieces, there, strict=True):
        places = [words.setdefault(text, len(words)) for text in each.dictionary or ()]
        data.append(np.array([*places, -1], dtype=np.int32)[np.where(valid, each.data, -1)])
    return Values(np.concatenate(data), np.concatenate(there), tuple(words) or ("",))


def _take_rows(column: Values, places: Integers) -> Values:
    return Values(column.data[places], None if column.valid is None else column.valid[places], column.dictionary)


def tally_rows(hypotheses: "HypothesisClass", arrays: list[npt.NDArray[Whatever]], totals: Integers) -> None:
    """Add a piece of rows to a class's totals: one array per column, and last the labels."""
    *columns, labels = arrays
    # A column after the other, which is how most classes read them.
    matrix = np.empty((labels.size, len(columns)), dtype=np.float64, order="F")
    for number, column in enumerate(columns):
        matrix[:, number] = column
    hypotheses.add_rows(matrix, labels, totals)


def add_exactly(values: Integers) -> int:
    """Return the exact sum of up to 2^31 integers that are not negative."""
    low = values & 0xFFFFFFFF
    return (int((values >> 32).sum()) << 32) + int(low.sum())


def _add_rounded(values: npt.NDArray[Whatever], bits: int) -> int:
    """Return the sum of grid values, by the same steps as a query's: clamped, scaled exactly, halves up, NaN counting 0."""
    clamped = np.nan_to_num(np.clip(values.astype(np.float64), 0.0, 1.0), nan=0.0)
    return add_exactly((np.floor(clamped * 2.0 ** (bits + 1)).astype(np.int64) + 1) >> 1)
