"""Bearer tokens of an OpenID Connect issuer, accepted only as the settings say."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdtrue.errors import RequestError, Unauthorized
from holdtrue.service.identity import Caller
from holdtrue.service.settings import ROLES, Issuer

if TYPE_CHECKING:
    from jwt import PyJWK

__all__ = ["TOKENS_PREFIX", "Tokens"]

TOKENS_PREFIX = "oidc"
"""Stands in logs and in names where the prefix of a key would: no key can have a name that begins like it."""

_LONGEST = 16_384
_LONGEST_NAME = 120
_BETWEEN_FETCHES = 60.0
_MOST_BYTES = 1 << 20
_LEAST_RSA_BITS = 2048
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
_REFUSAL = "this service does not accept the token"


class Tokens:
    """Checks tokens against an issuer's public keys.

    Law: a caller is returned only for a token that a key of the issuer signed, by an algorithm that the settings name and
    that fits the key's own kind, for this audience, from this issuer, within its time (give or take the leeway), with a
    subject, and with a role by the settings' table. Needs: the issuer's keys, and a clock. Fails: with the same
    ``Unauthorized`` whatever the reason. ``kid`` only chooses among the keys already held; it is never a path or address.
    """

    def __init__(
        self,
        issuer: Issuer,
        *,
        fetch: Callable[[str], bytes] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._fetch = fetch or _fetch_keys
        self._clock = clock
        self._lock = threading.Lock()
        self._fetched_at = -_BETWEEN_FETCHES
        self._keys: tuple[Mapping[str, Any], ...] = ()
        self._prepared: dict[tuple[str, str], PyJWK] = {}
        if isinstance(issuer.jwks, Mapping):
            self._hold_keys(_keys_of(issuer.jwks))
        elif self._remote:
            self._renew_keys()
        else:
            self._hold_keys(_keys_of(_read_file(str(issuer.jwks))))

    @property
    def _remote(self) -> bool:
        return isinstance(self._issuer.jwks, str) and self._issuer.jwks.startswith("https://")

    def check(self, text: str) -> Caller:
        """Return who a token speaks for."""
        import jwt

        if len(text) > _LONGEST:
            raise Unauthorized(_REFUSAL)
        issuer = self._issuer
        try:
            header = jwt.get_unverified_header(text)
            key = self._find_key(header)
            claims: dict[str, Any] = jwt.decode(
                text,
                key,
                algorithms=list(issuer.algorithms),
                audience=issuer.audience,
                issuer=issuer.url,
                leeway=issuer.leeway,
                options={"require": ["exp", "iss", "aud", "sub"], "enforce_minimum_key_length": True},
            )
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            claims = {}
        return self._read_caller(claims)

    def _read_caller(self, claims: Mapping[str, Any]) -> Caller:
        subject, held = claims.get("sub"), claims.get(self._issuer.claim)
        values = held if isinstance(held, list) else str(held).split() if isinstance(held, str) else []
        roles = {self._issuer.roles[value] for value in values if isinstance(value, str) and value in self._issuer.roles}
        named = isinstance(subject, str) and subject.isprintable() and 0 < len(subject) <= _LONGEST_NAME
        if not named or not roles:
            raise Unauthorized(_REFUSAL)
        return Caller(f"{TOKENS_PREFIX}:{subject}", min(roles, key=ROLES.index), TOKENS_PREFIX)

    def _find_key(self, header: Mapping[str, Any]) -> "PyJWK":
        algorithm, name = header.get("alg"), header.get("kid")
        if algorithm not in self._issuer.algorithms or "crit" in header or not isinstance(name, str | None):
            raise Unauthorized(_REFUSAL)
        found = self._find_held(name, algorithm)
        if found is None and self._remote:
            self._renew_keys()
            found = self._find_held(name, algorithm)
        if found is None:
            raise Unauthorized(_REFUSAL)
        return found

    def _find_held(self, name: str | None, algorithm: str) -> "PyJWK | None":
        """Return the key of that name that fits the algorithm; a token without a name has to fit exactly one key."""
        with self._lock:
            prepared = None if name is None else self._prepared.get((name, algorithm))
            if prepared is not None:
                return prepared
            fitting = [key for key in self._keys if (name is None or key.get("kid") == name) and _is_fitting(key, algorithm)]
            if len(fitting) != 1:
                return None
            found = _prepare_key(fitting[0], algorithm)
            if name is not None and found is not None:
                self._prepared[name, algorithm] = found
            return found

    def _hold_keys(self, keys: tuple[Mapping[str, Any], ...]) -> None:
        with self._lock:
            self._keys = keys
            self._prepared = {}

    def _renew_keys(self) -> None:
        """Fetch the keys again, at most once a minute; what is held stays when the issuer does not answer."""
        with self._lock:
            if self._clock() - self._fetched_at < _BETWEEN_FETCHES:
                return
            self._fetched_at = self._clock()
        try:
            keys = _keys_of(json.loads(self._fetch(str(self._issuer.jwks))))
        except (OSError, ValueError, RecursionError):
            return
        self._hold_keys(keys)


def _keys_of(document: object) -> tuple[Mapping[str, Any], ...]:
    found = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        message = "issuer.jwks must be a JWK set: an object with a list of keys"
        raise RequestError(message)
    return tuple(found)


def _read_file(path: str) -> object:
    try:
        return json.loads(Path(path).read_bytes())
    except (OSError, ValueError):
        message = f"issuer.jwks: {path} cannot be read as a JWK set"
    raise RequestError(message)


def _is_fitting(key: Mapping[str, Any], algorithm: str) -> bool:
    """Return whether a key is for signatures by an algorithm; a key that others may hold (oct) fits none."""
    kind = key.get("kty") == _KINDS[algorithm[:2]]
    curve = key.get("crv") == _CURVES.get(algorithm, key.get("crv"))
    return kind and curve and key.get("use", "sig") == "sig" and key.get("alg", algorithm) == algorithm


def _prepare_key(key: Mapping[str, Any], algorithm: str) -> "PyJWK | None":
    import jwt

    # Only the public half: a set that holds private members by mistake is not a reason to load them.
    public = {name: value for name, value in key.items() if name not in ("d", "p", "q", "dp", "dq", "qi", "oth", "k")}
    try:
        found = jwt.PyJWK(public, algorithm)
    except jwt.PyJWTError:
        return None
    small = public.get("kty") == "RSA" and found.key.key_size < _LEAST_RSA_BITS
    return None if small else found


def _fetch_keys(address: str) -> bytes:
    """Return what an https address holds: no redirects, ten seconds, a megabyte."""
    import httpx

    content = b""
    try:
        with httpx.stream("GET", address, timeout=10.0, follow_redirects=False) as response:
            response.raise_for_status()
            for part in response.iter_bytes():
                content += part
                if len(content) > _MOST_BYTES:
                    break
    except httpx.HTTPError as error:
        raise OSError(type(error).__name__) from None
    return content[:_MOST_BYTES]
