"""What the estimators share: charging and drawing for each point once, labels as codes, and fits that leave no trace."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from holdtrue.ensembles.parts import codes_of, labels_of
from holdtrue.errors import RequestError
from holdtrue.estimators.handles import Handle
from holdtrue.estimators.masking import find_labels, run_quietly
from holdtrue.events import Event, Repeated
from holdtrue.kernels import Floats, Integers

__all__ = ["answer_points", "charge_and_draw", "encode_labels", "points_of", "unchanged_if_refused"]

S = TypeVar("S")
T = TypeVar("T")
_LEAST = 2


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


def answer_points(  # noqa: PLR0913 - what is asked, who asks and who pays
    points: Floats,
    *,
    known: dict[Any, Any],
    event: Event,
    handle: Handle | None,
    estimator: object,
    measure: Callable[[Floats], S],
    draw: Callable[[S], Sequence[Any] | npt.NDArray[Any]],
) -> list[Any]:
    """Return an answer for each point, drawn once and then kept in ``known``.

    Guarantee: each point that is not known yet is charged with the event, all of them at once and before anything is
    measured; equal points share one answer and one charge, and a known one costs nothing. Failure: BudgetExceeded, with
    nothing charged, drawn or kept.
    """
    keys = [point.tobytes() for point in points]
    fresh = {key: place for place, key in enumerate(keys) if key not in known}
    if fresh:
        new = points[list(fresh.values())]
        drawn, _ = charge_and_draw(
            handle,
            Repeated(event, len(fresh)),
            verb="predict",
            estimator=estimator,
            measure=lambda: measure(new),
            draw=draw,
        )
        for key, answer in zip(fresh, drawn, strict=True):
            known.setdefault(key, answer)
    return [known[key] for key in keys]
