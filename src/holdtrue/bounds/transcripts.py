"""What answers that tell very little may promise: splitting, rounding, the gate, the ladder, guess-and-check (T9, T11, T12).

Whoever sees only a few short answers can reach only a limited number of queries or submissions, however chosen: one for each
place in the tree of possible transcripts. A bound for all of these at once holds for the one path that was taken. None of it
keeps a secret: validity only, never to be combined with a claim of privacy (:mod:`holdtrue.bounds.sparse_vector` has what
does). Rows or cases are independent, not necessarily alike; values lie in [0, 1].
"""

import math
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.accounting.closed_forms import golden, smallest
from holdtrue.bounds.accuracy import (
    binary_divergence,
    binomial_end,
    binomial_tail,
    chernoff_end,
    hoeffding_alpha,
    hoeffding_rows,
)
from holdtrue.errors import InsufficientSamples, InvalidParameter
from holdtrue.exact import (
    ROUNDING,
    STITCH,
    Number,
    count,
    floor_probability,
    probability,
    round_down,
    round_up,
    rows_at_least,
)

Floats: TypeAlias = npt.NDArray[np.float64]

# Cells are at least alpha/60 wide: finer ones gain less than two per cent, and only for a single query.
_FINEST = 60
_FINER = 0.01
_MOST_CELLS = 1 << 20
_LEAST_ROOM = 2.0**-20
_MOST_COUNTED = 1000  # yes: whole numbers of transcripts beyond that have a million digits
_MOST_CHOSEN = 100
_GAMMA_ERROR = 2.0**-40  # of math.lgamma, relative, many times over
_MOST_OVERFITS = 1 << 14
_TOLERANCES = 1 << 12


def splitting_rows(alpha: Number, *, queries: int, beta: Number) -> int:
    """Return rows for answering each of a number of adaptive queries on its own rows: Hoeffding's number for each (T9)."""
    return count("queries", queries) * hoeffding_rows(alpha, beta=beta, queries=queries)


def splitting_alpha(rows: int, *, queries: int, beta: Number) -> float:
    """Return the half-width when the rows are cut into one part of equal size for every query (T9)."""
    part = count("rows", rows) // count("queries", queries)
    if part < 1:
        message = f"splitting needs a row for every query: {queries} rows for {queries} queries, got {rows}"
        raise InsufficientSamples(message, required=queries)
    return hoeffding_alpha(part, beta=beta, queries=queries)


def rounding_rows(alpha: Number, *, queries: int, beta: Number) -> int:
    """Return rows for which all answers, each the middle of one of L equal cells of [0, 1], are within alpha w.p. 1 - beta.

    An analyst who sees nothing else can reach at most (L^k - 1)/(L - 1) queries in k steps, so Hoeffding's bound for that
    many holds for all: ln(2 (L^k - 1) / ((L - 1) beta)) / (2 (alpha - 1/(2 L))^2), least over whole L < 60/alpha (T9).
    """
    width = floor_probability("alpha", alpha)
    cells = _cell_numbers(math.floor(1 / (2 * width)) + 1, math.ceil(_FINEST / width) - 1)
    cells = cells[2 * cells * width > 1 + 2.0**-40]
    return rows_at_least(float((_description(cells, queries, beta) / (2 * (width - 1 / (2 * cells)) ** 2)).min()))


def rounding_alpha(rows: int, *, queries: int, beta: Number) -> float:
    """Return :func:`rounding_width`, least over whole L < 60/width (T9)."""
    cells = _cell_numbers(2, _MOST_CELLS)
    widths = _rounding_widths(cells, rows, queries, beta)
    return float(widths[widths * cells < _FINEST].min(initial=math.inf)) * ROUNDING


def _cell_numbers(least: int, most: int) -> Floats:
    """Return every number of cells in a range, or a fine selection where there are very many; any number is valid."""
    if most - least < 1 << 14:
        return np.arange(max(2, least), max(2, least, most) + 1, dtype=np.float64)
    return np.rint(np.geomspace(max(2, least), most, 1 << 14))


def rounding_width(cells: int, *, cases: int, looks: int, beta: Number, look: int | None = None) -> float:
    """Return 1/(2 L) + sqrt(ln(2 (L^k - 1) / ((L - 1) beta)) / (2 cases)): how far a score told in L cells may be (T9).

    With a ``look``, the smaller of two widths at half of beta each, which hold together: that, and the one of look t, which
    has L^(t - 1) histories before it and gets beta/k (S5).
    """
    number = np.array([count("cells", cells, least=2)], dtype=np.float64)
    if look is None:
        return float(_rounding_widths(number, cases, looks, beta)[0]) * ROUNDING
    half = probability("beta", beta) / 2
    level = (count("look", look, most=looks) - 1) * math.log(cells) + math.log(2 * looks) - math.log(half)
    here = 1 / (2 * cells) + math.sqrt(level / (2 * count("cases", cases)))
    return min(here, float(_rounding_widths(number, cases, looks, half)[0])) * ROUNDING


