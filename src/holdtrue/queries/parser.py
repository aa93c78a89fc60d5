"""From one SQL expression to a query: read by the grammar below, checked against the card, brought to canonical form.

Guarantee: an accepted query is total and looks at nothing beyond its row, since its tree holds nothing but what
:mod:`~holdtrue.queries.syntax_tree` defines. Needs: the card, and no row. Failure: RequestError, whatever the text; what
the message says depends on the text and on the card only.

The grammar, loosest first; each operator takes operands that bind more tightly, and chains go from left to right::

    OR | AND | = <> | < <= > >= | [NOT] IN BETWEEN LIKE NULL, IS [NOT] NULL TRUE FALSE | + - | * / | unary - + NOT | ::type

NOT stands where an operand does and takes a whole equation: ``NOT a = b`` is ``NOT (a = b)``.
"""

import re
import threading
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple, get_args

from holdtrue.errors import RequestError, UnsupportedQuery
from holdtrue.queries.canonical import digest_of, render, to_query
from holdtrue.queries.cards import Card, Column, Label, Type
from holdtrue.queries.checking import check_shared, check_tree, check_value
from holdtrue.queries.sql_words import AGGREGATES, LACKING, REFUSED_SIGNS, RESERVED, quote_name, refusal_of
from holdtrue.queries.syntax_tree import (
    DEEPEST,
    LONGEST,
    MOST_NODES,
    And,
    Boolean,
    Constant,
    Node,
    Part,
    Query,
    Truth,
    ValueComparison,
    notation,
)

__all__ = ["SharedColumn", "find_column", "find_shared", "parse", "read"]

# Texts, quoted names, signs of two characters, numbers, names; whatever else is no space is a token of its own.
_TOKEN = re.compile(
    r"""'[^']*(?:''[^']*)*'|"[^"]*(?:""[^"]*)*"|--|/\*|//|[<>!=]=|<>|::|&&|\|\|"""
    # No sign stands right after the digits of an exponent: readers of SQL disagree about 1e5+1.
    # An E without digits belongs to the number, which is none then: 1END is not 1 END.
    r"""|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE](?:[+-][0-9]+|[0-9]+(?![0-9]|[+-][0-9])|(?![0-9+-])\w*))?"""
    r"""|[^\s0-9!"#%&'()*+,./:;<=>?@[\\\]^`{|}~-][^\s!"#%&'()*+,./:;<=>?@[\\\]^`{|}~-]*|\S"""
)
# Names, and names compared with constants, joined by AND.
_PLAIN = r"""[A-Za-z_]\w*(?: ?(?:[<>!=]=|<>|[<>=]) ?(?:-?[0-9]+(?:\.[0-9]+)?|'[!-&(-~]*'))?"""
_PLAIN_TESTS = re.compile(rf"{_PLAIN}(?: (?:AND|and) {_PLAIN})*", re.ASCII)
_AND_WORD = re.compile(r" (?:AND|and) ")
_MOST_TESTS = 8
_MOST_KEPT = 8192
_END = ""
_depth = attrgetter("depth")
_OR, _AND, _EQUALITY, _ORDER, _TEST, _SUM, _PRODUCT, _OPERAND = range(8)
_LEVELS = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys(("=", "<>"), _EQUALITY),
    **dict.fromkeys(("<", "<=", ">", ">="), _ORDER),
    **dict.fromkeys(("NOT", "IN", "BETWEEN", "LIKE", "IS", "ISNULL", "NOTNULL"), _TEST),
    **dict.fromkeys(("+", "-"), _SUM),
    **dict.fromkeys(("*", "/"), _PRODUCT),
}
# What is neither a name nor a number, though it starts like one, and signs that are spelt in two ways.
_WORDS = ". AND OR NOT IN BETWEEN LIKE IS ISNULL NOTNULL NULL TRUE FALSE CASE WHEN THEN ELSE END"
_SPELLINGS = {"==": "=", "!=": "<>"} | {word: word for word in _WORDS.split()}
_TYPES = {
    **dict.fromkeys(("INTEGER", "INT", "INT4", "INT32", "INT64", "BIGINT", "LONG"), "INTEGER"),
    **dict.fromkeys(("DOUBLE", "FLOAT", "FLOAT4", "FLOAT8", "REAL"), "DOUBLE"),
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
}
# Each function by its names, with the least and the greatest number of its operands.
_FUNCTIONS = {
    "ABS": ("ABS", 1, 1),
    **dict.fromkeys(("LENGTH", "LEN", "CHAR_LENGTH", "CHARACTER_LENGTH"), ("LENGTH", 1, 1)),
    **dict.fromkeys(("LOWER", "LCASE"), ("LOWER", 1, 1)),
    **dict.fromkeys(("UPPER", "UCASE"), ("UPPER", 1, 1)),
    **{part: (part, 1, 1) for part in get_args(Part)},
    "NULLIF": ("NULLIF", 2, 2),
    "LEAST": ("LEAST", 1, MOST_NODES),
    "GREATEST": ("GREATEST", 1, MOST_NODES),
    **dict.fromkeys(("COALESCE", "IFNULL", "NVL"), ("COALESCE", 1, MOST_NODES)),
    **dict.fromkeys(("IF", "IIF"), ("IF", 2, 3)),
}
# What kind of token starts with a character; names start with any other.
_KINDS = {
    **dict.fromkeys("0123456789.", "NUMBER"),
    "'": "TEXT",
    '"': "NAME",
    **dict.fromkeys((*"!#%&()*+,-/:;<=>?@[\\]^`{|}~", _END), "SIGN"),
}
_MOMENTS = frozenset({"DATE", "TIMESTAMP"})
_QUOTES = frozenset("'\"")
_NULL = Node("NULL")
_STATEMENT = refusal_of("a statement is", "write the condition alone, as it would stand after WHERE")
_TOO_DEEP = f"the query is nested more than {DEEPEST} deep (parentheses count); flatten it"
_SHOWN = 40


