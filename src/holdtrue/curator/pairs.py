"""The verbs of a curator whose answers are not means of rows: variance, covariance, correlation, AUC and their like (U5)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from holdtrue.curator.pipeline import Pipeline
from holdtrue.exact import Number
from holdtrue.planning.plans import AnyPlan
from holdtrue.records import Statistic
from holdtrue.requests import Auc, Correlation, Covariance, Gini, Pairs, Ratio, RSquared, Variance
from holdtrue.verbs.asking import QuestionRule

if TYPE_CHECKING:
    from holdtrue.hypotheses.classes import HypothesisClass
    from holdtrue.verbs.pairs import StatisticRequest
    from holdtrue.verbs.statistic_tasks import StatisticPrice

__all__ = ["PairVerbs"]

# ruff: noqa: PLR0913 - one request, and who makes it


class PairVerbs:
    """What a curator answers about pairs of rows.

    Guarantee: as for :meth:`Curator.ask`, at once with all other answers (U5, S1); values below ``low`` count as low, above
    ``high`` as high, and missing ones as low. Failure: BudgetExceeded with nothing spent.
    """

    pipeline: Pipeline
    plan: AnyPlan
    _asking: QuestionRule

    def variance(
        self, column: str, *, low: Number, high: Number, key: str | None = None, analyst: str | None = None
    ) -> Statistic:
        """Return the variance of a column of numbers in the square of its own units, for the price of one question.

        One row moves it by at most (high - low)^2 / rows.
        """
        return self.find_statistic(Variance(column=column, low=low, high=high), key=key, analyst=analyst)  # type: ignore[arg-type]

    def covariance(
        self,
        first: str,
        second: str,
        *,
        bounds: Mapping[str, tuple[Number, Number]] | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Statistic:
        """Return the covariance of two columns of numbers, for the price of one question.

        ``bounds`` has the public ends of each column, low and high; those on the card unless given.
        """
        request = Covariance(first=first, second=second, bounds=bounds)  # type: ignore[arg-type]  # numbers of any kind
        return self.find_statistic(request, key=key, analyst=analyst)

    def correlation(
        self,
        first: str,
        second: str,
        *,
        bounds: Mapping[str, tuple[Number, Number]] | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Statistic:
        """Return the correlation of two columns, from their covariance and variances, for three questions at most.

        ``parts`` has these three, which are answers of their own: what was asked before is not paid for again. Where a
        variance may be 0, an end is -1 or 1, and the reason says so.
        """
        request = Correlation(first=first, second=second, bounds=bounds)  # type: ignore[arg-type]  # numbers of any kind
        return self.find_statistic(request, key=key, analyst=analyst)

    def r_squared(
        self,
        prediction: str,
        target: str,
        *,
        low: Number,
        high: Number,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Statistic:
        """Return the share of the target's variance that a column of predictions explains, for two questions at most.

        It is 1 - mean squared error / variance, told as -1 where it is below -1; both are in ``parts``.
        """
        request = RSquared(prediction=prediction, target=target, low=low, high=high)  # type: ignore[arg-type]
        return self.find_statistic(request, key=key, analyst=analyst)

    def gini(
        self, column: str, *, low: Number, high: Number, key: str | None = None, analyst: str | None = None
    ) -> Statistic:
        """Return the Gini coefficient of a column of numbers from 0 up, for the price of two questions at most.

        ``parts`` has the mean difference of two rows, over all pairs of them, and the mean. Differences are counted in 1,024
        steps between low and high.
        """
        return self.find_statistic(Gini(column=column, low=low, high=high), key=key, analyst=analyst)  # type: ignore[arg-type]

    def ratio(
        self,
        numerator: str,
        denominator: str,
        *,
        cap: int,
        low: Number = 0,
        high: Number = 1,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Statistic:
        """Return a ratio of sums over the rows of units, ``ratio("visits.COUNT(urgent)", "visits.COUNT(*)", cap=20)``.

        It is for a random visit, counting at most 20 for each person, and costs two questions. Each person's own ratio
        counts within ``low`` and ``high``, over all their rows: ``ratio("visits.SUM(cost)", "visits.COUNT(*)", cap=20,
        high=1000)``. ``parts`` has both sums for each person. The ratio of all rows, without a cap, is off by at most the
        share of rows beyond the cap, of which rows say nothing (U4).
        """
        request = Ratio(numerator=numerator, denominator=denominator, cap=cap, low=low, high=high)  # type: ignore[arg-type]
        return self.find_statistic(request, key=key, analyst=analyst)

    def auc(
        self,
        score: str,
        label: str,
        *,
        low: Number | None = None,
        high: Number | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Statistic:
        """Return how often a score orders two rows of unlike labels rightly, for the price of two questions.

        Scores are counted in 1,024 steps from ``low`` to ``high``, the card's bounds or else 0 and 1; ties count half, and a
        missing label counts no. ``parts`` has the shares of rightly and of wrongly ordered pairs.
        """
        request = Auc(score=score, label=label, low=low, high=high)  # type: ignore[arg-type]  # numbers of any kind
        return self.find_statistic(request, key=key, analyst=analyst)

    def pairs(
        self, kernel: str, *, low: Number = 0, high: Number = 1, key: str | None = None, analyst: str | None = None
    ) -> Statistic:
        """Return the mean of an expression in two rows, such as ``abs(a.income - b.income)``, for one question.

        It counts within ``low`` and ``high``, a missing value as low, over pairs of rows that are neighbours in an order
        which is drawn at random: each row is in two pairs, so that one row moves it by at most 2 (high - low) / rows, and
        less where the expression itself spans less. Nothing rests on how rows are stored.
        Failure: NotCertified on Spark, whose rows are not in this process.
        """
        return self.find_statistic(Pairs(kernel=kernel, low=low, high=high), key=key, analyst=analyst)  # type: ignore[arg-type]

    def best_error(
        self,
        hypotheses: "HypothesisClass | Sequence[HypothesisClass]",
        *,
        target: str,
        features: Sequence[str] | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Statistic:
        """Return how seldom the best hypothesis of a finite class errs on these rows, for the price of one question.

        Its interval is for samples of this size: on average the best of a class errs no more often on a sample than in the
        population, so that the lower end bounds the error of every hypothesis of the class from below (U5). Classes and
        features are those of :meth:`Curator.learn`.
        """
        from holdtrue.verbs.learning import LearningTask, bound_best_error

        self.pipeline.check_open()
        task = LearningTask.of(self.pipeline, hypotheses, target=target, features=features, weights=None)
        return bound_best_error(task, self._asking, key=key, analyst=analyst)

    def find_statistic(
        self, request: "StatisticRequest", *, key: str | None = None, analyst: str | None = None
    ) -> Statistic:
        """Return the statistic that a record asks for: ``Variance(column="bmi", low=14, high=60)``."""
        from holdtrue.verbs.pairs import find_statistic

        self.pipeline.check_open()
        return find_statistic(self.pipeline, self._asking, request, key=key, analyst=analyst)

    def preview_statistic(self, request: "StatisticRequest") -> "StatisticPrice":
        """Return what a statistic would cost, and how wide it would be. Free; no row is read."""
        from holdtrue.verbs.pairs import preview_statistic

        self.pipeline.check_open()
        with self.pipeline.lock_index() as index:
            standing = index.standing()
        left = self.plan.cap_units - standing.spent
        return preview_statistic(self.pipeline, self._asking, request, standing=standing, left=left)
