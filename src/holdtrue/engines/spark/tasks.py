"""What runs on Spark's executors: a partition of rows in, integers or the bytes of a member out.

Law: what a task returns depends on the rows of its partition and on nothing else, so that a task may fail, be tried again,
or run twice, and the result is the same. A task that fails says one fixed text: Spark writes it to the logs of executors and
driver, and no row gets there through us.
"""

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.engines.base import tally_rows
from holdtrue.engines.fingerprints import Fingerprint
from holdtrue.engines.unit_totals import find_least_place, start_total, where_valid
from holdtrue.ensembles.parts import hash_rows
from holdtrue.ensembles.saving import member_to_bytes
from holdtrue.ensembles.training import Recipe, fit_part
from holdtrue.hypotheses.classes import HypothesisClass
from holdtrue.queries.cards import Card
from holdtrue.queries.columns import read_stored
from holdtrue.queries.evaluator import Values
from holdtrue.queries.features import Feature, Keys, columns_of, read_features
from holdtrue.queries.syntax_tree import Aggregate

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

__all__ = [
    "FINGERPRINT",
    "MEMBERS",
    "POSITION",
    "TALLY",
    "Arrays",
    "Fingerprinting",
    "Fitting",
    "Grouping",
    "Merging",
    "Naming",
    "Reading",
    "Tallying",
    "check_versions",
    "list_versions",
]

Batches: TypeAlias = "Iterator[pa.RecordBatch]"
Arrays: TypeAlias = list[npt.NDArray[Any]]

FINGERPRINT = "rows bigint, left binary, right binary"
TALLY = "rows bigint, totals binary"
MEMBERS = "part bigint, rows bigint, member binary"
POSITION = "holdtrue_position"
_FAILED = "a task of Holdtrue failed"
_WIDTH = 16


def list_versions() -> dict[str, str]:
    """Return what must be the same on the driver and on executors, for equal integers and equal members."""
    import cryptography
    import pyarrow as pa

    major, minor, _ = platform.python_version_tuple()
    return {
        "python": f"{major}.{minor}",
        "holdtrue": version("holdtrue"),
        "numpy": np.__version__,
        "pyarrow": pa.__version__,
        "cryptography": cryptography.__version__,
    }


def check_versions(expected: dict[str, str]) -> None:
    """Fail a task on an executor that joined with other versions than the driver's."""
    if list_versions() != expected:
        raise RuntimeError(_FAILED)


def _mask_errors(task: Callable[..., Any]) -> Callable[..., Any]:
    """Make the generator of a task fail with a fixed text, whatever goes wrong."""

    @wraps(task)
    def run(*arguments: Any) -> Any:  # noqa: ANN401 - what Spark gives
        try:
            yield from task(*arguments)
            failed = False
        except Exception:  # noqa: BLE001 - raised again below, outside, so that it carries no context
            failed = True
        if failed:
            raise RuntimeError(_FAILED)

    return run


@dataclass(frozen=True)
class Fingerprinting:
    """Adds up the rows of a partition under the secret key."""

    key: bytes
    schema: tuple[tuple[str, str], ...]

    @_mask_errors
    def __call__(self, batches: Batches) -> Batches:
        """Yield one row: the totals of the partition."""
        import pyarrow as pa

        taken = Fingerprint(self.key, schema=self.schema)
        for batch in batches:
            taken.add(_read_cells(batch, self.schema), rows=batch.num_rows)
        rows, *sums = taken.totals()
        left, right = (pa.array([half.to_bytes(_WIDTH, "little")]) for half in sums)
        yield pa.record_batch([pa.array([rows]), left, right], names=["rows", "left", "right"])


@dataclass(frozen=True)
class Reading:
    """Reads features of rows as learners see them, by the rules of every other engine."""

    card: Card
    features: tuple[Feature, ...]
    key: str | None = None

    @property
    def names(self) -> list[str]:
        """Return the columns that are read: one at least, so that rows can be counted."""
        keyed = [] if self.key is None else [Keys(self.key)]
        return columns_of([*self.features, *keyed]) or [self.card.columns[0].name]

    def read_arrays(self, batch: "pa.RecordBatch") -> Arrays:
        """Return one array per feature."""
        schema = [(name, self.card.column(name).type) for name in self.names]
        values = dict(zip(self.names, _read_cells(batch, schema), strict=True))
        return read_features(self.features, values, rows=batch.num_rows)

    @_mask_errors
    def __call__(self, batches: Batches) -> Batches:
        """Yield for each row its position, the hash of its key or 0, and its features as doubles."""
        import pyarrow as pa

        names = [POSITION, *(f"f{number}" for number in range(len(self.features)))]
        for batch in batches:
            place = batch.schema.get_field_index(POSITION)
            columns = [pa.array(array.astype(np.float64)) for array in self.read_arrays(batch)]
            yield pa.record_batch([self._hash_keys(batch) if place < 0 else batch.column(place), *columns], names=names)

    def _hash_keys(self, batch: "pa.RecordBatch") -> "pa.Array":
        import pyarrow as pa

        if self.key is None:
            return pa.array(np.zeros(batch.num_rows, dtype=np.int64))
        return pa.array(Reading(self.card, (Keys(self.key),)).read_arrays(batch)[0])


@dataclass(frozen=True)
class Naming:
    """Puts the hash of what a row holds in the place of the number of its copy."""

    @_mask_errors
    def __call__(self, batches: Batches) -> Batches:
        """Yield the rows as they came, each with its hash."""
        import pyarrow as pa

        for batch in batches:
            names = batch.schema.names
            place = names.index(POSITION)
            columns = [batch.column(number) for number in range(len(names))]
            held = [column.to_numpy(zero_copy_only=False) for number, column in enumerate(columns) if number != place]
            columns[place] = pa.array(hash_rows(held, copies=columns[place].to_numpy(zero_copy_only=False)))
            yield pa.record_batch(columns, names=names)


