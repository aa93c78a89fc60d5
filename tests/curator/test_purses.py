"""A ledger with two purses: what it was opened with, what each charge names, and that neither lends to the other (V3.1)."""

import json
import shutil
from fractions import Fraction

import numpy as np
import pytest
import sqlalchemy as sa
from msgspec import UNSET, structs
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier

import holdtrue as ht
from holdtrue.accounting.purses import Purse
from holdtrue.auditing.ledger import audit_ledger
from holdtrue.codec import encode
from holdtrue.errors import BudgetExceeded, IntegrityError, InvalidParameter, RefusedError
from holdtrue.events import Approximate, BoundedRange, GaussianNoise
from holdtrue.ledgers import open_ledger, read_charge, verify
from holdtrue.ledgers.transactions import Transaction
from ledgers.tables import ENTRIES, TERMS, line_digest

ROWS = 4000
TENTH = {"predictions": 6, "epsilon": 0.1}
OPENED = {"queries": 12, "epsilon": 4, "delta": 1e-6, "iid": True, "second_budget": True}
DIGEST = "0" * 64


def make_rows():
    random = np.random.default_rng(1913)
    x = random.random(ROWS)
    return {"id": np.arange(ROWS), "x": x, "y": x + 0.2 * random.normal(size=ROWS) > 0.5}


def open_curator(reserve=TENTH, ledger=None, **given):
    curator = ht.Curator(make_rows(), ledger=ledger, reserve=reserve, bounds={"x": (0, 1)}, **(OPENED | given))
    curator.train("tree", DecisionTreeClassifier(max_depth=1), target="y", features=["x"], parts=20, key="id")
    return curator


def in_currency(currency):
    return TENTH | {"currency": currency}


def list_purses(curator):
    return [read_charge(entry).purse for entry in curator.ledger.entries() if entry.kind == "charge"]


@pytest.mark.parametrize("currency", ["rho", "draws"])
def test_each_charge_names_its_purse_and_both_caps_are_in_the_terms(currency):
    with open_curator(in_currency(currency)) as curator:
        asked = curator.ask("x > 0.3")
        told = curator.predict("tree", {"x": 0.7})
        assert list_purses(curator) == ["mu", currency]
        assert (asked.certificate.purse, told.certificate.purse) == ("mu", currency)
        terms = curator.ledger.terms
        kept = json.loads(terms.plan)["purse"]
        assert (kept["currency"], kept["predictions"], kept["cap_units"]) == (currency, 6, terms.purse.cap_units)
        assert structs.replace(terms.purse, cap_units=1) != terms.purse
        budget = curator.budget
        assert budget.spent == asked.certificate.cost
        assert (budget.reserve, budget.reserve_unit) == (told.certificate.left, currency)
        assert curator.predictions_left("tree") == 5
        assert f"{currency} in reserve" in str(budget)
        assert f"{currency} beside it" in str(audit_ledger(curator.ledger))
        assert verify(curator.ledger).purse[0] == currency


@pytest.mark.parametrize("currency", ["rho", "draws"])
def test_a_purse_never_lends_to_the_other(currency):
    with open_curator(in_currency(currency)) as curator:
        for number in range(6):
            curator.predict("tree", {"x": number / 7})
        with pytest.raises(BudgetExceeded, match=f"{currency} in reserve"):
            curator.predict("tree", {"x": 0.99})
        curator.ask([f"x > {number / 20}" for number in range(12)])
        with pytest.raises(BudgetExceeded, match="1 question"):
            curator.ask("x > 0.99")
        assert curator.ledger.spent == 12 * curator.plan.cost == curator.ledger.terms.cap
        assert curator.ledger.entries()[-1].other_spent <= curator.ledger.terms.purse.cap_units
        assert curator.predictions_left("tree") == 0


