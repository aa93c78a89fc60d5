"""From one SQL expression to a query: read, checked against a list of what is allowed, lowered to our own tree.

Guarantee: an accepted query is total and looks at nothing beyond its row, since its tree holds nothing but what
:mod:`~holdtrue.queries.trees` defines. Needs: the card, and no row. Failure: RequestError, whatever the text; what the
message says depends on the text and on the card only.
"""

import threading
from typing import get_args

from holdtrue.errors import RequestError, UnsupportedQuery
from holdtrue.queries.cards import Card
from holdtrue.queries.conditions import conjunction
from holdtrue.queries.lowering import lower
from holdtrue.queries.notation import digest
from holdtrue.queries.reading import DEEPEST, LONGEST, MOST_NODES, read, too_deep
from holdtrue.queries.rendering import render
from holdtrue.queries.sizes import too_heavy
from holdtrue.queries.trees import Boolean, Query, Tree, columns

__all__ = ["parse"]

_BOOLEAN = get_args(Boolean)
_MOST_KEPT = 8192
# Tests by card and text. The card is kept beside: while it is, no other card has its number.
_KEPT: dict[tuple[int, str], tuple[Card, Boolean]] = {}


def parse(text: str, card: Card) -> Query:
    """Return the query that a text means over the columns of a card.

    ``parse(query.text, card) == query`` for every query that comes out, and two texts of one canonical form are one
    query. Raises UnsupportedQuery, naming the construct, or UnknownColumn, naming the nearest column.
    """
    if not issubclass(type(text), str):
        message = f"a query is a text, not a {type(text).__name__}"
        raise UnsupportedQuery(message)
    try:
        return _parsed(text, card)
    except RecursionError:
        # The caller's own stack may have used up most of Python's; a fresh one decides alike wherever it is called.
        return _afresh(text, card)


def _parsed(text: str, card: Card) -> Query:
    from holdtrue.queries.skimming import skim

    tree: Tree | None = _joined(text, card)
    if tree is None:
        plain = skim(text, card)
        tree = lower(read(text) if plain is None else plain, card)
    piece = render(tree)
    size = len(piece.text.encode())
    if (
        size > LONGEST
        or piece.nodes > MOST_NODES
        or piece.depth > DEEPEST
        or too_heavy(tree, nodes=piece.nodes, depth=piece.depth)
    ):
        message = (
            f"the query is too intricate: in full it has {size} bytes, {piece.nodes} nodes and depth {piece.depth}; nest "
            "fewer divisions, comparisons, COALESCE, NULLIF and CAST in one another"
        )
        raise UnsupportedQuery(message)
    held = columns(tree)
    return Query(tree, piece.text, digest(tree, held), isinstance(tree, _BOOLEAN), tuple(held))


def _joined(text: str, card: Card) -> Boolean | None:
    """Return the tree of tests that AND alone joins, each of them lowered once and kept; None where the text is no such.

    The same tree as the whole text would be lowered to, since a conjunction is lowered test by test.
    """
    from holdtrue.queries.skimming import tests_of

    parts: list[Boolean] = []
    for test in tests_of(text):
        known = _KEPT.get((id(card), test))
        tree = known[1] if known is not None and known[0] is card else _test(test, card)
        if tree is None:
            return None
        parts.append(tree)
    return conjunction(parts) if len(parts) > 1 else parts[0] if parts else None


def _test(text: str, card: Card) -> Boolean | None:
    """Lower one plain test and keep it; None where it is not plain or refused, in words that are the whole text's affair."""
    from holdtrue.queries.skimming import skim

    plain = skim(text, card)
    try:
        tree = None if plain is None else lower(plain, card)
    except RequestError:
        tree = None
    if tree is None or not isinstance(tree, _BOOLEAN):
        return None
    if len(_KEPT) >= _MOST_KEPT:
        _KEPT.clear()
    kept: Boolean = tree  # type: ignore[assignment]  # a condition
    _KEPT[id(card), text] = card, kept
    return kept


def _afresh(text: str, card: Card) -> Query:
    found: list[Query | RequestError] = []

    def work() -> None:
        try:
            found.append(_parsed(text, card))
        except RecursionError:
            found.append(UnsupportedQuery(too_deep()))
        except RequestError as error:
            found.append(error)

    worker = threading.Thread(target=work, name="holdtrue-parse")
    worker.start()
    worker.join()
    if isinstance(found[0], RequestError):
        raise found[0]
    return found[0]