def parse(text: str, card: Card) -> Query:
    """Return the query that a text means over the columns of a card.

    ``parse(query.text, card) == query`` for every query that comes out, and two texts of one canonical form are one
    query. Raises UnsupportedQuery, naming the construct, or UnknownColumn, naming the nearest column.
    """
    if not issubclass(type(text), str):
        message = f"a query is a text, not a {type(text).__name__}"
        raise UnsupportedQuery(message)
    if type(text) is not str:
        text = str.__str__(text)  # what a subclass says of itself is not asked
    try:
        return _parse_tests(text, card) or _parse_whole(text, card)
    except RecursionError:
        # The caller's own stack may have used up most of Python's; a fresh one decides alike wherever it is called.
        return _parse_in_thread(text, card)


def find_column(text: str, card: Card) -> tuple[Type, str]:
    """Return the type of a column and how queries write it; of units, an expression such as AVG(cost) is a column too."""
    if text in card or card.unit is None or not isinstance(text, str):
        return card.column(text).type, quote_name(text)
    try:
        tree = check_value(read(text), card)
    except RecursionError:
        raise UnsupportedQuery(_TOO_DEEP) from None
    return "boolean" if isinstance(tree, Boolean) else tree.type, f"({render(tree).text})"


@dataclass(frozen=True, slots=True)
class SharedColumn:
    """What tells the rows of a unit apart in SHARE(value): its type, how conditions on rows write it, and public labels.

    ``form`` is the share of a unit's rows that meet a condition, which stands in braces.
    """

    kind: Type
    written: str
    labels: tuple[Label, ...] | None
    form: str

    def write_share(self, condition: str) -> str:
        """Return the share of a unit's rows that meet a condition."""
        return self.form.replace("{}", condition, 1)


