"""What the custodian decides before the service starts: where it lives, who may come in, how fast it answers.

A :class:`Settings` is made once, from TOML and from the command line, checked whole, and never changed while it runs.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from limits import parse_many

from holdtrue.errors import InvalidParameter, RequestError

__all__ = ["ALGORITHMS", "ROLES", "Issuer", "Role", "Settings", "from_text", "read_settings", "to_text"]

Role = Literal["owner", "analyst", "auditor"]
ROLES: tuple[Role, ...] = get_args(Role)

# Signatures by a private key only: with a shared secret (HS*) an issuer's public key could sign, and "none" needs no key.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")

_LARGEST_PORT = 65_535
_LARGEST_BODY = 1 << 30
_MOST_WORKERS = 256
_MOST_ENTRIES = 1_000_000
_LONGEST_TICK = 60.0
_MOST_CONNECTIONS = 1_000_000
_LARGEST_CLASS = 10**12
_MOST_WORK = 10**12
_LONGEST_LEEWAY = 600
_ADDRESSES = ("postgresql://", "postgres://")
_DATABASE = re.compile(r"postgres(ql)?://(?![^/]*:[^/]*@)(?!.*password)")
_OWN_NAMES = ("localhost", "127.0.0.1", "[::1]")
_EVERYWHERE = ("0.0.0.0", "::", "[::]")  # noqa: S104 - looked for, not bound to
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9_.:\[\]-]{1,253}|\*")


@dataclass(frozen=True, kw_only=True)
class Issuer:
    """Whose bearer tokens are accepted, and which of their claims gives a role.

    ``jwks`` holds the issuer's public keys: a mapping (the JWK set itself), the path of a file, or an https address.
    ``roles`` maps values of ``claim`` to roles; a token whose claim holds none of them has no role and is refused.
    """

    url: str
    audience: str
    algorithms: tuple[str, ...]
    jwks: Mapping[str, Any] | str
    roles: Mapping[str, Role]
    claim: str = "roles"
    leeway: int = 30

    def __post_init__(self) -> None:
        for name in ("url", "audience", "claim"):
            _check_value(f"issuer.{name}", getattr(self, name), _is_text(getattr(self, name)), "a text that is not empty")
        _check_value(
            "issuer.algorithms", self.algorithms, _are_texts(self.algorithms), f"a list out of {', '.join(ALGORITHMS)}"
        )
        object.__setattr__(self, "algorithms", tuple(self.algorithms))
        known = bool(self.algorithms) and set(self.algorithms) <= set(ALGORITHMS)
        _check_value("issuer.algorithms", self.algorithms, known, f"at least one out of {', '.join(ALGORITHMS)}")
        plain = isinstance(self.jwks, str) and self.jwks.startswith("http://")
        fitting = (_is_text(self.jwks) or isinstance(self.jwks, Mapping)) and not plain
        _check_value("issuer.jwks", self.jwks, fitting, "a JWK set, a file or an https address")
        _check_value(
            "issuer.roles", self.roles, _are_roles(self.roles), f"a table from the claim's values to {', '.join(ROLES)}"
        )
        _check_value(
            "issuer.leeway", self.leeway, _is_whole(self.leeway, 0, _LONGEST_LEEWAY), f"0 to {_LONGEST_LEEWAY} seconds"
        )


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything a running service was told.

    ``home`` is the folder of its own files. ``ledger`` is None (SQLite files in home) or a postgresql:// address that
    all workers and hosts share. ``data`` are the folders from which the owner may register files (home's parent unless
    told), ``databases`` the addresses of PostgreSQL whose tables the owner may register. ``hosts`` are the Host headers
    answered (this machine's own names and ``host`` unless told). A response leaves a whole number of ``tick`` seconds after
    its request arrived; 0 turns that off, and with it the promise about time.
    ``body_limit`` is the most bytes that a request may have, ``holdout_limit`` that of one with the labels or predictions of
    a holdout. A request's head must be whole within ``read_seconds``, and each further piece of its body; a worker has at
    most ``connections`` open, and fewer where the limit of open files is near. A class to learn over HTTP has at most
    ``class_limit`` hypotheses, and takes ``work_limit`` steps to count at most. The database keeps a ledger's newest receipt
    once ``receipt_entries`` were added to it, and at least once a minute. ``telemetry`` sends a span for each request to a
    collector of OpenTelemetry.
    """

    home: Path
    ledger: str | None = field(default=None, repr=False)
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    tick: float = 0.01
    body_limit: int = 1_000_000
    holdout_limit: int = 32_000_000
    read_seconds: float = 10.0
    connections: int = 1_000
    class_limit: int = 1_000_000
    work_limit: int = _MOST_WORK
    receipt_entries: int = 100
    rate: str = "600/minute"
    data: tuple[Path, ...] = ()
    databases: tuple[str, ...] = ()
    secure_cookies: bool = False
    hosts: tuple[str, ...] = ()
    issuer: Issuer | None = None
    telemetry: bool = False
    demo: bool = False

    def __post_init__(self) -> None:
        self._check_places()
        self._check_names()
        _check_value("port", self.port, _is_whole(self.port, 0, _LARGEST_PORT), f"0 to {_LARGEST_PORT}; 0 takes a free one")
        _check_value("workers", self.workers, _is_whole(self.workers, 1, _MOST_WORKERS), f"1 to {_MOST_WORKERS}")
        _check_value("tick", self.tick, _is_time(self.tick), f"0 to {_LONGEST_TICK:.0f} seconds")
        patient = _is_time(self.read_seconds) and self.read_seconds > 0
        _check_value("read_seconds", self.read_seconds, patient, f"more than 0, and at most {_LONGEST_TICK:.0f} seconds")
        fitting = _is_whole(self.connections, 1, _MOST_CONNECTIONS)
        _check_value("connections", self.connections, fitting, f"1 to {_MOST_CONNECTIONS}")
        fitting = _is_whole(self.class_limit, 1, _LARGEST_CLASS)
        _check_value("class_limit", self.class_limit, fitting, f"1 to {_LARGEST_CLASS} hypotheses")
        _check_value("work_limit", self.work_limit, _is_whole(self.work_limit, 1, _MOST_WORK), f"1 to {_MOST_WORK} steps")
        for name in ("body_limit", "holdout_limit"):
            _check_value(
                name, getattr(self, name), _is_whole(getattr(self, name), 1, _LARGEST_BODY), f"1 to {_LARGEST_BODY} bytes"
            )
        entries = self.receipt_entries
        _check_value("receipt_entries", entries, _is_whole(entries, 1, _MOST_ENTRIES), f"1 to {_MOST_ENTRIES} entries")
        _check_value(
            "rate", self.rate, _is_rate(self.rate), 'a count and a time, such as "600/minute", or several joined by ";"'
        )
        for name in ("secure_cookies", "telemetry", "demo"):
            _check_value(name, getattr(self, name), isinstance(getattr(self, name), bool), "true or false")
        _check_value("issuer", self.issuer, self.issuer is None or isinstance(self.issuer, Issuer), "a table [issuer]")

    @property
    def answers_itself_alone(self) -> bool:
        """Return whether it listens to all machines and yet answers to none of the names that others know it by."""
        return self.host in _EVERYWHERE and set(self.hosts) <= {*_OWN_NAMES, self.host}

    def _check_places(self) -> None:
        _check_value("home", self.home, _is_place(self.home), "a folder")
        object.__setattr__(self, "home", Path(self.home).expanduser().absolute())
        _check_value("data", self.data, _are_places(self.data), "a list of folders")
        folders = tuple(Path(each).expanduser().absolute() for each in self.data) or (self.home.parent,)
        object.__setattr__(self, "data", folders)
        shared = _are_texts(self.databases) and all(map(_DATABASE.match, self.databases))
        _check_value("databases", "what was given", shared, "a list of postgresql:// addresses without a password")
        object.__setattr__(self, "databases", tuple(self.databases))

    def _check_names(self) -> None:
        shared = self.ledger is None or (_is_text(self.ledger) and str(self.ledger).startswith(_ADDRESSES))
        # The address may hold a password, so it is not shown.
        _check_value("ledger", "what was given", shared, "a postgresql:// address; leave it out for SQLite files in home")
        _check_value("host", self.host, _is_text(self.host) and bool(_HOST.fullmatch(self.host)), "a name or an address")
        fitting = _are_texts(self.hosts) and all(_HOST.fullmatch(each) for each in self.hosts)
        _check_value("hosts", self.hosts, fitting, "a list of host names")
        own = dict.fromkeys((*_OWN_NAMES, self.host))
        object.__setattr__(self, "hosts", tuple(self.hosts) or tuple(own))


