"""The rows of units on Spark: executors add them up by key, and the driver puts the results in the order of units (U4).

Law: as for rows of this machine; what partitions come to is merged by + of integers, by least and by greatest, so that how
rows are spread makes no difference.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from holdtrue.engines.spark.engine import SparkEngine
from holdtrue.engines.spark.tasks import Grouping
from holdtrue.engines.unit_totals import columns_of, make_column, scale_sums, start_of, where_valid
from holdtrue.engines.units import UnitKeys
from holdtrue.queries.columns import read_stored
from holdtrue.queries.evaluator import Values
from holdtrue.queries.syntax_tree import Aggregate

__all__ = ["SparkGroups", "read_registry"]


class SparkGroups:
    """Rows that Spark reads, grouped by the key of their unit where they are."""

    def __init__(self, engine: SparkEngine, unit: str) -> None:
        self.engine = engine
        self._unit = unit
        self._kind = engine.card.column(unit).type
        self._keys = UnitKeys("integer", np.zeros(0, dtype=np.int64))

    def list_keys(self) -> npt.NDArray[Any]:
        """Return the different keys of all rows, sorted."""
        listed = [key for key in self.engine.read_keys(self._unit).column(0).to_pylist() if key is not None]
        return np.array(sorted(listed), dtype=np.int64 if self._kind == "integer" else object)

    def group(self, keys: UnitKeys) -> None:
        """Take the units that rows are to be grouped by."""
        self._keys = keys

    def reduce(self, aggregates: Sequence[Aggregate], firsts: Sequence[Values | None]) -> list[Values]:
        """Return each aggregate of all units; FIRST finds the least place itself, in the same job."""
        del firsts
        read = sorted({self._unit, *(name for found in aggregates for name in columns_of(found))})
        schema = tuple((name, self.engine.card.column(name).type) for name in read)
        table = self.engine.reduce_groups(Grouping(self._unit, tuple(aggregates), schema)).combine_chunks()
        owners = self._keys.find(read_stored(self._unit, _one_chunk(table, "key"), self._kind))
        return [
            _place_values(found, self._keys.units, owners, _one_chunk(table, f"value{number}"))
            for number, found in enumerate(aggregates)
        ]


def _one_chunk(table: Any, name: str) -> Any:  # noqa: ANN401 - of Arrow, which has no types
    column = table.column(name).combine_chunks()
    return column.chunk(0) if hasattr(column, "chunk") else column


def _place_values(found: Aggregate, units: int, owners: npt.NDArray[np.int32], column: Any) -> Values:  # noqa: ANN401 - likewise
    """Return the values of all units: those of keys that are there, and of no row for the others."""
    kind = "integer" if found.name in ("COUNT", "SUM") else found.type
    held = read_stored("value", column, kind)
    kept = (owners >= 0) & where_valid(held)
    if kind == "text":
        data: npt.NDArray[Any] = np.full(units, -1, dtype=np.int32)
    else:
        start = 0 if found.name in ("COUNT", "SUM", "FIRST") else start_of(found)
        data = np.full(units, start, dtype=np.float64 if kind == "real" else np.int64)
    data[owners[kept]] = held.data[kept]
    if found.name != "FIRST":
        return make_column(scale_sums(found, data) if found.name == "SUM" else data)
    valid = np.zeros(units, dtype=np.bool_)
    valid[owners[kept]] = True
    return Values(data, valid, held.dictionary)


def read_registry(engine: SparkEngine) -> dict[str, tuple[str, Values]]:
    """Return all columns of a registry in memory, each with its type."""
    table = engine.read_all()
    named = [(column.name, column.type) for column in engine.card.columns]
    return {name: (kind, read_stored(name, _one_chunk(table, name), kind)) for name, kind in named}
