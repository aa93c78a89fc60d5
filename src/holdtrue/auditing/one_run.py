"""Audits from one training run: canaries that are in the data by coins, and guesses which of them are.

After Steinke, Nasr and Jagielski (NeurIPS 2023). A canary is present or absent, so the claim that is audited is one for
adding or removing a row; a replace-one claim of epsilon is one of epsilon for a canary that takes the place of a fixed row.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdtrue.auditing.findings import Finding, check_enough
from holdtrue.auditing.search.confidence_bounds import Floats
from holdtrue.entropy import SYSTEM, Bits
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number, count, nonnegative, probability

__all__ = ["Canaries", "audit_one_run", "chance_of_guesses", "one_run_epsilon"]

_HALVINGS = 200
_LARGEST = 700.0
_ROUNDING = 1 + 2.0**-40
_MOST_GUESSES = 1 << 24


def chance_of_guesses(right: int, *, guesses: int, canaries: int, epsilon: float, delta: float = 0.0) -> float:
    """Return a bound on the probability that an (epsilon, delta)-DP training lets ``right`` of the guesses or more be right.

    Law: f(v) + 2 m delta max over 1 <= i <= v of (f(v - i) - f(v)) / i, where f(t) = Pr[Bin(r, s) >= t] with
    s = e^epsilon / (1 + e^epsilon), for r guesses on m canaries, v of them right. Needs: the numbers of guesses "in" and
    "out" fixed in advance. Leaving the second term out, as is sometimes done, is wrong for delta > 0.
    """
    tail = _binomial_tails(right, guesses, 1 / (1 + math.exp(-epsilon)))
    slack = 0.0
    if delta and right:
        slack = 2 * canaries * delta * float(((tail[:-1][::-1] - tail[-1]) / np.arange(1, right + 1)).max())
    return min(1.0, (float(tail[-1]) + slack) * _ROUNDING)


def _binomial_tails(right: int, guesses: int, chance: float) -> Floats:
    """Return Pr[Bin(guesses, chance) >= t] for t from 0 to ``right``."""
    from scipy import special

    t = np.arange(1, right + 1, dtype=np.float64)
    return np.concatenate([[1.0], special.betainc(t, guesses - t + 1, chance)])


def one_run_epsilon(right: int, *, guesses: int, canaries: int, delta: Number = 0.0, confidence: Number = 0.95) -> float:
    """Return the largest epsilon that ``right`` right guesses rule out: a lower bound at this confidence, 0 if none.

    >>> round(one_run_epsilon(75, guesses=100, canaries=100), 7)
    0.7022139
    """
    made = count("guesses", guesses)
    number = count("right", right, least=0)
    if number > made:
        raise InvalidParameter("right", right, f"at most the number of guesses, {made}")
    if made > count("canaries", canaries):
        raise InvalidParameter("guesses", guesses, f"at most the number of canaries, {canaries}")
    slack, beta = float(probability("delta", delta, zero=True)), 1 - float(probability("confidence", confidence))

    def ruled_out(epsilon: float) -> bool:
        return chance_of_guesses(number, guesses=made, canaries=canaries, epsilon=epsilon, delta=slack) < beta

    if not ruled_out(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while ruled_out(high) and high < _LARGEST:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if ruled_out(middle) else (low, middle)
    return low


def audit_one_run(  # noqa: PLR0913 - the numbers of the theorem
    right: int,
    *,
    guesses: int,
    canaries: int,
    epsilon: Number,
    delta: Number = 0.0,
    confidence: Number = 0.95,
    group: int = 1,
) -> Finding:
    """Compare a claim with the guesses from one training run.

    ``group`` is the number of rows that a canary stands for: the bound is then divided by it, which a claim with delta > 0
    does not allow. Fails: where even perfect guesses could not prove a violation, and says how many could.
    """
    size, claimed = count("group", group), float(nonnegative("epsilon", epsilon))
    slack = float(probability("delta", delta, zero=True))
    if size > 1 and slack:
        raise InvalidParameter("group", group, "1 where delta is above 0")
    sure, planted = float(probability("confidence", confidence)), count("canaries", canaries)

    def enough(number: int) -> bool:
        """Return whether ``number`` guesses, all of them right, rule out the claim."""
        most = max(number, planted)
        return chance_of_guesses(number, guesses=number, canaries=most, epsilon=size * claimed, delta=slack) < 1 - sure

    show = f"more than the claimed {claimed:g}, even if all are right"
    check_enough(count("guesses", guesses), enough, of="guesses", show=show, most=_MOST_GUESSES)
    bound = one_run_epsilon(right, guesses=guesses, canaries=canaries, delta=delta, confidence=confidence) / size
    event = f"{right:,} of {guesses:,} guesses about {canaries:,} canaries were right"
    notes = (("relation", "a canary is in or out"),)
    return Finding.of("epsilon", claimed, bound, sure, 1, event, delta=slack, notes=notes)


@dataclass(frozen=True, slots=True, eq=False)
class Canaries:
    """Which canaries are in the data: coins of the auditor's, thrown before training and looked at after the guesses."""

    included: npt.NDArray[np.bool_]

    @classmethod
    def draw(cls, number: int, *, bits: Bits = SYSTEM) -> "Canaries":
        """Throw a fair coin for each canary."""
        return cls((bits.words(count("number", number)) & np.uint64(1)).astype(np.bool_))

    def count_right(self, scores: npt.ArrayLike, *, guesses: int) -> int:
        """Guess that the canaries of highest score are in and those of lowest score are out, half each; count the right.

        ``scores`` say how much the trained model seems to know each canary. How many are guessed is fixed here before the
        coins are looked at, as the theorem needs; ties are settled by position.
        """
        values = np.asarray(scores, dtype=np.float64)
        number = count("guesses", guesses)
        if values.shape != self.included.shape or np.isnan(values).any():
            raise InvalidParameter.without_value("scores", f"{self.included.size} numbers, one per canary and none missing")
        if number > values.size:
            raise InvalidParameter("guesses", guesses, f"at most the number of canaries, {values.size}")
        order = np.argsort(values, kind="stable")
        out, inside = order[: number // 2], order[values.size - (number - number // 2) :]
        return int((~self.included[out]).sum() + self.included[inside].sum())

    def audit(
        self, scores: npt.ArrayLike, *, guesses: int, epsilon: Number, delta: Number = 0.0, confidence: Number = 0.95
    ) -> Finding:
        """Guess from the scores of one training run, and compare with a claim."""
        right, canaries = self.count_right(scores, guesses=guesses), self.included.size
        claim: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "confidence": confidence}
        return audit_one_run(right, guesses=guesses, canaries=canaries, **claim)
