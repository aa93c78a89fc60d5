"""Jobs on Spark, attended: told of progress, bounded in time, stopped with their caller, and silent when they fail."""

import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from holdtrue.engines.bitmaps import Progress
from holdtrue.engines.sealing import FAILED
from holdtrue.engines.spark_tasks import versions
from holdtrue.errors import HoldtrueError, ReleaseError, RequestError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["attended", "check_executors"]

T = TypeVar("T")

_LOOK_SECONDS = 0.2
_MOST_TASKS = 256
# What PySpark writes to standard error about a failed job quotes Spark's own words, and those may quote a cell.
_TALKERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_seen: set[tuple[str, str]] = set()
_numbers = iter(range(1 << 62))


def attended(
    session: "SparkSession", action: Callable[[], T], *, progress: Progress | None = None, wait: float | None = None
) -> T:
    """Return what an action with jobs returns; ReleaseError where it fails, TimeoutError after ``wait`` seconds.

    ``progress`` is told the share of tasks that are done, from 0 to 1, by the caller's own thread. Where the caller is
    stopped meanwhile, so are the jobs.
    """
    with _hushed():
        if progress is None and wait is None:
            return action()
        return _watched(session, action, progress, wait)


@contextmanager
def _hushed() -> Iterator[None]:
    """Let nothing through that PySpark says of a job: neither what it logs nor what it warns of."""
    loggers = [logging.getLogger(name) for name in _TALKERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def _watched(session: "SparkSession", action: Callable[[], T], progress: Progress | None, wait: float | None) -> T:
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
                progress(_share(context, group))
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


def _share(context: Any, group: str) -> float:  # noqa: ANN401 - a SparkContext
    """Return how many tasks are done, of those that the stages so far have."""
    tracker = context.statusTracker()
    tasks = done = 0
    for job in tracker.getJobIdsForGroup(group):
        for stage in getattr(tracker.getJobInfo(job), "stageIds", ()):
            if (told := tracker.getStageInfo(stage)) is not None:
                tasks, done = tasks + told.numTasks, done + told.numCompletedTasks
    return min(1.0, done / tasks) if tasks else 0.0


def check_executors(session: "SparkSession", *, wait: float) -> None:
    """Refuse executors that do not run this Python, this Holdtrue and these packages; asked once a session.

    Executors that join later are asked by every task, which fails there.
    """
    context = session.sparkContext
    name = (context.applicationId, context.pythonExec)
    if name in _seen:
        return
    expected = versions()
    needed = f"Python {expected['python']} with holdtrue[spark] {expected['holdtrue']}"
    try:
        found = attended(session, lambda: _told(session), wait=wait)
    except TimeoutError:
        message = f"no executor took a task within {wait:g} seconds: are there workers, with memory and cores to spare?"
    except ReleaseError:
        message = f"executors run no tasks in Python: they need {needed} and its packages, at {context.pythonExec}"
    else:
        odd = next((facts for facts in found if facts != expected), None)
        if odd is None:
            _seen.add(name)
            return
        named = next(part for part in expected if odd.get(part) != expected[part])
        has = odd.get(named) or f"no {odd.get('missing', named)}"
        message = f"an executor has {has} where the driver has {named} {expected[named]}: install {needed} on every worker"
    raise RequestError(message)


def _told(session: "SparkSession") -> list[dict[str, str]]:
    """Return what executors say they run: more tasks than cores, so that most executors are asked."""

    def look(batches: Any) -> Any:  # noqa: ANN401 - carried whole to executors, which may have none of our types
        import json
        from importlib import import_module

        import pyarrow as pa  # type: ignore[import-untyped]

        try:
            told = import_module("holdtrue.engines.spark_tasks").versions()
        except ImportError as error:
            told = {"missing": error.name or "holdtrue"}
        for _ in batches:
            pass
        yield pa.record_batch([pa.array([json.dumps(told)])], names=["told"])

    tasks = min(_MOST_TASKS, max(2, 2 * session.sparkContext.defaultParallelism))
    asked = session.range(0, tasks, 1, tasks).mapInArrow(look, "told string")
    return [json.loads(text) for text in set(asked.toArrow().column(0).to_pylist())]
