"""Choosing one of a million and of ten million candidates, against OpenDP's noisy max."""

import numpy as np

import holdtrue as ht
from benchmarks.peers import best_time, show

__all__ = ["run"]

_PROMISED = 10**7


def run() -> None:
    """Print milliseconds a choice, and the ratio that the project promises."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    # Gumbel noise of scale 2 is the exponential mechanism at epsilon 1 on scores of sensitivity 1.
    gumbel = space >> dp.m.then_noisy_max(dp.zero_concentrated_divergence(), scale=2.0)
    flipping = space >> dp.m.then_noisy_max(dp.max_divergence(), scale=2.0)
    rows = []
    for candidates in (10**6, _PROMISED):
        scores = np.arange(candidates, dtype=np.int64) * 7919 % 1009
        for name, mine, theirs, goal in (
            ("exponential", ht.Exponential(epsilon=1.0), gumbel, 25),
            ("permute-and-flip", ht.PermuteAndFlip(epsilon=1.0), flipping, 15),
        ):
            ours = best_time(lambda mine=mine, scores=scores: mine.release(scores), repeat=5)  # type: ignore[misc]
            # An array: OpenDP takes ten times as long for a list.
            peer = best_time(lambda theirs=theirs, scores=scores: theirs(scores), repeat=2)  # type: ignore[misc]
            promised = f"{peer / ours:.0f}" + (f" (>= {goal})" if candidates == _PROMISED else "")
            rows.append([f"{name}, {candidates:,}", f"{ours * 1e3:,.1f}", f"{peer * 1e3:,.0f}", promised])
    show("milliseconds a choice", ["what", "holdtrue", "opendp", "opendp / holdtrue"], rows)
