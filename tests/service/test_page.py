"""The page in a real browser: what people do on it, what it keeps, and what nobody can make it do."""

import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from holdtrue.service.http.serving import prepare_demo
from service.browsing import Watched, browsing
from service.living import living

SIZES = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]
CORPUS = [
    "<script>window.canary=1</script>",
    "<img src=x onerror=window.canary=1>",
    '"><svg onload=window.canary=1>',
    "' onfocus='window.canary=1' autofocus='",
    "javascript:window.canary=1",
    "</textarea><script>alert(1)</script>",
    "{{7*7}}${7*7}<%= 7*7 %>",
    "<div hx-on:load='window.canary=1' hx-get='/' hx-trigger='load'></div>",
    "<iframe srcdoc='<script>parent.canary=1</script>'></iframe>",
    "\u2028</script><script>window.canary=1</script>",
]


@pytest.fixture(scope="module")
def browser():
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    prepared = prepare_demo(tmp_path_factory.mktemp("demo"))
    with living(prepared.app) as client:
        yield SimpleNamespace(url=str(client.base_url).rstrip("/"), app=prepared.app, key=prepared.key)


@pytest.fixture
def at(browser, demo):
    """Return a watched page of the demonstration; what must not happen is checked at the end."""
    opened = []

    def made(**given):
        opened.append(Watched(browser, demo.url, **given))
        return opened[-1]

    yield made
    for watched in opened:
        watched.check()
        assert watched.dialogs == []
        watched.close()


def spent(demo):
    return demo.app.state.service.registry.open_dataset("demo").curator.budget.spent


def words(page, selector):
    return re.sub(r"\s+", " ", page.inner_text(selector))


def ask(page, query):
    page.fill("#query", query)
    page.wait_for_selector("#preview strong")
    page.click("#ask button.main")
    page.wait_for_selector("#said output")


def test_asking_shows_cost_before_and_value_interval_truth_and_budget_after(at, demo):
    watched = at()
    page = watched.open("/datasets/demo")
    before = spent(demo)
    page.fill("#query", "age >= 70")
    page.wait_for_selector("#preview strong")
    assert "Costs 1 question" in words(page, "#preview")
    assert "± 0.064" in words(page, "#preview")
    assert spent(demo) == before
    page.click("#ask button.main")
    page.wait_for_selector("#said output")
    said = words(page, "#said")
    assert re.search(r"between 0\.\d+ and 0\.\d+ in the population, 95 % sure", said)
    assert re.search(r"The truth, 0\.\d+, is inside", said)
    assert "Cost 1 question" in said
    assert re.search(r"\d+ of 200 questions left", words(page, "#strip"))
    assert spent(demo) > before
    page.wait_for_selector("#answers canvas")
    assert "age > 69" in words(page, "#history") or "age >= 70" in words(page, "#history")


def test_nothing_is_lost_on_reload(at):
    watched = at()
    page = watched.open("/datasets/demo")
    ask(page, "sleep < 6")
    left = words(page, "#strip")
    page.fill("#query", "sleep < 6 AND smoker")
    page.reload()
    page.wait_for_selector("#preview strong")
    assert page.input_value("#query") == "sleep < 6 AND smoker"
    assert "sleep < 6" in words(page, "#history")
    assert words(page, "#strip") == left
    page = watched.open("/datasets/demo?query=bmi%20%3E%2040")
    assert page.input_value("#query") == "bmi > 40"


def test_the_same_form_sent_twice_is_charged_once(at, demo):
    page = at().open("/datasets/demo")
    page.fill("#query", "exercise > 12")
    before = len(demo.app.state.service.registry.open_dataset("demo").curator.history)
    send = """() => Promise.all([1, 2, 3].map(() => fetch(document.querySelector("#ask").action, {
        method: "POST", body: new URLSearchParams(new FormData(document.querySelector("#ask"))),
        headers: {"HX-Request": "true"}}).then((reply) => reply.status)))"""
    assert page.evaluate(send) == [200, 200, 200]
    assert len(demo.app.state.service.registry.open_dataset("demo").curator.history) == before + 1
    page.dblclick("#ask button.main")
    page.wait_for_selector("#said output")
    # The very same answer, with what it cost then; the second click may meet the new form, and is told that it is free.
    assert any(said in words(page, "#said") for said in ("Cost 1 question", "Asked before: free"))
    assert len(demo.app.state.service.registry.open_dataset("demo").curator.history) == before + 1


