"""LEARN: one hypothesis of a finite class, picked by the exponential mechanism, with what it proves (B6, N3, S2)."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from holdtrue.accounting.closed_forms import upper_quantile
from holdtrue.accounting.filters import Filter
from holdtrue.bounds.learning import (
    adaptive_excess,
    adaptive_rows,
    fixed_excess,
    localised_error,
    log_seen_size,
    realizable_error,
)
from holdtrue.bounds.selection import selection_shortfall
from holdtrue.codec import digest_of, encode
from holdtrue.entropy import SYSTEM
from holdtrue.errors import BudgetExceeded, InsufficientSamples, InvalidParameter, NotCertified
from holdtrue.events import NoCost
from holdtrue.exact import ROUNDING, Number, array_of, count, describe_array, positive, probability, read_list, text_among
from holdtrue.hypotheses.classes import HypothesisClass
from holdtrue.hypotheses.custom import Hypotheses
from holdtrue.hypotheses.unions import Union, join_classes, write_document
from holdtrue.kernels import Floats, Integers
from holdtrue.mechanisms import Exponential, Gaussian, PermuteAndFlip
from holdtrue.planning.learning import plan_learning
from holdtrue.planning.plans import AnyPlan
from holdtrue.queries.cards import Card
from holdtrue.queries.columns import names_of
from holdtrue.queries.features import Feature, Numbers, columns_of, default_features, parse_feature, read_given_rows
from holdtrue.queries.syntax_tree import Query
from holdtrue.records import Certificate, Hypothesis, Interval, Response, Statistic
from holdtrue.verbs import Answered, Curation, Job, Measured, Planned, Release, Standing, expect_kind, plan_single
from holdtrue.verbs.asking import NOT_INDEPENDENT, QuestionRule
from holdtrue.verbs.selecting import epsilon_of_use
from holdtrue.verbs.statistic_tasks import StatisticRecipe, StatisticTask, plan_tasks
from holdtrue.verbs.training import choose_goal

__all__ = ["FIXED", "LOST", "REALIZABLE", "TRANSFERRED", "LearningTask", "bound_best_error", "learn"]

FIXED = "private learning of a class fixed before any answer (N3)"
REALIZABLE = "private learning of a class fixed before any answer, if some hypothesis is never wrong (N3, V4.2)"
LOST = "the realizable bound is lost, since it needs a class fixed before the first answer"
TRANSFERRED = "private learning of a class that earlier answers may have led to (S2)"


_BY_POSITION = "the hypotheses are labels of these rows by position, and no function that labels others"
_HEAVIEST, _MOST_WEIGHTS = 1_000_000, 256
_UNCHECKED = "the budget has no question left to check it"


@dataclass(frozen=True, slots=True)
class Excess:
    """How far err(pick) may be above the least err of the class, and by which theorem."""

    alpha: float
    theorem: str


@dataclass(frozen=True, slots=True, eq=False)
class LearningTerms:
    """What is fixed before the charge: the class, its scores' handicaps, and the privacy and failure of one pick.

    ``heaviest`` is the largest weight of a row, by which one row moves a count of errors at most; ``unspoken`` says why
    nothing is said of the population.
    """

    hypotheses: HypothesisClass
    plan: AnyPlan
    rows: int
    epsilon: Fraction
    beta: float
    assuming: Literal["realizable"] | None = None
    heaviest: int = 1
    unspoken: str | None = None

    @property
    def sizes(self) -> list[int]:
        """Return the sizes of the classes that are joined, or of the one class."""
        joined = self.hypotheses
        return [part.size for part in joined.classes] if isinstance(joined, Union) else [joined.size]

    @property
    def handicaps(self) -> list[int]:
        """Return the whole errors that are added to the counts of each class; public, and 0 for a single class."""
        return self.hypotheses.handicaps(self.epsilon) if isinstance(self.hypotheses, Union) else [0]

    def bound_shortfall(self) -> float:
        """Return by how many errors on these rows the pick may miss the best of any class."""
        if isinstance(self.hypotheses, Union):
            return max(self.hypotheses.shortfalls(epsilon=self.epsilon, beta=self.beta))
        size = self.hypotheses.size
        return self.heaviest * selection_shortfall(size, epsilon=self.epsilon, beta=self.beta) if size > 1 else 0.0

    def bound_excess(self, standing: Standing) -> Excess:
        """Return the best bound whose needs are met where this charge stands.

        A class can have been chosen after seeing earlier answers about the same rows; only the first charge of a ledger
        cannot. N3 is claimed for that one alone, S2 for all. Each pick holds by itself, with probability 1 - its beta.
        """
        lost = self._find_lost(standing)
        theorem = TRANSFERRED if lost is None else f"{TRANSFERRED}; {lost}"
        found = [Excess(min(1.0, self._transferred_excess(standing.spent)), theorem)]
        if standing.charges == 0:
            found.append(Excess(self._fixed_excess(), FIXED))
        if standing.charges == 0 and self.assuming == "realizable":
            terms: dict[str, Any] = {"rows": self.rows, "epsilon": self.epsilon, "beta": self.beta}
            found.append(Excess(max(realizable_error(seen, **terms) for seen in self._log_seen()), REALIZABLE))
        return min(found, key=lambda excess: excess.alpha)

    def _find_lost(self, standing: Standing) -> str | None:
        """Return which bound was asked for and cannot be had where the charge stands; None where none is lost."""
        return LOST if self.assuming is not None and standing.charges else None

    def count_required_rows(self, alpha: float, standing: Standing) -> int | None:
        """Return the fewest rows that would certify alpha here; None where no number would under this ledger's cap."""
        if standing.charges == 0:
            terms: dict[str, Any] = {"alpha": alpha, "beta": self.beta, "epsilon": self.epsilon}
            return plan_learning(size=sum(self.sizes), realizable=self.assuming == "realizable", **terms).rows
        gap, share = self.plan.joint_gap(self.beta, spent=standing.spent)
        return adaptive_rows(
            max(self._log_seen()), alpha=alpha, epsilon=self.epsilon, beta=share, gap=gap, booked=self._booked_epsilon()
        )

    def score_members(self, counts: Measured) -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]]":
        """Return the integer scores of the pick: minus the errors, minus the handicap of the class."""
        errors = np.asarray(counts, dtype=np.int64)
        return -(self.hypotheses.handicap(errors, epsilon=self.epsilon) if isinstance(self.hypotheses, Union) else errors)

    def make_response(
        self, index: int, certificate: Certificate, standing: Standing, *, columns: tuple[str, ...], document: str | None
    ) -> Hypothesis:
        """Return the picked hypothesis with what is certified of it where its charge stands."""
        unspoken = self.unspoken if self.plan.iid else NOT_INDEPENDENT
        excess = self.bound_excess(standing) if unspoken is None else None
        return Hypothesis(
            text=self.hypotheses.describe(index),
            index=index,
            size=self.hypotheses.size,
            excess_error=None if excess is None else excess.alpha,
            confidence=1 - self.beta,
            shortfall=self.bound_shortfall(),
            columns=columns,
            document=document,
            certificate=certificate.with_theorem(None if excess is None else excess.theorem),
            reason=unspoken or self._find_lost(standing),
        )

    def _log_seen(self) -> list[float]:
        rate, sizes, added = float(self.epsilon) / 2, self.sizes, self.handicaps
        return [log_seen_size(sizes, handicaps=added, place=place, rate=rate) for place in range(len(sizes))]

    def _booked_epsilon(self) -> Fraction:
        """Return the epsilon that S2 reserves for an overshoot: the plan's own, since this pick's may depend on answers."""
        plan = self.plan
        return epsilon_of_use(plan) if plan.use_units > 0 else Fraction(plan.epsilon or 1) / plan.uses

    def _transferred_excess(self, spent: int) -> float:
        gap, share = self.plan.joint_gap(self.beta, spent=spent)
        return adaptive_excess(
            max(self._log_seen()), rows=self.rows, epsilon=self.epsilon, beta=share, gap=gap, booked=self._booked_epsilon()
        )

    def _fixed_excess(self) -> float:
        excess = partial(fixed_excess, rows=self.rows, epsilon=self.epsilon, beta=self.beta)
        sizes, added = self.sizes, self.handicaps
        return max(excess(sizes, handicaps=added, place=place) for place in range(len(sizes)))


