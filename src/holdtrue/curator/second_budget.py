"""One budget a dataset: find the ledger that the same rows have already, before a second one is created for them.

Two ledgers for the same rows pay out epsilon twice. A ledger's fingerprint is keyed by its own secret, so whether it belongs
to some rows is found by reading the rows again under that key; only ledgers of as many rows and columns are tried.
"""

import hmac
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from holdtrue.codec import decode
from holdtrue.engines import Engine, open_engine
from holdtrue.engines.files import match_files
from holdtrue.engines.fingerprints import tables_in
from holdtrue.errors import HoldtrueError, RefusedError
from holdtrue.exact import truth
from holdtrue.ledgers import Terms
from holdtrue.ledgers.opening import store_at
from holdtrue.queries.cards import Card

__all__ = ["find_budget", "folders_of", "has_budget", "refuse_second_budget"]

_PATTERN = "*.ledger"
_SERVICE = ".holdtrue"  # the service's own folder, beside the data it guards


def refuse_second_budget(data: Sequence[object], engine: Engine, *, meant: bool = False, ledger: object = None) -> None:
    """Raise RefusedError where rows about to get a new ledger have one already, unless a second one is meant.

    ``data`` are all tables that the engine reads, ``ledger`` is where the new one will be.
    """
    if truth("second_budget", meant):
        return
    found = next(
        (place for one in data if (place := find_budget(one, engine, folders=folders_of(one, ledger=ledger)))), None
    )
    if found is not None:
        message = (
            f"these rows already have a budget in {found}; open that ledger, or pass second_budget=True to give them "
            "another, whose privacy cost adds to that of the first"
        )
        raise RefusedError(message)


def folders_of(data: object, *, ledger: object = None) -> list[Path]:
    """Return where ledgers of files are looked for: beside them, and in the service's folder there.

    A table in a database has no folder of its own: ledgers are looked for beside the new one, where that is a file.
    """
    if not isinstance(data, (str, os.PathLike)):
        return []
    if "://" in os.fspath(data):
        beside = isinstance(ledger, (str, os.PathLike)) and "://" not in os.fspath(ledger)
        return [Path(ledger).parent.resolve()] if beside else []  # type: ignore[arg-type]  # a path, as beside says
    folders = list(dict.fromkeys(Path(name).parent.resolve() for name in match_files(data)))
    return folders + [folder / _SERVICE for folder in folders]


def find_budget(data: object, engine: Engine, *, folders: Iterable[Path]) -> Path | None:
    """Return a ledger in one of the folders that belongs to the rows of an engine; None where there is none.

    Ledgers that cannot be read, copies for auditors and ledgers of holdouts are passed over.
    """
    for folder in folders:
        with suppress(OSError):
            for place in sorted(folder.glob(_PATTERN)):
                terms = _read_terms(place) if place.is_file() else None
                if terms is not None and has_budget(terms, data, engine):
                    return place
    return None


def _read_terms(place: Path) -> Terms | None:
    """Return the terms of a ledger; one whose last writer was killed is mended by opening it to write."""
    for read_only in (True, False):
        with suppress(HoldtrueError):
            store = store_at(place, read_only=read_only)
            store.close()
            return store.terms
    return None


def has_budget(terms: Terms, data: object, engine: Engine) -> bool:
    """Return whether the terms of a ledger are those of the same rows, read with the types that its card has."""
    try:
        card = decode(terms.card, Card)
    except HoldtrueError:
        return False
    alike = card.rows == engine.card.rows and len(card.columns) == len(engine.card.columns)
    units = card.unit is not None or engine.card.unit is not None
    if terms.is_sealed or not (alike or units):
        return False
    key = bytes.fromhex(terms.key)
    if units:
        with suppress(HoldtrueError):
            return not tables_in(engine.fingerprint(key)).isdisjoint(tables_in(bytes.fromhex(terms.fingerprint)))
        return False
    with suppress(HoldtrueError), _read_as(card, data, engine) as same:
        return hmac.compare_digest(same.fingerprint(key).hex(), terms.fingerprint)
    return False


@contextmanager
def _read_as(card: Card, data: object, engine: Engine) -> Iterator[Engine]:
    """Yield an engine over the rows with the columns of a card: the one at hand, or the same files read in another way."""
    kinds = [(column.name, column.type) for column in card.columns]
    if kinds == [(column.name, column.type) for column in engine.card.columns] or not isinstance(data, (str, os.PathLike)):
        yield engine
        return
    other = open_engine(data, types=dict(kinds), names=[name for name, _ in kinds])
    try:
        yield other
    finally:
        other.close()
