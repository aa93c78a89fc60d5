"""Events are searched on some outputs and counted on others: how samples are divided, cuts chosen and hits counted."""

import math

import numpy as np
import pytest
from scipy import stats

from holdtrue.auditing.search import events
from holdtrue.auditing.search.confidence_bounds import Distance, Pooled, Separate
from holdtrue.auditing.search.events import (
    NOTHING,
    STRATEGIES,
    ChosenEvent,
    Parts,
    Strategy,
    Tally,
    Trial,
    choose_event,
    largest_provable,
    mean_runs,
    prove_bound,
    search_scores,
)
from holdtrue.auditing.search.outputs import Seen
from holdtrue.auditing.search.scores import OutputScore
from holdtrue.testing import SeededBits

FIRST = OutputScore("the output", lambda seen: seen.matrix[:, 0])
RULES = [Separate(0.0, 0.05), Pooled(0.0, 0.05)]


def outputs(values):
    return Seen(np.asarray(values, dtype=np.float64)[:, None])


class Recorded:
    """A mechanism that keeps count of how often it was run on each side."""

    def __init__(self, law):
        self.law, self.drawn = law, {}

    def __call__(self, data, count):
        self.drawn[data] = self.drawn.get(data, 0) + count
        return self.law(data, count)


def response(seed, truth=1.0):
    rng = np.random.default_rng(seed)
    return Recorded(lambda bit, count: np.where(rng.random(count) < 1 / (1 + math.exp(-truth)), bit, 1 - bit))


# How samples are divided


@pytest.mark.parametrize("samples", [8, 100, 1001, 10**6, 10**8])
@pytest.mark.parametrize("share", [0.1, 0.4, 0.9])
def test_parts_add_up_to_the_samples(samples, share):
    parts = Parts.of(samples, share)
    assert parts.searched + parts.counting == samples
    assert parts.stages == (parts.first, parts.second)
    assert parts.searched <= samples * share
    assert min(parts.learning, parts.sifting, parts.choosing, parts.first, parts.second) >= 0


def test_a_quarter_of_the_search_makes_scores():
    parts = Parts.of(8000, 0.5)
    assert (parts.learning, parts.sifting, parts.choosing) == (1000, 1500, 1500)
    assert (parts.first, parts.second) == (1666, 2334)


def test_memory_bounds_the_search_and_wide_outputs_more_so():
    narrow, wide = Parts.of(10**9, 0.5), Parts.of(10**9, 0.5, width=1000)
    assert narrow.searched <= 5 << 21
    assert wide.searched <= 5 << 18
    assert wide.first <= 5 << 18
    assert narrow.counting + narrow.searched == wide.counting + wide.searched == 10**9


def test_slices_never_choose_on_what_made_the_scores():
    parts = Parts.of(1000, 0.4)
    learning, sifting, choosing = parts.slices
    assert learning.stop == sifting.start == choosing.start == parts.learning
    assert choosing.stop == parts.searched
    assert sifting.stop - sifting.start == parts.sifting


def test_runs_that_are_drawn_are_fewer_on_average():
    assert mean_runs(10_000, pooled=False) == 10_000
    assert mean_runs(10_000, pooled=True) == 10_000 - 5 * 100
    assert mean_runs(1, pooled=True) == 1.0


def test_the_number_of_runs_that_is_drawn_seldom_exceeds_what_there_is():
    mean = mean_runs(10_000, pooled=True)
    assert stats.poisson.sf(10_000, mean) < 1e-6


def test_poisson_numbers_have_their_law(request):
    bits = SeededBits(request.node.nodeid)
    drawn = np.array([events._draw_poisson(40.0, bits) for _ in range(4000)])
    for most in (30, 36, 40, 44, 50):
        chance = stats.poisson.cdf(most, 40.0)
        assert abs((drawn <= most).mean() - chance) < 6 * math.sqrt(chance * (1 - chance) / drawn.size)


# Cuts


def test_few_values_are_all_cut_at_but_for_the_lowest():
    assert events._choose_cuts(np.array([1.0, 1.0, 2.0, 5.0])).tolist() == [2.0, 5.0]
    assert events._choose_cuts(np.array([3.0, 3.0])).size == 0


def test_many_values_are_cut_at_ranks_closer_together_at_both_ends():
    values = np.arange(100_000.0)
    cuts = events._choose_cuts(values)
    assert 200 < cuts.size < 400
    assert np.diff(cuts)[0] <= 2
    assert np.diff(cuts)[-1] <= 2
    assert np.diff(cuts).max() > 1000


