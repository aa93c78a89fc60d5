"""Guards promote what is better on cases that the loop never sees, and nothing that only fits the loop's own cases."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.guards import name_candidate, promote
from holdtrue.guards.gepa import GatedValidation
from holdtrue.guards.mle_bench import guard_grader
from holdtrue.guards.search import GateScorer, count_promotions, gated_objective
from holdtrue.guards.skillopt import guard_skills

CASES = 300


def results(right):
    """Return results that are right in the first cases."""
    return np.arange(CASES) < right


def open_gate(looks=20, yes=3, first=100, **terms):
    given = {"metric": "hits", "unseen": True, "incumbent": results(first), "incumbent_name": name_candidate("seed")} | terms
    return ht.Holdout(np.ones(CASES), ids=np.arange(CASES), looks=looks, yes=yes, **given)


def test_a_candidate_is_known_by_what_it_says():
    assert name_candidate({"b": 1, "a": "x"}) == name_candidate({"a": "x", "b": 1}) != name_candidate({"a": "y", "b": 1})
    with open_gate() as gate:
        assert promote(
            gate, results(0), name=name_candidate("seed")
        )  # the incumbent: no look, whatever comes under its name
        assert gate.looks_left == 20
        assert promote(gate, results(200), name="better")
        assert not promote(gate, results(200), name="no better")
        assert not promote(gate, results(200), name="no better")  # the same name: no look
        assert gate.looks_left == 18


def run_gepa(gate, texts, right):
    """Run GEPA over given texts, each better on GEPA's own cases; ``right`` is how many of the gate's cases each one has."""
    import gepa
    from gepa.core.adapter import EvaluationBatch

    order = {text: place for place, text in enumerate(["seed", *texts])}

    class Adapter:
        def evaluate(self, batch, candidate, capture_traces=False):
            score = order[candidate["prompt"]] / len(order)
            return EvaluationBatch([None] * len(batch), [score] * len(batch), [{}] * len(batch) if capture_traces else None)

        def make_reflective_dataset(self, candidate, eval_batch, components_to_update):  # noqa: ARG002 - GEPA's
            return {name: [{}] for name in components_to_update}

        def propose_new_texts(self, candidate, reflective_dataset, components_to_update):  # noqa: ARG002 - GEPA's
            return {"prompt": texts[min(order[candidate["prompt"]], len(texts) - 1)]}

    guard = GatedValidation(gate, lambda candidate: results(right[candidate["prompt"]]))
    found = gepa.optimize(
        seed_candidate={"prompt": "seed"},
        trainset=[{}] * 4,
        valset=[{}] * 4,
        adapter=Adapter(),
        candidate_selection_strategy="current_best",
        callbacks=[guard],
        stop_callbacks=[guard],
        max_metric_calls=80,
    )
    return guard, found


def test_gepa_leads_with_what_fits_its_own_cases_and_the_gate_promotes_what_is_better():
    right = {"seed": 100, "good": 200, "fits": 190, "fits more": 150}
    with open_gate(incumbent_name=name_candidate({"prompt": "seed"})) as gate:
        guard, found = run_gepa(gate, ["good", "fits", "fits more"], right)
        assert found.best_candidate == {"prompt": "fits more"}
        assert guard.confirm() == guard.promoted == {"prompt": "good"}
        assert gate.looks_left == 17  # the seed is the incumbent, and cost none


def test_gepa_stops_when_the_gate_has_no_look_left_and_says_what_failed():
    right = {"seed": 100, "good": 200, "fits": 190, "fits more": 150}
    with open_gate(looks=1, yes=1, incumbent_name=name_candidate({"prompt": "seed"})) as gate:
        guard, found = run_gepa(gate, ["good", "fits", "fits more"], right)
        assert found.best_candidate == guard.confirm() == {"prompt": "good"}
    with open_gate() as gate:
        guard, _ = run_gepa(gate, ["good"], {"seed": 100})
        with pytest.raises(KeyError):
            guard.confirm()


@dataclass(frozen=True)
class GateResult:
    action: str
    current_skill: str
    current_score: float
    best_skill: str
    best_score: float
    best_step: int


def evaluate_gate(  # noqa: PLR0917 - SkillOpt's
    candidate_skill,
    cand_hard,
    current_skill,
    current_score,
    best_skill,
    best_score,
    best_step,
    global_step,
    *,
    cand_soft=0.0,  # noqa: ARG001 - SkillOpt's
    metric="hard",
    mixed_weight=0.5,
):
    """Stand in for skillopt 0.2.0, skillopt/evaluation/gate.py, by its signature."""
    assert (metric, mixed_weight) == ("hard", 0.5)
    if cand_hard > current_score:
        action = "accept_new_best" if cand_hard > best_score else "accept"
        best = (candidate_skill, cand_hard, global_step) if cand_hard > best_score else (best_skill, best_score, best_step)
        return GateResult(action, candidate_skill, cand_hard, *best)
    return GateResult("reject", current_skill, current_score, best_skill, best_score, best_step)


def test_skills_are_accepted_by_their_own_gate_and_ours():
    right = {"good": 200, "lucky": 205}
    with open_gate() as gate:
        guarded = guard_skills(evaluate_gate, gate, lambda skill: results(right[skill]))
        good = guarded("good", 0.6, "seed", 0.5, "seed", 0.5, 0, 1, cand_soft=0.1)
        assert good == GateResult("accept_new_best", "good", 0.6, "good", 0.6, 1)
        current = {name: value for name, value in vars(good).items() if name != "action"}
        lucky = guarded(candidate_skill="lucky", cand_hard=0.9, global_step=2, **current)
        assert lucky == GateResult("reject", "good", 0.6, "good", 0.6, 1)


def test_graders_count_their_looks():
    def score_rows(submission, answers):
        return [float(given == known) for given, known in zip(submission, answers, strict=True)]

    answers = list(range(CASES))
    with open_gate() as gate:
        grade = guard_grader(gate, score_rows, name=lambda submission: f"{len(set(submission))} answers")
        better = answers[:200] + [-1] * 100
        assert [grade(better, answers), grade(better, answers), grade(answers[:201] + [-1] * 99, answers)] == [1.0, 1.0, 0.0]
        assert gate.looks_left == 18
    with ht.Holdout(np.ones(20_000), looks=20) as scores:
        grade = guard_grader(scores, lambda submission, answers: submission == answers)
        answers = np.arange(20_000)
        assert abs(grade(np.where(answers < 10_000, answers, -1), answers) - 0.5) < 0.1
        assert scores.looks_left == 19


def label_gate(**terms):
    random = np.random.default_rng(3)
    features = random.normal(size=(1_500, 4))
    labels = (features[:, 0] + 0.3 * random.normal(size=1_500) > 0).astype(int)
    given = {"looks": 12, "yes": 3, "unseen": True, "incumbent": np.zeros(500, dtype=int)} | terms
    return features[:1_000], labels[:1_000], features[1_000:], ht.Holdout(labels[1_000:], **given)


def test_a_grid_search_picks_the_incumbent_and_sees_no_score():
    from sklearn.model_selection import GridSearchCV
    from sklearn.tree import DecisionTreeClassifier

    features, labels, held, gate = label_gate()
    with gate:
        search = GridSearchCV(
            DecisionTreeClassifier(random_state=0),
            {"max_features": [None], "max_depth": [1, 2, 3]},
            scoring=GateScorer(gate, held),
            cv=[(np.arange(1_000), np.arange(1))],
        ).fit(features, labels)
        assert set(search.cv_results_["mean_test_score"]) <= {0.0, 1.0, 2.0}
        assert search.best_score_ == 1.0
        assert gate.named(search.best_estimator_.predict(held)) == gate.leading
        assert count_promotions(gate, np.zeros(500, dtype=int)) == 0.0  # met the new incumbent


def test_optuna_sees_promotions_only_and_stops_with_the_looks():
    import optuna

    features, labels, held, gate = label_gate(looks=3)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    del features, labels

    def predict(trial):
        return (held[:, trial.suggest_categorical("column", [0, 1])] > trial.suggest_float("cut", -1, 1)).astype(int)

    with gate, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna's own
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
        study.optimize(gated_objective(gate, predict), n_trials=20)
        told = [trial.value for trial in study.trials if trial.value is not None]
        assert len(study.trials) == 4
        assert study.trials[-1].state == optuna.trial.TrialState.PRUNED
        assert set(told) <= {0.0, 1.0, 2.0, 3.0}
        assert study.best_value == max(told) > 0
        assert gate.looks_left == 0
    with label_gate()[3] as gate:
        assert count_promotions(gate, np.zeros(500, dtype=int)) == 0.0  # whom it was opened with
        assert gate.looks_left == 12
