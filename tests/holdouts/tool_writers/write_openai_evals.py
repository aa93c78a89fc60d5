"""Write an event log with the recorder of OpenAI evals: samplings, matches, and a sample that crashed before its match."""

import os
import sys
from pathlib import Path

os.environ["OPENAI_API_KEY"] = "none"  # asked for on import, and never used

from evals.base import RunSpec
from evals.record import LocalRecorder
from sums import MODELS, NUMBERS, answer, crashes, question, reply


def main(out):
    for model in MODELS:
        spec = RunSpec(
            completion_fns=[model],
            eval_name="sums.dev.v0",
            base_eval="sums",
            split="dev",
            run_config={},
            created_by="",
            run_id=f"run-{model}",
            created_at="",
        )
        recorder = LocalRecorder(str(out / f"openai_evals_{model}.jsonl"), run_spec=spec)
        for number in NUMBERS:
            with recorder.as_default_recorder(f"sums.dev.{number}"):
                said = "" if crashes(model, number) else reply(model, number)
                recorder.record_sampling(prompt=question(number), sampled=[said])
                if not crashes(model, number):
                    recorder.record_match(said == answer(number), expected=answer(number), picked=said)
        recorder.record_final_report({"accuracy": 0.5})
        recorder.flush_events()


main(Path(sys.argv[1]).absolute())
