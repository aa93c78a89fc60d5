"""A service with people to ask about and a holdout to look at, shared by the tests of a module."""

import httpx
import pytest

from clients.running import PEOPLE, people, running


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    rows = people(folder)
    with running(folder / "home") as found:
        key = found.key("custodian", "owner")
        made = httpx.post(f"{found.url}/v1/datasets", json=PEOPLE, headers={"Authorization": f"Bearer {key}"}, timeout=60)
        assert made.status_code == 201, made.text
        found.rows = rows
        yield found


@pytest.fixture
def owner(served):
    with served.connect("custodian", "owner") as remote:
        yield remote


@pytest.fixture
def analyst(served, request):
    with served.connect(request.node.name[:60].strip()) as remote:
        yield remote


@pytest.fixture
def curator(served):
    return served.service.registry.open_dataset("people").curator
