"""LIKE: the matcher against its definition."""

import itertools
import re

import pytest

from holdtrue.queries.like import compile_pattern, simplify_pattern


def _defined(pattern, text):
    translated = "".join({"%": ".*", "_": "."}.get(sign, re.escape(sign)) for sign in pattern)
    return re.fullmatch(translated, text, re.DOTALL) is not None


def test_the_matcher_is_the_definition_on_all_short_patterns_and_texts():
    texts = ["".join(letters) for length in range(5) for letters in itertools.product("ab", repeat=length)]
    for length in range(5):
        for signs in itertools.product("ab%_", repeat=length):
            pattern = "".join(signs)
            for shape in (pattern, simplify_pattern(pattern)):
                matches = compile_pattern(shape)
                assert [matches(text) for text in texts] == [_defined(pattern, text) for text in texts], pattern


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("_", "🙂", True),
        ("_", "e\u0301", False),
        ("a%b", "a\n\nb", True),
        ("\\%", "\\x", True),
        ("\\_", "\\_", True),
        ("\\_", "_", False),
        (".*", "ab", False),
        ("A", "a", False),
        ("%", "", True),
    ],
)
def test_wildcards_are_two_and_nothing_escapes(pattern, text, expected):
    assert compile_pattern(pattern)(text) is expected


def test_no_pattern_goes_back():
    """A backtracking matcher would not come back from this one."""
    assert compile_pattern("%a" * 200 + "%b")("a" * 20_000) is False
