"""Gates and looks, noted beside their ledgers, so that other processes know of which cases nothing may be told (V1.1).

A gate is noted when it is opened, any other holdout before its first look: a gate that is opened on its cases afterwards
says what it rests on. A note names a ledger in the same folder, and its cases by a digest under that ledger's own key:
whoever cannot read the ledger cannot check a guess of the cases. Whether the gate is still open stands in the ledger.
Ledgers in other folders, in databases and in memory have no notes here.
"""

import hashlib
import hmac
import json
import os
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from holdtrue.codec import convert
from holdtrue.errors import HoldtrueError
from holdtrue.holdouts.cases import Cases
from holdtrue.holdouts.gating import had_yes
from holdtrue.holdouts.mode import NOTES, Transcript, was_told_here
from holdtrue.holdouts.terms import Facts
from holdtrue.ledgers import open_ledger

__all__ = ["find_open_gate", "find_told", "note_cases", "was_told"]

_GATE, _TOLD = ".json", ".told"


def note_cases(folder: Path, ledger: Path, key: str, cases: Cases, *, gate: bool) -> Path | None:
    """Write the note of a gate or of looks, unless nothing tells its cases from others; return it where it is new."""
    known = cases.identify()
    path = folder / f"{ledger.name}{_GATE if gate else _TOLD}"
    if known is None or path.exists():
        return None
    folder.mkdir(mode=0o700, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump({"ledger": ledger.name, "cases": cases.number, "digest": _digest(key, known)}, file)
    return path


def find_open_gate(folder: Path, ledger: Path, cases: Cases) -> str | None:
    """Return the ledger of another gate that is open on these cases; None where there is none."""
    for name, facts, looks in _read_noted(folder, ledger, cases, (_GATE,)):
        if _is_open(facts, looks):
            return name
    return None


def find_told(folder: Path, ledger: Path, cases: Cases) -> bool:
    """Return whether another ledger has had looks at these cases, whatever it told of them."""
    noted = _read_noted(folder, ledger, cases, (_GATE, _TOLD))
    return any(look.verb != "incumbent" for _, _, looks in noted for look in (*looks.looks, *looks.unanswered.values()))


def was_told(cases: Cases, ledger: str | None) -> bool:
    """Return whether anything was told of these cases before, as far as it is known here and beside a ledger's place."""
    if was_told_here(cases):
        return True
    if ledger is None or "://" in ledger:
        return False
    place = Path(ledger)
    folder = place.parent / NOTES
    return folder.is_dir() and find_told(folder, place, cases)


def _read_noted(
    folder: Path, ledger: Path, cases: Cases, kinds: tuple[str, ...]
) -> Iterator[tuple[str, dict[str, Any], Transcript]]:
    """Return every other ledger that is noted with these cases: its name, the facts on its card, and its looks."""
    notes = [path for path in folder.glob("*") if path.suffix in kinds and path.stem != ledger.name]
    known = cases.identify() if notes else None
    for path in notes if known is not None else ():
        with suppress(OSError, ValueError, KeyError, TypeError):  # a note half written is of nothing that was told yet
            note = json.loads(path.read_text(encoding="utf-8"))
            same = note["cases"] == cases.number
            found = _read_looks(folder.parent / note["ledger"], note["digest"], known or b"") if same else None
            if found is not None:
                yield str(note["ledger"]), *found


def _read_looks(ledger: Path, digest: str, known: bytes) -> tuple[dict[str, Any], Transcript] | None:
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


def _is_open(card: dict[str, Any], looks: Transcript) -> bool:
    """Return whether a gate may still say yes."""
    facts, waiting = convert(card, Facts), list(looks.unanswered.values())
    asked = [look for look in (*looks.looks, *waiting) if look.verb == "gate"]
    used = sum(look.told is None or had_yes(look.told) for look in asked)
    closed = any(look.verb == "certify" for look in (*looks.looks, *waiting))
    return not closed and len(asked) < facts.looks and used < (facts.yes or 1)


def _digest(key: str, known: bytes) -> str:
    return hmac.new(bytes.fromhex(key), b"holdtrue cases of a gate" + known, hashlib.sha256).hexdigest()
