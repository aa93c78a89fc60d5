"""What the page keeps to whoever asks: sessions, empty budgets, its files, its policy, its contrast. No browser needed."""

import io
import json
import logging
import re
import time
from html.parser import HTMLParser

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import holdtrue as ht
from holdtrue.service.http import telemetry
from holdtrue.service.page import rendering
from holdtrue.service.page.access import home_address
from holdtrue.service.page.rendering import file_address


def test_without_a_session_the_page_asks_for_a_key(served):
    """The same page where it is no demonstration: nobody is let in, whatever the application was told besides."""
    served.app.state.demo_visitor = served.service.keyring.list()[0].prefix
    with httpx.Client(base_url=served.url) as client:
        reply = client.get("/datasets/people?query=age")
        assert (reply.status_code, reply.headers["location"]) == (303, "/login?next=/datasets/people%3Fquery%3Dage")
        assert client.get("/", headers={"HX-Request": "true"}).headers["hx-redirect"] == "/login"
        origin = {"Origin": served.url}
        wrong = client.post("/page/login", data={"key": "ht_no", "next": "/"}, headers=origin)
        assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
        right = client.post("/page/login", data={"key": served.keys["auditor"], "next": "/history"}, headers=origin)
        assert (right.status_code, right.headers["location"]) == (303, "/history")
        assert "HttpOnly" in right.headers["set-cookie"]
        assert "SameSite=strict" in right.headers["set-cookie"]
        assert "the auditor" in client.get("/").text
        refused = client.post("/page/datasets/people/ask", data={"query": "age > 3"}, headers=origin)
        assert refused.status_code == 403
        assert client.get("/datasets/people/ledger").content[:15] == b"SQLite format 3"
        assert b"Holdtrue report" in client.get("/datasets/people/report").content
        assert client.get("/v1/me").status_code == 401
        client.post("/page/logout", headers=origin)
        assert client.get("/").status_code == 303


def test_a_wrong_address_is_told_to_people_as_a_page_and_to_programs_as_a_problem(served):
    people = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    shown = httpx.get(f"{served.url}/<script>", headers=people)
    assert (shown.status_code, shown.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "There is no page at this address." in shown.text
    assert "style-src 'self'" in shown.headers["content-security-policy"]  # it looks like the other pages
    assert "<script>" not in shown.text.partition("<main")[2]
    for path, headers in (("/nowhere", {}), ("/v1/nowhere", people), ("/static/nowhere", people)):
        told = httpx.get(f"{served.url}{path}", headers=headers)
        assert (told.status_code, told.headers["content-type"]) == (404, "application/problem+json")


def test_an_empty_budget_is_told_before_and_after_asking(served):
    small = {"path": "people.parquet", "queries": 1, "iid": True, "bounds": {"age": [0, 100]}}
    served.service.registry.register("small", small | {"second_budget": True})
    with httpx.Client(base_url=served.url, headers={"Origin": served.url}, follow_redirects=True) as client:
        client.post("/page/login", data={"key": served.keys["analyst"]})
        assert "Costs <strong>1 question" in client.post("/page/datasets/small/preview", data={"query": "age > 3"}).text
        assert client.post("/page/datasets/small/ask", data={"query": "age > 3"}).status_code == 200
        assert "Costs nothing" in client.post("/page/datasets/small/preview", data={"query": "age > 3"}).text
        assert "too small" in client.post("/page/datasets/small/preview", data={"query": "age > 4"}).text
        refused = client.post("/page/datasets/small/ask", data={"query": "age > 4"}, headers={"HX-Request": "true"})
        assert refused.status_code == 429
        assert "Nothing was spent" in refused.text
        assert "<b>0</b> of 1 questions left" in client.get("/datasets/small").text


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("age", "by its bounds age is from 0 to 100; mean(age) answers in its own units."),
        ("age / 100", "The mean of a number; values below 0 count as 0, above 1 as 1."),
        ("age > 30", None),
    ],
)
def test_a_number_that_would_be_cut_off_is_told_before_asking(served, query, told):
    with httpx.Client(base_url=served.url, headers={"Origin": served.url}, follow_redirects=True) as client:
        client.post("/page/login", data={"key": served.keys["analyst"]})
        seen = client.post("/page/datasets/people/preview", data={"query": query}).text
    assert ("Costs" in seen) is (query != "age")
    assert ("above 1 as 1" in seen) is (query == "age / 100")
    assert told is None or told in seen


TABLE = {"by": "age", "by_points": "30, 60"}
MEAN = {"column": "age"}
MEDIAN = {"column": "age"}
STATISTICS = [
    ("variance", {"column": "age"}),
    ("covariance", {"first": "age", "second": "income"}),
    ("correlation", {"first": "income", "second": "age", "second_low": "1"}),
    ("gini", {"column": "age"}),
    ("r-squared", {"prediction": "income", "target": "age"}),
    ("auc", {"score": "age", "label": "smoker"}),
    ("pairs", {"kernel": "abs(a.age - b.age)", "high": "100"}),
]


@pytest.fixture
def analyst(served):
    with httpx.Client(base_url=served.url, headers={"Origin": served.url}, follow_redirects=True, timeout=60) as client:
        client.post("/page/login", data={"key": served.keys["analyst"]})
        yield client


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("table", TABLE),
        ("mean", MEAN),
        ("quantile", MEDIAN),
        ("sum", MEAN | {"low": "7", "population": "9000"}),
        *STATISTICS,
    ],
)
def test_a_summary_is_priced_for_nothing_and_one_form_is_charged_once(served, analyst, kind, form):
    curator = served.service.registry.open_dataset("people").curator
    before = curator.budget.spent
    for headers in ({}, {"HX-Request": "true"}):
        seen = analyst.post(f"/page/datasets/people/preview-{kind}", data=form, headers=headers)
        assert (seen.status_code, "Costs" in seen.text) == (200, True)
    assert curator.budget.spent == before
    sent = form | {"form": "one"}
    pages = [analyst.post(f"/page/datasets/people/{kind}", data=sent, headers={"HX-Request": "true"}) for _ in range(3)]
    assert [page.status_code for page in pages] == [200] * 3
    paid = curator.budget.spent
    assert paid > before
    again = analyst.post(f"/page/datasets/people/{kind}", data=form | {"form": "two"})
    assert "Asked before: free." in again.text
    assert curator.budget.spent == paid
    assert inline(again.text) == []
    said = again.text.partition('id="said"')[2].partition("</article>")[0]
    assert "the truth" not in said.lower()
    assert "&#34;truth&#34;:null" in said


