"""``/openapi.json`` against the server that it describes: schemathesis makes the requests, on the stub engine."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from blazar_gateway.app import all_routes
from blazar_gateway.openapi.document import describe
from blazar_gateway.testing import FixedCatalogue, RecordingDaemon, card
from blazar_gateway.testing.memory import MemoryInProcess
from blazar_gateway.testing.registry import MemoryRegistry
from blazar_gateway.testing.threaded import Place, PlainHost, Threaded
from blazar_stubs import install_stub, write_stub_model
from blazar_stubs.testing import Engine, launched

MODEL = "m"
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 6
"""Requests an operation; together with what they cost, a few tens of seconds."""

DOCUMENT = json.loads(json.dumps(describe(all_routes(), version="0")))


def pointed() -> dict[str, Any]:
    """Return the document with the only model there is as the only name of one, so that requests get further."""
    document: dict[str, Any] = json.loads(json.dumps(DOCUMENT))
    for form in document["components"]["schemas"].values():
        for name in ("model", "name", "source", "from"):
            if form.get("title") != "NewKeyRequest" and name in form.get("properties", {}):
                form["properties"][name] = {"type": "string", "enum": [MODEL]}
        for choice in form.get("anyOf", []):
            choice.pop("properties", None)
    return document


schema = schemathesis.openapi.from_dict(pointed())
# The coverage phase alone makes four thousand requests, which take a minute to think of.
schema.config.phases.coverage.enabled = False
schema.config.phases.examples.enabled = False


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("openapi")
    model: Path = write_stub_model(home / "m.gguf", tools=True).path
    daemon = RecordingDaemon()
    # A log that is followed ends at once here.
    daemon.follow_gate.set()
    with launched(
        Engine("stub", install_stub(home / "engine"), {}), home / "engine.log", "-m", model, "-c", 2048, "-a", MODEL
    ) as server:
        assert isinstance(server.address, tuple)
        host, port = server.address
        rows = FixedCatalogue(card(MODEL, capabilities=("completion", "tools", "embedding")))
        lender = PlainHost(Place(f"http://{host}:{port}"))
        gateway = Threaded(lender, rows, MemoryRegistry(), MemoryInProcess(cap_bytes=10 << 20), daemon)
        try:
            yield gateway.start()
        finally:
            gateway.stop()


@schema.parametrize()
@hypothesis.settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_what_is_described_is_what_happens(case: "Case[Any]", address: str) -> None:
    response = case.call(base_url=address, timeout=60)
    case.validate_response(response, checks=CHECKS)


def test_the_document_is_served(address: str) -> None:
    with urllib.request.urlopen(f"{address}/openapi.json", timeout=60) as answer:
        served = json.load(answer)
    assert served["paths"] == DOCUMENT["paths"]
    assert served["components"] == DOCUMENT["components"]
