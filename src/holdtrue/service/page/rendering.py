"""Templates: filled in with everything escaped, so that what people wrote is shown and never run."""

import json
from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from holdtrue.entropy import SYSTEM
from holdtrue.errors import BudgetExceeded, HoldtrueError, ReleaseError
from holdtrue.service.page.statics import address
from holdtrue.service.problems import Refused, detail_of
from holdtrue.service.state import service_of

__all__ = ["asked_by_htmx", "form_id", "refusal", "show"]

_SPENT = "Charged, then failed; the cost stays. Ask again with the same words for the stored answer."
_SMALLEST = 0.0005
_UNSPENT = "Nothing was spent."


@lru_cache(1)
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"places": _places, "share": _share, "compact": _compact, "data": _data, "sentence": _sentence}
    environment.globals |= {"address": address, "form_id": form_id}
    return environment


def _places(value: float) -> str:
    """Return a number of [0, 1] with three places, or four where three would show nothing."""
    return f"{value:.4f}" if 0 < value < _SMALLEST else f"{value:.3f}"


def _share(value: float) -> str:
    return f"{100 * value:.3g} %"


def _compact(value: float) -> str:
    return f"{value:.3g}"


def _sentence(words: str) -> str:
    """Return words as a sentence: a capital letter, and one sign at the end."""
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "…", "?", "!")) else ".")


def _data(value: object) -> str:
    """Return JSON for an attribute; the template escapes it."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def form_id() -> str:
    """Return a name for one rendered form: what it sends twice is charged once."""
    return SYSTEM.words(2).tobytes().hex()


def asked_by_htmx(request: Request) -> bool:
    """Return whether a part of a page is wanted, not a whole one."""
    return "hx-request" in request.headers


def show(
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
        "origin": str(request.base_url).rstrip("/"),
    }
    text = _environment().get_template(template).render(shared | dict(context or {}))
    return HTMLResponse(text, status, headers=dict(headers or {}))


def refusal(request: Request, error: HoldtrueError) -> HTMLResponse:
    """Return a refusal in words: what was wrong, and whether budget was spent."""
    status = error.status if isinstance(error, Refused) else error.http_status
    title = error.title.capitalize() if isinstance(error, Refused) else HTTPStatus(status).phrase
    if isinstance(error, BudgetExceeded):
        title = "The budget does not hold this"
    words = {
        "title": title,
        "detail": detail_of(error),
        "spent": _SPENT if isinstance(error, ReleaseError) else _UNSPENT,
        "status": status,
    }
    template = "parts/problem.html" if asked_by_htmx(request) else "refused.html"
    return show(request, template, words, status=status, headers=error.headers if isinstance(error, Refused) else None)
