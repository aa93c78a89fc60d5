"""DISTILL: labels bought for public points, and a student taught with them that predicts at no further cost (E17)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from holdtrue.codec import digest_of, encode
from holdtrue.ensembles.responding import SoftMajority
from holdtrue.entropy import SYSTEM
from holdtrue.errors import BudgetExceeded, InvalidParameter, ReleaseError
from holdtrue.exact import Number, count
from holdtrue.queries.features import read_matrix
from holdtrue.records import Certificate, Prediction
from holdtrue.verbs import Answered, Curation, Job, Planned, Release
from holdtrue.verbs.predicting import Offer, plan_purchase, predict, predictions_left, refuse_purchase
from holdtrue.verbs.selecting import epsilon_of_use
from holdtrue.verbs.training import Model

__all__ = ["Purchase", "Student", "buy_labels", "copy_student", "fit_student", "release_groups", "teach_student"]


@dataclass(frozen=True, slots=True, eq=False)
class Student:
    """An estimator that learned public points with labels that the budget bought: its predictions cost nothing more.

    Guarantee: everything it says is a function of released labels and public points (E17), so it may be copied, served and
    asked without end. ``labels`` is how many points it was taught with, ``id`` the name by which its evaluation is known,
    ``certificate`` that of the last of those labels.
    """

    name: str
    estimator: Any
    labels: int
    model: Model
    certificate: Certificate
    id: str = field(default_factory=lambda: SYSTEM.words(2).tobytes().hex())

    def predict(self, rows: object) -> npt.NDArray[Any]:
        """Return the student's labels for rows; a missing number counts as 0, as it did when it was taught."""
        read = read_matrix(rows, self.model.features, self.model.reads)
        return np.asarray(self.estimator.predict(np.nan_to_num(read)))

    def __repr__(self) -> str:
        return f"<Student of {self.name!r}, taught with {self.labels:,} labels>"


