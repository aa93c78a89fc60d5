"""Audits: try to break a claim, and say how hard you tried.

A finding is a lower bound that is true with stated confidence, whoever made the mechanism and whatever was searched.
:mod:`holdtrue.auditing.faults` and :mod:`holdtrue.auditing.zoo` hold mechanisms to audit.
"""

from holdtrue.auditing.curves import Curves, law_curves, privacy_curves
from holdtrue.auditing.exhibits import Exhibit
from holdtrue.auditing.findings import Finding
from holdtrue.auditing.one_run import Canaries, audit_one_run
from holdtrue.auditing.privacy import audit_law, audit_privacy
from holdtrue.auditing.stability import audit_stability

__all__ = [
    "Canaries",
    "Curves",
    "Exhibit",
    "Finding",
    "audit_law",
    "audit_one_run",
    "audit_privacy",
    "audit_stability",
    "law_curves",
    "privacy_curves",
]
