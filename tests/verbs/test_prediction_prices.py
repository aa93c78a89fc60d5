"""What a prediction costs: priced whole before the first draw, and what the argument says is what is drawn (P4, V4.3)."""

import json
from fractions import Fraction

import numpy as np
import pytest
from scipy import special
from sklearn.linear_model import LogisticRegression, Ridge

from holdtrue import events
from holdtrue.accounting import closed_forms, event_privacy
from holdtrue.auditing import audit_privacy
from holdtrue.codec import encode
from holdtrue.curator import Curator
from holdtrue.curator.pipeline import Job
from holdtrue.ensembles.parts import PartRule
from holdtrue.ensembles.responding import LaplaceMax, NoisyAverage, NoisyMax
from holdtrue.errors import BudgetExceeded, InvalidParameter, RefusedError, ReleaseError
from holdtrue.testing import SeededBits, drawing_from
from holdtrue.verbs import predicting
from holdtrue.verbs.distilling import release_groups
from holdtrue.verbs.predicting import plan_purchase, rule_of
from holdtrue.verbs.training import ModelFacts
from laws import LEVEL, chi_square, laplace_cdf

ROWS = 4000
POINTS = {"x": np.linspace(0, 1, 30)}


def _rows():
    x = np.random.default_rng(0).random(ROWS)
    return {"id": np.arange(ROWS), "x": x, "v": x, "y": x > 0.5}


def _opened(epsilon=1.0, **terms):
    curator = Curator(_rows(), **({"epsilon": epsilon, "delta": 1e-6, "bounds": {"v": (0, 1)}} | terms))
    curator.train("label", LogisticRegression(), target="y", features=["x"], parts=50, key="id")
    curator.train("number", Ridge(), target="v", features=["x"], parts=50, key="id")
    return curator


def _standing(curator):
    return curator.budget.spent, len(curator.history)


