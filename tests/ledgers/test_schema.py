"""P7 beyond the chain: nothing in a ledger's schema acts on its entries, and its files are its owner's alone."""

import contextlib
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

import holdtrue as ht
from holdtrue.ledgers import open_ledger, postgres, sqlite, verify
from ledgers.places import connect, request

PLANTED = {
    "sqlite": {
        "trigger": "CREATE TRIGGER thief AFTER INSERT ON holdtrue_entries BEGIN "
        "DELETE FROM holdtrue_entries WHERE number = NEW.number; END",
        "trigger on terms": "CREATE TRIGGER thief BEFORE UPDATE ON holdtrue_ledger BEGIN SELECT RAISE(IGNORE); END",
        "view": "CREATE VIEW thief AS SELECT * FROM holdtrue_entries",
    },
    "postgres": {
        "rule": "CREATE RULE thief AS ON INSERT TO holdtrue_entries DO INSTEAD NOTHING",
        "row security": "ALTER TABLE holdtrue_entries ENABLE ROW LEVEL SECURITY",
        "trigger": "CREATE FUNCTION thief() RETURNS trigger AS 'BEGIN RETURN NULL; END' LANGUAGE plpgsql; "
        "CREATE TRIGGER thief BEFORE INSERT ON holdtrue_entries FOR EACH ROW EXECUTE FUNCTION thief()",
    },
}
QUIET = {
    "extra table": "CREATE TABLE thief (number INTEGER)",
    "extra index": "CREATE INDEX thief ON holdtrue_entries (verb)",
    "lost index": "DROP INDEX holdtrue_request",
    "index that is no longer unique": "DROP INDEX holdtrue_request; "
    "CREATE INDEX holdtrue_request ON holdtrue_entries (request_id)",
    "column": "ALTER TABLE holdtrue_entries ADD COLUMN thief TEXT",
    "renamed index": "DROP INDEX holdtrue_analyst; CREATE INDEX thief ON holdtrue_entries (analyst, number)",
}


@pytest.fixture
def written(lasting):
    """A closed ledger with a charge and its answer."""
    with lasting.open() as ledger:
        ledger.respond(ledger.charge(**request("a")).number, "answer")
    return lasting


def plant(place, statement):
    with connect(place) as connection:
        for each in statement.split("; ") if place.kind == "sqlite" and "TRIGGER" not in statement else [statement]:
            connection.execute(sa.text(each))
        connection.commit()


def damaged(action):
    with pytest.raises(ht.IntegrityError, match="changed from outside") as error:
        action()
    return str(error.value)


@pytest.mark.parametrize("number", range(3))
def test_what_acts_on_entries_is_found_by_verify_and_by_opening(written, number):
    assert verify(written.where)
    kind, statement = list(PLANTED[written.kind].items())[number]
    plant(written, statement)
    assert kind.split()[0] in damaged(lambda: verify(written.where))
    damaged(lambda: open_ledger(written.where))
    damaged(written.open)


def test_without_the_check_a_trigger_takes_a_charge_away(written, monkeypatch):
    """The control: the old behaviour. The charge is answered, and verify calls the ledger whole without it."""
    plant(written, PLANTED[written.kind]["trigger"])
    with monkeypatch.context() as patch:
        for module in (sqlite, postgres):
            for name in ("check_schema", "refuse_triggers"):
                if hasattr(module, name):
                    patch.setattr(module, name, lambda _: None)
        with contextlib.suppress(ht.HoldtrueError), written.reopen() as ledger:
            ledger.charge(**request("b"))
        assert verify(written.where).charges == 1
    damaged(lambda: verify(written.where))


def test_a_ledger_that_is_open_is_examined_too(lasting):
    with lasting.open() as ledger:
        ledger.charge(**request("a"))
        plant(lasting, next(iter(PLANTED[lasting.kind].values())))
        damaged(lambda: verify(ledger))


@pytest.mark.parametrize("name", QUIET)
def test_any_other_schema_than_that_of_the_migrations_is_found_by_verify(tmp_path, name):
    from ledgers.places import Place

    place = Place("sqlite", str(tmp_path / "x.ledger"))
    with place.open() as ledger:
        ledger.charge(**request("a"))
    assert verify(place.where)
    plant(place, QUIET[name])
    damaged(lambda: verify(place.where))


def test_a_new_ledger_has_the_schema_that_is_expected(tmp_path):
    from ledgers.places import Place

    place = Place("sqlite", str(tmp_path / "x.ledger"))
    place.open().close()
    with contextlib.closing(sqlite3.connect(place.where)) as connection:
        sqlite.check_schema(connection)
        kinds = {kind for kind, *_ in sqlite.expect_schema()}
    assert kinds == {"table", "index"}


@pytest.fixture
def ledger_file(tmp_path):
    """A ledger in a file, with its journal and the folders that may be beside it."""
    from ledgers.places import Place

    place = Place("sqlite", str(tmp_path / "x.ledger"))
    with place.open() as ledger:
        ledger.charge(**request("a"))
    for suffix in (".models", ".names"):
        Path(f"{place.where}{suffix}").mkdir()
    return place


def mode(path):
    return stat.S_IMODE(Path(path).stat().st_mode)


SUFFIXES = ("", "-journal", ".models", ".names")


def test_modes_that_let_others_in_are_mended_when_a_ledger_is_opened(ledger_file):
    for suffix in SUFFIXES:
        Path(f"{ledger_file.where}{suffix}").chmod(0o777)
    verify(ledger_file.where)
    assert mode(ledger_file.where) == 0o777, "verify reads only"
    open_ledger(ledger_file.where).close()
    for suffix in SUFFIXES:
        assert mode(f"{ledger_file.where}{suffix}") == 0o700
    Path(ledger_file.where).chmod(0o640)
    open_ledger(ledger_file.where).close()
    assert mode(ledger_file.where) == 0o600


def test_modes_that_cannot_be_mended_are_refused(ledger_file, monkeypatch):
    """Somebody else's file, which others may open: chmod is refused, and so is the ledger."""
    Path(ledger_file.where).chmod(0o666)

    def refuse(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.chmod", refuse)
        with pytest.raises(ht.RefusedError, match=r"other users may open .*x\.ledger; have its owner run: chmod go= "):
            open_ledger(ledger_file.where)
        assert verify(ledger_file.where)
    # The control: without the check it opens, and the key in it stays open to everybody.
    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "keep_private", lambda _: None)
        open_ledger(ledger_file.where).close()
    assert mode(ledger_file.where) == 0o666


def test_opening_a_ledger_does_not_import_the_migrations(ledger_file):
    """Alembic takes a second to import; what acts on entries is found without it."""
    program = (
        "import sys; from holdtrue.ledgers import open_ledger; open_ledger(sys.argv[1]); sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program, ledger_file.where], check=False).returncode == 0  # noqa: S603


@pytest.mark.parametrize("contents", [b"root:x:0:0:", b"SQLite format 3\0 and more"])
def test_the_mode_of_a_file_that_is_no_ledger_is_left_alone(tmp_path, contents):
    place = tmp_path / "somebody's file"
    place.write_bytes(contents * 100)
    place.chmod(0o644)
    with pytest.raises(ht.HoldtrueError):
        open_ledger(place)
    assert place.stat().st_mode & 0o777 == 0o644
