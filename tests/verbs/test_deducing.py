"""What follows from answers: free, right whenever they are, and no more than follows (U7)."""

import itertools
import os

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.curator.answer_index import AnswerIndex
from holdtrue.engines import arrays
from holdtrue.errors import InvalidParameter, NotCertified
from holdtrue.planning.plans import Plan
from holdtrue.queries.cards import Card, Column
from holdtrue.queries.parser import parse
from holdtrue.records import Deduction, Table
from holdtrue.verbs.deducing import Fact, FactGroup, deduce, is_within

ROWS = 4000
REGIONS = ["N", "S", "E"]


def make_rows(seed=0):
    source = np.random.default_rng(seed)
    return {
        "age": source.integers(18, 90, ROWS),
        "smoker": source.random(ROWS) < 0.3,
        "region": np.array(REGIONS)[source.integers(0, 3, ROWS)],
    }


def opened(**terms):
    given = {"queries": 60, "epsilon": 4, "delta": 1e-6, "iid": True, "labels": {"region": REGIONS}} | terms
    # Lists may hold None: that these do not is not looked at.
    return ht.Curator({name: values.tolist() for name, values in make_rows().items()}, **given)


def one_fact(plan, text, value, card):
    query, frozen = parse(text, card), plan.transfer
    box = (max(0.0, value - frozen.noise), min(1.0, value + frozen.noise))
    fact = Fact(query.tree, box, box, plan.interval(value))
    return FactGroup(1, frozenset(query.columns), 1, lambda: [fact])


def test_what_was_asked_follows_with_its_own_interval():
    with opened() as curator:
        answer = curator.ask("age > 65")
        found = curator.deduce("age > 65")
        assert (found.interval.low, found.interval.high) == pytest.approx(
            (answer.interval.low, answer.interval.high), abs=1e-9
        )
        assert found.sources == (answer.certificate.entry,)
        assert curator.deduce("smoker").sources == ()


def test_a_part_is_at_most_its_whole_and_an_and_is_between_frechets_ends():
    with opened() as curator:
        old, smoker = curator.ask("age > 65"), curator.ask("smoker")
        both = curator.deduce("age > 65 AND smoker").interval
        assert both.high <= min(old.interval.high, smoker.interval.high) + 1e-9
        assert curator.deduce("age > 80").interval.high <= old.interval.high + 1e-9
        assert curator.deduce("age > 60").interval.low >= old.interval.low - 1e-9


def test_not_a_is_at_most_the_rest_where_values_may_be_missing():
    with opened() as curator:
        answer = curator.ask("smoker")
        found = curator.deduce("NOT smoker").interval
        assert found.low == 0.0
        assert found.high == pytest.approx(1 - answer.interval.low, abs=1e-9)
        known = curator.ask("smoker IS NULL")
        found = curator.deduce("NOT smoker").interval
        assert 0 < found.low <= 1 - answer.value - known.value + 0.01


def test_not_a_is_the_rest_where_the_type_has_no_missing_values(tmp_path):
    """An array of booleans; the card of the ledger says so, also to who opens it again with other types."""
    path, rows = tmp_path / "rows.ledger", make_rows()
    given = {"queries": 60, "epsilon": 4, "delta": 1e-6, "iid": True}
    with ht.Curator(rows, ledger=path, **given) as curator:
        assert curator.card.complete == {"age", "smoker"}
        answer = curator.ask("smoker")
        found = curator.deduce("NOT smoker").interval
        assert (found.low, found.high) == pytest.approx((1 - answer.interval.high, 1 - answer.interval.low), abs=1e-9)
        assert curator.ask("NOT smoker", deduce="first").deduced == (answer.certificate.entry,)
        young = curator.ask("age < 40").interval
        assert curator.deduce("age >= 40").interval.low == pytest.approx(1 - young.high, abs=1e-9)
    other = {name: list(values.tolist()) for name, values in rows.items()}
    with ht.Curator(other, ledger=path) as curator:
        assert curator.card.complete == {"age", "smoker"}
        assert curator.deduce("NOT smoker").interval == found
    assert ht.audit_ledger(path).breaches == ()


