"""Gates and rounded scores by place in the tree of transcripts (S5), with exact tails for hits and misses (S6)."""

import math
from fractions import Fraction
from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest
from scipy import stats

from holdouts.old_gates import counting_transcripts, open_counted
from holdtrue.bounds.accuracy import binomial_end, chernoff_end
from holdtrue.bounds.transcripts import gate_alpha, gate_cells, gate_gain, gate_interval, gate_level, rounding_width
from holdtrue.errors import InvalidParameter
from holdtrue.holdouts import Holdout
from laws import generator

BETA = 0.05
CASES = 2000
RANDOM = np.random.default_rng(13)
TRUTH = RANDOM.integers(0, 2, CASES)


def with_error(rate):
    return np.where(RANDOM.random(CASES) < rate, 1 - TRUTH, TRUTH)


@pytest.mark.parametrize("looks", [1, 2, 4, 6])
def test_s5_all_places_together_fail_no_more_often_than_beta(looks):
    """Enumerated: every history before every look, 4 L statements at each; the uniform family has the other half of beta."""
    for yes in range(1, looks + 1):
        histories = {told[:t] for told in product((0, 1), repeat=looks) for t in range(looks) if sum(told[:t]) < yes}
        # Levels by place alone, where they are below those that are alike everywhere.
        alike = gate_level(looks, yes=yes, beta=BETA / 2)
        spent = sum(
            4 * gate_cells(looks) * math.exp(-level)
            for told in histories
            if (level := gate_level(looks, yes=yes, beta=BETA, look=len(told) + 1, after=sum(told))) < alike - 1e-9
        )
        assert spent <= BETA / 2
        assert (1 + 4 * gate_cells(looks) * len(histories)) * math.exp(-alike) <= BETA / 2 * 1.0001


@pytest.mark.parametrize(
    ("look", "after", "level", "ratio"), [(1, 0, 10.7, 0.48), (5, 1, 16.7, 0.60), (20, 2, 24.0, 0.72), (100, 5, 41.6, 0.94)]
)
def test_s5_levels_by_place(look, after, level, ratio):
    uniform = gate_level(200, yes=10, beta=BETA)
    assert uniform == pytest.approx(46.7, abs=0.05)
    found = gate_level(200, yes=10, beta=BETA, look=look, after=after)
    assert found == pytest.approx(level, abs=0.05)
    assert math.sqrt(found / uniform) == pytest.approx(ratio, abs=0.006)


def test_s5_widths_grow_with_the_look_and_are_never_much_wider_than_alike():
    uniform = gate_level(200, yes=10, beta=BETA)
    assert gate_level(200, yes=10, beta=BETA, look=200, after=9) == gate_level(200, yes=10, beta=BETA / 2)
    for after in range(10):
        levels = [gate_level(200, yes=10, beta=BETA, look=look, after=after) for look in range(after + 1, 201)]
        assert all(first <= second for first, second in pairwise(levels))
        assert math.sqrt(levels[-1] / uniform) <= 1.01
    for look, after in ((0, 0), (201, 0), (3, 3), (3, -1)):
        with pytest.raises(InvalidParameter):
            gate_level(200, yes=10, beta=BETA, look=look, after=after)


@pytest.mark.parametrize(("look", "width"), [(1, 0.037), (10, 0.075), (20, 0.1)])
def test_s5_rounded_scores_by_look(look, width):
    uniform = rounding_width(46, cases=5000, looks=20, beta=BETA)
    assert uniform == pytest.approx(0.0983, abs=1e-4)
    halves = rounding_width(46, cases=5000, looks=20, beta=BETA / 2)
    # The record has all of beta for looks; here they share it with the width that is alike for all.
    assert rounding_width(46, cases=5000, looks=20, beta=2 * BETA, look=look) == pytest.approx(min(width, uniform), abs=5e-4)
    assert rounding_width(46, cases=5000, looks=20, beta=BETA, look=look) <= halves <= 1.01 * uniform


