"""Spark, on a real standalone cluster of a master and two workers with authentication, started here on loopback."""

import os
import signal
import stat
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

import holdtrue as ht
from engines.adversarial import TABLES, queries
from engines.test_cell_sums import make_cells

# The suite of every engine, on this one.
from engines.test_conformance import (  # noqa: F401 - collected here too
    engine,
    test_a_closed_engine_answers_nothing,
    test_a_majority_of_a_hundred_columns_is_counted,
    test_an_empty_table_sums_to_nothing,
    test_an_engine_is_an_engine,
    test_bits_outside_the_grid_are_refused,
    test_counts_are_those_counted_by_hand,
    test_dates_are_counted_by_hand,
    test_numbers_are_clamped_and_rounded_by_row,
    test_own_values_are_summed_exactly,
    test_progress_is_told_and_ends_at_one,
)
from holdtrue.command import application
from holdtrue.engines import SparkRows, open_engine
from holdtrue.engines.base import FAILED
from holdtrue.engines.spark import check_access
from holdtrue.engines.spark.engine import _read_size
from holdtrue.ensembles.responding import SoftMajority
from holdtrue.errors import (
    FingerprintMismatch,
    InvalidParameter,
    NotCertified,
    RefusedError,
    ReleaseError,
    RequestError,
)
from holdtrue.hypotheses import Thresholds
from holdtrue.queries.features import Numbers
from holdtrue.queries.parser import parse
from holdtrue.testing import SeededBits, drawing_from
from holdtrue.verbs.asking import QuestionRule
from holdtrue.verbs.evaluating import judge_released, plan_evaluation
from holdtrue.verbs.fitting import plan_fit, read_facts
from holdtrue.verbs.tables import read_groups

BITS = 30
KEY = b"k" * 40
CANARY = "canary-7351"
PARTS = 200


