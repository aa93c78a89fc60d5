"""Two-table questions about persons with very different numbers of visits: bias and noise beside truncated rows.

A library that bounds what a person contributes by keeping at most c rows of each counts other rows than there are. An
aggregate over all rows of a person bounds its own value, and drops nothing.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import holdtrue as ht
from reproductions.writing import write

__all__ = ["run"]

Floats = npt.NDArray[np.float64]

_EPSILON, _DELTA = 1.0, 1e-6
_PERSONS = 20_000
_CAPS = (1, 5, 20)
_RELEASES = 200
_LEVEL = 0.95
_SEED = 20261116
_OURS, _THEIRS = "Holdtrue, all rows", "OpenDP, at most c rows"


@dataclass(frozen=True, eq=False)
class _Visits:
    """Visits in random order: whose each is, and whether it was urgent."""

    owners: npt.NDArray[np.int64]
    urgent: npt.NDArray[np.bool_]

    def keep(self, most: int) -> "_Visits":
        """Return the visits with at most so many of each person, chosen by their order, which is random."""
        order = np.argsort(self.owners, kind="stable")
        starts = np.searchsorted(self.owners[order], self.owners[order])
        kept = order[np.arange(order.size) - starts < most]
        return _Visits(self.owners[kept], self.urgent[kept])

    def count_urgent(self) -> Floats:
        """Return how many urgent visits each person has."""
        return np.bincount(self.owners[self.urgent], minlength=_PERSONS).astype(np.float64)


def run(data: Path | None, out: Path, *, share: float = 1.0) -> None:
    """Write units.md; ``share`` of the releases, for a quick look."""
    del data
    releases = max(5, round(_RELEASES * share))
    visits = _make_visits()
    counts = visits.count_urgent()
    truths = {
        "share of persons with an urgent visit": float((counts > 0).mean()),
        "urgent visits per person": float(counts.mean()),
    }
    rows: list[list[str]] = []

    def add(place: int, name: str, cap: str, centre: float, noise: Floats) -> None:
        question, truth = list(truths.items())[place]
        width = float(np.quantile(np.abs(noise), _LEVEL))
        rows.append([question, name, cap, f"{truth:.4f}", f"{centre - truth:+.4f}", f"{width:.2g}"])

    any_visit = float((counts > 0).mean())
    answers = _release_here(visits, "visits.ANY(urgent)", 1.0, releases)
    add(0, _OURS, "none", any_visit, answers - any_visit)
    for cap in _CAPS:
        kept = visits.keep(cap).count_urgent()
        add(0, _THEIRS, str(cap), float((kept > 0).mean()), _draw_opendp(1 / _PERSONS, releases))
    for cap in _CAPS:
        capped = float(np.minimum(counts, cap).mean())
        answers = _release_here(visits, f"visits.COUNT(urgent) / {cap}", float(cap), releases)
        add(1, _OURS, str(cap), capped, answers - capped)
        kept = visits.keep(cap).count_urgent()
        add(1, _THEIRS, str(cap), float(kept.mean()), _draw_opendp(cap / _PERSONS, releases))
    header = ["question", "library", "c", "exact", "bias", "95 % of noise within"]
    words = _WORDS.format(releases=releases, visits=f"{visits.owners.size:,}")
    write(out / "units.md", title="Persons with many rows at equal privacy", words=words, header=header, rows=rows)


_WORDS = f"""\
{_PERSONS:,} made persons with {{visits}} visits: their number is Zipf(2.2), at most 1,000, and 0 for one in five; a visit of
somebody with more than ten is urgent with probability 0.3, of others with 0.1. One answer spends ({_EPSILON:g}, {_DELTA:g})
under one relation, **everything of one person replaced**, with the number of persons public.
Errors are of {{releases}} releases.

- Holdtrue aggregates all rows of a person: `ANY(urgent)` has no cap and no bias; `COUNT(urgent) / c` counts at most c of
  somebody's urgent visits. It counts in mu-GDP.
- OpenDP bounds a person's contribution by keeping at most c rows before anything is asked, which drops urgent visits with
  the others: both questions are biased by it. Its Gaussian mechanism gets the sensitivity of what is left, and zCDP is
  converted."""


def _make_visits() -> _Visits:
    random = np.random.default_rng(_SEED)  # noqa: TID251 - data to be measured on
    sizes = np.where(random.random(_PERSONS) < 0.2, 0, random.zipf(2.2, _PERSONS).clip(max=1000))
    owners = random.permutation(np.repeat(np.arange(_PERSONS), sizes))
    return _Visits(owners, random.random(owners.size) < np.where(sizes[owners] > 10, 0.3, 0.1))


def _release_here(visits: _Visits, query: str, scale: float, releases: int) -> Floats:
    """Return answers, each of a ledger of its own that spends everything on it."""
    given: dict[str, Any] = {"iid": False, "cap": "privacy", "reserve": 0, "epsilon": _EPSILON, "delta": _DELTA}
    plan = ht.plan(rows=_PERSONS, queries=1, **given)
    people = {"person": np.arange(_PERSONS)}
    tables = {"visits": {"person": visits.owners, "urgent": visits.urgent}}
    found = []
    for _ in range(releases):
        with ht.Curator(people, plan=plan, unit="person", tables=tables) as curator:
            found.append(scale * curator.ask(query).value)
    return np.array(found)


def _draw_opendp(sensitivity: float, releases: int) -> Floats:
    """Return the noise of OpenDP's Gaussian mechanism on one number, at the whole budget."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "idealized-numerics")
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)

    def measure(scale: float) -> Any:  # noqa: ANN401 - a measurement of OpenDP
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale)), _DELTA)

    scale = dp.binary_search(lambda at: bool(measure(at).map(sensitivity)[0] <= _EPSILON), (sensitivity, 1e3 * sensitivity))
    release = dp.m.make_gaussian(*space, scale=scale)
    return np.array([release(0.0) for _ in range(releases)])
