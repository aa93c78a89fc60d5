"""Custom hypotheses: functions and fitted estimators that someone brings, named before data."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
import numpy.typing as npt

from holdtrue.errors import InvalidParameter, RequestError
from holdtrue.exact import Shown, describe_array
from holdtrue.hypotheses.classes import Flags, Footprint, HypothesisClass, Integers, Matrix, read_dimension
from holdtrue.silence import silence

__all__ = ["Hypotheses"]

# Code that was brought need not be safe to run in several threads at once.
_lock = threading.Lock()

_NUMBERS = "biuf"


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Hypotheses(HypothesisClass):
    """A list of functions from rows to labels 0 and 1, or of fitted estimators (anything with ``predict``).

    Each gets a matrix, rows by columns: those of ``columns`` (their number, or names in this order), all there are
    otherwise. Where columns have names, functions may read them by name too: ``rows["age"]`` is ``rows[:, 0]``. ``names``
    are what ``describe`` says. A label is 1 where what comes back equals 1, and 0 otherwise.

    Guarantee: exact counts of sensitivity 1 (B6). Needs, and it cannot be checked: items chosen before any of the rows was
    seen, each of which gives a row the same label whatever rows come with it. Before anything is charged each item is tried
    on one invented row (:meth:`try_out`), and one that raises there, or gives no number, is refused. After that, where an
    item raises, or does not give one value for each row, the rows are halved until it does; a row that it cannot label alone
    is labelled 0, so that neither an error nor a warning says anything about a row. Items see copies, and one thread at a
    time.

    ``labels``, two or more public ones, in the place of 0 and 1: an item gives one of them, and anything else counts as the
    first. ``predictions`` in the place of items: a matrix of labels, a line for each row in the order of the rows and a
    column for each hypothesis, or columns by name. They are known for these rows only, so nothing follows for a population.
    """

    kind: ClassVar[str] = "hypotheses"

    items: tuple[object, ...]
    dimension: int | tuple[str, ...] | None
    names: tuple[str, ...] | None
    labels: tuple[Any, ...] | None
    predictions: npt.NDArray[np.int16] | None

    def __init__(
        self,
        items: Sequence[object] | None = None,
        *,
        columns: int | Sequence[str] | None = None,
        names: Sequence[str] | None = None,
        labels: Sequence[Any] | None = None,
        predictions: object = None,
    ) -> None:
        public = None if labels is None else _read_labels(labels)
        object.__setattr__(self, "labels", public)
        object.__setattr__(self, "predictions", None)
        if predictions is not None:
            if items is not None or columns is not None:
                raise InvalidParameter.saying("predictions", "give either items and their columns or predictions")
            names, codes = _read_predictions(predictions, names, public)
            object.__setattr__(self, "predictions", codes)
            items, columns = [Shown(f"hypothesis {number}") for number in range(codes.shape[1])], None
        elif not isinstance(items, (list, tuple)) or not items or not all(_can_label(item) for item in items):
            raise InvalidParameter("items", _kinds_of(items), "a list of functions or fitted estimators, not empty")
        items = list(items or ())
        if names is not None and (
            not isinstance(names, (list, tuple))
            or len(names) != len(items)
            or not all(isinstance(name, str) for name in names)
        ):
            raise InvalidParameter("names", names, f"{len(items)} names, one for each hypothesis")
        object.__setattr__(self, "items", tuple(items))
        width: Any = () if predictions is not None else None if columns is None else read_dimension("columns", columns)
        object.__setattr__(self, "dimension", width)
        object.__setattr__(self, "names", None if names is None else tuple(names))

    @property
    def size(self) -> int:
        """Return how many were brought."""
        return len(self.items)

    @property
    def footprint(self) -> Footprint:
        """Return a total for each hypothesis."""
        return Footprint(self.size, 16 * self.size, "items", Shown(f"{self.size} hypotheses"))

    def over(self, columns: int | Sequence[str]) -> Self:
        """Return the same hypotheses over these columns, or as they are where they have columns already."""
        if self.dimension is not None:
            return self
        return type(self)(self.items, columns=columns, names=self.names, labels=self.labels)

    @property
    def by_position(self) -> bool:
        """Return whether hypotheses are labels of the rows by their positions."""
        return self.predictions is not None

    def try_out(self, row: Matrix) -> None:
        """Try each item on an invented row of the columns to come; InvalidParameter names one that cannot label it.

        Law: nothing but the items and the invented row decides, so that the refusal tells nothing about any real row.
        """
        if self.by_position:
            return
        for number, item in enumerate(self.items):
            with _lock, silence(), np.errstate(all="ignore"):
                wrong = _find_fault(item, self._name_rows(row, item), self.labels)
            if wrong is not None:
                raise InvalidParameter(f"items[{number}]", Shown(wrong), "something that gives an invented row a 0 or a 1")

    def make_totals(self) -> Integers:
        """Return totals of no rows; InvalidParameter for own labels and predictions, which ``learn`` alone counts."""
        if self.labels is not None or self.predictions is not None:
            raise InvalidParameter.saying(
                "hypotheses", "hypotheses with labels or predictions of their own are for learn alone"
            )
        return HypothesisClass.make_totals(self)

    def add_rows(self, X: Matrix, y: Flags, totals: Integers) -> None:
        """Add for each hypothesis the rows that it labels wrongly."""
        for number, item in enumerate(self.items):
            totals[number] += np.count_nonzero(self._label_item(item, X) != y)

    def weigh_errors(self, X: Matrix, y: Integers, weights: Integers | None) -> Integers:
        """Return the weighted errors of every hypothesis on all rows, by places of labels where there are any."""
        if self.labels is None and self.predictions is None:
            return HypothesisClass.weigh_errors(self, X, y, weights)
        times = np.ones(len(y), dtype=np.int64) if weights is None else weights

        def place(number: int) -> npt.NDArray[Any]:
            return self._place_item(self.items[number], X) if self.predictions is None else self.predictions[:, number]

        return np.array([int(times[place(number) != y].sum()) for number in range(self.size)], dtype=np.int64)

    def count_errors(self, totals: Integers) -> Integers:
        """Return the totals: they are the errors."""
        return totals

    def label_rows(self, X: Matrix, index: int) -> Flags:
        """Return the labels of one hypothesis; InvalidParameter where they are known for other rows only."""
        if self.predictions is not None:
            raise InvalidParameter.saying("hypotheses", "these hypotheses are labels by position, which label no other rows")
        return self._label_item(self.items[index], X)

    def label_codes(self, X: Matrix, index: int) -> npt.NDArray[Any]:
        """Return the labels that one hypothesis gives to rows, of the public list."""
        return np.asarray(self.labels or (False, True))[self._place_item(self.items[index], X)]

    def _place_item(self, item: object, X: Matrix) -> Integers:
        """Return the place of each row's label in the list, the first where an item fails on the row alone."""
        public = self.labels or (0, 1)

        def place(rows: Matrix) -> npt.NDArray[Any]:
            said = np.asarray(_find_labeller(item)(self._name_rows(rows, item))).reshape(-1)
            return sum(
                (number * (said == label) for number, label in enumerate(public)), np.zeros(said.size, dtype=np.int64)
            )

        with _lock, silence(), np.errstate(all="ignore"):
            return _place_by_halves(place, X)

    def describe(self, index: int) -> str:
        """Return a hypothesis by its name: as given, or the function's own, or as the estimator shows itself."""
        number = self.check_index(index)
        if self.names is not None:
            return self.names[number]
        item = self.items[number]
        try:
            return str(getattr(item, "__name__", None) or " ".join(repr(item).split()))
        except Exception:  # noqa: BLE001 - an item that cannot show itself still has its number
            return f"hypothesis {number}"

    @property
    def document(self) -> NoReturn:
        """Refuse: code is not written down, and code that was written down is not run (promise P10)."""
        what = "code" if self.predictions is None else "labels of rows by position"
        message = f"hypotheses that were brought are {what}, which is not written as JSON; give them to the curator itself"
        raise RequestError(message)

    def _label_item(self, item: object, X: Matrix) -> Flags:
        """Return one label for each row, 0 where the item fails on the row alone."""
        with _lock, silence(), np.errstate(all="ignore"):
            return _label_by_halves(_find_labeller(item), self._name_rows(X, item))

    def _name_rows(self, X: Matrix, item: object) -> Matrix:
        """Return rows as an item reads them: functions also by the names of columns, estimators as a plain matrix."""
        return X if self.columns is None or _has_predict(item) else NamedRows.of(X, self.columns)

    def __repr__(self) -> str:
        held = ", ".join(self.describe(number) for number in range(min(3, self.size)))
        return f"Hypotheses(<{self.size}: {held}{', …' if self.size > 3 else ''}>)"  # noqa: PLR2004 - the first three


