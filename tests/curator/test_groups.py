"""A person who owns several rows: the ledger, its prices and its certificates speak of all of them (THEORY3 V6.6)."""

import itertools
import math

import numpy as np
import pytest
from msgspec import UNSET
from scipy.special import comb
from scipy.stats import norm
from sklearn.tree import DecisionTreeClassifier

import holdtrue as ht
from holdtrue.accounting.conversions import group_event
from holdtrue.accounting.event_privacy import delta
from holdtrue.accounting.event_privacy import epsilon as epsilon_at
from holdtrue.accounting.filters import GaussianFilter, PureFilter, ZeroConcentratedFilter
from holdtrue.codec import decode
from holdtrue.errors import InsufficientSamples, InvalidParameter
from holdtrue.events import BoundedRange, DiscreteLaplace, Event, GaussianNoise, Pure, Repeated
from holdtrue.exact import UNIT

ROWS, GROUP = 6000, 5
TERMS = {"queries": 100, "epsilon": 1.0, "delta": 1e-6}


def make_rows(rows=ROWS):
    random = np.random.default_rng([rows, 1913])
    return {"x": random.random(rows), "y": random.random(rows) < 0.4, "id": np.arange(rows)}


@pytest.mark.parametrize("group", [1, 2, 5])
def test_v6_6_an_event_counts_r_times_in_mu_and_epsilon_and_r_squared_times_in_rho(group):
    cap = 10**18
    event = GaussianNoise(mu=0.125)
    assert GaussianFilter(cap, group).cost(event) == GaussianFilter(cap).cost(GaussianNoise(mu=event.mu * group))
    assert ZeroConcentratedFilter(cap, group).cost(event) == group**2 * ZeroConcentratedFilter(cap).cost(event)
    assert PureFilter(cap, group).cost(DiscreteLaplace(0.125)) == group * PureFilter(cap).cost(DiscreteLaplace(0.125))
    picked = BoundedRange(0.25)
    assert GaussianFilter(cap, group).cost(picked) == pytest.approx(group**2 * GaussianFilter(cap).cost(picked), rel=1e-9)
    assert GaussianFilter(cap, group).cost(Repeated(event, 3)) == 3 * GaussianFilter(cap, group).cost(event)


def test_the_noise_of_a_question_grows_with_the_group():
    with ht.Curator(make_rows(), **TERMS) as single, ht.Curator(make_rows(), **TERMS, group=GROUP) as grouped:
        assert grouped.plan.cap_units == single.plan.cap_units
        assert grouped.plan.sigma == pytest.approx(GROUP * single.plan.sigma, rel=1e-6)
        assert (grouped.plan.group, single.plan.group) == (GROUP, 1)
        answer = grouped.ask("y")
        assert answer.certificate.group == GROUP
        assert answer.certificate.epsilon == 1.0
        assert answer.interval is None
        assert single.ask("y").certificate.group is UNSET
        # r rows move the sum by r; the noise on it is so large that this costs what the plan pays for one question.
        event = answer.certificate.event
        assert GROUP**2 * event.mu**2 <= grouped.plan.cost * UNIT
        assert math.isclose(GROUP**2 * event.mu**2, grouped.plan.cost * UNIT, rel_tol=1e-6)
        assert "whoever owns up to 5 rows" in str(grouped.plan)


