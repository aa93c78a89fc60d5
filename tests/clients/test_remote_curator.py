"""A dataset at a distance: the curator's verbs, records and errors."""

import logging
import pickle
from datetime import date, datetime
from fractions import Fraction

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from sklearn.linear_model import LogisticRegression

import holdtrue as ht
from clients.running import running
from holdtrue.clients import Remote
from holdtrue.requests import Covariance


def test_ask_returns_what_the_ledger_has(analyst, curator):
    answer = analyst.ask("age > 65")
    assert answer == curator.history[-1].responses[0]
    assert answer.interval.low <= answer.value <= answer.interval.high
    assert curator.history[-1].analyst == "test_ask_returns_what_the_ledger_has"
    assert analyst.ask("65 < age").repeated
    assert analyst.ask("age > 65").value == answer.value


def test_ask_takes_lists_and_returns_lists(analyst, curator):
    asked = ["bmi / 60", "smoker AND age < 30", "bmi / 60"]
    answers = analyst.ask(asked)
    assert [type(each).__name__ for each in answers] == ["Answer"] * 3
    assert answers[0].value == answers[2].value
    assert [each.value for each in curator.ask(asked)] == [each.value for each in answers]
    assert analyst.ask([]) == []


def test_the_truth_is_in_the_intervals(analyst, served):
    for low in (10, 30, 50, 70):
        assert float((served.rows["age"] > low).mean()) in analyst.ask(f"age > {low}").sample_interval


def test_means_and_shares_by_group_are_those_of_the_curator(analyst, curator):
    terms = {"low": 15, "high": 40, "by": ["smoker", ht.cut("age", [18, 65])], "where": "age > 1", "key": "one mean"}
    means = analyst.mean("bmi", **terms)
    assert means == curator.history[-1].responses[0]
    assert (len(means), analyst.mean("bmi", **terms)) == (6, means)
    assert analyst.sum(
        "bmi", low=15, high=40, by=["smoker", ht.cut("age", [18, 65])], where="age > 1", population=100
    ).repeated
    shares = analyst.ask("age > 50", by="region", keys={"region": ["N", "S"]})
    assert (shares.measure, shares) == ("share", curator.history[-1].responses[0])
    for wrong in ({"low": 3, "high": 1}, {"low": 0, "high": 1, "by": ["smoker", "smoker"]}):
        with pytest.raises(ht.InvalidParameter):
            analyst.mean("bmi", **wrong)


def test_a_histogram_has_the_bins_that_the_curator_has(analyst, curator):
    table = analyst.histogram("age", low=0, high=100, bins=4, key="bins")
    assert table == curator.history[-1].responses[0]
    assert curator.histogram("age", low=0, high=100, bins=4).repeated
    assert len(table) == 5
    with pytest.raises(ht.InvalidParameter, match="low must be below high"):
        analyst.histogram("age", low=9, high=9)


def test_a_table_has_the_cells_that_the_curator_has(analyst, curator):
    table = analyst.table("region", ht.cut("age", [18, 65]), where="smoker", keys={"region": ["N", "S"]}, key="one table")
    assert table == curator.history[-1].responses[0]
    assert (len(table), table.labels[-1]) == (7, (None, None))
    again = analyst.table("region", ht.cut("age", [18, 65]), where="smoker", keys={"region": ["N", "S"]}, key="one table")
    assert again == table
    with pytest.raises(ht.InvalidParameter):
        analyst.table("region", "region", keys={"region": ["N"]})


def test_rollups_are_declared_through_the_client(analyst):
    table = analyst.table("region", where="age > 8", keys={"region": ["N", "S", "W"]}, rollups=[["N", "W"]])
    assert table.unions.rollups == ((0, 2),)
    with pytest.raises(ht.InvalidParameter):
        analyst.table("region", keys={"region": ["N", "S"]}, rollups=[["N", "Q"]])


def test_a_price_of_ones_own_is_charged_through_the_client(analyst, curator):
    cost, keys = curator.plan.cost / 10**15, {"region": ["N", "S"]}
    asks = [
        lambda paid: analyst.table("region", where="age > 7", keys=keys, questions=paid),
        lambda paid: analyst.mean("bmi", low=15, high=40, by="region", keys=keys, questions=paid),
        lambda paid: analyst.ask("age > 50", by="region", keys=keys, questions=paid),
    ]
    for ask in asks:
        assert [round(ask(paid).certificate.cost / cost, 6) for paid in (2, 5)] == [2, 5]
        with pytest.raises(ht.InvalidParameter):
            ask(1)
    assert analyst.sum("bmi", low=15, high=40, by="region", keys=keys, questions=5).repeated
    with pytest.raises(ht.InvalidParameter):
        analyst.ask("age > 50", questions=2)


