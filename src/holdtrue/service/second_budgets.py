"""Rows that have a budget already: under another name of the service, or in a ledger near their file (P12)."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdtrue.curator.second_budget import find_budget, folders_of, has_budget
from holdtrue.engines import Engine, open_engine
from holdtrue.errors import HoldtrueError
from holdtrue.ledgers import open_ledger
from holdtrue.service.problems import Refused

__all__ = ["refuse_second_budget"]

_CONFLICT = 409


def refuse_second_budget(
    place: str,
    ledgers: Mapping[str, str | Path],
    *,
    own: str | Path | None = None,
    header: Any = None,  # noqa: ANN401 - as the registration says
) -> None:
    """Refuse data whose rows a ledger guards already: one of those given by name, or with ``own`` one near the file.

    ``own`` is where the ledger of this registration will be, which may be there from a registration that did not end. Data
    that cannot be read are refused when they are opened, in words of their own.
    """
    try:
        engine = open_engine(place, header=header)
    except HoldtrueError:
        return
    try:
        name = _find_named(place, engine, ledgers)
        near = None if own is None else find_budget(place, engine, folders=folders_of(place))
    finally:
        engine.close()
    if name is not None or (near is not None and near != Path(str(own)).resolve()):
        where = "in a ledger near the file" if name is None else f"as the dataset {name}"
        detail = f"these rows have a budget already, {where}; ask under it, or say second_budget to give them another"
        raise Refused(_CONFLICT, "second budget", detail)


def _find_named(place: str, engine: Engine, ledgers: Mapping[str, str | Path]) -> str | None:
    """Return the name of a ledger that belongs to the rows; one that cannot be opened answers nothing by itself."""
    for name, where in ledgers.items():
        with suppress(HoldtrueError), open_ledger(where) as ledger:
            if has_budget(ledger.terms, place, engine):
                return name
    return None
