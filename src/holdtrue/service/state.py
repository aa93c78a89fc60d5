"""What one worker of the service holds, made once at its start."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection

if TYPE_CHECKING:
    from holdtrue.service.database import Database
    from holdtrue.service.keys import Keyring
    from holdtrue.service.metrics import Metrics
    from holdtrue.service.rates import Rates
    from holdtrue.service.registry import Registry
    from holdtrue.service.settings import Settings

__all__ = ["Service", "service_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Service:
    """The parts that requests pass through."""

    settings: "Settings"
    database: "Database"
    registry: "Registry"
    keyring: "Keyring"
    rates: "Rates"
    metrics: "Metrics"


def service_of(request: HTTPConnection) -> Service:
    """Return the service that a request came to."""
    found: Service = request.app.state.service
    return found
