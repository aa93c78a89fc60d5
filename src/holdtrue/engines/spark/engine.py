"""The engine for rows that outgrow a machine: Spark reads them where they lie, and integers come back.

Every answer is one aggregation over all rows, without a filter: many queries in one job. Queries reach Spark as text of our
own emitter, and nothing else does. Noise is drawn on the driver, later, and never here. Rows stay on the executors.
"""

import re
from collections.abc import Callable, Sequence
from math import isqrt
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from holdtrue.bounds.prediction import rows_of_a_part
from holdtrue.engines.base import FAILED, Engine
from holdtrue.engines.bitmaps import Progress
from holdtrue.engines.fingerprints import Fingerprint
from holdtrue.engines.spark import SparkRows, check_access
from holdtrue.engines.spark.frames import check_executors, identify_files, number_rows, open_frame, run_job, shape_columns
from holdtrue.engines.spark.tasks import (
    FINGERPRINT,
    MEMBERS,
    POSITION,
    TALLY,
    Fingerprinting,
    Fitting,
    Grouping,
    Merging,
    Naming,
    Reading,
    Tallying,
    check_versions,
    list_versions,
)
from holdtrue.ensembles.members import Ensemble
from holdtrue.ensembles.parts import PartRule
from holdtrue.ensembles.saving import check_portable, member_from_bytes
from holdtrue.ensembles.training import Recipe, gather_members
from holdtrue.errors import NotCertified, ReleaseError
from holdtrue.hypotheses.classes import HypothesisClass
from holdtrue.kernels import Floats, Integers
from holdtrue.queries.cards import Card, Declared
from holdtrue.queries.columns import open_masked
from holdtrue.queries.emitters import emit_spark
from holdtrue.queries.features import Feature
from holdtrue.queries.syntax_tree import Query, checked_bits

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame

__all__ = ["SparkEngine", "open_rows"]

T = TypeVar("T")

_EXPRESSIONS = 128
_WORD = 1 << 62
_DOUBLE = 8


