"""What fields of requests may hold, classes of hypotheses among it, and any record in words."""

from fractions import Fraction
from typing import Annotated, Any, TypeAlias, get_args

import msgspec
from msgspec import Meta, Struct, inspect


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
GivenClasses: TypeAlias = ClassDocument | Annotated[tuple[ClassDocument, ...], Meta(min_length=1, max_length=64)]
ClassColumns: TypeAlias = Annotated[
    Columns | None, Meta(description="What a class by position reads; all number columns unless given.")
]
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


class RequestRecord(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="verb", tag=str.lower):
    """What is asked, with its verb in lower case beside its fields in JSON.

    Fields at their default are left out, so that a field which is added later changes no request that was written before.
    """


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
