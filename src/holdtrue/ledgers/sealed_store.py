"""What must outlast a process and is as private as the rows: kept beside a ledger, or in its database, under seal.

Trained models, the submissions of a gate and the fingerprints of files are kept so, for every worker and every restart.
A document is sealed under a key that only the ledger has: reading one checks that it was written under this ledger, whole
and under this name. An earlier version of the same document is not noticed.
"""

import hashlib
import hmac
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, TypeVar

from holdtrue.errors import IntegrityError, MissingExtra, RefusedError
from holdtrue.ledgers.transactions import Busy

if TYPE_CHECKING:
    import sqlalchemy as sa

__all__ = ["FolderStore", "SealedDocument", "SealedStore", "TableStore", "check_seal", "seal_document", "store_beside"]

T = TypeVar("T")
Kind: TypeAlias = Literal["cases", "files", "models", "submissions"]

_POSTGRES: Final = ("postgresql://", "postgres://", "postgresql+psycopg://")
_CREATION: Final = 0x6D6F64656C73  # the number of the advisory lock: "models"
_NO_TABLE: Final = "42P01"
_SEAL: Final = 64
_ABANDONED: Final = 3600.0  # seconds after which a file that is not in its place yet never comes there


@dataclass(frozen=True, slots=True)
class SealedDocument:
    """What is public about a document, as JSON; its contents as bytes; and the seal over both and the name."""

    facts: str
    content: bytes
    seal: str


class SealedStore(Protocol):
    """A place for documents by name, shared by all who open the ledger."""

    def read_seal(self, name: str) -> str | None:
        """Return the seal of the document of a name, None where there is none. Cheap: asked before every prediction."""
        ...

    def read(self, name: str) -> SealedDocument | None:
        """Return the document of a name as it is stored, unchecked."""
        ...

    def write(self, name: str, document: SealedDocument) -> None:
        """Keep a document in the place of any other of its name; whole, or not at all."""
        ...

    def remove(self, name: str) -> None:
        """Forget the document of a name."""
        ...

    def list_names(self) -> list[str]:
        """Return the names of all documents, in any order."""
        ...

    def close(self) -> None:
        """Close the store; its documents stay."""
        ...


def seal_document(key: str, name: str, *, facts: str, content: bytes) -> SealedDocument:
    """Return a document with its seal: HMAC-SHA-256 over name, facts and content, by a key derived from the ledger's own."""
    return SealedDocument(facts, content, _make_seal(key, name, facts, content))


def check_seal(key: str, name: str, document: SealedDocument) -> None:
    """Raise IntegrityError unless this ledger's owner wrote exactly this under this name."""
    if not hmac.compare_digest(_make_seal(key, name, document.facts, document.content).encode(), document.seal.encode()):
        message = f"{name!r}, stored with this ledger, was not written under it or is damaged; make it again"
        raise IntegrityError(message)


def _make_seal(key: str, name: str, facts: str, content: bytes) -> str:
    derived = hmac.new(bytes.fromhex(key), b"holdtrue models", hashlib.sha256).digest()
    sealed = hmac.new(derived, digestmod=hashlib.sha256)
    for piece in (name.encode(), facts.encode("utf-8", "surrogatepass"), content):
        sealed.update(len(piece).to_bytes(8, "big") + piece)
    return sealed.hexdigest()


def store_beside(ledger: "str | os.PathLike[str] | None", kind: Kind) -> SealedStore | None:
    """Return the place for what is kept with a ledger: a folder beside its file, its database; None for one in memory."""
    if ledger is None:
        return None
    where = os.fspath(ledger)
    return TableStore(where, kind) if where.startswith(_POSTGRES) else FolderStore(Path(f"{where}.{kind}"))


