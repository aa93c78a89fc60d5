"""Silence around private rows: warnings and logs of other libraries are suppressed, since they may quote a cell (P8)."""

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["silence"]

# What PySpark logs about a failed job quotes Spark's own words.
_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")

_lock = threading.Lock()
_held = 0
_before: tuple[warnings.catch_warnings, list[bool]]


@contextmanager
def silence() -> Iterator[None]:
    """Suppress warnings inside the block, in the whole process: warning filters belong to it, not to a thread.

    Law: while any thread is inside, none is shown; when the last one leaves, everything is as the first one found it.
    """
    global _held, _before  # noqa: PLW0603 - what belongs to the process is kept once
    with _lock:
        _held += 1
        if _held == 1:
            _before = warnings.catch_warnings(), [logging.getLogger(name).disabled for name in _LOGGERS]
            _before[0].__enter__()
            warnings.simplefilter("ignore")
            _set_disabled([True] * len(_LOGGERS))
    try:
        yield
    finally:
        with _lock:
            _held -= 1
            if not _held:
                _before[0].__exit__(None, None, None)
                _set_disabled(_before[1])


def _set_disabled(disabled: list[bool]) -> None:
    for name, value in zip(_LOGGERS, disabled, strict=True):
        logging.getLogger(name).disabled = value
