"""Audits of privacy: a lower bound on the epsilon of a mechanism, from its outputs on two neighbours (P6, A4, E3)."""

import math

from holdtrue.accounting.divergences import Probabilities, approximate_max_divergence
from holdtrue.auditing.findings import Finding
from holdtrue.auditing.limits import Pooled, Rule, Separate, least_runs
from holdtrue.auditing.neighbours import check_neighbours
from holdtrue.auditing.outputs import Run, width_of
from holdtrue.auditing.searching import Parts, Trial, counted, found
from holdtrue.entropy import SYSTEM, Bits
from holdtrue.errors import InsufficientSamples, InvalidParameter
from holdtrue.exact import Number, count, nonnegative, probability

__all__ = ["audit_law", "audit_privacy", "enough_samples", "group_claim"]

_LEAST_SEARCHED = 40


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
    search: Number = 0.5,
    bits: Bits = SYSTEM,
) -> Finding:
    """Look for an event that a mechanism's claim of (epsilon, delta)-DP forbids.

    Law: the finding's lower bound is above the smallest epsilon that is true of this pair at this delta, in either order,
    with probability at most 1 - confidence. The event is searched for on a share ``search`` of the samples and counted on
    the others, which are drawn only once it is fixed. Needs: ``run(data, count)`` returns so many outputs, each from the
    same law and independent of the others and of earlier calls: numbers, vectors, labels, strings or tuples. ``left`` and
    ``right`` are neighbours, which is checked where they are tables; with ``rows=k`` they differ in up to k rows, and the
    claim is that of a group, (k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1)) (E3). Fails: with
    :class:`~holdtrue.errors.InsufficientSamples` where not even outputs that always differ could prove a violation.

    >>> import holdtrue as ht
    >>> from holdtrue.auditing import audit_privacy
    >>> half = ht.Laplace(epsilon=2)  # sold as epsilon = 1
    >>> audit_privacy(lambda x, n: half.release([x] * n), 0, 1, epsilon=1, samples=20_000).violated
    True
    """
    sure = float(probability("confidence", confidence))
    claimed, slack = group_claim(epsilon, delta, rows=rows)
    check_neighbours(left, right, rows=rows)
    parts = Parts.of(count("samples", samples), float(probability("search", search)), width=width_of(run, left))

    def rules(alpha: float) -> list[Rule]:
        return [Separate(slack, alpha), Pooled(slack, alpha)]

    enough_samples(parts, rules(1 - sure), claimed=claimed, samples=samples, share=float(search))
    trial = Trial(run, left, right, parts, rules, 1 - sure)
    bound, event = counted(found(trial), trial, bits=bits)
    return Finding("epsilon", claimed, bound, sure, samples, event, _sentence(claimed, bound, slack, sure=sure), delta=slack)


def group_claim(epsilon: Number, delta: Number, *, rows: int) -> tuple[float, float]:
    """Return what (epsilon, delta)-DP claims of data that differ in so many rows (E3)."""
    single, slack = float(nonnegative("epsilon", epsilon)), float(probability("delta", delta, zero=True))
    number = count("rows", rows)
    if number == 1 or slack == 0:
        return number * single, slack
    factor = float(number) if single == 0 else math.expm1(number * single) / math.expm1(single)
    if slack * factor >= 1:
        raise InvalidParameter("rows", rows, f"fewer: delta of such a group is {slack * factor:.3g}, which claims nothing")
    return number * single, slack * factor


def enough_samples(parts: Parts, rules: "list[Rule]", *, claimed: float, samples: int, share: float) -> None:
    """Refuse samples from which no violation could be proved with the confidence asked for."""
    needed = [least_runs(rule, claimed) for rule in rules]
    least = min((runs for runs in needed if runs is not None), default=None)
    if least is None:
        message = f"no number of samples proves more than the claimed {claimed:g} with this confidence"
        raise InsufficientSamples(message, required=None)
    # The pooled rule leaves a few runs unused, and the search wants some outputs to look at.
    required = math.ceil(max((least + 5 * math.sqrt(least) + 30) / (1 - share), _LEAST_SEARCHED / share))
    if samples < required and (parts.counting < least + 5 * math.sqrt(least) or parts.learning < _LEAST_SEARCHED // 2):
        message = (
            f"{samples:,} samples on each side cannot show a violation of {claimed:g} with this confidence: "
            f"{required:,} could"
        )
        raise InsufficientSamples(message, required=required)


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
