"""What may be asked: frozen records, each field declared once with its type, default, range and one sentence.

A request says what is asked, and nothing of who asks or under which key: those travel beside it. What lives in a process
only (a class of hypotheses, an estimator, an array) stands here as its document. Ranges are checked where a record is read
from JSON; a record made in Python is checked by the verb that it is for.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta, Struct, inspect

from holdtrue.errors import InvalidParameter

__all__ = [
    "Ask",
    "Auc",
    "BestError",
    "By",
    "Certify",
    "ClassDocument",
    "Compare",
    "ConjunctionsDocument",
    "Correlation",
    "Covariance",
    "Cut",
    "DecisionListsDocument",
    "DisjunctionsDocument",
    "Distill",
    "EstimatorDocument",
    "Evaluate",
    "FieldDescription",
    "Fit",
    "Fourier",
    "Gate",
    "Gini",
    "Grant",
    "HoldoutTerms",
    "IntervalsDocument",
    "Learn",
    "LinearNetDocument",
    "MarginalSets",
    "Mean",
    "Pairs",
    "ParitiesDocument",
    "Polynomial",
    "Predict",
    "Quantile",
    "RSquared",
    "Ratio",
    "ReceiptDocument",
    "RectanglesDocument",
    "Register",
    "RegisterHoldout",
    "Request",
    "Score",
    "Select",
    "StumpsDocument",
    "Submit",
    "Synthesize",
    "Table",
    "Terms",
    "ThresholdsDocument",
    "Total",
    "Train",
    "TreesDocument",
    "UnionDocument",
    "Variance",
    "Verify",
    "WatchQuestion",
    "class_document",
    "describe",
]


class _ClassDocument(Struct, frozen=True, forbid_unknown_fields=True, tag_field="class"):
    """A finite class of hypotheses as JSON: what its constructor was given. Code is never in it (promise P10)."""


Bound: TypeAlias = tuple[float, float]
Steps: TypeAlias = Annotated[int, Meta(ge=1, description="Into how many steps each column is cut.")]
FlagColumns: TypeAlias = Annotated[
    int | tuple[str, ...], Meta(description="The yes-or-no columns by name, or how many there are.")
]
FlagWidth: TypeAlias = Annotated[int, Meta(ge=1, description="The most columns that one hypothesis reads.")]


class _OneColumnDocument(_ClassDocument, frozen=True):
    low: Annotated[float, Meta(description="The public lower bound of the column.")]
    high: Annotated[float, Meta(description="The public upper bound of the column.")]
    steps: Steps
    column: Annotated[str | None, Meta(description="The column, where there is more than one.")] = None


class ThresholdsDocument(_OneColumnDocument, frozen=True, tag="thresholds"):
    """Thresholds over one column."""


class IntervalsDocument(_OneColumnDocument, frozen=True, tag="intervals"):
    """Intervals over one column."""


class _BoundedDocument(_ClassDocument, frozen=True):
    bounds: Annotated[
        tuple[float | Bound, ...], Meta(description="One public pair (low, high) for all columns, or one for each.")
    ]
    steps: Steps
    columns: Annotated[tuple[str, ...] | None, Meta(description="The columns, in the order of their bounds.")] = None


class StumpsDocument(_BoundedDocument, frozen=True, tag="stumps"):
    """One threshold on one of several columns."""


class RectanglesDocument(_BoundedDocument, frozen=True, tag="rectangles"):
    """Boxes over several columns."""


class ConjunctionsDocument(_ClassDocument, frozen=True, tag="conjunctions"):
    """Conjunctions of yes-or-no columns and their negations."""

    columns: FlagColumns
    width: FlagWidth


class DisjunctionsDocument(_ClassDocument, frozen=True, tag="disjunctions"):
    """Disjunctions of yes-or-no columns and their negations."""

    columns: FlagColumns
    width: FlagWidth


class ParitiesDocument(_ClassDocument, frozen=True, tag="parities"):
    """Parities of yes-or-no columns."""

    columns: FlagColumns
    width: Annotated[FlagWidth | None, Meta(description="The most columns that one hypothesis reads; any unless given.")] = (
        None
    )


class DecisionListsDocument(_ClassDocument, frozen=True, tag="decisionlists"):
    """Lists of rules "if a column says yes, then this label"."""

    columns: FlagColumns
    length: Annotated[int, Meta(ge=1, description="The most rules of a list.")]


class TreesDocument(_ClassDocument, frozen=True, tag="trees"):
    """Decision trees over yes-or-no columns."""

    columns: FlagColumns
    depth: Annotated[int, Meta(ge=1, description="The depth of a tree.")]


class LinearNetDocument(_ClassDocument, frozen=True, tag="linearnet"):
    """A net of half-spaces."""

    dimension: Annotated[int | tuple[str, ...], Meta(description="The columns by name, or how many there are.")]
    count: Annotated[int | None, Meta(description="How many half-spaces of the sequence; or else resolution.")] = None
    resolution: Annotated[int | None, Meta(description="The largest weight of a grid of half-spaces; or else count.")] = None
    bounds: Annotated[
        tuple[float | Bound, ...] | None,
        Meta(description="One public pair (low, high) for all columns, or one for each."),
    ] = None


_Simple: TypeAlias = (
    ThresholdsDocument
    | IntervalsDocument
    | StumpsDocument
    | RectanglesDocument
    | ConjunctionsDocument
    | DisjunctionsDocument
    | ParitiesDocument
    | DecisionListsDocument
    | TreesDocument
    | LinearNetDocument
)


class UnionDocument(_ClassDocument, frozen=True, tag="union"):
    """Several classes as one."""

    classes: Annotated[tuple[_Simple, ...], Meta(min_length=1, max_length=64, description="The classes.")]
    weights: Annotated[
        tuple[Fraction, ...] | None,
        Meta(description='The share of each class, such as "1/3"; equal unless given.'),
    ] = None


ClassDocument: TypeAlias = _Simple | UnionDocument
_CLASSES: dict[str, Any] = {kind.__struct_config__.tag: kind for kind in get_args(ClassDocument)}


def class_document(kind: str, **given: object) -> ClassDocument:
    """Return the document of a class by the name that it has in JSON."""
    document: ClassDocument = _CLASSES[kind](**given)
    return document


Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=4096)]
Words: TypeAlias = Annotated[str, Meta(max_length=4096)]
DatasetName: TypeAlias = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
ModelName: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
PublicName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128)]
TeamName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")]
Privacy: TypeAlias = Annotated[float, Meta(gt=0, le=1000)]
Share: TypeAlias = Annotated[float, Meta(gt=0, lt=1)]
ShareOrNothing: TypeAlias = Annotated[float, Meta(ge=0, lt=1)]
Margin: TypeAlias = Annotated[float, Meta(gt=-1, lt=1)]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=10**9)]
Planned: TypeAlias = Annotated[int, Meta(ge=1, le=10**12)]
Label: TypeAlias = bool | int | float | Annotated[str, Meta(max_length=1024)]
Labels: TypeAlias = Annotated[tuple[Label, ...], Meta(min_length=1, max_length=4096)]
Columns: TypeAlias = Annotated[tuple[Text, ...], Meta(min_length=1, max_length=4096)]
Bounds: TypeAlias = Annotated[dict[Text, Bound], Meta(max_length=4096)]
Row: TypeAlias = Annotated[dict[Text, Label | None], Meta(min_length=1, max_length=4096)]
Rows: TypeAlias = Annotated[tuple[Row, ...], Meta(min_length=1, max_length=1000)]
Values: TypeAlias = Annotated[tuple[Label, ...], Meta(min_length=1, max_length=10**7)]
Results: TypeAlias = Annotated[tuple[bool | Annotated[float, Meta(ge=0, le=1)], ...], Meta(min_length=1, max_length=10**7)]
Flags: TypeAlias = Annotated[tuple[bool, ...], Meta(min_length=1, max_length=10**7)]
Weights: TypeAlias = Annotated[tuple[Annotated[float, Meta(ge=0, le=1e300)], ...], Meta(min_length=1, max_length=10**7)]
RationalText: TypeAlias = Annotated[str, Meta(pattern=r"^-?[0-9]{1,400}(/0*[1-9][0-9]{0,400})?$")]
RationalNumber: TypeAlias = int | RationalText
Classes: TypeAlias = Annotated[tuple[tuple[Label, Count], ...], Meta(min_length=1, max_length=4096)]


class _Request(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="verb", tag=str.lower):
    """What is asked, with its verb in lower case beside its fields in JSON.

    Fields at their default are left out, so that a field which is added later changes no request that was written before.
    """


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


class Ask(_Request, frozen=True, kw_only=True):
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


class Table(_Request, frozen=True, kw_only=True):
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


class MarginalSets(_Request, frozen=True, kw_only=True, tag="marginals"):
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


class Synthesize(_Request, frozen=True, kw_only=True):
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


class Mean(_Request, frozen=True, kw_only=True):
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


class Variance(_Request, frozen=True, kw_only=True):
    """The variance of a column of numbers, counted within public bounds."""

    column: Annotated[Text, Meta(description="The column of numbers.")]
    low: Annotated[float, Meta(description="The least that a value counts; a missing one counts as it.")]
    high: Annotated[float, Meta(description="The most that a value counts.")]


class Covariance(_Request, frozen=True, kw_only=True):
    """The covariance of two columns of numbers, each counted within public bounds."""

    first: Annotated[Text, Meta(description="A column of numbers.")]
    second: Annotated[Text, Meta(description="Another one.")]
    bounds: Annotated[
        Bounds | None, Meta(description="The least and the most that values of each count; the card's unless given.")
    ] = None


class Gini(_Request, frozen=True, kw_only=True):
    """The Gini coefficient of a column of numbers that are not negative, counted within public bounds."""

    column: Annotated[Text, Meta(description="The column of numbers.")]
    low: Annotated[
        Annotated[float, Meta(ge=0)], Meta(description="The least that a value counts; a missing one counts as it.")
    ]
    high: Annotated[float, Meta(description="The most that a value counts.")]


class Ratio(_Request, frozen=True, kw_only=True):
    """A ratio of two numbers of each unit, such as urgent visits to visits, in which a unit counts at most so many times."""

    numerator: Annotated[Text, Meta(description="What is added up, such as COUNT(urgent).")]
    denominator: Annotated[Text, Meta(description="What it is divided by, and how often a unit counts: COUNT(*).")]
    cap: Annotated[int, Meta(ge=1, description="How often a unit counts at most, however large its denominator.")]
    low: Annotated[float, Meta(description="The least that a unit's own ratio counts.")] = 0.0
    high: Annotated[float, Meta(description="The most that a unit's own ratio counts.")] = 1.0


class Correlation(Covariance, frozen=True, kw_only=True):
    """The correlation of two columns of numbers, each counted within public bounds."""


class RSquared(_Request, frozen=True, kw_only=True, tag="r_squared"):
    """The share of a column's variance that another column explains as it stands: 1 - mean squared error / variance."""

    prediction: Annotated[Text, Meta(description="The column of predictions.")]
    target: Annotated[Text, Meta(description="The column that is predicted.")]
    low: Annotated[float, Meta(description="The least that values of both count; a missing one counts as it.")]
    high: Annotated[float, Meta(description="The most that values of both count.")]


