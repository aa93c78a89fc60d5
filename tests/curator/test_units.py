"""A curator of units: persons with any number of rows, in one table or in several (U4)."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from msgspec import UNSET
from msgspec.structs import replace

import holdtrue as ht
from holdtrue.codec import decode, encode
from holdtrue.errors import (
    FingerprintMismatch,
    HoldtrueError,
    InsufficientSamples,
    InvalidParameter,
    RefusedError,
    UnknownColumn,
    UnsupportedQuery,
)
from holdtrue.records import Certificate

PERSONS = 400


@pytest.fixture
def visits():
    """Persons 0 to 399, of whom person n has n % 4 visits, every second urgent; two visits belong to nobody."""
    rows = [(person, number % 2 == 0, 10.0 * number) for person in range(PERSONS) for number in range(person % 4)]
    people, urgent, cost = (list(column) for column in zip(*rows, strict=True))
    return pd.DataFrame(
        {
            "patient_id": pd.array([*people, None, None], dtype="Int64"),
            "urgent": [*urgent, True, True],
            "cost": [*cost, 9e9, np.nan],
        }
    )


@pytest.fixture
def patients():
    return pd.DataFrame({"patient_id": np.arange(PERSONS), "age": np.arange(PERSONS) % 90})


OPEN = {"queries": 20, "epsilon": 8.0, "delta": 1e-6, "iid": True, "cap": "privacy"}
BOUNDS = {"visits.cost": (0, 100)}


def _close(answer, expected):
    return answer.sample_interval.low <= expected <= answer.sample_interval.high


def test_questions_about_members_of_a_registry(patients, visits):
    with ht.Curator(patients, unit="patient_id", tables={"visits": visits}, bounds=BOUNDS, **OPEN) as curator:
        assert curator.card.rows == curator.plan.rows == PERSONS
        assert _close(curator.ask("visits.COUNT(*) = 0"), 0.25)
        assert _close(curator.ask("visits.COUNT(urgent) >= 2"), 0.25)
        assert _close(
            curator.ask("visits.EVERY(urgent) AND age < 45"), np.mean((np.arange(400) % 4 < 2) & (np.arange(400) % 90 < 45))
        )
        assert _close(curator.ask("visits.SUM(cost) / 100"), 0.25 * (0.1 + 0.3))
        assert _close(curator.ask("age >= 45"), np.mean(np.arange(PERSONS) % 90 >= 45))
        assert "400 units (patient_id)" in repr(curator)


def test_questions_about_the_keys_of_one_table(visits):
    with ht.Curator(visits, unit="patient_id", bounds={"cost": (0, 100)}, **OPEN) as curator:
        assert curator.card.rows == 300
        assert _close(curator.ask("COUNT(*) >= 2"), 2 / 3)
        assert curator.ask("ANY(urgent)").certificate.entry
        with pytest.raises(UnknownColumn, match="put it in an aggregate"):
            curator.ask("cost > 3")


def test_the_unit_is_on_every_certificate_preview_and_card(patients, visits, tmp_path):
    members = ht.Curator(patients, unit="patient_id", tables={"visits": visits}, **OPEN)
    rows = ht.Curator(visits, unit="patient_id", **OPEN)
    for curator, query, words in (
        (members, "visits.ANY(urgent)", "a random patient_id"),
        (rows, "ANY(urgent)", "a random patient_id with at least one row"),
    ):
        with curator:
            assert words in str(curator.preview(query))
            answer = curator.ask(query)
            certificate = answer.certificate
            assert (certificate.unit, certificate.population) == ("patient_id", words)
            assert words in str(answer)
            assert words in answer._repr_html_()
            assert decode(encode(certificate), Certificate) == certificate
            (line,) = curator.history
            assert line.responses[0].certificate.unit == "patient_id"
            assert json.loads(curator.ledger.terms.card)["unit"] == "patient_id"
            curator.report(tmp_path / "report.html")
            assert words in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_ledger_of_rows_says_nothing_of_units(patients):
    with ht.Curator(patients, **OPEN) as curator:
        answer = curator.ask("age > 45")
        assert "unit" not in encode(answer)
        assert "population:" not in str(answer)
        with pytest.raises(UnsupportedQuery, match="open the data with unit="):
            curator.ask("ANY(age > 45)")
        assert len(curator.history) == 1


def test_a_ledger_is_reopened_with_its_own_unit_only(patients, visits, tmp_path):
    of_rows, of_units = tmp_path / "rows.ledger", tmp_path / "units.ledger"
    given = {"unit": "patient_id", "tables": {"visits": visits}}
    ht.Curator(patients, ledger=of_rows, **OPEN).close()
    with ht.Curator(patients, ledger=of_units, bounds=BOUNDS, **given, **OPEN) as curator:
        first = curator.ask("visits.SUM(cost) / 100")
    with pytest.raises(InvalidParameter, match="protects rows, which cannot be changed: leave out unit"):
        ht.Curator(patients, ledger=of_rows, **given)
    with pytest.raises(InvalidParameter, match=r"protects units, 'patient_id'.*open it with unit='patient_id', tables="):
        ht.Curator(patients, ledger=of_units)
    with pytest.raises(InvalidParameter, match="protects units"):
        ht.Curator(patients, ledger=of_units, unit="patient_id", tables={"labs": visits})
    with pytest.raises(FingerprintMismatch):
        ht.Curator(patients, ledger=of_units, unit="patient_id", tables={"visits": visits.iloc[1:]})
    with ht.Curator(patients.iloc[::-1], ledger=of_units, unit="patient_id", tables={"visits": visits.iloc[::-1]}) as again:
        assert again.ask("visits.SUM(cost) / 100").value == first.value
        assert len(again.history) == 1
    assert ht.verify(of_units)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"unit": "person"}, "must have a column 'person'"),
        ({"unit": ""}, "give unit, the column"),
        ({"unit": 3}, "give unit, the column"),
        ({"unit": np.array([1.5, 2.0])}, "give unit, the column"),
        ({"unit": "patient_id", "tables": np.zeros(3)}, "give tables by name"),
        ({"unit": "patient_id", "tables": {1: {}}}, "give tables by name"),
        ({"unit": "patient_id", "tables": {"visits": None}}, "not a table"),
        ({"unit": "patient_id", "tables": ["visits"]}, "give tables by name"),
        ({"unit": "patient_id", "tables": {"my visits": {}}}, "give tables by name"),
        ({"tables": {"visits": {"patient_id": [1]}}}, "give unit, the column"),
        ({"unit": "patient_id", "tables": {"visits": {"patient_id": ["1"]}}}, "whole number in one table and text"),
        ({"unit": "patient_id", "tables": {"visits": {"id": [1]}}}, "the table 'visits' must have a column"),
    ],
)
def test_units_that_cannot_be_are_refused_at_opening(patients, given, words):
    with pytest.raises(HoldtrueError, match=words):
        ht.Curator(patients, **given, **OPEN)


def test_keys_that_are_null_everywhere_make_no_units():
    with pytest.raises(InsufficientSamples, match="no units"):
        ht.Curator(pa.table({"id": pa.array([None, None], pa.int64())}), unit="id", **OPEN)


def test_files_with_a_budget_get_no_second_one_by_another_unit(patients, visits, tmp_path):
    for name, frame in (("patients", patients), ("visits", visits.dropna())):
        pa.csv.write_csv(pa.Table.from_pandas(frame, preserve_index=False), tmp_path / f"{name}.csv")
    people, rows = str(tmp_path / "patients.csv"), str(tmp_path / "visits.csv")
    with ht.Curator(people, ledger=tmp_path / "a.ledger", unit="patient_id", tables={"visits": rows}, **OPEN) as curator:
        assert _close(curator.ask("visits.ANY(urgent)"), 0.75)
    for data, given in ((rows, {}), (people, {}), (rows, {"unit": "patient_id"})):
        with pytest.raises(RefusedError, match="already have a budget"):
            ht.Curator(data, ledger=tmp_path / "b.ledger", **given, **OPEN)
    (tmp_path / "a.ledger").unlink()
    ht.Curator(rows, ledger=tmp_path / "c.ledger", **OPEN).close()
    with pytest.raises(RefusedError, match="already have a budget"):
        ht.Curator(people, ledger=tmp_path / "d.ledger", unit="patient_id", tables={"visits": rows}, **OPEN)


def test_own_numbers_are_one_for_each_unit(patients, visits):
    with ht.Curator(patients, unit="patient_id", tables={"visits": visits}, **OPEN) as curator:
        assert _close(curator.ask(values=np.arange(PERSONS) % 2), 0.5)
        with pytest.raises(InvalidParameter, match="expected 400 numbers"):
            curator.ask(values=np.ones(len(visits)))


def test_tables_means_quantiles_and_selections_are_about_units(patients, visits):
    """Cells by columns of the registry, by FIRST and by any other aggregate; a unit is in one cell at most."""
    visits = visits.assign(ward=np.where(visits["urgent"], "N", "S"))
    terms = OPEN | {"queries": 400, "iid": False, "reserve": 0.5, "bounds": BOUNDS, "labels": {"visits.ward": ["N", "S"]}}
    with ht.Curator(patients, unit="patient_id", tables={"visits": visits}, **terms) as curator:
        table = curator.table("visits.FIRST(ward BY cost)", keys=["N", "S"])
        for cell, share in zip(table, (0.75, 0.0, 0.25), strict=True):
            assert _close(cell, share)
        assert table.columns == ("visits.FIRST(ward BY cost)",)
        crossed = curator.table("visits.ANY(urgent)", ht.cut("age", [45]), where="visits.COUNT(*) < 3")
        assert len(crossed) == 5
        assert _close(curator.table(ht.cut("visits.COUNT(*)", [1, 2])).cell("1 to 2"), 0.25)
        mean = curator.mean("visits.SUM(cost)", low=0, high=100, by="visits.ANY(urgent)")
        assert mean.cell(True).sample_interval.low <= (0 + 10 + 30) / 3 <= mean.cell(True).sample_interval.high
        median = curator.median("visits.COUNT(*)", low=0, high=10)
        assert median.sample_interval.low <= 1 <= median.sample_interval.high
        assert curator.ask("visits.ANY(urgent)", by=ht.cut("age", [45])).certificate.unit == "patient_id"
        choice = curator.select({"none": "visits.COUNT(*) = 0", "some": "visits.COUNT(*) > 0"}, epsilon=1)
        assert choice.name == "some"
        with pytest.raises(HoldtrueError, match="text"):
            curator.mean("visits.FIRST(ward BY cost)", low=0, high=1)
        with pytest.raises(HoldtrueError, match="no column"):
            curator.table("wards", keys=["N"])
        with pytest.raises(HoldtrueError, match="not public"):
            curator.table("visits.FIRST(ward BY cost)")


def test_learning_and_predicting_read_units(patients, visits):
    """One vote and one example for each person, however many visits; parts are cut by person."""
    from sklearn.linear_model import LogisticRegression

    terms = OPEN | {"epsilon": 40.0, "iid": False, "reserve": 0.9, "bounds": BOUNDS}
    with ht.Curator(patients, unit="patient_id", tables={"visits": visits}, **terms) as curator:
        found = curator.learn(
            ht.Conjunctions(["visits.ANY(urgent)", "visits.COUNT(*) >= 2"], width=1),
            target="visits.COUNT(*) >= 2",
            epsilon=8,
        )
        assert found.certificate.unit == "patient_id"
        assert "COUNT" in found.text
        curator.train(
            "often",
            LogisticRegression(),
            target="visits.COUNT(*) >= 2",
            features=["age", "visits.ANY(urgent)"],
            parts=20,
            key="patient_id",
        )
        said = curator.predict("often", {"age": 30, "visits.ANY(urgent)": True}, epsilon=2)
        assert said.certificate.unit == "patient_id"


def test_a_ledger_of_units_is_audited_by_recomputation(patients, visits, tmp_path):
    """Every answer, price and certificate; and whether the data are those that the ledger was created with."""
    place, given = tmp_path / "units.ledger", {"unit": "patient_id", "tables": {"visits": visits}}
    with ht.Curator(patients, ledger=place, bounds=BOUNDS, **given, **OPEN | {"queries": 60, "iid": False}) as curator:
        curator.ask(["visits.ANY(urgent)", "visits.AVG(cost) / 100", "age > 30"])
        curator.table("visits.ANY(urgent)", ht.cut("visits.COUNT(*)", [1, 2]))
        curator.mean("visits.SUM(cost)", low=0, high=100, by="visits.ANY(urgent)")
        curator.median("visits.SUM(cost)", low=0, high=100, step=10)
    assert not ht.audit_ledger(place, data=(patients, {"visits": visits})).violated
    assert ht.audit_ledger(place, data=(patients, {"visits": visits.iloc[1:]})).violated
    assert ht.audit_ledger(place, data=patients).violated


def test_a_certificate_of_another_unit_is_found(patients, visits, tmp_path, monkeypatch):
    """A release that says it protects rows, in a ledger of units, is a breach."""
    place = tmp_path / "units.ledger"
    with ht.Curator(patients, ledger=place, unit="patient_id", tables={"visits": visits}, **OPEN) as curator:
        right = curator.pipeline._make_certificate
        monkeypatch.setattr(curator.pipeline, "_make_certificate", lambda *asked: replace(right(*asked), unit=UNSET))
        curator.ask("visits.ANY(urgent)")
    found = ht.audit_ledger(place)
    assert found.violated
    assert "another unit" in str(found)


def test_units_are_not_grouped_again():
    rows = {"person": [1, 1, 2], "visits": [1, 2, 3]}
    with pytest.raises(ht.InvalidParameter, match="leave out group: unit protects everything"):
        ht.Curator(rows, unit="person", group=2, queries=5, epsilon=1.0, delta=1e-6)
