"""Membership inference: an overgrown tree tells who was there, one row decides close votes, private ones keep to A6."""

from reproductions.membership import EPSILONS, attack


def test_a6_attacks_on_private_predictions_stay_below_the_theorem_and_plain_ones_are_caught():
    lines = attack(seed=3, rows=800, parts=40, pairs=6)
    (tree, plain), private = lines[:2], lines[2:]
    assert float(tree[3]) > 0.25  # the gap attack, on labels that were learned by heart
    assert float(tree[4]) == float(plain[4]) == 1  # somebody who knows the other rows reads the label
    assert [float(line[1]) for line in private] == [float(epsilon) for epsilon in EPSILONS]
    for line in private:
        assert float(line[4]) <= float(line[5]) + 5e-4
        assert float(line[3]) <= float(line[5]) + 5e-4
    assert float(private[0][4]) > 0.8 * float(private[0][5])  # and come near to it: the theorem is not loose
