"""Ways to answer without the transfer theorem, and mechanisms for special questions (T9 to T12).

Splitting, rounding, the ladder and guess-and-check hold for the population but keep no privacy: they must never be
combined with a claim that they do. Rows are independent draws and queries map a row to [0, 1].
"""

import math
from dataclasses import dataclass

import numpy as np

from holdtrue.accounting.closed_forms import pure_mu, pure_rho
from holdtrue.bounds.accuracy import SAFE, hoeffding_alpha, hoeffding_rows, whole
from holdtrue.bounds.searching import descend, golden
from holdtrue.bounds.transfer import concentrated_shift, gaussian_shift, shift
from holdtrue.errors import BudgetExceeded, InsufficientSamples
from holdtrue.exact import Number, count, positive, probability, round_down, round_up

__all__ = [
    "Thresholdout",
    "guess_and_check_cells",
    "guess_and_check_level",
    "guess_and_check_rows",
    "ladder_alpha",
    "ladder_transcripts",
    "rounding_alpha",
    "rounding_rows",
    "splitting_alpha",
    "splitting_rows",
    "thresholdout",
    "thresholdout_alpha",
]

# Cells are at least alpha/60 wide: finer ones gain less than two per cent, and only for a single query.
_FINEST = 60
_MOST_CELLS = 1 << 20
_STITCH = 6 / math.pi**2


def splitting_rows(alpha: Number, *, queries: int, beta: Number) -> int:
    """Return rows for answering each of so many adaptive queries on rows of its own: Hoeffding's number for each (T9)."""
    return count("queries", queries) * hoeffding_rows(alpha, beta=beta, queries=queries)


def splitting_alpha(rows: int, *, queries: int, beta: Number) -> float:
    """Return the half-width when the rows are cut into one part of equal size for every query (T9)."""
    part = count("rows", rows) // count("queries", queries)
    if part < 1:
        message = f"splitting needs a row for every query: {queries} rows for {queries} queries, got {rows}"
        raise InsufficientSamples(message, required=queries)
    return hoeffding_alpha(part, beta=beta, queries=queries)


def rounding_rows(alpha: Number, *, queries: int, beta: Number) -> int:
    """Return rows for which all answers, each the middle of one of L equal cells of [0, 1], are within alpha but for beta.

    An analyst who sees nothing else can reach at most (L^k - 1)/(L - 1) queries in k steps, so Hoeffding's bound for that
    many holds for all: ln(2 (L^k - 1) / ((L - 1) beta)) / (2 (alpha - 1/(2 L))^2), least over whole L < 60/alpha (T9).
    """
    width = round_down(probability("alpha", alpha))
    cells = _cells(math.floor(1 / (2 * width)) + 1, math.ceil(_FINEST / width) - 1)
    cells = cells[2 * cells * width > 1 + 2.0**-40]
    needed = _description(cells, count("queries", queries), beta) / (2 * (width - 1 / (2 * cells)) ** 2)
    return whole(float(needed.min()))


def rounding_alpha(rows: int, *, queries: int, beta: Number) -> float:
    """Return the half-width 1/(2 L) + sqrt(ln(2 (L^k - 1) / ((L - 1) beta)) / (2 rows)), least over whole L (T9)."""
    cells = _cells(1, _MOST_CELLS)
    widths = 1 / (2 * cells) + np.sqrt(_description(cells, count("queries", queries), beta) / (2 * count("rows", rows)))
    return float(widths[widths * cells < _FINEST].min(initial=math.inf)) * SAFE


