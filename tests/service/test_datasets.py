"""Datasets: registering, who sees what, what a restart and another worker find; plans and health beside them."""

import re
import threading
import time

import httpx
import pyarrow.parquet as pq
import pytest

from engines.conftest import write_postgres
from holdtrue.errors import InvalidParameter, RefusedError, RequestError, UnknownName
from holdtrue.service import create
from holdtrue.service.receipts import check_name
from holdtrue.service.settings import Settings
from ledgers.conftest import server as postgres  # noqa: F401 - a fixture: the PostgreSQL server that the ledgers' tests start
from service.conftest import PEOPLE, closed, made, write_people
from service.living import living


def test_the_owner_registers_and_everybody_sees_the_card(owner, analyst):
    body = PEOPLE | {"name": "town", "unit": "row"}
    assert owner.post("/v1/datasets", json=body).status_code == 201
    assert owner.post("/v1/datasets", json=body).status_code == 409
    names = [each["name"] for each in analyst.get("/v1/datasets").json()["datasets"]]
    assert names == sorted(names)
    assert "town" in names
    found = analyst.get("/v1/datasets/town").json()
    assert found["card"]["rows"] == 4_000
    assert found["plan"]["queries"] == 1_000
    assert found["budget"]["spent"] == 0
    assert found["description"] == "people of a town"
    assert "path" not in found
    assert analyst.get("/v1/datasets/nobody").status_code == 404


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../outside.parquet", "nothing.parquet", "link.parquet", ".", "*", "home", "people.parquet\x00", "~/x"],
)
def test_only_files_in_the_data_folders_are_registered(served, owner, path):
    outside = served.folder.parent / "outside.parquet"
    outside.write_bytes((served.folder / "people.parquet").read_bytes())
    link = served.folder / "link.parquet"
    if not link.is_symlink():
        link.symlink_to(outside)
    refused = owner.post("/v1/datasets", json=PEOPLE | {"name": "bad", "path": path})
    assert refused.status_code in (400, 422), refused.text
    assert str(served.folder) not in refused.text
    assert owner.get("/v1/datasets/bad").status_code == 404


@pytest.mark.parametrize("name", ["", "A", "1a", "a" * 64, "a/b", "a.b", "a b", "ä", "a\n", None, 7])
def test_names_are_short_and_plain(name):
    with pytest.raises(InvalidParameter):
        check_name(name)


def test_a_restart_finds_everything_and_is_ready_only_then(tmp_path):
    found = made(tmp_path)
    key = found.keys["analyst"]
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "one"}
    with living(found.app) as client:
        first = client.post("/v1/datasets/people/ask", json={"query": "age > 50"}, headers=headers)
    app = create(found.service.settings)
    assert app.state.service.registry.ready is False
    with living(app) as client:
        while client.get("/readyz").status_code == 503:
            time.sleep(0.01)
        assert client.get("/healthz").status_code == 200
        again = client.post("/v1/datasets/people/ask", json={"query": "age > 50"}, headers=headers)
    assert first.content == again.content


def test_a_dataset_that_cannot_be_opened_keeps_the_service_not_ready(tmp_path):
    found = made(tmp_path)
    closed(found)
    write_people(tmp_path, canary=False)  # other rows under the same name
    app = create(found.service.settings)
    registry = app.state.service.registry
    with living(app) as client:
        registry._threads[0].join()
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
        reply = client.get("/v1/datasets/people", headers={"Authorization": f"Bearer {found.keys['owner']}"})
    assert reply.status_code == 409


def test_another_workers_registration_is_seen(tmp_path):
    found = made(tmp_path)
    other = create(found.service.settings).state.service
    assert other.registry.open_dataset("people").curator.card.rows == 4_000
    other.registry.register("second", PEOPLE)
    assert found.service.registry.open_dataset("second").name == "second"
    with pytest.raises(UnknownName):
        found.service.registry.open_dataset("third")
    closed(found)
    other.registry.close()


def test_only_one_of_many_registers_a_name(tmp_path):
    found = made(tmp_path)
    services = [create(found.service.settings).state.service for _ in range(3)]
    outcomes = []

    def register(service):
        try:
            outcomes.append(service.registry.register("race", PEOPLE))
        except Exception as error:  # noqa: BLE001 - counted below
            outcomes.append(error)

    threads = [threading.Thread(target=register, args=(service,)) for service in services]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(not isinstance(outcome, Exception) for outcome in outcomes) == 1
    closed(found)
    for service in services:
        service.registry.close()


def test_the_truth_of_a_known_population_is_this_workers(tmp_path):
    found = made(tmp_path)
    assert found.service.registry.open_dataset("people").truth is None
    meant = PEOPLE | {"second_budget": True}
    assert found.service.registry.register("known", meant, truth=lambda _: 0.5).truth("age > 3") == 0.5
    closed(found)


@pytest.mark.parametrize(
    ("path", "given", "field"),
    [
        ("", {"queries": 1000, "alpha": 0.1}, "rows"),
        ("/learning", {"size": 1000, "alpha": 0.05, "epsilon": 0.5}, "rows"),
        ("/selection", {"candidates": 50, "epsilon": 0.5}, "shortfall"),
        ("/prediction", {"epsilon": 1.0, "alpha": 0.1, "size": 1000}, "rows"),
        ("/holdout", {"cases": 5000, "looks": 200}, "lines"),
    ],
)
def test_plans_by_query_and_by_body_are_the_same(analyst, path, given, field):
    by_query = analyst.get(f"/v1/plan{path}", params=given)
    by_body = analyst.post(f"/v1/plan{path}", json=given)
    assert by_query.status_code == by_body.status_code == 200, by_query.text
    assert by_query.content == by_body.content
    assert field in by_query.json() or field == "lines"