@pytest.mark.parametrize(
    ("kind", "form", "told"),
    [
        ("table", {"by": ""}, "Choose a column"),
        ("table", {"by": "aeg"}, "did you mean 'age'"),
        ("table", {"by": "age", "by_points": "60, 30"}, "increasing"),
        ("table", {"by": "age", "by_points": "a few"}, "points are numbers such as 10, 20.5"),
        ("table", {"by": "age", "by_points": "nan"}, "points are numbers such as 10, 20.5"),
        ("table", {"by": "age", "second": "age"}, "different columns"),
        ("table", {"by": "age", "by_points": " ".join(map(str, range(90))), "where": "age >"}, "ends too early"),
        ("mean", {"column": "age", "low": "9", "high": "3"}, "below high"),
        ("mean", {"column": "age", "low": "1, 2"}, "one number"),
        ("mean", {"column": "age", "where": "age / 100"}, "yes-or-no"),
        ("quantile", {"column": "age", "levels": "1.5"}, "1"),
        ("table", {"by": "age", "by_points": " ".join(map(str, range(100))), "second": "smoker"}, "at most 100 cells"),
        ("quantile", {"column": "age", "step": "0.01", "curve": "yes"}, "at most 4,096 points; take a larger step"),
        ("quantile", {"column": "age", "step": "-1"}, "Step must be"),
        ("sum", {"column": "age", "population": "1.5"}, "whole number"),
        ("table", TABLE | {"questions": "1"}, "2 or more for each table"),
        ("table", TABLE | {"questions": "2.5"}, "whole number"),
        ("mean", MEAN | {"questions": "1e9"}, "at most 10,000"),
        ("sum", MEAN | {"questions": "some"}, "are numbers such as"),
        ("table", TABLE | {"rollups": "below 30"}, "labels of the table: below 30, 30 to 60, 60 and above"),
        ("table", TABLE | {"rollups": "below 30, 30 to 60, 30 to 60"}, "two or more different labels"),
        ("table", TABLE | {"second": "smoker", "rollups": "below 30, 30 to 60"}, "margins are for several columns"),
        ("table", {"by": "smoker", "rollups": "True, no"}, "two or more different labels of the table: True, False"),
        ("variance", {"column": "note"}, "low and high: the card has no bounds"),
        ("covariance", {"first": "age", "second": "age", "second_low": "x"}, "econd low are numbers"),
        ("gini", {"column": "age", "low": "-1"}, "Low must be"),
        ("auc", {"score": "age", "label": ""}, "Label must be"),
        ("pairs", {"kernel": "a.age -"}, "ends too early"),
    ],
)
def test_a_mistake_in_a_summary_is_told_before_and_costs_nothing(served, analyst, kind, form, told):
    curator = served.service.registry.open_dataset("people").curator
    before = curator.budget.spent
    seen = analyst.post(f"/page/datasets/people/preview-{kind}", data=form, headers={"HX-Request": "true"})
    assert told in re.sub("&#3[49];", "'", seen.text)
    assert "Costs" not in seen.text
    refused = analyst.post(f"/page/datasets/people/{kind}", data=form | {"form": "1"}, headers={"HX-Request": "true"})
    assert 400 <= refused.status_code < 500
    assert "Nothing was spent" in refused.text
    assert curator.budget.spent == before


def test_medians_of_dates_are_asked_and_seen_as_dates(served, analyst):
    days = np.datetime64("2026-01-01") + np.arange(4000) % 365
    pq.write_table(pa.table({"day": days, "at": days.astype("M8[us]")}), served.folder / "admissions.parquet")
    served.service.registry.register("admissions", {"path": "admissions.parquet", "queries": 100, "iid": True})
    curator, place = served.service.registry.open_dataset("admissions").curator, "/page/datasets/admissions"
    form, shown = {"column": "day", "low": "2026-01-01", "high": "2027-01-01"}, {"HX-Request": "true"}
    wrong = [
        ("low", "", "give low, a date such as 2026-01-31"),
        ("high", "", "give high, a date such as 2026-01-31"),
        ("low", "2026-02-30", "low must be a date"),
        ("high", "2025-01-01", "low must be below high"),
        ("low", HOSTILE, "low must be a date"),
        ("step", "0.5", "whole number of days"),
        ("step", "week", "step are numbers"),
    ]
    for field, text, told in wrong:
        for path in ("preview-quantile", "quantile"):
            seen = analyst.post(f"{place}/{path}", data=form | {field: text, "form": f"{field} {text}"}, headers=shown)
            assert told in seen.text.lower()
            assert HOSTILE not in seen.text
        assert (seen.status_code, f'data-field="{"low" if "below" in told else field}"' in seen.text) == (422, True)
    assert curator.budget.spent == 0
    assert "366 points" in analyst.post(f"{place}/preview-quantile", data=form, headers=shown).text
    said = analyst.post(f"{place}/quantile", data=form | {"form": "1"}).text
    found = curator.median("day", low="2026-01-01", high="2027-01-01")
    assert found.repeated
    assert f"<output>{found.value}</output>" in said
    assert f'<b class="number">{found.interval.low}</b> and <b class="number">{found.interval.high}</b>' in said
    assert f"level%2Cvalue%2Clow%2Chigh%0D%0A0.5%2C{found.value}%2C{found.interval.low}%2C" in said
    assert 'data-dates="yes"' in said
    whole = {"column": "at", "step": "0.5", "levels": "0.1, 0.5", "curve": "yes", "form": "2"}
    said = analyst.post(f"{place}/quantile", data=form | whole, headers=shown).text
    curve = curator.quantile("at", [0.1, 0.5], low="2026-01-01", high="2027-01-01", step=0.5, method="curve")
    assert curve.repeated
    assert str(curve[1].value) in said
    assert "the distribution" in said.lower()


