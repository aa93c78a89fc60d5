"""An answer as the ledger stores it and as it leaves, written out once."""

import math
from json.encoder import encode_basestring_ascii as quoted

from holdtrue.events import Event
from holdtrue.events import to_json as event_document
from holdtrue.records import Answer, Certificate, Interval, Response, canonical, to_json

__all__ = ["listed", "text_of"]

_MOST = 1024
# By the number of an object that is kept beside: while it is, no other object has that number.
_TEXTS: dict[int, tuple[Answer, str]] = {}
_EVENTS: dict[int, tuple[Event, str]] = {}


def text_of(response: Response) -> str:
    """Return a response as canonical JSON.

    Law: ``canonical(to_json(response))``, written out field by field for an answer and remembered for a while, since every
    question waits for it twice: once when the answer is stored and once when it leaves. Fails: as ``canonical`` does.
    """
    if type(response) is not Answer:
        return canonical(to_json(response))
    known = _TEXTS.get(id(response))
    if known is None or known[0] is not response:
        known = response, _written(response)
        if len(_TEXTS) >= _MOST:
            _TEXTS.clear()
        _TEXTS[id(response)] = known
    return known[1]


def listed(texts: list[str]) -> str:
    """Return texts as a list in canonical JSON."""
    return f"[{','.join([quoted(text) for text in texts])}]"


_number = float.__repr__


def _written(answer: Answer) -> str:
    proof = answer.certificate
    try:
        certificate = _certificate(proof)
        interval = "null" if answer.interval is None else _interval(answer.interval)
        sample, value = _interval(answer.sample_interval), _number(answer.value)
    except TypeError:  # a whole number where most answers have a real one
        return canonical(to_json(answer))
    # JSON has no word for what is not finite: the encoder refuses it, in its own words.
    if not math.isfinite(answer.value + proof.cost + proof.spent + proof.left + proof.epsilon + proof.delta):
        return canonical(to_json(answer))
    reason = "null" if answer.reason is None else quoted(answer.reason)
    return (
        f'{{"certificate":{certificate},"interval":{interval},"reason":{reason},"record":"answer",'
        f'"repeated":{"true" if answer.repeated else "false"},"sample_interval":{sample},"value":{value}}}'
    )


def _certificate(proof: Certificate) -> str:
    theorem = "null" if proof.theorem is None else quoted(proof.theorem)
    return (
        f'{{"cost":{_number(proof.cost)},"delta":{_number(proof.delta)},"digest":{quoted(proof.digest)},'
        f'"entry":{int.__repr__(proof.entry)},"epsilon":{_number(proof.epsilon)},"event":{_event(proof.event)},'
        f'"left":{_number(proof.left)},"record":"certificate","spent":{_number(proof.spent)},"theorem":{theorem}}}'
    )


def _interval(ends: Interval) -> str:
    return (
        f'{{"confidence":{_number(ends.confidence)},"high":{_number(ends.high)},"low":{_number(ends.low)},'
        f'"record":"interval","target":{quoted(ends.target)}}}'
    )


def _event(event: Event) -> str:
    known = _EVENTS.get(id(event))
    if known is None or known[0] is not event:
        known = event, canonical(event_document(event))
        if len(_EVENTS) >= _MOST:
            _EVENTS.clear()
        _EVENTS[id(event)] = known
    return known[1]
