"""Pages that touch no data: the planner, and the API's description.

Of rows, questions and width two are given to the planner, and the third is solved for. The description has no script and no
style of another origin.
"""

import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response

from holdtrue.errors import HoldtrueError
from holdtrue.planning.asking import Intractable, plan
from holdtrue.planning.plans import Plan
from holdtrue.service.http.problems import detail_of
from holdtrue.service.page.access import PageRoute, Visitor, number_of
from holdtrue.service.page.rendering import asked_by_htmx, show_page

__all__ = ["router"]

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_FOUND = ("rows", "alpha", "queries")
_DELTA = 1e-6
_METHODS = ("get", "post", "put", "delete", "patch")
_ENDS = {"rows": (100, 1e8, 40_000), "queries": (1, 1e6, 1000), "alpha": (0.005, 0.5, 0.1), "beta": (1e-6, 0.5, 0.05)}
_EPSILON = (0.01, 20.0)
_WORDS = {
    "joint-gaussian": "Holdtrue",
    "joint-gaussian-zcdp": "Holdtrue, zCDP ledger",
    "transfer-gaussian": "Holdtrue, beta split",
    "transfer-gaussian-zcdp": "Holdtrue, beta split, zCDP ledger",
    "transfer-laplace": "Holdtrue, Laplace noise",
    "nonadaptive": "No adaptivity allowed",
    "splitting": "Fresh rows for each question",
    "rounding": "Rounded answers",
    "jung20": "Jung et al. 2020",
    "rrstww20": "Rogers et al. 2020",
    "rrstww20-sharp": "Rogers et al. 2020, sharpened",
    "bassily16": "Bassily et al. 2016",
    "lecture19": "Textbook lecture",
}


@router.get("/planner")
async def show_planner(request: Request, _: Visitor) -> Response:
    """Show what a plan needs; the address holds the numbers, so that it can be kept and sent."""
    given, wrong = _read_numbers(request.query_params)
    context = {"given": given, "ends": _ENDS, "found": given["find"]}
    if wrong is None:
        made, wrong = await to_thread.run_sync(_make_plan, given)
        context |= made
    context |= {"wrong": wrong}
    return show_page(request, "parts/plan.html" if asked_by_htmx(request) else "planner.html", context)


def _read_numbers(told: Mapping[str, str]) -> tuple[dict[str, Any], str | None]:
    find = told.get("find", "rows")
    given: dict[str, Any] = {"find": find if find in _FOUND else "rows", "epsilon": ""}
    given |= {name: default for name, (_, _, default) in _ENDS.items()}
    try:
        for name, (low, high, default) in _ENDS.items():
            given[name] = number_of(told, name, low=low, high=high, default=default)
        if told.get("epsilon", "").strip():
            given["epsilon"] = number_of(told, "epsilon", low=_EPSILON[0], high=_EPSILON[1], default=1.0)
    except HoldtrueError as error:
        return given, detail_of(error)
    given["rows"], given["queries"] = round(given["rows"]), round(given["queries"])
    return given, None


def _make_plan(given: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    numbers = {name: given[name] for name in _FOUND if name != given["find"]} | {"beta": given["beta"]}
    if given["epsilon"] != "":
        numbers |= {"epsilon": given["epsilon"], "delta": _DELTA}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Intractable)  # the page says so by what it finds
            found = plan(**numbers)
        lines = _list_methods(found)
    except HoldtrueError as error:
        return {}, detail_of(error)
    return {"plan": found, "methods": lines, "sure": f"{100 * (1 - found.beta):.4g}\u00a0%"}, None


def _list_methods(found: Plan) -> list[dict[str, Any]]:
    """Return the methods that speak, fewest rows first, as the plot reads them."""
    return [
        {
            "method": line.method,
            "label": f"{_WORDS.get(line.method, line.method)} {line.note}".rstrip(),
            "rows": line.rows,
            "needed": f"{line.rows:,}",
            "alpha": None if line.alpha is None else round(line.alpha, 4),
            "note": line.theorem,
            "chosen": line.method == found.method,
        }
        for line in found.compare()
        if line.rows is not None
    ]


@router.get("/docs")
async def show_documents(request: Request) -> Response:
    """Show every route of the API with its fields. Public, as /openapi.json is."""
    return show_page(request, "docs.html", {"groups": _list_routes(request.app)})


@lru_cache(1)
def _list_routes(app: FastAPI) -> list[dict[str, Any]]:
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
