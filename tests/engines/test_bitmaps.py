"""The cache of packed atoms: same integers as counting by hand, under its memory cap, whatever is dropped."""

import itertools
import threading

import numpy as np
import pytest

from holdtrue import kernels
from holdtrue.engines.bitmaps import Bitmaps, find_column
from holdtrue.engines.sorted_columns import SortedColumn, find_spans
from holdtrue.kernels import bitmaps, bitmaps_compiled
from holdtrue.kernels.bitmaps import (
    AND,
    AND_TOP,
    OR,
    OR_TOP,
    PUSH,
    allocate_arena,
    count_bytes,
    count_conjunction,
    count_conjunctions,
    count_programs,
    count_words,
    pack,
)
from holdtrue.queries.syntax_tree import And, Constant, Field, Member, Null, Number, Or, Truth, ValueComparison


def unpack(words, *, rows):
    """Return the bits of the rows as flags."""
    return np.unpackbits(words.view(np.uint8), count=rows, bitorder="little").view(np.bool_)


class Flags:
    """Rows whose atoms are known by heart."""

    def __init__(self, rows, *, seed=0):
        rng = np.random.default_rng(seed)
        self.rows = rows
        self.flags = {}
        self.scans = []
        self._rng = rng
        self.column = rng.integers(-5, 5, rows), rng.random(rows) < 0.9

    def truth(self, atom):
        match atom:
            case Truth(column=name):
                if name not in self.flags:
                    self.flags[name] = np.random.default_rng(len(name)).random(self.rows) < 0.4
                return self.flags[name]
            case _:
                data, valid = self.column
                compare = {"<": np.less, ">": np.greater, "=": np.equal, "<=": np.less_equal, ">=": np.greater_equal}
                return compare[atom.operator](data, atom.right.value) & valid

    def mark_rows(self, atoms, words, *, progress):
        self.scans.append(list(atoms))
        for atom, bits in zip(atoms, words, strict=True):
            assert not bits.any()
            pack(self.truth(atom), bits)
        if progress is not None:
            progress(1.0)

    def read_numbers(self, column):
        assert column == "x"
        return self.column


def _atom(number):
    return Truth("a" * (number + 1), wanted=True)


def _compare(operator, value):
    return ValueComparison(operator, Field("x", "integer"), Number(value))


def _by_hand(source, tree):
    match tree:
        case Constant(value=value):
            return np.full(source.rows, value)
        case And(children=children):
            return np.logical_and.reduce([_by_hand(source, child) for child in children])
        case Or(children=children):
            return np.logical_or.reduce([_by_hand(source, child) for child in children])
        case _:
            return source.truth(tree)


def _random_tree(rng, depth):
    if depth == 0 or rng.random() < 0.3:
        return _atom(int(rng.integers(0, 12)))
    kind = And if rng.random() < 0.5 else Or
    return kind(tuple(_random_tree(rng, depth - 1) for _ in range(int(rng.integers(2, 5)))))


@pytest.fixture(params=["numba", "numpy"])
def kernel(request, monkeypatch):
    chosen = bitmaps_compiled if request.param == "numba" else None
    monkeypatch.setattr(bitmaps, "compiled", lambda *_: chosen)
    return request.param


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 511, 513, 70_001])
def test_counts_are_those_of_flags(kernel, rows):
    assert kernel
    rng = np.random.default_rng(rows)
    source = Flags(rows)
    trees = [_random_tree(rng, 4) for _ in range(120)] + [Constant(value=True), Constant(value=False)]
    trees += [And((_atom(1), _atom(2), _atom(3))), And(tuple(_atom(number) for number in range(9))), _atom(5)]
    expected = [int(_by_hand(source, tree).sum()) for tree in trees]
    cache = Bitmaps(source)
    assert cache.count_rows(trees) == expected
    assert cache.count_rows(trees[::-1]) == expected[::-1]
    assert [cache.count_rows([tree])[0] for tree in trees] == expected
    constants = sum(isinstance(tree, Constant) for tree in trees)
    alone = [cache._count_known(tree) for tree in trees]
    assert alone.count(None) == constants
    assert all(found in (None, count) for found, count in zip(alone, expected, strict=True))


