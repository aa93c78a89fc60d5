"""Submissions kept under a name, in a folder beside the ledger: which entry each is, and what a comparison needs.

A submission's score stands in the ledger. Results of single cases tell about the cases, so they are as private as the
results file: the folder is its owner's alone, and nothing of it is in the ledger's public text.
"""

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from holdtrue.errors import IntegrityError, RefusedError

__all__ = ["Kept", "Names"]


@dataclass(frozen=True, slots=True)
class Kept:
    """A named submission: the charge it is in the ledger, its receipt, and results with digests of outputs, where told."""

    name: str
    entry: int = 0
    digest: str = ""
    values: tuple[float, ...] | None = None
    outputs: tuple[str, ...] | None = None


class Names:
    """One file a name, written whole or not at all; the last submission of a name is the one that counts."""

    def __init__(self, ledger: str) -> None:
        if "://" in ledger:
            message = "names are kept in a folder beside the ledger, so the ledger must be a file"
            raise RefusedError(message)
        self.folder = Path(f"{ledger}.names")

    def keep(self, kept: Kept) -> None:
        """Write a submission down under its name."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = self._place(kept.name)
        draft = place.with_suffix(f".{os.getpid()}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as text:
            json.dump(asdict(kept), text)
            text.flush()
            os.fsync(text.fileno())
        draft.replace(place)

    def find(self, name: str) -> Kept | None:
        """Return what a name stands for; None where it is not known."""
        place = self._place(name)
        if not place.exists():
            return None
        try:
            held = json.loads(place.read_text(encoding="utf-8"))
            pieces = {part: None if held[part] is None else tuple(held[part]) for part in ("values", "outputs")}
            return Kept(str(held["name"]), int(held["entry"]), str(held["digest"]), **pieces)
        except (ValueError, KeyError, TypeError):
            pass
        message = f"{place}: what is kept of this submission cannot be read"
        raise IntegrityError(message)

    def _place(self, name: str) -> Path:
        # People choose names, and a name is not a path.
        return self.folder / f"{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"
