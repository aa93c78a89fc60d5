"""One reader for each eval tool: how its rows name a case, its scores, its repeats and what crashed.

Law of an id: it depends on the case alone, never on the model, the run or the time, so that two models' files have the same.
A reader says what must not be mixed in one file (``variants``: task, filter, provider), and the caller refuses where it is.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from holdtrue.holdouts.files.rows import ResultRows, Row, refuse_file

__all__ = ["TOOLS", "Attempt", "Tool", "digest_json", "is_missing", "read_any"]

_GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_DIGEST = 16
_TOTALS = (
    "has totals and no single cases; give the file of cases that was written with it: samples_*.jsonl of "
    "lm-evaluation-harness, *_samples.jsonl of Every Eval Ever, details_*.parquet of lighteval, "
    "per_instance_stats.json of HELM"
)
_NOTHING = ("NAType", "NaTType")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at one case, as a file has it.

    ``scores`` are by metric, unchecked; an attempt without any, or that ``crashed``, counts as 0. ``repeat`` tells attempts
    at one case apart, None where a case has one only.
    """

    place: int
    row: Row
    id: object
    scores: Mapping[str, Any]
    repeat: object = None
    crashed: bool = False
    variants: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its name, how its files are recognised from the first row, how they are read, where labels stand in them."""

    name: str
    recognise: Callable[[ResultRows, Row], bool]
    read: Callable[[ResultRows], Iterator[Attempt]]
    labels: tuple[str, ...] = ()


def digest_json(value: object) -> str:
    """Return a digest of a JSON value whatever the order of its keys. Kept submissions have it: never change it."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=_to_json)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).hexdigest()


def _to_json(value: Any) -> Any:  # noqa: ANN401 - a cell of a data frame
    """Return lists for arrays, which frames have in the place of lists, and text for all else."""
    return value.tolist() if isinstance(value, np.ndarray) else str(value)


def is_missing(value: object) -> bool:
    """Return whether a cell has nothing: None, an empty text, or what a library of data frames has for nothing."""
    return value is None or (isinstance(value, str) and not value.strip()) or type(value).__name__ in _NOTHING


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _inside(row: Any, *path: str) -> Any:  # noqa: ANN401 - JSON
    """Return what stands at a path of keys, None where there is nothing."""
    for key in path:
        row = row.get(key) if isinstance(row, Mapping) else None
    return row


