"""What all machines share."""

import pytest

from holdtrue.ledgers.ledger import Ledger


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    """Wait for another process's answer for a moment only: the workers of a machine take turns, so none ever comes."""
    monkeypatch.setitem(Ledger.wait.__kwdefaults__, "seconds", 0.01)
