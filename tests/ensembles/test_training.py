"""One row, one member: training that no row can bend in two places, stop, or be heard through."""

import itertools
import logging
import time
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier

import holdtrue as ht
from holdtrue.ensembles import load, save, train, training
from holdtrue.ensembles.parts import hash_contents, shares_of
from holdtrue.kernels import batched_logistic

POINTS = np.array([[a, b] for a in (-1.0, 0.2, 1.5) for b in (-0.5, 0.7)])
# What may stand in for a row: other features, other labels, and what no honest row holds.
OTHERS = [((2.0, -1.0), 1), ((-3.0, 0.5), 0), ((np.nan, np.inf), 1), ((-np.inf, 1e300), 9)]


def _rows(seed, rows, columns=2):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    return x, (x[:, 0] + 0.5 * rng.normal(size=rows) > 0).astype(int)


def _neighbours(x, y):
    for row, (features, label) in itertools.product(range(len(x)), OTHERS):
        there, then = x.copy(), y.copy()
        there[row], then[row] = features, label
        yield there, then


def _moved(estimator, x, y, parts, cut=lambda _x, _y: {}):
    """Return the most votes that any neighbour moves at any point, as a whole and from any label."""
    before = train(estimator, x, y, parts=parts, labels=[0, 1], jobs=1, **cut(x, y)).votes(POINTS)
    most = 0
    for there, then in _neighbours(x, y):
        after = train(estimator, there, then, parts=parts, labels=[0, 1], jobs=1, **cut(there, then)).votes(POINTS)
        most = max(most, int(np.abs(after - before).max()))
    return most


@pytest.mark.parametrize(
    "estimator",
    [
        DecisionTreeClassifier(max_depth=2),
        GaussianNB(),
        make_pipeline(StandardScaler(), SGDClassifier(max_iter=5, tol=None)),
    ],
    ids=["trees", "other", "pipeline"],
)
def test_replacing_one_row_moves_at_most_one_vote(estimator):
    x, y = _rows(1, 9)
    assert _moved(estimator, x, y, 2) == 1


def test_replacing_one_row_moves_two_votes_at_most_by_content_and_one_by_key():
    """Both in any order of rows; here they are sorted again after the row was replaced."""
    x, y = _rows(1, 12)
    keys = np.arange(12) * 7

    def sorted_by_value(a, _b):
        return np.argsort(np.nan_to_num(a[:, 0]), kind="stable")

    def contents(a, b):
        return {"names": hash_contents([*a.T, b])}

    learner = DecisionTreeClassifier(max_depth=2)
    assert _moved(learner, x, y, 4, contents) <= 2
    before = train(learner, x, y, parts=4, labels=[0, 1], keys=keys).votes(POINTS)
    for there, then in _neighbours(x, y):
        order = sorted_by_value(there, then)
        after = train(learner, there[order], then[order], parts=4, labels=[0, 1], keys=keys[order]).votes(POINTS)
        assert np.abs(after - before).max() <= 1


def test_a_member_is_a_function_of_the_set_of_rows_of_its_part():
    """Also for a learner that the order of rows decides, and where rows share their key."""
    x, y = _rows(30, 60)
    keys = np.arange(60) // 4
    learner = SGDClassifier(max_iter=2, tol=None, shuffle=False)
    shuffled = np.random.default_rng(31).permutation(60)
    one = train(learner, x, y, parts=5, labels=[0, 1], keys=keys).members.table
    two = train(learner, x[shuffled], y[shuffled], parts=5, labels=[0, 1], keys=keys[shuffled]).members.table
    assert np.array_equal(one.weights, two.weights)


def test_parts_of_unlike_sizes_are_solved_together_as_they_are_alone(monkeypatch):
    """Newton's method on batches of parts with as many rows gives each part the weights it has by itself."""
    monkeypatch.setattr(training, "BATCHED_FROM", 1)
    x, y = _rows(32, 400)
    keys = np.arange(400)
    held = train(LogisticRegression(), x, y, parts=40, labels=[0, 1], keys=keys).members.table
    monkeypatch.setattr(training, "_TOGETHER", 1)
    alone = train(LogisticRegression(), x, y, parts=40, labels=[0, 1], keys=keys).members.table
    assert np.array_equal(held.weights, alone.weights)
    assert np.array_equal(held.biases, alone.biases)


