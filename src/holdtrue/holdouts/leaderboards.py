"""Leaderboards that cannot be climbed by guessing: the ladder, and a private one with a score for everybody."""

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any, Literal, Self, TypeAlias

from msgspec.structs import replace

from holdtrue.bounds.sparse_vector import ladder_step
from holdtrue.bounds.transcripts import ladder_alpha
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number, count, positive, probability, round_down, round_up, text_among, truth
from holdtrue.holdouts.cases import cases_of
from holdtrue.holdouts.ladders import FREE, Ladder, PrivateLadder, best_step
from holdtrue.holdouts.mode import Transcript
from holdtrue.holdouts.records import Place, Score
from holdtrue.holdouts.scoring import Scoring
from holdtrue.holdouts.submissions import question
from holdtrue.holdouts.terms import (
    Facts,
    counting_plan,
    ladder_numbers,
    open_pipeline,
    scoring_plan,
    sparse_plan,
    stored_facts,
)
from holdtrue.ledgers import Ledger
from holdtrue.planning.plans import Plan
from holdtrue.records import Answer

__all__ = ["Leaderboard"]

Rule: TypeAlias = Literal["ladder", "parameter-free ladder", "private ladder", "private"]
_KEEPING = "private ladder"
_MOVES = 10


class Leaderboard:
    """Takes submissions by name and says who leads, for a planned number of submissions in all.

    Guarantee: by rule "ladder", with probability 1 - beta the score told is within the plan's alpha of the leader's true
    accuracy at every time (T11; not private). By "private ladder" likewise, and the labels keep their secrets (T10, T6b):
    the lead changes at most ``moves`` times (10 unless given), each told with noise. By "private", every submission has a
    noisy score of its own whose interval holds for all at once, and the labels keep their secrets (T5, T6b).
    "parameter-free ladder" is the rule of Blum and Hardt, without interval. The same predictions again cost nothing.
    ``step``: by how much a submission must be better to lead; the ladders choose one unless given.
    Fails: BudgetExceeded when the submissions, or the changes of the lead, are used up.
    """

    def __init__(  # noqa: PLR0913 - everything that is fixed when a ledger is created
        self,
        y_true: object,
        *,
        submissions: int | None = None,
        rule: Rule = "ladder",
        beta: Number = 0.05,
        step: Number | None = None,
        moves: int | None = None,
        epsilon: Number | None = None,
        delta: Number | None = None,
        ledger: str | PathLike[str] | None = None,
        ids: object = None,
        labels: Sequence[object] | None = None,
        classes: Mapping[Any, int] | None = None,
        unseen: bool = False,
        analyst: str = "host",
    ) -> None:
        self.path = None if ledger is None else fspath(ledger)
        self._cases = cases_of(y_true, ids=ids, labels=labels, classes=classes)
        stored = stored_facts(self.path)
        if stored is not None:
            self.facts, self.plan = stored
            self.facts.agree({"looks": submissions, "moves": moves})
        else:
            made, self.plan = _make_facts_and_plan(
                self._cases.number,
                submissions=submissions,
                rule=rule,
                beta=round_down(probability("beta", beta)),
                step=step,
                moves=moves,
                privacy=(epsilon, delta),
                unseen=truth("unseen", unseen),
            )
            self.facts = replace(made, label_kind=self._cases.label_kind)
        self._pipeline = open_pipeline(self._cases, self.facts, self.plan, ledger=self.path, analyst=analyst)
        self._mode = self._open_mode()
        self._transcript = Transcript(self._pipeline.ledger)

    def _open_mode(self) -> Ladder | PrivateLadder | Scoring:
        parts = self._cases, self.facts, self.plan, self._pipeline
        match self.facts.mode:
            case "scores":
                return Scoring(*parts)
            case "private ladder":
                return PrivateLadder(*parts)
            case _:
                return Ladder(*parts)

    def submit(
        self, name: str, y_pred: object, *, ids: object = None, key: str | None = None, analyst: str | None = None
    ) -> Score:
        """Take a submission; return its own score, or on a ladder the best so far, whoever has it.

        ``key`` names this request: under it the submission is told once more what was told first.
        """
        team: object = name
        if not isinstance(team, str) or not name:
            raise InvalidParameter("name", name, "a name in text")
        asked = question(self._cases, y_pred, metric="accuracy", ids=ids)
        return self._mode.look(asked, team=name, key=key, analyst=analyst)

    def standings(self) -> list[Place]:
        """Return every name with what was told of its best submission, the best first, ties as ties. Free."""
        best: dict[str, Answer | None] = {}
        for name, told in self._list_told():
            known = best.get(name)
            if name not in best or (told is not None and (known is None or told.value > known.value)):
                best[name] = told
        ranks = {name: 1 + sum(_above(other, told) for other in best.values()) for name, told in best.items()}
        lines = [
            Place(
                rank=ranks[name],
                name=name,
                score=None if told is None else told.value,
                interval=None if told is None else told.interval,
                tied=list(ranks.values()).count(ranks[name]) > 1,
            )
            for name, told in best.items()
        ]
        return sorted(lines, key=lambda line: (line.rank, -(line.score or 0), line.name))

    def _list_told(self) -> list[tuple[str, Answer | None]]:
        self._pipeline.check_open()
        if isinstance(self._mode, (Ladder, PrivateLadder)):
            return [(name, told if led else None) for name, told, led in self._mode.list_submissions()]
        with self._pipeline.lock:
            self._transcript.follow()
            told = [(str(look.request.get("team")), look.told) for look in self._transcript]
        return [(name, answer) for name, answer in told if isinstance(answer, Answer)]

    @property
    def left(self) -> int:
        """Return how many submissions are left."""
        self._pipeline.check_open()
        return self._mode.looks_left

    @property
    def ledger(self) -> Ledger:
        """Return the ledger of the looks, to be read."""
        return self._pipeline.ledger

    def close(self) -> None:
        """Let go of cases and ledger; nothing is lost."""
        self._mode.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        number, kept = self._cases.number, "private" if self.facts.private else "not private"
        return f"<Leaderboard of {number:,} cases; {self.facts.looks:,} submissions by {self.facts.mode}, {kept}>"


