"""Questions about rows: shares, tables, means, quantiles, other statistics, choices and watches."""

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from holdtrue.requests.fields import (
    Bounds,
    ClassColumns,
    GivenClasses,
    Label,
    Labels,
    Planned,
    Privacy,
    PublicName,
    RationalNumber,
    RationalText,
    RequestRecord,
    Results,
    Share,
    Text,
)


class Cut(Struct, frozen=True, forbid_unknown_fields=True):
    """A column of numbers or dates cut at public points into cells: below the first, between two, from the last one on."""

    column: Annotated[Text, Meta(description="The column.")]
    points: Annotated[
        Annotated[tuple[float | Annotated[str, Meta(max_length=40)], ...], Meta(min_length=1, max_length=100_001)],
        Meta(description="Where it is cut: numbers, or dates and timestamps such as 2026-01-31."),
    ]
    inside: Annotated[bool, Meta(description="Whether values below the first and above the last point have no cell.")] = (
        False
    )


By: TypeAlias = str | Cut | Sequence[str | Cut]
GroupColumns: TypeAlias = Annotated[tuple[Text | Cut, ...], Meta(min_length=1, max_length=16)]
KeyLabels: TypeAlias = Annotated[dict[Text, Labels], Meta(max_length=16)]
OwnPrice: TypeAlias = Annotated[
    Annotated[int, Meta(ge=2, le=10_000)] | None,
    Meta(description="How many questions it costs, more for less noise; what keeps the plan's alpha unless given."),
]


class Ask(RequestRecord, frozen=True, kw_only=True):
    """One question, several that are charged and measured together, or the mean of per-row numbers."""

    query: Annotated[Text | None, Meta(description="One question.")] = None
    queries: Annotated[
        Annotated[tuple[Text, ...], Meta(min_length=1, max_length=1000)] | None,
        Meta(description="Several questions, answered in their order."),
    ] = None
    values: Annotated[Results | None, Meta(description="A number from 0 to 1 for each row, in place of a question.")] = None
    name: Annotated[PublicName | None, Meta(description="The public name by which these values are known again.")] = None
    by: Annotated[GroupColumns | None, Meta(description="Columns whose cells are groups: the share within each group.")] = (
        None
    )
    keys: Annotated[KeyLabels | None, Meta(description="The labels of these columns, where the card has none.")] = None
    questions: OwnPrice = None
    deduce: Annotated[
        Literal["first"] | None,
        Meta(
            description="Whether what follows within alpha, or a released table says, is taken free: 'first', or left out."
        ),
    ] = None


class Table(RequestRecord, frozen=True, kw_only=True):
    """The shares of disjoint cells of the rows, all at once."""

    columns: Annotated[
        Annotated[tuple[Text | Cut, ...], Meta(min_length=1, max_length=16)],
        Meta(description="Columns with public labels, yes-or-no columns, or numbers that are cut."),
    ]
    where: Annotated[Text | None, Meta(description="A condition that rows must meet to be counted.")] = None
    keys: Annotated[
        Annotated[dict[Text, Labels], Meta(max_length=16)] | None,
        Meta(description="The labels of columns, where the card has none."),
    ] = None
    margins: Annotated[
        bool, Meta(description="Whether sums over all labels of some columns are declared with the table.")
    ] = False
    ranges: Annotated[bool, Meta(description="Whether sums of neighbouring cells of one column are declared with it.")] = (
        False
    )
    rollups: Annotated[
        Annotated[tuple[Annotated[tuple[Label, ...], Meta(min_length=2, max_length=4096)], ...], Meta(max_length=10_000)],
        Meta(description="Lists of labels of one column whose sums are declared with it."),
    ] = ()
    questions: OwnPrice = None


class MarginalSets(RequestRecord, frozen=True, kw_only=True, tag="marginals"):
    """The tables of all pairs or triples of columns, or of those that are named, at two questions each unless said."""

    sets: Annotated[
        Literal["pairs", "triples"]
        | Annotated[
            tuple[Annotated[tuple[Text, ...], Meta(min_length=1, max_length=16)], ...], Meta(min_length=1, max_length=4096)
        ],
        Meta(description="All pairs, all triples, or the columns of each table."),
    ]
    columns: Annotated[
        Annotated[tuple[Text | Cut, ...], Meta(min_length=1, max_length=256)] | None,
        Meta(description="The columns, numbers and dates cut; all whose labels are public unless given."),
    ] = None
    keys: Annotated[
        Annotated[dict[Text, Labels], Meta(max_length=256)] | None,
        Meta(description="The labels of columns, where the card has none."),
    ] = None
    margins: Annotated[bool, Meta(description="Whether sums over all labels of some columns are declared with them.")] = (
        False
    )
    questions: Annotated[
        Annotated[int, Meta(ge=2, le=10_000)], Meta(description="How many questions each table costs: more make noise less.")
    ] = 2
    workload: Annotated[
        Annotated[tuple[Annotated[dict[Text, Label], Meta(min_length=1)], ...], Meta(min_length=1, max_length=100_000)]
        | None,
        Meta(description="Questions that are declared before the draw: labels by column, of columns of one table."),
    ] = None


