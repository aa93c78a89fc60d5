"""What crosses a boundary: responses, with the interval and the certificate that come with them.

Records are frozen, hold public numbers only, and read back as they were written: with :mod:`holdtrue.codec`,
``decode(encode(record), Response)`` is the record.
"""

import html
import itertools
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeAlias, TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import astuple, replace

from holdtrue.codec import Record
from holdtrue.errors import InvalidParameter, MissingExtra, NotCertified
from holdtrue.events import Event
from holdtrue.exact import count, round_down, round_up
from holdtrue.requests import Basis

__all__ = [
    "MOST_PEOPLE",
    "Answer",
    "Certificate",
    "Choice",
    "Contrast",
    "Deduction",
    "Estimates",
    "Evaluation",
    "FactTable",
    "FittedModel",
    "Hypothesis",
    "Interval",
    "Listed",
    "Listing",
    "Marginals",
    "Means",
    "PlannedQuestions",
    "Prediction",
    "Quantiles",
    "Response",
    "Statistic",
    "Synthetic",
    "Table",
    "Tagged",
    "Unions",
    "WatchAnswer",
    "WatchRun",
    "Workload",
    "count_boxes",
    "explain_width",
    "html_table",
    "import_frames",
    "make_frame",
    "mark_repeat",
    "text_table",
]

Target: TypeAlias = Literal["population", "sample"]
_MOST_SHOWN = 100


class PlannedQuestions(Protocol):
    """What an explanation reads of a plan."""

    @property
    def queries(self) -> int:
        """Return how many questions were planned."""
        ...


class Listed(Protocol):
    """A record that is a row of a table."""

    def list_values(self) -> dict[str, Any]:
        """Return the row: plain values by the names of columns."""
        ...


_Item = TypeVar("_Item", bound=Listed)


class Tagged(Record, frozen=True, tag_field="record", tag=str.lower):
    """A record that names its kind in JSON, in lower case."""


def _check_finite(name: str, *values: float | None) -> None:
    if None not in values and math.isfinite(sum(values)):  # type: ignore[arg-type]  # no None
        return
    for value in values:
        if value is not None and not math.isfinite(value):
            raise InvalidParameter(name, value, "a finite number")


class Interval(Tagged, frozen=True):
    """Low and high ends for a value of the target; all answers' intervals hold at once with this confidence."""

    low: float
    high: float
    confidence: float
    target: Target

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise InvalidParameter("interval", (self.low, self.high), "two finite numbers, the lower one first")
        if not 0 < self.confidence <= 1:
            raise InvalidParameter("confidence", self.confidence, "a number in (0, 1]")
        if self.target not in ("population", "sample"):
            raise InvalidParameter("target", self.target, "'population' or 'sample'")

    @property
    def width(self) -> float:
        """Return the distance between the ends."""
        return self.high - self.low

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"[{self.low:.4g}, {self.high:.4g}] ({self.confidence:.0%}, {self.target})"


class FactTable:
    """A record that prints as a table of facts, that notebooks show as one, and that pandas takes as one row."""

    __slots__ = ()

    def list_facts(self) -> dict[str, str]:
        """Return the record in words, a line each."""
        raise NotImplementedError

    def __str__(self) -> str:
        facts = self.list_facts()
        width = max(10, *map(len, facts))
        return "\n".join(f"{name:>{width}}  {value}" for name, value in facts.items())

    def _repr_html_(self) -> str:
        return html_table(self.list_facts().items())

    def to_frame(self) -> Any:  # noqa: ANN401 - a library that need not be there
        """Return the record's plain values as a pandas data frame of one row."""
        found = {name: getattr(self, name) for name in self.__struct_fields__}  # type: ignore[attr-defined]  # of a Struct
        return make_frame([{name: value for name, value in found.items() if isinstance(value, str | int | float)}])


class Certificate(FactTable, Tagged, frozen=True):
    """What a response cost, what is left, by which theorem its interval holds, and where the ledger has it.

    ``unit`` is the column whose keys say what is protected as a whole, where that is not a row; ``population`` says in words
    whom intervals for the population are about then: "a random patient_id with at least one row".
    ``group``, where there is one, is how many rows of one person cost and privacy are said of. ``purse``, on a ledger with
    two, is the currency of the one that paid: cost, spent and left are in it.
    """

    event: Event
    cost: float
    spent: float
    left: float
    entry: int
    digest: str
    theorem: str | None
    epsilon: float
    delta: float
    unit: str | UnsetType = UNSET
    population: str | UnsetType = UNSET
    group: int | UnsetType = UNSET
    purse: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        if not math.isfinite(self.cost + self.spent + self.left + self.epsilon + self.delta):
            _check_finite("certificate", self.cost, self.spent, self.left, self.epsilon, self.delta)

    def list_facts(self) -> dict[str, str]:
        """Return the certificate in words."""
        cap = self.spent + self.left
        facts = {
            "cost": f"{_format_share(self.cost, cap)} of the budget ({self.cost:.4g})",
            "left": f"{_format_share(self.left, cap)} of the budget ({self.left:.4g})",
            "theorem": self.theorem or "none: no interval for the population",
            "privacy": f"everything released is ({self.epsilon:.4g}, {self.delta:.3g})-DP or better",
            "protected": f"all rows of one {self.unit}" if self.unit else "one row",
            "receipt": f"{self.entry}:{self.digest}",
        }
        return facts | ({"population": self.population} if self.population else {})

    def with_theorem(self, theorem: str | None, *, event: Event | None = None) -> "Certificate":
        """Return the same receipt with another theorem and, if given, another event."""
        return replace(self, theorem=theorem, event=event or self.event)


class Answer(Tagged, frozen=True):
    """The response to a question. ``interval`` is for the population, and None where ``reason`` says why there is none.

    ``repeated`` says that the question was answered before, and that this is the same answer, for nothing. ``deduced`` has
    the entries that the answer follows from, where no noise was drawn for it and nothing charged (U7).
    """

    value: float
    interval: Interval | None
    sample_interval: Interval
    certificate: Certificate
    reason: str | None = None
    repeated: bool = False
    deduced: tuple[int, ...] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise InvalidParameter("value", self.value, "a finite number")

    @property
    def brief(self) -> str:
        """Return the value and the interval that is promised for it, in a few words."""
        ends = self.interval or self.sample_interval
        return f"{self.value:.4g} ({ends.low:.4g} to {ends.high:.4g})"

    def explain(self, plan: "PlannedQuestions | None" = None) -> str:
        """Return in words why the answer is as wide as it is, and what would make it narrower; counted, given its plan."""
        if isinstance(self.deduced, tuple) and self.deduced:
            return f"no noise was drawn: it follows from the answers in entries {', '.join(map(str, self.deduced))}"
        planned = "the plan's questions" if plan is None else f"{plan.queries:,} planned questions"
        return explain_width(self.value, self.interval, self.sample_interval, planned=planned)

    def list_values(self) -> dict[str, Any]:
        """Return what a table of answers has in its row."""
        ends = self.interval or self.sample_interval
        share = {"value": self.value, "low": ends.low, "high": ends.high, "holds for": ends.target}
        return share | {"cost": 0.0 if self.repeated else self.certificate.cost, "repeated": self.repeated}

    def __str__(self) -> str:
        none = f"no interval for the population: {self.reason}"
        about = f"population {_format_ends(self.interval)}" if self.interval else none
        about += ", the boxes of its cells added up" if self.certificate.theorem == _SUMMED else ""
        return f"{self.value:.4g}  {about}  {_format_cost(self.certificate, repeated=self.repeated, deduced=self.deduced)}"

    def _repr_html_(self) -> str:
        return _format_table(
            {
                "value": f"{self.value:.4g}",
                "population": _format_ends(self.interval) if self.interval else f"none: {self.reason}",
                "these rows": _format_ends(self.sample_interval),
            },
            self,
        )


