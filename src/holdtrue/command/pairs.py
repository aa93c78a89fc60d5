"""``holdtrue variance``, ``covariance``, ``correlation``, ``auc`` and their like: statistics that are not means of rows."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdtrue.command.asking import print_receipt, read_bounds, read_document
from holdtrue.command.output import print_json, print_lines, show_progress
from holdtrue.command.paths import Asking, share_options
from holdtrue.requests import Auc, Correlation, Covariance, Gini, Pairs, Ratio, RSquared, Variance

if TYPE_CHECKING:
    from holdtrue.curator import Curator
    from holdtrue.records import Statistic
    from holdtrue.verbs.pairs import StatisticRequest

__all__ = ["auc", "best_error", "correlation", "covariance", "gini", "pairs", "r_squared", "ratio", "variance"]

Number = Annotated[str, typer.Argument(metavar="COLUMN", help="A column of numbers.")]
Low = Annotated[float, typer.Option(help="The least that a value counts; a missing one counts as it.")]
High = Annotated[float, typer.Option(help="The most that a value counts.")]
BoundsOption = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN=LOW:HIGH", help="Between which public ends a column's values count; the card's."),
]
Preview = Annotated[bool, typer.Option("--preview", help="Only print what it would cost and how wide it would be.")]


@share_options
def variance(asking: Asking, column: Number, *, low: Low, high: High, preview: Preview = False) -> None:
    """Ask for the variance of a column of numbers, for the price of one question."""
    request = Variance(column=column, low=low, high=high)
    _find(asking, request, preview=preview)


@share_options
def covariance(
    asking: Asking, first: Number, second: Number, *, bounds: BoundsOption = None, preview: Preview = False
) -> None:
    """Ask for the covariance of two columns of numbers, for the price of one question."""
    request = Covariance(first=first, second=second, bounds=_read_all_bounds(bounds))
    _find(asking, request, preview=preview)


@share_options
def correlation(
    asking: Asking, first: Number, second: Number, *, bounds: BoundsOption = None, preview: Preview = False
) -> None:
    """Ask for the correlation of two columns of numbers, for the price of three questions at most."""
    request = Correlation(first=first, second=second, bounds=_read_all_bounds(bounds))
    _find(asking, request, preview=preview)


@share_options
def r_squared(
    asking: Asking,
    prediction: Annotated[str, typer.Argument(metavar="COLUMN", help="The column of predictions.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The column that is predicted.")],
    *,
    low: Low,
    high: High,
    preview: Preview = False,
) -> None:
    """Ask which share of a column's variance another column explains, for the price of two questions at most."""
    request = RSquared(prediction=prediction, target=target, low=low, high=high)
    _find(asking, request, preview=preview)


@share_options
def gini(asking: Asking, column: Number, *, low: Low = 0, high: High, preview: Preview = False) -> None:
    """Ask for the Gini coefficient of a column of numbers from 0 up, for the price of two questions at most."""
    request = Gini(column=column, low=low, high=high)
    _find(asking, request, preview=preview)


@share_options
def ratio(
    asking: Asking,
    numerator: Annotated[str, typer.Argument(metavar="NUMERATOR", help="What is added up, such as 'COUNT(urgent)'.")],
    denominator: Annotated[str, typer.Argument(metavar="DENOMINATOR", help="What it is divided by, such as 'COUNT(*)'.")],
    *,
    cap: Annotated[int, typer.Option(min=1, help="How often a unit counts at most.")],
    low: Annotated[float, typer.Option(help="The least that a unit's own ratio counts.")] = 0,
    high: Annotated[float, typer.Option(help="The most that a unit's own ratio counts.")] = 1,
    preview: Preview = False,
) -> None:
    """Ask for a ratio of sums over the rows of units, each counting at most CAP times, for the price of two questions."""
    request = Ratio(numerator=numerator, denominator=denominator, cap=cap, low=low, high=high)
    _find(asking, request, preview=preview)


@share_options
def auc(
    asking: Asking,
    score: Annotated[str, typer.Argument(metavar="SCORE", help="The column of scores.")],
    label: Annotated[str, typer.Argument(metavar="LABEL", help="A yes-or-no column or question.")],
    *,
    low: Annotated[float | None, typer.Option(help="The least that a score counts; the card's, or 0.")] = None,
    high: Annotated[float | None, typer.Option(help="The most that a score counts; the card's, or 1.")] = None,
    preview: Preview = False,
) -> None:
    """Ask how often a score orders two rows of unlike labels rightly, for the price of two questions."""
    request = Auc(score=score, label=label, low=low, high=high)
    _find(asking, request, preview=preview)


@share_options
def pairs(
    asking: Asking,
    kernel: Annotated[
        str, typer.Argument(metavar="EXPRESSION", help="An expression in two rows, such as 'abs(a.age - b.age)'.")
    ],
    *,
    low: Annotated[float, typer.Option(help="The least that the expression counts.")] = 0,
    high: Annotated[float, typer.Option(help="The most that the expression counts.")] = 1,
    preview: Preview = False,
) -> None:
    """Ask for the mean of an expression in two rows over pairs of rows, for the price of one question."""
    request = Pairs(kernel=kernel, low=low, high=high)
    _find(asking, request, preview=preview)


@share_options
def best_error(
    asking: Asking,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The yes-or-no question to predict.")],
    document: Annotated[Path, typer.Option("--class", metavar="FILE", help="The class of hypotheses, as JSON.")],
) -> None:
    """Ask how seldom the best hypothesis of a finite class errs, for the price of one question."""
    from holdtrue.hypotheses import read_class

    learned = read_class(read_document(document))
    with asking.open() as curator:
        with show_progress("measuring"):
            found = curator.best_error(learned, target=target, **asking.given)
        print_json(found) if asking.as_json else print_statistic(found, curator)


def _read_all_bounds(texts: list[str] | None) -> dict[str, tuple[float, float]] | None:
    return {name: (low, high) for name, low, high in map(read_bounds, texts)} if texts else None


def _find(asking: Asking, request: "StatisticRequest", *, preview: bool) -> None:
    """Print a statistic, or its price."""
    with asking.open() as curator:
        if preview:
            price = curator.preview_statistic(request)
            print_json(price) if asking.as_json else print_lines(
                price.text, [("costs", str(price).partition("\n")[2].strip())]
            )
            return
        with show_progress("measuring"):
            found = curator.find_statistic(request, **asking.given)
        if asking.as_json:
            print_json(found)
        else:
            print_statistic(found, curator)


def print_statistic(found: "Statistic", curator: "Curator") -> None:
    """Print a statistic, its intervals, its parts and its receipt."""
    lines = [*found.lines().items(), *((part.measure, part.brief) for part in found.parts)]
    lines += [("left", f"{curator.budget.asks:,} questions"), ("receipt", print_receipt(found.certificate))]
    print_lines(found.sentence, lines)
