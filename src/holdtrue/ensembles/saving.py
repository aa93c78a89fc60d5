"""Ensembles in files, and members as bytes between machines: arrays and JSON, never code.

A file is one npz: the arrays of the members, and what is public about them as JSON in bytes. Reading it runs nothing: there
is no pickle in it, and none would be read. The members learned it from private rows, so it is as private as the rows.
"""

import io
import json
import math
import os
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.ensembles.members import Block, Domain, Ensemble, LinearMembers, Members, Tree, TreeMembers, kind_of
from holdtrue.ensembles.own_estimators import ExactMinimiser, FiniteClass, Pick, PickMembers
from holdtrue.ensembles.parts import labels_of, outputs_of
from holdtrue.ensembles.training import Recipe
from holdtrue.errors import InvalidParameter, PreconditionError, RequestError
from holdtrue.kernels.predictors import Forest, WeightTable

__all__ = ["check_portable", "from_bytes", "load", "member_from_bytes", "member_to_bytes", "save", "to_bytes"]

_FORMAT: Final = "holdtrue-ensemble"
_VERSION: Final = 1
_MOST_BYTES: Final = 1 << 34
_MOST_FACTS: Final = 1 << 24
_MOST_DEPTH: Final = 1 << 16

_SHAPES: Final = {"linear": Block, "trees": Tree, "picks": Pick}

Arrays = dict[str, npt.NDArray[Any]]
ReadClass: TypeAlias = Callable[[str], FiniteClass]

# Every array of a file, with its type and its number of dimensions.
_PUBLIC: Final = {"facts": ("|u1", 1), "low": ("<f8", 1), "high": ("<f8", 1)}
_HELD: Final = {
    "linear": {"weights": ("<f8", 2), "biases": ("<f8", 1), "starts": ("<i8", 1), "codes": ("<i8", 1), "others": ("<i8", 1)},
    "trees": {
        "features": ("<u4", 1),
        "thresholds": ("<f4", 1),
        "children": ("<u4", 1),
        "roots": ("<u4", 1),
        "depths": ("<i8", 1),
        "codes": ("<i8", 1),
        "values": ("<f8", 1),
    },
    "picks": {"indices": ("<i8", 1)},
}


def save(ensemble: Ensemble, path: str | os.PathLike[str]) -> None:
    """Write an ensemble of linear members, trees or hypotheses, atomically, to a file that only its owner can read."""
    content = to_bytes(ensemble)
    place = Path(path)
    # Files made so are their owner's alone.
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def to_bytes(ensemble: Ensemble) -> bytes:
    """Return an ensemble of linear members, trees or hypotheses as the bytes of a file; PreconditionError for others."""
    members = ensemble.members
    if isinstance(members, LinearMembers):
        arrays: Arrays = {name: getattr(members.table, name) for name in _HELD["linear"]}
    elif isinstance(members, TreeMembers):
        arrays = {**members.forest._asdict(), "codes": members.codes, "values": members.values}
    elif isinstance(members, PickMembers) and members.source.document is not None:
        arrays = {"indices": members.indices}
    else:
        message = "members of this type cannot be saved; only linear members, trees and hypotheses of a class can"
        raise PreconditionError(message)
    facts = {
        "format": _FORMAT,
        "version": _VERSION,
        "kind": ensemble.kind,
        "parts": ensemble.parts,
        "labels": ensemble.labels,
        "output_bounds": ensemble.output_bounds,
        "fallback": ensemble.fallback,
    }
    facts |= {"hypotheses": members.source.document} if isinstance(members, PickMembers) else {}
    arrays |= {"facts": np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)}
    arrays |= {"low": ensemble.domain.low, "high": ensemble.domain.high}
    held = io.BytesIO()
    np.savez(held, allow_pickle=False, **arrays)
    return held.getvalue()


def load(path: str | os.PathLike[str], *, read_class: ReadClass | None = None) -> Ensemble:
    """Read an ensemble that :func:`save` wrote. InvalidParameter where the file is missing or is not exactly that.

    ``read_class`` reads the class of members that are hypotheses, such as ``holdtrue.hypotheses.read_class``.
    """
    place = Path(path)
    try:
        _require_that(place.stat().st_size <= _MOST_BYTES, "it is too large")
        content = place.read_bytes()
    except (OSError, ValueError) as error:
        raise _refuse_file(os.fspath(path), error) from None
    return from_bytes(content, where=os.fspath(path), read_class=read_class)