class Deduction(Tagged, frozen=True):
    """What follows from answers that were given before: between which ends the answer to a question must be (U7). Free.

    ``interval`` is for the population and ``sample_interval`` for these rows; ``reason`` says why one is missing.
    ``sources`` are the ledger entries it follows from, none where nothing but [0, 1] follows. ``atoms`` is how many cells of
    the rows the program had, 0 where the question was too complex for one. ``inconsistent`` says that answers contradict
    each other; then nothing is deduced from them. ``answered`` says that an answer or a table was about this very question.
    """

    text: str
    interval: Interval | None
    sample_interval: Interval | None
    sources: tuple[int, ...]
    atoms: int
    theorem: str
    reason: str | None = None
    inconsistent: bool = False
    answered: bool | UnsetType = UNSET

    @property
    def brief(self) -> str:
        """Return the interval that follows, in a few words."""
        ends = self.interval or self.sample_interval
        return "inconsistent" if ends is None else f"{ends.low:.4g} to {ends.high:.4g}"

    def __str__(self) -> str:
        ends = self.interval or self.sample_interval
        if ends is None:
            return f"{self.text}\n  nothing follows: {self.reason}"
        target = "population" if self.interval else "these rows"
        listed = ", ".join(map(str, self.sources[:8])) + (", ..." if len(self.sources) > 8 else "")  # noqa: PLR2004 - a line
        since = f"from {'entry' if len(self.sources) == 1 else 'entries'} {listed}" if self.sources else "without any answer"
        return f"{self.text}\n  {target} {_format_ends(ends)}: already follows {since}; costs nothing"


class Choice(Tagged, frozen=True):
    """The response to a selection: the chosen candidate, and by how many rows it may miss the best.

    For scores of one's own the shortfall is in their unit. Where several were chosen, ``names`` and ``indices`` have them in
    order, and the i-th is no further behind the i-th best. ``population_shortfall`` bounds the same for shares in the
    population, where candidates are queries of independent rows. ``method`` names the mechanism; ``scale`` is how much the
    shortfall falls where e times as many candidates share the best score.
    """

    name: str
    index: int
    shortfall: float
    certificate: Certificate
    repeated: bool = False
    method: str | UnsetType = UNSET
    scale: float | UnsetType = UNSET
    names: tuple[str, ...] | UnsetType = UNSET
    indices: tuple[int, ...] | UnsetType = UNSET
    population_shortfall: float | UnsetType = UNSET

    def __post_init__(self) -> None:
        _check_finite("shortfall", self.shortfall, *(x for x in (self.scale, self.population_shortfall) if x is not UNSET))

    def shortfall_if(self, *, best: int) -> float:
        """Return the shortfall if at least this many candidates share the best score, |Y*| of B5.

        Only the caller knows how many do: the number depends on the rows, and is never told.
        """
        known = 0.0 if isinstance(self.scale, UnsetType) else self.scale * (1 - 2.0**-50)
        return max(0.0, self.shortfall - known * math.log(count("best", best)))

    @property
    def chosen(self) -> str:
        """Return the names of all that were chosen."""
        return self.name if isinstance(self.names, UnsetType) else ", ".join(self.names)

    @property
    def brief(self) -> str:
        """Return what was chosen."""
        return self.chosen

    def __str__(self) -> str:
        paid = _format_cost(self.certificate, repeated=self.repeated)
        return f"{self.chosen}  at most {self.shortfall:.4g} rows behind the best  {paid}"

    def _repr_html_(self) -> str:
        return _format_table({"chosen": self.chosen, "behind the best": f"{self.shortfall:.4g} rows at most"}, self)


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
        _check_finite("hypothesis", self.excess_error, self.confidence, self.shortfall)

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
        error = f"  its own error {_format_ends(self.checked)}" if isinstance(self.checked, Interval) else ""
        error += "" if self.reason is None else f"  ({self.reason})"
        return f"{self.text}  {self.behind}{error}  {_format_cost(self.certificate, repeated=self.repeated)}"

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
        return _format_table({"hypothesis": self.text, "behind the best": self.behind} | note, self)


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
        _check_finite("weights", *self.weights, self.deviation, self.strength)

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
        return f"{self.brief}  {self.behind}  {_format_cost(self.certificate, repeated=self.repeated)}"

    def _repr_html_(self) -> str:
        shown = {name: f"{weight:.4g}" for name, weight in itertools.islice(self.coefficients.items(), _MOST_SHOWN)}
        return _format_table(shown | {"intercept": f"{self.intercept:.4g}", "loss": self.behind}, self)


class WatchAnswer(Tagged, frozen=True):
    """The response of a watch: whether a share was found above its threshold, and what that says of the share.

    ``interval`` is for the population, None where ``reason`` says why there is none, ``sample_interval`` for these rows; all
    answers of the watch hold at once. ``run`` is the number of the run that it belongs to: another than the last one's means
    that a new run was begun, and paid for: ``run_cost`` is what this answer paid for its run, 0 if it went on with one. An
    alarm ends its run.
    """

    above: bool
    threshold: float
    interval: Interval | None
    sample_interval: Interval
    run: int
    alarms_left: int
    run_cost: float
    certificate: Certificate
    repeated: bool = False
    reason: str | None = None

    def __post_init__(self) -> None:
        _check_finite("threshold", self.threshold, self.run_cost)

    @property
    def brief(self) -> str:
        """Return above or below."""
        return f"{'above' if self.above else 'below'} {self.threshold:.4g}"

    def __str__(self) -> str:
        said = (
            f"population {_format_ends(self.interval)}"
            if self.interval
            else f"these rows {_format_ends(self.sample_interval)}"
        )
        return f"{self.brief}  {said}  run {self.say_run()}"

    def say_run(self) -> str:
        """Return the number of its run, what was paid where that began here, and how many alarms are left."""
        cap = self.certificate.spent + self.certificate.left
        begun = self.run_cost > 0 and not self.repeated
        paid = f", begun here for {_format_share(self.run_cost, cap)} of the budget" if begun else ""
        return f"{self.run}{paid}; {self.alarms_left} alarm{'s' * (self.alarms_left != 1)} left"

    def _repr_html_(self) -> str:
        population = _format_ends(self.interval) if self.interval else f"none: {self.reason}"
        shown = {"found": self.brief, "population": population, "these rows": _format_ends(self.sample_interval)}
        return _format_table(shown | {"run": self.say_run()}, self)


class WatchRun(Tagged, frozen=True):
    """The response that begins a run of a watch: its random id, by which whoever drew it knows the run as its own."""

    id: str
    certificate: Certificate
    repeated: bool = False

    @property
    def brief(self) -> str:
        """Return that a run began; its id tells a reader nothing."""
        return "a run began"

    def __str__(self) -> str:
        return f"{self.brief}  {_format_cost(self.certificate, repeated=self.repeated)}"


