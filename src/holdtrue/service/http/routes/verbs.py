"""The other verbs of a dataset, over HTTP: each in the dataset's own threads."""

import shutil
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated, Any, cast, get_args

from fastapi import APIRouter, Query, Request, Response
from msgspec.structs import asdict
from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from holdtrue.codec import encode
from holdtrue.errors import InvalidParameter, RefusedError
from holdtrue.records import Hypothesis, Prediction, WatchAnswer
from holdtrue.records import Response as Answered
from holdtrue.requests import (
    Ask,
    BestError,
    Distill,
    Evaluate,
    Fit,
    Grant,
    Learn,
    MarginalSets,
    Mean,
    Predict,
    Quantile,
    Select,
    Synthesize,
    Table,
    Total,
    Train,
    Verify,
    WatchQuestion,
)
from holdtrue.service import service_of
from holdtrue.service.datasets import Dataset, budget_document, preview_for, report_text, visible_page
from holdtrue.service.http.bodies import body_of, describe_body
from holdtrue.service.http.learners import make_estimator, read_classes, to_columns
from holdtrue.service.http.problems import FIELD_NAMES, PROBLEMS
from holdtrue.service.http.routes.datasets import DatasetName
from holdtrue.service.identity import Analyst, Anyone, Auditor, IdempotencyKey, Owner, demand_role
from holdtrue.service.identity.api_keys import share_of
from holdtrue.verbs.distilling import Purchase, buy_labels
from holdtrue.verbs.keeping import choose_release
from holdtrue.verbs.pairs import StatisticRequest
from holdtrue.verbs.training import Model

__all__ = ["router"]

router = APIRouter(prefix="/v1/datasets/{name}", tags=["verbs"], responses=PROBLEMS)
AskBody = Annotated[Ask, body_of(Ask)]
DistillBody = Annotated[Distill, body_of(Distill)]
FitBody = Annotated[Fit, body_of(Fit)]
GrantBody = Annotated[Grant, body_of(Grant)]
LearnBody = Annotated[Learn, body_of(Learn)]
MarginalsBody = Annotated[MarginalSets, body_of(MarginalSets)]
MeanBody = Annotated[Mean, body_of(Mean)]
BestErrorBody = Annotated[BestError, body_of(BestError)]
PredictBody = Annotated[Predict, body_of(Predict)]
EvaluateBody = Annotated[Evaluate, body_of(Evaluate)]
QuantileBody = Annotated[Quantile, body_of(Quantile)]
SelectBody = Annotated[Select, body_of(Select)]
WatchBody = Annotated[WatchQuestion, body_of(WatchQuestion)]
SynthesizeBody = Annotated[Synthesize, body_of(Synthesize)]
TableBody = Annotated[Table, body_of(Table)]
TotalBody = Annotated[Total, body_of(Total)]
TrainBody = Annotated[Train, body_of(Train)]
VerifyBody = Annotated[Verify, body_of(Verify)]
_PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"


def _describe_reply(text: str, media: str = "application/json") -> dict[int | str, dict[str, Any]]:
    schema = {"type": "object"} if media == "application/json" else {"type": "string"}
    return {200: {"description": text, "content": {media: {"schema": schema}}}}


def _make_reply(document: object) -> Response:
    return Response(encode(document), media_type="application/json")


async def _find_dataset(request: Request, name: str) -> Dataset:
    return await service_of(request).registry.find_dataset(name)


def _note_charge(
    request: Request,
    dataset: Dataset,
    verb: str,
    responses: Sequence[Answered],
) -> None:
    """Tell the log and the metrics what was charged."""
    service_of(request).metrics.note_charge(request.scope, dataset.name, verb, responses)


@router.post("/table", response_class=Response, responses=_describe_reply("The table."), openapi_extra=describe_body(Table))
async def table(request: Request, caller: Analyst, key: IdempotencyKey, name: DatasetName, body: TableBody) -> Response:
    """Return the shares of disjoint cells of the rows, all at once, for the price of two to five questions."""
    dataset = await _find_dataset(request, name)
    given = asdict(body) | {"key": key, "analyst": caller.name}
    columns = given.pop("columns")
    found = await dataset.dispatcher.run_long(caller.name, partial(dataset.curator.table, *columns, **given))
    _note_charge(request, dataset, "table", [found])
    return _make_reply(found)


