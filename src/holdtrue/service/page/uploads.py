"""Files that come with a form: labels, predictions, and results as an eval tool wrote them.

A file is read in a folder of its own, which is gone afterwards; what is kept of it is in the request that it becomes.
"""

import csv
import io
import json
import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.requests import Request

from holdtrue.errors import InvalidParameter, RequestError
from holdtrue.holdouts.result_files import ResultChoice, Results, read_results
from holdtrue.service.http.problems import Refused
from holdtrue.service.page.access import text_of

__all__ = [
    "Upload",
    "UploadedForm",
    "read_choice",
    "read_result_file",
    "read_rows",
    "read_values",
    "to_value",
    "upload_form_of",
]

_BOUNDARY = re.compile(r'multipart/form-data;.*\bboundary="?([0-9A-Za-z\'()+_,./:=? -]{1,70})"?', re.IGNORECASE)
_NAME = re.compile(r'[; ]name="([^"]*)"')
_FILE = re.compile(r'[; ]filename="([^"]*)"')
_MOST_PARTS = 60
_PREDICTED = ("prediction", "predictions", "predicted", "y_pred", "pred", "label", "labels", "y_true", "target", "answer")
_IDS = ("id", "case_id", "case", "doc_id", "sample_id")
_WHOLE = re.compile(r"[+-]?\d{1,15}")


