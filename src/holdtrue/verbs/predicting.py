"""PREDICT: one label or number for a public point, drawn from the votes of an ensemble (E1, E4, E9-E11).

A request is priced whole before the first draw, charged, and stored; points that were asked before are free.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from holdtrue.codec import digest_of, encode
from holdtrue.ensembles.certificates import ErrorBound
from holdtrue.ensembles.responding import Agnostic, LaplaceMax, NoisyAverage, NoisyMax, Screen, SoftMajority
from holdtrue.errors import BudgetExceeded, InvalidParameter, RefusedError, ReleaseError
from holdtrue.events import Event, GaussianNoise, NoCost, Repeated
from holdtrue.exact import Number, amount, positive, probability, text_among
from holdtrue.mechanisms import Laplace
from holdtrue.mechanisms.base import Mechanism
from holdtrue.planning.plans import AnyPlan
from holdtrue.records import Certificate, Interval, Listing, Prediction, Response
from holdtrue.verbs import Answered, Curation, Job, Planned, Release, Standing
from holdtrue.verbs.keeping import FitFacts
from holdtrue.verbs.selecting import choose_mu, epsilon_of_use
from holdtrue.verbs.training import Model, ModelFacts

__all__ = [
    "Method",
    "ModelSummary",
    "Offer",
    "PublicPoints",
    "choose_laplace",
    "plan_purchase",
    "predict",
    "predictions_left",
    "refuse_purchase",
    "rule_of",
    "screen_of",
    "summarize_models",
]

Method: TypeAlias = Literal["soft-majority", "agnostic", "noisy-max"]

_SCREEN_DEVIATION = 0.15
_MOST_OFFERS = 256
_HASHED = (type(None), int, float, str, Fraction)


class ModelSummary(Struct, frozen=True):
    """What is public about one model: what it reads and says, and what its predictions cost.

    ``cost`` is of one prediction without an epsilon or a mu, in the ledger's ``unit``, and ``left`` how many of them the
    budget still pays for; None and 0 where nothing was reserved for them. ``certificate`` says in words what is proven of
    its errors, None where nothing is.
    """

    name: str
    kind: str
    target: str
    features: tuple[str, ...]
    parts: int
    labels: tuple[str | int | float | bool, ...] | None
    bounds: tuple[float, float] | None
    rows: str
    cost: float | None
    unit: str
    left: int
    certificate: str | None = None

    def list_values(self) -> dict[str, Any]:
        """Return what a table of models has in its row."""
        read = {"target": self.target, "features": ", ".join(self.features), "parts": self.parts}
        return {"name": self.name} | read | {"cost": self.cost, "predictions left": self.left}


def rule_of(
    model: ModelFacts,
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
        raise InvalidParameter.saying("mu", "give either epsilon or mu")
    if mu is not None and plan.ledger == "pure":
        raise InvalidParameter.saying("mu", "give epsilon instead of mu: a pure ledger cannot charge for normal noise")
    if isinstance(model, FitFacts):
        return model.make_rule(epsilon=epsilon, mu=mu, method=method)
    votes = model.cut.votes
    normal = epsilon is None and plan.reserve_currency not in ("epsilon", "draws")
    if model.bounds is not None:
        low, high = model.bounds
        pure, gaussian = (None, choose_mu(plan, mu)) if normal or mu is not None else (choose_laplace(plan, epsilon), None)
        return NoisyAverage(model.parts, low=low, high=high, epsilon=pure, mu=gaussian, members=votes)
    match text_among("method", method, ("soft-majority", "agnostic", "noisy-max")):
        case "soft-majority" | "agnostic" if mu is not None:
            raise InvalidParameter.saying("mu", f"method {method!r} takes epsilon; method='noisy-max' takes mu")
        case "soft-majority":
            return SoftMajority(_choose_epsilon(plan, epsilon), points=votes)
        case "agnostic":
            if model.labels is None or len(model.labels) != 2:  # noqa: PLR2004 - yes and no
                raise InvalidParameter.saying("method", "method 'agnostic' needs a model with two labels")
            limit: Literal["ratio", "log-odds"] = "ratio" if plan.ledger == "pure" else "log-odds"
            return Agnostic(model.parts, epsilon=_choose_epsilon(plan, epsilon), limit=limit, votes=votes)
        case _:
            if normal or mu is not None:
                return NoisyMax(mu=choose_mu(plan, mu), points=votes)
            return LaplaceMax(choose_laplace(plan, epsilon), points=votes)


def _choose_epsilon(plan: AnyPlan, epsilon: Number | None) -> Fraction:
    return epsilon_of_use(plan) if epsilon is None else positive("epsilon", epsilon)


def choose_laplace(plan: AnyPlan, epsilon: Number | None) -> Fraction:
    """Return the epsilon of Laplace noise; a draw's bounded range is twice that of what is epsilon-DP."""
    return _choose_epsilon(plan, epsilon) / (2 if epsilon is None and plan.reserve_currency == "draws" else 1)