class FolderStore:
    """A file for each document, in a folder that only its owner can read: a line of seal, a line of facts, the content."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read_seal(self, name: str) -> str | None:
        """Return the first line of the file."""
        try:
            with self._find_file(name).open("rb") as file:
                return file.read(_SEAL).decode("latin-1")
        except FileNotFoundError:
            return None
        except OSError:
            raise _refuse_access() from None

    def read(self, name: str) -> SealedDocument | None:
        """Return what the file holds."""
        try:
            held = self._find_file(name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError:
            raise _refuse_access() from None
        seal, _, rest = held.partition(b"\n")
        facts, _, content = rest.partition(b"\n")
        return SealedDocument(facts.decode("utf-8", "replace"), content, seal.decode("latin-1"))

    def write(self, name: str, document: SealedDocument) -> None:
        """Write the file beside its place, and then move it there."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, made = tempfile.mkstemp(dir=self._folder, prefix=f".{name}.")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(f"{document.seal}\n{document.facts}\n".encode() + document.content)
                    file.flush()
                    os.fsync(file.fileno())
                Path(made).replace(self._find_file(name))
            except BaseException:
                Path(made).unlink(missing_ok=True)
                raise
        except OSError:
            message = "cannot write beside the ledger: the folder is read-only or the disk is full"
            raise RefusedError(message) from None

    def remove(self, name: str) -> None:
        """Remove the file."""
        with suppress(FileNotFoundError):
            self._find_file(name).unlink()

    def list_names(self) -> list[str]:
        """Return the names of the files."""
        try:
            return [file.stem for file in self._folder.glob("*.sealed")]
        except OSError:
            raise _refuse_access() from None

    def find_size(self, name: str) -> int | None:
        """Return how many bytes the file of a name has, None where there is none."""
        with suppress(OSError):
            return self._find_file(name).stat().st_size
        return None

    def note_use(self, name: str) -> None:
        """Make the file of a name the last that :meth:`keep_only` removes."""
        with suppress(OSError):
            os.utime(self._find_file(name))

    def count_free(self) -> int:
        """Return how many bytes the disk has left; the folder is made for it."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return shutil.disk_usage(self._folder).free

    def keep_only(self, prefix: str, *, most: int) -> None:
        """Remove files whose names begin otherwise, and those used longest ago until the others have at most so many bytes.

        What a killed process left half-written goes too.
        """
        files = [(file, file.stat()) for file in self._folder.glob("*.sealed")]
        for file in self._folder.glob(".*"):
            if file.stat().st_mtime < time.time() - _ABANDONED:
                file.unlink(missing_ok=True)
        held = 0
        for file, state in sorted(files, key=lambda each: -each[1].st_mtime_ns):
            held += state.st_size
            if held > most or not file.name.startswith(prefix):
                file.unlink(missing_ok=True)

    def close(self) -> None:
        """Do nothing: there is no connection to close."""

    def _find_file(self, name: str) -> Path:
        return self._folder / f"{name}.sealed"


class TableStore:
    """A table in the schema of a ledger in PostgreSQL, made when the first document of its kind is kept."""

    def __init__(self, url: str, kind: Kind) -> None:
        self._url, self._table = url, f"holdtrue_{kind}"
        self._engine: sa.Engine | None = None

    def read_seal(self, name: str) -> str | None:
        """Return the seal of a row."""
        row = self._fetch_row(f"SELECT seal FROM {self._table} WHERE name = :name", name)  # noqa: S608 - one of three constants
        return None if row is None else str(row[0])

    def read(self, name: str) -> SealedDocument | None:
        """Return a row."""
        row = self._fetch_row(f"SELECT facts, content, seal FROM {self._table} WHERE name = :name", name)  # noqa: S608 - one of three constants
        return None if row is None else SealedDocument(str(row[0]), bytes(row[1]), str(row[2]))

    def write(self, name: str, document: SealedDocument) -> None:
        """Write a row over any other of its name."""
        made = (
            f"CREATE TABLE IF NOT EXISTS {self._table} "
            "(name text PRIMARY KEY, seal text NOT NULL, facts text NOT NULL, content bytea NOT NULL)"
        )
        kept = (
            f"INSERT INTO {self._table} (name, seal, facts, content) VALUES (:name, :seal, :facts, :content) "  # noqa: S608 - one of three constants
            "ON CONFLICT (name) DO UPDATE SET seal = :seal, facts = :facts, content = :content"
        )

        def work(connection: "sa.Connection") -> None:
            import sqlalchemy as sa

            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATION)))
            connection.execute(sa.text(made))
            given = {"name": name, "seal": document.seal, "facts": document.facts, "content": document.content}
            connection.execute(sa.text(kept), given)

        self._run_in_transaction(work)

    def remove(self, name: str) -> None:
        """Delete a row."""
        self._fetch_row(f"DELETE FROM {self._table} WHERE name = :name RETURNING seal", name)  # noqa: S608 - one of three constants

    def list_names(self) -> list[str]:
        """Return the names of the rows."""
        import sqlalchemy as sa

        listed = sa.text(f"SELECT name FROM {self._table}")  # noqa: S608 - one of three constants
        return self._run_in_transaction(lambda connection: [str(row[0]) for row in connection.execute(listed)]) or []

    def list_elsewhere(self) -> list[tuple[str, str, str]]:
        """Return URL, name and facts of the documents of this kind that other ledgers of the same database have."""
        import sqlalchemy as sa

        found = (
            "SELECT quote_ident(schemaname) FROM pg_catalog.pg_tables WHERE tablename = :table "
            "AND schemaname IS DISTINCT FROM current_schema() AND has_schema_privilege(schemaname, 'USAGE') "
            "AND has_table_privilege(quote_ident(schemaname) || '.' || quote_ident(tablename), 'SELECT')"
        )

        def work(connection: "sa.Connection") -> list[tuple[str, str, str]]:
            rows = []
            for (schema,) in connection.execute(sa.text(found), {"table": self._table}).all():
                url = sa.make_url(self._url).update_query_dict({"options": f"-csearch_path={schema}"})
                told = connection.execute(sa.text(f"SELECT name, facts FROM {schema}.{self._table}"))  # noqa: S608 - as quoted by the server
                rows += [(url.render_as_string(hide_password=False), str(name), str(facts)) for name, facts in told]
            return rows

        return self._run_in_transaction(work) or []

    def close(self) -> None:
        """Close the connections."""
        if self._engine is not None:
            self._engine.dispose()

    def _fetch_row(self, statement: str, name: str) -> "Sequence[Any] | None":
        import sqlalchemy as sa

        return self._run_in_transaction(
            lambda connection: connection.execute(sa.text(statement), {"name": name}).one_or_none()
        )

    def _run_in_transaction(self, work: "Callable[[sa.Connection], T]") -> "T | None":
        """Return what work returns in one transaction; None where there is no table yet."""
        import sqlalchemy as sa

        try:
            with self._open_engine().begin() as connection:
                return work(connection)
        except sa.exc.SQLAlchemyError as error:
            if getattr(getattr(error, "orig", None), "sqlstate", None) == _NO_TABLE:
                return None
        raise _refuse_access()

    def _open_engine(self) -> "sa.Engine":
        import sqlalchemy as sa

        if self._engine is None:
            try:
                address = sa.make_url(self._url).set(drivername="postgresql+psycopg")
                given = {"connect_timeout": 10, "application_name": "holdtrue"}
                # Asked before use, since the server may have been started again.
                self._engine = sa.create_engine(
                    address, pool_size=1, pool_pre_ping=True, hide_parameters=True, connect_args=given
                )
            except ModuleNotFoundError:
                raise MissingExtra("postgres", purpose="a ledger in PostgreSQL") from None
        return self._engine


def _refuse_access() -> Busy:
    return Busy("the documents stored with this ledger cannot be read or written now; nothing was charged, try again")
