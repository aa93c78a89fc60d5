"""Templates: filled in with everything escaped, so that what people wrote is shown and never run; and the files beside them.

Files are served under a name that changes with their content, so that browsers fetch them once.
"""

import gzip
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from holdtrue.entropy import SYSTEM
from holdtrue.errors import (
    BudgetExceeded,
    HoldtrueError,
    InvalidParameter,
    RefusedError,
    ReleaseError,
    UnknownColumn,
    UnknownName,
    UnsupportedQuery,
)
from holdtrue.queries.cards import Card
from holdtrue.queries.parser import parse
from holdtrue.service import service_of
from holdtrue.service.http.problems import Refused, detail_of

__all__ = ["asked_by_htmx", "file_address", "form_id", "send_file", "show_page", "show_refusal"]

_SPENT = "Charged, then failed; the cost stays. Ask again with the same words for the stored answer."
_SMALLEST = 0.0005
_UNSPENT = "Nothing was spent."


@lru_cache(1)
def _make_environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "places": _format_places,
        "share": _format_share,
        "compact": "{:.3g}".format,
        "data": _to_json,
        "sentence": _to_sentence,
    }
    environment.globals |= {"address": file_address, "form_id": form_id}
    return environment


def _format_places(value: float) -> str:
    """Return a number of [0, 1] with three places, or four where three would show nothing."""
    return f"{value:.4f}" if 0 < value < _SMALLEST else f"{value:.3f}"


def _format_share(value: float) -> str:
    return f"{100 * value:.3g} %"


def _to_sentence(words: str) -> str:
    """Return words as a sentence: a capital letter, and one sign at the end."""
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "…", "?", "!")) else ".")


def _to_json(value: object) -> str:
    """Return JSON for an attribute; the template escapes it."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def form_id() -> str:
    """Return a name for one rendered form: what it sends twice is charged once."""
    return SYSTEM.words(2).tobytes().hex()


def asked_by_htmx(request: Request) -> bool:
    """Return whether a part of a page is wanted, not a whole one."""
    return "hx-request" in request.headers


def show_page(
    request: Request,
    template: str,
    context: Mapping[str, Any] | None = None,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> HTMLResponse:
    """Return a page, or a part of one."""
    shared = {
        "caller": getattr(request.state, "caller", None),
        "demo": service_of(request).settings.demo,
        "path": request.url.path,
        "htmx": asked_by_htmx(request),
        "origin": str(request.base_url).rstrip("/"),
    }
    text = _make_environment().get_template(template).render(shared | dict(context or {}))
    return HTMLResponse(text, status, headers=dict(headers or {}))


def show_refusal(request: Request, error: HoldtrueError) -> HTMLResponse:
    """Return a refusal in words: what was wrong, and whether budget was spent."""
    status = error.status if isinstance(error, Refused) else error.http_status
    title = error.title.capitalize() if isinstance(error, Refused) else HTTPStatus(status).phrase
    if isinstance(error, BudgetExceeded):
        title = "The budget does not hold this"
    elif status == HTTPStatus.UNPROCESSABLE_ENTITY:
        title = "This cannot be asked so"
    words = {
        "title": title,
        "detail": detail_of(error),
        "spent": _SPENT if isinstance(error, ReleaseError) else _UNSPENT,
        "status": status,
        "field": find_field(error, request.scope.get("form", {}), request.scope.get("card")),
    }
    template = "parts/problem.html" if asked_by_htmx(request) else "refused.html"
    return show_page(request, template, words, status=status, headers=error.headers if isinstance(error, Refused) else None)


_COLUMNS = ("by", "second", "column", "columns", "first", "keys", "prediction", "score")
_QUERIES = ("query", "where", "target", "label", "features", "numerator", "denominator", "candidates")
_LISTS = ("columns", "features")
_ENDS = ("low", "high")
_CALLED = {"ids": "file", "feature": "features"}  # what a record calls a field of a form


def find_field(error: HoldtrueError, form: Mapping[str, str], card: Card | None) -> str:
    """Return the field of a form that a refusal is about: the refusal stands beside it. Empty where it is about none."""
    if isinstance(error, RefusedError):
        return error.parameter if error.parameter in form else ""
    if isinstance(error, InvalidParameter):
        names = [error.parameter, *re.findall(r"[a-z_]+", error.parameter)[::-1], _CALLED.get(error.parameter, "")]
        ends = [field for field in form if error.parameter in _ENDS and field.endswith(_ENDS) and form[field].strip()]
        found = next((name for name in (*names, *ends) if name in form), None)
        return found or (error.parameter if error.parameter.isidentifier() else "")
    if isinstance(error, UnknownName):
        return "model" if "model" in form else ""
    if card is None or not isinstance(error, (UnsupportedQuery, UnknownColumn)):
        return ""
    wrong = (field for field in (*_COLUMNS, *_QUERIES) if not _is_read(field, form.get(field, ""), card))
    return next(wrong, next((field for field in ("kernel", *_QUERIES) if form.get(field)), ""))


def _is_read(field: str, text: str, card: Card) -> bool:
    """Return whether the text of a field names columns of the card, or reads as a question about them."""
    pieces = re.split(r"[,\n]", text) if field in _LISTS else [text]
    try:
        for piece in filter(None, map(str.strip, pieces)):
            if field in _COLUMNS or piece in card.named:
                card.column(piece)
            else:
                parse(piece, card)
    except (UnsupportedQuery, UnknownColumn):
        return False
    return True


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
def _read_files() -> dict[str, _File]:
    found = {}
    for path in sorted(_FOLDER.rglob("*")):
        media = _MEDIA.get(path.suffix)
        if media is not None and path.is_file():
            content = path.read_bytes()
            packed = gzip.compress(content, 6, mtime=0) if path.suffix in _PACKED else None
            found[path.relative_to(_FOLDER).as_posix()] = _File(content, packed, media)
    return found


@lru_cache(1)
def _digest_files() -> str:
    """Return a digest of all files: one of them refers to another by its place beside it."""
    whole = hashlib.sha256()
    for name, file in _read_files().items():
        whole.update(name.encode() + b"\0" + hashlib.sha256(file.content).digest())
    return whole.hexdigest()[:16]


def file_address(name: str) -> str:
    """Return the address of a file of the page."""
    return f"/static/{_digest_files()}/{name}"


async def send_file(request: Request, version: str, name: str) -> Response:
    """Return a file; one of an older version is told as it is now, and not kept."""
    file = _read_files().get(name)
    if file is None:
        raise Refused(404, "not found", "there is no such file")
    mark = f'"{_digest_files()}"'
    headers = {
        "ETag": mark,
        "Cache-Control": _FOR_EVER if version == _digest_files() else "no-cache",
        "Vary": "Accept-Encoding",
    }
    if request.headers.get("if-none-match") == mark:
        return Response(status_code=304, headers=headers)
    if file.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=file.media)
    return Response(file.content, headers=headers, media_type=file.media)
