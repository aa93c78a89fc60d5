"""What a page shows of a run that goes on while the page is made."""

from dataclasses import dataclass, field

from holdtrue.service.page.attack import DemoRun


class _EndsWhileCopied(list[int]):
    """Steps of a run that takes its last step, and ends, at the moment somebody has copied the steps."""

    def __init__(self, run: "_Run") -> None:
        super().__init__([1, 2])
        self._run = run

    def __iter__(self):  # type: ignore[no-untyped-def]
        yield from (1, 2)
        self._run.over = True


@dataclass(slots=True)
class _Run(DemoRun[int]):  # type: ignore[type-var]
    steps: list[int] = field(default_factory=list)


def test_a_run_that_is_shown_as_over_is_shown_with_its_last_step():
    run = _Run("run")
    run.steps = _EndsWhileCopied(run)
    shown = run.take_snapshot()
    assert shown.steps == [1, 2]
    assert not shown.over, "the copy has not the last step, so the run must not be shown as over"
    assert run.over


def test_a_run_that_is_over_and_failed_is_shown_as_both():
    run = _Run("run", [1], over=True, failed=True)
    assert run.take_snapshot() == DemoRun("run", [1], over=True, failed=True)
