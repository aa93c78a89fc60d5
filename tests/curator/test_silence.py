"""P8: no row in any answer, error, repr, report, log or file that leaves; a canary value in the data appears nowhere."""

import logging
import traceback

import numpy as np
import pandas as pd
import pytest

import holdtrue as ht
from holdtrue.curator.pipeline import Pipeline

TEXT, NUMBER = "canary-8f3a", 424_242_424_243


@pytest.fixture
def table(tmp_path):
    random = np.random.default_rng(3)
    rows = 5_000
    frame = pd.DataFrame(
        {"name": ["somebody"] * rows, "income": random.integers(0, 10**6, rows), "score": random.random(rows)}
    )
    frame.loc[77, ["name", "income"]] = [TEXT, NUMBER]
    frame.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path


def everything(folder, caplog, capsys):
    """Use a curator as an analyst would, wrongly too, and return every text that could be seen."""
    seen = []

    def note(thing):
        seen.extend([repr(thing), str(thing), getattr(thing, "_repr_html_", str)()])

    with ht.Curator(folder / "rows.csv", queries=40, epsilon=1.0, delta=1e-6, iid=True, ledger=folder / "l") as curator:
        note(curator)
        note(curator.card)
        for question in (
            "income > 500000",
            "name LIKE 's%'",
            "score",
            "1 / (income - 424242424242)",
            "CAST(income AS DOUBLE)",
        ):
            note(curator.ask(question))
        note(curator.mean("income", low=0, high=1000, by=ht.cut("score", [0.5])))
        note(curator.sum("income", low=0, high=1000))
        note(curator.variance("income", low=0, high=1000))
        note(curator.gini("income", low=0, high=1000))
        note(curator.ratio("score", "income", cap=1000))
        note(curator.auc("score", "income > 500"))
        note(curator.pairs("a.name = b.name"))
        for wrong in ("a.nam = b.name", "a.income", "income", "a.income // b.income", "a.name > b.income"):
            with pytest.raises(ht.RequestError) as caught:
                curator.pairs(wrong)
            seen.append("".join(traceback.format_exception(caught.value)))
        note(curator.covariance("income", "score", bounds={"income": (0, 1000), "score": (0, 1)}))
        note(curator.ask("income > 500000", by=ht.cut("score", [0.5])))
        note(curator.select({"rich": "income > 900000", "poor": "income < 100"}))
        note(curator.median("income", low=0, high=3 * 10**5, step=10**5))
        for given in ({"column": "name"}, {"column": "income", "low": 5, "high": 3}, {"column": "income", "step": 7}):
            with pytest.raises(ht.RequestError) as caught:
                curator.median(**({"low": 0, "high": 10} | given))
            seen.append("".join(traceback.format_exception(caught.value)))
        for wrong in ("incom > 5", "name > 5", "income // 2", "SUM(income)", "(((", "income > 'x'"):
            with pytest.raises(ht.RequestError) as caught:
                curator.ask(wrong)
            seen.append("".join(traceback.format_exception(caught.value)))
        for wrong in ({"low": 5, "high": 5}, {"low": 0, "high": 1, "by": "name"}, {"low": 0, "high": 1, "where": "nam = 1"}):
            with pytest.raises(ht.RequestError) as caught:
                curator.mean("income", **wrong)
            seen.append("".join(traceback.format_exception(caught.value)))
        (folder / "rows.csv").unlink()
        try:
            note(curator.ask("score > 0.123"))
        except ht.HoldtrueError as error:
            seen.append("".join(traceback.format_exception(error)))
        note(curator.budget)
        for line in curator.history:
            note(line)
        curator.report(folder / "report.html")
    seen.append((folder / "report.html").read_text())
    seen.append((folder / "l").read_bytes().decode("latin-1"))
    note(ht.verify(folder / "l"))
    printed = capsys.readouterr()
    return "\n".join([*seen, caplog.text, printed.out, printed.err])


def test_a_canary_in_the_data_appears_nowhere(table, caplog, capsys):
    caplog.set_level(logging.DEBUG)
    text = everything(table, caplog, capsys)
    assert len(text) > 10_000
    assert TEXT not in text
    assert str(NUMBER) not in text


def test_an_engine_error_that_is_let_through_is_found(table, monkeypatch):
    """The control: with the step that silences engines taken out, what an engine says about a row is seen."""

    def telling(queries, *, bits, progress=None):
        del queries, bits, progress
        message = f"Conversion Error: Could not convert string '{TEXT}' to INT64"
        raise ValueError(message)

    def seen():
        with ht.Curator(table / "rows.csv", queries=20, epsilon=1.0, delta=1e-6, iid=True) as curator:
            monkeypatch.setattr(curator.pipeline.engine, "sums", telling)
            with pytest.raises((ValueError, ht.ReleaseError)) as caught:
                curator.ask("score")
            return "".join(traceback.format_exception(caught.value))

    assert TEXT not in seen()

    monkeypatch.setattr(Pipeline, "_draw_and_respond", lambda _, __, measure: measure())
    assert TEXT in seen()


def test_a_canary_in_the_rows_of_a_person_appears_nowhere(tmp_path, caplog):
    """Keys and rows of units, in answers, errors of opening and of reading, reports and the ledger's bytes."""
    caplog.set_level(logging.DEBUG)
    people = pd.DataFrame({"id": [f"p{number}" for number in range(2_000)] + [TEXT]})
    visits = pd.DataFrame({"id": [*people["id"], TEXT, "nobody"], "cost": [1] * 2_001 + [NUMBER, NUMBER], "ward": TEXT})
    visits.to_parquet(tmp_path / "visits.parquet")
    given = {"unit": "id", "tables": {"visits": tmp_path / "visits.parquet"}, "bounds": {"visits.cost": (0, 10)}}
    given |= {"queries": 20, "epsilon": 1.0, "delta": 1e-6, "iid": True}
    seen = []
    for wrong in (pd.concat([people, people.tail(1)]), pd.concat([people, pd.DataFrame({"id": [None]})])):
        with pytest.raises(ht.RequestError) as caught:
            ht.Curator(wrong, **given)
        seen.append("".join(traceback.format_exception(caught.value)))
    with ht.Curator(people, ledger=tmp_path / "l", **given) as curator:
        for question in ("visits.SUM(cost) / 10", "visits.FIRST(ward BY cost) LIKE 'c%'", "visits.MAX(cost) > 5"):
            answer = curator.ask(question)
            seen += [str(answer), repr(answer), answer._repr_html_()]
        for wrong in ("visits.cost > 3", "visits.ANY(ward)", "ANY(ward > 3)"):
            with pytest.raises(ht.RequestError) as caught:
                curator.ask(wrong)
            seen.append("".join(traceback.format_exception(caught.value)))
        (tmp_path / "visits.parquet").unlink()
        with pytest.raises(ht.ReleaseError) as caught:
            curator.ask("visits.ANY(cost > 7)")
        seen += ["".join(traceback.format_exception(caught.value)), repr(curator), repr(curator.card)]
        curator.report(tmp_path / "report.html")
    seen += [(tmp_path / "report.html").read_text(), (tmp_path / "l").read_bytes().decode("latin-1"), caplog.text]
    assert TEXT not in "\n".join(seen)
    assert str(NUMBER) not in "\n".join(seen)
