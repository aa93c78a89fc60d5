r"""How far an answer may be from its sample, and a sample from its population, when nothing adapts.

Every number is on the safe side of its theorem: half-widths and row counts are rounded up.
"""

import math
from fractions import Fraction
from typing import Any

from holdtrue.accounting.closed_forms import smallest_float, upper_quantile
from holdtrue.exact import ROUNDING, Number, count, floor_probability, positive, probability, round_down, rows_at_least

# Beyond this many rows the scan of uniform_rows would take minutes.
_LONGEST_SCAN = 1 << 14
# Beyond so deep a level a tail is near the smallest floats.
_DEEPEST = 600.0


def laplace_tail(alpha: Number, *, rows: int, epsilon: Number) -> float:
    """Return Pr[|answer - sample mean| > alpha] = exp(-alpha rows epsilon) for Laplace noise of scale 1 / (rows epsilon).

    Needs: a query into [0, 1], so that the mean moves by 1 / rows. Source: lecture 19, claim 1.3, whose tail is exact.
    The lecture prints m in O(.) where a lower bound on m is meant, and calls epsilon the scale of the noise, which is
    1 / (rows epsilon) (D4).
    """
    width, privacy = probability("alpha", alpha), positive("epsilon", epsilon)
    return min(1.0, math.exp(-round_down(width * count("rows", rows) * privacy)) * ROUNDING)


def laplace_rows(alpha: Number, *, epsilon: Number, beta: Number) -> int:
    """Return the fewest rows for which one Laplace answer is within alpha of its sample mean with probability 1 - beta.

    That is ln(1/beta) / (epsilon alpha) with constant 1, both enough and needed (D4).
    """
    width, privacy, failure = probability("alpha", alpha), positive("epsilon", epsilon), probability("beta", beta)
    return rows_at_least(-math.log(failure) / round_down(width * privacy))


def laplace_maximum(queries: int, *, beta: Number) -> float:
    """Return ln(queries/beta) + 1, at least the mean of the largest of that many |Lap(1)| over its worst beta-fraction.

    Needs: at most ``queries`` draws, a number fixed in advance. The maximum's tail is at most queries e^-w (T5 ii).
    """
    return (math.log(count("queries", queries)) - math.log(probability("beta", beta)) + 1) * ROUNDING


def gaussian_quantile(queries: int, *, beta: Number) -> float:
    """Return w with Pr[max |Z_j| > w] <= beta for this many independent standard normals: the noise-only half-width."""
    tail = _one_tail(count("queries", queries), round_down(probability("beta", beta)))
    return upper_quantile(tail / 2 * (1 - 2.0**-40)) * ROUNDING


def gaussian_maximum(queries: int, *, beta: Number, one_sided: bool = False) -> float:
    r"""Return C_k(beta): at least the mean of max |Z_j|, j <= k = queries, over its worst beta-fraction (CVaR; T5 ii).

    For noise Z_j drawn afresh and anything at all computed from the answers, Pr[some |E[Z_j | transcript]| > C] <= beta.
    Needs: at most ``queries`` draws, a number fixed in advance. CVaR is the least over w of w + E[(max - w)_+] / beta,
    so any w gives a bound that holds, and the tail 1 - (1 - T)^k is at most k T - C(k,2) T^2 + C(k,3) T^3, whose first two
    integrals have closed forms; the third is at most T(w) times the second. Exact for k <= 2. ``one_sided``: the mean of
    max Z_j in its place, for promises whose direction was fixed before their draw (S6); w is then at least 0.

    >>> round(gaussian_maximum(100, beta=0.01), 4)
    4.1208
    """
    number, failure = count("queries", queries), round_down(probability("beta", beta))
    sides = 0.5 if one_sided else 1.0  # above 0, the tail of Z is half of that of |Z|
    w = upper_quantile(min(0.5, _one_tail(number, failure) / 2 / sides))
    x = w / math.sqrt(2)
    both = math.erfc(x)
    density = math.exp(-x * x)
    first = sides * (math.sqrt(2 / math.pi) * density - w * both)
    second = (
        sides**2
        * math.sqrt(2)
        * (2 / math.sqrt(math.pi) * density * both - x * both * both - math.sqrt(2 / math.pi) * math.erfc(math.sqrt(2) * x))
    )
    tail = sides * both
    pairs, triples = number * (number - 1) / 2, number * (number - 1) * (number - 2) / 6
    saved = max(0.0, (pairs - triples * tail) * second)
    # The closed forms lose a factor of about w^4 in relative accuracy; what is saved is pared by far more.
    return (w + (number * first * (1 + 2.0**-36) - saved * (1 - 2.0**-20)) / failure) * ROUNDING


