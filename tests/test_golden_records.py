"""The exact bytes of one example of everything that is written down. Ledgers hash them: they change with a new version only.

Each stands in a line of ``golden_records.jsonl``. Whoever changes a line changes what every ledger, receipt and client of
this version reads: raise ``codec.VERSION``, and let both versions be read.
"""

from fractions import Fraction
from pathlib import Path
from typing import get_args

import pytest

from holdtrue import codec, events, records, requests
from holdtrue.codec import Record, decode, encode
from holdtrue.events import Event
from holdtrue.holdouts.records import Score, Verdict
from holdtrue.holdouts.terms import Facts
from holdtrue.planning.holdout_plan import HoldoutPlan, ModeWidth
from holdtrue.planning.learning import LearningPlan
from holdtrue.planning.methods import Transfer
from holdtrue.planning.plans import OpenPlan, Plan
from holdtrue.planning.predicting import PredictionPlan
from holdtrue.planning.selecting import SelectionPlan
from holdtrue.queries.cards import Card, Column, UnitTable
from holdtrue.records import (
    Answer,
    Certificate,
    Choice,
    Contrast,
    Deduction,
    Estimates,
    Evaluation,
    FittedModel,
    Hypothesis,
    Interval,
    Marginals,
    Means,
    Prediction,
    Quantiles,
    Response,
    Statistic,
    Synthetic,
    Table,
    Unions,
    WatchAnswer,
    WatchRun,
    Workload,
)

GAUSSIAN = events.GaussianNoise(Fraction(1, 8))
PROOF = Certificate(GAUSSIAN, 0.015625, 0.5, 0.25, 12, "ab" * 32, "T6", 1.0, 1e-6)
POPULATION = Interval(0.25, 0.5, 0.95, "population")
SAMPLE = Interval(0.3, 0.4, 0.95, "sample")
SHARES = Estimates((0.25,), (0.2,), (0.3,), (0.24,), (0.26,))
UNIONS = Unions(("margins",), (1,), (0.25, 0.75), 0.01, 1e-9, 0.03, 0.1, 0.2)
STUMPS = requests.StumpsDocument(((0.0, 120.0),), 240, ("age",))
RIDGE = requests.EstimatorDocument("ridge", {"alpha": 0.5})
MODE = ModeWidth("gate", "yes or no", 0.068, private=False, theorem="T12", opened="Holdout(y_true, looks=200, yes=10)")
CELLS = Table(("smoker",), ((True,), (None,)), (0.25, 0.75), (0.2, 0.7), (0.3, 0.8), (0.24, 0.74), (0.26, 0.76), 0.95, PROOF)

