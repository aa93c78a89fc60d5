"""Linear nets: exact whole numbers in every kernel, order and blocking, the same on every machine."""

import hashlib
import itertools
import json
import math
import subprocess
import sys

import numpy as np
import pytest

from holdtrue.codec import encode
from holdtrue.errors import InvalidParameter, UnknownColumn
from holdtrue.hypotheses import classes, read_class
from holdtrue.hypotheses.linear import HEAVIEST, REACH, LinearNet, Net, build_net, count_grid, list_members
from holdtrue.kernels import predictors, predictors_compiled


@pytest.fixture(params=["numba", "numpy"])
def kernel(request, monkeypatch):
    chosen = predictors_compiled if request.param == "numba" else None
    monkeypatch.setattr(predictors, "compiled", lambda _: chosen)
    return request.param


def _rows(rows, width, *, seed):
    """Rows with ties, missing values, infinities, numbers beyond the bounds and on the edges of cells."""
    rng = np.random.default_rng(seed)
    table = rng.normal(0, 0.7, (rows, width))
    edges = (rng.integers(-REACH, REACH, table.shape) + rng.choice([0.0, 0.5], table.shape)) / REACH
    table = np.where(rng.random(table.shape) < 0.3, edges, table)
    odd = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 5e-324, 1e300], table.shape)
    return np.where(rng.random(table.shape) < 0.2, odd, table), rng.random(rows) < 0.4


def _cell(value, low, high):
    if math.isnan(value):
        value = low
    return round((min(max(value, low), high) - low) * (2 * REACH / (high - low))) - REACH


def _by_hand(net, table, y):
    """Count errors one member and one row at a time, in Python's integers."""
    kept = net._find_net()
    cells = [[_cell(float(v), *pair) for v, pair in zip(row, net.bounds, strict=True)] for row in table]
    counts = []
    for weights, offset in zip(kept.weights[: net.size].tolist(), kept.offsets.tolist(), strict=False):
        said = [sum(w * q for w, q in zip(weights, row, strict=False)) >= offset for row in cells]
        counts.append(sum(one != label for one, label in zip(said, y.tolist(), strict=True)))
    return counts


@pytest.mark.parametrize("rows", [0, 1, 15, 63, 64, 65, 130])
@pytest.mark.parametrize(
    "net",
    [
        LinearNet(1, count=37),
        LinearNet(2, resolution=2),
        LinearNet(3, resolution=1, bounds=[(-1, 1), (0, 0.3), (-5, 5)]),
        LinearNet(20, count=50),
        LinearNet(33, count=22, bounds=(-0.9, 1.7)),
    ],
    ids=repr,
)
def test_counts_are_those_of_a_double_loop(kernel, net, rows):
    assert kernel
    table, y = _rows(rows, net.width, seed=rows)
    assert net.error_counts(table, y).tolist() == _by_hand(net, table, y)


def test_evaluate_is_what_is_counted(kernel):
    assert kernel
    for net in (LinearNet(5, count=64), LinearNet(2, resolution=3)):
        table, y = _rows(500, net.width, seed=7)
        counts = net.error_counts(table, y)
        assert [np.count_nonzero(net.evaluate(table, index) != y) for index in range(net.size)] == counts.tolist()
        assert net.evaluate(table[3], 5).tolist() == net.evaluate(table, 5)[3:4].tolist()


class Standardised(LinearNet):
    """Planted fault: columns are scaled by the largest number among the rows."""

    __slots__ = ()

    def _to_cells(self, table):
        return super()._to_cells(table / np.abs(table).max())


def _largest_move(net):
    rng = np.random.default_rng(11)
    moved = 0
    for _ in range(40):
        table, y = rng.normal(0, 0.4, (60, net.width)), rng.random(60) < 0.5
        other, labels, row = table.copy(), y.copy(), rng.integers(60)
        other[row], labels[row] = rng.choice([-3.0, 0.1, 3.0], net.width), not y[row]
        moved = max(moved, int(np.abs(net.error_counts(table, y) - net.error_counts(other, labels)).max()))
    return moved


def test_replacing_one_row_moves_every_count_by_at_most_one(kernel):
    assert kernel
    assert _largest_move(LinearNet(4, count=200)) == 1
    assert _largest_move(LinearNet(2, resolution=3)) == 1
    assert _largest_move(Standardised(4, count=200)) > 1


