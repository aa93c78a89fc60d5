# ruff: noqa: INP001 - a program beside the files that it writes, not a package
"""Write deploy/requirements.lock: of requirements.lock the packages that the image needs, with their hashes.

``make lock`` runs it after the versions are pinned: ``python deploy/lock.py``. It reads what the installed packages require.
"""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "deploy" / "requirements.lock"
_EXTRAS = ("server", "postgres", "mcp")
_BLOCK = re.compile(r"^([A-Za-z0-9._-]+)==[^\n]*\\\n(?:    --hash=[^\n]*\n)+", re.MULTILINE)


def blocks_of(lock: str) -> dict[str, str]:
    """Return the lines of each package in a lock file."""
    return {canonicalize_name(found[1]): found[0] for found in _BLOCK.finditer(lock)}


def packages() -> list[str]:
    """Return every package that the image needs, to run and to be built."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    wanted += [line for extra in _EXTRAS for line in project["project"]["optional-dependencies"][extra]]
    waiting, seen = [Requirement(line) for line in wanted], set()
    while waiting:
        found = waiting.pop()
        known = (canonicalize_name(found.name), frozenset(found.extras))
        if known not in seen:
            seen.add(known)
            waiting += _required(*known)
    return sorted({name for name, _ in seen})


def _required(name: str, extras: frozenset[str]) -> Iterator[Requirement]:
    for line in requires(name) or []:
        found = Requirement(line)
        if found.marker is None or any(found.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            yield found


def text() -> str:
    """Return the lock file of the image."""
    blocks = blocks_of((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    return "".join(blocks[name] for name in packages())


if __name__ == "__main__":
    PLACE.write_text(text(), encoding="utf-8")
