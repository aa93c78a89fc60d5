"""The canonical form of a tree: SQL that a person can read and that parses back to the same tree, and the digest.

The digest is that of the tree's notation and of the types of the columns that it reads; the text only shows it.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quote
from typing import NamedTuple, TypeAlias, assert_never, get_args

from holdtrue.errors import UnsupportedQuery
from holdtrue.queries.cards import Type
from holdtrue.queries.checking import make_comparison
from holdtrue.queries.dates import LIMITS, write_constant
from holdtrue.queries.scalars import make_arithmetic
from holdtrue.queries.sql_words import QUOTED, quote_name, quote_text
from holdtrue.queries.syntax_tree import (
    DEEPEST,
    LONGEST,
    MOST_NODES,
    Aggregate,
    And,
    Arithmetic,
    Boolean,
    CaseWhen,
    Constant,
    Convert,
    Field,
    Function,
    Like,
    Member,
    Missing,
    Negate,
    Null,
    Number,
    Or,
    Query,
    Scalar,
    Symbol,
    Text,
    Tree,
    Truth,
    ValueComparison,
    columns,
    list_children,
    notation,
    unfold_chain,
)

__all__ = ["HEAVIEST", "digest_of", "render", "render_operand", "to_query", "too_heavy", "weigh", "write_head"]

_VERSION = "holdtrue-query-1"
HEAVIEST = 4096
_BOOLEAN = get_args(Boolean)
# How tightly a piece binds.
_OR, _AND, _NOT, _TEST, _SUM, _PRODUCT, _SIGN, _ATOM = range(8)
_PLAIN = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_TYPES = {"real": "DOUBLE", "integer": "BIGINT", "date": "DATE", "timestamp": "TIMESTAMP"}
_Pair: TypeAlias = Arithmetic | ValueComparison


class Piece(NamedTuple):
    """A stretch of text, how tightly it binds, and its depth and nodes as the parser counts them."""

    text: str
    level: int = _ATOM
    depth: int = 1
    nodes: int = 1

    def bracket(self, level: int) -> "Piece":
        """Return the piece as an operand of something that binds this tightly."""
        return self if self.level >= level else Piece(f"({self.text})", _ATOM, self.depth + 1, self.nodes)


def to_query(tree: Tree) -> Query:
    """Return the query of a canonical tree, or refuse a tree that is too large to be written or computed.

    Two trees have one digest only where they are equal and the columns that they read are of the same types.
    """
    piece = render(tree)
    size = len(piece.text) if piece.text.isascii() else len(piece.text.encode())
    if size > LONGEST or piece.nodes > MOST_NODES or piece.depth > DEEPEST or too_heavy(tree, piece):
        message = (
            f"the query is too complex: in full it has {size} bytes, {piece.nodes} nodes and depth {piece.depth}; nest "
            "fewer divisions, comparisons, COALESCE, NULLIF and CAST"
        )
        raise UnsupportedQuery(message)
    held = columns(tree)
    return Query(tree, piece.text, digest_of(notation(tree), held), isinstance(tree, _BOOLEAN), tuple(held))


def digest_of(written: str, types: Mapping[str, Type]) -> str:
    """Return the SHA-256 of a tree's notation and of the types of the columns that it reads, sorted by name, as JSON."""
    return hashlib.sha256((write_head(types) + written).encode()).hexdigest()


def write_head(types: Mapping[str, Type]) -> str:
    """Return what is hashed before the notation of a tree: the version, and the types of columns, sorted by name."""
    return _write_types(tuple(types.items()))


@lru_cache(4096)
def _write_types(types: tuple[tuple[str, Type], ...]) -> str:
    listed = ", ".join([f'{quote(name)}: "{kind}"' for name, kind in types])
    return f"{_VERSION}\n{{{listed}}}\n"


def too_heavy(tree: Tree, piece: Piece) -> bool:
    """Return whether a tree weighs more than the heaviest one allowed.

    No guard repeats its operand more than once, so a node counts at most twice for each level above it. The text may leave
    out every other node (a conversion, a NULL after ELSE), none of which repeats anything: nodes times 2^depth is a bound.
    """
    return piece.nodes << piece.depth > HEAVIEST and weigh(tree) > HEAVIEST


