"""`holdtrue open`, `ask` and the rest: a whole session through the installed command, its JSON, and how it fails."""

import io
import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from html.parser import HTMLParser
from inspect import signature
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import holdtrue as ht
from holdtrue.codec import convert
from holdtrue.command import application, main, output
from holdtrue.command.output import show_progress
from holdtrue.command.paths import find_ledger, hide_password
from holdtrue.curator import Curator
from holdtrue.errors import printable
from holdtrue.records import Answer, Choice
from holdtrue.reports import html_report

ROWS = 4_000
SUBCOMMANDS = ("open", "ask", "select", "preview", "budget", "history", "verify", "report")
ESCAPE = "\x1b"


@pytest.fixture(scope="module")
def people():
    random = np.random.default_rng(11)
    return pd.DataFrame(
        {
            "age": random.integers(0, 100, ROWS),
            "smoker": random.random(ROWS) < 0.2,
            "bmi": random.normal(27, 5, ROWS).round(3),
            "region": random.choice(["N", "S", "E", "W"], ROWS, p=[0.7, 0.1, 0.1, 0.1]),
        }
    )


def command(*words, within):
    """Run the installed command in a process of its own, and hold it to what every subcommand keeps."""
    script = Path(sys.executable).with_name("holdtrue")
    call = [str(script), *map(str, words)]
    done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=60, cwd=within)  # noqa: S603
    assert "Traceback" not in done.stderr
    assert ESCAPE not in done.stdout + done.stderr
    return done