def teach_student(  # noqa: PLR0913 - what is bought, and who is taught
    curation: Curation,
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
    """Buy ``labels`` labels for public points and train a student on them.

    With ``groups`` the points are clustered into that many groups, by public numbers only, and one label is bought
    for each group at the price of one point; all groups are one charge. BudgetExceeded means that nothing was spent.
    """
    learner = copy_student(student)  # refused before anything is bought
    given: dict[str, Any] = {"labels": labels, "groups": groups, "epsilon": epsilon, "mu": mu, "screen": screen}
    bought = buy_labels(curation, model, public, key=None, analyst=analyst, **given)
    kept = [place for place, label in enumerate(bought.labels) if label is not None]
    taught = fit_student(
        learner, model.read([bought.points[place] for place in kept]), [bought.labels[place] for place in kept]
    )
    number = len(kept) if groups is None else groups
    return Student(model.asked.name, taught, number, model, bought.told[-1].certificate)


@dataclass(frozen=True, slots=True, eq=False)
class Purchase:
    """Public points and their labels, None where none was bought or clear; ``told`` is what was released."""

    points: list[dict[str, object]]
    labels: list[Any]
    told: list[Prediction]


def buy_labels(  # noqa: PLR0913 - one purchase
    curation: Curation,
    model: Model,
    public: object,
    *,
    labels: int | None,
    groups: int | None,
    epsilon: Number | None,
    mu: Number | None,
    screen: Number | None,
    key: str | None,
    analyst: str | None,
) -> Purchase:
    """Buy labels for public points, one by one or by group; BudgetExceeded means that nothing was spent."""
    points = model.read_points(public)
    if groups is not None:
        if mu is not None or screen is not None:
            raise InvalidParameter.saying("groups", "groups are labelled by soft majority; leave out mu and screen")
        return _label_groups(curation, model, points, count("groups", groups), epsilon, (key, analyst))
    number = len(points) if labels is None else count("labels", labels)
    if number > len(points) or not points:
        raise InvalidParameter("labels", labels, f"at most the number of public points, {len(points)}")
    # Spread evenly, since files are often sorted.
    taken = [place * len(points) // number for place in range(number)]
    table = {name: [points[place][name] for place in taken] for name in model.reads}
    given: dict[str, Any] = {"epsilon": epsilon, "mu": mu, "method": "soft-majority", "screen": screen}
    try:
        told = predict(curation, model, table, key=key, analyst=analyst, **given)
    except BudgetExceeded as refusal:
        if mu is not None or screen is not None:
            raise
        fitting = predictions_left(curation, [model], epsilon=epsilon, mu=None)
        way_out = f"labels={fitting}, or groups={fitting} to share them among all points"
        raise refuse_purchase(refusal, number, fitting, "labels", way_out) from None
    if all(answer.label is None for answer in told):
        message = "no public point had a clear vote, so there is nothing to teach; the screens were charged"
        raise ReleaseError(message, entry=max(answer.certificate.entry for answer in told))
    found: list[Any] = [None] * len(points)
    for place, answer in zip(taken, told, strict=True):
        found[place] = answer.label
    return Purchase(points, found, told)


def copy_student(student: Any) -> Any:  # noqa: ANN401 - any scikit-learn estimator
    """Return an unfitted copy of an estimator; InvalidParameter for anything else."""
    from sklearn.base import clone

    try:
        copy = clone(student)
    except Exception:  # noqa: BLE001 - somebody else's object
        copy = None
    if not hasattr(copy, "fit") or not hasattr(copy, "predict"):
        raise InvalidParameter("student", type(student).__name__, "a scikit-learn estimator")
    return copy


def release_groups(
    groups: Sequence[Sequence[Mapping[str, object]]],
    *,
    curation: Curation,
    model: Model,
    epsilon: Number,
    names: Sequence[str] | None = None,
) -> tuple[Offer, Release]:
    """Return the release of one label for each of several groups of public points, each at the cost of one prediction.

    Votes are added over the points of a group. One row moves one member, and so at most one vote a point: scaled by their
    number, that is what one vote at one point is (E4). A member that errs at random over the points errs on few of them.
    """
    votes = model.asked.cut.votes
    rules = [SoftMajority(epsilon, points=votes * len(points)) for points in groups]
    ends = np.cumsum([len(points) for points in groups])

    def draw(seen: Any) -> list[Any]:  # noqa: ANN401 - votes, a line for each point of each group in turn
        pooled = [lines.sum(axis=0) for lines in np.split(np.asarray(seen), ends[:-1])]
        return [rule.release(counts) for rule, counts in zip(rules, pooled, strict=True)]

    offer = Offer.of(model, rules[0], curation)
    named = [_name_group(points) for points in groups]
    parts = map(offer.name_part, named) if names is None else names
    return offer, offer.release(dict(zip(parts, named, strict=True)), draw=draw)


def _name_group(points: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return the public name of a group: its number of points and their digest."""
    return {"points": len(points), "digest": digest_of({"points": [dict(point) for point in points]})}


def _label_groups(  # noqa: PLR0913, PLR0917 - one purchase
    curation: Curation,
    model: Model,
    points: list[dict[str, object]],
    groups: int,
    epsilon: Number | None,
    sender: tuple[str | None, str | None],
) -> Purchase:
    """Return a label for every point; those of the groups that have none yet are bought by one charge."""
    if model.asked.cut.by == "whole":
        raise InvalidParameter.saying("groups", "leave out groups: they add up votes, and this model is one fit")
    if model.asked.labels is None:
        raise InvalidParameter.saying("groups", "leave out groups: they need labels, and this model predicts numbers")
    if not groups <= len(points):
        raise InvalidParameter("groups", groups, f"at most the number of public points, {len(points)}")
    privacy = epsilon_of_use(curation.plan) if epsilon is None else epsilon
    features = model.read(points)
    members = _gather_points(features, groups)
    gathered = [[points[place] for place in places] for places in members]
    offer, whole = release_groups(gathered, curation=curation, model=model, epsilon=privacy)
    offer = replace(offer, lenient=epsilon is None)
    request = encode({"verb": "predict"} | whole.request)

    def plan(answered: Answered) -> Planned:
        found = offer.find_parts(dict(zip(whole.parts, map(_name_group, gathered), strict=True)), answered)
        parts, new = tuple(found), [number for number, fresh in enumerate(found.values()) if fresh]
        release = whole.without_parts()
        if new:
            given: dict[str, Any] = {"model": model, "epsilon": privacy, "names": [parts[one] for one in new]}
            _, release = release_groups([gathered[one] for one in new], curation=curation, **given)
        places = [place for number in new for place in members[number]]
        return plan_purchase(offer, parts, release, features[places], request)

    said = curation.run(Job(plan, *sender))
    found: list[Any] = [None] * len(points)
    for places, answer in zip(members, said, strict=True):
        for place in places:
            found[place] = answer.label if isinstance(answer, Prediction) else None
    return Purchase(points, found, [answer for answer in said if isinstance(answer, Prediction)])


def _gather_points(features: npt.NDArray[np.float64], groups: int) -> list[list[int]]:
    """Return the places of the points of each group: similar points together, by public numbers only."""
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import StandardScaler

    scaled = StandardScaler().fit_transform(np.nan_to_num(features))
    places = KMeans(groups, n_init=1, random_state=0).fit_predict(scaled)
    listed = [np.flatnonzero(places == number).tolist() for number in range(groups)]
    return [found for found in listed if found]


def fit_student(student: Any, rows: npt.NDArray[np.float64], labels: Sequence[Any]) -> Any:  # noqa: ANN401 - an estimator
    """Return a fitted student; if all labels are equal, one that always predicts that label."""
    from sklearn.dummy import DummyClassifier

    if len(set(labels)) > 1 or isinstance(labels[0], float):
        return student.fit(np.nan_to_num(rows), np.asarray(labels))
    return DummyClassifier(strategy="most_frequent").fit(rows, np.asarray(labels))