class Auc(_Request, frozen=True, kw_only=True):
    """How often a score orders two rows of unlike labels rightly, ties counting half: the area under the ROC curve."""

    score: Annotated[Text, Meta(description="The column of scores.")]
    label: Annotated[Text, Meta(description="A yes-or-no column or question; a missing one counts no.")]
    low: Annotated[
        float | None, Meta(description="The least that a score counts; the card's bound, or 0, unless given.")
    ] = None
    high: Annotated[
        float | None, Meta(description="The most that a score counts; the card's bound, or 1, unless given.")
    ] = None


class Pairs(_Request, frozen=True, kw_only=True):
    """The mean of an expression in two rows, over pairs of different rows."""

    kernel: Annotated[Text, Meta(description="The expression, its columns named by row: a or b, a dot, the name.")]
    low: Annotated[float, Meta(description="The least that the expression counts; a missing value counts as it.")] = 0
    high: Annotated[float, Meta(description="The most that the expression counts.")] = 1


class BestError(_Request, frozen=True, kw_only=True, tag="best_error"):
    """How seldom the best hypothesis of a finite class errs."""

    hypotheses: Annotated[
        ClassDocument | Annotated[tuple[ClassDocument, ...], Meta(min_length=1, max_length=64)],
        Meta(description="The class, or several that are joined."),
    ]
    target: Annotated[Text, Meta(description="The yes-or-no question to predict.")]
    features: Annotated[
        Columns | None, Meta(description="What a class by position reads; all number columns unless given.")
    ] = None


