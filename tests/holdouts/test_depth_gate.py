"""The gate by depth through the public calls (V1): what a yes needs, at which level, and what else is told."""

import json
import math
import stat
from threading import Thread

import numpy as np
import pytest

import holdtrue as ht
from holdouts.interrupting import kill_during, when_measured
from holdouts.old_gates import open_counted
from holdtrue.bounds.gate_levels import depth_levels
from holdtrue.holdouts import Holdout, holdout, mode
from ledgers.conftest import server as postgres  # noqa: F401 - a fixture: the PostgreSQL server that the ledgers' tests start

CASES = 500
RANDOM = np.random.default_rng(101)
TRUTH = RANDOM.integers(0, 2, CASES)
START = np.where(RANDOM.random(CASES) < 0.4, 1 - TRUTH, TRUTH)
LEVELS = [math.exp(-level) for level in depth_levels(100, yes=5, beta=0.05)]


def winning(wins, losses, start=START):
    """Return predictions that win and lose against the start in so many cases."""
    right = np.flatnonzero(start == TRUTH)[:losses]
    wrong = np.flatnonzero(start != TRUTH)[:wins]
    return np.where(np.isin(np.arange(CASES), [*right, *wrong]), 1 - start, start)


def gate_of(**terms):
    return Holdout(TRUTH, looks=100, yes=5, incumbent=START, **terms)


@pytest.mark.parametrize(
    ("terms", "needed"),
    [({"labels": [0, 1]}, 38), ({"unseen": True}, 38), ({}, 41)],
    ids=["public differing set", "unseen", "betting"],
)
def test_v1_wins_needed_of_fifty_differing_cases(terms, needed):
    for wins, yes in ((needed - 1, False), (needed, True)):
        with gate_of(**terms) as gate:
            said = gate.gate(winning(wins, 50 - wins))
            assert said.yes is yes
            assert said.level == pytest.approx(LEVELS[0])
            # How many cases differ is told only where everybody can count them.
            assert said.wins_needed == (38 if "labels" in terms else None)


def test_v1_hits_of_unseen_submissions_are_compared_by_exact_pairs():
    hits = {wins: (winning(wins, 50 - wins) == TRUTH).astype(float) for wins in (37, 38)}
    for metric, unseen, found in (("hits", True, [False, True]), ("hits", False, [False] * 2), ("cases", True, [False] * 2)):
        terms = {"metric": metric, "incumbent": START == TRUTH, "unseen": unseen, "looks": 100, "yes": 5}
        for (_, results), yes in zip(hits.items(), found, strict=True):
            with Holdout(np.ones(CASES), **terms) as gate:
                said = gate.gate(cases=results)
                assert (said.yes, said.wins_needed) == (yes, None)
    with Holdout(np.ones(CASES), looks=100, yes=5, metric="hits", unseen=True) as gate:
        assert not gate.gate(cases=np.full(CASES, 0.999))  # less than 1 is no hit


def test_v1_levels_fall_with_each_yes_and_a_margin_is_bet_on():
    with gate_of(labels=[0, 1]) as gate:
        assert gate.gate(winning(60, 5)).level == pytest.approx(LEVELS[0])
        again = gate.gate(TRUTH, margin=0.2)
        assert (again.yes, again.level) == (True, pytest.approx(LEVELS[1]))
        assert again.interval.low == pytest.approx(0.2)
        assert again.wins_needed <= int((winning(60, 5) != TRUTH).sum())
        assert again.gain.low == 0.2


