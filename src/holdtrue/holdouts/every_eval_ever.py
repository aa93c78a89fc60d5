"""A score as an aggregate of Every Eval Ever (schema 0.3), with the holdout's interval as its uncertainty."""

import json
import time
from pathlib import Path
from typing import Any
from uuid import UUID

from holdtrue.entropy import SYSTEM
from holdtrue.errors import InvalidParameter
from holdtrue.holdouts.records import Score
from holdtrue.holdouts.result_files import Results

__all__ = ["describe_score", "place_aggregate", "write_aggregate"]

_SCHEMA = "0.3.0"
_UNKNOWN = dict.fromkeys(("deployment_type", "model_availability"), "unknown")


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
