"""Files as DuckDB reads them: which files a path means, their first lines, and the statements that read them.

Everything here happens at opening and speaks to the custodian: messages name a file, a column or the number of a line,
and quote no cell. A CSV file's first line has the names of columns, which become public, or is a row, which must not. A
header cannot be told from a row for certain, so that a first line that looks like a row is refused until the custodian says
what it is.
"""

import csv
import glob
import gzip
import os
import re
import stat
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO, TypeAlias

from holdtrue.errors import InvalidParameter, RequestError
from holdtrue.queries.columns import check_names, choose_type, open_masked, refuse_type, type_of_decimal
from holdtrue.queries.dates import LIMITS
from holdtrue.queries.sql_words import quote_name

__all__ = [
    "Cast",
    "FileState",
    "Files",
    "Header",
    "cast_columns",
    "change_to_dates",
    "check_header",
    "count_dates",
    "explain_failure",
    "find_files",
    "infer_types",
    "match_files",
    "quote_text",
    "table_function",
]

Format: TypeAlias = Literal["parquet", "csv", "json"]
Header: TypeAlias = bool | Sequence[str]
"""What the custodian says of the first line: it has the names, it is a row, or it is a row and these are the names."""

_FORMATS: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_SIGNS = re.compile(r"([*?\[{}])")
_SQL_TYPES = {"boolean": "BOOLEAN", "integer": "BIGINT", "real": "DOUBLE", "text": "VARCHAR"}
_SQL_DATES = {"date": "DATE", "timestamp": "TIMESTAMP"}
_PATTERNS = {"date": r"\d{4}-\d\d-\d\d"}
_PATTERNS["timestamp"] = _PATTERNS["date"] + r"([ T]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?)?"
_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_WIDE_INTEGERS = {"UBIGINT", "HUGEINT", "UHUGEINT"}
_AS_TEXT = ("TIME", "INTERVAL", "UUID")
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_LONGEST_SHOWN = 120
_BROKEN = (OSError, EOFError, ValueError, csv.Error, zlib.error)
_DELIMITERS = ",;\t|"
_LONGEST_LINE = 1 << 24
_TRUTHS = {"true", "false"}
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?")


