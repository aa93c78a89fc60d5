"""The walk: how many files a warm request enters, and how often it crosses from one of our files into another.

A stranger who follows a request reads these files. The limits only ever fall; what they should come to stands beside them.
"""

import sys
import threading
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import holdtrue as ht
from service.conftest import made as serve_people
from service.living import living

ROOT = str(Path(ht.__file__).parent)
RANDOM = np.random.default_rng(5)
ROWS = {"age": RANDOM.integers(0, 100, 20_000), "bmi": RANDOM.normal(25, 5, 20_000), "sick": RANDOM.random(20_000) < 0.4}
TERMS = {"queries": 1_000, "epsilon": 1.0, "delta": 1e-6, "iid": True}

# name: files and crossings; the goal, where it is not reached
LIMITS = {
    "ask": (24, 54),
    "repeat": (8, 11),
    "score": (18, 55),
    "HTTP ask": (33, 90),
    "predict": (25, 60),
}


class Walk:
    """Counts calls into our files, in this thread and, where asked, in every thread that was started since it was made.

    A kernel that was compiled counts as the file it stands for: which of the two runs depends on how much work came before.
    A service that an earlier test left behind may start threads of its own meanwhile: only a walk over HTTP looks at others.
    """

    def __init__(self, *, threads):
        self.files, self.crossings, self._on = set(), Counter(), False
        if threads:
            threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame, event, _):
        called = frame.f_code.co_filename.replace("_compiled.py", ".py")
        if not self._on or event != "call" or not called.startswith(ROOT):
            return
        self.files.add(called)
        before = frame.f_back
        while before is not None and not before.f_code.co_filename.startswith(ROOT):
            before = before.f_back
        if before is not None and before.f_code.co_filename != called:
            self.crossings[before.f_code.co_filename, called] += 1

    def follow(self, request):
        """Return how many files a request entered, and how often it crossed between them."""
        self._on = True
        request()
        self._on = False
        return len(self.files), self.crossings.total()

    def __str__(self):
        lines = [
            f"{times:4} {one[len(ROOT) + 1 :]} -> {two[len(ROOT) + 1 :]}" for (one, two), times in self.crossings.items()
        ]
        alone = self.files - {file for pair in self.crossings for file in pair}
        return "\n".join([*sorted(lines, reverse=True), *(f"alone: {file[len(ROOT) + 1 :]}" for file in sorted(alone))])


@pytest.fixture
def walk(request):
    yield Walk(threads="http" in request.node.name)
    sys.setprofile(None)
    threading.setprofile(None)


def check(name, walk, *requests):
    """Hold the shortest walk to its limits: now and then a draw reads more bits, or a service looks after its ledgers."""
    walks = []
    for request in requests:
        walk.files, walk.crossings = set(), Counter()
        walks.append((*walk.follow(request), str(walk)))
    files, crossings, told = min(walks)
    most_files, most_crossings = LIMITS[name]
    print(f"\n{name}: {files} files, {crossings} crossings (at most {most_files}, {most_crossings})\n{told}")  # noqa: T201
    assert files <= most_files
    assert crossings <= most_crossings


@pytest.fixture
def curator(tmp_path):
    with ht.Curator(ROWS, ledger=tmp_path / "rows.ledger", **TERMS) as opened:
        for age in range(5):
            opened.ask(f"age > {age}")
        yield opened


def test_the_walk_of_an_ask_with_a_new_condition(walk, curator):
    check("ask", walk, lambda: curator.ask("age > 65"))
    assert not {pair for pair in walk.crossings if pair[::-1] in walk.crossings}  # no two files call each other


def test_the_walk_of_a_repeated_question(walk, curator):
    check("repeat", walk, lambda: curator.ask("age > 3"))


def test_the_walk_of_a_score(walk, tmp_path):
    truth = RANDOM.integers(0, 2, 2_000)
    with ht.Holdout(truth, looks=100, ledger=tmp_path / "cases.ledger") as holdout:
        for _ in range(3):
            holdout.score(RANDOM.integers(0, 2, 2_000))
        check("score", walk, lambda: holdout.score(truth))


def test_the_walk_of_a_prediction(walk, curator):
    curator.train("m", LogisticRegression(), target="sick", features=["age", "bmi"], parts=20)
    for age in range(3):
        curator.predict("m", {"age": age, "bmi": 20.0}, epsilon=0.01)
    check("predict", walk, *[partial(curator.predict, "m", {"age": age, "bmi": 20.0}, epsilon=0.01) for age in (65, 66, 67)])


def test_the_walk_of_an_ask_over_http(walk, tmp_path):
    made = serve_people(tmp_path)
    with living(made.app) as client:

        def ask(age):
            headers = {"Authorization": f"Bearer {made.keys['analyst']}", "Idempotency-Key": f"key {age}"}
            found = client.post("/v1/datasets/people/ask", json={"query": f"age > {age}"}, headers=headers)
            assert found.status_code == 200

        for age in range(5):
            ask(age)
        check("HTTP ask", walk, *[partial(ask, age) for age in range(65, 70)])
