"""Exact noise: integers drawn from the law that is claimed, not from one close to it."""

from holdtrue.noise.pools import Pool
from holdtrue.noise.races import gumbel_argmax, permute_and_flip
from holdtrue.noise.samplers import (
    LARGEST_SCALE,
    bernoulli,
    bernoulli_exponential,
    discrete_laplace,
    geometric,
    rounded_gaussian,
    uniform_below,
)

__all__ = [
    "LARGEST_SCALE",
    "Pool",
    "bernoulli",
    "bernoulli_exponential",
    "discrete_laplace",
    "geometric",
    "gumbel_argmax",
    "permute_and_flip",
    "rounded_gaussian",
    "uniform_below",
]