def test_a_ledger_whose_card_says_nothing_of_missing_values_deduces_as_before(tmp_path, monkeypatch):
    path, rows = tmp_path / "rows.ledger", make_rows()
    with monkeypatch.context() as patch:
        patch.setattr(arrays, "find_complete", lambda _: frozenset())
        ht.Curator(rows, queries=60, epsilon=4, delta=1e-6, iid=True, ledger=path).close()
    with ht.Curator(rows, ledger=path) as curator:
        curator.ask("smoker")
        assert curator.card.complete == frozenset()
        assert curator.deduce("NOT smoker").interval.low == 0


def test_cells_of_a_table_and_its_declared_margins_answer_questions():
    with opened() as curator:
        table = curator.table("region", ht.cut("age", [30, 60]), margins=True)
        assert isinstance(table, Table)
        cell = curator.deduce("region = 'N' AND age < 30").interval
        told = table.cell("N", "below 30").interval
        assert cell.low == pytest.approx(told.low, abs=1e-9)
        assert cell.high <= told.high + 1e-9
        single = curator.deduce("region = 'N' AND age < 60").interval
        summed = table.union(("N", "below 30"), ("N", "30 to 60")).interval
        assert single.low >= summed.low - 0.01  # the boxes of both cells, and what all others leave
        assert single.high <= summed.high + 0.01
        margin = curator.deduce("region = 'N' AND age IS NOT NULL").interval
        declared = table.union(*[("N", each) for each in ("below 30", "30 to 60", "60 and above")]).interval
        assert margin.high <= declared.high + 1e-6
        assert margin.low >= declared.low - 1e-6


def test_a_number_that_is_no_constant_is_shared_by_the_questions_that_hold_it():
    with opened() as curator:
        answer = curator.ask("age / 100")
        assert curator.deduce("CASE WHEN smoker THEN age / 100 ELSE 0 END").interval.high <= answer.interval.high + 1e-6
        assert curator.deduce("CASE WHEN age > 65 THEN 0.5 ELSE 0.0 END").sources == ()


def test_ends_are_those_of_brute_force_on_a_small_domain():
    card = Card((Column("a", "boolean"), Column("b", "boolean")), 100)
    plan = ht.plan(rows=10_000, queries=10)
    texts = ["a", "b", "a AND b", "a OR b", "NOT a", "a AND NOT b"]
    # All measures on the nine atoms (true, false, missing) in steps of 1/8 that the boxes allow.
    states = list(itertools.product((True, False, None), repeat=2))
    weights = np.array([each for each in itertools.product(range(5), repeat=8) if sum(each) <= 4], dtype=float) / 4
    measures = np.column_stack([weights, 1 - weights.sum(axis=1)])

    def holds(text, a, b):
        return {
            "a": a is True,
            "b": b is True,
            "a AND b": a is True and b is True,
            "a OR b": a is True or b is True,
            "NOT a": a is False,
            "a AND NOT b": a is True and b is False,
        }[text]

    table = np.array([[holds(text, *state) for state in states] for text in texts], dtype=float)
    for known, target in [((0, 1), 2), ((0, 1), 3), ((0,), 4), ((0, 2), 5), ((0, 1, 2), 3)]:
        values = [0.5, 0.25, 0.25, 0.5, 0.25, 0.25]
        groups = [one_fact(plan, texts[place], values[place], card) for place in known]
        found = deduce(plan, parse(texts[target], card), groups)
        boxes = [group.facts[0].box for group in groups]
        means = measures @ table[list(known)].T
        fits = np.all([(low <= mean) & (mean <= high) for (low, high), mean in zip(boxes, means.T, strict=True)], axis=0)
        reached = (measures @ table[target])[fits]
        frozen = plan.transfer
        assert found.interval.low <= reached.min()
        assert found.interval.high >= reached.max()
        # The grid of measures is coarse, so that ends are reached up to its step and the gap to the population.
        assert found.interval.low >= reached.min() - 0.26 - frozen.gamma - frozen.noise
        assert found.interval.high <= reached.max() + 0.26 + frozen.gamma + frozen.noise


