"""The tables of docs/how-to/choosing.md are what ``ht.plan`` says."""

import re
from pathlib import Path

import pytest

import holdtrue as ht

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "choosing.md").read_text(encoding="utf-8")


def table(head):
    """Return the rows below a table's first heading, as numbers."""
    _, _, rest = PAGE.partition(f"| {head} |")
    rows = rest.partition("\n\n")[0].splitlines()[2:]
    return [[float(cell.replace(",", "")) for cell in row.strip("| ").split("|")] for row in rows]


def shown(alpha):
    return pytest.approx(alpha, abs=0.51e-4)


def test_widths_by_rows_and_questions():
    for rows, *alphas in table("rows"):
        for queries, alpha in zip((10, 100, 1_000, 10_000), alphas, strict=True):
            assert alpha == shown(ht.plan(rows=int(rows), queries=queries).alpha)


def test_widths_by_beta_and_reserve():
    for beta, alpha in table("beta"):
        assert alpha == shown(ht.plan(rows=100_000, queries=1_000, beta=beta).alpha)
    for reserve, alpha in table("reserve"):
        assert alpha == shown(ht.plan(rows=100_000, queries=1_000, reserve=reserve).alpha)


def test_widths_by_epsilon_under_both_caps():
    found = table("epsilon (delta 1e-6)")
    assert len(found) == 5
    for epsilon, *alphas in found:
        for cap, alpha in zip(("validity", "privacy"), alphas, strict=True):
            assert alpha == shown(ht.plan(rows=100_000, queries=1_000, epsilon=epsilon, delta=1e-6, cap=cap).alpha)
    for epsilon, alpha in table("epsilon (delta 1e-6), `iid=False`"):
        assert alpha == shown(ht.plan(rows=100_000, queries=1_000, epsilon=epsilon, delta=1e-6, iid=False).alpha)


def test_the_privacy_that_validity_brings():
    plan = ht.plan(rows=100_000, queries=1_000)
    epsilon = float(re.search(r"epsilon (0\.\d+) at delta 1e-6, asked or not", PAGE)[1])
    assert plan.delta == 1e-6
    assert epsilon - 0.01 <= plan.epsilon <= epsilon


def test_every_table_has_rows():
    heads = re.findall(r"^\| ([^|]+) \|.*\n\|---", PAGE, re.MULTILINE)
    assert all(table(head) for head in heads)
    assert len(heads) == 5