def test_every_verb_is_charged_for_groups(tmp_path):
    with ht.Curator(make_rows(), **TERMS, group=GROUP, ledger=tmp_path / "l", uses=20) as curator:
        curator.ask(["y", "x > 0.5"])
        curator.table("y")
        curator.mean("x", low=0, high=1, by="y")
        curator.median("x", low=0, high=1, step=0.125)
        curator.quantile("x", [0.2, 0.4, 0.6, 0.8], low=0, high=1, step=0.125, method="curve")
        curator.variance("x", low=0, high=1)
        curator.pairs("abs(a.x - b.x)")
        curator.select({"many": "x > 0.1", "few": "x > 0.9"})
        curator.learn(ht.Stumps(bounds={"x": (0, 1)}, steps=8), target="y")
        curator.best_error(ht.Stumps(bounds={"x": (0, 1)}, steps=8), target="y")
        curator.train("m", DecisionTreeClassifier(max_depth=1), target="y", features=["x"], parts=40, key="id")
        curator.predict("m", {"x": 0.3})
        charges = [entry for entry in curator.ledger.entries() if entry.kind == "charge" and entry.cost]
        plain = GaussianFilter(curator.ledger.terms.cap)
        for entry in charges:
            event = decode(entry.event, Event)
            assert entry.cost >= curator.pipeline.limit.cost(event) > 0.999 * GROUP**2 * plain.cost(event), entry.verb
        assert all(entry.cost <= curator.plan.use_units for entry in charges if entry.verb in ("learn", "predict", "select"))
        assert {"ask", "learn", "mean", "predict", "quantile", "select", "table", "variance"} <= {e.verb for e in charges}
        assert curator.budget.reserve > 0
    assert ht.verify(tmp_path / "l")
    assert not ht.audit_ledger(tmp_path / "l").violated


def test_a_pure_ledger_counts_epsilon_r_times(tmp_path):
    with ht.Curator(make_rows(), epsilon=1.0, delta=0.0, pure=True, group=GROUP, ledger=tmp_path / "l") as curator:
        answer = curator.ask("y")
        assert GROUP * answer.certificate.event.epsilon <= curator.plan.cost * UNIT
        assert curator.select({"many": "x > 0.1", "few": "x > 0.9"}).name == "many"
        assert curator.variance("x", low=0, high=1).sample_interval.width > 0
    assert not ht.audit_ledger(tmp_path / "l").violated


def test_an_open_ended_budget_takes_groups():
    with ht.Curator(make_rows(), epsilon=1.0, delta=1e-6, group=GROUP) as curator:
        assert curator.ask("y").certificate.group == GROUP
        assert "whoever owns up to 5 rows" in str(curator.plan)


def test_a_report_speaks_of_groups(tmp_path):
    with ht.Curator(make_rows(), **TERMS, group=GROUP) as curator:
        curator.ask("y")
        curator.report(tmp_path / "report.html")
    assert "anybody who owns up to 5 of them" in (tmp_path / "report.html").read_text()


def test_the_group_is_frozen_with_the_ledger(tmp_path):
    rows, path = make_rows(), tmp_path / "l"
    ht.Curator(rows, **TERMS, group=GROUP, ledger=path).close()
    with ht.Curator(rows, ledger=path) as curator:
        assert curator.plan.group == GROUP
        assert curator.ask("y").certificate.group == GROUP
    ht.Curator(rows, ledger=path, group=GROUP).close()
    for other in (1, 6):
        with pytest.raises(InvalidParameter, match="group=5"):
            ht.Curator(rows, ledger=path, group=other)


def test_what_makes_no_group_is_refused():
    rows = make_rows(100)
    for wrong in (0, -1, 1.5, True, "5", 10**7, 101):
        with pytest.raises(InvalidParameter):
            ht.Curator(rows, **TERMS, group=wrong)
    with pytest.raises(InvalidParameter, match="independent draws"):
        ht.Curator(rows, **TERMS, group=2, iid=True)
    planned = ht.plan(rows=100, queries=10, epsilon=1.0, delta=1e-6, iid=False)
    with pytest.raises(InvalidParameter):
        ht.Curator(rows, plan=planned, group=2)
    with ht.Curator(rows, queries=5, epsilon=1.0, delta=1e-6, group=2) as curator:
        plan = curator.plan
    with pytest.raises(InsufficientSamples):
        ht.Curator(make_rows(99), plan=plan)
    ht.Curator(make_rows(101), plan=plan, group=2).close()


