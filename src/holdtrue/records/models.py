"""Responses with models: learned rules, published weights, and how good a model is."""

import itertools
from collections.abc import Callable
from typing import Any, Self

from msgspec import UNSET, UnsetType
from msgspec.structs import astuple, replace

from holdtrue.errors import InvalidParameter, NotCertified
from holdtrue.records.answers import Certificate, Interval, Tagged, check_finite, format_cost, format_ends, format_table
from holdtrue.requests import Basis

_MOST_SHOWN = 100


class _ReadingRows(Tagged, frozen=True, dict=True):
    """A rule or a model that reads rows once it was given what evaluates it, which is neither written nor compared."""

    def with_reader(self, evaluate: Callable[[object], Any] | None) -> Self:
        """Return the same record with what labels rows, or predicts for them, as it does."""
        found = replace(self)
        found.__dict__["evaluate"] = evaluate
        return found

    @property
    def evaluate(self) -> Callable[[object], Any] | None:
        """Return what labels rows, or predicts for them; None where the record was read without it."""
        return self.__dict__.get("evaluate")

    def __copy__(self) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), astuple(self), self.evaluate)


def _rebuild(kind: type[_ReadingRows], values: tuple[Any, ...], evaluate: Callable[[object], Any] | None) -> _ReadingRows:
    return kind(*values).with_reader(evaluate)


class Hypothesis(_ReadingRows, frozen=True, dict=True):
    """The response to learning: one hypothesis of a finite class, and how far behind the best of the class it may be.

    ``excess_error`` bounds err(this) - min err for the population, with ``confidence``; None where ``reason`` says why there
    is no such bound, or which narrower one was lost. ``shortfall`` bounds the same on these rows, in rows. ``document`` is
    the class as JSON, None where it was made of code. ``columns`` are the features it reads, in order. It predicts once
    :meth:`with_reader` has given it its class; that is neither written nor compared. ``checked`` is the interval for its own
    error, where that was asked for.
    """

    text: str
    index: int
    size: int
    excess_error: float | None
    confidence: float
    shortfall: float
    columns: tuple[str, ...]
    document: str | None
    certificate: Certificate
    reason: str | None = None
    repeated: bool = False
    checked: Interval | UnsetType = UNSET

    def __post_init__(self) -> None:
        check_finite("hypothesis", self.excess_error, self.confidence, self.shortfall)

    def predict(self, rows: object) -> Any:  # noqa: ANN401 - an array of labels
        """Return the label of each row, True or False: a data frame, a mapping from names to columns, or one record."""
        if self.evaluate is None:
            message = "this hypothesis was loaded without its class; learn again, or read the class from its document"
            raise NotCertified(message)
        return self.evaluate(rows)

    @property
    def brief(self) -> str:
        """Return the hypothesis in words."""
        return self.text

    def __str__(self) -> str:
        error = f"  its own error {format_ends(self.checked)}" if isinstance(self.checked, Interval) else ""
        error += "" if self.reason is None else f"  ({self.reason})"
        return f"{self.text}  {self.behind}{error}  {format_cost(self.certificate, repeated=self.repeated)}"

    @property
    def behind(self) -> str:
        """Return in words how far behind the best it may be."""
        if self.excess_error is None:
            return (
                f"at most {self.shortfall:.4g} rows behind the best of {self.size:,} on these rows ({self.confidence:.0%})"
            )
        sure = f"({self.confidence:.0%}, population)"
        return f"errs at most {self.excess_error:.4g} more often than the best of {self.size:,} {sure}"

    def _repr_html_(self) -> str:
        note = {} if self.reason is None else {"note": self.reason}
        return format_table({"hypothesis": self.text, "behind the best": self.behind} | note, self)


