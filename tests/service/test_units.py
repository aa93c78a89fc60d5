"""Datasets of units over HTTP: registered with tables, asked, shown, found again after a restart."""

from contextlib import contextmanager

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdtrue.service import create
from service.conftest import closed, made

TERMS = {"queries": 50, "epsilon": 8.0, "delta": 1e-6, "iid": True, "path": "patients.parquet", "unit": "patient_id"}
TERMS |= {"tables": {"visits": "visits.parquet"}, "bounds": {"visits.cost": [0, 100]}}


def write_units(folder):
    """Write 1,000 patients, of whom number n has n % 3 visits."""
    people = np.arange(1000)
    rows = [(person, float(number)) for person in people for number in range(person % 3)]
    pq.write_table(pa.table({"patient_id": people, "age": people % 90}), folder / "patients.parquet")
    owners, cost = zip(*rows, strict=True)
    pq.write_table(pa.table({"patient_id": owners, "cost": cost, "urgent": [True] * len(rows)}), folder / "visits.parquet")


@contextmanager
def open_page(served):
    """Yield a client that is logged in as the analyst."""
    with httpx.Client(base_url=served.url) as client:
        client.post("/page/login", data={"key": served.keys["analyst"], "next": "/"}, headers={"Origin": served.url})
        yield client


def test_units_are_registered_asked_and_shown(served, owner, analyst):
    write_units(served.folder)
    body = TERMS | {"name": "persons"}
    assert owner.post("/v1/datasets", json=body).status_code == 201
    card = analyst.get("/v1/datasets/persons").json()["card"]
    assert (card["unit"], card["rows"], card["tables"][0]["name"]) == ("patient_id", 1000, "visits")
    assert "rows" not in card["tables"][0]
    named = {"Idempotency-Key": "units"}
    found = analyst.post("/v1/datasets/persons/ask", json={"query": "visits.COUNT(*) >= 1"}, headers=named)
    assert found.status_code == 200, found.text
    answer = found.json()
    assert answer["sample_interval"]["low"] <= 2 / 3 <= answer["sample_interval"]["high"]
    assert answer["certificate"]["unit"] == "patient_id"
    assert answer["certificate"]["population"] == "a random patient_id"
    shown = analyst.post("/v1/datasets/persons/preview", json={"query": "visits.ANY(urgent)"})
    assert shown.json()["population"] == "a random patient_id"
    with open_page(served) as client:
        page = client.get("/datasets/persons").text
    for words in (
        "1,000 units, one for each <code>patient_id</code>",
        "visits.ANY(urgent)",
        "visits.ANY(cost",
        "answers are about a random unit",
    ):
        assert words in page
    refused = owner.post(
        "/v1/datasets", json={key: body[key] for key in body if key != "tables"} | {"name": "patients-only"}
    )
    assert refused.status_code == 409, refused.text  # these rows have a budget


def test_a_ratio_has_a_form_where_rows_belong_to_units(served, owner):
    write_units(served.folder)
    assert owner.post("/v1/datasets", json=TERMS | {"name": "ratios", "second_budget": True}).status_code == 201
    curator = served.service.registry.open_dataset("ratios").curator
    form = {"numerator": "visits.COUNT(cost > 0)", "denominator": "visits.COUNT(*)", "cap": "2", "low": "", "high": ""}
    with open_page(served) as client:
        client.headers.update({"Origin": served.url, "HX-Request": "true"})
        assert 'id="kind-ratio"' not in client.get("/datasets/people").text
        page = client.get("/datasets/ratios").text
        assert "Counting at most, for each patient_id" in page
        assert 'placeholder="visits.COUNT(*)"' in page
        assert "2 questions" in client.post("/page/datasets/ratios/preview-ratio", data=form).text
        for other in ({"cap": "0"}, {"cap": ""}, {"cap": "1.5"}, {"numerator": "cost"}, {"low": "2"}):
            refused = client.post("/page/datasets/ratios/ratio", data=form | {"form": "no"} | other)
            assert "Cost 2 questions" not in refused.text
        assert not curator.history
        said = [client.post("/page/datasets/ratios/ratio", data=form | {"form": name}) for name in ("one", "one", "two")]
        assert [each.status_code for each in said] == [200] * 3
        assert "counting at most 2 for each patient_id" in said[0].text
        assert "Asked before: free." in said[2].text
    (line,) = curator.history
    assert line.verb == "ratio"
    assert 1 / 3 in curator.ratio("visits.COUNT(cost > 0)", "visits.COUNT(*)", cap=2).interval


