"""The other verbs of a dataset, over HTTP: each in the dataset's own threads."""

import shutil
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path as FilePath
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from holdtrue.errors import InvalidParameter, RefusedError
from holdtrue.records import Choice, Hypothesis, Prediction, canonical, to_json
from holdtrue.service.bodies import LearnBody, PredictBody, PreviewBody, SelectBody, Strict, TrainBody, VerifyBody
from holdtrue.service.callers import Analyst, Anyone, Auditor, IdempotencyKey, Owner
from holdtrue.service.desks import told_alike
from holdtrue.service.documents import budget_document, history_document, visible
from holdtrue.service.problems import PROBLEMS
from holdtrue.service.registry import Dataset
from holdtrue.service.routes.datasets import DatasetName
from holdtrue.service.state import service_of

__all__ = ["router"]

router = APIRouter(prefix="/v1/datasets/{name}", tags=["verbs"], route_class=Strict, responses=PROBLEMS)
_PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"


def _said(text: str, media: str = "application/json") -> dict[int | str, dict[str, Any]]:
    schema = {"type": "object"} if media == "application/json" else {"type": "string"}
    return {200: {"description": text, "content": {media: {"schema": schema}}}}


def _reply(document: dict[str, Any]) -> Response:
    return Response(canonical(document), media_type="application/json")


async def _found(request: Request, name: str) -> Dataset:
    return await service_of(request).registry.find(name)


def _paid(request: Request, dataset: Dataset, verb: str, responses: Sequence[Choice | Hypothesis | Prediction]) -> None:
    """Tell the log and the metrics what was charged."""
    newest = max((response.certificate for response in responses), key=lambda certificate: certificate.entry)
    request.scope["entry"] = newest.entry
    charged = not all(response.repeated for response in responses)
    service_of(request).metrics.asked(dataset.name, verb, charged=charged, left=newest.left)


@router.post("/select", response_class=Response, responses=_said("The choice."))
async def select(request: Request, caller: Analyst, key: IdempotencyKey, name: DatasetName, body: SelectBody) -> Response:
    """Choose the candidate that most rows speak for."""
    dataset = await _found(request, name)

    def chosen() -> Choice:
        found = dataset.curator.select(body.candidates, epsilon=body.epsilon, key=key, analyst=caller.name)
        return told_alike(dataset.curator, key, [found])[0]

    choice = await dataset.desk.call(chosen)
    _paid(request, dataset, "select", [choice])
    return _reply(to_json(choice))


@router.post("/learn", response_class=Response, responses=_said("The hypothesis."))
async def learn(request: Request, caller: Analyst, key: IdempotencyKey, name: DatasetName, body: LearnBody) -> Response:
    """Pick a hypothesis that errs about as seldom as the best of a finite class."""
    dataset = await _found(request, name)
    given = body.model_dump(exclude={"hypotheses"})

    def learned() -> Hypothesis:
        found = dataset.curator.learn(_classes(body.hypotheses), key=key, analyst=caller.name, **given)
        return told_alike(dataset.curator, key, [found])[0]

    hypothesis = await dataset.desk.call(learned)
    _paid(request, dataset, "learn", [hypothesis])
    return _reply(to_json(hypothesis))


def _classes(documents: dict[str, Any] | list[dict[str, Any]]) -> Any:  # noqa: ANN401 - one class, or several
    from holdtrue.hypotheses import from_json

    try:
        return from_json(documents) if isinstance(documents, dict) else [from_json(each) for each in documents]
    except InvalidParameter:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError):
        raise InvalidParameter("hypotheses", None, "a class as its to_json writes it, such as Stumps") from None


@router.post("/train", response_class=Response, responses=_said("What is public about the model."))
async def train(request: Request, _: Owner, name: DatasetName, body: TrainBody) -> Response:
    """Train a model on disjoint parts of the rows, for the owner. Releases nothing."""
    from holdtrue.service.estimators import estimator_of

    dataset = await _found(request, name)
    estimator = estimator_of(body.estimator.kind, body.estimator.parameters)
    bounds = None if body.bounds is None else {column: (pair[0], pair[1]) for column, pair in body.bounds.items()}
    given = body.model_dump(include={"target", "features", "parts", "labels"})
    made = await dataset.desk.call(partial(dataset.curator.train, body.name, estimator, bounds=bounds, **given))
    asked = made.asked
    document = {"name": asked.name, "digest": asked.digest, "parts": asked.parts, "features": list(made.columns)}
    labels = None if asked.labels is None else list(asked.labels)
    return _reply(document | {"labels": labels, "bounds": None if asked.bounds is None else list(asked.bounds)})


