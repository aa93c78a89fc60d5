"""Forms as browsers send them: small, plain fields only."""

from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.requests import Request

from holdtrue.errors import InvalidParameter
from holdtrue.service.http.problems import Refused

__all__ = ["form_of", "number_of", "text_of"]

_MOST_FIELDS = 200
_MEDIA = "application/x-www-form-urlencoded"


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a form; if two have the same name, the last. No files, and no other kind of body."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _MEDIA:
        raise Refused(415, "another kind of body", f"the page sends its forms as {_MEDIA}")
    try:
        text = (await request.body()).decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        raise Refused(400, "unreadable form", "the form could not be read") from None
    return dict(pairs)


def text_of(form: Mapping[str, str], name: str, *, longest: int, least: int = 0) -> str:
    """Return a field, empty where it was not sent."""
    text = form.get(name, "")
    if not least <= len(text) <= longest or "\0" in text:
        raise InvalidParameter.without_value(name, f"a text of {least} to {longest} characters")
    return text


def number_of(form: Mapping[str, str], name: str, *, low: float, high: float, default: float) -> float:
    """Return a number of a field between two ends, the default where it is empty."""
    text = form.get(name, "").strip()
    try:
        number = float(text) if text else default
    except ValueError:
        number = float("nan")
    if not low <= number <= high:
        raise InvalidParameter.without_value(name, f"a number from {low:g} to {high:g}")
    return number
