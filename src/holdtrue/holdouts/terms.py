"""The terms of a holdout: which mode it is opened in, and the numbers and the ledger that are then fixed for good.

Modes that keep no privacy count their looks on a ledger too: every look is charged one unit under a cap of as many units
as there are looks, with the event NoCost, since a ledger takes no other without a guarantee. The ledger's card, every
request on it and every certificate say that nothing was private.
"""

import json
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from os import PathLike, fspath
from typing import Any

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from holdtrue.bounds.accuracy import grid
from holdtrue.bounds.gate_levels import (
    AT_ONCE,
    AT_THE_END,
    depth_alpha,
    plan_gate_noise,
    private_gate_limits,
    split_noise_share,
)
from holdtrue.bounds.sparse_vector import (
    SparseVectorBound,
    above_threshold,
    above_threshold_alpha,
    private_ladder,
    private_ladder_alpha,
)
from holdtrue.bounds.transcripts import guess_and_check_alpha, rounding_cells, rounding_width
from holdtrue.codec import convert, decode, encode
from holdtrue.curator.pipeline import Pipeline
from holdtrue.engines import open_engine
from holdtrue.errors import FingerprintMismatch, InsufficientSamples, InvalidParameter, RefusedError
from holdtrue.exact import (
    ROUNDING,
    UNIT,
    Number,
    count,
    positive,
    probability,
    round_down,
    round_up,
    text_among,
    truth,
    units_up,
)
from holdtrue.holdouts.cases import BITS, Cases
from holdtrue.ledgers import open_ledger, read_terms
from holdtrue.planning.asking import plan
from holdtrue.planning.holdout_plan import describe_width, quiet_threshold
from holdtrue.planning.plans import Plan
from holdtrue.requests import HoldoutTerms

__all__ = [
    "ONE_SIDED",
    "Facts",
    "counting_plan",
    "facts_and_plan",
    "ladder_numbers",
    "open_pipeline",
    "say_width",
    "scoring_plan",
    "sparse_numbers",
    "sparse_plan",
    "stored_facts",
    "widen_for_rounding",
]

ONE_SIDED = "one-sided"
"""How a reusable holdout says that no noise of its runs is below 0."""
_GATE = "levels of a gate by depth (V1)"
_PRIVATE_GATE = "levels of a gate by depth, and noise (V1.4)"
_SPARSE = "above threshold with one-sided noise and transfer, one beta, by position (V2.1, S1, T6b)"
_CHECK = "guess and check (T12)"
_ROUNDED = "description length, by look (T9, S5)"
_LARGEST_BET = Fraction(98, 100)


class Facts(Struct, frozen=True, forbid_unknown_fields=True):
    """What is public about a holdout and fixed for good, beside the plan.

    ``label_kind`` is what the custodian declares by creating it: labels are "text" or "numbers". ``alpha_released`` is the
    half-width of released scores (S4); without one, as in ledgers created before, they have the plan's. ``by_place``: the
    widths of a gate or of rounded scores follow a look's place in the tree of transcripts (S5); otherwise all are alike.
    ``rule``: a gate goes by "depth" (V1); without one, as in ledgers created before, its transcripts are counted. ``pairs``:
    its scores are 0 or 1 and compared by exact pairs, since submissions are "unseen", or since the labels are two and it is
    "public" which cases differ. ``clusters``: how many there are, where cases come in clusters. ``tells``: which bounds a
    gate tells besides yes and no. ``bet``: the bet that a gate plans with besides those it always has.
    ``told_before``: other ledgers had looks at these cases when a gate was opened, as far as that is noted. ``noise``: by
    which rule a private gate by depth has its noise, ``extra``: by how many cases more than without noise a yes must be
    safe, ``beta_levels``: what of beta its levels have (V1.4). A reusable holdout's noise is "one-sided" (V2.1); without a
    word, as in ledgers created before, it is on both sides.
    """

    mode: str
    looks: int
    beta: float
    unseen: bool
    private: bool
    yes: int | None = None
    overfits: int | None = None
    epsilon: float | None = None
    delta: float | None = None
    threshold: float | None = None
    scale: float | None = None
    metric: str = "accuracy"
    incumbent: str | None = None
    moves: int | None = None
    cells: int | None = None
    label_kind: str | None = None
    # What was added later is written only where it is said: older ledgers keep their bytes.
    alpha_released: float | UnsetType = UNSET
    by_place: bool | UnsetType = UNSET
    rule: str | UnsetType = UNSET
    pairs: str | UnsetType = UNSET
    clusters: int | UnsetType = UNSET
    tells: str | UnsetType = UNSET
    bet: float | UnsetType = UNSET
    told_before: bool | UnsetType = UNSET
    noise: str | UnsetType = UNSET
    extra: int | UnsetType = UNSET
    beta_levels: float | UnsetType = UNSET

    @property
    def takes_results(self) -> bool:
        """Return whether submissions to a gate are results that came from elsewhere."""
        return self.metric != "accuracy"

    def agree(self, given: Mapping[str, object]) -> None:
        """Refuse whatever is said differently when the ledger is opened again."""
        for name, value in given.items():
            if value is not None and value != getattr(self, name):
                known = getattr(self, name) or None
                raise InvalidParameter(name, value, f"left out, or {known!r}, as the ledger was created with")