def test_a_plan_compares_every_method_and_refuses_nonsense(analyst):
    told = analyst.get("/v1/plan", params={"rows": 100_000, "queries": 100, "compare": "true"}).json()
    assert len(told["comparison"]) > 2
    for bad in (
        {"rows": "nan", "queries": 3},
        {"alpha": "inf", "rows": 3},
        {"rows": 10},
        {"rows": 1, "queries": 10**9},
        {"x": 1},
    ):
        assert analyst.get("/v1/plan", params=bad).status_code == 422
    assert httpx.get(f"{analyst.base_url}/v1/plan").status_code == 401


def test_metrics_count_public_things(owner, analyst):
    analyst.post("/v1/datasets/people/ask", json={"query": "age > 5"}, headers={"Idempotency-Key": "metrics"})
    analyst.post("/v1/datasets/people/ask", json={"query": "nobody > 5"}, headers={"Idempotency-Key": "metrics 2"})
    text = owner.get("/metrics").text
    assert "holdtrue_request_seconds_bucket" in text
    assert 'holdtrue_requests_total{method="POST",route="/v1/datasets/{name}/ask",status="200"}' in text
    assert 'holdtrue_charges_total{dataset="people",verb="ask"}' in text
    assert 'holdtrue_refusals_total{kind="unknown-column"}' in text
    assert 'holdtrue_budget_left{dataset="people"}' in text
    assert "nobody" not in text


def test_p9_metrics_show_no_duration_and_no_dataset_without_the_owners_key(owner, analyst):
    analyst.post("/v1/datasets/people/ask", json={"query": "age > 6"}, headers={"Idempotency-Key": "who sees"})
    address = f"{owner.base_url}/metrics"
    shown = owner.get("/metrics").text
    for text in (httpx.get(address).text, analyst.get("/metrics").text):
        assert "holdtrue_requests_total" in text
        assert not re.search(r"seconds|bucket|people|dataset=|budget|charges", text)
    assert httpx.get(address, headers={"Authorization": "Bearer nothing"}).status_code == 401
    # The control: the search finds what the owner is shown.
    assert re.search(r"seconds|bucket|people|dataset=|budget|charges", shown)


def test_settings_turn_the_tick_off(tmp_path):
    assert Settings(home=tmp_path, tick=0).tick == 0


def test_rows_that_are_registered_get_no_second_budget_without_a_word(tmp_path):
    found = made(tmp_path)
    document = {name: value for name, value in PEOPLE.items() if name != "second_budget"}
    with pytest.raises(RefusedError, match="these rows already have a budget, as the dataset people"):
        found.service.registry.register("again", document)
    assert found.service.registry.register("again", PEOPLE).curator.budget.spent == 0
    closed(found)


def test_a_table_of_postgresql_is_registered_where_the_settings_name_its_database(tmp_path, request):
    server = request.getfixturevalue("postgres")
    write_people(tmp_path / "rows")
    address = write_postgres(server, pq.read_table(tmp_path / "rows" / "people.parquet"))
    database = address.partition("&table=")[0]
    found = made(tmp_path, databases=(database,))
    registry = found.service.registry
    document = PEOPLE | {"path": address}
    assert registry.register("stored", document).curator.card == registry.open_dataset("people").curator.card
    with pytest.raises(RefusedError, match="these rows already have a budget, as the dataset"):
        registry.register("again", document | {"second_budget": False})
    for path in (address.replace("holdtrue@", "other@"), address.replace("/postgres?", "/other?"), database):
        with pytest.raises(RequestError):
            registry.register("elsewhere", document | {"path": path})
    closed(found)
    for bad in (("people.parquet",), ("postgresql://reader:hush@host/clinic",), ("postgresql://host/clinic?password=hush",)):
        with pytest.raises(InvalidParameter, match="databases") as caught:
            Settings(home=tmp_path, databases=bad)
        assert "hush" not in str(caught.value)


def test_a_dataset_is_registered_with_a_second_purse(owner, analyst):
    body = PEOPLE | {"name": "purses", "reserve": {"predictions": 6, "epsilon": 0.1, "currency": "draws"}}
    assert owner.post("/v1/datasets", json=body).status_code == 201
    found = analyst.get("/v1/datasets/purses").json()
    assert found["plan"]["purse"]["predictions"] == 6
    assert (found["budget"]["reserve"], found["budget"]["purse"]["currency"]) == (6.0, "draws")
    asked = {"candidates": {"old": "age > 50", "young": "age < 30"}, "epsilon": 0.05}
    chosen = analyst.post("/v1/datasets/purses/select", json=asked, headers={"Idempotency-Key": "one"})
    assert chosen.json()["certificate"]["purse"] == "draws", chosen.text
    assert analyst.get("/v1/datasets/purses/budget").json()["reserve"] == 5.0
    refused = analyst.post("/v1/datasets/purses/select", json=asked | {"epsilon": 0.7}, headers={"Idempotency-Key": "two"})
    assert refused.status_code == 422
    assert "counts draws of epsilon 0.1" in refused.text
    for wrong in ({"predictions": 6}, {"predictions": 6, "epsilon": 0.1, "share": 1}, "much"):
        assert owner.post("/v1/datasets", json=body | {"name": "bad", "reserve": wrong}).status_code == 422
    planned = {"rows": 100_000, "queries": 100, "epsilon": 4, "delta": 1e-6, "reserve": {"predictions": 20, "epsilon": 0.1}}
    made = analyst.post("/v1/plan", json=planned).json()
    assert len(made["purse"]["widths"]) == 3
