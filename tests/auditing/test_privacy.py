"""Audits of privacy: true with the stated confidence whatever was searched, on every kind of output; bad input."""

import math

import numpy as np
import pytest
from scipy import stats

import holdtrue as ht
from holdtrue.auditing import audit_law, audit_privacy, audit_stability
from holdtrue.auditing.search import events, group_claim
from holdtrue.auditing.search.confidence_bounds import Pooled, combine_stages
from holdtrue.auditing.search.events import STRATEGIES, ChosenEvent, Parts, Tally, Trial
from holdtrue.auditing.search.outputs import OutputReader, Seen, lowest_bit
from holdtrue.auditing.search.scores import OutputScore


def _exceeded(count, run, truth, *, samples, **given):
    return sum(audit_privacy(run, 0, 1, epsilon=truth, samples=samples, **given).violated for _ in range(count))


def _significantly_above(hits, runs, rate):
    return hits > 0 and stats.beta.ppf(1e-6, hits, runs - hits + 1) > rate


def _response(rng):
    """Return randomised response at epsilon = 1, on one bit."""
    return lambda bit, n: np.where(rng.random(n) < 1 / (1 + math.exp(-1)), bit, 1 - bit)


def test_the_lower_bound_is_above_the_truth_at_most_as_often_as_stated(bits):
    rng = np.random.default_rng(11)
    runs = 150
    assert not _significantly_above(_exceeded(runs, _response(rng), 1.0, samples=1000, bits=bits), runs, 0.05)
    same = lambda _, n: rng.normal(size=(n, 2))  # noqa: E731 - the same law on both sides
    assert not _significantly_above(_exceeded(30, same, 0.0, samples=500, bits=bits), 30, 0.05)


def test_counting_on_what_was_searched_would_be_caught():
    """Planted fault: the best of many cuts is believed on the very outputs that it was found on."""
    rng = np.random.default_rng(12)
    rule = Pooled(0.0, 0.05)
    wrong = 0
    for _ in range(200):
        left, right = rng.normal(size=(2, 1000))
        hits = [(side[:, None] >= np.linspace(-3, 3, 60)).sum(axis=0) for side in (left, right)]
        wrong += bool(max(rule.limit(*hits, 1000.0).max(), rule.limit(*hits[::-1], 1000.0).max()) > 0)
    assert _significantly_above(wrong, 200, 0.05)


def _found_in_noise(runs, bits, monkeypatch):
    """Audit a law against itself by three strategies, each with a number of its own; return how often something is found."""
    rng, rule = np.random.default_rng(13), Pooled(0.0, 0.3)
    scores = [OutputScore("one number", lambda seen, place=place: seen.matrix[:, place]) for place in range(3)]
    reader, numbers = OutputReader.of(*rng.normal(size=(2, 10, 3))), [Seen(rng.normal(size=(10, 3))) for _ in range(2)]
    monkeypatch.setattr(events, "STRATEGIES", range(3))
    monkeypatch.setattr(events, "search_scores", lambda _: (reader, [Tally.of(score, *numbers) for score in scores]))

    def choose(_tallies, strategy, **_):
        return ChosenEvent(scores[strategy], 0.0, above=True, swapped=False, rule=rule)

    monkeypatch.setattr(events, "choose_event", choose)
    trial = Trial(lambda _, n: rng.normal(size=(n, 3)), 0, 1, Parts.of(1000, 0.4, width=3), [rule], 0.3)
    return sum(events.prove_bound(trial, bits=bits)[0] > 0 for _ in range(runs))


def test_bounds_of_several_strategies_hold_at_once(bits, monkeypatch):
    assert not _significantly_above(_found_in_noise(200, bits, monkeypatch), 200, 0.3)


def test_strategies_that_do_not_share_alpha_are_caught(bits, monkeypatch):
    """Planted fault: each of three strategies has all of alpha."""
    monkeypatch.setattr(events, "combine_stages", lambda stages, alpha: combine_stages(stages, alpha=alpha * 3))
    assert _significantly_above(_found_in_noise(200, bits, monkeypatch), 200, 0.3)


