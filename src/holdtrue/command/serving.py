"""``holdtrue serve``, ``key``, ``ledger``, ``demo``: run the service, create keys, accept a restored ledger, demonstrate."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from holdtrue.command import opening
from holdtrue.command.history import read_receipt
from holdtrue.command.output import Json, print_json, print_table, show_progress
from holdtrue.command.paths import share_options
from holdtrue.errors import InvalidParameter, MissingExtra, printable

if TYPE_CHECKING:
    from holdtrue.service.identity.api_keys import Key, Keyring
    from holdtrue.service.settings import Settings

__all__ = ["PACKAGES", "demo", "keys", "ledgers", "register", "retire", "serve"]

_HOME = Path(".holdtrue")
_DAY = 86_400
PACKAGES = ("fastapi", "jwt", "limits", "prometheus_client", "uvicorn")

Home = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder for the service's own files; data may be registered from its parent folder. [.holdtrue]",
    ),
]
Ledger = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="HOLDTRUE_LEDGER",
        help="A postgresql:// address for keys and ledgers, shared by all workers. Default: SQLite files in home.",
    ),
]
Config = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Settings in TOML; options on the command line override them.")
]


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """What every subcommand about a service takes besides its own: where the service's files are, and how it prints."""

    home: Home = None
    ledger: Ledger = None
    config: Config = None
    as_json: Json = False

    @contextmanager
    def open(self) -> "Iterator[tuple[Keyring, Settings]]":
        """Yield the service's keys and its settings."""
        settings = _make_settings(self.config, home=self.home, ledger=self.ledger)
        from holdtrue.service.database import open_database
        from holdtrue.service.identity.api_keys import Keyring

        if settings.ledger is None and not settings.home.exists():
            typer.echo(f"no service has run here yet; creating {settings.home}", err=True)
        database = open_database(settings)
        keyring = Keyring(database)
        try:
            yield keyring, settings
        finally:
            keyring.close()
            database.close()


def serve(
    *,
    home: Home = None,
    ledger: Ledger = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on. [127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="The port; 0 picks a free one. [8000]")] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name by which others reach the service, such as data.example.org; repeat it."),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="The number of worker processes. [1]")] = None,
    tick: Annotated[
        float | None, typer.Option(help="Responses leave at multiples of this many seconds; 0 turns that off. [0.01]")
    ] = None,
    config: Config = None,
) -> None:
    """Serve datasets to analysts over HTTP, with a web page, until stopped.

    The first start creates the owner's key and shows it once.
    """
    given: dict[str, Any] = {"home": home, "ledger": ledger, "host": host, "port": port, "workers": workers, "tick": tick}
    settings = _make_settings(config, **given)
    if allow_host:
        hosts = tuple(dict.fromkeys((*settings.hosts, *allow_host)))
        settings = _make_settings(config, **given, hosts=hosts)
    from holdtrue.service.http.serving import run_service

    run_service(settings)


@share_options
def register(
    service: ServiceOptions,
    data: Annotated[str, typer.Argument(metavar="DATA", help="The file, in the folder that holds the service's home.")],
    *,
    name: Annotated[str | None, typer.Option(help="The dataset's name. Default: the file's.")] = None,
    terms: opening.TermOptions,
    description: Annotated[str, typer.Option(help="What the data are, in a few words.")] = "",
) -> None:
    """Register data with the service in this folder, whether or not it runs. Its plan cannot be changed later."""
    document = terms.read() | {"path": str(Path(data).absolute()) if "://" not in data else data}
    document |= {"description": description, "owner": "command"}
    chosen = name or re.sub(r"[^a-z0-9_-]+", "-", Path(data).name.partition(".")[0].lower()).strip("-")
    with service.open() as (keyring, settings), show_progress(f"reading {printable(data)}"):
        from holdtrue.service.http.telemetry import Metrics
        from holdtrue.service.registry import Registry

        registry = Registry(settings, keyring.database, Metrics())
        try:
            known = {each: value for each, value in document.items() if value is not None}
            made = registry.register(chosen, known)
            if service.as_json:
                print_json({"name": chosen, "plan": made.curator.plan, "card": made.curator.card})
            else:
                opening.print_opened(made.curator)
                typer.echo(f"registered {chosen}; `holdtrue serve` answers about it", err=True)
        finally:
            registry.close()