def read_settings(path: Path | str | None = None, **given: Any) -> Settings:  # noqa: ANN401 - checked by Settings
    """Return settings from a TOML file and from what was given; given values win unless they are None.

    Paths in the file are read from the file's own folder. Raises ``RequestError`` for a file that cannot be read and
    for names that no setting has, ``InvalidParameter`` for a value outside its range.
    """
    told = {} if path is None else _read_file(Path(path))
    told |= {name: value for name, value in given.items() if value is not None}
    _require_known(told, Settings, "")
    if "home" not in told:
        raise InvalidParameter("home", None, "a folder for the service's own files")
    if isinstance(told.get("issuer"), Mapping):
        told["issuer"] = _read_issuer(told["issuer"])
    return Settings(**told)


def to_text(settings: Settings) -> str:
    """Return settings as JSON, for a worker process; it may hold a password, so it is neither shown nor logged."""
    return json.dumps(asdict(settings), default=str)


def from_text(text: str) -> Settings:
    """Return the settings that :func:`to_text` wrote."""
    return read_settings(**json.loads(text))


def _read_file(path: Path) -> dict[str, Any]:
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        message = f"the settings in {path} cannot be read: {error.strerror}"
        raise RequestError(message) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        place = re.search(r"\(at [^()]*\)", str(error))
        message = f"the settings in {path} are not TOML {place.group() if place else ''}"
        raise RequestError(message.rstrip()) from None
    _require_known(told, Settings, f" in {path}")
    folder = path.absolute().parent
    if _is_text(told.get("home")):
        told["home"] = folder / Path(told["home"]).expanduser()
    if _are_texts(told.get("data")):
        told["data"] = tuple(folder / Path(each).expanduser() for each in told["data"])
    issuer = told.get("issuer")
    if isinstance(issuer, dict) and _is_text(issuer.get("jwks")) and "://" not in issuer["jwks"]:
        issuer["jwks"] = str(folder / issuer["jwks"])
    return told