def gaussian_overshoot(box: float, *, one_sided: bool = False) -> float:
    """Return E (|Z| - t)_+ = 2 (phi(t) - t Phi(-t)) for a standard normal Z and t = box, 0 or above, rounded up (S1).

    ``one_sided``: E (Z - t)_+, half of it, for promises whose direction was fixed before their draw (S6).
    """
    x = box / math.sqrt(2)
    mean = math.sqrt(2 / math.pi) * math.exp(-x * x) - box * math.erfc(x)
    # The difference loses a factor of about box^2 in relative accuracy.
    return max(0.0, mean) * (0.5 if one_sided else 1.0) * (1 + 2.0**-36)


def _one_tail(queries: int, beta: float) -> float:
    """Return the tail of one |Z| at which the largest of this many has the tail beta."""
    return -math.expm1(math.log1p(-beta) / queries)


def grid(rows: int, *, bits: int, boolean: bool = False) -> float:
    """Return what rounding adds to a half-width: half a unit for the noise, and half of 2^-bits for each row's value.

    Values are multiples of 2^-bits and noise is a whole number of units of 2^-bits / rows. A query that is 0 or 1 needs
    no rounding of its values (T2b, 0.7).
    """
    unit = math.ldexp(1.0, -count("bits", bits, least=0))
    return (unit / count("rows", rows) + (0.0 if boolean else unit)) / 2 * ROUNDING


def hoeffding_rows(alpha: Number, *, beta: Number, queries: int = 1) -> int:
    """Return rows for which the sample means of queries fixed in advance are all within alpha with probability 1 - beta.

    ln(2 queries/beta) / (2 alpha^2), for queries into [0, 1]. Lecture 4 uses 2 exp(-m a^2 / 3) by the same name: true
    and six times looser (C2).
    """
    width, failure = floor_probability("alpha", alpha), probability("beta", beta)
    # One division at a time: the square of a tiny number would be zero, the quotient is infinite at worst.
    return rows_at_least((math.log(2 * count("queries", queries)) - math.log(failure)) / 2 / width / width)


def hoeffding_alpha(rows: int, *, beta: Number, queries: int = 1) -> float:
    """Return the half-width for this many queries, fixed in advance: sqrt(ln(2 queries/beta) / (2 rows)) (C2, T9)."""
    exponent = math.log(2 * count("queries", queries)) - math.log(probability("beta", beta))
    return math.sqrt(exponent / (2 * count("rows", rows))) * ROUNDING


def chernoff_interval(mean: Number, *, rows: int, beta: Number, queries: int = 1) -> tuple[float, float]:
    """Return the ends of {p : rows kl(mean, p) <= ln(2 queries/beta)}: simultaneous for queries fixed in advance.

    Needs: values in [0, 1], whole or not. The default interval where nothing adapts, narrow near 0 and 1 (T9).
    """
    exponent = math.log(2 * count("queries", queries)) - math.log(probability("beta", beta))
    centre = probability("mean", mean, zero=True, one=True)
    return chernoff_end(centre, rows=rows, level=exponent), 1 - chernoff_end(1 - centre, rows=rows, level=exponent)


def chernoff_end(mean: Number, *, rows: int, level: float) -> float:
    """Return the lower end of {p : rows kl(mean, p) <= level}: below the mean w.p. 1 - exp(-level)."""
    centre = float(probability("mean", mean, zero=True, one=True))
    reach = level / count("rows", rows) * ROUNDING
    return smallest_float(lambda at: binary_divergence(centre, at) > reach, centre, 0.0, steps=100)