class Synthesize(RequestRecord, frozen=True, kw_only=True):
    """Rows made from tables that were released, free."""

    columns: Annotated[
        Annotated[tuple[Text, ...], Meta(min_length=1, max_length=256)] | None,
        Meta(description="The columns; all of released tables unless given."),
    ] = None
    rows: Annotated[
        Annotated[int, Meta(ge=1, le=10**7)] | None, Meta(description="How many rows; as many as there are unless given.")
    ] = None
    seed: Annotated[
        Annotated[int, Meta(ge=0, le=2**53)],
        Meta(description="A public number: with another one rows are rounded otherwise."),
    ] = 0


class Mean(RequestRecord, frozen=True, kw_only=True):
    """The mean of a column of numbers, counted within public bounds, in each of several groups."""

    column: Annotated[Text, Meta(description="The column of numbers.")]
    low: Annotated[float | None, Meta(description="The least that a value counts; the card's bound unless given.")] = None
    high: Annotated[float | None, Meta(description="The most that a value counts; the card's bound unless given.")] = None
    where: Annotated[Text | None, Meta(description="A condition that rows must meet to be counted.")] = None
    by: Annotated[GroupColumns | None, Meta(description="Columns whose cells are groups; one group unless given.")] = None
    keys: Annotated[KeyLabels | None, Meta(description="The labels of these columns, where the card has none.")] = None
    questions: OwnPrice = None


class Total(Mean, frozen=True, kw_only=True, tag="sum"):
    """The sum of a column of numbers, counted within public bounds, in each of several groups."""

    population: Annotated[
        Planned | None, Meta(description="The size of the population, for its total; these rows unless given.")
    ] = None


class Variance(RequestRecord, frozen=True, kw_only=True):
    """The variance of a column of numbers, counted within public bounds."""

    column: Annotated[Text, Meta(description="The column of numbers.")]
    low: Annotated[float, Meta(description="The least that a value counts; a missing one counts as it.")]
    high: Annotated[float, Meta(description="The most that a value counts.")]


class Covariance(RequestRecord, frozen=True, kw_only=True):
    """The covariance of two columns of numbers, each counted within public bounds."""

    first: Annotated[Text, Meta(description="A column of numbers.")]
    second: Annotated[Text, Meta(description="Another one.")]
    bounds: Annotated[
        Bounds | None, Meta(description="The least and the most that values of each count; the card's unless given.")
    ] = None


class Gini(RequestRecord, frozen=True, kw_only=True):
    """The Gini coefficient of a column of numbers that are not negative, counted within public bounds."""

    column: Annotated[Text, Meta(description="The column of numbers.")]
    low: Annotated[
        Annotated[float, Meta(ge=0)], Meta(description="The least that a value counts; a missing one counts as it.")
    ]
    high: Annotated[float, Meta(description="The most that a value counts.")]


class Ratio(RequestRecord, frozen=True, kw_only=True):
    """A ratio of two numbers of each unit, such as urgent visits to visits, in which a unit counts at most so many times."""

    numerator: Annotated[Text, Meta(description="What is added up, such as COUNT(urgent).")]
    denominator: Annotated[Text, Meta(description="What it is divided by, and how often a unit counts: COUNT(*).")]
    cap: Annotated[int, Meta(ge=1, description="How often a unit counts at most, however large its denominator.")]
    low: Annotated[float, Meta(description="The least that a unit's own ratio counts.")] = 0.0
    high: Annotated[float, Meta(description="The most that a unit's own ratio counts.")] = 1.0


class Correlation(Covariance, frozen=True, kw_only=True):
    """The correlation of two columns of numbers, each counted within public bounds."""


class RSquared(RequestRecord, frozen=True, kw_only=True, tag="r_squared"):
    """The share of a column's variance that another column explains as it stands: 1 - mean squared error / variance."""

    prediction: Annotated[Text, Meta(description="The column of predictions.")]
    target: Annotated[Text, Meta(description="The column that is predicted.")]
    low: Annotated[float, Meta(description="The least that values of both count; a missing one counts as it.")]
    high: Annotated[float, Meta(description="The most that values of both count.")]


class Auc(RequestRecord, frozen=True, kw_only=True):
    """How often a score orders two rows of unlike labels rightly, ties counting half: the area under the ROC curve."""

    score: Annotated[Text, Meta(description="The column of scores.")]
    label: Annotated[Text, Meta(description="A yes-or-no column or question; a missing one counts no.")]
    low: Annotated[
        float | None, Meta(description="The least that a score counts; the card's bound, or 0, unless given.")
    ] = None
    high: Annotated[
        float | None, Meta(description="The most that a score counts; the card's bound, or 1, unless given.")
    ] = None


