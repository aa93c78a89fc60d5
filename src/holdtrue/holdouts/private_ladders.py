"""The private ladder: the best score so far, with noise, told anew only when a submission is found above it (T10)."""

from fractions import Fraction

from holdtrue.errors import IntegrityError
from holdtrue.holdouts.questions import Question
from holdtrue.holdouts.scoring import name_of
from holdtrue.holdouts.sparse import Runs
from holdtrue.holdouts.transcripts import BestSoFar
from holdtrue.records import Answer, Certificate, Interval, Response

__all__ = ["PrivateLadder"]


class PrivateLadder:
    """A leaderboard that keeps secrets and tells one number: the leader's score when it took the lead, with noise.

    Every submission is compared with the score told last, not with the leader's own, through above threshold: a submission
    that is not found above it by the step changes nothing and costs nothing more. So what is told is never the best of many
    noisy scores. Guarantee: as :class:`Runs` for privacy, at most ``moves`` runs; with probability 1 - beta every score
    told is within the plan's alpha of its leader's truth, at once, however submissions were chosen (T10, T6b). What is
    shown is the best in the order of the stored responses (:class:`BestSoFar`): it never falls, whatever other processes do.
    """

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self._shown = BestSoFar(runs.transcript)

    def look(self, asked: Question, *, team: str, analyst: str | None = None) -> Answer:
        """Take a submission; return the best score so far, its own if it led."""
        runs = self.runs
        pipeline = runs.pipeline
        pipeline.check_open()
        name = name_of(asked, pipeline)
        step = Fraction(runs.facts.threshold or 0)
        with pipeline.lock:
            pipeline.index.follow()
            self._shown.follow()
            best = self._shown.best
            best = best if best is not None and best.value > 0 else None
            # Nothing told yet: compared with -1, so that whoever comes first leads, but for noise that is never so large.
            least = int((Fraction(best.value) + step) * asked.divisor) if best is not None else -asked.divisor

            def respond(total: int | None, certificate: Certificate) -> Response:
                if total is not None and (best is None or asked.score(total) > best.value):
                    value = asked.score(total)
                    interval = runs.interval(value, width=runs.plan.alpha)
                    return Answer(value, interval, interval, certificate)
                # Also where noise alone brought it here: the run is spent, and who leads still does.
                known = self._everything() if best is None else best.interval or self._everything()
                return Answer(0.0 if best is None else best.value, known, known, certificate)

            found = runs.carry(
                asked,
                verb="submit",
                part=f"submit {name}",
                request={"target": asked.name, "values": name, "team": team},
                excess=lambda total: total - least,
                respond=respond,
                analyst=analyst,
            )
            if not isinstance(found, Answer):
                message = "the ledger has another kind of response to this submission"
                raise IntegrityError(message)
            return self._shown.show(found)

    def led(self) -> list[tuple[str, Answer, bool]]:
        """Return every submission in the order of the responses: whose it was, what was shown, and whether it led."""
        with self.runs.pipeline.lock:
            return [(team, shown, led and shown.value > 0) for team, shown, led in self._shown.all()]

    def _everything(self) -> Interval:
        return Interval(0.0, 1.0, 1 - self.runs.facts.beta, "population")