def test_a_mistake_is_told_in_words_and_costs_nothing(at, demo):
    page = at().open("/datasets/demo")
    before = spent(demo)
    page.fill("#query", "agee > 3")
    page.wait_for_selector("#preview:has-text('did you mean')")
    page.click("#ask button.main")
    page.wait_for_selector("#said .problem")
    assert "Nothing was spent" in words(page, "#said")
    assert spent(demo) == before


def test_columns_go_into_the_question_where_the_caret_is(at):
    page = at().open("/datasets/demo")
    page.fill("#query", "")
    page.click("button[data-column=age]")
    page.keyboard.type(" > 30 AND")
    page.click("button[data-column=smoker]")
    assert page.input_value("#query") == "age > 30 AND smoker"


def test_the_page_works_without_scripts(browser, demo):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{demo.url}/datasets/demo")
    page.fill("#query", "income > 90")
    page.click("#ask button.main")
    assert page.url.startswith(f"{demo.url}/datasets/demo?answer=")
    assert "income > 90" in page.inner_text("#said")
    page.goto(f"{demo.url}/planner?find=alpha&rows=50000&queries=10")
    assert "50,000 rows answer 10 adaptive questions" in page.inner_text("#plan")
    context.close()


def test_choosing_among_candidates_spends_the_reserve_only(at, demo):
    page = at().open("/datasets/demo")
    asks = demo.app.state.service.registry.open_dataset("demo").curator.budget.asks
    page.click("summary:has-text('Choose among candidates')")
    page.click("button:has-text('Choose')")
    page.wait_for_selector("#said:has-text('The choice among 4 candidates')")
    assert re.search(r"(north|east|south|west) at most \d+ rows behind the best", words(page, "#said"))
    assert demo.app.state.service.registry.open_dataset("demo").curator.budget.asks == asks


def choose(page, form, place, column):
    page.click(f"{form} .choice >> nth={place} >> label:has(input[value='{column}'])")


def exported(page, words):
    """Return the name and the text of a file that a button or a link of the answer exports."""
    with page.expect_download() as found:
        page.click(f"#said >> text={words}")
    return found.value.suggested_filename, Path(found.value.path()).read_text(encoding="utf-8")


def ask_for_table(page):
    page.click("label:has(#kind-table)")
    page.wait_for_selector("#table-price strong")
    choose(page, "#table", 0, "region")
    choose(page, "#table", 1, "age")
    assert page.input_value("#table-second-points") == "20, 40, 60, 80"
    page.fill("#table-second-points", "40, 65")
    page.fill("#table-where", "smoker OR NOT smoker")
    page.wait_for_selector("#table-price:has-text('Every cell will come with an interval of at most')")
    page.click("#table button.main")
    page.wait_for_selector("#said:has-text('by region and age') canvas")


def ask_for_mean(page):
    page.click("label:has(#kind-mean)")
    choose(page, "#mean", 0, "income")
    assert (page.input_value("#mean-low"), page.input_value("#mean-high")) == ("0", "200")
    choose(page, "#mean", 1, "region")
    page.wait_for_selector("#mean-price strong")
    page.click("#mean button.main")
    page.wait_for_selector("#said:has-text('The mean of income by region') canvas")


def ask_for_curve(page):
    page.click("label:has(#kind-quantile)")
    choose(page, "#quantile", 0, "income")
    page.fill("#quantile-levels", "0.1, 0.5, 0.9")
    page.check("#quantile [name=curve]")
    page.wait_for_selector("#quantile-price strong")
    page.click("#quantile button.main")
    page.wait_for_selector("#said:has-text('The quantiles 0.1, 0.5, 0.9 of income') [data-plot=distribution] canvas")


