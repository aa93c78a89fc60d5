"""Above threshold with noise that is never below 0 (V2.1): its law by enumeration, its mirror image refuted, its boxes."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

import holdtrue as ht
from holdtrue.bounds.sparse_vector import one_sided_boxes
from holdtrue.events import Pure
from holdtrue.testing import SeededBits, drawing_from

FIRST, SECOND = 0.4, 0.7
LONGEST = 240


def stopping_law(stream, *, mirrored=False, first=FIRST, second=SECOND):
    """Return the probabilities of stopping at each count of streams (rows), and of silence, for geometric noise."""
    steps = np.arange(LONGEST)
    threshold = (1 - np.exp(-first)) * np.exp(-first * steps)

    def reaches(distance):
        """Return Pr[noise >= distance] for noise of scale 2 / second, at or below 0 where it is mirrored."""
        if mirrored:
            return np.where(distance <= 0, 1 - np.exp(-second / 2 * (1 - np.minimum(distance, 0))), 0.0)
        return np.exp(-second / 2 * np.maximum(distance, 0))

    silent = np.broadcast_to(threshold, (len(stream), LONGEST)).copy()
    law = []
    for place in range(stream.shape[1]):
        passed = reaches((-steps if mirrored else steps) - stream[:, place, None])
        law.append((silent * passed).sum(axis=1))
        silent = silent * (1 - passed)
    return np.stack([*law, silent.sum(axis=1)], axis=1)


def worst_losses(**given):
    source = np.random.default_rng(21)
    here = source.integers(-12, 7, (4000, 3))
    there = here + source.integers(-1, 2, here.shape)
    # The worst that the proof allows, at the third count and in silence: the threshold shifts by 1, its noise by 2.
    here[0], there[0] = (5, 5, -12), (6, 6, -13)
    here[1], there[1] = (5, 5, 5), (6, 6, 6)
    with np.errstate(divide="ignore"):
        return np.abs(np.log(stopping_law(here, **given)) - np.log(stopping_law(there, **given))).max(axis=0)


def test_the_worst_loss_of_a_run_is_what_it_is_charged_and_silence_costs_less():
    losses = worst_losses()
    assert losses.max() == pytest.approx(FIRST + SECOND, abs=1e-9)
    assert losses[-1] == pytest.approx(FIRST, abs=1e-9)


def test_the_class_is_charged_for_its_worst_loss():
    """Its scales are 2 and 4 over epsilon: half of it for the threshold, which silence costs, and half for the count."""
    run = ht.AboveThreshold(epsilon=Fraction(4, 5), one_sided=True)
    assert run.event == Pure(Fraction(4, 5))
    first, second = 1 / run.threshold_scale, 2 / run.value_scale
    losses = worst_losses(first=float(first), second=float(second))
    assert (losses.max(), losses[-1]) == pytest.approx((0.8, 0.4), abs=1e-9)


def test_mirrored_noise_is_refuted():
    """The control: noise that is never above 0 shifts out of its support, and the same charge does not cover it."""
    assert worst_losses(mirrored=True).max() > FIRST + SECOND + 0.1


def test_the_drawn_run_has_that_law():
    """The class has epsilon / 2 for the threshold and epsilon / 4 a unit for each count."""
    run = drawing_from(ht.AboveThreshold(epsilon=0.8, one_sided=True), SeededBits("one-sided"))
    counts, runs = [-2, 1, 3], 2000
    found = np.bincount([3 if (place := run.release(counts)) is None else place for _ in range(runs)], minlength=4)
    steps = np.arange(LONGEST)
    left = (1 - np.exp(-0.4)) * np.exp(-0.4 * steps)
    law = []
    for count in counts:
        passed = np.exp(-0.2 * np.maximum(steps - count, 0))
        law.append((left * passed).sum())
        left = left * (1 - passed)
    law.append(left.sum())
    assert sum((seen - runs * p) ** 2 / (runs * p) for seen, p in zip(found, law, strict=True)) < 50


def test_silence_is_right_however_many_looks_there_are():
    """Ten thousand looks at a count far above the box: the first is an alarm, as no noise is below 0."""
    silent, alarm = one_sided_boxes(1, look=1, epsilon=0.5, beta=0.01)
    assert silent == pytest.approx(4 * np.log(2 / 0.01), rel=1e-9)
    assert alarm == pytest.approx(8 * np.log(np.pi**2 / 3 / 0.01), rel=1e-9)
    missed = 0
    for number in range(300):
        watch = drawing_from(ht.AboveThreshold(epsilon=0.5, one_sided=True), SeededBits(f"looks {number}")).watch()
        missed += not watch.above(int(np.ceil(silent)))
    assert missed <= 300 * 0.01 + 10
    wider = one_sided_boxes(5, look=3, epsilon=0.5, beta=0.01, booked=0.5)
    assert wider[0] == pytest.approx(4 * np.log(10 / 0.01) + 6, rel=1e-9)
    assert wider[1] > alarm


def count_missed_watches(number, *, one_sided):
    """Return how many watches of three runs were wrong: an alarm at the alarm's box below, or silence at its own above."""
    missed, runs, beta = 0, 3, 0.05
    boxes = [one_sided_boxes(runs, look=look, epsilon=0.5, beta=beta) for look in range(1, 26)]
    for seed in range(number):
        mechanism = drawing_from(ht.AboveThreshold(epsilon=0.5, one_sided=one_sided), SeededBits(f"missed {seed}"))
        wrong = False
        for _ in range(runs):
            watch = mechanism.watch()
            fired = any(watch.above(-int(np.ceil(alarm))) for _, alarm in boxes)
            wrong |= fired or not watch.above(int(np.ceil(boxes[0][0])))
        missed += wrong
    return missed


def test_watches_cover_and_with_two_sided_noise_they_do_not():
    """All answers of a watch at once, in 400 watches, by an analyst who asks where boxes end; the control is two-sided."""
    most = binom.isf(1e-6, 400, 0.05)
    assert count_missed_watches(400, one_sided=True) <= most
    assert count_missed_watches(400, one_sided=False) > most
