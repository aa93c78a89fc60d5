"""``holdtrue serve``, ``holdtrue key``, ``holdtrue ledger``: run the service, give keys, accept a restored ledger."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from holdtrue.command.history import read_receipt
from holdtrue.command.output import Json, print_json, print_table
from holdtrue.errors import InvalidParameter, MissingExtra, printable

if TYPE_CHECKING:
    from holdtrue.service.identity.api_keys import Key, Keyring
    from holdtrue.service.settings import Settings

__all__ = ["keys", "ledgers", "serve"]

_HOME = Path(".holdtrue")
_DAY = 86_400
_PACKAGES = ("fastapi", "jwt", "limits", "uvicorn")

Home = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="The service's own files; data may be registered from the folder around it. [.holdtrue]"
    ),
]
Ledger = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="HOLDTRUE_LEDGER",
        help="A postgresql:// address that keeps keys and ledgers for all workers. Without it: SQLite files in home.",
    ),
]
Config = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Settings in TOML; what the command line says comes before them.")
]


def serve(
    *,
    home: Home = None,
    ledger: Ledger = None,
    host: Annotated[str | None, typer.Option(help="Where to listen. [127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="The port; 0 takes a free one. [8000]")] = None,
    workers: Annotated[int | None, typer.Option(help="How many processes answer. [1]")] = None,
    tick: Annotated[
        float | None, typer.Option(help="Seconds of the grid on which answers leave; 0 turns it off. [0.01]")
    ] = None,
    config: Config = None,
) -> None:
    """Serve datasets to analysts over HTTP, with a page, until it is told to stop.

    The first start makes the owner's key and shows it once.
    """
    settings = _settings(config, home=home, ledger=ledger, host=host, port=port, workers=workers, tick=tick)
    from holdtrue.service.http.serving import run

    run(settings)


keys = typer.Typer(name="key", help="Give keys to analysts and auditors, list them, take them back.", no_args_is_help=True)


@keys.command()
def create(
    name: Annotated[str, typer.Argument(help="Whom it is for: the analyst's name in every ledger.")],
    *,
    role: Annotated[
        Literal["owner", "analyst", "auditor"], typer.Option(help="Who registers data, who asks, or who reads along.")
    ] = "analyst",
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="DATASET=ASKS", help="How many questions' worth of a dataset's budget; may be repeated."),
    ] = None,
    days: Annotated[int | None, typer.Option(min=1, help="For how many days; for ever, if left out.")] = None,
    home: Home = None,
    ledger: Ledger = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Give a key. It is shown this once, and kept nowhere."""
    allowances = dict(map(_allowance, allow or ()))
    with _keyring(config, home=home, ledger=ledger) as (keyring, settings):
        from holdtrue.service.identity.api_keys import check_record

        check_record(name, role, allowances)
        if allowances:
            _grant(settings, keyring, name, allowances)
        expires = None if days is None else int(datetime.now(UTC).timestamp()) + days * _DAY
        text, key = keyring.create(name, role, allowances, expires)
    if as_json:
        print_json({"key": text} | _document(key))
        return
    typer.echo(text)
    typer.echo(f"a key of {printable(name)} ({role}), shown this once", err=True)


@keys.command("list")
def show(*, home: Home = None, ledger: Ledger = None, config: Config = None, as_json: Json = False) -> None:
    """List the keys that were given, without their secrets."""
    with _keyring(config, home=home, ledger=ledger) as (keyring, _):
        found = keyring.list()
    if as_json:
        print_json({"keys": [_document(key) for key in found]})
        return
    heads = ("prefix", "name", "role", "created", "expires", "revoked", "allowances")
    print_table(
        heads,
        ((key.prefix, key.name, key.role, *map(_day, (key.created, key.expires, key.revoked)), _said(key)) for key in found),
    )


