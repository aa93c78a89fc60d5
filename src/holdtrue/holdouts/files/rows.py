"""The rows of a result file, one after the other: JSON lines, a JSON document, CSV, Parquet, JUnit XML, a zip of samples.

What a file is follows from its first bytes, not from its name. JSON is read from a map of the file, a row at a time, so
that a file of gigabytes needs no memory of that size. An error names the place and what was expected there, never what
stood in it. Logs of inspect_ai that are zip archives have one member for each sample, packed with zstd (method 93) or
deflate: Python reads method 93 from 3.14 on; before that the packed bytes of a member are taken out here and Arrow unpacks
them.
"""

import csv
import json
import mmap
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn, TypeAlias
from xml.parsers import expat

import msgspec

from holdtrue.errors import RequestError

__all__ = ["ResultRows", "Row", "decode_json", "open_archive", "open_frame", "open_rows", "refuse_file"]

Row: TypeAlias = Mapping[str, Any]
_Numbered: TypeAlias = Iterator[tuple[int, Row]]
_HEAD = 4096
_MARK = b"\xef\xbb\xbf"
_LINES = (".jsonl", ".ndjson")
_LISTS = ("samples", "testCases", "results")
_BROKEN = (msgspec.DecodeError, ValueError, RecursionError)
_BATCH, _PASSED = 256, 24
_LONGEST_CELL = 1 << 30


@dataclass(frozen=True, slots=True)
class ResultRows:
    """ResultRows with their places (a line, or a number from 1), and what stands once in the file.

    ``kind`` is "lines", "document", "table", "junit" or "samples"; ``name`` and ``unit`` are what errors call the source and
    a place in it.
    """

    kind: str
    name: str
    rows: _Numbered
    header: Row
    columns: tuple[str, ...] = ()
    unit: str = "entry"


def refuse_file(name: str, reason: str, *, line: int | None = None, unit: str = "line") -> NoReturn:
    """Raise RequestError about a file, or about a line or an entry of it."""
    place = "" if line is None else f" {unit} {line}:"
    message = f"{name}:{place} {reason}"
    raise RequestError(message)


def open_rows(path: Path) -> ResultRows:
    """Return the rows of a file. Fails: RequestError for what cannot be read, also later, while rows are taken."""
    with path.open("rb") as content:
        head = content.read(_HEAD)
    text = head.removeprefix(_MARK).lstrip()
    if head.startswith(b"PK"):
        header, members = open_archive(path)
        return ResultRows("samples", str(path), _read_list(str(path), members), header)
    if head.startswith(b"PAR1"):
        return _open_parquet(path)
    if head.startswith((b"\x28\xb5\x2f\xfd", b"\x1f\x8b")):
        refuse_file(str(path), "is compressed as a whole; decompress it first")
    if text.startswith(b"<"):
        return _open_junit(path)
    if text.startswith((b"{", b"[")):
        return _open_json(path)
    if text and path.suffix.lower() in (*_LINES, ".json"):
        refuse_file(str(path), "is not a JSON object", line=1)
    return _open_csv(path)


def open_frame(frame: Any) -> ResultRows:  # noqa: ANN401 - whatever turns out to be a data frame
    """Return the rows of a data frame of pandas, Polars, Arrow or another library that Narwhals knows."""
    import narwhals.stable.v2 as nw

    try:
        found = nw.from_native(frame, eager_only=True)
    except TypeError:
        message = f"results must be a path or a data frame; got {type(frame).__name__}"
        raise RequestError(message) from None
    rows = enumerate(({str(name): cell for name, cell in row.items()} for row in found.iter_rows(named=True)), start=1)
    return ResultRows("table", "the data frame", rows, {}, tuple(map(str, found.columns)))


def decode_json(text: Any) -> Any:  # noqa: ANN401 - bytes in, any JSON value out
    """Return a JSON value, None for what is none. NaN is read, so that whoever looks at the number can refuse it."""
    try:
        return msgspec.json.decode(text)
    except _BROKEN:
        pass
    try:
        return json.loads(bytes(text))
    except _BROKEN:
        return None


