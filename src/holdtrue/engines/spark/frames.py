"""Spark DataFrames as tables of the card: types, the files behind them, where each row stands; and the jobs over them.

Jobs are watched: told of progress, bounded in time, stopped with their caller, and silent when they fail.
"""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from holdtrue.engines.base import FAILED
from holdtrue.engines.bitmaps import Progress
from holdtrue.engines.spark import SparkRows
from holdtrue.engines.spark.tasks import POSITION, list_versions
from holdtrue.errors import HoldtrueError, InvalidParameter, NotCertified, ReleaseError, RequestError
from holdtrue.queries.cards import Card, Declared
from holdtrue.queries.columns import check_names, choose_type, type_of_decimal
from holdtrue.queries.dates import LIMITS
from holdtrue.queries.emitters import Spark
from holdtrue.silence import silence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["check_executors", "identify_files", "number_rows", "open_frame", "run_job", "shape_columns"]

T = TypeVar("T")

_DIALECT = Spark()
_INTEGERS = {"tinyint", "smallint", "int", "bigint"}
_MOMENTS = {"date": "date", "timestamp": "timestamp", "timestamp_ntz": "timestamp"}
# A timestamp without a zone is put together from parts that depend on no zone, unlike its cast to one with a zone; from days
# within the calendar, so that nothing overflows.
_DAYS = "CAST(unix_date(CAST({0} AS DATE)) AS BIGINT)"
_INTEGERS_OF = {
    "date": _DAYS,
    "timestamp": "unix_micros({0})",
    "timestamp_ntz": f"(CASE WHEN {_DAYS} BETWEEN -719162 AND 2932896 THEN {_DAYS} END * 86400000000 "
    "+ CAST(hour({0}) AS BIGINT) * 3600000000 + CAST(minute({0}) AS BIGINT) * 60000000 "
    "+ CAST(extract(SECOND FROM {0}) * 1000000 AS BIGINT))",
}
# The emitter writes constants as these settings read them.
_ASSUMED = {
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "corrected",
    "spark.sql.parquet.int96RebaseModeInRead": "corrected",
}
_FILE = "holdtrue_file"
_OFFSET = "holdtrue_offset"
_LOOK_SECONDS = 0.2
_MOST_TASKS = 256
_seen: set[tuple[str, str]] = set()
_numbers = iter(range(1 << 62))


def open_frame(rows: SparkRows) -> "DataFrame":
    """Return the frame that a source means; refuse one whose rows are not the same each time they are read."""
    if isinstance(rows.source, str):
        if rows.session is None:
            raise InvalidParameter.saying("session", "rows given by name need session=, a SparkSession")
        frame = _find_rows(rows.session, rows.source)
    else:
        frame = rows.source
    if type(frame).__module__ != "pyspark.sql.classic.dataframe":
        message = (
            "Spark Connect cannot run the tasks of this engine; open the rows with a classic session on the driver"
            if "connect" in type(frame).__module__
            else f"a {type(frame).__name__} is not a Spark DataFrame, a table name or a path"
        )
        raise RequestError(message)
    for name, wanted in _ASSUMED.items():
        if str(frame.sparkSession.conf.get(name)).lower() != wanted:
            message = f"the session has {name} set; Holdtrue's expressions need it {wanted}"
            raise RequestError(message)
    if not frame._jdf.queryExecution().analyzed().deterministic():  # noqa: SLF001 - there is no other way to ask
        message = (
            "these rows depend on chance or on how they are spread over tasks (rand, monotonically_increasing_id): "
            "a task that is retried would see other rows. Write them to Parquet, and open that"
        )
        raise RequestError(message)
    return frame


def _find_rows(session: "SparkSession", source: str) -> "DataFrame":
    """Return the table of a name, or the files of a path; the text is looked up and is never SQL."""
    if re.fullmatch(r"\w+(\.\w+){0,2}", source) and session.catalog.tableExists(source):
        return session.read.table(source)
    delta = bool(re.search(r"(^|/)_delta_log/?$", source))
    try:
        delta = delta or _has_delta(session, source)
        reader = session.read.format("delta" if delta else "parquet")
        return run_job(session, lambda: reader.load(source))
    except Exception:  # noqa: BLE001, S110 - Spark's words are many, and ours are below
        pass
    message = (
        f"{source}: a Delta table, which this session cannot read: start it with Delta's jars and its extension"
        if delta
        else f"{source}: Spark finds no table of that name, and no Parquet or Delta files at that path"
    )
    raise RequestError(message)


def _has_delta(session: "SparkSession", source: str) -> bool:
    jvm: Any = session._jvm  # noqa: SLF001 - Hadoop's classes are reached no other way
    path = jvm.org.apache.hadoop.fs.Path(source, "_delta_log")
    return bool(_find_filesystem(session, path).exists(path))


def _find_filesystem(session: "SparkSession", path: Any) -> Any:  # noqa: ANN401 - a path and a file system of Hadoop's
    return path.getFileSystem(session.sparkContext._jsc.hadoopConfiguration())  # noqa: SLF001 - reached no other way


