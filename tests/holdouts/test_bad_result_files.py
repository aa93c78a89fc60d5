"""Result files that are broken, ambiguous or odd: a sentence, the tree's own errors, nothing charged and nothing quoted."""

# ruff: noqa: PD011 - values of results, not of data frames
import io
import json
import re
import tracemalloc
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdtrue as ht
from holdtrue.errors import FingerprintMismatch, HoldtrueError, InvalidParameter, RequestError
from holdtrue.holdouts.files.rows import open_rows
from holdtrue.holdouts.result_files import ResultChoice, read_results

FILES = Path(__file__).parent / "tool_files"
CANARY = "canary-4711"
ALL = sorted(path for path in FILES.iterdir() if path.suffix != ".md")


def write(folder, name, content):
    place = folder / name
    place.write_bytes(content if isinstance(content, bytes) else content.encode())
    return place


def lines(*values):
    return "".join(json.dumps(value) + "\n" for value in values)


def sample(number, **other):
    """A line as lm-evaluation-harness writes it."""
    held = {"doc_id": number, "doc_hash": f"{number:064d}", "filter": "none", "metrics": ["acc"], "acc": 1.0}
    return held | {"target": CANARY} | other


def archive(**members):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as made:
        for name, value in members.items():
            made.writestr(name, value if isinstance(value, str) else json.dumps(value))
    return held.getvalue()


def table(**columns):
    held = io.BytesIO()
    pq.write_table(pa.table(columns), held)
    return held.getvalue()