class SparkEngine(Engine):
    """Rows that Spark reads, by tasks that each depend on their own partition and may be tried again.

    Law: as every engine's; the integers do not depend on how rows are spread over partitions, executors and attempts. Needs:
    a frame that gives the same rows whenever it is read; the number of rows, and the files behind them, are looked at with
    every answer. Failure: ReleaseError with a fixed text.
    """

    pairs = False

    def __init__(self, card: Card, source: "DataFrame", expressions: Sequence[str], *, key: str | None = None) -> None:
        super().__init__(card)
        self._source = source
        self._expressions = tuple(expressions)
        self._frame = source.selectExpr(*expressions)
        self._session = source.sparkSession
        self.key = key
        self._files = identify_files(source)

    def sums(self, queries: Sequence[Query], *, bits: int, progress: Progress | None = None) -> list[int]:
        """Return for each query the sum over all rows of its value as a multiple of 2^-bits; 128 of them in one job."""
        checked_bits(bits)
        asked = list(queries)

        def take() -> list[int]:
            sums: list[int] = []
            for first in range(0, len(asked), _EXPRESSIONS):
                some = asked[first : first + _EXPRESSIONS]
                share = (first / len(asked), len(some) / len(asked))
                found = self._collect_rows(lambda some=some: self._sum_frame(some, bits), _share_progress(progress, *share))  # type: ignore[misc]
                rows, *totals = next(iter(found.to_pylist())).values()
                self._check_rows(rows)
                sums += [
                    int(value or 0) << (bits if query.boolean else 0) for query, value in zip(some, totals, strict=True)
                ]
            return sums

        return self._run_masked(take)

    def _sum_frame(self, queries: Sequence[Query], bits: int) -> "DataFrame":
        """Return one row: how many rows there are, and each query's sum.

        A sum is of 64 bits where the public number of rows proves that it fits, and of 38 digits elsewhere.
        """
        from pyspark.sql import functions

        fits = self.rows << bits < _WORD
        sums = []
        for number, query in enumerate(queries):
            text = emit_spark(query, 0 if query.boolean else bits)
            whole = text if fits or query.boolean else f"CAST({text} AS DECIMAL(38, 0))"
            sums.append(functions.expr(f"SUM({whole})").alias(f"q{number}"))
        return self._frame.agg(functions.count("*").alias("rows"), *sums)

    def error_counts(
        self, hypotheses: HypothesisClass, features: Sequence[Feature], target: Query, *, progress: Progress | None = None
    ) -> Integers:
        """Return how many rows each hypothesis gets wrong, from totals of partitions that are added up on the way."""
        reading = Reading(self.card, (*features, target))
        tally, merge = Tallying(reading, hypotheses), Merging(hypotheses)

        def made() -> "DataFrame":
            read = self._frame.select(*_name_columns(reading.names))
            several = isqrt(max(1, read.rdd.getNumPartitions() - 1)) + 1
            return read.mapInArrow(_wrap_task(tally), TALLY).repartition(several).mapInArrow(_wrap_task(merge), TALLY)

        def take() -> Integers:
            totals, rows = hypotheses.make_totals(), 0
            for line in self._collect_rows(made, progress).to_pylist():
                rows += line["rows"]
                totals += np.frombuffer(line["totals"], dtype=totals.dtype)
            self._check_rows(rows)
            return hypotheses.count_errors(totals)

        return self._run_masked(take)

    def train(
        self,
        recipe: Recipe,
        features: Sequence[Feature],
        goal: Feature,
        *,
        rule: PartRule,
        progress: Progress | None = None,
    ) -> Ensemble:
        """Return an ensemble whose members were trained where the rows are, one per part, and came back as arrays.

        Guarantee (E4, E10): a row's part is decided by the rule, as on a single machine, and the members are those that a
        single machine trains on the same rows. By position, the last rows that fill no whole round belong to no part.
        """
        check_portable(recipe)
        held_out = self.rows * rule.millionths // 1_000_000 if rule.by == "position" else 0
        share = rows_of_a_part(self.rows - held_out, parts=recipe.parts)
        reading, fitting = Reading(self.card, (*features, goal), key=rule.key), Fitting(recipe)

        def made() -> "DataFrame":
            from pyspark.sql import functions

            read = _split_rows(self._read_rows(reading, rule), rule, held=False)
            if rule.by == "position":
                read = read.where(functions.col(POSITION) < share * recipe.parts)
            parted = read.withColumn("part", functions.pmod(functions.col(POSITION), functions.lit(recipe.parts)))
            return parted.groupBy("part").applyInArrow(_wrap_grouped(fitting), MEMBERS)

        def take() -> Ensemble:
            held: dict[int, Any] = {}
            rows = 0
            for line in self._collect_rows(made, progress).to_pylist():
                if rule.by == "position" and line["rows"] != share:
                    raise ReleaseError(FAILED)
                rows += line["rows"]
                held[line["part"]] = member_from_bytes(line["member"], recipe=recipe)
            if rule.held_out and rule.by == "key":  # how many it holds out, nobody knows beforehand
                rows += self._collect_rows(
                    lambda: _split_rows(self._read_rows(reading, rule), rule, held=True), None
                ).num_rows
            if rows != (share * recipe.parts if rule.by == "position" else self.rows):
                raise ReleaseError(FAILED)
            return recipe.make_ensemble(gather_members(recipe, [held.get(part) for part in range(recipe.parts)]))

        return self._run_masked(take)

    def vote_held_out(
        self, ensemble: Ensemble, features: Sequence[Feature], goal: Feature, *, rule: PartRule
    ) -> tuple[Integers, Integers]:
        """Return the votes at the rows that no member was trained on; these rows alone come to the driver."""
        reading = Reading(self.card, (*features, goal), key=rule.key)

        def take() -> tuple[Integers, Integers]:
            found = self._collect_rows(lambda: _split_rows(self._read_rows(reading, rule), rule, held=True), None)
            rows, y = _to_arrays(found, len(features))
            return ensemble.votes(rows), np.nan_to_num(y, nan=0.0).astype(np.int64)

        return self._run_masked(take)

    def check_room(self, columns: int) -> None:
        """Refuse more than the driver takes as the result of one job: ``spark.driver.maxResultSize``."""
        most = _read_size(self._session.sparkContext.getConf().get("spark.driver.maxResultSize", "1g"))
        needed = self.rows * (columns + 1) * _DOUBLE
        if most and needed > most:
            sizes = f"these columns are {needed >> 20:,} MB for the driver; spark.driver.maxResultSize is {most >> 20:,} MB"
            message = f"{sizes}; raise it, name fewer features, or use train and predict"
            raise NotCertified(message)

    def fit(
        self,
        learn: Callable[[Floats, Floats], T],
        features: Sequence[Feature],
        goal: Feature,
        *,
        progress: Progress | None = None,
    ) -> T:
        """Return what a learner makes of all rows at once, in the driver; in which order they come, nobody knows."""
        reading = Reading(self.card, (*features, goal))

        def take() -> T:
            found = self._collect_rows(lambda: self._read_rows(reading, PartRule("whole")), progress)
            self._check_rows(found.num_rows)
            return learn(*_to_arrays(found, len(features)))

        return self._run_masked(take)

    def _read_rows(self, reading: Reading, rule: PartRule) -> "DataFrame":
        """Return the features of rows as doubles, and the number that decides a row's part and its order in it."""
        from pyspark.sql import Window, functions

        listed = [f"f{number}" for number in range(len(reading.features))]
        schema = ", ".join([f"{POSITION} bigint", *(f"{name} double" for name in listed)])
        if rule.by == "position":
            frame = number_rows(self._source, self._expressions, card=self.card, key=self.key)
            return frame.select(*_name_columns([*reading.names, POSITION])).mapInArrow(_wrap_task(reading), schema)
        read = self._frame.select(*_name_columns(reading.names)).mapInArrow(_wrap_task(reading), schema)
        if rule.by in ("key", "whole"):
            return read
        copies = functions.row_number().over(Window.partitionBy(*listed).orderBy(listed[0])) - 1
        numbered = read.withColumn(POSITION, copies.cast("bigint"))
        return numbered.mapInArrow(_wrap_task(Naming()), schema)

    def fingerprint(self, key: bytes, *, progress: Progress | None = None) -> bytes:
        """Return 32 bytes for the schema and the rows in any order: those of every other engine on the same rows.

        Executors add up their rows under the key, which travels with the task; the driver adds up what they found.
        """
        schema = tuple((column.name, column.type) for column in self.card.columns)
        whole, task = Fingerprint(key, schema=schema), Fingerprinting(key, schema)

        def take() -> bytes:
            found = self._collect_rows(lambda: self._frame.mapInArrow(_wrap_task(task), FINGERPRINT), progress).to_pylist()
            for line in found:
                left, right = (int.from_bytes(line[half], "little") for half in ("left", "right"))
                whole.merge((line["rows"], left, right))
            self._check_rows(whole.totals()[0])
            return whole.finish()

        return self._run_masked(take)

    def read_keys(self, unit: str) -> "pa.Table":
        """Return the different keys of all rows, NULL among them where there is one."""
        return self._run_masked(
            lambda: self._collect_rows(lambda: self._frame.select(*_name_columns([unit])).distinct(), None)
        )

    def read_all(self) -> "pa.Table":
        """Return all rows, for an engine of units that has one for each."""

        def take() -> "pa.Table":
            found = self._collect_rows(lambda: self._frame, None)
            self._check_rows(found.num_rows)
            return found

        return self._run_masked(take)

    def reduce_groups(self, task: Grouping) -> "pa.Table":
        """Return a row for each key with what its rows come to, merged over partitions."""

        def made() -> "DataFrame":
            from pyspark.sql import functions

            grouped = self._frame.select(*_name_columns([name for name, _ in task.schema]))
            merged = [functions.sum("rows").alias("rows")]
            for number, found in enumerate(task.aggregates):
                name = f"value{number}"
                if found.order is not None:
                    # By place, then values that are there, then the least: NULL would come first otherwise.
                    whole = functions.min(functions.struct(f"place{number}", f"lacks{number}", name))
                    merged.append(whole[name].alias(name))
                else:
                    merge = {"MIN": functions.min, "MAX": functions.max}.get(found.name, functions.sum)
                    merged.append(merge(name).alias(name))
            return grouped.mapInArrow(_wrap_task(task), task.output).groupBy("key").agg(*merged)

        def take() -> "pa.Table":
            found = self._collect_rows(made, None)
            self._check_rows(sum(found.column("rows").to_pylist()))
            return found

        return self._run_masked(take)

    def _collect_rows(self, made: "Callable[[], DataFrame]", progress: Progress | None) -> "pa.Table":
        """Return the few rows of a frame; check before and after that the files are the ones that were opened."""
        self._check_files()
        found = run_job(self._session, lambda: made().toArrow(), progress=progress)
        self._check_files()
        return found

    def _check_files(self) -> None:
        if identify_files(self._source) != self._files:
            raise ReleaseError(FAILED)

    def _check_rows(self, rows: int) -> None:
        if rows != self.rows:
            raise ReleaseError(FAILED)

    def _release_rows(self) -> None:
        """Do nothing: the rows are Spark's, and the session is its owner's."""


