"""Attacks that a plain holdout does not survive: votes of chosen questions (THEORY N6), and an agent that climbs on chance.

Features and label are independent fair coins, so every question about them has the population value one half, and no
model of the label is better than a coin. The analyst asks which features agree with the label, keeps the votes of those
answers, and asks for the score of the majority: chosen by the rows, it scores well on the rows, and nowhere else. Here a
curator answers.

The agent that climbs changes its answers at random and keeps what scores better. Its labels are fair coins as well: on
fresh labels every submission is right in half of the cases, whatever the agent does. A plain holdout tells it every score,
and it climbs on chance. A gate says yes only to what is proved better: it says no (V1).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdtrue.curator import Curator
from holdtrue.entropy import SYSTEM, Bits
from holdtrue.holdouts import Holdout
from holdtrue.planning.asking import plan
from holdtrue.planning.plans import Plan

__all__ = [
    "CASES",
    "FEATURES",
    "LOOKS",
    "ROUNDS",
    "ROWS",
    "TRUTH",
    "YES",
    "Bar",
    "ClimbStep",
    "Exam",
    "Step",
    "attack",
    "climb",
    "make_exam",
    "plan_attack",
]

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


CASES = 500
LOOKS = 300
YES = 5
_CHANGED = 32  # about one case in so many is answered anew in each candidate
_TOLD = 5
_SHARES = 256
_RIGHT, _LUCK, _GAIN = 150, 20, 100  # of so many: how often a case is right, changes by luck, or is mended
_EXAM_LOOKS = 60
_REPHRASED = 6

Answers = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ClimbStep:
    """Where the agent stands after ``looks`` looks: its score on a plain holdout, and what the gate said so far.

    ``gate`` is the true score of the gate's incumbent, ``said`` the number of yes, and ``refused`` that of no.
    """

    looks: int
    naive: float
    truth: float
    said: int
    refused: int


def climb(*, cases: int = CASES, looks: int = LOOKS, bits: Bits = SYSTEM) -> Iterator[ClimbStep]:
    """Yield where the agent stands, every few looks, on fresh cases; the gate and the plain holdout have the same labels."""
    labels, start = _toss(bits, cases), _toss(bits, cases)
    climbing, standing = start, start
    best, said = float((climbing == labels).mean()), 0
    with Holdout(labels.astype(np.int64), looks=looks, yes=YES, incumbent=start.astype(np.int64)) as holdout:
        for look in range(1, looks + 1):
            candidate = climbing ^ _choose_cases(bits, cases)
            score = float((candidate == labels).mean())
            if score > best:
                climbing, best = candidate, score
            offered = standing ^ _choose_cases(bits, cases)
            if holdout.gate(offered.astype(np.int64)).yes:
                standing, said = offered, said + 1
            if look == 1 or look % _TOLD == 0:
                yield ClimbStep(look, best, 0.5, said, look - said)
            if said == YES:
                return


def _toss(bits: Bits, count: int) -> Answers:
    return np.unpackbits(bits.words(count // 64 + 1).view(np.uint8), count=count).astype(np.bool_)


def _choose_cases(bits: Bits, count: int) -> Answers:
    """Return the cases that are answered anew: each one with the same chance, and at least one."""
    chosen: Answers = bits.words(count) % np.uint64(_CHANGED) == 0
    chosen[int(bits.words(1)[0]) % count] = True
    return chosen


@dataclass(frozen=True, slots=True, eq=False)
class Exam:
    """Cases of the demonstration's holdout: how it is registered, what an agent tried first, and files to submit.

    ``files`` are results of further models, one line per case, by the name of the file.
    """

    document: dict[str, Any]
    tried: tuple[tuple[str, Answers], ...]
    files: dict[str, str]


def make_exam(*, cases: int = CASES, bits: Bits = SYSTEM) -> Exam:
    """Return the exam: an incumbent, models that differ from it by luck only, and one that is better in truth."""

    def draw(share: int) -> Answers:
        chosen: Answers = bits.words(cases) % np.uint64(_SHARES) < share
        return chosen

    def rephrase() -> Answers:
        # As often right as before: what changes is drawn again with the same chances.
        return np.where(draw(_LUCK), draw(_RIGHT), first)

    first = draw(_RIGHT)
    # Other ids than those of another demonstration, since these are other cases.
    ids = [f"case-{number:03d}-{word >> 44:05x}" for number, word in enumerate(bits.words(cases).tolist(), start=1)]
    document = {
        "description": "A prompt on 500 cases, each right or wrong. Candidates are promoted only if they are really better.",
        "cases": cases,
        "ids": ids,
        "metric": "hits",
        "incumbent": first.astype(int).tolist(),
        "looks": _EXAM_LOOKS,
        "yes": YES,
        "unseen": True,
    }
    tried = tuple((f"rephrased {number}", rephrase()) for number in range(1, _REPHRASED + 1))
    further = {"rephrased.csv": rephrase(), "better.csv": first | draw(_GAIN)}
    return Exam(document, tried, {name: _write_results(ids, results) for name, results in further.items()})


def _write_results(ids: list[str], results: Answers) -> str:
    lines = [f"{name},{int(right)}" for name, right in zip(ids, results, strict=True)]
    return "\n".join(["id,passed", *lines]) + "\n"
