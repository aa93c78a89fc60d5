"""Write what the command and the service say of themselves into the pages; with --check, only say where a page is behind.

Between two marks a page belongs to this script, and the rest of it to its author::

    .venv/bin/python docs/generate.py
"""
# ruff: noqa: INP001 - a script beside the pages, no package

import ast
import difflib
import importlib
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

Document = Mapping[str, Any]

_PAGES = Path(__file__).parent
_MARKED = "<!-- generated: {} -->\n"
_END = "<!-- end of what is generated -->"
_FAMILIES = (
    "http.fast_path",
    *(f"http.routes.{name}" for name in ("verbs", "datasets", "plans", "holdouts", "keys")),
    "http.telemetry",
    "inference",
)
_TITLES = {
    "verbs": "Verbs of a dataset",
    "datasets": "Datasets",
    "plans": "Plans",
    "holdouts": "Holdouts and leaderboards",
    "inference": "Open Inference Protocol",
    "keys": "Keys",
    "health": "Health",
}
# Read and answered without FastAPI's dependencies, which would name its role.
_BY_HAND = {("post", "/v1/datasets/{name}/ask"): "analyst, owner"}
_LARGEST_SHOWN = 10**15
_UNKNOWN = ("internal", "service-unavailable")
_TERMINAL = {"COLUMNS": "92", "TERMINAL_WIDTH": "92", "TERM": "dumb", "NO_COLOR": "1"}


