"""What private learning of finite classes costs in error: classes by epsilon, beside the best of the class.

Every table of real rows is taken as a population; rows are drawn from it independently, so that err is known exactly and
each certificate can be checked.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from holdtrue.curator import Curator
from holdtrue.hypotheses import Conjunctions, HypothesisClass, LinearNet, Parities, Stumps, Trees
from reproductions.writing import write

__all__ = ["run"]

_EPSILONS = (0.1, 1.0)
_RUNS = 20
_ROWS = 10_000
_RNG = np.random.default_rng(1)  # noqa: TID251 - which rows are drawn is no secret


@dataclass(frozen=True)
class Population:
    """A table of numbers with public bounds, and yes-or-no labels."""

    name: str
    columns: dict[str, npt.NDArray[np.float64]]
    bounds: dict[str, tuple[float, float]]
    labels: npt.NDArray[np.bool_]


def run(data: Path | None, out: Path) -> None:
    """Write learn.md."""
    rows: list[list[str]] = []
    kept, counted = 0, 0
    for population in _populations(data):
        for title, hypotheses in _classes(population):
            best = _population_errors(hypotheses, population)
            for epsilon in _EPSILONS:
                excess, plain, certified = _measured(hypotheses, population, best, epsilon)
                kept += int((excess <= certified).sum())
                counted += excess.size
                rows.append(
                    [
                        population.name,
                        f"{title} ({hypotheses.size:,})",
                        f"{epsilon:g}",
                        f"{best.min():.4f}",
                        f"{plain:.4f}",
                        f"{best.min() + excess.mean():.4f}",
                        f"{excess.max():.4f}",
                        f"{certified:.4f}",
                    ]
                )
                print(" ".join(rows[-1]), flush=True)
    words = (
        f"{_ROWS:,} rows drawn independently from each table, {_RUNS} times over; `err` over the whole table. The "
        f"certificate bounds err(pick) - min err with probability 0.95; it held in {kept} of {counted} runs."
    )
    header = [
        "table",
        "class (size)",
        "epsilon",
        "min err",
        "err of the empirical best",
        "err of the private pick",
        "largest excess",
        "certified excess",
    ]
    write(out / "learn.md", title="Private learning of finite classes", words=words, header=header, rows=rows)


def _classes(population: Population) -> Iterator[tuple[str, HypothesisClass]]:
    names, bounds = list(population.columns), population.bounds
    yield "stumps", Stumps(bounds=bounds, steps=64)
    yield "linear net", LinearNet(names, count=5000, bounds=bounds)
    middles = [f"{_quoted(name)} >= {(low + high) / 2:g}" for name, (low, high) in bounds.items()]
    quarters = [f"{_quoted(name)} >= {low + (high - low) / 4:g}" for name, (low, high) in bounds.items()]
    yield "conjunctions of 3", Conjunctions((middles + quarters)[:20], width=3)
    yield "trees of depth 2", Trees((middles + quarters)[:16], depth=2)
    yield "parities of 2", Parities((middles + quarters)[:16], width=2)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _population_errors(hypotheses: HypothesisClass, population: Population) -> npt.NDArray[np.float64]:
    """Return err of every hypothesis over the whole table, through the same engine as the sample."""
    counts = _engine_counts(hypotheses, population.columns, population.labels)
    return counts / population.labels.size


def _engine_counts(
    hypotheses: HypothesisClass, columns: dict[str, npt.NDArray[np.float64]], labels: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    from holdtrue.engines import open_engine
    from holdtrue.queries.features import parse_feature
    from holdtrue.queries.parser import parse

    engine = open_engine(columns | {"label": labels})
    features = [parse_feature(name, engine.card) for name in hypotheses.columns or ()]
    return engine.error_counts(hypotheses, features, parse("label", engine.card))


def _measured(
    hypotheses: HypothesisClass, population: Population, err: npt.NDArray[np.float64], epsilon: float
) -> tuple[npt.NDArray[np.float64], float, float]:
    """Return the private pick's excess over samples, the mean err of the plain empirical minimiser, and the certificate."""
    found, plain, certified = [], [], 0.0
    for _ in range(_RUNS):
        drawn = _RNG.integers(0, population.labels.size, _ROWS)
        table: dict[str, Any] = {name: column[drawn] for name, column in population.columns.items()}
        plain.append(err[int(np.argmin(_engine_counts(hypotheses, table, population.labels[drawn])))])
        with Curator(table | {"label": population.labels[drawn]}, epsilon=8, delta=1e-6, iid=True) as curator:
            pick = curator.learn(hypotheses, target="label", epsilon=epsilon)
        found.append(err[pick.index] - err.min())
        certified = pick.excess_error if pick.excess_error is not None else 1.0
    return np.array(found), float(np.mean(plain)), certified


