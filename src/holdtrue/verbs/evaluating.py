"""EVALUATE: how often the private predictions of a model err at most, by the robust error of held-out rows (V4.4)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from holdtrue.accounting.closed_forms import upper_quantile
from holdtrue.bounds.accuracy import largest_mean
from holdtrue.bounds.transfer import level_shift, transfer_ends
from holdtrue.codec import digest_of
from holdtrue.ensembles.responding import SoftMajority
from holdtrue.ensembles.robust_error import RobustError
from holdtrue.errors import InvalidParameter, PreconditionError
from holdtrue.events import Repeated
from holdtrue.exact import ROUNDING, Number, probability, read_list, round_up
from holdtrue.mechanisms import Gaussian
from holdtrue.records import Certificate, Evaluation, Response
from holdtrue.verbs import Answered, Curation, Job, Measured, Planned, Release, Standing, plan_single
from holdtrue.verbs.asking import NOT_INDEPENDENT
from holdtrue.verbs.predicting import choose_mu, offer_of
from holdtrue.verbs.training import Model, goal_of

__all__ = ["EvaluationTask", "evaluate_model", "plan_evaluation"]

_FIXED = "robust error on held-out rows, all fixed before the first answer (V4.4 v)"
_TRANSFERRED = "robust error on held-out rows, after other answers (V4.4 ii, v; T6)"
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
        bound = self._bound_error(level, rows, standing, fixed=fixed) if passed and reason is None else None
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

    def _bound_error(self, level: Fraction, rows: int, standing: Standing, *, fixed: bool) -> float:
        """Return the bound for the population where a level is certified.

        Fixed before the first answer: held-out rows are independent of the model, and Chernoff's bound is about them. After
        other answers: the mean over held-out rows given all that was seen is at most level + 0.01, but for a fifth of beta,
        and T6 is about it, since predictions are a function of training rows, which are independent of held-out ones.
        """
        if fixed:
            return largest_mean(round_up(level), math.log(2 / self.beta) / rows * ROUNDING)
        plan = self.curation.plan
        if plan.ledger is None:
            return 1.0
        share = self.beta * (1 - _NOISE_SHARE)
        gap = level_shift(plan.ledger, standing.spent, first=plan.cost, cap=plan.cap_units, beta=share)
        ends = 0.0, min(1.0, round_up(level) + _EASE)
        return transfer_ends(ends, epsilon=gap.epsilon, slacks=(gap.slack, gap.slack))[1]


def plan_evaluation(  # noqa: PLR0913 - the numbers of one evaluation
    curation: Curation,
    model: Model,
    *,
    at_most: Number | Sequence[Number],
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


def evaluate_model(task: EvaluationTask, *, key: str | None, analyst: str | None) -> Evaluation:
    """Return what an evaluation found; the same one again is free."""
    release = task.release()

    def plan(answered: Answered) -> Planned:
        return plan_single(release, answered, measure=task.measure)

    (found,) = task.curation.run(Job(plan, key=key, analyst=analyst, slow=True))
    if not isinstance(found, Evaluation):
        raise InvalidParameter.saying("key", "this key was used for another request; use a new one")
    return found
