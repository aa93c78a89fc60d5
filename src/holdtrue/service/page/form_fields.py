"""What forms hold: numbers, columns with the ends of their values, and the statistics that they ask for, as over HTTP."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from holdtrue.demo.population import find_true_covariance
from holdtrue.errors import InvalidParameter
from holdtrue.queries.cards import Card
from holdtrue.requests import Auc, Correlation, Covariance, Gini, Pairs, Ratio, RSquared, Select, Variance
from holdtrue.service.http.bodies import decode_body
from holdtrue.service.page.access import text_of
from holdtrue.verbs.pairs import StatisticRequest

__all__ = [
    "STATISTICS",
    "find_true_statistic",
    "list_statistics",
    "read_column_ends",
    "read_number",
    "read_numbers",
    "read_selection",
    "read_statistic_form",
    "read_whole",
]

_SHORT = 400
_MOST_CANDIDATES = 100


def read_numbers(form: Mapping[str, str], field: str) -> tuple[float, ...]:
    """Return the numbers of a field, separated by commas, semicolons or spaces."""
    text = text_of(form, field, longest=_SHORT).strip()
    try:
        numbers = tuple(float(word) for word in re.split(r"[,;\s]+", text.strip(",;"))) if text else ()
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


STATISTICS: dict[str, tuple[type[Any], str]] = {
    "variance": (Variance, "Variance"),
    "covariance": (Covariance, "Covariance"),
    "correlation": (Correlation, "Correlation"),
    "r-squared": (RSquared, "R squared"),
    "gini": (Gini, "Gini"),
    "auc": (Auc, "AUC"),
    "pairs": (Pairs, "Pairs of rows"),
    "ratio": (Ratio, "Ratio"),
}
"""The forms by the ends of their addresses: the record of each, and what it is called."""


def list_statistics(card: Card) -> dict[str, str]:
    """Return what each form is called; a ratio is of sums over rows that units own."""
    return {kind: words for kind, (_, words) in STATISTICS.items() if kind != "ratio" or card.unit is not None}


_LONGEST = 4096
_SUMS = ("numerator", "denominator")


def read_statistic_form(kind: str, card: Card, form: Mapping[str, str]) -> StatisticRequest:
    """Return the statistic that a form asks for; ends that are left empty are those of the card."""

    def read_name(field: str) -> str:
        return text_of(form, field, longest=_SHORT, least=1)

    match kind:
        case "variance" | "gini":
            column, low, high = read_column_ends(card, form)
            document: dict[str, Any] = {"column": column, "low": low, "high": high}
        case "covariance" | "correlation":
            both = [read_column_ends(card, form, field=field, prefix=f"{field}_") for field in ("first", "second")]
            bounds = {name: [low, high] for name, low, high in both}
            document = {"first": both[0][0], "second": both[1][0], "bounds": bounds}
        case "r-squared":
            target, low, high = read_column_ends(card, form, field="target")
            document = {"prediction": read_name("prediction"), "target": target, "low": low, "high": high}
        case "auc":
            label = text_of(form, "label", longest=_LONGEST, least=1).strip()
            document = {"score": read_name("score"), "label": label}
            document |= {"low": read_number(form, "low"), "high": read_number(form, "high")}
        case "ratio":
            document = {field: text_of(form, field, longest=_LONGEST, least=1).strip() for field in _SUMS}
            document |= {"cap": read_whole(form, "cap")} | _read_ends(form)
        case _:
            kernel = text_of(form, "kernel", longest=_LONGEST, least=1).strip()
            document = {"kernel": kernel} | _read_ends(form)
    found: StatisticRequest = decode_body(document, STATISTICS[kind][0])
    return found


def _read_ends(form: Mapping[str, str]) -> dict[str, float]:
    """Return the ends that are given, by name."""
    ends = {field: read_number(form, field) for field in ("low", "high")}
    return {field: end for field, end in ends.items() if end is not None}


def find_true_statistic(truth: Callable[[str], float], asked: StatisticRequest) -> float | None:
    """Return the truth of a statistic where it follows from means over the population; None for statistics of pairs."""

    def moment(first: tuple[str, float, float], other: tuple[str, float, float]) -> float:
        return find_true_covariance(truth, first, other)

    match asked:
        case Variance(column=column, low=low, high=high):
            return moment((column, low, high), (column, low, high))
        case Covariance(first=first, second=second, bounds=dict(bounds)):
            one, two = ((name, *bounds[name]) for name in (first, second))
            found = moment(one, two)
            spread = moment(one, one) * moment(two, two)
            return found if not isinstance(asked, Correlation) else found / math.sqrt(spread) if spread > 0 else None
        case _:
            return None


def read_selection(form: Mapping[str, str]) -> tuple[dict[str, str], Select]:
    """Return the candidates of a form by name, and the whole choice."""
    candidates = _read_candidates(text_of(form, "candidates", longest=4 * _LONGEST, least=1))
    document = {"candidates": candidates, "top": read_whole(form, "top"), "epsilon": read_number(form, "epsilon")}
    return candidates, decode_body({field: value for field, value in document.items() if value is not None}, Select)


def _read_candidates(text: str) -> dict[str, str]:
    """Return candidates by name; a line without a colon is its own name."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    pairs = [tuple(part.strip() for part in line.split(":", 1)) if ":" in line else (line, line) for line in lines]
    found = {pair[0]: pair[1] for pair in pairs}
    if not 1 < len(found) <= _MOST_CANDIDATES or len(found) != len(lines):
        raise InvalidParameter.without_value("candidates", f"2 to {_MOST_CANDIDATES} lines with different names")
    return found