def test_a_table_is_priced_asked_seen_and_exported(at, demo):
    page = at().open("/datasets/demo")
    before = spent(demo)
    page.click("label:has(#kind-table)")
    page.wait_for_selector("#table-price strong")
    assert re.search(r"Costs \d questions, \d\.\d+ % of the budget", words(page, "#table-price"))
    assert spent(demo) == before
    ask_for_table(page)
    assert spent(demo) > before
    said = words(page, "#said")
    assert "All 13 truths are inside" in said
    assert re.search(r"Cost \d questions\.", said)
    assert "13 cells by region, age" in words(page, "#history")
    name, text = exported(page, "Export CSV")
    lines = [line.split(",") for line in text.splitlines()]
    assert (name[:6], name[-4:]) == ("table-", ".csv")
    assert lines[0] == ["region", "age", "share", "low", "high"]
    assert len(lines) == 14
    assert sum(float(line[2]) for line in lines[1:]) == pytest.approx(1, abs=0.2)
    name, text = exported(page, "Export SVG")
    assert name.endswith(".svg")
    assert text.startswith("<svg")
    assert "south, age 40 to 65" in text
    paid = spent(demo)
    page.fill("#table-where", "smoker OR  NOT smoker")
    page.wait_for_selector("#table-price:has-text('Costs nothing')")
    page.click("#table button.main")
    page.wait_for_selector("#said:has-text('Asked before: free.')")
    assert spent(demo) == paid


def test_a_mean_by_group_is_asked_seen_and_exported(at):
    page = at().open("/datasets/demo")
    ask_for_mean(page)
    said = words(page, "#said")
    assert "counting values above 200 as 200 and below 0 as 0" in said
    assert "All 4 truths are inside" in said
    page.click("#said summary:has-text('As a table')")
    assert re.search(r"east \d+\.\d", words(page, "#said table"))
    name, text = exported(page, "Export CSV")
    assert name.startswith("mean-")
    assert text.splitlines()[0] == "region,mean,low,high,group_share"
    assert "north" in exported(page, "Export SVG")[1]


def test_a_median_and_a_distribution_are_asked_seen_and_exported(at, demo):
    page = at().open("/datasets/demo")
    page.click("label:has(#kind-quantile)")
    choose(page, "#quantile", 0, "bmi")
    page.wait_for_selector("#quantile-price:has-text('Costs at most')")
    page.click("#quantile button.main")
    page.wait_for_selector("#said:has-text('The median of bmi') canvas")
    said = words(page, "#said")
    assert re.search(r"between 2\d\.\d and 2\d\.\d in the population, 95 % sure", said)
    assert re.search(r"The truth, 26\.\d, is inside", said)
    assert exported(page, "Export CSV")[1].splitlines()[0] == "level,value,low,high"
    ask_for_curve(page)
    assert "All 3 truths are inside" in words(page, "#said")
    assert "<svg" in exported(page, "Export the distribution")[1]
    paid = spent(demo)
    page.fill("#quantile-levels", "0.25")
    page.wait_for_selector("#quantile-price:has-text('Costs nothing')")
    page.click("#quantile button.main")
    page.wait_for_selector("#said:has-text('The quantile 0.25 of income')")
    assert spent(demo) == paid


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_tables_means_and_distributions_are_whole_at_every_size(at, width, scheme):
    watched = at(width=width, scheme=scheme)
    page = watched.open("/datasets/demo")
    for name, asked in (("table", ask_for_table), ("mean", ask_for_mean), ("distribution", ask_for_curve)):
        asked(page)
        page.evaluate("document.fonts.ready.then(() => scrollTo(0, 0))")
        watched.kept(name)
        watched.check()


def test_the_keyboard_chooses_a_form_and_a_column(at):
    page = at().open("/datasets/demo")
    page.focus("#kind-share")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#table:visible")
    assert not page.is_visible("#ask")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.value") == "smoker"
    page.wait_for_selector("#table-price strong")
    page.click("button[data-column=age]")
    assert page.input_value("#table-where") == "age"
    page.click("button.chip:has-text('age >= 65')")
    assert page.is_visible("#ask")
    assert page.input_value("#query") == "age >= 65"


def test_tables_are_priced_and_asked_without_scripts(browser, demo):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{demo.url}/datasets/demo")
    page.click("label:has(#kind-table)")
    choose(page, "#table", 0, "exercise")
    before = spent(demo)
    page.click("#table >> text=Show what it costs")
    assert re.search(r"Costs \d questions", words(page, "#table-price"))
    assert page.is_checked("#table input[name=by][value=exercise]")
    assert spent(demo) == before
    page.click("#table button.main")
    assert "5 to 10" in words(page, "#said table")
    paid = spent(demo)
    page.reload()
    assert "5 to 10" in words(page, "#said table")
    assert spent(demo) == paid > before
    assert exported(page, "Export CSV")[1].startswith("exercise,share,low,high")
    assert not page.is_visible("#said >> text=Export SVG")
    context.close()