def test_v1_a_margin_below_0_asks_whether_it_is_worse_by_less():
    with gate_of(labels=[0, 1]) as gate:
        assert not gate.gate(winning(3, 10))
        said = gate.gate(winning(3, 10), margin=-0.2)
        assert (said.yes, said.gain.low, said.interval.low) == (True, -0.2, 0.0)
        assert said.claim.startswith("not worse than the incumbent by 0.2 or more, for these cases")
        assert not gate.gate(np.where(START == TRUTH, 1 - TRUTH, TRUTH), margin=-0.01)
        assert gate.gate(START, margin=-0.3).level == pytest.approx(LEVELS[1])
        for margin in (-1, 1, -1.5, math.nan):
            with pytest.raises(ht.InvalidParameter, match="margin"):
                gate.gate(TRUTH, margin=margin)
    with Holdout(TRUTH, looks=10, yes=1) as gate:
        with pytest.raises(ht.InvalidParameter, match="while there is no incumbent"):
            gate.gate(TRUTH, margin=-0.1)
        assert gate.looks_left == 10
        assert gate.gate(TRUTH, margin=0.5)


def test_v1_a_no_says_how_many_were_not_told_apart():
    with gate_of() as gate:
        for number in range(12):
            said = gate.gate(winning(3 + number, 3 + number))
        assert said.claim.startswith("of 12 candidates none is told apart from the incumbent")
        assert str(said).startswith("no: of 12 candidates none")
        assert gate.gate(winning(3, 3)).repeated
        yes = gate.gate(TRUTH)
        assert "better than the incumbent, for these cases with fresh labels" in yes.claim
        assert "95% confidence every yes of this gate is true" in str(yes)


def test_v1_an_unanswered_charge_counts_as_a_yes():
    gate = gate_of()
    kill_during(lambda: gate.gate(winning(9, 10)))
    assert gate.gate(winning(10, 9)).level == pytest.approx(LEVELS[1])
    # Its own answer comes at the level of its own charge, and the count is right again.
    assert gate.gate(winning(9, 10)).level == pytest.approx(LEVELS[0])
    assert gate.gate(winning(10, 10)).level == pytest.approx(LEVELS[0])
    gate.close()


def test_v1_looks_in_flight_are_judged_as_if_those_before_them_had_a_yes(tmp_path):
    path = tmp_path / "a.ledger"
    with gate_of(ledger=path) as one, Holdout(TRUTH, ledger=path) as other:
        told = []
        with when_measured(lambda: told.append(other.gate(winning(10, 9)))):
            told.append(one.gate(winning(9, 10)))
        assert [said.level for said in told] == pytest.approx([LEVELS[1], LEVELS[0]])
        assert one.gate(winning(10, 9)).level == pytest.approx(LEVELS[1])  # recorded for good
        assert one.gate(winning(10, 11)).level == pytest.approx(LEVELS[0])
    assert ht.verify(path)


def test_v1_nothing_of_the_cases_is_told_when_a_gate_is_opened(tmp_path):
    for number, truth in enumerate((TRUTH, 1 - TRUTH)):
        with Holdout(truth, looks=100, yes=5, incumbent=START, ledger=tmp_path / f"{number}.ledger") as gate:
            assert (gate.incumbent.low, gate.incumbent.high) == (0.0, 1.0)
            (told,) = [entry.body for entry in gate.ledger.entries() if entry.kind == "response"]
            assert '"taken"' in told


def test_v1_while_a_gate_is_open_nothing_else_about_its_cases_is_told(tmp_path):
    with Holdout(TRUTH, looks=10) as scores, ht.Leaderboard(TRUTH, submissions=5) as board:
        known = scores.score(START)
        gate = gate_of(ledger=tmp_path / "a.ledger")
        for tell in (lambda: scores.score(TRUTH), lambda: scores.compare(START, TRUTH), lambda: board.submit("a", START)):
            with pytest.raises(ht.RefusedError, match="a gate on these cases is open"):
                tell()
        assert scores.looks_left == 9
        assert scores.score(START).value == known.value  # was told before
        with pytest.raises(ht.RefusedError, match="a gate on these cases is open"):
            gate_of()
        with Holdout(TRUTH, ledger=tmp_path / "a.ledger") as same:  # one ledger, one tree
            assert same.looks_left == 100
        with Holdout(1 - TRUTH, looks=10) as others:
            others.score(START)
        with pytest.raises(ht.RefusedError, match="is a gate"):
            gate.score(START)
        gate.certify()
        assert scores.score(TRUTH).looks_left == 8
        with gate_of():
            pass
        gate.close()