@pytest.mark.parametrize(
    ("kind", "form"),
    [("table", TABLE | {"by_points": "21, 77"}), ("mean", MEAN | {"high": "77"}), ("sum", MEAN | {"high": "78"})],
)
def test_a_price_of_ones_own_is_charged_and_its_width_said_before(served, analyst, kind, form):
    curator = served.service.registry.open_dataset("people").curator
    left, wide = curator.budget.asks, []
    for paid in (12, 3):
        seen = analyst.post(f"/page/datasets/people/preview-{kind}", data=form | {"questions": str(paid)}).text
        assert f"<strong>{paid} questions</strong>" in seen
        wide += [float(found) for found in re.findall(r"at most <strong>± ([\d.]+)", seen)]
        assert f"Cost {paid} questions." in send_form(analyst, kind, form | {"questions": str(paid)}).text
        left -= paid
        assert curator.budget.asks == left
    if kind == "table":
        assert wide[0] < wide[1]
        found = curator.table(ht.cut("age", [21, 77]), questions=12)
        assert all(each.interval.width / 2 <= wide[0] + 0.0005 for each in found)
        assert found.repeated


def test_sums_of_labels_are_declared_on_the_page(served, analyst):
    curator = served.service.registry.open_dataset("people").curator
    form = TABLE | {"rollups": "below 30, 30 to 60\r\n\r\n30 to 60,60 and above\r\n"}
    said = send_form(analyst, "table", form).text
    table = curator.table(ht.cut("age", [30, 60]), rollups=[["below 30", "30 to 60"], ["30 to 60", "60 and above"]])
    assert table.repeated
    for labels in (("below 30", "30 to 60"), ("30 to 60", "60 and above")):
        row = re.search(rf"<td>{re.escape(' + '.join(labels))}</td>(.*?)</tr>", said)[1]
        told = table.union(*labels)
        numbers = [f"{each:.3f}" for each in (told.value, told.interval.low, told.interval.high)]
        assert re.findall(r"<td class=\"number\">(?:<b>)?([\d.]+)", row) == numbers
    assert "below%2030%20%2B%2030%20to%2060" in said  # in the file to export
    assert "Asked before: free." in send_form(analyst, "table", form | {"form": "two"}).text


def test_dates_are_cut_on_the_page_and_groups_are_compared(served, analyst):
    days = np.datetime64("2026-01-01") + np.arange(4000) % 365
    rows = pa.table({"day": days, "at": days.astype("M8[us]"), "ward": np.arange(4000) % 3, "cost": np.arange(4000) % 100})
    pq.write_table(rows, served.folder / "stays.parquet")
    given = {
        "path": "stays.parquet",
        "queries": 100,
        "iid": True,
        "bounds": {"cost": [0, 100]},
        "labels": {"ward": [0, 1, 2]},
    }
    served.service.registry.register("stays", given)
    curator, place = served.service.registry.open_dataset("stays").curator, "/page/datasets/stays"
    wrong = [
        ("2026-02-30", "dates of the calendar"),
        ("", "Give the dates to cut day at"),
        ("2026-05-01, 2026-02-01", "increasing"),
    ]
    for points, told in wrong:
        form = {"by": "day", "by_points": points, "form": points or "none"}
        seen = analyst.post(f"{place}/table", data=form, headers={"HX-Request": "true"})
        assert 400 <= seen.status_code < 500
        assert told in seen.text
    assert curator.budget.spent == 0
    by_day = {"by": "day", "by_points": "2026-04-01; 2026-07-01", "second": "at", "second_points": "2026-05-01 10:30"}
    assert "Costs" in analyst.post(f"{place}/preview-table", data=by_day, headers={"HX-Request": "true"}).text
    said = analyst.post(f"{place}/table", data=by_day | {"form": "1"}).text
    for words in ("before 2026-04-01", "2026-04-01 to 2026-07-01", "2026-05-01 10:30:00 and after"):
        assert words in said
    said = analyst.post(f"{place}/mean", data={"column": "cost", "by": "ward", "form": "2"}).text
    told = curator.mean("cost", by="ward").difference(0, 2)
    row = re.search(r"<td>0 and 2</td>(.*?)</tr>", said)[1]
    numbers = re.findall(r"<td class=\"number\">([^<]*)", row)
    assert numbers[:3] == [f"{each:,.1f}" for each in (told.value, told.low, told.high)]
    assert numbers[5] == "open" or float(numbers[4]) <= 1.02 <= float(numbers[5])
    assert "Differences and ratios" not in analyst.post(f"{place}/mean", data={"column": "cost", "form": "3"}).text


def test_summaries_of_rows_that_are_not_independent_say_so(served, analyst):
    plain = {"path": "people.parquet", "epsilon": 2.0, "delta": 1e-6, "queries": 50, "bounds": {"age": [0, 100]}}
    served.service.registry.register("loose", plain | {"iid": False, "second_budget": True})
    for kind, form in (("table", TABLE), ("mean", MEAN), ("quantile", MEDIAN | {"curve": "yes"})):
        said = analyst.post(f"/page/datasets/loose/{kind}", data=form | {"form": "1"}).text
        assert "No interval for the population" in said, kind
        assert "where the population is" not in said.partition('id="said"')[2].partition("</article>")[0]


def test_an_auditor_sees_no_form_and_asks_nothing(served):
    with httpx.Client(base_url=served.url, headers={"Origin": served.url}, follow_redirects=True) as client:
        client.post("/page/login", data={"key": served.keys["auditor"]})
        assert 'id="kind-table"' not in client.get("/datasets/people").text
        for kind, form in (("table", TABLE), ("mean", MEAN), ("quantile", MEDIAN)):
            assert client.post(f"/page/datasets/people/{kind}", data=form).status_code == 403


