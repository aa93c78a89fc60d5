"""Spans for OpenTelemetry: off unless said, and made of public facts only."""

import sys

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

from holdtrue.errors import MissingExtra
from holdtrue.service.http import telemetry
from holdtrue.service.settings import Settings
from service.conftest import CANARY, CANARY_NUMBER, made

KNOWN = {
    "http.request.method",
    "http.route",
    "http.response.status_code",
    "holdtrue.request_id",
    "error.type",
}
ASKED = [
    ("POST", "/v1/datasets/people/ask", {"query": "age > 65 AND smoker"}),
    ("POST", "/v1/datasets/people/ask", {"query": f"income = {CANARY_NUMBER}"}),
    ("POST", "/v1/datasets/people/ask", {"query": "nothing > 1"}),
    ("GET", "/v1/datasets/people", None),
    ("GET", "/v1/datasets/unknown", None),
    ("GET", f"/{CANARY}", None),
    ("GET", "/readyz", None),
]


def _collect_spans(folder, monkeypatch, *, canary):
    """Return the spans of some requests as what they say, without times and random ids."""
    exporter = InMemorySpanExporter()
    monkeypatch.setattr(telemetry, "_make_exporter", lambda: exporter)
    held = made(folder, canary=canary, telemetry=True)
    key = {"Authorization": f"Bearer {held.keys['analyst']}", "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    with TestClient(held.app, raise_server_exceptions=False) as client:
        for number, (method, path, body) in enumerate(ASKED):
            client.request(
                method, path, json=body, headers=key | {"X-Request-ID": f"r{number}", "Idempotency-Key": f"k{number}"}
            )
    return exporter.get_finished_spans()


def _tell_all(spans):
    return [
        (span.name, span.kind, dict(span.attributes), span.events, span.links, span.status.status_code) for span in spans
    ]


def test_spans_hold_public_facts_only(tmp_path, monkeypatch):
    """Tables that differ in one row give the same spans, the canary is in none, and names are templates."""
    with_it, without = (_collect_spans(tmp_path / str(canary), monkeypatch, canary=canary) for canary in (True, False))
    assert len(with_it) == len(ASKED)
    assert _tell_all(with_it) == _tell_all(without)
    for span in with_it:
        told = span.to_json()
        assert CANARY not in told
        assert str(CANARY_NUMBER) not in told
        assert set(span.attributes) <= KNOWN
        assert span.end_time >= span.start_time
        assert span.parent is None
        assert span.context.trace_id != int("a" * 32, 16)
    by_id = {span.attributes["holdtrue.request_id"]: span for span in with_it}
    assert by_id["r0"].name == "POST /v1/datasets/{name}/ask"
    assert by_id["r0"].attributes["http.response.status_code"] == 200
    assert by_id["r2"].attributes["error.type"] == "unknown-column"
    assert by_id["r5"].attributes["http.route"] == "unmatched"
    assert with_it[0].resource.attributes["service.name"] == "holdtrue"


def test_a_span_that_told_the_path_would_be_found(tmp_path, monkeypatch):
    """The control: with the path in place of the template, the canary that a caller put there is in a span."""
    send = telemetry.Spans.send
    monkeypatch.setattr(
        telemetry.Spans, "send", lambda self, scope, **given: send(self, scope, **given | {"route": scope["path"]})
    )
    assert any(CANARY in span.to_json() for span in _collect_spans(tmp_path, monkeypatch, canary=True))


def test_nothing_is_sent_unless_the_settings_say_so(tmp_path, monkeypatch):
    monkeypatch.setattr(telemetry, "Spans", None)  # calling it would raise
    assert Settings(home=tmp_path).telemetry is False
    held = made(tmp_path)
    with TestClient(held.app) as client:
        assert client.get("/readyz").status_code == 200


@pytest.mark.parametrize("missing", ["opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter"])
def test_without_the_extra_it_says_what_to_install(tmp_path, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtra, match=r"holdtrue\[telemetry\]"):
        made(tmp_path, telemetry=True)
