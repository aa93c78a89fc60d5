"""What can be opened, and what a custodian is told about what cannot."""

import datetime as dt
import json
import os
import re
import subprocess
import sys
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdtrue.engines import open_engine
from holdtrue.errors import InsufficientSamples, InvalidParameter, RequestError, UnknownColumn
from holdtrue.queries.columns import cells_of_array, cells_of_arrow, flags_of
from holdtrue.queries.parser import parse

CANARY = "canary-7351"
PEER = duckdb.connect()
ROWS = {"age": [71, 20, 40], "smoker": [True, False, True], "region": ["N", "S", "N"], "bmi": [31.5, 22.0, 19.25]}
COUNT = "age > 30 AND smoker AND region = 'N' AND bmi < 32"


def _json(tmp_path, text):
    path = tmp_path / "people.json"
    path.write_text(text)
    return path


def _records():
    return [dict(zip(ROWS, values, strict=True)) for values in zip(*ROWS.values(), strict=True)]


def _csv(tmp_path, separator=","):
    path = tmp_path / "people.csv"
    lines = [separator.join(map(str, record.values())) for record in [dict(zip(ROWS, ROWS, strict=True)), *_records()]]
    path.write_text("\n".join(lines).replace("True", "true").replace("False", "false") + "\n")
    return path


def _parquet(tmp_path):
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table(ROWS), path)
    return path


def _structured():
    kinds = [("age", "i4"), ("smoker", "?"), ("region", "U3"), ("bmi", "f4")]
    return np.array([tuple(record.values()) for record in _records()], dtype=kinds)


SOURCES = {
    "csv": _csv,
    "csv as text": lambda tmp_path: str(_csv(tmp_path)),
    "csv with semicolons": lambda tmp_path: _csv(tmp_path, ";"),
    "csv with tabs": lambda tmp_path: _csv(tmp_path, "\t"),
    "json": lambda tmp_path: _json(tmp_path, json.dumps(_records())),
    "json lines": lambda tmp_path: _json(tmp_path, "\n".join(map(json.dumps, _records()))),
    "parquet": _parquet,
    "glob": lambda tmp_path: _parquet(tmp_path).parent / "*.parquet",
    "pandas": lambda _: pd.DataFrame(ROWS),
    "pandas with an index": lambda _: pd.DataFrame(ROWS, index=[7, 3, 9]),
    "polars": lambda _: pl.DataFrame(ROWS),
    "polars lazy": lambda _: pl.LazyFrame(ROWS),
    "arrow": lambda _: pa.table(ROWS),
    "arrow batch": lambda _: pa.table(ROWS).to_batches()[0],
    "arrow reader": lambda _: pa.table(ROWS).to_reader(),
    "dict of arrays": lambda _: {name: np.array(values) for name, values in ROWS.items()},
    "dict of lists": lambda _: ROWS,
    "structured": lambda _: _structured(),
    "relation": lambda _: PEER.from_arrow(pa.table(ROWS)),
}


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_every_source_gives_the_same_card_rows_and_fingerprint(tmp_path, name):
    engine = open_engine(SOURCES[name](tmp_path), bounds={"age": (0, 120)}, labels={"region": ["N", "S"]})
    kinds = [(column.name, column.type) for column in engine.card.columns]
    assert kinds == [("age", "integer"), ("smoker", "boolean"), ("region", "text"), ("bmi", "real")]
    assert engine.card.rows == 3
    assert engine.card.column("age").bounds == (0, 120)
    assert engine.card.column("region").labels == ("N", "S")
    assert engine.sums([parse(COUNT, engine.card), parse("bmi / 63", engine.card)], bits=0) == [2, 1]
    assert engine.fingerprint(b"k" * 40) == open_engine(pa.table(ROWS)).fingerprint(b"k" * 40)
    engine.close()