class Prediction(Tagged, frozen=True):
    """The response to a request for a prediction: a label, a number, or None where the vote was not clear enough.

    A number has its ``noise``, the standard deviation of what was added to it, and an ``interval`` for what ``about`` says;
    each interval holds by itself with its confidence. Labels have neither; where members are the best of a class that was
    fixed before any answer, ``error_bound`` is how often such predictions err at most in the population, or ``excess_error``
    how much more often than the best of the class, with ``confidence`` over the rows, for all predictions of the model.
    """

    label: str | int | float | bool | None
    certificate: Certificate
    repeated: bool = False
    noise: float | UnsetType = UNSET
    interval: Interval | UnsetType = UNSET
    error_bound: float | UnsetType = UNSET
    excess_error: float | UnsetType = UNSET
    confidence: float | UnsetType = UNSET

    def __post_init__(self) -> None:
        if isinstance(self.label, float):
            _check_finite("label", self.label)
        for number in (self.noise, self.error_bound, self.excess_error, self.confidence):
            if isinstance(number, float):
                _check_finite("prediction", number)

    @property
    def proven(self) -> str | None:
        """Return in words what is proven of all predictions like this one; None where nothing is."""
        sure = f"({self.confidence:.0%}, population)" if isinstance(self.confidence, float) else ""
        if isinstance(self.error_bound, float):
            return f"such predictions err at most in {self.error_bound:.4g} of all cases {sure}"
        if isinstance(self.excess_error, float):
            return f"such predictions err at most {self.excess_error:.4g} more often than the best of the class {sure}"
        return None

    @property
    def about(self) -> str | None:
        """Return in words what the interval is for; None where there is none."""
        return (
            None
            if self.interval is UNSET
            else "what the model says without noise (the average of its members), not the true value"
        )

    @property
    def brief(self) -> str:
        """Return the label, or the number to six digits."""
        shown = f"{self.label:.6g}" if isinstance(self.label, float) else str(self.label)
        return "unclear" if self.label is None else shown

    @property
    def says(self) -> str | None:
        """Return in words what the interval of a number is, or what is proven of a label; None where there is neither."""
        return f"without noise {_format_ends(self.interval)}" if isinstance(self.interval, Interval) else self.proven

    def __str__(self) -> str:
        says = "" if self.says is None else f"  {self.says}"
        return f"{self.brief}{says}  {_format_cost(self.certificate, repeated=self.repeated)}"

    def _repr_html_(self) -> str:
        lines = {"prediction": self.brief}
        lines |= {f"{self.about}": _format_ends(self.interval)} if isinstance(self.interval, Interval) else {}
        return _format_table(lines | ({} if self.proven is None else {"proven": self.proven}), self)


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
        _check_finite("evaluation", self.at_most, self.bound, self.confidence, *more)

    @property
    def interval(self) -> Interval | None:
        """Return the interval for the error in the population; None where it is not certified."""
        return None if self.bound is None else Interval(self.low or 0.0, self.bound, self.confidence, "population")

    @property
    def brief(self) -> str:
        """Return in words what was found."""
        if isinstance(self.value, float):
            ends = "" if self.interval is None else f"; population {_format_ends(self.interval)}"
            if self.width is UNSET:
                return f"{self.model} errs on a share of {self.value:.4g} of {self.rows:,} rows{ends}"
            return f"{self.model} is off by {self.value:.4g} on average over {self.rows:,} rows{ends}"
        if not self.certified:
            return f"not certified: errors of {self.model} at most {self.at_most:.4g}"
        held = f"{self.model} errs at most {self.at_most:.4g} on {self.rows:,} held-out rows"
        return held if self.bound is None else f"{held}, {self.bound:.4g} in the population ({self.confidence:.0%})"

    def __str__(self) -> str:
        why = "" if self.reason is None else f"; no bound for the population: {self.reason}"
        return f"{self.brief}; {self.about}{why}  {_format_cost(self.certificate, repeated=self.repeated)}"

    def _repr_html_(self) -> str:
        why = {} if self.reason is None else {"no bound": self.reason}
        return _format_table({"evaluation": self.brief, "about": self.about} | why, self)


class _Tabular(Tagged, frozen=True):
    """A record that is a table: columns by name."""

    @abstractmethod
    def to_columns(self) -> dict[str, list[Any]]:
        """Return the table by column."""

    def to_pandas(self) -> Any:  # noqa: ANN401 - a library that need not be there
        """Return :meth:`to_columns` as a pandas data frame."""
        return import_frames("pandas").DataFrame(self.to_columns())

    def to_polars(self) -> Any:  # noqa: ANN401 - a library that need not be there
        """Return :meth:`to_columns` as a Polars data frame."""
        return import_frames("polars").DataFrame(self.to_columns(), strict=False)

    def to_arrow(self) -> Any:  # noqa: ANN401 - a library that need not be there
        """Return :meth:`to_columns` as an Arrow table."""
        import pyarrow as pa  # type: ignore[import-untyped]

        return pa.table(self.to_columns())


