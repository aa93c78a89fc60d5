"""Which mode a holdout is opened in, and the numbers that are then fixed for good."""

from typing import Any

from holdtrue.bounds.transcripts import gate_alpha, guess_and_check_alpha, rounding_cells, rounding_width
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number, count, positive, probability, round_down, round_up, text_among, truth
from holdtrue.holdouts.cases import Cases
from holdtrue.holdouts.opening import Facts, stored_facts
from holdtrue.holdouts.plans import counting_plan, scoring_plan, sparse_numbers, sparse_plan
from holdtrue.planning.holdout_plan import quiet_threshold
from holdtrue.planning.plans import Plan

__all__ = ["facts_and_plan"]

_GATE = "transcripts of a gate, counted (T9, T11)"
_SPARSE = "above threshold and transfer, by position (T10, T6b)"
_CHECK = "guess and check (T12)"
_ROUNDED = "description length (T9)"


def facts_and_plan(  # noqa: PLR0913 - everything that is fixed when a ledger is created
    cases: Cases,
    *,
    ledger: str | None,
    looks: int | None,
    beta: Number | None,
    yes: int | None,
    overfits: int | None,
    reusable: bool,
    private: bool | None,
    epsilon: Number | None,
    delta: Number | None,
    threshold: Number | None,
    tolerance: Number | None,
    reserve: Number,
    metric: str | None,
    unseen: bool | None,
) -> tuple[Facts, Plan]:
    """Return what a ledger that exists was created with, after checking it agrees; else make it from what is given."""
    stored = stored_facts(ledger)
    if stored is not None:
        facts, frozen = stored
        floats = {"beta": beta, "epsilon": epsilon, "delta": delta}
        given = {name: None if value is None else round_down(positive(name, value)) for name, value in floats.items()}
        named = {"looks": looks, "yes": yes, "overfits": overfits, "private": private, "unseen": unseen, "metric": metric}
        level = tolerance if threshold is None else threshold
        facts.agree(given | named | {"threshold": None if level is None else round_up(positive("threshold", level))})
        return facts, frozen
    number = count("looks", looks)
    common: dict[str, Any] = {
        "looks": number,
        "beta": round_down(probability("beta", 0.05 if beta is None else beta)),
        "unseen": unseen is not None and truth("unseen", unseen),
        "label_kind": cases.label_kind,
    }
    _check(cases, yes=yes, overfits=overfits, reusable=reusable, private=private, epsilon=epsilon, metric=metric)
    if yes is not None:
        return _gate(cases, common, yes, secret=bool(private), epsilon=epsilon, metric=metric or "accuracy")
    if overfits is not None:
        secret = private is not False
        return _reusable(cases, common, overfits, secret=secret, epsilon=epsilon, threshold=threshold, tolerance=tolerance)
    if private is False:
        return _rounded(cases, common)
    plan = scoring_plan(cases.number, looks=number, beta=common["beta"], epsilon=epsilon, delta=delta, reserve=reserve)
    limits = [None if value is None else round_down(positive("epsilon", value)) for value in (epsilon, delta)]
    return Facts("scores", private=True, epsilon=limits[0], delta=limits[1], **common), plan


def _check(  # noqa: PLR0913 - everything that excludes something else
    cases: Cases,
    *,
    yes: int | None,
    overfits: int | None,
    reusable: bool,
    private: bool | None,
    epsilon: Number | None,
    metric: str | None,
) -> None:
    """Refuse wishes that do not go together."""
    scores = yes is None and overfits is None and not reusable
    if yes is not None and (overfits is not None or reusable):
        raise InvalidParameter("yes", yes, "left out of a reusable holdout (train=, overfits=)")
    if (overfits is not None) != reusable:
        raise InvalidParameter("overfits", overfits, "given together with train, the labels of the training cases")
    if yes is not None:
        count("yes", yes)
    if private is not None:
        truth("private", private)
    if metric is not None:
        text_among("metric", metric, ("accuracy", "cases"))
    if (not scores or private is False) and cases.weights is not None:
        raise InvalidParameter("weights", "given", "left out but for full scores, which are private")
    if epsilon is not None and (private is False or (yes is not None and not private)):
        raise InvalidParameter("epsilon", epsilon, "left out: this mode keeps no privacy")


def _rounded(cases: Cases, common: dict[str, Any]) -> tuple[Facts, Plan]:
    looks, beta, number = common["looks"], common["beta"], cases.number
    cells = rounding_cells(number, looks=looks, beta=beta)
    alpha = rounding_width(cells, cases=number, looks=looks, beta=beta)
    plan = counting_plan(number, looks=looks, beta=beta, alpha=alpha, method="rounding", theorem=_ROUNDED)
    return Facts("rounding", private=False, cells=cells, **common), plan


def _gate(  # noqa: PLR0913 - the numbers of two mechanisms
    cases: Cases, common: dict[str, Any], yes: int, *, secret: bool, epsilon: Number | None, metric: str
) -> tuple[Facts, Plan]:
    looks, beta, number = common["looks"], common["beta"], cases.number
    if not secret:
        alpha = gate_alpha(number, looks=looks, yes=yes, beta=beta)
        plan = counting_plan(number, looks=looks, beta=beta, alpha=alpha, method="gate", theorem=_GATE)
        return Facts("gate", private=False, yes=yes, metric=metric, **common), plan
    found = sparse_numbers(number, looks=looks, runs=count("yes", yes), beta=beta, epsilon=epsilon)
    plan = sparse_plan(
        number,
        looks=looks,
        runs=yes,
        beta=beta,
        alpha=found.alpha,
        scale=found.scale,
        method="private gate",
        theorem=_SPARSE,
    )
    facts = Facts("private gate", private=True, yes=yes, scale=found.scale, metric=metric, **common)
    return facts, plan


def _reusable(  # noqa: PLR0913 - the numbers of two mechanisms
    cases: Cases,
    common: dict[str, Any],
    overfits: int,
    *,
    secret: bool,
    epsilon: Number | None,
    threshold: Number | None,
    tolerance: Number | None,
) -> tuple[Facts, Plan]:
    looks, beta, number = common["looks"], common["beta"], cases.number
    wrong = count("overfits", overfits)
    if not secret:
        near = (
            guess_and_check_alpha(number, queries=looks, overfits=wrong, beta=beta)
            if tolerance is None
            else round_up(probability("tolerance", tolerance))
        )
        plan = counting_plan(number, looks=looks, beta=beta, alpha=near, method="guess-and-check", theorem=_CHECK)
        facts = Facts("guess-and-check", private=False, overfits=wrong, threshold=near, **common)
        return facts, plan
    found = sparse_numbers(number, looks=looks, runs=wrong, beta=beta, epsilon=epsilon)
    level = (
        quiet_threshold(number, looks=looks, scale=found.scale)
        if threshold is None
        else round_up(positive("threshold", threshold))
    )
    plan = sparse_plan(
        number,
        looks=looks,
        runs=wrong,
        beta=beta,
        alpha=level + found.alpha,
        scale=found.scale,
        method="thresholdout",
        theorem=_SPARSE,
    )
    facts = Facts("thresholdout", private=True, overfits=wrong, threshold=level, scale=found.scale, **common)
    return facts, plan
