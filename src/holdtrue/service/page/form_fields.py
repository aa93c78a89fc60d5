"""Fields that several forms have: numbers, lists of numbers, and columns with the ends of their values."""

import math
import re
from collections.abc import Mapping

from holdtrue.errors import InvalidParameter
from holdtrue.queries.cards import Card
from holdtrue.service.page.access import text_of

__all__ = ["read_column_ends", "read_number", "read_numbers", "read_whole"]

_SHORT = 400


def read_numbers(form: Mapping[str, str], field: str) -> tuple[float, ...]:
    """Return the numbers of a field, separated by commas, semicolons or spaces."""
    words = [word for word in re.split(r"[,;\s]+", text_of(form, field, longest=_SHORT)) if word]
    try:
        numbers = tuple(float(word) for word in words)
    except ValueError:
        numbers = (math.nan,)
    if not all(map(math.isfinite, numbers)):
        raise InvalidParameter.saying(field, f"{field.replace('_', ' ')} are numbers such as 10, 20.5")
    return numbers


def read_number(form: Mapping[str, str], field: str) -> float | None:
    """Return a number of a field; None where it is empty."""
    numbers = read_numbers(form, field)
    if len(numbers) > 1:
        raise InvalidParameter.saying(field, f"{field.replace('_', ' ')} is one number")
    return numbers[0] if numbers else None


def read_whole(form: Mapping[str, str], field: str) -> int | None:
    """Return a whole number of a field; None where it is empty."""
    number = read_number(form, field)
    if number is not None and not number.is_integer():
        raise InvalidParameter.saying(field, f"{field.replace('_', ' ')} is a whole number")
    return None if number is None else int(number)


def read_column_ends(
    card: Card, form: Mapping[str, str], *, field: str = "column", prefix: str = ""
) -> tuple[str, float, float]:
    """Return a column of numbers and its ends: those of the form, or else those of the card."""
    column = card.column(text_of(form, field, longest=_SHORT, least=1))
    given = (read_number(form, f"{prefix}low"), read_number(form, f"{prefix}high"))
    known = (None, None) if column.bounds is None else column.bounds
    low, high = (end if written is None else written for written, end in zip(given, known, strict=True))
    if low is None or high is None:
        raise InvalidParameter.saying(f"{prefix}low", f"give low and high: the card has no bounds of {column.name}")
    return column.name, float(low), float(high)
