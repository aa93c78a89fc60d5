"""The curator end to end: open, ask, answer, budget, close, reopen, ask again. Nothing lost, nothing free."""

import math
import threading
import traceback

import numpy as np
import pandas as pd
import pytest

import holdtrue as ht
from holdtrue.curator import Curator

ROWS = 20_000
# A half-width for the sample is passed once in a few hundred runs at most, four of them once in a billion.
FAR = 4


@pytest.fixture(scope="module")
def people():
    random = np.random.default_rng(7)
    return pd.DataFrame(
        {
            "age": random.integers(0, 100, ROWS),
            "smoker": random.random(ROWS) < 0.2,
            "bmi": random.normal(27, 5, ROWS),
            "region": random.choice(["N", "S", "E", "W"], ROWS, p=[0.4, 0.3, 0.2, 0.1]),
        }
    )


@pytest.fixture
def files(people, tmp_path):
    people.to_parquet(tmp_path / "people.parquet")
    return tmp_path / "people.parquet", tmp_path / "people.ledger"


def opened(files, **terms):
    data, ledger = files
    return Curator(data, ledger=ledger, **({"queries": 100, "epsilon": 1.0, "delta": 1e-6, "iid": True} | terms))


def test_a_session_reads_like_the_readme(files, people):
    curator = opened(files)
    answer = curator.ask("age > 65 AND smoker")
    truth = float(((people.age > 65) & people.smoker).mean())
    assert answer.interval.target == "population"
    assert answer.interval.low <= truth <= answer.interval.high
    assert abs(answer.value - truth) <= FAR * curator.plan.sample_alpha
    assert answer.interval.width <= 2 * curator.plan.alpha + 1e-9
    assert answer.sample_interval.width < answer.interval.width
    spent = curator.budget.spent
    assert spent == answer.certificate.spent == answer.certificate.cost > 0
    assert curator.budget.asks == 99
    curator.close()

    again = opened(files, **dict.fromkeys(("queries", "epsilon", "delta", "iid")))
    assert again.plan == curator.plan
    repeated = again.ask("smoker AND 65 < age")
    assert repeated.value == answer.value
    assert repeated.repeated
    assert again.budget.spent == spent
    other = again.ask("bmi > 30")
    assert other.certificate.spent > spent
    assert [line.request for line in again.history] == ["age > 65 AND smoker", "bmi > 30"]
    again.close()


def test_several_questions_are_one_charge_and_keep_their_order(files, people):
    with opened(files) as curator:
        answers = curator.ask(["age > 65", "bmi / 50", "age > 65", "smoker"])
        truths = [
            (people.age > 65).mean(),
            (people.bmi / 50).clip(0, 1).mean(),
            (people.age > 65).mean(),
            people.smoker.mean(),
        ]
        for answer, truth in zip(answers, truths, strict=True):
            assert abs(answer.value - truth) <= FAR * curator.plan.sample_alpha
        assert answers[0] == answers[2]
        assert curator.budget.asks == 97
        assert len({answer.certificate.entry for answer in answers}) == 1
        mixed = curator.ask(["smoker", "region = 'N'"])
        assert mixed[0].repeated
        assert mixed[0].value == answers[3].value
        assert not mixed[1].repeated
        assert curator.budget.asks == 96
        assert [line.request for line in curator.history][-1] == "region = 'N'"


def test_previews_and_reprs_never_spend(files):
    with opened(files) as curator:
        preview = curator.preview("age > 65")
        assert preview.alpha == curator.plan.alpha
        assert not preview.repeated
        repr(curator)
        str(curator.budget)
        assert curator.budget.spent == 0
        curator.ask("age > 65")
        assert curator.preview("65 < age").repeated
        assert curator.preview("65 < age").cost == 0


def test_select_spends_from_the_reserve_only(files):
    with opened(files) as curator:
        choice = curator.select({"north": "region = 'N'", "south": "region = 'S'", "west": "region = 'W'"})
        assert choice.name == "north"
        assert choice.shortfall < 1500
        assert curator.budget.asks == 100
        before = curator.budget.reserve
        again = curator.select({"north": "'N' = region", "south": "region = 'S'", "west": "region = 'W'"})
        assert again.repeated
        assert curator.budget.reserve == before
        with pytest.raises(ht.BudgetExceeded, match="in reserve"):
            curator.select({"a": "smoker", "b": "age > 3"}, epsilon=50)
        scores = curator.select({"a": 10, "b": 5000})
        assert scores.name == "b"


