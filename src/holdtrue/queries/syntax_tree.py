"""What a query means: our own frozen tree, with nothing of the analyst's text left in it.

A boolean tree is in negation normal form. Each of its atoms is two-valued, "this is true of the row": where SQL would say
NULL, the atom is false, and so NOT never stands above an atom (``NOT a > 1`` is ``a <= 1``, which no NULL satisfies).

A scalar tree is of one type: integer (64 bits), real (a double), text, date or timestamp, or NULL. NaN is NULL, wherever it
comes from. Dates and timestamps are the integers of :mod:`~holdtrue.queries.dates`, always within its calendar.

- Integers: + - * and unary minus give an integer only where :mod:`~holdtrue.queries.scalars` proves that every result
  fits into 64 bits; elsewhere the operands are converted to reals, and the tree says so by a :class:`Convert`.
- Reals: every operation is the IEEE one, correctly rounded; overflow saturates at infinity; an undefined result
  (infinity minus infinity) is NaN, hence NULL. Division is of reals, and division by zero is 0, whatever is divided.
- A NULL operand gives NULL, save in COALESCE, LEAST, GREATEST (which pass over it) and in a division by zero.
- The sign of a zero is nowhere to be seen.
"""

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii as quote
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias, assert_never, get_args

from holdtrue.errors import InvalidParameter
from holdtrue.exact import count
from holdtrue.queries.cards import Type

__all__ = [
    "COMPARE",
    "DEEPEST",
    "LONGEST",
    "MOST_BITS",
    "MOST_NODES",
    "Aggregate",
    "AggregateName",
    "And",
    "Arithmetic",
    "Atom",
    "Boolean",
    "CaseWhen",
    "Constant",
    "Convert",
    "Field",
    "Function",
    "Like",
    "Member",
    "Missing",
    "Name",
    "Negate",
    "Node",
    "Null",
    "Number",
    "Operator",
    "Or",
    "Part",
    "Query",
    "Scalar",
    "Symbol",
    "Text",
    "Tree",
    "Truth",
    "ValueComparison",
    "checked_bits",
    "columns",
    "list_aggregates",
    "list_children",
    "list_compared",
    "make_aggregate",
    "notation",
    "unfold_chain",
]

