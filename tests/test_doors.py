"""Verb by door: what can be asked in Python, by command, over HTTP, by the client, on the page, by agents; field by door.

Every hole has its reason here; a verb or a field that is new, or a door that lost one, makes this test fail until that is
said. ``make doors`` prints the matrix.
"""

import asyncio
import inspect
import re
import tempfile
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
import typer

import holdtrue as ht
from holdtrue.clients.holdouts import RemoteHoldout, RemoteLeaderboard
from holdtrue.clients.remote_curator import Remote
from holdtrue.command import application
from holdtrue.requests import Request
from holdtrue.service.identity import Caller
from holdtrue.service.mcp.tools import LEFT_OUT, Tools
from service.conftest import closed, made
from service.test_bodies import headers, sent

DOORS = ("Python", "command", "HTTP", "client", "page", "MCP")
TEMPLATES = Path(ht.__file__).parent / "service" / "page" / "templates"

# The verb, and the objects that have it in Python and at a distance.
VERBS = {
    "ask": (ht.Curator, Remote),
    "preview": (ht.Curator, Remote),
    "deduce": (ht.Curator, Remote),
    "table": (ht.Curator, Remote),
    "marginals": (ht.Curator, Remote),
    "synthesize": (ht.Curator, Remote),
    "histogram": (ht.Curator, Remote),
    "mean": (ht.Curator, Remote),
    "sum": (ht.Curator, Remote),
    "quantile": (ht.Curator, Remote),
    "median": (ht.Curator, Remote),
    "preview_quantile": (ht.Curator, Remote),
    "variance": (ht.Curator, Remote),
    "covariance": (ht.Curator, Remote),
    "correlation": (ht.Curator, Remote),
    "r_squared": (ht.Curator, Remote),
    "gini": (ht.Curator, Remote),
    "ratio": (ht.Curator, Remote),
    "auc": (ht.Curator, Remote),
    "pairs": (ht.Curator, Remote),
    "best_error": (ht.Curator, Remote),
    "preview_statistic": (ht.Curator, Remote),
    "frame": (ht.Curator, Remote),
    "select": (ht.Curator, Remote),
    "watch": (ht.Curator, Remote),
    "learn": (ht.Curator, Remote),
    "fit": (ht.Curator, Remote),
    "train": (ht.Curator, Remote),
    "predict": (ht.Curator, Remote),
    "distill": (ht.Curator, Remote),
    "predictions_left": (ht.Curator, Remote),
    "evaluate": (ht.Curator, Remote),
    "models": (ht.Curator, Remote),
    "grant": (ht.Curator, Remote),
    "budget": (ht.Curator, Remote),
    "history": (ht.Curator, Remote),
    "report": (ht.Curator, Remote),
    "verify": (ht, Remote),
    "plan": (ht, Remote),
    "score": (ht.Holdout, RemoteHoldout),
    "compare": (ht.Holdout, RemoteHoldout),
    "compare_cases": (ht.Holdout, RemoteHoldout),
    "gate": (ht.Holdout, RemoteHoldout),
    "certify": (ht.Holdout, RemoteHoldout),
    "submit": (ht.Leaderboard, RemoteLeaderboard),
    "standings": (ht.Leaderboard, RemoteLeaderboard),
}