def test_a_multiplier_above_one_pays_for_its_slack_on_a_plan_with_one_beta():
    card = Card(tuple(Column(name, "boolean") for name in "abc"), 100)
    plan = ht.plan(rows=10_000, queries=10)
    query = parse("CASE WHEN a THEN 1.0 ELSE 0 END", card)
    group = one_fact(plan, "CASE WHEN a THEN 0.5 ELSE 0 END", 0.25, card)
    found = deduce(plan, query, [group])
    (low, _), frozen = group.facts[0].box, plan.transfer
    v = 2 * low
    assert frozen.overshoot
    expected = max(0.0, (v - 2 * frozen.slack) / (1 + np.expm1(frozen.epsilon) * (1 - v)))
    # Twice the population's own lower end is what the other program gives; the better one is told.
    best = max(expected, 2 * group.facts[0].population[0])
    assert found.interval.low == pytest.approx(best, abs=1e-4)
    assert expected < (v - frozen.slack) / (1 + np.expm1(frozen.epsilon) * (1 - v))


def test_answers_that_contradict_each_other_are_told_and_nothing_is_deduced():
    card = Card((Column("a", "boolean"),), 100)
    plan = ht.plan(rows=10_000, queries=10)
    groups = [one_fact(plan, "a", 0.9, card), one_fact(plan, "NOT a", 0.9, card)]
    found = deduce(plan, parse("a", card), groups)
    assert found.inconsistent
    assert found.interval is None
    assert "contradict" in str(found)
    assert not is_within(plan, found, draws=0, spent=0)


def test_once_answers_contradict_each_other_nothing_is_free_any_more(monkeypatch):
    """Also not where a question is too far from those answers for its program to have them."""
    rows = make_rows() | {"weight": np.arange(ROWS) % 90}
    with ht.Curator(rows, queries=60, epsilon=4, delta=1e-6, iid=True, labels={"region": REGIONS}) as curator:
        for name in ("age", "weight"):
            curator.table(ht.cut(name, list(range(1, 90))))  # with each other more cells than a program has
        curator.table("region")
        sums = curator.pipeline.engine.sums
        monkeypatch.setattr(curator.pipeline.engine, "sums", lambda queries, **_: [ROWS << curator.plan.bits] * len(queries))
        curator.ask(["smoker", "NOT smoker"])
        monkeypatch.setattr(curator.pipeline.engine, "sums", sums)
        assert curator.deduce("region = 'N'").interval is not None
        assert curator.deduce("smoker").inconsistent
        left = curator.budget.asks
        assert curator.deduce("region = 'N'").inconsistent
        assert not curator.ask("region = 'N'", deduce="first").deduced
        assert curator.budget.asks == left - 1
        assert curator.preview("region = 'S'").follows is None


def test_a_question_with_too_many_atoms_is_taken_apart():
    names = [f"c{place}" for place in range(9)]
    card = Card(tuple(Column(name, "integer") for name in names), 100)
    plan = ht.plan(rows=10_000, queries=20)
    parts = [f"{name} IN (1, 3, 5)" for name in names] + [f"{name} > 2" for name in names]
    groups = [one_fact(plan, "c0 IN (1, 3, 5)", 0.2, card)]
    found = deduce(plan, parse(" AND ".join(parts), card), groups)
    assert found.atoms == 0
    assert found.interval.high <= plan.interval(0.2)[1] + 1e-9


