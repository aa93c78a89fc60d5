"""Where the command looks for data and ledgers, and what it says where they are not."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import holdtrue as ht
from engines.conftest import write_postgres
from holdtrue.command.paths import (
    check_free,
    check_spark,
    find_ledger,
    hide_password,
    keep_spark,
    name_missing,
    open_curator,
    open_view,
    place_ledger,
    read_rows,
)
from holdtrue.errors import InvalidParameter, RefusedError, RequestError, UnknownName
from ledgers.conftest import server as postgres  # noqa: F401 - a fixture: the PostgreSQL server that the ledgers' tests start

TERMS = {"queries": 20, "epsilon": 1.0, "delta": 1e-6, "iid": True}
ROWS = {"x": np.arange(2_000) % 7}


@pytest.fixture
def opened(tmp_path):
    """Return the path of a Parquet file with a ledger beside it."""
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table(ROWS), path)
    with ht.Curator(path, ledger=tmp_path / "rows.ledger", **TERMS) as curator:
        curator.ask("x > 3")
    return path


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("rows.parquet", "rows.ledger"),
        ("a/b/rows.CSV", "a/b/rows.ledger"),
        ("rows.csv.gz", "rows.ledger"),
        ("rows.jsonl", "rows.ledger"),
        ("rows.ledger", "rows.ledger"),
        ("anything", "anything"),
        ("postgresql://host/rows.csv", "postgresql://host/rows.csv"),
        ("postgresql://reader@host/clinic?table=ward.people", "ward.people.ledger"),
    ],
)
def test_a_ledger_is_beside_its_data_or_the_source_itself(source, place):
    assert find_ledger(source) == place
    assert find_ledger(source, "other.ledger") == "other.ledger"


def test_several_files_need_a_named_ledger(tmp_path):
    with pytest.raises(InvalidParameter, match="ledger"):
        find_ledger(str(tmp_path / "*.csv"))
    odd = tmp_path / "rows[1].csv"
    odd.write_text("x\n1\n")
    assert find_ledger(str(odd)) == str(tmp_path / "rows[1].ledger")  # a file that exists is no pattern


def test_data_that_are_missing_are_named_unless_spark_reads_them(tmp_path):
    missing = str(tmp_path / "none.parquet")
    with pytest.raises(RequestError, match=r"none\.parquet: no such file"):
        place_ledger(missing, None, on_spark=False)
    assert place_ledger(missing, None, on_spark=True) == str(tmp_path / "none.ledger")
    assert place_ledger("sales.visits", None, on_spark=True) == "sales.visits.ledger"
    assert place_ledger("s3://bucket/rows", "here.ledger", on_spark=True) == "here.ledger"
    for far in ("s3://bucket/rows", "parts/*.parquet"):
        with pytest.raises(InvalidParameter, match="ledger"):
            place_ledger(far, None, on_spark=True)


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        ("postgresql://ann:secret@host/db", "postgresql://ann:…@host/db"),
        ("postgresql://ann@host/db", "postgresql://ann@host/db"),
        ("rows.ledger", "rows.ledger"),
    ],
)
def test_a_password_is_never_shown(where, shown):
    assert hide_password(where) == shown


def test_a_missing_ledger_is_named_without_its_password():
    where = "postgresql://ann:secret@host/db"
    said = r"no ledger at postgresql://ann:…@host/db; try this"
    with pytest.raises(UnknownName, match=said) as refused, name_missing(where, way_out="; try this"):
        raise UnknownName(where)
    assert "secret" not in str(refused.value)
    assert refused.value.__suppress_context__


def test_a_place_that_is_taken_is_refused(opened):
    check_free(str(opened.with_name("free.ledger")))
    with pytest.raises(RefusedError, match="already a ledger"):
        check_free(str(opened.with_suffix(".ledger")))


def test_a_curator_is_opened_by_the_data_alone(opened):
    with open_curator(str(opened), None) as curator:
        assert curator.ask("x > 3").repeated


def test_without_a_ledger_the_way_out_is_named(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table(ROWS), path)
    with pytest.raises(UnknownName, match="`holdtrue open` creates one"), open_curator(str(path), None):
        pass


def test_a_view_needs_no_rows(opened):
    opened.unlink()
    with open_view(str(opened)) as view:
        assert view.budget.asks == 19
        assert view.preview("x > 3").repeated
        assert not view.preview("x > 4").repeated
        assert [column.name for column in view.card.columns] == ["x"]


def test_the_ledger_of_a_holdout_is_told_apart(tmp_path):
    place = tmp_path / "exam.ledger"
    ht.Holdout(np.arange(500) % 2, looks=5, ledger=place).close()
    with pytest.raises(RequestError, match="ledger of a holdout; use `holdtrue score`"), open_view(str(place)):
        pass


def test_settings_of_spark_are_kept_beside_the_ledger(tmp_path):
    where, cluster = str(tmp_path / "rows.ledger"), tmp_path / "cluster.toml"
    settings = check_spark("spark", master="local[2]", cluster=str(cluster), row_key="id", insecure=False)
    assert settings == {"master": "local[2]", "cluster": str(cluster), "row_key": "id"}
    keep_spark(where, settings)
    kept = (tmp_path / "rows.ledger.spark.toml").read_text()
    assert f"row_key = {json.dumps('id')}" in kept
    keep_spark(str(tmp_path / "other.ledger"), None)
    keep_spark("postgresql://host/db", settings)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.ledger.spark.toml"]


def test_settings_of_spark_without_spark_are_refused():
    assert check_spark("local", master=None, cluster=None, row_key=None, insecure=False) is None
    with pytest.raises(InvalidParameter, match="without --engine spark"):
        check_spark("local", master=None, cluster=None, row_key="id", insecure=False)


def test_settings_of_spark_that_were_damaged_are_named(opened):
    opened.with_name("rows.ledger.spark.toml").write_text("master = ", encoding="utf-8")
    with pytest.raises(RequestError, match=r"rows\.ledger\.spark\.toml is not valid TOML"), open_curator(str(opened), None):
        pass


def test_rows_of_this_machine_are_passed_on():
    with read_rows("rows.parquet", None, {"visits": "b.csv"}) as (rows, tables):
        assert (rows, tables) == ("rows.parquet", {"visits": "b.csv"})


def test_a_table_of_postgresql_is_opened_and_asked(call, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    address = write_postgres(request.getfixturevalue("postgres"), pa.table(ROWS))
    assert call("open", address, "--queries", 20, "--epsilon", 1, "--delta", 1e-6).code == 0
    assert call("ask", address, "x > 3", "--json").json["certificate"]["entry"] == 1
    assert call("budget", address, "--json").json["asks"] == 19
    refused = call("open", address.replace("holdtrue@", "holdtrue:hush@"), "--queries", 20)
    assert "leave the password out of the address" in refused.err
    assert "hush" not in refused.err
