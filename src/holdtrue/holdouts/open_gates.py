"""Gates and looks, noted beside their ledgers, so that other processes know of which cases nothing may be told (V1.1).

A gate is noted when it is opened, any other holdout before its first look: a gate that is opened on its cases afterwards
says what it rests on. A note names a ledger in the same folder, or stands in a table of a ledger in the same database, and
has its cases by a digest under that ledger's own key: whoever cannot read the ledger cannot check a guess of the cases.
A gate whose ledger is a file is noted in a folder of its user too, where ledgers elsewhere find it. Whether the gate is
still open stands in the ledger. Ledgers in other databases and in memory have no notes here.
"""

import hashlib
import hmac
import json
import os
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeAlias

from holdtrue.codec import convert
from holdtrue.errors import HoldtrueError
from holdtrue.holdouts.cases import Cases
from holdtrue.holdouts.gating import had_yes, is_look
from holdtrue.holdouts.mode import Transcript, note_folders, was_told_here
from holdtrue.holdouts.terms import Facts
from holdtrue.ledgers import open_ledger
from holdtrue.ledgers.sealed_store import SealedDocument, TableStore
from holdtrue.records import Answer

__all__ = [
    "DatabaseNotes",
    "FolderNotes",
    "count_looks",
    "find_open_gate",
    "find_told",
    "is_open_at",
    "list_gates",
    "may_say_yes",
    "note_cases",
    "was_told",
]

_GATE, _TOLD = "json", "told"


class FolderNotes:
    """Notes of ledgers that are files: in a folder beside them, and those of gates in a folder of their user too.

    Without a ledger only the notes of others are read. A note for the user that cannot be written is left out: a gate
    works without a home.
    """

    def __init__(self, ledger: Path | None) -> None:
        self._ledger, self._folders = ledger, note_folders(ledger)

    def _list_places(self, ledger: Path, kind: str) -> list[Path]:
        """Return where the notes of a ledger stand: beside it, and that of a gate for its user."""
        stems = ledger.name, hashlib.sha256(bytes(ledger.resolve())).hexdigest()
        folders = self._folders if kind == _GATE else self._folders[:1]
        return [folder / f"{stem}.{kind}" for folder, stem in zip(folders, stems, strict=False)]

    def add(self, kind: str, document: dict[str, Any]) -> bool:
        """Write the notes of this ledger; return whether there was none beside it."""
        if self._ledger is None:
            return False
        beside, *others = self._list_places(self._ledger, kind)
        with suppress(OSError):
            for path in others:
                _write_note(path, {"ledger": str(self._ledger.resolve())} | document)
        return _write_note(beside, {"ledger": self._ledger.name} | document)

    def remove(self, kind: str) -> None:
        """Take the notes of this ledger back."""
        for path in self._list_places(self._ledger, kind) if self._ledger is not None else ():
            with suppress(OSError):
                path.unlink()

    def list_others(self, kinds: tuple[str, ...]) -> Iterator[tuple[str | Path, dict[str, Any]]]:
        """Return the place and the note of every other ledger."""
        own = self._ledger if self._ledger is not None and self._ledger.exists() else None
        for path in [path for folder in self._folders for path in folder.glob("*") if path.suffix[1:] in kinds]:
            with suppress(OSError, ValueError, KeyError, TypeError):  # half written: nothing was told yet
                note = json.loads(path.read_text(encoding="utf-8"))
                ledger = path.parent.parent / note["ledger"]
                if own is None or not ledger.samefile(own):
                    yield ledger, note

    def close(self) -> None:
        """Do nothing: no file stays open."""


def _write_note(path: Path, document: dict[str, Any]) -> bool:
    """Write a note that only its owner may read; return whether it was not there as it is."""
    text = json.dumps(document)
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # so that the folder says that it changed
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    return True


class DatabaseNotes:
    """Notes in a table of each ledger of one PostgreSQL database, as far as its role may read the others."""

    def __init__(self, url: str) -> None:
        self._table = TableStore(url, "cases")

    def add(self, kind: str, document: dict[str, Any]) -> bool:
        """Write the note of this ledger; return whether there was none."""
        if self._table.read_seal(kind) is not None:
            return False
        self._table.write(kind, SealedDocument(json.dumps(document), b"", ""))
        return True

    def remove(self, kind: str) -> None:
        """Take the note of this ledger back."""
        self._table.remove(kind)

    def list_others(self, kinds: tuple[str, ...]) -> Iterator[tuple[str | Path, dict[str, Any]]]:
        """Return the place and the note of every other ledger."""
        for url, kind, facts in self._table.list_elsewhere():
            if kind in kinds:
                with suppress(ValueError):
                    yield url, json.loads(facts)
        yield from FolderNotes(None).list_others(kinds)

    def close(self) -> None:
        """Close the connections."""
        self._table.close()


