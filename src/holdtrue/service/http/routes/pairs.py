"""Statistics that are not means of rows, over HTTP: each at its own address, and what it costs beside it."""

from functools import partial
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Request, Response

from holdtrue.codec import encode
from holdtrue.hypotheses import read_class
from holdtrue.records import Statistic
from holdtrue.requests import BestError
from holdtrue.service import service_of
from holdtrue.service.http.bodies import body_of, describe_body
from holdtrue.service.http.problems import PROBLEMS
from holdtrue.service.http.routes.datasets import DatasetName
from holdtrue.service.http.routes.verbs import check_size
from holdtrue.service.identity import Analyst, IdempotencyKey
from holdtrue.verbs.pairs import StatisticRequest

__all__ = ["router"]

router = APIRouter(prefix="/v1/datasets/{name}", tags=["verbs"], responses=PROBLEMS)


def _describe_reply(text: str) -> dict[int | str, dict[str, Any]]:
    return {200: {"description": text, "content": {"application/json": {"schema": {"type": "object"}}}}}


def _add_routes(kind: Any) -> None:  # noqa: ANN401 - a kind of request
    """Add the two routes of a request: its answer, and its price."""
    verb = kind.__struct_config__.tag

    async def answer(
        request: Request,
        caller: Analyst,
        key: IdempotencyKey,
        name: DatasetName,
        body: Annotated[kind, body_of(kind)],
    ) -> Response:
        service = service_of(request)
        dataset = await service.registry.find_dataset(name)
        asked = partial(dataset.curator.find_statistic, body, key=key, analyst=caller.name)
        found = await dataset.dispatcher.run_long(caller.name, asked)
        service.metrics.note_charge(request.scope, dataset.name, verb, [found])
        return Response(encode(found), media_type="application/json")

    async def preview(
        request: Request,
        _: Analyst,
        name: DatasetName,
        body: Annotated[kind, body_of(kind)],
    ) -> Response:
        dataset = await service_of(request).registry.find_dataset(name)
        price = await dataset.dispatcher.run_short(partial(dataset.curator.preview_statistic, body))
        return Response(encode(price), media_type="application/json")

    answer.__doc__ = f"{kind.__doc__} With an interval for the population."
    preview.__doc__ = f"Return what {verb.replace('_', '-')} would cost, and how wide it would be. Free; no row is read."
    for path, handler, told in ((verb, answer, "The statistic."), (f"preview-{verb}", preview, "What it would cost.")):
        router.add_api_route(
            f"/{path.replace('_', '-')}",
            handler,
            methods=["POST"],
            response_class=Response,
            responses=_describe_reply(told),
            openapi_extra=describe_body(kind),
            name=path.replace("-", "_"),
        )


for _kind in get_args(StatisticRequest):
    _add_routes(_kind)


@router.post(
    "/best-error",
    response_class=Response,
    responses=_describe_reply("The statistic."),
    openapi_extra=describe_body(BestError),
)
async def best_error(
    request: Request, caller: Analyst, key: IdempotencyKey, name: DatasetName, body: Annotated[BestError, body_of(BestError)]
) -> Response:
    """Return how seldom the best hypothesis of a finite class errs on samples of this size."""
    service = service_of(request)
    dataset = await service.registry.find_dataset(name)
    curator, several, features = dataset.curator, body.hypotheses, body.features

    def find() -> Statistic:
        classes = [read_class(each) for each in several] if isinstance(several, tuple) else read_class(several)
        columns = len(curator.card.columns) if features is None else len(features)
        check_size(classes, columns=columns, rows=curator.card.rows, settings=service.settings)
        return curator.best_error(classes, target=body.target, features=features, key=key, analyst=caller.name)

    found = await dataset.dispatcher.run_long(caller.name, find)
    service.metrics.note_charge(request.scope, dataset.name, "best_error", [found])
    return Response(encode(found), media_type="application/json")