def learn(  # noqa: PLR0913 - the numbers of one pick
    hypotheses: HypothesisClass,
    *,
    target: Query | str,
    columns: Sequence[str],
    plan: AnyPlan,
    limit: Filter,
    rows: int,
    standing: Standing,
    epsilon: Number | None = None,
    alpha: Number | None = None,
    beta: Number | None = None,
    anyway: bool = False,
    assuming: Literal["realizable"] | None = None,
    counting: "Counting | None" = None,
    nonce: str = "",
) -> Release:
    """Return the release of one hypothesis; ``standing`` is where its charge would stand if it were made now.

    InsufficientSamples where alpha is asked for and these rows do not certify it, unless told to go on ``anyway``; the
    response then certifies what they do. Classes made of code cannot be told apart: ``nonce`` keeps each such request a new
    one. A class of one member says nothing about the rows, and costs nothing.
    """
    if isinstance(target, Query) and not target.boolean:
        raise InvalidParameter("target", target.text, "a yes-or-no question, such as income > 50000")
    how = counting or Counting()
    privacy = epsilon_of_use(plan) if epsilon is None else positive("epsilon", epsilon)
    failure = plan.beta if beta is None else float(probability("beta", beta))
    if assuming is not None:
        text_among("assuming", assuming, ("realizable",))
    unspoken = how.find_reason(hypotheses)
    task = LearningTerms(hypotheses, plan, count("rows", rows), privacy, failure, assuming, how.heaviest, unspoken)
    kind = PermuteAndFlip if plan.ledger == "pure" else Exponential
    mechanism = kind(epsilon=privacy, sensitivity=how.heaviest)
    if alpha is not None:
        _check_rows(task, float(probability("alpha", alpha)), standing, limit.cost(mechanism.event), anyway=anyway)
    document = write_document(hypotheses)
    request: dict[str, object] = {
        "target": target if isinstance(target, str) else target.text,
        "columns": list(columns),
        "class": document or f"{hypotheses.kind} of {hypotheses.size}, {nonce}",
        "epsilon": str(privacy),
        "beta": failure,
    } | ({} if assuming is None else {"assuming": assuming})
    request |= how.describe(hypotheses)

    def respond(drawn: Sequence[int], certificate: Certificate, where: Standing) -> list[Response]:
        return [task.make_response(drawn[0], certificate, where, columns=tuple(columns), document=document)]

    event = mechanism.event if hypotheses.size > 1 else NoCost()
    return Release(
        verb="learn",
        request=request,
        parts=(f"learn {digest_of(request)}",),
        event=event,
        cost=limit.cost(event),
        draws=0,
        queries=(target,) if isinstance(target, Query) else (),
        draw=lambda counts: [int(mechanism.release(task.score_members(counts))) if hypotheses.size > 1 else 0],
        respond=respond,
    )