class _LabelledCells(_Tabular, frozen=True):
    """Numbers about cells of the rows with their ends, a sequence of answers with labels."""

    columns: tuple[str, ...]
    labels: tuple[tuple[str | int | float | bool | None, ...], ...]
    values: tuple[float, ...]
    low: tuple[float, ...] | None
    high: tuple[float, ...] | None
    sample_low: tuple[float, ...]
    sample_high: tuple[float, ...]
    confidence: float
    certificate: Certificate
    reason: str | None = None
    repeated: bool = False

    def __post_init__(self) -> None:
        _check_finite("table", *self.values, *(self.low or ()), *(self.high or ()), *self.sample_low, *self.sample_high)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: int) -> Answer:
        """Return the answer about one cell, by its place."""
        ends = None
        if self.low is not None and self.high is not None:
            ends = Interval(self.low[place], self.high[place], self.confidence, "population")
        rows = Interval(self.sample_low[place], self.sample_high[place], self.confidence, "sample")
        return Answer(self.values[place], ends, rows, self.certificate, self.reason, self.repeated)

    def __iter__(self) -> Iterator[Answer]:
        return (self[place] for place in range(len(self)))

    def cell(self, *labels: str | float | bool | None) -> Answer:
        """Return the answer about the cell with these labels, one for each column."""
        return self[self.find_place(labels)]

    def find_place(self, labels: object) -> int:
        """Return the place of the cell with these labels: one, or a tuple with one for each column."""
        given = labels if isinstance(labels, tuple) else (labels,)
        if given not in self.labels:
            raise InvalidParameter("labels", given, "the labels of a cell of this table")
        return self.labels.index(given)

    def explain(self, plan: "PlannedQuestions | None" = None) -> str:
        """Return in words why the widest cell is as wide as it is; see :meth:`Answer.explain`."""
        cells = list(self)
        ends = [cell.interval or cell.sample_interval for cell in cells]
        return cells[max(range(len(cells)), key=lambda place: ends[place].width)].explain(plan)

    @property
    def measure_name(self) -> str:
        """Return what the numbers are: share, mean or sum."""
        return "share"

    @property
    def axis(self) -> tuple[float, float]:
        """Return between which numbers values lie, to be drawn."""
        return 0.0, 1.0

    @property
    def names(self) -> list[str]:
        """Return the labels of each cell in words."""
        return [_cell_name(each) for each in self.labels]

    def write_number(self, value: float) -> str:
        """Return a value as it is shown."""
        return f"{value:6.4f}"

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the table by column: the labels, the values, and the ends for the population, or for these rows."""
        found: dict[str, list[Any]] = {
            name: [each[place] for each in self.labels] for place, name in enumerate(self.columns)
        }
        low, high = (self.sample_low, self.sample_high) if self.low is None else (self.low, self.high or ())
        return found | {self.measure_name: list(self.values), "low": list(low), "high": list(high)}

    def plot(self, ax: Any = None) -> Any:  # noqa: ANN401 - matplotlib's axes
        """Draw a bar for each cell with its interval; return the axes."""
        plt = import_plots()
        axes = plt.subplots(figsize=(6, 0.35 * len(self) + 1))[1] if ax is None else ax
        found, places, start = self.to_columns(), range(len(self)), self.axis[0]
        below = [max(0.0, value - low) for value, low in zip(self.values, found["low"], strict=True)]
        above = [max(0.0, high - value) for value, high in zip(self.values, found["high"], strict=True)]
        long = [value - start for value in self.values]
        axes.barh(places, long, left=start, xerr=[below, above], color="#5fa8a0", ecolor="#00695f", capsize=3)
        axes.set_yticks(places, self.names)
        axes.invert_yaxis()
        axes.set_xlim(*self.axis)
        target = "rows" if self.low is None else "population"
        axes.set_xlabel(f"{self.measure_name} of the {target} ({self.confidence:.0%}, all at once)")
        return axes

    def __str__(self) -> str:
        found, names = self.to_columns(), self.names
        numbers = [self.measure_name, "low", "high"]
        rows = [[self.write_number(each) for each in row] for row in zip(*(found[name] for name in numbers), strict=True)]
        wide = max(len(name) for name in (*names, ", ".join(self.columns)))
        narrow = max(6, *(len(each) for row in rows for each in row))
        lines = [
            f"{name:<{wide}}  {'   '.join(f'{each:>{narrow}}' for each in row)}"
            for name, row in zip((", ".join(self.columns), *names), (numbers, *rows), strict=True)
        ]
        target = "the rows" if self.low is None else "the population"
        paid = _format_cost(self.certificate, repeated=self.repeated)
        return "\n".join([*lines, f"{self.confidence:.0%} for {target}, all cells at once; {paid}"])

    def _repr_html_(self) -> str:
        found, (start, end) = self.to_columns(), self.axis
        heads = "".join(f"<th>{html.escape(name)}</th>" for name in (*self.columns, self.measure_name, "", "low", "high"))
        rows = []
        for labels, value, low, high in zip(self.labels, self.values, found["low"], found["high"], strict=True):
            cells = "".join(f"<td>{html.escape('other' if each is None else str(each))}</td>" for each in labels)
            bar = f"<div style='background:#5fa8a0;height:0.8em;width:{100 * (value - start) / (end - start):.1f}px'></div>"
            shown = [self.write_number(each) for each in (value, low, high)]
            rows.append(f"<tr>{cells}<td>{shown[0]}</td><td>{bar}</td><td>{shown[1]}</td><td>{shown[2]}</td></tr>")
        return f"<table><tr>{heads}</tr>{''.join(rows)}</table>"


def count_boxes(number: int, *, declared: bool, whole: int = 0) -> float:
    """Return how many boxes of one cell a union of this many cells has, given before the draw or chosen after it (U1.6).

    ``whole`` is the number of all cells where these are all rows, so that their total is known, and 0 otherwise: each answer
    is then less its part of what the answers exceed the total by, and a union has the noise of sqrt(n (1 - n/whole)) cells;
    one that was chosen later has the boxes of its cells, or of all others (U1.5).
    """
    if whole:
        one = math.sqrt(1 - 1 / whole)
        return math.sqrt(number * (1 - number / whole)) if declared or number == 1 else min(number, whole - number) * one
    return math.sqrt(number) if declared else float(number)


class Unions(Record, frozen=True):
    """What says how sure a union of a table's cells is: answers before clipping, and the numbers of the plan (U1.6).

    ``declared`` names the unions that were declared with the release, ``sizes`` how many labels each column has. ``noise``
    and ``sample_noise`` are the boxes of one cell for the population and for these rows, ``epsilon`` and ``slack`` those of
    the transfer theorem; None where it does not speak. ``whole``: the cells are all rows, answers were moved so that they
    add up to 1, and boxes are narrower by what :func:`count_boxes` says (U1.5). ``rollups`` are the places of the cells of
    each union that was declared by its labels.
    """

    declared: tuple[Literal["margins", "ranges"], ...]
    sizes: tuple[int, ...]
    answers: tuple[float, ...]
    sample_noise: float
    rounding: float
    noise: float | None = None
    epsilon: float | None = None
    slack: float | None = None
    whole: bool | UnsetType = UNSET
    rollups: tuple[tuple[int, ...], ...] | UnsetType = UNSET

    def __post_init__(self) -> None:
        _check_finite("unions", *self.answers, self.sample_noise, self.rounding, self.noise, self.epsilon, self.slack)

    def is_declared(self, places: Sequence[int]) -> bool:
        """Return whether the cells at these places, in order, are one cell or a union that was declared."""
        if len(places) == 1:
            return True
        if max(places) >= math.prod(self.sizes):  # the rest of the rows is in no union
            return False
        if self.rollups and tuple(places) in self.rollups:
            return True
        if "ranges" in self.declared and places[-1] - places[0] + 1 == len(places):
            return True
        if "margins" not in self.declared:
            return False
        found, rest = [], list(places)
        for size in reversed(self.sizes):
            found.append(({place % size for place in rest}, size))
            rest = [place // size for place in rest]
        whole = [len(labels) in (1, size) for labels, size in found]
        fixed = any(len(labels) == 1 for labels, _ in found)
        return all(whole) and fixed and math.prod(len(labels) for labels, _ in found) == len(places)


class Table(_LabelledCells, frozen=True):
    """The response to a table: the share of the rows in each cell, a sequence of answers with labels.

    The last cell holds the rows in none of the others, missing values included; its labels are None. ``low`` and ``high``
    are for the population, None where ``reason`` says why; all cells, and all other answers, are right at once with
    ``confidence``. ``unions`` says how sure a union of cells is; tables that were stored earlier have none.
    """

    unions: Unions | UnsetType = UNSET

    @property
    def brief(self) -> str:
        """Return how many cells there are."""
        return f"{len(self):,} cells by {', '.join(self.columns)}"

    def find_places(self, labels: Mapping[str, str | float | bool]) -> list[int]:
        """Return the places of all cells with these labels, by column; the cell of all other rows is none of them."""
        wanted = [(at, labels[name]) for at, name in enumerate(self.columns) if name in labels]
        cells = self.labels[:-1]
        found = [place for place, each in enumerate(cells) if all(each[at] == label for at, label in wanted)]
        if not found:
            raise InvalidParameter("labels", dict(labels), "labels of cells of this table")
        return found

    def union(self, *cells: object) -> Answer:
        """Return the answer about several cells together, each by its label, or a tuple of them. Free.

        A union that was declared with the table (``margins``, ``ranges``, ``rollups``) has the noise of its sum. Any other,
        chosen after the table was seen, has the sum of its cells' boxes, since the noise may have had a part in the choice;
        the gap to the population is added once in either case (U1.6).
        """
        places = sorted(self.find_place(each) for each in cells)
        if not places or len(set(places)) < len(places):
            raise InvalidParameter.without_value("cells", "different cells, one or more, each by its labels")
        return self.union_at(places)

    def share(self, labels: Mapping[str, str | float | bool]) -> Answer:
        """Return the answer about the rows with these labels, by column, whatever they have in the other columns. Free.

        Rows in none of the cells may have these labels too, as one whose other column is missing has: the upper end counts
        all of them, which the last cell bounds.
        """
        places = self.find_places(labels)
        return self.union_at(places) if set(labels) >= set(self.columns) else self._sum_cells(places, rest=True)

    def union_at(self, places: Sequence[int]) -> Answer:
        """Return the answer about the cells at these places, different ones in order; see :meth:`union`."""
        return self[places[0]] if len(places) == 1 else self._sum_cells(places)

    def bound_rest(self) -> tuple[float, float]:
        """Return the most that rows in none of the cells are: of these rows, and in the noise box of the population."""
        rule = self.unions
        if isinstance(rule, UnsetType):
            return self.sample_high[-1], 1.0
        one = count_boxes(1, declared=True, whole=len(rule.answers) if rule.whole is True else 0)
        ends = [
            (self.values[-1] + one * noise + rule.rounding) * _OUTWARD for noise in (rule.sample_noise, rule.noise or 1.0)
        ]
        return min(1.0, ends[0]), min(1.0, ends[1])

    def _sum_cells(self, places: Sequence[int], *, rest: bool = False) -> Answer:
        """Return the answer about these cells; with ``rest``, about them and any part of the rows in no cell."""
        if isinstance(self.unions, UnsetType):
            return self._add_ends(places, rest=rest)
        rule, number = self.unions, len(places)
        declared, whole = rule.is_declared(places), len(rule.answers) if rule.whole is True else 0
        wide = count_boxes(number, declared=declared, whole=whole)
        rounding = number * rule.rounding if whole or (declared and number > 1) else 0.0
        # Boxes of cells begin at 0; a declared union, and what the others leave of all rows, has the sum of raw answers.
        exact = (declared and number > 1) or 0 < whole < 2 * number
        total = math.fsum(rule.answers[place] if exact else self.values[place] for place in places)
        value = min(max(total, 0.0), 1.0)

        near, more = (wide * rule.sample_noise + rounding) * _OUTWARD, self.bound_rest() if rest else (0.0, 0.0)
        rows = Interval(max(0.0, value - near), min(1.0, value + near + more[0]), self.confidence, "sample")
        ends = None
        if rule.noise is not None and rule.epsilon is not None and rule.slack is not None:
            box = (wide * rule.noise + rounding) * _OUTWARD
            low = _lower_share(max(0.0, value - box), rule.epsilon, rule.slack)
            high = 1 - _lower_share(max(0.0, 1 - value - box - more[1]), rule.epsilon, rule.slack)
            ends = Interval(max(0.0, low - _CLOSE), min(1.0, high + _CLOSE), self.confidence, "population")
        elif self.low is not None:
            ends = self._add_ends(places, rest=rest).interval
        receipt = self.certificate if declared else self.certificate.with_theorem(_SUMMED)
        return Answer(value, ends, rows, receipt, self.reason, self.repeated)

    def _add_ends(self, places: Sequence[int], *, rest: bool = False) -> Answer:
        """Return the answer about a union from the ends of its cells alone; see :meth:`_sum_cells`."""
        upper = [*places, len(self) - 1] if rest else places

        def add(ends: tuple[float, ...], chosen: Sequence[int]) -> float:
            return min(1.0, math.fsum(ends[place] for place in chosen))

        known = None
        if self.low is not None and self.high is not None:
            known = Interval(add(self.low, places), add(self.high, upper), self.confidence, "population")
        rows = Interval(add(self.sample_low, places), add(self.sample_high, upper), self.confidence, "sample")
        receipt = self.certificate.with_theorem(_SUMMED)
        return Answer(add(self.values, places), known, rows, receipt, self.reason, self.repeated)


class Workload(_LabelledCells, frozen=True):
    """Answers to questions that were declared with marginals before they were drawn, a sequence of answers with labels.

    A question is about the rows with its labels, one for each column and None where any will do. Each is answered from all
    tables that have its columns, by the inverse of their variance, and all of them are right at once with every other answer
    (V2.3). ``box_low`` and ``box_high`` are the ends of its noise box, None where the transfer theorem does not speak.
    """

    box_low: tuple[float, ...] | None = None
    box_high: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        _LabelledCells.__post_init__(self)
        _check_finite("workload", *(self.box_low or ()), *(self.box_high or ()))

    @property
    def names(self) -> list[str]:
        """Return each question in words."""
        pairs = [
            [f"{name} {label}" for name, label in zip(self.columns, each, strict=True) if label is not None]
            for each in self.labels
        ]
        return [", ".join(each) for each in pairs]

    @property
    def brief(self) -> str:
        """Return how many questions there are."""
        return f"{len(self):,} declared questions"

    def share(self, labels: Mapping[str, str | float | bool]) -> Answer | None:
        """Return the answer about the rows with these labels, by column; None where that was not declared."""
        wanted = tuple(labels.get(name) for name in self.columns)
        known = set(labels) <= set(self.columns) and wanted in self.labels
        return self[self.labels.index(wanted)] if known else None


class Marginals(Tagged, frozen=True):
    """Several tables of one request, a sequence of them. All cells of all of them are right at once with every other answer.

    ``certificate`` is that of the newest charge among theirs; ``repeated`` says that none was charged for this request.
    ``workload`` has the answers to questions that were declared with the tables, where there were any.
    """

    tables: tuple[Table, ...]
    certificate: Certificate
    repeated: bool = False
    workload: Workload | UnsetType = UNSET

    def __len__(self) -> int:
        return len(self.tables)

    def __getitem__(self, place: int) -> Table:
        return self.tables[place]

    def __iter__(self) -> Iterator[Table]:
        return iter(self.tables)

    def find(self, *columns: str) -> Table:
        """Return the table of these columns, in any order."""
        for table in self.tables:
            if set(table.columns) == set(columns):
                return table
        raise InvalidParameter("columns", columns, "the columns of one of these tables")

    def share(self, labels: Mapping[str, str | float | bool]) -> Answer:
        """Return the answer about the rows with these labels, by column, from the table that is surest about them. Free.

        A question of the workload has its own answer. With ``margins=True`` all of these sums are declared with the release,
        and keep the noise of their sum (V2.3); otherwise a sum over other columns has the boxes of its cells, and its
        certificate says so (U1.6).
        """
        known = [each for each in self.tables if set(labels) <= set(each.columns)]
        if not labels or not known:
            raise InvalidParameter.without_value("labels", "labels by column, of columns that are together in one table")
        found = [each.share(labels) for each in known]
        declared = None if isinstance(self.workload, UnsetType) else self.workload.share(labels)
        found += [] if declared is None else [declared]
        return min(found, key=lambda answer: (answer.interval or answer.sample_interval).width)

    @property
    def brief(self) -> str:
        """Return how many tables and cells there are."""
        return f"{len(self):,} table{'s' * (len(self) != 1)}, {sum(map(len, self.tables)):,} cells"

    def __str__(self) -> str:
        listed = "\n".join(f"  {table.brief}" for table in self.tables)
        return f"{self.brief}, each with its interval; {_format_cost(self.certificate, repeated=self.repeated)}\n{listed}"


class Synthetic(_Tabular, frozen=True):
    """Rows that were made from released tables, free: each different row once, and how many there are of it.

    A label is None where the column has another value than those of the tables, or none. Shares of these rows are estimates
    without an interval; ``share`` answers from ``tables``, which the rows were made from, with theirs.
    """

    columns: tuple[str, ...]
    labels: tuple[tuple[str | int | float | bool | None, ...], ...]
    counts: tuple[int, ...]
    seed: int
    tables: tuple[Table, ...]

    def __len__(self) -> int:
        return sum(self.counts)

    def share(self, labels: Mapping[str, str | float | bool]) -> Answer:
        """Return the answer about the rows with these labels, by column, from the tables; see :meth:`Marginals.share`."""
        return Marginals(self.tables, self.tables[0].certificate).share(labels)

    def estimate(self, labels: Mapping[str, str | float | bool | None]) -> float:
        """Return the share of these rows that have these labels, by column; no interval comes with it."""
        wanted = [(self.columns.index(name), label) for name, label in labels.items() if name in self.columns]
        if len(wanted) < len(labels):
            raise InvalidParameter("labels", dict(labels), f"labels of the columns {', '.join(self.columns)}")
        pairs = zip(self.labels, self.counts, strict=True)
        return sum(number for each, number in pairs if all(each[at] == label for at, label in wanted)) / len(self)

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the rows by column."""
        return {
            name: [each[place] for each, number in zip(self.labels, self.counts, strict=True) for _ in range(number)]
            for place, name in enumerate(self.columns)
        }

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write the rows into a CSV file with a header; a label that is None is an empty field."""
        import csv

        with Path(path).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            for each, number in zip(self.labels, self.counts, strict=True):
                writer.writerows(itertools.repeat(each, number))

    def to_parquet(self, path: str | PathLike[str]) -> None:
        """Write the rows into a Parquet file."""
        import pyarrow.parquet as pq  # type: ignore[import-untyped]

        pq.write_table(self.to_arrow(), path)

    @property
    def brief(self) -> str:
        """Return how many rows and columns there are."""
        return f"{len(self):,} made rows of {', '.join(self.columns)}"

    def __str__(self) -> str:
        number = len(self.tables)
        return f"{self.brief}, from {number:,} released table{'s' * (number != 1)}; costs nothing"


class Estimates(Record, frozen=True):
    """Numbers, one for each group, with ends for the population (None where there are none) and for these rows."""

    values: tuple[float, ...]
    low: tuple[float, ...] | None
    high: tuple[float, ...] | None
    sample_low: tuple[float, ...]
    sample_high: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_finite("values", *self.values, *(self.low or ()), *(self.high or ()), *self.sample_low, *self.sample_high)

    @property
    def most(self) -> float:
        """Return the largest upper end, for the population or else for these rows."""
        return max(self.high or self.sample_high)


class Contrast(Record, frozen=True):
    """The difference or the ratio of two groups of one release, with ends that follow from theirs (U2.4). Free.

    An end is None where it is open, as a ratio's is whose denominator may be 0; ``reason`` says so, or says why nothing is
    known of the population.
    """

    kind: Literal["difference", "ratio"]
    first: str
    second: str
    value: float | None
    low: float | None
    high: float | None
    sample_low: float | None
    sample_high: float | None
    confidence: float
    certificate: Certificate
    reason: str | None = None

    def __post_init__(self) -> None:
        _check_finite("contrast", self.value, self.low, self.high, self.sample_low, self.sample_high)

    def __contains__(self, value: float) -> bool:
        """Return whether a number is between the ends for the population; an open end holds every number."""
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        shown = "undefined" if self.value is None else f"{self.value:,.6g}"
        low, high = ("open" if each is None else f"{each:,.6g}" for each in (self.low, self.high))
        sure = f"{low} to {high} ({self.confidence:.0%}, population)"
        note = "" if self.reason is None else f"; {self.reason}"
        return f"{self.kind} of {self.first} and {self.second}: {shown}  {sure}{note}"


class Means(_LabelledCells, frozen=True, kw_only=True):
    """The response to a mean or a sum: a number for each group in the column's own units, a sequence of answers with labels.

    A mean is over the rows of a group that have a value, counted within ``bounds``: ``shares`` are the shares of all rows
    that these are, ``below`` and ``above`` the shares of all rows in the group that lie outside (None where nothing can),
    and ``missing`` the share of the rows without a value or in no group. ``per_head`` is the sum over a group divided by all
    rows. ``low`` and ``high`` are for the population, None where ``reason`` says why; all of these numbers, and all other
    answers, are right at once with ``confidence``. ``whole``: the cells behind these numbers are all rows, and their answers
    were moved so that they add up to 1 (U1.5).
    """

    measure: Literal["mean", "share", "sum"]
    column: str
    bounds: tuple[float, float]
    rows: int
    where: str | None
    shares: Estimates
    per_head: Estimates
    below: Estimates | None
    above: Estimates | None
    missing: Estimates
    population: int | None = None
    whole: bool | UnsetType = UNSET

    @property
    def measure_name(self) -> str:
        """Return what the numbers are: share, mean or sum."""
        return self.measure

    @property
    def axis(self) -> tuple[float, float]:
        """Return between which numbers values lie, to be drawn."""
        if self.measure != "sum":
            return self.bounds
        ends = (0.0, *self.values, *(self.low or self.sample_low), *(self.high or self.sample_high))
        return (min(ends), max(ends)) if min(ends) < max(ends) else (0.0, 1.0)

    def write_number(self, value: float) -> str:
        """Return a value as it is shown."""
        return f"{value:,.0f}" if _MANY <= abs(value) < _TOO_MANY else f"{value:,.6g}"

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the groups by column: labels, the mean or sum, its ends, and the group's share of all rows."""
        return _LabelledCells.to_columns(self) | {"group_share": list(self.shares.values)}

    @property
    def value(self) -> float:
        """Return the number, where there is one group."""
        return self._only.value

    @property
    def interval(self) -> Interval | None:
        """Return the interval for the population, where there is one group."""
        return self._only.interval

    @property
    def sample_interval(self) -> Interval:
        """Return the interval for these rows, where there is one group."""
        return self._only.sample_interval

    @property
    def _only(self) -> Answer:
        if len(self) != 1:
            raise InvalidParameter.saying("value", f"there are {len(self):,} groups; take one by its place, or cell(labels)")
        return self[0]

    @property
    def sentence(self) -> str:
        """Return in words what the numbers are: how values outside count, and which rows are left out."""
        by = "" if not self.columns else f" by {', '.join(self.columns)}"
        of = f"the {self.measure} of {self.column}{by}" + ("" if self.where is None else f" where {self.where}")
        people = "these rows" if self.missing.low is None else "the population"
        if self.below is None or self.above is None:
            return f"{of}; at most {_percent_up(self.missing.most)} of {people} is in no group"
        low, high = (f"{end:,.10g}" for end in self.bounds)
        each = " in any one group" if len(self) > 1 else ""
        above, below, missing = (_percent_up(each.most) for each in (self.above, self.below, self.missing))
        return (
            f"{of}, counting values above {high} as {high} and below {low} as {low}; at most {above} of {people} lies above "
            f"and {below} below{each}; over rows with a value: at most {missing} of {people} has none"
            f"{' or is in no group' if self.columns else ''}"
        )

    @property
    def brief(self) -> str:
        """Return the value, or how many groups there are."""
        if len(self) == 1:
            return f"{self.measure} of {self.column}: {self[0].brief}"
        return f"{self.measure} of {self.column} in {len(self):,} groups"

    def __str__(self) -> str:
        return f"{self.sentence}\n{_LabelledCells.__str__(self)}"

    def difference(self, first: object, second: object) -> Contrast:
        """Return the first group's number less the second's, by their labels. Free: it follows from this release (U2.4)."""
        return self._contrast("difference", first, second)

    def ratio(self, first: object, second: object) -> Contrast:
        """Return the first group's number over the second's, by their labels. Free.

        Where the second may be 0, an end that has no limit is None, and the reason says so.
        """
        return self._contrast("ratio", first, second)

    def _contrast(self, kind: Literal["difference", "ratio"], first: object, second: object) -> Contrast:
        one, other = self.find_place(first), self.find_place(second)
        combine = _divide_ends if kind == "ratio" else _subtract_ends
        rows = combine((self.sample_low[one], self.sample_high[one]), (self.sample_low[other], self.sample_high[other]))
        ends: tuple[float | None, float | None] = None, None
        reason = self.reason
        if self.low is not None and self.high is not None:
            ends = combine((self.low[one], self.high[one]), (self.low[other], self.high[other]))
            reason = _OPEN if None in ends else None
        elif None in rows:
            reason = _OPEN if reason is None else f"{_OPEN}; {reason}"
        a, b = self.values[one], self.values[other]
        value = a - b if kind == "difference" else a / b if b else None
        names = self.names
        return Contrast(kind, names[one], names[other], value, *ends, *rows, self.confidence, self.certificate, reason)

    def total(self, population: int | None = None) -> "Means":
        """Return the sums: over these rows, or over a population of this size. Free: they follow from the same release.

        Without a ``population`` there is no interval for it: what is known of it is ``per_head``. With one, all numbers are
        per head times its size.
        """
        size = self.rows if population is None else count("population", population, most=MOST_PEOPLE)
        found = self.per_head
        reason = self.reason if found.low is None else None if population is not None else _NO_TOTAL
        low, high = (None, None) if population is None else (found.low, found.high)
        # Responses of earlier versions have ends of per_head that are beyond these.
        least, most = min(self.bounds[0], 0.0), max(self.bounds[1], 0.0)
        lows, sample_lows = (
            [round_down(size * Fraction(max(least, end))) for end in ends or ()] for ends in (low, found.sample_low)
        )
        highs, sample_highs = (
            [round_up(size * Fraction(min(most, end))) for end in ends or ()] for ends in (high, found.sample_high)
        )
        return replace(
            self,
            measure="sum",
            values=tuple(size * each for each in found.values),
            low=tuple(lows) or None,
            high=tuple(highs) or None,
            sample_low=tuple(sample_lows),
            sample_high=tuple(sample_highs),
            population=population,
            reason=reason,
        )