def _open_json(path: Path) -> ResultRows:
    with path.open("rb") as content:
        whole = mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ)
    start = len(_MARK) if whole[: len(_MARK)] == _MARK else 0
    document = _open_part(memoryview(whole)[start:], dict[str, msgspec.Raw] | list[msgspec.Raw])
    if document is None:
        first = next(_cut_lines(whole, start))[1]
        if path.suffix.lower() in _LINES or isinstance(decode_json(first), dict):
            return ResultRows("lines", str(path), _read_lines(str(path), whole, start), {}, unit="line")
        document = decode_json(memoryview(whole)[start:])  # NaN, or no JSON at all
    if not isinstance(document, (dict, list)):
        refuse_file(str(path), "is not valid JSON; if it was cut short, write it again")
    if isinstance(document, list):
        return ResultRows("document", str(path), _read_list(str(path), iter(document)), {})
    return _open_document(path, document)


def _open_document(path: Path, parts: dict[str, Any]) -> ResultRows:
    """Return the rows of an object: those of the list that a tool has in it; without one it is a row itself."""
    found: Any = None
    for name in _LISTS:
        inner = _open_part(parts.get(name), list[msgspec.Raw] | dict[str, msgspec.Raw])
        inner = _open_part(inner.get("results"), list[msgspec.Raw]) if isinstance(inner, dict) else inner
        found = inner if isinstance(inner, list) else found
    if found is None and "eval" not in parts:  # a log of inspect_ai may be without samples
        row = {name: _open_part(part, Any) for name, part in parts.items()}
        return ResultRows("lines", str(path), iter([(1, row)]), {}, unit="line")
    header = {name: _open_part(part, Any) for name, part in parts.items() if name not in _LISTS}
    return ResultRows("document", str(path), _read_list(str(path), iter(found or ())), header)


def _open_part(part: Any, kind: Any) -> Any:  # noqa: ANN401 - a value, decoded as far as wanted
    if not isinstance(part, (msgspec.Raw, memoryview)):
        return part
    try:
        return msgspec.json.decode(part, type=kind)
    except _BROKEN:
        return None


def _read_list(name: str, items: Iterator[Any]) -> _Numbered:
    for number, item in enumerate(items, start=1):
        row = decode_json(item) if isinstance(item, (msgspec.Raw, bytes)) else item
        if not isinstance(row, dict):
            refuse_file(name, "is not a JSON object", line=number, unit="entry")
        yield number, row


def _cut_lines(whole: mmap.mmap, start: int) -> Iterator[tuple[int, memoryview]]:
    number, text = 0, memoryview(whole)
    while start < len(whole):
        end = whole.find(b"\n", start)
        end = len(whole) if end < 0 else end
        number += 1
        if not text[start:end].tobytes().isspace() and end > start:
            yield number, text[start:end]
        if start >> _PASSED != end >> _PASSED and hasattr(whole, "madvise"):
            whole.madvise(mmap.MADV_DONTNEED)  # what was read need not stay in memory
        start = end + 1


def _read_lines(name: str, whole: mmap.mmap, start: int) -> _Numbered:
    for number, line in _cut_lines(whole, start):
        row = decode_json(line)
        if not isinstance(row, dict):
            refuse_file(name, "is not a JSON object", line=number)
        yield number, row


def _open_csv(path: Path) -> ResultRows:
    lines = _read_csv(path)
    _, names = next(lines)
    return ResultRows("table", str(path), lines, {}, tuple(names), "line")


def _read_csv(path: Path) -> _Numbered:
    """Yield the names of the columns, then the rows."""
    csv.field_size_limit(max(_LONGEST_CELL, csv.field_size_limit()))  # of the process; 131,072 would refuse long outputs
    with path.open(encoding="utf-8-sig", newline="") as text:
        rows = csv.DictReader(text, strict=True)
        try:
            names = [name for name in rows.fieldnames or () if name]
            if len(set(names)) < len(names):
                refuse_file(str(path), "has two columns of one name", line=1)
            yield 1, dict.fromkeys(rows.fieldnames or ())
            for row in rows:
                if any(row.pop(None, ())) or None in row.values():  # 0,5 for 0.5, or a file that was cut short
                    refuse_file(str(path), "has more or fewer cells than there are columns", line=rows.line_num)
                yield rows.line_num, row
        except csv.Error:
            refuse_file(str(path), "is not valid CSV", line=rows.line_num)


