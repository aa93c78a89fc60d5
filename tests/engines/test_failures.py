"""P8: whatever fails below, one text leaves, and it holds no cell, no cause and no context."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdtrue.engines import open_engine
from holdtrue.engines.base import FAILED
from holdtrue.errors import HoldtrueError, ReleaseError, RequestError
from holdtrue.queries.columns import open_masked
from holdtrue.queries.parser import parse

CANARY = "canary-7351"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "rows.parquet"
    table = pa.table({"age": list(range(5000)), "name": [CANARY] * 5000, "bmi": [number / 7 for number in range(5000)]})
    pq.write_table(table, path, row_group_size=500, compression="none")
    return path


def _chain(error):
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _assert_silent(error):
    assert type(error) is ReleaseError
    assert str(error) == FAILED
    assert list(_chain(error)) == [error]
    assert CANARY not in repr(error)


def _every_way(engine):
    queries = [parse(text, engine.card) for text in ("age > 65", "bmi / 800", "name = 'x'", "name LIKE 'c%'")]
    ways = [lambda query=query: engine.sums([query], bits=20) for query in queries]
    return [
        *ways,
        lambda: engine.sums(queries, bits=20, progress=lambda _: None),
        lambda: engine.fingerprint(b"k" * 40),
        lambda: engine.sort(["age"]),
    ]


def test_a_file_that_disappears(path):
    engine = open_engine(path)
    path.unlink()
    for way in _every_way(engine):
        with pytest.raises(HoldtrueError) as caught:
            way()
        _assert_silent(caught.value)


def test_a_file_that_is_corrupted(path):
    engine = open_engine(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:200] + bytes(len(whole) - 400) + whole[-200:])
    for way in _every_way(engine):
        with pytest.raises(HoldtrueError) as caught:
            way()
        _assert_silent(caught.value)


def test_a_file_that_was_corrupt_from_the_start_in_its_pages(tmp_path, path):
    """The footer is whole, so it opens; the first scan fails, in the same words."""
    whole = path.read_bytes()
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(whole[:4] + b"\xff" * (len(whole) // 2) + whole[4 + len(whole) // 2 :])
    engine = open_engine(broken)
    for way in _every_way(engine):
        with pytest.raises(HoldtrueError) as caught:
            way()
        _assert_silent(caught.value)


def test_a_file_that_is_replaced_is_noticed(path):
    engine = open_engine(path)
    query = parse("bmi / 800", engine.card)
    engine.sums([query], bits=20)
    pq.write_table(pa.table({"age": [1] * 5000, "name": ["x"] * 5000, "bmi": [0.5] * 5000}), path)
    with pytest.raises(ReleaseError) as caught:
        engine.sums([query], bits=20)
    _assert_silent(caught.value)


@pytest.mark.parametrize("where", ["mark_rows", "_scan_rows", "_yield_pieces", "read_numbers"])
@pytest.mark.parametrize("data", ["arrays", "file"])
def test_whatever_an_engine_raises_is_masked(path, monkeypatch, data, where):
    engine = open_engine(path if data == "file" else pq.read_table(path))

    def fail(*_, **__):
        message = f"could not convert {CANARY}"
        raise ValueError(message)

    monkeypatch.setattr(engine, where, fail)
    failures = 0
    for way in _every_way(engine):
        try:
            way()
        except HoldtrueError as error:
            _assert_silent(error)
            failures += 1
    assert failures


def test_masking_passes_errors_of_our_own_tree_and_no_other():
    engine = open_engine({"a": [1]})

    def refuse():
        raise RequestError("ours")

    def fail():
        raise MemoryError(CANARY)

    with pytest.raises(RequestError, match="ours"):
        engine._run_masked(refuse)
    with pytest.raises(ReleaseError) as caught:
        engine._run_masked(fail)
    _assert_silent(caught.value)
    with pytest.raises(RequestError, match=r"^fixed$") as opened:
        open_masked(fail, failure="fixed")
    assert list(_chain(opened.value)) == [opened.value]
    with pytest.raises(KeyboardInterrupt):
        engine._run_masked(lambda: (_ for _ in ()).throw(KeyboardInterrupt()))


def test_a_caller_who_stops_the_progress_is_heard(path):
    engine = open_engine(path)

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.sums([parse("bmi / 800", engine.card)], bits=20, progress=stop)
    assert engine.sums([parse("age >= 0", engine.card)], bits=0) == [5000]


LOCKED = [
    "SELECT * FROM read_csv('{other}')",
    "SELECT * FROM read_parquet('{other}')",
    "SELECT * FROM '{other}'",
    "SELECT * FROM read_text('{other}')",
    "SELECT * FROM glob('/*')",
    "ATTACH '{other}.db'",
    "COPY (SELECT 1) TO '{other}.out'",
    "COPY (SELECT 1) TO '{path}'",
    "EXPORT DATABASE '{other}.folder'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET threads = 1",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "SET disabled_optimizers = ''",
    "RESET disabled_optimizers",
    "PRAGMA threads = 1",
    "SET allowed_paths = ['{other}']",
]


@pytest.mark.parametrize("statement", LOCKED)
def test_the_connection_is_locked_down(path, tmp_path, statement):
    other = tmp_path / "other.csv"
    other.write_text("a\n1\n")
    engine = open_engine(path)
    import duckdb

    for connection in (engine._connection, engine._connection.cursor()):
        with pytest.raises(duckdb.Error):
            connection.execute(statement.format(other=other, path=path)).fetchall()
    assert not (tmp_path / "other.csv.out").exists()
    assert pq.read_table(path).num_rows == 5000


def test_statistics_are_not_looked_at(path):
    engine = open_engine(path, threads=1)
    for connection in (engine._connection, engine._connection.cursor()):
        setting = connection.execute("SELECT current_setting('disabled_optimizers')").fetchone()
        assert "statistics_propagation" in setting[0]
    assert engine._connection.execute("SELECT current_setting('threads')").fetchone() == (1,)


def test_no_python_variable_is_a_table(path):
    import duckdb

    engine = open_engine(path)
    private = pa.table({"a": [CANARY]})
    for connection in (engine._connection, engine._connection.cursor()):
        with pytest.raises(duckdb.Error):
            connection.execute("SELECT * FROM private").fetchall()
    assert private.num_rows == 1
