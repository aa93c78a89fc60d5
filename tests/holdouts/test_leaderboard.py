"""Leaderboards: the ladder tells little, the private one tells with noise; ties are ties."""

from itertools import product
from math import comb

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.bounds.transcripts import ladder_alpha
from holdtrue.holdouts import Leaderboard
from holdtrue.holdouts.ladders import best_step
from laws import generator

RANDOM = np.random.default_rng(23)
TRUTH = RANDOM.integers(0, 2, 4000)


def with_error(rate):
    return np.where(RANDOM.random(4000) < rate, 1 - TRUTH, TRUTH)


def test_the_ladder_tells_the_best_so_far_and_only_when_it_improves_by_a_step():
    with Leaderboard(TRUTH, submissions=50, step=0.05) as board:
        told = [board.submit(f"team {rate}", with_error(rate)) for rate in (0.5, 0.3, 0.31, 0.28, 0.1)]
        assert [round(score.value, 2) for score in told] == [0.5, 0.7, 0.7, 0.7, 0.9]
        assert all("not private" in str(score) for score in told)
        assert told[-1].certificate.delta == 1
        assert board.left == 45
        lines = board.standings()
        assert [line.name for line in lines] == ["team 0.1", "team 0.3", "team 0.5", "team 0.28", "team 0.31"]
        assert [line.rank for line in lines] == [1, 2, 3, 4, 4]
        assert [line.tied for line in lines] == [False, False, False, True, True]
        assert "not shown better" in str(lines[-1])
        assert board.plan.alpha == pytest.approx(ladder_alpha(4000, submissions=50, beta=0.05, step=0.05), abs=1e-5)


def test_the_best_step_is_that_of_the_bound():
    step, alpha = best_step(4000, submissions=400, beta=0.05)
    assert alpha == pytest.approx(ladder_alpha(4000, submissions=400, beta=0.05), rel=0.01)
    assert alpha == ladder_alpha(4000, submissions=400, beta=0.05, step=step)


def test_transcripts_of_the_rule_number_no_more_than_are_paid_for():
    """The rule on every sequence of losses from a fine grid, k = 4 and step 0.25: distinct transcripts are at most N."""
    from fractions import Fraction

    step, seen = Fraction(1, 4), set()
    for losses in product([Fraction(j, 12) for j in range(13)], repeat=4):
        level, told = None, []
        for loss in losses:
            if level is None or loss < (level - 1) * step:
                level = round(loss / step)
            told.append(level)
        seen.add(tuple(told))
    assert len(seen) <= comb(4 + 4 + 1, 4)


def test_private_scores_tie_where_intervals_overlap():
    truth = RANDOM.integers(0, 2, 60_000)

    def far(rate):
        return np.where(RANDOM.random(60_000) < rate, 1 - truth, truth)

    with Leaderboard(truth, submissions=10, rule="private") as board:
        for name, rate in (("a", 0.1), ("b", 0.11), ("c", 0.5)):
            assert board.submit(name, far(rate)).private
        lines = {line.name: line for line in board.standings()}
        assert lines["a"].rank == lines["b"].rank == 1
        assert lines["a"].tied
        assert lines["c"].rank == 3
        assert not lines["c"].tied


def test_the_parameter_free_ladder_promises_no_interval():
    leader = with_error(0.3)
    with Leaderboard(TRUTH, submissions=20, rule="parameter-free ladder") as board:
        assert board.submit("a", leader).interval is None
        assert board.submit("b", with_error(0.1)).value > 0.85
        assert "no interval" in str(board.submit("c", with_error(0.4)))
        assert [line.name for line in board.standings()] == ["b", "a", "c"]


def test_boards_outlive_their_process(tmp_path):
    path, leader = tmp_path / "board.ledger", with_error(0.2)
    for rule in ("ladder", "parameter-free ladder", "private"):
        where = path.with_suffix(f".{rule[:2]}")
        with Leaderboard(TRUTH, submissions=5, rule=rule, ledger=where) as board:
            board.submit("a", leader)
        with Leaderboard(TRUTH, ledger=where) as board:
            assert board.left == 4
            assert [line.name for line in board.standings()] == ["a"]
            if rule.startswith("parameter"):
                with pytest.raises(ht.RefusedError, match="submit the leader"):
                    board.submit("b", with_error(0.1))
            assert board.submit("a", leader).repeated
            board.submit("b", with_error(0.1))
            assert board.left == 3
        assert ht.verify(where)


def test_submissions_are_used_up_and_bad_ones_refused():
    with Leaderboard(TRUTH, submissions=1) as board:
        with pytest.raises(ht.InvalidParameter, match="name"):
            board.submit("", TRUTH)
        with pytest.raises(ht.InvalidParameter, match="one per case"):
            board.submit("a", TRUTH[:-1])
        board.submit("a", TRUTH)
        with pytest.raises(ht.BudgetExceeded, match="look"):
            board.submit("a", 1 - TRUTH)
    for wrong in ({"rule": "best"}, {"epsilon": 1.0}, {"step": 2}, {"submissions": 0}):
        with pytest.raises(ht.InvalidParameter):
            Leaderboard(TRUTH, **{"submissions": 5} | wrong)


def boosted(random, cases, submissions, keep):
    """Submit coins, keep those the board seems to like, and let them vote."""
    rows = random.integers(0, 2, (submissions, cases))
    kept = rows[[keep(row) for row in rows]]
    return (2 * kept.sum(axis=0) >= len(kept)).astype(int)


def test_boosting_climbs_a_plain_leaderboard_and_not_the_ladder(request):
    random = generator(request)
    plain, ladder = [], []
    for _ in range(5):
        truth = random.integers(0, 2, 1000)
        vote = boosted(random, 1000, 200, lambda row, truth=truth: round(float((row != truth).mean()), 5) <= 0.5)
        plain.append((vote != truth).mean())
        with Leaderboard(truth, submissions=200) as board:
            best = [0.5]

            def improved(row, board=board, best=best):
                best.append(board.submit("attacker", row).value)
                return best[-1] > best[-2]

            vote = boosted(random, 1000, 200, improved)
        ladder.append((vote != truth).mean())
    assert np.mean(plain) < 0.42
    assert np.mean(ladder) > 0.46