def test_marginals_have_the_tables_that_the_curator_has(analyst, curator):
    given = {"columns": ["region", "smoker", ht.cut("age", [18, 65])], "keys": {"region": ["N", "S"]}, "margins": True}
    found = analyst.marginals("pairs", key="all pairs", **given)
    assert found.tables == curator.history[-1].responses
    assert analyst.marginals("pairs", key="all pairs", **given) == found
    made = analyst.synthesize(["smoker", "age"], rows=50, seed=3)
    assert made == curator.synthesize(["smoker", "age"], rows=50, seed=3, analyst=curator.history[-1].analyst)
    assert analyst.marginals([["smoker", "region"]], **given)[0].values != found.find("region", "smoker").values
    with pytest.raises(ht.InvalidParameter):
        analyst.marginals("all", **given)
    declared = analyst.marginals([["smoker"]], workload=[{"smoker": True}], questions=3, **given)
    assert declared.workload == curator.history[-1].responses[-1]
    assert declared.certificate.cost > analyst.marginals([["age"]], **given).certificate.cost


def test_statistics_are_those_of_the_curator(analyst, curator):
    bounds = {"age": (0, 100), "bmi": (10, 50)}
    for ask in (
        lambda held, **given: held.variance("age", low=0, high=100, **given),
        lambda held, **given: held.covariance("age", "bmi", bounds=bounds, **given),
        lambda held, **given: held.correlation("age", "bmi", bounds=bounds, **given),
        lambda held, **given: held.r_squared("age", "bmi", low=0, high=100, **given),
        lambda held, **given: held.gini("age", low=0, high=100, **given),
        lambda held, **given: held.ratio("age", "bmi", cap=30, high=5, **given),
        lambda held, **given: held.auc("age", "smoker", low=0, high=100, **given),
        lambda held, **given: held.pairs("abs(a.age - b.age)", high=100, **given),
        lambda held, **given: held.best_error(ht.Stumps(bounds={"age": (0, 100)}, steps=9), target="smoker", **given),
    ):
        found = ask(analyst)
        assert found.interval.low <= found.value <= found.interval.high
        here = ask(curator)
        assert (here.value, here.interval, here.repeated) == (found.value, found.interval, True)
    price = analyst.preview_statistic(Covariance(first="age", second="bmi", bounds=bounds))
    assert price == curator.preview_statistic(Covariance(first="age", second="bmi", bounds=bounds))
    assert price.questions == 1
    with pytest.raises(ht.InvalidParameter):
        analyst.variance("age", low=3, high=1)


def test_quantiles_are_those_of_the_curator(analyst, curator):
    found = analyst.quantile("age", [0.25, 0.5], low=0, high=127, where="smoker", key="one quantile")
    assert analyst.quantile("age", [0.25, 0.5], low=0, high=127, where="smoker", key="one quantile") == found
    here = curator.quantile("age", [0.25, 0.5], low=0, high=127, where="smoker")
    assert (here.values, here.low, here.high, here.repeated) == (found.values, found.low, found.high, True)
    median = analyst.median("age", low=0, high=127, where="smoker", method="curve")
    assert (median.value, median.method, median.repeated) == (found.values[1], "curve", True)
    assert analyst.median("age", low=0, high=127).method == "search"
    price = analyst.preview_quantile("age", [0.25, 0.5], low=0, high=127, where="smoker")
    assert (price.method, price.points, price.asks) == ("curve", 128, found.asks)
    for wrong in ({"levels": 2}, {"levels": "half"}, {"low": 200}, {"step": 5}, {"method": "tree"}):
        with pytest.raises(ht.InvalidParameter):
            analyst.quantile(**({"column": "age", "levels": 0.5, "low": 0, "high": 127} | wrong))


