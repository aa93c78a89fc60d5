"""The tutorials can be followed word by word: their Python and their commands, in order, in an empty folder."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import holdtrue as ht
from holdtrue.command import application

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def follow(text):
    """Do what a page says; return the commands with their exit codes."""
    names, done = {}, []
    for kind, block in BLOCK.findall(text):
        if kind == "python":
            exec(compile(block, "page", "exec"), names)  # noqa: S102 - the page's own code
            continue
        for line in block.splitlines():
            if line.startswith("$ holdtrue "):
                words = shlex.split(line.removeprefix("$ holdtrue "))
                done.append((line, CliRunner().invoke(application, words, catch_exceptions=False).exit_code))
    return done


@pytest.mark.parametrize("name", ["five-minutes", "eval-set"])
def test_a_tutorial_can_be_followed_word_by_word(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = follow((TUTORIAL / f"{name}.md").read_text(encoding="utf-8"))
    assert len(done) >= 2
    assert [line for line, code in done if code] == []


def test_a_command_that_fails_would_be_noticed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ((_, code),) = follow("```console\n$ holdtrue ask people.parquet\n```\n")
    assert code == 2


def test_the_first_tutorial_shows_its_plan_as_it_prints():
    made = ht.plan(rows=40_000, queries=500, beta=0.05, epsilon=1.0, delta=1e-6)
    assert f"```text\n{made}\n```" in (TUTORIAL / "five-minutes.md").read_text()
