"""Plans for a holdout: every mode's width before the first look, and the one that fits the wish (T5, T6b, T9 to T12)."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from textwrap import fill
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

from holdtrue.accounting.closed_forms import smallest
from holdtrue.bounds.accuracy import hoeffding_alpha
from holdtrue.bounds.gate_levels import (
    AT_ONCE,
    AT_THE_END,
    depth_level,
    depth_width,
    plan_gate_noise,
    private_gate_limits,
    split_noise_share,
)
from holdtrue.bounds.sparse_vector import SparseVectorBound, above_threshold_alpha, private_ladder_alpha
from holdtrue.bounds.transcripts import guess_and_check_alpha, ladder_alpha, rounding_alpha
from holdtrue.errors import InsufficientSamples, InvalidParameter, PreconditionError, UnknownName
from holdtrue.exact import Number, count, probability, round_down, text_among, truth
from holdtrue.planning.asking import plan
from holdtrue.planning.gate_power import POWER, cases_for_gain, find_gain, gate_power
from holdtrue.records import html_table, make_frame

__all__ = ["GatePlan", "HoldoutPlan", "ModeWidth", "describe_width", "plan_holdout", "quiet_threshold"]

_WISH = 0.1
_MOST_CASES = 1 << 40
_YES_SHARE = 20
_STEP = 0.01
_HALF = 0.5
_NARROW = 0.03
_DISCORDANT = 0.1


class ModeWidth(Struct, frozen=True, forbid_unknown_fields=True):
    """What one mode tells, and how far what it tells may be from the truth; None where it can promise nothing.

    ``holds`` is False for the naive mode alone, whose width is right for one look and is shown for contrast. ``opened`` is
    how a mode is opened; empty for the naive one, which nothing opens. ``released`` is the smaller half-width of the scores
    that a mode tells with noise where it tells less of most looks; unset where there is one width only.
    """

    mode: str
    tells: str
    alpha: float | None
    private: bool
    theorem: str
    holds: bool = True
    opened: str = ""
    released: float | UnsetType = field(default=UNSET, name="alpha_released")

    @property
    def alpha_released(self) -> float | None:
        """Return the half-width of released scores; None where there is one width only."""
        return self.released or None

    def __str__(self) -> str:
        width = "none" if self.alpha is None else f"±{self.alpha:.4f}"
        kept = "private" if self.private else "not private"
        tells = self.tells if not self.alpha_released else f"{self.tells}: ±{self.alpha_released:.4f}"
        return f"{width:>8}  {self.mode:<16}  {kept:<11}  {tells}  [{self.theorem}]"


class GatePlan(Struct, frozen=True, forbid_unknown_fields=True):
    """What a gate finds, by exact pairs with margin 0: at the first look, and at the last yes (V1.3).

    ``power`` is how often a true ``gain`` has a yes where so large a share of cases is ``discordant``, ``cases`` how many
    find it 80 % of the time, None where no reasonable number does; ``finds`` is the smallest gain that the cases at hand
    find so often, None where not even a win in every differing case is enough. Without a gain, the first two are unset.
    """

    discordant: float
    finds: float | None
    finds_last: float | None
    gain: float | UnsetType = UNSET
    power: float | UnsetType = UNSET
    power_last: float | UnsetType = UNSET
    cases: int | UnsetType | None = UNSET
    cases_last: int | UnsetType | None = UNSET

    def __str__(self) -> str:
        share = f"Where {self.discordant:.0%} of the cases differ"
        found = (
            f"these cases find a gain of {self.finds:.3f} 80% of the time"
            if self.finds
            else "no gain is found 80% of the time"
        )
        last = f"{self.finds_last:.3f}" if self.finds_last else "none"
        lines = [f"{share}, {found} at the first look; at the last yes {last}."]
        if isinstance(self.gain, float):
            needed, needed_last = (
                f"{each:,}" if isinstance(each, int) else "no number of" for each in (self.cases, self.cases_last)
            )
            lines.append(
                f"A gain of {self.gain:g} is found {self.power:.0%} of the time at the first look, {self.power_last:.0%} at "
                f"the last yes; {needed} cases find it 80% of the time, {needed_last} at the last yes."
            )
        return "\n".join(lines)


class HoldoutPlan(Struct, frozen=True, forbid_unknown_fields=True, tag_field="plan", tag="holdout"):
    """Every mode of a holdout side by side, from public numbers, before the first look.

    Guarantee: in ``mode``, with probability 1 - beta all that is told in ``looks`` adaptive looks is within ``alpha`` of the
    truth at once, None where the cases are too few for any promise. ``private`` says whether it keeps the cases' secrets,
    ``enough`` whether it is within the wish, ``advice`` the same in words, and if not, what would do. ``gate`` is what a
    gate finds, where it was asked for.
    """

    cases: int
    looks: int
    yes: int
    overfits: int
    beta: float
    wish: float
    mode: str
    alpha: float | None
    private: bool
    enough: bool
    advice: str
    modes: tuple[ModeWidth, ...]
    gate: GatePlan | UnsetType = UNSET
    tells: str | UnsetType = UNSET

    @property
    def power(self) -> float | None:
        """Return how often a gate says yes at its first look to the gain that was asked about."""
        found = self.gate.power if isinstance(self.gate, GatePlan) else UNSET
        return found if isinstance(found, float) else None

    def alpha_at(self, look: int, yes: int = 0) -> float | None:
        """Return by how much a score must be above one half for a yes of the gate at a look, after this many yes.

        None where no score is enough. A look after as many yes is the same at any time (V1.1).
        """
        number = count("look", look, most=self.looks)
        before = count("yes", yes, least=0, most=min(self.yes, number) - 1)
        told = self.tells or None
        level = depth_level(self.looks, yes=self.yes, beta=self.beta, after=before, tells=told)
        return depth_width(self.cases, level=level)

    def _repr_html_(self) -> str:
        said = [(line.mode, str(line).split(line.mode, 1)[1].strip()) for line in self.modes]
        return html_table(said, title=self.advice)

    def to_frame(self) -> Any:  # noqa: ANN401 - a library that need not be there
        """Return the modes as a pandas data frame, a row each."""
        kept = ("mode", "alpha", "private", "tells", "theorem", "opened")
        return make_frame([{name: getattr(line, name) for name in kept} for line in self.modes])

    def __getitem__(self, mode: str) -> ModeWidth:
        for line in self.modes:
            if line.mode == mode:
                return line
        message = f"there is no mode {mode!r}; there are {', '.join(line.mode for line in self.modes)}"
        raise UnknownName(message)

    def __iter__(self) -> Iterator[ModeWidth]:
        return iter(self.modes)

    def __str__(self) -> str:
        title = f"{self.cases:,} cases, {self.looks:,} looks, {1 - self.beta:.0%} confidence for all looks at once"
        lines = [f"{'->' if line.mode == self.mode else '  '} {line}" for line in self.modes]
        found = str(self.gate).splitlines() if isinstance(self.gate, GatePlan) else []
        told = [fill(each, 80) for each in (self.advice, *found, f"Opened by {self[self.mode].opened}.")]
        return "\n".join([title, *(fill(line, 80, subsequent_indent=" " * 45) for line in lines), *told])


@dataclass(frozen=True, slots=True)
class _Wish:
    looks: int
    yes: int
    overfits: int
    beta: float
    tells: str | None = None
    epsilon: float | None = None
    delta: float | None = None

    @property
    def limits(self) -> str:
        """Return the privacy that a private gate is opened with, where it was given."""
        given = (("epsilon", self.epsilon), ("delta", self.delta))
        return "".join(f", {name}={value:g}" for name, value in given if value is not None)


def plan_holdout(  # noqa: PLR0913 - every public number of a holdout, by name
    *,
    cases: int | None = None,
    looks: int,
    yes: int | None = None,
    overfits: int | None = None,
    beta: Number = 0.05,
    private: bool | None = None,
    alpha: Number | None = None,
    gain: Number | None = None,
    discordant: Number | None = None,
    tells: str | None = None,
    epsilon: Number | None = None,
    delta: Number | None = None,
) -> HoldoutPlan:
    """Return every mode's width for this many cases and looks, and the mode that fits what is wished for.

    With ``yes`` the wish is a gate that answers yes at most so often; with ``overfits`` a reusable holdout whose training
    scores are wrong at most so often; with neither, the score of every look. ``private``: True for modes that keep
    secrets, False for the narrowest whatever it gives away; left out, scores and the reusable holdout are private and the
    gate is not. ``alpha`` is the half-width wished for, 0.1 unless given or a gain is; it decides nothing but the advice.

    For a gate, ``discordant`` is the share of cases in which a submission and the incumbent are expected to differ: the plan
    then says which gain these cases find 80 % of the time. With a ``gain`` as well it says how often that one is found and
    how many cases it needs; without ``cases`` that number is planned for. ``tells`` as in :class:`Holdout`, and so are
    ``epsilon`` and ``delta``, which decide the noise of a private gate: its width is what a yes needs with all of it (V1.4).

    >>> round(plan_holdout(cases=5000, looks=200, yes=10)["gate"].alpha, 3)
    0.063
    >>> plan_holdout(gain=0.05, discordant=0.1, looks=100, yes=5).cases
    759
    """
    number = count("looks", looks)
    if yes is not None and overfits is not None:
        raise InvalidParameter("overfits", overfits, "left out when yes is given: a gate or a reusable holdout")
    shown = max(1, number // _YES_SHARE)
    most = shown if yes is None else count("yes", yes)
    wrong = shown if overfits is None else count("overfits", overfits)
    if max(most, wrong) > number:
        raise InvalidParameter("yes" if yes is not None else "overfits", max(most, wrong), f"at most {number}, the looks")
    if private is not None:
        truth("private", private)
    gated = yes is not None and not private
    _check_tells(tells, gate=gated)
    kept = private_gate_limits(epsilon, delta) if (epsilon, delta) != (None, None) else (None, None)
    wish = _Wish(number, most, wrong, round_down(probability("beta", beta)), tells, *kept)
    pair = _read_pair(gain, discordant, gate=gated)
    size = _solve_cases(wish, pair) if cases is None else count("cases", cases)
    lines = tuple(_line(mode, size, wish) for mode in _MODES)
    found = {line.mode: line.alpha for line in lines}
    mode = _choose_modes(found, gate=yes is not None, reusable=overfits is not None, private=private)
    target = _WISH if alpha is None else round_down(probability("alpha", alpha))
    width = found[mode]
    enough = width is not None and width <= target
    gate = UNSET if pair is None else _plan_gate(size, wish, *pair)
    if isinstance(gate, GatePlan) and isinstance(gate.power, float) and alpha is None:  # the gain is what is wished for
        enough = gate.power >= POWER
        advice = f"{size:,} cases are {'enough' if enough else 'too few'} to find a gain of {gate.gain:g} 80% of the time."
    else:
        advice = _advice(mode, found, size, wish, target, private=private)
        advice += f" {_describe_batch(size, wish)}." if mode in ("scores", "rounding") and number > 1 else ""
    return HoldoutPlan(
        cases=size,
        looks=number,
        yes=most,
        overfits=wrong,
        beta=wish.beta,
        wish=target,
        mode=mode,
        alpha=width,
        private=_MODES[mode].private,
        enough=enough,
        advice=advice,
        modes=lines,
        gate=gate,
        tells=tells or UNSET,
    )


@lru_cache(maxsize=64)
def describe_width(  # noqa: PLR0913 - every public number of a holdout, by name
    mode: str,
    *,
    cases: int,
    looks: int,
    yes: int | None,
    beta: float,
    alpha: float,
    tells: str | None = None,
    pairs: bool = True,
    epsilon: float | None = None,
    delta: float | None = None,
) -> str:
    """Return in one sentence how wide a holdout is that is opened with these numbers, and what would be narrower.

    ``pairs``: a gate compares by exact pairs, or else by betting; ``epsilon`` and ``delta`` are those of a private gate.

    >>> describe_width("private gate", cases=1200, looks=200, yes=5, beta=0.05, alpha=0.29)
    '±0.29 per yes for these 1,200 cases; 26,109 cases would give ±0.03; a gate with 5 yes gives ±0.10'
    """
    most = yes or max(1, looks // _YES_SHARE)
    wish = _Wish(looks, most, most, beta, tells, epsilon, delta)
    if mode == "gate":
        first, last = (depth_width(cases, level=level) for level in _levels(wish))
        told = [f"{width:.2f}" if width is not None else "more than can be" for width in (first, last)]
        words = f"for these {cases:,} cases a yes needs a score {told[0]} above what it must pass, {told[1]} at the last yes"
        finds = find_gain(cases, discordant=_DISCORDANT, level=_levels(wish)[0], betting=not pairs)
        found = f"gains of {finds:.3f}" if finds else "no gain"
        how = "exact pairs" if pairs else "betting"
        return f"{words}; where a tenth of them differ it finds {found} 80% of the time, by {how}"
    said = "yes" if mode == "private gate" else "score"
    words = f"±{alpha:.2f} per {said} for these {cases:,} cases"
    start = math.ceil(min(cases * (alpha / _NARROW) ** 2, float(_MOST_CASES)))
    needed = None if mode not in _MODES or alpha <= _NARROW else _cases_for(mode, wish, _NARROW, start=start)
    if needed is not None:
        words += f"; {needed:,} cases would give ±{_NARROW}"
    gate = depth_width(cases, level=_levels(wish)[1])
    words = words if gate is None or gate >= alpha else f"{words}; a gate with {most:,} yes gives ±{gate:.2f}"
    return f"{words}; {_describe_batch(cases, wish)}" if mode == "scores" and looks > 1 else words


def _describe_batch(cases: int, wish: _Wish) -> str:
    """Return what needs no holdout: scores of submissions that are fixed before the first is told."""
    width = hoeffding_alpha(cases, beta=wish.beta, queries=wish.looks)
    return f"{wish.looks:,} submissions fixed together, before any score is told, are within ±{width:.3f} by any tool"


def _check_tells(tells: str | None, *, gate: bool) -> None:
    if tells is not None and not gate:
        raise InvalidParameter.saying("tells", "tells is for a gate that is not private: give yes")
    if tells is not None:
        text_among("tells", tells, (AT_THE_END, AT_ONCE))


def _read_pair(gain: Number | None, discordant: Number | None, *, gate: bool) -> tuple[float, float | None] | None:
    """Return the share of cases that differ, and the gain that is asked about; None where neither is given."""
    if gain is None and discordant is None:
        return None
    if not gate:
        raise InvalidParameter.saying("discordant", "gain and discordant are for a gate that is not private: give yes")
    if discordant is None:
        raise InvalidParameter.saying("discordant", "gain needs discordant, the share of cases that are expected to differ")
    share = probability("discordant", discordant, one=True)
    wanted = None if gain is None else probability("gain", gain, one=True)
    if wanted is not None and wanted > share:
        message = f"gain must be at most {float(share):g}, the share of cases that differ; got {float(wanted):g}"
        raise PreconditionError(message)
    return float(share), None if wanted is None else float(wanted)


def _levels(wish: _Wish) -> tuple[float, float]:
    """Return the levels of a gate's first look and of its last yes."""
    numbers: dict[str, Any] = {"yes": wish.yes, "beta": wish.beta, "tells": wish.tells}
    return depth_level(wish.looks, **numbers), depth_level(wish.looks, after=wish.yes - 1, **numbers)