def find_shared(text: str, card: Card) -> SharedColumn | None:
    """Return what SHARE(value) tells the rows of a unit apart by; None for any other text, and for SHARE(condition)."""
    given: object = text
    if card.unit is None or not isinstance(given, str) or given in card:
        return None
    try:
        found = check_shared(read(text), card)
    except RecursionError:
        raise UnsupportedQuery(_TOO_DEEP) from None
    if found is None:
        return None
    table, where, value = found
    filtered = "" if where == Constant(value=True) else f" WHERE {render(where).text}"
    form = f"{quote_name(table) + '.' if table else ''}SHARE({{}}{filtered})"
    if isinstance(value, Column):
        return SharedColumn(value.type, quote_name(value.name), value.labels, form)
    return SharedColumn(value.type, f"({render(value).text})", None, form)


def _parse_whole(text: str, card: Card) -> Query:
    return to_query(check_tree(read(text), card))


def _parse_in_thread(text: str, card: Card) -> Query:
    found: list[Query | RequestError] = []

    def work() -> None:
        try:
            found.append(_parse_whole(text, card))
        except RecursionError:
            found.append(UnsupportedQuery(_TOO_DEEP))
        except RequestError as error:
            found.append(error)

    worker = threading.Thread(target=work, name="holdtrue-parse")
    worker.start()
    worker.join()
    if isinstance(found[0], RequestError):
        raise found[0]
    return found[0]


class _Test(NamedTuple):
    """A comparison or a boolean column that was asked before; ``subject`` is what it shares with its opposite alone."""

    query: Query
    tree: ValueComparison | Truth
    notation: str
    subject: str


def _parse_tests(text: str, card: Card) -> Query | None:
    """Return the query of a text in which AND alone joins plain tests, each of them parsed once and kept; None for others.

    Law: what :func:`_parse_whole` returns, since a plain test is a whole operand of AND. A conjunction of tests drops
    repeats and sorts by notation; none of these stands in parentheses, and so few are never too large or too heavy.
    """
    if len(text) > LONGEST or not _PLAIN_TESTS.fullmatch(text):
        return None
    parts = _AND_WORD.split(text)
    if len(parts) > _MOST_TESTS:
        return None
    found: dict[str, _Test] = {}
    for part in parts:
        test = card.kept_tests.get(part) or _keep_test(part, card)
        if test is None:
            return None
        found[test.notation] = test
    tests = [found[name] for name in sorted(found)]
    if len(tests) == 1:
        return tests[0].query
    written = " AND ".join([test.query.text for test in tests])
    if len({test.subject for test in tests}) < len(tests) or len(written) > LONGEST:
        return None
    tree = And(tuple([test.tree for test in tests]))
    names = sorted({name for test in tests for name in test.query.columns})
    digest = digest_of(notation(tree), {name: card.named[name].type for name in names})
    return Query(tree, written, digest, boolean=True, columns=tuple(names))


def _keep_test(text: str, card: Card) -> _Test | None:
    """Parse one plain test and keep it; None where it is refused: the message is left to the parser of the whole text."""
    try:
        query = _parse_whole(text, card)
    except RequestError:
        return None
    tree = query.tree
    if not isinstance(tree, (ValueComparison, Truth)):
        return None
    if len(card.kept_tests) >= _MOST_KEPT:
        card.kept_tests.clear()
    written = notation(tree)
    test = _Test(query, tree, written, tree.column if isinstance(tree, Truth) else written.partition(" ")[2])
    card.kept_tests[text] = test
    return test


def read(text: str) -> Node:
    """Return the expression that a text holds, short and shallow enough; raise UnsupportedQuery where it holds none."""
    reader = _Reader(_split_tokens(text))
    node = reader.read_expression(_OR)
    reader.expect(_END)
    if reader.nodes > MOST_NODES:
        message = f"the query has more than {MOST_NODES} nodes (names, constants, operators, functions)"
        raise UnsupportedQuery(message)
    return node