def test_rows_given_in_memory_are_the_engines_own():
    given = {"age": np.array([1, 2, 3]), "bmi": np.array([0.5, 0.5, 0.5])}
    frame = pd.DataFrame({"age": [1.0, 2.0, 3.0]})
    engines = open_engine(given), open_engine(frame)
    given["age"][:] = 100
    frame.loc[:, "age"] = 100.0
    for engine in engines:
        assert engine.sums([parse("age > 50", engine.card)], bits=0) == [0]


def test_globs_read_every_file(tmp_path):
    for number in range(4):
        pq.write_table(pa.table({"a": [number] * 5}), tmp_path / f"part-{number}.parquet")
        (tmp_path / f"part-{number}.csv").write_text("a\n" + f"{number}\n" * 5)
    for suffix in ("parquet", "csv"):
        engine = open_engine(str(tmp_path / f"part-*.{suffix}"))
        assert engine.card.rows == 20
        assert engine.sums([parse("a >= 2", engine.card), parse("a / 3", engine.card)], bits=0) == [10, 10]


def test_types_of_csv_are_inferred_once_from_all_rows(tmp_path):
    path = tmp_path / "late.csv"
    path.write_text("a,b,c,d,e\n" + "1,1,true,2020-01-01,x\n" * 30_000 + "1.5,z,,,\n#,1,false,2020-01-02,y\n")
    card = open_engine(path).card
    assert [column.type for column in card.columns] == ["text", "text", "boolean", "date", "text"]
    assert card.rows == 30_002
    path.write_text("a,b\n1,2\n")
    card = open_engine(path, types={"a": "real"}).card
    assert [column.type for column in card.columns] == ["real", "integer"]


def test_types_that_are_declared_are_taken(tmp_path):
    path = tmp_path / "people.json"
    path.write_text('[{"a": 1, "when": "2020-01-01T10:00:00Z", "none": null}]')
    engine = open_engine(path, types={"a": "real", "none": "text"})
    assert [column.type for column in engine.card.columns] == ["real", "text", "text"]
    assert engine.sums([parse("\"when\" = '2020-01-01T10:00:00Z'", engine.card)], bits=0) == [1]
    table = pa.table({"when": [dt.date(2020, 1, 2), None], "n": [1, 2]})
    pq.write_table(table, tmp_path / "dates.parquet")
    for source in (table, tmp_path / "dates.parquet"):
        engine = open_engine(source, types={"when": "text", "n": "real"})
        assert engine.sums([parse("\"when\" = '2020-01-02'", engine.card), parse("n / 4", engine.card)], bits=2) == [4, 3]


def test_decimals_and_small_types_are_read_alike(tmp_path):
    numbers = [Decimal("0.1"), Decimal("123456789.123456789"), None]
    table = pa.table(
        {
            "d": pa.array(numbers, pa.decimal128(30, 9)),
            "u": pa.array([1, 2, 2**63 - 1], pa.uint64()),
            "s": pa.array(["x", "y", "x"]).dictionary_encode(),
            "h": pa.array(np.array([1, 2, 3], dtype=np.float16)),
        }
    )
    pq.write_table(table, tmp_path / "kinds.parquet")
    known = PEER.from_arrow(table.drop_columns(["h"])).project("*, CAST(row_number() OVER () AS FLOAT) AS h")
    engines = [open_engine(source, types={"u": "integer"}) for source in (table, tmp_path / "kinds.parquet", known)]
    texts = ["d = 0.1", "d >= 123456789.123456789", "u = 9223372036854775807", "s = 'x'", "h / 4"]
    sums = [engine.sums([parse(text, engine.card) for text in texts], bits=2) for engine in engines]
    assert sums[0] == sums[1] == sums[2] == [4, 4, 4, 8, 6]
    assert len({engine.fingerprint(b"k" * 40) for engine in engines}) == 1


MOMENTS = ["2024-02-29 10:30:00.5", "0001-01-01 00:00:00", None, "1969-12-31 23:59:59.999999"]
DAYS = ["2024-02-29", "0001-01-01", None, "9999-12-31"]


