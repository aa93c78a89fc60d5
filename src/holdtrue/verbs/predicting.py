"""PREDICT: one label or number for a public point, drawn from the votes of an ensemble (E1, E4, E9-E11)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np

from holdtrue.accounting.filters import Filter
from holdtrue.codec import digest_of
from holdtrue.ensembles.parts import PartRule
from holdtrue.ensembles.responding import Agnostic, LaplaceMax, NoisyAverage, NoisyMax, SoftMajority
from holdtrue.ensembles.screening import Screen
from holdtrue.errors import InvalidParameter
from holdtrue.events import Event, NoCost, Repeated
from holdtrue.exact import UNIT, Number, positive, probability, text_among
from holdtrue.mechanisms import Laplace
from holdtrue.mechanisms.base import Mechanism
from holdtrue.planning.plans import AnyPlan
from holdtrue.records import Certificate, Prediction, Response
from holdtrue.verbs import Release, Standing
from holdtrue.verbs.selecting import epsilon_of_use

__all__ = ["Asked", "Method", "group", "predict", "rule_of", "screen", "screen_of", "theorem_of"]

Method: TypeAlias = Literal["soft-majority", "agnostic", "noisy-max"]

_SCREEN_DEVIATION = 0.15
_SHADE = 1 - 2.0**-50


@dataclass(frozen=True, slots=True)
class Asked:
    """A model as the public knows it: what it is called, what it was made of, and what it answers with.

    ``digest`` names what it was made of, so that a label is never taken from the answers of another model of this name.
    ``cut`` is how its rows were cut into parts, and so how many votes one row moves.
    """

    name: str
    digest: str
    parts: int
    labels: tuple[str | int | float | bool, ...] | None
    bounds: tuple[float, float] | None
    cut: PartRule

    def part(self, verb: str, point: Mapping[str, object], *, rule: Mechanism | None = None) -> str:
        """Return the name under which the response to a point is found again; by the rule too, where it decides."""
        content = {"model": self.digest, "point": dict(point)} | ({} if rule is None else {"rule": repr(rule)})
        return f"{verb} {digest_of(content)}"


def rule_of(
    model: Asked,
    *,
    plan: AnyPlan,
    epsilon: Number | None,
    mu: Number | None = None,
    method: Method = "soft-majority",
) -> Mechanism:
    """Return the mechanism that answers one point: of votes for a list of labels, of outputs for a range of numbers.

    Law: what is given is what is drawn. ``epsilon`` gives an answer that is epsilon-DP, ``mu`` normal noise that is mu-GDP.
    With neither it is what an equal share of the plan's reserve pays for. All are for the number of votes that one row
    moves. Failure: InvalidParameter for both of them, or for one that the rule or the ledger does not take.
    """
    if epsilon is not None and mu is not None:
        raise InvalidParameter("mu", mu, "left out, or epsilon")
    if mu is not None and plan.ledger == "pure":
        raise InvalidParameter("mu", mu, "left out, with epsilon in its place: a pure ledger takes no normal noise")
    votes = model.cut.votes
    normal = epsilon is None and plan.ledger != "pure"
    if model.bounds is not None:
        low, high = model.bounds
        pure, gaussian = (None, _mu(plan, mu)) if normal else (_epsilon(plan, epsilon), None)
        return NoisyAverage(model.parts, low=low, high=high, epsilon=pure, mu=gaussian, members=votes)
    match text_among("method", method, ("soft-majority", "agnostic", "noisy-max")):
        case "soft-majority" | "agnostic" if mu is not None:
            raise InvalidParameter("mu", mu, "left out, with epsilon in its place; method='noisy-max' takes mu")
        case "soft-majority":
            return SoftMajority(_epsilon(plan, epsilon), points=votes)
        case "agnostic":
            if model.labels is None or len(model.labels) != 2:  # noqa: PLR2004 - yes and no
                raise InvalidParameter("method", method, "another one: it answers for two labels only")
            limit: Literal["ratio", "log-odds"] = "ratio" if plan.ledger == "pure" else "log-odds"
            return Agnostic(model.parts, epsilon=_epsilon(plan, epsilon), limit=limit, votes=votes)
        case "noisy-max":
            if normal:
                return NoisyMax(mu=_mu(plan, mu), points=votes)
            return LaplaceMax(_epsilon(plan, epsilon), points=votes)
        case _:
            raise InvalidParameter("method", method, "'soft-majority', 'agnostic' or 'noisy-max'")


def _epsilon(plan: AnyPlan, epsilon: Number | None) -> Fraction:
    return epsilon_of_use(plan) if epsilon is None else positive("epsilon", epsilon)


def _mu(plan: AnyPlan, mu: Number | None) -> Fraction:
    """Return a mu, or what an equal share of the plan's reserve pays for; RefusedError where nothing was reserved."""
    if mu is not None:
        return positive("mu", mu)
    epsilon_of_use(plan)
    total = float(plan.use_units * UNIT)
    return Fraction(math.sqrt(total if plan.ledger == "gdp" else 2 * total) * _SHADE)


