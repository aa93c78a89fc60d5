"""The API's document: valid OpenAPI 3.1, complete, and true under fuzzing."""

import json

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from openapi_spec_validator import OpenAPIV31SpecValidator

SPENDING = ("ask", "select", "learn", "predict")


def test_the_document_is_valid_3_1(held):
    document = json.loads(json.dumps(held.app.openapi()))
    assert document["openapi"].startswith("3.1")
    assert list(OpenAPIV31SpecValidator(document).iter_errors()) == []


def test_every_route_is_described_with_its_problems(held):
    paths = held.app.openapi()["paths"]
    routes = {"/v1/plan", "/v1/plan/holdout", "/v1/datasets", "/v1/datasets/{name}", "/healthz", "/readyz", "/metrics"}
    verbs = (*SPENDING, "train", "preview", "budget", "history", "report", "ledger", "verify")
    assert routes | {f"/v1/datasets/{{name}}/{verb}" for verb in verbs} <= set(paths)
    for path, operations in paths.items():
        for method, operation in operations.items():
            assert operation.get("summary") or operation.get("description"), (method, path)
            if path.startswith("/v1/"):
                assert {"401", "404", "422", "429", "502"} <= set(operation["responses"]), (method, path)
                content = operation["responses"]["422"]["content"]
                assert "application/problem+json" in content, (method, path)
                assert operation.get("security") == [{"key": []}], (method, path)


def test_whatever_spends_names_the_idempotency_key(held):
    paths = held.app.openapi()["paths"]
    for verb in SPENDING:
        parameters = paths[f"/v1/datasets/{{name}}/{verb}"]["post"]["parameters"]
        assert "Idempotency-Key" in [each["name"] for each in parameters if each["in"] == "header"]
        assert "name" in [each["name"] for each in parameters if each["in"] == "path"]


def kinds(caplog) -> set[str]:
    """Return the kinds of failure that the log names."""
    return {getattr(record, "kind", "") for record in caplog.records}


def unending(app):
    """Return an application that is not told when a client comes and goes, since the next one needs it too."""

    async def call(scope, receive, send):
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return

    return call


@pytest.mark.parametrize("role", ["owner", "analyst", None])
def test_no_request_that_the_document_allows_is_a_500(held, role, caplog):
    schema = schemathesis.openapi.from_asgi("/openapi.json", unending(held.app), headers={"Host": "testserver"})
    headers = {"Host": "testserver"} | ({} if role is None else {"Authorization": f"Bearer {held.keys[role]}"})
    quiet = settings(
        max_examples=2 if role is None else 5,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    seen = set()
    for result in schema.get_all_operations():
        operation = result.ok()

        @quiet
        @given(case=operation.as_strategy())
        def check(case):
            case.path_parameters.update({"name": "people"} if case.path_parameters.get("name") else {})
            reply = case.call(headers=headers)
            seen.add(reply.status_code)
            assert reply.status_code not in (500, 502), (case.method, case.path, kinds(caplog))
            if reply.status_code >= 400 and case.path.startswith("/v1"):
                assert reply.headers["content-type"] == ["application/problem+json"]

        check()
    assert (401 in seen) == (role is None)
