"""One walk through the page's forms in a real browser: files, sums and statistics, keys; by keyboard, on a phone, by axe.

axe-core 4.10.3 (MPL-2.0) is beside this file, with its licences; it looks for what people with a reader or a keyboard meet.
"""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.tree import DecisionTreeClassifier

import holdtrue as ht
from holdtrue.service.http.serving import prepare_demo
from service.browsing import Watched, browsing
from service.conftest import made
from service.living import living
from service.test_units import TERMS, write_units

AXE = Path(__file__).parent / "axe" / "axe.min.js"
FAULTS = """() => axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations
    .filter((each) => ["serious", "critical"].includes(each.impact))
    .map((each) => [each.id, each.nodes.map((node) => node.html.slice(0, 200))]))"""
DROP = """([name, text]) => {
    const moved = new DataTransfer();
    moved.items.add(new File([text], name, {type: "text/csv"}));
    const box = document.querySelector("#look [data-drop]");
    for (const kind of ["dragenter", "dragover", "drop"])
        box.dispatchEvent(new DragEvent(kind, {bubbles: true, cancelable: true, dataTransfer: moved}));
}"""


@pytest.fixture(scope="module")
def browser():
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def demo(tmp_path_factory, browser):
    prepared = prepare_demo(tmp_path_factory.mktemp("walk"))
    with living(prepared.app) as client:
        url = str(client.base_url).rstrip("/")
        yield SimpleNamespace(url=url, app=prepared.app, browser=browser, files=prepared.app.state.demo_files)


def find_curator(demo):
    return demo.app.state.service.registry.open_dataset("demo").curator


def words(page, selector):
    return re.sub(r"\s+", " ", page.inner_text(selector))


def find_faults(page):
    page.evaluate(AXE.read_text(encoding="utf-8"))
    return page.evaluate(FAULTS)


def drop_file(page, demo, name):
    page.evaluate(DROP, [name, demo.files[name]])
    page.wait_for_selector("#reading:has-text('500 cases, by their ids. Costs one look')")
    page.fill("#look-name", name)
    page.click("#look button.main")


def test_files_to_try_are_those_of_the_demonstrations_holdout(demo):
    ids = [f"case {number}" for number in range(300)]
    document = {"cases": 300, "ids": ids, "looks": 9, "yes": 2, "incumbent": [0.0] * 300}
    demo.app.state.service.registry.register_holdout("another", document)
    watched = Watched(demo.browser, demo.url)
    for name, shown in (("exam", 1), ("another", 0)):
        assert watched.open(f"/holdouts/{name}").locator("#files-title").count() == shown
    watched.check()
    watched.close()


def test_a_file_is_dropped_the_verdict_seen_and_the_looks_drawn_and_saved(demo):
    watched = Watched(demo.browser, demo.url)
    page = watched.open("/holdouts/exam")
    assert "54" in words(page, "#left")
    drop_file(page, demo, "rephrased.csv")
    page.wait_for_selector("#said output:has-text('No')")
    drop_file(page, demo, "better.csv")
    page.wait_for_selector("#said output:has-text('Yes')")
    assert "52 looks and 4 yes left" in words(page, "#said")
    assert page.get_attribute("#looks svg", "aria-label") == "8 looks: 1 yes (look 8), 7 no"
    with page.expect_download() as found:
        page.click("#looks >> text=Export SVG")
    assert "<circle" in Path(found.value.path()).read_text(encoding="utf-8")
    watched.check()
    watched.kept("holdout")
    watched.close()


