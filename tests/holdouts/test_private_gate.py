"""The private gate by depth (V1.4): proofs that survive noise, noise that is what its charge says, and nothing else told."""

import json
import math
import re
import shutil

import numpy as np
import pytest

import holdtrue as ht
from auditing.test_every_ledger import lines_of, rewrite
from holdouts.old_gates import open_releasing
from holdtrue.accounting.closed_forms import gaussian_delta, largest_float
from holdtrue.bounds.gate_levels import (
    VALUE_UNIT,
    bet_surplus,
    betting_tail,
    depth_levels,
    gaussian_margin,
    plan_gate_noise,
    sparse_margin,
    wins_needed,
    wins_table,
)
from holdtrue.holdouts import Holdout
from holdtrue.mechanisms import AboveThreshold, Gaussian
from holdtrue.testing import SeededBits, drawing_from

CASES = 2000
RANDOM = np.random.default_rng(141)
TRUTH = RANDOM.integers(0, 2, CASES)
LOOKS, YES, SHARE = 100, 5, 0.01
NOISES = {"sparse vector": {"epsilon": 4}, "gaussian": {"epsilon": 4, "delta": 1e-6}}


def right(share, seed):
    return np.where(np.random.default_rng([seed, 141]).random(CASES) < share, TRUTH, 1 - TRUTH)


def open_gate(**terms):
    return Holdout(TRUTH, looks=LOOKS, yes=YES, private=True, incumbent=right(0.5, 0), **terms)


@pytest.mark.parametrize(
    ("cases", "epsilon", "sparse", "normal"),
    [
        (500, 4, 0.134, 0.089),
        (500, 8, 0.067, 0.049),
        (1200, 1, 0.223, 0.131),
        (1200, 4, 0.056, 0.037),
        (5000, 1, 0.053, 0.031),
        (5000, 4, 0.013, 0.009),
    ],
)
def test_v1_4_extra_margins_of_the_sheet(cases, epsilon, sparse, normal):
    mu = largest_float(lambda mu: gaussian_delta(mu, epsilon) <= 1e-6, 0.0, 100.0)
    assert sparse_margin(LOOKS, yes=YES, epsilon=epsilon, beta=SHARE) / cases == pytest.approx(sparse, abs=6e-4)
    assert gaussian_margin(LOOKS, mu=mu, beta=SHARE) / cases == pytest.approx(normal, abs=6e-4)
    found = plan_gate_noise(LOOKS, yes=YES, beta=SHARE, epsilon=float(epsilon), delta=1e-6)
    assert (found.rule, found.extra / cases) == ("gaussian", pytest.approx(normal, abs=6e-4 + 1 / cases))


def test_v1_4_the_smaller_margin_is_taken_by_public_numbers():
    few = plan_gate_noise(1000, yes=1, beta=SHARE, epsilon=1.0, delta=1e-6)
    assert (few.rule, few.extra) == ("sparse vector", 60)
    assert plan_gate_noise(LOOKS, yes=YES, beta=SHARE, epsilon=1.0, delta=None).rule == "sparse vector"
    shown = ht.plan_holdout(cases=500, looks=LOOKS, yes=YES, private=True, epsilon=4, delta=1e-6)
    assert shown["private gate"].alpha == pytest.approx(0.142 + 0.09, abs=3e-3)
    assert "private=True, epsilon=4, delta=1e-06" in shown["private gate"].opened


