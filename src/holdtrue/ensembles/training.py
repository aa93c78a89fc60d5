"""Training an ensemble: one member per part, by a rule under which one row affects one member only (E4, E10, 0.4)."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.ensembles.members import (
    Block,
    ConstantMember,
    Domain,
    Ensemble,
    Members,
    OtherMembers,
    Tree,
    kind_of,
    make_fixed_block,
    make_fixed_tree,
    read_block,
    read_tree,
    stack_blocks,
    stack_trees,
    width_of,
)
from holdtrue.ensembles.own_estimators import PickMembers
from holdtrue.ensembles.parts import Label, codes_of, labels_of, outputs_of, shares_of, targets_of
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number, count
from holdtrue.kernels import Floats, Integers, load_kernels
from holdtrue.queries.features import hash_keys
from holdtrue.silence import silence

__all__ = ["Progress", "Recipe", "TrainingRows", "fit_part", "gather_members", "make_recipe", "train", "train_by"]

Progress: TypeAlias = Callable[[float], None]

BATCHED_FROM = 256
_ALONE_BELOW = 20_000  # cells
_TOGETHER = 32
_NEWTONS_SHARE = 0.9
_TIGHTEST = 1e-9
_STRONGEST = 1e12
_FREE = ("C", "fit_intercept", "max_iter", "n_jobs", "random_state", "tol", "verbose")


def train(  # noqa: PLR0913 - each is a public fact about rows or training, given by name
    estimator: Any,  # noqa: ANN401 - any scikit-learn estimator
    X: object,
    y: object,
    *,
    parts: int,
    labels: object = None,
    output_bounds: object = None,
    fallback: Number | None = None,
    bounds: object = None,
    keys: object = None,
    names: Integers | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Ensemble:
    """Train a copy of an estimator on each of the disjoint parts of the rows.

    Guarantee (E4, E10): a member depends on the set of rows of its part alone, whatever a pipeline does before it learns,
    and every ``random_state`` is the number of the part. With ``keys``, a public key for each row that stays when the row is
    replaced, the part is a hash of the key: replacing one row changes one member, in any order of rows, and rows with one
    key (of one person) are in one part. With ``names`` (see :func:`~holdtrue.ensembles.parts.hash_contents`) replacing one
    row changes two members, in any order: answers must be priced for two votes. With neither, the row at position p belongs
    to part p modulo ``parts``, and to none from ``parts * floor(rows / parts)`` on: replacing one row changes one member
    *if no value decides the order of rows*, which is assumed and cannot be checked without looking at them.

    Needs: an estimator that is deterministic given its ``random_state`` and keeps nothing outside itself; public ``labels``
    for a classifier, or public ``output_bounds`` for a regressor; ``bounds`` of the columns, if any, and the types of ``X``
    and ``y`` public too.

    Each row by itself: a missing feature is 0, and features move into ``bounds`` (or the range of 32-bit floats); a label
    that is not in the list counts as the first; a target moves into ``output_bounds``, a missing one is ``fallback`` (by
    default their middle). A part whose rows all have one label votes for that label. A part without rows, or on which the
    estimator fails or ends with numbers that are not finite, votes for the first label, or says ``fallback``. Failure: on
    public facts only, before training begins: InsufficientSamples for more parts than rows, InvalidParameter for all else.
    An estimator that fails on every part therefore gives an ensemble all the same; try it on public rows first.

    Logistic regression of two labels with its defaults (up to C and the intercept) on 256 parts or more is solved for all
    parts at once by Newton's method, to a tighter tolerance than scikit-learn's; everything else is fitted part by part.
    """
    recipe = make_recipe(
        estimator,
        width=width_of(X),
        parts=parts,
        labels=labels,
        output_bounds=output_bounds,
        fallback=fallback,
        bounds=bounds,
    )
    return train_by(recipe, X, y, keys=keys, names=names, jobs=jobs, progress=progress)


def train_by(  # noqa: PLR0913 - the rows, how they are cut, and how they are trained on
    recipe: "Recipe",
    X: object,
    y: object,
    *,
    keys: object = None,
    names: Integers | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Ensemble:
    """Return the ensemble of a recipe whose public facts are checked already; see :func:`train`."""
    workers = (os.cpu_count() or 1) if jobs is None else count("jobs", jobs)
    task = recipe.make_task(X, y)
    hashed = names if keys is None else hash_keys(keys, rows=len(task.points))
    shares = shares_of(len(task.points), parts=recipe.parts, names=hashed)
    if hashed is not None:
        shares = [_in_one_order(task, hashed, share) for share in shares]
    return recipe.make_ensemble(_train_members(task, shares, workers, progress or _ignore_progress))


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """What is public about a training: the same for every part, wherever a part is trained."""

    estimator: Any
    seeds: tuple[str, ...]
    parts: int
    domain: Domain
    labels: tuple[Label, ...] | None
    output_bounds: tuple[float, float] | None
    fallback: float

    def make_task(self, X: object, y: object) -> "TrainingRows":
        """Return rows and labels as members see them; each by a rule that looks at one row alone."""
        points = self.domain.clamp_points(X)
        if self.labels is not None:
            codes = codes_of(y, labels=self.labels, rows=len(points))
            return TrainingRows(self, points, np.asarray(self.labels)[codes], codes)
        targets = targets_of(y, outputs=self.output_bounds or (0.0, 0.0), fallback=self.fallback, rows=len(points))
        return TrainingRows(self, points, targets, None)

    def read_goal(self, y: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return places of labels as whole numbers, a missing one as the first; numbers as they are."""
        return y if self.labels is None else np.nan_to_num(y.astype(np.float64), nan=0.0).astype(np.int64)

    def make_ensemble(self, members: Members) -> Ensemble:
        """Return the ensemble of trained members."""
        return Ensemble(members, self.domain, self.labels, self.output_bounds, self.fallback)


