"""Functions of scaled features that a model may be linear in: random Fourier features and polynomials (V5).

Public and fixed before any row is seen; every row becomes a vector of length 1 at most, up to the rounding that
``exact.ROUNDING`` covers, so that stability and excess are as for the features themselves with L_f = 1.
"""

import hashlib
import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Final

import numpy as np

from holdtrue.errors import InvalidParameter
from holdtrue.kernels import Floats
from holdtrue.requests import Basis, Fourier, Polynomial

__all__ = ["apply_basis", "count_functions"]

_MOST_FUNCTIONS: Final = 20_000
_PIECE: Final = 4096


def count_functions(basis: Basis, columns: int) -> int:
    """Return how many functions of so many columns a basis has; InvalidParameter where they are too many."""
    number = 2 * basis.pairs if isinstance(basis, Fourier) else math.comb(columns + basis.degree, basis.degree)
    if number > _MOST_FUNCTIONS:
        words = f"degree {getattr(basis, 'degree', '')} of {columns} features has {number:,} products; take fewer"
        raise InvalidParameter.saying("basis", words)
    return number


def apply_basis(basis: Basis, scaled: Floats, *, norm: float) -> Floats:
    """Return a matrix with a basis's functions of each row; rows are at most ``norm`` long, with entries in [-1, 1]."""
    found = np.empty((len(scaled), count_functions(basis, scaled.shape[1])))
    for start in range(0, len(scaled), _PIECE):
        piece = slice(start, start + _PIECE)
        if isinstance(basis, Fourier):
            _write_waves(basis, scaled[piece], found[piece])
        else:
            _write_products(basis, scaled[piece], found[piece], norm=norm)
    return found


def _write_waves(basis: Fourier, rows: Floats, found: Floats) -> None:
    """Write (cos Wx, sin Wx) / sqrt(pairs): cos^2 + sin^2 is 1 for each pair."""
    angles = rows @ draw_directions(basis, rows.shape[1])
    np.cos(angles, out=found[:, : basis.pairs])
    np.sin(angles, out=found[:, basis.pairs :])
    found /= math.sqrt(basis.pairs)


@lru_cache(maxsize=16)
def draw_directions(basis: Fourier, columns: int) -> Floats:
    """Return the weights W of the combinations, columns by pairs: normal quantiles of bits that the public seed gives."""
    from scipy.special import ndtri  # whoever asks a question does without it

    number = columns * basis.pairs
    words = np.frombuffer(hashlib.shake_256(f"holdtrue fourier {basis.seed}".encode()).digest(8 * number), dtype="<u8")
    uniform = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    found: Floats = (ndtri(uniform) * basis.scale).reshape(columns, basis.pairs)
    found.flags.writeable = False
    return found


def _write_products(basis: Polynomial, rows: Floats, found: Floats, *, norm: float) -> None:
    """Write each product times the root of its coefficient, over (1 + norm^2)^(degree / 2), which no row is longer than."""
    longest = (1 + norm * norm) ** (basis.degree / 2)
    for place, (powers, weight) in enumerate(_list_products(basis.degree, rows.shape[1])):
        found[:, place] = weight / longest
        for column in powers:
            found[:, place] *= rows[:, column]


def _list_products(degree: int, columns: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield every product of at most ``degree`` columns, with the root of its coefficient in (1 + x_1 + ...)^degree."""
    for size in range(degree + 1):
        for chosen in combinations_with_replacement(range(columns), size):
            repeats = math.prod(math.factorial(chosen.count(column)) for column in set(chosen))
            ways = math.factorial(degree) // (math.factorial(degree - size) * repeats)
            yield chosen, math.sqrt(ways)
