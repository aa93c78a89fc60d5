"""LIKE, the same on every engine: % stands for any characters, _ for one code point, everything else for itself."""

import re
from collections.abc import Callable

__all__ = ["matcher", "simplify_pattern"]


def simplify_pattern(pattern: str) -> str:
    """Return the one spelling of a pattern: in a run of wildcards all _ come first, then one %."""
    return re.sub("[%_]*%[%_]*", lambda run: "_" * run[0].count("_") + "%", pattern)


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that says whether a text matches.

    It takes at most (length of text) x (length of pattern) steps: pieces between % are found leftmost first, so there is
    no going back.
    """
    first, *rest = (_Piece(piece) for piece in pattern.split("%"))
    if not rest:
        return first.whole
    *middle, last = rest

    def matches(text: str) -> bool:
        if len(text) < first.length + last.length or not first.at(text, 0) or not last.at(text, len(text) - last.length):
            return False
        place, end = first.length, len(text) - last.length
        for piece in middle:
            place = piece.after(text, place, end)
            if place < 0:
                return False
        return True

    return matches


class _Piece:
    """A stretch of a pattern without %."""

    def __init__(self, piece: str) -> None:
        self.length = len(piece)
        self._plain = None if "_" in piece else piece
        # Only single-character wildcards: the expression cannot backtrack.
        self._expression = re.compile("".join("." if one == "_" else re.escape(one) for one in piece), re.DOTALL)

    def at(self, text: str, place: int) -> bool:
        return self._expression.match(text, place) is not None

    def whole(self, text: str) -> bool:
        return len(text) == self.length and self.at(text, 0)

    def after(self, text: str, place: int, end: int) -> int:
        """Return where the leftmost match between two places ends, or -1."""
        if self._plain is not None:
            found = text.find(self._plain, place, end)
            return found if found < 0 else found + self.length
        match = self._expression.search(text, place, end)
        return -1 if match is None else match.end()
