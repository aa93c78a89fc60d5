"""Predictions under the Open Inference Protocol: a client from PyPI gets them unchanged; everything hostile is refused."""

import itertools
import json
import struct
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import holdtrue as ht
from holdtrue.service import inference
from service.conftest import made
from service.living import living

ROWS = 4_000
TOWN = {
    "path": "town.parquet",
    "queries": 50,
    "epsilon": 8.0,
    "delta": 1e-6,
    "reserve": 0.9,
    "cap": "privacy",
    "bounds": {"age": [0, 100], "bmi": [10, 60]},
    "labels": {"verdict": ["fine", "ill"], "sick": [0, 1]},
}
COLUMNS = ["age", "bmi", "smoker", "region"]
FEATURES = ["age", "bmi", "smoker", "region = 'N'"]
OLD = {"age": 90, "bmi": 31.5, "smoker": True, "region": "N"}
YOUNG = {"age": 20, "bmi": 22.0, "smoker": False, "region": "S"}


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """A service with models of every kind of label."""
    found = made(tmp_path_factory.mktemp("town"))
    random = np.random.default_rng(1872)
    age, bmi = random.integers(0, 100, ROWS), np.round(random.uniform(10, 60, ROWS), 1)
    rows = {"age": age, "bmi": bmi, "smoker": random.random(ROWS) < 0.3, "region": random.choice(["N", "S"], ROWS)}
    rows |= {"verdict": np.where(age > 60, "ill", "fine"), "sick": (age > 60).astype(np.int64), "old": age > 60}
    pq.write_table(pa.table(rows), found.folder / "town.parquet")
    found.curator = found.service.registry.register("town", TOWN).curator
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    for name, target in (("words", "verdict"), ("numbers", "sick"), ("flags", "old")):
        found.curator.train(name, DecisionTreeClassifier(max_depth=2), target=target, features=FEATURES, parts=60)
    found.curator.train("reals", DecisionTreeRegressor(max_depth=2), target="bmi", features=["age"], parts=60)
    found.curator.train("plain", DecisionTreeClassifier(max_depth=2), target="sick", features=["age", "bmi"], parts=60)
    with living(found.app) as client:
        found.client = client
        found.url = str(client.base_url).rstrip("/")
        client.headers["Authorization"] = f"Bearer {found.keys['analyst']}"
        yield found


def inferred(town, model, *asked):
    """Return what tritonclient makes of requests, in a process of its own."""
    told = {"url": town.url, "key": town.keys["analyst"], "model": model, "asked": list(asked)}
    script = Path(__file__).with_name("inferring.py")
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, str(script)], input=json.dumps(told), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def tensors(*rows):
    """Return rows as one tensor for each column."""
    types = {"age": "INT64", "bmi": "FP64", "smoker": "BOOL", "region": "BYTES"}
    return [[name, types[name], [row[name] for row in rows]] for name in COLUMNS]


@pytest.mark.parametrize(("model", "datatype"), [("words", "BYTES"), ("numbers", "INT64"), ("flags", "BOOL")])
def test_a_client_from_pypi_gets_predictions_unchanged(town, model, datatype):
    asked = {"inputs": tensors(OLD, YOUNG), "epsilon": 0.4, "id": f"{model}-1"}
    said = inferred(town, f"town.{model}", asked | {"binary": True}, asked | {"binary": False})
    assert (said["live"], said["ready"], said["model_ready"]) == (True, True, True)
    assert said["server"]["name"] == "holdtrue"
    inputs = [(item["name"], item["datatype"]) for item in said["model"]["inputs"]]
    assert inputs == [("age", "INT64"), ("bmi", "FP64"), ("smoker", "BOOL"), ("region", "BYTES")]
    assert said["model"]["outputs"] == [{"name": "label", "datatype": datatype, "shape": [-1]}]
    expected = [town.curator.predict(model, row, epsilon=0.4) for row in (OLD, YOUNG)]
    assert all(each.repeated for each in expected)
    binary, plain = said["replies"]
    assert binary["labels"] == plain["labels"] == [each.label for each in expected]
    certificate = expected[0].certificate
    for reply in (binary, plain):
        assert reply["response"]["id"] == f"{model}-1"
        paid = reply["response"]["parameters"]
        assert (paid["cost"], paid["left"], paid["entry"]) == (certificate.cost, certificate.left, certificate.entry)
    lines = [line for line in town.curator.history if line.verb == "predict" and model in line.request]
    assert len(lines) == 1
    assert lines[0].analyst == "the analyst"


