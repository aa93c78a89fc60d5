"""The table of neighbours: each method keeps its promise where it was made, and showing scores breaks all but three."""

import pytest

from reproductions.gate import bound_rate
from reproductions.neighbours import BETA, SITUATIONS, simulate

RUNS = 300
FIXED, FRESH, ADAPTIVE = SITUATIONS
FAMILYWISE = ("Bonferroni", "Holm", "splitting", "our gate", "our scores")
FALSE_SHARE = ("Benjamini-Hochberg", "LORD++", "e-BH")


def is_refuted(rate):
    return bound_rate(round(rate * RUNS), RUNS, upper=False) > BETA


@pytest.mark.parametrize("situation", [FIXED, FRESH])
def test_each_method_keeps_its_promise_without_adaptivity(situation):
    found = simulate(situation, runs=RUNS)
    assert not any(is_refuted(found[method].false) for method in FAMILYWISE)
    assert all(found[method].share < BETA for method in FALSE_SHARE)
    assert is_refuted(found["naive, every look at beta"].false)
    # Where nothing is adaptive, others find more than a gate.
    assert found["Holm"].power > found["our gate"].power > 0.4


def test_only_what_hides_the_scores_holds_on_the_same_cases():
    found = simulate(ADAPTIVE, runs=RUNS)
    kept = {"splitting", "our gate", "our scores"}
    assert {method for method, told in found.items() if is_refuted(told.false)} >= found.keys() - kept - {"e-BH"}
    assert not any(is_refuted(found[method].false) for method in kept)
    assert found["e-BH"].false > BETA
    assert found["our gate"].power > 0.4 > found["splitting"].power
