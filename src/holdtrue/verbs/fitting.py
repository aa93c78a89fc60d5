"""FIT: the weights of a linear model that one row changes very little, published once with noise (E13-E16)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from holdtrue.bounds.stability import best_strength, fit_excess, gaussian_noise
from holdtrue.codec import digest_of
from holdtrue.ensembles import losses
from holdtrue.ensembles.losses import Features, Labels, Loss
from holdtrue.ensembles.stable import LinearModel, OutputPerturbation, StableFit, fit_stable
from holdtrue.errors import InvalidParameter, NotCertified
from holdtrue.exact import Number, positive, read_list, text_among
from holdtrue.kernels import Floats
from holdtrue.queries.cards import Card
from holdtrue.queries.columns import names_of
from holdtrue.queries.features import Feature, Numbers, columns_of, default_features, parse_feature, read_given_rows
from holdtrue.queries.syntax_tree import Query
from holdtrue.records import Certificate, FittedModel, Response
from holdtrue.verbs import Answered, Curation, Job, Planned, Release, Standing, plan_single
from holdtrue.verbs.asking import NOT_INDEPENDENT
from holdtrue.verbs.predicting import choose_mu
from holdtrue.verbs.training import Bounds, choose_goal, find_limits, is_model_name

__all__ = ["KINDS", "FitTask", "fit", "with_features"]

KINDS: Final[Mapping[str, Loss]] = {
    "ridge": losses.squared(),
    "logistic": losses.logistic(),
    "huber": losses.huber(Fraction(1, 8)),
    "hinge": losses.hinge(Fraction(1, 2)),
}
"""The losses that a model may be fitted to, by the name of the kind."""

NOT_FIRST: Final = "other answers about these rows came before, and the choice of this model may follow from them"
_NORM: Final = 1.5
_TWO: Final = 2
_THEOREM: Final = "weights of a regularised minimiser with normal noise (E13, E14); features are clipped to their bounds"
_ROUNDED: Final = 1 + 2.0**-9
"""More than what rounding weights and noise to a 1,024th of the stability adds to it."""


@dataclass(frozen=True, slots=True, eq=False)
class FitTask:
    """What is fitted, all of it public: what is read of a row, the loss, the strength of the regulariser, the noise."""

    curation: Curation
    name: str
    kind: str
    target: str
    columns: tuple[str, ...]
    features: tuple[Feature, ...]
    goal: Feature
    bounds: tuple[tuple[float, float], ...]
    labels: tuple[Any, ...] | None
    span: tuple[float, float] | None
    mu: Fraction
    radius: float
    strength: float

    @property
    def loss(self) -> Loss:
        """Return the loss of the kind."""
        return KINDS[self.kind]

    @property
    def constants(self) -> dict[str, Any]:
        """Return the certified constants of the loss and of the rows, for the bounds of theory."""
        row = Features(self.bounds, columns=len(self.bounds), norm=_NORM).lipschitz
        slopes = {"loss_lipschitz": self.loss.lipschitz, "loss_smoothness": self.loss.smoothness}
        noise = partial(gaussian_noise, mu=self.mu)
        return {"rows": self.curation.card.rows, "radius": self.radius, "noise": noise, "predictor_lipschitz": row} | slopes

    def release(self) -> Release:
        """Return the release of all weights, charged as one event.

        Guarantee (E13): mu-GDP for the weights and for whatever is computed from them.
        """
        curation, mechanism = self.curation, OutputPerturbation(self.mu)
        request = self.describe()
        return Release(
            verb="fit",
            request=request,
            parts=(f"fit {digest_of(request)}",),
            event=mechanism.event,
            cost=curation.limit.cost(mechanism.event),
            draws=0,
            queries=(),
            draw=partial(_draw_weights, mechanism),
            respond=self.make_response,
        )

    def describe(self) -> dict[str, object]:
        """Return what the ledger keeps of the request."""
        public = {"labels": None if self.labels is None else list(self.labels), "span": self.span}
        made = {"features": list(self.columns), "bounds": [list(pair) for pair in self.bounds], "mu": str(self.mu)}
        return {"name": self.name, "kind": self.kind, "target": self.target, "strength": self.strength} | public | made

    def measure(self) -> StableFit:
        """Return the fit on all rows. Private."""
        label_bounds = self.span
        learn = partial(fit_stable, loss=self.loss, bounds=self.bounds, strength=self.strength, norm=_NORM)
        engine, progress = self.curation.engine, self.curation.progress
        return engine.fit(partial(learn, label_bounds=label_bounds), self.features, self.goal, progress=progress)

    def make_response(self, drawn: Sequence[Any], certificate: Certificate, standing: Standing) -> list[Response]:
        """Return the weights with what is certified of them where their charge stands."""
        model, stability, distance = drawn[0]
        reason = self._find_reason(standing)
        return [
            FittedModel(
                name=self.name,
                kind=self.kind,
                target=self.target,
                columns=self.columns,
                bounds=self.bounds,
                labels=self.labels,
                span=self.span,
                weights=tuple(model.weights.tolist()),
                deviation=model.deviation,
                norm=_NORM,
                strength=self.strength,
                radius=self.radius,
                excess=None if reason else self.bound_excess(stability, distance),
                certificate=certificate.with_theorem(_THEOREM),
                reason=reason,
            )
        ]

    def bound_excess(self, stability: float, distance: float) -> float:
        """Return how far the expected loss may be above the least of weights within the radius (E13, E14, E15)."""
        exact = fit_excess(strength=self.strength, **self.constants)
        inexact = (stability + distance) / exact.stability * _ROUNDED
        return exact.total * max(1.0, inexact) ** 2

    def _find_reason(self, standing: Standing) -> str | None:
        if not self.curation.plan.iid:
            return NOT_INDEPENDENT
        return NOT_FIRST if standing.charges else None


def plan_fit(  # noqa: PLR0913 - the public facts of one model
    curation: Curation,
    name: str,
    kind: str,
    *,
    target: str,
    features: Sequence[str] | None,
    bounds: Bounds | None,
    labels: Sequence[Any] | None,
    mu: Number | None,
    radius: Number,
    strength: Number | None,
) -> FitTask:
    """Return what is to be fitted, after every check that public facts allow. Reads only the card.

    Failure: NotCertified where a feature or the target has no public bounds; InvalidParameter for all else.
    """
    if not is_model_name(name):
        raise InvalidParameter("name", name, "letters, digits, '-' and '_', at most 64 of them")
    loss = KINDS[text_among("kind", kind, tuple(KINDS))]
    if bounds is not None and not isinstance(bounds, Mapping):
        raise InvalidParameter("bounds", type(bounds).__name__, "a mapping from columns to pairs")
    given = None if labels is None else read_list("labels", labels, expected="a list of labels")
    if not curation.engine.pairs:
        message = "fit needs all rows in one process; on a cluster use train and predict"
        raise NotCertified(message)
    goal, public, span = choose_goal(curation, target, given, bounds or {})
    if loss.margins and (public is None or len(public) != _TWO):
        raise InvalidParameter.saying("target", f"kind {kind!r} needs a target with two labels, or a yes-or-no question")
    if not loss.margins and span is None:
        raise InvalidParameter.saying("target", f"kind {kind!r} needs a target that is a number")
    card = curation.card
    default = default_features(card, columns_of([goal])) if features is None else features
    chosen = tuple(read_list("features", default, expected="a list of columns"))
    read = tuple(parse_feature(text, card) for text in chosen)
    task = FitTask(
        curation,
        name,
        kind,
        target,
        chosen,
        read,
        goal,
        _find_bounds(card, chosen, read, bounds or {}),
        public,
        None if span is None else Labels.of(loss, span).bounds,
        choose_mu(curation.plan, mu),
        float(positive("radius", radius)),
        1.0 if strength is None else float(positive("strength", strength)),
    )
    if strength is None:
        task = replace(task, strength=best_strength(**task.constants))
    # One blank row in the place of the rows: whatever would be refused is refused now, at no cost.
    blank = fit_stable(
        np.zeros((1, len(read))),
        np.zeros(1),
        loss=loss,
        bounds=task.bounds,
        strength=task.strength,
        norm=_NORM,
        label_bounds=span,
    )
    OutputPerturbation(task.mu).release(blank)
    return task


def fit(curation: Curation, task: FitTask, *, key: str | None, analyst: str | None) -> FittedModel:
    """Return the published model of a task; the same request again is answered from the ledger."""

    def plan(answered: Answered) -> Planned:
        return plan_single(task.release(), answered, measure=task.measure)  # type: ignore[arg-type]  # a fit, for draw alone

    (found,) = curation.run(Job(plan, key=key, analyst=analyst, slow=True))
    if not isinstance(found, FittedModel):
        raise InvalidParameter.saying("key", "this key was used for another request; use a new one")
    return with_features(found, curation.card)


def _draw_weights(mechanism: OutputPerturbation, fitted: Any) -> list[Any]:  # noqa: ANN401 - what measure returned
    return [(mechanism.release(fitted), fitted.stability, fitted.distance)]


def with_features(found: FittedModel, card: Card) -> FittedModel:
    """Return a published model that predicts: its features are read from the public card."""
    features = tuple(parse_feature(name, card) for name in found.columns)
    return found.with_reader(partial(_predict_rows, found=found, features=features, card=card))


def _predict_rows(rows: object, *, found: FittedModel, features: tuple[Feature, ...], card: Card) -> npt.NDArray[Any]:
    read: Any = read_given_rows(rows, features, card) if names_of(rows) is not None else rows
    scale = Features(found.bounds, columns=len(found.bounds), norm=found.norm)
    model = LinearModel(np.array(found.weights), scale, Labels(found.span), found.deviation)
    said: Floats = model.predict(read)
    return said if found.labels is None else np.asarray(found.labels)[said.astype(np.int64)]


def _find_bounds(
    card: Card, chosen: Sequence[str], read: Sequence[Feature], bounds: Bounds
) -> tuple[tuple[float, float], ...]:
    """Return the public bounds of every feature: those given, or the card's, or 0 and 1 for what is yes or no."""
    known, kinds = find_limits(card, chosen, bounds), {column.name: column.type for column in card.columns}
    found = []
    for text, feature in zip(chosen, read, strict=True):
        flag = (isinstance(feature, Query) and feature.boolean) or (
            isinstance(feature, Numbers) and kinds[feature.column] == "boolean"
        )
        pair = known.get(text, (0.0, 1.0) if flag else None)
        if pair is None:
            message = f"certifying stability needs public bounds of {text!r}; give bounds={{{text!r}: (low, high)}}"
            raise NotCertified(message)
        found.append((float(pair[0]), float(pair[1])))
    return tuple(found)
