"""Several tables of one request, the questions declared with them, and the rows made from them (V2)."""

import itertools
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from msgspec import UNSET, UnsetType

from holdtrue.errors import InvalidParameter
from holdtrue.records.answers import Answer, Certificate, Tagged, check_finite, format_cost
from holdtrue.records.tables import LabelledCells, Table, Tabular


class Workload(LabelledCells, frozen=True):
    """Answers to questions that were declared with marginals before they were drawn, a sequence of answers with labels.

    A question is about the rows with its labels, one for each column and None where any will do. Each is answered from all
    tables that have its columns, by the inverse of their variance, and all of them are right at once with every other answer
    (V2.3). ``box_low`` and ``box_high`` are the ends of its noise box, None where the transfer theorem does not speak.
    """

    box_low: tuple[float, ...] | None = None
    box_high: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        LabelledCells.__post_init__(self)
        check_finite("workload", *(self.box_low or ()), *(self.box_high or ()))

    @property
    def names(self) -> list[str]:
        """Return each question in words."""
        pairs = [
            [f"{name} {label}" for name, label in zip(self.columns, each, strict=True) if label is not None]
            for each in self.labels
        ]
        return [", ".join(each) for each in pairs]

    @property
    def brief(self) -> str:
        """Return how many questions there are."""
        return f"{len(self):,} declared questions"

    def share(self, labels: Mapping[str, str | float | bool]) -> Answer | None:
        """Return the answer about the rows with these labels, by column; None where that was not declared."""
        wanted = tuple(labels.get(name) for name in self.columns)
        known = set(labels) <= set(self.columns) and wanted in self.labels
        return self[self.labels.index(wanted)] if known else None


class Marginals(Tagged, frozen=True):
    """Several tables of one request, a sequence of them. All cells of all of them are right at once with every other answer.

    ``certificate`` is that of the newest charge among theirs; ``repeated`` says that none was charged for this request.
    ``workload`` has the answers to questions that were declared with the tables, where there were any.
    """

    tables: tuple[Table, ...]
    certificate: Certificate
    repeated: bool = False
    workload: Workload | UnsetType = UNSET

    def __len__(self) -> int:
        return len(self.tables)

    def __getitem__(self, place: int) -> Table:
        return self.tables[place]

    def __iter__(self) -> Iterator[Table]:
        return iter(self.tables)

    def find(self, *columns: str) -> Table:
        """Return the table of these columns, in any order."""
        for table in self.tables:
            if set(table.columns) == set(columns):
                return table
        raise InvalidParameter("columns", columns, "the columns of one of these tables")

    def share(self, labels: Mapping[str, str | float | bool]) -> Answer:
        """Return the answer about the rows with these labels, by column, from the table that is surest about them. Free.

        A question of the workload has its own answer. With ``margins=True`` all of these sums are declared with the release,
        and keep the noise of their sum (V2.3); otherwise a sum over other columns has the boxes of its cells, and its
        certificate says so (U1.6).
        """
        known = [each for each in self.tables if set(labels) <= set(each.columns)]
        if not labels or not known:
            raise InvalidParameter.without_value("labels", "labels by column, of columns that are together in one table")
        found = [each.share(labels) for each in known]
        declared = None if isinstance(self.workload, UnsetType) else self.workload.share(labels)
        found += [] if declared is None else [declared]
        return min(found, key=lambda answer: (answer.interval or answer.sample_interval).width)

    @property
    def brief(self) -> str:
        """Return how many tables and cells there are."""
        return f"{len(self):,} table{'s' * (len(self) != 1)}, {sum(map(len, self.tables)):,} cells"

    def __str__(self) -> str:
        listed = "\n".join(f"  {table.brief}" for table in self.tables)
        return f"{self.brief}, each with its interval; {format_cost(self.certificate, repeated=self.repeated)}\n{listed}"


class Synthetic(Tabular, frozen=True):
    """Rows that were made from released tables, free: each different row once, and how many there are of it.

    A label is None where the column has another value than those of the tables, or none. Shares of these rows are estimates
    without an interval; ``share`` answers from ``tables``, which the rows were made from, with theirs.
    """

    columns: tuple[str, ...]
    labels: tuple[tuple[str | int | float | bool | None, ...], ...]
    counts: tuple[int, ...]
    seed: int
    tables: tuple[Table, ...]

    def __len__(self) -> int:
        return sum(self.counts)

    def share(self, labels: Mapping[str, str | float | bool]) -> Answer:
        """Return the answer about the rows with these labels, by column, from the tables; see :meth:`Marginals.share`."""
        return Marginals(self.tables, self.tables[0].certificate).share(labels)

    def estimate(self, labels: Mapping[str, str | float | bool | None]) -> float:
        """Return the share of these rows that have these labels, by column; no interval comes with it."""
        wanted = [(self.columns.index(name), label) for name, label in labels.items() if name in self.columns]
        if len(wanted) < len(labels):
            raise InvalidParameter("labels", dict(labels), f"labels of the columns {', '.join(self.columns)}")
        pairs = zip(self.labels, self.counts, strict=True)
        return sum(number for each, number in pairs if all(each[at] == label for at, label in wanted)) / len(self)

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the rows by column."""
        return {
            name: [each[place] for each, number in zip(self.labels, self.counts, strict=True) for _ in range(number)]
            for place, name in enumerate(self.columns)
        }

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write the rows into a CSV file with a header; a label that is None is an empty field."""
        import csv

        with Path(path).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            for each, number in zip(self.labels, self.counts, strict=True):
                writer.writerows(itertools.repeat(each, number))

    def to_parquet(self, path: str | PathLike[str]) -> None:
        """Write the rows into a Parquet file."""
        import pyarrow.parquet as pq  # type: ignore[import-untyped]

        pq.write_table(self.to_arrow(), path)

    @property
    def brief(self) -> str:
        """Return how many rows and columns there are."""
        return f"{len(self):,} made rows of {', '.join(self.columns)}"

    def __str__(self) -> str:
        number = len(self.tables)
        return f"{self.brief}, from {number:,} released table{'s' * (number != 1)}; costs nothing"
