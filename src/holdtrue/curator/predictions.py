"""Predictions by a model of the curator's: priced whole, charged, stored, and bought in bulk to teach a student."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdtrue.accounting.filters import amount
from holdtrue.curator.houses import House
from holdtrue.curator.models import Model
from holdtrue.engines.features import matrix
from holdtrue.ensembles.responding import SoftMajority
from holdtrue.ensembles.screening import Screen
from holdtrue.errors import BudgetExceeded, InvalidParameter, RefusedError, ReleaseError
from holdtrue.exact import Number, count
from holdtrue.mechanisms.base import Mechanism
from holdtrue.records import Prediction, canonical
from holdtrue.verbs import Release, predicting
from holdtrue.verbs.selecting import epsilon_of_use

__all__ = ["Student", "distil", "predict", "predictions_left"]

Points = Mapping[str, Mapping[str, object]]
"""Public points by the names under which their responses are found."""


def predict(  # noqa: PLR0913 - one request, and who makes it
    house: House,
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
        matrix({name: [point[name] for point in points] for name in points[0]}, model.features, house.card)
    asked = model.asked
    rule = predicting.rule_of(asked, plan=house.plan, epsilon=epsilon, mu=mu, method=method)
    screening = None if screen is None else predicting.screen_of(asked, screen)
    distinct = {asked.part("predict", point): point for point in points}
    unclear: dict[str, Prediction] = {}
    with house.lock:
        house.register.follow()
        fresh = {part: point for part, point in distinct.items() if house.known(part, repeated=False) is None}
        # Named by all its points, also those that others asked for meanwhile: sent again, it is the same request.
        whole = predicting.predict(list(distinct.values()), model=asked, rule=rule, limit=house.limit).request
        request = {"verb": "predict"} | whole | ({} if screening is None else {"screen": repr(screening)})
        if screening is not None:
            _refuse_used_key(house, key, request)
            unclear = _screen(house, model, fresh, screening, rule=rule, key=key, analyst=analyst)
        wanted = {part: point for part, point in fresh.items() if part not in unclear}
        if wanted or house.register.binds(key):
            release = predicting.predict(list(wanted.values()), model=asked, rule=rule, limit=house.limit)
            try:
                _buy(house, model, release, wanted, request=request, key=key, analyst=analyst)
            except BudgetExceeded:
                if screening is None or not fresh:
                    raise
                raise _overtaken(house, model, fresh, screening) from None
        found = []
        for point in points:
            part = asked.part("predict", point)
            known = unclear.get(part) or house.known(part, repeated=part not in fresh)
            if isinstance(known, Prediction):
                found.append(known)
    return found


def _refuse_used_key(house: House, key: str | None, request: Mapping[str, object]) -> None:
    """Refuse a key that names another request, before anything is charged."""
    entry = None if key is None else house.ledger.find(request_id=key)
    if entry is not None and entry.request_digest != hashlib.sha256(canonical(request).encode("ascii")).hexdigest():
        message = f"request id {key!r} was used for another request; take a new id for a new request"
        raise RefusedError(message)


def _screen(  # noqa: PLR0913 - what is screened, and what comes after it
    house: House, model: Model, fresh: Points, screening: Screen, *, rule: Mechanism, key: str | None, analyst: str | None
) -> dict[str, Prediction]:
    """Return the points whose vote is not clear; the screens that are not known yet are charged together."""
    asked = model.asked
    names = {part: asked.part("screen", point, rule=screening) for part, point in fresh.items()}
    known = {part: house.known(name, repeated=True) for part, name in names.items()}
    new = {part: fresh[part] for part, found in known.items() if found is None}
    release = predicting.screen(list(new.values()), model=asked, rule=screening, limit=house.limit)
    possible = [point for part, point in fresh.items() if part in new or _says_yes(known[part])]
    answers = predicting.predict(possible, model=asked, rule=rule, limit=house.limit)
    _refuse_unless_affordable(house, [(release, None), (answers, key)], analyst=analyst)
    if new:
        _buy(house, model, release, new, request={"verb": "screen"} | release.request, key=None, analyst=analyst)
    found = {}
    for part, name in names.items():
        said = known[part] or house.known(name, repeated=False)
        if isinstance(said, Prediction) and not said.label:
            found[part] = Prediction(None, said.certificate, said.repeated)
    return found


def _says_yes(said: object) -> bool:
    return isinstance(said, Prediction) and bool(said.label)


def _buy(  # noqa: PLR0913 - one purchase, and who makes it
    house: House,
    model: Model,
    release: Release,
    points: Points,
    *,
    request: Mapping[str, object],
    key: str | None,
    analyst: str | None,
) -> None:
    """Charge a release and have the members vote on its points; without a key it is named by what it is for."""
    name = _name_of(release) if key is None else key
    listed = list(points.values())
    house.release(release, request=request, key=name, analyst=analyst, measure=lambda: model.seen(listed, house))


def _name_of(release: Release) -> str:
    """Return a key for a request that has none: what a crash left unanswered is found by it, and answered."""
    content = canonical({"parts": list(release.parts), "request": release.request})
    return f"{release.verb} {hashlib.sha256(content.encode('ascii')).hexdigest()}"


def _refuse_unless_affordable(house: House, releases: Sequence[tuple[Release, str | None]], *, analyst: str | None) -> None:
    """Raise BudgetExceeded unless several releases fit together; one that was charged before, and no more, is paid for."""
    cost = sum(
        release.cost
        for release, key in releases
        if release.parts and house.ledger.find(request_id=_name_of(release) if key is None else key) is None
    )
    left = _left(house, analyst)
    if cost > left:
        raise BudgetExceeded(requested=amount(cost), left=amount(left), unit=f"{house.limit.currency} for predictions")


def _left(house: House, analyst: str | None) -> int:
    """Return what predictions may still spend, in units: of the reserve, under the cap, within the analyst's allowance."""
    reserve = house.plan.reserve_units - house.register.other_cost
    return max(0, min(reserve, house.ledger.left_for(analyst or house.analyst)))


