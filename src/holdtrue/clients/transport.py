"""HTTP to one service: one key, one address, retries that never charge twice, and refusals turned back into errors."""

import ipaddress
import re
import time
from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from typing import Any, NoReturn, TypeVar, overload
from urllib.parse import quote

import httpx

from holdtrue import errors
from holdtrue.codec import decode, encode
from holdtrue.entropy import SYSTEM
from holdtrue.errors import (
    HoldtrueError,
    InvalidParameter,
    RefusedError,
    ReleaseError,
    RequestError,
    Unauthorized,
    UnknownName,
)
from holdtrue.exact import count, positive, round_down

__all__ = ["Transport", "Unreachable", "find_kind", "is_release", "make_error", "quote_segment"]

Kind = TypeVar("Kind")
_KEY = re.compile(r"[\x21-\x7e]{1,4096}")
_IDEMPOTENCY = re.compile(r"[\x20-\x7e]{1,128}")
_NAME = re.compile(r".{1,128}")
_FIRST_PAUSE, _LONGEST_PAUSE, _LONGEST_WAIT = 0.2, 10.0, 60.0
_CONNECTING = 10.0
_AGAIN = (502, 503, 504)
_RATE, _GOOD = 429, 200
_BUDGET = "budget-exceeded"


class Unreachable(HoldtrueError, ConnectionError):
    """No try got an answer. The request may have been charged: sent again with this ``key`` it costs nothing more."""

    def __init__(self, message: str, *, key: str | None) -> None:
        super().__init__(message)
        self.key = key


class _Bearer(httpx.Auth):
    """Adds the key to each request as it is sent, so that nothing else holds it."""

    def __init__(self, key: str) -> None:
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Iterator[httpx.Request]:  # type: ignore[override]  # it gets nothing back
        request.headers["Authorization"] = f"Bearer {self._key}"
        yield request

    def __repr__(self) -> str:
        return "<Bearer>"


