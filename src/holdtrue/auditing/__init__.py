"""Audits: try to break a claim, and say how hard you tried.

A finding is a lower bound that is true with stated confidence, whoever made the mechanism and whatever was searched.
:mod:`holdtrue.auditing.faults` and :mod:`holdtrue.auditing.zoo` hold mechanisms to audit, :mod:`holdtrue.auditing.controls`
answers without noise. :mod:`holdtrue.auditing.ledgers` needs the curator and is loaded when it is used.
"""

from holdtrue.auditing.curves import Curves, law_curves, privacy_curves
from holdtrue.auditing.exhibits import Exhibit
from holdtrue.auditing.findings import Finding
from holdtrue.auditing.generalization import Coverage, audit_generalization
from holdtrue.auditing.one_run import Canaries, audit_one_run
from holdtrue.auditing.populations import Population, Signs, Vote
from holdtrue.auditing.privacy import audit_law, audit_privacy
from holdtrue.auditing.stability import audit_stability
from holdtrue.auditing.timing import audit_draws, audit_timing

__all__ = [
    "Canaries",
    "Coverage",
    "Curves",
    "Exhibit",
    "Finding",
    "Population",
    "Signs",
    "Vote",
    "audit_draws",
    "audit_generalization",
    "audit_law",
    "audit_one_run",
    "audit_privacy",
    "audit_stability",
    "audit_timing",
    "law_curves",
    "privacy_curves",
]