def from_bytes(content: bytes, *, where: str, read_class: ReadClass | None = None) -> Ensemble:
    """Return the ensemble that :func:`to_bytes` wrote; ``where`` is the place that InvalidParameter shows."""
    try:
        arrays = _read_arrays(content)
        facts = _read_facts(arrays)
        return _make_ensemble(facts, arrays, read_class)
    except (
        OSError,
        ValueError,
        KeyError,
        EOFError,
        TypeError,
        zipfile.BadZipFile,
        RecursionError,
        NotImplementedError,
    ) as error:
        raise _refuse_file(where, error) from None


def _refuse_file(where: str, error: Exception) -> InvalidParameter:
    """Return the error for a file, without its numbers or another library's message, which may be private."""
    why = str(error) if isinstance(error, _Wrong) else "it cannot be read"
    return InvalidParameter("path", where, f"a file that holdtrue saved an ensemble to ({why})")


class _Wrong(RequestError):
    """The file is malformed; the message is our own."""


def _require_that(holds: object, otherwise: str) -> None:
    if not holds:
        raise _Wrong(otherwise)


def _read_arrays(content: bytes) -> Arrays:
    _require_that(len(content) <= _MOST_BYTES, "it is too large")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
        kinds = [kind for kind, held in _HELD.items() if entries.keys() == {**_PUBLIC, **held}.keys()]
        _require_that(kinds and len(entries) == len(archive.infolist()), "it holds other arrays than an ensemble does")
        expected = {**_PUBLIC, **_HELD[kinds[0]]}
        return {name: _read_array(archive, entries[name], *expected[name]) for name in expected}


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, dtype: str, dimensions: int) -> npt.NDArray[Any]:
    """Return an array after checking its header: type, shape and exact number of bytes."""
    name = entry.filename
    # Stored, not deflated: what is read is never larger than the file.
    stored = entry.compress_type == zipfile.ZIP_STORED and entry.compress_size == entry.file_size
    _require_that(stored, f"{name} is compressed")
    with archive.open(entry) as file:
        _require_that(np.lib.format.read_magic(file) == (1, 0), f"{name} has a header of another version")
        shape, _, found = np.lib.format.read_array_header_1_0(file)
        _require_that(found.str == dtype and len(shape) == dimensions, f"{name} has another type or shape")
        _require_that(math.prod(shape) * found.itemsize + file.tell() == entry.file_size, f"{name} has another length")
        file.seek(0)
        array = np.lib.format.read_array(file, allow_pickle=False)
    _require_that(array.dtype.kind != "f" or np.isfinite(array).all(), f"{name} holds numbers that are not finite")
    return array


def _read_facts(arrays: Arrays) -> dict[str, Any]:
    _require_that(arrays["facts"].size <= _MOST_FACTS, "its facts are too long")
    facts: Any = json.loads(arrays["facts"].tobytes().decode())
    _require_that(isinstance(facts, dict) and facts.get("format") == _FORMAT, "it is no ensemble")
    _require_that(type(facts["version"]) is int and facts["version"] == _VERSION, f"it is not of version {_VERSION}")
    expected = {"format", "version", "kind", "parts", "labels", "output_bounds", "fallback"}
    expected |= {"hypotheses"} if facts.get("kind") == "picks" else set()
    _require_that(set(facts) == expected, "its facts have other names")
    _require_that(facts["kind"] in _HELD and _HELD[facts["kind"]].keys() <= arrays.keys(), "its kind and its arrays differ")
    _require_that(type(facts["parts"]) is int and facts["parts"] >= 1, "it has no parts")
    _require_that(isinstance(facts["fallback"], float) and math.isfinite(facts["fallback"]), "its fallback is no number")
    _require_that((facts["labels"] is None) != (facts["output_bounds"] is None), "it gives neither labels nor numbers")
    return dict(facts)


def _make_ensemble(facts: dict[str, Any], arrays: Arrays, read_class: ReadClass | None) -> Ensemble:
    low, high = arrays["low"], arrays["high"]
    width = low.size
    _require_that(width and high.size == width, "its bounds differ in number")
    domain = Domain.of(list(zip(low.tolist(), high.tolist(), strict=True)), width=width)
    labels = None if facts["labels"] is None else labels_of(facts["labels"])
    span = None if labels else outputs_of(facts["output_bounds"], facts["fallback"])[0]
    sizes = facts["parts"], width, len(labels or (0,))
    if facts["kind"] == "picks":
        members: Members = _make_picks(arrays, facts, read_class)
    else:
        members = _make_linear(arrays, *sizes) if facts["kind"] == "linear" else _make_trees(arrays, *sizes)
    return Ensemble(members, domain, labels, span, facts["fallback"])


