"""Plots of plans: the plan's own point is marked, every method is named, and axes may be given."""

import matplotlib as mpl
import pytest
from matplotlib import pyplot as plt

from holdtrue.planning.learning import plan_learning
from holdtrue.planning.plotting import plot_learning, plot_prediction, plot_selection
from holdtrue.planning.predicting import plan_prediction
from holdtrue.planning.selecting import plan_selection

mpl.use("Agg")

LEARNING = plan_learning(size=10_000, alpha=0.05, beta=0.01, epsilon=0.5)
SELECTION = plan_selection(candidates=50, epsilon=0.5, beta=0.05)
PREDICTION = plan_prediction(epsilon=1.0, alpha=0.1, beta=0.05, size=1000)
PLOTS = [(plot_learning, LEARNING), (plot_selection, SELECTION), (plot_prediction, PREDICTION)]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def words_in(axes):
    return " ".join(text.get_text() for text in axes.texts)


@pytest.mark.parametrize(("draw", "made"), PLOTS)
def test_given_axes_are_used(draw, made):
    _, given = plt.subplots()
    assert draw(made, ax=given) is given
    assert draw(made) is not given


@pytest.mark.parametrize(("draw", "made"), PLOTS)
def test_every_label_lies_inside_the_picture(draw, made):
    axes = draw(made)
    axes.figure.canvas.draw()
    page = axes.figure.get_tightbbox()
    for text in axes.texts:
        box = text.get_window_extent().transformed(axes.figure.dpi_scale_trans.inverted())
        assert page.x0 - 0.1 <= box.x0
        assert box.x1 <= page.x1 + 0.1


def test_learning_names_every_method_with_its_rows():
    axes = plot_learning(LEARNING)
    named = {label.get_text() for label in axes.get_yticklabels()}
    needed = LEARNING.compare()
    assert named == set(needed)
    assert all(f"{rows:,}" in words_in(axes) for rows in needed.values())


def test_learning_marks_the_chosen_method_alone():
    colours = [line.get_color() for line in plot_learning(LEARNING).lines]
    assert len(set(colours)) == 2
    assert min(colours.count(colour) for colour in set(colours)) == 1


def test_selection_marks_the_plan_and_falls_with_epsilon():
    axes = plot_selection(SELECTION)
    curve, mark = axes.lines
    assert list(curve.get_ydata()) == sorted(curve.get_ydata(), reverse=True)
    assert (mark.get_xdata()[0], mark.get_ydata()[0]) == (SELECTION.epsilon, SELECTION.shortfall)
    assert f"epsilon {SELECTION.epsilon:.3g}" in words_in(axes)


def test_prediction_marks_the_plan_and_falls_with_alpha():
    axes = plot_prediction(PREDICTION)
    curve, mark = axes.lines
    assert list(curve.get_ydata()) == sorted(curve.get_ydata(), reverse=True)
    assert (mark.get_xdata()[0], mark.get_ydata()[0]) == (PREDICTION.alpha, PREDICTION.rows)
    assert f"{PREDICTION.rows:,} rows" in words_in(axes)


def test_prediction_leaves_out_errors_that_no_plan_allows():
    """An alpha near 1 times the plan's has no plan above 1: the curve stops there instead of failing."""
    coarse = plan_prediction(epsilon=1.0, alpha=0.4, beta=0.05, size=1000)
    assert max(plot_prediction(coarse).lines[0].get_xdata()) < 1
