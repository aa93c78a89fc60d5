"""Learning, fitting, predicting, watching, releasing on the page of a dataset: the price before, the outcome after."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Request
from msgspec.structs import asdict, replace
from starlette.responses import Response

from holdtrue.codec import digest_of, encode
from holdtrue.curator import Curator
from holdtrue.curator.history import find_released
from holdtrue.errors import HoldtrueError, InvalidParameter
from holdtrue.exact import amount, positive
from holdtrue.mechanisms import Exponential, PermuteAndFlip
from holdtrue.queries.cards import Card
from holdtrue.records import Certificate, Table
from holdtrue.requests import BestError, Cut, Distill, Evaluate, Fit, Learn, MarginalSets, Predict, Train, WatchQuestion
from holdtrue.service import service_of
from holdtrue.service.datasets import Dataset
from holdtrue.service.http.bodies import decode_body
from holdtrue.service.http.learners import make_estimator, read_classes, to_columns
from holdtrue.service.http.problems import detail_of
from holdtrue.service.identity import Caller, demand_role
from holdtrue.service.page.access import PageRoute, Visitor, form_of, make_key, text_of
from holdtrue.service.page.form_fields import read_number, read_numbers, read_selection, read_whole
from holdtrue.service.page.rendering import asked_by_htmx, show_page
from holdtrue.service.page.summary_views import suggest_points, write_csv
from holdtrue.service.page.uploads import UploadedForm, read_rows, to_value, upload_form_of
from holdtrue.service.page.views import find_dataset, make_context, read_standing
from holdtrue.service.settings import Settings
from holdtrue.verbs.distilling import buy_labels
from holdtrue.verbs.evaluating import plan_evaluation
from holdtrue.verbs.fitting import plan_fit, read_facts
from holdtrue.verbs.keeping import choose_release
from holdtrue.verbs.marginals import preview_marginals
from holdtrue.verbs.predicting import offer_of
from holdtrue.verbs.selecting import SelectionTerms, epsilon_of_use, select
from holdtrue.verbs.training import Model
from holdtrue.verbs.watching import QueryWatch

__all__ = ["router"]

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_LONGEST = 4096
_NAME = 64
_STEPS = 20
_MOST_COLUMNS = 64
_MOST_EXPORTED = 20_000  # cells or rows in the address of one file
# What the models of the demonstration predict, so that the truth can stand beside a label.
_TARGETS: WeakKeyDictionary[Curator, dict[str, str]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class ToldOutcome:
    """What a verb told, as it is shown: the word, what follows it, and what was paid; ``csv`` is a file to save."""

    title: str
    said: str
    after: str
    paid: str
    certificate: Certificate | None = None
    csv: str | None = None
    truth: str | None = None
    file: str = "labels.csv"


@dataclass(frozen=True, slots=True, eq=False)
class _SentForm:
    """A form that came: whose it is, what is in it, and under which key it is charged once."""

    dataset: Dataset
    form: UploadedForm
    caller: Caller
    key: str
    settings: Settings

    @property
    def fields(self) -> Mapping[str, str]:
        return self.form.fields

    @property
    def curator(self) -> Curator:
        return self.dataset.curator


_Run: TypeAlias = Callable[[_SentForm], ToldOutcome]
_Price: TypeAlias = Callable[[_SentForm], tuple[int, str]]


def _add_routes(kind: str, run: _Run, *, price: _Price | None, owner: bool = False) -> None:
    """Add the routes of a form: its answer, charged once for each form, and its price, for nothing."""

    async def answer(request: Request, caller: Visitor, name: str) -> Response:
        demand_role(caller, "owner", *(() if owner else ("analyst",)))
        sent = await _receive(request, caller, name, kind)
        told = await sent.dataset.dispatcher.run_long(caller.name, run, sent)
        if told.certificate is not None:
            request.scope["entry"] = told.certificate.entry
        context = make_context(request, await read_standing(sent.dataset, caller)) | {"released": told}
        form = "learn" if kind == "best-error" else kind
        page = "parts/released.html" if asked_by_htmx(request) else "dataset.html"
        return show_page(request, page, context | {"form_field": f"{form}-form-id"})

    place = f"/page/datasets/{{name}}/{kind}"
    router.add_api_route(place, answer, methods=["POST"], response_model=None, name=kind)
    if price is not None:
        _add_price_route(kind, price)


def _add_price_route(kind: str, price: _Price) -> None:
    async def show_price(request: Request, caller: Visitor, name: str) -> Response:
        sent = await _receive(request, caller, name, kind)
        found = await sent.dataset.dispatcher.run_short(_find_price, sent, price)
        return show_page(request, "parts/reserve_price.html", {"priced": found})

    place = f"/page/datasets/{{name}}/preview-{kind}"
    router.add_api_route(place, show_price, methods=["POST"], response_model=None, name=f"preview-{kind}")


async def _receive(request: Request, caller: Caller, name: str, kind: str) -> _SentForm:
    dataset = await find_dataset(request, name)
    files = request.headers.get("content-type", "").startswith("multipart/")
    form = await upload_form_of(request) if files else UploadedForm(await form_of(request), {})
    asked = {field: text for field, text in form.fields.items() if field != "form"}
    sent = {field: digest_of({"file": file.content.hex()}) for field, file in form.files.items()}
    key = make_key(caller, form.fields, kind, encode(asked | sent))
    return _SentForm(dataset, form, caller, key, service_of(request).settings)


def _find_price(sent: _SentForm, price: _Price) -> dict[str, Any]:
    """Return what a form would cost and how often the reserve still pays for it; no row is read."""
    try:
        cost, told = price(sent)
        pipeline = sent.curator.pipeline
        with pipeline.lock_index():
            left = pipeline.left_beside_asks(sent.caller.name)
    except HoldtrueError as error:
        return {"wrong": detail_of(error)}
    plan = sent.curator.plan
    cap = amount(plan.cap_units if plan.second is None else plan.second.cap_units) or 1.0
    return {"share": amount(cost) / cap, "times": left // cost if cost else None, "told": told}


def _read_text(form: Mapping[str, str], field: str, words: str) -> str:
    text = text_of(form, field, longest=_LONGEST).strip()
    if not text:
        raise InvalidParameter.saying(field, words)
    return text


def _read_list(form: Mapping[str, str], field: str) -> list[str]:
    return [word.strip() for word in re.split(r"[,\n]", text_of(form, field, longest=_LONGEST)) if word.strip()]


def _read_privacy(form: Mapping[str, str]) -> float | None:
    epsilon = read_number(form, "epsilon")
    if epsilon is not None and not 0 < epsilon <= 1000:  # noqa: PLR2004 - as the request records have it
        raise InvalidParameter.saying("epsilon", "epsilon is a number above 0 and at most 1,000; empty takes a share")
    return epsilon


def _read_class(card: Card, form: Mapping[str, str]) -> dict[str, Any]:
    """Return the document of the class that a form describes: thresholds on columns of numbers, or joined yes-or-no ones."""
    given = _read_list(form, "columns")
    columns = [card.column(name) for name in given] if given else list(card.columns)
    size = read_whole(form, "size")
    if size is not None and not 1 <= size <= 100_000:  # noqa: PLR2004 - far enough
        raise InvalidParameter.saying("size", "steps is a whole number from 1 to 100,000")
    kind = text_of(form, "class", longest=_NAME)
    if kind not in ("", "stumps", "conjunctions"):
        raise InvalidParameter.saying("class", "a rule is one of the kinds stumps and conjunctions")
    if kind == "conjunctions":
        flags = [column.name for column in columns if column.type == "boolean"][:_MOST_COLUMNS]
        if not flags or len(flags) < len(given):
            raise InvalidParameter.saying("columns", "rules that join conditions read yes-or-no columns; name those")
        return {"class": "conjunctions", "columns": flags, "width": min(size or 2, len(flags))}
    target = text_of(form, "target", longest=_LONGEST)
    numbers = [each for each in columns if each.bounds is not None and each.type in ("integer", "real")]
    numbers = [each for each in numbers if given or each.name not in re.findall(r"\w+", target)]
    if not numbers or len(numbers) < len(given):
        message = "thresholds need columns of numbers with bounds on the card; name those, or have the owner declare bounds"
        raise InvalidParameter.saying("columns", message)
    bounds, names = [each.bounds for each in numbers], [each.name for each in numbers]
    return {"class": "stumps", "columns": names, "bounds": bounds, "steps": size or _STEPS}


def _read_learn(sent: _SentForm) -> Learn:
    document: dict[str, Any] = {
        "target": _read_text(sent.fields, "target", "write a yes-or-no question to predict, such as income > 50000"),
        "hypotheses": _read_class(sent.curator.card, sent.fields),
    }
    return decode_body(document | {"epsilon": _read_privacy(sent.fields)}, Learn)


def _learn(sent: _SentForm) -> ToldOutcome:
    asked, curator = _read_learn(sent), sent.curator
    classes = read_classes(sent.dataset, asked, sent.settings)
    found = curator.learn(classes, target=asked.target, epsilon=asked.epsilon, key=sent.key, analyst=sent.caller.name)
    behind = (
        f"errs at most {found.excess_error:.3f} more often than the best of {found.size:,} rules, for the population"
        if found.excess_error is not None
        else f"errs on at most {found.shortfall:,.0f} rows more than the best of {found.size:,} rules; {found.reason}"
    )
    truth = None
    if sent.dataset.truth is not None:
        rule = found.text.removesuffix(" → 1").replace("≥", ">=")
        wrong = f"(({rule}) AND NOT ({asked.target})) OR (NOT ({rule}) AND ({asked.target}))"
        with suppress(HoldtrueError):  # what was paid for is shown whatever becomes of its truth
            truth = f"In truth it errs on {sent.dataset.truth(wrong):.3f} of the population."
    paid = "Asked before: free." if found.repeated else "Paid from the reserve."
    return ToldOutcome(f"A rule for {asked.target}", found.text, behind, paid, found.certificate, truth=truth)


def _price_learn(sent: _SentForm) -> tuple[int, str]:
    asked = _read_learn(sent)
    sent.curator.pipeline.parse(asked.target)
    read_classes(sent.dataset, asked, sent.settings)
    privacy = epsilon_of_use(sent.curator.plan) if asked.epsilon is None else positive("epsilon", asked.epsilon)
    kind = PermuteAndFlip if sent.curator.plan.ledger == "pure" else Exponential
    return sent.curator.pipeline.limit.cost(kind(epsilon=privacy, sensitivity=1).event), f"epsilon {float(privacy):.3g}"


def _price_select(sent: _SentForm) -> tuple[int, str]:
    pipeline, plan = sent.curator.pipeline, sent.curator.plan
    candidates, asked = read_selection(sent.fields)
    parsed = {label: pipeline.parse(query) for label, query in candidates.items()}
    release = select(parsed, plan=plan, limit=pipeline.limit, epsilon=asked.epsilon, top=asked.top)
    terms = SelectionTerms(len(parsed), plan, Fraction(str(release.request["epsilon"])), top=asked.top)
    ranks = "the best" if asked.top == 1 else "the best, the next best, and so on"
    return release.cost, f"at most {terms.bound_shortfall():,.0f} rows behind {ranks}"


def _find_best_error(sent: _SentForm) -> ToldOutcome:
    asked = _read_learn(sent)
    body = BestError(hypotheses=asked.hypotheses, target=asked.target)
    classes = read_classes(sent.dataset, body, sent.settings)
    found = sent.curator.best_error(classes, target=asked.target, key=sent.key, analyst=sent.caller.name)
    ends = found.interval or found.sample_interval
    paid = "Asked before: free." if found.repeated else "Cost 1 question."
    after = f"between {ends.low:.3f} and {ends.high:.3f}, for {found.target}"
    return ToldOutcome(f"The least error of {found.subject}", f"{found.value:.3f}", after, paid, found.certificate)


def _train(sent: _SentForm) -> ToldOutcome:
    form = sent.fields
    parts = read_whole(form, "parts")
    document: dict[str, Any] = {
        "name": _read_text(form, "name", "name the model, in letters, digits, _ and -"),
        "estimator": {"kind": text_of(form, "estimator", longest=_NAME) or "logistic-regression", "parameters": {}},
        "target": _read_text(form, "target", "name a column with public labels or bounds, or write a yes-or-no question"),
        "features": _read_list(form, "features") or None,
        "parts": 200 if parts is None else parts,
        "key": text_of(form, "keys", longest=_LONGEST).strip() or None,
        "order": "fixed" if "order" in form else None,
        "held_out": read_number(form, "held_out"),
    }
    asked = decode_body(document, Train)
    estimator = None if asked.estimator is None else make_estimator(asked.estimator.kind, asked.estimator.parameters)
    given: dict[str, Any] = {"target": asked.target, "features": asked.features, "parts": asked.parts, "key": asked.key}
    given |= {"held_out": asked.held_out, "order": asked.order, "replace": "replace" in form}
    made = sent.curator.train(asked.name, estimator, **given)
    if sent.dataset.truth is not None:
        _TARGETS.setdefault(sent.curator, {})[asked.name] = asked.target
    says = ", ".join(map(str, made.asked.labels)) if made.asked.labels else f"numbers in {made.asked.bounds}"
    after = f"{made.asked.parts:,} parts vote; it reads {', '.join(made.columns)} and says {says}"
    return ToldOutcome("A model was trained", asked.name, after, "Training releases nothing and costs nothing.")


def _read_fit(sent: _SentForm) -> Fit:
    form = sent.fields
    document: dict[str, Any] = {
        "name": _read_text(form, "name", "name the model, in letters, digits, _ and -"),
        "kind": text_of(form, "kind", longest=_NAME) or "ridge",
        "target": _read_text(form, "target", "name a column with public labels or bounds, or write a yes-or-no question"),
        "features": _read_list(form, "features") or None,
        "release": text_of(form, "release", longest=_NAME) or None,
        "mu": read_number(form, "mu"),
        "epsilon": _read_privacy(form),
    }
    asked = decode_body({field: value for field, value in document.items() if value is not None}, Fit)
    if choose_release(asked.kind, asked.release) == "each":
        demand_role(sent.caller, "owner")
    return asked


def _fit(sent: _SentForm) -> ToldOutcome:
    asked = _read_fit(sent)
    given: dict[str, Any] = {"target": asked.target, "features": asked.features, "release": asked.release}
    given |= {"mu": asked.mu, "epsilon": asked.epsilon, "key": sent.key, "analyst": sent.caller.name}
    found = sent.curator.fit(asked.name, asked.kind, **given)
    if isinstance(found, Model):
        after = f"reads {', '.join(found.columns)}; {found.asked.certificate}"
        return ToldOutcome("A model is kept", asked.name, after, "The fit costs nothing; each prediction will.")
    weights = ", ".join(f"{name} {weight:.3g}" for name, weight in found.coefficients.items())
    after = f"for features and numbers on the scale of -1 to 1, intercept {found.intercept:.3g}; {found.behind}"
    paid = _say_cost(found.certificate, repeated=found.repeated)
    return ToldOutcome(f"{asked.kind} for {asked.target}", weights, after, paid, found.certificate)


def _say_cost(certificate: Certificate, *, repeated: bool) -> str:
    share = certificate.cost / (certificate.spent + certificate.left or 1)
    return "Asked before: free." if repeated else f"Cost {share:.2%} of the budget."


def _price_fit(sent: _SentForm) -> tuple[int, str]:
    asked, curator = _read_fit(sent), sent.curator
    facts: dict[str, Any] = {"target": asked.target, "features": asked.features, "bounds": None, "labels": None}
    public = read_facts(curator.pipeline, asked.name, asked.kind, **facts)
    if choose_release(asked.kind, asked.release) == "each":
        return 0, "nothing now; each prediction is charged"
    task = plan_fit(public, asked.kind, mu=asked.mu, epsilon=asked.epsilon)
    return task.release().cost, f"mu {float(task.mu or 0):.3g} for all weights; predictions are free then"


def _read_predict(sent: _SentForm) -> Predict:
    form = sent.fields
    lines = [line for line in re.split(r"[\n;]", text_of(form, "row", longest=_LONGEST)) if line.strip()]
    pairs = [re.split(r"[=:]", line, maxsplit=1) for line in lines]
    if not pairs or any(len(pair) != 2 for pair in pairs):  # noqa: PLR2004 - a column and a value
        raise InvalidParameter.saying("row", "write a column and its value on each line: age = 71")
    document: dict[str, Any] = {
        "model": _read_text(form, "model", "name a model that was trained"),
        "row": {name.strip(): to_value(value.strip()) for name, value in pairs},
        "method": text_of(form, "method", longest=_NAME) or "soft-majority",
        "epsilon": _read_privacy(form),
        "screen": read_number(form, "screen"),
    }
    return decode_body({field: value for field, value in document.items() if value is not None}, Predict)


def _find_model(sent: _SentForm, asked: Predict) -> Model:
    """Return the model that a form asks; refuses a row that lacks a column which the model reads."""
    model = sent.curator.model(asked.model)
    if not set(model.reads) <= set(asked.row or ()):
        raise InvalidParameter.saying("row", f"write a line for each column that the model reads: {', '.join(model.reads)}")
    return model


def _predict(sent: _SentForm) -> ToldOutcome:
    asked, curator = _read_predict(sent), sent.curator
    _find_model(sent, asked)
    given: dict[str, Any] = {"epsilon": asked.epsilon, "method": asked.method, "screen": asked.screen}
    found = curator.predict(asked.model, asked.row, key=sent.key, analyst=sent.caller.name, **given)
    one = found[0] if isinstance(found, list) else found
    left = curator.predictions_left(asked.model, epsilon=asked.epsilon)
    paid = _say_cost(one.certificate, repeated=one.repeated)
    title = f"{asked.model} for " + ", ".join(f"{name} = {value}" for name, value in (asked.row or {}).items())
    after = f"{left:,} more predictions like this are left" + ("" if one.says is None else f"; {one.says}")
    return ToldOutcome(title, one.brief, after, paid, one.certificate, truth=_find_truth(sent, asked))


def _find_truth(sent: _SentForm, asked: Predict) -> str | None:
    """Return how many of those with the values of a row meet the model's target, where the population is known."""
    truth, target = sent.dataset.truth, _TARGETS.get(sent.curator, {}).get(asked.model)
    if truth is None or target is None:
        return None
    with suppress(HoldtrueError):  # what was paid for is shown whatever becomes of its truth
        alike = " AND ".join(f"{name} = {value!r}" for name, value in (asked.row or {}).items())
        people = truth(alike)
        if people:
            return f"In truth, {truth(f'{alike} AND ({target})') / people:.3f} of the people with these values: {target}."
    return None


