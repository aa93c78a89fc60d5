"""What engines share: the measure step, in one order, under one lock, with one way to fail."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any as Whatever
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from holdtrue.engines.bitmaps import MEMORY, Bitmaps, Progress
from holdtrue.engines.chunks import Cells
from holdtrue.engines.features import Feature, columns_of, read, values_of
from holdtrue.engines.fingerprints import Fingerprint
from holdtrue.engines.sealing import closed, opening, sealed
from holdtrue.errors import InvalidParameter, RequestError
from holdtrue.hypotheses.classes import HypothesisClass
from holdtrue.kernels import Words
from holdtrue.queries.cards import Card
from holdtrue.queries.emitting import checked_bits
from holdtrue.queries.trees import Boolean, Query

__all__ = ["CHUNK", "Guarding", "Measuring", "total"]

CHUNK = 1 << 16
"""Rows that are looked at together: a multiple of 64."""

T = TypeVar("T")


class Guarding(ABC):
    """A card, a lock, and one way to fail: what every engine has, wherever its rows are.

    Law: every number that leaves is an exact sum of integers over all rows. An error that leaves is of Holdtrue's own
    tree, and its text depends on the request and on public state only. ``ordered`` says whether rows have an order of their
    own, and ``key`` names a column of public keys, where whoever opened the rows said so.
    """

    ordered: bool = True
    key: str | None = None

    def __init__(self, card: Card) -> None:
        self._card = card
        self._lock = threading.RLock()
        self._closed = False

    @property
    def card(self) -> Card:
        """Return what is public about the data."""
        return self._card

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return self._card.rows

    @abstractmethod
    def _release(self) -> None:
        """Let go of what is held."""

    def sum_values(self, values: object, *, bits: int) -> int:
        """Return the sum of a curator's own numbers, one for each row, clamped and rounded as a query's values are."""
        checked_bits(bits)
        array = opening(lambda: np.asarray(values), failure="values must be numbers, one for each row")
        if array.dtype.kind not in "biuf" or array.ndim != 1:
            raise InvalidParameter(
                "values", _Shown(f"an array of {array.dtype}, {array.ndim}-dimensional"), "numbers, one for each row"
            )
        if array.size != self.rows:
            message = f"values has {array.size} numbers for {self.rows} rows; give one for each row"
            raise RequestError(message)
        return self._sealed(
            lambda: sum(_rounded(array[start : start + CHUNK], bits) for start in range(0, array.size, CHUNK))
        )

    def close(self) -> None:
        """Let go of the rows. Closing twice does nothing; anything else after closing raises CuratorClosed."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._release()

    def _sealed(self, action: Callable[[], T]) -> T:
        with self._lock:
            if self._closed:
                raise closed()
            return sealed(action)