def test_a_tally_counts_what_lies_at_or_above_each_cut():
    rng = np.random.default_rng(1)
    left, right = rng.integers(10, size=500), rng.integers(12, size=500)
    tally = Tally.of(FIRST, outputs(left), outputs(right))
    assert tally.cuts.tolist() == list(range(1, 12))
    assert tally.size == 500
    for place, cut in enumerate(tally.cuts):
        assert tally.over[0][place] == (left >= cut).sum()
        assert tally.over[1][place] == (right >= cut).sum()
    more = rng.integers(12, size=300)
    assert tally.count_above(outputs(more)).tolist() == [(more >= cut).sum() for cut in tally.cuts]


def test_a_tally_of_missing_and_infinite_numbers_counts_them_at_the_ends():
    tally = Tally.of(FIRST, outputs([np.nan, 0.0, 1.0, np.inf]), outputs([0.0, 0.0, 1.0, 1.0]))
    assert tally.cuts.tolist() == [0.0, 1.0, np.inf]
    assert tally.over[0].tolist() == [3, 2, 1]


def test_events_are_both_sides_of_a_cut_in_both_orders_by_every_rule():
    tally = Tally.of(FIRST, outputs([0.0, 1.0] * 50), outputs([0.0, 0.0, 0.0, 1.0] * 25))
    found = [(above, swapped, rule) for above, swapped, rule, _, _ in tally.list_events(RULES, 1000)]
    assert len(found) == 2 * 2 * len(RULES) == len({(above, swapped, id(rule)) for above, swapped, rule in found})


def test_what_an_event_promises_is_what_its_rule_proves_from_as_many_hits():
    rule = Separate(0.0, 0.05)
    expected, luck = events._expect_bounds(np.array([500.0]), np.array([100.0]), size=1000, rule=rule, runs=2000)
    assert expected[0] == pytest.approx(float(rule.limit(1000.0, 201.0, 2000.0)))
    p, q = 501 / 1002, 101 / 1002
    assert luck[0] == pytest.approx(math.sqrt(((1 - p) / p + (1 - q) / q) / 1000))
    _, width = events._expect_bounds(np.array([500.0]), np.array([100.0]), size=1000, rule=Distance(0.05), runs=2000)
    assert width[0] == pytest.approx(math.sqrt((p * (1 - p) + q * (1 - q)) / 1000))


def test_smoothing_is_the_mean_over_neighbours_and_what_says_nothing_counts_against():
    values = np.array([0.0, 3.0, 6.0, 3.0, -np.inf, 0.0, 0.0])
    assert events._smooth_cuts(values, 0) is values
    assert events._smooth_cuts(values, 3) is values  # too few cuts to have so many neighbours
    smooth = events._smooth_cuts(values, 1)
    assert smooth[:3].tolist() == pytest.approx([1.5, 3.0, 4.0])
    assert smooth[4] == pytest.approx((3.0 - 1.0 + 0.0) / 3)


def test_caution_takes_off_luck():
    bold, careful = Strategy(1.0, 0), Strategy(3.0, 0)
    expected, luck = np.array([1.0, 0.9]), np.array([0.5, 0.1])
    assert bold.rate_cuts(expected, luck, size=100).tolist() == pytest.approx([0.5, 0.8])
    assert int(careful.rate_cuts(expected, luck, size=100).argmax()) == 1


# Events


@pytest.mark.parametrize(
    ("above", "swapped", "words"),
    [
        (True, False, "the output is at least 2.5; likelier on the left"),
        (False, True, "the output is below 2.5; likelier on the right"),
    ],
)
def test_an_event_says_in_words_what_it_counts(above, swapped, words):
    event = ChosenEvent(FIRST, 2.5, above, swapped, RULES[0])
    assert event.words == words
    hits = event.find_hits(outputs([2.0, 2.5, 3.0, np.nan]))
    assert hits.tolist() == ([False, True, True, False] if above else [True, False, False, True])


def test_the_event_that_tells_most_is_chosen():
    """One score tells nothing and one everything; the cut is the one between the sides, on the side that is likelier."""
    noise = OutputScore("noise", lambda seen: np.zeros(seen.matrix.shape[0]) + np.arange(seen.matrix.shape[0]) % 7)
    left, right = outputs([5.0, 6.0] * 200), outputs([1.0, 2.0] * 200)
    tallies = [Tally.of(noise, left, right), Tally.of(FIRST, left, right)]
    event = choose_event(tallies, STRATEGIES[0], rules=RULES, runs=1000)
    assert event.score is FIRST
    hits = [event.find_hits(side).mean() for side in ((right, left) if event.swapped else (left, right))]
    assert hits == [1.0, 0.0]