def test_known_atoms_are_never_scanned_again():
    source = Flags(1000)
    cache = Bitmaps(source)
    cache.count_rows([And((_atom(0), _atom(1))), Or((_atom(1), _atom(2)))])
    assert source.scans == [[_atom(0), _atom(1), _atom(2)]]
    cache.count_rows([And((_atom(0), _atom(2))), And((Or((_atom(0), _atom(1))), _atom(2)))])
    assert len(source.scans) == 1


def test_the_memory_cap_holds_and_the_least_used_is_dropped(kernel):
    assert kernel
    rng = np.random.default_rng(5)
    source = Flags(10_000)
    each = 8 * count_words(source.rows)
    memory = 2 * 4 * each
    cache = Bitmaps(source, memory=memory)
    for _ in range(200):
        tree = _random_tree(rng, 3)
        found = [cache.count_rows([asked])[0] for asked in (tree, _atom(0))]
        assert cache.held <= memory
        assert cache._arena.nbytes <= memory // 2
        atoms = set(_leaves(tree))
        expected = None if len(atoms) > 4 else int(_by_hand(source, tree).sum())
        assert found[0] == expected
        assert found[1] == int(source.truth(_atom(0)).sum())
    cache.count_rows([_atom(1)])
    cache.count_rows([_atom(2), _atom(3), _atom(4)])
    cache.count_rows([_atom(1)])
    before = len(source.scans)
    cache.count_rows([_atom(5)])  # drops one of 2, 3, 4
    cache.count_rows([_atom(1)])
    assert len(source.scans) == before + 1


def _leaves(tree):
    return [leaf for child in tree.children for leaf in _leaves(child)] if isinstance(tree, (And, Or)) else [tree]


def test_no_memory_hands_every_tree_back():
    cache = Bitmaps(Flags(1000), memory=0)
    assert cache.count_rows([_atom(0), Constant(value=True), _compare(">", 1)]) == [None, 1000, None]
    cache.sort(["x"])
    assert cache.held == 0


def test_a_failed_scan_leaves_nothing_behind():
    source = Flags(1000)
    cache = Bitmaps(source)

    def fail(*_, **__):
        raise OSError

    working, source.mark_rows = source.mark_rows, fail
    with pytest.raises(OSError, match=r"^$"):
        cache.count_rows([_atom(0)])
    source.mark_rows = working
    assert cache.count_rows([_atom(0)]) == [int(source.truth(_atom(0)).sum())]


def test_unseen_constants_are_answered_without_a_scan_once_a_column_is_sorted(kernel):
    assert kernel
    source = Flags(5000)
    cache = Bitmaps(source)
    cache.sort(["x"])
    trees = [_compare(operator, value) for operator in ("<", ">", "=", "<=", ">=") for value in range(-7, 8)]
    trees += [And((_compare(">=", low), _compare("<", low + 3))) for low in range(-6, 5)]
    trees += [Or((_compare("<", -2), _compare("=", 3), _compare(">=", 4)))]
    expected = [int(_by_hand(source, tree).sum()) for tree in trees]
    assert cache.count_rows(trees) == expected
    pairs = [And((_atom(0), tree)) for tree in trees]
    assert cache.count_rows(pairs) == [int(_by_hand(source, tree).sum()) for tree in pairs]
    assert source.scans == [[_atom(0)]]
    assert [cache._count_known(tree) for tree in trees] == expected
    assert cache._count_known(_atom(1)) is None


@pytest.mark.parametrize("kept", [4, 1000])
def test_a_comparison_that_comes_again_beside_known_atoms_gets_a_slot_where_nothing_gives_way(kernel, kept):
    assert kernel
    source = Flags(5000)
    trees = [And((_atom(0), _atom(1), _compare(operator, value))) for operator in (">", "<=") for value in range(-6, 6)]
    expected = [int(_by_hand(source, tree).sum()) for tree in trees]
    cache = Bitmaps(source)
    cache._quick_kept = kept
    cache.sort(["x"])
    cache.count_rows([_atom(0), _atom(1)])
    assert cache.count_rows(trees) == expected
    assert all(cache._find_slots(tree) is None for tree in trees)
    for _ in range(2):
        assert [cache.count_rows([tree])[0] for tree in reversed(trees)] == expected[::-1]
        assert cache.count_rows(trees) == expected
    assert sum(cache._find_slots(tree) is not None for tree in trees) == min(kept, len(trees))
    assert len(source.scans) == 1


