"""Finite classes of hypotheses: fixed before data, scored exactly and fast."""