@pytest.fixture(params=["spark-3"])
def engine_name(request):
    return request.param


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A folder of Parquet files: 12,000 rows, a label that follows from two numbers, and a public row number."""
    folder = tmp_path_factory.mktemp("people")
    rng = np.random.default_rng(10)
    rows = 12_000
    age, bmi = rng.random(rows) * 100, rng.random(rows) * 50
    table = pa.table(
        {
            "id": np.arange(rows),
            "age": age,
            "bmi": pa.array(bmi, mask=rng.random(rows) < 0.01),
            "ill": age / 100 + bmi / 50 + rng.normal(0, 0.3, rows) > 1,
        }
    )
    for number in range(4):
        pq.write_table(table.slice(number * 3000, 3000), folder / f"rows-{number}.parquet", row_group_size=700)
    return folder


def _sums(opened, asked, bits=BITS):
    return opened.sums(asked, bits=bits)


@pytest.mark.parametrize("partitions", [1, 3, 8])
def test_p2_equal_integers_to_duckdb_under_every_partitioning(opener, partitions):
    """NaN, infinities, zeros of both signs, subnormals, extremes of 64 bits and NULL; fingerprints too."""
    spark, duck = opener(f"spark-{partitions}", TABLES["mixed"]), opener("parquet-2", TABLES["mixed"])
    asked = queries(duck.card, 120, seed=partitions)
    assert _sums(spark, asked) == _sums(duck, asked)
    numbers = [query for query in asked if not query.boolean][:12]
    assert 1003 << 60 > 1 << 62
    assert _sums(spark, numbers, 60) == _sums(duck, numbers, 60)
    assert spark.fingerprint(KEY) == duck.fingerprint(KEY) != spark.fingerprint(b"j" * 40)


def test_p2_equal_sums_of_cells(opener):
    """Spark sums one query for each cell; arrays count codes. Dates and timestamps are cut at public points as well."""
    spark, arrays = (opener(name, TABLES["mixed"]) for name in ("spark-3", "arrow"))
    cuts = [ht.cut("born", ["1970-01-01", "2024-02-29"]), ht.cut("seen", ["1582-10-10", "2024-02-29 10:30"])]
    for cells in (
        make_cells(spark.card, ["region", "score"], "age > 1"),
        make_cells(spark.card, ["born"], None, "share", "odd name"),
        read_groups(SimpleNamespace(card=spark.card, plan=None), cuts, where=None, keys=None).cells,
    ):
        assert spark.sum_cells(cells, bits=30) == arrays.sum_cells(cells, bits=30)


def test_p2_equal_integers_where_rows_are_few_or_missing(opener):
    asked = queries(opener("arrow", TABLES["one"]).card, 60, seed=4, depth=2)
    for name in ("one", "byte", "missing"):
        assert _sums(opener("spark-3", TABLES[name]), asked) == _sums(opener("arrow", TABLES[name]), asked), name


def test_moments_of_every_zone_and_beyond_the_calendar(spark_session, tmp_path):
    """Parquet as pandas, DuckDB and Spark write it; the session's zone has gaps and makes no difference."""
    low, high = -62_135_596_800_000_000, 253_402_300_799_999_999
    cells = [0, low, high, low - 1, high + 1, 1_711_848_600_000_000, 1_711_848_600_123_456, None, 1 - 2**63, 2**63 - 1]
    days = [0, -719_162, 2_932_896, -719_163, 2_932_897, 19_782, -(2**31), None, 1, 2]
    table = pa.table(
        {
            "naive": pa.array(cells, pa.timestamp("us")),
            "utc": pa.array(cells, pa.timestamp("us", "UTC")),
            "day": pa.array(days, pa.date32()),
        }
    )
    pq.write_table(table, tmp_path / "moments.parquet")
    before = spark_session.conf.get("spark.sql.session.timeZone")
    spark_session.conf.set("spark.sql.session.timeZone", "Europe/Paris")
    try:
        spark = open_engine(SparkRows(str(tmp_path / "moments.parquet"), session=spark_session))
        others = [open_engine(table), open_engine(tmp_path / "moments.parquet")]
        texts = [
            "naive = utc",
            "naive IS NULL",
            "day IS NULL",
            "naive > '2024-03-31 01:30:00'",
            "YEAR(day) = 9999",
            "DAY(utc) = 31",
        ]
        asked = [parse(text, spark.card) for text in texts]
        assert [engine.sums(asked, bits=0) for engine in (spark, *others)] == 3 * [[5, 5, 4, 2, 1, 3]]
        assert len({engine.fingerprint(KEY) for engine in (spark, *others)}) == 1
    finally:
        spark_session.conf.set("spark.sql.session.timeZone", before)


def test_an_executor_killed_in_mid_job_changes_nothing(opener, spark_cluster, spark_session):
    table = pa.concat_tables([TABLES["mixed"]] * 20)
    spark, duck = opener("spark-150", table), opener("arrow", table)
    asked = queries(duck.card, 60, seed=12)
    expected = _sums(duck, asked)
    found = []
    worker = threading.Thread(target=lambda: found.append(_sums(spark, asked)), daemon=True)
    worker.start()
    tracker, killed = spark_session.sparkContext.statusTracker(), None
    while worker.is_alive() and killed is None:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if any(stage and stage.numTasks == 150 and 5 < stage.numCompletedTasks < 120 for stage in stages):
            killed = spark_cluster.executors()[0]
            os.kill(killed, signal.SIGKILL)
        time.sleep(0.005)
    worker.join(300)
    assert killed is not None
    assert killed not in spark_cluster.executors()
    assert found == [expected]


def test_sums_return_while_a_class_is_counted(opener, people):
    """The counting call is held in its own thread, at the first word of its progress, until sums have come back."""
    table = pq.read_table(people)
    spark, arrays = opener("spark-3", table), opener("arrow", table)
    asked = [parse(text, spark.card) for text in ("age > 50 AND ill", "bmi / 50")]
    learn = Thresholds(0, 100, steps=40, column="age"), [Numbers("age")], parse("ill", spark.card)
    begun, go_on, counted = threading.Event(), threading.Event(), []

    def hold(_):
        begun.set()
        assert go_on.wait(300)

    worker = threading.Thread(target=lambda: counted.append(spark.error_counts(*learn, progress=hold)), daemon=True)
    worker.start()
    assert begun.wait(300)
    found = _sums(spark, asked)
    assert not counted
    go_on.set()
    worker.join(300)
    assert found == _sums(arrays, asked)
    assert counted[0].tolist() == arrays.error_counts(*learn).tolist()