def binomial_end(hits: int, *, rows: int, level: float) -> float:
    """Return a lower bound q for the mean of 0/1 values, failing with at most exp(-level): Pr[Bin(rows, q) >= hits] there.

    For cases that are not alike the binomial tail bounds theirs from one above the mean on (Hoeffding 1956), so q is at
    most (hits - 1)/rows (S6). Never below Chernoff's end, which stands in where the tail is too small for floats.
    """
    number, found = count("rows", rows), count("hits", hits, least=0)
    safe = chernoff_end(Fraction(found, number), rows=number, level=level)
    if not found or level > _DEEPEST:
        return safe
    return max(safe, smallest_float(lambda at: binomial_tail(number, found, at) <= -level, found / number, 0.0, steps=100))


def binomial_tail(rows: int, hits: int, chance: float) -> float:
    """Return ln Pr[Bin(rows, chance) >= hits], rounded up; 0 where the binomial does not bound sums of unlike cases."""
    from scipy.special import betainc

    if hits < rows * chance + 1:
        return 0.0
    value = float(betainc(hits, rows - hits + 1, chance))
    return math.log(value * (1 + 2.0**-32)) if value > 0 else -math.inf


def binary_divergence(a: float, p: float) -> float:
    """Return kl(a, p) = a ln(a/p) + (1 - a) ln((1 - a)/(1 - p)) for p strictly between 0 and 1."""
    first = 0.0 if a == 0 else a * math.log(a / p)
    return first + (0.0 if a == 1 else (1 - a) * (math.log1p(-a) - math.log1p(-p)))


def binomial_excess(rows: int, *, alpha: Number) -> float:
    """Return sup over p of Pr[Bin(rows, p)/rows - p >= alpha], rounded up.

    Between two neighbouring values of p + alpha on the lattice the probability only rises, so the supremum is the
    largest of Pr[Bin(rows, j/rows - alpha) >= j] for j from rows alpha to rows. It is not at p = 1/2, where public code
    looks for it. Needs: values that are 0 or 1; others have Chernoff's bound (C2).
    """
    return _excess(count("rows", rows), round_down(probability("alpha", alpha)))


def _excess(rows: int, alpha: float) -> float:
    import numpy as np
    from scipy.special import betainc

    hits: Any = np.arange(max(1, math.ceil(rows * alpha * (1 - 2.0**-50))), rows + 1, dtype=np.float64)
    chance = np.clip(hits / rows - alpha + 2.0**-52, 0.0, 1.0)
    return min(1.0, float(betainc(hits, rows - hits + 1, chance).max()) * (1 + 2.0**-32))


def uniform_rows(alpha: Number, *, beta: Number, size: int = 1) -> int:
    """Return rows from which on every sample error of a class is within alpha with probability 1 - beta (0/1 hypotheses).

    The smallest number such that 2 size binomial_excess <= beta there and for every more rows up to Hoeffding's, from
    which on Hoeffding's bound takes over: on the lattice the probability need not fall with every row. Beyond 16,384
    rows, where the scan would take minutes, Hoeffding's number itself. Lecture 4's is up to 10 times as many (C2).
    """
    width, failure = round_down(probability("alpha", alpha)), round_down(probability("beta", beta))
    number = count("size", size)
    rows = hoeffding_rows(alpha, beta=beta, queries=number)
    if rows > _LONGEST_SCAN:
        return rows
    while rows > 1 and 2 * number * _excess(rows - 1, width) <= failure:
        rows -= 1
    return rows


def largest_mean(mean: float, exponent: float) -> float:
    """Return the largest q with kl(mean, q) <= exponent, from above: kl plus of V4.2, the inverse of Chernoff's bound.

    >>> round(largest_mean(0.0, 0.05), 4)
    0.0488
    """
    low = min(max(mean, 0.0), 1.0)
    if low >= 1:
        return 1.0

    def exceeds(q: float) -> bool:
        first = low * math.log(low / q) if low > 0 else 0.0
        return first + (1 - low) * (math.log1p(-low) - math.log1p(-q)) > exponent * ROUNDING

    top = 1 - 2.0**-50
    return smallest_float(exceeds, low, top) if exceeds(top) else 1.0
