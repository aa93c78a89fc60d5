"""Adaptive analysts who know of the labels what they are told. Every truth is one half: labels are fair coins."""

import numpy as np
from scipy import stats


def sign_aggregation(random, cases, looks, told):
    """Submit coins, then vote with those that did well; return every (value or interval) that was told."""
    submitted = random.integers(0, 2, (looks - 1, cases))
    answers = [told(row) for row in submitted]
    chosen = np.array([value_of(answer) > 0.5 for answer in answers])
    signs = np.where(chosen, 1, -1)
    majority = ((signs[:, None] * (2 * submitted - 1)).sum(axis=0) > 0).astype(int)
    return [*answers, told(majority)]


def hill_climbing(random, cases, looks, told):
    """Change a few predictions at a time and keep what scores better."""
    best = random.integers(0, 2, cases)
    answers = [told(best)]
    top = value_of(answers[0])
    for _ in range(looks - 1):
        changed = np.where(random.random(cases) < 0.1, random.integers(0, 2, cases), best)
        answers.append(told(changed))
        if value_of(answers[-1]) > top:
            best, top = changed, value_of(answers[-1])
    return answers


def random_search(random, cases, looks, told):
    """Submit coins until one looks good enough."""
    answers = []
    for _ in range(looks):
        answers.append(told(random.integers(0, 2, cases)))
        if value_of(answers[-1]) > 0.5 + 3 / (2 * np.sqrt(cases)):
            break
    return answers


ANALYSTS = {"signs": sign_aggregation, "climbing": hill_climbing, "search": random_search}


def value_of(answer):
    return answer if isinstance(answer, float) else answer.value


def lower_rate(missed, runs, level=1e-6):
    """Return the lower end of Clopper and Pearson's interval for a rate."""
    return 0.0 if missed == 0 else float(stats.beta.ppf(level, missed, runs - missed + 1))
