"""Bodies of requests: JSON read strictly before anything else sees it, and the forms that requests may have.

Python's own reader takes NaN, Infinity, 1e400, keys that come twice and halves of surrogate pairs; here each is refused, so
that nothing behind this door meets a value that JSON does not have.
"""

import json
import math
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Literal, NoReturn

from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from holdtrue.service.callers import caller_of
from holdtrue.service.problems import FIELD_NAMES, Refused

__all__ = [
    "AskBody",
    "DatasetBody",
    "EstimatorBody",
    "LearnBody",
    "PredictBody",
    "PreviewBody",
    "ReceiptBody",
    "SelectBody",
    "Strict",
    "StrictModel",
    "TrainBody",
    "VerifyBody",
    "check_media",
    "loads",
    "read",
]

_DEEPEST = 32
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_BRACKETS = (b"[", b"{")
_LONGEST_NUMBER = 400


def _refuse(detail: str) -> NoReturn:
    raise Refused(400, "unreadable body", f"the body is not JSON as RFC 8259 and I-JSON have it: {detail}")


def _whole(text: str) -> int:
    number = int(text) if len(text) <= _LONGEST_NUMBER else _refuse("a number has too many digits")
    return number if _SMALLEST <= number <= _LARGEST else _refuse("a whole number does not fit into 64 bits")


def _real(text: str) -> float:
    number = float(text) if len(text) <= _LONGEST_NUMBER else _refuse("a number has too many digits")
    return number if math.isfinite(number) else _refuse("a number is too large")


def _constant(_: str) -> NoReturn:
    _refuse("NaN and Infinity are no numbers")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        _refuse("a name comes twice in one object")
    return found


_DECODER = json.JSONDecoder(parse_int=_whole, parse_float=_real, parse_constant=_constant, object_pairs_hook=_object)