def test_v1_an_open_gate_is_known_to_other_processes_by_its_ledger(tmp_path):
    gate_of(ledger=tmp_path / "a.ledger").close()
    mode._GATES.clear()  # as in another process
    with Holdout(TRUTH, looks=10, ledger=tmp_path / "b.ledger") as scores:
        for tell in (lambda: scores.score(TRUTH), lambda: gate_of(ledger=tmp_path / "c.ledger")):
            with pytest.raises(ht.RefusedError, match="a gate on these cases is open"):
                tell()
        assert scores.looks_left == 10
        with Holdout(1 - TRUTH, looks=10, ledger=tmp_path / "d.ledger") as others:
            others.score(START)
        notes = tmp_path / "holdtrue.gates"
        assert [path.name for path in notes.glob("*.json")] == ["a.ledger.json"]  # the one that was refused left none
        assert [stat.S_IMODE(path.stat().st_mode) for path in (notes, notes / "a.ledger.json")] == [0o700, 0o600]
        with Holdout(TRUTH, ledger=tmp_path / "a.ledger") as same:  # one ledger, one tree
            same.gate(TRUTH)
            same.certify()
        assert scores.score(TRUTH).looks_left == 9
    mode._GATES.clear()
    with pytest.raises(ht.RefusedError, match="while this gate was opened"):  # its terms say that nobody had told anything
        gate_of(ledger=tmp_path / "c.ledger")
    with gate_of(ledger=tmp_path / "e.ledger"):
        pass
    (tmp_path / "e.ledger").unlink()
    with Holdout(TRUTH, ledger=tmp_path / "b.ledger") as scores:  # a gate whose ledger is gone can say nothing more
        mode._GATES.clear()
        scores.score(START)


def test_v1_a_charge_without_an_answer_is_not_answered_while_a_gate_is_open(tmp_path):
    """A look that was charged and killed tells as much as a new one: also under its key it waits until the gate closes."""
    with Holdout(TRUTH, looks=10, ledger=tmp_path / "scores.ledger") as scores:
        kill_during(lambda: scores.score(START, key="first"))
    with gate_of(ledger=tmp_path / "gate.ledger") as gate, Holdout(TRUTH, ledger=tmp_path / "scores.ledger") as scores:
        assert gate.facts.told_before
        for _ in range(2):
            with pytest.raises(ht.RefusedError, match="a gate on these cases is open"):
                scores.score(START, key="first")
        gate.certify()
        said = scores.score(START, key="first")
        assert (said.looks_left, said.repeated) == (9, False)


def test_v1_a_gate_that_is_used_up_is_certified_before_another_opens_or_after_it_has_closed(tmp_path):
    first = Holdout(TRUTH, looks=10, yes=1, incumbent=START, ledger=tmp_path / "a.ledger")
    assert first.gate(winning(80, 0))
    with gate_of(ledger=tmp_path / "b.ledger") as second:
        assert second.facts.told_before
        for words in ({}, {"what": "gain"}, {"key": "mine"}):
            with pytest.raises(ht.RefusedError, match="a gate on these cases is open"):
                first.certify(**words)
        assert not first.budget.closed
        second.certify()
        said = first.certify()
    with gate_of(ledger=tmp_path / "c.ledger"):
        assert first.certify().certificate == said.certificate  # was told before
    first.close()