def _price_predict(sent: _SentForm) -> tuple[int, str]:
    asked, curator = _read_predict(sent), sent.curator
    model = _find_model(sent, asked)
    model.read(model.read_points({name: [value] for name, value in (asked.row or {}).items()}))
    offer = offer_of(curator.pipeline, model, epsilon=asked.epsilon, mu=None, method=asked.method)
    return offer.price, "one label" if model.asked.labels else "one number"


def _read_evaluate(sent: _SentForm) -> Evaluate:
    form = sent.fields
    levels = list(read_numbers(form, "at_most"))
    document: dict[str, Any] = {
        "model": text_of(form, "model", longest=_NAME).strip() or None,
        "entry": read_whole(form, "entry"),
        "at_most": levels or None,
        "epsilon": _read_privacy(form),
        "mu": read_number(form, "mu"),
    }
    asked = decode_body({field: value for field, value in document.items() if value is not None}, Evaluate)
    if (asked.model is None) == (asked.entry is None):
        raise InvalidParameter.saying("model", "name a model, or give the entry of a learned rule")
    if asked.entry is not None:
        find_released(sent.curator.ledger, asked.entry, seen_by=sent.caller.seen_by)
    return asked


def _evaluate(sent: _SentForm) -> ToldOutcome:
    asked, curator = _read_evaluate(sent), sent.curator
    judged = asked.model or asked.entry or 0
    given: dict[str, Any] = {"at_most": asked.at_most, "epsilon": asked.epsilon, "mu": asked.mu}
    found = curator.evaluate(judged, key=sent.key, analyst=sent.caller.name, **given)
    paid = "Asked before: free." if found.repeated else f"Cost {found.certificate.cost:.3g}."
    said = f"at most {found.bound:.3f}" if found.bound is not None else "certified" if found.certified else "not certified"
    after = f"{found.brief}; {found.about}" + ("" if found.reason is None else f"; {found.reason}")
    return ToldOutcome(f"Errors of {found.model}", said, after, paid, found.certificate)


