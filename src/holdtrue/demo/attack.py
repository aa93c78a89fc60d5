"""The attack that a plain holdout does not survive (THEORY N6), look by look, against a holdout and against a curator.

Features and label are independent fair coins, so every question about them has the population value one half, and no
model of the label is better than a coin. The analyst asks which features agree with the label, keeps the votes of those
answers, and asks for the score of the majority: chosen by the rows, it scores well on the rows, and nowhere else.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdtrue.curator import Curator
from holdtrue.entropy import SYSTEM, Bits
from holdtrue.planning.asking import plan
from holdtrue.planning.plans import Plan

__all__ = ["FEATURES", "ROUNDS", "ROWS", "TRUTH", "Bar", "Step", "attack", "plan_attack"]

TRUTH = 0.5
ROWS = 20_000
FEATURES = 1000
ROUNDS = 20
BETA = 0.05

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Bar:
    """A reported score with the interval that was claimed for it."""

    value: float
    low: float
    high: float

    @property
    def holds(self) -> bool:
        """Return whether the truth is inside."""
        return self.low <= TRUTH <= self.high


@dataclass(frozen=True, slots=True)
class Step:
    """The score of the analyst's model after ``looks`` looks: from a plain holdout, and from Holdtrue."""

    looks: int
    naive: Bar
    held: Bar


def plan_attack(*, rows: int = ROWS, features: int = FEATURES, rounds: int = ROUNDS) -> Plan:
    """Return the curator's plan: every question about a feature, and every score."""
    return plan(rows=rows, queries=features + rounds, beta=BETA)


def attack(*, rows: int = ROWS, features: int = FEATURES, rounds: int = ROUNDS, bits: Bits = SYSTEM) -> Iterator[Step]:
    """Yield what each side reports after every round, on one fresh sample.

    The plain holdout gives exact means, with an interval that would cover all looks at once if they had been chosen before
    the rows were seen (Hoeffding's inequality and a union bound). The curator answers the same analyst through its ledger.
    """
    table = _toss_coins(bits, features, rows)
    label = _toss_coins(bits, 1, rows)[0]
    agrees = (table == label).astype(np.uint8)
    agreement = agrees.mean(axis=1)
    margin = math.sqrt(math.log(2 * (features + rounds) / BETA) / (2 * rows))
    columns = {f"x{number}": column for number, column in enumerate(table)} | {"y": label}
    naive, held = _SignAnalyst(table, label), _SignAnalyst(table, label)
    with Curator(columns, plan=plan_attack(rows=rows, features=features, rounds=rounds)) as curator:
        for number, block in enumerate(np.array_split(np.arange(features), rounds), start=1):
            naive.hear_answers(block, agreement[block])
            answers = curator.ask([f"x{feature} = y" for feature in block])
            held.hear_answers(block, np.array([answer.value for answer in answers]))
            plain = float(naive.correct.mean())
            scored = curator.ask(values=held.correct)
            ends = scored.interval
            if ends is None:  # a plan for independent rows always gives one
                return
            yield Step(
                held.heard + number, Bar(plain, plain - margin, plain + margin), Bar(scored.value, ends.low, ends.high)
            )


class _SignAnalyst:
    """Keeps the vote of every feature asked about, turned the way its answer leaned."""

    def __init__(self, table: Bytes, label: Bytes) -> None:
        self._table, self._label = table, label
        self._votes = np.zeros(label.size, dtype=np.int32)
        self.heard = 0

    def hear_answers(self, block: npt.NDArray[np.int64], answers: npt.NDArray[np.float64]) -> None:
        signs = np.where(answers > TRUTH, 1, -1).astype(np.int32)
        self._votes += signs @ (2 * self._table[block].astype(np.int32) - 1)
        self.heard += block.size

    @property
    def correct(self) -> npt.NDArray[np.float64]:
        """Return for every row whether the majority of the votes is its label; a tie says yes."""
        correct: npt.NDArray[np.float64] = ((self._votes >= 0) == (self._label == 1)).astype(np.float64)
        return correct


def _toss_coins(bits: Bits, count: int, rows: int) -> Bytes:
    words = bits.words(count * rows // 64 + 1)
    return np.unpackbits(words.view(np.uint8), count=count * rows).reshape(count, rows)
