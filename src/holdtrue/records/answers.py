"""The answer to a question and a prediction, with the interval and the certificate that come with every response."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdtrue.codec import Record
from holdtrue.errors import InvalidParameter
from holdtrue.events import Event
from holdtrue.records.showing import fold_line, html_table, make_frame

if TYPE_CHECKING:
    from holdtrue.records import Response

Target: TypeAlias = Literal["population", "sample", "model"]


class PlannedQuestions(Protocol):
    """What an explanation reads of a plan."""

    @property
    def queries(self) -> int:
        """Return how many questions were planned."""
        ...


class Tagged(Record, frozen=True, tag_field="record", tag=str.lower):
    """A record that names its kind in JSON, in lower case."""


def check_finite(name: str, *values: float | None) -> None:
    """Refuse what is not a finite number; None is no number."""
    if None not in values and math.isfinite(sum(values)):  # type: ignore[arg-type]  # no None
        return
    for value in values:
        if value is not None and not math.isfinite(value):
            raise InvalidParameter(name, value, "a finite number")


class Interval(Tagged, frozen=True):
    """Low and high ends for a value of the target; all answers' intervals hold at once with this confidence.

    The target "model" is what a model says without noise, which is not the true value of what it predicts.
    """

    low: float
    high: float
    confidence: float
    target: Target

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise InvalidParameter("interval", (self.low, self.high), "two finite numbers, the lower one first")
        if not 0 < self.confidence <= 1:
            raise InvalidParameter("confidence", self.confidence, "a number in (0, 1]")
        if self.target not in ("population", "sample", "model"):
            raise InvalidParameter("target", self.target, "'population', 'sample' or 'model'")

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
        return "\n".join(fold_line(f"{name:>{width}}", value) for name, value in facts.items())

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
            check_finite("certificate", self.cost, self.spent, self.left, self.epsilon, self.delta)

    def list_facts(self) -> dict[str, str]:
        """Return the certificate in words."""
        cap = self.spent + self.left
        facts = {
            "cost": f"{format_share(self.cost, cap)} of the budget ({self.cost:.4g})",
            "left": f"{format_share(self.left, cap)} of the budget ({self.left:.4g})",
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
        about = f"population {format_ends(self.interval)}" if self.interval else none
        about += ", the boxes of its cells added up" if self.certificate.theorem == SUMMED else ""
        return f"{self.value:.4g}  {about}  {format_cost(self.certificate, repeated=self.repeated, deduced=self.deduced)}"

    def _repr_html_(self) -> str:
        return format_table(
            {
                "value": f"{self.value:.4g}",
                "population": format_ends(self.interval) if self.interval else f"none: {self.reason}",
                "these rows": format_ends(self.sample_interval),
            },
            self,
        )


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
            check_finite("label", self.label)
        for number in (self.noise, self.error_bound, self.excess_error, self.confidence):
            if isinstance(number, float):
                check_finite("prediction", number)

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
        if not isinstance(self.interval, Interval):
            return self.proven
        return f"without noise {format_ends(self.interval)}: what the model says, not the true value"

    def __str__(self) -> str:
        says = "" if self.says is None else f"  {self.says}"
        return f"{self.brief}{says}  {format_cost(self.certificate, repeated=self.repeated)}"

    def _repr_html_(self) -> str:
        lines = {"prediction": self.brief}
        lines |= {f"{self.about}": format_ends(self.interval)} if isinstance(self.interval, Interval) else {}
        return format_table(lines | ({} if self.proven is None else {"proven": self.proven}), self)


SUMMED = "the sum of the boxes of cells that were put together after their release (U1.6)"


def format_ends(interval: Interval) -> str:
    """Return the ends of an interval and its confidence."""
    return f"{interval.low:.4g} to {interval.high:.4g} ({interval.confidence:.0%})"


def format_cost(certificate: Certificate, *, repeated: bool, deduced: tuple[int, ...] | UnsetType = UNSET) -> str:
    """Return in words what a response cost, and what is left."""
    about = f"; population: {certificate.population}" if certificate.population else ""
    cap = certificate.spent + certificate.left
    left = f"{format_share(certificate.left, cap)} of the budget left{about}"
    if isinstance(deduced, tuple) and not repeated:
        sources = (
            f"follows from entr{'y' if len(deduced) == 1 else 'ies'} {', '.join(map(str, deduced))}"
            if deduced
            else "holds for all rows"
        )
        return f"{sources}: nothing, {left}"
    return f"asked before: nothing, {left}" if repeated else f"cost {format_share(certificate.cost, cap)}, {left}"


def format_share(part: float, whole: float) -> str:
    """Return a share of the budget in percent, with two digits where it is small."""
    percent = 100 * part / whole if whole else 0.0
    return f"{percent:.1f}%" if not 0 < percent < 1 else f"{percent:.2g}%"


def format_table(facts: Mapping[str, str], response: "Response") -> str:
    """Return facts about a response, its cost and its receipt as an HTML table, as notebooks show it."""
    certificate = response.certificate
    receipt = f"entry {certificate.entry}, {certificate.digest[:16]}…"
    deduced = response.deduced if isinstance(response, Answer) else UNSET
    cost = format_cost(certificate, repeated=response.repeated, deduced=deduced)
    lines = {**facts, "cost": cost.removeprefix("cost "), "receipt": receipt}
    return html_table(lines.items())


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


def mark_repeat(response: "Response", *, repeated: bool) -> "Response":
    """Return a response marked as a repeat or not."""
    return response if response.repeated == repeated else replace(response, repeated=repeated)
