"""What learners read of a row: numbers of columns, answers to yes-or-no questions, labels by their place in a list, keys.

Every feature is total: a missing number is NaN, a question about a missing value is no, a label that is not in its public
list is -1. So no row can make a pass over the rows fail. Hashes of public keys decide which part of an ensemble a row
belongs to.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.errors import InvalidParameter
from holdtrue.exact import describe_array
from holdtrue.queries.cards import Card
from holdtrue.queries.columns import names_of, read_table
from holdtrue.queries.evaluator import Values, compute, satisfies
from holdtrue.queries.parser import parse
from holdtrue.queries.sql_words import quote_text, spell_name
from holdtrue.queries.syntax_tree import Boolean, Query

__all__ = [
    "Feature",
    "Keys",
    "Labelled",
    "Numbers",
    "UnitFeature",
    "columns_of",
    "default_features",
    "expand_labels",
    "hash_bytes",
    "hash_keys",
    "parse_feature",
    "parse_labelled",
    "read_features",
    "read_given_rows",
    "read_matrix",
    "types_given",
]

_NUMBERS: Final = ("integer", "real", "boolean")


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column of numbers or of yes and no, as 64-bit floats."""

    column: str


@dataclass(frozen=True, slots=True)
class Labelled:
    """A column as places in a public list of labels."""

    column: str
    labels: tuple[str | int | float | bool, ...]


@dataclass(frozen=True, slots=True)
class Keys:
    """A column of public keys, whole numbers or text, as hashes of 63 bits that say which part a row belongs to."""

    column: str


@dataclass(frozen=True, slots=True)
class UnitFeature:
    """A number or a yes-or-no question about a unit's rows; rows that a caller gives have its value under its name."""

    name: str
    query: Query


Feature: TypeAlias = Numbers | Labelled | Keys | Query | UnitFeature


def parse_feature(text: str, card: Card) -> Numbers | Query | UnitFeature:
    """Return the feature that a text names: a column of numbers, or else a yes-or-no question.

    Of units it may also be a number that an aggregate gives, such as AVG(cost). Text columns are refused, and so are
    questions about rows with other answers than yes and no.
    """
    kinds = {column.name: column.type for column in card.columns}
    if not isinstance(text, str):
        raise InvalidParameter("feature", type(text).__name__, "the name of a column, or a question in text")
    if kinds.get(text) in _NUMBERS:
        return Numbers(text)
    if text in kinds:
        raise InvalidParameter("feature", text, f"a number or a yes-or-no question, such as {text} = 'a word'")
    query = parse(text, card)
    if card.unit is not None and not all(name in card for name in query.columns):
        return UnitFeature(text, query)
    if not query.boolean:
        raise InvalidParameter("feature", text, "the name of a column, or a yes-or-no question about columns")
    return query


def parse_labelled(text: str, card: Card) -> "Feature":
    """Return the feature that a text names, also a text column whose labels are public: the places of its labels."""
    column = card.named.get(text)
    if column is not None and column.type == "text" and column.labels is not None:
        return Labelled(text, column.labels)
    return parse_feature(text, card)


def expand_labels(text: str, card: Card) -> list[str]:
    """Return the features that stand for a text: a question for each public label of a text column, or else itself."""
    column = card.named.get(text)
    if column is None or column.type != "text":
        return [text]
    if column.labels is None:
        message = f"the values of {text} are not public; declare them when the data are opened: labels={{{text!r}: [...]}}"
        raise InvalidParameter.saying("features", message)
    return [f"{spell_name(text)} = {quote_text(label)}" for label in column.labels if isinstance(label, str)]


def default_features(card: Card, used: Collection[str | None]) -> list[str]:
    """Return the columns of numbers that are not used otherwise: the default features of a learner."""
    named = [column.name for column in card.columns if column.type in _NUMBERS and column.name not in used]
    if not named:
        raise InvalidParameter.saying("features", "name the features: apart from the target's there is no column of numbers")
    return named


def columns_of(features: Sequence[Feature]) -> list[str]:
    """Return the columns that features read, each once, in order."""
    read = [item.query if isinstance(item, UnitFeature) else item for item in features]
    named = (item.columns if isinstance(item, Query) else (item.column,) for item in read)
    return list(dict.fromkeys(name for names in named for name in names))


def types_given(features: Sequence[Feature], card: Card) -> dict[str, str]:
    """Return the columns of rows that a caller gives to be read as features, with their types."""
    plain = columns_of([item for item in features if not isinstance(item, UnitFeature)])
    found: dict[str, str] = {name: card.column(name).type for name in plain}
    for item in features:
        if isinstance(item, UnitFeature):
            found[item.name] = "boolean" if item.query.boolean else "real"
    return found