def _dated(tmp_path, name):  # noqa: C901, PLR0912 - one case for each source
    """Return the same dates and timestamps as people have them."""
    moments = [None if text is None else dt.datetime.fromisoformat(text) for text in MOMENTS]
    days = [None if text is None else dt.date.fromisoformat(text) for text in DAYS]
    table = pa.table({"day": pa.array(days, pa.date32()), "at": pa.array(moments, pa.timestamp("us"))})
    numpy = {
        "day": np.array([text or "NaT" for text in DAYS], "M8[D]"),
        "at": np.array([text or "NaT" for text in MOMENTS], "M8[us]"),
    }
    match name:
        case "arrow":
            return table
        case "arrow of other widths":
            return pa.table(
                {
                    "day": table.column("day").cast(pa.date64()),
                    "at": table.column("at").cast(pa.timestamp("us", "Asia/Tokyo")),
                }
            )
        case "dictionaries":
            return pa.table({one: table.column(one).combine_chunks().dictionary_encode() for one in ("day", "at")})
        case "pandas":
            return pd.DataFrame({"day": pd.Series(days, dtype=object), "at": pd.Series(moments, dtype="datetime64[us]")})
        case "pandas of Arrow":
            return table.to_pandas(types_mapper=pd.ArrowDtype)
        case "polars":
            return pl.from_arrow(table)
        case "numpy":
            return numpy
        case "numpy with the bytes swapped":
            return {one: values.astype(values.dtype.newbyteorder(">")) for one, values in numpy.items()}
        case "masked":
            return {
                one: np.ma.array(np.where(np.isnat(values), values[:1], values), mask=np.isnat(values))
                for one, values in numpy.items()
            }
        case "objects":
            return {"day": days, "at": np.array(moments, dtype=object)}
        case "parquet":
            pq.write_table(table, tmp_path / "rows.parquet")
            return tmp_path / "rows.parquet"
        case "csv":
            lines = [f"{day or ''},{at or ''}" for day, at in zip(DAYS, MOMENTS, strict=True)]
            return _written(tmp_path, "rows.csv", "\n".join(["day,at", *lines, ""]))
        case _:
            return PEER.from_arrow(table)


DATED = ["arrow", "arrow of other widths", "dictionaries", "pandas", "pandas of Arrow", "polars", "numpy", "relation", "csv"]
DATED += ["numpy with the bytes swapped", "masked", "objects", "parquet"]


@pytest.mark.parametrize("name", DATED)
def test_dates_are_read_alike_wherever_they_come_from(tmp_path, name):
    engine = open_engine(_dated(tmp_path, name))
    assert [(column.name, column.type) for column in engine.card.columns] == [("day", "date"), ("at", "timestamp")]
    texts = ["day = '2024-02-29'", "day IS NULL AND at IS NULL", "at = '2024-02-29 10:30:00.5'", "at < '1970-01-01'"]
    texts += ["YEAR(day) = 9999 AND YEAR(at) = 1969", "CAST(at AS DATE) = day"]
    assert engine.sums([parse(text, engine.card) for text in texts], bits=0) == [1, 1, 1, 2, 1, 2]
    assert engine.fingerprint(b"k" * 40) == open_engine(_dated(tmp_path, "arrow")).fingerprint(b"k" * 40)


