"""Whatever the OpenAPI document allows, and much that it does not, is answered without a server error."""

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as examples
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from streamrank.config import ServeSettings, Settings
from streamrank.serve.openapi import description
from streamrank.serve.server import Server
from streamrank.state import open_store
from tests.serve.test_serve_http import until

pytestmark = pytest.mark.xdist_group("serve")
SCHEMA = schemathesis.openapi.from_dict(description())
OPERATIONS = {f"{one.ok().method} {one.ok().path}": one.ok() for one in SCHEMA.get_all_operations()}
CHECKS = [
    not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance,
]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    store = f"sqlite:///{tmp_path_factory.mktemp('schema')}/s.db"
    with Server(Settings(store=store, serve=ServeSettings(port=0, timeout_ms=60_000))) as running:
        httpx.post(f"{running.url}/feedback", json={"event": "example", "x": {"a": 1.0}, "y": 1.0})
        httpx.post(f"{running.url}/flush", timeout=120)
        until(lambda: httpx.get(f"{running.url}/ready").status_code == 200)
        yield running


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_request_is_a_server_error_and_every_answer_is_as_described(name, server):
    @examples(
        max_examples=2 if "train" in name else 15,  # each of those is a process
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )
    @given(case=OPERATIONS[name].as_strategy())
    def hold(case):
        if "model" in case.path_parameters and len(case.path_parameters["model"]) % 2:
            case.path_parameters["model"] = "default"
        case.call_and_validate(base_url=server.url, checks=CHECKS)

    hold()
    assert httpx.get(f"{server.url}/health").status_code == 200


def test_all_routes_but_the_page_are_described(server):
    pages = {"/", "/app.js", "/docs", "/docs.js", "/plotly.js", "/openapi.json"}
    assert {route.path for route in server._server.config.app.routes} - pages == set(description()["paths"])
    with open_store(server.service.settings.store) as store:
        assert store.shards()  # and what was asked has not broken what was learnt
