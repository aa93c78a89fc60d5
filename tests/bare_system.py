"""A plugin for pytest that takes away what other systems than Linux lack, before anything of ours is imported.

Windows has no fork, no fcntl, no limits on resources and no uvloop, and folders there cannot be opened as files are.
"""

import os
import sys

MODULES = ("fcntl", "resource", "uvloop")
FUNCTIONS = ("register_at_fork", "fork", "forkpty", "O_DIRECTORY", "O_NOFOLLOW")

for name in MODULES:
    sys.modules[name] = None
for name in FUNCTIONS:
    if hasattr(os, name):
        delattr(os, name)
