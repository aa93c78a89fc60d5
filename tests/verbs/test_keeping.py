"""FIT with release each: a kept fit, each prediction charged; thresholds, and learners of one's own (E8, T13, V5)."""

import math

import numpy as np
import pytest
from msgspec import UNSET
from scipy import special
from sklearn.linear_model import LogisticRegression

import holdtrue as ht
from holdtrue.accounting.closed_forms import pure_mu
from holdtrue.bounds.agnostic_prediction import threshold_population_excess, threshold_probabilities
from holdtrue.ensembles.responding import Constrained, NoisyAverage
from holdtrue.events import BoundedRange, GaussianNoise
from holdtrue.testing import drawing_from
from laws import LEVEL, chi_square_of_counts, generator

TERMS = {"queries": 10, "epsilon": 6.0, "delta": 1e-6, "cap": "privacy", "reserve": 0.8}
BOUNDS = {"x": (0, 10), "z": (-1, 1), "hours": (0, 40)}
READS = {"features": ["x", "z"], "release": "each"}
POINT = {"x": 8.0, "z": 0.5}


class Mean:
    """Answers the mean of all goals: one row moves it by the range over the rows."""

    def fit(self, rows, goals):
        self.mean = float(np.mean(goals)) if len(rows) else 0.0
        return self

    def predict(self, points):
        return np.full(len(points), self.mean)

    def __repr__(self):
        return "Mean()"


class Broken(Mean):
    def fit(self, rows, _):
        raise RuntimeError(rows[0])


@pytest.fixture
def rng(request):
    return generator(request)


def table(rng, rows=4_000):
    x, z = rng.uniform(0, 10, rows), rng.uniform(-1, 1, rows)
    hours = 2 * x + 8 * z + 10 + rng.normal(size=rows)
    return {"x": x, "z": z, "hours": hours, "sick": x + rng.normal(size=rows) > 5}


def flip_labels(rng, data):
    """Turn a third of the labels round, so that the best weights are short."""
    return data | {"sick": data["sick"] ^ (rng.random(len(data["sick"])) < 0.35)}


def open_rows(data, **given):
    return ht.Curator(data, **(TERMS | {"bounds": BOUNDS, "iid": True} | given))


def test_v5_a_kept_fit_costs_nothing_and_each_prediction_what_it_says(rng):
    with open_rows(table(rng)) as curator:
        curator.fit("hours", "ridge", target="hours", epsilon=0.5, **READS)
        curator.fit("sick", "logistic", target="sick", mu=0.1, **READS)
        assert curator.budget.spent == 0
        first = curator.predict("hours", POINT)
        assert curator.budget.spent == pytest.approx(pure_mu(0.5) ** 2, rel=1e-9)
        assert 20 < first.label < 36
        assert first.label in first.interval
        again = curator.predict("hours", POINT, epsilon=0.1)
        assert (again.repeated, again.label) == (True, first.label)
        label = curator.predict("sick", POINT)
        assert label.certificate.event == GaussianNoise(label.certificate.event.mu)
        assert label.certificate.cost == pytest.approx(0.01)
        assert (label.label, label.noise, label.interval) == (True, UNSET, UNSET)
        before = curator.budget.spent
        curator.predict("hours", {"x": [1.0, 2.0], "z": [0.0, 0.0]}, mu=0.1)
        assert curator.budget.spent - before == pytest.approx(0.02)
        assert curator.predictions_left("sick") == pytest.approx(curator.budget.reserve / 0.01, abs=1.01)