def test_holdouts_are_registered_and_asked_by_keyboard_on_a_phone(demo, tmp_path):
    labels = tmp_path / "labels.json"
    labels.write_text(json.dumps({f"case {number}": number % 2 for number in range(300)}))
    watched = Watched(demo.browser, demo.url, width=390)
    page = watched.open("/holdouts")
    page.set_input_files("#register-file", labels)
    page.focus("#register-holdout [value=labels]")
    page.keyboard.press("Space")
    page.focus("#register-holdout [value=gate]")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("#width:has-text('300 cases, 100 looks: ±')")
    page.focus("#holdout-name")
    page.keyboard.type("Race")
    page.evaluate("document.querySelector('#holdout-name').removeAttribute('pattern')")
    page.keyboard.press("Enter")
    page.wait_for_selector("#holdout-name[aria-invalid]")
    assert page.evaluate("document.activeElement.id") == "holdout-name"
    assert "name must be" in words(page, "#register-holdout .wrong-field").lower()
    page.fill("#holdout-name", "race")
    page.keyboard.press("Enter")
    page.wait_for_url("**/holdouts/race")
    page.set_input_files("#look-file", labels)
    page.fill("#look-name", "<img src=x onerror=window.canary=1>")
    page.wait_for_selector("#reading strong")
    page.focus("#look button.main")
    page.keyboard.press("Enter")
    page.wait_for_selector("#standings:has-text('<img src=x')")
    watched.check()
    watched.kept("race")
    watched.close()


def test_sums_and_statistics_are_priced_asked_and_exported(demo):
    watched = Watched(demo.browser, demo.url, width=390)
    page = watched.open("/datasets/demo")
    page.click("label:has(#kind-sum)")
    page.click("#sum label:has(input[name=column][value=income])")
    page.fill("#sum-population", "1000")
    page.wait_for_selector("#sum-price strong")
    page.click("#sum button.main")
    page.wait_for_selector("#said:has-text('The sum of income') canvas")
    assert re.search(r"The truth, [\d,]+, is inside", words(page, "#said"))
    page.click("label:has(#kind-more)")
    forms = {
        "variance": {"column": "bmi"},
        "covariance": {"first": "age", "second": "bmi"},
        "correlation": {"first": "age", "second": "bmi"},
        "gini": {"column": "income"},
        "r-squared": {"prediction": "age", "target": "bmi"},
        "auc": {"score": "age"},
        "pairs": {},
    }
    for kind, chosen in forms.items():
        page.click(f"label:has(#kind-{kind})")
        for field, column in chosen.items():
            page.click(f"#{kind} label:has(input[name={field}][value={column}])")
        if kind == "auc":
            page.click("button[data-column=readmitted]")
        if kind == "pairs":
            page.fill("#pairs-kernel", "abs(a.age - b.age)")
            page.fill("#pairs-high", "80")
        page.wait_for_selector(f"#{kind}-price strong")
        page.evaluate("document.querySelector('#said').replaceChildren()")
        page.click(f"#{kind} button.main")
        page.wait_for_selector("#said output")
        assert re.search(r"Cost \d questions?\.|Asked before: free\.", words(page, "#said")), kind
    with page.expect_download() as found:
        page.click("#said >> text=Export CSV")
    assert Path(found.value.path()).read_text(encoding="utf-8").startswith("statistic,value,low,high")
    watched.check()
    watched.kept("statistics")
    watched.close()


def test_a_price_and_sums_are_given_on_a_phone_and_wrong_ones_told_beside_their_fields(demo):
    watched = Watched(demo.browser, demo.url, width=390)
    page = watched.open("/datasets/demo")
    page.click("label:has(#kind-table)")
    page.fill("#table-questions", "1")
    page.wait_for_selector("#table-price:has-text('2 or more')")
    page.click("#table button.main")
    page.wait_for_selector("#table-questions[aria-invalid]")
    page.fill("#table-questions", "12")
    page.fill("#table-rollups", "north, nowhere")
    page.click("#table button.main")
    page.wait_for_selector("#table-rollups[aria-invalid]")
    assert "labels of the table: east, north, south, west" in words(page, "#table .wrong-field")
    assert page.evaluate("document.activeElement.id") == "table-rollups"
    page.fill("#table-rollups", "north, south\nsouth, east")
    page.wait_for_selector("#table-price:has-text('Costs 12 questions')")
    page.click("#table button.main")
    page.wait_for_selector("#said:has-text('Cost 12 questions') canvas")
    assert "All 7 truths are inside" in words(page, "#said")
    page.click("#said summary:has-text('As a table')")
    assert re.search(r"north \+ south 0\.\d{3}", words(page, "#said table"))
    with page.expect_download() as found:
        page.click("#said >> text=Export CSV")
    assert "\nsouth + east,0." in Path(found.value.path()).read_text(encoding="utf-8")
    for kind in ("mean", "sum"):
        page.click(f"label:has(#kind-{kind})")
        page.click(f"#{kind} label:has(input[name=column][value=income])")
        page.fill(f"#{kind}-questions", "9")
        page.wait_for_selector(f"#{kind}-price strong")
    assert "Costs nothing" not in words(page, "#sum-price")
    page.click("#sum button.main")
    page.wait_for_selector("#said:has-text('Cost 9 questions')")
    assert find_faults(page) == []
    watched.check()
    watched.kept("prices")
    watched.close()


