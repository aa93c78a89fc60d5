"""Marginals: many tables in one charge, at two questions each, every cell with an interval that holds at once (V2.3)."""

import math
from dataclasses import replace
from itertools import combinations

import msgspec
import numpy as np
import pytest

import holdtrue as ht
from holdtrue.accounting.composition import compose
from holdtrue.auditing import audit_privacy
from holdtrue.bounds.accuracy import gaussian_overshoot
from holdtrue.events import Repeated
from holdtrue.mechanisms import Gaussian
from holdtrue.planning.tables import count_unions, price_marginal, price_table, price_workload
from holdtrue.records import count_boxes
from holdtrue.verbs import marginals as verb
from holdtrue.verbs.deducing import MOST_ATOMS

ROWS = 20_000
LABELS = {"region": ["n", "s", "w"], "job": ["a", "b", "c", "d"]}
COLUMNS = ["region", "job", "smoker", ht.cut("age", [30, 60])]
SHARES = {"region": (0.5, 0.3, 0.2), "job": (0.4, 0.3, 0.2, 0.1)}


@pytest.fixture
def people():
    return make_people(np.random.default_rng(4), ROWS)


def make_people(rng, rows):
    found = {name: rng.choice(LABELS[name], rows, p=SHARES[name]) for name in LABELS}
    return found | {"smoker": rng.random(rows) < 0.25, "age": rng.integers(0, 90, rows)}


def open_curator(people, **given):
    terms = {"queries": 100, "iid": True, "labels": LABELS}
    return ht.Curator(people, **terms | given)


def find_truth(name, label):
    """Return the share of the population with a label of one column; columns are independent."""
    if name == "smoker":
        return 0.25 if label else 0.75
    return 1 / 3 if name == "age" else SHARES[name][LABELS[name].index(label)]


@pytest.mark.parametrize(("sets", "number"), [("pairs", 6), ("triples", 4), ([["age"], ["job", "smoker"]], 2)])
def test_tables_are_one_charge_of_two_questions_each(people, sets, number):
    with open_curator(people) as curator:
        found = curator.marginals(sets, columns=COLUMNS)
        assert len(found) == number
        assert curator.budget.asks == 100 - 2 * number
        (line,) = curator.history
        assert (line.verb, len(line.responses)) == ("marginals", number)
        assert found.certificate.event == Repeated(curator.plan.event, 2 * number)
        assert not found.repeated


def test_v2_3_a_row_moves_three_pair_tables_by_the_root_of_six(people, monkeypatch):
    seen, release = [], Gaussian.release
    monkeypatch.setattr(Gaussian, "release", lambda self, values: (seen.append((self, values)), release(self, values))[1])
    moved = {name: values.copy() for name, values in people.items()}
    moved["region"][0], moved["job"][0], moved["smoker"][0] = "n", "a", True
    people["region"][0], people["job"][0], people["smoker"][0] = "s", "b", False
    for rows in (people, moved):
        with open_curator(rows) as curator:
            curator.marginals("pairs", columns=COLUMNS[:3])
    (noise, left), (_, right) = seen
    difference = (left - right) / noise.sensitivity
    assert (difference**2).sum() == 6


def test_tables_that_were_released_are_told_again_for_nothing(people):
    with open_curator(people) as curator:
        first = curator.marginals([["region", "job"]], columns=COLUMNS, key="one")
        both = curator.marginals("pairs", columns=COLUMNS[:3])
        assert [each.repeated for each in both] == [True, False, False]
        assert both[0].values == first[0].values
        assert curator.budget.asks == 100 - 6
        again = curator.marginals("pairs", columns=COLUMNS[:3])
        assert again.repeated
        assert curator.budget.asks == 94
        with pytest.raises(ht.RefusedError, match="one"):
            curator.marginals("pairs", columns=COLUMNS, key="one")


def test_tables_out_of_a_larger_release_are_asked_before_also_under_a_key(people):
    with open_curator(people) as curator:
        curator.marginals("pairs", columns=COLUMNS)
        assert curator.marginals([["region", "smoker"]], columns=COLUMNS, key="again").repeated
        paid, again = curator.history
        assert paid.request == "6 tables of region, job, smoker, age"
        assert (again.told, again.cost) == ("asked before", 0)