def _extreme(width):
    """Members and rows at the ends of what the types hold, with offsets on the sums themselves and beside them."""
    rng = np.random.default_rng(width)
    weights = np.zeros((120, width + width % 2), dtype=np.int16)
    weights[:, :width] = rng.choice([HEAVIEST, HEAVIEST - 1, -HEAVIEST], (120, width))
    weights[:8, :width] = HEAVIEST
    weights[8:16, :width] = -HEAVIEST
    cells = rng.choice([REACH, REACH - 1, 1 - REACH, -REACH], (90, width)).astype(np.int16)
    cells[:2], cells[2:4] = REACH, -REACH
    cells[4:40] = REACH - 1
    for row in range(4, 40):
        cells[row, : row % width] = REACH
    sums = cells.astype(np.int64) @ weights[:, :width].astype(np.int64).T
    offsets = sums[rng.integers(0, 90, 120), np.arange(120)] + rng.integers(-1, 2, 120)
    most = width * HEAVIEST * REACH
    offsets[:4], offsets[8:12] = [most, -most, most - 1, 1 - most], [most, -most, most - 1, 1 - most]
    return Net(weights, offsets.astype(np.int32)), cells, (sums < offsets).sum(axis=0).tolist()


@pytest.mark.parametrize("width", [1, 2, 31, 32, 33, 1023, 1024])
def test_sums_are_exact_at_the_ends_of_every_type(kernel, width):
    assert kernel
    net, cells, expected = _extreme(width)
    assert net.count_below(cells).tolist() == expected


def test_float32_beyond_its_whole_numbers_would_be_caught(monkeypatch):
    monkeypatch.setattr(predictors, "compiled", lambda _: None)
    monkeypatch.setattr(predictors, "_EXACT_FLOAT32", 1 << 40)
    wrong = 0
    for width in (32, 64):
        net, cells, expected = _extreme(width)
        wrong += width * (net.count_below(cells).tolist() != expected)
    assert wrong == 64


def test_order_of_columns_and_blocking_change_nothing(kernel, monkeypatch):
    assert kernel
    net = LinearNet(20, count=70)
    table, y = _rows(300, 20, seed=3)
    counts = net.error_counts(table, y).tolist()
    for chunk in (7, 64, 299):
        monkeypatch.setattr(classes, "_CHUNK", chunk)
        monkeypatch.setattr(predictors, "_BLOCK_ROWS", chunk)
        monkeypatch.setattr(predictors, "_BLOCK_MEMBERS", chunk)
        assert net.error_counts(table, y).tolist() == counts
        assert net.error_counts(np.asfortranarray(table), y.astype(np.int64)).tolist() == counts
    shuffled = np.random.default_rng(1).permutation(20)
    kept = net._find_net()
    other = Net(np.ascontiguousarray(kept.weights[:, shuffled]), kept.offsets)
    assert other.count_below(net._to_cells(table)[:, shuffled]).tolist() == kept.count_below(net._to_cells(table)).tolist()


def test_the_sequence_is_the_same_on_every_machine():
    weights, offsets = list_members(20, 0, 5000)
    digest = hashlib.sha256(weights.astype("<i8").tobytes() + offsets.astype("<i8").tobytes()).hexdigest()
    assert digest[:16] == "a9015f75ddb10f9f"
    assert list_members(3, 0, 1)[0].tolist() == [[20, -23, 12]]


def test_a_shorter_net_is_the_start_of_a_longer_one():
    longer = build_net(6, count=70_000, resolution=None)
    weights, offsets = list_members(6, 69_990, 70_000)
    assert (longer.weights[69_990:70_000] == weights).all()
    assert (longer.offsets[69_990:70_000] == offsets).all()
    shorter = build_net(6, count=100, resolution=None)
    assert (longer.weights[:100] == shorter.weights[:100]).all()


@pytest.mark.parametrize("width", [1, 2, 20])
def test_directions_and_offsets_fill_their_space_evenly(width):
    weights, offsets = list_members(width, 0, 20_000)
    assert (np.abs(weights) <= HEAVIEST).all()
    assert weights.any(axis=1).all()
    assert np.abs(weights.mean(axis=0)).max() < 0.5
    assert np.abs(weights.std(axis=0) - 32).max() < 0.5
    if width > 1:
        assert np.abs(np.corrcoef(weights.T) - np.eye(width)).max() < 0.1
    place = offsets / (REACH * np.sqrt((weights**2).sum(axis=1)))
    shares = np.histogram(place, bins=10, range=(-1, 1))[0] / 20_000
    assert np.abs(shares - 0.1).max() < 0.005


def test_the_net_comes_near_to_any_half_space():
    rng = np.random.default_rng(21)
    table = rng.uniform(-1, 1, (1000, 3))
    net = LinearNet(3, count=4000)
    for _ in range(5):
        direction = rng.normal(size=3)
        y = table @ direction >= rng.uniform(-0.7, 0.7) * np.linalg.norm(direction)
        assert net.error_counts(table, y).min() <= 70


