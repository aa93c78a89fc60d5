"""Which columns have no missing values: their types decide, and no cell does."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import holdtrue as ht
from holdtrue.queries.columns import find_complete

ROWS = np.arange(4)
WHOLE = {"n": ROWS, "b": ROWS > 1, "small": ROWS.astype(np.uint16)}
OPEN = {
    "real": ROWS / 2,
    "wide": ROWS.astype(np.uint64),
    "date": ROWS.astype("datetime64[D]"),
    "text": np.array(["a", "b", "c", "d"]),
    "object": np.array([1, 2, 3, 4], dtype=object),
    "list": [1, 2, 3, 4],
    "masked": np.ma.masked_array(ROWS, mask=ROWS > 2),
}


def test_a_mapping_of_arrays():
    assert find_complete(WHOLE | OPEN) == set(WHOLE)


def test_a_structured_array():
    held = np.zeros(4, dtype=[("n", np.int32), ("real", float)])
    assert find_complete(held) == {"n"}
    assert find_complete(np.ma.masked_array(held)) == frozenset()


def test_a_frame_of_pandas():
    frame = pd.DataFrame(WHOLE | {"real": ROWS / 2, "own": pd.array([1, 2, None, 4], dtype="Int64")})
    assert find_complete(frame) == set(WHOLE)


@pytest.mark.parametrize("nullable", [True, False])
def test_an_arrow_table_says_so_in_its_schema(nullable):
    fields = [pa.field("n", pa.int64(), nullable=nullable), pa.field("real", pa.float64(), nullable=nullable)]
    table = pa.table([pa.array(ROWS), pa.array(ROWS / 2)], schema=pa.schema(fields))
    assert find_complete(table) == (frozenset() if nullable else {"n"})
    assert find_complete(pa.record_batch([pa.array(ROWS)], schema=pa.schema(fields[:1]))) == find_complete(table)


def test_what_does_not_say_may_have_missing_values():
    assert find_complete(pl.DataFrame({"n": ROWS})) == frozenset()
    assert find_complete([1, 2]) == frozenset()


def test_a_schema_that_says_no_and_cells_that_are_missing_are_refused():
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    table = pa.table([pa.array([1, None, 3, 4])], schema=schema)
    with pytest.raises(ht.RequestError, match="column 'n' has missing values, and its schema says that it has none"):
        ht.Curator(table, queries=10)
