"""A hundred queries in one job of Spark over generated rows, ten and a hundred times as many, side by side with DuckDB.

Time may grow at most linearly in rows; what is shuffled may not grow at all; the integers are DuckDB's on the same files.
``python -m benchmarks.spark 6 7`` takes 10^6 and 10^7 rows only.
"""

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from benchmarks.peers import show
from holdtrue.engines import SparkRows, open_engine
from holdtrue.engines.spark import Cluster, start
from holdtrue.queries import parse

__all__ = ["run"]

_SIZES = (10**6, 10**7, 10**8)
_FILES = 8
_BITS = 20
_BYTES_A_ROW = 16
_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    # Bytes as they are: compressed, a small sum takes fewer of them than a large one.
    "spark.shuffle.compress": "false",
    # One task a file, whatever its size, so that runs differ in rows and in nothing else.
    "spark.sql.files.maxPartitionBytes": "8g",
    "spark.sql.files.minPartitionNum": str(_FILES),
}
_COLUMNS = (
    "CAST(pmod(hash(id), 1000) AS SMALLINT) AS age",
    "CAST(pmod(hash(id, 1), 100) AS TINYINT) AS bmi",
    "pmod(hash(id, 2), 5) = 0 AS smoker",
)


def run(sizes: Sequence[int] = _SIZES) -> None:
    """Print rows, times and their growth, the bytes that were shuffled, and whether the sums are DuckDB's."""
    need = max(sizes) * _BYTES_A_ROW
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < need:
        print(f"{need / 1e9:.1f} GB of free disk are needed, there are {free / 1e9:.1f}: not run")
        return
    with tempfile.TemporaryDirectory() as folder:
        session = start(Cluster("local[*]", {**_SETTINGS, "spark.local.dir": folder}, wait=600))
        try:
            lines = _lines(session, Path(folder), sizes)
        finally:
            session.stop()
    show(
        f"{len(_texts())} queries in one job, {_FILES} files each",
        ["rows", "files", "Spark", "growth of time / of rows (<= 1)", "shuffled", "tasks", "DuckDB", "equal"],
        lines,
    )


def _lines(session: Any, folder: Path, sizes: Sequence[int]) -> list[list[str]]:  # noqa: ANN401 - a SparkSession
    lines: list[list[str]] = []
    before: tuple[int, float, int] | None = None
    for rows in sizes:
        place = folder / f"rows-{rows}.parquet"
        session.range(0, rows, 1, _FILES).selectExpr(*_COLUMNS).write.parquet(str(place))
        size = sum(path.stat().st_size for path in place.glob("*.parquet"))
        spark = open_engine(SparkRows(str(place), session=session))
        duck = open_engine(f"{place}/*.parquet")
        queries = [parse(text, spark.card) for text in _texts()]
        if before is None:
            spark.sums(queries, bits=_BITS)  # to compile
        seen = _stages(session)
        taken, sums = _timed(lambda spark=spark, queries=queries: spark.sums(queries, bits=_BITS))  # type: ignore[misc]
        told = [stage for name, stage in _stages(session).items() if name not in seen]
        alone, expected = _timed(lambda duck=duck, queries=queries: duck.sums(queries, bits=_BITS))  # type: ignore[misc]
        growth = "" if before is None else f"{taken / before[1] / (rows / before[0]):.2f}"
        shuffled = sum(stage["shuffleWriteBytes"] for stage in told)
        lines.append(
            [
                f"{rows:,}",
                f"{size / 1e6:,.1f} MB",
                f"{taken:,.2f} s",
                growth,
                f"{shuffled:,} B",
                f"{sum(stage['numCompleteTasks'] for stage in told)}",
                f"{alone:,.2f} s",
                "yes" if sums == expected else "NO",
            ]
        )
        print("  " + ", ".join(lines[-1]), flush=True)
        duck.close()
        spark.close()
        shutil.rmtree(place)
        if sums != expected:
            message = "the two do not count the same"
            raise AssertionError(message)
        if before is not None and shuffled > before[2]:
            message = "what is shuffled grew with the rows"
            raise AssertionError(message)
        before = rows, taken, shuffled
    return lines


def _texts() -> list[str]:
    conditions = [f"age > {number * 16} AND bmi < {100 - number}" for number in range(40)]
    conditions += [f"smoker AND age BETWEEN {number * 20} AND {number * 30 + 50}" for number in range(20)]
    return conditions + [f"age / {1000 + number} * (bmi / {100 + number})" for number in range(40)]


def _stages(session: Any) -> dict[tuple[int, int], dict[str, Any]]:  # noqa: ANN401 - a SparkSession
    """Return what the driver's own status service says of its stages."""
    time.sleep(1)  # it learns of the end of a stage a little later
    context = session.sparkContext
    address = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages?status=complete"
    with urlopen(address, timeout=30) as answer:  # noqa: S310 - the driver's own
        return {(stage["stageId"], stage["attemptId"]): stage for stage in json.load(answer)}


def _timed(action: Callable[[], list[int]]) -> tuple[float, list[int]]:
    begun = time.perf_counter()
    found = action()
    return time.perf_counter() - begun, found


if __name__ == "__main__":
    run([10 ** int(power) for power in sys.argv[1:]] or _SIZES)