def test_learning_counts_the_errors_of_a_hundred_thousand_thresholds(people, spark_session):
    spark = open_engine(SparkRows(str(people), session=spark_session))
    duck = open_engine(f"{people}/*.parquet")
    thresholds = Thresholds(0, 100, steps=100_000)
    target = parse("ill OR bmi > 40", duck.card)
    expected = duck.error_counts(thresholds, [Numbers("age")], target)
    assert expected.size >= 100_000
    assert np.unique(expected).size > 1000
    told = []
    assert np.array_equal(spark.error_counts(thresholds, [Numbers("age")], target, progress=told.append), expected)
    assert told[-1] == pytest.approx(1)


def _votes(curator, estimator, points, **cut):
    model = curator.train("model", estimator, target="ill", features=["age", "bmi"], parts=PARTS, replace=True, **cut)
    return model.ensemble.votes(points)


def test_predicting_trains_the_members_of_a_single_machine(people, spark_session, tmp_path):
    """By content, by a public key, or by files and rows in them: the same votes, and with the same bits the same labels."""
    points = np.random.default_rng(3).random((500, 2)) * [100, 50]
    plan = {"queries": 10, "epsilon": 1.0, "delta": 1e-6}
    duck = ht.Curator(f"{people}/*.parquet", **plan)
    spark = ht.Curator(SparkRows(str(people), session=spark_session), **plan)
    tree, logistic = DecisionTreeClassifier(max_depth=3), LogisticRegression()
    for estimator, cut in ((tree, {}), (logistic, {"key": "id"}), (tree, {"order": "fixed"})):
        votes = [_votes(curator, estimator, points, **cut) for curator in (duck, spark)]
        assert votes[0].sum(axis=1).tolist() == [PARTS] * 500
        assert np.unique(votes[0]).size > 20
        assert np.array_equal(*votes)
        labels = [drawing_from(SoftMajority(0.1), SeededBits("labels")).release(counts) for counts in votes]
        assert np.array_equal(*labels)
    shuffled = spark_session.read.parquet(str(people)).orderBy("bmi")
    keyed = ht.Curator(SparkRows(shuffled, key="id"), **plan)
    assert np.array_equal(_votes(keyed, tree, points), _votes(duck, tree, points, key="id"))
    with pytest.raises(InvalidParameter, match="cannot travel"):
        spark.train("nearest", _nearest(), target="ill", features=["age", "bmi"], parts=PARTS)
    loose = ht.Curator(spark_session.createDataFrame(pq.read_table(people)), **plan)
    with pytest.raises(NotCertified, match="need positions"):
        loose.train("model", LogisticRegression(), target="ill", features=["age"], parts=PARTS, order="fixed")
    assert np.array_equal(_votes(loose, tree, points), _votes(duck, tree, points))
    with pytest.raises(InvalidParameter, match="without gaps"):
        open_engine(SparkRows(spark_session.createDataFrame(pa.table({"id": [1, 2, 2], "x": [1, 2, 3]})), key="id"))
    # A row replaced in its place changes the member of its part, and no other.
    other = tmp_path / "neighbour"
    other.mkdir()
    for path in sorted(people.glob("*.parquet")):
        table = pq.read_table(path)
        if path.name == "rows-2.parquet":
            replaced = pa.table({"id": [6007], "age": [0.0], "bmi": [50.0], "ill": [True]}).cast(table.schema)
            table = pa.concat_tables([table.slice(0, 7), replaced, table.slice(8)])
        pq.write_table(table, other / path.name)
    near = ht.Curator(SparkRows(str(other), session=spark_session), **plan)
    for curator in (near, spark):
        _votes(curator, DecisionTreeClassifier(), points, order="fixed")
    first, second = (curator._models.find_model("model").ensemble.members for curator in (spark, near))
    changed = [part for part in range(PARTS) if not _same_tree(first, second, part)]
    assert changed == [6007 % PARTS]


