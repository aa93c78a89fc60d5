"""One full plan: the median time of solving for rows, for alpha, for queries, and of comparing all methods."""

import statistics
import time
from collections.abc import Callable

from holdtrue.planning.asking import plan

LIMIT = 0.050
REPEATS = 21


def median(call: Callable[[], object]) -> float:
    """Return the median time of a call, after one to warm up."""
    call()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def run() -> None:
    """Print the median time of each kind of plan, and whether the slowest is below the limit."""
    made = plan(queries=1000, alpha=0.1)
    cases: dict[str, Callable[[], object]] = {
        "rows from 1,000 queries and alpha 0.1": lambda: plan(queries=1000, alpha=0.1),
        "alpha from 100,000 rows and 1,000 queries": lambda: plan(rows=100_000, queries=1000),
        "queries from 100,000 rows and alpha 0.05": lambda: plan(rows=100_000, alpha=0.05),
        "rows under (1, 1e-6)-DP with a quarter reserved": lambda: plan(
            queries=1000, alpha=0.1, epsilon=1, delta=1e-6, reserve=0.25
        ),
    }
    times = {name: median(call) for name, call in cases.items()}
    for name, seconds in times.items():
        print(f"{name:<50} {seconds * 1e3:8.2f} ms")
    print(f"{'compare: eleven methods, rows and alpha':<50} {median(made.compare) * 1e3:8.2f} ms")
    verdict = "below" if max(times.values()) < LIMIT else "ABOVE"
    print(f"the slowest plan is {verdict} the limit of {LIMIT * 1e3:.0f} ms")
