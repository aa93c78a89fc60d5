"""The holdout: one set of labelled cases that may be looked at a set number of times, each look chosen after the last."""

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Self

import numpy as np

from holdtrue.curator.history import Line
from holdtrue.errors import InvalidParameter, RefusedError
from holdtrue.exact import Number, probability, rational, round_up
from holdtrue.holdouts.cases import BITS, Cases, array_of, cases_of
from holdtrue.holdouts.counted_gates import CountedGate
from holdtrue.holdouts.depth_gates import DepthGate
from holdtrue.holdouts.gating import Gate
from holdtrue.holdouts.held_curators import were_told
from holdtrue.holdouts.mode import Transcript, name_of
from holdtrue.holdouts.open_gates import was_told
from holdtrue.holdouts.private_gates import PrivateDepthGate
from holdtrue.holdouts.records import HoldoutBudget, Score, Verdict
from holdtrue.holdouts.scoring import GuessAndCheck, Rounding, Scoring, ends_of
from holdtrue.holdouts.sparse import PrivateGate, Thresholdout
from holdtrue.holdouts.submissions import Metric, Question, case_comparison, comparison, given_cases, question
from holdtrue.holdouts.terms import facts_and_plan, open_pipeline, say_width
from holdtrue.ledgers import Ledger
from holdtrue.ledgers.sealed_store import store_beside
from holdtrue.records import Answer, Interval, Listing
from holdtrue.requests import HoldoutTerms

__all__ = ["Holdout", "Scorer"]

_MARGIN = "a number above -1 and below 1"


