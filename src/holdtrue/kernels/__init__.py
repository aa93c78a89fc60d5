"""Counting in machine code: every compiled kernel beside the NumPy code that defines it and gives the same integers.

A module ``x`` counts with NumPy and hands large work to ``x_compiled``, which is written for numba. Numba takes long to
load, so ``x_compiled`` is imported only through :class:`LazyKernels` or :func:`load_kernels`, where the work pays for it;
machine code is kept on disk. Kernels hold no lock and start no thread, so any number of threads may run them at once.
"""

import os
import threading
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Flags", "Floats", "Integers", "LazyKernels", "Matrix", "Words", "compile_kernel", "load_kernels"]

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Matrix = npt.NDArray[Any]
"""Rows by columns, of booleans, integers or floats, with any strides."""


def load_kernels(module: str) -> ModuleType | None:
    """Return a module of this package that needs numba; None where numba is absent or switched off."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return None
    try:
        return import_module(f"{__name__}.{module}")
    except ImportError:
        return None


class LazyKernels:
    """A module of kernels that is loaded once there was enough work to pay for it, and then kept for the process.

    Loading machine code takes longer than counting a small table many times, so small tables never wait for it. With
    ``warm_up``, which is given the module and runs its usual kernels, many small pieces of work do not wait either: the
    kernels are loaded beside them, in a thread.
    """

    def __init__(self, module: str, *, after: int, warm_up: Callable[[ModuleType], None] | None = None) -> None:
        self._name, self._after, self._warm_up = module, after, warm_up
        self._work = 0
        self._settled = False
        self._module: ModuleType | None = None
        self._loader: threading.Thread | None = None
        self._lock = threading.Lock()

    def __call__(self, work: int) -> ModuleType | None:
        """Return the module once there was enough work, this included; None before, and where numba is absent or off."""
        if self._settled:
            return self._module
        self._work += work
        if self._work < self._after:
            return None
        if self._warm_up is None or work >= self._after:
            with self._lock:
                if not self._settled:
                    self._keep_module(load_kernels(self._name))
            return self._module
        with self._lock:
            if self._loader is None:
                self._loader = threading.Thread(target=self._load_aside, name="holdtrue-kernels")
                self._loader.start()
        return None

    def _keep_module(self, module: ModuleType | None) -> None:
        self._module, self._settled = module, True

    def _load_aside(self) -> None:
        module = load_kernels(self._name)
        if module is not None and self._warm_up is not None:
            self._warm_up(module)
        self._keep_module(module)


def compile_kernel(function: Callable[..., Any]) -> Any:  # noqa: ANN401 - numba's dispatchers have no type
    """Compile a function on its first call, and keep the machine code on disk where the disk allows it."""
    import numba

    try:
        return numba.njit(cache=True, nogil=True, fastmath=False)(function)
    except RuntimeError:  # no place to keep it
        return numba.njit(nogil=True, fastmath=False)(function)