@pytest.mark.parametrize("cut", [{"key": "id"}, {"order": "fixed"}])
def test_rows_held_out_on_a_cluster_are_those_of_a_single_machine(people, spark_session, cut):
    """The same rows train no member, the same votes judge them, and what is certified follows from the same distances."""
    plan = {"queries": 10, "epsilon": 4.0, "delta": 1e-6, "iid": True, "cap": "privacy", "reserve": 0.8}
    points, votes, judged, said = np.random.default_rng(3).random((500, 2)) * [100, 50], [], [], []
    with (
        ht.Curator(f"{people}/*.parquet", **plan) as duck,
        ht.Curator(SparkRows(str(people), session=spark_session), **plan) as spark,
    ):
        for curator in (duck, spark):
            votes.append(_votes(curator, DecisionTreeClassifier(max_depth=3), points, held_out=0.25, **cut))
            task = plan_evaluation(
                curator.pipeline, curator.model("model"), at_most=[0.4, 0.3], epsilon=0.1, mu=0.2, beta=None
            )
            judged.append([int(each) for each in task.measure()])
            said.append(curator.evaluate("model", at_most=[0.4, 0.3], epsilon=0.1, mu=0.2).rows)
    assert np.array_equal(*votes)
    assert judged[0] == judged[1]
    assert said[0] == said[1] == judged[0][0]
    assert judged[0][0] == pytest.approx(3000, abs=200)


def test_fits_on_a_cluster_are_those_of_a_single_machine(people, spark_session):
    """Published weights but for noise and rounding, kept fits, errors of what was released, and labels of own rules."""
    plan = {"queries": 10, "epsilon": 4.0, "delta": 1e-6, "iid": True, "cap": "privacy", "reserve": 0.8}
    shared = {"features": ["age", "bmi"], "bounds": {"age": (0, 100), "bmi": (0, 50)}}
    fitted, counted, models = [], [], []
    duck = ht.Curator(f"{people}/*.parquet", **plan)
    spark = ht.Curator(SparkRows(str(people), session=spark_session), **plan)
    for curator in (duck, spark):
        task = plan_fit(
            read_facts(curator.pipeline, "m", "logistic", target="ill", labels=None, **shared), "logistic", mu=0.1
        )
        fitted.append(task.measure())
        model = curator.fit("m", "logistic", target="ill", mu=0.1, **shared)
        rule = QuestionRule.from_plan(curator.plan, card=curator.card)
        counted.append(judge_released(curator.pipeline, rule, models[0] if models else model, beta=None).measure())
        models.append(model)
    assert fitted[0].private_weights == pytest.approx(fitted[1].private_weights, rel=1e-9)
    assert counted[0] == counted[1]
    spark.fit("kept", "thresholds", target="ill", features=["age"], bounds={"age": (0, 100)}, epsilon=0.5)
    assert spark.predict("kept", {"age": 99.0}).label is True
    own = ht.Hypotheses([lambda rows: rows[:, 0] > 50, lambda rows: rows[:, 0] < 50], columns=["age"])
    assert spark.learn(own, target="ill", epsilon=0.5).index == 0
    spent = spark.budget.spent
    for refused in (
        lambda: spark.learn(ht.Hypotheses(predictions=np.zeros((12_000, 2), dtype=bool)), target="ill", epsilon=0.1),
        lambda: spark.learn(own, target="ill", epsilon=0.1, row_weights=[1, 2] * 6_000),
        lambda: spark.fit(
            "own", Ridge(), target="ill", features=["age"], gamma=0.1, certified_by="me", bounds=shared["bounds"]
        ),
    ):
        with pytest.raises(NotCertified, match="order"):
            refused()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdtrue.engines.spark.engine._read_size", lambda _: 100_000)
        for refused in (
            lambda: spark.fit("wide", "logistic", target="ill", mu=0.1, **shared),
            lambda: spark.evaluate(models[1]),
        ):
            with pytest.raises(NotCertified, match="maxResultSize"):
                refused()
    assert spark.budget.spent == spent


