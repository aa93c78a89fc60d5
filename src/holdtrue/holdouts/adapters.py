"""Where competitions run: a holdout behind a Kaggle metric, a CodaBench scoring program and EvalAI's ``evaluate``.

Each look is charged to a ledger. Give the holdout or the leaderboard a ledger on a disk that outlives the job: in a
container that starts afresh for every submission, a ledger inside of it counts to one and starts again.
"""

import json
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from holdtrue.errors import InvalidParameter, RefusedError
from holdtrue.holdouts.holdout import Holdout
from holdtrue.holdouts.leaderboards import Leaderboard
from holdtrue.holdouts.records import Score

__all__ = ["codabench_program", "evalai_evaluate", "kaggle_metric"]

Judge: TypeAlias = Holdout | Leaderboard


def kaggle_metric(judge: Judge, *, column: str = "label") -> Callable[..., float]:
    """Return ``score(solution, submission, row_id_column_name)``, as Kaggle calls a metric; every call is a look.

    The holdout must have been opened with the row ids of the split that is scored as ``ids``. Its own labels are used, not
    the solution's. The ledger lives where the holdout was told to keep it, and must outlive the metric's sandbox.
    """

    def score(solution: Any, submission: Any, row_id_column_name: str) -> float:  # noqa: ANN401 - data frames
        del solution
        return _judge_submission(judge, submission[column], submission[row_id_column_name], team="submission").value

    return score


def codabench_program(
    judge: Callable[[Path], Judge],
    *,
    read: Callable[[Path], object],
    folder: str | PathLike[str] = "/app",
    team: str = "submission",
) -> dict[str, float]:
    """Run as a CodaBench scoring program: labels from input/ref, predictions from input/res, scores to output/scores.json.

    ``judge`` opens the holdout or leaderboard from the reference folder, and ``read`` finds the predictions. The program's
    container is thrown away, so the ledger must live elsewhere: a PostgreSQL address, or a volume of the host's own worker.
    Fails: whatever the holdout refuses; no scores are written then.
    """
    place = Path(folder)
    with judge(place / "input" / "ref") as opened:
        scores = _numbers(_judge_submission(opened, read(place / "input" / "res"), None, team=team))
    (place / "output" / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
    return scores


def evalai_evaluate(
    judges: Mapping[str, Judge],
    *,
    read: Callable[[Path], object],
    split: str = "test_split",
    team: str = "participant_team_name",
) -> Callable[..., dict[str, Any]]:
    """Return EvalAI's ``evaluate(test_annotation_file, user_annotation_file, phase_codename)``, a holdout for each phase.

    The labels are the holdouts' own, not the annotation file's. ``split`` is the dataset split's code name, ``team`` the
    field of the submission's metadata that says whose it is: the team's name, or ``participant_team``, its number. The
    ledger lives on the evaluation worker: a path that stays when the worker starts again, or a PostgreSQL address.
    """

    def evaluate(
        test_annotation_file: str, user_annotation_file: str, phase_codename: str, **details: object
    ) -> dict[str, Any]:
        del test_annotation_file
        if phase_codename not in judges:
            raise InvalidParameter("phase_codename", phase_codename, f"one of {sorted(judges)}")
        # EvalAI's worker passes submission_metadata=SubmissionSerializer(submission).data (Cloud-CV/EvalAI,
        # scripts/workers/submission_worker.py); its fields are listed in apps/jobs/serializers.py.
        known = details.get("submission_metadata")
        who = str(known.get(team, "submission")) if isinstance(known, Mapping) else "submission"
        told = _judge_submission(judges[phase_codename], read(Path(user_annotation_file)), None, team=who)
        return {"result": [{split: _numbers(told)}]}

    return evaluate


def _judge_submission(judge: Judge, predictions: object, ids: object, *, team: str) -> Score:
    if isinstance(judge, Leaderboard):
        return judge.submit(team, predictions, ids=ids)
    if judge.facts.mode in ("gate", "private gate"):
        message = "a gate shows no score: a competition needs a holdout of full scores, or a leaderboard"
        raise RefusedError(message)
    return judge.score(predictions, ids=ids)


def _numbers(told: Score) -> dict[str, float]:
    """Return what a leaderboard's columns show: score and interval, and how many looks are left."""
    ends = {} if told.interval is None else {"low": told.interval.low, "high": told.interval.high}
    return {"score": told.value} | ends | {"looks_left": float(told.looks_left)}
