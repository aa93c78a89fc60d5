"""Records in, HTML out: a report that anyone can open, of what was promised, asked, answered and spent.

A report is one file without scripts and without a reference to anything outside it. It holds what the ledger already let
out and nothing else, so whoever may see the answers may see the report.
"""
# ruff: noqa: D102 - the fields of a protocol are described by its class

import html
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol

from holdtrue.records import Answer, Choice, Hypothesis, Interval, Prediction, Response

__all__ = ["STYLE", "Accounted", "Charged", "Planned", "html_report", "promise", "questions_of", "safe", "tile"]

_PARTS = re.compile(r"""((?:'[^']*'|"[^"]*"|[^;'"])+)(?:; |$)""")


class Planned(Protocol):
    """What a report says of a plan."""

    @property
    def rows(self) -> int: ...
    @property
    def queries(self) -> int: ...
    @property
    def alpha(self) -> float: ...
    @property
    def beta(self) -> float: ...
    @property
    def epsilon(self) -> float | None: ...
    @property
    def delta(self) -> float | None: ...
    @property
    def iid(self) -> bool: ...
    @property
    def sample_alpha(self) -> float: ...
    @property
    def extent(self) -> str: ...
    def lines(self) -> list[tuple[str, str]]: ...


class Accounted(Protocol):
    """What a report says of a budget."""

    @property
    def unit(self) -> str: ...
    @property
    def cap(self) -> float: ...
    @property
    def spent(self) -> float: ...
    @property
    def left(self) -> float: ...
    @property
    def asks(self) -> int: ...
    @property
    def reserve(self) -> float: ...


class Charged(Protocol):
    """One charge of the history and what came back."""

    @property
    def entry(self) -> int: ...
    @property
    def time(self) -> datetime: ...
    @property
    def analyst(self) -> str: ...
    @property
    def verb(self) -> str: ...
    @property
    def request(self) -> str: ...
    @property
    def cost(self) -> float: ...
    @property
    def digest(self) -> str: ...
    @property
    def responses(self) -> tuple[Response, ...]: ...


def promise(plan: Planned) -> str:
    """Return in one paragraph what holds for everything that the ledger lets out."""
    sure = f"{1 - plan.beta:.4g}"
    if plan.iid:
        valid = (
            f"The {plan.rows:,} rows were declared independent draws from one population. Then, with probability at least "
            f"{sure}, every interval for the population holds the true value there, for {plan.extent} "
            "at once, however each question was chosen after seeing the answers before it. For a question about the "
            f"columns an interval reaches at most {plan.alpha:.4g} from the answer."
        )
    else:
        valid = (
            f"With probability at least {sure}, every answer lies within {plan.sample_alpha:.4g} of the value over these "
            f"{plan.rows:,} rows, {plan.extent} at once. The rows were not declared independent "
            "draws from a population, so nothing is said about any population."
        )
    slack = f", but for a slack of {plan.delta:.3g}" if plan.delta else ""
    private = (
        " And whatever is asked, by whomever: changing any one row changes the probability of all that can ever be seen by "
        f"a factor of at most exp({plan.epsilon:.4g}){slack} (differential privacy)."
        if plan.epsilon is not None
        else ""
    )
    return valid + private


def html_report(  # noqa: PLR0913 - the sections of a page
    *,
    title: str,
    plan: Planned,
    budget: Accounted,
    history: Sequence[Charged],
    receipt: tuple[int, str],
    columns: Sequence[tuple[str, str]] = (),
    whole: bool = True,
) -> str:
    """Return a report as one HTML page. Everything that people wrote is escaped; nothing in it is fetched or run.

    ``receipt`` is the newest entry's number and digest; ``columns`` the names and types of the card, to be listed.
    ``whole=False`` says that older charges than those of ``history`` were left out.
    """
    share = min(1.0, budget.spent / budget.cap) if budget.cap else 1.0
    lines = plan.lines()
    answers = any(isinstance(response, Answer) for line in history for response in line.responses)
    within = plan.alpha if plan.iid else plan.sample_alpha
    tiles = (
        tile(f"{budget.asks:,}", f"of {plan.queries:,} questions left"),
        tile(f"± {within:.3g}", "around an answer, for the " + ("population" if plan.iid else "rows held")),
        tile(f"{share:.1%}", "of the budget spent" + (f", by {_charges(history)}" if whole else "")),
        tile("none" if plan.epsilon is None else f"ε {plan.epsilon:.3g}", _slack(plan.delta)),
    )
    return "".join(
        (
            "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>",
            "<meta name='viewport' content='width=device-width, initial-scale=1'>",
            f"<title>{safe(title)}</title><style>{STYLE}</style></head><body><main>",
            f"<header><p class='kind'>Holdtrue report</p><h1>{safe(title)}</h1>",
            f"<p class='promise'>{safe(promise(plan))}</p></header>",
            f"<section class='tiles'>{''.join(tiles)}</section>",
            _budget(budget, share),
            "<h2>Questions and answers</h2>",
            "" if whole else f"<p>{_charges(history)} of the history; others are left out here.</p>",
            f"{_history(history, drawn=answers, population=plan.iid, unit=budget.unit)}",
            f"<div class='pair'><section><h2>Plan</h2>{_pairs(lines)}</section>",
            f"<section><h2>Columns</h2>{_pairs(columns)}</section></div>" if columns else "</div>",
            _receipt(receipt),
            "</main></body></html>\n",
        )
    )