def say_width(facts: Facts, plan: Plan) -> str:
    """Return in one sentence how wide what a holdout tells is, and what would be narrower: from public numbers. Free."""
    given: dict[str, Any] = {"cases": plan.rows, "looks": facts.looks, "yes": facts.yes, "beta": facts.beta}
    alpha = plan.position_alpha if facts.mode == "scores" else plan.alpha
    given |= {"tells": facts.tells or None, "pairs": bool(facts.pairs) or not facts.rule}
    if facts.noise in ("gaussian", "sparse vector"):
        given |= {"epsilon": facts.epsilon, "delta": facts.delta}
    found = describe_width(facts.mode, **given, alpha=alpha or plan.alpha)
    return found.replace(" cases", " clusters") if facts.clusters else found


def stored_facts(ledger: str | PathLike[str] | None) -> tuple[Facts, Plan] | None:
    """Return what a ledger was created with; None where there is none yet."""
    terms = read_terms(ledger)
    if terms is None:
        return None
    document = json.loads(terms.card)
    if "holdout" not in document:
        message = "this ledger belongs to a curator or to estimators, not to a holdout; take a new ledger"
        raise RefusedError(message)
    return convert(document["holdout"], Facts), decode(terms.plan, Plan)


def open_pipeline(cases: Cases, facts: Facts, plan: Plan, *, ledger: str | PathLike[str] | None, analyst: str) -> Pipeline:
    """Return the pipeline of a holdout: its ledger, created or opened again, with what was answered.

    Failure: FingerprintMismatch if these are other cases than the ledger's; nothing is lost then.
    """
    engine = open_engine(cases.columns())
    where = None if ledger is None else fspath(ledger)
    made = open_ledger(
        where,
        kind=plan.ledger or "pure",
        cap=plan.cap_units,
        plan=encode(plan),
        card=encode({"holdout": facts, "cases": cases.number}),
        iid=True,
        fingerprint=lambda key: engine.fingerprint(key).hex(),
    )
    return Pipeline(plan=plan, ledger=made, engine=engine, analyst=analyst)


def scoring_plan(  # noqa: PLR0913 - the public numbers of a plan
    cases: int, *, looks: int, beta: Number, epsilon: Number | None, delta: Number | None, reserve: Number
) -> Plan:
    """Return the plan for full scores by Gaussian noise on a GDP ledger (T5)."""
    given: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "reserve": reserve, "bits": BITS, "cap": "validity"}
    try:
        return plan(rows=cases, queries=looks, beta=beta, **given)
    except InsufficientSamples as error:
        needed = f": {error.required:,} are needed" if error.required else ""
        message = (
            f"{cases:,} cases are too few for {looks:,} scores{needed} for a width below 1; take fewer looks, or a gate "
            "(yes=), which needs fewer cases"
        )
        raise InsufficientSamples(message, required=error.required) from None


