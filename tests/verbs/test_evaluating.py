"""EVALUATE: the robust error of held-out rows, its sensitivity, its coverage, and what is refused (V4.4)."""

import os
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import special
from sklearn.linear_model import LogisticRegression, Ridge

import holdtrue as ht
from holdtrue.accounting.closed_forms import gaussian_delta
from holdtrue.auditing import audit_privacy
from holdtrue.bounds.accuracy import largest_mean
from holdtrue.bounds.transfer import gaussian_shift, level_pairs, meet_ends, transfer_ends
from holdtrue.curator import Curator
from holdtrue.ensembles.certificates import RobustError
from holdtrue.ensembles.parts import PartRule
from holdtrue.errors import InvalidParameter, PreconditionError
from holdtrue.events import DiscreteLaplace
from holdtrue.exact import STITCH, UNIT
from holdtrue.mechanisms import Gaussian, Laplace
from holdtrue.testing import drawing_from
from holdtrue.verbs.asking import QuestionRule
from holdtrue.verbs.evaluating import ReleasedTask, judge_released, plan_evaluation
from laws import generator

ROWS = 6000
LEVELS = [Fraction(number, 40) for number in range(1, 40)]


def _rows(seed=0):
    random = np.random.default_rng(seed)
    x = random.random(ROWS)
    return {"id": np.arange(ROWS), "x": x, "v": x, "y": x + random.normal(0, 0.1, ROWS) > 0.5}


def _opened(data=None, **terms):
    given = {"epsilon": 6.0, "delta": 1e-6, "iid": True, "queries": 20, "reserve": 0.8, "cap": "privacy"} | terms
    return Curator(_rows() if data is None else data, **given)


def _train(curator, **given):
    facts = {"target": "y", "features": ["x"], "parts": 50, "key": "id", "held_out": 0.25} | given
    return curator.train("risk", LogisticRegression(), **facts)


def _count(said, labels):
    """Return votes by row and label from what each member says of each row."""
    return np.stack([(said == label).sum(axis=1) for label in range(labels)], axis=1)


@pytest.mark.parametrize("labels", [2, 3])
def test_v4_4_one_row_moves_every_distance_by_at_most_1(labels, request):
    """150 changes each: a member that says anything anywhere, or a held-out row; at every level, k above and below 0."""
    random, worst = generator(request), 0
    for turn in range(150):
        epsilon = Fraction(int(random.integers(1, 30)), 20)
        said, codes = random.integers(0, labels, (12, 9)), random.integers(0, labels, 12)
        said[random.random(said.shape) < 0.5] = 0
        other, truth = said.copy(), codes.copy()
        if turn % 2:
            other[:, 4] = random.integers(0, labels, 12)
        else:
            other[3], truth[3] = random.integers(0, labels, 9), random.integers(0, labels)
        first, second = (
            RobustError.of(_count(votes, labels), known, epsilon=epsilon, reach=40)
            for votes, known in ((said, codes), (other, truth))
        )
        moved = [abs(first.distance(level) - second.distance(level)) for level in LEVELS]
        worst = max(worst, *moved)
        chances = special.softmax(float(epsilon) / 2 * _count(said, labels), axis=1)
        error = 1 - chances[np.arange(12), codes].mean()
        assert all(first.distance(level) < 0 for level in LEVELS if level < error - 1e-12)
    assert worst == 1


def test_v4_4_training_rows_and_held_out_rows_are_not_both_paid_for(request):
    """The distance is never below that of f_k + k / rows, and above it where predictions hardly move with a training row."""
    random, gained = generator(request), 0
    for _ in range(50):
        epsilon, rows = Fraction(int(random.integers(1, 12)), 100), int(random.integers(20, 200))
        votes = random.binomial(50, random.random((rows, 1)))
        counts = np.hstack([50 - votes, votes])
        robust = RobustError.of(counts, np.ones(rows, dtype=np.int64), epsilon=epsilon, reach=60)
        odds = float(epsilon) / 2 * (50 - 2 * votes)
        for level in LEVELS[::3]:
            plain = [k for k in range(61) if special.expit(odds + k * float(epsilon)).mean() + k / rows <= level]
            if len(plain) > 1:  # 257 steps of epsilon / 256 each, so that one in 256 is lost
                assert robust.distance(level) >= plain[-1] - 1
                gained += robust.distance(level) > plain[-1] + 1
    assert gained > 20


