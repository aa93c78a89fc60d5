"""Fixtures: numbers to test with, the same in every run."""

import zlib

import numpy as np
import pytest


@pytest.fixture
def rng(request):
    """NumPy's generator, seeded by the test's own name."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))
