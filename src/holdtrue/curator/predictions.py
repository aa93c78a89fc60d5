"""Predictions by a model of the curator's: charged point by point, stored, and bought in bulk to teach a student."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdtrue.curator.houses import House
from holdtrue.curator.models import Model
from holdtrue.engines.features import matrix
from holdtrue.ensembles.responding import SoftMajority
from holdtrue.ensembles.screening import Screen
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number, count, probability
from holdtrue.records import Prediction
from holdtrue.verbs import predicting
from holdtrue.verbs.selecting import epsilon_of_use

__all__ = ["Student", "distil", "predict", "predictions_left"]

_SCREEN_DEVIATION = 0.15


def predict(  # noqa: PLR0913 - one request, and who makes it
    house: House,
    model: Model,
    rows: object,
    *,
    epsilon: Number | None,
    method: predicting.Method,
    screen: Number | None,
    key: str | None,
    analyst: str | None,
) -> list[Prediction]:
    """Return a prediction for each row, in order; equal points share one, and one asked before is free.

    With ``screen``, a share of the votes, a point is answered only where its largest count with noise reaches that share;
    the screen is charged for every point, the answer for clear ones only, and an unclear point has no label (None).
    """
    points = model.points(rows)
    if points:  # they are public: what cannot be read is refused before anything is charged
        matrix({name: [point[name] for point in points] for name in points[0]}, model.features, house.card)
    rule = predicting.rule_of(model.asked, plan=house.plan, epsilon=epsilon, method=method)
    distinct = {model.asked.part("predict", point): point for point in points}
    unclear: dict[str, Prediction] = {}
    with house.lock:
        house.register.follow()
        fresh = {part: point for part, point in distinct.items() if house.known(part, repeated=False) is None}
        if screen is not None:
            unclear = _unclear(house, model, fresh, screen, analyst)
        wanted = {part: point for part, point in fresh.items() if part not in unclear}
        if wanted or (key is not None and not unclear):
            release = predicting.predict(list(wanted.values()), model=model.asked, rule=rule, limit=house.limit)
            # Named by all its points, also those that others asked for meanwhile: sent again, it is the same request.
            request = {"verb": "predict"} | release.request | {"points": list(distinct.values())}
            house.release(
                release, request=request, key=key, analyst=analyst, measure=lambda: model.seen(list(wanted.values()), house)
            )
        found = []
        for point in points:
            part = model.asked.part("predict", point)
            known = unclear.get(part) or house.known(part, repeated=part not in fresh)
            if isinstance(known, Prediction):
                found.append(known)
    return found


def _unclear(
    house: House, model: Model, fresh: Mapping[str, Mapping[str, object]], screen: Number, analyst: str | None
) -> dict[str, Prediction]:
    """Return the points whose vote is not clear: each is asked for, and charged, once."""
    if model.asked.labels is None:
        raise InvalidParameter("screen", screen, "left out: it is about votes, and this model gives numbers")
    parts = model.asked.parts
    rule = Screen(probability("screen", screen, one=True) * parts, sigma=max(1.0, _SCREEN_DEVIATION * parts))
    found = {}
    for part, point in fresh.items():
        release = predicting.screen(point, model=model.asked, rule=rule, limit=house.limit)
        request = {"verb": "screen"} | release.request
        said = house.once(
            release,
            request=request,
            key=None,
            analyst=analyst,
            measure=lambda point=point: model.seen([point], house),  # type: ignore[misc]  # one a turn
        )
        if isinstance(said, Prediction) and not said.label:
            found[part] = Prediction(None, said.certificate, said.repeated)
    return found


def predictions_left(house: House, epsilon: Number) -> int:
    """Return how many soft-majority predictions the reserve and the cap still pay for."""
    cost = house.limit.cost(SoftMajority(epsilon).event)
    left = min(house.plan.cap_units - house.ledger.spent, house.plan.reserve_units - house.register.other_cost)
    return max(0, left // cost)


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
    house: House

    def predict(self, rows: object) -> npt.NDArray[Any]:
        """Return the student's labels for rows."""
        return np.asarray(self.estimator.predict(matrix(rows, self.model.features, self.house.card)))

    def __repr__(self) -> str:
        return f"<Student of {self.name!r}, taught with {self.labels:,} labels>"