class Quantile(_Request, frozen=True, kw_only=True):
    """Where the values of a column reach one level or several, each with an interval."""

    column: Annotated[Text, Meta(description="The column, of numbers.")]
    levels: Annotated[
        Share | Annotated[tuple[Share, ...], Meta(min_length=1, max_length=100)],
        Meta(description="A level such as 0.5, the median, or several."),
    ]
    low: Annotated[float, Meta(description="The public lower end; values below count as it.")]
    high: Annotated[float, Meta(description="The public upper end; values above and missing ones count as it.")]
    step: Annotated[Annotated[float, Meta(gt=0)], Meta(description="How far apart the points of the grid are.")] = 1
    where: Annotated[Text | None, Meta(description="A condition that rows must meet to be looked at.")] = None
    method: Annotated[
        Literal["search", "curve", "exponential", "point"] | None,
        Meta(description="How it is found; as the ledger and the number of levels have it unless given."),
    ] = None
    epsilon: Annotated[
        Privacy | None,
        Meta(description="The privacy of all picks of exponential and point; a share of the reserve unless given."),
    ] = None


class Select(_Request, frozen=True, kw_only=True):
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


class WatchQuestion(_Request, frozen=True, kw_only=True, tag="watch"):
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


class Learn(_Request, frozen=True, kw_only=True):
    """A hypothesis of a finite class that errs about as seldom as the best."""

    hypotheses: Annotated[
        ClassDocument | Annotated[tuple[ClassDocument, ...], Meta(min_length=1, max_length=64)],
        Meta(description="The class, or several that are joined."),
    ]
    target: Annotated[Text, Meta(description="The yes-or-no question to predict.")]
    features: Annotated[
        Columns | None, Meta(description="What a class by position reads; all number columns unless given.")
    ] = None
    epsilon: Annotated[Privacy | None, Meta(description="The privacy of the pick; a share of the reserve unless given.")] = (
        None
    )
    alpha: Annotated[Share | None, Meta(description="The excess error that the rows must certify.")] = None
    beta: Annotated[Share | None, Meta(description="How often the certificate may fail; the plan's unless given.")] = None
    weights: Annotated[
        Annotated[tuple[Annotated[float, Meta(gt=0, le=1)], ...], Meta(min_length=2, max_length=64)] | None,
        Meta(description="The prior share of each of several classes; equal unless given."),
    ] = None
    anyway: Annotated[bool, Meta(description="Whether to go on where the rows do not certify alpha.")] = False
    assuming: Annotated[
        Literal["realizable"] | None, Meta(description="What is assumed: that some hypothesis of the class is never wrong.")
    ] = None
    check: Annotated[bool, Meta(description="Whether one more question is asked, about the errors of what was picked.")] = (
        False
    )
    row_weights: Annotated[
        Annotated[tuple[Annotated[int, Meta(ge=0, le=1_000_000)], ...], Meta(min_length=1, max_length=10**7)] | None,
        Meta(description="Public whole numbers, one for each row in its order: how often its error counts."),
    ] = None


class EstimatorDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """A scikit-learn estimator by name, with parameters from a short public list; code is never in it."""

    kind: Annotated[
        Literal[
            "logistic-regression",
            "decision-tree",
            "gaussian-naive-bayes",
            "linear-regression",
            "ridge",
            "decision-tree-regressor",
        ],
        Meta(description="Which estimator."),
    ]
    parameters: Annotated[
        Annotated[dict[str, Label | None], Meta(max_length=16)], Meta(description="Its parameters, by name.")
    ] = msgspec.field(default_factory=dict)


class Train(_Request, frozen=True, kw_only=True):
    """A model to train on disjoint parts of the rows; releases nothing."""

    name: Annotated[ModelName, Meta(description="The model's name.")]
    estimator: Annotated[
        EstimatorDocument | None, Meta(description="What is trained on each part, unless hypotheses are given.")
    ] = None
    target: Annotated[Text, Meta(description="The column or yes-or-no question to predict.")]
    features: Annotated[Columns | None, Meta(description="What the model reads; all number columns unless given.")] = None
    parts: Annotated[Annotated[int, Meta(ge=1, le=100_000)], Meta(description="How many disjoint parts vote.")] = 200
    labels: Annotated[Labels | None, Meta(description="The public labels of the target, where the card has none.")] = None
    bounds: Annotated[Bounds | None, Meta(description="The public bounds of a target that is a number.")] = None
    key: Annotated[Text | None, Meta(description="The column of public keys by which rows are dealt to parts.")] = None
    order: Annotated[Literal["fixed"] | None, Meta(description="Declares that no value decides the order of the rows.")] = (
        None
    )
    held_out: Annotated[Share | None, Meta(description="The share of rows kept out of training, to judge the model by.")] = (
        None
    )
    hypotheses: Annotated[
        ClassDocument | Annotated[tuple[ClassDocument, ...], Meta(min_length=1, max_length=64)] | None,
        Meta(description="The class whose best on each part votes, or several that are joined; in place of an estimator."),
    ] = None
    assuming: Annotated[
        Literal["realizable"] | None, Meta(description="What is assumed: that some hypothesis of the class is never wrong.")
    ] = None
    replace: Annotated[bool, Meta(description="Whether it takes the place of another model of the same name.")] = False


class Fourier(Struct, frozen=True, forbid_unknown_fields=True, tag_field="basis", tag="fourier"):
    """Random Fourier features, from a public seed: every row has length 1 exactly, up to rounding (V5).

    x becomes (cos of each of ``pairs`` random combinations of x, and their sines) / sqrt(pairs), for features that their
    public bounds bring into [-1, 1]; the combinations have normal weights of deviation ``scale``. A seed that was chosen by
    looking at the rows voids the bound on the loss.
    """

    pairs: Annotated[int, Meta(ge=1, le=10_000, description="How many random combinations of the features.")]
    scale: Annotated[float, Meta(gt=0, le=1e6, description="How fast they turn.")]
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1, description="The public seed of the random weights.")]

    def __post_init__(self) -> None:
        _check_field("pairs", self.pairs, int, low=1, high=10_000)
        _check_field("scale", self.scale, (int, float), low=1e-300, high=1e6)
        _check_field("seed", self.seed, int, low=0, high=2**63 - 1)


class Polynomial(Struct, frozen=True, forbid_unknown_fields=True, tag_field="basis", tag="polynomial"):
    """All products of up to ``degree`` features, weighted and scaled so that no row is longer than 1 (V5)."""

    degree: Annotated[int, Meta(ge=1, le=16, description="The most features in one product.")]

    def __post_init__(self) -> None:
        _check_field("degree", self.degree, int, low=1, high=16)


Basis: TypeAlias = Fourier | Polynomial


def _check_field(name: str, value: object, kind: Any, *, low: float, high: float) -> None:  # noqa: ANN401 - a type or two
    """Refuse what the annotations refuse, also where a record is made in Python."""
    if not isinstance(value, kind) or isinstance(value, bool) or not low <= value <= high:
        whole = "a whole number" if kind is int else "a number"
        raise InvalidParameter(name, value, f"{whole} from {low:g} to {high:g}")


FitKind: TypeAlias = Literal["ridge", "logistic", "huber", "hinge", "squared-clipped", "thresholds"]