_MANY, _TOO_MANY = 1e5, 1e15  # between these, a number is shown without decimals
_SUMMED = "the sum of the boxes of cells that were put together after their release (U1.6)"
_OUTWARD, _CLOSE, _LARGEST_EPSILON = 1 + 2.0**-44, 2.0**-48, 700.0


def _lower_share(share: float, epsilon: float, slack: float) -> float:
    """Return T6's lower end for the population, given that E[share of these rows | all answers] is at least ``share``."""
    if slack >= 1 or epsilon > _LARGEST_EPSILON:
        return 0.0
    return max(0.0, (share - slack) / (1 + math.expm1(epsilon) * (1 - share)))


_OPEN = "the denominator may be 0, so an end is open"
_NO_TOTAL = "this is the sum over these rows; per_head speaks of the population, and population= gives its total"
_Ends: TypeAlias = tuple[float | None, float | None]
MOST_PEOPLE = 10**12
"""A population whose total is told has no more people than this."""


def _percent_up(share: float) -> str:
    return f"{math.ceil(min(share, 1.0) * 1000) / 10:g} %"


def _subtract_ends(first: tuple[float, float], second: tuple[float, float]) -> _Ends:
    """Return the ends of a difference, rounded outward, and not at all where floats hold them."""
    (least, most), (low, high) = ((Fraction(end) for end in ends) for ends in (first, second))
    return round_down(least - high), round_up(most - low)


