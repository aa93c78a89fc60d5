"""Choosing one of a million and of ten million candidates, against OpenDP's noisy max."""

import numpy as np

import holdtrue as ht
from benchmarks.peers import best_time, show

__all__ = ["run"]


def run() -> None:
    """Print milliseconds a choice, and the ratio that the project promises."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
    # Gumbel noise of scale 2 is the exponential mechanism at epsilon 1 on scores of sensitivity 1.
    gumbel = space >> dp.m.then_noisy_max(dp.zero_concentrated_divergence(), scale=2.0)
    flipping = space >> dp.m.then_noisy_max(dp.max_divergence(), scale=2.0)
    rows = []
    for candidates in (10**6, 10**7):
        scores = np.arange(candidates, dtype=np.int64) * 7919 % 1009
        shorter = scores[: candidates // 10].tolist()
        for name, mine, theirs in (
            ("exponential", ht.Exponential(epsilon=1.0), gumbel),
            ("permute-and-flip", ht.PermuteAndFlip(epsilon=1.0), flipping),
        ):
            ours = best_time(lambda mine=mine, scores=scores: mine.release(scores), repeat=3)  # type: ignore[misc]
            # A tenth of the candidates, times ten: OpenDP's time is linear in them.
            peer = 10 * best_time(lambda theirs=theirs, shorter=shorter: theirs(shorter), repeat=1)  # type: ignore[misc]
            rows.append(
                [f"{name}, {candidates:,}", f"{ours * 1e3:,.1f}", f"{peer * 1e3:,.0f}", f"{peer / ours:.0f} (>= 50)"]
            )
    show("milliseconds a choice", ["what", "holdtrue", "opendp", "opendp / holdtrue"], rows)