def _make_picks(arrays: Arrays, facts: dict[str, Any], read_class: ReadClass | None) -> PickMembers:
    document, indices, labels = facts["hypotheses"], arrays["indices"], facts["labels"]
    _require_that(read_class is not None and isinstance(document, str), "its class cannot be read here")
    found = read_class(document) if read_class is not None else None
    inside = found is not None and ((indices >= 0) & (indices < found.size)).all()
    _require_that(found is not None and inside and indices.size == facts["parts"], "a member is not in its class")
    _require_that(labels is not None and len(labels) == 2, "its class has two labels")  # noqa: PLR2004 - no and yes
    return PickMembers(ExactMinimiser(found, document), indices)  # type: ignore[arg-type]  # it is one, by the line above


def _make_linear(arrays: Arrays, parts: int, width: int, labels: int) -> LinearMembers:
    table = WeightTable(**{name: arrays[name] for name in _HELD["linear"]})
    rows = table.biases.size
    _require_that(table.weights.shape == (width, rows), "its weights have another shape")
    _require_that(
        table.starts.size == parts + 1 and table.starts[0] == 0 and table.starts[-1] == rows, "its rows are not its members'"
    )
    _require_that((np.diff(table.starts) >= 1).all(), "a member has no rows")
    for codes in (table.codes, table.others):
        _require_that(codes.size == rows and ((codes >= 0) & (codes < labels)).all(), "a row votes for no label")
    return LinearMembers(table)


def _make_trees(arrays: Arrays, parts: int, width: int, labels: int) -> TreeMembers:
    forest = Forest(**{name: arrays[name] for name in Forest._fields})
    codes, values = arrays["codes"], arrays["values"]
    nodes = forest.features.size
    alike = forest.thresholds.size == codes.size == values.size == nodes and forest.children.size == 2 * nodes
    _require_that(alike and forest.depths.size == forest.roots.size == parts, "its nodes differ in number")
    _require_that((forest.features < width).all(), "a node looks at no column")
    _require_that(((codes >= 0) & (codes < labels)).all(), "a leaf votes for no label")
    _require_that(((forest.depths >= 0) & (forest.depths <= _MOST_DEPTH)).all(), "a tree is too deep")
    starts = np.append(forest.roots.astype(np.int64), nodes)
    _require_that(starts[0] == 0 and (np.diff(starts) >= 1).all(), "its trees overlap")
    _require_that(_are_trees_sound(forest, starts), "a path through a tree does not end at a leaf")
    return TreeMembers(forest, codes, values)


def _are_trees_sound(forest: Forest, starts: npt.NDArray[np.int64]) -> bool:
    """Return whether every node leads to itself or to two later nodes of its tree, and depths are as stated."""
    own = np.arange(forest.features.size)
    tree = np.searchsorted(starts, own, side="right") - 1
    children = forest.children.astype(np.int64).reshape(-1, 2)
    leaf = (children == own[:, np.newaxis]).all(axis=1)
    inside = (children > own[:, np.newaxis]) & (children < starts[tree + 1][:, np.newaxis])
    if not (leaf | inside.all(axis=1)).all():
        return False
    depth = np.zeros(own.size, dtype=np.int64)
    # Children come later, so that one pass from the last node to the first knows them before their parents.
    for node in np.flatnonzero(~leaf)[::-1].tolist():
        depth[node] = 1 + depth[children[node]].max()
    return bool((depth[starts[:-1]] <= forest.depths).all())


def check_portable(recipe: Recipe) -> None:
    """Refuse an estimator whose members are code rather than arrays, and so stay on the machine that trained them."""
    if kind_of(recipe.estimator) not in _SHAPES:
        raise InvalidParameter(
            "estimator",
            type(recipe.estimator).__name__,
            "a class, or one of scikit-learn's own linear models or trees where rows are on a cluster: others cannot travel",
        )


def member_to_bytes(member: "Block | Tree | Pick | None") -> bytes:
    """Return a member as bytes; no bytes for a part without a member."""
    if member is None:
        return b""
    held = io.BytesIO()
    np.savez(held, allow_pickle=False, **{name: np.asarray(value) for name, value in member._asdict().items()})
    return held.getvalue()


def member_from_bytes(content: bytes, *, recipe: Recipe) -> "Block | Tree | Pick | None":
    """Return the member that :func:`member_to_bytes` wrote. Raises on anything else; the caller masks the error."""
    if not content:
        return None
    shape: Any = _SHAPES[kind_of(recipe.estimator)]
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        if set(arrays.files) != set(shape._fields):
            message = "these bytes are not a member"
            raise ValueError(message)
        found = {name: arrays[name] for name in shape._fields}
    found |= {name: int(found[name]) for name in ("depth", "number") if name in found}
    member: Block | Tree | Pick = shape(**found)
    return member
