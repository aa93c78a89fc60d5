"""Disjoint cells of the rows, made of public labels and cut points: the query of each, and what it is found again by."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
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
    CaseWhen,
    Constant,
    Number,
    Or,
    Query,
    Scalar,
    Tree,
    Truth,
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

    ``name`` stands for the column, its type and the conditions. ``parts`` are what each condition adds to the notation of a
    conjunction; None where one of them is more than tests of this column, all of which a row has to pass.
    """

    column: str
    conditions: tuple[Query, ...]
    name: str
    parts: tuple[tuple[str, ...], ...] | None
    size: _Size

    @property
    def trees(self) -> list[Boolean]:
        """Return the trees of the conditions."""
        return [query.tree for query in self.conditions]  # type: ignore[misc]  # conditions


def make_axis(column: str, queries: Sequence[Query]) -> CellAxis:
    """Return the axis of conditions on one column; that no row meets two of them is for the caller to see to."""
    plain = all(query.columns == (column,) and not _holds_more(query.tree) for query in queries)
    sizes = [_Size.of(query) for query in queries]
    return CellAxis(
        column,
        tuple(queries),
        hashlib.sha256(" ".join([query.digest for query in queries]).encode()).hexdigest(),
        tuple([tuple(_list_parts(query.tree)) for query in queries]) if plain else None,
        _Size(*[max(each) for each in zip(*sizes, strict=True)]),
    )


def _holds_more(tree: Tree) -> bool:
    """Return whether a condition is a constant, or more than tests of which a row has to pass all."""
    return any(isinstance(part, (Or, Constant)) for part in (tree.children if isinstance(tree, And) else (tree,)))


@dataclass(frozen=True, slots=True, eq=False)
class DisjointCells:
    """Groups of rows by axes, among the rows of ``base``, and what is summed of each group.

    Law: a row is in one group at most. Sums are, for each group in the order of the axes' product: its rows; of ``value``,
    where there is one, the sum over them. With ``sides``, disjoint conditions on one more column, rows and ``value`` are
    those of the first side, and the rows of each other side follow. Last, the rows of ``base``, where there is one.
    """

    axes: tuple[CellAxis, ...]
    base: Query | None = None
    value: Query | None = None
    sides: CellAxis | None = None

    @property
    def all_axes(self) -> tuple[CellAxis, ...]:
        """Return the axes, with the sides as the last one."""
        return self.axes if self.sides is None else (*self.axes, self.sides)

    @property
    def columns(self) -> list[str]:
        """Return the columns that are read."""
        others = [name for query in (self.base, self.value) if query is not None for name in query.columns]
        return list(dict.fromkeys([*(axis.column for axis in self.all_axes), *others]))

    @property
    def queries(self) -> tuple[Query, ...]:
        """Return one query for each sum: an engine that sums these gives the same integers."""
        found = [to_query(tree) for tree in self._list_trees()]
        return tuple(found if self.base is None else [*found, self.base])

    def list_digests(self) -> list[str]:
        """Return the digest of each query, that of ``base`` left out; refuse a query that is too complex.

        Law: they are those of :attr:`queries`. Conditions on different columns have nothing in common that a conjunction
        could leave out, so that its notation is that of their parts, sorted; anything else is written in full.
        """
        found = self._digest_parts() if self._is_simple() else None
        if found is not None:
            return found
        queries = self.queries
        return [query.digest for query in (queries if self.base is None else queries[:-1])]

    def _is_simple(self) -> bool:
        """Return whether no two conditions that are joined read one column, none is a constant, and no query too complex."""
        axes, others = self.all_axes, [query for query in (self.base, self.value) if query is not None]
        joined = [query for query in others if query.boolean]
        read = [axis.column for axis in axes] + [name for query in joined for name in query.columns]
        if not axes or len(set(read)) < len(read) or any(isinstance(query.tree, Constant) for query in joined):
            return False
        sizes = [axis.size for axis in axes] + [_Size.of(query) for query in others]
        return all(axis.parts is not None for axis in axes) and _Size.join(sizes).fits()

    def _digest_parts(self) -> list[str] | None:
        """Return the digests by the notations of parts; None where a value may be simplified."""
        base = [] if self.base is None else _list_parts(self.base.tree)
        held = dict(chain.from_iterable(columns(axis.conditions[0].tree).items() for axis in self.all_axes))
        held |= {} if self.base is None else columns(self.base.tree)
        head, full, write_value = _write_sorted(held), "", None
        if self.value is not None:
            full, write_value = _write_sorted(held | columns(self.value.tree)), _spell_value(self.value)
            if write_value is None:
                return None
        sides = ((),) if self.sides is None else self.sides.parts or ()
        found: list[str] = []
        for group in product(*[axis.parts or () for axis in self.axes]):
            shared = [*chain.from_iterable(group), *base]
            found.append(_hash_text(head + _join_parts([*shared, *sides[0]])))
            if write_value is not None:
                found.append(_hash_text(full + write_value([*shared, *sides[0]])))
            found += [_hash_text(head + _join_parts([*shared, *side])) for side in sides[1:]]
        return found

    def _list_trees(self) -> Iterator[Tree]:
        base: list[Boolean] = [] if self.base is None else [self.base.tree]  # type: ignore[list-item]  # a condition
        sides: list[list[Boolean]] = [[]] if self.sides is None else [[tree] for tree in self.sides.trees]
        for group in product(*[axis.trees for axis in self.axes]):
            inside, *others = [conjoin([*group, *base, *side]) for side in sides]
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


def _spell_value(value: Query) -> Callable[[list[str]], str] | None:
    """Return how a value within the parts of a condition is spelled; None where it may be simplified."""
    if value.boolean:
        own = _list_parts(value.tree)
        return lambda parts: _join_parts([*parts, *own])
    match _choose_inside(Truth("any", wanted=True), value):
        case CaseWhen(branches=((_, number),), default=default):
            middle, end = notation(number), notation(default)
            return lambda parts: f"(case ({_join_parts(parts)} {middle}) {end})"
        case _:
            return None


def _list_parts(tree: Tree) -> list[str]:
    """Return the notations of what a condition joins by AND."""
    return [notation(part) for part in (tree.children if isinstance(tree, And) else (tree,))]


def _join_parts(parts: list[str]) -> str:
    """Return the notation of a conjunction, as :func:`~holdtrue.queries.checking.conjoin` and ``notation`` write it."""
    return f"(all {' '.join(sorted(parts))})" if len(parts) > 1 else parts[0]


def _write_sorted(types: Mapping[str, Type]) -> str:
    return write_head(dict(sorted(types.items())))


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
