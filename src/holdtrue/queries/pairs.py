"""Expressions in two rows: ``abs(a.income - b.income)``, each name with the row that it is of."""

import re

from holdtrue.errors import InvalidParameter
from holdtrue.queries.cards import Card, Column
from holdtrue.queries.parser import parse
from holdtrue.queries.sql_words import quote_name
from holdtrue.queries.syntax_tree import Query

__all__ = ["columns_of_pair", "parse_kernel"]

_LONGEST = 253  # with the name of its row, a column's name is within the card's limit
# Texts and quoted names stay as they are; a.name and b.name, or a."a name", are names of the card of pairs.
_NAMES = re.compile(
    r"""'[^']*(?:''[^']*)*'|(?<![\w."])([abAB])\.(?:("[^"]*(?:""[^"]*)*")|([^\W\d]\w*))|"[^"]*(?:""[^"]*)*\""""
)


def parse_kernel(text: str, card: Card) -> Query:
    """Return an expression in two rows as a query over the columns of both: those of the first are called a.name.

    Guarantee: that of :func:`~holdtrue.queries.parser.parse`: it is total, and looks at nothing beyond its two rows.
    Failure: RequestError, by the text and the card alone; InvalidParameter where it does not read both rows.
    """
    if not isinstance(text, str):
        raise InvalidParameter("kernel", type(text).__name__, "an expression such as abs(a.age - b.age)")
    columns = [
        Column(f"{side}.{column.name}", column.type)
        for side in ("a", "b")
        for column in card.columns
        if len(column.name) <= _LONGEST
    ]
    query = parse(_NAMES.sub(_quote_match, text), Card(tuple(columns), card.rows))
    if {name[0] for name in query.columns} != {"a", "b"}:
        raise InvalidParameter.without_value("kernel", "an expression that reads both rows, such as abs(a.age - b.age)")
    return query


def columns_of_pair(query: Query) -> list[str]:
    """Return the columns of the card that an expression in two rows reads, of either."""
    return list(dict.fromkeys(name[2:] for name in query.columns))


def _quote_match(found: "re.Match[str]") -> str:
    side, quoted, plain = found.groups()
    if side is None:
        return found[0]
    name = quoted[1:-1].replace('""', '"') if quoted is not None else plain
    return quote_name(f"{side.lower()}.{name}")
