"""Exact noise: integers drawn from the law that is claimed, not from one close to it."""

from holdtrue.noise.samplers import (
    LARGEST_SCALE,
    bernoulli,
    bernoulli_exponential,
    discrete_laplace,
    geometric,
    rounded_gaussian,
    uniform_below,
)
from holdtrue.noise.selection import gumbel_argmax, permute_and_flip

__all__ = [
    "LARGEST_SCALE",
    "bernoulli",
    "bernoulli_exponential",
    "discrete_laplace",
    "geometric",
    "gumbel_argmax",
    "permute_and_flip",
    "rounded_gaussian",
    "uniform_below",
]
