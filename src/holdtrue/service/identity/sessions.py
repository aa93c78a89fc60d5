"""Sessions of the page: a cookie that stands for a key, for twelve hours, in a browser and nowhere else."""

import base64
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import sqlalchemy as sa

from holdtrue.entropy import SYSTEM
from holdtrue.errors import RefusedError, Unauthorized
from holdtrue.service.database import SESSIONS
from holdtrue.service.identity.authentication import Caller
from holdtrue.service.identity.oidc import TOKENS_PREFIX

if TYPE_CHECKING:
    from starlette.responses import Response

    from holdtrue.service.identity.api_keys import Keyring
    from holdtrue.service.settings import Settings

__all__ = ["COOKIE", "SECONDS", "Sessions", "forget_cookie", "set_cookie"]

COOKIE = "holdtrue_session"
SECONDS = 12 * 3600
_WORDS = 4
_LENGTH = 43


class Sessions:
    """Page sessions: ``service.keyring.sessions``.

    Law: a cookie's value is 256 random bits, stored as a digest; it stands for a caller only while the key it began with
    is valid, and for twelve hours at most. Needs: the keyring. Fails: with ``Unauthorized``.
    """

    def __init__(self, keyring: "Keyring", *, now: Callable[[], float] = time.time) -> None:
        self._keyring = keyring
        self._now = now

    def begin(self, caller: Caller) -> str:
        """Return a new cookie's value for a caller who came with a key; what has expired is swept out on the way."""
        if caller.prefix == TOKENS_PREFIX:
            message = "the page is opened with a key of this service, not with a token"
            raise RefusedError(message)
        value = base64.urlsafe_b64encode(SYSTEM.words(_WORDS).tobytes()).decode().rstrip("=")
        now = int(self._now())
        row = {"digest": self._make_digest(value), "prefix": caller.prefix, "created": now, "expires": now + SECONDS}
        with self._keyring.database.begin() as connection:
            connection.execute(sa.delete(SESSIONS).where(SESSIONS.c.expires <= now))
            connection.execute(sa.insert(SESSIONS).values(**row))
        return value

    def caller_of(self, cookie: str) -> Caller:
        """Return whom a cookie stands for."""
        chosen = sa.select(SESSIONS.c.prefix, SESSIONS.c.expires).where(SESSIONS.c.digest == self._make_digest(cookie))
        with self._keyring.database.read() as connection:
            row = connection.execute(chosen).first()
        if len(cookie) != _LENGTH or row is None or row.expires <= self._now():
            message = "there is no such session, or it has ended"
            raise Unauthorized(message)
        return self._keyring.find_holder(row.prefix)

    def end(self, cookie: str) -> None:
        """End a session; one that is not there is ended already."""
        with self._keyring.database.begin() as connection:
            connection.execute(sa.delete(SESSIONS).where(SESSIONS.c.digest == self._make_digest(cookie)))

    def _make_digest(self, cookie: str) -> str:
        # The word keeps a session's digest from ever being a key's.
        return self._keyring.make_digest(f"session {cookie}")


def set_cookie(response: "Response", value: str, settings: "Settings") -> None:
    """Hand a session to a browser: out of reach of scripts, and never sent from another site."""
    secure = settings.secure_cookies
    response.set_cookie(COOKIE, value, max_age=SECONDS, path="/", secure=secure, httponly=True, samesite="strict")


def forget_cookie(response: "Response", settings: "Settings") -> None:
    """Take a session's cookie back."""
    response.delete_cookie(COOKIE, path="/", secure=settings.secure_cookies, httponly=True, samesite="strict")
