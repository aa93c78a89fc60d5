"""Forms of statistics that are not means of rows, and what they ask for: the same records as over HTTP."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from holdtrue.demo.population import find_true_covariance
from holdtrue.queries.cards import Card
from holdtrue.requests import Auc, Correlation, Covariance, Gini, Pairs, Ratio, RSquared, Variance
from holdtrue.service.http.bodies import decode_body
from holdtrue.service.page.access import text_of
from holdtrue.service.page.form_fields import read_column_ends, read_number, read_whole
from holdtrue.verbs.pairs import StatisticRequest

__all__ = ["STATISTICS", "find_true_statistic", "list_statistics", "read_statistic_form"]

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
_COLUMN = 400
_SUMS = ("numerator", "denominator")


def read_statistic_form(kind: str, card: Card, form: Mapping[str, str]) -> StatisticRequest:
    """Return the statistic that a form asks for; ends that are left empty are those of the card."""

    def read_name(field: str) -> str:
        return text_of(form, field, longest=_COLUMN, least=1)

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
