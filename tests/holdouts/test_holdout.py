"""The scoring holdout: values, intervals, repeats, order, restarts, copies, bad input."""

import multiprocessing
import shutil
import threading

import numpy as np
import pytest
from sklearn import clone
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

import holdtrue as ht
from holdtrue.codec import plain
from holdtrue.holdouts import Holdout
from holdtrue.holdouts.cases import BITS, cases_of
from holdtrue.holdouts.submissions import comparison, given_cases, question

RANDOM = np.random.default_rng(7)
TRUTH = RANDOM.integers(0, 2, 600)
GOOD = np.where(RANDOM.random(600) < 0.2, 1 - TRUTH, TRUTH)
OTHER = np.where(RANDOM.random(600) < 0.1, 1 - GOOD, GOOD)


@pytest.fixture
def holdout():
    with Holdout(TRUTH, looks=20, classes={1: int(TRUTH.sum())}) as opened:
        yield opened


def test_a_score_says_what_it_is_about_and_how_many_looks_are_left(holdout):
    score = holdout.score(GOOD)
    assert score.looks_left == 19
    assert score.about == "these cases with fresh labels"
    assert score.interval.low <= score.value <= score.interval.high
    assert score.interval.confidence == pytest.approx(0.95)
    assert "95% confidence over 20 looks" in score.sentence
    assert "the raw score is not shown" in str(score)
    assert "T6b" in score.certificate.theorem
    assert plain(score)["looks_left"] == 19
    with Holdout(TRUTH, looks=20, unseen=True) as unseen:
        assert unseen.score(GOOD).about == "fresh cases"


def test_scores_are_on_the_public_grid_and_never_the_raw_score(holdout):
    grid = 600 << BITS
    values = [holdout.score(np.roll(GOOD, shift)).value for shift in range(10)]
    assert all(value * grid == pytest.approx(round(value * grid), abs=1e-3) for value in values)
    raw = [(np.roll(GOOD, shift) == TRUTH).mean() for shift in range(10)]
    assert all(value != exact for value, exact in zip(values, raw, strict=True))


def test_identical_predictions_return_the_stored_score_for_nothing(holdout):
    first = holdout.score(GOOD)
    for same in (GOOD.copy(), GOOD.astype(float), GOOD.astype(bool), list(GOOD), GOOD.astype(np.int8)):
        again = holdout.score(same)
        assert again.repeated
        assert (again.value, again.looks_left) == (first.value, 19)
    assert holdout.score(GOOD, metric="error").value == pytest.approx(1 - first.value)
    assert holdout.looks_left == 19
    assert not holdout.score(OTHER).repeated


def test_that_results_are_equal_is_told_to_nobody_unless_they_have_a_public_name(holdout):
    """Results are made with the labels: a repeat for nothing would tell that two runs agree on every case."""
    results = GOOD == TRUTH
    first, second = holdout.score(cases=results), holdout.score(cases=results)
    assert not second.repeated
    assert (first.value != second.value, second.looks_left) == (True, 18)
    named = holdout.score(cases=results, name="commit 1")
    for whatever in (results, OTHER == TRUTH):  # the name is what was told, and nothing is said of what comes with it
        again = holdout.score(cases=whatever, name="commit 1")
        assert (again.repeated, again.value, again.looks_left) == (True, named.value, 17)
    assert not holdout.score(cases=results, name="commit 2").repeated
    assert not holdout.compare_cases(results, OTHER == TRUTH, name="commits 1 and 2").repeated
    assert holdout.compare_cases(results, OTHER == TRUTH, name="commits 1 and 2").repeated
    assert not holdout.compare_cases(results, OTHER == TRUTH).repeated
    for wrong in ({"y_pred": GOOD, "name": "a"}, {"cases": results, "name": ""}):
        with pytest.raises(ht.InvalidParameter, match="name"):
            holdout.score(**wrong)
    with pytest.raises(ht.RefusedError, match="public one"):
        holdout.named(cases=results)
    assert holdout.looks_left == 14


