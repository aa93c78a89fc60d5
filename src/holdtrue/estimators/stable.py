"""Stable linear models as scikit-learn estimators: weights published once, or predictions answered one by one (E7-E16)."""

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from holdtrue.accounting.filters import largest_cap
from holdtrue.bounds.stability import regularised
from holdtrue.ensembles import losses
from holdtrue.ensembles.losses import Features, Labels, Loss, Pairs
from holdtrue.ensembles.stable import (
    LinearModel,
    NoisyPrediction,
    OutputPerturbation,
    StableFit,
    fit_stable,
    output_strength,
)
from holdtrue.errors import InvalidParameter, NotCertified
from holdtrue.estimators.handles import LedgerGiven, handle_of
from holdtrue.estimators.releasing import (
    PrivateEstimator,
    answer_points,
    charge_and_draw,
    encode_labels,
    points_of,
    read_points,
    read_rows,
    run_quietly,
    unchanged_if_refused,
)
from holdtrue.events import Event, Repeated
from holdtrue.exact import UNIT, Number, count, positive, probability, round_down, units_down
from holdtrue.kernels import Floats

__all__ = ["StableClassifier", "StableRegressor"]

Release: TypeAlias = Literal["once", "each"]

_BINARY = 2
_GUESS = 1
"""The length that the best weights are taken to have, for the default strength, where no radius is given."""
_MARGIN_NOISE = 1 / 3
"""The standard deviation that noise adds to a margin at most, by the default strength of a classifier that is published."""
_LEAST_STRENGTH = 1e-6

_MARGINS: Mapping[str, Loss] = {"logistic": losses.logistic(), "hinge": losses.hinge(Fraction(1, 2))}
_NUMBERS: Mapping[str, Loss] = {"huber": losses.huber(Fraction(1, 8)), "squared": losses.squared()}


class _Scores(Labels):
    """Labels that leave predictions as they are, so that those of several models can be compared."""

    def write(self, predictions: Floats) -> Floats:
        return predictions


