"""Gates as they were created before levels went by depth: their ledgers are read, and answered, as they always were."""

from contextlib import contextmanager
from unittest import mock

from holdtrue.holdouts import Holdout, terms
from holdtrue.holdouts.terms import Facts, sparse_numbers, sparse_plan, widen_for_rounding


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


def _plan_with_releases(cases, common, given, *, yes, metric):
    """Return the terms of a private gate as they were when every yes released a score."""
    numbers = {"looks": common["looks"], "runs": yes, "beta": common["beta"]}
    found = sparse_numbers(cases.number, **numbers, epsilon=given.epsilon)
    theorem = "above threshold and transfer, one beta, by position (S3, S4, T6b)"
    plan = sparse_plan(cases.number, found, **numbers, method="private gate", theorem=theorem)
    common |= {"scale": found.scale, "alpha_released": widen_for_rounding(found.alpha_released, cases.number)}
    return Facts("private gate", private=True, yes=yes, metric=metric, **common), plan


def open_releasing(*given, **known):
    """Return a new private gate that releases a score with every yes."""
    with mock.patch.object(terms, "_plan_private_gate", _plan_with_releases):
        return Holdout(*given, private=True, **known)
