"""Pictures of looks: scores, intervals, truth and the naive are drawn where they are known."""

import sys

import matplotlib as mpl
import numpy as np
import pytest

import holdtrue as ht
from holdtrue.holdouts.plots import plot_looks

mpl.use("agg")
from matplotlib import pyplot as plt

TRUTH = np.random.default_rng(2).integers(0, 2, 1_000)


@pytest.fixture(scope="module")
def scores():
    with ht.Holdout(TRUTH, looks=10) as holdout:
        return [holdout.score(np.roll(TRUTH, shift)) for shift in range(1, 7)]


@pytest.fixture
def axes():
    figure, made = plt.subplots()
    yield made
    plt.close(figure)


def drawn(axes):
    return {line.get_label(): list(line.get_ydata()) for line in axes.lines}


def test_scores_truth_and_naive_are_drawn_over_looks(scores, axes):
    naive = [0.5 + look / 100 for look in range(6)]
    assert plot_looks(scores, truth=0.5, naive=naive, ax=axes) is axes
    found = drawn(axes)
    assert found["told by Holdtrue"] == [score.value for score in scores]
    assert found["a plain holdout"] == naive
    assert found["truth"] == [0.5] * 6
    (band,) = axes.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(min(score.interval.low for score in scores))
    assert heights.max() == pytest.approx(max(score.interval.high for score in scores))
    assert "95% for all looks at once" in band.get_label()


def test_what_is_not_known_is_not_drawn(scores, axes):
    plot_looks(scores, ax=axes)
    assert set(drawn(axes)) == {"told by Holdtrue"}
    with ht.Leaderboard(TRUTH, submissions=5, rule="parameter-free ladder") as board:
        bare = board.submit("ada", TRUTH)
    plot_looks([bare], ax=axes)
    assert len(axes.collections) == 1  # a score without an interval adds no band


def test_a_figure_of_its_own_is_made(scores, tmp_path):
    axes = plot_looks(scores, truth=[0.5] * 6)
    axes.figure.savefig(tmp_path / "looks.png")
    plt.close(axes.figure)
    assert (tmp_path / "looks.png").stat().st_size > 5_000


@pytest.mark.parametrize("given", [{"truth": [0.5]}, {"naive": [0.5] * 7}])
def test_numbers_that_do_not_match_the_looks_are_refused(scores, given):
    with pytest.raises(ht.InvalidParameter, match="one for each of 6 looks"):
        plot_looks(scores, **given)
    with pytest.raises(ht.InvalidParameter, match="history"):
        plot_looks([])


def test_without_matplotlib_the_extra_is_named(scores, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ht.MissingExtra, match="plots"):
        plot_looks(scores)