@pytest.mark.parametrize("terms", [{}, {"epsilon": 4}, {"epsilon": 4, "delta": 1e-6}])
def test_the_width_of_a_private_gate_is_at_its_own_privacy(terms):
    with ht.Holdout(np.arange(1200) % 5 == 0, looks=LOOKS, yes=YES, private=True, **terms) as gate:
        needed = int(re.search(r"([\d,]+) cases would give ±0.03", gate.width)[1].replace(",", ""))
    widths = [
        ht.plan_holdout(cases=cases, looks=LOOKS, yes=YES, private=True, **terms)["private gate"].alpha
        for cases in (needed, needed * 9 // 10)
    ]
    assert widths[0] <= 0.03 < widths[1]


def test_v1_4_wins_minus_wins_needed_move_by_at_most_one_with_a_case():
    for level in depth_levels(LOOKS, yes=YES, beta=0.04):
        table = wins_table(400, level=level)
        assert set(np.diff(table)) <= {0, 1}
        assert [int(table[number]) for number in range(400)] == [wins_needed(number, level=level) for number in range(400)]
    # The control: with gains, wins minus losses, a case that is lost in place of won counts twice.
    assert (30 - 20) - (29 - 21) == 2


@pytest.mark.parametrize("planned", [None, 0.5])
@pytest.mark.parametrize("margin", [0.0, 0.1, -0.2])
def test_v1_4_by_how_many_cases_a_bet_is_safe_moves_by_at_most_one_with_a_case(margin, planned):
    random, level = np.random.default_rng([7, int(100 * margin) % 97]), 6.0
    signs = set()
    for turn in range(60):
        values = random.choice([-1, 0, 1], 60, p=[0.1, 0.6, 0.3]) * VALUE_UNIT
        if turn % 2:
            values = random.integers(-VALUE_UNIT // 4, VALUE_UNIT + 1, 60)
        found = bet_surplus(values, level=level, margin=margin, planned=planned)
        signs.add(found > 0)
        if found > 0:
            assert betting_tail(values / VALUE_UNIT, margin=margin, planned=planned) <= -level
        for _ in range(4):
            near = values.copy()
            near[random.integers(60)] = random.integers(-VALUE_UNIT, VALUE_UNIT + 1)
            assert abs(bet_surplus(near, level=level, margin=margin, planned=planned) - found) <= 1
        # Replacing as many of the largest ones by losses makes it a no, and one fewer does not.
        worst = np.sort(values)[::-1]
        if found > 0:
            for count, safe in ((found - 1, True), (found, False)):
                moved = np.concatenate([np.full(count, -VALUE_UNIT), worst[count:]])
                assert (bet_surplus(moved, level=level, margin=margin, planned=planned) > 0) is safe
    assert signs == {True, False}


def most_noise(rule, extra, cost, gates, name):
    """Return in how many gates some noise adds more than the extra: a yes where the proof is short by that much."""
    bits, false = SeededBits(name), 0
    for _ in range(gates):
        if rule == "gaussian":
            mechanism = drawing_from(Gaussian(sigma=1 / math.sqrt(cost * 1e-15)), bits)
            false += bool((np.asarray(mechanism.release(np.zeros(LOOKS, dtype=int))) > extra).any())
        else:
            above = drawing_from(AboveThreshold(epsilon=cost / 10**15, threshold=1 + extra), bits)
            runs = [above.release(np.zeros(LOOKS // YES, dtype=int)) for _ in range(YES)]
            false += any(run is not None for run in runs)
    return false


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_v1_4_no_noise_of_a_gate_passes_the_extra_margin_but_with_its_share_of_beta(request, delta):
    """A look without proof has a surplus of 0: it is a yes in at most p of all gates. A quarter of the margin is refuted."""
    noise, gates = plan_gate_noise(LOOKS, yes=YES, beta=SHARE, epsilon=1.0, delta=delta), 600
    assert most_noise(noise.rule, noise.extra, noise.cost, gates, request.node.name) <= 22  # Pr[Bin(600, .01) > 22] < 1e-6
    assert most_noise(noise.rule, noise.extra // 4, noise.cost, gates // 4, request.node.name) > 22


@pytest.mark.parametrize("noise", NOISES)
def test_v1_4_a_private_gate_tells_yes_and_no_and_never_a_number(tmp_path, noise):
    path = tmp_path / "a.ledger"
    with open_gate(**NOISES[noise], ledger=path) as gate:
        assert gate.facts.noise == noise
        no, yes = gate.gate(right(0.5, 1)), gate.gate(right(0.8, 2))
        assert (no.yes, yes.yes, yes.private) == (False, True, True)
        assert "; private; 98 looks and 4 yes left" in str(yes)
        assert gate.gate(right(0.8, 2)).repeated
        assert yes.certificate.epsilon == pytest.approx(4)
        assert "V1.4" in yes.certificate.theorem
        assert yes.level < no.level * 1.01  # levels have four fifths of beta
        assert no.level == pytest.approx(math.exp(-depth_levels(LOOKS, yes=YES, beta=0.04)[0]))
        with pytest.raises(ht.RefusedError, match="yes and no only"):
            gate.certify()
        with pytest.raises(ht.InvalidParameter, match="the incumbent itself"):
            gate.gate(right(0.8, 2), margin=0.1)
    with Holdout(TRUTH, ledger=path) as again:
        assert again.gate(right(0.95, 3)).yes
        told = [entry.body for entry in again.ledger.entries() if entry.kind == "response"]
    assert all('"value"' not in body for body in told)
    assert ht.verify(path)
    assert ht.audit_ledger(path).breaches == ()


@pytest.mark.parametrize("noise", NOISES)
def test_v1_4_every_look_or_run_is_charged_within_the_cap(noise):
    with open_gate(**NOISES[noise]) as gate:
        said = [gate.gate(right(0.5, 10 + number)) for number in range(5)]
        costs = [verdict.certificate.cost for verdict in said]
        if noise == "gaussian":
            assert costs == [costs[0]] * 5
            assert costs[0] * LOOKS == pytest.approx(gate.plan.cap**2)
            assert float(said[0].certificate.event.mu) ** 2 <= costs[0] * (1 + 1e-12)
        else:
            assert costs == [pytest.approx(4 / YES), 0, 0, 0, 0]
            assert gate.plan.cap == pytest.approx(4)


@pytest.mark.parametrize("noise", NOISES)
def test_v1_4_a_yes_whose_submission_cannot_be_kept_is_told_by_the_one_draw_that_was_paid_for(tmp_path, noise):
    """An error that only a yes can have would tell of every draw under one charge, again and again."""
    path, kept = tmp_path / "a.ledger", tmp_path / "a.ledger.submissions"
    with open_gate(**NOISES[noise], ledger=path) as gate:
        shutil.rmtree(kept)
        kept.write_text("no folder can be made here")
        assert gate.gate(right(0.8, 2)).yes
        assert gate.gate(right(0.8, 2)).repeated
        assert not gate.gate(right(0.5, 1)).yes  # this process knows the incumbent
    with Holdout(TRUTH, ledger=path) as again, pytest.raises(ht.HoldtrueError, match="cannot be read or written now"):
        again.gate(right(0.95, 3))
    kept.unlink()
    with Holdout(TRUTH, ledger=path, incumbent=right(0.8, 2)) as again:
        assert again.gate(right(0.95, 3)).yes
    assert ht.verify(path)


def test_v1_4_a_gate_whose_noise_drowns_every_yes_is_refused():
    with pytest.raises(ht.InsufficientSamples, match="100 cases are too few for a private gate at epsilon 1"):
        Holdout(TRUTH[:100], looks=LOOKS, yes=YES, private=True)
    with pytest.raises(ht.InvalidParameter, match="tells"):
        open_gate(epsilon=4, tells="bounds")


def test_v1_4_results_and_clusters_are_compared_by_bets():
    clusters = np.repeat(np.arange(CASES // 4), 4)
    start, better = RANDOM.random(CASES) * 0.5, 0.5 + RANDOM.random(CASES) * 0.5
    given = {"looks": 20, "yes": 2, "private": True, "epsilon": 8, "delta": 1e-6, "metric": "cases", "incumbent": start}
    for more in ({}, {"cluster": clusters}):
        with Holdout(np.ones(CASES), ids=np.arange(CASES), **given, **more) as gate:
            assert not gate.gate(cases=RANDOM.permutation(start), name="shuffled")
            assert gate.gate(cases=better, name="better", margin=0.1)


def false_yes(gates, extra_of, name):
    """Return in how many private gates coins had a yes: 60 guesses of labels that are coins, each of them no better."""
    random, false = np.random.default_rng([len(name), 3]), 0
    level, number = depth_levels(60, yes=3, beta=0.04)[0], 300
    table, noise = wins_table(number, level=level), plan_gate_noise(60, yes=3, beta=SHARE, epsilon=8.0, delta=1e-6)
    mechanism = drawing_from(Gaussian(sigma=1 / math.sqrt(noise.cost * 1e-15)), SeededBits(name))
    for _ in range(gates):
        differing = random.binomial(number, 0.5, 60)
        wins = random.binomial(differing, 0.5)
        surplus = wins - table[differing] + 1
        false += bool((np.asarray(mechanism.release(surplus)) > extra_of(noise)).any())
    return false


def test_v1_4_coins_have_a_yes_in_at_most_beta_of_all_gates(request):
    """And the control: a noisy count that is compared with the exact threshold alone."""
    assert false_yes(1500, lambda noise: noise.extra, request.node.name) <= 75
    assert false_yes(300, lambda _noise: -25, request.node.name) > 30


def learn(data, count, *, fault, bits):
    """Return so many answers of one Gaussian comparison about wins and differing cases."""
    wins, losses = data
    surplus = wins - int(wins_table(200, level=6.0)[wins + losses]) + 1
    if fault:
        surplus = wins - losses - 10
    mechanism = drawing_from(Gaussian(mu=1), bits)
    return (np.asarray(mechanism.release(np.full(count, surplus))) > 0).astype(int)


@pytest.mark.parametrize("fault", [False, True])
def test_v1_4_a_gain_in_place_of_wins_is_found_to_be_less_private_than_charged(request, fault):
    """Neighbours: one case that is won, or lost. Wins minus losses move by two; the audit finds it, and not ours."""
    left, right_ = (30, 20), (29, 21)
    bits = SeededBits(request.node.name)
    delta = gaussian_delta(1.0, 0.5)
    found = ht.audit_privacy(
        lambda data, count: learn(data, count, fault=fault, bits=bits),
        left,
        right_,
        epsilon=0.5,
        delta=delta,
        samples=40_000,
        confidence=0.999,
    )
    assert found.violated is fault


@pytest.fixture(scope="module")
def charged(tmp_path_factory):
    path = tmp_path_factory.mktemp("charged") / "gate.ledger"
    with open_gate(**NOISES["gaussian"], ledger=path) as gate:
        gate.gate(right(0.5, 1))
        gate.gate(right(0.8, 2))
    return path


def test_v1_4_a_gaussian_look_at_half_its_price_is_found(charged, tmp_path):
    path = shutil.copy(charged, tmp_path / "copy.ledger")
    number = next(line["number"] for line in lines_of(path) if line["verb"] == "gate" and line["kind"] == "charge")
    rewrite(path, number)
    assert ht.audit_ledger(path)
    cost = next(line["cost"] for line in lines_of(path) if line["number"] == number)
    rewrite(path, number, cost=cost // 2)
    assert any(breach.rule == "cost" for breach in ht.audit_ledger(path).breaches)


def test_v1_4_old_private_gates_are_answered_as_they_always_were(tmp_path):
    path = tmp_path / "old.ledger"
    open_releasing(np.tile(TRUTH, 20), looks=50, yes=3, ledger=path).close()
    with Holdout(np.tile(TRUTH, 20), ledger=path) as gate:
        yes = gate.gate(np.tile(right(0.9, 1), 20), margin=0.3)
        assert yes.yes
        assert yes.interval.high - yes.interval.low < 0.5  # the score was released with the yes
        body = [entry.body for entry in gate.ledger.entries() if entry.kind == "response"][-1]
        assert "value" in json.loads(body)[0]


def test_a_look_that_can_be_no_yes_is_a_no_that_costs_nothing(tmp_path):
    """By public numbers alone: five cases differ, and five wins are no proof."""
    start = right(0.5, 0)
    few = np.concatenate([1 - start[:5], start[5:]])
    for terms in ({}, {"private": True, "epsilon": 4}, {"private": True, "epsilon": 4, "delta": 1e-6}):
        path = tmp_path / f"{len(terms)}.ledger"
        with Holdout(TRUTH, looks=LOOKS, yes=YES, incumbent=start, ledger=path, **terms) as gate:
            said = gate.gate(few)
            assert (said.yes, said.looks_left, said.yes_left, said.certificate.cost) == (False, LOOKS, YES, 0)
            assert said.free
            assert "not even winning all 5 cases" in said.claim
            assert gate.gate(few).repeated
            charged = gate.gate(right(0.9, 1))
            assert (charged.looks_left, charged.free) == (LOOKS - 1, False)
            gate.close()
        assert ht.audit_ledger(path).breaches == ()
        shutil.rmtree(tmp_path / "holdtrue.gates")
