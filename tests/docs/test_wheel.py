"""The way to install that README tells for other machines: a wheel that is built once, whole, and enough by itself."""

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD, INSTALL, SERVER = (
    "pip wheel . --no-deps -w dist",
    "pip install dist/holdtrue-*.whl",
    '"$(ls dist/holdtrue-*.whl)[server]"',
)


def run(*words, cwd):
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(words, cwd=cwd, env=clean, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build it as README says, but from what is installed here, so that no network is needed."""
    dist = tmp_path_factory.mktemp("built") / "dist"
    words = BUILD.replace("-w dist", f"-w {dist}").split()
    run(sys.executable, "-m", *words, "--no-build-isolation", "--quiet", cwd=ROOT)
    (built,) = dist.glob("holdtrue-*.whl")
    return built


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/operate.md", "docs/how-to/ci-gate.md"])
def test_the_pages_build_and_install_it_in_one_way(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert BUILD in text
    assert INSTALL in text or SERVER in text


def test_the_wheel_has_every_file_of_the_package_and_every_extra_that_readme_names(wheel):
    tracked = run("git", "ls-files", "src/holdtrue", cwd=ROOT).split()
    with zipfile.ZipFile(wheel) as held:
        assert {path.removeprefix("src/") for path in tracked} <= set(held.namelist())
        (place,) = (name for name in held.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = held.read(place).decode()
    named = re.search(r"further extras are ([^.]*)\.", (ROOT / "README.md").read_text(encoding="utf-8"))[1]
    wanted = {"server", *re.findall(r"`(\w+)`", named)}
    assert wanted <= set(re.findall(r"^Provides-Extra: (\S+)$", metadata, re.MULTILINE))


def test_a_question_is_asked_where_only_the_wheel_was_installed(wheel, tmp_path):
    """The packages that it needs are found where this test finds them; Holdtrue itself is the wheel's."""
    run(sys.executable, "-m", "venv", "--without-pip", "there", cwd=tmp_path)
    there = tmp_path / "there" / "bin"
    pip = (sys.executable, "-m", "pip", "--python", str(there / "python"), "--quiet")
    run(*pip, "install", "--no-deps", "--no-index", f"{wheel}[server]", cwd=tmp_path)
    script = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(run(str(there / "python"), "-c", script, cwd=tmp_path).strip())
    (site / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    place = run(str(there / "python"), "-c", "import holdtrue; print(holdtrue.__file__)", cwd=tmp_path).strip()
    assert Path(place).is_relative_to(site)
    (tmp_path / "people.csv").write_text("age\n" + "".join(f"{place % 90}\n" for place in range(2_000)), encoding="utf-8")
    command = str(there / "holdtrue")
    run(command, "open", "people.csv", "--queries", "20", "--epsilon", "1", "--delta", "1e-6", "--iid", cwd=tmp_path)
    assert "19 of 20 questions" in run(command, "ask", "people.csv", "age > 44", cwd=tmp_path)
    assert "advanced-composition" in run(command, "theorem", cwd=tmp_path)  # its list is a file beside the code