def test_s5_a_gate_quotes_the_width_of_the_place():
    start, better, worse = with_error(0.4), with_error(0.2), with_error(0.3)
    numbers = {"cases": CASES, "looks": 50, "yes": 3, "beta": BETA}
    with open_counted(TRUTH, looks=50, yes=3, incumbent=start, unseen=True) as holdout:
        assert holdout.facts.by_place
        opened = holdout.incumbent
        first = holdout.gate(better, margin=0.1)
        second = holdout.gate(worse, margin=0.0)
        assert first.gain.low == pytest.approx(0.1 - gate_gain(CASES, **numbers, look=1, after=0))
        assert second.gain.high == pytest.approx(gate_gain(CASES, **numbers, look=2, after=1))
        least = math.floor((start == TRUTH).mean() * 25) / 25
        assert first.interval.low == pytest.approx(
            gate_interval(Fraction(least) + Fraction(1, 10), 1, **numbers, look=1, after=0, whole=True)[0], abs=1e-3
        )
        # What is told before the first look has half of beta, alike for all places.
        ends = gate_interval(
            Fraction(least), Fraction(least) + Fraction(1, 25), **(numbers | {"beta": BETA / 2}), whole=True
        )
        assert (opened.low, opened.high) == pytest.approx(ends, abs=1e-3)
        score = holdout.certify()
        hits = Fraction(int((better == TRUTH).sum()), CASES)
        assert (score.interval.low, score.interval.high) == gate_interval(hits, hits, **numbers, look=1, after=0, whole=True)
        assert score.interval.width < 2 * 0.75 * gate_alpha(CASES, looks=50, yes=3, beta=BETA)
        assert "S5" in score.certificate.theorem


def test_s5_a_ledger_created_before_keeps_the_width_that_is_alike_for_all(tmp_path):
    path, better = tmp_path / "old.ledger", with_error(0.2)
    with counting_transcripts(by_place=False):
        Holdout(TRUTH, looks=50, yes=3, incumbent=with_error(0.4), unseen=True, ledger=path).close()
    with Holdout(TRUTH, ledger=path) as holdout:
        assert not holdout.facts.by_place
        first = holdout.gate(better, margin=0.1)
        numbers = {"cases": CASES, "looks": 50, "yes": 3, "beta": BETA}
        assert first.gain.low == pytest.approx(0.1 - gate_gain(CASES, **numbers))
        score = holdout.certify()
        half = Fraction(1, 1 << 21)
        hits = Fraction(int((better == TRUTH).sum()), CASES)
        assert (score.interval.low, score.interval.high) == gate_interval(hits - half, hits + half, **numbers)
        assert score.certificate.theorem == "transcripts of a gate, counted (T9, T11)"


def test_s5_rounded_scores_widen_look_by_look():
    with Holdout(TRUTH, looks=20, private=False) as holdout:
        width = partial(rounding_width, holdout.facts.cells, cases=CASES, looks=20, beta=BETA)
        scores = [holdout.score(with_error(0.4)) for _ in range(20)]
        for look, score in enumerate(scores, start=1):
            assert score.interval.width / 2 == pytest.approx(min(holdout.plan.alpha, width(look=look)), abs=1e-5)
        assert scores[0].interval.width < 0.5 * scores[-1].interval.width


def test_s6_exact_tails_of_hits_are_narrower_than_chernoffs():
    assert 0.7 - chernoff_end(0.7, rows=5000, level=46.7) == pytest.approx(0.0648, abs=5e-5)
    assert 0.7 - binomial_end(3500, rows=5000, level=46.7) == pytest.approx(0.0627, abs=5e-5)
    for hits, rows, level in ((0, 10, 3.0), (1, 10, 3.0), (10, 10, 3.0), (37, 50, 8.0), (400, 1000, 700.0)):
        end = binomial_end(hits, rows=rows, level=level)
        safe = chernoff_end(Fraction(hits, rows), rows=rows, level=level)
        assert safe <= end <= max(safe, (hits - 1) / rows)
        if level < 600 and hits:
            assert stats.binom.sf(hits - 1, rows, end) <= math.exp(-level) * (1 + 1e-9)


def test_s6_binomial_ends_hold_for_cases_that_are_not_alike(request):
    """And fail where a tenth is taken off the level, for cases that are alike."""
    random, rows, level = generator(request), 60, 4.0
    for chances in (random.random(rows), np.repeat([0.05, 0.95], 30), np.full(rows, 0.3)):
        hits = (random.random((200_000, rows)) < chances).sum(axis=1)
        ends = np.array([binomial_end(number, rows=rows, level=level) for number in range(rows + 1)])
        missed = (ends[hits] > chances.mean()).mean()
        assert missed <= math.exp(-level)
    worst = max(
        float(stats.binom.sf(number - 1, rows, binomial_end(number, rows=rows, level=0.9 * level)))
        for number in range(2, rows)
    )
    assert worst > math.exp(-level)