class Fit(_Request, frozen=True, kw_only=True):
    """A linear model that one row changes very little: weights published once with noise, or predictions one by one."""

    name: Annotated[ModelName, Meta(description="The model's name.")]
    kind: Annotated[
        FitKind,
        Meta(
            description="Which loss: ridge, huber and squared-clipped for numbers, logistic and hinge for two labels, or"
            " thresholds for two labels by one feature."
        ),
    ]
    target: Annotated[Text, Meta(description="The column or yes-or-no question to predict.")]
    features: Annotated[Columns | None, Meta(description="What the model reads; all number columns unless given.")] = None
    bounds: Annotated[
        Bounds | None, Meta(description="The public bounds of features, which are clipped to them, and of the target.")
    ] = None
    labels: Annotated[Labels | None, Meta(description="The two public labels of the target, where the card has none.")] = (
        None
    )
    mu: Annotated[
        Privacy | None,
        Meta(description="The privacy of the weights, or of one prediction; a share of the reserve unless given."),
    ] = None
    epsilon: Annotated[
        Privacy | None, Meta(description="For release each: the privacy of one prediction, by Laplace noise.")
    ] = None
    release: Annotated[
        Literal["once", "each"] | None,
        Meta(
            description="Whether weights are published once, or kept by the owner and each prediction charged; once unless"
            " given, each for thresholds."
        ),
    ] = None
    method: Annotated[
        Literal["minimiser", "descent"],
        Meta(description="The minimiser with a regulariser, or a fixed number of gradient steps without one."),
    ] = "minimiser"
    basis: Annotated[
        Basis | None, Meta(description="Functions of the features that the model is linear in; the features unless given.")
    ] = None
    radius: Annotated[
        Annotated[float, Meta(gt=0, le=1e6)], Meta(description="The length of the weights that it is compared with.")
    ] = 1
    strength: Annotated[
        Annotated[float, Meta(gt=0, le=1e6)] | None,
        Meta(description="The strength of the regulariser; what makes the bound least unless given."),
    ] = None
    replace: Annotated[bool, Meta(description="Whether a kept fit takes the place of another model of the same name.")] = (
        False
    )


class Predict(_Request, frozen=True, kw_only=True):
    """Private predictions of a trained model, for one row or several."""

    model: Annotated[ModelName, Meta(description="The model's name.")]
    row: Annotated[Row | None, Meta(description="One row, by column.")] = None
    rows: Annotated[Rows | None, Meta(description="Several rows, in place of one.")] = None
    epsilon: Annotated[
        Privacy | None, Meta(description="The privacy of one prediction; a share of the reserve unless given.")
    ] = None
    mu: Annotated[Privacy | None, Meta(description="The same in Gaussian differential privacy.")] = None
    method: Annotated[Literal["soft-majority", "agnostic", "noisy-max"], Meta(description="How votes become a label.")] = (
        "soft-majority"
    )
    screen: Annotated[Share | None, Meta(description="The share of parts that must agree, about, for an answer.")] = None


class Evaluate(_Request, frozen=True, kw_only=True):
    """How often a model's private predictions err at most, by held-out rows, or the error of what was released."""

    model: Annotated[ModelName | None, Meta(description="The name of a model that predicts privately.")] = None
    at_most: Annotated[
        Share | Annotated[tuple[Share, ...], Meta(min_length=1, max_length=100)] | None,
        Meta(description="The share of errors to certify; several falling ones are tried until one is refused."),
    ] = None
    epsilon: Annotated[
        Privacy | None,
        Meta(description="The privacy of the predictions that are judged; a share of the reserve unless given."),
    ] = None
    mu: Annotated[
        Privacy | None, Meta(description="The privacy of the evaluation, for each share; of the reserve unless given.")
    ] = None
    beta: Annotated[Share | None, Meta(description="The probability that it is wrong; the plan's unless given.")] = None
    entry: Annotated[
        Count | None, Meta(description="The ledger's entry of a learned rule or published model, in place of a name.")
    ] = None


class Distill(_Request, frozen=True, kw_only=True):
    """Labels for public rows, and a student that is taught with them and predicts at no further cost."""

    model: Annotated[ModelName, Meta(description="The model that labels.")]
    rows: Annotated[
        Annotated[tuple[Row, ...], Meta(min_length=1, max_length=100_000)], Meta(description="The public rows to label.")
    ]
    student: Annotated[EstimatorDocument | None, Meta(description="What is taught; left to whoever asks unless given.")] = (
        None
    )
    labels: Annotated[Count | None, Meta(description="How many rows are labelled; all unless given.")] = None
    groups: Annotated[Count | None, Meta(description="Into how many groups of like rows they go, with one label each.")] = (
        None
    )
    epsilon: Annotated[
        Privacy | None, Meta(description="The privacy of one label; a share of the reserve unless given.")
    ] = None
    mu: Annotated[Privacy | None, Meta(description="The same in Gaussian differential privacy.")] = None
    screen: Annotated[Share | None, Meta(description="The share of parts that must agree, about, for a label.")] = None