def test_numbers_and_matrices_through_the_client(town):
    reals = {"inputs": [["age", "FP64", [[30.0], [70.0]]]], "epsilon": 0.4, "id": "r", "binary": True}
    (said,) = inferred(town, "town.reals", reals)["replies"]
    expected = town.curator.predict("reals", {"age": [30, 70]}, epsilon=0.4)
    assert said["labels"] == [each.label for each in expected]
    assert said["response"]["parameters"]["noise"] == expected[0].noise > 0
    matrix = [[90.0, 31.5], [20.0, 22.0]]
    asked = [
        {"inputs": [["rows", "FP64", matrix]], "epsilon": 0.4, "header": "by header", "binary": True},
        {"inputs": [["age", "INT32", [90, 20]], ["bmi", "FP64", [31.5, 22.0]]], "id": "same point", "binary": False},
        {"inputs": [["rows", "FP64", matrix]], "epsilon": 0.4, "binary": True},
    ]
    first, second, third = inferred(town, "town.plain", *asked)["replies"]
    assert first["labels"] == second["labels"]
    # One point is one point, however it is written: the second request was answered from the ledger.
    assert first["response"]["parameters"]["entry"] == second["response"]["parameters"]["entry"]
    assert third["status"] == "400"
    assert "Idempotency-Key" in third["error"]


def test_a_number_with_normal_noise_and_a_label_with_its_certificate(town):
    reals = {"inputs": [column("age", "INT64", [41, 42])], "parameters": {"mu": 0.05}}
    said = infer(town, reals, model="town.reals", key="normal").json()
    expected = town.curator.predict("reals", {"age": [41, 42]}, mu=0.05)
    assert said["outputs"][0]["data"] == [each.label for each in expected]
    assert said["parameters"]["noise"] == expected[0].noise
    assert all(each.repeated and "normal noise" in each.certificate.theorem for each in expected)
    speed = np.random.default_rng(5).uniform(0, 200, ROWS)
    pq.write_table(pa.table({"speed": speed, "fined": speed >= 120}), town.folder / "roads.parquet")
    terms = {"path": "roads.parquet", "queries": 10, "epsilon": 4.0, "delta": 1e-6, "reserve": 0.8, "cap": "privacy"}
    roads = town.service.registry.register("roads", terms | {"iid": True}).curator
    rules = ht.Stumps(bounds={"speed": (0, 200)}, steps=20)
    roads.train("fines", hypotheses=rules, target="fined", parts=20, order="fixed", assuming="realizable")
    body = {"inputs": [column("speed", "FP64", [150.0, 30.0])], "parameters": {"epsilon": 0.3}}
    paid = infer(town, body, model="roads.fines", key="bound").json()["parameters"]
    bounds = {each.error_bound for each in roads.predict("fines", {"speed": [150.0, 30.0]}, epsilon=0.3)}
    assert bounds == {paid["error_bound"]}
    assert 0 < paid["error_bound"] < 0.5
    assert not {"noise", "excess_error"} & set(paid)
    # A label that was bought by a rule without a certificate has none, and neither have two of which one has none.
    roads.predict("fines", {"speed": 60.0}, method="noisy-max", epsilon=0.1)
    mixed = {"inputs": [column("speed", "FP64", [150.0, 60.0])]}
    assert "error_bound" not in infer(town, mixed, model="roads.fines", key="mixed").json()["parameters"]