@router.post(
    "/marginals",
    response_class=Response,
    responses=_describe_reply("The tables."),
    openapi_extra=describe_body(MarginalSets),
)
async def marginals(
    request: Request, caller: Analyst, key: IdempotencyKey, name: DatasetName, body: MarginalsBody
) -> Response:
    """Return the tables of all pairs or triples of columns, or of those that are named, at two questions each."""
    dataset = await _find_dataset(request, name)
    asked = partial(dataset.curator.marginals, **asdict(body), key=key, analyst=caller.name)
    found = await dataset.dispatcher.run_long(caller.name, asked)
    _note_charge(request, dataset, "marginals", found.tables)
    return _make_reply(found)


@router.post("/mean", response_class=Response, responses=_describe_reply("The means."), openapi_extra=describe_body(Mean))
async def mean(request: Request, caller: Analyst, key: IdempotencyKey, name: DatasetName, body: MeanBody) -> Response:
    """Return the mean of a column of numbers in its own units in each group, for the price of two to five questions."""
    dataset = await _find_dataset(request, name)
    averaged = partial(dataset.curator.mean, **asdict(body), key=key, analyst=caller.name)
    found = await dataset.dispatcher.run_long(caller.name, averaged)
    _note_charge(request, dataset, "mean", [found])
    return _make_reply(found)


@router.post("/sum", response_class=Response, responses=_describe_reply("The sums."), openapi_extra=describe_body(Total))
async def sum_column(request: Request, caller: Analyst, key: IdempotencyKey, name: DatasetName, body: TotalBody) -> Response:
    """Return the sum of a column of numbers over these rows, or over a population of a given size, in each group."""
    dataset = await _find_dataset(request, name)
    summed = partial(dataset.curator.sum, **asdict(body), key=key, analyst=caller.name)
    found = await dataset.dispatcher.run_long(caller.name, summed)
    _note_charge(request, dataset, "mean", [found])
    return _make_reply(found)


@router.post(
    "/quantile", response_class=Response, responses=_describe_reply("The quantiles."), openapi_extra=describe_body(Quantile)
)
async def quantile(
    request: Request, caller: Analyst, key: IdempotencyKey, name: DatasetName, body: QuantileBody
) -> Response:
    """Return where the values of a column reach one level or several, each with an interval for the population.

    A search of plain questions, at most twice the logarithm of the number of points for a level; where the budget runs out
    on the way, the intervals so far.
    """
    dataset = await _find_dataset(request, name)
    given = asdict(body)
    found = await dataset.dispatcher.run_long(
        caller.name, partial(dataset.curator.quantile, key=key, analyst=caller.name, **given)
    )
    _note_charge(request, dataset, "quantile", [found])
    return _make_reply(found)


@router.post(
    "/preview-quantile",
    response_class=Response,
    responses=_describe_reply("The most that it can cost."),
    openapi_extra=describe_body(Quantile),
)
async def preview_quantile(request: Request, _: Analyst, name: DatasetName, body: QuantileBody) -> Response:
    """Return the most that quantiles can cost. Free; no row is read."""
    dataset = await _find_dataset(request, name)
    return _make_reply(await dataset.dispatcher.run_short(partial(dataset.curator.preview_quantile, **asdict(body))))


def _add_statistic(kind: Any) -> None:  # noqa: ANN401 - a kind of request
    """Add the two routes of a statistic: its answer, and its price."""
    verb = kind.__struct_config__.tag

    async def answer(
        request: Request,
        caller: Analyst,
        key: IdempotencyKey,
        name: DatasetName,
        body: Annotated[kind, body_of(kind)],
    ) -> Response:
        dataset = await _find_dataset(request, name)
        asked = partial(dataset.curator.find_statistic, body, key=key, analyst=caller.name)
        found = await dataset.dispatcher.run_long(caller.name, asked)
        _note_charge(request, dataset, verb, [found])
        return _make_reply(found)

    async def preview(request: Request, _: Analyst, name: DatasetName, body: Annotated[kind, body_of(kind)]) -> Response:
        dataset = await _find_dataset(request, name)
        return _make_reply(await dataset.dispatcher.run_short(partial(dataset.curator.preview_statistic, body)))

    answer.__doc__ = f"{kind.__doc__} With an interval for the population."
    preview.__doc__ = f"Return what {verb.replace('_', '-')} would cost, and how wide it would be. Free; no row is read."
    for path, handler, told in ((verb, answer, "The statistic."), (f"preview-{verb}", preview, "What it would cost.")):
        described: dict[str, Any] = {"responses": _describe_reply(told), "openapi_extra": describe_body(kind)}
        place = f"/{path.replace('_', '-')}"
        router.add_api_route(place, handler, methods=["POST"], response_class=Response, name=path, **described)