def safe(text: object) -> str:
    """Return text for HTML: escaped, with every sign that cannot be seen written out."""
    shown = "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in str(text))
    return html.escape(shown, quote=True)


def _charges(history: Sequence[Charged]) -> str:
    return f"{len(history):,} charge{'s' * (len(history) != 1)}"


def _slack(delta: float | None) -> str:
    return f"privacy of everything, δ {delta:.3g}" if delta else "privacy of everything"


def tile(value: str, label: str) -> str:
    """Return a large value with a few words under it."""
    return f"<div class='tile'><b>{safe(value)}</b><span>{safe(label)}</span></div>"


def _pairs(lines: Iterable[tuple[str, str]]) -> str:
    cells = "".join(f"<tr><th>{safe(name)}</th><td>{safe(value)}</td></tr>" for name, value in lines)
    return f"<table class='pairs'>{cells}</table>"


def _budget(budget: Accounted, share: float) -> str:
    words = (
        f"{budget.spent:.4g} of {budget.cap:.4g} {budget.unit} spent, {budget.left:.4g} left, "
        f"{budget.reserve:.3g} of it for other requests than questions"
    )
    return (
        f"<div class='budget'><svg viewBox='0 0 100 2' preserveAspectRatio='none' role='img' aria-label='{safe(words)}'>"
        f"<rect class='track' width='100' height='2'/><rect class='spent' width='{100 * share:.3f}' height='2'/></svg>"
        f"<p>{safe(words)}</p></div>"
    )


def _history(history: Sequence[Charged], *, drawn: bool, population: bool, unit: str) -> str:
    if not history:
        return "<p class='none'>Nothing was asked yet.</p>"
    scale = "<span class='scale'><i>0</i><i>½</i><i>1</i></span>" if drawn else ""
    heads = ("entry", "question", "answer", scale, "when, by whom", f"cost in {safe(unit)}", "receipt")
    body = "".join(_charge(line) for line in history)
    head = "".join(f"<th>{name}</th>" for name in heads)
    legend = _legend(population=population) if drawn else ""
    return f"<table class='history'><thead><tr>{head}</tr></thead>{body}</table>{legend}"


def _legend(*, population: bool) -> str:
    wide, words = (Interval(0.1, 0.9, 1, "population"), ", the wide one for the population") if population else (None, "")
    bar = _bar(0.5, wide, Interval(0.3, 0.7, 1, "sample"))
    return f"<p class='legend'>{bar} the answer, {'the narrow' if population else 'the'} interval for these rows{words}</p>"


def _charge(line: Charged) -> str:
    questions = questions_of(line)
    rows = max(1, len(line.responses))
    shared = (
        f"<td rowspan='{rows}' class='who'>{line.time:%Y-%m-%d %H:%M}<br>{safe(line.analyst)}</td>"
        f"<td rowspan='{rows}' class='number'>{line.cost:.3g}</td>"
        f"<td rowspan='{rows}' class='digest'><span>{line.entry}:{safe(line.digest)}</span></td>"
    )
    entry = f"<td rowspan='{rows}' class='number'>{line.entry}</td>"
    told = [_response(response) for response in line.responses] or [
        "<td class='none' colspan='2'>charged, not answered</td>"
    ]
    asked = [f"<td class='question' rowspan='{rows // len(questions)}'>{safe(question)}</td>" for question in questions]
    asked += [""] * (rows - len(asked))
    first, *others = (question + said for question, said in zip(asked, told, strict=True))
    more = "".join(f"<tr>{cells}</tr>" for cells in others)
    return f"<tbody><tr>{entry}{first}{shared}</tr>{more}</tbody>"


def questions_of(line: Charged) -> list[str]:
    """Return a question for each response: the parts of the request where they are as many, else all of it for all."""
    asked = _PARTS.findall(line.request)
    return asked if line.verb == "ask" and len(asked) == max(1, len(line.responses)) else [line.request]


def _response(response: Response) -> str:
    match response:
        case Answer(value=value, interval=interval, sample_interval=sample):
            ends = interval or sample
            said = f"<b>{value:.4g}</b><br><small>{ends.low:.4g} to {ends.high:.4g}</small>"
            return f"<td class='answer'>{said}</td><td class='bar'>{_bar(value, interval, sample)}</td>"
        case Choice(name=name, shortfall=shortfall):
            said = f"<b>{safe(name)}</b> <small>at most {shortfall:.4g} rows behind the best</small>"
            return f"<td class='answer' colspan='2'>{said}</td>"
        case Hypothesis(text=text, behind=behind):
            return f"<td class='answer' colspan='2'><b>{safe(text)}</b> <small>{safe(behind)}</small></td>"
        case Prediction(label=label):
            return f"<td class='answer' colspan='2'><b>{safe(label)}</b></td>"


