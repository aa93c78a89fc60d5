"""Draw the pictures of bounds that docs/theory and docs/lectures show, from the library's own functions.

``python docs/pictures.py`` writes docs/images/theory/*.svg; names of pictures as arguments write only those. The same
functions give the same bytes: no date, no random identifiers. A test draws some of them again and compares.
"""
# ruff: noqa: INP001, PLR2004 -- a script beside the pages, no package; numbers stand where they are drawn

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

import holdtrue as ht
from holdtrue.accounting import closed_forms, composition, conversions, event_privacy
from holdtrue.bounds import (
    accuracy,
    agnostic_prediction,
    generalization,
    learning,
    prediction,
    selection,
    sparse_vector,
    transcripts,
    transfer,
)
from holdtrue.bounds.accuracy import hoeffding_rows
from holdtrue.events import BoundedRange, GaussianNoise, Pure
from holdtrue.noise.samplers import rounded_gaussian
from holdtrue.testing import SeededBits

FOLDER = Path(__file__).parent / "images" / "theory"
BLUE, ORANGE, GREEN, RED, VIOLET, GREY = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#8f5aa8", "#777777"
LOOK: dict[Any, object] = {
    "svg.hashsalt": "holdtrue",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "legend.frameon": False,
    "lines.linewidth": 1.8,
}


def floats(start: float, stop: float, count: int = 121) -> list[float]:
    """Return so many numbers with equal ratios."""
    return [float(x) for x in np.geomspace(start, stop, count)]


def draw(axes: Axes, x: Iterable[float], bound: Callable[[Any], float], label: str, ink: str) -> None:
    """Draw one bound over the numbers x; the ink is a colour, and a style of line behind a space where it is not solid."""
    x = list(x)
    color, _, style = ink.partition(" ")
    axes.plot(x, [bound(at) for at in x], style or "-", color=color, label=label)


def titles(axes: Axes, x: str, y: str, *, top: float | None = None) -> None:
    """Name both axes, and cut the upper one where a bound says nothing any more."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if top is not None:
        axes.set_ylim(0, top)
    axes.legend()


def gaussian_tv(axes: Axes) -> None:
    """A2: the exact distance and the lecture's bound."""
    x = np.linspace(0.1, 3, 146)
    draw(axes, x, lambda at: event_privacy.tv(GaussianNoise(1 / at)), "exact: erf(1 / (2√2 ms))", BLUE)
    draw(axes, x, lambda at: 1 / (math.sqrt(2 * math.pi) * at), "Lecture 12: 1 / (√(2π) ms)", RED + " --")
    axes.axhline(1, color=GREY, linewidth=1)
    titles(axes, "noise in units of one row's share, ms", "total variation", top=2)


def private_tv(axes: Axes) -> None:
    """A6: four distances against epsilon."""
    x = np.linspace(0.01, 3, 150)
    draw(axes, x, lambda at: math.expm1(at) / 2, "Lecture 12: (e^ε - 1) / 2", RED + " --")
    draw(axes, x, conversions.private_tv, "any ε-DP: tanh(ε/2)", BLUE)
    draw(axes, x, lambda at: -math.expm1(-at / 2), "Laplace noise: 1 - e^(-ε/2)", ORANGE)
    draw(axes, x, conversions.bounded_range_tv, "bounded range: tanh(ε/4)", GREEN)
    axes.axhline(1, color=GREY, linewidth=1)
    titles(axes, "ε", "total variation", top=1.5)


def gaussian_noise(axes: Axes) -> None:
    """A7: noise needed, the textbook's and the report's."""
    x = floats(0.05, 20)
    draw(axes, x, lambda at: conversions.gaussian_sigma(at, delta=1e-5), "needed (exact)", BLUE)
    draw(
        axes, x, lambda at: math.sqrt(2 * math.log(1.25e5)) / at, "textbook: √(2 ln(1.25/δ)) / ε, for ε ≤ 1", ORANGE + " --"
    )
    draw(axes, x, lambda at: math.sqrt(math.log(1e5) / at), "report: variance ln(1/δ) / ε", RED + " --")
    axes.set(xscale="log", yscale="log")
    titles(axes, "ε", "standard deviation for sensitivity 1, δ = 0.00001")


