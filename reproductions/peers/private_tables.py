"""Counts, means and a median by diffprivlib: run by the Python of diffprivlib's own environment, never by ours.

``python private_tables.py ROWS.npz PLAN.json OUT.json``: groups, amounts and values in; for each number of releases one list
of counts by group, of means by group, and of medians out.
"""  # noqa: INP001 - a script of another environment, outside the package

import json
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np


def release(table: dict[str, Any], plan: dict[str, Any]) -> dict[str, Any]:
    """Return one release of each: counts and means, two of which a replaced row moves, and a median."""
    tools = import_module("diffprivlib.tools")
    each = plan["each"] / 2
    groups, ends = table["groups"], np.arange(plan["groups"] + 1) - 0.5
    counts, _ = tools.histogram(groups, epsilon=each, bins=ends, range=(ends[0], ends[-1]))
    means = [
        tools.mean(table["amounts"][groups == place], epsilon=each, bounds=tuple(plan["bounds"]))
        for place in range(plan["groups"])
    ]
    median = tools.median(table["values"], epsilon=plan["each"], bounds=tuple(plan["ends"]))
    return {"counts": [float(count) for count in counts], "means": [float(mean) for mean in means], "median": float(median)}


def main(rows: str, plan: str, out: str) -> None:
    """Release as often as the plan says."""
    warnings.simplefilter("ignore")
    with np.load(rows) as held:
        table = {name: held[name] for name in ("groups", "amounts", "values")}
    wanted = json.loads(Path(plan).read_text(encoding="utf-8"))
    accountant = import_module("diffprivlib").BudgetAccountant(wanted["epsilon"], wanted["delta"])
    wanted["each"] = wanted["epsilon"] if wanted["sharing"] == 1 else accountant.remaining(wanted["sharing"])[0]
    Path(out).write_text(json.dumps([release(table, wanted) for _ in range(wanted["releases"])]), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:4])
