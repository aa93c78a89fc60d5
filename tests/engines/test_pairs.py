"""Statistics of pairs: the same whole numbers on every engine, whatever the rows hold, and exactly those that pairs give."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from engines.adversarial import TABLES
from holdtrue.errors import NotCertified
from holdtrue.queries.evaluator import evaluate
from holdtrue.queries.pairs import parse_kernel
from holdtrue.requests import Auc, Correlation, Gini, Pairs, RSquared, Variance
from holdtrue.verbs.asking import cached_parser
from holdtrue.verbs.pairs import read_statistic
from holdtrue.verbs.statistic_tasks import measure_tasks

REQUESTS = (
    Variance(column="score", low=-1, high=2),
    Correlation(first="age", second="share", bounds={"age": (-100, 100), "share": (0, 1)}),
    RSquared(prediction="score", target="share", low=-5, high=70),
    Gini(column="odd name", low=0, high=100),
    Auc(score="score", label="smoker"),
)
KERNELS = (
    "abs(a.age - b.share)",
    "a.region = b.region AND NOT b.smoker",
    'a."odd name" > b."odd name" OR a.region LIKE \'%N\'',
    "CASE WHEN a.born < b.died THEN a.score / b.score ELSE b.share END",
)


def measure(engine, request):
    curation = SimpleNamespace(
        card=engine.card,
        engine=engine,
        plan=SimpleNamespace(side="both", bits=20),
        parse=cached_parser(engine.card),
        progress=None,
    )
    return measure_tasks(curation, read_statistic(curation, request).tasks)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_u5_statistics_are_the_same_whole_numbers_on_every_engine(opener, engine_name, request_):
    table = TABLES["mixed"]
    assert measure(opener(engine_name, table), request_) == measure(opener("arrow", table), request_)


def test_u5_statistics_are_the_same_whole_numbers_on_spark_and_kernels_are_refused(opener):
    table = TABLES["mixed"]
    spark, arrow = opener("spark-3", table), opener("arrow", table)
    for request in REQUESTS[:4]:
        assert measure(spark, request) == measure(arrow, request), request
    with pytest.raises(NotCertified, match="gini or auc"):
        measure(spark, Pairs(kernel="abs(a.age - b.age)"))
    with pytest.raises(NotCertified):
        spark.sum_pairs(parse_kernel(KERNELS[0], spark.card), np.arange(spark.rows), bits=40)


@pytest.mark.parametrize("kernel", KERNELS)
def test_u5_pairs_in_one_order_are_the_same_whole_number_on_every_engine(opener, engine_name, kernel):
    table = TABLES["mixed"]
    engine = opener(engine_name, table)
    query, order = parse_kernel(kernel, engine.card), np.random.default_rng(5).permutation(engine.rows)
    found = engine.sum_pairs(query, order, bits=40)
    assert found == opener("arrow", table).sum_pairs(query, order, bits=40)
    assert 0 < found <= engine.rows << 40


def test_u5_the_sum_over_an_order_is_the_sum_of_its_pairs(opener):
    engine = opener("arrow", TABLES["mixed"].slice(0, 50))
    query = parse_kernel(KERNELS[0], engine.card)
    ((pieces, _),) = list(engine._yield_pieces(["age", "share"]))
    order = np.random.default_rng(6).permutation(engine.rows)
    total = 0
    for first, second in itertools.pairwise([*order, order[0]]):
        columns = {
            f"{side}.{name}": type(held)(held.data[[row]], None if held.valid is None else held.valid[[row]])
            for side, row in (("a", first), ("b", second))
            for name, held in zip(("age", "share"), pieces, strict=True)
        }
        total += int(evaluate(query, columns, 40)[0])
    assert engine.sum_pairs(query, order, bits=40) == total
