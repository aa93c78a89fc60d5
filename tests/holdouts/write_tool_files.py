"""Run the eval tools themselves and write tests/holdouts/tool_files.

``python tests/holdouts/write_tool_files.py [TOOL ...]``, from any Python; all tools unless some are named.
Each tool gets a virtual environment of its own under ``--folder`` (/tmp/holdtrue-eval-tools), never in this repository. What
they wrote last, by which version, stands in tool_files/README.md. Needs the package index; promptfoo needs npm, Every Eval
Ever Python 3.12 and the logs of inspect_ai that were written before it.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
WRITERS, FILES = HERE / "tool_writers", HERE / "tool_files"
sys.path.insert(0, str(WRITERS))
from sums import MODELS, NUMBERS, answer, crashes, question, reply  # noqa: E402 - shared with the tools' own environments

CPU_TORCH = "torch==2.13.0+cpu"  # of the usual builds only those for graphics cards are larger
PACKAGES = {
    "inspect_ai": ["inspect_ai==0.3.285"],
    "lm_eval": ["lm_eval==0.4.13"],
    "deepeval": ["deepeval==4.3.1"],
    "langsmith": ["langsmith==0.14.17", "pandas==3.1.1", "pyarrow==26.0.1"],
    "mlflow": ["mlflow==3.17.2"],
    "lighteval": [CPU_TORCH, "lighteval==0.13.0", "xxhash==3.5.0"],
    "helm": [CPU_TORCH, "crfm-helm==0.5.16"],
    "openai_evals": [
        "backoff",
        "blobfile",
        "lz4",
        "openai",
        "pandas",
        "pyyaml",
        "pyzstd",
        "requests",
        "tiktoken",
        "tqdm",
        "zstandard",
    ],
    "every_eval_ever": ["every_eval_ever[inspect]==0.3.0"],
}
ALONE = {"openai_evals": ["evals==3.0.1.post1"]}  # without its dependencies, of which the recorder needs few
PROMPTFOO = "promptfoo@0.121.20"
RUNS = (  # what promptfoo writes, of whom, how often it asks
    ("first.jsonl", ["first"], 2),
    ("second.jsonl", ["second"], 2),
    ("both.json", MODELS, 1),
    ("first.junit.xml", ["first"], 1),
    ("second.junit.xml", ["second"], 1),
)


def run(*words, **given):
    subprocess.run([str(word) for word in words], check=True, **given)  # noqa: S603 - the tools of this list


def make_environment(folder, tool, python=sys.executable):
    """Return the Python of a tool's environment, made and filled on first use."""
    place = folder / tool
    made = place / "bin" / "python"
    if not made.exists():
        run(python, "-m", "venv", place)
        run(made, "-m", "pip", "install", "-q", *PACKAGES[tool])
        if tool in ALONE:
            run(made, "-m", "pip", "install", "-q", "--no-deps", *ALONE[tool])
    return made


def write_files(folder, tool):
    python, out = make_environment(folder, tool), folder / f"{tool}-out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    run(python, WRITERS / f"write_{tool}.py", out, cwd=out)
    return sorted(out.glob(f"*_{MODELS[0]}.*")) + sorted(out.glob(f"*_{MODELS[1]}.*"))


def write_promptfoo(folder):
    """Run promptfoo with a provider of our own: two repeats as JSON lines and JUnit for each model, both in one JSON."""
    place = folder / "promptfoo"
    place.mkdir(exist_ok=True)
    if not (place / "node_modules").exists():
        run("npm", "install", "--silent", PROMPTFOO, cwd=place)
    said = {
        model: {
            number: [None if crashes(model, number) else reply(model, number, attempt) for attempt in (1, 2)]
            for number in NUMBERS
        }
        for model in MODELS
    }
    code = (WRITERS / "promptfoo_provider.js").read_text().replace("REPLIES = {}", f"REPLIES = {json.dumps(said)}")
    (place / "provider.js").write_text(code)
    tests = [
        {"vars": {"number": number, "question": question(number)}, "assert": [{"type": "equals", "value": answer(number)}]}
        for number in NUMBERS
    ]
    return [_run_promptfoo(place, tests, *each) for each in RUNS]


