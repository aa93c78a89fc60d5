"""What may be asked: frozen records, each field declared once with its type, default, range and one sentence."""

from fractions import Fraction
from typing import Annotated, Any, TypeAlias, get_args

from msgspec import Meta, Struct

__all__ = [
    "ClassDocument",
    "ConjunctionsDocument",
    "DecisionListsDocument",
    "DisjunctionsDocument",
    "IntervalsDocument",
    "LinearNetDocument",
    "ParitiesDocument",
    "RectanglesDocument",
    "StumpsDocument",
    "ThresholdsDocument",
    "TreesDocument",
    "UnionDocument",
    "class_document",
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
