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

from holdtrue.clients.holdouts import RemoteHoldout, RemoteLeaderboard, read_pages, to_json_list, to_optional_list
from holdtrue.clients.transport import Kind, Transport, quote_segment
from holdtrue.codec import plain
from holdtrue.curator.budget import Budget, Preview
from holdtrue.curator.frame import Frame
from holdtrue.curator.history import Line, digest_released
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
from holdtrue.queries.dates import Point, write_point
from holdtrue.queries.features import Feature, parse_feature, read_given_rows
from holdtrue.records import (
    Answer,
    Choice,
    Deduction,
    Evaluation,
    FittedModel,
    Hypothesis,
    Listing,
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
from holdtrue.verbs.tables import make_bins

__all__ = ["Remote"]


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
        self,
        queries: str,
        *,
        by: By,
        keys: Mapping[str, Sequence[Label]] | None = None,
        questions: int | None = None,
        key: str | None = None,
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
        questions: int | None = None,
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
        grouped = by is not None or keys is not None or questions is not None
        if values is not None and (grouped or deduce is not None):
            raise InvalidParameter.saying("values", "give values alone, or with their name=")
        if values is not None:
            return self._send_request("/ask", {"values": to_json_list("values", values), "name": name}, Answer, key)
        first: dict[str, object] = {} if deduce is None else {"deduce": deduce}
        if grouped:
            if deduce is not None:
                raise InvalidParameter.saying("deduce", "give deduce='first' with questions in text only")
            asked = {"query": queries, "by": _list_groups(by), "keys": keys, "questions": questions}
            return self._send_request("/ask", asked, Means, key)
        if isinstance(queries, str):
            return self._transport.send(self._make_path("/ask"), {"query": queries} | first, Answer, key=key)
        texts = list(queries or ())
        if not texts:
            return []
        return self._transport.send(self._make_path("/ask"), {"queries": texts} | first, _Answers, key=key).answers

    def table(  # noqa: PLR0913 - one request
        self,
        *columns: str | Cut,
        where: str | None = None,
        keys: Mapping[str, Sequence[Label]] | None = None,
        margins: bool = False,
        ranges: bool = False,
        rollups: Sequence[Sequence[Label]] = (),
        questions: int | None = None,
        key: str | None = None,
    ) -> Table:
        """Return the shares of disjoint cells of the rows, all at once: columns with public labels, or ``ht.cut(...)``."""
        asked = {"columns": columns, "where": where, "keys": keys, "margins": margins, "ranges": ranges}
        return self._send_request("/table", asked | {"rollups": rollups, "questions": questions}, Table, key)

    def histogram(  # noqa: PLR0913 - one request
        self,
        column: str,
        *,
        low: Point,
        high: Point,
        bins: int | str = 20,
        where: str | None = None,
        key: str | None = None,
    ) -> Table:
        """Return the share of the rows in each of ``bins`` equal bins between two public ends; see :meth:`table`."""
        return self.table(make_bins(column, low=low, high=high, bins=bins, plan=self.plan), where=where, key=key)

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
        asked = {"sets": sets, "columns": columns, "keys": keys, "margins": margins, "questions": questions}
        return self._send_request("/marginals", asked | {"workload": workload}, Marginals, key)

    def synthesize(self, columns: Sequence[str] | None = None, *, rows: int | None = None, seed: int = 0) -> Synthetic:
        """Return rows made from the tables that you paid for, or as the owner from all. Free."""
        asked = {"columns": columns, "rows": rows, "seed": seed}
        return self._send_request("/synthesize", asked, Synthetic, None, spends=False)

    def mean(  # noqa: PLR0913 - one request
        self,
        column: str,
        *,
        low: Number | None = None,
        high: Number | None = None,
        where: str | None = None,
        by: By | None = None,
        keys: Mapping[str, Sequence[Label]] | None = None,
        questions: int | None = None,
        key: str | None = None,
    ) -> Means:
        """Return the mean of a column of numbers in its own units, counted within public bounds, in each group of ``by``."""
        asked = {"column": column, "low": low, "high": high, "where": where, "by": _list_groups(by), "keys": keys}
        return self._send_request("/mean", asked | {"questions": questions}, Means, key)

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
        questions: int | None = None,
        key: str | None = None,
    ) -> Means:
        """Return the sum of a column of numbers over these rows, or over a population of this size; see :meth:`mean`."""
        asked = {"column": column, "low": low, "high": high, "where": where, "by": _list_groups(by), "keys": keys}
        return self._send_request("/sum", asked | {"population": population, "questions": questions}, Means, key)

    def quantile(  # noqa: PLR0913 - one request
        self,
        column: str,
        levels: Number | Sequence[Number],
        *,
        low: Point,
        high: Point,
        step: Number = 1,
        where: str | None = None,
        method: str | None = None,
        epsilon: Number | None = None,
        key: str | None = None,
    ) -> Quantiles:
        """Return where the values of a column reach one level or several, each with an interval for the population."""
        asked = {"column": column, "levels": levels, "low": low, "high": high, "step": step, "where": where}
        return self._send_request("/quantile", asked | {"method": method, "epsilon": epsilon}, Quantiles, key)

    def median(  # noqa: PLR0913 - one request
        self,
        column: str,
        *,
        low: Point,
        high: Point,
        step: Number = 1,
        where: str | None = None,
        method: str | None = None,
        epsilon: Number | None = None,
        key: str | None = None,
    ) -> Quantiles:
        """Return the point that half of the values of a column are at or below; see :meth:`quantile`."""
        given: dict[str, Any] = {"low": low, "high": high, "step": step, "where": where, "method": method, "key": key}
        return self.quantile(column, 0.5, epsilon=epsilon, **given)

    def preview_quantile(  # noqa: PLR0913 - one request
        self,
        column: str,
        levels: Number | Sequence[Number],
        *,
        low: Point,
        high: Point,
        step: Number = 1,
        where: str | None = None,
        method: str | None = None,
        epsilon: Number | None = None,
    ) -> QuantilePrice:
        """Return the most that quantiles can cost. Free."""
        asked = {"column": column, "levels": levels, "low": low, "high": high, "step": step, "where": where}
        asked |= {"method": method, "epsilon": epsilon}
        return self._send_request("/preview-quantile", asked, QuantilePrice, None, spends=False)

    def variance(self, column: str, *, low: Number, high: Number, key: str | None = None) -> Statistic:
        """Return the variance of a column of numbers, counted within public bounds."""
        return self._send_request("/variance", {"column": column, "low": low, "high": high}, Statistic, key)

    def covariance(
        self, first: str, second: str, *, bounds: Mapping[str, tuple[Number, Number]] | None = None, key: str | None = None
    ) -> Statistic:
        """Return the covariance of two columns of numbers, each counted within public bounds or those of the card."""
        return self._send_request("/covariance", {"first": first, "second": second, "bounds": bounds}, Statistic, key)

    def correlation(
        self, first: str, second: str, *, bounds: Mapping[str, tuple[Number, Number]] | None = None, key: str | None = None
    ) -> Statistic:
        """Return the correlation of two columns of numbers, each counted within public bounds or those of the card."""
        return self._send_request("/correlation", {"first": first, "second": second, "bounds": bounds}, Statistic, key)

    def r_squared(self, prediction: str, target: str, *, low: Number, high: Number, key: str | None = None) -> Statistic:
        """Return the share of the target's variance that a column of predictions explains."""
        asked = {"prediction": prediction, "target": target, "low": low, "high": high}
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
        asked = {"numerator": numerator, "denominator": denominator, "cap": cap, "low": low, "high": high}
        return self._send_request("/ratio", asked, Statistic, key)

    def gini(self, column: str, *, low: Number, high: Number, key: str | None = None) -> Statistic:
        """Return the Gini coefficient of a column of numbers from 0 up, counted within public bounds."""
        return self._send_request("/gini", {"column": column, "low": low, "high": high}, Statistic, key)

    def auc(
        self, score: str, label: str, *, low: Number | None = None, high: Number | None = None, key: str | None = None
    ) -> Statistic:
        """Return how often a score orders two rows of unlike labels rightly."""
        return self._send_request("/auc", {"score": score, "label": label, "low": low, "high": high}, Statistic, key)

    def pairs(self, kernel: str, *, low: Number = 0, high: Number = 1, key: str | None = None) -> Statistic:
        """Return the mean of an expression in two rows, such as ``abs(a.income - b.income)``."""
        return self._send_request("/pairs", {"kernel": kernel, "low": low, "high": high}, Statistic, key)

    def best_error(
        self,
        hypotheses: HypothesisClass | Sequence[HypothesisClass],
        *,
        target: str,
        features: Sequence[str] | None = None,
        key: str | None = None,
    ) -> Statistic:
        """Return how seldom the best hypothesis of a finite class errs on samples of this size."""
        asked = {"hypotheses": join_classes(hypotheses, None).document, "target": target, "features": features}
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
        asked = {"candidates": candidates, "line": line, "cuts": tuple(cuts) or None, "epsilon": epsilon, "name": name}
        exact = {"scores": scores, "sensitivity": sensitivity, "weights": weights}
        asked |= {"top": None if top == 1 else top} | {each: _write_field(each, value, str) for each, value in exact.items()}
        return self._send_request("/select", asked, Choice, key)

    def watch(
        self, *, threshold: Number, alarms: int = 1, epsilon: Number | None = None, name: str | None = None
    ) -> "RemoteWatch":
        """Return a watch: its ``ask(query)`` says whether a share of the rows is above a threshold, until it fires."""
        terms = {"threshold": threshold, "alarms": alarms, "epsilon": epsilon, "name": name}

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
        asked: dict[str, Any] = {
            "hypotheses": join_classes(hypotheses, weights).document,
            "target": target,
            "features": features,
        }
        asked |= {"epsilon": epsilon, "alpha": alpha, "beta": beta, "assuming": assuming}
        asked |= {
            "anyway": anyway or None,
            "check": check or None,
            "row_weights": to_optional_list("row_weights", row_weights),
        }
        return _with_class(self._send_request("/learn", asked, Hypothesis, key), self.card)

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
        given: object = kind
        if not isinstance(given, str):
            expected = "the name of a kind; a learner of your own is fitted by the curator itself"
            raise InvalidParameter("kind", type(kind).__name__, expected)
        asked: dict[str, Any] = {
            "name": name,
            "kind": kind,
            "target": target,
            "features": features,
            "bounds": bounds,
            "labels": labels,
        }
        asked |= {"mu": mu, "epsilon": epsilon, "release": release, "method": method, "basis": basis, "radius": radius}
        asked |= {"strength": strength, "replace": replace or None}
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
        described = learner if parameters is None else (learner or {}) | {"parameters": parameters}
        asked: dict[str, Any] = {
            "name": name,
            "estimator": described,
            "target": target,
            "features": features,
            "parts": parts,
            "key": key,
        }
        asked |= {"labels": to_optional_list("labels", labels), "bounds": bounds, "order": order, "held_out": held_out}
        asked |= {"hypotheses": None if hypotheses is None else join_classes(hypotheses, None).document}
        asked |= {"assuming": assuming, "replace": replace}
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
        asked: dict[str, Any] = {"model": name, "method": method, "epsilon": epsilon, "mu": mu, "screen": screen}
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

        A rule or model is known by its entry in the ledger and its digest: one of another ledger, or one that was changed,
        is refused. A student is a process's own, and judged where the rows are.
        """
        entry: object = model.certificate.entry if isinstance(model, (Hypothesis, FittedModel)) else model
        if not isinstance(entry, (str, int)):
            expected = "the name of a model, what learn or fit returned, or its entry; the curator itself judges students"
            raise InvalidParameter("model", type(model).__name__, expected)
        asked: dict[str, Any] = {"model" if isinstance(entry, str) else "entry": entry}
        asked |= {"digest": digest_released(model)} if isinstance(model, (Hypothesis, FittedModel)) else {}
        asked |= {"at_most": at_most, "epsilon": epsilon, "mu": mu, "beta": beta}
        return self._send_request("/evaluate", asked, Evaluation, key)

    def predictions_left(self, name: str, *, epsilon: Number | None = None, mu: Number | None = None) -> int:
        """Return how many predictions of a model the budget still pays for. Free."""
        asked = urlencode(_write_fields({"model": name, "epsilon": epsilon, "mu": mu}))
        return self._transport.read(self._make_path(f"/predictions-left?{asked}"), dict[str, int])["predictions_left"]

    @property
    def models(self) -> Listing[ModelSummary]:
        """Return what every model reads, says and costs, in the order of names. Free, and public."""
        return Listing(self._transport.read(self._make_path("/models"), _ModelList).models)

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
        asked: dict[str, Any] = {"model": name, "rows": _list_records(public_rows), "labels": labels, "groups": groups}
        asked |= {"epsilon": epsilon, "mu": mu, "screen": screen}
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
    def history(self) -> Listing[Line]:
        """Return the charges that this key may see and their responses, oldest first; read page by page."""
        return read_pages(self._transport, self._make_path("/history"))

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
        return self._transport.send(self._make_path(verb), _write_fields(document), kind, key=key, spends=spends)

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


def _list_groups(by: By | None) -> Sequence[str | Cut] | None:
    return [by] if isinstance(by, (str, Cut)) else by


def _write_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request as JSON has them, without those that are not given."""
    return {name: _write_field(name, value) for name, value in given.items() if value is not None}