def fill_in(page, form, **fields):
    for field, text in fields.items():
        page.fill(f"#{form}-{field}", text)


def test_models_are_trained_and_asked_by_keyboard_and_distilled(demo, tmp_path):
    public = tmp_path / "public.csv"
    public.write_text("age,exercise\n" + "".join(f"{20 + place},{place % 7}\n" for place in range(40)))
    watched = Watched(demo.browser, demo.url, width=390)
    page = watched.open("/datasets/demo")
    page.click("summary:has-text('Train a model')")
    page.focus("#train-parts")
    page.keyboard.press("Control+A")
    page.keyboard.type("100")
    page.keyboard.press("Enter")
    page.wait_for_selector("#said:has-text('100 parts vote')")
    page.click("summary:has-text('Predict')")
    page.wait_for_selector("#models li:has-text('risk')")
    assert re.search(r"risk .*predicts bmi >= 26 from age, exercise. [\d,]+ predictions left", words(page, "#models"))
    page.fill("#predict-epsilon", "none")
    page.focus("#predict button.main")
    page.keyboard.press("Enter")
    page.wait_for_selector("#predict-epsilon[aria-invalid]")
    assert "epsilon are numbers" in words(page, "#predict .wrong-field").lower()
    page.fill("#predict-epsilon", "")
    page.wait_for_selector("#predict .preview:has-text('Costs at most')")
    page.click("#predict button.main")
    page.wait_for_selector("#said:has-text('more predictions like this are left') output")
    assert re.search(r"In truth, 0\.\d{3} of the people with these values: bmi >= 26", words(page, "#said"))
    page.click("summary:has-text('Label public rows')")
    page.set_input_files("#distill-file", public)
    page.fill("#distill-groups", "2")
    page.wait_for_selector("#distill .preview:has-text('one charge for the labels of all 2 groups')")
    page.click("#distill button.main")
    page.wait_for_selector("#said:has-text('of 40 public rows have a label')")
    watched.check()
    watched.kept("models")
    watched.close()