def compositions(axes: Axes) -> None:
    """T1: total epsilon of k releases of 0.1 each."""
    x = [int(k) for k in np.unique(np.geomspace(1, 3000, 60).astype(int))]
    draw(axes, x, lambda k: 0.1 * k, "plain sum", GREY)
    draw(
        axes,
        x,
        lambda k: composition.advanced_epsilon(0.1, times=k, delta=1e-6, lecture=True),
        "advanced, as in Lecture 19",
        RED,
    )
    draw(
        axes,
        x,
        lambda k: conversions.zero_concentrated_epsilon(k * closed_forms.pure_rho(0.1), delta=1e-6),
        "zCDP, any ε-DP",
        ORANGE,
    )
    draw(axes, x, lambda k: composition.optimal_epsilon(0.1, times=k, delta=1e-6), "best possible for ε-DP", BLUE)
    draw(axes, x, lambda k: composition.compose([BoundedRange(0.1)] * k, delta=1e-6).epsilon, "exponential mechanism", GREEN)
    axes.set(xscale="log", yscale="log")
    titles(axes, "releases of ε = 0.1 each", "ε of all together, δ = 0.000001")


def costs(axes: Axes) -> None:
    """T2, T2b: what a release of epsilon costs in either currency."""
    x = np.linspace(0.02, 2, 100)
    draw(axes, x, lambda at: (event_privacy.mu(Pure(at)) or 0) ** 2 / 2, "any ε-DP, μ²/2", BLUE)
    draw(axes, x, lambda at: event_privacy.rho(Pure(at)) or 0, "any ε-DP, ρ", BLUE + " :")
    draw(axes, x, lambda at: (event_privacy.mu(BoundedRange(at)) or 0) ** 2 / 2, "bounded range, μ²/2", GREEN)
    draw(axes, x, lambda at: event_privacy.rho(BoundedRange(at)) or 0, "bounded range, ρ", GREEN + " :")
    titles(axes, "ε of the release", "cost", top=2)


def largest_loss(candidates: float, rate: float) -> float:
    """Return the loss where one score rises by 1 and all others fall by 1, from equal scores."""
    return 2 * rate - math.log(math.exp(2 * rate) + candidates - 1) + math.log(candidates)


def exponential(axes: Axes) -> None:
    """B3: the worst loss against the number of candidates."""
    x = floats(2, 1e6)
    draw(axes, x, lambda at: largest_loss(at, 1), "weights e^(ε f / Δ)", RED + " --")
    draw(axes, x, lambda at: largest_loss(at, 0.5), "weights e^(ε f / (2Δ))", BLUE)
    axes.axhline(1, color=GREY, linewidth=1)
    axes.set_xscale("log")
    titles(axes, "candidates", "privacy loss at ε = 1", top=2.2)


def selection_tail(axes: Axes) -> None:
    """B5: exact tails under the bound."""
    t = np.linspace(0, 6, 121)
    axes.plot(t, np.exp(-t), color=GREY, label="bound: e^(-t)")
    laws: list[tuple[str, str, Sequence[float]]] = [
        ("50 scores 0, -1, ..., -49", BLUE, [-float(j) for j in range(50)]),
        ("one at 0, 49 at -10", ORANGE, [0.0] + [-10.0] * 49),
        ("one at 0, 49 at -14", GREEN, [0.0] + [-14.0] * 49),
    ]
    for label, color, scores in laws:
        tails = [selection.selection_tail(scores, rate=0.5, shortfall=2 * (math.log(50) + at)) for at in t]
        axes.plot(t, tails, color=color, label=label)
    axes.set(yscale="log", ylim=(1e-6, 2))
    titles(axes, "t", "probability to miss by (2/ε)(ln 50 + t), ε = 1")


def convergence(axes: Axes) -> None:
    """C2: rows for uniform convergence of a hundred hypotheses."""
    x = floats(0.05, 0.3, 26)
    draw(axes, x, lambda a: learning.lecture4_uniform_rows(100, half_width=a, beta=0.05), "Lecture 4", RED + " --")
    draw(axes, x, lambda a: hoeffding_rows(a, beta=0.05, queries=100), "Hoeffding", ORANGE)
    draw(axes, x, lambda a: accuracy.uniform_rows(a, beta=0.05, size=100), "exact binomial", BLUE)
    axes.set(xscale="log", yscale="log")
    titles(axes, "half-width a", "rows for 100 hypotheses, β = 0.05")


