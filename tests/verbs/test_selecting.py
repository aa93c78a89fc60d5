"""SELECT by itself: what a choice costs, how it is drawn, what it says, with no rows and no ledger behind it."""

from collections import Counter
from fractions import Fraction

import pytest

import holdtrue as ht
from holdtrue import events
from holdtrue.accounting.filters import GaussianFilter, PureFilter
from holdtrue.errors import InvalidParameter, RefusedError
from holdtrue.mechanisms import Exponential
from holdtrue.queries.cards import Card, Column
from holdtrue.queries.parser import parse
from holdtrue.records import Certificate
from holdtrue.verbs import Standing
from holdtrue.verbs.selecting import choose, epsilon_of_use, select

CARD = Card((Column("age", "integer"), Column("sick", "boolean")), 10_000)
PLAN = ht.plan(rows=10_000, queries=100, epsilon=1.0, delta=1e-6, iid=True, reserve=0.25)
LIMIT = GaussianFilter(PLAN.cap_units)


def released(candidates, **given):
    return select(candidates, **({"plan": PLAN, "limit": LIMIT, "epsilon": 0.5} | given))


def test_a_choice_among_queries_is_charged_once_whatever_their_number():
    queries = {text: parse(text, CARD) for text in ("sick", "age > 65", "age > 70")}
    release = released(queries)
    assert release.event == events.BoundedRange(Fraction(1, 2))
    assert release.cost == LIMIT.cost(release.event)
    assert release.queries == tuple(queries.values())
    assert release.draws == 0


def test_the_best_candidate_is_chosen_by_far_and_named():
    release = released({"a": 0, "b": 500, "c": 3})
    (drawn,) = release.draw([])
    certificate = Certificate(release.event, 0.0, 0.0, 1.0, 1, "0" * 64, "theorem", 1.0, 1e-6)
    (said,) = release.respond([drawn], certificate, Standing(0, release.cost, 0))
    assert (said.name, said.index) == ("b", 1)
    assert said.shortfall > 0


def test_equal_candidates_are_chosen_equally_often():
    release = released({"a": 0, "b": 0})
    found = Counter(release.draw([])[0] for _ in range(4000))
    assert abs(found[0] - 2000) < 6 * 1000**0.5


def test_whole_scores_are_not_in_what_the_ledger_keeps():
    first, second = (released({"a": score, "b": 1}, scored="named monday") for score in (0, 1))
    assert first.request == second.request
    assert first.parts == second.parts
    assert released({"a": 0, "b": 1}, scored="named tuesday").parts != first.parts


def test_a_pure_ledger_has_permute_and_flip():
    plan = ht.plan(rows=10_000, queries=100, epsilon=1.0, iid=True, pure=True, reserve=0.25)
    release = released({"a": 0, "b": 1}, plan=plan, limit=PureFilter(plan.cap_units))
    assert release.event == events.Pure(Fraction(1, 2))
    assert release.event != Exponential(epsilon=0.5).event


def test_without_an_epsilon_it_takes_a_share_of_the_reserve():
    release = released({"a": 0, "b": 1}, epsilon=None)
    assert 0 < release.cost <= PLAN.use_units
    assert release.event.epsilon == epsilon_of_use(PLAN)
    without = ht.plan(rows=10_000, queries=100, epsilon=1.0, delta=1e-6, iid=True)
    with pytest.raises(RefusedError, match="reserve"):
        epsilon_of_use(without)


class Nowhere:
    """A pipeline to which nothing may be submitted."""

    plan, limit, card = PLAN, LIMIT, CARD

    @staticmethod
    def parse(text):
        return parse(text, CARD)


@pytest.mark.parametrize(
    ("candidates", "name"), [({}, None), ({"a": "sick", "b": 3}, None), ({"a": 0.5}, None), ("sick", None), (["sick"], "x")]
)
def test_what_cannot_be_chosen_among_is_refused_before_it_is_submitted(candidates, name):
    with pytest.raises(InvalidParameter):
        choose(Nowhere(), candidates, epsilon=0.5, name=name, known_as="x", key=None, analyst=None)