@pytest.mark.parametrize("metric", ["accuracy", "brier", "recall", "cases", "compare", "weights"])
def test_questions_measure_what_they_say(metric):
    """The integer sum, read off without noise, is the metric as a plain program has it."""
    weights = RANDOM.random(600) if metric == "weights" else None
    cases = cases_of(TRUTH, weights=weights, classes={1: int(TRUTH.sum())})
    chance = RANDOM.random(600)
    match metric:
        case "accuracy":
            asked, expected = question(cases, GOOD, metric=metric), (GOOD == TRUTH).mean()
        case "brier":
            asked, expected = question(cases, chance, metric=metric), ((chance - TRUTH) ** 2).mean()
        case "recall":
            asked, expected = question(cases, GOOD, metric=metric, of=1), GOOD[TRUTH == 1].mean()
        case "cases":
            asked, expected = given_cases(cases, chance), chance.mean()
        case "compare":
            asked, expected = comparison(cases, GOOD, OTHER), (GOOD == TRUTH).mean() - (OTHER == TRUTH).mean()
        case _:
            asked, expected = question(cases, GOOD, metric="accuracy"), np.average(GOOD == TRUTH, weights=weights)
    assert asked.total() <= asked.ceiling
    assert asked.score(asked.total()) == pytest.approx(expected, abs=1e-5)


def test_a_comparison_is_one_look_and_narrower_than_a_score_where_submissions_are_alike():
    truth = np.random.default_rng(3).integers(0, 2, 20_000)
    alike = np.where(np.random.default_rng(4).random(20_000) < 0.05, 1 - truth, truth)
    with Holdout(truth, looks=20) as holdout:
        difference = holdout.compare(truth, alike)
        assert holdout.looks_left == 19
        apart = holdout.score(np.roll(truth, 1))
    assert difference.interval.width < 2 * apart.interval.width
    assert (alike != truth).mean() in difference.interval


def test_a_function_of_labels_and_predictions_is_a_metric(holdout):
    score = holdout.score(GOOD.astype(float), metric=lambda truth, predicted: abs(truth - predicted) * 3)
    assert 0 <= score.value <= 1
    assert not holdout.score(GOOD.astype(float), metric=lambda truth, predicted: truth * predicted).repeated


def test_cases_in_another_order_are_the_same_holdout_and_the_same_submission(tmp_path):
    ids = np.array([f"case {number}" for number in range(600)])
    order = RANDOM.permutation(600)
    with Holdout(TRUTH, looks=20, ids=ids, ledger=tmp_path / "a.ledger") as holdout:
        first = holdout.score(GOOD)
        shuffled = holdout.score(GOOD[order], ids=ids[order])
        assert shuffled.repeated
        assert shuffled.value == first.value
    with Holdout(TRUTH[order], ids=ids[order], ledger=tmp_path / "a.ledger") as again:
        assert again.score(GOOD[order]).repeated
        assert again.looks_left == 19
    with Holdout(TRUTH, looks=20, ledger=tmp_path / "b.ledger") as unnamed:
        unnamed.score(GOOD)
    with pytest.raises(ht.FingerprintMismatch):
        Holdout(TRUTH[order], ledger=tmp_path / "b.ledger")


def test_restarts_renames_and_copies_lose_no_look(tmp_path):
    path = tmp_path / "a.ledger"
    for number in range(3):
        with Holdout(TRUTH, looks=20, ledger=path) as holdout:
            assert holdout.score(np.roll(GOOD, number)).looks_left == 19 - number
    moved = tmp_path / "b.ledger"
    path.rename(moved)
    shutil.copy(moved, tmp_path / "c.ledger")
    for kept in (moved, tmp_path / "c.ledger"):
        with Holdout(TRUTH, ledger=kept) as holdout:
            assert holdout.looks_left == 17
            assert holdout.score(GOOD).repeated
    assert ht.verify(moved)


def test_an_old_ledger_with_another_holdout_is_refused(tmp_path):
    Holdout(TRUTH, looks=20, ledger=tmp_path / "a.ledger").close()
    with pytest.raises(ht.FingerprintMismatch):
        Holdout(1 - TRUTH, ledger=tmp_path / "a.ledger")
    with pytest.raises(ht.InvalidParameter, match="looks must be left out, or 20"):
        Holdout(TRUTH, looks=30, ledger=tmp_path / "a.ledger")
    with pytest.raises(ht.InvalidParameter, match="unseen"):
        Holdout(TRUTH, unseen=True, ledger=tmp_path / "a.ledger")
    ht.Curator({"x": TRUTH}, queries=5, iid=True, ledger=tmp_path / "b.ledger").close()
    with pytest.raises(ht.RefusedError, match="belongs to a curator"):
        Holdout(TRUTH, ledger=tmp_path / "b.ledger")


def test_looks_are_used_up(holdout):
    for shift in range(20):
        holdout.score(np.roll(GOOD, shift))
    with pytest.raises(ht.BudgetExceeded, match="look"):
        holdout.score(OTHER)
    assert holdout.score(GOOD).repeated


