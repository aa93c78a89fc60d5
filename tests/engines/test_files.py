"""Which files a path means, and what the first line of a CSV file is."""

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdtrue.engines import files, open_engine
from holdtrue.engines.duckdb_engine import _list_names
from holdtrue.engines.files import match_files
from holdtrue.errors import InvalidParameter, RequestError, UnknownColumn
from holdtrue.queries.parser import parse

CANARY = "canary-7351"
# A name, and one that the name as a pattern would match.
NAMES = {
    "data[1]": "data1",
    "a*b": "axb",
    "q?": "qz",
    "{a,b}": "a",
    "x[!y]": "xz",
    "[[]": "[",
    "**": "c",
    "back\\slash": "back",
    "odd]": "odd",
}


def _write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"v": [value]}), path)
    elif path.suffix == ".csv":
        path.write_text(f"v\n{value}\n")
    else:
        path.write_text(f'[{{"v": {value}}}]')
    return path


def _value(path):
    engine = open_engine(path)
    assert engine.card.rows == 1
    for value in (1, 2):
        if engine.sums([parse(f"v = {value}", engine.card)], bits=0) == [1]:
            return value
    return None


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
@pytest.mark.parametrize("name", NAMES)
def test_a_path_that_exists_is_a_file_whatever_signs_it_has(tmp_path, name, suffix):
    file = _write(tmp_path / f"{name}.{suffix}", 1)
    _write(tmp_path / f"{NAMES[name]}.{suffix}", 2)
    assert _value(file) == 1
    inside = _write(tmp_path / name / f"rows.{suffix}", 1)
    _write(tmp_path / NAMES[name] / f"rows.{suffix}", 2)
    assert _value(inside) == 1
    assert match_files(tmp_path / name / f"*.{suffix}") == [str(inside)]


def test_a_name_that_no_pattern_can_stand_for_is_refused(tmp_path):
    with pytest.raises(RequestError, match="rename the file"):
        open_engine(_write(tmp_path / "back\\[1].csv", 1))


def test_without_the_escape_another_file_is_opened(tmp_path, monkeypatch):
    """The control: what DuckDB makes of a bare path."""
    file = _write(tmp_path / "data[1].csv", 1)
    _write(tmp_path / "data1.csv", 2)
    monkeypatch.setattr(files.Files, "patterns", property(lambda self: self.paths))
    assert _value(file) == 2


def test_a_locked_connection_reads_its_own_file_of_odd_name_and_no_other(tmp_path):
    file = _write(tmp_path / "data[1].parquet", 1)
    other = _write(tmp_path / "data1.parquet", 2)
    engine = open_engine(file)
    for wanted in (other, tmp_path / "*.parquet", tmp_path / "data?.parquet"):
        with pytest.raises(Exception, match="disabled by configuration"):
            engine._connection.execute(f"SELECT * FROM read_parquet('{wanted}')").fetchall()  # noqa: S608 - a name of ours


