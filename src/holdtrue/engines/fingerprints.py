"""A fingerprint of a table under a secret key: schema, number of rows, and rows in any order.

Law: for a key unknown to whoever makes the tables, two tables that differ in a name, a type, the order of columns, a
cell, or the number of times a row occurs have the same fingerprint with probability below about 2^-80; tables that differ
in the order of rows only always have the same. Without the key it tells nothing about the rows.

Needs: AES-256 and BLAKE2b as pseudorandom functions. A row's cells, as blocks of 16 bytes, are chained through AES (all
rows have the same number of blocks, so chaining is sound); the end is spread to two numbers of 128 bits, and those of all
rows are added up. A block is a cell's 64 bits and a mark that it is there; for text it is a keyed hash of its UTF-8. The
keys are derived from the secret and the schema. NULL and NaN are one cell, as they are to every query; 0 and -0 are two.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from holdtrue.codec import encode
from holdtrue.errors import InvalidParameter
from holdtrue.queries.evaluator import Values

__all__ = ["Fingerprint", "tables_in"]

_SHORTEST_KEY = 16
_BLOCK = 16
_LIMB: Final = 32
_HALVES = 4
_BESIDE = 256
_SIZE = 32


class Fingerprint:
    """Takes the rows of a table in pieces; see the module for what it promises."""

    def __init__(self, key: object, *, schema: Sequence[tuple[str, str]]) -> None:
        if not isinstance(key, bytes) or len(key) < _SHORTEST_KEY:
            raise InvalidParameter("key", f"{type(key).__name__}", f"at least {_SHORTEST_KEY} secret bytes")
        self._key = hashlib.blake2b(key, digest_size=32, person=b"holdtrue-table").digest()
        self._schema = encode({"columns": [list(column) for column in schema]}).encode()
        self._rows = 0
        self._sums = [0, 0]
        self._text = self._derive_key(b"text")
        self._chain = self._make_cipher(b"chain")
        self._spread = self._make_cipher(b"left"), self._make_cipher(b"right")

    def _derive_key(self, purpose: bytes) -> bytes:
        return hashlib.blake2b(purpose + b"\0" + self._schema, key=self._key, digest_size=32).digest()

    def _make_cipher(self, purpose: bytes) -> "Cipher[modes.ECB]":
        return Cipher(algorithms.AES(self._derive_key(purpose)), modes.ECB())  # noqa: S305 - as a function of single blocks

    def add(self, cells: Sequence[Values], *, rows: int) -> None:
        """Add rows: for every column of the schema in turn, its 64-bit values or text by its places, with their validity."""
        self.merge(self.total_rows(cells, rows=rows))

    def total_rows(self, cells: Sequence[Values], *, rows: int) -> tuple[int, int, int]:
        """Return what rows come to, without adding them: several threads may ask for their own rows at once."""
        state = np.zeros((rows, 2), dtype=np.uint64)
        blocks = np.empty((rows, 2), dtype=np.uint64)
        for column in cells:
            self._encode_column(column, blocks)
            state ^= blocks
            state = _encrypt_blocks(self._chain, state)
        left, right = [_sum_blocks(_encrypt_blocks(cipher, state)) for cipher in self._spread]
        return rows, left, right

    def _encode_column(self, column: Values, blocks: npt.NDArray[np.uint64]) -> None:
        data, valid = column.data, np.ones(len(blocks), dtype=np.bool_) if column.valid is None else column.valid
        if column.dictionary is not None:
            # The last entry stands for NULL.
            digests = [self._hash_text(text) for text in column.dictionary]
            table = np.frombuffer(b"".join([*digests, bytes(_BLOCK)]), dtype="<u8").reshape(-1, 2)
            np.take(table, np.where(valid, data, -1), axis=0, out=blocks, mode="wrap")
            return
        if data.dtype.kind == "f":
            valid = valid & (data == data)  # noqa: PLR0124 - false for NaN only
        held = data.astype("<i8" if data.dtype.kind in "bi" else "<f8", copy=False).view(np.uint64)
        blocks[:, 0] = held if valid.all() else np.where(valid, held, np.uint64(0))
        blocks[:, 1] = valid

    def _hash_text(self, text: str) -> bytes:
        return hashlib.blake2b(text.encode("utf-8"), key=self._text, digest_size=_BLOCK).digest()

    def totals(self) -> tuple[int, int, int]:
        """Return what all rows so far come to: how many, and the two sums. Totals of disjoint rows add up in any order."""
        return self._rows, self._sums[0], self._sums[1]

    def merge(self, totals: tuple[int, int, int]) -> None:
        """Add rows that another fingerprint under the same key and schema took, by their totals."""
        rows, *sums = totals
        self._rows += rows
        self._sums = [(before + more) % (1 << 128) for before, more in zip(self._sums, sums, strict=True)]

    def finish(self) -> bytes:
        """Return the 32 bytes for all rows so far."""
        whole = hashlib.blake2b(key=self._derive_key(b"whole"), digest_size=32)
        whole.update(self._rows.to_bytes(16, "little"))
        for half in self._sums:
            whole.update(half.to_bytes(16, "little"))
        return whole.digest()


def tables_in(fingerprint: bytes) -> frozenset[bytes]:
    """Return the fingerprints of the tables that one is made of: itself, or for units all after the one of their names."""
    parts = [fingerprint[start : start + _SIZE] for start in range(0, len(fingerprint), _SIZE)]
    return frozenset(parts[1:] or parts)


def _encrypt_blocks(cipher: "Cipher[modes.ECB]", blocks: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    room = np.empty(blocks.size + 2, dtype=np.uint64)  # update_into wants room for one block more than it writes
    written = cipher.encryptor().update_into(
        blocks.view(np.uint8).data.cast("B", shape=(blocks.nbytes,)), room.view(np.uint8).data
    )
    return room[: written // 8].reshape(-1, 2)


def _sum_blocks(blocks: npt.NDArray[np.uint64]) -> int:
    """Add up numbers of 128 bits modulo 2^128: limbs of 32 bits, so that 2^32 of them fit into a word.

    Many rows are added side by side, since NumPy is slow to add along an axis beside one of four.
    """
    limbs = blocks.view("<u4").reshape(-1, _HALVES)
    beside = len(limbs) - len(limbs) % _BESIDE
    wide = limbs[:beside].reshape(-1, _BESIDE * _HALVES).sum(axis=0, dtype=np.uint64).reshape(-1, _HALVES)
    limbs = wide.sum(axis=0) + limbs[beside:].sum(axis=0, dtype=np.uint64)
    return sum(int(limb) << (_LIMB * place) for place, limb in enumerate(limbs)) % (1 << 128)
