"""P8 for estimators, train and learn: no error, warning, log or print of any of them has a cell in it."""

import logging
import traceback
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import holdtrue as ht
from holdtrue.ensembles import losses
from holdtrue.estimators import (
    Handle,
    PrivateLearner,
    SoftMajorityClassifier,
    StableClassifier,
    StableRegressor,
    ThresholdClassifier,
    releasing,
)

TEXT, NUMBER = "canary-8f3a", 424_242.125
ROWS = 60


class Canary:
    """A cell that shows itself, whatever is asked of it."""

    def __repr__(self):
        return TEXT

    __str__ = __repr__

    def __float__(self):
        message = f"I am {TEXT}"
        raise ValueError(message)

    def __lt__(self, _other):
        raise TypeError(TEXT)


class Cell(Exception):
    """An error that is a cell."""

    def __str__(self):
        return TEXT


class Telling(ClassifierMixin, BaseEstimator):
    """An estimator that tells what it is given, in every way an exception or a warning can."""

    def __init__(self, kind="raise"):
        self.kind = kind

    def fit(self, rows, labels):
        self.classes_ = np.unique(labels)
        warnings.warn(f"{TEXT} {rows.max()}", stacklevel=1)
        if self.kind == "raise":
            raise Cell(TEXT, rows.max())
        if self.kind == "tree":
            raise ht.InvalidParameter("X", TEXT, "something else")
        return self

    def predict(self, rows):
        warnings.warn(f"{TEXT} {rows.max()}", stacklevel=1)
        raise Cell(TEXT, rows.max())


def estimators():
    stumps = ht.Stumps(bounds=(-10, 10), steps=20)
    return [
        PrivateLearner(stumps),
        SoftMajorityClassifier(parts=5),
        SoftMajorityClassifier(make_pipeline(StandardScaler(), LogisticRegression()), parts=5),
        ThresholdClassifier(),
        ThresholdClassifier(stumps),
        StableClassifier(),
        StableClassifier(release="each"),
        StableRegressor(),
        StableRegressor(release="each"),
    ]


def clean(rows=ROWS):
    points = np.random.default_rng(5).normal(size=(rows, 2))
    return points, (points[:, 0] > 0).astype(int)


def spoiled():
    """Return rows and labels that scikit-learn has something to say about, by what is wrong with them."""
    points, labels = clean()
    frame = pd.DataFrame(points, columns=["a", "b"])
    texts, objects = frame.astype(object), points.astype(object)
    texts.iloc[7, 1], objects[7, 1] = TEXT, Canary()
    named = labels.astype(object)
    named[7] = Canary()
    mixed = labels.astype(object)
    mixed[7] = TEXT
    special = {name: points.copy() for name in ("nan", "inf", "huge")}
    for name, value in (("nan", np.nan), ("inf", np.inf), ("huge", 1.7e308)):
        special[name][7, 1] = value
        special[name][8, 1] = NUMBER
    line = points[:, 0].copy()
    line[0] = NUMBER
    complexes = points.astype(complex)
    complexes[0, 0] = NUMBER
    numbers = labels.astype(float)
    numbers[7] = NUMBER
    return {
        "text in a frame": (texts, labels),
        "text in an array": (texts.to_numpy().astype(str), labels),
        "an object": (objects, labels),
        "an object for a label": (points, named),
        "a text among numbers for a label": (points, mixed),
        "numbers for labels": (points, numbers),
        "one line": (line, labels),
        "complex": (complexes, labels),
        "ragged": ([[1.0, TEXT], [NUMBER]], [0, 1]),
        "lengths": (points, labels[:-1]),
        "nothing": (TEXT, TEXT),
    } | {name: (table, labels) for name, table in special.items()}


def words_of(error):
    """Return everything that can be read off an error: its text, its arguments, its causes and what it came with."""
    seen, found = [], error
    while found is not None:
        seen += [str(found), repr(found), repr(found.args), repr(vars(found))]
        found = found.__cause__ or found.__context__
    return "".join(seen) + "".join(traceback.format_exception(error))


def everything(caplog, capsys):
    """Fit, predict and score with all that is spoiled; return every text that was seen, and every error."""
    texts, errors = [], []
    caplog.set_level(logging.DEBUG)

    def attempt(action):
        try:
            action()
        except Exception as error:  # noqa: BLE001 - whatever it is
            errors.append(error)
            texts.append(words_of(error))

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for estimator in estimators():
            good = estimator.fit(*clean())
            for table, labels in spoiled().values():
                attempt(partial(clone(estimator).fit, table, labels))
                attempt(partial(good.predict, table))
                attempt(partial(good.score, table, labels))
    said = capsys.readouterr()
    texts += [str(warning.message) for warning in heard] + [said.out, said.err, caplog.text]
    return "".join(texts), errors


def leaked(text):
    return [word for word in (TEXT, "424242", "4.24242") if word in text]


def test_no_estimator_quotes_a_cell(caplog, capsys):
    text, errors = everything(caplog, capsys)
    assert leaked(text) == []
    assert len(errors) > 100
    assert {type(error) for error in errors if not isinstance(error, ht.HoldtrueError)} == set()
    assert all(error.__cause__ is error.__context__ is None for error in errors)


def test_passing_errors_on_is_found(caplog, capsys, monkeypatch):
    """The control: scikit-learn's own words have cells in them."""
    monkeypatch.setattr(releasing, "run_masked", lambda action, **_: action())
    text, _ = everything(caplog, capsys)
    assert set(leaked(text)) >= {TEXT, "4.24242"}


def test_a_masked_error_carries_nothing():
    """Neither in its words nor in what it was raised for."""

    def fails():
        raise Cell(TEXT)

    with pytest.raises(ht.RequestError) as masked:
        releasing.run_masked(fails, failure=lambda _: ht.RequestError("no"))
    assert leaked(words_of(masked.value)) == []


