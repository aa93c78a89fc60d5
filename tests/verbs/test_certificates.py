"""TRAIN on a finite class: members are its best on each part, and Theorem 1 and Corollary 1 stand on the model (V4.1)."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import holdtrue as ht
from holdtrue.bounds.prediction import member_error, member_excess, soft_majority_error
from holdtrue.curator import Curator
from holdtrue.ensembles.certificates import ClassTerms
from holdtrue.ensembles.own_estimators import ExactMinimiser
from holdtrue.ensembles.responding import Agnostic, NoisyMax, SoftMajority
from holdtrue.errors import InvalidParameter, NotCertified
from holdtrue.hypotheses import Union
from laws import generator

ROWS = 4000
TERMS = {"epsilon": 6.0, "delta": 1e-6, "iid": True, "queries": 20, "reserve": 0.8, "cap": "privacy"}
FACTS = {"target": "y", "parts": 20, "order": "fixed"}


def _rows(seed=0, *, noise=0.0):
    random = np.random.default_rng(seed)
    x = random.random(ROWS)
    flipped = random.random(ROWS) < noise
    return {"id": np.arange(ROWS), "x": x, "y": (x > 0.5) ^ flipped}


def _stumps(steps=10):
    return ht.Stumps(bounds={"x": (0, 1)}, steps=steps)


def _opened(data=None, **terms):
    return Curator(_rows() if data is None else data, **(TERMS | terms))


def test_v4_1_numbers():
    assert member_excess(100, rows=500, parts=20, beta=0.05) == pytest.approx(0.2036, abs=5e-5)
    assert member_error(100, rows=500, parts=20, beta=0.05) == pytest.approx(1 - (0.05 / (20 * 99)) ** (1 / 500), rel=1e-9)
    assert member_error(1, rows=5, parts=3, beta=0.05) == member_excess(1, rows=5, parts=3, beta=0.05) == 0


def _simulate(random, *, parts, rows, noise, steps=40):
    """Return the share of yes votes at each point of a grid, and the error of each of the thresholds of the class."""
    cuts = np.arange(steps) / steps
    votes = np.zeros(steps)
    for _ in range(parts):
        x = random.random(rows)
        y = (x >= 0.5) ^ (random.random(rows) < noise)
        wrong = ((x[:, None] >= cuts) != y[:, None]).sum(axis=0)
        votes += cuts[wrong.argmin()] <= cuts
    return votes, np.abs(cuts - 0.5) * (1 - 2 * noise) + noise


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_v4_1_certificates_are_missed_at_most_as_often_as_they_say(noise, request):
    """400 fresh samples, parts of 60 rows: the exact error of the interface, over points and coins, against its bound."""
    random, parts, epsilon, steps, misses = generator(request), 8, 1.0, 40, 0
    terms = ClassTerms(steps, 60, 0.05, "realizable" if noise == 0 else None)
    rule = SoftMajority(epsilon) if noise == 0 else Agnostic(parts, epsilon=epsilon)
    bound = terms.bound_errors(rule, parts=parts)
    cells = np.arange(steps) / steps  # the label of a threshold is the same in all of a cell
    truth = cells >= 0.5
    for _ in range(400):
        votes, errors = _simulate(random, parts=parts, rows=60, noise=noise, steps=steps)
        if noise == 0:
            yes = 1 / (1 + np.exp(-epsilon / 2 * (2 * votes - parts)))
        else:
            yes = np.array([float(rule.table.probabilities[int(count)]) for count in votes])
        clean = np.where(truth, 1 - yes, yes).mean()
        error = clean * (1 - 2 * noise) + noise - (errors.min() if bound.excess else 0)
        misses += error > bound.value
    assert misses <= 0.05 * 400


def test_v4_1_members_exceed_their_bound_as_often_as_it_says_and_a_smaller_one_far_more_often(request):
    """Hypotheses that err in cells of their own, before one that is never wrong: the union bound is all but attained."""
    random, parts, rows, cells, runs = generator(request), 4, 400, 40, 4000
    bound = member_error(cells + 1, rows=rows, parts=parts, beta=0.05)

    def count_misses(mass):
        seen = random.multinomial(rows, [mass] * cells + [1 - mass * cells], size=(runs, parts))[:, :, :cells]
        return int((seen == 0).any(axis=(1, 2)).sum())  # an empty cell: its hypothesis looks perfect, and comes first

    limit = 0.05 * runs + 5 * math.sqrt(0.05 * 0.95 * runs)
    assert 0.5 * 0.05 * runs < count_misses(bound * 1.001) <= limit
    assert count_misses(0.8 * bound) > 2 * limit


def test_v4_1_a_class_made_of_the_rows_breaks_the_bound(request):
    """The control: a hypothesis that remembers the rows wins every part and errs on every second fresh case."""
    random, rows, parts = generator(request), 400, 4
    x = random.random(rows * parts)
    y = (x > 0.5) ^ (random.random(x.size) < 0.1)
    known = dict(zip(x.tolist(), y.tolist(), strict=True))
    memory = ht.Hypotheses([lambda points: [known.get(value, False) for value in points[:, 0].tolist()]], columns=1)
    made = Union([memory, ht.Thresholds(0, 1, steps=2)])
    picks = [ExactMinimiser(made, None).fit(x[part::parts, None], y[part::parts]).number for part in range(parts)]
    fresh = random.random(4000)
    errors = np.mean(made.evaluate(fresh[:, None], picks[0]) != (fresh > 0.5)) * 0.8 + 0.1
    allowed = 0.1 + member_excess(made.size, rows=rows, parts=parts, beta=0.05)
    assert set(picks) == {0}
    assert errors > allowed + 0.1


def test_v4_1_the_model_and_its_predictions_say_what_is_proven(tmp_path):
    with _opened(ledger=tmp_path / "rows.ledger") as curator:
        model = curator.train("risk", hypotheses=_stumps(), assuming="realizable", **FACTS)
        said = curator.predict("risk", {"x": 0.9}, epsilon=1)
        base = member_error(_stumps().size, rows=200, parts=20, beta=0.05)
        assert said.label is True
        assert said.error_bound == pytest.approx(soft_majority_error(20, epsilon=1, base_error=base))
        assert said.confidence == pytest.approx(0.95)
        assert "V4.1" in said.certificate.theorem
        assert "err at most" in str(said)
        assert "V4.1" in curator.models[0].certificate
        assert model.certificate.startswith("certified")
        careful = curator.predict("risk", {"x": 0.2}, epsilon=0.5, method="agnostic")
        assert careful.error_bound == pytest.approx(base + float(Agnostic(20, epsilon=0.5).table.tau))
    with _opened(ledger=tmp_path / "rows.ledger") as again:
        read = again.model("risk")
        assert read.asked == model.asked
        assert (read.ensemble.members.indices == model.ensemble.members.indices).all()
        assert again.predict("risk", {"x": 0.9}, epsilon=1).repeated
        assert again.predict("risk", {"x": 0.8}, epsilon=0.5).error_bound == pytest.approx(
            soft_majority_error(20, epsilon=0.5, base_error=base)
        )


def test_v4_1_without_the_assumption_the_agnostic_rule_alone_is_certified():
    with _opened(_rows(noise=0.1)) as curator:
        curator.train("risk", hypotheses=_stumps(), **FACTS)
        said = curator.predict("risk", {"x": 0.9}, epsilon=1, method="agnostic")
        tau = float(Agnostic(20, epsilon=1).table.tau)
        assert said.excess_error == pytest.approx(tau + member_excess(_stumps().size, rows=200, parts=20, beta=0.05))
        assert "more often than the best" in said.proven
        assert curator.predict("risk", {"x": 0.9}).proven == said.proven  # bought before
        assert curator.predict("risk", {"x": 0.9}, epsilon=0.1, method="soft-majority").proven is None
        assert curator.predict("risk", {"x": 0.8}, epsilon=1).proven is None


def test_v4_1_a_class_chosen_after_answers_loses_its_certificate_and_says_which():
    with _opened() as curator:
        first = curator.train("first", hypotheses=_stumps(), **FACTS)
        curator.ask("x > 0.5")
        late = curator.train("late", hypotheses=_stumps(7), **FACTS)
        again = curator.train("again", hypotheses=_stumps(), **FACTS)
        assert first.asked.terms.lost is None
        assert "V4.1" in late.certificate
        assert "chosen after answers" in late.certificate
        assert again.asked.terms.lost is None  # made of the same, before the first answer
        assert curator.predict("late", {"x": 0.9}, epsilon=1, method="agnostic").proven is None


@pytest.mark.parametrize(
    ("terms", "facts", "why"),
    [({"iid": False}, {}, "independent"), ({}, {"order": None}, "order='fixed'"), ({}, {"order": None, "key": "id"}, "key")],
)
def test_v4_1_needs_that_are_not_met_are_named(terms, facts, why):
    with _opened(**terms) as curator:
        model = curator.train("risk", hypotheses=_stumps(), **(FACTS | facts))
        assert why in model.certificate
        assert curator.predict("risk", {"x": 0.9}, epsilon=1, method="agnostic").proven is None


def test_members_are_exact_minimisers_with_ties_by_index_and_never_leave_the_class():
    data = _rows()
    data["y"] = np.zeros(ROWS, dtype=bool)  # one label alone, which no conjunction of the class says always
    with _opened(data) as curator:
        made = ht.Thresholds(0, 1, steps=4, column="x")
        model = curator.train("risk", hypotheses=made, **FACTS, held_out=0.25)
        points = data["x"]
        kept = np.flatnonzero(~model.asked.cut.find_held_out(ROWS, None))
        for part, index in enumerate(model.ensemble.members.indices):
            counts = made.error_counts({"x": points[kept][part::20]}, data["y"][kept][part::20])
            assert index == np.flatnonzero(counts == counts.min())[0]
        assert model.asked.terms.rows == kept.size // 20


def test_one_row_moves_one_pick():
    data, other = _rows(noise=0.2), _rows(noise=0.2)
    other["x"] = other["x"].copy()
    other["x"][17], other["y"][17] = 0.01, True
    found = []
    for rows in (data, other):
        with _opened(rows) as curator:
            found.append(curator.train("risk", hypotheses=_stumps(100), **FACTS).ensemble.members.indices)
    assert (found[0] != found[1]).sum() <= 1


@pytest.mark.parametrize(
    ("estimator", "given", "error", "match"),
    [
        (LogisticRegression(), {"hypotheses": _stumps()}, InvalidParameter, "either"),
        (None, {}, InvalidParameter, "estimator"),
        (None, {"assuming": "realizable"}, InvalidParameter, "assuming"),
        (None, {"hypotheses": _stumps(), "assuming": "sure"}, InvalidParameter, "realizable"),
        (None, {"hypotheses": _stumps(), "features": ["x"]}, InvalidParameter, "names its columns"),
        (None, {"hypotheses": _stumps(), "target": "x", "bounds": {"x": (0, 1)}}, InvalidParameter, "two labels"),
        (None, {"hypotheses": [3]}, InvalidParameter, "a class such as"),
        (None, {"hypotheses": _stumps(), "target": "id"}, NotCertified, "public"),
        (None, {"hypotheses": _stumps(), "parts": ROWS + 1}, Exception, "rows"),
    ],
)
def test_what_cannot_be_trained_on_a_class_is_refused_and_costs_nothing(estimator, given, error, match):
    with _opened() as curator:
        left = curator.budget.left
        with pytest.raises(error, match=match):
            curator.train("risk", estimator, **(FACTS | given))
        assert curator.budget.left == left


def test_the_rule_decides_whether_there_is_a_bound():
    terms = ClassTerms(10, 100, 0.05)
    assert terms.bound_errors(SoftMajority(1), parts=5) is None
    assert terms.bound_errors(NoisyMax(mu=1), parts=5) is None
    assert terms.bound_errors(Agnostic(5, epsilon=1), parts=5).excess
    assert ClassTerms(10, 100, 0.05, lost="for a reason").bound_errors(Agnostic(5, epsilon=1), parts=5) is None
    assert not math.isnan(terms.bound_errors(Agnostic(5, epsilon=1), parts=5).value)
