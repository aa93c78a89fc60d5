"""From one SQL expression to a query: read, checked against a list of what is allowed, lowered to our own tree.

Guarantee: an accepted query is total and looks at nothing beyond its row, since its tree holds nothing but what
:mod:`~holdtrue.queries.trees` defines. Needs: the card, and no row. Failure: RequestError, whatever the text; what the
message says depends on the text and on the card only.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from holdtrue.errors import RequestError, UnsupportedQuery
from holdtrue.queries.cards import Card, Type
from holdtrue.queries.conditions import conjunction, opposite
from holdtrue.queries.lowering import lower
from holdtrue.queries.notation import digest, digest_of, notation
from holdtrue.queries.reading import DEEPEST, LONGEST, MOST_NODES, read, too_deep
from holdtrue.queries.rendering import Piece, render
from holdtrue.queries.sizes import too_heavy
from holdtrue.queries.trees import All, Boolean, Comparison, Query, Tree, Truth, columns

__all__ = ["parse"]

_BOOLEAN = get_args(Boolean)
_MOST_KEPT = 8192


@dataclass(frozen=True, slots=True, eq=False)
class _Test:
    """One test, lowered, and how it is spelt where it stands alone or among others; ``denied`` spells its opposite."""

    tree: Boolean
    written: str
    denied: str | None
    piece: Piece
    held: tuple[tuple[str, Type], ...]


# Tests by card and text. The card is kept beside: while it is, no other card has its number.
_KEPT: dict[tuple[int, str], tuple[Card, _Test]] = {}


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

    tests = _tests(text, card)
    quick = _conjoined(tests)
    if quick is not None:
        return quick
    tree: Tree
    if tests:
        # The same tree as the whole text would be lowered to, since a conjunction is lowered test by test.
        tree = conjunction([test.tree for test in tests]) if len(tests) > 1 else tests[0].tree
    else:
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


def _tests(text: str, card: Card) -> Sequence[_Test]:
    """Return the tests that AND alone joins, each of them lowered once and kept; none where the text is no such."""
    from holdtrue.queries.skimming import tests_of

    tests: list[_Test] = []
    for part in tests_of(text):
        known = _KEPT.get((id(card), part))
        test = known[1] if known is not None and known[0] is card else _test(part, card)
        if test is None:
            return ()
        tests.append(test)
    return tests


def _conjoined(tests: Sequence[_Test]) -> Query | None:
    """Return the query of two or more different comparisons, from what is kept of each; None where that is not all.

    Law: what :func:`_parsed` returns. Among atoms a conjunction drops repeats, is false where two are opposites, and sorts
    them by their notation; no atom of these kinds stands in parentheses; so few of them are never too large or too heavy.
    """
    distinct = {test.written: test for test in tests if test.denied is not None}
    if len(distinct) < 2 or len(distinct) < len(tests) or any(test.denied in distinct for test in tests):  # noqa: PLR2004 - one test needs no joint
        return None
    order = sorted(distinct)
    sorted_tests = [distinct[written] for written in order]
    text = " AND ".join([test.piece.text for test in sorted_tests])
    if len(text) > LONGEST or not text.isascii():
        return None
    held = dict(sorted([column for test in tests for column in test.held]))
    named = digest_of(f"(all {' '.join(order)})", held)
    return Query(All(tuple([test.tree for test in sorted_tests])), text, named, boolean=True, columns=tuple(held))


def _test(text: str, card: Card) -> _Test | None:
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
    condition: Boolean = tree  # type: ignore[assignment]  # a condition
    denied = notation(opposite(condition)) if isinstance(condition, (Comparison, Truth)) else None
    kept = _Test(condition, notation(condition), denied, render(condition), tuple(columns(condition).items()))
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