@keys.command()
def revoke(
    prefix: Annotated[str, typer.Argument(help="The eight characters after ht_, as `holdtrue key list` shows them.")],
    *,
    home: Home = None,
    ledger: Ledger = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Take a key back, at once and for all workers."""
    with _keyring(config, home=home, ledger=ledger) as (keyring, _):
        key = keyring.revoke(prefix)
    if as_json:
        print_json(_document(key))
        return
    typer.echo(f"revoked {key.prefix} of {printable(key.name)}", err=True)


ledgers = typer.Typer(name="ledger", help="Look after the ledgers of a service.", no_args_is_help=True)


@ledgers.callback()
def _group() -> None:
    """Look after the ledgers of a service."""


@ledgers.command()
def accept(
    name: Annotated[str, typer.Argument(help="The dataset's name, or the holdout's.")],
    *,
    receipt: Annotated[
        str,
        typer.Option(metavar="ENTRY:DIGEST", help="The last entry of the restored ledger, as `holdtrue verify` prints it."),
    ],
    holdout: Annotated[bool, typer.Option("--holdout", help="The name is that of a holdout or a leaderboard.")] = False,
    home: Home = None,
    ledger: Ledger = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Accept a ledger that was restored from a backup, and enter what it has forgotten as spent."""
    from holdtrue.exact import amount

    given = read_receipt(receipt)
    with _keyring(config, home=home, ledger=ledger) as (keyring, settings):
        from holdtrue.service.http.telemetry import Metrics
        from holdtrue.service.receipts import accept_ledger
        from holdtrue.service.registry import Registry

        registry = Registry(settings, keyring.database, Metrics())
        found = accept_ledger(registry, name, kind="holdout" if holdout else "dataset", receipt=given)
    newest = f"{found.state.number}:{found.state.digest}"
    if as_json:
        print_json({"name": name, "entered": amount(found.spent), "questions": found.draws, "receipt": newest})
        return
    typer.echo(newest)
    entered = f"entered {amount(found.spent):.4g} and {found.draws:,} questions as spent"
    typer.echo(f"accepted the ledger of {printable(name)}: {entered}", err=True)


def _settings(config: Path | None, **given: Any) -> "Settings":  # noqa: ANN401 - checked by Settings
    if any(find_spec(package) is None for package in _PACKAGES):
        raise MissingExtra("server", purpose="the service")
    from holdtrue.service.settings import read_settings

    if config is None and given["home"] is None:
        given["home"] = _HOME
    return read_settings(config, **given)


@contextmanager
def _keyring(config: Path | None, **given: Any) -> "Iterator[tuple[Keyring, Settings]]":  # noqa: ANN401 - checked by Settings
    settings = _settings(config, **given)
    from holdtrue.service.database import open_database
    from holdtrue.service.identity.api_keys import Keyring

    if settings.ledger is None and not settings.home.exists():
        typer.echo(f"no service has run here yet: creating {settings.home} for it", err=True)
    database = open_database(settings)
    keyring = Keyring(database)
    try:
        yield keyring, settings
    finally:
        keyring.close()
        database.close()


def _grant(settings: "Settings", keyring: "Keyring", name: str, allowances: dict[str, int]) -> None:
    from holdtrue.service.http.telemetry import Metrics
    from holdtrue.service.identity.api_keys import grant_offline
    from holdtrue.service.registry import Registry

    grant_offline(Registry(settings, keyring.database, Metrics()), keyring.database, name, allowances)


def _allowance(text: str) -> tuple[str, int]:
    dataset, _, asks = text.rpartition("=")
    if not dataset or not asks.isascii() or not asks.isdigit():
        raise InvalidParameter("--allow", text, "the name of a dataset, = and a whole number of questions")
    return dataset, int(asks)


def _document(key: "Key") -> dict[str, Any]:
    return {name: getattr(key, name) for name in key.__slots__}


def _day(seconds: int | None) -> str:
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


def _said(key: "Key") -> str:
    return ", ".join(f"{dataset}: {asks:,}" for dataset, asks in key.allowances.items())
