"""Plain texts, read in a tenth of the time: comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS, arithmetic, parentheses.

Guarantee: where this module gives an expression, :func:`~holdtrue.queries.reading.read` gives the same one, node for node.
Needs: a text of ASCII whose names are columns of the card and no words of SQL. Failure: None, and nothing else; sqlglot then
decides what the text means or why it is refused. So this module may know less of the language, and never more or other.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from sqlglot import expressions as exp
from sqlglot.tokens import Tokenizer

from holdtrue.errors import RequestError
from holdtrue.queries.cards import Card
from holdtrue.queries.reading import DEEPEST, LONGEST, MOST_NODES, measure, read

__all__ = ["skim", "tests_of"]

# Names, numbers, texts, quoted names, signs; whatever else is no space becomes a token that no rule below knows.
# (sqlglot takes 1e5+2 for one number, so that no sign stands right after an exponent here.)
_TOKENS = re.compile(
    r"""[A-Za-z_]\w*|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+(?![-+0-9]))?|'[^'\\\0]*(?:''[^'\\\0]*)*'|"[^"\\\0]+"|"""
    r"""--|[<>!=]=|<>|[^ \t\r\n]""",
    re.ASCII,
)
_NAME, _CONSTANT = r"[A-Za-z_]\w*", r"""(?:-?[0-9]+(?:\.[0-9]+)?|'[^'\\\0 ]*')"""
_TEST = rf"{_NAME}(?: ?(?:[<>!=]=|<>|[<>=]) ?{_CONSTANT})?"
_AND_ONLY = re.compile(rf"{_TEST}(?: (?:AND|and) {_TEST})*", re.ASCII)
_AND = re.compile(r" (?:AND|and) ")
_WORDS = "AND OR NOT IN BETWEEN LIKE IS NULL TRUE FALSE"
_SPELT = {"==": "=", "!=": "<>"} | {spelling: word for word in _WORDS.split() for spelling in (word, word.lower())}
_RESERVED = frozenset(word for keyword in Tokenizer.KEYWORDS for word in re.findall(r"\w+", keyword))
_COMPARISONS = {"=": exp.EQ, "<>": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE}
_SUMS = {"+": exp.Add, "-": exp.Sub}
_RANGES = frozenset({"NOT", "BETWEEN", "IN", "LIKE", "IS"})
_NESTING = frozenset({"(", "-", "+", "NOT"})
_END = ""
# A name in every place that the rules below have for one.
_PLACES = (
    "{0} = {0} AND NOT {0} OR {0} AND ({0}) <> - {0} OR {0} + {0} - {0} * {0} / {0} < {0} OR {0} - {0} >= {0} OR {0} "
    "OR ({0} OR {0}) OR {0} BETWEEN {0} AND {0} AND {0} OR {0} NOT BETWEEN {0} AND {0} OR {0} IN ({0}, {0}) "
    "OR {0} NOT IN ({0}) OR {0} LIKE 'a' OR {0} NOT LIKE 'a' OR {0} IS NULL OR {0} IS NOT TRUE OR {0}"
)


def skim(text: str, card: Card) -> exp.Expr | None:
    """Return what ``read`` returns for a text, or None where the text is not plain or may be too large."""
    if len(text) > LONGEST or not text.isascii():
        return None
    tokens = _tokens(text)
    # Every node and every level takes a token, so that few tokens are neither too many nodes nor too deep.
    small = len(tokens) <= DEEPEST
    if not small and (len(tokens) > MOST_NODES or sum(token in _NESTING for token in tokens) > DEEPEST):
        return None
    try:
        found = _Reader(tokens, lambda spelling: spelling.strip('"') in card and _plain(spelling)).whole()
        if not small:
            measure(found)
    except (_NotPlain, RequestError):
        return None
    return found


def tests_of(text: str) -> list[str]:
    """Return the tests of a short text where AND alone joins them, each a name or one compared with a constant; else []."""
    if len(text) > LONGEST or not _AND_ONLY.fullmatch(text):
        return []
    tests = _AND.split(text)
    # So few that the whole is neither too many nodes nor too deep, which skim need not measure either.
    return tests if len(tests) <= DEEPEST // 4 else []


def _tokens(text: str) -> list[str]:
    return [_SPELT.get(token, token) for token in _TOKENS.findall(text)] + [_END]