def _price_evaluate(sent: _SentForm) -> tuple[int, str]:
    asked, curator = _read_evaluate(sent), sent.curator
    if asked.model is None:
        return curator.plan.cost, "one question"
    given: dict[str, Any] = {"at_most": asked.at_most, "epsilon": asked.epsilon, "mu": asked.mu, "beta": None}
    task = plan_evaluation(curator.pipeline, curator.model(asked.model), **given)
    return task.release().cost, f"{len(task.levels)} levels" if len(task.levels) > 1 else "one level"


def _distill(sent: _SentForm) -> ToldOutcome:
    form, curator = sent.fields, sent.curator
    rows = read_rows(sent.form.find_file("file"))
    document: dict[str, Any] = {
        "model": _read_text(form, "model", "name a model that was trained"),
        "rows": rows,
        "labels": read_whole(form, "labels"),
        "groups": read_whole(form, "groups"),
        "epsilon": _read_privacy(form),
    }
    asked = decode_body({field: value for field, value in document.items() if value is not None}, Distill)
    given: dict[str, Any] = {"labels": asked.labels, "groups": asked.groups, "epsilon": asked.epsilon}
    given |= {"mu": None, "screen": None, "key": sent.key, "analyst": sent.caller.name}
    bought = buy_labels(curator.pipeline, curator.model(asked.model), to_columns(asked.rows), **given)
    labelled = {name: [row[name] for row in rows] for name in rows[0]} | {asked.model: bought.labels}
    number = sum(label is not None for label in bought.labels)
    new = sum(not told.repeated for told in bought.told)
    after = f"of {len(rows):,} public rows have a label of {asked.model}; teach any student with them, at no further cost"
    paid = f"Paid for {new:,} labels from the reserve." if new else "Bought before: free."
    receipt = bought.told[-1].certificate
    return ToldOutcome("Labels for public rows", f"{number:,}", after, paid, receipt, csv=write_csv(labelled))