@pytest.mark.parametrize(("width", "resolution"), [(1, 1), (1, 9), (2, 1), (2, 6), (3, 4), (4, 2), (5, 1)])
def test_a_grid_holds_every_primitive_direction_once(width, resolution):
    grid = itertools.product(range(-resolution, resolution + 1), repeat=width)
    expected = [vector for vector in grid if math.gcd(*vector) == 1]
    net = LinearNet(width, resolution=resolution)
    kept = net._find_net()
    places = 2 * resolution + 1
    assert net.size == len(expected) * places == count_grid(width, resolution)
    assert kept.weights[: net.size : places, :width].tolist() == [list(vector) for vector in expected]
    assert not kept.weights[net.size :].any()
    offsets = kept.offsets[: net.size].reshape(-1, places)
    reach = np.abs(np.array(expected)).sum(axis=1) * REACH
    assert (np.diff(offsets, axis=1) > 0).all()
    assert (offsets[:, resolution] == 0).all()
    assert (np.abs(offsets) < reach[:, np.newaxis]).all()


@pytest.mark.parametrize(
    "pair", [(-1, 1), (0.1, 0.3), (-1e300, 1e300), (0, 1e-290), (5, math.nextafter(5, 6)), (1e15, 1e15 + 1), (0, 8192)]
)
def test_columns_are_cut_by_a_monotone_staircase_from_end_to_end(pair):
    net = LinearNet(1, count=1, bounds=pair)
    low, high = map(float, pair)
    inside = np.sort(np.concatenate([np.linspace(low, high, 5001), [low, high, math.nextafter(low, high)]]))
    cells = net._to_cells(inside[:, np.newaxis])[:, 0].astype(int)
    assert cells[0] == -REACH
    assert cells[-1] == REACH
    assert (np.diff(cells) >= 0).all()
    outside = np.array([[-np.inf], [np.nan], [low - 1], [high + 1e300], [np.inf]])
    assert net._to_cells(outside)[:, 0].tolist() == [-REACH, -REACH, -REACH, REACH, REACH]


def test_every_type_of_number_is_read_at_its_value():
    net = LinearNet(2, count=40, bounds=(0, 100))
    table = np.array([[0, 100], [3, 50], [77, 1], [1, 0]])
    expected = [net.evaluate(table, index).tolist() for index in range(40)]
    for kind in (np.int8, np.uint64, np.float16, np.float32, np.float64):
        assert [net.evaluate(table.astype(kind), index).tolist() for index in range(40)] == expected
    assert net.error_counts(table > 2, [0, 1, 0, 1]).size == 40
    huge = np.array([[2**63 - 1, -(2**63)]])
    assert net._to_cells(huge).tolist() == [[REACH, -REACH]]


def test_columns_are_read_by_name_in_the_order_of_the_net():
    net = LinearNet(["b", "a"], resolution=1, bounds={"a": (0, 10), "b": (-1, 1)})
    assert net.bounds == ((-1.0, 1.0), (0.0, 10.0))
    table = {"a": [1.0, 9.0], "c": [0, 0], "b": [0.5, -0.5]}
    matrix = np.array([[0.5, 1.0], [-0.5, 9.0]])
    assert (net.error_counts(table, [0, 1]) == net.error_counts(matrix, [0, 1])).all()
    assert net.evaluate({"a": 9.0, "b": 1.0}, 3).shape == (1,)
    with pytest.raises(UnknownColumn, match="'b'"):
        net.error_counts({"a": [1.0]}, [0])
    assert net.over(["z", "a", "b"]) is net
    by_position = LinearNet(2, resolution=1)
    assert by_position.over(2) is by_position
    assert by_position.over(["u", "v"]) == LinearNet(["u", "v"], resolution=1)
    assert by_position.width == net.width == 2
    assert (by_position.columns, net.columns) == (None, ("b", "a"))
    for columns in (3, ["a"]):
        with pytest.raises(InvalidParameter, match="2 columns"):
            by_position.over(columns)


def test_a_member_is_described_by_its_heaviest_columns():
    net = LinearNet(["age", "pulse"], resolution=2)
    assert [net.describe(index) for index in (0, 29, 42, 79)] == [
        "-2·age - pulse ≥ -2 → 1",
        "-age + pulse ≥ 1.333 → 1",
        "pulse ≥ 0 → 1",
        "2·age + pulse ≥ 2 → 1",
    ]
    wide = LinearNet(20, count=5, bounds=(0, 1)).describe(3)
    assert wide.count("·x") == 6
    assert "more) ≥" in wide
    assert wide.endswith("→ 1, columns scaled to [-1, 1]")
    assert repr(net) == "LinearNet(('age', 'pulse'), resolution=2, bounds=(-1.0, 1.0))"


