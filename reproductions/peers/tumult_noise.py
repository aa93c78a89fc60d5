"""The noise of Tumult Analytics: run by the Python of its own environment, never by ours.

``python tumult_noise.py PLANS.json OUT.json``: rho, labels and bounds of each plan in; what a session says of the noise of
counts by group and of averages by group out, as variances. One row replaced is two rows that change: AddMaxRows(2).
"""  # noqa: INP001 - a script of another environment, outside the package

import json
import math
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def main(plans: str, out: str) -> None:
    """Ask sessions on made rows for the noise of two queries of each plan; noise does not depend on rows."""
    spark = import_module("pyspark.sql").SparkSession.builder.master("local[1]")
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    for name, value in settings.items():
        spark = spark.config(name, value)
    session = spark.getOrCreate()
    found = [find_noise(session, plan) for plan in json.loads(Path(plans).read_text(encoding="utf-8"))]
    Path(out).write_text(json.dumps(found), encoding="utf-8")


def find_noise(spark: Any, wanted: dict[str, Any]) -> dict[str, list[float]]:  # noqa: ANN401 - a session of Spark
    """Return the variances that a session of Tumult names for one plan."""
    analytics, pandas = import_module("tmlt.analytics"), import_module("pandas")
    labels = wanted["labels"]
    rows = spark.createDataFrame(pandas.DataFrame({"kind": labels[:2], "amount": [1.0, 2.0]}))
    session = analytics.Session.from_dataframe(
        privacy_budget=analytics.RhoZCDPBudget(math.inf),
        source_id="people",
        dataframe=rows,
        protected_change=analytics.AddMaxRows(2),
    )
    grouped = analytics.QueryBuilder("people").groupby(analytics.KeySet.from_dict({"kind": labels}))
    queries = {"counts": grouped.count(), "means": grouped.average("amount", *wanted["bounds"])}
    budget = analytics.RhoZCDPBudget(wanted["rho"])
    told = {name: session._noise_info(query, budget) for name, query in queries.items()}  # noqa: SLF001 - its only report
    return {name: [float(each["noise_parameter"]) for each in noise] for name, noise in told.items()}


if __name__ == "__main__":
    main(*sys.argv[1:3])
