"""Where trained models are kept, so that every worker and every restart finds them: beside a ledger, or in its database.

What is kept is as private as the rows. It is sealed under a key that only the ledger has: whoever reads a model checks that
this ledger's curator wrote it, whole and under this name. A model that was put back to an earlier version of itself is not
noticed.
"""

import hashlib
import hmac
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from holdtrue.errors import IntegrityError, MissingExtra, RefusedError

if TYPE_CHECKING:
    import sqlalchemy as sa

__all__ = ["FolderStore", "ModelStore", "PostgresModels", "StoredModel", "check_seal", "seal_model", "store_beside"]

T = TypeVar("T")

_POSTGRES: Final = ("postgresql://", "postgres://", "postgresql+psycopg://")
_TABLE: Final = "holdtrue_models"
_CREATION: Final = 0x6D6F64656C73  # the number of the advisory lock: "models"
_NO_TABLE: Final = "42P01"
_SEAL: Final = 64


@dataclass(frozen=True, slots=True)
class StoredModel:
    """What is public about a model, as JSON; its members as bytes; and the seal over both and the name."""

    facts: str
    arrays: bytes
    seal: str


class ModelStore(Protocol):
    """A place for models by name, shared by all who open the ledger."""

    def current(self, name: str) -> str | None:
        """Return the seal of the model of a name, None where there is none. Cheap: it is asked before every prediction."""
        ...

    def read(self, name: str) -> StoredModel | None:
        """Return the model of a name as it is stored, unchecked."""
        ...

    def write(self, name: str, model: StoredModel) -> None:
        """Keep a model in the place of any other of its name; whole, or not at all."""
        ...

    def remove(self, name: str) -> None:
        """Forget the model of a name."""
        ...

    def close(self) -> None:
        """Let go of the place; what is kept stays."""
        ...


def seal_model(key: str, name: str, *, facts: str, arrays: bytes) -> StoredModel:
    """Return a model with its seal: HMAC-SHA-256 over name, facts and members, under a key derived from the ledger's own."""
    return StoredModel(facts, arrays, _seal(key, name, facts, arrays))


def check_seal(key: str, name: str, model: StoredModel) -> None:
    """Raise IntegrityError unless this ledger's curator wrote exactly this under this name."""
    if not hmac.compare_digest(_seal(key, name, model.facts, model.arrays).encode(), model.seal.encode()):
        message = f"what is stored of the model {name!r} was not written by this ledger's curator; train it again"
        raise IntegrityError(message)


def _seal(key: str, name: str, facts: str, arrays: bytes) -> str:
    derived = hmac.new(bytes.fromhex(key), b"holdtrue models", hashlib.sha256).digest()
    sealed = hmac.new(derived, digestmod=hashlib.sha256)
    for piece in (name.encode(), facts.encode("utf-8", "surrogatepass"), arrays):
        sealed.update(len(piece).to_bytes(8, "big") + piece)
    return sealed.hexdigest()


def store_beside(ledger: "str | os.PathLike[str] | None") -> ModelStore | None:
    """Return the place for the models of a ledger: a folder beside its file, its database; None for a ledger in memory."""
    if ledger is None:
        return None
    where = os.fspath(ledger)
    return PostgresModels(where) if where.startswith(_POSTGRES) else FolderStore(Path(f"{where}.models"))


