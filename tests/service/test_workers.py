"""Several workers over one PostgreSQL ledger: the plan's last question is given once, and paid for once (P4)."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np

import holdtrue as ht
from holdtrue.ledgers import open_ledger
from ledgers.conftest import server as postgres  # noqa: F401 - a fixture: the PostgreSQL server that the ledgers' tests start
from service.living import Command

WORKERS, CLIENTS = 4, 24
ASKS, QUESTIONS = 600, 150


def test_p4_four_workers_charge_and_answer_exactly_the_plan(tmp_path, request):
    url = request.getfixturevalue("postgres").database()
    rows = np.random.default_rng(18).integers(0, 10_000, 20_000)
    (tmp_path / "people.csv").write_text("\n".join(["score", *map(str, rows)]) + "\n", encoding="utf-8")
    config = tmp_path / "holdtrue.toml"
    config.write_text(f'home = ".holdtrue"\nrate = "{10**6}/minute"\n', encoding="utf-8")
    with Command(tmp_path, "--config", config, "--workers", WORKERS, HOLDTRUE_LEDGER=url) as command:
        address = command.wait_ready(120)
        key = (tmp_path / ".holdtrue" / "owner.key").read_text(encoding="ascii").strip()
        headers = {"Authorization": f"Bearer {key}"}
        plan = {"queries": QUESTIONS, "epsilon": 5.0, "delta": 1e-6, "cap": "privacy", "reserve": 0.5}
        body = {"name": "people", "path": "people.csv", "types": {"score": "integer"}} | plan
        # A connection of its own for each request, so that all workers take part.
        single = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(base_url=address, headers=headers, timeout=300, limits=single) as client:
            assert client.post("/v1/datasets", json=body).status_code == 201

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