@pytest.mark.parametrize(("text", "size"), [("1g", 1 << 30), ("512m", 1 << 29), ("1024", 1024), ("2GB", 1 << 31), ("0", 0)])
def test_sizes_are_read_as_spark_writes_them(text, size):
    assert _read_size(text) == size


def _nearest():
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier()


def _same_tree(first, second, part):
    held = []
    for members in (first, second):
        roots = [*members.forest.roots.tolist(), members.codes.size]
        nodes = slice(roots[part], roots[part + 1])
        held.append(
            (
                members.forest.features[nodes].tolist(),
                members.forest.thresholds[nodes].tolist(),
                members.codes[nodes].tolist(),
            )
        )
    return held[0] == held[1]


def test_a_curator_on_a_cluster_and_a_table_that_changes(people, spark_session, tmp_path):
    """One ledger for both engines, since the fingerprint is the same; other rows under it are refused."""
    folder, ledger = tmp_path / "people", tmp_path / "people.ledger"
    folder.mkdir()
    pq.write_table(pq.read_table(people), folder / "rows.parquet")
    source = SparkRows(str(folder), session=spark_session)
    with ht.Curator(
        source, queries=100, epsilon=1.0, delta=1e-6, iid=True, ledger=ledger, bounds={"age": (0, 100)}
    ) as curator:
        assert curator.card.rows == 12_000
        answers = curator.ask(["age > 50", "bmi / 50"])
        assert abs(answers[0].value - 0.5) < 0.2
    with ht.Curator(str(folder / "rows.parquet"), ledger=ledger) as curator:
        assert curator.ask("age > 50").repeated
    spark_session.read.parquet(str(folder)).write.saveAsTable("people_table", mode="overwrite")
    with ht.Curator(SparkRows("people_table", session=spark_session), ledger=ledger) as curator:
        assert curator.ask("bmi / 50").value == answers[1].value
    with ht.Curator(source, ledger=ledger) as curator:
        table = pq.read_table(folder / "rows.parquet")
        pq.write_table(pa.concat_tables([table.slice(1), table.slice(1, 1)]), folder / "rows.parquet")
        with pytest.raises(ReleaseError, match="charge stays"):
            curator.ask("age > 51")
    with pytest.raises(FingerprintMismatch):
        ht.Curator(source, ledger=ledger)
    with pytest.raises(FingerprintMismatch):
        ht.Curator(SparkRows(str(folder), session=spark_session), ledger=ledger)


@pytest.mark.parametrize("name", ["two words", "100%25", "signs #&=+;é"])
def test_files_of_any_name_are_read_and_watched(name, spark_session, tmp_path):
    file = tmp_path / name / f"{name}.parquet"
    file.parent.mkdir()
    table = pa.table({"age": np.arange(400)})
    pq.write_table(table, file)
    spark = open_engine(SparkRows(str(file.parent), session=spark_session))
    assert spark.sums([parse("age > 99", spark.card)], bits=0) == [300]
    pq.write_table(table.slice(1), file)
    with pytest.raises(ReleaseError):
        spark.sums([parse("age > 99", spark.card)], bits=0)


def test_the_command_opens_and_asks(people, spark_session, spark_cluster, tmp_path):
    file = tmp_path / "cluster.toml"
    file.write_text(
        f'master = "{spark_cluster.master}"\nsecret_file = "{spark_cluster.secret_file}"\nwait = 120\n'
        '[settings]\n"spark.authenticate" = true\n'
    )
    ledger = str(tmp_path / "people.ledger")

    def run(*words):
        return CliRunner().invoke(application, [*words, "--ledger", ledger, "--json"])

    opened = run("open", str(people), "--engine", "spark", "--cluster", str(file), "--queries", "50", "--epsilon", "1",
                 "--delta", "1e-6")  # fmt: skip
    assert opened.exit_code == 0, opened.output
    asked = run("ask", str(people), "age > 50")
    assert asked.exit_code == 0, asked.output
    assert '"value"' in asked.stdout
    assert isinstance(run("open", str(people), "--master", "spark://host:1").exception, InvalidParameter)
    assert spark_session.range(3).count() == 3


