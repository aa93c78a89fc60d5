"""Mechanisms: randomised functions of counts, as frozen values.

Each has an ``event`` (what a ledger is charged with), ``release`` (whole numbers in, whole numbers out) and its exact
privacy: ``delta(epsilon)``, ``epsilon(delta)``, ``tv``, ``rho``, ``mu``.
"""

from holdtrue.mechanisms.exponential import Exponential
from holdtrue.mechanisms.flipping import PermuteAndFlip
from holdtrue.mechanisms.gaussian import Gaussian
from holdtrue.mechanisms.laplace import Laplace
from holdtrue.mechanisms.thresholding import AboveThreshold

__all__ = ["AboveThreshold", "Exponential", "Gaussian", "Laplace", "PermuteAndFlip"]
