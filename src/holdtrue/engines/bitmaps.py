"""Boolean queries without a scan: packed atoms and sorted columns, kept under a memory cap, the least used dropped first.

Arrays with a number for each row, such as the codes of cells, lie in slots beside the atoms, as many as they take.

Law: a count is the number of rows that satisfy the tree, the same integer whether its atoms were known or not, with or
without numba. Needs: rows that stay in one order while the cache lives, which every engine gives. What is kept never
takes more than ``memory`` bytes; a tree that does not fit, or whose atoms would only push one another out, is handed back
uncounted, and the engine scans for it. Whether something is kept depends on the queries asked and on the number of rows,
never on a cell.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from holdtrue.engines.sorted_columns import SortedColumn, find_spans
from holdtrue.kernels import Words
from holdtrue.kernels.bitmaps import (
    AND,
    AND_TOP,
    OR,
    OR_TOP,
    PUSH,
    allocate_arena,
    count_conjunction,
    count_conjunctions,
    count_programs,
    count_words,
    pack,
    run_program,
)
from holdtrue.queries.syntax_tree import (
    And,
    Boolean,
    Constant,
    Field,
    Member,
    Null,
    Number,
    Or,
    Text,
    ValueComparison,
    notation,
)

__all__ = ["MEMORY", "AtomStore", "BitmapSource", "Bitmaps", "Progress", "RowArray", "find_column"]

Progress = Callable[[float], None]

MEMORY = 1 << 30
_MOST_SLOTS = 1 << 14
_SEEN_BEFORE_SORTING = 8
_QUICK_KEPT = 64
_QUICK_BYTES = 1 << 24  # or as many as fit a large cache
_MANY = 16
_MANY_ROWS = 1 << 17


class BitmapSource(Protocol):
    """What bitmaps need from an engine: its rows, to be marked or read."""

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        ...

    def mark_rows(self, atoms: Sequence[Boolean], words: Sequence[Words], *, progress: Progress | None) -> None:
        """Set the bits of the rows that satisfy each atom, in words that are zero before."""
        ...

    def read_numbers(self, column: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Return the values of a column of numbers and which of them are there, in the order of the bits."""
        ...


