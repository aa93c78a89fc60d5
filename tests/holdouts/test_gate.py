"""The gate: yes or no, few yes, nothing else; counted, or private."""

import math
import stat
from itertools import product

import numpy as np
import pytest

import holdtrue as ht
from holdouts.old_gates import open_releasing
from holdtrue.bounds.gate_levels import depth_level
from holdtrue.bounds.transcripts import gate_alpha, gate_cells, gate_gain, gate_interval, gate_level, gate_transcripts
from holdtrue.events import NonPrivate
from holdtrue.holdouts import Holdout

RANDOM = np.random.default_rng(11)
TRUTH = RANDOM.integers(0, 2, 2000)


def with_error(rate):
    return np.where(RANDOM.random(2000) < rate, 1 - TRUTH, TRUTH)


def test_the_width_of_five_thousand_cases():
    assert gate_alpha(5000, looks=200, yes=10, beta=0.05) == pytest.approx(0.068, abs=5e-4)


@pytest.mark.parametrize(("looks", "yes"), [(1, 1), (4, 1), (4, 2), (6, 3), (7, 7)])
def test_transcripts_are_counted_and_pay_for_every_statement(looks, yes):
    """Enumerated: histories before each look, in which the gate is still open, are N - 1; statements at most k N."""
    whole = [told for told in product((0, 1), repeat=looks) if sum(told) <= yes]
    assert gate_transcripts(looks, yes=yes) == len(whole)
    places = {told[:t] for told in product((0, 1), repeat=looks) for t in range(looks) if sum(told[:t]) < yes}
    assert len(places) == len(whole) - 1
    assert 1 + 2 * gate_cells(looks) * len(places) <= max(2, looks) * len(whole)


def test_intervals_of_a_gate_are_never_wider_than_its_width():
    width = gate_alpha(1000, looks=50, yes=5, beta=0.05)
    for mean in (0.0, 0.01, 0.3, 0.5, 0.97, 1.0):
        low, high = gate_interval(mean, mean, cases=1000, looks=50, yes=5, beta=0.05)
        assert mean - width - 1e-9 <= low <= mean <= high <= mean + width + 1e-9
    assert gate_gain(1000, cases=1000, looks=50, yes=5, beta=0.05) == pytest.approx(2 * width)
    assert gate_gain(10, cases=1000, looks=50, yes=5, beta=0.05) == pytest.approx(0.2 * width)


def test_a_yes_makes_the_incumbent_and_only_yes_and_no_are_told():
    start, better, worse = with_error(0.4), with_error(0.2), with_error(0.3)
    with Holdout(TRUTH, looks=50, yes=3, incumbent=start) as holdout:
        assert (start == TRUTH).mean() in holdout.incumbent
        first = holdout.gate(better, margin=0.1)
        assert first
        assert (first.looks_left, first.yes_left) == (49, 2)
        assert (first.interval.low, first.interval.high) == (0.1, 1.0)
        assert (first.gain.low, first.gain.high) == (0.1, 1.0)
        assert first.claim.startswith("better than the incumbent by more than 0.1, for these cases")
        assert first.level == pytest.approx(math.exp(-depth_level(50, yes=3, beta=0.05)))
        second = holdout.gate(worse)
        assert not second
        assert (second.looks_left, second.yes_left) == (48, 2)
        assert second.claim.startswith("this candidate is not told apart from the incumbent")
        assert second.level == pytest.approx(math.exp(-depth_level(50, yes=3, beta=0.05, after=1)))
        assert (second.gain.low, second.gain.high) == (-1.0, 1.0)
        assert holdout.gate(worse).repeated
        assert holdout.looks_left == 48
        assert "not private" in str(second)
        assert isinstance(second.certificate.event, NonPrivate)
        assert second.certificate.delta == 1
        with pytest.raises(ht.InvalidParameter, match="incumbent itself"):
            holdout.gate(better)
        with pytest.raises(ht.RefusedError, match="is a gate"):
            holdout.score(better)
        with pytest.raises(ht.RefusedError, match="does not compare"):
            holdout.compare(better, worse)
        final = holdout.certify()
        assert final.value == pytest.approx((better == TRUTH).mean())
        assert final.looks_left == 0
        with pytest.raises(ht.RefusedError, match="closed"):
            holdout.gate(with_error(0.1))


