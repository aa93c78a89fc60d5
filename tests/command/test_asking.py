"""`holdtrue ask`, `table`, `mean`, `quantile`, `select` and `preview`: options, text and JSON, and what is refused."""

import re
from datetime import date

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.codec import convert
from holdtrue.records import Answer, Choice, Marginals, Means, Quantiles, Table

DATA = "people.parquet"


def test_one_question_is_an_answer_and_several_are_a_table(call, place):
    one = call("ask", DATA, "age > 65")
    assert one.out.startswith("age > 65\n")
    assert re.search(r"left +29 of 30 questions", one.out)
    several = call("ask", DATA, "age > 65", "smoker")
    assert "question" in several.out.splitlines()[0]
    assert "nothing: asked before" in several.out
    assert re.search(r"left +28 of 30 questions", several.out)
    assert len(re.findall(r"receipt +\d+:[0-9a-f]{64}", several.out)) == 2  # one for each entry of the ledger
    assert one.err == several.err == ""
    assert place.joinpath("people.ledger").exists()


@pytest.mark.usefixtures("place")
def test_a_key_is_charged_once_and_names_one_request(call):
    first = call("ask", DATA, "smoker", "--key", "monday", "--json")
    again = call("ask", DATA, "smoker", "--key", "monday", "--json")
    assert convert(again.json, Answer).certificate == convert(first.json, Answer).certificate
    other = call("ask", DATA, "age > 65", "--key", "monday")
    assert (other.code, other.out) == (3, "")
    assert "'monday' was used for another request" in other.err
    assert call("budget", DATA, "--json").json["asks"] == 29


@pytest.mark.usefixtures("place")
def test_who_asks_is_recorded(call):
    call("ask", DATA, "smoker", "--analyst", "ada")
    call("table", DATA, "region", "--analyst", "bob")
    call("mean", DATA, "age", "--low", 0, "--high", 100, "--analyst", "cy")
    lines = call("history", DATA, "--json").json["history"]
    assert [line["analyst"] for line in lines] == ["ada", "bob", "cy"]


def test_marginals_are_those_of_a_curator(call, place):
    words = ("marginals", DATA, "region", "smoker", "age:30,60", "--margins")
    found = convert(call(*words, "--json").json, Marginals)
    with ht.Curator(place / DATA, ledger=place / "people.ledger") as curator:
        columns = ["region", "smoker", ht.cut("age", [30, 60])]
        again = curator.marginals("pairs", columns=columns, margins=True)
        assert [table.values for table in again] == [table.values for table in found]
    shown = call(*words)
    assert "3 tables" in shown.out
    assert "nothing" in shown.out
    out = place / "made.csv"
    assert "100 made rows of region, smoker, age" in call("synthesize", DATA, "--rows", 100, "--out", out).out
    assert len(out.read_text().splitlines()) == 101
    declared = place / "declared.json"
    declared.write_text('[{"age": "below 30"}, {"region": "N", "age": "below 30"}]')
    told = call("marginals", DATA, "region", "age:30", "--workload", declared, "--questions", 3)
    assert "region N, age below 30" in told.out
    assert "left     21 questions" in told.out
    declared.write_text("[")
    assert "JSON file" in call("marginals", DATA, "region", "age:30", "--workload", declared).err
    few = call(*words, "--tables", "region,smoker", "--tables", "age", "--json")
    assert [len(table["values"]) for table in few.json["tables"]] == [9, 4]


def test_a_ledger_elsewhere_is_named(call, place):
    place.joinpath("people.ledger").rename(place / "kept.ledger")
    assert call("ask", DATA, "smoker").code == 2
    assert call("ask", DATA, "smoker", "--ledger", "kept.ledger").code == 0


def test_a_table_is_that_of_a_curator(call, place):
    found = convert(call("table", DATA, "region", "--key", "t", "--json").json, Table)
    assert found.labels[:4] == (("N",), ("S",), ("E",), ("W",))
    with ht.Curator(place / DATA, ledger=place / "people.ledger") as curator:
        assert curator.table("region", key="t").values == found.values
    shown = call("table", DATA, "region")
    assert shown.out.splitlines()[0].split() == ["region", "share", "low", "high"]
    assert "share of the rows by region" in shown.out
    assert "nothing: asked before" in shown.out