def test_v4_4_certificates_are_wrong_at_most_as_often_as_they_say(request, bits):
    """Held-out rows and members are drawn afresh; the error in the population is known. 0 wrong, and some certified."""
    random, beta, mu, rows = generator(request), 0.05, 0.3, 400
    runs, certified, wrong = int(os.environ.get("HOLDTRUE_EVALUATIONS", "150")), 0, 0
    noise = drawing_from(Gaussian(mu=mu, sensitivity=1), bits).release(np.zeros(runs, dtype=np.int64))
    right = np.array([0.9, 0.75, 0.6, 0.45])
    for turn in range(runs):
        # Four kinds of rows; members are right on each with another chance, and fixed for the run.
        votes = random.binomial(40, right)
        errors = special.expit(0.5 * (40 - 2 * votes))
        kinds = random.integers(0, 4, rows)
        counts = np.stack([40 - votes[kinds], votes[kinds]], axis=1)
        level = Fraction(round(errors.mean() * (0.8 + 0.9 * random.random()) * 1000) + 1, 1000)
        distance = RobustError.of(counts, np.ones(rows, dtype=np.int64), epsilon=Fraction(1), reach=54).distance(level)
        if distance + noise[turn] >= special.ndtri(1 - 0.8 * beta) / mu:
            certified += 1
            wrong += errors.mean() > largest_mean(float(level), np.log(5 / beta) / rows)
    assert certified > runs / 20
    assert wrong <= max(1, beta * runs / 4)


def test_v4_4_a_plain_mean_of_errors_is_refuted(bits):
    """The planted fault: a training row moves the chance of every held-out row, so that noise of 1 / (rows mu) is none."""
    rows, mu, epsilon, fine = 500, 0.2, Fraction(3, 10), 1 << 20
    left, right = np.repeat([0, 1], 20), np.repeat([0, 1], 20)
    right[0] = 1

    def plain(members, number):
        chance = special.expit(float(epsilon) / 2 * (np.sum(members == 0) - np.sum(members == 1)))
        noise = drawing_from(Gaussian(mu=mu, sensitivity=fine), bits)
        return noise.release(np.full(number, round(chance * rows * fine)))

    def robust(members, number):
        votes = np.tile([np.sum(members == 0), np.sum(members == 1)], (rows, 1))
        error = RobustError.of(votes, np.ones(rows, dtype=np.int64), epsilon=epsilon, reach=80)
        noise = drawing_from(Gaussian(mu=mu, sensitivity=1), bits)
        return noise.release(np.full(number, error.distance(Fraction(11, 20))))

    claim = {"epsilon": 1.0, "delta": 1e-3, "samples": 4000, "bits": bits}
    assert audit_privacy(plain, left, right, **claim).violated
    assert not audit_privacy(robust, left, right, **claim).violated


def test_a_model_is_evaluated_once_and_named_by_its_epsilon():
    with _opened() as curator:
        _train(curator)
        found = curator.evaluate("risk", at_most=[0.45, 0.4, 0.35], epsilon=0.5, mu=0.2)
        assert found.certified
        assert found.rows == pytest.approx(ROWS / 4, rel=0.1)
        assert found.at_most < found.bound == found.interval.high < 0.5
        assert (
            found.bound == largest_mean(found.at_most, np.log(5 / 0.05) / found.rows * (1 + 2.0**-46)) or found.bound < 0.5
        )
        assert "epsilon=0.5" in found.about
        assert found.certificate.cost == pytest.approx(3 * 0.04)
        assert curator.evaluate("risk", at_most=[0.45, 0.4, 0.35], epsilon=0.5, mu=0.2).repeated
        later = curator.evaluate("risk", at_most=0.45, epsilon=0.5, mu=0.3)
        assert not later.repeated
        assert later.bound is None or later.bound > found.bound


