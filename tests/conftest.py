"""Fixtures: bits seeded by the test's own name, or by the system when asked for."""

import sys

import pytest

from holdtrue.entropy import SYSTEM
from holdtrue.testing import SeededBits


def pytest_addoption(parser):
    parser.addoption(
        "--entropy",
        choices=["seeded", "system"],
        default="seeded",
        help="where statistical tests draw from: bits seeded by the test's name, or the system's",
    )


@pytest.fixture
def bits(request):
    """Independent uniform bits, the same in every run unless --entropy system is given."""
    return SYSTEM if request.config.getoption("--entropy") == "system" else SeededBits(request.node.nodeid)


@pytest.fixture(autouse=True)
def _forget_open_gates():
    """Begin each test as a process in which no gate is open: those that died in a test before are not closed."""
    yield
    module = sys.modules.get("holdtrue.holdouts.mode")
    if module is not None:
        module._GATES.clear()
