"""Ensembles in files: what was saved comes back, and nothing else is let in."""

import json
import stat
import zipfile

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import holdtrue as ht
from holdtrue.ensembles import load, save, train


def _rows(seed=0, rows=240):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    return x, (x[:, 0] + rng.normal(size=rows) > 0).astype(int) + (x[:, 1] > 1)


def _ensemble(kind="linear"):
    x, y = _rows()
    estimator = {"linear": LogisticRegression(), "trees": DecisionTreeClassifier(max_depth=4)}[kind]
    return train(estimator, x, y, parts=5, labels=[0, 1, 2], bounds=(-2, 2), jobs=1)


@pytest.mark.parametrize("estimator", [LogisticRegression(), DecisionTreeClassifier(max_depth=5)], ids=["linear", "trees"])
@pytest.mark.parametrize("labels", [(0, 1, 2), (2, 0, 1), ("none", "some", "many ü"), (False, True)])
def test_what_was_saved_votes_as_before(estimator, labels, tmp_path):
    x, y = _rows()
    named = np.asarray(labels)[y % len(labels)]
    ensemble = train(estimator, x, named, parts=5, labels=labels, bounds=[(-1, 1), (-2, 2), (0, 3)], jobs=1)
    save(ensemble, tmp_path / "kept.npz")
    again = load(tmp_path / "kept.npz")
    points = _rows(1)[0] * 3
    assert (again.votes(points) == ensemble.votes(points)).all()
    assert (again.labels, again.parts, again.kind, again.stored) == (labels, 5, ensemble.kind, True)
    assert [type(label) for label in again.labels] == [type(label) for label in labels]
    assert repr(again) == repr(ensemble)


@pytest.mark.parametrize("estimator", [Ridge(), DecisionTreeRegressor(max_depth=5)], ids=["linear", "trees"])
def test_what_was_saved_says_the_numbers_it_said(estimator, tmp_path):
    x, y = _rows()
    ensemble = train(estimator, x, y, parts=5, output_bounds=(0, 1.5), fallback=0.3, jobs=1)
    save(ensemble, str(tmp_path / "kept"))
    again = load(str(tmp_path / "kept"))
    assert (again.outputs(x) == ensemble.outputs(x)).all()
    assert (again.output_bounds, again.fallback, again.labels) == ((0.0, 1.5), 0.3, None)


