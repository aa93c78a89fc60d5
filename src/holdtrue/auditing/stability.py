"""Audits of stability: a lower bound on the total variation between a mechanism's outputs on two neighbours (A1)."""

from holdtrue.auditing.counting import proved
from holdtrue.auditing.findings import Finding
from holdtrue.auditing.limits import Distance
from holdtrue.auditing.neighbours import check_neighbours
from holdtrue.auditing.outputs import MOST_SAMPLES, Run, width_of
from holdtrue.auditing.privacy import enough_samples
from holdtrue.auditing.searching import Parts, Trial
from holdtrue.entropy import SYSTEM, Bits
from holdtrue.exact import Number, count, probability

__all__ = ["audit_stability"]


def audit_stability(  # noqa: PLR0913 - what is claimed, and how hard to try
    run: Run,
    left: object,
    right: object,
    *,
    tv: Number,
    samples: int = 10**6,
    confidence: Number = 0.95,
    rows: int = 1,
    search: Number = 0.4,
    bits: Bits = SYSTEM,
) -> Finding:
    """Look for an event whose probability moves by more than ``tv`` between two neighbours.

    Law: the lower bound is above the true total variation of this pair with probability at most 1 - confidence. Needs and
    fails as :func:`~holdtrue.auditing.audit_privacy`; with ``rows=k`` the claim is k tv, by the triangle inequality.
    """
    sure = float(probability("confidence", confidence))
    claimed = min(1.0, count("rows", rows) * float(probability("tv", tv, zero=True, one=True)))
    check_neighbours(left, right, rows=rows)
    share, width = float(probability("search", search)), width_of(run, left)
    rules = [Distance(1 - sure)]
    count("samples", samples, most=MOST_SAMPLES)
    if claimed < 1:
        enough_samples(samples, rules, claimed=claimed, share=share, alpha=1 - sure)
    trial = Trial(run, left, right, Parts.of(samples, share, width=width), rules, 1 - sure)
    bound, event = proved(trial, bits=bits)
    said = f"With confidence {sure:.4g}, the total variation is at least {bound:.4g}"
    sentence = (
        f"{said}: more than the {claimed:.4g} claimed. The claim is wrong."
        if bound > claimed
        else f"{said}; {claimed:.4g} is claimed. Nothing here contradicts the claim."
    )
    return Finding("total variation", claimed, bound, sure, samples, event, sentence)
