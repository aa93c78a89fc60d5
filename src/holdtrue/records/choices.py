"""Responses that decide: the pick of a selection, the alarm of a watch, and what follows from earlier answers."""

import math

from msgspec import UNSET, UnsetType

from holdtrue.exact import count
from holdtrue.records.answers import (
    Certificate,
    Interval,
    Tagged,
    check_finite,
    format_cost,
    format_ends,
    format_share,
    format_table,
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
        return f"{self.text}\n  {target} {format_ends(ends)}: already follows {since}; costs nothing"


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
        check_finite("shortfall", self.shortfall, *(x for x in (self.scale, self.population_shortfall) if x is not UNSET))

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
        paid = format_cost(self.certificate, repeated=self.repeated)
        return f"{self.chosen}  at most {self.shortfall:.4g} rows behind the best  {paid}"

    def _repr_html_(self) -> str:
        return format_table({"chosen": self.chosen, "behind the best": f"{self.shortfall:.4g} rows at most"}, self)


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
        check_finite("threshold", self.threshold, self.run_cost)

    @property
    def brief(self) -> str:
        """Return above or below."""
        return f"{'above' if self.above else 'below'} {self.threshold:.4g}"

    def __str__(self) -> str:
        said = (
            f"population {format_ends(self.interval)}"
            if self.interval
            else f"these rows {format_ends(self.sample_interval)}"
        )
        return f"{self.brief}  {said}  run {self.say_run()}"

    def say_run(self) -> str:
        """Return the number of its run, what was paid where that began here, and how many alarms are left."""
        cap = self.certificate.spent + self.certificate.left
        begun = self.run_cost > 0 and not self.repeated
        paid = f", begun here for {format_share(self.run_cost, cap)} of the budget" if begun else ""
        return f"{self.run}{paid}; {self.alarms_left} alarm{'s' * (self.alarms_left != 1)} left"

    def _repr_html_(self) -> str:
        population = format_ends(self.interval) if self.interval else f"none: {self.reason}"
        shown = {"found": self.brief, "population": population, "these rows": format_ends(self.sample_interval)}
        return format_table(shown | {"run": self.say_run()}, self)


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
        return f"{self.brief}  {format_cost(self.certificate, repeated=self.repeated)}"
