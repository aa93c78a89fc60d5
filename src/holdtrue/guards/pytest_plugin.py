"""A guard for suites of evals under pytest: ``pytest evals --holdtrue-gate gate.holdout`` says yes or no, and nothing else.

Every test is a case. Whoever sees which ones fail can fit them, so nothing of single tests is shown or kept while the gate
is asked. The exit code is 0 for yes and 1 for no, and that of ``holdtrue score`` where the gate refuses. Without the option
the plugin does nothing.
"""

from typing import Any

import pytest

__all__ = ["GatedSession", "pytest_addoption", "pytest_configure"]

_TELL_TALES = ("lfplugin", "nfplugin", "stepwiseplugin")
_SHOWN = "--holdtrue-gate runs every test and shows none: leave out -x, --maxfail, --junitxml, --pdb and -s"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    add = parser.getgroup("holdtrue", "a gate over the outcomes of all tests (Holdtrue)").addoption
    add("--holdtrue-gate", metavar="LEDGER", help="Ask this gate whether the suite did better than the incumbent.")
    add("--holdtrue-create", metavar="LOOKS,YES", type=looks_and_yes, help="Create the gate; its incumbent is this run.")
    add("--holdtrue-unseen", action="store_true", help="Create it for changes made without sight of the tests.")
    add("--holdtrue-margin", metavar="GAIN", type=float, default=0.0, help="By how much the suite must do better.")
    add("--holdtrue-submission", metavar="ID", help="A public id of the change, such as a commit: again, it is no look.")


def looks_and_yes(text: str) -> dict[str, Any]:
    """Return the terms of a gate, with its numbers of looks and of yes; pytest refuses other text."""
    looks, _, yes = text.partition(",")
    return {"looks": int(looks), "yes": int(yes or 1), "metric": "hits"}


def pytest_configure(config: pytest.Config) -> None:
    """Guard the session, where a gate is given and this is no worker of pytest-xdist."""
    given = config.option
    if given.holdtrue_gate is None or hasattr(config, "workerinput"):
        return
    if given.maxfail or getattr(given, "xmlpath", None) or given.usepdb or given.capture not in ("fd", "sys"):
        raise pytest.UsageError(_SHOWN)
    for name in _TELL_TALES:
        config.pluginmanager.unregister(name=name)
    config.pluginmanager.register(GatedSession(config), "holdtrue-gate")


class GatedSession:
    """Notes whether each test passed, shows nothing of it, and asks the gate at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self.option = config.option
        self.passed: dict[str, bool] = {}
        self.words = "not asked: the run was not completed"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a case: passed in all its phases, or not; a skipped test counts as not passed."""
        self.passed[report.nodeid] = report.passed and self.passed.get(report.nodeid, True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str]:
        """Show no letter, and count cases only."""
        return "cases" if report.when == "setup" else "", "", ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Ask the gate; its answer is the exit code."""
        from holdtrue.errors import HoldtrueError

        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return
        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        getattr(terminal, "stats", {}).pop("warnings", None)  # a test that fails may warn
        try:
            session.exitstatus = self._ask_gate()
        except HoldtrueError as error:
            self.words, session.exitstatus = str(error), error.exit_code

    def _ask_gate(self) -> int:
        import numpy as np

        from holdtrue.errors import UnknownName
        from holdtrue.holdouts import Holdout
        from holdtrue.holdouts.terms import stored_facts

        given, results, terms = self.option, list(self.passed.values()), dict[str, Any]()
        name, where, creates = given.holdtrue_submission, given.holdtrue_gate, given.holdtrue_create
        if (creates is not None) == (stored_facts(where) is not None):
            message = f"there is {'already a' if creates else 'no'} gate at {where}; --holdtrue-create creates one, once"
            raise UnknownName(message)
        if creates:
            terms = creates | {"incumbent": results, "incumbent_name": name, "unseen": given.holdtrue_unseen}
        with Holdout(np.ones(len(results)), ids=list(self.passed), ledger=where, **terms) as gate:
            if creates:
                self.words = f"created over {len(results):,} cases; these outcomes are the incumbent"
                return 0
            verdict = gate.gate(cases=results, margin=given.holdtrue_margin, name=name)
        self.words = verdict.sentence
        return int(not verdict.yes)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:  # noqa: ANN401 - pytest's own
        """Print the one sentence."""
        terminalreporter.section("holdtrue gate")
        terminalreporter.line(self.words)
