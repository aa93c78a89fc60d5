"""The service's own tables: their version, databases from before there was one, and from a Holdtrue yet to come."""

import pytest
import sqlalchemy as sa

from holdtrue.errors import RefusedError
from holdtrue.service import database as module
from holdtrue.service.database import KEYS, RECEIPTS, REGISTERED, open_database
from holdtrue.service.identity.api_keys import Keyring
from holdtrue.service.migrations import HEAD, VERSIONS
from holdtrue.service.settings import Settings
from ledgers.conftest import server as postgres  # noqa: F401 - a fixture: the PostgreSQL server that the ledgers' tests start


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request, tmp_path):
    """Settings of a service whose database is on each store in turn."""
    ledger = request.getfixturevalue("postgres").database() if request.param == "postgres" else None
    return Settings(home=tmp_path / "home", ledger=ledger)


def tables(database):
    """Return every table with its columns as the database has them: name, kind, whether it may be empty."""
    schema = None if database.engine.dialect.name == "sqlite" else "holdtrue_service"
    inspector = sa.inspect(database.engine)
    return {
        name: [(column["name"], str(column["type"]), column["nullable"]) for column in inspector.get_columns(name, schema)]
        for name in inspector.get_table_names(schema)
    }


def forget_version(database):
    """Leave a database as services did before there were versions: with a dataset and a holdout of one name."""
    with database.begin() as connection:
        RECEIPTS.drop(connection)
        REGISTERED.drop(connection)
        for kind in ("dataset", "holdout"):
            columns = [sa.Column(each.name, each.type, primary_key=each.primary_key) for each in list(REGISTERED.c)[1:]]
            table = sa.Table(f"{kind}s", sa.MetaData(), *columns)
            table.create(connection)
            connection.execute(sa.insert(table).values(name="town", document={"of": kind}, created=7))
        sa.Table(VERSIONS, sa.MetaData()).drop(connection)


def test_the_migrations_make_the_tables_that_the_service_uses(settings):
    database = open_database(settings)
    found = tables(database)
    with database.begin() as connection:
        module._TABLES.drop_all(connection)
        module._TABLES.create_all(connection)
    assert tables(database) == found
    assert VERSIONS in found
    database.close()


def test_a_database_from_before_versions_is_upgraded_and_keeps_what_it_has(settings):
    database = open_database(settings)
    text, key = Keyring(database).create("ann", "analyst")
    forget_version(database)
    assert VERSIONS not in tables(database)
    database.close()
    database = open_database(settings)
    with database.read() as connection:
        assert connection.execute(sa.select(KEYS.c.prefix)).scalars().all() == [key.prefix]
        assert connection.execute(sa.select(sa.column("version_num")).select_from(_versions())).scalar_one() == HEAD
        assert connection.execute(sa.select(RECEIPTS)).all() == []
        found = connection.execute(sa.select(REGISTERED).order_by(REGISTERED.c.kind)).all()
        assert found == [("dataset", "town", {"of": "dataset"}, 7), ("holdout", "town", {"of": "holdout"}, 7)]
    assert not {"datasets", "holdouts"} & tables(database).keys()
    assert key.prefix in text
    database.close()


def test_a_newer_database_is_refused_in_one_sentence_and_left_as_it_is(settings):
    database = open_database(settings)
    with database.begin() as connection:
        connection.execute(sa.update(_versions()).values(version_num="9999"))
    found = tables(database)
    with pytest.raises(RefusedError, match="newer Holdtrue; upgrade Holdtrue on this machine to use it"):
        open_database(settings)
    assert tables(database) == found
    database.close()


def _versions():
    return sa.Table(VERSIONS, sa.MetaData(), sa.Column("version_num", sa.String))
