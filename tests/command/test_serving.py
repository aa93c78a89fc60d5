"""`holdtrue key` and `holdtrue serve`: keys given, listed and taken back from a shell; settings checked before a start."""

import json
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import holdtrue as ht
from holdtrue.command import main
from holdtrue.errors import Unauthorized
from holdtrue.service.database import open_database
from holdtrue.service.http.telemetry import Metrics
from holdtrue.service.identity.api_keys import Keyring
from holdtrue.service.registry import Registry
from holdtrue.service.settings import Settings


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run `holdtrue` in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["holdtrue", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return SimpleNamespace(code=left.value.code, out=out, err=err)

    return call


@pytest.fixture
def keyring(tmp_path):
    database = open_database(Settings(home=tmp_path / ".holdtrue"))
    made = Keyring(database)
    yield made
    made.close()
    database.close()


def test_a_key_is_given_on_standard_output_alone_and_opens(run, keyring):
    done = run("key", "create", "ada", "--role", "auditor")
    assert done.code == 0
    text = done.out.strip()
    assert text not in done.err
    assert (keyring.check(text).name, keyring.check(text).role) == ("ada", "auditor")


def test_keys_are_listed_without_their_secret_and_taken_back(run, keyring):
    before = int(time.time())
    made = json.loads(run("key", "create", "ada", "--days", 3, "--json").out)
    assert before <= made["expires"] - 3 * 86_400 <= time.time()
    shown = run("key", "list")
    assert made["prefix"] in shown.out
    assert made["key"][12:] not in shown.out
    listed = json.loads(run("key", "list", "--json").out)["keys"]
    assert [key["prefix"] for key in listed] == [made["prefix"]]
    assert "digest" not in listed[0]
    assert run("key", "revoke", made["prefix"]).code == 0
    assert json.loads(run("key", "list", "--json").out)["keys"][0]["revoked"] is not None
    with pytest.raises(Unauthorized):
        keyring.check(made["key"])


def test_an_allowance_reaches_the_ledger_without_the_data(run, tmp_path):
    rows = np.random.default_rng(1).integers(0, 100, 20_000)
    (tmp_path / "people.csv").write_text("\n".join(["age", *map(str, rows)]), encoding="utf-8")
    settings = Settings(home=tmp_path / ".holdtrue")
    database = open_database(settings)
    registry = Registry(settings, database, Metrics())
    document = {"path": "people.csv", "queries": 50, "iid": True, "types": {"age": "integer"}}
    curator = registry.register("people", document).curator
    assert run("key", "create", "ada", "--allow", "people=2").code == 0
    for number in (10, 20):
        curator.ask(f"age > {number}", analyst="ada")
    with pytest.raises(ht.BudgetExceeded):
        curator.ask("age > 30", analyst="ada")
    assert curator.ask("age > 30", analyst="bob").value > 0
    registry.close()
    (tmp_path / "people.csv").unlink()
    assert run("key", "create", "ada", "--allow", "people=5").code == 0
    database.close()


def test_a_restored_ledger_is_accepted_from_a_shell_and_pays_for_what_it_forgot(run, tmp_path):
    rows = np.random.default_rng(1).integers(0, 100, 20_000)
    (tmp_path / "people.csv").write_text("\n".join(["age", *map(str, rows)]), encoding="utf-8")
    settings = Settings(home=tmp_path / ".holdtrue")
    database = open_database(settings)
    registry = Registry(settings, database, Metrics())
    document = {"path": "people.csv", "queries": 50, "iid": True, "types": {"age": "integer"}}
    curator = registry.register("people", document).curator
    curator.ask("age > 10")
    backup, where = tmp_path / "backup.ledger", tmp_path / ".holdtrue" / "people.ledger"
    backup.write_bytes(where.read_bytes())
    curator.ask(["age > 20", "age > 30"])
    spent = curator.budget.spent
    registry.close()
    where.write_bytes(backup.read_bytes())
    newest = json.loads(run("verify", where, "--json").out)["receipt"]
    wrong = run("ledger", "accept", "people", "--receipt", f"1:{'0' * 64}")
    assert (wrong.code, newest in wrong.err) == (3, True)
    done = run("ledger", "accept", "people", "--receipt", newest, "--json")
    assert done.code == 0
    assert json.loads(done.out)["questions"] == 2
    again = json.loads(run("verify", where, "--json").out)
    assert (again["spent"], again["receipt"]) == (pytest.approx(spent), json.loads(done.out)["receipt"])
    assert run("ledger", "accept", "nobody", "--receipt", newest).code == 2
    assert Registry(settings, database, Metrics()).open_dataset("people").curator.budget.asks == 47
    database.close()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["ledger", "accept", "people", "--receipt", "newest"], 2, "--receipt"),
        (["key", "create", "ada", "--allow", "nowhere=2"], 2, "nowhere"),
        (["key", "create", "ada", "--allow", "people"], 2, "--allow"),
        (["key", "create", "ada", "--allow", "people=-2"], 2, "--allow"),
        (["key", "create", "oidc:ada"], 2, "name"),
        (["key", "create", ""], 2, "name"),
        (["key", "create", "ada", "--role", "root"], 2, "root"),
        (["key", "create", "ada", "--days", "0"], 2, "days"),
        (["key", "revoke", "aaaaaaaa"], 2, "no key"),
        (["key", "list", "--config", "absent.toml"], 2, "absent.toml"),
        (["key", "list", "--ledger", "mysql://u:opensesame@h/d"], 2, "postgresql"),
        (["serve", "--port", "65536"], 2, "port"),
        (["serve", "--workers", "0"], 2, "workers"),
        (["serve", "--tick", "nan"], 2, "tick"),
        (["serve", "--ledger", "people.ledger"], 2, "postgresql"),
        (["serve", "--config", "absent.toml"], 2, "absent.toml"),
        (["serve", "--host", "999.0.0.1", "--port", "0"], 3, "999.0.0.1"),
    ],
)
def test_what_cannot_be_is_one_line_and_leaves_no_key(run, tmp_path, words, code, said):
    done = run(*words)
    assert done.code == code
    assert said in done.err
    assert "opensesame" not in done.err
    assert not done.out
    if (tmp_path / ".holdtrue").exists():
        assert json.loads(run("key", "list", "--json").out) == {"keys": []}