def weigh(tree: Tree) -> int:
    """Return an upper bound on the nodes that the emitted expression evaluates, on the engine that repeats most.

    SQL expressions cannot name a value, so a guard repeats its operand, and guards within guards repeat it again.
    """
    if isinstance(tree, Arithmetic):
        first, steps = unfold_chain(tree)
        return weigh(first) + sum([1 + (2 if step.operator == "/" else 1) * weigh(step.right) for step in steps])
    below = [weigh(child) for child in list_children(tree)]
    match tree:
        case Aggregate():
            return 1 + sum([weigh(inner) for inner in _list_operands(tree)])
        case ValueComparison(left=left) if left.type == "real":
            return 1 + 2 * sum(below)
        case Function(name="COALESCE" | "NULLIF") | Convert(type="integer"):
            return 1 + 2 * sum(below)
        case Member(operand=operand, values=values):
            return 1 + len(values) + (2 if operand.type == "real" else 1) * sum(below)
        case _:
            return 1 + sum(below)


def render(tree: Tree) -> Piece:  # noqa: C901 - one case for each kind of condition, and the commonest first
    """Return the text of a canonical tree."""
    match tree:
        case ValueComparison():
            return _render_comparison(tree)
        case Field(column=name):
            return _render_aggregate(tree) if isinstance(tree, Aggregate) else _render_name(name)
        case Number(value=value, type=kind):
            if kind in LIMITS:
                return Piece(write_constant(int(value), kind))
            return Piece(repr(value)) if value >= 0 else Piece(repr(value), _SIGN, 2, 2)
        case Truth(column=name, wanted=wanted):
            return _render_name(name) if wanted else _wrap_pieces("NOT ", (_render_name(name),), level=_NOT)
        case And(children=parts):
            return _render_chain(" AND ", _AND, parts)
        case Or(children=parts):
            return _render_chain(" OR ", _OR, parts)
        case Constant(value=value):
            return Piece("TRUE" if value else "FALSE")
        case Member(operand=operand, values=values, negated=negated):
            kind = operand.type
            listed = [render(Text(value) if isinstance(value, str) else Number(value, kind)) for value in values]
            inner = ", ".join(piece.text for piece in listed)
            tested = render(operand).bracket(_SUM)
            found = _wrap_pieces("", (tested, *listed), level=_TEST, text=f"{tested.text} {'NOT ' * negated}IN ({inner})")
            return _add_negation(found) if negated else found
        case Like(operand=operand, pattern=pattern, negated=negated):
            tested, shape = render(operand).bracket(_SUM), render(Text(pattern))
            return _wrap_pieces("", (tested, shape), level=_TEST, text=f"{tested.text} {'NOT ' * negated}LIKE {shape.text}")
        case Null(operand=operand, negated=negated):
            tested = render(operand).bracket(_SUM)
            found = _wrap_pieces("", (tested, Piece("NULL")), level=_TEST, text=f"{tested.text} IS {'NOT ' * negated}NULL")
            return _add_negation(found) if negated else found
        case _:
            return _render_scalar(tree)


def render_operand(tree: Tree) -> str:
    """Return the text of a condition as it stands between ANDs."""
    return render(tree).bracket(_AND + 1).text


def _render_scalar(tree: Text | Missing | Arithmetic | Negate | Convert | CaseWhen | Function) -> Piece:
    match tree:
        case Text(value=value):
            return Piece(quote_text(value))
        case Missing():
            return Piece("NULL")
        case Negate(operand=operand):
            return _wrap_pieces("-", (render(operand).bracket(_ATOM),), level=_SIGN)
        case Convert(operand=operand, type=kind):
            inner = render(operand)
            return _wrap_pieces("", (inner,), text=f"CAST({inner.text} AS {_TYPES[kind]})")
        case Arithmetic():
            return _render_arithmetic(tree)
        case Function(name="DAYS", operands=(left, right)):
            return _write_infix(render(left), "-", render(right), level=_SUM)
        case Function(name=name, operands=operands):
            pieces = [render(operand) for operand in operands]
            return _wrap_pieces("", pieces, text=f"{name}({', '.join(piece.text for piece in pieces)})")
        case CaseWhen(branches=branches, default=default):
            pairs = [(render(condition), render(value)) for condition, value in branches]
            last = render(default)
            arms = " ".join(f"WHEN {condition.text} THEN {value.text}" for condition, value in pairs)
            ended = "" if isinstance(default, Missing) else f" ELSE {last.text}"
            pieces = [piece for pair in pairs for piece in pair] + ([last] if ended else [])
            return _wrap_pieces("", pieces, text=f"CASE {arms}{ended} END")
        case _:
            assert_never(tree)


