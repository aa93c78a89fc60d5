"""Units on Spark: the integers of every other engine, however rows are spread over partitions (U4)."""

import numpy as np
import pytest

from engines.conftest import open_engine_of_spark
from engines.test_units import BOUNDS, ROWS, ask_all, expect, make_many, make_table, open_registry, open_rows_with
from holdtrue.engines.card_declaration import Declared
from holdtrue.engines.units import open_units


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
    known, fingerprint = ask_all(local), local.fingerprint(b"k" * 16)
    for parts in (1, 7):
        engine = open_units("id", None, {"": _open(spark_session, table, parts)})
        assert engine.rows == local.rows
        assert ask_all(engine) == known
        assert engine.fingerprint(b"k" * 16) == fingerprint
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
