"""Synthetic data with known true values: a table of people who do not exist, from which rows are drawn.

Rows drawn with replacement from a finite table are independent draws from it, so the mean of a query over the table *is*
the population value that an interval is about.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from holdtrue.entropy import SYSTEM, Bits
from holdtrue.queries.cards import Card, Column
from holdtrue.queries.evaluator import Values, evaluate
from holdtrue.queries.parser import parse
from holdtrue.queries.sql_words import quote_name
from holdtrue.verbs.quantiles import QuantileTask

__all__ = [
    "EXAMPLES",
    "PEOPLE",
    "QUESTIONS",
    "REGIONS",
    "ROWS",
    "FinitePopulation",
    "describe_dataset",
    "find_true_covariance",
    "find_true_mean",
    "find_true_quantile",
    "find_true_shares",
    "find_true_sum",
    "survey",
    "write_rows",
]

ROWS = 40_000
QUESTIONS = 200

PEOPLE = 1 << 18  # a power of two: the low bits of a word choose a person, each with the same probability
REGIONS = ("east", "north", "south", "west")
EXAMPLES = (
    "smoker",
    "age >= 65",
    "bmi > 30 AND exercise < 2",
    "region = 'north' AND readmitted",
    "income / 200",
    "smoker AND diabetic",
)

_FILE = "survey.parquet"
_DESCRIPTION = (
    f"A survey about health: {ROWS:,} synthetic people, drawn from a population whose true values are known, so "
    "each answer can be compared with the truth."
)
_BITS = 30
_SEED = b"the invented people of a survey about health"
_CARD = Card(
    (
        Column("age", "integer", bounds=(18, 95)),
        Column("region", "text", labels=REGIONS),
        Column("income", "integer", bounds=(0, 200)),
        Column("smoker", "boolean"),
        Column("exercise", "integer", bounds=(0, 20)),
        Column("bmi", "real", bounds=(14, 60)),
        Column("sleep", "real", bounds=(3, 12)),
        Column("diabetic", "boolean"),
        Column("readmitted", "boolean"),
    ),
    PEOPLE,
)


@dataclass(frozen=True, slots=True, eq=False)
class FinitePopulation:
    """A finite table to draw rows from, and the card that it and they share.

    Guarantee: rows from :meth:`draw` are independent and uniform over the table, and :meth:`truth` is the exact mean of a
    query over it, up to the rounding of values to multiples of 2^-30. Texts are held as places in the column's labels.
    """

    card: Card
    columns: Mapping[str, npt.NDArray[Any]]

    def draw(self, rows: int, *, bits: Bits = SYSTEM) -> dict[str, npt.NDArray[Any]]:
        """Return rows drawn with replacement."""
        people = (bits.words(rows) & np.uint64(self.card.rows - 1)).astype(np.int64)
        drawn = {name: values[people] for name, values in self.columns.items()}
        for column in self.card.columns:
            if column.type == "text":
                drawn[column.name] = np.array(column.labels, dtype=object)[drawn[column.name]]
        return drawn

    def truth(self, query: str) -> float:
        """Return the mean of a query over the table; raises as any check of a query against a card does."""
        parsed = parse(query, self.card)
        held = {name: self._read_values(name) for name in self.columns}
        return float(evaluate(parsed, held, _BITS, rows=self.card.rows).sum()) / (self.card.rows << _BITS)

    def _read_values(self, name: str) -> Values:
        labels = self.card.column(name).labels
        if self.card.column(name).type != "text" or labels is None:
            return Values(self.columns[name])
        return Values(self.columns[name], dictionary=tuple(map(str, labels)))


def _draw_uniforms(name: str) -> npt.NDArray[np.float64]:
    """Return a number in (0, 1) for every person, the same in every run: what it describes is public."""
    stream = hashlib.shake_256(_SEED + name.encode()).digest(4 * PEOPLE)
    return (np.frombuffer(stream, dtype="<u4").astype(np.float64) + 0.5) / 2**32


def _to_chances(score: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return 1 / (1 + np.exp(-score))


@lru_cache(1)
def survey() -> FinitePopulation:
    """Return the survey: age, region, income, habits and health of synthetic people, related as one would expect."""
    from scipy.special import ndtri

    age = np.floor(18 + 77 * _draw_uniforms("age") ** 1.35).astype(np.int64)
    region = np.searchsorted([0.31, 0.52, 0.83], _draw_uniforms("region"))
    north = region == REGIONS.index("north")
    middle = 1 - ((age - 50) / 45.0) ** 2
    income = np.clip(
        np.exp(3.2 + 0.55 * middle + 0.18 * (region == REGIONS.index("east")) + 0.55 * ndtri(_draw_uniforms("income"))),
        0,
        200,
    )
    smoker = _draw_uniforms("smoker") < _to_chances(-1.1 - 0.012 * (income - 35) - 0.018 * (age - 45) + 0.35 * north)
    active = _to_chances(0.9 - 0.9 * smoker - 0.02 * (age - 45) + 0.01 * (income - 35))
    exercise = np.floor(np.clip(-np.log(_draw_uniforms("exercise")) * 5.2 * active, 0, 20)).astype(np.int64)
    bmi = np.clip(25.4 + 0.045 * (age - 45) - 0.42 * exercise + 4.1 * ndtri(_draw_uniforms("bmi")) + 1.2, 14, 60)
    sleep = np.clip(7.3 - 0.012 * (age - 45) - 0.35 * smoker + 0.9 * ndtri(_draw_uniforms("sleep")), 3, 12)
    diabetic = _draw_uniforms("diabetic") < _to_chances(-3.3 + 0.16 * (bmi - 26) + 0.035 * (age - 50))
    risk = -2.4 + 0.03 * (age - 50) + 0.8 * smoker + 0.9 * diabetic - 0.05 * exercise + 0.25 * north
    readmitted = _draw_uniforms("readmitted") < _to_chances(risk)
    columns = {
        "age": age,
        "region": region,
        "income": np.floor(income).astype(np.int64),
        "smoker": smoker,
        "exercise": exercise,
        "bmi": np.round(bmi, 1),
        "sleep": np.round(sleep, 1),
        "diabetic": diabetic,
        "readmitted": readmitted,
    }
    return FinitePopulation(_CARD, columns)


def find_true_shares(
    truth: Callable[[str], float], cells: Sequence[Sequence[str]], *, where: str | None = None
) -> list[float]:
    """Return the share of the population in each cell of a table, by the conditions of each, and in none of them.

    ``truth`` gives the mean of a query over the population, as :meth:`FinitePopulation.truth` does; cells are disjoint.
    """
    found = [truth(" AND ".join(conditions)) for conditions in cells]
    return [*found, max(0.0, (1.0 if where is None else truth(where)) - sum(found))]


def find_true_mean(
    truth: Callable[[str], float], column: str, *, low: float, high: float, conditions: Sequence[str] = ()
) -> float | None:
    """Return the mean of a column over the people who meet all conditions and have a value; None where nobody does.

    Values below ``low`` count as low and above ``high`` as high, as a mean of the curator counts them.
    """
    people, part = _find_moments(truth, column, low=low, high=high, conditions=conditions)
    return None if people <= 0 else low + (high - low) * part / people


def find_true_sum(
    truth: Callable[[str], float], column: str, *, low: float, high: float, conditions: Sequence[str] = ()
) -> float:
    """Return the sum of a column over the people who meet all conditions, divided by the number of all people."""
    people, part = _find_moments(truth, column, low=low, high=high, conditions=conditions)
    return low * people + (high - low) * part


def _find_moments(
    truth: Callable[[str], float], column: str, *, low: float, high: float, conditions: Sequence[str]
) -> tuple[float, float]:
    """Return the share of the people who meet all conditions and have a value, and their scaled sum by head of all."""
    name, among = quote_name(column), "".join(f"{condition} AND " for condition in conditions)
    people = truth(f"{among}({name} < {low!r} OR {name} >= {low!r})")
    above, inside = f"{among}{name} > {high!r}", f"{among}{name} >= {low!r}"
    part = truth(f"CASE WHEN {above} THEN 1 WHEN {inside} THEN ({name} - ({low!r})) / {high - low!r} ELSE 0 END")
    return people, part


def find_true_covariance(
    truth: Callable[[str], float], first: tuple[str, float, float], other: tuple[str, float, float]
) -> float:
    """Return the covariance of two columns, each given with the ends that its values are counted within."""
    one, two = (
        f"LEAST(GREATEST(({quote_name(name)} - ({low!r})) / {high - low!r}, 0.0), 1.0)" for name, low, high in (first, other)
    )
    scaled = truth(f"({one}) * ({two})") - truth(one) * truth(two)
    return scaled * (first[2] - first[1]) * (other[2] - other[1])


def find_true_quantile(truth: Callable[[str], float], task: QuantileTask, level: float) -> float:
    """Return the lowest point of a grid up to which at least a share ``level`` of those who meet the condition lies."""
    wanted = level * (1.0 if task.where is None else truth(task.where))
    first, last = 0, task.grid.last
    while first < last:
        middle = (first + last) // 2
        first, last = (first, middle) if truth(task.write_threshold(middle)) >= wanted else (middle + 1, last)
    return task.grid.find_number(first)


def write_rows(folder: Path, population: FinitePopulation, *, rows: int = ROWS, bits: Bits = SYSTEM) -> Path:
    """Draw rows from a population into a file, and return its place."""
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _FILE
    drawn = population.draw(rows, bits=bits)
    parquet.write_table(pa.table({name: pa.array(values) for name, values in drawn.items()}), path)
    return path


def describe_dataset(population: FinitePopulation) -> dict[str, Any]:
    """Return how the dataset is registered: its plan, and what is public about its columns."""
    columns = population.card.columns
    return {
        "path": _FILE,
        "description": _DESCRIPTION,
        "queries": QUESTIONS,
        "beta": 0.05,
        "reserve": 0.25,
        "iid": True,
        "bounds": {column.name: list(column.bounds) for column in columns if column.bounds is not None},
        "labels": {column.name: list(column.labels) for column in columns if column.labels is not None},
    }