@pytest.mark.parametrize("tables", [{"visits": "/etc/passwd"}, {"visits": "nothing.parquet"}, {"a b": "visits.parquet"}])
def test_tables_lie_in_the_data_folders_too(served, owner, tables):
    write_units(served.folder)
    refused = owner.post("/v1/datasets", json=TERMS | {"name": "bad", "tables": tables, "second_budget": True})
    assert refused.status_code in (400, 422), refused.text
    assert owner.get("/v1/datasets/bad").status_code == 404


def test_bad_units_are_refused_over_http_before_anything_is_charged(served, owner, analyst):
    write_units(served.folder)
    for name, keys in (("nobody", pa.nulls(5, pa.int64())), ("texts", pa.array(["1"] * 5))):
        pq.write_table(pa.table({"patient_id": keys, "cost": [1.0] * 5}), served.folder / f"{name}.parquet")
    free = {"second_budget": True, "name": "bad"}
    for other in (
        {"unit": "person"},
        {"tables": {"visits": "nobody.parquet"}},
        {"path": "nobody.parquet", "tables": None, "bounds": {}},
        {"tables": {"visits": "texts.parquet"}},
    ):
        refused = owner.post("/v1/datasets", json=TERMS | free | other)
        assert refused.status_code in (400, 409, 422), refused.text
        assert owner.get("/v1/datasets/bad").status_code == 404
    assert owner.post("/v1/datasets", json=TERMS | {"name": "capped", "second_budget": True}).status_code == 201
    ratio = {"numerator": "visits.COUNT(urgent)", "denominator": "visits.COUNT(*)", "cap": 0}
    for place, verb, body in (
        ("capped", "ask", {"query": "visits.COUNT(urgent) / 0"}),
        ("capped", "ask", {"query": "cost > 3"}),
        ("capped", "ratio", ratio),
        ("people", "ask", {"query": "ANY(age > 30)"}),
        ("people", "ratio", ratio | {"cap": 3}),
    ):
        before = len(served.service.registry.open_dataset(place).curator.history)
        refused = analyst.post(f"/v1/datasets/{place}/{verb}", json=body, headers={"Idempotency-Key": f"{verb} {body}"})
        assert refused.status_code in (400, 422), refused.text
        assert len(served.service.registry.open_dataset(place).curator.history) == before


def test_a_restart_opens_the_units_again(tmp_path):
    found = made(tmp_path)
    write_units(found.folder)
    first = found.service.registry.register("persons", TERMS).curator.ask("visits.ANY(cost > 0)")
    closed(found)
    registry = create(found.service.settings).state.service.registry
    curator = registry.open_dataset("persons").curator
    assert curator.ask("visits.COUNT(cost > 0) >= 1").value == first.value
    assert curator.card.unit == "patient_id"
    registry.close()


def test_a_table_without_a_registry_has_a_page_and_forms(served, owner, analyst):
    """There is no plain column: every form still opens, and a bare aggregate is previewed."""
    write_units(served.folder)
    body = TERMS | {
        "name": "rows",
        "path": "visits.parquet",
        "tables": None,
        "bounds": {"cost": [0, 100]},
        "second_budget": True,
    }
    assert owner.post("/v1/datasets", json=body).status_code == 201
    card = analyst.get("/v1/datasets/rows").json()["card"]
    assert (card["columns"], card["rows"], card["tables"][0]["name"]) == ([], 666, "")
    with open_page(served) as client:
        page = client.get("/datasets/rows").text
        assert "666 units, one for each <code>patient_id</code>" in page
        assert "ANY(urgent)" in page
        for query in ("COUNT(*)", "ANY(urgent)", "cost > 3"):
            shown = client.post("/page/datasets/rows/preview", data={"query": query}, headers={"Origin": served.url})
            assert shown.status_code == 200, (query, shown.text)
    asked = analyst.post(
        "/v1/datasets/rows/table", json={"columns": ["COUNT(*) > 1"]}, headers={"Idempotency-Key": "units-table"}
    )
    assert asked.status_code == 200, asked.text
    assert asked.json()["certificate"]["population"] == "a random patient_id with at least one row"
