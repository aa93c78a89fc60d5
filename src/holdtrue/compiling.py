"""How counting kernels are compiled: by numba, on first use, kept on disk; absent, NumPy gives the same integers.

Numba takes long to load. Modules of kernels import :func:`kernel` and :func:`popcount` from here and are themselves imported
through :func:`loaded` only, where the work pays for it.
"""

import os
import threading
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["Kernels", "kernel", "loaded", "popcount"]


def loaded(module: str) -> ModuleType | None:
    """Return a module of compiled kernels; None where numba is absent or switched off."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return None
    try:
        return import_module(module)
    except ImportError:
        return None


class Kernels:
    """A module of kernels that is loaded once there was so much work that it pays, and then kept for the process.

    Loading machine code takes longer than counting a small table many times, so that small tables never wait for it.
    """

    def __init__(self, module: str, *, after: int) -> None:
        self._name = module
        self._after = after
        self._work = 0
        self._settled = False
        self._module: ModuleType | None = None
        self._lock = threading.Lock()

    def __call__(self, work: int) -> ModuleType | None:
        """Return the module once there was enough work, this included; None before, and where numba is absent or off."""
        if self._settled:
            return self._module
        self._work += work
        if self._work < self._after:
            return None
        with self._lock:
            if not self._settled:
                self._module = loaded(self._name)
                self._settled = True
        return self._module


def kernel(function: Callable[..., Any]) -> Any:  # noqa: ANN401 - numba's dispatchers have no type
    """Compile a function on its first call, and keep the machine code on disk where the disk allows it."""
    import numba

    try:
        return numba.njit(cache=True, nogil=True, fastmath=False)(function)
    except RuntimeError:  # no place to keep it
        return numba.njit(nogil=True, fastmath=False)(function)


def popcount() -> Any:  # noqa: ANN401 - likewise
    """Return an intrinsic for kernels that counts the bits of a word that are set, in one instruction."""
    from numba import types
    from numba.extending import intrinsic

    def ones(_context: Any, word: Any) -> Any:  # noqa: ANN401, ARG001 - numba's own signature
        def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - likewise
            return builder.ctpop(arguments[0])

        return types.uint64(types.uint64), emit

    return intrinsic(ones)