def _mapping(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _items(value: object) -> list[Any]:
    return list(value) if isinstance(value, (list, np.ndarray)) else []


def _read_lm_eval(source: ResultRows) -> Iterator[Attempt]:
    for place, row in source.rows:
        scores = {name: row.get(name) for name in _items(row.get("metrics")) if isinstance(name, str)}
        case = f"{row.get('doc_id')}:{str(row.get('doc_hash'))[:_DIGEST]}"
        variants = {name: str(row[name]) for name in ("task_name", "filter") if name in row}
        yield Attempt(place, row, case, scores, variants=variants)


def _read_inspect(source: ResultRows) -> Iterator[Attempt]:
    wanted = {str(name) for name in _items(_inside(source.header, "eval", "dataset", "sample_ids"))}
    place = 0
    for place, row in source.rows:
        scores: dict[str, Any] = {}
        for name, score in _mapping(row.get("scores")).items():
            value = _inside(score, "value")
            parts = {f"{name}.{part}": held for part, held in value.items()} if isinstance(value, dict) else {name: value}
            scores |= {part: _GRADES.get(held, held) if isinstance(held, str) else held for part, held in parts.items()}
        wanted.discard(str(row.get("id")))
        yield Attempt(place, row, row.get("id"), scores, repeat=row.get("epoch"))
    for number, case in enumerate(sorted(wanted) if place else (), start=place + 1):  # never run; a log of none is no result
        yield Attempt(number, {}, case, {}, repeat=1)


def _read_every_eval_ever(source: ResultRows) -> Iterator[Attempt]:
    for place, row in source.rows:
        scores = {"score": _inside(row, "evaluation", "score")}
        variants = {name: str(row.get(name)) for name in ("evaluation_name", "model_id")}
        found = row.get("evaluation_result_id")
        variants |= {} if found is None else {"evaluation_result_id": str(found)}
        crashed, repeat = row.get("error") is not None, _inside(row, "metadata", "epoch")
        yield Attempt(place, row, row.get("sample_id"), scores, repeat=repeat, crashed=crashed, variants=variants)


def _read_lighteval(source: ResultRows) -> Iterator[Attempt]:
    for place, row in source.rows:
        doc = _mapping(row.get("doc"))
        case, variants = f"{doc.get('task_name')}:{doc.get('id')}", {"task_name": str(doc.get("task_name"))}
        yield Attempt(place, row, case, _mapping(row.get("metric")), variants=variants)


def _divide(total: object, count: object) -> float | None:
    """Return a mean; None of nothing, and of what is no number."""
    if not isinstance(total, (int, float)) or not isinstance(count, (int, float)) or not count:
        return None
    try:
        return total / count
    except OverflowError:
        return float("nan")


def _read_helm(source: ResultRows) -> Iterator[Attempt]:
    for place, row in source.rows:
        stats = {str(_inside(stat, "name", "name")): stat for stat in _items(row.get("stats"))}
        scores = {name: _divide(_inside(stat, "sum"), _inside(stat, "count")) for name, stat in stats.items()}
        variants = {"perturbation": str(_inside(row, "perturbation", "name") or "none")}
        yield Attempt(place, row, row.get("instance_id"), scores, repeat=row.get("train_trial_index"), variants=variants)


def _read_promptfoo(source: ResultRows) -> Iterator[Attempt]:
    """Read promptfoo's rows. Its own index counts repeats too, so that a case is known by its variables.

    What a case is compared with is its label, and no part of the id.
    """
    crashed = 2  # failureReason: 0 is none, 1 an assertion, 2 an error
    for place, row in source.rows:
        test = _mapping(row.get("testCase"))
        case = f"test {digest_json([test.get('description'), row.get('vars') or test.get('vars')])}"
        provider = _inside(row, "provider", "label") or _inside(row, "provider", "id") or row.get("provider")
        variants = {"provider": str(provider), "prompt": str(_inside(row, "prompt", "label"))}
        scores, failed = {"score": row.get("score")}, row.get("failureReason") == crashed
        yield Attempt(place, row, case, scores, repeat=row.get("testIdx"), crashed=failed, variants=variants)


def _read_openai_evals(source: ResultRows) -> Iterator[Attempt]:
    """Read an event log: "match" and "metrics" events are scores; a sample that has neither crashed."""
    unscored: dict[str, tuple[int, Row]] = {}
    scored: set[str] = set()
    for place, row in source.rows:
        case, kind, data = row.get("sample_id"), row.get("type"), _mapping(row.get("data"))
        if not isinstance(case, str):
            continue  # the specification and the final report
        if kind not in ("match", "metrics"):
            if case not in scored:
                unscored.setdefault(case, (place, row))
            continue
        scored.add(case)
        unscored.pop(case, None)  # rows are large, and kept only while a sample may have crashed
        scores = {"correct": data.get("correct")} if kind == "match" else data
        yield Attempt(place, row, case, scores)
    for case in sorted(unscored):
        yield Attempt(*unscored[case], case, {})


def _read_deepeval(source: ResultRows) -> Iterator[Attempt]:
    for place, row in source.rows:
        data = [part for part in _items(row.get("metricsData")) if isinstance(part, Mapping)]
        scores = {str(part.get("name")): part.get("score") for part in data if part.get("error") is None}
        yield Attempt(place, row, row.get("name"), scores)


def _take_scores(row: Row, start: str, *ends: str) -> dict[str, Any]:
    """Return the cells of a row's columns of scores that have a value; a data frame has NaN where there is none."""
    named = {name: held for name, held in row.items() if name.startswith(start) and name.endswith(ends)}
    return {name: held for name, held in named.items() if not (is_missing(held) or _is_nan(held))}


def _read_langsmith(source: ResultRows) -> Iterator[Attempt]:
    for place, row in source.rows:
        scores = {name.removeprefix("feedback."): held for name, held in _take_scores(row, "feedback.", "").items()}
        failed = isinstance(row.get("error"), str) and row["error"] != ""
        yield Attempt(place, row, str(row.get("example_id")), scores, repeat=row.get("id"), crashed=failed)


def _read_mlflow(source: ResultRows) -> Iterator[Attempt]:
    """Read a results table of MLflow. Traces are new in every run, so that a case is known by its inputs.

    What is expected of a case stands among its scores, under the names of its expectations: it is its label, and no score.
    """
    for place, row in source.rows:
        noted = [each for each in _items(row.get("assessments")) if _inside(each, "expectation") is not None]
        expected = {str(_inside(each, "assessment_name")): _inside(each, "expectation", "value") for each in noted}
        scores = {name.rpartition("/")[0]: held for name, held in _take_scores(row, "", "/value", "/score").items()}
        scores = {name: held for name, held in scores.items() if name not in expected}
        asked = next((row[name] for name in ("request", "inputs") if row.get(name) is not None), None)
        case = None if asked is None else f"request {digest_json(asked)}"
        whole = {**row, "expectations": expected} if expected else row
        yield Attempt(place, whole, case, scores, repeat=row.get("trace_id"), crashed=row.get("state") == "ERROR")


def _read_junit(source: ResultRows) -> Iterator[Attempt]:
    """Read test cases: the id is classname.name. promptfoo puts the provider into the class name, which is then no part."""
    for place, row in source.rows:
        named = [part for part in (row["classname"], row["name"]) if part]
        case, variants = ".".join(named), {}
        found = re.fullmatch(r"\[(.*)\] prompt (\d+)", row["classname"]) if row["suite"] == "promptfoo" else None
        if found is not None:
            case, variants = row["name"], {"provider": found[1], "prompt": found[2]}
        scores = {} if row["outcome"] in ("error", "skipped") else {"passed": row["outcome"] == "passed"}
        yield Attempt(place, row, case, scores, variants=variants)


def read_any(source: ResultRows) -> Iterator[Attempt]:
    """Read rows of no tool: ``id``, ``score`` or ``passed``, ``repeat`` or ``epoch``, each where it is there."""
    for place, row in source.rows:
        held = [row[name] for name in ("score", "passed") if name in row]
        told = [value for value in held if not is_missing(value)] or held[:1]
        scores = {"score": told[0]} if len(told) == 1 else {}
        repeat = next((row[name] for name in ("repeat", "epoch") if row.get(name) is not None), None)
        yield Attempt(place, row, row.get("id"), scores, repeat=repeat)


def _read_plain(source: ResultRows) -> Iterator[Attempt]:
    missing = "id" not in source.columns or not {"score", "passed"} & set(source.columns)
    if missing and (source.columns or source.kind == "table"):
        refuse_file(source.name, "needs columns id and score, or id and passed; --id and --score name others", line=1)
    for attempt in read_any(source):
        if not attempt.scores:
            reason = "needs a score or passed, one of them; --score names another field"
            refuse_file(source.name, reason, line=attempt.place, unit=source.unit)
        yield attempt


def _refuse_totals(source: ResultRows) -> Iterator[Attempt]:
    refuse_file(source.name, _TOTALS)


def _is_totals(source: ResultRows, row: Row) -> bool:
    """Return whether a file has the totals of a run, which most tools write beside its cases."""
    del source
    by_task = isinstance(row.get("results"), Mapping) and any(name.startswith("config") for name in row)
    return by_task or "evaluation_results" in row or {"name", "count", "sum", "mean"} <= row.keys()


def _has(*names: str) -> Callable[[ResultRows, Row], bool]:
    return lambda _, row: all(name in row for name in names)


def _is_openai_evals(source: ResultRows, row: Row) -> bool:
    del source
    return "spec" in row or {"run_id", "sample_id"} <= row.keys()


def _is_langsmith(source: ResultRows, row: Row) -> bool:
    del source
    return "example_id" in row and any(name.startswith("feedback.") for name in row)


def _is_mlflow(source: ResultRows, row: Row) -> bool:
    del source
    return any(name.endswith(("/value", "/score")) for name in row) and ("request" in row or "inputs" in row)


TOOLS: tuple[Tool, ...] = (
    Tool("JUnit", lambda source, _: source.kind == "junit", _read_junit),
    Tool("inspect_ai", lambda source, _: "eval" in source.header, _read_inspect, ("target",)),
    Tool("lm-evaluation-harness", _has("doc_id", "filter", "metrics"), _read_lm_eval, ("target",)),
    Tool("Every Eval Ever", _has("schema_version", "sample_id", "evaluation"), _read_every_eval_ever, ("input.reference",)),
    Tool("promptfoo", _has("testCase", "promptIdx"), _read_promptfoo, ("testCase.assert",)),
    Tool("DeepEval", _has("metricsData", "name"), _read_deepeval, ("expectedOutput",)),
    Tool("HELM", _has("instance_id", "stats"), _read_helm),
    Tool("OpenAI evals", _is_openai_evals, _read_openai_evals, ("data.expected",)),
    Tool("lighteval", _has("doc", "metric"), _read_lighteval, ("doc.gold_index",)),
    Tool("LangSmith", _is_langsmith, _read_langsmith, ("reference",)),
    Tool("MLflow", _is_mlflow, _read_mlflow, ("expectations",)),
    Tool("totals", _is_totals, _refuse_totals),
    Tool("plain", lambda _, __: True, _read_plain),
)
"""Every tool that is read unchanged, in the order in which a file is tried; the last takes any."""
