"""A table in PostgreSQL: the integers and fingerprints of every other engine, and no word of the server's."""

import datetime as dt
import logging
import math
import os
import threading
from contextlib import closing, contextmanager
from decimal import Decimal

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression

import holdtrue as ht
from engines.adversarial import TABLES, queries
from engines.conftest import write_postgres
from holdtrue.engines import open_engine
from holdtrue.engines.base import FAILED
from holdtrue.engines.postgres import read_address
from holdtrue.errors import InvalidParameter, NotCertified, RefusedError, ReleaseError, RequestError, UnknownColumn
from holdtrue.queries.parser import parse
from queries.generating import CARD, adversarial_rows, arrow, random_query_text

BITS = 30
QUERIES = int(os.environ.get("HOLDTRUE_POSTGRES_QUERIES", "1000"))
KEY = bytes(range(40))
CHANGES = ["UPDATE base SET a = 2 WHERE a = 1", "DELETE FROM base WHERE a = 2; INSERT INTO base VALUES (9)"]


@pytest.fixture(scope="module")
def mixed(opener):
    """The worst rows, in PostgreSQL and in memory."""
    return opener("postgres", TABLES["mixed"]), opener("arrow", TABLES["mixed"])


@pytest.fixture
def database(postgres):
    """A connection of the custodian's."""
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        yield connection


def _address(server, table):
    return f"postgresql://holdtrue@/postgres?host={server.folder}&table={table}"


def _differ(asked, found, expected):
    return [query.text for query, one, other in zip(asked, found, expected, strict=True) if one != other]


def test_p2_postgresql_gives_equal_integers(mixed):
    """1,000 random queries, or as many as HOLDTRUE_POSTGRES_QUERIES says."""
    there, here = mixed
    asked = queries(here.card, QUERIES, seed=8, depth=2)
    assert not _differ(asked, there.sums(asked, bits=BITS), here.sums(asked, bits=BITS))


def test_p2_deep_queries_give_equal_integers(opener):
    """Of the emitters' own suite, over rows with the ends of all types: nothing raises, whatever overflows."""
    rng = np.random.default_rng(11)
    held = arrow(adversarial_rows(rng))
    kinds = {"d": pa.date32(), "e": pa.date32(), "w": pa.timestamp("us")}
    for name, kind in kinds.items():
        whole = held.column(name).cast(pa.int32()) if kind == pa.date32() else held.column(name)
        held = held.set_column(held.column_names.index(name), name, whole.cast(kind))
    there, here = opener("postgres", held), opener("arrow", held)
    asked = []
    while len(asked) < QUERIES // 2:
        try:
            asked.append(parse(random_query_text(rng, depth=3), CARD))
        except RequestError:
            continue
    assert not _differ(asked, there.sums(asked, bits=BITS), here.sums(asked, bits=BITS))
    heavy = [
        "x / (" * 9 + "y" + ")" * 9,
        "COALESCE(x, " * 8 + "y" + ")" * 8,
        "CASE WHEN x > y THEN " * 12 + "1" + " ELSE x END" * 12,
    ]
    heavy += ["+".join(["x * y"] * 25), " OR ".join(f"x > {number}.5" for number in range(64))]
    asked = [parse(text, CARD) for text in heavy]
    assert not _differ(asked, there.sums(asked, bits=BITS), here.sums(asked, bits=BITS))


@pytest.mark.parametrize("name", sorted(TABLES))
def test_two_tables_with_the_same_rows_have_the_same_fingerprint(opener, mixed, name):
    there, here = mixed if name == "mixed" else (opener("postgres", TABLES[name]), opener("arrow", TABLES[name]))
    assert there.fingerprint(KEY) == here.fingerprint(KEY)


def test_one_column_of_null_and_of_empty_texts_is_streamed_whole(opener):
    held = pa.table({"note": pa.array([None, "", None, "\n", '"', "a,b", "\\.", "\r\n", "NULL"], pa.string())})
    assert opener("postgres", held).fingerprint(KEY) == opener("arrow", held).fingerprint(KEY)