def test_rules_are_learned_shares_watched_and_datasets_registered(demo):
    watched = Watched(demo.browser, demo.url, width=390)
    page = watched.open("/datasets/demo")
    page.click("summary:has-text('Learn a rule')")
    page.click("#learn button.main")
    page.wait_for_selector("#said:has-text('In truth it errs on')")
    page.click("#learn button:has-text('Least error')")
    page.wait_for_selector("#said:has-text('The least error of stumps')")
    page.click("summary:has-text('Choose among candidates')")
    page.fill("#candidates", "old: age >= 60\nyoung: age < 30")
    page.wait_for_selector("#select .preview:has-text('rows behind the best. What is kept pays for')")
    page.click("form:has(#candidates) button")
    page.wait_for_selector("#said:has-text('In truth old is the best, with 0.')")
    assert "In the population at most 0." in words(page, "#said")
    fill_in(page, "select", top="3")
    page.wait_for_selector("#select .preview:has-text('at most the number of candidates')")
    fill_in(page, "select", top="2", epsilon="0.01")
    page.wait_for_selector("#select .preview:has-text('the next best, and so on')")
    page.click("form:has(#candidates) button")
    page.wait_for_selector("#said:has-text('the next best, and so on')")
    assert re.search("old, young|young, old", words(page, "#said"))
    page.click("summary:has-text('Watch a share')")
    page.click("#watch button.main")
    page.wait_for_selector("#watch-threshold[aria-invalid]")
    fill_in(page, "watch", query="age >= 18", threshold="0.5")
    page.click("#watch button.main")
    page.wait_for_selector("#said:has-text('The truth is')")
    page.fill("#query", "age >= 65")
    page.press("#query", "Enter")
    page.wait_for_selector("#said:has-text('age >= 65')")
    page.fill("#query", "age < 65")
    page.wait_for_selector("#preview:has-text('This already follows, for nothing')")
    page.click("button:has-text('Verify')")
    page.wait_for_selector("#verified:has-text('is whole')")
    assert find_faults(page) == []
    watched.check()
    watched.kept("learn")
    page = watched.open("/")
    assert page.locator(".tour li").count() == 8  # ask, table, select, learn, predict, holdout, attack, audit
    page.click("summary:has-text('Register a dataset')")
    page.fill("#register-path", "nowhere.csv")
    page.press("#register-path", "Tab")
    page.wait_for_selector("#register-width:has-text('one of the folders')")
    page.focus("#register-name")
    page.keyboard.press("Enter")
    page.wait_for_selector("#register-name[aria-invalid]")
    assert find_faults(page) == []
    watched.check()
    watched.kept("register")
    watched.close()


def test_what_follows_from_earlier_answers_is_taken_for_nothing(demo):
    watched = Watched(demo.browser, demo.url)
    page = watched.open("/datasets/demo")
    page.fill("#query", "age >= 66")
    page.press("#query", "Enter")
    page.wait_for_selector("#said:has-text('age >= 66')")
    page.fill("#query", "age < 66")
    page.wait_for_selector("#preview:has-text('This already follows, for nothing')")
    assert page.locator("#preview button").count() == 0  # a row may have no age: it follows, but not closely
    page.fill("#query", "age >= 66 AND (smoker OR age > 50)")
    left = find_curator(demo).budget.asks
    page.click("#preview button:has-text('Take it')")
    page.wait_for_selector("#said:has-text('Free: it follows already')")
    assert find_curator(demo).budget.asks == left
    assert "Cost 1 question" not in words(page, "#said")
    watched.check()
    watched.close()


def test_every_plot_can_be_saved_and_an_answer_says_why_it_is_this_wide(demo):
    watched = Watched(demo.browser, demo.url)
    page = watched.open("/datasets/demo")
    page.fill("#query", "age >= 40")
    page.press("#query", "Enter")
    page.click("#said summary:has-text('Why this wide')")
    assert "is noise that keeps single rows private" in words(page, "#said details")
    for path in ("/datasets/demo", "/planner", "/attack"):
        page = watched.open(path)
        page.wait_for_selector(".plot canvas")
        plots = page.locator(".plot").evaluate_all("plots => plots.map((each) => each.id)")
        for plot in plots:
            with page.expect_download() as found:
                page.click(f"[data-export='{plot}']")
            assert "<svg" in Path(found.value.path()).read_text(encoding="utf-8")
        assert plots
    watched.check()
    watched.close()


