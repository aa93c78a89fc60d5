"""Tables of few columns in place of many questions: 10,000 conjunctions at 0.1-GDP, and all pairs beside AIM (V2.3).

The population is the table itself; rows are drawn from it with replacement, so that the truth of every interval is known.
"""

import json
import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import holdtrue as ht
from holdtrue.accounting.closed_forms import gaussian_delta, largest_float, smallest_epsilon, zero_concentrated_delta
from holdtrue.accounting.conversions import gaussian_mu
from holdtrue.exact import UNIT
from holdtrue.planning.plans import Plan
from holdtrue.records import Marginals
from reproductions.environments import find_peer, run_command
from reproductions.writing import write

__all__ = ["BinnedTable", "answer_workload", "draw_workload", "find_plan", "run"]

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Random: TypeAlias = np.random.Generator  # noqa: TID251 - rows and questions to be measured on

_MU, _BETA, _QUESTIONS, _RUNS = 0.1, 0.05, 10_000, 20
_EPSILON, _DELTA, _RELEASES = 1.0, 1e-9, 3
_PEER_SECONDS = 600
_SEED = 20261117
_NAMES = ("age", "education", "marital", "occupation", "relationship", "sex", "hours", "income")
_SIZES = (8, 8, 7, 15, 6, 2, 4, 2)
_MADE = 48_842


@dataclass(frozen=True, eq=False)
class BinnedTable:
    """Rows of codes, how many codes each column has, and what the rows are."""

    name: str
    codes: Codes
    sizes: tuple[int, ...] = _SIZES

    @property
    def keys(self) -> dict[str, list[int]]:
        """Return the labels of each column."""
        return {name: list(range(size)) for name, size in zip(_NAMES, self.sizes, strict=True)}

    def to_columns(self) -> dict[str, Codes]:
        """Return the rows by column, as a curator takes them."""
        return {name: self.codes[:, place] for place, name in enumerate(_NAMES)}

    def draw_rows(self, random: Random) -> "BinnedTable":
        """Return as many rows, drawn from these with replacement."""
        return BinnedTable(self.name, self.codes[random.integers(0, len(self.codes), len(self.codes))], self.sizes)

    def count_cells(self, columns: Sequence[int]) -> Floats:
        """Return the share of the rows in each cell of some columns."""
        shape = [self.sizes[place] for place in columns]
        places = np.ravel_multi_index(tuple(self.codes[:, place] for place in columns), shape)
        counted: Floats = np.bincount(places, minlength=math.prod(shape)).reshape(shape) / len(self.codes)
        return counted


