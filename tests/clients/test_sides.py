"""A ledger that promises one end of every interval, over HTTP, at a distance and on the page (S6 b)."""

import httpx
import pytest

from clients.running import PEOPLE, people, running
from holdtrue.errors import NotCertified


@pytest.fixture(scope="module")
def least(tmp_path_factory):
    """A service with one dataset whose answers have lower ends only."""
    folder = tmp_path_factory.mktemp("sides")
    people(folder)
    with running(folder / "home") as found:
        found.signed = {"Authorization": f"Bearer {found.key('custodian', 'owner')}"}
        terms = PEOPLE | {"name": "least", "side": "low", "second_budget": True}
        made = httpx.post(f"{found.url}/v1/datasets", json=terms, headers=found.signed, timeout=60)
        assert made.status_code == 201, made.text
        yield found


def test_s6b_a_dataset_is_registered_with_a_side(least):
    found = httpx.get(f"{least.url}/v1/datasets/least", headers=least.signed).json()
    assert found["plan"]["side"] == "low"
    for side in ("middle", None, True):
        wrong = PEOPLE | {"name": "worst", "side": side, "second_budget": True}
        reply = httpx.post(f"{least.url}/v1/datasets", json=wrong, headers=least.signed, timeout=60)
        assert reply.status_code == 422, (side, reply.text)


def test_s6b_answers_at_a_distance_have_the_promised_end(least, tmp_path):
    with least.connect("ann") as remote:
        assert remote.plan.side == remote.preview("smoker").side == "low"
        answer = remote.ask("smoker")
        assert (answer.interval.low, answer.interval.high) == remote.plan.interval(answer.value)
        assert answer.interval.high == 1
        assert answer.certificate.theorem.endswith("lower ends only (S6)")
        for call in (
            lambda: remote.table("region"),
            lambda: remote.mean("age", low=0, high=100),
            lambda: remote.median("age", low=0, high=100),
            lambda: remote.preview_quantile("age", 0.5, low=0, high=100),
        ):
            with pytest.raises(NotCertified, match="promises lower ends only"):
                call()
        remote.report(tmp_path / "report.html")
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "at its lower end; nothing is promised at the other, which is 1." in report
    assert "below an answer, for the population" in report


def test_s6b_plans_over_http_have_a_side(least):
    given = {"rows": 9000, "queries": 50, "side": "high", "compare": True}
    by_body = httpx.post(f"{least.url}/v1/plan", json=given, headers=least.signed).json()
    assert by_body["side"] == "high"
    sides = {line["method"]: line["side"] for line in by_body["comparison"]}
    assert (sides["joint-gaussian"], sides["transfer-laplace"]) == ("high", "both")
    assert "side" not in httpx.get(f"{least.url}/v1/plan?rows=9000&queries=50", headers=least.signed).json()
    for wrong in ("up", ""):
        assert httpx.get(f"{least.url}/v1/plan?rows=9&queries=5&side={wrong}", headers=least.signed).status_code == 422


def test_s6b_the_page_says_the_side(least):
    with httpx.Client(base_url=least.url, headers={"Origin": least.url}, follow_redirects=True) as client:
        client.post("/page/login", data={"key": least.key("visitor")})
        assert "<dt>below each answer</dt><dd>- " in client.get("/").text
        seen = client.post("/page/datasets/least/preview", data={"query": "age > 30"}).text
        assert "a lower end at most <strong>" in seen
        assert "±" not in seen
        assert client.post("/page/datasets/least/ask", data={"query": "age > 31"}).status_code == 200
