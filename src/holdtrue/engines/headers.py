"""The first line of a CSV file: names of columns, which become public, or a row, which must not.

A header cannot be told from a row for certain. A first line that looks like a row is refused until the custodian says what
it is, and no message quotes it.
"""

import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO, TypeAlias

from holdtrue.errors import InvalidParameter, RequestError

__all__ = ["BROKEN", "FirstLine", "Header", "check_header", "columns_of", "open_text", "read_first_line"]

Header: TypeAlias = bool | Sequence[str]
"""What the custodian says of the first line: it has the names, it is a row, or it is a row and these are the names."""

BROKEN = (OSError, EOFError, ValueError, csv.Error, zlib.error)
"""What reading a broken file as text may raise."""

_DELIMITERS = ",;\t|"
_LONGEST_LINE = 1 << 24
_TRUTHS = {"true", "false"}
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?")


@dataclass(frozen=True, slots=True)
class FirstLine:
    """The fields of the first line of a CSV file, and the sign between them."""

    fields: tuple[str, ...]
    delimiter: str


@contextmanager
def open_text(name: str) -> Iterator[TextIO]:
    """Open a file as text in UTF-8, unpacked where its name ends in .gz."""
    opener: Any = gzip.open if name.endswith(".gz") else open
    with opener(name, "rt", encoding="utf-8-sig", newline="") as file:
        yield file


def read_first_line(name: str) -> FirstLine:
    """Return the first line of a CSV file; RequestError where it cannot be read."""
    try:
        with open_text(name) as file:
            first = file.readline(_LONGEST_LINE)
        sign = max(_DELIMITERS, key=first.count)
        return FirstLine(tuple(next(csv.reader([first], delimiter=sign), [])), sign)
    except BROKEN:
        message = f"{name}: cannot be read as CSV in UTF-8"
    raise RequestError(message)


def check_header(header: object) -> Header | None:
    """Return what the custodian says of the first line: True, False, a list of names, or None for nothing."""
    if header is None or isinstance(header, bool):
        return header
    if isinstance(header, (list, tuple)) and header and all(isinstance(name, str) and name for name in header):
        return tuple(header)
    raise InvalidParameter("header", type(header).__name__, "True, False, or a list of names for a file without them")


def columns_of(name: str, fields: Sequence[str], *, header: Header | None) -> tuple[tuple[str, ...], bool]:
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
