"""The engine for a table in PostgreSQL: the server adds up, and integers come back.

A question is one aggregation over all rows, without a filter, in a read-only transaction with one snapshot; its text is our
own emitter's. What needs rows in this process (fingerprints, learning, training, pairs) reads the columns it needs once, as
a stream. No word of the server's leaves: its errors quote cells.
"""

import io
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

from holdtrue.engines.base import FAILED, StreamedEngine
from holdtrue.engines.bitmaps import Progress
from holdtrue.errors import InvalidParameter, MissingExtra, ReleaseError, RequestError
from holdtrue.queries.cards import Card, Declared
from holdtrue.queries.columns import check_names, choose_type, open_masked, read_stored, type_of_decimal
from holdtrue.queries.emitters import Postgres, emit_postgres
from holdtrue.queries.evaluator import Values
from holdtrue.queries.syntax_tree import Query, checked_bits

if TYPE_CHECKING:
    import psycopg

__all__ = ["PostgresEngine", "TableAddress", "holds_table", "open_table_at", "read_address"]

T = TypeVar("T")

_DIALECT = Postgres()
_NO_TABLE: Final = "name one table in the address: postgresql://reader@host/clinic?table=people, or table=schema.people"
_EXPRESSIONS = 64
_BLOCK = 1 << 24
_OLDEST: Final = 140_000
# A name that no column of a card can have, since it cannot be printed.
_STATE: Final = '"\x01"'
_SETTINGS: Final = (
    "SET search_path = pg_catalog; SET default_transaction_read_only = on; SET datestyle = 'ISO, YMD'; "
    "SET timezone = 'UTC'; SET extra_float_digits = 1; SET client_encoding = 'UTF8'; SET jit = off; "
    "SET standard_conforming_strings = on; SET transform_null_equals = off; SET client_min_messages = error"
)
_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_RELATION: Final = """
SELECT n.nspname, c.relname, c.relkind FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = pg_catalog.to_regclass(%s) AND c.relkind IN ('r', 'p', 'm', 'v', 'f')
"""
_COLUMNS: Final = """
SELECT a.attname, b.typname, CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE a.atttypmod END,
  pg_catalog.format_type(a.atttypid, a.atttypmod), b.typtype = 'e' OR n.nspname = 'pg_catalog'
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
JOIN pg_catalog.pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END
JOIN pg_catalog.pg_namespace n ON n.oid = b.typnamespace
WHERE a.attrelid = pg_catalog.to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_TYPES: Final = {
    "bool": "boolean",
    "int2": "integer",
    "int4": "integer",
    "int8": "integer",
    "float4": "real",
    "float8": "real",
    "text": "text",
    "varchar": "text",
    "bpchar": "text",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamp",
}
_MOMENT = (
    "(CASE WHEN {0} >= TIMESTAMP '0001-01-01' AND {0} < TIMESTAMP '10000-01-01' "
    "THEN CAST(EXTRACT(EPOCH FROM {0}) * 1000000 AS BIGINT) END)"
)
# A number that no double holds would raise: beyond the ends it is infinite, and below half of the least one it is zero.
_REAL_OF_NUMERIC = (
    f"(CASE WHEN {{0}} = 'NaN' THEN NULL WHEN abs({{0}}) >= {2**1024 - 2**970} "
    "THEN CAST(sign({0}) AS DOUBLE PRECISION) * 'Infinity' "
    "WHEN abs({0}) < 2.4703282292062328e-324 THEN 0 ELSE CAST({0} AS DOUBLE PRECISION) END)"
)
# What a stored column is as a column of the card, by its own type and the card's.
_SHAPES: Final = {
    ("bool", "integer"): "CAST(CAST({0} AS INTEGER) AS BIGINT)",
    ("bool", "real"): "CAST(CAST({0} AS INTEGER) AS DOUBLE PRECISION)",
    ("numeric", "integer"): "(CASE WHEN {0} <> 'NaN' THEN CAST({0} AS BIGINT) END)",
    ("numeric", "real"): _REAL_OF_NUMERIC,
    ("date", "date"): "(CASE WHEN {0} >= DATE '0001-01-01' AND {0} <= DATE '9999-12-31' "
    "THEN CAST({0} - DATE '1970-01-01' AS BIGINT) END)",
    ("timestamp", "timestamp"): _MOMENT,
    ("timestamptz", "timestamp"): _MOMENT.format("({0} AT TIME ZONE 'UTC')"),
}


@dataclass(frozen=True, slots=True)
class TableAddress:
    """Where a table is: the database's address, without a password, and the table's name, perhaps after its schema's."""

    database: str
    table: str

    @property
    def quoted(self) -> str:
        """Return the table's name as SQL has it."""
        return ".".join(map(_DIALECT.quote_name, self.table.split(".")))


