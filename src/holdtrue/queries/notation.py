"""One spelling for each tree, whatever the release of any library: what is sorted by and what is hashed."""

import hashlib
import json
from typing import assert_never

from holdtrue.queries.trees import (
    All,
    Any,
    Arithmetic,
    Case,
    Comparison,
    Constant,
    Convert,
    Field,
    Function,
    Like,
    Member,
    Missing,
    Negate,
    Null,
    Number,
    Text,
    Tree,
    Truth,
    columns,
)

__all__ = ["digest", "notation"]

_VERSION = "holdtrue-query-1"


def digest(tree: Tree) -> str:
    """Return the SHA-256 of a canonical tree and of the types of the columns that it reads, in hexadecimal."""
    types = json.dumps(columns(tree), sort_keys=True)
    return hashlib.sha256("\n".join((_VERSION, types, notation(tree))).encode()).hexdigest()


def notation(tree: Tree) -> str:  # noqa: C901, PLR0912 - one case for each kind of tree
    """Return a text that is different for different trees."""
    match tree:
        case Number(value=value):
            return value.hex() if isinstance(value, float) else str(value)
        case Text(value=value):
            return json.dumps(value)
        case Missing(type=kind):
            return f"(null {kind})"
        case Field(column=name, type=kind):
            return f"(field {json.dumps(name)} {kind})"
        case Arithmetic(operator=symbol, left=left, right=right) | Comparison(operator=symbol, left=left, right=right):
            return f"({symbol} {notation(left)} {notation(right)})"
        case Negate(operand=operand):
            return f"(minus {notation(operand)})"
        case Convert(operand=operand, type=kind):
            return f"({kind} {notation(operand)})"
        case Case(branches=branches, default=default):
            listed = "".join(f"({notation(condition)} {notation(value)})" for condition, value in branches)
            return f"(case {listed} {notation(default)})"
        case Function(name=name, operands=operands):
            return f"({name.lower()} {' '.join(notation(operand) for operand in operands)})"
        case Constant(value=value):
            return "true" if value else "false"
        case All(children=children):
            return f"(all {' '.join(notation(child) for child in children)})"
        case Any(children=children):
            return f"(any {' '.join(notation(child) for child in children)})"
        case Truth(column=name, wanted=wanted):
            return f"(truth {json.dumps(name)} {json.dumps(wanted)})"
        case Member(operand=operand, values=values, negated=negated):
            listed = " ".join(notation(Text(value) if isinstance(value, str) else Number(value)) for value in values)
            return f"({'not-' * negated}in {notation(operand)} {listed})"
        case Like(operand=operand, pattern=pattern, negated=negated):
            return f"({'not-' * negated}like {notation(operand)} {json.dumps(pattern)})"
        case Null(operand=operand, negated=negated):
            return f"({'not-' * negated}missing {notation(operand)})"
        case _:
            assert_never(tree)
