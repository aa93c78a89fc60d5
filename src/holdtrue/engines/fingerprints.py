"""A fingerprint of a table under a secret key: schema, number of rows, and rows in any order.

Law: for a key unknown to whoever makes the tables, two tables of n rows or fewer that differ in a name, a type, the order of
columns, a cell, or the number of times a row occurs have the same fingerprint with probability below about n^2 2^-125 (2^-76
for 2 * 10^7 rows); tables that differ in the order of rows only always have the same. Without the key it tells nothing about
the rows.

Needs: AES-256 and BLAKE2b as pseudorandom functions. A cell is 64 bits, and a bit says whether it is there; a text is 128
bits, a keyed hash of its UTF-8. A row's words are hashed to 256 bits by four products of halves with keys of their own
(:func:`holdtrue.kernels.row_words.mix_rows`): any two different rows of the tables meet with probability at most 2^-128,
and there are at most 2 n^2 pairs of rows. Two blocks of AES, chained, turn different rows into independent numbers of 128
bits, which are added up over all rows: a sum in which some row occurs c times more often in one table than in the other is
zero with probability at most c 2^-128. Keys are derived from the secret and the schema. NULL and NaN are one cell, as they
are to every query; 0 and -0 are two.

A key shorter than 40 bytes is that of a ledger made before this was so, whose fingerprint is taken as it was then: the cells
of a row, a block of AES each, are all chained, the end is spread to two numbers of 128 bits, and either is added up.
"""

import hashlib
import threading
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from holdtrue.codec import encode
from holdtrue.errors import InvalidParameter
from holdtrue.kernels import Words
from holdtrue.kernels.row_words import LANES, expect_work, mix_rows
from holdtrue.queries.evaluator import Values

__all__ = ["Fingerprint", "tables_in"]

_SHORTEST_KEY = 16
_WORDS_KEY = 40
_BLOCK = 16
_LIMB: Final = 32
_HALVES = 4
_BESIDE = 256
_SIZE = 32
_MASK = 64
_TOGETHER = 1 << 14  # rows whose words stay in a processor's own cache

