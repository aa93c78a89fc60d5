"""Plans over HTTP: numbers from theorems, before any data. No dataset is touched and nothing is spent."""

import asyncio
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request

from holdtrue.codec import encode, plain
from holdtrue.service.http.bodies import read_body
from holdtrue.service.http.problems import FIELD_NAMES, PROBLEMS
from holdtrue.service.identity import Anyone

__all__ = ["router"]


class StrictModel(BaseModel):
    """A form: nothing but its fields, finite numbers, no conversions of one type into another."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True, hide_input_in_errors=True)

    def __init_subclass__(cls, **given: Any) -> None:  # noqa: ANN401 - pydantic's
        super().__init_subclass__(**given)
        FIELD_NAMES.update(cls.__annotations__)


router = APIRouter(prefix="/v1/plan", tags=["plans"], responses=PROBLEMS)

Count = Annotated[int | None, Field(ge=1, le=10**12)]
Share = Annotated[float | None, Field(gt=0, lt=1)]
Beta = Annotated[float, Field(gt=0, lt=1)]
Epsilon = Annotated[float | None, Field(gt=0, le=1000)]

# Plans are pure arithmetic; one thread keeps them from taking the processor from those who ask.
_THREAD = ThreadPoolExecutor(1, thread_name_prefix="plans")


class PlanReserve(StrictModel):
    """Predictions that a reserve is kept for."""

    predictions: Annotated[int, Field(ge=1, le=10**9)]
    epsilon: Annotated[float, Field(gt=0, le=1000)]
    currency: Literal["mu", "rho", "draws"] | None = None


class PlanAsking(StrictModel):
    """Leave out one of rows, queries and alpha."""

    rows: Count = None
    queries: Count = None
    alpha: Share = None
    beta: Beta = 0.05
    epsilon: Epsilon = None
    delta: Annotated[float | None, Field(ge=0, lt=1)] = None
    reserve: Annotated[float, Field(ge=0, lt=1)] | PlanReserve = 0.0
    uses: Annotated[int, Field(ge=1, le=10**9)] = 10
    cap: Literal["validity", "privacy"] | None = None
    shares: Annotated[float | None, Field(gt=0, le=0.5)] = None
    side: Literal["both", "low", "high"] = "both"
    method: Annotated[str, Field(min_length=1, max_length=64)] = "joint-gaussian"
    compare: bool = False


class PlanLearning(StrictModel):
    """Leave out one of rows, alpha and epsilon."""

    size: Annotated[int, Field(ge=1, le=10**15)]
    alpha: Share = None
    beta: Beta = 0.05
    epsilon: Epsilon = None
    rows: Count = None
    method: Literal["best", "lecture4", "lecture4-hoeffding", "lecture16"] = "best"
    realizable: bool = False


class PlanSelection(StrictModel):
    """Leave out one of epsilon and shortfall."""

    candidates: Annotated[int, Field(ge=1, le=10**12)]
    beta: Beta = 0.05
    epsilon: Epsilon = None
    shortfall: Annotated[float | None, Field(gt=0, le=1e15)] = None
    monotone: bool = False


class PlanPrediction(StrictModel):
    """Leave out one of alpha and rows."""

    alpha: Share = None
    beta: Beta = 0.05
    epsilon: Epsilon = None
    size: Annotated[int | None, Field(ge=1, le=10**15)] = None
    dimension: Annotated[int | None, Field(ge=1, le=10**6)] = None
    rows: Count = None
    predictions: Annotated[int, Field(ge=1, le=10**9)] = 1
    realizable: bool = True
    method: Literal["best", "seed", "laplace"] = "best"


class PlanRegression(StrictModel):
    """Give two of rows, excess, and one of mu and epsilon."""

    rows: Count = None
    excess: Annotated[float | None, Field(gt=0, le=1e6)] = None
    mu: Epsilon = None
    epsilon: Epsilon = None
    release: Literal["once", "each"] | None = None
    radius: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    loss_lipschitz: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    predictor_lipschitz: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    smoothness: Annotated[float | None, Field(gt=0, le=1e6)] = None


class PlanHoldout(StrictModel):
    """Every mode's width before the first look."""

    # The work grows with looks and with yes: what takes longer than a few seconds is planned on one's own machine.
    cases: Annotated[int | None, Field(ge=1, le=10**9)] = None
    looks: Annotated[int, Field(ge=1, le=20_000)]
    yes: Annotated[int | None, Field(ge=1, le=1_000)] = None
    overfits: Annotated[int | None, Field(ge=1, le=50)] = None
    beta: Beta = 0.05
    private: bool | None = None
    alpha: Share = None
    gain: Share = None
    discordant: Share = None
    tells: Literal["bounds", "bounds at the end"] | None = None
    epsilon: Epsilon = None
    delta: Annotated[float | None, Field(ge=0, lt=1)] = None