def _read_watch(sent: _SentForm) -> WatchQuestion:
    threshold, alarms = read_number(sent.fields, "threshold"), read_whole(sent.fields, "alarms")
    if threshold is None or not 0 <= threshold <= 1:
        raise InvalidParameter.saying("threshold", "threshold is a share from 0 to 1, such as 0.1")
    if alarms is not None and not 1 <= alarms <= 1000:  # noqa: PLR2004 - as the verb has it
        raise InvalidParameter.saying("alarms", "alarms is a whole number from 1 to 1,000")
    query = _read_text(sent.fields, "query", "write a question, such as age >= 65")
    sent.curator.pipeline.parse(query)
    return WatchQuestion(query=query, threshold=threshold, alarms=alarms or 1, epsilon=_read_privacy(sent.fields))


def _find_watch(sent: _SentForm, asked: WatchQuestion) -> QueryWatch:
    """Return the watch of these terms, which is one and the same for all forms of a caller."""
    terms: dict[str, Any] = {"threshold": asked.threshold, "alarms": asked.alarms, "epsilon": asked.epsilon}
    return sent.curator.watch(**terms, analyst=sent.caller.name)


def _watch(sent: _SentForm) -> ToldOutcome:
    asked = _read_watch(sent)
    found = _find_watch(sent, asked).ask(asked.query, key=sent.key)
    ends = found.interval or found.sample_interval
    whom = "the population" if found.interval else "these rows"
    alarms = f"{found.alarms_left} alarm{'s' if found.alarms_left != 1 else ''} left"
    paid = "Asked before: free." if found.repeated else "A new run, from the reserve." if found.run_cost else "Free."
    truth = None
    if sent.dataset.truth is not None:
        with suppress(HoldtrueError):
            truth = f"The truth is {sent.dataset.truth(asked.query):.3f}."
    after = f"{ends.low:.3f} to {ends.high:.3f} for {whom}; {alarms}"
    return ToldOutcome(asked.query, found.brief, after, paid, found.certificate, truth=truth)


