"""What `import holdtrue` costs in processor time, beside its largest dependency."""

import subprocess
import sys

from benchmarks.peers import show

__all__ = ["run"]


def run() -> None:
    """Print processor seconds, the least of several fresh processes."""
    rows = [[name, f"{_seconds(f'import {name}'):.3f}"] for name in ("numpy", "holdtrue", "opendp.prelude")]
    rows.insert(2, ["holdtrue, every public name used", f"{_seconds('from holdtrue import *'):.3f}"])
    show("processor seconds of a first import (holdtrue: < 0.3)", ["module", "seconds"], rows)


def _seconds(statement: str) -> float:
    code = f"import time; start = time.process_time(); {statement}; print(time.process_time() - start)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(7)]  # noqa: S603
    return min(float(done.stdout) for done in runs)
