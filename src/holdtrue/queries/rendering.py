"""The canonical text of a query: SQL that a person can read and that parses back to the same tree."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import NamedTuple, TypeAlias, assert_never

from holdtrue.queries.conditions import comparison
from holdtrue.queries.scalars import arithmetic
from holdtrue.queries.trees import (
    All,
    Any,
    Arithmetic,
    Case,
    Comparison,
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
    Scalar,
    Text,
    Tree,
    Truth,
    type_of,
)

__all__ = ["Piece", "render"]

# How tightly a piece binds.
_OR, _AND, _NOT, _TEST, _SUM, _PRODUCT, _SIGN, _ATOM = range(8)
_PLAIN = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_TYPES = {"real": "DOUBLE", "integer": "BIGINT"}
_Pair: TypeAlias = Arithmetic | Comparison


class Piece(NamedTuple):
    """A stretch of text, how tightly it binds, and its depth and nodes as the parser counts them."""

    text: str
    level: int = _ATOM
    depth: int = 1
    nodes: int = 1

    def within(self, level: int) -> "Piece":
        """Return the piece as an operand of something that binds this tightly."""
        return self if self.level >= level else Piece(f"({self.text})", _ATOM, self.depth + 1, self.nodes)


def render(tree: Tree) -> Piece:  # noqa: C901 - one case for each kind of condition, and the commonest first
    """Return the text of a canonical tree."""
    match tree:
        case Comparison():
            return _compared(tree)
        case Field(column=name):
            return _name(name)
        case Number(value=value):
            return Piece(repr(value)) if value >= 0 else Piece(repr(value), _SIGN, 2, 2)
        case Truth(column=name, wanted=wanted):
            return _name(name) if wanted else _over("NOT ", (_name(name),), level=_NOT)
        case All(children=children):
            return _chain(" AND ", _AND, children)
        case Any(children=children):
            return _chain(" OR ", _OR, children)
        case Constant(value=value):
            return Piece("TRUE" if value else "FALSE")
        case Member(operand=operand, values=values, negated=negated):
            listed = [render(Text(value) if isinstance(value, str) else Number(value)) for value in values]
            inner = ", ".join(piece.text for piece in listed)
            tested = render(operand).within(_SUM)
            found = _over("", (tested, *listed), level=_TEST, text=f"{tested.text} {'NOT ' * negated}IN ({inner})")
            return _denied(found) if negated else found
        case Like(operand=operand, pattern=pattern, negated=negated):
            tested, shape = render(operand).within(_SUM), render(Text(pattern))
            return _over("", (tested, shape), level=_TEST, text=f"{tested.text} {'NOT ' * negated}LIKE {shape.text}")
        case Null(operand=operand, negated=negated):
            tested = render(operand).within(_SUM)
            found = _over("", (tested, Piece("NULL")), level=_TEST, text=f"{tested.text} IS {'NOT ' * negated}NULL")
            return _denied(found) if negated else found
        case _:
            return _scalar(tree)


def _scalar(tree: Text | Missing | Arithmetic | Negate | Convert | Case | Function) -> Piece:
    match tree:
        case Text(value=value):
            return Piece("'" + value.replace("'", "''") + "'")
        case Missing():
            return Piece("NULL")
        case Negate(operand=operand):
            return _over("-", (render(operand).within(_ATOM),), level=_SIGN)
        case Convert(operand=operand, type=kind):
            inner = render(operand)
            return _over("", (inner,), text=f"CAST({inner.text} AS {_TYPES[kind]})")
        case Arithmetic():
            return _computed(tree)
        case Function(name=name, operands=operands):
            pieces = [render(operand) for operand in operands]
            return _over("", pieces, text=f"{name}({', '.join(piece.text for piece in pieces)})")
        case Case(branches=branches, default=default):
            pairs = [(render(condition), render(value)) for condition, value in branches]
            last = render(default)
            arms = " ".join(f"WHEN {condition.text} THEN {value.text}" for condition, value in pairs)
            ended = "" if isinstance(default, Missing) else f" ELSE {last.text}"
            pieces = [piece for pair in pairs for piece in pair] + ([last] if ended else [])
            return _over("", pieces, text=f"CASE {arms}{ended} END")
        case _:
            assert_never(tree)


def _over(prefix: str, pieces: Sequence[Piece], *, level: int = _ATOM, text: str | None = None) -> Piece:
    """Return a piece for one node above others."""
    written = prefix + pieces[0].text if text is None else text
    return Piece(written, level, 1 + max([piece.depth for piece in pieces]), 1 + sum([piece.nodes for piece in pieces]))


def _denied(piece: Piece) -> Piece:
    """Count the NOT that the parser sees around NOT IN and IS NOT NULL."""
    return Piece(piece.text, piece.level, piece.depth + 1, piece.nodes + 1)


def _chain(joint: str, level: int, children: Iterable[Tree]) -> Piece:
    pieces = [render(child).within(level + 1) for child in children]
    nodes = len(pieces) - 1 + sum([piece.nodes for piece in pieces])
    return Piece(joint.join([piece.text for piece in pieces]), level, 1 + max([piece.depth for piece in pieces]), nodes)


def _bare(tree: Scalar) -> Scalar:
    """Return a scalar without the conversion to a real that the parser would put there by itself."""
    match tree:
        case Convert(operand=operand, type="real"):
            return operand
        case Number(value=float() as value) if value.is_integer() and abs(value) < 2**53:
            return Number(int(value))
        case _:
            return tree


def _shortest(tree: _Pair, built: Callable[..., Tree]) -> tuple[Scalar, Scalar]:
    """Return the shortest way to write a pair of operands from which the same tree is built again."""
    full = (tree.left, tree.right)
    if type_of(tree.left) == "real":
        left, right = _bare(tree.left), _bare(tree.right)
        for pair in ((left, right), (tree.left, right), (left, tree.right)):
            if pair == full or built(tree.operator, *pair) == tree:
                return pair
    return full


def _computed(tree: Arithmetic) -> Piece:
    level = _SUM if tree.operator in ("+", "-") else _PRODUCT
    left, right = _shortest(tree, arithmetic)
    # The right operand binds one step tighter: a - (b - c) keeps its parentheses.
    return _infix(render(left).within(level), tree.operator, render(right).within(level + 1), level=level)


def _compared(tree: Comparison) -> Piece:
    left, right = _shortest(tree, comparison)
    return _infix(render(left).within(_SUM), tree.operator, render(right).within(_SUM), level=_TEST)


def _infix(left: Piece, symbol: str, right: Piece, *, level: int) -> Piece:
    text = f"{left.text} {symbol} {right.text}"
    return Piece(text, level, 1 + max(left.depth, right.depth), 1 + left.nodes + right.nodes)


@lru_cache(maxsize=4096)
def _name(name: str) -> Piece:
    if _PLAIN.fullmatch(name) and name.upper() not in _reserved():
        return Piece(name)
    return Piece('"' + name.replace('"', '""') + '"')


@cache
def _reserved() -> frozenset[str]:
    from sqlglot.tokens import Tokenizer

    return frozenset(Tokenizer.KEYWORDS)