def test_the_planner_follows_its_sliders_and_its_address(at):
    watched = at()
    page = watched.open("/planner")
    page.wait_for_selector("#plan canvas")
    assert "You need 35,1" in words(page, "#plan")
    page.fill("#queries", "100")
    page.wait_for_selector("#plan .sentence:has-text('answer 100 adaptive')")
    assert "queries=100" in page.url
    kept = words(page, "#plan .sentence")
    page.reload()
    assert words(page, "#plan .sentence") == kept
    slider = page.locator("[data-logarithmic=alpha]")
    slider.focus()
    for _ in range(3):
        page.keyboard.press("PageUp")
    page.wait_for_selector("#plan .sentence:not(:has-text('± 0.1 of'))")
    page.check("input[name=find][value=alpha]", force=True)
    page.wait_for_selector("#plan .sentence:has-text('rows answer 100')")
    page.fill("#queries", "1000")
    page.wait_for_selector("#plan .sentence:has-text('rows answer 1,000')")
    page.fill("#rows", "100")
    page.wait_for_selector("#plan .problem:has-text('100 rows are too few')")


def test_the_attack_fools_the_plain_holdout_and_not_holdtrue(at):
    watched = at()
    page = watched.open("/attack")
    page.click("button:has-text('Run the attack')")
    page.wait_for_selector("button:has-text('Run it again')", timeout=120_000)
    assert "The interval misses the truth" in words(page, "#naive-said")
    assert "The interval holds the truth" in words(page, "#held-said")
    assert "?run=" in page.url
    said = words(page, "#naive-said")
    page.reload()
    assert words(page, "#naive-said") == said
    assert page.locator(".outcome").count() == 2
    watched.kept("attack")
    for width, scheme in SIZES[1:]:
        other = at(width=width, scheme=scheme)
        other.open(page.url.removeprefix(watched.address)).wait_for_selector("[data-side=held] canvas")
        other.kept("attack")


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_every_page_is_whole_at_every_size_in_light_and_dark(at, width, scheme):
    watched = at(width=width, scheme=scheme)
    for name, path in {
        "front": "/",
        "planner": "/planner",
        "history": "/history",
        "holdouts": "/holdouts",
        "keys": "/keys",
        "login": "/login",
        "refused": "/datasets/unknown",
    }.items():
        page = watched.open(path)
        assert page.locator("h1").count() == 1
        page.evaluate("document.fonts.ready.then(() => true)")
        if name == "planner":
            page.wait_for_selector("#plan canvas")
        watched.kept(name)
        watched.check()
    page = watched.open("/datasets/demo")
    page.click("button:has-text('Ask all 6 at once')")
    page.wait_for_selector("#answers canvas")
    ask(page, "smoker")
    watched.kept("dataset")


def test_the_theme_is_chosen_and_kept(at):
    page = at(scheme="light").open("/")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.click("[data-theme-toggle]")
    dark = page.evaluate(paper)
    page.reload()
    assert page.evaluate(paper) == dark != light


def test_the_keyboard_reaches_everything_and_shows_where_it_is(at):
    page = at().open("/datasets/demo")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.focus("#query")
    page.keyboard.type("diabetic")
    page.keyboard.press("Enter")
    page.wait_for_selector("#said output")
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    unnamed = """() => [...document.querySelectorAll("input:not([type=hidden]), textarea, select, button")].filter(
        (each) => !(each.labels?.length || each.textContent.trim() || each.getAttribute("aria-label"))).length"""
    assert page.evaluate(unnamed) == 0
    assert page.get_attribute("#said", "aria-live") == "polite"