Operator: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">="]
Symbol: TypeAlias = Literal["+", "-", "*", "/"]
Part: TypeAlias = Literal["YEAR", "MONTH", "DAY", "WEEKDAY"]
Name: TypeAlias = Literal["ABS", "LEAST", "GREATEST", "COALESCE", "NULLIF", "LENGTH", "LOWER", "UPPER", "DAYS"] | Part
AggregateName: TypeAlias = Literal["COUNT", "SUM", "MIN", "MAX", "FIRST"]
_WHOLE = frozenset({"LENGTH", "DAYS", *get_args(Part)})
COMPARE: dict[Operator, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# The most bytes, nodes and levels of a query as it is written, by the analyst or in canonical form; the finest grid.
LONGEST: Final = 4096
MOST_NODES: Final = 256
DEEPEST: Final = 32
MOST_BITS: Final = 60


class Node(NamedTuple):
    """One construct as it was written, before anything is known of columns and types.

    ``kind`` is NAME, NUMBER, TEXT, a word or operator of the language, or CASE OF for a CASE with an operand of its own.
    ``text`` is the name or constant, the pattern of LIKE, or the type of CAST. Parentheses count in ``depth`` only.
    """

    kind: str
    operands: tuple["Node", ...] = ()
    text: str = ""
    depth: int = 1


class _Spelled:
    """Any part of a tree; it keeps its notation once it is known."""

    __slots__ = ("spelling",)
    spelling: str


@dataclass(frozen=True, slots=True)
class Number(_Spelled):
    """A finite constant: an integer of 64 bits, a double, a date or a timestamp. ``Number(1)`` is not ``Number(1.0)``."""

    value: int | float
    type: Type = "integer"

    def __post_init__(self) -> None:
        real = isinstance(self.value, float)
        if real:
            object.__setattr__(self, "type", "real")
        if self.value == 0:
            object.__setattr__(self, "value", 0.0 if real else 0)


@dataclass(frozen=True, slots=True)
class Text(_Spelled):
    """A constant text."""

    type: ClassVar[Type] = "text"
    value: str


@dataclass(frozen=True, slots=True)
class Missing(_Spelled):
    """The constant NULL, of a type."""

    type: Type = "integer"


@dataclass(frozen=True, slots=True)
class Field(_Spelled):
    """The value of a column; one of type boolean stands only in a :class:`Null`."""

    column: str
    type: Type


@dataclass(frozen=True, slots=True)
class Aggregate(Field):
    """A value of a unit, from the rows of one table that it owns and that satisfy ``where``: a column of units (U4).

    COUNT is how many rows there are. The others pass over rows where ``operand`` is NULL: SUM adds up values clamped to
    ``bounds``, MIN and MAX of no row are above and below everything, FIRST is the value of the row whose ``order`` is least,
    and of several such rows the least value; NULL where there is none. ``column`` spells all of it.
    """

    name: AggregateName
    table: str
    where: "Boolean"
    operand: "Scalar | None" = None
    order: "Scalar | None" = None
    bounds: tuple[float, float] | None = None


def make_aggregate(  # noqa: PLR0913 - what an aggregate is made of
    name: AggregateName,
    table: str,
    where: "Boolean",
    operand: "Scalar | None" = None,
    *,
    order: "Scalar | None" = None,
    bounds: tuple[float, float] | None = None,
) -> Aggregate:
    """Return an aggregate as a column of units: its name begins with a sign that no other column's name has."""
    inner = [notation(tree) for tree in (where, operand, order) if tree is not None]
    ends = "" if bounds is None else f" {bounds[0]!r} {bounds[1]!r}"
    kind: Type = "integer" if operand is None else operand.type
    return Aggregate(
        f"\x1f({name.lower()} {quote(table)} {' '.join(inner)}{ends})", kind, name, table, where, operand, order, bounds
    )


@dataclass(frozen=True, slots=True)
class Arithmetic(_Spelled):
    """Two operands of one type, which is its own: integers whose result is proven to fit (+ - *), or reals."""

    operator: Symbol
    left: "Scalar"
    right: "Scalar"
    type: Type = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", self.left.type)


@dataclass(frozen=True, slots=True)
class Negate(_Spelled):
    """Unary minus, of a real or of an integer that is proven to be above the lowest one."""

    operand: "Scalar"

    @property
    def type(self) -> Type:
        """The type of the operand."""
        return self.operand.type


@dataclass(frozen=True, slots=True)
class Convert(_Spelled):
    """An integer as the nearest real, or a real cut towards zero as an integer (NULL where it does not fit).

    A date as the timestamp at which it begins, or a timestamp as its date.
    """

    operand: "Scalar"
    type: Type


@dataclass(frozen=True, slots=True)
class CaseWhen(_Spelled):
    """The value of the first branch whose condition is true, or the default; all values are of one type."""

    branches: tuple[tuple["Boolean", "Scalar"], ...]
    default: "Scalar"

    @property
    def type(self) -> Type:
        """The type of all values."""
        return self.default.type


@dataclass(frozen=True, slots=True)
class Function(_Spelled):
    """A total function; operands are of one type. LENGTH counts code points, LOWER and UPPER change A to Z only.

    YEAR, MONTH, DAY and WEEKDAY (Monday is 0) are of a date; DAYS are those from its second date to its first.
    """

    name: Name
    operands: tuple["Scalar", ...]

    @property
    def type(self) -> Type:
        """The type of the value."""
        return "integer" if self.name in _WHOLE else self.operands[0].type


@dataclass(frozen=True, slots=True)
class Constant(_Spelled):
    """True of every row, or of none."""

    value: bool


@dataclass(frozen=True, slots=True)
class And(_Spelled):
    """True where all children are: flat, sorted, without repeats, two children at least."""

    children: tuple["Boolean", ...]


@dataclass(frozen=True, slots=True)
class Or(_Spelled):
    """True where a child is: flat, sorted, without repeats, two children at least."""

    children: tuple["Boolean", ...]


@dataclass(frozen=True, slots=True)
class ValueComparison(_Spelled):
    """True where neither side is NULL and the comparison holds; texts are compared by code points."""

    operator: Operator
    left: "Scalar"
    right: "Scalar"


@dataclass(frozen=True, slots=True)
class Truth(_Spelled):
    """True where a boolean column holds the wanted value."""

    column: str
    wanted: bool


@dataclass(frozen=True, slots=True)
class Member(_Spelled):
    """True where the operand is there and is (or, negated, is not) one of two or more constants of its type."""

    operand: "Scalar"
    values: tuple[int, ...] | tuple[float, ...] | tuple[str, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like(_Spelled):
    """True where the text is there and matches (or not): % any characters, _ one code point, all else itself."""

    operand: "Scalar"
    pattern: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Null(_Spelled):
    """True where the operand is NULL or NaN (or, negated, where it is neither)."""

    operand: "Scalar"
    negated: bool = False


Scalar: TypeAlias = Number | Text | Missing | Field | Arithmetic | Negate | Convert | CaseWhen | Function
Atom: TypeAlias = ValueComparison | Truth | Member | Like | Null
Boolean: TypeAlias = Constant | And | Or | Atom
Tree: TypeAlias = Scalar | Boolean


@dataclass(frozen=True, slots=True)
class Query:
    """A query in canonical form. ``text`` parses back to this query; ``digest`` names it and the types it rests on."""

    tree: Tree
    text: str
    digest: str
    boolean: bool
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return self.text


def checked_bits(bits: int) -> int:
    """Return the bits of the grid, checked: each row gives a multiple of 2^-bits."""
    if count("bits", bits, least=0) > MOST_BITS:
        raise InvalidParameter("bits", bits, f"a whole number, 0 to {MOST_BITS}")
    return int(bits)


def list_children(tree: Tree) -> Iterator[Tree]:
    """Yield the direct children of a tree."""
    match tree:
        case Number() | Text() | Missing() | Field() | Constant() | Truth():
            return
        case ValueComparison(left=left, right=right) | Arithmetic(left=left, right=right):
            yield left
            yield right
        case And(children=below) | Or(children=below) | Function(operands=below):
            yield from below
        case (
            Member(operand=inner)
            | Like(operand=inner)
            | Null(operand=inner)
            | Negate(operand=inner)
            | Convert(operand=inner)
        ):
            yield inner
        case CaseWhen(branches=branches, default=default):
            for condition, value in branches:
                yield condition
                yield value
            yield default


def unfold_chain(tree: Arithmetic) -> tuple[Scalar, list[Arithmetic]]:
    """Return what a chain of arithmetic begins with, and its steps from left to right.

    A chain is one level of nesting however long it is: whatever goes along it goes by a loop, never by recursion.
    """
    steps: list[Arithmetic] = []
    first: Scalar = tree
    while isinstance(first, Arithmetic):
        steps.append(first)
        first = first.left
    return first, steps[::-1]


def columns(tree: Tree) -> dict[str, Type]:
    """Return the columns that a tree reads, with their types, sorted by name."""
    found: dict[str, Type] = {}
    left = [tree]
    while left:
        node = left.pop()
        match node:
            case Field(column=name, type=kind):
                found[name] = kind
            case Truth(column=name):
                found[name] = "boolean"
            case Number() | Text():
                pass
            case ValueComparison(left=one, right=other):
                left += (one, other)
            case _:
                left.extend(list_children(node))
    return dict(sorted(found.items()))


def list_compared(tree: Tree) -> Iterator[tuple[str | None, str, str | int | float]]:
    """Yield every constant that a column is said to equal, or not to: the column's table or None, its name, the constant."""
    left: list[tuple[str | None, Tree]] = [(None, tree)]
    while left:
        table, node = left.pop()
        match node:
            case Aggregate(table=owned, where=where):
                left.append((owned, where))
            case ValueComparison(operator="=" | "<>", left=Field(column=name), right=(Number() | Text()) as right):
                yield table, name, right.value
            case Member(operand=Field(column=name), values=values):
                yield from ((table, name, value) for value in values)
            case _:
                left += ((table, child) for child in list_children(node))


def list_aggregates(tree: Tree) -> Iterator[Aggregate]:
    """Yield the aggregates of a tree, some of them more than once."""
    if isinstance(tree, Aggregate):
        yield tree
    for child in list_children(tree):
        yield from list_aggregates(child)


def notation(tree: Tree) -> str:
    """Return the unique spelling of a tree, by which trees are sorted and hashed."""
    known: str | None = getattr(tree, "spelling", None)
    if known is None:
        for step in unfold_chain(tree)[1][:-1] if isinstance(tree, Arithmetic) else ():
            notation(step)
        known = _spell_tree(tree)
        object.__setattr__(tree, "spelling", known)
    return known


def _spell_tree(tree: Tree) -> str:  # noqa: C901, PLR0912 - one case for each kind of tree
    # The commonest kinds come first, since every case is tried in turn.
    match tree:
        case Arithmetic(operator=symbol, left=left, right=right) | ValueComparison(operator=symbol, left=left, right=right):
            return f"({symbol} {notation(left)} {notation(right)})"
        case Field(column=name, type=kind):
            return f"(field {quote(name)} {kind})"
        case Number(value=value, type=kind):
            if isinstance(value, float):
                return value.hex()
            return str(value) if kind == "integer" else f"(constant {kind} {value})"
        case Truth(column=name, wanted=wanted):
            return f"(truth {quote(name)} {'true' if wanted else 'false'})"
        case And(children=below):
            return f"(all {' '.join([notation(child) for child in below])})"
        case Or(children=below):
            return f"(any {' '.join([notation(child) for child in below])})"
        case Text(value=value):
            return quote(value)
        case Member(operand=operand, values=values, negated=negated):
            listed = " ".join([notation(Text(value) if isinstance(value, str) else Number(value)) for value in values])
            return f"({'not-' * negated}in {notation(operand)} {listed})"
        case Null(operand=operand, negated=negated):
            return f"({'not-' * negated}missing {notation(operand)})"
        case Like(operand=operand, pattern=pattern, negated=negated):
            return f"({'not-' * negated}like {notation(operand)} {quote(pattern)})"
        case Missing(type=kind):
            return f"(null {kind})"
        case Negate(operand=operand):
            return f"(minus {notation(operand)})"
        case Convert(operand=operand, type=kind):
            return f"({kind} {notation(operand)})"
        case CaseWhen(branches=branches, default=default):
            listed = "".join(f"({notation(condition)} {notation(value)})" for condition, value in branches)
            return f"(case {listed} {notation(default)})"
        case Function(name=name, operands=operands):
            return f"({name.lower()} {' '.join(notation(operand) for operand in operands)})"
        case Constant(value=value):
            return "true" if value else "false"
        case _:
            assert_never(tree)
