"""The named analysts ask what their descriptions say, and what they are told decides what they ask next."""

import math

import pytest

import holdtrue as ht
from holdtrue.auditing import Signs, Vote
from holdtrue.auditing.generalization import ANALYSTS, Exchange, RecordedCurator, Stopped, _weigh_by_odds
from holdtrue.auditing.populations import PlainAnswer
from holdtrue.records import Interval
from holdtrue.testing import SeededBits

COLUMNS = 8
POPULATION = Signs(rows=400, columns=COLUMNS)


class Told:
    """A curator that answers each single column by a table, and every other vote by a function of it."""

    def __init__(self, columns, votes=lambda _: 0.5):
        self.columns, self.votes, self.asked = columns, votes, []

    def ask(self, question):
        self.asked.append(question)
        weights = dict(question.weights)
        single = len(weights) == 1 and next(iter(weights.values())) == 1
        value = self.columns[next(iter(weights))] if single else self.votes(weights)
        return PlainAnswer(value, Interval(0.0, 1.0, 0.95, "population"))


def follow(name, columns, votes=lambda _: 0.5):
    """Return the votes that an analyst asks, as weights, after those of single columns."""
    curator = Told(columns, votes)
    population = Signs(rows=400, columns=len(columns))
    ANALYSTS[name](curator, population)
    return [dict(question.weights) for question in curator.asked]


def test_every_analyst_asks_about_every_column():
    for name in ANALYSTS:
        singles = [asked for asked in follow(name, [0.5] * COLUMNS) if list(asked.values()) == [1]]
        assert [column for (column,) in singles][:COLUMNS] == list(range(COLUMNS))


def test_sign_aggregation_turns_each_column_to_the_side_it_leans_to():
    asked = follow("sign-aggregation", [0.6, 0.4, 0.5, 0.51])
    assert asked[-1] == {0: 1, 1: -1, 2: -1, 3: 1}
    assert len(asked) == 5


def test_screening_keeps_what_correlates_and_then_its_better_halves():
    """With 400 rows the screen is 1.15 standard deviations, 0.02875."""
    asked = follow("screening", [0.6, 0.4, 0.5, 0.51, 0.55, 0.47, 0.53, 0.52])[COLUMNS:]
    assert asked == [{0: 1, 1: -1, 4: 1, 5: -1, 6: 1}, {0: 1, 1: -1}, {0: 1}]


def test_screening_keeps_the_best_column_where_none_correlates():
    assert follow("screening", [0.5, 0.51, 0.505])[3:] == [{1: 1}]


def test_greedy_keeps_two_more_columns_where_the_answer_gets_better():
    columns = [0.6, 0.42, 0.57, 0.46, 0.53, 0.48]
    better = follow("greedy", columns, lambda weights: 0.6 + 0.01 * len(weights))[len(columns) :]
    assert better == [{0: 1, 1: -1, 2: 1}, {0: 1, 1: -1, 2: 1, 3: -1, 4: 1}]
    worse = follow("greedy", columns, lambda weights: 0.6 - 0.01 * len(weights))[len(columns) :]
    assert worse == [{0: 1, 1: -1, 2: 1}, {0: 1, 3: -1, 4: 1}]


def test_boosting_asks_for_its_vote_after_every_quarter_of_the_columns():
    columns = [0.9, 0.5, 0.1, 0.5, 0.5, 0.5, 0.5, 0.5]
    asked = follow("boosting", columns)
    votes = [asked[place] for place in (2, 5, 8, 11)]
    assert len(asked) == COLUMNS + 4
    assert votes[0] == {0: 3}
    assert votes[1] == {0: 3, 2: -3}


def test_votes_by_odds_leave_out_what_weighs_less_than_half_a_step():
    assert dict(_weigh_by_odds({0: 0.4, 1: 0.01, 2: -0.2}).weights) == {0: 3, 2: -1}
    odds = [math.atanh(0.8), math.atanh(-0.4)]
    assert round(3 * odds[1] / odds[0]) == -1


def test_votes_by_odds_of_columns_that_say_nothing_count_them_all():
    assert dict(_weigh_by_odds({0: 0.0, 1: 0.0}).weights) == {0: 1, 1: 1}


def test_votes_by_odds_survive_columns_that_are_always_right():
    assert dict(_weigh_by_odds({0: 0.5, 1: -0.5}).weights) == {0: 3, 1: -3}


# What is written down


def recorded(curator, sample=None):
    sample = POPULATION.draw(SeededBits("recorded")) if sample is None else sample
    return RecordedCurator(curator, sample, POPULATION, SeededBits("coins"))


class Texts:
    """A curator that takes texts, and one that is spent after so many."""

    def __init__(self, most=10**6, interval=Interval(0.4, 0.6, 0.95, "population")):  # noqa: B008 - a frozen record
        self.most, self.interval, self.asked = most, interval, []

    def ask(self, text):
        if len(self.asked) >= self.most:
            raise ht.BudgetExceeded(requested=1, left=0, unit="questions")
        self.asked.append(text)
        return PlainAnswer(0.5, self.interval)


def test_a_vote_is_sent_as_text_and_its_truth_written_down():
    texts = Texts()
    curator = recorded(texts)
    curator.ask(Vote.of({0: 1, 1: 1}))
    assert texts.asked == ["(CASE WHEN 2 * (x0 + x1) > 2 THEN 1 ELSE 0 END) = y"]
    (exchange,) = curator.exchanges
    assert exchange.truth == pytest.approx(0.5)
    assert not exchange.missed


def test_a_vote_is_sent_as_predictions_to_what_scores_them():
    seen = []

    class Scores:
        def score(self, y_pred):
            seen.append(y_pred)
            return PlainAnswer(0.5, Interval(0.9, 1.0, 0.95, "population"))

    curator = recorded(Scores())
    vote = Vote.of({0: 1})
    curator.score(vote)
    assert seen[0].tolist() == vote.predict(curator._sample).tolist()
    assert curator.exchanges[0].missed


def test_a_budget_that_ends_ends_the_run():
    curator = recorded(Texts(most=1))
    curator.ask("x0 = y")
    with pytest.raises(Stopped):
        curator.ask("x1 = y")
    assert len(curator.exchanges) == 1


def test_a_curator_without_intervals_is_refused():
    with pytest.raises(ht.InvalidParameter, match="iid=True"):
        recorded(Texts(interval=None)).ask("x0 = y")


@pytest.mark.parametrize(("truth", "missed"), [(0.4, False), (0.6, False), (0.39, True), (0.61, True)])
def test_an_exchange_is_missed_where_the_truth_is_outside(truth, missed):
    assert Exchange("q", 0.5, Interval(0.4, 0.6, 0.95, "population"), truth).missed is missed
