"""Audits: try to break a claim, and report how hard you tried.

A finding is a lower bound that is true with the stated confidence, for any mechanism and any search.
:mod:`holdtrue.auditing.catalogue` holds mechanisms to audit: Holdtrue's own, planted faults, the published zoo.
:mod:`holdtrue.auditing.ledger` needs the curator and is loaded when it is used.
"""

from holdtrue.auditing.catalogue.mechanism import AuditedMechanism
from holdtrue.auditing.findings import Finding
from holdtrue.auditing.generalization import Coverage, audit_generalization
from holdtrue.auditing.one_run import Canaries, audit_one_run
from holdtrue.auditing.populations import PlainMeans, PlainScores, Population, Signs, Vote
from holdtrue.auditing.replicability import SharedCoins, audit_replicability
from holdtrue.auditing.search import audit_law, audit_privacy, audit_stability
from holdtrue.auditing.search.curves import Curves, law_curves, privacy_curves
from holdtrue.auditing.timing import audit_draws, audit_timing

__all__ = [
    "AuditedMechanism",
    "Canaries",
    "Coverage",
    "Curves",
    "Finding",
    "PlainMeans",
    "PlainScores",
    "Population",
    "SharedCoins",
    "Signs",
    "Vote",
    "audit_draws",
    "audit_generalization",
    "audit_law",
    "audit_one_run",
    "audit_privacy",
    "audit_replicability",
    "audit_stability",
    "audit_timing",
    "law_curves",
    "privacy_curves",
]
