"""Everything Holdtrue raises on purpose.

::

    HoldtrueError
    ├── RequestError (ValueError)   not understood or not possible; nothing spent     exit 2   HTTP 422
    │   ├── InvalidParameter        a value outside its range                                  HTTP 422
    │   ├── UnknownColumn           a column that the card does not have                       HTTP 422
    │   ├── UnsupportedQuery        a construct outside the query language                     HTTP 422
    │   ├── UnknownName             no dataset, ensemble, method or candidate of that name     HTTP 404
    │   ├── PreconditionError       a theorem's precondition fails                             HTTP 422
    │   ├── InsufficientSamples     too few rows for what was asked; carries .required         HTTP 422
    │   └── NotCertified            a public certificate is missing                            HTTP 422
    ├── RefusedError                understood; the answer is no; nothing spent       exit 3   HTTP 403
    │   ├── BudgetExceeded          carries .requested and .left                               HTTP 429
    │   ├── NotPrivate              an event without a guarantee reached a ledger              HTTP 403
    │   ├── CuratorClosed           the curator was closed                                     HTTP 409
    │   ├── FingerprintMismatch     the ledger belongs to other data                           HTTP 409
    │   ├── UsedKey                 the key names another request                              HTTP 409
    │   └── Unauthorized            no key, or a key without this right                        HTTP 401
    ├── ReleaseError                charged, then failed; the cost stays; .entry      exit 4   HTTP 502
    ├── IntegrityError              stored state contradicts itself; stop             exit 5   HTTP 500
    └── MissingExtra (ImportError)  a part that is installed separately               exit 6   HTTP 501

Each branch answers one question of a caller: *was budget spent?* A message never holds a number computed from
private rows: it speaks of the request and of public numbers only.
"""

from typing import ClassVar, Self

__all__ = [
    "BudgetExceeded",
    "CuratorClosed",
    "FingerprintMismatch",
    "HoldtrueError",
    "InsufficientSamples",
    "IntegrityError",
    "InvalidParameter",
    "MissingExtra",
    "NotCertified",
    "NotPrivate",
    "PreconditionError",
    "RefusedError",
    "ReleaseError",
    "RequestError",
    "Unauthorized",
    "UnknownColumn",
    "UnknownName",
    "UnsupportedQuery",
    "UsedKey",
]


# Not in the list above, which is the tree: messages may quote what people wrote.
def printable(text: object) -> str:
    """Return text that is safe to print: characters that cannot be seen are written as escapes."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in str(text))


class HoldtrueError(Exception):
    """The root of the tree."""

    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500


class RequestError(HoldtrueError, ValueError):
    """The request was not understood or is not possible. Nothing was spent."""

    exit_code = 2
    http_status = 422


class InvalidParameter(RequestError):
    """A parameter is outside its range; names the parameter, shows the value and says what would do."""

    is_sentence = False  # where it is True, ``expected`` is the whole message

    def __init__(self, parameter: str, value: object, expected: str) -> None:
        super().__init__(f"{parameter} must be {expected}; got {_format_value(value)}")
        self.parameter = parameter
        self.value = value
        self.expected = expected

    @classmethod
    def without_value(cls, parameter: str, expected: str) -> Self:
        """Return the error of a value that is not shown."""
        error = cls(parameter, None, expected)
        error.args = (f"{parameter} must be {expected}",)
        return error

    @classmethod
    def saying(cls, parameter: str, sentence: str) -> Self:
        """Return the error whose message is a sentence; text from the request stands in it in quotes, as ``repr`` writes."""
        error = cls(parameter, None, sentence)
        error.args, error.is_sentence = (sentence,), True
        return error


class UnknownName(RequestError):
    """Nothing is known by that name."""

    http_status = 404


class UnknownColumn(RequestError):
    """The card has no such column."""


class UnsupportedQuery(RequestError):
    """The query uses a construct outside the query language; the message names it."""


class PreconditionError(RequestError):
    """A theorem's precondition fails; says which one, and the nearest value that works."""


class InsufficientSamples(RequestError):
    """There are too few rows for what was asked. ``required`` is the number that would do, or None if no number does."""

    def __init__(self, message: str, *, required: int | None) -> None:
        super().__init__(message)
        self.required = required


class NotCertified(RequestError):
    """A public certificate (of sensitivity, of a Lipschitz or smoothness constant) is missing."""


class RefusedError(HoldtrueError):
    """The request was understood and the answer is no. Nothing was spent. ``parameter`` is what to change, if it is one."""

    parameter = ""
    exit_code = 3
    http_status = 403


class BudgetExceeded(RefusedError):
    """The cost does not fit into what is left of the budget."""

    http_status = 429

    def __init__(self, *, requested: float, left: float, unit: str) -> None:
        needed = unit.removesuffix("s") if requested == 1 else unit
        are = "are" if left == int(left) != 1 else "is"
        super().__init__(f"not enough budget: this needs {requested:.6g} {needed}, and {left:.6g} {are} left")
        self.requested = requested
        self.left = left
        self.unit = unit

    @classmethod
    def saying(cls, sentence: str, *, requested: float, left: float, unit: str) -> Self:
        """Return the refusal whose message is a sentence."""
        error = cls(requested=requested, left=left, unit=unit)
        error.args = (sentence,)
        return error


class NotPrivate(RefusedError):
    """An event that carries no guarantee reached a ledger that gives one."""


class CuratorClosed(RefusedError):
    """The curator was closed; open it again with the same ledger."""

    http_status = 409


class FingerprintMismatch(RefusedError):
    """The ledger belongs to other data than those it was opened with."""

    http_status = 409


class UsedKey(RefusedError):
    """The key of this request was used for another request; take a new one for a new request."""

    http_status = 409

    @classmethod
    def naming(cls, key: str) -> "UsedKey":
        """Return the refusal of a key that names another request."""
        return cls(f"the key {key!r} was used for another request; use a new one for a new request")


class Unauthorized(RefusedError):
    """There is no key, or the key does not give this right."""

    http_status = 401


class ReleaseError(HoldtrueError):
    """The request was charged and then failed; the cost stays. ``entry`` is the number of its entry, if there is one."""

    exit_code = 4
    http_status = 502

    def __init__(self, message: str, *, entry: int | None = None) -> None:
        super().__init__(message)
        self.entry = entry


class IntegrityError(HoldtrueError):
    """Stored state contradicts itself. Stop, and look at it before asking anything more."""

    exit_code = 5
    http_status = 500


class MissingExtra(HoldtrueError, ImportError):
    """A part of Holdtrue that is installed separately is needed."""

    exit_code = 6
    http_status = 501

    def __init__(self, extra: str, *, purpose: str) -> None:
        super().__init__(f"{purpose} needs an extra package: pip install 'holdtrue[{extra}]'")
        self.extra = extra


_LONGEST_SHOWN = 120


def _format_value(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a number of too many digits, or somebody else's object
        return f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}… ({type(value).__name__})"
