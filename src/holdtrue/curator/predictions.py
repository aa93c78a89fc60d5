"""Predictions by a model of the curator's: priced whole, charged, stored, and bought in bulk to teach a student."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdtrue.codec import digest_of, encode
from holdtrue.curator.answer_index import AnswerIndex
from holdtrue.curator.models import Model
from holdtrue.curator.pipeline import Job, Pipeline
from holdtrue.ensembles.responding import SoftMajority
from holdtrue.ensembles.screening import Screen
from holdtrue.errors import BudgetExceeded, InvalidParameter, RefusedError, ReleaseError
from holdtrue.exact import Number, amount, count
from holdtrue.mechanisms.base import Mechanism
from holdtrue.queries.features import matrix
from holdtrue.records import Prediction, Response
from holdtrue.verbs import Answered, Planned, Release, predicting
from holdtrue.verbs.selecting import epsilon_of_use

__all__ = ["Student", "distil", "predict", "predictions_left"]

Points = Mapping[str, Mapping[str, object]]
"""Public points by the names under which their responses are found."""


def predict(  # noqa: PLR0913 - one request, and who makes it
    pipeline: Pipeline,
    model: Model,
    rows: object,
    *,
    epsilon: Number | None,
    mu: Number | None,
    method: predicting.Method,
    screen: Number | None,
    key: str | None,
    analyst: str | None,
) -> list[Prediction]:
    """Return a prediction for each row, in order; equal points share one, and one asked before is free.

    With ``screen``, a share of the votes, a point is answered only where its largest count with noise reaches that share;
    the screen is charged for every point, the answer for clear ones only, and an unclear point has no label (None).

    Guarantee (P4): BudgetExceeded means that nothing was spent. The most that the request can cost, all screens and an
    answer for every point that is not known to be unclear, must fit before the first draw. If other requests take what the
    answers need after the screens were charged, that is a ReleaseError with their entry; what was bought is in the ledger,
    and the same request again finds it.
    """
    points = model.points(rows)
    if points:  # they are public: what cannot be read is refused before anything is charged
        matrix({name: [point[name] for point in points] for name in points[0]}, model.features, pipeline.card)
    asked = model.asked
    rule = predicting.rule_of(asked, plan=pipeline.plan, epsilon=epsilon, mu=mu, method=method)
    distinct = {asked.part("predict", point): point for point in points}
    # Named by all its points, also those that others asked for meanwhile: sent again, it is the same request.
    whole = predicting.predict(list(distinct.values()), model=asked, rule=rule, limit=pipeline.limit).request
    if screen is None:
        request = encode({"verb": "predict"} | whole)
        found = _answer(pipeline, model, distinct, rule=rule, request=request, key=key, analyst=analyst)
    else:
        screening = predicting.screen_of(asked, screen)
        request = encode({"verb": "predict"} | whole | {"screen": repr(screening)})
        given: dict[str, Any] = {"rule": rule, "request": request, "key": key, "analyst": analyst}
        found = _screen_and_answer(pipeline, model, distinct, screening, **given)
    return [found[asked.part("predict", point)] for point in points]


def _answer(  # noqa: PLR0913 - one purchase, and who makes it
    pipeline: Pipeline,
    model: Model,
    points: Points,
    *,
    rule: Mechanism,
    request: str,
    key: str | None,
    analyst: str | None,
) -> dict[str, Prediction]:
    """Return predictions by part; those that were not answered before are charged together."""

    def plan(answered: Answered) -> Planned:
        wanted = [point for part, point in points.items() if not answered.has(part)]
        release = predicting.predict(wanted, model=model.asked, rule=rule, limit=pipeline.limit)
        return _planned(pipeline, model, tuple(points), release, wanted, request)

    if not points and key is None:
        return {}
    return _predictions(points, pipeline.run(Job(plan, key=key, analyst=analyst)))


def _planned(  # noqa: PLR0913, PLR0917 - one purchase
    pipeline: Pipeline,
    model: Model,
    parts: tuple[str, ...],
    release: Release,
    points: Sequence[Mapping[str, object]],
    request: str,
) -> Planned:
    """Return a purchase for which the members vote on points; without a caller's key it is named by what it is for."""
    return Planned(parts, release, request, lambda: model.seen(points, pipeline) if points else [], _name_of(release))


