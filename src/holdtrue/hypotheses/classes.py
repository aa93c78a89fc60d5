"""What every finite class of hypotheses is: fixed before any row is seen, numbered, and counted exactly.

A class turns rows into totals, integers that add over rows, and totals into the number of errors of every hypothesis. So
rows are read once, in any pieces, on any number of threads or machines, and the counts are the same integers.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from holdtrue.errors import InvalidParameter
from holdtrue.hypotheses.matrices import Flags, Integers, Matrix, labels_of, matrix_of, width_of
from holdtrue.requests import ClassDocument

__all__ = ["HypothesisClass", "Progress"]

Progress: TypeAlias = Callable[[float], None]

_CHUNK = 1 << 16
_FEWEST = 1 << 13
_TOTALS_BYTES = 1 << 28


class HypothesisClass(ABC):
    """A finite set of functions from a row to 0 or 1, in an order that is fixed before data.

    Guarantee: ``error_counts`` are exact, and replacing one row moves each of them by at most one (B6: sensitivity 1), since
    every hypothesis sees a row at a time and is total: numbers beyond the public bounds are clamped to them, and a missing
    number counts as the low end (a missing yes-or-no as no). Needs: parameters that do not come from the rows.
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def size(self) -> int:
        """Return how many hypotheses there are; NotCertified where that waits for the number of columns (see ``over``)."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...] | None:
        """Return the names of the columns in the order in which the class reads them; None where it goes by position."""

    @property
    @abstractmethod
    def width(self) -> int | None:
        """Return the number of columns; None where the class takes any number and ``over`` has not settled it."""

    @abstractmethod
    def over(self, columns: int | Sequence[str]) -> Self:
        """Return the class over so many columns, or over columns of these names: itself, where it has its own already."""

    @abstractmethod
    def blank(self) -> Integers:
        """Return totals of no rows: zeros."""

    @abstractmethod
    def tally(self, X: Matrix, y: Flags, totals: Integers) -> None:
        """Add some rows to the totals, in place: ``X`` has the class's columns in its order. Threads may do so at once."""

    @abstractmethod
    def errors(self, totals: Integers) -> Integers:
        """Return from the totals of all rows how many of them each hypothesis gets wrong."""

    @abstractmethod
    def evaluate(self, X: object, index: int) -> Flags:
        """Return the label that a hypothesis gives to each row."""

    @abstractmethod
    def describe(self, index: int) -> str:
        """Return a hypothesis as a sentence: ``age ≥ 52.5 → 1``."""

    @property
    @abstractmethod
    def document(self) -> ClassDocument:
        """Return what the class was made of, as it is written as JSON; RequestError where it was made of code."""

    @classmethod
    def made_of(cls, **given: Any) -> Self:  # noqa: ANN401 - the fields of its document
        """Return the class whose document has these fields."""
        return cls(**given)

    def try_out(self, row: Matrix) -> None:
        """Try code that was brought on an invented row with the class's columns, before anything is charged.

        Failure: InvalidParameter that names the item. Classes without brought code have nothing to try.
        """
        del row

    def error_counts(self, X: object, y: object, *, progress: Progress | None = None) -> Integers:
        """Return for every hypothesis how many rows it gets wrong. They depend on the rows: never to be released."""
        settled = self if self.width is not None else self.over(width_of(X))
        matrix = matrix_of(X, settled.columns, width=settled.width)
        if matrix.shape[1] != settled.width:
            raise InvalidParameter("X", f"{matrix.shape[1]} columns", f"a matrix with {settled.width} columns")
        return settled.errors(_totals(settled, matrix, labels_of(y, rows=len(matrix)), progress))

    def checked(self, index: object) -> int:
        """Return the number of a hypothesis; InvalidParameter where there is none of this number."""
        if isinstance(index, (bool, np.bool_)) or not isinstance(index, (int, np.integer)) or not 0 <= index < self.size:
            raise InvalidParameter("index", index, f"a whole number from 0 to {self.size - 1}")
        return int(index)


def _totals(settled: HypothesisClass, matrix: Matrix, labels: Flags, progress: Progress | None) -> Integers:
    """Return the totals over all rows, chunk by chunk, on as many threads as there are processors and memory for totals."""
    first = settled.blank()
    workers = max(1, min(os.cpu_count() or 1, len(matrix) // _FEWEST, _TOTALS_BYTES // max(1, first.nbytes)))
    # As many pieces for every thread, whole words of rows each.
    pieces = max(1, -(-len(matrix) // (_CHUNK * workers))) * workers
    step = max(64, -(-len(matrix) // (64 * pieces)) * 64)
    starts = range(0, len(matrix), step)
    done = 0

    def work(share: Sequence[int]) -> Integers:
        nonlocal done
        totals = settled.blank()
        for start in share:
            settled.tally(matrix[start : start + step], labels[start : start + step], totals)
            done += 1
            if progress is not None:
                progress(min(1.0, done / len(starts)))
        return totals

    if workers == 1:
        return work(starts)
    for totals in _pool(workers).map(work, [starts[worker::workers] for worker in range(workers)]):
        first += totals
    return first


@lru_cache(1)
def _pool(workers: int) -> ThreadPoolExecutor:
    """Return threads that are kept: starting them takes longer than counting a few rows."""
    return ThreadPoolExecutor(workers, thread_name_prefix="holdtrue-count")


os.register_at_fork(after_in_child=_pool.cache_clear)
