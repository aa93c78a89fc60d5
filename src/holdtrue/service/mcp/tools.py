"""Tools for agents: one for each verb of the API, its input the fields of the verb's request record.

A tool's name, sentence and schema come from the description of the API, and a call goes to the verb's own route, as if it
had come over HTTP: there is one reader, one check of roles, one once-only rule and one text for each refusal.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec
from fastapi import FastAPI

from holdtrue.codec import encode
from holdtrue.errors import HoldtrueError, InvalidParameter
from holdtrue.service.http.bodies import describe_application
from holdtrue.service.http.problems import add_handlers, internal_problem, to_problem

if TYPE_CHECKING:
    from starlette.types import Message, Scope

    from holdtrue.service import Service

__all__ = ["LEFT_OUT", "Outcome", "Tools", "VerbTool"]

LEFT_OUT = {
    "report": "a page for people",
    "ledger": "a file for auditors",
    "train": "for the owner, over HTTP or in Python",
    "grant": "for the owner, over HTTP or in Python",
    "certify": "for the owner, since it closes a gate for good",
}
"""Verbs of datasets and holdouts that are no tools, each with its reason."""

_LISTS = {"/v1/datasets": "datasets", "/v1/holdouts": "holdouts"}
_CARDS = {"/v1/datasets/{name}": "columns", "/v1/holdouts/{name}": "holdout"}
_PLANS = "/v1/plan"
_VERB = re.compile(r"/v1/(?P<family>dataset|holdout)s/\{name\}/(?P<verb>[a-z-]+)")
_SCHEMAS = "#/components/schemas/"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_KEY_WORDS = "1 to 128 printable ASCII characters, different for each new request"
_LONGEST_KEY = 128
_REFUSED = 400
_FAILED = 500


@dataclass(frozen=True, slots=True, eq=False)
class VerbTool:
    """One verb as a tool. ``place`` is whose name its input has, "dataset" or "holdout"; ``keyed`` says if it can spend."""

    name: str
    description: str
    schema: dict[str, Any]
    method: str
    path: str
    place: str | None
    query: frozenset[str]
    keyed: bool


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a call came to: JSON with the response or the problem, its cost and what is left."""

    document: dict[str, Any]
    refused: bool


