"""Counts by group, means by group and a median: how far noise moves them at equal privacy, beside three peers.

One release spends the whole of (1, 1e-6) by itself, or a hundred of them share it. Two tables of real or made rows are
compared; see the words below for the neighbours and the accounting of each library.
"""

import csv
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import holdtrue as ht
from holdtrue.planning.plans import Plan
from holdtrue.planning.quantiles import price_search, read_grid
from holdtrue.planning.tables import find_ratio, price_means
from holdtrue.verbs import Standing
from holdtrue.verbs.quantiles import plan_picks, read_task
from reproductions.environments import find_peer, run_command
from reproductions.writing import write

__all__ = ["People", "find_people", "run"]

Floats = npt.NDArray[np.float64]

_EPSILON, _DELTA = 1.0, 1e-6
_RELEASES = 100
_PRICE = 2  # questions, the least that a table costs
_SHARING = (1, 100)  # how many such releases one budget pays for
_LEVEL = 0.95
_SEED = 20210619
_PICKED = "Holdtrue, exponential"
_PURE = "Holdtrue, pure epsilon"
_POINT = "Holdtrue, point"


@dataclass(frozen=True, eq=False)
class People:
    """A table: a group, an amount within public bounds and a value on a public grid for each row."""

    name: str
    labels: tuple[str, ...]
    groups: npt.NDArray[np.int64]
    amounts: Floats
    bounds: tuple[float, float]
    values: Floats
    ends: tuple[float, float]
    step: float

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return len(self.groups)

    @property
    def columns(self) -> dict[str, object]:
        """Return the columns as a curator takes them."""
        return {"kind": np.array(self.labels)[self.groups], "amount": self.amounts, "value": self.values}

    @property
    def counts(self) -> Floats:
        """Return the exact count of each group."""
        return np.bincount(self.groups, minlength=len(self.labels)).astype(np.float64)

    @property
    def means(self) -> Floats:
        """Return the exact mean of each group, amounts clamped to their bounds."""
        return np.bincount(self.groups, weights=np.clip(self.amounts, *self.bounds)) / self.counts

    def find_ranks(self, values: npt.ArrayLike) -> Floats:
        """Return by how many rows each value misses the median."""
        below, upto = (np.searchsorted(np.sort(self.values), values, side=side) for side in ("left", "right"))
        ranks: Floats = np.maximum(0.0, np.maximum(below - self.rows / 2, self.rows / 2 - upto))
        return ranks


Errors = Mapping[str, Floats]
"""By question: how far each released number is from the exact one."""


def run(data: Path | None, out: Path, *, share: float = 1.0) -> None:
    """Write tables.md; ``share`` of the releases, for a quick look."""
    releases = max(5, round(_RELEASES * share))
    (python, reason), (spark, other) = find_peer("diffprivlib"), find_peer("tmlt.analytics")
    rows, given = [], find_people(data)
    print("noise of Tumult", flush=True)
    tumult = iter(_compute_tumult(given, spark))
    for people in given:
        for sharing in _SHARING:
            print(people.name, sharing, flush=True)
            found: dict[str, Errors] = {"Holdtrue": _release_here(people, releases, sharing)}
            if sharing == 1:
                found[_PURE] = _release_here(people, releases, sharing, pure=True)
            found[_PICKED] = {"median": _pick_medians(people, releases, sharing, method="exponential")}
            found[_POINT] = {"median": _pick_medians(people, releases, sharing, method="point")}
            found["OpenDP, distance 2"] = _release_opendp(people, releases, sharing, row=2.0)
            found["OpenDP, sensitivity by hand"] = _release_opendp(people, releases, sharing, row=math.sqrt(2))
            if python is not None:
                found["diffprivlib"] = _release_diffprivlib(people, releases, sharing, python)
            found["Tumult"] = next(tumult)
            rows += _write_rows(people, sharing, found, _find_population(people, sharing))
    header = ["rows", "releases", "question", "library", "95 % of noise within", "population, half-width"]
    words = "\n\n".join([_WORDS.format(releases=releases), f"Peers in environments of their own: {reason}; {other}."])
    write(out / "tables.md", title="Tables, means and medians at equal privacy", words=words, header=header, rows=rows)
    if data is not None:
        _write_widths(data, out)


def _write_rows(people: People, sharing: int, found: Mapping[str, Errors], population: Mapping[str, str]) -> list[list[str]]:
    rows = []
    for question, words in _QUESTIONS.items():
        for name, errors in found.items():
            if question in errors:
                width = float(np.quantile(np.abs(errors[question]), _LEVEL))
                known = population.get(question if name == "Holdtrue" else name, "none")
                rows.append([people.name, str(sharing), words, name, f"{width:.4g}", known])
    return rows


