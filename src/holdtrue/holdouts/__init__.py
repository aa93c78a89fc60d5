"""Holdouts: one set of labelled cases, looked at hundreds of times, and still telling the truth."""

from holdtrue.holdouts.holdout import Holdout, Scorer
from holdtrue.holdouts.leaderboards import Leaderboard
from holdtrue.holdouts.records import Place, Score, Verdict

__all__ = ["Holdout", "Leaderboard", "Place", "Score", "Scorer", "Verdict"]
