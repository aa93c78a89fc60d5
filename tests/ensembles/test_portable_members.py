"""Members carried between machines: those that a single machine trains, as arrays and never as code."""

import io

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from holdtrue.ensembles.parts import shares_of
from holdtrue.ensembles.saving import check_portable, member_from_bytes, member_to_bytes
from holdtrue.ensembles.training import fit_part, gather_members, make_recipe, train
from holdtrue.errors import InvalidParameter

RNG = np.random.default_rng(20)
ROWS = 5000
X = RNG.normal(size=(ROWS, 3))
Y = (X.sum(axis=1) + RNG.normal(size=ROWS) > 0).astype(np.int64)
POINTS = RNG.normal(size=(300, 3))


@pytest.mark.parametrize(
    ("estimator", "parts", "given"),
    [
        (DecisionTreeClassifier(max_depth=4), 40, {"labels": [0, 1]}),
        (LogisticRegression(), 40, {"labels": [0, 1, 2]}),
        (LogisticRegression(), 256, {"labels": [0, 1]}),
        (Ridge(), 30, {"output_bounds": (0.0, 1.0)}),
    ],
    ids=["trees", "logistic", "logistic by Newton's method", "numbers"],
)
def test_parts_trained_apart_are_the_ensemble_trained_at_once(estimator, parts, given):
    recipe = make_recipe(estimator, width=3, parts=parts, bounds=(-3, 3), **given)
    check_portable(recipe)
    sent = []
    for part, rows in enumerate(shares_of(ROWS, parts=parts)):
        sent.append(member_to_bytes(fit_part(recipe, X[rows], Y[rows], part=part)))
    ensemble = recipe.make_ensemble(gather_members(recipe, [member_from_bytes(content, recipe=recipe) for content in sent]))
    whole = train(estimator, X, Y, parts=parts, bounds=(-3, 3), **given)
    said = [each.votes(POINTS) if "labels" in given else each.outputs(POINTS) for each in (ensemble, whole)]
    assert np.array_equal(*said)
    assert ensemble.stored


def test_a_part_without_a_member_is_carried_as_nothing():
    recipe = make_recipe(LogisticRegression(), width=3, parts=2, labels=[0, 1])
    assert member_to_bytes(fit_part(recipe, X[:0], np.zeros(0, dtype=np.int64), part=0)) == b""
    assert member_from_bytes(b"", recipe=recipe) is None


def test_a_part_whose_rows_have_one_label_is_carried_with_its_vote():
    for estimator in (LogisticRegression(), DecisionTreeClassifier()):
        recipe = make_recipe(estimator, width=3, parts=1, labels=[0, 1])
        held = member_to_bytes(fit_part(recipe, X[:10], np.ones(10, dtype=np.int64), part=0))
        ensemble = recipe.make_ensemble(gather_members(recipe, [member_from_bytes(held, recipe=recipe)]))
        assert ensemble.votes(POINTS).tolist() == [[0, 1]] * len(POINTS)


def test_members_that_are_code_are_not_carried():
    with pytest.raises(InvalidParameter, match="cannot travel"):
        check_portable(make_recipe(KNeighborsClassifier(), width=3, parts=2, labels=[0, 1]))


def test_no_bytes_run_code():
    """A planted pickle, and arrays of other names, are refused."""
    recipe = make_recipe(LogisticRegression(), width=3, parts=2, labels=[0, 1])
    held = io.BytesIO()
    np.savez(held, weights=np.array([object()], dtype=object), biases=1, codes=1, others=1)
    with pytest.raises(ValueError, match="pickle"):
        member_from_bytes(held.getvalue(), recipe=recipe)
    held = io.BytesIO()
    np.savez(held, other=np.zeros(3))
    with pytest.raises(ValueError, match="not a member"):
        member_from_bytes(held.getvalue(), recipe=recipe)
