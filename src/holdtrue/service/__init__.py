"""The HTTP service: many analysts, one budget per dataset; keys and roles; the page. ``create(settings)`` makes it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import HTTPConnection

    from holdtrue.service.database import Database
    from holdtrue.service.http.telemetry import Metrics
    from holdtrue.service.identity import Rates
    from holdtrue.service.identity.api_keys import Keyring
    from holdtrue.service.registry import Registry
    from holdtrue.service.settings import Settings

__all__ = ["Service", "create", "service_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Service:
    """What one worker of the service holds, made once at its start."""

    settings: "Settings"
    database: "Database"
    registry: "Registry"
    keyring: "Keyring"
    rates: "Rates"
    metrics: "Metrics"


def service_of(request: "HTTPConnection") -> Service:
    """Return the service that a request came to."""
    found: Service = request.app.state.service
    return found


def create(settings: "Settings") -> "FastAPI":
    """Return the application for one worker. Needs the extra ``server``."""
    from holdtrue.service import inference
    from holdtrue.service.database import open_database
    from holdtrue.service.http import fast_path, telemetry
    from holdtrue.service.http.bodies import describe_application
    from holdtrue.service.http.middleware import Envelope
    from holdtrue.service.http.problems import add_handlers
    from holdtrue.service.http.routes import datasets, holdouts, keys, plans, verbs
    from holdtrue.service.identity import Rates
    from holdtrue.service.identity.api_keys import Keyring
    from holdtrue.service.mcp import mount_agents
    from holdtrue.service.page import mount_page
    from holdtrue.service.registry import Registry
    from holdtrue.version import __version__

    spans = telemetry.Spans() if settings.telemetry else None
    database, metrics = open_database(settings), telemetry.Metrics()
    service = Service(
        settings=settings,
        database=database,
        registry=Registry(settings, database, metrics),
        keyring=Keyring(database, issuer=settings.issuer),
        rates=Rates(settings.rate),
        metrics=metrics,
    )

    @asynccontextmanager
    async def lifespan(_: "FastAPI") -> AsyncIterator[None]:
        service.registry.open_all()
        yield
        service.registry.close()
        service.keyring.close()
        database.close()
        if spans is not None:
            spans.close()

    app = fast_path.Application(
        title="Holdtrue", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan, redirect_slashes=False
    )
    app.state.service = service
    add_handlers(app)
    for family in (fast_path, verbs, datasets, plans, holdouts, inference, keys, telemetry):
        app.include_router(family.router)
    mount_agents(app, service)
    mount_page(app)
    app.add_middleware(Envelope, settings=settings, metrics=metrics, spans=spans)
    # A question goes over the fast path alone; whatever else comes, FastAPI's own layers.
    app.fast = Envelope(fast_path.FastPath(service), settings=settings, metrics=metrics, spans=spans)
    describe_application(app)
    return app