def _predictions(parts: Iterable[str], said: Sequence[Response]) -> dict[str, Prediction]:
    return {part: found for part, found in zip(parts, said, strict=True) if isinstance(found, Prediction)}


def _screen_and_answer(  # noqa: PLR0913 - one purchase after another, and who makes them
    pipeline: Pipeline,
    model: Model,
    distinct: Points,
    screening: Screen,
    *,
    rule: Mechanism,
    request: str,
    key: str | None,
    analyst: str | None,
) -> dict[str, Prediction]:
    """Ask of each point whether its vote is clear, then answer the clear ones; nothing is spent unless both are paid for."""
    with pipeline.reading() as index:
        fresh = {part: point for part, point in distinct.items() if not index.has(part)}
        _refuse_used_key(pipeline, key, request)
        unclear = _screen(pipeline, model, fresh, screening, rule=rule, key=key, analyst=analyst)
        clear = {part: point for part, point in distinct.items() if part not in unclear}
        try:
            return unclear | _answer(pipeline, model, clear, rule=rule, request=request, key=key, analyst=analyst)
        except BudgetExceeded:
            if not fresh:
                raise
        raise _overtaken(index, model, fresh, screening)


def _refuse_used_key(pipeline: Pipeline, key: str | None, request: str) -> None:
    """Refuse a key that names another request, before anything is charged."""
    entry = None if key is None else pipeline.ledger.find(request_id=key)
    if entry is not None and entry.request_digest != hashlib.sha256(request.encode()).hexdigest():
        message = f"request id {key!r} was used for another request; take a new id for a new request"
        raise RefusedError(message)


def _screen(  # noqa: PLR0913 - what is screened, and what comes after it
    pipeline: Pipeline,
    model: Model,
    fresh: Points,
    screening: Screen,
    *,
    rule: Mechanism,
    key: str | None,
    analyst: str | None,
) -> dict[str, Prediction]:
    """Return the points whose vote is not clear; the screens that are not known yet are charged together."""
    asked, index = model.asked, pipeline.index
    names = {part: asked.part("screen", point, rule=screening) for part, point in fresh.items()}
    new = [fresh[part] for part, name in names.items() if not index.has(name)]
    release = predicting.screen(new, model=asked, rule=screening, limit=pipeline.limit)
    possible = [fresh[part] for part, name in names.items() if not index.has(name) or _says_yes(index.answer(name))]
    answers = predicting.predict(possible, model=asked, rule=rule, limit=pipeline.limit)
    _refuse_unless_affordable(pipeline, [(release, None), (answers, key)], analyst=analyst)
    request = encode({"verb": "screen"} | release.request)
    job = Job(lambda _: _planned(pipeline, model, tuple(names.values()), release, new, request), analyst=analyst)
    said = dict(zip(names, pipeline.run(job) if names else [], strict=True))
    return {
        part: Prediction(None, answer.certificate, answer.repeated)
        for part, answer in said.items()
        if isinstance(answer, Prediction) and not answer.label
    }


def _says_yes(said: object) -> bool:
    return isinstance(said, Prediction) and bool(said.label)


def _name_of(release: Release) -> str:
    """Return a key for a request that has none: what a crash left unanswered is found by it, and answered."""
    return f"{release.verb} {digest_of({'parts': list(release.parts), 'request': release.request})}"


def _refuse_unless_affordable(
    pipeline: Pipeline, releases: Sequence[tuple[Release, str | None]], *, analyst: str | None
) -> None:
    """Raise BudgetExceeded unless several releases fit together; one that was charged before, and no more, is paid for."""
    cost = sum(
        release.cost
        for release, key in releases
        if release.parts and pipeline.ledger.find(request_id=_name_of(release) if key is None else key) is None
    )
    left = _left(pipeline, analyst)
    if cost > left:
        raise BudgetExceeded(requested=amount(cost), left=amount(left), unit=f"{pipeline.limit.currency} for predictions")


