"""Files that the tools wrote (write_tool_files.py) give what a plain CSV gives: values, scores, comparisons, gates."""

# ruff: noqa: PD011 - values of results, not of data frames
import json
import re
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest

import holdtrue as ht
from holdtrue.holdouts.cases import cases_of
from holdtrue.holdouts.result_files import ResultChoice, read_results
from holdtrue.holdouts.submissions import case_comparison

HERE = Path(__file__).parent
FILES = HERE / "tool_files"
sys.path.insert(0, str(HERE / "tool_writers"))
from sums import MODELS, NUMBERS, expected  # noqa: E402 - shared with the tools that wrote the files

STRICT = {"score": "exact_match", "where": {"filter": "strict-match"}}
# tool, file, what must be chosen, where the number of the sum stands, repeats, what a reply that begins right is worth
TOOLS = [
    ("inspect_ai", "inspect_{}.eval", {}, "id", 2, 0.5),
    ("inspect_ai", "inspect_{}.json", {}, "id", 2, 0.5),
    ("lm-evaluation-harness", "lm_eval_{}.jsonl", STRICT, "doc.question", 1, 0),
    ("lighteval", "lighteval_{}.parquet", {"score": "em"}, "doc.id", 1, 0),
    ("HELM", "helm_{}.json", {"score": "exact_match"}, "instance_id", 2, 0),
    ("promptfoo", "promptfoo_{}.jsonl", {}, "vars.number", 2, 0),
    ("promptfoo", "promptfoo_both.json", {"where": {"provider": "MODEL"}}, "vars.number", 1, 0),
    ("JUnit", "promptfoo_{}.junit.xml", {}, "name", 1, 0),
    ("OpenAI evals", "openai_evals_{}.jsonl", {}, "sample_id", 1, 0),
    ("DeepEval", "deepeval_{}.json", {"score": "Exact"}, "name", 1, 0),
    ("Every Eval Ever", "every_eval_ever_{}.jsonl", {}, "sample_id", 2, 0.5),
    ("LangSmith", "langsmith_{}.parquet", {}, "inputs.question", 2, 0),
    ("MLflow", "mlflow_{}.parquet", {}, "request.question", 2, 0),
]
NAMES = [name.format("").replace("_.", ".") for _, name, *_ in TOOLS]


def read(tool, model, **other):
    """Read a tool's file of a model, as a test asks for it."""
    _, name, choice, *_ = tool
    chosen = json.loads(json.dumps(choice).replace("MODEL", model))
    return read_results(FILES / name.format(model), ResultChoice(**chosen | other))


@pytest.fixture(params=TOOLS, ids=NAMES)
def tool(request):
    return request.param


def number_of(text):
    return int(re.search(r"\d+", text.replace("dev.", ""))[0])


def test_every_tool_is_recognised_and_its_values_are_those_of_the_run(tool):
    name, _, _, path, repeats, partial = tool
    for model in MODELS:
        found = read(tool, model, id=path)
        assert (found.tool, found.repeats, found.number) == (name, repeats, len(NUMBERS))
        values = {number_of(case): value for case, value in zip(found.ids.tolist(), found.values.tolist(), strict=True)}
        assert values == expected(model, repeats=repeats, partial=partial)


def test_ids_do_not_depend_on_the_model(tool):
    first, second = (read(tool, model) for model in MODELS)
    assert first.ids.tolist() == second.ids.tolist()
    assert len(set(first.ids.tolist())) == len(NUMBERS)


def test_what_crashed_is_counted_and_worth_nothing(tool):
    name, _, _, _, repeats, _ = tool
    tells = name not in ("lm-evaluation-harness", "lighteval", "HELM")  # these have no word for it
    assert [read(tool, model).without_score for model in MODELS] == [0, repeats if tells else 0]