@lru_cache(maxsize=64)
def rounding_cells(cases: int, *, looks: int, beta: Number) -> int:
    """Return the number of cells that makes :func:`rounding_width` smallest, for whole numbers up to some 10^6 tried."""
    tried = np.concatenate([np.arange(2.0, 400.0), np.ceil(400 * np.exp(np.arange(800) * _FINER))])
    return int(tried[_rounding_widths(tried, cases, looks, beta).argmin()])


def _rounding_widths(cells: Floats, cases: int, looks: int, beta: Number) -> Floats:
    return 1 / (2 * cells) + np.sqrt(_description(cells, looks, beta) / (2 * count("cases", cases)))


def _description(cells: Floats, queries: int, beta: Number) -> Floats:
    """Return ln(2 (L^k - 1) / ((L - 1) beta)) for an array of L."""
    logs = count("queries", queries) * np.log(cells)
    reached: Floats = logs + np.log1p(-np.exp(-logs)) - np.log(cells - 1)
    return math.log(2) - math.log(probability("beta", beta)) + reached


def gate_transcripts(looks: int, *, yes: int) -> int:
    """Return N, the number of ways to answer this many looks with at most ``yes`` yes: sum_j C(looks, j)."""
    number, most = count("looks", looks), count("yes", yes)
    if most > number:
        raise InvalidParameter("yes", yes, f"at most the number of looks, {number}")
    total = ways = 1
    for j in range(1, most + 1):
        ways = ways * (number - j + 1) // j
        total += ways
    return total


def log_choose(number: int, chosen: int) -> float:
    """Return ln C(number, chosen), rounded up.

    Differences of lgamma lose what the numbers have in common, which is nearly all of them where few of very many are
    chosen: these are counted as whole numbers, and all others get what lgamma may be off by.
    """
    small = min(chosen, number - chosen)
    if small <= _MOST_CHOSEN:
        return math.log(math.comb(number, small)) * (1 + 2.0**-50)
    whole = math.lgamma(number + 1)
    return whole * (1 + _GAMMA_ERROR) - math.lgamma(small + 1) - math.lgamma(number - small + 1)


def gate_alpha(cases: int, *, looks: int, yes: int, beta: Number) -> float:
    """Return sqrt(ln(2 k N / beta) / (2 cases)): how far any submission's mean is from the truth, w.p. 1 - beta.

    k looks, N the transcripts. The gate closes with its last yes, so the tree has N - 1 places (the sum over t of the
    histories before look t). The factor k pays for telling, at the start, in which of k/2 equal cells the incumbent's
    score lies, and for a second statement at every place, about the difference to the incumbent. What is told after the
    last look costs nothing. Needs: an analyst who sees nothing else of these cases.
    """
    log = _log_statements(looks, yes) - math.log(probability("beta", beta))
    return math.sqrt(log / (2 * count("cases", cases))) * ROUNDING