def test_v1_a_gate_that_is_closed_is_read_and_repeats_itself_while_another_is_open(tmp_path):
    with Holdout(TRUTH, looks=2, yes=1, incumbent=START, ledger=tmp_path / "used.ledger") as gate:
        assert gate.gate(winning(80, 0))
    mode._GATES.clear()
    with gate_of(ledger=tmp_path / "early.ledger") as gate:
        told = gate.certify()  # before any look
    mode._GATES.clear()
    with gate_of(ledger=tmp_path / "open.ledger") as gate:
        used, early = (Holdout(TRUTH, ledger=tmp_path / f"{name}.ledger") for name in ("used", "early"))
        with used, early:
            assert used.gate(winning(80, 0)).repeated
            assert early.certify().value == told.value
            assert [line.verb for line in used.history] == ["incumbent", "gate"]
            for tell in (used.certify, lambda: used.gate(TRUTH), lambda: early.gate(TRUTH), lambda: early.certify("gain")):
                with pytest.raises(ht.RefusedError):
                    tell()
        assert gate.gate(winning(80, 10))  # and the open one goes on


@pytest.mark.parametrize("elsewhere", [False, True], ids=["in this process", "in another one"])
def test_v1_a_gate_whose_last_yes_may_turn_out_a_no_is_still_open(tmp_path, elsewhere):
    """It counts as a yes for the gate's own levels; but once it is a no, the gate goes on."""
    with Holdout(TRUTH, looks=10, yes=1, incumbent=START, ledger=tmp_path / "a.ledger") as gate:
        kill_during(lambda: gate.gate(winning(40, 39), key="mine"))
        assert gate.looks_left == 0
        if elsewhere:
            mode._GATES.clear()
        with Holdout(TRUTH, looks=10, ledger=tmp_path / "b.ledger") as scores:
            for tell in (lambda: scores.score(TRUTH), lambda: gate_of(ledger=tmp_path / "c.ledger")):
                with pytest.raises(ht.RefusedError, match="a gate on these cases is open"):
                    tell()
            assert not gate.gate(winning(40, 39), key="mine")
            assert gate.looks_left == 9
            assert gate.gate(winning(80, 0))
            assert scores.score(TRUTH).looks_left == 9


@pytest.mark.parametrize("lasting", [True, False], ids=["files", "memory"])
def test_v1_a_gate_that_opens_between_a_look_and_its_charge_is_found_before_labels_are_read(tmp_path, lasting, monkeypatch):
    def place(name):
        return {"ledger": tmp_path / name} if lasting else {}

    opened, check_left = [], mode.Mode._check_left

    def open_gate(self, given, request_id):
        check_left(self, given, request_id)
        if not opened and self is scores._mode:
            opened.append(gate_of(**place("gate.ledger")))

    with Holdout(TRUTH, looks=10, **place("scores.ledger")) as scores:
        monkeypatch.setattr(mode.Mode, "_check_left", open_gate)
        with pytest.raises(ht.ReleaseError, match="the charge stays"):
            scores.score(START)
        (gate,) = opened
        assert not gate.facts.told_before
        with pytest.raises(ht.RefusedError, match="a gate on these cases is open"):
            scores.score(START)
        gate.certify()
        gate.close()
        assert scores.score(START).looks_left == 9  # under the charge it has


def test_v1_gates_do_not_wait_for_one_another():
    """One that is used up and one that is open ask each other before each look, and neither holds the other up."""
    with Holdout(TRUTH, looks=10, yes=1, incumbent=START) as first:
        assert first.gate(winning(80, 0))
        with gate_of() as second, first._pipeline.lock:  # as if a look were being answered
            asking = Thread(target=lambda: second.gate(winning(80, 10)), daemon=True)
            asking.start()
            asking.join(60)
            assert not asking.is_alive()
            assert second.looks_left == 99


@pytest.fixture
def state(tmp_path, monkeypatch):
    """A folder of the user's own, where gates are noted for other folders."""
    monkeypatch.delenv("HOLDTRUE_GATES")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "holdtrue" / "gates"


def folder_of(tmp_path, name):
    place = tmp_path / name
    place.mkdir(exist_ok=True)
    return place / "a.ledger"