def test_a_file_says_where_its_labels_stand(tool):
    known = {"inspect_ai": "target", "lm-evaluation-harness": "target", "Every Eval Ever": "input.reference"}
    known |= {"promptfoo": "testCase.assert", "DeepEval": "expectedOutput", "OpenAI evals": "data.expected"}
    known |= {"lighteval": "doc.gold_index", "LangSmith": "reference", "MLflow": "expectations"}
    assert read(tool, "first").labels == known.get(tool[0])


@pytest.mark.parametrize("load", [pd.read_parquet, pl.read_parquet, pq.read_table], ids=["pandas", "polars", "arrow"])
@pytest.mark.parametrize("name", ["langsmith", "mlflow"])
def test_a_frame_is_read_as_its_file(name, load, tmp_path):
    for model in MODELS:
        path = FILES / f"{name}_{model}.parquet"
        found, again = read_results(path), read_results(load(path))
        plain = tmp_path / "frame.jsonl"
        pd.read_parquet(path).to_json(plain, orient="records", lines=True)
        for other in (again, read_results(plain)):
            assert other.ids.tolist() == found.ids.tolist()
            assert (other.values.tolist(), other.without_score) == (found.values.tolist(), found.without_score)
            assert (other.tool, other.metric, other.labels) == (found.tool, "exact", found.labels)


def test_scores_comparisons_and_gates_are_those_of_a_plain_file(tool, tmp_path):
    first, second = (read(tool, model) for model in MODELS)
    plain = [tmp_path / "first.csv", tmp_path / "second.csv"]
    for path, found in zip(plain, (first, second), strict=True):
        lines = [f"{case},{value!r}" for case, value in zip(found.ids.tolist(), found.values.tolist(), strict=True)]
        path.write_text("\n".join(["id,score", *lines[::-1]]) + "\n", encoding="utf-8")
    told = []
    for one, other in ((first, second), plain):
        ids = first.ids[::-1]
        cases = cases_of(np.ones(first.number), ids=ids)
        total = case_comparison(cases, one, other).total()
        with ht.Holdout(np.ones(first.number), looks=1, private=False, ids=ids) as holdout:
            score = holdout.score(cases=one)
        terms = {"looks": 1, "yes": 1, "metric": "cases", "incumbent": one, "ids": ids}
        with ht.Holdout(np.ones(first.number), **terms) as gate:
            verdict = gate.gate(cases=other)
        told.append((total, score.value, score.interval, verdict.yes, verdict.interval, verdict.gain))
    assert told[0] == told[1]