def test_every_stored_type_becomes_one_of_the_card(postgres, database):
    """What no double, integer or calendar of ours holds is what it is on the other engines, and never an error."""
    database.execute(
        "CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE DOMAIN years AS numeric(3, 0);"
        "CREATE TABLE kinds (n numeric, w numeric(18, 0), a years, f real, s smallint, d date, z timestamptz, m mood,"
        "c char(3))"
    )
    rows = [
        (Decimal("1e400"), Decimal("NaN"), 7, 0.1, 1, "infinity", "infinity", "sad", "a"),
        (Decimal("-1e400"), Decimal("9" * 18), None, math.inf, 2, "-infinity", "2026-01-31 10:00+02", "glad", "ab"),
        (Decimal("1e-400"), -5, 9, math.nan, None, "10000-01-01", "0044-03-15 12:00+00 BC", None, None),
        (Decimal("NaN"), None, 9, -0.5, -1, "2024-02-29", "1969-12-31 23:59:59.999999+00", "sad", ""),
    ]
    with database.cursor().copy("COPY kinds FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    moment = dt.datetime
    expected = {
        "n": pa.array([math.inf, -math.inf, 0.0, None]),
        "w": pa.array([None, 10**18 - 1, -5, None]),
        "a": pa.array([7, None, 9, 9]),
        "f": pa.array(np.array([0.1, math.inf, math.nan, -0.5], dtype=np.float32)),
        "s": pa.array([1, 2, None, -1]),
        "d": pa.array([None, None, None, dt.date(2024, 2, 29)]),
        "z": pa.array([None, moment(2026, 1, 31, 8), None, moment(1969, 12, 31, 23, 59, 59, 999_999)], pa.timestamp("us")),
        "m": pa.array(["sad", "glad", None, "sad"]),
        "c": pa.array(["a", "ab", None, ""]),
    }
    with _open_both(_address(postgres, "public.kinds"), pa.table(expected), types={"m": "text"}) as (there, here):
        assert there.card == here.card
        assert there.fingerprint(KEY) == here.fingerprint(KEY)
    with pytest.raises(RequestError, match="column 'm' has type mood"):
        open_engine(_address(postgres, "kinds"))


@contextmanager
def _open_both(address, table, **given):
    with closing(open_engine(address, **given)) as there, closing(open_engine(table, **given)) as here:
        yield there, here


@pytest.mark.parametrize("kind", ["TABLE", "VIEW", "MATERIALIZED VIEW"])
@pytest.mark.parametrize("change", CHANGES, ids=["update", "replace"])
def test_rows_that_change_while_they_are_open_are_refused(postgres, database, kind, change):
    database.execute("DROP TABLE IF EXISTS base CASCADE; CREATE TABLE base AS SELECT generate_series(1, 4) AS a")
    if kind != "TABLE":
        database.execute(f"CREATE {kind} shown AS SELECT a FROM base")  # noqa: S608 - one of three words
    with closing(open_engine(_address(postgres, "base" if kind == "TABLE" else "shown"))) as engine:
        asked = [parse("a > 1", engine.card)]
        assert engine.sums(asked, bits=0) == [3]
        database.execute(change)
        if kind == "MATERIALIZED VIEW":
            assert engine.sums(asked, bits=0) == [3]
            database.execute("REFRESH MATERIALIZED VIEW shown")
        for measure in (lambda: engine.sums(asked, bits=0), lambda: engine.fingerprint(KEY)):
            with pytest.raises(ReleaseError) as caught:
                measure()
            assert str(caught.value) == FAILED
            assert caught.value.__cause__ is caught.value.__context__ is None


def test_no_word_of_the_server_leaves(postgres, database, caplog, capfd):
    """A view that raises on a cell, in its own words, is refused in ours; nothing is logged or printed."""
    database.execute(
        "CREATE TABLE secrets (a integer, note text); INSERT INTO secrets VALUES (1, '1'), (2, 'kanarienvogel');"
        "CREATE VIEW raising AS SELECT a, note::integer AS b FROM secrets"
    )
    with caplog.at_level(logging.DEBUG), pytest.raises(RequestError) as caught:
        open_engine(_address(postgres, "raising"))
    database.execute("UPDATE secrets SET note = '2' WHERE a = 2")
    with closing(open_engine(_address(postgres, "raising"))) as engine:
        database.execute("UPDATE secrets SET note = 'kanarienvogel' WHERE a = 2")
        with caplog.at_level(logging.DEBUG), pytest.raises(ReleaseError) as later:
            engine.sums([parse("b > 1", engine.card)], bits=0)
    said = f"{caught.value!r} {later.value!r} {caplog.text} {capfd.readouterr()}"
    assert "kanarienvogel" not in said
    assert "invalid input" not in said


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ("", "name one table"),
        ("&table=", "name one table"),
        ("&table=a.b.c", "name one table"),
        ("&table=people&table=others", "name one table"),
        ("&password=hush&table=people", "leave the password out"),
        ("&table=nobody", "there is no table 'nobody'"),
        ("&nonsense=1&table=people", "cannot connect"),
        ("&table=people;DROP TABLE base", "there is no table"),
    ],
)
def test_an_address_that_does_not_fit_is_refused_in_a_sentence(postgres, change, refused):
    with pytest.raises((RequestError, InvalidParameter), match=refused) as caught:
        open_engine(f"postgresql://holdtrue@/postgres?host={postgres.folder}{change}")
    assert "hush" not in str(caught.value)


def test_a_password_is_refused_and_a_schema_is_read():
    with pytest.raises(InvalidParameter, match="password") as caught:
        read_address("postgresql://reader:hush@host/clinic?table=people")
    assert "hush" not in str(caught.value)
    found = read_address("postgres://reader@host/clinic?sslmode=verify-full&table=ward.people")
    assert (found.database, found.quoted) == ("postgres://reader@host/clinic?sslmode=verify-full", '"ward"."people"')
    assert read_address("people.parquet") is None