def make_recipe(  # noqa: PLR0913 - each is a public fact, given by name
    estimator: Any,  # noqa: ANN401 - any scikit-learn estimator
    *,
    width: int,
    parts: int,
    labels: object = None,
    output_bounds: object = None,
    fallback: Number | None = None,
    bounds: object = None,
) -> Recipe:
    """Return the checked public facts of a training; see :func:`train` for their meaning."""
    domain = Domain.of(bounds, width=width)
    number = count("parts", parts)
    quiet, seeds = _check_estimator(estimator)
    if (labels is None) == (output_bounds is None):
        raise InvalidParameter(
            "labels", labels, "a public list of labels, or output_bounds=(low, high) for a regressor; not both"
        )
    if labels is not None:
        return Recipe(quiet, seeds, number, domain, labels_of(labels), None, 0.0)
    span, value = outputs_of(output_bounds, fallback)
    return Recipe(quiet, seeds, number, domain, None, span, value)


def _check_estimator(estimator: Any) -> tuple[Any, tuple[str, ...]]:  # noqa: ANN401 - what came
    """Return a copy of an estimator that prints nothing, and the names of its parts' settings that are seeds."""
    from sklearn.base import clone

    expected = "a scikit-learn estimator: an object with fit, predict and get_params"
    if isinstance(estimator, type) or not all(callable(getattr(estimator, name, None)) for name in ("fit", "predict")):
        raise InvalidParameter("estimator", type(estimator).__name__, expected)
    try:
        fresh = clone(estimator)
        names = [(name, name.rsplit("__", 1)[-1]) for name in fresh.get_params(deep=True)]
        fresh.set_params(**{name: False for name, last in names if last == "verbose"})
    except Exception:  # noqa: BLE001 - it has seen no row, but is of no use
        raise InvalidParameter("estimator", type(estimator).__name__, expected) from None
    return fresh, tuple(name for name, last in names if last == "random_state")


def _ignore_progress(_share: float) -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRows:
    """What is fitted: rows as members see them, what they learn, and codes of labels where there are any."""

    recipe: Recipe
    points: Floats
    targets: Any
    codes: Integers | None


