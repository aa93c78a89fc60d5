"""The shape of the package: modules, lines of code, how far one import leads, layers.

A stranger who wants to know how something works reads along these numbers. The limits only ever fall; what they should
come to stands beside them.
"""

import ast
import io
import textwrap
import tokenize
import tomllib
from functools import cache
from pathlib import Path

import holdtrue as ht

PACKAGE = Path(ht.__file__).parent
ROOT = Path(__file__).parent.parent
SILENT = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
)

#         the limit, the goal
LIMITS = {
    "modules": (318, 240),
    "lines of code": (55_780, 29_500),
    "longest import chain": (20, 20),
    "layers": (13, 15),
}


def name_of(path):
    parts = ("holdtrue", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


def lines_of_code(text):
    """Return the number of lines without blank lines, comments and docstrings."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    held = {line for token in tokens if token.type not in SILENT for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            held -= set(range(node.lineno, node.end_lineno + 1))
    return len(held)


def run_on_import(body):
    """Yield the import statements that run when a module is imported: not those in functions or for type checkers."""
    for node in body:
        match node:
            case ast.Import() | ast.ImportFrom():
                yield node
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from run_on_import(node.orelse)
            case ast.If() | ast.Try() | ast.With() | ast.ClassDef():
                for field in ("body", "orelse", "finalbody"):
                    yield from run_on_import(getattr(node, field, []))


@cache
def imported_by(module):
    found = set()
    for node in run_on_import(ast.parse(MODULES[module]).body):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        else:
            within = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= within & MODULES.keys() if within <= MODULES.keys() else (within & MODULES.keys()) | {node.module}
    return sorted(found & MODULES.keys() - {module})


@cache
def longest_chain(module):
    return (module, *max((longest_chain(other) for other in imported_by(module)), key=len, default=()))


def test_the_shape_is_within_its_limits():
    chain = max(map(longest_chain, MODULES), key=len)
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"][0]
    found = {
        "modules": len(MODULES),
        "lines of code": sum(map(lines_of_code, MODULES.values())),
        "longest import chain": len(chain),
        "layers": len(contract["layers"]),
    }
    told = [f"{what}: {number:,} (at most {LIMITS[what][0]:,}, goal {LIMITS[what][1]:,})" for what, number in found.items()]
    print("\n" + "\n".join([*told, " -> ".join(chain)]))  # noqa: T201 - what the test is read for
    assert all(number <= LIMITS[what][0] for what, number in found.items()), told


def test_only_code_is_counted():
    text = '''
        """What it is,

        and why."""

        import os  # why

        def f():
            """Return two lines."""
            # a comment
            return """two
            lines"""
    '''
    assert lines_of_code(textwrap.dedent(text)) == 4


def test_imports_are_those_that_run():
    text = """
        if TYPE_CHECKING:
            import a
        else:
            import b
        import c
        def f():
            import d
        try:
            import e
        finally:
            pass
    """
    body = ast.parse(textwrap.dedent(text)).body
    assert [alias.name for node in run_on_import(body) for alias in node.names] == ["b", "c", "e"]