def _split_tokens(text: str) -> list[str]:
    """Return the tokens of a text, words of the language in capital letters, and an empty one at the end."""
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        message = "the query holds a character that is not Unicode"
        raise UnsupportedQuery(message) from None
    if size > LONGEST:
        message = f"the query has {size} bytes; at most {LONGEST} are allowed"
        raise UnsupportedQuery(message)
    if "\0" in text:
        message = "the query holds a NUL character"
        raise UnsupportedQuery(message)
    tokens = [_SPELLINGS.get(token.upper(), token) for token in _TOKEN.findall(text)]
    if not tokens:
        message = "the query is empty; write an expression such as age > 65"
        raise UnsupportedQuery(message)
    if tokens[0].upper() in ("SELECT", "WHERE"):
        raise UnsupportedQuery(_STATEMENT)
    if not REFUSED_SIGNS.keys().isdisjoint(tokens):
        raise UnsupportedQuery(REFUSED_SIGNS[next(token for token in tokens if token in REFUSED_SIGNS)])
    tokens.append(_END)
    return tokens


class _Reader:
    """Each method starts at a token and leaves the one after what it has read."""

    __slots__ = ("_at", "_level", "_tokens", "nodes")

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._level = 0
        self.nodes = 0

    def read_expression(self, least: int) -> Node:
        """Read an expression whose operators bind at least this tightly."""
        left = self._read_operand()
        before = -1
        while True:
            token = self._tokens[self._at]
            level = _LEVELS.get(token, -1)
            if level < least:
                return left
            if level <= _AND:
                left = self._read_chain(left, token, level)
            elif level == _TEST:
                left = self._read_test(left)
            else:
                self._at += 1
                chained = level == before and level >= _SUM
                left = self._make_node(token, (left, self.read_expression(level + 1)), chained=chained)
            before = level

    def expect(self, word: str) -> None:
        """Pass over a token that must stand here."""
        if self._tokens[self._at].upper() != word:
            raise self._refuse_token()
        self._at += 1

    def _skip_if(self, token: str) -> bool:
        taken = self._tokens[self._at] == token
        self._at += taken
        return taken

    def _read_nested(self, least: int = _OR) -> Node:
        """Read an expression within another one; their number bounds the recursion."""
        self._level += 1
        if self._level > DEEPEST:
            raise UnsupportedQuery(_TOO_DEEP)
        node = self.read_expression(least)
        self._level -= 1
        return node

    def _make_node(
        self, kind: str, operands: tuple[Node, ...], text: str = "", *, nodes: int = 1, chained: bool = False
    ) -> Node:
        """Return a node with operands; ``nodes`` is how many it counts as, ``chained`` that it goes on with its first."""
        depth = 1 + max(map(_depth, operands[chained:]))
        if chained:
            depth = max(depth, operands[0].depth)
        if depth > DEEPEST:
            raise UnsupportedQuery(_TOO_DEEP)
        self.nodes += nodes
        return Node(kind, operands, text, depth)

    def _read_chain(self, first: Node, word: str, level: int) -> Node:
        operands = [first]
        while self._skip_if(word):
            operands.append(self.read_expression(level + 1))
        return self._make_node(word, tuple(operands), nodes=len(operands) - 1)

    # Tests

    def _read_test(self, operand: Node) -> Node:
        if self._skip_if("IS"):
            return self._read_is(operand)
        if self._skip_if("ISNULL"):
            return self._make_node("IS NULL", (operand,), nodes=2)
        denied = self._skip_if("NOT")
        if self._skip_if("LIKE"):
            return self._read_pattern(operand, denied=denied)
        if self._skip_if("IN"):
            node = self._make_node("IN", (operand, *self._read_list()))
        elif self._skip_if("BETWEEN"):
            low = self.read_expression(_SUM)
            self.expect("AND")
            node = self._make_node("BETWEEN", (operand, low, self.read_expression(_SUM)))
        elif self._skip_if("NULL" if denied else "NOTNULL"):
            node, denied = self._make_node("IS NULL", (operand,), nodes=2), True
        else:
            raise self._refuse_token()
        return self._make_node("NOT", (node,)) if denied else node

    def _read_is(self, operand: Node) -> Node:
        denied = self._skip_if("NOT")
        word = self._tokens[self._at]
        if word not in ("NULL", "TRUE", "FALSE"):
            raise self._refuse_token()
        self._at += 1
        node = self._make_node(f"IS {word}", (operand,), nodes=2)
        return self._make_node("NOT", (node,)) if denied else node

    def _read_list(self) -> tuple[Node, ...]:
        if self._tokens[self._at] != "(" or self._tokens[self._at + 1] == ")":
            message = "IN needs a list of constants in parentheses"
            raise UnsupportedQuery(message)
        return self._read_arguments()

    def _read_pattern(self, operand: Node, *, denied: bool) -> Node:
        pattern = self._tokens[self._at]
        if not pattern.startswith("'"):
            message = "LIKE needs a pattern in single quotes, with % and _ as wildcards"
            raise UnsupportedQuery(message)
        self._at += 1
        node = self._make_node("LIKE", (operand,), _remove_quotes(pattern), nodes=2)
        # NOT LIKE counts as one operator.
        return Node("NOT", (node,), "", node.depth) if denied else node

    # Operands

    def _read_operand(self) -> Node:
        here = self._tokens[self._at]
        kind = _KINDS.get(here[:1], "NAME")
        if kind == "SIGN":
            if here in ("+", "-"):
                return self._read_signed(here)
            node = self._read_parentheses()
        elif here in _SPELLINGS:
            if here == "NOT":
                self._at += 1
                return self._make_node("NOT", (self._read_nested(_EQUALITY),))
            node = self._read_case() if here == "CASE" else self._read_constant(here)
        elif kind == "NAME" and self._tokens[self._at + 1] == "(":
            node = self._read_call(here)
        elif kind == "NAME" and self._tokens[self._at + 1] == "." and self._names_aggregate(self._at + 2):
            self._at += 2
            node = self._read_aggregate(_remove_quotes(here) if here[0] in _QUOTES else here)
        elif here.upper() in _MOMENTS and self._tokens[self._at + 1].startswith("'"):
            node = self._read_moment(here.upper())
        elif here.upper() in RESERVED:
            raise self._refuse_token()
        else:
            self._at += 1
            self.nodes += 1
            node = Node(kind, (), _remove_quotes(here) if here[0] in _QUOTES else here)
        while self._tokens[self._at] == "::":
            self._at += 1
            node = self._make_node("CAST", (node,), self._read_type())
        return node

    def _read_moment(self, kind: str) -> Node:
        """Read a constant such as DATE '2026-01-31': what CAST('2026-01-31' AS DATE) means, in one node."""
        self._at += 2
        self.nodes += 1
        return Node("CAST", (Node("TEXT", (), _remove_quotes(self._tokens[self._at - 1])),), kind)

    def _read_signed(self, sign: str) -> Node:
        self._at += 1
        operand = self._read_nested(_OPERAND)
        return operand if sign == "+" else self._make_node("NEGATE", (operand,))

    def _read_constant(self, word: str) -> Node:
        if word not in ("NULL", "TRUE", "FALSE"):
            raise self._refuse_token()
        self._at += 1
        self.nodes += 1
        return Node(word)

    def _read_parentheses(self) -> Node:
        self.expect("(")
        kind, operands, text, depth = self._read_nested()
        if self._tokens[self._at] == ",":
            raise UnsupportedQuery(refusal_of("a list of values is", "a list may come only after IN"))
        self.expect(")")
        if depth == DEEPEST:
            raise UnsupportedQuery(_TOO_DEEP)
        return Node(kind, operands, text, depth + 1)

    def _read_arguments(self) -> tuple[Node, ...]:
        """Read expressions between parentheses, with commas between them."""
        self.expect("(")
        found = [self._read_nested()]
        while self._skip_if(","):
            found.append(self._read_nested())
        self.expect(")")
        return tuple(found)

    def _read_case(self) -> Node:
        self._at += 1
        kind, operands = "CASE", []
        if self._tokens[self._at] != "WHEN":
            kind, operands = "CASE OF", [self._read_nested()]
        self.expect("WHEN")
        while True:
            operands.append(self._read_nested())
            self.expect("THEN")
            operands.append(self._read_nested())
            if not self._skip_if("WHEN"):
                break
        operands.append(self._read_nested() if self._skip_if("ELSE") else _NULL)
        self.expect("END")
        return self._make_node(kind, tuple(operands))

    def _read_call(self, name: str) -> Node:
        self._at += 1
        word = name.upper()
        if word == "CAST":
            return self._read_cast()
        if word in AGGREGATES:
            self._at -= 1
            return self._read_aggregate("")
        if word not in _FUNCTIONS:
            raise UnsupportedQuery(self._name_lack(name))
        kind, least, most = _FUNCTIONS[word]
        operands = self._read_arguments()
        if not least <= len(operands) <= most:
            expected = f"{least} or {most} operands" if least < most else f"{least} operand{'s' * (least > 1)}"
            message = f"{word} takes {expected}, not {len(operands)}"
            raise UnsupportedQuery(message)
        if kind == "IF":
            kind, operands = "CASE", (*operands, _NULL)[:3]
        return self._make_node(kind, operands)

    def _names_aggregate(self, place: int) -> bool:
        name, sign = (*self._tokens[place : place + 2], _END, _END)[:2]
        return name.upper() in AGGREGATES and sign == "("

    def _read_aggregate(self, table: str) -> Node:
        """Read an aggregate over a unit's rows: its operand or *, what FIRST goes BY, and WHERE; ``text`` is its table."""
        kind = AGGREGATES[self._tokens[self._at].upper()]
        self._at += 1
        self.expect("(")
        if kind == "COUNT" and self._skip_if("*"):
            self.nodes += 1
            operands = [Node("TRUE")]
        else:
            operands = [self._read_nested()]
        if kind == "FIRST":
            self._at += self._tokens[self._at].upper() == "ORDER"
            self.expect("BY")
            operands.append(self._read_nested())
        if self._tokens[self._at].upper() == "WHERE":
            self._at += 1
            operands.append(self._read_nested())
            kind += " WHERE"
        self.expect(")")
        return self._make_node(kind, tuple(operands), table)

    def _read_cast(self) -> Node:
        self.expect("(")
        operand = self._read_nested()
        self.expect("AS")
        kind = self._read_type()
        self.expect(")")
        return self._make_node("CAST", (operand,), kind)

    def _read_type(self) -> str:
        word = self._tokens[self._at].upper()
        if word not in _TYPES or self._tokens[self._at + 1] == "(":
            message = "CAST converts only to INTEGER (64 bits, truncated towards zero), DOUBLE, DATE or TIMESTAMP"
            raise UnsupportedQuery(message)
        self._at += 1
        if word == "DOUBLE" and self._tokens[self._at].upper() == "PRECISION":
            self._at += 1
        return _TYPES[word]

    # Refusals

    def _name_lack(self, name: str) -> str:
        """Return the message for a function that the language lacks."""
        if any(token.upper() == "OVER" for token in self._tokens[self._at :]):
            return LACKING["OVER"]
        return LACKING.get(name.upper()) or refusal_of(f"the function {name[:_SHOWN]!r} is")

    def _refuse_token(self) -> UnsupportedQuery:
        """Return the error for a token that cannot stand here."""
        token = self._tokens[self._at]
        if token.upper() in LACKING:
            return UnsupportedQuery(LACKING[token.upper()])
        if token.startswith("'"):
            return UnsupportedQuery(refusal_of("a word or a text right before a text is", "compare them one by one"))
        near = f"look near {token[:_SHOWN]!r}" if token else "it ends too early"
        if token.upper() in RESERVED and token not in _SPELLINGS:
            near += "; a column of that name stands in double quotes"
        return UnsupportedQuery(f"the query cannot be read as one SQL expression; {near}")


def _remove_quotes(token: str) -> str:
    quote = token[0]
    return token[1:-1].replace(quote + quote, quote)