def test_a_file_is_its_owners_alone_and_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    save(_ensemble(), tmp_path / "kept.npz")
    assert stat.S_IMODE((tmp_path / "kept.npz").stat().st_mode) == 0o600
    before = (tmp_path / "kept.npz").read_bytes()

    def full(file, **_):
        file.write(b"half")
        raise OSError

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError):  # noqa: PT011 - the disk's own
        save(_ensemble("trees"), tmp_path / "kept.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["kept.npz"]
    assert (tmp_path / "kept.npz").read_bytes() == before


def test_members_of_other_types_live_in_memory_only(tmp_path):
    x, y = _rows()
    with pytest.raises(ht.PreconditionError, match="cannot be saved"):
        save(train(GaussianNB(), x, y, parts=5, labels=[0, 1, 2]), tmp_path / "kept.npz")
    assert not list(tmp_path.iterdir())


def _contents(kind, tmp_path):
    save(_ensemble(kind), tmp_path / "kept.npz")
    with np.load(tmp_path / "kept.npz", allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _facts(arrays, **changes):
    facts = json.loads(arrays["facts"].tobytes()) | changes
    return arrays | {"facts": np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)}


def _with(name, place, value):
    def change(arrays):
        array = arrays[name].copy()
        array[place] = value
        return arrays | {name: array}

    return change


class Payload:
    """What a pickle would run."""

    ran = False

    def __reduce__(self):
        return setattr, (Payload, "ran", True)


FAULTS = {
    "linear": {
        "a number that is not finite": _with("weights", (0, 0), np.nan),
        "an infinite bias": _with("biases", 0, np.inf),
        "a label too high": _with("codes", 0, 3),
        "a label below zero": _with("others", 0, -1),
        "rows that are nobody's": _with("starts", -1, 1),
        "a member without rows": _with("starts", 1, 0),
        "starts that go back": _with("starts", 1, 2**40),
        "weights of another shape": lambda a: a | {"weights": a["weights"][:, 1:]},
        "weights of another type": lambda a: a | {"weights": a["weights"].astype(np.float32)},
        "big-endian weights": lambda a: a | {"weights": a["weights"].astype(">f8")},
        "weights in one dimension": lambda a: a | {"weights": a["weights"].ravel()},
        "objects": lambda a: a | {"weights": np.array([[Payload()]], dtype=object)},
        "no weights": lambda a: {name: array for name, array in a.items() if name != "weights"},
        "something more": lambda a: a | {"more": np.zeros(3)},
        "bounds of another number": lambda a: a | {"low": a["low"][1:]},
        "bounds upside down": _with("low", 0, 3.0),
        "the other kind": lambda a: _facts(a, kind="trees"),
        "no kind": lambda a: _facts(a, kind="other"),
        "a kind that is a list": lambda a: _facts(a, kind=["linear"]),
        "a later version": lambda a: _facts(a, version=2),
        "a version that is true": lambda a: _facts(a, version=True),
        "another format": lambda a: _facts(a, format="model"),
        "another number of parts": lambda a: _facts(a, parts=4),
        "no parts": lambda a: _facts(a, parts=0),
        "labels that are alike": lambda a: _facts(a, labels=[0, 0, 1]),
        "labels of another number": lambda a: _facts(a, labels=[0, 1]),
        "labels of labels": lambda a: _facts(a, labels=[[0], [1], [2]]),
        "labels and numbers": lambda a: _facts(a, output_bounds=[0, 1]),
        "neither labels nor numbers": lambda a: _facts(a, labels=None),
        "a fallback that is not finite": lambda a: _facts(a, fallback=float("nan")),
        "one fact more": lambda a: _facts(a, colour="red"),
        "facts that are no JSON": lambda a: a | {"facts": np.frombuffer(b"{oh}", dtype=np.uint8)},
        "facts that are no text": lambda a: a | {"facts": np.frombuffer(b"\xff\xfe", dtype=np.uint8)},
        "facts that are a list": lambda a: a | {"facts": np.frombuffer(b"[1]", dtype=np.uint8)},
        "facts that never end": lambda a: a | {"facts": np.frombuffer(b"[" * 10**6, dtype=np.uint8)},
    },
    "trees": {
        "a path in a circle": lambda a: _with("children", int(np.argmax(a["children"] > 1)), 0)(a),
        "a child in another tree": _with("children", 0, 2**31),
        "a tree deeper than is said": _with("depths", 0, 1),
        "a depth without end": _with("depths", 0, 2**40),
        "a column that is not there": _with("features", 0, 3),
        "a threshold that is no number": _with("thresholds", 0, np.nan),
        "a label too high": _with("codes", -1, 3),
        "trees that overlap": _with("roots", 1, 0),
        "a first tree that starts late": _with("roots", 0, 1),
        "values of another number": lambda a: a | {"values": a["values"][1:]},
    },
}


@pytest.mark.parametrize(("kind", "fault"), [(kind, fault) for kind, faults in FAULTS.items() for fault in faults])
def test_files_that_are_not_exactly_an_ensemble_are_refused(kind, fault, tmp_path):
    arrays = _contents(kind, tmp_path)
    with (tmp_path / "bad.npz").open("wb") as file:
        np.savez(file, **FAULTS[kind][fault](arrays))
    with pytest.raises(ht.InvalidParameter, match="a file that holdtrue saved an ensemble to"):
        load(tmp_path / "bad.npz")
    assert not Payload.ran


def test_compressed_arrays_are_refused_so_that_no_small_file_fills_the_memory(tmp_path):
    arrays = _contents("linear", tmp_path)
    np.savez_compressed(tmp_path / "bad.npz", **arrays)
    with pytest.raises(ht.InvalidParameter, match="compressed"):
        load(tmp_path / "bad.npz")


def test_a_header_that_promises_more_than_there_is_is_refused_before_memory_is_taken(tmp_path):
    _contents("linear", tmp_path)
    with zipfile.ZipFile(tmp_path / "kept.npz") as old, zipfile.ZipFile(tmp_path / "bad.npz", "w") as new:
        for entry in old.namelist():
            held = old.read(entry)
            grown = b"'shape': (5000000000000,), }"
            new.writestr(entry, held.replace(b"'shape': (15,), }           ", grown) if entry == "biases.npy" else held)
            assert entry != "biases.npy" or grown in new.read(entry)
    with pytest.raises(ht.InvalidParameter, match="another length"):
        load(tmp_path / "bad.npz")


@pytest.mark.parametrize("content", [None, b"", b"PK", b"\x93NUMPY", b"\x80\x04.", b"x" * 1000])
def test_files_that_are_no_archive_are_refused(content, tmp_path):
    if content is not None:
        (tmp_path / "bad.npz").write_bytes(content)
    with pytest.raises(ht.InvalidParameter):
        load(tmp_path / "bad.npz")


def test_damaged_files_are_refused_or_read_as_they_were(tmp_path):
    rng = np.random.default_rng(5)
    points = _rows(1)[0]
    for kind in ("linear", "trees"):
        ensemble = _ensemble(kind)
        save(ensemble, tmp_path / "kept.npz")
        whole = (tmp_path / "kept.npz").read_bytes()
        expected = ensemble.votes(points)
        refused = 0
        for place in rng.integers(0, len(whole), 150).tolist():
            broken = bytearray(whole)
            broken[place] ^= 1 << int(rng.integers(8))
            (tmp_path / "bad.npz").write_bytes(broken if place % 3 else whole[:place])
            try:
                assert (load(tmp_path / "bad.npz").votes(points) == expected).all()
            except ht.InvalidParameter:
                refused += 1
        assert refused > 100
