"""Holdouts on the page: registered from a file, asked with a file, once for each form; files that nobody can read."""

import json
import re
from types import SimpleNamespace

import httpx
import pytest

from holdtrue.demo.attack import climb, make_exam
from holdtrue.service.page.holdout_views import list_looks
from holdtrue.service.page.holdouts import _read_comparison
from holdtrue.service.page.uploads import Upload, UploadedForm, read_choice, read_result_file, read_values
from holdtrue.testing import SeededBits

IDS = [f"case {number}" for number in range(1, 241)]
RESULTS = "id,passed\n" + "".join(f"{name},{place % 2}\n" for place, name in enumerate(IDS))
BETTER = "id,passed\n" + "".join(f"{name},1\n" for name in reversed(IDS))
LABELS = json.dumps({name: place % 2 for place, name in enumerate(IDS)})


@pytest.fixture(scope="module")
def visit(served):
    """Return a function that signs somebody in."""
    opened = []

    def signed_in(role):
        client = httpx.Client(base_url=served.url, headers={"Origin": served.url}, timeout=60)
        client.post("/page/login", data={"key": served.keys[role]})
        opened.append(client)
        return client

    yield signed_in
    for client in opened:
        client.close()


def send(client, place, text, *, htmx=True, **fields):
    content = text if isinstance(text, bytes) else text.encode()
    headers = {"HX-Request": "true"} if htmx else {}
    return client.post(place, data=fields, files={"file": ("some.csv", content)}, headers=headers)


def register(client, name, text=RESULTS, **fields):
    return send(client, "/page/holdouts", text, name=name, looks="20", **({"yes": "2"} | fields))


def left(served, name):
    return served.service.registry.holdouts.find(name).ledger.newest()


def test_a_gate_is_registered_from_a_result_file_and_asked_once_for_each_form(served, visit):
    owner, analyst = visit("owner"), visit("analyst")
    planned = send(owner, "/page/holdouts/width", RESULTS, name="gate", looks="20", yes="2")
    assert re.search(r"240 cases, 20 looks:\s+a yes is proved from a lead of about", planned.text)
    made = register(owner, "gate", hits="yes", unseen="yes", description="<b>bold</b>")
    assert (made.status_code, made.headers["hx-redirect"]) == (200, "/holdouts/gate")
    page = analyst.get("/holdouts/gate").text
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert "You have not looked yet" in page
    checked = send(analyst, "/page/holdouts/gate/check", BETTER)
    assert re.search(r"240 cases, by their ids. Costs\s+<strong>one look</strong>; 20 of 20 are left", checked.text)
    before = left(served, "gate")
    told = [send(analyst, "/page/holdouts/gate/gate", BETTER, form="one", name="better").text for _ in range(2)]
    assert all("<output>Yes</output>" in text and "It is the incumbent now" in text for text in told)
    paid = left(served, "gate")
    assert paid == before + 2  # a charge and its response
    no = send(analyst, "/page/holdouts/gate/gate", RESULTS, htmx=False, form="two", name="worse")
    assert "<output>No</output>" in no.text
    assert 'aria-label="2 looks: 1 yes (look 1), 1 no"' in no.text
    assert "Nobody has looked yet" not in visit("auditor").get("/holdouts/gate").text
    near = send(analyst, "/page/holdouts/gate/gate", BETTER, form="near", name="near", margin="-0.5").text
    assert "not worse than the incumbent by 0.5 or more" in near
    certified = owner.post("/page/holdouts/gate/certify", data={"form": "three"}, headers={"HX-Request": "true"})
    assert "<output>1.000</output>" in certified.text
    assert "his gate was closed" in send(analyst, "/page/holdouts/gate/gate", RESULTS, form="four", name="late").text


def test_a_gate_of_the_page_tells_bounds_and_plans_its_bets(served, visit):
    owner, analyst = visit("owner"), visit("analyst")
    fields = {"tells": "bounds at the end", "gain": "0.2", "discordant": "0.5"}
    assert register(owner, "bounds", RESULTS.replace("case", "bound"), **fields).status_code == 200
    facts = served.service.registry.holdouts.find("bounds")._kept.facts
    assert (facts.tells, facts.bet) == ("bounds at the end", 0.4)
    send(analyst, "/page/holdouts/bounds/gate", BETTER.replace("case", "bound"), form="one", name="better")
    assert "lower bound of the incumbent" in owner.get("/holdouts/bounds").text
    told = owner.post("/page/holdouts/bounds/certify", data={"form": "two", "what": "bound"}, headers={"HX-Request": "true"})
    assert re.search(r"<output>0\.\d{3}</output>", told.text)
    assert register(owner, "odd", RESULTS, **(fields | {"discordant": ""})).status_code == 422


