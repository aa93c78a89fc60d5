"""What is deployed: settings that are read, a unit that systemd accepts and is locked down, a Dockerfile that adds up."""

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import holdtrue as ht
from holdtrue.command import application
from holdtrue.service.settings import Settings, read_settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
_spec = importlib.util.spec_from_file_location("image_lock", DEPLOY / "lock.py")
image_lock = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(image_lock)
_NAMES = "FROM RUN CMD EXPOSE ENV COPY ENTRYPOINT VOLUME USER WORKDIR ARG STOPSIGNAL HEALTHCHECK"
INSTRUCTIONS = set(_NAMES.split())


def test_the_sample_settings_are_read_and_show_the_values_that_hold_without_them():
    told = read_settings(DEPLOY / "holdtrue.toml")
    plain = Settings(home="/var/lib/holdtrue")
    shown = {
        "host",
        "port",
        "workers",
        "secure_cookies",
        "tick",
        "read_seconds",
        "connections",
        "class_limit",
        "work_limit",
        "body_limit",
        "holdout_limit",
        "rate",
        "ledger",
        "issuer",
        "demo",
    }
    assert {name: getattr(told, name) for name in shown} == {name: getattr(plain, name) for name in shown}
    assert told.data == (Path("/srv/holdtrue"),)


def test_what_the_sample_settings_only_mention_is_right_too(tmp_path):
    text = (DEPLOY / "holdtrue.toml").read_text(encoding="utf-8")
    lines = [line.removeprefix("# ") for line in text.splitlines() if re.match(r"(# )?(\[|[a-z_-]+ = )", line)]
    path = tmp_path / "holdtrue.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    told = read_settings(path)
    assert told.ledger.startswith("postgresql://")
    assert told.issuer.roles == {"data-custodians": "owner", "data-scientists": "analyst", "data-auditors": "auditor"}
    mentioned = {line.split(" = ")[0] for line in lines}
    assert {field.name for field in fields(Settings)} - {"issuer", "demo"} <= mentioned


def unit():
    """Return the settings of the unit, section by section; one that comes twice has both values."""
    found, section = {}, None
    for line in (DEPLOY / "holdtrue.service").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            section.setdefault(name, []).append(value)
    return found


def test_the_unit_runs_our_command_and_gives_it_time_to_stop():
    service = unit()["Service"]
    program, *words = shlex.split(service["ExecStart"][0])
    assert program.endswith("/holdtrue")
    assert words[0] == "serve"
    for option in (word for word in words if word.startswith("--")):
        assert option in CliRunner().invoke(application, ["serve", "--help"], env={"COLUMNS": "200"}).output
    assert service["KillSignal"] == ["SIGTERM"]
    assert int(service["TimeoutStopSec"][0]) > 60
    assert service["User"] == ["holdtrue"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("PrivateDevices", "yes"),
        ("ProtectKernelTunables", "yes"),
        ("ProtectKernelModules", "yes"),
        ("ProtectControlGroups", "yes"),
        ("RestrictSUIDSGID", "yes"),
        ("RestrictNamespaces", "yes"),
        ("CapabilityBoundingSet", ""),
        ("UMask", "0077"),
        ("LimitCORE", "0"),
        ("MemoryMax", "80%"),
        ("TasksMax", "4096"),
    ],
)
def test_the_unit_is_locked_down(name, value):
    assert unit()["Service"][name] == [value]


