"""Votes of stacked members: those of the members themselves, and the same integers however they are counted."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier

from holdtrue import kernels
from holdtrue.ensembles import train
from holdtrue.ensembles.members import Domain, kind_of
from holdtrue.ensembles.parts import FEATURE_LIMIT
from holdtrue.kernels import predictors, predictors_compiled
from holdtrue.kernels.predictors import WeightTable, count_table_votes, score_table

PARTS = 6
CLASSIFIERS = [
    LogisticRegression(),
    RidgeClassifier(),
    Perceptron(),
    SGDClassifier(),
    LinearSVC(),
    LinearDiscriminantAnalysis(),
    DecisionTreeClassifier(max_depth=6),
    ExtraTreeClassifier(),
    GaussianNB(),
]


def _rows(labels, *, rows=240, columns=5):
    rng = np.random.default_rng(labels)
    x = rng.normal(size=(rows, columns))
    return x, (2 * x[:, 0] + rng.normal(size=rows)).round().astype(int) % labels, rng.normal(size=(80, columns))


@pytest.fixture(params=["numpy", "numba"])
def path(request, monkeypatch):
    """Both ways of counting, whatever the size."""
    monkeypatch.setattr(predictors, "compiled", lambda _work: predictors_compiled if request.param == "numba" else None)
    return request.param


@pytest.mark.parametrize("labels", [2, 4])
@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda estimator: type(estimator).__name__)
def test_votes_are_those_of_the_members_own_predict(estimator, labels, path):
    x, y, points = _rows(labels)
    ensemble = train(estimator, x, y, parts=PARTS, labels=list(range(labels)), jobs=1)
    expected = np.zeros((len(points), labels), dtype=int)
    for part in range(PARTS):
        member = clone(estimator)
        if "random_state" in member.get_params():
            member.set_params(random_state=part)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            member.fit(x[part::PARTS], y[part::PARTS])
        expected[np.arange(len(points)), member.predict(points)] += 1
    counts = ensemble.votes(points)
    assert counts.dtype == np.int64
    assert (counts == expected).all(), path
    assert (counts.sum(axis=1) == PARTS).all()
    assert (ensemble.kind == "other") == (estimator.__class__ is GaussianNB)


def test_every_type_that_is_stacked_exists_and_subclasses_are_not_taken_for_them():
    class Contrary(LogisticRegression):
        def predict(self, x):
            return 1 - super().predict(x)

    assert kind_of(Contrary()) == "other"
    assert [kind_of(estimator) for estimator in CLASSIFIERS] == ["linear"] * 6 + ["trees"] * 2 + ["other"]


def _table(rng, *, members, columns, labels, hard):
    """Return a table of members with one to four rows; of small whole numbers, so that scores tie, or of any size."""
    widths = rng.integers(1, min(labels, 4) + 1, members) if labels > 2 else np.ones(members, dtype=int)
    rows = int(widths.sum())

    def draw(*shape):
        if not hard:
            return rng.integers(-2, 3, shape).astype(float)
        return rng.normal(size=shape) * 10.0 ** rng.integers(-300, 271, shape)

    codes, others = rng.integers(0, labels, rows), rng.integers(0, labels, rows)
    return WeightTable(draw(columns, rows), draw(rows), np.append(0, np.cumsum(widths)), codes, others)


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("labels", [2, 4])
def test_numba_and_numpy_count_the_same_integers(labels, hard, monkeypatch):
    rng = np.random.default_rng([labels, hard])
    for members, columns, many in ((1, 1, 3), (63, 3, 40), (64, 4, 1), (65, 5, 17), (200, 11, 90)):
        table = _table(rng, members=members, columns=columns, labels=labels, hard=hard)
        points = rng.integers(-2, 3, (many, columns)) * (10.0 ** rng.integers(-5, 38, (many, columns)) if hard else 1.0)
        found = []
        for module in (None, predictors_compiled):
            monkeypatch.setattr(predictors, "compiled", lambda _work, module=module: module)
            found.append((count_table_votes(table, points, labels=labels), score_table(table, points)))
        assert (found[0][0] == found[1][0]).all()
        assert found[0][1].tobytes() == found[1][1].tobytes() or np.array_equal(found[0][1], found[1][1], equal_nan=True)
        assert (found[0][0].sum(axis=1) == members).all()


def test_scores_are_summed_in_the_order_of_the_columns_and_rounded_every_time(path):
    """Numbers on which other orders, and fused steps, give other signs; NumPy's own product is one of those."""
    weights = np.array([[1.0, 1e16, 1.0 + 2**-30], [1e16, 1.0, 1.0], [-1e16, -1e16, 1.0], [-0.5, -0.5, -(1.0 + 2**-29)]])
    table = WeightTable(weights, np.zeros(3), np.arange(4), np.ones(3, dtype=int), np.zeros(3, dtype=int))
    points = np.array([[1.0, 1.0, 1.0, 1.0], [1.0 + 2**-30, 0.0, 0.0, 1.0]])
    expected = []
    for point in points:
        for column in weights.T:
            total = 0.0
            for a, b in zip(point, column, strict=True):
                total = total + a * b
            expected.append(total)
    assert score_table(table, points).ravel().tolist() == expected, path
    assert expected[:2] == [-0.5, -0.5]
    # Fused, the last would keep the square of 2^-30: rounded, it is exactly zero, which is no vote.
    assert expected[5] == 0.0
    assert count_table_votes(table, points, labels=2)[1, 0] >= 1


