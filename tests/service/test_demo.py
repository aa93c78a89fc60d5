"""The demonstration: a population whose truth is exact, an attack with the promised end, and a command that cleans up."""

import asyncio
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest

import holdtrue as ht
from holdtrue.demo import draw_scale
from holdtrue.demo.attack import TRUTH, attack, plan_attack
from holdtrue.demo.population import (
    EXAMPLES,
    PEOPLE,
    REGIONS,
    describe_dataset,
    find_true_mean,
    find_true_quantile,
    find_true_shares,
    survey,
    write_rows,
)
from holdtrue.errors import RequestError
from holdtrue.service.http.serving import prepare_demo
from holdtrue.verbs.quantiles import read_task
from service.living import living

SCRIPT = "import sys; from holdtrue.command import main; sys.argv[0] = 'holdtrue'; main()"


def test_truth_is_the_mean_over_the_whole_population():
    """Each against the same question written in NumPy; a query that a sample answers differently is told exactly."""
    population = survey()
    held = population.columns
    region = np.array(REGIONS)[held["region"]]
    by_hand = {
        "smoker": held["smoker"],
        "age >= 65": held["age"] >= 65,
        "bmi > 30 AND exercise < 2": (held["bmi"] > 30) & (held["exercise"] < 2),
        "region = 'north' AND readmitted": (region == "north") & held["readmitted"],
        "income / 200": held["income"] / 200,
        "smoker AND diabetic": held["smoker"] & held["diabetic"],
        "region LIKE '%th' OR NOT smoker": np.char.endswith(region, "th") | ~held["smoker"],
    }
    assert set(EXAMPLES) <= set(by_hand)
    for query, values in by_hand.items():
        assert population.truth(query) == pytest.approx(values.mean(), abs=2**-30), query
    with pytest.raises(RequestError):
        population.truth("nothing > 3")


def test_the_truth_of_cells_means_and_quantiles_is_that_of_the_whole_population(tmp_path):
    """Each against NumPy over the same table, with a condition and with bounds that cut values off."""
    population, truth = survey(), survey().truth
    held = population.columns
    north, smoker = held["region"] == REGIONS.index("north"), held["smoker"]
    shares = find_true_shares(truth, [["region = 'north'", "(smoker)"], ["region = 'east'", "(smoker)"]], where="smoker")
    east = held["region"] == REGIONS.index("east")
    by_hand = [(north & smoker).mean(), (east & smoker).mean(), (smoker & ~north & ~east).mean()]
    assert shares == pytest.approx(by_hand, abs=1e-8)
    assert find_true_shares(truth, [["smoker"]])[1] == pytest.approx(1 - smoker.mean(), abs=1e-8)
    cut = find_true_mean(truth, "income", low=20.0, high=60.0, conditions=["region = 'north'"])
    assert cut == pytest.approx(np.clip(held["income"][north], 20, 60).mean(), abs=1e-5)
    assert find_true_mean(truth, "income", low=0.0, high=200.0) == pytest.approx(held["income"].mean(), abs=1e-5)
    assert find_true_mean(truth, "income", low=0.0, high=200.0, conditions=["age < 3"]) is None
    write_rows(tmp_path, population, rows=2000)
    with ht.Curator(tmp_path / "survey.parquet", plan=ht.plan(rows=2000, queries=10)) as curator:
        plain = read_task(curator.pipeline, "bmi", [0.1, 0.5, 0.9], low=14, high=60, step=0.5)
        where = read_task(curator.pipeline, "income", 0.9, low=0, high=200, where="smoker")
    grid = np.minimum(np.ceil(held["bmi"] * 2) / 2, 60)
    for level in plain.levels:
        assert find_true_quantile(truth, plain, level) == np.quantile(grid, level, method="inverted_cdf")
    smoking = np.quantile(held["income"][smoker], 0.9, method="inverted_cdf")
    assert find_true_quantile(truth, where, 0.9) == smoking


