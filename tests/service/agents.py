"""Agents of the tests' own: the protocol library's own client, over HTTP or to a child process."""

import contextlib
import json
import os
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

SCRIPT = "import sys; from holdtrue.command import main; sys.argv[0] = 'holdtrue'; main()"
MODES = ("auto", "legacy")  # the protocol with and without a handshake


@contextlib.asynccontextmanager
async def agent(url, key, *, mode="auto"):
    """Yield a client of a service's address for agents."""
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as connection,
        Client(streamable_http_client(f"{url}/mcp", http_client=connection), mode=mode) as client,
    ):
        yield client


def child(*words, folder, mode="auto"):
    """Return a client that starts `holdtrue mcp` in a folder as its child."""
    arguments = ["-c", SCRIPT, "mcp", *map(str, words)]
    return Client(StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ), cwd=folder), mode=mode)


async def call(client, tool, **arguments):
    """Return what a call came to: whether it was refused, and its document, which stands in its text too."""
    found = await client.call_tool(tool, arguments)
    (content,) = found.content
    assert content.text.isascii()
    assert json.loads(content.text) == found.structured_content
    return found.is_error, found.structured_content


async def ask(client, query, key, **more):
    return await call(client, "ask", query=query, key=key, **more)