def test_unlike_draws_are_refused_and_smaller_ones_count_in_full():
    with open_curator(in_currency("draws")) as curator:
        before = curator.ledger.newest()
        for act in (
            lambda: curator.predict("tree", {"x": 0.2}, epsilon=0.5),
            lambda: curator.fit("m", "logistic", target="y", features=["x"], mu=0.1),
            lambda: curator.fit("m", "logistic", target="y", features=["x"]),
            lambda: curator.predict("tree", {"x": 0.2}, method="noisy-max", mu=0.1),
        ):
            with pytest.raises(InvalidParameter, match="reserve"):
                act()
        assert curator.ledger.newest() == before, "a refusal spends nothing"
        assert curator.predict("tree", {"x": 0.2}, epsilon=0.01).certificate.cost == 1
        assert curator.select({"low": "x < 0.5", "high": "x > 0.5"}).certificate.cost == 1
        assert curator.predictions_left("tree", epsilon=0.02) == 4


def test_a_model_that_the_purse_cannot_pay_for_is_listed_with_nothing_left():
    with open_curator(in_currency("draws")) as curator:
        curator.fit("kept", "ridge", target="x", features=["y"], bounds={"y": (0, 1)}, release="each", epsilon=0.1)
        kept, tree = curator.models
        assert (kept.name, kept.cost, kept.left) == ("kept", None, 0)
        assert tree.left > 0
        with pytest.raises(InvalidParameter, match="smaller epsilon"):
            curator.predict("kept", {"y": True})


def test_numbers_are_predicted_with_laplace_noise_where_draws_are_counted():
    with open_curator(in_currency("draws")) as curator:
        curator.train("x", Ridge(), target="x", features=["y"], parts=20, key="id", bounds={"x": (0, 1)})
        found = curator.predict("x", {"y": True})
        assert found.certificate.cost == 1, "epsilon is half the range of a draw"
        assert curator.predictions_left("x") == 5


@pytest.mark.parametrize("currency", ["rho", "draws"])
def test_an_event_that_the_purse_does_not_count_is_refused_by_the_ledger(currency):
    with open_curator(in_currency(currency)) as curator:
        given = {"request_id": "one", "request_digest": DIGEST, "analyst": "ann", "verb": "predict"}
        with pytest.raises(InvalidParameter, match="reserve"):
            curator.ledger.charge(**given, event=Approximate(0.1, 0.01))
        assert curator.ledger.newest() == 0
        paid = curator.ledger.charge(**given, event=BoundedRange(0.1))
        assert (paid.spent, paid.other_spent) == (0, paid.cost)
        question = given | {"request_id": "two", "request_digest": "1" * 64, "verb": "ask"}
        asked = curator.ledger.charge(**question, event=GaussianNoise(0.001), draws=1)
        assert (asked.spent, asked.other_spent) == (asked.cost, paid.cost)
        far = given | {"request_id": "three", "request_digest": "2" * 64}
        with pytest.raises(BudgetExceeded):
            curator.ledger.charge(**far, event=BoundedRange(0.1), cost=curator.ledger.terms.purse.cap_units)


def test_a_purse_that_was_not_opened_pays_for_nothing():
    with open_curator(0) as curator:
        with pytest.raises(RefusedError, match="no reserve"):
            curator.predict("tree", {"x": 0.2})
        assert curator.ledger.newest() == 0
        assert curator.ask("x > 0.2").certificate.purse is UNSET
        assert list_purses(curator) == [None]
        assert '"purse"' not in curator.ledger.entries()[0].body
        assert '"purse"' not in curator.ledger.terms.plan


@pytest.mark.parametrize("currency", ["rho", "draws"])
def test_caps_cannot_change_after_opening(tmp_path, currency):
    path = tmp_path / "rows.ledger"
    open_curator(in_currency(currency), path).close()
    for other in ({"predictions": 7, "epsilon": 0.1}, {"predictions": 6, "epsilon": 0.2}, in_currency("mu")):
        with pytest.raises(InvalidParameter, match="caps cannot change"):
            ht.Curator(make_rows(), ledger=path, reserve=other)
    with ht.Curator(make_rows(), ledger=path, reserve=TENTH) as curator:
        assert curator.plan.second.currency == currency
    with pytest.raises(RefusedError, match="another plan"):
        open_ledger(path, kind="gdp", cap=curator.plan.cap_units, plan="{}", fingerprint=lambda _: "x")