There: TypeAlias = npt.NDArray[np.bool_] | None
"""Where a column has cells; None for everywhere."""


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
        texts = sum(kind == "text" for _, kind in schema)
        words = len(schema) + texts + -(-len(schema) // _MASK)
        self._word_keys = self._make_word_keys(words) if len(key) >= _WORDS_KEY else None
        self._room = _Room(max(2, min(words, 2 * _MASK + 1)))

    def _derive_key(self, purpose: bytes) -> bytes:
        return hashlib.blake2b(purpose + b"\0" + self._schema, key=self._key, digest_size=32).digest()

    def _make_cipher(self, purpose: bytes) -> "Cipher[modes.ECB]":
        return Cipher(algorithms.AES(self._derive_key(purpose)), modes.ECB())  # noqa: S305 - as a function of single blocks

    def _make_word_keys(self, words: int) -> Words:
        """Return keys of 32 bits for the halves of each word and each lane: AES of a counter."""
        counter = np.zeros((2 * words, 2), dtype=np.uint64)
        counter[:, 0] = np.arange(2 * words)
        sealed = self._make_cipher(b"words").encryptor().update(counter.tobytes())
        return np.frombuffer(sealed, dtype="<u4").astype(np.uint64).reshape(words, 2, LANES)

    def expect_rows(self, rows: int) -> None:
        """Make ready for so many rows, as far as that pays."""
        if self._word_keys is not None:
            expect_work(len(self._word_keys) * rows)

    def add(self, cells: Sequence[Values], *, rows: int) -> None:
        """Add rows: for every column of the schema in turn, its 64-bit values or text by its places, with their validity."""
        self.merge(self.total_rows(cells, rows=rows))

    def total_rows(self, cells: Sequence[Values], *, rows: int) -> tuple[int, int, int]:
        """Return what rows come to, without adding them: several threads may ask for their own rows at once."""
        texts = [None if column.dictionary is None else self._hash_texts(column.dictionary) for column in cells]
        left, right = 0, 0
        whole = [_find_cells(column) for column in cells]
        for start in range(0, rows, _TOGETHER):
            part = slice(start, min(start + _TOGETHER, rows))
            if self._word_keys is not None:
                left += _sum_blocks(self._mix_words(whole, texts, part, keys=self._word_keys))
                continue
            state = self._chain_cells(whole, texts, part)
            ends = [_sum_blocks(self._room.encrypt(cipher, state)) for cipher in self._spread]
            left, right = left + ends[0], right + ends[1]
        return rows, left % (1 << 128), right % (1 << 128)

    def _mix_words(self, cells: Sequence[Values], texts: Sequence[Words | None], part: slice, *, keys: Words) -> Words:
        """Return a block for each row: its words and, after every 64 columns, which cells are there, mixed and chained."""
        room, first, rows = self._room, 0, part.stop - part.start
        room.lanes[:, :rows] = 0
        for start in range(0, len(cells), _MASK):
            used, there = 0, list[There]()
            for column, table in zip(cells[start : start + _MASK], texts[start : start + _MASK], strict=True):
                lines = room.words[used : used + (1 if table is None else 2), :rows]
                there.append(_write_words(column, table, part, lines))
                used += len(lines)
            _mark_cells(there, room.words[used, :rows])
            used += 1
            mix_rows(room.words[:used], keys[first : first + used], room.lanes, rows)
            first += used
        state = room.state[:rows]
        state[:, 0], state[:, 1] = room.lanes[0, :rows], room.lanes[1, :rows]
        state = room.encrypt(self._chain, state)
        state[:, 0] ^= room.lanes[2, :rows]
        state[:, 1] ^= room.lanes[3, :rows]
        return room.encrypt(self._chain, state)

    def _chain_cells(self, cells: Sequence[Values], texts: Sequence[Words | None], part: slice) -> Words:
        """Return a block for each row: the 64 bits of its cells, each with a mark that it is there, or texts, chained."""
        room, rows = self._room, part.stop - part.start
        state = np.zeros((rows, 2), dtype=np.uint64)
        for column, table in zip(cells, texts, strict=True):
            lines = room.words[:2, :rows]
            there = _write_words(column, table, part, lines[: 1 if table is None else 2])
            if table is None:
                lines[1] = 1 if there is None else there
            state ^= lines.T
            state[:] = room.encrypt(self._chain, state)
        return state

    def _hash_texts(self, texts: Sequence[str]) -> Words:
        """Return 128 bits for each text, as two words, and zeros at the end for NULL."""
        digests = [hashlib.blake2b(text.encode("utf-8"), key=self._text, digest_size=_BLOCK).digest() for text in texts]
        return np.frombuffer(b"".join([*digests, bytes(_BLOCK)]), dtype="<u8").reshape(-1, 2)

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


def _find_cells(column: Values) -> Values:
    """Return a column whose NaN are not there, and which is said to have cells everywhere where it has."""
    valid = column.valid
    if column.data.dtype.kind == "f":
        numbers = column.data == column.data  # false for NaN only
        valid = numbers if valid is None else valid & numbers
    return column if valid is None else Values(column.data, None if valid.all() else valid, column.dictionary)


def _write_words(column: Values, texts: Words | None, part: slice, lines: Words) -> There:
    """Write the words of some cells of a column, 0 where there is none, and return where they are; of texts their hashes.

    The last of the texts stands for NULL.
    """
    data, valid = column.data[part], None if column.valid is None else column.valid[part]
    if texts is not None:
        places = data if valid is None else np.where(valid, data, len(texts) - 1)
        for half, line in zip(texts.T, lines, strict=True):
            np.take(half, places, out=line, mode="clip")  # all places are within; to check them takes a copy
        return valid
    lines[0].view(np.float64 if data.dtype.kind == "f" else np.int64)[:] = data
    if valid is not None:
        lines[0] *= valid
    return valid


def _mark_cells(there: Sequence[There], marks: Words) -> None:
    """Write a word for each row, whose bits say which cells of up to 64 columns are there."""
    marks[:] = sum(1 << place for place, valid in enumerate(there) if valid is None)
    for place, valid in enumerate(there):
        if valid is not None:
            marks |= valid.astype(np.uint64) << np.uint64(place)


class _Room(threading.local):
    """Arrays of one thread for rows that are hashed together: taken anew for each piece, they would cost more than it."""

    def __init__(self, words: int) -> None:
        self.words = np.empty((words, _TOGETHER), dtype=np.uint64)
        self.lanes = np.empty((LANES, _TOGETHER), dtype=np.uint64)
        self.state = np.empty((_TOGETHER, 2), dtype=np.uint64)
        self._sealed = [np.empty(2 * _TOGETHER + 2, dtype=np.uint64) for _ in range(2)]  # room for one block more is wanted
        self._open = dict["Cipher[modes.ECB]", CipherContext]()

    def encrypt(self, cipher: "Cipher[modes.ECB]", blocks: Words) -> Words:
        """Return the blocks of some rows, encrypted, until those after the next are; none stays behind in a cipher."""
        if cipher not in self._open:
            self._open[cipher] = cipher.encryptor()
        self._sealed.reverse()
        written = self._open[cipher].update_into(
            blocks.view(np.uint8).data.cast("B", shape=(blocks.nbytes,)), self._sealed[0].view(np.uint8).data
        )
        return self._sealed[0][: written // 8].reshape(-1, 2)


def _sum_blocks(blocks: npt.NDArray[np.uint64]) -> int:
    """Add up numbers of 128 bits modulo 2^128: limbs of 32 bits, so that 2^32 of them fit into a word.

    Many rows are added side by side, since NumPy is slow to add along an axis beside one of four.
    """
    limbs = blocks.view("<u4").reshape(-1, _HALVES)
    beside = len(limbs) - len(limbs) % _BESIDE
    wide = limbs[:beside].reshape(-1, _BESIDE * _HALVES).sum(axis=0, dtype=np.uint64).reshape(-1, _HALVES)
    limbs = wide.sum(axis=0) + limbs[beside:].sum(axis=0, dtype=np.uint64)
    return sum(int(limb) << (_LIMB * place) for place, limb in enumerate(limbs)) % (1 << 128)