def _above(one: Answer | None, other: Answer | None) -> bool:
    """Return whether what was told shows one above the other: ladder steps do; noisy scores only if intervals part."""
    if one is None:
        return False
    if other is None:
        return True
    if one.interval is None or other.interval is None or one.certificate.delta == 1:
        return one.value > other.value
    return one.interval.low > other.interval.high


def _make_facts_and_plan(  # noqa: PLR0913 - everything that is fixed when a ledger is created
    cases: int,
    *,
    submissions: int | None,
    rule: str,
    beta: float,
    step: Number | None,
    moves: int | None,
    privacy: tuple[Number | None, Number | None],
    unseen: bool,
) -> tuple[Facts, Plan]:
    looks = count("submissions", submissions)
    text_among("rule", rule, ("ladder", FREE, _KEEPING, "private"))
    if moves is not None and rule != _KEEPING:
        raise InvalidParameter.saying("moves", f"moves is for rule={_KEEPING!r} only")
    if rule == _KEEPING:
        return _private_ladder(cases, looks, beta, step=step, moves=moves, epsilon=privacy[0], unseen=unseen)
    if rule == "private":
        epsilon, delta = (None if value is None else round_down(positive("epsilon", value)) for value in privacy)
        plan = scoring_plan(cases, looks=looks, beta=beta, epsilon=epsilon, delta=delta, reserve=0)
        return Facts("scores", looks, beta, unseen, private=True, epsilon=epsilon, delta=delta), plan
    if any(value is not None for value in privacy):
        raise InvalidParameter("epsilon", privacy[0], "left out: a ladder keeps no privacy")
    if step is None:
        width, alpha = best_step(cases, submissions=looks, beta=beta)
    else:
        width = round_up(probability("step", step))
        alpha = ladder_alpha(cases, submissions=looks, beta=beta, step=width)
    theorem = "ladder, transcripts counted (T11)" if rule == "ladder" else "none"
    alpha = alpha if rule == "ladder" else 0.999
    plan = counting_plan(cases, looks=looks, beta=beta, alpha=alpha, method=rule, theorem=theorem)
    return Facts(rule, looks, beta, unseen, private=False, scale=width), plan


def _private_ladder(  # noqa: PLR0913 - the numbers of T10
    cases: int,
    looks: int,
    beta: float,
    *,
    step: Number | None,
    moves: int | None,
    epsilon: Number | None,
    unseen: bool,
) -> tuple[Facts, Plan]:
    most = min(looks, _MOVES) if moves is None else count("moves", moves)
    found = ladder_numbers(cases, looks=looks, moves=most, beta=beta, epsilon=epsilon)
    least = ladder_step(looks, scale=found.scale) if step is None else round_up(probability("step", step))
    theorem = "above threshold and transfer, one beta, by position (S4, T6b)"
    plan = sparse_plan(cases, found, looks=looks, runs=most, beta=beta, method=_KEEPING, theorem=theorem)
    return Facts(_KEEPING, looks, beta, unseen, private=True, moves=most, threshold=least, scale=found.scale), plan
