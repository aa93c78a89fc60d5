"""Runs the Python in README.md and docs/, and refuses a full run that lost its tests."""

import pytest
from hypothesis import settings
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

# Examples follow from a test's name, so that a run never fails by chance; tests that draw noise are seeded likewise.
settings.register_profile("named", derandomize=True)
settings.load_profile("named")

# A full run with fewer tests than this has lost some on the way: raise it as the suite grows, never lower it.
FLOOR = 6300

pytest_collect_file = Sybil(parsers=[PythonCodeBlockParser()], patterns=["README.md", "docs/**/*.md", "docs/*.md"]).pytest()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep together what shares something, and fail a full run that collected too little.

    Blocks of a page share their names, and whatever needs Spark shares one cluster: each goes to one worker.
    """
    for item in items:
        if item.path.suffix == ".md":
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
        elif item.path.stem.startswith("test_spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
    full = config.args == config.getini("testpaths") and not config.option.keyword and not config.option.markexpr
    if full and len(items) < FLOOR:
        message = f"{len(items)} tests were collected, fewer than the floor of {FLOOR}: something is missing"
        raise pytest.UsageError(message)
