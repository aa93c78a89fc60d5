"""Coverage against adaptive analysts: Holdtrue's intervals hold, those of plain means do not, and the truth is exact."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
from msgspec import structs

import holdtrue as ht
from holdtrue.auditing import Coverage, PlainMeans, PlainScores, Signs, Vote
from holdtrue.auditing.generalization import ANALYSTS, pick_worst
from laws import generator

WIDE = Signs(rows=2000, columns=80)
QUESTIONS = {"boosting": 84, "greedy": 119, "screening": 87, "sign-aggregation": 81}
NARROW = ht.plan(queries=20, alpha=0.1, beta=0.05)
SMALL = Signs(rows=NARROW.rows, columns=9)


def curator(sample):
    return ht.Curator(sample, plan=NARROW)


@pytest.mark.parametrize("analyst", ANALYSTS)
def test_n6_noiseless_control_covers_less_than_half(analyst, bits):
    """The interval is Hoeffding's for as many questions as are asked, at once; surely coverage is below one half."""
    finding = ht.audit_generalization(
        lambda sample: PlainScores(sample["y"], looks=QUESTIONS[analyst]),
        analyst,
        WIDE,
        runs=40,
        confidence=0.999,
        bits=bits,
    )
    assert finding.violated
    assert 1 - finding.lower_bound < 0.5
    assert finding.claimed == pytest.approx(0.05)
    assert finding.questions <= QUESTIONS[analyst]
    assert finding.error > 0.04


def test_n6_noiseless_control_through_the_query_language_covers_less_than_half(bits):
    finding = ht.audit_generalization(lambda sample: PlainMeans(sample, questions=84), "boosting", WIDE, runs=12, bits=bits)
    assert finding.violated
    assert 1 - finding.lower_bound < 0.5


def test_n6_holdouts_cover_where_the_control_fails(bits):
    """On the very population of the control: at most beta of all runs miss, by Clopper and Pearson's upper limit."""

    def holdout(sample):
        return ht.Holdout(sample["y"], looks=81, beta=0.05)

    finding = ht.audit_generalization(holdout, "sign-aggregation", WIDE, runs=59, bits=bits)
    assert finding.held
    assert not finding.violated


@pytest.mark.parametrize("analyst", ANALYSTS)
def test_n6_curators_cover_at_one_minus_beta(analyst, bits):
    finding = ht.audit_generalization(curator, analyst, SMALL, runs=59, bits=bits)
    assert finding.held
    assert finding.questions > SMALL.columns


def test_n6_curators_cover_where_columns_know_something(bits):
    signal = Signs(rows=NARROW.rows, columns=9, agreement=(0.5, 0.6, 0.7, 0.4, 0.5, 0.8, 0.5, 0.1, 0.55))
    assert ht.audit_generalization(curator, "boosting", signal, runs=59, bits=bits).held


@dataclass
class Narrowed:
    """A planted fault: a curator whose intervals are five times too narrow."""

    inner: ht.Curator

    def ask(self, text):
        told = self.inner.ask(text)
        ends = told.interval
        near = ends.width / 10
        return structs.replace(told, interval=structs.replace(ends, low=told.value - near, high=told.value + near))


def test_intervals_that_are_too_narrow_are_found(bits):
    finding = ht.audit_generalization(
        lambda sample: Narrowed(curator(sample)), "sign-aggregation", SMALL, runs=30, confidence=1 - 1e-6, bits=bits
    )
    assert finding.violated
    assert "The claim is wrong" in finding.sentence
    assert "misses the truth; the first to miss:" in finding.event


@pytest.mark.parametrize("agreement", [0.5, 0.7, (0.1, 0.5, 0.8, 0.65, 1, 0)])
def test_the_truth_of_a_vote_is_that_of_its_text(request, agreement):
    """Convolution against enumeration of every row there is, through the query language."""
    random, population = generator(request), Signs(rows=10, columns=6, agreement=agreement)
    for _ in range(40):
        columns = random.choice(6, size=random.integers(1, 7), replace=False)
        vote = Vote.of({int(column): int(random.choice([-3, -2, -1, 1, 2, 3])) for column in columns})
        assert population.mean(vote) == pytest.approx(population.mean(vote.to_query()), abs=1e-12)


def test_a_vote_says_the_same_as_text_and_as_predictions(request, bits):
    random, population = generator(request), Signs(rows=500, columns=100)
    sample = population.draw(bits)
    control = PlainMeans(sample)
    for size in (1, 2, 3, 30, 100):
        vote = Vote.of({j: int(random.choice([-2, -1, 1, 3])) for j in range(size)})
        assert control.ask(vote.to_query()).value == (vote.predict(sample) == sample["y"]).mean()


def test_the_truth_about_these_cases_is_the_conditional_one(bits):
    population = Signs(rows=40_000, columns=3, agreement=(0.9, 0.6, 0.5))
    sample = population.draw(bits)
    predictions = Vote.of({0: 1}).predict(sample)
    assert population.mean(predictions, sample=sample) == pytest.approx(0.9, abs=0.01)
    assert (predictions == sample["y"]).mean() == pytest.approx(0.9, abs=0.01)
    assert population.mean("x0 = y AND x1 = y") == pytest.approx(0.54)
    assert population.mean("y") == 0.5