def test_a_column_is_sorted_after_some_constants_were_seen():
    source = Flags(5000)
    cache = Bitmaps(source)
    for value in range(-20, 20):
        tree = And((_atom(0), _compare("<", value)))
        assert cache.count_rows([tree]) == [int(_by_hand(source, tree).sum())]
    assert len(source.scans) < 12


class Lettered(Flags):
    """Rows whose every column is sorted from the same numbers, with a note of each time that one is."""

    def __init__(self, rows):
        super().__init__(rows)
        self.read = []

    def read_numbers(self, column):
        self.read.append(column)
        return super().read_numbers("x")


def _lettered(column, value):
    return ValueComparison("<", Field(column, "integer"), Number(value))


def _with_room_for(columns, *, rows=5000):
    source = Lettered(rows)
    return source, Bitmaps(source, memory=2 * columns * SortedColumn.count_bytes(rows))


def test_columns_asked_about_in_turn_are_not_sorted_in_turn():
    """With room for one of two columns, either in one batch or one question at a time, one is sorted, and once."""
    source, cache = _with_room_for(1)
    cache.count_rows([And((_lettered("x", value), _lettered("y", value))) for value in range(-30, 30)])
    assert len(source.read) == 1
    source, cache = _with_room_for(1)
    for value in range(-30, 30):
        cache.count_rows([And((_lettered("x", value), _lettered("y", value)))])
        cache.count_rows([_lettered("xy"[value % 2], value + 100)])
    assert len(source.read) == 1
    assert cache._columns == 1


def test_a_sorted_column_gives_way_to_one_that_is_asked_about_instead():
    source, cache = _with_room_for(2)
    for column in ("x", "y", "z"):
        for value in range(-20, 20):
            cache.count_rows([_lettered("x", 100 * value), _lettered(column, value)])
    assert source.read == ["x", "y", "z"]
    assert set(cache._ranks) == {"x", "z"}


def test_columns_named_to_be_sorted_do_not_push_one_another_out():
    source, cache = _with_room_for(2)
    cache.sort(["w"])
    cache.sort(["x", "y", "z"])
    assert source.read == ["w", "x", "y"]
    assert list(cache._ranks) == ["x", "y"]


def test_trees_that_have_no_room_together_are_handed_back_unless_they_share_atoms(kernel):
    """Nothing that is known is dropped for them; six trees over three atoms are worth the scan of three."""
    assert kernel
    source = Flags(10_000)
    cache = Bitmaps(source, memory=2 * 4 * 8 * count_words(source.rows))
    cache.count_rows([_atom(0)])
    apart = [And((_atom(number), _atom(number + 1))) for number in (1, 3, 5, 7)]
    assert cache.count_rows([*apart, _atom(0)]) == [None] * 4 + [int(source.truth(_atom(0)).sum())]
    assert source.scans == [[_atom(0)]]
    shared = [
        kind((_atom(a), _atom(b)))
        for first in (1, 5)
        for kind in (And, Or)
        for a, b in itertools.combinations(range(first, first + 3), 2)
    ]
    assert cache.count_rows(shared) == [int(_by_hand(source, tree).sum()) for tree in shared]


COLUMNS = {
    "real": np.random.default_rng(1).normal(size=20_003),
    "ties": np.random.default_rng(2).integers(0, 3, 20_003).astype(np.float64),
    "heavy": np.where(np.random.default_rng(3).random(20_003) < 0.95, 0.0, np.random.default_rng(4).normal(size=20_003)),
    "wild": np.random.default_rng(5).choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1e308, 1.0], 20_003),
    "wide": np.random.default_rng(6).choice([-(2**63), 2**63 - 1, 2**53 + 1, 2**53, 0, 7], 20_003),
    "none": np.full(130, np.nan),
    "one": np.array([3.0]),
}