def test_a_setting_that_does_not_exist_is_named(run, tmp_path):
    (tmp_path / "holdtrue.toml").write_text('home = "h"\nprot = 80\n', encoding="utf-8")
    done = run("serve", "--config", "holdtrue.toml")
    assert (done.code, "prot" in done.err) == (2, True)


def test_the_command_itself_does_not_load_the_service():
    script = "import sys, holdtrue.command; print({'fastapi', 'uvicorn', 'limits', 'jwt', 'sqlalchemy'} & set(sys.modules))"
    done = subprocess.run(  # noqa: S603 - our own package
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120, env=os.environ.copy()
    )
    assert done.stdout.strip() == "set()"


@pytest.fixture
def served(monkeypatch):
    """The settings of each service that would have been started."""
    started = []
    monkeypatch.setattr("holdtrue.service.http.serving.run_service", started.append)
    return started


def test_options_become_settings(run, served, tmp_path):
    done = run("serve", "--host", "0.0.0.0", "--port", 9000, "--workers", 2, "--tick", 0.5)  # noqa: S104 - never bound
    assert (done.code, done.out) == (0, "")
    (settings,) = served
    assert (settings.host, settings.port, settings.workers, settings.tick) == ("0.0.0.0", 9000, 2, 0.5)  # noqa: S104
    assert settings.home.resolve() == (tmp_path / ".holdtrue").resolve()


def test_options_go_before_the_file_of_settings(run, served, tmp_path):
    (tmp_path / "holdtrue.toml").write_text(f'home = "{tmp_path}/kept"\nport = 80\nworkers = 3\n', encoding="utf-8")
    assert run("serve", "--config", "holdtrue.toml", "--port", 90).code == 0
    (settings,) = served
    assert (settings.port, settings.workers, settings.home.name) == (90, 3, "kept")


def test_a_key_as_json_is_told_whole_once(run):
    made = json.loads(run("key", "create", "ada", "--days", 2, "--json").out)
    assert made["key"].startswith(f"ht_{made['prefix']}")
    assert (made["name"], made["role"], made["expires"] - made["created"]) == ("ada", "analyst", 2 * 86_400)
    (listed,) = json.loads(run("key", "list", "--json").out)["keys"]
    assert listed == {name: value for name, value in made.items() if name != "key"}
    shown = run("key", "list")
    assert made["prefix"] in shown.out
    assert made["key"] not in shown.out
    revoked = json.loads(run("key", "revoke", made["prefix"], "--json").out)
    assert revoked["revoked"] >= made["created"]


def test_without_the_extra_the_service_says_what_to_install(run, monkeypatch):
    monkeypatch.setattr("holdtrue.command.serving.find_spec", lambda _: None)
    for words in (["serve"], ["key", "list"], ["demo", "--no-browser"]):
        done = run(*words)
        assert (done.code, done.out) == (6, "")
        assert "holdtrue[server]" in done.err


