"""The owner's page of keys: who has one, what they may spend, and revoking."""

from datetime import UTC, datetime
from functools import partial

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from holdtrue.errors import InvalidParameter
from holdtrue.service import service_of
from holdtrue.service.identity.api_keys import check_record, grant_allowances
from holdtrue.service.page.access import PageRoute, Visitor, demand_role
from holdtrue.service.page.forms import form_of, number_of, text_of
from holdtrue.service.page.rendering import asked_by_htmx, show_page
from holdtrue.service.settings import ROLES, Role

__all__ = ["router"]

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_MOST = 1e12


async def _make_context(request: Request) -> dict[str, object]:
    service = service_of(request)
    keys = await to_thread.run_sync(service.keyring.list)
    datasets = await to_thread.run_sync(service.registry.list_datasets)
    listed = [(key, datetime.fromtimestamp(key.created, tz=UTC)) for key in reversed(keys)]
    return {"keys": listed, "names": [dataset.name for dataset in datasets], "roles": ROLES, "secret": None, "made": None}


@router.get("/keys")
async def show_keys(request: Request, caller: Visitor) -> Response:
    """Show all keys, without their secrets."""
    demand_role(caller, "owner")
    return show_page(request, "keys.html", await _make_context(request))


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
    check_record(name, role, allowances)
    service = service_of(request)
    await grant_allowances(service.registry, name, allowances)
    secret, made = await to_thread.run_sync(service.keyring.create, name, role, allowances, None)
    context = await _make_context(request) | {"secret": secret, "made": made}
    return show_page(request, "parts/keys.html" if asked_by_htmx(request) else "keys.html", context)


@router.post("/page/keys/{prefix}/revoke")
async def revoke_key(request: Request, caller: Visitor, prefix: str) -> Response:
    """Revoke a key."""
    demand_role(caller, "owner")
    if prefix == caller.prefix:
        raise InvalidParameter.without_value("prefix", "another key's: you are signed in with this one")
    await to_thread.run_sync(partial(service_of(request).keyring.revoke, keep_owner=True), prefix)
    if asked_by_htmx(request):
        return show_page(request, "parts/keys.html", await _make_context(request))
    return RedirectResponse("/keys", 303)


def _read_role(text: str) -> Role:
    for role in ROLES:
        if role == text:
            return role
    raise InvalidParameter.without_value("role", f"one of {', '.join(ROLES)}")