class FolderStore:
    """A file for each model, in a folder that only its owner can read: a line of seal, a line of facts, then the members."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def current(self, name: str) -> str | None:
        """Return the first line of the file."""
        try:
            with self._place(name).open("rb") as file:
                return file.read(_SEAL).decode("latin-1")
        except FileNotFoundError:
            self._refuse_unsealed(name)
            return None
        except OSError:
            raise _unreadable() from None

    def read(self, name: str) -> StoredModel | None:
        """Return what the file holds."""
        try:
            content = self._place(name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError:
            raise _unreadable() from None
        seal, _, rest = content.partition(b"\n")
        facts, _, arrays = rest.partition(b"\n")
        return StoredModel(facts.decode("utf-8", "replace"), arrays, seal.decode("latin-1"))

    def write(self, name: str, model: StoredModel) -> None:
        """Write the file beside its place, and then move it there."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, made = tempfile.mkstemp(dir=self._folder, prefix=f".{name}.")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(f"{model.seal}\n{model.facts}\n".encode() + model.arrays)
                    file.flush()
                    os.fsync(file.fileno())
                Path(made).replace(self._place(name))
            except BaseException:
                Path(made).unlink(missing_ok=True)
                raise
        except OSError:
            message = "the model cannot be written beside the ledger: the folder is read-only or the disk is full"
            raise RefusedError(message) from None

    def remove(self, name: str) -> None:
        """Remove the file."""
        with suppress(FileNotFoundError):
            self._place(name).unlink()

    def close(self) -> None:
        """Nothing to let go of."""

    def _place(self, name: str) -> Path:
        return self._folder / f"{name}.model"

    def _refuse_unsealed(self, name: str) -> None:
        if (self._folder / f"{name}.npz").exists():
            message = f"the model {name!r} was kept by an older Holdtrue, which did not seal models; train it again"
            raise RefusedError(message)


class PostgresModels:
    """A table of models in the schema of a ledger in PostgreSQL, made when the first model is kept."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._engine: sa.Engine | None = None

    def current(self, name: str) -> str | None:
        """Return the seal of a row."""
        row = self._row(f"SELECT seal FROM {_TABLE} WHERE name = :name", name)  # noqa: S608 - a constant
        return None if row is None else str(row[0])

    def read(self, name: str) -> StoredModel | None:
        """Return a row."""
        row = self._row(f"SELECT facts, arrays, seal FROM {_TABLE} WHERE name = :name", name)  # noqa: S608 - a constant
        return None if row is None else StoredModel(str(row[0]), bytes(row[1]), str(row[2]))

    def write(self, name: str, model: StoredModel) -> None:
        """Write a row over any other of its name."""
        made = (
            f"CREATE TABLE IF NOT EXISTS {_TABLE} "
            "(name text PRIMARY KEY, seal text NOT NULL, facts text NOT NULL, arrays bytea NOT NULL)"
        )
        kept = (
            f"INSERT INTO {_TABLE} (name, seal, facts, arrays) VALUES (:name, :seal, :facts, :arrays) "  # noqa: S608 - a constant
            "ON CONFLICT (name) DO UPDATE SET seal = :seal, facts = :facts, arrays = :arrays"
        )

        def work(connection: "sa.Connection") -> None:
            import sqlalchemy as sa

            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATION)))
            connection.execute(sa.text(made))
            given = {"name": name, "seal": model.seal, "facts": model.facts, "arrays": model.arrays}
            connection.execute(sa.text(kept), given)

        self._within(work)

    def remove(self, name: str) -> None:
        """Delete a row."""
        self._row(f"DELETE FROM {_TABLE} WHERE name = :name RETURNING seal", name)  # noqa: S608 - a constant

    def close(self) -> None:
        """Let go of the connections."""
        if self._engine is not None:
            self._engine.dispose()

    def _row(self, statement: str, name: str) -> "Sequence[Any] | None":
        import sqlalchemy as sa

        return self._within(lambda connection: connection.execute(sa.text(statement), {"name": name}).one_or_none())

    def _within(self, work: "Callable[[sa.Connection], T]") -> "T | None":
        """Return what work returns in one transaction; None where there is no table yet."""
        import sqlalchemy as sa

        try:
            with self._opened().begin() as connection:
                return work(connection)
        except sa.exc.SQLAlchemyError as error:
            if getattr(getattr(error, "orig", None), "sqlstate", None) == _NO_TABLE:
                return None
        raise _unreadable()

    def _opened(self) -> "sa.Engine":
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
                raise MissingExtra("postgres", purpose="models in PostgreSQL") from None
        return self._engine


def _unreadable() -> RefusedError:
    return RefusedError("the models of this ledger cannot be read or written now; nothing was charged, try again")
