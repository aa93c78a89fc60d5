"""What the source calls its functions and classes: counted, so that plain names stay plain."""

import ast
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import holdtrue

SOURCE = Path(holdtrue.__file__).parent
LONGEST = 60
MOST_PARAMETERS = 10
# Words that end like participles and are none, or are nouns or verbs in the first place.
NOT_PARTICIPLES = frozenset(
    {"bed", "embed", "exceed", "feed", "need", "proceed", "read", "red", "seed", "shed", "speed", "spread", "succeed"}
    | {"bring", "evening", "king", "meaning", "morning", "ring", "setting", "settings", "spring", "string", "thing", "wing"}
    | {"ceiling", "rounding", "spelling", "standing", "standings", "warning", "weighed"}
)
IRREGULAR = frozenset(
    {"asked", "begun", "bound", "brought", "built", "chosen", "cut", "done", "drawn", "found", "given", "gone", "held"}
    | {"hung", "kept", "known", "led", "left", "made", "met", "paid", "said", "seen", "sent", "shown", "spent", "spoken"}
    | {"split", "taken", "told", "torn", "understood", "worn", "written"}
)


@dataclass(frozen=True)
class Function:
    """One function of the source: where it is, what it is called, its first sentence, its length and its parameters."""

    path: str
    name: str
    line: int
    length: int
    parameters: int
    sentence: str
    is_property: bool

    @property
    def words(self):
        return [word for word in self.name.strip("_").split("_") if word]


def read_source():
    """Yield every module of the source as a path and a tree."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def list_functions():
    """Return every function and method but the special ones and those inside other functions."""
    return [function for path, tree in read_source() for function in _functions_in(path, tree)]


def _functions_in(path, node):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _functions_in(path, child)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not re.fullmatch(r"__\w+__", child.name):
            yield _describe(path, child)


def _describe(path, node):
    arguments = node.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    decorators = {ast.unparse(each).split("(")[0] for each in node.decorator_list}
    return Function(
        path=path,
        name=node.name,
        line=node.lineno,
        length=(node.end_lineno or node.lineno) - node.lineno + 1 - _docstring_lines(node),
        parameters=len([name for name in names if name not in ("self", "cls")]),
        sentence=(ast.get_docstring(node) or "").split("\n")[0],
        is_property=bool(decorators & {"property", "cached_property", "functools.cached_property"}),
    )


def _docstring_lines(node):
    first = node.body[0]
    has_one = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    return first.end_lineno - first.lineno + 1 if has_one else 0


def is_bare_participle(function):
    """Return whether a name is one participle and nothing else: ``counted``, ``_told``. A property may say a state."""
    if len(function.words) != 1 or function.is_property:
        return False
    (word,) = function.words
    if word in NOT_PARTICIPLES:
        return False
    return word in IRREGULAR or re.fullmatch(r"[a-z]{2,}(ed|ing)", word) is not None


def list_classes():
    """Return where every class name is defined at the top of a module, private ones without their underscore."""
    found = defaultdict(list)
    for path, tree in read_source():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(path)
    return found
