"""Validity end to end: the sign-aggregation analyst (N6) against Curator.ask on a population whose means are known."""

import numpy as np
import pytest
from scipy import stats

import holdtrue as ht
from holdtrue.curator import Curator
from laws import generator

RUNS = 200


def attack(ask, features):
    """Ask whether each feature agrees with the label, then for the accuracy of the majority of those that seemed to."""
    answers = [ask(f"x{j} = y") for j in range(features)]
    chosen = [j for j in range(features) if answers[j].value > 0.5] or [0]
    votes = " + ".join(f"CASE WHEN x{j} = 1 THEN 1 ELSE 0 END" for j in chosen)
    majority = f"CASE WHEN 2 * ({votes}) > {len(chosen)} THEN 1 ELSE 0 END"
    return [*answers, ask(f"({majority}) = y")]


def sample(random, rows, features):
    return {f"x{j}": random.integers(0, 2, rows) for j in range(features)} | {"y": random.integers(0, 2, rows)}


def test_n6_sign_aggregation_through_the_curator_misses_no_more_than_beta(request):
    """All population values are one half; the miss rate over transcripts is at most beta by Clopper-Pearson."""
    plan = ht.plan(queries=10, alpha=0.1, beta=0.05)
    random = generator(request)
    missed = 0
    for _ in range(RUNS):
        with Curator(sample(random, plan.rows, 9), plan=plan) as curator:
            answers = attack(curator.ask, 9)
        missed += any(0.5 not in answer.interval for answer in answers)
    assert missed == 0 or stats.beta.ppf(1e-6, missed, RUNS - missed + 1) <= plan.beta


def test_n6_the_same_analyst_against_plain_means_misses_nearly_always(request):
    random = generator(request)
    rows, features = 2000, 200
    missed = 0
    for _ in range(20):
        data = sample(random, rows, features)
        agree = np.array([(data[f"x{j}"] == data["y"]).mean() for j in range(features)])
        table = np.array([data[f"x{j}"] for j in range(features)])
        signs = np.where(agree > 0.5, 1, -1)
        majority = ((signs[:, None] * (2 * table - 1)).sum(axis=0) > 0).astype(int)
        width = np.sqrt(np.log(2 * (features + 1) / 0.05) / (2 * rows))
        missed += abs((majority == data["y"]).mean() - 0.5) > width
    assert missed >= 18


@pytest.mark.parametrize("beta", [0.05])
def test_answers_stay_within_alpha_of_the_population(request, beta):
    plan = ht.plan(queries=10, alpha=0.1, beta=beta)
    random = generator(request)
    far = 0
    for _ in range(40):
        with Curator(sample(random, plan.rows, 9), plan=plan) as curator:
            far += any(abs(answer.value - 0.5) > plan.alpha for answer in attack(curator.ask, 9))
    assert far == 0 or stats.beta.ppf(1e-6, far, 40 - far + 1) <= beta