class NamedRows(np.ndarray[Any, np.dtype[Any]]):
    """A matrix whose columns have names: ``rows["age"]`` is a column, ``row["age"]`` a cell of one row."""

    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, X: Matrix, names: tuple[str, ...]) -> "NamedRows":
        """Return a matrix with names for its columns."""
        rows = X.view(cls)
        rows.names = names
        return rows

    def __array_finalize__(self, made_from: object) -> None:
        self.names = getattr(made_from, "names", ())

    def __getitem__(self, key: Any) -> Any:  # noqa: ANN401 - whatever NumPy takes, or a name
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self.names or self.shape[-1] != len(self.names):
            raise KeyError(key)
        return np.asarray(self)[..., self.names.index(key)]


def _has_predict(item: object) -> bool:
    return callable(getattr(item, "predict", None))


def _can_label(item: object) -> bool:
    return callable(item) or _has_predict(item)


def _find_labeller(item: Any) -> Callable[[Matrix], object]:  # noqa: ANN401 - whatever labels rows
    found: Callable[[Matrix], object] = item.predict if _has_predict(item) else item
    return found


def _read_labels(labels: Sequence[Any]) -> tuple[Any, ...]:
    public = tuple(labels) if isinstance(labels, (list, tuple)) else ()
    kinds = {type(label) for label in public}
    if len(public) < 2 or len(kinds) != 1 or not kinds <= {str, int, bool} or len(set(public)) < len(public):  # noqa: PLR2004 - a choice
        raise InvalidParameter("labels", labels, "two or more different public labels: texts, whole numbers or yes and no")
    return public


