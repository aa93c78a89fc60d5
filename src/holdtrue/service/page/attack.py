"""The attack, run for whoever wants to see it: in the background, step by step, one at a time."""

import threading
from collections import OrderedDict
from dataclasses import asdict, dataclass, field

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from holdtrue.demo.attack import FEATURES, ROUNDS, ROWS, Step, attack, plan_attack
from holdtrue.service.http.problems import Refused
from holdtrue.service.page.access import PageRoute, Visitor
from holdtrue.service.page.rendering import asked_by_htmx, form_id, show_page

__all__ = ["AttackRuns", "router"]

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_KEPT = 20


@dataclass(slots=True)
class AttackRun:
    """One attack: its steps so far, whether it is over, and whether it failed."""

    name: str
    steps: list[Step] = field(default_factory=list)
    over: bool = False
    failed: bool = False


class AttackRuns:
    """The attacks of this worker. They live in memory: what they attack is made for them and thrown away."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, AttackRun] = OrderedDict()

    def start(self) -> AttackRun:
        """Start an attack, or return the one that is under way."""
        with self._lock:
            for run in self._runs.values():
                if not run.over:
                    return run
            run = AttackRun(form_id()[:12])
            self._runs[run.name] = run
            while len(self._runs) > _KEPT:
                self._runs.popitem(last=False)
        threading.Thread(target=self._run_attack, args=(run,), name="attack", daemon=True).start()
        return run

    def find_run(self, name: str) -> AttackRun:
        """Return an attack that is kept."""
        found = self._runs.get(name)
        if found is None:
            raise Refused(404, "no such run", "this run is not kept any more; start a new one")
        return found

    def count_misses(self) -> dict[str, int]:
        """Return how often each side missed the truth at the end, over the runs that are over."""
        ends = [run.steps[-1] for run in list(self._runs.values()) if run.over and run.steps and not run.failed]
        return {
            "runs": len(ends),
            "naive": sum(not end.naive.holds for end in ends),
            "held": sum(not end.held.holds for end in ends),
        }

    def _run_attack(self, run: AttackRun) -> None:
        try:
            for step in attack():
                run.steps.append(step)
        except Exception:  # noqa: BLE001 - a demonstration that fails says so and does no harm
            run.failed = True
        run.over = True


def _find_runs(request: Request) -> AttackRuns:
    found = getattr(request.app.state, "attacks", None)
    if not isinstance(found, AttackRuns):
        found = request.app.state.attacks = AttackRuns()
    return found


def _make_context(request: Request, run: AttackRun | None, *, polled: bool = False) -> dict[str, object]:
    steps = [] if run is None else list(run.steps)
    return {
        "run": run,
        "polled": polled,
        "steps": [asdict(step) for step in steps],
        "last": steps[-1] if steps else None,
        "done": len(steps) / ROUNDS,
        "tally": _find_runs(request).count_misses(),
        "rows": ROWS,
        "looks": FEATURES + ROUNDS,
        "plan": plan_attack(),
    }


@router.get("/attack")
async def show_attack(request: Request, _: Visitor) -> Response:
    """Show the attack, and the run that the address names."""
    name = request.query_params.get("run")
    run = _find_runs(request).find_run(name) if name else None
    return show_page(request, "attack.html", _make_context(request, run))


@router.post("/page/attack")
async def start_attack(request: Request, _: Visitor) -> Response:
    """Start an attack."""
    run = _find_runs(request).start()
    place = f"/attack?run={run.name}"
    if asked_by_htmx(request):
        return show_page(request, "parts/duel.html", _make_context(request, run), headers={"HX-Push-Url": place})
    return RedirectResponse(place, 303)


@router.get("/page/attack/{name}")
async def show_steps(request: Request, _: Visitor, name: str) -> Response:
    """Return how far an attack is."""
    return show_page(request, "parts/progress.html", _make_context(request, _find_runs(request).find_run(name), polled=True))
