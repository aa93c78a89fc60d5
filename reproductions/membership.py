"""Membership inference against predictions, with and without privacy: whether a label tells that a row was learned from.

A tree that has grown to its end repeats the labels that it learned, also those that are wrong: who knows a row and asks for
its prediction learns whether the row was there. Private predictions hide it, by how much their theorem says.
"""

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from holdtrue.bounds.prediction import vote_probabilities
from holdtrue.ensembles import train
from reproductions.writing import write

__all__ = ["attack", "run"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

ROWS, PARTS, PAIRS = 4000, 100, 40
EPSILONS = (Fraction("0.1"), Fraction("0.5"), Fraction(1), Fraction(2))
_WORDS = f"""\
{ROWS:,} made rows with five features, a quarter of whose labels are flipped; trees grown to the end. `right` is on fresh
rows, whose best rule is right on 0.75. `gap attack` says "member" where the prediction is the row's own label: how much more
often it says so of members than of others. `known rows` is the attack of somebody who knows every other row: the exact
difference of the chance of a label between the training set with the row and with another in its place, the largest of the
{PAIRS} rows whose votes are closest. `at most` is the theorem: tanh(epsilon / 4) for a soft majority, whatever the attack or
the learner (A6, E4), for one prediction; k of them compose.
""".replace("\n", " ").strip()


def run(data: Path | None, out: Path) -> None:
    """Write membership.md; the rows are made, whatever data there is."""
    del data
    write(out / "membership.md", title="Membership inference", words=_WORDS, header=_HEADER, rows=list(attack(seed=7)))


_HEADER = ["predictions", "epsilon", "right", "gap attack", "known rows", "at most"]


def draw_rows(random: Any, rows: int) -> tuple[Floats, Integers]:  # noqa: ANN401 - a generator of NumPy
    """Return features, and labels of which a quarter is flipped."""
    x = random.normal(size=(rows, 5))
    return x, ((x[:, 0] + x[:, 1] > 0) ^ (random.random(rows) < 0.25)).astype(np.int64)


def attack(*, seed: int, rows: int = ROWS, parts: int = PARTS, pairs: int = PAIRS) -> list[list[str]]:
    """Return a line for one tree, for a plain vote, and for a soft majority at each epsilon."""
    from sklearn.tree import DecisionTreeClassifier

    random = np.random.default_rng(seed)  # noqa: TID251 - made rows need no secrecy
    x, y = draw_rows(random, rows)
    fresh, truth = draw_rows(random, rows)
    others, labels = draw_rows(random, pairs)
    tree = DecisionTreeClassifier(random_state=0)

    def vote(x: Floats, y: Integers, points: Floats) -> Integers:
        return train(tree, x, y, parts=parts, labels=[0, 1], bounds=(-10.0, 10.0), jobs=1).votes(points)

    held, beyond = vote(x, y, x), vote(x, y, fresh)
    places = np.abs(held[:, 0] - held[:, 1]).argsort(kind="stable")[:pairs]
    swapped = np.array([vote(*_replace(x, y, place, others[n], labels[n]), x[[place]])[0] for n, place in enumerate(places)])
    alone = tree.fit(x, y)
    said = [alone.predict(points)[:, None] == [0, 1] for points in (x, fresh)]
    replaced = [
        DecisionTreeClassifier(random_state=0).fit(*_replace(x, y, place, others[n], labels[n])).predict(x[[place]])[0]
        for n, place in enumerate(places[:10])
    ]
    known = max(float(label != alone.predict(x[[place]])[0]) for label, place in zip(replaced, places, strict=False))
    lines = [["one tree, no privacy", "–", *_measure(said[0] * 1.0, said[1] * 1.0, y, truth), f"{known:.3f}", "1"]]
    plain = [np.eye(2)[votes.argmax(axis=1)] for votes in (held, beyond, held[places], swapped)]
    moved = float(np.abs(plain[2] - plain[3]).max())
    lines.append(
        [f"majority of {parts} trees, no privacy", "–", *_measure(plain[0], plain[1], y, truth), f"{moved:.3f}", "1"]
    )
    for epsilon in EPSILONS:
        laws = [_soften(votes, epsilon) for votes in (held, beyond, held[places], swapped)]
        moved = float(np.abs(laws[2] - laws[3]).max())
        cells = [*_measure(laws[0], laws[1], y, truth), f"{moved:.3f}", f"{math.tanh(float(epsilon) / 4):.3f}"]
        lines.append([f"soft majority of {parts} trees", f"{float(epsilon):g}", *cells])
    return lines


def _replace(x: Floats, y: Integers, place: int, other: Floats, label: int) -> tuple[Floats, Integers]:
    rows, labels = x.copy(), y.copy()
    rows[place], labels[place] = other, label
    return rows, labels


def _soften(votes: Integers, epsilon: Fraction) -> Floats:
    return np.array([vote_probabilities(counts, epsilon=epsilon) for counts in votes.tolist()])


def _measure(held: Floats, beyond: Floats, y: Integers, truth: Integers) -> list[str]:
    """Return how often fresh rows are right, and how much more often members have their own label, by the law of each."""
    inside, outside = (law[np.arange(len(law)), known].mean() for law, known in ((held, y), (beyond, truth)))
    return [f"{outside:.3f}", f"{inside - outside:.3f}"]
