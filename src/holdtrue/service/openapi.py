"""The API's own description: OpenAPI 3.1 at /openapi.json."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from holdtrue.service.bodies import describe_documents

__all__ = ["describe"]

_WORDS = """Ask a dataset as many questions as its plan holds, each chosen after the last. Rows keep their secrets, and
answers hold for the population. Everything that spends budget needs an `Idempotency-Key`: the same request under the same
key is charged once and answered with the same bytes. Refusals are problem documents (RFC 9457) and repeat nothing of it."""
_SCHEME = {"type": "http", "scheme": "bearer", "description": "A key of this service, or a token of its issuer."}


# Spaces at the ends of a header are not sent.
_KEY_SCHEMA = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]([ -~]{0,126}[!-~])?$"}


def describe(app: FastAPI) -> None:
    """Give an application its description, made once when it is first asked for."""

    def made() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title=app.title, version=app.version, description=_WORDS, routes=app.routes)
            document.setdefault("components", {}).setdefault("securitySchemes", {}).setdefault("key", _SCHEME)
            document["components"].setdefault("schemas", {}).update(describe_documents())
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
