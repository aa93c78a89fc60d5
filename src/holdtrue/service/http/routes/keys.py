"""Keys, which the owner gives and takes back, and what the holder of one may still spend."""

import time
from functools import partial
from typing import Annotated, Any

import msgspec
from anyio.to_thread import run_sync
from fastapi import APIRouter, Path, Request
from msgspec import Meta, Struct

from holdtrue.codec import plain
from holdtrue.requests import DatasetName
from holdtrue.service import service_of
from holdtrue.service.http.bodies import body_of, describe_body
from holdtrue.service.http.problems import PROBLEMS
from holdtrue.service.identity import Anyone, Owner
from holdtrue.service.identity.api_keys import Key, check_record, grant_allowances, share_of
from holdtrue.service.settings import Role

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["keys"], responses=PROBLEMS)

_DAY = 86_400
_Prefix = Annotated[str, Path(pattern=r"^[a-z2-7]{8}$", description="The eight characters after ht_.")]


class NewKey(Struct, frozen=True, forbid_unknown_fields=True):
    """A key to create."""

    name: Annotated[str, Meta(min_length=1, max_length=100, description="Who it is for.")]
    role: Annotated[Role, Meta(description="What it may do.")]
    allowances: Annotated[
        dict[DatasetName, Annotated[int, Meta(ge=0, le=10**12)]],
        Meta(max_length=1000, description="How many asks of each dataset."),
    ] = msgspec.field(default_factory=dict)
    days: Annotated[
        Annotated[int, Meta(ge=1, le=36_500)] | None,
        Meta(description="How many days it is valid; until revoked unless given."),
    ] = None


NewKeyBody = Annotated[NewKey, body_of(NewKey)]


@router.get("/me")
async def me(request: Request, caller: Anyone) -> dict[str, Any]:
    """Return the key's name and role, and what that name may spend, has spent and has left of each dataset."""
    registry = service_of(request).registry
    shares = []
    for dataset in await run_sync(registry.list_datasets):
        share = await dataset.dispatcher.run_short(share_of, dataset.curator, dataset=dataset.name, name=caller.name)
        shares.append(plain(share))
    return {"name": caller.name, "role": caller.role, "prefix": caller.prefix, "datasets": shares}


@router.get("/keys")
async def keys(request: Request, _: Owner) -> dict[str, Any]:
    """Return every key, without its secret."""
    found = await run_sync(service_of(request).keyring.list)
    return {"keys": [_list_fields(key) for key in found]}


@router.post("/keys", status_code=201, openapi_extra=describe_body(NewKey))
async def create_key(request: Request, _: Owner, body: NewKeyBody) -> dict[str, Any]:
    """Create a key. Its text is in this response only and cannot be seen again.

    Allowances belong to the name and are in the datasets' ledgers before the key exists. Another key of the same name
    shares them, and replaces those that it gives itself.
    """
    service = service_of(request)
    check_record(body.name, body.role, body.allowances)
    await grant_allowances(service.registry, body.name, body.allowances)
    expires = None if body.days is None else int(time.time()) + body.days * _DAY
    text, key = await run_sync(service.keyring.create, body.name, body.role, body.allowances, expires)
    return {"key": text} | _list_fields(key)


@router.delete("/keys/{prefix}")
async def revoke_key(request: Request, prefix: _Prefix, _: Owner) -> dict[str, Any]:
    """Revoke a key: after this response no worker accepts it.

    The last owner's key cannot be revoked here.
    """
    revoke = partial(service_of(request).keyring.revoke, keep_owner=True)
    return _list_fields(await run_sync(revoke, prefix))


def _list_fields(key: Key) -> dict[str, Any]:
    return {name: getattr(key, name) for name in Key.__slots__}
