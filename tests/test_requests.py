"""Requests are records: every field once, with a sentence, and the same ones that the Python methods have."""

import inspect
import re
from typing import get_args

import msgspec
import pytest

from holdtrue import requests
from holdtrue.codec import convert, decode, encode, plain
from holdtrue.curator import Curator
from holdtrue.errors import InvalidParameter
from holdtrue.holdouts import Holdout, Leaderboard
from holdtrue.requests import Request, describe
from holdtrue.verbs.watching import QueryWatch

KINDS = get_args(Request)
BESIDE = {"self", "analyst", "key"}
# What a record has under another name than the method, or has alone, or lacks, each with its reason.
METHODS = {
    "Ask": ([Curator.ask], {"query": "one question, where queries are several"}, {}),
    "Table": ([Curator.table], {}, {}),
    "MarginalSets": ([Curator.marginals], {}, {}),
    "Synthesize": ([Curator.synthesize], {}, {}),
    "Mean": ([Curator.mean], {}, {}),
    "Total": ([Curator.sum], {}, {}),
    "Quantile": ([Curator.quantile], {}, {}),
    "Variance": ([Curator.variance], {}, {}),
    "Covariance": ([Curator.covariance], {}, {}),
    "Correlation": ([Curator.correlation], {}, {}),
    "RSquared": ([Curator.r_squared], {}, {}),
    "Gini": ([Curator.gini], {}, {}),
    "Ratio": ([Curator.ratio], {}, {}),
    "Auc": ([Curator.auc], {}, {}),
    "Pairs": ([Curator.pairs], {}, {}),
    "BestError": ([Curator.best_error], {}, {}),
    "Select": ([Curator.select], {}, {}),
    "WatchQuestion": ([Curator.watch, QueryWatch.ask], {}, {}),
    "Learn": ([Curator.learn], {}, {}),
    "Fit": ([Curator.fit], {}, {"gamma": "for a learner of one's own, which is code", "certified_by": "likewise"}),
    "Train": ([Curator.train], {"key": "the column of public keys; no request has this name"}, {}),
    "Predict": (
        [Curator.predict],
        {"model": "the method's name", "row": "one row, where rows are several"},
        {"name": "called model, beside fields of rows"},
    ),
    "Evaluate": (
        [Curator.evaluate],
        {"entry": "the number that the method takes for model", "digest": "of the record that the method takes for model"},
        {},
    ),
    "Distill": (
        [Curator.distill],
        {"model": "the method's name", "rows": "the method's public_rows"},
        {"name": "called model", "public_rows": "called rows"},
    ),
    "Score": ([Holdout.score], {}, {}),
    "Compare": ([Holdout.compare, Holdout.compare_cases], {"results": "which of the two methods is meant"}, {}),
    "Gate": ([Holdout.gate], {}, {}),
    "Certify": ([Holdout.certify], {}, {}),
    "Submit": ([Leaderboard.submit], {}, {}),
    "Grant": ([Curator.grant], {"analyst": "whom it is for, not who asks"}, {}),
    "Terms": (
        [Curator.__init__],
        {},
        {
            "data": "rows are no terms",
            "ledger": "where the terms are written",
            "plan": "made of these numbers",
            "progress": "code",
            "rehash": "how the data are opened, not what is agreed",
        },
    ),
    "HoldoutTerms": (
        [Holdout.__init__, Leaderboard.__init__],
        {},
        {
            "y_true": "cases are no terms",
            "ledger": "where the terms are written",
            "incumbent_name": "a door names an incumbent itself",
        },
    ),
}
# Defaults that differ, each with its reason.
DEFAULTS = {
    ("Distill", "student"): "over HTTP it is taught by whoever asks",
    ("HoldoutTerms", "beta"): "0.05 in both constructors",
    ("HoldoutTerms", "rule"): "a holdout has none",
    ("HoldoutTerms", "unseen"): "declared only where it is said",
    ("Terms", "iid"): "undeclared is not independent",
    ("Predict", "rows"): "or else row",
    ("Evaluate", "model"): "or else entry",
    ("Submit", "name"): "the caller's own name comes first",
}


def taken(methods):
    """Return the arguments of methods with their defaults."""
    return {
        name: parameter.default
        for method in methods
        for name, parameter in inspect.signature(method).parameters.items()
        if name not in BESIDE
    }


@pytest.mark.parametrize("name", METHODS)
def test_a_record_has_the_arguments_of_its_method(name):
    methods, alone, missing = METHODS[name]
    found = {field.name: field for field in describe(getattr(requests, name))}
    arguments = taken(methods)
    assert set(found) - set(alone) == set(arguments) - set(missing)
    for argument, default in arguments.items():
        if argument not in found or (name, argument) in DEFAULTS:
            continue
        field = found[argument]
        assert field.required == (default is inspect.Parameter.empty), argument
        assert field.required or field.default == default, argument