@share_options
def retire(
    service: ServiceOptions,
    name: Annotated[str, typer.Argument(help="The dataset's name, or the holdout's.")],
    *,
    holdout: Annotated[bool, typer.Option("--holdout", help="The name is a holdout's or a leaderboard's.")] = False,
) -> None:
    """Stop serving a dataset, within a second and for good. Its ledger, its name and its rows' budget stay."""
    with service.open() as (keyring, settings):
        from holdtrue.service.receipts import Receipts, Registered

        registered = Registered("holdout" if holdout else "dataset", settings, Receipts(keyring.database))
        registered.retire(name)
        kept = str(registered.ledger_url(name)) if settings.ledger is None else "PostgreSQL"
    if service.as_json:
        print_json({"name": name, "retired": True, "ledger": kept})
        return
    typer.echo(f"retired {printable(name)}; its ledger stays in {kept}", err=True)


keys = typer.Typer(name="key", help="Create, list and revoke keys of analysts and auditors.", no_args_is_help=True)


@keys.command("create")
@share_options
def create_key(
    service: ServiceOptions,
    name: Annotated[str, typer.Argument(help="Who it is for: the analyst's name in every ledger.")],
    *,
    role: Annotated[
        Literal["owner", "analyst", "auditor"],
        typer.Option(help="An owner registers data, an analyst asks, an auditor reads."),
    ] = "analyst",
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATASET=ASKS",
            help="How many questions' worth of a dataset's budget the name may spend; may be repeated.",
        ),
    ] = None,
    days: Annotated[int | None, typer.Option(min=1, help="How many days the key is valid. Default: until revoked.")] = None,
) -> None:
    """Create a key. It is shown only once and is not stored."""
    allowances = dict(map(_read_allowance, allow or ()))
    with service.open() as (keyring, settings):
        from holdtrue.service.identity.api_keys import check_record

        check_record(name, role, allowances)
        if allowances:
            _grant_allowances(settings, keyring, name, allowances)
        expires = None if days is None else int(datetime.now(UTC).timestamp()) + days * _DAY
        text, key = keyring.create(name, role, allowances, expires)
    if service.as_json:
        print_json({"key": text} | _list_fields(key))
        return
    typer.echo(text)
    typer.echo(f"key for {printable(name)} ({role}), shown only this once", err=True)


@keys.command("list")
@share_options
def list_keys(service: ServiceOptions) -> None:
    """List all keys, without their secrets."""
    with service.open() as (keyring, _):
        found = keyring.list()
    if service.as_json:
        print_json({"keys": [_list_fields(key) for key in found]})
        return
    heads = ("prefix", "name", "role", "created", "expires", "revoked", "allowances")
    print_table(
        heads,
        (
            (
                key.prefix,
                key.name,
                key.role,
                *map(_format_day, (key.created, key.expires, key.revoked)),
                ", ".join(f"{dataset}: {asks:,}" for dataset, asks in key.allowances.items()),
            )
            for key in found
        ),
    )


@keys.command("revoke")
@share_options
def revoke_key(
    service: ServiceOptions,
    prefix: Annotated[str, typer.Argument(help="The eight characters after ht_, as `holdtrue key list` shows them.")],
) -> None:
    """Revoke a key, at once and for all workers."""
    with service.open() as (keyring, _):
        key = keyring.revoke(prefix)
    if service.as_json:
        print_json(_list_fields(key))
        return
    typer.echo(f"revoked {key.prefix} of {printable(key.name)}", err=True)


ledgers = typer.Typer(name="ledger", help="Maintain the ledgers of a service.", no_args_is_help=True)


@ledgers.callback()
def _describe_group() -> None:
    """Maintain the ledgers of a service."""


