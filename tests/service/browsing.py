"""A real browser for tests of the page: Chromium as Debian has it, watched for whatever must not happen."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""


@contextmanager
def browsing() -> Iterator[object]:
    if not Path(CHROMIUM).exists():
        pytest.fail(f"these tests need a browser at {CHROMIUM}: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page that keeps what must be empty: console errors, dialogs, requests to others, policy violations, a canary."""

    def __init__(self, browser, address, *, width=1280, height=900, scheme="light", accepts=False):
        self.address = address
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
        )
        self.context.add_init_script(WATCH)
        self.context.set_default_timeout(20_000)
        self.page = self.context.new_page()
        self.width, self.scheme, self.accepts = width, scheme, accepts
        self.errors, self.dialogs, self.strangers = [], [], []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", self._dialog)
        self.page.on("request", self._asked)

    def _heard(self, message):
        # A refusal has a status, and Chromium writes every such status to the console.
        if message.type == "error" and "the server responded with a status of 4" not in message.text:
            self.errors.append(message.text)

    def _dialog(self, dialog):
        self.dialogs.append(dialog.message)
        if self.accepts:
            dialog.accept()
        else:
            dialog.dismiss()

    def _asked(self, request):
        if not request.url.startswith(self.address + "/"):
            self.strangers.append(request.url)

    def open(self, path):
        self.page.goto(self.address + path)
        self.page.wait_for_load_state("load")
        return self.page

    def kept(self, name):
        """Keep a picture; the caret stays as it is, since hiding it would need a style that the policy forbids."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}-{self.width}-{self.scheme}.png", full_page=True, caret="initial")

    def check(self):
        """Fail if anything happened that must not."""
        violations = self.page.evaluate("window.violations")
        assert (self.errors, self.strangers, violations) == ([], [], [])
        assert self.page.evaluate("window.canary === undefined")
        assert self.page.evaluate("document.documentElement.scrollWidth") <= self.width

    def close(self):
        self.context.close()