@router.post("/predict", response_class=Response, responses=_said("The prediction, or the predictions."))
async def predict(request: Request, caller: Analyst, key: IdempotencyKey, name: DatasetName, body: PredictBody) -> Response:
    """Return private predictions of a trained model, for one row or several."""
    if (body.row is None) == (body.rows is None):
        raise InvalidParameter("row", None, "given, or rows in its place")
    dataset = await _found(request, name)
    rows = [body.row] if body.row is not None else body.rows or []

    def predicted() -> list[Prediction]:
        found = dataset.curator.predict(body.model, _table(rows), epsilon=body.epsilon, key=key, analyst=caller.name)
        return told_alike(dataset.curator, key, found if isinstance(found, list) else [found], whole=False)

    predictions = await dataset.desk.call(predicted)
    _paid(request, dataset, "predict", predictions)
    documents = [to_json(prediction) for prediction in predictions]
    return _reply(documents[0] if body.row is not None else {"predictions": documents})


def _table(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return rows as columns, each value as it was sent; all rows must have the same columns."""
    import numpy as np

    names = list(rows[0])
    if any(set(row) != set(names) for row in rows):
        raise InvalidParameter("rows", None, "rows that all have the same columns")
    table = {}
    for name in names:
        column = np.empty(len(rows), dtype=object)
        column[:] = [row[name] for row in rows]
        table[name] = column
    return table


@router.post("/preview", response_class=Response, responses=_said("What it would cost, and how wide it would be."))
async def preview(request: Request, _: Analyst, name: DatasetName, body: PreviewBody) -> Response:
    """Say what a question would cost and how wide its answer would be. Free; no row is read."""
    from dataclasses import asdict

    dataset = await _found(request, name)
    return _reply(asdict(await dataset.desk.call(dataset.curator.preview, body.query)))


@router.get("/budget", response_class=Response, responses=_said("What is spent, and what is left."))
async def budget(request: Request, _: Anyone, name: DatasetName) -> Response:
    """Return what is spent and what is left, over all analysts."""
    dataset = await _found(request, name)
    return _reply(await dataset.desk.call(budget_document, dataset.curator))


@router.get("/history", response_class=Response, responses=_said("Charges and their responses, oldest first."))
async def history(request: Request, caller: Anyone, name: DatasetName) -> Response:
    """Return charges and their responses: an analyst's own, or all for the owner and an auditor."""
    dataset = await _found(request, name)

    def lines() -> list[dict[str, Any]]:
        return history_document(visible(dataset.curator.history, caller))

    return _reply({"lines": await dataset.desk.call(lines)})


@router.get("/report", response_class=Response, responses=_said("One HTML page.", "text/html"))
async def report(request: Request, caller: Anyone, name: DatasetName) -> Response:
    """Return plan, budget, questions and answers as one self-contained page; analysts see their own questions."""
    from holdtrue.reports import html_report

    dataset = await _found(request, name)
    curator = dataset.curator

    def page() -> str:
        return html_report(
            title=dataset.name,
            plan=curator.plan,
            budget=curator.budget,
            history=visible(curator.history, caller),
            receipt=curator.ledger.head,
            columns=[(column.name, column.type) for column in curator.card.columns],
        )

    headers = {"Content-Security-Policy": _PAGE_POLICY}
    return Response(await dataset.desk.call(page), headers=headers, media_type="text/html")


@router.get("/ledger", response_class=FileResponse, responses=_said("A SQLite file.", "application/vnd.sqlite3"))
async def ledger(request: Request, _: Auditor, name: DatasetName) -> Response:
    """Return a copy of the ledger for an auditor, to be verified offline; the key to the rows' fingerprint is not in it."""
    from holdtrue.ledgers.exporting import export

    dataset = await _found(request, name)
    folder = FilePath(tempfile.mkdtemp(prefix="export-", dir=service_of(request).settings.home))
    removed = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
    place = folder / f"{dataset.name}.ledger"
    try:
        await dataset.desk.call(export, dataset.curator.ledger, place)
    except BaseException:
        await removed()
        raise
    return FileResponse(place, media_type="application/vnd.sqlite3", filename=place.name, background=removed)


@router.post("/verify", response_class=Response, responses=_said("The ledger is whole."))
async def verify(request: Request, _: Anyone, name: DatasetName, body: VerifyBody) -> Response:
    """Recompute the ledger from its first entry, and hold it against receipts that were kept outside."""
    from dataclasses import asdict

    from holdtrue.ledgers import verify as recompute

    dataset = await _found(request, name)
    if len(body.receipts) > 1 and len({receipt.entry for receipt in body.receipts}) < len(body.receipts):
        message = "two receipts are of one entry"
        raise RefusedError(message)
    receipts = [(receipt.entry, receipt.digest) for receipt in body.receipts]
    found = await dataset.desk.call(recompute, dataset.curator.ledger, receipts=receipts)
    return _reply(asdict(found))
