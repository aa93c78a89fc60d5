"""What a holdout that tells very little may promise: the gate, rounding, and the sharper form of guess-and-check (T9, T12).

Whoever sees only a few short answers can reach only so many submissions, however they are chosen: one for each place in
the tree of possible transcripts. A bound for all of these at once holds for the one path that was taken. None of it keeps
a secret: validity only (:mod:`holdtrue.bounds.watches` has what does). Cases are independent, not necessarily alike; values
lie in [0, 1].
"""

import math
from functools import lru_cache

from holdtrue.bounds.accuracy import SAFE, chernoff_interval
from holdtrue.bounds.baselines import guess_and_check_level
from holdtrue.bounds.searching import smallest
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number, count, probability, round_down, round_up

__all__ = [
    "check_cells",
    "check_passes",
    "check_width",
    "gate_alpha",
    "gate_cells",
    "gate_gain",
    "gate_interval",
    "gate_transcripts",
    "guess_and_check_alpha",
    "rounding_cells",
    "rounding_width",
]

_FINEST = 2.0**-20
_FINER = 0.01


def gate_transcripts(looks: int, *, yes: int) -> int:
    """Return N, the number of ways in which so many looks can be answered with at most ``yes`` yes: sum_j C(looks, j)."""
    number, most = count("looks", looks), count("yes", yes)
    if most > number:
        raise InvalidParameter("yes", yes, f"at most the number of looks, {number}")
    return sum(math.comb(number, j) for j in range(most + 1))


def gate_alpha(cases: int, *, looks: int, yes: int, beta: Number) -> float:
    """Return sqrt(ln(2 k N / beta) / (2 cases)): how far any submission's mean may be from the truth, but for beta.

    k looks, N the transcripts. The gate closes with its last yes, so the tree has N - 1 places (the sum over t of the
    histories before look t). The factor k pays for telling, at the start, in which of k/2 equal cells the incumbent's
    score lies, and for a second statement at every place, about the difference to the incumbent. What is told after the
    last look costs nothing. Needs: an analyst who sees nothing else of these cases.
    """
    log = math.log(2 * _statements(looks, yes)) - math.log(probability("beta", beta))
    return math.sqrt(log / (2 * count("cases", cases))) * SAFE


