"""Every way to answer, by name, and the search for what a method needs."""

import math

from holdtrue.bounds.optimisation import largest, smallest
from holdtrue.errors import UnknownName
from holdtrue.planning.baselines import NonAdaptive, Rounding, Splitting
from holdtrue.planning.laplacian import TransferLaplace
from holdtrue.planning.precursors import Bassily, Information, Jung, Lecture, SharpInformation
from holdtrue.planning.tasks import Method, Task
from holdtrue.planning.transferring import TransferConcentrated, TransferGaussian

__all__ = ["METHODS", "MOST", "fewest_rows", "method_named", "most_queries"]

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        TransferGaussian(),
        TransferConcentrated(),
        TransferLaplace(),
        Jung(),
        Bassily(),
        Information(),
        SharpInformation(),
        Lecture(),
        Splitting(),
        Rounding(),
        NonAdaptive(),
    )
}

MOST = 10**15
"""No plan is for more rows or more queries than this."""

_SECANTS = 30


def method_named(name: str) -> Method:
    """Return a method by its name."""
    if type(name) is str and name in METHODS:
        return METHODS[name]
    given: object = name
    shown = given if isinstance(given, str) else type(given).__name__
    message = f"there is no method {shown!r}; the methods are {', '.join(METHODS)}"
    raise UnknownName(message)


def fewest_rows(method: Method, task: Task, alpha: float) -> int | None:
    """Return the fewest rows whose certified half-width is at most alpha, or None where no number is enough."""
    guess = method.rows(task, alpha)
    if guess > MOST:
        return None
    return smallest(lambda rows: method.design(task, rows).alpha <= alpha, math.ceil(guess), least=method.fewest, most=MOST)


def most_queries(method: Method, task: Task, *, rows: int, alpha: float) -> int | None:
    """Return the most queries whose certified half-width is at most alpha, or None where one is too many."""
    return largest(
        lambda queries: method.design(task.asking(queries), rows).alpha <= alpha,
        _queries_about(method, task, rows=rows, alpha=alpha),
        most=MOST,
    )


def _queries_about(method: Method, task: Task, *, rows: int, alpha: float) -> int:
    """Solve rows needed = rows for the queries by secants on logarithms, between which it is nearly a straight line."""

    def excess(queries: int) -> float:
        return math.log(method.rows(task.asking(queries), alpha) / rows)

    low, at_low = 1, excess(1)
    if at_low >= 0:
        return 1
    high, at_high = 4, excess(4)
    for _ in range(_SECANTS):
        slope = (at_high - at_low) / math.log(high / low)
        step = math.log(high) - at_high / slope if slope > 0 else math.log(MOST)
        guess = round(math.exp(min(max(step, 0.0), math.log(high) + 12, math.log(MOST))))
        if guess in (low, high):
            break
        low, at_low, high, at_high = high, at_high, guess, excess(guess)
    return high
