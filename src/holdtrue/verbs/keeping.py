"""FIT with ``release="each"``: a fit that is kept under a name, every prediction of which is charged (E7-E10, T13, V5).

The fit alone is not charged, and nothing of it leaves: a prediction is drawn by a mechanism for how far one row can move it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from holdtrue.bounds.agnostic_prediction import threshold_population_excess
from holdtrue.codec import digest_of
from holdtrue.ensembles.kept_fits import (
    KeptFit,
    keep_counts,
    keep_learner,
    keep_weights,
    measure_gamma,
    read_kept,
    write_kept,
)
from holdtrue.ensembles.parts import PartRule
from holdtrue.ensembles.responding import Constrained, NoisyAverage
from holdtrue.ensembles.stable import fit_stable
from holdtrue.errors import InvalidParameter, NotCertified
from holdtrue.exact import Number, positive, text_among
from holdtrue.mechanisms.base import Mechanism
from holdtrue.planning.plans import AnyPlan
from holdtrue.queries.cards import Card
from holdtrue.verbs.asking import NOT_INDEPENDENT
from holdtrue.verbs.fitting import NOT_FIRST, FitTask, PublicFit, plan_fit
from holdtrue.verbs.selecting import choose_mu, epsilon_of_use
from holdtrue.verbs.training import Model, ModelFacts

__all__ = ["FitFacts", "FitModel", "KeepTask", "choose_release", "open_fit", "plan_keeping"]


_FINE: Final = 1024
_LEAST_STEPS: Final = 1 << 20
_MOST_STEPS: Final = 1 << 44


@dataclass(frozen=True, slots=True)
class FitFacts(ModelFacts):
    """A kept fit as the public knows it.

    One row moves what it says of a point by at most ``gamma``, within ``ends``; None for thresholds, whose counts of errors
    it moves by one each. ``mu`` or ``epsilon`` is the privacy of one prediction unless another is asked for. ``claim`` says
    whose word gamma is, where it was not certified here. ``excess`` bounds the expected loss above that of what ``compared``
    says, at that privacy; None where ``reason`` says why there is no such bound. ``reads`` are the bounds of the features.
    """

    reads: tuple[tuple[float, float], ...] = ()
    ends: tuple[float, float] = (0.0, 1.0)
    gamma: float | None = None
    mu: Fraction | None = None
    epsilon: Fraction | None = None
    claim: str | None = None
    excess: float | None = None
    reason: str | None = None
    compared: str = ""

    @property
    def certificate(self) -> str:
        """Return in words what is proven of its predictions."""
        if self.claim is not None:
            return self.claim
        if self.excess is None:
            return f"no bound on its loss: {self.reason}"
        word = "error" if self.gamma is None else "loss"
        return f"expected {word} at most {self.excess:.4g} above {self.compared} (population)"

    def make_rule(self, *, epsilon: Number | None, mu: Number | None, method: str) -> Mechanism:
        """Return the mechanism that answers one point: epsilon-DP by Laplace noise, or mu-GDP by normal noise.

        The grid is finer than a 1,024th of gamma, so that rounding adds next to nothing to the noise (V4.3).
        """
        if method != "soft-majority":
            raise InvalidParameter.saying("method", "leave out method: it is for votes, and this model is one fit")
        if mu is not None and self.gamma is None:
            raise InvalidParameter.saying("mu", "give epsilon instead of mu: thresholds are drawn by errors, not by noise")
        if epsilon is None and mu is None:
            epsilon, mu = self.epsilon, self.mu
        if self.gamma is None:
            return Constrained(positive("epsilon", epsilon))
        low, high = self.ends
        fine = 2 ** math.ceil(math.log2(_FINE * (high - low) / self.gamma))
        steps = min(max(fine, _LEAST_STEPS), _MOST_STEPS)
        given: dict[str, Any] = {"epsilon": epsilon} if mu is None else {"mu": mu}
        return NoisyAverage(1, low=low, high=high, gamma=self.gamma, steps=steps, **given)

    @property
    def document(self) -> dict[str, Any]:
        """Return the facts as plain JSON, to be kept with the fit."""
        found = {name: value for name, value in asdict(self).items() if name != "cut"}
        return found | {name: None if found[name] is None else str(found[name]) for name in ("mu", "epsilon")}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "FitFacts":
        """Return the facts whose :attr:`document` this is; a TypeError, KeyError or ValueError for any other."""
        found = dict(document)
        found |= {name: None if found[name] is None else Fraction(found[name]) for name in ("mu", "epsilon")}
        found |= {name: None if found[name] is None else tuple(found[name]) for name in ("labels", "bounds", "ends")}
        return cls(**found | {"cut": PartRule("whole"), "reads": tuple(tuple(pair) for pair in found["reads"])})

    def find_place(self, answer: float) -> int:
        """Return the place among two labels: of thresholds as drawn, else the second in the upper half of the ends."""
        return int(answer) if self.gamma is None else int(answer > sum(self.ends) / 2)


@dataclass(frozen=True, slots=True, eq=False)
class FitModel(Model):
    """A kept fit: what it says of a point is one number, or two counts of errors, for a mechanism alone."""

    def measure(self, points: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
        """Return what the fit says of points that :meth:`read` read. Private."""
        kept: Any = self.ensemble
        found: npt.NDArray[Any] = kept.outputs(points)
        return found

    def write(self) -> bytes:
        """Return the fit as bytes, to be sealed. Private."""
        kept: Any = self.ensemble
        return write_kept(kept)

    def __repr__(self) -> str:
        asked = self.asked
        says = f"labels {', '.join(map(repr, asked.labels))}" if asked.labels else f"numbers in {asked.bounds}"
        held = "" if self.ensemble.stored else "; in memory only"
        return f"<Model {asked.name!r}: {asked.kind} over {', '.join(self.columns)}; {says}; {asked.certificate}{held}>"


@dataclass(frozen=True, slots=True, eq=False)
class KeepTask:
    """A fit to be kept: what is public of it, how the rows are fitted, and what they are made of."""

    facts: PublicFit
    asked: FitFacts
    made: Mapping[str, object]
    learn: Callable[..., tuple[KeptFit, FitFacts]]

    def run(self, *, first: bool) -> FitModel:
        """Fit all rows, where they are. Nothing about them is released; ``first``: nothing was before."""
        facts = self.facts
        engine, progress = facts.curation.engine, facts.curation.progress
        kept, asked = engine.fit(self.learn, facts.features, facts.goal, progress=progress)
        if asked.reason is None and not first:
            asked = replace(asked, excess=None, reason=NOT_FIRST)
        return FitModel.of(asked, kept, facts.columns, card=facts.curation.card)  # type: ignore[arg-type, return-value]  # kept


def choose_release(kind: object, release: str | None) -> str:
    """Return "once" or "each": as given, or each for what has no weights to publish, and once for all else."""
    alone = not isinstance(kind, str) or kind == "thresholds"
    found = text_among("release", release or ("each" if alone else "once"), ("once", "each"))
    if alone and found == "once":
        raise InvalidParameter.saying("release", "there are no weights to publish: release must be 'each'")
    return found


def plan_keeping(  # noqa: PLR0913 - the public facts of one model
    facts: PublicFit,
    kind: Any,  # noqa: ANN401 - the name of a kind, or somebody's own learner
    *,
    mu: Number | None,
    epsilon: Number | None,
    gamma: Number | None,
    certified_by: str | None,
    **given: Any,  # noqa: ANN401 - as plan_fit takes them
) -> KeepTask:
    """Return a fit that is to be kept; whatever would be refused is refused now, at no cost."""
    if not isinstance(kind, str):
        return _plan_learner(facts, kind, mu=mu, epsilon=epsilon, gamma=gamma, certified_by=certified_by)
    if gamma is not None or certified_by is not None:
        raise InvalidParameter.saying("gamma", "leave out gamma and certified_by: they are for a learner of your own")
    if kind == "thresholds":
        return _plan_thresholds(facts, mu=mu, epsilon=epsilon)
    task = plan_fit(facts, kind, mu=mu, epsilon=epsilon, each=True, **given)
    made = task.describe() | {"release": "each"}
    width = task.radius * task.scaling.lipschitz
    ends = (-width, width) if facts.span is None else facts.span
    asked = _name_facts(facts, kind, made, ends=ends, mu=task.mu, epsilon=task.epsilon)
    return KeepTask(facts, asked, made, partial(_learn_weights, task=task, asked=asked))


def _learn_weights(rows: Any, goal: Any, *, task: FitTask, asked: FitFacts) -> tuple[KeptFit, FitFacts]:  # noqa: ANN401
    """Return the weights of a stable fit, and what is certified of it, which depends on public constants alone."""
    fitted = fit_stable(rows, goal, **task.settings)
    reason = task.find_reason(first=True)
    excess = None if reason else task.bound_excess(fitted.stability, fitted.distance)
    gamma = measure_gamma(fitted, ends=asked.ends)
    return keep_weights(fitted, norm=task.norm), replace(
        asked, gamma=gamma, excess=excess, reason=reason, compared=f"the best of length {task.radius:.4g}"
    )


def _plan_thresholds(facts: PublicFit, *, mu: Number | None, epsilon: Number | None) -> KeepTask:
    if len(facts.columns) != 1:
        raise InvalidParameter.saying("features", "kind 'thresholds' reads one feature; name it in features")
    if mu is not None:
        raise InvalidParameter.saying("mu", "kind 'thresholds' takes epsilon instead of mu")
    plan, card = facts.curation.plan, facts.curation.card
    privacy = epsilon_of_use(plan) if epsilon is None else positive("epsilon", epsilon)
    made = _describe(facts, "thresholds") | {"epsilon": str(privacy)}
    asked = _name_facts(facts, "thresholds", made, ends=(0.0, 1.0), mu=None, epsilon=privacy)
    reason = None if plan.iid else NOT_INDEPENDENT
    # With probability 1 - beta over the rows, and so in expectation over the coins alone.
    excess = None if reason else threshold_population_excess(card.rows, epsilon=privacy, beta=plan.beta)
    words = f"the best threshold, with confidence {1 - plan.beta:.4g}"
    asked = replace(asked, excess=excess, reason=reason, compared=words)
    return KeepTask(facts, asked, made, partial(_learn_counts, asked=asked))


def _learn_counts(rows: Any, goal: Any, *, asked: FitFacts) -> tuple[KeptFit, FitFacts]:  # noqa: ANN401 - arrays
    return keep_counts(rows, goal, bounds=asked.reads), asked


def _plan_learner(  # noqa: PLR0913 - the claim, and what is made of it
    facts: PublicFit,
    learner: Any,  # noqa: ANN401 - somebody's own object
    *,
    mu: Number | None,
    epsilon: Number | None,
    gamma: Number | None,
    certified_by: str | None,
) -> KeepTask:
    """Return the fit of somebody's own learner, whose stability is their claim; NotCertified unless they stand for it."""
    usable = callable(getattr(learner, "fit", None)) and callable(getattr(learner, "predict", None))
    if not usable or isinstance(learner, type):
        raise InvalidParameter("kind", type(learner).__name__, "the name of a kind, or a learner with fit and predict")
    if gamma is None or certified_by is None:
        message = "a learner of your own needs gamma=, how far one row moves a prediction, and certified_by=, who proved it"
        raise NotCertified(message)
    engine = facts.curation.engine
    if not (engine.ordered and engine.pairs):
        message = "gamma is about one row that is replaced in its place, and these rows have no order that no value decides"
        raise NotCertified(message)
    said: object = certified_by
    if not isinstance(said, str) or not said.strip():
        raise InvalidParameter("certified_by", certified_by, "a text that says who proved gamma, or where")
    claimed = positive("gamma", gamma)
    ends = (0.0, 1.0) if facts.span is None else facts.span
    pure, normal = _choose_privacy(facts.curation.plan, epsilon, mu)
    claim = f"gamma {float(claimed):.6g} is the claim of {certified_by.strip()}, and was not proved here"
    made = _describe(facts, repr(learner)) | {"gamma": str(claimed), "certified_by": certified_by.strip()}
    asked = _name_facts(facts, type(learner).__name__, made, ends=ends, mu=normal, epsilon=pure)
    asked = replace(asked, gamma=float(claimed), claim=claim, reason="a claim about stability says nothing about the loss")
    given = {"learner": learner, "bounds": asked.reads, "ends": ends}
    return KeepTask(facts, asked, made, lambda rows, goal: (keep_learner(rows, goal, **given), asked))


