"""`holdtrue mcp`: a stock client starts it as a child, and one ledger counts whatever children there are."""

import asyncio
import json
import subprocess
import sys

import pytest

import holdtrue as ht
from service.agents import MODES, SCRIPT, ask, call, child

CASES = [{"id": f"case {number:03}", "passed": number % 2 == 0} for number in range(200)]


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_asks_is_refused_over_budget_and_reconnects_without_a_second_charge(place, mode):
    (place / "small.csv").write_text("age\n" + "\n".join(str(age) for age in list(range(100)) * 20) + "\n")
    with ht.Curator(place / "small.csv", queries=2, iid=True, ledger=place / f"{mode}.ledger"):
        pass

    async def talk():
        words = ("small.csv", "--ledger", f"{mode}.ledger", "--analyst", "robot")
        async with child(*words, folder=place, mode=mode) as client:
            first = [await ask(client, f"age > {age}", f"k{age}") for age in (10, 20)]
            over = await ask(client, "age > 30", "k30")
        async with child(*words, folder=place, mode=mode) as client:
            again = await ask(client, "age > 10", "k10")
            seen = await call(client, "history")
        return first, over, again, seen

    first, (refused, over), (_, again), (_, seen) = asyncio.run(talk())
    assert [document["questions_left"] for _, document in first] == [1, 0]
    assert refused
    assert (over["problem"]["type"], over["cost"]) == ("urn:holdtrue:budget-exceeded", 0)
    assert again["result"] == first[0][1]["result"]
    assert [(line["analyst"], line["request"]) for line in seen["result"]["lines"]] == [
        ("robot", "age > 10"),
        ("robot", "age > 20"),
    ]


def test_several_children_share_one_cap_and_data_are_found_beside_the_ledger(place):
    """The ledger has 30 questions; three agents ask 12 new ones each, at once."""

    async def one(number):
        async with child("people.ledger", folder=place) as client:
            return [await ask(client, f"age > {12 * number + each}", f"{number} {each}") for each in range(12)]

    async def all_of_them():
        return await asyncio.gather(*map(one, range(3)))

    outcomes = [each for several in asyncio.run(all_of_them()) for each in several]
    refused = [document["problem"]["type"] for problem, document in outcomes if problem]
    assert refused == ["urn:holdtrue:budget-exceeded"] * 6
    assert ht.verify(place / "people.ledger")


def test_a_holdout_of_labels_is_scored(tmp_path):
    (tmp_path / "labels.csv").write_text("id,label\n" + "".join(f"{number},{number % 2}\n" for number in range(200)))
    truth = [number % 2 for number in range(200)]
    with ht.Holdout(truth, looks=3, ledger=tmp_path / "exam.ledger"):
        pass

    async def talk():
        words = ("exam.ledger", "--labels", "labels.csv", "--column", "label")
        async with child(*words, folder=tmp_path) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            return tools, await call(client, "score", y_pred=truth, key="a"), await call(client, "holdout")

    tools, (_, score), (_, card) = asyncio.run(talk())
    assert {"score", "gate", "plan_holdout"} <= tools
    assert not {"ask", "columns"} & tools
    assert (score["cost"], score["left"], score["unit"]) == (1, 2, "looks")
    assert card["result"]["cases"] == 200


def test_a_gate_of_the_command_says_yes_to_what_is_better(tmp_path, call_in):
    def write(name, passed):
        lines = [json.dumps(case | {"passed": bool(passed(number))}) for number, case in enumerate(CASES)]
        (tmp_path / name).write_text("\n".join(lines))

    write("main.jsonl", lambda number: number % 2)
    assert call_in(tmp_path, "score", "main.jsonl", "--holdout", "gate.holdout", "--create", "--looks", 5, "--yes", 2) == 0

    async def talk():
        async with child("gate.holdout", folder=tmp_path) as client:
            better = await call(client, "gate", cases=[1.0] * 200, key="better")
            worse = await call(client, "gate", cases=[0.0] * 200, key="worse")
        async with child("gate.holdout", "--results", "main.jsonl", folder=tmp_path) as client:
            return better, worse, await call(client, "gate", cases=[1.0] * 200, key="better")

    better, worse, again = asyncio.run(talk())
    for kept in ("[]", "{}", "[1, [2]]", "nothing"):  # then as if the ids were not kept
        (tmp_path / "gate.holdout.ids").write_text(kept)
        assert call_in(tmp_path, "mcp", "gate.holdout") == 2
    assert better[1]["result"]["yes"]
    assert not worse[1]["result"]["yes"]
    assert again[1]["result"] == better[1]["result"]
    assert again[1]["left"] == worse[1]["left"] == 3


