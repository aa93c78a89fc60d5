"""The ledger: append-only, hash-chained, shared by all analysts of one dataset.

Every request is charged here before a row is read, in one transaction that checks the allowance and the cap, appends an
entry and chains its digest; its response is stored here before it leaves. Three stores keep the same promises: memory,
SQLite and PostgreSQL, the first without outliving its process.
"""

from holdtrue.ledgers.entries import Charge, Charged, Entry, EntryKind, FilterKind, Limits, Receipt, Terms, read_charge
from holdtrue.ledgers.ledger import Ledger
from holdtrue.ledgers.opening import Fingerprint, Where, open_ledger, read_terms
from holdtrue.ledgers.transactions import Busy
from holdtrue.ledgers.verifying import Verification, verify

__all__ = [
    "Busy",
    "Charge",
    "Charged",
    "Entry",
    "EntryKind",
    "FilterKind",
    "Fingerprint",
    "Ledger",
    "Limits",
    "Receipt",
    "Terms",
    "Verification",
    "Where",
    "open_ledger",
    "read_charge",
    "read_terms",
    "verify",
]