REQUESTS = {
    "screen": lambda curator: curator.predict("label", POINTS, epsilon=0.2, screen=0.6, key="job-1"),
    "screen without a key": lambda curator: curator.predict("label", POINTS, epsilon=0.2, screen=0.6),
    "groups": lambda curator: curator.distill("label", POINTS, LogisticRegression(), groups=30, epsilon=0.2),
    "labels": lambda curator: curator.distill("label", POINTS, LogisticRegression(), epsilon=0.2),
    "labels and screen": lambda curator: curator.distill("label", POINTS, LogisticRegression(), epsilon=0.2, screen=0.6),
    "many": lambda curator: curator.predict("label", POINTS, epsilon=0.2),
    "numbers": lambda curator: curator.predict("number", POINTS, mu=0.2),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_p4_nothing_is_spent_when_budget_exceeded_is_raised(name):
    curator = _opened()
    for _ in range(2):
        with pytest.raises(BudgetExceeded) as caught:
            REQUESTS[name](curator)
        assert _standing(curator) == (0, 0)
        assert caught.value.requested > caught.value.left


def test_a_request_that_is_priced_piece_by_piece_is_caught(monkeypatch):
    """The control: without the look at the whole, and with a charge for each group, much is spent before the refusal."""
    with monkeypatch.context() as patch:
        patch.setattr(predicting, "_refuse_unless_affordable", lambda *_, **__: None)
        curator = _opened(epsilon=4.0)
        with pytest.raises(ReleaseError):
            REQUESTS["screen"](curator)
        assert curator.budget.spent > 0
    curator = _opened()
    with pytest.raises(BudgetExceeded):
        _buy_groups_one_by_one(curator)
    assert curator.budget.spent > 0


def _buy_groups_one_by_one(curator):
    model, pipeline = curator.model("label"), curator.pipeline
    for value in POINTS["x"].tolist():
        point = {"x": value}
        offer, release = release_groups([[point]], curation=pipeline, model=model, epsilon=0.2)
        planned = plan_purchase(offer, release.parts, release, model.read([point]), f'"{value}"')
        pipeline.run(Job(lambda _, planned=planned: planned))


def test_what_fits_is_charged_for_clear_points_only():
    """The most that it can cost must fit; what it does cost is two charges, of screens and of answers."""
    curator = _opened(epsilon=20.0)
    found = curator.predict("label", POINTS, epsilon=0.05, screen=0.9, key="job-1")
    clear = sum(answer.label is not None for answer in found)
    assert 0 < clear < 30
    assert [line.verb for line in curator.history] == ["screen", "predict"]
    screens, answers = curator.history
    assert screens.responses[0].certificate.event.times == 30
    assert answers.responses[0].certificate.event == events.Repeated(events.BoundedRange(Fraction(0.05)), clear)
    spent = _standing(curator)
    again = curator.predict("label", POINTS, epsilon=0.05, screen=0.9, key="job-1")
    assert [answer.label for answer in again] == [answer.label for answer in found]
    assert _standing(curator) == spent


def test_a_screen_of_another_share_is_another_screen():
    curator = _opened(epsilon=20.0)
    curator.predict("label", {"x": 0.5}, epsilon=0.05, screen=1.0)
    before = curator.budget.spent
    curator.predict("label", {"x": 0.5}, epsilon=0.05, screen=0.1)
    assert curator.budget.spent > before


class Died(BaseException):
    """Stands for the end of a process."""


def _die_after(curator, monkeypatch, *, responses):
    """Let a process die before it stores a response: the first, or the one after so many."""
    ledger, stored = curator.pipeline.ledger, [0]
    settle = ledger.settle

    def settling(bodies, requests):
        stored[0] += bool(bodies)
        if bodies and stored[0] > responses:
            raise Died
        return settle(bodies, requests)

    monkeypatch.setattr(ledger, "settle", settling)


@pytest.mark.parametrize("request_", ["screen", "screen without a key"])
@pytest.mark.parametrize("responses", [0, 1])
def test_what_was_bought_before_a_crash_is_found_again(tmp_path, monkeypatch, request_, responses):
    """Killed after the charge of the screens, or of the answers: asked again, nothing is charged twice."""
    ask = REQUESTS[request_]
    with _opened(epsilon=20.0) as whole:
        ask(whole)
        screens = whole.history[0].responses[0].certificate.cost
    path = tmp_path / "x.ledger"
    curator = _opened(epsilon=20.0, ledger=path)
    with monkeypatch.context() as patch:
        _die_after(curator, patch, responses=responses)
        with pytest.raises(Died):
            ask(curator)
    spent = curator.budget.spent
    assert spent >= screens
    curator.close()
    with Curator(_rows(), ledger=path) as again:
        found = ask(again)
        charged = [line for line in again.history if line.cost]
        assert len(found) == 30
        assert [line.verb for line in charged] == ["screen", "predict"]
        if responses:
            assert again.budget.spent == spent


def test_groups_bought_before_a_crash_are_found_again(tmp_path, monkeypatch):
    path = tmp_path / "x.ledger"
    curator = _opened(epsilon=8.0, ledger=path)
    with monkeypatch.context() as patch:
        _die_after(curator, patch, responses=0)
        with pytest.raises(Died):
            curator.distill("label", POINTS, LogisticRegression(), groups=5, epsilon=0.2)
    spent = curator.budget.spent
    assert spent > 0
    curator.close()
    with Curator(_rows(), ledger=path) as again:
        again.distill("label", POINTS, LogisticRegression(), groups=5, epsilon=0.2)
        assert again.budget.spent == spent
        assert len(again.history) == 1


def test_answers_that_others_overtook_are_a_release_error_with_the_entry(monkeypatch):
    """Screens are charged, then another request takes the rest: spent, so no BudgetExceeded, and nothing is lost."""
    curator = _opened(epsilon=8.0)
    left = curator.predictions_left("label", epsilon=0.2)
    assert left > 30
    screen = predicting._screen_points

    def overtaken(*given, **named):
        found = screen(*given, **named)
        fitting = curator.predictions_left("label", epsilon=0.2)
        curator.predict("label", {"x": 2 + np.arange(float(fitting))}, epsilon=0.2, analyst="another")
        return found

    monkeypatch.setattr(predicting, "_screen_points", overtaken)
    with pytest.raises(ReleaseError) as caught:
        curator.predict("label", {"x": np.linspace(0, 1, 5)}, epsilon=0.2, screen=0.2)
    assert caught.value.entry == 1
    assert curator.history[0].verb == "screen"


def test_an_allowance_is_looked_at_before_the_screens():
    curator = _opened(epsilon=20.0)
    curator.pipeline.ledger.grant("ann", allowance=10)
    with pytest.raises(BudgetExceeded):
        curator.predict("label", POINTS, epsilon=0.05, screen=0.6, analyst="ann")
    assert curator.history == []


def test_a_key_of_another_request_is_refused_before_the_screens():
    curator = _opened(epsilon=20.0)
    curator.predict("label", {"x": 0.1}, epsilon=0.05, key="job-1")
    before = _standing(curator)
    with pytest.raises(RefusedError, match="another request"):
        curator.predict("label", {"x": [0.2, 0.3]}, epsilon=0.05, screen=0.6, key="job-1")
    assert _standing(curator) == before


def test_no_clear_point_at_all_is_told_as_spent():
    """All screens were charged, so this is no refusal."""
    data = {"x": np.random.default_rng(2).random(ROWS), "y": np.random.default_rng(3).random(ROWS) > 0.5}
    curator = Curator(data, epsilon=20.0, delta=1e-6)
    curator.train("coin", LogisticRegression(), target="y", features=["x"], parts=400)
    with pytest.raises(ReleaseError) as caught:
        curator.distill("coin", {"x": [0.5]}, LogisticRegression(), epsilon=0.05, screen=1.0)
    assert caught.value.entry == 1
    assert curator.budget.spent > 0


def test_v4_3_epsilon_of_a_number_is_a_draw_that_is_epsilon_dp():
    """Discrete Laplace noise, charged as epsilon-DP: delta is 0 at that epsilon, and mu is .6239 at .5."""
    curator = _opened(epsilon=8.0)
    said = curator.predict("number", {"x": 0.5}, epsilon=0.5)
    assert said.certificate.event == events.DiscreteLaplace(Fraction(1, 2), 1 << 20)
    assert event_privacy.delta(said.certificate.event, 0.5) == 0
    assert said.certificate.cost == pytest.approx(0.6239**2, rel=1e-3)
    assert "discrete Laplace noise (E9, E10, A5)" in said.certificate.theorem


def test_v4_3_normal_noise_under_an_epsilon_is_caught():
    """The control, as it was: normal noise of the mu that an epsilon-DP answer has is (.5, .093)-DP, and not (.5, 0)."""
    mu = closed_forms.pure_mu(0.5)
    old = NoisyAverage(50, low=0, high=1, mu=Fraction(mu))
    assert event_privacy.delta(old.event, 0.5) == pytest.approx(0.093, abs=5e-4)
    exact = special.ndtr(-0.5 / mu + mu / 2) - np.exp(0.5) * special.ndtr(-0.5 / mu - mu / 2)
    assert event_privacy.delta(old.event, 0.5) == pytest.approx(exact, rel=1e-6)


def test_v4_3_an_audit_at_epsilon_and_delta_0_passes_and_refutes_the_old_noise(bits):
    """One member of one part says 0 or 1, the most that a row moves; normal noise of the same cost is told apart."""
    claim = {"epsilon": 0.5, "delta": 0.0, "samples": 20_000, "bits": bits}
    for given, refuted in (({"epsilon": 0.5}, False), ({"mu": Fraction(closed_forms.pure_mu(0.5))}, True)):
        rule = NoisyAverage(1, low=0, high=1, **given)

        def release(said, number, rule=rule):
            return drawing_from(rule.noise, bits).release(np.full(number, said * rule.steps, dtype=np.int64))

        assert audit_privacy(release, 0, 1, **claim).violated == refuted


def test_v4_3_mu_of_a_number_is_normal_noise_and_the_default():
    curator = _opened(epsilon=8.0)
    said = curator.predict("number", {"x": 0.5}, mu=0.25)
    assert said.certificate.event == events.GaussianNoise(Fraction(1, 4))
    assert said.certificate.cost == pytest.approx(0.0625)
    assert "normal noise (E9, E10, A2)" in said.certificate.theorem
    default = curator.predict("number", {"x": 0.6})
    assert isinstance(default.certificate.event, events.GaussianNoise)
    use = curator.plan.use_units / 10**15
    assert 0.999 * use < default.certificate.cost <= use


def test_v4_3_numbers_are_drawn_with_the_law_that_is_charged(bits):
    """The noise of an average at its steps is discrete Laplace of scale sensitivity / epsilon; 10 % more is not."""
    asked = ModelFacts("m", "", 4, None, (0.0, 1.0), PartRule("key", "id"))
    with _opened(epsilon=8.0) as curator:
        rule = rule_of(asked, plan=curator.plan, epsilon=1)
    drawn = drawing_from(rule.noise, bits).release([0] * 40_000)
    scale = rule.steps
    assert chi_square(np.asarray(drawn), laplace_cdf(scale)) > LEVEL
    assert chi_square(np.asarray(drawn), laplace_cdf(1.1 * scale)) < LEVEL
    assert drawing_from(rule, SeededBits("range")).release([0.5] * 4) <= 1


def test_noisy_max_draws_what_the_argument_says():
    asked = ModelFacts("m", "", 50, (False, True), None, PartRule("key", "id"))
    with _opened(epsilon=8.0) as curator:
        given = {"plan": curator.plan, "method": "noisy-max"}
        assert isinstance(rule_of(asked, epsilon=1, **given), LaplaceMax)
        assert rule_of(asked, epsilon=1, **given).event == events.Pure(1)
        normal = rule_of(asked, epsilon=None, mu=Fraction(1, 2), **given)
        assert isinstance(normal, NoisyMax)
        assert normal.event.mu == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("number", {"epsilon": 0.5, "mu": 0.5}),
        ("label", {"mu": 0.5}),
        ("label", {"mu": 0.5, "method": "agnostic"}),
        ("number", {"mu": 0}),
        ("number", {"epsilon": 0.5, "screen": 0.5}),
    ],
)
def test_privacy_that_a_rule_does_not_take_is_refused(name, given):
    curator = _opened()
    with pytest.raises(InvalidParameter):
        curator.predict(name, {"x": 0.5}, **given)
    assert _standing(curator) == (0, 0)


