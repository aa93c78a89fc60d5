"""One privacy total for k predictions: votes, weights once, noise each, a student and diffprivlib, certified and measured.

What a total epsilon at delta pays for is compared: k predictions by votes or by a kept fit, each of them charged; weights
that are published once; a student of bought labels; and diffprivlib's models, which are trained once.
"""

import csv
import json
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from holdtrue.accounting.filters import GaussianFilter, largest_cap
from holdtrue.bounds.accuracy import largest_mean
from holdtrue.ensembles import train
from holdtrue.ensembles.certificates import RobustError
from holdtrue.ensembles.losses import Features, Loss, huber, logistic
from holdtrue.ensembles.parts import PartRule
from holdtrue.ensembles.stable import StableFit, fit_stable, output_perturbation, output_strength
from holdtrue.verbs.evaluating import FIRST_SHARE
from reproductions.environments import find_peer, run_command
from reproductions.writing import write

__all__ = ["run"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

DELTA = 1e-5
EPSILONS = (0.05, 0.1, 0.5, 1.0, 2.0)
PREDICTIONS = (1, 10, 100, 1_000, 10_000)
BETA = 0.05
BOUGHT = 250
REPEATS = 20
MU = 0.2
_METHODS = ("votes", "stable once", "stable each", "student", "diffprivlib")
_RNG = np.random.default_rng(11)  # noqa: TID251 - noise of simulated answers, never of a release
_LEVELS = [Fraction(number, 200) for number in range(1, 200)]


@dataclass(frozen=True, eq=False)
class Trial:
    """Rows to learn from, rows held out for certificates, public rows without labels, and points to be measured on.

    Labels are 0, 1, ... (``classes`` of them), or numbers in [-1, 1] where there are none. Rows are in [-1, 1] and at most
    ``norm`` long. The loss of a prediction is in [0, 1]: whether it is wrong, or half of how far it is off.
    """

    name: str
    rows: Floats
    labels: npt.NDArray[Any]
    held: tuple[Floats, npt.NDArray[Any]]
    public: Floats
    points: tuple[Floats, npt.NDArray[Any]]
    norm: float
    classes: int
    parts: int

    @property
    def learners(self) -> int:
        """Return how many linear models it takes: one for each label against the rest."""
        return self.classes if self.classes > 2 else 1

    @property
    def loss(self) -> Loss:
        """Return the loss that stable models are fitted to."""
        return logistic() if self.classes else huber(Fraction(1, 4))

    def judge(self, said: npt.NDArray[Any], truth: npt.NDArray[Any]) -> float:
        """Return the mean loss of predictions."""
        if self.classes:
            return float(np.mean(said != truth))
        return float(np.mean(np.abs(np.clip(said, -1, 1) - truth)) / 2)


def run(data: Path | None, out: Path) -> None:
    """Write predict-totals.md, .csv and .svg."""
    python, reason = find_peer("diffprivlib")
    lines, curves = [], {}
    for trial in _list_trials(data):
        print(trial.name, flush=True)
        found = _compare(trial, python)
        curves[trial.name] = found
        lines += [_write_line(trial.name, *case, found[case]) for case in found]
    header = ["table", "total epsilon", "k", *_METHODS, "least"]
    words = f"{_WORDS} {reason}."
    write(out / "predict-totals.md", title="One total for k predictions", words=words, header=header, rows=lines)
    with (out / "predict-totals.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *lines])
    _draw(out / "predict-totals.svg", curves)


_WORDS = f"""\
The mean loss of k predictions that a total epsilon at delta = {DELTA:g} pays for, measured on test rows, and behind it
the bound that is certified for the population with probability {1 - BETA:g}, where there is one. The loss is the share of
wrong labels; for numbers half the mean distance, on the scale of [-1, 1]. `votes`: a soft majority of parts, or for
numbers their mean with normal noise, mu / sqrt(k) each. `stable once`: weights of logistic or Huber regression (one label
against the rest), published once; `stable each`: the same fit kept, with normal noise of mu / sqrt(k) on each prediction.
`student`: logistic or ridge regression, taught with {BOUGHT} labels of public rows that the votes sold. `diffprivlib`:
its LogisticRegression or LinearRegression at delta = 0. A fifth of the training rows is held out for certificates, which
cost mu {MU:g} more: the robust error (V4.4) for votes, Chernoff's bound on a noisy count for what is published. Radii are
5 up to a total of 1 and 10 above, as in `predict.md`. Means of {REPEATS} draws.
""".replace("\n", " ").strip()


def _write_line(name: str, epsilon: float, k: int, found: dict[str, tuple[float, float | None]]) -> list[str]:
    cells = []
    for method in _METHODS:
        measured, bound = found.get(method, (None, None))
        certified = "" if bound is None else f" (≤ {bound:.3f})"
        cells.append("–" if measured is None else f"{measured:.3f}{certified}")
    least = min(found[method][0] for method in found)
    best = [method for method in found if found[method][0] <= least + 0.005]
    return [name, f"{epsilon:g}", f"{k:,}", *cells, " = ".join(best)]


Found = dict[tuple[float, int], dict[str, tuple[float, float | None]]]


def _compare(trial: Trial, python: Path | None) -> Found:
    """Return measured losses and certified bounds by method, for each total and number of predictions."""
    votes = _Votes.of(trial)
    peer = {} if python is None else _run_peer(trial, python)
    found: Found = {}
    for epsilon in EPSILONS:
        mu = GaussianFilter(largest_cap("gdp", epsilon, DELTA)).mu
        once, student = _publish(trial, mu, epsilon), votes.teach(mu)
        for k in PREDICTIONS:
            case = {"votes": votes.answer(mu / math.sqrt(k)), "stable once": once}
            case |= {"stable each": (_keep(trial, mu / math.sqrt(k), epsilon), None), "student": student}
            found[epsilon, k] = case | ({"diffprivlib": (peer[epsilon], None)} if epsilon in peer else {})
    return found


def _certify(trial: Trial, predict: Callable[[Floats], npt.NDArray[Any]]) -> float:
    """Return a bound for the population on what was released: a noisy mean of the loss on held-out rows, then Chernoff."""
    rows, truth = trial.held
    width = 1 / (len(rows) * MU)
    noisy = trial.judge(predict(rows), truth) + _RNG.normal() * width + -special.ndtri(BETA / 2) * width
    return largest_mean(min(1.0, max(0.0, noisy)), math.log(2 / BETA) / len(rows))


def _fit_all(trial: Trial, mu: float, epsilon: float) -> list[StableFit]:
    """Return a fit for each learner, at the strength that is best for noise of this mu, to a power of 2."""
    loss = trial.loss
    row = Features((-1, 1), columns=trial.rows.shape[1], norm=trial.norm).lipschitz * (loss.lipschitz or 1)
    best = output_strength(len(trial.rows), mu=mu, radius=5 if epsilon <= 1 else 10, lipschitz=row)
    strength = 2.0 ** round(math.log2(best))
    known = _FITS.get((trial.name, strength))
    if known is None:
        given: dict[str, Any] = {
            "loss": loss,
            "bounds": (-1, 1),
            "norm": trial.norm,
            "strength": strength,
            "label_bounds": (-1, 1),
        }
        goals = [trial.labels == label for label in _labels_of(trial)] if trial.classes else [trial.labels]
        known = _FITS[trial.name, strength] = [fit_stable(trial.rows, goal, **given) for goal in goals]
    return known


_FITS: dict[tuple[str, float], list[StableFit]] = {}


def _labels_of(trial: Trial) -> range:
    return range(1, 2) if trial.learners == 1 else range(trial.classes)


def _say(trial: Trial, scores: Floats) -> npt.NDArray[Any]:
    """Return predictions from scores, learners by points."""
    if not trial.classes:
        return np.asarray(scores[0])
    return np.asarray((scores[0] > 0).astype(np.int64) if trial.learners == 1 else scores.argmax(axis=0))


def _publish(trial: Trial, mu: float, epsilon: float) -> tuple[float, float | None]:
    share = mu / math.sqrt(trial.learners) * (1 - 1e-9)
    fits, measured, bounds = _fit_all(trial, share, epsilon), [], []
    points, truth = trial.points
    for _ in range(REPEATS):
        models = [output_perturbation(fit, mu=share) for fit in fits]

        def predict(rows: Floats, models: list[Any] = models) -> npt.NDArray[Any]:
            return _say(trial, np.array([model.scores(rows) for model in models]))

        measured.append(trial.judge(predict(points), truth))
        bounds.append(_certify(trial, predict))
    return float(np.mean(measured)), float(np.mean(bounds))


def _keep(trial: Trial, mu: float, epsilon: float) -> float:
    share = mu / math.sqrt(trial.learners)
    fits, (points, truth) = _fit_all(trial, share, epsilon), trial.points
    exact = np.array([fit.features.scale_rows(points) @ fit.private_weights for fit in fits])
    noise = fits[0].gamma / share
    draws = (exact + noise * _RNG.normal(size=exact.shape) for _ in range(REPEATS))
    return float(np.mean([trial.judge(_say(trial, noisy), truth) for noisy in draws]))


@dataclass(frozen=True, eq=False)
class _Votes:
    """What the parts say of held-out, public and measured rows: counts by label, or the parts' mean."""

    trial: Trial
    held: Floats
    public: Floats
    points: Floats

    @classmethod
    def of(cls, trial: Trial) -> "_Votes":
        from sklearn.linear_model import LogisticRegression, Ridge

        estimator = LogisticRegression(C=10.0, max_iter=200) if trial.classes else Ridge(1.0)
        facts: dict[str, Any] = {"parts": trial.parts, "bounds": (-1.0, 1.0)}
        facts |= {"labels": list(range(trial.classes))} if trial.classes else {"output_bounds": (-1.0, 1.0)}
        ensemble = train(estimator, trial.rows, trial.labels, **facts)
        seen: list[Any] = [
            ensemble.votes(x) if trial.classes else ensemble.outputs(x).mean(axis=1) for x in cls._places(trial)
        ]
        return cls(trial, *seen)

    @staticmethod
    def _places(trial: Trial) -> Iterator[Floats]:
        yield from (trial.held[0], trial.public, trial.points[0])

    def answer(self, mu: float) -> tuple[float, float | None]:
        """Return the loss of answers at mu each, by their exact law for labels, and the certified bound."""
        truth = self.trial.points[1]
        if not self.trial.classes:
            noise = 2 / self.trial.parts / mu
            return float(np.mean([self.trial.judge(self._draw(self.points, noise), truth) for _ in range(REPEATS)])), None
        epsilon = self._find_epsilon(mu)
        law = special.softmax(epsilon / 2 * self.points, axis=1)
        return 1 - float(law[np.arange(len(truth)), truth].mean()), self._bound(epsilon)

    def _bound(self, epsilon: float) -> float | None:
        """Return what an evaluation certifies with probability 0.8 at the level that is known in hindsight."""
        if epsilon < 1e-3:
            return None
        codes = np.asarray(self.trial.held[1], dtype=np.int64)
        held = np.asarray(self.held, dtype=np.int64)
        robust = RobustError.of(held, codes, epsilon=Fraction(epsilon), reach=round(16 / MU))
        least = (special.ndtri(1 - BETA * FIRST_SHARE) + special.ndtri(0.8)) / MU
        level = next((x for x in _LEVELS if robust.distance(x) >= least), None)
        return None if level is None else largest_mean(float(level), -math.log(BETA * (1 - FIRST_SHARE)) / len(codes))

    def _find_epsilon(self, mu: float) -> float:
        return float(2 * special.logit(special.ndtr(mu / 2)))

    def _draw(self, means: Floats, noise: float) -> Floats:
        return np.clip(means + noise * _RNG.normal(size=means.shape), -1, 1)

    def teach(self, mu: float) -> tuple[float, float | None]:
        """Return the loss of a student of BOUGHT labels, all for mu, and the bound of what it predicts."""
        from sklearn.dummy import DummyClassifier
        from sklearn.linear_model import LogisticRegression, Ridge

        trial, each = self.trial, mu / math.sqrt(BOUGHT)
        places = np.arange(BOUGHT) * len(trial.public) // BOUGHT
        measured, bounds = [], []
        for _ in range(REPEATS):
            if trial.classes:
                law = special.softmax(self._find_epsilon(each) / 2 * self.public[places], axis=1)
                bought = (law.cumsum(axis=1) > _RNG.random(BOUGHT)[:, None]).argmax(axis=1)
                kind: Any = LogisticRegression(C=1.0, max_iter=200) if len(set(bought.tolist())) > 1 else DummyClassifier()
            else:
                bought, kind = self._draw(self.public[places], 2 / trial.parts / each), Ridge(10.0)
            student = kind.fit(trial.public[places], bought)
            measured.append(trial.judge(student.predict(trial.points[0]), trial.points[1]))
            bounds.append(_certify(trial, student.predict))
        return float(np.mean(measured)), float(np.mean(bounds))


def _run_peer(trial: Trial, python: Path) -> dict[float, float]:
    """Return diffprivlib's loss by epsilon; nothing where it failed."""
    common = {"data_norm": trial.norm, "trainings": 3, "model": "logistic" if trial.classes else "linear"}
    plan = [common | {"epsilon": epsilon, "C": 0.01 if epsilon <= 0.5 else 0.1} for epsilon in EPSILONS]
    with tempfile.TemporaryDirectory() as name:
        rows, settings, out = (Path(name) / file for file in ("rows.npz", "plan.json", "out.json"))
        np.savez(rows, rows=trial.rows, labels=trial.labels, points=trial.points[0], truth=trial.points[1])
        settings.write_text(json.dumps(plan), encoding="utf-8")
        script = Path(__file__).parent / "peers" / "private_regressions.py"
        if not run_command([python, script, rows, settings, out])[0] or not out.exists():
            return {}
        answers = json.loads(out.read_text(encoding="utf-8"))
    return {epsilon: 1 - float(np.mean(shares)) for epsilon, shares in zip(EPSILONS, answers, strict=True)}


def _list_trials(data: Path | None) -> Iterator[Trial]:
    from reproductions.predict import bundled_tasks, real_tasks

    for task in bundled_tasks() if data is None else real_tasks(data):
        sides = task.rows, task.labels, task.points, task.truth
        yield _split(task.name, *sides, norm=task.norm, classes=task.classes, parts=task.parts)
    yield _read_houses(data)


def _split(  # noqa: PLR0913 - the sides of one table
    name: str,
    rows: Floats,
    labels: npt.NDArray[Any],
    points: Floats,
    truth: npt.NDArray[Any],
    *,
    norm: float,
    classes: int,
    parts: int,
) -> Trial:
    held = PartRule("position", held_out=0.2).find_held_out(len(rows), None)
    public = np.arange(len(points)) % 2 == 0
    measured = points[~public], truth[~public]
    return Trial(
        name, rows[~held], labels[~held], (rows[held], labels[held]), points[public], measured, norm, classes, parts
    )


_HOUSES = ((-125, -114), (32, 42), (0, 60), (0, 40_000), (0, 7_000), (0, 40_000), (0, 7_000), (0, 16))


def _read_houses(data: Path | None) -> Trial:
    """Return California housing, clipped to public bounds on the scale of [-1, 1]; every fourth row is a test row."""
    if data is None:
        from sklearn.datasets import load_diabetes

        table = load_diabetes()
        rows, prices, name = np.clip(table.data * 5, -1, 1), np.clip(table.target / 175 - 1, -1, 1), "diabetes"
    else:
        lines = np.loadtxt(data / "california_housing" / "cal_housing.csv", delimiter=",", skiprows=1)
        low, high = np.array(_HOUSES, dtype=np.float64).T
        rows = np.clip((lines[:, :8] - low) / (high - low) * 2 - 1, -1, 1)
        prices, name = np.clip(lines[:, 8] / 250_000.5 - 1, -1, 1), "California housing"
    tested = np.arange(len(rows)) % 4 == 3
    norm = math.sqrt(rows.shape[1])
    sides = rows[~tested], prices[~tested], rows[tested], prices[tested]
    return _split(name, *sides, norm=norm, classes=0, parts=200 if len(rows) > 5_000 else 20)


def _draw(path: Path, curves: dict[str, Found]) -> None:
    from matplotlib.figure import Figure

    shown = (0.1, 1.0)
    colours = dict(zip(_METHODS, ("#00695f", "#c2571a", "#7b4fa3", "#2d6cb5", "#8a9099"), strict=True))
    figure = Figure(figsize=(4 * len(curves), 6.4), layout="constrained")
    figure.suptitle(f"Mean loss of k predictions that one total epsilon at delta {DELTA:g} pays for", x=0.01, ha="left")
    axes = figure.subplots(len(shown), len(curves), sharex=True, squeeze=False)
    for column, (name, found) in enumerate(curves.items()):
        for line, epsilon in enumerate(shown):
            ax = axes[line][column]
            for method, colour in colours.items():
                values = [found[epsilon, k].get(method, (np.nan, None))[0] for k in PREDICTIONS]
                ax.plot(PREDICTIONS, values, color=colour, label=method, marker=".")
            ax.set(xscale="log", ylim=(0, None))
            ax.set_title(f"{name}, epsilon {epsilon:g}", fontsize=10, loc="left")
            ax.spines[["top", "right"]].set_visible(False)
        axes[-1][column].set_xlabel("predictions")
    for line in axes:
        line[0].set_ylabel("mean loss")
    axes[0][0].legend(frameon=False, fontsize=8)
    figure.savefig(path)
    print(f"written to {path}", flush=True)
