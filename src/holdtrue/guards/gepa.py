"""A guard for GEPA: every candidate that leads on GEPA's validation set is asked of a gate over other cases.

GEPA keeps the scores of each validation case, and chooses parents by them, so the best score there says little after many
iterations. The gate's cases are others, which GEPA never sees.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from holdtrue.errors import RefusedError
from holdtrue.guards import name_candidate, promote

if TYPE_CHECKING:
    from holdtrue.exact import Number
    from holdtrue.holdouts import Holdout

__all__ = ["GatedValidation"]


class GatedValidation:
    """A callback and a stopper for ``gepa.optimize(..., callbacks=[guard], stop_callbacks=[guard])``.

    ``evaluate`` runs a candidate on the gate's cases and returns one result in [0, 1] per case, in their order. ``promoted``
    is the last candidate that had a yes, None before the first: take it, and not GEPA's ``best_candidate``. Nothing flows
    back to GEPA but the end of the run, once the gate has no look left. What fails is kept in ``failure``, since GEPA goes
    on after a callback that raises.
    """

    def __init__(self, gate: "Holdout", evaluate: Callable[[dict[str, str]], object], *, margin: "Number" = 0) -> None:
        self.gate, self.evaluate, self.margin = gate, evaluate, margin
        self.promoted: dict[str, str] | None = None
        self.failure: Exception | None = None

    def on_valset_evaluated(self, event: Mapping[str, Any]) -> None:
        """Ask the gate about a candidate that GEPA takes for its best."""
        if not event["is_best_program"] or self(None):
            return
        candidate = dict(event["candidate"])
        try:
            if promote(self.gate, self.evaluate(candidate), name=name_candidate(candidate), margin=self.margin):
                self.promoted = candidate
        except Exception as failure:
            self.failure = failure
            raise

    def __call__(self, gepa_state: object) -> bool:
        """Return whether GEPA should stop: the gate has nothing more to say, or the guard has failed."""
        del gepa_state
        return self.failure is not None or not self.gate.looks_left

    def confirm(self) -> dict[str, str] | None:
        """Return the promoted candidate; raise whatever the guard met on the way, except that looks ran out."""
        if self.failure is not None and not isinstance(self.failure, RefusedError):
            raise self.failure
        return self.promoted
