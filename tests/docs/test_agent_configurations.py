"""The configurations that `Let an agent ask` shows are tried as they are written, except folder, port and key."""

import asyncio
import json
import os
import re
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters

import holdtrue as ht
from service.agents import agent, ask, call
from service.conftest import made
from service.living import living

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "agents.md").read_text(encoding="utf-8")
LOCAL, SERVED = (
    next(iter(json.loads(block)["mcpServers"].values()))
    for block in re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
)


def test_the_command_of_a_client_starts_and_answers(tmp_path):
    (tmp_path / "people.csv").write_text("age\n" + "".join(f"{age}\n" for age in range(100)) * 30)
    with ht.Curator(tmp_path / "people.csv", queries=5, iid=True, ledger=tmp_path / "people.ledger"):
        pass
    words = [word.replace("/srv/people", str(tmp_path)) for word in LOCAL["args"]]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    started = StdioServerParameters(command=LOCAL["command"], args=words, env=os.environ | {"PATH": path})

    async def talk():
        async with Client(started) as client:
            return await call(client, "columns"), await ask(client, "age > 65", "first")

    (_, columns), (refused, answer) = asyncio.run(talk())
    assert [column["name"] for column in columns["result"]["card"]["columns"]] == ["age"]
    assert not refused
    assert answer["questions_left"] == 4


def test_the_address_of_a_service_answers(tmp_path):
    held = made(tmp_path)
    assert SERVED["type"] == "http"
    assert SERVED["headers"] == {"Authorization": "Bearer ht_…"}
    with living(held.app) as client:
        url = SERVED["url"].replace("http://127.0.0.1:8000", str(client.base_url).rstrip("/"))

        async def talk():
            async with agent(url.removesuffix("/mcp"), held.keys["analyst"]) as connected:
                return await call(connected, "datasets")

        refused, document = asyncio.run(talk())
    assert url.endswith("/mcp")
    assert not refused
    assert [each["name"] for each in document["result"]["datasets"]] == ["people"]
