"""Predictions under the Open Inference Protocol, version 2, for clients that speak it already.

A model is called ``{dataset}.{model}``. Its inputs are the columns that it reads, one tensor each, or one matrix ``rows``
with the columns in that order; its output is ``label``. Every inference spends budget, so each needs a name of its own: the
header Idempotency-Key, or the request's ``id``.
"""

import json
import re
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.routing import APIRoute

from holdtrue.codec import encode
from holdtrue.curator.models import Model
from holdtrue.errors import HoldtrueError, UnknownName
from holdtrue.records import Prediction
from holdtrue.service import service_of
from holdtrue.service.datasets import Dataset
from holdtrue.service.http.bodies import describe_reply, make_reply
from holdtrue.service.http.problems import PROBLEMS, Refused, to_problem
from holdtrue.service.http.telemetry import require_ready
from holdtrue.service.identity import Analyst, Anyone, Caller, request_id_of
from holdtrue.service.inference.tensors import Inference, datatype_of, encode_labels, read_inference, table_of
from holdtrue.version import __version__

__all__ = ["router"]

_KEY = re.compile(r"[ -~]{1,128}")
_MEDIA = ("", "application/json", "application/octet-stream")
_LENGTH = "Inference-Header-Content-Length"
_VERSION = "1"
_TYPES = {"integer": "INT64", "real": "FP64", "boolean": "BOOL", "text": "BYTES", "date": "BYTES", "timestamp": "BYTES"}
ModelName = Annotated[str, Path(max_length=128, pattern=r"^[a-z][a-z0-9_-]{0,62}\.[A-Za-z0-9_-]{1,64}$")]


class InferenceRoute(APIRoute):
    """A route whose refusals also say ``error``, where clients of the protocol look for it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, with refusals in both forms."""
        inner = super().get_route_handler()

        async def spoken(request: Request) -> Response:
            try:
                return await inner(request)
            except HoldtrueError as error:
                request_id = request.scope.get("request_id")
                found = to_problem(error, request_id=request_id)
                request.scope.setdefault("entry", getattr(error, "entry", None))
            document = json.loads(bytes(found.body))
            request.scope["problem"] = str(document["type"]).rpartition(":")[2]
            headers = {
                name: value for name, value in found.headers.items() if name not in ("content-length", "content-type")
            }
            body = encode(document | {"error": document["detail"]})
            return Response(body, found.status_code, headers, media_type=found.media_type)

        return spoken


router = APIRouter(prefix="/v2", tags=["inference"], route_class=InferenceRoute, responses=PROBLEMS)


@router.get("", response_class=Response, responses=describe_reply("The server."))
async def server(_: Anyone) -> Response:
    """Return what the server is."""
    return make_reply({"name": "holdtrue", "version": __version__, "extensions": ["binary_tensor_data"]})


@router.get("/health/live", response_class=Response, responses=describe_reply("Yes."))
async def live() -> Response:
    """Answer as long as the process does."""
    return make_reply({"live": True})


@router.get("/health/ready", response_class=Response, responses=describe_reply("Yes."))
async def ready(request: Request) -> Response:
    """Answer 200 once every registered dataset is open."""
    await require_ready(request)
    return make_reply({"ready": True})


@router.get("/models/{model}", response_class=Response, responses=describe_reply("The model."))
async def metadata(request: Request, model: ModelName, _: Anyone) -> Response:
    """Return a model's inputs and its output."""
    found = (await _find_model(request, model))[1]
    inputs = [{"name": name, "datatype": _TYPES[kind], "shape": [-1]} for name, kind in found.reads.items()]
    output = {"name": "label", "datatype": datatype_of(found.asked.labels), "shape": [-1]}
    document = {"name": model, "versions": [_VERSION], "platform": "holdtrue", "inputs": inputs, "outputs": [output]}
    return make_reply(document)


@router.get("/models/{model}/ready", response_class=Response, responses=describe_reply("Yes."))
async def model_ready(request: Request, model: ModelName, _: Anyone) -> Response:
    """Answer 200 where the model is trained."""
    await _find_model(request, model)
    return make_reply({"name": model, "ready": True})