@pytest.mark.parametrize("kind", ["ridge", "huber", "squared-clipped"])
@pytest.mark.parametrize(
    "more", [{}, {"method": "descent"}, {"basis": ht.Fourier(16, 1.0, 3)}, {"basis": ht.Polynomial(2)}], ids=str
)
def test_v5_a_row_moves_a_prediction_by_less_than_gamma(rng, kind, more):
    """Pairs of 80 rows that differ in one; the certificate is attained to a fair part, so that a tenth of it would fail."""
    worst = 0.0
    points = np.column_stack([rng.uniform(0, 10, 20), rng.uniform(-1, 1, 20)])
    for number in range(4):
        data = table(rng, 80)
        if number:
            data["x"][:], data["z"][:] = 10.0, 1.0
        other = {name: values.copy() for name, values in data.items()}
        data["x"][0] = other["x"][0] = 10.0
        data["hours"][0], other["hours"][0] = 0.0, 40.0
        said = []
        for rows in (data, other):
            with open_rows(rows) as curator:
                model = curator.fit("m", kind, target="hours", mu=0.1, strength=None if more else 0.5, **READS, **more)
                said.append(model.measure(np.vstack([points, [[10.0, 1.0]]])))
        worst = max(worst, np.abs(said[0] - said[1]).max() / model.asked.gamma)
    assert 0.1 < worst <= 1


def test_v5_what_is_predicted_passes_an_audit_and_a_tenth_of_the_noise_does_not(monkeypatch):
    """End to end, at epsilon 1 without a delta: two tables that differ in the row that moves a fit of few rows most."""
    left = {"x": np.full(50, 10.0), "hours": np.full(50, 40.0)}
    right = {name: values.copy() for name, values in left.items()}
    right["hours"][0] = 0.0

    def run(data, count):
        curator = ht.Curator(
            data, queries=1, epsilon=4e3, delta=1e-6, cap="privacy", reserve=0.9, bounds={"x": (0, 10), "hours": (0, 40)}
        )
        curator.fit("m", "huber", target="hours", features=["x"], release="each", epsilon=1, strength=0.3)
        points = {"x": 10.0 - 1e-9 * np.arange(count)}
        return [answer.label for answer in curator.predict("m", points)]

    claimed = {"epsilon": 1.0, "samples": 1_500, "confidence": 1 - 1e-9}
    assert not ht.audit_privacy(run, left, right, **claimed).violated
    honest = NoisyAverage.__init__
    monkeypatch.setattr(
        NoisyAverage, "__init__", lambda self, parts, **given: honest(self, parts, **given | {"gamma": given["gamma"] / 10})
    )
    assert ht.audit_privacy(run, left, right, **claimed).violated


def test_t13_thresholds_are_drawn_by_their_errors_and_have_the_bound_of_the_theorem(rng, bits):
    data = table(rng, 500)
    with open_rows(data) as curator:
        model = curator.fit("cut", "thresholds", target="sick", features=["x"], epsilon=0.5)
        assert curator.budget.spent == 0
        points = np.linspace(0, 10, 41)
        found = model.measure(points[:, None])
        expected = threshold_probabilities(data["x"], data["sick"], at=points, epsilon=0.5)
        assert special.expit(0.25 * (found[:, 1] - found[:, 0])) == pytest.approx(expected, abs=1e-12)
        said = curator.predict("cut", {"x": 8.0})
        assert said.label is True
        assert said.certificate.event == BoundedRange(0.5)
        assert model.asked.excess == pytest.approx(threshold_population_excess(500, epsilon=0.5, beta=curator.plan.beta))
        rule = drawing_from(Constrained(0.5), bits)
        drawn = [rule.release(row) for row in np.repeat(found[20:21], 2_000, axis=0)]
        share = expected[20]
        assert chi_square_of_counts([sum(drawn), 2_000 - sum(drawn)], [share, 1 - share]) > LEVEL
        with pytest.raises(ht.InvalidParameter, match="epsilon"):
            curator.predict("cut", {"x": 8.0}, mu=0.1)


