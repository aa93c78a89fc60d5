"""One codec for everything that is written as JSON: requests, responses, events, plans, cards and entries.

What is written is what is hashed. :func:`encode` has one text for one value: fields of a record in the order of their
declaration with its tag first, keys of a mapping sorted, no spaces, UTF-8, rationals as text such as "1/3", and no number
that JSON does not have. ``VERSION`` names these rules; ``tests/test_golden_records.py`` holds the exact bytes.
"""

import hashlib
import math
import re
from collections.abc import Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from itertools import chain
from typing import Any, Final, TypeVar, overload
from uuid import UUID

import msgspec
from msgspec import inspect

from holdtrue.errors import HoldtrueError, InvalidParameter, RequestError

__all__ = ["VERSION", "Record", "convert", "decode", "digest_of", "encode", "plain"]

VERSION: Final = 1
"""The rules of the bytes that ledgers hash. A change of any byte changes this number, and both are read."""

Kind = TypeVar("Kind")
_LONGEST_NAME = 120
_RATIONAL = re.compile(r"-?[0-9]{1,1001}(/0*[1-9][0-9]{0,1000})?")
_RATIONAL_WORDS = 'a rational in text, such as "1/3"'
_MISTAKE = re.compile(r"(?P<said>.*?)(?: - at (?P<key>`key` in )?`\$\.?(?P<path>[^`]*)`)?", re.DOTALL)
_EXPECTED = re.compile(r"Expected `(?P<kinds>[^`]*)`(?P<range>.*?)(?:, got `(?P<got>[^`]*)`|, got \d+)?", re.DOTALL)
_FIELD_NAMES = re.compile(r"[^.\[\]]+")
_FIELD = re.compile(r"Object (?P<wrong>missing required|contains unknown) field `(?P<name>.*)`", re.DOTALL)
_RANGES = (
    (re.compile(r" of length >= (\S+)"), r" of length \1 or more"),
    (re.compile(r" of length <= (\S+)"), r" of length \1 or less"),
    (re.compile(r" >= (\S+)"), r", \1 or above"),
    (re.compile(r" <= (\S+)"), r", at most \1"),
    (re.compile(r" > (\S+)"), r" above \1"),
    (re.compile(r" < (\S+)"), r" below \1"),
)
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
# In JSON each looks like a text that another value has too: two requests would be one.
_REFUSED = (bytes, bytearray, memoryview, Decimal, UUID, date, time, timedelta)
_HARMLESS = frozenset((str, int, bool, type(None)))
_NESTED = frozenset((list, tuple))


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A frozen record whose own check leaves no number that JSON does not have, so that it is written without another check.

    Needs: every float is checked in ``__post_init__``.
    """


def _write_other(value: object) -> object:
    """Return what stands in JSON for a value that it has no word for."""
    if isinstance(value, Fraction):
        return str(value)
    for kind in (str, int, float):
        if isinstance(value, kind):  # a subclass, such as NumPy's floats
            return kind(value)
    raise TypeError


_ENCODER = msgspec.json.Encoder(order="deterministic", enc_hook=_write_other)


def encode(value: object) -> str:
    """Return a value as JSON in one way only, fit to be hashed.

    Failure: RequestError for what JSON cannot hold: NaN and infinities, bytes, dates, objects of other libraries.
    """
    try:
        if _is_writable(value) or _is_writable(plain(value)):
            return _ENCODER.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        pass
    message = "this cannot be written as JSON: use text, finite numbers, True, False, None, and lists and mappings of them"
    raise RequestError(message)


def digest_of(value: object) -> str:
    """Return the SHA-256 of a value's JSON, in hexadecimal."""
    return hashlib.sha256(encode(value).encode()).hexdigest()


def plain(value: object) -> Any:  # noqa: ANN401 - mappings, lists, texts, numbers, True, False and None
    """Return a value as what JSON reads as: mappings, lists, texts and numbers, to be added to or shown."""
    return msgspec.to_builtins(value, builtin_types=_REFUSED, enc_hook=_write_other)


def _is_writable(value: object) -> bool:
    """Return whether the encoder writes a value as it is: not so NaN and infinities, for which it would write null."""
    kind = type(value)
    if kind in _HARMLESS:
        return True
    if kind is float:
        return math.isfinite(value)  # type: ignore[arg-type]  # it is one
    if kind is dict:
        inner: Any = value.values()  # type: ignore[attr-defined]  # it is one
    elif kind is list or kind is tuple:
        inner = value
    else:
        return isinstance(value, Record)
    kinds = set(map(type, inner))
    if kinds <= _NESTED and kinds:  # a table of texts and whole numbers, the usual long one
        return _HARMLESS.issuperset(map(type, chain.from_iterable(inner))) or all(map(_is_writable, inner))
    return kinds <= _HARMLESS or all(map(_is_writable, inner))


