"""SELECT: the best of several candidates, by how many rows satisfy each or by scores of one's own (B2, B3, B5, N5)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from numbers import Integral, Rational
from typing import NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import UNSET, UnsetType

from holdtrue.accounting.filters import Filter
from holdtrue.bounds.learning import adaptive_excess, fixed_excess
from holdtrue.bounds.prediction import epsilon_each
from holdtrue.bounds.selection import UTILITY, selection_shortfall
from holdtrue.codec import digest_of
from holdtrue.errors import InvalidParameter, RefusedError
from holdtrue.events import Composed
from holdtrue.exact import UNIT, Integers, Number, count, integer, integers, nonnegative, positive, rational, read_list
from holdtrue.mechanisms import Exponential, PermuteAndFlip
from holdtrue.planning.plans import AnyPlan
from holdtrue.queries.syntax_tree import Query
from holdtrue.records import Certificate, Choice, Response
from holdtrue.verbs import Curation, Job, Measured, Release, Standing, plan_single
from holdtrue.verbs.asking import refuse_own_units

__all__ = ["Scores", "SelectionTerms", "choose", "choose_mu", "choose_on_line", "epsilon_of_use", "select"]

Scores: TypeAlias = Sequence[int] | Sequence[Fraction] | Integers
"""Whole or rational scores, one for each candidate."""

_CANDIDATES = "queries or whole scores by name, or a list of queries"
_SCORES = "whole numbers or fractions, by name or as a list or array"
_LINE = "two numbers, the low and the high end of a line"
_MOST_TOP = 1000
POINTS = 1 << 20
"""How many points a line has."""
_MOST_WRITTEN = 1000
_CHOSEN = "private selection among queries that earlier answers may have led to (S2)"
_CHOSEN_FIRST = "private selection among queries fixed before any answer (N3)"


def epsilon_of_use(plan: AnyPlan, *, picks: int = 1) -> Fraction:
    """Return the epsilon of each of this many picks, all of which an equal share of the plan's reserve pays for.

    Failure: RefusedError where nothing was reserved.
    """
    if plan.use_units < 1:
        message = "this plan has no reserve for verbs other than ask; plan with, for example, reserve=0.25"
        raise RefusedError(message)
    total = plan.use_units * UNIT
    if plan.second is not None and (picks == 1 or plan.second.currency == "draws"):
        return plan.second.epsilon / plan.group
    match plan.reserve_currency:
        case "mu":
            return Fraction(epsilon_each(picks, mu=math.sqrt(total) / plan.group * (1 - 2.0**-50)))
        case "rho":
            return Fraction(epsilon_each(picks, rho=total / plan.group**2))
        case _:
            return total / (picks * plan.group)


def choose_mu(plan: AnyPlan, mu: Number | None) -> Fraction:
    """Return a mu, or what an equal share of the plan's reserve pays for; RefusedError where nothing was reserved."""
    if mu is not None:
        return positive("mu", mu)
    epsilon_of_use(plan)
    if plan.reserve_currency == "draws":
        raise InvalidParameter.saying("mu", "the reserve of this ledger counts draws, and normal noise is none of them")
    total = float(plan.use_units * UNIT)
    return Fraction(math.sqrt(total if plan.reserve_currency == "mu" else 2 * total) / plan.group * (1 - 2.0**-50))


