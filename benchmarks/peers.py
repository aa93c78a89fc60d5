"""What every bench shares: fair timing, and a table of ratios."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table

from holdtrue.kernels import LazyKernels

__all__ = ["best_time", "show", "without_numba"]


@contextmanager
def without_numba(kernels: LazyKernels) -> Iterator[None]:
    """Count with NumPy meanwhile."""
    before = kernels._module, kernels._settled  # noqa: SLF001 - the one place that decides
    kernels._keep_module(None)  # noqa: SLF001 - likewise
    try:
        yield
    finally:
        kernels._module, kernels._settled = before  # noqa: SLF001 - likewise


def best_time(action: Callable[[], object], *, repeat: int = 5) -> float:
    """Return the shortest of several wall-clock times of an action, after one run to warm up."""
    action()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def show(title: str, header: list[str], rows: list[list[str]]) -> None:
    """Print a table."""
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(header):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*row)
    Console(width=110).print(table)