def test_a_part_without_rows_votes_for_the_first_label():
    x, y = _rows(33, 12)
    y[:] = 1
    y[0] = 0
    votes = train(GaussianNB(), x, y, parts=12, labels=[0, 1], keys=np.zeros(12, dtype=int)).votes(POINTS)
    assert (votes.sum(axis=1) == 12).all()
    assert (votes[:, 0] >= 11).all()


def test_replacing_one_row_changes_at_most_one_member_to_the_last_bit(monkeypatch):
    monkeypatch.setattr(training, "BATCHED_FROM", 1)
    x, y = _rows(2, 10)
    for estimator in (LogisticRegression(), SGDClassifier(max_iter=3, tol=None)):
        before = train(estimator, x, y, parts=3, labels=[0, 1]).members.table
        for there, then in _neighbours(x, y):
            after = train(estimator, there, then, parts=3, labels=[0, 1]).members.table
            changed = (after.weights != before.weights).any(axis=0) | (after.biases != before.biases)
            assert changed.sum() <= 1


def test_parts_by_sorted_content_are_caught(monkeypatch):
    """The planted fault: rows sorted before they are cut. One row then moves the votes of several members."""
    x, y = _rows(1, 9)
    assert _moved(DecisionTreeClassifier(max_depth=2), x, y, 3) == 1
    real = training.Domain.clamp_points

    def cut(rows, *, parts, names=None):
        assert names is None
        return list(np.argsort(cut.column, kind="stable")[: rows // parts * parts].reshape(parts, -1))

    def clamped(domain, points):
        found = real(domain, points)
        cut.column = found[:, 0] if len(found) == len(x) else cut.column
        return found

    monkeypatch.setattr(training.Domain, "clamp_points", clamped)
    monkeypatch.setattr(training, "shares_of", cut)
    assert _moved(DecisionTreeClassifier(max_depth=2), x, y, 3) > 1


def test_leftover_rows_are_used_by_nobody():
    x, y = _rows(3, 23)
    one = train(GaussianNB(), x, y, parts=5, labels=[0, 1])
    x[20:], y[20:] = 77.0, 1 - y[20:]
    assert (train(GaussianNB(), x, y, parts=5, labels=[0, 1]).votes(POINTS) == one.votes(POINTS)).all()


def test_rows_with_public_keys_may_come_in_any_order():
    x, y = _rows(4, 40)
    keys = np.random.default_rng(4).permutation(40)
    shuffled = np.random.default_rng(5).permutation(40)
    one = train(DecisionTreeClassifier(), x, y, parts=6, labels=[0, 1], keys=keys)
    two = train(DecisionTreeClassifier(), x[shuffled], y[shuffled], parts=6, labels=[0, 1], keys=keys[shuffled])
    assert (one.votes(POINTS) == two.votes(POINTS)).all()


def test_randomised_learners_get_the_number_of_their_part_as_seed():
    x, y = _rows(6, 200)
    held = train(make_pipeline(StandardScaler(), RandomForestClassifier(3)), x, y, parts=4, labels=[0, 1]).members.estimators
    assert [member[-1].random_state for member in held] == [0, 1, 2, 3]
    mixed = RandomForestClassifier(3, random_state=np.random.RandomState(5))
    assert [m.random_state for m in train(mixed, x, y, parts=4, labels=[0, 1]).members.estimators] == [0, 1, 2, 3]
    one, two = (train(ExtraTreeClassifier(), x, y, parts=4, labels=[0, 1], jobs=jobs) for jobs in (1, 3))
    assert all((a == b).all() for a, b in zip(one.members.forest, two.members.forest, strict=True))


def test_what_a_pipeline_does_sees_its_part_alone():
    x, y = _rows(7, 60)
    x[::3] *= 100
    held = train(make_pipeline(StandardScaler(), LogisticRegression()), x, y, parts=3, labels=[0, 1]).members.estimators
    for part, member in enumerate(held):
        assert np.allclose(member[0].mean_, x[part::3].mean(axis=0))


class Canary(ClassifierMixin, BaseEstimator):
    """Fails on a row that holds 77, loudly; or on a point that does."""

    def __init__(self, fails_at="fit"):
        self.fails_at = fails_at

    def _sing(self, x, where):
        if where == self.fails_at and (x == 77.0).any():
            logging.getLogger("sklearn").debug("secret")
            warnings.warn("secret 77", stacklevel=2)
            message = "secret 77"
            raise RuntimeError(message)

    def fit(self, x, y):
        self._sing(x, "fit")
        self.classes_ = np.unique(y)
        return self

    def predict(self, x):
        self._sing(x, "predict")
        return np.full(len(x), self.classes_[-1])


def test_a_part_that_crashes_votes_for_the_first_label_and_nobody_hears_of_it(caplog, recwarn):
    x, y = _rows(8, 40)
    assert train(Canary(), x, y, parts=4, labels=[0, 1]).votes(POINTS).tolist() == [[0, 4]] * 6
    x[6, 0] = 77.0
    ensemble = train(Canary(), x, y, parts=4, labels=[0, 1])
    assert ensemble.votes(POINTS).tolist() == [[1, 3]] * 6
    assert not caplog.records
    assert not recwarn.list
    assert "77" not in repr(ensemble)


def test_a_point_on_which_a_member_fails_gets_its_fixed_vote_and_the_others_their_own():
    x, y = _rows(9, 40)
    ensemble = train(Canary(fails_at="predict"), x, y, parts=4, labels=[0, 1])
    assert ensemble.votes([[1.0, 2.0], [77.0, 0.0], [0.0, 77.0], [3.0, 3.0]]).tolist() == [[0, 4], [4, 0], [4, 0], [0, 4]]


@pytest.mark.parametrize(
    "estimator", [LogisticRegression(), DecisionTreeClassifier(), GaussianNB()], ids=["linear", "trees", "other"]
)
@pytest.mark.parametrize("label", [0, 1, 2])
def test_a_part_whose_rows_have_one_label_votes_for_that_label(estimator, label):
    """A part's vote may be any function of its own rows, and this one is right about all of them."""
    x, y = _rows(10, 40)
    y[1::4] = label
    rest = np.arange(40) % 4 != 1
    names = np.array(["no", "yes", "maybe"])
    before = train(estimator, x[rest], names[y[rest]], parts=3, labels=names.tolist()).votes(POINTS)
    after = train(estimator, x, names[y], parts=4, labels=names.tolist()).votes(POINTS)
    assert (after - before).tolist() == [np.eye(3, dtype=int)[label].tolist()] * 6


def test_a_part_whose_rows_have_one_label_is_saved_with_its_vote(tmp_path):
    x, y = _rows(10, 40)
    for estimator in (LogisticRegression(), DecisionTreeClassifier()):
        ensemble = train(estimator, x, np.ones_like(y), parts=4, labels=[0, 1])
        save(ensemble, tmp_path / "one.npz")
        assert ensemble.votes(POINTS).tolist() == load(tmp_path / "one.npz").votes(POINTS).tolist() == [[0, 4]] * 6


def test_numbers_that_are_not_finite_lead_to_the_fixed_vote(monkeypatch):
    x, y = _rows(11, 40)
    fit = LogisticRegression.fit

    def broken(self, x, y):
        fit(self, x, y)
        self.coef_[:] = np.nan if self.random_state == 2 else 1.0
        self.intercept_[:] = 5.0
        return self

    monkeypatch.setattr(LogisticRegression, "fit", broken)
    assert train(LogisticRegression(), x, y, parts=4, labels=[0, 1]).votes([[1.0, 1.0]]).tolist() == [[1, 3]]


def test_labels_outside_the_list_count_as_the_first_and_stop_nobody():
    x, y = _rows(12, 60)
    named = np.array(["no", "yes"])[y].astype(object)
    named[5], named[17] = None, 3.5
    y[5] = y[17] = 0
    one = train(DecisionTreeClassifier(), x, y, parts=5, labels=[0, 1]).votes(POINTS)
    assert (train(DecisionTreeClassifier(), x, named, parts=5, labels=["no", "yes"]).votes(POINTS) == one).all()
    flipped = train(DecisionTreeClassifier(), x, named, parts=5, labels=["yes", "no"])
    assert flipped.labels == ("yes", "no")


def test_features_beyond_public_bounds_are_clamped_for_rows_and_points_alike():
    x, y = _rows(13, 60)
    inside = np.clip(np.nan_to_num(x), -1, 1)
    one = train(GaussianNB(), inside, y, parts=5, labels=[0, 1])
    two = train(GaussianNB(), x, y, parts=5, labels=[0, 1], bounds=(-1, 1))
    assert (two.votes(POINTS * 9) == one.votes(np.clip(POINTS * 9, -1, 1))).all()


@pytest.mark.parametrize(
    "estimator",
    [LinearRegression(), Ridge(), DecisionTreeRegressor(max_depth=3), KNeighborsRegressor(3)],
    ids=lambda e: type(e).__name__,
)
def test_regressors_give_numbers_within_public_bounds(estimator):
    x, _ = _rows(14, 200)
    y = 3 * x[:, 0]
    ensemble = train(estimator, x, y, parts=5, output_bounds=(-1, 1))
    own = []
    for part in range(5):
        member = clone(estimator)
        member.set_params(**{"random_state": part} if "random_state" in member.get_params() else {})
        own.append(member.fit(x[part::5], np.clip(y, -1, 1)[part::5]).predict(POINTS))
    assert ensemble.outputs(POINTS) == pytest.approx(np.clip(np.array(own).T, -1, 1), abs=1e-12)
    with pytest.raises(ht.PreconditionError):
        ensemble.votes(POINTS)
    with pytest.raises(ht.PreconditionError):
        train(GaussianNB(), x, x[:, 0] > 0, parts=2, labels=[False, True]).outputs(POINTS)


def test_a_regressor_that_crashes_says_the_fallback():
    x, y = _rows(15, 40)
    x[3, 0] = 77.0
    held = train(Canary(), x, 1.0 + y, parts=4, output_bounds=(0, 4), fallback=3).outputs(POINTS[:1])
    assert held[0, 3] == 3.0
    assert (held[0, :3] == 2.0).all()


def test_newton_finds_what_a_tight_solver_finds():
    rng = np.random.default_rng(16)
    rows, parts, columns = 60, 40, 6
    x = rng.normal(size=(rows * parts, columns)) * [1, 10, 0.1, 1, 1, 100] + [0, 5, 0, 0, 0, 0]
    y = (x[:, 0] + x[:, 3] + rng.normal(size=len(x)) > 0).astype(np.int64)
    for strength, intercept in itertools.product((0.01, 1.0, 100.0), (True, False)):
        weights, solved = np.empty((parts, columns + intercept)), np.zeros(parts, dtype=bool)
        batched_logistic.newton(x.reshape(rows, parts, columns), y.reshape(rows, parts), strength, weights, solved)
        assert solved.all()
        for part in range(0, parts, 13):
            tight = LogisticRegression(
                C=strength, fit_intercept=intercept, tol=1e-13, solver="newton-cholesky", max_iter=1000
            )
            tight.fit(x[part::parts], y[part::parts])
            own = np.append(tight.coef_[0], tight.intercept_[: int(intercept)])
            assert weights[part] == pytest.approx(own, rel=1e-6, abs=1e-8)


def test_newton_votes_as_the_fits_do_up_to_near_ties(monkeypatch):
    x, y = _rows(17, 1000, columns=5)
    points = np.random.default_rng(18).normal(size=(400, 5))
    slow = train(LogisticRegression(tol=1e-10, max_iter=2000), x, y, parts=20, labels=[0, 1])
    monkeypatch.setattr(training, "BATCHED_FROM", 1)
    fast = train(LogisticRegression(), x, y, parts=20, labels=[0, 1])
    assert np.abs(fast.members.table.weights - slow.members.table.weights).max() < 1e-4
    assert (fast.votes(points) != slow.votes(points)).any(axis=1).mean() < 0.01


def test_newton_is_for_plain_logistic_regression_of_two_labels_only(monkeypatch):
    monkeypatch.setattr(training, "BATCHED_FROM", 1)
    x, y = _rows(19, 60)
    called = []
    monkeypatch.setattr(batched_logistic, "newton", lambda *_: called.append(True))
    for estimator in (
        LogisticRegression(class_weight="balanced"),
        LogisticRegression(max_iter=3),
        Ridge(),
        LogisticRegression(tol=1e-12),
    ):
        labels = {"output_bounds": (0, 1)} if isinstance(estimator, Ridge) else {"labels": [0, 1]}
        train(estimator, x, y, parts=4, **labels)
    train(LogisticRegression(), x, y, parts=4, labels=[0, 1, 2])
    assert not called
    train(LogisticRegression(C=3.0, fit_intercept=False, tol=1e-3), x, y, parts=4, labels=[0, 1], jobs=1)
    assert called


def test_where_newton_fails_the_part_is_fitted_by_itself(monkeypatch):
    x, y = _rows(20, 60)
    plain = train(LogisticRegression(), x, y, parts=4, labels=[0, 1])
    monkeypatch.setattr(training, "BATCHED_FROM", 1)
    monkeypatch.setattr(batched_logistic, "newton", lambda *_: None)
    assert (
        train(LogisticRegression(), x, y, parts=4, labels=[0, 1]).members.table.weights == plain.members.table.weights
    ).all()
    monkeypatch.undo()
    weights, solved = np.empty((1, 2)), np.ones(1, dtype=bool)
    batched_logistic.newton(np.full((4, 1, 1), 1e308), np.array([[0], [1], [0], [1]]), 1e9, weights, solved)
    assert not solved[0]


def test_progress_ends_at_one_and_the_number_of_threads_changes_nothing(monkeypatch):
    x, y = _rows(21, 200)
    for batched in (1, 1000):
        monkeypatch.setattr(training, "BATCHED_FROM", batched)
        seen = []
        one = train(LogisticRegression(), x, y, parts=10, labels=[0, 1], jobs=1, progress=seen.append)
        two = train(LogisticRegression(), x, y, parts=10, labels=[0, 1], jobs=2)
        assert seen == sorted(seen)
        assert seen[-1] == 1.0
        assert (one.members.table.weights == two.members.table.weights).all()


class Sleeper(Canary):
    """Takes its time where a lock is not held."""

    def fit(self, x, y):
        time.sleep(0.02)
        Sleeper.awake += 1
        return super().fit(x, y)

    awake = 0


def test_parts_are_fitted_once_each():
    x, y = _rows(22, 60)
    Sleeper.awake = 0
    train(Sleeper(), x, y, parts=6, labels=[0, 1], jobs=3)
    assert Sleeper.awake == 6


class Half:
    """Can be fitted, and no more."""

    def fit(self, x, y):  # noqa: ARG002 - an estimator's signature
        return self


@pytest.mark.parametrize("estimator", [None, "LogisticRegression", LogisticRegression, StandardScaler(), Half(), 3])
def test_what_is_no_estimator_is_refused(estimator):
    with pytest.raises(ht.InvalidParameter, match="estimator"):
        train(estimator, *_rows(23, 20), parts=2, labels=[0, 1])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"parts": 21}, ht.InsufficientSamples),
        ({"parts": 0}, ht.InvalidParameter),
        ({"labels": None}, ht.InvalidParameter),
        ({"output_bounds": (0, 1)}, ht.InvalidParameter),
        ({"labels": [0]}, ht.InvalidParameter),
        ({"labels": ["no", "yes"]}, ht.InvalidParameter),
        ({"bounds": (3, 2)}, ht.InvalidParameter),
        ({"jobs": 0}, ht.InvalidParameter),
        ({"keys": [0.5] * 20}, ht.InvalidParameter),
    ],
)
def test_public_mistakes_are_refused_before_training(change, error):
    x, y = _rows(24, 20)
    with pytest.raises(error):
        train(Canary(), x, y, **({"parts": 2, "labels": [0, 1]} | change))