@pytest.mark.parametrize(
    ("name", "given"), [("number", {"epsilon": 0.5}), ("number", {"mu": 0.1}), ("label", {"epsilon": 0.2}), ("number", {})]
)
def test_predictions_left_prices_the_model_at_hand(name, given):
    curator = _opened(epsilon=6.0)
    left = curator.predictions_left(name, **given)
    assert left > 1
    for number in range(left):
        curator.predict(name, {"x": number / 100}, **given)
    assert curator.predictions_left(name, **given) == 0
    with pytest.raises(BudgetExceeded):
        curator.predict(name, {"x": 2.0}, **given)


def test_predictions_left_without_a_name_is_of_the_dearest_model():
    curator = _opened(epsilon=6.0)
    named = {name: curator.predictions_left(name, epsilon=0.5) for name in ("label", "number")}
    assert curator.predictions_left(epsilon=0.5) == min(named.values()) == named["number"]
    empty = Curator(_rows(), epsilon=6.0, delta=1e-6)
    assert empty.predictions_left(epsilon=0.5) == named["label"]
    with pytest.raises(InvalidParameter):
        empty.predictions_left()


def test_predictions_left_counts_models_that_were_trained_before_the_ledger_was_opened_again(tmp_path):
    with _opened(epsilon=6.0, ledger=tmp_path / "x.ledger") as curator:
        left = curator.predictions_left(), curator.predictions_left(epsilon=0.5)
    with Curator(_rows(), ledger=tmp_path / "x.ledger") as again:
        assert (again.predictions_left(), again.predictions_left(epsilon=0.5)) == left


