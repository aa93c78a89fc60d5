"""What the small plans share: they are frozen records of plain numbers that read back from JSON as they were written."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, ClassVar, Self, get_args

from holdtrue.errors import InvalidParameter

__all__ = ["Document", "read_object", "smallest_enough", "table"]

_DOUBLINGS = 1000


class Document:
    """A frozen dataclass of plain values that has a name in JSON."""

    __slots__ = ()
    kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON; floats keep every digit."""
        return {"plan": self.kind} | {name: getattr(self, name) for name in self._types()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the plan that :meth:`to_json` wrote."""
        document = read_object("plan", document)
        if document.get("plan") != cls.kind:
            raise InvalidParameter("plan", document.get("plan"), repr(cls.kind))
        types = cls._types()
        if set(document) - {"plan"} != set(types):
            raise InvalidParameter("plan", list(document), f"the fields {sorted(types)}")
        return cls(**{name: _read(name, document[name], allowed) for name, allowed in types.items()})

    @classmethod
    def _types(cls) -> dict[str, tuple[type, ...]]:
        return {
            field.name: get_args(field.type) if isinstance(field.type, UnionType) else (field.type,)
            for field in fields(cls)  # type: ignore[arg-type]  # every subclass is a dataclass
        }


def read_object(name: str, document: object) -> dict[str, Any]:
    """Return an object of JSON, given as a mapping or as its text."""
    try:
        read: object = json.loads(document) if isinstance(document, str) else document
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, Mapping):
        raise InvalidParameter(name, document, "an object, or the text of one in JSON")
    return dict(read)


def _read(name: str, value: object, allowed: tuple[type, ...]) -> object:
    if type(value) in allowed:
        return value
    if type(value) is int and float in allowed:  # JSON does not tell 1 from 1.0
        return float(value)
    words = " or ".join("null" if kind is NoneType else kind.__name__ for kind in allowed)
    raise InvalidParameter(name, value, f"of type {words}")


def table(title: str, lines: Mapping[str, str]) -> str:
    """Return a title over a column of names and a column of values."""
    width = max(len(name) for name in lines)
    return "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in lines.items())])


def smallest_enough(enough: Callable[[float], bool], *, start: float) -> float:
    """Return the smallest float, to the last few digits, from which on a growing parameter is enough; never below it.

    ``start`` must be enough. Halving finds the scale, bisection the digits; the answer itself was found to be enough.
    """
    high = start
    low = high / 2
    for _ in range(_DOUBLINGS):
        if not enough(low):
            break
        low, high = low / 2, low
    while True:
        middle = (low + high) / 2
        if not low < middle < high or high - low <= high * 2.0**-48:
            return high
        low, high = (low, middle) if enough(middle) else (middle, high)
