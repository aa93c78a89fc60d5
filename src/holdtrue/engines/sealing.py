"""What an engine says when it fails: fixed words, never an engine's own, which may quote a cell."""

from collections.abc import Callable
from typing import TypeVar

from holdtrue.errors import CuratorClosed, HoldtrueError, ReleaseError, RequestError

__all__ = ["CLOSED", "FAILED", "opening", "sealed"]

FAILED = "the rows could not be read: the engine failed, or the data changed since they were opened"
CLOSED = "the engine was closed; open the data again"

T = TypeVar("T")


def sealed(action: Callable[[], T]) -> T:
    """Return what an action returns; whatever else it raises becomes one ReleaseError with one text.

    Law: the error that leaves has no cause, no context, and a text that depends on nothing. Errors of Holdtrue's own tree
    pass as they are, since their texts are written here.
    """
    try:
        return action()
    except HoldtrueError:
        raise
    except Exception:  # noqa: BLE001, S110 - raised again below, outside, so that it carries no context
        pass
    raise ReleaseError(FAILED)


def opening(action: Callable[[], T], *, failure: str | Callable[[Exception], str]) -> T:
    """Return what an action of the custodian returns; whatever else it raises becomes a RequestError that quotes no cell."""
    try:
        return action()
    except HoldtrueError:
        raise
    except Exception as error:  # noqa: BLE001 - any error of any reader; its text is not passed on
        text = failure if isinstance(failure, str) else failure(error)
    raise RequestError(text)


def closed() -> CuratorClosed:
    """Return the error of an engine that was closed."""
    return CuratorClosed(CLOSED)
