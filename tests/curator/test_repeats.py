"""A repeat is recognised by public things only: the text of a query or a public name, never by private contents."""

import hashlib

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.verbs.asking import QuestionRule

ROWS = 5000


@pytest.fixture
def sick():
    return np.random.default_rng(0).random(ROWS) < 0.2


def opened(rows, **terms):
    given = {"queries": 20, "epsilon": 0.1, "delta": 1e-6, "reserve": 0.5, "iid": True} | terms
    return ht.Curator({"sick": rows}, **given)


def without_row(rows, place):
    """Return what trusted code makes of the rows when it leaves one of them out."""
    return np.where(np.arange(ROWS) == place, 0.0, rows.astype(float))


def observe(rows):
    """Return everything but the drawn values that one fixed policy sees: flags, what is left, and the ledger's columns."""
    with opened(rows) as curator:
        every, some = rows.astype(float), without_row(rows, 17)
        answers = [curator.ask(values=every), curator.ask(values=some)]
        choices = [curator.select({"a": int(numbers.sum()), "b": 0}, epsilon=0.01) for numbers in (every, some)]
        lines = [(entry.kind, entry.verb, entry.cost, len(entry.body or "")) for entry in curator.ledger.entries()]
        digests = [entry.request_digest for entry in curator.ledger.entries() if entry.kind == "charge"]
        flags = [response.repeated for response in (*answers, *choices)]
        kinds = [line[:3] for line in lines]
        return flags, curator.budget.asks, curator.budget.spent, kinds, len(set(digests))


def test_equal_private_vectors_are_never_told_apart_from_unequal_ones(sick):
    seen = []
    for value in (False, True):
        rows = sick.copy()
        rows[17] = value  # False: both vectors are the same one
        seen.append(observe(rows))
    assert seen[0] == seen[1]
    assert seen[0][0] == [False] * 4


def test_names_made_of_the_contents_tell_one_row_for_nothing(sick, monkeypatch):
    # The planted fault: what a private vector holds names it, as a keyed hash did.
    ask_values = QuestionRule.ask_values

    def name_by_contents(self, pipeline, values, *, known_as, **given):  # noqa: ARG001 - what should name them
        contents = hashlib.sha256(np.asarray(values, dtype=float).tobytes()).hexdigest()
        return ask_values(self, pipeline, values, known_as=contents, **given)

    monkeypatch.setattr(QuestionRule, "ask_values", name_by_contents)
    seen = []
    for value in (False, True):
        rows = sick.copy()
        rows[17] = value
        seen.append(observe(rows))
    assert seen[0] != seen[1]


def test_a_public_name_makes_it_the_same_request_whatever_it_holds_now(sick):
    with opened(sick) as curator:
        first = curator.ask(values=sick.astype(float), name="sick on Monday")
        spent = curator.budget.spent
        again = curator.ask(values=1 - sick.astype(float), name="sick on Monday")
        assert (again.value, again.repeated, curator.budget.spent) == (first.value, True, spent)
        assert not curator.ask(values=sick.astype(float), name="sick on Tuesday").repeated
        assert "sick on Monday" in str(curator.history[0])

        chosen = curator.select({"a": 3, "b": 7}, epsilon=0.01, name="monday")
        assert curator.select({"a": 7, "b": 3}, epsilon=0.01, name="monday").index == chosen.index
        assert not curator.select({"a": 3, "b": 7}, epsilon=0.02, name="monday").repeated


def test_the_same_key_gives_the_stored_answer_whatever_the_numbers_are_now(sick):
    with opened(sick) as curator:
        first = curator.ask(values=sick.astype(float), key="k")
        again = curator.ask(values=1 - sick.astype(float), key="k")
        assert again.value == first.value
        choice = curator.select({"a": 3, "b": 7}, epsilon=0.01, key="k2")
        assert curator.select({"a": 7, "b": 3}, epsilon=0.01, key="k2").index == choice.index
        with pytest.raises(ht.RefusedError, match="used for another request"):
            curator.ask("sick", key="k")


@pytest.mark.parametrize("name", ["", "x" * 201, 7, "a\0b", "\ud800"])
def test_a_name_is_short_text(sick, name):
    with opened(sick) as curator:
        with pytest.raises(ht.InvalidParameter, match="name"):
            curator.ask(values=sick.astype(float), name=name)
        assert curator.budget.spent == 0


def test_queries_need_no_name(sick):
    with opened(sick) as curator:
        with pytest.raises(ht.InvalidParameter, match="known by their text"):
            curator.select({"a": "sick", "b": "NOT sick"}, name="monday")
        with pytest.raises(ht.InvalidParameter):
            curator.ask("sick", name="monday")


def test_a_plan_without_the_transfer_theorem_claims_nothing_about_per_row_numbers():
    rows = np.random.default_rng(1).random(60_000) < 0.2
    plan = ht.plan(rows=60_000, queries=20, method="jung20")
    with ht.Curator({"sick": rows}, plan=plan) as curator:
        answer = curator.ask(values=rows.astype(float))
        assert answer.interval is None
        assert answer.certificate.theorem is None
        assert "per-row" in answer.reason
        assert curator.ask("sick").interval is not None


def test_a_request_of_many_parts_reads_its_entry_once(monkeypatch):
    """More parts than the index keeps: each used to be read from the whole entry again, which took the square of them."""
    from holdtrue.curator import answer_index

    read, responses_of = [], answer_index.responses_of
    monkeypatch.setattr(answer_index, "_RECENT", 10)
    monkeypatch.setattr(answer_index, "responses_of", lambda body: (read.append(1), responses_of(body))[1])
    rows = {"x": np.arange(ROWS)}
    with ht.Curator(rows, queries=50, epsilon=1.0, delta=1e-6) as curator:
        found = curator.ask([f"x < {place}" for place in range(40)])
        assert len(found) == 40
        assert len(read) == 1