def test_v4_4_rows_held_out_after_answers_have_no_bound_for_the_population(tmp_path):
    with _opened(ledger=tmp_path / "rows.ledger") as curator:
        _train(curator)
        curator.ask("x > 0.5")
        curator.train("other", LogisticRegression(C=2), target="y", features=["x"], parts=50, key="id", held_out=0.25)
        curator.train("late", LogisticRegression(), target="y", features=["x"], parts=50, key="id", held_out=0.3)
        assert curator.evaluate("other", at_most=0.45, epsilon=0.5, mu=0.5).bound is not None
        late = curator.evaluate("late", at_most=0.45, epsilon=0.5, mu=0.5)
        assert late.certified
        assert late.bound is None
        assert "held out after other answers" in late.reason
    with Curator(_rows(), ledger=tmp_path / "rows.ledger") as again:
        assert [again.model(name).asked.split_first for name in ("late", "other", "risk")] == [False, True, True]


def test_v4_4_the_bound_says_that_no_two_rows_may_share_a_key_and_is_broken_where_they_do():
    """Ten rows to each of 600 keys, and the keys that are held out have the rows that are easy."""
    data, random = _rows(), np.random.default_rng(11)
    keys = np.arange(ROWS) % 600
    held = PartRule("key", "id", held_out=0.25).find_held_out(ROWS, _hash(keys))
    easy = held | (random.random(ROWS) >= 0.38)
    shared = data | {"id": keys, "y": np.where(easy, data["x"] > 0.5, data["x"] <= 0.5)}
    with _opened(shared) as curator:
        _train(curator)
        found = curator.evaluate("risk", at_most=0.2, epsilon=3, mu=0.5)
        majority = curator.model("risk").measure(data["x"][:, None]).argmax(axis=1)
        assert found.bound < (majority != shared["y"]).mean() - 0.03
        assert "if no two rows share a key 'id'" in str(found)
    with _opened() as curator:
        _train(curator, key=None, order="fixed")
        assert "share a key" not in curator.evaluate("risk", at_most=0.45, epsilon=0.5, mu=0.2).about


def test_rows_that_are_held_out_train_no_member_and_stay_with_the_model(tmp_path):
    data, ledger = _rows(), tmp_path / "rows.ledger"
    with _opened(data, ledger=ledger) as curator:
        model = _train(curator)
        held = model.asked.cut.find_held_out(ROWS, None if model.asked.cut.key is None else _hash(data["id"]))
        changed = data | {"y": np.where(held, ~data["y"], data["y"])}
        with _opened(changed) as other:
            points = np.linspace(0, 1, 50)[:, None]
            assert (_train(other).measure(points) == model.measure(points)).all()
    with Curator(data, ledger=ledger) as again:
        assert again.model("risk").asked.cut.held_out == 0.25
        assert again.evaluate("risk", at_most=0.45, epsilon=0.5, mu=0.2).rows == held.sum()
    with _opened() as fixed:
        assert _train(fixed, key=None, order="fixed").asked.digest != model.asked.digest
        assert fixed.evaluate("risk", at_most=0.45, epsilon=0.5, mu=0.2).rows == ROWS / 4


def _hash(ids):
    from holdtrue.queries.features import hash_keys

    return hash_keys(ids, rows=len(ids))