def screen_of(model: ModelFacts, share: Number) -> Screen:
    """Return the mechanism that says whether the vote at a point is clear; InvalidParameter for a model of numbers."""
    if isinstance(model, FitFacts):
        raise InvalidParameter.saying("screen", "leave out screen: it screens votes, and this model is one fit")
    if model.labels is None:
        raise InvalidParameter.saying("screen", "leave out screen: it screens votes, and this model predicts numbers")
    deviation = max(1.0, _SCREEN_DEVIATION * model.parts)
    return Screen(probability("screen", share, one=True) * model.parts, sigma=deviation, points=model.cut.votes)


def theorem_of(model: ModelFacts, rule: Mechanism) -> str:
    """Return the theorem that an answer rests on, and what it counts on about the order of rows."""
    if isinstance(model, FitFacts):
        name = (
            "thresholds by constrained errors (T13)"
            if model.gamma is None
            else "a stable prediction with noise (E8, E13-E16)"
        )
        return f"{name}; features are clipped to their bounds" + ("" if model.claim is None else f"; {model.claim}")
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


@dataclass(frozen=True, slots=True, eq=False)
class PublicPoints:
    """Different public points by the names under which their responses are found, and what the model reads of them."""

    named: Mapping[str, Mapping[str, object]]
    features: npt.NDArray[np.float64]

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the names of the responses."""
        return tuple(self.named)

    def rename(self, names: Iterable[str]) -> "PublicPoints":
        """Return the same points under other names, in order."""
        return PublicPoints(dict(zip(names, self.named.values(), strict=True)), self.features)

    def keep_wanted(self, wanted: Callable[[str], bool]) -> "PublicPoints":
        """Return the points whose names are wanted."""
        places = [place for place, part in enumerate(self.named) if wanted(part)]
        if len(places) == len(self.named):
            return self
        return PublicPoints({part: point for part, point in self.named.items() if wanted(part)}, self.features[places])


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """How one model answers points at one price: what is the same for every request.

    ``lenient``: neither a privacy nor a rule was asked for, so that every answer to a point will do.
    """

    verb: Literal["predict", "screen"]
    model: Model
    rule: Mechanism
    words: str
    theorem: str
    price: int
    beta: float
    proven: ErrorBound | None = None
    lenient: bool = False

    @classmethod
    def of(cls, model: Model, rule: Mechanism, curation: Curation, *, lenient: bool = False) -> "Offer":
        """Return an offer; NotPrivate where the ledger cannot count the rule's event."""
        verb: Literal["predict", "screen"] = "screen" if isinstance(rule, Screen) else "predict"
        price, beta = curation.limit.cost(rule.event), curation.plan.beta
        proven = None if model.asked.terms is None else model.bound_errors(rule)
        return cls(verb, model, rule, repr(rule), theorem_of(model.asked, rule), price, beta, proven, lenient)

    def name_part(self, point: Mapping[str, object], *, number: int = 1) -> str:
        """Return the name of the first answer to a point, or of a later one by its number."""
        rule = self.rule if self.verb == "screen" else None
        return self.model.asked.name_part(self.verb, point, rule=rule, number=number)

    def find_parts(self, named: Mapping[str, Mapping[str, object]], answered: Answered) -> dict[str, bool]:
        """Return for each point the name of its first answer that serves this request, or of a new one where none does.

        With each name comes whether it is new. ``named`` has points by the names of their first answers. Answers are only
        ever added, so that the same request finds the same answer for ever.
        """
        found = {}
        for first, point in named.items():
            name, number, new = first, 1, not answered.has(first)
            while not new and not self._is_served(name, answered):
                number += 1
                name = self.name_part(point, number=number)
                new = not answered.has(name)
            found[name] = new
        return found

    def _is_served(self, part: str, answered: Answered) -> bool:
        """Return whether a stored answer rests on the same theorem as this rule, with no more noise than is asked for."""
        said = answered.answer(part)
        if self.lenient or said is None:
            return True
        kinds = [str(theorem).split(";")[0] for theorem in (said.certificate.theorem, self.theorem)]
        (kind, privacy), (wanted, least) = _find_privacy(said.certificate.event), _find_privacy(self.rule.event)
        return kinds[0] == kinds[1] and kind is wanted and privacy >= least

    def describe_request(self, points: Iterable[Mapping[str, object]]) -> dict[str, object]:
        """Return what the ledger keeps of a request, all of it public."""
        asked, listed = self.model.asked, [dict(point) for point in points]
        return {"model": asked.name, "made of": asked.digest, "points": listed, "rule": self.words}

    def release(
        self, points: Mapping[str, Mapping[str, object]], *, draw: Callable[[Any], list[Any]] | None = None
    ) -> Release:
        """Return the release of one response for each of several different points, charged together.

        Guarantee (E1, E4): each is the rule's event in the training rows. ``draw`` takes what the members say of all points
        and has the rule draw for each, unless told otherwise.
        """
        rule, times = self.rule, len(points)
        event: Event = Repeated(rule.event, times) if times > 1 else rule.event if times else NoCost()
        return Release(
            verb=self.verb,
            request=self.describe_request(points.values()),
            parts=tuple(points),
            event=event,
            cost=times * self.price,
            draws=0,
            queries=(),
            draw=(lambda seen: [rule.release(row) for row in seen]) if draw is None else draw,  # type: ignore[attr-defined]  # every rule has one
            respond=self._make_responses,
        )

    def _make_responses(self, drawn: Sequence[Any], certificate: Certificate, _: Standing) -> list[Response]:
        proven = certificate.with_theorem(self.theorem)
        return [self._make_prediction(answer, proven) for answer in drawn]

    def _make_prediction(self, answer: Any, proven: Certificate) -> Prediction:  # noqa: ANN401 - as below
        """Return a prediction; that of a number has its noise, and an interval for the members' average (V4.3)."""
        rule, label = self.rule, self._find_label(answer)
        if self.proven is not None:
            return _certify_label(label, proven, self.proven)
        if not isinstance(rule, NoisyAverage) or not isinstance(label, float):
            return Prediction(label, proven)
        half, (low, high) = rule.half_width(self.beta), (float(rule.low), float(rule.high))
        ends = Interval(max(low, label - half), min(high, label + half), 1 - self.beta, "model")
        return Prediction(label, proven, noise=rule.deviation, interval=ends)

    def _find_label(self, answer: Any) -> str | int | float | bool:  # noqa: ANN401 - a place in the list of labels, or a number
        if self.verb == "screen":
            return bool(answer)
        asked = self.model.asked
        if asked.labels is None:
            return float(answer)
        return asked.labels[asked.find_place(answer) if isinstance(asked, FitFacts) else int(answer)]