EVAL = (FILES / "inspect_first.eval").read_bytes()
HEADER = {"eval": {"dataset": {"sample_ids": ["a", "b"]}}}
BAD = {
    "truncated zip": (EVAL[:5000], "damaged or was cut short"),
    "zip with a flipped byte": (EVAL[:900] + bytes([EVAL[900] ^ 255]) + EVAL[901:], "damaged or was cut short"),
    "zip of something else": (archive(a="1"), "not a log of inspect_ai"),
    "truncated Parquet": ((FILES / "lighteval_first.parquet").read_bytes()[:4000], "not valid Parquet"),
    "compressed as a whole": (b"\x1f\x8b" + b"0" * 50, "decompress it first"),
    "truncated JSON": ((FILES / "inspect_first.json").read_bytes()[:5000], "not valid JSON"),
    "truncated lines": ((FILES / "lm_eval_first.jsonl").read_bytes()[:2500], "is not a JSON object"),
    "mixed tasks": (lines(sample(1, task_name="a"), sample(2, task_name="b")), "several values of task_name ('a', 'b')"),
    "mixed filters": (lines(sample(1), sample(1, filter="strict")), "choose one with --where filter="),
    "two metrics": (lines(sample(1, metrics=["acc", "f1"], f1=0)), "has several scores ('acc', 'f1')"),
    "a metric that changes": (lines(sample(1), sample(2, metrics=["f1"], f1=0)), "has several scores ('acc', 'f1')"),
    "NaN": (lines(sample(1, acc=float("nan"))), "NaN is none"),
    "a score of percents": (lines(sample(1, acc=87.5)), "--scale LOW,HIGH maps another range"),
    "a score that is a list": (lines(sample(1, acc=[1, 2])), "a number in [0, 1]"),
    "the same id, other values": (lines(sample(1), sample(1, acc=0.0)), "line 2: has the same id twice"),
    "two tasks with the same ids": ("id,task,score\n1,a,1\n1,b,0\n", "--where NAME=VALUE takes one task"),
    "the same attempt twice": (
        json.dumps({"eval": {}, "samples": 2 * [{"id": "a", "epoch": 1}]}),
        "entry 2: has the same id",
    ),
    "no columns of ours": (f"question,{CANARY}\n1,2\n", "needs columns id and score"),
    "two columns of scores": ("id,score,score\n1,1,0\n", "has two columns of one name"),
    "a comma in a number": ("id,score\n1,0,5\n", "line 2: has more or fewer cells than there are columns"),
    "a table that was cut short": ("id,score\n1,1\n2", "line 3: has more or fewer cells than there are columns"),
    "a number that Python alone reads": ("id,score\n1,0_1\n", "NaN is none of these"),
    "digits of another script": ("id,score\n1,\uff11\n", "NaN is none of these"),
    "no id": (lines({"score": 1}), "needs an id"),
    "no cases": (lines({"spec": {}, "final_report": {}}), "has no cases"),
    "a log without samples": (json.dumps(HEADER | {"results": {"scores": []}}), "has no cases"),
    "an archive without samples": (archive(**{"header.json": HEADER}), "has no cases"),
    "an empty list": ("[]", "has no cases"),
    "a list of texts": (f'["{CANARY}"]', "entry 1: is not a JSON object"),
    "ids that are lists": (lines({"id": [CANARY], "score": 1}), "needs an id"),
    "an id with a NUL": (lines({"id": "a\0", "score": 1}), "needs an id"),
    "an id that is half a character": ('{"id": "\\ud800", "score": 1}\n', "needs an id"),
    "sums that are no numbers": (
        lines({"instance_id": "a", "stats": [{"name": {"name": "m"}, "count": 1, "sum": 1e999}]}),
        "in [0, 1]",
    ),
    "totals of lm-evaluation-harness": (
        json.dumps({"results": {"sums": {"acc": 1}}, "configs": {}}),
        "give the file of cases",
    ),
    "totals of Every Eval Ever": ((FILES / "every_eval_ever_aggregate.json").read_bytes(), "give the file of cases"),
    "totals of HELM": (json.dumps([{"name": {"name": "m"}, "count": 1, "sum": 1, "mean": 1}]), "give the file of cases"),
    "a Parquet file of others": (table(a=[CANARY]), "needs columns id and score"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_by_a_sentence_that_quotes_no_case(tmp_path, name):
    content, said = BAD[name]
    with pytest.raises(RequestError) as caught:
        read_results(write(tmp_path, "results", content))
    assert said in str(caught.value)
    assert CANARY not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_suffixes_say_nothing(tmp_path):
    for path in ALL:
        choice = ResultChoice(score="em" if "lighteval" in path.name else "exact_match" if "helm" in path.name else None)
        renamed = write(tmp_path, "file.csv", path.read_bytes())
        told = []
        for place in (path, renamed):
            try:
                told.append(read_results(place, choice).values.tolist())
            except RequestError as error:
                told.append(str(error).removeprefix(str(place)))
        assert told[0] == told[1]


def test_scores_of_another_range_are_scaled(tmp_path):
    path = write(tmp_path, "a.csv", "id,score\na,0\nb,50\nc,100\nd,true\n")
    assert read_results(path, ResultChoice(scale=(0, 100))).values.tolist() == [0, 0.5, 1, 1]
    for scale in ((1, 1), (2, 1), (0, float("inf")), (float("nan"), 1)):
        with pytest.raises(InvalidParameter, match="the lower one first"):
            ResultChoice(scale=scale)


def test_paths_choose_ids_scores_and_rows_of_any_file(tmp_path):
    held = [
        {"case": {"name": number}, "grades": [{"by": "a", "value": number / 4}], "split": split, "a.b": True}
        for number in range(5)
        for split in ("test", "dev")
    ]
    path = write(tmp_path, "a.jsonl", lines(*held))
    choice = ResultChoice(id="case.name", score="grades.0.value", where={"split": "test", "a.b": "true"}, cluster="split")
    found = read_results(path, choice)
    assert found.ids.tolist() == ["0", "1", "2", "3", "4"]
    assert found.values.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert found.clusters == ("test",) * 5
    with pytest.raises(RequestError, match="for this --where"):
        read_results(path, ResultChoice(id="case.name", score="grades.0.value", where={"split": "train"}))
    with pytest.raises(RequestError, match=r"has no score 'grades\.1\.value' for any case"):
        read_results(path, ResultChoice(id="case.name", score="grades.1.value", where={"split": "test"}))


def test_repeats_are_averaged_and_missing_ones_count_as_nothing(tmp_path):
    path = write(tmp_path, "a.csv", "id,repeat,score\na,1,1\na,2,0\nb,1,1\n")
    found = read_results(path)
    assert (found.values.tolist(), found.repeats, found.without_score) == ([0.5, 0.5], 2, 1)


def test_a_cell_that_is_empty_counts_as_nothing(tmp_path):
    for name, text in {
        "a.csv": "id,score\na,1\nb,\n",
        "a.jsonl": lines({"id": "a", "score": 1}, {"id": "b", "score": None}),
    }.items():
        found = read_results(write(tmp_path, name, text))
        assert (found.values.tolist(), found.without_score) == ([1.0, 0.0], 1)
    named = read_results(write(tmp_path, "b.csv", "id,f1\na,1\nb,\n"), ResultChoice(score="f1"))
    assert (named.values.tolist(), named.without_score) == ([1.0, 0.0], 1)
    frame = pd.DataFrame({"id": ["a", "b"], "score": pd.array([1.0, None], dtype="Float64")})
    assert read_results(frame).without_score == 1
    both = write(tmp_path, "c.csv", "id,score,passed\na,1,\nb,,0\n")
    assert read_results(both).values.tolist() == [1.0, 0.0]


def test_odd_rows_of_tables_and_tools_are_read_or_refused(tmp_path):
    assert read_results(write(tmp_path, "a.csv", "id,score\na,1,,\n")).values.tolist() == [1.0]
    odd = {"instance_id": "a", "stats": 5, "train_trial_index": [1]}
    assert read_results(write(tmp_path, "a.json", json.dumps([odd]))).values.tolist() == [0.0]
    counts = [{"name": {"name": "m"}, "count": count, "sum": 10**400} for count in ("2", 0, None)]
    assert read_results(write(tmp_path, "a.json", json.dumps([odd | {"stats": counts}]))).without_score == 1
    assert read_results(write(tmp_path, "a.json", json.dumps([{"name": "a", "metricsData": 3}]))).without_score == 1
    frame = pd.DataFrame([["a", 1.0]])
    with pytest.raises(RequestError, match="needs columns"):
        read_results(frame)
    assert read_results(frame, ResultChoice("0", "1")).values.tolist() == [1.0]


def test_samples_that_were_never_run_count_as_nothing(tmp_path):
    held = {"id": "a", "epoch": 1, "scores": {"s": {"value": {"x": "C", "y": 0.25}}}}
    content = archive(**{"header.json": HEADER, "samples/a_epoch_1.json": held})
    path = write(tmp_path, "a.eval", content)
    found = read_results(path, ResultChoice(score="s.y"))
    assert (found.ids.tolist(), found.values.tolist(), found.without_score) == (["a", "b"], [0.25, 0.0], 1)


def test_a_log_that_was_broken_off_is_read_as_far_as_it_goes(tmp_path):
    held = {"id": "a", "epoch": 1, "scores": {"s": {"value": "C"}}}
    start = archive(**{"_journal/start.json": HEADER, "samples/a_epoch_1.json": held})
    assert read_results(write(tmp_path, "a.eval", start)).values.tolist() == [1.0, 0.0]


def test_zstd_without_support_says_what_to_do(monkeypatch):
    monkeypatch.setattr(pa, "Codec", SimpleNamespace(is_available=lambda _: False))
    with pytest.raises(RequestError, match="--log-format json"):
        read_results(FILES / "inspect_first.eval")


@pytest.mark.parametrize("shape", ["lines", "list", "samples", "archive", "csv", "events"])
def test_a_large_file_is_never_held_whole(tmp_path, shape):
    """32 MB of 64 cases: a map of the file, and one case at a time."""
    held = [{"id": number, "score": 1, "scores": {"s": {"value": "C"}}, "note": "x" * 500_000} for number in range(64)]
    match shape:
        case "lines":
            content = lines(*held)
        case "list":
            content = json.dumps(held)
        case "samples":
            content = json.dumps({"eval": {}, "samples": held})
        case "csv":
            content = "id,score,note\n" + "".join(f"{row['id']},1,{row['note']}\n" for row in held)
        case "events":
            events = [
                event
                for row in held
                for event in (
                    {"type": "sampling", "data": {"prompt": row["note"]}},
                    {"type": "match", "data": {"correct": True}},
                )
            ]
            content = lines({"spec": {}}, *(e | {"run_id": "r", "sample_id": str(n // 2)} for n, e in enumerate(events)))
            del events
        case _:
            content = archive(**{"header.json": {"eval": {}}} | {f"samples/{row['id']}.json": row for row in held})
    path = write(tmp_path, "results", content)
    del content, held
    tracemalloc.start()
    try:
        assert read_results(path).number == 64
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 5_000_000


def test_what_was_read_of_a_large_file_leaves_memory(tmp_path):
    """64 MB of lines, of which 16 MB and what the system reads ahead stay mapped."""
    path = write(tmp_path, "a.jsonl", lines(*({"id": number, "score": 1, "note": "x" * 1_000_000} for number in range(64))))
    most = 0
    for _ in open_rows(path).rows:
        kept = Path("/proc/self/smaps").read_text(encoding="utf-8").partition(str(path))[2]
        most = max(most, int(re.search(r"Rss: +(\d+) kB", kept)[1]))
    assert 1_000 < most < 40_000


# Data frames with what LangSmith and MLflow may leave out; what they wrote themselves is in test_tool_files.py.

LANGSMITH = {
    "inputs.question": ["a", "b", "c", "a"],
    "outputs.output": ["1", "2", None, "1"],
    "error": [None, None, "broke", None],
    "reference.answer": ["1", "3", "5", "1"],
    "feedback.correct": [1.0, 0.5, float("nan"), 0.0],
    "example_id": ["e1", "e2", "e3", "e1"],
    "id": ["r1", "r2", "r3", "r4"],
}
MLFLOW = {
    "trace_id": ["t1", "t2", "t3"],
    "state": ["OK", "ERROR", "OK"],
    "request": ['{"q": 1}', '{"q": 2}', '{"q": 1}'],
    "correctness/value": ["yes", "no", "no"],
}


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_data_frames_are_read(frame):
    found = read_results(frame(LANGSMITH))
    assert (found.tool, found.metric, found.labels) == ("LangSmith", "correct", "reference")
    assert found.ids.tolist() == ["e1", "e2", "e3"]
    assert (found.values.tolist(), found.repeats, found.without_score) == ([0.5, 0.25, 0.0], 2, 3)
    other = MLFLOW | {"trace_id": ["t7", "t8", "t9"]}
    found, again = read_results(frame(MLFLOW)), read_results(frame(other))
    assert found.tool == "MLflow"
    assert found.ids.tolist() == again.ids.tolist()
    assert (sorted(found.values.tolist()), found.repeats, found.without_score) == ([0, 0.5], 2, 2)
    plain = read_results(frame({"id": [2, 1], "score": [0.25, 1.0]}))
    assert (plain.ids.tolist(), plain.values.tolist()) == (["1", "2"], [1.0, 0.25])
    named = read_results(frame({"question": ["x"], "grade": [7.0]}), ResultChoice("question", "grade", scale=(0, 10)))
    assert named.values.tolist() == [0.7]


def test_a_holdout_takes_paths_frames_and_results_by_its_ids():
    numbers = np.arange(40)
    frame = pd.DataFrame({"id": numbers[::-1], "score": (numbers[::-1] % 2).astype(float)})
    with ht.Holdout(np.ones(40), looks=3, private=False, ids=numbers) as holdout:
        assert holdout.score(cases=frame).value == holdout.score(cases=read_results(frame)).value
        assert holdout.looks_left == 1
        with pytest.raises(FingerprintMismatch, match=r"1 of the 40 ids in these results .* 1 of its 40 cases"):
            holdout.score(cases=frame.assign(id=numbers + 1))
        with pytest.raises(RequestError):  # text may come from afar, and opens no files
            holdout.score(cases=str(FILES / "inspect_first.eval"))
        with pytest.raises(RequestError, match="No such file"):
            holdout.score(cases=FILES / "nothing.eval")
        with pytest.raises(InvalidParameter, match="leave them out here"):
            holdout.score(cases=frame, ids=numbers)
        assert holdout.looks_left == 1
    with ht.Holdout(np.ones(40), looks=3) as holdout, pytest.raises(InvalidParameter, match="open the holdout with ids="):
        holdout.score(cases=frame)


# Anything at all, and every file of a tool with bytes changed: either results in [0, 1], or an error of the tree.


def check(path, **choice):
    try:
        found = read_results(path, ResultChoice(**choice))
    except HoldtrueError as error:
        assert CANARY not in str(error)  # noqa: PT017 - it may be read, too
    else:
        assert found.number > 0
        assert ((found.values >= 0) & (found.values <= 1)).all()
        assert len(set(found.ids.tolist())) == found.number


TEXT = st.sampled_from(["", "a", "C", "name", "value", "score", "sum", "count", "results", "\ud800", "1e999"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
KEYS = [
    *(
        "id",
        "score",
        "passed",
        "doc_id",
        "doc_hash",
        "filter",
        "metrics",
        "acc",
        "sample_id",
        "schema_version",
        "evaluation",
    ),
    *("testCase", "promptIdx", "vars", "provider", "metricsData", "name", "instance_id", "stats", "spec", "run_id", "type"),
    *("data", "doc", "metric", "scores", "epoch", "error", "samples", "eval", "results", "testCases", "metadata", "repeat"),
]
SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
ROW = st.dictionaries(st.sampled_from(KEYS), JSON, max_size=8)


@settings(max_examples=300, suppress_health_check=SLOW)
@given(
    st.lists(ROW, max_size=4),
    st.sampled_from(["lines", "list", "object", "archive"]),
    st.sampled_from([None, "score", "a.0"]),
)
def test_odd_json_is_refused_within_the_tree(tmp_path, held, shape, path):
    match shape:
        case "lines":
            content = lines(*held)
        case "list":
            content = json.dumps(held)
        case "object":
            content = json.dumps({"samples": held, "eval": held, "results": {"results": held}})
        case _:
            names = {f"samples/{number}.json": row for number, row in enumerate(held)}
            content = archive(**{"header.json": HEADER} | names)
    check(write(tmp_path, "file.jsonl", content), score=path, id=path and "id")


@settings(max_examples=300, suppress_health_check=SLOW)
@given(st.sampled_from(ALL), st.floats(0, 1), st.binary(max_size=4), st.booleans())
def test_changed_bytes_are_refused_within_the_tree(tmp_path, path, where, new, cut):
    content = path.read_bytes()
    place = int(where * len(content))
    check(write(tmp_path, path.name, content[:place] + new + (b"" if cut else content[place + len(new) :])))


@settings(max_examples=200, suppress_health_check=SLOW)
@given(
    st.binary(max_size=200),
    st.sampled_from([b"", b"PK\x03\x04", b"PAR1", b"<", b"{", b"[", b"id,score\n", b"\xef\xbb\xbf{"]),
)
def test_any_bytes_are_refused_within_the_tree(tmp_path, content, start):
    check(write(tmp_path, "file.txt", start + content))
