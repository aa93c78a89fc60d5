"""Forms that other tools take: a Kaggle metric, a CodaBench program, EvalAI's ``evaluate``, an Every Eval Ever score.

Each look of a competition is charged to a ledger. Give the holdout or the leaderboard a ledger on a disk that outlives the
job: in a container that starts afresh for every submission, a ledger inside of it counts to one and starts again. A score
as an aggregate of Every Eval Ever (schema 0.3) has the holdout's interval as its uncertainty.
"""

import json
import time
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

from holdtrue.entropy import SYSTEM
from holdtrue.errors import InvalidParameter, RefusedError
from holdtrue.holdouts.holdout import Holdout
from holdtrue.holdouts.leaderboards import Leaderboard
from holdtrue.holdouts.records import Score
from holdtrue.holdouts.result_files import Results

__all__ = ["codabench_program", "evalai_evaluate", "kaggle_metric", "place_aggregate", "write_aggregate"]

Judge: TypeAlias = Holdout | Leaderboard

_SCHEMA = "0.3.0"
_UNKNOWN = dict.fromkeys(("deployment_type", "model_availability"), "unknown")


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


def place_aggregate(folder: Path, *, model: str, evaluation: str) -> Path:
    """Return where Every Eval Ever has an aggregate: data/evaluation/developer/model/uuid.json, and make the folders."""
    developer, _, name = model.partition("/")
    if not folder.is_dir() or not all(
        part and part.strip(".") and "/" not in part for part in (developer, name, evaluation)
    ):
        raise InvalidParameter.saying(
            "model", "an Every Eval Ever aggregate needs a folder that exists, and a model such as developer/name"
        )
    place = folder / "data" / evaluation / developer / name
    try:
        place.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError):
        raise InvalidParameter.without_value("--write-every-eval-ever", "a folder that can be written to") from None
    return place / f"{UUID(bytes=SYSTEM.words(2).tobytes(), version=4)}.json"


def write_aggregate(place: Path, score: Score, results: Results, *, model: str, evaluation: str) -> None:
    """Write what :func:`describe_score` returns."""
    document = describe_score(score, results, model=model, evaluation=evaluation)
    place.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def describe_score(score: Score, results: Results, *, model: str, evaluation: str) -> dict[str, Any]:
    """Return an aggregate: what was told of a submission, and nothing else about the cases.

    ``model`` is the model's id as Every Eval Ever has it ("developer/name"), ``evaluation`` the name of the eval set.
    """
    made = str(int(time.time()))
    described: dict[str, Any] = {
        "score": score.value,
        "details": _describe_look(score),
        "uncertainty": _describe_ends(score),
    }
    described["uncertainty"]["num_samples"] = results.number
    metric = {"metric_name": results.metric, "lower_is_better": False, "score_type": "continuous"}
    result = {
        "evaluation_name": evaluation,
        "source_data": {"dataset_name": evaluation, "source_type": "other"},
        "metric_config": metric | {"min_score": 0.0, "max_score": 1.0},
        "score_details": described,
    }
    return {
        "schema_version": _SCHEMA,
        "evaluation_id": f"{evaluation}/{model.replace('/', '_')}/{made}",
        "retrieved_timestamp": made,
        "source_metadata": {
            "source_name": "Holdtrue",
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": results.tool, "version": "unknown"},
        "model_info": {"name": model, "id": model, "additional_details": _UNKNOWN},
        "evaluation_results": [result],
    }


def _describe_look(score: Score) -> dict[str, str]:
    """Return the look's facts, all as text: what the interval is about, and where the ledger has it."""
    words = {"about": score.about, "looks": str(score.looks), "private": str(score.private).lower()}
    return words | {"ledger_entry": str(score.certificate.entry), "ledger_digest": score.certificate.digest}


def _describe_ends(score: Score) -> dict[str, Any]:
    ends = score.interval
    if ends is None:
        return {}
    method = f"Holdtrue: {score.certificate.theorem}; holds for all {score.looks:,} adaptive looks at once"
    return {
        "confidence_interval": {
            "lower": ends.low,
            "upper": ends.high,
            "confidence_level": ends.confidence,
            "method": method,
        }
    }
