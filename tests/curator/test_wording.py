"""What is written out field by field is the canonical JSON of the record."""

import math
import random
from dataclasses import replace

import pytest

from holdtrue import events
from holdtrue.curator import wording
from holdtrue.curator.wording import listed, text_of
from holdtrue.records import Answer, Certificate, Interval, Prediction, canonical, to_json


def answer_of(source):
    def number():
        return source.choice([0.0, 1.0, 1e-300, 1 / 3, 0.1 + 0.2, 123456.789, 5e-324])

    low, high = sorted((source.random(), source.random()))
    event = source.choice([events.Gaussian(0.25), events.Repeated(events.Gaussian(0.5), 3), events.NoCost()])
    theorem = source.choice([None, "T6", 'a "quoted" é'])
    proof = Certificate(event, number(), number(), number(), source.randrange(10**9), "ab" * 32, theorem, number(), number())
    interval = source.choice([None, Interval(low, high, 0.95, "population")])
    reason = source.choice([None, "because", "wéil \n"])
    return Answer(number(), interval, Interval(low, high, 0.9, "sample"), proof, reason, source.random() < 0.5)


def test_an_answer_is_worded_as_its_canonical_json():
    source = random.Random("wording")
    for _ in range(2000):
        answer = answer_of(source)
        assert text_of(answer) == canonical(to_json(answer)) == text_of(answer)


def test_the_text_of_another_answer_is_never_given(monkeypatch):
    # Answers that come and go take each other's place in memory.
    source = random.Random("places")
    for _ in range(5000):
        answer = replace(answer_of(source), value=source.random())
        assert f'"value":{answer.value!r}}}' in text_of(answer)
    assert len(wording._TEXTS) <= wording._MOST
    # The planted fault: a memory that does not keep the answer beside its text.
    monkeypatch.setattr(wording, "_TEXTS", dict.fromkeys(range(10), (None, "another")))
    assert text_of(answer) == canonical(to_json(answer))


def test_whole_numbers_and_other_records_are_worded_alike():
    answer = answer_of(random.Random("whole"))
    for other in (replace(answer, value=1), replace(answer, certificate=replace(answer.certificate, cost=0))):
        assert text_of(other) == canonical(to_json(other))
    prediction = Prediction("yes", answer.certificate)
    assert text_of(prediction) == canonical(to_json(prediction))


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_what_is_not_finite_is_refused(wrong):
    answer = answer_of(random.Random("infinite"))
    for bad in (replace(answer, value=wrong), replace(answer, certificate=replace(answer.certificate, spent=wrong))):
        with pytest.raises(ValueError, match="JSON"):
            text_of(bad)


def test_texts_are_listed_as_json():
    texts = ["a", 'b "c"', "é\n\\", ""]
    assert '{"list":' + listed(texts) + "}" == canonical({"list": texts})