def test_a_key_is_shown_once_opens_the_page_and_is_revoked(at, browser, demo):
    watched = at()
    page = watched.open("/keys")
    page.fill("#name", "maria")
    page.fill("#allowance-demo", "5")
    page.click("button:has-text('Give key')")
    page.wait_for_selector(".secret code")
    key = page.inner_text(".secret code")
    assert key.startswith("ht_")
    page.reload()
    assert key not in page.content()
    other = Watched(browser, demo.url)
    other.open("/login")
    other.page.fill("#key", key)
    other.page.click("button:has-text('Sign in')")
    other.page.wait_for_selector(".who:has-text('maria, analyst')")
    other.open("/history")
    assert "Everything that was charged to you" in words(other.page, "main")
    assert "No charges yet" in words(other.page, "main")
    other.open("/keys")
    assert "this needs a key of owner" in other.page.inner_text("main").lower()
    page.remove_listener("dialog", watched._dialog)
    page.once("dialog", lambda dialog: dialog.accept())
    page.click("tr:has-text('maria') button:has-text('Revoke')")
    page.wait_for_selector("tr:has-text('maria'):has-text('revoked')")
    assert httpx.get(f"{demo.url}/v1/me", headers={"Authorization": f"Bearer {key}"}).status_code == 401
    other.open("/history")  # the session ended with the key; in a demonstration whoever comes is let in anew
    assert "maria, analyst" not in words(other.page, ".who")
    other.check()
    other.close()


def test_no_text_field_runs_a_script(at):
    watched = at()
    page = watched.open("/datasets/demo")
    page.click("summary:has-text('Choose among candidates')")
    for payload in CORPUS:
        page.fill("#query", payload)
        page.wait_for_timeout(300)
        page.click("#ask button.main")
        page.wait_for_selector("#said .problem")
        page.fill("#candidates", f"{payload}: smoker\nb: age > 3")
        page.click("button:has-text('Choose')")
        page.wait_for_selector("#said output, #said .problem")
        watched.check()
    for payload in CORPUS:
        for kind in ("table", "mean", "quantile"):
            page.click(f"label:has(#kind-{kind})")
            page.fill(f"#{kind}-where", payload)
            page.click(f"#{kind} button.main")
            page.wait_for_selector("#said .problem")
            watched.check()
    page = watched.open("/keys")
    for payload in CORPUS:
        page.fill("#name", payload)
        page.click("button:has-text('Give key')")
        page.wait_for_selector(".secret, .problem")
        watched.check()
        page = watched.open("/keys")
    page = watched.open("/login")
    for payload in CORPUS:
        page.fill("#key", payload)
        page.click("button:has-text('Sign in')")
        page.wait_for_selector(".problem")
        watched.check()
    watched.open("/history")
    watched.check()
    watched.open("/datasets/demo")
    watched.check()
    watched.kept("hostile")


@pytest.mark.parametrize("path", ["/datasets/demo", "/planner", "/login", "/attack"])
def test_no_address_runs_a_script(at, path):
    watched = at()
    for payload in CORPUS:
        names = ("query", "rows", "find", "next", "answer", "run", "epsilon")
        page = watched.open(f"{path}?{httpx.QueryParams(dict.fromkeys(names, payload))}")
        watched.check()
        assert "{{7*7}}" not in payload or "49$" not in page.content()


def test_the_canary_of_the_script_tests_sings_where_nothing_is_escaped(browser):
    page = browser.new_page()
    sung = 0
    for payload in CORPUS:
        page.set_content(f"<body>{payload}</body>")
        page.wait_for_timeout(50)
        sung += page.evaluate("window.canary === 1")
        page.evaluate("delete window.canary")
    page.close()
    assert sung >= 3


def test_another_origin_cannot_ask_in_your_name(at, demo):
    """The attacker's page has the same host and another port, so the browser sends the cookie along."""
    form = (
        f"<form id=f method=post action='{demo.url}/page/datasets/demo/ask'><input name=query value='income &gt; 150'>"
        "</form><script>document.getElementById('f').submit()</script>"
    )

    class Evil(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(form.encode())

        def log_message(self, *_):
            pass

    watched = at()
    watched.open("/")
    before = spent(demo)
    with HTTPServer(("127.0.0.1", 0), Evil) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        stranger = watched.context.new_page()
        stranger.goto(f"http://127.0.0.1:{server.server_port}/")
        stranger.wait_for_selector("h1:has-text('Another origin')")
        stranger.close()
        server.shutdown()
        thread.join()
    assert spent(demo) == before


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "null"}, 200),
        ({"Origin": "here"}, 200),
    ],
)
def test_posts_come_from_this_origin_or_are_refused(demo, headers, status):
    told = {name: demo.url if value == "here" else value for name, value in headers.items()}
    with httpx.Client(base_url=demo.url) as client:
        client.get("/")
        reply = client.post("/page/datasets/demo/preview", data={"query": "smoker"}, headers=told)
    assert reply.status_code == status
    assert ("Nothing was spent" in reply.text) == (status == 403)