def infer(town, body, *, key="k", model="town.plain", **headers):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = ({} if key is None else {"Idempotency-Key": key}) | {
        name.replace("_", "-"): text for name, text in headers.items()
    }
    return town.client.post(f"/v2/models/{model}/infer", content=content, headers=given)


def column(name, datatype, data, shape=None, **more):
    return {"name": name, "datatype": datatype, "shape": [len(data)] if shape is None else shape, "data": data} | more


AGE, BMI = column("age", "INT64", [90]), column("bmi", "FP64", [31.5])


def test_the_same_request_gets_the_same_bytes_and_is_charged_once(town):
    body = {"id": "x", "inputs": [column("age", "INT64", [44]), BMI], "parameters": {"epsilon": 0.3}}
    before = len(town.curator.history)
    replies = [infer(town, body, key="once") for _ in range(4)]
    assert len({reply.content for reply in replies}) == 1
    assert replies[0].status_code == 200
    assert len(town.curator.history) == before + 1
    other = body | {"inputs": [column("age", "INT64", [45]), BMI]}
    told = infer(town, other, key="once")
    assert told.status_code == 409
    assert len(town.curator.history) == before + 1
    # The id names a request where no header does.
    assert infer(town, other | {"id": "once"}, key=None).status_code == 409
    assert infer(town, body | {"id": "once"}, key=None).json()["outputs"] == replies[0].json()["outputs"]
    assert len(town.curator.history) == before + 1


def test_planted_fault_a_key_that_is_not_the_requests_own_refuses_nothing(town, monkeypatch):
    """Control: the test above sees a service that names each try differently."""
    tries = itertools.count()
    monkeypatch.setattr(inference, "request_id_of", lambda caller, key: f"{caller.name} {key} {next(tries)}")
    for age in (46, 47):
        body = {"inputs": [column("age", "INT64", [age]), BMI], "parameters": {"epsilon": 0.1}}
        assert infer(town, body, key="planted").status_code == 200


def test_refusals_speak_both_languages(town):
    told = infer(town, {"inputs": [AGE]})
    assert told.status_code == 422
    assert told.headers["content-type"] == "application/problem+json"
    document = told.json()
    assert document["error"] == document["detail"]
    assert document["type"] == "urn:holdtrue:invalid-parameter"
    assert "age, bmi" in document["detail"]
    assert town.client.get("/v2/models/town.nothing").status_code == 404
    assert town.client.get("/v2/models/nowhere.plain/ready").status_code == 404
    assert town.client.get("/v2/models/a.b.c").status_code in (404, 422)
    with httpx.Client(base_url=town.url) as nobody:
        assert nobody.get("/v2/health/live").status_code == 200
        assert nobody.get("/v2/health/ready").status_code == 200
        assert {nobody.get(path).status_code for path in ("/v2", "/v2/models/town.plain")} == {401}
        assert nobody.post("/v2/models/town.plain/infer", json={"inputs": [AGE, BMI]}).status_code == 401
        auditor = {"Authorization": f"Bearer {town.keys['auditor']}", "Idempotency-Key": "a"}
        assert nobody.post("/v2/models/town.plain/infer", json={"inputs": [AGE, BMI]}, headers=auditor).status_code == 403