@dataclass(frozen=True, slots=True, eq=False)
class SelectionTerms:
    """What is public about one choice, fixed before the charge.

    ``sensitivity`` is the most that one row moves a score, ``weights`` the base measure, equal unless given; ``top`` how
    many are chosen, one after the other, with ``epsilon`` for each. Candidates of weight 0 are none.
    """

    size: int
    plan: AnyPlan
    epsilon: Fraction
    sensitivity: Fraction = Fraction(1)
    weights: tuple[Fraction, ...] | None = None
    top: int = 1

    def make_mechanism(self, unit: int = 1) -> Exponential | PermuteAndFlip:
        """Return the mechanism for scores in 1/unit: permute-and-flip on a pure ledger, where it costs no more (B3).

        The exponential mechanism elsewhere, and where candidates have weights.
        """
        if self.plan.ledger == "pure" and self.weights is None:
            return PermuteAndFlip(epsilon=self.epsilon, sensitivity=self.sensitivity * unit)
        return Exponential(epsilon=self.epsilon, sensitivity=self.sensitivity * unit, weights=self.weights)

    @property
    def method(self) -> str:
        """Return the mechanism in words; a pick after the first is among those that are left."""
        one = "permute-and-flip" if self.plan.ledger == "pure" and self.weights is None else "exponential mechanism"
        return one if self.top == 1 else f"{one}, {self.top:,} times without replacement"

    @property
    def odds(self) -> int:
        """Return how many candidates of the least weight weigh as much as all: their number, where weights are equal."""
        return self.size if self.weights is None else math.ceil(sum(self.weights) / min(filter(None, self.weights)))

    def bound_shortfall(self) -> float:
        """Return by how much each pick's score may be below the best, the next best, and so on, all at once (B5).

        Those left before the i-th pick have among them one of the i best.
        """
        if self.size == 1:
            return 0.0
        beta, spread = Fraction(self.plan.beta) / self.top, 2 * self.sensitivity
        return selection_shortfall(self.odds, epsilon=self.epsilon, beta=beta, range=spread)

    def bound_excess(self, standing: Standing, *, boolean: bool) -> tuple[float, str]:
        """Return how far the picks' population means may be below the best, the next best, and so on, and the theorem (S2).

        Needs: candidates that are queries, independent rows. With weights N is the sum of the others' weights over the best
        one's. Numbers are counted on a grid, booleans exactly.
        """
        plan, beta = self.plan, self.plan.beta / self.top
        gap, share = plan.joint_gap(beta, spent=standing.spent)
        booked = epsilon_of_use(plan) if plan.use_units > 0 else Fraction(plan.epsilon or 1) / plan.uses
        seen = math.log(self.odds - 1) if self.odds > 1 else -math.inf
        given = {"rows": plan.rows, "epsilon": self.epsilon}
        found = [(adaptive_excess(seen, **given, beta=share, gap=gap, booked=booked), _CHOSEN)]  # type: ignore[arg-type]
        if standing.charges == 0 and self.top == 1 and self.weights is None:
            first = fixed_excess([self.size], handicaps=[0], place=0, **given, beta=beta)  # type: ignore[arg-type]
            found.append((first, _CHOSEN_FIRST))
        alpha, theorem = min(found)
        return min(1.0, alpha + (0.0 if boolean or self.size == 1 else 2.0 ** (1 - plan.bits))), theorem

    def write_request(self, names: Sequence[str] | None) -> dict[str, object]:
        """Return what the ledger keeps of these terms; what is left at its default is not in it."""
        request: dict[str, object] = {"epsilon": str(self.epsilon)}
        request |= {"candidates": self.size} if names is None else {"names": list(names)}
        if self.sensitivity != 1:
            request["sensitivity"] = str(self.sensitivity)
        if self.weights is not None:
            written = [str(weight) for weight in self.weights]
            request["weights"] = written if len(written) <= _MOST_WRITTEN else digest_of(written)
        if self.top > 1:
            request["top"] = self.top
        return request


def choose(  # noqa: PLR0913 - one request, and who makes it
    curation: Curation,
    candidates: Mapping[str, str] | Mapping[str, int] | Sequence[str] | None,
    *,
    scores: Mapping[str, Number] | Scores | None = None,
    sensitivity: Number | None = None,
    weights: Sequence[Number] | Mapping[str, Number] | None = None,
    top: int = 1,
    epsilon: Number | None,
    known_as: str,
    key: str | None,
    analyst: str | None,
) -> Choice:
    """Return the best candidate, or the ``top`` best; ``known_as`` is the public name of scores, which are private.

    Failure: InvalidParameter for candidates that are neither queries nor whole scores, for scores that are not whole or
    fractions, for weights that are not one for each candidate and above 0, for a sensitivity that whole scores or queries
    cannot have, and for a name of queries, which are known by their text.
    """
    names, values = _read_scores(scores) if scores is not None else _read_candidates(candidates, curation)
    if candidates is not None and scores is not None:
        raise InvalidParameter.saying("scores", "give candidates or scores, not both")
    queries = len(values) > 0 and isinstance(values[0], Query)
    if queries and known_as.startswith("named "):
        raise InvalidParameter.saying("name", "leave out name: queries are known by their text")
    release = select(
        values if names is None else dict(zip(names, values, strict=True)),  # type: ignore[arg-type]  # of one kind
        plan=curation.plan,
        limit=curation.limit,
        epsilon=epsilon,
        scored="" if queries else known_as,
        sensitivity=sensitivity,
        weights=weights,
        top=top,
    )
    (found,) = curation.run(Job(partial(plan_single, release), key, analyst))
    return found  # type: ignore[return-value]  # the response to a selection