def screen_of(model: Asked, share: Number) -> Screen:
    """Return the mechanism that says whether the vote at a point is clear; InvalidParameter for a model of numbers."""
    if model.labels is None:
        raise InvalidParameter("screen", share, "left out: it is about votes, and this model gives numbers")
    deviation = max(1.0, _SCREEN_DEVIATION * model.parts)
    return Screen(probability("screen", share, one=True) * model.parts, sigma=deviation, points=model.cut.votes)


def theorem_of(model: Asked, rule: Mechanism) -> str:
    """Return the theorem that an answer rests on, and what it counts on about the order of rows."""
    match rule:
        case NoisyAverage(noise=Laplace()):
            name = "average of disjoint parts with discrete Laplace noise (E9, E10, A5)"
        case NoisyAverage():
            name = "average of disjoint parts with normal noise (E9, E10, A2)"
        case Agnostic():
            name = "private prediction from disjoint parts (E1, E11)"
        case NoisyMax() | LaplaceMax() | Screen():
            name = "private prediction from disjoint parts (E1, T2b)"
        case _:
            name = "private prediction from disjoint parts (E1, E4)"
    return f"{name}; {model.cut.sentence}"


def predict(points: Sequence[Mapping[str, object]], *, model: Asked, rule: Mechanism, limit: Filter) -> Release:
    """Return the release of one prediction for each of several different points, charged together.

    Guarantee (E1, E4): each is the rule's event in the training rows; a point asked again is answered from the ledger.
    """
    parts = tuple(model.part("predict", point) for point in points)
    return _release("predict", points, parts, model=model, rule=rule, limit=limit, draw=_each(rule))


def screen(points: Sequence[Mapping[str, object]], *, model: Asked, rule: Screen, limit: Filter) -> Release:
    """Return the release of whether the vote at each of several points is clear, charged together whatever it says."""
    parts = tuple(model.part("screen", point, rule=rule) for point in points)
    return _release("screen", points, parts, model=model, rule=rule, limit=limit, draw=_each(rule), said=bool)


def group(groups: Sequence[Sequence[Mapping[str, object]]], *, model: Asked, epsilon: Number, limit: Filter) -> Release:
    """Return the release of one label for each of several groups of public points, each at the cost of one prediction.

    Votes are added over the points of a group. One row moves one member, and so at most one vote a point: scaled by their
    number, that is what one vote at one point is (E4). A member that errs at random over the points errs on few of them.
    """
    votes = model.cut.votes
    rules = [SoftMajority(epsilon, points=votes * len(points)) for points in groups]
    ends = np.cumsum([len(points) for points in groups])

    def draw(seen: Any) -> list[Any]:  # noqa: ANN401 - votes, a line for each point of each group in turn
        pooled = [lines.sum(axis=0) for lines in np.split(np.asarray(seen), ends[:-1])]
        return [rule.release(counts) for rule, counts in zip(rules, pooled, strict=True)]

    named = [_whole(points) for points in groups]
    parts = tuple(model.part("predict", whole) for whole in named)
    return _release("predict", named, parts, model=model, rule=rules[0], limit=limit, draw=draw)


def _whole(points: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return what names a group: how many points it has, and the digest of all of them."""
    return {"points": len(points), "digest": digest_of({"points": [dict(point) for point in points]})}


def _each(rule: Mechanism) -> Callable[[Any], list[Any]]:
    return lambda seen: [rule.release(row) for row in seen]  # type: ignore[attr-defined]  # every rule has one


def _release(  # noqa: PLR0913 - what makes one release of predictions
    verb: str,
    points: Sequence[Mapping[str, object]],
    parts: tuple[str, ...],
    *,
    model: Asked,
    rule: Mechanism,
    limit: Filter,
    draw: Callable[[Any], list[Any]],
    said: Callable[[Any], bool] | None = None,
) -> Release:
    event: Event = Repeated(rule.event, len(points)) if len(points) > 1 else rule.event if points else NoCost()
    theorem = theorem_of(model, rule)

    def label(answer: Any) -> str | int | float | bool:  # noqa: ANN401 - a place in the list of labels, or a number
        if said is not None:
            return said(answer)
        return float(answer) if model.labels is None else model.labels[int(answer)]

    def respond(drawn: Sequence[Any], certificate: Certificate, _: Standing) -> list[Response]:
        return [Prediction(label(answer), certificate.proving(theorem)) for answer in drawn]

    return Release(
        verb=verb,
        request={
            "model": model.name,
            "made of": model.digest,
            "points": [dict(point) for point in points],
            "rule": repr(rule),
        },
        parts=parts,
        event=event,
        cost=limit.cost(event),
        draws=0,
        queries=(),
        draw=draw,
        respond=respond,
    )
