"""A loop of scores on one holdout of 100,000 cases: what each costs on disk, and what beside the durable writes."""

import os
import tempfile
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.peers import show
from holdtrue.holdouts import Holdout

__all__ = ["run"]

_CASES = 100_000
_LOOKS = 1000
_RNG = np.random.default_rng(1)  # noqa: TID251 - data to be measured on


def run() -> None:
    """Print the time of one score by where the ledger is; in memory nothing is waited for but everything is done."""
    truth = _RNG.integers(0, 2, _CASES)
    memory = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - a ledger in memory is the point
    rows = [_row("ledger in this process (< 1 ms)", truth, None)]
    for name, place in (
        ("SQLite in memory: no disk to wait for", memory),
        ("SQLite on disk, every score durable", None),
    ):
        with tempfile.TemporaryDirectory(dir=place) as folder:
            rows.append(_row(name, truth, Path(folder) / "scores.ledger"))
    show(f"one score of {_CASES:,} cases, {_LOOKS:,} in a loop", ["where", "mean", "median"], rows)


def _row(name: str, truth: npt.NDArray[np.int64], ledger: Path | None) -> list[str]:
    times = []
    submission = _RNG.integers(0, 2, _CASES)
    with Holdout(truth, looks=_LOOKS + 1, ledger=ledger) as holdout:
        holdout.score(submission)
        for look in range(_LOOKS):
            submission = submission.copy()
            submission[look * 7 % _CASES] ^= 1
            start = time.perf_counter()
            holdout.score(submission)
            times.append(time.perf_counter() - start)
    return [name, f"{np.mean(times) * 1e3:.2f} ms", f"{np.median(times) * 1e3:.2f} ms"]