def _overtaken(house: House, model: Model, fresh: Points, screening: Screen) -> ReleaseError:
    """Return the error of a request whose screens were charged, and whose answers are no longer paid for."""
    asked = model.asked
    said = [house.known(asked.part("screen", point, rule=screening), repeated=True) for point in fresh.values()]
    entries = [found.certificate.entry for found in said if found is not None]
    message = "other requests took what the answers need; the screens were charged, and the same request again finds them"
    return ReleaseError(message, entry=max(entries, default=None))


def predictions_left(house: House, models: Sequence[Model], *, epsilon: Number | None, mu: Number | None) -> int:
    """Return how many predictions the reserve and the cap still pay for: of the dearest of some models.

    Where there is no model yet, of labels by soft majority.
    """
    if not models and (epsilon is None or mu is not None):
        raise InvalidParameter("epsilon", epsilon, "given, without mu, where no model is trained yet")
    given = [predicting.rule_of(model.asked, plan=house.plan, epsilon=epsilon, mu=mu) for model in models]
    rules: list[Mechanism] = given or [SoftMajority(epsilon or 1)]
    return _left(house, None) // max(house.limit.cost(rule.event) for rule in rules)


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
        bought = _grouped(house, model, points, count("groups", groups), epsilon, analyst)
        rows = matrix({name: [point[name] for point in points] for name in points[0]}, model.features, house.card)
        return Student(model.asked.name, _taught(learner, rows, bought), groups, model, house)
    number = len(points) if labels is None else count("labels", labels)
    if number > len(points) or not points:
        raise InvalidParameter("labels", labels, f"at most the number of public points, {len(points)}")
    # Spread evenly, since files are often sorted.
    taken = [points[place * len(points) // number] for place in range(number)]
    table = {name: [point[name] for point in taken] for name in taken[0]}
    told = predict(
        house,
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
    rows = matrix({name: [values[place] for place in kept] for name, values in table.items()}, model.features, house.card)
    taught = _taught(learner, rows, [told[place].label for place in kept])
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
    """Return a label for every point; those of the groups that have none yet are bought by one charge."""
    asked = model.asked
    if asked.labels is None:
        raise InvalidParameter("groups", groups, "left out: it is about labels, and this model gives numbers")
    if not groups <= len(points):
        raise InvalidParameter("groups", groups, f"at most the number of public points, {len(points)}")
    privacy = epsilon_of_use(house.plan) if epsilon is None else epsilon
    members = _gathered(house, model, points, groups)
    gathered = [[points[place] for place in places] for places in members]
    whole = predicting.group(gathered, model=asked, epsilon=privacy, limit=house.limit)
    with house.lock:
        house.register.follow()
        new = [number for number, part in enumerate(whole.parts) if house.known(part, repeated=True) is None]
        if new:
            release = predicting.group([gathered[number] for number in new], model=asked, epsilon=privacy, limit=house.limit)
            listed = {f"{number} {place}": point for number in new for place, point in enumerate(gathered[number])}
            _buy(house, model, release, listed, request={"verb": "predict"} | release.request, key=None, analyst=analyst)
        said = [house.known(part, repeated=True) for part in whole.parts]
    found: list[Any] = [None] * len(points)
    for places, answer in zip(members, said, strict=True):
        for place in places:
            found[place] = answer.label if isinstance(answer, Prediction) else None
    return found


def _gathered(house: House, model: Model, points: list[dict[str, object]], groups: int) -> list[list[int]]:
    """Return the places of the points of each group: like ones together, by public numbers only."""
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import StandardScaler

    rows = matrix({name: [point[name] for point in points] for name in points[0]}, model.features, house.card)
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