HOSTILE = [
    b"",
    b"[]",
    b"\xff",
    b"[" * 50_000,
    b'{"inputs": NaN}',
    b'{"inputs": [], "inputs": []}',
    {},
    {"inputs": []},
    {"inputs": {}},
    {"inputs": [1]},
    {"inputs": [AGE]},
    {"inputs": [AGE, AGE, BMI]},
    {"inputs": [AGE, BMI, column("zauberwort", "INT64", [1])]},
    {"inputs": [AGE, BMI], "zauberwort": 1},
    {"inputs": [AGE, BMI], "id": 5},
    {"inputs": [AGE, BMI], "parameters": []},
    {"inputs": [AGE, BMI], "parameters": {"zauberwort": 1}},
    {"inputs": [AGE, BMI], "parameters": {"epsilon": -1}},
    {"inputs": [AGE, BMI], "parameters": {"epsilon": True}},
    {"inputs": [AGE, BMI], "parameters": {"epsilon": "1"}},
    {"inputs": [AGE, BMI], "parameters": {"mu": 0}},
    {"inputs": [AGE, BMI], "parameters": {"epsilon": 1, "mu": 1}},
    {"inputs": [AGE, BMI], "parameters": {"binary_data_output": 1}},
    {"inputs": [AGE, BMI], "outputs": [{"name": "zauberwort"}]},
    {"inputs": [AGE, BMI], "outputs": [{"name": "label"}, {"name": "label"}]},
    {"inputs": [AGE, BMI], "outputs": [{"name": "label", "parameters": {"classification": 3}}]},
    {"inputs": [AGE, column("bmi", "FP64", [1.0, 2.0])]},
    {"inputs": [AGE, column("bmi", "FP64", [1.0], [2])]},
    {"inputs": [AGE, column("bmi", "FP64", [1.0], [0])]},
    {"inputs": [AGE, column("bmi", "FP64", [1.0], [-1])]},
    {"inputs": [AGE, column("bmi", "FP64", [1.0], [True])]},
    {"inputs": [AGE, column("bmi", "FP64", [1.0], [1.0])]},
    {"inputs": [AGE, column("bmi", "FP64", [1.0], [])]},
    {"inputs": [AGE, column("bmi", "FP64", [1.0], [1, 1, 1])]},
    {"inputs": [AGE, column("bmi", "FP64", [1.0], [2**62])]},
    {"inputs": [AGE, column("bmi", "FP64", [1.0], [10**9, 10**9])]},
    {"inputs": [AGE, column("bmi", "FP64", ["zauberwort"])]},
    {"inputs": [AGE, column("bmi", "FP64", [None])]},
    {"inputs": [AGE, column("bmi", "FP64", [[[1.0]]], [1, 1])]},
    {"inputs": [AGE, column("bmi", "BYTES", ["zauberwort"])]},
    {"inputs": [AGE, column("bmi", "BOOL", [True])]},
    {"inputs": [AGE, column("bmi", "zauberwort", [1])]},
    {"inputs": [column("age", "FP64", [1.5]), BMI]},
    {"inputs": [column("age", "INT8", [300]), BMI]},
    {"inputs": [column("age", "INT64", [1.0]), BMI]},
    {"inputs": [column("rows", "FP64", [1.0, 2.0, 3.0], [1, 3])]},
    {"inputs": [column("rows", "INT64", [1, 2], [1, 2])]},
    {"inputs": [column("rows", "FP64", [1.0, 2.0])]},
    {"inputs": [AGE, column("bmi", "FP64", [1.0], parameters={"binary_data_size": 8})]},
    {"inputs": [column("age", "INT64", [1] * 1001), column("bmi", "FP64", [1.0] * 1001)]},
]


@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
def test_everything_hostile_is_refused_and_nothing_is_spent(town, body):
    before = town.curator.budget.spent
    told = infer(town, body, key="hostile")
    assert told.status_code in (400, 422), told.text
    assert told.headers["content-type"] == "application/problem+json"
    assert "zauberwort" not in told.text
    assert town.curator.budget.spent == before


def packed(document, *pieces):
    text = json.dumps(document).encode()
    return text + b"".join(pieces), str(len(text))


def blob(name, datatype, shape, size):
    return {"name": name, "datatype": datatype, "shape": shape, "parameters": {"binary_data_size": size}}


