"""Expressions in two rows: ``abs(a.income - b.income)``, each name with the row that it is of.

Of units, an aggregate has the unit that it is of before its table: ``a.visits.COUNT(*)``, or ``a.COUNT(*)``.
"""

import re

from holdtrue.errors import InvalidParameter
from holdtrue.queries.cards import Card, Column, UnitTable
from holdtrue.queries.parser import parse
from holdtrue.queries.sql_words import AGGREGATES, quote_name
from holdtrue.queries.syntax_tree import Aggregate, Query, list_aggregates, make_aggregate

__all__ = ["columns_of_pair", "find_own_aggregates", "parse_kernel"]

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
    tables = [
        UnitTable(f"{side}.{table.name}" if table.name else side, table.columns)
        for side in ("a", "b")
        for table in card.tables
    ]
    query = parse(_NAMES.sub(_quote_match, text), Card(tuple(columns), card.rows, card.unit, tuple(tables)))
    if {side for side, _ in columns_of_pair(query).values()} != {"a", "b"}:
        raise InvalidParameter.without_value("kernel", "an expression that reads both rows, such as abs(a.age - b.age)")
    return query


def columns_of_pair(query: Query) -> dict[str, tuple[str, str]]:
    """Return the row, a or b, and the column of it that each column of an expression in two rows stands for."""
    own = find_own_aggregates(query)
    return {name: (own[name][0], own[name][1].column) if name in own else (name[0], name[2:]) for name in query.columns}


def find_own_aggregates(query: Query) -> dict[str, tuple[str, Aggregate]]:
    """Return the unit, a or b, and the aggregate over its own rows that each aggregate of an expression stands for."""
    return {
        found.column: (
            found.table[0],
            make_aggregate(found.name, found.table[2:], found.where, found.operand, order=found.order, bounds=found.bounds),
        )
        for found in list_aggregates(query.tree)
    }


def _quote_match(found: "re.Match[str]") -> str:
    side, quoted, plain = found.groups()
    if side is None:
        return found[0]
    if plain is not None and plain.upper() in AGGREGATES and found.string[found.end() :].lstrip().startswith("("):
        return f"{side.lower()}.{plain}"
    name = quoted[1:-1].replace('""', '"') if quoted is not None else plain
    return quote_name(f"{side.lower()}.{name}")
