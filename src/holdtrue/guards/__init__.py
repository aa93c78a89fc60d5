"""Guards for loops that search: what a loop finds is promoted only by a gate over cases that the loop never sees."""

from holdtrue.guards.promotion import name_candidate, promote

__all__ = ["name_candidate", "promote"]
