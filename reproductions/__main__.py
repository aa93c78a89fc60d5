"""Run reproductions by name, or ``all``: ``python -m reproductions learn --data FOLDER --out reports``.

Each writes tables into the folder of reports, with the machine described. Those that need data say so where there is none.
"""

import argparse
import importlib
import pkgutil
import platform
import sys
from pathlib import Path

import numpy as np
import scipy
import sklearn

import holdtrue
import reproductions
from reproductions.writing import MACHINE

_SHARED = ("__main__", "environments", "writing")
names = sorted(module.name for module in pkgutil.iter_modules(reproductions.__path__) if module.name not in _SHARED)
parser = argparse.ArgumentParser(prog="reproductions")
parser.add_argument("name", choices=[*names, "all"])
parser.add_argument(
    "--data", type=Path, default=None, help="the folder with the real data; without it, bundled and made ones"
)
parser.add_argument("--out", type=Path, default=Path("reports"))
given = parser.parse_args()
if given.data is not None and not given.data.is_dir():
    sys.exit(f"there is no folder {given.data}")
given.out.mkdir(parents=True, exist_ok=True)
MACHINE.append(
    f"Holdtrue {holdtrue.__version__}, Python {platform.python_version()}, NumPy {np.__version__}, "
    f"SciPy {scipy.__version__}, scikit-learn {sklearn.__version__}, {platform.machine()}, {platform.system()}"
)
for name in names if given.name == "all" else [given.name]:
    print(f"# {name}", flush=True)
    importlib.import_module(f"reproductions.{name}").run(given.data, given.out)