def test_an_analyst_sees_an_allowance_and_the_owner_sees_all_of_them_with_their_ends(served):
    with httpx.Client(base_url=served.url, headers={"Origin": served.url}, follow_redirects=True, timeout=60) as client:
        client.post("/page/login", data={"key": served.keys["owner"]})
        wrong = client.post(
            "/page/keys", data={"name": "eva", "role": "analyst", "days": "0"}, headers={"HX-Request": "true"}
        )
        assert (wrong.status_code, 'data-field="days"' in wrong.text) == (422, True)
        given = {"name": "eva", "role": "analyst", "allowance-people": "2", "days": "9"}
        made = client.post("/page/keys", data=given, headers={"HX-Request": "true"}).text
        assert "people: 2 of 2 left" in made
        assert "More is allowed than is left" not in made
        client.post("/page/login", data={"key": re.search(r"ht_[a-z2-7]{8}_[A-Za-z0-9_-]{43}", made)[0]})
        assert "Your allowance: <b>2</b> of 2 questions left" in client.get("/datasets/people").text
        told = client.post("/page/datasets/people/ask", data={"query": "age > 31", "form": "1"}).text
        assert "Your allowance: <b>1</b> of 2 questions left" in told


def test_holdouts_show_their_looks_and_leaderboards_their_standings(served):
    labels = [number % 2 for number in range(4000)]
    owner = {"Authorization": f"Bearer {served.keys['owner']}", "Idempotency-Key": "one"}
    with httpx.Client(base_url=served.url, headers={"Origin": served.url}, follow_redirects=True, timeout=60) as client:
        for body in ({"name": "exam", "looks": 50}, {"name": "race", "kind": "leaderboard", "submissions": 20}):
            assert client.post("/v1/holdouts", json=body | {"y_true": labels}, headers=owner).status_code == 201
        hostile = {"y_pred": labels, "name": "<script>window.canary=1</script>"}
        assert client.post("/v1/holdouts/race/submit", json=hostile, headers=owner).status_code == 200
        client.post("/page/login", data={"key": served.keys["analyst"]})
        page = client.get("/holdouts").text
    assert ">50</dd>" in page
    assert "&lt;script&gt;window.canary" in page
    assert inline(page) == []


def test_data_that_is_not_independent_has_no_interval_for_a_population_and_says_so(served):
    registry = served.service.registry
    plain = {"path": "people.parquet", "epsilon": 2.0, "delta": 1e-6, "queries": 50, "bounds": {"age": [0, 100]}}
    registry.register("plain", plain | {"iid": False, "second_budget": True})
    with httpx.Client(base_url=served.url, headers={"Origin": served.url}, follow_redirects=True) as client:
        client.post("/page/login", data={"key": served.keys["owner"]})
        seen = client.post("/page/datasets/plain/preview", data={"query": "age > 30"})
        assert re.search(r"± 0\.\d+</strong> for these rows", seen.text)
        said = client.post("/page/datasets/plain/ask", data={"query": "age > 30", "form": "1"})
        assert "in these rows" in said.text
        assert "No interval for the population" in said.text
        assert "the truth" not in said.text.lower()
        for path in ("/", "/history", "/datasets/plain"):
            assert client.get(path).status_code == 200


@pytest.mark.parametrize(
    "given", ["//evil.example", "https://evil.example", "/\\evil", "javascript:1", "/page/logout", "", None]
)
def test_signing_in_leads_to_a_place_of_this_page_only(given):
    assert home_address(given) == "/"
    assert home_address("/planner?rows=5") == "/planner?rows=5"


