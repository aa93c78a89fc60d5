"""Open gates, noted beside their ledgers, so that other processes know on which cases nothing else may be told (V1.1).

A note names a ledger in the same folder, and its cases by a digest under that ledger's own key: whoever cannot read the
ledger cannot check a guess of the cases. Whether the gate is still open stands in the ledger. Ledgers in other folders, in
databases and in memory have no notes here.
"""

import hashlib
import hmac
import json
import os
from contextlib import closing, suppress
from pathlib import Path

from holdtrue.codec import convert
from holdtrue.errors import HoldtrueError
from holdtrue.holdouts.cases import Cases
from holdtrue.holdouts.gating import had_yes
from holdtrue.holdouts.mode import Transcript
from holdtrue.holdouts.terms import Facts
from holdtrue.ledgers import open_ledger

__all__ = ["find_open_gate", "note_gate"]


def note_gate(folder: Path, ledger: Path, key: str, cases: Cases) -> Path | None:
    """Write the note of a gate, unless nothing tells its cases from others; return it where it is new."""
    known = cases.identify()
    path = folder / f"{ledger.name}.json"
    if known is None or path.exists():
        return None
    folder.mkdir(mode=0o700, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump({"ledger": ledger.name, "cases": cases.number, "digest": _digest(key, known)}, file)
    return path


def find_open_gate(folder: Path, ledger: Path, cases: Cases) -> str | None:
    """Return the ledger of another gate that is open on these cases; None where there is none."""
    notes = [path for path in folder.glob("*.json") if path.stem != ledger.name]
    known = cases.identify() if notes else None
    for path in notes if known is not None else ():
        with suppress(OSError, ValueError, KeyError, TypeError):  # a note half written is no gate that has told anything
            note = json.loads(path.read_text(encoding="utf-8"))
            if note["cases"] == cases.number and _is_open(folder.parent / note["ledger"], note["digest"], known or b""):
                return str(note["ledger"])
    return None


def _is_open(ledger: Path, digest: str, known: bytes) -> bool:
    """Return whether a ledger's gate is on these cases and may still say yes."""
    try:
        account = open_ledger(ledger)
    except HoldtrueError:  # gone
        return False
    with closing(account):
        if not hmac.compare_digest(digest, _digest(account.terms.key, known)):
            return False
        facts = convert(json.loads(account.terms.card)["holdout"], Facts)
        looks = Transcript(account)
        looks.follow()
        waiting = list(looks.unanswered.values())
    asked = [look for look in (*looks.looks, *waiting) if look.verb == "gate"]
    used = sum(look.told is None or had_yes(look.told) for look in asked)
    closed = any(look.verb == "certify" for look in (*looks.looks, *waiting))
    return not closed and len(asked) < facts.looks and used < (facts.yes or 1)


def _digest(key: str, known: bytes) -> str:
    return hmac.new(bytes.fromhex(key), b"holdtrue cases of a gate" + known, hashlib.sha256).hexdigest()