def gate_cells(looks: int) -> int:
    """Return in how many equal cells the first incumbent's score is told: 1 + 2 L (N - 1) statements are at most k N."""
    return max(1, count("looks", looks) // 2)


@lru_cache(maxsize=64)
def _log_statements(looks: int, yes: int) -> float:
    """Return ln(2 k N), the logarithm of all statements on both sides; a little more where N is too long to be counted.

    A term of N is at most r = yes / (looks - yes + 1) times the next one, so N is at most the last one over 1 - r, and
    never more than 2^looks.
    """
    # With a single look there are three statements: on the incumbent, on the submission and on their difference.
    statements = 2 * max(2, count("looks", looks))
    if count("yes", yes) <= _MOST_COUNTED or yes > looks:
        return math.log(statements * gate_transcripts(looks, yes=yes))
    ratio = yes / (looks - yes + 1)
    last = log_choose(looks, yes) - math.log1p(-ratio) if ratio < 1 else math.inf
    return (math.log(statements) + min(last, looks * math.log(2))) * ROUNDING


def gate_level(looks: int, *, yes: int, beta: Number, look: int | None = None, after: int = 0) -> float:
    """Return ln(1/b), b the failure of one statement on one side, all of a gate's statements failing together with beta.

    Without a ``look``: ln(2 k N / beta), the same everywhere. With one, the smaller of two levels at half of beta each,
    which hold together: that, and the level of a place in the tree, look t ``after`` j yes, in the order of the responses.
    Such a place has C(t - 1, j) histories, each with 4 L statements (two sides of a mean and of a difference, for each of
    the L cells in which the first incumbent may have been told), and gets beta c_t c_(j + 1), c_i = 6 / (pi^2 i^2) (S5).
    """
    share = math.log(probability("beta", beta))
    if look is None:
        return _log_statements(looks, yes) - share
    place, before = count("look", look, most=looks), count("after", after, least=0, most=look - 1)
    statements = 4 * gate_cells(looks) * (place * (before + 1)) ** 2
    if before <= _MOST_COUNTED:
        here = math.log(statements * math.comb(place - 1, before)) - 2 * math.log(STITCH) - share
    else:
        here = (math.log(statements) + log_choose(place - 1, before)) * ROUNDING - 2 * math.log(STITCH) - share
    return math.log(2) + min(here, _log_statements(looks, yes) - share)


def gate_gain(  # noqa: PLR0913 - what is known of the difference, and the numbers of the gate
    differing: int, *, cases: int, looks: int, yes: int, beta: Number, look: int | None = None, after: int = 0
) -> float:
    """Return how far the difference of two means may be from the truth, where the two differ in at most this many cases.

    sqrt(2 D level) / cases: D terms in [-1, 1] (Hoeffding), at :func:`gate_level`.
    """
    level = gate_level(looks, yes=yes, beta=beta, look=look, after=after)
    return min(2.0, math.sqrt(2 * count("differing", differing, least=0) * level) / count("cases", cases) * ROUNDING)


def gate_interval(  # noqa: PLR0913 - what is known of the mean, and the numbers of the gate
    low: Number,
    high: Number,
    *,
    cases: int,
    looks: int,
    yes: int,
    beta: Number,
    look: int | None = None,
    after: int = 0,
    whole: bool = False,
) -> tuple[float, float]:
    """Return the ends for the truth of a submission whose mean on these cases is known to lie between two numbers.

    By Chernoff's bound at :func:`gate_level`, or by the binomial tail where values are ``whole``, 0 or 1 (S6). It holds for
    independent cases that are not alike, with the mean of their expectations as the truth (Hoeffding 1963, theorem 1).
    """
    level = gate_level(looks, yes=yes, beta=beta, look=look, after=after)

    def end(mean: Fraction) -> float:
        hits = math.ceil(mean * cases)
        return binomial_end(hits, rows=cases, level=level) if whole else chernoff_end(mean, rows=cases, level=level)

    return end(Fraction(low)), 1 - end(1 - Fraction(high))


def ladder_transcripts(submissions: int, *, step: Number) -> float:
    """Return ln C(k + floor(1/step) + 1, k): how many ways a ladder's released scores can go in k submissions (T11)."""
    number, levels = count("submissions", submissions), math.floor(1 / probability("step", step)) + 1
    return log_choose(number + levels, levels)


def ladder_alpha(rows: int, *, submissions: int, beta: Number, step: Number | None = None) -> float:
    """Return how far a ladder's score may be from the best submission's true error.

    step + sqrt((ln(2 k/beta) + ln N) / (2 rows)), k the submissions. The ladder shows the best score so far, rounded to a
    multiple of ``step``, and only when it improves by more than that; at most N transcripts exist, so k N functions cover
    all that can be asked. Holds at every time w.p. 1 - beta. The best step where none is given. No privacy. Source:
    after Blum and Hardt 2015, with a count of our own (T11).
    """
    number, size = count("submissions", submissions), count("rows", rows)
    first = math.log(2 * number) - math.log(probability("beta", beta))

    def width(at: float) -> float:
        return at + math.sqrt((first + ladder_transcripts(number, step=at)) / (2 * size))

    if step is not None:
        return width(round_up(probability("step", step))) * ROUNDING
    # 1/step is best just at a whole number of levels; the smooth valley is found first, then the step moved there.
    smooth = golden(lambda log: width(math.exp(log)), math.log(1e-6), math.log(0.99))
    levels = round(math.exp(-smooth))
    return min(width(1 / (level + 1) * ROUNDING) for level in range(max(1, levels - 3), levels + 4)) * ROUNDING


def guess_and_check_level(
    beta: Number, *, query: int, cells: "list[int] | tuple[int, ...]" = (), answered: int | None = None
) -> float:
    """Return ln(1/beta_i), beta_i what query number i may fail with, after failures on grids of these many cells (T12).

    beta_i = beta c_i c_{f+1} / (C(n, f) prod cells), c_j = 6 / (pi^2 j^2), f failures among the n queries answered before,
    ``answered``: i - 1 unless given. Needs: a number of its own for every query. Over all i, f and transcripts they sum to
    at most beta. Source: Rogers et al. 2020. Not private by itself.
    """
    number, failures = count("query", query), len(cells)
    before = number - 1 if answered is None else count("answered", answered, least=failures)
    spread = sum(math.log(count("cells", cell)) for cell in cells)
    return _level_after(failures, spread, query=number, before=before) - math.log(probability("beta", beta))


def _level_after(failures: int, spread: float, *, query: int, before: int) -> float:
    """Return ln(beta/beta_i) after failures on grids whose numbers of cells have this sum of logarithms."""
    weights = 2 * math.log(STITCH) - 2 * math.log(query) - 2 * math.log(failures + 1)
    return -weights + log_choose(before, failures) + spread


def check_width(rows: int, *, query: int, beta: Number, cells: tuple[int, ...] = (), answered: int | None = None) -> float:
    """Return sqrt(ln(2/beta_i) / (2 rows)), what sampling may add at query i after failures with these cells (T12)."""
    level = math.log(2) + guess_and_check_level(beta, query=query, cells=cells, answered=answered)
    return math.sqrt(level / (2 * count("rows", rows))) * ROUNDING


def check_cells(  # noqa: PLR0913 - the numbers of one check
    rows: int,
    *,
    tolerance: Number,
    query: int,
    beta: Number,
    cells: tuple[int, ...] = (),
    answered: int | None = None,
) -> int | None:
    """Return into how many equal cells [0, 1] is cut for the answer after a failed check; None where none is fine enough.

    The answer is the middle of the cell with the holdout's mean, so it is off by half a cell: 1/(2 L) + the sampling
    width must be within the tolerance, and exactly L values exist. Twice as coarse as multiples of a step would be.
    """
    width = check_width(rows, query=query, beta=beta, cells=cells, answered=answered)
    room = round_down(probability("tolerance", tolerance)) - width
    return None if room < _LEAST_ROOM else math.ceil(1 / (2 * room) * ROUNDING)


def check_passes(  # noqa: PLR0913 - the numbers of one check
    guess: float, *, total: int, rows: int, bits: int, tolerance: float, level: float, whole: bool
) -> bool:
    """Return whether a guess is proved to be within tolerance of the truth, at a failure of exp(-level).

    ``total`` is the sum of values on the holdout, in units of 2^-bits. ``whole``: the values are 0 or 1, and the binomial
    tails at guess - tolerance and guess + tolerance must both be below the level; otherwise Chernoff's bound on these
    tails. Each has the whole level: given the transcript, the truth lies on one side only. For cases that are not alike
    the binomial tail holds from one above the mean on (Hoeffding 1956), which is checked.
    """
    mean = total / (rows << bits)
    low, high = guess - tolerance, guess + tolerance
    if whole:
        hits = total >> bits
        return (low <= 0 or binomial_tail(rows, hits, low) <= -level) and (
            high >= 1 or binomial_tail(rows, rows - hits, 1 - high) <= -level
        )
    return (low <= 0 or (mean > low and rows * binary_divergence(mean, low) >= level * ROUNDING)) and (
        high >= 1 or (mean < high and rows * binary_divergence(mean, high) >= level * ROUNDING)
    )


def guess_and_check_alpha(rows: int, *, queries: int, overfits: int, beta: Number) -> float:
    """Return the tolerance for a number of queries, of which at most ``failures`` fail the check, however late.

    The smallest tau for which, after all failures, the last query's sampling width is at most tau/2: a guess within the
    other half always passes, and every failure can be answered (T12). Worth it for many more queries than overfits; 1
    beyond 2^14 overfits, which nobody plans for.
    """
    asked, most = count("queries", queries), count("overfits", overfits)
    if most > _MOST_OVERFITS:
        return 1.0
    size, share = count("rows", rows), math.log(2) - math.log(probability("beta", beta))

    def width(failures: int, spread: float) -> float:
        return math.sqrt((share + _level_after(failures, spread, query=asked, before=asked - 1)) / (2 * size)) * ROUNDING

    def enough(step: int) -> bool:
        tolerance, spread, failures = step / _TOLERANCES, 0.0, min(most, asked - 1)
        for before in range(failures):
            room = tolerance - width(before, spread)
            if room < _LEAST_ROOM:
                return False
            spread += math.log(math.ceil(1 / (2 * room) * ROUNDING))
        return width(failures, spread) <= tolerance / 2

    found = smallest(enough, _TOLERANCES // 8, most=_TOLERANCES - 1)
    return 1.0 if found is None else round_up(probability("tolerance", found / _TOLERANCES))