@overload
def decode(text: str | bytes, kind: type[Kind]) -> Kind: ...
@overload
def decode(text: str | bytes, kind: Any) -> Any: ...  # noqa: ANN401 - a union of kinds
def decode(text: str | bytes, kind: Any) -> Any:
    """Return the value of a kind, or of one of a union of kinds, that :func:`encode` wrote.

    Every number passes its record's own checks again. Failure: InvalidParameter that names the field, in one line;
    RequestError where the text is no JSON at all.
    """
    if not isinstance(text, (str, bytes)):
        raise InvalidParameter("text", type(text).__name__, "JSON as text")
    try:
        return _make_decoder(kind).decode(text)
    except msgspec.ValidationError as error:
        mistake = _error_of(error, kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        message = "this is not JSON"
        raise RequestError(message) from None
    raise mistake


@overload
def convert(document: object, kind: type[Kind]) -> Kind: ...
@overload
def convert(document: object, kind: Any) -> Any: ...  # noqa: ANN401 - a union of kinds
def convert(document: object, kind: Any) -> Any:
    """Return the value of a kind out of what JSON reads as; fails as :func:`decode` does."""
    try:
        return msgspec.convert(document, kind, dec_hook=_read_other)
    except msgspec.ValidationError as error:
        mistake = _error_of(error, kind)
    except RecursionError:
        message = "this is nested too deeply"
        raise RequestError(message) from None
    except UnicodeError:
        message = "this holds half of a surrogate pair, which is no text"
        raise RequestError(message) from None
    raise mistake


@cache
def _make_decoder(kind: Any) -> msgspec.json.Decoder[Any]:  # noqa: ANN401 - a kind, or a union of kinds
    return msgspec.json.Decoder(kind, dec_hook=_read_other)


def _read_other(kind: type, value: object) -> object:
    if kind is Fraction and isinstance(value, str):
        return _read_rational(value)
    raise InvalidParameter.without_value("number", _RATIONAL_WORDS)


@lru_cache(1024)
def _read_rational(text: str) -> Fraction:
    if not _RATIONAL.fullmatch(text):
        raise InvalidParameter.without_value("number", _RATIONAL_WORDS)
    return Fraction(text)


def _error_of(mistake: msgspec.ValidationError, kind: Any) -> HoldtrueError:  # noqa: ANN401 - a kind, or a union of kinds
    """Return msgspec's error as one of the tree: that of the record's own check, or the field and what it must be."""
    if isinstance(mistake.__cause__, HoldtrueError):
        return mistake.__cause__
    found = _MISTAKE.fullmatch(str(mistake))
    said, path, key = (found["said"], found["path"] or "", found["key"]) if found else ("", "", None)
    name = path.replace("[...]", "") or "document"
    if field := _FIELD.fullmatch(said):
        words = "given" if field["wrong"] == "missing required" else "left out: there is no such field"
        inner = field["name"] if field["name"].isprintable() else ascii(field["name"])
        return InvalidParameter.without_value(f"{path}.{inner}"[-_LONGEST_NAME:] if path else inner[:_LONGEST_NAME], words)
    if expected := _EXPECTED.fullmatch(said):
        words = _in_words(expected["kinds"]) + _range_in_words(expected["range"])
        got = f", not {_in_words(expected['got'])}" if expected["got"] else ""
        return InvalidParameter.without_value(f"a key of {name}" if key else name, words + got)
    if "value" not in said:
        return InvalidParameter.without_value(name, "a number that fits")
    values = _list_values(inspect.type_info(kind), _FIELD_NAMES.findall(path.replace("[...]", "")))
    known = " or ".join([", ".join(values[:-1]), values[-1]] if len(values) > 1 else values)
    return InvalidParameter.without_value(name, known or "one of the known values")


def _list_values(kind: Any, path: Sequence[str]) -> list[str]:  # noqa: ANN401 - what msgspec knows of a type
    """Return the texts that a field may have, by the names that lead to it; none where it is no list of texts."""
    match kind:
        case inspect.UnionType(types=kinds):
            return list(dict.fromkeys(value for each in kinds for value in _list_values(each, path)))
        case inspect.Metadata(type=inner) | inspect.ListType(item_type=inner) | inspect.DictType(value_type=inner):
            return _list_values(inner, path)
        case inspect.StructType() if path:
            tag = [repr(kind.tag)] if path == [kind.tag_field] else []
            fields = [each.type for each in kind.fields if each.encode_name == path[0]]
            return tag + [value for each in fields for value in _list_values(each, path[1:])]
        case inspect.LiteralType(values=values) if not path:
            return [repr(value) for value in values]
        case _:
            return []


def _in_words(kinds: str) -> str:
    return " or ".join(_WORDS.get(kind, kind) for kind in kinds.split(" | "))


def _range_in_words(text: str) -> str:
    for pattern, words in _RANGES:
        text, changed = pattern.subn(words, text)
        if changed:
            return text
    return text.replace("matching regex", "that matches")
