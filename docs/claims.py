"""Count the claims of the five lectures: which a page checks by code, which cannot be run, and what is missing.

Run it as ``.venv/bin/python docs/claims.py``.
"""
# ruff: noqa: INP001 - a script beside the pages, no package

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "lectures"
_NUMBERED = re.compile(r"\b(Definition|Claim|Theorem|Lemma|Corollary|Algorithm) (\d+(?:\.\d+)?)")
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

Lecture = Mapping[str, Any]


def read_index() -> list[Lecture]:
    """Return the lectures of the index, each with its page, its source and its claims."""
    return list(tomllib.loads((_FOLDER / "claims.toml").read_text(encoding="utf-8"))["lecture"])


def read_sections(page: str) -> dict[str, str]:
    """Return the sections of a page by their headings, without the exercises."""
    parts = re.split(r"^## (.*)\n", (_FOLDER / f"{page}.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = {heading: f"{heading}\n{text}" for heading, text in zip(parts[::2], parts[1::2], strict=True)}
    found.pop("Exercises")
    return found


def find_missing(lecture: Lecture) -> Iterator[str]:
    """Yield the claims whose section is not there, does not speak of them, or runs no check."""
    sections = read_sections(lecture["page"])
    for claim in lecture["claims"]:
        if "reason" in claim:
            continue
        text = sections.get(claim["section"], "")
        checked = any("assert " in block or "pytest.raises" in block for block in _BLOCK.findall(text))
        if not checked or claim.get("words", claim["item"]).lower() not in text.lower():
            yield f"{lecture['source']}: {claim['item']} ({claim['says']})"


def find_unlisted(lecture: Lecture) -> Iterator[str]:
    """Yield the sections of a page that no claim leads to, and numbered items that the page has and the index has not."""
    sections = read_sections(lecture["page"])
    used = {claim.get("section") for claim in lecture["claims"]} | set(lecture["own"])
    yield from (f"{lecture['source']}: section {heading!r}" for heading in sections if heading not in used)
    listed = {claim["item"] for claim in lecture["claims"]}
    named = {" ".join(found) for text in sections.values() for found in _NUMBERED.findall(text)}
    yield from (f"{lecture['source']}: {item}" for item in sorted(named - listed))


def main() -> int:
    """Print the claims of each lecture and what is wrong; return 1 if anything is."""
    wrong: list[str] = []
    print(f"{'source':32}{'claims':>8}{'checked':>9}{'not executable':>16}{'missing':>9}{'unlisted':>10}")  # noqa: T201 - a script
    for lecture in read_index():
        missing, unlisted = list(find_missing(lecture)), list(find_unlisted(lecture))
        total, reasons = len(lecture["claims"]), sum("reason" in claim for claim in lecture["claims"])
        counts = f"{total:8}{total - reasons - len(missing):9}{reasons:16}{len(missing):9}{len(unlisted):10}"
        print(f"{lecture['source']:32}{counts}")  # noqa: T201 - a script
        wrong += [f"missing: {each}" for each in missing] + [f"unlisted: {each}" for each in unlisted]
    print("\n".join(wrong))  # noqa: T201 - a script
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