WRITES = "a way to write requests in Python"
HOLES = {
    ("deduce", "page"): "what follows stands beside the price of a question",
    ("histogram", "command"): "a table of bins",
    ("histogram", "HTTP"): "a table of bins",
    ("histogram", "page"): "a table of bins",
    ("sum", "command"): "holdtrue mean --sum",
    ("median", "command"): "a quantile, which is the median unless a level is given",
    ("median", "HTTP"): "a quantile",
    ("median", "page"): "a quantile, which is the median unless a level is given",
    ("preview_quantile", "command"): "holdtrue quantile --preview",
    ("preview_quantile", "page"): "the form shows its price",
    ("preview_statistic", "command"): "holdtrue variance --preview, and so on",
    ("preview_statistic", "HTTP"): "preview-variance, and so on",
    ("preview_statistic", "page"): "the forms show their price",
    ("frame", "command"): WRITES,
    ("frame", "HTTP"): WRITES,
    ("frame", "page"): WRITES,
    ("predictions_left", "command"): "holdtrue models --epsilon",
    ("predictions_left", "page"): "the list of models says how many are left",
    ("grant", "command"): "an owner gives an allowance with a key (holdtrue key create --allow)",
    ("grant", "page"): "the page /keys gives an allowance with a key",
    ("budget", "page"): "the dataset's page shows it",
    ("history", "page"): "the page /history shows it",
    ("report", "page"): "a link on the dataset's page, no form",
    ("compare", "command"): "holdtrue score --against compares with a kept submission",
    ("compare_cases", "command"): "holdtrue score --against compares with a kept submission",
    ("compare_cases", "page"): "a form of compare there",
    ("compare_cases", "HTTP"): "a form of compare there",
    ("gate", "command"): "holdtrue score --create --yes makes one, and holdtrue score asks it",
    ("standings", "page"): "the holdout's page shows them",
    ("plan", "page"): "the page /planner has it",
    ("histogram", "MCP"): "a table of bins",
    ("median", "MCP"): "a quantile",
    ("preview_statistic", "MCP"): "a tool for each statistic, such as preview_variance",
    ("frame", "MCP"): WRITES,
    ("train", "MCP"): LEFT_OUT["train"],
    ("grant", "MCP"): LEFT_OUT["grant"],
    ("report", "MCP"): LEFT_OUT["report"],
    ("compare_cases", "MCP"): "a form of compare there",
    ("certify", "MCP"): LEFT_OUT["certify"],
}


# What else these objects have: no requests.
BESIDE = {
    (ht.Curator, "allowance"): "part of the budget",
    (ht.Curator, "ask_free"): "ask, by those who choose to be told only what is free",
    (ht.Curator, "ask_job"): "ask, for who waits for several at once",
    (ht.Curator, "budget_for"): "the budget of one analyst",
    (ht.Curator, "find_statistic"): "variance and its siblings, by their records",
    (ht.Curator, "model"): "one of the models",
    (ht.Holdout, "leading"): "the name of the incumbent",
    (ht.Leaderboard, "left"): "the looks that are left",
    **dict.fromkeys(
        ((ht.Holdout, fact) for fact in ("incumbent", "looks_left", "paired_width", "width")), "a fact about it"
    ),
    (ht.Holdout, "named"): "the name of a submission",
    (ht.Holdout, "scorer"): "a score, for scikit-learn",
    (ht.Holdout, "told"): "an answer out of the history",
    **dict.fromkeys(product((ht.Curator, ht.Holdout, ht.Leaderboard), ("close", "ledger")), "the object itself"),
}


