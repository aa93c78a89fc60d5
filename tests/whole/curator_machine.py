"""A curator with crashes, retries and two workers, step by step against a reference in memory."""

import shutil
from contextlib import nullcontext
from typing import ClassVar

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sklearn.dummy import DummyClassifier
from sklearn.tree import DecisionTreeClassifier

import holdtrue as ht
from holdtrue.estimators import StableClassifier
from holdtrue.ledgers import read_charge
from holdtrue.requests import Auc, Correlation, Gini, Pairs, Ratio, Variance
from whole.faults import STEPS, Worker, at, kill
from whole.holdout_machine import folder

PARTS, SHARE = 20, 40
ROWS = PARTS * SHARE
QUERIES = 12
TEXTS = tuple(f"x > {threshold}" for threshold in range(0, ROWS, ROWS // 9))
TEXT = st.sampled_from(TEXTS)
KEY = st.sampled_from([None, "k1", "k2", "k3", "k4", "k5"])
WORKER = st.integers(0, 1)
MOMENT = st.sampled_from(STEPS)
METHOD = st.sampled_from(["search", "curve"])
STATISTICS = (
    Variance(column="x", low=0, high=ROWS),
    Correlation(first="x", second="id", bounds={"x": (0, ROWS), "id": (0, ROWS)}),
    Gini(column="x", low=0, high=ROWS),
    Auc(score="x", label="y", low=0, high=ROWS),
    Pairs(kernel="abs(a.x - b.x)", low=0, high=ROWS),
    Ratio(numerator="x", denominator="id", cap=ROWS // 2),
)
POINTS = st.lists(st.integers(0, 30), min_size=1, max_size=6, unique=True)


def rows():
    """Return a table with a public key for each row, in an order that no value decides."""
    source = np.random.default_rng(5)
    x = source.permutation(ROWS).astype(float)
    return {"id": np.arange(ROWS), "x": x, "y": (np.arange(ROWS) % PARTS) % 2 == 0, "z": np.arange(ROWS) % 5 > 0}


class CuratorMachine(RuleBasedStateMachine):
    """Two workers on one ledger; the reference is a dictionary of what was told, and the ledger's own entries."""

    beside: ClassVar[dict[str, object]] = {}
    mu = 0.1

    @initialize()
    def start(self):
        self.folder = folder()
        self.path = self.folder / "rows.ledger"
        self.rows = rows()
        self.workers = [Worker(self.open), Worker(self.open)]
        self.trained = False
        self.values: dict[str, float] = {}
        self.keys: dict[str, object] = {}

    def open(self):
        terms = {"queries": QUERIES, "epsilon": 8, "delta": 1e-6, "reserve": 0.5, "iid": True, "cap": "privacy"}
        curator = ht.Curator(self.rows, ledger=self.path, **(terms | self.beside))
        if not self.trained:
            # All parts agree, so that every screen lets a point through; kept beside the ledger for every worker.
            given = {"target": "z", "features": ["x"], "parts": PARTS, "key": "id"}
            curator.train("m", DecisionTreeClassifier(max_depth=1), **given)
            curator.train("judged", DecisionTreeClassifier(max_depth=1), held_out=0.2, **given)
            best = ht.Thresholds(0, 10, steps=5, column="x")
            curator.train("best", hypotheses=best, target="z", parts=PARTS, order="fixed")
            assert curator.model("best").asked.terms.lost is None
            kept = {"target": "z", "features": ["x"], "bounds": {"x": (0, 10)}, "epsilon": 0.3}
            curator.fit("line", "logistic", release="each", **kept)
            curator.fit("cut", "thresholds", **kept)
            self.trained = True
        return curator

    def teardown(self):
        if hasattr(self, "folder"):
            for worker in self.workers:
                worker.close()
            shutil.rmtree(self.folder)

    def request(self, place, act, *, key=None, request=None):
        """Make a request; a refusal spends nothing, and a key that named another request is refused."""
        worker = self.workers[place]
        ledger = worker.object.ledger
        before, known = self.count_spent(ledger), None if key is None else self.keys.get(key)
        try:
            found = act(worker.object)
        except (ht.RefusedError, ht.RequestError) as error:
            if worker.moment is None:
                assert self.count_spent(ledger) == before, "refused, and something was spent"
            late = "declared before the draw" in str(error)  # a workload of tables that were released before
            if not isinstance(error, ht.BudgetExceeded) and not late and not self.is_unlike(error):
                assert known is not None
                assert known != request, "the same request under its own key was refused"
            return None
        except ht.ReleaseError:
            return None
        if key is not None:
            assert known in (None, request), "a key served two requests"
        return found

    @staticmethod
    def count_spent(ledger):
        """Return what both purses have spent; the second one is the first again where there is one."""
        last = ledger.entries()[-1:]
        return ledger.spent, last[0].other_spent if last else 0

    @staticmethod
    def is_unlike(_):
        """Return whether an event is refused because the reserve does not count it."""
        return False

    def remember(self, key, request):
        """A key that reached the ledger names its request for good, whether it was answered or not."""
        if key is None or key in self.keys:
            return
        held = next(worker.object for worker in self.workers if worker.held is not None)
        if held.ledger.find(request_id=key) is not None:
            self.keys[key] = request

    def check_answer(self, text, answer):
        assert self.values.setdefault(text, answer.value) == answer.value, "one question, two answers"
        plan = self.workers[0].object.plan
        assert (answer.interval.low, answer.interval.high) == plan.interval(answer.value)

    def ask_text(self, place, text, key):
        answer = self.request(place, lambda held: held.ask(text, key=key), key=key, request=text)
        if answer is not None:
            self.check_answer(text, answer)

    @rule(place=WORKER, text=TEXT, key=KEY)
    def ask(self, place, text, key):
        self.ask_text(place, text, key)
        self.remember(key, text)

    @rule(place=WORKER, text=TEXT, key=KEY, step=MOMENT)
    def ask_and_die(self, place, text, key, step):
        with at(self.workers[place], step, kill):
            self.ask_text(place, text, key)
        self.workers[place].object  # noqa: B018 - open again
        self.remember(key, text)

    @rule(place=WORKER, text=TEXT, other=TEXT, step=MOMENT)
    def ask_while_another_asks(self, place, text, other, step):
        with at(self.workers[place], step, lambda: self.ask_text(1 - place, other, None)):
            self.ask_text(place, text, None)

    @rule(place=WORKER, text=TEXT, key=KEY)
    def ask_deducing_first(self, place, text, key):
        """What follows from answers is told at no cost; under its key it is the same again, whatever was answered since."""
        request = ("deduce", text)
        drawn = self.workers[place].object.budget.asks
        found = self.request(place, lambda held: held.ask(text, deduce="first", key=key), key=key, request=request)
        if found is not None and found.deduced:
            assert self.workers[place].object.budget.asks == drawn, "a free answer took a draw"
            assert key is None or self.values.setdefault(f"deduced {key}", found.value) == found.value, (
                "one key, two answers"
            )
        self.remember(key, request)

    @rule(place=WORKER, text=TEXT)
    def deduce(self, place, text):
        ledger = self.workers[place].object.ledger
        before = ledger.newest()
        assert self.workers[place].object.deduce(text).text
        assert ledger.newest() == before, "a deduction was written down"

    @rule(place=WORKER, name=st.sampled_from([None, "monday"]))
    def ask_values(self, place, name):
        numbers = self.rows["x"] / ROWS
        answer = self.request(place, lambda held: held.ask(values=numbers, name=name))
        if answer is not None and name is None:
            assert not answer.repeated, "private numbers were recognised"
        elif answer is not None:
            assert self.values.setdefault(f"named {name}", answer.value) == answer.value

    @rule(place=WORKER, column=st.sampled_from(["y", "z"]), key=KEY)
    def table(self, place, column, key):
        request = ("table", column)
        found = self.request(place, lambda held: held.table(column, key=key), key=key, request=request)
        if found is not None:
            assert self.values.setdefault(f"table {column}", found.values) == found.values, "one table, two answers"
        self.remember(key, request)

    def release_marginals(self, place, sets, key):
        request = ("marginals", sets)
        found = self.request(place, lambda held: held.marginals(sets, columns=["y", "z"], key=key), key=key, request=request)
        for table in found or ():
            name = f"marginal {table.columns}"
            assert self.values.setdefault(name, table.values) == table.values, "one table, two answers"

    @rule(place=WORKER, sets=st.sampled_from(["pairs", (("y",), ("z",)), (("y",), ("y", "z"))]), key=KEY)
    def marginals(self, place, sets, key):
        self.release_marginals(place, sets, key)
        self.remember(key, ("marginals", sets))

    @rule(place=WORKER, label=st.booleans(), key=KEY)
    def marginals_with_a_workload(self, place, label, key):
        """A workload is declared before its tables are drawn, and refused after that."""
        request, given = ("workload", label), {"columns": ["y", "z"], "workload": [{"z": label}], "key": key}
        found = self.request(place, lambda held: held.marginals([["z"]], **given), key=key, request=request)
        if found is not None:
            values = found.workload.values
            assert self.values.setdefault(f"workload {label}", values) == values, "one question, two answers"
            assert self.values.setdefault("marginal ('z',)", found[0].values) == found[0].values, "one table, two answers"
        self.remember(key, request)

    @rule(place=WORKER, sets=st.sampled_from(["pairs", (("y",), ("y", "z"))]), key=KEY, step=MOMENT)
    def marginals_and_die(self, place, sets, key, step):
        with at(self.workers[place], step, kill):
            self.release_marginals(place, sets, key)
        self.workers[place].object  # noqa: B018 - open again
        self.remember(key, ("marginals", sets))

    @rule(place=WORKER, rows=st.integers(1, 50))
    def synthesize(self, place, rows):
        held = self.workers[place].object
        before = held.ledger.newest()
        if any(line.verb in ("marginals", "table") and line.responses for line in held.history):
            assert len(held.synthesize(rows=rows)) == rows
        assert held.ledger.newest() == before, "made rows were written down"

    @rule(place=WORKER, by=st.sampled_from(["y", None]), key=KEY)
    def mean(self, place, by, key):
        request = ("mean", by)
        found = self.request(place, lambda held: held.mean("x", low=0, high=ROWS, by=by, key=key), key=key, request=request)
        if found is not None:
            assert self.values.setdefault(f"mean {by}", found.values) == found.values, "one mean, two answers"
        self.remember(key, request)

    @rule(place=WORKER, request=st.sampled_from(STATISTICS), key=KEY)
    def statistic(self, place, request, key):
        found = self.request(place, lambda held: held.find_statistic(request, key=key), key=key, request=request)
        if found is not None:
            for part in found.parts or (found,):
                name = f"{part.measure} of {part.subject}"
                assert self.values.setdefault(name, part.value) == part.value, "one statistic, two answers"
        self.remember(key, request)

    def find_quantile(self, place, level, method, key):
        request = ("quantile", level, method)
        given = {"low": 0, "high": ROWS, "step": ROWS // 8, "method": method, "key": key}
        found = self.request(place, lambda held: held.quantile("x", level, **given), key=key, request=request)
        if found is not None:
            for threshold, share in zip(found.thresholds, found.shares, strict=True):
                known = self.values.setdefault(f"{method} x <= {threshold}", share)
                assert known == share, "one threshold, two answers"
            assert found.low[0] <= found.values[0] <= found.high[0]

    @rule(place=WORKER, level=st.sampled_from([0.25, 0.5]), method=METHOD, key=KEY)
    def quantile(self, place, level, method, key):
        self.find_quantile(place, level, method, key)
        self.remember(key, ("quantile", level, method))

    @rule(place=WORKER, level=st.sampled_from([0.25, 0.5]), method=METHOD, key=KEY, step=MOMENT)
    def quantile_and_die(self, place, level, method, key, step):
        """One that died goes on under its key: what was charged and not answered is answered, and not charged again."""
        with at(self.workers[place], step, kill):
            self.find_quantile(place, level, method, key)
        self.workers[place].object  # noqa: B018 - open again
        self.remember(key, ("quantile", level, method))

    @rule(place=WORKER, scores=st.sampled_from([{"a": 3, "b": 7}, {"a": 7, "b": 3}]))
    def select_by_scores(self, place, scores):
        choice = self.request(place, lambda held: held.select(scores, epsilon=0.01))
        if choice is not None:
            assert not choice.repeated, "private scores were recognised"

    @rule(place=WORKER, top=st.integers(1, 3), name=st.sampled_from([None, "monday"]))
    def select_top(self, place, top, name):
        scores = {"a": 3, "b": 7, "c": 5}
        given = {"scores": scores, "sensitivity": 2, "weights": [1, 2, 3], "top": top, "name": name, "epsilon": 0.01}
        choice = self.request(place, lambda held: held.select(**given))
        if choice is not None and name is None:
            assert not choice.repeated, "private scores were recognised"
        elif choice is not None:
            assert self.values.setdefault(f"top {top}", choice.chosen) == choice.chosen, "one choice, two answers"
            assert len(set(choice.chosen.split(", "))) == top, "one candidate chosen twice"

    def watch_text(self, place, text):
        """Ask the one watch; every run that a worker draws a threshold for was paid for under its own number."""
        try:
            worker = self.workers[place].object
            answer = worker.watch(threshold=0.5, alarms=3, epsilon=0.01).ask(text)
        except (ht.RefusedError, ht.ReleaseError):
            return
        assert self.values.setdefault(f"watch {text}", answer.above) == answer.above, "one question, two answers"
        assert 1 <= answer.run <= 3
        paid = [line for line in worker.history if line.verb == "watch" and line.request.startswith("run ")]
        assert len({line.request for line in paid}) == len(paid) <= 3, "a run was paid for twice"
        assert any(line.request.startswith(f"run {answer.run} ") for line in paid), "a run was not paid for"

    @rule(place=WORKER, text=TEXT)
    def watch(self, place, text):
        self.watch_text(place, text)

    @rule(place=WORKER, text=TEXT, step=MOMENT)
    def watch_and_die(self, place, text, step):
        with at(self.workers[place], step, kill):
            self.watch_text(place, text)
        self.workers[place].object  # noqa: B018 - open again

    @rule(place=WORKER, name=st.sampled_from(["one", "two"]), key=KEY, step=st.none() | MOMENT)
    def fit(self, place, name, key, step):
        given = {"target": "z", "features": ["x"], "bounds": {"x": (0, 10)}, "mu": 0.05, "key": key}
        model = None
        with at(self.workers[place], step, kill) if step is not None else nullcontext():
            model = self.request(place, lambda held: held.fit(name, "logistic", **given), key=key, request=("fit", name))
        self.workers[place].object  # noqa: B018 - open again
        self.remember(key, ("fit", name))
        if model is not None:
            assert self.values.setdefault(f"fit {name}", model.weights) == model.weights, "one model, two sets of weights"

    @rule(place=WORKER, points=POINTS, epsilon=st.sampled_from([0.3, 0.2]), screen=st.sampled_from([None, 0.6]), key=KEY)
    def predict(self, place, points, epsilon, screen, key):
        self.predict_points(place, points, epsilon=epsilon, screen=screen, key=key)

    def predict_points(self, place, points, *, epsilon, screen, key):
        """A point has one answer at one epsilon, whoever asks and dies, and never one with more noise than was asked for."""
        table = {"x": [float(point) for point in points]}
        request = ("predict", tuple(points), epsilon, screen)
        found = self.request(
            place, lambda held: held.predict("m", table, epsilon=epsilon, screen=screen, key=key), key=key, request=request
        )
        for point, said in zip(points, found or (), strict=found is not None):
            if said.label is not None:
                name, told = f"label of {point} at {epsilon}", (said.label, said.certificate.entry)
                assert self.values.setdefault(name, told) == told, "one prediction, two answers"
                event = getattr(said.certificate.event, "event", said.certificate.event)
                assert event.epsilon >= (epsilon or 0), "more noise than was asked for"
        self.remember(key, request)

    @rule(place=WORKER, name=st.sampled_from(["line", "cut"]), points=POINTS, key=KEY, step=st.none() | MOMENT)
    def predict_kept(self, place, name, points, key, step):
        """A kept fit tells nothing until a prediction is paid for; a point has one answer, whoever asks and dies."""
        table = {"x": [float(point) for point in points]}
        request = ("predict kept", name, tuple(points))
        with at(self.workers[place], step, kill) if step is not None else nullcontext():
            self.request(place, lambda held: held.predict(name, table, key=key), key=key, request=request)
        self.workers[place].object  # noqa: B018 - open again
        self.remember(key, request)

    @rule(place=WORKER, level=st.sampled_from([0.4, 0.3]), key=KEY)
    def evaluate(self, place, level, key):
        request = ("evaluate", level)
        found = self.request(
            place,
            lambda held: held.evaluate("judged", at_most=level, epsilon=0.3, mu=self.mu, key=key),
            key=key,
            request=request,
        )
        if found is not None:
            assert self.values.setdefault(request, found.certified) == found.certified, "one evaluation, two answers"
        self.remember(key, request)

    @rule(place=WORKER, point=st.integers(0, 10), key=KEY)
    def predict_by_the_best_of_a_class(self, place, point, key):
        """Its certificate was given before the first answer, and stays with it in every worker and after every crash."""
        request = ("best", point)
        found = self.request(
            place,
            lambda held: held.predict("best", {"x": float(point)}, epsilon=0.3, method="agnostic", key=key),
            key=key,
            request=request,
        )
        if found is not None:
            bound = self.values.setdefault("excess of best", found.excess_error)
            assert bound == found.excess_error, "one model, two certificates"
        self.remember(key, request)

    @rule(place=WORKER, key=KEY)
    def evaluate_what_was_released(self, place, key):
        held = self.workers[place].object
        entry = next((line.entry for line in held.history if line.verb == "fit" and line.responses), None)
        if entry is None:
            return
        request = ("evaluate", "entry", entry)
        found = self.request(place, lambda held: held.evaluate(entry, key=key), key=key, request=request)
        if found is not None:
            assert self.values.setdefault(request, found.value) == found.value, "one evaluation, two answers"
        self.remember(key, request)

    @rule(place=WORKER, groups=st.integers(2, 6))
    def distill(self, place, groups):
        table = {"x": np.linspace(0, ROWS, 8)}
        self.request(place, lambda held: held.distill("m", table, DummyClassifier(), groups=groups, epsilon=0.3))

    @rule()
    def fit_an_estimator_on_this_ledger(self):
        """An estimator that is given a curator's ledger is refused; the ledger goes on as it was."""
        features, labels = self.rows["x"][:, None], self.rows["y"].astype(int)
        try:
            StableClassifier(bounds=(0, ROWS), epsilon=0.01, ledger=str(self.path)).fit(features, labels)
        except ht.RefusedError:
            return
        message = "an estimator charged a curator's ledger"
        raise AssertionError(message)

    @rule(row=st.integers(0, ROWS - 1), value=st.integers(0, ROWS), label=st.booleans())
    def replace_one_row_and_sort_again(self, row, value, label):
        """One row replaced, and the file sorted by what rows hold: at most one part may vote otherwise."""
        votes = []
        for changed in (False, True):
            table = {name: column.copy() for name, column in self.rows.items()}
            if changed:
                table["x"][row], table["y"][row] = value + 0.5, label
            order = np.argsort(table["x"], kind="stable")
            votes.append(self.vote({name: column[order] for name, column in table.items()}))
        assert int(np.abs(votes[0] - votes[1]).max()) <= 1, "one row moved two votes"

    @staticmethod
    def vote(table):
        with ht.Curator(table, epsilon=1.0, delta=1e-6) as held:
            estimator = DummyClassifier(strategy="most_frequent")
            held.train("m", estimator, target="y", features=["x"], parts=PARTS, key="id")
            return np.asarray(held.model("m").measure(np.array([[3.0]]))[0])

    @rule(place=WORKER)
    def reopen(self, place):
        self.workers[place].close()

    @invariant()
    def the_ledger_is_the_reference(self):
        if not hasattr(self, "workers"):
            return
        held = self.workers[0].object
        entries = held.ledger.entries()
        charges = [entry for entry in entries if entry.kind == "charge"]
        self.check_purses(held.ledger, charges)
        budget = held.budget
        assert budget.asks <= QUERIES
        asked = [entry for entry in charges if read_charge(entry).draws]
        assert charges == [] or charges[-1].draws == sum(entry.cost // held.plan.cost for entry in asked) <= QUERIES
        answered = [entry.answers for entry in entries if entry.kind == "response"]
        assert len(answered) == len(set(answered)), "a charge was answered twice"

    def check_purses(self, ledger, charges):
        assert ledger.spent == sum(entry.cost for entry in charges) <= ledger.terms.cap


class PurseMachine(CuratorMachine):
    """The same with a second purse for what is not a question: in rho, or counted in draws. Neither lends to the other."""

    @initialize(currency=st.sampled_from(["rho", "draws"]))
    def start(self, currency):
        self.mu = None if currency == "draws" else self.mu  # draws have Laplace noise
        self.beside = {"reserve": {"predictions": 12, "epsilon": 0.3, "currency": currency}}
        super().start()

    @staticmethod
    def is_unlike(error):
        return "reserve" in str(error) and "counts draws" in str(error)

    def check_purses(self, ledger, charges):
        questions = [entry for entry in charges if read_charge(entry).draws]
        others = [entry for entry in charges if not read_charge(entry).draws]
        purse = ledger.terms.purse
        assert ledger.spent == sum(entry.cost for entry in questions) <= ledger.terms.cap
        total = sum(entry.cost for entry in others)
        assert (charges[-1].other_spent if charges else 0) == total <= purse.cap_units, "a purse lent to the other"
        assert {read_charge(entry).purse for entry in questions} <= {"mu"}
        assert {read_charge(entry).purse for entry in others} <= {purse.currency}
        assert total == 0 or purse.currency == "rho" or total % 10**15 == 0, "a part of a draw was charged"

    @rule(place=WORKER, epsilon=st.sampled_from([None, 0.1, 0.5]), points=POINTS, step=st.none() | MOMENT)
    def predict_at_any_epsilon(self, place, epsilon, points, step):
        """A smaller epsilon counts as a full draw; a larger one is refused where draws are counted."""
        with at(self.workers[place], step, kill) if step is not None else nullcontext():
            self.predict_points(place, points, epsilon=epsilon, screen=None, key=None)
        self.workers[place].object  # noqa: B018 - open again

    @rule()
    def open_with_other_caps(self):
        """The caps of an opened ledger never change."""
        try:
            ht.Curator(self.rows, ledger=self.path, reserve={"predictions": 13, "epsilon": 0.3})
        except ht.RequestError:
            return
        message = "a ledger was opened with another purse"
        raise AssertionError(message)


def visits():
    """Return rows that units own: none, one or many each, and some that nobody owns."""
    source = np.random.default_rng(6)
    owners = np.concatenate([source.integers(0, ROWS, ROWS), np.full(300, 7), np.full(20, 10 * ROWS)])
    return {"id": source.permutation(owners), "cost": source.integers(0, 9, owners.size)}


class UnitMachine(CuratorMachine):
    """The same of units: each row of the reference is a person, who owns rows in another table."""

    beside: ClassVar[dict[str, object]] = {"unit": "id", "tables": {"visits": visits()}, "bounds": {"visits.cost": (0, 8)}}

    @rule(
        place=WORKER,
        text=st.sampled_from(
            ["visits.ANY(cost > 3)", "visits.COUNT(*) >= 2", "visits.AVG(cost) / 8", "visits.MIN(cost) > 2"]
        ),
        key=KEY,
        step=st.sampled_from([None, *STEPS]),
    )
    def ask_about_rows_of_units(self, place, text, key, step):
        if step is None:
            self.ask_text(place, text, key)
        else:
            with at(self.workers[place], step, kill):
                self.ask_text(place, text, key)
            self.workers[place].object  # noqa: B018 - open again
        self.remember(key, text)

    @rule()
    def open_as_rows(self):
        """A ledger of units is refused to rows, with nothing spent."""
        try:
            ht.Curator(self.rows, ledger=self.path)
        except ht.RequestError:
            return
        message = "a ledger of units was opened for rows"
        raise AssertionError(message)
