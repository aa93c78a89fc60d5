"""Holdtrue's own mechanisms, and its verbs end to end through a curator: sound, or this library is wrong.

Each has a pair of neighbours on which its claim is attained, or all but. What is claimed is that of one release: of one
question among the many of a list, one choice, one hypothesis, one prediction. A curator's budget is made so large here that
one release has an epsilon worth auditing. Curators draw from the system's bits and from no other; so do these mechanisms,
whatever bits they are given.
"""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from holdtrue.accounting.composition import compose
from holdtrue.accounting.event_privacy import epsilon as epsilon_at
from holdtrue.auditing.catalogue.mechanism import AuditedMechanism
from holdtrue.auditing.search.outputs import Outputs
from holdtrue.curator import Curator
from holdtrue.entropy import Bits
from holdtrue.events import Repeated
from holdtrue.hypotheses import Thresholds
from holdtrue.mechanisms import AboveThreshold, Exponential, Gaussian, Laplace, PermuteAndFlip
from holdtrue.planning.asking import open_plan, plan
from holdtrue.planning.plans import OpenPlan, Plan
from holdtrue.planning.quantiles import factorise
from holdtrue.records import Quantiles

__all__ = ["MECHANISMS", "VERBS"]

_SLACK = 0.2
_MU = Fraction(3, 2)
_UNIT = 1 << 20  # noise on so fine a grid is as good as continuous, and as far from the claim as that
_EPSILON = 3.0
# What one curator is asked for, so that its ledger stays short.
_QUESTIONS = 250
_CHOICES = 100
_HUGE = 3000.0
_DELTA = 1e-6

_Table = npt.NDArray[np.float64]
_Releases = Callable[..., list[Any]]


def _release_many(mechanism: Any, data: Any, count: int, bits: Bits) -> Outputs:  # noqa: ANN401 - any that takes arrays
    del bits
    found: Outputs = mechanism.release(np.repeat(np.asarray(data)[None], count, axis=0))
    return found


def _release_runs(mechanism: AboveThreshold, data: list[int], count: int, bits: Bits) -> Outputs:
    del bits
    found = [mechanism.release(data) for _ in range(count)]
    return np.array([-1 if place is None else place for place in found])


_own = partial(AuditedMechanism, "Holdtrue's mechanisms")
_verb = partial(AuditedMechanism, "Holdtrue's verbs")
_NORMAL = Gaussian(mu=_MU, sensitivity=_UNIT)

MECHANISMS: tuple[AuditedMechanism, ...] = (
    _own("Laplace mechanism", partial(_release_many, Laplace(epsilon=1)), (0, 1), 1.0, truth=1.0),
    _own(
        "Gaussian mechanism",
        partial(_release_many, _NORMAL),
        (0, _UNIT),
        _NORMAL.epsilon(_SLACK),
        delta=_SLACK,
        truth=_NORMAL.epsilon(_SLACK),
    ),
    # Of two candidates three counts apart the lower one is chosen with probability 1 / (1 + e^4.5), then 1 / (1 + e^1.5).
    _own("Exponential mechanism", partial(_release_many, Exponential(epsilon=_EPSILON)), ([2, 5], [3, 4]), _EPSILON),
    # Two equal candidates, then two counts apart: one half and e^-epsilon of it.
    _own(
        "Permute-and-flip",
        partial(_release_many, PermuteAndFlip(epsilon=_EPSILON)),
        ([4, 4], [3, 5]),
        _EPSILON,
        truth=_EPSILON,
    ),
    # Five counts that must stay below while the threshold's noise is small, and a sixth that must not.
    _own(
        "Above threshold",
        partial(_release_runs, AboveThreshold(epsilon=4)),
        ([-1, -1, -1, -1, -1, 0], [0, 0, 0, 0, 0, -1]),
        4.0,
        most=20_000,
        search=0.2,
    ),
)
"""Every mechanism that :mod:`holdtrue.mechanisms` exports."""


def _make_plan(rows: int, *, pure: bool = False) -> OpenPlan:
    """Return a plan under which one question is mu-GDP with mu = 1.5, or sqrt(2) times that in pure epsilon."""
    slack = 0.0 if pure else _DELTA
    return open_plan(rows=rows, epsilon=_HUGE, delta=slack, sigma=Fraction(1) / (rows * _MU), iid=False, pure=pure)


def _through_curators(releases: _Releases, each: int, data: _Table, count: int, bits: Bits) -> Outputs:
    """Return ``count`` outputs, from a new curator for every ``each`` of them, with a ledger in memory."""
    del bits
    found: list[Any] = []
    while len(found) < count:
        found += releases(data, min(each, count - len(found)))
    return np.array(found)


def _release_answers(data: _Table, count: int, *, under: OpenPlan) -> list[float]:
    """Ask different questions, each of which the first row answers with yes on one side and with no on the other."""
    with Curator({"x": data[:, 0]}, plan=under) as curator:
        return [answer.value for answer in curator.ask([f"x > {number}e-6" for number in range(count)])]