def help_texts() -> str:
    """Return the help of the command and of every subcommand, in the order of the command's own list."""
    from typer.main import get_command
    from typer.testing import CliRunner

    from holdtrue.command import application

    runner, told = CliRunner(), []
    for words in _commands(get_command(application), ()):
        shown = runner.invoke(application, [*words, "--help"], catch_exceptions=False).stdout
        plain = "\n".join(line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", shown).strip("\n").splitlines())
        told.append(f"### holdtrue {' '.join(words)}".rstrip() + f"\n\n```text\n{plain.rstrip()}\n```\n")
    return "\n".join(told)


def _commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:  # noqa: ANN401 - Click's own class
    yield words
    for name, each in getattr(command, "commands", {}).items():
        yield from _commands(each, (*words, name))


def routes() -> str:
    """Return every route of the API: who may call it, what it takes, what it gives."""
    from holdtrue.service import create
    from holdtrue.service.settings import Settings

    with tempfile.TemporaryDirectory() as folder:
        document = create(Settings(home=Path(folder) / "home")).openapi()
    told, roles = [], _roles()
    for tag, title in _TITLES.items():
        told.append(f"### {title}\n")
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if operation["tags"][0] == tag:
                    told.append(_route(method, path, operation, document, roles[method, path]))
    return "\n".join(told)


def _roles() -> dict[tuple[str, str], str]:
    """Return who may call a route, by what the route depends on."""
    from holdtrue.service import identity as callers

    named = {callers.require_owner: "owner", callers.require_auditor: "auditor, owner"}
    named |= {callers.require_analyst: "analyst, owner"}
    found: dict[tuple[str, str], str] = {}
    for family in _FAMILIES:
        for route in importlib.import_module(f"holdtrue.service.{family}").router.routes:
            calls = set(_calls(route.dependant))
            role = next((role for call, role in named.items() if call in calls), None)
            role = role or ("everybody with a key" if callers.require_key in calls else "everybody, without a key")
            found |= {(method.lower(), route.path): role for method in route.methods}
    return found | _BY_HAND


def _calls(dependant: Any) -> Iterator[Any]:  # noqa: ANN401 - FastAPI's own class
    yield dependant.call
    for each in dependant.dependencies:
        yield from _calls(each)


def _route(method: str, path: str, operation: Document, document: Document, role: str) -> str:
    words = " ".join((operation.get("description") or operation["summary"]).split())
    lines = [f"#### {method.upper()} {path}\n", f"{words}\n", f"*Who:* {role}."]
    parameters = operation.get("parameters", [])
    if any(each["name"] == "Idempotency-Key" for each in parameters):
        lines[-1] += " *Header:* `Idempotency-Key`."
    good = next((status, each) for status, each in operation["responses"].items() if status.startswith("2"))
    said = good[1]["description"]
    lines[-1] += f" *Gives:* {good[0]}" + ("." if said == "Successful Response" else f", {said[0].lower()}{said[1:]}")
    asked = [each for each in parameters if each["in"] == "query"]
    if asked:
        table = [(each["name"], each["schema"], bool(each.get("required"))) for each in asked]
        lines += ["", *_table("parameter", table, document)]
    for body in operation.get("requestBody", {}).get("content", {}).values():
        for number, schema in enumerate(_choices(body["schema"], document)):
            needed, fields = schema.get("required", []), schema.get("properties", {})
            record = _records().get(schema.get("title", ""))
            table = [(name, each, name in needed) for name, each in fields.items()]
            rows = _table("field", table, document) if record is None else _fields(record, only=fields, needed=needed)
            lines += [*(["", "or"] if number else []), "", *rows]
    return "\n".join(lines) + "\n"


def _records() -> dict[str, Any]:
    """Return the records that bodies are read into, by name."""
    from typing import get_args

    from holdtrue import requests
    from holdtrue.service.http.routes.keys import NewKey

    return {kind.__name__: kind for kind in (*get_args(requests.Request), NewKey)}


def _fields(record: Any, *, only: Collection[str] | None = None, needed: Collection[str] = ()) -> Iterator[str]:  # noqa: ANN401 - a kind of record
    """Yield a table of a record's fields in its own words, those that are needed first."""
    from holdtrue.requests import describe

    taken = [field for field in describe(record) if only is None or field.name in only]
    fields = sorted(taken, key=lambda field: not (field.required or field.name in needed))
    if not fields:
        yield "The body is an empty object, `{}`."
        return
    yield "| field | is | unless given | what it is |"
    yield "|---|---|---|---|"
    for field in fields:
        without = (
            "needed"
            if field.required or field.name in needed
            else ""
            if field.default in (None, "", (), {})
            else f"`{_json(field.default)}`"
        )
        limits = f"; {field.range}" if field.range and not field.range.startswith("matches") else ""
        kind = field.type.replace(" or null", "").replace("'", "`")
        yield f"| `{field.name}` | {kind}{limits} | {without} | {field.sentence} |"


def documents() -> str:
    """Return the documents that bodies hold: estimators, receipts and classes of hypotheses."""
    from typing import get_args

    from holdtrue import requests

    told = []
    for kind in (requests.EstimatorDocument, requests.ReceiptDocument):
        told += [f"### {kind.__name__.removesuffix('Document')}\n", f"{kind.__doc__}\n", *_fields(kind), ""]
    for kind in get_args(requests.ClassDocument):
        told += [f'### `"class": "{kind.__struct_config__.tag}"`\n', f"{kind.__doc__}\n", *_fields(kind), ""]
    return "\n".join(told)


def _choices(schema: Document, document: Document) -> list[Document]:
    found = _resolved(schema, document)
    return [_resolved(each, document) for each in found.get("oneOf", [found])]


def _resolved(schema: Document, document: Document) -> Document:
    reference = schema.get("$ref")
    return document["components"]["schemas"][reference.rsplit("/", 1)[1]] if reference else schema


def _table(head: str, entries: list[tuple[str, Document, bool]], document: Document) -> Iterator[str]:
    yield f"| {head} | is | unless given |"
    yield "|---|---|---|"
    for name, schema, needed in entries:
        default = schema.get("default")
        without = "needed" if needed else ("" if default is None else f"`{_json(default)}`")
        yield f"| `{name}` | {_kind(schema, document)} | {without} |"


def _json(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).replace("'", '"')


def _kind(schema: Document, document: Document) -> str:
    schema = _resolved(schema, document)
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        kinds = dict.fromkeys(_kind(each, document) for each in options if each.get("type") != "null")
        return "true, false, number or text" if {"true or false", "text"} <= set(kinds) else " or ".join(kinds)
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    match schema.get("type"):
        case "array":
            return f"list of ({_kind(schema['items'], document)})"
        case "object" if schema.get("properties"):
            fields = (f"`{name}` ({_kind(each, document)})" for name, each in schema["properties"].items())
            return f"object of {', '.join(fields)}"
        case "object":
            inner = schema.get("additionalProperties") or next(iter(schema.get("patternProperties", {}).values()), None)
            return f"object by name of ({_kind(inner, document)})" if isinstance(inner, Mapping) else "object"
        case "boolean":
            return "true or false"
        case "integer" | "number" as kind:
            return ("whole number" if kind == "integer" else "number") + _range(schema)
        case "string":
            return "text"
    return "anything"


def _range(schema: Document) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    limits = [(sign, schema[name]) for name, sign in signs.items() if name in schema]
    said = [
        f"{sign} {limit:g}" if abs(limit) < 1 else f"{sign} {int(limit):,}"
        for sign, limit in limits
        if abs(limit) < _LARGEST_SHOWN
    ]
    return f" {' and '.join(said)}" if said else ""


def problems() -> str:
    """Return every type of problem document: those of the error tree, and those that only HTTP knows."""
    from holdtrue import errors
    from holdtrue.service.http.problems import to_kebab

    lines = ["| type | status | means | was budget spent? |", "|---|---|---|---|"]
    for name in errors.__all__:
        kind = getattr(errors, name)
        meaning = " ".join(kind.__doc__.split("\n\n")[0].replace("``", "`").split())
        spent = "yes, and it stays spent" if issubclass(kind, errors.ReleaseError) else "no"
        if kind not in (errors.HoldtrueError, errors.MissingExtra):
            lines.append(f"| `urn:holdtrue:{to_kebab(name)}` | {kind.http_status} | {meaning} | {spent} |")
    lines.append(
        f"| `urn:holdtrue:missing-extra` | {errors.MissingExtra.http_status} | {errors.MissingExtra.__doc__} | no |"
    )
    known = "\n".join(lines)
    raised = {title: (status, said) for title, status, said in _raised() if f":{title}`" not in known}
    for title, (status, said) in sorted(raised.items()):
        spent = "perhaps: send it again under the same key" if title in _UNKNOWN else "no"
        lines.append(f"| `urn:holdtrue:{title}` | {status} | {said} | {spent} |")
    return "\n".join(lines) + "\n"


def _raised() -> Iterator[tuple[str, int, str]]:
    """Yield (type, status, what the status means) of every refusal that the service's own code writes down."""
    import holdtrue.service
    from holdtrue.service.http.problems import _PHRASES, _SAID, to_kebab

    for name, code in (("NotFound", 404), ("MethodNotAllowed", 405)):  # what the framework refuses by itself
        yield to_kebab(name), code, f"{_PHRASES[code].capitalize()}."
    room = Path(holdtrue.service.__path__[0])
    for path in sorted(room.rglob("*.py")):
        if "page" in path.relative_to(room).parts:
            continue
        module = importlib.import_module(".".join(("holdtrue.service", *path.relative_to(room).with_suffix("").parts)))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", "") in ("Refused", "make_problem")
                and len(node.args) > 1
            ):
                status, title, *detail = (_value(each, module) for each in node.args)
                if isinstance(status, int) and isinstance(title, str):
                    said = detail[0] if detail and isinstance(detail[0], str) else _SAID.get(status, title)
                    yield title.replace(" ", "-"), int(status), f"{said[0].upper()}{said[1:]}".rstrip(".") + "."