def test_files_are_kept_by_browsers_and_carry_their_licences(served):
    reply = httpx.get(served.url + file_address("style.css"))
    assert "immutable" in reply.headers["cache-control"]
    again = httpx.get(served.url + file_address("style.css"), headers={"If-None-Match": reply.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert httpx.get(f"{served.url}/static/old/style.css").headers["cache-control"] == "no-cache"
    for path in ("nothing.js", "..%2froutes.py", "vendor/../../routes.py", "%2e%2e/routes.py"):
        assert httpx.get(f"{served.url}/static/x/{path}").status_code == 404
    folder = rendering._FOLDER
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < 1_500_000
    for file in [*folder.glob("vendor/*.js"), *folder.glob("fonts/*.woff2")]:
        name = file.name.split(".")[0].removesuffix("-latin").removesuffix("-greek")
        assert (file.parent / f"{name}.LICENSE").exists(), file.name
        assert file.name in (folder / "vendor" / "VERSIONS").read_text()


def inline(text):
    """Return whatever in a page would be a script or a style of its own."""
    found = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attributes):
            names = dict(attributes)
            if tag == "style" or (tag == "script" and "src" not in names):
                found.append(tag)
            found.extend(name for name in names if name == "style" or name.startswith("on"))

    Reader().feed(text)
    return found


def test_every_page_forbids_foreign_and_inline_scripts(served):
    with httpx.Client(base_url=served.url, follow_redirects=True) as client:
        client.post("/page/login", data={"key": served.keys["owner"]}, headers={"Origin": served.url})
        for path in (
            "/",
            "/datasets/people",
            "/planner",
            "/attack",
            "/keys",
            "/history",
            "/holdouts",
            "/login",
            "/datasets/none",
        ):
            reply = client.get(path)
            policy = reply.headers["content-security-policy"]
            assert "unsafe" not in policy
            assert "default-src 'none'" in policy
            assert inline(reply.text) == []
    planted = "<script>1</script><b style='a'></b><i onclick='a'></i><style></style><p>' onfocus='1'</p>"
    assert inline(planted) == ["script", "style", "onclick", "style"]


def contrast(first, second):
    def luminance(colour):
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_text_has_the_contrast_that_wcag_aa_asks_for():
    style = (rendering._FOLDER / "style.css").read_text()
    themes = [
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root[^{]*\{([^}]*)\}", style)
    ]
    themes = [theme for theme in themes if "ink" in theme]
    assert len(themes) == 3
    assert themes[1] == themes[2]
    for theme in themes:
        for text, ground in [
            *((text, ground) for text in ("ink", "soft", "accent") for ground in ("page", "card", "wash", "sunk")),
            ("on-accent", "accent"),
            ("wrong", "wrong-wash"),
            ("wrong", "card"),
            ("ink", "wrong-wash"),
        ]:
            assert contrast(theme[text], theme[ground]) >= 4.5, (text, ground)
        assert contrast(theme["edge"], theme["card"]) >= 3
        assert contrast(theme["truth"], theme["band"]) >= 3


def test_requests_of_the_page_are_logged_with_the_keys_prefix(served):
    stream, logger = io.StringIO(), logging.getLogger("holdtrue.service")
    before = logger.handlers[:], logger.level, logger.propagate
    telemetry.configure_logs(stream)
    try:
        with httpx.Client(base_url=served.url, headers={"Origin": served.url}) as client:
            client.post("/page/login", data={"key": served.keys["auditor"]})
            client.get("/history")
        with httpx.Client(base_url=served.url) as nobody:
            nobody.get("/history")
        time.sleep(0.1)
        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    finally:
        logger.handlers[:], logger.level, logger.propagate = before
    prefix = served.keys["auditor"].split("_")[1]
    assert [(line["route"], line["key"]) for line in lines] == [
        ("/page/login", prefix),
        ("/history", prefix),
        ("/history", None),
    ]


PUBLIC = "age,income\n" + "".join(f"{10 + 4 * place},{20_000 + 900 * place}\n" for place in range(20))


@pytest.fixture
def owner_page(served):
    with httpx.Client(base_url=served.url, headers={"Origin": served.url}, follow_redirects=True, timeout=60) as client:
        client.post("/page/login", data={"key": served.keys["owner"]})
        yield client


def send_form(client, kind, form, *, file=None):
    files = None if file is None else {"file": ("rows.csv", file.encode())}
    sent = form | {"form": f"{kind} {len(form)}"}
    return client.post(f"/page/datasets/people/{kind}", data=sent, files=files, headers={"HX-Request": "true"})


def test_what_follows_is_taken_for_nothing_or_refused(served, analyst, owner_page):
    """Of one's own answers, the owner's of everybody's; what does not follow closely is not paid for by this button."""
    curator = served.service.registry.open_dataset("people").curator
    assert send_form(analyst, "ask", {"query": "age > 71"}).status_code == 200
    asks, text = curator.budget.asks, "age > 71 AND (smoker OR age > 50)"
    for place, (page, taken) in enumerate([(analyst, True), (owner_page, True), (analyst, False)]):
        query = f"{text} AND age > {place}" if taken else "income > 71000"
        seen = page.post("/page/datasets/people/preview", data={"query": query}, headers={"HX-Request": "true"})
        assert ("Take it" in seen.text) == taken
        told = send_form(page, "ask", {"query": query, "deduce": "first"})
        assert ("Free: it follows already" in told.text) == taken
        assert told.status_code == 200 if taken else "ask it, for one question" in told.text
        assert curator.budget.asks == asks
    assert "Cost 1 question" in send_form(analyst, "ask", {"query": "income > 71000"}).text
    assert curator.budget.asks == asks - 1


MODEL = {"name": "paged", "target": "smoker", "estimator": "decision-tree", "features": "age, income", "parts": "20"}


def test_a_model_is_trained_asked_and_distilled_and_a_form_is_charged_once(served, analyst, owner_page):
    curator = served.service.registry.open_dataset("people").curator
    before = curator.budget.spent
    trained = send_form(owner_page, "train", MODEL)
    assert "20 parts vote; it reads age, income" in trained.text
    assert send_form(analyst, "train", MODEL).status_code == 403
    row = {"model": "paged", "row": "age = 30\nincome: 50000", "epsilon": "0.02"}
    seen = analyst.post("/page/datasets/people/preview-predict", data=row, headers={"HX-Request": "true"})
    assert re.search(r"Costs at most\s+<strong>[\d.]+ %</strong>.*one label.*pays for [\d,]+", seen.text, re.DOTALL)
    assert curator.budget.spent == before
    told = [send_form(analyst, "predict", row).text for _ in range(2)]
    assert all(
        re.search(r"<output>(True|False)</output>.*more predictions like this are left", each, re.DOTALL) for each in told
    )
    paid = curator.budget.spent
    assert paid > before
    whole = analyst.post("/page/datasets/people/predict", data=row | {"form": "whole"})
    assert "Asked before: free." in whole.text
    assert inline(whole.text) == []
    bought = send_form(analyst, "distill", {"model": "paged", "groups": "4", "epsilon": "0.02"}, file=PUBLIC)
    assert "<output>20</output>" in bought.text
    assert "Paid for 4 labels" in bought.text
    assert "data:text/csv" in bought.text
    assert curator.budget.spent > paid


def test_a_linear_model_is_published_by_its_form_or_kept_by_the_owner(served, analyst, owner_page):
    curator = served.service.registry.open_dataset("people").curator
    line = {"name": "line", "target": "smoker", "kind": "logistic", "features": "age", "mu": "0.02"}
    before = curator.budget.spent
    seen = analyst.post("/page/datasets/people/preview-fit", data=line, headers={"HX-Request": "true"})
    assert "mu 0.02 for all weights" in seen.text
    assert curator.budget.spent == before
    told = [send_form(analyst, "fit", line).text for _ in range(2)]
    assert all("<output>age " in each for each in told)
    assert curator.budget.spent == pytest.approx(before + 0.0004)
    kept = {"name": "kept", "target": "smoker", "kind": "logistic", "features": "age", "release": "each", "epsilon": "0.02"}
    assert send_form(analyst, "fit", kept).status_code == 403
    seen = owner_page.post("/page/datasets/people/preview-fit", data=kept, headers={"HX-Request": "true"})
    assert "each prediction is charged" in seen.text
    assert "The fit costs nothing" in send_form(owner_page, "fit", kept).text
    assert curator.budget.spent == pytest.approx(before + 0.0004)
    said = send_form(analyst, "predict", {"model": "kept", "row": "age = 30"})
    assert re.search(r"<output>(True|False)</output>", said.text)
    assert curator.budget.spent > before + 0.0005
    number = kept | {"name": "pay", "target": "income", "kind": "ridge"}
    assert "The fit costs nothing" in send_form(owner_page, "fit", number).text
    assert (
        "what the model says, not the true value" in send_form(analyst, "predict", {"model": "pay", "row": "age = 30"}).text
    )
    wrong = send_form(analyst, "fit", line | {"name": "other", "features": "nothing"})
    assert "Nothing was spent" in wrong.text


def test_models_and_rules_are_evaluated_with_the_price_before(served, analyst):
    curator = served.service.registry.open_dataset("people").curator
    rule = {"target": "smoker", "class": "stumps", "columns": "age", "size": "4", "epsilon": "0.02"}
    assert send_form(analyst, "learn", rule).status_code == 200
    entry = str(curator.history[-1].entry)
    seen = analyst.post("/page/datasets/people/preview-evaluate", data={"entry": entry})
    assert "one question" in seen.text
    told = send_form(analyst, "evaluate", {"entry": entry})
    assert "<output>at most" in told.text
    assert f"{curator.history[-1].responses[0].bound:.3f}" in told.text
    others = curator.learn(ht.Stumps(bounds={"age": (0, 100)}, steps=7), target="smoker", epsilon=0.02)
    hidden = send_form(analyst, "evaluate", {"entry": str(others.certificate.entry)})
    assert "an entry of learn or fit" in hidden.text
    assert others.text not in hidden.text
    missing = send_form(analyst, "evaluate", {"model": "paged", "at_most": "0.4, 0.3", "mu": "0.01"})
    assert 400 <= missing.status_code < 500
    both = send_form(analyst, "evaluate", {"model": "paged", "entry": "3"})
    assert "Nothing was spent" in both.text


def test_rules_are_learned_and_shares_watched(served, analyst):
    curator = served.service.registry.open_dataset("people").curator
    rule = {"target": "smoker", "class": "stumps", "columns": "age", "size": "10", "epsilon": "0.02"}
    seen = analyst.post("/page/datasets/people/preview-learn", data=rule, headers={"HX-Request": "true"})
    assert "epsilon 0.02" in seen.text
    learned = [send_form(analyst, "learn", rule) for _ in range(2)]
    assert all("more often than the best of" in each.text for each in learned)
    paid = curator.budget.spent
    assert "Cost 1 question." in send_form(analyst, "best-error", rule).text
    watch = {"query": "age >= 0", "threshold": "0.5", "epsilon": "0.02"}
    seen = analyst.post("/page/datasets/people/preview-watch", data=watch, headers={"HX-Request": "true"})
    assert "a run lasts until its alarm" in seen.text
    assert "0 alarms left" in send_form(analyst, "watch", watch).text
    assert curator.budget.spent > paid
    follows = analyst.post("/page/datasets/people/preview", data={"query": "NOT age >= 0"}, headers={"HX-Request": "true"})
    assert follows.status_code == 200


def test_tables_are_released_with_the_price_before_and_rows_made_from_them(served, analyst):
    curator = served.service.registry.open_dataset("people").curator
    form, left = {"sets": "pairs", "columns": "smoker, age"}, curator.budget.asks
    seen = analyst.post("/page/datasets/people/preview-marginals", data=form, headers={"HX-Request": "true"})
    assert "<strong>2 questions</strong>" in seen.text
    assert curator.budget.asks == left
    told = [send_form(analyst, "marginals", form).text for _ in range(2)]
    assert all("<output>1 table, " in each and 'download="tables.csv"' in each for each in told)
    assert curator.budget.asks == left - 2
    seen = analyst.post("/page/datasets/people/preview-marginals", data=form, headers={"HX-Request": "true"})
    assert "Costs nothing" in seen.text
    made = send_form(analyst, "synthesize", {"columns": "smoker, age", "rows": "30"})
    assert "<output>30 rows</output>" in made.text
    assert 'download="made.csv"' in made.text
    assert curator.budget.asks == left - 2
    whole = analyst.post("/page/datasets/people/marginals", data=form | {"form": "whole"})
    assert "Released before: free." in whole.text
    assert inline(whole.text) == []


@pytest.fixture
def paged(owner_page):
    """Train the model that forms name, whichever tests ran before."""
    assert send_form(owner_page, "train", MODEL).status_code == 200


HOSTILE = "<script>window.canary=1</script>"


@pytest.mark.parametrize(
    ("kind", "form", "beside"),
    [
        ("learn", {}, ("target", "Write a yes-or-no question")),
        ("learn", {"target": "age +"}, ("target", "ends too early")),
        ("learn", {"target": "smoker", "columns": "note"}, ("columns", "columns of numbers with bounds")),
        ("learn", {"target": "smoker", "columns": HOSTILE}, ("columns", "there is no such column")),
        ("learn", {"target": "smoker", "size": "1e9"}, ("size", "from 1 to 100,000")),
        ("learn", {"target": "smoker", "epsilon": "-1"}, ("epsilon", "above 0")),
        ("learn", {"target": "age > 3", "class": "conjunctions", "columns": "age"}, ("columns", "yes-or-no columns")),
        ("best-error", {}, ("target", "Write a yes-or-no question")),
        ("predict", {}, ("row", "age = 71")),
        ("predict", {"row": "age = 3"}, ("model", "Name a model")),
        ("predict", {"row": "age = 3", "model": HOSTILE}, ("model", "Model must be")),
        ("predict", {"row": "age = 3", "model": "nothing"}, ("model", "no model")),
        ("predict", {"row": "age = 3", "model": "paged"}, ("row", "the model reads: age, income")),
        ("watch", {}, ("threshold", "a share from 0 to 1")),
        ("watch", {"threshold": "7"}, ("threshold", "a share from 0 to 1")),
        ("watch", {"threshold": "0.5", "alarms": "0"}, ("alarms", "from 1 to 1,000")),
        ("watch", {"threshold": "0.5"}, ("query", "Write a question")),
        ("distill", {"model": "paged"}, ("file", "Choose a file")),
        ("marginals", {"columns": "note"}, ("columns", "no public labels")),
        ("marginals", {"columns": HOSTILE}, ("columns", "there is no such column")),
        ("marginals", {"sets": "all"}, ("sets", "sets")),
        ("synthesize", {"rows": "0"}, ("rows", "1 to 20,000")),
        ("synthesize", {"columns": "nope"}, ("columns", "columns")),
    ],
)
@pytest.mark.usefixtures("paged")
def test_a_mistake_in_a_form_of_models_is_told_beside_its_field_and_costs_nothing(served, analyst, kind, form, beside):
    (field, told), curator = beside, served.service.registry.open_dataset("people").curator
    before = curator.budget.spent
    refused = send_form(analyst, kind, form)
    assert 400 <= refused.status_code < 500
    assert told.lower() in re.sub("&#3[49];", "'", refused.text).lower()
    assert "Nothing was spent" in refused.text
    assert HOSTILE not in refused.text
    assert f'data-field="{field}"' in refused.text
    if kind in ("learn", "marginals", "predict", "watch"):
        seen = analyst.post(f"/page/datasets/people/preview-{kind}", data=form, headers={"HX-Request": "true"})
        assert "Costs" not in seen.text
    assert curator.budget.spent == before


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"path": "x"}, "name"),
        ({"name": "town"}, "path"),
        ({"name": "Town!", "path": "people.parquet", "queries": "300"}, "name"),
        ({"name": "town", "path": "/etc/passwd", "queries": "300"}, "path"),
        ({"name": "town", "path": "people.parquet"}, "queries"),
        ({"name": "town", "path": "people.parquet", "queries": "many"}, "queries"),
        ({"name": "town", "path": "people.parquet", "queries": "300", "beta": "2"}, "beta"),
        ({"name": HOSTILE, "path": HOSTILE, "queries": "300"}, "name"),
    ],
)
def test_a_dataset_that_cannot_be_registered_is_refused_beside_its_field(owner_page, form, field):
    told = owner_page.post("/page/datasets", data=form, headers={"HX-Request": "true"})
    assert 400 <= told.status_code < 500
    assert f'data-field="{field}"' in told.text
    assert HOSTILE not in told.text


