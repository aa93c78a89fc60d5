"""Mechanisms: randomised functions of counts, as frozen values.

Each has an ``event`` (what a ledger is charged with), ``release`` (whole numbers in, whole numbers out) and its exact
privacy: ``delta(epsilon)``, ``epsilon(delta)``, ``tv``, ``rho``, ``mu``.
"""

from holdtrue.mechanisms.base import Gaussian, Laplace
from holdtrue.mechanisms.choosing import Exponential, PermuteAndFlip
from holdtrue.mechanisms.thresholding import AboveThreshold

__all__ = ["AboveThreshold", "Exponential", "Gaussian", "Laplace", "PermuteAndFlip"]
