"""Curators without a number of questions (T7): early answers narrow, later ones wider, none widened afterwards."""

import itertools

import numpy as np
import pytest
from scipy import stats

from holdtrue.codec import encode
from holdtrue.curator import Curator
from holdtrue.errors import BudgetExceeded, InsufficientSamples, InvalidParameter, PreconditionError
from holdtrue.planning.asking import open_plan
from holdtrue.planning.plans import OpenPlan, read_plan
from laws import generator

ROWS = 4000


@pytest.fixture(scope="module")
def people():
    random = np.random.default_rng(11)
    return {"x": random.random(ROWS), "y": random.random(ROWS), "z": random.random(ROWS)}


def opened(people, **terms):
    return Curator(people, **({"epsilon": 2.0, "delta": 1e-6, "iid": True} | terms))


def width(answer):
    return answer.interval.high - answer.interval.low


def test_open_plan_reads_back_as_it_was_written():
    for pure in (False, True):
        plan = open_plan(rows=5000, epsilon=1, delta=0 if pure else 1e-6, pure=pure)
        assert read_plan(encode(plan)) == plan
        assert isinstance(plan, OpenPlan)
        assert f"<td>{dict(plan.lines())['ledger']}</td>" in plan._repr_html_()
        assert plan.queries * plan.cost <= plan.cap_units < (plan.queries + 1) * plan.cost


def test_intervals_follow_the_number_and_the_spent_of_each_answer(people):
    """Each answer's interval is T7's for its own draw and its own total, charged by whatever verb."""
    curator = opened(people)
    plan = curator.plan
    answers = [curator.ask(f"x > {cut}") for cut in (0.1, 0.5, 0.9)]
    curator.select({"x": "x > 0.5", "y": "y > 0.5"}, epsilon=0.1)
    answers.append(curator.ask("y > 0.5"))
    for draw, answer in enumerate(answers, start=1):
        spent = round(answer.certificate.spent * 10**15)
        ends = plan.interval(answer.value, draw=draw, spent=spent)
        assert (answer.interval.low, answer.interval.high) == pytest.approx(ends, abs=1e-12)
    assert answers[3].certificate.spent > 4 * answers[0].certificate.cost


@pytest.mark.parametrize("pure", [False, True])
def test_later_answers_are_never_narrower(people, pure):
    plan = opened(people, pure=pure).plan
    widths = [plan.alpha_after(draw, draw * plan.cost) for draw in range(1, plan.queries + 1)]
    assert all(one <= two + 1e-12 for one, two in itertools.pairwise(widths))
    assert widths[0] < 0.6 * widths[-1] <= 0.6 * plan.alpha + 1e-12


def test_a_batch_has_the_level_after_its_charge(people):
    curator = opened(people)
    answers = curator.ask(["x > 0.4", "y > 0.4", "z > 0.4", "x > 0.6"])
    plan = curator.plan
    for draw, answer in enumerate(answers, start=1):
        ends = plan.interval(answer.value, draw=draw, spent=4 * plan.cost)
        assert (answer.interval.low, answer.interval.high) == pytest.approx(ends, abs=1e-12)


def test_reopening_goes_on_counting(people, tmp_path):
    with opened(people, ledger=tmp_path / "x.ledger") as curator:
        first = curator.ask("x > 0.25")
    with Curator(people, ledger=tmp_path / "x.ledger") as again:
        assert again.plan == curator.plan
        assert again.ask("x > 0.25").interval == first.interval
        second = again.ask("x > 0.75")
        ends = again.plan.interval(second.value, draw=2, spent=2 * again.plan.cost)
        assert (second.interval.low, second.interval.high) == pytest.approx(ends, abs=1e-12)


def test_preview_tells_the_width_of_the_next_answer(people):
    curator = opened(people)
    curator.ask(["x > 0.1", "x > 0.2"])
    told = curator.preview("x > 0.3").alpha
    answer = curator.ask("x > 0.5")
    assert width(answer) / 2 <= told + 1e-9
    assert told == curator.plan.alpha_after(3, 3 * curator.plan.cost)