def _make_path(jvm: Any, name: str) -> Any:  # noqa: ANN401 - Java's, and a path of Hadoop's
    """Return the path of a file that a frame lists: Spark lists addresses, with %20 for a space; others may list names."""
    try:
        return jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(name))
    except Exception:  # noqa: BLE001 - signs that no address has
        return jvm.org.apache.hadoop.fs.Path(name)


def identify_files(frame: "DataFrame") -> bytes:
    """Return a digest of the files behind a frame: names, lengths and times of change. Empty where there are none.

    One question to the file system for all of them, however many they are.
    """
    session = frame.sparkSession
    names = sorted(frame.inputFiles())
    if not names:
        return b""
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - arrays of Java are made no other way
    jvm = gateway.jvm
    asked, listed = (gateway.new_array(kind, len(names)) for kind in (jvm.org.apache.hadoop.fs.Path, jvm.java.lang.Object))
    for place, name in enumerate(names):
        asked[place] = _make_path(jvm, name)
    # Copied, since toString is looked up by the type of an array, and there is none for this one.
    jvm.java.lang.System.arraycopy(_find_filesystem(session, asked[0]).listStatus(asked), 0, listed, 0, len(names))
    told = str(jvm.java.util.Arrays.toString(listed))
    facts = re.findall(r"path=([^;]*);.*?length=(\d+);.*?modification_time=(\d+)", told)
    if len(facts) != len(names):
        message = "some files behind the frame are missing"
        raise RequestError(message)
    return hashlib.blake2b(repr(sorted(facts)).encode(), digest_size=32).digest()


def shape_columns(frame: "DataFrame", *, declared: Declared) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the columns of a frame as expressions of the card's types, and their names and types."""
    fields = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
    check_names([name for name, _ in fields], declared.types)
    expressions, named = [], []
    for name, found in fields:
        wanted, empty = declared.types.get(name), found == "void"
        if (found, wanted) == ("timestamp", "text"):
            message = f"column {name!r} has type timestamp, whose text depends on the session; read it as a timestamp"
            raise RequestError(message)
        kind = choose_type(name, found=found, kind=_find_type(found), wanted=wanted, as_text=False, empty=empty)
        column = _DIALECT.quote_name(name)
        expressions.append(f"{_write_column(column, found, kind)} AS {column}")
        named.append((name, kind))
    return expressions, named


def _write_column(column: str, found: str, kind: str) -> str:
    """Return a column in the card's type, dates and timestamps as integers; what there is no room for is NULL."""
    if kind in LIMITS and found in _MOMENTS:
        whole = _INTEGERS_OF[found].format(column)
        low, high = map(_DIALECT.write_number, LIMITS[kind])
        return f"CASE WHEN {whole} BETWEEN {low} AND {high} THEN {whole} END"
    # Through text a decimal becomes the nearest double, as it does on every engine.
    inner = f"TRY_CAST({column} AS STRING)" if found.startswith("decimal") and kind == "real" else column
    return f"TRY_CAST({inner} AS {_DIALECT.types[kind]})"  # type: ignore[index]  # of the card


