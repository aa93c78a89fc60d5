"""ASK by itself: what a release of questions costs, draws and says, with no rows and no ledger behind it."""

from fractions import Fraction

import pytest

import holdtrue as ht
from holdtrue import events
from holdtrue.errors import InsufficientSamples, InvalidParameter
from holdtrue.queries.cards import Card, Column
from holdtrue.records import Answer, Certificate
from holdtrue.verbs import Standing
from holdtrue.verbs.asking import QuestionRule, cached_parser, part_of, part_of_values, read_texts

ROWS = 10_000
CARD = Card((Column("age", "integer"), Column("sick", "boolean")), ROWS)


@pytest.fixture(scope="module")
def asking():
    return QuestionRule.from_plan(ht.plan(rows=ROWS, queries=100, epsilon=1.0, delta=1e-6, iid=True), card=CARD)


class Known:
    """An index that has answers to some parts."""

    def __init__(self, *parts):
        self.parts = parts

    def has(self, part):
        return part in self.parts


def certificate(release):
    return Certificate(release.event, 0.0, 0.0, 1.0, 1, "0" * 64, "theorem", 1.0, 1e-6)


def test_a_release_has_the_cost_and_the_draws_of_its_questions(asking):
    queries = [cached_parser(CARD)(text) for text in ("age > 65", "sick")]
    release = asking.release_queries(queries)
    assert release.cost == 2 * asking.plan.cost
    assert release.draws == 2
    assert release.event == events.Repeated(asking.mechanism.event, 2)
    assert release.parts == tuple(map(part_of, queries))
    assert asking.release_queries(queries[:1]).event == asking.mechanism.event
    assert asking.release_queries([]).event == events.NoCost()


def test_only_questions_without_an_answer_are_released(asking):
    parse = cached_parser(CARD)
    known = part_of(parse("sick"))
    planned = asking.plan_queries(("age > 65", "sick", "age > 65"), parse, Known(known))
    assert planned.release.parts == (part_of(parse("age > 65")),)
    assert planned.parts == (*planned.release.parts, known, *planned.release.parts)
    assert planned.measure is None


def test_what_is_drawn_is_said_within_the_unit_interval_and_with_intervals_for_rows_and_population(asking):
    release = asking.release_queries([cached_parser(CARD)("sick")])
    grid = ROWS << asking.plan.bits
    for drawn, value in ((grid // 4, 0.25), (-5, 0.0), (2 * grid, 1.0)):
        (said,) = release.respond([drawn], certificate(release), Standing(1, release.cost, 0))
        assert isinstance(said, Answer)
        assert said.value == value
        assert said.sample_interval.low <= value <= said.sample_interval.high
        assert said.interval.low <= said.sample_interval.low <= said.sample_interval.high <= said.interval.high


def test_the_noise_is_of_the_planned_size(asking):
    release = asking.release_queries([cached_parser(CARD)("sick")])
    drawn = [release.draw([0])[0] for _ in range(4000)]
    spread = (sum(value * value for value in drawn) / len(drawn)) ** 0.5
    assert spread == pytest.approx(asking.plan.sigma * ROWS * 2**asking.plan.bits, rel=0.1)
    assert asking.mechanism.sigma == Fraction(asking.plan.sigma) * ROWS * 2**asking.plan.bits


def test_numbers_for_rows_are_known_by_a_name_only(asking):
    release = asking.release_values("named monday")
    assert release.parts == (part_of_values("named monday"),)
    assert release.request == {"values": "named monday"}
    assert release.queries == ()


def test_fewer_rows_than_planned_are_refused(asking):
    with pytest.raises(InsufficientSamples) as caught:
        QuestionRule.from_plan(asking.plan, card=Card(CARD.columns, ROWS - 1))
    assert caught.value.required == asking.plan.rows


def test_questions_are_texts():
    assert read_texts("sick") == ("sick",)
    assert read_texts(["sick", "age > 3"]) == ("sick", "age > 3")
    for wrong in (3, [3], {"sick": 1}, ["sick", None]):
        with pytest.raises(InvalidParameter, match="question in text"):
            read_texts(wrong)
