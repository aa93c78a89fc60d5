"""The client: a curator at a distance, with the same verbs, the same responses and the same errors."""

from os import PathLike

from holdtrue.clients.holdouts import RemoteHoldout, RemoteLeaderboard
from holdtrue.clients.remotes import Remote
from holdtrue.clients.wires import Unreachable, Wire

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
    """Return a dataset of a service, to be asked like a curator that is here.

    Guarantee: a request is sent again when no answer came, always under the same idempotency key, so that it is charged once
    (P5); the key goes to this address only, and stands in no repr, message or log. Needs: https, or http to this machine;
    ``insecure=True`` sends the key over an open line. Fails: with the error that the curator raised, or ``Unreachable``.

    ``dataset`` may be left out where the service has only one. ``timeout`` is in seconds, for each try; ``retries`` is how
    many tries follow the first. ``certificates`` is a file of authorities to trust in place of the system's.
    """
    wire = Wire(url, key, timeout=timeout, retries=retries, certificates=certificates, insecure=insecure)
    return Remote(wire, dataset=dataset)
