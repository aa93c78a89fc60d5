"""Results from files, and submissions kept by name: what is read, what is refused, and what no error quotes."""

import json
import stat

import numpy as np
import pytest

from holdtrue.errors import IntegrityError, RefusedError, RequestError
from holdtrue.holdouts.result_files import read_results
from holdtrue.holdouts.submissions import Kept, Names

CANARY = "canary-4711"


def write(folder, name, text):
    place = folder / name
    place.write_text(text, encoding="utf-8")
    return place


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "id,passed\nb,0\na,1\nc,true\n"),
        ("a.CSV", "\ufeffpassed,id,note\nno,b,x\nyes,a,y\nPassed,c,z\n"),
        ("a.jsonl", '{"id": "b", "passed": false}\n\n{"id": "a", "score": 1}\n{"id": "c", "score": "1.0"}\n'),
        ("a.ndjson", '{"id": "a", "score": 1.0}\n{"id": "b", "score": 0}\n{"id": "c", "passed": 1}\n'),
    ],
)
def test_formats_and_orders_are_the_same_results(tmp_path, name, text):
    found = read_results(write(tmp_path, name, text))
    assert found.ids.tolist() == ["a", "b", "c"]
    assert found.values.tolist() == [1.0, 0.0, 1.0]
    assert found.outputs is None
    assert found.number == 3


def test_junit_names_cases_by_class_and_name(tmp_path):
    text = """<testsuites><testsuite>
        <testcase classname="m.T" name="a"/>
        <testcase classname="m.T" name="b"><failure/></testcase>
        <testcase classname="m.T" name="c"><system-out>fine</system-out></testcase>
        <testcase name="d"><skipped/></testcase>
    </testsuite></testsuites>"""
    found = read_results(write(tmp_path, "a.xml", text))
    assert dict(zip(found.ids.tolist(), found.values.tolist(), strict=True)) == {"m.T.a": 1, "m.T.b": 0, "m.T.c": 1, "d": 0}


def test_whole_numbers_are_ids_and_scores_keep_their_value(tmp_path):
    found = read_results(write(tmp_path, "a.jsonl", '{"id": 2, "score": 0.25}\n{"id": 1, "score": 0.5}\n'))
    assert found.ids.tolist() == ["1", "2"]
    assert found.values.tolist() == [0.5, 0.25]


def test_equal_outputs_have_equal_digests_and_are_not_kept(tmp_path):
    lines = [{"id": "a", "score": 1, "output": CANARY}, {"id": "b", "score": 1, "output": CANARY}]
    lines += [{"id": "c", "score": 1, "output": {"y": 1, "x": 2}}, {"id": "d", "score": 1, "output": {"x": 2, "y": 1}}]
    found = read_results(write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, lines))))
    assert found.outputs[0] == found.outputs[1] != found.outputs[2] == found.outputs[3]
    assert CANARY not in "".join(found.outputs)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "", "has no cases"),
        ("a.csv", f"id,{CANARY}\n", "needs columns id and score"),
        ("a.csv", "id,score\n", "has no cases"),
        ("a.csv", f'id,score\na,1\n"{CANARY}', "is not valid CSV"),
        ("a.csv", f"id,score\na,1\nb,{CANARY}\n", "line 3: needs a score"),
        ("a.csv", f"id,score\n{CANARY},1\n{CANARY},0\n", "id"),
        ("a.jsonl", f'{{"id": "a", "score": 1}}\n{CANARY}\n', "line 2: is not a JSON object"),
        ("a.jsonl", f'["{CANARY}"]\n', "entry 1: is not a JSON object"),
        ("a.jsonl", "[" * 100_000, "is not a JSON object"),
        ("a.jsonl", '{"id": true, "score": 1}\n', "needs an id"),
        ("a.jsonl", '{"id": "", "score": 1}\n', "needs an id"),
        ("a.jsonl", '{"id": "a"}\n', "needs a score or passed"),
        ("a.jsonl", '{"id": "a", "score": 1, "passed": 1}\n', "needs a score or passed"),
        ("a.jsonl", '{"id": "a", "score": 1.5}\n', "in [0, 1]"),
        ("a.jsonl", '{"id": "a", "score": NaN}\n', "in [0, 1]"),
        ("a.jsonl", '{"id": "a", "score": [1]}\n', "in [0, 1]"),
        ("a.jsonl", f'{{"id": "a", "passed": "{CANARY}"}}\n', "1 or 0, true or false"),
        ("a.jsonl", '{"id": "a", "score": 1, "output": "x"}\n{"id": "b", "score": 1}\n', "output for some cases"),
        ("a.xml", f"<testsuite><testcase name='{CANARY}'>", "is not valid XML"),
        ("a.xml", "<!DOCTYPE x><testsuite/>", "document type"),
        ("a.xml", "<testsuite/>", "has no cases"),
    ],
)
def test_bad_files_are_named_by_line_and_never_quoted(tmp_path, name, text, said):
    with pytest.raises(RequestError) as caught:
        read_results(write(tmp_path, name, text))
    assert said in str(caught.value)
    assert CANARY not in str(caught.value)


def test_files_that_cannot_be_read_say_why(tmp_path):
    with pytest.raises(RequestError, match="No such file"):
        read_results(tmp_path / "a.csv")
    place = tmp_path / "b.csv"
    place.write_bytes(b"id,score\n\xff,1\n")
    with pytest.raises(RequestError, match="is not UTF-8"):
        read_results(place)


# Names.


def test_a_name_stands_for_its_last_submission(tmp_path):
    names = Names(str(tmp_path / "h.ledger"))
    assert names.find("first") is None
    names.keep(Kept("first", 1, "d1", (1.0, 0.0), ("x", "y")))
    names.keep(Kept("first", 2, "d2"))
    assert names.find("first") == Kept("first", 2, "d2")
    names.keep(Kept("second", 3, "d3", (0.5,), None))
    assert names.find("second").values == (0.5,)


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "", "ü" * 500, "\ud800", "con\x00"])
def test_a_name_is_not_a_path(tmp_path, name):
    names = Names(str(tmp_path / "h.ledger"))
    names.keep(Kept(name, 1))
    assert [place.parent for place in tmp_path.rglob("*.json")] == [names.folder]
    assert names.find(name).entry == 1


def test_results_of_cases_are_their_owners_alone(tmp_path):
    names = Names(str(tmp_path / "h.ledger"))
    names.keep(Kept("a", 1, values=tuple(np.ones(3).tolist())))
    (place,) = names.folder.iterdir()
    assert stat.S_IMODE(names.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"name": "a", "entry": "x", "digest": "", "values": null, "outputs": null}']
)
def test_what_was_damaged_is_refused(tmp_path, text):
    names = Names(str(tmp_path / "h.ledger"))
    names.keep(Kept("a", 1))
    next(names.folder.iterdir()).write_text(text, encoding="utf-8")
    with pytest.raises(IntegrityError, match="cannot be read"):
        names.find("a")


def test_names_need_a_ledger_that_is_a_file():
    with pytest.raises(RefusedError, match="must be a file"):
        Names("postgresql://host/ledger")
