"""Dates and timestamps as integers: days, or microseconds, since 1970-01-01 in the proleptic Gregorian calendar.

The calendar goes from 0001-01-01 to 9999-12-31; whatever lies beyond is NULL, on every engine. A timestamp has no time zone:
one that comes with a zone is the moment in UTC. Parts of a microsecond are dropped.
"""

import datetime as dt
import re
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.errors import UnsupportedQuery
from holdtrue.exact import Number

__all__ = [
    "DAY",
    "FIRST_DAY",
    "LIMITS",
    "Point",
    "fit_moments",
    "is_date",
    "list_starts",
    "part_of_days",
    "read_date",
    "read_moment",
    "read_timestamp",
    "write_constant",
    "write_moment",
    "write_point",
    "write_value",
]

Point: TypeAlias = Number | dt.date | np.datetime64 | str
"""A place on a column: a number, or a date or timestamp, as such or as text."""

DAY: Final = 86_400_000_000
"""Microseconds of a day."""

FIRST_DAY: Final = -719_162
"""0001-01-01, a Monday."""

_LAST_DAY = 2_932_896
LIMITS: Final = {"date": (FIRST_DAY, _LAST_DAY), "timestamp": (FIRST_DAY * DAY, (_LAST_DAY + 1) * DAY - 1)}
"""The first and the last moment of each type that is kept as an integer."""

# What a number of each unit is divided by, or multiplied with.
_UNITS: Final = {
    "date": {"D": (1, 1), "ms": (86_400_000, 1)},
    "timestamp": {"s": (1, 1_000_000), "ms": (1, 1_000), "us": (1, 1), "ns": (1_000, 1)},
}
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?", re.ASCII)
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - without a zone, as all timestamps here
_SHOWN = 40


def is_date(text: str) -> bool:
    """Return whether a text has the shape of a date, without a time."""
    return _DATE.fullmatch(text) is not None


def read_date(text: str) -> int:
    """Return the days of a constant such as 2026-01-31; UnsupportedQuery where no calendar has it."""
    found = _DATE.fullmatch(text)
    try:
        if found is not None:
            return dt.date(*map(int, found.groups())).toordinal() - 1 + FIRST_DAY
    except ValueError:
        pass
    message = f"{text[:_SHOWN]!r} is no date of the calendar; write DATE '2026-01-31', with years from 0001 to 9999"
    raise UnsupportedQuery(message)


def read_timestamp(text: str) -> int:
    """Return the microseconds of a constant such as 2026-01-31 10:00:00; UnsupportedQuery where there is no such moment."""
    found = _TIMESTAMP.fullmatch(text)
    if found is not None:
        day, hour, minute, second, fraction = found.groups()
        try:
            time = dt.time(int(hour or 0), int(minute or 0), int(second or 0), int((fraction or "").ljust(6, "0")))
        except ValueError:
            found = None
    if found is None:
        message = (
            f"{text[:_SHOWN]!r} is no timestamp; write TIMESTAMP '2026-01-31 10:00:00', without a time zone: "
            "timestamps are in UTC, or in the column's own time"
        )
        raise UnsupportedQuery(message)
    seconds = 3600 * time.hour + 60 * time.minute + time.second
    return read_date(day) * DAY + seconds * 1_000_000 + time.microsecond


def write_value(value: int, kind: str) -> str:
    """Return a date, or a timestamp with its time of day, as text."""
    if kind == "date":
        return str((_EPOCH + dt.timedelta(days=value)).date())
    return (_EPOCH + dt.timedelta(microseconds=value)).isoformat(sep=" ")


def write_constant(value: int, kind: str) -> str:
    """Return a date or timestamp as SQL: the text that reads back as the same number."""
    return f"{kind.upper()} '{write_value(value, kind)}'"


def read_moment(value: object) -> int | None:
    """Return the microseconds of a date, a datetime (in UTC where it has a zone) or a text that reads as one, else None."""
    moment = value.astype("M8[us]").item() if isinstance(value, np.datetime64) else value
    try:
        if isinstance(moment, dt.datetime) and moment.tzinfo is not None:
            moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
        text = moment.isoformat() if isinstance(moment, dt.date) else moment
        return read_timestamp(text) if isinstance(text, str) else None
    except (UnsupportedQuery, OverflowError):  # which is no moment, or one that in UTC is beyond the calendar
        return None


def write_moment(micros: int) -> str:
    """Return a moment as text that :func:`read_moment` reads: a date where the day begins with it."""
    moment = _EPOCH + dt.timedelta(microseconds=micros)
    return str(moment.date()) if micros % DAY == 0 else moment.isoformat(sep=" ")


def write_point(value: object) -> object:
    """Return a date or timestamp as text, and any other value as it is."""
    found = read_moment(value) if isinstance(value, (dt.date, np.datetime64)) else None
    return value if found is None else write_moment(found)


def list_starts(first: int, last: int, months: int) -> list[int]:
    """Return the starts of each so many months of a year, 1, 3 or 12, that lie strictly between two moments."""
    ends = np.array([first, last]).astype("M8[us]").astype("M8[M]").astype(np.int64) // months
    starts = (np.arange(ends[0], ends[1] + 1) * months).astype("M8[M]").astype("M8[us]").astype(np.int64)
    return [start for start in starts.tolist() if first < start < last]


def fit_moments(
    data: npt.NDArray[np.int64], valid: npt.NDArray[np.bool_], *, kind: str, unit: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return numbers of a unit (D for days, s, ms, us, ns) as dates or timestamps, and which of them the calendar has."""
    down, up = _UNITS[kind][unit]
    low, high = LIMITS[kind]
    data = data // down
    valid = valid & (data >= low // up) & (data <= high // up)
    return np.where(valid, data, 0) * up, valid


def part_of_days(name: str, days: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the year, month, day of the month or day of the week (Monday is 0) of dates within the calendar."""
    if name == "WEEKDAY":
        return (days - FIRST_DAY) % 7
    dates = days.astype("M8[D]")
    months = dates.astype("M8[M]")
    numbers: npt.NDArray[np.int64] = months.astype(np.int64)
    within: npt.NDArray[np.int64] = (dates - months.astype("M8[D]")).astype(np.int64)
    return {"YEAR": numbers // 12 + 1970, "MONTH": numbers % 12 + 1, "DAY": within + 1}[name]