def test_v5_a_learner_of_ones_own_needs_somebody_who_vouches_for_gamma(rng):
    data = table(rng, 400)
    given = {"target": "hours", "features": ["x", "z"]}
    with open_rows(data) as curator:
        for wrong in ({}, {"gamma": 0.1}, {"certified_by": "Ann"}):
            with pytest.raises(ht.NotCertified, match="certified_by"):
                curator.fit("mean", Mean(), **given, **wrong)
        for wrong in ({"gamma": 0}, {"gamma": -1}, {"gamma": math.nan}, {"gamma": 1, "certified_by": " "}):
            with pytest.raises(ht.InvalidParameter):
                curator.fit("mean", Mean(), **given, **{"certified_by": "Ann"} | wrong)
        with pytest.raises(ht.InvalidParameter, match="own"):
            curator.fit("mean", "ridge", **given, gamma=1, certified_by="Ann")
        with pytest.raises(ht.InvalidParameter, match="release"):
            curator.fit("mean", Mean(), **given, gamma=1, certified_by="Ann", release="once")
        model = curator.fit("mean", Mean(), **given, gamma=40 / 400, certified_by="Ann", mu=0.5)
        assert "claim of Ann" in repr(model)
        said = curator.predict("mean", POINT)
        assert "claim of Ann" in said.certificate.theorem
        assert said.label == pytest.approx(np.clip(data["hours"], 0, 40).mean(), abs=5 * said.noise)
        assert said.noise == pytest.approx(0.2, rel=0.01)
        flags = curator.fit(
            "flag", LogisticRegression(), **given | {"target": "sick"}, gamma=0.5, certified_by="Ann", mu=0.5
        )
        assert flags.asked.ends == (0.0, 1.0)
        curator.fit("broken", Broken(), **given, gamma=0.01, certified_by="Ann", mu=0.5)
        assert curator.predict("broken", POINT).label == pytest.approx(20, abs=0.2)


def test_v5_the_auditor_refutes_a_gamma_that_is_too_small_and_no_other():
    assert ht.audit_stability(Mean(), gamma=0.89 / 20).violated
    finding = ht.audit_stability(Mean(), gamma=1 / 20)
    assert not finding.violated
    assert finding.lower_bound > 0.9 / 20
    assert "1,000 pairs" in str(finding)
    with pytest.raises(ht.InvalidParameter):
        ht.audit_stability(Mean(), gamma=0)
    with pytest.raises(ht.InvalidParameter):
        ht.audit_stability(object(), gamma=1)
    with pytest.raises(ht.InvalidParameter):
        ht.audit_stability(Mean(), 1, 2, gamma=1)


def test_a_kept_fit_is_found_again_beside_its_ledger_and_a_changed_one_is_refused(rng, tmp_path):
    data = table(rng)
    path = tmp_path / "rows.ledger"
    with open_rows(data, ledger=path) as curator:
        held = curator.fit("sick", "logistic", target="sick", epsilon=0.4, basis=ht.Fourier(8, 2.0, 1), **READS)
        cut = curator.fit("cut", "thresholds", target="sick", features=["x"], epsilon=0.2)
    with ht.Curator(data, ledger=path, bounds=BOUNDS) as curator:
        points = np.array([[1.0, 0.0], [9.0, 0.5]])
        found = curator.model("sick")
        assert (found.measure(points) == held.measure(points)).all()
        assert (curator.model("cut").measure(points[:, :1]) == cut.measure(points[:, :1])).all()
        assert found.asked == held.asked
        curator.predict("cut", {"x": [1.0, 9.0]})
        assert [each.name for each in curator.models] == ["cut", "sick"]
        later = curator.fit("late", "logistic", target="sick", epsilon=0.4, **READS)
        assert (later.asked.excess, "before" in later.asked.reason) == (None, True)
        again = curator.fit("sick", "logistic", target="sick", epsilon=0.4, basis=ht.Fourier(8, 2.0, 1), **READS)
        assert again.asked.excess == held.asked.excess


def test_v5_the_bound_needs_independent_rows(rng):
    with open_rows(table(rng, 500), iid=None) as curator:
        for kind, more in (("logistic", READS), ("thresholds", {"features": ["x"]})):
            model = curator.fit(kind, kind, target="sick", epsilon=0.4, **more)
            assert model.asked.excess is None
            assert "independent" in model.asked.reason


