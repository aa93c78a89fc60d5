"""Datasets: which are registered, and what is public about them."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from holdtrue.requests import Register
from holdtrue.service import service_of
from holdtrue.service.datasets import Dataset, budget_document
from holdtrue.service.http.bodies import body_of, describe_body, describe_reply, fields_of, make_reply
from holdtrue.service.http.problems import PROBLEMS
from holdtrue.service.identity import Anyone, Caller, Owner

__all__ = ["router"]

router = APIRouter(prefix="/v1/datasets", tags=["datasets"], responses=PROBLEMS)
RegisterBody = Annotated[Register, body_of(Register)]
DatasetName = Annotated[str, Path(description="The dataset's name.", max_length=63)]


def _dataset_document(dataset: Dataset, caller: Caller) -> dict[str, Any]:
    """Return a dataset's card, plan and budget."""
    return {
        "name": dataset.name,
        "description": dataset.description,
        "unit": str(dataset.document.get("unit", "row")),
        "card": dataset.curator.card,
        "plan": dataset.curator.plan,
        "budget": budget_document(dataset.curator, caller),
    }


@router.get("", response_class=Response, responses=describe_reply("All datasets."))
async def datasets(request: Request, caller: Anyone) -> Response:
    """Return every dataset with its budget, sorted by name."""
    import anyio

    def listed() -> list[dict[str, Any]]:
        return [_describe_briefly(each, caller) for each in service_of(request).registry.list_datasets()]

    return make_reply({"datasets": await anyio.to_thread.run_sync(listed)})


@router.post(
    "",
    response_class=Response,
    status_code=201,
    responses=describe_reply("It is registered.", status=201),
    openapi_extra=describe_body(Register),
)
async def register(request: Request, caller: Owner, body: RegisterBody) -> Response:
    """Register data with a new ledger and a plan that cannot be changed."""
    import anyio

    registry = service_of(request).registry
    document = {name: value for name, value in fields_of(body).items() if name != "name"} | {"owner": caller.name}
    made = await anyio.to_thread.run_sync(registry.register, body.name, document)
    return make_reply(await made.dispatcher.run_short(_dataset_document, made, caller), status=201)


@router.get("/{name}", response_class=Response, responses=describe_reply("The card, the plan, the budget."))
async def dataset(request: Request, caller: Anyone, name: DatasetName) -> Response:
    """Return what is public about a dataset: its card, its plan and its budget."""
    found = await service_of(request).registry.find_dataset(name)
    return make_reply(await found.dispatcher.run_short(_dataset_document, found, caller))


def _describe_briefly(found: Dataset, caller: Caller) -> dict[str, Any]:
    return {
        "name": found.name,
        "description": found.description,
        "rows": found.curator.card.rows,
        "budget": budget_document(found.curator, caller),
    }