def test_what_no_calendar_has_is_null_on_every_engine():
    day, second = 86_400_000, 1_000_000
    low, high = -719_162, 2_932_896
    columns = {
        "a": pa.array([low, high, low - 1, high + 1, 2**31 - 1, -(2**31)], pa.date32()),
        "b": pa.array([low * day, high * day, low * day - day, high * day + day, 0, 1234 * day], pa.date64()),
        "c": pa.array(
            [low * 86_400, (high + 1) * 86_400 - 1, low * 86_400 - 1, (high + 1) * 86_400, 2**62, -(2**62)],
            pa.timestamp("s"),
        ),
        "d": pa.array(
            [low * day, (high + 1) * day - 1, low * day - 1, (high + 1) * day, 2**62, -(2**62)], pa.timestamp("ms")
        ),
        "e": pa.array([-1, 0, 1, 999, -1000, -1001], pa.timestamp("ns")),
        "f": pa.array([0, second, -1, -second, 2**62, -(2**62)], pa.timestamp("us", "UTC")),
    }
    table = pa.table(columns)
    known = {
        "a IS NULL": 4,
        "a = '0001-01-01' OR a = '9999-12-31'": 2,
        "b IS NULL": 2,
        "c IS NULL": 4,
        "d IS NULL": 4,
        "d > '9999-12-31 23:59:59.998'": 1,
        "e = '1969-12-31 23:59:59.999999'": 2,
        "e = '1970-01-01'": 3,
        "CAST(e AS DATE) = '1969-12-31'": 3,
        "f IS NULL": 2,
    }
    # Polars has no date of milliseconds and no timestamp of seconds.
    for source in (table, pl.from_arrow(table.drop_columns(["b", "c"])), PEER.from_arrow(table)):
        engine = open_engine(source)
        asked = [text for text in known if all(name in engine.card for name in re.findall(r"\b[a-f]\b", text))]
        assert engine.sums([parse(text, engine.card) for text in asked], bits=0) == [known[text] for text in asked]
    infinite = PEER.sql(
        "SELECT unnest(['infinity', '-infinity', '2026-01-31'])::DATE AS a, 'infinity'::TIMESTAMP AS c, "
        "'5000-01-01 (BC)'::DATE AS b"
    )
    engine = open_engine(infinite)
    assert engine.sums([parse(text, engine.card) for text in ("a IS NULL", "c IS NULL", "b IS NULL")], bits=0) == [2, 3, 3]
    huge = {"when": np.array([2**62, -(2**62), 20_000], dtype="M8[D]")}
    assert open_engine(huge).sums([parse('"when" IS NULL', open_engine(huge).card)], bits=0) == [2]


NO_DATES = """
01/02/2026|1/2/26|26-01-31|2026-1-5|20260131|2026-02-30|10000-01-01|infinity|2026-01-31 24:00:00|01/02/2026 10:00:00|10:00:00
2026-01-31T10:00:00Z|2026-01-31 10:00:00+02:00|2026-01-31 10:00:00.1234567
"""


@pytest.mark.parametrize("cell", re.split(r"[|\n]", NO_DATES.strip()))
def test_a_cell_that_may_be_another_date_is_none(tmp_path, cell):
    path = _written(tmp_path, "rows.csv", f"a,b\n{cell},1\n{cell},2\n")
    assert open_engine(path).card.column("a").type in ("text", "integer", "real")
    for kind in ("date", "timestamp"):
        with pytest.raises(RequestError, match=f"column 'a' holds a cell that does not fit the type {kind}"):
            open_engine(path, types={"a": kind})


def test_dates_of_files_are_inferred_only_in_the_one_way_that_is_sure(tmp_path):
    path = _written(
        tmp_path, "rows.csv", "a,b,c,d\n2026-01-31,01/02/2026,2026-01-31 10:00:00,2026-01-31\n,02/01/2026,,soon\n"
    )
    assert [column.type for column in open_engine(path).card.columns] == ["date", "text", "timestamp", "text"]
    kept = open_engine(path, types={"a": "text", "c": "text"})
    assert kept.sums([parse("a = '2026-01-31' AND c LIKE '%10:00:00'", kept.card)], bits=0) == [1]
    path = _written(tmp_path, "rows.json", '[{"a": "2026-01-31", "b": "2026-01-31T10:00:00"}, {"a": null, "b": null}]')
    assert [column.type for column in open_engine(path).card.columns] == ["text", "text"]
    engine = open_engine(path, types={"a": "date", "b": "timestamp"})
    assert engine.sums([parse("a < b", engine.card), parse("a IS NULL", engine.card)], bits=0) == [1, 1]
    path = _written(tmp_path, "bad.csv", f"a\n2026-01-31\n{CANARY}\n")
    with pytest.raises(RequestError, match="column 'a' holds a cell that does not fit the type date") as caught:
        open_engine(path, types={"a": "date"})
    assert CANARY not in str(caught.value)


