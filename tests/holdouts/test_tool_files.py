"""Files that the tools wrote (write_tool_files.py) give what a plain CSV gives: values, scores, comparisons, gates."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
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
        terms = {"looks": 4, "yes": 2, "metric": "cases", "incumbent": one, "ids": ids}
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
