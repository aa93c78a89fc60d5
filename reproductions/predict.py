"""Private predictions by votes, beside models that are trained privately once, at the same total epsilon.

One prediction costs epsilon, so that the total grows with their number; a privately trained model costs its epsilon once,
however often it predicts. The table says from which number of predictions on training pays.
"""

import csv
import gzip
import json
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special
from threadpoolctl import threadpool_limits

from holdtrue.accounting.filters import GaussianFilter, largest_cap
from holdtrue.bounds.accuracy import largest_mean
from holdtrue.ensembles import train
from holdtrue.ensembles.certificates import RobustError
from holdtrue.ensembles.losses import Features, logistic
from holdtrue.ensembles.members import Ensemble
from holdtrue.ensembles.parts import PartRule
from holdtrue.ensembles.responding import SoftMajority
from holdtrue.ensembles.stable import fit_stable, output_perturbation, output_strength
from holdtrue.verbs.evaluating import FIRST_SHARE
from reproductions import predict_totals
from reproductions.environments import find_peer, run_command
from reproductions.writing import write

__all__ = ["Task", "bundled_tasks", "real_tasks", "run"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

DELTA = 1e-5
EPSILONS = (Fraction("0.05"), Fraction("0.1"), Fraction("0.5"))
PREDICTIONS = (1, 10, 100, 1000)
LEVEL = 0.005
REPEATS = 10
BETA = 0.05
CERTIFIED_PARTS = 200
CERTIFIED_EPSILONS = (Fraction("0.1"), Fraction("0.3"), Fraction(1))
MUS = (0.05, 0.1, 0.2, 0.4)
LEARNERS = ("ridge 0.5", "ridge 1", "ridge 2", "ridge 4", "ridge 8", "tree 1", "tree 2", "tree 3", "tree 4", "tree 6")
_SMALL = 5000
_LEVELS = [Fraction(number, 1000) for number in range(1, 1000)]
PEER_C = {0.5: (0.001, 0.01), 5.0: (0.01, 0.1), 20.0: (0.1, 1.0), np.inf: (1.0, 10.0)}


@dataclass(frozen=True, eq=False)
class Task:
    """Rows to learn from and points to predict, each at most ``norm`` long by public bounds; labels are 0, 1, 2, ..."""

    name: str
    features: str
    rows: Floats
    labels: Integers
    points: Floats
    truth: Integers
    norm: float
    parts: int
    C: float
    steps: int

    @property
    def classes(self) -> int:
        """Return the number of labels."""
        return int(self.truth.max()) + 1


@dataclass(frozen=True)
class Case:
    """So many predictions at epsilon each, and what they cost together: k epsilon, and epsilon at DELTA on a GDP ledger."""

    epsilon: Fraction
    predictions: int

    @property
    def pure(self) -> float:
        """Return k epsilon."""
        return float(self.predictions * self.epsilon)

    @property
    def ledger(self) -> float:
        """Return the epsilon at DELTA of a GDP ledger with the cost of all of them as its cap."""
        each = GaussianFilter.of(1).cost(SoftMajority(self.epsilon).event)
        return GaussianFilter(self.predictions * each).epsilon(DELTA)

    @property
    def total(self) -> float:
        """Return the smaller of both: each is a guarantee of all predictions together."""
        return min(self.pure, self.ledger)

    @property
    def shown(self) -> list[str]:
        """Return the first cells of a line."""
        return [f"{float(self.epsilon):g}", f"{self.predictions:,}", f"{self.pure:g}", f"{self.ledger:.3g}"]


CASES = [Case(epsilon, number) for epsilon in EPSILONS for number in PREDICTIONS]


def run(data: Path | None, out: Path) -> None:
    """Write predict.md, certified.md about evaluations, and predict-totals.md about one total for many predictions."""
    predict_totals.run(data, out)
    certify(bundled_tasks() if data is None else real_tasks(data), out)
    python, reason = find_peer("diffprivlib")
    words, rows = [_WORDS, f"{reason}."], []
    for task in bundled_tasks() if data is None else real_tasks(data):
        print(task.name, flush=True)
        votes, sentence = _voted(task)
        peer = {} if python is None else _peer(task, python)
        if python is not None and not peer:
            words.append(f"diffprivlib failed on {task.name}, and its columns are empty there.")
        verdicts: dict[Case, list[str]] = {}
        pure: dict[Case, list[str]] = {}
        for case, stable in zip(CASES, _stable(task), strict=True):
            found = {"votes": _soft(votes, task.truth, case.epsilon), "stable weights": stable}
            if case.total in peer:
                found["diffprivlib"] = peer[case.total]
            verdicts[case] = _best(found)
            if case.pure in peer:
                pure[case] = _best({"votes": found["votes"], "diffprivlib": peer[case.pure]})
            shares = [found["votes"], stable, found.get("diffprivlib"), peer.get(case.pure)]
            rows.append([task.name, *case.shown, *map(_shown, shares), " = ".join(verdicts[case])])
        words += [sentence, f"{task.name}, at the total: {_said(verdicts)}"]
        words += [f"{task.name}, at k epsilon, on a ledger without delta: {_said(pure)}"] if pure else []
    header = ["table", "epsilon each", "predictions k", "k epsilon", f"epsilon at {DELTA:g}", "votes", "stable weights"]
    header += ["diffprivlib", "diffprivlib at k epsilon", "best"]
    write(out / "predict.md", title="Private predictions, by number", words="\n\n".join(words), header=header, rows=rows)


_WORDS = f"""\
`votes`: expected accuracy of the soft majority of an ensemble over the test rows, by its exact law, nothing sampled; every
prediction costs `epsilon each`. All k together satisfy two guarantees, k epsilon and an epsilon at delta = {DELTA:g} on a
GDP ledger; the smaller is their total. `stable weights` (ours: regularised logistic regression, one label against the rest,
published once with normal noise, at delta = {DELTA:g}) and `diffprivlib` (its LogisticRegression, at delta = 0, with the
public bound as data_norm) are trained once at that total, and then predict any number of times; `diffprivlib at k epsilon`
is for a ledger without delta. diffprivlib gets the better of two C (0.001 and 0.01 up to an epsilon of 0.5, 0.01 and 0.1 up
to 5, 0.1 and 1 up to 20, 1 and 10 above), by the mean of 5 trainings (2 above 5, where they hardly differ); stable weights
are the mean of {REPEATS} draws of the noise, with a radius of 5 up to a total of 1, 10 up to 10, and 100 above. All of
these settings, the members' C too, were found on the test labels of Adult and MNIST: that is no guide to new data, and
favours private training, which has more of them. `best` is the most accurate at the total; what is within {LEVEL:g} of it
counts as equal.
""".replace("\n", " ").strip()


_CERTIFIED = f"""\
What `evaluate` certifies: a fifth of the training rows is held out, by position; {CERTIFIED_PARTS} parts (a tenth as many
on small tables) learn the others, on Adult with the logarithm of the capital gain. The learner is chosen on other rows, the
test rows: of {len(LEARNERS)}, the one with the smallest level there, by parts of the same size and the same weight of all
votes; no row that is certified has a say. `true error` is that of the soft majority on the test rows, by its exact law, a
little optimistic for having chosen there. `level` is the smallest x, in steps of 0.001, that is certified with probability
0.8 at this mu, and `bound` what then holds for the population, with probability {1 - BETA:g} (V4.4), all fixed before the
first answer. The level is known in hindsight only: a public one must be guessed, or falls until it is refused.
""".replace("\n", " ").strip()


def certify(tasks: Iterable[Task], out: Path) -> None:
    """Write certified.md: errors that evaluations certify, beside errors on test rows."""
    lines = []
    for task in tasks:
        print(task.name, "certified", flush=True)
        parts = CERTIFIED_PARTS if len(task.rows) > _SMALL else CERTIFIED_PARTS // 10
        rows, points = _scale_gain(task, task.rows), _scale_gain(task, task.points)
        name = _choose_learner(points, task.truth, parts=parts, part_rows=len(rows) * 4 // (5 * parts))
        votes, codes, ensemble = _hold_out(name, rows, task.labels, parts)
        tested = ensemble.votes(points)
        for epsilon in CERTIFIED_EPSILONS:
            true = 1 - _soft(tested, task.truth, epsilon)
            for mu in MUS:
                level = _find_level(votes, codes, epsilon, mu)
                bound = None if level is None else largest_mean(float(level), -np.log(BETA * (1 - FIRST_SHARE)) / len(codes))
                shown = [f"{float(epsilon):g}", f"{mu:g}", f"{true:.4f}"]
                shown += [_shown(None if level is None else float(level)), _shown(bound)]
                lines.append([task.name, name, f"{len(codes):,}", *shown])
    header = ["table", "learner", "held out", "epsilon", "mu", "true error", "level", "bound"]
    write(
        out / "certified.md", title="Errors of private predictions, certified", words=_CERTIFIED, header=header, rows=lines
    )


def _choose_learner(rows: Floats, labels: Integers, *, parts: int, part_rows: int) -> str:
    """Return the learner with the smallest certified level on rows that are not judged, at epsilon .1 and mu .2.

    Parts are as large as those to come, so that there are fewer: epsilon and mu are as much larger, and all votes together
    weigh the same.
    """
    fewer = max(2, len(rows) * 4 // (5 * part_rows))
    scale = Fraction(parts, fewer)
    levels = {}
    for name in LEARNERS:
        votes, codes, _ = _hold_out(name, rows, labels, fewer)
        levels[name] = _find_level(votes, codes, Fraction("0.1") * scale, 0.2 * float(scale)) or Fraction(1)
    return min(levels, key=lambda name: levels[name])


def _hold_out(name: str, rows: Floats, labels: Integers, parts: int) -> tuple[Integers, Integers, Ensemble]:
    """Return votes and labels of every fifth row, and the ensemble that learned the others."""
    held = PartRule("position", held_out=0.2).find_held_out(len(rows), None)
    facts: dict[str, Any] = {"parts": parts, "labels": list(range(int(labels.max()) + 1)), "bounds": (-1.0, 1.0)}
    ensemble = train(_make_learner(name), rows[~held], labels[~held], **facts)
    return ensemble.votes(rows[held]), labels[held], ensemble


def _make_learner(name: str) -> Any:  # noqa: ANN401 - an estimator of scikit-learn
    from sklearn.linear_model import RidgeClassifier
    from sklearn.tree import DecisionTreeClassifier

    kind, number = name.split()
    return RidgeClassifier(alpha=float(number)) if kind == "ridge" else DecisionTreeClassifier(max_depth=int(number))


def _find_level(votes: Integers, codes: Integers, epsilon: Fraction, mu: float) -> Fraction | None:
    """Return the smallest level that is certified with probability 0.8."""
    error = RobustError.of(votes, codes, epsilon=epsilon, reach=min(2048, round(16 / mu) + 1))
    least = (special.ndtri(1 - BETA * FIRST_SHARE) + special.ndtri(0.8)) / mu
    return next((x for x in _LEVELS if error.distance(x) >= least), None)


def _scale_gain(task: Task, rows: Floats) -> Floats:
    """Return rows of Adult with the logarithm of the capital gain, of at most 99,999, over 12; others as they are."""
    if task.name != "Adult":
        return rows
    scaled = rows.copy()
    scaled[:, 2] = np.log1p(rows[:, 2] * 99_999) / 12
    return scaled


def _voted(task: Task) -> tuple[Integers, str]:
    """Return the votes of an ensemble, and a sentence about what the same estimator does without privacy."""
    from sklearn.linear_model import LogisticRegression

    estimator = LogisticRegression(C=task.C, max_iter=200)
    labels = list(range(task.classes))
    ensemble = train(estimator, task.rows, task.labels, parts=task.parts, labels=labels, bounds=(-1.0, 1.0))
    votes = ensemble.votes(task.points)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 200 rounds are enough for accuracy, not for the solver's tolerance
        plain = estimator.fit(task.rows, task.labels).score(task.points, task.truth)
    majority = float((votes.argmax(axis=1) == task.truth).mean())
    common = float((np.bincount(task.labels).argmax() == task.truth).mean())
    soft = ", ".join(f"{_soft(votes, task.truth, each):.4f} at epsilon {float(each):g}" for each in EPSILONS)
    sentence = (
        f"**{task.name}** ({len(task.rows):,} rows, {len(task.points):,} test rows; {task.features}). "
        f"LogisticRegression(C={task.C:g}) on all rows, without privacy, is right on {plain:.4f}; the plain majority of "
        f"{task.parts} parts on {majority:.4f}; the soft majority on {soft}; the commonest label on {common:.4f}."
    )
    return votes, sentence


def _soft(votes: Integers, truth: Integers, epsilon: Fraction) -> float:
    """Return the chance that the soft majority is right, in the mean over points."""
    law = special.softmax(float(epsilon) / 2 * votes, axis=1)
    return float(law[np.arange(len(votes)), truth].mean())


def _stable(task: Task) -> list[float]:
    """Return for each case the mean accuracy of weights that are published once at its total, one label against the rest."""
    learners = 1 if task.classes == 2 else task.classes
    row = Features((-1, 1), columns=task.rows.shape[1], norm=task.norm).lipschitz

    def measured(case: Case) -> float:
        mu = GaussianFilter(largest_cap("gdp", case.total, DELTA)).mu / np.sqrt(learners) * (1 - 1e-9)
        radius, rounds = (5, 1) if case.total <= 1 else (10, 1) if case.total <= 10 else (100, 3)
        strength = output_strength(len(task.rows), mu=mu, radius=radius, lipschitz=row)
        scores = np.empty((learners, REPEATS, len(task.points)))
        for label in range(learners):
            yes = task.labels == (1 if learners == 1 else label)
            fit = fit_stable(
                task.rows,
                yes,
                loss=logistic(),
                bounds=(-1, 1),
                norm=task.norm,
                strength=strength,
                steps=rounds * task.steps,
            )
            for repeat in range(REPEATS):
                scores[label, repeat] = output_perturbation(fit, mu=mu).scores(task.points)
        said = (scores[0] > 0).astype(np.int64) if learners == 1 else scores.argmax(axis=0)
        return float((said == task.truth).mean())

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(measured, CASES))


def _peer(task: Task, python: Path) -> dict[float, float]:
    """Return diffprivlib's accuracy by epsilon, the better mean of two settings; nothing where it failed."""
    epsilons = sorted({case.total for case in CASES} | {case.pure for case in CASES})
    plan = [
        {"epsilon": epsilon, "C": C, "data_norm": task.norm, "trainings": 5 if epsilon <= 5 else 2}
        for epsilon in epsilons
        for C in next(pair for most, pair in PEER_C.items() if epsilon <= most)
    ]
    with tempfile.TemporaryDirectory() as name:
        rows, settings, out = (Path(name) / file for file in ("rows.npz", "plan.json", "out.json"))
        np.savez(rows, rows=task.rows, labels=task.labels, points=task.points, truth=task.truth)
        settings.write_text(json.dumps(plan), encoding="utf-8")
        script = Path(__file__).parent / "peers" / "private_regressions.py"
        if not run_command([python, script, rows, settings, out])[0] or not out.exists():
            return {}
        answers = json.loads(out.read_text(encoding="utf-8"))
    means = np.reshape([np.mean(shares) for shares in answers], (len(epsilons), -1)).max(axis=1)
    return dict(zip(epsilons, means.tolist(), strict=True))


def _best(accuracies: dict[str, float]) -> list[str]:
    most = max(accuracies.values())
    return [name for name, share in accuracies.items() if share >= most - LEVEL]


def _said(verdicts: dict[Case, list[str]]) -> str:
    """Return in words where votes win and where private training does."""
    sentences = []
    for epsilon in EPSILONS:
        winners: dict[str, list[str]] = {}
        for case, best in verdicts.items():
            if case.epsilon == epsilon:
                ahead = "both are equal" if "votes" in best else "private training wins"
                ahead = "votes win" if best == ["votes"] else ahead
                winners.setdefault(ahead, []).append(f"{case.predictions:,}")
        told = "; ".join(f"{ahead} for {_listed(numbers)}" for ahead, numbers in winners.items())
        sentences.append(f"With epsilon {float(epsilon):g} each, {told}")
    return ". ".join(sentences) + "."


def _listed(numbers: list[str]) -> str:
    return " and ".join([", ".join(numbers[:-1]), numbers[-1]] if numbers[1:] else numbers)


def _shown(share: float | None) -> str:
    return "–" if share is None else f"{share:.4f}"


def real_tasks(data: Path) -> Iterator[Task]:
    """Yield Adult and MNIST."""
    yield _adult(data / "adult")
    yield _mnist(data / "mnist")


def _adult(folder: Path) -> Task:
    """Return five numbers and six codes as columns from 0 to 1; the codes are public, the census prints them."""
    bounds = {0: (0.0, 120.0), 4: (1.0, 16.0), 10: (0.0, 99_999.0), 11: (0.0, 5000.0), 12: (0.0, 99.0)}
    coded = (1, 5, 6, 7, 8, 9)
    texts = ((folder / name).read_text(encoding="utf-8").splitlines() for name in ("adult.data", "adult.test"))
    learned, tested = ([line for line in csv.reader(text, skipinitialspace=True) if len(line) == 15] for text in texts)
    values = {place: sorted({line[place] for line in learned + tested}) for place in coded}

    def matrix(lines: list[list[str]]) -> Floats:
        columns = [
            (np.clip([float(line[place]) for line in lines], low, high) - low) / (high - low)
            for place, (low, high) in bounds.items()
        ]
        columns += [np.array([float(line[place] == value) for line in lines]) for place in coded for value in values[place]]
        return np.column_stack(columns)

    return Task(
        "Adult",
        "age, education-num, capital-gain, capital-loss, hours-per-week, each over its public bounds, and a 0-or-1 column "
        "for each code of workclass, marital-status, occupation, relationship, race and sex: rows no longer than sqrt(11)",
        matrix(learned),
        np.array([line[14].startswith(">50K") for line in learned], dtype=np.int64),
        matrix(tested),
        np.array([line[14].startswith(">50K") for line in tested], dtype=np.int64),
        norm=float(np.sqrt(len(bounds) + len(coded))),
        parts=250,
        C=10.0,
        steps=500,
    )


def _mnist(folder: Path) -> Task:
    images = [_idx(folder / f"{name}-images-idx3-ubyte.gz") for name in ("train", "t10k")]
    labels = [_idx(folder / f"{name}-labels-idx1-ubyte.gz").astype(np.int64) for name in ("train", "t10k")]
    rows, points = (_unit(each.reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(-1, 49) / 255) for each in images)
    features = "means of 4 x 4 pixels, 49 in all, each image divided by its length: rows no longer than 1"
    return Task("MNIST", features, rows, labels[0], points, labels[1], norm=1.0, parts=250, C=100.0, steps=150)


def bundled_tasks() -> Iterator[Task]:
    """Yield small tables that come with scikit-learn: every fourth row is a test row."""
    from sklearn.datasets import load_breast_cancer, load_digits

    cancer = load_breast_cancer()
    names = ["mean radius", "mean texture", "mean smoothness", "mean concavity", "worst radius", "worst texture"]
    high = np.array([40.0, 50.0, 0.3, 0.5, 50.0, 60.0])
    places = [list(cancer.feature_names).index(name) for name in names]
    rows = np.clip(cancer.data[:, places] / high, 0, 1)
    tested = np.arange(len(rows)) % 4 == 3
    features = "six columns over public bounds: rows no longer than sqrt(6)"
    sides = rows[~tested], cancer.target[~tested], rows[tested], cancer.target[tested]
    yield Task("breast cancer", features, *sides, norm=float(np.sqrt(6)), parts=25, C=10.0, steps=500)
    digits = load_digits()
    rows = _unit(digits.data / 16)
    tested = np.arange(len(rows)) % 4 == 3
    sides = rows[~tested], digits.target[~tested], rows[tested], digits.target[tested]
    features = "64 pixels, each image divided by its length: rows no longer than 1"
    yield Task("digits", features, *sides, norm=1.0, parts=40, C=100.0, steps=150)


def _unit(rows: Floats) -> Floats:
    """Return rows divided by their lengths, each by itself; a hair less, so that rounding keeps them within 1."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, 1e-9) * (1 - 1e-12))


def _idx(path: Path) -> npt.NDArray[np.uint8]:
    raw = gzip.decompress(path.read_bytes())
    sizes = np.frombuffer(raw, ">u4", count=raw[3], offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(sizes)
