"""The attack, run for whoever wants to see it: in the background, step by step, one at a time."""

import threading
from collections import OrderedDict
from dataclasses import asdict, dataclass, field

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from holdtrue.demo.attack import FEATURES, ROUNDS, ROWS, Step, attack, plan_attack
from holdtrue.service.http.problems import Refused
from holdtrue.service.page.access import PageRoute, Visitor
from holdtrue.service.page.rendering import asked_by_htmx, form_id, show

__all__ = ["Runs", "router"]

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_KEPT = 20


@dataclass(slots=True)
class Run:
    """One attack: its steps so far, whether it is over, and whether it failed."""

    name: str
    steps: list[Step] = field(default_factory=list)
    over: bool = False
    failed: bool = False


class Runs:
    """The attacks of this worker. They live in memory: what they attack is made for them and thrown away."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, Run] = OrderedDict()

    def start(self) -> Run:
        """Start an attack, or return the one that is under way."""
        with self._lock:
            for run in self._runs.values():
                if not run.over:
                    return run
            run = Run(form_id()[:12])
            self._runs[run.name] = run
            while len(self._runs) > _KEPT:
                self._runs.popitem(last=False)
        threading.Thread(target=self._work, args=(run,), name="attack", daemon=True).start()
        return run

    def named(self, name: str) -> Run:
        """Return an attack that is kept."""
        found = self._runs.get(name)
        if found is None:
            raise Refused(404, "no such run", "this run is not kept any more; start a new one")
        return found

    def tally(self) -> dict[str, int]:
        """Return how often each side missed the truth at the end, over the runs that are over."""
        ends = [run.steps[-1] for run in list(self._runs.values()) if run.over and run.steps and not run.failed]
        return {
            "runs": len(ends),
            "naive": sum(not end.naive.holds for end in ends),
            "held": sum(not end.held.holds for end in ends),
        }

    def _work(self, run: Run) -> None:
        try:
            for step in attack():
                run.steps.append(step)
        except Exception:  # noqa: BLE001 - a demonstration that fails says so and does no harm
            run.failed = True
        run.over = True


def _runs(request: Request) -> Runs:
    found = getattr(request.app.state, "attacks", None)
    if not isinstance(found, Runs):
        found = request.app.state.attacks = Runs()
    return found


def _context(request: Request, run: Run | None, *, polled: bool = False) -> dict[str, object]:
    steps = [] if run is None else list(run.steps)
    return {
        "run": run,
        "polled": polled,
        "steps": [asdict(step) for step in steps],
        "last": steps[-1] if steps else None,
        "done": len(steps) / ROUNDS,
        "tally": _runs(request).tally(),
        "rows": ROWS,
        "looks": FEATURES + ROUNDS,
        "plan": plan_attack(),
    }


@router.get("/attack")
async def page(request: Request, _: Visitor) -> Response:
    """Show the attack, and the run that the address names."""
    name = request.query_params.get("run")
    run = _runs(request).named(name) if name else None
    return show(request, "attack.html", _context(request, run))


@router.post("/page/attack")
async def start(request: Request, _: Visitor) -> Response:
    """Start an attack."""
    run = _runs(request).start()
    place = f"/attack?run={run.name}"
    if asked_by_htmx(request):
        return show(request, "parts/duel.html", _context(request, run), headers={"HX-Push-Url": place})
    return RedirectResponse(place, 303)


@router.get("/page/attack/{name}")
async def steps(request: Request, _: Visitor, name: str) -> Response:
    """Return how far an attack is."""
    return show(request, "parts/progress.html", _context(request, _runs(request).named(name), polled=True))
