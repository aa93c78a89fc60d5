"""From an expression as written to its canonical tree, with types and columns checked.

A condition holds on exactly the rows where SQL calls it true, under SQL's three-valued logic. A rewriting is made
only where it is right for rows with NULLs too: ``a AND NOT a`` is false of every row, but ``a OR NOT a`` is not true of a
row where ``a`` is NULL, and so it stays.
"""

import math
from collections.abc import Iterable, Sequence
from typing import assert_never

from holdtrue.errors import UnknownColumn, UnsupportedQuery
from holdtrue.queries.cards import HIGHEST, LOWEST, Card, Column, Type
from holdtrue.queries.dates import DAY, LIMITS
from holdtrue.queries.like import compile_pattern, simplify_pattern
from holdtrue.queries.scalars import (
    MOST_ROWS,
    align_dates,
    bounds_of,
    case,
    convert,
    function,
    make_arithmetic,
    negate,
    never_null,
    unify,
)
from holdtrue.queries.sql_words import AGGREGATES, refuse_aggregate
from holdtrue.queries.syntax_tree import (
    COMPARE,
    Aggregate,
    AggregateName,
    And,
    Atom,
    Boolean,
    Constant,
    Convert,
    Field,
    Function,
    Like,
    Member,
    Missing,
    Negate,
    Node,
    Null,
    Number,
    Operator,
    Or,
    Scalar,
    Symbol,
    Text,
    Tree,
    Truth,
    ValueComparison,
    make_aggregate,
    notation,
)

__all__ = ["check_shared", "check_tree", "check_value", "conjoin", "disjoin", "make_comparison", "make_null"]

