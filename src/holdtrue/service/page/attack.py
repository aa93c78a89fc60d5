"""The attack, the agent that climbs and an audit, for whoever wants to see them: in the background, one at a time."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Generic, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from holdtrue.demo.attack import CASES, FEATURES, LOOKS, ROUNDS, ROWS, YES, ClimbStep, Step, attack, climb, plan_attack
from holdtrue.service.http.problems import Refused
from holdtrue.service.page.access import PageRoute, Visitor
from holdtrue.service.page.rendering import asked_by_htmx, form_id, show_page

__all__ = ["DemoRuns", "router"]

router = APIRouter(route_class=PageRoute, include_in_schema=False)

AnyStep = TypeVar("AnyStep", Step, ClimbStep)
_KEPT = 20


@dataclass(slots=True)
class DemoRun(Generic[AnyStep]):
    """One run: its steps so far, whether it is over, and whether it failed."""

    name: str
    steps: list[AnyStep] = field(default_factory=list)
    over: bool = False
    failed: bool = False

    def take_snapshot(self) -> "DemoRun[AnyStep]":
        """Return the run as it is now. Whether it is over is read first: a run that is over has all its steps."""
        over = self.over
        return DemoRun(self.name, list(self.steps), over, self.failed)


class DemoRuns(Generic[AnyStep]):
    """The runs of one demonstration in this worker. They live in memory: what they look at is made for them and let go."""

    def __init__(self, play: Callable[[], Iterator[AnyStep]]) -> None:
        self._play: Callable[[], Iterator[AnyStep]] = play
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, DemoRun[AnyStep]] = OrderedDict()

    def start(self) -> DemoRun[AnyStep]:
        """Start a run, or return the one that is under way."""
        with self._lock:
            for run in self._runs.values():
                if not run.over:
                    return run
            run = DemoRun(form_id()[:12])
            self._runs[run.name] = run
            while len(self._runs) > _KEPT:
                self._runs.popitem(last=False)
        threading.Thread(target=self._run_steps, args=(run,), name="demo", daemon=True).start()
        return run

    def find_run(self, name: str) -> DemoRun[AnyStep]:
        """Return a run that is kept."""
        found = self._runs.get(name)
        if found is None:
            raise Refused(404, "no such run", "this run is not kept any more; start a new one")
        return found

    def list_ends(self) -> list[AnyStep]:
        """Return the last step of every run that is over and did not fail."""
        return [run.steps[-1] for run in list(self._runs.values()) if run.over and run.steps and not run.failed]

    def _run_steps(self, run: DemoRun[AnyStep]) -> None:
        try:
            for step in self._play():
                run.steps.append(step)
        except Exception:  # noqa: BLE001 - a demonstration that fails says so and does no harm
            run.failed = True
        run.over = True


def _find_runs(request: Request) -> DemoRuns[Step]:
    found = getattr(request.app.state, "attacks", None)
    if not isinstance(found, DemoRuns):
        found = request.app.state.attacks = DemoRuns(attack)
    return found


def _find_climbs(request: Request) -> DemoRuns[ClimbStep]:
    found = getattr(request.app.state, "climbs", None)
    if not isinstance(found, DemoRuns):
        found = request.app.state.climbs = DemoRuns(climb)
    return found


def _count_misses(ends: list[Step]) -> dict[str, int]:
    """Return how often each side missed the truth at the end."""
    naive, held = (sum(not bar.holds for bar in bars) for bars in ([end.naive for end in ends], [end.held for end in ends]))
    return {"runs": len(ends), "naive": naive, "held": held}


def _make_context(request: Request, run: DemoRun[Step] | None, *, polled: bool = False) -> dict[str, object]:
    run = run and run.take_snapshot()
    steps = [] if run is None else run.steps
    return {
        "run": run,
        "polled": polled,
        "steps": [asdict(step) for step in steps],
        "last": steps[-1] if steps else None,
        "done": len(steps) / ROUNDS,
        "tally": _count_misses(_find_runs(request).list_ends()),
        "rows": ROWS,
        "looks": FEATURES + ROUNDS,
        "plan": plan_attack(),
        "audited": (),
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


@router.post("/page/audit")
async def run_audit(request: Request, _: Visitor) -> Response:
    """Audit a mechanism that keeps its promise and one that does not. They hold nobody's rows."""
    from holdtrue.auditing import audit_privacy
    from holdtrue.demo import run_audits

    if not isinstance(getattr(request.app.state, "audits", None), CapacityLimiter):
        request.app.state.audits = CapacityLimiter(1)  # one at a time, as the attacks
    found = await to_thread.run_sync(run_audits, audit_privacy, limiter=request.app.state.audits)
    if asked_by_htmx(request):
        return show_page(request, "parts/audited.html", {"audited": found})
    return show_page(request, "attack.html", _make_context(request, None) | {"audited": found})


def _make_climb_context(run: DemoRun[ClimbStep] | None) -> dict[str, object]:
    run = run and run.take_snapshot()
    steps = [] if run is None else run.steps
    known: dict[str, object] = {"steps": [asdict(step) for step in steps], "last": steps[-1] if steps else None, "done": 0.0}
    if steps:
        known["done"] = steps[-1].looks / LOOKS
    return known | {"run": run, "cases": CASES, "looks": LOOKS, "yes": YES}


@router.get("/climb")
async def show_climb(request: Request, _: Visitor) -> Response:
    """Show the agent that climbs, and the run that the address names."""
    name = request.query_params.get("run")
    run = _find_climbs(request).find_run(name) if name else None
    return show_page(request, "climb.html", _make_climb_context(run))


@router.post("/page/climb")
async def start_climb(request: Request, _: Visitor) -> Response:
    """Let the agent climb."""
    run = _find_climbs(request).start()
    place = f"/climb?run={run.name}"
    if asked_by_htmx(request):
        return show_page(request, "parts/climbing.html", _make_climb_context(run), headers={"HX-Push-Url": place})
    return RedirectResponse(place, 303)


@router.get("/page/climb/{name}")
async def show_climbed(request: Request, _: Visitor, name: str) -> Response:
    """Return how far the agent is."""
    return show_page(request, "parts/climbing.html", _make_climb_context(_find_climbs(request).find_run(name)))
