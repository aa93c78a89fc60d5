"""The front of the page, the history, and what an auditor takes home."""

import tempfile
from pathlib import Path

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from holdtrue.ledgers.exporting import export
from holdtrue.ledgers.opening import open_ledger
from holdtrue.service.page.guards import PageRoute, Visitor, demand
from holdtrue.service.page.rendering import show
from holdtrue.service.page.views import standing
from holdtrue.service.registry import Dataset
from holdtrue.service.state import service_of

__all__ = ["router"]

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_LATEST = 4
_LISTED = 500


@router.get("/")
async def front(request: Request, caller: Visitor) -> Response:
    """Show every dataset with its budget and its newest answers."""
    registry = service_of(request).registry
    datasets = await to_thread.run_sync(registry.datasets)
    standings = [await standing(dataset, caller) for dataset in datasets]
    shown = [(each, each.paid(_LATEST)) for each in standings]
    return show(request, "front.html", {"shown": shown, "ready": registry.ready})


@router.get("/history")
async def history(request: Request, caller: Visitor) -> Response:
    """Show every charge that the caller may see, over all datasets, newest first."""
    datasets = await to_thread.run_sync(service_of(request).registry.datasets)
    standings = [await standing(dataset, caller) for dataset in datasets]
    shown = [(each, each.latest(_LISTED)) for each in standings]
    return show(request, "history.html", {"shown": shown, "listed": _LISTED})


@router.get("/datasets/{name}/report")
async def report(request: Request, caller: Visitor, name: str) -> Response:
    """Return the report of a dataset as a file that needs nothing else."""
    demand(caller, "owner", "auditor")
    dataset = await to_thread.run_sync(service_of(request).registry.dataset, name)
    text = await dataset.desk.call(_report, dataset)
    return HTMLResponse(text, headers={"Content-Disposition": f'attachment; filename="{dataset.name}-report.html"'})


@router.get("/datasets/{name}/ledger")
async def ledger(request: Request, caller: Visitor, name: str) -> Response:
    """Return a copy of the ledger, to be verified anywhere."""
    demand(caller, "owner", "auditor")
    registry = service_of(request).registry
    dataset = await to_thread.run_sync(registry.dataset, name)
    content = await dataset.desk.call(_copy, registry.ledger_url(dataset.name))
    headers = {"Content-Disposition": f'attachment; filename="{dataset.name}.ledger"'}
    return Response(content, headers=headers, media_type="application/vnd.sqlite3")


def _report(dataset: Dataset) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        dataset.curator.report(path)
        return path.read_text(encoding="utf-8")


def _copy(place: str | Path) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "copy.ledger"
        held = open_ledger(place)
        try:
            export(held, path)
        finally:
            held.close()
        return path.read_bytes()
