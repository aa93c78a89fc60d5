"""The labels of a holdout that is registered: in the request itself, or in a file of a folder that is open for data."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from holdtrue.errors import InvalidParameter, RequestError

__all__ = ["labels_of"]

_EXPECTED = "a .npy, .json or .csv file in one of the folders that the settings name as data"
_TABLE = "left out, but for a path to a table"
_LARGEST = 1 << 30


def labels_of(document: Mapping[str, Any], *, folders: Sequence[Path]) -> object:
    """Return the labels: ``y_true``, those in the file at ``path``, or ones for as many ``cases`` as have results elsewhere.

    Fails: RequestError, in words that hold nothing of the file but its kind.
    """
    given = [name for name in ("y_true", "path", "cases") if document.get(name) is not None]
    if len(given) != 1:
        raise InvalidParameter("y_true", "none or several", "given, or path, or cases: one of them")
    if document.get("column") is not None and given != ["path"]:
        raise InvalidParameter("column", "given", _TABLE)
    match given[0]:
        case "y_true":
            return document["y_true"]
        case "cases":
            return np.ones(int(document["cases"]))
        case _:
            return _from_file(_place(document["path"], folders), document.get("column"))


def _place(path: object, folders: Sequence[Path]) -> Path:
    """Return a file that lies in one of the folders, links followed."""
    if isinstance(path, str) and path and "\0" not in path:
        for folder in folders:
            try:
                place = (folder / path).resolve()
                if place.is_relative_to(folder.resolve()) and place.is_file() and place.stat().st_size <= _LARGEST:
                    return place
            except (OSError, RuntimeError):  # a name too long, a ring of links, a folder that is closed to us
                continue
    raise InvalidParameter("path", "what was given", _EXPECTED)


def _from_file(place: Path, column: str | None) -> object:
    if column is not None and place.suffix.lower() != ".csv":
        raise InvalidParameter("column", "given", _TABLE)
    try:
        match place.suffix.lower():
            case ".npy":
                return np.load(place, allow_pickle=False)
            case ".json":
                return json.loads(place.read_text(encoding="utf-8"))
            case ".csv":
                with place.open(encoding="utf-8-sig", newline="") as text:
                    return _column(csv.DictReader(text, strict=True), column)
    except (OSError, ValueError, csv.Error, RecursionError, EOFError):
        pass
    else:
        raise InvalidParameter("path", "what was given", _EXPECTED)
    message = "the file of labels cannot be read as its ending says"
    raise RequestError(message)


def _column(table: "csv.DictReader[str]", column: str | None) -> list[Any]:
    names = list(table.fieldnames or ())
    chosen = names[0] if column is None and len(names) == 1 else column
    if chosen is None or chosen not in names:
        raise InvalidParameter("column", "what was given", "the name of the column of labels")
    values = [row[chosen] for row in table]
    return _numbers(values)


def _numbers(values: list[Any]) -> list[Any]:
    """Return numbers where every cell is one, texts as they are otherwise."""
    for kind in (int, float):
        try:
            return [kind(value) for value in values]
        except (ValueError, TypeError):
            continue
    return values
