"""From text to a sqlglot expression that is short, shallow and one expression only. Nothing is believed about it yet."""

from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from holdtrue.errors import UnsupportedQuery

if TYPE_CHECKING:
    from sqlglot.expressions import Expr
    from sqlglot.tokenizer_core import Token, TokenType

__all__ = ["DEEPEST", "LONGEST", "MOST_NODES", "Node", "measure", "operands", "read", "too_deep"]

LONGEST = 4096
MOST_NODES = 256
DEEPEST = 32
_SHOWN = 24
_STATEMENT = "a statement is outside the query language; write the condition alone, as it would stand after WHERE"

Node: TypeAlias = "Expr"


def read(text: str) -> Node:
    """Return the expression that a text holds, or raise UnsupportedQuery; RecursionError may come through."""
    from sqlglot import expressions
    from sqlglot.errors import SqlglotError
    from sqlglot.parser import Parser

    tokens = _tokens(text)
    try:
        parsed = Parser().parse_into(expressions.Condition, tokens, text)
    except SqlglotError as error:
        raise UnsupportedQuery(_unreadable(error)) from None
    except RecursionError:
        raise
    except Exception:  # noqa: BLE001 - whatever a parser trips over, the text is refused and nothing was read
        message = "the query cannot be read as one SQL expression"
        raise UnsupportedQuery(message) from None
    if len(parsed) != 1 or parsed[0] is None:
        message = "the query cannot be read as one SQL expression"
        raise UnsupportedQuery(message)
    measure(parsed[0])
    return parsed[0]


def _unreadable(error: Exception) -> str:
    place: dict[str, object] = next(iter(getattr(error, "errors", ())), {})
    near = str(place.get("highlight") or "")[:_SHOWN]
    return "the query cannot be read as one SQL expression" + (f"; look near {near!r}" if near else "")


def _tokens(text: str) -> "list[Token]":
    """Return the tokens of a text that is short enough and nested no deeper than the parser can follow."""
    from sqlglot.errors import SqlglotError
    from sqlglot.tokens import Tokenizer

    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        message = "the query holds a character that is not Unicode"
        raise UnsupportedQuery(message) from None
    if size > LONGEST:
        message = f"the query has {size} bytes; {LONGEST} is the most"
        raise UnsupportedQuery(message)
    if "\0" in text:
        message = "the query holds a NUL character"
        raise UnsupportedQuery(message)
    try:
        tokens = Tokenizer().tokenize(text)
    except SqlglotError:
        message = "a quote is not closed; text stands in '...', a name with spaces in \"...\""
        raise UnsupportedQuery(message) from None
    if not tokens:
        message = "the query is empty; write an expression such as age > 65"
        raise UnsupportedQuery(message)
    _scan(tokens)
    return tokens


def _scan(tokens: "list[Token]") -> None:
    """Refuse, without recursion, what is nested too deeply and what stands in no expression."""
    from sqlglot.tokenizer_core import TokenType as Kind

    refused = _refused()
    signs = (Kind.NOT, Kind.DASH, Kind.PLUS, Kind.TILDE)
    groups: list[int] = []
    deep = run = 0
    before: TokenType | None = None
    for token in tokens:
        kind = token.token_type
        if token.comments:
            message = "comments are outside the query language"
            raise UnsupportedQuery(message)
        if before is None and kind in (Kind.SELECT, Kind.WHERE):
            raise UnsupportedQuery(_STATEMENT)
        if kind in refused and (kind != Kind.SLASH or before == Kind.SLASH):
            raise UnsupportedQuery(refused[kind])
        if kind in signs:
            run += 1
        elif kind in (Kind.L_PAREN, Kind.CASE):
            groups.append(run + 1)
            deep += run + 1
            run = 0
        else:
            run = 0
            if kind in (Kind.R_PAREN, Kind.END) and groups:
                deep -= groups.pop()
        if deep + run > DEEPEST:
            raise UnsupportedQuery(too_deep())
        before = kind


def too_deep() -> str:
    """Return the message for a query that is nested too deeply."""
    return f"the query is nested more than {DEEPEST} deep (parentheses count); flatten it"


@cache
def _refused() -> "dict[TokenType, str]":
    """Return the tokens that stand in no expression, each with the message for it; a slash only after another one."""
    from sqlglot.tokenizer_core import TokenType as Kind

    grouping = "brackets, braces and parameters are outside the query language"
    return {
        Kind.SEMICOLON: "a semicolon is outside the query language; a query is one expression",
        **dict.fromkeys((Kind.L_BRACKET, Kind.L_BRACE, Kind.PARAMETER, Kind.PLACEHOLDER), grouping),
        Kind.DAMP: "the operator && is outside the query language; write AND",
        Kind.SLASH: "the operator // is outside the query language; write CAST(a / b AS INTEGER)",
    }


def operands(node: Node) -> list[Node]:
    """Return the operands of a chain of ANDs or of ORs, in order."""
    found, left = [], [node]
    while left:
        one = left.pop()
        if type(one) is type(node):
            left += [one.args["expression"], one.args["this"]]
        else:
            found.append(one)
    return found


def measure(root: Node) -> None:
    """Refuse more nodes, or a deeper nesting, than allowed; a chain of ANDs or ORs is one level."""
    from sqlglot import expressions as exp

    nodes = 0
    left = [(root, 0)]
    while left:
        node, above = left.pop()
        if isinstance(node, (exp.And, exp.Or)):
            below = operands(node)
            counted, depth = len(below) - 1, 1
        else:
            listed = [value if isinstance(value, list) else (value,) for value in node.args.values()]
            below = [one for values in listed for one in values if isinstance(one, exp.Expr)]
            counted, depth = _counted(node, exp)
        nodes += counted
        depth += above
        if depth > DEEPEST:
            raise UnsupportedQuery(too_deep())
        if nodes > MOST_NODES:
            message = f"the query has more than {MOST_NODES} nodes (names, constants, operators, functions)"
            raise UnsupportedQuery(message)
        left += [(child, depth) for child in below]


def _counted(node: Node, exp: ModuleType) -> tuple[int, int]:
    """Return how many nodes and levels an expression stands for by itself."""
    if isinstance(node, exp.Paren):
        return 0, 1
    if isinstance(node, (exp.Identifier, exp.DataType)) or (isinstance(node, exp.If) and isinstance(node.parent, exp.Case)):
        return 0, 0
    return 1, 1