_JSON = (str, int, float, bool, type(None))


def _write_field(name: str, value: Any, number: Callable[[Any], object] = float) -> Any:  # noqa: ANN401 - JSON
    """Return a field as JSON has it: records and arrays as what they hold, dates as text, other numbers as ``number``."""
    value = write_point(value)
    if isinstance(value, _JSON):
        return value
    if isinstance(value, Struct):
        return plain(value)
    if isinstance(value, Mapping):
        return {each: _write_field(name, held, number) for each, held in value.items()}
    if hasattr(value, "tolist"):
        return _write_field(name, value.tolist(), number)
    if isinstance(value, Iterable):
        return [_write_field(name, each, number) for each in value]
    try:
        return number(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter(name, type(value).__name__, "a number") from None


def _with_class(found: Hypothesis, card: Card) -> Hypothesis:
    """Return a hypothesis that predicts: its class is read from its document, its features from the public card."""
    if found.document is None:
        return found
    kind = read_class(found.document).over(found.columns)
    features = tuple(parse_feature(name, card) for name in found.columns)
    return found.with_reader(partial(_predict_labels, kind=kind, features=features, card=card, index=found.index))


def _predict_labels(
    rows: object, *, kind: HypothesisClass, features: tuple[Feature, ...], card: Card, index: int
) -> npt.NDArray[np.bool_]:
    read = read_given_rows(rows, features, card) if names_of(rows) is not None else rows
    return kind.evaluate(read, index)


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