def _split_rows(frame: "DataFrame", rule: PartRule, *, held: bool) -> "DataFrame":
    """Return the rows that a rule holds out, or those that it does not, their positions counted among themselves."""
    from pyspark.sql import functions

    if not rule.held_out:
        return frame
    if rule.by == "key":
        marked = functions.expr(f"pmod(shiftright({POSITION}, 20), 1000000) < {rule.millionths}")
        return frame.where(marked if held else ~marked)
    before = functions.expr(f"{POSITION} * {rule.millionths} div 1000000")
    marked = functions.expr(f"({POSITION} + 1) * {rule.millionths} div 1000000") > before
    return frame.where(marked) if held else frame.where(~marked).withColumn(POSITION, functions.col(POSITION) - before)


def _to_arrays(found: "pa.Table", width: int) -> tuple[Floats, Floats]:
    """Return the features of rows, and the goal, which is the last of their columns."""
    rows = np.empty((found.num_rows, width))
    for place in range(width):
        rows[:, place] = found.column(f"f{place}").to_numpy()
    return rows, np.array(found.column(f"f{width}").to_numpy())


def _read_size(text: str) -> int:
    """Return a size as Spark writes it, in bytes: 1g, 512m, or bytes without a letter."""
    number, letter = re.fullmatch(r"(\d+)\s*([kmgtp]?)b?", text.strip().lower()).groups()  # type: ignore[union-attr]  # as Spark checked
    return int(number) << 10 * " kmgtp".index(letter or " ")


