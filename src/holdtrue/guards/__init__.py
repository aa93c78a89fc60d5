"""Guards for loops that search: what a loop finds is promoted only by a gate over cases that the loop never sees.

Every guard names a candidate by what it says, and asks a gate whether it is better than the incumbent.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdtrue.exact import Number
    from holdtrue.holdouts import Holdout

__all__ = ["name_candidate", "promote"]


def name_candidate(candidate: str | Mapping[str, object]) -> str:
    """Return the public name of a prompt, a skill or a set of parameters: a digest of its text."""
    text = candidate if isinstance(candidate, str) else json.dumps(dict(candidate), sort_keys=True, default=repr)
    return f"sha256 {hashlib.sha256(text.encode()).hexdigest()}"


def promote(gate: "Holdout", results: object, *, name: str, margin: "Number" = 0) -> bool:
    """Return whether results, one in [0, 1] per case, have a yes of a gate; the name decides whether it is a new look.

    True as well for the incumbent itself, which costs no look. Fails: as :meth:`Holdout.gate`; BudgetExceeded once looks or
    yes are used up. Nobody who steers the loop may see the results, or anything made from them but this answer (V1.1).
    """
    if gate.named(cases=results, name=name) == gate.leading:
        return True
    return gate.gate(cases=results, margin=margin, name=name).yes