@pytest.mark.parametrize("name", sorted(COLUMNS))
def test_ranks_mark_the_rows_that_comparisons_name(kernel, name):
    assert kernel
    data = COLUMNS[name]
    valid = np.random.default_rng(9).random(data.size) < 0.9
    ranks = SortedColumn.sort(data, valid)
    kind = "real" if data.dtype.kind == "f" else "integer"
    there = valid & ~np.isnan(data)
    constants = [*data[there][:40].tolist(), *((0.1, -3.5, 1e300) if kind == "real" else (5, -5))]
    compare = {"<": np.less, ">": np.greater, "=": np.equal, "<=": np.less_equal, ">=": np.greater_equal, "<>": np.not_equal}
    trees = [
        (ValueComparison(operator, Field("x", kind), Number(value)), how(data, value) & there)
        for value in constants
        for operator, how in compare.items()
    ]
    trees += [
        (Member(Field("x", kind), tuple(constants[:5]), negated=True), ~np.isin(data, constants[:5]) & there),
        (Member(Field("x", kind), tuple(constants[:5])), np.isin(data, constants[:5]) & there),
        (Null(Field("x", kind), negated=True), there),
    ]
    for tree, expected in trees:
        assert find_column(tree) == "x"
        wanted = find_spans(tree, ranks)
        assert sum(high - low for low, high in wanted) == expected.sum()
        words = np.zeros(count_words(data.size), dtype=np.uint64)
        ranks.mark_rows(wanted, words)
        assert np.array_equal(unpack(words, rows=data.size), expected)
        assert int(np.bitwise_count(words).sum()) == expected.sum()


def test_work_at_the_edges_is_bounded_whatever_the_ties():
    """No end of a range lies one row in 32 away from the nearest cut, and there are no more than 32 bitmaps."""
    for data in COLUMNS.values():
        ranks = SortedColumn.sort(data, np.ones(data.size, dtype=np.bool_))
        ends = np.unique([np.searchsorted(ranks.values, ranks.values, side=side) for side in ("left", "right")])
        distances = np.abs(ends[:, None] - np.array(ranks.cuts)).min(axis=1)
        assert distances.max(initial=0) < max(1, ranks.values.size / 32)
        assert len(ranks.cuts) == len(ranks.below) + 1 <= 33


def test_sorted_columns_take_no_more_than_their_size_says():
    for data in COLUMNS.values():
        ranks = SortedColumn.sort(data, np.ones(data.size, dtype=np.bool_))
        held = ranks.values.nbytes + ranks.order.nbytes + ranks.below.base.nbytes
        assert held + 8 * len(ranks.cuts) <= SortedColumn.count_bytes(data.size)


@pytest.mark.parametrize("words", [8, 512, 1040])
def test_conjunctions_of_any_width_and_number(kernel, words):
    """Lines that share slots are counted together, one by one, or alone: always the same."""
    assert kernel
    rng = np.random.default_rng(words)
    arena = allocate_arena(6, words)
    arena[:] = rng.integers(0, 2**64, arena.shape, dtype=np.uint64)
    for width, queries in itertools.product((1, 2, 3, 4, 6), (1, 2, 7, 40)):
        slots = rng.integers(0, len(arena), (queries, width))
        expected = [int(np.bitwise_count(np.bitwise_and.reduce(arena[line])).sum()) for line in slots]
        assert count_conjunctions(arena, slots).tolist() == expected
        assert [count_conjunction(arena, line) for line in slots.tolist()] == expected


def test_every_bitmap_begins_where_a_cache_line_does():
    for slots, words in ((1, 8), (3, 512), (7, 1040)):
        arena = allocate_arena(slots, words)
        assert arena.shape == (slots, words)
        assert arena.flags.c_contiguous
        assert all(bitmap.ctypes.data % 64 == 0 for bitmap in arena)


