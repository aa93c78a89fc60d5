"""One spelling for each tree, whatever the release of any library: what is sorted by and what is hashed."""

import hashlib
from collections.abc import Mapping
from json.encoder import encode_basestring_ascii as quoted
from typing import assert_never

from holdtrue.queries.cards import Type
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
)

__all__ = ["digest", "digest_of", "notation"]

_VERSION = "holdtrue-query-1"


def digest(tree: Tree, columns: Mapping[str, Type]) -> str:
    """Return the SHA-256 of a canonical tree and of the types of the columns that it reads, in hexadecimal.

    The columns are given sorted by name; they are hashed as the JSON object that maps them to their types.
    """
    return digest_of(notation(tree), columns)


def digest_of(written: str, columns: Mapping[str, Type]) -> str:
    """Return the digest of a tree whose notation is known."""
    types = ", ".join([f'{quoted(name)}: "{kind}"' for name, kind in columns.items()])
    return hashlib.sha256(f"{_VERSION}\n{{{types}}}\n{written}".encode()).hexdigest()


def notation(tree: Tree) -> str:  # noqa: C901, PLR0912 - one case for each kind of tree
    """Return a text that is different for different trees."""
    # The commonest kinds come first, since every case is tried in turn.
    match tree:
        case Arithmetic(operator=symbol, left=left, right=right) | Comparison(operator=symbol, left=left, right=right):
            return f"({symbol} {notation(left)} {notation(right)})"
        case Field(column=name, type=kind):
            return f"(field {quoted(name)} {kind})"
        case Number(value=value):
            return value.hex() if isinstance(value, float) else str(value)
        case Truth(column=name, wanted=wanted):
            return f"(truth {quoted(name)} {'true' if wanted else 'false'})"
        case All(children=children):
            return f"(all {' '.join([notation(child) for child in children])})"
        case Any(children=children):
            return f"(any {' '.join([notation(child) for child in children])})"
        case Text(value=value):
            return quoted(value)
        case Member(operand=operand, values=values, negated=negated):
            listed = " ".join([notation(Text(value) if isinstance(value, str) else Number(value)) for value in values])
            return f"({'not-' * negated}in {notation(operand)} {listed})"
        case Null(operand=operand, negated=negated):
            return f"({'not-' * negated}missing {notation(operand)})"
        case Like(operand=operand, pattern=pattern, negated=negated):
            return f"({'not-' * negated}like {notation(operand)} {quoted(pattern)})"
        case Missing(type=kind):
            return f"(null {kind})"
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
        case _:
            assert_never(tree)