def read_features(features: Sequence[Feature], columns: Mapping[str, Values], *, rows: int) -> list[npt.NDArray[Any]]:
    """Return features of some rows: floats, flags, places or hashes, one array per feature."""
    return [_evaluate_feature(item, columns, rows) for item in features]


def _evaluate_feature(item: Feature, columns: Mapping[str, Values], rows: int) -> npt.NDArray[Any]:
    match item:
        case Numbers(column=column):
            return _to_floats(columns[column])
        case Labelled(column=column, labels=labels):
            return _find_labels(columns[column], labels)
        case Keys(column=column):
            return _hash_column(columns[column])
        case UnitFeature(query=query):
            if isinstance(query.tree, Boolean):
                return satisfies(query.tree, columns, rows=rows)
            return _to_floats(compute(query.tree, columns, rows=rows))
        case _:
            tree: Boolean = item.tree  # type: ignore[assignment]  # a question with yes and no for answers
            return satisfies(tree, columns, rows=rows)


def _to_floats(values: Values) -> npt.NDArray[np.float64]:
    numbers = values.data.astype(np.float64)
    if values.valid is not None:
        numbers[~values.valid] = np.nan
    return numbers


def _find_labels(values: Values, labels: Sequence[str | int | float | bool]) -> npt.NDArray[np.int64]:
    there = np.ones(values.data.size, dtype=np.bool_) if values.valid is None else values.valid
    places = np.full(values.data.size, -1, dtype=np.int64)
    if values.dictionary is not None:
        known = {label: place for place, label in enumerate(labels) if isinstance(label, str)}
        listed = np.array([known.get(text, -1) for text in values.dictionary], dtype=np.int64)
        places[there] = listed[values.data[there]]
        return places
    for place, label in enumerate(labels):
        if not isinstance(label, str):
            places[there & (values.data == label)] = place
    return places


def _hash_column(values: Values) -> npt.NDArray[np.int64]:
    """Return the hash of each key; rows without one have the hash of an empty text."""
    there = np.ones(values.data.size, dtype=np.bool_) if values.valid is None else values.valid
    found = np.full(values.data.size, hash_keys([""], rows=1)[0], dtype=np.int64)
    if values.dictionary is None:
        found[there] = hash_keys(values.data[there].astype(np.int64), rows=int(there.sum()))
    else:
        hashed = hash_keys(np.array(values.dictionary, dtype=np.str_), rows=len(values.dictionary))
        found[there] = hashed[values.data[there]]
    return found


def read_given_rows(rows: Any, features: Sequence[Feature], card: Card) -> npt.NDArray[np.float64]:  # noqa: ANN401 - whatever is a table
    """Return features of rows that a caller gives, a table or one record, by the same rules as for the private rows."""
    return read_matrix(rows, features, types_given(features, card))


def read_matrix(rows: Any, features: Sequence[Feature], types: Mapping[str, str]) -> npt.NDArray[np.float64]:  # noqa: ANN401 - likewise
    """Return features of rows that a caller gives; ``types`` are those of the columns that the features read."""
    held = names_of(rows) or []
    missing = [name for name in types if name not in held]
    if missing:
        raise InvalidParameter("rows", held, f"rows with a column {missing[0]!r}")
    chosen = {name: rows[name] for name in types}
    if isinstance(rows, Mapping) and all(np.ndim(value) == 0 for value in chosen.values()):
        chosen = {name: [value] for name, value in chosen.items()}
    table, size = read_table(chosen, types=types)
    values = {name: cells for name, (_, cells) in table.items()}
    known = [Numbers(item.name) if isinstance(item, UnitFeature) else item for item in features]
    return np.column_stack([array.astype(np.float64) for array in read_features(known, values, rows=size)])


_PERSON: Final = b"holdtrue parts"


def hash_keys(keys: object, *, rows: int) -> npt.NDArray[np.int64]:
    """Return a whole number of 63 bits for each row: the hash of its key, which is public.

    Law: a fixed function of one key alone, the same for 7 and "7"; equal keys have equal hashes, so that all rows of one
    person are in one part. Needs: keys that are public, and that stay when a row is replaced. Failure: InvalidParameter
    unless there is one whole number or one string for every row.
    """
    array = np.asarray(keys)
    if array.shape != (rows,) or array.dtype.kind not in "iuU":
        raise InvalidParameter("keys", describe_array(array), f"{rows} public whole numbers or strings, one per row")
    distinct, places = np.unique(array, return_inverse=True)
    hashed = np.array([hash_bytes(str(key).encode("utf-8", "surrogatepass")) for key in distinct.tolist()], dtype=np.int64)
    return hashed[places] if rows else np.zeros(0, dtype=np.int64)


def hash_bytes(content: bytes) -> int:
    """Return the 63-bit number that decides which part something belongs to."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8, person=_PERSON).digest(), "little") >> 1
