"""The HTTP service: many analysts, one budget a dataset; keys and roles; the page. ``create(settings)`` makes it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI

    from holdtrue.service.settings import Settings

__all__ = ["create"]


def create(settings: "Settings") -> "FastAPI":
    """Return the application for one worker. Needs the extra ``server``."""
    from holdtrue import __version__
    from holdtrue.service.applications import Application
    from holdtrue.service.database import open_database
    from holdtrue.service.envelope import Envelope
    from holdtrue.service.keys import Keyring
    from holdtrue.service.metrics import Metrics
    from holdtrue.service.openapi import describe
    from holdtrue.service.page.routes import mount
    from holdtrue.service.problems import add_handlers
    from holdtrue.service.rates import Rates
    from holdtrue.service.registry import Registry
    from holdtrue.service.routes import asks, datasets, health, holdouts, inference, keys, plans, verbs
    from holdtrue.service.state import Service

    database, metrics = open_database(settings), Metrics()
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

    app = Application(
        title="Holdtrue", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan, redirect_slashes=False
    )
    app.state.service = service
    add_handlers(app)
    for family in (asks, verbs, datasets, plans, holdouts, inference, keys, health):
        app.include_router(family.router)
    mount(app)
    app.add_middleware(Envelope, settings=settings, metrics=metrics)
    # A question passes the lane alone; whatever else comes, FastAPI's own layers.
    app.lane = Envelope(asks.Lane(app, service=service), settings=settings, metrics=metrics)
    describe(app)
    return app