def test_the_ledger_says_what_was_drawn():
    curator = _opened(epsilon=8.0)
    curator.predict("number", {"x": 0.5}, epsilon=0.5)
    (charge,) = [entry for entry in curator.ledger.entries() if entry.kind == "charge"]
    assert json.loads(charge.event)["kind"] == "DiscreteLaplace"
    assert "Laplace(epsilon=0.5" in json.loads(charge.body)["request"]["rule"]


@pytest.mark.parametrize("given", [{"mu": 0.5}, {"epsilon": 0.5}], ids=["normal", "laplace"])
def test_v4_3_the_noise_interval_covers_as_often_as_it_says(given, bits):
    """Exact to 5 standard errors, and an interval that is 10 % narrower is told apart."""
    rule, size = NoisyAverage(50, low=0, high=1, **given), 200_000
    step = 1 / rule.steps
    off = np.abs(drawing_from(rule.noise, bits).release(np.zeros(size, dtype=np.int64))) * step / 50
    half = rule.half_width(0.05) - step / 2
    error = 5 * (0.05 * 0.95 / size) ** 0.5
    assert abs((off > half).mean() - 0.05) < error
    assert abs((off > 0.9 * half).mean() - 0.05) > error
    assert np.std(off * np.sign(np.arange(size) % 2 - 0.5)) == pytest.approx(rule.deviation, rel=0.02)


