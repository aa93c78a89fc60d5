"""What the tests of the ledger share: requests of a known cost, a fingerprint, a place."""

import hashlib
import hmac
from dataclasses import dataclass, field
from fractions import Fraction

import sqlalchemy as sa

from holdtrue.events import GaussianNoise
from holdtrue.ledgers import Ledger, open_ledger

THOUSAND_UNITS = GaussianNoise(Fraction(1, 10**6))


def digest(words):
    return hashlib.sha256(str(words).encode()).hexdigest()


def rows(key):
    """Stand for an engine's fingerprint of its data."""
    return hmac.new(key, b"these rows", "sha256").hexdigest()


def other_rows(key):
    return hmac.new(key, b"other rows", "sha256").hexdigest()


def request(name, *, analyst="ann", event=THOUSAND_UNITS, **more):
    """Return the keywords of a charge: a request id and a digest made from a name, at a cost of 1,000 units unless told."""
    return {
        "request_id": f"id {name}",
        "request_digest": digest(name),
        "analyst": analyst,
        "verb": "ask",
        "event": event,
    } | more


@dataclass
class Place:
    """Where one test keeps one ledger."""

    kind: str
    where: str | None
    opened: list[Ledger] = field(default_factory=list)

    def open(self, **terms):
        terms = {"kind": "gdp", "cap": 10**15, "plan": '{"rows":10}', "iid": True, "fingerprint": rows} | terms
        return self.reopen(**terms)

    def reopen(self, **terms):
        ledger = open_ledger(self.where, **terms)
        self.opened.append(ledger)
        return ledger

    def close(self):
        for ledger in self.opened:
            ledger.close()


def connect(place):
    """Return a connection of the test's own to the store."""
    address = f"sqlite:///{place.where}" if place.kind == "sqlite" else place.where.replace("://", "+psycopg://")
    return sa.create_engine(address, poolclass=sa.pool.NullPool).connect()