class Tools:
    """The tools over one service.

    Guarantee: names, sentences and schemas depend on this program alone, never on what is registered. A call is checked,
    charged and answered as the same request over HTTP is; whatever is wrong with it is an outcome, not an exception.

    ``only`` is the kind of the one ledger that is served, a dataset or a holdout of the name ``name``; its tools take none.
    """

    def __init__(self, service: "Service", *, only: str | None = None, name: str | None = None) -> None:
        from holdtrue.service.http import fast_path, routes

        self._app = FastAPI(title="Holdtrue", version="1", docs_url=None, redoc_url=None, redirect_slashes=False)
        self._app.state.service = service
        add_handlers(self._app)
        families = [import_module(f"{routes.__name__}.{found.name}") for found in iter_modules(routes.__path__)]
        for family in (fast_path, *families):
            self._app.include_router(family.router)
        describe_application(self._app)
        self._name = name
        self.by_name = {tool.name: tool for tool in _derive_tools(self._app.openapi(), only=only)}

    async def call(self, name: str, arguments: Mapping[str, Any], scope: "Scope") -> Outcome:
        """Call a tool for the caller that ``scope`` has; the entry that was charged, or the kind of problem, is noted there.

        Failure: KeyError for a name that no tool has.
        """
        tool = self.by_name[name]
        place: str | None = None
        try:
            place = self._find_place(tool, arguments)
            status, document = await self._send(*_write_request(tool, arguments, place), scope)
        except HoldtrueError as error:
            refusal = to_problem(error, request_id=scope.get("request_id"))
            status, document = refusal.status_code, msgspec.json.decode(refusal.body)
        refused = status >= _REFUSED
        # What failed, rather than was refused, may have been charged: its problem names the entry, where there is one.
        charge = {} if status >= _FAILED else {"cost": _find_cost(tool, document) if tool.keyed and not refused else 0}
        left = {} if place is None else await self._read_left(tool, place, scope)
        return Outcome(charge | left | {"problem" if refused else "result": document}, refused)

    def _find_place(self, tool: VerbTool, arguments: Mapping[str, Any]) -> str | None:
        """Return the name of the dataset or holdout that a call is for."""
        if tool.place is None:
            return None
        if self._name is not None:
            return self._name
        name = arguments.get(tool.place)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidParameter.without_value(tool.place, f"a name that the tool {tool.place}s lists")
        return name

    async def _read_left(self, tool: VerbTool, place: str, outer: "Scope") -> dict[str, Any]:
        """Return what is left: of the budget in its unit, or looks; nothing where that cannot be read now."""
        path = f"/v1/datasets/{place}/budget" if tool.place == "dataset" else f"/v1/holdouts/{place}"
        status, found = await self._send("GET", path, [], b"", {"caller": outer["caller"]})
        if status >= _REFUSED:
            return {}
        if tool.place == "dataset":
            return {"left": found["left"], "unit": found["unit"], "questions_left": found["asks"]}
        return {"left": found["looks_left"], "unit": "looks"}

    async def _send(
        self, method: str, path: str, headers: list[tuple[bytes, bytes]], content: bytes, outer: "Scope"
    ) -> tuple[int, Any]:
        """Send a request to its route, as the caller, and return the status and the JSON of the response."""
        place, _, query = path.partition("?")
        scope: dict[str, Any] = {"type": "http", "http_version": "1.1", "scheme": "http", "root_path": "", "method": method}
        scope |= {"path": place, "raw_path": place.encode(), "query_string": query.encode(), "headers": headers}
        scope |= {name: outer[name] for name in ("caller", "request_id") if name in outer}
        waiting: list[Message] = [{"type": "http.disconnect"}, {"type": "http.request", "body": content}]
        sent: list[Message] = []

        async def receive() -> "Message":
            return waiting.pop() if len(waiting) > 1 else waiting[0]

        async def send(message: "Message") -> None:
            sent.append(message)

        try:
            await self._app(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - its text may quote a row, so it ends here
            failed = internal_problem(error, request_id=scope.get("request_id"))
            return failed.status_code, msgspec.json.decode(failed.body)
        outer.update({name: scope[name] for name in ("entry", "problem") if scope.get(name) is not None})
        return sent[0]["status"], msgspec.json.decode(b"".join(message.get("body", b"") for message in sent[1:]))


def _write_request(
    tool: VerbTool, arguments: Mapping[str, Any], place: str | None
) -> tuple[str, str, list[tuple[bytes, bytes]], bytes]:
    """Return method, address, headers and body of a call; InvalidParameter for fields that the tool does not have."""
    given = dict(arguments)
    fields = list(tool.schema["properties"])
    if not set(given) <= set(fields):
        known = f"; its fields are {', '.join(fields)}" if fields else ""
        raise InvalidParameter.without_value("arguments", f"without fields that the tool does not have{known}")
    given.pop(tool.place or "", None)
    headers = [(b"content-type", b"application/json")]
    if tool.keyed:
        key = given.pop("key", None)
        if not isinstance(key, str) or not (key.isascii() and key.isprintable() and 1 <= len(key) <= _LONGEST_KEY):
            raise InvalidParameter.without_value("key", _KEY_WORDS)
        headers.append((b"idempotency-key", key.encode("ascii")))
    query = {name: given.pop(name) for name in tool.query & set(given)}
    address = tool.path.replace("{name}", place or "")
    written = urlencode({name: encode(value) for name, value in query.items() if value is not None})
    content = b"" if tool.method == "GET" else encode(given).encode()
    return tool.method, f"{address}?{written}" if written else address, headers, content


def _find_cost(tool: VerbTool, document: dict[str, Any]) -> float:
    """Return what a response was charged, in the unit of the budget, or looks; a repeat costs nothing, nor a free no."""
    if tool.place == "holdout":
        return 0 if document.get("repeated") or document.get("free") else 1
    if "run_cost" in document and not document.get("repeated"):
        return float(document["run_cost"])
    if "cost" in document:
        return float(document["cost"])
    several = next((value for value in document.values() if isinstance(value, list)), [])
    responses = [
        each for each in (document, *several) if isinstance(each, dict) and isinstance(each.get("certificate"), dict)
    ]
    charged = [each["certificate"] for each in responses if not each.get("repeated")]
    return float(sum({each["entry"]: each["cost"] for each in charged}.values()))  # what is charged together is one entry


def _derive_tools(document: Mapping[str, Any], *, only: str | None) -> list[VerbTool]:
    """Return the tools that the description of an API gives; with ``only`` those of one dataset, or of one holdout."""
    found: dict[str, VerbTool] = {}
    paths = document["paths"]  # those of datasets first: where both have a verb, it is theirs by its plain name
    for path, methods in sorted(paths.items(), key=lambda each: each[0].startswith("/v1/holdouts/")):
        for method, operation in methods.items():
            name, place = _name_tool(method, path)
            if name is None or (only is not None and (place not in (None, only) or path in _LISTS)):
                continue
            name = name if name not in found else f"{place}_{name}"
            route: dict[str, Any] = {"name": name, "method": method, "path": path, "place": place}
            found[name] = _make_tool(operation, document, **route, named=only is None)
    return list(found.values())


def _name_tool(method: str, path: str) -> tuple[str | None, str | None]:
    """Return the name of a route's tool, and whose name it takes; no name where it is none."""
    if path.startswith(_PLANS):
        return (path.removeprefix("/v1/").replace("/", "_") if method == "post" else None), None
    if method == "get" and path in _LISTS:
        return _LISTS[path], None
    if method == "get" and path in _CARDS:
        return _CARDS[path], path.split("/")[2].removesuffix("s")
    verb = _VERB.fullmatch(path)
    if verb is None or verb["verb"] in LEFT_OUT:
        return None, None
    return verb["verb"].replace("-", "_"), verb["family"]


def _make_tool(  # noqa: PLR0913 - a route, and what it is called
    operation: Mapping[str, Any],
    document: Mapping[str, Any],
    *,
    name: str,
    method: str,
    path: str,
    place: str | None,
    named: bool,
) -> VerbTool:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    parameters = operation.get("parameters", ())
    query = {each["name"]: each for each in parameters if each["in"] == "query"}
    keyed = any(each["name"].lower() == "idempotency-key" for each in parameters)
    properties: dict[str, Any] = {}
    if place is not None and named:
        properties[place] = {"type": "string", "description": f"The {place}'s name, as the tool {place}s lists it."}
    if keyed:
        header = next(each for each in parameters if each["name"].lower() == "idempotency-key")
        properties["key"] = header["schema"] | {"description": header["description"]}
    required = [*properties, *body.get("required", ())]
    properties |= {each: given["schema"] | _pick_description(given) for each, given in query.items()}
    schema = {
        "type": "object",
        "properties": properties | body.get("properties", {}),
        "required": required,
        "additionalProperties": False,
    }
    described = operation.get("description") or operation["summary"]
    sentence = f"{described} {body.get('description', '')}" if path.startswith(_PLANS) else described
    return VerbTool(
        name, sentence, _with_definitions(schema, document), method.upper(), path, place, frozenset(query), keyed
    )


def _pick_description(parameter: Mapping[str, Any]) -> dict[str, str]:
    return {"description": parameter["description"]} if "description" in parameter else {}


def _with_definitions(schema: dict[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema that stands by itself: what it refers to in the API's description is in its own definitions."""
    known, needed = document["components"]["schemas"], {}
    waiting = [schema]
    while waiting:
        for name in re.findall(re.escape(_SCHEMAS) + r"(\w+)", json.dumps(waiting.pop())):
            if name not in needed:
                needed[name] = known[name]
                waiting.append(known[name])
    whole = schema | ({"$defs": needed} if needed else {})
    found: dict[str, Any] = json.loads(json.dumps(whole).replace(_SCHEMAS, "#/$defs/"))
    return found
