"""The frame: what reads like pandas builds the requests of the verbs, and nothing else."""

from datetime import date

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.curator.frame import Frame
from holdtrue.errors import HoldtrueError, InvalidParameter, UnknownColumn, UnsupportedQuery
from holdtrue.queries import parse
from holdtrue.queries.cards import Card, Column

CARD = Card(
    (
        Column("age", "integer", bounds=(0, 120)),
        Column("income", "real"),
        Column("region", "text", labels=("N", "S")),
        Column("smoker", "boolean"),
        Column("house hold", "integer"),
        Column("count", "integer"),
    ),
    1000,
)


class Recorder:
    """In the place of a curator: keeps what it is asked."""

    card = CARD

    def __init__(self):
        self.calls = []

    def __getattr__(self, verb):
        if verb.startswith("_"):
            raise AttributeError(verb)

        def call(*given, **named):
            self.calls.append((verb, given, {name: value for name, value in named.items() if value is not None}))
            return verb

        return call


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def df(recorder):
    return Frame(recorder)


REQUESTS = {
    "share": (lambda df: (df.age > 65).mean(), ("ask", ('"age" > 65',), {})),
    "flag": (lambda df: df.smoker.mean(), ("ask", ('"smoker"',), {})),
    "both": (lambda df: ((df.age > 65) & df.smoker).mean(), ("ask", ('("age" > 65) AND ("smoker")',), {})),
    "neither": (
        lambda df: (~(df.smoker | (df.region == "N"))).mean(key="k"),
        ("ask", ('NOT (("smoker") OR ("region" = \'N\'))',), {"key": "k"}),
    ),
    "computed": (lambda df: (df.income / 12 - 3 > df.age * 2).mean(), ("ask", ('(("income" / 12) - 3) > ("age" * 2)',), {})),
    "turned": (lambda df: (100 - df.age >= 1).mean(), ("ask", ('(100 - "age") >= 1',), {})),
    "isin": (lambda df: df.region.isin(["N", "O'Hare"]).mean(), ("ask", ("\"region\" IN ('N', 'O''Hare')",), {})),
    "between": (lambda df: df.age.between(18, 65).mean(), ("ask", ('"age" BETWEEN 18 AND 65',), {})),
    "missing": (lambda df: df.income.isna().mean(), ("ask", ('"income" IS NULL',), {})),
    "present": (lambda df: df.income.notna().mean(), ("ask", ('"income" IS NOT NULL',), {})),
    "spaces": (lambda df: (df["house hold"] == np.int64(3)).mean(), ("ask", ('"house hold" = 3',), {})),
    "date": (lambda df: (df.age < date(2026, 1, 31)).mean(), ("ask", ("\"age\" < DATE '2026-01-31'",), {})),
    "a column called as a method": (lambda df: (df["count"] > 3).mean(), ("ask", ('"count" > 3',), {})),
    "mean": (
        lambda df: df[df.age > 65].income.mean(low=0, high=10),
        ("mean", ("income",), {"low": 0, "high": 10, "where": '"age" > 65'}),
    ),
    "mean by the card's bounds": (lambda df: df.age.mean(), ("mean", ("age",), {"low": 0, "high": 120})),
    "sum": (lambda df: df.income.sum(low=0, high=10), ("sum", ("income",), {"low": 0, "high": 10})),
    "grouped": (
        lambda df: df[df.age > 65].groupby("region").income.mean(low=0, high=10),
        ("mean", ("income",), {"low": 0, "high": 10, "where": '"age" > 65', "by": "region"}),
    ),
    "grouped by two": (
        lambda df: df.groupby(["region", "smoker"])["income"].sum(low=0, high=10),
        ("sum", ("income",), {"low": 0, "high": 10, "by": ["region", "smoker"]}),
    ),
    "grouped share": (lambda df: df.groupby("region").smoker.mean(), ("ask", ('"smoker"',), {"by": "region"})),
    "sizes": (lambda df: df[df.smoker].groupby("region").size(), ("table", ("region",), {"where": '"smoker"'})),
    "counts": (lambda df: df.region.value_counts(), ("table", ("region",), {})),
    "counts of labels": (
        lambda df: df.region.value_counts(keys=["N"]),
        ("table", ("region",), {"keys": {"region": ["N"]}}),
    ),
    "median": (
        lambda df: df.income.median(low=0, high=10, step=0.5),
        ("median", ("income",), {"low": 0, "high": 10, "step": 0.5}),
    ),
    "median of dates": (
        lambda df: df["house hold"].median(low="2026-01-01", high=date(2026, 7, 1)),
        ("median", ("house hold",), {"low": "2026-01-01", "high": date(2026, 7, 1)}),
    ),
    "quantile": (
        lambda df: df[df.age > 65][~df.smoker].income.quantile([0.1, 0.9], low=0, high=10, key="k"),
        (
            "quantile",
            ("income", [0.1, 0.9]),
            {"low": 0, "high": 10, "step": 1, "where": '("age" > 65) AND (NOT ("smoker"))', "key": "k"},
        ),
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_frame_builds_the_request_and_nothing_else(name, df, recorder):
    build, (verb, given, named) = REQUESTS[name]
    assert build(df) == verb
    ((called, positional, keywords),) = recorder.calls
    expected = named | ({"step": 1} if verb == "median" and "step" not in named else {})
    assert (called, positional, keywords) == (verb, given, expected)
    for text in (positional[0] if verb == "ask" else None, keywords.get("where")):
        if text is not None and "DATE" not in text:
            parse(text, CARD)


@pytest.mark.parametrize(
    ("wrong", "error", "word"),
    [
        (lambda df: df.agee, UnknownColumn, "age"),
        (lambda df: df["agee"], UnknownColumn, "age"),
        (lambda df: df.groupby("agee"), UnknownColumn, "age"),
        (lambda df: df.head(), UnsupportedQuery, "rows never leave"),
        (lambda df: df.describe(), UnsupportedQuery, "quantile"),
        (lambda df: df.loc[3], UnsupportedQuery, "condition"),
        (lambda df: df.age.max(), UnsupportedQuery, "quantile"),
        (lambda df: df.age.std(), UnsupportedQuery, "quantile"),
        (lambda df: df.age.rolling(3), UnsupportedQuery, "it has mean"),
        (list, UnsupportedQuery, "rows never leave"),
        (lambda df: list(df.age), UnsupportedQuery, "rows never leave"),
        (lambda df: df[3], UnsupportedQuery, "condition"),
        (lambda df: df[["age", "income"]], UnsupportedQuery, "condition"),
        (lambda df: df.__setitem__("x", 3), UnsupportedQuery, "expression"),
        (lambda df: len(df[df.smoker]), UnsupportedQuery, "ask"),
        (lambda df: df.age > 65 and df.smoker, UnsupportedQuery, "&"),
        (lambda df: not df.age, UnsupportedQuery, "condition"),
        (lambda df: (df.age > 65) & True, UnsupportedQuery, "df.smoker"),
        (lambda df: (df.age > 65) & df.income, UnsupportedQuery, "compare"),
        (lambda df: df[df.income], UnsupportedQuery, "compare"),
        (lambda df: ~df.income, UnsupportedQuery, "compare"),
        (lambda df: (df.age > 65).sum(), UnsupportedQuery, "mean"),
        (lambda df: (df[df.smoker].age > 65).mean(), UnsupportedQuery, "both shares"),
        (lambda df: df.income.mean(), InvalidParameter, "bounds"),
        (lambda df: df.income.median(low=0), InvalidParameter, "bounds"),
        (lambda df: (df.income / 12).mean(low=0, high=1), UnsupportedQuery, "column"),
        (lambda df: df.income == None, UnsupportedQuery, "isna"),  # noqa: E711 - on purpose
        (lambda df: df.income > np.array([np.nan])[0], InvalidParameter, "finite"),
        (lambda df: df.income > 10**5000, InvalidParameter, "digits"),
        (lambda df: df.income > [1, 2], InvalidParameter, "number"),
        (lambda df: df.income > Frame(Recorder()).income, UnsupportedQuery, "another"),
        (lambda df: df[Frame(Recorder()).age > 3], UnsupportedQuery, "another"),
        (lambda df: df.region.isin([]), InvalidParameter, "at least one"),
        (lambda df: df.region.isin("N"), InvalidParameter, "list"),
        (lambda df: df.groupby([]), InvalidParameter, "at least one"),
        (lambda df: df.groupby("region").mean(low=0, high=1), UnsupportedQuery, "of which column"),
        (lambda df: df.groupby("region").income.median(low=0, high=1), UnsupportedQuery, "one group at a time"),
        (lambda df: df.groupby("region").agg("mean"), UnsupportedQuery, "one verb"),
        (lambda df: df[df.age > 3].groupby("region").smoker.mean(), UnsupportedQuery, "table"),
    ],
)
def test_what_is_not_offered_says_what_to_call(wrong, error, word, df, recorder):
    with pytest.raises(HoldtrueError) as caught:
        wrong(df)
    assert type(caught.value) is error
    assert word in str(caught.value)
    assert recorder.calls == []


def test_a_frame_looks_like_one(df):
    assert df.columns[:2] == ["age", "income"]
    assert len(df) == 1000
    assert bool(df)
    assert repr(df[df.age > 65]) == '<Frame of age, income, region, smoker, house hold, count where "age" > 65>'
    assert repr(df.age) == '<Expression "age">'
    assert repr(df.age > 3) == '<Condition "age" > 3>'
    assert repr(df.groupby("region")) == "<GroupedFrame by region>"
    assert not any(hasattr(each, "_repr_html_") for each in (df, df.age, df.age > 3, df.groupby("region")))


def test_answers_are_those_of_the_verbs():
    random = np.random.default_rng(3)
    rows = {"age": random.integers(0, 100, 3000), "smoker": random.random(3000) < 0.4}
    with ht.Curator(rows, queries=100, iid=True) as curator:
        df = curator.frame()
        assert (df.age > 65).mean().value == curator.ask("age > 65").value
        assert df.smoker.value_counts().values == curator.table("smoker").values
        assert (
            df[df.smoker].age.median(low=0, high=127).value == curator.median("age", low=0, high=127, where="smoker").value
        )


def test_names_of_columns_are_completed(recorder):
    frame = Frame(recorder)
    assert frame._ipython_key_completions_() == ["age", "income", "region", "smoker", "house hold", "count"]
    assert {"age", "region"} <= set(dir(frame))
    assert "house hold" not in dir(frame)
    assert recorder.calls == []