def test_a_careful_choice_is_not_misled_by_one_lucky_cut():
    """One cut promises most by itself; the bold strategy takes it, the careful one takes the middle of those that agree."""
    promised, luck = np.zeros(320), np.zeros(320)
    promised[200:260], promised[40] = 0.5, 1.0
    bold, careful = (int(strategy.rate_cuts(promised, luck, size=10**5).argmax()) for strategy in STRATEGIES)
    assert bold == 40
    assert 210 <= careful < 250
    assert int(STRATEGIES[-1].rate_cuts(promised, luck, size=10**10).argmax()) == 40  # luck is not to be feared any more


OUTPUTS = {
    "labels": lambda flips: np.where(flips, "yes", "no"),
    "strings in a list": lambda flips: ["yes" if flip else "no" for flip in flips],
    "booleans": lambda flips: flips,
    "tuples": lambda flips: [("answer", int(flip), 2.5) for flip in flips],
    "tuples of two lengths": lambda flips: [(1, 2.0) if flip else (1,) for flip in flips],
    "missing values": lambda flips: [1.5 if flip else None for flip in flips],
    "infinities": lambda flips: np.where(flips, np.inf, -np.inf),
    "mixed labels": lambda flips: [1 if flip else "1" for flip in flips],
    "vectors": lambda flips: np.column_stack([np.zeros(flips.size), flips, np.ones(flips.size)]),
    "labels and missing numbers": lambda flips: [("yes", None) if flip else ("no", 1.5) for flip in flips],
    "forty numbers, some missing": lambda flips: np.where(flips[:, None], [[1.0] * 39 + [np.nan]], 1.0),
    "huge whole numbers": lambda flips: [10**400 if flip else 7 for flip in flips],
}


@pytest.mark.parametrize("kind", sorted(OUTPUTS))
def test_every_kind_of_output_can_be_compared(kind, bits):
    respond = _response(np.random.default_rng(13))
    found = audit_privacy(lambda data, n: OUTPUTS[kind](respond(data, n) == 1), 0, 1, epsilon=0.5, samples=20_000, bits=bits)
    assert 0.85 < found.lower_bound < 1.1
    assert found.violated
    assert "likelier on the" in found.event


def test_a_label_never_seen_in_the_search_is_no_error(bits):
    rng = np.random.default_rng(14)
    found = audit_privacy(
        lambda _, n: [f"label {x}" for x in rng.integers(0, 10**6, n)], 0, 1, epsilon=1, samples=4000, bits=bits
    )
    assert not found.violated


def test_outputs_that_never_differ_prove_nothing(bits):
    found = audit_privacy(lambda _, n: np.zeros(n), 0, 1, epsilon=0.1, samples=1000, bits=bits)
    assert (found.lower_bound, found.violated) == (0.0, False)
    assert found.event.startswith("none")


@pytest.mark.parametrize("bad", [object(), {"a": 1}, 1 + 2j, np.datetime64("2020-01-01")])
def test_outputs_that_cannot_be_compared_are_refused(bad):
    with pytest.raises(ht.InvalidParameter, match="outputs must be numbers, labels"):
        audit_privacy(lambda _, n: [bad] * n, 0, 1, epsilon=1, samples=1000)


def test_a_run_that_returns_too_few_or_no_outputs_is_refused():
    with pytest.raises(ht.InvalidParameter, match="asked for 8, it returned"):
        audit_privacy(lambda _, n: np.zeros(n - 1), 0, 1, epsilon=1, samples=1000)
    with pytest.raises(ht.InvalidParameter, match="one output per run"):
        audit_privacy(lambda *_: 3.0, 0, 1, epsilon=1, samples=1000)
    with pytest.raises(ht.InvalidParameter, match="one output per run"):
        audit_privacy(lambda *_: "yes", 0, 1, epsilon=1, samples=1000)


def test_too_few_samples_say_how_many_would_do(bits):
    with pytest.raises(ht.InsufficientSamples) as short:
        audit_privacy(lambda x, n: np.full(n, x), 0, 1, epsilon=5.0, samples=500, confidence=0.99)
    required = short.value.required
    assert f"use at least {required:,}" in str(short.value)
    enough = audit_privacy(lambda x, n: np.full(n, x), 0, 1, epsilon=5.0, samples=required, confidence=0.99, bits=bits)
    assert enough.lower_bound > 4
    with pytest.raises(ht.InsufficientSamples, match="no number of samples") as never:
        audit_privacy(lambda x, n: np.full(n, x), 0, 1, epsilon=500.0, samples=10**6)
    assert never.value.required is None