def choose_on_line(  # noqa: PLR0913 - one request, and who makes it
    curation: Curation,
    line: Sequence[Number],
    *,
    cuts: Sequence[Number] | npt.NDArray[np.generic],
    scores: Scores,
    sensitivity: Number | None,
    epsilon: Number | None,
    known_as: str,
    key: str | None,
    analyst: str | None,
) -> Choice:
    """Return a point between two public ends, by scores that are constant between cuts (U3.3).

    The line is a grid of 2^20 points, each as likely as the others before scores count. Cuts and scores are private: a cut
    outside the line is at its end, one below an earlier one is where that is, so that no value of theirs is refused. The
    shortfall is that of as many candidates as there are points (B5).
    """
    low, high = _read_line(line)
    names, values = _read_scores(scores)
    ends = _find_runs(cuts, low, high)
    if names is not None or len(values) != len(ends) - 1:
        raise InvalidParameter.saying("scores", "scores on a line are a list with one more number than there are cuts")
    plan = curation.plan
    each = epsilon_of_use(plan) if epsilon is None else positive("epsilon", epsilon)
    terms = SelectionTerms(POINTS, plan, each, _check_sensitivity(sensitivity, values))
    mechanism = Exponential(epsilon=each, sensitivity=terms.sensitivity)
    request = terms.write_request(None) | {"line": [str(low), str(high)], "scores": known_as}

    def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
        del standing
        point = float(low + (high - low) * drawn[0] / POINTS)
        method = f"exponential mechanism on a line of {POINTS:,} points"
        spread = float(2 * terms.sensitivity / each)
        proof = certificate.with_theorem(UTILITY)
        return [Choice(f"{point:.12g}", int(drawn[0]), terms.bound_shortfall(), proof, method=method, scale=spread)]

    parts, event = (f"select {digest_of(request)}",), mechanism.event
    draw = lambda _: [mechanism.release_on_line(values, ends)]  # noqa: E731 - one line
    release = Release("select", request, parts, event, curation.limit.cost(event), 0, (), draw, respond)
    (found,) = curation.run(Job(partial(plan_single, release), key, analyst))
    return found  # type: ignore[return-value]  # the response to a selection


def _read_line(line: Sequence[Number]) -> tuple[Fraction, Fraction]:
    given = read_list("line", line, expected=_LINE)
    ends = [rational("line", end) for end in given]
    if len(ends) != 2 or ends[0] >= ends[1]:  # noqa: PLR2004 - a low and a high end
        raise InvalidParameter.without_value("line", _LINE)
    return ends[0], ends[1]


