"""Turn problem documents (RFC 9457) back into the errors they were made from."""

import re
from collections.abc import Mapping
from typing import Any

from holdtrue import errors
from holdtrue.errors import HoldtrueError, RefusedError, ReleaseError, RequestError, Unauthorized, UnknownName

__all__ = ["find_kind", "is_release", "make_error"]

_PREFIX = "urn:holdtrue:"
_NUMBERS: dict[str, type | tuple[type, ...]] = {
    "required": int,
    "requested": (int, float),
    "left": (int, float),
    "unit": str,
    "entry": int,
    "parameter": str,
}
_BLANK: dict[str, dict[str, Any]] = {
    "InvalidParameter": {"parameter": "", "value": None, "expected": ""},
    "InsufficientSamples": {"required": None},
    "BudgetExceeded": {"requested": 0.0, "left": 0.0, "unit": ""},
    "ReleaseError": {"entry": None},
    "MissingExtra": {"extra": ""},
}
_BY_STATUS: dict[int, type[HoldtrueError]] = {401: Unauthorized, 403: RefusedError, 404: UnknownName, 409: RefusedError}
_LONGEST = 2000
_REQUESTS, _RATE, _FAILURES = range(400, 500), 429, 500


def find_kind(document: object) -> str:
    """Return the kind of a problem, such as ``budget-exceeded``; or an empty text if it is not one of ours."""
    kind = document.get("type") if isinstance(document, Mapping) else None
    return kind.removeprefix(_PREFIX) if isinstance(kind, str) and kind.startswith(_PREFIX) else ""


def make_error(status: int, document: object) -> HoldtrueError:
    """Return the error of a refusal, with its fields: by its kind, or by the status alone if the kind is unknown.

    The value of a parameter, which the service does not repeat, is None.
    """
    told: Mapping[str, Any] = document if isinstance(document, Mapping) else {}
    words = told.get("detail")
    message = words[:_LONGEST] if isinstance(words, str) and words else f"the service refused with status {status}"
    name = "".join(part.capitalize() for part in re.split("-", find_kind(told)))
    kind = getattr(errors, name, None) if name in errors.__all__ else _find_by_status(status)
    made = _make_blank(kind or HoldtrueError, message)
    for field, allowed in _NUMBERS.items():
        value = told.get(field)
        if isinstance(value, allowed) and not isinstance(value, bool) and field in vars(made):
            setattr(made, field, value)
    return made


def _make_blank(kind: type[HoldtrueError], message: str) -> HoldtrueError:
    """Return an error with a ready message and empty fields."""
    made = kind.__new__(kind)
    Exception.__init__(made, message)
    for field, value in _BLANK.get(kind.__name__, {}).items():
        setattr(made, field, value)
    return made


def _find_by_status(status: int) -> type[HoldtrueError]:
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status == _RATE:
        return RefusedError
    return RequestError if status in _REQUESTS else HoldtrueError


def is_release(status: int, document: object) -> bool:
    """Return whether the curator failed after the charge; such a request is not sent again."""
    return status >= _FAILURES and make_error(status, document).__class__ is ReleaseError
