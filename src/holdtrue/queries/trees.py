"""What a query means: our own frozen tree, with nothing of the analyst's text left in it.

A boolean tree is in negation normal form. Each of its atoms is two-valued, "this is true of the row": where SQL would say
NULL, the atom is false, and so NOT never stands above an atom (``NOT a > 1`` is ``a <= 1``, which no NULL satisfies).

A scalar tree is of one type: integer (64 bits), real (a double) or text, or NULL. NaN is NULL, wherever it comes from.

- Integers: + - * and unary minus give an integer only where :mod:`~holdtrue.queries.ranges` proves that every result
  fits into 64 bits; elsewhere the operands are converted to reals, and the tree says so by a :class:`Convert`.
- Reals: every operation is the IEEE one, correctly rounded; overflow saturates at infinity; an undefined result
  (infinity minus infinity) is NaN, hence NULL. Division is of reals, and division by zero is 0, whatever is divided.
- A NULL operand gives NULL, save in COALESCE, LEAST, GREATEST (which pass over it) and in a division by zero.
- The sign of a zero is nowhere to be seen.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from holdtrue.queries.cards import Type

__all__ = [
    "All",
    "Any",
    "Arithmetic",
    "Atom",
    "Boolean",
    "Case",
    "Comparison",
    "Constant",
    "Convert",
    "Field",
    "Function",
    "Like",
    "Member",
    "Missing",
    "Negate",
    "Null",
    "Number",
    "Query",
    "Scalar",
    "Text",
    "Tree",
    "Truth",
    "children",
    "columns",
    "type_of",
]

Operator: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">="]
Symbol: TypeAlias = Literal["+", "-", "*", "/"]
Name: TypeAlias = Literal["ABS", "LEAST", "GREATEST", "COALESCE", "NULLIF", "LENGTH", "LOWER", "UPPER"]


@dataclass(frozen=True, slots=True)
class Number:
    """A finite constant: an integer of 64 bits, or a double. ``Number(1)`` and ``Number(1.0)`` differ."""

    value: int | float
    real: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "real", isinstance(self.value, float))
        if self.value == 0:
            object.__setattr__(self, "value", 0.0 if self.real else 0)


@dataclass(frozen=True, slots=True)
class Text:
    """A constant text."""

    value: str


@dataclass(frozen=True, slots=True)
class Missing:
    """The constant NULL, of a type."""

    type: Type = "integer"


@dataclass(frozen=True, slots=True)
class Field:
    """The value of a column; one of type boolean stands only in a :class:`Null`."""

    column: str
    type: Type


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Two operands of one type: integers whose result is proven to fit (+ - *), or reals."""

    operator: Symbol
    left: "Scalar"
    right: "Scalar"


@dataclass(frozen=True, slots=True)
class Negate:
    """Unary minus, of a real or of an integer that is proven to be above the lowest one."""

    operand: "Scalar"


@dataclass(frozen=True, slots=True)
class Convert:
    """An integer as the nearest real, or a real cut towards zero as an integer (NULL where it does not fit)."""

    operand: "Scalar"
    type: Type


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first branch whose condition is true, or the default; all values are of one type."""

    branches: tuple[tuple["Boolean", "Scalar"], ...]
    default: "Scalar"


@dataclass(frozen=True, slots=True)
class Function:
    """A total function; operands are of one type. LENGTH counts code points, LOWER and UPPER change A to Z only."""

    name: Name
    operands: tuple["Scalar", ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """True of every row, or of none."""

    value: bool


@dataclass(frozen=True, slots=True)
class All:
    """True where all children are: flat, sorted, without repeats, two children at least."""

    children: tuple["Boolean", ...]


@dataclass(frozen=True, slots=True)
class Any:
    """True where a child is: flat, sorted, without repeats, two children at least."""

    children: tuple["Boolean", ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """True where both sides are there and stand in this order; texts are compared by code points."""

    operator: Operator
    left: "Scalar"
    right: "Scalar"


@dataclass(frozen=True, slots=True)
class Truth:
    """True where a boolean column holds the wanted value."""

    column: str
    wanted: bool


@dataclass(frozen=True, slots=True)
class Member:
    """True where the operand is there and is (or, negated, is not) one of two or more constants of its type."""

    operand: "Scalar"
    values: tuple[int, ...] | tuple[float, ...] | tuple[str, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like:
    """True where the text is there and matches (or not): % any characters, _ one code point, all else itself."""

    operand: "Scalar"
    pattern: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Null:
    """True where the operand is NULL or NaN (or, negated, where it is neither)."""

    operand: "Scalar"
    negated: bool = False


Scalar: TypeAlias = Number | Text | Missing | Field | Arithmetic | Negate | Convert | Case | Function
Atom: TypeAlias = Comparison | Truth | Member | Like | Null
Boolean: TypeAlias = Constant | All | Any | Atom
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


def type_of(tree: Scalar) -> Type:
    """Return the type of a scalar tree."""
    match tree:
        case Field(type=kind) | Missing(type=kind) | Convert(type=kind):
            return kind
        case Number(real=real):
            return "real" if real else "integer"
        case Text():
            return "text"
        case Arithmetic(left=inner) | Negate(operand=inner) | Case(default=inner):
            return type_of(inner)
        case Function(name="LENGTH"):
            return "integer"
        case Function(operands=operands):
            return type_of(operands[0])


def children(tree: Tree) -> Iterator[Tree]:
    """Yield the trees right below a tree."""
    match tree:
        case Number() | Text() | Missing() | Field() | Constant() | Truth():
            return
        case Comparison(left=left, right=right) | Arithmetic(left=left, right=right):
            yield left
            yield right
        case All(children=below) | Any(children=below) | Function(operands=below):
            yield from below
        case (
            Member(operand=inner)
            | Like(operand=inner)
            | Null(operand=inner)
            | Negate(operand=inner)
            | Convert(operand=inner)
        ):
            yield inner
        case Case(branches=branches, default=default):
            for condition, value in branches:
                yield condition
                yield value
            yield default


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
            case Comparison(left=one, right=other):
                left += (one, other)
            case _:
                left.extend(children(node))
    return dict(sorted(found.items()))