def test_an_allowance_is_a_share_of_both_purses():
    with open_curator(in_currency("draws")) as curator:
        curator.grant("ben", asks=6)  # half of the questions' purse
        for number in range(3):
            curator.predict("tree", {"x": number / 7}, analyst="ben")
        with pytest.raises(BudgetExceeded):
            curator.predict("tree", {"x": 0.9}, analyst="ben")
        with pytest.raises(BudgetExceeded):
            curator.ask("x > 0.1", analyst="ben")
        curator.predict("tree", {"x": 0.9}, analyst="ann")
        assert verify(curator.ledger)
        assert audit_ledger(curator.ledger)


@pytest.mark.parametrize(
    "reserve",
    [
        {"predictions": 6},
        {"epsilon": 0.1},
        {"predictions": 0, "epsilon": 0.1},
        {"predictions": 6, "epsilon": -1},
        {"predictions": 6, "epsilon": 0.1, "currency": "euros"},
        {"predictions": 6, "epsilon": 0.1, "share": 1},
        {"predictions": 10**6, "epsilon": 0.1, "currency": "draws"},
    ],
)
def test_a_reserve_that_names_no_predictions_is_refused(reserve):
    with pytest.raises(InvalidParameter):
        ht.plan(rows=ROWS, queries=10, epsilon=4, delta=1e-6, reserve=reserve)


def test_open_ended_and_pure_ledgers_have_one_currency():
    with pytest.raises(InvalidParameter, match="open-ended budget has one currency"):
        ht.Curator(make_rows(), epsilon=4, delta=1e-6, reserve=TENTH)
    with pytest.raises(InvalidParameter, match="it has one currency"):
        ht.plan(rows=ROWS, queries=10, epsilon=4, pure=True, reserve=TENTH)


@pytest.mark.parametrize(
    ("given", "better"),
    [
        ({"rows": 10**5, "queries": 500}, min),
        ({"rows": 10**5, "queries": 500, "iid": False}, min),
        ({"rows": 10**5, "alpha": 0.2}, max),
        ({"alpha": 0.2, "queries": 100}, min),
    ],
)
def test_a_plan_is_never_worse_than_either_single_currency(given, better):
    given = given | {"epsilon": 4, "delta": 1e-6}
    reserve = {"predictions": 20, "epsilon": 0.1}
    plan = ht.plan(**given, reserve=reserve)
    found = dict(plan.purse.widths)
    assert set(found) == {"mu", "rho", "draws"}
    assert getattr(plan, plan.purse.solved) == found[plan.purse.currency] == better(found.values())
    assert "counted in draws" in str(plan)
    assert "in mu squared" in str(plan)
    alone = ht.plan(**given, reserve=reserve | {"currency": "mu"})
    assert (alone.purse.currency, getattr(alone, plan.purse.solved)) == ("mu", found["mu"])
    assert plan.second is None or plan.second.delta(plan.cap, 4) <= 1e-6


def test_the_curve_of_both_purses_is_behind_the_intervals():
    """T5 and T6 count on both caps: the frozen slack is that of the mixed curve, and of no smaller one."""
    plan = ht.plan(rows=10**5, queries=100, reserve=in_currency("rho"))
    frozen = plan.transfer
    failing = plan.second.delta(plan.cap, frozen.epsilon) + np.exp(frozen.epsilon) * frozen.overshoot
    assert frozen.slack * frozen.transfer_beta == pytest.approx(failing, rel=1e-9)
    gap, share = plan.joint_gap(0.05, spent=1)
    assert (gap, share) == plan.joint_gap(0.05, spent=plan.cap_units), "there are no levels: both caps count"
    assert gap > ht.plan(rows=10**5, queries=100).joint_gap(0.05, spent=plan.cost)[0]


def test_budget_knows_the_privacy_and_the_total_variation_of_both_purses():
    with open_curator(in_currency("draws")) as curator:
        budget, plan = curator.budget, curator.plan
        assert plan.second.delta(plan.cap, budget.epsilon(1e-6)) <= 1e-6
        assert budget.tv == pytest.approx(plan.second.delta(plan.cap, 0.0), rel=1e-6)
        assert budget.tv == curator.ledger.tv
    with open_curator(0.25) as curator:
        assert curator.budget.tv == curator.ledger.tv == curator.ledger.terms.filter.tv