def test_an_agent_climbs_and_axe_finds_no_serious_fault_on_any_page(demo):
    watched = Watched(demo.browser, demo.url)
    page = watched.open("/climb")
    page.click("button:has-text('Let the agent climb')")
    page.wait_for_selector("button:has-text('Again')", timeout=60_000)
    page.wait_for_selector("#climbing canvas")
    assert "the gate said yes" in words(page, "#climbing")
    page = watched.open("/attack")
    page.click("button:has-text('Run the audit')")
    page.wait_for_selector("#audited tr:has-text('half of the noise') .missed", timeout=60_000)
    assert "not violated" in words(page, "#audited tr:has-text('Laplace noise')")
    assert find_faults(page) == []
    page = watched.open("/keys")
    page.fill("#name", "maria")
    page.fill("#allowance-demo", "1000")
    page.fill("#days", "30")
    page.click("button:has-text('Give key')")
    page.wait_for_selector(".problem:has-text('More is allowed than is left of demo')")
    assert "demo: " in words(page, "tr:has-text('maria')")
    watched.check()
    found = {}
    for path in ("/", "/datasets/demo", "/holdouts", "/holdouts/exam", "/climb", "/keys", "/planner", "/attack", "/history"):
        found[path] = find_faults(watched.open(path))
    assert {path: faults for path, faults in found.items() if faults} == {}
    page.evaluate("document.querySelector('main').append(document.createElement('input'))")
    assert [fault for fault, _ in page.evaluate(FAULTS)] == ["label"]  # one that is planted is found
    watched.close()