def test_a_number_says_its_noise_and_what_its_interval_is_about(tmp_path):
    curator = _opened(epsilon=6.0, beta=0.1)
    found = curator.predict("number", {"x": 0.5}, mu=0.5)
    rule = rule_of(curator.model("number").asked, plan=curator.plan, epsilon=None, mu=0.5)
    assert found.noise == rule.deviation
    assert found.interval.confidence == pytest.approx(0.9)
    assert 0 <= found.interval.low <= found.label <= found.interval.high <= 1
    assert "not the true value" in found.about
    assert f"without noise {found.interval.low:.4g} to {found.interval.high:.4g} (90%): what the model says" in str(found)
    assert found.interval.target == json.loads(encode(found))["interval"]["target"] == "model"
    assert str(found.interval).endswith("(90%, model)")
    assert "target='model'" in repr(found)
    curator.report(tmp_path / "report.html")
    for shown in (str(found), found._repr_html_(), (tmp_path / "report.html").read_text(encoding="utf-8")):
        assert "not the true value" in shown
    assert found.brief == f"{found.label:.6g}"
    assert curator.predict("number", {"x": 0.5}).interval == found.interval  # the stored one
    label = curator.predict("label", {"x": 0.5}, epsilon=0.2)
    assert not label.noise
    assert not label.interval
    assert label.about is None


def test_models_are_listed_with_what_they_cost(tmp_path):
    ledger = tmp_path / "rows.ledger"
    with _opened(epsilon=6.0, ledger=ledger) as curator:
        first, second = curator.models
        head = str(curator.models).splitlines()[0]
        assert head.split() == ["name", "target", "features", "parts", "cost", "predictions", "left"]
        assert curator.models.to_frame()["predictions left"].tolist() == [first.left, second.left]
        assert (first.name, first.target, first.features, first.parts, first.labels) == (
            "label",
            "y",
            ("x",),
            50,
            (False, True),
        )
        assert (second.name, second.kind, second.bounds, second.unit) == ("number", "Ridge()", (0.0, 1.0), "mu squared")
        assert [each.left for each in (first, second)] == [curator.predictions_left(name) for name in ("label", "number")]
        assert curator.predict("number", {"x": 0.1}).certificate.cost == second.cost
    with Curator(_rows(), ledger=ledger) as again:
        assert [each.name for each in again.models] == ["label", "number"]
        assert again.models[1].left == second.left - 1
    bare = Curator(_rows(), epsilon=1.0, delta=1e-6, reserve=0, queries=10)
    bare.train("label", LogisticRegression(), target="y", features=["x"], parts=50, key="id")
    assert [(each.cost, each.left) for each in bare.models] == [(None, 0)]