def _bar(value: float, population: Interval | None, sample: Interval) -> str:
    """Draw a value and its intervals on a scale from 0 to 1."""
    ends = population or sample
    told = f"{value:.4g}, {ends.target} {ends.low:.4g} to {ends.high:.4g}"
    wide = "" if population is None else _band("population", population)
    mark = f"<rect class='value' x='{200 * value - 1:.2f}' y='1' width='2' height='16' rx='1'/>"
    return (
        f"<svg viewBox='-2 0 204 18' role='img' aria-label='{told}'>"
        f"<rect class='track' y='8' width='200' height='2' rx='1'/>{wide}{_band('sample', sample)}{mark}</svg>"
    )


def _band(name: str, ends: Interval) -> str:
    low, high = max(0.0, ends.low), min(1.0, ends.high)
    return f"<rect class='{name}' x='{200 * low:.2f}' y='4' width='{max(1.0, 200 * (high - low)):.2f}' height='10' rx='2'/>"


def _receipt(receipt: tuple[int, str]) -> str:
    number, digest = receipt
    return (
        "<footer><h2>Receipt</h2><p>Keep this line away from the ledger. Whoever has it can tell whether anything up to "
        f"this entry was changed since:</p><pre>holdtrue verify LEDGER --receipt {number}:{safe(digest)}</pre></footer>"
    )


STYLE = """
:root{--ink:#1c2430;--soft:#5c6778;--line:#e2e6ec;--page:#f6f7f9;--card:#fff;--deep:#1f6f68;--mid:#5fb0a6;--pale:#c9e6e1}
@media (prefers-color-scheme:dark){:root{--ink:#e8ecf1;--soft:#9aa6b6;--line:#2c3542;--page:#12161c;--card:#1a2028;
--deep:#a5e3d8;--mid:#4f9d93;--pale:#26504b}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1040px;margin:0 auto;padding:40px 28px 64px}
h1{font-size:30px;line-height:1.2;margin:2px 0 14px;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:17px;margin:36px 0 10px}
.kind{margin:0;color:var(--deep);font-weight:600;font-size:13px;letter-spacing:.06em;text-transform:uppercase}
.promise{max-width:76ch;margin:0;color:var(--ink);font-size:16px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(200px,1fr));gap:14px;margin:26px 0 18px}
.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 16px}
.tile b{display:block;font-size:24px;line-height:1.25;font-variant-numeric:tabular-nums}
.tile span,.budget p,.legend,.none,small{color:var(--soft);font-size:13px}
.budget svg{display:block;width:100%;height:10px;border-radius:5px}.budget p{margin:6px 0 0}
svg .track{fill:var(--line)}svg .spent,svg .value{fill:var(--deep)}svg .sample{fill:var(--mid)}
svg .population{fill:var(--pale)}
table{border-collapse:collapse;width:100%}th{text-align:left;font-weight:600}
.history{background:var(--card);border:1px solid var(--line);border-radius:10px;border-spacing:0;border-collapse:separate}
.history th{color:var(--soft);font-size:12px;padding:10px 12px;vertical-align:bottom}
.history td{padding:9px 12px;vertical-align:top;border-top:1px solid var(--line)}
.history tr+tr td{border-top-style:dashed}
.question{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere;min-width:180px}
.answer{white-space:nowrap;font-variant-numeric:tabular-nums}.answer[colspan] small{white-space:normal}
.bar{width:226px;padding-top:12px!important}.bar svg,.scale{display:block;width:204px}.bar svg{height:18px}
.scale{display:flex;justify-content:space-between}.scale i{font-style:normal}
.who,.number,.digest{font-size:13px;color:var(--soft);white-space:nowrap;font-variant-numeric:tabular-nums}
.digest,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}.digest{font-size:12px}
.digest span{display:block;width:13ch;overflow:hidden;text-overflow:ellipsis}
.legend{display:flex;align-items:center;gap:8px;margin:10px 2px}.legend svg{width:136px;height:12px;flex:none}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(340px,1fr));gap:0 32px}
.pairs th,.pairs td{padding:6px 0;border-top:1px solid var(--line);vertical-align:top;font-size:14px}
.pairs th{color:var(--soft);font-weight:500;padding-right:18px;width:1%;white-space:nowrap}.pairs td{overflow-wrap:anywhere}
footer p{margin:0 0 8px;max-width:76ch}pre{background:var(--card);border:1px solid var(--line);border-radius:8px;
padding:12px 14px;margin:0;font-size:12px;white-space:pre-wrap;overflow-wrap:anywhere}
@media (max-width:1040px){.history{display:block;overflow-x:auto}}
@media (max-width:720px){main{padding:24px 16px}}
@media print{body{background:#fff}main{max-width:none;padding:0}tbody,.tile{break-inside:avoid}}
"""