def test_patterns_are_expanded_here_sorted_and_without_folders(tmp_path):
    for name in ("b.csv", "a.csv", "c.csv", "other.json"):
        _write(tmp_path / name, 1)
    (tmp_path / "d.csv").mkdir()
    assert match_files(str(tmp_path / "*.csv")) == [str(tmp_path / f"{name}.csv") for name in "abc"]
    assert match_files(tmp_path / "[ab].csv") == [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    assert match_files(tmp_path / "none.csv") == []


LIKE_ROWS = [
    "71,N",
    "a,2.5",
    "a,-1e9",
    "a,nan",
    "a,TRUE",
    "a,2026-01-31",
    "a,31/1/2026 12:00",
    "a,",
    "a,A",
    "a, a ",
    '"1,5",b',
]


@pytest.mark.parametrize("line", LIKE_ROWS)
def test_a_first_line_that_looks_like_a_row_is_refused_unless_header_is_said(tmp_path, line):
    path = tmp_path / "rows.csv"
    path.write_text(f"{line}\n1,2\n")
    with pytest.raises(RequestError, match="the first line looks like a row") as refused:
        open_engine(path)
    assert not any(field in str(refused.value).removeprefix(str(path)) for field in ("71", "2.5", "nan", "2026", "1,5"))
    card = open_engine(path, header=False).card
    assert (card.rows, [column.name for column in card.columns]) == (2, ["column0", "column1"])
    card = open_engine(path, header=["age", "region"]).card
    assert (card.rows, [column.name for column in card.columns]) == (2, ["age", "region"])


def test_a_header_that_looks_like_a_row_is_taken_where_it_is_said(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("2025,2026\n1,2\n")
    card = open_engine(path, header=True).card
    assert (card.rows, [column.name for column in card.columns]) == (1, ["2025", "2026"])
    path.write_text("a,a\n1,2\n")
    with pytest.raises(RequestError, match="two columns have the name 'a'"):
        open_engine(path, header=True)


def test_names_of_parquet_are_those_of_its_columns_alone(tmp_path):
    """Fields inside of a column are no columns, and two columns of one name are refused before DuckDB renames one."""
    inner = pa.array([{"x": 1, "y": {"x": [2], "a": 3}}])
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": inner, "l": pa.array([[1, 2]]), "a": [1], "b": [2]}), path)
    elements = duckdb.execute("SELECT name, num_children FROM parquet_schema(?)", [str(path)]).fetchall()
    assert _list_names(elements) == ["x", "l", "a", "b"]
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), path)
    with pytest.raises(RequestError, match="two columns have the name 'a'"):
        open_engine(path)
    pq.write_table(pa.table({"a": [1], "A": [2]}), path)
    with pytest.raises(RequestError, match="differ only in case"):
        open_engine(path)


def test_the_check_of_the_first_line_is_what_keeps_a_row_off_the_card(tmp_path, monkeypatch):
    """The control: without it the first row is on the card, which is public."""
    path = tmp_path / "rows.csv"
    path.write_text(f"71,{CANARY}\n20,b\n")
    with pytest.raises(RequestError, match="looks like a row"):
        open_engine(path)
    monkeypatch.setattr(files, "_name_columns", lambda _, fields, **__: (tuple(fields), True))
    assert CANARY in str(open_engine(path).card)


def test_names_of_a_fixed_card_decide_what_the_first_line_is(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x,y\nz,w\n")
    assert open_engine(path, names=("x", "y")).card.rows == 1
    assert open_engine(path, names=("a", "b")).card.rows == 2
    with pytest.raises(RequestError, match="header names 3 columns; the first line has 2 fields"):
        open_engine(path, names=("a", "b", "c"))


def test_what_header_may_be(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x,y\nz,w\n")
    for wrong in ("x", 1, [], [1, 2], ["x", ""], {"x": 1}, b"x"):
        with pytest.raises(InvalidParameter, match="header must be True, False, or a list of names"):
            open_engine(path, header=wrong)
    with pytest.raises(RequestError, match="header names 1 columns"):
        open_engine(path, header=["x"])
    with pytest.raises(UnknownColumn):
        open_engine(path, header=["a", "b"], types={"x": "text"})
    for data in (_write(tmp_path / "rows.json", 1), pa.table({"v": [1]})):
        with pytest.raises(InvalidParameter, match="only CSV files have a header line"):
            open_engine(data, header=True)


def test_files_of_a_pattern_without_headers(tmp_path):
    for number in range(3):
        (tmp_path / f"part-{number}.csv").write_text(f"{number},a\n{number},b\n")
    engine = open_engine(tmp_path / "part-*.csv", header=["n", "s"])
    assert engine.card.rows == 6
    assert engine.sums([parse("n = 2 AND s = 'b'", engine.card)], bits=0) == [1]


@pytest.mark.parametrize("name", ["rows.csv.gz", "rows.json.gz", "rows.parquet"])
def test_a_file_that_is_cut_off_is_refused(tmp_path, name):
    import gzip

    text = b"a,b\n" + b"1,2\n" * 5000 if "csv" in name else b'[{"a": 1}]'
    whole = gzip.compress(text) if name.endswith("gz") else _write(tmp_path / "whole.parquet", 1).read_bytes()
    for end in (1, 5, 12, len(whole) // 2, len(whole) - 9):
        (tmp_path / name).write_bytes(whole[:end])
        with pytest.raises(RequestError, match="cannot be read"):
            open_engine(tmp_path / name)
