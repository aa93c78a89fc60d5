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
from holdtrue.ensembles.members import OtherMembers
from holdtrue.ensembles.parts import PartRule
from holdtrue.ensembles.responding import SoftMajority
from holdtrue.ensembles.robust_error import RobustError
from holdtrue.errors import InvalidParameter, PreconditionError
from holdtrue.events import GaussianNoise, Repeated
from holdtrue.exact import ROUNDING, Number, probability, read_list, round_up
from holdtrue.hypotheses import Hypotheses, read_class
from holdtrue.kernels import Floats
from holdtrue.mechanisms import Gaussian
from holdtrue.planning.plans import AnyPlan
from holdtrue.queries.features import Feature, parse_feature
from holdtrue.records import Certificate, Evaluation, FittedModel, Hypothesis, Response
from holdtrue.verbs import Answered, Curation, Job, Measured, Planned, Release, Standing, expect_kind, plan_single
from holdtrue.verbs.asking import NOT_INDEPENDENT, QuestionRule
from holdtrue.verbs.distilling import Student
from holdtrue.verbs.fitting import with_features
from holdtrue.verbs.predicting import offer_of
from holdtrue.verbs.selecting import choose_mu
from holdtrue.verbs.training import Model, ModelFacts, goal_of

__all__ = [
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
_EASE = 0.01
_NOISE_SHARE = 0.2
_REACH, _MOST_STEPS = 16, 2048


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationTask:
    """One evaluation, checked against public facts: levels that fall, and the privacy of predictions and of each level."""

    curation: Curation
    model: Model
    levels: tuple[Fraction, ...]
    epsilon: Fraction
    mu: Fraction
    beta: float

    @property
    def about(self) -> str:
        """Return what is certified: the predictions of this epsilon and of no other."""
        return f"predictions by soft majority at epsilon={float(self.epsilon):g}"

    def measure(self) -> Measured:
        """Return the number of held-out rows, which no row decides, and the private distance of each level."""
        curation, model = self.curation, self.model
        goal = goal_of(curation, model.asked)
        votes, codes = curation.engine.vote_held_out(model.ensemble, model.features, goal, rule=model.asked.cut)
        reach = min(_MOST_STEPS, math.ceil(_REACH / self.mu))
        error = RobustError.of(votes, codes.clip(0, votes.shape[1] - 1), epsilon=self.epsilon, reach=reach)
        return [len(codes), *(error.distance(level) for level in self.levels)]

    def release(self) -> Release:
        """Return the release of the noisy distance of every level, charged together.

        Guarantee (V4.4 v): a distance moves by 1 at most, so that each is mu-GDP with noise of deviation 1 / mu.
        """
        noise = Gaussian(mu=self.mu, sensitivity=1)
        times, asked = len(self.levels), self.model.asked
        event = Repeated(noise.event, times) if times > 1 else noise.event
        request: dict[str, object] = {"model": asked.name, "made of": asked.digest, "levels": list(map(str, self.levels))}
        request |= {"epsilon": str(self.epsilon), "mu": str(self.mu), "beta": self.beta}
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

    def make_response(self, drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
        """Say what noisy distances say: levels are read in their order, up to the first that is refused."""
        rows, distances = int(drawn[0]), drawn[1:]
        fixed = standing.charges == 0
        failure = self.beta / 2 if fixed else self.beta * _NOISE_SHARE * _EASE
        least = upper_quantile(failure) / float(self.mu) * ROUNDING
        passed = 0
        while rows and passed < len(self.levels) and distances[passed] >= least:
            passed += 1
        level = self.levels[max(passed - 1, 0)]
        reason = NOT_INDEPENDENT if not self.curation.plan.iid else None if self.model.asked.split_first else _LATE
        terms: dict[str, Any] = {"beta": self.beta, "spent": standing.spent, "fixed": fixed}
        bound = bound_level(self.curation.plan, level, rows, **terms) if passed and reason is None else None
        found = Evaluation(
            model=self.model.asked.name,
            certified=passed > 0,
            at_most=float(level),
            bound=bound,
            confidence=1 - self.beta,
            rows=rows,
            about=self.about,
            certificate=certificate.with_theorem(None if bound is None else _FIXED if fixed else _TRANSFERRED),
            reason=reason if passed else None,
        )
        return [found]


def bound_level(  # noqa: PLR0913 - where a charge stands, and what it certified
    plan: AnyPlan, level: Fraction, rows: int, *, beta: float, spent: int, fixed: bool
) -> float:
    """Return the bound for the population where a level is certified on held-out rows.

    Fixed before the first answer: held-out rows are independent of the model, and Chernoff's bound is about them. After
    other answers: the mean over held-out rows given all that was seen is at most level + 0.01, but for a fifth of beta,
    and T6 is about it, since predictions are a function of training rows, which are independent of held-out ones.
    """
    if fixed:
        return largest_mean(round_up(level), math.log(2 / beta) / rows * ROUNDING)
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
        message = f"model {asked.name!r} has no rows to judge it by; train it with held_out=, such as held_out=0.2, first"
        raise PreconditionError(message)
    if at_most is None:
        raise InvalidParameter.saying("at_most", "give at_most, the share of errors to certify, or shares that fall")
    given = read_list("at_most", at_most if isinstance(at_most, (list, tuple)) else [at_most], expected="a share, or shares")
    levels = tuple(probability("at_most", each) for each in given)
    if not levels or any(later >= earlier for earlier, later in pairwise(levels)):
        raise InvalidParameter.saying("at_most", "at_most must be a share, or shares that fall from one to the next")
    if curation.plan.ledger == "pure":
        raise InvalidParameter.saying("mu", "a pure ledger cannot charge for normal noise, which an evaluation adds")
    rule = offer_of(curation, model, epsilon=epsilon, mu=None).rule
    privacy = rule.rate * rule.range if isinstance(rule, SoftMajority) else Fraction(0)
    failure = curation.plan.beta if beta is None else float(probability("beta", beta))
    return EvaluationTask(curation, model, levels, privacy, choose_mu(curation.plan, mu), failure)


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedTask:
    """One question about the errors of what was released before: a function of answers, so T6 is about its errors (V4.4 vi).

    ``count`` counts the rows that it labels wrongly, each by itself: replacing a row moves the count by at most 1.
    """

    curation: Curation
    rule: QuestionRule
    model: str
    about: str
    known_as: str
    count: Callable[[], int]
    beta: float

    def release(self) -> Release:
        """Return the release of the noisy count, at a plain question's price and by its mechanism."""
        mechanism, plan = self.rule.mechanism, self.rule.plan
        request: dict[str, object] = {"released": self.about, "known as": self.known_as, "beta": self.beta}
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
        """Return the number of errors in units of 2^-bits."""
        return [self.count() << self.rule.plan.bits]

    def make_response(self, drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
        """Say what the noisy count says of these rows and of the population."""
        plan, rows = self.rule.plan, self.rule.rows
        value = min(1.0, max(0.0, drawn[0] / (rows << plan.bits)))
        ends = find_error_ends(plan, value, beta=self.beta, spent=standing.spent) if plan.iid else None
        found = Evaluation(
            model=self.model,
            certified=True,
            at_most=min(1.0, (value + _find_noise(plan, self.beta, sure=True)) * ROUNDING),
            bound=None if ends is None else ends[1],
            confidence=1 - self.beta,
            rows=rows,
            about=self.about,
            certificate=certificate.with_theorem(None if ends is None else _RELEASED),
            reason=NOT_INDEPENDENT if ends is None else None,
            value=value,
            low=UNSET if ends is None else ends[0],
        )
        return [found]


def find_error_ends(plan: AnyPlan, value: float, *, beta: float, spent: int) -> tuple[float, float]:
    """Return where the error in the population is, given the noisy share of errors of something released (V4.2 iii).

    A fifth of beta is for the noise of this one draw, the rest for T6 at several frozen pairs; by itself with probability
    1 - beta, whatever was asked before or is asked afterwards.
    """
    noise = _find_noise(plan, beta * _NOISE_SHARE, sure=False)
    return meet_ends((value - noise, value + noise), pairs=plan.find_pairs(beta * (1 - _NOISE_SHARE), spent=spent))


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

    ``target`` is what a learned rule predicts. Failure: InvalidParameter for numbers, which have no errors to count.
    """
    failure = curation.plan.beta if beta is None else float(probability("beta", beta))
    if isinstance(what, Student):
        name = f"student of {what.name}"
        about, known_as = f"the {name}, wherever it predicts", f"student {what.id}"
        count = _count_labels(curation, what.estimator, what.model.features, what.model.asked)
    elif isinstance(what, FittedModel):
        name, known_as = what.name, f"model of entry {what.certificate.entry}"
        about = f"the published model {name}"
        features = tuple(parse_feature(column, curation.card) for column in what.columns)
        facts = ModelFacts(name, "", 1, what.labels, what.span, PartRule("position"), what.target)
        count = _count_labels(curation, with_features(what, curation.card), features, facts)
    else:
        name, known_as = what.text, f"rule of entry {what.certificate.entry}"
        about, count = f"the learned rule for {target}", _count_rule(curation, what, target)
    return ReleasedTask(curation, rule, name, about, known_as, count, failure)


def _count_labels(
    curation: Curation, estimator: object, features: Sequence[Feature], facts: ModelFacts
) -> Callable[[], int]:
    labels = facts.labels
    if labels is None:
        raise InvalidParameter.saying("model", "evaluate counts wrong labels, and this model predicts numbers")
    goal, said = goal_of(curation, facts), OtherMembers((estimator,))

    def count_wrong(rows: Floats, y: Floats) -> int:
        codes = said.votes(np.nan_to_num(rows), labels=labels).argmax(axis=1)  # type: ignore[arg-type]  # lists of labels have no floats
        return int((codes != np.nan_to_num(y).astype(np.int64)).sum())

    return lambda: curation.engine.fit(count_wrong, features, goal, progress=curation.progress)


def _count_rule(curation: Curation, found: Hypothesis, target: str) -> Callable[[], int]:
    label = found.evaluate
    if found.document is not None:
        label = partial(read_class(found.document).over(found.columns).label_rows, index=found.index)
    if label is None:
        raise InvalidParameter.saying("model", "this rule was made of code and read without it; learn it again")
    alone, question = Hypotheses([label], columns=found.columns), curation.parse(target)
    features = tuple(parse_feature(column, curation.card) for column in found.columns)
    engine, progress = curation.engine, curation.progress
    return lambda: int(engine.error_counts(alone, features, question, progress=progress)[0])


def evaluate(task: EvaluationTask | ReleasedTask, *, key: str | None, analyst: str | None) -> Evaluation:
    """Return what an evaluation found; the same one again is free."""
    release = task.release()

    def plan(answered: Answered) -> Planned:
        return plan_single(release, answered, measure=task.measure)

    (found,) = task.curation.run(Job(plan, key=key, analyst=analyst, slow=True))
    return expect_kind(found, Evaluation)