def test_the_population_is_the_same_in_every_run_and_within_its_card():
    population = survey()
    assert population.truth("smoker") == 0.23617172241210938
    for column in population.card.columns:
        values = population.columns[column.name]
        assert values.shape == (PEOPLE,)
        if column.bounds is not None:
            assert column.bounds[0] <= values.min() <= values.max() <= column.bounds[1]


def test_rows_are_independent_uniform_draws(bits):
    """Everyone is drawn with the same probability: counts in 64 groups of people follow the uniform law."""
    from scipy import stats

    population = survey()
    numbered = replace(population, columns=dict(population.columns) | {"age": np.arange(PEOPLE)})
    drawn = numbered.draw(1 << 18, bits=bits)["age"]
    counts = np.bincount(drawn >> 12, minlength=64)
    assert stats.chisquare(counts).pvalue > 1e-9
    repeated = drawn.size - np.unique(drawn).size  # with replacement: a share of 1/e is missed
    assert abs(repeated / drawn.size - np.exp(-1)) < 0.01
    skewed = np.where(drawn < PEOPLE // 10, 0, drawn)
    assert stats.chisquare(np.bincount(skewed >> 12, minlength=64)).pvalue < 1e-9


def test_the_attack_misses_without_noise_and_holds_with_it(bits):
    """N6: the plain interval misses the truth at the end of every run, Holdtrue's holds at every step of all of them."""
    for _ in range(3):
        steps = list(attack(rows=4000, features=400, rounds=8, bits=bits))
        assert [step.looks for step in steps] == [51 * (number + 1) for number in range(8)]
        assert not steps[-1].naive.holds
        assert steps[-1].naive.value > TRUTH + 0.06
        assert all(step.held.holds for step in steps)
    assert plan_attack(rows=4000, features=400, rounds=8).queries == 408


def test_a_text_scale_shows_ends_value_and_truth():
    assert draw_scale((2, 6), 4, 8, cells=10).plain == "··━━●━━·┃·"
    assert draw_scale((0, 9), 0, 0, cells=10).plain == "●━━━━━━━━━"


def fetched(app, method, path, *, peer="127.0.0.1", host="127.0.0.1", **given):
    """Send one request to an application, from a peer and under a Host."""

    async def send():
        transport = httpx.ASGITransport(app, client=(peer, 1))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
            return await client.request(method, path, **given)

    return asyncio.run(send())


def test_visitors_are_let_in_by_the_demonstration_on_this_machine_only(tmp_path):
    demo = prepare_demo(tmp_path)
    assert "set-cookie" in fetched(demo.app, "GET", "/").headers
    assert fetched(demo.app, "GET", "/", peer="10.0.0.8").headers["location"] == "/login"
    assert fetched(demo.app, "GET", "/healthz", peer="10.0.0.8").status_code == 200
    assert fetched(demo.app, "GET", "/", host="evil.example").status_code == 421
    given = {"data": {"query": "smoker"}, "headers": {"Origin": "http://127.0.0.1"}}
    reply = fetched(demo.app, "POST", "/page/datasets/demo/ask", **given)
    assert (reply.status_code, reply.headers["location"]) == (303, "/login")
    demo.app.state.demo_visitor = None
    assert fetched(demo.app, "GET", "/").headers["location"] == "/login"
    closed(demo)


def closed(demo):
    service = demo.app.state.service
    service.registry.close()
    service.keyring.close()
    service.database.close()


def test_every_example_is_answered_within_its_interval(tmp_path):
    demo = prepare_demo(tmp_path)
    with living(demo.app) as client:
        headers = {"Authorization": f"Bearer {demo.key}", "Idempotency-Key": "all"}
        reply = client.post("/v1/datasets/demo/ask", json={"queries": list(EXAMPLES)}, headers=headers)
        truths = [survey().truth(query) for query in EXAMPLES]
        for answer, truth in zip(reply.json()["answers"], truths, strict=True):
            assert answer["interval"]["low"] <= truth <= answer["interval"]["high"]


def test_rows_and_document_go_together(tmp_path, bits):
    import pyarrow.parquet as pq

    path = write_rows(tmp_path / "data", survey(), rows=500, bits=bits)
    table = pq.read_table(path)
    assert table.num_rows == 500
    assert set(describe_dataset(survey())["bounds"]) | set(describe_dataset(survey())["labels"]) <= set(table.column_names)


def started(folder, *told):
    environment = os.environ | {"TMPDIR": str(folder / "tmp")}
    (folder / "tmp").mkdir()
    return subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-c", SCRIPT, "demo", *told],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def heard(process, pattern, seconds=120):
    """Return what a process said up to a pattern."""
    said, end = b"", time.monotonic() + seconds
    while not re.search(pattern, said):
        assert time.monotonic() < end, said
        if select.select([process.stdout], [], [], 0.2)[0]:
            chunk = os.read(process.stdout.fileno(), 65_536)
            assert chunk, said + process.stderr.read()
            said += chunk
    return said.decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_from_any_folder_and_leaves_nothing_behind(tmp_path, number):
    process = started(tmp_path, "--port", "0", "--no-browser")
    try:
        said = heard(process, rb"Ctrl-C stops it")
        address = re.search(r"Holdtrue is at +(\S+)", said)[1]
        key = re.search(r"Bearer (ht_\S+)'", said)[1]
        assert address.startswith("http://127.0.0.1:")
        assert httpx.get(f"{address}/healthz").status_code == 200
        assert httpx.get(f"{address}/readyz").status_code == 200
        assert httpx.get(f"{address}/v1/datasets/demo").status_code == 401
        headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "first"}
        answer = httpx.post(f"{address}/v1/datasets/demo/ask", json={"query": "age >= 65"}, headers=headers)
        assert answer.json()["interval"]["target"] == "population"
        process.send_signal(number)
        assert process.wait(60) == 0
        assert process.stderr.read().decode() == "Drawing rows …\n"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
    assert list((tmp_path / "tmp").iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["tmp"]


def test_a_port_that_is_taken_is_told_in_one_line(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = started(tmp_path, "--port", str(taken.getsockname()[1]), "--no-browser")
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (3, b"")
    assert re.search(rb"error: cannot serve at 127.0.0.1, port \d+: .*--port", err)
    assert b"Traceback" not in err


_BARE = """
import sys
for name in ("fastapi", "httptools", "jwt", "limits", "prometheus_client", "starlette", "uvicorn"):
    sys.modules[name] = None
from holdtrue.command import main
sys.argv = ["holdtrue", "demo", "--terminal"]
main()
"""


def test_the_terminal_tells_the_whole_story_without_the_service_and_leaves_a_report(tmp_path):
    command = [sys.executable, "-c", _BARE]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    assert (found.returncode, found.stderr) == (0, "")
    said = found.stdout
    plain = re.sub(r"\s+", " ", said)
    for told in (
        r"select chose \w+ as the largest region.*in truth east is the largest",
        r"In truth it errs on 0\.\d{3} of the population, and the best of 80 rules on 0\.\d{3}: holds",
        r"Is bmi >= 26\? (True|False).*In truth, 0\.7\d\d of the people with these values",
        r"A plain holdout reports \d\d\.\d% after \d+ looks; the truth is 50%\. The gate said",
        r"Laplace noise 1 at least [\d.]+ 1 not violated half of the noise 1 at least 1\.[\d]+ 2 violated",
        r"is whole: \d+ entries",
    ):
        assert re.search(told, plain), told
    assert said.count("holds") >= len(EXAMPLES)
    assert re.search(r"194 of 200 questions left", said)
    assert "misses the truth" in re.sub(r"\s+", " ", said)
    assert max(map(len, said.splitlines()[:-2])) <= 80
    report = Path(re.search(r"(/\S+report\.html)", said)[1])
    page = report.read_text()
    assert "Holdtrue report" in page
    assert "<script" not in page
