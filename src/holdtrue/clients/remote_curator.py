"""A dataset of a service: the verbs of a curator, asked over HTTP."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, overload
from urllib.parse import urlencode

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from holdtrue.clients.holdouts import RemoteHoldout, RemoteLeaderboard, to_json_list
from holdtrue.clients.transport import Kind, Transport, quote_segment
from holdtrue.codec import plain
from holdtrue.curator.budget import Budget, Preview
from holdtrue.curator.frame import Frame
from holdtrue.curator.history import Line, Page
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number
from holdtrue.hypotheses import read_class
from holdtrue.hypotheses.classes import HypothesisClass
from holdtrue.hypotheses.unions import join_classes
from holdtrue.ledgers import Receipt, Verification
from holdtrue.planning.plans import AnyPlan
from holdtrue.planning.quantiles import QuantilePrice
from holdtrue.queries.cards import Card, Label
from holdtrue.queries.columns import names_of
from holdtrue.queries.features import Feature, parse_feature, read_given_rows
from holdtrue.records import (
    Answer,
    Choice,
    Deduction,
    Evaluation,
    FittedModel,
    Hypothesis,
    Marginals,
    Means,
    Prediction,
    Quantiles,
    Statistic,
    Synthetic,
    Table,
    WatchAnswer,
)
from holdtrue.requests import Basis, By, Cut
from holdtrue.verbs.distilling import copy_student, fit_student
from holdtrue.verbs.fitting import with_features
from holdtrue.verbs.pairs import StatisticRequest
from holdtrue.verbs.predicting import ModelSummary
from holdtrue.verbs.statistic_tasks import StatisticPrice

__all__ = ["Remote"]

_LINES = 1000


class _PublicFacts(Struct):
    card: Card
    plan: AnyPlan


class _Answers(Struct):
    answers: list[Answer]


class _Predictions(Struct):
    predictions: list[Prediction]


class _ModelList(Struct):
    models: list[ModelSummary]


class _BoughtLabels(Struct):
    features: list[str]
    labels: list[Label | None]
    predictions: list[Prediction]


class Remote:
    """One dataset of a service, with a curator's verbs: the same records, the same errors with their fields.

    ``key=`` names a request: sent again, by this process or a later one, it is charged once. Without it, each call takes a
    new key and keeps it for its retries. The service's key says who asks, so there is no ``analyst=``.
    """

    def __init__(self, transport: Transport, *, dataset: str | None = None) -> None:
        self._transport = transport
        self._name = dataset
        self._about: _PublicFacts | None = None

    @property
    def name(self) -> str:
        """Return the dataset's name: as given, or that of the service's only dataset."""
        if self._name is None:
            names = self.datasets
            if len(names) != 1:
                raise InvalidParameter.without_value("dataset", f"named: the service has {', '.join(names) or 'none yet'}")
            (self._name,) = names
        return self._name

    @property
    def datasets(self) -> list[str]:
        """Return the names of all datasets of the service."""
        told = self._transport.read("/v1/datasets")
        return [str(item["name"]) for item in told["datasets"]]

    @property
    def holdouts(self) -> list[str]:
        """Return the names of all holdouts and leaderboards of the service."""
        return [str(item["name"]) for item in self._transport.read("/v1/holdouts")["holdouts"]]

    def dataset(self, name: str) -> "Remote":
        """Return another dataset of the same service, over the same connection."""
        return Remote(self._transport, dataset=name)

    def holdout(self, name: str) -> RemoteHoldout:
        """Return a holdout of the service."""
        return RemoteHoldout(self._transport, name)

    def leaderboard(self, name: str) -> RemoteLeaderboard:
        """Return a leaderboard of the service."""
        return RemoteLeaderboard(self._transport, name)

    @property
    def card(self) -> Card:
        """Return what is public about the rows."""
        return self._public.card

    @property
    def plan(self) -> AnyPlan:
        """Return the plan that the dataset was opened with."""
        return self._public.plan

    @property
    def _public(self) -> _PublicFacts:
        if self._about is None:
            self._about = self._transport.read(self._make_path(), _PublicFacts)
        return self._about

    def _make_path(self, verb: str = "") -> str:
        return f"/v1/datasets/{quote_segment(self.name)}{verb}"

    @overload
    def ask(self, queries: str, *, deduce: Literal["first"] | None = None, key: str | None = None) -> Answer: ...
    @overload
    def ask(
        self, queries: list[str] | tuple[str, ...], *, deduce: Literal["first"] | None = None, key: str | None = None
    ) -> list[Answer]: ...
    @overload
    def ask(
        self, queries: str, *, by: By, keys: Mapping[str, Sequence[Label]] | None = None, key: str | None = None
    ) -> Means: ...
    @overload
    def ask(self, *, values: object, name: str | None = None, key: str | None = None) -> Answer: ...
    def ask(  # noqa: PLR0913 - one request
        self,
        queries: str | list[str] | tuple[str, ...] | None = None,
        *,
        values: object = None,
        name: str | None = None,
        by: By | None = None,
        keys: Mapping[str, Sequence[Label]] | None = None,
        deduce: Literal["first"] | None = None,
        key: str | None = None,
    ) -> Answer | list[Answer] | Means:
        """Answer one question, several at once, or one within each group of ``by``. A repeated question is free.

        With ``deduce="first"`` what follows from earlier answers within alpha is free as well. ``values``, a number from 0
        to 1 for each row, come from the rows, so only the service's owner may give them; ``name`` is the public name by
        which they are known again.
        """
        if (queries is None) == (values is None) or (values is None and name is not None):
            raise InvalidParameter.saying("queries", "give either queries or values; name= goes only with values")
        if values is not None and (by is not None or keys is not None or deduce is not None):
            raise InvalidParameter.saying("values", "give values alone, or with their name=")
        if values is not None:
            return self._send_request("/ask", {"values": to_json_list("values", values), "name": name}, Answer, key)
        first: dict[str, object] = {} if deduce is None else {"deduce": deduce}
        if by is not None or keys is not None:
            if deduce is not None:
                raise InvalidParameter.saying("deduce", "give deduce='first' with questions in text only")
            return self._send_request("/ask", {"query": queries} | _write_groups(by, keys), Means, key)
        if isinstance(queries, str):
            return self._transport.send(self._make_path("/ask"), {"query": queries} | first, Answer, key=key)
        texts = list(queries or ())
        if not texts:
            return []
        return self._transport.send(self._make_path("/ask"), {"queries": texts} | first, _Answers, key=key).answers

    def table(
        self,
        *columns: str | Cut,
        where: str | None = None,
        keys: Mapping[str, Sequence[Label]] | None = None,
        margins: bool = False,
        ranges: bool = False,
        key: str | None = None,
    ) -> Table:
        """Return the shares of disjoint cells of the rows, all at once: columns with public labels, or ``ht.cut(...)``."""
        asked = _write_groups(columns, keys)
        told = {"columns": asked["by"], "where": where, "keys": asked["keys"], "margins": margins, "ranges": ranges}
        return self._send_request("/table", told, Table, key)

    def marginals(  # noqa: PLR0913 - one request
        self,
        sets: str | Sequence[Sequence[str]],
        *,
        columns: Sequence[str | Cut] | None = None,
        keys: Mapping[str, Sequence[Label]] | None = None,
        margins: bool = False,
        questions: int = 2,
        workload: Sequence[Mapping[str, Label]] | None = None,
        key: str | None = None,
    ) -> Marginals:
        """Return the tables of all "pairs" or "triples" of columns, or of those in ``sets``, at two questions each.

        ``workload`` are questions to be declared before the draw, labels by column.
        """
        asked = _write_groups(columns, keys)
        named = sets if isinstance(sets, str) else [list(each) for each in sets]
        told = {"sets": named, "columns": asked["by"], "keys": asked["keys"], "margins": margins, "questions": questions}
        told |= {} if workload is None else {"workload": [dict(each) for each in workload]}
        return self._send_request("/marginals", told, Marginals, key)

    def synthesize(self, columns: Sequence[str] | None = None, *, rows: int | None = None, seed: int = 0) -> Synthetic:
        """Return rows made from the tables that you paid for, or as the owner from all. Free."""
        told = {"columns": None if columns is None else list(columns), "rows": rows, "seed": seed}
        return self._send_request("/synthesize", told, Synthetic, None, spends=False)

    def mean(  # noqa: PLR0913 - one request
        self,
        column: str,
        *,
        low: Number | None = None,
        high: Number | None = None,
        where: str | None = None,
        by: By | None = None,
        keys: Mapping[str, Sequence[Label]] | None = None,
        key: str | None = None,
    ) -> Means:
        """Return the mean of a column of numbers in its own units, counted within public bounds, in each group of ``by``."""
        asked = {"column": column, "where": where} | _write_clamp(low, high)
        return self._send_request("/mean", asked | _write_groups(by, keys), Means, key)

    def sum(  # noqa: PLR0913 - one request
        self,
        column: str,
        *,
        low: Number | None = None,
        high: Number | None = None,
        where: str | None = None,
        by: By | None = None,
        keys: Mapping[str, Sequence[Label]] | None = None,
        population: int | None = None,
        key: str | None = None,
    ) -> Means:
        """Return the sum of a column of numbers over these rows, or over a population of this size; see :meth:`mean`."""
        asked = {"column": column, "where": where, "population": population} | _write_clamp(low, high)
        return self._send_request("/sum", asked | _write_groups(by, keys), Means, key)

    def quantile(  # noqa: PLR0913 - one request
        self,
        column: str,
        levels: Number | Sequence[Number],
        *,
        low: Number,
        high: Number,
        step: Number = 1,
        where: str | None = None,
        method: str | None = None,
        epsilon: Number | None = None,
        key: str | None = None,
    ) -> Quantiles:
        """Return where the values of a column reach one level or several, each with an interval for the population."""
        given: dict[str, Any] = {"low": low, "high": high, "step": step, "epsilon": epsilon}
        asked = _write_quantile(column, levels, where=where, method=method, **given)
        return self._send_request("/quantile", asked, Quantiles, key)

    def median(  # noqa: PLR0913 - one request
        self,
        column: str,
        *,
        low: Number,
        high: Number,
        step: Number = 1,
        where: str | None = None,
        method: str | None = None,
        epsilon: Number | None = None,
        key: str | None = None,
    ) -> Quantiles:
        """Return the point that half of the values of a column are at or below; see :meth:`quantile`."""
        given: dict[str, Any] = {
            "low": low,
            "high": high,
            "step": step,
            "where": where,
            "method": method,
            "epsilon": epsilon,
        }
        return self.quantile(column, 0.5, key=key, **given)

    def preview_quantile(  # noqa: PLR0913 - one request
        self,
        column: str,
        levels: Number | Sequence[Number],
        *,
        low: Number,
        high: Number,
        step: Number = 1,
        where: str | None = None,
        method: str | None = None,
        epsilon: Number | None = None,
    ) -> QuantilePrice:
        """Return the most that quantiles can cost. Free."""
        given: dict[str, Any] = {"low": low, "high": high, "step": step, "epsilon": epsilon}
        asked = _write_quantile(column, levels, where=where, method=method, **given)
        return self._send_request("/preview-quantile", asked, QuantilePrice, None, spends=False)

    def variance(self, column: str, *, low: Number, high: Number, key: str | None = None) -> Statistic:
        """Return the variance of a column of numbers, counted within public bounds."""
        return self._send_request("/variance", {"column": column} | _write_clamp(low, high), Statistic, key)

    def covariance(
        self, first: str, second: str, *, bounds: Mapping[str, tuple[Number, Number]] | None = None, key: str | None = None
    ) -> Statistic:
        """Return the covariance of two columns of numbers, each counted within public bounds or those of the card."""
        asked = {"first": first, "second": second, "bounds": None if bounds is None else _to_json_bounds(bounds)}
        return self._send_request("/covariance", asked, Statistic, key)

    def correlation(
        self, first: str, second: str, *, bounds: Mapping[str, tuple[Number, Number]] | None = None, key: str | None = None
    ) -> Statistic:
        """Return the correlation of two columns of numbers, each counted within public bounds or those of the card."""
        asked = {"first": first, "second": second, "bounds": None if bounds is None else _to_json_bounds(bounds)}
        return self._send_request("/correlation", asked, Statistic, key)

    def r_squared(self, prediction: str, target: str, *, low: Number, high: Number, key: str | None = None) -> Statistic:
        """Return the share of the target's variance that a column of predictions explains."""
        asked = {"prediction": prediction, "target": target} | _write_clamp(low, high)
        return self._send_request("/r-squared", asked, Statistic, key)

    def ratio(  # noqa: PLR0913 - one request, and its name
        self,
        numerator: str,
        denominator: str,
        *,
        cap: int,
        low: Number = 0,
        high: Number = 1,
        key: str | None = None,
    ) -> Statistic:
        """Return a ratio of sums over the rows of units, in which a unit counts at most ``cap`` times."""
        asked = {"numerator": numerator, "denominator": denominator, "cap": cap} | _write_clamp(low, high)
        return self._send_request("/ratio", asked, Statistic, key)

    def gini(self, column: str, *, low: Number, high: Number, key: str | None = None) -> Statistic:
        """Return the Gini coefficient of a column of numbers from 0 up, counted within public bounds."""
        return self._send_request("/gini", {"column": column} | _write_clamp(low, high), Statistic, key)

    def auc(
        self, score: str, label: str, *, low: Number | None = None, high: Number | None = None, key: str | None = None
    ) -> Statistic:
        """Return how often a score orders two rows of unlike labels rightly."""
        ends = {"low": _to_json_number("low", low), "high": _to_json_number("high", high)}
        return self._send_request("/auc", {"score": score, "label": label} | ends, Statistic, key)

    def pairs(self, kernel: str, *, low: Number = 0, high: Number = 1, key: str | None = None) -> Statistic:
        """Return the mean of an expression in two rows, such as ``abs(a.income - b.income)``."""
        return self._send_request("/pairs", {"kernel": kernel} | _write_clamp(low, high), Statistic, key)

    def best_error(
        self,
        hypotheses: HypothesisClass | Sequence[HypothesisClass],
        *,
        target: str,
        features: Sequence[str] | None = None,
        key: str | None = None,
    ) -> Statistic:
        """Return how seldom the best hypothesis of a finite class errs on samples of this size."""
        asked = {"hypotheses": plain(join_classes(hypotheses, None).document), "target": target}
        asked |= {"features": None if features is None else list(features)}
        return self._send_request("/best-error", asked, Statistic, key)

    def preview_statistic(self, request: StatisticRequest) -> StatisticPrice:
        """Return what a statistic would cost, and how wide it would be. Free."""
        asked = plain(request)
        verb = asked.pop("verb").replace("_", "-")
        return self._send_request(f"/preview-{verb}", asked, StatisticPrice, None, spends=False)

    def frame(self) -> Frame:
        """Return the rows as a frame that reads like pandas and writes requests, as :meth:`Curator.frame` does."""
        return Frame(self)

    def select(  # noqa: PLR0913 - the numbers of one choice
        self,
        candidates: Mapping[str, str] | Mapping[str, int] | Sequence[str] | None = None,
        *,
        scores: Mapping[str, Number] | Sequence[Number] | None = None,
        sensitivity: Number | None = None,
        weights: Sequence[Number] | None = None,
        top: int = 1,
        line: Sequence[Number] | None = None,
        cuts: Sequence[Number] = (),
        epsilon: Number | None = None,
        name: str | None = None,
        key: str | None = None,
    ) -> Choice:
        """Pick a candidate that about as many rows satisfy as the best one, or the ``top`` best.

        Candidates are questions. Scores come from the rows, so only the service's owner may give them; ``name`` is
        the public name by which a repeat is recognised. With a ``line`` a point of it is chosen, by scores between ``cuts``.
        """
        asked: dict[str, Any] = {"candidates": _write_listing(candidates), "scores": _write_listing(scores)}
        asked |= {"weights": _write_listing(weights), "epsilon": _to_json_number("epsilon", epsilon), "name": name}
        asked |= {"top": None if top == 1 else top, "sensitivity": sensitivity}
        asked |= {
            "line": None if line is None else [float(end) for end in line],
            "cuts": [float(cut) for cut in cuts] or None,
        }
        return self._send_request("/select", asked, Choice, key)

    def watch(
        self, *, threshold: Number, alarms: int = 1, epsilon: Number | None = None, name: str | None = None
    ) -> "RemoteWatch":
        """Return a watch: its ``ask(query)`` says whether a share of the rows is above a threshold, until it fires."""
        terms = {"threshold": _to_json_number("threshold", threshold), "alarms": alarms, "name": name}
        terms |= {"epsilon": _to_json_number("epsilon", epsilon)}

        def send(query: str, key: str | None) -> WatchAnswer:
            return self._send_request("/watch", {"query": query} | terms, WatchAnswer, key)

        return RemoteWatch(send)

    def learn(  # noqa: PLR0913 - the numbers of one pick
        self,
        hypotheses: HypothesisClass | Sequence[HypothesisClass],
        *,
        target: str,
        features: Sequence[str] | None = None,
        epsilon: Number | None = None,
        alpha: Number | None = None,
        beta: Number | None = None,
        weights: Sequence[Number] | None = None,
        anyway: bool = False,
        assuming: Literal["realizable"] | None = None,
        check: bool = False,
        row_weights: Sequence[int] | None = None,
        key: str | None = None,
    ) -> Hypothesis:
        """Pick a hypothesis of a finite class that errs about as rarely as the best; it predicts locally, for free."""
        given = {"epsilon": epsilon, "alpha": alpha, "beta": beta}
        numbers = {each: _to_json_number(each, value) for each, value in given.items()}
        asked = {
            "hypotheses": plain(join_classes(hypotheses, weights).document),
            "target": target,
            "features": None if features is None else list(features),
            "anyway": anyway or None,
            "assuming": assuming,
            "check": check or None,
            "row_weights": None if row_weights is None else to_json_list("row_weights", row_weights),
        }
        return _with_class(self._send_request("/learn", asked | numbers, Hypothesis, key), self.card)

    def fit(  # noqa: PLR0913 - the public facts of one model
        self,
        name: str,
        kind: str,
        *,
        target: str,
        features: Sequence[str] | None = None,
        bounds: Mapping[str, tuple[Number, Number]] | None = None,
        labels: Sequence[Any] | None = None,
        mu: Number | None = None,
        epsilon: Number | None = None,
        release: Literal["once", "each"] | None = None,
        method: Literal["minimiser", "descent"] = "minimiser",
        basis: Basis | None = None,
        radius: Number = 1,
        strength: Number | None = None,
        replace: bool = False,
        key: str | None = None,
    ) -> FittedModel | dict[str, Any]:
        """Fit a linear model that one row changes very little; its published weights predict locally, for free.

        With ``release="each"``, for the owner, the service keeps the model, and what is public of it is returned; each
        prediction (:meth:`predict`) is charged.
        """
        given = {"mu": mu, "epsilon": epsilon, "radius": radius, "strength": strength}
        asked: dict[str, Any] = {each: _to_json_number(each, value) for each, value in given.items()}
        asked |= {"name": name, "kind": kind, "target": target, "features": None if features is None else list(features)}
        asked |= {
            "labels": None if labels is None else list(labels),
            "bounds": None if bounds is None else _to_json_bounds(bounds),
        }
        asked |= {"release": release, "method": method, "basis": None if basis is None else plain(basis)}
        asked |= {"replace": True} if replace else {}
        if release == "each" or kind == "thresholds":
            return self._send_request("/fit", asked, dict[str, Any], key)
        return with_features(self._send_request("/fit", asked, FittedModel, key), self.card)

    def train(  # noqa: PLR0913 - the public facts of one model
        self,
        name: str,
        estimator: str | None = None,
        *,
        target: str,
        parameters: Mapping[str, Any] | None = None,
        features: Sequence[str] | None = None,
        parts: int = 200,
        labels: Sequence[Any] | None = None,
        bounds: Mapping[str, tuple[Number, Number]] | None = None,
        key: str | None = None,
        order: Literal["fixed"] | None = None,
        held_out: Number | None = None,
        hypotheses: HypothesisClass | Sequence[HypothesisClass] | None = None,
        assuming: Literal["realizable"] | None = None,
        replace: bool = False,
    ) -> dict[str, Any]:
        """Train a model on disjoint parts of the rows at the service; owner only. Releases nothing.

        ``estimator`` names one that the service knows, with ``parameters``: code is never sent. ``key`` is the column of
        public keys that assigns rows to parts, and ``order`` declares that no value decides their order, as in
        :meth:`Curator.train <holdtrue.Curator.train>`; neither names the request. ``hypotheses`` are a class whose best on
        each part votes, in the place of an estimator.
        """
        if estimator is not None and not isinstance(estimator, str):
            raise InvalidParameter("estimator", type(estimator).__name__, "the name of an estimator that the service knows")
        learner = None if estimator is None else {"kind": estimator}
        asked = {
            "name": name,
            "estimator": learner if parameters is None else (learner or {}) | {"parameters": dict(parameters)},
            "hypotheses": None if hypotheses is None else plain(join_classes(hypotheses, None).document),
            "assuming": assuming,
            "target": target,
            "features": None if features is None else list(features),
            "parts": parts,
            "labels": None if labels is None else to_json_list("labels", labels),
            "bounds": None if bounds is None else _to_json_bounds(bounds),
            "key": key,
            "order": order,
            "held_out": _to_json_number("held_out", held_out),
            "replace": replace,
        }
        return self._send_request("/train", asked, dict[str, Any], None, spends=False)

    def predict(  # noqa: PLR0913 - one request, and its key
        self,
        name: str,
        rows: object,
        *,
        epsilon: Number | None = None,
        mu: Number | None = None,
        method: Literal["soft-majority", "agnostic", "noisy-max"] = "soft-majority",
        screen: Number | None = None,
        key: str | None = None,
    ) -> Prediction | list[Prediction]:
        """Return a private prediction for one record, or a list of them for a table."""
        one = isinstance(rows, Mapping) and all(np.ndim(value) == 0 for value in rows.values())
        points = _list_records(rows)
        given = {"epsilon": epsilon, "mu": mu, "screen": screen}
        asked = {"model": name, "method": method} | {each: _to_json_number(each, value) for each, value in given.items()}
        if not points:
            return []
        if one:
            return self._send_request("/predict", asked | {"row": points[0]}, Prediction, key)
        return self._send_request("/predict", asked | {"rows": points}, _Predictions, key).predictions

    def evaluate(  # noqa: PLR0913 - one request, and its key
        self,
        model: str | Hypothesis | FittedModel | int,
        *,
        at_most: Number | Sequence[Number] | None = None,
        epsilon: Number | None = None,
        mu: Number | None = None,
        beta: Number | None = None,
        key: str | None = None,
    ) -> Evaluation:
        """Return whether a model's predictions err at most as often as asked, or how often a released rule or model errs.

        A rule or model is known by its entry in the ledger. A student is a process's own, and judged where the rows are.
        """
        given = {"epsilon": epsilon, "mu": mu, "beta": beta}
        entry = model.certificate.entry if isinstance(model, (Hypothesis, FittedModel)) else model
        asked: dict[str, Any] = {"model": model} if isinstance(model, str) else {"entry": entry}
        asked |= {"at_most": None if at_most is None else _to_json_levels(at_most)}
        asked |= {each: _to_json_number(each, value) for each, value in given.items()}
        return self._send_request("/evaluate", asked, Evaluation, key)

    def predictions_left(self, name: str, *, epsilon: Number | None = None, mu: Number | None = None) -> int:
        """Return how many predictions of a model the budget still pays for. Free."""
        given = {"epsilon": _to_json_number("epsilon", epsilon), "mu": _to_json_number("mu", mu)}
        asked = urlencode({"model": name} | {each: value for each, value in given.items() if value is not None})
        return self._transport.read(self._make_path(f"/predictions-left?{asked}"), dict[str, int])["predictions_left"]

    @property
    def models(self) -> list[ModelSummary]:
        """Return what every model reads, says and costs, in the order of names. Free, and public."""
        return self._transport.read(self._make_path("/models"), _ModelList).models

    def distill(  # noqa: PLR0913 - what is bought, and who is taught
        self,
        name: str,
        public_rows: object,
        student: Any,  # noqa: ANN401 - any scikit-learn estimator
        *,
        labels: int | None = None,
        groups: int | None = None,
        epsilon: Number | None = None,
        mu: Number | None = None,
        screen: Number | None = None,
        key: str | None = None,
    ) -> "RemoteStudent":
        """Spend budget on labels for public rows and teach a student here, which predicts at no further cost.

        The rows go to the service, their labels come back; the student never leaves this process. See
        :meth:`Curator.distill <holdtrue.Curator.distill>`.
        """
        learner = copy_student(student)  # refused before anything is bought
        numbers = {"epsilon": epsilon, "mu": mu, "screen": screen}
        asked: dict[str, Any] = {"model": name, "rows": _list_records(public_rows), "labels": labels, "groups": groups}
        asked |= {each: _to_json_number(each, value) for each, value in numbers.items()}
        bought = self._send_request("/distill", asked, _BoughtLabels, key)
        features = tuple(parse_feature(each, self.card) for each in bought.features)
        kept = [place for place, label in enumerate(bought.labels) if label is not None]
        points = read_given_rows(public_rows, features, self.card)[kept]
        taught = fit_student(learner, points, [bought.labels[place] for place in kept])
        return RemoteStudent(taught, partial(read_given_rows, features=features, card=self.card), len(bought.predictions))

    def grant(self, analyst: str, *, asks: int | None) -> None:
        """Limit an analyst to the budget of ``asks`` questions, within the cap; None lifts the limit. Owner only."""
        told = {"analyst": analyst, "asks": asks}
        self._transport.send(self._make_path("/grant"), told, dict[str, Any], key=None, spends=False)

    def preview(self, query: str) -> Preview:
        """Return what a question would cost and how wide its answer would be. Free."""
        return self._send_request("/preview", {"query": query}, Preview, None, spends=False)

    def deduce(self, query: str) -> Deduction:
        """Return the interval that follows from the answers that you paid for, or as the owner from all. Free."""
        return self._send_request("/deduce", {"query": query}, Deduction, None, spends=False)

    @property
    def budget(self) -> Budget:
        """Return what is spent and what is left, over all analysts."""
        return self._transport.read(self._make_path("/budget"), Budget)

    @property
    def history(self) -> list[Line]:
        """Return the charges that this key may see and their responses, oldest first; read page by page."""
        place = f"{self._make_path('/history')}?limit={_LINES}"
        pages = [self._transport.read(place, Page)]
        while pages[-1].before is not None:
            pages.append(self._transport.read(f"{place}&before={pages[-1].before}", Page))
        return [line for page in reversed(pages) for line in page.lines]

    def report(self, path: str | PathLike[str]) -> None:
        """Write all of the ledger as one self-contained HTML page."""
        page = self._transport.read_text(self._make_path("/report"))
        try:
            Path(path).write_text(page, encoding="utf-8")
        except OSError as error:
            raise InvalidParameter("path", str(path), f"a file that can be written ({error.strerror})") from None

    def ledger(self, path: str | PathLike[str]) -> None:
        """Write a copy of the ledger to a file, for an auditor, who checks it with ``holdtrue.verify`` offline."""
        content = self._transport.read_bytes(self._make_path("/ledger"))
        try:
            Path(path).write_bytes(content)
        except OSError as error:
            raise InvalidParameter("path", str(path), f"a file that can be written ({error.strerror})") from None

    def verify(self, *, receipts: Iterable[Receipt] = ()) -> Verification:
        """Have the service recompute its ledger and compare it with receipts; IntegrityError if it is damaged."""
        kept = [{"entry": int(entry), "digest": str(digest)} for entry, digest in receipts]
        return self._send_request("/verify", {"receipts": kept}, Verification, None, spends=False)

    def close(self) -> None:
        """Close the connection, also for everything else that uses it."""
        self._transport.close()

    def _send_request(
        self, verb: str, document: Mapping[str, Any], kind: type[Kind], key: str | None, *, spends: bool = True
    ) -> Kind:
        told = {name: value for name, value in document.items() if value is not None}
        return self._transport.send(self._make_path(verb), told, kind, key=key, spends=spends)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Remote {self._name or 'service'} at {self._transport.url}>"