def test_an_analyst_of_ones_own_may_ask_texts_until_the_budget_ends(bits):
    def curious(curator, population):
        for j in range(population.columns):
            assert curator.ask(f"x{j} = 1 AND y = 1").value >= 0

    few = ht.plan(queries=4, alpha=0.2, beta=0.05)
    population = Signs(rows=few.rows, columns=6)
    finding = ht.audit_generalization(lambda sample: ht.Curator(sample, plan=few), curious, population, runs=5, bits=bits)
    assert finding.questions == 4
    assert "curious" in finding.event
    assert not finding.held
    assert "runs without a miss would show" in finding.sentence


def test_an_analyst_may_score_predictions_and_be_a_generator(bits):
    def guessing(holdout, population):
        for column in range(population.columns):
            predictions = (curator_bits(holdout, population.rows) + column) % 2
            yield column, holdout.score(predictions)

    def curator_bits(holdout, rows):
        return (holdout.bits.words(rows) >> np.uint64(63)).astype(np.int8)

    population = Signs(rows=300, columns=4, agreement=0.8)
    finding = ht.audit_generalization(
        lambda sample: ht.Holdout(sample["y"], looks=4), guessing, population, runs=5, bits=bits
    )
    assert finding.questions == 4
    assert not finding.violated


def test_holdouts_of_fresh_cases_are_held_to_the_population(bits):
    def holdout(sample):
        return ht.Holdout(sample["y"], looks=20, unseen=True)

    population = Signs(rows=400, columns=9, agreement=0.6)
    assert ht.audit_generalization(holdout, "greedy", population, runs=59, bits=bits).held


def test_coverage_reads_as_text_html_and_json(bits):
    finding = ht.audit_generalization(lambda sample: PlainScores(sample["y"]), "screening", WIDE, runs=5, bits=bits)
    assert Coverage.read(json.dumps(finding.document)) == finding
    assert str(finding).startswith(finding.sentence)
    assert "VIOLATED" in finding._repr_html_()
    assert finding.coverage == 1 - finding.misses / finding.runs


def quiet(curator, population):
    """Ask nothing."""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"analyst": "guessing"}, "no analyst 'guessing': give one of boosting, greedy, screening, sign-aggregation"),
        ({"population": None}, "population must be one that knows its truth"),
        ({"population": object()}, "population must be one that knows its truth, such as Signs"),
        ({"analyst": quiet}, "analyst must be a function that calls curator.ask"),
        ({"factory": lambda _: object()}, "factory must be a function that returns something with ask or score"),
        ({"factory": lambda sample: ht.Curator(sample, queries=20, iid=False, epsilon=9, delta=1e-3)}, "iid=True"),
        ({"confidence": 1}, "confidence must be"),
        ({"runs": 0}, "runs must be"),
        ({"beta": 0}, "beta must be"),
    ],
)
def test_bad_input_says_what_would_do(change, message):
    given = {"factory": lambda sample: PlainScores(sample["y"]), "analyst": "greedy", "population": SMALL} | change
    with pytest.raises(ht.RequestError, match=message):
        ht.audit_generalization(given.pop("factory"), **given)


def test_too_few_runs_say_how_many(bits):
    with pytest.raises(ht.InsufficientSamples, match="use at least 5") as error:
        ht.audit_generalization(curator, population=SMALL, runs=4, confidence=1 - 1e-6, bits=bits)
    assert error.value.required == 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Vote.of({}), "at least one"),
        (lambda: Vote.of({0: 0}), "other than 0"),
        (lambda: Signs(rows=0, columns=1), "rows"),
        (lambda: Signs(rows=5, columns=2, agreement=(0.5,)), "one number, or 2"),
        (lambda: Signs(rows=5, columns=2, agreement=1.5), "agreement"),
        (lambda: Signs(rows=5, columns=2).mean(Vote.of({2: 1})), "x0 to x1"),
        (lambda: Signs(rows=5, columns=30).mean(" + ".join(f"x{j}" for j in range(17))), "16 columns"),
        (lambda: Signs(rows=5, columns=2).mean(np.zeros(5)), "one prediction per case, 5 in all"),
    ],
)
def test_bad_populations_and_questions_are_refused(make, message):
    with pytest.raises(ht.RequestError, match=message):
        make()


def test_v6_3_both_monitors_run(bits):
    """On plain scores they name what is far off; on a holdout of the same rows what they name is near the truth."""
    gaps = {}
    for name, factory in {
        "plain": lambda sample: PlainScores(sample["y"], looks=81),
        "holdout": lambda sample: ht.Holdout(sample["y"], looks=81),
    }.items():
        finding = ht.audit_generalization(factory, population=WIDE, runs=10, monitor=True, bits=bits)
        notes = dict(finding.notes)
        assert "names the question that is farthest off" in notes["monitor of a run"]
        told, truly = (float(part.split()[-1]) for part in notes["monitor of runs"].split(", ")[-2:])
        gaps[name] = told - truly
        assert "monitor of runs" in str(finding)
    assert gaps["plain"] > 0.04
    assert abs(gaps["holdout"]) < 0.2, "noise, and no more"
    plain = ht.audit_generalization(lambda sample: PlainScores(sample["y"], looks=81), population=WIDE, runs=2, beta=0.05)
    assert plain.notes == ()


def test_v6_3_the_monitor_of_runs_prefers_the_worst():
    picks = [pick_worst([0.0, 0.01, 0.2], rows=1000) for _ in range(20)]
    assert set(picks) == {2}