@pytest.fixture
def score(tmp_path, monkeypatch, capsys):
    """Run `holdtrue score` in this process, in a folder of its own."""
    from holdtrue.command import main

    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["holdtrue", "score", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        return SimpleNamespace(code=left.value.code, out=out, err=err)

    return call


def test_the_command_says_how_a_file_is_read_and_counts_no_look_for_it(score, tmp_path):
    done = score(FILES / "inspect_second.eval", "--check", "--json")
    told = json.loads(done.out)
    assert (done.code, told["cases"], told["without_score"]) == (0, 6, 2)
    assert told["read_as"] == {"tool": "inspect_ai", "score": "graded", "repeats": 2, "labels": "target"}
    said = score(FILES / "inspect_second.eval", "--check").out
    assert "2 of 12 attempts, counted as 0" in said
    assert "the file has labels (target)" in said
    assert not list(tmp_path.iterdir())
    assert score(FILES / "inspect_second.eval").code == 2  # neither --check nor --holdout


def test_a_choice_is_asked_for_with_the_names_to_choose_from(score):
    for name, option in {
        "lm_eval_first.jsonl": "--where filter=",
        "promptfoo_both.json": "--where provider=",
        "lighteval_first.parquet": "('em', 'prefix'); choose one with --score",
        "helm_first.json": "choose one with --score",
    }.items():
        done = score(FILES / name, "--check")
        assert (done.code, option in done.err) == (2, True), done.err
    assert score(FILES / "lm_eval_first.jsonl", "--check", "--where", "filter=strict-match").code == 0
    wrong = score(FILES / "helm_first.json", "--check", "--score", "f1")
    assert (wrong.code, "has no score 'f1'" in wrong.err) == (2, True)
    assert "'exact_match'" in wrong.err


def shape_of(value):
    """Return a JSON value's keys and types, without its values."""
    match value:
        case dict():
            return {key: shape_of(held) for key, held in value.items()}
        case list():
            return [shape_of(held) for held in value]
        case _:
            return type(value).__name__


def test_aggregates_have_the_shape_that_every_eval_ever_validated(score, tmp_path):
    (tmp_path / "a.csv").write_text("id,score\n" + "".join(f"{case},{case % 2}\n" for case in range(3000)))
    words = ("a.csv", "--holdout", "sums.holdout", "--write-every-eval-ever", ".", "--model", "openai/gpt-first", "--json")
    told = json.loads(score(*words, "--create", "--looks", 20).out)
    assert re.fullmatch(r"data/sums/openai/gpt-first/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f-]{21}\.json", told["written"])
    made = json.loads((tmp_path / told["written"]).read_text())
    assert shape_of(made) == shape_of(json.loads((FILES / "every_eval_ever_aggregate.json").read_text()))
    details, ends = made["evaluation_results"][0]["score_details"], told["score"]["interval"]
    found = details["uncertainty"]["confidence_interval"]
    assert (details["score"], found["lower"], found["upper"]) == (told["score"]["value"], ends["low"], ends["high"])
    assert (found["confidence_level"], details["uncertainty"]["num_samples"]) == (ends["confidence"], 3000)


def test_an_aggregate_that_cannot_be_written_is_refused_before_the_charge(score, tmp_path):
    (tmp_path / "a.csv").write_text("id,score\n" + "".join(f"{case},{case % 2}\n" for case in range(3000)))
    base = ("a.csv", "--holdout", "sums.holdout", "--create", "--looks", 20)
    for words in (
        ("--write-every-eval-ever", "."),
        ("--model", "a/b"),
        ("--write-every-eval-ever", "nowhere", "--model", "a/b"),
        ("--write-every-eval-ever", ".", "--model", "name"),
        ("--write-every-eval-ever", ".", "--model", "../b"),
        ("--write-every-eval-ever", ".", "--model", "a/b", "--yes", 2),
    ):
        assert score(*base, *words).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    assert score(*base, "--yes", 2).code == 0
    late = score("a.csv", "--holdout", "sums.holdout", "--write-every-eval-ever", ".", "--model", "a/b")
    assert (late.code, "which tells no score" in late.err) == (2, True)


def test_the_command_takes_the_same_look_from_every_file_of_a_submission(score, tmp_path):
    for name, options in {"inspect_first.eval": (), "inspect_first.json": ()}.items():
        done = score(FILES / name, "--holdout", "e.holdout", "--check", *options)
        assert done.code == 0
    few = score(FILES / "inspect_first.eval", "--holdout", "e.holdout", "--create", "--looks", 50)
    assert (few.code, "too few" in few.err) == (2, True)
    assert not (tmp_path / "e.holdout").exists()
    made = score(FILES / "inspect_first.eval", "--holdout", "g.holdout", "--create", "--looks", 1, "--yes", 1)
    assert made.code == 0, made.err
    said = score(FILES / "inspect_second.json", "--holdout", "g.holdout", "--submission", "commit 2")
    assert said.code == 1
    assert "read as" in said.out
    again = score(FILES / "every_eval_ever_second.jsonl", "--holdout", "g.holdout", "--submission", "commit 2")
    assert (again.code, "asked before" in again.out) == (1, True)  # the same ids, whoever wrote the file
    other = score(FILES / "deepeval_second.json", "--holdout", "g.holdout", "--score", "Exact", "--id", "input")
    assert (other.code, "6 of the 6 ids in these results" in other.err) == (3, True)


def test_options_that_cannot_be_read_are_refused_before_the_file_is_scored(score, tmp_path):
    path = FILES / "inspect_first.eval"
    for words in (("--where", "filter"), ("--where", "=a"), ("--scale", "1"), ("--scale", "a,b"), ("--scale", "1,0")):
        done = score(path, "--check", *words)
        assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert score(path, "--check", "--scale", "0,2").code == 0
    assert not list(tmp_path.iterdir())


def test_a_choice_that_no_row_has_is_told_with_those_there_are():
    with pytest.raises(ht.RequestError, match=r"no cases for this --where \('flexible-extract', 'strict-match'\)"):
        read(TOOLS[2], "first", where={"filter": "strict"})


def test_results_without_any_score_are_no_incumbent(score, tmp_path):
    log = json.loads((FILES / "inspect_first.json").read_text(encoding="utf-8"))
    for sample in log["samples"]:
        sample.pop("scores", None)
    (tmp_path / "broken.json").write_text(json.dumps(log), encoding="utf-8")
    assert "12 of 12 attempts, counted as 0; was the run cut short?" in score("broken.json", "--check").out
    made = score("broken.json", "--holdout", "g.holdout", "--create", "--looks", 10, "--yes", 1)
    assert (made.code, "no case has a score" in made.err) == (2, True)
    assert not (tmp_path / "g.holdout").exists()


def test_a_gate_prints_what_it_knows_and_how_it_compares(score, tmp_path):
    (tmp_path / "a.csv").write_text("id,passed\n" + "".join(f"{case},{case % 2}\n" for case in range(500)))
    (tmp_path / "b.csv").write_text("id,passed\n" + "".join(f"{case},1\n" for case in range(500)))
    late = score("a.csv", "--holdout", "g.holdout", "--create", "--yes", 5)
    assert (late.code, "--looks must be given with --create" in late.err) == (2, True)
    made = score("a.csv", "--holdout", "g.holdout", "--create", "--looks", 100, "--yes", 5)
    assert "gains of 0.072 80% of the time, by betting" in made.out
    for terms in ((), ("--yes", 5)):  # nothing is made that could tell nothing
        beside = score("a.csv", "--holdout", "other.holdout", "--create", "--looks", 10, *terms)
        assert (beside.code, "a gate on these cases is open" in beside.err) == (3, True)
        assert not (tmp_path / "other.holdout").exists()
    said = score("b.csv", "--holdout", "g.holdout", "--submission", "b")
    assert [line.split()[0] for line in said.out.splitlines()[1:]] == ["gate", "claim", "looks", "receipt"]
    assert score("a.csv", "--holdout", "g.holdout", "--submission", "a").code == 1
    with ht.Holdout(np.ones(500), ids=[str(case) for case in range(500)], ledger="g.holdout") as gate:
        gate.certify()
    pairs = ("--create", "--looks", 100, "--yes", 5, "--hits", "--unseen")
    assert "gains of 0.061 80% of the time, by exact pairs" in score("a.csv", "--holdout", "h.holdout", *pairs).out


def test_ids_are_kept_for_their_owner_alone(score, tmp_path):
    words = ("--holdout", "g.holdout", "--create", "--looks", 1, "--yes", 1)
    assert score(FILES / "inspect_first.eval", *words).code == 0
    place = tmp_path / "g.holdout.ids"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert json.loads(place.read_text()) == [f"sum-{number}" for number in NUMBERS]
    place.unlink()  # nothing but a number in one sentence depends on it
    other = score(FILES / "deepeval_second.json", "--holdout", "g.holdout", "--score", "Exact", "--id", "input")
    assert (other.code, "the ledger belongs to other data" in other.err) == (3, True)
    assert score(FILES / "inspect_second.eval", "--holdout", "g.holdout").code == 1
