"""How long a class takes to count is known before it is counted, and what takes too long is refused then."""

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.errors import InvalidParameter
from holdtrue.hypotheses import Union
from holdtrue.hypotheses.classes import MOST_STEPS

ROWS = 1000
CLASSES = {
    ht.Thresholds(0, 1, steps=50): ROWS + 50,
    ht.Intervals(0, 1, steps=10): ROWS + 56,
    ht.Stumps(bounds=[(0, 1)] * 4, steps=25): 4 * ROWS + 200,
    ht.Rectangles(bounds=[(0, 1)] * 2, steps=4): 2 * ROWS + 101,
    ht.Conjunctions(6, width=2): 6 * ROWS + 16 * 23 + 72,
    ht.Parities(6): 6 * (ROWS + 64),
    ht.Parities(20, width=2): 20 * ROWS + 16 * 212 + 211,
    ht.DecisionLists(4, length=1): 4 * ROWS + 16 * 6 + 10,
    ht.Trees(5): 5 * ROWS + 16 * 17 + 500,
    ht.LinearNet(3, count=70): 70 * ROWS,
    ht.Hypotheses([np.ravel] * 3, columns=1): 3 * ROWS,
}


@pytest.mark.parametrize("given", CLASSES, ids=lambda given: given.kind)
def test_a_class_is_refused_above_the_limit_and_counted_at_it(given):
    steps = CLASSES[given]
    assert given.count_steps(ROWS) == steps
    given.check_work(ROWS, limit=steps)
    said = f"{given.size:,} hypotheses on 1,000 rows takes {steps:,} steps, and the limit is {steps - 1:,}"
    with pytest.raises(InvalidParameter, match=said):
        given.check_work(ROWS, limit=steps - 1)


def test_a_union_takes_as_long_as_its_classes():
    several = [ht.Stumps(bounds=[(0, 1)] * 3, steps=25), ht.LinearNet(3, count=70)]
    assert Union(several).count_steps(ROWS) == sum(one.count_steps(ROWS) for one in several)


def test_nothing_is_spent_on_a_class_that_takes_too_long():
    rows = 30_000
    rng = np.random.default_rng(3)
    data = {"x": rng.normal(size=rows), "y": rng.random(rows) < 0.5}
    with ht.Curator(data, queries=10, epsilon=1.0, delta=1e-6, iid=True) as curator:
        with pytest.raises(InvalidParameter, match=f"takes 1,500,000,000,000 steps, and the limit is {MOST_STEPS:,}"):
            curator.learn(ht.LinearNet(["x"], count=50_000_000), target="y", epsilon=0.1)
        assert curator.budget.spent == 0
        assert not list(curator.history)