def _open_parquet(path: Path) -> ResultRows:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    def read() -> _Numbered:
        number = 0
        try:
            for batch in found.iter_batches(batch_size=_BATCH):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
        except (pa.ArrowException, OSError, ValueError):
            refuse_file(str(path), "is not valid Parquet; if it was cut short, write it again")

    try:
        found = pq.ParquetFile(path)
    except (pa.ArrowException, OSError):
        refuse_file(str(path), "is not valid Parquet; if it was cut short, write it again")
    return ResultRows("table", str(path), read(), {}, tuple(found.schema_arrow.names))


def _open_junit(path: Path) -> ResultRows:
    """Return test cases, each with ``suite`` (the outermost name), ``classname``, ``name`` and ``outcome``."""
    found: list[dict[str, str]] = []
    open_case: dict[str, str] = {}
    suite: list[str] = []
    parser = expat.ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        kind = tag.rpartition("}")[2]
        if not suite:
            suite.append(attributes.get("name", ""))
        if kind == "testcase":
            open_case.clear()
            open_case.update({"suite": suite[0], "classname": attributes.get("classname", "")})
            open_case.update({"name": attributes.get("name", ""), "outcome": "passed"})
        elif open_case and kind in ("failure", "error", "skipped"):
            open_case["outcome"] = kind

    def end(tag: str) -> None:
        if tag.rpartition("}")[2] == "testcase":
            if not (open_case.get("classname") or open_case.get("name")):
                refuse_file(str(path), "has a test case without a name", line=parser.CurrentLineNumber)
            found.append(open_case.copy())
            open_case.clear()

    def refuse_doctype(*_: object) -> None:
        refuse_file(str(path), "has a document type, which results need not have", line=parser.CurrentLineNumber)

    parser.StartElementHandler, parser.EndElementHandler = start, end
    # A document type is refused before anything in it is looked at.
    parser.StartDoctypeDeclHandler = refuse_doctype
    try:
        with path.open("rb") as content:
            parser.ParseFile(content)
    except expat.ExpatError as error:
        refuse_file(str(path), "is not valid XML", line=error.lineno)
    return ResultRows("junit", str(path), enumerate(found, start=1), {})


_ZSTD = 93
_LOCAL_HEADER = 30
_LARGEST = 1 << 30
_HEADERS = ("header.json", "_journal/start.json")
_CUT = "is damaged or was cut short; copy or write it again"


def open_archive(path: Path) -> tuple[dict[str, Any], Iterator[bytes]]:
    """Return the header of a log and the text of its samples, one at a time. Fails: RequestError."""
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        refuse_file(str(path), _CUT)
    members = {info.filename: info for info in archive.infolist()}
    named = next((name for name in _HEADERS if name in members), None)
    samples = [info for name, info in members.items() if name.startswith("samples/") and name.endswith(".json")]
    if named is None:
        archive.close()
        refuse_file(str(path), "is a zip archive, but not a log of inspect_ai; give one of the files in it")
    header = decode_json(_read_member(path, archive, members[named]))

    def read() -> Iterator[bytes]:
        with archive:
            for info in samples:
                yield _read_member(path, archive, info)

    return header if isinstance(header, dict) else {}, read()


def _read_member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.file_size > _LARGEST:
        refuse_file(str(path), "has a sample of more than 1 GiB")
    if info.compress_type == _ZSTD:
        _check_zstd(path)
    try:
        if info.compress_type != _ZSTD:
            return archive.read(info)
        text = _unpack_zstd(_read_packed(archive.fp, info), info.file_size)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError, NotImplementedError):
        text = None
    if text is None or len(text) != info.file_size or zlib.crc32(text) != info.CRC:
        refuse_file(str(path), _CUT)
    return text


def _read_packed(content: IO[bytes] | None, info: zipfile.ZipInfo) -> bytes:
    """Return the packed bytes of a member: they follow its local header, which has a length of its own."""
    if content is None:
        raise EOFError
    content.seek(info.header_offset)
    local = content.read(_LOCAL_HEADER)
    content.seek(int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little"), 1)
    return content.read(info.compress_size)


def _check_zstd(path: Path) -> None:
    import pyarrow as pa

    if not pa.Codec.is_available("zstd"):
        refuse_file(
            str(path),
            "is packed with zstd, which this build of pyarrow cannot read; install pyarrow from PyPI, or write the log "
            "with --log-format json",
        )


def _unpack_zstd(packed: bytes, size: int) -> bytes:
    import pyarrow as pa

    with pa.input_stream(pa.py_buffer(packed), compression="zstd") as unpacked:
        return bytes(unpacked.read(size + 1))