_QUESTIONS = {
    "counts": "counts by group, in rows",
    "means": "means by group, with the shares outside of the bounds",
    "shares": "means by group, amounts known to be inside",
    "median": "a median, in rows from the middle",
}
_WORDS = f"""\
One release, or each of 100, spends its part of ({_EPSILON:g}, {_DELTA:g}) under one relation,
**one row replaced by any other**, with the number
of rows public. Errors are those of {{releases}} releases against the exact numbers of the same rows (noise only); the
population's half-width is the mean one at 95 %, for all groups at once, of a plan that keeps to the same cap.

- Holdtrue counts in mu-GDP, exactly: a row that moves changes two cells, so all groups together have the noise of
  sensitivity √2. Tables and means pay for two questions each, which spend the whole budget; on a pure ledger, by
  Laplace noise of an L1 sensitivity of 2, counts have the law of diffprivlib's, and means, whose groups keep their sizes
  private, less noise than its means. The median is a
  search of up to 2 log2(points) questions, all of which stay answered, and whose interval is the narrowest for its cost
  (U3.2); "exponential" picks two ends by the exponential mechanism, each charged in mu by its bounded range (T2b), and
  answers with the middle between them: a number nearer to the median of the rows, in an interval that is wider. The
  plans of the two spend different amounts for the population, which stand beside the half-widths. "Point" is one pick
  with the whole budget and no interval, which is what the peers release: alone in pure epsilon by permute-and-flip, a
  hundred in zCDP by the exponential mechanism.
- OpenDP counts in zCDP and converts. Its relation is adding or removing a row, so a replaced row is distance 2; its
  count_by_categories then allows for 2 in one group. "By hand" gives its Gaussian mechanism the sensitivity √2 of a
  replaced row, which its user has to prove. Means are centred sums and counts, half of the budget each. The median
  chooses among the points of the same grid, by noisy max, in pure epsilon where it is alone.
- diffprivlib is pure epsilon, and 100 releases get the epsilon each that its own accountant gives them.
  Its histogram has noise for one count, so that a replaced row, which moves two, gets half
  of epsilon; its median has it all. Its mean treats the size of each group as public, which a replaced row changes:
  each of the two groups gets half of epsilon, and the sizes stay unprotected.
- Tumult (in zCDP) is computed and not run as often as the others: a session says which discrete Gaussian noise it would
  add for AddMaxRows(2), and the errors are those of normal laws of these variances. An average spends half of rho on
  the sum around the middle of the bounds and half on the count. rho is that of ({_EPSILON:g}, {_DELTA:g}) by the
  conversion that OpenDP uses. Its quantile is an exponential mechanism in epsilon, as diffprivlib's is.

Under its own relation (a row added or removed, at the same epsilon) a peer has half of the noise that stands here in
the lines of distance 2, and of diffprivlib's counts and means: its promise is then another one, which protects against
a replaced row by twice its epsilon only."""


def find_people(data: Path | None) -> list[People]:
    """Return Adult where there are data, and rows that are made by a public recipe."""
    made = [_make_bank()]
    return made if data is None else [_read_adult(data / "adult" / "adult.data"), *made]


def _write_widths(data: Path, out: Path) -> None:
    """Write widths.md: how wide the mean hours of Adult's men and women are by plan and bounds, noise set to 0 (U2)."""
    lines = [line for name in ("data", "test") for line in _read_lines(data / "adult" / f"adult.{name}")]
    men, hours = np.array([line[9] == "Male" for line in lines]), np.array([float(line[12]) for line in lines])
    groups = {"all": np.ones(len(lines), dtype=bool), "men": men, "women": ~men}
    rows = []
    for (queries, low, high), sheet in _SHEET.items():
        plan = ht.plan(rows=len(lines), queries=queries)
        price, found = price_means(plan, 2, outside=False), {}
        scaled = (np.clip(hours, low, high) - low) / (high - low)
        for name, chosen in groups.items():
            shares = float((scaled * chosen).mean()), float(((1 - scaled) * chosen).mean())
            found[name] = find_ratio(plan, price, shares[:1], shares[1:])
        halves = [_half(ends.population, high - low) for ends in found.values()]
        near = [_half(found[name].sample, high - low) for name in ("men", "women")]
        first, second = (found[name].population or (0.0, 1.0) for name in ("men", "women"))
        apart = f"[{(high - low) * (first[0] - second[1]):.1f}, {(high - low) * (first[1] - second[0]):.1f}]"
        plans = f"{queries} questions, {low:g} to {high:g}"
        rows.append([plans, str(price.questions), *halves, apart, ", ".join(near), sheet])
    header = ["plan and bounds", "questions", "all", "men", "women", "men - women", "these rows: men, women", "beta split"]
    words = (
        f"Half-widths in hours of means of {len(lines):,} people, for the population at 95 %, all at once with all planned "
        f"answers; means are {', '.join(f'{hours[chosen].mean():.2f} ({name})' for name, chosen in groups.items())}. In the "
        "last column: all, men and women by plans that split beta, two questions for both groups (U2)."
    )
    write(out / "widths.md", title="Widths of conditional means on Adult", words=words, header=header, rows=rows)