def _solve_cases(wish: _Wish, pair: tuple[float, float | None] | None) -> int:
    if pair is None or pair[1] is None:
        raise InvalidParameter.saying("cases", "give cases, or for a gate gain and discordant, which cases are planned for")
    found = cases_for_gain(discordant=pair[0], gain=pair[1], level=_levels(wish)[0])
    if found is None:
        message = (
            "no reasonable number of cases finds so small a gain in that many looks; ask for fewer looks, or a larger gain"
        )
        raise InsufficientSamples(message, required=None)
    return found


def _plan_gate(cases: int, wish: _Wish, share: float, gain: float | None) -> GatePlan:
    levels = _levels(wish)
    finds, finds_last = (find_gain(cases, discordant=share, level=level) for level in levels)
    if gain is None:
        return GatePlan(share, finds, finds_last)
    power, power_last = (gate_power(cases, discordant=share, gain=gain, level=level) for level in levels)
    needed, needed_last = (cases_for_gain(discordant=share, gain=gain, level=level) for level in levels)
    return GatePlan(share, finds, finds_last, gain, power, power_last, needed, needed_last)


def _choose_modes(found: dict[str, float | None], *, gate: bool, reusable: bool, private: bool | None) -> str:
    if gate:
        return "private gate" if private else "gate"
    if reusable:
        return "guess-and-check" if private is False else "thresholdout"
    if private is False and (found["rounding"] or 1) < (found["scores"] or 1):
        return "rounding"
    return "scores"


