"""What every finite class of hypotheses is: fixed before any row is seen, numbered, and counted exactly.

A class turns rows into totals, integers that add over rows, and totals into the number of errors of every hypothesis. So
rows are read once, in any pieces, on any number of threads or machines, and the counts are the same integers.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, Self, TypeAlias

import numpy as np

from holdtrue.entropy import call_at_fork
from holdtrue.errors import InvalidParameter, NotCertified, UnknownColumn
from holdtrue.exact import array_of, count, describe_array
from holdtrue.kernels import Flags, Integers, Matrix
from holdtrue.queries.columns import names_of
from holdtrue.requests import ClassDocument

__all__ = [
    "MOST_BYTES",
    "MOST_STEPS",
    "Flags",
    "Footprint",
    "HypothesisClass",
    "Integers",
    "Matrix",
    "Progress",
    "labels_of",
    "matrix_of",
    "read_dimension",
    "width_of",
]

Progress: TypeAlias = Callable[[float], None]
Dimension: TypeAlias = int | tuple[str, ...]

MOST_BYTES: Final = 4 << 30
"""How many bytes the totals of a class and its error counts may take together."""

MOST_STEPS: Final = 10**12
"""How many steps counting a class may take: a hypothesis on a row, or on 64 rows at once where bits are counted."""

_CHUNK = 1 << 16
_FEWEST = 1 << 13
_TOTALS_BYTES = 1 << 28
_MOST_COLUMNS = 1 << 20
_KINDS = "biuf"
_UNREADABLE = 10**18


class Footprint(NamedTuple):
    """How many totals a class has, how many bytes its counting takes in all, and the parameter that makes it large."""

    totals: int
    size: int
    parameter: str
    value: object


class HypothesisClass(ABC):
    """A finite set of functions from a row to 0 or 1, in an order that is fixed before data.

    Guarantee: ``error_counts`` are exact, and replacing one row moves each of them by at most one (B6: sensitivity 1), since
    every hypothesis sees a row at a time and is total: numbers beyond the public bounds are clamped to them, and a missing
    number counts as the low end (a missing yes-or-no as no). Needs: parameters that do not come from the rows. Failure,
    before anything starts: InvalidParameter from ``make_totals`` where the counts outgrow memory, and from ``check_work``
    where they take too many steps.
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def size(self) -> int:
        """Return the number of hypotheses; NotCertified until the number of columns is known (see ``over``)."""

    @property
    @abstractmethod
    def dimension(self) -> Dimension | None:
        """Return the names of the columns in the class's order, or their number; None until ``over`` sets it."""

    @property
    @abstractmethod
    def footprint(self) -> "Footprint":
        """Return what counting the class takes."""

    @abstractmethod
    def over(self, columns: int | Sequence[str]) -> Self:
        """Return the class over this many columns, or over columns of these names; itself if it has columns already."""

    @abstractmethod
    def add_rows(self, X: Matrix, y: Flags, totals: Integers) -> None:
        """Add some rows to the totals, in place: ``X`` has the class's columns in its order. Threads may do so at once."""

    @abstractmethod
    def count_errors(self, totals: Integers) -> Integers:
        """Return from the totals of all rows how many of them each hypothesis gets wrong."""

    @abstractmethod
    def label_rows(self, X: Matrix, index: int) -> Flags:
        """Return the labels that a hypothesis, which is there, gives to rows with the class's columns in its order."""

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

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Return the names of the columns in the order in which the class reads them; None where it goes by position."""
        return self.dimension if isinstance(self.dimension, tuple) else None

    @property
    def width(self) -> int | None:
        """Return the number of columns; None where the class takes any number and ``over`` has not settled it."""
        return None if self.dimension is None else self.settled_width

    @property
    def settled_width(self) -> int:
        """Return the number of columns; NotCertified where it is not settled."""
        if self.dimension is None:
            message = f"{self.kind} with one pair of bounds need the number of columns; call over(columns) first"
            raise NotCertified(message)
        return len(self.dimension) if isinstance(self.dimension, tuple) else self.dimension

    def name_column(self, column: int) -> str:
        """Return what a column is called."""
        return f"x{column}" if self.columns is None else self.columns[column]

    def make_totals(self) -> Integers:
        """Return totals of no rows: zeros. InvalidParameter, before anything starts, where counts outgrow the memory."""
        needed = self.footprint
        if needed.size > MOST_BYTES:
            self._refuse_size(f"takes {_format_amount(needed.size)} bytes, and the limit is {MOST_BYTES:,}")
        return np.zeros(needed.totals, dtype=np.int64)

    def count_steps(self, rows: int) -> int:
        """Return about how many steps it takes to count this many rows (see :data:`MOST_STEPS`)."""
        return rows * self.size

    def check_work(self, rows: int, *, limit: int = MOST_STEPS) -> None:
        """Refuse, before anything starts, a class that would take more steps than the limit on this many rows."""
        steps = self.count_steps(rows)
        if steps > limit:
            self._refuse_size(f"on {rows:,} rows takes {_format_amount(steps)} steps, and the limit is {limit:,}")

    def _refuse_size(self, why: str) -> NoReturn:
        expected = f"smaller: counting the errors of {_format_amount(self.size)} hypotheses {why}"
        raise InvalidParameter(self.footprint.parameter, self.footprint.value, expected)

    def try_out(self, row: Matrix) -> None:
        """Try code that was brought on an invented row with the class's columns, before anything is charged.

        Failure: InvalidParameter that names the item. Classes without brought code have nothing to try.
        """
        del row

    def error_counts(self, X: object, y: object, *, progress: Progress | None = None) -> Integers:
        """Return for every hypothesis how many rows it gets wrong. They depend on the rows: never to be released."""
        settled = self._settle_width(X)
        matrix = settled._read_matrix(X)  # noqa: SLF001 - of its own class
        return settled.count_errors(_add_all_rows(settled, matrix, labels_of(y, rows=len(matrix)), progress))

    @property
    def labels(self) -> tuple[Any, ...] | None:
        """Return the public labels that hypotheses give; None where these are 0 and 1."""
        return None

    @property
    def by_position(self) -> bool:
        """Return whether hypotheses are labels of the rows by their positions, and no functions of a row."""
        return False

    def weigh_errors(self, X: Matrix, y: Integers, weights: Integers | None) -> Integers:
        """Return the errors of every hypothesis on all rows, each counted as often as its whole weight says, or once.

        ``y`` has 0 and 1, or places in ``labels``. Replacing a row moves every sum by at most its weight. Private.
        """
        if weights is None:
            return self.error_counts(X, y == 1)
        found = np.zeros(self.size, dtype=np.int64)
        for weight in np.unique(weights[weights > 0]).tolist():
            taken = weights == weight
            found += weight * self.error_counts(X[taken], y[taken] == 1)
        return found

    def evaluate(self, X: object, index: int) -> Flags:
        """Return the label that a hypothesis gives to each row."""
        settled = self._settle_width(X)
        number = settled.check_index(index)
        return settled.label_rows(settled._read_matrix(X), number)  # noqa: SLF001 - likewise

    def check_index(self, index: object) -> int:
        """Return the number of a hypothesis; InvalidParameter if the class has no such hypothesis."""
        if isinstance(index, (bool, np.bool_)) or not isinstance(index, (int, np.integer)) or not 0 <= index < self.size:
            raise InvalidParameter("index", index, f"a whole number from 0 to {self.size - 1}")
        return int(index)

    def _settle_width(self, X: object) -> Self:
        return self if self.width is not None else self.over(width_of(X))

    def _read_matrix(self, X: object) -> Matrix:
        matrix = matrix_of(X, self.columns, width=self.width)
        if matrix.shape[1] != self.width:
            raise InvalidParameter.saying("X", f"X has {matrix.shape[1]} columns; the class has {self.width}")
        return matrix


def _format_amount(number: int) -> str:
    """Return a whole number in digits, or as a power of two below it if there are too many."""
    return f"{number:,}" if number < _UNREADABLE else f"more than 2^{number.bit_length() - 1}"


def _add_all_rows(settled: HypothesisClass, matrix: Matrix, labels: Flags, progress: Progress | None) -> Integers:
    """Return the totals over all rows, chunk by chunk, on as many threads as there are processors and memory for totals."""
    first = settled.make_totals()
    workers = max(1, min(os.cpu_count() or 1, len(matrix) // _FEWEST, _TOTALS_BYTES // max(1, first.nbytes)))
    # As many pieces for every thread, whole words of rows each.
    pieces = max(1, -(-len(matrix) // (_CHUNK * workers))) * workers
    step = max(64, -(-len(matrix) // (64 * pieces)) * 64)
    starts = range(0, len(matrix), step)
    done = 0

    def count_share(share: Sequence[int]) -> Integers:
        nonlocal done
        totals = settled.make_totals()
        for start in share:
            settled.add_rows(matrix[start : start + step], labels[start : start + step], totals)
            done += 1
            if progress is not None:
                progress(min(1.0, done / len(starts)))
        return totals

    if workers == 1:
        return count_share(starts)
    for totals in _keep_threads(workers).map(count_share, [starts[worker::workers] for worker in range(workers)]):
        first += totals
    return first


@lru_cache(1)
def _keep_threads(workers: int) -> ThreadPoolExecutor:
    """Return threads that are kept: starting them takes longer than counting a few rows."""
    return ThreadPoolExecutor(workers, thread_name_prefix="holdtrue-count")


call_at_fork(after_in_child=_keep_threads.cache_clear)


def read_dimension(parameter: str, value: object) -> Dimension:
    """Return a number of columns, or their names as a tuple, each once; at least one."""
    expected = "a number of columns, or distinct names of columns, at least one"
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        try:
            return count(parameter, value)
        except InvalidParameter:
            raise InvalidParameter(parameter, value, expected) from None
    names = tuple(value[: _MOST_COLUMNS + 1])
    named = len(names) <= _MOST_COLUMNS and all(isinstance(name, str) and name for name in names)
    if not names or not named or len(set(names)) < len(names):
        raise InvalidParameter(parameter, value, expected)
    return names


def width_of(rows: object) -> int | list[str]:
    """Return the columns of what holds rows: their names where it has names, their number otherwise."""
    names = names_of(rows)
    return int(np.asarray(rows).shape[-1]) if names is None else names


def matrix_of(rows: object, columns: Sequence[str] | None, *, width: int | None = None) -> Matrix:
    """Return rows as a matrix: named columns in the order of ``columns``, or all of them as they stand.

    ``rows`` is a matrix, a data frame, one record or a mapping from names to columns; a plain list of numbers is one row,
    or one column where the class has a ``width`` of 1. Failure: InvalidParameter or
    UnknownColumn, whose texts depend on names, shapes and types, never on a cell.
    """
    names = names_of(rows)
    if names is None or columns is None:
        matrix = (
            array_of("X", rows, expected="a matrix of numbers, rows by columns") if names is None else _stack(rows, names)
        )
        if matrix.ndim == 1:
            matrix = matrix[:, np.newaxis] if width == 1 else matrix[np.newaxis, :]
        if columns is not None and matrix.ndim == 2 and matrix.shape[1] != len(columns):  # noqa: PLR2004 - rows by columns
            expected = f"a matrix with the {len(columns)} columns {', '.join(columns)}"
            raise InvalidParameter("X", describe_array(matrix), expected)
    else:
        missing = [name for name in columns if name not in names]
        if missing:
            message = f"there is no column {missing[0]!r}; there are {', '.join(names)}"
            raise UnknownColumn(message)
        matrix = _stack(rows, list(columns))
    if matrix.ndim != 2 or matrix.dtype.kind not in _KINDS:  # noqa: PLR2004 - rows by columns
        raise InvalidParameter("X", describe_array(matrix), "a matrix of numbers, rows by columns")
    return matrix


def labels_of(y: object, *, rows: int) -> Flags:
    """Return labels as flags. They are booleans, or numbers that are all 0 or 1; one for each row."""
    array = array_of("y", y, expected="labels 0 and 1, one for each row")
    if array.ndim != 1 or array.size != rows:
        raise InvalidParameter("y", describe_array(array), f"one label for each of {rows} rows")
    if array.dtype == np.bool_:
        return array
    ones: Flags | None = array == 1 if array.dtype.kind in _KINDS else None
    if ones is None or np.count_nonzero(ones) != np.count_nonzero(array):
        expected = "labels 0 and 1; compare with the value that is to be 1 to make them"
        raise InvalidParameter("y", describe_array(array), expected)
    return ones


def _stack(rows: Any, names: Sequence[str]) -> Matrix:  # noqa: ANN401 - whatever has columns by name
    expected = "columns of numbers by name"
    try:
        columns = [np.atleast_1d(array_of("X", rows[name], expected=expected)) for name in names]
    except (KeyError, TypeError, IndexError):  # names that are no text, or an object that has names only
        raise InvalidParameter("X", type(rows).__name__, expected) from None
    if len({column.shape for column in columns}) > 1:
        raise InvalidParameter("X", describe_array(columns[0]), "columns of one length")
    # A column after the other: the copy is quick, and so is reading them.
    return np.stack(columns).T if columns else np.zeros((0, 0))