def test_scores_and_leaderboards_are_registered_from_labels(visit):
    owner, analyst = visit("owner"), visit("analyst")
    assert register(owner, "scores", LABELS, kind="scores", holds="labels").status_code == 200
    assert register(owner, "board", LABELS, kind="leaderboard", holds="labels").status_code == 200
    seen = send(analyst, "/page/holdouts/scores/score", RESULTS, form="one", holds="predictions", column="passed")
    assert re.search(r"<output>\d\.\d{3}</output>", seen.text)
    assert "for all looks at once" in seen.text
    placed = send(analyst, "/page/holdouts/board/submit", RESULTS, form="one", column="passed", name="blue")
    assert "the analyst/blue" in placed.text
    assert "the analyst/blue" in analyst.get("/holdouts").text
    wrong = send(analyst, "/page/holdouts/board/gate", RESULTS, form="two")
    assert (wrong.status_code, "takes submit, not gate" in wrong.text) == (409, True)


def test_only_the_owner_registers_and_an_auditor_does_not_look(visit):
    assert register(visit("analyst"), "mine").status_code == 403
    assert register(visit("owner"), "open").status_code == 200
    auditor = visit("auditor")
    assert send(auditor, "/page/holdouts/open/gate", BETTER, form="one").status_code == 403
    assert 'id="look"' not in auditor.get("/holdouts/open").text
    assert register(visit("owner"), "open").status_code == 409