def counting_plan(  # noqa: PLR0913 - the numbers of a mode, and its names
    cases: int, *, looks: int, beta: float, alpha: float, method: str, theorem: str
) -> Plan:
    """Return the plan of a mode that keeps no privacy: the ledger counts looks, and its delta of 1 promises nothing."""
    if alpha >= 1:
        message = f"{cases:,} cases are too few for {looks:,} looks by {method}: see plan_holdout"
        raise InsufficientSamples(message, required=None)
    return _frozen(cases, looks, beta, alpha, method=method, theorem=theorem, cap=looks, cost=1, epsilon=0.0, delta=1.0)


@lru_cache(maxsize=32)
def sparse_numbers(  # noqa: PLR0913 - the numbers of T10
    cases: int, *, looks: int, runs: int, beta: float, epsilon: Number | None, one_sided: bool = False
) -> SparseVectorBound:
    """Return the narrowest noise for this many runs of above threshold, each with one release; within epsilon if given."""
    given: dict[str, Any] = {"looks": looks, "runs": runs, "beta": beta, "one_sided": one_sided}
    best, least = above_threshold_alpha(cases, **given), _least_scale(cases, runs, epsilon)
    return best if least <= best.scale else above_threshold(cases, scale=least, **given)


@lru_cache(maxsize=32)
def ladder_numbers(cases: int, *, looks: int, moves: int, beta: float, epsilon: Number | None) -> SparseVectorBound:
    """Return the noise of a private ladder, whose half-width is that of released scores alone; within epsilon if given."""
    best = private_ladder_alpha(cases, submissions=looks, moves=moves, beta=beta)
    least = _least_scale(cases, moves, epsilon)
    return best if least <= best.scale else private_ladder(cases, moves=moves, scale=least, beta=beta)


def _least_scale(cases: int, runs: int, epsilon: Number | None) -> float:
    return 0.0 if epsilon is None else float(2 * runs / (cases * positive("epsilon", epsilon))) * ROUNDING


def sparse_plan(  # noqa: PLR0913 - the numbers of T10
    cases: int, found: SparseVectorBound, *, looks: int, runs: int, beta: float, method: str, theorem: str, level: float = 0
) -> Plan:
    """Return the plan of a mode made of runs of above threshold: pure epsilon, 2/(s cases) a run, release included (T10).

    Every run and every release has the same epsilon, fixed beforehand, and their number is limited; so the transcript
    is private in mu and in rho as well, and the width may use the best of the three. ``level``: a threshold to add to it.
    """
    alpha = level + found.alpha
    if alpha >= 1:
        message = f"{cases:,} cases are too few for {looks:,} looks by {method}: see plan_holdout"
        raise InsufficientSamples(message, required=None)
    cost = 2 * units_up(1 / (Fraction(found.scale) * cases))
    total = cost * runs
    return _frozen(
        cases, looks, beta, alpha, method=method, theorem=theorem, cap=total, cost=0, epsilon=total * float(UNIT), delta=0.0
    )


def widen_for_rounding(alpha: float, cases: int) -> float:
    """Return a half-width with what rounding may add: of values and of noise, of up to three draws and the bar of a look."""
    return alpha + grid(cases, bits=BITS) + 3 * 2.0**-BITS / cases


def _frozen(  # noqa: PLR0913 - what differs between the modes
    cases: int,
    looks: int,
    beta: float,
    alpha: float,
    *,
    method: str,
    theorem: str,
    cap: int,
    cost: int,
    epsilon: float,
    delta: float,
) -> Plan:
    return Plan(
        rows=cases,
        queries=looks,
        alpha=widen_for_rounding(alpha, cases),
        beta=beta,
        epsilon=math.nextafter(epsilon, math.inf) if epsilon else 0.0,
        delta=delta,
        limited=False,
        sigma=0.0,
        event=None,
        ledger=None if delta else "pure",
        cost=cost,
        cap_units=cap,
        reserve=0.0,
        uses=1,
        rule="validity",
        iid=True,
        bits=BITS,
        method=method,
        theorem=theorem,
        transfer=None,
        alpha_otherwise=None,
    )