def test_quantiles_of_dates_go_and_come_as_dates(tmp_path):
    days = np.datetime64("2026-01-01") + np.arange(4000) % 365
    pq.write_table(pa.table({"day": days, "at": days.astype("M8[us]")}), tmp_path / "stays.parquet")
    with running(tmp_path / "home") as served:
        registry = served.service.registry
        registry.register("stays", {"path": "stays.parquet", "queries": 200, "iid": True})
        curator = registry.open_dataset("stays").curator
        ends = {"low": date(2025, 12, 1), "high": np.datetime64("2027-01-31")}
        with served.connect() as remote:
            found = remote.median("day", key="one", **ends)
            assert found == remote.median("day", key="one", low="2025-12-01", high="2027-01-31")
            assert curator.median("day", **ends).values == found.values
            assert date(2026, 7, 2) in found.interval
            assert found.interval.low <= found.value <= found.interval.high
            price = remote.preview_quantile("at", [0.1, 0.5], low=datetime(2026, 1, 1), high="2027-01-01", step=0.5)  # noqa: DTZ001
            assert price.points == 731
            noon = remote.quantile("at", [0.1, 0.5], low=datetime(2026, 1, 1), high="2027-01-01", step=0.5)  # noqa: DTZ001
            assert datetime(2026, 7, 2, 12) in noon[1].interval  # noqa: DTZ001
            left = curator.budget.asks
            for wrong in ({"low": 3}, {"low": "2026-02-30"}, {"step": 0.5}, {"high": date(2025, 1, 1)}, {"low": None}):
                with pytest.raises(ht.InvalidParameter):
                    remote.median(**({"column": "day"} | ends | wrong))
        body = {"column": "day", "levels": 0.5, "low": "2025-12-01", "high": "2027-01-31"}
        headers = {"Authorization": f"Bearer {served.key('bob')}", "Idempotency-Key": "two"}
        told = httpx.post(f"{served.url}/v1/datasets/stays/quantile", json=body, headers=headers, timeout=60).json()
        assert (told["values"], told["low"], told["repeated"]) == (list(found.values), list(found.low), True)
        assert curator.budget.asks == left


def test_select_returns_a_choice(analyst, curator):
    regions = {"north": "region = 'N'", "south": "region = 'S'"}
    choice = analyst.select(regions, epsilon=0.05)
    assert choice == curator.history[-1].responses[0]
    assert (choice.name, choice.index) == ("south", 1)
    assert analyst.select(["age > 99", "age >= 0"], epsilon=0.05).name == "age >= 0"


def test_whole_scores_are_the_owners_and_known_by_their_name(owner, analyst):
    scores = {"a": 900, "b": 20}
    with pytest.raises(ht.RefusedError, match="owner"):
        analyst.select(scores, epsilon=0.05)
    choice = owner.select(scores, epsilon=0.05, name="monday")
    assert (choice.name, choice.repeated) == ("a", False)
    assert owner.select(scores, epsilon=0.05, name="monday").repeated


def test_scores_of_ones_own_go_over_http_with_their_terms(owner, analyst):
    given = {
        "sensitivity": Fraction(1, 3),
        "weights": [1, Fraction(1, 2), 2.5],
        "top": 2,
        "epsilon": 0.05,
        "name": "tuesday",
    }
    scores = {"a": Fraction(2900, 3), "b": 20, "c": 400}
    with pytest.raises(ht.RefusedError, match="owner"):
        analyst.select(scores=scores, **given)
    choice = owner.select(scores=scores, **given)
    assert choice.names == ("a", "c")
    assert owner.select(scores=scores, **given).repeated
    assert owner.select(scores=np.array([3, 5000, 2]), epsilon=0.05).name == "1"
    assert 40 <= float(owner.select(scores=[0, 9000, 0], line=(0, 100), cuts=[40, 60], epsilon=0.05).name) <= 60
    for wrong in ({"weights": [0, 0, 0]}, {"sensitivity": -1}, {"top": 4}, {"weights": [1]}):
        with pytest.raises(ht.InvalidParameter):
            owner.select(scores=scores, **(given | wrong))


def test_a_fitted_model_predicts_here_and_is_charged_once(analyst, curator):
    given = {"target": "sick = 1", "features": ["age"], "bounds": {"age": (0, 100)}, "mu": 0.01}
    model = analyst.fit("risk", "logistic", **given)
    before = curator.budget.spent
    again = analyst.fit("risk", "logistic", **given)
    assert (again.repeated, again.weights, curator.budget.spent) == (True, model.weights, before)
    rows = {"age": [10, 90]}
    assert model.predict(rows).tolist() == curator.fit("risk", "logistic", **given).predict(rows).tolist()
    for wrong in ({"mu": 0}, {"features": ["nope"]}, {"radius": -1}):
        with pytest.raises(ht.HoldtrueError):
            analyst.fit("risk", "logistic", **(given | wrong))


