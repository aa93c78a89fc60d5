"""The commands of "In a minute" on the gate's page, run as they are written on logs that inspect_ai wrote."""

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdtrue.command import application

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "ci-gate.md").read_text(encoding="utf-8")
INSTALL, *COMMANDS = re.findall(r"^\$ (.*)$", PAGE.partition("## In a minute")[2].partition("\n## ")[0], re.MULTILINE)
FILES = ROOT / "tests" / "holdouts" / "tool_files"


def run(line):
    program, *words = shlex.split(line)
    assert program == "holdtrue"
    return CliRunner().invoke(application, words, catch_exceptions=False)


def write_log(path, source, *, times):
    """Write a log with the samples of a committed one, each so many times under ids of their own."""
    log = json.loads((FILES / source).read_text(encoding="utf-8"))
    log["samples"] = [sample | {"id": f"{copy}-{sample['id']}"} for copy in range(times) for sample in log["samples"]]
    log["eval"]["dataset"]["sample_ids"] = sorted({sample["id"] for sample in log["samples"]})
    path.write_text(json.dumps(log), encoding="utf-8")


def test_the_commands_decide_on_logs_of_inspect(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("logs").mkdir()
    write_log(Path("logs/main.eval"), "inspect_second.json", times=100)
    write_log(Path("logs/change.eval"), "inspect_first.json", times=100)
    assert INSTALL == "pip install holdtrue"
    check, create, ask = map(run, COMMANDS)
    assert [check.exit_code, create.exit_code] == [0, 0]
    assert "600" in check.stdout
    assert ask.exit_code == 0
    assert "better than the incumbent, for these cases with fresh labels" in " ".join(ask.stdout.split())


@pytest.mark.parametrize(("main", "change", "code"), [("first", "second", 1), ("second", "second", 1)])
def test_the_commands_run_on_the_committed_logs(tmp_path, monkeypatch, main, change, code):
    monkeypatch.chdir(tmp_path)
    Path("logs").mkdir()
    for name, source in {"main": main, "change": change}.items():
        Path(f"logs/{name}.eval").write_bytes((FILES / f"inspect_{source}.eval").read_bytes())
    few = [line.replace("--looks 100 --yes 5", "--looks 1 --yes 1") for line in COMMANDS]  # there are six cases
    assert [run(line).exit_code for line in few] == [0, 0, code]