def gate_cells(looks: int) -> int:
    """Return in how many equal cells the first incumbent's score is told: 1 + 2 L (N - 1) statements are at most k N."""
    return max(1, count("looks", looks) // 2)


@lru_cache(maxsize=64)
def _statements(looks: int, yes: int) -> int:
    # With a single look there are three statements: on the incumbent, on the submission and on their difference.
    return max(2, count("looks", looks)) * gate_transcripts(looks, yes=yes)


def gate_gain(differing: int, *, cases: int, looks: int, yes: int, beta: Number) -> float:
    """Return how far the difference of two means may be from the truth, where the two differ in so many cases at most.

    sqrt(2 D ln(2 k N / beta)) / cases: D terms in [-1, 1] (Hoeffding), at the level of :func:`gate_alpha`.
    """
    log = math.log(2 * _statements(looks, yes)) - math.log(probability("beta", beta))
    return min(2.0, math.sqrt(2 * count("differing", differing, least=0) * log) / count("cases", cases) * SAFE)


def gate_interval(  # noqa: PLR0913 - what is known of the mean, and the numbers of the gate
    low: Number, high: Number, *, cases: int, looks: int, yes: int, beta: Number
) -> tuple[float, float]:
    """Return the ends for the truth of a submission whose mean on these cases is known to lie between two numbers.

    By Chernoff's bound at the level of :func:`gate_alpha`, never wider than it. It holds for independent cases that are
    not alike, with the mean of their expectations as the truth (Hoeffding 1963, theorem 1).
    """
    statements = _statements(looks, yes)
    below, _ = chernoff_interval(low, rows=cases, beta=beta, queries=statements)
    _, above = chernoff_interval(high, rows=cases, beta=beta, queries=statements)
    return below, above


def rounding_width(cells: int, *, cases: int, looks: int, beta: Number) -> float:
    """Return 1/(2 L) + sqrt(ln(2 (L^k - 1) / ((L - 1) beta)) / (2 cases)): how far a score told in L cells may be (T9).

    k looks, each answered with the middle of one of L equal cells of [0, 1]. Whoever sees nothing else can reach at most
    (L^k - 1)/(L - 1) submissions, and Hoeffding's bound for so many holds for those that came.
    """
    number, asked = count("cells", cells, least=2), count("looks", looks)
    log = math.log(number)
    reached = asked * log + math.log1p(-math.exp(-asked * log)) - math.log(number - 1)
    level = math.log(2) - math.log(probability("beta", beta)) + reached
    return (1 / (2 * number) + math.sqrt(level / (2 * count("cases", cases)))) * SAFE


@lru_cache(maxsize=64)
def rounding_cells(cases: int, *, looks: int, beta: Number) -> int:
    """Return the number of cells that makes :func:`rounding_width` smallest, for whole numbers up to some 10^6 tried."""
    tried: list[int] = [*range(2, 400), *(math.ceil(400 * math.exp(step * _FINER)) for step in range(800))]
    return min(tried, key=lambda cells: rounding_width(cells, cases=cases, looks=looks, beta=beta))


def check_width(rows: int, *, query: int, beta: Number, cells: tuple[int, ...] = (), answered: int | None = None) -> float:
    """Return sqrt(ln(2/beta_i) / (2 rows)), what sampling may add at query i after failures with these cells (T12)."""
    level = math.log(2) + guess_and_check_level(beta, query=query, cells=cells, answered=answered)
    return math.sqrt(level / (2 * count("rows", rows))) * SAFE


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
    return None if room < _FINEST else math.ceil(1 / (2 * room) * SAFE)


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
        return (low <= 0 or _tail(rows, hits, low) <= -level) and (high >= 1 or _tail(rows, rows - hits, 1 - high) <= -level)
    return (low <= 0 or (mean > low and rows * _divergence(mean, low) >= level * SAFE)) and (
        high >= 1 or (mean < high and rows * _divergence(mean, high) >= level * SAFE)
    )


def _tail(rows: int, hits: int, chance: float) -> float:
    """Return ln Pr[Bin(rows, chance) >= hits], rounded up; 0 where the binomial does not bound sums of unlike cases."""
    from scipy.special import betainc

    if hits < rows * chance + 1:
        return 0.0
    value = float(betainc(hits, rows - hits + 1, chance))
    return math.log(value * (1 + 2.0**-32)) if value > 0 else -math.inf


def _divergence(a: float, p: float) -> float:
    first = 0.0 if a == 0 else a * math.log(a / p)
    return first + (0.0 if a == 1 else (1 - a) * (math.log1p(-a) - math.log1p(-p)))


def guess_and_check_alpha(rows: int, *, queries: int, overfits: int, beta: Number) -> float:
    """Return the tolerance that so many queries need, of which so many fail the check, however late.

    The smallest tau for which, after all failures, the last query's sampling width is at most tau/2: a guess within the
    other half always passes, and every failure can be answered (T12). Worth it for many more queries than overfits.
    """
    asked, most = count("queries", queries), count("overfits", overfits)

    def enough(step: int) -> bool:
        tolerance = step / _STEPS
        cells: tuple[int, ...] = ()
        for _ in range(min(most, asked - 1)):
            found = check_cells(rows, tolerance=tolerance, query=asked, beta=beta, cells=cells)
            if found is None:
                return False
            cells = (*cells, found)
        return check_width(rows, query=asked, beta=beta, cells=cells) <= tolerance / 2

    found = smallest(enough, _STEPS // 8, most=_STEPS - 1)
    return 1.0 if found is None else round_up(probability("tolerance", found / _STEPS))


_STEPS = 1 << 12