def test_the_owner_registers_a_dataset_from_the_page(served, analyst, owner_page):
    form = {"name": "again", "path": "other.csv", "queries": "200", "epsilon": "1", "delta": "1e-6", "iid": "yes"}
    (served.folder / "other.csv").write_text("age\n" + "\n".join(str(place % 90) for place in range(3_000)) + "\n")
    assert analyst.post("/page/datasets", data=form, headers={"HX-Request": "true"}).status_code == 403
    told = owner_page.post("/page/datasets", data=form, headers={"HX-Request": "true"})
    assert (told.status_code, told.headers.get("hx-redirect")) == (200, "/datasets/again"), told.text
    assert "200" in owner_page.get("/datasets/again").text


def test_the_owner_registers_a_second_purse_from_the_page(served, owner_page):
    (served.folder / "kept.csv").write_text("age\n" + "\n".join(str(place % 80) for place in range(3_000)) + "\n")
    form = {"name": "kept", "path": "kept.csv", "queries": "20", "epsilon": "4", "delta": "1e-6", "iid": "yes"}
    told = owner_page.post("/page/datasets", data=form | {"predictions": "6"}, headers={"HX-Request": "true"})
    assert told.status_code == 422
    form |= {"predictions": "6", "predictions_epsilon": "0.1"}
    told = owner_page.post("/page/datasets", data=form, headers={"HX-Request": "true"})
    assert told.headers.get("hx-redirect") == "/datasets/kept", told.text
    assert "6 draws kept to select, learn and predict" in owner_page.get("/datasets/kept").text


