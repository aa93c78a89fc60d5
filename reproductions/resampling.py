"""How often intervals of means and quantiles miss, on samples drawn again and again from rows that are taken as everybody.

The population is the real table where there is one, and a made one besides; a sample is drawn from it with replacement, so
that its rows are independent. A run counts as a miss if any of its intervals does.
"""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import betaincinv

import holdtrue as ht
from holdtrue.planning.quantiles import read_grid
from reproductions.tables import People, find_people
from reproductions.writing import write

__all__ = ["run"]

_SEED = 20211009
_RUNS, _ROWS, _QUERIES = 400, 6000, 60
_LEVELS = (0.1, 0.5, 0.9)


def run(data: Path | None, out: Path, *, share: float = 1.0) -> None:
    """Write resampling.md; ``share`` of the runs, for a quick look."""
    runs = max(2, round(_RUNS * share))
    rows = [line for people in find_people(data) for line in _count_misses(people, runs)]
    levels = ", ".join(f"{level:g}" for level in _LEVELS)
    words = (
        f"Runs with any interval that misses the population, of {runs} each at beta = 0.05: {_ROWS:,} rows drawn with "
        f"replacement, a plan of {_QUERIES} questions, seeds {_SEED}/0..{runs - 1}. Means are those of all groups at once, "
        f"by one release; quantiles are {levels} of one column, by a search and by a curve. The upper end of the rate is "
        "Clopper and Pearson's at 97.5 %."
    )
    header = ["population", "question", "runs", "misses", "rate at most"]
    write(out / "resampling.md", title="Coverage on resampled rows", words=words, header=header, rows=rows)


def _count_misses(people: People, runs: int) -> list[list[str]]:
    plan = ht.plan(rows=_ROWS, queries=_QUERIES)
    columns = {name: np.asarray(column) for name, column in people.columns.items()}
    low, high = people.ends
    step = (high - low) / 100
    truths = {"means by group": people.means.tolist()}
    truths |= dict.fromkeys(("quantiles by search", "quantiles by curve"), _find_quantiles(people, step))
    missed = dict.fromkeys(truths, 0)
    for seed in range(runs):
        random = np.random.default_rng([_SEED, seed])  # noqa: TID251 - a sample needs no secrecy
        drawn = random.integers(0, people.rows, _ROWS)
        sample = {name: column[drawn] for name, column in columns.items()}
        with ht.Curator(sample, plan=plan, iid=True, labels={"kind": list(people.labels)}) as curator:
            told = {"means by group": curator.mean("amount", low=people.bounds[0], high=people.bounds[1], by="kind")}
            grid: dict[str, Any] = {"low": low, "high": high, "step": step}
            found = {
                f"quantiles by {way}": curator.quantile("value", _LEVELS, method=way, **grid) for way in ("search", "curve")
            }
        for question, response in (told | found).items():
            ends = zip(response.low or (), response.high or (), truths[question], strict=True)
            missed[question] += any(not first <= truth <= last for first, last, truth in ends)
    return [[people.name, each, str(runs), str(missed[each]), _bound(missed[each], runs)] for each in truths]


def _find_quantiles(people: People, step: float) -> list[float]:
    """Return the first point of the grid that each level of the population's rows is at or below: as a curator has it.

    The points are those of the grid itself: low + k step in doubles may be next to one, and beside an interval that it ends.
    """
    ranks = [int(np.ceil(level * people.rows)) - 1 for level in _LEVELS]
    grid = read_grid(*people.ends, step)
    points = np.array([grid.find_point(place) for place in range(grid.points)])
    values = np.minimum(np.sort(people.values)[ranks], points[-1])
    return [float(point) for point in points[np.searchsorted(points, values)]]


def _bound(missed: int, runs: int) -> str:
    return "1" if missed == runs else f"{float(betaincinv(missed + 1, runs - missed, 0.975)):.4f}"