def _find_runs(cuts: Sequence[Number] | npt.NDArray[np.generic], low: Fraction, high: Fraction) -> npt.NDArray[np.int64]:
    """Return the ends of runs on the grid: the first point at or after each cut. Types decide, never values."""
    try:
        given = np.asarray(cuts, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        given = np.zeros((0, 0))
    if given.ndim != 1:
        raise InvalidParameter.without_value("cuts", "a list of numbers, where the score changes")
    with np.errstate(all="ignore"):
        places = np.ceil((given - float(low)) / float(high - low) * POINTS)
    inside = np.clip(np.nan_to_num(places, nan=0.0, posinf=POINTS, neginf=0.0), 0, POINTS).astype(np.int64)
    return np.concatenate([[0], np.maximum.accumulate(inside), [POINTS]])


def select(  # noqa: PLR0913 - the numbers of one choice
    candidates: Mapping[str, Query | int | Fraction] | Scores,
    *,
    plan: AnyPlan,
    limit: Filter,
    epsilon: Number | None,
    scored: str = "",
    sensitivity: Number | None = None,
    weights: Sequence[Number] | Mapping[str, Number] | None = None,
    top: int = 1,
) -> Release:
    """Return the release of one choice, or of the ``top`` best, among queries, scored by their sums, or among given scores.

    ``scored`` is a public name of the scores where they were given as numbers: the ledger never has the numbers themselves,
    nor anything that depends on them. An epsilon is that of all picks together.
    The exponential mechanism on a GDP or zCDP ledger, permute-and-flip on a pure one, which is where it costs less (B3).
    Several are chosen one after the other among those left; for the exponential mechanism that is the law of the largest
    Gumbel scores, and either way each costs one event.
    """
    names = [str(name) for name in candidates] if isinstance(candidates, Mapping) else None
    values = list(candidates.values()) if isinstance(candidates, Mapping) else candidates
    queries = tuple(value for value in values if isinstance(value, Query)) if names is not None else ()
    if queries and len(queries) != len(values):
        raise InvalidParameter.saying("candidates", "candidates must be all queries or all whole scores")
    measure = _read_weights(weights, names, len(values))
    picks = _check_top(top, len(values) if measure is None else sum(map(bool, measure)))
    each = epsilon_of_use(plan, picks=picks) if epsilon is None else positive("epsilon", epsilon) / picks
    terms = SelectionTerms(len(values), plan, each, _check_sensitivity(sensitivity, values), measure, picks)
    mechanism = terms.make_mechanism(1 << plan.bits if queries else 1)
    event = mechanism.event if picks == 1 else Composed((mechanism.event,) * picks)
    request = terms.write_request(names)
    request |= {"queries": [query.text for query in queries]} if queries else {"scores": scored}

    def draw(sums: Measured) -> Sequence[int]:
        return mechanism.release_top(list(sums) if queries else values, picks)

    def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
        chosen = tuple(str(place) if names is None else names[place] for place in drawn)
        excess: float | UnsetType = UNSET
        theorem = UTILITY
        if queries and plan.iid:
            excess, theorem = terms.bound_excess(standing, boolean=all(query.boolean for query in queries))
        return [
            Choice(
                chosen[0],
                int(drawn[0]),
                terms.bound_shortfall(),
                certificate.with_theorem(theorem),
                method=terms.method,
                scale=float(2 * terms.sensitivity / each),
                names=chosen if picks > 1 else UNSET,
                indices=tuple(map(int, drawn)) if picks > 1 else UNSET,
                population_shortfall=excess,
            )
        ]

    return Release(
        verb="select",
        request=request,
        parts=(f"select {digest_of(request)}",),
        event=event,
        cost=limit.cost(event),
        draws=0,
        queries=queries,
        draw=draw,
        respond=respond,
    )


def _read_candidates(candidates: object, curation: Curation) -> tuple[list[str], list[Query | int]]:
    """Return the names of candidates, and each as a query or a whole score."""
    listing = candidates if isinstance(candidates, Mapping) else read_list("candidates", candidates, expected=_CANDIDATES)
    named = dict(listing) if isinstance(listing, Mapping) else {str(text): text for text in listing}
    read = [curation.parse(each) if isinstance(each, str) else integer("candidates", each) for each in named.values()]
    for each in read:
        if isinstance(each, Query):
            refuse_own_units(each, curation.card)
    return [str(label) for label in named], read


def _read_scores(scores: object) -> tuple[list[str] | None, Scores]:
    """Return the names of scores, None where their places name them, and the scores. Types decide, never values."""
    if isinstance(scores, np.ndarray) and scores.dtype != object:
        return None, integers("scores", scores) if scores.ndim == 1 else _refuse_scores()
    named = isinstance(scores, Mapping)
    values = list(scores.values()) if isinstance(scores, Mapping) else read_list("scores", scores, expected=_SCORES)
    if not all(isinstance(each, Rational) and not isinstance(each, bool) for each in values):
        _refuse_scores()
    return [str(label) for label in scores] if named else None, values  # type: ignore[attr-defined]


def _check_top(top: object, size: int) -> int:
    if size == 0:
        raise InvalidParameter.saying("candidates", "give at least one candidate")
    picks = count("top", top)
    if picks > min(size, _MOST_TOP):
        raise InvalidParameter("top", picks, f"at most the number of candidates, and {_MOST_TOP:,}")
    return picks


def _refuse_scores() -> NoReturn:
    raise InvalidParameter.without_value("scores", _SCORES)


def _check_sensitivity(sensitivity: Number | None, values: Sequence[object] | npt.NDArray[np.generic]) -> Fraction:
    """Return the sensitivity, 1 unless given; refuse one that the kind of the scores refutes, whatever the rows are."""
    width = Fraction(1) if sensitivity is None else positive("sensitivity", sensitivity)
    if sensitivity is not None and isinstance(values[0], Query):
        raise InvalidParameter.saying("sensitivity", "leave out sensitivity: one row moves the sum of a query by 1 at most")
    if width < 1 and (isinstance(values, np.ndarray) or all(isinstance(each, Integral) for each in values)):
        raise InvalidParameter("sensitivity", float(width), "1 or above: whole scores move by 1 or not at all")
    return width


def _read_weights(
    weights: Sequence[Number] | Mapping[str, Number] | None, names: list[str] | None, size: int
) -> tuple[Fraction, ...] | None:
    """Return the base measure, a number for each candidate, by name where they have names; those of 0 are never chosen."""
    if weights is None:
        return None
    if isinstance(weights, Mapping):
        if names is None or set(map(str, weights)) != set(names):
            raise InvalidParameter.saying("weights", "weights must have one number for each candidate, by its name")
        by_name = {str(name): weight for name, weight in weights.items()}
        given: Sequence[object] = [by_name[name] for name in names]
    else:
        given = read_list("weights", weights, expected="numbers of 0 or above, one for each candidate")
    if len(given) != size:
        raise InvalidParameter.saying("weights", f"weights has {len(given):,} numbers; expected {size:,}, one per candidate")
    found = tuple(nonnegative("weights", weight) for weight in given)
    if not any(found):
        raise InvalidParameter.saying("weights", "weights add up to 0; give a candidate a weight above 0")
    return found