def _advice(  # noqa: PLR0913 - what was found, and what was wished for
    mode: str, found: dict[str, float | None], cases: int, wish: _Wish, target: float, *, private: bool | None
) -> str:
    width = found[mode]
    if width is not None and width <= target:
        return f"{cases:,} cases are enough: {mode} is within {width:.4f} of the truth in all {wish.looks:,} looks at once."
    has = f"{width:.4f}" if width is not None else "nothing that could be promised"
    words = f"{cases:,} cases are too few for {mode} within {target:g} in {wish.looks:,} looks: {has} is what they give."
    # Widths fall about as one over the square root of the cases.
    start = math.ceil(min(cases * ((width or 1.0) / target) ** 2, float(_MOST_CASES)))
    needed = _cases_for(mode, wish, target, start=start)
    words += f" {needed:,} cases would do." if needed else " No number of cases would do."
    other = [
        (alpha, name)
        for name, alpha in found.items()
        if alpha is not None and name not in ("naive", mode) and (_MODES[name].private or not private)
    ]
    narrowest = min(other, default=None)
    if narrowest is not None and (width is None or narrowest[0] < width):
        name = narrowest[1]
        limit = {
            "gate": f" with {wish.yes:,} yes",
            "private gate": f" with {wish.yes:,} yes",
            "private ladder": f" with {wish.yes:,} changes of the lead",
        }.get(name, "")
        words += (
            f" With these cases, {name}{limit} is within {narrowest[0]:.4f}: it tells {_MODES[name].tells} "
            f"({_MODES[name].opened.format(wish=wish)})."
        )
    return words