def _run_promptfoo(place, tests, name, models, repeats):
    providers = [{"id": "file://provider.js", "label": model, "config": {"model": model}} for model in models]
    config = {"description": "sums", "prompts": ["{{question}}"], "providers": providers, "tests": tests}
    (place / "config.json").write_text(json.dumps(config))
    out = place / f"promptfoo_{name}"
    words = ["eval", "-c", "config.json", "-o", out, "--no-cache", "--repeat", repeats, "-j", 1, "--no-progress-bar"]
    settings = {"PROMPTFOO_CONFIG_DIR": str(place / "settings"), "PROMPTFOO_FAILED_TEST_EXIT_CODE": "0"}
    settings |= dict.fromkeys(("PROMPTFOO_DISABLE_TELEMETRY", "PROMPTFOO_DISABLE_UPDATE"), "1")
    done = subprocess.run(  # noqa: S603 - promptfoo
        [place / "node_modules" / ".bin" / "promptfoo", *map(str, words)],
        cwd=place,
        env={"PATH": os.environ["PATH"], "HOME": str(place)} | settings,
        check=False,  # a case that failed is none of ours
    )
    if not out.exists():
        message = f"promptfoo wrote nothing and left with {done.returncode}"
        raise RuntimeError(message)
    return out


def write_every_eval_ever(folder, python):
    """Convert the logs of inspect_ai, one aggregate and one file of samples each; only the latter is kept."""
    made_with, out = make_environment(folder, "every_eval_ever", python), folder / "every_eval_ever-out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    made = []
    for model in MODELS:
        log = out / f"inspect_{model}.json"  # a developer's name is asked for, and the mock model has none
        log.write_text((FILES / log.name).read_text(encoding="utf-8").replace("mockllm/", "openai/gpt-"), encoding="utf-8")
        words = ["--log_path", log, "--output_dir", out / model]
        words += ["--source_organization_name", "none", "--evaluator_relationship", "other"]
        run(made_with, "-m", "every_eval_ever", "convert", "inspect", *words, cwd=folder)
        (samples,) = (out / model).rglob("*_samples.jsonl")
        made.append(shutil.copy(samples, out / f"every_eval_ever_{model}.jsonl"))
    return made


def validate_aggregate(folder, python, path):
    """Have every_eval_ever validate what ``holdtrue score --write-every-eval-ever`` wrote."""
    run(make_environment(folder, "every_eval_ever", python), "-m", "every_eval_ever", "validate", path)


def keep_file(made):
    """Copy a file into the repository, without what names this machine; archives hold no such thing."""
    place = FILES / Path(made).name
    if place.suffix in (".eval", ".parquet"):
        shutil.copy(made, place)
        return
    text = re.sub(r"(/tmp|/root|/home)/[^\s\"']*", "/path", Path(made).read_text(encoding="utf-8"))
    place.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tools", nargs="*", default=[*PACKAGES, "promptfoo"])
    parser.add_argument("--folder", type=Path, default=Path("/tmp/holdtrue-eval-tools"))  # noqa: S108 - of this script alone
    parser.add_argument("--newer-python", default="python3.12", help="for Every Eval Ever, which needs 3.12")
    parser.add_argument("--validate", type=Path, help="an aggregate that Holdtrue wrote, for every_eval_ever to validate")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    FILES.mkdir(exist_ok=True)
    if given.validate is not None:
        validate_aggregate(given.folder, given.newer_python, given.validate)
        return
    for tool in given.tools:
        match tool:
            case "promptfoo":
                made = write_promptfoo(given.folder)
            case "every_eval_ever":
                made = write_every_eval_ever(given.folder, given.newer_python)
            case _:
                made = write_files(given.folder, tool)
        for path in made:
            keep_file(path)


if __name__ == "__main__":
    main()
