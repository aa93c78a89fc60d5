"""Records are frozen, public and read back as they were written."""

import copy
import math
import pickle

import pytest
from msgspec.structs import replace

from holdtrue import events
from holdtrue.codec import convert, decode, encode
from holdtrue.errors import InvalidParameter, NotCertified
from holdtrue.holdouts.records import Score, Verdict
from holdtrue.records import (
    Answer,
    Certificate,
    Choice,
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
    Tagged,
    WatchAnswer,
    WatchRun,
    Workload,
)

CERTIFICATE = Certificate(
    event=events.GaussianNoise(0.125),
    cost=0.015625,
    spent=0.5,
    left=0.25,
    entry=12,
    digest="ab" * 32,
    theorem="T6",
    epsilon=1.0,
    delta=1e-6,
)
POPULATION = Interval(0.25, 0.5, 0.95, "population")
SAMPLE = Interval(0.3, 0.4, 0.95, "sample")
SHARES = Estimates((0.25,), (0.2,), (0.3,), (0.24,), (0.26,))
CELLS = Table(
    ("age",), (("18 to 65",), (None,)), (0.75, 0.25), (0.7, 0.2), (0.8, 0.3), (0.74, 0.24), (0.76, 0.26), 0.95, CERTIFICATE
)
RECORDS = [
    CELLS,
    Marginals((CELLS,), CERTIFICATE),
    Synthetic(("age",), (("18 to 65",), (None,)), (3, 1), 0, (CELLS,)),
    POPULATION,
    CERTIFICATE,
    Answer(0.35, POPULATION, SAMPLE, CERTIFICATE),
    Answer(0.35, None, SAMPLE, CERTIFICATE, reason="the rows were not declared independent draws"),
    Choice("north", 0, 12.5, CERTIFICATE),
    Prediction("yes", CERTIFICATE),
    Workload(("a",), ((True,),), (0.25,), None, None, (0.2,), (0.3,), 0.95, CERTIFICATE),
    Evaluation("risk", True, 0.25, None, 0.95, 6512, "predictions", CERTIFICATE, "not declared independent"),
    WatchAnswer(True, 0.5, POPULATION, SAMPLE, 1, 2, 0.01, CERTIFICATE),
    WatchRun("5eb1" * 16, CERTIFICATE),
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
        0.05,
        CERTIFICATE,
    ),
    Deduction("age > 65", POPULATION, SAMPLE, (1, 3), 8, "follows from earlier answers (U7)"),
    Prediction(None, CERTIFICATE, repeated=True),
    Means(
        columns=("sex",),
        labels=(("men",),),
        values=(41.5,),
        low=(38.0,),
        high=(45.0,),
        sample_low=(41.0,),
        sample_high=(42.0,),
        confidence=0.95,
        certificate=CERTIFICATE,
        measure="mean",
        column="hours",
        bounds=(0.0, 100.0),
        rows=1000,
        where=None,
        shares=SHARES,
        per_head=SHARES,
        below=SHARES,
        above=SHARES,
        missing=SHARES,
    ),
    Quantiles(
        *("age", (0.5,), (41.0,), None, None, (40.0,), (42.0,), 0.95, (31.0, 63.0), (0.25, 0.75)),
        *("smoker", "search", 2, 0.03125, CERTIFICATE),
        complete=False,
        reason="the rows were not declared independent draws",
    ),
    Statistic(
        measure="correlation",
        subject="bmi and age",
        value=0.5,
        interval=None,
        sample_interval=Interval(0.25, 0.75, 0.95, "sample"),
        sensitivity=None,
        target="the correlation in the population",
        certificate=CERTIFICATE,
        parts=(
            Statistic(
                measure="variance",
                subject="bmi from 14 to 60",
                value=36.5,
                interval=Interval(30.0, 40.0, 0.95, "population"),
                sample_interval=Interval(36.0, 37.0, 0.95, "sample"),
                sensitivity=2116.0,
                target="the variance in the population",
                certificate=CERTIFICATE,
            ),
        ),
        reason="the rows were not declared independent draws",
    ),
    Hypothesis("age ≥ 52.5 → 1", 3, 10, 0.05, 0.95, 12.0, ("age",), '{"class":"stumps"}', CERTIFICATE),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: type(r).__name__)
def test_records_survive_json_unchanged(record):
    assert decode(encode(record), type(record)) == record
    assert pickle.loads(pickle.dumps(record)) == copy.deepcopy(record) == copy.copy(record) == record  # noqa: S301 - our own
    assert hash(decode(encode(record), type(record))) == hash(record)
    if not isinstance(record, (Interval, Certificate, Deduction, Marginals, Synthetic)):
        assert decode(encode([record]), list[Response]) == [record]


def test_every_kind_of_record_is_tested():
    assert {type(record) for record in RECORDS} == set(_find_leaves(Tagged)) - {Score, Verdict}


def _find_leaves(kind):
    below = [leaf for each in kind.__subclasses__() for leaf in _find_leaves(each)]
    return [*below, *([kind] if kind is Answer or not below else [])]


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_in_no_record(wrong):
    answer = RECORDS[5]
    for make in (
        lambda: replace(answer, value=wrong),
        lambda: replace(CERTIFICATE, spent=wrong),
        lambda: replace(CERTIFICATE, epsilon=wrong),
        lambda: Choice("north", 0, wrong, CERTIFICATE),
        lambda: Prediction(wrong, CERTIFICATE),
        lambda: Estimates((wrong,), None, None, (0.0,), (1.0,)),
        lambda: replace(RECORDS[-3], high=(wrong,)),
        lambda: replace(RECORDS[-2], sensitivity=wrong),
        lambda: replace(RECORDS[-1], excess_error=wrong),
        lambda: replace(RECORDS[-1], shortfall=wrong),
        lambda: Score(wrong, None, SAMPLE, CERTIFICATE),
        lambda: Verdict(True, wrong, 1, 1, SAMPLE, None, "", CERTIFICATE),
    ):
        with pytest.raises(InvalidParameter, match="finite"):
            make()


def test_a_hypothesis_keeps_its_class_and_neither_writes_nor_compares_it():
    bare = RECORDS[-1]
    able = bare.with_reader(abs)
    assert (able, hash(able), encode(able), repr(able)) == (bare, hash(bare), encode(bare), repr(bare))
    assert able.predict(-1) == pickle.loads(pickle.dumps(able)).predict(-1) == copy.deepcopy(able).predict(-1) == 1  # noqa: S301
    with pytest.raises(NotCertified, match="without its class"):
        bare.predict(-1)


@pytest.mark.parametrize(
    "arguments",
    [
        (0.5, 0.25, 0.95, "population"),
        (math.nan, 1, 0.95, "sample"),
        (0, math.inf, 0.95, "sample"),
        (0, 1, 0, "sample"),
        (0, 1, 0.95, "members"),
        (0, 1, 0.95, "all"),
    ],
)
def test_intervals_check_themselves(arguments):
    with pytest.raises(InvalidParameter):
        Interval(*arguments)


def test_an_interval_reads_well():
    assert str(POPULATION) == "[0.25, 0.5] (95%, population)"
    assert 0.3 in POPULATION
    assert 0.6 not in POPULATION
    assert POPULATION.width == 0.25


@pytest.mark.parametrize("document", [{}, {"record": "other"}, {"record": "answer", "value": 0}, {"record": "interval"}, []])
def test_what_is_no_record_is_refused(document):
    with pytest.raises(InvalidParameter):
        convert(document, Response)
