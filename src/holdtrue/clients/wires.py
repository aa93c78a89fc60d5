"""HTTP to one service: one key, one address, and tries that never charge twice."""

import ipaddress
import re
import time
from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from typing import Any, NoReturn, TypeVar, overload
from urllib.parse import quote

import httpx

from holdtrue.clients.refusals import error_of, is_release, kind_of
from holdtrue.codec import decode, encode
from holdtrue.entropy import SYSTEM
from holdtrue.errors import HoldtrueError, InvalidParameter, RefusedError, RequestError, UnknownName
from holdtrue.exact import count, positive, round_down

__all__ = ["Unreachable", "Wire", "segment"]

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
    """No answer came, however often it was tried. It may be charged: sent again with this ``key`` it costs nothing more."""

    def __init__(self, message: str, *, key: str | None) -> None:
        super().__init__(message)
        self.key = key


class _Bearer(httpx.Auth):
    """Puts the key on a request as it leaves, so that nothing else holds it."""

    def __init__(self, key: str) -> None:
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Iterator[httpx.Request]:  # type: ignore[override]  # it gets nothing back
        request.headers["Authorization"] = f"Bearer {self._key}"
        yield request

    def __repr__(self) -> str:
        return "<Bearer>"


class Wire:
    """One connection to a service, used by everything that shares it.

    Guarantee: what spends budget carries one idempotency key over all its tries; redirects are not followed, so the key
    stays with its address. Fails: the service's own error, or :class:`Unreachable` when all tries are used up.
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
        self.url, here = _address(url, insecure=insecure)
        if not _matches(_KEY, key):
            raise InvalidParameter("key", "what was given", "a key of the service: letters, digits and signs, no spaces")
        seconds = round_down(positive("timeout", timeout))
        self.retries = count("retries", retries, least=0)
        self._client = httpx.Client(
            base_url=self.url,
            auth=_Bearer(key),
            timeout=httpx.Timeout(seconds, connect=min(seconds, _CONNECTING)),
            verify=True if certificates is None else _authorities(certificates),
            follow_redirects=False,
            # A proxy named in the environment would read the key on an open line.
            trust_env=not here and self.url.startswith("https"),
            headers={"Accept": "application/json", "User-Agent": "holdtrue"},
        )

    @overload
    def read(self, path: str, kind: type[Kind]) -> Kind: ...
    @overload
    def read(self, path: str) -> Any: ...  # noqa: ANN401 - JSON
    def read(self, path: str, kind: Any = Any) -> Any:
        """Return what is at a path, as a record of a kind. Free, so it may be read as often as it takes."""
        return _decoded(self._tried("GET", path, None, None), kind)

    def text(self, path: str) -> str:
        """Return the text at a path."""
        return self._tried("GET", path, None, None).text

    def content(self, path: str) -> bytes:
        """Return the bytes at a path."""
        return self._tried("GET", path, None, None).content

    @overload
    def send(
        self, path: str, document: Mapping[str, Any], kind: type[Kind], *, key: str | None = None, spends: bool = True
    ) -> Kind: ...
    @overload
    def send(self, path: str, document: Mapping[str, Any], *, key: str | None = None, spends: bool = True) -> Any: ...  # noqa: ANN401 - JSON
    def send(
        self, path: str, document: Mapping[str, Any], kind: Any = Any, *, key: str | None = None, spends: bool = True
    ) -> Any:
        """Send a document and return what comes back as a record; under ``key``, or a new one, where budget is spent."""
        if key is not None and not _matches(_IDEMPOTENCY, key):
            raise InvalidParameter("key", key, "1 to 128 printable ASCII characters")
        named = (key or SYSTEM.words(2).tobytes().hex()) if spends else None
        try:
            body = encode(dict(document)).encode()
        except RequestError:
            raise InvalidParameter(
                "request", "what was given", "numbers that are finite, texts, lists and mappings"
            ) from None
        return _decoded(self._tried("POST", path, body, named), kind)

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def _tried(self, method: str, path: str, body: bytes | None, key: str | None) -> httpx.Response:
        headers = {} if body is None else {"Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        for attempt in range(self.retries + 1):
            last = attempt == self.retries
            try:
                response = self._client.request(method, path, content=body, headers=headers)
            except httpx.TransportError as error:
                failure = type(error).__name__
                wait = None if last else _pause(attempt, key)
            else:
                if response.status_code == _GOOD or not _passing(response):
                    return _accepted(response)
                failure = f"status {response.status_code}"
                wait = None if last else _told_pause(response, attempt, key)
                if wait is None and response.status_code == _RATE:
                    return _accepted(response)
            if wait is None:
                break
            time.sleep(wait)
        raise _given_up(failure, attempt + 1, key)

    def __repr__(self) -> str:
        return f"<Wire to {self.url}>"

    def __reduce__(self) -> NoReturn:
        message = "a connection holds a key and is not written down; connect again where it is needed"
        raise RefusedError(message)


def _decoded(response: httpx.Response, kind: Any) -> Any:  # noqa: ANN401 - a kind of record, or any JSON
    try:
        return decode(response.content, kind)
    except InvalidParameter:
        name = getattr(kind, "__name__", "document").strip("_")
        message = f"the service answered with something else than a {name}; are both of the same version?"
    except RequestError:
        message = "what came back is no JSON: is this the address of a Holdtrue service?"
    raise HoldtrueError(message)


def _matches(pattern: re.Pattern[str], text: object) -> bool:
    return isinstance(text, str) and pattern.fullmatch(text) is not None


def segment(name: str) -> str:
    """Return a name as one piece of a path, whatever it holds."""
    if not _matches(_NAME, name) or name in (".", ".."):
        message = "a name is a text of 1 to 128 characters"
        raise UnknownName(message)
    return quote(name, safe="")


def _address(url: str, *, insecure: bool) -> tuple[str, bool]:
    """Return a service's address without its last slash, and whether it is on this machine; refuse open lines."""
    try:
        found = httpx.URL(url)
    except (httpx.InvalidURL, TypeError, ValueError):
        raise InvalidParameter("url", "what was given", "an address such as https://host:8000") from None
    if found.scheme not in ("http", "https") or not found.host or found.userinfo or found.query or found.fragment:
        raise InvalidParameter("url", "what was given", "http or https with a host, without user, query and fragment")
    here = _is_here(found.host)
    if found.scheme == "http" and not here and not insecure:
        message = "the key would go over an open line: use https, or say insecure=True for a network that nobody listens to"
        raise RefusedError(message)
    return str(found).rstrip("/"), here


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _authorities(path: str | PathLike[str]) -> Any:  # noqa: ANN401 - an SSL context
    import ssl

    try:
        return ssl.create_default_context(cafile=fspath(path))
    except (OSError, ssl.SSLError, TypeError, ValueError):
        raise InvalidParameter("certificates", path, "a file of certificates in PEM") from None


