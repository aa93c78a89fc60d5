"""FIT: a linear model that one row changes very little, published once with noise, or asked point by point (E13-E16)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from holdtrue.bounds.stability import (
    FitExcess,
    Noise,
    best_strength,
    best_travel,
    fit_excess,
    gaussian_noise,
    laplace_noise,
    travel_excess,
)
from holdtrue.codec import digest_of, plain
from holdtrue.ensembles import losses
from holdtrue.ensembles.losses import Features, Labels, Loss
from holdtrue.ensembles.stable import LinearModel, OutputPerturbation, StableFit, fit_stable
from holdtrue.errors import InvalidParameter, NotCertified
from holdtrue.exact import ROUNDING, Number, positive, read_list, text_among
from holdtrue.kernels import Floats
from holdtrue.queries.cards import Card
from holdtrue.queries.columns import names_of
from holdtrue.queries.features import Feature, Numbers, columns_of, default_features, parse_feature, read_given_rows
from holdtrue.queries.syntax_tree import Query
from holdtrue.records import Certificate, FittedModel, Response
from holdtrue.requests import Basis, Fourier, Polynomial
from holdtrue.verbs import Answered, Curation, Job, Planned, Release, Standing, expect_kind, plan_single
from holdtrue.verbs.asking import NOT_INDEPENDENT
from holdtrue.verbs.selecting import choose_mu
from holdtrue.verbs.training import Bounds, choose_goal, find_limits, is_model_name

__all__ = ["KINDS", "NOT_FIRST", "FitMethod", "FitTask", "PublicFit", "fit", "plan_fit", "read_facts", "with_features"]

FitMethod: TypeAlias = Literal["minimiser", "descent"]

KINDS: Final[Mapping[str, Loss]] = {
    "ridge": losses.squared(),
    "logistic": losses.logistic(),
    "huber": losses.huber(Fraction(1, 8)),
    "hinge": losses.hinge(Fraction(1, 2)),
    "squared-clipped": losses.squared_clipped(),
}
"""The losses that a model may be fitted to, by the name of the kind."""

NOT_FIRST: Final = "other answers about these rows came before, and the choice of this model may follow from them"
_NORM: Final = 1.5
_TWO: Final = 2
_THEOREMS: Final = {
    "minimiser": "weights of a regularised minimiser with normal noise (E13, E14); features are clipped to their bounds",
    "descent": "weights of gradient steps with normal noise (E13, E16); features are clipped to their bounds",
}
_ROUNDED: Final = 1 + 2.0**-9
"""More than what rounding weights and noise to a 1,024th of the stability adds to it."""


@dataclass(frozen=True, slots=True, eq=False)
class PublicFit:
    """What every fit reads and answers with, all of it public: features within bounds, and labels or a span of numbers."""

    curation: Curation
    name: str
    target: str
    columns: tuple[str, ...]
    features: tuple[Feature, ...]
    goal: Feature
    bounds: tuple[tuple[float, float], ...]
    labels: tuple[Any, ...] | None
    span: tuple[float, float] | None


@dataclass(frozen=True, slots=True, eq=False)
class FitTask:
    """A linear model to be fitted: the loss, the regulariser or the steps, the noise. ``travel`` is 0 for a minimiser."""

    facts: PublicFit
    kind: str
    mu: Fraction | None
    epsilon: Fraction | None
    radius: float
    method: str
    basis: Basis | None
    strength: float = 0.0
    travel: float = 0.0

    @property
    def curation(self) -> Curation:
        """Return the pipeline of the rows."""
        return self.facts.curation

    @property
    def norm(self) -> float:
        """Return the length to which scaled rows are shortened; waves are 1 long whatever it is."""
        return math.sqrt(len(self.facts.bounds)) if isinstance(self.basis, Fourier) else _NORM

    @property
    def scaling(self) -> Features:
        """Return how rows become vectors of certified length."""
        return Features(self.facts.bounds, columns=len(self.facts.bounds), norm=self.norm, basis=self.basis)

    @property
    def loss(self) -> Loss:
        """Return the loss of the kind; for gradient steps with the slope that weights within the radius meet."""
        found = KINDS[self.kind]
        return found if self.method == "minimiser" else found.bound_slope(self.scaling.lipschitz * self.radius)

    @property
    def constants(self) -> dict[str, Any]:
        """Return the certified constants of the loss and of the rows, for the bounds of theory."""
        slopes = {"loss_lipschitz": self.loss.lipschitz, "loss_smoothness": self.loss.smoothness}
        size = {"rows": self.curation.card.rows, "radius": self.radius, "predictor_lipschitz": self.scaling.lipschitz}
        return size | {"noise": self.make_noise} | slopes

    def make_noise(self, gamma: float) -> Noise:
        """Return the noise for a stability of predictions."""
        if self.epsilon is not None:
            return laplace_noise(gamma, epsilon=self.epsilon)
        return gaussian_noise(gamma, mu=self.mu or 1)

    def with_best(self, strength: Number | None) -> "FitTask":
        """Return the task with the strength, or the travel, that makes the excess least."""
        if self.method == "descent":
            if strength is not None:
                raise InvalidParameter.saying("strength", "leave out strength: gradient steps need no regulariser")
            return replace(self, travel=best_travel(**self.constants))
        given = None if strength is None else float(positive("strength", strength))
        return replace(self, strength=best_strength(**self.constants) if given is None else given)

    @property
    def settings(self) -> dict[str, Any]:
        """Return what the solver is told; the number and the length of gradient steps are public."""
        facts = self.facts
        common = {"loss": KINDS[self.kind], "bounds": facts.bounds, "norm": self.norm, "label_bounds": facts.span}
        common |= {"basis": self.basis}
        if self.method == "minimiser":
            return common | {"strength": self.strength}
        smooth = self.scaling.lipschitz**2 * (self.loss.smoothness or 1.0) * ROUNDING**4
        steps = max(1, math.ceil(self.travel * smooth))
        return common | {"method": "descent", "radius": self.radius, "steps": steps, "step": self.travel / steps}

    def release(self) -> Release:
        """Return the release of all weights, charged as one event.

        Guarantee (E13): mu-GDP for the weights and for whatever is computed from them.
        """
        curation, mechanism = self.curation, OutputPerturbation(self.mu or 0)
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
        """Return what the ledger keeps of the request; what is not given is left out, as it was before it could be."""
        facts = self.facts
        public = {"labels": None if facts.labels is None else list(facts.labels), "span": facts.span, "mu": str(self.mu)}
        made = {"features": list(facts.columns), "bounds": [list(pair) for pair in facts.bounds]}
        more: dict[str, object] = {} if self.epsilon is None else {"epsilon": str(self.epsilon)}
        more |= {} if self.basis is None else {"basis": plain(self.basis)}
        more |= {} if self.method == "minimiser" else {"travel": self.travel, "radius": self.radius}
        return (
            {"name": facts.name, "kind": self.kind, "target": facts.target, "strength": self.strength} | public | made | more
        )

    def measure(self) -> StableFit:
        """Return the fit on all rows. Private."""
        engine, progress, facts = self.curation.engine, self.curation.progress, self.facts
        return engine.fit(partial(fit_stable, **self.settings), facts.features, facts.goal, progress=progress)

    def make_response(self, drawn: Sequence[Any], certificate: Certificate, standing: Standing) -> list[Response]:
        """Return the weights with what is certified of them where their charge stands."""
        (model, stability, distance), facts = drawn[0], self.facts
        reason = self.find_reason(first=standing.charges == 0)
        return [
            FittedModel(
                name=facts.name,
                kind=self.kind,
                target=facts.target,
                columns=facts.columns,
                bounds=facts.bounds,
                labels=facts.labels,
                span=facts.span,
                weights=tuple(model.weights.tolist()),
                deviation=model.deviation,
                norm=self.norm,
                strength=self.strength,
                radius=self.radius,
                excess=None if reason else self.bound_excess(stability, distance),
                certificate=certificate.with_theorem(_THEOREMS[self.method]),
                reason=reason,
                basis=UNSET if self.basis is None else self.basis,
            )
        ]

    def bound_excess(self, stability: float, distance: float | None) -> float:
        """Return how far the expected loss may be above the least of weights within the radius (E13-E16, V5).

        Each term grows at most with the square of the stability, so that what inexact weights, arithmetic and the grid add
        to it is covered.
        """
        exact = self.find_excess()
        inexact = (stability + (distance or 0.0)) / exact.stability * _ROUNDED
        return exact.total * max(1.0, inexact) ** 2

    def find_excess(self) -> FitExcess:
        """Return the terms of the bound for exact arithmetic."""
        if self.method == "descent":
            return travel_excess(travel=self.travel, **self.constants)
        return fit_excess(strength=self.strength, **self.constants)

    def find_reason(self, *, first: bool) -> str | None:
        """Return why there is no bound on the loss; None where there is one."""
        if not self.curation.plan.iid:
            return NOT_INDEPENDENT
        return None if first else NOT_FIRST


def read_facts(  # noqa: PLR0913 - the public facts of one model
    curation: Curation,
    name: str,
    kind: object,
    *,
    target: str,
    features: Sequence[str] | None,
    bounds: Bounds | None,
    labels: Sequence[Any] | None,
) -> PublicFit:
    """Return what a fit reads and answers with, after every check that public facts allow. Reads only the card.

    Failure: NotCertified where a feature or the target has no public bounds; InvalidParameter for all else.
    """
    if not is_model_name(name):
        raise InvalidParameter("name", name, "letters, digits, '-' and '_', at most 64 of them")
    if bounds is not None and not isinstance(bounds, Mapping):
        raise InvalidParameter("bounds", type(bounds).__name__, "a mapping from columns to pairs")
    given = None if labels is None else read_list("labels", labels, expected="a list of labels")
    goal, public, span = choose_goal(curation, target, given, bounds or {})
    _check_goal(kind, public, span)
    card = curation.card
    default = default_features(card, columns_of([goal])) if features is None else features
    chosen = tuple(read_list("features", default, expected="a list of columns"))
    read = tuple(parse_feature(text, card) for text in chosen)
    curation.engine.check_room(len(read) + 1)
    found = _find_bounds(card, chosen, read, bounds or {})
    ends = None if span is None else Labels.of(losses.squared(), span).bounds
    return PublicFit(curation, name, target, chosen, read, goal, found, public, ends)


def _check_goal(kind: object, labels: tuple[Any, ...] | None, span: tuple[float, float] | None) -> None:
    """Refuse a kind that there is not, and a target that the kind does not predict."""
    if not isinstance(kind, str):  # a learner of one's own, of numbers or two labels
        if labels is not None and len(labels) != _TWO:
            raise InvalidParameter.saying("target", "a learner of your own needs a number or two labels for its target")
        return
    known = text_among("kind", kind, (*KINDS, "thresholds"))
    if known == "thresholds" or KINDS[known].margins:
        if labels is None or len(labels) != _TWO:
            raise InvalidParameter.saying("target", f"kind {kind!r} needs a target with two labels, or a yes-or-no question")
    elif span is None:
        raise InvalidParameter.saying("target", f"kind {kind!r} needs a target that is a number")


def plan_fit(  # noqa: PLR0913 - the public facts of one model
    facts: PublicFit,
    kind: str,
    *,
    mu: Number | None,
    epsilon: Number | None = None,
    radius: Number = 1,
    strength: Number | None = None,
    method: FitMethod = "minimiser",
    basis: Basis | None = None,
    each: bool = False,
) -> FitTask:
    """Return what is to be fitted: whatever would be refused is refused now, at no cost."""
    if basis is not None and not isinstance(basis, (Fourier, Polynomial)):
        raise InvalidParameter("basis", type(basis).__name__, "ht.Fourier(pairs, scale, seed) or ht.Polynomial(degree)")
    if epsilon is not None and (mu is not None or not each):
        words = (
            "give either epsilon or mu"
            if each
            else "weights are published with normal noise: give mu instead, or release='each'"
        )
        raise InvalidParameter.saying("epsilon", words)
    if facts.curation.plan.ledger == "pure" and not each:
        message = "a pure ledger cannot pay for published weights; give release='each' and an epsilon of each prediction"
        raise InvalidParameter.saying("release", message)
    privacy = None if epsilon is not None else choose_mu(facts.curation.plan, mu)
    task = FitTask(
        facts,
        kind,
        privacy,
        None if epsilon is None else positive("epsilon", epsilon),
        float(positive("radius", radius)),
        text_among("method", method, ("minimiser", "descent")),
        basis,
    ).with_best(strength)
    # One blank row in the place of the rows.
    settings = task.settings | ({} if task.method == "minimiser" else {"steps": 1})
    blank = fit_stable(np.zeros((1, len(facts.features))), np.zeros(1), **settings)
    if not each:
        OutputPerturbation(privacy or 0).release(blank)
    return task


def fit(task: FitTask, *, key: str | None, analyst: str | None) -> FittedModel:
    """Return the published model of a task; the same request again is answered from the ledger."""

    def plan(answered: Answered) -> Planned:
        return plan_single(task.release(), answered, measure=task.measure)  # type: ignore[arg-type]  # a fit, for draw alone

    (found,) = task.curation.run(Job(plan, key=key, analyst=analyst, slow=True))
    return with_features(expect_kind(found, FittedModel), task.curation.card)


def _draw_weights(mechanism: OutputPerturbation, fitted: Any) -> list[Any]:  # noqa: ANN401 - what measure returned
    return [(mechanism.release(fitted), fitted.stability, fitted.distance)]


def with_features(found: FittedModel, card: Card) -> FittedModel:
    """Return a published model that predicts: its features are read from the public card."""
    features = tuple(parse_feature(name, card) for name in found.columns)
    return found.with_reader(partial(_predict_rows, found=found, features=features, card=card))


def _predict_rows(rows: object, *, found: FittedModel, features: tuple[Feature, ...], card: Card) -> npt.NDArray[Any]:
    read: Any = read_given_rows(rows, features, card) if names_of(rows) is not None else rows
    basis = found.basis if isinstance(found.basis, (Fourier, Polynomial)) else None
    scale = Features(found.bounds, columns=len(found.bounds), norm=found.norm, basis=basis)
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
