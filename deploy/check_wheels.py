# ruff: noqa: INP001 - a program, not a package
"""Say for which Pythons and systems every dependency has a wheel: `make wheels`. Needs the package index."""

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
SYSTEMS = {
    "Linux x86-64": ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    "Linux arm64": ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"),
    "macOS arm64": ("macosx_14_0_arm64", "macosx_12_0_arm64", "macosx_11_0_arm64", "macosx_10_13_universal2"),
    "Windows x86-64": ("win_amd64",),
}
EXTRAS = ("server", "postgres", "plots")


def list_requirements(system: str) -> list[str]:
    """Return what Holdtrue needs on a system: pip reads markers by its own system, not by the one it is asked about."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = [*project["dependencies"], *[each for extra in EXTRAS for each in project["optional-dependencies"][extra]]]
    return [each for each in listed if not (system.startswith("Windows") and "win32" in each)]


def has_wheels(version: str, system: str) -> bool:
    """Return whether pip finds a wheel of everything for a Python on a system."""
    platforms = [word for each in SYSTEMS[system] for word in ("--platform", each)]
    with tempfile.TemporaryDirectory() as target:
        call = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--target", target]
        call += ["--python-version", version, *platforms, "--only-binary=:all:", *list_requirements(system)]
        return subprocess.run(call, capture_output=True, check=False).returncode == 0  # noqa: S603 - pip


def main() -> None:
    """Print a line for each Python on each system; leave with 1 if a wheel is missing."""
    missing = 0
    for version in VERSIONS:
        for system in SYSTEMS:
            found = has_wheels(version, system)
            missing += not found
            print(f"Python {version}  {system:14}  {'all wheels' if found else 'A WHEEL IS MISSING'}", flush=True)  # noqa: T201
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