def _cells(least: int, most: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return every number of cells in a range, or a fine selection where there are very many; any number is valid."""
    if most - least < 1 << 14:
        return np.arange(max(2, least), max(2, least, most) + 1, dtype=np.float64)
    return np.unique(np.rint(np.geomspace(max(2, least), most, 1 << 14)))


def _description(
    cells: "np.ndarray[tuple[int], np.dtype[np.float64]]", queries: int, beta: Number
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return ln(2 (L^k - 1) / ((L - 1) beta)) for an array of L."""
    logs = np.log(cells)
    reached: np.ndarray[tuple[int], np.dtype[np.float64]] = (
        queries * logs + np.log1p(-np.exp(-queries * logs)) - np.log(cells - 1)
    )
    return math.log(2) - math.log(probability("beta", beta)) + reached


@dataclass(frozen=True, slots=True)
class Thresholdout:
    """What a reusable holdout promises: the half-width past its threshold, its noise, and its cost if all is used."""

    alpha: float
    scale: float
    epsilon: float
    rho: float
    mu: float


def thresholdout(  # noqa: PLR0913 - every one is a number of the theorem
    rows: int, *, queries: int, overfits: int, scale: Number, noise_beta: Number, beta: Number
) -> Thresholdout:
    """Return what answers of a reusable holdout are worth beyond its threshold (T10).

    Queries are answered from training rows unless these differ from the holdout by more than a noisy threshold (noise of
    scales 2 s and 4 s); then, at most ``overfits`` times, by the holdout's mean with noise of scale s. With probability
    1 - noise_beta - beta all of at most ``queries`` answers are within threshold + alpha of the population,
    alpha = s [4 (ln((k + B)/p) + 1) + 2 (ln((B + 1)/p) + 1)] + gamma, B the overfits and p = noise_beta. Each run and each
    release is e-DP with e = 1/(s rows), so the whole costs epsilon = 2 B e, rho = 2 B e tanh(e/2) and
    mu^2 = 2 B (2 Phi^-1(sigmoid(e)))^2; gamma is by the best of the three, to be fixed with the ledger. Needs: training rows
    independent of the holdout; only the holdout is protected. Source: Dwork et al. 2015, constants derived anew. Worth
    it only for many more queries than overfits.
    """
    spread, share = round_up(positive("scale", scale)), round_down(probability("noise_beta", noise_beta))
    asked, most = count("queries", queries), count("overfits", overfits)
    each = 1 / (spread * count("rows", rows)) * SAFE
    epsilon, rho = 2 * most * each, 2 * most * pure_rho(each)
    mu = math.sqrt(2 * most) * pure_mu(each) * SAFE
    gamma = min(shift(epsilon), concentrated_shift(rho, beta=beta).gamma, gaussian_shift(mu, beta=beta).gamma)
    noise = 4 * (math.log((asked + most) / share) + 1) + 2 * (math.log((most + 1) / share) + 1)
    return Thresholdout((spread * noise + gamma) * SAFE, spread, epsilon, rho, mu)


def thresholdout_alpha(rows: int, *, queries: int, overfits: int, beta: Number) -> Thresholdout:
    """Return the thresholdout of smallest half-width over its scale and over how beta is split (T10)."""
    failure = round_down(probability("beta", beta))
    start = math.log(math.sqrt(count("overfits", overfits)) / count("rows", rows)) / 2

    def at(point: "list[float] | tuple[float, ...]") -> Thresholdout:
        share = failure / (1 + math.exp(-point[1]))
        return thresholdout(
            rows, queries=queries, overfits=overfits, scale=math.exp(point[0]), noise_beta=share, beta=failure - share
        )

    return at(descend(lambda point: at(list(point)).alpha, (start - 2, -1.0), least=1e-4))


def ladder_transcripts(submissions: int, *, step: Number) -> float:
    """Return ln C(k + floor(1/step) + 1, k): how many ways a ladder's released scores can go in k submissions (T11)."""
    number, levels = count("submissions", submissions), math.floor(1 / probability("step", step)) + 1
    return math.lgamma(number + levels + 1) - math.lgamma(number + 1) - math.lgamma(levels + 1)


def ladder_alpha(rows: int, *, submissions: int, beta: Number, step: Number | None = None) -> float:
    """Return how far a ladder's score may be from the best submission's true error.

    step + sqrt((ln(2 k/beta) + ln N) / (2 rows)), k the submissions. The ladder shows the best score so far, rounded to a
    multiple of ``step``, and only when it improves by more than that; at most N transcripts exist, so k N functions cover
    all that can be asked. Holds at every time, but for beta. The best step where none is given. No privacy. Source:
    after Blum and Hardt 2015, with a count of our own (T11).
    """
    number, size = count("submissions", submissions), count("rows", rows)
    first = math.log(2 * number) - math.log(probability("beta", beta))

    def width(at: float) -> float:
        return at + math.sqrt((first + ladder_transcripts(number, step=at)) / (2 * size))

    if step is not None:
        return width(round_up(probability("step", step))) * SAFE
    # 1/step is best just at a whole number of levels; the smooth valley is found first, then the step moved there.
    smooth = golden(lambda log: width(math.exp(log)), math.log(1e-6), math.log(0.99))
    levels = round(math.exp(-smooth))
    return min(width(1 / (level + 1) * SAFE) for level in range(max(1, levels - 3), levels + 4)) * SAFE


def guess_and_check_level(
    beta: Number, *, query: int, cells: "list[int] | tuple[int, ...]" = (), answered: int | None = None
) -> float:
    """Return ln(1/beta_i): what query number i may fail with after failures whose grids had so many cells (T12).

    beta_i = beta c_i c_{f+1} / (C(n, f) prod cells), c_j = 6 / (pi^2 j^2), f failures among the n queries answered before,
    ``answered``: i - 1 unless given. Needs: a number of its own for every query. Over all i, f and transcripts they sum to
    at most beta. Source: Rogers et al. 2020. Not private by itself.
    """
    number, failures = count("query", query), len(cells)
    before = number - 1 if answered is None else count("answered", answered, least=failures)
    chosen = math.lgamma(before + 1) - math.lgamma(failures + 1) - math.lgamma(before - failures + 1)
    spread = sum(math.log(count("cells", cell)) for cell in cells)
    weights = 2 * math.log(_STITCH) - 2 * math.log(number) - 2 * math.log(failures + 1)
    return -math.log(probability("beta", beta)) - weights + chosen + spread


def guess_and_check_rows(slack: Number, *, query: int, beta: Number, cells: "list[int] | tuple[int, ...]" = ()) -> int:
    """Return holdout rows for which a guess within tolerance - slack passes at query i: ln(2/beta_i) / (2 slack^2) (T12)."""
    width = round_down(probability("slack", slack))
    return whole((math.log(2) + guess_and_check_level(beta, query=query, cells=cells)) / (2 * width * width))


def guess_and_check_cells(
    rows: int, *, tolerance: Number, query: int, beta: Number, cells: "list[int] | tuple[int, ...]" = ()
) -> int:
    """Return the number of cells of the answer after a failed check (T12).

    ceil(1/g) with 2 rows (tolerance - g)^2 = ln(2/beta_i). Their middles are exactly so many values; multiples of g
    would be one more than the level pays for.
    """
    width = round_down(probability("tolerance", tolerance))
    used = math.sqrt((math.log(2) + guess_and_check_level(beta, query=query, cells=cells)) / (2 * count("rows", rows)))
    if used >= width:
        raise BudgetExceeded(requested=used, left=width, unit="of tolerance")
    return math.ceil(1 / (width - used * SAFE))
