"""The other verbs of a dataset, over HTTP: each in the dataset's own threads."""

import shutil
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from inspect import getdoc
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_args

from fastapi import APIRouter, Query, Request, Response
from msgspec.structs import asdict
from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from holdtrue.curator import Curator
from holdtrue.curator.history import find_released
from holdtrue.errors import InvalidParameter, RefusedError
from holdtrue.records import Marginals
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
from holdtrue.service.http.bodies import body_of, describe_body, describe_reply, make_reply
from holdtrue.service.http.learners import make_estimator, read_classes, to_columns
from holdtrue.service.http.problems import FIELD_NAMES, PROBLEMS
from holdtrue.service.http.routes.datasets import DatasetName
from holdtrue.service.identity import Analyst, Anyone, Auditor, Caller, IdempotencyKey, Owner, demand_role
from holdtrue.service.identity.api_keys import share_of
from holdtrue.verbs.distilling import buy_labels
from holdtrue.verbs.keeping import choose_release
from holdtrue.verbs.pairs import StatisticRequest
from holdtrue.verbs.training import Model

if TYPE_CHECKING:
    from holdtrue.service.settings import Settings

__all__ = ["router"]

router = APIRouter(prefix="/v1/datasets/{name}", tags=["verbs"], responses=PROBLEMS)
_PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"


async def _find_dataset(request: Request, name: str) -> Dataset:
    return await service_of(request).registry.find_dataset(name)


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """Who asks which dataset, under which key; ``given`` is what the verbs of a curator take of that."""

    dataset: Dataset
    caller: Caller
    settings: "Settings"
    key: str = ""

    @property
    def curator(self) -> Curator:
        return self.dataset.curator

    @property
    def given(self) -> dict[str, Any]:
        return {"key": self.key, "analyst": self.caller.name}


_Answer: TypeAlias = Callable[[_Asked, Any], Callable[[], Any]]


def _describe_route(kind: Any, path: str, told: str, answer: _Answer, only: Collection[str] | None) -> dict[str, Any]:  # noqa: ANN401 - a kind of request
    described = {"responses": describe_reply(told), "openapi_extra": describe_body(kind, only=only)}
    named = {"path": path, "name": getattr(answer, "__name__", ""), "description": getdoc(answer)}
    return named | described | {"methods": ["POST"], "response_class": Response}


def _add_paid(
    kind: Any,  # noqa: ANN401 - a kind of request
    path: str,
    told: str,
    *,
    counted_as: str | None = None,
    only: Collection[str] | None = None,
) -> Callable[[_Answer], _Answer]:
    """Add the route of a verb that may spend. It returns what is run in the dataset's own threads, at the caller's turn."""

    def add(answer: _Answer) -> _Answer:
        async def route(
            request: Request, caller: Analyst, key: IdempotencyKey, name: DatasetName, body: Annotated[kind, body_of(kind)]
        ) -> Response:
            service, dataset = service_of(request), await _find_dataset(request, name)
            run = answer(_Asked(dataset, caller, service.settings, key), body)
            found = await dataset.dispatcher.run_long(caller.name, run)
            if responses := _list_responses(found):
                service.metrics.note_charge(request.scope, dataset.name, counted_as or path[1:].replace("-", "_"), responses)
            return make_reply(found)

        router.add_api_route(endpoint=route, **_describe_route(kind, path, told, answer, only))
        return answer

    return add


def _list_responses(found: object) -> Sequence[Any]:
    """Return the responses in what a verb says, whose charges are told to the log and the metrics."""
    if isinstance(found, dict):
        responses: Sequence[Any] = found.get("predictions", ())
        return responses
    return found.tables if isinstance(found, Marginals) else [found]


