"""A plugin for pytest that takes away what other systems than Linux lack, before anything of ours is imported.

Windows has no fork, no fcntl, no limits on resources and no uvloop, and folders there cannot be opened as files are.
"""

import os
import sys

MODULES = ("fcntl", "resource", "uvloop")
FUNCTIONS = ("register_at_fork", "fork", "forkpty", "O_DIRECTORY", "O_NOFOLLOW")


def take_away():
    """Remove modules and functions from this process."""
    for name in MODULES:
        sys.modules[name] = None
    for name in FUNCTIONS:
        if hasattr(os, name):
            delattr(os, name)


def pytest_load_initial_conftests():
    """Remove them before any conftest is read."""
    take_away()


def pytest_terminal_summary(terminalreporter):
    """Say that they were gone until the end."""
    gone = not hasattr(os, "fork") and all(sys.modules[name] is None for name in MODULES)
    terminalreporter.write_line("without fork, fcntl, resource and uvloop" if gone else "with all that Linux has")