@lru_cache(maxsize=4096)
def _plain(spelling: str) -> bool:
    """Return whether sqlglot takes a name, as it is spelt, for a column wherever one may stand."""
    if spelling.upper() in _RESERVED:
        return False
    text = _PLACES.format(spelling)
    try:
        return bool(_Reader(_tokens(text), spelling.__eq__).whole() == read(text))
    except (_NotPlain, RequestError):
        return False


class _NotPlain(Exception):
    """The text goes to sqlglot."""


class _Reader:
    """One method for each level of binding, the loosest first; each starts at a token and leaves the next one."""

    __slots__ = ("_known", "_next", "_tokens")

    def __init__(self, tokens: list[str], known: Callable[[str], bool]) -> None:
        self._tokens = tokens
        self._known = known
        self._next = 0

    def whole(self) -> exp.Expr:
        found = self._either()
        self._pass(_END)
        return found

    def _pass(self, token: str) -> None:
        if self._tokens[self._next] != token:
            raise _NotPlain
        self._next += 1

    def _take(self, token: str) -> bool:
        taken = self._tokens[self._next] == token
        self._next += taken
        return taken

    def _either(self) -> exp.Expr:
        found = self._both()
        while self._take("OR"):
            found = exp.Or(this=found, expression=self._both())
        return found

    def _both(self) -> exp.Expr:
        found = self._test()
        while self._take("AND"):
            found = exp.And(this=found, expression=self._test())
        return found

    def _test(self) -> exp.Expr:
        """Read one test: what follows it is AND, OR or an end, since sqlglot has rules of its own for chains of tests."""
        if self._take("NOT"):
            return exp.Not(this=self._test())
        found = self._sum()
        token = self._tokens[self._next]
        if token in _COMPARISONS:
            self._next += 1
            return _COMPARISONS[token](this=found, expression=self._sum())
        if token in _RANGES:
            return self._range(found)
        return found

    def _range(self, found: exp.Expr) -> exp.Expr:
        if self._take("IS"):
            denied = self._take("NOT")
            if self._tokens[self._next] not in ("NULL", "TRUE", "FALSE"):
                raise _NotPlain
            found = exp.Is(this=found, expression=self._operand())
            return exp.Not(this=found) if denied else found
        denied = self._take("NOT")
        if self._take("LIKE"):
            if not self._tokens[self._next].startswith("'"):
                raise _NotPlain
            # sqlglot marks this test itself as denied, where it puts a NOT above the others.
            return exp.Like(this=found, expression=self._operand(), **({"negate": True} if denied else {}))
        if self._take("BETWEEN"):
            low = self._sum()
            self._pass("AND")
            found = exp.Between(this=found, low=low, high=self._sum(), symmetric=None)
        else:
            self._pass("IN")
            found = exp.In(this=found, expressions=self._listed())
        return exp.Not(this=found) if denied else found

    def _listed(self) -> list[exp.Expr]:
        self._pass("(")
        listed = [self._sum()]
        while self._take(","):
            listed.append(self._sum())
        self._pass(")")
        return listed

    def _sum(self) -> exp.Expr:
        found = self._product()
        while (kind := _SUMS.get(self._tokens[self._next])) is not None:
            self._next += 1
            found = kind(this=found, expression=self._product())
        return found

    def _product(self) -> exp.Expr:
        found = self._operand()
        while True:
            if self._take("*"):
                found = exp.Mul(this=found, expression=self._operand())
            elif self._take("/"):
                found = exp.Div(this=found, expression=self._operand(), typed=False, safe=False)
            else:
                return found

    def _operand(self) -> exp.Expr:
        here = self._tokens[self._next]
        self._next += 1
        first = here[:1]
        if self._known(here):
            return exp.Column(this=exp.Identifier(this=here.strip('"'), quoted=first == '"'))
        if first.isdigit():
            return exp.Literal(this=here, is_string=False)
        if first == "'" and len(here) > 1:
            return exp.Literal(this=here[1:-1].replace("''", "'"), is_string=True)
        if here == "-":
            return exp.Neg(this=self._operand())
        if here == "(":
            found = self._either()
            self._pass(")")
            return exp.Paren(this=found)
        if here in ("TRUE", "FALSE"):
            return exp.Boolean(this=here == "TRUE")
        if here == "NULL":
            return exp.Null()
        raise _NotPlain