def _left(pipeline: Pipeline, analyst: str | None) -> int:
    """Return what predictions may still spend, in units: of the reserve, under the cap, within the analyst's allowance."""
    reserve = pipeline.plan.reserve_units - pipeline.index.other_cost
    return max(0, min(reserve, pipeline.ledger.left_for(analyst or pipeline.analyst)))


def _overtaken(index: AnswerIndex, model: Model, fresh: Points, screening: Screen) -> ReleaseError:
    """Return the error of a request whose screens were charged, and whose answers are no longer paid for."""
    asked = model.asked
    said = [index.answer(asked.part("screen", point, rule=screening)) for point in fresh.values()]
    entries = [found.certificate.entry for found in said if found is not None]
    message = "other requests took what the answers need; the screens were charged, and the same request again finds them"
    return ReleaseError(message, entry=max(entries, default=None))


def predictions_left(pipeline: Pipeline, models: Sequence[Model], *, epsilon: Number | None, mu: Number | None) -> int:
    """Return how many predictions the reserve and the cap still pay for: of the dearest of some models.

    Where there is no model yet, of labels by soft majority.
    """
    if not models and (epsilon is None or mu is not None):
        raise InvalidParameter("epsilon", epsilon, "given, without mu, where no model is trained yet")
    given = [predicting.rule_of(model.asked, plan=pipeline.plan, epsilon=epsilon, mu=mu) for model in models]
    rules: list[Mechanism] = given or [SoftMajority(epsilon or 1)]
    return _left(pipeline, None) // max(pipeline.limit.cost(rule.event) for rule in rules)


@dataclass(frozen=True, slots=True, eq=False)
class Student:
    """An estimator that learned public points with labels that the budget bought: its predictions cost nothing more.

    Guarantee: everything it says is a function of released labels and public points (E17), so it may be copied, served and
    asked without end. ``labels`` is how many points it was taught with.
    """

    name: str
    estimator: Any
    labels: int
    model: Model
    pipeline: Pipeline

    def predict(self, rows: object) -> npt.NDArray[Any]:
        """Return the student's labels for rows."""
        return np.asarray(self.estimator.predict(matrix(rows, self.model.features, self.pipeline.card)))

    def __repr__(self) -> str:
        return f"<Student of {self.name!r}, taught with {self.labels:,} labels>"