def test_every_exception_is_still_one():
    for (name, argument), reason in DEFAULTS.items():
        field = {field.name: field for field in describe(getattr(requests, name))}[argument]
        assert reason
        assert field.default != taken(METHODS[name][0])[argument]


def test_every_request_is_compared_or_made_of_what_is():
    whole = {"Verify": set(), "Register": {"name", "path", "description"}}
    whole["RegisterHoldout"] = {"name", "kind", "description", "y_true", "path", "column", "cases"}
    assert {kind.__name__ for kind in KINDS} == (set(METHODS) | set(whole)) - {"Terms", "HoldoutTerms"}
    assert set(requests.Register.__struct_fields__) - whole["Register"] == set(requests.Terms.__struct_fields__)
    own = set(requests.RegisterHoldout.__struct_fields__) - whole["RegisterHoldout"]
    assert own == set(requests.HoldoutTerms.__struct_fields__)


def test_every_field_of_every_record_has_one_sentence():
    documents = [
        getattr(requests, name) for name in requests.__all__ if name.endswith("Document") and name != "ClassDocument"
    ]
    for kind in (*KINDS, *documents):
        assert kind.__doc__, kind
        for field in describe(kind):
            assert re.fullmatch(r"[A-Z][^.]*(\.[0-9][^.]*)*\.", field.sentence), (kind.__name__, field)
            assert field.type, (kind.__name__, field)


def test_a_field_is_described_in_words():
    parts = {field.name: field for field in describe(requests.Train)}["parts"]
    assert (parts.type, parts.default, parts.range) == ("whole number", 200, "at least 1, at most 100,000")
    epsilon = {field.name: field for field in describe(requests.Select)}["epsilon"]
    assert (epsilon.type, epsilon.required, epsilon.range) == ("number or null", False, "above 0, at most 1,000")
    hypotheses = {field.name: field for field in describe(requests.Learn)}["hypotheses"]
    assert hypotheses.type == "class of hypotheses or list of class of hypotheses"


EXAMPLES = [
    requests.Ask(query="age > 65"),
    requests.Ask(queries=("age > 65", "smoker")),
    requests.Select(candidates={"north": "region = 'N'", "south": "region = 'S'"}, epsilon=0.5),
    requests.Learn(hypotheses=requests.StumpsDocument(((0.0, 120.0),), 240, ("age",)), target="sick"),
    requests.Predict(model="risk", row={"age": 71, "bmi": 31.5, "region": None}),
    requests.Compare(first=(1, 0), second=(0, 0)),
    requests.Grant(analyst="ada", asks=None),
    requests.Register(name="people", path="people.parquet", queries=1000, bounds={"age": (0.0, 120.0)}),
]


@pytest.mark.parametrize("request_", EXAMPLES, ids=lambda request: type(request).__name__)
def test_requests_read_back_by_their_verb(request_):
    text = encode(request_)
    assert decode(text, Request) == decode(text, type(request_)) == convert(plain(request_), Request) == request_
    assert msgspec.json.decode(text)["verb"] == type(request_).__name__.lower()


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"verb": "ask", "query": ""}, "query"),
        ({"verb": "ask", "query": 3}, "query"),
        ({"verb": "ask", "queries": []}, "queries"),
        ({"verb": "ask", "queries": ["a", None]}, r"queries\[1\]"),
        ({"verb": "ask", "sql": "drop"}, "sql"),
        ({"verb": "select", "candidates": ["a"], "top": 0}, "top"),
        ({"verb": "select", "candidates": ["a"], "epsilon": 0}, "epsilon"),
        ({"verb": "learn", "hypotheses": {"class": "code"}, "target": "a"}, r"hypotheses\.class"),
        (
            {"verb": "learn", "hypotheses": {"class": "stumps", "bounds": [[0, 1]], "steps": 0}, "target": "a"},
            "hypotheses.steps",
        ),
        ({"verb": "train", "name": "../x", "estimator": {"kind": "ridge"}, "target": "a"}, "name"),
        ({"verb": "train", "name": "x", "estimator": {"kind": "os"}, "target": "a"}, "estimator.kind"),
        ({"verb": "predict", "model": "risk", "rows": [{"age": [1]}]}, r"rows\[0\]"),
        ({"verb": "score", "cases": [0.5, 2]}, r"cases\[1\]"),
        ({"verb": "gate", "margin": 1}, "margin"),
        ({"verb": "certify", "why": "so"}, "why"),
        ({"verb": "grant", "analyst": "ada"}, "asks"),
        ({"verb": "register", "name": "People", "path": "p"}, "name"),
        ({"verb": "drop"}, "verb"),
        ({}, "verb"),
    ],
)
def test_a_malformed_request_is_refused_by_its_field_in_one_line(document, field):
    with pytest.raises(InvalidParameter, match=rf"^{field} must be [^\n]*$"):
        convert(document, Request)
    with pytest.raises(InvalidParameter, match=rf"^{field} must be [^\n]*$"):
        decode(encode(document), Request)
