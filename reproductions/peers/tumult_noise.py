"""The noise of Tumult Analytics: run by the Python of its own environment, never by ours.

``python tumult_noise.py PLAN.json OUT.json``: rho, labels and bounds in; what a session says of the noise of counts by
group and of averages by group out, as variances. One row replaced is two rows that change: AddMaxRows(2).
"""  # noqa: INP001 - a script of another environment, outside the package

import json
import math
import sys
from importlib import import_module
from pathlib import Path


def main(plan: str, out: str) -> None:
    """Ask a session on three made rows for the noise of two queries; noise does not depend on rows."""
    wanted = json.loads(Path(plan).read_text(encoding="utf-8"))
    analytics, spark, pandas = (import_module(name) for name in ("tmlt.analytics", "pyspark.sql", "pandas"))
    builder = spark.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    labels = wanted["labels"]
    rows = builder.getOrCreate().createDataFrame(pandas.DataFrame({"kind": labels[:2], "amount": [1.0, 2.0]}))
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
    found = {name: [float(each["noise_parameter"]) for each in noise] for name, noise in told.items()}
    Path(out).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:3])
