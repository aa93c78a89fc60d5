"""Bodies of requests: JSON read strictly before anything else sees it, and how OpenAPI 3.1 describes them at /openapi.json.

Python's own reader takes NaN, Infinity, 1e400, keys that come twice and halves of surrogate pairs; here each is refused, so
that nothing behind this door meets a value that JSON does not have.
"""

import json
import math
import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, NoReturn, TypeVar, get_args

import msgspec
from fastapi import Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from holdtrue.codec import convert, encode, plain
from holdtrue.errors import InvalidParameter
from holdtrue.requests import Request as AnyRequest
from holdtrue.service.http.problems import Refused
from holdtrue.service.identity import caller_of

__all__ = [
    "body_of",
    "check_media",
    "decode_body",
    "describe_application",
    "describe_body",
    "describe_reply",
    "fields_of",
    "make_reply",
    "parse_json",
    "read_body",
]

Kind = TypeVar("Kind", bound=Struct)

_DEEPEST = 32
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_BRACKETS = (b"[", b"{")
_LONGEST_NUMBER = 400
_WORDS = """Ask a dataset as many questions as its plan holds, each chosen after the last. Rows keep their secrets, and
answers hold for the population. Everything that spends budget needs an `Idempotency-Key`: the same request under the same
key is charged once and answered with the same bytes. Refusals are problem documents (RFC 9457) and repeat nothing of it."""
_SCHEME = {"type": "http", "scheme": "bearer", "description": "A key of this service, or a token of its issuer."}
# Spaces at the ends of a header are not sent.
_KEY_SCHEMA = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]([ -~]{0,126}[!-~])?$"}


def _refuse_body(detail: str) -> NoReturn:
    raise Refused(400, "unreadable body", f"the body is not JSON as RFC 8259 and I-JSON have it: {detail}")


def _read_whole(text: str) -> int:
    number = int(text) if len(text) <= _LONGEST_NUMBER else _refuse_body("a number has too many digits")
    return number if _SMALLEST <= number <= _LARGEST else _refuse_body("a whole number does not fit into 64 bits")


def _read_real(text: str) -> float:
    number = float(text) if len(text) <= _LONGEST_NUMBER else _refuse_body("a number has too many digits")
    return number if math.isfinite(number) else _refuse_body("a number is too large")


def _refuse_constant(_: str) -> NoReturn:
    _refuse_body("NaN and Infinity are no numbers")


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        _refuse_body("a name comes twice in one object")
    return found


_DECODER = json.JSONDecoder(
    parse_int=_read_whole, parse_float=_read_real, parse_constant=_refuse_constant, object_pairs_hook=_read_object
)


def parse_json(content: bytes) -> Any:  # noqa: ANN401 - any JSON
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
            _check_document(document)
        return document
    _refuse_body(reason)


def _check_document(document: object) -> None:
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
    _refuse_body("it is nested too deeply")


def _check_text(text: str) -> None:
    if "\0" in text:
        _refuse_body("a text holds the character NUL")
    if not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):
        _refuse_body("a text holds half of a surrogate pair")


async def read_body(request: Request) -> Any:  # noqa: ANN401 - any JSON
    """Return the JSON body of a request: 415 for another type, 413 above the limit, 400 for what cannot be read."""
    check_media(request.headers.get("content-type", ""))
    return parse_json(await request.body())


def check_media(media: str) -> None:
    """Refuse a body of another type than JSON in UTF-8."""
    kind, _, parameters = media.partition(";")
    charset = parameters.strip().lower().replace('"', "")
    if kind.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
        raise Refused(415, "unsupported media type", "send the body as Content-Type: application/json, in UTF-8")


