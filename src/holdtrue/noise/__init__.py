"""Exact noise: integers drawn from the law that is claimed, not from one close to it."""