def _cases_for(mode: str, wish: _Wish, target: float, *, start: int) -> int | None:
    """Return cases that are enough, at most about one in a hundred more than needed; None where no number is."""
    width = _MODES[mode].width

    def size(step: int) -> int:
        return math.ceil(math.exp(step * _STEP))

    def enough(step: int) -> bool:
        return (_or_none(width, size(step), wish) or 1.0) <= target

    found = smallest(enough, math.ceil(math.log(start) / _STEP), most=math.floor(math.log(_MOST_CASES) / _STEP))
    return None if found is None else size(found)


@dataclass(frozen=True, slots=True)
class _ModeRule:
    tells: str
    theorem: str
    private: bool
    width: Callable[[int, _Wish], float | None]
    opened: str = ""
    holds: bool = True
    released: Callable[[int, _Wish], float | None] = lambda _cases, _wish: None


def _scores(cases: int, wish: _Wish) -> float | None:
    return plan(rows=cases, queries=wish.looks, beta=wish.beta).position_alpha


def quiet_threshold(cases: int, *, looks: int, scale: float) -> float:
    """Return a threshold for a reusable holdout that honest training scores seldom pass: about once in all the looks.

    Three deviations of a difference of two means over this many cases, and 4 s ln k, which two noisy comparisons in 3 k
    pass. It is a matter of use: any threshold is valid, and is added to the width (T10).
    """
    return 3 / math.sqrt(2 * cases) + 4 * scale * math.log(max(looks, 2))