VALUES = [
    events.NoCost(),
    events.NonPrivate(),
    GAUSSIAN,
    events.DiscreteGaussian(Fraction(7, 3), 2),
    events.DiscreteLaplace(Fraction(1, 3), 1048576),
    events.BoundedRange(1),
    events.Pure(0.5),
    events.Approximate(0, Fraction(1, 10**6)),
    events.ZeroConcentrated(0.25),
    events.Repeated(events.Pure(1), 7),
    events.Composed((events.Pure(1), GAUSSIAN)),
    POPULATION,
    PROOF,
    Answer(0.35, POPULATION, SAMPLE, PROOF),
    Choice("north", 0, 12.5, PROOF, repeated=True),
    Hypothesis("age ≥ 52.5 → 1", 3, 10, None, 0.95, 12.0, ("age",), encode(STUMPS), PROOF, "not declared independent"),
    Prediction("yes", PROOF),
    CELLS,
    UNIONS,
    SHARES,
    Contrast("ratio", "men", "women", 2.0, 0.5, None, 1.5, 2.5, 0.95, PROOF, "the denominator may be 0, so an end is open"),
    Means(
        columns=("smoker",),
        labels=((True,),),
        values=(36.5,),
        low=(30.0,),
        high=(40.25,),
        sample_low=(36.0,),
        sample_high=(37.0,),
        confidence=0.95,
        certificate=PROOF,
        measure="mean",
        column="hours",
        bounds=(0.0, 100.0),
        rows=10_000,
        where=None,
        shares=SHARES,
        per_head=SHARES,
        below=SHARES,
        above=None,
        missing=SHARES,
    ),
    Quantiles(
        *("age", (0.5,), (41.0,), (38.0,), (45.0,), (40.0,), (42.0,), 0.95, (31.0, 63.0), (0.25, 0.75)),
        *(None, "search", 2, 0.03125, PROOF),
    ),
    Quantiles(
        *("day", (0.5,), ("2026-07-01",), ("2026-06-01",), ("2026-08-01",), ("2026-06-20",), ("2026-07-20",), 0.95),
        *(("2026-06-01", "2026-08-01"), (0.25, 0.75), None, "search", 2, 0.03125, PROOF),
    ),
    Statistic(
        measure="variance",
        subject="bmi from 14 to 60",
        value=36.5,
        interval=POPULATION,
        sample_interval=SAMPLE,
        sensitivity=2116.0,
        target="the variance in the population",
        certificate=PROOF,
    ),
    WatchAnswer(True, 0.25, POPULATION, SAMPLE, 2, 3, 0.0, PROOF),
    WatchRun("5eb1" * 16, PROOF),
    FittedModel(
        "hours",
        "ridge",
        "hours",
        ("age",),
        ((0.0, 120.0),),
        None,
        (0.0, 80.0),
        (0.5, -0.25),
        0.125,
        1.5,
        0.01,
        1.0,
        None,
        PROOF,
        "not first",
    ),
    Score(0.875, POPULATION, SAMPLE, PROOF, looks_left=19, looks=20),
    Verdict(True, 0.01, 199, 9, POPULATION, SAMPLE, "fresh cases", PROOF, submission="s1"),
    requests.Ask(query="age > 65"),
    requests.Table(columns=("region", requests.Cut("age", (18.0, 65.0))), where="smoker"),
    requests.Mean(column="hours", low=0.0, high=100.0, by=("sex", requests.Cut("age", (18.0, 65.0)))),
    requests.Total(column="hours", low=0.0, high=100.0, where="smoker", population=10**6),
    requests.Quantile(column="age", levels=(0.25, 0.5), low=0, high=120, where="smoker"),
    requests.Quantile(column="day", levels=0.5, low="2026-01-01", high="2027-01-01"),
    requests.Variance(column="bmi", low=14.0, high=60.0),
    requests.Covariance(first="bmi", second="age", bounds={"bmi": (14.0, 60.0), "age": (0.0, 120.0)}),
    requests.Correlation(first="bmi", second="age"),
    requests.RSquared(prediction="risk", target="cost", low=0.0, high=1.0),
    requests.Gini(column="income", low=0.0, high=200_000.0),
    requests.Ratio(numerator="visits.COUNT(urgent)", denominator="visits.COUNT(*)", cap=20),
    requests.Auc(score="risk", label="sick"),
    requests.Pairs(kernel="abs(a.income - b.income)", high=200_000.0),
    requests.BestError(hypotheses=STUMPS, target="sick"),
    requests.Select(candidates={"south": "region = 'S'", "north": "region = 'N'"}, epsilon=0.5),
    requests.Select(scores={"a": 3, "b": "1/3"}, sensitivity="1/3", weights=(1.0, "2/3"), top=2, name="monday"),
    requests.WatchQuestion(query="age > 65", threshold=0.1, alarms=5),
    requests.Fit(name="hours", kind="ridge", target="hours", features=("age",), mu=0.5),
    requests.Learn(hypotheses=STUMPS, target="sick", epsilon=0.5),
    requests.Train(name="risk", estimator=RIDGE, target="age", bounds={"age": (0.0, 120.0)}),
    requests.Predict(model="risk", row={"bmi": 31.5, "age": 71, "region": None}, epsilon=0.1),
    requests.Distill(model="risk", rows=({"age": 71},), student=RIDGE, groups=4),
    requests.Score(y_pred=(1, 0, "é"), name="commit 1"),
    requests.Compare(first=(1, 0), second=(0.5, 0), results=True, differ=(True, False)),
    requests.Gate(y_pred=(True, False), margin=0.01),
    requests.Certify(),
    requests.Submit(name="ada", y_pred=(1, 0)),
    requests.Grant(analyst="ada", asks=100),
    requests.Verify(receipts=(requests.ReceiptDocument(12, "ab" * 32),)),
    requests.Register(name="people", path="people.parquet", queries=1000, epsilon=1.0, delta=1e-6, iid=True),
    requests.RegisterHoldout(name="evals", y_true=(1, 0, 1), looks=200, yes=10),
    Card((Column("age", "integer", bounds=(0, 120)), Column("region", "text", labels=("N", "S"))), 10_000),
    Card((Column("id", "text"),), 400, "id", (UnitTable("visits", (Column("id", "text"), Column("ill", "boolean"))),)),
    Certificate(GAUSSIAN, 0.015625, 0.5, 0.25, 12, "ab" * 32, "T6", 1.0, 1e-6, "id", "a random id"),
    Plan(
        rows=10_000,
        queries=100,
        alpha=0.05,
        beta=0.05,
        epsilon=1.0,
        delta=1e-6,
        limited=True,
        sigma=0.002,
        event=GAUSSIAN,
        ledger="gdp",
        cost=15625000000000,
        cap_units=2083333333333333,
        reserve=0.25,
        uses=10,
        rule="validity",
        iid=True,
        bits=20,
        method="transfer-gaussian",
        theorem="T6",
        transfer=Transfer(0.1, 0.2, 0.01, 0.04, 0.01, 0.04),
        alpha_otherwise=None,
    ),
    OpenPlan(
        rows=10_000,
        beta=0.05,
        epsilon=1.0,
        delta=0.0,
        sigma=0.005,
        event=events.DiscreteLaplace(Fraction(1, 35), 1048576),
        ledger="pure",
        cost=28571428571429,
        cap_units=10**15,
        reserve=0.25,
        uses=10,
        iid=False,
        bits=20,
        noise_beta=0.05,
        transfer_beta=0.0,
    ),
    LearningPlan(10_000, 7_441, 0.05, 0.01, 0.5, "best", False, "pair bound", 0.25, 0.03125),
    SelectionPlan(50, 0.5, 0.05, 27.63, 2.0, 0.25, 0.03125),
    PredictionPlan(
        parts=7,
        part_rows=185,
        rows=1295,
        base_error=0.05,
        epsilon=1.0,
        rate=0.5,
        tau=None,
        alpha=0.1,
        beta=0.05,
        size=1000,
        dimension=None,
        predictions=1,
        method="best",
        realizable=True,
        ledger="gdp",
        mu=0.5,
        rho=0.125,
        lower_bound=None,
        theorem="E5",
    ),
    HoldoutPlan(5000, 200, 10, 10, 0.05, 0.1, "gate", 0.068, False, True, "5,000 cases are enough.", (MODE,)),
    Facts("scores", 20, 0.05, unseen=False, private=True, label_kind="text"),
    Deduction("age > 70", POPULATION, SAMPLE, (1, 5), 12, "follows from earlier answers (U7)"),
    Answer(0.35, POPULATION, SAMPLE, PROOF, deduced=(1, 5)),
    Prediction(4.5, PROOF, noise=0.25, interval=SAMPLE),
    Evaluation("risk", True, 0.25, 0.3, 0.95, 6512, "predictions by soft majority at epsilon=0.1", PROOF),
    requests.Evaluate(model="risk", at_most=(0.3, 0.2), epsilon=0.1),
    Marginals((CELLS,), PROOF),
    requests.MarginalSets(sets="pairs", columns=("region", requests.Cut("age", (18.0, 65.0))), margins=True),
    Synthetic(("smoker",), ((True,), (None,)), (1, 2), 7, (CELLS,)),
    requests.Synthesize(columns=("smoker",), rows=3),
    Prediction(True, PROOF, error_bound=0.125, confidence=0.95),
    requests.Train(name="risk", target="smoker", hypotheses=STUMPS, assuming="realizable", order="fixed"),
    Evaluation("x > 1", True, 0.25, 0.375, 0.95, 400, "the learned rule for y", PROOF, value=0.125, low=0.0625),
    requests.Evaluate(entry=12),
    Workload(
        ("smoker",), ((True,),), (0.25,), (0.2,), (0.3,), (0.24,), (0.26,), 0.95, PROOF, box_low=(0.22,), box_high=(0.28,)
    ),
]
TEXTS = (Path(__file__).parent / "golden_records.jsonl").read_bytes().splitlines()


@pytest.mark.parametrize(("value", "text"), list(zip(VALUES, TEXTS, strict=True)), ids=lambda v: type(v).__name__)
def test_the_bytes_are_those_of_version_1(value, text):
    assert codec.VERSION == 1
    assert encode(value).encode() == text
    assert decode(text, type(value)) == value


def test_there_is_an_example_of_everything():
    kinds = {type(value) for value in VALUES}
    assert kinds >= {*get_args(Event), *get_args(Response), *get_args(requests.Request)}
    assert kinds >= {kind for kind in _below(Record) if not kind.__subclasses__() or kind is records.Answer}


def _below(kind):
    return {each for direct in kind.__subclasses__() for each in (direct, *_below(direct))}