def learning_rows(axes: Axes) -> None:
    """N3, C5: rows against epsilon by four theorems."""
    x = floats(0.005, 5)
    given = {"alpha": 0.1, "beta": 0.05}
    draw(axes, x, lambda e: learning.lecture4_rows(100, epsilon=e, **given), "Lecture 4", RED + " --")
    draw(axes, x, lambda e: learning.lecture16_rows(100, epsilon=e, **given), "Lecture 16, mended", ORANGE + " --")
    draw(axes, x, lambda e: learning.learning_rows(100, epsilon=e, **given), "Holdtrue", BLUE)
    draw(axes, x, lambda e: learning.realizable_rows(100, epsilon=e, **given), "Holdtrue, realizable", GREEN)
    axes.axvline(learning.free_epsilon(0.1), color=GREY, linewidth=1)
    axes.set(xscale="log", yscale="log")
    titles(axes, "ε (grey line: 2 artanh α)", "rows for 100 hypotheses, α = 0.1, β = 0.05")


def gap(axes: Axes) -> None:
    """T5: the gap against mu."""
    x = np.linspace(0.005, 0.5, 100)
    upper = 2.5899  # CVaR of a standard normal over its worst 0.0125
    draw(axes, x, lambda mu: best_jung(mu, 0.05), "Jung et al. 2020", RED + " --")
    draw(axes, x, lambda mu: transfer.concentrated_shift(mu * mu / 2, beta=0.05).gamma, "zCDP form", ORANGE)
    draw(axes, x, lambda mu: transfer.gaussian_shift(mu, beta=0.05).gamma, "transfer theorem", BLUE)
    draw(axes, x, lambda mu: mu / 4 * upper, "closed form", BLUE + " :")
    draw(axes, x, lambda mu: mu / 4 * 1.959964, "no theorem can beat", GREY)
    titles(axes, "μ of the whole transcript", "gap γ at β = 0.05", top=0.6)


def best_jung(mu: float, beta: float) -> float:
    """Return the older theorem's gap, e^epsilon - 1 + 2 delta / beta, at its best epsilon."""
    return min(math.expm1(e) + 2 * event_privacy.delta(GaussianNoise(mu), e) / beta for e in floats(mu / 20, 8 * mu, 80))


def interval(axes: Axes) -> None:
    """T6: the interval around each answer, inside the symmetric one."""
    made = transfer.gaussian_shift(0.3, beta=0.03)
    answers = np.linspace(0, 1, 201)
    ends = np.array([transfer.interval(float(a), noise=0.02, epsilon=made.epsilon, slack=made.slack) for a in answers])
    axes.fill_between(answers, *(ends - answers[:, None]).T, color=BLUE, alpha=0.25, label="reported interval")
    wide = 0.02 + made.gamma
    axes.plot(answers, np.minimum(wide, 1 - answers), "--", color=GREY, label="symmetric one")
    axes.plot(answers, np.maximum(-wide, -answers), "--", color=GREY)
    titles(axes, "answer", "distance from the answer")


def open_ended(axes: Axes) -> None:
    """T7: half-widths of an open-ended session and of a plan."""
    made = ht.plan(queries=1000, alpha=0.1, beta=0.05)
    cost = 1 / (made.rows * made.sigma) ** 2
    draws = [int(j) for j in np.unique(np.geomspace(1, 3000, 150).astype(int))]
    widths = [
        made.sigma * transfer.stitched_noise(j, beta=0.01)
        + transfer.stitched_shift(transfer.stitched_level(j * cost, first=cost), first=cost, beta=0.04).gamma
        for j in draws
    ]
    axes.plot(draws, widths, color=BLUE, label="open-ended", drawstyle="steps-post")
    axes.plot([1, 1000], [made.alpha] * 2, color=ORANGE, label="planned for 1000 questions")
    axes.set_xscale("log")
    titles(axes, "question", "half-width, rows and noise as planned", top=0.2)