@ledgers.command("accept")
@share_options
def accept_restored(
    service: ServiceOptions,
    name: Annotated[str, typer.Argument(help="The dataset's name, or the holdout's.")],
    *,
    receipt: Annotated[
        str,
        typer.Option(
            metavar="ENTRY:DIGEST", help="The receipt of the restored ledger's last entry, as `holdtrue verify` prints it."
        ),
    ],
    holdout: Annotated[bool, typer.Option("--holdout", help="The name is a holdout's or a leaderboard's.")] = False,
) -> None:
    """Accept a ledger that was restored from a backup, and charge what it has lost."""
    from holdtrue.exact import amount

    given = read_receipt(receipt)
    with service.open() as (keyring, settings):
        from holdtrue.service.receipts import Receipts, Registered, accept_ledger

        registered = Registered("holdout" if holdout else "dataset", settings, Receipts(keyring.database))
        found = accept_ledger(registered, name, receipt=given)
    newest = f"{found.state.number}:{found.state.digest}"
    if service.as_json:
        print_json({"name": name, "entered": amount(found.spent), "questions": found.draws, "receipt": newest})
        return
    typer.echo(newest)
    entered = f"charged {amount(found.spent):.4g} and {found.draws:,} questions that it had lost"
    typer.echo(f"accepted the ledger of {printable(name)}: {entered}", err=True)


def _make_settings(config: Path | None, **given: Any) -> "Settings":  # noqa: ANN401 - checked by Settings
    if any(find_spec(package) is None for package in PACKAGES):
        raise MissingExtra("server", purpose="the service")
    from holdtrue.service.settings import read_settings

    if config is None and given["home"] is None:
        given["home"] = _HOME
    return read_settings(config, **given)


def _grant_allowances(settings: "Settings", keyring: "Keyring", name: str, allowances: dict[str, int]) -> None:
    from holdtrue.service.identity.api_keys import grant_offline
    from holdtrue.service.receipts import Receipts, Registered

    grant_offline(Registered("dataset", settings, Receipts(keyring.database)), name, allowances)


def _read_allowance(text: str) -> tuple[str, int]:
    dataset, _, asks = text.rpartition("=")
    if not dataset or not asks.isascii() or not asks.isdigit():
        raise InvalidParameter("--allow", text, "DATASET=ASKS, with a whole number of questions")
    return dataset, int(asks)


def _list_fields(key: "Key") -> dict[str, Any]:
    return {name: getattr(key, name) for name in key.__slots__}


def _format_day(seconds: int | None) -> str:
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


def demo(
    *,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="The port of the page on this machine; 0 picks a free one.")
    ] = 8000,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    terminal: Annotated[
        bool, typer.Option("--terminal", help="Run the demonstration in the terminal, without a page.")
    ] = False,
) -> None:
    """Show what Holdtrue does, on synthetic data with known true values.

    Ask questions, see what they cost, and run the attack that fools a plain holdout. All data is deleted at the end.
    """
    if terminal:
        from holdtrue.auditing import audit_privacy
        from holdtrue.demo import tell_story

        tell_story(audit=audit_privacy)
        return
    if any(find_spec(package) is None for package in PACKAGES):
        raise MissingExtra("server", purpose="the demonstration's page")
    from holdtrue.service.http.serving import serve_demo

    typer.echo("Drawing rows …", err=True)
    serve_demo(port=port, ready=lambda address, key: _show_address(address, key, browser=browser))


def _show_address(address: str, key: str, *, browser: bool) -> None:
    told = (
        f"\n  Holdtrue is at  {address}\n\n"
        "  Ask from a shell, as an analyst:\n"
        f"    curl -s {address}/v1/datasets/demo/ask -H 'Authorization: Bearer {key}' \\\n"
        "      -H 'Idempotency-Key: first' -H 'Content-Type: application/json' -d '{\"query\": \"age >= 65\"}'\n\n"
        "  Ctrl-C stops it and deletes all of its data.\n"
    )
    typer.echo(told)
    sys.stdout.flush()
    if browser:
        import webbrowser

        webbrowser.open(address)
