"""Engines under several threads: sums return while a class is counted, and every integer is that of one thread alone."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest

from holdtrue.errors import CuratorClosed
from holdtrue.hypotheses import Stumps
from holdtrue.hypotheses.classes import Footprint, HypothesisClass
from holdtrue.queries.features import Numbers
from holdtrue.queries.parser import parse

PATIENCE = 60
ROWS = 20_000
RNG = np.random.default_rng(11)
TABLE = pa.table(
    {
        "x": RNG.normal(size=ROWS),
        "n": RNG.integers(0, 50, ROWS),
        "word": pa.array(RNG.choice(["a", "b", "cc", None], ROWS)),
        "yes": RNG.random(ROWS) < 0.3,
    }
)
LOCAL = ["arrow", "parquet-2", "relation"]
TEXTS = ["x > 0.5 AND n < 20", "x / 3", "word = 'a' OR n = 7", "n > 13", "word LIKE 'c%' AND yes", "x < -1 OR x > 1"]


class Waiting(HypothesisClass):
    """One hypothesis, whose count stops at its first rows until it is told to go on."""

    kind = "waiting"
    dimension = 1
    size = 1
    footprint = Footprint(1, 16, "size", 1)

    def __init__(self):
        self.begun, self.go_on = threading.Event(), threading.Event()

    def over(self, columns):  # noqa: ARG002 - likewise
        return self

    def add_rows(self, X, y, totals):  # noqa: N803 - the name of the interface
        self.begun.set()
        assert self.go_on.wait(PATIENCE)
        totals[0] += np.count_nonzero((X[:, 0] > 0) != y)

    def count_errors(self, totals):
        return totals

    def label_rows(self, X, index):  # noqa: ARG002, N803 - likewise
        return X[:, 0] > 0

    def describe(self, index):
        return f"hypothesis {index}"

    @property
    def document(self):
        return {"class": self.kind}


def _queries(engine):
    return [parse(text, engine.card) for text in TEXTS]


@contextmanager
def _counting(engine):
    """Yield while a class is being counted, in another thread, and then the count."""
    waiting, counts = Waiting(), []
    with ThreadPoolExecutor(2) as pool:
        under_way = pool.submit(engine.error_counts, waiting, [Numbers("x")], parse("yes", engine.card))
        try:
            assert waiting.begun.wait(PATIENCE)
            yield pool, counts
            assert not under_way.done()
        finally:
            waiting.go_on.set()
        counts += under_way.result(PATIENCE).tolist()


def _expected():
    return [np.count_nonzero((TABLE["x"].to_numpy() > 0) != TABLE["yes"].to_numpy())]


@pytest.mark.parametrize("name", LOCAL)
def test_sums_return_while_a_class_is_counted(opener, name):
    engine = opener(name, TABLE)
    alone = engine.sums(_queries(engine), bits=20)
    for texts in (TEXTS, ["x > 0.25 AND n < 9"], ["x * 2"]):
        asked = [parse(text, engine.card) for text in texts]
        with _counting(engine) as (pool, counts):
            found = pool.submit(engine.sums, asked, bits=20).result(PATIENCE)
        assert counts == _expected()
        assert found == engine.sums(asked, bits=20)
    assert engine.sums(_queries(engine), bits=20) == alone
    with _counting(engine) as (pool, _):
        found = pool.submit(engine.fingerprint, b"k" * 40).result(PATIENCE)
    assert found == engine.fingerprint(b"k" * 40)


class OneForAll:
    """The planted fault: one lock for everything, held by a call from its beginning to its end."""

    def __init__(self):
        self._held, self.waited_for = threading.RLock(), threading.Event()

    def __enter__(self):
        if not self._held.acquire(blocking=False):
            self.waited_for.set()
            self._held.acquire()

    def __exit__(self, *_):
        self._held.release()


@pytest.mark.parametrize("name", LOCAL)
def test_one_lock_for_all_would_be_caught(opener, name, monkeypatch):
    engine = opener(name, TABLE)
    run, engine._lock = type(engine)._run_masked, OneForAll()

    def run_alone(self, action):
        with self._lock:
            return run(self, action)

    monkeypatch.setattr(type(engine), "_run_masked", run_alone)
    with _counting(engine) as (pool, counts):
        found = pool.submit(engine.sums, _queries(engine), bits=20)
        assert engine._lock.waited_for.wait(PATIENCE)
        assert not found.done()
    assert counts == _expected()
    assert found.result(PATIENCE) == engine.sums(_queries(engine), bits=20)


@pytest.mark.parametrize("name", LOCAL)
def test_many_threads_get_the_integers_of_one(opener, name):
    """Atoms are made, used and dropped, columns are sorted, rows are streamed, all at once and under a small cap."""
    engine = opener(name, TABLE, memory=1 << 22)
    stumps = Stumps(bounds={"x": (-3, 3)}, steps=50)
    asked = [*_queries(engine), *(parse(f"x > {cut / 10} AND n < {cut}", engine.card) for cut in range(30))]
    expected = [engine.sums([query], bits=20) for query in asked]
    errors = engine.error_counts(stumps, [Numbers("x")], parse("yes", engine.card)).tolist()

    def ask(seed):
        order = np.random.default_rng(seed).permutation(len(asked))
        return [(place, engine.sums([asked[place]], bits=20)) for place in order]

    def count(_):
        return engine.error_counts(stumps, [Numbers("x")], parse("yes", engine.card)).tolist()

    with ThreadPoolExecutor(6) as pool:
        counted = [pool.submit(count, number) for number in range(2)]
        answered = [pool.submit(ask, seed) for seed in range(4)]
        assert all(found.result(PATIENCE) == errors for found in counted)
        for found in answered:
            assert all(sums == expected[place] for place, sums in found.result(PATIENCE))


@pytest.mark.parametrize("name", LOCAL)
def test_closing_lets_calls_under_way_end_and_no_other_begin(opener, name):
    engine = opener(name, TABLE)
    with _counting(engine) as (_, counts):
        engine.close()
        with pytest.raises(CuratorClosed):
            engine.sums(_queries(engine), bits=20)
    assert counts == _expected()
    for call in (lambda: engine.sums(_queries(engine), bits=20), lambda: engine.fingerprint(b"k" * 40)):
        with pytest.raises(CuratorClosed):
            call()
    assert engine._under_way == 0
