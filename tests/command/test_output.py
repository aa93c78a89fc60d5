"""What the command prints and writes, and how it shows progress."""

import json
import os
import sys

import matplotlib as mpl
import pytest
from matplotlib import pyplot as plt
from typer.testing import CliRunner

from holdtrue.command import application, choose_command, output
from holdtrue.command.output import (
    TICKER,
    check_page,
    print_json,
    print_lines,
    print_table,
    save_plot,
    show_progress,
    write_file,
)
from holdtrue.errors import InvalidParameter
from holdtrue.records import Interval

mpl.use("Agg")


def test_json_has_one_field_a_line_and_keeps_letters(capsys):
    print_json({"name": "Zoë", "interval": Interval(0.1, 0.2, 0.95, "population")})
    printed = capsys.readouterr().out
    assert json.loads(printed)["name"] == "Zoë"
    assert json.loads(printed)["interval"]["high"] == 0.2
    assert '"Zoë"' in printed
    assert len(printed.splitlines()) > 6


def test_json_has_no_number_that_json_lacks():
    with pytest.raises(ValueError, match="JSON"):
        print_json({"value": float("nan")})


def test_names_are_aligned_and_control_characters_are_harmless(capsys):
    print_lines("a title\x1b[2J", [("spent", "1"), ("left over", "2\r3")])
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "\r" not in printed
    first, second = printed.splitlines()[1:]
    assert first.index("1") == second.index("2")


def test_a_table_prints_what_people_wrote_as_it_is(capsys):
    print_table(("question", "cost"), [("[red]age[/red]", "1"), ("x\x1b[31m", "100")], right=("cost",))
    printed = capsys.readouterr().out
    assert "[red]age[/red]" in printed
    assert "\x1b" not in printed
    rows = printed.splitlines()[-2:]
    assert rows[0].rstrip().endswith("  1")


@pytest.mark.parametrize("ending", [".svg", ".png", ".PDF"])
def test_a_plot_is_saved_and_said_on_standard_error(ending, tmp_path, capsys):
    place = tmp_path / f"plot{ending}"
    save_plot(plt.subplots()[1], place)
    assert place.stat().st_size > 500
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"wrote {place}\n"
    plt.close("all")


def test_a_plot_of_another_kind_is_refused_before_it_is_drawn(tmp_path):
    with pytest.raises(InvalidParameter, match=r"\.svg, \.png, \.pdf"):
        save_plot(None, tmp_path / "plot.jpg")


def test_a_page_needs_the_name_of_a_page(tmp_path):
    check_page("OUT.html", tmp_path / "page.HTM")
    with pytest.raises(InvalidParameter, match=r"\.html or \.htm"):
        check_page("OUT.html", tmp_path / "page.pdf")


def test_a_file_that_cannot_be_written_is_named_with_the_reason(tmp_path, capsys):
    with pytest.raises(InvalidParameter, match="No such file or directory"):
        write_file("OUT.csv", tmp_path / "nowhere" / "out.csv", "x\n")
    assert capsys.readouterr().err == ""
    write_file("OUT.csv", tmp_path / "out.csv", "ü\n")
    assert (tmp_path / "out.csv").read_bytes() == "ü\n".encode()


def test_no_bar_without_a_terminal(capsys):
    with show_progress("reading rows"):
        assert TICKER.show is None
        TICKER(0.5)
    assert capsys.readouterr() == ("", "")


def test_a_bar_takes_the_progress_and_is_gone_afterwards(monkeypatch):
    class Terminal:
        """Standard error that says it is a terminal."""

        written = ""

        def isatty(self):
            return True

        def write(self, text):
            self.written += text
            return len(text)

        def flush(self):
            """Nothing is held back."""

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(output, "_PATIENCE", 0.0)
    with show_progress("reading [bold]rows[/bold]"):
        assert TICKER.show is not None
        TICKER(0.5)
        TICKER(1.0)
    assert TICKER.show is None


def test_a_failure_under_way_takes_the_bar_away(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with pytest.raises(KeyError), show_progress("reading"):
        raise KeyError
    assert TICKER.show is None


def test_one_command_alone_is_what_it_is_among_all():
    """The named subcommand is built without the others; its help is the same, and anything else is the whole command."""
    runner = CliRunner()
    names = [command.name or command.callback.__name__.replace("_", "-") for command in application.registered_commands]
    for name in ("ask", "open", "r-squared", "theorem"):
        assert name in names
        alone = choose_command([name])
        assert len(alone.registered_commands) == 1
        words = [name, "--help"]
        assert runner.invoke(alone, words).output == runner.invoke(application, words).output
    for named in ([], ["--help"], ["plan"], ["key"], ["nothing"], ["--version"]):
        assert choose_command(named) is application


def test_messages_name_the_options_of_the_command_that_was_given(call, place):
    place.joinpath("copy.parquet").write_bytes(place.joinpath("people.parquet").read_bytes())
    told = call("open", "copy.parquet", "--queries", "9")
    assert told.code == 3
    assert "pass --second-budget to give them another" in told.err
    assert "name them (--keys), have them on the card" in call("table", "people.parquet", "bmi").err


@pytest.mark.usefixtures("place")
def test_messages_name_the_options_of_other_commands_and_their_values(call):
    """What is to be done first is often another command's."""
    assert call("train", "people.parquet", "risk", "smoker", "--feature", "age", "--parts", 10).code == 0
    assert "such as --held-out 0.2, first" in call("evaluate", "people.parquet", "risk", 0.3).err
    assert "--method noisy-max takes mu" in call("predict", "people.parquet", "risk", "age=5", "--mu", 1).err


def test_a_terminal_breaks_long_lines_between_words_and_a_pipe_does_not(capsys, monkeypatch):
    long = " ".join(["one two three"] * 4)
    print_lines("title", [("a", long), ("bc", "four")])
    assert capsys.readouterr().out.splitlines() == ["title", f"  a   {long}", "  bc  four"]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(output, "get_terminal_size", lambda: os.terminal_size((30, 24)))
    print_lines("title", [("a", long), ("bc", "four")])
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "title",
        "  a   one two three one two",
        "      three one two three one",
        "      two three",
        "  bc  four",
    ]
    print_lines("title", [("receipt", "1:" + "a" * 64)])
    assert capsys.readouterr().out.splitlines()[1].endswith("a" * 64)  # whole, to be copied
