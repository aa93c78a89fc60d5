"""A guard for graders in the style of MLE-bench: ``grade(submission, answers)`` counts its looks."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdtrue.holdouts import Holdout

__all__ = ["guard_grader"]


def guard_grader(
    holdout: "Holdout", score_rows: Callable[[Any, Any], object], *, name: Callable[[Any], str] | None = None
) -> Callable[[Any, Any], float]:
    """Return a ``grade(submission, answers)`` whose number may be shown to the agent that submits.

    The grade is 1 for yes and 0 for no where the holdout is a gate, else the score that it tells, which has an interval.
    ``score_rows`` returns a result in [0, 1] for each row of the answers, larger is better, in the order of the holdout's
    cases. It may refuse a submission only by what is public of it, such as its columns and ids. ``name`` gives a
    submission's public name: the same one again gets its grade again. Each other call is a look.
    """

    def grade(submission: Any, answers: Any) -> float:  # noqa: ANN401 - data frames
        results, known_as = score_rows(submission, answers), None if name is None else name(submission)
        if holdout.facts.yes is not None:
            return float(holdout.gate(cases=results, name=known_as).yes)
        return holdout.score(cases=results, name=known_as).value

    return grade
