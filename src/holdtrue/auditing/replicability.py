"""Replicability: how often two runs on samples of their own agree when they share their coins (V6.5).

A demonstration outside every ledger. A coin that is shared or published is no private coin: whoever knows it reads the rows
off an answer. So nothing here takes a curator, and nothing of it is ever charged or released.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

from holdtrue.auditing.findings import Finding, check_enough
from holdtrue.auditing.search.confidence_bounds import lower_limit
from holdtrue.auditing.search.outputs import MOST_SAMPLES, call_function
from holdtrue.entropy import SYSTEM, Bits
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number, count, positive, probability

__all__ = ["SharedCoins", "audit_replicability"]

_BYTES, _WORD = 8, 2.0**64


class SharedCoins:
    """Public coins for several runs. Every candidate has its own stream, keyed by its index.

    So a run that needs more bits for one candidate leaves those of all others as they are; in one common stream they would
    shift, and two runs of the same law would hardly ever agree.
    """

    def __init__(self, seed: bytes) -> None:
        self._seed = bytes(seed)

    def draw_uniform(self, index: int, place: int = 0) -> float:
        """Return number ``place`` of the stream of a candidate, uniform between 0 and 1."""
        key = f"{count('index', index, least=0)} {count('place', place, least=0)}".encode()
        word = int.from_bytes(hashlib.sha256(self._seed + key).digest()[:_BYTES], "big")
        return (word + 0.5) / _WORD

    def draw_gumbel(self, index: int) -> float:
        """Return the Gumbel noise of a candidate."""
        return -math.log(-math.log(self.draw_uniform(index)))

    def choose(self, scores: Sequence[float], *, epsilon: Number) -> int:
        """Return the candidate with the largest epsilon/2 score + Gumbel noise: the exponential mechanism."""
        rate = float(positive("epsilon", epsilon)) / 2
        return max(range(len(scores)), key=lambda index: rate * scores[index] + self.draw_gumbel(index))


def audit_replicability(  # noqa: PLR0913 - what is run on what, and how hard to try
    mechanism: Callable[[Any, SharedCoins], object],
    draw_sample: Callable[[Bits], Any],
    *,
    claim: Number,
    runs: int = 1000,
    confidence: Number = 0.95,
    bits: Bits = SYSTEM,
) -> Finding:
    """Run a mechanism on pairs of fresh samples with shared coins, and count how often the two outputs differ.

    Law: ``lower_bound`` is above the true rate of differing with probability at most 1 - confidence (Clopper and Pearson).
    ``claim`` is how often outputs agree at least, as :func:`~holdtrue.bounds.selection.least_agreement` has it for two laws;
    over samples it is the mean of that. Needs: ``mechanism(sample, coins)``, which takes all its randomness from ``coins``,
    and ``draw_sample(bits)``. It must not answer from a private ledger, whose coins nobody may share. Fails:
    InvalidParameter for a method of a curator, a ledger or a holdout, InsufficientSamples where no outcome could refute the
    claim.
    """
    given: object = mechanism
    owner = type(getattr(given, "__self__", given)).__module__
    if not callable(given) or owner.startswith(("holdtrue.curator", "holdtrue.ledgers", "holdtrue.holdouts")):
        raise InvalidParameter.saying("mechanism", "give a function of a sample and of shared coins that touches no ledger")
    sampling: object = draw_sample
    if not callable(sampling):
        raise InvalidParameter.saying("draw_sample", "give a function of bits that returns a fresh sample")
    allowed = 1 - float(probability("claim", claim, one=True))
    number, alpha = count("runs", runs, most=MOST_SAMPLES), 1 - float(probability("confidence", confidence))
    show = f"that more than {allowed:.4g} of all pairs differ, with this confidence"
    check_enough(number, lambda pairs: allowed**pairs < alpha, of="runs", show=show)
    differing = 0
    for _ in range(number):
        seed = bits.words(4).tobytes()
        first, second = (call_function(mechanism, draw_sample(bits), SharedCoins(seed)) for _ in range(2))
        differing += first != second
    bound = float(lower_limit(differing, number, alpha=alpha))
    event = f"two runs with shared coins differ: {differing:,} of {number:,} pairs"
    return Finding.of("rate of differing", allowed, bound, 1 - alpha, number, event)
