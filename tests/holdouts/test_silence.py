"""P8 for holdouts: what is refused is refused in the same words whatever a label is, and everything public is equal.

Neighbours differ in one label: a longer text, a larger integer, one beyond 64 bits, a fraction, a label that is new.
"""

import httpx
import numpy as np
import pytest

import holdtrue as ht
from holdtrue.codec import encode
from holdtrue.errors import InvalidParameter
from holdtrue.holdouts import Holdout, Leaderboard
from holdtrue.holdouts.cases import Cases, array_of
from service.conftest import made
from service.living import living

CASES = 4_000
RANDOM = np.random.default_rng(53)
NUMBERS = RANDOM.integers(0, 2, CASES)
TEXTS = np.array(["no", "yes"])[NUMBERS]
TRAIN = RANDOM.integers(0, 2, CASES)


def changed(labels, label):
    """Return the same labels but for one, as an array of whatever type holds them."""
    listed = labels.tolist()
    return np.array([label, *listed[1:]]) if not isinstance(label, float) else np.array([label, *map(float, listed[1:])])


NEIGHBOURS = {
    "numbers": [NUMBERS, *(changed(NUMBERS, label) for label in (7, -1, 40_000, 2**40, 2**63, 0.5, 1e300))],
    "text": [TEXTS, *(changed(TEXTS, label) for label in ("maybe", "", "a label of thirty-one characters", "нет"))],
}
# As many runs as looks: a look that noise shows as overfitted uses one up, and the next refusal would say so.
MODES = {
    "scores": {},
    "rounding": {"private": False},
    "gate": {"yes": 3},
    "private gate": {"yes": 3, "private": True},
    "thresholdout": {"overfits": 20},
    "guess-and-check": {"overfits": 20, "private": False},
    "ladder": {},
    "parameter-free ladder": {},
    "private ladder": {"moves": 3},
    "private": {},
}
BOARDS = ("ladder", "parameter-free ladder", "private ladder", "private")


def open_mode(mode, truth):
    if mode in BOARDS:
        return Leaderboard(truth, submissions=20, rule=mode, **MODES[mode])
    train = {"train": TRAIN if truth.dtype.kind != "U" else TEXTS} if "overfits" in MODES[mode] else {}
    return Holdout(truth, looks=20, **MODES[mode], **train)


def fail(truth, predicted):
    message = f"{truth[0]!r} is not {predicted[0]!r}"
    raise ValueError(message)


def fail_by_shape(truth, predicted):
    return np.zeros(len(str(truth[0]))) if len(predicted) else None