_BODY = {
    "requestBody": {
        "required": True,
        "description": "An inference request; with Inference-Header-Content-Length, JSON of that length, then binary data.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["inputs"],
                    "properties": {
                        "id": {"type": "string", "minLength": 1, "maxLength": 128},
                        "inputs": {"type": "array", "items": {"type": "object"}, "minItems": 1},
                        "outputs": {"type": "array", "items": {"type": "object"}},
                        "parameters": {"type": "object"},
                    },
                }
            }
        },
    },
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "description": "Names this request, unless its id does: sent again under the same name it is charged once.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[ -~]{1,128}$"},
        }
    ],
}


@router.post("/models/{model}/infer", response_class=Response, responses=describe_reply("The labels."), openapi_extra=_BODY)
async def infer(request: Request, model: ModelName, caller: Analyst) -> Response:
    """Return private predictions of a trained model; each new row spends budget."""
    asked = await _read_request(request)
    key = _read_key(request, asked, caller)
    dataset, found = await _find_model(request, model)
    table = table_of(asked.inputs, found.reads)
    given: dict[str, Any] = {"epsilon": asked.epsilon, "mu": asked.mu, "key": key, "analyst": caller.name}
    said = await dataset.dispatcher.run_long(caller.name, partial(dataset.curator.predict, found.asked.name, table, **given))
    predictions = said if isinstance(said, list) else [said]
    service_of(request).metrics.note_charge(request.scope, dataset.name, "predict", predictions)
    return _make_response(model, asked, found, predictions)


async def _read_request(request: Request) -> Inference:
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media not in _MEDIA or request.headers.get("content-encoding", "identity") != "identity":
        raise Refused(415, "unsupported media type", "send JSON, with or without binary tensors behind it, not compressed")
    given = request.headers.getlist(_LENGTH)
    if len(given) > 1:
        raise Refused(400, "unreadable inference", f"there must be one {_LENGTH} at most")
    return read_inference(await request.body(), given[0] if given else None)


def _read_key(request: Request, asked: Inference, caller: Caller) -> str:
    """Return the ledger's name of a request: by its header, or by the id that the protocol gives it."""
    given = request.headers.getlist("idempotency-key") or ([] if asked.id is None else [asked.id])
    if len(given) != 1 or not _KEY.fullmatch(given[0]):
        detail = (
            "give the request an id, or send a header Idempotency-Key: 1 to 128 printable ASCII characters, new each time"
        )
        raise Refused(400, "idempotency key needed", detail)
    return request_id_of(caller, given[0])


async def _find_model(request: Request, name: str) -> tuple[Dataset, Model]:
    registered, _, trained = name.partition(".")
    dataset = await service_of(request).registry.find_dataset(registered)
    try:
        found = await dataset.dispatcher.run_short(dataset.curator.model, trained)
    except UnknownName:
        message = "there is no model of that name; it is called dataset.model"
        raise UnknownName(message) from None
    return dataset, found


def _make_response(model: str, asked: Inference, found: Model, predictions: list[Prediction]) -> Response:
    """Return labels and what they cost, by the stored certificates alone: a request sent again gets the same bytes."""
    datatype = datatype_of(found.asked.labels)
    values, packed = encode_labels(datatype, [each.label for each in predictions], binary=asked.binary)
    output: dict[str, Any] = {"name": "label", "datatype": datatype, "shape": [len(values)]}
    output |= {"data": values} if packed is None else {"parameters": {"binary_data_size": len(packed)}}
    costs = {each.certificate.entry: each.certificate for each in predictions}
    newest = costs[max(costs)]
    paid = {
        "cost": sum(certificate.cost for certificate in costs.values()),
        "left": newest.left,
        "entry": newest.entry,
        "digest": newest.digest,
        "epsilon": newest.epsilon,
        "delta": newest.delta,
    }
    # The largest, since parameters are single values; a point that was answered before has the noise of that time.
    for name in ("noise", "error_bound", "excess_error"):
        known = [value for each in predictions if isinstance(value := getattr(each, name), float)]
        paid |= {name: max(known)} if len(known) == len(predictions) else {}
    document = {"model_name": model, "model_version": _VERSION, "outputs": [output], "parameters": paid}
    if asked.id is not None:
        document["id"] = asked.id
    text = encode(document).encode()
    if packed is None:
        return Response(text, media_type="application/json")
    return Response(text + packed, headers={_LENGTH: str(len(text))}, media_type="application/octet-stream")