def test_tables_that_are_no_neighbours_say_in_how_many_rows_they_differ():
    rows = np.arange(12.0).reshape(4, 3)
    other, far = rows.copy(), rows.copy()
    other[1, 2] = np.nan
    far[[0, 2, 3]] += 1

    def run(data, n):
        return np.full(n, float(np.nansum(data)))

    assert audit_privacy(run, rows, other, epsilon=1, samples=1000).violated
    assert audit_privacy(run, other, rows.tolist(), epsilon=1, samples=1000).violated
    for left, right in (
        (rows, far),
        (rows.tolist(), far.tolist()),
        ([{"a": x} for x in range(4)], [{"a": -x - 1} for x in (0, 5, 5, 5)]),
    ):
        with pytest.raises(ht.PreconditionError, match=r"differ in [34] rows, and must differ in exactly one row"):
            audit_privacy(run, left, right, epsilon=1, samples=1000)
    with pytest.raises(ht.PreconditionError, match="left has 4 rows and right has 3"):
        audit_privacy(run, rows, rows[:3], epsilon=1, samples=1000)
    with pytest.raises(ht.PreconditionError, match="differ in 0 rows"):
        audit_privacy(run, rows, rows.copy(), epsilon=1, samples=1000)
    group = audit_privacy(run, rows, far, epsilon=1, samples=1000, rows=3)
    assert group.claimed == 3.0


def test_data_frames_are_tables():
    import pandas as pd

    left = pd.DataFrame({"age": [1, 2, 3], "city": ["a", "b", "c"]})
    right = left.assign(age=[4, 5, 3])
    with pytest.raises(ht.PreconditionError, match="differ in 2 rows"):
        audit_privacy(lambda data, n: np.full(n, data["age"].sum()), left, right, epsilon=1, samples=1000)


def test_groups_are_claimed_what_the_lemma_says():
    epsilon, delta = group_claim(0.5, 1e-6, rows=5)
    assert (epsilon, delta) == (2.5, pytest.approx(17.2377e-6, rel=1e-5))
    assert group_claim(0, 1e-6, rows=3) == (0, pytest.approx(3e-6))
    with pytest.raises(ht.InvalidParameter, match="claims nothing"):
        group_claim(5, 1e-3, rows=10)


def test_a_law_is_audited_exactly():
    """Votes of 32 members, weighted by e^(epsilon count) and by e^(epsilon count / 2) (E4)."""

    def worst(rate):
        counts = np.arange(33)
        laws = [np.exp(rate * np.array([k, 32 - k]) - rate * 32) for k in counts]
        laws = [law / law.sum() for law in laws]
        return max((audit_law(laws[k], laws[k + 1], epsilon=1.0) for k in range(32)), key=lambda f: f.lower_bound)

    assert worst(1.0).violated
    assert worst(1.0).lower_bound == pytest.approx(2.0, abs=1e-3)
    assert not worst(0.5).violated
    assert worst(0.5).lower_bound == pytest.approx(0.99999981, abs=1e-7)
    assert worst(0.5).confidence == 1.0
    assert audit_law([1.0, 0.0], [0.5, 0.5], epsilon=1.0).lower_bound == math.inf
    assert audit_law([0.5, 0.5], [0.5, 0.5], epsilon=0.0).violated is False


def test_total_variation_is_bounded_from_below(bits):
    rng = np.random.default_rng(15)
    truth = math.tanh(0.5)
    found = audit_stability(_response(rng), 0, 1, tv=0.3, samples=20_000, bits=bits)
    assert found.violated
    assert 0.95 * truth < found.lower_bound <= truth + 0.01
    honest = [audit_stability(_response(rng), 0, 1, tv=truth, samples=600, bits=bits).violated for _ in range(60)]
    assert not _significantly_above(sum(honest), 60, 0.05)
    with pytest.raises(ht.InsufficientSamples, match="use at least"):
        audit_stability(_response(rng), 0, 1, tv=0.9, samples=60)
    with pytest.raises(ht.InvalidParameter, match="tv"):
        audit_stability(_response(rng), 0, 1, tv=1.5)


def test_the_lowest_set_bit():
    values = np.array([1.0, 3.0, 0.5, 6.0, 2.0**-53, 1 + 2.0**-52, 0.0, -0.0, np.inf, np.nan, -12.0, 5e-324])
    assert lowest_bit(values).tolist() == [0, 0, -1, 1, -53, -52, 2000, 2000, -2000, -2000, 2, -1074]
