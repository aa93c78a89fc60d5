"""The engine for units, persons or clusters, that own rows in one table or in several (U4).

Its rows are the units. A column of a registry has one value for each; an aggregate over a unit's rows is one more column,
made by a pass over the table when it is first asked about and kept while there is room. From there on units are rows like
any others: the same bitmaps, the same sums.

Law: the columns depend on which rows each unit owns, not on their order, on how files or partitions hold them, or on the
engine that reads them. Rows without a key, or with one that no unit has, belong to no unit.
"""

import hashlib
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from holdtrue.codec import encode
from holdtrue.engines.arrays import ArrayEngine
from holdtrue.engines.base import Engine, LocalEngine, StreamedEngine, join_pieces
from holdtrue.engines.bitmaps import MEMORY, Progress
from holdtrue.engines.unit_totals import columns_of, find_least_place, make_column, start_total, where_valid
from holdtrue.errors import InsufficientSamples, RequestError, UnknownColumn
from holdtrue.kernels import Integers
from holdtrue.queries.cards import Card, UnitTable
from holdtrue.queries.evaluator import Values
from holdtrue.queries.features import Feature, UnitFeature
from holdtrue.queries.pairs import find_own_aggregates
from holdtrue.queries.scalars import MOST_ROWS
from holdtrue.queries.syntax_tree import Aggregate, Query, list_aggregates

__all__ = ["GroupedRows", "LocalGroups", "UnitEngine", "UnitKeys", "open_units"]

_KEY_TYPES = ("integer", "text")


class UnitKeys:
    """The keys of all units, all different, in the order of the units."""

    def __init__(self, kind: str, keys: npt.NDArray[Any]) -> None:
        self.kind = kind
        self._order = np.argsort(keys, kind="stable") if kind == "integer" else None
        self._sorted = keys if self._order is None else keys[self._order]
        self._places = {} if kind == "integer" else {text: place for place, text in enumerate(keys.tolist())}
        self.units = len(keys)

    def find(self, cells: Values) -> npt.NDArray[np.int32]:
        """Return the unit that each row belongs to, -1 for none."""
        there = where_valid(cells)
        if cells.dictionary is not None:
            places = np.array([*(self._places.get(text, -1) for text in cells.dictionary), -1], dtype=np.int32)
            return places[np.where(there, cells.data, -1)]
        found = np.searchsorted(self._sorted, cells.data)
        found[found == self.units] = 0
        there = there & (self._sorted[found] == cells.data)
        return np.where(there, found if self._order is None else self._order[found], -1).astype(np.int32)


class GroupedRows(Protocol):
    """The rows of one table, by the unit that owns them."""

    @property
    def engine(self) -> Engine:
        """Return the engine that reads the rows."""
        ...

    def list_keys(self) -> npt.NDArray[Any]:
        """Return the different keys of all rows, sorted: whole numbers, or texts."""
        ...

    def group(self, keys: UnitKeys) -> None:
        """Take the units that rows are to be grouped by."""
        ...

    def reduce(self, aggregates: Sequence[Aggregate], firsts: Sequence[Values | None]) -> list[Values]:
        """Return each aggregate of all units; for FIRST, ``firsts`` has the least place of each unit's rows."""
        ...


class LocalGroups:
    """Rows of this machine: each knows the number of its unit, and a pass over them adds to totals of all units."""

    def __init__(self, engine: StreamedEngine, unit: str) -> None:
        self.engine = engine
        self._unit = unit
        self._owners: npt.NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._units = 0

    def list_keys(self) -> npt.NDArray[Any]:
        """Return the different keys of all rows, sorted."""
        found: list[npt.NDArray[Any]] = []
        for cells in self._read_keys():
            used = np.unique(cells.data[where_valid(cells)])
            words = cells.dictionary
            found.append(used if words is None else np.array([words[place] for place in used.tolist()], dtype=object))
        listed = np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
        return np.unique(listed) if listed.dtype.kind == "i" else np.array(sorted(set(listed.tolist())), dtype=object)

    def group(self, keys: UnitKeys) -> None:
        """Find the unit of each row."""
        found = [keys.find(cells) for cells in self._read_keys()]
        self._owners = np.concatenate(found) if found else self._owners
        self._units = keys.units

    def _read_keys(self) -> Iterator[Values]:
        return (cells[self._unit] for cells, _ in self.engine.read_pieces([self._unit]))

    def reduce(self, aggregates: Sequence[Aggregate], firsts: Sequence[Values | None]) -> list[Values]:
        """Return each aggregate of all units, in one pass."""
        totals = [start_total(aggregate, self._units, first) for aggregate, first in zip(aggregates, firsts, strict=True)]
        read = sorted({name for aggregate in aggregates for name in columns_of(aggregate)}) or [self._unit]
        for owners, cells in self._read_owned(read):
            for total in totals:
                total.add(owners, cells)
        return [total.finish() for total in totals]

    def _read_owned(self, read: Sequence[str]) -> Iterator[tuple[npt.NDArray[np.int32], Mapping[str, Values]]]:
        start = 0
        for cells, rows in self.engine.read_pieces(read):
            yield self._owners[start : start + rows], cells
            start += rows