CASES = [f"case {number}" for number in range(400)]
PASSED = "id,passed\n" + "".join(f"{name},{place % 3 > 0:d}\n" for place, name in enumerate(CASES))
PUBLIC = "age,income\n" + "".join(f"{10 + 4 * place},{20_000 + 900 * place}\n" for place in range(20))
DATASET, UNITS = "/datasets/people", "/datasets/patients"
# Each form of the page: where it stands, what is written into it, and what then stands on the page.
FORMS = {
    "ask": (DATASET, {"query": "age > 30"}, "in the population"),
    "table": (DATASET, {"by": "smoker"}, "smoker"),
    "mean": (DATASET, {"column": "age"}, "The mean of age"),
    "sum": (DATASET, {"column": "age", "population": "9000"}, "The sum of age"),
    "quantile": (DATASET, {"column": "age"}, "age"),
    "variance": (DATASET, {"column": "age"}, "ariance"),
    "covariance": (DATASET, {"first": "age", "second": "income"}, "ovariance"),
    "correlation": (DATASET, {"first": "age", "second": "age", "second_low": "1"}, "orrelation"),
    "gini": (DATASET, {"column": "age"}, "Gini"),
    "r-squared": (DATASET, {"prediction": "income", "target": "age"}, "age"),
    "auc": (DATASET, {"score": "age", "label": "smoker"}, "AUC"),
    "pairs": (DATASET, {"kernel": "abs(a.age - b.age)", "high": "100"}, "pairs"),
    "ratio": (UNITS, {"numerator": "visits.COUNT(urgent)", "cap": "10"}, "atio"),
    "select": (DATASET, {"candidates": "old: age > 60\nyoung: age < 30"}, "candidates"),
    "marginals": (DATASET, {"columns": "smoker, age"}, "1 table"),
    "synthesize": (DATASET, {"columns": "smoker, age", "rows": "30"}, "30 rows"),
    "learn": (DATASET, {"target": "smoker", "columns": "age", "epsilon": "0.02"}, "more often than the best"),
    "best-error": (DATASET, {"target": "smoker", "columns": "age"}, "The least error"),
    "fit": (DATASET, {"name": "line", "target": "smoker", "features": "age", "mu": "0.02"}, "logistic for smoker"),
    "train": (DATASET, {"name": "other", "target": "smoker", "features": "age, income", "parts": "20"}, "20 parts vote"),
    "predict": (DATASET, {"model": "risk", "row": "age = 30\nincome = 50000", "epsilon": "0.02"}, "predictions like this"),
    "evaluate": (DATASET, {"entry": "1"}, "at most"),
    "distill": (DATASET, {"model": "risk", "file": PUBLIC, "groups": "4", "epsilon": "0.02"}, "20"),
    "watch": (DATASET, {"query": "age >= 0", "threshold": "0.5", "epsilon": "0.02"}, "alarms left"),
    "verify": (DATASET, {}, "is whole"),
    "datasets": ("/", {"name": "town", "path": "town.csv", "queries": "300"}, "/datasets/town"),
    "holdouts": ("/holdouts", {"file": PASSED.replace("case", "other"), "name": "other", "looks": "20"}, "/holdouts/other"),
    "score": ("/holdouts/scores", {"file": PASSED.replace("case", "scored"), "holds": "results"}, "for all looks at once"),
    "compare": (
        "/holdouts/scores",
        {"file": PASSED.replace("case", "scored"), "second": PASSED.replace("case", "scored").replace(",0", ",1")}
        | {"holds": "results"},
        "the first is",
    ),
    "submit": ("/holdouts/board", {"file": PASSED.replace("case", "board"), "name": "blue"}, "Best accuracy so far"),
    "gate": ("/holdouts/gate", {"file": PASSED.replace("case", "gate").replace(",0", ",1"), "name": "better"}, "Yes"),
    "certify": ("/holdouts/gate", {}, "incumbent"),
    "planner": ("/planner", {"queries": "500"}, "500 adaptive"),
    "climb": ("/climb", {}, "the gate said yes"),
    "attack": ("/attack", {}, "plain"),
    "audit": ("/attack", {}, "not violated"),
    "keys": ("/keys", {"name": "eva", "days": "9"}, "eva"),
    "revoke": ("/keys", {}, "revoked"),
    "logout": ("/", {}, "/login"),
}
ADDRESSES = """() => [...document.querySelectorAll("form:not(.vega-bindings), [formaction]:not([formaction*=preview])")].map(
    (each) => each.getAttribute("formaction") ?? each.getAttribute("action"))"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory, browser):
    """Yield a service with a dataset of rows, one of units and a holdout of each kind, and its owner signed in by hand."""
    held = made(tmp_path_factory.mktemp("whole"))
    write_units(held.folder)
    (held.folder / "town.csv").write_text("age\n" + "".join(f"{place % 80}\n" for place in range(3_000)))
    registry = held.service.registry
    registry.register("patients", TERMS)
    pq.write_table(pa.table({"day": np.datetime64("2026-01-01") + np.arange(3_000) % 365}), held.folder / "stays.parquet")
    registry.register("stays", {"path": "stays.parquet", "queries": 100, "iid": True})
    curator = registry.open_dataset("people").curator
    curator.learn(ht.Stumps(bounds={"age": (0, 100)}, steps=4), target="smoker", epsilon=0.02)  # the first entry
    curator.train("risk", DecisionTreeClassifier(max_depth=2), target="smoker", features=["age", "income"], parts=20)
    marks = [place % 3 > 0 for place in range(len(CASES))]
    ids = {name: [case.replace("case", name) for case in CASES] for name in ("gate", "scored", "board")}
    registry.register_holdout("gate", {"cases": 400, "ids": ids["gate"], "looks": 20, "yes": 2, "incumbent": marks})
    registry.register_holdout("scores", {"cases": 400, "ids": ids["scored"], "looks": 20})
    registry.register_holdout(
        "board", {"kind": "leaderboard", "y_true": [int(mark) for mark in marks], "ids": ids["board"], "submissions": 20}
    )
    with living(held.app) as client:
        watched = Watched(browser, str(client.base_url).rstrip("/"), width=390, accepts=True)
        page = watched.open("/")
        page.keyboard.type(held.keys["owner"])  # the field of the key has the caret
        page.keyboard.press("Enter")
        page.wait_for_selector("text=Register a dataset")
        yield watched
        watched.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_medians_of_dates_are_asked_and_drawn_and_wrong_dates_told_beside_their_fields(whole, width):
    page = whole.open("/datasets/stays")
    page.set_viewport_size({"width": width, "height": 900})
    page.click("label:has(#kind-quantile)")
    page.click("#quantile label:has(input[name=column][value=day])")
    assert page.input_value("#quantile-step") == "1"
    page.fill("#quantile-low", "2026-02-30")
    page.fill("#quantile-high", "2027-01-01")
    page.click("#quantile button.main")
    page.wait_for_selector("#quantile-low[aria-invalid]")
    assert "must be a date such as" in words(page, "#quantile .wrong-field")
    page.fill("#quantile-low", "2026-01-01")
    page.wait_for_selector("#quantile-price:has-text('366 points')")
    page.click("#quantile button.main")
    page.wait_for_selector("#said:has-text('The median of day') canvas")
    assert re.search(r"2026-\d\d-\d\d between 2026-\d\d-\d\d and 2026-\d\d-\d\d in the population", words(page, "#said"))
    page.fill("#quantile-levels", "0.1, 0.5, 0.9")
    page.check("#quantile [name=curve]")
    page.click("#quantile button.main")
    page.wait_for_selector("#said [data-plot=distribution] canvas")
    marks = json.loads(page.get_attribute("#said [data-plot=distribution]", "data-marks"))
    assert all(mark["said"].startswith("202") and mark["low"] > 1.7e12 for mark in marks)
    with page.expect_download() as found:
        page.click("#said >> text=Export the distribution")
    drawn = Path(found.value.path()).read_text(encoding="utf-8")
    assert ">July</text>" in drawn
    assert drawn.count('stroke-width="12"') >= 3  # the intervals
    assert find_faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    whole.kept(f"dates-{width}")
    page.set_viewport_size({"width": 390, "height": 900})
    whole.check()


def write_form(page, form, values):
    """Fill in a form by the keyboard, but for files."""
    for name, text in values.items():
        field = form.locator(f"[name={name}]").first
        match field.evaluate("(each) => each.type"):
            case "file":
                field.set_input_files({"name": f"{name}.csv", "mimeType": "text/csv", "buffer": text.encode()})
            case "radio":
                form.locator(f"[name={name}][value={text}]").focus()
                page.keyboard.press("Space")
            case _:
                field.focus()
                page.keyboard.press("Control+A")
                page.keyboard.insert_text(text)


def test_every_form_of_the_page_is_in_the_walk(whole):
    found = set()
    for path in {path for path, _, _ in FORMS.values()} | {"/history", "/docs"}:
        found |= {address.rsplit("/", 1)[1] for address in whole.open(path).evaluate(ADDRESSES)}
    assert found - {"check"} == set(FORMS)


def send_form(whole, kind):
    """Fill in a form of a page by the keyboard, send it and wait for what it says."""
    path, values, said = FORMS[kind]
    page = whole.open(path)
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    shown = page.locator(f"#kind-{kind}")
    if shown.count():
        for each in ("more", kind) if page.locator("#more-kinds, .kinds").count() > 1 else (kind,):
            page.locator(f"#kind-{each}").focus()
            page.keyboard.press("Space")
    form = page.locator(f"form[action$='/{kind}']").first
    send = page.locator(f"[formaction$='/{kind}']")
    if send.count():
        form = send.locator("xpath=ancestor::form")
    else:
        send = form.locator("button:not([formaction])").last if kind != "planner" else None
    write_form(page, form, values)
    if send is None:
        page.keyboard.press("Tab")
    else:
        send.focus()
        page.keyboard.press("Enter")
    if said.startswith("/"):
        page.wait_for_url(f"**{said}")
    else:
        page.wait_for_selector(f"main:has-text({json.dumps(said)})", timeout=30_000)
    assert page.locator(".wrong-field, .problem").count() == 0


@pytest.mark.parametrize("width", [390, 1280])
def test_the_form_of_a_dataset_says_how_wide_its_answers_would_be(whole, width):
    page = whole.open("/")
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.fill("#register-path", "town.csv")
    page.press("#register-path", "Tab")
    page.wait_for_selector("#register-width:has-text('3,000 rows, 300 questions')")
    assert find_faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.set_viewport_size({"width": 390, "height": 900})
    whole.check()


@pytest.mark.parametrize("kind", FORMS)
def test_a_form_is_filled_in_and_sent_by_the_keyboard_on_a_phone(whole, kind):
    if kind == "synthesize":  # rows are made from a table that was released
        send_form(whole, "marginals")
    send_form(whole, kind)
    whole.check()