def _choose_privacy(plan: AnyPlan, epsilon: Number | None, mu: Number | None) -> tuple[Fraction | None, Fraction | None]:
    """Return the epsilon or the mu of one prediction: as given, or normal noise for a share of the reserve."""
    if epsilon is not None and mu is not None:
        raise InvalidParameter.saying("epsilon", "give either epsilon or mu")
    if epsilon is None and plan.ledger != "pure":
        return None, choose_mu(plan, mu)
    if mu is not None:
        raise InvalidParameter.saying("mu", "give epsilon instead of mu: a pure ledger cannot charge for normal noise")
    return epsilon_of_use(plan) if epsilon is None else positive("epsilon", epsilon), None


def _describe(facts: PublicFit, kind: str) -> dict[str, object]:
    """Return what names a fit, all of it public."""
    public = {"labels": None if facts.labels is None else list(facts.labels), "span": facts.span}
    made = {"features": list(facts.columns), "bounds": [list(pair) for pair in facts.bounds]}
    return {"name": facts.name, "kind": kind, "target": facts.target, "release": "each"} | public | made


def _name_facts(  # noqa: PLR0913 - what is public
    facts: PublicFit,
    kind: str,
    made: Mapping[str, object],
    *,
    ends: tuple[float, float],
    mu: Fraction | None,
    epsilon: Fraction | None,
) -> FitFacts:
    about: dict[str, Any] = {
        "target": facts.target,
        "kind": kind,
        "reads": facts.bounds,
        "ends": ends,
        "mu": mu,
        "epsilon": epsilon,
    }
    return FitFacts(facts.name, digest_of(dict(made)), 1, facts.labels, facts.span, PartRule("whole"), **about)


def open_fit(asked: FitFacts, columns: tuple[str, ...], content: bytes, *, card: Card) -> FitModel:
    """Return a fit that was stored; whatever is wrong with the bytes is a ValueError."""
    return FitModel.of(asked, read_kept(content), columns, card=card)  # type: ignore[arg-type, return-value]  # kept