def test_systemd_accepts_the_unit(tmp_path):
    checker = shutil.which("systemd-analyze")
    sections = unit()
    assert set(sections) == {"Unit", "Service", "Install"}
    if checker is None:
        return
    # Where the service is not installed, its program stands for nothing.
    text = (DEPLOY / "holdtrue.service").read_text(encoding="utf-8")
    path = tmp_path / "holdtrue.service"
    path.write_text(text.replace("/opt/holdtrue/bin/holdtrue", "/bin/true"), encoding="utf-8")
    done = subprocess.run([checker, "verify", str(path)], capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    ours = [line for line in done.stderr.splitlines() if "holdtrue.service" in line]
    assert ours == []
    path.write_text(
        path.read_text(encoding="utf-8").replace("ProtectSystem=strict", "ProtectSistem=strict"), encoding="utf-8"
    )
    done = subprocess.run([checker, "verify", str(path)], capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    assert "ProtectSistem" in done.stderr


def dockerfile():
    """Return the Dockerfile's instructions in order, each with its arguments on one line."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    whole = re.sub(r"\\\n\s*", "", "\n".join(line for line in text.splitlines() if not line.startswith("#")))
    return [tuple(line.split(None, 1)) for line in whole.splitlines() if line.strip()]


def test_the_dockerfile_has_known_instructions_in_an_order_that_works():
    names = [name for name, _ in dockerfile()]
    assert set(names) <= INSTRUCTIONS
    assert names[:2] == ["ARG", "FROM"]
    assert names.index("USER") > max(place for place, name in enumerate(names) if name in ("RUN", "COPY"))
    assert names.count("ENTRYPOINT") == names.count("CMD") == names.count("HEALTHCHECK") == 1


def test_the_image_runs_as_nobody_in_particular_and_stops_as_the_service_does():
    found = dict(dockerfile())
    user, group = found["USER"].split(":")
    assert int(user) > 0
    assert int(group) > 0
    assert found["STOPSIGNAL"] == "SIGTERM"
    assert {told.split()[0] for name, told in dockerfile() if name == "FROM"} == {"${BASE}"}
    assert not any(re.search(r"password|secret|pepper|token", told, re.IGNORECASE) for _, told in dockerfile())


def test_the_image_starts_our_command_without_a_shell():
    found = dict(dockerfile())
    words = json.loads(found["ENTRYPOINT"]) + json.loads(found["CMD"])
    assert words[:2] == ["holdtrue", "serve"]
    told = CliRunner().invoke(application, ["serve", "--help"], env={"COLUMNS": "200"}).output
    assert all(word in told for word in words if word.startswith("--"))
    check = json.loads(found["HEALTHCHECK"].partition("CMD ")[2])
    compile(check[2], "healthcheck", "exec")
    assert "/healthz" in check[2]


def test_everything_that_the_image_copies_is_there():
    stages = [told.split()[-1] for name, told in dockerfile() if name == "FROM" and " AS " in told]
    assert stages == ["build"]
    kept = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert kept[0] == "*"
    for told in (told for name, told in dockerfile() if name == "COPY"):
        *sources, _ = [word for word in told.split() if not word.startswith("--")]
        if "--from=build" not in told:
            assert all((ROOT / source).exists() for source in sources)
            assert all(f"!{source}" in kept for source in sources)


def test_the_image_is_built_on_a_base_that_is_named_by_its_digest():
    (check,) = (told for name, told in dockerfile() if name == "RUN" and told.startswith("case"))
    digest = "sha256:" + "0" * 64
    for base, code in ((f"python:3.11@{digest}", 0), ("python:3.11-slim-bookworm", 1), ("", 1)):
        done = subprocess.run(["/bin/sh", "-c", check], env={"BASE": base}, capture_output=True, check=False, timeout=60)  # noqa: S603
        assert done.returncode == code


def test_the_image_takes_every_package_by_its_hash():
    (told,) = (told for name, told in dockerfile() if name == "RUN" and "requirements.lock" in told)
    installs = [step for step in told.split("&&") if "pip install" in step]
    assert all("--no-deps" in step for step in installs)
    assert ["--require-hashes" in step or "--no-index" in step for step in installs] == [True, True]
    lock = (DEPLOY / "requirements.lock").read_text(encoding="utf-8")
    assert lock == image_lock.text(), "run `make lock`, or python deploy/lock.py"
    whole = image_lock.blocks_of((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    blocks = image_lock.blocks_of(lock)
    assert all(whole[name] == block and "--hash=sha256:" in block for name, block in blocks.items())
    # The control: a package too few, or a hash that was changed, is found.
    assert {"fastapi", "psycopg", "uvloop", "hatchling", "starlette", "mcp"} <= set(blocks)
    assert not {"pyspark", "pytest", "argon2-cffi"} & set(blocks)
    assert image_lock.blocks_of(lock.replace("--hash=sha256:0", "--hash=sha256:1")) != blocks


def test_the_conda_recipe_needs_what_the_package_needs():
    """The same packages in the same versions, under conda's names, the same command, Python and version."""
    recipe = yaml.safe_load((DEPLOY / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    renamed = {"duckdb": "python-duckdb", "msgspec": "msgspec-python"}

    def translate(line):
        name, version = re.fullmatch(r"([a-z0-9-]+)(.*)", line).groups()
        return f"{renamed.get(name, name)} {version}"

    python, *needed = recipe["requirements"]["run"]
    assert needed == [translate(line) for line in project["project"]["dependencies"]]
    assert python == "python >=${{ python_min }}"
    assert project["project"]["requires-python"] == f">={recipe['context']['python_min']}"
    assert [translate(line) for line in project["build-system"]["requires"]] == recipe["requirements"]["host"][2:]
    assert recipe["context"]["version"] == ht.__version__
    assert recipe["build"]["noarch"] == "python"
    assert recipe["build"]["python"]["entry_points"] == [
        f"{name} = {at}" for name, at in project["project"]["scripts"].items()
    ]
    for line in recipe["tests"][1]["script"]:
        assert CliRunner().invoke(application, shlex.split(line)[1:]).exit_code == 0


def test_the_guide_names_every_setting():
    guide = (ROOT / "docs" / "how-to" / "operate.md").read_text(encoding="utf-8")
    assert [field.name for field in fields(Settings) if f"`{field.name}`" not in guide and field.name != "demo"] == []


def chart_settings(hosts, settings):
    """Return the settings that the chart makes, as helm renders them."""
    text = (DEPLOY / "chart" / "templates" / "holdtrue.yaml").read_text(encoding="utf-8")
    block = text.partition("holdtrue.toml: |\n")[2].partition("---")[0]
    for written, value in {
        'append .Values.hosts "localhost" | toJson': hosts,
        "- .Values.settings | nindent 4": settings,
    }.items():
        assert written in block
        block = block.replace("{{" + written.rjust(len(written) + (written[0] != "-")) + " }}", value)
    return "\n".join(line.strip() for line in block.splitlines())


def test_the_chart_is_short_and_its_settings_are_read(tmp_path):
    """What helm and the schemas of Kubernetes say of it, `python deploy/try_install.py` asks."""
    files = [path for path in sorted((DEPLOY / "chart").rglob("*")) if path.is_file()]
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files) < 150
    values = yaml.safe_load((DEPLOY / "chart" / "values.yaml").read_text(encoding="utf-8"))
    path = tmp_path / "holdtrue.toml"
    path.write_text(chart_settings('["data.example.org", "localhost"]', values["settings"]), encoding="utf-8")
    told = read_settings(path)
    assert told.hosts == ("data.example.org", "localhost")
    assert told.secure_cookies
    assert told.home == Path("/var/lib/holdtrue")
    chart = yaml.safe_load((DEPLOY / "chart" / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == ht.__version__


def test_the_chart_runs_the_image_as_it_was_made():
    """User, home, port and time to stop are those of the image and the service; probes use a name that is answered."""
    text = (DEPLOY / "chart" / "templates" / "holdtrue.yaml").read_text(encoding="utf-8")
    found = dict(dockerfile())
    user, group = found["USER"].split(":")
    assert f"runAsUser: {user}\n" in text
    assert f"runAsGroup: {group}\n" in text
    assert f"containerPort: {found['EXPOSE']}}}" in text
    assert f"mountPath: {json.loads(found['VOLUME'])[0]}}}" in text
    assert int(re.search(r"terminationGracePeriodSeconds: (\d+)", text)[1]) > 60
    assert text.count("httpHeaders: [{name: Host, value: localhost}]") == text.count("path: /") == 2
    assert all(path in text for path in ("/healthz", "/readyz"))
