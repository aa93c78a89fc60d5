"""One value, one text: what the codec writes, what it refuses, and how it says so."""

import json
import math
import random
from collections import OrderedDict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Literal
from uuid import UUID

import numpy as np
import pytest
from msgspec import Meta, Struct

from holdtrue.codec import convert, decode, digest_of, encode, plain
from holdtrue.errors import InvalidParameter, RequestError


class Form(Struct, frozen=True, forbid_unknown_fields=True):
    """What the tests read."""

    parts: Annotated[int, Meta(ge=1, le=5)] = 1
    name: Annotated[str, Meta(min_length=1, max_length=4, pattern="^[a-z]+$")] = "a"
    queries: Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1, max_length=2)] | None = None
    rule: Literal["x", "y"] = "x"
    bounds: dict[str, tuple[float, float]] | None = None
    share: Annotated[float, Meta(gt=0, lt=1)] | None = None
    number: Fraction = Fraction(1)
    inner: "Form | None" = None


def value_of(source, depth=3):
    """Return a value that JSON can hold, of any shape."""
    if depth and source.random() < 0.6:
        inner = [value_of(source, depth - 1) for _ in range(source.randrange(4))]
        return (
            inner
            if source.random() < 0.5
            else {source.choice('abcdé\n"\\\x1f\u2028') + str(i): v for i, v in enumerate(inner)}
        )
    floats = (0.0, -0.0, 1.0, 1e-300, 5e-324, 1 / 3, 1e16, 1e22, 1.7976931348623157e308)
    return source.choice((None, True, False, 0, -1, 2**63, 10**30, *floats, "", "é\u2028", "a\tb\x00\x7f"))


def test_any_value_reads_back_and_has_one_text():
    source = random.Random("codec")
    for _ in range(3000):
        value = value_of(source)
        text = encode(value)
        assert json.loads(text) == value
        assert encode(json.loads(text)) == text
        assert " " not in text


def test_the_order_of_a_mapping_and_the_kind_of_a_list_do_not_matter():
    assert encode({"b": 1, "a": [1.5, "é"]}) == encode(OrderedDict(a=(1.5, "é"), b=1)) == '{"a":[1.5,"é"],"b":1}'
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1}) != digest_of({"a": 1, "b": 3})


def test_numbers_of_other_kinds_are_written_as_what_they_are():
    assert encode({"a": np.float64(0.25), "b": np.str_("x"), "c": Fraction(1, 3)}) == '{"a":0.25,"b":"x","c":"1/3"}'
    assert encode(Form(number=Fraction(-7, 2))).find('"number":"-7/2"') > 0
    assert encode({"t": datetime(2026, 1, 2, 3, 4, tzinfo=UTC)}) == '{"t":"2026-01-02T03:04:00Z"}'


@pytest.mark.parametrize(
    "wrong",
    [
        math.nan,
        math.inf,
        -math.inf,
        np.float64("nan"),
        b"x",
        Decimal("1.5"),
        date(2026, 1, 1),
        timedelta(1),
        UUID(int=1),
        np.int64(3),
        np.arange(3),
        object(),
        "\ud800",
        10**5000,
        {1: 2},
        {None: 1},
        1j,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_cannot_hold_is_refused_wherever_it_stands(wrong):
    for value in (wrong, [wrong], {"a": wrong}, {"a": [1, {"b": (None, wrong)}]}, Form(bounds={"a": wrong})):
        with pytest.raises(RequestError, match="cannot be written as JSON"):
            encode(value)


def test_a_value_that_holds_itself_is_refused():
    endless: list = []
    endless.append(endless)
    with pytest.raises(RequestError, match="cannot be written as JSON"):
        encode(endless)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"parts":0}', "parts must be a whole number, 1 or above"),
        ('{"parts":9}', "parts must be a whole number, at most 5"),
        ('{"parts":1.5}', "parts must be a whole number, not a number"),
        ('{"parts":true}', "parts must be a whole number, not true or false"),
        ('{"parts":null}', "parts must be a whole number, not null"),
        ('{"parts":1e400}', "parts must be a number that fits"),
        ('{"name":""}', "name must be text of length 1 or more"),
        ('{"name":"aaaaa"}', "name must be text of length 4 or less"),
        ('{"name":"A"}', "name must be text that matches '^[a-z]+$'"),
        ('{"queries":[]}', "queries must be a list of length 1 or more"),
        ('{"queries":["a","b","c"]}', "queries must be a list of length 2 or less"),
        ('{"queries":["a",1]}', "queries[1] must be text, not a whole number"),
        ('{"rule":"z"}', "rule must be 'x' or 'y'"),
        ('{"bounds":{"k":[1]}}', "bounds must be a list of length 2"),
        ('{"bounds":{"k":["1",2]}}', "bounds[0] must be a number, not text"),
        ('{"bounds":[]}', "bounds must be an object or null, not a list"),
        ('{"share":0}', "share must be a number above 0.0"),
        ('{"share":1}', "share must be a number below 1.0"),
        ('{"share":"x"}', "share must be a number or null, not text"),
        ('{"number":"1/0"}', 'number must be a rational in text, such as "1/3"'),
        ('{"number":"1e999999999"}', 'number must be a rational in text, such as "1/3"'),
        ('{"number":0.5}', 'number must be a rational in text, such as "1/3"'),
        ('{"more":1}', "more must be left out: there is no such field"),
        ('{"inner":{"parts":0}}', "inner.parts must be a whole number, 1 or above"),
        ('{"inner":{"more":0}}', "inner.more must be left out: there is no such field"),
        ('{"a\\nb":1}', r"'a\nb' must be left out: there is no such field"),
        ("[]", "document must be an object, not a list"),
    ],
)
def test_a_mistake_names_the_field_in_one_line(text, words):
    with pytest.raises(InvalidParameter) as found:
        decode(text, Form)
    assert str(found.value) == words
    if "1e400" not in text:
        with pytest.raises(InvalidParameter) as found:
            convert(json.loads(text), Form)
        assert str(found.value) == words


@pytest.mark.parametrize("text", ["", "{", "nope", '{"parts":NaN}', '"\\ud800"', b"\xff", "[" * 10_000 + "]" * 10_000])
def test_what_is_no_json_is_refused_without_a_quotation(text):
    with pytest.raises(RequestError, match=r"^this is not JSON$"):
        decode(text, object)


def test_text_is_needed():
    with pytest.raises(InvalidParameter, match="text must be JSON as text"):
        decode(None, Form)


def test_plain_values_are_what_json_reads_as():
    form = Form(queries=["é"], inner=Form(parts=2))
    assert plain(form) == json.loads(encode(form))
    assert convert(plain(form), Form) == decode(encode(form), Form) == form


def test_half_of_a_surrogate_pair_is_refused_within_the_tree():
    with pytest.raises(RequestError, match="surrogate"):
        convert("\ud800", Form)