Notes: TypeAlias = FolderNotes | DatabaseNotes


def note_cases(notes: Notes, key: str, cases: Cases, *, gate: bool) -> bool:
    """Write the note of a gate or of looks, unless nothing tells its cases from others; return whether it is new."""
    known = cases.identify()
    if known is None:
        return False
    return notes.add(_GATE if gate else _TOLD, {"cases": cases.number, "digest": _digest(key, known)})


def find_open_gate(notes: Notes, cases: Cases) -> str | Path | None:
    """Return the place of another ledger that has a gate which is open on these cases; None if there is none."""
    noted = _read_noted(notes, cases, (_GATE,))
    return next((place for place, card, looks in noted if may_say_yes(convert(card, Facts), looks)), None)


def list_gates(notes: Notes, cases: int) -> Iterator[tuple[str | Path, str]]:
    """Return every gate that is noted with this many cases: the place of its ledger, and its digest of them."""
    return ((place, str(note.get("digest"))) for place, note in notes.list_others((_GATE,)) if note.get("cases") == cases)


def is_open_at(ledger: str | Path, digest: str, known: bytes) -> bool:
    """Return whether a ledger has a gate that is open on the cases that are known by this."""
    found = _read_looks(ledger, digest, known)
    return found is not None and may_say_yes(convert(found[0], Facts), found[1])


def find_told(notes: Notes, cases: Cases) -> bool:
    """Return whether another ledger has had looks at these cases, whatever it told of them."""
    noted = _read_noted(notes, cases, (_GATE, _TOLD))
    return any(look.verb != "incumbent" for _, _, looks in noted for look in (*looks.looks, *looks.unanswered.values()))


def was_told(cases: Cases, ledger: str | None) -> bool:
    """Return whether anything was told of these cases before, as far as it is known here and beside a ledger's place."""
    path = None if ledger is None else Path(ledger)
    with closing(DatabaseNotes(ledger) if ledger and "://" in ledger else FolderNotes(path)) as notes:
        return was_told_here(cases) or find_told(notes, cases)


def _read_noted(notes: Notes, cases: Cases, kinds: tuple[str, ...]) -> Iterator[tuple[str | Path, Any, Transcript]]:
    """Return every other ledger that is noted with these cases: its place, the facts on its card, and its looks."""
    known = None
    for place, note in notes.list_others(kinds):
        if note.get("cases") != cases.number:
            continue
        known = known or cases.identify()
        found = None if known is None else _read_looks(place, str(note.get("digest")), known)
        if found is not None:
            yield place, *found


def _read_looks(ledger: str | Path, digest: str, known: bytes) -> tuple[dict[str, Any], Transcript] | None:
    """Return the facts and the looks of a ledger; None where it is gone, or of other cases."""
    try:
        account = open_ledger(ledger)
    except HoldtrueError:
        return None
    with closing(account):
        if not hmac.compare_digest(digest, _digest(account.terms.key, known)):
            return None
        looks = Transcript(account)
        looks.follow()
        return json.loads(account.terms.card)["holdout"], looks


def may_say_yes(facts: Facts, looks: Transcript) -> bool:
    """Return whether a gate may still say yes: also where it may only if charges without an answer turn out to be a no."""
    asked, used, closed = count_looks(looks)
    told = used - sum(map(is_look, looks.unanswered.values()))
    return not closed and asked < facts.looks and told < (facts.yes or 1)


def count_looks(looks: Transcript) -> tuple[int, int, bool]:
    """Return how many looks a gate had, how many yes these may have had, and whether it was closed."""
    every = (*looks.looks, *looks.unanswered.values())
    asked = [look for look in every if is_look(look)]
    used = sum(look.told is None or had_yes(look.told) or isinstance(look.told, Answer) for look in asked)
    return len(asked), used, any(look.verb == "certify" for look in every)


def _digest(key: str, known: bytes) -> str:
    return hmac.new(bytes.fromhex(key), b"holdtrue cases of a gate" + known, hashlib.sha256).hexdigest()
