"""Gates as they were created before levels went by depth: their ledgers are read, and answered, as they always were."""

from contextlib import contextmanager
from unittest import mock

from holdtrue.holdouts import Holdout, terms
from holdtrue.holdouts.terms import Facts


@contextmanager
def counting_transcripts(*, by_place=True):
    """Have new ledgers of gates made by the old rule; ``by_place`` False: by the one before that."""

    def facts_of_old(mode, *, rule, **others):
        assert rule == "depth"
        others.pop("pairs", None)
        return Facts(mode, **others, **({"by_place": True} if by_place else {}))

    theorem = "transcripts of a gate, counted by place (S5, S6)" if by_place else "transcripts of a gate, counted (T9, T11)"
    with mock.patch.object(terms, "Facts", facts_of_old), mock.patch.object(terms, "_GATE", theorem):
        yield


def open_counted(*given, **known):
    """Return a new gate that counts transcripts."""
    with counting_transcripts():
        return Holdout(*given, **known)