def test_ten_uses_fit_the_reserve_and_an_eleventh_does_not(files):
    with opened(files) as curator:
        for use in range(10):
            curator.select({"a": f"age > {use}", "b": "smoker"})
        with pytest.raises(ht.BudgetExceeded):
            curator.select({"a": "age > 77", "b": "smoker"})
        assert curator.budget.asks == 100


def test_the_plan_is_kept_to_the_last_question(files):
    with opened(files, queries=5) as curator:
        for age in range(5):
            curator.ask(f"age > {age}")
        assert curator.budget.asks == 0
        with pytest.raises(ht.BudgetExceeded, match="1 question, and 0 are left"):
            curator.ask("age > 99")
        curator.ask("age > 3")  # asked before


def test_keys_are_charged_once_and_refuse_other_requests(files):
    with opened(files) as curator:
        first = curator.ask("age > 65", key="k1")
        spent = curator.budget.spent
        assert curator.ask("age > 65", key="k1").value == first.value
        assert curator.budget.spent == spent
        with pytest.raises(ht.RefusedError, match="another request"):
            curator.ask("age > 66", key="k1")
        assert curator.ask("age > 65", key="k2").value == first.value
        assert curator.budget.spent == spent


def test_values_are_a_curators_own_numbers(files, people):
    with opened(files) as curator:
        numbers = np.where(people.age > 50, 2.0, np.nan)
        answer = curator.ask(values=numbers)
        assert abs(answer.value - (people.age > 50).mean()) <= FAR * curator.plan.sample_alpha
        assert answer.interval.width <= 2 * curator.plan.position_alpha + 1e-9
        assert "T6b" in answer.certificate.theorem
        with pytest.raises(ht.InvalidParameter, match="one per row"):
            curator.ask(values=[0.5])


@pytest.mark.parametrize("wrong", [3, [3], ["age > 65", None], b"age > 65", object()])
def test_what_is_no_question_is_refused_and_costs_nothing(wrong, files):
    with opened(files) as curator:
        with pytest.raises(ht.InvalidParameter, match="a question in text, or a list of them"):
            curator.ask(wrong)
        assert curator.budget.spent == 0


def test_without_independent_rows_there_is_no_population_interval(files):
    with opened(files, iid=None) as curator:
        answer = curator.ask("age > 65")
        assert answer.interval is None
        assert "independent" in answer.reason
        assert answer.sample_interval.width > 0
    with pytest.raises(ht.InvalidParameter, match="iid"):
        opened(files, **dict.fromkeys(("queries", "epsilon", "delta"))).close()


def test_a_pure_ledger_uses_laplace_noise(files, people):
    with opened(files, pure=True, epsilon=5.0, delta=None, queries=10) as curator:
        answer = curator.ask("smoker")
        assert isinstance(answer.certificate.event, ht.Laplace(epsilon=1).event.__class__)
        assert abs(answer.value - people.smoker.mean()) <= FAR * curator.plan.sample_alpha
        assert curator.budget.unit == "epsilon"


def test_errors_before_the_charge_cost_nothing(files):
    with opened(files) as curator:
        for bad, error in (
            ("agee > 65", ht.UnknownColumn),
            ("(SELECT 1)", ht.UnsupportedQuery),
            ("age >", ht.RequestError),
            ("region > 5", ht.RequestError),
        ):
            with pytest.raises(error):
                curator.ask(bad)
        with pytest.raises(ht.RequestError):
            curator.ask(["age > 1", "agee > 65"])
        assert curator.budget.spent == 0
        assert curator.history == []


def test_other_data_under_a_ledger_are_refused(files, people, tmp_path):
    opened(files).close()
    people.iloc[::-1].to_parquet(tmp_path / "turned.parquet")
    Curator(tmp_path / "turned.parquet", ledger=files[1]).close()
    changed = people.copy()
    changed.loc[17, "age"] = (changed.loc[17, "age"] + 1) % 100
    changed.to_parquet(tmp_path / "changed.parquet")
    with pytest.raises(ht.FingerprintMismatch):
        Curator(tmp_path / "changed.parquet", ledger=files[1])


def test_a_report_is_one_page_that_stands_alone(files, tmp_path):
    with opened(files) as curator:
        curator.ask("age > 65 AND region <> '<marquee>'")
        curator.report(tmp_path / "people.html")
        page = (tmp_path / "people.html").read_text()
        assert page.startswith("<!doctype html>")
        assert "<script" not in page
        assert "http" not in page.replace("http://www.w3.org", "")
        assert "<marquee>" not in page
        assert curator.pipeline.ledger.terms.key not in page
        with pytest.raises(ht.InvalidParameter, match="can be written"):
            curator.report(tmp_path / "nowhere" / "people.html")