def tamper(path, copy, change):
    """Copy a ledger, change its last charge, and hash everything after it again."""
    shutil.copy(path, copy)
    engine = sa.create_engine(f"sqlite:///{copy}")
    with engine.begin() as connection:
        ledger_id = connection.execute(sa.select(TERMS.c.ledger_id)).scalar_one()
        rows = [dict(row._mapping) for row in connection.execute(sa.select(ENTRIES).order_by(ENTRIES.c.number))]
        change([row for row in rows if row["kind"] == "charge"][-1], rows)
        digest = rows[0]["previous"]
        for row in rows:
            row["previous"] = digest
            row["digest"] = digest = line_digest(row, ledger_id=ledger_id)
            connection.execute(ENTRIES.update().where(ENTRIES.c.number == row["number"]).values(**row))
    engine.dispose()


def name_other_purse(charge, _):
    charge["body"] = charge["body"].replace('"purse":"draws"', '"purse":"mu"')


def drop_purse(charge, _):
    charge["body"] = charge["body"].replace(',"purse":"draws"', "")


def pay_from_the_other_purse(charge, rows):
    """Lend: the draw is counted in the questions' purse."""
    for row in rows[charge["number"] - 1 :]:
        row["other_spent"] -= charge["cost"]
        row["spent"] += charge["cost"]


@pytest.mark.parametrize("change", [name_other_purse, drop_purse, pay_from_the_other_purse])
def test_both_verifiers_notice_a_charge_on_another_purse(tmp_path, change):
    path, copy = tmp_path / "rows.ledger", tmp_path / "copy.ledger"
    with open_curator(in_currency("draws"), path) as curator:
        curator.ask("x > 0.5")
        curator.predict("tree", {"x": 0.4})
    assert verify(path)
    assert audit_ledger(path)
    tamper(path, copy, change)
    with pytest.raises(IntegrityError):
        verify(copy)
    assert not audit_ledger(copy)


def test_an_audit_refutes_a_plan_that_leaves_a_purse_out(tmp_path):
    """A planted plan: intervals and privacy of the questions alone, with a purse beside them."""
    honest = ht.plan(rows=ROWS, queries=12, epsilon=4, delta=1e-6, reserve=0)
    greedy = structs.replace(honest, purse=Purse("rho", 10**14, 6, Fraction(1, 10)))
    with ht.Curator(make_rows(), plan=greedy, ledger=tmp_path / "rows.ledger", second_budget=True):
        pass
    found = audit_ledger(tmp_path / "rows.ledger")
    assert not found
    assert any("both purses" in breach.words for breach in found.breaches)


def test_a_group_counts_its_rows_in_both_purses():
    with open_curator(in_currency("draws"), group=2, iid=None) as curator:
        found = curator.predict("tree", {"x": 0.2})
        assert found.certificate.cost == 1
        assert encode(found.certificate.event) == encode(BoundedRange(curator.plan.second.epsilon / 2))
        with pytest.raises(InvalidParameter, match=r"range of 0\.2"):
            curator.predict("tree", {"x": 0.3}, epsilon=0.1)


def test_both_verifiers_notice_a_purse_that_was_overspent(tmp_path, monkeypatch):
    """A planted fault: nothing is refused, and the seventh of six predictions is paid for by nobody."""
    path = tmp_path / "rows.ledger"
    with open_curator(in_currency("draws"), path) as curator:
        monkeypatch.setattr(Transaction, "check_limits", lambda *_, **__: None)
        for number in range(7):
            curator.predict("tree", {"x": number / 8})
    with pytest.raises(IntegrityError, match="second purse"):
        verify(path)
    assert not audit_ledger(path)


def test_more_predictions_than_the_privacy_pays_for_are_named_in_the_refusal():
    with pytest.raises(ht.InsufficientSamples, match=r"100,000 predictions at epsilon 0\.1 leave no privacy for questions"):
        open_curator({"predictions": 100_000, "epsilon": 0.1})