def test_a_connection_that_is_cut_is_made_again(opener, database):
    engine = opener("postgres", TABLES["byte"])
    asked = [parse("age > 0", engine.card)]
    before = engine.sums(asked, bits=0)
    for _ in range(3):
        database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdtrue'")
        assert engine.sums(asked, bits=0) == before


def test_questions_go_on_while_rows_are_streamed(mixed):
    there, here = mixed
    asked = queries(here.card, 5, seed=9)
    expected = here.sums(asked, bits=BITS)
    pieces = there.read_pieces(["age"])
    next(pieces)
    found = []
    workers = [threading.Thread(target=lambda: found.append(there.sums(asked, bits=BITS))) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [expected] * 4
    pieces.close()


def test_a_role_that_may_only_read_is_enough(postgres, database):
    database.execute("CREATE TABLE ward (a integer, b text); INSERT INTO ward VALUES (1, 'x'), (2, 'y')")
    database.execute("CREATE ROLE reader LOGIN")
    address = _address(postgres, "ward").replace("holdtrue@", "reader@")
    with pytest.raises(RequestError, match="could not be read; check that the role may read all of it"):
        open_engine(address)
    database.execute("GRANT SELECT ON ward TO reader")
    with closing(open_engine(address)) as engine:
        assert engine.sums([parse("b = 'x'", engine.card)], bits=0) == [1]


def test_a_curator_asks_rows_where_they_are(postgres, tmp_path):
    """Every kind of verb: sums, cells, learning, training, pairs; the ledger opens again with the same rows in a file."""
    rng = np.random.default_rng(5)
    age = rng.integers(0, 100, 4_000)
    held = pa.table({"age": age, "ill": rng.random(4_000) < age / 100, "bmi": rng.normal(25, 4, 4_000)})
    address, ledger = write_postgres(postgres, held), tmp_path / "people.ledger"
    terms = {"queries": 50, "epsilon": 8.0, "delta": 1e-6, "ledger": ledger, "bounds": {"age": (0, 100)}}
    with ht.Curator(address, **terms, reserve=0.9) as curator:
        answer = curator.ask("age > 65")
        assert len(curator.table("ill")) == 3
        learned = curator.learn(ht.Thresholds(0, 100, steps=20), target="ill", features=["age"], epsilon=1.0)
        assert learned.certificate.spent > answer.certificate.spent
        curator.pairs("abs(a.bmi - b.bmi)", low=0, high=40)
        curator.train("risk", LogisticRegression(), target="ill", features=["age"], parts=20)
        assert curator.predict("risk", {"age": 71}, epsilon=0.5).label in (True, False)
        with pytest.raises(NotCertified, match="no fixed order"):
            curator.train("other", LogisticRegression(), target="ill", features=["age"], parts=20, order="fixed")
        with pytest.raises(UnknownColumn):
            curator.ask("nothing > 1")
    with ht.Curator(held, ledger=ledger) as curator:
        assert curator.ask("age > 65").value == answer.value


def test_a_second_budget_for_a_table_of_postgresql_must_be_wanted(postgres, tmp_path):
    """The rows have no folder, so ledgers beside the new one are looked at; other rows have a budget of their own."""
    planned = {"queries": 5, "epsilon": 1, "delta": 1e-6}
    held, other = (write_postgres(postgres, pa.table({"age": np.arange(first, first + 2_000)})) for first in (0, 1))
    ht.Curator(held, ledger=tmp_path / "one.ledger", **planned).close()
    with pytest.raises(RefusedError, match="already have a budget in"):
        ht.Curator(held, ledger=tmp_path / "two.ledger", **planned)
    assert not (tmp_path / "two.ledger").exists()
    ht.Curator(held, ledger=tmp_path / "two.ledger", second_budget=True, **planned).close()
    ht.Curator(other, ledger=tmp_path / "three.ledger", **planned).close()


def test_units_own_rows_of_postgresql(postgres):
    rng = np.random.default_rng(6)
    visits = pa.table({"patient": rng.integers(0, 300, 2_000), "cost": rng.random(2_000), "urgent": rng.random(2_000) < 0.2})
    patients = pa.table({"patient": np.arange(300), "age": rng.integers(0, 100, 300)})
    texts = ["COUNT(urgent) >= 2", "age > 50 AND ANY(cost > 0.9)"]
    stored = {"data": write_postgres(postgres, patients), "tables": {"visits": write_postgres(postgres, visits)}}
    local = {"data": patients, "tables": {"visits": visits}}
    sums = []
    for given in (stored, local):
        with closing(open_engine(given["data"], unit="patient", tables=given["tables"])) as engine:
            sums.append(engine.sums([parse(text, engine.card) for text in texts], bits=0))
            sums[-1].append(engine.fingerprint(KEY))
    assert sums[0] == sums[1]