class Transport:
    """One connection to a service, shared by everything that uses it.

    Guarantee: a request that spends budget has the same idempotency key in all its tries; redirects are not followed, so
    the key is sent to one address only. Fails: the service's own error, or :class:`Unreachable` after the last try.
    """

    def __init__(  # noqa: PLR0913 - where to, as whom, and how patiently
        self,
        url: str,
        key: str,
        *,
        timeout: float,
        retries: int,
        certificates: str | PathLike[str] | None,
        insecure: bool,
    ) -> None:
        self.url, here = _check_address(url, insecure=insecure)
        if not _is_match(_KEY, key):
            raise InvalidParameter.without_value("key", "a key of the service: letters, digits and signs, no spaces")
        seconds = round_down(positive("timeout", timeout))
        self.retries = count("retries", retries, least=0)
        self._client = httpx.Client(
            base_url=self.url,
            auth=_Bearer(key),
            timeout=httpx.Timeout(seconds, connect=min(seconds, _CONNECTING)),
            verify=True if certificates is None else _load_certificates(certificates),
            follow_redirects=False,
            # A proxy named in the environment would read a key sent over plain HTTP.
            trust_env=not here and self.url.startswith("https"),
            headers={"Accept": "application/json", "User-Agent": "holdtrue"},
        )

    @overload
    def read(self, path: str, kind: type[Kind]) -> Kind: ...
    @overload
    def read(self, path: str) -> Any: ...  # noqa: ANN401 - JSON
    def read(self, path: str, kind: Any = Any) -> Any:
        """Return what is at a path, as a record of a kind. Free, so it may be tried any number of times."""
        return _decode_response(self._send_with_retries("GET", path, None, None), kind)

    def read_text(self, path: str) -> str:
        """Return the text at a path."""
        return self._send_with_retries("GET", path, None, None).text

    def read_bytes(self, path: str) -> bytes:
        """Return the bytes at a path."""
        return self._send_with_retries("GET", path, None, None).content

    @overload
    def send(
        self, path: str, document: Mapping[str, Any], kind: type[Kind], *, key: str | None = None, spends: bool = True
    ) -> Kind: ...
    @overload
    def send(self, path: str, document: Mapping[str, Any], *, key: str | None = None, spends: bool = True) -> Any: ...  # noqa: ANN401 - JSON
    def send(
        self, path: str, document: Mapping[str, Any], kind: Any = Any, *, key: str | None = None, spends: bool = True
    ) -> Any:
        """Send a document and return the response as a record; a request that spends has ``key``, or a new one."""
        if key is not None and not _is_match(_IDEMPOTENCY, key):
            raise InvalidParameter("key", key, "1 to 128 printable ASCII characters")
        named = (key or SYSTEM.words(2).tobytes().hex()) if spends else None
        try:
            body = encode(dict(document)).encode()
        except RequestError:
            raise InvalidParameter.without_value("request", "made of finite numbers, texts, lists and mappings") from None
        return _decode_response(self._send_with_retries("POST", path, body, named), kind)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _send_with_retries(self, method: str, path: str, body: bytes | None, key: str | None) -> httpx.Response:
        headers = {} if body is None else {"Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        for attempt in range(self.retries + 1):
            last = attempt == self.retries
            try:
                response = self._client.request(method, path, content=body, headers=headers)
            except httpx.TransportError as error:
                failure = type(error).__name__
                wait = None if last else _choose_pause(attempt, key)
            else:
                if response.status_code == _GOOD or not _may_pass(response):
                    return _check_response(response)
                failure = f"status {response.status_code}"
                wait = None if last else _read_pause(response, attempt, key)
                if wait is None and response.status_code == _RATE:
                    return _check_response(response)
            if wait is None:
                break
            time.sleep(wait)
        raise _make_unreachable(failure, attempt + 1, key)

    def __repr__(self) -> str:
        return f"<Transport to {self.url}>"

    def __reduce__(self) -> NoReturn:
        message = "a connection holds a key and cannot be pickled; call connect again where it is needed"
        raise RefusedError(message)


def _decode_response(response: httpx.Response, kind: Any) -> Any:  # noqa: ANN401 - a kind of record, or any JSON
    try:
        return decode(response.content, kind)
    except InvalidParameter:
        name = getattr(kind, "__name__", "document").strip("_")
        message = f"the service's response is not a {name}; check that client and service have the same version"
    except RequestError:
        message = "the response is not JSON; check that this is the address of a Holdtrue service"
    raise HoldtrueError(message)


def _is_match(pattern: re.Pattern[str], text: object) -> bool:
    return isinstance(text, str) and pattern.fullmatch(text) is not None


def quote_segment(name: str) -> str:
    """Return a name as one segment of a path, with all special characters quoted."""
    if not _is_match(_NAME, name) or name in (".", ".."):
        message = "a name has 1 to 128 characters"
        raise UnknownName(message)
    return quote(name, safe="")


def _check_address(url: str, *, insecure: bool) -> tuple[str, bool]:
    """Return an address without its last slash, and whether it is on this machine; refuse plain HTTP to others."""
    given: object = url
    if not isinstance(given, str):
        raise InvalidParameter.without_value("url", "an address such as https://host:8000")
    try:
        found = httpx.URL(url)
    except (httpx.InvalidURL, TypeError, ValueError):
        raise InvalidParameter.without_value("url", "an address such as https://host:8000") from None
    if found.scheme not in ("http", "https") or not found.host or found.userinfo or found.query or found.fragment:
        raise InvalidParameter.without_value("url", "http or https with a host, without user, query and fragment")
    here = _is_here(found.host)
    if found.scheme == "http" and not here and not insecure:
        message = "refusing to send the key over plain HTTP; use https, or insecure=True on a trusted network"
        raise RefusedError(message)
    return str(found).rstrip("/"), here


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _load_certificates(path: str | PathLike[str]) -> Any:  # noqa: ANN401 - an SSL context
    import ssl

    try:
        return ssl.create_default_context(cafile=fspath(path))
    except (OSError, ssl.SSLError, TypeError, ValueError):
        raise InvalidParameter("certificates", path, "a file of certificates in PEM") from None


def _read_problem(response: httpx.Response) -> object:
    try:
        return response.json()
    except (ValueError, RecursionError):
        return None


def _may_pass(response: httpx.Response) -> bool:
    """Return whether trying again may help: a gateway's error or a rate limit, never the curator's own refusal."""
    status, told = response.status_code, _read_problem(response)
    if status == _RATE:
        return find_kind(told) != _BUDGET
    return status in _AGAIN and not is_release(status, told)


def _check_response(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    raise make_error(response.status_code, _read_problem(response))


def _choose_pause(attempt: int, key: str | None) -> float:
    """Return how long to wait before the next try: twice as long each time, spread by the key so that clients differ."""
    spread = sum((key or "").encode("ascii")) % 16 / 32
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0**attempt) * (0.75 + spread)


def _read_pause(response: httpx.Response, attempt: int, key: str | None) -> float | None:
    """Return how long the service asks to wait, or our own pause; None if that is longer than we wait."""
    told = response.headers.get("Retry-After", "")
    if not re.fullmatch(r"[0-9]{1,9}", told):
        return _choose_pause(attempt, key)
    return None if int(told) > _LONGEST_WAIT else max(float(told), _choose_pause(attempt, key) if told == "0" else 0.0)


def _make_unreachable(failure: str, tries: int, key: str | None) -> Unreachable:
    charged = f"it may have been charged: send it again with key={key!r} at no further cost"
    message = (
        f"no answer in {tries} tries ({failure}); {'check that a service runs at that address' if key is None else charged}"
    )
    return Unreachable(message, key=key)


_PREFIX = "urn:holdtrue:"
_NUMBERS: dict[str, type | tuple[type, ...]] = {
    "required": int,
    "requested": (int, float),
    "left": (int, float),
    "unit": str,
    "entry": int,
    "parameter": str,
}
_BLANK: dict[str, dict[str, Any]] = {
    "InvalidParameter": {"parameter": "", "value": None, "expected": ""},
    "InsufficientSamples": {"required": None},
    "BudgetExceeded": {"requested": 0.0, "left": 0.0, "unit": ""},
    "ReleaseError": {"entry": None},
    "MissingExtra": {"extra": ""},
}
_BY_STATUS: dict[int, type[HoldtrueError]] = {401: Unauthorized, 403: RefusedError, 404: UnknownName, 409: RefusedError}
_LONGEST = 2000
_REQUESTS, _FAILURES = range(400, 500), 500


def find_kind(document: object) -> str:
    """Return the kind of a problem, such as ``budget-exceeded``; or an empty text if it is not one of ours."""
    kind = document.get("type") if isinstance(document, Mapping) else None
    return kind.removeprefix(_PREFIX) if isinstance(kind, str) and kind.startswith(_PREFIX) else ""


def make_error(status: int, document: object) -> HoldtrueError:
    """Return the error of a refusal, with its fields: by its kind, or by the status alone if the kind is unknown.

    The value of a parameter, which the service does not repeat, is None.
    """
    told: Mapping[str, Any] = document if isinstance(document, Mapping) else {}
    words = told.get("detail")
    message = words[:_LONGEST] if isinstance(words, str) and words else f"the service refused with status {status}"
    name = "".join(part.capitalize() for part in re.split("-", find_kind(told)))
    kind = getattr(errors, name, None) if name in errors.__all__ else _find_by_status(status)
    made = _make_blank(kind or HoldtrueError, message)
    for field, allowed in _NUMBERS.items():
        value = told.get(field)
        if isinstance(value, allowed) and not isinstance(value, bool) and hasattr(made, field):
            setattr(made, field, value)
    return made


def _make_blank(kind: type[HoldtrueError], message: str) -> HoldtrueError:
    """Return an error with a ready message and empty fields."""
    made = kind.__new__(kind)
    Exception.__init__(made, message)
    for field, value in _BLANK.get(kind.__name__, {}).items():
        setattr(made, field, value)
    return made


def _find_by_status(status: int) -> type[HoldtrueError]:
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status == _RATE:
        return RefusedError
    return RequestError if status in _REQUESTS else HoldtrueError


def is_release(status: int, document: object) -> bool:
    """Return whether the curator failed after the charge; such a request is not sent again."""
    return status >= _FAILURES and make_error(status, document).__class__ is ReleaseError
