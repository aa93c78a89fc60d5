"""P8: while any thread is near private rows no warning is heard, and afterwards everything is as it was."""

import logging
import threading
import warnings

import pytest

from holdtrue.silence import silence

PATIENCE = 60


def _heard():
    with pytest.warns(UserWarning, match="told"):
        warnings.warn("told", UserWarning, stacklevel=1)


def test_no_warning_is_heard_inside_and_all_are_heard_after():
    before = list(warnings.filters)
    with silence(), silence():
        warnings.warn("quoting a cell", UserWarning, stacklevel=1)
        assert logging.getLogger("SQLQueryContextLogger").disabled
    assert warnings.filters == before
    assert not logging.getLogger("SQLQueryContextLogger").disabled
    _heard()


def _leave_in_turn(quiet):
    """Enter twice, from two threads, and leave in the order of entering; return whether a warning between was silent."""
    before, inside, leave = list(warnings.filters), threading.Event(), threading.Event()

    def second():
        with quiet():
            inside.set()
            assert leave.wait(PATIENCE)

    worker = threading.Thread(target=second)
    with quiet():
        worker.start()
        assert inside.wait(PATIENCE)
    try:
        silent = ("ignore", None, Warning, None, 0) in warnings.filters
    finally:
        leave.set()
        worker.join()
    after, warnings.filters[:] = list(warnings.filters), before
    return silent, after == before


def test_threads_that_leave_in_turn_hear_nothing_before_the_last_one_left():
    assert _leave_in_turn(silence) == (True, True)


def test_silence_by_each_thread_for_itself_would_be_caught():
    assert _leave_in_turn(lambda: warnings.catch_warnings(action="ignore")) == (False, False)