class Measuring(Guarding):
    """An engine of this machine: a cache of bitmaps, and passes over rows that are held or streamed."""

    def __init__(self, card: Card, *, memory: int = MEMORY) -> None:
        super().__init__(card)
        self._bitmaps = Bitmaps(self, memory=memory)

    @abstractmethod
    def mark(self, atoms: Sequence[Boolean], words: Sequence[Words], *, progress: Progress | None) -> None:
        """Set the bits of the rows that satisfy each atom, in words that are zero before."""

    @abstractmethod
    def numbers(self, column: str) -> tuple[npt.NDArray[Whatever], npt.NDArray[np.bool_]]:
        """Return the values of a column of numbers and which of them are there, in the order of the bits."""

    @abstractmethod
    def _scan(self, queries: Sequence[Query], bits: int, progress: Progress | None) -> list[int]:
        """Return the sum of each query by passing over the rows."""

    @abstractmethod
    def _pieces(self, names: Sequence[str]) -> Iterator[tuple[list[Cells], int]]:
        """Yield all rows, a piece at a time: the cells of the columns of these names in turn, and how many rows."""

    def sums(self, queries: Sequence[Query], *, bits: int, progress: Progress | None = None) -> list[int]:
        """Return, for each query, the sum over all rows of its value in [0, 1] as a multiple of 2^-bits.

        Booleans over known atoms are counted from bitmaps; all others share one pass over the rows. Raises ReleaseError
        where the rows cannot be read. ``progress`` is told the share that is done, from 0 to 1.
        """
        checked_bits(bits)
        return self._sealed(lambda: self._sums(list(queries), bits, progress))

    def _sums(self, queries: list[Query], bits: int, progress: Progress | None) -> list[int]:
        if len(queries) == 1 and queries[0].boolean:
            count = self._bitmaps.count(queries[0].tree)  # type: ignore[arg-type]  # what boolean says
            if count is not None:
                return [count << bits]
        trees: list[Boolean] = [query.tree for query in queries if query.boolean]  # type: ignore[misc]  # what boolean says
        sums = self._bitmaps.counts(trees, progress=progress) if trees else []
        if len(trees) < len(queries):
            counted = iter(sums)
            sums = [next(counted) if query.boolean else None for query in queries]
        if None not in sums:
            return [found << bits for found in sums]  # type: ignore[operator]  # no None
        left = [query for query, found in zip(queries, sums, strict=True) if found is None]
        scanned = iter(self._scan(left, bits, progress))
        return [next(scanned) if found is None else found << bits for found in sums]

    def error_counts(
        self, hypotheses: HypothesisClass, features: Sequence[Feature], target: Query, *, progress: Progress | None = None
    ) -> npt.NDArray[np.int64]:
        """Return how many rows each hypothesis gets wrong, from totals that add over pieces of rows."""
        totals = hypotheses.blank()

        def take(arrays: list[npt.NDArray[Whatever]]) -> None:
            *columns, labels = arrays
            # A column after the other, which is how most classes read them.
            matrix = np.empty((labels.size, len(columns)), dtype=np.float64, order="F")
            for number, column in enumerate(columns):
                matrix[:, number] = column
            hypotheses.tally(matrix, labels, totals)

        self.feed([*features, target], take, progress=progress)
        return self._sealed(lambda: hypotheses.errors(totals))

    def feed(
        self,
        features: Sequence[Feature],
        take: Callable[[list[npt.NDArray[Whatever]]], None],
        *,
        progress: Progress | None = None,
    ) -> None:
        """Give all rows to a learner of this process, piece by piece in the order of rows: an array a feature."""
        names = columns_of(features) or [self._card.columns[0].name]

        def give() -> None:
            done = 0
            for cells, rows in self._pieces(names):
                values = {name: values_of(cell) for name, cell in zip(names, cells, strict=True)}
                take([read(item, values, rows=rows) for item in features])
                done += rows
                if progress is not None:
                    progress(done / self.rows)

        self._sealed(give)

    def fingerprint(self, key: bytes, *, progress: Progress | None = None) -> bytes:
        """Return 32 bytes that stand for the schema and the rows in any order, under a secret key of 16 bytes or more."""
        taken = Fingerprint(key, schema=[(column.name, column.type) for column in self._card.columns])

        def take() -> bytes:
            done = 0
            for cells, rows in self._pieces([column.name for column in self._card.columns]):
                taken.add(cells, rows=rows)
                done += rows
                if progress is not None:
                    progress(done / self.rows)
            return taken.finish()

        return self._sealed(take)

    def sort(self, columns: Sequence[str] | None = None) -> None:
        """Sort columns of numbers (all, unless named) ahead of the first comparison, as far as the memory cap has room."""
        known = [column.name for column in self._card.columns if column.type in ("integer", "real")]
        chosen = known if columns is None else [self._card.column(name).name for name in columns]
        self._sealed(lambda: self._bitmaps.sort(name for name in chosen if name in known))


class _Shown:
    """Stands for an argument whose contents are private."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def total(values: npt.NDArray[np.int64]) -> int:
    """Return the exact sum of up to 2^31 integers that are not negative."""
    low = values & 0xFFFFFFFF
    return (int((values >> 32).sum()) << 32) + int(low.sum())


def _rounded(values: npt.NDArray[Whatever], bits: int) -> int:
    """Return the sum of grid values, by the same steps as a query's: clamped, scaled exactly, halves up, NaN counting 0."""
    clamped = np.nan_to_num(np.clip(values.astype(np.float64), 0.0, 1.0), nan=0.0)
    return total((np.floor(clamped * 2.0 ** (bits + 1)).astype(np.int64) + 1) >> 1)
