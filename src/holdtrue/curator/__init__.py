"""The curator: guards one dataset and answers about it in five steps, once each, in this order.

plan → charge → measure → draw → respond. The charge is durable before a row is read; only *measure* sees rows; only *draw*
sees what it measured; *respond* sees only the drawn value; the answer is stored before it leaves.
"""

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np

from holdtrue.curator.answer_index import AnswerIndex
from holdtrue.curator.budget import Allowance, Budget, Preview, allowance_of, budget_of, preview_of
from holdtrue.curator.history import Line, find_released, history_of
from holdtrue.curator.opening import enter_curator, open_all
from holdtrue.curator.pairs import PairVerbs
from holdtrue.curator.pipeline import Job, Pipeline, name_private
from holdtrue.engines import Header, Progress
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number, count, text_among, truth
from holdtrue.ledgers import Ledger
from holdtrue.ledgers.entries import check_text, read_charge
from holdtrue.ledgers.sealed_store import store_beside
from holdtrue.planning.plans import AnyPlan, Plan
from holdtrue.queries.cards import Label
from holdtrue.records import (
    MOST_PEOPLE,
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
    Synthetic,
    Table,
)
from holdtrue.requests import Basis, By, Cut, Terms
from holdtrue.verbs import asking, selecting

if TYPE_CHECKING:
    from holdtrue.curator.answered_facts import AnsweredFacts
    from holdtrue.curator.frame import Frame
    from holdtrue.curator.models import Model, Models
    from holdtrue.hypotheses.classes import HypothesisClass
    from holdtrue.planning.quantiles import QuantilePrice
    from holdtrue.queries.dates import Point
    from holdtrue.verbs.distilling import Student
    from holdtrue.verbs.fitting import FitMethod
    from holdtrue.verbs.marginals import Sets
    from holdtrue.verbs.means import Keys
    from holdtrue.verbs.predicting import Method, ModelSummary
    from holdtrue.verbs.watching import QueryWatch

__all__ = ["Curator"]

_MOST_WATCHES = 1000


