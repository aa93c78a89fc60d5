"""How much an engine has to compute for a tree, counting what emitted text must repeat.

SQL expressions cannot name a value, so a guard repeats its operand, and guards within guards repeat it again. A query is
refused where that would grow beyond a fixed weight, on the card alone, before anything is charged.
"""

from holdtrue.queries.trees import Arithmetic, Comparison, Convert, Function, Member, Tree, children, type_of

__all__ = ["HEAVIEST", "too_heavy", "weight"]

HEAVIEST = 4096


def too_heavy(tree: Tree, *, nodes: int, depth: int) -> bool:
    """Return whether a tree weighs more than the heaviest one allowed; its text has so many nodes and is so deep.

    No guard repeats its operand more than once, so a node counts at most twice for each level above it. The text may leave
    out every other node (a conversion, a NULL after ELSE), none of which repeats anything: nodes times 2^depth is a bound.
    """
    return nodes << depth > HEAVIEST and weight(tree) > HEAVIEST


def weight(tree: Tree) -> int:
    """Return an upper bound on the nodes that the emitted expression evaluates, on the engine that repeats most."""
    below = [weight(child) for child in children(tree)]
    match tree:
        case Arithmetic(operator="/"):
            return 1 + below[0] + 2 * below[1]
        case Comparison(left=left) if type_of(left) == "real":
            return 1 + 2 * sum(below)
        case Function(name="COALESCE" | "NULLIF") | Convert(type="integer"):
            return 1 + 2 * sum(below)
        case Member(operand=operand, values=values):
            return 1 + len(values) + (2 if type_of(operand) == "real" else 1) * sum(below)
        case _:
            return 1 + sum(below)
