"""Disjoint cells of the rows, made of public labels and cut points: the query of each, and what it is found again by."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from operator import itemgetter
from typing import NamedTuple

from holdtrue.queries.canonical import HEAVIEST, render, render_operand, to_query, weigh, write_head
from holdtrue.queries.cards import Type
from holdtrue.queries.checking import conjoin
from holdtrue.queries.scalars import case
from holdtrue.queries.syntax_tree import (
    DEEPEST,
    LONGEST,
    MOST_NODES,
    And,
    Boolean,
    Constant,
    Number,
    Query,
    Scalar,
    Tree,
    columns,
    notation,
)

__all__ = ["CellAxis", "DisjointCells", "Restriction", "make_axis"]

_AROUND = 16  # more bytes, nodes and weight than an AND, or a CASE around a condition, adds for each that it joins


class _Size(NamedTuple):
    """At least the bytes, nodes, depth and weight of a tree, as a query that may be refused for them."""

    bytes: int
    nodes: int
    depth: int
    weight: int

    @classmethod
    def of(cls, query: Query) -> "_Size":
        """Return the size of a query."""
        piece = render(query.tree)
        return cls(len(piece.text.encode()), piece.nodes, piece.depth, weigh(query.tree))

    @classmethod
    def join(cls, sizes: "Sequence[_Size]") -> "_Size":
        """Return at least the size of what joins trees."""
        joined = [sum(each) + _AROUND * (1 + len(sizes)) for each in zip(*sizes, strict=True)]
        return cls(joined[0], joined[1], 4 + sum(each.depth for each in sizes), joined[3])

    def fits(self) -> bool:
        """Return whether a query of this size is surely not refused."""
        return self.bytes <= LONGEST and self.nodes <= MOST_NODES and self.depth <= DEEPEST and self.weight <= HEAVIEST


@dataclass(frozen=True, slots=True, eq=False)
class CellAxis:
    """Disjoint conditions on one column, in their order: a row meets one of them or none.

    ``name`` stands for the column, its type and the conditions; ``size`` is at least that of any of them.
    """

    column: str
    conditions: tuple[Query, ...]
    name: str
    size: _Size

    @property
    def trees(self) -> list[Boolean]:
        """Return the trees of the conditions."""
        return [query.tree for query in self.conditions]  # type: ignore[misc]  # conditions


def make_axis(column: str, queries: Sequence[Query]) -> CellAxis:
    """Return the axis of conditions on one column; that no row meets two of them is for the caller to see to."""
    sizes = [_Size.of(query) for query in queries]
    return CellAxis(
        column,
        tuple(queries),
        hashlib.sha256(" ".join([query.digest for query in queries]).encode()).hexdigest(),
        _Size(*[max(each) for each in zip(*sizes, strict=True)]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class DisjointCells:
    """Groups of rows by axes, among the rows of ``base``, and what is summed of each group.

    Law: a row is in one group at most. Sums are, for each group in the order of the axes' product: its rows; of ``value``,
    where there is one, the sum over them. With ``sides``, disjoint conditions on one more column, rows and ``value`` are
    those of the first side, and the rows of each other side follow. Last, the rows of ``base``, where there is one.
    With ``weights``, numbers from 0 to 1 that are at most 1 together, each group has the sum of each of them instead.
    """

    axes: tuple[CellAxis, ...]
    base: Query | None = None
    value: Query | None = None
    sides: CellAxis | None = None
    weights: tuple[Query, ...] = ()

    @property
    def all_axes(self) -> tuple[CellAxis, ...]:
        """Return the axes, with the sides as the last one."""
        return self.axes if self.sides is None else (*self.axes, self.sides)

    @property
    def columns(self) -> list[str]:
        """Return the columns that are read."""
        queries = (self.base, self.value, *self.weights)
        others = [name for query in queries if query is not None for name in query.columns]
        return list(dict.fromkeys([*(axis.column for axis in self.all_axes), *others]))

    @property
    def queries(self) -> tuple[Query, ...]:
        """Return one query for each sum: an engine that sums these gives the same integers."""
        found = [to_query(tree) for tree in self._list_trees()]
        return tuple(found if self.base is None else [*found, self.base])

    @property
    def number(self) -> int:
        """Return how many sums there are, that of ``base`` left out."""
        others = 0 if self.sides is None else len(self.sides.conditions) - 1
        groups = math.prod(len(axis.conditions) for axis in self.axes)
        return groups * (len(self.weights) or 1 + (self.value is not None) + others)

    def find_name(self) -> str:
        """Return what the sums are found again by; refuse a query of theirs that is too complex.

        Law: it is made of public text alone, and cells whose names are equal have equal queries, in one order.
        """
        queries = [query for query in (self.base, self.value) if query is not None]
        if self.weights or not _Size.join([*[axis.size for axis in self.all_axes], *map(_Size.of, queries)]).fits():
            _ = self.queries
        names = [f"axis {axis.name}" for axis in self.axes] + ([] if self.sides is None else [f"sides {self.sides.name}"])
        names += [] if self.base is None else [f"where {self.base.digest}"]
        names += [f"weight {query.digest}" for query in self.weights]
        return _hash_text(" ".join([*names, *([] if self.value is None else [f"value {self.value.digest}"])]))

    def _list_trees(self) -> Iterator[Tree]:
        base: list[Boolean] = [] if self.base is None else [self.base.tree]  # type: ignore[list-item]  # a condition
        sides: list[list[Boolean]] = [[]] if self.sides is None else [[tree] for tree in self.sides.trees]
        for group in product(*[axis.trees for axis in self.axes]):
            inside, *others = [conjoin([*group, *base, *side]) for side in sides]
            if self.weights:
                yield from [_choose_inside(inside, weight) for weight in self.weights]
                continue
            yield inside
            if self.value is not None and self.value.boolean:
                yield conjoin([inside, self.value.tree])  # type: ignore[list-item]  # what boolean says
            elif self.value is not None:
                yield _choose_inside(inside, self.value)
            yield from others


class Restriction:
    """Tests of one column, each among the rows of a base that stays the same.

    Law: ``join`` gives the query that the texts of the base and of the test, joined by AND, parse to.
    """

    def __init__(self, base: Query | None, column: str, kind: Type) -> None:
        self._base = base
        self._parts: list[tuple[str, Tree, str]] | None = None
        if base is None or isinstance(base.tree, Constant) or column in base.columns:
            return
        # No test of one column has more than 64 nodes, or is as long as 40 digits and the longest name.
        if _Size.join([_Size.of(base), _Size(2048, 64, 4, 64)]).fits():
            children: Sequence[Tree] = base.tree.children if isinstance(base.tree, And) else (base.tree,)
            self._parts = [(notation(child), child, render_operand(child)) for child in children]
            types = dict(sorted((columns(base.tree) | {column: kind}).items()))
            self._names, self._head = tuple(types), write_head(types)

    def join(self, test: Boolean) -> Query:
        """Return the query of the rows that meet the base and a comparison of the column with a constant."""
        if self._base is None:
            return to_query(test)
        if self._parts is None or isinstance(test, Constant):
            return to_query(conjoin([self._base.tree, test]))  # type: ignore[list-item]  # a condition
        parts = sorted([*self._parts, (notation(test), test, render_operand(test))], key=itemgetter(0))
        tree = And(tuple([part for _, part, _ in parts]))  # type: ignore[misc]  # conditions
        text = " AND ".join([text for _, _, text in parts])
        return Query(tree, text, _hash_text(self._head + notation(tree)), boolean=True, columns=self._names)


def _choose_inside(inside: Boolean, value: Query) -> Scalar:
    """Return a number that is a value inside, and 0 elsewhere."""
    return case([(inside, value.tree)], Number(0))  # type: ignore[list-item]  # no condition


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