def _find_type(found: str) -> str | None:
    if found == "boolean":
        return "boolean"
    if found in _INTEGERS:
        return "integer"
    if (decimal := re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", found)) is not None:
        return type_of_decimal(int(decimal[1]), int(decimal[2]))
    if found in ("float", "double"):
        return "real"
    return "text" if re.match(r"string|varchar\(|char\(", found) else _MOMENTS.get(found)


def number_rows(frame: "DataFrame", expressions: Sequence[str], *, card: Card, key: str | None) -> "DataFrame":
    """Return the rows with their positions, 0 to rows - 1, which stay where they are when a row is replaced (E10).

    By a public key that numbers the rows, or else by the order of files by name and of the rows in them: the order in which
    every other engine reads them. NotCertified where there is neither.
    """
    from pyspark.sql import functions

    if key is not None:
        if card.column(key).type != "integer":
            raise InvalidParameter("key", key, "a column of whole numbers, one per row and without gaps")
        column = _DIALECT.quote_name(key)
        (found,) = frame.selectExpr(f"MIN({column})", f"MAX({column})", f"COUNT({column})").toArrow().to_pylist()
        low, high, there = found.values()
        if there != card.rows or high - low + 1 != card.rows:
            raise InvalidParameter("key", key, "a column of whole numbers, one per row and without gaps")
        return frame.selectExpr(*expressions, f"{column} - {_DIALECT.write_number(low)} AS {POSITION}")
    needs = "parts of an ensemble need positions: open Parquet files, or SparkRows(..., key=) with a column of row numbers"
    if not frame.inputFiles():
        raise NotCertified(needs)
    try:
        within = frame.selectExpr(*expressions, f"_metadata.file_path AS {_FILE}", f"_metadata.row_index AS {POSITION}")
        counted = within.groupBy(_FILE).agg(functions.count("*"), functions.max(POSITION)).toArrow().to_pylist()
    except Exception:  # noqa: BLE001 - no such columns: a frame that was joined, say
        raise NotCertified(needs) from None
    offsets, start = [], 0
    for path, rows, last in sorted((tuple(line.values()) for line in counted), key=lambda line: unquote(line[0])):
        if last + 1 != rows:
            raise NotCertified(needs)
        offsets.append((path, start))
        start += rows
    if start != card.rows:
        raise NotCertified(needs)
    table = frame.sparkSession.createDataFrame(offsets, f"{_FILE} string, {_OFFSET} bigint")
    numbered = within.join(functions.broadcast(table), _FILE)
    return numbered.withColumn(POSITION, functions.expr(f"{POSITION} + {_OFFSET}")).drop(_FILE, _OFFSET)


def run_job(
    session: "SparkSession", action: Callable[[], T], *, progress: Progress | None = None, wait: float | None = None
) -> T:
    """Return what an action with jobs returns; ReleaseError where it fails, TimeoutError after ``wait`` seconds.

    ``progress`` is told the share of tasks that are done, from 0 to 1, by the caller's own thread. Where the caller is
    stopped meanwhile, so are the jobs.
    """
    with silence():
        if progress is None and wait is None:
            return action()
        return _watch_job(session, action, progress, wait)


def _watch_job(session: "SparkSession", action: Callable[[], T], progress: Progress | None, wait: float | None) -> T:
    from pyspark import InheritableThread

    context, group = session.sparkContext, f"holdtrue-{next(_numbers)}"
    found: list[T] = []
    refused: list[HoldtrueError] = []

    def work() -> None:
        context.setJobGroup(group, "holdtrue", interruptOnCancel=True)
        try:
            found.append(action())
        except HoldtrueError as error:
            refused.append(error)
        except Exception:  # noqa: BLE001 - its text may quote a cell
            refused.append(ReleaseError(FAILED))

    worker = InheritableThread(target=work, daemon=True)
    until = None if wait is None else monotonic() + wait
    worker.start()
    try:
        while worker.is_alive():
            worker.join(_LOOK_SECONDS)
            _check_time(until)
            if progress is not None:
                progress(_share_done(context, group))
    except BaseException:
        context.cancelJobGroup(group)
        raise
    if refused:
        raise refused[0].with_traceback(None)
    if progress is not None:
        progress(1.0)
    return found[0]


def _check_time(until: float | None) -> None:
    if until is not None and monotonic() > until:
        raise TimeoutError


def _share_done(context: Any, group: str) -> float:  # noqa: ANN401 - a SparkContext
    """Return how many tasks are done, of those that the stages so far have."""
    tracker = context.statusTracker()
    tasks = done = 0
    for job in tracker.getJobIdsForGroup(group):
        for stage in getattr(tracker.getJobInfo(job), "stageIds", ()):
            if (told := tracker.getStageInfo(stage)) is not None:
                tasks, done = tasks + told.numTasks, done + told.numCompletedTasks
    return min(1.0, done / tasks) if tasks else 0.0


def check_executors(session: "SparkSession", *, wait: float) -> None:
    """Refuse executors that do not run this Python, this Holdtrue and these packages; checked once per session.

    Executors that join later are asked by every task, which fails there.
    """
    context = session.sparkContext
    name = (context.applicationId, context.pythonExec)
    if name in _seen:
        return
    expected = list_versions()
    needed = f"Python {expected['python']} with holdtrue[spark] {expected['holdtrue']}"
    try:
        found = run_job(session, lambda: _ask_executors(session), wait=wait)
    except TimeoutError:
        message = f"no executor took a task within {wait:g} seconds; check that there are workers with free memory and cores"
    except ReleaseError:
        message = f"executors cannot run Python tasks: they need {needed} and its packages, at {context.pythonExec}"
    else:
        odd = next((facts for facts in found if facts != expected), None)
        if odd is None:
            _seen.add(name)
            return
        named = next(part for part in expected if odd.get(part) != expected[part])
        has = odd.get(named) or f"no {odd.get('missing', named)}"
        message = f"an executor has {has} where the driver has {named} {expected[named]}: install {needed} on every worker"
    raise RequestError(message)


def _ask_executors(session: "SparkSession") -> list[dict[str, str]]:
    """Return what executors say they run: more tasks than cores, so that most executors are asked."""

    def look(batches: Any) -> Any:  # noqa: ANN401 - carried whole to executors, which may have none of our types
        import json
        from importlib import import_module

        import pyarrow as pa  # type: ignore[import-untyped]

        try:
            told = import_module("holdtrue.engines.spark.tasks").list_versions()
        except ImportError as error:
            told = {"missing": error.name or "holdtrue"}
        for _ in batches:
            pass
        yield pa.record_batch([pa.array([json.dumps(told)])], names=["told"])

    tasks = min(_MOST_TASKS, max(2, 2 * session.sparkContext.defaultParallelism))
    asked = session.range(0, tasks, 1, tasks).mapInArrow(look, "told string")
    return [json.loads(text) for text in set(asked.toArrow().column(0).to_pylist())]
