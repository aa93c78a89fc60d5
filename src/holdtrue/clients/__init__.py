"""The client: a curator at a distance, with the same verbs, the same responses and the same errors."""

import re
from os import PathLike

from holdtrue.clients.holdouts import RemoteHoldout, RemoteLeaderboard
from holdtrue.clients.remote_curator import Remote
from holdtrue.clients.transport import Transport, Unreachable
from holdtrue.errors import InvalidParameter

__all__ = ["Remote", "RemoteHoldout", "RemoteLeaderboard", "Unreachable", "connect"]


def connect(  # noqa: PLR0913 - where to, as whom, and how patiently
    url: str,
    key: str,
    *,
    dataset: str | None = None,
    timeout: float = 60.0,
    retries: int = 5,
    certificates: str | PathLike[str] | None = None,
    insecure: bool = False,
) -> Remote:
    """Return a dataset of a service, which is asked like a local curator.

    Guarantee: a request that got no answer is sent again under the same idempotency key, so it is charged once (P5); the
    key is sent to this address only and appears in no repr, message or log. Needs: https, or http to this machine;
    ``insecure=True`` sends the key over plain HTTP. Fails: with the error that the curator raised, or ``Unreachable``.

    ``dataset`` may be left out where the service has only one. ``timeout`` is in seconds, for each try; ``retries`` is how
    many tries follow the first. ``certificates`` is a file of authorities to trust instead of the system's.
    """
    place = re.search(r"(?:/v1)?/(dataset|holdout)s/([^/]+)/?$", str(url))
    if place is not None:
        way = f"dataset={place[2]!r}" if place[1] == "dataset" else f"connect(url, key).holdout({place[2]!r})"
        raise InvalidParameter.saying(
            "url", f"url is the service's own address, {url[: place.start()]!r}; name the rest by {way}"
        )
    transport = Transport(url, key, timeout=timeout, retries=retries, certificates=certificates, insecure=insecure)
    return Remote(transport, dataset=dataset)