class StreamedGroups(LocalGroups):
    """Rows in an order that changes from pass to pass, so that each pass reads their keys again."""

    def group(self, keys: UnitKeys) -> None:
        """Keep the units."""
        self._keys, self._units = keys, keys.units

    def _read_owned(self, read: Sequence[str]) -> Iterator[tuple[npt.NDArray[np.int32], Mapping[str, Values]]]:
        for cells, _ in self.engine.read_pieces(sorted({*read, self._unit})):
            yield self._keys.find(cells[self._unit]), cells


class UnitEngine(ArrayEngine):
    """Units as rows: the columns of a registry in memory, and aggregates over tables as further columns."""

    def __init__(
        self, card: Card, table: Mapping[str, tuple[str, Values]], groups: Mapping[str, GroupedRows], *, memory: int = MEMORY
    ) -> None:
        self._groups = groups
        self._aggregates: dict[str, None] = {}
        self._readers: Counter[str] = Counter()
        self._most_kept = max(1, memory // 4 // (9 * max(1, card.rows)))
        self._reducing = threading.Lock()
        super().__init__(card, table, memory=memory // 2)

    def sums(self, queries: Sequence[Query], *, bits: int, progress: Progress | None = None) -> list[int]:
        """Return, for each query, the sum over all units of its value as a multiple of 2^-bits; see :class:`LocalEngine`."""

        def take() -> list[int]:
            with self._hold_aggregates(queries):
                return super(UnitEngine, self).sums(queries, bits=bits, progress=progress)

        return self._run_masked(take)

    def sum_pairs(self, query: Query, order: Integers, *, bits: int, progress: Progress | None = None) -> int:
        """Return the sum of an expression in two units over an order of them; see :class:`LocalEngine`."""

        def take() -> int:
            wanted = {found.column: found for _, found in find_own_aggregates(query).values()}
            with self._hold_columns(set(wanted), wanted):
                return super(UnitEngine, self).sum_pairs(query, order, bits=bits, progress=progress)

        return self._run_masked(take)

    sum_cells = Engine.sum_cells  # columns of cells may be aggregates, which have no codes

    def fingerprint(self, key: bytes, *, progress: Progress | None = None) -> bytes:
        """Return 32 bytes for the names of the unit and its tables, and 32 for each table, the rows of each in any order."""
        own = super().fingerprint(key, progress=progress) if self.card.columns else b""
        named = hashlib.sha256(encode({"unit": self.card.unit, "tables": list(self._groups)}).encode()).digest()
        return b"".join([named, own, *(group.engine.fingerprint(key) for group in self._groups.values())])

    def _read_rows(self, features: Sequence[Feature], progress: Progress | None) -> Iterator[list[npt.NDArray[Any]]]:
        read = [item.query if isinstance(item, UnitFeature) else item for item in features]
        with self._hold_aggregates([item for item in read if isinstance(item, Query)]):
            yield from super()._read_rows(features, progress)

    def _hold_aggregates(self, queries: Sequence[Query]) -> AbstractContextManager[None]:
        """Have the columns of aggregates that queries read, and keep them until the end."""
        names = {name for query in queries for name in query.columns}
        return self._hold_columns(names, {found.column: found for query in queries for found in list_aggregates(query.tree)})

    @contextmanager
    def _hold_columns(self, names: set[str], wanted: Mapping[str, Aggregate]) -> Iterator[None]:
        """Have columns, some of them aggregates, and keep them until the end.

        Where there is no room, those made longest ago are dropped, but none that another call reads.
        """
        with self._lock:
            self._readers.update(names)
            lacking = not names <= self._table.keys()
        try:
            if lacking:
                with self._reducing:
                    self._make_aggregates(wanted)
            yield
        finally:
            with self._lock:
                self._readers -= Counter(names)

    def _make_aggregates(self, wanted: Mapping[str, Aggregate]) -> None:
        missing = [found for name, found in wanted.items() if name not in self._table]
        with self._lock:
            idle = [name for name in self._aggregates if name not in self._readers]
            for name in idle[: max(0, len(self._aggregates) + len(missing) - self._most_kept)]:
                del self._aggregates[name], self._table[name]
        for table, group in self._groups.items():
            asked = [found for found in missing if found.table == table]
            made = dict(zip([found.column for found in asked], _reduce(group, asked), strict=True))
            with self._lock:
                self._table.update(made)
                self._aggregates.update(dict.fromkeys(made))

    def _cut_chunk(self, names: Sequence[str], start: int) -> dict[str, Values]:
        # Without a registry there may be no column at all, and a query such as TRUE names none.
        if not names and not self._table:
            return {"": make_column(np.zeros(min(self.rows - start, 1 << 16), dtype=np.int64))}
        return super()._cut_chunk(names, start)

    def _release_rows(self) -> None:
        super()._release_rows()
        for group in self._groups.values():
            group.engine.close()


def _reduce(group: GroupedRows, aggregates: Sequence[Aggregate]) -> list[Values]:
    """Return aggregates of all units; FIRST in a second pass, since it needs the least place of each unit's rows."""
    if not aggregates:
        return []
    firsts = [found for found in aggregates if found.name == "FIRST"]
    others = [found for found in aggregates if found.name != "FIRST"]
    least = [find_least_place(found) for found in firsts]
    reduced = group.reduce([*others, *least], [None] * (len(others) + len(least)))
    made = dict(zip([found.column for found in others], reduced, strict=False))
    if firsts:
        chosen = group.reduce(firsts, reduced[len(others) :])
        made.update(zip([found.column for found in firsts], chosen, strict=True))
    return [made[found.column] for found in aggregates]


def open_units(unit: str, registry: Engine | None, tables: Mapping[str, Engine], *, memory: int = MEMORY) -> UnitEngine:
    """Return an engine over the units of a registry, which has a row for each, or else of the keys of the only table.

    Takes over all engines and closes them with its own. RequestError, for the custodian: a key that is not there, NULL in
    every row of a table, twice in the registry, or of different types.
    """
    named = list(tables.items()) + ([] if registry is None else [("", registry)])
    kinds = {_check_key(engine, unit, name) for name, engine in named}
    if len(kinds) > 1:
        message = f"{unit!r} is a whole number in one table and text in another; give types= to read it alike"
        raise RequestError(message)
    (kind,) = kinds
    groups = {name: group_rows(engine, unit) for name, engine in tables.items()}
    held: dict[str, tuple[str, Values]] = {}
    if registry is None:
        (group,) = groups.values()
        keys = UnitKeys(kind, group.list_keys())
        if not keys.units:
            message = f"{unit!r} is NULL in every row, so there are no units"
            raise InsufficientSamples(message, required=1)
    else:
        held = read_registry(registry)
        keys = UnitKeys(kind, _check_registry_keys(unit, held[unit][1]))
        _check_tables(unit, groups)
        registry.close()
    for group in groups.values():
        group.group(keys)
    known = () if registry is None else registry.card.columns
    listed = tuple(UnitTable(name, engine.card.columns) for name, engine in tables.items())
    made = UnitEngine(Card(known, keys.units, unit, listed), held, groups, memory=memory)
    made.ordered = registry is not None and registry.ordered
    if all(engine.files for _, engine in named):  # else what the tables hold cannot be known without reading them
        made.files = tuple(file for _, engine in named for file in engine.files)
        made.reading = encode([engine.reading for _, engine in named])
        made.file_tables = tuple(name for name, engine in named for _ in engine.files)
    return made


def _check_key(engine: Engine, unit: str, name: str) -> str:
    """Return the type of the key; refuse a table without it."""
    where = f"the table {name!r}" if name else "the data"
    if unit not in engine.card:
        message = f"{where} must have a column {unit!r}, the key of units"
        raise UnknownColumn(message)
    kind = engine.card.column(unit).type
    if kind not in _KEY_TYPES:
        message = f"{unit!r} of {where} is of type {kind}; the key of units is a whole number or text"
        raise RequestError(message)
    if engine.card.rows > MOST_ROWS:
        message = f"{where} must have fewer than 2^31 rows"
        raise RequestError(message)
    return kind


def _check_tables(unit: str, groups: Mapping[str, GroupedRows]) -> None:
    for name, group in groups.items():
        if group.engine.card.rows and not len(group.list_keys()):
            message = f"{unit!r} is NULL in every row of the table {name!r}"
            raise RequestError(message)


def group_rows(engine: Engine, unit: str) -> GroupedRows:
    """Return the rows of an engine to be grouped by unit."""
    if isinstance(engine, LocalEngine):
        return LocalGroups(engine, unit)
    if isinstance(engine, StreamedEngine):
        return StreamedGroups(engine, unit)
    from holdtrue.engines.spark.groups import SparkGroups

    return SparkGroups(engine, unit)  # type: ignore[arg-type]  # the only other engine


def _check_registry_keys(unit: str, cells: Values) -> npt.NDArray[Any]:
    if not where_valid(cells).all():
        message = f"{unit!r} is NULL in a row of the registry; every unit needs a key"
        raise RequestError(message)
    data = cells.data
    if len(np.unique(data)) < len(data):
        message = f"{unit!r} has a key twice; the registry needs one row for each unit, and rows go into tables="
        raise RequestError(message)
    if cells.dictionary is None:
        return data
    return np.array([cells.dictionary[place] for place in data.tolist()], dtype=object)


def read_registry(engine: Engine) -> dict[str, tuple[str, Values]]:
    """Return all columns of an engine in memory, each with its type."""
    if not isinstance(engine, StreamedEngine):
        from holdtrue.engines.spark import groups

        return groups.read_registry(engine)  # type: ignore[arg-type]  # the only other engine
    named = [(column.name, column.type) for column in engine.card.columns]
    pieces = [cells for cells, _ in engine.read_pieces([name for name, _ in named])]
    return {name: (kind, join_pieces([cells[name] for cells in pieces])) for name, kind in named}
