"""A drill-down of 500 different questions on Adult, each deduced from earlier answers first: how many are free (U7.4).

The population is the table itself; rows are drawn from it with replacement, so that the truth of every interval is known.
"""

import csv
import time
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

import holdtrue as ht
from reproductions.writing import write

__all__ = ["ask_deducing", "draw_questions", "run"]

Codes: TypeAlias = npt.NDArray[np.int64]
Random: TypeAlias = np.random.Generator  # noqa: TID251 - rows and questions to be measured on

_NAMES, _SIZES = ("sex", "age", "education", "married", "hours", "income"), (2, 4, 4, 2, 3, 2)
_QUESTIONS, _ROWS, _SEED = 500, (10_000, 45_000), 20260707
_MADE = 48_842


def find_codes(data: Path | None, random: Random) -> tuple[str, Codes]:
    """Return Adult in six columns of few codes, or made rows where it is not there."""
    folder = None if data is None else data / "adult"
    if folder is None or not (folder / "adult.data").is_file():
        hidden = random.random(_MADE)
        made = [np.minimum(((hidden + random.random(_MADE)) / 2 * size).astype(np.int64), size - 1) for size in _SIZES]
        return "made rows", np.stack(made, axis=1)
    rows = []
    for name in ("adult.data", "adult.test"):
        with (folder / name).open(encoding="utf-8") as file:
            for line in csv.reader(file, skipinitialspace=True):
                if len(line) == 15:
                    age, education, hours = int(line[0]), int(line[4]), int(line[12])
                    ages, schools = sum(age >= at for at in (28, 37, 48)), sum(education >= at for at in (9, 10, 13))
                    week, wed = (hours >= 40) + (hours > 40), line[5].startswith("Married")
                    rows.append((line[9] == "Male", ages, schools, wed, week, line[14].startswith(">")))
    return "Adult", np.array(rows, dtype=np.int64)


class _Question:
    """A condition as text, and which of the joint cells it holds in."""

    def __init__(self, text: str, held: npt.NDArray[np.bool_]) -> None:
        self.text, self.held = text, held

    @classmethod
    def of(cls, column: int, codes: list[int]) -> "_Question":
        """Return that a column has one of some codes."""
        text = " OR ".join(_write_code(column, code) for code in sorted(codes))
        cells = np.indices(_SIZES).reshape(len(_SIZES), -1)
        return cls(text if len(codes) == 1 else f"({text})", np.isin(cells[column], codes))

    def join(self, other: "_Question", word: str) -> "_Question":
        """Return both, joined by AND or OR."""
        held = self.held & other.held if word == "AND" else self.held | other.held
        return _Question(f"({self.text}) {word} ({other.text})" if self.text else other.text, held)

    def negate(self) -> "_Question":
        """Return the opposite."""
        return _Question(f"NOT ({self.text})", ~self.held)


def _write_code(column: int, code: int) -> str:
    """Return a code as a band of numbers: the least and the largest are open, as 'below 28' and '48 and above' are."""
    name, last = _NAMES[column], _SIZES[column] - 1
    return f"{name} <= 0" if code == 0 else f"{name} >= {last}" if code == last else f"{name} = {code}"


def draw_questions(number: int, random: Random) -> list[_Question]:
    """Return different questions as sessions have them: a column's groups, one of them refined, unions and complements."""
    found: dict[bytes, _Question] = {}
    everything = _Question("", np.ones(np.prod(_SIZES), dtype=bool))
    while len(found) < number:
        base = everything
        for column in random.permutation(len(_SIZES))[:3].tolist():
            size = _SIZES[column]
            asked = [base.join(_Question.of(column, [code]), "AND") for code in range(size)]
            if random.random() < 0.3 and size > 2:
                asked.append(base.join(_Question.of(column, random.permutation(size)[:2].tolist()), "AND"))
            if random.random() < 0.2:
                asked.append(base.join(_Question.of(column, [int(random.integers(size))]), "AND").negate())
            if random.random() < 0.3:
                either = _Question.of(column, [0]).join(_Question.of(int(random.integers(len(_SIZES))), [0]), "OR")
                asked.append(base.join(either, "AND"))
            for each in asked:
                if 0 < each.held.sum() < each.held.size:
                    found.setdefault(each.held.tobytes(), each)
            base = base.join(_Question.of(column, [int(random.integers(size))]), "AND")
    return list(found.values())[:number]


def ask_deducing(codes: Codes, rows: int, questions: list[_Question], random: Random) -> dict[str, float]:
    """Ask questions about drawn rows, each deduced first; return how many were free, and how many intervals missed."""
    joint = np.bincount(np.ravel_multi_index(tuple(codes.T), _SIZES), minlength=int(np.prod(_SIZES))) / len(codes)
    drawn = codes[random.integers(0, len(codes), rows)]
    plan = ht.plan(rows=rows, queries=len(questions), iid=True, reserve=0.0)
    free, missed, spent = 0, 0, []
    with ht.Curator({name: drawn[:, at] for at, name in enumerate(_NAMES)}, plan=plan) as curator:
        for question in questions:
            began = time.perf_counter()
            answer = curator.ask(question.text, deduce="first")
            spent.append(time.perf_counter() - began)
            free += bool(answer.deduced)
            missed += answer.interval is None or float(joint @ question.held) not in answer.interval
    return {"alpha": plan.alpha, "free": free, "missed": missed, "each": float(np.median(spent)), "slowest": max(spent)}


def run(data: Path | None, out: Path, *, share: float = 1.0) -> None:
    """Write deduction.md; ``share`` of the questions, for a quick look."""
    random = np.random.default_rng(_SEED)  # noqa: TID251 - rows and questions to be measured on
    name, codes = find_codes(data, random)
    questions = draw_questions(max(20, round(_QUESTIONS * share)), random)
    lines = []
    for rows in _ROWS:
        told = ask_deducing(codes, rows, questions, random)
        part = f"{told['free']:.0f} of {len(questions)} ({told['free'] / len(questions):.0%})"
        times = f"{1e3 * told['each']:.0f} ms, at most {1e3 * told['slowest']:.0f}"
        lines.append([f"{rows:,}", f"{told['alpha']:.4f}", part, f"{told['missed']:.0f}", times])
    words = _WORDS.format(name=name, number=len(questions))
    header = ["rows", "alpha", "free within alpha", "intervals that missed", "a question"]
    write(out / "deduction.md", title="Questions that need not be paid for", words=words, header=header, rows=lines)


_WORDS = (
    "{name} as the population: {number} different questions of a drill-down in six columns, asked with deduce='first'. "
    "Columns are NumPy's integers, which have no missing values, and bands of them; a complement follows from its condition."
)