def test_v6_6_four_rows_of_a_person_are_within_the_claim_and_refute_one_that_counts_rows():
    """End to end: tables that differ in four rows, on a ledger for groups of four and on one for single rows (planted).

    What one of 300 questions of a ledger may cost is claimed of each; their texts differ, and their rows do not.
    """
    rows, group, each, slack = 120, 4, 300, 0.2
    left = np.zeros(rows)
    right = left.copy()
    left[: rows // 2] = right[: rows // 2] = 1
    right[rows // 2 : rows // 2 + group] = 1
    terms = {"queries": each, "reserve": 0, "epsilon": 263.0, "delta": 1e-6}
    texts = [f"x > {number}e-4" for number in range(1, each + 1)]

    def run_with(group):
        def run(data, number):
            found = []
            while len(found) < number:
                with ht.Curator({"x": data}, **terms, group=group) as curator:
                    found += [answer.value for answer in curator.ask(texts[: number - len(found)])]
            return np.array(found)

        return run

    with ht.Curator({"x": left}, **terms) as curator:
        claim = {"epsilon": epsilon_at(curator.plan.event, slack), "delta": slack}
    given = claim | {"samples": 1200, "confidence": 0.999}
    assert 0.5 < claim["epsilon"] < 1.5
    assert not ht.audit_privacy(run_with(group), left, right, **given).violated
    assert ht.audit_privacy(run_with(1), left, right, **given).violated


def _hockey_stick(left, right, epsilon):
    return float(np.maximum(left - math.exp(epsilon) * right, 0).sum())


@pytest.mark.parametrize("group", [1, 2, 3, 5])
def test_v6_6_the_exact_curve_of_r_rows_is_within_that_of_the_group(group):
    """Gaussian noise, randomised response on every row, and the exponential mechanism, each by its own probabilities."""
    each = 0.4
    wins = np.arange(group + 1)
    ways, odds = comb(group, wins), math.exp(each) / (1 + math.exp(each))
    flipped = (ways * odds**wins * (1 - odds) ** (group - wins), ways * odds ** (group - wins) * (1 - odds) ** wins)
    steps = list(itertools.product((-1, 0, 1), repeat=3))
    pick = [np.exp(each / 2 * (np.array([0.0, 2.0, 3.0]) + group * np.array(step))) for step in steps]
    picks = [weights / weights.sum() for weights in pick]
    plain = np.exp(each / 2 * np.array([0.0, 2.0, 3.0]))
    plain /= plain.sum()
    for epsilon in np.linspace(0, each * group, 7):
        noise = group_event(GaussianNoise(each), size=group)
        shift = each * group
        exact = norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * norm.cdf(-shift / 2 - epsilon / shift)
        assert exact <= delta(noise, epsilon) + 1e-12 <= exact + 1e-9
        assert _hockey_stick(*flipped, epsilon) <= delta(group_event(Pure(each), size=group), epsilon) + 1e-12
        for law in picks:
            assert _hockey_stick(plain, law, epsilon) <= delta(group_event(BoundedRange(each), size=group), epsilon) + 1e-12
    assert _hockey_stick(*flipped, 0) > 0
    one = group_event(Pure(each), size=1)
    assert group == 1 or _hockey_stick(*flipped, each) > delta(one, each)  # charging rows is refuted


def test_v6_6_the_table_of_factors():
    cap = 10**18
    for group in range(1, 6):
        gaussian = GaussianFilter(cap, group).cost(GaussianNoise(0.125)) / GaussianFilter(cap).cost(GaussianNoise(0.125))
        concentrated = ZeroConcentratedFilter(cap, group).cost(GaussianNoise(0.125))
        pure = PureFilter(cap, group).cost(Pure(0.125)) / PureFilter(cap).cost(Pure(0.125))
        assert (gaussian, pure) == (pytest.approx(group**2), pytest.approx(group))
        assert concentrated == group**2 * ZeroConcentratedFilter(cap).cost(GaussianNoise(0.125))