@pytest.fixture
def called(folder, monkeypatch, capsys):
    """Run the command's entry point in this process, which is quicker."""

    def call(*words, within=folder):
        monkeypatch.chdir(within)
        monkeypatch.setattr(sys, "argv", ["holdtrue", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        return SimpleNamespace(
            returncode=left.value.code, **dict(zip(("stdout", "stderr"), capsys.readouterr(), strict=True))
        )

    return call


def told(*words, within):
    """Return what a subcommand prints as JSON."""
    done = command(*words, "--json", within=within)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def folder(people, tmp_path_factory):
    """A folder with one table as Parquet, opened and asked two questions."""
    where = tmp_path_factory.mktemp("opened")
    people.to_parquet(where / "people.parquet")
    people.assign(age=people.age + 1).to_parquet(where / "other.parquet")
    done = command(
        "open",
        "people.parquet",
        "--queries",
        4,
        "--epsilon",
        1,
        "--delta",
        1e-6,
        "--iid",
        "--ledger",
        "p.ledger",
        within=where,
    )
    assert done.returncode == 0, done.stderr
    assert "joint-gaussian" in done.stdout
    assert re.search(r"region +text", done.stdout)
    assert done.stderr == "created p.ledger\n"
    asked = command("ask", "people.parquet", "age > 65", "smoker", "--ledger", "p.ledger", within=where)
    assert asked.returncode == 0, asked.stderr
    assert "2 of 4 questions" in asked.stdout
    return where


def test_a_session_through_the_command(people, tmp_path):
    people.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "card.toml").write_text(
        '[types]\nage = "real"\n[bounds]\nage = [0, 120]\n[labels]\nregion = ["N", "S", "E", "W"]\n', encoding="utf-8"
    )
    opening = ("--queries", 40, "--epsilon", 1, "--delta", 1e-6, "--iid", "--card", "card.toml")
    made = told("open", "people.csv", *opening, within=tmp_path)
    plan = convert(made["plan"], ht.Plan)
    assert made["ledger"] == "people.ledger"
    assert (plan.rows, plan.queries, plan.iid) == (ROWS, 40, True)
    columns = {column["name"]: column for column in made["card"]["columns"]}
    assert columns["age"] == {"name": "age", "type": "real", "bounds": [0.0, 120.0]}
    assert columns["region"]["labels"] == ["N", "S", "E", "W"]

    answer = convert(told("ask", "people.csv", "age > 65 AND smoker", "--analyst", "ada", within=tmp_path), Answer)
    assert float(((people.age > 65) & people.smoker).mean()) in answer.interval
    again = convert(told("ask", "people.csv", "smoker AND NOT age <= 65", within=tmp_path), Answer)
    assert (again.value, again.repeated, again.certificate) == (answer.value, True, answer.certificate)

    several = told("ask", "people.csv", "bmi / 50", "smoker", "--key", "k1", within=tmp_path)
    assert [convert(document, Answer).repeated for document in several["answers"]] == [False, False]
    assert told("preview", "people.csv", "smoker", within=tmp_path)["repeated"]
    preview = told("preview", "people.ledger", "bmi > 30", within=tmp_path)
    assert (preview["cost"], preview["alpha"]) == (answer.certificate.cost, plan.alpha)

    choice = convert(
        told("select", "people.csv", "north=region = 'N'", "south=region='S'", "--epsilon", 0.05, within=tmp_path), Choice
    )
    assert choice.name in ("north", "south")

    budget = told("budget", "people.csv", within=tmp_path)
    assert budget["asks"] == 37
    assert budget["spent"] == choice.certificate.spent
    lines = told("history", "people.csv", within=tmp_path)["history"]
    assert [(line["verb"], line["analyst"]) for line in lines] == [("ask", "ada"), ("ask", "analyst"), ("select", "analyst")]
    assert convert(lines[0]["responses"][0], Answer) == answer

    kept = f"{answer.certificate.entry}:{answer.certificate.digest}"
    verified = told("verify", "people.ledger", "--receipt", kept, within=tmp_path)
    assert (verified["whole"], verified["charges"], verified["spent"]) == (True, 3, budget["spent"])
    assert told("report", "people.csv", "people.html", within=tmp_path) == {"report": "people.html", "charges": 3}
    page = (tmp_path / "people.html").read_text(encoding="utf-8")
    assert f"{answer.value:.4g}" in page
    assert verified["receipt"] in page

    with Curator(tmp_path / "people.csv", ledger=tmp_path / "people.ledger") as curator:
        assert curator.ask("age > 65 AND smoker").value == answer.value
        assert curator.budget.spent == budget["spent"]


def test_a_table_by_the_command(people, tmp_path):
    folder = tmp_path
    people.to_parquet(folder / "people.parquet")
    assert command("open", "people.parquet", "--queries", 20, "--iid", within=folder).returncode == 0
    words = ("table", "people.parquet", "region", "age:18,65", "--keys", "region=N,S", "--where", "smoker")
    shown = command(*words, within=folder)
    assert shown.returncode == 0, shown.stderr
    assert [part in shown.stdout for part in ("18 to 65", "other", "all cells at once", "receipt")] == [True] * 4
    told = json.loads(command(*words, "--json", within=folder).stdout)
    assert (told["repeated"], told["columns"], len(told["values"])) == (True, ["region", "age"], 7)
    for wrong, code in ((("age:x",), 2), (("region",), 2), (("region", "--keys", "region"), 2)):
        assert command("table", "people.parquet", *wrong, within=folder).returncode == code


def test_a_mean_by_the_command(people, tmp_path):
    people.to_parquet(tmp_path / "people.parquet")
    assert command("open", "people.parquet", "--queries", 20, "--iid", within=tmp_path).returncode == 0
    words = ("mean", "people.parquet", "age", "--low", 0, "--high", 100, "--by", "region", "--keys", "region=N,S")
    shown = command(*words, within=tmp_path)
    assert shown.returncode == 0, shown.stderr
    parts = ("the mean of age by region", "counting values above 100 as 100", "all cells at once", "receipt")
    assert [part in shown.stdout for part in parts] == [True] * 4
    told = json.loads(command(*words, "--sum", "--population", 1000, "--json", within=tmp_path).stdout)
    assert (told["repeated"], told["measure"], told["columns"], len(told["values"])) == (True, "sum", ["region"], 2)
    shares = json.loads(command("ask", "people.parquet", "smoker", "--by", "age:18,65", "--json", within=tmp_path).stdout)
    assert (shares["measure"], len(shares["values"])) == ("share", 3)
    for wrong in (("region", "--low", 0, "--high", 1), ("age", "--low", 1, "--high", 0), ("age", "--low", 1)):
        assert command("mean", "people.parquet", *wrong, within=tmp_path).returncode == 2
    assert command(*words, "--population", 3, within=tmp_path).returncode == 2


def test_statistics_by_the_command(people, tmp_path):
    people.to_parquet(tmp_path / "people.parquet")
    assert command("open", "people.parquet", "--queries", 20, "--iid", within=tmp_path).returncode == 0
    words = ("variance", "people.parquet", "age", "--low", 0, "--high", 100)
    shown = command(*words, "--preview", within=tmp_path)
    assert "the price of one question" in shown.stdout, shown.stderr
    shown = command(*words, within=tmp_path)
    assert [part in shown.stdout for part in ("variance of age", "population", "these rows", "receipt")] == [True] * 4
    assert json.loads(command(*words, "--json", within=tmp_path).stdout)["repeated"]
    words = ("covariance", "people.parquet", "age", "bmi", "--bounds", "age=0:100", "--bounds", "bmi=10:50")
    assert json.loads(command(*words, "--json", within=tmp_path).stdout)["measure"] == "covariance"
    assert command("covariance", "people.parquet", "age", "bmi", within=tmp_path).returncode == 2
    spans = ("--low", 0, "--high", 100)
    (tmp_path / "class.json").write_text('{"class": "stumps", "bounds": [[0, 100]], "steps": 5, "columns": ["age"]}')
    for words, measure in (
        (("correlation", "age", "bmi", "--bounds", "age=0:100", "--bounds", "bmi=10:50"), "correlation"),
        (("r-squared", "bmi", "age", *spans), "explained variance"),
        (("gini", "age", *spans), "gini coefficient"),
        (("ratio", "age", "bmi", "--cap", 30, "--high", 5), "ratio"),
        (("auc", "age", "smoker", *spans), "auc"),
        (("pairs", "abs(a.age - b.age)", *spans), "mean over pairs"),
        (("best-error", "smoker", "--class", "class.json"), "least error"),
    ):
        verb, *rest = words
        shown = command(verb, "people.parquet", *rest, "--json", within=tmp_path)
        assert json.loads(shown.stdout)["measure"] == measure, shown.stderr


def test_a_quantile_by_the_command(people, tmp_path):
    folder = tmp_path
    people.to_parquet(folder / "people.parquet")
    assert command("open", "people.parquet", "--queries", 40, "--iid", within=folder).returncode == 0
    words = ("quantile", "people.parquet", "age", 0.25, 0.5, "--method", "search", "--low", 0, "--high", 127)
    price = json.loads(command(*words, "--preview", "--json", within=folder).stdout)
    assert (price["method"], price["asks"], price["left"]) == ("search", 28, 40)
    assert "at most 28 questions" in command(*words, "--preview", within=folder).stdout
    shown = command(*words, within=folder)
    assert shown.returncode == 0, shown.stderr
    assert [part in shown.stdout for part in ("level", "0.25", "the population", "questions", "receipt")] == [True] * 5
    told = json.loads(command(*words, "--json", within=folder).stdout)
    assert (told["repeated"], told["levels"], told["column"]) == (True, [0.25, 0.5], "age")
    median = json.loads(command("quantile", "people.parquet", "age", *words[-4:], "--json", within=folder).stdout)
    assert (median["low"][0] >= told["low"][1], median["high"][0] <= told["high"][1]) == (True, True)
    for wrong in (("smoker",), ("age", 1.5), ("age", 0.5, "--step", 7), ("age", 0.5, "--method", "tree")):
        assert command("quantile", "people.parquet", *wrong, "--low", 0, "--high", 100, within=folder).returncode == 2


def test_text_is_lines_that_people_read(folder):
    asked = command("ask", "people.parquet", "65 < age", "--ledger", "p.ledger", within=folder)
    assert asked.stdout.startswith("65 < age\n  answer ")
    assert "nothing: asked before" in asked.stdout
    receipt = re.search(r"receipt +(1:[0-9a-f]{64})\n", asked.stdout)[1]
    verified = command("verify", "p.ledger", "--receipt", receipt, within=folder)
    assert "with 1 receipt\n" in verified.stdout
    previewed = command("preview", "p.ledger", "bmi > 30", within=folder)
    assert re.search(r"population +within 0\.\d+\n", previewed.stdout)
    assert "count as 0" not in previewed.stdout
    assert "values below 0 count as 0, above 1 as 1" in command("preview", "p.ledger", "bmi / 60", within=folder).stdout
    assert "2 of 4 left" in command("budget", "p.ledger", within=folder).stdout
    history = command("history", "p.ledger", within=folder).stdout
    assert re.search(r"1 +\S+ \S+ +analyst +ask +age > 65 +0\.\d+ \(", history)
    assert re.search(r"\n +smoker +0\.\d+ \(", history)
    assert asked.stderr == verified.stderr == previewed.stderr == ""


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("ask", "people.parquet", "agee > 65"), 2, "did you mean 'age'?"),
        (("ask", "people.parquet", "age > (SELECT 1)"), 2, "subquery"),
        (("ask", "people.parquet", "age >"), 2, ""),
        (("ask", "people.parquet", "bmi > 1", "bmi > 2", "bmi > 3"), 3, "questions"),
        (("ask", "other.parquet", "age > 65"), 3, "other data"),
        (("ask", "missing.parquet", "age > 65"), 2, "missing.parquet: no such file"),
        (("select", "people.parquet", "a=smoker", "b=age > 50", "--epsilon", "50"), 3, "reserve"),
        (("select", "people.parquet", "region = 'N'"), 2, "NAME=QUESTION"),
        (("select", "people.parquet", "age=65"), 2, "uses a column"),
        (("open", "people.parquet", "--queries", "9"), 3, "already"),
    ],
    ids=str,
)
def test_errors_are_one_line_with_their_exit_code(called, words, code, message):
    done = called(*words, "--ledger", "p.ledger")
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