def _find_privacy(event: Event) -> tuple[type, float]:
    """Return the kind of one draw's event and its epsilon or mu: of two draws by one rule, the larger has less noise."""
    one = event.event if isinstance(event, Repeated) else event
    return type(one), float(one.mu if isinstance(one, GaussianNoise) else getattr(one, "epsilon", 0))


def _certify_label(label: Any, certificate: Certificate, found: ErrorBound) -> Prediction:  # noqa: ANN401 - one of the labels
    """Return a label with what is proven of all predictions like it (V4.1)."""
    named = certificate.with_theorem(f"{certificate.theorem}; {found.theorem}")
    if found.excess:
        return Prediction(label, named, excess_error=found.value, confidence=found.confidence)
    return Prediction(label, named, error_bound=found.value, confidence=found.confidence)


def offer_of(
    curation: Curation, model: Model, *, epsilon: Number | None, mu: Number | None, method: Method = "soft-majority"
) -> Offer:
    """Return how a model answers at one price; made once for each, as the plan and the ledger's filter never change."""
    plain = type(epsilon) in _HASHED and type(mu) in _HASHED and type(method) is str
    wanted = (type(epsilon), epsilon, type(mu), mu, method) if plain else None
    known: Offer | None = None if wanted is None else model.offers.get(wanted)
    if known is None:
        rule = rule_of(model.asked, plan=curation.plan, epsilon=epsilon, mu=mu, method=method)
        known = Offer.of(model, rule, curation, lenient=(epsilon, mu, method) == (None, None, "soft-majority"))
        if wanted is not None and len(model.offers) < _MOST_OFFERS:
            model.offers[wanted] = known
    return known