def _read_issuer(told: Mapping[str, Any]) -> Issuer:
    _require_known(told, Issuer, " in [issuer]")
    for each in fields(Issuer):
        if each.name not in told and each.default is MISSING:
            raise InvalidParameter(f"issuer.{each.name}", None, "given when tokens of an issuer are accepted")
    return Issuer(**told)


def _require_known(told: Mapping[str, Any], record: type[Settings | Issuer], where: str) -> None:
    known = [each.name for each in fields(record)]
    for name in told:
        if name not in known:
            message = f"there is no setting named {name[:60]!r}{where}; there are {', '.join(known)}"
            raise RequestError(message)


def _check_value(name: str, value: object, fitting: bool, expected: str) -> None:  # noqa: FBT001 - the fact that is required
    if not fitting:
        raise InvalidParameter(name, value, expected)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


def _is_place(value: object) -> bool:
    return isinstance(value, Path) or _is_text(value)


def _are_places(value: object) -> bool:
    return isinstance(value, list | tuple) and all(_is_place(each) for each in value)


def _are_roles(value: object) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(role in ROLES for role in value.values())


def _is_time(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= float(str(value)) <= _LONGEST_TICK


def _are_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(_is_text(each) for each in value)


def _is_whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_rate(value: object) -> bool:
    try:
        return _is_text(value) and all(item.amount > 0 for item in parse_many(str(value)))
    except ValueError:
        return False
