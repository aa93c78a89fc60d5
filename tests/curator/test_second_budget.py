"""One budget a dataset: rows that have a ledger get no second one without a word."""

import os
import shutil

import numpy as np
import pandas as pd
import pytest

import holdtrue as ht
from holdtrue.curator import opening
from holdtrue.ledgers.sqlite import export

PLANNED = {"queries": 20, "epsilon": 1.0, "delta": 1e-6}


@pytest.fixture
def people(tmp_path):
    """A CSV file of 400 rows in a folder of its own."""
    (tmp_path / "data").mkdir()
    numbers = np.arange(400)
    path = tmp_path / "data" / "people.csv"
    pd.DataFrame({"age": numbers % 90, "bmi": numbers / 10, "region": np.where(numbers % 3, "N", "S")}).to_csv(
        path, index=False
    )
    return path


def refused(data, **options):
    with pytest.raises(ht.RefusedError) as error:
        ht.Curator(data, **PLANNED | options)
    return str(error.value)


def test_a_second_ledger_for_the_same_file_is_refused_and_names_the_first(people, tmp_path):
    first = people.with_suffix(".ledger")
    ht.Curator(people, ledger=first, **PLANNED).close()
    for ledger in (people.parent / "other.ledger", tmp_path / "elsewhere.ledger", None):
        said = refused(people, ledger=ledger)
        assert f"these rows already have a budget in {first}; open that ledger, or pass second_budget=True" in said
        assert ledger is None or not ledger.exists()
    with ht.Curator(people, ledger=tmp_path / "elsewhere.ledger", second_budget=True, **PLANNED) as second:
        assert second.budget.spent == 0
    ht.Curator(people, ledger=first).close()


def test_without_the_check_epsilon_is_given_twice(people, tmp_path, monkeypatch):
    """The control: the old behaviour, two budgets without a word."""
    monkeypatch.setattr(opening, "refuse_second_budget", lambda *_, **__: None)
    for name in ("one.ledger", "two.ledger"):
        with ht.Curator(people, ledger=people.parent / name, **PLANNED) as curator:
            curator.ask("age > 65")
            assert curator.budget.spent > 0
    monkeypatch.undo()
    assert "already have a budget" in refused(people, ledger=tmp_path / "three.ledger")


def test_a_ledger_in_the_services_folder_beside_the_file_is_found(people, tmp_path):
    (people.parent / ".holdtrue").mkdir()
    ht.Curator(people, ledger=people.parent / ".holdtrue" / "clinic.ledger", **PLANNED).close()
    assert "clinic.ledger" in refused(people, ledger=tmp_path / "x.ledger")


def test_rows_read_with_other_types_names_order_or_format_are_the_same_rows(people, tmp_path):
    ht.Curator(people, ledger=people.with_suffix(".ledger"), **PLANNED).close()
    assert "people.ledger" in refused(people, types={"age": "real"})
    assert "people.ledger" in refused(people, types={"age": "text", "bmi": "text"})
    frame = pd.read_csv(people)
    frame.sample(frac=1, random_state=3).to_parquet(people.parent / "turned.parquet", index=False)
    assert "people.ledger" in refused(people.parent / "turned.parquet")
    bare = people.parent / "bare.csv"
    bare.write_text(people.read_text().split("\n", 1)[1])
    ht.Curator(bare, header=["a", "b", "c"], ledger=bare.with_suffix(".ledger"), second_budget=True, **PLANNED).close()
    people.with_suffix(".ledger").unlink()
    assert "bare.ledger" in refused(bare, header=["x", "y", "z"])
    shutil.copy(people, tmp_path / "copy.csv")
    ht.Curator(tmp_path / "copy.csv", ledger=tmp_path / "copy.ledger", **PLANNED).close()


def test_a_pattern_of_files_is_looked_up_beside_each(people, tmp_path):
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
        shutil.copy(people, folder / "part.csv")
    ht.Curator(tmp_path / "*" / "part.csv", ledger=folders[1] / "parts.ledger", **PLANNED).close()
    assert "parts.ledger" in refused(tmp_path / "*" / "part.csv", ledger=tmp_path / "x.ledger")


def test_other_rows_and_what_is_no_ledger_are_passed_over(people, tmp_path):
    other = people.parent / "other.csv"
    other.write_text(people.read_text().replace("\n0,", "\n1,", 1))
    with ht.Curator(other, ledger=other.with_suffix(".ledger"), **PLANNED) as curator:
        export(curator.ledger, people.parent / "copy.ledger")
    (people.parent / "junk.ledger").write_bytes(os.urandom(5000))
    (people.parent / "empty.ledger").touch()
    (people.parent / "folder.ledger").mkdir()
    ht.Holdout(np.arange(400) % 2, looks=5, ledger=people.parent / "holdout.ledger")
    with ht.Curator(people, ledger=people.with_suffix(".ledger"), **PLANNED) as curator:
        export(curator.ledger, tmp_path / "copy.ledger")
    people.with_suffix(".ledger").unlink()
    ht.Curator(people, ledger=tmp_path / "again.ledger", **PLANNED).close()


def test_the_header_that_a_ledger_was_created_with_is_known_again(people):
    people.write_text("N,a\nS,b\nN,c\n" * 100)
    ledger = people.with_suffix(".ledger")
    ht.Curator(people, header=False, ledger=ledger, **PLANNED).close()
    with ht.Curator(people, ledger=ledger) as again:
        assert [column.name for column in again.card.columns] == ["column0", "column1"]
        assert again.card.rows == 300
    with pytest.raises(ht.HoldtrueError):
        ht.Curator(people, header=True, ledger=ledger)