class AtomStore(Protocol):
    """Bitmaps of atoms that outlast a process: what is read was written for the same rows in the same order."""

    def read(self, atom: Boolean, *, size: int) -> bytes | None:
        """Return the bitmap of an atom, of this many bytes; None where there is none that can be trusted."""
        ...

    def write(self, atom: Boolean, content: bytes) -> bool:
        """Keep the bitmap of an atom; return whether there was room."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class RowArray:
    """An array with one number of a type for each row, or ``size`` numbers: ``make`` yields it, a piece at a time."""

    type: np.dtype[Any]
    make: Callable[[], Iterable[npt.NDArray[Any]]]
    size: int | None = None


class Bitmaps:
    """The cache of one engine. Not safe for several threads at once: the engine's lock is held around it."""

    def __init__(self, source: BitmapSource, *, memory: int = MEMORY) -> None:
        self._source = source
        self._words = count_words(source.rows)
        # Half for atoms, half for sorted columns. Pages of the arena are not there before they are written.
        self._slots = min(_MOST_SLOTS, memory // 2 // (8 * self._words))
        self._columns = memory // 2 // SortedColumn.count_bytes(source.rows)
        self._arena = allocate_arena(self._slots, self._words)
        self._places: dict[Hashable, int] = {}
        self._empty = list(range(self._slots - 1, -1, -1))
        self._used = [0] * self._slots
        # Atoms of sorted columns, made again in no time: few are kept, so that their slots stay in the processor's cache.
        self._quick: OrderedDict[Hashable, None] = OrderedDict()
        self._quick_kept = max(_QUICK_KEPT, _QUICK_BYTES // (8 * self._words))
        self._once: set[Hashable] = set()  # of them, those that were counted without a slot
        self._clock = 0
        self.store: AtomStore | None = None
        self._scanned: dict[Hashable, Boolean] = {}  # the atoms in slots that were scanned, and that no store has
        self._ranks: OrderedDict[str, SortedColumn] = OrderedDict()
        self._seen: Counter[str] = Counter()

    @property
    def held(self) -> int:
        """Return how many bytes are in use."""
        return len(self._places) * 8 * self._words + len(self._ranks) * SortedColumn.count_bytes(self._source.rows)

    def count_rows(self, trees: Sequence[Boolean], *, progress: Progress | None = None) -> list[int | None]:
        """Return how many rows satisfy each tree; None for one that has more atoms than the cap has room for.

        Where the trees do not have room together, None also for those whose own scan is the shorter way.
        """
        if len(trees) == 1 and (found := self._count_known(trees[0])) is not None:
            return [found]
        self._clock += 1
        counted: list[int | None] = [None] * len(trees)
        known: list[_Placed] = []
        waiting: list[tuple[int, Boolean]] = []
        for number, tree in enumerate(trees):
            slots = self._find_slots(tree)
            if slots is not None:
                known.append((number, tree, slots))
            elif isinstance(tree, Constant):
                counted[number] = self._source.rows if tree.value else 0
            else:
                counted[number] = self._count_by_rank(tree)
                if counted[number] is None:
                    waiting.append((number, tree))
        self._count_queries(known, counted)
        if not waiting:
            return counted
        self._sort_if_worth(tree for _, tree in waiting)
        for number, tree in waiting:
            counted[number] = self._count_by_rank(tree)
        groups = list(self._group_queries([each for each in waiting if counted[each[0]] is None]))
        for group in groups:
            atoms = [atom for _, tree in group for atom in _list_atoms(tree)]
            # To scan an atom takes longer than to scan a tree: of use for a later question, or for several trees at once.
            # Groups push one another out, so there is no later question.
            if len(groups) > 1 and self._count_unknown(atoms) > len(group):
                continue
            self._fill_slots(atoms, progress)
            self._count_queries([(number, tree, self._find_slots(tree) or []) for number, tree in group], counted)
        return counted

    def find_rows(self, tree: Boolean, *, progress: Progress | None = None) -> Words | None:
        """Return a new bitmap of the rows that satisfy a tree; None where its atoms have no room together."""
        if isinstance(tree, Constant):
            words = np.zeros(self._words, dtype=np.uint64)
            pack(np.full(self._source.rows, tree.value), words)
            return words
        if len({_key_of(atom) for atom in _list_atoms(tree)}) > self._slots:
            return None
        self._clock += 1
        slots = self._find_slots(tree)
        if slots is None:
            self._sort_if_worth([tree])
            self._fill_slots(_list_atoms(tree), progress)
            slots = self._find_slots(tree) or []
        for slot in slots:
            self._used[slot] = self._clock
        return run_program(self._arena, _compile_queries([(0, tree, slots)])[0])

    def read_kept(self, trees: Sequence[Boolean]) -> bool:
        """Return whether all atoms of trees have slots now, without a scan: those of the store are read from there."""
        missing = {key: atom for tree in trees for atom in _list_atoms(tree) if (key := _key_of(atom)) not in self._places}
        if self.store is None or len(missing) > len(self._empty):
            return not missing
        for key, atom in missing.items():
            if not self._read_atom(atom, self._empty[-1]):
                return False
            self._places[key] = self._empty.pop()
        return True

    def write_kept(self) -> None:
        """Leave the bitmaps that were scanned to the store, those that were used last first, while it has room."""
        if self.store is not None:
            for key in sorted(self._scanned, key=lambda key: -self._used[self._places[key]]):
                if not self.store.write(self._scanned[key], self._arena[self._places[key]].tobytes()):
                    break
            self._scanned.clear()

    def _read_atom(self, atom: Boolean, slot: int) -> bool:
        """Return whether the bitmap of an atom was in the store, and write it into a slot."""
        found = None if self.store is None else self.store.read(atom, size=8 * self._words)
        if found is not None:
            self._arena[slot] = np.frombuffer(found, dtype=np.uint64)
        return found is not None

    def keep_arrays(self, wanted: "Mapping[str, RowArray]") -> "dict[str, list[npt.NDArray[Any]]] | None":
        """Return arrays with one number for each row, made now unless they are kept; None where they have no room together.

        Each comes as the runs that its slots hold, in order, to be read before the cache is asked again.
        """
        keys = {name: self._list_keys(name, array) for name, array in wanted.items()}
        needed = set(chain.from_iterable(keys.values()))
        if len(needed) > self._slots:
            return None
        self._clock += 1
        for name, array in wanted.items():
            missing = [key for key in keys[name] if key not in self._places]
            if missing:
                self._make_room(len(missing), needed)
                self._fill_array(array, keys[name], missing)
        found = {name: [self._places[key] for key in keys[name]] for name in wanted}
        for slot in chain.from_iterable(found.values()):
            self._used[slot] = self._clock
        return {name: [self._arena[slot].view(wanted[name].type) for slot in slots] for name, slots in found.items()}

    def count_codes(self, tree: Boolean, name: str, codes: RowArray) -> tuple[npt.NDArray[np.int64], int] | None:
        """Return how many rows of a tree over one sorted column have each code of a byte, and how many rows it has.

        The codes are kept in the column's order, and how many of each lie before its cuts; so only the rows between an end
        and the nearest cut are looked at. None where the column is not sorted, or rows are so few that all of them may be.
        """
        column = find_column(tree)
        ranks = None if column is None else self._ranks.get(column)
        if column is None or ranks is None or self._source.rows < _MANY_ROWS or codes.type != np.uint8:
            return None
        key, size, held = f"{name} by {column}", len(ranks.cuts) << 8, list[npt.NDArray[Any]]()
        wanted = {
            key: RowArray(codes.type, lambda: held),
            f"before {key}": RowArray(np.dtype(np.int64), lambda: [_count_before(held[0], ranks.cuts)], size),
        }
        if any(each not in self._places for label, array in wanted.items() for each in self._list_keys(label, array)):
            if (unordered := self.keep_arrays({name: codes})) is None:
                return None
            held.append(np.concatenate(unordered[name])[ranks.order])
        if (kept := self.keep_arrays(wanted)) is None:
            return None
        self._note_use(column)
        runs, tables = kept[key], kept[f"before {key}"]
        spans, counts = find_spans(tree, ranks), np.zeros(1 << 8, dtype=np.int64)
        for low, high in spans:
            for end, sign in ((low, -1), (high, 1)):
                place = ranks.find_cut(end)
                cut = ranks.cuts[place]
                counts += sign * _cut_slice(tables, place << 8, (place + 1) << 8)
                counts += (sign if end > cut else -sign) * _count_slice(runs, min(cut, end), max(cut, end))
        return counts, sum(high - low for low, high in spans)

    def _list_keys(self, name: str, array: RowArray) -> list[Hashable]:
        """Return the keys of the slots that an array takes."""
        size = array.type.itemsize * (64 * self._words if array.size is None else array.size)
        return [(name, place) for place in range(-(-size // (8 * self._words)))]

    def _fill_array(self, array: "RowArray", keys: Sequence[Hashable], missing: Sequence[Hashable]) -> None:
        """Write an array into slots; nothing is remembered of one that fails."""
        taken = self._empty[len(self._empty) - len(missing) :]
        places = self._places | dict(zip(missing, taken, strict=True))
        runs = [self._arena[places[key]].view(array.type) for key in keys]
        start = 0
        for piece in array.make():
            done = 0
            while done < piece.size:
                run, place = divmod(start + done, runs[0].size)
                some = piece[done : done + runs[0].size - place]
                runs[run][place : place + some.size] = some
                done += some.size
            start += piece.size
        self._places = places
        del self._empty[len(self._empty) - len(missing) :]

    def _count_known(self, tree: Boolean) -> int | None:
        """Return the count of one tree of known atoms or over one sorted column, the quick way; None for any other."""
        slots = self._find_slots(tree)
        if slots is None:
            return self._count_by_rank(tree)
        self._clock += 1
        for slot in slots:
            self._used[slot] = self._clock
        if _is_conjunction(tree, slots):
            return count_conjunction(self._arena, slots)
        steps, starts, depth = _compile_queries([(0, tree, slots)])
        return int(count_programs(self._arena, steps, starts, depth=depth)[0])

    def _find_slots(self, tree: Boolean) -> list[int] | None:
        """Return the slots of a tree's atoms from left to right, or None where one has none."""
        places = self._places
        try:
            if type(tree) is And:
                # The usual atom, by the key that it has in _key; of all others one of these fields is missing.
                return [places[atom.operator, atom.left.column, atom.right.value] for atom in tree.children]  # type: ignore[union-attr]
        except KeyError:
            return None
        except AttributeError:
            pass
        try:
            return [places[_key_of(atom)] for atom in _list_atoms(tree)]
        except KeyError:
            return None

    def sort(self, columns: Iterable[str]) -> None:
        """Sort columns of numbers ahead of the first comparison, as far as the cap has room for them all."""
        named = list(dict.fromkeys(columns))
        for column in named:
            if column in self._ranks or not self._columns:
                continue
            if len(self._ranks) >= self._columns:
                idle = next((held for held in self._ranks if held not in named), None)
                if idle is None:
                    return
                del self._ranks[idle]
            self._ranks[column] = SortedColumn.sort(*self._source.read_numbers(column))
            del self._seen[column]

    def _sort_if_worth(self, trees: Iterable[Boolean]) -> None:
        """Sort the columns that were compared with enough constants for sorting to pay.

        Where all room is taken a column must lead by as many over the sorted one that was used longest ago, and none that
        the same trees ask about gives way: columns that are asked about in turn would else be sorted in turn, and to sort
        one takes as long as many scans.
        """
        unplaced = {key: atom for tree in trees for atom in _list_atoms(tree) if (key := _key_of(atom)) not in self._places}
        asked = Counter(column for atom in unplaced.values() if (column := find_column(atom)) is not None)
        self._seen.update({column: number for column, number in asked.items() if column not in self._ranks})
        self.sort(
            column for column, _ in asked.most_common() if column in self._ranks or self._seen[column] > _SEEN_BEFORE_SORTING
        )
        for column, number in asked.items():
            if column in self._ranks:
                self._note_use(column, times=number)

    def _note_use(self, column: str, *, times: int = 1) -> None:
        """Record that a sorted column was used."""
        if len(self._ranks) >= self._columns and column == next(iter(self._ranks)):
            self._seen -= Counter(dict.fromkeys(self._seen, times))
        self._ranks.move_to_end(column)

    def _count_by_rank(self, tree: Boolean) -> int | None:
        """Return the count of a tree over one sorted column, by bisection alone."""
        if not self._ranks:
            return None
        column = find_column(tree)
        if column is None:
            return self._count_within(tree) if type(tree) is And else None
        ranks = self._ranks.get(column)
        if ranks is None:
            return None
        self._note_use(column)
        return sum(high - low for low, high in find_spans(tree, ranks))

    def _count_within(self, tree: And) -> int | None:
        """Return the count of known atoms joined with tests of one sorted column, for which no bitmap is written."""
        tests, slots = [], []
        for child in tree.children:
            slot = None if isinstance(child, (And, Or)) else self._places.get(_key_of(child))
            if slot is None:
                tests.append(child)
            else:
                slots.append(slot)
        column = find_column(tests[0]) if slots else None
        ranks = None if column is None else self._ranks.get(column)
        if column is None or ranks is None or any(find_column(test) != column for test in tests):
            return None
        self._note_use(column)
        if len(tests) == 1 and not isinstance(tests[0], (And, Or)) and self._keep_again(tests[0]):
            slots.append(self._places[_key_of(tests[0])])
        for slot in slots:
            self._used[slot] = self._clock
        if len(slots) == len(tree.children):
            return count_conjunction(self._arena, slots)
        words = self._arena[slots[0]] if len(slots) == 1 else np.bitwise_and.reduce(self._arena[slots], axis=0)
        return ranks.count_within(find_spans(And(tuple(tests)), ranks), words)

    def _keep_again(self, atom: Boolean) -> bool:
        """Return whether an atom of a sorted column got a slot: it was counted before, and nothing gives way to it."""
        key = _key_of(atom)
        if key not in self._once:
            if len(self._once) >= _MOST_SLOTS:
                self._once.clear()
            self._once.add(key)
            return False
        if not self._empty or len(self._quick) >= self._quick_kept:
            return False
        self._fill_slots([atom], None)
        return True

    def _group_queries(self, waiting: Sequence[tuple[int, Boolean]]) -> Iterator[list[tuple[int, Boolean]]]:
        """Yield queries whose atoms have room together; leave out those that never have."""
        group: list[tuple[int, Boolean]] = []
        needed: set[Hashable] = set()
        for number, tree in waiting:
            keys = {_key_of(atom) for atom in _list_atoms(tree)}
            if len(keys) > self._slots:
                continue
            if len(needed | keys) > self._slots:
                yield group
                group, needed = [], set()
            group.append((number, tree))
            needed |= keys
        if group:
            yield group

    def _count_unknown(self, atoms: Sequence[Boolean]) -> int:
        """Return how many atoms have neither a slot nor a sorted column to be made from."""
        missing = {key: atom for atom in atoms if (key := _key_of(atom)) not in self._places}
        return sum(find_column(atom) not in self._ranks for atom in missing.values())

    def _fill_slots(self, atoms: Sequence[Boolean], progress: Progress | None) -> None:
        """Give every atom a slot and fill it; nothing is remembered of a scan that fails."""
        needed = {_key_of(atom): atom for atom in atoms}
        missing = [key for key in needed if key not in self._places]
        self._make_room(len(missing), needed)
        slots = self._empty[len(self._empty) - len(missing) :]
        scanned: list[tuple[Hashable, int]] = []
        quick: list[Hashable] = []
        for key, slot in zip(missing, slots, strict=True):
            atom = needed[key]
            column = find_column(atom)
            ranks = None if column is None else self._ranks.get(column)
            if ranks is not None:
                ranks.mark_rows(find_spans(atom, ranks), self._arena[slot])
                quick.append(key)
            elif not self._read_atom(atom, slot):
                self._arena[slot].fill(0)
                scanned.append((key, slot))
        if scanned:
            words = [self._arena[slot] for _, slot in scanned]
            self._source.mark_rows([needed[key] for key, _ in scanned], words, progress=progress)
            self._scanned.update({key: needed[key] for key, _ in scanned})
        self._places.update(zip(missing, slots, strict=True))
        del self._empty[len(self._empty) - len(missing) :]
        self._quick.update(dict.fromkeys(quick))

    def _make_room(self, number: int, needed: Container[Hashable]) -> None:
        """Empty slots: of quick atoms beyond the few that are kept, then of the atoms that were used longest ago."""
        for key in list(islice(self._quick, max(0, len(self._quick) + number - self._quick_kept))):
            if key not in needed:
                self._drop_atom(key)
        lacking = number - len(self._empty)
        if lacking > 0:
            # A few more than needed, so that this is seldom done.
            old = sorted((self._used[slot], slot, key) for key, slot in self._places.items() if key not in needed)
            for _, _, key in old[: max(lacking, self._slots // 16)]:
                self._drop_atom(key)

    def _drop_atom(self, key: Hashable) -> None:
        self._empty.append(self._places.pop(key))
        self._quick.pop(key, None)
        self._scanned.pop(key, None)

    def _count_queries(self, queries: Sequence["_Placed"], counted: list[int | None]) -> None:
        """Count queries whose atoms all have slots: conjunctions of one width together, the others as programs."""
        flat: dict[int, list[_Placed]] = {}
        other: list[_Placed] = []
        for query in queries:
            _, tree, slots = query
            if _is_conjunction(tree, slots):
                flat.setdefault(len(slots), []).append(query)
            else:
                other.append(query)
        for slot in set(chain.from_iterable(slots for _, _, slots in queries)):
            self._used[slot] = self._clock
        for width, group in flat.items():
            if len(group) < _MANY:
                for number, _, slots in group:
                    counted[number] = count_conjunction(self._arena, slots)
                continue
            lines = np.fromiter(
                chain.from_iterable(slots for _, _, slots in group), dtype=np.int64, count=width * len(group)
            )
            counts = count_conjunctions(self._arena, lines.reshape(-1, width)).tolist()
            for (number, _, _), count in zip(group, counts, strict=True):
                counted[number] = count
        if other:
            steps, starts, depth = _compile_queries(other)
            counts = count_programs(self._arena, steps, starts, depth=depth).tolist()
            for (number, _, _), count in zip(other, counts, strict=True):
                counted[number] = count


_Placed = tuple[int, Boolean, list[int]]


def find_column(tree: Boolean) -> str | None:
    """Return the column of a comparison of numbers or dates with constants of its own type; None for anything else."""
    match tree:
        case ValueComparison(left=Field(column=name, type=kind), right=Number(type=constant)):
            return name if kind == constant else None
        case Member(operand=Field(column=name, type="integer" | "real" | "date" | "timestamp")):
            return name
        case Null(operand=Field(column=name, type="integer" | "real" | "date" | "timestamp"), negated=True):
            return name
        case And(children=children) | Or(children=children):
            first = find_column(children[0])
            return first if first is not None and all(find_column(child) == first for child in children[1:]) else None
        case _:
            return None


def _count_before(codes: npt.NDArray[Any], cuts: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return how many of the codes before each cut are 0, 1, …, 255, one cut after the other."""
    pieces = [np.bincount(codes[low:high], minlength=1 << 8) for low, high in pairwise(cuts)]
    return np.cumsum([np.zeros(1 << 8, dtype=np.int64), *pieces], axis=0, dtype=np.int64).ravel()


def _count_slice(runs: Sequence[npt.NDArray[Any]], start: int, stop: int) -> npt.NDArray[np.int64]:
    """Return how many codes from one place to another, in an array that lies in runs of one size, are 0, 1, …, 255."""
    return np.bincount(_cut_slice(runs, start, stop), minlength=1 << 8)


def _cut_slice(runs: Sequence[npt.NDArray[Any]], start: int, stop: int) -> npt.NDArray[Any]:
    """Return what lies from one place to another in an array that lies in runs of one size."""
    (first, begin), (last, end) = divmod(start, runs[0].size), divmod(stop, runs[0].size)
    if first == last:
        return runs[first][begin:end]
    inner = [runs[first][begin:], *runs[first + 1 : last]]
    return np.concatenate([*inner, runs[last][:end]] if end else inner)


def _is_conjunction(tree: Boolean, slots: Sequence[int]) -> bool:
    """Return whether a tree with this many atoms is a conjunction of them, or a single atom."""
    return len(slots) == len(tree.children) if type(tree) is And else type(tree) is not Or


def _list_atoms(tree: Boolean) -> Sequence[Boolean]:
    """Return the leaves of a tree from left to right, repeats included."""
    if not isinstance(tree, (And, Or)):
        return (tree,)
    for child in tree.children:
        if isinstance(child, (And, Or)):
            return [atom for child in tree.children for atom in _list_atoms(child)]
    return tree.children


def _key_of(atom: Boolean) -> Hashable:
    """Return the dictionary key of an atom, which is quick to hash and compare: its notation, or less for the usual ones.

    A column has one type, so a column, an operator and a constant say it all.
    """
    if isinstance(atom, ValueComparison):
        left, right = atom.left, atom.right
        if isinstance(left, Field) and isinstance(right, (Number, Text)):
            return atom.operator, left.column, right.value
    return notation(atom)


def _compile_queries(queries: Sequence[_Placed]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Return the steps of all queries, where each begins, and how many bitmaps any of them holds at once."""
    steps: list[int] = []
    starts = [0]
    deepest = 1
    for _, tree, slots in queries:
        deepest = max(deepest, _compile_tree(tree, iter(slots), steps))
        starts.append(len(steps) // 2)
    return np.array(steps, dtype=np.int64).reshape(-1, 2), np.array(starts, dtype=np.int64), deepest


def _compile_tree(tree: Boolean, slots: Iterator[int], steps: list[int]) -> int:
    """Append the steps that leave a tree's bitmap on the stack, each with its slot, and return the stack's height."""
    if not isinstance(tree, (And, Or)):
        steps += PUSH, next(slots)
        return 1
    with_slot, with_top = (AND, AND_TOP) if isinstance(tree, And) else (OR, OR_TOP)
    highest = _compile_tree(tree.children[0], slots, steps)
    for child in tree.children[1:]:
        if isinstance(child, (And, Or)):
            highest = max(highest, 1 + _compile_tree(child, slots, steps))
            steps += with_top, 0
        else:
            steps += with_slot, next(slots)
    return highest
