"""The page of an audit: self-contained, escaped, and drawn from the numbers of its findings."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from holdtrue.auditing.catalogue import AuditResult, ProvedCurve, audit_page, list_mechanisms, prove_curves
from holdtrue.auditing.findings import Finding

(LAPLACE,), (FAULT,) = list_mechanisms(only="Laplace mechanism"), list_mechanisms(only="half the noise")


def _finding(bound, claimed=1.0):
    return Finding("epsilon", claimed, bound, 0.99, 1000, "the output is below 1; likelier on the left", "A <sentence>.")


def _page(*results, curves=()):
    return audit_page(results, curves=curves, confidence=0.95, seconds=3.2)


GOOD = AuditResult(LAPLACE, _finding(0.95))
BROKEN = AuditResult(LAPLACE, _finding(1.2))
CAUGHT = AuditResult(FAULT, _finding(1.9), 0.9999123)
MISSED = AuditResult(FAULT, _finding(0.9))


def test_the_page_is_well_formed_and_holds_every_verdict():
    page = _page(GOOD, CAUGHT)
    HTMLParser().feed(page)
    assert page.count("1 of 1") == 2
    assert "0.999912" in page
    assert "Laplace mechanism" in page
    assert "half the noise" in page
    assert page.count('<circle class="kept"') == 2  # one in the legend
    assert page.count('<circle class="broken"') == 2


def test_nothing_is_fetched_and_nothing_is_run():
    page = _page(GOOD, CAUGHT, curves=[ProvedCurve("a", "b", ((0.0, 0.4),), ((0.0, 0.5),))])
    assert not re.search(r"<script|<link|<img|<iframe|@import|url\(|https?:|\bon\w+=", page)


def test_a_verdict_that_is_not_expected_stands_out():
    assert "(!)" not in _page(GOOD, CAUGHT)
    page = _page(GOOD, MISSED)
    assert "not found (!)" in page
    assert "violated" not in page
    assert "0 of 1" in page
    assert "violated (!)" in _page(BROKEN, CAUGHT)


def test_what_others_wrote_is_escaped():
    named = replace(LAPLACE, name="<b onclick=1>", why="<script>")
    page = _page(AuditResult(named, _finding(0.5)))
    assert "<script" not in page
    assert "<b onclick" not in page
    assert "A &lt;sentence&gt;." in page


@pytest.mark.parametrize(("bound", "further"), [(0.5, 1.0), (1.5, 3.0)])
def test_dots_lie_in_the_order_of_their_bounds(bound, further):
    def place(value):
        drawn = _page(AuditResult(FAULT, _finding(value)))
        (found,) = re.findall(r'<circle class="(?:kept|broken)" cx="([0-9.]+)" cy="12"', drawn)
        return float(found)

    assert place(bound) < place(further)


def test_curves_prove_nothing_beyond_a_right_claim_and_break_a_wrong_one():
    """Five parts in a hundred may fail by chance: the margins are wider than any chance."""
    curves = {curve.name: curve for curve in prove_curves(samples=20_000)}
    assert len(curves) == 4
    over = {
        name: max(y - most for (_, y), (_, most) in zip(curve.proved, curve.allowed, strict=True))
        for name, curve in curves.items()
    }
    assert over["Laplace mechanism"] < 0.05
    assert over["Gaussian mechanism"] < 0.05
    assert over["half the noise"] > 0.1
    assert over["votes weighted e^(epsilon count)"] > 0
    assert 'polyline class="proved broken"' in _page(GOOD, curves=[curves["half the noise"]])