class FittedModel(_ReadingRows, frozen=True, dict=True):
    """The response to a fit: the weights of a linear model with noise; anyone may predict with them, at no further cost.

    ``weights`` are those of ``columns`` in order, then the intercept, for features that are clipped to their public
    ``bounds``, mapped onto [-1, 1] and shortened to ``norm``; numbers within ``span`` are mapped likewise, of two ``labels``
    the second lies above 0. ``deviation`` is the noise of each weight. ``excess`` bounds how far the expected loss is
    above the least of weights of length ``radius`` at most, in expectation over rows and noise; None where ``reason`` says
    why there is no such bound. With a ``basis`` the weights are those of its functions of the scaled features, and there is
    no intercept. It predicts once :meth:`with_reader` has given it what reads rows.
    """

    name: str
    kind: str
    target: str
    columns: tuple[str, ...]
    bounds: tuple[tuple[float, float], ...]
    labels: tuple[str | int | float | bool, ...] | None
    span: tuple[float, float] | None
    weights: tuple[float, ...]
    deviation: float
    norm: float
    strength: float
    radius: float
    excess: float | None
    certificate: Certificate
    reason: str | None = None
    repeated: bool = False
    basis: Basis | UnsetType = UNSET

    def __post_init__(self) -> None:
        check_finite("weights", *self.weights, self.deviation, self.strength)

    @property
    def coefficients(self) -> dict[str, float]:
        """Return the weight of each feature, on the scale of [-1, 1]; with a basis that of each function, by its number."""
        if self.basis is not UNSET:
            return {f"function {number}": weight for number, weight in enumerate(self.weights, 1)}
        return dict(zip(self.columns, self.weights, strict=False))

    @property
    def intercept(self) -> float:
        """Return the last weight; 0 with a basis, which has no intercept."""
        return self.weights[-1] if self.basis is UNSET else 0.0

    def within(self, beta: float) -> float | None:
        """Return what the excess is at most but with probability ``beta``: the bound over beta, by Markov (V5)."""
        if not 0 < beta <= 1:
            raise InvalidParameter("beta", beta, "a number in (0, 1]")
        return None if self.excess is None else self.excess / beta

    def predict(self, rows: object) -> Any:  # noqa: ANN401 - an array
        """Return a label or a number for each row: of a data frame, a mapping from names to columns, or one record."""
        if self.evaluate is None:
            message = "this model was loaded without its features; fit it again, which is free, or use its weights"
            raise NotCertified(message)
        return self.evaluate(rows)

    @property
    def brief(self) -> str:
        """Return what was fitted."""
        functions = "" if self.basis is UNSET else f", by {len(self.weights):,} functions of them"
        features = f"{len(self.columns):,} feature{'s' * (len(self.columns) > 1)}"
        return f"{self.kind} of {features}{functions}"

    @property
    def behind(self) -> str:
        """Return in words how good it is."""
        if self.excess is None:
            return f"no bound on its loss: {self.reason}"
        return f"expected loss at most {self.excess:.4g} above the best of length {self.radius:.4g} (population)"

    def __str__(self) -> str:
        return f"{self.brief}  {self.behind}  {format_cost(self.certificate, repeated=self.repeated)}"

    def _repr_html_(self) -> str:
        shown = {name: f"{weight:.4g}" for name, weight in itertools.islice(self.coefficients.items(), _MOST_SHOWN)}
        return format_table(shown | {"intercept": f"{self.intercept:.4g}", "loss": self.behind}, self)


class Evaluation(Tagged, frozen=True):
    """The response to an evaluation: whether the predictions of a model were found to err at most as often as asked.

    ``at_most`` is the lowest level that was certified, or the first that was refused, for the ``rows`` held out. Where it is
    certified, predictions as ``about`` says err in the population at most ``bound`` often, with ``confidence``, this
    evaluation by itself; None where ``reason`` says why. Not certified means that nothing is known.

    Of what was released before, such as a student or a learned rule, the error itself is told: ``value`` has noise, it is
    at most ``at_most`` on all ``rows``, and between ``low`` and ``bound`` in the population. Of what predicts numbers these
    are mean distances from the truth in the target's own units, both within its public range, which is ``width`` wide.
    """

    model: str
    certified: bool
    at_most: float
    bound: float | None
    confidence: float
    rows: int
    about: str
    certificate: Certificate
    reason: str | None = None
    repeated: bool = False
    value: float | UnsetType = UNSET
    low: float | UnsetType = UNSET
    width: float | UnsetType = UNSET

    def __post_init__(self) -> None:
        more = [number or 0.0 for number in (self.low, self.value, self.width)]
        check_finite("evaluation", self.at_most, self.bound, self.confidence, *more)

    @property
    def interval(self) -> Interval | None:
        """Return the interval for the error in the population; None where it is not certified."""
        return None if self.bound is None else Interval(self.low or 0.0, self.bound, self.confidence, "population")

    @property
    def brief(self) -> str:
        """Return in words what was found."""
        if isinstance(self.value, float):
            ends = "" if self.interval is None else f"; population {format_ends(self.interval)}"
            if self.width is UNSET:
                return f"{self.model} errs on a share of {self.value:.4g} of {self.rows:,} rows{ends}"
            return f"{self.model} is off by {self.value:.4g} on average over {self.rows:,} rows{ends}"
        if not self.certified:
            return f"not certified: errors of {self.model} at most {self.at_most:.4g}"
        held = f"{self.model} errs at most {self.at_most:.4g} on {self.rows:,} held-out rows"
        return held if self.bound is None else f"{held}, {self.bound:.4g} in the population ({self.confidence:.0%})"

    def __str__(self) -> str:
        why = "" if self.reason is None else f"; no bound for the population: {self.reason}"
        return f"{self.brief}; {self.about}{why}  {format_cost(self.certificate, repeated=self.repeated)}"

    def _repr_html_(self) -> str:
        why = {} if self.reason is None else {"no bound": self.reason}
        return format_table({"evaluation": self.brief, "about": self.about} | why, self)