def test_the_search_draws_what_its_part_of_the_samples_allows():
    run = response(2)
    trial = Trial(run, 0, 1, Parts.of(4000, 0.4), RULES, 0.05)
    reader, tallies = search_scores(trial)
    assert run.drawn == {0: trial.parts.searched, 1: trial.parts.searched}
    assert reader.numeric == (True,)
    assert all(tally.size == trial.parts.sifting + trial.parts.choosing for tally in tallies)


def test_a_proof_runs_each_side_as_often_as_there_are_samples(bits):
    run = response(3)
    trial = Trial(run, 0, 1, Parts.of(4000, 0.4), RULES, 0.05)
    bound, words = prove_bound(trial, bits=bits)
    assert run.drawn == {0: 4000, 1: 4000}
    assert 0.5 < bound < 1.1
    assert "likelier on the" in words


def test_outputs_that_never_differ_prove_nothing_and_are_not_counted(bits):
    run = Recorded(lambda _, count: np.ones(count))
    trial = Trial(run, 0, 1, Parts.of(4000, 0.4), RULES, 0.05)
    assert prove_bound(trial, bits=bits) == (0.0, NOTHING)
    assert run.drawn == {0: trial.parts.searched, 1: trial.parts.searched}


def test_counts_are_those_of_the_runs_they_were_promised(bits):
    """Fixed numbers of runs for one rule, Poisson numbers for the other; tallies grow by all of them."""
    run = Recorded(lambda side, count: np.full(count, 1.0 - side))
    trial = Trial(run, 0, 1, Parts.of(4000, 0.4), RULES, 0.05)
    reader, _ = search_scores(trial)
    chosen = [ChosenEvent(FIRST, 0.5, above=True, swapped=False, rule=rule) for rule in RULES]
    tally = Tally.of(FIRST, outputs([0.0, 1.0]), outputs([0.0, 1.0]))
    counts, grown = events._count_events(chosen, [tally], trial, reader, 1000, bits=bits)
    assert (counts[0].first, counts[0].second, counts[0].runs) == (1000, 0, 1000)
    assert counts[1].runs == mean_runs(1000, pooled=True)
    assert abs(counts[1].first - counts[1].runs) < 6 * math.sqrt(1000)
    assert counts[1].second == 0
    assert all(count.valid for count in counts)
    assert grown[0].size == tally.size + 1000
    assert grown[0].over[0].tolist() == [1001]
    assert grown[0].over[1].tolist() == [1]


def test_an_event_that_is_likelier_on_the_right_counts_that_side_first(bits):
    trial = Trial(lambda side, count: np.full(count, float(side)), 0, 1, Parts.of(4000, 0.4), RULES, 0.05)
    reader, _ = search_scores(trial)
    event = ChosenEvent(FIRST, 0.5, above=True, swapped=True, rule=RULES[0])
    (count,), _ = events._count_events([event], (), trial, reader, 500, bits=bits)
    assert (count.first, count.second) == (500, 0)


def test_more_runs_drawn_than_there_are_make_counts_invalid(bits, monkeypatch):
    monkeypatch.setattr(events, "_draw_poisson", lambda *_: 501)
    trial = Trial(lambda side, count: np.full(count, float(side)), 0, 1, Parts.of(4000, 0.4), RULES, 0.05)
    reader, _ = search_scores(trial)
    chosen = [ChosenEvent(FIRST, 0.5, above=True, swapped=True, rule=rule) for rule in RULES]
    counts, _ = events._count_events(chosen, (), trial, reader, 500, bits=bits)
    assert [count.valid for count in counts] == [True, False]


def test_what_could_be_proved_at_most_grows_with_the_runs():
    found = [largest_provable(Parts.of(samples, 0.4), RULES, alpha=0.05) for samples in (100, 1000, 10_000)]
    assert found == sorted(found)
    assert 5 < found[-1] < 8
    assert largest_provable(Parts.of(1, 0.4), RULES, alpha=0.05) == 0.0
    assert largest_provable(Parts.of(10_000, 0.4), [Distance(0.05)], alpha=0.05) == pytest.approx(1, abs=0.01)
