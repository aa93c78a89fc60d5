"""What the estimators share: rows read and code run on them without quoting them; each point charged and drawn once.

scikit-learn quotes cells ("could not convert string to float: …"), and so may any code that is given rows. What an error may
tell is written here: types, shapes and the names of classes; that all cells are finite numbers counts as public.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from holdtrue.ensembles.parts import codes_of, labels_of
from holdtrue.errors import HoldtrueError, RequestError
from holdtrue.estimators.handles import Handle
from holdtrue.events import Event, Repeated
from holdtrue.kernels import Floats, Integers
from holdtrue.silence import silence

__all__ = [
    "PrivateEstimator",
    "answer_points",
    "charge_and_draw",
    "encode_labels",
    "find_labels",
    "points_of",
    "read_points",
    "read_rows",
    "run_masked",
    "run_quietly",
    "unchanged_if_refused",
]

S = TypeVar("S")
T = TypeVar("T")

_LEAST = 2
_FAILED = "the estimator failed on these rows"
_LABELS = "the labels in y cannot be told apart: give all of them as strings, or all of them as whole numbers"
_NUMBERS = "X and y cannot be read: every argument must be a number, or a string that reads as a number"

# Messages of scikit-learn that hold numbers of rows and columns, and the names of classes, and nothing else.
_OF_SHAPES = re.compile(
    r"Found array with \d+ (sample|feature)\(s\) \(shape=\(\d+, ?\d*\)\) while a minimum of \d+ is required( by \w+)?\."
    r"|Found input variables with inconsistent numbers of samples: \[\d+, \d+\]"
    r"|This \w+ estimator requires y to be passed, but the target y is None\."
    r"|X has \d+ features?, but \w+ is expecting \d+ features? as input\."
    r"|y should be a 1d array, got an array of shape \([\d, ]*\) instead\."
)
# Messages of scikit-learn that go on to quote cells, by how they begin, and what is said in their place.
_BY_BEGINNING = {
    "Sparse data": "Sparse data was passed, but dense data is required: use .toarray()",
    "Complex data": "Complex data not supported: give real numbers",
    "Expected 2D array": "Expected 2D array, rows by columns. Reshape your data, one row by .reshape(1, -1)",
    "Input X contains": "Input X contains NaN, infinity or a number that is too large; fill in or clamp first",
    "Input y contains": "Input y contains NaN, infinity or a number that is too large; fill in or clamp first",
    "Unknown label type": "Unknown label type: y must hold classes, as strings or whole numbers",
    "The feature names": "The feature names should match those that were passed during fit",
    "Feature names are only": "Feature names are only supported if all columns have strings for names",
}


class _NotNumbers(RequestError, TypeError):
    """Cells that are not numbers: a TypeError too, which is what scikit-learn's checks expect."""


def run_masked(action: Callable[[], T], *, failure: Callable[[str], HoldtrueError]) -> T:
    """Return what an action returns; any error outside Holdtrue's tree becomes ``failure``'s error.

    Guarantee: the error that leaves has neither cause nor context, so that nobody who prints, logs or walks it finds a cell.
    ``failure`` is given the original text, to choose among texts of its own. Errors of the tree pass, without their context:
    their texts are written here.
    """
    try:
        return action()
    except HoldtrueError as error:
        found: HoldtrueError = error
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, it may quote a row
        found = failure(error.args[0] if error.args and type(error.args[0]) is str else "")
    found.__cause__ = found.__context__ = None
    raise found


def run_quietly(action: Callable[[], T]) -> T:
    """Return what code on private rows returns; warnings are silenced, and a failure has a fixed text."""
    with silence(), np.errstate(all="ignore"):
        return run_masked(action, failure=lambda _: RequestError(_FAILED))