def _add_free(  # noqa: PLR0913 - one route, and who may take it
    kind: Any,  # noqa: ANN401 - a kind of request
    path: str,
    told: str,
    *,
    role: Any = Analyst,  # noqa: ANN401 - whose key it takes
    long: bool = False,
    only: Collection[str] | None = None,
) -> Callable[[_Answer], _Answer]:
    """Add the route of a verb that spends nothing, which may take ``long``, and is then run at the caller's turn."""

    def add(answer: _Answer) -> _Answer:
        async def route(request: Request, caller: role, name: DatasetName, body: Annotated[kind, body_of(kind)]) -> Response:
            dataset = await _find_dataset(request, name)
            run, threads = answer(_Asked(dataset, caller, service_of(request).settings), body), dataset.dispatcher
            return make_reply(await (threads.run_long(caller.name, run) if long else threads.run_short(run)))

        router.add_api_route(endpoint=route, **_describe_route(kind, path, told, answer, only))
        return answer

    return add


@_add_paid(Table, "/table", "The table.")
def table(asked: _Asked, body: Table) -> Callable[[], Any]:
    """Return the shares of disjoint cells of the rows, all at once, for the price of two to five questions."""
    given = asdict(body)
    return partial(asked.curator.table, *given.pop("columns"), **given, **asked.given)


@_add_paid(MarginalSets, "/marginals", "The tables.")
def marginals(asked: _Asked, body: MarginalSets) -> Callable[[], Any]:
    """Return the tables of all pairs or triples of columns, or of those that are named, at two questions each."""
    return partial(asked.curator.marginals, **asdict(body), **asked.given)


@_add_paid(Mean, "/mean", "The means.")
def mean(asked: _Asked, body: Mean) -> Callable[[], Any]:
    """Return the mean of a column of numbers in its own units in each group, for the price of two to five questions."""
    return partial(asked.curator.mean, **asdict(body), **asked.given)


@_add_paid(Total, "/sum", "The sums.", counted_as="mean")
def sum_column(asked: _Asked, body: Total) -> Callable[[], Any]:
    """Return the sum of a column of numbers over these rows, or over a population of a given size, in each group."""
    return partial(asked.curator.sum, **asdict(body), **asked.given)


@_add_paid(Quantile, "/quantile", "The quantiles.")
def quantile(asked: _Asked, body: Quantile) -> Callable[[], Any]:
    """Return where the values of a column reach one level or several, each with an interval for the population.

    A search of plain questions, at most twice the logarithm of the number of points for a level; where the budget runs out
    on the way, the intervals so far.
    """
    return partial(asked.curator.quantile, **asdict(body), **asked.given)


@_add_free(Quantile, "/preview-quantile", "The most that it can cost.")
def preview_quantile(asked: _Asked, body: Quantile) -> Callable[[], Any]:
    """Return the most that quantiles can cost. Free; no row is read."""
    return partial(asked.curator.preview_quantile, **asdict(body))


def _add_statistic(kind: Any) -> None:  # noqa: ANN401 - a kind of request
    """Add the two routes of a statistic: its answer, and its price."""
    verb = kind.__struct_config__.tag
    path = verb.replace("_", "-")

    def answer(asked: _Asked, body: StatisticRequest) -> Callable[[], Any]:
        return partial(asked.curator.find_statistic, body, **asked.given)

    def preview(asked: _Asked, body: StatisticRequest) -> Callable[[], Any]:
        return partial(asked.curator.preview_statistic, body)

    answer.__name__, preview.__name__ = verb, f"preview-{verb}"
    answer.__doc__ = f"{kind.__doc__} With an interval for the population."
    preview.__doc__ = f"Return what {path} would cost, and how wide it would be. Free; no row is read."
    _add_paid(kind, f"/{path}", "The statistic.")(answer)
    _add_free(kind, f"/preview-{path}", "What it would cost.")(preview)


for _kind in get_args(StatisticRequest):
    _add_statistic(_kind)


