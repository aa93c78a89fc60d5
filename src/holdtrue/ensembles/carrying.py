"""A member as bytes, to be carried between machines: arrays and nothing else, so that reading them runs no code.

The bytes hold what private rows taught the member, and are as private as the rows.
"""

import io
from typing import Any, Final

import numpy as np

from holdtrue.ensembles.members import Block, Tree, kind_of
from holdtrue.ensembles.training import Recipe
from holdtrue.errors import InvalidParameter

__all__ = ["carried", "check_carried", "packed"]

_NONE: Final = b""
_SHAPES: Final = {"linear": Block, "trees": Tree}


def check_carried(recipe: Recipe) -> None:
    """Refuse an estimator whose members are code rather than arrays, and so stay on the machine that trained them."""
    if kind_of(recipe.estimator) not in _SHAPES:
        raise InvalidParameter(
            "estimator",
            type(recipe.estimator).__name__,
            "a linear model or a tree of scikit-learn itself where the rows are on a cluster: others cannot be carried",
        )


def packed(member: "Block | Tree | None") -> bytes:
    """Return a member as bytes; none for a part that has none."""
    if member is None:
        return _NONE
    held = io.BytesIO()
    np.savez(held, allow_pickle=False, **{name: np.asarray(value) for name, value in member._asdict().items()})
    return held.getvalue()


def carried(content: bytes, *, recipe: Recipe) -> "Block | Tree | None":
    """Return the member that :func:`packed` made bytes of. Raises on anything else; the caller seals what it says."""
    if content == _NONE:
        return None
    shape: Any = _SHAPES[kind_of(recipe.estimator)]
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        if set(arrays.files) != set(shape._fields):
            message = "these bytes are no member"
            raise ValueError(message)
        found = {name: arrays[name] for name in shape._fields}
    if "depth" in found:
        found["depth"] = int(found["depth"])
    member: Block | Tree = shape(**found)
    return member
