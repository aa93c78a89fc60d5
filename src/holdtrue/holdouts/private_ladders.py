"""The private ladder: the best score so far, with noise, told anew only when a submission is found above it (T10)."""

from fractions import Fraction

from msgspec.structs import replace

from holdtrue.curator.pipeline import Pipeline
from holdtrue.holdouts.cases import Cases
from holdtrue.holdouts.ladders import BEST
from holdtrue.holdouts.mode import Moment, PlannedLook, Submission
from holdtrue.holdouts.opening import Facts
from holdtrue.holdouts.records import Score
from holdtrue.holdouts.sparse import Runs
from holdtrue.holdouts.transcripts import BestSoFar
from holdtrue.ledgers import Entry
from holdtrue.planning.plans import Plan
from holdtrue.records import Answer, Certificate, Interval, Response

__all__ = ["PrivateLadder"]


class PrivateLadder(Runs[Score]):
    """A leaderboard that keeps secrets and tells one number: the leader's score when it took the lead, with noise.

    Every submission is compared with the score told last, not with the leader's own, through above threshold: a submission
    that is not found above it by the step changes nothing and costs nothing more. So what is told is never the best of many
    noisy scores. Guarantee: as :class:`Runs` for privacy, at most ``moves`` runs; with probability 1 - beta every score
    told is within the plan's alpha of its leader's truth, at once, however submissions were chosen (T10, T6b). What is
    shown is the best in the order of the stored responses (:class:`BestSoFar`): it never falls, whatever other processes do.
    """

    def __init__(self, cases: Cases, facts: Facts, plan: Plan, pipeline: Pipeline) -> None:
        super().__init__(cases, facts, plan, pipeline)
        self._shown = BestSoFar(self.transcript)

    def plan_look(self, given: Submission, known: Entry | None) -> PlannedLook:
        """Return the release of the score that leads from now on, or of the one that still does."""
        self.await_answer(known)
        asked, step = given.asked, Fraction(self.facts.threshold or 0)
        self._shown.follow()
        best = self._shown.best
        best = best if best is not None and best.value > 0 else None
        # Nothing told yet: compared with -1, so that whoever comes first leads, but for noise that is never so large.
        least = int((Fraction(best.value) + step) * asked.divisor) if best is not None else -asked.divisor

        def respond(total: int | None, certificate: Certificate) -> Response:
            if total is not None and (best is None or asked.score(total) > best.value):
                value = asked.score(total)
                interval = self.interval(value, width=self.plan.alpha)
                return Answer(value, interval, interval, certificate)
            # Also where noise alone brought it here: the run is spent, and who leads still does.
            known = self._everything() if best is None else best.interval or self._everything()
            return Answer(0.0 if best is None else best.value, known, known, certificate)

        return self.plan_in_run(
            given,
            verb="submit",
            part=f"submit {given.name}",
            request={"target": asked.name, "values": given.name, "team": given.team},
            excess=lambda total: total - least,
            respond=respond,
        )

    def answer(self, given: Submission, found: Response, moment: Moment) -> Score:
        """Return the best score so far, as it was when this look was answered."""
        score = replace(self.score(given, self._shown.show(found), moment), metric=BEST)
        return score if self.left_at(moment, under_way=True) else replace(score, looks_left=0)

    def list_submissions(self) -> list[tuple[str, Answer, bool]]:
        """Return every submission in the order of the responses: whose it was, what was shown, and whether it led."""
        with self.pipeline.lock:
            return [(team, shown, led and shown.value > 0) for team, shown, led in self._shown.all()]

    def _everything(self) -> Interval:
        return Interval(0.0, 1.0, 1 - self.facts.beta, "population")