def test_a_closed_curator_refuses(files):
    curator = opened(files)
    curator.close()
    curator.close()
    with pytest.raises(ht.CuratorClosed):
        curator.ask("age > 65")
    assert "closed" in repr(curator)


def test_without_a_ledger_the_repr_says_so(people):
    with Curator(people, queries=10, alpha=None, epsilon=1.0, delta=1e-6, iid=True) as curator:
        assert "not durable" in repr(curator)
        assert 0 <= curator.ask("smoker").value <= 1


def test_too_few_rows_for_a_plan_say_how_many_would_do(people):
    plan = ht.plan(queries=1000, alpha=0.1)
    with pytest.raises(ht.InsufficientSamples) as caught:
        Curator(people, plan=plan)
    assert caught.value.required == plan.rows


def test_more_rows_than_planned_cost_no_more_and_hold(people):
    plan = ht.plan(queries=10, alpha=0.1)
    with Curator(people, plan=plan) as curator:
        answer = curator.ask("age > 50")
        assert answer.certificate.event.mu < plan.event.mu
        assert abs(answer.value - (people.age > 50).mean()) <= FAR * plan.sample_alpha


class Spy:
    """An engine that looks at the ledger when it is measured."""

    def __init__(self, curator, fault=None):
        self._engine = curator.pipeline.engine
        self._ledger = curator.pipeline.ledger
        self._fault = fault
        self.card = curator.card
        self.seen = []

    def sums(self, queries, *, bits, progress=None):
        del progress
        self.seen.append(self._ledger.spent)
        if self._fault:
            raise self._fault
        return self._engine.sums(queries, bits=bits)

    def close(self):
        self._engine.close()


def test_the_charge_is_in_the_ledger_before_rows_are_read(files):
    """P3: at the moment of measuring the cost is already spent."""
    with opened(files) as curator:
        curator.pipeline.engine = Spy(curator)
        curator.ask("age > 65")
        assert curator.pipeline.engine.seen == [curator.plan.cost]


@pytest.mark.parametrize("fault", [ValueError("canary 4711"), ht.ReleaseError("canary 4711"), OverflowError("canary 4711")])
def test_a_failure_after_the_charge_costs_and_tells_nothing(files, fault):
    """P8: what an engine says may quote a row; the cost stays, and nothing of its words is to be seen."""
    with opened(files) as curator:
        curator.pipeline.engine = Spy(curator, fault)
        with pytest.raises(ht.ReleaseError) as caught:
            curator.ask("age > 65")
        assert caught.value.entry == 1
        assert "4711" not in "".join(traceback.format_exception(caught.value))
        assert curator.budget.spent > 0
        curator.pipeline.engine = curator.pipeline.engine._engine


def test_threads_share_one_curator(files):
    """P4, P5 through the curator: every question once, whoever asks first."""
    with opened(files, queries=20) as curator:
        answers = []

        def asking():
            answers.extend((age, curator.ask(f"age > {age}").value) for age in range(20))

        threads = [threading.Thread(target=asking) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(answers) == 80
        assert len(set(answers)) == 20
        assert curator.budget.asks == 0
        assert math.isclose(curator.budget.spent, 20 * curator.plan.cost * 1e-15, rel_tol=1e-12)


def test_analysts_have_allowances_under_one_cap(files):
    """P12: an allowance is a sub-limit; the cap is over all."""
    with opened(files) as curator:
        curator.grant("ada", asks=2)
        curator.ask("age > 1", analyst="ada")
        curator.ask("age > 2", analyst="ada")
        with pytest.raises(ht.BudgetExceeded):
            curator.ask("age > 3", analyst="ada")
        curator.ask("age > 3", analyst="bob")
        curator.ask("age > 3", analyst="ada")


def test_a_preview_for_an_analyst_tells_nothing_of_what_others_asked(files):
    with opened(files) as curator:
        curator.ask("age > 65", analyst="ann")
        assert curator.preview("age > 65").repeated
        assert curator.preview("age > 65", analyst="ann").repeated
        theirs, new = curator.preview("age > 65", analyst="ben"), curator.preview("age > 66", analyst="ben")
        assert (
            (theirs.repeated, theirs.cost, theirs.alpha)
            == (new.repeated, new.cost, new.alpha)
            == (False, new.cost, new.alpha)
        )