def test_threads_count_every_look_once():
    with Holdout(TRUTH, looks=40) as holdout:
        rows = [np.roll(GOOD, shift) for shift in range(8)]
        threads = [threading.Thread(target=lambda: [holdout.score(row) for row in rows]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert holdout.looks_left == 32


def _in_child(path, holdout, queue):
    try:
        holdout.score(OTHER)
        queue.put("answered")
    except ht.RefusedError:
        with Holdout(TRUTH, ledger=path) as mine:
            queue.put(mine.score(OTHER).looks_left)


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_after_a_fork_only_a_holdout_opened_again_answers(tmp_path):
    path = tmp_path / "a.ledger"
    with Holdout(TRUTH, looks=20, ledger=path) as holdout:
        holdout.score(GOOD)
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=_in_child, args=(path, holdout, queue))
        child.start()
        assert queue.get(timeout=60) == 18
        child.join()
        assert holdout.looks_left == 18


def test_clones_and_workers_share_the_one_ledger(tmp_path):
    features = np.random.default_rng(5).normal(size=(600, 4))
    labels = (features[:, 0] > 0).astype(int)
    with Holdout(labels, looks=20, ledger=tmp_path / "a.ledger") as holdout:
        scorer = holdout.scorer(features)
        search = GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2]}, scoring=scorer, cv=2, n_jobs=2)
        assert clone(search).get_params()["scoring"] is not None
        search.fit(features, labels)
        used = 20 - holdout.looks_left
        distinct = {entry.body for entry in holdout.ledger.entries() if entry.kind == "charge"}
        assert 0 < used == len(distinct) <= 5  # four fits and the final one, each submission once
    with Holdout(labels, looks=20) as memory, pytest.raises(ht.RefusedError, match="give it a path"):
        memory.__reduce__()


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"y_pred": GOOD[:-1]}, "expected 600, one per case"),
        ({"y_pred": np.full(600, np.nan)}, "finite"),
        ({"y_pred": GOOD.astype(str)}, "numbers, as the labels of this holdout are"),
        ({"y_pred": np.ones((600, 2))}, "one row"),
        ({"y_pred": None}, "given, or cases"),
        ({"cases": [object()] * 600}, r"numbers in \[0, 1\]"),
        ({"cases": np.zeros(5)}, "one number for each"),
        ({"y_pred": GOOD - 0.5, "metric": "brier"}, r"numbers in \[0, 1\]"),
        ({"y_pred": GOOD, "metric": "f1"}, "no metric"),
        ({"y_pred": GOOD, "metric": "recall", "of": 0}, "a class whose number"),
        ({"y_pred": GOOD, "ids": np.arange(600)}, "opened without ids"),
        ({"y_pred": GOOD, "train": GOOD}, "is for a reusable holdout"),
        ({"y_pred": [object()] * 600}, "several types"),
    ],
)
def test_bad_submissions_are_refused_and_cost_nothing(holdout, asked, error):
    with pytest.raises(ht.RequestError, match=error):
        holdout.score(**asked)
    assert holdout.looks_left == 20


def test_labels_never_declared_are_refused():
    with Holdout(TRUTH, looks=20, labels=[0, 1]) as holdout:
        with pytest.raises(ht.InvalidParameter, match="never declared"):
            holdout.score(GOOD + 1)
        assert holdout.looks_left == 20
    with pytest.raises(ht.InvalidParameter, match="every label that occurs"):
        Holdout(TRUTH, looks=20, labels=[0, 2])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, "looks"),
        ({"looks": 0}, "looks"),
        ({"looks": 5, "beta": 1.5}, "beta"),
        ({"looks": 5, "yes": 2, "overfits": 2, "train": TRUTH}, "yes"),
        ({"looks": 5, "overfits": 2}, "train"),
        ({"looks": 5, "ids": np.zeros(600)}, "ids must be unique"),
        ({"looks": 5, "ids": np.arange(5)}, "one per case"),
        ({"looks": 5, "weights": -np.ones(600)}, "weights"),
        ({"looks": 5, "classes": {1: 3}}, "classes"),
        ({"looks": 5, "private": False, "weights": np.ones(600)}, "weights"),
        ({"looks": 5, "private": False, "epsilon": 1.0}, "keeps no privacy"),
        ({"looks": 5, "yes": 2, "epsilon": 1.0}, "keeps no privacy"),
    ],
)
def test_bad_holdouts_are_refused(arguments, error):
    with pytest.raises(ht.RequestError, match=error):
        Holdout(TRUTH, **arguments)