@dataclass(frozen=True, slots=True)
class FileState:
    """What tells a file from another one, or from itself before it was changed, without reading it. Times in nanoseconds."""

    path: str
    device: int
    inode: int
    size: int
    changed: int
    status_changed: int

    @classmethod
    def of(cls, path: str) -> "FileState":
        """Return the state of a file now."""
        found = os.stat(path)  # noqa: PTH116 - the paths are strings throughout
        return cls(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class Files:
    """Files of one format, in a fixed order."""

    paths: tuple[str, ...]
    format: Format
    delimiter: str = ","
    columns: tuple[str, ...] = ()
    titled: bool = True

    @property
    def patterns(self) -> tuple[str, ...]:
        """Return patterns that match these files and no others, for DuckDB, which takes every path for a pattern."""
        return tuple([_SIGNS.sub(r"[\1]", path) for path in self.paths])


def find_files(
    path: "str | os.PathLike[str]",
    *,
    types: Mapping[str, str] | None = None,
    header: Header | None = None,
    names: Sequence[str] | None = None,
) -> Files:
    """Return the files that a path or a pattern means, sorted by name; refuse what is missing, unreadable or mixed.

    ``header`` is what the custodian says of the first line of CSV files, ``names`` are the columns of a card that is fixed
    already: where nothing is said, the first line is a header if it has those names, and a row otherwise.
    """
    pattern = open_masked(lambda: os.fspath(path), failure=f"a {type(path).__name__} is no path")
    if not isinstance(pattern, str):
        raise InvalidParameter("data", type(path).__name__, "a path")
    if "://" in pattern:
        message = f"{pattern}: Holdtrue reads only files on this machine; download it first"
        raise RequestError(message)
    no_path = f"{pattern[:_LONGEST_SHOWN]!r} is no path"
    paths = open_masked(lambda: match_files(pattern), failure=no_path)
    if not paths:
        folder = f"{pattern}: a folder; say which files, as in {pattern}/*.parquet"
        message = folder if open_masked(Path(pattern).is_dir, failure=no_path) else f"{pattern}: no such file"
        raise RequestError(message)
    kinds = {_find_format(name) for name in paths}
    if len(kinds) != 1:
        message = f"{pattern}: files of several formats; open those of one format"
        raise RequestError(message)
    for name in paths:
        _check_readable(name)
        if "\\" in name and _SIGNS.search(name):
            # DuckDB takes the backslash of a pattern for the end of a folder's name.
            message = f"{name}: a name with both a backslash and one of * ? [ ] {{ }} cannot be opened; rename the file"
            raise RequestError(message)
    kind = kinds.pop()
    if kind == "parquet":
        _refuse_delta(paths)
    if kind == "csv":
        return _describe_csv(paths, types or {}, header, names)
    if header is not None:
        raise InvalidParameter.saying("header", "leave out header: only CSV files have a header line")
    return Files(tuple(paths), kind)


def _describe_csv(
    paths: Sequence[str], types: Mapping[str, str], header: Header | None, names: Sequence[str] | None
) -> Files:
    first = _read_first_line(paths[0])
    if header is None and names is not None:
        header = True if first.fields == tuple(names) else tuple(names)
    columns, titled = _name_columns(paths[0], first.fields, header=header)
    for name in paths[1:]:
        other = _read_first_line(name)
        if (titled and other != first) or (other.delimiter, len(other.fields)) != (first.delimiter, len(first.fields)):
            message = f"{name}: the header differs from that of {paths[0]}"
            raise RequestError(message)
    check_names(columns, types)
    return Files(tuple(paths), "csv", first.delimiter, columns, titled)


def match_files(path: "str | os.PathLike[str]") -> list[str]:
    """Return the files that a path or a pattern means, sorted by name: a path that exists is a file, not a pattern."""
    place = Path(path)
    try:
        known = place.exists()
    except OSError:  # a name that is too long for any file
        return []
    if known:
        found = [str(place)]
    elif place.parent.is_dir():
        found = glob.glob(f"{glob.escape(str(place.parent))}/{place.name}", recursive=True)  # noqa: PTH207 - as below
    else:
        found = glob.glob(str(place), recursive=True)  # noqa: PTH207 - absolute patterns too
    return sorted(str(Path(name).absolute()) for name in found if not Path(name).is_dir())


def _refuse_delta(paths: Sequence[str]) -> None:
    """Refuse the bare files of a Delta table: among them are those of rows that were deleted or replaced."""
    folders = {folder for name in paths for folder in Path(name).parents}
    table = next((folder for folder in sorted(folders) if (folder / "_delta_log").is_dir()), None)
    if table is not None:
        message = (
            f"{table}: a Delta table, whose files hold deleted rows as well; open it with Spark, or write its rows to a file"
        )
        raise RequestError(message)


def _find_format(name: str) -> Format:
    plain = name.removesuffix(".gz")
    suffix = Path(plain).suffix.lower()
    if suffix not in _FORMATS:
        message = f"{name}: unknown kind of file; Holdtrue reads {', '.join(_FORMATS)}"
        raise RequestError(message)
    return _FORMATS[suffix]


def _check_readable(name: str) -> None:
    try:
        # Opening a pipe or a device may wait forever.
        if not stat.S_ISREG(Path(name).stat().st_mode):
            raise OSError(0, "not a file")  # noqa: TRY301 - told like any other reason
        with Path(name).open("rb") as file:
            empty = not file.read(1)
        reason = "the file is empty" if empty else None
    except OSError as error:
        reason = error.strerror or "cannot be read"
    if reason is not None:
        message = f"{name}: {reason}"
        raise RequestError(message)


def quote_text(value: str) -> str:
    """Return a string as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def table_function(files: Files, *, types: Mapping[str, str]) -> str:
    """Return the table function that reads the files, with the types of columns of formats that carry none."""
    listed = "[" + ", ".join(quote_text(pattern) for pattern in files.patterns) + "]"
    declared = "{" + ", ".join(f"{quote_text(name)}: '{_SQL_TYPES[kind]}'" for name, kind in types.items()) + "}"
    if files.format == "parquet":
        return f"read_parquet({listed}, hive_partitioning=false, union_by_name=false, filename=false)"
    if files.format == "json":
        return f"read_json({listed}, records=true, ignore_errors=false, hive_partitioning=false, " + (
            f"format='auto', columns={declared})"
            if types
            else "sample_size=-1, convert_strings_to_integers=false, union_by_name=true)"
        )
    # Nothing about the shape is guessed: a guess could drop lines.
    titled = "header=true" if files.titled else f"header=false, names=[{', '.join(map(quote_text, files.columns))}]"
    return (
        f"read_csv({listed}, {titled}, delim={quote_text(files.delimiter)}, quote='\"', escape='\"', comment='', skip=0, "
        "strict_mode=true, null_padding=false, ignore_errors=false, sample_size=-1, hive_partitioning=false, "
        "auto_type_candidates=['BOOLEAN', 'BIGINT', 'DOUBLE', 'VARCHAR']" + (f", types={declared})" if types else ")")
    )


def infer_types(columns: Sequence[tuple[str, str]], *, types: Mapping[str, str]) -> dict[str, str]:
    """Return the types of the columns of a format that carries none: those declared, or those that DuckDB inferred.

    What looks like a date or a time is the text it is written as, whole numbers beyond 64 bits are real.
    """
    check_names([name for name, _ in columns], types)
    return {name: types.get(name) or _infer_type(name, found) for name, found in columns}


def count_dates(name: str) -> str:
    """Return three counts of a column of text: its cells, those that are dates, and those that are dates or timestamps.

    DuckDB's own reader guesses the order of day and month, and takes two digits for a year: only one form is sure.
    """
    column = quote_name(name)
    counts = [
        f"COUNT(TRY_CAST({column} AS {_SQL_DATES[kind]})) FILTER (regexp_full_match({column}, '{pattern}'))"
        for kind, pattern in _PATTERNS.items()
    ]
    return ", ".join([f"COUNT({column})", *counts])


def change_to_dates(table: str, name: str, kind: str) -> str:
    """Return the statement that makes dates or timestamps of a column of text."""
    column, wanted = quote_name(name), _SQL_DATES[kind]
    return f"ALTER TABLE {table} ALTER COLUMN {column} TYPE {wanted} USING TRY_CAST({column} AS {wanted})"


def _infer_type(name: str, found: str) -> str:
    if found in _WIDE_INTEGERS:
        return "real"
    kind = _find_type(found)
    if kind in LIMITS:
        return "text"
    if kind is None and not _is_temporal(found):
        if found in ('"NULL"', "JSON"):
            message = f"column {name!r} is empty or holds values of several types; give its type in types="
            raise RequestError(message)
        refuse_type(name, found=found, castable=False)
    return kind or "text"


@dataclass(frozen=True, slots=True)
class Cast:
    """A column of the card in SQL: what its type has no room for is NULL."""

    name: str
    type: str
    expression: str


def cast_columns(columns: Sequence[tuple[str, str]], *, types: Mapping[str, str]) -> list[Cast]:
    """Return the columns of a table whose types DuckDB knows, as types of the card."""
    check_names([name for name, _ in columns], types)
    return [_cast_column(name, found, types.get(name)) for name, found in columns]


def _cast_column(name: str, found: str, wanted: str | None) -> Cast:
    kind = choose_type(
        name,
        found="ENUM" if found.startswith("ENUM(") else found,  # which would list its words
        kind=_find_type(found),
        wanted=wanted,
        as_text=_is_temporal(found),
        empty=found == '"NULL"',
        wide=found in _WIDE_INTEGERS,
    )
    column = quote_name(name)
    if kind in LIMITS and kind == _find_type(found):
        return Cast(name, kind, _write_moment(column, found, kind))
    # Through text DuckDB rounds a decimal to the nearest double; its direct cast does not.
    inner = f"CAST({column} AS VARCHAR)" if found.startswith("DECIMAL") and kind == "real" else column
    return Cast(name, kind, f"TRY_CAST({inner} AS {_SQL_TYPES.get(kind, 'BIGINT')})")


def _write_moment(column: str, found: str, kind: str) -> str:
    """Return a date as days, or a timestamp as microseconds; NULL where the calendar does not have it, or it is infinite."""
    if kind == "date":
        whole = f"date_diff('day', DATE '1970-01-01', {column})"
    elif found == "TIMESTAMP_NS":
        whole = f"(epoch_ns({column}) // 1000 - CAST(epoch_ns({column}) % 1000 < 0 AS BIGINT))"
    elif found in ("TIMESTAMP_S", "TIMESTAMP_MS"):
        # Even TRY_CAST raises where such a number is too large for microseconds.
        last = "9999-12-31 23:59:59" + (".999" if found == "TIMESTAMP_MS" else "")
        within = f"{column} BETWEEN CAST('0001-01-01' AS {found}) AND CAST('{last}' AS {found})"
        whole = f"epoch_us(CAST(CASE WHEN {within} THEN {column} END AS TIMESTAMP))"
    else:
        whole = f"epoch_us({column})"
    low, high = LIMITS[kind]
    return f"CASE WHEN {whole} BETWEEN {low} AND {high} THEN {whole} END"


def _find_type(found: str) -> str | None:
    if found.endswith("]"):
        return None
    if found == "BOOLEAN":
        return "boolean"
    if found in _INTEGERS | _WIDE_INTEGERS:
        return "integer"
    if (decimal := _DECIMAL.fullmatch(found)) is not None:
        return type_of_decimal(int(decimal[1]), int(decimal[2]))
    if found in ("FLOAT", "DOUBLE"):
        return "real"
    if found == "DATE" or found.startswith("TIMESTAMP"):
        return "date" if found == "DATE" else "timestamp"
    return "text" if found == "VARCHAR" or found.startswith("ENUM(") else None


def _is_temporal(found: str) -> bool:
    return found.startswith(_AS_TEXT) and not found.endswith("]")


def explain_failure(files: Files, error: Exception) -> str:
    """Return why files cannot be read, from the number of a line that the reader reports or that we find ourselves."""
    first = files.paths[0] if len(files.paths) == 1 else f"{files.paths[0]} and {len(files.paths) - 1} more"
    if files.format != "csv":
        return f"{first}: cannot be read as {'Parquet' if files.format == 'parquet' else 'JSON records'}"
    for name in files.paths:
        line = _find_ragged_line(name, files.delimiter)
        if line is not None:
            return f"{name}: line {line} does not have as many fields as the header"
    if type(error).__name__ == "OutOfMemoryException":
        return f"{first}: the rows do not fit into memory; keep the ledger on disk, or write the rows as Parquet"
    reported = re.search(r"CSV Error on Line: (\d+)", str(error))
    where = f"line {reported.group(1)}" if reported else "a line"
    return f"{first}: {where} cannot be read, or holds a cell that does not fit its declared type"


def _find_ragged_line(name: str, delimiter: str) -> int | None:
    try:
        with _open_text(name) as file:
            lines = csv.reader(file, delimiter=delimiter)
            width = len(next(lines))
            return next((lines.line_num for fields in lines if len(fields) not in (width, 0)), None)
    except (*_BROKEN, StopIteration):
        return None


@dataclass(frozen=True, slots=True)
class _FirstLine:
    """The fields of the first line of a CSV file, and the sign between them."""

    fields: tuple[str, ...]
    delimiter: str


@contextmanager
def _open_text(name: str) -> Iterator[TextIO]:
    """Open a file as text in UTF-8, unpacked where its name ends in .gz."""
    opener: Any = gzip.open if name.endswith(".gz") else open
    with opener(name, "rt", encoding="utf-8-sig", newline="") as file:
        yield file


def _read_first_line(name: str) -> _FirstLine:
    """Return the first line of a CSV file; RequestError where it cannot be read."""
    try:
        with _open_text(name) as file:
            first = file.readline(_LONGEST_LINE)
        sign = max(_DELIMITERS, key=first.count)
        return _FirstLine(tuple(next(csv.reader([first], delimiter=sign), [])), sign)
    except _BROKEN:
        message = f"{name}: cannot be read as CSV in UTF-8"
    raise RequestError(message)


def check_header(header: object) -> Header | None:
    """Return what the custodian says of the first line: True, False, a list of names, or None for nothing."""
    if header is None or isinstance(header, bool):
        return header
    if isinstance(header, (list, tuple)) and header and all(isinstance(name, str) and name for name in header):
        return tuple(header)
    raise InvalidParameter("header", type(header).__name__, "True, False, or a list of names for a file without them")


def _name_columns(name: str, fields: Sequence[str], *, header: Header | None) -> tuple[tuple[str, ...], bool]:
    """Return the names of the columns, and whether they stand in the first line; refuse a first line that looks like a row.

    The first line looks like a row where a field is empty, a number, a date, true or false, or occurs twice. Only the
    first line is looked at.
    """
    if header is True:
        return tuple(fields), True
    if header is False:
        return tuple([f"column{number}" for number in range(len(fields))]), False
    if header is not None:
        if len(header) != len(fields):
            message = f"{name}: header names {len(header)} columns; the first line has {len(fields)} fields"
            raise RequestError(message)
        return tuple(header), False
    place = next((number for number, field in enumerate(fields, 1) if _is_a_cell(field)), None)
    twice = len({field.strip().casefold() for field in fields}) < len(fields)
    if place is not None or twice:
        why = "two fields are the same" if place is None else f"field {place} is empty, a number, a date, true or false"
        message = (
            f"{name}: the first line looks like a row ({why}); say header=False if it is one, "
            "header=True if it has the names of the columns, which are public, or header=[...] to name them"
        )
        raise RequestError(message)
    return tuple(fields), True


def _is_a_cell(field: str) -> bool:
    text = field.strip()
    if not text or text.casefold() in _TRUTHS or _DATE.fullmatch(text):
        return True
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True