def test_other_plans_say_what_their_theorem_says():
    with opened(iid=False, queries=None, alpha=None) as curator:
        answer = curator.ask("smoker")
        found = curator.deduce("smoker")
        assert found.interval is None
        assert found.sample_interval.high <= answer.sample_interval.high + 1e-9
    with opened(queries=None) as curator:
        answer = curator.ask("smoker")
        assert curator.deduce("smoker AND age > 30").interval.high <= answer.interval.high + 1e-9
    with opened(side="low") as curator, pytest.raises(NotCertified):
        curator.deduce("smoker")
    with opened(side="low") as curator:
        curator.ask("smoker")
        assert curator.preview("smoker AND age > 3").follows is None


def test_ask_deduces_first_and_pays_for_the_rest():
    with opened() as curator:
        for text in ("age > 60", "age > 30 AND age <= 60", "age <= 30", "age IS NULL"):
            curator.ask(text)
        before = curator.budget
        free = curator.ask("age > 61", deduce="first")
        spent = before.spent if free.deduced else curator.budget.spent
        assert curator.budget.spent == spent
        whole = curator.ask("age > 0 OR age <= 0", deduce="first")
        assert whole.deduced
        assert whole.certificate.cost == 0
        assert curator.budget.asks == before.asks - (not free.deduced)
        assert whole.interval.width / 2 <= curator.plan.alpha


def test_where_nothing_may_be_paid_a_question_that_does_not_follow_is_refused(monkeypatch):
    """Also where the ledger takes no more entries that cost nothing, or all was asked of others."""
    text, given = "age > 60 AND (smoker OR age > 50)", {"key": None, "analyst": None, "paying": False}
    with opened() as curator:
        curator.ask("age > 60", analyst="ann")
        spent = curator.budget.spent
        for missing, seen_by in ("smoker", None), (text, "ben"):
            with pytest.raises(ht.RefusedError, match="ask it, for one question"):
                curator.ask_free([text, missing], seen_by=seen_by, **given)
        with monkeypatch.context() as patch:
            patch.setattr(AnswerIndex, "has_room", lambda _: False)
            with pytest.raises(ht.RefusedError, match="ask it, for one question"):
                curator.ask_free([text], seen_by=None, **given)
        assert curator.ask_free([text, "age > 60"], seen_by=None, **given)[0].deduced == (1,)
        assert curator.budget.spent == spent
        assert curator.ask("smoker").certificate.cost > 0


def test_a_free_answer_is_stored_and_its_key_bound():
    with opened() as curator:
        curator.ask(["age > 60", "age <= 60"])
        first = curator.ask(["age > -5 OR age <= -5", "smoker"], deduce="first", key="k")
        spent = curator.budget.spent
        assert first[0].deduced
        assert not first[1].deduced
        curator.ask("age IS NULL")
        again = curator.ask(["age > -5 OR age <= -5", "smoker"], deduce="first", key="k")
        assert [each.value for each in again] == [each.value for each in first]
        assert [each.interval for each in again] == [each.interval for each in first]
        assert curator.budget.spent == pytest.approx(spent + curator.plan.cost * 1e-15)
        assert "deduced" in str(curator.ledger.entries()[2].body)
        assert not ht.audit_ledger(curator.ledger).violated
        with pytest.raises(InvalidParameter):
            curator.ask("smoker", deduce="always")
        with pytest.raises(InvalidParameter):
            curator.ask(values=np.zeros(ROWS), deduce="first")


def test_a_free_answer_is_told_under_every_key_and_changes_with_what_was_answered():
    with opened() as curator:
        curator.ask("age > 60")
        text = "age > 60 AND (smoker OR age > 50)"
        found = [curator.ask(text, deduce="first", key=key) for key in ("one", "two", None, None, "one")]
        assert len({each.value for each in found}) == 1
        assert all(each.deduced == (1,) for each in found)
        left = curator.budget.asks
        curator.ask("age > 60 AND smoker")
        later = [curator.ask(text, deduce="first", key=key) for key in (None, "three", "one")]
        assert [each.value for each in later[2:]] == [found[0].value]
        assert all(each.certificate.cost == 0 for each in later)
        assert curator.budget.asks == left - 1
        assert not ht.audit_ledger(curator.ledger).violated