def _divide_ends(first: tuple[float, float], second: tuple[float, float]) -> _Ends:
    """Return the ends of a quotient, rounded outward; None where it has no limit on that side."""
    (least, most), (low, high) = ((Fraction(end) for end in ends) for ends in (first, second))
    if high <= 0 and low < 0:
        return _divide_ends((-first[1], -first[0]), (-second[1], -second[0]))
    if low > 0:
        found = [over / under for over in (least, most) for under in (low, high)]
        ends = round_down(min(found)), round_up(max(found))
        return ends[0] if math.isfinite(ends[0]) else None, ends[1] if math.isfinite(ends[1]) else None
    if low == 0 and high > 0:
        return round_down(least / high) if least >= 0 else None, round_up(most / high) if most <= 0 else None
    return None, None


def _cell_name(labels: tuple[Any, ...]) -> str:
    if not labels:
        return "all"
    return "other" if all(each is None for each in labels) else ", ".join(map(str, labels))


class Quantiles(_Tabular, frozen=True):
    """The response to a request for quantiles: for each level where the values of a column reach it, in their own units.

    The quantile of a level is the lowest point of the public grid up to which at least that share of the population lies,
    of those that meet ``where`` if there is one; it is between ``low`` and ``high``, None where ``reason`` says why. All of
    them, and all other answers, are right at once with ``confidence``; those of the method "exponential" by themselves.
    Values outside the grid count as its nearer end, missing ones as its upper end. ``shares`` are the answers about
    ``thresholds``, from which all of it follows; ``asks`` and ``cost`` are what this request paid for. Where the budget ran
    out, ``complete`` is False: the ends hold all the same, and are wider. ``place`` is there for a curve on a ledger without
    a set number of questions: which draw it was, and how many units were spent with it.
    """

    column: str
    levels: tuple[float, ...]
    values: tuple[float, ...]
    low: tuple[float, ...] | None
    high: tuple[float, ...] | None
    sample_low: tuple[float, ...]
    sample_high: tuple[float, ...]
    confidence: float
    thresholds: tuple[float, ...]
    shares: tuple[float, ...]
    where: str | None
    method: str
    asks: int
    cost: float
    certificate: Certificate
    complete: bool = True
    reason: str | None = None
    repeated: bool = False
    place: tuple[int, int] | UnsetType = UNSET

    def __post_init__(self) -> None:
        ends = (*(self.low or ()), *(self.high or ()), *self.sample_low, *self.sample_high)
        _check_finite("quantiles", *self.levels, *self.values, *ends, *self.thresholds, *self.shares)
        _check_finite("quantiles", self.confidence, self.cost)

    def __len__(self) -> int:
        return len(self.levels)

    def __getitem__(self, place: int) -> Answer:
        """Return the answer about one level, by its place."""
        ends = None
        if self.low is not None and self.high is not None:
            ends = Interval(self.low[place], self.high[place], self.confidence, "population")
        rows = Interval(self.sample_low[place], self.sample_high[place], self.confidence, "sample")
        return Answer(self.values[place], ends, rows, self.certificate, self.reason, self.repeated)

    def __iter__(self) -> Iterator[Answer]:
        return (self[place] for place in range(len(self)))

    @property
    def value(self) -> float:
        """Return the quantile of the first level."""
        return self.values[0]

    @property
    def interval(self) -> Interval | None:
        """Return the interval for the population of the first level."""
        return self[0].interval

    @property
    def sample_interval(self) -> Interval:
        """Return the interval for these rows of the first level."""
        return self[0].sample_interval

    @property
    def brief(self) -> str:
        """Return each level with its quantile and the interval that is promised for it."""
        return "; ".join(f"{level:g}: {each.brief}" for level, each in zip(self.levels, self, strict=True))

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the quantiles by column: level, value, and the ends for the population, or for these rows."""
        low, high = (self.sample_low, self.sample_high) if self.low is None else (self.low, self.high or ())
        return {"level": list(self.levels), "value": list(self.values), "low": list(low), "high": list(high)}

    def plot(self, ax: Any = None) -> Any:  # noqa: ANN401 - matplotlib's axes
        """Draw the answers about thresholds, and the quantiles with their intervals; return the axes."""
        plt = import_plots()
        axes = plt.subplots(figsize=(6, 4))[1] if ax is None else ax
        found = self.to_columns()
        below = [value - low for value, low in zip(found["value"], found["low"], strict=True)]
        above = [high - value for value, high in zip(found["value"], found["high"], strict=True)]
        axes.plot(self.thresholds, self.shares, ".", color="#5fa8a0")
        axes.errorbar(self.values, self.levels, xerr=[below, above], fmt="o", color="#00695f", capsize=3)
        axes.set_ylim(0, 1)
        axes.set_xlabel(self._subject)
        axes.set_ylabel(f"share at or below ({self.confidence:.0%}, all at once)")
        return axes

    @property
    def _subject(self) -> str:
        return self.column if self.where is None else f"{self.column} where {self.where}"

    @property
    def paid(self) -> str:
        """Return in words what the request cost, and whether the budget ran out on the way."""
        asked = f"{self.asks:,} questions, " if self.asks and not self.repeated else ""
        cost = asked + _format_cost(replace(self.certificate, cost=self.cost), repeated=self.repeated)
        return cost if self.complete else f"{cost}; the budget ran out, and these are the intervals so far"

    def __str__(self) -> str:
        found = self.to_columns()
        lines = [self._subject, "level       value         low        high"]
        for level, value, low, high in zip(*found.values(), strict=True):
            lines.append(f"{level:<7.4g} {value:>9.6g}   {low:>9.6g}   {high:>9.6g}")
        target = f"the rows ({self.reason})" if self.low is None else "the population"
        return "\n".join([*lines, f"{self.confidence:.0%} for {target}, all at once; {self.paid}"])

    def _repr_html_(self) -> str:
        heads = "".join(f"<th>{html.escape(name)}</th>" for name in ("level", self._subject, "low", "high"))
        rows = [
            "<tr>" + "".join(f"<td>{number:.6g}</td>" for number in each) + "</tr>"
            for each in zip(*self.to_columns().values(), strict=True)
        ]
        return f"<table><tr>{heads}</tr>{''.join(rows)}</table><p>{html.escape(self.paid)}</p>"


class Statistic(Tagged, frozen=True, kw_only=True):
    """The response to a statistic that is not a mean of rows, such as a variance, or to a ratio of such ones (U5).

    One row moves it by ``sensitivity`` / rows at most, in its own units; None for a ratio, which follows for nothing from
    ``parts``. ``interval`` is for what ``target`` says in words, and None where ``reason`` says why; it is right at once
    with all other answers.
    """

    measure: str
    subject: str
    value: float
    interval: Interval | None
    sample_interval: Interval
    sensitivity: float | None
    target: str
    certificate: Certificate
    parts: tuple["Statistic", ...] = ()
    reason: str | None = None
    repeated: bool = False

    def __post_init__(self) -> None:
        _check_finite("statistic", self.value, self.sensitivity)

    @property
    def sentence(self) -> str:
        """Return in words what the number is, how far one row can move it, and what its interval is for."""
        one, all_rows = (self.certificate.unit, "units") if self.certificate.unit else ("row", "rows")
        moved = (
            f"; one {one} moves it by at most {self.sensitivity:.6g} / {all_rows}" if self.sensitivity is not None else ""
        )
        return f"{self.measure} of {self.subject}; the interval is for {self.target}{moved}"

    @property
    def brief(self) -> str:
        """Return what it is, the value, and the interval that is promised for it, in a few words."""
        ends = self.interval or self.sample_interval
        return f"{self.measure} of {self.subject}: {self.value:.6g} ({ends.low:.6g} to {ends.high:.6g})"

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"{name}: {words}" for name, words in self.lines().items())])

    def lines(self) -> dict[str, str]:
        """Return the value, its intervals and its cost, each in words by its name."""
        none = f"no interval: {self.reason}"
        sure = f"({self.sample_interval.confidence:.0%})"
        return {
            "value": f"{self.value:.6g}",
            "population": none if self.interval is None else f"{self.interval.low:.6g} to {self.interval.high:.6g} {sure}",
            "these rows": f"{self.sample_interval.low:.6g} to {self.sample_interval.high:.6g} {sure}",
            "cost": _format_cost(self.certificate, repeated=self.repeated).removeprefix("cost "),
        }

    def _repr_html_(self) -> str:
        return _format_table({"statistic": self.sentence} | self.lines(), self)


def _format_ends(interval: Interval) -> str:
    return f"{interval.low:.4g} to {interval.high:.4g} ({interval.confidence:.0%})"


def _format_cost(certificate: Certificate, *, repeated: bool, deduced: tuple[int, ...] | UnsetType = UNSET) -> str:
    about = f"; population: {certificate.population}" if certificate.population else ""
    cap = certificate.spent + certificate.left
    left = f"{_format_share(certificate.left, cap)} of the budget left{about}"
    if isinstance(deduced, tuple) and not repeated:
        sources = (
            f"follows from entr{'y' if len(deduced) == 1 else 'ies'} {', '.join(map(str, deduced))}"
            if deduced
            else "holds for all rows"
        )
        return f"{sources}: nothing, {left}"
    return f"asked before: nothing, {left}" if repeated else f"cost {_format_share(certificate.cost, cap)}, {left}"


def _format_share(part: float, whole: float) -> str:
    """Return a share of the budget in percent, with two digits where it is small."""
    percent = 100 * part / whole if whole else 0.0
    return f"{percent:.1f}%" if not 0 < percent < 1 else f"{percent:.2g}%"


def text_table(title: str, lines: Mapping[str, str]) -> str:
    """Return a title over a column of names and a column of values."""
    width = max(len(name) for name in lines)
    return "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in lines.items())])


def _format_table(facts: Mapping[str, str], response: "Response") -> str:
    certificate = response.certificate
    receipt = f"entry {certificate.entry}, {certificate.digest[:16]}…"
    deduced = response.deduced if isinstance(response, Answer) else UNSET
    cost = _format_cost(certificate, repeated=response.repeated, deduced=deduced)
    lines = {**facts, "cost": cost.removeprefix("cost "), "receipt": receipt}
    return html_table(lines.items())


def html_table(facts: Iterable[tuple[str, str]], *, title: str = "") -> str:
    """Return names and values as an HTML table, as notebooks show it."""
    rows = "".join(f"<tr><th style='text-align:right'>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in facts)
    caption = f"<caption style='text-align:left'><code>{html.escape(title)}</code></caption>" if title else ""
    return f"<table>{caption}{rows}</table>"


def make_frame(rows: Sequence[Mapping[str, Any]]) -> Any:  # noqa: ANN401 - a library that need not be there
    """Return rows as a pandas data frame; MissingExtra where pandas is not installed."""
    return import_frames("pandas").DataFrame.from_records(list(rows))


def import_plots() -> Any:  # noqa: ANN401 - a library that need not be there
    """Return matplotlib's pyplot; MissingExtra where it is not installed."""
    try:
        return import_module("matplotlib.pyplot")
    except ImportError:
        raise MissingExtra("plots", purpose="a plot") from None