def decode_body(document: object, kind: type[Kind]) -> Kind:
    """Return a body as the request record that it must be.

    Failure: InvalidParameter with the field's name in one line. Nothing of the body is repeated: a field that the record
    does not declare is not named, but the declared one that is nearest.
    """
    try:
        return convert(document, kind)
    except InvalidParameter as error:
        found = error
    name, expected = found.parameter, found.expected.replace("'", "")  # quoted, a pattern would be masked as a value
    if expected.startswith("left out"):
        outer = re.split(r"[.\[]", name)[0]
        near = get_close_matches(outer, kind.__struct_fields__, n=1) if outer == name else []
        hint = f"; did you mean {near[0]}?" if near else ""
        name = outer if outer in kind.__struct_fields__ and outer != name else "document"
        expected = f"without fields that /openapi.json does not describe{hint}"
    raise InvalidParameter.without_value("the body" if name == "document" else name, expected)


def body_of(kind: type[Kind]) -> Any:  # noqa: ANN401 - FastAPI's own marker
    """Return the dependency that gives a route its body as a record.

    Guarantee: nothing of a body is read or checked for somebody without a valid key.
    """

    async def decode(request: Request) -> Kind:
        await caller_of(request)
        return decode_body(await read_body(request), kind)

    return Depends(decode)


def fields_of(body: Struct) -> dict[str, Any]:
    """Return what a record holds as plain JSON, without what is null."""
    given: dict[str, Any] = plain(body)
    given.pop(body.__struct_config__.tag_field or "", None)  # the address names the verb
    return {name: value for name, value in given.items() if value is not None}


def describe_application(app: FastAPI) -> None:
    """Give an application its description, made once when it is first asked for."""

    def made() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title=app.title, version=app.version, description=_WORDS, routes=app.routes)
            document.setdefault("components", {}).setdefault("securitySchemes", {}).setdefault("key", _SCHEME)
            document["components"].setdefault("schemas", {}).update(_describe_documents())
            _require_keys(document)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = made  # type: ignore[method-assign]  # FastAPI's own way to extend its description


def _require_keys(document: dict[str, Any]) -> None:
    """Say that a key is required wherever one is taken, except for inference, where the request's id does as well.

    The code takes their absence itself, to refuse it in the service's own words.
    """
    operations = [
        operation for path, item in document["paths"].items() if path.startswith("/v1/") for operation in item.values()
    ]
    for parameter in [each for operation in operations for each in operation.get("parameters", ())]:
        if parameter["name"].lower() == "idempotency-key":
            parameter["required"] = True
            parameter["schema"] = _KEY_SCHEMA


def describe_body(kind: type[Struct], *, only: Collection[str] | None = None) -> dict[str, Any]:
    """Return how the document of the API describes a body: ``openapi_extra=describe_body(Select)``.

    ``only`` are the fields that the route takes, where it does not take all of them; a single one is needed.
    """
    _, found = _make_schemas([kind])
    schema = found[kind.__name__]
    taken = [name for name in kind.__struct_fields__ if only is None or name in only]
    schema["properties"] = {name: schema["properties"][name] for name in taken}
    schema["required"] = list(only) if only and len(only) == 1 else [name for name in schema["required"] if name in taken]
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _describe_documents() -> dict[str, Any]:
    """Return the schemas of what request records are made of, such as classes of hypotheses, by name."""
    kinds = get_args(AnyRequest)
    _, found = _make_schemas(kinds)
    return {name: schema for name, schema in found.items() if name not in {kind.__name__ for kind in kinds}}


def describe_reply(text: str, media: str = "application/json", *, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """Return how the document of the API describes a reply."""
    schema = {"type": "object"} if media == "application/json" else {"type": "string"}
    return {status: {"description": text, "content": {media: {"schema": schema}}}}


def make_reply(document: object, *, status: int = 200) -> Response:
    """Return a document as a reply."""
    return Response(encode(document), status, media_type="application/json")


def _make_schemas(kinds: Iterable[type[Struct]]) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    return msgspec.json.schema_components(kinds, schema_hook=_schema_of, ref_template="#/components/schemas/{name}")


def _schema_of(kind: type) -> dict[str, Any]:
    if kind is not Fraction:
        raise NotImplementedError
    return {"type": "string", "pattern": "^-?[0-9]+(/[1-9][0-9]*)?$"}
