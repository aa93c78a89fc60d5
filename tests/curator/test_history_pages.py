"""A history page by page: every line once, whoever asks, and few entries read however long the ledger is."""

import threading

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.curator import history as histories
from holdtrue.curator.history import history_page


@pytest.fixture(scope="module")
def curator(tmp_path_factory):
    place = tmp_path_factory.mktemp("history") / "a.ledger"
    ages = np.random.default_rng(3).integers(0, 100, 20_000)
    with ht.Curator({"age": ages}, ledger=place, queries=600, epsilon=2, delta=1e-6, reserve=0.5) as found:
        for number in range(120):
            found.ask(f"age > {number / 2}", key=f"key {number}", analyst="bob" if number % 7 == 0 else "ann")
        found.select({"a": "age > 5", "b": "age > 6"}, epsilon=0.1, analyst="bob")
        found.ask(["age < 3", "age < 4"], analyst="ann")
        yield found


def followed(ledger, **given):
    """Return all lines, by following the pages."""
    pages, before = [], None
    while True:
        page = history_page(ledger, before=before, **given)
        pages.append(page.lines)
        if page.before is None:
            return [line for lines in reversed(pages) for line in lines], len(pages)
        assert before is None or page.before < before
        before = page.before


@pytest.mark.parametrize("limit", [1, 7, 100, 1000])
def test_pages_hold_every_line_once(curator, limit, monkeypatch):
    whole = curator.history
    assert followed(curator.ledger, limit=limit)[0] == whole
    for analyst in ("ann", "bob", "eve"):
        own = [line for line in whole if line.analyst == analyst]
        assert followed(curator.ledger, limit=limit, analyst=analyst)[0] == own
    # Windows so small that responses stand outside of those in which their charges are.
    monkeypatch.setattr(histories, "_WINDOW", 3)
    monkeypatch.setattr(histories, "_MOST_READ", 10)
    assert followed(curator.ledger, limit=limit)[0] == whole
    assert followed(curator.ledger, limit=limit, analyst="bob")[0] == [line for line in whole if line.analyst == "bob"]


class Counting:
    """A ledger that counts what is read of it."""

    def __init__(self, ledger):
        self._ledger, self.read = ledger, 0

    def entries(self, start=1, stop=None):
        found = self._ledger.entries(start, stop)
        self.read += len(found)
        return found

    def __getattr__(self, name):
        return getattr(self._ledger, name)


def test_a_page_reads_few_entries_of_a_long_ledger(curator, monkeypatch):
    monkeypatch.setattr(histories, "_WINDOW", 8)
    monkeypatch.setattr(histories, "_MOST_READ", 40)
    for analyst in (None, "bob", "eve"):
        counting = Counting(curator.ledger)
        history_page(counting, limit=5, analyst=analyst)
        assert counting.read <= 40
    # The control: the whole history reads the whole ledger.
    counting = Counting(curator.ledger)
    assert len(histories.history_of(counting)) > 50
    assert counting.read == curator.ledger.newest()


def test_a_page_is_read_while_the_curators_lock_is_held(curator):
    """Whoever learns or trains for long keeps nobody from reading; the whole history waits for that lock."""
    house, found = curator.pipeline, []
    with house.lock:
        thread = threading.Thread(target=lambda: found.append(history_page(curator.ledger, limit=3)))
        thread.start()
        thread.join(60)
        assert len(found[0].lines) == 3
        waiting = threading.Thread(target=lambda: found.append(curator.history))
        waiting.start()
        waiting.join(0.2)
        assert len(found) == 1
    waiting.join(60)
    assert len(found) == 2