@dataclass(frozen=True, slots=True, eq=False)
class Upload:
    """A file as the browser sent it; ``name`` is what it is called there."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True, eq=False)
class UploadedForm:
    """A form with files: its fields, and the files that were chosen, by the names of their fields."""

    fields: dict[str, str]
    files: dict[str, Upload]

    def find_file(self, name: str) -> Upload:
        """Return the file of a field; InvalidParameter where none was chosen."""
        found = self.files.get(name)
        if found is None or not found.content:
            raise InvalidParameter.saying(name, "choose a file that is not empty")
        return found


async def upload_form_of(request: Request) -> UploadedForm:
    """Return the fields and files of a form; what is not a form with files is refused with 415, a broken one with 400."""
    media = request.headers.get("content-type", "")
    found = _BOUNDARY.match(media)
    if found is None:
        raise Refused(415, "another kind of body", "the page sends its files as multipart/form-data")
    parts = (b"\r\n" + await request.body()).split(b"\r\n--" + found[1].encode("ascii"))
    if len(parts) > _MOST_PARTS or len(parts) < 2 or not parts[-1].startswith(b"--"):  # noqa: PLR2004 - a part and an end
        raise Refused(400, "unreadable form", "the form could not be read")
    form = UploadedForm({}, {})
    for part in parts[1:-1]:
        _read_part(part, form)
    request.scope["form"] = form.fields | dict.fromkeys(form.files, "")
    return form


def _read_part(part: bytes, form: UploadedForm) -> None:
    head, gap, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
    lines = head.decode("utf-8", "replace").split("\r\n")
    disposition = next((line for line in lines if line.lower().startswith("content-disposition:")), "")
    name, file = _NAME.search(disposition), _FILE.search(disposition)
    try:
        text = content.decode("utf-8") if file is None else None
    except UnicodeDecodeError:
        name = None
    if not gap or name is None:
        raise Refused(400, "unreadable form", "the form could not be read")
    if file is not None:
        form.files[name[1]] = Upload(file[1], content)
    elif text is not None:
        form.fields[name[1]] = text


def read_choice(form: Mapping[str, str]) -> ResultChoice:
    """Return what to take from a result file where it leaves a choice, as the fields of a form say."""
    pairs = [pair.partition("=") for pair in re.split(r"[,;\s]+", text_of(form, "where", longest=400)) if pair]
    if not all(path and sign for path, sign, _ in pairs):
        raise InvalidParameter.saying("where", "write where as a name, =, and a value: filter=strict-match")
    scale = [word for word in re.split(r"[,;\s]+", text_of(form, "scale", longest=100)) if word] or ["0", "1"]
    try:
        low, high = map(float, scale)
    except ValueError:
        raise InvalidParameter.saying("scale", "write scale as two numbers: 0, 100") from None
    score, case = text_of(form, "metric", longest=200).strip(), text_of(form, "id", longest=200).strip()
    return ResultChoice(case or None, score or None, {path: value for path, _, value in pairs}, (low, high))


def read_result_file(upload: Upload, choice: ResultChoice) -> Results:
    """Return the results in a file of any tool that :mod:`holdtrue.holdouts.result_files` knows.

    Fails: RequestError, which calls the file the file and the options by the names of the fields.
    """
    with tempfile.TemporaryDirectory(prefix="holdtrue-upload-") as folder:
        path = Path(folder) / "results"
        path.write_bytes(upload.content)
        try:
            return read_results(path, choice)
        except RequestError as error:
            words = (
                str(error).replace(f"{path}: line", "line").replace(f"{path}:", "the file").replace(str(path), "the file")
            )
            words = words.replace("--score", "metric").replace("--", "").replace("'", "")
    said = {"metric": choice.score is not None and "no score" in words, "where": bool(choice.where) and "where" in words}
    said["id"] = choice.id is not None and "id names" in words
    raise InvalidParameter.saying(next((field for field, wrong in said.items() if wrong), "file"), words)


def read_values(upload: Upload, *, column: str | None = None) -> tuple[list[Any], list[str] | None]:
    """Return one value per case and the ids of the cases, if there are any: of a CSV file, or of JSON.

    CSV has a header; a column of ids is called id. JSON is a list of values, or an object of values by id.
    """
    try:
        text = upload.content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidParameter.saying("file", "the file is not text in UTF-8; give CSV or JSON") from None
    if text.lstrip()[:1] in ("[", "{"):
        return _read_json(text)
    return _read_table(text, column)


def read_rows(upload: Upload) -> list[dict[str, Any]]:
    """Return the rows of a CSV file with a header, one mapping from columns to values per row."""
    try:
        text = upload.content.decode("utf-8-sig")
        rows = [row for row in csv.reader(io.StringIO(text), strict=True) if row]
    except (UnicodeDecodeError, csv.Error):
        rows = []
    if len(rows) < 2 or any(len(row) != len(rows[0]) for row in rows) or len(set(rows[0])) < len(rows[0]):  # noqa: PLR2004 - a header and a row
        raise InvalidParameter.saying("file", "the file must be CSV in UTF-8, with a header and one line per row")
    heads = [name.strip() for name in rows[0]]
    return [{name: to_value(cell.strip()) for name, cell in zip(heads, row, strict=True)} for row in rows[1:]]


def to_value(cell: str) -> str | int | float | bool | None:
    """Return what a cell of text says: a whole number, a number, yes or no, nothing, or the text itself."""
    if cell.lower() in ("true", "false"):
        return cell.lower() == "true"
    if _WHOLE.fullmatch(cell):
        return int(cell)
    try:
        number = float(cell)
    except ValueError:
        return cell or None
    return number if math.isfinite(number) else cell


def _read_json(text: str) -> tuple[list[Any], list[str] | None]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict) and document:
        return list(document.values()), [str(name) for name in document]
    if not isinstance(document, list) or not document:
        raise InvalidParameter.saying("file", "the file must be a JSON list of values, or an object of values by id")
    return document, None


def _read_table(text: str, column: str | None) -> tuple[list[Any], list[str] | None]:
    try:
        rows = [row for row in csv.reader(io.StringIO(text), strict=True) if row]
    except csv.Error:
        rows = []
    if len(rows) < 2 or any(len(row) != len(rows[0]) for row in rows):  # noqa: PLR2004 - a header and a case
        raise InvalidParameter.saying("file", "the file must be CSV with a header and one line per case, or JSON")
    heads = [name.strip() for name in rows[0]]
    ids = next((heads.index(name) for name in _IDS if name in heads), None)
    place = _find_column(heads, column, ids)
    named = None if ids is None else [row[ids] for row in rows[1:]]
    return _to_values([row[place] for row in rows[1:]]), named


def _find_column(heads: Sequence[str], column: str | None, ids: int | None) -> int:
    if column is not None:
        if column not in heads:
            raise InvalidParameter.saying("column", "the file has no column of this name")
        return heads.index(column)
    known = [heads.index(name) for name in _PREDICTED if name in heads]
    others = [place for place in range(len(heads)) if place != ids]
    if known or len(others) == 1:
        return (known or others)[0]
    raise InvalidParameter.saying("column", "say which column of the file has the values")


def _to_values(cells: Sequence[str]) -> list[Any]:
    """Return whole numbers, or numbers, where every cell is one; otherwise the texts unchanged."""
    if all(_WHOLE.fullmatch(cell) for cell in cells):
        return [int(cell) for cell in cells]
    try:
        return [float(cell) for cell in cells]
    except ValueError:
        return list(cells)