def _written(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def _two_schemas(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "one.parquet")
    pq.write_table(pa.table({"a": [CANARY]}), tmp_path / "two.parquet")
    return tmp_path / "*.parquet"


def _delta(folder):
    (folder / "table" / "_delta_log").mkdir(parents=True)
    (folder / "table" / "year=2026").mkdir()
    pq.write_table(pa.table({"a": [1, 2]}), folder / "table" / "year=2026" / "part-0.parquet")
    return f"{folder}/table/*/*.parquet"


def _cases(tmp_path):
    pq.write_table(pa.table({"a": [1], "A": [2]}), tmp_path / "cases.parquet")
    return tmp_path / "cases.parquet"


def _two_headers(tmp_path):
    _written(tmp_path, "one.csv", "a,b\n1,2\n")
    _written(tmp_path, "two.csv", "b,a\n1,2\n")
    return tmp_path / "*.csv"


def _pipe(tmp_path):
    os.mkfifo(tmp_path / "rows.csv")
    return tmp_path / "rows.csv"


WRONG = {
    "nothing there": (lambda p: p / "none.parquet", "no such file"),
    "glob of nothing": (lambda p: p / "*.parquet", "no such file"),
    "folder": (lambda p: p, "a folder"),
    "address": (lambda _: "s3://bucket/rows.parquet", "only files on this machine"),
    "unknown kind": (lambda p: _written(p, "rows.xlsx", CANARY), "unknown kind of file"),
    "empty file": (lambda p: _written(p, "rows.csv", ""), "the file is empty"),
    "csv without rows": (lambda p: _written(p, "rows.csv", "a,b\n"), "no rows"),
    "ragged csv, more": (lambda p: _written(p, "rows.csv", f"a,b\n1,2\n3,4,{CANARY}\n5,6\n"), "line 3 does not have"),
    "ragged csv, fewer": (lambda p: _written(p, "rows.csv", f"a,b\n1,2\n3,4\n{CANARY}\n"), "line 4 does not have"),
    "csv in Latin-1": (lambda p: _written(p, "rows.csv", b"a,b\n1,\xe4\n"), "cannot be read"),
    "csv of one name twice": (lambda p: _written(p, "rows.csv", f"{CANARY},{CANARY}\n1,2\n"), "two fields are the same"),
    "csv without a header": (lambda p: _written(p, "rows.csv", f"{CANARY},71\nb,2\n"), "field 2 is empty, a number"),
    "a pipe": (_pipe, "not a file"),
    "csv with other headers": (_two_headers, "the header differs from that of"),
    "json that is cut": (lambda p: _written(p, "rows.json", f'[{{"a": 1, "b": "{CANARY}'), "cannot be read as JSON"),
    "json that nests": (lambda p: _written(p, "rows.json", f'[{{"a": {{"b": "{CANARY}"}}}}]'), "column 'a' has type STRUCT"),
    "json of nothing but null": (lambda p: _written(p, "rows.json", '[{"a": null}]'), "give its type in types="),
    "parquet that is none": (lambda p: _written(p, "rows.parquet", f"PAR1{CANARY}PAR1"), "cannot be read as Parquet"),
    "parquet of other columns": (_two_schemas, "the columns differ from those of"),
    "no columns": (lambda _: pa.table({}), "no columns"),
    "no rows": (lambda _: pa.table({"a": pa.array([], pa.int64())}), "no rows"),
    "no names": (lambda _: np.zeros((3, 2)), "needs names for its columns"),
    "two dimensions": (lambda _: {"a": np.zeros((3, 2))}, "column 'a' has 2 dimensions"),
    "lengths": (lambda _: {"a": [1, 2], "b": [1]}, "differ in length"),
    "times": (lambda _: pa.table({"when": pa.array([1], pa.time64("us"))}), "types={'when': 'text'}"),
    "durations": (lambda _: {"when": np.array([1], dtype="m8[s]")}, "column 'when' has type timedelta64[s]"),
    "dates by the month": (lambda _: {"when": np.array(["2026-01"], dtype="M8[M]")}, "column 'when' has type datetime64[M]"),
    "lists": (lambda _: pa.table({"a": [[CANARY]]}), "column 'a' has type list"),
    "bytes": (lambda _: pa.table({"a": [CANARY.encode()]}), "column 'a' has type binary"),
    "mixed": (lambda _: {"a": [1, CANARY]}, "column 'a' holds values of several types"),
    "complex": (lambda _: {"a": np.array([1j])}, "column 'a' has type complex128"),
    "unsigned": (lambda _: pa.table({"a": pa.array([1], pa.uint64())}), "give types={'a': 'integer'} to read those as NULL"),
    "unsigned numbers": (
        lambda _: {"a": np.array([1], dtype=np.uint64)},
        "column 'a' has type uint64, whose numbers may exceed",
    ),
    "case of names": (lambda _: {"a": [1], "A": [2]}, "differ"),
    "case of names in Parquet": (_cases, "differ only in case"),
    "case of names in a relation": (lambda _: PEER.sql('SELECT 1 AS a, 2 AS "A"'), "differ only in case"),
    "a Delta table's files": (_delta, "a Delta table, whose files hold deleted rows as well"),
    "no path": (lambda _: "a,b\n" + "1,2\n" * 5000, "is no path"),
    "a path with NUL": (lambda _: "rows\0.csv", "rows"),
    "none": (lambda _: None, "not a table"),
    "number": (lambda _: 5, "not a table"),
    "object": (lambda _: object(), "could not be read as a table"),
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_what_cannot_be_opened_is_refused_by_name_and_without_a_cell(tmp_path, name):
    make, message = WRONG[name]
    with pytest.raises(RequestError) as caught:
        open_engine(make(tmp_path))
    assert message in str(caught.value)
    error = caught.value
    while error is not None:
        assert CANARY not in str(error)
        error = error.__cause__ or error.__context__


def test_wide_integers_are_read_as_declared_whatever_the_rows_hold(tmp_path):
    for cells in ([1, 2, 3], [1, 2**64 - 1, None]):
        table = pa.table({"a": pa.array(cells, pa.uint64())})
        pq.write_table(table, tmp_path / "wide.parquet")
        found = set()
        for source in (
            table,
            table.to_pandas(types_mapper=pd.ArrowDtype),
            tmp_path / "wide.parquet",
            PEER.from_arrow(table),
        ):
            with pytest.raises(RequestError, match=r"column 'a' has type .*, whose numbers may exceed"):
                open_engine(source)
            whole, real = (open_engine(source, types={"a": kind}) for kind in ("integer", "real"))
            known = [parse(text, whole.card) for text in ("a > 0", "a IS NULL", "a = 2")]
            found.add((*whole.sums(known, bits=0), *real.sums([parse("a > 1e19", real.card)], bits=0)))
            found.add(whole.fingerprint(b"k" * 40))
        assert len(found) == 2
        assert (3, 0, 1, 0) in found or (1, 2, 0, 1) in found


def test_categories_are_read_as_their_values_and_are_no_labels(tmp_path):
    words, numbers, flags = ["x", "y", None, "x"], [3, 1, None, 3], [True, False, None, True]
    plain = pa.table({"w": pa.array(words), "n": pa.array(numbers), "f": pa.array(flags)})
    coded = pa.table({name: plain.column(name).combine_chunks().dictionary_encode() for name in plain.column_names})
    pq.write_table(coded, tmp_path / "coded.parquet")
    frame = pd.DataFrame(
        {"w": pd.Categorical(words, categories=["y", "x", CANARY]), "n": pd.Categorical(numbers), "f": pd.Categorical(flags)}
    )
    series = [pl.Series("w", words, dtype=pl.Enum(["y", "x", CANARY])), pl.Series("n", numbers), pl.Series("f", flags)]
    sources = [coded, frame, {name: frame[name] for name in frame}, pl.DataFrame(series), tmp_path / "coded.parquet"]
    sources += [pl.DataFrame(series).with_columns(pl.col("w").cast(pl.String).cast(pl.Categorical))]
    sources += [PEER.from_arrow(plain).project(f"CAST(w AS ENUM('y', 'x', '{CANARY}')) AS w, n, f")]
    for source in sources:
        engine = open_engine(source)
        assert [(one.name, one.type, one.labels) for one in engine.card.columns] == [
            ("w", "text", None),
            ("n", "integer", None),
            ("f", "boolean", None),
        ]
        texts = ["w = 'x'", "w IS NULL", "n = 3 AND f", f"w = '{CANARY}'"]
        assert engine.sums([parse(text, engine.card) for text in texts], bits=0) == [2, 1, 2, 0]
        assert engine.fingerprint(b"k" * 40) == open_engine(plain).fingerprint(b"k" * 40)
        with pytest.raises(RequestError, match=r"column 'w' has type .*, which cannot be read as integer") as caught:
            open_engine(source, types={"w": "integer"})
        assert CANARY not in str(caught.value)
    assert open_engine(frame, labels={"w": ["x", "y"]}).card.column("w").labels == ("x", "y")


def test_decimals_without_a_fraction_are_integers(tmp_path):
    cells = [Decimal(10**17 + 1), Decimal(-3), None]
    table = pa.table({"d": pa.array(cells, pa.decimal128(18, 0)), "e": pa.array(cells, pa.decimal128(19, 0))})
    pq.write_table(table, tmp_path / "whole.parquet")
    for source in (table, tmp_path / "whole.parquet", PEER.from_arrow(table)):
        engine = open_engine(source)
        assert [column.type for column in engine.card.columns] == ["integer", "real"]
        assert engine.sums([parse("d = 100000000000000001", engine.card), parse("e < 0", engine.card)], bits=0) == [1, 1]
        assert open_engine(source, types={"d": "real"}).card.column("d").type == "real"


def test_cells_that_do_not_fit_declared_types(tmp_path):
    path = _written(tmp_path, "rows.csv", f"a,b\n1,2\n{CANARY},3\n")
    with pytest.raises(RequestError, match="line 3 cannot be read, or holds a cell that does not fit") as caught:
        open_engine(path, types={"a": "integer"})
    assert CANARY not in str(caught.value)
    path = _written(tmp_path, "rows.json", f'[{{"a": "{CANARY}"}}]')
    with pytest.raises(RequestError, match="cannot be read as JSON") as caught:
        open_engine(path, types={"a": "integer"})
    assert CANARY not in str(caught.value)
    with pytest.raises(RequestError, match="cannot be read as integer"):
        open_engine(pa.table({"a": [CANARY]}), types={"a": "integer"})


@pytest.mark.parametrize("source", ["table", "file"])
def test_declarations_about_nothing_are_refused(tmp_path, source):
    data = pa.table({"a": [1, 2]}) if source == "table" else _written(tmp_path, "rows.csv", "a\n1\n")
    with pytest.raises(UnknownColumn, match="bounds names the column 'b'"):
        open_engine(data, bounds={"b": (0, 1)})
    with pytest.raises(UnknownColumn, match="labels names the column 'b'"):
        open_engine(data, labels={"b": [1]})
    with pytest.raises(RequestError, match="types names the column 'b'"):
        open_engine(data, types={"b": "real"})
    with pytest.raises(InvalidParameter, match="types must be one of boolean, integer, real, text, date, timestamp"):
        open_engine(data, types={"a": "day"})
    with pytest.raises(InvalidParameter, match="types must be a mapping"):
        open_engine(data, types=["integer"])


def test_no_rows_says_how_many_would_do():
    with pytest.raises(InsufficientSamples) as caught:
        open_engine(pa.table({"a": pa.array([], pa.int64())}))
    assert caught.value.required == 1


def test_an_unreadable_file_is_named(tmp_path, monkeypatch):
    path = _written(tmp_path, "rows.csv", "a\n1\n")
    from pathlib import Path

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(RequestError, match=r"rows\.csv: Permission denied"):
        open_engine(path)


def test_names_and_texts_with_quotes(tmp_path):
    folder = tmp_path / 'it\'s a "folder"'
    folder.mkdir()
    table = pa.table({'a "b"': [1, 2], "c's": ["it's", "x"]})
    pq.write_table(table, folder / "rows'.parquet")
    engine = open_engine(folder / "rows'.parquet")
    assert engine.sums([parse('"a ""b""" > 1', engine.card), parse("\"c's\" = 'it''s'", engine.card)], bits=0) == [1, 1]


def test_opening_imports_nothing_ahead():
    """`import holdtrue.engines` leaves DuckDB, Arrow, Narwhals and numba alone."""
    import subprocess
    import sys

    heavy = ("duckdb", "pyarrow", "narwhals", "numba", "pandas", "polars", "sqlglot")
    program = f"import sys, holdtrue.engines; sys.exit(any(name in sys.modules for name in {heavy!r}))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0  # noqa: S603 - our own text


@pytest.mark.parametrize("start", [0, 1, 8, 13])
def test_a_slice_of_an_arrow_array_has_its_own_cells(start):
    """Cells are read from Arrow's memory, where a slice begins in the middle of a byte."""
    cells = {
        "boolean": [True, None, False, True, True],
        "integer": [1, None, -(2**63), 0, 5],
        "real": [0.5, None, -1.0, 2.0, 0.0],
    }
    for kind, values in cells.items():
        listed = (values * 5)[start : start + 11]
        found, held = cells_of_arrow("x", pa.array(values * 5).slice(start, 11), wanted=None)
        assert found == kind
        assert held.valid.tolist() == [value is not None for value in listed]
        assert held.data.tolist() == [value or 0 for value in listed]
    texts = ["a", None, "b", "a", ""] * 5
    _, text = cells_of_arrow("x", pa.array(texts).slice(start, 11), wanted=None)
    assert [None if place < 0 else text.dictionary[place] for place in text.data] == texts[start : start + 11]
    flags = flags_of(pa.array(cells["boolean"] * 5).slice(start, 11))
    assert flags.tolist() == [bool(value) for value in (cells["boolean"] * 5)[start : start + 11]]


@pytest.mark.parametrize("kind", ["?", "i1", "u2", "i4", "u8", "i8", "f2", "f4", "f8"])
def test_numpy_numbers_of_every_width_keep_their_values(kind):
    values = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1, 1]).astype(kind)
    masked = np.ma.array(values, mask=[False, True] * 5)
    for given, there in ((values, [True] * 10), (values[::-1][::-1], [True] * 10), (masked, [True, False] * 5)):
        wanted = {"b": "boolean", "i": "integer", "u": "integer", "f": "real"}[values.dtype.kind]
        name, held = cells_of_array("x", given, wanted=wanted if kind == "u8" else None)
        assert name == wanted
        assert held.valid.tolist() == there
        assert held.data.tolist() == [value if here else 0 for value, here in zip(values.tolist(), there, strict=True)]


def test_numbers_and_texts_are_read_without_pandas(people):
    """Importing it takes longer than reading most tables: nothing does, where no frame of it is given."""
    program = f"""
import sys
import numpy as np
import pyarrow.csv
from holdtrue.engines import open_engine
for data in ({{"a": np.arange(3.0), "b": np.array([True, False, True])}}, pyarrow.csv.read_csv({str(people)!r})):
    open_engine(data).fingerprint(b"k" * 40)
sys.exit("pandas" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0  # noqa: S603 - ours


def test_ten_thousand_columns_are_opened_and_one_that_is_not_there_is_named_in_a_line():
    engine = open_engine(pa.table({f"c{number}": pa.array([number % 7, 1]) for number in range(10_000)}))
    assert engine.sums([parse("c9998 = 2 AND c1 = 1", engine.card)], bits=0) == [1]
    with pytest.raises(UnknownColumn, match="did you mean") as caught:
        parse("c10000 > 1", engine.card)
    assert len(str(caught.value)) < 100
    engine.close()