def facts_and_plan(
    cases: Cases, terms: HoldoutTerms, *, ledger: str | None, was_told: Callable[[Cases, str | None], bool]
) -> tuple[Facts, Plan]:
    """Return what a ledger that exists was created with, after checking it agrees; else make it from the terms.

    ``was_told`` says of a new gate whether anything was told of its cases before.
    """
    stored = stored_facts(ledger)
    if stored is not None:
        facts, frozen = stored
        if frozen.rows != cases.units:
            units = "clusters" if facts.clusters else "cases"
            message = f"these are {cases.units:,} {units}; the holdout has {frozen.rows:,}; every look is at all of them"
            raise FingerprintMismatch(message)
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
        common["told_before"] = was_told(cases, ledger) or UNSET
        return _plan_gate(cases, common, terms, yes=terms.yes)
    if terms.overfits is not None:
        return _plan_reusable(cases, common, terms, overfits=terms.overfits)
    if terms.private is False:
        return _plan_rounding(cases, common)
    privacy = {"epsilon": terms.epsilon, "delta": terms.delta}
    plan = scoring_plan(cases.units, looks=number, beta=common["beta"], reserve=terms.reserve, **privacy)
    if cases.sizes is not None:
        common["clusters"] = cases.units
    limits: dict[str, Any] = {
        name: None if value is None else round_down(positive(name, value)) for name, value in privacy.items()
    }
    return Facts("scores", private=True, **limits, **common), plan


def _said_again(terms: HoldoutTerms) -> dict[str, object]:
    """Return what is said of a ledger that exists, rounded as the ledger has it."""
    floats = {"beta": terms.beta, "epsilon": terms.epsilon, "delta": terms.delta}
    given = {name: None if value is None else round_down(positive(name, value)) for name, value in floats.items()}
    named = {name: getattr(terms, name) for name in ("looks", "yes", "overfits", "private", "unseen", "metric", "tells")}
    named["bet"] = _read_bet(terms)
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
        text_among("metric", terms.metric, ("accuracy", "cases", "hits"))
    _check_gate(terms)
    if cases.sizes is not None and not scores and yes is None:
        raise InvalidParameter.saying(
            "cluster", "leave out cluster: a reusable holdout counts case by case; scores and gates take clusters"
        )
    if (not scores or private is False) and cases.weights is not None:
        raise InvalidParameter.saying("weights", "weights are for full private scores only")
    if terms.epsilon is not None and (private is False or (yes is not None and not private)):
        raise InvalidParameter("epsilon", terms.epsilon, "left out: this mode keeps no privacy")


def _check_gate(terms: HoldoutTerms) -> None:
    """Refuse what only a gate that is not private has, and bounds and bets that none has."""
    for name in ("tells", "gain", "discordant"):
        if getattr(terms, name) is not None and terms.yes is None:
            raise InvalidParameter.saying(name, f"{name} is for a gate (yes=)")
    if terms.tells is not None and terms.private:
        raise InvalidParameter.saying("tells", "tells is for a gate that is not private (yes=)")
    if terms.tells is not None:
        text_among("tells", terms.tells, (AT_THE_END, AT_ONCE))
    _read_bet(terms)


def _read_bet(terms: HoldoutTerms) -> float | None:
    """Return the bet that suits a planned gain where so many cases differ: their ratio, at most .98 (V1.2)."""
    if terms.gain is None and terms.discordant is None:
        return None
    if terms.gain is None or terms.discordant is None:
        raise InvalidParameter.saying("gain", "gain and discordant are given together: the gain that the gate plans for")
    ratio = probability("gain", terms.gain, one=True) / probability("discordant", terms.discordant, one=True)
    if ratio > 1:
        raise InvalidParameter("gain", terms.gain, "at most discordant, the share of cases that differ")
    return round_down(min(ratio, _LARGEST_BET))


def _plan_rounding(cases: Cases, common: dict[str, Any]) -> tuple[Facts, Plan]:
    looks, beta, number = common["looks"], common["beta"], cases.units
    if cases.sizes is not None:
        common["clusters"] = number
    cells = rounding_cells(number, looks=looks, beta=beta / 2)
    alpha = rounding_width(cells, cases=number, looks=looks, beta=beta / 2)
    plan = counting_plan(number, looks=looks, beta=beta, alpha=alpha, method="rounding", theorem=_ROUNDED)
    return Facts("rounding", private=False, cells=cells, by_place=True, **common), plan