for _kind in get_args(StatisticRequest):
    _add_statistic(_kind)


@router.post(
    "/select", response_class=Response, responses=_describe_reply("The choice."), openapi_extra=describe_body(Select)
)
async def select(request: Request, caller: Analyst, key: IdempotencyKey, name: DatasetName, body: SelectBody) -> Response:
    """Choose the candidate that the most rows satisfy. The owner may give scores, which come from the rows."""
    candidates = body.candidates
    asks = body.scores is None and (not isinstance(candidates, dict) or all(map(_is_text, candidates.values())))
    if not asks and caller.role != "owner":
        message = "scores come from the rows, so only the owner may give them; give candidates as questions"
        raise RefusedError(message)
    dataset = await _find_dataset(request, name)
    given: dict[str, Any] = {field: _read_rationals(getattr(body, field)) for field in ("scores", "sensitivity", "weights")}
    given |= {"top": body.top, "epsilon": body.epsilon, "name": body.name, "key": key, "analyst": caller.name}
    given |= {"line": body.line, "cuts": body.cuts}
    chosen = partial(dataset.curator.select, cast("Sequence[str]", candidates), **given)
    choice = await dataset.dispatcher.run_long(caller.name, chosen)
    _note_charge(request, dataset, "select", [choice])
    return _make_reply(choice)


