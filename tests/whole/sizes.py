"""How many steps the machines make: 10,000 in all, the same every time, unless HOLDTRUE_STEPS says otherwise."""

import os

from hypothesis import HealthCheck, settings

STEPS = int(os.environ.get("HOLDTRUE_STEPS", "10000"))
LENGTH = 50


def sized(machines, *, share=1.0, **more):
    """Return settings under which each of so many machines makes its part of a share of all steps."""
    examples = max(1, round(share * STEPS / (LENGTH * machines)))
    return settings(
        max_examples=examples,
        stateful_step_count=LENGTH,
        deadline=None,
        database=None,
        derandomize="HOLDTRUE_STEPS" not in os.environ,
        suppress_health_check=list(HealthCheck),
        **more,
    )