def find_table(data: Path | None, random: Random) -> BinnedTable:
    """Return Adult in eight binned columns, or made rows of as many where it is not there."""
    path = None if data is None else data / "adult" / "adult_discrete.csv"
    if path is None or not path.is_file():
        hidden = random.integers(0, 4, _MADE)
        made = [(hidden * 3 + random.geometric(0.4, _MADE) - 1) % size for size in _SIZES]
        return BinnedTable("made rows", np.stack(made, axis=1))
    held: Any = np.genfromtxt(path, delimiter=",", names=True, dtype=np.int64)
    first: dict[str, Codes] = {name.replace("_", ""): held[name] for name in held.dtype.names}
    found = {short: next(values for name, values in first.items() if name.startswith(short)) for short in _PREFIXES}
    binned = [
        np.minimum(found["age"] // 8, 7),
        np.minimum(found["educationnum"] // 2, 7),
        *(found[name] for name in ("marital", "occupation", "relationship", "sex")),
        np.clip((found["hours"] - 20) // 12, 0, 3),
        found["income"],
    ]
    return BinnedTable("Adult", np.stack(binned, axis=1))


_PREFIXES = ("age", "educationnum", "marital", "occupation", "relationship", "sex", "hours", "income")


def draw_workload(table: BinnedTable, number: int, random: Random) -> list[dict[str, int]]:
    """Return different conjunctions of one to three labels, chosen among all of them."""
    every = [
        {_NAMES[at]: label for at, label in zip(chosen, labels, strict=True)}
        for size in (1, 2, 3)
        for chosen in combinations(range(len(_NAMES)), size)
        for labels in product(*(range(table.sizes[at]) for at in chosen))
    ]
    return [every[place] for place in random.permutation(len(every))[:number]]


def answer_workload(table: BinnedTable, workload: Sequence[dict[str, int]]) -> Floats:
    """Return the exact shares of conjunctions."""
    known: dict[tuple[int, ...], Floats] = {}
    found = []
    for asked in workload:
        columns = tuple(_NAMES.index(name) for name in asked)
        if columns not in known:
            known[columns] = table.count_cells(columns)
        found.append(float(known[columns][tuple(asked.values())]))
    return np.array(found)


def find_plan(rows: int, *, epsilon: float, delta: float, least: int) -> Plan:
    """Return the plan for the fewest questions, ``least`` or more, that spends the whole of (epsilon, delta).

    A plan for fewer spends less, since more privacy makes its intervals narrower.
    """

    def make(queries: int) -> Plan:
        return ht.plan(rows=rows, queries=queries, beta=_BETA, epsilon=epsilon, delta=delta, reserve=0.0, iid=True)

    wanted = 0.995 * gaussian_mu(epsilon, delta=delta) ** 2
    low, high = least, least
    while make(high).cap_units * UNIT < wanted:
        low, high = high, 2 * high
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if make(middle).cap_units * UNIT >= wanted else (middle, high)
    return make(high)


def run(data: Path | None, out: Path, *, share: float = 1.0) -> None:
    """Write marginals.md and marginals-aim.md; ``share`` of the runs and questions, for a quick look."""
    random = np.random.default_rng(_SEED)  # noqa: TID251 - rows and questions to be measured on
    table = find_table(data, random)
    _compare_asking(table, out, random, runs=max(1, round(_RUNS * share)), number=max(50, round(_QUESTIONS * share)))
    _compare_aim(table, out, releases=max(1, round(_RELEASES * share)))


def _compare_asking(table: BinnedTable, out: Path, random: Random, *, runs: int, number: int) -> None:
    """Release triples with a declared workload, run after run, and ask the same questions one by one once."""
    workload = draw_workload(table, number, random)
    truth, rows = answer_workload(table, workload), len(table.codes)
    epsilon = smallest_epsilon(lambda at: gaussian_delta(_MU, at), 1e-6)
    triples = math.comb(len(_NAMES), 3)
    limits: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-6}
    plan = find_plan(rows, least=2 * triples, **limits)
    errors, widths, missed, seconds = [], [], 0, []
    for _ in range(runs):
        drawn = table.draw_rows(random)
        began = time.perf_counter()
        with ht.Curator(drawn.to_columns(), plan=plan) as curator:
            told = curator.marginals(
                "triples", columns=_NAMES, keys=table.keys, questions=plan.queries // triples, workload=workload
            ).workload
        seconds.append(time.perf_counter() - began)
        low, high, values = (np.array(each) for each in (told.low, told.high, told.values))  # type: ignore[union-attr]
        errors.append(float(np.abs(values - truth).max()))
        widths.append(float((high - low).max() / 2))
        missed += int(((truth < low) | (truth > high)).any())
    asked = ht.plan(rows=rows, queries=number, beta=_BETA, reserve=0.0, iid=True, **limits)
    with ht.Curator(table.draw_rows(random).to_columns(), plan=asked) as curator:
        texts = [" AND ".join(f"{name} = {label}" for name, label in each.items()) for each in workload]
        answers = curator.ask(texts)
    plain = max(abs(answer.value - true) for answer, true in zip(answers, truth, strict=True))
    wide = max(answer.interval.width / 2 for answer in answers if answer.interval is not None)
    wrong = any(true not in answer.interval for answer, true in zip(answers, truth, strict=True))  # type: ignore[operator]
    mu = math.sqrt(plan.cap_units * UNIT)
    header = ["way", "charges", "runs", "largest error", "largest half-width claimed", "runs with a miss", "seconds"]
    lines = [
        [
            f"marginals, {triples} triples ({plan.queries // triples} of {plan.queries:,} questions each)",
            "1",
            str(runs),
            f"{min(errors):.4f} to {max(errors):.4f}",
            f"{max(widths):.4f}",
            str(missed),
            f"{min(seconds):.1f}",
        ],
        [f"{number:,} questions one by one", f"{number:,}", "1", f"{plain:.4f}", f"{wide:.4f}", str(int(wrong)), ""],
    ]
    words = _ASKED.format(name=table.name, rows=f"{rows:,}", number=f"{number:,}", mu=mu)
    write(out / "marginals.md", title="Many questions about few columns", words=words, header=header, rows=lines)


_ASKED = (
    "{name}, {rows} rows drawn from the table, which is the population; {number} conjunctions of up to three labels, "
    "declared before the draw. Everything that is released together is {mu:.3f}-GDP in either way. Errors are against "
    "the population, and intervals are for it, 95 % for all at once."
)


def _compare_aim(table: BinnedTable, out: Path, *, releases: int) -> None:
    pairs = list(combinations(range(len(_NAMES)), 2))
    exact = [table.count_cells(pair) for pair in pairs]
    plan = find_plan(len(table.codes), epsilon=_EPSILON, delta=_DELTA, least=2 * len(pairs))
    ours, made, widths, seconds, held = [], [], [], [], True
    for _ in range(releases):
        began = time.perf_counter()
        with ht.Curator(table.to_columns(), plan=plan) as curator:
            found = curator.marginals("pairs", columns=_NAMES, keys=table.keys, questions=plan.queries // len(pairs))
            seconds.append(time.perf_counter() - began)
            rows = curator.synthesize(rows=10**6)
        ours.append(float(np.mean([_find_distance(each, true) for each, true in _pair_tables(found, exact)])))
        codes = np.repeat(np.array(rows.labels, dtype=np.float64), rows.counts, axis=0)
        whole = BinnedTable("made", np.nan_to_num(codes[~np.isnan(codes).any(axis=1)]).astype(np.int64), table.sizes)
        order = [rows.columns.index(name) for name in _NAMES]
        fitted = BinnedTable("made", whole.codes[:, order], table.sizes)
        made.append(
            float(np.mean([_find_distance(fitted.count_cells(pair), true) for pair, true in zip(pairs, exact, strict=True)]))
        )
        held &= all(
            low - 1e-12 <= true <= high + 1e-12
            for each, shares in zip(found, exact, strict=True)
            for low, high, true in zip(each.sample_low, each.sample_high, shares.ravel(), strict=False)
        )
        widths.append(
            max((high - low) / 2 for each in found for low, high in zip(each.low or (), each.high or (), strict=True))
        )
    lines = [
        [
            "Holdtrue, tables as released",
            f"{np.mean(ours):.4f}",
            f"every cell, at most ± {max(widths):.4f}",
            f"{min(seconds):.1f}",
        ],
        ["Holdtrue, rows made from them", f"{np.mean(made):.4f}", "those of the tables", ""],
    ]
    for words, contributions in (("a row added or left out", 1), ("a row replaced", 2)):
        lines += _run_aim(table, exact, words, contributions, releases)
    words = _PEERS.format(name=table.name, releases=releases, held="held" if held else "did NOT hold")
    header = ["way", "mean total-variation error of a pair", "intervals", "seconds"]
    write(out / "marginals-aim.md", title="All pairs of columns at (1, 1e-9)", words=words, header=header, rows=lines)


_PEERS = (
    "{name}: all 28 pairs of eight columns at (1, 1e-9), the mean of {releases} releases. Holdtrue's neighbours replace a "
    "row; AIM's add one or leave one out unless said, which is half as much. AIM (OpenDP with private-pgm, all pairs as its "
    "workload) chooses by the rows what to measure, and says of no cell how far off it may be. Intervals are for the "
    "population, 95 % for all cells at once; those for these rows {held}."
)


def _pair_tables(found: Marginals, exact: Sequence[Floats]) -> list[tuple[Floats, Floats]]:
    """Return each released table, cut to shares that add up to 1, and the exact one."""
    shares = [np.array(each.values[:-1]).reshape(true.shape) for each, true in zip(found, exact, strict=True)]
    return [(each / each.sum(), true) for each, true in zip(shares, exact, strict=True)]


def _find_distance(shares: Floats, exact: Floats) -> float:
    return float(np.abs(shares - exact).sum() / 2)


def _run_aim(table: BinnedTable, exact: Sequence[Floats], words: str, contributions: int, releases: int) -> list[list[str]]:
    """Return a line about AIM, run by the Python of its own environment."""
    python, version = find_peer("opendp")
    if python is None:
        return [[f"AIM, {words}", version, "none", ""]]
    rho = largest_float(lambda each: zero_concentrated_delta(each, _EPSILON) <= _DELTA, 1e-6, 1.0)
    plan = {
        "columns": list(_NAMES),
        "sizes": list(table.sizes),
        "rho": rho,
        "contributions": contributions,
        "releases": releases,
        "seconds": _PEER_SECONDS,
    }
    with tempfile.TemporaryDirectory() as folder:
        rows, asked, told = (Path(folder) / name for name in ("rows.npz", "plan.json", "out.json"))
        np.savez(rows, codes=table.codes)
        asked.write_text(json.dumps(plan), encoding="utf-8")
        run_command([python, Path(__file__).parent / "peers" / "aim_tables.py", rows, asked, told])
        if not told.is_file():
            return [[f"AIM, {words}", "did not run here: nothing is said of it", "none", ""]]
        found = json.loads(told.read_text(encoding="utf-8"))
    errors = [
        np.mean([_find_distance(np.array(each), true) for each, true in zip(one["pairs"], exact, strict=True)])
        for one in found
    ]
    least = min(one["seconds"] for one in found)
    name = f"AIM ({version}), {words}, {len(found)} of {releases} releases"
    return [[name, f"{np.mean(errors):.4f}", "none", f"{least:.0f}"]]