def test_v1_an_open_gate_is_known_in_other_folders(tmp_path, state):
    """By a note of its user's: until it has closed, no score, no second gate, on disk or in memory."""
    gate_of(ledger=folder_of(tmp_path, "one")).close()
    mode._GATES.clear()  # as in another process
    with Holdout(TRUTH, looks=10, ledger=folder_of(tmp_path, "two")) as scores, Holdout(TRUTH, looks=10) as short:
        for tell in (
            lambda: scores.score(TRUTH),
            lambda: short.score(TRUTH),
            lambda: gate_of(ledger=folder_of(tmp_path, "three")),
            gate_of,
        ):
            with pytest.raises(ht.RefusedError, match="a gate on these cases is open"):
                tell()
        assert scores.looks_left == short.looks_left == 10
        with Holdout(1 - TRUTH, looks=10, ledger=folder_of(tmp_path, "four")) as others:  # the control: other cases
            others.score(START)
        (note,) = state.iterdir()  # the gate that was refused left none, and looks have none
        assert set(json.loads(note.read_text())) == {"ledger", "cases", "digest"}
        assert [stat.S_IMODE(path.stat().st_mode) for path in (state, note)] == [0o700, 0o600]
        with Holdout(TRUTH, ledger=folder_of(tmp_path, "one")) as same:  # one ledger, one tree
            same.gate(TRUTH)
            same.certify()
        assert scores.score(TRUTH).looks_left == short.score(TRUTH).looks_left == 9
    mode._GATES.clear()
    with gate_of(ledger=folder_of(tmp_path, "five")) as later:  # of looks there is no note, but the closed gate told, too
        assert later.facts.told_before
    folder_of(tmp_path, "five").unlink()
    with Holdout(TRUTH, looks=10) as scores:  # a gate whose ledger is gone can say nothing more
        scores.score(START)
    with gate_of(ledger=folder_of(tmp_path, "five")), Holdout(TRUTH, looks=10) as scores:  # another ledger at its place
        mode._GATES.clear()
        with pytest.raises(ht.RefusedError, match="is open"):
            scores.score(START)


def test_v1_gates_that_do_not_look_into_other_folders_are_two_trees(tmp_path, state, monkeypatch):
    """The control: as it was, and as it is where the environment says so or where there is no home."""
    gate_of(ledger=folder_of(tmp_path, "one")).close()
    monkeypatch.setenv("HOLDTRUE_GATES", "off")
    for name in ("two", "three"):
        mode._GATES.clear()
        with gate_of(ledger=folder_of(tmp_path, name)) as gate:
            assert gate.gate(winning(80, 10))
        assert len(list(state.iterdir())) == 1
        monkeypatch.setenv("HOLDTRUE_GATES", "")
        monkeypatch.setenv("XDG_STATE_HOME", "relative")  # as the standard says, it is then as if it were not set
        monkeypatch.setenv("HOME", "/proc/nowhere")


@pytest.mark.usefixtures("state")
def test_v1_a_ledger_of_two_names_is_one_tree(tmp_path):
    """A gate that is opened by another path to the same file is no second gate."""
    gate_of(ledger=folder_of(tmp_path, "one")).close()
    mode._GATES.clear()
    (tmp_path / "two").symlink_to(tmp_path / "one")
    with Holdout(TRUTH, ledger=tmp_path / "two" / "a.ledger") as same:
        assert same.gate(winning(80, 10))


def test_v1_a_damaged_note_is_passed_over(tmp_path, state):
    state.mkdir(parents=True)
    for name, text in {"a": "{", "b": "[]", "c": '{"ledger": 3}', "d": '{"ledger": "/nowhere/x", "cases": 1000}'}.items():
        (state / f"{name}.json").write_text(text)
    with gate_of(ledger=folder_of(tmp_path, "one")) as gate:
        assert gate.gate(winning(80, 10))