@pytest.mark.usefixtures("place")
def test_numbers_are_cut_at_points(call):
    found = call("table", DATA, "age:18,65", "--where", "smoker", "--json").json
    assert (found["columns"], len(found["values"])) == (["age"], 4)  # three groups, and those who do not smoke
    assert sum(found["values"]) == pytest.approx(1, abs=0.9)


def test_dates_are_cut_at_points(call, tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    days = np.array(["2026-01-01", "2026-03-01", "2026-05-01", "NaT"] * 50, dtype="M8[D]")
    pq.write_table(pa.table({"day": days, "at": days.astype("M8[us]")}), tmp_path / "stays.parquet")
    with ht.Curator(tmp_path / "stays.parquet", queries=30, epsilon=5, delta=1e-6, ledger=tmp_path / "stays.ledger"):
        pass
    monkeypatch.chdir(tmp_path)
    found = call("table", "stays.parquet", "day:2026-02-01,2026-04-01", "--json").json
    assert [labels[0] for labels in found["labels"]][:2] == ["before 2026-02-01", "2026-02-01 to 2026-04-01"]
    timed = call("table", "stays.parquet", "at:2026-02-01 10:30,2026-04-01 00:00:00", "--json").json
    assert timed["labels"][1] == ["2026-02-01 10:30:00 to 2026-04-01"]
    asked = call("budget", "stays.parquet", "--json").json["asks"]
    for words, said in (("day:2026-02-30", "2026-02-30"), ("day:1,2", "dates"), ("day:2026-02-01 10:00", "without a time")):
        wrong = call("table", "stays.parquet", words)
        assert (wrong.code, wrong.out) == (2, "")
        assert said in wrong.err
    assert call("budget", "stays.parquet", "--json").json["asks"] == asked


def test_quantiles_of_dates_are_printed_as_dates(call, tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    days = np.datetime64("2026-01-01") + np.arange(3000) % 365
    pq.write_table(pa.table({"day": days, "at": days.astype("M8[us]")}), tmp_path / "stays.parquet")
    with ht.Curator(tmp_path / "stays.parquet", queries=60, iid=True, ledger=tmp_path / "stays.ledger"):
        pass
    monkeypatch.chdir(tmp_path)
    words = ("quantile", "stays.parquet", "day", "--low", "2025-12-01", "--high", "2027-01-31")
    found = convert(call(*words, "--json").json, Quantiles)
    assert found.interval.low <= date(2026, 7, 2) <= found.interval.high
    line = next(line for line in call(*words).out.splitlines() if line.startswith("0.5"))
    assert line.split() == ["0.5", *map(str, (found.value, found.interval.low, found.interval.high))]
    timed = call("quantile", "stays.parquet", "at", *words[3:], "--step", 0.5, "--preview").out
    assert "853 points: at most" in timed
    asked = call("budget", "stays.parquet", "--json").json["asks"]
    for place, wrong, told in ((4, "2026-02-30", "low must be a date"), (6, "2025", "high must be a date"), (2, "at", None)):
        given = [*words[:place], wrong, *words[place + 1 :]]
        refused = call(*given, *([] if told else ["--step", "1e-12"]))
        assert (refused.code, refused.out) == (2, "")
        assert (told or "1/24 for an hour") in refused.err
    assert call("budget", "stays.parquet", "--json").json["asks"] == asked


@pytest.mark.usefixtures("place")
def test_labels_are_read_by_the_type_of_their_column(call):
    found = call("table", DATA, "age", "--keys", "age=30,40", "--json").json
    assert found["labels"][:2] == [[30], [40]]
    wrong = call("table", DATA, "age", "--keys", "age=young,old")
    assert (wrong.code, wrong.out) == (2, "")
    assert "labels of the type integer" in wrong.err


@pytest.mark.usefixtures("place")
def test_a_question_by_groups_is_answered_in_each(call):
    found = convert(call("ask", DATA, "smoker", "--by", "region", "--json").json, Means)
    assert found.columns == ("region",)
    assert all(0 <= low <= high <= 1 for low, high in zip(found.low, found.high, strict=True))
    shown = call("ask", DATA, "smoker", "--by", "region")
    assert "all cells at once (95%)" in shown.out
    asked = call("budget", DATA, "--json").json["asks"]
    sharp = convert(call("ask", DATA, "smoker", "--by", "region", "--questions", 12, "--json").json, Means)
    assert sharp.high[1] - sharp.low[1] < found.high[1] - found.low[1]
    assert call("budget", DATA, "--json").json["asks"] == asked - 12
    for wrong in (("smoker", "age > 5", "--by", "region"), ("smoker", "--questions", 3), ("smoker", "--keys", "age=3")):
        told = call("ask", DATA, *wrong)
        assert (told.code, told.out) == (2, "")
        assert "give one question with --by" in told.err
    assert "2 or more" in call("ask", DATA, "smoker", "--by", "region", "--questions", 1).err
    assert call("budget", DATA, "--json").json["asks"] == asked - 12


@pytest.mark.usefixtures("place")
def test_means_and_sums(call):
    words = ("mean", DATA, "age", "--low", 0, "--high", 100)
    mean = convert(call(*words, "--json").json, Means)
    assert mean.low[0] <= 49.5 <= mean.high[0]
    total = convert(call(*words, "--sum", "--json").json, Means)
    assert total.values[0] == pytest.approx(mean.values[0] * 3_000, rel=0.2)
    assert total.repeated  # the sum follows from the mean
    per_head = convert(call(*words, "--sum", "--population", 1_000, "--json").json, Means)
    assert per_head.low[0] <= 49_500 <= per_head.high[0]
    sharp = convert(call(*words, "--questions", 12, "--json").json, Means)
    assert sharp.high[0] - sharp.low[0] < mean.high[0] - mean.low[0]
    assert call(*words, "--sum", "--questions", 12, "--json").json["repeated"]
    grouped = call(*words, "--by", "region", "--where", "smoker")
    assert "by region" in grouped.out
    assert re.search(r"cost +\d+ questions, \S+% of the budget \(\S+ mu", grouped.out)


@pytest.mark.usefixtures("place")
def test_margins_and_a_price_of_ones_own(call):
    words = ("table", DATA, "region", "smoker", "--margins", "--questions", 12)
    found = convert(call(*words, "--json").json, Table)
    assert found.unions.declared == ("margins",)
    shown = call(*words).out
    for line in ("region: N", "region: W", "smoker: True", "smoker: False"):
        assert line in shown
    assert f"{found.share({'region': 'N'}).value:.4f}" in shown
    assert re.search(r"left +18 of 30|left +18 questions", shown)
    ranged = convert(call("table", DATA, "age:20,40,60", "--ranges", "--json").json, Table)
    assert ranged.unions.declared == ("ranges",)
    summed = call("table", DATA, "region", "--rollup", "N,S", "--rollup", "E,W").out
    assert re.search(r"E \+ W +0\.\d{4}", summed)
    assert "20 to 40 + 40 to 60" in call("table", DATA, "age:20,40,60", "--rollup", "20 to 40,40 to 60").out
    asked = call("budget", DATA, "--json").json["asks"]
    wrong = call("table", DATA, "region", "--questions", 1)
    assert (wrong.code, wrong.out) == (2, "")
    assert "2 or more" in wrong.err
    assert call("budget", DATA, "--json").json["asks"] == asked


@pytest.mark.usefixtures("place")
def test_groups_are_compared_for_nothing(call):
    words = ("mean", DATA, "age", "--low", 0, "--high", 100, "--by", "region")
    found = call(*words, "--compare", "N, S", "--json").json
    means = convert(found["mean"], Means)
    assert found["difference"]["value"] == means.difference("N", "S").value
    assert found["ratio"]["low"] == means.ratio("N", "S").low
    shown = call(*words, "--compare", "E,W").out
    assert shown.splitlines()[-2:] == [str(means.difference("E", "W")), str(means.ratio("E", "W"))]
    left = call("budget", DATA, "--json").json["asks"]
    for wrong in ("N", "N,Q", "N,", ",S", "N;S"):
        told = call(*words, "--where", "smoker", "--compare", wrong)
        assert (told.code, told.out) == (2, "")
        assert "two groups with a comma between them: N, S, E, W" in told.err
    assert "none without --by" in call(*words[:-2], "--compare", "N,S").err
    assert call("budget", DATA, "--json").json["asks"] == left


@pytest.mark.usefixtures("place")
def test_medians_and_levels(call):
    words = ("quantile", DATA, "age", "--low", 0, "--high", 127)
    median = convert(call(*words, "--json").json, Quantiles)
    assert median.levels == (0.5,)
    assert median.low[0] <= 49 <= median.high[0]
    again = call(*words)
    assert "quantiles of age" in again.out
    assert re.search(r"holds for +the population, all at once \(95%\)", again.out)
    filtered = call(*words, "--where", "smoker", "--preview")
    assert "points: at most" in filtered.out
    assert call("budget", DATA, "--json").json["asks"] == call("budget", DATA, "--json").json["asks"]


@pytest.mark.usefixtures("place")
def test_a_preview_is_free(call):
    before = call("budget", DATA, "--json").json
    one = call("preview", DATA, "age > 65", "--json").json
    assert not one["repeated"]
    both = call("preview", DATA, "age > 65", "bmi / 60", "--json").json["previews"]
    assert [seen["alpha"] for seen in both] == [one["alpha"]] * 2
    shown = call("preview", DATA, "bmi / 60")
    assert "values below 0 count as 0, above 1 as 1" in shown.out
    assert call("budget", DATA, "--json").json == before
    call("ask", DATA, "age > 65")
    assert "nothing: asked before" in call("preview", "people.ledger", "65 < age").out


def test_rows_that_are_not_independent_have_no_interval(call, place):
    with ht.Curator(place / DATA, queries=30, epsilon=1, delta=1e-6, ledger=place / "rows.ledger", second_budget=True):
        pass
    asked = call("ask", DATA, "smoker", "--ledger", "rows.ledger")
    assert "population  no interval: " in asked.out
    assert "no interval: rows not declared independent draws" in call("preview", "rows.ledger", "age > 5").out
    table = call("table", DATA, "age:50", "--ledger", "rows.ledger")
    assert "these rows, all cells at once" in table.out


@pytest.mark.usefixtures("place")
def test_a_choice_says_how_far_behind_it_may_be(call):
    words = ("select", DATA, "north=region = 'N'", "south=region = 'S'")
    choice = convert(call(*words, "--epsilon", 0.05, "--key", "s", "--json").json, Choice)
    assert choice.name == "north"  # 2,100 rows against 300
    again = call(*words, "--epsilon", 0.05, "--key", "s")
    assert re.search(r"chosen +north", again.out)
    assert re.search(r"at most \S+ of 3,000 rows behind the best", again.out)
    assert "to select, learn and predict" in again.out


@pytest.mark.usefixtures("place")
def test_scores_weights_and_several_picks_are_options_of_a_choice(call):
    words = ("select", DATA, "a=3000", "b=1/3", "c=1000.5", "--scores", "--sensitivity", "1/2", "--epsilon", 0.05)
    terms = ("--top", 2, "--weights", "1,2,1/2", "--name", "monday")
    choice = convert(call(*words, *terms, "--json").json, Choice)
    assert choice.names == ("a", "c")
    again = call(*words, *terms)
    assert re.search(r"chosen +a, c", again.out)
    assert re.search(r"at most \S+ behind the best", again.out)
    assert "asked before" in again.out


@pytest.mark.usefixtures("place")
def test_a_point_of_a_line_is_chosen_by_scores_up_to_points(call):
    words = ("select", DATA, "20=0", "20.5=3000", "100=1/3", "--line", "0,100", "--epsilon", 0.05)
    choice = convert(call(*words, "--json").json, Choice)
    assert 20 <= float(choice.name) <= 20.5
    assert "line of 1,048,576 points" in choice.method
    assert re.search(r"chosen +20\.", call(*words).out)


@pytest.mark.usefixtures("place")
def test_a_watch_goes_on_through_its_questions(call):
    words = ("watch", DATA, "age > 500", "age >= 0", "--threshold", 0.5, "--alarms", 2, "--epsilon", 0.05)
    told = call(*words, "--json").json["answers"]
    assert [answer["above"] for answer in told] == [False, True]
    again = call(*words)
    assert "above 0.5, told before" in again.out
    assert "run 1; 2 alarms left" in " ".join(again.out.split())


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_watch_that_runs_out_shows_what_was_paid_for(call, form):
    words = ("watch", DATA, "age >= 0", "age > 5", "--threshold", 0.5, "--epsilon", 0.05, *form)
    told = call(*words)
    assert told.code == 3
    assert "above" in told.out
    assert "no alarms are left of 1" in told.err
    assert "open one with another --name" in told.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("watch", DATA, "age > 5", "--threshold", 2), 2, "threshold"),
        (("watch", DATA, "nope > 5", "--threshold", 0.5), 2, "nope"),
        (("select", DATA, "a=1", "b=x", "--scores"), 2, "scores"),
        (("select", DATA, "a=smoker", "b=age > 5", "--weights", "0,0"), 2, "weights"),
        (("select", DATA, "a=smoker", "b=age > 5", "--top", 3), 2, "top"),
        (("select", DATA, "20=1", "50=2", "--line", "0,100"), 2, "the last of which is the high end"),
        (("ask", DATA, "nope > 1"), 2, "nope"),
        (("ask", DATA, "age >"), 2, "ends too early"),
        (("table", DATA, "nope"), 2, "nope"),
        (("table", DATA, "age"), 2, "age"),
        (("table", DATA, "age:a,b"), 2, "COLUMN:POINT,POINT"),
        (("table", DATA, "age:65,18"), 2, "points"),
        (("table", DATA, "region:1,2"), 2, "a column of numbers"),
        (("table", DATA, "age", "--keys", "age=1,1"), 2, "different labels"),
        (("table", DATA, f"age:{','.join(map(str, range(20_000)))}", "region", "smoker"), 2, "bin age"),
        (("table", DATA, "region", "--keys", "region"), 2, "COLUMN=LABEL,LABEL"),
        (("table", DATA, "region", "--keys", "nope=1"), 2, "nope"),
        (("mean", DATA, "age", "--low", 5, "--high", 5), 2, "low"),
        (("mean", DATA, "smoker", "--low", 0, "--high", 1), 2, "smoker"),
        (("mean", DATA, "region", "--low", 0, "--high", 1), 2, "a column of numbers"),
        (("mean", DATA, "age", "--low", 0, "--high", 1, "--by", "bmi"), 2, "not public"),
        (("mean", DATA, "age", "--low", 0, "--high", 9, "--population", 9), 2, "--population goes only with --sum"),
        (
            ("mean", DATA, "age", "--low", 0, "--high", 9, "--sum", "--population", 0),
            2,
            "population must be a whole number, 1 or above",
        ),
        (("mean", DATA, "age", "--low", 0, "--high", 9, "--questions", 1), 2, "2 or more"),
        (("table", DATA, "region", "--rollup", "N,Q"), 2, "two or more different labels of the table: N, S, E, W"),
        (("quantile", DATA, "age", "1.5", "--low", 0, "--high", 9), 2, "levels"),
        (("quantile", DATA, "age", "0", "--low", 0, "--high", 9), 2, "levels"),
        (("quantile", DATA, "age", "--low", 9, "--high", 0), 2, "low"),
        (("quantile", DATA, "region", "--low", 0, "--high", 9), 2, "region"),
        (("quantile", DATA, "age", "--low", 0, "--high", 9, "--step", 4), 2, "step"),
        (("quantile", DATA, "age", "--low", "young", "--high", 9), 2, "low must be a finite number"),
        (("quantile", DATA, "age", "--low", "nan", "--high", 9), 2, "low must be a finite number"),
        (("quantile", DATA, "age", "--low", 0, "--high", 9, "--method", "guess"), 2, "method"),
        (("quantile", DATA, "age", "--low", 0, "--high", 9, "--method", "exponential", "--where", "smoker"), 2, "where"),
        (("select", DATA, "smoker"), 2, "NAME=QUESTION"),
        (("select", DATA, "a=smoker", "a=age > 5"), 2, "different name"),
        (("select", DATA, "a=1 > 0", "b=smoker"), 2, "uses a column"),
        (("select", DATA, "a=smoker", "b=age > 5", "--epsilon", 90), 3, "reserve"),
        (("preview", DATA, "nope > 1"), 2, "nope"),
        (("preview", "nothing.parquet", "age > 1"), 2, "nothing.ledger"),
    ],
    ids=lambda value: str(value)[:80],
)
@pytest.mark.usefixtures("place")
def test_what_is_refused_costs_nothing(call, words, code, said):
    done = call(*words)
    assert (done.code, done.out) == (code, "")
    assert re.fullmatch(r"error: .+\n", done.err)
    assert said in done.err
    assert call("history", DATA, "--json").json == {"history": []}


@pytest.mark.usefixtures("place")
def test_what_follows_is_shown_without_the_data(call):
    call("ask", DATA, "age > 65")
    assert "deduction" in call("deduce", DATA, "age > 70", "--json").out
    assert "from entries" in call("deduce", DATA, "age > 70").out
    assert "from earlier answers" in call("preview", DATA, "age > 70").out
    assert call("ask", DATA, "age > 1 OR TRUE", "age > 65", "--deduce-first").out