def _plan_gate(cases: Cases, common: dict[str, Any], terms: HoldoutTerms, *, yes: int) -> tuple[Facts, Plan]:
    metric = terms.metric or "accuracy"
    looks, beta = common["looks"], common["beta"]
    if not terms.private:
        alpha = depth_alpha(cases.units, looks=looks, yes=yes, beta=beta, tells=terms.tells)
        plan = counting_plan(cases.units, looks=looks, beta=beta, alpha=alpha, method="gate", theorem=_GATE)
        told = {"tells": terms.tells or UNSET, "bet": _read_bet(terms) or UNSET}
        common |= told | _pairs_of(cases, metric, common)
        facts = Facts("gate", private=False, yes=yes, metric=metric, rule="depth", **common)
        return facts, plan
    return _plan_private_gate(cases, common, terms, yes=yes, metric=metric)


def _plan_private_gate(
    cases: Cases, common: dict[str, Any], terms: HoldoutTerms, *, yes: int, metric: str
) -> tuple[Facts, Plan]:
    """Return the facts and the plan of a private gate by depth: (1, 1e-6)-DP unless an epsilon is given (V1.4)."""
    looks, beta, number = common["looks"], common["beta"], cases.units
    epsilon, delta = private_gate_limits(terms.epsilon, terms.delta)
    levels, share = split_noise_share(beta)
    noise = plan_gate_noise(looks, yes=count("yes", yes, most=looks), beta=share, epsilon=epsilon, delta=delta)
    alpha = depth_alpha(number, looks=looks, yes=yes, beta=levels) + noise.extra / number
    if alpha >= 1:
        message = (
            f"{number:,} cases are too few for a private gate at epsilon {epsilon:g}: noise alone may be as large as "
            f"{noise.extra:,} cases; give a larger epsilon, fewer looks or yes, or more cases"
        )
        raise InsufficientSamples(message, required=None)
    normal = noise.rule == "gaussian"
    plan = _frozen(
        number,
        looks,
        beta,
        alpha,
        method="private gate",
        theorem=_PRIVATE_GATE,
        cap=noise.cost * (looks if normal else yes),
        cost=noise.cost if normal else 0,
        epsilon=epsilon,
        delta=(delta or 0.0) if normal else 0.0,
    )
    plan = replace(plan, ledger="gdp" if normal else "pure")
    common |= {"noise": noise.rule, "extra": noise.extra, "beta_levels": levels, "bet": _read_bet(terms) or UNSET}
    common |= {"epsilon": epsilon, "delta": delta} | _pairs_of(cases, metric, common)
    return Facts("private gate", private=True, yes=yes, metric=metric, rule="depth", **common), plan


def _pairs_of(cases: Cases, metric: str, common: Mapping[str, Any]) -> dict[str, Any]:
    """Return how 0/1 scores are compared, and how many clusters there are, as far as it is said when a gate is opened."""
    if cases.sizes is not None:
        return {"clusters": cases.units}
    if common["unseen"] and metric != "cases":
        return {"pairs": "unseen"}
    return {"pairs": "public"} if metric == "accuracy" and cases.labels is not None and len(cases.labels) == 2 else {}  # noqa: PLR2004 - two labels


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
    found = sparse_numbers(number, looks=looks, runs=wrong, beta=beta, epsilon=terms.epsilon, one_sided=True)
    level = (
        quiet_threshold(number, looks=looks, scale=found.scale)
        if terms.threshold is None
        else round_up(positive("threshold", terms.threshold))
    )
    plan = sparse_plan(
        number, found, looks=looks, runs=wrong, beta=beta, method="thresholdout", theorem=_SPARSE, level=level
    )
    common |= {"scale": found.scale, "alpha_released": widen_for_rounding(found.alpha_released, number)}
    common |= {"noise": ONE_SIDED}
    return Facts("thresholdout", private=True, overfits=wrong, threshold=level, **common), plan