def test_v1_gates_of_one_postgresql_database_know_of_one_another(postgres):  # noqa: F811 - the fixture
    """Ledgers in schemas of their own: a second gate, or a score, on the cases of an open gate is refused."""
    first, second, third, fourth = (postgres.schema() for _ in range(4))
    gate_of(ledger=first).close()
    mode._GATES.clear()  # as in another process
    with Holdout(TRUTH, looks=10, ledger=second) as scores:
        for tell in (lambda: scores.score(TRUTH), lambda: gate_of(ledger=third)):
            with pytest.raises(ht.RefusedError, match="a gate on these cases is open"):
                tell()
        assert scores.looks_left == 10
        with Holdout(1 - TRUTH, looks=10, ledger=fourth) as others:  # the control: other cases
            others.score(START)
        with Holdout(TRUTH, ledger=first) as same:  # one ledger, one tree
            same.gate(TRUTH)
            same.certify()
        assert scores.score(TRUTH).looks_left == 9
    mode._GATES.clear()
    with gate_of(ledger=postgres.schema()) as later:
        assert later.facts.told_before
        assert RESTS in later.gate(winning(80, 10)).claim


def test_v1_what_was_charged_and_what_is_used_up_wait_in_postgresql_too(postgres):  # noqa: F811 - the fixture
    used, scores, gated = (postgres.schema() for _ in range(3))
    truth, start = TRUTH[::-1], START[::-1]  # of the others a test before left a gate open in this database
    with Holdout(truth, looks=10, yes=1, incumbent=start, ledger=used) as gate:
        assert gate.gate(winning(80, 0)[::-1])
    with Holdout(truth, looks=10, ledger=scores) as holdout:
        kill_during(lambda: holdout.score(start, key="first"))
    Holdout(truth, looks=100, yes=5, incumbent=start, ledger=gated).close()
    mode._GATES.clear()  # as in another process
    with Holdout(truth, ledger=used) as gate, Holdout(truth, ledger=scores) as holdout:
        assert gate.gate(winning(80, 0)[::-1]).repeated
        for tell in (gate.certify, lambda: holdout.score(start, key="first")):
            with pytest.raises(ht.RefusedError, match="a gate on these cases is open"):
                tell()
        with Holdout(truth, ledger=gated) as open_gate:
            kill_during(lambda: open_gate.gate(winning(9, 10)[::-1]))
            open_gate.certify()
        assert holdout.score(start, key="first").looks_left == 9
        assert gate.certify().interval.low > 0.5


def test_v1_gates_that_do_not_look_for_others_in_postgresql_are_two_trees(postgres, monkeypatch):  # noqa: F811 - the fixture
    """The control: as it was, when ledgers in a database were not seen."""
    monkeypatch.setattr("holdtrue.holdouts.open_gates.DatabaseNotes.list_others", lambda *_: iter(()))
    with gate_of(ledger=postgres.schema()):
        mode._GATES.clear()
        with gate_of(ledger=postgres.schema()) as second:
            assert not second.facts.told_before


@pytest.mark.usefixtures("state")
def test_v1_a_gate_in_a_folder_is_known_to_ledgers_in_postgresql(postgres, tmp_path):  # noqa: F811 - the fixture
    gate_of(ledger=folder_of(tmp_path, "one")).close()
    mode._GATES.clear()  # as in another process
    with (
        Holdout(TRUTH, looks=10, ledger=postgres.schema()) as scores,
        pytest.raises(ht.RefusedError, match="is open"),
    ):
        scores.score(TRUTH)


RESTS = "if submissions do not depend on what these cases told before"