def _price_distill(sent: _SentForm) -> tuple[int, str]:
    form, pipeline = sent.fields, sent.curator.pipeline
    model = sent.curator.model(_read_text(form, "model", "name a model that was trained"))
    offer = offer_of(pipeline, model, epsilon=_read_privacy(form), mu=None, method="soft-majority")
    groups, labels = read_whole(form, "groups"), read_whole(form, "labels")
    if groups is not None:
        return offer.price, f"one charge for the labels of all {groups:,} groups"
    told = f"{labels:,} labels" if labels else "for each label; say how many, or give groups"
    return offer.price * max(1, labels or 1), told


def _price_watch(sent: _SentForm) -> tuple[int, str]:
    watch = _find_watch(sent, _read_watch(sent))
    told = (
        f"epsilon {float(watch.epsilon):.3g} for each run; a run lasts until its alarm, and further questions in it are free"
    )
    return watch.run_price, told


def _read_marginals(sent: _SentForm) -> MarginalSets:
    """Return the tables that a form asks for: columns by their labels, numbers cut at the points that the card suggests."""
    card = sent.curator.card
    columns: list[str | Cut] = []
    for name in _read_list(sent.fields, "columns"):
        column = card.column(name)
        points = suggest_points(column)
        if not points and column.labels is None and column.type != "boolean":
            message = f"{name} has no public labels, and no bounds to be cut between: leave it out, or ask in Python"
            raise InvalidParameter.saying("columns", message)
        columns.append(Cut(name, points) if points else name)
    sets = text_of(sent.fields, "sets", longest=_NAME) or "pairs"
    return replace(decode_body({"sets": sets, "margins": True}, MarginalSets), columns=tuple(columns) or None)


