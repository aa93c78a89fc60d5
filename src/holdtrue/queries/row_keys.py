"""Hashes of what names a row: whichever part of an ensemble the row belongs to follows from them."""

import hashlib
from typing import Final

import numpy as np
import numpy.typing as npt

from holdtrue.errors import InvalidParameter
from holdtrue.exact import describe_array

__all__ = ["hash_bytes", "hash_keys"]

_PERSON: Final = b"holdtrue parts"


def hash_keys(keys: object, *, rows: int) -> npt.NDArray[np.int64]:
    """Return a whole number of 63 bits for each row: the hash of its key, which is public.

    Law: a fixed function of one key alone, the same for 7 and "7"; equal keys have equal hashes, so that all rows of one
    person are in one part. Needs: keys that are public, and that stay when a row is replaced. Failure: InvalidParameter
    unless there is one whole number or one string for every row.
    """
    array = np.asarray(keys)
    if array.shape != (rows,) or array.dtype.kind not in "iuU":
        raise InvalidParameter("keys", describe_array(array), f"{rows} public whole numbers or strings, one per row")
    distinct, places = np.unique(array, return_inverse=True)
    hashed = np.array([hash_bytes(str(key).encode("utf-8", "surrogatepass")) for key in distinct.tolist()], dtype=np.int64)
    return hashed[places] if rows else np.zeros(0, dtype=np.int64)


def hash_bytes(content: bytes) -> int:
    """Return the 63-bit number that decides which part something belongs to."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8, person=_PERSON).digest(), "little") >> 1
