"""The words for what the query language does not have: the construct's name, and another way where there is one."""

from holdtrue.errors import UnsupportedQuery
from holdtrue.queries.reading import Node

__all__ = ["refusal"]

_LONGEST = 40
_ONE_ROW = "a query looks at one row at a time"
_MEAN = f"{_ONE_ROW}, and the answer is its mean over all rows"
_MEANS = ("mean", "average")
# What a construct is called, and what to write instead.
_WORDS: dict[str, tuple[str, str]] = {
    "Mod": ("the operator %", ""),
    "IntDiv": ("the operator DIV", "write CAST(a / b AS INTEGER)"),
    "Pow": ("a power", "multiply"),
    "DPipe": ("the operator ||", "between conditions write OR"),
    "Concat": ("joining texts", ""),
    "ILike": ("ILIKE", "write LOWER(column) LIKE 'pattern'"),
    "Escape": ("ESCAPE", "only % and _ are wildcards, all else stands for itself"),
    "RegexpLike": ("a regular expression", "write LIKE with % and _"),
    "SimilarTo": ("SIMILAR TO", "write LIKE with % and _"),
    "NullSafeEQ": ("IS NOT DISTINCT FROM", "write a = b OR (a IS NULL AND b IS NULL)"),
    "NullSafeNEQ": ("IS DISTINCT FROM", "write it with <> and IS NULL"),
    "Xor": ("XOR", "write it with AND, OR and NOT"),
    "Select": ("a subquery", _ONE_ROW),
    "Subquery": ("a subquery", _ONE_ROW),
    "Exists": ("EXISTS", _ONE_ROW),
    "Window": ("a window function", _ONE_ROW),
    "Filter": ("FILTER", _ONE_ROW),
    "Distinct": ("DISTINCT", _ONE_ROW),
    "Star": ("*", "name the columns"),
    "Anonymous": ("a function", "see the list of functions"),
    "Tuple": ("a list of values", "a list stands only after IN"),
    "TryCast": ("TRY_CAST", "write CAST, which gives NULL where a number does not fit"),
    "Parameter": ("a parameter", ""),
    "Placeholder": ("a parameter", ""),
    "Dot": ("a dotted name", "put a name with dots in double quotes"),
    "Like": ("this form of LIKE", "write LIKE 'pattern', with % and _ as wildcards"),
    "In": ("IN with anything but a list of constants", _ONE_ROW),
    "Between": ("BETWEEN SYMMETRIC", "write the lower end first"),
    "Column": ("a dotted name", "put a name with dots in double quotes"),
    "Floor": ("FLOOR", "write CAST(... AS INTEGER), which cuts towards zero"),
    "Ceil": ("CEIL", "write CAST(... AS INTEGER), which cuts towards zero"),
    "Round": ("ROUND", "write CAST(... AS INTEGER), which cuts towards zero"),
    "Rand": ("RANDOM", "a query is the same every time"),
}


def refusal(node: Node, *, part: str | None = None) -> UnsupportedQuery:
    """Return the error for a construct outside the query language; ``part`` names an extra of a known construct."""
    from sqlglot import expressions as exp

    kind = type(node).__name__
    if isinstance(node, exp.Anonymous):
        called = str(node.args["this"])[:_LONGEST]
        way = f"; {_MEAN}" if called.lower() in _MEANS else ""
        return UnsupportedQuery(f"the function {called!r} is outside the query language{way}")
    if kind in _WORDS:
        name, way = _WORDS[kind]
    elif isinstance(node, exp.AggFunc):
        name, way = f"the aggregate {node.sql_name()}", _MEAN
    elif isinstance(node, exp.Func):
        name, way = f"the function {node.sql_name()}", ""
    else:
        name, way = kind if part is None else f"{kind} with {part}", ""
    return UnsupportedQuery(f"{name} is outside the query language" + (f"; {way}" if way else ""))
