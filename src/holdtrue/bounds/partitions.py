"""Cutting rows into parts: how many parts, how good each predictor must be, and what that costs in rows (E5, E10, E11)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from holdtrue.bounds.learning import hoeffding_uniform_rows, learning_rows
from holdtrue.bounds.sizes import fraction, rows_at_least
from holdtrue.errors import InsufficientSamples
from holdtrue.exact import Number, count

__all__ = [
    "BaseRows",
    "Partition",
    "agnostic_base_rows",
    "cheapest",
    "dimension_base_rows",
    "finite_base_rows",
    "rows_of_a_part",
    "uniform_base_rows",
]

# How many rows one predictor needs for an error (or excess error) with a probability of failure.
BaseRows: TypeAlias = Callable[[float, float], int]

_EVERY_UP_TO = 64
_GROWTH = 1.08
_MOST_PARTS = 1 << 40


@dataclass(frozen=True, slots=True)
class Partition:
    """So many parts of so many rows, each with a predictor of so much error."""

    parts: int
    base_error: float
    part_rows: int

    @property
    def rows(self) -> int:
        """Return the rows of all parts together."""
        return self.parts * self.part_rows


def finite_base_rows(size: int, *, alpha: Number, beta: Number) -> int:
    """Return ceil(ln(|H| / beta) / alpha): any consistent pick from a finite class then has error at most alpha (E5).

    With probability 1 - beta, if some hypothesis of the class is never wrong.
    """
    return rows_at_least((math.log(count("size", size)) - math.log(fraction("beta", beta))) / _share("alpha", alpha))


def dimension_base_rows(dimension: int, *, alpha: Number, beta: Number) -> int:
    """Return max{(4 / alpha) log2(2 / beta), (8 d / alpha) log2(13 / alpha)} for VC dimension d (Blumer et al.; E5)."""
    error, failure = _share("alpha", alpha), fraction("beta", beta)
    width = 8 * count("dimension", dimension) / error * math.log2(13 / error)
    return rows_at_least(max(4 / error * math.log2(2 / failure), width))


def agnostic_base_rows(size: int, *, alpha: Number, beta: Number) -> int:
    """Return the rows after which the empirical minimiser has excess error at most alpha, for every distribution (P3)."""
    return learning_rows(size, alpha=alpha, beta=beta)


def uniform_base_rows(size: int, *, alpha: Number, beta: Number) -> int:
    """Return 2 ln(2 |H| / beta) / alpha^2: the same by uniform convergence at alpha / 2 (C2, C3)."""
    return hoeffding_uniform_rows(size, half_width=fraction("alpha", alpha) / 2, beta=beta)


def rows_of_a_part(rows: int, *, parts: int) -> int:
    """Return floor(rows / parts); what is left over stays unused, whatever the rows hold (E10)."""
    n, r = count("rows", rows), count("parts", parts)
    if n < r:
        message = f"{r} parts need {r} rows or more; there are {n}"
        raise InsufficientSamples(message, required=r)
    return n // r


def cheapest(option: Callable[[int], Partition | None], *, least: Callable[[int], int]) -> Partition:
    """Return the option with the fewest rows among all numbers of parts up to 64 and a fine grid beyond.

    ``least(parts)`` is a number of rows that no option with so many parts or more goes below: the search ends there.
    """
    best: Partition | None = None

    def look(parts: int) -> None:
        nonlocal best
        found = option(parts)
        if found is not None and (best is None or found.rows < best.rows):
            best = found

    parts = 1
    while parts < _MOST_PARTS and (best is None or least(parts) < best.rows):
        look(parts)
        parts = parts + 1 if parts < _EVERY_UP_TO else math.ceil(parts * _GROWTH)
    if best is None:
        message = "no number of parts below 2^40 is enough; ask for less"
        raise InsufficientSamples(message, required=None)
    step = best.parts // 100 + 1
    while True:
        centre = best.parts
        for offset in range(1, 9):
            look(centre + offset * step)
            look(max(1, centre - offset * step))
        if step == 1:
            return best
        step = max(1, step // 8)


def _share(name: str, value: Number) -> float:
    return 1.0 if value == 1 else fraction(name, value)