# The record, its address, and the methods of the client that send it.
RECORDS = {
    "Ask": ("/v1/datasets/{name}/ask", [Remote.ask]),
    "Table": ("/v1/datasets/{name}/table", [Remote.table]),
    "MarginalSets": ("/v1/datasets/{name}/marginals", [Remote.marginals]),
    "Synthesize": ("/v1/datasets/{name}/synthesize", [Remote.synthesize]),
    "Mean": ("/v1/datasets/{name}/mean", [Remote.mean]),
    "Total": ("/v1/datasets/{name}/sum", [Remote.sum]),
    "Quantile": ("/v1/datasets/{name}/quantile", [Remote.quantile]),
    "Variance": ("/v1/datasets/{name}/variance", [Remote.variance]),
    "Covariance": ("/v1/datasets/{name}/covariance", [Remote.covariance]),
    "Correlation": ("/v1/datasets/{name}/correlation", [Remote.correlation]),
    "RSquared": ("/v1/datasets/{name}/r-squared", [Remote.r_squared]),
    "Gini": ("/v1/datasets/{name}/gini", [Remote.gini]),
    "Ratio": ("/v1/datasets/{name}/ratio", [Remote.ratio]),
    "Auc": ("/v1/datasets/{name}/auc", [Remote.auc]),
    "Pairs": ("/v1/datasets/{name}/pairs", [Remote.pairs]),
    "BestError": ("/v1/datasets/{name}/best-error", [Remote.best_error]),
    "Select": ("/v1/datasets/{name}/select", [Remote.select]),
    "WatchQuestion": ("/v1/datasets/{name}/watch", [Remote.watch]),
    "Learn": ("/v1/datasets/{name}/learn", [Remote.learn]),
    "Fit": ("/v1/datasets/{name}/fit", [Remote.fit]),
    "Train": ("/v1/datasets/{name}/train", [Remote.train]),
    "Predict": ("/v1/datasets/{name}/predict", [Remote.predict]),
    "Evaluate": ("/v1/datasets/{name}/evaluate", [Remote.evaluate]),
    "Distill": ("/v1/datasets/{name}/distill", [Remote.distill]),
    "Score": ("/v1/holdouts/{name}/score", [RemoteHoldout.score]),
    "Compare": ("/v1/holdouts/{name}/compare", [RemoteHoldout.compare, RemoteHoldout.compare_cases]),
    "Gate": ("/v1/holdouts/{name}/gate", [RemoteHoldout.gate]),
    "Certify": ("/v1/holdouts/{name}/certify", [RemoteHoldout.certify]),
    "Submit": ("/v1/holdouts/{name}/submit", [RemoteLeaderboard.submit]),
    "Grant": ("/v1/datasets/{name}/grant", [Remote.grant]),
    "Verify": ("/v1/datasets/{name}/verify", [Remote.verify]),
    "Register": ("/v1/datasets", []),
    "RegisterHoldout": ("/v1/holdouts", []),
}
EITHER = "one argument takes one or several"
FIELD_HOLES = {
    ("Distill", "student", "HTTP"): "taught in the caller's process with the labels",
    ("Distill", "model", "client"): "called name, as in Python",
    ("Distill", "rows", "client"): "called public_rows, as in Python",
    ("Ask", "query", "client"): EITHER,
    ("WatchQuestion", "query", "client"): "given to the watch's ask",
    ("Predict", "model", "client"): "called name, as in Python",
    ("Predict", "row", "client"): EITHER,
    ("Evaluate", "entry", "client"): EITHER,
    ("Evaluate", "digest", "client"): "computed from the record that is given",
    ("Compare", "results", "client"): "which of the two methods is meant",
}
# A record without an address, or without a method, has its reason among the verbs above, or here.
WHOLE_HOLES = {
    ("Register", "client"): "an owner registers by the command or over HTTP",
    ("RegisterHoldout", "client"): "an owner registers by the command or over HTTP",
}


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    held = made(tmp_path_factory.mktemp("fields"))
    described = held.app.openapi()
    closed(held)
    return described


def test_every_field_that_goes_over_http_is_in_the_schema_of_its_tool(document, tmp_path):
    held = made(tmp_path)
    tools = {tool.path: tool for tool in Tools(held.service).by_name.values() if tool.method == "POST"}
    closed(held)
    without = set()
    for kind in get_args(Request):
        address, _ = RECORDS[kind.__name__]
        if address not in tools:
            without.add(kind.__name__)
            continue
        body = document["paths"][address]["post"]["requestBody"]["content"]["application/json"]["schema"]
        added = ({"key"} if tools[address].keyed else set()) | {tools[address].place}
        assert not added & set(body["properties"]), kind
        assert set(tools[address].schema["properties"]) == set(body["properties"]) | added, kind
    assert without == {"Train", "Certify", "Grant", "Register", "RegisterHoldout"}


def test_every_field_goes_over_http_and_through_the_client_or_says_why_not(document):
    assert set(RECORDS) == {kind.__name__ for kind in get_args(Request)}
    shut, whole = set(), set()
    for kind in get_args(Request):
        address, methods = RECORDS[kind.__name__]
        whole |= {(kind.__name__, door) for door, way in (("HTTP", address), ("client", methods)) if not way}
        taken = {name for method in methods for name in inspect.signature(method).parameters}
        described = set()
        if address is not None:
            body = document["paths"][address]["post"]["requestBody"]["content"]["application/json"]["schema"]
            described = set(body["properties"])
            assert described <= set(kind.__struct_fields__), kind
            assert not body.get("additionalProperties", True), kind
        for field in kind.__struct_fields__:
            shut |= {(kind.__name__, field, "HTTP")} if address is not None and field not in described else set()
            shut |= {(kind.__name__, field, "client")} if methods and field not in taken else set()
    assert shut == set(FIELD_HOLES)
    assert whole == set(WHOLE_HOLES)


WRONG = {"zzmarkzz": {"zzmarkzz": [{}]}}  # what no field takes


