"""The front of the page, the history, the owner's keys, and what an auditor takes home."""

import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from holdtrue.errors import HoldtrueError, InvalidParameter
from holdtrue.exact import amount
from holdtrue.ledgers import verify
from holdtrue.ledgers.opening import open_ledger
from holdtrue.ledgers.sqlite import export
from holdtrue.requests import Register
from holdtrue.service import service_of
from holdtrue.service.datasets import Dataset, Datasets, report_text
from holdtrue.service.http.bodies import decode_body, fields_of
from holdtrue.service.http.problems import detail_of
from holdtrue.service.identity import demand_role
from holdtrue.service.identity.api_keys import Share, check_record, grant_allowances, share_of
from holdtrue.service.page.access import PageRoute, Visitor, form_of, number_of, text_of
from holdtrue.service.page.form_fields import read_number, read_whole
from holdtrue.service.page.rendering import asked_by_htmx, show_page
from holdtrue.service.page.views import read_standing
from holdtrue.service.settings import ROLES, Role

__all__ = ["router"]

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_LATEST = 4
_LONGEST = 4096
_LISTED = 2_000
_LARGEST = 2**53
_MOST = 1e12
_MOST_DAYS, _DAY = 36_500, 86_400


@router.get("/")
async def show_front(request: Request, caller: Visitor) -> Response:
    """Show every dataset with its budget and its newest answers."""
    registry = service_of(request).registry
    datasets = await to_thread.run_sync(registry.list_datasets)
    standings = [await read_standing(dataset, caller) for dataset in datasets]
    shown = [(each, each.list_paid(_LATEST)) for each in standings]
    return show_page(request, "front.html", {"shown": shown, "ready": registry.ready})


@router.post("/page/datasets/width")
async def show_width(request: Request, caller: Visitor) -> Response:
    """Show how wide the answers of a dataset would be, before it is registered. Free."""
    demand_role(caller, "owner")
    form, datasets = await form_of(request), service_of(request).registry.datasets
    return show_page(request, "parts/dataset_width.html", await to_thread.run_sync(_find_width, datasets, form))


def _find_width(datasets: Datasets, form: Mapping[str, str]) -> dict[str, Any]:
    if not text_of(form, "path", longest=_LONGEST).strip():
        return {"plan": None}
    try:
        return {"plan": datasets.plan_registration(_read_registration({**form, "name": "unnamed", "description": ""}))}
    except HoldtrueError as error:
        return {"wrong": detail_of(error)}


@router.post("/page/datasets")
async def register_dataset(request: Request, caller: Visitor) -> Response:
    """Register a file of the service's folders with a new ledger and a plan that cannot be changed."""
    demand_role(caller, "owner")
    body = _read_registration(await form_of(request))
    terms = {field: value for field, value in fields_of(body).items() if field != "name"} | {"owner": caller.name}
    await to_thread.run_sync(service_of(request).registry.register, body.name, terms)
    place = f"/datasets/{body.name}"
    return Response(headers={"HX-Redirect": place}) if asked_by_htmx(request) else RedirectResponse(place, 303)


def _read_registration(form: Mapping[str, str]) -> Register:
    """Return the request that a form makes: the same record as over HTTP."""
    numbers = {"queries": read_whole(form, "queries")} | {
        each: read_number(form, each) for each in ("epsilon", "delta", "beta")
    }
    texts = {each: text_of(form, each, longest=_LONGEST).strip() for each in ("name", "path", "description")}
    for field, words in (("name", "name the dataset, such as people"), ("path", "name a file in the service's folder")):
        if not texts[field]:
            raise InvalidParameter.saying(field, words)
    if numbers["queries"] is None and numbers["epsilon"] is None:
        raise InvalidParameter.saying("queries", "say how many questions it may answer, such as 300")
    document: dict[str, object] = texts | {field: number for field, number in numbers.items() if number is not None}
    reserve = {"predictions": read_whole(form, "predictions"), "epsilon": read_number(form, "predictions_epsilon")}
    if reserve["predictions"] is not None:
        document |= {"reserve": {field: number for field, number in reserve.items() if number is not None}}
    return decode_body(document | {"iid": bool(text_of(form, "iid", longest=8))}, Register)


@router.get("/history")
async def show_history(request: Request, caller: Visitor) -> Response:
    """Show the newest charges that the caller may see, of all datasets; or those of one dataset before an entry."""
    registry = service_of(request).registry
    name, before = request.query_params.get("dataset"), _read_entry(request.query_params.get("before"))
    if name is None:
        datasets, before = await to_thread.run_sync(registry.list_datasets), None
    else:
        datasets = [await to_thread.run_sync(registry.open_dataset, name)]
    standings = [await read_standing(dataset, caller, before=before) for dataset in datasets]
    return show_page(request, "history.html", {"shown": [(each, each.list_latest(_LISTED)) for each in standings]})


def _read_entry(text: str | None) -> int | None:
    """Return the number of an entry; None where it is none."""
    fine = text is not None and text.isascii() and text.isdigit() and 0 < int(text[:20]) <= _LARGEST
    return int(text) if fine and text is not None else None


