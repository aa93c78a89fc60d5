"""The terms of a holdout: which mode it is opened in, and the numbers that are then fixed for good."""

from typing import Any

from holdtrue.bounds.transcripts import gate_alpha, guess_and_check_alpha, rounding_cells, rounding_width
from holdtrue.errors import InvalidParameter
from holdtrue.exact import count, positive, probability, round_down, round_up, text_among, truth
from holdtrue.holdouts.cases import Cases
from holdtrue.holdouts.opening import Facts, stored_facts
from holdtrue.holdouts.plans import counting_plan, scoring_plan, sparse_numbers, sparse_plan, widen_for_rounding
from holdtrue.planning.holdout_plan import quiet_threshold
from holdtrue.planning.plans import Plan
from holdtrue.requests import HoldoutTerms

__all__ = ["facts_and_plan"]

_GATE = "transcripts of a gate, counted by place (S5, S6)"
_SPARSE = "above threshold and transfer, one beta, by position (S3, S4, T6b)"
_CHECK = "guess and check (T12)"
_ROUNDED = "description length, by look (T9, S5)"


def facts_and_plan(cases: Cases, terms: HoldoutTerms, *, ledger: str | None) -> tuple[Facts, Plan]:
    """Return what a ledger that exists was created with, after checking it agrees; else make it from the terms."""
    stored = stored_facts(ledger)
    if stored is not None:
        facts, frozen = stored
        facts.agree(_said_again(terms))
        return facts, frozen
    _check(cases, terms)
    number, beta = count("looks", terms.looks), 0.05 if terms.beta is None else terms.beta
    common: dict[str, Any] = {
        "looks": number,
        "beta": round_down(probability("beta", beta)),
        "unseen": terms.unseen is not None and truth("unseen", terms.unseen),
        "label_kind": cases.label_kind,
    }
    if terms.yes is not None:
        return _plan_gate(cases, common, terms, yes=terms.yes)
    if terms.overfits is not None:
        return _plan_reusable(cases, common, terms, overfits=terms.overfits)
    if terms.private is False:
        return _plan_rounding(cases, common)
    privacy = {"epsilon": terms.epsilon, "delta": terms.delta}
    plan = scoring_plan(cases.number, looks=number, beta=common["beta"], reserve=terms.reserve, **privacy)
    limits: dict[str, Any] = {
        name: None if value is None else round_down(positive(name, value)) for name, value in privacy.items()
    }
    return Facts("scores", private=True, **limits, **common), plan


def _said_again(terms: HoldoutTerms) -> dict[str, object]:
    """Return what is said of a ledger that exists, rounded as the ledger has it."""
    floats = {"beta": terms.beta, "epsilon": terms.epsilon, "delta": terms.delta}
    given = {name: None if value is None else round_down(positive(name, value)) for name, value in floats.items()}
    named = {name: getattr(terms, name) for name in ("looks", "yes", "overfits", "private", "unseen", "metric")}
    level = terms.tolerance if terms.threshold is None else terms.threshold
    return given | named | {"threshold": None if level is None else round_up(positive("threshold", level))}


def _check(cases: Cases, terms: HoldoutTerms) -> None:
    """Refuse wishes that do not go together."""
    yes, overfits, private, reusable = terms.yes, terms.overfits, terms.private, terms.train is not None
    scores = yes is None and overfits is None and not reusable
    count("looks", terms.looks)
    if yes is not None and (overfits is not None or reusable):
        raise InvalidParameter("yes", yes, "left out of a reusable holdout (train=, overfits=)")
    if (overfits is not None) != reusable:
        raise InvalidParameter("overfits", overfits, "given together with train, the labels of the training cases")
    if yes is not None:
        count("yes", yes)
    if private is not None:
        truth("private", private)
    if terms.metric is not None:
        text_among("metric", terms.metric, ("accuracy", "cases"))
    if (not scores or private is False) and cases.weights is not None:
        raise InvalidParameter("weights", "given", "left out but for full scores, which are private")
    if terms.epsilon is not None and (private is False or (yes is not None and not private)):
        raise InvalidParameter("epsilon", terms.epsilon, "left out: this mode keeps no privacy")


def _plan_rounding(cases: Cases, common: dict[str, Any]) -> tuple[Facts, Plan]:
    looks, beta, number = common["looks"], common["beta"], cases.number
    cells = rounding_cells(number, looks=looks, beta=beta / 2)
    alpha = rounding_width(cells, cases=number, looks=looks, beta=beta / 2)
    plan = counting_plan(number, looks=looks, beta=beta, alpha=alpha, method="rounding", theorem=_ROUNDED)
    return Facts("rounding", private=False, cells=cells, by_place=True, **common), plan


def _plan_gate(cases: Cases, common: dict[str, Any], terms: HoldoutTerms, *, yes: int) -> tuple[Facts, Plan]:
    metric = terms.metric or "accuracy"
    looks, beta, number = common["looks"], common["beta"], cases.number
    if not terms.private:
        alpha = gate_alpha(number, looks=looks, yes=yes, beta=beta / 2)
        plan = counting_plan(number, looks=looks, beta=beta, alpha=alpha, method="gate", theorem=_GATE)
        return Facts("gate", private=False, yes=yes, metric=metric, by_place=True, **common), plan
    found = sparse_numbers(number, looks=looks, runs=count("yes", yes), beta=beta, epsilon=terms.epsilon)
    plan = sparse_plan(number, found, looks=looks, runs=yes, beta=beta, method="private gate", theorem=_SPARSE)
    common |= {"scale": found.scale, "alpha_released": widen_for_rounding(found.alpha_released, number)}
    return Facts("private gate", private=True, yes=yes, metric=metric, **common), plan


def _plan_reusable(cases: Cases, common: dict[str, Any], terms: HoldoutTerms, *, overfits: int) -> tuple[Facts, Plan]:
    looks, beta, number = common["looks"], common["beta"], cases.number
    wrong = count("overfits", overfits)
    if terms.private is False:
        near = (
            guess_and_check_alpha(number, queries=looks, overfits=wrong, beta=beta)
            if terms.tolerance is None
            else round_up(probability("tolerance", terms.tolerance))
        )
        plan = counting_plan(number, looks=looks, beta=beta, alpha=near, method="guess-and-check", theorem=_CHECK)
        facts = Facts("guess-and-check", private=False, overfits=wrong, threshold=near, **common)
        return facts, plan
    found = sparse_numbers(number, looks=looks, runs=wrong, beta=beta, epsilon=terms.epsilon)
    level = (
        quiet_threshold(number, looks=looks, scale=found.scale)
        if terms.threshold is None
        else round_up(positive("threshold", terms.threshold))
    )
    plan = sparse_plan(
        number, found, looks=looks, runs=wrong, beta=beta, method="thresholdout", theorem=_SPARSE, level=level
    )
    common |= {"scale": found.scale, "alpha_released": widen_for_rounding(found.alpha_released, number)}
    return Facts("thresholdout", private=True, overfits=wrong, threshold=level, **common), plan