def test_a_kept_fit_is_for_the_owner_and_each_prediction_is_charged(analyst, owner, curator):
    given = {"target": "sick = 1", "features": ["age"], "bounds": {"age": (0, 100)}, "epsilon": 0.05}
    for kind, more in (("logistic", {"release": "each", "basis": ht.Fourier(8, 2.0, 7)}), ("thresholds", {})):
        before = curator.budget.spent
        with pytest.raises(ht.RefusedError, match="owner"):
            analyst.fit("kept", kind, **given, **more)
        told = owner.fit("kept", kind, **given, **more, replace=True)
        assert (told["name"], told["features"], curator.budget.spent) == ("kept", ["age"], before)
        said = analyst.predict("kept", {"age": 90})
        assert said.label in (False, True)
        assert curator.budget.spent - before == pytest.approx(said.certificate.cost)
    steps = analyst.fit("steps", "logistic", method="descent", **given | {"epsilon": None, "mu": 0.01})
    assert len(steps.weights) == 2


def test_a_watch_is_silent_until_it_fires(analyst, curator):
    watch = analyst.watch(threshold=0.5, alarms=1, epsilon=0.05)
    before = curator.budget.spent
    silent = watch.ask("age > 500", key="w1")
    assert (silent.above, silent.run, silent.alarms_left) == (False, 1, 1)
    assert silent.run_cost == pytest.approx(curator.budget.spent - before)
    assert watch.ask("age > 500", key="w1").above is False
    assert watch.ask("age >= 0").above
    with pytest.raises(ht.RefusedError, match="alarms"):
        watch.ask("age > 499")
    with pytest.raises(ht.InvalidParameter):
        analyst.watch(threshold=2).ask("age > 1")


def test_a_learned_hypothesis_predicts_here(analyst, curator, served):
    stumps = ht.Stumps(bounds={"age": (0, 100), "bmi": (10, 60)}, steps=50)
    learned = analyst.learn(stumps, target="sick = 1", epsilon=0.1)
    assert learned == curator.history[-1].responses[0]
    assert learned.excess_error is not None
    rows = {name: served.rows[name] for name in ("age", "bmi")}
    labels = learned.predict(rows)
    assert np.array_equal(labels, curator.learn(stumps, target="sick = 1", epsilon=0.1).predict(rows))
    assert (labels == (served.rows["sick"] == 1)).mean() > 0.9
    with_questions = analyst.learn(ht.Conjunctions(["smoker", "age > 50"], width=1), target="sick = 1", epsilon=0.05)
    one = with_questions.predict({"smoker": False, "age": 90})
    assert one.shape == (1,)


def _release_rules(analyst, *, target="sick = 1"):
    """Return what learn and fit of many kinds give, all of which are judged by one question."""
    line = {"target": target, "features": ["age"], "bounds": {"age": (0, 100)}, "mu": 0.01}
    bmi = {"target": "bmi", "features": ["age"], "bounds": {"age": (0, 100)}, "mu": 0.01}
    found = [analyst.learn(ht.Stumps(bounds={"age": (0, 100)}, steps=20), target=target, epsilon=0.05, check=True)]
    found += [analyst.learn(ht.Conjunctions(["smoker", "age > 50"], width=1), target=target, epsilon=0.04)]
    found += [
        analyst.fit("judged", "logistic", **line),
        analyst.fit("waves", "logistic", basis=ht.Fourier(4, 2.0, 7), **line),
    ]
    return [*found, analyst.fit("weight", "ridge", **bmi), analyst.learn(ht.Trees(["smoker"], depth=1), target=target)]


def test_what_was_released_is_judged_at_a_distance_as_the_curator_judges_it(analyst, curator):
    for rule in _release_rules(analyst):
        found = analyst.evaluate(rule)
        assert (found.low, found.rows) <= (found.value, 20_000)
        assert found == curator.history[-1].responses[0]
        for again in (analyst.evaluate(rule), analyst.evaluate(rule.certificate.entry), curator.evaluate(rule)):
            assert (again.repeated, again.value, again.certificate) == (True, found.value, found.certificate)
        for known in (curator.evaluate(rule.certificate.entry), analyst.evaluate(type(rule)(*_list_fields(rule)))):
            assert (known.repeated, known.value) == (True, found.value)


