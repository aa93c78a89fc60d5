"""Logs of inspect_ai that are zip archives: one member for each sample, packed with zstd (method 93) or deflate.

Python reads method 93 from 3.14 on; before that the packed bytes of a member are taken out here and Arrow unpacks them.
"""

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from holdtrue.holdouts.files.rows import decode_json, refuse_file

__all__ = ["open_archive"]

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
    import pyarrow as pa  # type: ignore[import-untyped]

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