async def _make_plan(make: Callable[..., Any], form: StrictModel) -> Response:
    given = form.model_dump()
    compare = given.pop("compare", False)

    def made() -> str:
        with warnings.catch_warnings():
            # That no efficient mechanism could do better is said by the plan's own width.
            warnings.simplefilter("ignore")
            found = make(**given)
            lines = {"comparison": list(found.compare())} if compare else {}
        return encode(plain(found) | lines)

    body = await asyncio.get_running_loop().run_in_executor(_THREAD, made)
    return Response(body, media_type="application/json")


def _plan_asking(**given: Any) -> Any:  # noqa: ANN401 - a plan, from a checked form
    from holdtrue.planning.asking import plan

    return plan(**given)


def _plan_kind(name: str, **given: Any) -> Any:  # noqa: ANN401 - a plan, from a checked form
    import holdtrue

    return getattr(holdtrue, name)(**given)


def _add_plan(path: str, form: type[StrictModel], make: Callable[..., Any], what: str) -> None:
    """Add one plan twice: by query parameters and by a JSON body."""
    loose = type(f"{form.__name__}Query", (form,), {"model_config": ConfigDict(strict=False), "__module__": __name__})

    async def by_query(_: Anyone, form: Any) -> Response:  # noqa: ANN401 - annotated below
        return await _make_plan(make, form)

    async def by_body(_: Anyone, request: Request) -> Response:
        document = await read_body(request)
        try:
            given = form.model_validate(document)
        except ValidationError as error:
            mistakes = [{"loc": ("body", *each["loc"])} for each in error.errors(include_input=False, include_url=False)]
        else:
            return await _make_plan(make, given)
        raise RequestValidationError(mistakes)

    by_query.__annotations__["form"] = Annotated[loose, Query()]
    body = {"required": True, "content": {"application/json": {"schema": form.model_json_schema()}}}
    described: dict[int | str, dict[str, Any]] = {
        200: {"description": "The plan.", "content": {"application/json": {"schema": {"type": "object"}}}}
    }
    for method, endpoint, extra in (("GET", by_query, None), ("POST", by_body, {"requestBody": body})):
        router.add_api_route(
            path,
            endpoint,
            methods=[method],
            summary=f"Plan for {what}.",
            operation_id=f"plan_{what.split(maxsplit=1)[0]}_{method.lower()}",
            response_class=Response,
            responses=described,
            openapi_extra=extra,
        )


_add_plan("", PlanAsking, _plan_asking, "asking")
_add_plan("/learning", PlanLearning, partial(_plan_kind, "plan_learning"), "learning")
_add_plan("/selection", PlanSelection, partial(_plan_kind, "plan_selection"), "selection")
_add_plan("/prediction", PlanPrediction, partial(_plan_kind, "plan_prediction"), "prediction")
_add_plan("/regression", PlanRegression, partial(_plan_kind, "plan_regression"), "regression")
_add_plan("/holdout", PlanHoldout, partial(_plan_kind, "plan_holdout"), "holdouts")
