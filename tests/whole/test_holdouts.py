"""Every mode of holdout and leaderboard under crashes, retries and two workers: equal to the reference at every step."""

import pytest
from hypothesis import Phase
from hypothesis.stateful import run_state_machine_as_test

from whole.holdout_machine import MACHINES
from whole.sizes import sized


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.__name__)
def test_a_holdout_is_what_its_ledger_says_at_every_step(machine):
    run_state_machine_as_test(machine, settings=sized(len(MACHINES), share=0.7, phases=(Phase.generate, Phase.shrink)))