class Pairs(RequestRecord, frozen=True, kw_only=True):
    """The mean of an expression in two rows, over pairs of different rows."""

    kernel: Annotated[Text, Meta(description="The expression, its columns named by row: a or b, a dot, the name.")]
    low: Annotated[float, Meta(description="The least that the expression counts; a missing value counts as it.")] = 0
    high: Annotated[float, Meta(description="The most that the expression counts.")] = 1


class BestError(RequestRecord, frozen=True, kw_only=True, tag="best_error"):
    """How seldom the best hypothesis of a finite class errs."""

    hypotheses: Annotated[GivenClasses, Meta(description="The class, or several that are joined.")]
    target: Annotated[Text, Meta(description="The yes-or-no question to predict.")]
    features: ClassColumns = None


class Quantile(RequestRecord, frozen=True, kw_only=True):
    """Where the values of a column reach one level or several, each with an interval."""

    column: Annotated[Text, Meta(description="The column, of numbers, dates or timestamps.")]
    levels: Annotated[
        Share | Annotated[tuple[Share, ...], Meta(min_length=1, max_length=100)],
        Meta(description="A level such as 0.5, the median, or several."),
    ]
    low: Annotated[
        float | Annotated[str, Meta(max_length=40)],
        Meta(description="The public lower end, of dates one such as 2026-01-31; values below count as it."),
    ]
    high: Annotated[
        float | Annotated[str, Meta(max_length=40)],
        Meta(description="The public upper end; values above and missing ones count as it."),
    ]
    step: Annotated[
        Annotated[float, Meta(gt=0)], Meta(description="How far apart the points of the grid are; of dates in days.")
    ] = 1
    where: Annotated[Text | None, Meta(description="A condition that rows must meet to be looked at.")] = None
    method: Annotated[
        Literal["search", "curve", "exponential", "point"] | None,
        Meta(description="How it is found; as the ledger and the number of levels have it unless given."),
    ] = None
    epsilon: Annotated[
        Privacy | None,
        Meta(description="The privacy of all picks of exponential and point; a share of the reserve unless given."),
    ] = None


class Select(RequestRecord, frozen=True, kw_only=True):
    """A choice among candidates: the one that the most rows satisfy, or the one with the highest score."""

    candidates: Annotated[
        Annotated[dict[Text, Text | int], Meta(min_length=1, max_length=10_000)]
        | Annotated[tuple[Text, ...], Meta(min_length=1, max_length=10_000)]
        | None,
        Meta(description="Questions, or whole scores, by name; or a list of questions."),
    ] = None
    epsilon: Annotated[
        Privacy | None, Meta(description="The privacy of the choice; a share of the reserve unless given.")
    ] = None
    name: Annotated[PublicName | None, Meta(description="The public name by which these scores are known again.")] = None
    scores: Annotated[
        Annotated[dict[Text, RationalNumber], Meta(min_length=1, max_length=10_000)]
        | Annotated[tuple[RationalNumber, ...], Meta(min_length=1, max_length=10**7)]
        | None,
        Meta(description='Scores by name, or as a list whose places name them: whole numbers, or rationals such as "1/3".'),
    ] = None
    sensitivity: Annotated[
        Annotated[float, Meta(gt=0)] | RationalText | None,
        Meta(description="The most that one row moves a score; 1 unless given."),
    ] = None
    weights: Annotated[
        Annotated[tuple[Annotated[float, Meta(ge=0)] | RationalText, ...], Meta(min_length=1, max_length=10**7)] | None,
        Meta(description="The base measure: a number for each candidate, in their order, not all 0; equal unless given."),
    ] = None
    top: Annotated[
        Annotated[int, Meta(ge=1, le=1000)],
        Meta(description="How many are chosen, each among those left; epsilon is for all of them."),
    ] = 1
    line: Annotated[
        tuple[float, float] | None, Meta(description="The ends of a line that a point is chosen of, by scores.")
    ] = None
    cuts: Annotated[
        Annotated[tuple[float, ...], Meta(max_length=10**7)],
        Meta(description="Where the score changes on the line; there is one score more."),
    ] = ()


class WatchQuestion(RequestRecord, frozen=True, kw_only=True, tag="watch"):
    """One question of a watch: whether its share of the rows is above the watch's threshold."""

    query: Annotated[Text, Meta(description="The question.")]
    threshold: Annotated[
        Annotated[float, Meta(ge=0, le=1)], Meta(description="The share of the rows above which there is an alarm.")
    ]
    alarms: Annotated[
        Annotated[int, Meta(ge=1, le=1000)], Meta(description="The most alarms; each run, to its one alarm, is paid for.")
    ] = 1
    epsilon: Annotated[Privacy | None, Meta(description="The privacy of each run; a share of the reserve unless given.")] = (
        None
    )
    name: Annotated[PublicName | None, Meta(description="A public name that makes it another watch.")] = None