@pytest.fixture
def call_in():
    def run(folder, *words):
        command = [sys.executable, "-c", SCRIPT, *map(str, words)]
        return subprocess.run(command, cwd=folder, check=False, timeout=120, capture_output=True).returncode  # noqa: S603

    return run


def talk_in_lines(folder, lines, *words):
    """Return what `holdtrue mcp` answers to each line, and what it said on standard error."""
    command = [sys.executable, "-c", SCRIPT, "mcp", *words]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, cwd=folder, text=True, **pipes) as process:  # noqa: S603 - our own command
        answers = []
        for line in lines:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            answers.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        assert process.wait(60) == 0
        return answers, process.stderr.read()


def message(number, method, **params):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


HELLO = message(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "plain", "version": "1"})


def test_lines_that_are_no_messages_are_answered_in_one_line(place):
    wrong = [
        "{",
        "[1, 2]",
        '{"jsonrpc": "2.0", "id": 2, "method": 5}',
        "\x00\xff" * 1000,
        '{"jsonrpc": "2.0", "method": NaN}',
    ]
    last = message(3, "tools/call", name="ask", arguments=5)
    (hello, *answers), said = talk_in_lines(place, [HELLO, *wrong, last], "people.ledger")
    assert hello["result"]["serverInfo"]["name"] == "holdtrue"
    told = [answer["error"]["message"] for answer in answers]
    assert set(told[:-1]) == {"the line is no JSON-RPC message: send one object with jsonrpc, method, id and params"}
    assert told[-1] == "arguments must be an object or null, not a whole number"
    assert said == ""
    with ht.Curator(place / "people.parquet", ledger=place / "people.ledger") as curator:
        assert curator.budget.asks == 30


def test_p8_no_row_is_on_either_stream(tmp_path):
    canary, number = "kanarienvogel", 86_753_091
    rows = "".join(f"{age},note {age}\n" for age in range(100)) * 20
    (tmp_path / "people.csv").write_text(f"age,note\n{rows}{number},{canary}\n")
    with ht.Curator(tmp_path / "people.csv", queries=20, iid=True, ledger=tmp_path / "people.ledger"):
        pass
    queries = ["note LIKE 'k%'", "CAST(note AS INTEGER) > 1", "1 // (age - 99)", "note", "age / 0 > 1", "nobody > 1"]
    asked = [message(7, "tools/call", name="ask", arguments={"query": each, "key": each}) for each in queries]
    asked += [message(8, "tools/call", name=each, arguments={}) for each in ("columns", "history", "budget", "verify")]
    asked += [message(9, "tools/call", name="mean", arguments={"column": "age", "low": 0, "high": 1e8, "key": "m"})]
    answers, said = talk_in_lines(tmp_path, [HELLO, *asked], "people.ledger")
    assert any(not answer["result"]["isError"] for answer in answers[1:])
    for text in (json.dumps(answers), said):
        assert canary not in text
        assert str(number) not in text


def test_the_command_says_what_is_missing(call, place, monkeypatch):
    assert "there is no ledger at nobody.ledger" in call("mcp", "nobody.ledger").err
    (place / "people.parquet").rename(place / "others.parquet")
    found = call("mcp", "people.ledger")
    assert found.code == 2
    assert found.err == "error: there are no data beside people.ledger; name them: holdtrue mcp DATA --ledger LEDGER\n"
    found = call("mcp", "others.parquet", "--ledger", "people.ledger", "--labels", "x.npy")
    assert found.err == "error: --labels must be left out unless the ledger is a holdout's\n"
    with ht.Holdout([0, 1] * 50, looks=3, ledger=place / "exam.ledger"):
        pass
    assert "a holdout needs --labels" in call("mcp", "exam.ledger").err
    monkeypatch.setitem(sys.modules, "mcp", None)
    found = call("mcp", "people.ledger")
    assert (found.code, found.err) == (6, "error: holdtrue mcp needs an extra package: pip install 'holdtrue[mcp,server]'\n")