def _value(node: ast.expr, module: object) -> object:
    """Return a literal, or what a module calls by a name; None for all else."""
    return getattr(module, node.id, None) if isinstance(node, ast.Name) else getattr(node, "value", None)


def theorems() -> str:
    """Return a table of every theorem: its item, whose it is, its function, and one example with what it gives."""
    from holdtrue import plan
    from holdtrue.command.theorems import THEOREMS
    from holdtrue.mechanisms import Gaussian, Laplace

    known = {"Gaussian": Gaussian, "Laplace": Laplace, "plan": plan}
    lines = ["| item | name | lecture | example | gives |", "|---|---|---|---|---|"]
    for each in THEOREMS:
        home, _, name = each.function.rpartition(".")
        shown, gives = f"`{home}`<br>`{name}({each.example or each.signature})`", "in Python, with objects of its own"
        if each.example:
            value = eval(f"call({each.example})", known | {"call": each.call})  # noqa: S307 - written in our own table
            gives = f"`{_short(value)}`"
        lines.append(f"| {each.item} | `{each.name}` | {each.lecture} | {shown} | {gives} |")
    return "\n".join(lines) + "\n"


def _short(value: object) -> str:
    """Return a number with six digits, and the first words of whatever else there is."""
    if isinstance(value, float):
        return f"{value:.6g}"
    words = re.sub(r"\d+\.\d+(e-?\d+)?", lambda found: f"{float(found[0]):.4g}", " ".join(str(value).split()))
    return (words if len(words) <= _WIDEST_VALUE else f"{words[:_WIDEST_VALUE]} …").replace("|", "\\|")


def widths_of_shares() -> str:
    """Return the half-width of an answer by rows and questions."""
    questions = (1, 10, 30, 100, 300, 1_000, 10_000)
    lines = ["| rows | " + " | ".join(f"{each:,}" for each in questions) + " questions |", "|---|" + "---|" * len(questions)]
    lines += [
        f"| {rows:,} | " + " | ".join(_width(rows=rows, queries=each) for each in questions) + " |"
        for rows in (500, 1_000, 2_000, 5_000, 10_000, 50_000, 100_000, 1_000_000)
    ]
    return "\n".join(lines) + "\n"