@_add_paid(Select, "/select", "The choice.")
def select(asked: _Asked, body: Select) -> Callable[[], Any]:
    """Choose the candidate that the most rows satisfy. The owner may give scores, which come from the rows."""
    candidates = body.candidates
    asks = body.scores is None and (not isinstance(candidates, dict) or all(map(_is_text, candidates.values())))
    if not asks and asked.caller.role != "owner":
        message = "scores come from the rows, so only the owner may give them; give candidates as questions"
        raise RefusedError(message)
    given = asdict(body)
    given |= {field: _read_rationals(given[field]) for field in ("scores", "sensitivity", "weights")}
    return partial(asked.curator.select, given.pop("candidates"), **given, **asked.given)


def _read_rationals(value: object) -> object:
    """Return numbers of a body, with rationals in text as such."""
    if isinstance(value, dict):
        return {name: _read_rationals(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [_read_rationals(each) for each in value]
    return Fraction(value) if isinstance(value, str) else value


def _is_text(value: object) -> bool:
    return isinstance(value, str)


@_add_paid(WatchQuestion, "/watch", "Above or below.")
def watch(asked: _Asked, body: WatchQuestion) -> Callable[[], Any]:
    """Say whether a share of the rows is above a threshold: next to free until an alarm, or until the service restarts."""
    given = asdict(body)
    query = given.pop("query")
    return lambda: asked.curator.watch(**given, analyst=asked.caller.name).ask(query, key=asked.key)


@_add_paid(Learn, "/learn", "The hypothesis.")
def learn(asked: _Asked, body: Learn) -> Callable[[], Any]:
    """Pick a hypothesis of a finite class that errs about as rarely as the best."""
    given = asdict(body) | asked.given
    del given["hypotheses"]
    return lambda: asked.curator.learn(read_classes(asked.dataset, body, asked.settings), **given)


def describe_model(model: Model) -> dict[str, Any]:
    """Return what is public about a model that is kept."""
    asked = model.asked
    document = {"name": asked.name, "digest": asked.digest, "parts": asked.parts, "features": list(model.columns)}
    labels = None if asked.labels is None else list(asked.labels)
    proven = {} if asked.certificate is None else {"certificate": asked.certificate}
    return document | {"labels": labels, "bounds": None if asked.bounds is None else list(asked.bounds)} | proven


@_add_paid(Fit, "/fit", "The model.")
def fit(asked: _Asked, body: Fit) -> Callable[[], Any]:
    """Publish the weights of a model that one row changes very little, with noise, for one charge; or keep them.

    With release each, for the owner, nothing is charged or told: the model is kept, and each prediction of it is charged.
    """
    if choose_release(body.kind, body.release) == "each":
        demand_role(asked.caller, "owner")
    given = asdict(body) | asked.given

    def fitted() -> object:
        model = asked.curator.fit(given.pop("name"), given.pop("kind"), **given)
        return describe_model(model) if isinstance(model, Model) else model

    return fitted


@_add_paid(BestError, "/best-error", "The statistic.")
def best_error(asked: _Asked, body: BestError) -> Callable[[], Any]:
    """Return how seldom the best hypothesis of a finite class errs on samples of this size."""
    given: dict[str, Any] = {"target": body.target, "features": body.features} | asked.given
    return lambda: asked.curator.best_error(read_classes(asked.dataset, body, asked.settings), **given)


@_add_free(Train, "/train", "What is public about the model.", role=Owner, long=True)
def train(asked: _Asked, body: Train) -> Callable[[], Any]:
    """Train a model on disjoint parts of the rows, for the owner. Releases nothing."""
    learner = None if body.estimator is None else make_estimator(body.estimator.kind, body.estimator.parameters)
    given = asdict(body) | {"estimator": learner}

    def trained() -> dict[str, Any]:
        classes = None if body.hypotheses is None else read_classes(asked.dataset, body, asked.settings)
        return describe_model(asked.curator.train(given.pop("name"), **(given | {"hypotheses": classes})))

    return trained


@_add_paid(Predict, "/predict", "The prediction, or the predictions.")
def predict(asked: _Asked, body: Predict) -> Callable[[], Any]:
    """Return private predictions of a trained model, for one row or several."""
    if (body.row is None) == (body.rows is None):
        raise InvalidParameter.saying("row", "give either row or rows")
    rows = [body.row] if body.row is not None else body.rows or ()
    given: dict[str, Any] = {each: getattr(body, each) for each in ("epsilon", "mu", "method", "screen")} | asked.given

    def predicted() -> object:
        found = asked.curator.predict(body.model, to_columns(rows), **given)
        several = found if isinstance(found, list) else [found]
        return several[0] if body.row is not None else {"predictions": several}

    return predicted


@_add_paid(Evaluate, "/evaluate", "What was found.")
def evaluate(asked: _Asked, body: Evaluate) -> Callable[[], Any]:
    """Return whether a model's predictions err at most as often as asked, or how often what was released errs."""
    given = asdict(body)
    named, entry, digest = given.pop("model"), given.pop("entry"), given.pop("digest")
    if (named is None) == (entry is None) or (entry is None and digest is not None):
        raise InvalidParameter.saying("model", "give either model or entry, and a digest only with an entry")

    def judged() -> object:
        if entry is not None:
            find_released(asked.curator.ledger, entry, digest=digest, seen_by=asked.caller.seen_by)
        return asked.curator.evaluate(entry if named is None else named, **given, **asked.given)

    return judged


@router.get("/models", response_class=Response, responses=describe_reply("The models, in the order of their names."))
async def models(request: Request, caller: Analyst, name: DatasetName) -> Response:
    """Return what is public about every model: what it reads, says and costs. Free; no row is read."""
    dataset = await _find_dataset(request, name)
    found = await dataset.dispatcher.run_long(caller.name, lambda: dataset.curator.models)
    return make_reply({"models": found})


QueryModel = Annotated[str, Query(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="The name of a model.")]
QueryPrivacy = Annotated[float | None, Query(gt=0, le=1000, description="The privacy of each prediction.")]
FIELD_NAMES.update(("model", "epsilon", "mu"))


@router.get("/predictions-left", response_class=Response, responses=describe_reply("How many predictions are left."))
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
    return make_reply({"predictions_left": await dataset.dispatcher.run_long(caller.name, left)})


@_add_paid(
    Distill,
    "/distill",
    "A label for each row, null where none was bought or clear, and what the model reads.",
    counted_as="predict",
    only=("model", "rows", "labels", "groups", "epsilon", "mu", "screen"),
)
def distill(asked: _Asked, body: Distill) -> Callable[[], Any]:
    """Buy labels for public rows, to teach a student of your own with, which predicts at no further cost."""
    if body.student is not None:
        raise InvalidParameter.without_value("student", "left out: teach it with the labels in your own process")
    given: dict[str, Any] = {each: getattr(body, each) for each in ("labels", "groups", "epsilon", "mu", "screen")}

    def buy() -> dict[str, Any]:
        model = asked.curator.model(body.model)
        bought = buy_labels(asked.curator.pipeline, model, to_columns(body.rows), **given, **asked.given)
        return {"features": list(model.columns), "labels": bought.labels, "predictions": bought.told}

    return buy


@_add_free(Grant, "/grant", "What the analyst may spend, has spent and has left.", role=Owner)
def grant(asked: _Asked, body: Grant) -> Callable[[], Any]:
    """Limit an analyst to the budget of so many questions, within the cap; null lifts the limit."""

    def granted() -> object:
        asked.curator.grant(body.analyst, asks=body.asks)
        return share_of(asked.curator, dataset=asked.dataset.name, name=body.analyst)

    return granted


@_add_free(Ask, "/preview", "What it would cost, and how wide it would be.", only=("query",))
def preview(asked: _Asked, body: Ask) -> Callable[[], Any]:
    """Return what a question would cost and how wide its interval would be. Free; no row is read.

    It does not reveal whether others asked the question before.
    """
    return partial(preview_for, asked.curator, _read_query(body), asked.caller)


@_add_free(Ask, "/deduce", "What follows from earlier answers.", long=True, only=("query",))
def deduce(asked: _Asked, body: Ask) -> Callable[[], Any]:
    """Return the interval that follows from the answers so far. Free; no row is read and nothing is recorded.

    An analyst's follows from answers that the same analyst paid for, the owner's from all.
    """
    return partial(asked.curator.deduce, _read_query(body), analyst=asked.caller.seen_by)


def _read_query(body: Ask) -> str:
    if body != Ask(query=body.query) or body.query is None:
        raise InvalidParameter.without_value("query", "given, and nothing else")
    return body.query


@_add_free(Synthesize, "/synthesize", "The rows.", long=True)
def synthesize(asked: _Asked, body: Synthesize) -> Callable[[], Any]:
    """Return rows made from released tables. Free; no row is read and nothing is recorded.

    An analyst's are made from tables that the same analyst paid for, the owner's from all.
    """
    return partial(asked.curator.synthesize, **asdict(body), analyst=asked.caller.seen_by)


@router.get("/budget", response_class=Response, responses=describe_reply("What is spent, and what is left."))
async def budget(request: Request, caller: Anyone, name: DatasetName) -> Response:
    """Return what is spent and what is left, over all analysts, and of the allowance of the key's name."""
    dataset = await _find_dataset(request, name)
    return make_reply(await dataset.dispatcher.run_short(budget_document, dataset.curator, caller))


Before = Annotated[int | None, Query(ge=1, le=2**53, description="Only entries before this one.")]
Lines = Annotated[int, Query(ge=1, le=1000, description="The largest number of charges to return.")]
FIELD_NAMES.update(("before", "limit"))


@router.get("/history", response_class=Response, responses=describe_reply("Charges and their responses, oldest first."))
async def history(
    request: Request, caller: Anyone, name: DatasetName, before: Before = None, limit: Lines = 100
) -> Response:
    """Return the newest charges and their responses: an analyst's own, or all for the owner and an auditor.

    ``before`` in the response is what to ask for to see older ones, or null where there are none.
    """
    dataset = await _find_dataset(request, name)

    page = partial(visible_page, dataset.curator, caller, before=before, limit=limit)
    return make_reply(await dataset.dispatcher.run_long(caller.name, page))


@router.get("/report", response_class=Response, responses=describe_reply("One HTML page.", "text/html"))
async def report(
    request: Request, caller: Anyone, name: DatasetName, before: Before = None, limit: Lines = 1000
) -> Response:
    """Return plan, budget and the newest questions and answers as one self-contained page; analysts see their own."""
    dataset = await _find_dataset(request, name)
    text = await dataset.dispatcher.run_long(caller.name, report_text, dataset, caller, before=before, limit=limit)
    headers = {"Content-Security-Policy": _PAGE_POLICY}
    return Response(text, headers=headers, media_type="text/html")


@router.get("/ledger", response_class=FileResponse, responses=describe_reply("A SQLite file.", "application/vnd.sqlite3"))
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


@_add_free(Verify, "/verify", "The ledger is whole.", role=Anyone, long=True)
def verify(asked: _Asked, body: Verify) -> Callable[[], Any]:
    """Recompute the ledger from its first entry and compare it with receipts that were kept elsewhere."""
    from holdtrue.ledgers import verify as recompute

    if len(body.receipts) > 1 and len({receipt.entry for receipt in body.receipts}) < len(body.receipts):
        message = "two receipts are for the same entry"
        raise RefusedError(message)
    receipts = [(receipt.entry, receipt.digest) for receipt in body.receipts]
    return partial(recompute, asked.dataset.ledger, receipts=receipts)