def test_programs_count_what_their_steps_say(kernel):
    assert kernel
    arena = np.random.default_rng(8).integers(0, 2**63, (6, 1040)).astype(np.uint64)
    a, b, c, d, e, _ = arena
    first = [(PUSH, 0), (AND, 1), (PUSH, 2), (OR, 3), (OR_TOP, 0), (PUSH, 4), (AND_TOP, 0)]
    second = [(PUSH, 2), (OR, 3)]
    steps = np.array(first + second, dtype=np.int64)
    counts = count_programs(arena, steps, np.array([0, 7, 9]), depth=2)
    expected = [((a & b) | (c | d)) & e, c | d]
    assert counts.tolist() == [int(np.bitwise_count(words).sum()) for words in expected]


@pytest.mark.parametrize("start", [0, 8, 64, 3, 13, 77])
def test_packing_at_any_row(start):
    flags = np.random.default_rng(start).random(200) < 0.5
    words = np.zeros(count_words(400), dtype=np.uint64)
    before = np.random.default_rng(1).random(start) < 0.5
    pack(before, words)
    pack(flags, words, start=start)
    assert np.array_equal(unpack(words, rows=start + 200), np.concatenate([before, flags]))


def test_numba_is_left_alone_where_it_is_switched_off(monkeypatch):
    for value, expected in (("1", None), ("0", bitmaps_compiled), ("", bitmaps_compiled)):
        monkeypatch.setenv("NUMBA_DISABLE_JIT", value)
        assert kernels.LazyKernels("bitmaps_compiled", after=1 << 26)(1 << 40) is expected


def test_only_large_work_waits_for_numba(monkeypatch):
    """A question about a large table does not, nor its first search of a sorted column."""
    fresh = kernels.LazyKernels("bitmaps_compiled", after=1 << 26, warm_up=bitmaps._warm_up)
    monkeypatch.setattr(bitmaps, "compiled", fresh)
    arena = np.ones((3, 1 << 14), dtype=np.uint64)
    assert count_conjunction(arena, [0, 1, 2]) == 1 << 14
    assert not fresh._settled
    assert fresh._loader is None
    assert fresh(1 << 26) is bitmaps_compiled


def test_after_much_work_on_small_tables_numba_is_loaded_beside_it(monkeypatch):
    go_on = threading.Event()
    monkeypatch.setattr(kernels, "load_kernels", lambda _: bitmaps_compiled if go_on.wait(60) else None)
    fresh = kernels.LazyKernels("bitmaps_compiled", after=1000, warm_up=bitmaps._warm_up)
    monkeypatch.setattr(bitmaps, "compiled", fresh)
    arena = np.random.default_rng(3).integers(0, 2**63, (3, 160)).astype(np.uint64)
    expected = int(np.bitwise_count(arena[0] & arena[1] & arena[2]).sum())
    assert [count_conjunction(arena, [0, 1, 2]) for _ in range(5)] == [expected] * 5
    assert not fresh._settled
    go_on.set()
    fresh._loader.join()
    assert fresh(480) is bitmaps_compiled
    assert count_conjunction(arena, [0, 1, 2]) == expected


def test_large_batches_in_several_threads_are_the_same(kernel):
    assert kernel
    rng = np.random.default_rng(4)
    arena = rng.integers(0, 2**63, (16, 4096)).astype(np.uint64)
    slots = rng.integers(0, 16, (3000, 3))
    expected = [int(np.bitwise_count(arena[a] & arena[b] & arena[c]).sum()) for a, b, c in slots[::100]]
    assert count_conjunctions(arena, slots)[::100].tolist() == expected


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("rows", [1, 64, 65, 5_000, 9_000_001])
def test_codes_of_kept_rows_are_counted(rows):
    """What lies behind the last row is not; the control counts flags."""
    random = np.random.default_rng(rows)
    arena = allocate_arena(9, count_words(rows))
    runs = [words.view(np.uint8) for words in arena[:8]]
    for run in runs:
        run[:] = random.integers(0, 256, run.size)
    flags = random.random(rows) < 0.3
    arena[8] = 0
    pack(flags, arena[8])
    codes = np.concatenate(runs)[:rows][flags]
    assert count_bytes(runs, arena[8], rows=rows)[:255].tolist() == np.bincount(codes, minlength=256)[:255].tolist()
