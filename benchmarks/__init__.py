"""Benches: Holdtrue and its peers side by side, in one run, as ratios."""