class _Stable(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What both estimators do: some fits on the same rows, whose budget is split evenly over them."""

    def _prepare_fit(self, losses_known: Mapping[str, Loss], *, fits: int, rows: int, width: int) -> dict[str, Any]:
        """Check everything public and return the settings of a fit; a refusal here costs nothing."""
        if self.release not in ("once", "each"):
            raise InvalidParameter("release", self.release, "'once' or 'each'")
        if self.bounds is None:
            message = "certifying stability needs public bounds of the features; give bounds=(low, high)"
            raise NotCertified(message)
        loss = losses_known.get(self.loss) if isinstance(self.loss, str) else self.loss
        if not isinstance(loss, Loss) or loss.margins is not (losses_known is _MARGINS):
            names = " or ".join(map(repr, losses_known))
            raise InvalidParameter("loss", self.loss, f"{names}, or a loss of holdtrue.ensembles.losses for such labels")
        self._share = _mu_of(self, fits) if self.release == "once" else positive("epsilon", self.epsilon) / fits
        settings = {
            "loss": loss,
            "bounds": self.bounds,
            "norm": self.norm,
            "radius": self.radius,
            "strength": self._choose_strength(loss, rows, width) if self.strength is None else self.strength,
            "steps": None if self.steps is None else count("steps", self.steps),
            "label_bounds": None if loss.margins else self.label_bounds,
        }
        # One blank row in the place of the rows: whatever would be refused is refused now.
        found = settings["strength"] is not None and settings["radius"] is settings["steps"] is None
        blank = fit_stable(np.zeros((1, width)), np.zeros(1), **settings | ({} if found else {"steps": 1}))
        if self.release == "once":
            OutputPerturbation(self._share).release(blank)
        else:
            NoisyPrediction(blank, epsilon=self._share)
        return settings

    def _choose_strength(self, loss: Loss, rows: int, width: int) -> float | None:
        """Return the strength that suits the noise to come; none where the loss is not Lipschitz by itself.

        Weights with noise of 2 L / (strength rows) over mu move the margin of a row by that times its length, which a
        classifier's default keeps at a third. Else the strength is the one that makes the bound on the loss least (E14).
        """
        lipschitz = Features(self.bounds, columns=width, norm=self.norm).lipschitz
        reach = _GUESS if self.radius is None else self.radius
        bounded = loss if self.radius is None else loss.bound_slope(lipschitz * float(positive("radius", reach)))
        if bounded.lipschitz is None:
            return None
        if self.release == "once" and loss.margins and self.radius is None:
            noise = 2 * lipschitz**2 * bounded.lipschitz / (rows * float(self._share))
            return max(noise / _MARGIN_NOISE, _LEAST_STRENGTH)
        if self.release == "once":
            return output_strength(rows, mu=self._share, radius=reach, lipschitz=lipschitz * bounded.lipschitz)
        given = {"loss_lipschitz": bounded.lipschitz, "predictor_lipschitz": lipschitz}
        return regularised(rows=rows, epsilon=self._share, radius=reach, **given).strength

    def _release_fits(self, rows: Floats, targets: list[npt.NDArray[Any]], settings: dict[str, Any]) -> None:
        """Charge and publish, or keep the fits, one for each target."""
        self.released_: dict[Any, Any] = {}
        self.models_: list[LinearModel] = []
        self._rules: list[NoisyPrediction] = []
        fits = len(targets)
        if self.release == "each":
            fitted = run_quietly(lambda: [fit_stable(rows, target, **settings) for target in targets])
            self._rules = [NoisyPrediction(self._make_readable(fit), epsilon=self._share) for fit in fitted]
            self.event_: Event = _repeat_event(self._rules[0].event, fits)
            self.epsilon_per_prediction_ = float(positive("epsilon", self.epsilon))
            self.stability_ = self._rules[0].fit.stability
            return
        mechanism = OutputPerturbation(self._share)
        self.event_ = _repeat_event(mechanism.event, fits)
        self.epsilon_per_prediction_ = 0.0
        (self.models_, self.stability_), _ = charge_and_draw(
            self.handle_,
            self.event_,
            verb="fit",
            estimator=self,
            measure=lambda: [fit_stable(rows, target, **settings) for target in targets],
            draw=lambda fitted: ([mechanism.release(fit) for fit in fitted], fitted[0].stability),
        )

    def _make_readable(self, fit: StableFit) -> StableFit:
        """Return a fit that can be asked, without its slope, which is no longer needed and cannot be pickled."""
        return replace(fit, loss=replace(fit.loss, slope=_no_slope, curve=None))

    def _read_points(self, X: object) -> Floats:
        check_is_fitted(self)
        return points_of(read_points(self, X))

    def _answer_points(self, X: object) -> Floats:
        """Return points by fits, each answered with its own noise and charged."""
        points = self._read_points(X)
        said = answer_points(
            self, points, measure=lambda new: [rule.on_grid(new) for rule in self._rules], draw=self._draw_predictions
        )
        return np.array(said)

    def _draw_predictions(self, exact: list[npt.NDArray[np.object_]]) -> Floats:
        return np.column_stack([rule.draw(values) for rule, values in zip(self._rules, exact, strict=True)])


class StableClassifier(PrivateEstimator, ClassifierMixin, _Stable):  # type: ignore[misc]  # likewise
    """A linear classifier that one row changes very little, published once with noise, or asked point by point.

    Guarantee, replace-one, from constants certified before any row is seen (E13-E16): with ``release="once"`` each fit is
    mu-GDP in its rows, charged before they are read, and predictions are free and without end; with ``release="each"`` a
    fit lets nothing out and each new point is epsilon-DP, charged as in :class:`SoftMajorityClassifier`. For more than two
    labels there is a model for each against the rest; one row moves all of them, so the budget is split: mu / sqrt(labels)
    or epsilon / labels each. ``event_`` is what is charged. Needs: public ``bounds``. Failure: NotCertified where a constant
    is missing, never because of a row; NotPrivate where a ledger in pure epsilon is to pay for normal noise;
    BudgetExceeded, with nothing charged and the estimator as it was.

    Parameters: ``loss``, "logistic", "hinge" (its corner rounded over 1/2) or a Loss; ``bounds`` of every column or of
    each, to which features are clamped, by default (-2, 2), for columns in units of public deviations; ``norm``, the length
    to which rows on the scale of [-1, 1] are shortened, or None; ``strength`` of the regulariser, by default so that
    published noise moves a margin by a third at most, or the best for the noise if the best weights have the length
    ``radius``, where that is given, or else 1; ``radius``, if given, is also a bound on the weights; ``steps`` of a
    descent, where it is not to be the minimiser itself; ``epsilon`` and ``delta``, of a fit or of a point,
    or ``mu`` of a fit in their place; ``classes``, the public labels, or None for those in ``y``, which then count as
    public; ``ledger``, a :class:`Handle`, the path of a ledger, the curator of these rows, or None. The number of rows and
    of columns, and that every cell is a finite number, count as public; no error quotes a cell.
    """

    def __init__(  # noqa: PLR0913 - each is a setting of its own, given by name
        self,
        *,
        loss: str | Loss = "logistic",
        strength: Number | None = None,
        bounds: Pairs | None = (-2, 2),
        norm: Number | None = 1.5,
        radius: Number | None = None,
        release: Release = "once",
        epsilon: Number = 1.0,
        delta: Number = 1e-6,
        mu: Number | None = None,
        steps: int | None = None,
        classes: object = None,
        ledger: LedgerGiven = None,
    ) -> None:
        self.loss = loss
        self.strength = strength
        self.bounds = bounds
        self.norm = norm
        self.radius = radius
        self.release = release
        self.epsilon = epsilon
        self.delta = delta
        self.mu = mu
        self.steps = steps
        self.classes = classes
        self.ledger = ledger

    def fit(self, X: object, y: object) -> Self:
        """Charge, fit, and publish; with ``release="each"``, fit only."""
        with unchanged_if_refused(self):
            self.handle_ = handle_of(self.ledger)
            rows, labels = read_rows(self, X, y, handle=self.handle_)
            self.classes_, codes = encode_labels(labels, classes=self.classes)
            against = [1] if self.classes_.size == _BINARY else range(self.classes_.size)
            settings = self._prepare_fit(_MARGINS, fits=len(against), rows=len(rows), width=rows.shape[1])
            self._release_fits(points_of(rows), [codes == code for code in against], settings)
        return self

    def _make_readable(self, fit: StableFit) -> StableFit:
        return replace(super()._make_readable(fit), labels=_Scores(None))

    def predict(self, X: object) -> npt.NDArray[Any]:
        """Return a label for each point: free once the weights are published, otherwise drawn and charged."""
        check_is_fitted(self)
        scores = self._score_points(X) if self.models_ else self._answer_points(X)
        places = np.argmax(scores, axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0).astype(np.int64)
        named: npt.NDArray[Any] = self.classes_[places]
        return named

    @available_if(lambda estimator: estimator.release == "once")  # type: ignore[untyped-decorator]  # likewise
    def decision_function(self, X: object) -> Floats:
        """Return the published models' scores: one per point for two labels, otherwise one per label."""
        scores = self._score_points(X)
        return scores if scores.shape[1] > 1 else scores[:, 0]

    def _score_points(self, X: object) -> Floats:
        points = self._read_points(X)
        return np.column_stack([model.scores(points) for model in self.models_])


class StableRegressor(PrivateEstimator, RegressorMixin, _Stable):  # type: ignore[misc]  # likewise
    """A linear regression that one row changes very little, published once with noise, or asked point by point.

    Guarantee, needs and failure: as of :class:`StableClassifier`, with one model; labels are clamped to ``label_bounds``,
    public, and so are predictions.

    Parameters: as of :class:`StableClassifier`; ``loss``, "huber" (quadratic up to an eighth of half the width of the
    label's bounds, and linear beyond), "squared", which needs a ``radius`` or a ``strength``, or a Loss; ``label_bounds``,
    by default (-2, 2).
    """

    def __init__(  # noqa: PLR0913 - each is a setting of its own, given by name
        self,
        *,
        loss: str | Loss = "huber",
        strength: Number | None = None,
        bounds: Pairs | None = (-2, 2),
        norm: Number | None = 1.5,
        radius: Number | None = None,
        label_bounds: tuple[Number, Number] | None = (-2, 2),
        release: Release = "once",
        epsilon: Number = 1.0,
        delta: Number = 1e-6,
        mu: Number | None = None,
        steps: int | None = None,
        ledger: LedgerGiven = None,
    ) -> None:
        self.loss = loss
        self.strength = strength
        self.bounds = bounds
        self.norm = norm
        self.radius = radius
        self.label_bounds = label_bounds
        self.release = release
        self.epsilon = epsilon
        self.delta = delta
        self.mu = mu
        self.steps = steps
        self.ledger = ledger

    def fit(self, X: object, y: object) -> Self:
        """Charge, fit, and publish; with ``release="each"``, fit only."""
        with unchanged_if_refused(self):
            self.handle_ = handle_of(self.ledger)
            rows, numbers = read_rows(self, X, y, handle=self.handle_, y_numeric=True)
            settings = self._prepare_fit(_NUMBERS, fits=1, rows=len(rows), width=rows.shape[1])
            self._release_fits(points_of(rows), [points_of(numbers)], settings)
        return self

    def predict(self, X: object) -> Floats:
        """Return a number for each point: free once the weights are published, otherwise drawn and charged."""
        check_is_fitted(self)
        if not self.models_:
            return np.asarray(self._answer_points(X)[:, 0])
        return self.models_[0].predict(self._read_points(X))


def _no_slope(predictions: Floats, _labels: Floats) -> Floats:
    return np.zeros_like(predictions)


def _repeat_event(event: Event, fits: int) -> Event:
    return event if fits == 1 else Repeated(event, fits)


def _mu_of(estimator: Any, fits: int) -> Fraction:  # noqa: ANN401 - one of ours
    """Return the mu of each of several fits: their squares add up to no more than the whole, in the ledger's units too."""
    if estimator.mu is not None:
        whole = positive("mu", estimator.mu)
        if fits == 1:
            return whole
        units = units_down(whole * whole)
    else:
        epsilon, delta = positive("epsilon", estimator.epsilon), probability("delta", estimator.delta)
        units = largest_cap("gdp", round_down(epsilon), round_down(delta))
    share = Fraction(math.isqrt(units // fits * UNIT.denominator), UNIT.denominator)
    if share == 0:
        raise InvalidParameter("epsilon", estimator.epsilon, "large enough for noise of a finite size")
    return share
