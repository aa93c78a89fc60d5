"""The pictures of bounds are what docs/pictures.py draws: committed, shown, and the same when drawn again."""

import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
SHOWN = {
    name
    for folder in ("theory", "lectures")
    for page in (DOCS / folder).glob("*.md")
    for name in re.findall(r"images/theory/([a-z0-9-]+)\.svg", page.read_text())
}
NUMBER = re.compile(r"-?\d+\.\d+")
# Matplotlib names a shape by a hash of its coordinates.
NAME = re.compile(r"\b[a-z][0-9a-f]{10}\b")


@pytest.fixture(scope="module")
def pictures():
    spec = importlib.util.spec_from_file_location("pictures", DOCS / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def numbers(text):
    """Return the numbers in a picture, and what is left of it without them."""
    drawn = NAME.sub("", text[text.index("<g ") :])
    return [float(number) for number in NUMBER.findall(drawn)], NUMBER.sub("", drawn)


def same(drawn, committed):
    """Whether two pictures differ by less than anyone can see: a last digit may depend on the processor."""
    (here, text), (there, other) = numbers(drawn), numbers(committed)
    return text == other and all(abs(a - b) <= 0.01 for a, b in zip(here, there, strict=True))


def test_pictures_that_are_shown_drawn_and_committed_are_the_same(pictures):
    committed = {path.stem for path in pictures.FOLDER.glob("*.svg")}
    assert set(pictures.PICTURES) == committed == SHOWN


@pytest.mark.parametrize("name", ["gaussian-tv", "soft-majority", "interval"])
def test_a_picture_drawn_again_is_the_committed_one(pictures, tmp_path, name):
    drawn = pictures.write(name, tmp_path).read_text()
    assert same(drawn, (pictures.FOLDER / f"{name}.svg").read_text())


def test_a_picture_of_another_bound_is_noticed(pictures, tmp_path, monkeypatch):
    right = pictures.write("soft-majority", tmp_path).read_text()
    exact = pictures.prediction.soft_majority_loss
    monkeypatch.setattr(pictures.prediction, "soft_majority_loss", lambda parts, rate: 1.01 * exact(parts, rate=rate))
    assert not same(pictures.write("soft-majority", tmp_path).read_text(), right)


def test_pictures_have_the_same_bytes_twice(pictures, tmp_path):
    first = pictures.write("gaussian-tv", tmp_path).read_bytes()
    assert pictures.write("gaussian-tv", tmp_path).read_bytes() == first
    assert b"<dc:date>" not in first


def test_pictures_ask_nothing_of_the_network(pictures):
    for path in pictures.FOLDER.glob("*.svg"):
        # The names of the SVG, XLink and metadata vocabularies are addresses that nobody visits.
        assert not re.search(r"(?:href|src)=\"https?:", path.read_text())
