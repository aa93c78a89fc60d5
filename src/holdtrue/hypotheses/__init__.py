"""Finite classes of hypotheses: fixed before data, scored exactly and fast."""

from msgspec.structs import asdict

from holdtrue.codec import convert, decode
from holdtrue.hypotheses.binary import Conjunctions, Disjunctions, Parities
from holdtrue.hypotheses.classes import HypothesisClass
from holdtrue.hypotheses.custom import Hypotheses
from holdtrue.hypotheses.decisions import DecisionLists, Trees
from holdtrue.hypotheses.grid_classes import Intervals, Rectangles, Stumps, Thresholds
from holdtrue.hypotheses.linear import LinearNet
from holdtrue.hypotheses.unions import Union
from holdtrue.requests import ClassDocument, UnionDocument

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
    "read_class",
]

_KINDS: dict[str, type[HypothesisClass]] = {
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
    )
}


def read_class(document: object) -> HypothesisClass:
    """Return the class whose ``document`` this is, or that reads as it in JSON. Classes made of code are not among them."""
    given = decode(document, ClassDocument) if isinstance(document, str) else convert(document, ClassDocument)
    if isinstance(given, UnionDocument):
        return Union([read_class(each) for each in given.classes], weights=given.weights)
    return _KINDS[type(given).__struct_config__.tag].made_of(**asdict(given))
