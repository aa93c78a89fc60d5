"""The messages of InvalidParameter, here and over HTTP."""

import pytest

from holdtrue.errors import InvalidParameter
from holdtrue.service.http.problems import detail_of


def test_a_value_is_shown_unless_it_is_withheld():
    assert str(InvalidParameter("beta", 2, "a number in (0, 1)")) == "beta must be a number in (0, 1); got 2"
    assert str(InvalidParameter.without_value("beta", "a number in (0, 1)")) == "beta must be a number in (0, 1)"


def test_a_sentence_is_the_whole_message_and_the_parameter_is_still_named():
    error = InvalidParameter.saying("ids", "ids must be unique")
    assert str(error) == "ids must be unique"
    assert error.parameter == "ids"
    assert error.is_sentence


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (InvalidParameter("beta", 2, "a number in (0, 1)"), "beta must be a number in (0, 1)"),
        (InvalidParameter.without_value("beta", "a number in (0, 1)"), "beta must be a number in (0, 1)"),
        (InvalidParameter.saying("mu", "give either epsilon or mu"), "give either epsilon or mu"),
        (InvalidParameter.saying("rows", f"rows have no column {'secret'!r}"), "rows have no column …"),
    ],
    ids=["value", "without value", "sentence", "sentence that quotes the request"],
)
def test_over_http_a_message_quotes_nothing_of_the_request(error, detail):
    assert detail_of(error) == detail