def _problem(response: httpx.Response) -> object:
    try:
        return response.json()
    except (ValueError, RecursionError):
        return None


def _passing(response: httpx.Response) -> bool:
    """Return whether a refusal may pass: no gate, or too fast; never what the curator itself said."""
    status, told = response.status_code, _problem(response)
    if status == _RATE:
        return kind_of(told) != _BUDGET
    return status in _AGAIN and not is_release(status, told)


def _accepted(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    raise error_of(response.status_code, _problem(response))


def _pause(attempt: int, key: str | None) -> float:
    """Return how long to wait before the next try: twice as long each time, spread by the key so that many do not meet."""
    spread = sum((key or "").encode("ascii")) % 16 / 32
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0**attempt) * (0.75 + spread)


def _told_pause(response: httpx.Response, attempt: int, key: str | None) -> float | None:
    """Return how long the service asks to be left alone, or our own pause; None where it is longer than anyone waits."""
    told = response.headers.get("Retry-After", "")
    if not re.fullmatch(r"[0-9]{1,9}", told):
        return _pause(attempt, key)
    return None if int(told) > _LONGEST_WAIT else max(float(told), _pause(attempt, key) if told == "0" else 0.0)


def _given_up(failure: str, tries: int, key: str | None) -> Unreachable:
    charged = f"it may have been charged: sent again with key={key!r} it costs nothing more"
    message = f"no answer in {tries} tries ({failure}); {'does a service run at that address?' if key is None else charged}"
    return Unreachable(message, key=key)
