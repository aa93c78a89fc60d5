"""Run inspect_ai on six sums with its mock model: two epochs, grades C, I, P and N, one sample that raises."""

import sys
from pathlib import Path

from inspect_ai import Task, eval  # noqa: A004 - inspect's own name
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import CORRECT, INCORRECT, NOANSWER, PARTIAL, Score, accuracy, scorer
from inspect_ai.solver import generate, solver
from sums import MODELS, NUMBERS, answer, crashes, number_of, question, reply


@scorer(metrics=[accuracy()])
def graded():
    async def score(state, target):
        said = state.output.completion
        value = CORRECT if said == target.text else PARTIAL if said.startswith(target.text) else INCORRECT
        return Score(value=NOANSWER if said == "no" else value, answer=said)

    return score


@solver
def prepare(model):
    """Break where the model is to crash; otherwise tell it which attempt this is."""

    async def solve(state, _):
        if crashes(model, number_of(state.input_text)):
            message = "the tool broke"
            raise RuntimeError(message)
        state.user_prompt.text = f"{state.input_text} attempt {state.epoch}"
        return state

    return solve


def reply_as(model):
    def respond(given, tools, tool_choice, config):
        del tools, tool_choice, config
        text, _, attempt = given[-1].text.partition(" attempt ")
        made = ModelOutput.from_content(f"mockllm/{model}", reply(model, number_of(text), int(attempt)))
        made.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return made

    return respond


def main(out):
    samples = [Sample(id=f"sum-{number}", input=question(number), target=answer(number)) for number in NUMBERS]
    for model in MODELS:
        task = Task(
            dataset=MemoryDataset(samples, name="sums"),
            solver=[prepare(model), generate()],
            scorer=graded(),
            name="sums",
        )
        mock = get_model(f"mockllm/{model}", custom_outputs=reply_as(model))
        (log,) = eval(task, model=mock, epochs=2, log_dir=str(out / "logs"), display="none", fail_on_error=False)
        held = read_eval_log(log.location)
        for sample in held.samples:  # what is large or names this machine; the rest is as the run left it
            sample.events, sample.attachments, sample.messages = [], {}, []
            if sample.error is not None:
                sample.error.traceback = sample.error.traceback_ansi = ""
        for suffix in ("eval", "json"):
            write_eval_log(held, str(out / f"inspect_{model}.{suffix}"), format=suffix)


main(Path(sys.argv[1]).absolute())
