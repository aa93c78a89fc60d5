"""The API's description as a page of the service itself: no script and no style of another origin."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response

from holdtrue.service.page.access import PageRoute
from holdtrue.service.page.rendering import show_page

__all__ = ["list_routes", "router"]

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_METHODS = ("get", "post", "put", "delete", "patch")


@router.get("/docs")
async def show_documents(request: Request) -> Response:
    """Show every route of the API with its fields. Public, as /openapi.json is."""
    return show_page(request, "docs.html", {"groups": list_routes(request.app)})


@lru_cache(1)
def list_routes(app: FastAPI) -> list[dict[str, Any]]:
    """Return the routes of an application by group, from its own description."""
    document = app.openapi()
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            if method in _METHODS:
                route = _read_route(told, document) | {"path": path, "method": method.upper()}
                groups.setdefault(str((told.get("tags") or ["service"])[0]), []).append(route)
    return [{"name": name, "routes": routes} for name, routes in groups.items()]


def _read_route(told: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    brief, _, more = str(told.get("description") or told.get("summary") or "").partition("\n")
    given = [
        _make_field(each["name"], each["in"], each, required=each.get("required", False))
        for each in told.get("parameters", [])
    ]
    return {"brief": brief, "more": more.strip(), "fields": given + _read_body(told, document)}


def _read_body(told: Mapping[str, Any], document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of a route's body; none where it has no body, or one of another kind than JSON."""
    content = told.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = _resolve(content.get("schema", {}), document)
    required = schema.get("required", [])
    return [
        _make_field(name, "body", _resolve(field, document), required=name in required)
        for name, field in schema.get("properties", {}).items()
    ]


def _make_field(name: str, where: str, told: Mapping[str, Any], *, required: bool) -> dict[str, Any]:
    return {"name": name, "where": where, "required": required, "what": str(told.get("description", ""))}


def _resolve(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    place = str(schema.get("$ref", ""))
    if not place.startswith("#/"):
        return schema
    found: Any = document
    for step in place.removeprefix("#/").split("/"):
        found = found.get(step, {})
    return {**found, **{name: value for name, value in schema.items() if name != "$ref"}}