def _read_rationals(value: object) -> object:
    """Return numbers of a body, with rationals in text as such."""
    if isinstance(value, dict):
        return {name: _read_rationals(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [_read_rationals(each) for each in value]
    return Fraction(value) if isinstance(value, str) else value


def _is_text(value: object) -> bool:
    return isinstance(value, str)


@router.post(
    "/watch",
    response_class=Response,
    responses=_describe_reply("Above or below."),
    openapi_extra=describe_body(WatchQuestion),
)
async def watch(request: Request, caller: Analyst, key: IdempotencyKey, name: DatasetName, body: WatchBody) -> Response:
    """Say whether a share of the rows is above a threshold: next to free until an alarm, or until the service restarts."""
    dataset = await _find_dataset(request, name)
    given = {field: value for field, value in asdict(body).items() if field != "query"}

    def look() -> WatchAnswer:
        return dataset.curator.watch(**given, analyst=caller.name).ask(body.query, key=key)

    found = await dataset.dispatcher.run_long(caller.name, look)
    _note_charge(request, dataset, "watch", [found])
    return _make_reply(found)


@router.post(
    "/learn", response_class=Response, responses=_describe_reply("The hypothesis."), openapi_extra=describe_body(Learn)
)
async def learn(request: Request, caller: Analyst, key: IdempotencyKey, name: DatasetName, body: LearnBody) -> Response:
    """Pick a hypothesis of a finite class that errs about as rarely as the best."""
    dataset = await _find_dataset(request, name)
    given = {name: value for name, value in asdict(body).items() if name != "hypotheses"}
    settings = service_of(request).settings

    def learned() -> Hypothesis:
        classes = read_classes(dataset, body, settings)
        return dataset.curator.learn(classes, key=key, analyst=caller.name, **given)

    hypothesis = await dataset.dispatcher.run_long(caller.name, learned)
    _note_charge(request, dataset, "learn", [hypothesis])
    return _make_reply(hypothesis)


def describe_model(model: Model) -> dict[str, Any]:
    """Return what is public about a model that is kept."""
    asked = model.asked
    document = {"name": asked.name, "digest": asked.digest, "parts": asked.parts, "features": list(model.columns)}
    labels = None if asked.labels is None else list(asked.labels)
    proven = {} if asked.certificate is None else {"certificate": asked.certificate}
    return document | {"labels": labels, "bounds": None if asked.bounds is None else list(asked.bounds)} | proven


@router.post("/fit", response_class=Response, responses=_describe_reply("The model."), openapi_extra=describe_body(Fit))
async def fit(request: Request, caller: Analyst, key: IdempotencyKey, name: DatasetName, body: FitBody) -> Response:
    """Publish the weights of a model that one row changes very little, with noise, for one charge; or keep them.

    With release each, for the owner, nothing is charged or told: the model is kept, and each prediction of it is charged.
    """
    if choose_release(body.kind, body.release) == "each":
        demand_role(caller, "owner")
    dataset = await _find_dataset(request, name)
    given = {field: value for field, value in asdict(body).items() if field not in ("name", "kind")}
    fitted = partial(dataset.curator.fit, body.name, body.kind, key=key, analyst=caller.name, **given)
    model = await dataset.dispatcher.run_long(caller.name, fitted)
    if isinstance(model, Model):
        return _make_reply(describe_model(model))
    _note_charge(request, dataset, "fit", [model])
    return _make_reply(model)


@router.post(
    "/best-error",
    response_class=Response,
    responses=_describe_reply("The statistic."),
    openapi_extra=describe_body(BestError),
)
async def best_error(
    request: Request, caller: Analyst, key: IdempotencyKey, name: DatasetName, body: BestErrorBody
) -> Response:
    """Return how seldom the best hypothesis of a finite class errs on samples of this size."""
    dataset, settings = await _find_dataset(request, name), service_of(request).settings
    given: dict[str, Any] = {"target": body.target, "features": body.features, "key": key, "analyst": caller.name}
    found = await dataset.dispatcher.run_long(
        caller.name, lambda: dataset.curator.best_error(read_classes(dataset, body, settings), **given)
    )
    _note_charge(request, dataset, "best_error", [found])
    return _make_reply(found)


@router.post(
    "/train",
    response_class=Response,
    responses=_describe_reply("What is public about the model."),
    openapi_extra=describe_body(Train),
)
async def train(request: Request, caller: Owner, name: DatasetName, body: TrainBody) -> Response:
    """Train a model on disjoint parts of the rows, for the owner. Releases nothing."""
    dataset, settings = await _find_dataset(request, name), service_of(request).settings
    learner = None if body.estimator is None else make_estimator(body.estimator.kind, body.estimator.parameters)
    left_out = ("name", "estimator", "hypotheses")
    given = {each: value for each, value in asdict(body).items() if each not in left_out}

    def trained() -> Model:
        classes = None if body.hypotheses is None else read_classes(dataset, body, settings)
        return dataset.curator.train(body.name, learner, hypotheses=classes, **given)

    made = await dataset.dispatcher.run_long(caller.name, trained)
    return _make_reply(describe_model(made))


@router.post(
    "/predict",
    response_class=Response,
    responses=_describe_reply("The prediction, or the predictions."),
    openapi_extra=describe_body(Predict),
)
async def predict(request: Request, caller: Analyst, key: IdempotencyKey, name: DatasetName, body: PredictBody) -> Response:
    """Return private predictions of a trained model, for one row or several."""
    if (body.row is None) == (body.rows is None):
        raise InvalidParameter("row", None, "given, or rows in its place")
    dataset = await _find_dataset(request, name)
    rows = [body.row] if body.row is not None else body.rows or ()
    given: dict[str, Any] = {each: getattr(body, each) for each in ("epsilon", "mu", "method", "screen")}

    def predicted() -> list[Prediction]:
        found = dataset.curator.predict(body.model, to_columns(rows), key=key, analyst=caller.name, **given)
        return found if isinstance(found, list) else [found]

    predictions = await dataset.dispatcher.run_long(caller.name, predicted)
    _note_charge(request, dataset, "predict", predictions)
    return _make_reply(predictions[0] if body.row is not None else {"predictions": predictions})


@router.post(
    "/evaluate", response_class=Response, responses=_describe_reply("What was found."), openapi_extra=describe_body(Evaluate)
)
async def evaluate(
    request: Request, caller: Analyst, key: IdempotencyKey, name: DatasetName, body: EvaluateBody
) -> Response:
    """Return whether a model's predictions err at most as often as asked, or how often what was released errs."""
    judged = body.entry if body.model is None else body.model
    if judged is None or (body.model is not None and body.entry is not None):
        raise InvalidParameter("model", body.model, "given, or entry in its place")
    dataset = await _find_dataset(request, name)
    given = {each: value for each, value in asdict(body).items() if each not in ("model", "entry")}
    found = await dataset.dispatcher.run_long(
        caller.name, partial(dataset.curator.evaluate, judged, key=key, analyst=caller.name, **given)
    )
    _note_charge(request, dataset, "evaluate", [found])
    return _make_reply(found)


@router.get("/models", response_class=Response, responses=_describe_reply("The models, in the order of their names."))
async def models(request: Request, caller: Analyst, name: DatasetName) -> Response:
    """Return what is public about every model: what it reads, says and costs. Free; no row is read."""
    dataset = await _find_dataset(request, name)
    found = await dataset.dispatcher.run_long(caller.name, lambda: dataset.curator.models)
    return _make_reply({"models": found})


QueryModel = Annotated[str, Query(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="The name of a model.")]
QueryPrivacy = Annotated[float | None, Query(gt=0, le=1000, description="The privacy of each prediction.")]
FIELD_NAMES.update(("model", "epsilon", "mu"))


@router.get("/predictions-left", response_class=Response, responses=_describe_reply("How many predictions are left."))
async def predictions_left(  # noqa: PLR0913, PLR0917 - the request, the caller, and one field each
    request: Request,
    caller: Analyst,
    name: DatasetName,
    model: QueryModel,
    epsilon: QueryPrivacy = None,
    mu: QueryPrivacy = None,
) -> Response:
    """Return how many predictions of a model the budget still pays for. Free; no row is read."""
    dataset = await _find_dataset(request, name)
    left = partial(dataset.curator.predictions_left, model, epsilon=epsilon, mu=mu)
    return _make_reply({"predictions_left": await dataset.dispatcher.run_long(caller.name, left)})


@router.post(
    "/distill",
    response_class=Response,
    responses=_describe_reply("A label for each row, null where none was bought or clear, and what the model reads."),
    openapi_extra=describe_body(Distill, only=("model", "rows", "labels", "groups", "epsilon", "mu", "screen")),
)
async def distill(request: Request, caller: Analyst, key: IdempotencyKey, name: DatasetName, body: DistillBody) -> Response:
    """Buy labels for public rows, to teach a student of your own with, which predicts at no further cost."""
    if body.student is not None:
        raise InvalidParameter.without_value("student", "left out: teach it with the labels in your own process")
    dataset = await _find_dataset(request, name)
    curator = dataset.curator
    given: dict[str, Any] = {each: getattr(body, each) for each in ("labels", "groups", "epsilon", "mu", "screen")}

    def buy() -> tuple[Model, Purchase]:
        model = curator.model(body.model)
        return model, buy_labels(curator.pipeline, model, to_columns(body.rows), key=key, analyst=caller.name, **given)

    model, bought = await dataset.dispatcher.run_long(caller.name, buy)
    _note_charge(request, dataset, "predict", bought.told)
    return _make_reply({"features": list(model.columns), "labels": bought.labels, "predictions": bought.told})


@router.post(
    "/grant",
    response_class=Response,
    responses=_describe_reply("What the analyst may spend, has spent and has left."),
    openapi_extra=describe_body(Grant),
)
async def grant(request: Request, _: Owner, name: DatasetName, body: GrantBody) -> Response:
    """Limit an analyst to the budget of so many questions, within the cap; null lifts the limit."""
    dataset = await _find_dataset(request, name)
    await dataset.dispatcher.run_short(partial(dataset.curator.grant, body.analyst, asks=body.asks))
    share = partial(share_of, dataset.curator, dataset=dataset.name, name=body.analyst)
    return _make_reply(await dataset.dispatcher.run_short(share))


@router.post(
    "/preview",
    response_class=Response,
    responses=_describe_reply("What it would cost, and how wide it would be."),
    openapi_extra=describe_body(Ask, only=("query",)),
)
async def preview(request: Request, caller: Analyst, name: DatasetName, body: AskBody) -> Response:
    """Return what a question would cost and how wide its interval would be. Free; no row is read.

    It does not reveal whether others asked the question before.
    """
    if body != Ask(query=body.query) or body.query is None:
        raise InvalidParameter.without_value("query", "given, and nothing else")
    dataset = await _find_dataset(request, name)
    return _make_reply(await dataset.dispatcher.run_short(preview_for, dataset.curator, body.query, caller))


@router.post(
    "/deduce",
    response_class=Response,
    responses=_describe_reply("What follows from earlier answers."),
    openapi_extra=describe_body(Ask, only=("query",)),
)
async def deduce(request: Request, caller: Analyst, name: DatasetName, body: AskBody) -> Response:
    """Return the interval that follows from the answers so far. Free; no row is read and nothing is recorded.

    An analyst's follows from answers that the same analyst paid for, the owner's from all.
    """
    if body != Ask(query=body.query) or body.query is None:
        raise InvalidParameter.without_value("query", "given, and nothing else")
    dataset = await _find_dataset(request, name)
    analyst = caller.name if caller.role == "analyst" else None
    found = partial(dataset.curator.deduce, body.query, analyst=analyst)
    return _make_reply(await dataset.dispatcher.run_long(caller.name, found))


@router.post(
    "/synthesize", response_class=Response, responses=_describe_reply("The rows."), openapi_extra=describe_body(Synthesize)
)
async def synthesize(request: Request, caller: Analyst, name: DatasetName, body: SynthesizeBody) -> Response:
    """Return rows made from released tables. Free; no row is read and nothing is recorded.

    An analyst's are made from tables that the same analyst paid for, the owner's from all.
    """
    dataset = await _find_dataset(request, name)
    analyst = caller.name if caller.role == "analyst" else None
    made = partial(dataset.curator.synthesize, **asdict(body), analyst=analyst)
    return _make_reply(await dataset.dispatcher.run_long(caller.name, made))


@router.get("/budget", response_class=Response, responses=_describe_reply("What is spent, and what is left."))
async def budget(request: Request, caller: Anyone, name: DatasetName) -> Response:
    """Return what is spent and what is left, over all analysts, and of the allowance of the key's name."""
    dataset = await _find_dataset(request, name)
    return _make_reply(await dataset.dispatcher.run_short(budget_document, dataset.curator, caller))


Before = Annotated[int | None, Query(ge=1, le=2**53, description="Only entries before this one.")]
Lines = Annotated[int, Query(ge=1, le=1000, description="The largest number of charges to return.")]
FIELD_NAMES.update(("before", "limit"))


@router.get("/history", response_class=Response, responses=_describe_reply("Charges and their responses, oldest first."))
async def history(
    request: Request, caller: Anyone, name: DatasetName, before: Before = None, limit: Lines = 100
) -> Response:
    """Return the newest charges and their responses: an analyst's own, or all for the owner and an auditor.

    ``before`` in the response is what to ask for to see older ones, or null where there are none.
    """
    dataset = await _find_dataset(request, name)

    page = partial(visible_page, dataset.curator, caller, before=before, limit=limit)
    return _make_reply(await dataset.dispatcher.run_long(caller.name, page))


@router.get("/report", response_class=Response, responses=_describe_reply("One HTML page.", "text/html"))
async def report(
    request: Request, caller: Anyone, name: DatasetName, before: Before = None, limit: Lines = 1000
) -> Response:
    """Return plan, budget and the newest questions and answers as one self-contained page; analysts see their own."""
    dataset = await _find_dataset(request, name)
    text = await dataset.dispatcher.run_long(caller.name, report_text, dataset, caller, before=before, limit=limit)
    headers = {"Content-Security-Policy": _PAGE_POLICY}
    return Response(text, headers=headers, media_type="text/html")


@router.get("/ledger", response_class=FileResponse, responses=_describe_reply("A SQLite file.", "application/vnd.sqlite3"))
async def ledger(request: Request, caller: Auditor, name: DatasetName) -> Response:
    """Return a copy of the ledger for an auditor, to be verified offline; the key to the rows' fingerprint is not in it."""
    from holdtrue.ledgers.sqlite import export

    dataset = await _find_dataset(request, name)
    folder = FilePath(tempfile.mkdtemp(prefix="export-", dir=service_of(request).settings.home))
    removed = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
    place = folder / f"{dataset.name}.ledger"
    try:
        await dataset.dispatcher.run_long(caller.name, export, dataset.curator.ledger, place)
    except BaseException:
        await removed()
        raise
    return FileResponse(place, media_type="application/vnd.sqlite3", filename=place.name, background=removed)


@router.post(
    "/verify",
    response_class=Response,
    responses=_describe_reply("The ledger is whole."),
    openapi_extra=describe_body(Verify),
)
async def verify(request: Request, caller: Anyone, name: DatasetName, body: VerifyBody) -> Response:
    """Recompute the ledger from its first entry and compare it with receipts that were kept elsewhere."""
    from holdtrue.ledgers import verify as recompute

    dataset = await _find_dataset(request, name)
    if len(body.receipts) > 1 and len({receipt.entry for receipt in body.receipts}) < len(body.receipts):
        message = "two receipts are for the same entry"
        raise RefusedError(message)
    receipts = [(receipt.entry, receipt.digest) for receipt in body.receipts]
    found = await dataset.dispatcher.run_long(caller.name, recompute, dataset.curator.ledger, receipts=receipts)
    return _make_reply(found)
