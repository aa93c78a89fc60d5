"""Finite classes of hypotheses: fixed before data, scored exactly and fast."""

from collections.abc import Mapping
from typing import Any

from holdtrue.errors import InvalidParameter
from holdtrue.hypotheses.binary import Conjunctions, Disjunctions, Parities
from holdtrue.hypotheses.classes import HypothesisClass
from holdtrue.hypotheses.custom import Hypotheses
from holdtrue.hypotheses.decision_lists import DecisionLists
from holdtrue.hypotheses.decision_trees import Trees
from holdtrue.hypotheses.grid_classes import Intervals, Rectangles, Stumps, Thresholds
from holdtrue.hypotheses.linear import LinearNet
from holdtrue.hypotheses.unions import Union

__all__ = [
    "Conjunctions",
    "DecisionLists",
    "Disjunctions",
    "Hypotheses",
    "HypothesisClass",
    "Intervals",
    "LinearNet",
    "Parities",
    "Rectangles",
    "Stumps",
    "Thresholds",
    "Trees",
    "Union",
    "from_json",
]

_KINDS: dict[str, Any] = {
    kind.kind: kind
    for kind in (
        Conjunctions,
        DecisionLists,
        Disjunctions,
        Intervals,
        LinearNet,
        Parities,
        Rectangles,
        Stumps,
        Thresholds,
        Trees,
        Union,
    )
}


def from_json(document: Mapping[str, Any]) -> HypothesisClass:
    """Return the class that its ``to_json`` wrote. Classes made of code are not among them."""
    given: object = document
    name = given.get("class") if isinstance(given, Mapping) else None
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InvalidParameter("class", name, f"one of {', '.join(_KINDS)}")
    found: HypothesisClass = kind.from_json(document)
    return found
