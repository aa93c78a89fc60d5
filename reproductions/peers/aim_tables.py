"""All pairs of columns by AIM in OpenDP: run by the Python of that environment, never by ours.

``python aim_tables.py ROWS.npz PLAN.json OUT.json``: columns of codes in; for each release the fitted share of every cell of
every pair of columns, and how long it took, out.
"""  # noqa: INP001 - a script of another environment, outside the package

import json
import sys
import time
import warnings
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np


def release(codes: np.ndarray, plan: dict[str, Any]) -> dict[str, Any]:
    """Return one release of AIM with all pairs of columns as its workload."""
    dp, pl = import_module("opendp.prelude"), import_module("polars")
    dp.enable_features("contrib")
    names, sizes = plan["columns"], plan["sizes"]
    rows = pl.LazyFrame({name: codes[:, at] for at, name in enumerate(names)})
    pairs = list(combinations(names, 2))
    began = time.perf_counter()
    loss = {"rho": plan["rho"]}
    context = dp.Context.compositor(
        data=rows, privacy_unit=dp.unit_of(contributions=plan["contributions"]), privacy_loss=dp.loss_of(**loss)
    )
    table = (
        context.query(**loss)
        .contingency_table(
            keys={name: list(range(size)) for name, size in zip(names, sizes, strict=True)},
            algorithm=dp.mbi.AIM(queries=[dp.mbi.Count(by=pair) for pair in pairs]),
        )
        .release()
    )
    found = []
    for first, second in pairs:
        counts = np.array(table.project((first, second)), dtype=float)
        # A further category of each column holds what has none of the keys; it is cut off as it is public that none has.
        counts = counts[: sizes[names.index(first)], : sizes[names.index(second)]]
        found.append((counts / counts.sum()).tolist())
    return {"pairs": found, "seconds": time.perf_counter() - began}


def main(rows: str, plan: str, out: str) -> None:
    """Release as often as the plan says, and write after each; begin none after its seconds."""
    warnings.simplefilter("ignore")
    with np.load(rows) as held:
        codes = held["codes"].astype(np.int64)
    wanted = json.loads(Path(plan).read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = []
    began = time.perf_counter()
    while len(found) < wanted["releases"] and (not found or time.perf_counter() - began < wanted["seconds"]):
        found.append(release(codes, wanted))
        Path(out).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:4])