def _width(**numbers: Any) -> str:  # noqa: ANN401 - the numbers of a plan
    """Return a plan's half-width, or a dash where none is left."""
    import holdtrue as ht

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ht.Intractable)
        try:
            return f"±{ht.plan(**numbers).alpha:.3f}"
        except ht.InsufficientSamples:
            return "–"


def widths_of_scores() -> str:
    """Return what a holdout's scores and its gate tell, by cases and looks."""
    import holdtrue as ht

    looks = (20, 100, 500)
    lines = ["| cases | " + " | ".join(f"score, {each} looks | gain by gate" for each in looks) + " |"]
    lines += ["|---|" + "---|---|" * len(looks)]
    for cases in (200, 500, 1_000, 2_000, 5_000, 20_000):
        cells = []
        for each in looks:
            score = ht.plan_holdout(cases=cases, looks=each)["scores"].alpha
            gain = ht.plan_holdout(cases=cases, looks=each, yes=5, discordant=0.1).gate.finds
            cells += [f"±{score:.3f}" if score is not None and score < _WIDEST_SHOWN else "–"]
            cells += [f"{gain:.3f}" if gain is not None else "–"]
        lines.append(f"| {cases:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def ways_to_narrow() -> str:
    """Return what each change of one thing does to the width of 10,000 rows and 300 questions."""
    import holdtrue as ht

    plain: dict[str, Any] = {"rows": 10_000, "queries": 300}
    small = ht.plan(**plain, shares=0.05)
    changes = {
        "as it is": _width(**plain),
        "100 questions": _width(**plain | {"queries": 100}),
        "30 questions": _width(**plain | {"queries": 30}),
        "40,000 rows": _width(**plain | {"rows": 40_000}),
        "right 90 % of the time (`beta=0.1`)": _width(**plain, beta=0.1),
        "a share near 0.01, in the same plan": f"±{ht.plan(**plain).alpha_at(0.01):.3f}",
        "a share near 0.01, planned with `shares=0.05`": f"±{small.alpha_at(0.01):.3f}",
        'lower ends only (`side="low"`)': _width(**plain, side="low"),
        "questions fixed before the first answer (not private)": _width(**plain, method="nonadaptive"),
        "about these rows only, epsilon 1 (no `iid`)": _width(**plain, epsilon=1, delta=1e-6, iid=False),
        "and the other way: a quarter kept for other verbs": _width(**plain, reserve=0.25),
        "and the other way: epsilon 0.1": _width(**plain, epsilon=0.1, delta=1e-6),
    }
    return "\n".join(["| what | width |", "|---|---|", *(f"| {what} | {width} |" for what, width in changes.items())]) + "\n"


_WIDEST_VALUE = 90
_WIDEST_SHOWN = 0.9
_PARTS = {
    "widths.md": {"shares": widths_of_shares, "looks": widths_of_scores, "levers": ways_to_narrow},
    "command.md": {"help": help_texts},
    "reference/theorems.md": {"theorems": theorems},
    "http.md": {"routes": routes, "documents": documents, "problems": problems},
}


def renewed(page: str, text: str) -> str:
    """Return a page's text with what stands between its marks made anew."""
    for name, made in _PARTS[page].items():
        head, mark, rest = text.partition(_MARKED.format(name))
        _, end, tail = rest.partition(_END)
        if not (mark and end):
            message = f"{page} has lost its marks {mark!r} and {_END!r}"
            raise SystemExit(message)
        text = f"{head}{mark}\n{made()}\n{end}{tail}"
    return text


def main() -> int:
    """Write the pages, or compare them; returns the exit code."""
    # Help is laid out for a terminal: its width and colours are fixed before Typer is imported and reads them.
    os.environ.update(_TERMINAL)
    for forced in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"):
        os.environ.pop(forced, None)
    behind = 0
    for page in _PARTS:
        path = _PAGES / page
        old = path.read_text(encoding="utf-8")
        new = renewed(page, old)
        if "--check" not in sys.argv:
            path.write_text(new, encoding="utf-8")
        elif new != old:
            behind = 1
            lines = difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), page, "as it is now")
            sys.stdout.writelines(list(lines)[:60])
    return behind


if __name__ == "__main__":
    sys.exit(main())
