"""``holdtrue learn``, ``train``, ``predict`` and ``distill`` through the command's own parser, and how they refuse."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import holdtrue as ht
from holdtrue.codec import encode
from holdtrue.command import application
from holdtrue.command.predicting import _read_value

ROWS = 6_000
MODEL = ("risk", "sick", "--feature", "age", "--feature", "bmi", "--parts", "20", "--key", "id")


def command(*words):
    """Run the command in this process; what it raises comes out."""
    return CliRunner().invoke(application, [str(word) for word in words], catch_exceptions=False)


def printed(*words):
    """Return what a subcommand prints as JSON."""
    done = command(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def refusal(*words):
    """Return the error of a subcommand: the entry point prints it, and exits with its code."""
    with pytest.raises(ht.HoldtrueError) as refused:
        command(*words)
    return refused.value


@pytest.fixture
def data(tmp_path):
    """Return data with a ledger that has spent nothing: a reserve large enough that noise decides nothing."""
    random = np.random.default_rng(3)
    age, bmi = random.uniform(0, 100, ROWS), random.normal(27, 5, ROWS)
    path = tmp_path / "people.parquet"
    rows = {"id": np.arange(ROWS), "age": age, "bmi": bmi, "sick": age > 50, "region": random.choice(["N", "S"], ROWS)}
    pd.DataFrame(rows).to_parquet(path)
    card = tmp_path / "card.toml"
    card.write_text("[bounds]\nage = [0, 100]\nbmi = [0, 60]\n")
    opened = command("open", path, "--epsilon", 2_000, "--delta", 1e-6, "--iid", "--card", card)
    assert opened.exit_code == 0, opened.output
    return path


@pytest.fixture
def trained(data):
    assert command("train", data, *MODEL).exit_code == 0
    return data


def spent(data):
    return printed("budget", data)["spent"]


def test_a_fit_prints_its_weights_and_is_charged_once(data):
    words = ("fit", data, "risk", "sick", "--kind", "logistic", "--feature", "age", "--mu", 0.5)
    told = printed(*words)
    assert (told["columns"], len(told["weights"]), told["labels"]) == (["age"], 2, [False, True])
    cost = spent(data)
    assert cost == pytest.approx(0.25)
    done = command(*words)
    assert "intercept" in done.stdout
    assert "expected loss at most" in " ".join(done.stdout.split())
    assert spent(data) == cost
    assert "mu" in str(refusal(*words[:-1], -1))
    assert "number" in str(refusal("fit", data, "risk", "sick", "--mu", 0.5))


def test_a_kept_fit_costs_nothing_and_each_prediction_of_it_does(data):
    words = ("fit", data, "risk", "sick", "--kind", "logistic", "--feature", "age", "--release", "each", "--epsilon", 0.5)
    done = command(*words)
    assert done.exit_code == 0
    assert "expected loss at most" in " ".join(done.stdout.split())
    assert spent(data) == 0
    told = printed(*words, "--basis", "fourier:8:2:7", "--method", "descent", "--replace")
    assert (told["model"], told["features"]) == ("risk", ["age"])
    assert printed("predict", data, "risk", "age=90")["label"] in (False, True)
    cost = spent(data)
    assert cost == pytest.approx(0.6239**2, rel=1e-3)
    command("predict", data, "risk", "age=90")
    assert spent(data) == cost
    assert command("fit", data, "cut", "sick", "--kind", "thresholds", "--feature", "age", "--epsilon", 0.2).exit_code == 0
    command("predict", data, "cut", "age=90")
    assert {line["name"] for line in printed("models", data)["models"]} == {"risk", "cut"}
    for wrong in ("waves", "fourier:8", "fourier:8:2:x", "polynomial:99"):
        assert "basis" in str(refusal(*words, "--basis", wrong)) or "degree" in str(refusal(*words, "--basis", wrong))


def test_training_costs_nothing_and_says_what_was_trained(data):
    done = command("train", data, *MODEL)
    assert done.exit_code == 0
    assert "20" in done.stdout
    assert "age, bmi" in done.stdout
    assert "False, True" in done.stdout
    assert spent(data) == 0
    said = printed("train", data, *MODEL)
    assert said["model"] == "risk"
    assert said["features"] == ["age", "bmi"]
    assert said["labels"] == [False, True]
    assert "'id'" in said["rows"]


@pytest.mark.parametrize(("age", "label"), [(90, True), (10, False)])
def test_a_prediction_has_its_label_and_its_cost(trained, age, label):
    said = printed("predict", trained, "risk", f"age={age}", "bmi=27.5", "--epsilon", 5)
    assert said["label"] is label
    assert said["certificate"]["cost"] > 0
    assert spent(trained) == pytest.approx(said["certificate"]["cost"])


def test_values_of_a_point_are_read_as_numbers_also_without_a_leading_zero():
    assert [_read_value(text) for text in (".9", "-.5", "1e3", "true", ".x", "x")] == [0.9, -0.5, 1000.0, True, ".x", "x"]


def test_the_same_point_again_is_free(trained):
    first = printed("predict", trained, "risk", "age=90", "bmi=27", "--epsilon", 5)
    before = spent(trained)
    again = printed("predict", trained, "risk", "age=90", "bmi=27", "--epsilon", 5)
    assert again["repeated"]
    assert again["label"] == first["label"]
    assert spent(trained) == before
    assert "bmi=27" in command("predict", trained, "risk", "age=90", "bmi=27", "--epsilon", 5).stdout


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
def test_many_points_come_from_a_file(trained, tmp_path, ending):
    points = pd.DataFrame({"age": [5.0, 95.0, 80.0], "bmi": [27.0, 27.0, 27.0]})
    place = tmp_path / f"points{ending}"
    if ending == ".csv":
        points.to_csv(place, index=False)
    elif ending == ".parquet":
        points.to_parquet(place)
    else:
        points.to_json(place, orient="records", lines=True)
    said = printed("predict", trained, "risk", "--points", place, "--epsilon", 5)["predictions"]
    assert [each["label"] for each in said] == [False, True, True]
    shown = command("predict", trained, "risk", "--points", place, "--epsilon", 5).stdout
    assert [line.split()[-1] for line in shown.splitlines()[2:5]] == ["nothing"] * 3  # all are repeats now


def test_a_number_is_predicted_in_its_own_unit(data):
    command("train", data, "years", "age", "--feature", "bmi", "--estimator", "linear", "--parts", "20", "--key", "id")
    said = printed("predict", data, "years", "bmi=27", "--mu", 3)
    assert 20 < said["label"] < 80
    assert said["interval"]["target"] == "model"
    shown = command("predict", data, "years", "bmi=27", "--mu", 3).stdout
    assert "not the true value" in " ".join(shown.split())
    assert "(95%, model)" in shown


def test_a_screen_leaves_unclear_points_open(trained):
    said = printed("predict", trained, "risk", "age=99", "bmi=27", "--epsilon", 5, "--screen", 0.6)
    assert said["label"] in (True, None)


def test_a_student_labels_all_public_rows(trained, tmp_path):
    public, out = tmp_path / "public.csv", tmp_path / "labels.csv"
    pd.DataFrame({"age": np.linspace(0, 100, 40), "bmi": np.full(40, 27.0)}).to_csv(public, index=False)
    said = printed("distill", trained, "risk", public, out, "--epsilon", 5, "--labels", 20)
    assert said["labels"] == 20
    assert said["rows"] == 40
    written = out.read_text().splitlines()
    assert written[0] == "risk"
    assert written[1] == "False"
    assert written[-1] == "True"
    after = spent(trained)
    shown = command("distill", trained, "risk", public, out, "--epsilon", 5, "--labels", 20)
    assert "with 20 labels" in shown.stdout
    assert spent(trained) == after  # bought before


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (("predict", "risk"), ht.InvalidParameter, "COLUMN=VALUE"),
        (("predict", "risk", "age"), ht.InvalidParameter, "age=71"),
        (("predict", "risk", "=3"), ht.InvalidParameter, "age=71"),
        (("predict", "risk", "age=1", "--points", "x.csv"), ht.InvalidParameter, "COLUMN=VALUE"),
        (("predict", "risk", "--points", "x.xlsx"), ht.InvalidParameter, "ends in .csv, .parquet or .jsonl"),
        (("predict", "risk", "--points", "none.csv"), ht.RequestError, "none.csv"),
        (("predict", "other", "age=1", "bmi=2"), ht.RequestError, "other"),
    ],
)
def test_what_cannot_be_predicted_is_named_and_costs_nothing(trained, words, error, said):
    found = refusal(words[0], trained, *words[1:])
    assert isinstance(found, error)
    assert said in str(found)
    assert spent(trained) == 0


def test_a_file_that_is_no_table_is_named_without_its_contents(trained, tmp_path):
    place = tmp_path / "points.parquet"
    place.write_text("these are secrets")
    found = refusal("predict", trained, "risk", "--points", place)
    assert "cannot be read as a table" in str(found)
    assert "secrets" not in str(found)


@pytest.mark.parametrize(
    "rules",
    [
        ("--stumps", "age=0:100"),
        ("--intervals", "age=0:100", "--steps", "20"),
        ("--conjunctions", "age > 50", "--conjunctions", "bmi > 25"),
        ("--trees", "age > 50", "--trees", "bmi > 25"),
    ],
)
def test_every_class_of_rules_learns_the_rule(data, rules):
    said = printed("learn", data, "sick", *rules, "--epsilon", 5)
    assert said["excess_error"] < 0.2
    assert said["certificate"]["cost"] > 0


def test_a_class_comes_from_a_file_too(data, tmp_path):
    place = tmp_path / "class.json"
    place.write_text(encode(ht.Stumps(bounds={"age": (0, 100)}, steps=50).document))
    assert printed("learn", data, "sick", "--class", place, "--epsilon", 5)["excess_error"] < 0.2


@pytest.mark.parametrize("text", ['{"class": "nonsense"}', "[]", "no JSON"])
def test_a_file_that_is_no_class_is_refused_for_nothing(data, tmp_path, text):
    place = tmp_path / "class.json"
    place.write_text(text)
    assert isinstance(refusal("learn", data, "sick", "--class", place), ht.RequestError)
    assert spent(data) == 0


@pytest.mark.parametrize(
    "rules", [(), ("--stumps", "age"), ("--stumps", "age=100:0"), ("--stumps", "height=0:1"), ("--class", "none.json")]
)
def test_a_class_that_cannot_be_is_refused_for_nothing(data, rules):
    assert isinstance(refusal("learn", data, "sick", *rules), ht.RequestError)
    assert spent(data) == 0


def test_rows_that_do_not_certify_alpha_are_refused_before_the_charge(data):
    with pytest.raises(ht.InsufficientSamples):
        command("learn", data, "sick", "--stumps", "age=0:100", "--epsilon", 0.5, "--alpha", 1e-4)
    assert spent(data) == 0
    assert printed("learn", data, "sick", "--stumps", "age=0:100", "--epsilon", 0.5, "--alpha", 1e-4, "--anyway")
    assert spent(data) > 0


def test_a_label_by_another_method(trained):
    told = printed("predict", trained, "risk", "age=90", "bmi=31", "--method", "noisy-max", "--mu", 5)
    assert told["label"] is True
    assert command("predict", trained, "risk", "age=90", "bmi=31", "--method", "guess").exit_code == 2


def test_models_are_listed_and_judged_by_rows_held_out(trained):
    assert command("train", trained, "judged", *MODEL[1:], "--held-out", 0.2).exit_code == 0
    found = printed("evaluate", trained, "judged", 0.4, 0.3, "--epsilon", 1, "--mu", 1)
    assert (found["certified"], found["at_most"]) == (True, 0.3)
    assert 0.3 < found["bound"] < 0.4
    assert "judged errs at most 0.3" in command("evaluate", trained, "judged", 0.4, 0.3, "--epsilon", 1, "--mu", 1).stdout
    listed = printed("models", trained, "--epsilon", 0.5)
    assert [each["name"] for each in listed["models"]] == ["judged", "risk"]
    assert listed["predictions_left"]["risk"] > 0
    assert "predicts" in command("models", trained).stdout
    refused = refusal("evaluate", trained, "risk", 0.3)
    assert isinstance(refused, ht.PreconditionError)
    assert "held_out" in str(refused)


def test_a_learned_rule_is_checked_by_one_more_question(data):
    found = printed("learn", data, "sick", "--stumps", "age=0:100", "--epsilon", 1, "--check", "--assume-realizable")
    assert found["checked"]["high"] < 0.1
    assert "never wrong" in found["certificate"]["theorem"]


def test_a_class_is_trained_from_a_document(data, tmp_path):
    (tmp_path / "class.json").write_text(
        '{"class": "stumps", "bounds": [[0, 100]], "steps": 10, "columns": ["age"]}', encoding="utf-8"
    )
    given = ("--class", tmp_path / "class.json", "--order", "fixed", "--assume-realizable", "--parts", 50)
    shown = command("train", data, "best", "sick", *given)
    assert "V4.1" in shown.stdout or "certified" in shown.stdout
    assert "certificate" in printed("train", data, "best", "sick", *given)
    assert printed("predict", data, "best", "age=90", "--epsilon", 1)["label"] is True


def test_a_learned_rule_and_a_student_are_evaluated(trained, tmp_path):
    entry = printed("learn", trained, "sick", "--stumps", "age=0:100", "--epsilon", 0.5)["certificate"]["entry"]
    found = printed("evaluate", trained, "--entry", entry)
    assert found["low"] <= found["value"] <= found["bound"]
    assert "errs on" in command("evaluate", trained, "--entry", entry).stdout
    assert isinstance(refusal("evaluate", trained), ht.InvalidParameter)
    pd.DataFrame({"age": [5.0, 95.0, 80.0], "bmi": [27.0, 27.0, 27.0]}).to_csv(tmp_path / "public.csv", index=False)
    told = printed("distill", trained, "risk", tmp_path / "public.csv", tmp_path / "out.csv", "--epsilon", 0.5, "--check")
    assert told["evaluation"]["bound"] > told["evaluation"]["value"]