def holdouts(axes: Axes) -> None:
    """T9 to T12: half-widths for ten thousand rows."""
    x = [int(k) for k in np.unique(np.geomspace(2, 9000, 40).astype(int))]
    draw(axes, x, lambda k: transcripts.splitting_alpha(10_000, queries=k, beta=0.05), "splitting", GREY)
    draw(axes, x, lambda k: transcripts.rounding_alpha(10_000, queries=k, beta=0.05), "rounding", VIOLET)
    draw(axes, x, lambda k: ht.plan(rows=10_000, queries=k, beta=0.05).alpha, "private answers (plan)", BLUE)
    draw(axes, x, thresholdout, "thresholdout, 10 overfits, beyond T", ORANGE)
    draw(axes, x, lambda k: transcripts.ladder_alpha(10_000, submissions=k, beta=0.05), "ladder (best score only)", GREEN)
    axes.set_xscale("log")
    titles(axes, "looks at 10,000 rows", "half-width, β = 0.05", top=0.6)


def thresholdout(queries: int) -> float:
    """Return thresholdout's half-width beyond its threshold."""
    return sparse_vector.above_threshold_alpha(10_000, looks=queries, runs=10, beta=0.05, one_sided=True).alpha


def soft_majority(axes: Axes) -> None:
    """E4: exact losses at both rates."""
    x = range(1, 31)
    axes.plot(
        x, [prediction.soft_majority_loss(r, rate=1) for r in x], "--", color=RED, label="e^(ε votes), as the text says"
    )
    axes.plot(x, [prediction.soft_majority_loss(r, rate=0.5) for r in x], color=BLUE, label="e^(ε votes / 2)")
    axes.axhline(1, color=GREY, linewidth=1)
    titles(axes, "predictors", "privacy loss at ε = 1", top=2.2)


def response(axes: Axes) -> None:
    """E11: response tables against the share of votes."""
    parts = 20
    share = np.arange(parts + 1) / parts
    axes.plot(share, share, color=GREY, linewidth=1, label="share of votes")
    for epsilon, color in ((0.2, ORANGE), (0.5, BLUE), (2.0, GREEN)):
        table = agnostic_prediction.response_table(parts, epsilon=epsilon)
        axes.plot(
            share, [float(p) for p in table.probabilities], "o-", color=color, markersize=3, label=f"table, ε = {epsilon}"
        )
    titles(axes, "share of 20 votes for 1", "probability of answering 1")


def thresholded_answers(axes: Axes) -> None:
    """T13: the probability of answering 1 around the best threshold."""
    points = np.arange(1, 41)
    labels = (points > 20).astype(int)
    labels[[7, 30]] = 1 - labels[[7, 30]]
    at = np.linspace(0, 41, 411)
    for epsilon, color in ((0.2, ORANGE), (0.5, BLUE), (2.0, GREEN)):
        law = agnostic_prediction.threshold_probabilities(points, labels, at=at, epsilon=epsilon)
        axes.plot(at, law, color=color, label=f"ε = {epsilon}")
    axes.plot(points, labels, ".", color=GREY, label="rows")
    titles(axes, "x", "probability of answering 1")


def evaluations(axes: Axes) -> None:
    """E21: the exponent with whole k and the printed one."""
    x = floats(0.01, 10, 200)
    draw(axes, x, lambda e: generalization.evaluation_exponent(e, beta=0.05)[0], "least over whole k", BLUE)
    draw(axes, x, lambda e: 2 * math.sqrt(e * math.log(20)), "report: 2√(ε ln(1/β))", RED + " --")
    axes.set(xscale="log", yscale="log")
    titles(axes, "ε", "exponent at β = 0.05")