def test_a_vote_does_not_depend_on_what_else_is_asked(path):
    x, y, points = _rows(3)
    for estimator in (LogisticRegression(), DecisionTreeClassifier()):
        ensemble = train(estimator, x, y, parts=PARTS, labels=[0, 1, 2], jobs=1)
        whole = ensemble.votes(points)
        assert all((ensemble.votes(point) == line).all() for point, line in zip(points, whole, strict=True)), path
        assert (ensemble.votes(points[::-1]) == whole[::-1]).all()
        assert ensemble.votes(points[:0]).shape == (0, 3)


def test_many_threads_count_what_one_counts(monkeypatch):
    x, y, points = _rows(2)
    monkeypatch.setattr(predictors, "compiled", lambda _work: predictors_compiled)
    for estimator in (LogisticRegression(), DecisionTreeClassifier()):
        ensemble = train(estimator, x, y, parts=PARTS, labels=[0, 1], jobs=1)
        one = ensemble.votes(points)
        monkeypatch.setattr(predictors, "_LARGE_WORK", 16)
        monkeypatch.setattr(predictors.os, "cpu_count", lambda: 7)
        assert (ensemble.votes(points) == one).all()
        monkeypatch.setattr(predictors, "_LARGE_WORK", 1 << 26)


def test_trees_turn_where_their_own_predict_turns(path):
    """Points on, just below and just above every threshold, in doubles: the member itself rounds them to 32 bits."""
    x, y, _ = _rows(2)
    x = np.round(x, 2)
    ensemble = train(DecisionTreeClassifier(), x, y, parts=2, labels=[0, 1], jobs=1)
    own = [DecisionTreeClassifier(random_state=part).fit(x[part::2], y[part::2]) for part in range(2)]
    points = []
    for tree in (member.tree_ for member in own):
        for feature, threshold in zip(tree.feature, tree.threshold, strict=True):
            for shift in (-1e-6, -1e-9, -1e-17, 0.0, 1e-17, 1e-9, 1e-6):
                point = np.zeros(5)
                point[max(feature, 0)] = threshold + shift
                points.append(point)
    points = np.array(points)
    expected = sum(member.predict(points) for member in own)
    assert (ensemble.votes(points)[:, 1] == expected).all(), path


def test_regression_trees_say_the_value_of_their_leaf(path):
    x, y, points = _rows(5)
    ensemble = train(DecisionTreeRegressor(max_depth=4), x, 0.37 * y, parts=4, output_bounds=(-9, 9), jobs=1)
    own = [DecisionTreeRegressor(max_depth=4, random_state=p).fit(x[p::4], 0.37 * y[p::4]).predict(points) for p in range(4)]
    assert (ensemble.outputs(points) == np.array(own).T).all(), path


@pytest.mark.parametrize(
    "estimator", [LogisticRegression(), DecisionTreeClassifier(), GaussianNB()], ids=["linear", "trees", "other"]
)
def test_points_that_are_not_finite_are_read_by_rule(estimator, path):
    x, y, _ = _rows(2)
    ensemble = train(estimator, x, y, parts=PARTS, labels=[0, 1], jobs=1)
    wild = np.array([[np.nan, np.inf, -np.inf, 1e300, -0.0], [np.nan] * 5, [np.inf] * 5])
    tame = np.array([[0.0, FEATURE_LIMIT, -FEATURE_LIMIT, FEATURE_LIMIT, 0.0], [0.0] * 5, [FEATURE_LIMIT] * 5])
    assert (ensemble.votes(wild) == ensemble.votes(tame)).all(), path


def test_scores_beyond_the_range_of_doubles_are_settled(path):
    table = WeightTable(
        np.full((2, 2), 1e308), np.zeros(2), np.array([0, 1, 2]), np.ones(2, dtype=int), np.zeros(2, dtype=int)
    )
    points = Domain.of(None, width=2).clamp_points([[1e9, 1e9], [1e9, -1e9], [-1e9, -1e9]])
    assert count_table_votes(table, points, labels=2).tolist() == [[0, 2], [2, 0], [2, 0]], path


def test_imports_are_light_and_small_inputs_never_wait_for_numba():
    code = (
        "import sys, numpy as np, holdtrue.ensembles\n"
        "heavy = {'sklearn', 'numba', 'joblib', 'scipy'} & sys.modules.keys()\n"
        "from sklearn.linear_model import LogisticRegression\n"
        "from holdtrue.ensembles import train\n"
        "x = np.arange(80.0).reshape(40, 2) % 7\n"
        "train(LogisticRegression(), x, x[:, 0] > 3, parts=4, labels=[False, True]).votes(x)\n"
        "sys.exit(bool(heavy) or 'numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0  # noqa: S603 - our own code


def test_much_work_loads_numba_once(monkeypatch):
    asked = []
    monkeypatch.setattr(kernels, "load_kernels", lambda name: asked.append(name) or predictors_compiled)
    fresh = kernels.LazyKernels("predictors_compiled", after=1 << 26)
    assert fresh(10) is None
    assert fresh(1 << 26) is predictors_compiled
    assert fresh(10) is predictors_compiled
    assert asked == ["predictors_compiled"]
