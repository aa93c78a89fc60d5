"""Results of an eval suite, as the tool wrote them: one value in [0, 1] per case, under an id that no model changes.

Ids are text and come back in their own order, so that files which list the cases differently are the same results.
Repeats of a case are averaged; a repeat that crashed or has no score counts as 0. An error names the place and what was
expected there, never what stood in it.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from holdtrue.errors import FingerprintMismatch, InvalidParameter, RequestError
from holdtrue.holdouts.files.rows import ResultRows, Row, open_frame, open_rows, refuse_file
from holdtrue.holdouts.files.tools import TOOLS, Attempt, Tool, digest_json, is_missing, read_any

__all__ = ["ResultChoice", "Results", "check_ids", "compare_ids", "is_result_source", "read_results"]

_YES, _NO = ("1", "1.0", "true", "yes", "passed"), ("0", "0.0", "false", "no", "failed")
_RANGE = "needs a score that is a number in [0, 1], or passed that is 1 or 0, true or false"
_SCALE = "; --scale LOW,HIGH maps another range, such as --scale 0,100"
_SHOWN = 12
_LABELS = ("label", "labels", "target", "expected", "expected_output", "gold", "reference", "y_true")


@dataclass(frozen=True, slots=True)
class ResultChoice:
    """What to take from a result file where it leaves a choice; paths are keys with dots between: ``doc.id``, ``scores.0``.

    ``score``: a metric by its name, or a path. ``id``: a path instead of the tool's own id. ``where``: only rows with these
    values, by path or by what the tool tells apart (filter, provider, task_name). ``scale``: the range of the scores, where
    it is not [0, 1]. ``output``: a path to what the model put out; take it only where equal outputs have equal scores and
    nobody who saw labels had a hand in them, since outputs are public. ``cluster``: a path to what cases have in common.
    """

    id: str | None = None
    score: str | None = None
    where: Mapping[str, str] = field(default_factory=dict)
    scale: tuple[float, float] = (0.0, 1.0)
    output: str | None = None
    cluster: str | None = None

    def __post_init__(self) -> None:
        low, high = self.scale
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InvalidParameter("scale", self.scale, "two finite numbers, the lower one first")


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """Results by id, in the order of the ids.

    ``outputs`` are digests of what was put out for each case, where told, ``clusters`` what cases have in common. ``tool``
    and ``metric`` say how the file was read, ``labels`` where labels stand in it. ``repeats`` is how often a case was tried,
    ``without_score`` how many of these attempts count as 0 as they crashed or are missing: a fact about the cases, for who
    has the file.
    """

    ids: npt.NDArray[np.str_]
    values: npt.NDArray[np.float64]
    outputs: tuple[str, ...] | None = None
    clusters: tuple[str, ...] | None = None
    tool: str = "plain"
    metric: str = "score"
    labels: str | None = None
    repeats: int = 1
    without_score: int = 0

    @property
    def number(self) -> int:
        """Return how many cases there are."""
        return int(self.ids.size)


def is_result_source(values: object) -> bool:
    """Return whether results are to be read from this: a path, a data frame, or results that were read.

    Text is no path here: it may come from afar, and must not open files.
    """
    return isinstance(values, (PathLike, Results)) or (hasattr(values, "columns") and hasattr(values, "__getitem__"))


def read_results(source: object, choice: ResultChoice | None = None) -> Results:
    """Return the results in a file that an eval tool wrote, or in a data frame.

    The tool is recognised by what the file holds. CSV, JSON lines and data frames of no tool have ``id`` and ``passed`` (1,
    0, true, false) or ``score``, and ``output`` and ``repeat`` if wanted. Fails: RequestError, by line; nothing is charged.
    """
    if isinstance(source, Results):
        return source
    wanted = choice or ResultChoice()
    if not isinstance(source, (str, PathLike)):
        return _Gathering(open_frame(source), wanted).gather()
    path = Path(source)
    try:
        return _Gathering(open_rows(path), wanted).gather()
    except OSError as error:
        reason = error.strerror or "cannot be read"
    except UnicodeError:
        reason = "is not UTF-8"
    message = f"{path}: {reason}"
    raise RequestError(message)


def compare_ids(found: Iterable[str], known: Iterable[str]) -> str:
    """Return how many ids are not those of the holdout, some of them, and how many cases have none; nothing if all agree."""
    given, wanted = set(found), set(known)
    wrong, missing = sorted(given - wanted), len(wanted - given)
    if not wrong:
        return f"{missing:,} of the {len(wanted):,} cases of the holdout are not in these results" if missing else ""
    such = f"{', '.join(case[:40] for case in wrong[:3])}{', …' if len(wrong) > 3 else ''}"  # noqa: PLR2004
    return (
        f"{len(wrong):,} of the {len(given):,} ids in these results are not ids of the holdout ({such}), and {missing:,} of "
        f"its {len(wanted):,} cases are not in them"
    )


def check_ids(found: Iterable[str], known: Iterable[str]) -> None:
    """Refuse results whose ids are not those of the holdout: FingerprintMismatch, with how many, and some of them."""
    words = compare_ids(found, known)
    if words:
        message = f"{words}; every look is at all of them, and --id PATH takes ids from another field, such as --id doc_id"
        raise FingerprintMismatch(message)


def _find(row: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    """Return what stands at a path, None where there is nothing; a key may itself have dots."""
    if isinstance(row, (list, tuple)):
        head, _, rest = path.partition(".")
        found = row[int(head)] if head.isdecimal() and int(head) < len(row) else None
        return found if not rest else _find(found, rest)
    if not isinstance(row, Mapping):
        return None
    if path in row:
        return row[path]
    for place, sign in enumerate(path):
        if sign == "." and path[:place] in row:
            return _find(row[path[:place]], path[place + 1 :])
    return None


def _is_plain(text: str) -> bool:
    """Return whether text is there, and can be stored anywhere: no NUL, no half of a character."""
    return bool(text) and "\0" not in text and text.encode("utf-8", "ignore").decode() == text


def _text_of(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _recognise(source: ResultRows) -> tuple[ResultRows, Tool, Row]:
    """Return the tool that wrote a file, by its first row, and the rows with that one put back."""
    first = next(source.rows, None)
    if first is None and "eval" not in source.header and not source.columns:
        refuse_file(source.name, "has no cases")
    row = dict.fromkeys(source.columns) if first is None else first[1]
    tool = next(tool for tool in TOOLS if tool.recognise(source, row))
    rows = iter(()) if first is None else _put_back(first, source.rows)
    return ResultRows(source.kind, source.name, rows, source.header, source.columns, source.unit), tool, row


def _put_back(first: tuple[int, Row], rest: Iterator[tuple[int, Row]]) -> Iterator[tuple[int, Row]]:
    yield first
    yield from rest


class _Gathering:
    """Attempts of one file on their way to one value per case."""

    def __init__(self, source: ResultRows, choice: ResultChoice) -> None:
        self.source, self.tool, first = _recognise(source)
        self.choice, self.metric = choice, choice.score
        self.known: set[str] = set()
        self.variants: dict[str, set[str]] = {}
        self.values: dict[str, dict[str, float | None]] = {}
        self.outputs: dict[str, list[str]] = {}
        self.clusters: dict[str, str] = {}
        plain = self.tool.name == "plain"
        self.read = read_any if plain and (choice.id or choice.score) else self.tool.read
        self.output = choice.output or ("output" if plain else None)
        self.labels = _find_labels(first, _LABELS) if plain else None

    def refuse(self, reason: str, place: int | None = None) -> NoReturn:
        """Refuse the file, or an entry of it."""
        refuse_file(self.source.name, reason, line=place, unit=self.source.unit)

    def gather(self) -> Results:
        """Return the results, or refuse the file."""
        seen: set[str] = set()
        for attempt in self.read(self.source):
            seen.update(attempt.variants[path] for path in self.choice.where.keys() & attempt.variants.keys())
            if all(self._has(attempt, path, value) for path, value in self.choice.where.items()):
                self._check_variants(attempt)
                self._add(attempt)
                self.labels = self.labels or _find_labels(attempt.row, self.tool.labels)
        if not self.values:
            self.refuse("has no cases" + (f" for this --where{_list_names(seen)}" if self.choice.where else ""))
        names = sorted(self.values)
        repeats = max(len(held) for held in self.values.values())
        told = [value for held in self.values.values() for value in held.values() if value is not None]
        if self.choice.score is not None and not told:
            self.refuse(f"has no score {self.choice.score!r} for any case{_list_names(self.known)}")
        values = [math.fsum(value or 0.0 for value in self.values[name].values()) / repeats for name in names]
        if self.outputs and len(self.outputs) != len(names):
            self.refuse("has an output for some cases and not for others")
        outputs = tuple(_join_digests(self.outputs[name]) for name in names) if self.outputs else None
        clusters = tuple(self.clusters[name] for name in names) if self.choice.cluster else None
        how = (self.tool.name, self.metric or "score", self.labels)
        missing = repeats * len(names) - len(told)
        return Results(np.array(names), np.array(values), outputs, clusters, *how, repeats=repeats, without_score=missing)

    def _has(self, attempt: Attempt, path: str, value: str) -> bool:
        found = attempt.variants[path] if path in attempt.variants else _find(attempt.row, path)
        return found is not None and _text_of(found) == value

    def _check_variants(self, attempt: Attempt) -> None:
        """Refuse a file that mixes tasks, filters, prompts or providers: their scores are no repeats of each other."""
        for name, value in attempt.variants.items():
            seen = self.variants.setdefault(name, set())
            seen.add(value)
            if len(seen) > 1:
                self.refuse(f"mixes several values of {name}{_list_names(seen)}; choose one with --where {name}=...")

    def _add(self, attempt: Attempt) -> None:
        name = self._name(attempt)
        attempts = self.values.setdefault(name, {})
        repeat = _text_of(attempt.repeat)
        if repeat in attempts:
            words = "has the same id twice; a column repeat tells attempts apart, and --where NAME=VALUE takes one task"
            self.refuse(words, attempt.place)
        attempts[repeat] = self._score(attempt)
        output = None if self.output is None else _find(attempt.row, self.output)
        if output is not None:
            self.outputs.setdefault(name, []).append(digest_json(output))
        if self.choice.cluster is not None:
            self.clusters[name] = _text_of(_find(attempt.row, self.choice.cluster))

    def _name(self, attempt: Attempt) -> str:
        value = attempt.id if self.choice.id is None or not attempt.row else _find(attempt.row, self.choice.id)
        if isinstance(value, bool) or not isinstance(value, (str, int)) or not _is_plain(str(value)):
            self.refuse("needs an id, a text or a whole number; --id names the field that has it", attempt.place)
        return str(value)

    def _score(self, attempt: Attempt) -> float | None:
        """Return one attempt's score in [0, 1], None where it has none."""
        self.known.update(attempt.scores)
        if attempt.crashed:
            return None
        if self.metric is None and attempt.scores:
            if len(attempt.scores) > 1:
                self.refuse(f"has several scores{_list_names(self.known)}; choose one with --score")
            self.metric = next(iter(attempt.scores))
        if self.metric is None:
            return None
        by_name = self.choice.score is None or self.metric in self.known
        value = attempt.scores.get(self.metric) if by_name else _find(attempt.row, self.metric)
        if is_missing(value):
            if attempt.scores and self.metric not in attempt.scores and self.choice.score is None:
                self.refuse(f"has several scores{_list_names(self.known)}; choose one with --score")
            return None
        return self._scale(value, attempt.place)

    def _scale(self, value: object, place: int) -> float:
        low, high = self.choice.scale
        text = str(value).strip().lower() if isinstance(value, (str, bool, np.bool_)) else ""
        number = high if text in _YES[2:] else low if text in _NO[2:] else _to_number(value)
        if number is None or math.isnan(number):
            self.refuse(f"{_RANGE}; NaN is none of these", place)
        scaled = (number - low) / (high - low)
        if not 0 <= scaled <= 1:
            self.refuse(_RANGE + _SCALE, place)
        return scaled


def _join_digests(digests: list[str]) -> str:
    return digests[0] if len(digests) == 1 else digest_json(sorted(digests))


def _to_number(value: object) -> float | None:
    if isinstance(value, str) and ("_" in value or not value.isascii()):  # Python takes 0_1 for 1
        return None
    try:
        return float(value) if isinstance(value, (str, int, float, np.number)) else None
    except (ValueError, OverflowError):
        return None


def _list_names(names: set[str]) -> str:
    """Return names for an error: of metrics, filters, tasks or providers, which are public."""
    shown = sorted(names)
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return f" ({', '.join(map(repr, shown[:_SHOWN]))}{more})" if shown else ""


def _find_labels(row: Row, known: tuple[str, ...]) -> str | None:
    """Return where labels stand in a row: the first of these paths that it has, also as the start of a column's name."""
    for path in known:
        if _find(row, path) is not None or any(name.startswith(f"{path}.") for name in row):
            return path
    return None