def rows(axes: Axes) -> None:
    """N1: rows against questions by every method."""
    x = [int(k) for k in np.unique(np.geomspace(1, 10_000, 17).astype(int))]
    methods = [
        ("lecture19", "Lecture 19", RED + " --"),
        ("bassily16", "Bassily et al. 2016", VIOLET + " --"),
        ("jung20", "Jung et al. 2020", ORANGE + " --"),
        ("splitting", "splitting", GREY + " :"),
        ("rounding", "rounding", GREY + " --"),
        ("joint-gaussian", "Holdtrue", BLUE),
        ("nonadaptive", "questions fixed in advance", GREEN + " :"),
    ]
    for method, label, ink in methods:
        sizes = {k: ht.plan(queries=k, alpha=0.1, beta=0.05, method=method).rows for k in x}
        draw(axes, x, sizes.__getitem__, label, ink)
    axes.set(xscale="log", yscale="log")
    titles(axes, "adaptive questions", "rows for α = 0.1, β = 0.05")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))


def attacked(rows: int, features: int, noise: np.ndarray, bits: SeededBits) -> float:
    """Return the last answer of the attack on coins: the accuracy of the features' majority by sign."""
    words = bits.words(rows * features // 64 + 1)
    hits = np.unpackbits(words.view(np.uint8), count=rows * features).reshape(rows, features)
    signs = np.where(hits.mean(0) + noise[:-1] > 0.5, 1, -1)
    votes = (2 * hits.astype(int) - 1) @ signs
    return float((votes > 0).mean() + (votes == 0).mean() / 2 + noise[-1])


def attack(axes: Axes) -> None:
    """N6: the last answer of the attack, without and with a plan."""
    count, x = 2000, [5, 11, 21, 51, 101, 201, 401]
    bits = SeededBits("the picture of the attack")
    bare = [attacked(count, k - 1, np.zeros(k), bits) for k in x]
    naive = [accuracy.hoeffding_alpha(count, beta=0.05, queries=k) for k in x]
    plans = [ht.plan(rows=count, queries=k, beta=0.05) for k in x]
    held = [
        attacked(count, k - 1, rounded_gaussian(p.noise_scale, size=k, bits=bits) / (count << p.bits), bits)
        for k, p in zip(x, plans, strict=True)
    ]
    axes.errorbar(x, bare, naive, fmt="s", color=RED, capsize=3, label="plain means, simultaneous interval")
    ends = np.array([p.interval(a) for p, a in zip(plans, held, strict=True)]).T
    axes.errorbar(x, held, np.abs(ends - held), fmt="o", color=BLUE, capsize=3, label="Holdtrue, its interval")
    axes.axhline(0.5, color=GREY, linewidth=1, label="truth")
    axes.set_xscale("log")
    titles(axes, "questions to 2,000 rows of coins", "last answer: accuracy of the majority")


def monitor(axes: Axes) -> None:
    """D1, T5: what one privately chosen query may be off by, with rows."""
    x = floats(1600, 1e6, 60)

    def epsilon(count: float) -> float:
        return math.sqrt(8 * math.log(20) / math.floor(count))

    six = "sample mean, Lecture 19: 6ε at its least ε"
    draw(axes, x, lambda count: generalization.bassily16(int(count), epsilon=epsilon(count)).alpha, six, RED + " --")
    draw(
        axes, x, lambda count: transfer.shift(epsilon(count)), "posterior mean, transfer theorem: tanh(ε/4) at that ε", BLUE
    )
    draw(
        axes,
        x,
        lambda count: accuracy.hoeffding_alpha(int(count), beta=0.05),
        "sample mean of a query fixed in advance",
        GREEN + " :",
    )
    axes.set(xscale="log", yscale="log")
    titles(axes, "rows", "distance from the population")


DRAWN = [
    *(attack, compositions, convergence, costs, evaluations, exponential, gap, gaussian_noise, gaussian_tv, holdouts),
    *(interval, learning_rows, monitor, open_ended, private_tv, response, rows, selection_tail, soft_majority),
    thresholded_answers,
]
PICTURES = {function.__name__.replace("_", "-"): function for function in DRAWN}


def write(name: str, folder: Path = FOLDER) -> Path:
    """Draw one picture into a folder, and return where it is."""
    path = folder / f"{name}.svg"
    with mpl.rc_context(LOOK):
        figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
        PICTURES[name](axes)
        figure.savefig(path, metadata={"Date": None, "Creator": "docs/pictures.py"})
        plt.close(figure)
    return path


if __name__ == "__main__":
    mpl.use("svg")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for wanted in sys.argv[1:] or PICTURES:
        write(wanted)