def _list_fields(record):
    return (getattr(record, name) for name in record.__struct_fields__)


def test_a_rule_of_another_ledger_or_one_that_was_changed_is_refused(analyst, curator, served):
    """Entry numbers start at 1 in every ledger; the digest says which one a rule is of, and what was released as it."""
    rule, _, line, *_ = _release_rules(analyst, target="sick = 0")
    with ht.Curator(served.rows, queries=20, epsilon=6.0, delta=1e-6, reserve=0.7, cap="privacy", iid=True) as other:
        strange = other.learn(ht.Stumps(bounds={"age": (0, 100)}, steps=20), target="sick = 0", epsilon=0.05)
    strange = replace(strange, certificate=replace(strange.certificate, entry=rule.certificate.entry))
    changed = [replace(rule, index=0), replace(rule, text="age > 1"), replace(line, weights=(1.0, 1.0))]
    changed += [replace(line, bounds=((0.0, 1.0),)), replace(rule, certificate=line.certificate)]
    before = curator.budget.spent
    for judge in (analyst, curator):
        for wrong in (strange, *changed):
            with pytest.raises(ht.InvalidParameter, match="not what was released on this ledger"):
                judge.evaluate(wrong)
    assert curator.budget.spent == before
    assert analyst.evaluate(replace(rule, repeated=True)).value == analyst.evaluate(rule).value


def test_what_cannot_be_judged_at_a_distance_is_refused(analyst, owner, curator):
    theirs = owner.learn(ht.Stumps(bounds={"age": (0, 100)}, steps=13), target="sick = 1", epsilon=0.05)
    asked = analyst.ask("age > 77").certificate.entry
    before = curator.budget.spent
    for wrong, words in (
        (LogisticRegression(), "the curator itself judges students"),
        (None, "the name of a model"),
        (theirs.certificate.entry, "an entry of learn or fit"),  # which rule others learned is not told by its number
        (asked, "an entry of learn or fit"),
        (10**6, "an entry of learn or fit"),
        ("nothing", "no model"),
    ):
        with pytest.raises(ht.RequestError, match=words):
            analyst.evaluate(wrong)
    for release, words in (
        (lambda: owner.fit("own", LogisticRegression(), target="sick = 1"), "the curator itself"),
        (lambda: owner.learn(ht.Hypotheses(predictions=np.zeros((20_000, 2), bool)), target="sick = 1"), "rows by position"),
        (lambda: owner.learn(ht.Hypotheses([len], columns=["age"]), target="sick = 1"), "brought are code"),
    ):
        with pytest.raises(ht.RequestError, match=words):
            release()
    assert curator.budget.spent == before
    assert owner.evaluate(theirs.certificate.entry).value == analyst.evaluate(theirs).value


def test_several_classes_are_learned_from_at_once(analyst):
    classes = [ht.Thresholds(0, 100, steps=20, column="age"), ht.Thresholds(10, 60, steps=20, column="bmi")]
    assert "age" in analyst.learn(classes, target="sick = 1", weights=[0.5, 0.5], epsilon=0.05).text


