"""What happens between a charge and its response: a process that dies there, or another one that comes in between."""

from contextlib import contextmanager

from holdtrue.holdouts.submissions import Question


class Killed(BaseException):
    """Stands for SIGKILL in one process: nothing after it runs, the charge is durable, and the answer never comes."""


@contextmanager
def when_measured(action):
    """Run an action once, when the labels are about to be read for a look that is charged."""
    waiting = [action]

    def reading(self, name):
        if name in ("total", "values") and waiting:
            waiting.pop()()
        return object.__getattribute__(self, name)

    Question.__getattribute__ = reading
    try:
        yield
    finally:
        del Question.__getattribute__


def die():
    raise Killed


def kill_during(ask):
    """Ask, and die after the charge."""
    with when_measured(die):
        try:
            ask()
        except Killed:
            return
    message = "the look was never measured"
    raise AssertionError(message)
