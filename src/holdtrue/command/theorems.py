"""``holdtrue theorem``: the theorems behind the numbers, found by item, name or the lecture's number, and computed."""

import inspect
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from holdtrue.codec import plain
from holdtrue.command.output import Json, print_json, print_lines, print_table
from holdtrue.errors import InvalidParameter, UnknownName

__all__ = ["THEOREMS", "TheoremEntry", "theorem"]


@dataclass(frozen=True, slots=True)
class TheoremEntry:
    """An item of the theory: its names, the lecture's number for it, its function, and arguments of one example.

    ``example`` is how the arguments are written in Python, where names of mechanisms, numpy as np and Fraction are known.
    """

    item: str
    name: str
    lecture: str
    function: str
    example: str

    @property
    def call(self) -> Any:  # noqa: ANN401 - a function of ours
        """Return the function."""
        home, _, name = self.function.rpartition(".")
        return getattr(import_module(f"holdtrue.{home}"), name)

    @property
    def signature(self) -> str:
        """Return the names of the arguments, with their defaults."""
        given = inspect.signature(self.call).parameters.values()
        empty = inspect.Parameter.empty
        return ", ".join(each.name if each.default is empty else f"{each.name}={each.default!r}" for each in given)


def _read_table() -> tuple[TheoremEntry, ...]:
    """Return the items from the table beside this file, which is in the order of the theory."""
    lines = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()[1:]
    return tuple(TheoremEntry(*(cell.strip() for cell in line.split("|"))) for line in lines)


THEOREMS = _read_table()
_CALLED = {"count": "times"}  # where a function has the second and not the first


def theorem(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="An item, a name, or the lecture's number: D3, advanced-composition, 'Lemma 7'."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Find a theorem, and compute its number where arguments are given as options; without a name, list all.

    Example: holdtrue theorem advanced-composition --epsilon 0.1 --count 100 --delta 1e-6
    """
    given = _read_options(context.args)
    found = [each for each in THEOREMS if name is None or _is_meant(each, name)]
    if not found:
        message = f"no theorem is called {name}; holdtrue theorem lists all"
        raise UnknownName(message)
    if given and len({each.function for each in found}) > 1:
        raise InvalidParameter.saying("NAME", f"several are meant: {', '.join(each.name for each in found)}; name one")
    if given:
        _print_number(found[0], given, as_json=as_json)
    elif as_json:
        print_json({"theorems": [_describe(each) for each in found]})
    elif len(found) == 1:
        _print_entry(found[0])
    else:
        print_table(("item", "name", "lecture"), ((each.item, each.name, each.lecture) for each in found))


def _is_meant(entry: TheoremEntry, name: str) -> bool:
    wanted = name.casefold().replace("_", "-").strip()
    if wanted in (entry.item.casefold(), entry.name, entry.function.casefold().rpartition(".")[2].replace("_", "-")):
        return True
    parts = [part.strip() for part in entry.lecture.casefold().split(",")]
    return wanted in parts or wanted == entry.lecture.casefold()


def _read_options(words: list[str]) -> dict[str, float | int | str]:
    """Return options as arguments: --delta 1e-6 or --delta=1e-6."""
    pairs: dict[str, float | int | str] = {}
    rest = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    if len(rest) % 2 or not all(word.startswith("--") for word in rest[::2]):
        raise InvalidParameter.saying("options", "write each argument as --name value, such as --epsilon 0.1")
    for option, text in zip(rest[::2], rest[1::2], strict=True):
        field = option[2:].replace("-", "_")
        pairs[field] = _read_value(text)
    return pairs


def _read_value(text: str) -> float | int | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _print_number(entry: TheoremEntry, given: dict[str, Any], *, as_json: bool) -> None:
    taken = inspect.signature(entry.call).parameters
    told = {_CALLED[name] if _CALLED.get(name) in taken else name: value for name, value in given.items()}
    unknown = [name for name in told if name not in taken]
    missing = [name for name, each in taken.items() if each.default is inspect.Parameter.empty and name not in told]
    if unknown or missing:
        option = f"--{(unknown or missing)[0].replace('_', '-')}"
        raise InvalidParameter.saying(option, f"{option} is {'unknown' if unknown else 'missing'}: {entry.signature}")
    for name, value in told.items():
        if isinstance(value, str) and not _takes_text(taken[name]):
            raise InvalidParameter.without_value(f"--{name}", "a number")
    ordered = [told.pop(name) for name, each in taken.items() if name in told and each.kind is each.POSITIONAL_OR_KEYWORD]
    value = entry.call(*ordered, **told)
    if as_json:
        print_json(_describe(entry) | {"value": _to_plain(value)})
        return
    print_lines(f"{entry.item} {entry.name}", [("value", str(value)), ("by", entry.function), *_note_lecture(entry)])


def _takes_text(parameter: inspect.Parameter) -> bool:
    return "Literal" in str(parameter.annotation) or "str" in str(parameter.annotation)


def _to_plain(value: object) -> object:
    if isinstance(value, (int, float, str, bool)) or value is None:
        return value
    if is_dataclass(value):
        return {each.name: _to_plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, (tuple, list)):
        return [_to_plain(each) for each in value]
    try:
        return plain(value)
    except Exception:  # noqa: BLE001 - whatever has no JSON is told in words
        return str(value)


def _describe(entry: TheoremEntry) -> dict[str, str]:
    named = {"item": entry.item, "name": entry.name, "lecture": entry.lecture, "function": f"holdtrue.{entry.function}"}
    return named | {"arguments": entry.signature}


def _print_entry(entry: TheoremEntry) -> None:
    words = " ".join((inspect.getdoc(entry.call) or "").split("\n\n", 1)[0].split())
    lines = [("function", f"holdtrue.{entry.function}"), ("arguments", entry.signature), ("says", words)]
    print_lines(f"{entry.item} {entry.name}", [*lines, *_note_lecture(entry)])


def _note_lecture(entry: TheoremEntry) -> list[tuple[str, str]]:
    return [("from", entry.lecture)] if entry.lecture else []