def _release_choices(data: _Table, count: int, *, under: OpenPlan) -> list[int]:
    with Curator({"x": data[:, 0]}, plan=under) as curator:
        named = ({f"yes {number}": "x > 0.5", f"no {number}": "x <= 0.5"} for number in range(count))
        return [curator.select(candidates, epsilon=_EPSILON).index for candidates in named]


def _release_hypotheses(data: _Table, count: int, *, under: OpenPlan) -> list[int]:
    """Learn whether x reaches 0 or an edge beyond all rows: always yes, or always no. Each class is another one."""
    with Curator({"x": np.full(len(data), 0.5), "y": data[:, 0]}, plan=under) as curator:
        classes: Iterator[Thresholds] = (Thresholds(0, 2 + number, steps=2, column="x") for number in range(count))
        return [curator.learn(each, target="y > 0.5", epsilon=_EPSILON).index for each in classes]


def _release_predictions(data: _Table, count: int, *, under: OpenPlan) -> list[bool]:
    """Predict different points from seven members; a member's two rows make it say yes beyond 0.5, or no everywhere."""
    from sklearn.tree import DecisionTreeClassifier

    with Curator({"x": data[:, 0], "y": data[:, 1]}, plan=under) as curator:
        given: dict[str, Any] = {"target": "y > 0.5", "features": ["x"], "parts": len(data) // 2, "order": "fixed"}
        curator.train("stump", DecisionTreeClassifier(max_depth=1), **given)
        points = {"x": 0.6 + np.arange(count) / (10 * _QUESTIONS)}
        found = curator.predict("stump", points, epsilon=_EPSILON)
        return [bool(prediction.label) for prediction in found] if isinstance(found, list) else [bool(found.label)]


def _make_column(number: int, rows: int) -> _Table:
    """Return a column of ones, then zeros."""
    return (np.arange(rows) < number).astype(np.float64)[:, None]


def _make_members(number: int) -> _Table:
    """Return the rows of seven members, of which ``number`` say yes above 0.5: a no at 0, and a yes or another no at 1."""
    labels = np.concatenate([np.zeros((7, 1)), _make_column(number, 7)])
    return np.column_stack([np.repeat([0.0, 1.0], 7), labels])


def _release_tables(data: _Table, count: int, *, under: Plan) -> list[float]:
    """Count the rows of two cells; each table is another one. What tells most is by how much the cells differ."""
    with Curator({"x": data[:, 0]}, plan=under) as curator:
        tables = (curator.table("x", keys=[0, 1], where=f"x > {-1 - number}") for number in range(count))
        return [table.values[1] - table.values[0] for table in tables]


def _release_means(data: _Table, count: int, *, under: Plan) -> list[float]:
    """Take the mean of x between 0 and 1; what tells most is by how much the sums of x and of 1 - x inside differ."""
    found = []
    with Curator({"x": data[:, 0]}, plan=under) as curator:
        for number in range(count):
            means = curator.mean("x", low=0, high=1, where=f"x > {-2 - number}")
            (mean,), (share,), below, above = means.values, means.shares.values, means.below, means.above
            outside = 0.0 if below is None or above is None else above.values[0] - below.values[0]
            found.append(share * (2 * mean - 1) - outside)
    return found


def _release_curves(data: _Table, count: int, *, under: Plan) -> list[float]:
    """Count the rows up to three points; what tells most is where the noisy vector lies between the row's two places."""
    root = factorise(_POINTS)
    weights = root.coefficients / root.coefficients[0]
    first, last = (np.concatenate([np.zeros(at), weights[: _POINTS - at]]) for at in (0, _POINTS - 1))
    columns = np.array([np.concatenate([np.zeros(at), weights[: _POINTS - at]]) for at in range(_POINTS)]).T
    with Curator({"x": data[:, 0]}, plan=under) as curator:
        shares = np.array([found.shares for found in _find_medians(curator, count, "curve")])
    return list(np.linalg.solve(columns, shares.T).T @ (first - last))


def _release_searches(data: _Table, count: int, *, under: Plan) -> list[float]:
    """Search for a median by three questions, each of which the row answers with yes on one side and no on the other."""
    with Curator({"x": data[:, 0]}, plan=under) as curator:
        return [float(np.mean(found.shares)) for found in _find_medians(curator, count, "search")]


def _find_medians(curator: Curator, count: int, method: str) -> Iterator[Quantiles]:
    """Find medians on grids of four points, each a little further than the one before, and no row between them."""
    ends = ((Fraction(number, 1000), Fraction(number + 3000, 1000)) for number in range(count))
    return (curator.median("x", low=low, high=high, method=method) for low, high in ends)


def _release_variances(data: _Table, count: int, *, under: OpenPlan) -> list[float]:
    """Take the variance of x between 0 and 1, or a little more; the row that moves differs from all others, or does not."""
    with Curator({"x": data[:, 0]}, plan=under) as curator:
        return [curator.variance("x", low=0, high=1 + number / 10**6).value for number in range(count)]


def _release_pairs(data: _Table, count: int, *, under: OpenPlan) -> list[float]:
    """Take the mean over pairs of what the row that moves decides in both of its pairs, and is a half in all others."""
    with Curator({"x": data[:, 0]}, plan=under) as curator:
        kernels = (f"CASE WHEN a.x + b.x > {number}e-6 THEN a.x + b.x - 1 ELSE 0.5 END" for number in range(count))
        return [curator.pairs(kernel).value for kernel in kernels]


_ROWS = 24
_ASKING, _ASKING_PURE = _make_plan(_ROWS), _make_plan(_ROWS, pure=True)
_ONE_ASK, _ONE_PURE_ASK = epsilon_at(_ASKING.event, _SLACK), epsilon_at(_ASKING_PURE.event, 0)
_PAIR: Final = (_make_column(2, 7), _make_column(3, 7))
_PEOPLE: Final = (_make_column(12, _ROWS), _make_column(13, _ROWS))
_SOME: Final[dict[str, Any]] = {"most": 30_000, "search": 0.3}
_FEW: Final[dict[str, Any]] = {"most": 10_000, "search": 0.2}


def _make_law(releases: _Releases, under: OpenPlan | Plan, each: int) -> Callable[[Any, int, Bits], Outputs]:
    return partial(_through_curators, partial(releases, under=under), each)


# A table, a mean and a curve cost three questions each, and three are the most that a search on four points asks.
_POINTS = 3
_PRICE = 3
_TABLES = 150
_MANY_ROWS = 40
_TELLING: Final = plan(rows=_MANY_ROWS, queries=_PRICE * _TABLES, epsilon=263, delta=_DELTA, iid=False)
_ONE_TABLE: Final = compose([Repeated(_TELLING.event, _PRICE)], delta=_SLACK).epsilon  # type: ignore[arg-type]  # a private plan has one


def _make_neighbours(values: Sequence[float], moved: tuple[float, float]) -> tuple[_Table, _Table]:
    """Return rows that hold each value equally often, and a last one that has one of two values."""
    others = np.resize(np.array(values), _MANY_ROWS - 1)
    left, right = (np.append(others, value)[:, None] for value in moved)
    return left, right


def _summarise(name: str, releases: _Releases, values: Sequence[float], moved: tuple[float, float]) -> AuditedMechanism:
    """Return a verb that releases a vector at the price of three questions, with neighbours that attain its claim."""
    law, pair = _make_law(releases, _TELLING, _TABLES), _make_neighbours(values, moved)
    return _verb(name, law, pair, _ONE_TABLE, delta=_SLACK, truth=_ONE_TABLE, most=12_000, search=0.2)


VERBS: tuple[AuditedMechanism, ...] = (
    _verb(
        "ASK, normal noise",
        _make_law(_release_answers, _ASKING, _QUESTIONS),
        _PEOPLE,
        _ONE_ASK,
        delta=_SLACK,
        truth=_ONE_ASK,
        **_SOME,
    ),
    _verb(
        "ASK, Laplace noise",
        _make_law(_release_answers, _ASKING_PURE, _QUESTIONS),
        _PEOPLE,
        _ONE_PURE_ASK,
        truth=_ONE_PURE_ASK,
        **_SOME,
    ),
    _verb(
        "VARIANCE",
        _make_law(_release_variances, _ASKING, _QUESTIONS),
        (_make_column(0, _ROWS), _make_column(1, _ROWS)),
        _ONE_ASK,
        delta=_SLACK,
        **_SOME,
    ),
    _verb(
        "PAIRS",
        _make_law(_release_pairs, _ASKING, _QUESTIONS),
        (_make_column(1, _ROWS), 2 * _make_column(1, _ROWS)),
        _ONE_ASK,
        delta=_SLACK,
        **_SOME,
    ),
    _verb("SELECT", _make_law(_release_choices, _make_plan(7), _CHOICES), _PAIR, _EPSILON, **_FEW),
    _verb(
        "SELECT on a pure ledger",
        _make_law(_release_choices, _make_plan(8, pure=True), _CHOICES),
        (_make_column(4, 8), _make_column(3, 8)),
        _EPSILON,
        truth=_EPSILON,
        **_FEW,
    ),
    _verb("LEARN", _make_law(_release_hypotheses, _make_plan(7), _CHOICES), _PAIR, _EPSILON, **_FEW),
    _verb(
        "PREDICT",
        _make_law(_release_predictions, _make_plan(14), _QUESTIONS),
        (_make_members(2), _make_members(3)),
        _EPSILON,
        **_FEW | {"most": 20_000},
    ),
    _summarise("TABLE", _release_tables, (0, 1), (0, 1)),
    _summarise("MEAN", _release_means, (-1, 0, 1, 2), (0, 1)),
    _summarise("QUANTILE, curve", _release_curves, (0, 3.5), (0, 1.5)),
    _summarise("QUANTILE, search", _release_searches, (0, 3.5), (0, 3.5)),
)
"""The verbs of :class:`~holdtrue.Curator`; ASK and SELECT also on a ledger in pure epsilon."""