def loads(content: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Return what JSON text says. Raises 400 for whatever is not JSON in UTF-8, too deep, or no value of ours."""
    try:
        document = _DECODER.decode(content.decode("utf-8"))
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError:  # JSONDecodeError quotes the text in its attributes
        reason = "it cannot be parsed"
    else:
        deep = sum(map(content.count, _BRACKETS)) > _DEEPEST
        if deep or b"\\u" in content:
            _check(document)
        return document
    _refuse(reason)


def _check(document: object) -> None:
    """Refuse what is nested too deeply, and texts that no database or file could hold."""
    layer: list[object] = [document]
    for _ in range(_DEEPEST + 1):
        inner: list[object] = []
        for value in layer:
            if isinstance(value, dict):
                for name in value:
                    _check_text(name)
                inner.extend(value.values())
            elif isinstance(value, list):
                inner.extend(value)
            elif isinstance(value, str):
                _check_text(value)
        if not inner:
            return
        layer = inner
    _refuse("it is nested too deeply")


def _check_text(text: str) -> None:
    if "\0" in text:
        _refuse("a text holds the character NUL")
    if not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):
        _refuse("a text holds half of a surrogate pair")


async def read(request: Request) -> Any:  # noqa: ANN401 - any JSON
    """Return the JSON body of a request: 415 for another type, 413 above the limit, 400 for what cannot be read."""
    check_media(request.headers.get("content-type", ""))
    return loads(await request.body())


def check_media(media: str) -> None:
    """Refuse a body of another type than JSON in UTF-8."""
    kind, _, parameters = media.partition(";")
    charset = parameters.strip().lower().replace('"', "")
    if kind.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
        raise Refused(415, "unsupported media type", "send the body as Content-Type: application/json, in UTF-8")


class _Read(Request):
    """A request whose body was read and checked."""

    document: Any = None

    async def json(self) -> Any:  # noqa: ANN401 - any JSON
        """Return the document that was read."""
        return self.document


class Strict(APIRoute):
    """A route whose JSON body is read by :func:`read` before FastAPI looks at it: ``APIRouter(route_class=Strict)``.

    Guarantee: nothing of a body is read or checked for somebody without a valid key.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler behind the key and the strict reader, where the route has a body."""
        inner = super().get_route_handler()
        if self.body_field is None:
            return inner

        async def strict(request: Request) -> Response:
            await caller_of(request)
            document = await read(request)
            checked = _Read(request.scope, request.receive)
            checked.document = document
            checked._body = await request.body()  # noqa: SLF001 - starlette's own place for a body that was read
            return await inner(checked)

        return strict


class StrictModel(BaseModel):
    """A form: nothing but its fields, finite numbers, no conversions of one type into another."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True, hide_input_in_errors=True)

    def __init_subclass__(cls, **given: Any) -> None:  # noqa: ANN401 - pydantic's
        super().__init_subclass__(**given)
        FIELD_NAMES.update(cls.__annotations__)


Text = Annotated[str, Field(min_length=1, max_length=4096)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
Epsilon = Annotated[float | None, Field(gt=0, le=1000)]
Number = Annotated[float, Field(ge=-1e300, le=1e300)]
Label = bool | int | Number | Annotated[str, Field(max_length=1024)]
Cell = Label | None
Columns = Annotated[list[Text], Field(min_length=1, max_length=4096)]
Pair = Annotated[list[Number], Field(min_length=2, max_length=2)]
Bounds = Annotated[dict[Text, Pair], Field(max_length=4096)]
Labels = Annotated[list[Label], Field(min_length=1, max_length=4096)]


class AskBody(StrictModel):
    """One query, or several that are charged and measured together."""

    query: Text | None = None
    queries: Annotated[list[Text], Field(min_length=1, max_length=1000)] | None = None


class PreviewBody(StrictModel):
    """One query."""

    query: Text


class SelectBody(StrictModel):
    """Candidates: queries by name, or a list of queries."""

    candidates: (
        Annotated[dict[Text, Text], Field(min_length=1, max_length=10_000)]
        | Annotated[list[Text], Field(min_length=1, max_length=10_000)]
    )
    epsilon: Epsilon = None


class LearnBody(StrictModel):
    """A finite class as JSON, and the question to predict."""

    hypotheses: dict[str, Any] | Annotated[list[dict[str, Any]], Field(min_length=1, max_length=64)]
    target: Text
    features: Columns | None = None
    epsilon: Epsilon = None
    alpha: Annotated[float | None, Field(gt=0, lt=1)] = None
    beta: Annotated[float | None, Field(gt=0, lt=1)] = None
    weights: Annotated[list[Annotated[float, Field(gt=0, le=1)]], Field(min_length=2, max_length=64)] | None = None
    anyway: bool = False


class EstimatorBody(StrictModel):
    """A scikit-learn estimator by name, with parameters from a short public list."""

    kind: Literal[
        "logistic-regression",
        "decision-tree",
        "gaussian-naive-bayes",
        "linear-regression",
        "ridge",
        "decision-tree-regressor",
    ]
    parameters: Annotated[dict[str, bool | int | Number | str | None], Field(max_length=16)] = {}


class TrainBody(StrictModel):
    """A model to train on disjoint parts of the rows."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    estimator: EstimatorBody
    target: Text
    features: Columns | None = None
    parts: Annotated[int, Field(ge=1, le=100_000)] = 200
    labels: Labels | None = None
    bounds: Bounds | None = None


class PredictBody(StrictModel):
    """One row, or several, for a model."""

    model: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    row: Annotated[dict[Text, Cell], Field(min_length=1, max_length=4096)] | None = None
    rows: (
        Annotated[
            list[Annotated[dict[Text, Cell], Field(min_length=1, max_length=4096)]], Field(min_length=1, max_length=1000)
        ]
        | None
    ) = None
    epsilon: Epsilon = None


class ReceiptBody(StrictModel):
    """A receipt that was kept outside: the number of an entry, and its digest."""

    entry: Annotated[int, Field(ge=0, le=2**53)]
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class VerifyBody(StrictModel):
    """Receipts to hold the ledger against; none are needed."""

    receipts: Annotated[list[ReceiptBody], Field(max_length=1000)] = []


class DatasetBody(StrictModel):
    """Data to guard: where they are, what is public about them, and the plan. Everything here is fixed for good."""

    name: Name
    path: Annotated[str, Field(min_length=1, max_length=4096)]
    description: Annotated[str, Field(max_length=4096)] = ""
    unit: Literal["row"] = "row"
    queries: Annotated[int | None, Field(ge=1, le=10**12)] = None
    alpha: Annotated[float | None, Field(gt=0, lt=1)] = None
    beta: Annotated[float, Field(gt=0, lt=1)] = 0.05
    epsilon: Epsilon = None
    delta: Annotated[float | None, Field(ge=0, lt=1)] = None
    reserve: Annotated[float, Field(ge=0, lt=1)] = 0.25
    uses: Annotated[int, Field(ge=1, le=10**9)] = 10
    cap: Literal["validity", "privacy"] | None = None
    iid: bool = False
    pure: bool = False
    second_budget: bool = False
    types: Annotated[dict[Text, Literal["boolean", "integer", "real", "text"]], Field(max_length=4096)] | None = None
    bounds: Bounds | None = None
    labels: Annotated[dict[Text, Labels], Field(max_length=4096)] | None = None
    header: bool | Annotated[list[Text], Field(min_length=1, max_length=4096)] | None = None