def test_the_api_is_described_on_a_page_of_the_service_itself(served):
    with httpx.Client(base_url=served.url) as client:
        found = client.get("/docs")
        paths = client.get("/openapi.json").json()["paths"]
    assert found.status_code == 200
    assert all(f"<code>{path}</code>" in found.text for path in paths)
    assert "default-src 'none'; script-src 'self'" in found.headers["content-security-policy"]
    assert re.findall(r'(?:src|href)="(?!/|#)([^"]*)"', found.text) == []  # nothing of another origin
    assert "The least that a value counts" in found.text


class Forms(HTMLParser):
    """The forms of a page by their addresses, each with the names of its fields and which of them are files."""

    def __init__(self, text):
        super().__init__()
        self.found, self.fields = {}, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "form":
            self.fields = self.found.setdefault(given["action"], {})
        elif (
            tag == "button"
            and self.fields is not None
            and "/preview" not in (place := given.get("formaction") or "/preview")
        ):
            self.found[place] = self.fields
        elif tag in ("input", "select", "textarea") and self.fields is not None and given.get("name"):
            self.fields[given["name"]] = given.get("type", tag)

    def handle_endtag(self, tag):
        if tag == "form":
            self.fields = None


CASES = [f"case {number}" for number in range(400)]
RESULTS = "id,passed\n" + "".join(f"{name},{place % 2}\n" for place, name in enumerate(CASES))
GOOD = {
    "ask": {"query": "age > 3"},
    "table": TABLE,
    "mean": MEAN,
    "quantile": MEDIAN,
    "sum": MEAN | {"population": "9000"},
    **dict(STATISTICS),
    "select": {"candidates": "old: age > 60\nyoung: age < 30"},
    "marginals": {"sets": "pairs", "columns": "smoker, age"},
    "synthesize": {"columns": "smoker, age"},
    "learn": {"target": "smoker", "columns": "age", "epsilon": "0.02"},
    "best-error": {"target": "smoker", "columns": "age"},
    "fit": {"name": "line", "target": "smoker", "kind": "logistic", "features": "age", "mu": "0.02"},
    "predict": {"model": "paged", "row": "age = 30\nincome: 50000", "epsilon": "0.02"},
    "evaluate": {"entry": "1"},
    "distill": {"model": "paged", "groups": "4"},
    "watch": {"query": "age >= 0", "threshold": "0.5"},
    "train": MODEL | {"name": "other"},
    "datasets": {"name": "town", "path": "people.parquet", "queries": "300"},
    "keys": {"name": "eva", "role": "analyst"},
    "holdouts": {"name": "again", "looks": "20", "yes": "2"},
    "gate": {},
    "score": {"holds": "results"},
    "compare": {"holds": "results"},
    "submit": {},
}
WITHOUT_TEXT = {"logout", "verify", "climb", "attack", "audit", "revoke", "certify", "check"}
PAGES = (
    "",
    "datasets/people",
    "holdouts",
    "climb",
    "keys",
    "attack",
    *(f"holdouts/{name}" for name in ("gate", "scores", "board")),
)


