"""Findings read back as they were written, and say what they are."""

import json
import math

import pytest

import holdtrue as ht
from holdtrue.auditing import Finding

FOUND = Finding(
    "epsilon", 1.0, 1.5, 0.95, 1000, "the <output> is large", "It is wrong.", delta=1e-6, notes=(("pair", "0, 1"),)
)


@pytest.mark.parametrize("finding", [FOUND, Finding("total variation", 0.1, math.inf, 1.0, 0, "x", "y")])
def test_a_finding_reads_back(finding):
    text = json.dumps(finding.document, allow_nan=False)
    assert Finding.read(text) == Finding.read(json.loads(text)) == finding
    assert json.loads(text)["violated"] is True


def test_text_and_html_say_all_and_escape_it():
    assert FOUND.violated
    assert not Finding("epsilon", 1.0, 1.0, 0.95, 1, "x", "y").violated
    for words in ("It is wrong.", "VIOLATED", "1.5", "0.95", "1,000", "delta 1e-06", "0, 1"):
        assert words in str(FOUND)
        assert words in FOUND._repr_html_()
    assert "&lt;output&gt;" in FOUND._repr_html_()


def test_a_finding_that_contradicts_itself_is_refused():
    with pytest.raises(ht.InvalidParameter, match="violated"):
        Finding.read(FOUND.document | {"violated": False})
    with pytest.raises(ht.InvalidParameter, match="fields"):
        Finding.read({"record": "finding"})
    with pytest.raises(ht.InvalidParameter, match="lower_bound"):
        Finding("epsilon", 1.0, math.nan, 0.95, 1, "x", "y")
    with pytest.raises(ht.InvalidParameter, match="confidence"):
        Finding("epsilon", 1.0, 1.0, 0.0, 1, "x", "y")
