"""Deaths and interleavings on purpose: what happens to one worker at each step of a request."""

from contextlib import contextmanager
from dataclasses import dataclass, field

STEPS = ("before charge", "after charge", "before store", "after store")


class Killed(BaseException):
    """The process died here: nothing after this line ran."""


@dataclass
class Moment:
    """What is to happen at a step of the next request: death, or another worker's whole request in between."""

    step: str
    act: object
    done: bool = False


@dataclass
class Worker:
    """One process that has a ledger open: an object of its own, with its own connection and its own memory."""

    open: object
    held: object = None
    moment: Moment | None = None
    log: list = field(default_factory=list)

    @property
    def object(self):
        if self.held is None:
            self.held = self.open()
            self._hook(self.held.ledger)
        return self.held

    def _hook(self, ledger):
        settle = ledger.settle

        def watched(bodies, requests):
            bodies, requests = list(bodies), list(requests)
            self._reach("before store", bodies)
            self._reach("before charge", requests)
            found = settle(bodies, requests)
            self._reach("after store", bodies)
            self._reach("after charge", requests)
            return found

        ledger.settle = watched

    def _reach(self, step, concerned):
        moment = self.moment
        if concerned and moment is not None and not moment.done and moment.step == step:
            moment.done = True
            moment.act()

    def die(self):
        """Lose everything but what is on disk."""
        held, self.held, self.moment = self.held, None, None
        if held is not None:
            held.ledger.store.close()
            (getattr(held, "pipeline", None) or held._pipeline).engine.close()

    def close(self):
        if self.held is not None:
            self.held.close()
            self.held = None


def kill():
    raise Killed


@contextmanager
def at(worker, step, act):
    """Have something happen once at a step of the request that the worker makes in this block; a death is survived."""
    worker.object  # noqa: B018 - opened before it can die in a request
    worker.moment = Moment(step, act)
    try:
        yield
    except Killed:
        worker.die()
    finally:
        worker.moment = None
