"""Records are frozen, public and read back as they were written."""

import json
import math

import pytest

from holdtrue import events, records
from holdtrue.errors import InvalidParameter
from holdtrue.records import Answer, Certificate, Choice, Hypothesis, Interval, Prediction, canonical, from_json, to_json

CERTIFICATE = Certificate(
    event=events.Gaussian(0.125),
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
RECORDS = [
    POPULATION,
    CERTIFICATE,
    Answer(0.35, POPULATION, SAMPLE, CERTIFICATE),
    Answer(0.35, None, SAMPLE, CERTIFICATE, reason="the rows were not declared independent draws"),
    Choice("north", 0, 12.5, CERTIFICATE),
    Prediction("yes", CERTIFICATE),
    Prediction(None, CERTIFICATE, repeated=True),
    Hypothesis("age ≥ 52.5 → 1", 3, 10, 0.05, 0.95, 12.0, ("age",), '{"class":"stumps"}', CERTIFICATE),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: type(r).__name__)
def test_records_survive_json_unchanged(record):
    assert from_json(json.loads(canonical(to_json(record)))) == record


def test_every_kind_of_record_is_tested():
    assert {type(record) for record in RECORDS} == set(records._KINDS.values())


def test_canonical_json_is_one_text():
    assert canonical({"b": 1, "a": [1.5, "é"]}) == '{"a":[1.5,"\\u00e9"],"b":1}'
    with pytest.raises(ValueError, match="JSON"):
        canonical({"a": math.nan})


@pytest.mark.parametrize(
    "arguments",
    [
        (0.5, 0.25, 0.95, "population"),
        (math.nan, 1, 0.95, "sample"),
        (0, math.inf, 0.95, "sample"),
        (0, 1, 0, "sample"),
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


@pytest.mark.parametrize("document", [{}, {"record": "other"}, {"record": "interval", "low": 0}])
def test_what_is_no_record_is_refused(document):
    with pytest.raises(InvalidParameter):
        from_json(document)