def predict(  # noqa: PLR0913 - one request, and who makes it
    curation: Curation,
    model: Model,
    rows: object,
    *,
    epsilon: Number | None,
    mu: Number | None,
    method: Method,
    screen: Number | None,
    key: str | None,
    analyst: str | None,
) -> list[Prediction]:
    """Return a prediction for each row, in order; equal points share one, and one asked before is free.

    A stored answer serves a request for no privacy in particular, and one by the same rule for as much noise or more. What
    asks for less noise is another request: it is drawn and charged anew, and the answers before it stay.

    With ``screen``, a share of the votes, a point is answered only where its largest count with noise reaches that share;
    the screen is charged for every point, the answer for clear ones only, and an unclear point has no label (None).

    Guarantee (P4): BudgetExceeded means that nothing was spent. The most that the request can cost, all screens and an
    answer for every point that is not known to be unclear, must fit before the first draw. If other requests take what the
    answers need after the screens were charged, that is a ReleaseError with their entry; what was bought is in the ledger,
    and the same request again finds it.
    """
    listed = model.read_points(rows)
    offer = offer_of(curation, model, epsilon=epsilon, mu=mu, method=method)
    parts = [offer.name_part(point) for point in listed]
    distinct = dict(zip(parts, listed, strict=True))
    # They are public: what cannot be read is refused before anything is charged.
    points = PublicPoints(distinct, model.read(list(distinct.values())))
    # Named by all its points, also those that others asked for meanwhile: sent again, it is the same request.
    whole: dict[str, object] = {"verb": "predict"} | offer.describe_request(distinct.values())
    if screen is None:
        try:
            found = _answer_points(curation, offer, points, request=encode(whole), key=key, analyst=analyst)
        except BudgetExceeded as refusal:
            fitting = predictions_left(curation, [model], epsilon=epsilon, mu=mu)
            raise refuse_purchase(refusal, len(points.named), fitting, "predictions", "ask for fewer") from None
    else:
        screening = Offer.of(model, screen_of(model.asked, screen), curation)
        request = encode(whole | {"screen": screening.words})
        found = _screen_and_answer(curation, offer, screening, points, request=request, key=key, analyst=analyst)
    return [found[part] for part in parts]


def _answer_points(  # noqa: PLR0913 - one purchase, and who makes it
    curation: Curation, offer: Offer, points: PublicPoints, *, request: str, key: str | None, analyst: str | None
) -> dict[str, Prediction]:
    """Return predictions by part; those that were not answered before are charged together."""

    def plan(answered: Answered) -> Planned:
        found = offer.find_parts(points.named, answered)
        current = points.rename(found)
        fresh = current.keep_wanted(found.__getitem__)
        return plan_purchase(offer, current.parts, offer.release(fresh.named), fresh.features, request)

    if not points.named and key is None:
        return {}
    said = curation.run(Job(plan, key=key, analyst=analyst))
    return {part: found for part, found in zip(points.named, said, strict=True) if isinstance(found, Prediction)}


def plan_purchase(
    offer: Offer, parts: tuple[str, ...], release: Release, features: npt.NDArray[np.float64], request: str
) -> Planned:
    """Return a purchase for which the members vote on points; without a caller's key it is named by what it is for."""
    return Planned(
        parts, release, request, lambda: offer.model.measure(features) if len(features) else [], _name_of(release)
    )


def _screen_and_answer(  # noqa: PLR0913 - one purchase after another, and who makes them
    curation: Curation,
    offer: Offer,
    screening: Offer,
    points: PublicPoints,
    *,
    request: str,
    key: str | None,
    analyst: str | None,
) -> dict[str, Prediction]:
    """Ask of each point whether its vote is clear, then answer the clear ones; nothing is spent unless both are paid for."""
    with curation.lock_index() as answered:
        new = offer.find_parts(points.named, answered)
        current = points.rename(new)
        fresh = current.keep_wanted(new.__getitem__)
        curation.refuse_used_key(key, request)
        names = {part: screening.name_part(point) for part, point in fresh.named.items()}
        unclear = _screen_points(curation, offer, screening, fresh, names, answered=answered, key=key, analyst=analyst)
        clear = current.keep_wanted(lambda part: part not in unclear)
        try:
            found = unclear | _answer_points(curation, offer, clear, request=request, key=key, analyst=analyst)
            return {part: found[name] for part, name in zip(points.named, current.named, strict=True)}
        except BudgetExceeded:
            if not fresh.named:
                raise
        raise _make_overtaken(answered, names.values())


