"""A folder with opened data for each test, and the command's entry point run in this process."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import holdtrue as ht
from holdtrue.command import main

ROWS = 3_000


@pytest.fixture(scope="session")
def table_of_people():
    random = np.random.default_rng(list(b"people of the command"))
    return pd.DataFrame(
        {
            "age": random.integers(0, 100, ROWS),
            "smoker": random.random(ROWS) < 0.2,
            "bmi": random.normal(27, 5, ROWS).round(3),
            "region": random.choice(["N", "S", "E", "W"], ROWS, p=[0.7, 0.1, 0.1, 0.1]),
        }
    )


@pytest.fixture
def place(table_of_people, tmp_path, monkeypatch):
    """A folder with people.parquet and its ledger of 30 questions, as the folder that the command runs in."""
    table_of_people.to_parquet(tmp_path / "people.parquet")
    labels = {"region": ["N", "S", "E", "W"]}
    with ht.Curator(
        tmp_path / "people.parquet", queries=30, reserve=0.5, iid=True, labels=labels, ledger=tmp_path / "people.ledger"
    ):
        pass
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(monkeypatch, capsys):
    """Run `holdtrue` with these words; the code it left with, and what it printed, as JSON too where it is some."""

    def run_command(*words):
        monkeypatch.setattr(sys, "argv", ["holdtrue", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        found = json.loads(out) if "--json" in words and out else None
        return SimpleNamespace(code=left.value.code or 0, out=out, err=err, json=found)

    return run_command