def test_what_cannot_be_evaluated_is_refused_and_costs_nothing():
    with _opened() as curator:
        with pytest.raises(PreconditionError, match="key="):
            _train(curator, key=None)
        with pytest.raises(InvalidParameter, match="numbers"):
            curator.train("n", Ridge(), target="v", features=["x"], bounds={"v": (0, 1)}, key="id", held_out=0.2)
        _train(curator, held_out=None)
        with pytest.raises(PreconditionError, match="held_out"):
            curator.evaluate("risk", at_most=0.3)
        _train(curator, replace=True)
        for levels in ([], [0.2, 0.3], 0, 1, "x", [0.3, 0.3]):
            with pytest.raises(ht.RequestError):
                curator.evaluate("risk", at_most=levels)
        assert (curator.budget.spent, curator.history) == (0, [])
    with _opened(pure=True, delta=None) as pure:
        _train(pure)
        with pytest.raises(InvalidParameter, match="leave out mu"):
            pure.evaluate("risk", at_most=0.3, epsilon=0.1, mu=0.1)
        assert pure.budget.spent == 0


@pytest.mark.parametrize("failure", [0.04, 1e-4])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2])
def test_v4_4_laplace_noise_certifies_what_is_false_no_oftener_than_it_says(epsilon, failure):
    """A false distance is -1 at most; exact tails of discrete Laplace noise, beside a threshold that is too low."""
    with _opened() as curator:
        _train(curator)
        task = plan_evaluation(curator.pipeline, curator.model("risk"), at_most=0.3, epsilon=0.5, mu=None, beta=None)
    least = replace(task, noise=Laplace(epsilon=epsilon)).find_least(failure)

    def tail(reached):
        return np.exp(-epsilon * (np.ceil(reached) + 1)) / (1 + np.exp(-epsilon))

    assert failure * np.exp(-2 * epsilon) / 2 < tail(least) <= failure
    assert tail(least - np.log(4) / epsilon - 2) > failure
    assert replace(task, noise=Laplace(epsilon=epsilon)).find_least(0.7) == 0


def test_v4_4_levels_take_laplace_noise_where_mu_is_no_currency(tmp_path):
    """On a pure ledger an equal share of the reserve, and of a purse in draws one draw, whose range is twice epsilon."""
    tenth = {"predictions": 10, "epsilon": 0.1, "currency": "draws"}
    for place, given in enumerate(({"pure": True, "delta": None}, {"reserve": tenth, "cap": None})):
        path = tmp_path / f"{place}.ledger"
        with _opened(ledger=path, **given) as curator:
            _train(curator)
            found = curator.evaluate("risk", at_most=[0.45, 0.3], epsilon=0.5 if place == 0 else 0.1)
            assert found.certificate.cost == pytest.approx((0.96, 2)[place])
            assert (found.bound is not None) == found.certified
            each = found.certificate.event.event
            assert each == DiscreteLaplace(each.epsilon, 1)
            assert float(each.epsilon) == pytest.approx((0.48, 0.05)[place])
            assert curator.evaluate("risk", at_most=[0.45, 0.3], epsilon=0.5 if place == 0 else 0.1).repeated
        assert not ht.audit_ledger(path).violated


def test_v4_2_several_pairs_are_narrower_near_0_and_cost_little_in_the_middle():
    """T6 at the best pair with nine tenths of p2, and at 3.3 mu and 4.2 mu with a twentieth each, against one with all."""
    mu, p2 = 0.1, 0.04
    units = round(mu * mu / UNIT)
    one = gaussian_shift(mu, beta=p2)
    several = level_pairs("gdp", units, first=units, cap=units, beta=p2 / STITCH)
    changes = []
    for share in (0.01, 0.05, 0.2, 0.5):
        alone = transfer_ends((share, share), epsilon=one.epsilon, slacks=(one.slack, one.slack))[1] - share
        changes.append((meet_ends((share, share), pairs=several)[1] - share) / alone - 1)
    assert changes[0] == pytest.approx(-0.56, abs=0.01)
    assert all(0 < change < 0.015 for change in changes[1:])
    assert sum(gaussian_delta(mu, pair.epsilon) / pair.slack for pair in several) <= p2 * (1 + 1e-9)
    high = [round(meet_ends((0.0, share), pairs=several)[1], 4) for share in (0, 0.01)]
    assert high == [0.0002, 0.0153]


