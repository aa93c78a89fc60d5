"""What `import holdtrue` costs in processor time, beside its largest dependency."""

import subprocess
import sys

from benchmarks.peers import show

__all__ = ["run"]


def run() -> None:
    """Print processor seconds, the least of several fresh processes."""
    rows = [[name, f"{_seconds(name):.3f}"] for name in ("numpy", "holdtrue", "opendp.prelude")]
    show("processor seconds of a first import (holdtrue: < 0.3)", ["module", "seconds"], rows)


def _seconds(name: str) -> float:
    code = f"import time; start = time.process_time(); import {name}; print(time.process_time() - start)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(7)]  # noqa: S603
    return min(float(done.stdout) for done in runs)