_FALSE = Constant(value=False)
_TRUE = Constant(value=True)
_OPPOSITE: dict[Operator, Operator] = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_FLIPPED: dict[Operator, Operator] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TYPES: dict[str, Type] = {"INTEGER": "integer", "DOUBLE": "real", "DATE": "date", "TIMESTAMP": "timestamp"}
_SYMBOLS: dict[str, Symbol] = {"+": "+", "-": "-", "*": "*", "/": "/"}
_MOST_REPEATS = 128
_LONGEST_SHOWN = 40
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}
_NUMBERS = ("integer", "real")
_SHOWN = {"text": "text", "date": "a date", "timestamp": "a timestamp"}
_CONDITIONS = frozenset(
    {*COMPARE, "AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "IS NULL", "IS TRUE", "IS FALSE", "TRUE", "FALSE"}
    | {"ANY", "EVERY", "ANY WHERE", "EVERY WHERE"}
)


def check_tree(node: Node, card: Card) -> Tree:
    """Return the canonical tree of an expression: a condition, or a scalar of numbers."""
    tree = check_value(node, card)
    if isinstance(tree, Boolean):
        return tree
    if tree.type not in ("integer", "real"):
        message = f"a query is a condition or a number, not {_SHOWN[tree.type]}; compare it with something"
        raise UnsupportedQuery(message)
    return tree


def check_value(node: Node, card: Card) -> Tree:
    """Return the canonical tree of an expression of any type."""
    checker = _Checker(card)
    return checker.to_condition(node, wanted=True) if checker.is_condition(node) else checker.to_scalar(node)


def check_shared(node: Node, card: Card) -> tuple[str, Boolean, Column | Scalar] | None:
    """Return the table of SHARE(value), its WHERE, and the column or value that tells rows apart; None for a condition."""
    return _Checker(card).read_shared(node) if node.kind in ("SHARE", "SHARE WHERE") else None


class _Checker:
    __slots__ = ("_card", "_columns", "_inside", "_repeats")

    def __init__(self, card: Card, *, inside: bool = False) -> None:
        self._card = card
        self._inside = inside
        self._columns = card.named
        self._repeats = 0

    def _find_column(self, name: str) -> Column:
        found = self._columns.get(name)
        if found is None and any(name in table.card for table in self._card.tables):
            message = (
                f"{name!r} is a column of rows, of which a unit has several; put it in an aggregate, as in ANY({name} ...)"
            )
            raise UnknownColumn(message)
        return found or self._card.column(name)

    def is_condition(self, node: Node) -> bool:
        return node.kind in _CONDITIONS or (node.kind == "NAME" and self._find_column(node.text).type == "boolean")

    # Conditions

    def to_condition(self, node: Node, *, wanted: bool) -> Boolean:  # noqa: C901 - one case for each kind of condition
        """Return the condition that holds on the rows where SQL calls a node true, or false if ``wanted`` is False."""
        kind = node.kind
        match kind:
            case "=" | "<>" | "<" | "<=" | ">" | ">=":
                return self._read_comparison(kind, *node.operands, wanted=wanted)
            case "NAME":
                return self._read_truth(self._find_column(node.text), wanted=wanted)
            case "AND" | "OR":
                parts = [self.to_condition(part, wanted=wanted) for part in node.operands]
                return conjoin(parts) if (kind == "AND") == wanted else disjoin(parts)
            case "NOT":
                return self.to_condition(node.operands[0], wanted=not wanted)
            case "TRUE" | "FALSE":
                return Constant((kind == "TRUE") == wanted)
            case "BETWEEN":
                return self._read_between(*node.operands, wanted=wanted)
            case "IN":
                return self._read_member(*node.operands, wanted=wanted)
            case "LIKE":
                return make_like(self.to_scalar(node.operands[0]), node.text, negated=not wanted)
            case "IS TRUE" | "IS FALSE":
                found = self.to_condition(node.operands[0], wanted=kind == "IS TRUE")
                return found if wanted else _make_complement(found)
            case "IS NULL":
                return self._read_null(node.operands[0], wanted=wanted)
            case "ANY" | "ANY WHERE" | "EVERY" | "EVERY WHERE":
                return self._read_quantifier(node, wanted=wanted)
            case _:
                message = "expected a condition, found a number or a text; compare it with something"
                raise UnsupportedQuery(message)

    def _read_truth(self, column: Column, *, wanted: bool) -> Boolean:
        if column.type != "boolean":
            message = f"{column.name!r} is of type {column.type}, not a condition; compare it with something"
            raise UnsupportedQuery(message)
        return Truth(column.name, wanted)

    def _read_comparison(self, symbol: Operator, left: Node, right: Node, *, wanted: bool) -> Boolean:
        if "NULL" in (left.kind, right.kind):
            message = "a comparison with NULL is never true; write IS NULL or IS NOT NULL"
            raise UnsupportedQuery(message)
        if self.is_condition(left) or self.is_condition(right):
            return self._compare_conditions(symbol, left, right, wanted=wanted)
        return make_comparison(symbol if wanted else _OPPOSITE[symbol], self.to_scalar(left), self.to_scalar(right))

    def _compare_conditions(self, symbol: Operator, left: Node, right: Node, *, wanted: bool) -> Boolean:
        """Return a condition compared with yes or no, or with another one: true where neither is NULL, as the sign says."""
        if not self.is_condition(left) or left.kind in ("TRUE", "FALSE"):
            left, right = right, left
        if symbol not in ("=", "<>"):
            raise _refuse_comparison(left)
        same = (symbol == "=") == wanted
        if self.is_condition(right) and right.kind not in ("TRUE", "FALSE"):
            return self._match_conditions(left, right, same=same)
        truth = _read_yes_or_no(right) if left.kind == "NAME" else _TRUTHS.get(right.kind.lower())
        if truth is None:
            raise _refuse_comparison(left)
        return self.to_condition(left, wanted=truth == same)

    def _match_conditions(self, left: Node, right: Node, *, same: bool) -> Boolean:
        """Return where two conditions are both true or both false, or where one is true and the other false."""
        self._count_repeat()
        pairs = [(yes, yes == same) for yes in (True, False)]
        return disjoin(
            conjoin((self.to_condition(left, wanted=first), self.to_condition(right, wanted=second)))
            for first, second in pairs
        )

    def _count_repeat(self) -> None:
        """Refuse conditions that are built twice too often, within one another."""
        self._repeats += 1
        if self._repeats > _MOST_REPEATS:
            message = "the query is too complex; nest fewer CASTs and comparisons of conditions"
            raise UnsupportedQuery(message)

    def _read_between(self, *nodes: Node, wanted: bool) -> Boolean:
        value, low, high = (self.to_scalar(node) for node in nodes)
        if wanted:
            return conjoin((make_comparison(">=", value, low), make_comparison("<=", value, high)))
        return disjoin((make_comparison("<", value, low), make_comparison(">", value, high)))

    def _read_member(self, *nodes: Node, wanted: bool) -> Boolean:
        if self.is_condition(nodes[0]):
            found = [self._equals_value(nodes[0], value, wanted=wanted) for value in nodes[1:]]
            return disjoin(found) if wanted else conjoin(found)
        operand, *listed = align_dates([self.to_scalar(node) for node in nodes], where="IN")
        constants = [value for value in listed if isinstance(value, (Number, Text))]
        symbol: Operator = "=" if wanted else "<>"
        tests = [make_comparison(symbol, operand, value) for value in listed if not isinstance(value, (Number, Text))]
        if constants:
            tests.append(make_member(operand, constants, negated=not wanted))
        return disjoin(tests) if wanted else conjoin(tests)

    def _equals_value(self, operand: Node, value: Node, *, wanted: bool) -> Boolean:
        """Return where a condition equals a listed value; NULL is equal and unequal to nothing."""
        self._count_repeat()
        return _FALSE if value.kind == "NULL" else self._compare_conditions("=", operand, value, wanted=wanted)

    def _read_null(self, operand: Node, *, wanted: bool) -> Boolean:
        if not self.is_condition(operand):
            return make_null(self.to_scalar(operand), negated=not wanted)
        if operand.kind != "NAME":
            message = "IS NULL takes a column, a number or a text, not a condition; test its columns"
            raise UnsupportedQuery(message)
        return Null(Field(operand.text, "boolean"), not wanted)

    # Scalars

    def to_scalar(self, node: Node) -> Scalar:  # noqa: C901 - one case for each kind of scalar
        """Return a node as a number or a text."""
        kind = node.kind
        match kind:
            case "NAME":
                return self._read_field(self._find_column(node.text))
            case "NUMBER":
                return _read_number(node.text)
            case "TEXT":
                return Text(node.text)
            case "NULL":
                return Missing()
            case "+" | "-" | "*" | "/":
                return self._read_chain(node)
            case "NEGATE":
                return self._read_negation(node.operands[0])
            case "ABS" | "LEAST" | "GREATEST" | "COALESCE" | "NULLIF" | "LENGTH" | "LOWER" | "UPPER":
                return function(kind, [self.to_scalar(operand) for operand in node.operands])
            case "YEAR" | "MONTH" | "DAY" | "WEEKDAY":
                return function(kind, [self.to_scalar(operand) for operand in node.operands])
            case "CAST":
                return self._read_cast(node)
            case "CASE" | "CASE OF":
                return self._read_case(node)
            case _ if kind.partition(" ")[0] in AGGREGATES:
                return self._read_aggregate(node)
            case _:
                message = "expected a number, found a condition; write CASE WHEN ... THEN 1 ELSE 0 END, or IS TRUE"
                raise UnsupportedQuery(message)

    def _read_chain(self, node: Node) -> Scalar:
        """Return arithmetic, from left to right by a loop: a chain is as deep as it is long."""
        steps: list[tuple[Symbol, Node]] = []
        while (symbol := _SYMBOLS.get(node.kind)) is not None:
            node, right = node.operands
            steps.append((symbol, right))
        found = self.to_scalar(node)
        for symbol, right in reversed(steps):
            operand = self.to_scalar(right)
            if symbol == "/" and isinstance(found, Aggregate) and isinstance(operand, Number) and operand.value < 1:
                message = f"{found.name}(...) is divided by a cap, which is 1 or more"
                raise UnsupportedQuery(message)
            found = make_arithmetic(symbol, found, operand)
        return found

    def _read_field(self, column: Column) -> Scalar:
        if column.type == "boolean":
            message = (
                f"{column.name!r} is boolean, not a number; write CAST(... AS INTEGER) or CASE WHEN ... THEN 1 ELSE 0 END"
            )
            raise UnsupportedQuery(message)
        return Field(column.name, column.type)

    def _read_negation(self, operand: Node) -> Scalar:
        if operand.kind == "NUMBER":
            # The lowest integer is written as minus something that is no 64-bit integer by itself.
            return _read_number(operand.text, sign=-1)
        return negate(self.to_scalar(operand))

    def _read_cast(self, node: Node) -> Scalar:
        operand = node.operands[0]
        if self.is_condition(operand):
            self._count_repeat()
            branches = [(self.to_condition(operand, wanted=wanted), Number(int(wanted))) for wanted in (True, False)]
            value = case(branches, Missing())
        else:
            value = self.to_scalar(operand)
        return Missing() if isinstance(value, Missing) else convert(value, _TYPES[node.text])

    def _read_case(self, node: Node) -> Scalar:
        """Return a CASE: conditions and values in turn, then the default; CASE OF has what is compared before them."""
        *operands, default = node.operands
        if node.kind == "CASE":
            conditions = [self.to_condition(test, wanted=True) for test in operands[::2]]
        elif self.is_condition(subject := operands.pop(0)):
            conditions = [self._equals_value(subject, test, wanted=True) for test in operands[::2]]
        else:
            scalar = self.to_scalar(subject)
            conditions = [make_comparison("=", scalar, self.to_scalar(test)) for test in operands[::2]]
        values = [self.to_scalar(value) for value in operands[1::2]]
        return case(zip(conditions, values, strict=True), self.to_scalar(default))

    # Aggregates over the rows of a unit

    def _open_aggregate(self, node: Node) -> "tuple[str, _Checker, Boolean, tuple[Node, ...]]":
        """Return the table of an aggregate, what checks its columns, its WHERE, and its other operands."""
        name, _, filtered = node.kind.partition(" ")
        if self._inside:
            message = f"the aggregate {name} stands within another one; an aggregate is over rows, and so are its operands"
            raise UnsupportedQuery(message)
        if self._card.unit is None:
            raise UnsupportedQuery(refuse_aggregate(name))
        table = self._card.find_table(node.text)
        inner = _Checker(table.card, inside=True)
        where = inner.to_condition(node.operands[-1], wanted=True) if filtered else _TRUE
        return table.name, inner, where, node.operands[:-1] if filtered else node.operands

    def _read_quantifier(self, node: Node, *, wanted: bool) -> Boolean:
        """Return ANY as a count above 0, and EVERY as the count of rows where the condition is not true being 0."""
        table, inner, where, (operand,) = self._open_aggregate(node)
        condition = inner.to_condition(operand, wanted=True)
        if node.kind.startswith("EVERY"):
            condition, wanted = _make_complement(condition), not wanted
        counted = _count_rows(table, conjoin((where, condition)))
        return make_comparison(">" if wanted else "<=", counted, Number(0))

    def _read_aggregate(self, node: Node) -> Scalar:
        table, inner, where, operands = self._open_aggregate(node)
        name = node.kind.partition(" ")[0]
        if name in ("COUNT", "SHARE"):
            condition = inner.read_counted(operands[0])
            counted = _count_rows(table, conjoin((where, condition)))
            return counted if name == "COUNT" else make_arithmetic("/", counted, _count_rows(table, where))
        operand = inner.to_scalar(operands[0])
        match name:
            case "SUM":
                return inner.add_up(table, where, operand)
            case "AVG":
                there = conjoin((where, make_null(operand, negated=True)))
                return make_arithmetic("/", inner.add_up(table, where, operand), _count_rows(table, there))
            case "MIN" | "MAX":
                return _order_rows(name, table, where, operand)
            case _:
                return _order_rows("FIRST", table, where, operand, order=inner.to_scalar(operands[1]))

    def read_shared(self, node: Node) -> tuple[str, Boolean, Column | Scalar] | None:
        """Return the table and the WHERE of SHARE, and what tells rows apart, where that is no condition."""
        table, inner, where, (operand,) = self._open_aggregate(node)
        if operand.kind == "NAME":
            return table, where, self._card.find_table(table).card.column(operand.text)
        return None if inner.is_condition(operand) else (table, where, inner.to_scalar(operand))

    def read_counted(self, node: Node) -> Boolean:
        """Return the rows that COUNT counts: where a condition is true, or where a value is not NULL."""
        if self.is_condition(node):
            return self.to_condition(node, wanted=True)
        return make_null(self.to_scalar(node), negated=True)

    def add_up(self, table: str, where: Boolean, operand: Scalar) -> Scalar:
        """Return SUM: of numbers between ends that are declared, or that the expression itself has."""
        if operand.type not in _NUMBERS:
            message = f"SUM and AVG take numbers, not {_SHOWN[operand.type]}"
            raise UnsupportedQuery(message)
        declared = {column.name: column.bounds for column in self._card.columns if column.bounds is not None}
        found = bounds_of(operand, declared)
        low, high = found.low, found.high
        if not max(abs(low), abs(high)) <= MOST_ROWS:
            message = (
                "SUM and AVG need bounds of what they add up, within 2^31: declare bounds= of the column, or write "
                "LEAST(GREATEST(value, low), high)"
            )
            raise UnsupportedQuery(message)
        return make_aggregate("SUM", table, where, operand, bounds=(low, high))


def _count_rows(table: str, where: Boolean) -> Scalar:
    return Number(0) if where == _FALSE else make_aggregate("COUNT", table, where)


def _order_rows(
    name: AggregateName, table: str, where: Boolean, operand: Scalar, *, order: Scalar | None = None
) -> Aggregate:
    """Return MIN, MAX or FIRST, whose operands have an order."""
    if (operand.type == "text" and name != "FIRST") or (order is not None and order.type == "text"):
        message = f"{name} takes numbers and dates{' to go BY' * (name == 'FIRST')}, not text"
        raise UnsupportedQuery(message)
    return make_aggregate(name, table, where, operand, order=order)


def _read_yes_or_no(node: Node) -> bool | None:
    """Return what a constant says of a yes-or-no column, or None."""
    if node.kind == "NUMBER":
        value = _read_number(node.text).value
        return bool(value) if value in (0, 1) else None
    return _TRUTHS.get(node.text.lower() if node.kind == "TEXT" else node.kind.lower())


def _refuse_comparison(node: Node) -> UnsupportedQuery:
    """Return the error for a yes-or-no column, or another condition, that is compared with something else."""
    if node.kind == "NAME":
        constants = "TRUE, FALSE, 'yes', 'no', 'true', 'false', 1 or 0"
        message = f"{node.text!r} is a yes-or-no column; compare it by = or <> with {constants}, or with another such column"
    else:
        message = "a condition can be compared only with TRUE, FALSE or another condition, by = or <>"
    return UnsupportedQuery(message)


def _read_number(text: str, *, sign: int = 1) -> Number:
    if text.isdigit():
        # A text of 4 KiB holds at most 4,096 digits, fewer than Python's own limit for reading integers.
        value = sign * int(text)
        if LOWEST <= value <= HIGHEST:
            return Number(value)
    try:
        real = sign * float(text)
    except ValueError:
        message = f"{text[:_LONGEST_SHOWN]!r} is no number; put a space after the number, or digits after the E"
        raise UnsupportedQuery(message) from None
    if not math.isfinite(real):
        message = "a constant is larger than the largest double, about 1.8e308"
        raise UnsupportedQuery(message)
    return Number(real)


def conjoin(children: Iterable[Boolean]) -> Boolean:
    """Return what is true where all children are."""
    return _join_conditions(And, Or, children)


def disjoin(children: Iterable[Boolean]) -> Boolean:
    """Return what is true where a child is."""
    return _join_conditions(Or, And, children)


def _join_conditions(kind: type[And | Or], other: type[And | Or], children: Iterable[Boolean]) -> Boolean:
    idle, decisive = (_TRUE, _FALSE) if kind is And else (_FALSE, _TRUE)
    flat: dict[str, Boolean] = {}
    for child in children:
        if isinstance(child, kind):
            flat.update({notation(part): part for part in child.children})
        else:
            flat[notation(child)] = child
    flat.pop(notation(idle), None)
    if notation(decisive) in flat or _opposites_decide(kind, flat):
        return decisive
    if any(isinstance(child, other) for child in flat.values()):
        flat = _absorb_conditions(flat, other)
    if len(flat) < 2:  # noqa: PLR2004 - one child needs no And or Or around it
        return next(iter(flat.values()), idle)
    return kind(tuple([flat[name] for name in sorted(flat)]))


def _absorb_conditions(flat: dict[str, Boolean], other: type[And | Or]) -> dict[str, Boolean]:
    """Drop what follows: a AND (a OR b) is a; (a OR b) AND (a OR b OR c) is a OR b; the same with AND and OR exchanged."""
    nested = {name: {notation(part) for part in child.children} for name, child in flat.items() if isinstance(child, other)}
    return {
        name: child
        for name, child in flat.items()
        if name not in nested
        or (nested[name].isdisjoint(flat) and not any(parts < nested[name] for parts in nested.values()))
    }


def _opposites_decide(kind: type[And | Or], flat: dict[str, Boolean]) -> bool:
    """Return whether two opposites decide: no row satisfies both of any; every row satisfies IS NULL or IS NOT NULL."""
    atoms: dict[str, Atom]
    if kind is Or:
        atoms = {name: child for name, child in flat.items() if isinstance(child, Null)}
    else:
        atoms = {name: child for name, child in flat.items() if not isinstance(child, (And, Or, Constant))}
    # Opposites differ in the first word of their notation, or are the two truths of one column.
    subjects = {atom.column if isinstance(atom, Truth) else name.partition(" ")[2] for name, atom in atoms.items()}
    return len(subjects) < len(atoms) and any(notation(negate_atom(atom)) in flat for atom in atoms.values())


def negate_atom(atom: Atom) -> Atom:
    """Return the atom that is true where SQL calls this one false."""
    match atom:
        case ValueComparison(operator=symbol, left=left, right=right):
            return ValueComparison(_OPPOSITE[symbol], left, right)
        case Truth(column=name, wanted=wanted):
            return Truth(name, not wanted)
        case Member(operand=operand, values=values, negated=negated):
            return Member(operand, values, not negated)
        case Like(operand=operand, pattern=pattern, negated=negated):
            return Like(operand, pattern, not negated)
        case Null(operand=operand, negated=negated):
            return Null(operand, not negated)
        case _:
            assert_never(atom)


def _make_complement(tree: Boolean) -> Boolean:
    """Return the condition that holds on exactly the rows where a tree does not: SQL's IS NOT TRUE."""
    match tree:
        case Constant(value=value):
            return Constant(not value)
        case And(children=children):
            return disjoin(_make_complement(child) for child in children)
        case Or(children=children):
            return conjoin(_make_complement(child) for child in children)
        case Null():
            return negate_atom(tree)
        case ValueComparison(left=left, right=right):
            return disjoin((negate_atom(tree), make_null(left), make_null(right)))
        case Truth(column=name):
            return disjoin((negate_atom(tree), make_null(Field(name, "boolean"))))
        case Member(operand=operand) | Like(operand=operand):
            return disjoin((negate_atom(tree), make_null(operand)))
        case _:
            assert_never(tree)


def make_null(operand: Scalar, *, negated: bool = False) -> Boolean:
    """Return the test for NULL and NaN, made of the innermost operand that decides it."""
    if isinstance(operand, Missing):
        return Constant(not negated)
    if never_null(operand):
        return Constant(negated)
    match operand:
        case Negate(operand=inner) | Convert(operand=inner, type="real" | "date" | "timestamp"):
            return make_null(inner, negated=negated)
        case Function(name="ABS" | "LENGTH" | "LOWER" | "UPPER" | "YEAR" | "MONTH" | "DAY" | "WEEKDAY", operands=(inner,)):
            return make_null(inner, negated=negated)
        case _:
            return Null(operand, negated)


def make_comparison(symbol: Operator, left: Scalar, right: Scalar) -> Boolean:
    """Return a comparison with the constant on the right; an integer or a date is compared with a constant exactly."""
    if isinstance(left, Missing) or isinstance(right, Missing):
        return _FALSE
    if isinstance(left, (Number, Text)) and not isinstance(right, (Number, Text)):
        symbol, left, right = _FLIPPED[symbol], right, left
    if isinstance(right, Number) and left.type == "integer" and right.type in _NUMBERS and not isinstance(left, Number):
        if right.type == "integer" and symbol in ("=", "<>", ">", "<=") and right.value < HIGHEST:
            return ValueComparison(symbol, left, right)
        return _with_integer(symbol, left, right)
    if left.type != right.type:
        left, right = unify((left, right), where=f"the comparison {symbol}")
    if isinstance(left, (Number, Text)) and isinstance(right, (Number, Text)):
        return Constant(bool(COMPARE[symbol](left.value, right.value)))
    if isinstance(right, Number) and left.type in LIMITS:
        return _with_moment(symbol, left, right)
    if left == right:
        return make_null(left, negated=True) if symbol in ("=", "<=", ">=") else _FALSE
    if not isinstance(right, (Number, Text)) and notation(right) < notation(left):
        symbol, left, right = _FLIPPED[symbol], right, left
    return ValueComparison(symbol, left, right)


def _with_moment(symbol: Operator, left: Scalar, right: Number) -> Boolean:
    """Compare a date or a timestamp with a constant; a date by its days, also where the constant has a time of day."""
    if left.type == "date":
        return _with_integer(symbol, left, right)
    if not isinstance(left, Convert):
        return ValueComparison(symbol, left, right)
    day, rest = divmod(int(right.value), DAY)
    if rest and symbol in ("=", "<>"):
        return make_null(left.operand, negated=True) if symbol == "<>" else _FALSE
    # Within a day: the date begins before the moment, or on a later day.
    within: dict[Operator, Operator] = {"<": "<=", ">=": ">"}
    return _with_integer(within.get(symbol, symbol) if rest else symbol, left.operand, Number(day, "date"))


def _with_integer(symbol: Operator, left: Scalar, right: Number) -> Boolean:
    """Compare an integer with any finite constant, without rounding: what remains is =, <>, > or <= and an integer.

    A date is compared likewise, by its days.
    """
    value, kind = right.value, left.type
    lowest, highest = LIMITS.get(kind, (LOWEST, HIGHEST))
    floor = math.floor(value)
    if symbol in ("=", "<>"):
        if floor == value and lowest <= floor <= highest:
            return ValueComparison(symbol, left, Number(floor, kind))
        return make_null(left, negated=True) if symbol == "<>" else _FALSE
    if symbol in (">=", "<"):
        floor = math.ceil(value) - 1
    above = symbol in (">", ">=")
    if lowest <= floor < highest:
        exact = right if floor == value and right.type == kind else Number(floor, kind)
        return ValueComparison(">" if above else "<=", left, exact)
    return make_null(left, negated=True) if above == (floor < lowest) else _FALSE


def make_member(operand: Scalar, values: Sequence[Number | Text], *, negated: bool = False) -> Boolean:
    """Return IN or NOT IN a list of constants."""
    if isinstance(operand, (Missing, Number, Text)):
        if negated:
            return conjoin((make_null(operand, negated=True), *(make_comparison("<>", operand, value) for value in values)))
        return disjoin(make_comparison("=", operand, value) for value in values)
    if isinstance(operand, Convert) and operand.type == "timestamp":
        # No date is a moment within a day.
        days = [Number(int(value.value) // DAY, "date") for value in values if not int(value.value) % DAY]
        operand, values = operand.operand, days
    kinds = {value.type for value in values}
    kind = operand.type
    if kinds and (("text" in kinds and len(kinds) > 1) or (kind == "text") != (kinds == {"text"})):
        message = "IN mixes text and numbers; put single quotes around text, and none around numbers"
        raise UnsupportedQuery(message)
    found = {value for value in (_convert_exactly(value.value, kind) for value in values) if value is not None}
    kept = tuple(sorted(found))
    if len(kept) < 2:  # noqa: PLR2004 - one value is a comparison
        if not kept:
            return make_null(operand, negated=True) if negated else _FALSE
        constant = Text(kept[0]) if isinstance(kept[0], str) else Number(kept[0], kind)
        return make_comparison("<>" if negated else "=", operand, constant)
    return Member(operand, kept, negated)  # type: ignore[arg-type]  # one type, that of the operand


def _convert_exactly(value: float | str, kind: str) -> int | float | str | None:
    """Return a listed value in the operand's type, or None for one that the operand can never equal."""
    if isinstance(value, str):
        return value
    if kind == "real":
        return float(value) + 0.0
    whole = math.floor(value)
    return whole if whole == value and LOWEST <= whole <= HIGHEST else None


def make_like(operand: Scalar, pattern: str, *, negated: bool = False) -> Boolean:
    """Return LIKE or NOT LIKE a pattern."""
    if isinstance(operand, Missing):
        return _FALSE
    if operand.type != "text":
        message = "LIKE takes text, not a number"
        raise UnsupportedQuery(message)
    if isinstance(operand, Text):
        return Constant(compile_pattern(pattern)(operand.value) != negated)
    pattern = simplify_pattern(pattern)
    if pattern == "%":
        return _FALSE if negated else make_null(operand, negated=True)
    if not set("%_") & set(pattern):
        return make_comparison("<>" if negated else "=", operand, Text(pattern))
    return Like(operand, pattern, negated)