OPEN = ("open", "people.parquet", "--queries", "9", "--epsilon", "1", "--delta", "1e-6")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((*OPEN, "--second-budget", "--ledger", "/proc/p.ledger"), 3, "cannot be created"),
        ((*OPEN, "--ledger", "/nowhere/p.ledger"), 2, "directory that exists"),
        (("ask", "people.parquet", "age > 65"), 2, "there is no ledger at people.ledger; `holdtrue open` creates one"),
        (("report", "p.ledger", "/proc/p.html"), 2, "can be written"),
        (("report", "p.ledger", "people.parquet"), 2, "ends in .html"),
        (("verify", "nothing.ledger"), 2, "there is no ledger at nothing.ledger"),
        (("verify", "p.ledger", "--receipt", "1"), 2, "a colon"),
        (("verify", "p.ledger", "--receipt", f"1:{'0' * 64}"), 5, "entry 1"),
        (("verify", "people.parquet", "--receipt", f"1:{'0' * 64}"), 2, "people.ledger"),
    ],
    ids=str,
)
def test_places_that_do_not_do_are_named(called, folder, words, code, message):
    done = called(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert not (folder / "people.ledger").exists()


@pytest.mark.parametrize(
    ("data", "question", "code"), [("people.parquet", "agee > 65", 2), ("other.parquet", "age > 65", 3)]
)
def test_the_installed_command_exits_alike(folder, data, question, code):
    done = command("ask", data, question, "--ledger", "p.ledger", within=folder)
    assert (done.returncode, done.stdout) == (code, "")
    assert re.fullmatch("error: .+\n", done.stderr)


def test_a_warning_is_one_line_too(tmp_path):
    done = command("plan", "--rows", 10, "--queries", 1000, within=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["warning", "error"]


def test_a_failure_after_the_charge_exits_with_four_and_quotes_no_row(called, folder, tmp_path, monkeypatch):
    def failing(*_, **__):
        message = "canary 4711"
        raise ValueError(message)

    data = folder / "people.parquet"
    monkeypatch.setattr("holdtrue.engines.base.LocalEngine.sums", failing)
    given = ("--ledger", "f.ledger", "--second-budget")
    assert called("open", data, *OPEN[2:], *given, within=tmp_path).returncode == 0
    done = called("ask", data, "smoker", "--ledger", "f.ledger", within=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert "the charge stays" in done.stderr
    assert "4711" not in done.stderr
    assert "charged, not answered" in called("history", "f.ledger", within=tmp_path).stdout


def test_rehash_reads_all_rows_again(called, folder, tmp_path, monkeypatch):
    data, given = folder / "people.parquet", ("--ledger", "r.ledger")
    assert called("open", data, *OPEN[2:], *given, "--second-budget", within=tmp_path).returncode == 0
    assert called("ask", data, "smoker", *given, within=tmp_path).returncode == 0
    monkeypatch.setattr("holdtrue.engines.base.LocalEngine.fingerprint", lambda *_, **__: b"other rows")
    assert called("ask", data, "smoker", *given, within=tmp_path).returncode == 0
    done = called("ask", data, "smoker", *given, "--rehash", within=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "the ledger belongs to other data" in done.stderr


def test_every_subcommand_that_opens_rows_can_read_them_again():
    """Those that take data and a ledger, but for the two that create it and always read all rows."""
    taken = {
        command.callback.__name__: set(signature(command.callback).parameters) for command in application.registered_commands
    }
    opening = {name for name, given in taken.items() if {"data", "ledger"} <= given} - {"open_data", "register"}
    assert {"ask", "variance", "best_error", "pairs", "table"} <= opening
    assert [name for name in sorted(opening) if "rehash" not in taken[name]] == []


def test_what_is_not_installed_exits_with_six(called, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    done = called("budget", "postgresql://ada:secret@localhost/people")
    assert done.returncode == 6
    assert "pip install" in done.stderr
    assert "secret" not in done.stderr


def test_a_damaged_ledger_stops_everything(called, folder, tmp_path):
    whole = (folder / "p.ledger").read_bytes()
    assert b"age > 65" in whole
    (tmp_path / "p.ledger").write_bytes(whole.replace(b"age > 65", b"age > 66"))
    (tmp_path / "q.ledger").write_bytes(b"x" * 100 + whole[100:])
    for done in (command("verify", "p.ledger", within=tmp_path), called("verify", "q.ledger", within=tmp_path)):
        assert (done.returncode, done.stdout) == (5, "")
    data = folder / "people.parquet"
    for words in (("ask", data, "smoker", "--ledger", "p.ledger"), ("budget", "p.ledger"), ("report", "p.ledger", "p.html")):
        assert called(*words, within=tmp_path).returncode == 5
    assert not (tmp_path / "p.html").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[types", "not TOML"),
        ("[kinds]\nage = 1", "types, bounds, labels"),
        ("types = 3", "a table"),
        ("[bounds]\nage = [0]", "bounds of age must be two numbers"),
        ("[bounds]\nage = [true, false]", "two numbers"),
        ("[labels]\nregion = 'NS'", "labels of region must be a list"),
        ("[bounds]\nheight = [0, 1]", "height"),
        ("[types]\nage = 'number'", "number"),
    ],
)
def test_a_card_that_cannot_be_used_says_why(folder, tmp_path, text, message):
    (tmp_path / "card.toml").write_text(text, encoding="utf-8")
    words = ["open", str(folder / "people.parquet"), *OPEN[2:], "--card", str(tmp_path / "card.toml")]
    with pytest.raises(ht.RequestError, match=re.escape(message)):
        CliRunner().invoke(application, [*words, "--ledger", str(tmp_path / "p.ledger")], catch_exceptions=False)
    assert not (tmp_path / "p.ledger").exists()


def helped(*words):
    """Return a help text without its frame, on one line."""
    text = CliRunner().invoke(application, [*words, "--help"], catch_exceptions=False).stdout
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split())


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_help_explains_itself(name):
    text = helped(name).replace("--sensitivity", "")  # an option, which its sentence explains
    text = text.replace("currency=rho, draws or mu.", "")  # what can be written, after the sentence that says for what
    assert "--json" in text
    assert not re.search(
        r"GDP|zCDP|\bDP\b|\bmu\b|\brho\b|sigma|Laplace|Gaussian|sensitivity|T\d|transfer|fingerprint|i\.i\.d", text
    )
    for word, explained in (
        ("--epsilon", "Privacy"),
        ("--delta", "Privacy slack"),
        ("--iid", "independent draws"),
        ("--beta", "The probability"),
        ("--alpha", "how far"),
        ("--reserve", "Share of the budget"),
        ("--pure", "without slack"),
        ("--receipt", "that was kept"),
        ("--ledger", "records every charge"),
    ):
        assert word not in text or explained in text


def test_help_lists_every_subcommand():
    text = helped()
    for name in SUBCOMMANDS:
        assert f" {name} " in text


def test_ledgers_lie_beside_their_data():
    assert find_ledger("a/people.parquet") == "a/people.ledger"
    assert find_ledger("people.csv.gz") == "people.ledger"
    assert find_ledger("people.parquet", "x.db") == find_ledger("x.db") == "x.db"
    address = "postgresql://ada:secret@host/people"
    assert find_ledger(address) == address
    assert "secret" not in hide_password(address)
    with pytest.raises(ht.InvalidParameter, match="several files"):
        find_ledger("parts/*.csv")


def test_a_terminal_is_never_steered_by_what_people_wrote(capsys):
    assert printable("a\x1b[31mb\n") == "a\\x1b[31mb\\n"
    output.print_table(("request",), [("[red]a[/red]\x1b[31m",)])
    shown_table = capsys.readouterr().out
    assert "[red]a[/red]\\x1b[31m" in shown_table


def test_a_bar_is_drawn_for_long_scans_on_a_terminal_only(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for patience, screen, drawn in ((0.0, Terminal(), True), (60.0, Terminal(), False), (0.0, io.StringIO(), False)):
        monkeypatch.setattr(output, "_PATIENCE", patience)
        monkeypatch.setattr(sys, "stderr", screen)
        with show_progress("reading people"):
            for _ in range(200 if drawn else 1):
                if "reading people" in screen.getvalue():
                    break
                output.Timer(0.02, lambda: None).run()
        assert ("reading people" in screen.getvalue()) is drawn


class Tags(HTMLParser):
    """Reads a page and fails where a tag is not closed, or where anything would be fetched or run."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "link", "img", "iframe", "object", "a", "base", "form")
        assert not any(name.startswith("on") or name in ("src", "href", "action") for name, _ in attrs)
        self.seen.append(tag)
        if tag not in ("meta", "br", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag != "rect":
            assert self.open.pop() == tag


def page(history, **changes):
    plan = ht.plan(rows=20_000, queries=100, epsilon=1, delta=1e-6, reserve=0.25)
    budget = SimpleNamespace(unit="mu squared", cap=1.0, spent=0.25, left=0.75, asks=60, reserve=0.1)
    facts = {"title": "People", "plan": plan, "budget": budget, "history": history, "receipt": (9, "ab" * 32)}
    return html_report(**(facts | changes))


def line(request, responses=(), *, verb="ask", analyst="ada"):
    return SimpleNamespace(
        entry=1,
        time=datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        analyst=analyst,
        verb=verb,
        request=request,
        cost=0.01,
        spent=0.01,
        digest="cd" * 32,
        responses=tuple(responses),
    )


@pytest.fixture(scope="module")
def responses(people):
    with Curator(people, queries=10, epsilon=1.0, delta=1e-6, iid=True) as curator:
        answers = curator.ask(["smoker", "age > 50"])
        return answers, curator.select({"<i>": "smoker", "b": "age > 3"})


def test_a_report_is_one_whole_page_that_fetches_and_runs_nothing(responses):
    answers, choice = responses
    history = [line("a = '; '; \"x;y\" > 1", answers), line("smoker; age > 3", [choice], verb="select"), line("lost")]
    text = page(history, columns=[("age", "integer")])
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert tags.seen.count("svg") == 1 + 2 + 1  # budget, answers, legend
    assert "http" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert "charged, not answered" in text
    assert "a = &#39;; &#39;</td>" in text  # questions are told apart outside of quotes only
    assert f"9:{'ab' * 32}" in text


def test_a_report_escapes_what_people_wrote(responses):
    evil = "</td><script>alert(1)</script>\x1b&'\""
    text = page(
        [line(evil, responses[0][:1], analyst=evil), line("x", [responses[1]], verb="select")],
        title=evil,
        columns=[(evil, evil)],
    )
    Tags().feed(text)
    assert "<script" not in text
    assert ESCAPE not in text
    assert "<i></b>" not in text


def test_a_report_promises_what_the_plan_does():
    said = page([])
    assert "Nothing was asked yet" in said
    assert "every interval for the population holds" in said
    assert "at most exp(1), with a slack of 1e-06" in said
    held = page([], plan=ht.plan(rows=20_000, queries=100, epsilon=1, delta=1e-6, iid=False))
    assert "nothing is said about any population" in held
    assert "interval for the population" not in held


def test_s6b_a_ledger_is_opened_for_one_side(people, called, tmp_path):
    people.to_csv(tmp_path / "people.csv", index=False)
    made = called("open", "people.csv", "--queries", 40, "--iid", "--side", "high", within=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "every answer's upper end" in made.stdout
    shown = called("preview", "people.csv", "smoker", within=tmp_path).stdout
    assert "upper end within" in shown
    answer = json.loads(called("ask", "people.csv", "smoker", "--json", within=tmp_path).stdout)
    assert answer["interval"]["low"] == 0
    refused = called("quantile", "people.csv", "age", "--low", 0, "--high", 100, within=tmp_path)
    assert refused.returncode != 0
    assert "promises upper ends only" in refused.stderr