class RemoteWatch:
    """A watch of a service: a run belongs to the service's process, and one that restarts begins, and charges, a new one."""

    def __init__(self, send: Callable[[str, str | None], WatchAnswer]) -> None:
        self._send = send

    def ask(self, query: str, *, key: str | None = None) -> WatchAnswer:
        """Return whether the share of rows that a question counts is above the threshold, with noise."""
        return self._send(query, key)


class RemoteStudent:
    """An estimator taught here with labels that the budget bought: its predictions cost nothing more (E17)."""

    def __init__(self, estimator: Any, read: Callable[[object], npt.NDArray[Any]], labels: int) -> None:  # noqa: ANN401 - any
        self.estimator = estimator
        self.labels = labels
        self._read = read

    def predict(self, rows: object) -> npt.NDArray[Any]:
        """Return the student's labels for rows."""
        return np.asarray(self.estimator.predict(np.nan_to_num(self._read(rows))))

    def __repr__(self) -> str:
        return f"<RemoteStudent taught with {self.labels:,} labels>"


def _write_groups(by: By | None, keys: Mapping[str, Sequence[Label]] | None) -> dict[str, Any]:
    """Return columns of groups and their labels as JSON has them."""
    given = [] if by is None else [by] if isinstance(by, (str, Cut)) else list(by)
    columns = None if by is None else [plain(each) if isinstance(each, Cut) else each for each in given]
    return {"by": columns, "keys": None if keys is None else {name: list(each) for name, each in keys.items()}}