@pytest.fixture
def all_forms(owner_page, paged):
    del paged
    if owner_page.get("/holdouts/gate").status_code == 404:
        kinds = {"gate": {"yes": "2"}, "scores": {"kind": "scores"}, "board": {"kind": "leaderboard", "holds": "labels"}}
        for name, given in kinds.items():
            files = {"file": ("f.csv", RESULTS.replace("case", name).encode())}
            made = owner_page.post("/page/holdouts", data={"name": name, "looks": "99"} | given, files=files)
            assert made.status_code == 200, made.text
    return {
        place: fields
        for page in (*PAGES, "attack")
        for place, fields in Forms(owner_page.get(f"/{page}").text).found.items()
    }


@pytest.mark.parametrize(
    "given",
    [HOSTILE, "1e309", "-1", "\x00", "9" * 400, "age +", "💥", ",,,", "nan"],
    ids=["script", "huge", "below", "null", "long", "unfinished", "sign", "commas", "nan"],
)
def test_every_field_of_every_form_refuses_absurd_and_hostile_input_beside_itself_for_nothing(
    served, owner_page, all_forms, given
):
    curator, met, beside = served.service.registry.open_dataset("people").curator, set(), 0
    for place, fields in all_forms.items():
        kind = place.rsplit("/", 1)[1]
        if kind in WITHOUT_TEXT:
            continue
        met.add(kind)
        name = place.split("/")[3] if "holdouts/" in place else "new"
        rows = PUBLIC if kind == "distill" else RESULTS.replace("case", name)
        files = {field: ("rows.csv", rows.encode()) for field, of in fields.items() if of == "file"} or None
        for field in (name for name, of in fields.items() if of not in ("file", "checkbox") and name != "form"):
            before = curator.budget.spent
            sent = GOOD[kind] | {field: given, "form": f"{field} {len(given)}"}
            told = owner_page.post(place, data=sent, files=files, headers={"HX-Request": "true"})
            assert told.status_code < 500, (place, field)
            assert HOSTILE not in told.text, (place, field)
            if told.status_code < 400:  # a name or a description may be anything, and points of no column are not read
                continue
            assert curator.budget.spent == before, (place, field)
            assert "Nothing was spent" in told.text, (place, field)
            found = re.search(r'data-field="([^"]*)"', told.text)
            assert (found and found[1] in fields) or "A gate on these cases" in told.text, (place, field, told.text)
            beside += bool(found) and found[1] == field
    assert met == set(GOOD)
    assert beside > 60


def test_every_form_sent_empty_says_what_to_write_and_charges_nothing(served, owner_page, all_forms):
    curator = served.service.registry.open_dataset("people").curator
    before = (curator.budget.spent, curator.ledger.newest())
    for place, fields in all_forms.items():
        kind = place.rsplit("/", 1)[1]
        if kind in WITHOUT_TEXT or kind in ("marginals", "synthesize"):  # these take all columns, or all released tables
            continue
        files = {field: ("", b"") for field, of in fields.items() if of == "file"} or None
        sent = {name: "" for name, of in fields.items() if of not in ("file", "radio", "checkbox")}
        told = owner_page.post(place, data=sent, files=files, headers={"HX-Request": "true"})
        assert 400 <= told.status_code < 500, (place, told.text)
        assert re.search(r'data-field="([^"]+)"', told.text)[1] in fields, (place, told.text)
        assert "Nothing was spent" in told.text, place
    assert (curator.budget.spent, curator.ledger.newest()) == before


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "4,000 rows, 300 questions: every answer within"),
        ({"iid": ""}, "no interval for the population"),
        ({"path": ""}, "shows here, once a file is named"),
        ({"path": "nowhere.csv"}, "a file, or a pattern of files, in one of the folders"),
        ({"path": "../../etc/passwd"}, "a file, or a pattern of files, in one of the folders"),
        ({"queries": "many"}, "Queries are numbers"),
        ({"epsilon": "-1"}, "Epsilon must be a number above 0"),
        ({"queries": "1e18"}, "Queries must be a whole number, at most"),
    ],
)
def test_how_wide_a_dataset_would_be_is_said_before_it_is_registered(served, owner_page, given, told):
    before = served.service.registry.datasets.list_names()
    form = {"path": "people.parquet", "queries": "300", "epsilon": "1", "delta": "1e-6", "beta": "0.05", "iid": "yes"}
    said = owner_page.post("/page/datasets/width", data=form | given, headers={"HX-Request": "true"})
    assert (said.status_code, told in said.text) == (200, True), said.text
    if not given:
        with ht.Curator({"any": range(4_000)}, queries=300, epsilon=1, delta=1e-6, iid=True) as opened:
            plan = opened.plan
        assert f"± {plan.alpha:.3f}" in said.text
        assert f"± {plan.sample_alpha:.3f} of these rows" in said.text
    assert served.service.registry.datasets.list_names() == before


def test_only_the_owner_is_told_how_wide_a_file_would_be(analyst):
    assert analyst.post("/page/datasets/width", data={"path": "people.parquet"}).status_code == 403