def read_rows(
    estimator: object, X: object, y: object, *, handle: Handle | None, y_numeric: bool = False
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return rows and labels of a fit as arrays, checked as scikit-learn does, and by whose ledger is to pay."""
    given = {"dtype": "numeric", "y_numeric": y_numeric}
    rows, labels = run_masked(lambda: validate_data(estimator, X, y, **given), failure=_mask_message)
    if handle is not None:
        run_masked(lambda: handle.check_rows(rows, labels), failure=lambda _: RequestError(_LABELS))
    return rows, labels


def read_points(estimator: object, X: object) -> npt.NDArray[Any]:
    """Return the points of a prediction as an array, checked as scikit-learn does."""
    points: npt.NDArray[Any] = run_masked(
        lambda: validate_data(estimator, X, dtype="numeric", reset=False), failure=_mask_message
    )
    return points


def find_labels(y: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return the labels that occur, in order, and the place of each row's label among them."""
    run_masked(lambda: check_classification_targets(y), failure=_mask_message)
    found, places = run_masked(lambda: np.unique(y, return_inverse=True), failure=lambda _: RequestError(_LABELS))
    return found, places.astype(np.int64)


class PrivateEstimator:
    """What every estimator has: a mark that it draws, and a ``score`` whose errors quote no label."""

    _binary_only = False

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn's own
        known: Any = super()
        tags = known.__sklearn_tags__()
        tags.non_deterministic = True
        if self._binary_only:
            tags.classifier_tags.multi_class = False
        return tags

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """Return scikit-learn's score of the predictions; it is exact and is not charged."""
        check_is_fitted(self)
        known: Any = super()
        return float(run_masked(lambda: known.score(X, y, sample_weight=sample_weight), failure=_mask_message))


def _mask_message(text: str) -> HoldtrueError:
    if _OF_SHAPES.fullmatch(text):
        return RequestError(text)
    for beginning, words in _BY_BEGINNING.items():
        if text.startswith(beginning):
            return RequestError(words)
    return _NotNumbers(_NUMBERS)


@contextmanager
def unchanged_if_refused(estimator: object) -> Iterator[None]:
    """Restore an estimator if anything is raised, such as BudgetExceeded: an earlier fit stays usable."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def encode_labels(y: npt.NDArray[Any], *, classes: object) -> tuple[npt.NDArray[Any], Integers]:
    """Return the labels and the place of each row's label among them.

    Where ``classes`` are given they are public, and a label that is not among them counts as the first, so that no row can
    stop the others; otherwise they are the labels that occur, and which occur counts as public.
    """
    if classes is not None:
        names = labels_of(classes)
        return np.asarray(names), codes_of(y, labels=names, rows=len(y))
    found, codes = find_labels(y)
    if found.size < _LEAST:
        message = f"y has {found.size} class; at least 2 classes are needed, or give classes, their public list"
        raise RequestError(message)
    return found, codes


def points_of(X: npt.NDArray[Any]) -> Floats:
    """Return points as floats in which equal ones have equal bytes: there is only one zero."""
    return np.ascontiguousarray(X, dtype=np.float64) + 0.0


def charge_and_draw(  # noqa: PLR0913 - what is released, and who pays
    handle: Handle | None, event: Event, *, verb: str, estimator: object, measure: Callable[[], S], draw: Callable[[S], T]
) -> tuple[T, bool]:
    """Return what is drawn from what is measured, charged first where there is a ledger, and whether nothing was before it.

    Without a ledger nobody counts, and nothing is known to have been before.
    """
    if handle is None:
        return run_quietly(lambda: draw(measure())), True
    found = handle.release(
        event,
        verb=verb,
        estimator=estimator,
        measure=lambda: run_quietly(measure),
        draw=lambda measured: run_quietly(lambda: draw(measured)),
    )
    return found.value, found.standing.charges == 0


def answer_points(
    estimator: Any,  # noqa: ANN401 - one of ours, fitted
    points: Floats,
    *,
    measure: Callable[[Floats], S],
    draw: Callable[[S], Sequence[Any] | npt.NDArray[Any]],
) -> list[Any]:
    """Return an answer for each point, drawn once and then kept in the estimator's ``released_``.

    Guarantee: each point that is not known yet is charged with its ``event_``, all of them at once and before anything is
    measured; equal points share one answer and one charge, and a known one costs nothing. Failure: BudgetExceeded, with
    nothing charged, drawn or kept.
    """
    known: dict[bytes, Any] = estimator.released_
    keys = [point.tobytes() for point in points]
    fresh = {key: place for place, key in enumerate(keys) if key not in known}
    if fresh:
        new = points[list(fresh.values())]
        drawn, _ = charge_and_draw(
            estimator.handle_,
            Repeated(estimator.event_, len(fresh)),
            verb="predict",
            estimator=estimator,
            measure=lambda: measure(new),
            draw=draw,
        )
        for key, answer in zip(fresh, drawn, strict=True):
            known.setdefault(key, answer)
    return [known[key] for key in keys]
