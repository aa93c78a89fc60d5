"""An agent that climbs: it changes its answers at random and keeps what scores better, against a plain holdout and a gate.

The labels are fair coins, so on fresh labels every submission is right in half of the cases, whatever the agent does. A
plain holdout tells it every score, and it climbs on chance. A gate says yes only to what is proved better: it says no (V1).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdtrue.entropy import SYSTEM, Bits
from holdtrue.holdouts import Holdout

__all__ = ["CASES", "LOOKS", "YES", "ClimbStep", "Exam", "climb", "make_exam"]

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
