"""Train diffprivlib's logistic regression: run by the Python of diffprivlib's own environment, never by ours.

``python private_regressions.py ROWS.npz PLAN.json OUT.json``: rows, labels, points and their truth in, and for each setting
of the plan one accuracy a training out. Settings hold epsilon, C, data_norm and how many trainings.
"""  # noqa: INP001 - a script of another environment, outside the package

import json
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np


def accuracy(table: dict[str, Any], setting: dict[str, Any], seed: int) -> float:
    """Return how often one private model is right; of a linear one, 1 less half of how far it is off on the mean."""
    models = import_module("diffprivlib.models")
    warnings.simplefilter("ignore")
    if setting.get("model") == "linear":
        linear = models.LinearRegression(epsilon=setting["epsilon"], bounds_X=(-1, 1), bounds_y=(-1, 1), random_state=seed)
        said = np.clip(linear.fit(table["rows"], table["labels"]).predict(table["points"]), -1, 1)
        return 1 - float(np.mean(np.abs(said - table["truth"]))) / 2
    model = models.LogisticRegression(
        epsilon=setting["epsilon"], data_norm=setting["data_norm"], C=setting["C"], random_state=seed
    )
    return float(model.fit(table["rows"], table["labels"]).score(table["points"], table["truth"]))


def main(rows: str, plan: str, out: str) -> None:
    """Train as often as each setting of a plan says, on all cores."""
    joblib = import_module("joblib")
    with np.load(rows) as held:
        table = {name: held[name] for name in ("rows", "labels", "points", "truth")}
    settings = json.loads(Path(plan).read_text(encoding="utf-8"))
    jobs = [(number, seed) for number, setting in enumerate(settings) for seed in range(setting["trainings"])]
    found = joblib.Parallel(n_jobs=-1)(joblib.delayed(accuracy)(table, settings[number], seed) for number, seed in jobs)
    answers: list[list[float]] = [[] for _ in settings]
    for (number, _), share in zip(jobs, found, strict=True):
        answers[number].append(share)
    Path(out).write_text(json.dumps(answers), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:4])