class Holdout:
    """Labelled cases that answer for what is submitted about them, a planned number of times.

    Guarantee: with probability 1 - beta every interval of all ``looks`` covers the truth it is about, at once, however
    submissions were chosen after earlier answers (T5, T6b, T9 to T12 by mode). A look is charged durably before labels are
    read; the same submission again costs nothing. Needs: cases drawn independently, whose labels nobody used otherwise.
    Fails: BudgetExceeded when looks are used up; FingerprintMismatch for an old ledger with other cases.

    ``yes`` makes it a gate, ``train`` with ``overfits`` a reusable holdout, neither a holdout of full scores. With ``ids``,
    cases in any order are the same holdout. ``unseen`` declares that submissions are made without sight of these cases.
    ``private`` chooses between a mode that keeps secrets and one that does not; full scores without it are rounded (T9).
    ``incumbent_name`` is the public name of an incumbent that is results (``metric="cases"``, or ``"hits"`` where a result
    is right or not). ``cluster`` names the unit that each case belongs to, on a gate or for full scores: a case and
    its repeats, a document and its questions. Only units are independent then: each counts once, by the mean of its cases,
    and intervals are about units (U4). ``tells`` lets a gate tell lower bounds of its yes, "bounds at the end" (by
    ``certify("bound", of=)``) or "bounds" (with the yes, in eight steps), at smaller levels (V1.1). ``gain`` with
    ``discordant``, the share of cases where submissions differ, plans a gate's bets for that gain (V1.2). A copy is the
    holdout itself; in another process it opens the ledger again.
    """

    def __init__(  # noqa: PLR0913 - everything that is fixed when a ledger is created
        self,
        y_true: object,
        *,
        looks: int | None = None,
        beta: Number | None = None,
        yes: int | None = None,
        incumbent: object = None,
        incumbent_name: str | None = None,
        train: object = None,
        overfits: int | None = None,
        private: bool | None = None,
        epsilon: Number | None = None,
        delta: Number | None = None,
        threshold: Number | None = None,
        tolerance: Number | None = None,
        reserve: Number = 0,
        metric: str | None = None,
        ledger: str | PathLike[str] | None = None,
        ids: object = None,
        weights: object = None,
        labels: Sequence[object] | None = None,
        classes: Mapping[Any, int] | None = None,
        cluster: object = None,
        unseen: bool | None = None,
        tells: str | None = None,
        gain: Number | None = None,
        discordant: Number | None = None,
        analyst: str = "analyst",
    ) -> None:
        self.path = None if ledger is None else fspath(ledger)
        self._given = {"ids": ids, "weights": weights, "labels": labels, "classes": classes, "cluster": cluster}
        self._given |= {"train": train}
        self._y_true, self._analyst = y_true, analyst
        self._cases: Cases = cases_of(y_true, ids=ids, weights=weights, labels=labels, classes=classes, cluster=cluster)
        self._train = None if train is None else array_of("train", train)
        given: dict[str, Any] = {"looks": looks, "beta": beta, "yes": yes, "train": train, "overfits": overfits}
        given |= {"private": private, "epsilon": epsilon, "delta": delta, "threshold": threshold, "tolerance": tolerance}
        given |= {"tells": tells, "gain": gain, "discordant": discordant}
        terms = HoldoutTerms(**given, reserve=reserve, metric=metric, unseen=unseen)  # type: ignore[arg-type]  # checked there
        self.facts, self.plan = facts_and_plan(self._cases, terms, ledger=self.path, was_told=_was_told)
        self._store = store_beside(self.path, "submissions")
        self._pipeline = open_pipeline(self._cases, self.facts, self.plan, ledger=self.path, analyst=analyst)
        if self.facts.mode in ("scores", "rounding"):
            self._cases = self._cases.weigh_clusters()
        try:
            self._mode = self._open_mode()
            if incumbent is not None or isinstance(self._mode, (Gate, PrivateGate)):
                self._start_gate(incumbent, incumbent_name)
        except BaseException:
            self.close()
            raise

    def _start_gate(self, incumbent: object, name: str | None) -> None:
        """Take a gate's incumbent: predictions, or results with the public name that they are known by."""
        gate, results = self._require_gate(), self.facts.takes_results
        if name is not None and (not name or incumbent is None or not results):
            raise InvalidParameter("incumbent_name", name, 'left out unless incumbent= are results (metric="cases")')
        if isinstance(gate, PrivateGate) or incumbent is None:
            gate.start(None if incumbent is None else self._read_incumbent(incumbent))
        else:
            gate.start(self._read_incumbent(incumbent, name), known_as=name)

    def _open_mode(self) -> Scoring | Rounding | Gate | PrivateGate | Thresholdout | GuessAndCheck:
        parts = self._cases, self.facts, self.plan, self._pipeline
        match self.facts.mode:
            case "gate":
                kind = DepthGate if self.facts.rule == "depth" else CountedGate
                return kind(*parts, store=self._store)
            case "private gate":
                return PrivateDepthGate(*parts, store=self._store) if self.facts.rule == "depth" else PrivateGate(*parts)
            case "thresholdout":
                return Thresholdout(*parts)
            case "guess-and-check":
                return GuessAndCheck(*parts)
            case "rounding":
                return Rounding(*parts)
            case _:
                return Scoring(*parts)

    def score(  # noqa: PLR0913 - a submission, how to score it, and whose it is
        self,
        y_pred: object = None,
        *,
        metric: Metric = "accuracy",
        cases: object = None,
        train: object = None,
        of: object = None,
        ids: object = None,
        name: str | None = None,
        threshold: Number | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Score:
        """Return the score of predictions, or of results that came from elsewhere (``cases``), one per case.

        ``metric``: "accuracy", "error", "brier", "recall" (``of`` a class whose number is public), or a function of labels
        and predictions that returns a number in [0, 1] a case. ``train``: on a reusable holdout, the predictions for the
        training cases (for ``cases=``, the results there). ``threshold``: on a reusable one that is private, by how much
        this training score may differ; the interval follows it.

        Predictions are public, so the same ones again are known and cost nothing. Results are made with the labels, and
        telling that two are equal would tell about the cases: in every mode each ``cases=`` is a look, unless ``name``, a
        public name of the submission (a commit, say), was scored before; then what was told is told again, whatever the
        results are now. Results are clamped to [0, 1]. ``cases`` may also be the path (a pathlib.Path) of a file that an
        eval tool wrote, a data frame, or what ``holdouts.result_files.read_results`` returned; the holdout then has ids.

        ``key`` names this request: sent again under it, the look is told once more what was told first, and never paid for
        twice; another submission under it is refused. Results without a name are known by their key.
        """
        asked = self._read_submission(
            y_pred, metric=metric, cases=cases, of=of, ids=ids, name=_public_name(name, cases, key)
        )
        mode = self._mode
        if isinstance(mode, (Gate, PrivateGate)):
            message = "this holdout is a gate: ask gate(y_pred); full scores need a holdout opened without yes="
            raise RefusedError(message)
        if threshold is not None and not isinstance(mode, Thresholdout):
            raise InvalidParameter(
                "threshold", threshold, "left out: only a private reusable holdout has one for every look"
            )
        if not isinstance(mode, (Scoring, Rounding)):
            level = None if threshold is None else round_up(probability("threshold", threshold))
            guess = self._score_training(train, cases=cases is not None, metric=metric)
            return mode.look(asked, guess=guess, threshold=level, key=key, analyst=analyst)
        if train is not None:
            raise InvalidParameter.saying("train", "train is for a reusable holdout, opened with train= and overfits=")
        return mode.look(asked, key=key, analyst=analyst)

    def compare(
        self, first: object, second: object, *, ids: object = None, key: str | None = None, analyst: str | None = None
    ) -> Score:
        """Return by how much the first submission's accuracy is above the second's: one look, narrower than two scores."""
        asked = comparison(self._cases, first, second, ids=ids)
        return self._require_scores().look(asked, key=key, analyst=analyst)

    def compare_cases(  # noqa: PLR0913 - two submissions, and whose they are
        self,
        first: object,
        second: object,
        *,
        differ: object = None,
        ids: object = None,
        name: str | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Score:
        """Return by how much the first submission's results are above the second's: one look.

        ``differ``: the cases where they can differ, True or False each, known without the results; narrower for few.
        ``name``: a public name of this pair, as in :meth:`score`; the same one again is no look.
        """
        known_as = _public_name(name, first, key)
        asked = case_comparison(self._cases, first, second, differ=differ, ids=ids, known_as=known_as)
        return self._require_scores().look(asked, key=key, analyst=analyst)

    def paired_width(self, differ: object) -> float:
        """Return how wide the interval of :meth:`compare_cases` would be at most, from where results can differ. Free."""
        nothing = np.zeros(self._cases.number)
        asked = case_comparison(self._cases, nothing, nothing, differ=differ)
        self._require_scores()
        low, high = ends_of(asked, asked.ceiling // 2, plan=self.plan, grid=self._cases.grid)
        return high - low

    def _require_scores(self) -> Scoring:
        if not isinstance(self._mode, Scoring):
            message = f"a holdout in the mode {self.facts.mode} does not compare: open one of full scores"
            raise RefusedError(message)
        return self._mode

    def named(self, y_pred: object = None, *, cases: object = None, ids: object = None, name: str | None = None) -> str:
        """Return the name that the ledger has for a submission; without the ledger's key nobody can check a guess of it.

        For results it follows from their public ``name`` alone.
        """
        asked = self._read_submission(y_pred, metric="accuracy", cases=cases, of=None, ids=ids, name=name)
        if not asked.content:
            message = "results have no name of their own: name= gives them a public one"
            raise RefusedError(message)
        return name_of(asked, self._pipeline)

    def told(self, entry: int) -> Answer | None:
        """Return what the ledger has as the answer to a look, by the entry on its certificate. Free."""
        self._pipeline.check_open()
        with self._pipeline.lock:
            transcript = Transcript(self._pipeline.ledger)
            transcript.follow()
        look = transcript.find(entry)
        return look.told if look is not None and isinstance(look.told, Answer) else None

    def gate(  # noqa: PLR0913 - a submission, and whose it is
        self,
        y_pred: object = None,
        *,
        margin: Number = 0,
        cases: object = None,
        ids: object = None,
        name: str | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Verdict:
        """Say yes or no: is this better than the incumbent by more than the margin? A yes makes it the incumbent.

        A margin below 0 asks whether it is worse by less than that, if at all. ``name``: for ``cases=``, the submission's
        public name, as in :meth:`score`; ``key`` as there. Without either they are known to nobody but as ``submission`` of
        the verdict.
        """
        gate = self._require_gate()
        asked = self._read_submission(
            y_pred, metric="accuracy", cases=cases, of=None, ids=ids, name=_public_name(name, cases, key)
        )
        if asked.name != self.facts.metric:
            raise InvalidParameter.saying(
                "cases", f"this gate was opened for {self.facts.metric}; do not mix results and predictions"
            )
        least = rational("margin", margin, expected=_MARGIN)
        if not (-1 if isinstance(gate, DepthGate) else 0) <= least < 1 or least == -1:
            raise InvalidParameter("margin", margin, _MARGIN if isinstance(gate, DepthGate) else "a number in [0, 1)")
        return gate.look(asked, margin=least, key=key, analyst=analyst)

    def certify(
        self, what: str = "score", *, of: str | None = None, key: str | None = None, analyst: str | None = None
    ) -> Score:
        """Close a gate for good, and return its incumbent's score with an interval on both sides.

        ``what``: "score", or "gain" over the incumbent that the gate was opened with. It is one certificate, named before
        it is computed; another one is refused. A gate with ``tells="bounds at the end"`` tells instead the "bound" of every
        yes, ``of`` the ``submission`` of its verdict; of the incumbent's unless given.
        """
        gate = self._require_gate()
        if not isinstance(gate, Gate):
            message = "a private gate has told its incumbent's score already"
            raise RefusedError(message)
        return gate.certify(what, of=of, key=key, analyst=analyst)

    def _require_gate(self) -> Gate | PrivateGate:
        if not isinstance(self._mode, (Gate, PrivateGate)):
            message = "this holdout gives full scores: ask score(y_pred); a gate is opened with yes="
            raise RefusedError(message)
        return self._mode

    def _read_submission(  # noqa: PLR0913 - a submission, and how to score it
        self, y_pred: object, *, metric: Metric, cases: object, of: object, ids: object, name: str | None = None
    ) -> Question:
        if (y_pred is None) == (cases is None):
            raise InvalidParameter.saying("y_pred", "y_pred must be given, or cases in its place, and not both")
        if name is not None and (cases is None or not name):
            raise InvalidParameter("name", name, "a public name in text for cases=, and left out for predictions")
        if cases is not None:
            metric = self.facts.metric if self.facts.takes_results else "cases"
            return given_cases(self._cases, cases, ids, known_as=name, metric=metric)
        return question(self._cases, y_pred, metric=metric, ids=ids, of=of)

    def _read_incumbent(self, incumbent: object, name: str | None = None) -> Question:
        if self.facts.takes_results:
            return given_cases(self._cases, incumbent, known_as=name, metric=self.facts.metric)
        return question(self._cases, incumbent, metric="accuracy")

    def _score_training(self, train: object, *, cases: bool, metric: Metric) -> float:
        """Return the score on the training cases, which are the submitter's own."""
        if train is None or (self._train is None and not cases):
            raise InvalidParameter("train", train, "the predictions for the training cases of this reusable holdout")
        if not cases and metric != "accuracy":
            raise InvalidParameter("metric", metric, "accuracy on a reusable holdout; for others give cases")
        if cases or self._train is None:
            given = np.asarray(train, dtype=np.float64)
            if given.ndim != 1 or not given.size or not ((given >= 0) & (given <= 1)).all():
                raise InvalidParameter.saying("train", "train must be results in [0, 1], one per training case")
            return float(np.rint(given * (1 << BITS)).mean()) / (1 << BITS)
        predicted = array_of("train", train)
        if predicted.size != self._train.size:
            raise InvalidParameter.saying("train", f"train has {predicted.size:,} values; expected {self._train.size:,}")
        return float(np.count_nonzero(predicted == self._train)) / predicted.size

    @property
    def looks_left(self) -> int:
        """Return how many looks are left."""
        self._pipeline.check_open()
        return self._mode.looks_left

    @property
    def budget(self) -> HoldoutBudget:
        """Return how many looks and yes are left, what is spent, and how wide what is told is. Free."""
        from holdtrue.holdouts.ledger_views import read_budget

        self._pipeline.check_open()
        return read_budget(self.ledger)

    @property
    def history(self) -> Listing[Line]:
        """Return every look and what it said, oldest first, as they stand in the ledger. Free."""
        from holdtrue.holdouts.ledger_views import list_looks

        self._pipeline.check_open()
        return list_looks(self.ledger)

    def report(self, path: str | PathLike[str]) -> None:
        """Write a page with what is promised and every look that was taken: only what was told already. Free."""
        from holdtrue.holdouts.ledger_views import make_report

        self._pipeline.check_open()
        Path(path).write_text(make_report(self.ledger, title=Path(self.path or "holdout").stem), encoding="utf-8")

    @property
    def width(self) -> str:
        """Return how wide what is told here is, in words, and what would be narrower: from public numbers. Free."""
        return say_width(self.facts, self.plan)

    @property
    def incumbent(self) -> Interval:
        """Return what is known of the true score of a gate's incumbent. Free."""
        return self._require_gate().incumbent

    @property
    def leading(self) -> str | None:
        """Return the name (see :meth:`named`) of the incumbent of a gate that is not private; None before the first.

        A gate whose ledger lasts knows its incumbent by itself. Another one over results is opened with these results as
        ``incumbent`` and their name as ``incumbent_name``: the one that they were submitted with, or this one.
        """
        gate = self._require_gate()
        return gate.leading if isinstance(gate, Gate) else None

    def scorer(self, features: object, *, metric: Metric = "accuracy") -> "Scorer":
        """Return a scorer for scikit-learn: every model is scored on this holdout, whose features are given here."""
        return Scorer(self, features, metric)

    @property
    def ledger(self) -> Ledger:
        """Return the ledger of the looks, to be read."""
        return self._pipeline.ledger

    def close(self) -> None:
        """Let go of cases and ledger; nothing is lost."""
        (getattr(self, "_mode", None) or self._pipeline).close()
        if self._store is not None:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            message = "this holdout's ledger lives in one process; give it a path, so that other processes count the same"
            raise RefusedError(message)
        return _reopen_holdout, (self._y_true, self._given | {"ledger": self.path, "analyst": self._analyst})

    def __repr__(self) -> str:
        state = "closed" if self._pipeline.closed else "durable" if self._pipeline.ledger.durable else "not durable"
        kept = "private" if self.facts.private else "not private"
        number = f"{self._cases.number:,} cases" + (f" in {self._cases.units:,} clusters" if self.facts.clusters else "")
        looks = f"{self.facts.looks:,} looks by {self.facts.mode} within ±{self.plan.alpha:.3f}"
        return f"<Holdout of {number}; {looks}, {kept}; ledger {state}>"


def _was_told(cases: Cases, ledger: str | None) -> bool:
    return was_told(cases, ledger) or were_told(cases)


def _public_name(name: str | None, results: object, key: str | None) -> str | None:
    """Return the name that results are known by: their own, else that of the request, whatever they hold."""
    return f"request {key}" if name is None and results is not None and key is not None else name


def _reopen_holdout(y_true: object, given: dict[str, Any]) -> Holdout:
    return Holdout(y_true, **given)


class Scorer:
    """Scores a fitted model on a holdout, whatever cases scikit-learn would have it scored on: one look a model.

    It is passed as ``scoring`` to a search or to cross validation; copies and worker processes share the one ledger.
    """

    def __init__(self, holdout: Holdout, features: object, metric: Metric = "accuracy") -> None:
        self.holdout, self.features, self.metric = holdout, features, metric

    def __call__(self, estimator: Any, X: object = None, y: object = None) -> float:  # noqa: ANN401, N803 - scikit-learn's
        """Return the score, the larger the better."""
        del X, y
        score = self.holdout.score(estimator.predict(self.features), metric=self.metric)
        return 1 - score.value if self.metric in ("error", "brier") else score.value
