"""Every bench, one after the other, as this machine runs them."""

import subprocess
import sys
from pathlib import Path

__all__ = ["run"]


def run(data: Path | None, out: Path) -> None:
    """Write benches.txt. Takes long, and needs a machine that does nothing else."""
    del data
    with (out / "benches.txt").open("w", encoding="utf-8") as file:
        subprocess.run([sys.executable, "-m", "benchmarks", "all"], stdout=file, check=True)
    print(f"written to {out / 'benches.txt'}", flush=True)
