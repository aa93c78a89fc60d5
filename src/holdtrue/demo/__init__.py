"""The demonstration: a population with known truth, the attack that a plain holdout does not survive, the terminal's story.

It needs nothing of the service, which serves the same rows on a page (:mod:`holdtrue.service.demo`).
"""
