"""Files as DuckDB reads them: which files a path means, and the statements that read them.

Everything here happens at opening and speaks to the custodian: messages name a file, a column or the number of a line,
and quote no cell.
"""

import csv
import glob
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from holdtrue.engines.chunks import CONVERSIONS, check_names, refuse_type
from holdtrue.engines.headers import BROKEN, Header, columns_of, open_text, read_first_line
from holdtrue.engines.sealing import opening
from holdtrue.errors import InvalidParameter, RequestError

__all__ = ["Cast", "Files", "casts", "diagnosis", "expand", "infer", "match_files", "quoted", "reader", "text"]

Format: TypeAlias = Literal["parquet", "csv", "json"]

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
_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_WIDE_INTEGERS = {"UBIGINT", "HUGEINT", "UHUGEINT"}
_TEMPORAL = ("DATE", "TIME", "INTERVAL", "UUID")
_LONGEST_SHOWN = 120


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


def expand(
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
    pattern = opening(lambda: os.fspath(path), failure=f"a {type(path).__name__} is no path")
    if not isinstance(pattern, str):
        raise InvalidParameter("data", type(path).__name__, "a path in text")
    if "://" in pattern:
        message = f"{pattern}: only files of this machine are read; fetch it first"
        raise RequestError(message)
    paths = opening(lambda: match_files(pattern), failure=f"{pattern[:_LONGEST_SHOWN]!r} is no path")
    if not paths:
        folder = f"{pattern}: a folder; say which files, as in {pattern}/*.parquet"
        message = folder if Path(pattern).is_dir() else f"{pattern}: no such file"
        raise RequestError(message)
    kinds = {_format(name) for name in paths}
    if len(kinds) != 1:
        message = f"{pattern}: files of several formats; open those of one format"
        raise RequestError(message)
    for name in paths:
        _check_readable(name)
        if "\\" in name and _SIGNS.search(name):
            # DuckDB takes the backslash of a pattern for the end of a folder's name.
            message = f"{name}: a name with a backslash and one of * ? [ ] {{ }} cannot be opened; rename the file"
            raise RequestError(message)
    kind = kinds.pop()
    if kind == "parquet":
        _refuse_delta(paths)
    if kind == "csv":
        return _describe_csv(paths, types or {}, header, names)
    if header is not None:
        raise InvalidParameter("header", header, "left out: only CSV files have a line of names")
    return Files(tuple(paths), kind)


def _describe_csv(
    paths: Sequence[str], types: Mapping[str, str], header: Header | None, names: Sequence[str] | None
) -> Files:
    first = read_first_line(paths[0])
    if header is None and names is not None:
        header = True if first.fields == tuple(names) else tuple(names)
    columns, titled = columns_of(paths[0], first.fields, header=header)
    for name in paths[1:]:
        other = read_first_line(name)
        if (titled and other != first) or (other.delimiter, len(other.fields)) != (first.delimiter, len(first.fields)):
            message = f"{name}: the header is not that of {paths[0]}"
            raise RequestError(message)
    check_names(columns, types)
    return Files(tuple(paths), "csv", first.delimiter, columns, titled)


def match_files(path: "str | os.PathLike[str]") -> list[str]:
    """Return the files that a path or a pattern means, sorted by name: a path that exists is a file, not a pattern."""
    place = Path(path)
    if place.exists():
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


def _format(name: str) -> Format:
    plain = name.removesuffix(".gz")
    suffix = Path(plain).suffix.lower()
    if suffix not in _FORMATS:
        message = f"{name}: unknown kind of file; Holdtrue reads {', '.join(_FORMATS)}"
        raise RequestError(message)
    return _FORMATS[suffix]


def _check_readable(name: str) -> None:
    try:
        # Opening a pipe or a device may wait for ever.
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


def quoted(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """Return a string as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def reader(files: Files, *, types: Mapping[str, str]) -> str:
    """Return the table function that reads the files, with the types of columns of formats that carry none."""
    listed = "[" + ", ".join(text(pattern) for pattern in files.patterns) + "]"
    declared = "{" + ", ".join(f"{text(name)}: '{_SQL_TYPES[kind]}'" for name, kind in types.items()) + "}"
    if files.format == "parquet":
        return f"read_parquet({listed}, hive_partitioning=false, union_by_name=false, filename=false)"
    if files.format == "json":
        return f"read_json({listed}, records=true, ignore_errors=false, hive_partitioning=false, " + (
            f"format='auto', columns={declared})"
            if types
            else "sample_size=-1, convert_strings_to_integers=false, union_by_name=true)"
        )
    # Nothing about the shape is guessed: a guess could drop lines.
    titled = "header=true" if files.titled else f"header=false, names=[{', '.join(map(text, files.columns))}]"
    return (
        f"read_csv({listed}, {titled}, delim={text(files.delimiter)}, quote='\"', escape='\"', comment='', skip=0, "
        "strict_mode=true, null_padding=false, ignore_errors=false, sample_size=-1, hive_partitioning=false, "
        "auto_type_candidates=['BOOLEAN', 'BIGINT', 'DOUBLE', 'VARCHAR']" + (f", types={declared})" if types else ")")
    )


def infer(columns: Sequence[tuple[str, str]], *, types: Mapping[str, str]) -> dict[str, str]:
    """Return the types of the columns of a format that carries none: those declared, or those that DuckDB inferred.

    What looks like a date or a time is the text it is written as, whole numbers beyond 64 bits are real.
    """
    check_names([name for name, _ in columns], types)
    return {name: types.get(name) or _inferred(name, found) for name, found in columns}


def _inferred(name: str, found: str) -> str:
    if found in _WIDE_INTEGERS:
        return "real"
    kind = _type(found)
    if kind is None and not _temporal(found):
        if found in ('"NULL"', "JSON"):
            message = f"column {name!r} holds nothing, or values of several types; say its type in types="
            raise RequestError(message)
        refuse_type(name, found=found, castable=False)
    return kind or "text"


@dataclass(frozen=True, slots=True)
class Cast:
    """A column of the card in SQL. Where ``checked`` stands, a row that it is true of does not fit the type."""

    name: str
    type: str
    expression: str
    checked: str | None = None


def casts(columns: Sequence[tuple[str, str]], *, types: Mapping[str, str]) -> list[Cast]:
    """Return the columns of a table whose types DuckDB knows, as types of the card."""
    check_names([name for name, _ in columns], types)
    return [_cast(name, found, types.get(name)) for name, found in columns]


def _cast(name: str, found: str, wanted: str | None) -> Cast:
    kind = _type(found)
    if kind is None and wanted is not None and (found == '"NULL"' or (wanted == "text" and _temporal(found))):
        kind = wanted
    if kind is None:
        refuse_type(name, found=found, castable=_temporal(found) or found == '"NULL"')
    wanted = wanted or kind
    if (kind, wanted) not in CONVERSIONS:
        message = f"column {name!r} has type {found}, which cannot be read as {wanted}"
        raise RequestError(message)
    column = quoted(name)
    # Through text DuckDB rounds a decimal to the nearest double; its direct cast does not.
    inner = f"CAST({column} AS VARCHAR)" if found.startswith("DECIMAL") else column
    expression = f"TRY_CAST({inner} AS {_SQL_TYPES[wanted]})"
    wide = found in _WIDE_INTEGERS and wanted == "integer"
    return Cast(name, wanted, expression, f"{column} IS NOT NULL AND {expression} IS NULL" if wide else None)


def _type(found: str) -> str | None:
    if found.endswith("]"):
        return None
    if found == "BOOLEAN":
        return "boolean"
    if found in _INTEGERS | _WIDE_INTEGERS:
        return "integer"
    if found in ("FLOAT", "DOUBLE") or found.startswith("DECIMAL("):
        return "real"
    return "text" if found == "VARCHAR" or found.startswith("ENUM(") else None


def _temporal(found: str) -> bool:
    return found.startswith(_TEMPORAL) and not found.endswith("]")


def diagnosis(files: Files, error: Exception) -> str:
    """Return why files cannot be read, from the number of a line that the reader reports or that we find ourselves."""
    first = files.paths[0] if len(files.paths) == 1 else f"{files.paths[0]} and {len(files.paths) - 1} more"
    if files.format != "csv":
        return f"{first}: cannot be read as {'Parquet' if files.format == 'parquet' else 'JSON records'}"
    for name in files.paths:
        line = _ragged(name, files.delimiter)
        if line is not None:
            return f"{name}: line {line} does not have as many fields as the header"
    if type(error).__name__ == "OutOfMemoryException":
        return f"{first}: the rows do not fit into memory; keep the ledger on disk, or write the rows as Parquet"
    reported = re.search(r"CSV Error on Line: (\d+)", str(error))
    where = f"line {reported.group(1)}" if reported else "a line"
    return f"{first}: {where} cannot be read, or holds a cell that does not fit its declared type"


def _ragged(name: str, delimiter: str) -> int | None:
    try:
        with open_text(name) as file:
            lines = csv.reader(file, delimiter=delimiter)
            width = len(next(lines))
            return next((lines.line_num for fields in lines if len(fields) not in (width, 0)), None)
    except (*BROKEN, StopIteration):
        return None