def _screen_points(  # noqa: PLR0913 - what is screened, and what comes after it
    curation: Curation,
    offer: Offer,
    screening: Offer,
    fresh: PublicPoints,
    names: Mapping[str, str],
    *,
    answered: Answered,
    key: str | None,
    analyst: str | None,
) -> dict[str, Prediction]:
    """Return the points whose vote is not clear; the screens that are not known yet are charged together.

    ``names`` has the name of each point's screen.
    """
    new = fresh.keep_wanted(lambda part: not answered.has(names[part]))
    release = screening.release({names[part]: point for part, point in new.named.items()})
    possible = fresh.keep_wanted(lambda part: part in new.named or _says_yes(answered.answer(names[part])))
    _refuse_unless_affordable(curation, [(release, None), (offer.release(possible.named), key)], analyst=analyst)
    planned = plan_purchase(
        screening, tuple(names.values()), release, new.features, encode({"verb": "screen"} | release.request)
    )
    said = dict(zip(names, curation.run(Job(lambda _: planned, analyst=analyst)) if names else [], strict=True))
    return {
        part: Prediction(None, answer.certificate, answer.repeated)
        for part, answer in said.items()
        if isinstance(answer, Prediction) and not answer.label
    }


def _says_yes(said: object) -> bool:
    return isinstance(said, Prediction) and bool(said.label)


def _name_of(release: Release) -> str:
    """Return a key for a request that has none: what a crash left unanswered is found by it, and answered."""
    return f"{release.verb} {digest_of({'parts': list(release.parts), 'request': release.request})}"


def _refuse_unless_affordable(
    curation: Curation, releases: Sequence[tuple[Release, str | None]], *, analyst: str | None
) -> None:
    """Raise BudgetExceeded unless several releases fit together; one that was charged before, and no more, is paid for."""
    cost = sum(
        release.cost
        for release, key in releases
        if release.parts and not curation.has_used(_name_of(release) if key is None else key)
    )
    left = curation.left_beside_asks(analyst)
    if cost > left:
        raise BudgetExceeded(requested=amount(cost), left=amount(left), unit=f"{curation.limit.currency} for predictions")


def refuse_purchase(refusal: BudgetExceeded, wanted: int, fitting: int, unit: str, way_out: str) -> BudgetExceeded:
    """Return the refusal in what was wanted, with the number that fits; an analyst's own allowance says it itself."""
    if not 0 < fitting < wanted:
        return refusal
    words = f"not enough budget for {wanted:,} {unit}; at this price {fitting:,} fit: {way_out}"
    return BudgetExceeded.saying(words, requested=refusal.requested, left=refusal.left, unit=refusal.unit)


def _make_overtaken(answered: Answered, screens: Iterable[str]) -> ReleaseError:
    """Return the error of a request whose screens were charged and whose answers can no longer be paid for."""
    said = [answered.answer(part) for part in screens]
    entries = [found.certificate.entry for found in said if found is not None]
    message = "other requests spent what the answers need; the screens were charged, and repeating the request reuses them"
    return ReleaseError(message, entry=max(entries, default=None))


def predictions_left(curation: Curation, models: Sequence[Model], *, epsilon: Number | None, mu: Number | None) -> int:
    """Return how many predictions the reserve and the cap still pay for, by the most expensive of some models.

    Where there is no model yet, of labels by soft majority.
    """
    if not models and (epsilon is None or mu is not None):
        raise InvalidParameter.saying("epsilon", "give epsilon, and no mu: no model is trained yet")
    prices = [offer_of(curation, model, epsilon=epsilon, mu=mu).price for model in models]
    with curation.lock_index():
        left = curation.left_beside_asks(None)
    return left // max(prices or [curation.limit.cost(SoftMajority(epsilon or 1).event)])


def summarize_models(curation: Curation, models: Sequence[Model]) -> Listing[ModelSummary]:
    """Return what is public about models, each with the price of its own next prediction. Reads no row."""
    with curation.lock_index():
        left = curation.left_beside_asks(None)
    found = []
    for model in models:
        asked = model.asked
        certificate = model.certificate
        try:
            offer = offer_of(curation, model, epsilon=None, mu=None)
            price, certificate = offer.price, certificate if offer.proven is None else offer.proven.words
        except (RefusedError, InvalidParameter):  # the ledger cannot pay for such a prediction
            price = 0
        cost, count_left = (amount(price), left // price) if price else (None, 0)
        facts = (asked.name, asked.kind, asked.target, model.columns, asked.parts, asked.labels, asked.bounds)
        found.append(ModelSummary(*facts, asked.cut.sentence, cost, curation.limit.currency, count_left, certificate))
    return Listing(found)