def test_without_an_incumbent_the_first_gate_compares_with_nothing():
    with Holdout(TRUTH, looks=50, yes=3) as holdout:
        with pytest.raises(ht.RefusedError, match="no incumbent"):
            holdout.certify()
        assert not holdout.gate(with_error(0.3), margin=0.9)
        said = holdout.gate(with_error(0.2), margin=0.7)
        assert said
        assert said.gain is None
        assert said.interval.low == 0.7
        assert said.claim.startswith("a score above 0.7")


def test_the_gate_closes_with_its_last_yes():
    with Holdout(TRUTH, looks=50, yes=2) as holdout:
        assert holdout.gate(with_error(0.4))
        assert holdout.gate(with_error(0.2))
        assert holdout.looks_left == 0
        with pytest.raises(ht.BudgetExceeded, match="yes"):
            holdout.gate(with_error(0.1))


def test_a_gate_is_not_asked_of_a_scoring_holdout():
    with Holdout(TRUTH, looks=5) as holdout, pytest.raises(ht.RefusedError, match="full scores"):
        holdout.gate(TRUTH)
    with pytest.raises(ht.RefusedError, match="full scores"):
        Holdout(TRUTH, looks=5, incumbent=TRUTH)


def test_a_gate_that_is_opened_again_knows_its_incumbent(tmp_path):
    path, better, best = tmp_path / "gate.ledger", with_error(0.3), with_error(0.1)
    with Holdout(TRUTH, looks=50, yes=3, incumbent=with_error(0.4), ledger=path) as holdout:
        assert holdout.gate(better)
    with pytest.raises(ht.InvalidParameter, match="the submission that last had a yes"):
        Holdout(TRUTH, ledger=path, incumbent=best)
    with Holdout(TRUTH, ledger=path) as holdout:
        assert holdout.looks_left == 49
        said = holdout.gate(best)
        assert (said.yes, said.looks_left, said.yes_left) == (True, 48, 1)
    with Holdout(TRUTH, ledger=path, incumbent=better) as holdout:  # an earlier incumbent is no reason to stop
        assert holdout.leading == holdout.named(best)
    assert ht.verify(path)


def test_a_gate_that_lost_its_incumbent_wants_it_again(tmp_path):
    path, better, best = tmp_path / "gate.ledger", with_error(0.3), with_error(0.1)
    with Holdout(TRUTH, looks=50, yes=3, incumbent=with_error(0.4), ledger=path) as holdout:
        assert holdout.gate(better)
    kept = list((tmp_path / "gate.ledger.submissions").iterdir())
    assert len(kept) == 2  # the incumbent, and the first one, over which a gain may be certified
    for each in kept:
        each.unlink()
    with Holdout(TRUTH, ledger=path) as holdout, pytest.raises(ht.RefusedError, match="not kept here"):
        holdout.gate(best)
    with Holdout(TRUTH, ledger=path, incumbent=better) as holdout:
        assert holdout.gate(best)


def test_what_a_gate_keeps_is_its_owners_alone_and_sealed(tmp_path):
    path, better, best = tmp_path / "gate.ledger", with_error(0.3), with_error(0.1)
    with Holdout(TRUTH, looks=50, yes=3, incumbent=with_error(0.4), ledger=path) as holdout:
        assert holdout.gate(better)
    folder = tmp_path / "gate.ledger.submissions"
    for kept in folder.iterdir():
        assert (stat.S_IMODE(folder.stat().st_mode), stat.S_IMODE(kept.stat().st_mode)) == (0o700, 0o600)
        changed = bytearray(kept.read_bytes())
        changed[-1] ^= 1
        kept.write_bytes(bytes(changed))
    with Holdout(TRUTH, ledger=path) as holdout, pytest.raises(ht.IntegrityError, match="not written under it"):
        holdout.gate(best)