PREDICTIONS = {
    "text": TEXTS,
    "numbers": NUMBERS,
    "fractions": NUMBERS / 3,
    "long text": np.full(CASES, "x" * 50),
    "large numbers": np.full(CASES, 2**63, dtype=np.uint64),
    "too few": NUMBERS[1:],
    "NaN": np.full(CASES, np.nan),
    "two dimensions": np.ones((CASES, 2)),
    "objects": [object()] * CASES,
    "mixed": [1, "a"] * (CASES // 2),
    "none": None,
    "chances": np.full(CASES, 0.25),
}
METRICS = ("accuracy", "error", "brier", "recall", "f1", fail, fail_by_shape)


def ask(opened, predicted, metric):
    if isinstance(opened, Leaderboard):
        return opened.submit("team", predicted)
    if opened.facts.mode.endswith("gate"):
        return opened.gate(predicted, margin=0.99)
    train = {} if opened._train is None else {"train": opened._train}
    return opened.score(predicted, metric=metric, of=1 if metric == "recall" else None, **train)


def outcome(opened, predicted, metric):
    """Return what is public of a look: the error's kind and words, or everything about the answer but what was drawn."""
    try:
        told = ask(opened, predicted, metric)
    except ht.HoldtrueError as error:
        hidden = error.__cause__ is None and (error.__suppress_context__ or error.__context__ is None)
        return type(error).__name__, str(error), hidden
    return told.repeated, told.about, told.certificate.theorem


def transcript(mode, truth):
    """Return everything public of a holdout and of every look at it that goes wrong, in order."""
    with open_mode(mode, truth) as opened:
        public = [repr(opened), encode(opened.facts), encode(opened.plan)]
        metrics = METRICS if mode in ("scores", "rounding", "thresholdout", "guess-and-check") else ("accuracy",)
        for metric in metrics:
            for kind, predicted in PREDICTIONS.items():
                found = outcome(opened, predicted, metric)
                public.append((getattr(metric, "__name__", metric), kind, found))
        return public


@pytest.mark.parametrize("kind", NEIGHBOURS)
@pytest.mark.parametrize("mode", MODES)
def test_p8_refusals_are_the_same_words_whatever_one_label_is(mode, kind):
    first, *others = [transcript(mode, truth) for truth in NEIGHBOURS[kind]]
    refused = [found for *_, found in first[3:] if isinstance(found[0], str)]
    assert len(refused) >= 5
    assert all(hidden for *_, hidden in refused)  # no error of a look at labels hangs behind the one that is told
    for other in others:
        assert other == first


@pytest.mark.parametrize("kind", NEIGHBOURS)
def test_the_old_words_are_found(monkeypatch, kind):
    """The control: a refusal that names the type which the labels are kept in."""

    def predictions(self, values, ids=None):
        array = array_of("y_pred", values)
        if (array.dtype.kind == "U") != (self.truth.dtype.kind == "U"):
            raise InvalidParameter("y_pred", f"labels of type {array.dtype}", f"labels like {self.truth.dtype}")
        return self.order_by_ids(array, ids)

    monkeypatch.setattr(Cases, "predictions", predictions)
    words = {str(transcript("scores", truth)) for truth in NEIGHBOURS[kind]}
    assert len(words) > 2


def test_the_kind_of_labels_is_fixed_when_the_holdout_is_created_and_text_beside_numbers_is_refused(tmp_path):
    with Holdout(NUMBERS, looks=5, ledger=tmp_path / "a.ledger") as holdout:
        assert holdout.facts.label_kind == "numbers"
    with pytest.raises(ht.FingerprintMismatch):
        Holdout(NUMBERS.astype(str), ledger=tmp_path / "a.ledger")
    with pytest.raises(ht.InvalidParameter, match="several types"):
        Holdout([1, "a"] * 300, looks=5)


def test_a_metric_that_raises_is_charged_and_says_nothing():
    with Holdout(TEXTS, looks=5) as holdout:
        for metric in (fail, fail_by_shape):
            with pytest.raises(ht.ReleaseError, match="could not be measured") as error:
                holdout.score(TEXTS, metric=metric)
            assert "yes" not in str(error.value)
            assert "no" not in str(error.value).split()
        assert holdout.looks_left == 3


@pytest.mark.parametrize("values", [np.full(CASES, 1.5), np.full(CASES, np.nan), np.full(CASES, -1.0), np.zeros(CASES)])
def test_results_are_never_refused_by_what_they_hold(values):
    with Holdout(NUMBERS, looks=5) as holdout:
        assert holdout.score(cases=values).looks_left == 4
        assert holdout.compare_cases(values, np.zeros(CASES)).looks_left == 3


BODIES = [
    {"y_pred": ["yes"] * CASES},
    {"y_pred": [1] * CASES},
    {"y_pred": [0.25] * CASES},
    {"y_pred": ["yes"]},
    {"y_pred": [2**62] * CASES, "metric": "error"},
    {"y_pred": ["yes"] * CASES, "metric": "brier"},
    {"y_pred": [0.25] * CASES, "metric": "brier"},
    {"y_pred": ["yes"] * CASES, "metric": "recall", "of": "yes"},
    {"y_pred": [1] * CASES, "metric": "recall", "of": 1},
    {"cases": [1]},
]
DRAWN = ("request", "request_id", "instance")  # a random id for every request
PLACES = [("score", {}), ("gate", {"yes": 3}), ("submit", {"kind": "leaderboard", "looks": None, "submissions": 20})]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    found = made(tmp_path_factory.mktemp("silence"))
    with living(found.app) as served:
        headers = {"Authorization": f"Bearer {found.keys['owner']}"}
        with httpx.Client(base_url=served.base_url, headers=headers, timeout=60) as opened:
            yield opened


@pytest.mark.parametrize("kind", NEIGHBOURS)
@pytest.mark.parametrize(("verb", "given"), PLACES)
def test_p8_over_http_status_and_body_are_the_same_whatever_one_label_is(client, verb, given, kind):
    said = []
    for number, truth in enumerate(truth for truth in NEIGHBOURS[kind] if truth.dtype != np.uint64):
        name = f"{verb}-{kind}-{number}"
        body = {"name": name, "y_true": truth.tolist(), "looks": 20} | given
        card = client.post("/v1/holdouts", json={key: value for key, value in body.items() if value is not None})
        assert card.status_code == 201, card.text
        told = [card.text]
        for place, look in enumerate(BODIES):
            sent = {key: value for key, value in look.items() if verb == "score" or key in ("y_pred", "cases")}
            found = client.post(f"/v1/holdouts/{name}/{verb}", json=sent, headers={"Idempotency-Key": f"k{place}"})
            words = {key: value for key, value in found.json().items() if key not in DRAWN}
            told.append((found.status_code, "answered" if found.status_code == 200 else words))
        said.append(str(told).replace(name, "NAME"))
    assert "as the labels of this holdout are" in said[0]
    assert set(said) == {said[0]}