def test_a_wrong_field_of_any_record_is_told_by_its_name_and_spends_nothing(tmp_path):
    held = made(tmp_path)
    tools, caller = Tools(held.service), Caller("ada", "owner", "")
    by_path = {tool.path: tool for tool in tools.by_name.values() if tool.method == "POST"}
    ledger = held.service.registry.open_dataset("people").ledger
    head = ledger.head
    fields = [(RECORDS[kind.__name__][0], field) for kind in get_args(Request) for field in kind.__struct_fields__]

    async def call(path, field):
        given = {"key": "wrong", by_path[path].place: "people"} if by_path[path].keyed else {by_path[path].place: "people"}
        return (await tools.call(by_path[path].name, given | {field: WRONG}, {"caller": caller})).document

    over_http = sent(
        held,
        [
            ("POST", path.replace("{name}", "people"), {"json": {field: WRONG}, "headers": headers(held, "owner")})
            for path, field in fields
        ],
    )
    assert {reply.status_code for reply in over_http} == {422}
    told = [(field, reply.json()) for (_, field), reply in zip(fields, over_http, strict=True)]
    for path, field in fields:
        if path in by_path and field in by_path[path].schema["properties"]:
            told.append((field, asyncio.run(call(path, field))["problem"]))
    assert len(told) > 1.5 * len(fields)
    for field, problem in told:
        assert problem["parameter"].startswith(field), problem
        assert "\n" not in problem["detail"]
        assert "zzmarkzz" not in str(problem)
    assert ledger.head == head
    closed(held)


@pytest.fixture(scope="module")
def open_doors(tmp_path_factory):
    return find_open_doors(tmp_path_factory.mktemp("doors"))


def find_open_doors(folder):
    """Return the pairs of verb and door that exist."""
    held = made(folder)
    paths = {route.path for route in held.app.routes if hasattr(route, "path")}
    described = set(held.app.openapi()["paths"])
    tools = set(Tools(held.service).by_name)
    closed(held)
    routes = {part for path in paths | described if path.startswith("/v1") for part in re.split(r"[/{}]", path)}
    commands = set(typer.main.get_command(application).commands)
    forms = {
        part
        for template in TEMPLATES.rglob("*.html")
        for action in re.findall(r'(?:action="|hx-post="|hx-get="|_form\(")([^"]+)"', template.read_text(encoding="utf-8"))
        for part in action.split("/")
    }
    found = set()
    for verb, (here, there) in VERBS.items():
        words = {verb, verb.replace("_", "-"), verb + "s"}
        doors = (hasattr(here, verb), words & commands, words & routes, hasattr(there, verb), words & forms, verb in tools)
        found |= {(verb, door) for door, is_open in zip(DOORS, doors, strict=True) if is_open}
    return found


def test_whatever_can_be_called_is_a_verb_or_says_why_not():
    found = {(kind, name) for kind in (ht.Curator, ht.Holdout, ht.Leaderboard) for name in dir(kind) if name[0] != "_"}
    assert {(kind, name) for kind, name in found if name not in VERBS} == set(BESIDE)


def write_matrix(open_doors):
    """Return the matrix of verb and door, with a number for each hole, and the reason of each number."""
    width, reasons = max(map(len, VERBS)), list(dict.fromkeys(HOLES.values()))

    def show(verb, door):
        if (verb, door) in open_doors:
            return "yes"
        return f"({reasons.index(HOLES[verb, door]) + 1})" if (verb, door) in HOLES else "HOLE"

    lines = ["".ljust(width) + "".join(door.rjust(9) for door in DOORS)]
    lines += [verb.ljust(width) + "".join(show(verb, door).rjust(9) for door in DOORS) for verb in VERBS]
    return "\n".join([*lines, "", *(f"({place}) {reason}" for place, reason in enumerate(reasons, 1))])


def test_every_verb_goes_through_every_door_or_says_why_not(open_doors):
    shown = write_matrix(open_doors)
    print(f"\n{shown}")  # noqa: T201 - the matrix is what this test is for
    assert "HOLE" not in shown
    assert "HOLE" in write_matrix(open_doors - {("ask", "Python")})
    shut = {(verb, door) for verb in VERBS for door in DOORS} - open_doors
    assert shut - set(HOLES) == set()
    assert set(HOLES) - shut == set()
    assert not {door for door in HOLES if door[1] == "Python"}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(write_matrix(find_open_doors(Path(folder))))  # noqa: T201 - run as a command
