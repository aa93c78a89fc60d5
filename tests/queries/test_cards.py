"""The card: what is public, checked when it is made."""

import json

import pytest

from holdtrue.codec import convert, encode
from holdtrue.errors import InvalidParameter, UnknownColumn
from holdtrue.queries.cards import Card, Column


def test_a_card_reads_back_as_it_was_written(card):
    document = json.loads(encode(card))
    assert convert(document, Card) == card
    assert hash(convert(document, Card)) == hash(card)


def test_a_column_is_found_by_its_exact_name(card):
    assert card.column("age").bounds == (0, 120)
    assert card.column("v1.score").type == "real"


def test_a_card_holds_the_exact_names_of_its_columns(card):
    assert [name in card for name in ("age", "v1.score", "AGE", "")] == [True, True, False, False]


@pytest.mark.parametrize(
    ("wrong", "meant"), [("agee", "age"), ("AGE", "age"), ("smokr", "smoker"), ("v1_score", "v1.score")]
)
def test_an_unknown_column_suggests_the_nearest(card, wrong, meant):
    with pytest.raises(UnknownColumn, match=f"did you mean '{meant}'"):
        card.column(wrong)


def test_an_unknown_column_like_none_lists_what_there_is(card):
    with pytest.raises(UnknownColumn, match="the card has 'age', 'visits'"):
        card.column("zzzzzz")
    with pytest.raises(UnknownColumn, match="no columns"):
        Card((), 0).column("age")


@pytest.mark.parametrize(
    "made",
    [
        lambda: Column("", "real"),
        lambda: Column("a\nb", "real"),
        lambda: Column("a" * 256, "real"),
        lambda: Column(7, "real"),
        lambda: Column("a", "float"),
        lambda: Column("a", "real", bounds=(2, 1)),
        lambda: Column("a", "real", bounds=(0, float("nan"))),
        lambda: Column("a", "integer", bounds=(0.2, 0.8)),
        lambda: Column("a", "text", bounds=(0, 1)),
        lambda: Column("a", "real", bounds=5),
        lambda: Column("a", "text", labels=()),
        lambda: Column("a", "text", labels=("x", "x")),
        lambda: Column("a", "integer", labels=(True, False)),
        lambda: Column("a", "date", labels=("2026-01-31",)),
        lambda: Column("a", "timestamp", bounds=(0, 1)),
        lambda: Card((Column("a", "real"), Column("A", "real")), 1),
        lambda: Card(("a",), 1),
        lambda: Card((), -1),
        lambda: convert({"rows": 1}, Card),
        lambda: convert({"rows": 1, "columns": [{"name": "a"}]}, Card),
        lambda: convert({"rows": 1, "columns": [{"name": "a", "type": "real", "more": 1}]}, Card),
    ],
)
def test_a_wrong_card_is_refused(made):
    with pytest.raises(InvalidParameter):
        made()


def test_bounds_of_integers_are_integers():
    assert Column("a", "integer", bounds=[0.5, 1e30]).bounds == (1, 2**63 - 1)
