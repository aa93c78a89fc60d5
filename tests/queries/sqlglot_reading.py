"""What sqlglot, an independent reader of SQL, makes of a text, written in the nodes of our own grammar.

Of sqlglot's expressions only those listed here are translated, and of each only the parts listed: whatever else it finds in
a text is outside the language, and so must be refused by our parser too.
"""

import re

from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError
from sqlglot.parser import Parser
from sqlglot.tokens import Tokenizer

from holdtrue.errors import UnsupportedQuery
from holdtrue.queries.canonical import to_query
from holdtrue.queries.checking import check_tree
from holdtrue.queries.syntax_tree import Node

_PAIRS = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.And: "AND", exp.Or: "OR"}
_PAIRS |= {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Nullif: "NULLIF"}
_ONES = {exp.Not: "NOT", exp.Neg: "NEGATE", exp.Abs: "ABS", exp.Length: "LENGTH", exp.Lower: "LOWER", exp.Upper: "UPPER"}
_ONES |= {exp.Year: "YEAR", exp.Month: "MONTH", exp.Day: "DAY"}
_LISTS = {exp.Least: "LEAST", exp.Greatest: "GREATEST", exp.Coalesce: "COALESCE", exp.In: "IN"}
_TYPES = {
    "INT": "INTEGER",
    "BIGINT": "INTEGER",
    "DOUBLE": "DOUBLE",
    "FLOAT": "DOUBLE",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
}
_DECIMAL = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
# Parts that carry no meaning for us.
_IDLE = {"typed", "safe", "ignore_nulls", "quoted", "nested"}


def parse_by_sqlglot(text, card):
    """Return the query that sqlglot's reading of a text comes to; RequestError where it is outside the language."""
    return to_query(check_tree(read_by_sqlglot(text), card))


def read_by_sqlglot(text):
    """Return sqlglot's reading as a node."""
    try:
        text.encode()
        found = Parser().parse_into(exp.Condition, Tokenizer().tokenize(text), text)
    except (SqlglotError, ValueError, TypeError, AttributeError, IndexError) as error:
        raise UnsupportedQuery(str(error)) from None
    if len(found) != 1 or found[0] is None:
        raise UnsupportedQuery(text)
    return _translated(found[0])


def _parts(node, *names):
    """Return parts of an expression; refuse an expression that has others."""
    for name, value in node.args.items():
        if name not in names and name not in _IDLE and value not in (None, False, []):
            raise UnsupportedQuery(name)
    return [node.args.get(name) for name in names]


def _translated(node):  # noqa: C901, PLR0912 - one case for each kind of expression
    kind = type(node)
    if kind in _PAIRS:
        return Node(_PAIRS[kind], tuple(_translated(part) for part in _parts(node, "this", "expression")))
    if kind in _ONES:
        return Node(_ONES[kind], tuple(_translated(part) for part in _parts(node, "this")))
    if kind in _LISTS:
        first, rest = _parts(node, "this", "expressions")
        return Node(_LISTS[kind], tuple(_translated(part) for part in (first, *(rest or ()))))
    match node:
        case exp.Paren():
            return _translated(*_parts(node, "this"))
        case exp.Column():
            (name,) = _parts(node, "this")
            if not isinstance(name, exp.Identifier):
                raise UnsupportedQuery(str(name))
            return Node("NAME", text=_parts(name, "this")[0])
        case exp.Literal():
            written, text = _parts(node, "this", "is_string")
            if not text and not _DECIMAL.fullmatch(written):
                raise UnsupportedQuery(written)
            return Node("TEXT" if text else "NUMBER", text=written)
        case exp.Null():
            return Node("NULL")
        case exp.Boolean():
            return Node("TRUE" if _parts(node, "this")[0] else "FALSE")
        case exp.Between():
            return Node("BETWEEN", tuple(_translated(part) for part in _parts(node, "this", "low", "high")))
        case exp.Like():
            operand, pattern, denied = _parts(node, "this", "expression", "negate")
            if not isinstance(pattern, exp.Literal) or not pattern.is_string:
                raise UnsupportedQuery(str(pattern))
            found = Node("LIKE", (_translated(operand),), pattern.this)
            return Node("NOT", (found,)) if denied else found
        case exp.Is():
            operand, test = (_translated(part) for part in _parts(node, "this", "expression"))
            if test.kind not in ("NULL", "TRUE", "FALSE"):
                raise UnsupportedQuery(str(test))
            return Node(f"IS {test.kind}", (operand,))
        case exp.Cast():
            operand, to = _parts(node, "this", "to")
            (name,) = _parts(to, "this")
            if name.value not in _TYPES:
                raise UnsupportedQuery(name.value)
            return Node("CAST", (_translated(operand),), _TYPES[name.value])
        case exp.Case() | exp.If():
            return _case(node)
        case exp.Anonymous(this=name, expressions=[operand]) if str(name).upper() == "WEEKDAY":
            return Node("WEEKDAY", (_translated(operand),))
        case _:
            raise UnsupportedQuery(kind.__name__)


def _case(node):
    if isinstance(node, exp.If):
        subject, arms, default = None, [node], node.args.get("false")
    else:
        subject, arms, default = _parts(node, "this", "ifs", "default")
    pairs = [_translated(part) for arm in arms for part in _parts(arm, "this", "true", "false")[:2]]
    last = Node("NULL") if default is None else _translated(default)
    return Node("CASE", (*pairs, last)) if subject is None else Node("CASE OF", (_translated(subject), *pairs, last))