def _read_predictions(
    given: object, names: Sequence[str] | None, labels: tuple[Any, ...] | None
) -> tuple[Sequence[str] | None, npt.NDArray[np.int16]]:
    """Return the names of hypotheses, and the place of every label in the public list; they belong to whoever asks."""
    if isinstance(given, Mapping):
        names, given = [str(name) for name in given], np.column_stack([np.asarray(column) for column in given.values()])
    said = np.asarray(given)
    if said.ndim != 2 or not said.size:  # noqa: PLR2004 - rows by hypotheses
        raise InvalidParameter("predictions", describe_array(said), "a matrix of labels, rows by hypotheses")
    codes = np.full(said.shape, -1, dtype=np.int16)
    for number, label in enumerate(labels or (0, 1)):
        codes[said == label] = number
    if (codes < 0).any():
        raise InvalidParameter.saying("predictions", "every prediction must be one of the labels, 0 and 1 unless given")
    return names, codes


def _place_by_halves(place: Callable[[Matrix], Integers], X: Matrix) -> Integers:
    try:
        found = np.asarray(place(X.copy()), dtype=np.int64) if len(X) else np.zeros(0, dtype=np.int64)
        if found.size == len(X):
            return found
    except (Exception, SystemExit):  # noqa: BLE001, S110 - whatever it raises may speak of a row, and is not to be heard
        pass
    if len(X) == 1:
        return np.zeros(1, dtype=np.int64)
    half = len(X) // 2
    return np.concatenate([_place_by_halves(place, X[:half]), _place_by_halves(place, X[half:])])


def _find_fault(item: object, row: Matrix, labels: tuple[Any, ...] | None = None) -> str | None:
    """Return what is wrong with what an item gives for an invented row; None where it is a number, or one of the labels."""
    try:
        values = np.asarray(_find_labeller(item)(row.copy()))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it raises, there is no label
        return type(error).__name__
    if values.size != 1:
        return f"{values.size} values for one row"
    if labels is not None:
        return None if any(values.reshape(-1)[0] == label for label in labels) else "none of the labels"
    number = values.dtype.kind in _NUMBERS or isinstance(values.reshape(-1)[0], (bool, int, float, np.number, np.bool_))
    return None if number else f"a {type(values.reshape(-1).tolist()[0]).__name__}"


def _label_by_halves(label: Callable[[Matrix], object], X: Matrix) -> Flags:
    found = _label_or_none(label, X) if len(X) else np.zeros(0, dtype=np.bool_)
    if found is not None:
        return found
    if len(X) == 1:
        return np.zeros(1, dtype=np.bool_)
    half = len(X) // 2
    return np.concatenate([_label_by_halves(label, X[:half]), _label_by_halves(label, X[half:])])


def _label_or_none(label: Callable[[Matrix], object], X: Matrix) -> Flags | None:
    """Return the labels of some rows; None where there is not one for each of them."""
    try:
        values = np.asarray(label(X.copy()))
        flags = np.asarray(values == 1, dtype=np.bool_)
    except (Exception, SystemExit):  # noqa: BLE001 - whatever it raises may speak of a row, and is not to be heard
        return None
    return flags.reshape(-1) if flags.size == len(X) == values.size else None


def _kinds_of(items: object) -> Shown:
    """Describe items by their types only: some may hold rows."""
    if not isinstance(items, (list, tuple)):
        return Shown(f"a {type(items).__name__}")
    held = sorted({type(item).__name__ for item in items})
    return Shown(f"a {type(items).__name__} of {', '.join(held) or 'nothing'}")
