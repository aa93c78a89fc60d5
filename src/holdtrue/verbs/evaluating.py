"""EVALUATE: how often private predictions err at most, by the robust error of held-out rows (V4.4).

What was released, a student or a learned rule, is a function of answers, and its errors are one question (V4.2, V4.4).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import UNSET

from holdtrue.accounting.closed_forms import upper_quantile
from holdtrue.bounds.accuracy import gaussian_maximum, gaussian_quantile, grid, laplace_maximum, largest_mean
from holdtrue.bounds.transfer import meet_ends, transfer_ends
from holdtrue.codec import digest_of
from holdtrue.ensembles.certificates import RobustError
from holdtrue.ensembles.members import OtherMembers
from holdtrue.ensembles.parts import PartRule
from holdtrue.ensembles.responding import SoftMajority
from holdtrue.errors import InvalidParameter, PreconditionError
from holdtrue.events import GaussianNoise, Repeated
from holdtrue.exact import ROUNDING, Number, probability, read_list, round_up
from holdtrue.hypotheses import Hypotheses, read_class
from holdtrue.kernels import Floats
from holdtrue.mechanisms import Gaussian, Laplace
from holdtrue.planning.plans import AnyPlan
from holdtrue.queries.features import Feature, parse_feature
from holdtrue.records import Certificate, Evaluation, FittedModel, Hypothesis, Response
from holdtrue.verbs import Answered, Curation, Job, Measured, Planned, Release, Standing, expect_kind, plan_single
from holdtrue.verbs.asking import NOT_INDEPENDENT, QuestionRule
from holdtrue.verbs.distilling import Student
from holdtrue.verbs.fitting import with_features
from holdtrue.verbs.predicting import choose_laplace, offer_of
from holdtrue.verbs.selecting import choose_mu
from holdtrue.verbs.training import Model, ModelFacts, goal_of

__all__ = [
    "FIRST_SHARE",
    "EvaluationTask",
    "ReleasedTask",
    "bound_level",
    "evaluate",
    "find_error_ends",
    "judge_released",
    "plan_evaluation",
]

_FIXED = "robust error on held-out rows, all fixed before the first answer (V4.4 v)"
_TRANSFERRED = "robust error on held-out rows, after other answers (V4.4 ii, v; T6)"
_RELEASED = "error of what was released, T6 at several frozen pairs (V4.2 iii, V4.4 vi)"
_LATE = "these rows were held out after other answers about them, and which rows they are may follow from those"
_NOT_HELD = "the model has no rows to judge it by; train it with held_out=, such as held_out=0.2, first"
_WHOLE = (
    "the model is fitted to all rows, so none is left to judge it by; publish its weights (release='once') and judge these"
)
_EASE = 0.01
_NOISE_SHARE = 0.2
FIRST_SHARE = 0.8
"""The part of beta that is for the noise of an evaluation which comes first; the rest is for its rows (V4.4)."""
_REACH, _MOST_STEPS = 16, 2048


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationTask:
    """One evaluation, checked against public facts: levels that fall, the privacy of predictions, the noise of a level."""

    curation: Curation
    model: Model
    levels: tuple[Fraction, ...]
    epsilon: Fraction
    noise: Gaussian | Laplace
    beta: float

    @property
    def about(self) -> str:
        """Return what is certified: the predictions of this epsilon and of no other."""
        return f"predictions by soft majority at epsilon={float(self.epsilon):g}"

    @property
    def need(self) -> str:
        """Return what the bound for the population assumes of keys; rows that share one need not be draws by themselves."""
        key = self.model.asked.cut.key
        return "" if key is None else f", if no two rows share a key {key!r}"

    @property
    def spread(self) -> Fraction:
        """Return the scale of the noise: a deviation of 1 / mu, or of Laplace noise 1 / epsilon."""
        return self.noise.sigma if isinstance(self.noise, Gaussian) else self.noise.scale

    def measure(self) -> Measured:
        """Return the number of held-out rows, which no row decides, and the private distance of each level."""
        curation, model = self.curation, self.model
        goal = goal_of(curation, model.asked)
        votes, codes = curation.engine.vote_held_out(model.ensemble, model.features, goal, rule=model.asked.cut)
        reach = min(_MOST_STEPS, math.ceil(_REACH * self.spread))
        error = RobustError.of(votes, codes.clip(0, votes.shape[1] - 1), epsilon=self.epsilon, reach=reach)
        return [len(codes), *(error.distance(level) for level in self.levels)]

    def release(self) -> Release:
        """Return the release of the noisy distance of every level, charged together.

        Guarantee (V4.4 v): a distance moves by 1 at most, so that each is mu-GDP with noise of deviation 1 / mu, and
        epsilon-DP with Laplace noise of scale 1 / epsilon.
        """
        noise, times, asked = self.noise, len(self.levels), self.model.asked
        event = Repeated(noise.event, times) if times > 1 else noise.event
        request: dict[str, object] = {"model": asked.name, "made of": asked.digest, "levels": list(map(str, self.levels))}
        name = "mu" if isinstance(noise, Gaussian) else "noise epsilon"
        request |= {"epsilon": str(self.epsilon), name: str(1 / self.spread), "beta": self.beta, "noise share": FIRST_SHARE}
        return Release(
            verb="evaluate",
            request=request,
            parts=(f"evaluate {digest_of(request)}",),
            event=event,
            cost=self.curation.limit.cost(event),
            draws=0,
            queries=(),
            draw=lambda measured: [measured[0], *(int(noise.release(int(each))) for each in measured[1:])],
            respond=self.make_response,
        )

    def find_least(self, failure: float) -> float:
        """Return what a noisy distance must reach to certify: noise alone takes one below 0 so far with this probability.

        Of discrete Laplace noise Z, Pr[Z > t] <= e^(-epsilon t) / 2 for whole t >= 0.
        """
        units = upper_quantile(failure) if isinstance(self.noise, Gaussian) else max(0.0, -math.log(2 * failure))
        return units * float(self.spread) * ROUNDING

    def make_response(self, drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
        """Say what noisy distances say: levels are read in their order, up to the first that is refused."""
        rows, distances = int(drawn[0]), drawn[1:]
        fixed = standing.charges == 0
        failure = self.beta * (FIRST_SHARE if fixed else _NOISE_SHARE * _EASE)
        least = self.find_least(failure)
        passed = 0
        while rows and passed < len(self.levels) and distances[passed] >= least:
            passed += 1
        level = self.levels[max(passed - 1, 0)]
        reason = NOT_INDEPENDENT if not self.curation.plan.iid else None if self.model.asked.split_first else _LATE
        terms: dict[str, Any] = {"beta": self.beta, "spent": standing.spent, "share": FIRST_SHARE if fixed else None}
        bound = bound_level(self.curation.plan, level, rows, **terms) if passed and reason is None else None
        found = Evaluation(
            model=self.model.asked.name,
            certified=passed > 0,
            at_most=float(level),
            bound=bound,
            confidence=1 - self.beta,
            rows=rows,
            about=self.about if bound is None else self.about + self.need,
            certificate=certificate.with_theorem(None if bound is None else _FIXED if fixed else _TRANSFERRED),
            reason=reason if passed else None,
        )
        return [found]


def bound_level(  # noqa: PLR0913 - where a charge stands, and what it certified
    plan: AnyPlan, level: Fraction, rows: int, *, beta: float, spent: int, share: float | None
) -> float:
    """Return the bound for the population where a level is certified on held-out rows.

    With a ``share``, all was fixed before the first answer: that share of beta is for the noise, held-out rows are
    independent of the model, and Chernoff's bound is about them. Without one, after other answers: the mean over held-out
    rows given all that was seen is at most level + 0.01, but for a fifth of beta; T6 is about it, since predictions are a
    function of training rows, which are independent of held-out ones.
    """
    if share is not None:
        return largest_mean(round_up(level), -math.log(beta * (1 - share)) / rows * ROUNDING)
    gap = plan.find_shift(beta * (1 - _NOISE_SHARE), spent=spent)
    ends = 0.0, min(1.0, round_up(level) + _EASE)
    return transfer_ends(ends, epsilon=gap.epsilon, slacks=(gap.slack, gap.slack))[1]


def plan_evaluation(  # noqa: PLR0913 - the numbers of one evaluation
    curation: Curation,
    model: Model,
    *,
    at_most: Number | Sequence[Number] | None,
    epsilon: Number | None,
    mu: Number | None,
    beta: Number | None,
) -> EvaluationTask:
    """Return an evaluation, after every check that public facts allow. Reads no row.

    Failure: PreconditionError where no rows were held out of the training.
    """
    asked = model.asked
    if not asked.cut.held_out:
        if asked.cut.by == "whole":
            raise PreconditionError(_WHOLE)
        raise PreconditionError(_NOT_HELD)
    if at_most is None:
        raise InvalidParameter.saying("at_most", "give at_most, the share of errors to certify, or shares that fall")
    given = read_list("at_most", at_most if isinstance(at_most, (list, tuple)) else [at_most], expected="a share, or shares")
    levels = tuple(probability("at_most", each) for each in given)
    if not levels or any(later >= earlier for earlier, later in pairwise(levels)):
        raise InvalidParameter.saying("at_most", "at_most must be a share, or shares that fall from one to the next")
    rule = offer_of(curation, model, epsilon=epsilon, mu=None).rule
    privacy = rule.rate * rule.range if isinstance(rule, SoftMajority) else Fraction(0)
    failure = curation.plan.beta if beta is None else float(probability("beta", beta))
    return EvaluationTask(curation, model, levels, privacy, _choose_noise(curation.plan, mu), failure)


def _choose_noise(plan: AnyPlan, mu: Number | None) -> Gaussian | Laplace:
    """Return normal noise, of an equal share of the reserve unless mu is given; Laplace noise where mu is no currency."""
    if plan.reserve_currency not in ("epsilon", "draws"):
        return Gaussian(mu=choose_mu(plan, mu), sensitivity=1)
    if mu is not None:
        told = "leave out mu: this ledger's reserve is not in mu squared, and pays for Laplace noise by an equal share"
        raise InvalidParameter.saying("mu", told)
    return Laplace(epsilon=choose_laplace(plan, None), sensitivity=1)


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedTask:
    """One question about the errors of what was released before: a function of answers, so T6 is about its errors (V4.4 vi).

    ``count`` adds up what each row by itself says of it, in units of 2^-bits: 1 where it labels the row wrongly, or how far
    its number is from the row's, over the ``width`` of the public range. Replacing a row moves the sum by 2^bits at most.
    """

    curation: Curation
    rule: QuestionRule
    model: str
    about: str
    known_as: str
    count: Callable[[], int]
    beta: float
    width: float | None = None

    def release(self) -> Release:
        """Return the release of the noisy sum, at a plain question's price and by its mechanism."""
        mechanism, plan = self.rule.mechanism, self.rule.plan
        request: dict[str, object] = {"released": self.about, "known as": self.known_as, "beta": self.beta}
        request |= {"pairs": "by share"} | ({} if self.width is None else {"width": self.width})
        return Release(
            verb="evaluate",
            request=request,
            parts=(f"evaluate {digest_of(request)}",),
            event=mechanism.event,
            cost=plan.cost,
            draws=1,
            queries=(),
            draw=lambda measured: [int(mechanism.release(int(measured[0])))],
            respond=self.make_response,
        )

    def measure(self) -> Measured:
        """Return the errors of all rows in units of 2^-bits."""
        return [self.count()]

    def make_response(self, drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
        """Say what the noisy sum says of these rows and of the population."""
        plan, rows, width = self.rule.plan, self.rule.rows, 1.0 if self.width is None else self.width
        value = min(1.0, max(0.0, drawn[0] / (rows << plan.bits)))
        ends = find_error_ends(plan, value, beta=self.beta, spent=standing.spent) if plan.iid else None
        found = Evaluation(
            model=self.model,
            certified=True,
            at_most=min(1.0, (value + _find_noise(plan, self.beta, sure=True)) * ROUNDING) * width,
            bound=None if ends is None else ends[1] * width,
            confidence=1 - self.beta,
            rows=rows,
            about=self.about,
            certificate=certificate.with_theorem(None if ends is None else _RELEASED),
            reason=NOT_INDEPENDENT if ends is None else None,
            value=value * width,
            low=UNSET if ends is None else ends[0] * width,
            width=UNSET if self.width is None else width,
        )
        return [found]


def find_error_ends(plan: AnyPlan, value: float, *, beta: float, spent: int, scaled: bool = True) -> tuple[float, float]:
    """Return where the error in the population is, given the noisy mean error of something released (V4.2 iii).

    A fifth of beta is for the noise of this one draw, the rest for T6 at several frozen pairs; by itself with probability
    1 - beta, whatever was asked before or is asked afterwards.
    """
    noise = _find_noise(plan, beta * _NOISE_SHARE, sure=False)
    pairs = plan.find_pairs(beta * (1 - _NOISE_SHARE), spent=spent, scaled=scaled)
    return meet_ends((value - noise, value + noise), pairs=pairs)


def _find_noise(plan: AnyPlan, beta: float, *, sure: bool) -> float:
    """Return how far one answer may be from its mean over the rows; or what it says of v, but for beta (T5 ii)."""
    if isinstance(plan.event, GaussianNoise):
        width = plan.sigma * (gaussian_quantile(1, beta=beta) if sure else gaussian_maximum(1, beta=beta))
    else:
        width = plan.sigma / math.sqrt(2) * (-math.log(beta) if sure else laplace_maximum(1, beta=beta))
    return (width + grid(plan.rows, bits=plan.bits)) * ROUNDING


def judge_released(
    curation: Curation,
    rule: QuestionRule,
    what: Student | Hypothesis | FittedModel,
    *,
    target: str = "",
    beta: Number | None,
) -> ReleasedTask:
    """Return the question about the errors of a student, a learned rule or a published linear model. Reads no row.

    ``target`` is what a learned rule predicts. The error of a row is 1 where its label is another; for numbers it is the
    distance, both clipped to the public range, over that range.
    """
    failure, width = curation.plan.beta if beta is None else float(probability("beta", beta)), None
    if isinstance(what, Student):
        name = f"student of {what.name}"
        about, known_as = f"the {name}, wherever it predicts", f"student {what.id}"
        count, width = _count_errors(curation, what.estimator, what.model.features, what.model.asked)
    elif isinstance(what, FittedModel):
        name, known_as = what.name, f"model of entry {what.certificate.entry}"
        about = f"the published model {name}"
        features = tuple(parse_feature(column, curation.card) for column in what.columns)
        facts = ModelFacts(name, "", 1, what.labels, what.span, PartRule("position"), what.target)
        count, width = _count_errors(curation, with_features(what, curation.card), features, facts)
    else:
        name, known_as = what.text, f"rule of entry {what.certificate.entry}"
        about, count = f"the learned rule for {target}", _count_rule(curation, what, target)
    return ReleasedTask(curation, rule, name, about, known_as, count, failure, width)


def _count_errors(
    curation: Curation, estimator: object, features: Sequence[Feature], facts: ModelFacts
) -> tuple[Callable[[], int], float | None]:
    """Return what adds up the errors of an estimator over all rows, and the width of the range of its numbers, if any."""
    goal, said, labels, bits = goal_of(curation, facts), OtherMembers((estimator,)), facts.labels, curation.plan.bits
    low, high = facts.bounds or (0.0, 1.0)
    curation.engine.check_room(len(features) + 1)

    def count_wrong(rows: Floats, y: Floats) -> int:
        codes = said.votes(np.nan_to_num(rows), labels=labels or ()).argmax(axis=1)  # type: ignore[arg-type]  # no floats
        return int((codes != np.nan_to_num(y).astype(np.int64)).sum()) << bits

    def add_distances(rows: Floats, y: Floats) -> int:
        told = said.outputs(np.nan_to_num(rows), fallback=low)[:, 0]
        far = np.abs(np.clip(told, low, high) - np.clip(np.nan_to_num(y), low, high)) / (high - low)
        return int(np.floor(np.clip(far, 0.0, 1.0) * (1 << bits)).astype(np.int64).sum())

    add_up = count_wrong if labels is not None else add_distances
    width = None if labels is not None else high - low
    return lambda: curation.engine.fit(add_up, features, goal, progress=curation.progress), width


def _count_rule(curation: Curation, found: Hypothesis, target: str) -> Callable[[], int]:
    label = found.evaluate
    if found.document is not None:
        label = partial(read_class(found.document).over(found.columns).label_rows, index=found.index)
    if label is None:
        raise InvalidParameter.saying("model", "this rule was made of code and read without it; learn it again")
    alone, question = Hypotheses([label], columns=found.columns), curation.parse(target)
    features = tuple(parse_feature(column, curation.card) for column in found.columns)
    engine, progress = curation.engine, curation.progress
    return lambda: int(engine.error_counts(alone, features, question, progress=progress)[0]) << curation.plan.bits


def evaluate(task: EvaluationTask | ReleasedTask, *, key: str | None, analyst: str | None) -> Evaluation:
    """Return what an evaluation found; the same one again is free."""
    release = task.release()

    def plan(answered: Answered) -> Planned:
        return plan_single(release, answered, measure=task.measure)

    (found,) = task.curation.run(Job(plan, key=key, analyst=analyst, slow=True))
    return expect_kind(found, Evaluation)