def distil(  # noqa: PLR0913 - what is bought, and who is taught
    house: House,
    model: Model,
    public: object,
    student: Any,  # noqa: ANN401 - any scikit-learn estimator
    *,
    labels: int | None,
    groups: int | None,
    epsilon: Number | None,
    screen: Number | None,
    analyst: str | None,
) -> Student:
    """Buy labels for public points, as many as asked for, and teach a student with them.

    With ``groups`` the points are gathered into so many groups of like ones, by public numbers only, and one label is bought
    for all of a group at the price of one point.
    """
    learner = _copy(student)  # refused before anything is bought
    points = model.points(public)
    if groups is not None:
        bought = _grouped(house, model, points, count("groups", groups), epsilon, analyst)
        rows = matrix({name: [point[name] for point in points] for name in points[0]}, model.features, house.card)
        return Student(model.asked.name, _taught(learner, rows, bought), groups, model, house)
    number = len(points) if labels is None else count("labels", labels)
    if number > len(points) or not points:
        raise InvalidParameter("labels", labels, f"at most the number of public points, {len(points)}")
    # Spread evenly, since files are often sorted.
    taken = [points[place * len(points) // number] for place in range(number)]
    table = {name: [point[name] for point in taken] for name in taken[0]}
    bought = predict(house, model, table, epsilon=epsilon, method="soft-majority", screen=screen, key=None, analyst=analyst)
    kept = [place for place, answer in enumerate(bought) if answer.label is not None]
    if not kept:
        raise InvalidParameter("screen", screen, "lower: no public point had a clear vote")
    rows = matrix({name: [values[place] for place in kept] for name, values in table.items()}, model.features, house.card)
    taught = _taught(learner, rows, [bought[place].label for place in kept])
    return Student(model.asked.name, taught, len(kept), model, house)


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
    house: House, model: Model, points: list[dict[str, object]], groups: int, epsilon: Number | None, analyst: str | None
) -> list[Any]:
    """Return a label for every point, bought group by group."""
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import StandardScaler

    if model.asked.labels is None:
        raise InvalidParameter("groups", groups, "left out: it is about labels, and this model gives numbers")
    if not groups <= len(points):
        raise InvalidParameter("groups", groups, f"at most the number of public points, {len(points)}")
    privacy = epsilon_of_use(house.plan) if epsilon is None else epsilon
    rows = matrix({name: [point[name] for point in points] for name in points[0]}, model.features, house.card)
    scaled = StandardScaler().fit_transform(np.nan_to_num(rows))
    places = KMeans(groups, n_init=1, random_state=0).fit_predict(scaled)
    found: list[Any] = [None] * len(points)
    for number in range(groups):
        members = np.flatnonzero(places == number).tolist()
        some = [points[place] for place in members]
        release = predicting.group(some, model=model.asked, epsilon=privacy, limit=house.limit)
        said = house.once(
            release,
            request={"verb": "predict"} | release.request,
            key=None,
            analyst=analyst,
            measure=lambda some=some: model.seen(some, house),  # type: ignore[misc]  # one a turn
        )
        for place in members:
            found[place] = said.label if isinstance(said, Prediction) else None
    return found


def _taught(student: Any, rows: npt.NDArray[np.float64], labels: Sequence[Any]) -> Any:  # noqa: ANN401 - an estimator
    """Return a student that was fitted; one label among all of them is learned by heart."""
    from sklearn.dummy import DummyClassifier

    if len(set(labels)) > 1 or isinstance(labels[0], float):
        return student.fit(np.nan_to_num(rows), np.asarray(labels))
    return DummyClassifier(strategy="most_frequent").fit(rows, np.asarray(labels))