def _release_marginals(sent: _SentForm) -> ToldOutcome:
    asked = _read_marginals(sent)
    found = sent.curator.marginals(**asdict(asked), key=sent.key, analyst=sent.caller.name)
    if sum(map(len, found)) > _MOST_EXPORTED:
        file = None
    else:
        cells = [(", ".join(table.columns), *each) for table in found for each in _list_cells(table)]
        file = write_csv(
            dict(zip(("table", "cell", "share", "low", "high"), map(list, zip(*cells, strict=True)), strict=True))
        )
    whom = "these rows" if found[0].low is None else "the population"
    after = f"each cell with an interval for {whom}, all at once; what follows from them is told for nothing from now on"
    paid = "Released before: free." if found.repeated else f"Two questions for each of {len(found):,} tables."
    return ToldOutcome("Tables that may leave", found.brief, after, paid, found.certificate, csv=file, file="tables.csv")


def _list_cells(table: Table) -> Iterator[tuple[str, float, float, float]]:
    for name, answer in zip(table.names, table, strict=True):
        ends = answer.interval or answer.sample_interval
        yield name, answer.value, ends.low, ends.high


def _price_marginals(sent: _SentForm) -> dict[str, Any]:
    """Return what the tables of a form would cost that were not released before."""
    try:
        asked = asdict(_read_marginals(sent))
        questions, cost = preview_marginals(sent.curator.pipeline, asked.pop("sets"), **asked)
    except HoldtrueError as error:
        return {"wrong": detail_of(error)}
    plan = sent.curator.plan
    share = amount(cost) / (amount(plan.cap_units) or 1.0)
    priced = {"questions": questions, "share": share, "repeated": not questions, "exact": True}
    priced |= {"left": sent.curator.budget.asks}
    return priced | {"kind": "marginals", "alpha": plan.alpha, "iid": plan.iid}


