"""A whole ask, from text to answer: parse, plan, charge, measure, draw, respond, store; without the disk and with it."""

import itertools
import os
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from benchmarks.peers import show
from holdtrue.curator import Curator
from holdtrue.kernels import bitmaps

__all__ = ["run"]

_ROWS = 10**6
_ASKS = 1500
_THREADS = 8
_TURNS = 3
_RNG = np.random.default_rng(1)  # noqa: TID251 - data to be measured on


def run() -> None:
    """Print the time of one adaptive question over known atoms, by where the ledger is, and asks a second by threads."""
    bitmaps.compiled(1 << 40)
    table = {f"x{number}": _RNG.random(_ROWS) for number in range(8)}
    atoms = [f"x{number} > {cut / 10}" for number in range(8) for cut in range(1, 10)]
    pairs = list(itertools.combinations(atoms, 2))
    texts = [" AND ".join(pairs[place]) for place in _RNG.permutation(len(pairs))[:_ASKS]]
    memory = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - a ledger in memory is the point
    rows = [_row("ledger in this process", table, texts, None, target=" (<= 150 µs)")]
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        rows.append(_row("SQLite in memory: no disk to wait for", table, texts, Path(folder) / "x.ledger", " (<= 400 µs)"))
    with tempfile.TemporaryDirectory() as folder:
        rows.append(_row("SQLite on disk, every charge durable", table, texts, Path(folder) / "x.ledger"))
    show(f"one whole ask, {_ROWS:,} rows, two known atoms", ["where", "least", "median"], rows)
    with tempfile.TemporaryDirectory() as folder:
        _show_threads(table, texts, Path(folder) / "x.ledger")


def _row(name: str, table: Mapping[str, object], texts: list[str], ledger: Path | None, target: str = "") -> list[str]:
    times = []
    with Curator(table, queries=2 * _ASKS, epsilon=1, delta=1e-6, iid=True, ledger=ledger) as curator:
        for text in texts:
            start = time.perf_counter()
            curator.ask(text)
            times.append(time.perf_counter() - start)
    later = np.array(times[300:]) * 1e6
    return [name, f"{later.min():,.0f} µs", f"{np.median(later):,.0f} µs{target}"]


def _show_threads(table: Mapping[str, object], texts: list[str], ledger: Path) -> None:
    """Print durable asks a second of one thread and of several on the same curator, the best of some turns each."""
    best = {1: 0.0, _THREADS: 0.0}
    with Curator(table, queries=2 * _ASKS, epsilon=1, delta=1e-6, iid=True, ledger=ledger) as curator:
        remaining = iter(texts)
        for threads in (1, _THREADS) * _TURNS:
            shares = [list(itertools.islice(remaining, _ASKS // _TURNS // 10)) for _ in range(threads)]
            running = [
                threading.Thread(target=lambda share=share: [curator.ask(text) for text in share]) for share in shares
            ]
            start = time.perf_counter()
            for thread in running:
                thread.start()
            for thread in running:
                thread.join()
            best[threads] = max(best[threads], sum(map(len, shares)) / (time.perf_counter() - start))
    rows = [
        ["one thread", f"{best[1]:,.0f}", ""],
        [f"{_THREADS} threads", f"{best[_THREADS]:,.0f}", f"{best[_THREADS] / best[1]:.1f} (>= 4)"],
    ]
    show("durable asks a second on one curator", ["", "a second", "ratio"], rows)