def test_v1_a_gate_on_cases_that_told_before_says_what_it_rests_on(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    with Holdout(TRUTH, looks=10, ledger=tmp_path / "scores.ledger") as scores:
        scores.score(START)
    with gate_of(ledger=tmp_path / "gate.ledger") as gate:
        said = gate.gate(winning(80, 10))
        assert RESTS in said.claim
        assert RESTS in said.certificate.theorem
        assert gate.facts.told_before
        assert RESTS in gate.certify().certificate.theorem
    with Holdout(TRUTH, ledger=tmp_path / "gate.ledger") as again:
        assert again.gate(winning(80, 10)).claim == said.claim
    # A gate that has closed told something, too; other cases, and ledgers elsewhere, are no reason.
    with gate_of(ledger=tmp_path / "second.ledger") as second:
        assert second.facts.told_before
    (tmp_path / "second.ledger").unlink()
    with Holdout(1 - TRUTH, looks=100, yes=5, incumbent=START, ledger=tmp_path / "others.ledger") as others:
        assert not others.facts.told_before
    with gate_of(ledger=tmp_path / "elsewhere" / "gate.ledger") as fresh:
        assert not fresh.facts.told_before
        assert RESTS not in fresh.gate(winning(80, 10)).claim


def test_v1_a_gate_without_a_file_knows_what_its_process_told():
    with Holdout(TRUTH, looks=10) as scores:
        with gate_of() as gate:
            assert not gate.facts.told_before  # nothing yet
        scores.score(START)
        with gate_of() as gate:
            assert RESTS in gate.gate(winning(80, 10)).claim
    with gate_of() as gate:
        assert not gate.facts.told_before


def test_v1_a_look_between_the_terms_of_a_gate_and_its_note_is_found(tmp_path, monkeypatch):
    with Holdout(TRUTH, looks=10, ledger=tmp_path / "scores.ledger") as scores:
        scores.score(START)
    monkeypatch.setattr(holdout, "was_told", lambda *_: False)  # as if that look came just after it was looked for
    for _ in range(2):
        with pytest.raises(ht.RefusedError, match="while this gate was opened"):
            gate_of(ledger=tmp_path / "gate.ledger")


def test_v1_ids_tell_cases_apart_whose_labels_do_not():
    ones = np.ones(50)
    terms = {"looks": 20, "yes": 2, "metric": "cases"}
    with Holdout(ones, **terms), Holdout(ones, **terms):  # nothing says that these are the same cases
        pass
    with (
        Holdout(ones, ids=np.arange(50), **terms),
        Holdout(ones, ids=np.arange(50) + 1, **terms),
        pytest.raises(ht.RefusedError, match="is open"),
    ):
        Holdout(ones, ids=np.arange(50), **terms)


@pytest.mark.parametrize("what", ["score", "gain"])
def test_v1_one_certificate_named_before_it_is_computed(what):
    with gate_of() as gate:
        assert gate.gate(winning(80, 10))
        score = gate.certify(what)
        truth = (winning(80, 10) == TRUTH).mean() - (0 if what == "score" else (START == TRUTH).mean())
        assert score.value == pytest.approx(truth)
        assert score.interval.low < truth < score.interval.high
        assert score.interval.width < 0.3
        assert score.metric == ("accuracy" if what == "score" else "gain")
        assert gate.certify(what).repeated
        other = "gain" if what == "score" else "score"
        with pytest.raises(ht.RefusedError, match="closed by another certificate"):
            gate.certify(other)
        (charge,) = [entry for entry in gate.ledger.entries() if entry.kind == "charge" and entry.verb == "certify"]
        assert f'"what":"{what}"' in charge.body
        with pytest.raises(ht.RefusedError, match="closed"):
            gate.gate(winning(81, 10))


def test_v1_two_workers_tell_one_certificate(tmp_path):
    """What was charged first is told; the other is refused, before its charge or, at the same time, before it measures."""
    path = tmp_path / "a.ledger"
    with gate_of(ledger=path) as one, Holdout(TRUTH, ledger=path) as other:
        assert one.gate(winning(80, 10))
        kill_during(lambda: one.certify("score"))
        with pytest.raises(ht.RefusedError, match="closed by another certificate"):
            other.certify("gain")
        with pytest.raises(ht.RefusedError, match="closed when its incumbent was certified"):
            other.gate(winning(81, 10))
        assert not other.certify("score").repeated  # under the charge that was never answered
        assert one.certify("score").repeated
    path = tmp_path / "b.ledger"
    with gate_of(ledger=path) as one, Holdout(TRUTH, ledger=path) as other:
        assert one.gate(winning(80, 10))
        follow = one._mode.plan_certificate

        def beside(*given):
            one._mode.plan_certificate = follow
            planned = follow(*given)
            other.certify("score")  # after this one has read the ledger
            return planned

        one._mode.plan_certificate = beside
        with pytest.raises(ht.ReleaseError):
            one.certify("gain")
        assert one.certify("score").repeated


def test_v1_a_gain_needs_a_first_incumbent():
    with Holdout(TRUTH, looks=100, yes=5) as gate:
        assert gate.gate(START, margin=0.4)
        with pytest.raises(ht.RefusedError, match="no gain to certify"):
            gate.certify("gain")
        with pytest.raises(ht.InvalidParameter, match="what"):
            gate.certify("loss")
        assert gate.looks_left == 99  # still open


def test_v1_clusters_are_the_cases():
    """Repeats: ten rows that are one question are one case; pooling them as cases is the planted fault."""
    clusters = np.repeat(np.arange(50), 10)
    better = np.where(clusters < 8, TRUTH, START)
    with Holdout(TRUTH, looks=20, yes=3, incumbent=START, unseen=True) as pooled:
        assert pooled.gate(better)
    with Holdout(TRUTH, looks=20, yes=3, incumbent=START, unseen=True, cluster=clusters) as gate:
        assert gate.facts.clusters == gate.plan.rows == 50
        said = gate.gate(better)
        assert (said.yes, said.wins_needed) == (False, None)
        yes = gate.gate(TRUTH)
        assert yes.yes
        assert "on average over clusters" in yes.claim
        score = gate.certify("gain")
        assert score.value == pytest.approx(1 - np.mean([(START == TRUTH)[clusters == c].mean() for c in range(50)]))
    with pytest.raises(ht.InvalidParameter, match="cluster"):
        Holdout(TRUTH, looks=20, cluster=clusters, overfits=3, train=TRUTH)
    with pytest.raises(ht.InvalidParameter, match="cluster has 3 values"):
        Holdout(TRUTH, looks=20, yes=3, cluster=[1, 2, 3])


def test_v1_clusters_are_part_of_what_a_ledger_is_about(tmp_path):
    clusters, path = np.repeat(np.arange(100), 5), tmp_path / "a.ledger"
    Holdout(TRUTH, looks=20, yes=3, cluster=clusters, ledger=path).close()
    with pytest.raises(ht.FingerprintMismatch):
        Holdout(TRUTH, ledger=path)
    with Holdout(TRUTH, cluster=clusters, ledger=path) as gate:
        assert gate.gate(TRUTH, margin=0.5)


def test_v1_a_gate_that_counts_transcripts_keeps_its_rule(tmp_path):
    path = tmp_path / "old.ledger"
    open_counted(TRUTH, looks=100, yes=5, incumbent=START, ledger=path).close()
    with Holdout(TRUTH, ledger=path) as gate:
        said = gate.gate(winning(3, 2))
        assert said.yes  # better on these cases, as it always said
        assert (said.level, said.claim, said.wins_needed) == (None, None, None)
        assert said.gain.low < 0
        with pytest.raises(ht.InvalidParameter, match="what"):
            gate.certify("gain")
        assert gate.certify().interval.width < 0.5
    # Those that were opened side by side before still are, until a gate by depth is open on their cases.
    with open_counted(TRUTH, looks=100, yes=5) as one, open_counted(TRUTH, looks=100, yes=5) as other:
        assert one.gate(START)
        assert other.gate(START)
        with gate_of(), pytest.raises(ht.RefusedError, match="is open"):
            one.gate(TRUTH)


def test_v1_too_few_cases_for_any_yes_are_refused():
    with pytest.raises(ht.InsufficientSamples):
        Holdout(TRUTH[:8], looks=100, yes=5)
    with pytest.raises(ht.PreconditionError):
        Holdout(TRUTH, looks=3, yes=5)