def _in_one_order(task: TrainingRows, names: Integers, share: Integers) -> Integers:
    """Return the rows of a part in an order that their set decides: by name, and rows of one name by what they hold."""
    if np.unique(names[share]).size == share.size:
        return share
    held = task.targets if task.codes is None else task.codes
    return share[np.lexsort((held[share], *task.points[share].T[::-1], names[share]))]


def _train_members(task: TrainingRows, shares: Sequence[Integers], workers: int, progress: Progress) -> Members:
    """Return one member for each of ``shares``, the rows of a part."""
    parts = len(shares)
    kind = kind_of(task.recipe.estimator)
    made: dict[int, Any] = dict(_train_by_newton(task, shares, workers, progress)) if kind == "linear" else {}
    left = [part for part in range(parts) if part not in made]
    begun = _NEWTONS_SHARE if made else 0.0
    for number, member in enumerate(_fit_parts(task, shares, left, workers)):
        made[left[number]] = member
        progress(begun + (1 - begun) * (number + 1) / len(left))
    if not left:
        progress(1.0)
    return gather_members(task.recipe, [made[part] for part in range(parts)])


def gather_members(recipe: Recipe, held: Sequence[Any]) -> Members:
    """Return the members of all parts in order; None stands for a part without one, which gets a fixed member."""
    kind = kind_of(recipe.estimator)
    if kind == "other":
        return OtherMembers(tuple(held))
    if kind == "picks":
        indices = [0 if member is None else member.number for member in held]
        return PickMembers(recipe.estimator, np.array(indices, dtype=np.int64))
    whole: list[Any] = [_fixed_member(recipe, 0) if member is None else member for member in held]
    return stack_blocks(whole) if kind == "linear" else stack_trees(whole)


def _fixed_member(recipe: Recipe, code: int) -> "Block | Tree | ConstantMember":
    """Return a member that votes for one label everywhere or, without labels, always gives ``fallback``."""
    match kind_of(recipe.estimator):
        case "linear":
            return make_fixed_block(recipe.fallback, width=recipe.domain.width, code=code)
        case "trees":
            return make_fixed_tree(recipe.fallback, code=code)
        case _:
            return ConstantMember((recipe.labels or (0,))[code])


def fit_part(recipe: Recipe, X: object, y: object, *, part: int) -> Any:  # noqa: ANN401 - a member or None
    """Return the member of one part from its rows in order, as :func:`train` makes it; None if it cannot be fitted."""
    task = recipe.make_task(X, y)
    rows = np.arange(len(task.points), dtype=np.int64)
    found = _train_by_newton(task, [rows], 1, _ignore_progress) if kind_of(recipe.estimator) == "linear" else {}
    if found:
        return found[0]
    from threadpoolctl import threadpool_limits

    with silence(), threadpool_limits(1):
        return _fit_part(task, rows, part)


def _fit_parts(task: TrainingRows, shares: Sequence[Integers], parts: list[int], workers: int) -> Iterator[Any]:
    """Yield the members of some parts in order, None for one that cannot be fitted."""
    from joblib import Parallel, delayed
    from threadpoolctl import threadpool_limits

    # Threads of the linear algebra would compete with ours, and split sums in ways that need not repeat.
    with silence(), threadpool_limits(1):
        if workers == 1 or task.points.size < _ALONE_BELOW:  # starting threads would take longer
            yield from (_fit_part(task, shares[part], part) for part in parts)
            return
        run = Parallel(n_jobs=workers, backend="threading", return_as="generator")
        yield from run(delayed(_fit_part)(task, shares[part], part) for part in parts)


