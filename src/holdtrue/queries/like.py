"""LIKE, the same on every engine: % stands for any characters, _ for one code point, everything else for itself."""

import re
from collections.abc import Callable

__all__ = ["compile_pattern", "simplify_pattern"]


def simplify_pattern(pattern: str) -> str:
    """Return the canonical spelling of a pattern: in a run of wildcards all _ come first, then one %."""
    return re.sub("[%_]*%[%_]*", lambda run: "_" * run[0].count("_") + "%", pattern)


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return a function that says whether a text matches.

    It takes at most (length of text) x (length of pattern) steps: pieces between % are found leftmost first, so there is
    no going back.
    """
    first, *rest = (_Segment(piece) for piece in pattern.split("%"))
    if not rest:
        return first.matches_whole
    *middle, last = rest

    def matches(text: str) -> bool:
        place, end = first.length, len(text) - last.length
        if end < place or not first.matches_at(text, 0) or not last.matches_at(text, end):
            return False
        for piece in middle:
            place = piece.find_end(text, place, end)
            if place < 0:
                return False
        return True

    return matches


class _Segment:
    """A stretch of a pattern without %."""

    def __init__(self, piece: str) -> None:
        self.length = len(piece)
        self._plain = None if "_" in piece else piece
        # Only single-character wildcards: the expression cannot backtrack.
        self._expression = re.compile("".join("." if one == "_" else re.escape(one) for one in piece), re.DOTALL)

    def matches_at(self, text: str, place: int) -> bool:
        return self._expression.match(text, place) is not None

    def matches_whole(self, text: str) -> bool:
        return len(text) == self.length and self.matches_at(text, 0)

    def find_end(self, text: str, place: int, end: int) -> int:
        """Return where the leftmost match between two places ends, or -1."""
        if self._plain is not None:
            found = text.find(self._plain, place, end)
            return found if found < 0 else found + self.length
        match = self._expression.search(text, place, end)
        return -1 if match is None else match.end()