def _thresholdout(cases: int, wish: _Wish) -> float:
    found = _runs(cases, wish, wish.overfits)
    return found.alpha + quiet_threshold(cases, looks=wish.looks, scale=found.scale)


def _private_gate(cases: int, wish: _Wish) -> float | None:
    """Return by how much a score must be above one half for the last yes if noise takes away all that it may (V1.4)."""
    levels, share = split_noise_share(wish.beta)
    epsilon, delta = private_gate_limits(wish.epsilon, wish.delta)
    extra = plan_gate_noise(wish.looks, yes=wish.yes, beta=share, epsilon=epsilon, delta=delta).extra / cases
    width = depth_width(cases, level=depth_level(wish.looks, yes=wish.yes, beta=levels, after=wish.yes - 1))
    return None if width is None or width + extra > _HALF else width + extra


@lru_cache(maxsize=64)
def _runs(cases: int, wish: _Wish, runs: int) -> SparseVectorBound:
    return above_threshold_alpha(cases, looks=wish.looks, runs=runs, beta=wish.beta, one_sided=True)


_MODES = {
    "scores": _ModeRule(
        "every score",
        "transfer, by position (S1, T6b)",
        private=True,
        width=_scores,
        opened="Holdout(y_true, looks={wish.looks})",
    ),
    "rounding": _ModeRule(
        "every score, rounded",
        "description length, by look (T9, S5)",
        private=False,
        width=lambda cases, wish: rounding_alpha(cases, queries=wish.looks, beta=wish.beta / 2),
        opened="Holdout(y_true, looks={wish.looks}, private=False)",
    ),
    "gate": _ModeRule(
        "yes or no",
        "levels by depth (V1)",
        private=False,
        width=lambda cases, wish: depth_width(cases, level=_levels(wish)[1]),
        opened="Holdout(y_true, looks={wish.looks}, yes={wish.yes})",
    ),
    "private gate": _ModeRule(
        "yes or no",
        "levels by depth, and noise (V1.4)",
        private=True,
        width=_private_gate,
        opened="Holdout(y_true, looks={wish.looks}, yes={wish.yes}, private=True{wish.limits})",
    ),
    "ladder": _ModeRule(
        "the best score so far, rounded",
        "transcripts counted (T11)",
        private=False,
        width=lambda cases, wish: ladder_alpha(cases, submissions=wish.looks, beta=wish.beta),
        opened="Leaderboard(y_true, submissions={wish.looks})",
    ),
    "private ladder": _ModeRule(
        "the best score so far, with noise",
        "above threshold, by position (S3, S4, T6b)",
        private=True,
        width=lambda cases, wish: private_ladder_alpha(cases, submissions=wish.looks, moves=wish.yes, beta=wish.beta).alpha,
        opened="Leaderboard(y_true, submissions={wish.looks}, rule='private ladder', moves={wish.yes})",
    ),
    "thresholdout": _ModeRule(
        "the training score, or the holdout's where that overfits",
        "above threshold with one-sided noise, by position (V2.1, S1, T6b)",
        private=True,
        width=_thresholdout,
        released=lambda cases, wish: _runs(cases, wish, wish.overfits).alpha_released,
        opened="Holdout(y_true, looks={wish.looks}, train=y_train, overfits={wish.overfits})",
    ),
    "guess-and-check": _ModeRule(
        "the training score, or the holdout's where that overfits",
        "guess and check (T12)",
        private=False,
        width=lambda cases, wish: guess_and_check_alpha(cases, queries=wish.looks, overfits=wish.overfits, beta=wish.beta),
        opened="Holdout(y_true, looks={wish.looks}, train=y_train, overfits={wish.overfits}, private=False)",
    ),
    "naive": _ModeRule(
        "every score; right for one look only",
        "Hoeffding, nothing adaptive",
        private=False,
        width=lambda cases, wish: hoeffding_alpha(cases, beta=wish.beta),
        holds=False,
    ),
}


def _line(mode: str, cases: int, wish: _Wish) -> ModeWidth:
    how = _MODES[mode]
    opened = how.opened.format(wish=wish)
    width, released = _or_none(how.width, cases, wish), _or_none(how.released, cases, wish)
    return ModeWidth(mode, how.tells, width, how.private, how.theorem, how.holds, opened, released or UNSET)


def _or_none(width: Callable[[int, _Wish], float | None], cases: int, wish: _Wish) -> float | None:
    """Return a half-width below 1; a larger one says nothing."""
    try:
        found = width(cases, wish)
    except InsufficientSamples:
        return None
    return None if found is None or found >= 1 else found
