"""Run lm-evaluation-harness on six sums, a local task with two filters and a model of our own."""

import json
import shutil
import sys
from pathlib import Path

import lm_eval
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager
from sums import MODELS, NUMBERS, answer, crashes, number_of, question, reply

TASK = """
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: FOLDER/sums.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["\\n"], do_sample: false}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
filter_list:
  - name: strict-match
    filter: [{function: regex, regex_pattern: "^(\\\\d+)$"}, {function: take_first}]
  - name: flexible-extract
    filter: [{function: regex, regex_pattern: "(\\\\d+)"}, {function: take_first}]
"""


class Speaker(LM):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def loglikelihood(self, requests):
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood

    def generate_until(self, requests):
        numbers = [number_of(request.args[0]) for request in requests]
        return ["" if crashes(self.model, number) else reply(self.model, number) for number in numbers]


def main(out):
    tasks = out / "tasks"
    tasks.mkdir()
    lines = [json.dumps({"question": question(number), "answer": answer(number)}) for number in NUMBERS]
    (tasks / "sums.jsonl").write_text("\n".join(lines) + "\n")
    (tasks / "sums.yaml").write_text(TASK.replace("FOLDER", str(tasks)))
    for model in MODELS:
        tracker = EvaluationTracker(output_path=str(out / "logs"))
        tracker.general_config_tracker.model_name_sanitized = model
        manager = TaskManager(include_path=str(tasks))
        found = lm_eval.simple_evaluate(
            model=Speaker(model), tasks=["sums"], task_manager=manager, log_samples=True, bootstrap_iters=0
        )
        samples = found.pop("samples")
        tracker.save_results_aggregated(results=found, samples=samples)
        tracker.save_results_samples(task_name="sums", samples=samples["sums"])
        (made,) = (out / "logs" / model).glob("samples_sums_*.jsonl")
        shutil.copy(made, out / f"lm_eval_{model}.jsonl")


main(Path(sys.argv[1]).absolute())
