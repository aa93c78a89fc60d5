"""Rows that have a budget already: under another name of the service, or under a ledger beside their file.

Two ledgers over the same rows are two budgets, and whoever asks under both has spent both (P12). A ledger's fingerprint
tells: under its secret key it is the same for the same rows, in whatever order and format.
"""

import hmac
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdtrue.engines import open_engine
from holdtrue.errors import HoldtrueError
from holdtrue.ledgers import Terms, open_ledger
from holdtrue.queries.cards import Card
from holdtrue.service.problems import Refused

__all__ = ["refuse_second_budget"]

_CONFLICT = 409
_DATA = re.compile(r"\.(parquet|pq|csv|tsv|txt|json|jsonl|ndjson)(\.gz)?$", re.IGNORECASE)


def refuse_second_budget(place: str, ledgers: Mapping[str, str | Path]) -> None:
    """Refuse data whose rows a ledger guards already: one of those given by name, or the one beside the file.

    Only ledgers over as many rows are compared, which is public on both sides.
    """
    rows: set[int] | None = None
    for name, terms in _terms(place, ledgers):
        document = json.loads(terms.card)
        if terms.is_sealed or "holdout" in document:
            continue
        card = Card.from_json(document)
        rows = _rows(place) if rows is None else rows
        if rows <= {card.rows} and _are_its_rows(place, card, terms):
            where = "in a ledger beside the file" if name is None else f"as the dataset {name}"
            detail = f"these rows have a budget already, {where}; ask under it, or say second_budget to give them another"
            raise Refused(_CONFLICT, "second budget", detail)


def _terms(place: str, ledgers: Mapping[str, str | Path]) -> Iterator[tuple[str | None, Terms]]:
    beside = Path(_DATA.sub(".ledger", place))
    candidates: list[tuple[str | None, str | Path]] = [(name, where) for name, where in ledgers.items()]
    if str(beside) != place and beside.is_file():
        candidates.append((None, beside))
    for name, where in candidates:
        try:
            with open_ledger(where) as ledger:
                terms = ledger.terms
        except HoldtrueError:
            continue  # what cannot be opened answers nothing, and its own opening says why
        yield name, terms


def _rows(place: str) -> set[int]:
    """Return how many rows the data have; nothing where they cannot be read without being told more about them."""
    try:
        engine = open_engine(place)
    except HoldtrueError:
        return set()
    found = {engine.card.rows}
    engine.close()
    return found


def _are_its_rows(place: str, card: Card, terms: Terms) -> bool:
    """Return whether data, read as a ledger's card says, have the fingerprint that the ledger has."""
    try:
        engine = open_engine(place, types={column.name: column.type for column in card.columns})
    except HoldtrueError:  # other columns, or cells of other types
        return False
    try:
        found = engine.fingerprint(bytes.fromhex(terms.key)).hex()
    except HoldtrueError:
        return False
    finally:
        engine.close()
    return hmac.compare_digest(found, terms.fingerprint)