def distil(  # noqa: PLR0913 - what is bought, and who is taught
    pipeline: Pipeline,
    model: Model,
    public: object,
    student: Any,  # noqa: ANN401 - any scikit-learn estimator
    *,
    labels: int | None,
    groups: int | None,
    epsilon: Number | None,
    mu: Number | None,
    screen: Number | None,
    analyst: str | None,
) -> Student:
    """Buy labels for public points, as many as asked for, and teach a student with them.

    With ``groups`` the points are gathered into so many groups of like ones, by public numbers only, and one label is bought
    for all of a group at the price of one point; all groups are one charge. BudgetExceeded means that nothing was spent.
    """
    learner = _copy(student)  # refused before anything is bought
    points = model.points(public)
    if groups is not None:
        if mu is not None or screen is not None:
            raise InvalidParameter("groups", groups, "left out, or mu and screen: a group has a label by soft majority")
        bought = _grouped(pipeline, model, points, count("groups", groups), epsilon, analyst)
        rows = matrix({name: [point[name] for point in points] for name in points[0]}, model.features, pipeline.card)
        return Student(model.asked.name, _taught(learner, rows, bought), groups, model, pipeline)
    number = len(points) if labels is None else count("labels", labels)
    if number > len(points) or not points:
        raise InvalidParameter("labels", labels, f"at most the number of public points, {len(points)}")
    # Spread evenly, since files are often sorted.
    taken = [points[place * len(points) // number] for place in range(number)]
    table = {name: [point[name] for point in taken] for name in taken[0]}
    told = predict(
        pipeline,
        model,
        table,
        epsilon=epsilon,
        mu=mu,
        method="soft-majority",
        screen=screen,
        key=None,
        analyst=analyst,
    )
    kept = [place for place, answer in enumerate(told) if answer.label is not None]
    if not kept:
        message = "no public point had a clear vote, so there is nothing to teach; the screens were charged"
        raise ReleaseError(message, entry=max(answer.certificate.entry for answer in told))
    rows = matrix({name: [values[place] for place in kept] for name, values in table.items()}, model.features, pipeline.card)
    taught = _taught(learner, rows, [told[place].label for place in kept])
    return Student(model.asked.name, taught, len(kept), model, pipeline)


def _copy(student: Any) -> Any:  # noqa: ANN401 - any scikit-learn estimator
    from sklearn.base import clone

    try:
        copy = clone(student)
    except Exception:  # noqa: BLE001 - somebody else's object
        copy = None
    if not hasattr(copy, "fit") or not hasattr(copy, "predict"):
        raise InvalidParameter("student", type(student).__name__, "a scikit-learn estimator")
    return copy


def _grouped(  # noqa: PLR0913, PLR0917 - one purchase
    pipeline: Pipeline,
    model: Model,
    points: list[dict[str, object]],
    groups: int,
    epsilon: Number | None,
    analyst: str | None,
) -> list[Any]:
    """Return a label for every point; those of the groups that have none yet are bought by one charge."""
    asked = model.asked
    if asked.labels is None:
        raise InvalidParameter("groups", groups, "left out: it is about labels, and this model gives numbers")
    if not groups <= len(points):
        raise InvalidParameter("groups", groups, f"at most the number of public points, {len(points)}")
    privacy = epsilon_of_use(pipeline.plan) if epsilon is None else epsilon
    members = _gathered(pipeline, model, points, groups)
    gathered = [[points[place] for place in places] for places in members]
    whole = predicting.group(gathered, model=asked, epsilon=privacy, limit=pipeline.limit)
    request = encode({"verb": "predict"} | whole.request)

    def plan(answered: Answered) -> Planned:
        new = [group for part, group in zip(whole.parts, gathered, strict=True) if not answered.has(part)]
        release = whole.without_parts()
        if new:
            release = predicting.group(new, model=asked, epsilon=privacy, limit=pipeline.limit)
        listed = [point for group in new for point in group]
        return _planned(pipeline, model, whole.parts, release, listed, request)

    said = pipeline.run(Job(plan, analyst=analyst))
    found: list[Any] = [None] * len(points)
    for places, answer in zip(members, said, strict=True):
        for place in places:
            found[place] = answer.label if isinstance(answer, Prediction) else None
    return found


def _gathered(pipeline: Pipeline, model: Model, points: list[dict[str, object]], groups: int) -> list[list[int]]:
    """Return the places of the points of each group: like ones together, by public numbers only."""
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import StandardScaler

    rows = matrix({name: [point[name] for point in points] for name in points[0]}, model.features, pipeline.card)
    scaled = StandardScaler().fit_transform(np.nan_to_num(rows))
    places = KMeans(groups, n_init=1, random_state=0).fit_predict(scaled)
    listed = [np.flatnonzero(places == number).tolist() for number in range(groups)]
    return [found for found in listed if found]


def _taught(student: Any, rows: npt.NDArray[np.float64], labels: Sequence[Any]) -> Any:  # noqa: ANN401 - an estimator
    """Return a student that was fitted; one label among all of them is learned by heart."""
    from sklearn.dummy import DummyClassifier

    if len(set(labels)) > 1 or isinstance(labels[0], float):
        return student.fit(np.nan_to_num(rows), np.asarray(labels))
    return DummyClassifier(strategy="most_frequent").fit(rows, np.asarray(labels))