@router.get("/datasets/{name}/report")
async def send_report(request: Request, caller: Visitor, name: str) -> Response:
    """Return the report of a dataset as a file that needs nothing else."""
    demand_role(caller, "owner", "auditor")
    dataset = await to_thread.run_sync(service_of(request).registry.open_dataset, name)
    text = await dataset.dispatcher.run_long(caller.name, report_text, dataset, caller)
    return HTMLResponse(text, headers={"Content-Disposition": f'attachment; filename="{dataset.name}-report.html"'})


@router.post("/page/datasets/{name}/verify")
async def verify_ledger(request: Request, caller: Visitor, name: str) -> Response:
    """Recompute a ledger from its first entry, and say that it is whole."""
    demand_role(caller, "owner", "auditor")
    dataset = await to_thread.run_sync(service_of(request).registry.open_dataset, name)
    found = await dataset.dispatcher.run_long(caller.name, verify, dataset.curator.ledger)
    return show_page(request, "parts/verified.html", {"found": found})


@router.get("/datasets/{name}/ledger")
async def send_ledger(request: Request, caller: Visitor, name: str) -> Response:
    """Return a copy of the ledger, to be verified anywhere."""
    demand_role(caller, "owner", "auditor")
    registry = service_of(request).registry
    dataset = await to_thread.run_sync(registry.open_dataset, name)
    content = await dataset.dispatcher.run_long(caller.name, _copy_ledger, registry.ledger_url(dataset.name))
    headers = {"Content-Disposition": f'attachment; filename="{dataset.name}.ledger"'}
    return Response(content, headers=headers, media_type="application/vnd.sqlite3")


def _copy_ledger(place: str | Path) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "copy.ledger"
        held = open_ledger(place)
        try:
            export(held, path)
        finally:
            held.close()
        return path.read_bytes()


async def _list_keys(request: Request) -> dict[str, object]:
    service = service_of(request)
    keys = await to_thread.run_sync(service.keyring.list)
    datasets = await to_thread.run_sync(service.registry.list_datasets)
    shares: dict[str, list[Share]] = {}
    crowded = []
    for dataset in datasets:
        names = {key.name for key in keys if key.revoked is None and dataset.name in key.allowances}
        found = await dataset.dispatcher.run_short(_list_shares, dataset, sorted(names))
        for name, share in found.items():
            shares.setdefault(name, []).append(share)
        cost = amount(dataset.curator.plan.cost) or 1.0
        known = [(share.allowance, share.spent) for share in found.values() if share.allowance is not None]
        promised = sum(max(0, round((allowance - spent) / cost)) for allowance, spent in known)
        crowded += [(dataset.name, promised, left)] if promised > (left := dataset.curator.budget.asks) else []
    listed = [(key, _to_date(key.created), _to_date(key.expires)) for key in reversed(keys)]
    names_of = {"names": [dataset.name for dataset in datasets], "roles": ROLES, "secret": None, "made": None}
    return names_of | {"keys": listed, "shares": shares, "crowded": crowded, "now": datetime.now(UTC)}


def _list_shares(dataset: Dataset, names: list[str]) -> dict[str, Share]:
    return {name: share_of(dataset.curator, dataset=dataset.name, name=name) for name in names}


def _to_date(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC)


@router.get("/keys")
async def show_keys(request: Request, caller: Visitor) -> Response:
    """Show all keys, without their secrets."""
    demand_role(caller, "owner")
    return show_page(request, "keys.html", await _list_keys(request))


@router.post("/page/keys")
async def create_key(request: Request, caller: Visitor) -> Response:
    """Create a key and show it once."""
    demand_role(caller, "owner")
    form = await form_of(request)
    name, role = text_of(form, "name", longest=100, least=1).strip(), _read_role(form.get("role", ""))
    allowances = {
        dataset: int(number_of(form, f"allowance-{dataset}", low=0, high=_MOST, default=0))
        for dataset in [dataset.name for dataset in await to_thread.run_sync(service_of(request).registry.list_datasets)]
        if form.get(f"allowance-{dataset}", "").strip()
    }
    days = read_whole(form, "days")
    if days is not None and not 1 <= days <= _MOST_DAYS:
        raise InvalidParameter.saying("days", f"days is a whole number from 1 to {_MOST_DAYS:,}")
    check_record(name, role, allowances)
    service = service_of(request)
    await grant_allowances(service.registry, name, allowances)
    expires = None if days is None else int(time.time()) + days * _DAY
    secret, made = await to_thread.run_sync(service.keyring.create, name, role, allowances, expires)
    context = await _list_keys(request) | {"secret": secret, "made": made}
    return show_page(request, "parts/keys.html" if asked_by_htmx(request) else "keys.html", context)


@router.post("/page/keys/{prefix}/revoke")
async def revoke_key(request: Request, caller: Visitor, prefix: str) -> Response:
    """Revoke a key."""
    demand_role(caller, "owner")
    if prefix == caller.prefix:
        raise InvalidParameter.without_value("prefix", "another key's: you are signed in with this one")
    await to_thread.run_sync(partial(service_of(request).keyring.revoke, keep_owner=True), prefix)
    if asked_by_htmx(request):
        return show_page(request, "parts/keys.html", await _list_keys(request))
    return RedirectResponse("/keys", 303)


def _read_role(text: str) -> Role:
    for role in ROLES:
        if role == text:
            return role
    raise InvalidParameter.without_value("role", f"one of {', '.join(ROLES)}")