def test_the_cap_is_the_privacy_asked_for(people):
    curator = opened(people)
    assert curator.budget.epsilon(1e-6) <= 2.0
    questions = (f"x > {cut:.4f}" for cut in np.linspace(0, 1, curator.plan.queries + 1))
    curator.ask(list(itertools.islice(questions, curator.plan.queries)))
    with pytest.raises(BudgetExceeded):
        curator.ask(next(questions))


def test_what_is_missing_is_said(people):
    with pytest.raises(InvalidParameter, match="queries"):
        Curator(people, iid=True)
    with pytest.raises(InvalidParameter, match="delta"):
        Curator(people, epsilon=1.0)
    with pytest.raises(InsufficientSamples):
        Curator({"x": [1, 2, 3]}, epsilon=0.001, delta=1e-9)


@pytest.mark.parametrize("numbers", [{}, {"queries": 20}, {"queries": 20, "epsilon": None, "delta": None}])
def test_a_pure_curator_opens_a_pure_ledger(people, tmp_path, numbers):
    with opened(people, pure=True, ledger=tmp_path / "x.ledger", **numbers) as curator:
        answer = curator.ask("x > 0.5")
        assert curator.plan.ledger == curator.ledger.terms.kind == "pure"
        assert (curator.plan.delta, answer.certificate.delta) == (0, 0)
        assert curator.budget.unit == "epsilon"
    with Curator(people, ledger=tmp_path / "x.ledger", pure=True) as again:
        assert again.plan.ledger == "pure"


def test_a_pure_curator_that_cannot_be_says_so(people, tmp_path):
    """A plan or a ledger that counts in something else, or a number of questions about rows that are not independent."""
    other = opened(people, queries=20, ledger=tmp_path / "x.ledger")
    other.close()
    with pytest.raises(InvalidParameter, match="counts in gdp"):
        Curator(people, ledger=tmp_path / "x.ledger", pure=True)
    with pytest.raises(InvalidParameter, match="counts in gdp"):
        Curator(people, plan=other.plan, pure=True)
    with pytest.raises(PreconditionError, match="leave queries and alpha out"):
        opened(people, queries=20, iid=False, pure=True)
    assert opened(people, iid=False, pure=True).plan.ledger == "pure"


def test_without_independence_there_is_no_interval_but_the_rows_own(people):
    answer = opened(people, iid=False).ask("x > 0.5")
    assert answer.interval is None
    assert abs(answer.value - float(np.mean(people["x"] > 0.5))) <= 4 * (answer.sample_interval.high - answer.value)


def test_t7_sign_aggregation_misses_no_more_than_beta(request):
    """All population values are one half; the last query is aimed at what the answers before it gave away."""
    random = generator(request)
    missed, runs, features = 0, 150, 12
    plan = open_plan(rows=1000, epsilon=1.0, delta=1e-6)
    for _ in range(runs):
        data = {f"x{j}": random.integers(0, 2, plan.rows) for j in range(features)} | {"y": random.integers(0, 2, plan.rows)}
        with Curator(data, plan=plan) as curator:
            answers = [curator.ask(f"x{j} = y") for j in range(features)]
            chosen = [j for j, answer in enumerate(answers) if answer.value > 0.5] or [0]
            votes = " + ".join(f"CASE WHEN x{j} = 1 THEN 1 ELSE 0 END" for j in chosen)
            answers.append(curator.ask(f"(CASE WHEN 2 * ({votes}) > {len(chosen)} THEN 1 ELSE 0 END) = y"))
        missed += any(0.5 not in answer.interval for answer in answers)
    assert missed == 0 or stats.beta.ppf(1e-6, missed, runs - missed + 1) <= plan.beta