def _released(curator):
    """Return a student, a rule and a published model of these rows, with what each says of them."""
    curator.train("risk", LogisticRegression(C=100), target="y", features=["x"], parts=50, key="id")
    public = {"x": np.linspace(0, 1, 40)}
    student = curator.distill("risk", public, LogisticRegression(C=100), epsilon=0.02)
    rule = curator.learn(ht.Stumps(bounds={"x": (0, 1)}, steps=10), target="y", epsilon=0.2)
    return student, rule, curator.fit("line", "logistic", target="y", features=["x"], bounds={"x": (0, 1)}, mu=0.1)


def test_v4_4_what_was_released_is_judged_by_one_question(tmp_path):
    data = _rows()
    with _opened(data, ledger=tmp_path / "rows.ledger") as curator:
        for what in _released(curator):
            asks, wrong = curator.budget.asks, np.mean(what.predict(data) != data["y"])
            found = curator.evaluate(what)
            assert curator.budget.asks == asks - 1
            assert found.value == pytest.approx(wrong, abs=0.05)
            assert found.low <= wrong <= found.bound
            assert (found.rows, found.confidence) == (ROWS, 0.95)
            assert "V4.2" in found.certificate.theorem
            assert curator.evaluate(what).repeated
            assert found.interval.high == found.bound
        entry = next(line.entry for line in curator.history if line.verb == "learn")
        assert curator.evaluate(entry).repeated
    with _opened(data, ledger=tmp_path / "rows.ledger") as again:  # a rule read from the ledger, without its class
        told = next(line.responses[0] for line in again.history if line.verb == "learn")
        assert again.evaluate(told).repeated


def test_v4_2_the_interval_of_a_rule_that_fits_its_rows_covers_where_the_noise_alone_does_not(request):
    """A rule picked for its luck among 40 coins, after answers about all of them: its error on fresh cases is one half."""
    random, missed, narrow, runs = generator(request), 0, 0, 200
    for _ in range(runs):
        rows = {f"c{place}": random.random(400) < 0.5 for place in range(40)} | {"y": random.random(400) < 0.5}
        with Curator(rows, epsilon=6.0, delta=1e-6, iid=True, queries=45, reserve=0.1, cap="privacy") as curator:
            said = curator.ask([f"(c{place} AND NOT y) OR (y AND NOT c{place})" for place in range(40)])
            best = int(np.argmin([answer.value for answer in said]))
            found = curator.evaluate(curator.learn(ht.Trees([f"c{best}"], depth=1), target="y", epsilon=0.3))
            missed += not found.low <= 0.5 <= found.bound
            narrow += found.at_most < 0.5
    assert missed <= 0.05 * runs
    assert narrow > 0.3 * runs  # about six in ten, which is six standard errors above


def _numbers(curator):
    """Return a student and two published models of a number, with everything that each says of the rows."""
    shared = {"target": "v", "features": ["x"], "bounds": {"x": (0, 1), "v": (-2, 6)}}
    curator.train("level", Ridge(), target="v", features=["x"], parts=50, key="id", bounds={"v": (-2, 6)})
    student = curator.distill("level", {"x": np.linspace(0, 1, 20)}, Ridge(), mu=0.02)
    return student, *(curator.fit(kind, kind, mu=0.1, **shared) for kind in ("ridge", "huber"))


def test_v5_what_predicts_numbers_is_judged_by_its_mean_distance(request, tmp_path):
    """In the units of the target, beyond whose public range nothing counts."""
    random = generator(request)
    x = random.random(ROWS)
    data = {"id": np.arange(ROWS), "x": x, "v": 6 * x + random.normal(size=ROWS), "y": x > 0.5}
    with _opened(data, ledger=tmp_path / "rows.ledger", labels=None) as curator:
        for what in _numbers(curator):
            asks, far = curator.budget.asks, np.abs(what.predict(data).clip(-2, 6) - data["v"].clip(-2, 6)).mean()
            found = curator.evaluate(what)
            assert curator.budget.asks == asks - 1
            assert found.value == pytest.approx(far, abs=8 * 6 * curator.plan.sigma)
            assert found.low <= far
            assert found.value < found.at_most < found.value + 8 * 3 * curator.plan.sigma
            assert found.bound < 8
            assert "off by" in str(found)
            assert (found.width, found.rows) == (8, ROWS)
            assert curator.evaluate(what).repeated
    assert not ht.audit_ledger(tmp_path / "rows.ledger").violated


