"""Answers that hold for the population and keep no privacy (T9)."""

from holdtrue.bounds.accuracy import hoeffding_alpha, hoeffding_rows
from holdtrue.bounds.transcripts import rounding_alpha, rounding_rows, splitting_alpha, splitting_rows
from holdtrue.planning.tasks import Design, Method, Task

__all__ = ["NonAdaptive", "Rounding", "Splitting"]


class Splitting(Method):
    """Rows of its own for every query."""

    name = "splitting"
    theorem = "Hoeffding on disjoint parts (T9)"
    private = False
    shares = False

    def rows(self, task: Task, alpha: float) -> float:
        """Return queries times Hoeffding's number."""
        return splitting_rows(alpha, queries=task.queries, beta=task.beta)

    def design(self, task: Task, rows: int) -> Design:
        """Return the half-width of one part."""
        return Design(splitting_alpha(rows, queries=task.queries, beta=task.beta) if rows >= task.queries else float("inf"))


class Rounding(Method):
    """Answers rounded so coarsely that few transcripts exist."""

    name = "rounding"
    theorem = "description length (T9)"
    private = False
    shares = False

    def rows(self, task: Task, alpha: float) -> float:
        """Return the rows at the best number of cells."""
        return rounding_rows(alpha, queries=task.queries, beta=task.beta)

    def design(self, task: Task, rows: int) -> Design:
        """Return the half-width at the best number of cells."""
        return Design(rounding_alpha(rows, queries=task.queries, beta=task.beta))


class NonAdaptive(Method):
    """Plain sample means, for queries that were all fixed before the rows were seen."""

    name = "nonadaptive"
    theorem = "Hoeffding, queries fixed in advance (T9)"
    private = False
    adaptive = False
    shares = False

    def rows(self, task: Task, alpha: float) -> float:
        """Return Hoeffding's number for all queries at once."""
        return hoeffding_rows(alpha, beta=task.beta, queries=task.queries)

    def design(self, task: Task, rows: int) -> Design:
        """Return Hoeffding's half-width for all queries at once."""
        return Design(hoeffding_alpha(rows, beta=task.beta, queries=task.queries))
