"""One walk through the page's forms in a real browser: files, sums and statistics, keys; by keyboard, on a phone, by axe.

axe-core 4.10.3 (MPL-2.0) is beside this file, with its licences; it looks for what people with a reader or a keyboard meet.
"""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdtrue.service.http.serving import prepare_demo
from service.browsing import Watched, browsing
from service.living import living

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
def demo(tmp_path_factory):
    prepared = prepare_demo(tmp_path_factory.mktemp("walk"))
    with living(prepared.app) as client, browsing() as browser:
        url = str(client.base_url).rstrip("/")
        yield SimpleNamespace(url=url, app=prepared.app, browser=browser, files=prepared.app.state.demo_files)


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


def test_a_file_is_dropped_the_verdict_seen_and_the_looks_drawn_and_saved(demo):
    watched = Watched(demo.browser, demo.url)
    page = watched.open("/holdouts/exam")
    assert "54" in words(page, "#left")
    drop_file(page, demo, "rephrased.csv")
    page.wait_for_selector("#said output:has-text('No')")
    drop_file(page, demo, "better.csv")
    page.wait_for_selector("#said output:has-text('Yes')")
    assert "52 looks and 4 yes left" in words(page, "#said")
    assert page.get_attribute("#looks svg", "aria-label") == "8 looks: yes at look 8, no 7 times"
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
    page.click("form:has(#candidates) button")
    page.wait_for_selector("#said:has-text('In truth old is the best, with 0.')")
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
    page.focus("#register-name")
    page.keyboard.press("Enter")
    page.wait_for_selector("#register-name[aria-invalid]")
    assert find_faults(page) == []
    watched.check()
    watched.kept("register")
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