def test_v5_one_row_moves_the_sum_of_distances_by_the_unit_of_a_question_at_most():
    """Whatever stands in the row; without the clipping of both sides, a single one would move it without limit."""
    data, sums = _rows(), []
    for value in (0.5, -2.0, 6.0, 1e300, -np.inf, np.nan):
        changed = data | {"v": np.append(data["v"][:-1], value), "x": np.append(data["x"][:-1], value)}
        with _opened(changed) as curator:
            if not sums:
                bounds = {"x": (0, 1), "v": (-2, 6)}
                line = curator.fit("line", "ridge", target="v", features=["x"], bounds=bounds, mu=0.3)
            task = judge_released(curator.pipeline, QuestionRule.from_plan(curator.plan, card=curator.card), line, beta=None)
            sums.append(int(task.measure()[0]))
    assert max(sums) - min(sums) <= 1 << curator.plan.bits
    assert max(sums) - min(sums) > 0.4 * (1 << curator.plan.bits)  # about .6, six of its deviations above


@pytest.mark.parametrize("width", [4.0, 16.0])
def test_a_distance_in_other_units_is_noticed(tmp_path, width):
    """An evaluation that is stored in units twice as small or large as those of its request."""
    data = _rows()
    with _opened(data, ledger=tmp_path / "rows.ledger") as curator, pytest.MonkeyPatch.context() as patch:
        kept = ReleasedTask.make_response
        patch.setattr(ReleasedTask, "make_response", lambda task, *given: kept(replace(task, width=width), *given))
        line = curator.fit("ridge", "ridge", target="v", features=["x"], bounds={"x": (0, 1), "v": (-2, 6)}, mu=0.1)
        curator.evaluate(line)
    assert ht.audit_ledger(tmp_path / "rows.ledger").violated


def test_what_this_ledger_did_not_release_is_refused_and_costs_nothing():
    with _opened() as other:
        strange = other.learn(ht.Stumps(bounds={"x": (0, 1)}, steps=10), target="y", epsilon=0.2)
        other.train("m", LogisticRegression(), target="y", features=["x"], parts=10, key="id")
        student = other.distill("m", {"x": np.linspace(0, 1, 9)}, LogisticRegression(), epsilon=0.05)
        assert other.evaluate(student).bound is not None
    with _opened() as curator:
        numbers = curator.fit("v", "ridge", target="v", features=["x"], bounds={"x": (0, 1), "v": (0, 1)}, mu=0.1)
        left = curator.budget.left
        for what, given, match in (
            (strange, {}, "on this ledger"),
            (student, {}, "on this ledger"),
            (7, {}, "on this ledger"),
            (True, {}, "on this ledger"),
            (None, {}, "on this ledger"),
            (numbers, {"at_most": 0.3}, "leave out at_most"),
            (numbers, {"mu": 0.3}, "leave out at_most"),
            ("nothing", {}, "no model"),
        ):
            with pytest.raises(ht.RequestError if what != "nothing" else ht.UnknownName, match=match):
                curator.evaluate(what, **given)
        curator.train("risk", LogisticRegression(), target="y", features=["x"], parts=10, key="id", held_out=0.2)
        with pytest.raises(InvalidParameter, match="give at_most"):
            curator.evaluate("risk")
        assert curator.budget.left == left


def test_an_error_without_independent_rows_has_no_interval_for_the_population():
    with _opened(iid=False) as curator:
        made = curator.learn(ht.Stumps(bounds={"x": (0, 1)}, steps=10), target="y", epsilon=0.2)
        found = curator.evaluate(made)
        assert (found.bound, found.interval) == (None, None)
        assert "independent" in found.reason
        assert found.at_most < 1