def test_train_and_predict(owner, analyst, curator):
    features = ["age", "bmi", "smoker"]
    made = owner.train("risk", "decision-tree", target="sick", features=features, parts=100, parameters={"max_depth": 2})
    assert (made["name"], made["parts"], made["labels"]) == ("risk", 100, [0, 1])
    row = {"age": 90, "bmi": 31.5, "smoker": True}
    said = analyst.predict("risk", row, epsilon=0.3)
    assert said == curator.history[-1].responses[0]
    assert said.label == 1
    table = {"age": np.array([90, 20]), "bmi": [31.5, 22.0], "smoker": [True, False]}
    several = analyst.predict("risk", table, epsilon=0.3)
    assert [each.label for each in several] == [1, 0]
    assert (several[0].certificate.entry, several[0].repeated) == (said.certificate.entry, True)
    assert analyst.models == curator.models
    assert "risk" in [each.name for each in analyst.models]
    assert analyst.predictions_left("risk", epsilon=0.3) == curator.predictions_left("risk", epsilon=0.3)
    with pytest.raises(ht.UnknownName):
        analyst.predictions_left("other")
    owner.train("judged", "logistic-regression", target="sick", features=features, parts=50, order="fixed", held_out=0.2)
    found = analyst.evaluate("judged", at_most=[0.4, 0.3], epsilon=0.3, mu=0.05)
    assert (found, found.rows) == (curator.history[-1].responses[0], 4000)
    assert curator.evaluate("judged", at_most=[0.4, 0.3], epsilon=0.3, mu=0.05).repeated
    rule = analyst.learn(ht.Stumps(bounds={"age": (0, 100)}, steps=5), target="sick = 1", epsilon=0.1)
    stumps, weights = ht.Stumps(bounds={"age": (0, 100)}, steps=5), [1, 2] * (curator.card.rows // 2)
    heavy = analyst.learn(stumps, target="sick = 1", epsilon=0.05, row_weights=weights)
    assert "weighted" in heavy.reason
    assert analyst.evaluate(rule).value == curator.history[-1].responses[0].value
    assert analyst.evaluate(rule.certificate.entry).repeated
    with pytest.raises(ht.InvalidParameter, match="on this ledger"):
        analyst.evaluate(1)


def test_a_class_is_trained_and_certified_through_the_client(owner, analyst, curator):
    stumps = ht.Stumps(bounds={"age": (0, 100)}, steps=10)
    made = owner.train("best", hypotheses=stumps, target="sick", parts=20, order="fixed", assuming="realizable")
    assert made["certificate"] == curator.model("best").certificate
    said = analyst.predict("best", {"age": 90}, epsilon=0.3)
    assert said == curator.history[-1].responses[0]
    assert (said.proven is None) == (curator.model("best").asked.terms.lost is not None)
    with pytest.raises(ht.InvalidParameter, match="estimator"):
        owner.train("best", target="sick", parts=20)


def test_a_model_by_key_predicts_by_any_method(owner, analyst, curator):
    features = {"target": "sick", "features": ["age"], "parts": 20}
    made = {
        name: owner.train(name, "logistic-regression", **features, **given)
        for name, given in (("content", {}), ("keyed", {"key": "region"}), ("placed", {"order": "fixed"}))
    }
    assert len({each["digest"] for each in made.values()}) == 3
    said = analyst.predict("placed", {"age": 90}, mu=0.05, method="noisy-max")
    assert said == curator.history[-1].responses[0]
    with pytest.raises(ht.InvalidParameter, match="screen"):
        analyst.predict("placed", {"age": 90}, screen=2)
    with pytest.raises(ht.InvalidParameter, match="mu"):
        analyst.predict("placed", {"age": 90}, mu="much")
    bounded = owner.train("years", "ridge", target="age", features=["bmi"], parts=20, bounds={"age": (0, 100)})
    assert bounded["bounds"] == [0, 100]


def test_a_prediction_sent_again_is_charged_once_and_a_row_that_cannot_be_read_costs_nothing(owner, analyst, curator):
    owner.train("often", "decision-tree", target="sick", features=["age", "bmi"], parts=20, parameters={"max_depth": 1})
    table = {"age": [1, 2], "bmi": [20.0, 21.0]}
    first = analyst.predict("often", table, epsilon=0.1, key="again")
    charges = len(curator.history)
    assert analyst.predict("often", table, epsilon=0.1, key="again") == first
    with pytest.raises(ht.RefusedError):
        analyst.predict("often", {"age": 3, "bmi": 20.0}, epsilon=0.1, key="again")
    for row in ({"age": "old", "bmi": 20.0}, {"age": 1.5, "bmi": 20.0}, {"age": 1}, {"age": True, "bmi": "x"}):
        with pytest.raises(ht.RequestError):
            analyst.predict("often", row, epsilon=0.1)
    assert len(curator.history) == charges


def test_preview_budget_history_report_and_verify(analyst, owner, curator, tmp_path):
    asked = "bmi > 31"
    preview = analyst.preview(asked)
    assert preview == curator.preview(asked)
    before = analyst.budget
    assert before == curator.budget
    assert before.epsilon(1e-6) == curator.budget.epsilon(1e-6)
    answer = analyst.ask(asked)
    assert analyst.budget.left < before.left
    mine = analyst.history
    assert [line.responses[0] for line in mine] == [answer]
    assert owner.history == curator.history
    assert len(owner.history) > len(mine)
    analyst.report(tmp_path / "page.html")
    assert "<html" in (tmp_path / "page.html").read_text()
    found = analyst.verify(receipts=[(answer.certificate.entry, answer.certificate.digest)])
    assert found
    assert found.receipt == curator.pipeline.ledger.head
    with pytest.raises(ht.IntegrityError):
        analyst.verify(receipts=[(answer.certificate.entry, "0" * 64)])


def test_an_auditor_verifies_a_copy_offline(served, analyst, tmp_path):
    analyst.ask("age < 40")
    with served.connect("checker", "auditor") as auditor:
        auditor.ledger(tmp_path / "copy.ledger")
        assert ht.verify(tmp_path / "copy.ledger").receipt == auditor.verify().receipt
    with pytest.raises(ht.RefusedError):
        analyst.ledger(tmp_path / "other.ledger")


def test_card_plan_and_names(analyst, curator):
    assert analyst.card == curator.card
    assert analyst.plan == curator.plan
    assert analyst.datasets == ["people"]
    assert analyst.name == "people"
    assert analyst.dataset("people").ask("age > 65").value == analyst.ask("age > 65").value


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda remote: remote.ask("agge > 65"), ht.UnknownColumn, "did you mean"),
        (lambda remote: remote.ask("SELECT 1"), ht.UnsupportedQuery, "."),
        (lambda remote: remote.dataset("nowhere").ask("age > 1"), ht.UnknownName, "no dataset"),
        (lambda remote: remote.predict("nothing", {"age": 1}), ht.UnknownName, "."),
        (lambda remote: remote.train("m", "ridge", target="bmi"), ht.RefusedError, "owner"),
        (lambda remote: remote.select({"a": "age > 1"}, epsilon=1000.0), ht.BudgetExceeded, "left"),
        (lambda remote: remote.ask("age > 1", key="\n"), ht.InvalidParameter, "printable"),
        (lambda remote: remote.ask("x" * 5000), ht.RequestError, "."),
    ],
)
def test_errors_are_the_curators(analyst, curator, call, error, words):
    before = curator.budget.spent
    with pytest.raises(error, match=words):
        call(analyst)
    assert curator.budget.spent == before