def test_deducing_reads_no_row_and_writes_no_entry(monkeypatch):
    with opened() as curator:
        curator.ask("age > 60")
        newest, newest_spent = curator.ledger.newest(), curator.ledger.spent

        def refuse(*_, **__):
            raise AssertionError

        monkeypatch.setattr(curator.pipeline.engine, "sums", refuse)
        monkeypatch.setattr(curator.pipeline.engine, "sum_cells", refuse)
        assert isinstance(curator.deduce("age > 61"), Deduction)
        assert "already follows" in str(curator.preview("age > 61"))
        assert curator.ledger.newest() == newest
        assert curator.ask("smoker AND NOT smoker OR TRUE", deduce="first").deduced == ()
        assert curator.ledger.spent == newest_spent


def test_an_analyst_deduces_from_their_own_answers_only():
    with opened() as curator:
        curator.ask("age > 60", analyst="ann")
        assert curator.deduce("age > 60", analyst="ben").sources == ()
        assert curator.preview("age > 60", analyst="ben").follows is None
        assert curator.deduce("age > 60", analyst="ann").sources
        assert curator.deduce("age > 60").sources


def test_a_ledger_that_is_opened_again_deduces_the_same(tmp_path):
    rows = make_rows()
    terms = {"queries": 20, "epsilon": 4, "delta": 1e-6, "iid": True, "labels": {"region": REGIONS}}
    with ht.Curator(rows, ledger=tmp_path / "rows.ledger", **terms) as curator:
        curator.ask("age > 60")
        curator.table("region", ht.cut("age", [30.1, 60.25]))
        first = curator.deduce("region = 'N' AND age > 70")
    with ht.Curator(rows, ledger=tmp_path / "rows.ledger") as curator:
        assert curator.deduce("region = 'N' AND age > 70") == first
        assert first.sources


def steer(plan: Plan, source, questions):
    """Return whether an analyst who goes where free answers point finds an interval that misses; with the truth known."""
    names = "abcdef"
    card = Card(tuple(Column(name, "boolean") for name in names), plan.rows)
    truth = source.dirichlet(np.full(64, 0.2))
    sample = source.multinomial(plan.rows, truth) / plan.rows
    bits = np.array(list(itertools.product((True, False), repeat=6)))
    groups, missed, free = [], 0, 0
    chosen: list[int] = []
    for step in range(questions):
        literals = [int(each) for each in source.permutation(6)[: 1 + step % 3]]
        # Towards what was found to be largest, as somebody who looks for a pattern would.
        held = (chosen[-1:] + literals)[:3]
        text = " AND ".join(names[each] for each in sorted(set(held)))
        mask = bits[:, sorted(set(held))].all(axis=1)
        found = deduce(plan, parse(text, card), groups)
        assert found.interval is not None
        missed += not found.interval.low <= mask @ truth <= found.interval.high
        if is_within(plan, found, draws=0, spent=0):
            free += 1
            value = (found.interval.low + found.interval.high) / 2
        else:
            value = min(1.0, max(0.0, mask @ sample + source.normal(0, plan.sigma)))
            ends = plan.interval(value)
            missed += not ends[0] <= mask @ truth <= ends[1]
            groups.append(one_fact(plan, text, value, card))
        if value > 0.2:
            chosen.append(held[-1])
    return missed, free


def test_an_analyst_who_steers_by_free_answers_finds_no_miss():
    runs = int(os.environ.get("HOLDTRUE_STEERED_RUNS", "4"))
    plan = ht.plan(rows=10_000, queries=40)
    source = np.random.default_rng(5)
    outcomes = [steer(plan, source, 24) for _ in range(runs)]
    failed = sum(missed > 0 for missed, _ in outcomes)
    assert failed <= (0 if runs < 20 else plan.beta * runs)
    assert sum(free for _, free in outcomes) > 0