def _list_operands(tree: Aggregate) -> list[Tree]:
    """Return what an aggregate evaluates on each row, in the order in which it is written."""
    return [inner for inner in (tree.operand, tree.order, tree.where) if inner is not None]


def _render_aggregate(tree: Aggregate) -> Piece:
    pieces = [render(inner) for inner in _list_operands(tree)]
    where = pieces[-1].text
    if tree.where == Constant(value=True):
        where = "*"
        pieces = pieces[:-1] or pieces
    if tree.operand is not None:
        order = "" if tree.order is None else f" BY {pieces[1].text}"
        where = f"{pieces[0].text}{order}" + ("" if where == "*" else f" WHERE {where}")
    dotted = f"{_render_name(tree.table).text}." if tree.table else ""
    return _wrap_pieces("", pieces, text=f"{dotted}{tree.name}({where})")


def _wrap_pieces(prefix: str, pieces: Sequence[Piece], *, level: int = _ATOM, text: str | None = None) -> Piece:
    """Return a piece for one node above others."""
    written = prefix + pieces[0].text if text is None else text
    return Piece(written, level, 1 + max([piece.depth for piece in pieces]), 1 + sum([piece.nodes for piece in pieces]))


def _add_negation(piece: Piece) -> Piece:
    """Count the NOT that the parser sees around NOT IN and IS NOT NULL."""
    return Piece(piece.text, piece.level, piece.depth + 1, piece.nodes + 1)


def _render_chain(joint: str, level: int, parts: Iterable[Tree]) -> Piece:
    pieces = [render(part).bracket(level + 1) for part in parts]
    nodes = len(pieces) - 1 + sum([piece.nodes for piece in pieces])
    return Piece(joint.join([piece.text for piece in pieces]), level, 1 + max([piece.depth for piece in pieces]), nodes)


def _drop_conversion(tree: Scalar) -> Scalar:
    """Return a scalar without the conversion to a real that the parser would add anyway."""
    match tree:
        case Convert(operand=operand, type="real"):
            return operand
        case Number(value=float() as value) if value.is_integer() and abs(value) < 2**53:
            return Number(int(value))
        case _:
            return tree


def _shortest_operands(tree: _Pair, built: Callable[..., Tree]) -> tuple[Scalar, Scalar]:
    """Return the shortest pair of operands that parses back to the same tree."""
    full = (tree.left, tree.right)
    if tree.left.type == "real":
        left, right = _drop_conversion(tree.left), _drop_conversion(tree.right)
        for pair in ((left, right), (tree.left, right), (left, tree.right)):
            if pair == full or built(tree.operator, *pair) == tree:
                return pair
    return full


def _render_arithmetic(tree: Arithmetic) -> Piece:
    steps: list[tuple[Symbol, Scalar]] = []
    inner: Scalar = tree
    while isinstance(inner, Arithmetic):
        symbol = inner.operator
        inner, right = _shortest_operands(inner, make_arithmetic)
        steps.append((symbol, right))
    piece = render(inner)
    for symbol, right in reversed(steps):
        level = _SUM if symbol in ("+", "-") else _PRODUCT
        # The right operand binds one step tighter: a - (b - c) keeps its parentheses.
        piece = _write_infix(piece.bracket(level), symbol, render(right).bracket(level + 1), level=level)
    return piece


def _render_comparison(tree: ValueComparison) -> Piece:
    if isinstance(tree.left, Field) and isinstance(tree.right, Number):  # a column: its type says what the number is read as
        pair: tuple[Scalar, Scalar] = (tree.left, _drop_conversion(tree.right) if tree.left.type == "real" else tree.right)
    else:
        pair = _shortest_operands(tree, make_comparison)
    left, right = (render(each).bracket(_SUM) for each in pair)
    return _write_infix(left, tree.operator, right, level=_TEST)


def _write_infix(left: Piece, symbol: str, right: Piece, *, level: int) -> Piece:
    """Return two pieces joined; a step of a chain is no deeper than what stands before it."""
    text = f"{left.text} {symbol} {right.text}"
    depth = max(left.depth + (left.level != level), right.depth + 1)
    return Piece(text, level, depth, 1 + left.nodes + right.nodes)


@lru_cache(maxsize=4096)
def _render_name(name: str) -> Piece:
    if _PLAIN.fullmatch(name) and name.upper() not in QUOTED:
        return Piece(name)
    return Piece(quote_name(name))