def _check_rows(task: LearningTerms, alpha: float, standing: Standing, cost: int, *, anyway: bool) -> None:
    unspoken = task.unspoken if task.plan.iid else NOT_INDEPENDENT
    if unspoken is not None:
        raise InvalidParameter.saying("alpha", f"leave out alpha: {unspoken}, so no excess error can be certified")
    paid = Standing(standing.draws, standing.spent + cost, standing.charges)
    found = task.bound_excess(paid)
    if found.alpha > alpha and not anyway:
        required = task.count_required_rows(alpha, paid)
        needs = f"{required:,} rows would do" if required else "no number of rows is enough under this cap"
        message = (
            f"{task.rows:,} rows certify an excess error of {found.alpha:.4g}, not {alpha:.4g}; {needs}; "
            f"pass anyway=True to accept {found.alpha:.4g}"
        )
        raise InsufficientSamples(message, required=required)


@dataclass(frozen=True, slots=True, eq=False)
class Counting:
    """How errors are counted: every row once, or as often as its public whole weight says (weights by position)."""

    weights: Integers | None = None

    @classmethod
    def of(cls, weights: object, curation: Curation) -> "Counting":
        """Return the counting by given weights, which belong to whoever asks: whole numbers of 0 or above, not all 0.

        What divides all of them changes nothing and is taken out, so that equal weights are none.
        """
        if weights is None:
            return cls()
        rows, expected = curation.card.rows, "public whole numbers from 0 to 1,000,000, one for each row in its order"
        found = array_of("row_weights", weights, expected=expected)
        whole = found.dtype.kind in "iu" and found.shape == (rows,)
        if not whole or found.min() < 0 or found.max() > _HEAVIEST or found.max() == 0:
            raise InvalidParameter("row_weights", describe_array(found), expected)
        if np.unique(found).size > _MOST_WEIGHTS:
            raise InvalidParameter("row_weights", describe_array(found), f"at most {_MOST_WEIGHTS} different weights")
        least = found.astype(np.int64) // int(np.gcd.reduce(found))
        return cls(None if (least == 1).all() else least)

    @property
    def heaviest(self) -> int:
        """Return by how much one row moves a count at most."""
        return 1 if self.weights is None else int(self.weights.max())

    def find_reason(self, hypotheses: HypothesisClass) -> str | None:
        """Return why nothing is said of the population; None where the bounds for it are about these counts."""
        if self.weights is not None:
            return "errors are weighted, and the bounds for the population are about rows that count alike"
        return _BY_POSITION if hypotheses.by_position else None

    def describe(self, hypotheses: HypothesisClass) -> dict[str, object]:
        """Return what the ledger keeps of it besides the class."""
        kept: dict[str, object] = {} if hypotheses.labels is None else {"labels": list(hypotheses.labels)}
        weighed = None if self.weights is None else hashlib.sha256(self.weights.tobytes()).hexdigest()
        return kept | ({} if weighed is None else {"row weights": weighed, "heaviest": self.heaviest})