def _write_clamp(low: Number | None, high: Number | None) -> dict[str, Any]:
    return {"low": _to_json_number("low", low), "high": _to_json_number("high", high)}


def _with_class(found: Hypothesis, card: Card) -> Hypothesis:
    """Return a hypothesis that predicts: its class is read from its document, its features from the public card."""
    if found.document is None:
        return found
    kind = read_class(found.document).over(found.columns)
    features = tuple(parse_feature(name, card) for name in found.columns)
    return found.with_class(partial(_predict_labels, kind=kind, features=features, card=card, index=found.index))


def _predict_labels(
    rows: object, *, kind: HypothesisClass, features: tuple[Feature, ...], card: Card, index: int
) -> npt.NDArray[np.bool_]:
    read = read_given_rows(rows, features, card) if names_of(rows) is not None else rows
    return kind.evaluate(read, index)


def _to_json_bounds(bounds: Mapping[str, tuple[Number, Number]]) -> dict[str, list[float | None]]:
    return {
        column: [_to_json_number("bounds", low), _to_json_number("bounds", high)] for column, (low, high) in bounds.items()
    }


def _write_listing(given: Mapping[str, Any] | Sequence[Any] | None) -> dict[str, Any] | list[Any] | None:
    """Return what stands by name or in a list as JSON has it; an array as the list of its numbers."""
    if given is None or isinstance(given, Mapping):
        return None if given is None else dict(given)
    numbers: list[Any] = given.tolist() if hasattr(given, "tolist") else list(given)
    return numbers