async def _preview_marginals(request: Request, caller: Visitor, name: str) -> Response:
    sent = await _receive(request, caller, name, "marginals")
    found = await sent.dataset.dispatcher.run_short(_price_marginals, sent)
    return show_page(request, "parts/price.html", {"priced": found})


def _synthesize(sent: _SentForm) -> ToldOutcome:
    rows, seed = read_whole(sent.fields, "rows"), read_whole(sent.fields, "seed")
    if rows is not None and not 1 <= rows <= _MOST_EXPORTED:
        raise InvalidParameter.saying("rows", f"the page makes 1 to {_MOST_EXPORTED:,} rows; holdtrue synthesize makes more")
    columns, curator = _read_list(sent.fields, "columns") or None, sent.curator
    number = min(_MOST_EXPORTED, curator.card.rows) if rows is None else rows
    owner = None if sent.caller.role == "owner" else sent.caller.name
    found = curator.synthesize(columns, rows=number, seed=seed or 0, analyst=owner)
    after = f"of {', '.join(found.columns)}, made from {len(found.tables):,} released tables; intervals stay with the tables"
    file = write_csv(found.to_columns())
    return ToldOutcome("Rows that may leave", f"{len(found):,} rows", after, "Free.", None, csv=file, file="made.csv")


@router.get("/page/datasets/{name}/models", name="models")
async def list_models(request: Request, caller: Visitor, name: str) -> Response:
    """Show every model: what it reads and says, and how many of its predictions the reserve still pays for. Free."""
    demand_role(caller, "owner", "analyst")
    dataset = await find_dataset(request, name)
    found = await dataset.dispatcher.run_long(caller.name, lambda: dataset.curator.models)
    return show_page(request, "parts/model_list.html", {"models": found, "dataset": dataset})


_add_routes("learn", _learn, price=_price_learn)
_add_routes("best-error", _find_best_error, price=None)
_add_routes("evaluate", _evaluate, price=_price_evaluate)
_add_routes("fit", _fit, price=_price_fit)
_add_routes("train", _train, price=None, owner=True)
_add_routes("predict", _predict, price=_price_predict)
_add_routes("distill", _distill, price=_price_distill)
_add_price_route("select", _price_select)
_add_routes("watch", _watch, price=_price_watch)
_add_routes("marginals", _release_marginals, price=None)
_add_routes("synthesize", _synthesize, price=None)
_PRICE = "preview-marginals"
router.add_api_route(
    f"/page/datasets/{{name}}/{_PRICE}", _preview_marginals, methods=["POST"], response_model=None, name=_PRICE
)