class Score(_Request, frozen=True, kw_only=True):
    """The score of a submission: one look at a holdout."""

    y_pred: Annotated[Values | None, Meta(description="Predictions, one for each case.")] = None
    cases: Annotated[
        Results | None, Meta(description="Results from elsewhere, one for each case, in place of predictions.")
    ] = None
    metric: Annotated[Literal["accuracy", "error", "brier", "recall"], Meta(description="How predictions are scored.")] = (
        "accuracy"
    )
    train: Annotated[
        Values | None, Meta(description="Predictions, or results, for the training cases of a reusable holdout.")
    ] = None
    of: Annotated[Label | None, Meta(description="The class whose recall is scored.")] = None
    ids: Annotated[Values | None, Meta(description="The id of each case, where they come in another order.")] = None
    name: Annotated[PublicName | None, Meta(description="The public name by which results are known again.")] = None
    threshold: Annotated[Share | None, Meta(description="By how much this training score may differ.")] = None


class Compare(_Request, frozen=True, kw_only=True):
    """By how much the first submission is above the second: one look."""

    first: Annotated[Values, Meta(description="Predictions of the first, or its results.")]
    second: Annotated[Values, Meta(description="Predictions of the second, or its results.")]
    ids: Annotated[Values | None, Meta(description="The id of each case, where they come in another order.")] = None
    results: Annotated[bool, Meta(description="Whether these are results, not predictions.")] = False
    differ: Annotated[Flags | None, Meta(description="The cases where results can differ.")] = None
    name: Annotated[PublicName | None, Meta(description="The public name by which these results are known again.")] = None


class Gate(_Request, frozen=True, kw_only=True):
    """Whether a submission is better than the incumbent: one look, yes or no."""

    y_pred: Annotated[Values | None, Meta(description="Predictions, one for each case.")] = None
    cases: Annotated[
        Results | None, Meta(description="Results from elsewhere, one for each case, in place of predictions.")
    ] = None
    margin: Annotated[Margin, Meta(description="By how much it must be better; below 0, by how much it may be worse.")] = 0
    ids: Annotated[Values | None, Meta(description="The id of each case, where they come in another order.")] = None
    name: Annotated[PublicName | None, Meta(description="The public name by which results are known again.")] = None


class Certify(_Request, frozen=True, kw_only=True):
    """The score of a gate's incumbent, or its gain, or the bound of a yes; closes the gate for good."""

    what: Annotated[
        Literal["score", "gain", "bound"],
        Meta(description="The score, or the gain over whom the gate was opened with, or the lower bound of a yes."),
    ] = "score"
    of: Annotated[
        Text | None,
        Meta(description="For a bound: the submission of the verdict that was a yes; the incumbent unless given."),
    ] = None


class Submit(_Request, frozen=True, kw_only=True):
    """A submission to a leaderboard."""

    y_pred: Annotated[Values, Meta(description="Predictions, one for each case.")]
    name: Annotated[TeamName | None, Meta(description="Under which name it stands; over HTTP behind the caller's own.")] = (
        None
    )
    ids: Annotated[Values | None, Meta(description="The id of each case, where they come in another order.")] = None


class Grant(_Request, frozen=True, kw_only=True):
    """An analyst's allowance: a limit under the one budget of all."""

    analyst: Annotated[PublicName, Meta(description="Who it is for.")]
    asks: Annotated[
        Annotated[int, Meta(ge=0, le=10**12)] | None, Meta(description="How many questions' worth; null lifts the limit.")
    ]


class ReceiptDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """A receipt that was kept outside the ledger."""

    entry: Annotated[Annotated[int, Meta(ge=0, le=2**53)], Meta(description="The number of an entry.")]
    digest: Annotated[Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")], Meta(description="Its digest.")]


class Verify(_Request, frozen=True, kw_only=True):
    """A ledger to be recomputed from its first entry."""

    receipts: Annotated[
        Annotated[tuple[ReceiptDocument, ...], Meta(max_length=1000)], Meta(description="Receipts to hold it against.")
    ] = ()


class Reserved(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Predictions that a reserve is kept for, in the currency that leaves the questions most unless one is named."""

    predictions: Annotated[Count, Meta(description="How many predictions, or other draws of bounded range.")]
    epsilon: Annotated[Privacy, Meta(description="The epsilon of each at most.")]
    currency: Annotated[
        Literal["mu", "rho", "draws"] | None,
        Meta(description="mu squared, as the questions; a purse in rho; or a purse counted in draws."),
    ] = None


class Terms(_Request, frozen=True, kw_only=True):
    """All that is fixed for good when a ledger is created for rows."""

    queries: Annotated[Planned | None, Meta(description="How many questions are planned.")] = None
    alpha: Annotated[Share | None, Meta(description="How far every answer may be from the population.")] = None
    beta: Annotated[Share, Meta(description="How often any of the promises may fail.")] = 0.05
    epsilon: Annotated[Privacy | None, Meta(description="The privacy of everything that is ever released.")] = None
    delta: Annotated[ShareOrNothing | None, Meta(description="The slack of that privacy.")] = None
    reserve: Annotated[
        ShareOrNothing | Reserved,
        Meta(
            description="The share of the budget that is kept for other verbs than ask, or the predictions it is kept for."
        ),
    ] = 0.25
    uses: Annotated[Count, Meta(description="For how many uses of those verbs the reserve is planned.")] = 10
    cap: Annotated[
        Literal["validity", "privacy"] | None, Meta(description="Whether the plan or epsilon and delta cap the ledger.")
    ] = None
    iid: Annotated[bool, Meta(description="Whether the rows are independent draws from the population.")] = False
    pure: Annotated[bool, Meta(description="Whether the ledger counts pure epsilon.")] = False
    types: Annotated[
        Annotated[dict[Text, Literal["boolean", "integer", "real", "text", "date", "timestamp"]], Meta(max_length=4096)]
        | None,
        Meta(description="The types of columns, where they are not to be inferred."),
    ] = None
    bounds: Annotated[Bounds | None, Meta(description="The public bounds of columns of numbers.")] = None
    labels: Annotated[
        Annotated[dict[Text, Labels], Meta(max_length=4096)] | None, Meta(description="The public labels of columns.")
    ] = None
    header: Annotated[bool | Columns | None, Meta(description="Whether a CSV file has a header, or its columns' names.")] = (
        None
    )
    second_budget: Annotated[bool, Meta(description="Whether rows that have a budget already get another one.")] = False
    unit: Annotated[
        Text, Meta(description="Who is protected: a row, or whoever has one key in the column of this name.")
    ] = "row"
    tables: Annotated[
        Annotated[dict[Text, Text], Meta(max_length=64)] | None,
        Meta(description="The files with rows that units own, by name; the data have one row for each unit then."),
    ] = None
    side: Annotated[
        Literal["both", "low", "high"], Meta(description="Which ends of intervals for the population are promised.")
    ] = "both"
    group: Annotated[
        Annotated[int, Meta(ge=1, le=10**6)] | None,
        Meta(description="The most rows that one person owns, who is then protected with all of them."),
    ] = None


class Register(Terms, frozen=True, kw_only=True):
    """A dataset to guard."""

    name: Annotated[DatasetName, Meta(description="The dataset's name.")]
    path: Annotated[Text, Meta(description="Where its files are.")]
    description: Annotated[Words, Meta(description="What it is, in words.")] = ""


class HoldoutTerms(_Request, frozen=True, kw_only=True):
    """All that is fixed for good when a ledger is created for cases."""

    looks: Annotated[Count | None, Meta(description="How many looks are planned.")] = None
    beta: Annotated[Share | None, Meta(description="How often any of the promises may fail; 0.05 unless given.")] = None
    yes: Annotated[Count | None, Meta(description="How often a gate may say yes.")] = None
    incumbent: Annotated[Values | None, Meta(description="What a gate's first submission must be better than.")] = None
    train: Annotated[Values | None, Meta(description="The labels of the training cases of a reusable holdout.")] = None
    overfits: Annotated[Count | None, Meta(description="How many training scores of a reusable holdout may be wrong.")] = (
        None
    )
    private: Annotated[
        bool | None, Meta(description="Whether the cases keep their secrets; as the mode has it unless given.")
    ] = None
    epsilon: Annotated[Privacy | None, Meta(description="The privacy of everything that is ever told.")] = None
    delta: Annotated[Share | None, Meta(description="The slack of that privacy.")] = None
    threshold: Annotated[Share | None, Meta(description="By how much training scores may differ.")] = None
    tolerance: Annotated[Share | None, Meta(description="How far a guess may be from the holdout's score.")] = None
    reserve: Annotated[
        ShareOrNothing, Meta(description="The share of the budget that full scores leave for other releases.")
    ] = 0
    metric: Annotated[
        Literal["accuracy", "cases", "hits"] | None,
        Meta(description="Whether predictions, results in [0, 1], or results that are right or not are given."),
    ] = None
    ids: Annotated[Values | None, Meta(description="The id of each case.")] = None
    weights: Annotated[Weights | None, Meta(description="The weight of each case.")] = None
    labels: Annotated[Labels | None, Meta(description="The public labels.")] = None
    classes: Annotated[
        Classes | None, Meta(description="Labels whose number of cases is public, each with that number.")
    ] = None
    unseen: Annotated[bool | None, Meta(description="Whether submissions are made without sight of the cases.")] = None
    cluster: Annotated[
        Values | None, Meta(description="The unit that each case belongs to, on a gate or for full scores.")
    ] = None
    tells: Annotated[
        Literal["bounds at the end", "bounds"] | None,
        Meta(description="Whether a gate tells a lower bound of every yes after it has closed, or with the yes."),
    ] = None
    gain: Annotated[Share | None, Meta(description="The gain that a gate plans its bets for.")] = None
    discordant: Annotated[
        Share | None, Meta(description="The share of cases in which two submissions are expected to differ.")
    ] = None
    submissions: Annotated[Count | None, Meta(description="How many submissions a leaderboard takes.")] = None
    rule: Annotated[
        Literal["ladder", "parameter-free ladder", "private ladder", "private"] | None,
        Meta(description="What a leaderboard tells; a ladder unless given."),
    ] = None
    step: Annotated[Share | None, Meta(description="By how much a submission must be better to lead.")] = None
    moves: Annotated[Count | None, Meta(description="How often the lead of a private ladder may change.")] = None


class RegisterHoldout(HoldoutTerms, frozen=True, kw_only=True, tag="register-holdout"):
    """Cases to guard: labels, a file of them, or a number of cases whose results come with every look."""

    name: Annotated[DatasetName, Meta(description="The holdout's name.")]
    kind: Annotated[Literal["holdout", "leaderboard"], Meta(description="What is registered.")] = "holdout"
    description: Annotated[Words, Meta(description="What it is, in words.")] = ""
    y_true: Annotated[Values | None, Meta(description="The label of each case.")] = None
    path: Annotated[Text | None, Meta(description="The file with the labels.")] = None
    column: Annotated[Text | None, Meta(description="The column of that file.")] = None
    cases: Annotated[Annotated[int, Meta(ge=1, le=10**7)] | None, Meta(description="How many cases there are.")] = None


Request: TypeAlias = (
    Ask
    | Table
    | Mean
    | Total
    | Quantile
    | Select
    | Learn
    | Train
    | Predict
    | Distill
    | Score
    | Compare
    | Gate
    | Certify
    | Submit
    | Grant
    | Verify
    | Register
    | RegisterHoldout
    | Variance
    | Covariance
    | Gini
    | Pairs
    | Auc
    | Correlation
    | RSquared
    | BestError
    | Ratio
    | WatchQuestion
    | Evaluate
    | MarginalSets
    | Synthesize
    | Fit
)


class FieldDescription(Struct, frozen=True):
    """One field of a record in words: its type, what it is unless given, within which limits, and its sentence."""

    name: str
    type: str
    required: bool
    default: Any
    range: str
    sentence: str


def describe(kind: type[Struct]) -> tuple[FieldDescription, ...]:
    """Return every field of a record in words, for whoever writes it, or writes about it."""
    found = inspect.type_info(kind)
    if not isinstance(found, inspect.StructType):
        raise TypeError(kind)
    return tuple(_describe_field(field) for field in found.fields)


def _describe_field(field: inspect.Field) -> FieldDescription:
    schema = field.type.extra_json_schema if isinstance(field.type, inspect.Metadata) else None
    made = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else None
    default = made if field.default is msgspec.NODEFAULT else field.default
    return FieldDescription(
        name=field.name,
        type=_type_in_words(field.type),
        required=field.required,
        default=default,
        range=_range_in_words(field.type),
        sentence=str((schema or {}).get("description", "")),
    )


def _type_in_words(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata():
            return _type_in_words(kind.type)
        case inspect.UnionType():
            found = dict.fromkeys(map(_type_in_words, kind.types))
            if set(_VALUE) <= set(found):
                found = {"value": None} | {words: None for words in found if words not in _VALUE}
            return " or ".join(found)
        case inspect.LiteralType():
            return " or ".join(repr(value) for value in kind.values)
        case inspect.VarTupleType():
            return f"list of {_type_in_words(kind.item_type)}"
        case inspect.TupleType():
            return f"list of {', '.join(map(_type_in_words, kind.item_types))}"
        case inspect.DictType():
            return f"object of {_type_in_words(kind.value_type)} by name"
        case inspect.StructType():
            return "class of hypotheses" if kind.tag_field == "class" else kind.cls.__name__.removesuffix("Document").lower()
        case _:
            return _TYPES.get(type(kind), "rational")


_VALUE = ("true or false", "whole number", "number", "text")
_TYPES: dict[type, str] = {
    inspect.IntType: "whole number",
    inspect.FloatType: "number",
    inspect.StrType: "text",
    inspect.BoolType: "true or false",
    inspect.NoneType: "null",
}
_LIMITS = {
    "gt": "above {}",
    "ge": "at least {}",
    "lt": "below {}",
    "le": "at most {}",
    "min_length": "length at least {}",
    "max_length": "length at most {}",
    "pattern": "matches {}",
}


def _range_in_words(kind: inspect.Type) -> str:
    """Return the limits of a type; those of the one type beside null in a union."""
    if isinstance(kind, inspect.Metadata):
        return _range_in_words(kind.type)
    if isinstance(kind, inspect.UnionType):
        return "; ".join(dict.fromkeys(filter(None, map(_range_in_words, kind.types))))
    limits = [(words, getattr(kind, name, None)) for name, words in _LIMITS.items()]
    shortest, longest = getattr(kind, "min_length", None), getattr(kind, "max_length", None)
    if shortest is not None and longest is not None:
        return f"length {_number(shortest)} to {_number(longest)}"
    return ", ".join(words.format(_number(limit)) for words, limit in limits if limit is not None)


def _number(limit: object) -> str:
    return f"{limit:,}" if isinstance(limit, int) else f"{limit:g}" if isinstance(limit, float) else str(limit)
