"""Fits that are kept, and asked for one prediction at a time: weights, errors of thresholds, somebody's own learner.

All of them learned from private rows. What they say of a point is private until a mechanism has drawn from it.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from holdtrue.bounds.agnostic_prediction import count_threshold_errors, find_constrained
from holdtrue.ensembles.losses import UNIT, Features, Labels, Pairs
from holdtrue.ensembles.stable import StableFit
from holdtrue.exact import ROUNDING
from holdtrue.kernels import Floats
from holdtrue.requests import Basis
from holdtrue.silence import silence

__all__ = ["KeptCounts", "KeptFit", "KeptLearner", "KeptWeights", "keep_learner", "measure_gamma", "read_kept", "write_kept"]

_ROUNDINGS: Final = 64
"""More roundings than writing one prediction in the label's units takes."""


class KeptWeights(Struct, frozen=True, tag_field="kept", tag="weights"):
    """The weights of a stable fit, and how rows and labels are scaled."""

    weights: tuple[float, ...]
    bounds: tuple[tuple[float, float], ...]
    norm: float
    basis: Basis | None
    span: tuple[float, float] | None

    @property
    def stored(self) -> bool:
        """Return whether it can be kept beside a ledger."""
        return True

    def outputs(self, points: Floats) -> Floats:
        """Return <w, x> for each point, or the number it stands for: points by one. Private."""
        features = Features(self.bounds, columns=len(self.bounds), norm=self.norm, basis=self.basis)
        scores = np.einsum("ij,j->i", features.scale_rows(points), np.array(self.weights))
        return (scores if self.span is None else Labels(self.span).write(scores))[:, None]


class KeptCounts(Struct, frozen=True, tag_field="kept", tag="counts"):
    """The errors of every threshold on one column: its distinct values, and the fewest errors up to and from each (T13)."""

    values: bytes
    from_left: bytes
    from_right: bytes
    bounds: tuple[tuple[float, float], ...]

    @property
    def stored(self) -> bool:
        """Return whether it can be kept beside a ledger."""
        return True

    def outputs(self, points: Floats) -> npt.NDArray[np.int64]:
        """Return -E_0 and -E_1 at each point: points by two. Private."""
        counts = [np.frombuffer(text, dtype="<i8") for text in (self.from_left, self.from_right)]
        at = _clip_column(points, self.bounds)
        zero, one = find_constrained(np.frombuffer(self.values, dtype="<f8"), *counts, at=at)
        return -np.stack([zero, one], axis=1)


@dataclass(frozen=True, eq=False)
class KeptLearner:
    """Somebody's own learner, fitted; in the memory of one process only."""

    fitted: Any
    bounds: tuple[tuple[float, float], ...]
    ends: tuple[float, float]
    stored: bool = False

    def outputs(self, points: Floats) -> Floats:
        """Return the learner's number for each point, within the ends; the middle where it fails: points by one. Private."""
        low, high = self.ends
        said = np.full(len(points), (low + high) / 2)
        try:
            with silence(), np.errstate(all="ignore"):
                found = np.asarray(self.fitted.predict(clip_rows(points, self.bounds)), dtype=np.float64)
            said = found if found.shape == said.shape else said
        except Exception:  # noqa: BLE001, S110 - it may quote a row, and no row may stop a prediction
            pass
        return np.clip(np.where(np.isnan(said), low, said), low, high)[:, None]


KeptFit: TypeAlias = KeptWeights | KeptCounts | KeptLearner


def keep_weights(fit: StableFit, *, norm: float) -> KeptWeights:
    """Return the weights of a fit, to be asked one prediction at a time."""
    features, labels = fit.features, fit.labels
    return KeptWeights(tuple(fit.private_weights.tolist()), features.bounds, norm, features.basis, labels.bounds)


def measure_gamma(fit: StableFit, *, ends: tuple[float, float]) -> float:
    """Return how far one row moves what :class:`KeptWeights` says of a point, in its units; public (E13, E15).

    The stability of a prediction, twice the rounding of its sum of products, and of writing it between the ``ends``.
    """
    width = fit.features.dimension * UNIT * fit.reach * fit.features.lipschitz
    moved = (fit.gamma + 4 * width) * ROUNDING
    if fit.labels.bounds is None:
        return moved
    low, high = ends
    return (moved * (high - low) / 2 + _ROUNDINGS * UNIT * (abs(low) + abs(high))) * ROUNDING


def keep_counts(rows: Floats, labels: Floats, *, bounds: Pairs) -> KeptCounts:
    """Return what one column's thresholds have for errors on the rows; a missing label counts as the first."""
    pairs = Features(bounds, columns=1).bounds
    values, *counts = count_threshold_errors(_clip_column(rows, pairs), labels > 0)
    left, right = (np.ascontiguousarray(each, dtype="<i8").tobytes() for each in counts)
    return KeptCounts(np.ascontiguousarray(values, dtype="<f8").tobytes(), left, right, pairs)


def keep_learner(
    rows: Floats,
    goal: Floats,
    *,
    learner: Any,  # noqa: ANN401 - somebody's own object
    bounds: tuple[tuple[float, float], ...],
    ends: tuple[float, float],
) -> KeptLearner:
    """Fit somebody's own learner on rows and goals that are clipped to public bounds; the middle is said where it fails."""
    low, high = ends
    clipped = np.clip(np.where(np.isnan(goal), low, goal), low, high)
    fitted = None
    try:
        with silence(), np.errstate(all="ignore"):
            fitted = learner.fit(clip_rows(rows, bounds), clipped)
    except Exception:  # noqa: BLE001, S110 - whether it failed depends on the rows, and must not be told
        pass
    return KeptLearner(fitted, bounds, ends)


def write_kept(kept: KeptFit) -> bytes:
    """Return a fit as bytes: JSON, never code."""
    return msgspec.json.encode(kept)


def read_kept(content: bytes) -> KeptWeights | KeptCounts:
    """Return the fit that :func:`write_kept` wrote; msgspec's ValidationError for anything else."""
    return msgspec.json.decode(content, type=KeptWeights | KeptCounts)


def clip_rows(rows: Floats, bounds: tuple[tuple[float, float], ...]) -> Floats:
    """Return rows with every column within its public bounds; a missing number is the low end."""
    low, high = np.array(bounds, dtype=np.float64).T
    return np.asarray(np.minimum(np.fmax(np.atleast_2d(np.asarray(rows, dtype=np.float64)), low), high))


def _clip_column(rows: Floats, bounds: tuple[tuple[float, float], ...]) -> Floats:
    return clip_rows(rows, bounds)[:, 0]
