"""A small card that reads like people."""

import zlib

import numpy as np
import pytest

from holdtrue.queries import Card, Column, parse


@pytest.fixture(scope="session")
def card():
    return Card(
        (
            Column("age", "integer", bounds=(0, 120)),
            Column("visits", "integer"),
            Column("bmi", "real"),
            Column("weight", "real"),
            Column("smoker", "boolean"),
            Column("insured", "boolean"),
            Column("region", "text", labels=("N", "S")),
            Column("name", "text"),
            Column("blood pressure", "real"),
            Column("v1.score", "real"),
            Column("born", "date"),
            Column("seen", "timestamp"),
        ),
        rows=1000,
    )


@pytest.fixture
def rng(request):
    """NumPy's generator, seeded by the test's own name."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture(scope="session")
def read(card):
    return lambda text: parse(text, card)
