"""Arguments that nobody should pass, and somebody will."""

import datetime as dt
import decimal
import fractions
import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq


def _raise(*_, **__):
    message = "hostile"
    raise RuntimeError(message)


class Raising:
    """Raises whatever is asked of it."""

    __str__ = __repr__ = __len__ = __iter__ = __array__ = __float__ = __int__ = __index__ = __bool__ = _raise
    __getitem__ = __contains__ = __fspath__ = __call__ = __lt__ = __le__ = __gt__ = __ge__ = _raise


class Endless:
    """Has no end."""

    def __iter__(self):
        while True:
            yield "age > 65"


class Lying:
    """Says that it is long, and is not."""

    def __len__(self):
        return 2**62

    def __getitem__(self, index):
        raise IndexError(index)


def write_files(folder):
    """Write files that cannot be what their names say, and return their paths."""
    folder = Path(folder)
    rows = "age,smoker\n" + "1,true\n" * 500
    whole = gzip.compress(rows.encode())
    pq.write_table(pa.table({"age": [1, 2]}), folder / "whole.parquet")
    parquet = (folder / "whole.parquet").read_bytes()
    contents = {
        "cut.csv.gz": whole[: len(whole) // 2],
        "head.csv.gz": whole[:9],
        "not.csv.gz": b"age\n1\n",
        "cut.parquet": parquet[: len(parquet) // 2],
        "tail.parquet": parquet[: len(parquet) - 5],
        "no.parquet": b"PAR1",
        "ragged.csv": b"a,b\n1,2\n3\n",
        "latin.csv": b"a,b\n1,\xe4\xff\n",
        "nul.csv": b"a,b\n1,\x00\n",
        "bare.csv": b"1,2\n3,4\n",
        "twice.csv": b"a,a\n3,4\n",
        "quote.csv": b'a,b\n"1,2\n' * 5,
        "empty.csv": b"",
        "line.csv": b"\n",
        "utf16.csv": "a,b\n1,2\n".encode("utf-16"),
        "cut.json": b'[{"a": 1, "b',
        "nested.json": b'[{"a": {"b": [1, 2]}}]',
        "deep.json": b"[" * 5000,
        "null.json": b"null",
        "x.ledger": os.urandom(4096),
        "sqlite.ledger": b"SQLite format 3\x00" + bytes(4000),
        "empty.ledger": b"",
        "card.toml": b"[types]\nage = ",
        "text.csv": rows.encode(),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "folder.csv").mkdir()
    (folder / "folder.ledger").mkdir()
    os.mkfifo(folder / "pipe.csv")
    (folder / "loop.csv").symlink_to(folder / "loop.csv")
    (folder / "gone.csv").symlink_to(folder / "nothing.csv")
    return [str(path) for path in sorted(folder.iterdir())]


HUGE = 10**400
VALUES = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    3,
    -(2**63),
    2**63,
    2**64,
    HUGE,
    -HUGE,
    10**5000,
    0.0,
    -0.0,
    0.5,
    1.0,
    1.5,
    -1.5,
    1e-320,
    5e-324,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    1j,
    fractions.Fraction(1, 3),
    fractions.Fraction(1, HUGE),
    fractions.Fraction(HUGE, 3),
    fractions.Fraction(HUGE + 1, HUGE),
    decimal.Decimal("NaN"),
    decimal.Decimal("sNaN"),
    decimal.Decimal("1e999999"),
    decimal.Decimal("1e-999999"),
    decimal.Decimal("0.1"),
    "",
    "x",
    "age > 65",
    "age",
    "\ud800",
    "a\0b",
    "\0",
    "é" * 3000,
    "(" * 5000,
    "1" * 5000,
    "nan",
    "../../etc/passwd",
    "/",
    "/proc/self/mem",
    "https://nobody.invalid/x",
    "postgresql://nobody@127.0.0.1:1/none",
    "'; DROP TABLE holdtrue_entries; --",
    b"",
    b"bytes",
    b"\xff\xfe",
    bytearray(b"x"),
    [],
    (),
    {},
    set(),
    frozenset({1}),
    [None],
    [[]],
    [[[[]]]],
    [1, "x", None],
    [float("nan")] * 3,
    [HUGE, 1],
    ["age > 65", None],
    ["\ud800"],
    {"age": None},
    {None: 1},
    {"age": "nothing"},
    {"age": (1, 0)},
    {"age": (float("nan"), 1)},
    {"age": (0, HUGE)},
    {1: 2},
    {"\ud800": 1},
    {"x": {"y": {"z": []}}},
    range(3),
    range(10**9),
    slice(None),
    ...,
    NotImplemented,
    int,
    object(),
    lambda *_, **__: None,
    _raise,
    Raising(),
    Lying(),
    np.array([]),
    np.array(1.0),
    np.zeros((0, 3)),
    np.zeros((3, 0)),
    np.zeros((2, 2, 2)),
    np.arange(400),
    np.arange(400) % 2,
    np.full(400, np.nan),
    np.full(400, np.inf),
    np.full(400, 10**300),
    np.array([HUGE] * 400, dtype=object),
    np.array([None, "x", 1] * 10, dtype=object),
    np.array(["a", "b"]),
    np.array(["x"] * 400),
    np.array([1 + 2j, 3]),
    np.array([b"x", b"y"]),
    np.array(["2020-01-01"], dtype="datetime64[D]"),
    np.zeros(400, dtype="V8"),
    np.ma.array(np.arange(400), mask=True),
    np.float32("nan"),
    np.int8(-1),
    np.uint64(2**64 - 1),
    np.float16(6e4),
    np.longdouble("1e4000"),
    np.bool_(True),
    np.str_("x"),
    np.datetime64("NaT"),
    pd.NA,
    pd.NaT,
    pd.Series([1, None]),
    pd.DataFrame(),
    pd.DataFrame({"a": [1, "x", None]}),
    pd.DataFrame({1: [1], 2: [2]}),
    pd.DataFrame([[1, 2]], columns=["a", "a"]),
    pa.table({"a": pa.array([[1], [2]])}),
    pa.array([1, 2]),
    dt.datetime(1, 1, 1),  # noqa: DTZ001 - as hostile as the others
    dt.timedelta.max,
    Path("/nowhere/x.csv"),
    Path(),
    iter([1, 2]),
    (x for x in ()),
    memoryview(b"x"),
    Exception("x"),
    Exception,
]
ENDLESS = [Endless()]
CLOCKS = [-1.0, -1e18, 1e18, 1e300, float("inf"), float("nan"), 0.0, 2.0**63, -(2.0**63), 1e10]
