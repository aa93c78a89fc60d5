"""Write details with lighteval's own tracker: two metrics for each of six sums."""

import shutil
import sys
from pathlib import Path

from lighteval.logging.evaluation_tracker import EvaluationTracker
from lighteval.models.abstract_model import ModelConfig
from lighteval.models.model_output import ModelResponse
from lighteval.tasks.requests import Doc
from sums import MODELS, NUMBERS, answer, crashes, question, reply


def main(out):
    for model in MODELS:
        tracker = EvaluationTracker(output_dir=str(out / "logs"), save_details=True)
        tracker.general_config_logger.model_name = model
        tracker.general_config_logger.model_config = ModelConfig(model_name=model)
        for number in NUMBERS:
            doc = Doc(query=question(number), choices=[answer(number)], gold_index=0, id=str(number), task_name="sums|0")
            said = "" if crashes(model, number) else reply(model, number)
            metrics = {"em": int(said == answer(number)), "prefix": float(said.startswith(answer(number)))}
            tracker.details_logger.log("sums|0", doc, ModelResponse(text=[said]), metrics)
        tracker.save()
        (made,) = (out / "logs" / "details" / model).rglob("details_*.parquet")
        shutil.copy(made, out / f"lighteval_{model}.parquet")


main(Path(sys.argv[1]).absolute())
