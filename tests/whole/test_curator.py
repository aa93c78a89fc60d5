"""A curator under crashes, retries and two workers: equal to the reference at every step."""

from hypothesis import Phase
from hypothesis.stateful import run_state_machine_as_test

from whole.curator_machine import CuratorMachine, PurseMachine, UnitMachine
from whole.sizes import sized


def test_a_curator_is_what_its_ledger_says_at_every_step():
    run_state_machine_as_test(CuratorMachine, settings=sized(1, share=0.3, phases=(Phase.generate, Phase.shrink)))


def test_a_curator_of_units_is_what_its_ledger_says_at_every_step():
    run_state_machine_as_test(UnitMachine, settings=sized(1, share=0.05, phases=(Phase.generate, Phase.shrink)))


def test_a_curator_with_two_purses_is_what_its_ledger_says_at_every_step():
    run_state_machine_as_test(PurseMachine, settings=sized(1, share=0.04, phases=(Phase.generate, Phase.shrink)))
