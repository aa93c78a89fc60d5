"""From a sqlglot expression to our own tree: whatever is not listed here is refused, by name.

Only listed node types are lowered, and of each only the listed parts: a part that this module does not know refuses the
query, so that a later release of the parser cannot add a meaning unseen.
"""

import math
import re

from holdtrue.errors import UnsupportedQuery
from holdtrue.queries.cards import HIGHEST, LOWEST, Card, Column, Type
from holdtrue.queries.conditions import OPPOSITE, comparison, complement, conjunction, disjunction, like, member, null
from holdtrue.queries.reading import Node, operands
from holdtrue.queries.refusing import refusal
from holdtrue.queries.scalars import arithmetic, case, convert, function, negate
from holdtrue.queries.trees import (
    Boolean,
    Constant,
    Field,
    Missing,
    Name,
    Number,
    Operator,
    Scalar,
    Symbol,
    Text,
    Tree,
    Truth,
    type_of,
)

__all__ = ["lower"]

_MOST_LOWERED = 2048
_DECIMAL = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_COMPARISONS: dict[str, Operator] = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_SYMBOLS: dict[str, Symbol] = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}
_TYPES: dict[str, Type] = {"INT": "integer", "BIGINT": "integer", "DOUBLE": "real", "FLOAT": "real"}
_CONDITIONS = frozenset({*_COMPARISONS, "And", "Or", "Not", "Between", "In", "Like", "Is", "Boolean"})

# The parts that each node may have; those of the second list carry no meaning for us.
_PARTS: dict[str, str] = {
    **dict.fromkeys([*_COMPARISONS, *_SYMBOLS, "And", "Or", "Is", "Nullif"], "this expression"),
    **dict.fromkeys(["Not", "Paren", "Neg", "Boolean", "Abs", "Length", "Lower", "Upper", "Column"], "this"),
    **dict.fromkeys(["Least", "Greatest", "Coalesce", "In"], "this expressions"),
    "Between": "this low high",
    "Like": "this expression negate",
    "Cast": "this to",
    "Case": "this ifs default",
    "If": "this true false",
    "Literal": "this is_string",
    "Identifier": "this",
    "DataType": "this",
    "Null": "",
}
_IDLE = {
    "Div": "typed safe",
    "Least": "ignore_nulls",
    "Greatest": "ignore_nulls",
    "Identifier": "quoted",
    "DataType": "nested",
}
_FUNCTIONS: dict[str, Name] = {
    "Abs": "ABS",
    "Least": "LEAST",
    "Greatest": "GREATEST",
    "Coalesce": "COALESCE",
    "Nullif": "NULLIF",
    "Length": "LENGTH",
    "Lower": "LOWER",
    "Upper": "UPPER",
}


class _Known(dict[type, frozenset[str] | None]):
    """The parts that a type of node may have, or None for a type that is not listed; each is looked up once."""

    def __missing__(self, kind: type) -> frozenset[str] | None:
        name = kind.__name__
        listed = name in _PARTS and kind.__module__.startswith("sqlglot.")
        self[kind] = frozenset(f"{_PARTS[name]} {_IDLE.get(name, '')}".split()) if listed else None
        return self[kind]


_KNOWN = _Known()


def lower(node: Node, card: Card) -> Tree:
    """Return the canonical tree of an expression: a condition, or a scalar of numbers."""
    lowering = _Lowering(card)
    if lowering.is_condition(node):
        return lowering.condition(node, wanted=True)
    tree = lowering.scalar(node)
    if type_of(tree) == "text":
        message = "a query is a condition or a number, not text; compare the text with something"
        raise UnsupportedQuery(message)
    return tree


