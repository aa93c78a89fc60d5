"""Answers that tell little: THEORY T9, T11, T12."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from holdtrue.bounds.transcripts import (
    check_cells,
    check_width,
    guess_and_check_alpha,
    guess_and_check_level,
    ladder_alpha,
    ladder_transcripts,
    log_choose,
    rounding_alpha,
    rounding_rows,
    splitting_alpha,
    splitting_rows,
)
from holdtrue.errors import InsufficientSamples, InvalidParameter


@pytest.mark.parametrize(
    ("queries", "split", "rounded"),
    [
        (1, 185, 188),
        (3, 720, 708),
        (10, 3000, 2402),
        (14, 4438, 3367),
        (30, 10_650, 7221),
        (100, 41_500, 24_078),
        (1000, 530_000, 240_803),
        (10_000, 6_450_000, 2_408_051),
    ],
)
def test_t9_sizes(queries, split, rounded):
    assert splitting_rows(0.1, queries=queries, beta=0.05) == split
    assert rounding_rows(0.1, queries=queries, beta=0.05) == rounded
    assert splitting_alpha(split, queries=queries, beta=0.05) <= 0.1
    assert rounding_alpha(rounded, queries=queries, beta=0.05) <= 0.1
    assert rounding_alpha(rounded - rounded // 50, queries=queries, beta=0.05) > 0.1


def test_t9_parts_fit_into_the_rows():
    rows, queries = 1003, 17
    assert (rows // queries) * queries <= rows
    assert splitting_alpha(rows, queries=queries, beta=0.05) == pytest.approx(math.sqrt(math.log(680) / (2 * 59)))
    with pytest.raises(InsufficientSamples) as caught:
        splitting_alpha(16, queries=17, beta=0.05)
    assert caught.value.required == 17


def test_t9_rounding_counts_every_query_an_analyst_can_reach():
    for cells, queries in ((2, 3), (5, 4), (3, 1)):
        reached = sum(cells**asked for asked in range(queries))
        assert reached == (cells**queries - 1) // (cells - 1)


def test_t9_rounding_of_very_narrow_answers_and_of_few_rows():
    assert rounding_rows(1e-5, queries=5, beta=0.05) > 1e10
    assert rounding_alpha(1, queries=10**6, beta=0.05) > 1


def test_t11_numbers():
    assert ladder_alpha(10**4, submissions=10**4, beta=0.05) == pytest.approx(0.1366, abs=1e-3)
    assert ladder_alpha(10**6, submissions=10**4, beta=0.05) == pytest.approx(0.0265, abs=1e-3)
    assert ladder_alpha(10**4, submissions=10**4, beta=0.05, step=0.05) >= ladder_alpha(10**4, submissions=10**4, beta=0.05)


@pytest.mark.parametrize("submissions", [1, 2, 3, 4, 5])
def test_t11_transcripts_are_no_more_than_counted(submissions):
    step, seen = 0.25, set()
    for scores in itertools.product([place / 8 for place in range(9)], repeat=submissions):
        best, shown = math.inf, []
        for score in scores:
            if score < best - step or best == math.inf:
                best = math.floor(score / step + 0.5) * step
            shown.append(best)
        seen.add(tuple(shown))
    limit = math.exp(ladder_transcripts(submissions, step=step))
    assert limit == pytest.approx(math.comb(submissions + 5, submissions))
    assert len(seen) <= limit


@pytest.mark.parametrize(("failures", "rows"), [(0, 3700), (5, 14_277), (50, 83_526)])
def test_t12_sizes(failures, rows):
    """The recorded sizes count C(i, f) orders of failures where C(i - 1, f) are enough."""
    ours = guess_and_check_level(0.05, query=1000, cells=[50] * failures)
    recorded = ours + math.log(1000 / (1000 - failures))
    assert math.ceil((math.log(2) + recorded) / (2 * 0.05**2)) == rows
    assert check_width(rows, query=1000, beta=0.05, cells=(50,) * failures) <= 0.05
    assert check_width(rows - 12, query=1000, beta=0.05, cells=(50,) * failures) > 0.05


def test_t12_levels_sum_to_beta():
    def total(query, cells, last):
        here = math.exp(-guess_and_check_level(0.05, query=query, cells=cells))
        if query == last:
            return here
        # Either the guess passes, or one of three cells is answered.
        return here + total(query + 1, cells, last) + 3 * total(query + 1, (*cells, 3), last)

    for last in (1, 2, 3, 4):
        assert total(1, (), last) <= 0.05


@pytest.mark.parametrize(
    "call",
    [
        lambda: ladder_alpha(10, submissions=3, beta=0.05, step=1),
        lambda: ladder_transcripts(3, step=0),
        lambda: splitting_rows(0, queries=3, beta=0.05),
        lambda: rounding_rows(0.1, queries=0, beta=0.05),
        lambda: check_width(10, query=0, beta=0.05),
    ],
)
def test_bad_numbers_are_refused(call):
    with pytest.raises(InvalidParameter):
        call()


@pytest.mark.parametrize(("method", "split", "rounded"), [("joint-gaussian", 8, 12), ("transfer-gaussian", 10, 17)])
def test_t9_crossover_with_rounding_and_splitting(method, split, rounded):
    """From how many queries on private answers need fewer rows than splitting, and than rounding (N1, S1)."""
    from holdtrue.planning.asking import plan

    ours = {
        queries: plan(queries=queries, alpha=0.1, method=method).rows
        for queries in sorted((split - 1, split, rounded - 1, rounded))
    }
    assert ours[split - 1] > splitting_rows(0.1, queries=split - 1, beta=0.05)
    assert ours[split] < splitting_rows(0.1, queries=split, beta=0.05)
    assert ours[rounded - 1] > rounding_rows(0.1, queries=rounded - 1, beta=0.05)
    assert ours[rounded] < rounding_rows(0.1, queries=rounded, beta=0.05)
    assert np.all(np.diff(list(ours.values())) > 0)


@pytest.mark.parametrize("number", [1, 7, 150, 10**4, 10**12, 2**64, 10**30])
@pytest.mark.parametrize("chosen", [0, 1, 3, 99, 101, 400])
def test_logarithms_of_choices_are_rounded_up(number, chosen):
    """Differences of lgamma alone lose everything that the numbers have in common: ln C(2^64, 3) came out as 0."""
    least = min(chosen, number)
    with mpmath.workdps(60):
        exact = mpmath.log(mpmath.binomial(number, least))
        assert exact <= log_choose(number, least)
        if number <= 10**12:
            assert log_choose(number, least) <= exact * (1 + 1e-6) + number * mpmath.mpf(2) ** -30


def test_a_ladder_of_very_many_submissions_is_wide_and_no_error():
    widths = [ladder_alpha(10_000, submissions=submissions, beta=0.05) for submissions in (10**3, 10**9, 2**64)]
    assert widths == sorted(widths)


def test_a_tolerance_for_any_number_of_overfits_is_found_or_given_up_soon():
    """Each failure has its own number of cells; beyond 2^14 failures nothing is planned."""
    cells = ()
    tolerance = guess_and_check_alpha(20_000, queries=500, overfits=30, beta=0.05)
    for _ in range(30):
        cells = (*cells, check_cells(20_000, tolerance=tolerance, query=500, beta=0.05, cells=cells))
    assert check_width(20_000, query=500, beta=0.05, cells=cells) <= tolerance / 2
    assert guess_and_check_alpha(10**9, queries=10**6, overfits=50_000, beta=0.05) == 1
