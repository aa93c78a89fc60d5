"""Datasets of units over HTTP: registered with tables, asked, shown, found again after a restart."""

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
    refused = owner.post(
        "/v1/datasets", json={key: body[key] for key in body if key != "tables"} | {"name": "patients-only"}
    )
    assert refused.status_code == 409, refused.text  # these rows have a budget


@pytest.mark.parametrize("tables", [{"visits": "/etc/passwd"}, {"visits": "nothing.parquet"}, {"a b": "visits.parquet"}])
def test_tables_lie_in_the_data_folders_too(served, owner, tables):
    write_units(served.folder)
    refused = owner.post("/v1/datasets", json=TERMS | {"name": "bad", "tables": tables, "second_budget": True})
    assert refused.status_code in (400, 422), refused.text
    assert owner.get("/v1/datasets/bad").status_code == 404


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
