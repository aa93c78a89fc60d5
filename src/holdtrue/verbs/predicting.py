"""PREDICT: one label or number for a public point, drawn from the votes of an ensemble (E1, E4, E9-E11)."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np

from holdtrue.accounting.curves import bounded_range_mu, pure_mu
from holdtrue.accounting.filters import Filter
from holdtrue.ensembles.responding import Agnostic, NoisyAverage, NoisyMax, SoftMajority
from holdtrue.ensembles.screening import Screen
from holdtrue.errors import InvalidParameter
from holdtrue.events import NoCost, Repeated
from holdtrue.exact import Number, positive, round_up, text_among
from holdtrue.mechanisms.base import Mechanism
from holdtrue.planning import AnyPlan
from holdtrue.records import Certificate, Prediction, Response, canonical
from holdtrue.verbs import Release, Standing
from holdtrue.verbs.selecting import epsilon_of_use

__all__ = ["Asked", "Method", "group", "predict", "rule_of", "screen"]

Method: TypeAlias = Literal["soft-majority", "agnostic", "noisy-max"]

THEOREM = "private prediction from disjoint parts (E1, E4)"


@dataclass(frozen=True, slots=True)
class Asked:
    """A model as the public knows it: what it is called, what it was made of, and what it answers with.

    ``digest`` names what it was made of, so that a label is never taken from the answers of another model of this name.
    """

    name: str
    digest: str
    parts: int
    labels: tuple[str | int | float | bool, ...] | None
    bounds: tuple[float, float] | None

    def part(self, verb: str, point: Mapping[str, object]) -> str:
        """Return the name under which the response to a point is found again."""
        content = canonical({"model": self.digest, "point": dict(point)})
        return f"{verb} {hashlib.sha256(content.encode('ascii')).hexdigest()}"


def rule_of(model: Asked, *, plan: AnyPlan, epsilon: Number | None, method: Method = "soft-majority") -> Mechanism:
    """Return the mechanism that answers one point: of votes for a list of labels, of outputs for a range of numbers."""
    privacy = epsilon_of_use(plan) if epsilon is None else positive("epsilon", epsilon)
    if model.bounds is not None:
        low, high = model.bounds
        if plan.ledger == "pure":
            return NoisyAverage(model.parts, low=low, high=high, epsilon=privacy)
        # On a GDP ledger normal noise at the cost that any epsilon-DP answer would have is narrower.
        return NoisyAverage(model.parts, low=low, high=high, mu=Fraction(pure_mu(round_up(privacy))))
    match text_among("method", method, ("soft-majority", "agnostic", "noisy-max")):
        case "soft-majority":
            return SoftMajority(privacy)
        case "agnostic":
            if model.labels is None or len(model.labels) != 2:  # noqa: PLR2004 - yes and no
                raise InvalidParameter("method", method, "another one: it answers for two labels only")
            return Agnostic(model.parts, epsilon=privacy, limit="ratio" if plan.ledger == "pure" else "log-odds")
        case "noisy-max":
            if plan.ledger == "pure":
                raise InvalidParameter("method", method, "'soft-majority' on a pure ledger, which takes no normal noise")
            # As costly as soft majority at this epsilon.
            return NoisyMax(mu=Fraction(bounded_range_mu(round_up(privacy))))
        case _:
            raise InvalidParameter("method", method, "'soft-majority', 'agnostic' or 'noisy-max'")


def predict(points: Sequence[Mapping[str, object]], *, model: Asked, rule: Mechanism, limit: Filter) -> Release:
    """Return the release of one prediction for each of several different points, charged together.

    Guarantee (E1, E4): each is the rule's event in the training rows; a point asked again is answered from the ledger.
    """

    def respond(drawn: Sequence[Any], certificate: Certificate, _: Standing) -> list[Response]:
        proven = certificate.proving(THEOREM)
        labels = model.labels
        return [Prediction(float(answer) if labels is None else labels[int(answer)], proven) for answer in drawn]

    return _release("predict", points, model=model, rule=rule, limit=limit, respond=respond)


def group(points: Sequence[Mapping[str, object]], *, model: Asked, epsilon: Number, limit: Filter) -> Release:
    """Return the release of one label for several public points together, at the cost of one prediction.

    Votes are added over the points. One row moves one member, and so at most one vote a point: scaled by their number, that
    is what one vote at one point is (E4). A member that errs at random over the points errs on few of them.
    """
    rule = SoftMajority(epsilon, points=len(points))

    def respond(drawn: Sequence[Any], certificate: Certificate, _: Standing) -> list[Response]:
        labels = model.labels or ()
        return [Prediction(labels[int(answer)], certificate.proving(THEOREM)) for answer in drawn]

    listed = canonical({"points": [dict(point) for point in points]})
    whole = {"points": len(points), "digest": hashlib.sha256(listed.encode("ascii")).hexdigest()}
    release = _release("predict", [whole], model=model, rule=rule, limit=limit, respond=respond)
    return replace(release, draw=lambda seen: [rule.release(np.asarray(seen).sum(axis=0))])


def screen(point: Mapping[str, object], *, model: Asked, rule: Screen, limit: Filter) -> Release:
    """Return the release of whether the vote at a point is clear, which is charged whatever it says."""

    def respond(drawn: Sequence[Any], certificate: Certificate, _: Standing) -> list[Response]:
        return [Prediction(bool(answer), certificate.proving(THEOREM)) for answer in drawn]

    return _release("screen", [point], model=model, rule=rule, limit=limit, respond=respond)


def _release(  # noqa: PLR0913 - what makes one release of predictions
    verb: str,
    points: Sequence[Mapping[str, object]],
    *,
    model: Asked,
    rule: Mechanism,
    limit: Filter,
    respond: Callable[[Sequence[Any], Certificate, Standing], list[Response]],
) -> Release:
    event = Repeated(rule.event, len(points)) if len(points) > 1 else rule.event if points else NoCost()
    return Release(
        verb=verb,
        request={
            "model": model.name,
            "made of": model.digest,
            "points": [dict(point) for point in points],
            "rule": repr(rule),
        },
        parts=tuple(model.part(verb, point) for point in points),
        event=event,
        cost=limit.cost(event),
        draws=0,
        queries=(),
        draw=lambda seen: [rule.release(row) for row in seen],  # type: ignore[attr-defined]  # every rule has one
        respond=respond,
    )