def _to_json_number(name: str, value: Number | None) -> float | None:
    if value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter(name, type(value).__name__, "a number") from None


def _write_quantile(
    column: str, levels: Number | Sequence[Number], *, where: str | None, method: str | None, **numbers: Number | None
) -> dict[str, Any]:
    """Return a request for quantiles as JSON."""
    written = {name: _to_json_number(name, value) for name, value in numbers.items()}
    return {"column": column, "levels": _to_json_levels(levels), "where": where, "method": method} | written


def _to_json_levels(levels: Number | Sequence[Number]) -> float | list[float | None] | None:
    if isinstance(levels, (list, tuple, np.ndarray)):
        return [_to_json_number("levels", level) for level in levels]
    return _to_json_number("levels", levels)  # type: ignore[arg-type]  # whatever it is, it must be a number


def _list_records(rows: object) -> list[dict[str, Any]]:
    """Return rows as records, from a record, a mapping of columns or a data frame."""
    names = names_of(rows)
    if not names:
        raise InvalidParameter("rows", type(rows).__name__, "a record, a mapping from names to columns, or a data frame")
    columns = {name: to_json_list(name, np.atleast_1d(np.asarray(rows[name]))) for name in names}  # type: ignore[index]  # it has columns
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1:
        raise InvalidParameter("rows", sorted(names), "columns of equal length")
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
