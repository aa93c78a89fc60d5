"""Units on Spark: the integers of every other engine, however rows are spread over partitions (U4)."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from engines.conftest import open_engine_of_spark
from engines.test_units import BOUNDS, ROWS, ask_all, expect, make_many, make_table, open_registry, open_rows_with
from holdtrue.command import application
from holdtrue.engines.units import open_units
from holdtrue.queries.cards import Declared


def _open(session, table, parts):
    frame = session.createDataFrame(table).repartition(parts)
    return open_engine_of_spark(frame, Declared(bounds=BOUNDS))


@pytest.mark.parametrize("key", [int, "person {}".format], ids=["numbers", "texts"])
def test_adversarial_bags_on_spark(spark_session, key):
    units = [3, 0, 6, 1, 5, 2, 4]
    engine = open_units("id", open_registry(units, key), {"visits": _open(spark_session, make_table(ROWS, key), 3)})
    assert ask_all(engine) == expect(ROWS, units)
    engine.close()


def test_partitions_make_no_difference(spark_session):
    table = make_table(make_many(np.random.default_rng(20261116))[:20_000])
    local = open_units("id", None, {"": open_rows_with("arrow", table, None)})
    known, fingerprint = ask_all(local), local.fingerprint(b"k" * 40)
    for parts in (1, 7):
        engine = open_units("id", None, {"": _open(spark_session, table, parts)})
        assert engine.rows == local.rows
        assert ask_all(engine) == known
        assert engine.fingerprint(b"k" * 40) == fingerprint
        engine.close()
    local.close()


def test_a_registry_on_spark(spark_session):
    import pyarrow as pa

    registry = open_engine_of_spark(
        spark_session.createDataFrame(pa.table({"id": list(range(5)), "age": [9, 8, 7, 6, None]})), Declared()
    )
    engine = open_units("id", registry, {"visits": open_rows_with("arrow", make_table(ROWS), None)})
    from holdtrue.queries import parse

    assert engine.sums([parse("age > 6 AND visits.ANY(ill)", engine.card)], bits=1) == [2 * 2]
    engine.close()


@pytest.mark.usefixtures("spark_session")
def test_the_command_opens_units_on_spark(spark_cluster, tmp_path):
    """Both tables are read by Spark, when they are opened and at every later command."""
    cluster = f'master = "{spark_cluster.master}"\nsecret_file = "{spark_cluster.secret_file}"\nwait = 120\n'
    (tmp_path / "cluster.toml").write_text(f'{cluster}[settings]\n"spark.authenticate" = true\n')
    people, visits = str(tmp_path / "people.parquet"), str(tmp_path / "visits.parquet")
    pd.DataFrame({"id": np.arange(600), "age": np.arange(600) % 90}).to_parquet(people)
    pd.DataFrame({"id": np.arange(900) % 300, "ill": np.arange(900) % 2 == 0}).to_parquet(visits)

    def run(*words):
        done = CliRunner().invoke(application, [*words, "--ledger", str(tmp_path / "units.ledger"), "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    spark = ("--engine", "spark", "--cluster", str(tmp_path / "cluster.toml"))
    planned = ("--queries", "20", "--epsilon", "4", "--delta", "1e-6")
    opened = run("open", people, "--unit", "id", "--table", f"visits={visits}", *spark, *planned)
    assert (opened["card"]["rows"], opened["card"]["unit"]) == (600, "id")
    answer = run("ask", people, "visits.COUNT(*) >= 3")
    assert answer["certificate"]["unit"] == "id"
    assert answer["sample_interval"]["low"] <= 0.5 <= answer["sample_interval"]["high"]