EIGHT = struct.pack("<q", 91)
REAL = struct.pack("<d", 30.5)
BINARY = {
    "too short": ({"inputs": [blob("age", "INT64", [1], 8), blob("bmi", "FP64", [1], 8)]}, EIGHT, REAL[:4]),
    "too long": ({"inputs": [blob("age", "INT64", [1], 8), blob("bmi", "FP64", [1], 8)]}, EIGHT, REAL, b"more"),
    "other size": ({"inputs": [blob("age", "INT64", [1], 4), blob("bmi", "FP64", [1], 8)]}, EIGHT[:4], REAL),
    "other shape": ({"inputs": [blob("age", "INT64", [2], 8), blob("bmi", "FP64", [1], 8)]}, EIGHT, REAL),
    "below zero": ({"inputs": [blob("age", "INT64", [1], -8), blob("bmi", "FP64", [1], 8)]}, EIGHT, REAL),
    "huge": ({"inputs": [blob("age", "INT64", [1], 2**62), blob("bmi", "FP64", [1], 8)]}, EIGHT, REAL),
    "no number": ({"inputs": [blob("age", "INT64", [1], "8"), blob("bmi", "FP64", [1], 8)]}, EIGHT, REAL),
    "both": ({"inputs": [blob("age", "INT64", [1], 8) | {"data": [1]}, blob("bmi", "FP64", [1], 8)]}, EIGHT, REAL),
    "no bool": ({"inputs": [blob("age", "BOOL", [1], 1), blob("bmi", "FP64", [1], 8)]}, b"\x02", REAL),
    "text past its end": ({"inputs": [blob("age", "BYTES", [1], 8)]}, struct.pack("<I", 2**31) + b"abcd"),
    "text of other number": ({"inputs": [blob("age", "BYTES", [2], 8)]}, struct.pack("<I", 4) + b"abcd"),
    "no UTF-8": ({"inputs": [blob("age", "BYTES", [1], 5)]}, struct.pack("<I", 1) + b"\xff"),
    "endless texts": ({"inputs": [blob("age", "BYTES", [1], 4000)]}, b"\0" * 4000),
}


@pytest.mark.parametrize("name", BINARY)
def test_binary_tensors_are_strictly_bounded(town, name):
    before = town.curator.budget.spent
    body, length = packed(*BINARY[name])
    told = infer(town, body, key="hostile", Inference_Header_Content_Length=length)
    assert told.status_code == 400, told.text
    assert town.curator.budget.spent == before


@pytest.mark.parametrize("length", ["0", "-1", "1e3", "99999999", "٣", "", "9" * 5000, "12"])
def test_the_length_of_the_header_is_checked(town, length):
    body, _ = packed({"inputs": [AGE, BMI]})
    headers = {"Idempotency-Key": "h", "Inference-Header-Content-Length": length.encode("utf-8")}
    told = town.client.post("/v2/models/town.plain/infer", content=body, headers=headers)
    assert told.status_code == 400, told.text


def test_binary_and_json_are_one_request(town):
    body, length = packed({"inputs": [blob("age", "INT64", [1], 8), blob("bmi", "FP64", [1, 1], 8)]}, EIGHT, REAL)
    first = infer(town, body, key="binary", Inference_Header_Content_Length=length)
    assert first.status_code == 200, first.text
    plain = {"inputs": [column("age", "INT64", [91]), column("bmi", "FP64", [[30.5]], [1, 1])]}
    assert infer(town, plain, key="binary").content == first.content
    missing = struct.pack("<d", float("nan"))
    body, length = packed({"inputs": [blob("age", "INT64", [1], 8), blob("bmi", "FP64", [1], 8)]}, EIGHT, missing)
    assert infer(town, body, key="missing", Inference_Header_Content_Length=length).status_code == 200


@pytest.mark.parametrize("given", [{"Content_Encoding": "gzip"}, {"Content_Type": "text/html"}])
def test_other_bodies_are_refused(town, given):
    assert infer(town, {"inputs": [AGE, BMI]}, **given).status_code == 415


@pytest.mark.parametrize("key", ["", "x" * 129, "tab\tinside", "é"])
def test_every_inference_needs_a_name_that_can_be_one(town, key):
    before = town.curator.budget.spent
    assert infer(town, {"inputs": [AGE, BMI], "id": key}, key=None).status_code == 400
    assert infer(town, {"inputs": [AGE, BMI]}, key=None).status_code == 400
    assert town.curator.budget.spent == before