def test_privacy_that_is_asked_for_caps_the_noise():
    with Holdout(TRUTH, looks=20, epsilon=0.1, delta=1e-6) as holdout:
        assert holdout.plan.epsilon == 0.1
        assert holdout.score(GOOD).certificate.epsilon == 0.1


def test_text_labels_work(holdout):
    words = np.array(["no", "yes"])
    with Holdout(words[TRUTH], looks=20, labels=["no", "yes"]) as texts:
        assert 0 <= texts.score(words[GOOD]).value <= 1
        with pytest.raises(ht.InvalidParameter, match="never declared"):
            texts.score(np.full(600, "maybe"))
    assert holdout.looks_left == 20


def _opened_score(path):
    with Holdout(TRUTH, ledger=path) as mine:
        return mine.score(OTHER).value


def test_holdouts_opened_side_by_side_pay_for_the_same_submission_once(tmp_path):
    path, values = tmp_path / "a.ledger", []
    Holdout(TRUTH, looks=20, ledger=path).close()
    threads = [threading.Thread(target=lambda: values.append(_opened_score(path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Holdout(TRUTH, ledger=path) as holdout:
        assert holdout.looks_left == 19
    assert len(values) == 4
    assert len(set(values)) == 1


def test_a_holdout_says_what_is_left_and_how_wide_it_is_without_a_look(tmp_path):
    truth = np.random.default_rng(9).integers(0, 2, 1200)
    with ht.Holdout(truth, looks=200, ledger=tmp_path / "a.ledger") as scores:
        assert (
            scores.width
            == "±0.36 per score for these 1,200 cases; 161,136 cases would give ±0.03; a gate with 10 yes gives ±0.13; "
            "200 submissions fixed together, before any score is told, are within ±0.061 by any tool"
        )
        scores.score(truth)
        told = scores.budget
        assert (told.looks_left, told.yes_left, told.private, told.unit) == (199, None, True, "mu squared")
        shown = str(told).splitlines()
        assert shown[:2] == ["      mode  scores", "     looks  199 of 200 left"]
        assert shown[2].startswith("     width  ±0.36 per score")
        assert shown[-1].startswith("   privacy  ")
        assert "<td>199 of 200 left</td>" in told._repr_html_()
        assert told.to_frame().looks_left.tolist() == [199]
        assert scores.history.to_frame().verb.tolist() == ["score"]
        assert [line.verb for line in scores.history] == ["score"]
        scores.report(tmp_path / "a.html")
        assert "differentially private" in (tmp_path / "a.html").read_text(encoding="utf-8")
        assert scores.looks_left == 199
    with ht.Holdout(1 - truth, looks=20, yes=3, private=True, incumbent=truth) as gate:
        assert "per yes" in gate.width
        assert (gate.budget.yes, gate.budget.yes_left, gate.budget.closed) == (3, 3, False)


def test_wrong_ids_are_counted_and_shown():
    truth, ids = np.arange(1200) % 2, np.arange(1200)
    with ht.Holdout(truth, looks=5, ids=ids) as held:
        with pytest.raises(ht.InvalidParameter, match=r"7 of the 1,200 ids .* \(1200, 1201, 1202, …\), and 7 of its 1,200"):
            held.score(truth, ids=ids + 7)
        with pytest.raises(ht.InvalidParameter, match="ids must be those of the holdout, each once; 1 of the 1,200 cases"):
            held.score(truth, ids=[1, *ids[1:]])
        assert held.looks_left == 5


def test_a_comparison_that_can_tell_nothing_is_not_charged():
    """Its width is public: two that differ in ten cases, where noise is larger than that, and two that are the same."""
    truth = np.random.default_rng(19).integers(0, 2, 1200)
    near, far = np.concatenate([1 - truth[:10], truth[10:]]), 1 - truth
    with ht.Holdout(truth, looks=200) as held:
        for other, words in ((near, "can differ in 0.83% of the cases"), (truth, "can differ nowhere")):
            with pytest.raises(ht.InsufficientSamples, match=words):
                held.compare(truth, other)
        with pytest.raises(ht.InsufficientSamples, match="is not charged"):
            held.compare_cases(np.ones(1200), np.zeros(1200), differ=np.arange(1200) < 10)
        assert held.looks_left == 200
        assert held.compare(truth, far).looks_left == 199