@pytest.mark.parametrize("method", ["minimiser", "descent"])
def test_v5_the_mean_excess_of_predictions_is_within_the_certificate(rng, method):
    """Logistic, 2,000 rows, 40 runs with fresh noise on every point, against the best weights of length 1."""
    few = [flip_labels(rng, table(rng, 2_000)) for _ in range(40)]
    many = flip_labels(rng, table(rng, 20_000))
    given = {"target": "sick", "epsilon": 0.5, "method": method} | READS
    points = np.column_stack([many["x"], many["z"]])
    signs = np.where(many["sick"], 1, -1)
    with open_rows(many) as curator:
        best = curator.fit("best", "logistic", **given | {"epsilon": 500.0, "method": "descent"}, radius=1)
        least = np.mean(np.logaddexp(0, -signs * best.measure(points)[:, 0]))
    found = []
    for rows in few:
        with open_rows(rows) as curator:
            model = curator.fit("m", "logistic", **given)
            noisy = model.measure(points)[:, 0] + rng.laplace(scale=model.asked.gamma / 0.5, size=len(points))
            found.append(np.mean(np.logaddexp(0, -signs * noisy)) - least)
    assert 0 < np.mean(found) <= model.asked.excess < 0.12


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"release": "twice"}, ht.InvalidParameter, "release"),
        ({"release": None, "epsilon": 0.5}, ht.InvalidParameter, "give mu"),
        ({"epsilon": 0.5, "mu": 0.5}, ht.InvalidParameter, "either"),
        ({"epsilon": 0}, ht.InvalidParameter, "epsilon"),
        ({"method": "guess"}, ht.InvalidParameter, "method"),
        ({"method": "descent", "strength": 1}, ht.InvalidParameter, "strength"),
        ({"basis": "fourier"}, ht.InvalidParameter, "basis"),
        ({"basis": ht.Polynomial(16), "features": ["x", "z", "a", "b", "c", "d"]}, ht.HoldtrueError, "products|column"),
        ({"radius": -1}, ht.InvalidParameter, "radius"),
        ({"kind": "thresholds", "target": "sick"}, ht.InvalidParameter, "one feature"),
        ({"kind": "thresholds", "features": ["x"]}, ht.InvalidParameter, "two labels"),
        ({"kind": "thresholds", "target": "sick", "features": ["x"], "mu": 1}, ht.InvalidParameter, "epsilon"),
        ({"kind": "thresholds", "target": "sick", "features": ["x"], "release": "once"}, ht.InvalidParameter, "release"),
        ({"kind": object()}, ht.InvalidParameter, "kind"),
        ({"kind": LogisticRegression, "gamma": 0.1, "certified_by": "me"}, ht.InvalidParameter, "a learner with fit"),
        ({"bounds": {"x": (3, 3)}}, ht.InvalidParameter, "bounds"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_spent(rng, given, error, said):
    with open_rows(table(rng, 100)) as curator:
        asked = {"kind": "ridge", "target": "hours", **READS} | given
        with pytest.raises(error, match=said):
            curator.fit("m", asked.pop("kind"), **asked)
        assert curator.budget.spent == 0
        assert curator.models == []


def test_what_is_for_votes_is_refused_for_one_fit(rng):
    with open_rows(table(rng, 300)) as curator:
        curator.fit("m", "logistic", target="sick", epsilon=0.5, **READS)
        for wrong in ({"method": "agnostic"}, {"screen": 0.6}):
            with pytest.raises(ht.InvalidParameter, match="one fit"):
                curator.predict("m", POINT, **wrong)
        with pytest.raises(ht.InvalidParameter, match="one fit"):
            curator.distill("m", {"x": [1.0, 2.0], "z": [0.0, 1.0]}, LogisticRegression(), groups=1)
        with pytest.raises(ht.PreconditionError, match="fitted to all rows"):
            curator.evaluate("m", at_most=0.3)
        assert curator.budget.spent == 0