class Curator(PairVerbs):
    """Guards one dataset.

    Guarantee: everything that leaves, over all analysts, sessions and verbs, is private as the plan says, and if the rows
    are independent draws (``iid=True``) every population interval covers at once with the plan's confidence, however the
    questions were chosen. A charge is on disk before rows are read (P3), the ledger never overspends (P4), and the same
    request again returns the stored answer for nothing (P5). Needs: rows that nobody has looked at otherwise, and a
    custodian who is trusted. Fails: with an error of the tree whose branch says whether budget was spent.

    With ``unit``, a column of keys, all rows of one key are protected together and questions are about units: persons with
    any number of rows, which aggregates such as ``COUNT(urgent) >= 2`` sum up. With ``tables`` the data have one row for
    each unit, and the tables the rows that units own. How many units there are is public, but not how many rows each has.
    """

    def __init__(  # noqa: PLR0913 - everything that is fixed when a ledger is created
        self,
        data: object,
        *,
        ledger: str | PathLike[str] | None = None,
        plan: AnyPlan | None = None,
        queries: int | None = None,
        alpha: Number | None = None,
        beta: Number = 0.05,
        epsilon: Number | None = None,
        delta: Number | None = None,
        reserve: Number | Mapping[str, object] = 0.25,
        uses: int = 10,
        cap: str | None = None,
        iid: bool | None = None,
        pure: bool = False,
        types: Mapping[str, str] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        labels: Mapping[str, Sequence[object]] | None = None,
        header: Header | None = None,
        second_budget: bool = False,
        analyst: str = "analyst",
        progress: Progress | None = None,
        side: str = "both",
        rehash: bool = False,
        unit: str = "row",
        tables: Mapping[str, object] | None = None,
        group: int | None = None,
    ) -> None:
        given: dict[str, Any] = {"queries": queries, "alpha": alpha, "beta": beta, "epsilon": epsilon, "delta": delta}
        given |= {"reserve": reserve, "uses": uses, "cap": cap, "iid": iid, "pure": pure, "second_budget": second_budget}
        given |= {"types": types, "bounds": bounds, "labels": labels, "header": header, "side": side}
        given |= {"unit": unit, "tables": tables, "group": group}
        # Numbers of any kind, and iid=None where nothing is said of it: they are checked where they are used.
        terms = Terms(**given)
        check_text("analyst", analyst)
        opened = open_all(data, ledger, terms, plan=plan, progress=progress, rehash=rehash)
        self.pipeline = Pipeline(
            plan=opened.plan, ledger=opened.ledger, engine=opened.engine, analyst=analyst, progress=progress
        )
        enter_curator(self.pipeline)
        self.plan, self.card = opened.plan, opened.engine.card
        self._asking = asking.QuestionRule.from_plan(self.plan, card=self.card)
        self._watches: dict[str, QueryWatch] = {}
        self._place = ledger
        self._making = threading.Lock()
        self._answered: AnsweredFacts | None = None
        self._kept: Models | None = None

    # What most processes never ask for is loaded when it is: the first answer of a process waits for nothing else.
    @property
    def _facts(self) -> "AnsweredFacts":
        from holdtrue.curator.answered_facts import AnsweredFacts

        with self._making:
            if self._answered is None:
                self._answered = AnsweredFacts(
                    self.pipeline.ledger, plan=self.plan, card=self.card, parse=self.pipeline.parse
                )
            return self._answered

    @property
    def _models(self) -> "Models":
        from holdtrue.curator.models import Models

        with self._making:
            if self._kept is None:
                self._kept = Models(self.pipeline, store=store_beside(self._place, "models"))
            return self._kept

    @overload
    def ask(
        self,
        queries: str,
        *,
        deduce: Literal["first"] | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Answer: ...
    @overload
    def ask(
        self,
        queries: list[str] | tuple[str, ...],
        *,
        deduce: Literal["first"] | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> list[Answer]: ...
    @overload
    def ask(
        self, *, values: object, name: str | None = None, key: str | None = None, analyst: str | None = None
    ) -> Answer: ...
    @overload
    def ask(
        self,
        queries: str,
        *,
        by: By,
        keys: "Keys | None" = None,
        questions: int | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Means: ...
    def ask(  # noqa: PLR0913 - one request, and who makes it
        self,
        queries: str | list[str] | tuple[str, ...] | None = None,
        *,
        values: object = None,
        name: str | None = None,
        by: By | None = None,
        keys: "Keys | None" = None,
        questions: int | None = None,
        deduce: Literal["first"] | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Answer | list[Answer] | Means:
        """Answer one question, several at once, or the mean of per-row numbers in [0, 1].

        A question asked before is answered from the ledger and costs nothing. ``key`` names this request: sent again with
        the same key, it is charged once. Several questions are charged together and measured in one pass. ``values`` are
        private, so whether they were asked before is never decided by what they hold: they are new each time, unless
        ``name``, a public name of theirs, was asked before; then the answer of that time is returned.

        ``by`` names columns whose cells are groups, as :meth:`table` takes them, with their labels in ``keys`` where the
        card has none: the share of one question within each group and each group's own share, for the price of two to five
        questions whatever the number of groups, or ``questions`` of them.

        With ``deduce="first"`` a question costs nothing whose answer follows from earlier ones within the plan's alpha, or
        that a released table has as a cell or declared sum: see :meth:`deduce`. Its ``deduced`` names the entries.
        """
        if deduce is not None:
            text_among("deduce", deduce, ("first",))
        grouped = by is not None or keys is not None or questions is not None
        if deduce is not None and (queries is None or grouped):
            raise InvalidParameter.saying("deduce", "give deduce='first' with questions in text only")
        if grouped:
            given: dict[str, Any] = {"keys": keys, "questions": questions, "key": key, "analyst": analyst}
            return self._ask_by(queries, by, values=values, name=name, **given)
        if (queries is None) == (values is None) or (values is None and name is not None):
            raise InvalidParameter.saying("queries", "give either queries or values; name= goes only with values")
        if values is not None:
            known_as = name_private(name, key=key)
            return self._asking.ask_values(self.pipeline, values, known_as=known_as, key=key, analyst=analyst)
        texts = asking.read_texts(queries)
        if deduce is not None:
            free = self.ask_free(texts, key=key, analyst=analyst, seen_by=analyst)
            return free[0] if isinstance(queries, str) else Listing(free, names=texts)
        found = self.pipeline.run(self.ask_job(texts, key=key, analyst=analyst)) if texts else []
        return found[0] if isinstance(queries, str) else Listing(found, names=texts)  # type: ignore[return-value,arg-type]  # responses to questions

    def _ask_by(self, query: object, by: By | None, *, values: object, name: str | None, **given: Any) -> Means:  # noqa: ANN401
        from holdtrue.verbs.means import average_query

        if by is None or values is not None or name is not None:
            raise InvalidParameter.saying("by", "give by= with one question in text; keys= and questions= go only with by=")
        self.pipeline.check_open()
        return average_query(self.pipeline, query, by=by, **given)

    def ask_job(self, texts: tuple[str, ...], *, key: str | None, analyst: str | None) -> Job:
        """Return the request of one or more questions, to be submitted to the pipeline."""
        return Job(partial(self._asking.plan_queries, texts, self.pipeline.parse), key, analyst)

    def ask_free(
        self, texts: Sequence[str], *, key: str | None, analyst: str | None, seen_by: str | None, paying: bool = True
    ) -> list[Answer]:
        """Return answers to questions that are deduced first, from what ``seen_by`` may see, and asked otherwise.

        Without ``paying`` nothing is asked: RefusedError where one neither follows within the plan's alpha nor was asked.
        """
        from holdtrue.verbs.deducing import is_within, plan_free

        if not texts:
            return []
        queries = [self.pipeline.parse(text) for text in texts]
        with self.pipeline.lock_index() as index:
            stands: dict[str, int] = {"draws": index.draws, "spent": index.spent}
            missing = {query.digest: query for query in queries if not index.has(asking.part_of(query))}
        known = {digest: self._facts.deduce(query, analyst=seen_by) for digest, query in missing.items()}
        within = {digest: found for digest, found in known.items() if is_within(self.plan, found, **stands)}
        before = None if key is None else self.pipeline.ledger.find(request_id=check_text("key", key))
        if before is not None and before.kind == "charge":
            # A request that was charged under this key and never answered goes on as it was charged.
            paid = set(read_charge(before).parts)
            within = {
                digest: found
                for digest, found in known.items()
                if not found.inconsistent and asking.part_of(missing[digest]) not in paid
            }
        job = Job(partial(plan_free, self._asking, queries, within, key, paying=paying), key, analyst)
        return self.pipeline.run(job)  # type: ignore[return-value]  # answers

    def deduce(self, query: str, *, analyst: str | None = None) -> Deduction:
        """Return the interval that follows from everything answered so far. Free; no row is read and nothing is recorded.

        With an ``analyst``, from answers that this analyst paid for: what others asked is their history.

        Guarantee: it holds at once with all intervals of the plan, however many questions are deduced and however they are
        chosen (U7). Failure: NotCertified on a plan that promises one end only.
        """
        self.pipeline.check_open()
        return self._facts.deduce(self.pipeline.parse(query), analyst=analyst)

    def table(  # noqa: PLR0913 - one request, and who makes it
        self,
        *columns: str | Cut,
        where: str | None = None,
        keys: Mapping[str, Sequence[Label]] | Sequence[Label] | None = None,
        margins: bool = False,
        ranges: bool = False,
        rollups: Sequence[Sequence[Label]] = (),
        questions: int | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Table:
        """Return the share of the rows in every cell of a table, for the price of two to five questions.

        ``columns`` are columns whose labels are public (on the card, or ``keys``), yes-or-no columns, or numbers and
        dates cut at public points: ``ht.cut("age", [18, 65])``. Rows in none of the cells, missing values included, are in
        one further cell. ``where`` restricts the table to rows that meet a condition; shares are of all rows all the same.
        ``margins`` (sums over all labels of some columns), ``ranges`` (neighbouring cells of one column) and ``rollups``
        (lists of labels of one column, such as the counties of each region) declare unions of cells, which
        :meth:`~holdtrue.records.Table.union` then gives with the noise of their sum. ``questions`` is a price of your own,
        two or more: noise is what it pays for, and cells may be wider or narrower than the plan's alpha.

        Guarantee: as for :meth:`ask`, every cell within the plan's alpha, at once with all other answers (U1, S1).
        Failure: NotCertified for labels that are not public; BudgetExceeded with nothing spent.
        """
        from holdtrue.verbs.tables import tabulate

        self.pipeline.check_open()
        given: dict[str, Any] = {"margins": margins, "ranges": ranges, "rollups": rollups, "questions": questions}
        given |= {"key": key, "analyst": analyst}
        return tabulate(self.pipeline, columns, where=where, keys=keys, **given)

    def marginals(  # noqa: PLR0913 - one request, and who makes it
        self,
        sets: "Sets",
        *,
        columns: Sequence[str | Cut] | None = None,
        keys: Mapping[str, Sequence[Label]] | None = None,
        margins: bool = False,
        questions: int = 2,
        workload: Sequence[Mapping[str, Label]] | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Marginals:
        """Return the tables of all "pairs" or "triples" of columns, or of those in ``sets``, at two questions each.

        ``columns`` are as for :meth:`table`, all whose labels are public unless given. All tables are one charge and one
        request; those that were released before are told again for nothing. ``margins`` declares the sums over all labels
        of some columns, which :meth:`~holdtrue.records.Marginals.share` then gives with the noise of their sum.
        ``workload`` declares questions, labels by column such as ``{"sex": "F", "region": "N"}``: each is answered from all
        tables that have its columns together. More ``questions`` for each table make noise less.

        Guarantee: every cell of every table and every declared question, at once with all other answers (V2.3, S1). Cells
        may be a little wider than the plan's alpha, which a table by itself keeps by a higher price.
        Failure: NotCertified for labels that are not public; InvalidParameter, with nothing spent, where the tables have
        more cells than fit; RefusedError for a workload about tables that were released before; BudgetExceeded with
        nothing spent.
        """
        from holdtrue.verbs.marginals import release_marginals

        self.pipeline.check_open()
        given: dict[str, Any] = {"columns": columns, "keys": keys, "margins": margins, "questions": questions}
        return release_marginals(self.pipeline, sets, **given, workload=workload, key=key, analyst=analyst)

    def synthesize(
        self,
        columns: Sequence[str] | None = None,
        *,
        rows: int | None = None,
        seed: int = 0,
        analyst: str | None = None,
    ) -> Synthetic:
        """Return rows made from tables of all rows that were released, by :meth:`marginals` or :meth:`table`. Free.

        ``columns`` are those of released tables, all unless given; ``rows`` as many as there are unless given. They agree
        with the tables as well as one distribution can (least squares), and depend on nothing but them and the public
        ``seed``, so nothing is charged and no row is read. With an ``analyst``, from tables that this analyst paid for.

        Guarantee: none for shares of these rows; intervals are those of the tables, which ``share`` gives (V2.3).
        Failure: InvalidParameter where no table has a column, or the columns have more combinations than fit.
        """
        self.pipeline.check_open()
        return self._facts.synthesize(columns, rows=rows, seed=seed, analyst=analyst)

    def histogram(  # noqa: PLR0913 - one request, and who makes it
        self,
        column: str,
        *,
        low: "Point",
        high: "Point",
        bins: int | str = 20,
        where: str | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Table:
        """Return the share of the rows in each of ``bins`` equal bins between two public ends; see :meth:`table`.

        Between two dates ``bins`` may be "month", "quarter" or "year".
        """
        from holdtrue.verbs.tables import make_bins

        binned = make_bins(column, low=low, high=high, bins=bins, plan=self.plan)
        return self.table(binned, where=where, key=key, analyst=analyst)

    def mean(  # noqa: PLR0913 - one request, and who makes it
        self,
        column: str,
        *,
        low: Number | None = None,
        high: Number | None = None,
        where: str | None = None,
        by: By | None = None,
        keys: "Keys | None" = None,
        questions: int | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Means:
        """Return the mean of a column of numbers in its own units, in each group of ``by``, for two to five questions.

        Values below ``low`` count as low and above ``high`` as high; the card's bounds are taken unless they are given. They
        are public, and the narrower they are, the narrower is the interval. The response says which share of the rows lies
        outside. A mean is over the rows that have a value and meet ``where``. ``by`` takes what :meth:`table` takes: columns
        with public labels (on the card, or ``keys``), yes-or-no columns, or ``ht.cut("age", [18, 65])``; one or a list.
        ``questions`` is a price of your own, as for :meth:`table`.

        Guarantee: as for :meth:`ask`, every number of the response at once with all other answers (U1, U2, S1).
        Failure: NotCertified for labels that are not public; BudgetExceeded with nothing spent.
        """
        from holdtrue.verbs.means import average

        self.pipeline.check_open()
        given: dict[str, Any] = {"where": where, "by": by, "keys": keys, "questions": questions}
        given |= {"key": key, "analyst": analyst}
        return average(self.pipeline, column, low=low, high=high, **given)

    def sum(  # noqa: PLR0913 - one request, and who makes it
        self,
        column: str,
        *,
        low: Number | None = None,
        high: Number | None = None,
        where: str | None = None,
        by: By | None = None,
        keys: "Keys | None" = None,
        population: int | None = None,
        questions: int | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Means:
        """Return the sum of a column of numbers over these rows, or over a population of this size; see :meth:`mean`.

        It is the same release as the mean, so that whoever asked for one has the other for nothing. A sum over these rows
        has an interval for these rows; ``per_head`` has the sum divided by all rows, with an interval for the population.
        """
        size = None if population is None else count("population", population, most=MOST_PEOPLE)
        given: dict[str, Any] = {"where": where, "by": by, "keys": keys, "questions": questions}
        given |= {"key": key, "analyst": analyst}
        return self.mean(column, low=low, high=high, **given).total(size)

    def quantile(  # noqa: PLR0913 - one request, and who makes it
        self,
        column: str,
        levels: Number | Sequence[Number],
        *,
        low: "Point",
        high: "Point",
        step: Number = 1,
        where: str | None = None,
        method: str | None = None,
        epsilon: Number | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Quantiles:
        """Return where the values of a column reach one level or several: 0.5 is the median, 0.9 has nine tenths below.

        ``low``, ``high`` and ``step`` are public and make the grid that values are counted on: a value counts as the first
        point that is not below it, one above ``high`` and a missing one as ``high``. Of dates and timestamps the ends are
        dates too, such as "2026-01-31", the step is in days, and answers are dates. With ``where`` only rows that meet a
        condition are looked at, for one further question. ``method="search"`` asks ``column <= point`` as plain questions,
        at most 2 log2(points) for a level, and fewer where such questions were answered before; ``"curve"`` releases the
        shares up to all points at once, after which every level is free. Unless given, a curve for four levels or more, or
        two on a short grid, where it costs no more; else a search. With ``"exponential"``, the default of pure ledgers, both
        ends are picked by the exponential mechanism, for ``epsilon`` or a share of the reserve: the point answer is nearer
        to that of the rows, the interval wider than a search's. ``"point"`` spends all of it on one pick for each level, the
        nearest number there is, without an interval. :meth:`preview_quantile` says what it costs.

        Guarantee: the quantile of the population is between ``low`` and ``high`` of the response, at once with all other
        answers (U3); by the exponential mechanism, by itself. A search whose budget runs out gives the interval so far
        (``complete`` is False).
        Failure: BudgetExceeded where the first question cannot be paid for, with nothing spent.
        """
        from holdtrue.verbs.quantiles import QuantileSearch, find_by_curve, find_by_picks, read_task

        self.pipeline.check_open()
        given: dict[str, Any] = {"low": low, "high": high, "step": step, "where": where, "method": method}
        task = read_task(self.pipeline, column, levels, epsilon=epsilon, **given)
        who = None if analyst is None else check_text("analyst", analyst)
        if task.method != "search":
            find = find_by_curve if task.method == "curve" else find_by_picks
            return find(self.pipeline, task, key=key, analyst=who)
        return QuantileSearch(self.pipeline, self._asking, task, key, who).run()

    def median(  # noqa: PLR0913 - one request, and who makes it
        self,
        column: str,
        *,
        low: "Point",
        high: "Point",
        step: Number = 1,
        where: str | None = None,
        method: str | None = None,
        epsilon: Number | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Quantiles:
        """Return the point that half of the values of a column are at or below; see :meth:`quantile`."""
        given: dict[str, Any] = {"low": low, "high": high, "step": step, "where": where, "method": method}
        return self.quantile(column, 0.5, epsilon=epsilon, key=key, analyst=analyst, **given)

    def preview_quantile(  # noqa: PLR0913 - one request
        self,
        column: str,
        levels: Number | Sequence[Number],
        *,
        low: "Point",
        high: "Point",
        step: Number = 1,
        where: str | None = None,
        method: str | None = None,
        epsilon: Number | None = None,
    ) -> "QuantilePrice":
        """Return the most that quantiles can cost: how many questions, and what they cost. Free; no row is read."""
        from holdtrue.verbs.quantiles import read_task

        self.pipeline.check_open()
        given: dict[str, Any] = {"low": low, "high": high, "step": step, "where": where, "method": method}
        task = read_task(self.pipeline, column, levels, epsilon=epsilon, **given)
        return task.preview(self.pipeline, left=self.budget.asks)

    def frame(self) -> "Frame":
        """Return the rows as a frame that reads like pandas and writes requests: ``df[df.age > 65].income.median(...)``.

        Free; it builds the same requests as the verbs, and nothing else.
        """
        from holdtrue.curator.frame import Frame

        self.pipeline.check_open()
        return Frame(self)

    def select(  # noqa: PLR0913 - the numbers of one choice, and who asks for it
        self,
        candidates: Mapping[str, str] | Mapping[str, int] | Sequence[str] | None = None,
        *,
        scores: "Mapping[str, Number] | selecting.Scores | None" = None,
        sensitivity: Number | None = None,
        weights: Sequence[Number] | Mapping[str, Number] | None = None,
        top: int = 1,
        line: Sequence[Number] | None = None,
        cuts: Sequence[Number] = (),
        epsilon: Number | None = None,
        name: str | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Choice:
        """Choose the candidate that the most rows satisfy, or the one with the highest score, or the ``top`` best.

        ``scores`` are whole numbers or fractions, by name or as one list or array, and ``sensitivity`` declares the most
        that one row moves any of them (B2): 1 unless given. That is assumed, not checked, unless the scores' kind refutes
        it. ``weights`` are the base measure, a public number for each candidate, not all 0. Several are chosen one after the
        other among those left; an ``epsilon`` is that of all. Without one it takes an equal share of what the plan reserved
        for other verbs than ask. Queries asked before are known by their text. Scores are private: they are a new request
        each time, unless ``name``, a public name of theirs, was used before with these terms.
        With a ``line``, two public ends, a point of it is chosen by scores that are constant between ``cuts``, which are
        private as the scores are; there is one score more than there are cuts (U3.3).
        """
        self.pipeline.check_open()
        known_as = name_private(name, key=key)
        given: dict[str, Any] = {"epsilon": epsilon, "known_as": known_as, "key": key, "analyst": analyst}
        given |= {"scores": scores, "sensitivity": sensitivity}
        if line is not None and candidates is None and scores is not None and weights is None and top == 1:
            return selecting.choose_on_line(self.pipeline, line, cuts=cuts, **given)
        if line is not None or len(cuts):
            raise InvalidParameter.saying("line", "a line takes scores and cuts alone: no candidates, weights or top")
        given |= {"weights": weights, "top": top}
        return selecting.choose(self.pipeline, candidates, **given)

    def watch(
        self,
        *,
        threshold: Number,
        alarms: int = 1,
        epsilon: Number | None = None,
        name: str | None = None,
        analyst: str | None = None,
    ) -> "QueryWatch":
        """Return a watch: its ``ask(query)`` says whether a share of the rows is above a threshold, until it fires.

        Silence costs nothing more than the run, which is paid for when its first question is asked; after an alarm the next
        question begins another run, up to ``alarms`` runs in all. A process that opens the data again begins a new run, too.
        Without an epsilon all runs together take an equal share of the reserve. Making a watch is free; one of the same
        terms is the same watch, and ``name`` makes it another one.
        """
        from holdtrue.verbs.watching import QueryWatch

        self.pipeline.check_open()
        made = QueryWatch(
            self.pipeline,
            threshold=threshold,
            alarms=alarms,
            epsilon=epsilon,
            name=None if name is None else check_text("name", name),
            analyst=None if analyst is None else check_text("analyst", analyst),
        )
        if len(self._watches) > _MOST_WATCHES:
            self._watches = {known: watch for known, watch in self._watches.items() if not watch.is_idle}
        return self._watches.setdefault(made.id, made)

    def learn(  # noqa: PLR0913 - the numbers of one pick, and who asks for it
        self,
        hypotheses: "HypothesisClass | Sequence[HypothesisClass]",
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
        analyst: str | None = None,
    ) -> Hypothesis:
        """Pick a hypothesis that errs about as seldom as the best of a finite class, privately.

        ``target`` is the yes-or-no question to predict. A class that names columns reads those, columns of numbers or
        yes-or-no questions; a class by position reads ``features``, or all number columns that the target does not. With
        ``alpha``, refuses with InsufficientSamples unless the rows certify that excess error, or ``anyway`` is said. Several
        classes are joined, with prior ``weights`` if given. Without an epsilon it takes an equal share of the reserve.

        ``assuming="realizable"`` certifies far less error if some hypothesis is never wrong; rows cannot show that, and it
        needs a class fixed before the first answer. ``check=True`` asks one more question, about the errors of what was
        picked, and certifies its own error in ``checked``, which assumes nothing (V4.2).

        Hypotheses with ``labels`` predict a column of those public labels. ``row_weights`` are public whole numbers, one for
        each row in its order: an error counts as often as its row weighs, one row moves a count by the largest of them, and
        noise is as much larger. Of weighted errors, and of predictions by position, only these rows are spoken of.
        """
        from holdtrue.verbs.learning import LearningTask

        self.pipeline.check_open()
        what: dict[str, Any] = {"features": features, "weights": weights, "row_weights": row_weights}
        task = LearningTask.of(self.pipeline, hypotheses, target=target, **what)
        if truth("check", check) and task.goal is not None:
            raise InvalidParameter.saying("check", "leave out check: it is for questions about rows that count alike")
        given: dict[str, Any] = {"epsilon": epsilon, "alpha": alpha, "beta": beta, "anyway": anyway, "assuming": assuming}
        found = task.learn(key=key, analyst=analyst, **given)
        return task.check_pick(found, self._asking, analyst=analyst) if check else found

    def train(  # noqa: PLR0913 - the public facts of one model
        self,
        name: str,
        estimator: Any = None,  # noqa: ANN401 - any scikit-learn estimator
        *,
        target: str,
        features: Sequence[str] | None = None,
        parts: int = 200,
        labels: Sequence[Any] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        key: str | None = None,
        order: Literal["fixed"] | None = None,
        held_out: Number | None = None,
        hypotheses: "HypothesisClass | Sequence[HypothesisClass] | None" = None,
        assuming: Literal["realizable"] | None = None,
        replace: bool = False,
    ) -> "Model":
        """Train copies of an estimator on disjoint parts of the rows and keep them under a name; releases nothing.

        ``target`` is a column whose labels are public (on the card, or ``labels``), a yes-or-no question, or a number with
        public ``bounds``. ``features`` are columns of numbers or yes-or-no questions: all number columns that the target
        does not read, unless given. A text column whose labels are on the card is a question for each label; a pipeline that
        picks columns by name gets a data frame, with the labels themselves. Linear models and trees are kept with a ledger
        that lasts, sealed, and every worker finds them; others live in the memory of this process. Another model of the same
        name is kept, and the training refused, unless ``replace`` is said; trained again just as it was, it may be.

        Guarantee (E4, E10): replacing one row moves as many votes as predictions are priced for. ``key`` names a column of
        public keys, whole numbers or text, that stay when a row is replaced: a row's part is a hash of its key, and one row,
        or all rows of one key, moves one vote, in whatever order rows come. (A row that brings another key moves two.)
        Without a key the part is a hash of what the model reads of the row, and one row moves two votes, which are both paid
        for; this needs nothing of the order either. ``order="fixed"`` declares that no value decides the order of rows:
        parts go by position, and one row moves one vote. That is assumed, not checked; rows sorted by a column break it.
        ``held_out`` keeps about that share of the rows out of every part, by key or position, for :meth:`evaluate`.

        ``hypotheses`` in the place of an estimator: each part votes by the hypothesis of a finite class that errs least on
        it, the first of several. Trained before the first answer, with independent rows and ``order="fixed"``, the model is
        certified (V4.1): predictions with ``method="agnostic"`` err at most ``excess_error`` more often than the best of the
        class and, with ``assuming="realizable"`` (some hypothesis is never wrong), those by soft majority at most
        ``error_bound`` often. Otherwise ``certificate`` says which of these needs is not met.
        Failure: NotCertified for ``order="fixed"`` on a relation, whose plan decides the order; PreconditionError for
        ``held_out`` without ``key`` or ``order``.
        """
        self.pipeline.check_open()
        facts: dict[str, Any] = {"target": target, "features": features, "parts": parts, "labels": labels, "bounds": bounds}
        facts |= {"hypotheses": hypotheses, "assuming": assuming}
        facts["replacing"] = truth("replace", replace)
        return self._models.train(name, estimator, key=key, order=order, held_out=held_out, **facts)

    def fit(  # noqa: PLR0913 - the public facts of one model, and who asks for it
        self,
        name: str,
        kind: Any,  # noqa: ANN401 - the name of a kind, or a learner of your own
        *,
        target: str,
        features: Sequence[str] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        labels: Sequence[Any] | None = None,
        mu: Number | None = None,
        epsilon: Number | None = None,
        release: Literal["once", "each"] | None = None,
        method: "FitMethod" = "minimiser",
        basis: Basis | None = None,
        radius: Number = 1,
        strength: Number | None = None,
        gamma: Number | None = None,
        certified_by: str | None = None,
        replace: bool = False,
        key: str | None = None,
        analyst: str | None = None,
    ) -> "FittedModel | Model":
        """Fit a model that one row changes very little, and publish its weights with noise, for one charge.

        ``kind`` is "ridge", "huber" or "squared-clipped" for a number with public bounds, "logistic" or "hinge" for a target
        with two public labels or a yes-or-no question. Every feature needs public bounds, from the card or ``bounds``, and
        is clipped to them. ``basis`` makes the model linear in functions of the features, ``ht.Fourier(pairs, scale, seed)``
        or ``ht.Polynomial(degree)``; ``method="descent"`` takes gradient steps instead of a regulariser. Predictions of the
        published model are free and without end.

        ``release="each"`` publishes nothing and charges nothing now: the model is kept under its name, where another one
        stays unless ``replace`` is said, and each prediction (:meth:`predict`) is charged ``epsilon`` (Laplace noise) or
        ``mu`` (normal noise). So are "thresholds" of one feature (T13), and a learner of your own with ``fit`` and
        ``predict`` whose stability ``gamma`` somebody vouches for (``certified_by``;
        :func:`holdtrue.audit_stability` may refute it).

        Guarantee (E13, E15, E16): mu-GDP; without ``mu`` it takes an equal share of the reserve. ``excess`` bounds the
        expected loss above the least of weights of length ``radius``; it needs independent rows, and a fit that nothing was
        asked before. Failure: NotCertified for a feature without bounds, for a gamma that nobody vouches for, and on a
        cluster; BudgetExceeded with nothing spent.
        """
        from holdtrue.verbs.fitting import fit, plan_fit, read_facts
        from holdtrue.verbs.keeping import choose_release, plan_keeping

        self.pipeline.check_open()
        facts: dict[str, Any] = {"target": target, "features": features, "bounds": bounds, "labels": labels}
        public = read_facts(self.pipeline, name, kind, **facts)
        given: dict[str, Any] = {"radius": radius, "strength": strength, "method": method, "basis": basis}
        if choose_release(kind, release) == "each":
            claim: dict[str, Any] = {"mu": mu, "epsilon": epsilon, "gamma": gamma, "certified_by": certified_by}
            task = plan_keeping(public, kind, **claim, **given)
            return self._models.keep_fit(task, replacing=truth("replace", replace))
        if gamma is not None or certified_by is not None:
            raise InvalidParameter.saying("gamma", "leave out gamma and certified_by: they are for a learner of your own")
        return fit(plan_fit(public, kind, mu=mu, epsilon=epsilon, **given), key=key, analyst=analyst)

    def predict(  # noqa: PLR0913 - one request, and who makes it
        self,
        name: str,
        rows: object,
        *,
        epsilon: Number | None = None,
        mu: Number | None = None,
        method: "Method" = "soft-majority",
        screen: Number | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Prediction | list[Prediction]:
        """Return a private prediction for one record, or a list of them for a table.

        Each is epsilon-DP in the training rows where an ``epsilon`` is given, mu-GDP where a ``mu`` is (numbers, and votes
        by "noisy-max"), and otherwise takes a share of the reserve. A point that was asked before is answered from the
        ledger and costs nothing, unless that answer has more noise than is asked for or was drawn by another rule.
        ``screen`` answers only where that share of the parts agrees, about. The request is priced whole: BudgetExceeded
        means that nothing was spent.
        """
        from holdtrue.verbs.predicting import predict

        self.pipeline.check_open()
        model = self._models.find_model(name)
        given: dict[str, Any] = {"epsilon": epsilon, "mu": mu, "method": method, "screen": screen}
        found = predict(self.pipeline, model, rows, key=key, analyst=analyst, **given)
        one = isinstance(rows, Mapping) and all(np.ndim(value) == 0 for value in rows.values())
        return found[0] if one else found

    def evaluate(  # noqa: PLR0913 - one request, and who makes it
        self,
        model: "str | Student | Hypothesis | FittedModel | int",
        *,
        at_most: Number | Sequence[Number] | None = None,
        epsilon: Number | None = None,
        mu: Number | None = None,
        beta: Number | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Evaluation:
        """Return how often a model errs: a bound for its private predictions, or the error of what was released before.

        The name of a model: whether its predictions at ``epsilon`` err at most as often as asked. Several levels that fall,
        such as ``at_most=[0.3, 0.25, 0.2]``, are tried in order until one is refused; each costs ``mu`` squared, whether it
        is reached or not. Needs a model that was trained with ``held_out``. A student, a learned hypothesis, a published
        model, or the entry of one of the latter: one question about its errors on all rows, with an interval. The error of
        numbers is their mean distance from the truth, in the target's units, both within its public range.

        Guarantee (V4.4): mu-GDP for each level, or Laplace noise for an equal share of a reserve that is not in mu squared;
        "certified" is wrong with probability at most ``beta``, the plan's unless given. As the first charge of a ledger the
        bound is Chernoff's; later ones rest on the transfer theorem, since models and levels may have been chosen after
        answers. Rows held out after answers, by a rule that no earlier model had, get none. Where a key decided which rows
        are held out, no two rows may share one. The interval of what was released is T6's at three pairs (V4.2); each
        evaluation holds by itself. A student must label each row by itself. Failure: PreconditionError without held-out
        rows, InvalidParameter for what this ledger did not release, nothing spent.
        """
        from holdtrue.verbs.distilling import Student
        from holdtrue.verbs.evaluating import evaluate, judge_released, plan_evaluation

        self.pipeline.check_open()
        if isinstance(model, str):
            given: dict[str, Any] = {"at_most": at_most, "epsilon": epsilon, "mu": mu, "beta": beta}
            task = plan_evaluation(self.pipeline, self._models.find_model(model), **given)
            return evaluate(task, key=key, analyst=analyst)
        if at_most is not None or epsilon is not None or mu is not None:
            raise InvalidParameter.saying("at_most", "leave out at_most, epsilon and mu: the error itself is one question")
        released, target = find_released(self.pipeline.ledger, model, student=isinstance(model, Student))
        question = judge_released(self.pipeline, self._asking, released, target=target, beta=beta)
        return evaluate(question, key=key, analyst=analyst)

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
        analyst: str | None = None,
    ) -> "Student":
        """Spend budget on labels for public rows, teach a student with them, and predict by it at no further cost.

        Buys ``labels`` of them one by one (all unless given), clear ones only with a ``screen``; or gathers the public rows
        into ``groups`` of like ones and buys one label for each group at the price of one row, which goes far further. All
        of them are priced before the first is drawn: BudgetExceeded means that nothing was spent.
        """
        from holdtrue.verbs.distilling import teach_student

        self.pipeline.check_open()
        model = self._models.find_model(name)
        given: dict[str, Any] = {"labels": labels, "groups": groups, "epsilon": epsilon, "mu": mu, "screen": screen}
        return teach_student(self.pipeline, model, public_rows, student, analyst=analyst, **given)

    def predictions_left(self, name: str | None = None, *, epsilon: Number | None = None, mu: Number | None = None) -> int:
        """Return how many predictions of a model (without a name, of the dearest one) the budget still pays for."""
        from holdtrue.verbs.predicting import predictions_left

        self.pipeline.check_open()
        models = self._models.list_models() if name is None else [self._models.find_model(name)]
        return predictions_left(self.pipeline, models, epsilon=epsilon, mu=mu)

    @property
    def models(self) -> "Listing[ModelSummary]":
        """Return what every model reads, says and costs, in the order of names. Free, and public."""
        from holdtrue.verbs.predicting import summarize_models

        self.pipeline.check_open()
        return summarize_models(self.pipeline, self._models.list_models())

    def preview(self, query: str, *, analyst: str | None = None) -> Preview:
        """Return what a question would cost and how wide its answer would be. Free.

        With an ``analyst``, only questions that this analyst paid for are told to be repeats: whether others asked a
        question is their history. Asked for real, it costs nothing if anybody paid for it before. ``follows`` is what
        :meth:`deduce` gives.
        """
        self.pipeline.check_open()
        parsed = self.pipeline.parse(query)
        found = self._facts.deduce(parsed, analyst=analyst) if self.plan.side == "both" else None
        with self.pipeline.lock_index() as index:
            part = asking.part_of(parsed)
            repeated = index.has(part) and (analyst is None or index.find_payer(part) == analyst)
            facts: dict[str, Any] = {"draws": index.draws, "spent": index.spent, "repeated": repeated, "found": found}
            facts |= {"asks": self._read_budget(index, None).asks, "allowance": self.allowance(analyst)}
            return preview_of(parsed, self.plan, card=self.card, **facts)

    @property
    def budget(self) -> Budget:
        """Return what is spent and what is left, over all analysts."""
        return self.budget_for(None)

    def budget_for(self, analyst: str | None) -> Budget:
        """Return what is spent and what is left, with the allowance of an analyst: the curator's own unless named."""
        with self.pipeline.lock_index() as index:
            return self._read_budget(index, self.allowance(analyst))

    def _read_budget(self, index: AnswerIndex, own: Allowance | None) -> Budget:
        counts: dict[str, Any] = {"spent": index.spent, "draws": index.draws, "other": index.other_cost, "allowance": own}
        return budget_of(self.plan, self.pipeline.ledger.terms.filter, **counts)

    def allowance(self, analyst: str | None = None) -> Allowance | None:
        """Return what an analyst may spend in questions, the curator's own unless named; None without a limit of theirs."""
        name, ledger = analyst or self.pipeline.analyst, self.pipeline.ledger
        units = ledger.allowance(name)
        if units is None:
            return None
        return allowance_of(self.plan, name, allowance=units, spent=ledger.spent_by(name), left=ledger.left_for(name))

    @property
    def history(self) -> Listing[Line]:
        """Return every charge and its response, oldest first."""
        self.pipeline.check_open()
        with self.pipeline.lock:
            return history_of(self.pipeline.ledger)

    @property
    def ledger(self) -> Ledger:
        """Return the ledger, to be read: its head, its entries, an analyst's share. Charges go through the verbs."""
        self.pipeline.check_open()
        return self.pipeline.ledger

    def model(self, name: str) -> "Model":
        """Return what was trained under a name."""
        self.pipeline.check_open()
        return self._models.find_model(name)

    def report(self, path: str | PathLike[str]) -> None:
        """Write everything the ledger has as one self-contained HTML page: plan, budget, questions, answers, receipts."""
        from holdtrue.reports import html_report

        columns = self.card.list_columns()
        page = html_report(
            title="Holdtrue",
            plan=self.plan,
            budget=self.budget,
            history=self.history,
            receipt=self.pipeline.ledger.head,
            columns=columns,
            population=self.card.population,
        )
        try:
            Path(path).write_text(page, encoding="utf-8")
        except Exception as error:  # noqa: BLE001 - whatever is no path
            reason = getattr(error, "strerror", None) or "no path"
            raise InvalidParameter("path", path, f"a file that can be written ({reason})") from None

    def grant(self, analyst: str, *, asks: int | None) -> None:
        """Limit an analyst to the budget of ``asks`` questions, within the cap; None lifts the limit."""
        self.pipeline.check_open()
        self.pipeline.ledger.grant(
            analyst, allowance=None if asks is None else count("asks", asks, least=0) * self.plan.cost
        )

    def close(self) -> None:
        """Close data and ledger; nothing is lost."""
        self.pipeline.close()
        if self._kept is not None:
            self._kept.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the curator itself: an estimator that holds it keeps its ledger when scikit-learn clones it."""
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.pipeline.closed else "durable" if self.pipeline.ledger.durable else "not durable"
        rows, columns = self.card.rows, len(self.card.list_columns())
        planned = f"{self.plan.queries:,} questions {'planned' if isinstance(self.plan, Plan) else 'at most'}"
        counted = "rows" if self.card.unit is None else f"units ({self.card.unit})"
        return f"<Curator of {rows:,} {counted} and {columns} columns; {planned}; ledger {state}>"