def read_address(data: object) -> TableAddress | None:
    """Return the table that an address means, such as postgresql://reader@host/clinic?table=people; None for other data.

    Raises RequestError where it names no table, and InvalidParameter where it holds a password: addresses are shown.
    """
    if not isinstance(data, str) or not re.match(r"postgres(ql)?://", data):
        return None
    try:
        parts = urlsplit(data)
        said = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        secret = parts.password is not None or any("password" in name for name in said)
    except ValueError:
        raise InvalidParameter.without_value(
            "data", "an address such as postgresql://reader@host/clinic?table=people"
        ) from None
    if secret:
        way = "leave the password out of the address: put it into ~/.pgpass, or into the environment as PGPASSWORD"
        raise InvalidParameter.saying("data", way)
    table = said.pop("table", [""])
    if len(table) != 1 or not re.fullmatch(r"[^.\0]+(\.[^.\0]+)?", table[0]):
        raise RequestError(_NO_TABLE)
    rest = "&".join(f"{quote(name)}={quote(value, safe='')}" for name, values in said.items() for value in values)
    return TableAddress(urlunsplit(parts._replace(query=rest, fragment="")), table[0])


def holds_table(database: str, address: TableAddress) -> bool:
    """Return whether a table is in the database of this address, however both are written."""
    other = read_address(f"{database}{'&' if '?' in database else '?'}table={quote(address.table)}")
    return other == address