def _fit_part(task: TrainingRows, rows: Integers, part: int) -> Any:  # noqa: ANN401 - a member or None
    if not rows.size:
        return None
    if task.codes is not None and kind_of(task.recipe.estimator) == "picks":
        # Also where all labels are one: what a certificate is about is the best of the class, and no other rule.
        return task.recipe.estimator.fit(task.points[rows], task.codes[rows])
    if task.codes is not None and np.ptp(task.codes[rows]) == 0:
        return _fixed_member(task.recipe, int(task.codes[rows[0]]))
    try:
        member = _copy_with_seed(task, part).fit(task.points[rows], task.targets[rows])
        match kind_of(task.recipe.estimator):
            case "linear":
                return read_block(member, labels=task.recipe.labels)
            case "trees":
                return read_tree(member, labels=task.recipe.labels)
            case _:
                return member
    except Exception:  # noqa: BLE001 - whatever it is, it may depend on private rows and is not to be seen
        return None


def _copy_with_seed(task: TrainingRows, part: int) -> Any:  # noqa: ANN401 - an estimator
    """Return a copy whose every ``random_state`` is the number of the part."""
    from sklearn.base import clone

    seeds = task.recipe.seeds
    fresh = clone(task.recipe.estimator)
    if seeds == ("random_state",):
        fresh.random_state = part  # what set_params does, in a fraction of its time
        return fresh
    return fresh.set_params(**dict.fromkeys(seeds, part)) if seeds else fresh


def _train_by_newton(task: TrainingRows, shares: Sequence[Integers], workers: int, progress: Progress) -> dict[int, Block]:
    """Return the weights of members that Newton's method trained together; none where it does not apply."""
    # Decided by public facts, so that a part is solved alike wherever it is.
    batched = task.recipe.parts >= BATCHED_FROM and _plain_logistic(task.recipe)
    module = load_kernels("batched_logistic") if batched else None
    if module is None or task.codes is None:
        return {}
    from joblib import Parallel, delayed

    codes, width = task.codes, task.points.shape[1]
    estimator = task.recipe.estimator
    weights = np.zeros((len(shares), width + bool(estimator.fit_intercept)))
    solved = np.zeros(len(shares), dtype=np.bool_)

    def solve(some: Sequence[int]) -> None:
        rows = np.column_stack([shares[part] for part in some])
        found, done = np.zeros((len(some), weights.shape[1])), np.zeros(len(some), dtype=np.bool_)
        module.newton(task.points[rows], codes[rows], float(estimator.C), found, done)
        weights[some], solved[some] = found, done & (np.ptp(codes[rows], axis=0) > 0)

    steps = _batch_parts(shares)
    for number, _ in enumerate(
        Parallel(n_jobs=workers, backend="threading", return_as="generator")(delayed(solve)(some) for some in steps)
    ):
        progress(_NEWTONS_SHARE * (number + 1) / len(steps))
    zero, one = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
    biases = weights[:, width:] if weights.shape[1] > width else np.zeros((len(shares), 1))
    return {
        part: Block(weights[part : part + 1, :width], biases[part], one, zero) for part in np.flatnonzero(solved).tolist()
    }


def _batch_parts(shares: Sequence[Integers]) -> list[list[int]]:
    """Return the parts that have rows, in batches of parts of equal size."""
    sizes: dict[int, list[int]] = {}
    for part, share in enumerate(shares):
        sizes.setdefault(share.size, []).append(part)
    return [
        some[start : start + _TOGETHER]
        for size, some in sorted(sizes.items())
        if size
        for start in range(0, len(some), _TOGETHER)
    ]


def _plain_logistic(recipe: Recipe) -> bool:
    """Return whether this is logistic regression with two labels and nothing but its defaults, up to what Newton covers."""
    from sklearn.linear_model import LogisticRegression

    if type(recipe.estimator) is not LogisticRegression or recipe.labels is None or len(recipe.labels) != 2:  # noqa: PLR2004 - binary
        return False
    given, plain = recipe.estimator.get_params(), LogisticRegression().get_params()
    alike = all(given[name] == plain[name] for name in plain if name not in _FREE)
    strength = given["C"]
    usual = given["max_iter"] >= plain["max_iter"] and given["tol"] >= _TIGHTEST
    return bool(alike and usual and isinstance(strength, (int, float)) and 0 < strength <= _STRONGEST)