@pytest.mark.parametrize(("words", "opened"), [(["--no-browser"], []), ([], ["http://127.0.0.1:8123"])])
def test_the_demonstration_shows_its_address_and_a_request_that_can_be_copied(run, monkeypatch, words, opened):
    asked, seen = [], []

    def serve_demo(*, port, ready):
        asked.append(port)
        ready("http://127.0.0.1:8123", "ht_key")

    monkeypatch.setattr("holdtrue.service.http.serving.serve_demo", serve_demo)
    monkeypatch.setattr("webbrowser.open", seen.append)
    done = run("demo", "--port", 8123, *words)
    assert (done.code, asked, seen) == (0, [8123], opened)
    assert "http://127.0.0.1:8123/v1/datasets/demo/ask -H 'Authorization: Bearer ht_key'" in done.out
    assert "deletes all of its data" in done.out


def test_the_demonstration_in_the_terminal_needs_no_service(run, monkeypatch):
    told = []
    monkeypatch.setattr("holdtrue.command.serving.find_spec", lambda _: None)
    monkeypatch.setattr("holdtrue.demo.tell_story", lambda **_: told.append(True))
    assert run("demo", "--terminal").code == 0
    assert told == [True]


@pytest.mark.parametrize("port", ["-1", "65536", "eighty"])
def test_the_demonstration_refuses_a_port_that_cannot_be(run, port):
    done = run("demo", "--port", port)
    assert (done.code, done.out) == (2, "")
    assert "port" in done.err


def write_people(place, *, seed=1):
    random = np.random.default_rng(seed)
    pd.DataFrame({"age": random.integers(0, 99, 2_000), "smoker": random.random(2_000) < 0.2}).to_csv(place, index=False)


@pytest.mark.parametrize(("terms", "fixed"), [(("--iid", "--side", "low"), {"side": "low"}), (("--group", 2), {"group": 2})])
def test_terms_of_a_ledger_are_registered_from_a_shell(run, tmp_path, terms, fixed):
    write_people(tmp_path / "people.csv")
    made = run("register", "people.csv", "--queries", 30, "--epsilon", 1, "--delta", 1e-6, "--uses", 4, *terms, "--json")
    assert made.code == 0, made.err
    assert json.loads(made.out)["plan"].items() >= fixed.items()


def test_data_is_registered_from_a_shell_with_its_width_and_retired_for_good(run, tmp_path):
    write_people(tmp_path / "My People.csv")
    made = run("register", "My People.csv", "--queries", 30, "--epsilon", 1, "--delta", 1e-6, "--iid")
    assert (made.code, "registered my-people" in made.err) == (0, True)
    assert "of the population" in made.out
    assert "of these rows, whether or not" in made.out
    again = run("register", "My People.csv", "--name", "other", "--queries", 30, "--epsilon", 1, "--delta", 1e-6)
    assert (again.code, "these rows already have a budget, as the dataset my-people" in again.err) == (3, True)
    settings = Settings(home=tmp_path / ".holdtrue")
    database = open_database(settings)
    registry = Registry(settings, database, Metrics())
    try:
        registry.open_all()
        assert registry.open_dataset("my-people").curator.ask("smoker").certificate.cost > 0
        assert run("retire", "my-people").code == 0
        until = time.monotonic() + 20
        while registry.datasets.get("my-people") is not None and time.monotonic() < until:
            time.sleep(0.05)
        with pytest.raises(ht.UnknownName, match="was retired by its owner"):
            registry.open_dataset("my-people")
        assert (registry.list_datasets(), registry.ready) == ([], True)
    finally:
        registry.close()
        database.close()
    # Neither the name nor the rows get another budget.
    taken = run("register", "My People.csv", "--queries", 30, "--epsilon", 1, "--delta", 1e-6)
    assert (taken.code, "already a dataset of that name" in taken.err) == (3, True)
    rows = run("register", "My People.csv", "--name", "other", "--queries", 30, "--epsilon", 1, "--delta", 1e-6)
    assert (rows.code, "these rows already have a budget" in rows.err) == (3, True)
    assert run("retire", "nobody").code == 2


def test_a_service_that_listens_to_all_says_whom_it_answers():
    everywhere = "0.0.0.0"  # noqa: S104 - looked at, not bound to
    assert Settings(home="x", host=everywhere).answers_itself_alone
    assert not Settings(home="x", host=everywhere, hosts=("localhost", "data.example.org")).answers_itself_alone
    assert not Settings(home="x", host=everywhere, hosts=("*",)).answers_itself_alone
    assert not Settings(home="x").answers_itself_alone