def raised_from_none():
    try:
        float(TEXT)
    except ValueError:
        raise ht.RequestError("no") from None


def test_an_error_that_is_raised_from_none_is_found():
    """The control of the chain: it hides what it was raised for, and still carries it."""
    with pytest.raises(ht.RequestError) as caught:
        raised_from_none()
    assert leaked(words_of(caught.value)) == [TEXT]


def test_errors_of_the_tree_pass_without_their_context():
    def refuses():
        try:
            float(TEXT)
        except ValueError:
            raise ht.InvalidParameter("X", "an array", "numbers") from None

    with pytest.raises(ht.InvalidParameter) as passed:
        releasing.run_masked(refuses, failure=lambda _: ht.RequestError("no"))
    assert leaked(words_of(passed.value)) == []


@pytest.mark.parametrize("kind", ["raise", "tree", "predict"])
def test_an_estimator_that_tells_is_not_heard(kind, recwarn, capsys):
    """Through SoftMajorityClassifier, and through train and predict of a curator."""
    points, labels = clean(400)
    points[7, 1] = NUMBER
    fitted = SoftMajorityClassifier(make_pipeline(StandardScaler(), Telling(kind)), parts=4).fit(points, labels)
    seen = [repr(fitted.predict(points[:3])), repr(fitted)]
    with ht.Curator({"x": points[:, 0], "z": points[:, 1], "y": labels == 1}, epsilon=1, delta=1e-6) as curator:
        seen.append(repr(curator.train("m", Telling(kind), target="y", features=["x", "z"], parts=4)))
        seen += [str(one) for one in curator.predict("m", {"x": [0.1, 0.2], "z": [0.0, 0.3]}, epsilon=0.01)]
        seen += [str(line) for line in curator.history]
    said = capsys.readouterr()
    assert leaked("".join(seen) + said.out + said.err + "".join(str(one.message) for one in recwarn)) == []


def test_a_transformer_that_tells_is_not_heard(capsys):
    """The pipeline of a text column, as it was found: its float() quotes a cell."""
    points, labels = clean(100)
    points[7, 1] = NUMBER

    def tell(rows):
        raise Cell(TEXT, rows.max())

    pipeline = make_pipeline(FunctionTransformer(tell), LogisticRegression())
    fitted = SoftMajorityClassifier(pipeline, parts=4, classes=[0, 1]).fit(points, labels)
    assert set(fitted.predict(points[:5]).tolist()) <= {0, 1}
    frame = pd.DataFrame({"a": points[:, 0], "b": [TEXT] * 100})
    with pytest.raises(ht.RequestError, match="number") as caught:
        SoftMajorityClassifier(pipeline, parts=4).fit(frame, labels)
    assert leaked(words_of(caught.value) + "".join(capsys.readouterr())) == []


def test_rules_that_tell_are_not_heard_before_the_charge_or_after(recwarn, capsys):
    points, labels = clean(400)
    points[7, 1] = NUMBER
    data = {"x": points[:, 0], "z": points[:, 1], "y": labels == 1}

    def tells(rows):
        warnings.warn(f"{TEXT} {rows.max()}", stacklevel=1)
        raise Cell(TEXT, rows.max())

    def tells_of_large_ones(rows):
        return tells(rows) if rows.max() > 1000 else rows[:, 0] > 0

    rules = ht.Hypotheses([tells_of_large_ones, lambda rows: rows[:, 0] <= 0])
    seen = []
    with ht.Curator(data, epsilon=1, delta=1e-6) as curator:
        found = curator.learn(rules, target="y", features=["x", "z"], epsilon=0.3)
        seen += [str(found), repr(found.predict({"x": [1.0], "z": [NUMBER]}))]
        with pytest.raises(ht.InvalidParameter, match=r"items\[0\]") as refused:
            curator.learn(ht.Hypotheses([tells]), target="y", features=["x", "z"], epsilon=0.3)
        seen.append(words_of(refused.value))
    handle = Handle(epsilon=1)
    learner = PrivateLearner(rules, epsilon=0.5, ledger=handle).fit(points, labels)
    seen += [learner.hypothesis_, repr(learner.predict(points))]
    for estimator in (PrivateLearner(ht.Hypotheses([tells]), ledger=handle), ThresholdClassifier(ht.Hypotheses([tells]))):
        with pytest.raises(ht.InvalidParameter, match=r"items\[0\]") as refused:
            estimator.fit(points, labels)
        seen.append(words_of(refused.value))
    assert handle.spent == 0.5
    said = capsys.readouterr()
    assert leaked("".join(seen) + said.out + said.err + "".join(str(one.message) for one in recwarn)) == []


@pytest.mark.parametrize("release", ["once", "each"])
def test_a_loss_that_tells_costs_and_is_not_heard(release, recwarn):
    """A loss of one's own sees labels and predictions of the rows; what it raises after the charge is one text."""
    points, labels = clean()
    plain = losses.logistic()

    def slope(predictions, sides):
        if len(sides) == ROWS:
            warnings.warn(f"{TEXT} {sides}", stacklevel=1)
            raise Cell(TEXT, predictions)
        return plain.slope(predictions, sides)

    handle = Handle(epsilon=3, delta=1e-6)
    loss = replace(plain, slope=slope)
    kind, words = (ht.ReleaseError, "charge stays") if release == "once" else (ht.RequestError, "failed on these rows")
    with pytest.raises(kind, match=words) as caught:
        StableClassifier(loss=loss, release=release, ledger=handle).fit(points, labels)
    assert leaked(words_of(caught.value) + "".join(str(one.message) for one in recwarn)) == []
    assert (handle.spent > 0) is (release == "once")
