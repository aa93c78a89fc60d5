"""Scores of cases that come in clusters, repeats of a case or questions on a document: each cluster counts once (U4)."""

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.holdouts.cases import BITS, cases_of
from holdtrue.mechanisms import Gaussian

SIZES = np.tile([1, 2, 3, 7, 17], 40)
CLUSTERS = np.repeat(np.arange(SIZES.size), SIZES)
RANDOM = np.random.default_rng(1848)
TRUTH = RANDOM.integers(0, 2, CLUSTERS.size)
SAID = np.where(RANDOM.random(CLUSTERS.size) < 0.7, TRUTH, 1 - TRUTH)


def mean_of_clusters(values):
    return float((np.bincount(CLUSTERS, values) / SIZES).mean())


def test_u4_weights_of_a_cluster_add_up_to_one():
    cases = cases_of(TRUTH, cluster=CLUSTERS).weigh_clusters()
    assert (np.bincount(CLUSTERS, cases.weights) == 1 << BITS).all()
    assert not (cases.weights % 2).any()
    assert all(np.ptp(cases.weights[each == CLUSTERS]) <= 2 for each in range(SIZES.size))
    assert cases.grid == SIZES.size << BITS == cases.weights.sum()


def test_u4_a_score_is_the_mean_of_clusters(monkeypatch):
    """Of every metric, in whatever order cases come; a difference too."""
    monkeypatch.setattr(Gaussian, "release", lambda _, value: int(value))
    order = np.random.default_rng(3).permutation(CLUSTERS.size)
    ids = np.arange(CLUSTERS.size)
    right = (TRUTH == SAID).astype(float)
    chance = np.round(np.random.default_rng(5).random(CLUSTERS.size), 3)
    with ht.Holdout(TRUTH[order], ids=ids[order], cluster=CLUSTERS[order], looks=20) as held:
        assert (held.plan.rows, held.facts.clusters) == (SIZES.size, SIZES.size)
        assert "1,200 cases in 200 clusters" in repr(held)
        assert "for these 200 clusters" in held.width
        for found, expected in (
            (held.score(SAID, ids=ids), mean_of_clusters(right)),
            (held.score(SAID, ids=ids, metric="error"), 1 - mean_of_clusters(right)),
            (held.score(chance, ids=ids, metric="brier"), mean_of_clusters((chance - TRUTH) ** 2)),
            (held.score(cases=chance, ids=ids), mean_of_clusters(chance)),
            (held.compare(SAID, 1 - SAID, ids=ids), mean_of_clusters(2 * right - 1)),
            (held.compare_cases(chance, right, ids=ids), mean_of_clusters(chance - right)),
        ):
            assert found.value == pytest.approx(expected, abs=1e-4)
            assert found.interval.low <= expected <= found.interval.high
            assert found.about == "these clusters with fresh labels"


def test_u4_one_cluster_moves_a_sum_by_one_at_most():
    """All labels of a cluster replaced: by 2^20 where all its scores change, and never by more."""
    cases = cases_of(TRUTH, cluster=CLUSTERS).weigh_clusters()
    for cluster in range(10):
        other = np.where(cluster == CLUSTERS, 1 - TRUTH, TRUTH)
        moved = cases.weights[TRUTH == SAID].sum() - cases.weights[other == SAID].sum()
        assert abs(moved) <= 1 << BITS
    assert cases.weights[CLUSTERS == 4].sum() == 1 << BITS


def test_u4_pooled_repeats_miss_where_clusters_cover():
    """400 questions of 50 repeats that all go alike; whoever takes attempts for cases is wrong in most runs."""
    questions, each, looks, runs = 400, 50, 10, 20
    owners, missed = np.repeat(np.arange(questions), each), {"attempts": 0, "clusters": 0}
    random = np.random.default_rng(77)
    for _ in range(runs):
        results = np.repeat(random.random((looks, questions)) < 0.5, each, axis=1)
        for name, given in (("attempts", {}), ("clusters", {"cluster": owners})):
            with ht.Holdout(np.ones(owners.size), looks=looks, unseen=True, **given) as held:
                missed[name] += not all(0.5 in held.score(cases=values).interval for values in results)
    assert missed["clusters"] == 0
    assert missed["attempts"] > runs / 4


def test_u4_rounded_scores_are_of_clusters_too(tmp_path):
    """The cell of the mean of clusters, within the width that as many independent cases as clusters have."""
    place = tmp_path / "rounded.ledger"
    right = mean_of_clusters((TRUTH == SAID).astype(float))
    with ht.Holdout(TRUTH, cluster=CLUSTERS, looks=5, private=False, ledger=place) as held:
        assert (held.plan.rows, held.facts.clusters, held.facts.mode) == (SIZES.size, SIZES.size, "rounding")
        found = held.score(SAID)
        assert found.sample_interval.low <= right <= found.sample_interval.high
        assert found.about == "these clusters with fresh labels"
        with ht.Holdout(TRUTH[: SIZES.size], looks=5, private=False) as alike:
            assert alike.score(SAID[: SIZES.size]).interval.width == pytest.approx(found.interval.width)
    with ht.Holdout(TRUTH, cluster=CLUSTERS, ledger=place) as again:
        assert again.score(SAID).value == found.value
    assert ht.verify(place)
    assert not ht.audit_ledger(place, data={"y_true": TRUTH, "cluster": CLUSTERS}).violated


def test_clusters_are_fixed_with_the_ledger(tmp_path):
    place = tmp_path / "clusters.ledger"
    with ht.Holdout(TRUTH, cluster=CLUSTERS, looks=5, unseen=True, ledger=place) as held:
        first = held.score(SAID)
        assert first.about == "fresh clusters"
    with ht.Holdout(TRUTH, cluster=CLUSTERS, ledger=place) as again:
        assert again.score(SAID).value == first.value
    for other in ({}, {"cluster": CLUSTERS // 2}):
        with pytest.raises(ht.FingerprintMismatch):
            ht.Holdout(TRUTH, ledger=place, **other)
    assert ht.verify(place)
    assert not ht.audit_ledger(place, data={"y_true": TRUTH, "cluster": CLUSTERS}).violated
    assert ht.audit_ledger(place, data={"y_true": TRUTH}).violated


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"weights": np.ones(CLUSTERS.size)}, "leave out weights with cluster"),
        ({"train": TRUTH, "overfits": 3}, "a reusable holdout counts case by case"),
        ({"cluster": CLUSTERS[1:]}, "cluster has 1,199 values"),
        ({"cluster": np.full(CLUSTERS.size, np.nan)}, "finite"),
    ],
)
def test_clusters_that_cannot_be_are_refused(given, words):
    with pytest.raises(ht.InvalidParameter, match=words):
        ht.Holdout(TRUTH, **{"looks": 5, "cluster": CLUSTERS} | given)