def test_errors_carry_their_facts(analyst):
    with pytest.raises(ht.BudgetExceeded) as refused:
        analyst.select({"a": "age > 1", "b": "age > 2"}, epsilon=900.0)
    assert refused.value.requested > refused.value.left > 0
    assert "mu squared" in refused.value.unit
    with pytest.raises(ht.InsufficientSamples) as short:
        analyst.learn(ht.Stumps(bounds={"age": (0, 100)}, steps=90), target="sick = 1", alpha=0.0001, epsilon=0.01)
    assert hasattr(short.value, "required")
    with pytest.raises(ht.InvalidParameter) as wrong:
        analyst.learn(ht.Stumps(bounds={"age": (0, 100)}, steps=90), target="bmi / 60", epsilon=0.01)
    assert wrong.value.parameter == "target"


def test_the_same_key_is_charged_once_and_another_request_under_it_is_refused(analyst, curator):
    first = analyst.ask("age > 33", key="mine")
    charges = len(curator.history)
    assert analyst.ask("age > 33", key="mine") == first
    with pytest.raises(ht.RefusedError):
        analyst.ask("age > 34", key="mine")
    assert len(curator.history) == charges


def test_the_key_is_shown_nowhere(served, caplog):
    caplog.set_level(logging.DEBUG)
    key = served.key("quiet")
    with ht.connect(served.url, key) as remote:
        remote.ask("age > 41")
        holdout = remote.holdout("none")
        shown = [repr(remote), str(remote), repr(holdout), repr(remote._transport), repr(vars(remote._transport))]
        for call in (lambda: remote.ask("agge"), lambda: holdout.score([1]), lambda: pickle.dumps(remote)):
            with pytest.raises(ht.HoldtrueError) as refused:
                call()
            shown.append(repr(refused.value) + str(refused.value))
    with pytest.raises(ht.InvalidParameter) as refused:
        ht.connect(served.url, f"{key} and a space")
    shown.append(str(refused.value))
    secret = key.split("_", 2)[2]  # which may have such signs itself
    assert len(secret) > 20
    assert secret not in "\n".join(shown) + caplog.text
    with ht.connect(served.url, key[:-2] + "xx") as stranger, pytest.raises(ht.Unauthorized):
        stranger.ask("age > 41")