def import_frames(library: str) -> Any:  # noqa: ANN401 - a library that need not be there
    """Return pandas or polars; MissingExtra where it is not installed."""
    try:
        return import_module(library)
    except ImportError:
        raise MissingExtra("frames", purpose=f"a data frame of {library}") from None


class Listing(list[_Item]):
    """A list that notebooks show as a table, and that prints as one: of answers, or of the lines of a history.

    ``names`` are what each answer is to, if they are known. It is equal to the plain list of the same records.
    """

    def __init__(self, items: Iterable[_Item] = (), *, names: Sequence[str] = ()) -> None:
        super().__init__(items)
        self.names = tuple(names)

    def list_rows(self) -> list[dict[str, Any]]:
        """Return a row of plain values for each record."""
        rows = [item.list_values() for item in self]
        return [{"question": name} | row for name, row in zip(self.names, rows, strict=True)] if self.names else rows

    def to_frame(self) -> Any:  # noqa: ANN401 - a library that need not be there
        """Return the records as a pandas data frame, a row each."""
        return make_frame(self.list_rows())

    def __str__(self) -> str:
        rows = [{head: _format_value(value) for head, value in row.items()} for row in self.list_rows()]
        if not rows:
            return "nothing yet"
        wide = {head: max(len(head), *(len(row[head]) for row in rows)) for head in rows[0]}
        lines = [{head: head for head in wide}, *rows]
        return "\n".join("  ".join(f"{line[head]:<{width}}" for head, width in wide.items()).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        rows = self.list_rows()
        if not rows:
            return "<p>nothing yet</p>"
        head = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
        cells = ("".join(f"<td>{html.escape(_format_value(value))}</td>" for value in row.values()) for row in rows)
        return f"<table><tr>{head}</tr>{''.join(f'<tr>{each}</tr>' for each in cells)}</table>"


def _format_value(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def explain_width(value: float, ends: Interval | None, sample: Interval, *, planned: str = "the plan's questions") -> str:
    """Return why an answer is this wide: how much is noise, how much may be overfitted, and what makes it narrower."""
    near = max(value - sample.low, sample.high - value)
    if ends is None:
        told = "there is no interval for the population, since its rows are not declared independent draws (iid)"
        return f"within {near:.3g} of these rows, all of it noise that keeps single rows private; {told}"
    wide = max(value - ends.low, ends.high - value)
    if not wide:
        return "exact: it is the same for every row"
    part = min(1.0, near / wide)
    noise = f"{part:.0%} of that is noise that keeps single rows private"
    rest = f"{1 - part:.0%} is what {planned}, each chosen after the last answer, may have overfitted to these rows"
    return f"within {wide:.3g} of the population: {noise}, {rest}. Narrower with fewer questions or more rows"


Response: TypeAlias = (
    Answer
    | Choice
    | Hypothesis
    | Prediction
    | Table
    | Workload
    | Means
    | Quantiles
    | Statistic
    | WatchAnswer
    | WatchRun
    | Evaluation
    | FittedModel
)


def mark_repeat(response: Response, *, repeated: bool) -> Response:
    """Return a response marked as a repeat or not."""
    return response if response.repeated == repeated else replace(response, repeated=repeated)