class _Lowering:
    def __init__(self, card: Card) -> None:
        self._card = card
        self._lowered = 0

    def _opened(self, node: Node) -> Node:
        """Return a node without its parentheses, known and whole, counting what was lowered."""
        self._lowered += 1
        if self._lowered > _MOST_LOWERED:
            message = "the query is too intricate; nest fewer CASE and CAST of conditions in one another"
            raise UnsupportedQuery(message)
        while True:
            known = _KNOWN[type(node)]
            if known is None or not node.args.keys() <= known:
                _check(node)
            if _kind(node) != "Paren":
                return node
            node = node.args["this"]

    def is_condition(self, node: Node) -> bool:
        node = self._opened(node)
        kind = _kind(node)
        return kind in _CONDITIONS or (kind == "Column" and self._column(node).type == "boolean")

    def _column(self, node: Node) -> Column:
        """Return the column that an opened node names."""
        name = node.args["this"]
        if _kind(name) != "Identifier":
            raise refusal(name)
        _check(name)
        return self._card.column(name.args["this"])

    # Conditions

    def condition(self, node: Node, *, wanted: bool) -> Boolean:  # noqa: C901 - one case for each kind of condition
        """Return what is true of the rows of which SQL calls a node true, or false where that is wanted."""
        node = self._opened(node)
        kind = _kind(node)
        if kind in _COMPARISONS:
            return self._comparison(node, _COMPARISONS[kind], wanted=wanted)
        match kind:
            case "Not":
                return self.condition(node.args["this"], wanted=not wanted)
            case "And" | "Or":
                parts = [self.condition(part, wanted=wanted) for part in operands(node)]
                return conjunction(parts) if (kind == "And") == wanted else disjunction(parts)
            case "Boolean":
                return Constant(bool(node.args["this"]) == wanted)
            case "Between":
                return self._between(node, wanted=wanted)
            case "In":
                return self._member(node, wanted=wanted)
            case "Like":
                return self._like(node, wanted=wanted)
            case "Is":
                return self._is(node, wanted=wanted)
            case "Column":
                column = self._column(node)
                if column.type == "boolean":
                    return Truth(column.name, wanted)
                message = f"{column.name!r} is of type {column.type}, not a condition; compare it with something"
                raise UnsupportedQuery(message)
            case _:
                message = "a condition is needed where a number or a text stands; compare it with something"
                raise UnsupportedQuery(message)

    def _comparison(self, node: Node, symbol: Operator, *, wanted: bool) -> Boolean:
        left, right = node.args["this"], node.args["expression"]
        if self.is_condition(left) or self.is_condition(right):
            return self._equated(symbol, left, right, wanted=wanted)
        if "Null" in (_kind(left), _kind(right)):
            message = "a comparison with NULL is never true; write IS NULL or IS NOT NULL"
            raise UnsupportedQuery(message)
        return comparison(symbol if wanted else OPPOSITE[symbol], self.scalar(left), self.scalar(right))

    def _equated(self, symbol: Operator, left: Node, right: Node, *, wanted: bool) -> Boolean:
        """Return a condition compared with TRUE or FALSE."""
        if _kind(self._opened(left)) == "Boolean":
            left, right = right, left
        constant = self._opened(right)
        if symbol not in ("=", "<>") or _kind(constant) != "Boolean":
            message = "a condition is compared with TRUE or FALSE only, by = or <>; otherwise write AND and OR"
            raise UnsupportedQuery(message)
        same = (symbol == "=") == wanted
        return self.condition(left, wanted=bool(constant.args["this"]) == same)

    def _between(self, node: Node, *, wanted: bool) -> Boolean:
        value, low, high = (self.scalar(node.args[part]) for part in ("this", "low", "high"))
        if wanted:
            return conjunction((comparison(">=", value, low), comparison("<=", value, high)))
        return disjunction((comparison("<", value, low), comparison(">", value, high)))

    def _member(self, node: Node, *, wanted: bool) -> Boolean:
        operand = self.scalar(node.args["this"])
        listed = [self.scalar(value) for value in node.args.get("expressions") or ()]
        if not listed:
            message = "IN needs a list of constants in parentheses"
            raise UnsupportedQuery(message)
        constants = [value for value in listed if isinstance(value, (Number, Text))]
        symbol: Operator = "=" if wanted else "<>"
        tests = [comparison(symbol, operand, value) for value in listed if not isinstance(value, (Number, Text))]
        if constants:
            tests.append(member(operand, constants, negated=not wanted))
        return disjunction(tests) if wanted else conjunction(tests)

    def _like(self, node: Node, *, wanted: bool) -> Boolean:
        pattern = node.args["expression"]
        if _kind(pattern) != "Literal" or not pattern.args["is_string"]:
            message = "LIKE needs a pattern in single quotes, with % and _ as wildcards"
            raise UnsupportedQuery(message)
        negated = bool(node.args.get("negate")) == wanted
        return like(self.scalar(node.args["this"]), pattern.args["this"], negated=negated)

    def _is(self, node: Node, *, wanted: bool) -> Boolean:
        operand, test = node.args["this"], self._opened(node.args["expression"])
        if _kind(test) == "Boolean":
            found = self.condition(operand, wanted=bool(test.args["this"]))
            return found if wanted else complement(found)
        if _kind(test) != "Null":
            raise refusal(test)
        if not self.is_condition(operand):
            return null(self.scalar(operand), negated=not wanted)
        inner = self._opened(operand)
        if _kind(inner) != "Column":
            message = "IS NULL takes a column, a number or a text, not a condition; test its columns"
            raise UnsupportedQuery(message)
        return null(Field(self._column(inner).name, "boolean"), negated=not wanted)

    # Scalars

    def scalar(self, node: Node) -> Scalar:
        """Return a node as a number or a text."""
        node = self._opened(node)
        kind = _kind(node)
        if kind in _SYMBOLS:
            return arithmetic(_SYMBOLS[kind], self.scalar(node.args["this"]), self.scalar(node.args["expression"]))
        if kind in _FUNCTIONS:
            return self._function(node, _FUNCTIONS[kind])
        match kind:
            case "Literal":
                return Text(node.args["this"]) if node.args["is_string"] else _number(node.args["this"])
            case "Null":
                return Missing()
            case "Column":
                return self._field(self._column(node))
            case "Neg":
                return self._negated(node.args["this"])
            case "Cast":
                return self._cast(node)
            case "Case" | "If":
                return self._case(node)
            case _:
                message = "a number is needed where a condition stands; write CASE WHEN ... THEN 1 ELSE 0 END, or IS TRUE"
                raise UnsupportedQuery(message)

    def _field(self, column: Column) -> Scalar:
        if column.type == "boolean":
            message = (
                f"{column.name!r} is boolean, not a number; write CAST(... AS INTEGER) or CASE WHEN ... THEN 1 ELSE 0 END"
            )
            raise UnsupportedQuery(message)
        return Field(column.name, column.type)

    def _negated(self, operand: Node) -> Scalar:
        inner = self._opened(operand)
        if _kind(inner) == "Literal" and not inner.args["is_string"]:
            # The lowest integer is written as minus something that is no 64-bit integer by itself.
            return _number(inner.args["this"], sign=-1)
        return negate(self.scalar(inner))

    def _function(self, node: Node, name: Name) -> Scalar:
        listed = [node.args["this"], node.args.get("expression"), *(node.args.get("expressions") or ())]
        return function(name, [self.scalar(operand) for operand in listed if operand is not None])

    def _cast(self, node: Node) -> Scalar:
        to = node.args["to"]
        kind = _TYPES.get(str(getattr(to.args.get("this"), "value", "")))
        if kind is None or to.args.get("expressions"):
            message = "CAST is to INTEGER (64 bits, cut towards zero) or to DOUBLE only"
            raise UnsupportedQuery(message)
        _check(to)
        operand = node.args["this"]
        if not self.is_condition(operand):
            value = self.scalar(operand)
            return Missing() if isinstance(value, Missing) else convert(value, kind)
        branches = [(self.condition(operand, wanted=wanted), Number(int(wanted))) for wanted in (True, False)]
        made = case(branches, Missing())
        return Missing() if isinstance(made, Missing) else convert(made, kind)

    def _case(self, node: Node) -> Scalar:
        if _kind(node) == "If":
            return case(
                [(self.condition(node.args["this"], wanted=True), self.scalar(node.args["true"]))],
                self._default(node, "false"),
            )
        subject = node.args.get("this")
        branches = []
        for arm in node.args["ifs"]:
            _check(arm)
            if arm.args.get("false") is not None:
                raise refusal(arm)
            if subject is None:
                condition = self.condition(arm.args["this"], wanted=True)
            else:
                condition = comparison("=", self.scalar(subject), self.scalar(arm.args["this"]))
            branches.append((condition, self.scalar(arm.args["true"])))
        return case(branches, self._default(node, "default"))

    def _default(self, node: Node, part: str) -> Scalar:
        value = node.args.get(part)
        return Missing() if value is None else self.scalar(value)


def _kind(node: Node) -> str:
    return type(node).__name__


def _check(node: Node) -> None:
    """Refuse a node that is not listed, or that has a part that is not."""
    known = _KNOWN[type(node)]
    if known is None:
        raise refusal(node)
    for part, value in node.args.items():
        if part not in known and value not in (None, False, []):
            raise refusal(node, part=part)


def _number(text: str, *, sign: int = 1) -> Scalar:
    if text.isdigit() and text.isascii():
        # A text of 4 KiB holds at most 4,096 digits, fewer than Python's own limit for reading integers.
        value = sign * int(text)
        if LOWEST <= value <= HIGHEST:
            return Number(value)
    elif not _DECIMAL.fullmatch(text):
        message = f"{text[:24]!r} is not a number of the query language; write 12, 0.5 or 1e-3"
        raise UnsupportedQuery(message)
    real = sign * float(text)
    if not math.isfinite(real):
        message = "a constant is beyond the largest real, about 1.8e308"
        raise UnsupportedQuery(message)
    return Number(real)
