"""Where bits come from.

The only module that asks the kernel for randomness. Mechanisms draw from :data:`SYSTEM`; a seeded source exists only
in :mod:`holdtrue.testing`, and what is drawn from anything but :class:`SystemBits` has no guarantee.
"""

import os
import threading
from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from holdtrue.errors import ReleaseError

Words = npt.NDArray[np.uint64]

_KEY_BYTES = 32
_COUNTER_BYTES = 16
_WORD_BYTES = 8
_SERVED_PER_KEY = 1 << 30
_MADE_TOGETHER = 512
_ZEROS = bytes(1 << 16)


class Bits(Protocol):
    """An endless supply of independent uniform bits.

    ``words`` is the stream that draws are made from. ``more`` is a second, independent stream, for the rare draw that
    needs further bits: so the words that a draw sees do not depend on how earlier draws were decided.
    """

    def words(self, count: int) -> Words:
        """Return the next ``count`` words of 64 bits."""
        ...

    def more(self) -> int:
        """Return the next 64 bits of the second stream."""
        ...

    @property
    def generation(self) -> object:
        """Return a value that changes in a forked child: numbers drawn before must not be served any more."""
        ...


class KeyStream:
    """The key stream of AES-256 in counter mode under one key."""

    __slots__ = ("_ahead", "_cipher", "served")

    def __init__(self, key: bytes, counter: bytes) -> None:
        if len(key) != _KEY_BYTES or len(counter) != _COUNTER_BYTES:
            message = "the kernel gave fewer random bytes than were asked for; nothing is released"
            raise ReleaseError(message)
        self._cipher: CipherContext = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()
        self._ahead: Words = np.empty(0, dtype=np.uint64)  # made and not given yet
        self.served = 0

    def words(self, count: int) -> Words:
        """Return the next words of the stream. Few are taken from some that were made together."""
        if count > self._ahead.size:
            made = self._make_words(max(count - self._ahead.size, _MADE_TOGETHER))
            self._ahead = np.concatenate((self._ahead, made)) if self._ahead.size else made
        found, self._ahead = self._ahead[:count], self._ahead[count:]
        return found

    def _make_words(self, count: int) -> Words:
        # update_into wants room for one block more than it writes.
        buffer = np.empty(count + _COUNTER_BYTES // _WORD_BYTES, dtype=np.uint64)
        target = buffer.view(np.uint8).data
        wanted = count * _WORD_BYTES
        written = 0
        while written < wanted:
            step = min(wanted - written, len(_ZEROS))
            source = _ZEROS if step == len(_ZEROS) else _ZEROS[:step]
            written += self._cipher.update_into(source, target[written:])
        self.served += wanted
        return buffer[:count]


def call_at_fork(**hooks: Callable[[], object]) -> None:
    """Have functions called when this process is forked, as :func:`os.register_at_fork` does, where processes are forked."""
    register = getattr(os, "register_at_fork", None)
    if register is not None:
        register(**hooks)


class SystemBits:
    """Bits from AES-256-CTR, keyed from the kernel.

    Law: words are indistinguishable from independent uniform ones to anyone without the key (AES-256 as a
    pseudorandom function, at most 2^26 blocks a key). Needs: the kernel's generator. The key is drawn again in a forked
    child, in a process whose number changed, and after 2^30 bytes; calls from several threads are served one after the
    other. Its only failure: a kernel that gives an error or too few bytes, which raises and releases nothing.
    """

    def __init__(self, read: Callable[[int], bytes] = os.urandom) -> None:
        self._read = read
        self._forget_keys()
        call_at_fork(after_in_child=self._forget_keys)

    def _forget_keys(self) -> None:
        """Drop every key; the lock too, since another thread may have held it when this process was forked."""
        self._lock = threading.Lock()
        self._process = -1
        self._stream: KeyStream | None = None
        self._second: KeyStream | None = None
        self.generation: object = object()

    def _make_stream(self) -> KeyStream:
        return KeyStream(self._read(_KEY_BYTES), self._read(_COUNTER_BYTES))

    def words(self, count: int) -> Words:
        """Return the next ``count`` words of 64 bits."""
        with self._lock:
            self._check_process()
            if self._stream is None or self._stream.served >= _SERVED_PER_KEY:
                self._stream = None
                self._stream = self._make_stream()
            return self._stream.words(count)

    def more(self) -> int:
        """Return the next 64 bits of the second stream."""
        with self._lock:
            self._check_process()
            if self._second is None or self._second.served >= _SERVED_PER_KEY:
                self._second = None
                self._second = self._make_stream()
            return int(self._second.words(1)[0])

    def _check_process(self) -> None:
        # Fork hooks run for os.fork only; a process copied by other means still has another number.
        if self._process != os.getpid():
            self._process = os.getpid()
            self._stream = self._second = None


SYSTEM = SystemBits()
