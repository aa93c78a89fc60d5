"""Files that browsers keep: served under a name that changes with their content, so that they are fetched once."""

import gzip
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fastapi import Request, Response

from holdtrue.service.problems import Refused

__all__ = ["address", "static"]

_FOLDER = Path(__file__).parent / "static"
_MEDIA = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_PACKED = (".css", ".js", ".svg")
_FOR_EVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    packed: bytes | None
    media: str


@lru_cache(1)
def _files() -> dict[str, _File]:
    found = {}
    for path in sorted(_FOLDER.rglob("*")):
        media = _MEDIA.get(path.suffix)
        if media is not None and path.is_file():
            content = path.read_bytes()
            packed = gzip.compress(content, 6, mtime=0) if path.suffix in _PACKED else None
            found[path.relative_to(_FOLDER).as_posix()] = _File(content, packed, media)
    return found


@lru_cache(1)
def _version() -> str:
    """Return a digest of all files: one of them refers to another by its place beside it."""
    whole = hashlib.sha256()
    for name, file in _files().items():
        whole.update(name.encode() + b"\0" + hashlib.sha256(file.content).digest())
    return whole.hexdigest()[:16]


def address(name: str) -> str:
    """Return the address of a file of the page."""
    return f"/static/{_version()}/{name}"


async def static(request: Request, version: str, name: str) -> Response:
    """Return a file; one of an older version is told as it is now, and not kept."""
    file = _files().get(name)
    if file is None:
        raise Refused(404, "not found", "there is no such file")
    mark = f'"{_version()}"'
    headers = {
        "ETag": mark,
        "Cache-Control": _FOR_EVER if version == _version() else "no-cache",
        "Vary": "Accept-Encoding",
    }
    if request.headers.get("if-none-match") == mark:
        return Response(status_code=304, headers=headers)
    if file.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=file.media)
    return Response(file.content, headers=headers, media_type=file.media)
