"""A guard for SkillOpt: a skill that its ``evaluate_gate`` would accept is accepted only by a gate over other cases."""

from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any

from holdtrue.guards import name_candidate, promote

if TYPE_CHECKING:
    from holdtrue.exact import Number
    from holdtrue.holdouts import Holdout

__all__ = ["guard_skills"]

_UNCHANGED = ("current_skill", "current_score", "best_skill", "best_score", "best_step")


def guard_skills(
    evaluate_gate: Callable[..., Any], gate: "Holdout", run_cases: Callable[[str], object], *, margin: "Number" = 0
) -> Callable[..., Any]:
    """Return a function to take the place of SkillOpt's ``evaluate_gate``, with its signature and its ``GateResult``.

    SkillOpt's own function compares mean scores on the selection set, which the trainer prints and reflects on. What it
    rejects stays rejected, and costs no look. What it accepts is run on the gate's cases by ``run_cases``, one result in
    [0, 1] per case, and rejected all the same unless the gate says yes.
    """

    def evaluate_guarded(*values: object, **named: object) -> Any:  # noqa: ANN401 - SkillOpt's GateResult
        found = evaluate_gate(*values, **named)
        if found.action == "reject":
            return found
        given = signature(evaluate_gate).bind(*values, **named).arguments
        skill = given["candidate_skill"]
        if promote(gate, run_cases(skill), name=name_candidate(skill), margin=margin):
            return found
        return replace(found, action="reject", **{name: given[name] for name in _UNCHANGED})

    return evaluate_guarded
