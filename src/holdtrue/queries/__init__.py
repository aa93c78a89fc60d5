"""The query language: one SQL expression over the columns of a card, total on every row, the same on every engine."""

from holdtrue.queries.cards import Card, Column
from holdtrue.queries.parser import parse
from holdtrue.queries.syntax_tree import Query

__all__ = ["Card", "Column", "Query", "parse"]