@pytest.mark.parametrize(
    "url", ["http://example.com", "http://10.0.0.1:8000", "http://127.0.0.1.example.com", "http://localhost.test"]
)
def test_plain_http_to_another_machine_is_refused(url):
    with pytest.raises(ht.RefusedError, match="plain HTTP"):
        ht.connect(url, "ht_key")
    assert isinstance(ht.connect(url, "ht_key", insecure=True), Remote)


@pytest.mark.parametrize(
    "url", ["ftp://host", "host", "", "http://", "https://me:secret@host", "https://host/?a=b", "https://host/#a"]
)
def test_an_address_is_checked(url):
    with pytest.raises(ht.InvalidParameter) as refused:
        ht.connect(url, "ht_key")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "given", [{"timeout": 0}, {"timeout": float("nan")}, {"retries": -1}, {"certificates": "/nowhere.pem"}]
)
def test_what_is_given_is_checked(given):
    with pytest.raises(ht.RequestError):
        ht.connect("https://host", "ht_key", **given)


def test_what_follows_is_that_of_the_analysts_own_answers(analyst, owner, curator):
    answer = analyst.ask("age > 61")
    found = analyst.deduce("age > 61")
    assert found == curator.deduce("age > 61", analyst=curator.history[-1].analyst)
    assert found.sources == (answer.certificate.entry,)
    assert analyst.preview("age > 62").follows is not None
    assert owner.deduce("age > 61").sources
    spent, text = curator.budget.spent, "age > 61 AND (smoker OR age > 50)"
    assert owner.preview(text).follows is not None
    assert owner.ask(text, deduce="first").deduced  # from what the analyst asked, as its preview says
    assert curator.budget.spent == spent
    free = analyst.ask(["age > 61 OR TRUE", "age > 61"], deduce="first", key="free first")
    assert free[0].deduced == ()
    assert free[1].value == answer.value
    with pytest.raises(ht.InvalidParameter):
        analyst.ask("age > 61", by="smoker", deduce="first")


def test_a_student_is_taught_here_with_labels_that_the_service_sold(owner, analyst, curator):
    from sklearn.tree import DecisionTreeClassifier

    owner.train("teacher", "decision-tree", target="sick", features=["age", "bmi"], parts=50, parameters={"max_depth": 1})
    public = {"age": np.linspace(1, 99, 40).round().astype(int), "bmi": np.full(40, 25.0)}
    with pytest.raises(ht.InvalidParameter, match="student"):
        analyst.distill("teacher", public, "a tree")
    with pytest.raises(ht.InvalidParameter, match="labels"):
        analyst.distill("teacher", public, DecisionTreeClassifier(), labels=41)
    before = len(curator.history)
    for given in ({"labels": 8}, {"groups": 4}):
        student = analyst.distill("teacher", public, DecisionTreeClassifier(max_depth=1), epsilon=0.2, **given)
        assert student.labels == next(iter(given.values()))
        assert set(student.predict(public)) <= {0, 1}
        spent = curator.budget.spent
        analyst.distill("teacher", public, DecisionTreeClassifier(max_depth=1), epsilon=0.2, **given)
        assert curator.budget.spent == spent  # the same public points were labelled before
    assert len(curator.history) == before + 2


def test_only_the_owner_gives_values_and_allowances(owner, analyst, curator):
    rows = curator.card.rows
    told = owner.ask(values=np.full(rows, 0.25), name="quarters")
    assert told == curator.history[-1].responses[0]
    assert owner.ask(values=np.full(rows, 0.5), name="quarters").repeated
    with pytest.raises(ht.RefusedError, match="only the owner"):
        analyst.ask(values=np.full(rows, 0.25))
    for wrong in ({"values": [0.5, 2.0]}, {"values": [0.5]}, {"values": [0.5], "by": "region"}, {"name": "x"}, {}):
        with pytest.raises(ht.RequestError):
            owner.ask(**wrong)
    with pytest.raises(ht.RefusedError):
        analyst.grant("somebody", asks=5)
    owner.grant("somebody", asks=5)
    assert curator.ledger.allowance("somebody") == 5 * curator.plan.cost
    with pytest.raises(ht.InvalidParameter, match="asks"):
        owner.grant("somebody", asks=-1)
    owner.grant("somebody", asks=None)
    assert curator.ledger.allowance("somebody") is None