_SHEET = {(500, 0, 100): "6.7, 9.7, 16.5", (50, 0, 100): "3.6, 5.1, 8.8", (50, 20, 60): "1.4, 2.1, 3.5"}


def _half(ends: tuple[float, float] | None, width: float) -> str:
    low, high = ends or (0.0, 1.0)
    return f"{(high - low) / 2 * width:.2f}"


def _read_lines(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8") as file:
        return [line for line in csv.reader(file, skipinitialspace=True) if len(line) > 1]


def _read_adult(path: Path) -> People:
    lines, labels = _read_lines(path), ("Husband", "Not-in-family", "Other-relative", "Own-child", "Unmarried", "Wife")
    groups = np.array([labels.index(line[7]) for line in lines])
    hours, weights = (np.array([float(line[place]) for line in lines]) for place in (12, 2))
    return People("Adult, by relationship", labels, groups, hours, (0.0, 99.0), weights, (0.0, 1_500_000.0), 100.0)


def _make_bank() -> People:
    """Return 45,211 made clients of a bank: twelve jobs, skewed ages, balances with a long tail and some overdrawn."""
    random = np.random.default_rng(_SEED)  # noqa: TID251 - data to be measured on
    number, jobs = 45_211, (21, 22, 17, 11, 9, 5, 4, 3.5, 3, 2, 1.8, 0.7)
    groups = random.choice(len(jobs), number, p=np.array(jobs) / sum(jobs))
    ages = np.clip(np.round(18 + random.gamma(4, 5.7, number)), 18, 95)
    balances: Floats = np.round(np.clip(random.lognormal(6.5, 1.3, number) - 300, -8000, 100_000)).astype(np.float64)
    labels = tuple(f"job {place}" for place in range(len(jobs)))
    return People("bank-like, by job", labels, groups, ages, (18.0, 95.0), balances, (-8000.0, 8383.0), 1.0)


def _plans(people: People, sharing: int, *, iid: bool = False, pure: bool = False) -> dict[str, Plan]:
    """Return the plan of each question; on a pure ledger, where a search is no way to find a median, of the others.

    So many releases spend the whole budget: each at the price of two questions, or a search at its longest.
    """
    how: dict[str, Any] = {"pure": True, "cap": "privacy"} if pure else {"delta": _DELTA, "iid": iid}
    given: dict[str, Any] = {"rows": people.rows, "epsilon": _EPSILON, **how}
    plans = dict.fromkeys(("counts", "means", "shares"), ht.plan(queries=_PRICE * sharing, **given))
    if pure:
        return plans
    grid = read_grid(*people.ends, people.step)
    longest = price_search(plans["counts"], grid, 1, filtered=False, left=10**6).asks
    return plans | {"median": ht.plan(queries=longest * sharing, **given)}


def _plan_picks(people: People, sharing: int, *, iid: bool = False, method: str = "exponential") -> Plan:
    """Return a plan that leaves nearly all of its budget to so many uses.

    A point alone is best in pure epsilon, many of them in zCDP: picks have a bounded range, which costs less there (T2b).
    """
    given: dict[str, Any] = {"rows": people.rows, "queries": 1, "epsilon": _EPSILON, "reserve": 0.999, "uses": sharing}
    if method == "point":
        how = {"pure": True} if sharing == 1 else {"delta": _DELTA, "method": "joint-gaussian-zcdp"}
        return ht.plan(**given, **how, cap="privacy")
    return ht.plan(**given, delta=_DELTA, iid=iid)


def _pick_median(curator: ht.Curator, people: People, method: str) -> Any:  # noqa: ANN401 - quantiles
    return curator.median("value", low=people.ends[0], high=people.ends[1], step=people.step, method=method)


def _pick_medians(people: People, releases: int, sharing: int, *, method: str) -> Floats:
    """Return the errors of one whole release, and of further draws from the same counts: they alone take time."""
    plan = _plan_picks(people, sharing, method=method)
    with _open(people, plan) as curator:
        first = _pick_median(curator, people, method)
        grid: dict[str, Any] = {"low": people.ends[0], "high": people.ends[1], "step": people.step}
        release = plan_picks(curator.pipeline, read_task(curator.pipeline, "value", 0.5, method=method, **grid))
        sums = curator.pipeline.engine.sums(release.queries, bits=plan.bits)
    found = list(first.values)
    for _ in range(releases - 1):
        (told,) = release.respond(release.draw(sums), first.certificate, Standing(0, 0, 0))
        found += told.values  # type: ignore[union-attr]  # quantiles
    return people.find_ranks(found)


def _ask(curator: ht.Curator, people: People, question: str) -> Any:  # noqa: ANN401 - a table, means or quantiles
    """Ask one of the questions of a curator."""
    low, high = people.bounds
    match question:
        case "counts":
            return curator.table("kind", questions=_PRICE)
        case "means":
            return curator.mean("amount", low=low, high=high, by="kind", questions=_PRICE)
        case "shares":
            return curator.ask(f"(amount - {low}) / {high - low}", by="kind", questions=_PRICE)
        case _:
            return curator.median("value", low=people.ends[0], high=people.ends[1], step=people.step, method="search")


def _open(people: People, plan: Plan) -> ht.Curator:
    bounds = {"amount": people.bounds}
    return ht.Curator(people.columns, plan=plan, labels={"kind": list(people.labels)}, bounds=bounds)


def _release_here(people: People, releases: int, sharing: int, *, pure: bool = False) -> Errors:
    low, high = people.bounds
    groups = len(people.labels)
    found: dict[str, list[Floats]] = {}
    for question, plan in _plans(people, sharing, pure=pure).items():
        for _ in range(releases):
            with _open(people, plan) as curator:
                values = np.array(_ask(curator, people, question).values)
            error = {
                "counts": lambda told: told[:groups] * people.rows - people.counts,
                "means": lambda told: told - people.means,
                "shares": lambda told: low + (high - low) * told - people.means,
                "median": people.find_ranks,
            }[question](values)
            found.setdefault(question, []).append(np.asarray(error))
    return {question: np.concatenate(errors) for question, errors in found.items()}


def _find_population(people: People, sharing: int) -> dict[str, str]:
    """Return the mean half-width of the intervals for the population, and what the plan spends."""
    found = {}
    for question, plan in _plans(people, sharing, iid=True).items():
        with _open(people, plan) as curator:
            told = _ask(curator, people, question)
            spent = curator.budget.epsilon(_DELTA)
        half = (np.array(told.high) - np.array(told.low)).mean() / 2
        unit, scale = {
            "counts": ("rows", people.rows),
            "means": ("", 1.0),
            "shares": ("", people.bounds[1] - people.bounds[0]),
            "median": ("of the value", 1.0),
        }[question]
        found[question] = f"{half * scale:.4g} {unit} (spends epsilon {spent:.2g})".replace("  ", " ")
    with _open(people, _plan_picks(people, sharing, iid=True)) as curator:
        told = _pick_median(curator, people, "exponential")
        half, spent = (told.high[0] - told.low[0]) / 2, curator.budget.epsilon(_DELTA)
    return found | {_PICKED: f"{half:.4g} of the value (spends epsilon {spent:.2g})"}


def _release_opendp(people: People, releases: int, sharing: int, *, row: float) -> Errors:
    """Release by OpenDP's Gaussian mechanism and noisy max; a replaced row has this Euclidean length in counts."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "idealized-numerics")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)

    def measure(scale: float) -> Any:  # noqa: ANN401 - a measurement of OpenDP
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale)), _DELTA)

    def spends(scale: float, share: float) -> bool:
        # A share of rho is the same noise at a sensitivity that is 1 / sqrt(share) times as large.
        return bool(measure(scale).map(row / math.sqrt(share))[0] <= _EPSILON)

    parts = (1 / sharing, 0.5 / sharing)
    whole, half = (dp.binary_search(lambda scale, part=part: spends(scale, part), (1.0, 1e4)) for part in parts)
    count, pieces = dp.m.make_gaussian(*space, scale=whole), dp.m.make_gaussian(*space, scale=half)
    middle, reach = sum(people.bounds) / 2, (people.bounds[1] - people.bounds[0]) / 2
    sums = (people.means - middle) * people.counts / reach
    counts, means = [], []
    for _ in range(releases):
        counts.append(np.array(count(people.counts.tolist())) - people.counts)
        part, size = np.array(pieces(sums.tolist())), np.array(pieces(people.counts.tolist()))
        means.append(np.clip(middle + reach * part / np.maximum(size, 1.0), *people.bounds) - people.means)
    found = {"counts": np.concatenate(counts), "shares": np.concatenate(means)}
    return found if row < 2 else found | {"median": _choose_medians(people, releases, sharing)}


def _choose_medians(people: People, releases: int, sharing: int) -> Floats:
    """Choose among the points of the grid by OpenDP's quantile scores and noisy max, at distance 2 and known size.

    One release is best in pure epsilon, many in zCDP.
    """
    import opendp.prelude as dp

    points = np.arange(people.ends[0], people.ends[1] + people.step, people.step).tolist()
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=people.rows)
    given: dict[str, Any] = {"candidates": points, "alpha": 0.5}
    kind = dp.max_divergence() if sharing == 1 else dp.zero_concentrated_divergence()
    most = _EPSILON if sharing == 1 else _find_rho() / sharing

    def measure(scale: float) -> Any:  # noqa: ANN401 - a measurement of OpenDP
        return dp.m.make_private_quantile(domain, dp.symmetric_distance(), kind, scale=scale, **given)

    choose = measure(dp.binary_search(lambda scale: bool(measure(scale).map(2) <= most), (1e-3, 1e4)))
    return people.find_ranks([choose(people.values.tolist()) for _ in range(releases)])


def _release_diffprivlib(people: People, releases: int, sharing: int, python: Path) -> Errors:
    """Release in diffprivlib's own environment, by a script that says what gets which part of epsilon."""
    plan = {"epsilon": _EPSILON, "groups": len(people.labels), "bounds": people.bounds, "ends": people.ends}
    with tempfile.TemporaryDirectory() as name:
        rows, settings, out = (Path(name) / file for file in ("rows.npz", "plan.json", "out.json"))
        np.savez(rows, groups=people.groups, amounts=people.amounts, values=people.values)
        settings.write_text(json.dumps(plan | {"delta": _DELTA, "releases": releases, "sharing": sharing}), encoding="utf-8")
        script = Path(__file__).parent / "peers" / "private_tables.py"
        if not run_command([python, script, rows, settings, out])[0] or not out.exists():
            return {}
        told = json.loads(out.read_text(encoding="utf-8"))
    return {
        "counts": np.concatenate([np.array(each["counts"]) - people.counts for each in told]),
        "shares": np.concatenate([np.array(each["means"]) - people.means for each in told]),
        "median": people.find_ranks([each["median"] for each in told]),
    }


def _compute_tumult(given: Sequence[People], python: Path | None) -> list[Errors]:
    """Return errors as the noise that a session of Tumult names has them: quantiles of normal laws, by group.

    For all people and all numbers of releases in turn, by one run of its environment; nothing of each where there is none.
    """
    from scipy import special

    asked = [(people, sharing) for people in given for sharing in _SHARING]
    rho = _find_rho()
    plans = [{"rho": rho / sharing, "labels": people.labels, "bounds": people.bounds} for people, sharing in asked]
    with tempfile.TemporaryDirectory() as name:
        settings, out = Path(name) / "plans.json", Path(name) / "out.json"
        settings.write_text(json.dumps(plans), encoding="utf-8")
        script = Path(__file__).parent / "peers" / "tumult_noise.py"
        if python is None or not run_command([python, script, settings, out])[0] or not out.exists():
            return [{} for _ in asked]
        told = json.loads(out.read_text(encoding="utf-8"))
    spread = special.ndtri((np.arange(2000) + 0.5) / 2000)
    found: list[Errors] = []
    for (people, _), noise in zip(asked, told, strict=True):
        (count,), (total, size) = noise["counts"], noise["means"]
        deviations = np.sqrt(total + size * (people.means - sum(people.bounds) / 2) ** 2) / people.counts
        found.append({"counts": math.sqrt(count) * spread, "shares": np.outer(deviations, spread).ravel()})
    return found


def _find_rho() -> float:
    """Return the largest rho that zCDP converts to the release's epsilon and delta."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "idealized-numerics")
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)

    def spends(rho: float) -> float:
        noise = dp.m.make_gaussian(*space, scale=1 / math.sqrt(2 * rho))
        return float(dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(noise), _DELTA).map(1.0)[0])

    return float(dp.binary_search(lambda rho: spends(rho) <= _EPSILON, (1e-6, 1.0)))