def test_an_ensemble_says_what_it_is_and_nothing_of_its_rows():
    x, y = _rows(25, 60)
    linear = train(LogisticRegression(), x, y, parts=4, labels=[0, 1])
    other = train(GaussianNB(), x, y, parts=4, labels=[0, 1])
    assert (linear.parts, linear.kind, linear.stored, linear.labels) == (4, "linear", True, (0, 1))
    assert (other.kind, other.stored) == ("other", False)
    assert repr(linear) == "<Ensemble of 4 parts, linear, labels 0, 1>"
    assert repr(other) == "<Ensemble of 4 parts, other, labels 0, 1; in memory only>"
    with pytest.raises(AttributeError):
        linear.labels = (1, 0)


def test_estimators_are_left_as_they_were_and_made_silent():
    x, y = _rows(27, 60)
    loud = make_pipeline(StandardScaler(), RandomForestClassifier(2, random_state=5, verbose=3), verbose=True)
    held = train(loud, x, y, parts=2, labels=[0, 1]).members.estimators
    assert [member[-1].verbose or member.verbose for member in held] == [False, False]
    assert (loud.verbose, loud[-1].verbose, loud[-1].random_state) == (True, 3, 5)
    assert not hasattr(loud[-1], "classes_")


def test_positions_and_members_agree():
    """The member of part p is the estimator fitted on the rows that part_of gives to p."""
    x, y = _rows(26, 47)
    held = train(GaussianNB(), x, y, parts=6, labels=[0, 1]).members.estimators
    for part, rows in enumerate(shares_of(47, parts=6)):
        own = GaussianNB().fit(x[rows], y[rows])
        assert (held[part].theta_ == own.theta_).all()
