"""Several workers over one PostgreSQL ledger: a plan's last question is paid once (P4), and models are everybody's."""

import contextlib
import re
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np

import holdtrue as ht
from holdtrue.ledgers import open_ledger
from ledgers.conftest import server as postgres  # noqa: F401 - a fixture: the PostgreSQL server that the ledgers' tests start
from service.living import Command

WORKERS, CLIENTS = 4, 24
ASKS, QUESTIONS = 600, 150


@contextlib.contextmanager
def serving(folder, url):
    """Yield the command with its workers, its address and the owner's headers."""
    random = np.random.default_rng(18)
    lines = [f"{score},{random.integers(0, 2)}" for score in random.integers(0, 10_000, 20_000)]
    (folder / "people.csv").write_text("\n".join(["score,sick", *lines]) + "\n", encoding="utf-8")
    config = folder / "holdtrue.toml"
    config.write_text(f'home = ".holdtrue"\nrate = "{10**6}/minute"\n', encoding="utf-8")
    with Command(folder, "--config", config, "--workers", WORKERS, HOLDTRUE_LEDGER=url) as command:
        address = command.wait_ready(120)
        key = (folder / ".holdtrue" / "owner.key").read_text(encoding="ascii").strip()
        headers = {"Authorization": f"Bearer {key}"}
        plan = {"queries": QUESTIONS, "epsilon": 5.0, "delta": 1e-6, "cap": "privacy", "reserve": 0.5}
        types = {"score": "integer", "sick": "integer"}
        body = {"name": "people", "path": "people.csv", "types": types} | plan
        assert httpx.post(f"{address}/v1/datasets", json=body, headers=headers, timeout=300).status_code == 201
        yield command, address, headers


def test_p4_four_workers_charge_and_answer_exactly_the_plan(tmp_path, request):
    url = request.getfixturevalue("postgres").database()
    with serving(tmp_path, url) as (command, address, headers):
        # A connection of its own for each request, so that all workers take part.
        single = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(base_url=address, headers=headers, timeout=300, limits=single) as client:

            def ask(number):
                told = {"query": f"score > {number}"}
                return client.post(
                    "/v1/datasets/people/ask", json=told, headers={"Idempotency-Key": f"{number}"}
                ).status_code

            with ThreadPoolExecutor(CLIENTS) as pool:
                statuses = list(pool.map(ask, range(ASKS)))
    where = f"{url}&options=-csearch_path%3Dht_people"
    found = ht.verify(where)
    with open_ledger(where) as ledger:
        answers = [entry for entry in ledger.entries() if entry.kind == "response"]
    assert (statuses.count(200), statuses.count(429)) == (QUESTIONS, ASKS - QUESTIONS), (set(statuses), command.said())
    assert (found.charges, len(answers)) == (QUESTIONS, QUESTIONS)


def test_a_model_that_one_worker_trained_answers_in_all_of_them(tmp_path, request):
    url = request.getfixturevalue("postgres").database()
    with serving(tmp_path, url) as (command, address, headers):
        estimator = {"kind": "logistic-regression", "parameters": {}}
        body = {"name": "m", "estimator": estimator, "target": "sick", "labels": [0, 1], "features": ["score"], "parts": 20}
        trained = httpx.post(f"{address}/v1/datasets/people/train", json=body, headers=headers, timeout=300)
        assert trained.status_code == 200, (trained.text, command.said())
        answered = {}
        for number in range(400):
            # One connection is one worker's.
            with httpx.Client(base_url=address, headers=headers, timeout=300) as client:
                worker = re.search(r'worker_info\{worker="(\d+)"\}', client.get("/metrics").text)[1]
                if worker not in answered:
                    told = {"model": "m", "row": {"score": number}, "epsilon": 0.05}
                    found = client.post("/v1/datasets/people/predict", json=told, headers={"Idempotency-Key": f"{number}"})
                    answered[worker] = found.status_code
            if len(answered) == WORKERS:
                break
        assert list(answered.values()) == [200] * WORKERS, command.said()
