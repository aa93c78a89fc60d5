"""The default strength of StableClassifier beside diffprivlib's default, on held-out rows of tables with public bounds.

Neither is tuned: both take their defaults, the bounds [0, 1] of every column, and the same epsilon. diffprivlib's promise is
pure epsilon, ours (epsilon, 1e-6).
"""

import csv
import json
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from holdtrue.estimators import StableClassifier
from reproductions.environments import find_peer, run_command
from reproductions.predict import Task, bundled_tasks, real_tasks
from reproductions.writing import write

__all__ = ["run"]

Floats = npt.NDArray[np.float64]

EPSILONS = (0.1, 0.5, 1.0, 2.0)
DELTA = 1e-6
REPEATS = 20
_LARGE = 5_000
_GERMAN = {1: (0, 120), 4: (0, 20_000), 7: (1, 4), 10: (1, 4), 12: (18, 100), 15: (1, 4), 17: (1, 2)}
_TITANIC = {"Pclass": 2, "Sex": 1, "Age": 90, "SibSp": 8, "Parch": 9, "Fare": 29, "Cabin": 8, "Embarked": 2}


def run(data: Path | None, out: Path) -> None:
    """Write strength.md."""
    python, reason = find_peer("diffprivlib")
    lines = []
    for task in _list_tasks(data):
        repeats = 3 if len(task.rows) > _LARGE else REPEATS
        peer = _score_peer(task, python, repeats) if python else [[]] * len(EPSILONS)
        for epsilon, found in zip(EPSILONS, peer, strict=True):
            ours = [_score(task, epsilon) for _ in range(repeats)]
            common = max(task.truth.mean(), 1 - task.truth.mean())
            lines.append(
                [task.name, f"{len(task.rows):,}", f"{epsilon:g}", *map(_write_mean, (ours, found)), f"{common:.3f}"]
            )
    words = (
        f"Mean shares of right labels on held-out rows, with two standard errors over {REPEATS} trainings (3 for Adult). "
        f"`common` is the share of the commoner label. {reason}."
    )
    header = ["table", "rows", "epsilon", "StableClassifier", "diffprivlib", "common"]
    write(out / "strength.md", title="Default strength", words=words, header=header, rows=lines)


def _write_mean(found: Sequence[float]) -> str:
    return f"{np.mean(found):.3f} ± {2 * np.std(found) / len(found) ** 0.5:.3f}" if found else "–"


def _score(task: Task, epsilon: float) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = StableClassifier(epsilon=epsilon, delta=DELTA, bounds=(0, 1)).fit(task.rows, task.labels)
    return float(fitted.score(task.points, task.truth))


def _score_peer(task: Task, python: Path, repeats: int) -> list[list[float]]:
    plan = [{"epsilon": each, "C": 1.0, "data_norm": task.norm, "trainings": repeats} for each in EPSILONS]
    with tempfile.TemporaryDirectory() as name:
        rows, settings, out = (Path(name) / file for file in ("rows.npz", "plan.json", "out.json"))
        np.savez(rows, rows=task.rows, labels=task.labels, points=task.points, truth=task.truth)
        settings.write_text(json.dumps(plan), encoding="utf-8")
        script = Path(__file__).parent / "peers" / "private_regressions.py"
        if not run_command([python, script, rows, settings, out])[0]:
            return [[]] * len(EPSILONS)
        return list(json.loads(out.read_text(encoding="utf-8")))


def _list_tasks(data: Path | None) -> Iterator[Task]:
    if data is None:
        yield next(iter(bundled_tasks()))
        return
    yield next(iter(real_tasks(data)))
    yield _read_german(data / "german_credit" / "german.data")
    yield _read_titanic(data / "titanic" / "titanic.csv")


def _read_german(path: Path) -> Task:
    with path.open(encoding="utf-8") as file:
        table = np.array([line for line in csv.reader(file, delimiter="\t") if len(line) == 21])
    numbers = [(np.clip(table[:, at].astype(float), low, high) - low) / (high - low) for at, (low, high) in _GERMAN.items()]
    codes = [table[:, at] == value for at in range(20) if at not in _GERMAN for value in sorted(set(table[:, at]))]
    return _split("German credit", np.column_stack([*numbers, *codes]).astype(float), table[:, 20] == "1", norm=20**0.5)


def _read_titanic(path: Path) -> Task:
    with path.open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    columns = [np.array([float(line[name]) for line in lines]) / high for name, high in _TITANIC.items()]
    return _split("Titanic", np.column_stack(columns), np.array([line["Survived"] == "1" for line in lines]), norm=8**0.5)


def _split(name: str, rows: Floats, labels: npt.NDArray[np.bool_], *, norm: float) -> Task:
    order = np.random.default_rng(0).permutation(len(rows))  # noqa: TID251 - which rows are held out, nobody's noise
    tested, kept = order[::4], np.sort(np.setdiff1d(order, order[::4]))
    marks = labels.astype(np.int64)
    sides = rows[kept], marks[kept], rows[tested], marks[tested]
    return Task(name, "", *sides, norm=norm, parts=1, C=1.0, steps=1)
