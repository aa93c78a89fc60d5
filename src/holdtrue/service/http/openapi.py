"""The API's own description: OpenAPI 3.1 at /openapi.json."""

from collections.abc import Collection, Iterable
from fractions import Fraction
from typing import Any, get_args

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from msgspec import Struct

from holdtrue.requests import Request as AnyRequest

__all__ = ["describe_application", "describe_body"]

_WORDS = """Ask a dataset as many questions as its plan holds, each chosen after the last. Rows keep their secrets, and
answers hold for the population. Everything that spends budget needs an `Idempotency-Key`: the same request under the same
key is charged once and answered with the same bytes. Refusals are problem documents (RFC 9457) and repeat nothing of it."""
_SCHEME = {"type": "http", "scheme": "bearer", "description": "A key of this service, or a token of its issuer."}


# Spaces at the ends of a header are not sent.
_KEY_SCHEMA = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]([ -~]{0,126}[!-~])?$"}


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
    """Say that keys are needed wherever one is taken, but for inference, where a request's id does as well.

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


def _make_schemas(kinds: Iterable[type[Struct]]) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    return msgspec.json.schema_components(kinds, schema_hook=_schema_of, ref_template="#/components/schemas/{name}")


def _schema_of(kind: type) -> dict[str, Any]:
    if kind is not Fraction:
        raise NotImplementedError
    return {"type": "string", "pattern": "^-?[0-9]+(/[1-9][0-9]*)?$"}