@pytest.mark.parametrize(
    "net", [LinearNet(3, count=7), LinearNet(["a", "b"], resolution=2, bounds={"a": (0, 1), "b": (1, 3)})]
)
def test_json_reads_back_equal(net):
    document = json.loads(encode(net.document))
    assert read_class(document) == net
    assert hash(read_class(document)) == hash(net)
    for wrong in (document | {"class": "stumps"}, document | {"more": 1}, {"class": "linearnet"}, document | {"count": 0}):
        with pytest.raises(InvalidParameter):
            read_class(wrong)


def test_a_net_beyond_memory_says_before_it_starts_how_much_it_needs():
    for net in (LinearNet(8, resolution=9), LinearNet(20, count=10**9)):
        size = net.size
        with pytest.raises(InvalidParameter, match=f"{size:,} hypotheses takes {size * (2 * net.width + 44):,} bytes"):
            net.error_counts(np.zeros((1, net.width)), [0])
    with pytest.raises(InvalidParameter, match="bytes, and the limit is"):
        LinearNet(8, resolution=9).describe(5)
    assert LinearNet(20, count=10**9).describe(10**9 - 1).endswith("→ 1")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"dimension": 0, "count": 1}, "dimension must be a number of columns, or distinct names"),
        ({"dimension": 1025, "count": 1}, "dimension must be at most 1024 columns"),
        ({"dimension": [], "count": 1}, "dimension must be"),
        ({"dimension": ["a", "a"], "count": 1}, "distinct names"),
        ({"dimension": ["a", 3], "count": 1}, "dimension must be"),
        ({"dimension": True, "count": 1}, "dimension must be"),
        ({"dimension": 2}, "exactly one"),
        ({"dimension": 2, "count": 3, "resolution": 3}, "exactly one"),
        ({"dimension": 2, "count": 0}, "count must be"),
        ({"dimension": 2, "count": 2.0}, "count must be"),
        ({"dimension": 2, "resolution": 128}, "resolution must be at most 127"),
        ({"dimension": 2, "count": 1, "bounds": (1, 0)}, "low < high"),
        ({"dimension": 2, "count": 1, "bounds": (0, 0)}, "low < high"),
        ({"dimension": 2, "count": 1, "bounds": (0, float("inf"))}, "bounds must be"),
        ({"dimension": 2, "count": 1, "bounds": (-1.7e308, 1.7e308)}, "bounds must be"),
        ({"dimension": 2, "count": 1, "bounds": (0, 5e-324)}, "bounds must be"),
        ({"dimension": 2, "count": 1, "bounds": [(0, 1)]}, "2 pairs"),
        ({"dimension": 2, "count": 1, "bounds": [(0, 1), 3]}, "bounds must be"),
        ({"dimension": 2, "count": 1, "bounds": {"a": (0, 1)}}, "mapping"),
        ({"dimension": ["a", "b"], "count": 1, "bounds": {"a": (0, 1)}}, "mapping"),
        ({"dimension": 2, "count": 1, "bounds": "01"}, "bounds must be"),
    ],
)
def test_bad_parameters_are_refused(given, said):
    with pytest.raises(InvalidParameter, match=said):
        LinearNet(**given)


def test_bad_rows_are_refused_in_words_without_cells():
    net = LinearNet(2, count=10)
    for table, y in (
        (np.full((2, 3), 77.125), [0, 1]),
        (np.full((2, 2), 77.125), [0, 77]),
        (np.full((2, 2), 77.125), [0.0]),
        (np.array([["77", "77"]]), [0]),
    ):
        with pytest.raises(InvalidParameter) as refused:
            net.error_counts(table, y)
        assert "77" not in str(refused.value)
    for index in (-1, 10, 2.0, True):
        with pytest.raises(InvalidParameter, match="index"):
            net.evaluate(np.zeros((1, 2)), index)
    with pytest.raises(InvalidParameter, match="the class has 2"):
        net.evaluate(np.zeros((1, 3)), 0)


def test_small_nets_never_wait_for_numba():
    text = """
import sys
import numpy as np
from holdtrue.hypotheses.linear import LinearNet
LinearNet(20, count=1000).error_counts(np.zeros((1000, 20)), np.zeros(1000))
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", text], check=True)  # noqa: S603 - ourselves
    assert predictors.compiled(1 << 27) is predictors_compiled
