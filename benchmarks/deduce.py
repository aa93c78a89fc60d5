"""What follows from earlier answers, at 2^12 atoms: one whole call of deduce, after 10, 100 and 400 answers."""

import time

import numpy as np

import holdtrue as ht
from benchmarks.peers import show

__all__ = ["run"]

_ROWS = 20_000
_NAMES = "abcdef"
_LIMIT = 100


def run() -> None:
    """Print milliseconds a deduction, the median and the longest of 20; wanted is a median below 100."""
    random = np.random.default_rng(1)  # noqa: TID251 - data to be measured on
    rows = {name: random.integers(0, 3, _ROWS) for name in _NAMES}
    lines = []
    with ht.Curator(rows, queries=1000, iid=True) as curator:
        # Each column is 0, 1, 2, or something else: 4^6 = 2^12 atoms.
        curator.ask([f"{name} = {code}" for name in _NAMES for code in range(3)])
        asked = 3 * len(_NAMES)
        for answers in (asked, 100, 400):
            while asked < answers:
                curator.ask(_write_question(random))
                asked += 1
            times = []
            for _ in range(20):
                text = _write_question(random)
                began = time.perf_counter()
                found = curator.deduce(text)
                times.append(time.perf_counter() - began)
            middle, longest = 1e3 * float(np.median(times)), 1e3 * max(times)
            lines.append([f"{answers}", f"{found.atoms:,}", f"{middle:.0f}", f"{longest:.0f}", f"below {_LIMIT}"])
    show("milliseconds a deduction", ["answers", "atoms", "median", "longest", "wanted"], lines)


def _write_question(random: "np.random.Generator") -> str:  # noqa: TID251 - questions to be measured on
    chosen = random.permutation(len(_NAMES))[: random.integers(1, 4)].tolist()
    return " AND ".join(f"{_NAMES[at]} = {random.integers(0, 2)}" for at in chosen)