class PostgresEngine(StreamedEngine):
    """Rows that PostgreSQL adds up where they are.

    Law: as every engine's. Each call has one snapshot, in which how many rows there are and the sum of the numbers of the
    transactions that wrote them (of hashes of rows, where a view has none) are what they were when the table was opened: a
    row that was replaced since has a later number. A connection that was cut is made again, once in a call.
    """

    ordered = False

    def __init__(self, card: Card, address: TableAddress, source: str, state: tuple[int, int]) -> None:
        super().__init__(card)
        self._address, self._source, self._state = address, source, state
        self._statements = threading.RLock()
        self._connection: psycopg.Connection[Any] | None = None

    def sums(self, queries: Sequence[Query], *, bits: int, progress: Progress | None = None) -> list[int]:
        """Return for each query the sum over all rows of its value as a multiple of 2^-bits, many of them in one pass."""
        checked_bits(bits)
        asked = list(queries)

        def take() -> list[int]:
            sums: list[int] = []
            for first in range(0, len(asked), _EXPRESSIONS):
                some = asked[first : first + _EXPRESSIONS]
                selected = [f"SUM({emit_postgres(query, 0 if query.boolean else bits)})" for query in some]
                found = self._fetch_row(selected)
                sums += [int(value or 0) << (bits if query.boolean else 0) for query, value in zip(some, found, strict=True)]
                if progress is not None:
                    progress(len(sums) / len(asked))
            return sums

        return self._run_masked(take)

    def _fetch_row(self, selected: Sequence[str]) -> tuple[Any, ...]:
        """Return aggregates over all rows, in the snapshot in which they are seen to be unchanged."""
        statement = f"SELECT {', '.join([_count_state(), *selected])} FROM {self._source}"  # noqa: S608 - our own text

        def fetch(connection: "psycopg.Connection[Any]") -> tuple[Any, ...]:
            found = connection.execute(statement.encode()).fetchone() or ()
            self._check_state(found[:2])
            return tuple(found[2:])

        with self._statements:
            for last in (False, True):
                if self._connection is None or self._connection.closed:
                    self._connection = _connect(self._address)
                try:
                    return _read_snapshot(self._connection, fetch)
                except Exception:
                    if last or not self._connection.closed:
                        raise
        raise ReleaseError(FAILED)

    def _check_state(self, found: Sequence[Any]) -> None:
        if tuple(int(each or 0) for each in found) != self._state:
            raise ReleaseError(FAILED)

    def _yield_pieces(self, names: Sequence[str]) -> Iterator[tuple[list[Values], int]]:
        """Yield all rows as a stream over a connection of its own, so that questions go on meanwhile."""
        kinds = [self.card.column(name).type for name in names]
        listed = ", ".join(map(_DIALECT.quote_name, names))
        connection, seen = _connect(self._address), 0
        try:
            connection.execute(_BEGIN)
            state = connection.execute(f"SELECT {_count_state()} FROM {self._source}".encode()).fetchone() or ()  # noqa: S608 - our own text
            self._check_state(state)
            if not self.rows:
                return
            statement = f"COPY (SELECT {listed} FROM {self._source}) TO STDOUT (FORMAT csv)"  # noqa: S608 - likewise
            with connection.cursor().copy(statement.encode()) as copy:
                for batch in _read_csv(copy, kinds):
                    read = zip(names, batch.columns, kinds, strict=True)
                    yield [read_stored(name, column, kind) for name, column, kind in read], batch.num_rows
                    seen += batch.num_rows
        finally:
            connection.close()
        if seen != self.rows:
            raise ReleaseError(FAILED)

    def _release_rows(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _count_state() -> str:
    return f"COUNT(*), SUM({_STATE})"


class _CopiedBytes(io.RawIOBase):
    """What a COPY sends, as a file."""

    def __init__(self, copy: "psycopg.Copy") -> None:
        self._copy = copy
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - whatever can be written to
        room, filled = memoryview(buffer).cast("B"), 0
        while filled < len(room):
            self._left = self._left or memoryview(self._copy.read())
            if not self._left:
                break
            size = min(len(self._left), len(room) - filled)
            room[filled : filled + size] = self._left[:size]
            self._left = self._left[size:]
            filled += size
        return filled


def _read_csv(copy: "psycopg.Copy", kinds: Sequence[str]) -> Iterator[Any]:
    """Yield the rows of a COPY in pieces; NULL is an empty cell without quotes."""
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import csv

    types = {"boolean": pa.bool_(), "real": pa.float64(), "text": pa.string()}
    names = [f"c{number}" for number in range(len(kinds))]
    stream = io.BufferedReader(_CopiedBytes(copy), 1 << 20)
    reader = csv.open_csv(
        stream,
        read_options=csv.ReadOptions(column_names=names, block_size=_BLOCK, use_threads=False),
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types={name: types.get(kind, pa.int64()) for name, kind in zip(names, kinds, strict=True)},
            null_values=[""],
            true_values=["t"],
            false_values=["f"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    yield from (batch for batch in reader if batch.num_rows)


def _connect(address: TableAddress) -> "psycopg.Connection[Any]":
    """Return a connection that reads only, and whose settings are those that the emitter's text is read under."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    given: dict[str, Any] = {"connect_timeout": 10, "application_name": "holdtrue", **conninfo_to_dict(address.database)}
    connection = psycopg.connect(**given, autocommit=True)
    try:
        connection.execute(_SETTINGS)
    except BaseException:
        connection.close()
        raise
    return connection


def _read_snapshot(connection: "psycopg.Connection[Any]", action: Callable[["psycopg.Connection[Any]"], T]) -> T:
    """Return what an action finds in one snapshot; the connection is closed where it fails."""
    try:
        connection.execute(_BEGIN)
        found = action(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return found


def open_table_at(data: str, *, declared: Declared) -> PostgresEngine:
    """Return an engine over a table, a materialised view, a view or a foreign table of PostgreSQL 14 or newer."""
    address = read_address(data)
    if address is None:
        raise RequestError(_NO_TABLE)
    try:
        import psycopg  # noqa: F401 - looked for
    except ImportError:
        raise MissingExtra("postgres", purpose="reading rows of PostgreSQL") from None
    where = f"the table {address.table!r}"

    def read(connection: "psycopg.Connection[Any]") -> PostgresEngine:
        _check_server(connection)
        # Only here is a name without a schema looked up as the role's own search path has it.
        connection.execute("SET LOCAL search_path = DEFAULT")
        found = connection.execute(_RELATION, [address.quoted]).fetchone()
        columns = connection.execute(_COLUMNS, [address.quoted]).fetchall()
        connection.execute("SET LOCAL search_path = pg_catalog")
        if found is None:
            message = f"there is no {where[4:]} in the database, or its schema is not open to this role"
            raise RequestError(message)
        schema, relation, kind = found
        source, named = _shape_columns(
            f"{_DIALECT.quote_name(schema)}.{_DIALECT.quote_name(relation)}", kind, columns, declared
        )
        rows, state = connection.execute(f"SELECT {_count_state()} FROM {source}".encode()).fetchone() or (0, 0)  # noqa: S608 - our own text
        return PostgresEngine(declared.make_card(named, rows=rows), address, source, (rows, int(state or 0)))

    failure = f"cannot connect to the database of {where}; check the server, the name, the password and the rights"
    connection = open_masked(lambda: _connect(address), failure=failure)
    try:
        failure = f"{where} could not be read; check that the role may read all of it"
        return open_masked(lambda: _read_snapshot(connection, read), failure=failure)
    finally:
        connection.close()


def _check_server(connection: "psycopg.Connection[Any]") -> None:
    if connection.info.server_version < _OLDEST:
        message = f"PostgreSQL {_OLDEST // 10_000} or newer is needed to read rows"
        raise RequestError(message)
    if connection.info.parameter_status("server_encoding") != "UTF8":
        message = "the database must have the encoding UTF8: texts are counted and compared by code points"
        raise RequestError(message)


def _shape_columns(
    relation: str, kind: str, columns: Sequence[Sequence[Any]], declared: Declared
) -> tuple[str, list[tuple[str, str]]]:
    """Return the rows in the types of the card, as what follows FROM, and the names and types of the columns."""
    check_names([str(name) for name, *_ in columns], declared.types)
    shaped, named = [], []
    for name, stored, modifier, shown, castable in columns:
        known = _TYPES.get(stored)
        if stored == "numeric":
            known = "real" if modifier < 0 else type_of_decimal(modifier - 4 >> 16 & 0xFFFF, modifier - 4 & 0x7FF)
        chosen = choose_type(
            name,
            found=shown,
            kind=known if castable else None,
            wanted=declared.types.get(name),
            as_text=castable,
            empty=False,
        )
        own = _DIALECT.quote_name(name)
        plain = 'CAST({0} AS TEXT) COLLATE "C"' if chosen == "text" else _DIALECT.write_cast("{0}", chosen)  # type: ignore[arg-type]  # the card's
        shaped.append(f"{_SHAPES.get((stored, chosen), plain).replace('{0}', own)} AS {own}")
        named.append((name, chosen))
    listed = ", ".join(_DIALECT.quote_name(name) for name, *_ in columns)
    # Views have no transactions of their own.
    state = "xmin::TEXT::BIGINT" if kind in "rpm" else f"hashtextextended(ROW({listed})::TEXT, 0)"
    return f"(SELECT {state} AS {_STATE}, {', '.join(shaped)} FROM {relation}) AS holdtrue_rows", named  # noqa: S608 - quoted names