def test_row_values_reach_no_error_and_no_log_of_ours(spark_session, spark_cluster, capfd):
    table = pa.table({"name": [CANARY] * 200, "age": np.arange(200)})
    frame = spark_session.createDataFrame(table).repartition(3)
    broken = open_engine(frame.selectExpr("age", "CAST(name AS INT) AS wrong"))
    spark = open_engine(frame)

    class Failing(Thresholds):
        def add_rows(self, X, y, totals):  # noqa: ARG002, N803 - a class's own names
            raise ValueError(CANARY)

    with pytest.raises(ReleaseError):
        spark.error_counts(Failing(0, 1, steps=2), [Numbers("age")], parse("age > 3", spark.card))
    assert b"a task of Holdtrue failed" in spark_cluster.logs()
    assert CANARY.encode() not in spark_cluster.logs()
    # A cast of the custodian's own that fails: Spark's text quotes the cell, and does not get through.
    ways = [
        lambda: broken.sums([parse("wrong > 1", broken.card)], bits=1),
        lambda: broken.sums([parse("wrong > 1", broken.card)], bits=1, progress=lambda _: None),
        lambda: broken.fingerprint(KEY),
    ]
    for way in ways:
        with pytest.raises(ReleaseError) as caught:
            way()
        assert str(caught.value) == FAILED
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
    assert CANARY not in capfd.readouterr().err
    stopped = []

    def stop(_):
        stopped.append(True)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        spark.fingerprint(KEY, progress=stop)
    assert spark.sums([parse("age >= 0", spark.card)], bits=0) == [200]


def test_what_cannot_be_opened_is_refused_with_a_way_out(spark_session, spark_cluster, tmp_path, monkeypatch):
    from pyspark.sql import functions

    frame = spark_session.createDataFrame(pa.table({"a": [1, 2], "when": pa.array([1, 2], pa.timestamp("us", tz="UTC"))}))
    with pytest.raises(RequestError, match="'when' has type timestamp, whose text depends on the session"):
        open_engine(frame, types={"when": "text"})
    with pytest.raises(RequestError, match="chance"):
        open_engine(frame.select("a").withColumn("b", functions.rand()))
    with pytest.raises(RequestError, match="no table of that name, and no Parquet"):
        open_engine(SparkRows(str(tmp_path / "nothing"), session=spark_session))
    log = tmp_path / "of delta" / "_delta_log"
    log.mkdir(parents=True)
    for named in (log, log.parent, f"{log.parent}/"):
        with pytest.raises(RequestError, match="a Delta table, which this session cannot read"):
            open_engine(SparkRows(str(named), session=spark_session))
    with pytest.raises(InvalidParameter, match="session"):
        open_engine(SparkRows("people"))
    with pytest.raises(RequestError, match="no rows"):
        open_engine(frame.select("a").where("a > 5"))
    dated = frame.selectExpr("a", "DATE'2020-02-03' AS day", "CAST(a AS DECIMAL(20, 3)) AS d", "CAST(a AS DECIMAL(9)) AS n")
    kinds = [column.type for column in open_engine(dated, types={"day": "text"}).card.columns]
    assert kinds == ["integer", "text", "real", "integer"]
    # Executors whose Python has no packages.
    bare = tmp_path / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(bare.stat().st_mode | stat.S_IXUSR)
    context = spark_session.sparkContext
    monkeypatch.setattr(context, "pythonExec", str(bare))
    with pytest.raises(RequestError, match="executors cannot run Python tasks: they need Python 3"):
        open_engine(frame.select("a"))
    monkeypatch.undo()
    assert open_engine(frame.select("a")).card.rows == 2
    with pytest.raises(RefusedError, match="no authentication"):
        check_access(spark_cluster.master, {}, insecure_cluster=False)
