"""Results of an eval suite from a file: one value in [0, 1] a case, under an id. CSV, JSON lines or JUnit XML.

Ids are text and come back in their own order, so that files which list the cases differently are the same results. An
error names the line and what was expected there, never what stood in it.

A submission may be kept under a name, in a folder beside the ledger: which entry it is, and what a comparison needs. Its
score stands in the ledger. Results of single cases tell about the cases, so they are as private as the results file: the
folder is its owner's alone, and nothing of it is in the ledger's public text.
"""

import csv
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn, TextIO
from xml.parsers import expat

import numpy as np
import numpy.typing as npt

from holdtrue.errors import IntegrityError, InvalidParameter, RefusedError, RequestError

__all__ = ["Kept", "Names", "Results", "read_results"]

_YES, _NO = ("1", "1.0", "true", "yes", "passed"), ("0", "0.0", "false", "no", "failed")
_DIGEST = 16


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """Results by id, in the order of the ids. ``outputs`` are digests of what was put out for each case, where told."""

    ids: npt.NDArray[np.str_]
    values: npt.NDArray[np.float64]
    outputs: tuple[str, ...] | None = None

    @property
    def number(self) -> int:
        """Return how many cases there are."""
        return int(self.ids.size)


@dataclass(frozen=True, slots=True)
class _Case:
    id: str
    value: float
    output: str | None = None


def read_results(path: Path) -> Results:
    """Return the results in a file.

    CSV and JSON lines: ``id``, then ``passed`` (1, 0, true, false) or ``score`` (a number in [0, 1]), and ``output`` if
    wanted: what the submission put out. JUnit XML: the id is classname.name; a case with a failure or an error is 0, and
    so is a skipped one, since whoever could leave cases out would choose them. Fails: RequestError, by line.
    """
    readers: dict[str, Callable[[Path], Iterator[_Case]]] = {
        ".csv": _read_table,
        ".jsonl": _read_lines,
        ".ndjson": _read_lines,
        ".xml": _read_suites,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InvalidParameter("results", str(path), f"a file that ends in {', '.join(readers)}")
    try:
        cases = sorted(reader(path), key=lambda case: case.id)
    except OSError as error:
        reason = error.strerror or "cannot be read"
    except UnicodeError:
        reason = "is not UTF-8"
    else:
        return _gather_results(path, cases)
    message = f"{path}: {reason}"
    raise RequestError(message)


def _gather_results(path: Path, cases: list[_Case]) -> Results:
    if not cases:
        _refuse_file(path, "has no cases")
    ids = np.array([case.id for case in cases])
    if (ids[1:] == ids[:-1]).any():
        _refuse_file(path, "has the same id twice; ids must be unique")
    outputs = [case.output for case in cases if case.output is not None]
    if outputs and len(outputs) != len(cases):
        _refuse_file(path, "has an output for some cases and not for others")
    return Results(ids, np.array([case.value for case in cases], dtype=np.float64), tuple(outputs) or None)


def _refuse_file(path: Path, reason: str, *, line: int | None = None) -> NoReturn:
    place = "" if line is None else f" line {line}:"
    message = f"{path}:{place} {reason}"
    raise RequestError(message)


def _read_table(path: Path) -> Iterator[_Case]:
    with path.open(encoding="utf-8-sig", newline="") as text:
        rows = csv.DictReader(text, strict=True)
        try:
            names = set(rows.fieldnames or ())
            if "id" not in names or not names & {"score", "passed"}:
                _refuse_file(path, "needs columns id and score, or id and passed", line=1)
            for row in rows:
                yield _read_case(path, row, rows.line_num)
        except csv.Error:
            _refuse_file(path, "is not valid CSV", line=rows.line_num)


def _read_lines(path: Path) -> Iterator[_Case]:
    with path.open(encoding="utf-8-sig") as text:
        for number, row in _read_documents(path, text):
            yield _read_case(path, row, number)


def _read_documents(path: Path, text: TextIO) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            _refuse_file(path, "is not a JSON object", line=number)
        yield number, row


def _read_case(path: Path, row: Mapping[str, Any], line: int) -> _Case:
    name = row.get("id")
    if isinstance(name, bool) or not isinstance(name, (str, int)) or name == "":
        _refuse_file(path, "needs an id, a text or a whole number", line=line)
    if (row.get("score") is None) == (row.get("passed") is None):
        _refuse_file(path, "needs a score or passed, one of them", line=line)
    value = _read_passed(row["passed"]) if row.get("score") is None else _read_scored(row["score"])
    if value is None:
        _refuse_file(path, "needs passed to be 1 or 0, true or false, and a score to be a number in [0, 1]", line=line)
    output = row.get("output")
    return _Case(str(name), value, None if output is None else _digest_output(output))


def _read_passed(value: object) -> float | None:
    text = str(value).strip().lower()
    return 1.0 if text in _YES else 0.0 if text in _NO else None


def _read_scored(value: object) -> float | None:
    try:
        found = float(value) if isinstance(value, (str, int, float)) else -1.0
    except (ValueError, OverflowError):
        return None
    return found if 0 <= found <= 1 else None  # NaN is neither


def _digest_output(output: object) -> str:
    text = output if isinstance(output, str) else json.dumps(output, sort_keys=True)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).hexdigest()


def _read_suites(path: Path) -> Iterator[_Case]:
    """Read test cases as they come; a document type is refused before anything in it is looked at."""
    found: list[_Case] = []
    open_case: list[str] = []
    failed: set[str] = set()
    parser = expat.ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        kind = tag.rpartition("}")[2]
        if kind == "testcase":
            named = [attributes.get("classname", ""), attributes.get("name", "")]
            open_case[:] = [".".join(part for part in named if part)]
            failed.clear()
        elif open_case and kind in ("failure", "error", "skipped"):
            failed.add(kind)

    def end(tag: str) -> None:
        if tag.rpartition("}")[2] == "testcase":
            if not open_case or not open_case[0]:
                _refuse_file(path, "has a test case without a name", line=parser.CurrentLineNumber)
            found.append(_Case(open_case[0], 0.0 if failed else 1.0))
            open_case.clear()

    def doctype(*_: object) -> None:
        _refuse_file(path, "has a document type, which results need not have", line=parser.CurrentLineNumber)

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = doctype
    try:
        with path.open("rb") as content:
            parser.ParseFile(content)
    except expat.ExpatError as error:
        _refuse_file(path, "is not valid XML", line=error.lineno)
    return iter(found)


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
