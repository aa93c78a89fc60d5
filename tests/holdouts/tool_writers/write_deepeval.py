"""Run DeepEval on six sums with two metrics of our own, one of which raises where a model crashes."""

import os
import shutil
import sys
from pathlib import Path

os.environ |= {"DEEPEVAL_TELEMETRY_OPT_OUT": "YES"}

from deepeval import evaluate
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig, ErrorConfig
from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase
from sums import MODELS, NUMBERS, answer, crashes, question, reply


class Exact(BaseMetric):
    threshold, async_mode = 0.5, False

    def measure(self, test_case, *_, **__):
        if test_case.actual_output == "crash":
            message = "the tool broke"
            raise RuntimeError(message)
        self.score = float(test_case.actual_output == test_case.expected_output)
        self.success = self.score >= self.threshold
        return self.score

    async def a_measure(self, test_case, *_, **__):
        return self.measure(test_case)

    def is_successful(self):
        return bool(self.success)

    @property
    def __name__(self):
        return "Exact"


class Short(Exact):
    def measure(self, test_case, *_, **__):
        self.score, self.success = 1.0 if len(test_case.actual_output) < 5 else 0.25, True
        return self.score

    @property
    def __name__(self):
        return "Short"


def main(out):
    for model in MODELS:
        os.environ["DEEPEVAL_RESULTS_FOLDER"] = str(out / model)
        cases = [
            LLMTestCase(
                name=f"sum-{number}",
                input=question(number),
                actual_output="crash" if crashes(model, number) else reply(model, number),
                expected_output=answer(number),
            )
            for number in NUMBERS
        ]
        evaluate(
            test_cases=cases,
            metrics=[Exact(), Short()],
            async_config=AsyncConfig(run_async=False),
            display_config=DisplayConfig(print_results=False, show_indicator=False),
            error_config=ErrorConfig(ignore_errors=True),
            cache_config=CacheConfig(write_cache=False),
        )
        (made,) = (out / model).glob("test_run_*.json")
        shutil.copy(made, out / f"deepeval_{model}.json")


main(Path(sys.argv[1]).absolute())
