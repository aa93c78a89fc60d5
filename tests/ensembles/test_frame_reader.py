"""Text columns and pipelines over data frames: what members read of them, and that one row moves no more votes."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import holdtrue as ht
from holdtrue.ensembles.own_estimators import FrameReader, reads_frames

ROWS, JOBS = 4_000, ["nurse", "doctor", "clerk's aide"]
OPEN = {"queries": 30, "epsilon": 8, "delta": 1e-6, "reserve": 0.9, "cap": "privacy", "iid": True}
LABELS = {"job": JOBS, "kind": ["no", "yes"]}
POINTS = {"age": [30, 40, 50, 60], "job": ["nurse", "doctor", None, "unknown"]}


def people():
    random = np.random.default_rng(7)
    jobs = random.choice([*JOBS, "other"], ROWS, p=[0.4, 0.3, 0.2, 0.1])
    kinds = np.where(jobs == "nurse", "yes", "no")
    return pd.DataFrame({"age": random.integers(18, 90, ROWS), "job": jobs, "kind": kinds, "id": range(ROWS), "note": jobs})


def make_pipe():
    columns = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["job"]), (StandardScaler(), ["age"]))
    return make_pipeline(columns, LogisticRegression())


@pytest.mark.parametrize("estimator", [LogisticRegression(), RandomForestClassifier(5), make_pipe()])
def test_text_columns_with_public_labels_are_learned_and_predicted(estimator):
    with ht.Curator(people(), labels=LABELS, **OPEN) as curator:
        model = curator.train("kind", estimator, target="kind", features=["age", "job"], parts=20)
        assert list(model.reads) == ["age", "job"]
        votes = model.measure(model.read(model.read_points(POINTS)))
        assert votes[0, 1] == 20  # every member says yes of a nurse
        assert votes[1:, 0].min() >= 18
        assert {each.label for each in curator.predict("kind", POINTS, epsilon=0.5)} <= {"yes", "no"}
        with pytest.raises(ht.InvalidParameter, match="are not public"):
            curator.train("bad", LogisticRegression(), target="kind", features=["age", "note"])
        assert curator.history[-1].verb == "predict"


def test_a_pipeline_is_given_names_and_labels_and_none_for_what_is_neither():
    reader = FrameReader(make_pipe(), ("age", "job"), {"job": JOBS})
    frame = reader._make_frame(np.array([[30.0, 0.0], [40.0, 2.0], [50.0, -1.0]]))
    assert list(frame.columns) == ["age", "job"]
    assert frame["job"].tolist() == ["nurse", "clerk's aide", None]
    assert reads_frames(make_pipe(), ["age", "job"])
    assert not reads_frames(make_pipeline(StandardScaler(), LogisticRegression()), ["age", "job"])
    assert not reads_frames(LogisticRegression(), ["age"])


def test_one_row_moves_one_vote_of_a_pipeline_over_frames():
    rows = people()
    other = rows.copy()
    other.loc[17, ["age", "job", "kind"]] = [89, "nurse", "no"]
    points = {"age": list(range(18, 90, 6)) * 3, "job": [job for job in JOBS for _ in range(12)]}
    votes = []
    for held in (rows, other):
        with ht.Curator(held, labels=LABELS, **OPEN) as curator:
            facts = {"target": "kind", "features": ["age", "job"], "parts": 40, "key": "id"}
            model = curator.train("kind", make_pipe(), **facts)
            votes.append(model.measure(model.read(model.read_points(points))))
    moved = np.abs(votes[0] - votes[1]).sum(axis=1)
    assert moved.max() <= 2  # one vote from one label to another
    planted = np.abs(votes[0] - votes[1][:, ::-1]).sum(axis=1)
    assert planted.max() > 2  # control: labels read in another order would be noticed


def test_a_pipeline_over_frames_without_pandas_is_a_missing_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ht.MissingExtra, match="frames"):
        FrameReader(make_pipe(), ("age", "job"), {"job": JOBS})
