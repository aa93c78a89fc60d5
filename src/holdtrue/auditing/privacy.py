"""Audits of privacy: a lower bound on the epsilon of a mechanism, from its outputs on two neighbours (P6, A4, E3)."""

import math
from collections.abc import Sequence

from holdtrue.accounting.divergences import Probabilities, approximate_max_divergence
from holdtrue.auditing.counting import provable, proved
from holdtrue.auditing.findings import Finding
from holdtrue.auditing.limits import Pooled, Rule, Separate
from holdtrue.auditing.neighbours import check_neighbours
from holdtrue.auditing.outputs import MOST_SAMPLES, Run, width_of
from holdtrue.auditing.searching import Parts, Trial
from holdtrue.entropy import SYSTEM, Bits
from holdtrue.errors import InsufficientSamples, InvalidParameter
from holdtrue.exact import Number, count, nonnegative, probability

__all__ = ["audit_law", "audit_privacy", "enough_samples", "group_claim"]

_LEAST_LEARNED = 8
_MOST_SAMPLES = 1 << 50

_LARGEST_EXPONENT = 700.0


def audit_privacy(  # noqa: PLR0913 - what is claimed, and how hard to try
    run: Run,
    left: object,
    right: object,
    *,
    epsilon: Number,
    delta: Number = 0.0,
    samples: int = 10**6,
    confidence: Number = 0.95,
    rows: int = 1,
    search: Number = 0.4,
    bits: Bits = SYSTEM,
) -> Finding:
    """Look for an event that a mechanism's claim of (epsilon, delta)-DP forbids.

    Law: the finding's lower bound is above the smallest epsilon that is true of this pair at this delta, in either order,
    with probability at most 1 - confidence. The event is searched for on a share ``search`` of the samples and counted on
    the others, which are drawn only once it is fixed; after some of these it may give way to one that looks better by
    then, and the counts of both are put together as in an adaptive trial. Needs: ``run(data, count)`` returns so many
    outputs, each from the same law and independent of the others and of earlier calls: numbers, vectors, labels, strings
    or tuples. ``left`` and ``right`` are neighbours, which is checked where they are tables; with ``rows=k`` they differ
    in up to k rows, and the claim is that of a group, (k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1)) (E3). Fails:
    with :class:`~holdtrue.errors.InsufficientSamples` where not even outputs that always differ could prove a violation.

    >>> import holdtrue as ht
    >>> from holdtrue.auditing import audit_privacy
    >>> half = ht.Laplace(epsilon=2)  # sold as epsilon = 1
    >>> audit_privacy(lambda x, n: half.release([x] * n), 0, 1, epsilon=1, samples=20_000).violated
    True
    """
    sure = float(probability("confidence", confidence))
    claimed, slack = group_claim(epsilon, delta, rows=rows)
    check_neighbours(left, right, rows=rows)
    share, width = float(probability("search", search)), width_of(run, left)
    rules: list[Rule] = [Separate(slack, 1 - sure), Pooled(slack, 1 - sure)]
    enough_samples(count("samples", samples, most=MOST_SAMPLES), rules, claimed=claimed, share=share, alpha=1 - sure)
    trial = Trial(run, left, right, Parts.of(samples, share, width=width), rules, 1 - sure)
    bound, event = proved(trial, bits=bits)
    return Finding("epsilon", claimed, bound, sure, samples, event, _sentence(claimed, bound, slack, sure=sure), delta=slack)


def _growth(number: int, single: float) -> float:
    return math.expm1(number * single) / math.expm1(single) if number * single < _LARGEST_EXPONENT else math.inf


def group_claim(epsilon: Number, delta: Number, *, rows: int) -> tuple[float, float]:
    """Return what (epsilon, delta)-DP claims of data that differ in so many rows (E3)."""
    single, slack = float(nonnegative("epsilon", epsilon)), float(probability("delta", delta, zero=True))
    number = count("rows", rows, most=MOST_SAMPLES)
    if number == 1 or slack == 0:
        return number * single, slack
    factor = float(number) if single == 0 else _growth(number, single)
    if slack * factor >= 1:
        raise InvalidParameter("rows", rows, f"fewer: delta of such a group is {slack * factor:.3g}, which claims nothing")
    return number * single, slack * factor


def enough_samples(samples: int, rules: Sequence[Rule], *, claimed: float, share: float, alpha: float) -> None:
    """Refuse samples from which no violation could be proved with the confidence asked for."""

    def enough(number: int) -> bool:
        parts = Parts.of(number, share)
        return parts.learning >= _LEAST_LEARNED and provable(parts, rules, alpha=alpha) > claimed

    if enough(samples):
        return
    low, high = samples, 2 * samples
    while not enough(high):
        low, high = high, 2 * high
        if high > _MOST_SAMPLES:
            message = f"no number of samples proves more than the claimed {claimed:g} with this confidence"
            raise InsufficientSamples(message, required=None)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    message = f"{samples:,} samples on each side cannot show a violation of {claimed:g} with this confidence: {high:,} could"
    raise InsufficientSamples(message, required=high)


def audit_law(left: Probabilities, right: Probabilities, *, epsilon: Number, delta: Number = 0.0, rows: int = 1) -> Finding:
    """Return the exact epsilon at delta of two laws given as probabilities, outcome by outcome, in the worse order (E2).

    The bound is the truth of this pair, not an estimate: its confidence is 1. Needs: laws over the same outcomes.
    """
    claimed, slack = group_claim(epsilon, delta, rows=rows)
    orders = [
        approximate_max_divergence(left, right, delta=slack),
        approximate_max_divergence(right, left, delta=slack),
    ]
    worse = max(orders)
    side = "left" if orders[0] >= orders[1] else "right"
    # Sums of probabilities are rounded: a violation has to be larger than that.
    bound = max(0.0, worse * (1 - 2.0**-40) - 2.0**-40)
    event = f"the outcomes of largest likelihood ratio; likelier on the {side}"
    return Finding("epsilon", claimed, bound, 1.0, 0, event, _sentence(claimed, bound, slack, sure=1.0), delta=slack)


def _sentence(claimed: float, bound: float, delta: float, *, sure: float) -> str:
    at = f" at delta {delta:.3g}" if delta else ""
    said = f"With confidence {sure:.4g}, epsilon{at} is at least {bound:.4g}"
    if bound > claimed:
        return f"{said}: more than the {claimed:.4g} claimed. The claim is wrong."
    return f"{said}; {claimed:.4g} is claimed. Nothing here contradicts the claim."
