"""What pages say of the command and of the service is what these say themselves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
COMMAND = (DOCS / "command.md").read_text(encoding="utf-8")
HTTP = (DOCS / "http.md").read_text(encoding="utf-8")


def generate(folder, *words):
    plain = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "TMPDIR", "VIRTUAL_ENV")}
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-W", "ignore", str(folder / "generate.py"), *words],
        capture_output=True,
        text=True,
        env=plain,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done


def test_help_and_routes_in_the_pages_are_what_the_command_and_the_service_say():
    done = generate(DOCS, "--check")
    assert done.returncode == 0, f"run: python docs/generate.py\n{done.stdout}"


def test_a_page_that_is_behind_is_noticed_and_mended(tmp_path):
    (tmp_path / "reference").mkdir()
    for name in ("generate.py", "command.md", "http.md", "widths.md", "reference/theorems.md"):
        (tmp_path / name).write_bytes((DOCS / name).read_bytes())
    page = tmp_path / "command.md"
    page.write_text(COMMAND.replace("Ask which share of the rows", "Ask what share of all rows"), encoding="utf-8")
    behind = generate(tmp_path, "--check")
    assert behind.returncode == 1
    assert "-" in behind.stdout
    generate(tmp_path)
    assert page.read_text(encoding="utf-8") == COMMAND


def _commands():
    from typer.main import get_command

    from holdtrue.command import application

    def below(command, words):
        yield words
        for name, each in getattr(command, "commands", {}).items():
            yield from below(each, [*words, name])

    return [" ".join(words) for words in below(get_command(application), ["holdtrue"])]


@pytest.mark.parametrize("command", _commands())
def test_every_command_is_documented(command):
    assert f"### {command}\n" in COMMAND


def test_every_route_is_documented(tmp_path):
    from holdtrue.service import create
    from holdtrue.service.settings import Settings

    paths = create(Settings(home=tmp_path / "home")).openapi()["paths"]
    routes = [f"#### {method.upper()} {path}\n" for path, methods in paths.items() for method in methods]
    assert len(routes) > 30
    assert [route for route in routes if route not in HTTP] == []


def test_the_hot_route_has_the_roles_that_the_page_says():
    """Its roles are written by hand, since it is answered without FastAPI's dependencies."""
    from inspect import getsource

    from holdtrue.service.http import fast_path

    assert 'demand_role(await caller_in(scope, service), "analyst", "owner")' in getsource(fast_path)
    _, _, after = HTTP.partition("#### POST /v1/datasets/{name}/ask\n")
    assert "*Who:* analyst, owner." in after.partition("####")[0]
