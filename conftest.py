"""Runs the Python in README.md and docs/, and refuses a full run that lost its tests."""

import os

import pytest
from hypothesis import settings
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser
from xdist.scheduler import LoadScopeScheduling

# Examples follow from a test's name, so that a run never fails by chance; tests that draw noise are seeded likewise.
settings.register_profile("named", derandomize=True)
settings.load_profile("named")

os.environ["HOLDTRUE_GATES"] = "off"  # tests neither see nor leave gates in the folder of whoever runs them

# A full run with fewer tests than this has lost some on the way: raise it as the suite grows, never lower it.
FLOOR = 11_600

pytest_collect_file = Sybil(parsers=[PythonCodeBlockParser()], patterns=["README.md", "docs/**/*.md", "docs/*.md"]).pytest()


class Together(LoadScopeScheduling):
    """Hands tests to whichever worker is free, and keeps together what shares something.

    Blocks of a page share their names, and whatever needs Spark shares one cluster.
    """

    def _split_scope(self, nodeid: str) -> str:
        place = nodeid.partition("::")[0]
        return "spark" if "/test_spark_" in place else place if place.endswith(".md") else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Together:
    """Return how tests are shared among workers."""
    return Together(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Fail a full run that collected too little."""
    full = config.args == config.getini("testpaths") and not config.option.keyword and not config.option.markexpr
    if full and len(items) < FLOOR:
        message = f"{len(items)} tests were collected, fewer than the floor of {FLOOR}: something is missing"
        raise pytest.UsageError(message)