@dataclass(frozen=True, slots=True, eq=False)
class LearningTask:
    """A class with names for its columns, what each of them reads, and what it predicts: a question, or a list of labels."""

    curation: Curation
    hypotheses: HypothesisClass
    columns: tuple[str, ...]
    features: tuple[Feature, ...]
    target: Query | None
    goal: Feature | None = None
    counting: Counting = Counting()
    named: str = ""

    @classmethod
    def of(  # noqa: PLR0913 - what is learned from what
        cls,
        curation: Curation,
        hypotheses: HypothesisClass | Sequence[HypothesisClass],
        *,
        target: str,
        features: Sequence[str] | None,
        weights: Sequence[Number] | None,
        row_weights: object = None,
    ) -> "LearningTask":
        """Return the task of a class, or of several joined, over the columns of a card. Reads only the card."""
        joined = join_classes(hypotheses, weights)
        counting = Counting.of(row_weights, curation)
        goal = _choose_labels(curation, joined, target, counting)
        question = curation.parse(target) if goal is None or joined.labels is None else None
        if joined.columns is not None:
            if features is not None:
                raise InvalidParameter.saying("features", "leave out features: the class names its columns")
            names = joined.columns
        else:
            read_by_target = question.columns if question is not None else columns_of([goal] if goal is not None else [])
            given = default_features(curation.card, read_by_target) if features is None else features
            names = tuple(read_list("features", given, expected="a list of columns or questions"))
            joined = joined.over(names)
        # Both refuse before anything is charged: what would take too long, and what would not fit into memory.
        joined.check_work(curation.card.rows)
        if goal is None or (joined.labels is None and not joined.by_position):
            joined.make_totals()
        read = tuple(parse_feature(name, curation.card) for name in names)
        if goal is not None:
            curation.engine.check_room(len(read) + 1)
        joined.try_out(_invent_row(read, curation.card))
        return cls(curation, joined, names, read, question, goal, counting, target)

    def learn(  # noqa: PLR0913 - the numbers of one pick, and who asks for it
        self,
        *,
        epsilon: Number | None,
        alpha: Number | None,
        beta: Number | None,
        anyway: bool,
        assuming: Literal["realizable"] | None = None,
        key: str | None,
        analyst: str | None,
    ) -> Hypothesis:
        """Return the pick with its class, so that it can predict."""
        curation, nonce = self.curation, SYSTEM.words(2).tobytes().hex()

        def plan(answered: Answered) -> Planned:
            release = learn(
                self.hypotheses,
                target=self.named if self.target is None else self.target,
                columns=self.columns,
                plan=curation.plan,
                limit=curation.limit,
                rows=curation.card.rows,
                standing=answered.standing(),
                epsilon=epsilon,
                alpha=alpha,
                beta=beta,
                anyway=anyway,
                assuming=assuming,
                counting=self.counting,
                nonce=nonce,
            )
            return plan_single(release, answered, measure=self.count_errors)

        (found,) = curation.run(Job(plan, key=key, analyst=analyst, slow=True))
        picked = expect_kind(found, Hypothesis)
        return picked.with_reader(None if self.hypotheses.by_position else partial(self._label_rows, index=picked.index))

    def check_pick(self, found: Hypothesis, rule: QuestionRule, *, analyst: str | None) -> Hypothesis:
        """Return a pick with an interval for its own error, for one question about its errors (V4.2 ii, iii).

        Where the class was fixed before any answer, by Chernoff's bound over all of it, with the pick's confidence; after
        other answers by the plan's own theorem, since the pick is a function of what was told. The pick stays what it is
        where the question can no longer be paid for.
        """
        asked = StatisticTask(
            measure="error",
            subject=f"{found.text} for {self.question.text}",
            target="the population",
            queries=(self.question,),
            reckon=min,
            change=1,
            sensitivity=1.0,
            span=(0.0, 1.0),
            rounding=0.0,
            by_rows=True,
            count=lambda: [int(self.count_errors()[found.index])],
            known_as=f"pick of entry {found.certificate.entry}",
        )
        plan = partial(plan_tasks, self.curation, rule, (asked,), "evaluate")
        try:
            (said,) = self.curation.run(Job(plan, analyst=analyst, slow=True))
        except BudgetExceeded:
            return replace(found, reason=_UNCHECKED).with_reader(found.evaluate)
        ends = self._find_error_ends(found, expect_kind(said, Statistic), rule)
        return replace(found, checked=ends).with_reader(found.evaluate)

    def _find_error_ends(self, found: Hypothesis, said: Statistic, rule: QuestionRule) -> Interval:
        fixed = found.certificate.theorem in (FIXED, REALIZABLE)
        if said.interval is None or not fixed or not isinstance(rule.mechanism, Gaussian):
            return said.interval or said.sample_interval
        beta, rows = 1 - found.confidence, rule.rows
        noise = (upper_quantile(beta / 4) * float(rule.mechanism.sigma) + 1) / (rows << rule.plan.bits)
        share = min(1.0, (said.value + noise) * ROUNDING)
        bound = localised_error(found.size, rows=rows, share=share, beta=beta)
        return Interval(0.0, bound, found.confidence, "population")

    @property
    def question(self) -> Query:
        """Return the question that rows are compared with one by one; InvalidParameter where there is none."""
        if self.target is None or self.goal is not None:
            raise InvalidParameter.saying("hypotheses", "this is for classes of yes and no, on rows that count alike")
        return self.target

    def count_errors(self) -> Measured:
        """Return how many rows each hypothesis gets wrong, or how much they weigh."""
        engine, progress = self.curation.engine, self.curation.progress
        if self.goal is not None:
            count = partial(_weigh_rows, weigh=self.hypotheses.weigh_errors, weights=self.counting.weights)
            return engine.fit(count, self.features, self.goal, progress=progress)
        return engine.error_counts(self.hypotheses, self.features, self.question, progress=progress)

    def _label_rows(self, rows: object, *, index: int) -> npt.NDArray[np.bool_]:
        read: Any = read_given_rows(rows, self.features, self.curation.card) if names_of(rows) is not None else rows
        if isinstance(self.hypotheses, Hypotheses) and self.hypotheses.labels is not None:
            return self.hypotheses.label_codes(read, index)
        return self.hypotheses.evaluate(read, index)