def _populations(data: Path | None) -> Iterator[Population]:
    if data is None:
        yield _bundled()
    else:
        yield _adult(data / "adult" / "adult.data")
        yield _houses(data / "california_housing" / "cal_housing.csv")
        yield _titanic(data / "titanic" / "titanic.csv")
    yield _made()


def _made() -> Population:
    x = _RNG.uniform(-1, 1, (50_000, 6))
    label = (x[:, 0] + x[:, 1] > 0.2) ^ (_RNG.random(50_000) < 0.1)
    columns = {f"x{j}": x[:, j] for j in range(6)}
    return Population("made", columns, dict.fromkeys(columns, (-1.0, 1.0)), label)


def _bundled() -> Population:
    from sklearn.datasets import load_breast_cancer

    given = load_breast_cancer()
    names = ["mean radius", "mean texture", "mean smoothness", "mean concavity", "worst radius", "worst texture"]
    places = [list(given.feature_names).index(name) for name in names]
    bounds = [(0.0, 40.0), (0.0, 50.0), (0.0, 0.3), (0.0, 0.5), (0.0, 50.0), (0.0, 60.0)]
    columns = {name: given.data[:, place] for name, place in zip(names, places, strict=True)}
    return Population("breast cancer", columns, dict(zip(names, bounds, strict=True)), given.target == 0)


def _adult(path: Path) -> Population:
    with path.open(encoding="utf-8") as file:
        lines = [line for line in csv.reader(file, skipinitialspace=True) if line]
    bounds = {
        "age": (0, (0.0, 120.0)),
        "education-num": (4, (1.0, 16.0)),
        "capital-gain": (10, (0.0, 99_999.0)),
        "capital-loss": (11, (0.0, 5000.0)),
        "hours-per-week": (12, (0.0, 99.0)),
    }
    columns = {name: np.array([float(line[place]) for line in lines]) for name, (place, _) in bounds.items()}
    columns["married"] = np.array([float(line[5] == "Married-civ-spouse") for line in lines])
    public = {name: ends for name, (_, ends) in bounds.items()} | {"married": (0.0, 1.0)}
    return Population("adult", columns, public, np.array([line[14].startswith(">50K") for line in lines]))


def _houses(path: Path) -> Population:
    table = np.genfromtxt(path, delimiter=",", names=True)
    bounds = {
        "longitude": (-125.0, -114.0),
        "latitude": (32.0, 42.0),
        "housingMedianAge": (0.0, 60.0),
        "totalRooms": (0.0, 40_000.0),
        "population": (0.0, 40_000.0),
        "medianIncome": (0.0, 16.0),
    }
    columns = {name: np.nan_to_num(table[name]) for name in bounds}
    return Population("california housing", columns, bounds, table["medianHouseValue"] > 250_000)


def _titanic(path: Path) -> Population:
    table = np.genfromtxt(path, delimiter=",", names=True)
    bounds = {"Pclass": (0.0, 2.0), "Sex": (0.0, 1.0), "Age": (0.0, 90.0), "SibSp": (0.0, 8.0), "Fare": (0.0, 29.0)}
    return Population("titanic", {name: table[name] for name in bounds}, bounds, table["Survived"] > 0)