@pytest.mark.parametrize(
    ("text", "fields", "told", "field"),
    [
        ("", {}, "Choose a file that is not empty", "file"),
        ("id,score\na,7\n", {}, "scale LOW,HIGH maps another range", "file"),
        ("id,score\na,nan\n", {}, "NaN is none", "file"),
        ("id,passed\na,1\na,0\n", {}, "has the same id twice", "file"),
        (b"PK\x03\x04 cut", {}, "damaged or was cut short", "file"),
        (RESULTS, {"where": "filter"}, "write where as a name", "where"),
        (RESULTS, {"scale": "0 to 100"}, "write scale as two numbers", "scale"),
        (RESULTS, {"name": "No Capitals"}, "name must be", "name"),
        (RESULTS, {"looks": "-3"}, "looks must be a number from 1", "looks"),
        (RESULTS, {"beta": "2"}, "beta must be", "beta"),
        (RESULTS, {"kind": "castle"}, "kind is one of", "kind"),
        ("a,b\n1\n", {"holds": "labels"}, "one line per case", "file"),
        ("a,b,c\n1,2,3\n1,2,3\n", {"holds": "labels"}, "which column of the file", "column"),
    ],
)
def test_what_cannot_be_registered_says_why_beside_its_field(visit, text, fields, told, field):
    reply = send(visit("owner"), "/page/holdouts", text, **({"name": "never", "looks": "20", "yes": "2"} | fields))
    assert (reply.status_code // 100, f'data-field="{field}"' in reply.text) == (4, True), reply.text
    assert told.lower() in reply.text.lower()
    assert "Nothing was spent" in reply.text
    assert "holdtrue-upload" not in reply.text


def test_a_file_with_other_cases_costs_nothing(served, visit):
    owner = visit("owner")
    register(owner, "other", RESULTS.replace("case", "item"))
    before = left(served, "other")
    few = "id,passed\n" + "".join(f"{name},1\n" for name in IDS[1:]).replace("case", "item")
    renamed = BETTER.replace("case", "item").replace("item 7,", "item x,")
    checked = send(owner, "/page/holdouts/other/check", few)
    assert "these are 239 cases; the holdout has 240" in checked.text.lower()
    for text in (few, renamed):
        reply = send(owner, "/page/holdouts/other/gate", text, form="one")
        assert (reply.status_code // 100, "Nothing was spent" in reply.text) == (4, True)
    assert left(served, "other") == before


@pytest.mark.parametrize(
    "body",
    [b"", b"--x\r\n\r\n", b"--x\r\nContent-Disposition: form-data\r\n\r\nno name\r\n--x--\r\n", b"--x--\r\n--x\r\n"],
)
def test_broken_forms_are_refused(visit, body):
    media = {"Content-Type": "multipart/form-data; boundary=x"}
    assert visit("owner").post("/page/holdouts", content=body, headers=media).status_code in (400, 422)
    assert visit("owner").post("/page/holdouts", data={"name": "plain"}).status_code == 415


def test_values_and_ids_are_read_from_tables_and_json():
    assert read_values(Upload("a", b"id,label\nx,1\ny,2\n")) == ([1, 2], ["x", "y"])
    assert read_values(Upload("a", b"\xef\xbb\xbfprediction\nyes\nno\n")) == (["yes", "no"], None)
    assert read_values(Upload("a", b"[0.5, 1]")) == ([0.5, 1], None)
    assert read_values(Upload("a", b"a,b\n1.5,2\n"), column="a") == ([1.5], None)
    found = read_result_file(Upload("a", RESULTS.encode()), read_choice({"scale": "0, 2"}))
    assert (found.number, max(found.values)) == (240, 0.5)
    assert UploadedForm({}, {"file": Upload("a", b"x")}).find_file("file").name == "a"


def test_an_agent_climbs_on_a_plain_holdout_and_not_through_the_gate():
    steps = list(climb(looks=100, bits=SeededBits("climb")))
    assert steps[-1].naive > steps[0].naive > 0.4
    assert steps[-1].naive > 0.56
    assert {step.truth for step in steps} == {0.5}
    assert (steps[-1].said, steps[-1].refused) == (0, 100)


def test_the_exam_has_a_model_that_is_better_and_one_that_is_not():
    exam = make_exam(bits=SeededBits("exam"))
    passed = {name: text.count(",1\n") for name, text in exam.files.items()}
    assert passed["better.csv"] > sum(exam.document["incumbent"]) + 40
    assert abs(passed["rephrased.csv"] - sum(exam.document["incumbent"])) < 40
    assert list_looks([]) == []


def compare(client, name, first, second, **fields):
    files = {"file": ("first.csv", first.encode()), "second": ("second.csv", second.encode())}
    return client.post(f"/page/holdouts/{name}/compare", data=fields, files=files, headers={"HX-Request": "true"})


def test_two_files_are_compared_by_one_look_whatever_their_order(served, visit):
    owner, analyst = visit("owner"), visit("analyst")
    assert register(owner, "pair", LABELS, kind="scores", holds="labels").status_code == 200
    right = "id,prediction\n" + "".join(f"{name},{place % 2}\n" for place, name in enumerate(IDS))
    wrong = "id,prediction\n" + "".join(f"{IDS[place]},{1 - place % 2}\n" for place in reversed(range(len(IDS))))
    told = compare(analyst, "pair", right, wrong, holds="predictions", form="a" * 32)
    assert told.status_code == 200
    assert re.search(r"a difference of [+-]\d", told.text)
    files = {"file": Upload("first.csv", right.encode()), "second": Upload("second.csv", wrong.encode())}
    read, _ = _read_comparison(
        SimpleNamespace(takes_results=False, verb="score"), UploadedForm({"holds": "predictions"}, files)
    )
    assert [1 - float(value) for value in read.first] == [float(value) for value in read.second]  # in the order of the first
    before = left(served, "pair")
    again = compare(analyst, "pair", right, wrong, holds="predictions", form="a" * 32)
    assert again.status_code == 200
    assert left(served, "pair") == before  # the same form is charged once
    others = wrong.replace("case 7,", "case 700,")
    refused = compare(analyst, "pair", right, others, holds="predictions", form="b" * 32)
    assert refused.status_code == 422
    assert "The two files have different cases" in refused.text
    assert register(owner, "no-pair", RESULTS.replace("case", "pair")).status_code == 200
    assert compare(analyst, "no-pair", RESULTS, BETTER, form="c" * 32).status_code == 409  # a gate has its incumbent
    assert left(served, "pair") == before