def _choose_labels(curation: Curation, joined: HypothesisClass, target: str, counting: Counting) -> Feature | None:
    """Return what rows are compared with where counting needs all of them at once; None where a question is enough.

    Failure: NotCertified where rows have no order, InvalidParameter for predictions of another number of rows.
    """
    parts = joined.classes if isinstance(joined, Union) else (joined,)
    special = [each for each in parts if each.by_position or each.labels is not None]
    if not special and counting.weights is None:
        return None
    if len(parts) > 1:
        raise InvalidParameter.saying("hypotheses", "join no classes where there are weights, labels or predictions")
    engine = curation.engine
    if (joined.by_position or counting.weights is not None) and not (engine.ordered and engine.pairs):
        message = "predictions and weights go by the position of a row, and these rows have no order that no value decides"
        raise NotCertified(message)
    if isinstance(joined, Hypotheses) and joined.predictions is not None and len(joined.predictions) != curation.card.rows:
        expected = f"one line for each of {curation.card.rows:,} rows"
        raise InvalidParameter("predictions", describe_array(joined.predictions), expected)
    if joined.labels is not None:
        goal, public, _ = choose_goal(curation, target, list(joined.labels), {})
        kinds: dict[type, str] = {str: "text", int: "integer", bool: "boolean"}
        column = curation.card.column(target) if target in curation.card else None
        if public != joined.labels or (column is not None and column.type != kinds[type(joined.labels[0])]):
            raise InvalidParameter("target", target, "a column that has the labels of the hypotheses")
        return goal
    question = curation.parse(target)
    if not question.boolean:
        raise InvalidParameter("target", question.text, "a yes-or-no question, such as income > 50000")
    return question


