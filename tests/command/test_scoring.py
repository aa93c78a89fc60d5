"""`holdtrue score`: results in three formats, looks that are counted, names, comparisons, gates, and exit codes."""

import json
import stat
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.codec import encode
from holdtrue.command import main
from holdtrue.holdouts.result_files import read_results

CASES = 3_000
V1 = ("--name", "v1", "--submission", "commit 1")
IDS = [f"case {number}" for number in range(CASES)]


def results(rate, *, seed, cases=CASES):
    return (np.random.default_rng(seed).random(cases) < rate).astype(int)


POOR, FAIR, GOOD = (results(rate, seed=seed) for seed, rate in enumerate((0.05, 0.55, 0.95)))


@pytest.fixture
def score(tmp_path, monkeypatch, capsys):
    """Run `holdtrue score` in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["holdtrue", "score", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return SimpleNamespace(code=left.value.code, out=out, err=err)

    return call


def table(path, values, *, order=None, outputs=None, cases=IDS):
    lines = ["id,passed" if outputs is None else "id,passed,output"]
    for place in range(len(values)) if order is None else order:
        cells = [cases[place], str(values[place]), *([] if outputs is None else [str(outputs[place])])]
        lines.append(",".join(cells))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def junit(path, values, kinds=("failure", "error", "skipped")):
    cases = [
        f'<testcase classname="suite.cases" name="{name}">{"" if value else f"<{kinds[place % len(kinds)]}/>"}</testcase>'
        for place, (name, value) in enumerate(zip(IDS, values, strict=True))
    ]
    path.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>", encoding="utf-8")
    return path


@pytest.fixture
def opened(score, tmp_path):
    """A holdout of 20 looks with one submission, named v1."""
    done = score(table(tmp_path / "v1.csv", FAIR), "--holdout", "e.holdout", "--create", "--looks", 20, *V1)
    assert done.code == 0, done.err
    return done


def test_a_score_says_value_interval_looks_and_the_sentence(opened):
    assert "19 of 20 left" in opened.out
    assert "these cases with fresh labels" in opened.out
    assert "95% confidence over 20 looks" in opened.out
    assert "the raw score is not shown" in opened.out


def test_results_in_any_order_and_format_are_the_same_submission(score, opened, tmp_path):
    assert opened.code == 0
    order = np.random.default_rng(1).permutation(CASES)
    lines = [json.dumps({"id": IDS[place], "score": float(FAIR[place])}) for place in order]
    (tmp_path / "same.jsonl").write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    for again in (table(tmp_path / "same.csv", FAIR, order=order), tmp_path / "same.jsonl"):
        told = json.loads(score(again, "--holdout", "e.holdout", "--submission", "commit 1", "--json").out)
        assert told["score"]["repeated"]
        assert told["score"]["looks_left"] == 19


def test_that_results_are_equal_is_told_to_nobody(score, opened, tmp_path):
    """They are made with the labels; outputs and ids are public, and tell submissions apart."""
    assert opened.code == 0
    told = json.loads(score("v1.csv", "--holdout", "e.holdout", "--json").out)["score"]
    assert (told["repeated"], told["looks_left"]) == (False, 18)
    said = [str(number % 7) for number in range(CASES)]
    for turn, values in enumerate((FAIR, GOOD)):  # the same outputs, graded otherwise
        table(tmp_path / "said.csv", values, outputs=said)
        told = json.loads(score("said.csv", "--holdout", "e.holdout", "--json").out)["score"]
        assert (told["repeated"], told["looks_left"]) == (bool(turn), 17)


def test_junit_counts_failures_errors_and_skipped_as_not_passed(tmp_path):
    found = read_results(junit(tmp_path / "r.xml", FAIR))
    assert found.ids[0] == "suite.cases.case 0"
    assert found.values.mean() == FAIR.mean()
    (tmp_path / "one.xml").write_text('<testsuite xmlns="urn:x"><testcase name="alone"><system-out/></testcase></testsuite>')
    assert read_results(tmp_path / "one.xml").ids.tolist() == ["alone"]


def test_a_document_type_is_refused_before_its_entities_are_looked_at(tmp_path, score):
    bomb = '<!DOCTYPE t [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;"><!ENTITY x SYSTEM "file:///etc/hostname">]>'
    (tmp_path / "bomb.xml").write_text(f'{bomb}<testsuite><testcase name="&b;&x;"/></testsuite>', encoding="utf-8")
    done = score("bomb.xml", "--holdout", "e.holdout", "--create", "--looks", 5)
    assert done.code == 2
    assert "document type" in done.err
    assert not (tmp_path / "e.holdout").exists()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("r.csv", "id,passed\na,maybe-canary\n", "line 2: needs a score that is a number in [0, 1], or passed"),
        ("r.csv", "id,score\na,1.5\n", "line 2"),
        ("r.csv", "id,score\na,nan\n", "line 2"),
        ("r.csv", "id,score,passed\na,1,1\n", "one of them"),
        ("r.csv", "name,score\na,1\n", "needs columns id"),
        ("r.csv", "id,score\na,1\na,0\n", "twice"),
        ("r.csv", "id,score\n", "no cases"),
        ("r.csv", 'id,score\n"canary,1\n', "not valid CSV"),
        ("r.jsonl", '{"id": 1, "score": 1, "output": "x"}\n{"id": 2, "score": 1}\n', "output for some"),
        ("r.jsonl", '{"id": 1, "score": "canary"}\n', "line 1"),
        ("r.jsonl", '["canary"]\n', "not a JSON object"),
        ("r.jsonl", "canary\n", "not a JSON object"),
        ("r.jsonl", '{"id": true, "score": 1}\n', "needs an id"),
        ("r.xml", "<testsuite><testcase/></testsuite>", "without a name"),
        ("r.xml", "<testsuite>canary", "not valid XML"),
        ("r.txt", "canary", "needs columns id"),
    ],
)
def test_bad_results_are_refused_by_line_and_never_quoted(score, tmp_path, name, text, message):
    (tmp_path / name).write_text(text, encoding="utf-8")
    done = score(name, "--holdout", "e.holdout", "--create", "--looks", 5)
    assert done.code == 2
    assert message in done.err
    assert "canary" not in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "e.holdout").exists()


def test_better_exits_with_0_and_not_shown_better_with_1(score, opened, tmp_path):
    assert opened.code == 0
    table(tmp_path / "good.csv", GOOD)
    table(tmp_path / "poor.csv", POOR)
    better = score("good.csv", "--holdout", "e.holdout", "--against", "v1", "--confidence", 0.95, "--json")
    assert better.code == 0
    told = json.loads(better.out)
    assert told["better"] is True
    assert told["against"]["low"] > 0
    assert GOOD.mean() - FAIR.mean() > told["against"]["low"]
    worse = score("poor.csv", "--holdout", "e.holdout", "--against", "v1")
    assert worse.code == 1
    assert "worse than v1" in worse.out
    same = score("v1.csv", "--holdout", "e.holdout", "--against", "v1", "--submission", "commit 1")
    assert same.code == 1
    assert "not shown better than v1" in same.out
    assert "17 of 20 left" in same.out  # three submissions, three looks


def test_what_cannot_be_compared_is_refused_before_it_is_charged(score, opened, tmp_path):
    assert opened.code == 0
    table(tmp_path / "good.csv", GOOD)
    sure = score("good.csv", "--holdout", "e.holdout", "--against", "v1", "--confidence", 0.99)
    assert sure.code == 2
    assert "at most 0.95" in sure.err
    unknown = score("good.csv", "--holdout", "e.holdout", "--against", "v9")
    assert unknown.code == 2
    assert "no submission is kept under the name" in unknown.err
    assert "18 of 20 left" in score("good.csv", "--holdout", "e.holdout").out


def test_names_are_the_owners_alone_and_the_last_one_counts(score, opened, tmp_path):
    assert opened.code == 0
    folder = tmp_path / "e.holdout.names"
    (kept,) = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert json.loads(kept.read_text())["values"] is None  # scores are enough, and stand in the ledger
    table(tmp_path / "good.csv", GOOD)
    assert score("good.csv", "--holdout", "e.holdout", "--name", "v1", "--against", "v1").code == 0
    assert score("good.csv", "--holdout", "e.holdout", "--against", "v1").code == 1
    kept.write_text("{}")
    assert score("good.csv", "--holdout", "e.holdout", "--against", "v1").code == 5


def test_a_name_from_another_ledger_is_noticed(score, opened, tmp_path):
    assert opened.code == 0
    (tmp_path / "e.holdout").unlink()
    assert score("v1.csv", "--holdout", "e.holdout", "--create", "--looks", 20).code == 0
    done = score("v1.csv", "--holdout", "e.holdout", "--against", "v1")
    assert done.code == 5
    assert "the ledger does not have the score" in done.err


def test_equal_outputs_give_a_paired_look_that_is_narrower(score, tmp_path):
    """Scores 0.02 apart cannot decide, at deviations of 0.01; a paired look is taken, about the cases that differ."""
    number = 10_000
    ids = [str(case) for case in range(number)]
    before, after = np.arange(number) % 2, np.arange(number) % 2
    after[:400:2] = 1
    said, few = np.where(np.arange(number) < 700, "new", "same"), np.where(before == after, "same", "new")
    table(tmp_path / "old.csv", before, outputs=["same"] * number, cases=ids)
    table(tmp_path / "new.csv", after, outputs=said, cases=ids)
    table(tmp_path / "few.csv", after, outputs=few, cases=ids)
    assert score("old.csv", "--holdout", "e.holdout", "--create", "--looks", 5, "--name", "v1").code == 0
    told = json.loads(score("new.csv", "--holdout", "e.holdout", "--against", "v1", "--json").out)["against"]
    assert told["paired"]
    assert told["looks_left"] == 2
    assert told["low"] - 0.05 <= 0.02 <= told["high"] + 0.05  # 7 deviations
    plain = json.loads(score("old.csv", "--holdout", "e.holdout", "--against", "v1", "--json").out)["against"]
    assert (plain["paired"], plain["looks_left"]) == (False, 2)  # where nothing differs, no look is taken
    assert told["high"] - told["low"] < 0.85 * (plain["high"] - plain["low"])
    # Where two in a hundred differ no look can tell more than that: it is said, and not charged.
    free = json.loads(score("few.csv", "--holdout", "e.holdout", "--against", "v1", "--json").out)["against"]
    assert (free["paired"], free["looks_left"]) == (False, 1)
    assert (free["low"], free["high"]) == (-0.02, 0.02)


def test_the_paired_width_is_known_before_the_look():
    number = 10_000
    values, few = np.arange(number) % 2, np.arange(number) < 500
    with ht.Holdout(np.ones(number), looks=5, unseen=True) as holdout:
        assert holdout.paired_width(few) < 0.85 * holdout.paired_width(np.ones(number, dtype=bool))
        paired = holdout.compare_cases(np.where(few, 1, values), values, differ=few)
        assert paired.value == pytest.approx(0.025, abs=0.1)
        assert paired.interval.width <= holdout.paired_width(few) + 1e-9
        assert paired.about == "these cases with fresh labels"  # where outputs differ was read off these cases
        assert holdout.compare_cases(1 - values, values).about == "fresh cases"
        with pytest.raises(ht.InvalidParameter, match="differ"):
            holdout.compare_cases(values, values, differ=few[:-1])


def test_a_holdout_is_created_once_and_only_when_told_to(score, opened, tmp_path):
    assert opened.code == 0
    again = score("v1.csv", "--holdout", "e.holdout", "--create", "--looks", 20)
    assert again.code == 3
    missing = score("v1.csv", "--holdout", "other.holdout")
    assert missing.code == 2
    assert "--create" in missing.err
    assert not (tmp_path / "other.holdout").exists()
    assert score("v1.csv", "--holdout", "e.holdout", "--looks", 20).code == 2
    assert score("v1.csv", "--holdout", "e.holdout", "--unseen").code == 2
    few = score(table(tmp_path / "few.csv", [1, 0]), "--holdout", "few.holdout", "--create", "--looks", 50)
    assert few.code == 2
    assert "too few" in few.err


def test_other_cases_under_an_old_ledger_are_refused_and_no_look_is_spent(score, opened, tmp_path):
    assert opened.code == 0
    table(tmp_path / "fewer.csv", FAIR[:-1])
    fewer = score("fewer.csv", "--holdout", "e.holdout")
    assert fewer.code == 3
    assert "1 of the 3,000 cases of the holdout are not in these results" in fewer.err
    (tmp_path / "e.holdout.ids").rename(tmp_path / "ids")
    assert "2,999 cases; the holdout has 3,000" in score("fewer.csv", "--holdout", "e.holdout").err
    (tmp_path / "ids").rename(tmp_path / "e.holdout.ids")
    table(tmp_path / "others.csv", FAIR, cases=[f"other {number}" for number in range(CASES)])
    others = score("others.csv", "--holdout", "e.holdout")
    assert others.code == 3
    assert "3,000 of the 3,000 ids in these results are not ids of the holdout (other 0, other 1, other 10, …)" in others.err
    assert "--id PATH" in others.err
    assert "other 11" not in others.err  # three are enough
    assert "19 of 20 left" in score("v1.csv", "--holdout", "e.holdout", "--submission", "commit 1").out


def test_looks_that_are_used_up_exit_with_3(score, tmp_path):
    table(tmp_path / "a.csv", FAIR)
    table(tmp_path / "b.csv", GOOD)
    first = ("a.csv", "--holdout", "e.holdout", "--submission", "a")
    assert score(*first, "--create", "--looks", 1, "--unseen").code == 0
    done = score("b.csv", "--holdout", "e.holdout")
    assert done.code == 3
    assert "all 1 looks are used" in done.err
    assert "fresh cases" in score(*first).out


def test_a_gate_keeps_its_incumbent_and_says_yes_or_no(score, tmp_path):
    for name, values in {"poor": POOR, "fair": FAIR, "good": GOOD}.items():
        junit(tmp_path / f"{name}.xml", values)
    made = score("fair.xml", "--holdout", "g.holdout", "--create", "--looks", 20, "--yes", 3)
    assert made.code == 0
    assert "20 of 20 left" in made.out
    assert score("poor.xml", "--holdout", "g.holdout").code == 1
    yes = score("good.xml", "--holdout", "g.holdout", "--margin", 0.2, "--submission", "commit 2", "--json")
    assert yes.code == 0
    told = json.loads(yes.out)
    assert told["verdict"]["gain"]["low"] > 0
    assert "0.95" not in told["sentence"].split(";")[0]
    # Asked again, the former incumbent meets another one: a look of its own, known by its public id from then on.
    for again in (False, True):
        asked = score("fair.xml", "--holdout", "g.holdout", "--submission", "commit 1")
        assert (asked.code, "asked before" in asked.out) == (1, again)
    # A job that is run again for the commit that had the yes passes again.
    rerun = score("good.xml", "--holdout", "g.holdout", "--margin", 0.2, "--submission", "commit 2")
    assert (rerun.code, "yes: asked before" in rerun.out, "17 left" in rerun.out) == (0, True, True)
    own = score("poor.xml", "--holdout", "g.holdout", "--submission", "commit 2")
    assert (own.code, "17 of 20 left; this was not a look" in own.out) == (1, True)
    # Control: the same results without an id are a look, also the incumbent's own.
    unnamed = score("good.xml", "--holdout", "g.holdout")
    assert (unnamed.code, "16 left" in unnamed.out) == (1, True)
    assert len(list((tmp_path / "g.holdout.submissions").iterdir())) == 2  # the incumbent's results and the first one's
    assert score("good.xml", "--holdout", "g.holdout", "--against", "v1").code == 2


def test_a_gate_is_created_with_all_that_it_can_be_told_and_says_its_claim(score, tmp_path):
    for name, right in {"main": 1_500, "small": 1_530, "same": 1_495}.items():
        table(tmp_path / f"{name}.csv", [int(place < right) for place in range(CASES)])
    gate = ("--holdout", "g.holdout")
    terms = ("--create", "--looks", 20, "--yes", 3, "--hits", "--unseen", "--discordant", 0.1)
    made = score("main.csv", *gate, *terms)
    assert made.code == 0
    assert "Where 10% of the cases differ, these cases find a gain of 0.0" in " ".join(made.out.split())
    yes = score("small.csv", *gate, "--markdown", "comment.md", "--submission", "one")
    assert yes.code == 0  # 30 wins and no loss: by betting it would be a no
    claim = "better than the incumbent, for fresh cases; with 95% confidence every yes of this gate is true"
    assert claim in " ".join(yes.out.split())
    assert (tmp_path / "comment.md").read_text().startswith("**gate: yes**")
    assert f"| claim | {claim} |" in (tmp_path / "comment.md").read_text()
    no = score("same.csv", *gate, "--json")
    assert (no.code, json.loads(no.out)["claim"].split(";")[0]) == (1, "this candidate is not told apart from the incumbent")
    near = score("same.csv", *gate, "--margin", -0.1)
    assert near.code == 0
    assert "not worse than the incumbent by 0.1 or more" in " ".join(near.out.split())
    for words, message in (
        (("--hits",), "--hits must be left out"),
        (("--discordant", 0.1), "--discordant must be left out"),
    ):
        assert (refused := score("same.csv", *gate, *words)).code == 2
        assert message in refused.err
    assert "--yes" in score("same.csv", "--holdout", "h.holdout", "--create", "--looks", 5, "--hits").err


def test_a_gate_in_another_folder_is_named(score, tmp_path, monkeypatch):
    monkeypatch.delenv("HOLDTRUE_GATES")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    table(tmp_path / "fair.csv", FAIR)
    for folder, code in {"one": 0, "two": 3}.items():
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        told = score("../fair.csv", "--holdout", "g.holdout", "--create", "--looks", 5, "--yes", 3)
        assert told.code == code
    assert f"{tmp_path / 'one' / 'g.holdout'}: a gate on these cases is open" in " ".join(told.err.split())
    assert "if these are other cases, give them other ids, such as --id input" in " ".join(told.err.split())
    assert not list((tmp_path / "two").iterdir())


def test_a_gate_is_created_private_or_with_bounds_and_bets(score, tmp_path):
    for name, values in {"fair": FAIR, "good": GOOD}.items():
        table(tmp_path / f"{name}.csv", values)
    private = ("--holdout", "p.holdout")
    made = score("fair.csv", *private, "--create", "--looks", 5, "--yes", 3, "--hits", "--private", "--epsilon", 4, "--json")
    assert made.code == 0
    assert json.loads(made.out)["looks_left"] == 5  # the first incumbent is taken: no look, no yes
    yes = json.loads(score("good.csv", *private, "--json").out)
    assert (yes["yes"], yes["verdict"]["looks_left"], yes["verdict"]["yes_left"]) == (True, 4, 2)
    assert yes["verdict"]["private"]
    assert score("good.csv", *private, "--incumbent").code == 1  # kept once more
    for name, values in {"fair": FAIR, "good": GOOD}.items():  # of the others a gate is open
        table(tmp_path / f"{name}.csv", values, cases=[f"new {case}" for case in IDS])
    bounds = ("--holdout", "b.holdout", "--tells", "bounds", "--gain", 0.1, "--discordant", 0.2)
    assert score("fair.csv", *bounds, "--create", "--looks", 5, "--yes", 3, "--private").code == 2
    assert score("fair.csv", *bounds, "--create", "--looks", 5, "--yes", 3).code == 0
    told = score("good.csv", "--holdout", "b.holdout")
    assert "better than the incumbent by more than 0.2" in " ".join(told.out.split())
    assert "a gate on these cases is open" in score("fair.csv", "--holdout", "s.holdout", "--create", "--looks", 5).err
    table(tmp_path / "fair.csv", FAIR, cases=[f"other {name}" for name in IDS])
    narrow = score("fair.csv", "--holdout", "u.holdout", "--create", "--looks", 5, "--validity", "--json")
    assert (narrow.code, json.loads(narrow.out)["score"]["private"]) == (0, False)
    wide = score("fair.csv", "--holdout", "t.holdout", "--create", "--looks", 5, "--epsilon", 2, "--delta", 1e-6, "--json")
    assert (wide.code, json.loads(wide.out)["score"]["private"]) == (0, True)
    for words in (("--epsilon", 1), ("--private",), ("--tells", "bounds")):
        assert "must be left out without --create" in score("fair.csv", "--holdout", "t.holdout", *words).err


def test_a_gate_without_its_incumbents_results_says_how_to_go_on(score, tmp_path):
    junit(tmp_path / "fair.xml", FAIR)
    junit(tmp_path / "good.xml", GOOD)
    assert score("fair.xml", "--holdout", "g.holdout", "--create", "--looks", 20, "--yes", 3).code == 0
    for kept in (tmp_path / "g.holdout.submissions").iterdir():
        kept.unlink()
    lost = score("good.xml", "--holdout", "g.holdout")
    assert lost.code == 3
    assert "once more with --incumbent" in lost.err
    kept = score("fair.xml", "--holdout", "g.holdout", "--incumbent")
    assert (kept.code, "20 of 20 left; this was not a look" in kept.out) == (1, True)
    assert score("good.xml", "--holdout", "g.holdout").code == 0


def test_results_of_single_cases_are_in_no_text_of_the_ledger(score, opened, tmp_path):
    assert opened.code == 0
    assert score("v1.csv", "--holdout", "e.holdout").code == 0
    text = (tmp_path / "e.holdout").read_bytes()
    assert b"case 17" not in text
    assert ht.verify(tmp_path / "e.holdout")


def test_plan_holdout_prints_a_plan_or_a_table_of_sizes(monkeypatch, capsys):
    def plan(*words):
        monkeypatch.setattr(sys, "argv", ["holdtrue", "plan", "holdout", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code, capsys.readouterr()

    code, said = plan("--cases", 5000, "--looks", 200, "--yes", 10)
    assert (code, said.out.rstrip("\n")) == (0, str(ht.plan_holdout(cases=5000, looks=200, yes=10)))
    code, said = plan("--cases", 5000, "--looks", 200, "--overfits", 5, "--validity", "--json")
    assert json.loads(said.out) == json.loads(encode(ht.plan_holdout(cases=5000, looks=200, overfits=5, private=False)))
    private = {"cases": 1200, "looks": 100, "yes": 5, "private": True, "epsilon": 4, "delta": 1e-6}
    code, said = plan("--cases", 1200, "--looks", 100, "--yes", 5, "--private", "--epsilon", 4, "--delta", 1e-6)
    assert said.out.rstrip("\n") == str(ht.plan_holdout(**private))
    code, said = plan()
    made = [ht.plan_holdout(cases=size, looks=looks) for size in (1_000, 5_000, 20_000) for looks in (50, 500)]
    lines = said.out.splitlines()
    assert max(map(len, lines[:-1])) <= 80
    told = {line[: len("guess-and-check")].strip(): line[len("guess-and-check") :].split() for line in lines[:-1]}
    assert told["cases"] == [f"{expected.cases:,}" for expected in made]
    assert told["looks"] == [f"{expected.looks}" for expected in made]
    for place, expected in enumerate(made):
        for line in expected:
            width = "-" if line.alpha is None else f"±{line.alpha:.3f}"
            assert told[line.mode][place] == ("*" if line.mode == expected.mode else "") + width
    code, said = plan(*(word for size in range(1000, 8000, 1000) for word in ("--cases", size)), "--looks", 50)
    assert (said.out.count("cases  "), said.out.count("*±")) == (2, 7)
    code, said = plan("--cases", 5000, "--looks", 5, "--yes", 9)
    assert (code, "at most 5, the looks" in said.err) == (2, True)


def test_clusters_of_a_file_count_once(score, tmp_path):
    """Questions on one document: --cluster names the column, when the holdout is created and at every look."""
    lines = [f"case {number},{number % 4 == 0:d},text {number // 4}" for number in range(CASES)]
    (tmp_path / "a.csv").write_text("\n".join(["id,passed,document", *lines]), encoding="utf-8")
    named = ("--holdout", "e.holdout", "--cluster", "document")
    done = score("a.csv", *named, "--create", "--looks", 9, "--json")
    found = json.loads(done.out)
    assert (done.code, found["score"]["about"]) == (0, "these clusters with fresh labels")
    assert found["score"]["interval"]["low"] <= 0.25 <= found["score"]["interval"]["high"]
    assert score("a.csv", *named).code == 0
    assert "--cluster must be given as when the holdout was created" in score("a.csv", *named[:2]).err
    assert json.loads(score("a.csv", *named, "--json").out)["score"]["looks_left"] == 6


def test_budget_history_and_report_of_a_holdout_spend_no_look(score, call, tmp_path):
    table(tmp_path / "fair.csv", FAIR)
    table(tmp_path / "good.csv", GOOD)
    made = score("fair.csv", "--holdout", "g.holdout", "--create", "--looks", 5, "--yes", 3, "--hits", "--unseen")
    assert "a yes needs a score" in " ".join(made.out.split())  # how wide it is, where it is fixed
    assert score("good.csv", "--holdout", "g.holdout").code == 0
    for _ in range(2):
        told = json.loads(call("budget", "g.holdout", "--json").out)
        assert (told["looks_left"], told["yes_left"], told["closed"], told["unit"]) == (4, 2, False, "looks")
    shown = call("budget", "g.holdout").out
    assert "4 of 5 left" in shown
    assert "none is kept" in shown
    lines = json.loads(call("history", "g.holdout", "--json").out)["history"]
    assert [line["cost"] for line in lines] == [0, 1]
    assert call("report", "g.holdout", "out.html").code == 0
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "It keeps no privacy" in page
    assert "1 of 5 looks spent" in page