def _wrap_task(task: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a task as the plain function that Spark wants; an executor with other versions fails it."""
    expected = list_versions()

    def run(batches: Any) -> Any:  # noqa: ANN401 - Arrow batches
        check_versions(expected)
        return task(batches)

    return run


def _wrap_grouped(task: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    expected = list_versions()

    def run(key: Any, table: Any) -> Any:  # noqa: ANN401 - a key of groups, and an Arrow table
        check_versions(expected)
        return task(key, table)

    return run


def _name_columns(names: Sequence[str]) -> list[Any]:
    """Return columns by their names, whatever characters the names hold."""
    from pyspark.sql import functions

    return [functions.col("`" + name.replace("`", "``") + "`") for name in names]


def _share_progress(progress: Progress | None, begun: float, share: float) -> Progress | None:
    return None if progress is None else lambda done: progress(min(1.0, begun + share * done))


def open_rows(rows: SparkRows, *, declared: Declared) -> SparkEngine:
    """Return an engine over rows that Spark reads, after checking the cluster and its executors."""
    frame = open_masked(lambda: open_frame(rows), failure="the rows could not be opened with Spark")
    context = frame.sparkSession.sparkContext
    check_access(str(context.master), dict(context.getConf().getAll()), insecure_cluster=rows.insecure_cluster)
    check_executors(frame.sparkSession, wait=rows.wait)

    def read() -> SparkEngine:
        expressions, named = shape_columns(frame, declared=declared)
        counted = run_job(frame.sparkSession, frame.count)
        card = declared.make_card(named, rows=int(counted))
        if rows.key is not None:
            number_rows(frame, expressions, card=card, key=rows.key)
        return SparkEngine(card, frame, expressions, key=rows.key)

    return open_masked(read, failure="the rows could not be read with Spark")