def _weigh_rows(
    rows: Floats, y: Floats, *, weigh: Callable[[Floats, Integers, Integers | None], Integers], weights: Integers | None
) -> Integers:
    """Return weighted errors; a row whose label is missing has the first."""
    return weigh(rows, np.nan_to_num(y, nan=0.0).astype(np.int64), weights)


def bound_best_error(task: LearningTask, rule: QuestionRule, *, key: str | None, analyst: str | None) -> Statistic:
    """Return the least error of a class on these rows, with noise, for the price of one question (U5).

    Law: replacing a row moves every count of errors by at most 1, and so their minimum, which is over the whole class and
    exact. Its expectation on a fresh sample of as many rows is at most the least error of the class in the population: the
    lower end of the interval is below both.
    """
    if not task.question.boolean:
        raise InvalidParameter("target", task.question.text, "a yes-or-no question, such as income > 50000")
    document, rows = write_document(task.hypotheses), task.curation.card.rows
    asked = StatisticTask(
        measure="least error",
        subject=f"{task.hypotheses.kind} of {task.hypotheses.size:,} for {task.question.text}",
        target=f"samples of {rows:,} rows: its mean over fresh ones, at most the least error of the class in the population",
        queries=(task.question,),
        reckon=min,
        change=1,
        sensitivity=1.0,
        span=(0.0, 1.0),
        rounding=0.0,
        count=lambda: [int(number) for number in task.count_errors()],
        known_as=f"{document or SYSTEM.words(2).tobytes().hex()} {encode(list(task.columns))}",
    )
    plan = partial(plan_tasks, task.curation, rule, (asked,), "best_error")
    return StatisticRecipe((asked,)).combine(task.curation.run(Job(plan, key=key, analyst=analyst, slow=True)))


def _invent_row(features: Sequence[Feature], card: Card) -> npt.NDArray[np.float64]:
    """Return an invented row of the card's types, from no data: the middle of declared bounds, 1 or yes otherwise."""
    declared = {column.name: column.bounds for column in card.columns if column.bounds is not None}
    middles = [sum(declared.get(item.column, (1.0, 1.0))) / 2 if isinstance(item, Numbers) else 1.0 for item in features]
    return np.array([middles], dtype=np.float64)