def test_a_table_by_itself_is_another_release_within_alpha(people):
    with open_curator(people) as curator:
        found = curator.marginals([["region", "job"]], columns=COLUMNS)[0]
        alone = curator.table("region", "job")
        assert alone.values != found.values
        assert alone.unions.noise <= curator.plan.transfer.noise < found.unions.noise < 1.3 * curator.plan.transfer.noise


@pytest.mark.parametrize("cells", [3, 40, 5000])
@pytest.mark.parametrize("margins", [False, True])
def test_s1_boxes_book_the_share_of_two_questions_and_no_more(cells, margins):
    plan, sizes = ht.plan(rows=ROWS, queries=300, iid=True), (2, (cells - 1) // 2)
    unions = count_unions(sizes, margins=True, ranges=False) if margins else {}
    price = price_marginal(plan, cells, unions=unions)
    weight = cells + sum(math.sqrt(size) * number for size, number in unions.items())
    box = (price.terms[0] - price.rounding) / price.sigma
    booked = weight * price.sigma * gaussian_overshoot(box)
    assert booked == pytest.approx(plan.transfer.overshoot * 2 / 300, rel=1e-6)
    assert (price.questions, price.cost) == (2, 2 * plan.cost)
    assert price.sigma == pytest.approx(plan.sigma, rel=1e-6)


def test_every_cell_and_every_declared_sum_covers():
    """Twenty runs; all intervals of one hold at once with 95 %, and are far on the safe side."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        with open_curator(make_people(rng, 4000)) as curator:
            found = curator.marginals("pairs", columns=COLUMNS, margins=True)
        for table in found:
            for labels, answer in zip(table.labels[:-1], table, strict=False):
                truth = math.prod(find_truth(name, label) for name, label in zip(table.columns, labels, strict=True))
                assert truth in answer.interval
        for name, label in (("region", "n"), ("job", "d"), ("smoker", True)):
            assert find_truth(name, label) in found.share({name: label}).interval


def test_a_share_comes_from_the_surest_table(people):
    with open_curator(people) as curator:
        found = curator.marginals("pairs", columns=COLUMNS, margins=True)
        plain = curator.marginals("pairs", columns=COLUMNS)
    assert found.share({"region": "n", "smoker": True}) == found.find("smoker", "region").cell("n", True)
    south, summed = found.share({"region": "s"}), plain.share({"region": "s"})
    assert south.interval.width < summed.interval.width
    assert south.interval.width == min(
        found.find("region", other).share({"region": "s"}).interval.width for other in ("job", "smoker", "age")
    )
    assert "U1.6" in summed.certificate.theorem
    assert "U1.6" not in south.certificate.theorem
    for wrong in ({}, {"region": "x"}, {"region": "s", "job": "a", "smoker": True}, {"nope": 1}):
        with pytest.raises(ht.InvalidParameter):
            found.share(wrong)
    with pytest.raises(ht.InvalidParameter):
        found.find("region")
    assert found.brief == "6 tables, 59 cells"
    assert "10 cells by region, age" in str(found)


def test_answers_of_a_released_table_are_free_and_ask_says_so(people):
    with open_curator(people) as curator:
        tables = curator.marginals("pairs", columns=COLUMNS)
        entry, left = tables.certificate.entry, curator.budget.asks
        free = curator.ask("region = 'n' AND smoker", deduce="first")
        assert free.deduced == (entry,)
        assert free.certificate.cost == 0
        assert free.value == pytest.approx(tables.share({"region": "n", "smoker": True}).value, abs=1e-6)
        assert f"follows from entry {entry}: nothing" in str(free)
        assert "follows from entry" in free._repr_html_()
        assert curator.budget.asks == left
        assert curator.preview("age < 30 AND job = 'a'").follows is not None


@pytest.mark.parametrize("iid", [True, False])
def test_a_cell_that_is_wider_than_alpha_is_free_all_the_same_and_a_sum_of_cells_is_not(people, iid):
    """Two questions for 700 cells make each a little wider; what the table says of the very question is told."""
    ages = [ht.cut("age", list(range(1, 88))), "job", "smoker"]
    people["age"] = np.where(np.arange(ROWS) % 2, 1, people["age"])
    people["job"] = np.where(np.arange(ROWS) % 2, "a", people["job"])
    with open_curator(people, iid=iid, **({} if iid else {"epsilon": 4, "delta": 1e-6})) as curator:
        (table,) = curator.marginals([["age", "job"]], columns=ages)
        cell, text = table.cell("1 to 2", "a"), "job = 'a' AND age BETWEEN 1 AND 1"
        wide, most = (cell.interval, curator.plan.alpha) if iid else (cell.sample_interval, curator.plan.sample_alpha)
        assert wide.width / 2 > most
        assert str(curator.preview(text)).endswith("already follows from earlier answers, free")
        free = curator.ask(text, deduce="first")
        told = free.interval if iid else free.sample_interval
        assert wide.low <= told.low < told.high <= wide.high
        assert (free.deduced, free.certificate.cost) == ((table.certificate.entry,), 0)
        found = curator.deduce("job = 'a' AND age BETWEEN 1 AND 2")
        assert (found.answered, curator.deduce(text).answered) == (msgspec.UNSET, True)
        assert "free, though further off than an answer" in str(curator.preview(found.text))
        assert not curator.ask(found.text, deduce="first").deduced


def test_a_report_has_every_cell_of_a_released_table_with_its_interval(people, tmp_path):
    with open_curator(people) as curator:
        tables = curator.marginals("pairs", columns=COLUMNS)
        curator.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for table in tables:
        assert f"<summary>{table.brief}, entry 1</summary>" in page
        for low, high in zip(table.low, table.high, strict=True):
            assert f"{low:.4f} to {high:.4f}" in page


def test_a_cell_of_a_table_too_large_for_a_program_is_told_as_it_was(people):
    with open_curator(people) as curator:
        columns = [ht.cut("age", [each / 2 for each in range(1, 180)]), "smoker", "region", "job"]
        (table,) = curator.marginals([["age", "smoker", "region", "job"]], columns=columns)
        assert len(table) > MOST_ATOMS
        cell = table.cell("30 to 30.5", True, "n", "a")
        found = curator.deduce("smoker AND region = 'n' AND job = 'a' AND age >= 30 AND age < 30.5")
        assert (found.interval, found.sample_interval, found.answered) == (cell.interval, cell.sample_interval, True)


@pytest.mark.parametrize(
    "given",
    [{"epsilon": 2, "delta": 1e-6, "queries": None}, {"epsilon": 2, "delta": 1e-6, "iid": False}],
    ids=["open", "not independent"],
)
def test_other_plans(people, given, tmp_path):
    with open_curator(people, ledger=tmp_path / "x.ledger", **given) as curator:
        found = curator.marginals("pairs", columns=COLUMNS[:3])
        exact = np.mean((people["region"] == "n") & people["smoker"])
        answer = found.share({"region": "n", "smoker": True})
        assert exact in answer.sample_interval
        assert (answer.interval is None) == (given.get("iid") is False)
    assert ht.audit_ledger(tmp_path / "x.ledger").breaches == ()


def test_a_plan_that_splits_beta_counts_every_cell(people):
    plan = ht.plan(rows=ROWS, queries=100, iid=True, method="transfer-gaussian")
    assert price_marginal(plan, 13).questions == 13
    assert price_marginal(plan, 13).cost == 2 * plan.cost
    with ht.Curator(people, plan=plan, labels=LABELS) as curator:
        found = curator.marginals("pairs", columns=COLUMNS[:2])
        assert curator.budget.asks == 87
        assert 0.2 in found.share({"region": "n", "job": "a"}).interval


def test_what_is_wrong_costs_nothing(people, monkeypatch):
    wrong = {
        "not public": (ht.NotCertified, {"sets": [["age"]], "columns": ["age"]}),
        "one column": (ht.InvalidParameter, {"sets": "pairs", "columns": ["region"]}),
        "another word": (ht.InvalidParameter, {"sets": "all"}),
        "a column that is not there": (ht.InvalidParameter, {"sets": [["region", "nope"]]}),
        "twice": (ht.InvalidParameter, {"sets": [["region", "job"], ["job", "region"]]}),
        "nothing": (ht.InvalidParameter, {"sets": []}),
        "text": (ht.InvalidParameter, {"sets": ["region"]}),
        "keys": (ht.InvalidParameter, {"sets": "pairs", "keys": ["n"]}),
        "too dear": (ht.BudgetExceeded, {"sets": "pairs", "queries": 4}),
    }
    for name, (error, given) in wrong.items():
        with open_curator(people, queries=given.pop("queries", 100)) as curator:
            columns = given.pop("columns", COLUMNS)
            with pytest.raises(error):
                curator.marginals(columns=columns, **given)
            assert curator.budget.spent == 0, name
    with open_curator(people) as curator:
        wide = [ht.cut("age", [each / 1000 for each in range(1, 90_000)]), "job"]
        with pytest.raises(ht.InvalidParameter, match=r"360,000 cells, .* and 100,000 fit: bin age \(90,000"):
            curator.marginals("pairs", columns=wide)
        with pytest.raises(ht.InvalidParameter, match=r"need 2 columns or more, and here is age: name more"):
            curator.marginals("pairs", columns=wide[:1])
    monkeypatch.setattr(verb, "MOST_TOGETHER", 1000)
    with open_curator(people) as curator:
        wide = ht.cut("age", list(range(1, 1000)))
        with pytest.raises(ht.InvalidParameter, match=r"9,032 cells together, and 1,000 fit: bin age \(1,000 cells\), job"):
            curator.marginals("pairs", columns=["job", "smoker", "region", wide])
        assert curator.budget.spent == 0


def test_all_columns_with_public_labels_unless_given(people):
    with open_curator(people) as curator:
        assert {each.columns for each in curator.marginals("pairs")} == {*combinations(("region", "job", "smoker"), 2)}
    with (
        ht.Curator({"age": people["age"]}, queries=10, iid=True) as curator,
        pytest.raises(ht.InvalidParameter, match="columns"),
    ):
        curator.marginals("pairs")


def test_v2_3_a_release_charged_for_one_cell_is_refuted(people, monkeypatch, tmp_path):
    """Planted: half the price, as if a row were in one cell of a table. The ledger's audit and that of draws both see it."""
    path, seen, release = tmp_path / "x.ledger", [], Gaussian.release
    half = lambda *args, **given: replace(price_marginal(*args, **given), cost=price_marginal(*args, **given).cost // 2)  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(verb, "Repeated", lambda event, times: event if times == 2 else Repeated(event, times // 2))
        patch.setattr(verb, "price_marginal", half)
        patch.setattr(Gaussian, "release", lambda self, values: (seen.append((self, values)), release(self, values))[1])
        plan = ht.plan(rows=40, queries=300, epsilon=200, delta=1e-6, iid=False)
        for number, last in enumerate((False, True)):
            rows = {"smoker": np.append(people["smoker"][:39], last)}
            with ht.Curator(rows, plan=plan, ledger=path if number == 0 else None) as curator:
                told = curator.marginals([["smoker"]])
    assert {breach.rule for breach in ht.audit_ledger(path).breaches} == {"cost"}
    (noise, left), (_, right) = seen
    along = left - right

    def run(side, number):
        drawn = noise.release(np.tile((left, right)[side], (number, 1)))
        return ((drawn - right) @ along) >> 20

    charged = told.certificate.event
    claims = [compose([event], delta=0.2).epsilon for event in (charged, Repeated(charged, 2))]
    given = {"delta": 0.2, "samples": 10_000, "confidence": 1 - 1e-7, "search": 0.1}
    assert audit_privacy(run, 0, 1, epsilon=claims[0], **given).violated
    assert not audit_privacy(run, 0, 1, epsilon=claims[1], **given).violated


def test_prices_do_not_depend_on_what_other_tables_there_are():
    plan = ht.plan(rows=ROWS, queries=300, iid=True)
    assert price_marginal(plan, 100).cost == 2 * plan.cost < price_table(plan, 100).cost


WORKLOAD = [{"region": "n"}, {"region": "n", "smoker": True}, {"age": "below 30", "job": "a"}, {"smoker": False}]


def test_v2_3_declared_questions_are_answered_from_all_tables_that_have_their_columns(people):
    with open_curator(people) as curator:
        found = curator.marginals("pairs", columns=COLUMNS, workload=WORKLOAD)
        assert curator.budget.asks == 100 - 12
        told = found.workload
        assert told.names == ["region n", "region n, smoker True", "job a, age below 30", "smoker False"]
        tables = [found.find("region", other) for other in ("job", "smoker", "age")]
        weights = np.array([1 / 4, 1 / 2, 1 / 3]) / (1 / 4 + 1 / 2 + 1 / 3)
        sums = [math.fsum(each.unions.answers[at] for at in each.find_places({"region": "n"})) for each in tables]
        assert told[0].value == pytest.approx(weights @ sums, abs=1e-12)
        assert found.share({"region": "n"}) == told[0]
        assert told.share({"region": "s"}) is None
        again = curator.marginals("pairs", columns=COLUMNS, workload=WORKLOAD)
        assert again.repeated
        assert again.workload.values == told.values
        assert curator.budget.asks == 88


@pytest.mark.parametrize("questions", [2, 5])
def test_s1_declared_questions_and_cells_share_what_the_release_books(questions):
    """Half of the overshoot of the release for each table's cells, half for all questions, and no more."""
    plan, spreads = ht.plan(rows=ROWS, queries=300, iid=True), {1.0: 4000, 0.7: 100}
    tables = [price_marginal(plan, cells, questions=questions, workload=True) for cells in (40, 3)]
    declared = price_workload(plan, spreads, sigma=tables[0].sigma, questions=2 * questions)
    booked = 4070 * tables[0].sigma * gaussian_overshoot(declared.population, one_sided=True)
    for cells, price in zip((40, 3), tables, strict=True):
        booked += cells * price.sigma * gaussian_overshoot((price.terms[0] - price.rounding) / price.sigma)
    assert booked == pytest.approx(plan.transfer.overshoot * 2 * questions / 300, rel=1e-6)
    assert tables[0].cost == questions * plan.cost
    assert tables[0].sigma == pytest.approx(plan.sigma * math.sqrt(2 / questions), rel=1e-6)


def count_misses(found, people):
    """Return how many declared questions miss the share of the population, and how many that of these rows."""
    conditions = {"below 30": people["age"] < 30, "30 to 60": (people["age"] >= 30) & (people["age"] < 60)}
    misses = [0, 0]
    for question, answer in zip(WORKLOAD, found.workload, strict=True):
        held = [conditions[label] if name == "age" else people[name] == label for name, label in question.items()]
        misses[0] += math.prod(find_truth(name, label) for name, label in question.items()) not in answer.interval
        misses[1] += np.mean(np.all(held, axis=0)) not in answer.sample_interval
    return misses


def test_every_declared_question_covers():
    rng = np.random.default_rng(6)
    for _ in range(10):
        people = make_people(rng, 4000)
        with open_curator(people) as curator:
            assert count_misses(curator.marginals("pairs", columns=COLUMNS, workload=WORKLOAD), people) == [0, 0]


def test_a_question_is_right_where_other_columns_are_missing(people):
    """The sum over another column leaves out rows without a label there; the cells alone, the control, miss the truth."""
    people["job"] = people["job"].astype(object)
    people["job"][people["region"] == "n"] = None
    exact = float(np.mean(people["region"] == "n"))
    with open_curator(people) as curator:
        found = curator.marginals([["region", "job"]], columns=COLUMNS, margins=True, workload=[{"region": "n"}])
    (table,) = found
    cells = table.union_at(table.find_places({"region": "n"}))
    assert exact not in cells.sample_interval
    assert exact not in cells.interval
    for answer in (table.share({"region": "n"}), found.workload[0], found.share({"region": "n"})):
        assert exact in answer.sample_interval
        assert 0.5 in answer.interval


def test_v2_3_a_question_chosen_after_the_draw_misses_and_its_summed_boxes_do_not(people):
    """The cells whose noise came out positive, as a declared question would be answered, miss in every run (U1.6)."""
    with open_curator(people) as curator:
        wide = ht.cut("age", list(range(1, 90)))
        (table,) = curator.marginals([["age", "smoker"]], columns=[wide, "smoker"])
        with pytest.raises(ht.RefusedError, match="declared before the draw"):
            curator.marginals([["age", "smoker"]], columns=[wide, "smoker"], workload=[{"smoker": True}])
        assert curator.budget.asks == 98
    counted = np.array(
        [[np.mean((people["age"] == age) & (people["smoker"] == held)) for held in (False, True)] for age in range(90)]
    )
    exact = [counted[place // 2, int(table.labels[place][1])] for place in range(180)]
    chosen = [place for place in range(180) if table.unions.answers[place] > exact[place]]
    truth, told = math.fsum(exact[place] for place in chosen), table.union_at(chosen)
    declared = count_boxes(len(chosen), declared=True, whole=181) * table.unions.sample_noise
    assert math.fsum(table.unions.answers[place] for place in chosen) - truth > declared
    assert truth in told.sample_interval
    assert "U1.6" in told.certificate.theorem


@pytest.mark.parametrize(
    "given",
    [{}, {"epsilon": 2, "delta": 1e-6, "queries": None}, {"epsilon": 2, "delta": 1e-6, "iid": False}],
    ids=["planned", "open", "not independent"],
)
def test_declared_questions_on_other_plans_are_audited_and_deduced_from(people, given, tmp_path):
    path = tmp_path / "x.ledger"
    with open_curator(people, ledger=path, **given) as curator:
        found = curator.marginals("pairs", columns=COLUMNS, questions=3, workload=WORKLOAD)
        told, follows = found.workload[0], curator.deduce("region = 'n'")
        assert np.mean(people["region"] == "n") in told.sample_interval
        assert (told.interval is None) == (given.get("iid") is False)
        known, deduced = told.interval or told.sample_interval, follows.interval or follows.sample_interval
        assert deduced.low >= known.low - 1e-9
        assert deduced.high <= known.high + 1e-9
    assert ht.audit_ledger(path).breaches == ()


def test_an_answer_that_is_surer_than_its_boxes_is_found_by_the_audit(people, monkeypatch, tmp_path):
    path = tmp_path / "x.ledger"
    with monkeypatch.context() as patch:
        patch.setattr(verb, "transfer_ends", lambda ends, **_: ends)
        with open_curator(people, ledger=path) as curator:
            curator.marginals("pairs", columns=COLUMNS, workload=WORKLOAD)
    assert "interval" in {breach.rule for breach in ht.audit_ledger(path).breaches}


def test_a_workload_that_no_table_answers_costs_nothing(people):
    wrong = [[], [{}], [{"region": "x"}], [{"nope": 1}], [{"region": "n", "job": "a", "smoker": True}], ["region"], "region"]
    with open_curator(people) as curator:
        for given in wrong:
            with pytest.raises(ht.InvalidParameter):
                curator.marginals("pairs", columns=COLUMNS, workload=given)
        for questions in (0, 1, 10**9, "two"):
            with pytest.raises(ht.InvalidParameter):
                curator.marginals("pairs", columns=COLUMNS, questions=questions)
        assert curator.budget.spent == 0
    plan = ht.plan(rows=ROWS, queries=100, iid=True, method="transfer-gaussian")
    with ht.Curator(people, plan=plan, labels=LABELS) as curator, pytest.raises(ht.NotCertified, match="one beta"):
        curator.marginals("pairs", columns=COLUMNS[:3], workload=[{"region": "n"}])