@dataclass(frozen=True)
class Tallying:
    """Adds the rows of a partition to a class's totals."""

    reading: Reading
    hypotheses: HypothesisClass

    @_mask_errors
    def __call__(self, batches: Batches) -> Batches:
        """Yield one row: how many rows there were, and the totals as bytes."""
        totals, rows = self.hypotheses.make_totals(), 0
        for batch in batches:
            tally_rows(self.hypotheses, self.reading.read_arrays(batch), totals)
            rows += batch.num_rows
        yield _make_totals(rows, totals)


@dataclass(frozen=True)
class Merging:
    """Adds up totals of partitions, so that the driver has few to add."""

    hypotheses: HypothesisClass

    @_mask_errors
    def __call__(self, batches: Batches) -> Batches:
        """Yield one row: the sum of all that came."""
        totals, rows = self.hypotheses.make_totals(), 0
        for batch in batches:
            rows += sum(batch.column(0).to_pylist())
            for content in batch.column(1):
                totals += np.frombuffer(content.as_buffer(), dtype=totals.dtype)
        yield _make_totals(rows, totals)


@dataclass(frozen=True)
class Fitting:
    """Trains the member of one part from its rows, put back into their order."""

    recipe: Recipe

    def __call__(self, key: "tuple[pa.Scalar, ...]", table: "pa.Table") -> "pa.Table":
        """Return one row: the part, how many rows it has, and its member as bytes."""
        import pyarrow as pa

        try:
            part = int(key[0].as_py())
            listed = [name for name in table.column_names if name.startswith("f")]
            ordered = table.sort_by([(name, "ascending") for name in (POSITION, *listed)])
            arrays = [ordered.column(name).to_numpy() for name in listed]
            *columns, y = arrays
            member = member_to_bytes(fit_part(self.recipe, np.column_stack(columns), self.recipe.read_goal(y), part=part))
            names = ["part", "rows", "member"]
            return pa.table([pa.array([part]), pa.array([ordered.num_rows]), pa.array([member], pa.binary())], names=names)
        except Exception:  # noqa: BLE001, S110 - raised again below, outside, so that it carries no context
            pass
        raise RuntimeError(_FAILED)


@dataclass(frozen=True)
class Grouping:
    """Adds rows to the aggregates of their units: of each batch one row per key, to be merged by key."""

    unit: str
    aggregates: tuple[Aggregate, ...]
    schema: tuple[tuple[str, str], ...]

    @property
    def output(self) -> str:
        """Return the columns of what is yielded: the key, its rows, and each aggregate; FIRST has its place before it."""
        kinds = {"integer": "bigint", "real": "double", "text": "string", "date": "bigint", "timestamp": "bigint"}
        listed = [f"key {kinds[dict(self.schema)[self.unit]]}", "rows bigint"]
        for number, found in enumerate(self.aggregates):
            if found.order is not None:
                listed.append(f"place{number} {kinds[found.order.type]}, lacks{number} boolean")
            listed.append(f"value{number} {'bigint' if found.name == 'SUM' else kinds[found.type]}")
        return ", ".join(listed)

    @_mask_errors
    def __call__(self, batches: Batches) -> Batches:
        """Yield the keys of each batch with what their rows come to."""
        for batch in batches:
            if batch.num_rows:
                yield self._group_batch(dict(zip(dict(self.schema), _read_cells(batch, self.schema), strict=True)))

    def _group_batch(self, cells: dict[str, Values]) -> "pa.RecordBatch":
        import pyarrow as pa

        keys = cells[self.unit]
        there = where_valid(keys)
        used, places = np.unique(keys.data[there], return_inverse=True)
        owners = np.full(len(there), used.size, dtype=np.int32)  # the last group is of rows without a key
        owners[there] = places
        groups = used.size + (not there.all())
        known = used.tolist() if keys.dictionary is None else [keys.dictionary[place] for place in used.tolist()]
        kind = pa.int64() if keys.dictionary is None else pa.string()
        columns = [pa.array([*known, None][:groups], kind), pa.array(np.bincount(owners, minlength=groups))]
        for found in self.aggregates:
            first = None
            if found.order is not None:
                least = start_total(find_least_place(found), groups)
                least.add(owners, cells)
                first = least.add_up()
            total = start_total(found, groups, first)
            total.add(owners, cells)
            values = total.add_up()
            if first is not None:
                columns += [pa.array(first.data), pa.array(~where_valid(values))]
            columns.append(_write_values(values))
        return pa.record_batch(columns, names=[part.split()[0] for part in self.output.split(", ")])


def _write_values(values: Values) -> "pa.Array":
    """Return values as Arrow has them, NULL where there is none."""
    import pyarrow as pa

    there = where_valid(values)
    if values.dictionary is None:
        return pa.array(values.data, mask=~there)
    return pa.array(
        [values.dictionary[place] if here else None for place, here in zip(values.data, there, strict=True)], pa.string()
    )


def _read_cells(batch: "pa.RecordBatch", schema: Sequence[tuple[str, str]]) -> list[Values]:
    found = (batch.column(batch.schema.get_field_index(name)) for name, _ in schema)
    return [read_stored(name, column, kind) for (name, kind), column in zip(schema, found, strict=True)]


def _make_totals(rows: int, totals: npt.NDArray[Any]) -> "pa.RecordBatch":
    import pyarrow as pa

    return pa.record_batch([pa.array([rows]), pa.array([totals.tobytes()], pa.binary())], names=["rows", "totals"])