def test_results_of_cases_can_go_through_a_gate():
    with Holdout(np.ones(2000), looks=10, yes=2, metric="cases", incumbent=(RANDOM.random(2000) < 0.5)) as holdout:
        assert holdout.gate(cases=RANDOM.random(2000) < 0.8, margin=0.2)
        with pytest.raises(ht.InvalidParameter, match="cases"):
            holdout.gate(np.ones(2000))


def test_a_charge_without_an_answer_counts_as_a_yes(monkeypatch):
    """What a crash may have said nobody knows: it must not leave a yes to spare."""
    with Holdout(TRUTH, looks=50, yes=1) as holdout:
        monkeypatch.setattr("holdtrue.holdouts.gating.Prediction", lambda *_: 1 / 0)  # charged, and never answered
        with pytest.raises(ZeroDivisionError):
            holdout.gate(with_error(0.1))
        monkeypatch.undo()
        with pytest.raises(ht.BudgetExceeded, match="yes"):
            holdout.gate(with_error(0.2))


def test_a_private_gate_of_an_old_ledger_is_paid_by_the_run_and_tells_a_noisy_score(tmp_path):
    truth = np.random.default_rng(1).integers(0, 2, 60_000)
    good = np.where(np.random.default_rng(2).random(60_000) < 0.1, 1 - truth, truth)
    coins = np.random.default_rng(3).integers(0, 2, (4, 60_000))
    path = tmp_path / "old.ledger"
    open_releasing(truth, looks=50, yes=2, ledger=path).close()
    with Holdout(truth, ledger=path) as holdout:
        said = [holdout.gate(row, margin=0.7) for row in coins]
        assert not any(said)
        spent = [verdict.certificate.spent for verdict in said]
        assert spent[0] > 0
        assert spent == [spent[0]] * 4  # silent answers of a run cost nothing more
        yes = holdout.gate(good, margin=0.6)
        assert yes
        assert yes.private
        assert 0.9 in yes.interval
        assert yes.certificate.spent == spent[0]
        assert holdout.gate(coins[0]).certificate.spent == pytest.approx(2 * spent[0])
        assert holdout.plan.epsilon == pytest.approx(2 * spent[0])
        with pytest.raises(ht.RefusedError, match="told its incumbent"):
            holdout.certify()
    assert ht.audit_ledger(path).breaches == ()
    with pytest.raises(ht.InvalidParameter, match="private gate"):
        Holdout(truth, ledger=path, incumbent=good)


def test_long_gates_are_planned_without_counting_their_transcripts(monkeypatch):
    """The bound in logarithms is a little above the exact level; a control that drops the smaller terms is below it."""
    from holdtrue.bounds import transcripts

    for looks, yes in ((200, 10), (2_000, 300), (2_000, 900), (500, 499)):
        exact = gate_level(looks, yes=yes, beta=0.05)
        place = {"look": looks, "after": yes - 1}
        exact_place = gate_level(looks, yes=yes, beta=0.05, **place)
        with monkeypatch.context() as patch:
            patch.setattr(transcripts, "_MOST_COUNTED", 0)
            transcripts._log_statements.cache_clear()
            assert exact <= gate_level(looks, yes=yes, beta=0.05) <= exact + 1
            assert exact_place <= gate_level(looks, yes=yes, beta=0.05, **place) <= exact_place + 1
            last = math.log(4 * looks / 2) + transcripts.log_choose(looks, yes) - math.log(0.05)
            assert last < exact
        transcripts._log_statements.cache_clear()
    assert gate_alpha(1_000, looks=10**6, yes=50_000, beta=0.05) > 1  # says nothing, and says so at once
