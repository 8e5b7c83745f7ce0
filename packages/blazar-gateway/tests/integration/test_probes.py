"""Probes and listings: answered from memory, in every spelling of the path."""

import time
from functools import partial

import pytest
from inline_snapshot import snapshot

from blazar_gateway.testing import FixedCatalogue, ReadyHost, ScriptedEngine, card, fetch, serve
from blazar_gateway.testing.residents import FakeResident

Child = partial(FakeResident, in_flight=1, device_bytes=150_000_000, estimate_bytes=201_000_000)
CATALOGUE = FixedCatalogue(
    card(capabilities=("completion",)), card("org/model:Q4", capabilities=("completion", "tools")), card("50% off")
)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "//",
        "/health",
        "/healthz",
        "/health/",
        "//healthz",
        "/api/version",
        "/api/version/",
        "//api//version",
        "/api/tags",
    ],
)
async def test_get_and_head_agree_and_need_nothing(host: ReadyHost, engine: ScriptedEngine, path: str) -> None:
    async with serve(host) as served:
        got = await fetch(served.port, "GET", path)
        head = await fetch(served.port, "HEAD", path)
    assert (got.status, head.status, head.body) == (200, 200, b"")
    differing = {"x-request-id", "x-blazar-request-id", "date"}
    assert {n: v for n, v in got.headers.items() if n not in differing} == {
        n: v for n, v in head.headers.items() if n not in differing
    }
    assert not host.tickets
    assert not engine.exchanges


async def test_root_says_the_words_that_front_ends_compare(host: ReadyHost) -> None:
    async with serve(host) as served:
        assert (await fetch(served.port, "GET", "/")).body == b"Ollama is running"


async def test_version_is_one_that_agents_accept(host: ReadyHost) -> None:
    async with serve(host) as served:
        version = (await fetch(served.port, "GET", "/api/version")).json["version"]
    assert tuple(int(part) for part in version.split(".")) >= (0, 13, 5)


async def test_openai_models(host: ReadyHost) -> None:
    host.resident = [Child()]
    async with serve(host, catalogue=CATALOGUE) as served:
        listed = (await fetch(served.port, "GET", "/v1/models")).json
        aliased = (await fetch(served.port, "GET", "/models")).json
    assert listed == aliased
    assert listed["object"] == "list"
    assert listed["data"][:2] == snapshot(
        [
            {
                "id": "m",
                "object": "model",
                "created": 1790000000,
                "owned_by": "blazar",
                "context_length": 4096,
                "max_context_length": 8192,
                "capabilities": ["completion"],
                "state": "ready",
                "load_fraction": None,
                "architecture": "llama",
                "quantization": "Q4_1",
                "size": 98362432,
            },
            {
                "id": "org/model:Q4",
                "object": "model",
                "created": 1790000000,
                "owned_by": "blazar",
                "context_length": 8192,
                "max_context_length": 8192,
                "capabilities": ["completion", "tools"],
                "state": "unloaded",
                "load_fraction": None,
                "architecture": "llama",
                "quantization": "Q4_1",
                "size": 98362432,
            },
        ]
    )


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/models/m", "m"),
        ("/v1/models/m/", "m"),
        ("/v1/models/org/model:Q4", "org/model:Q4"),
        ("/v1/models/org%2Fmodel%3AQ4", "org/model:Q4"),
        ("/v1//models/org%2Fmodel:Q4", "org/model:Q4"),
        ("/v1/models/50%25%20off", "50% off"),
    ],
)
async def test_one_model_by_any_spelling_of_its_path(host: ReadyHost, path: str, name: str) -> None:
    async with serve(host, catalogue=CATALOGUE) as served:
        answer = await fetch(served.port, "GET", path)
    assert (answer.status, answer.json["id"]) == (200, name)


@pytest.mark.parametrize(
    "path", ["/v1/models/x", "/v1/models/..%2F..%2Fetc", "/v1/models/m%232", "/v1/models/" + "x" * 300]
)
async def test_unknown_model_is_404_with_its_name(host: ReadyHost, path: str) -> None:
    async with serve(host, catalogue=CATALOGUE) as served:
        answer = await fetch(served.port, "GET", path)
    assert (answer.status, answer.json["error"]["code"]) == (404, "model_not_found")


async def test_anthropics_clients_are_told_by_their_header(host: ReadyHost) -> None:
    headers = {"anthropic-version": "2023-06-01"}
    async with serve(host, catalogue=CATALOGUE) as served:
        listed = (await fetch(served.port, "GET", "/v1/models", headers=headers)).json
        one = (await fetch(served.port, "GET", "/v1/models/m?beta=true", headers=headers)).json
        missing = await fetch(served.port, "GET", "/v1/models/x", headers=headers)
    assert (one["type"], one["id"]) == ("model", "m")
    assert listed["data"][0] == one
    assert (missing.status, missing.json["error"]["type"]) == (404, "not_found_error")
    assert missing.json["request_id"] == missing.headers["x-request-id"]


async def test_ollama_tags(host: ReadyHost) -> None:
    async with serve(host, catalogue=FixedCatalogue(card(capabilities=("completion",)))) as served:
        assert (await fetch(served.port, "GET", "/api/tags")).json == snapshot(
            {
                "models": [
                    {
                        "name": "m",
                        "model": "m",
                        "modified_at": "2026-05-28T20:26:40Z",
                        "size": 98362432,
                        "digest": "b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1",
                        "details": {
                            "parent_model": "",
                            "format": "gguf",
                            "family": "llama",
                            "families": ["llama"],
                            "parameter_size": "134.52M",
                            "quantization_level": "Q4_1",
                        },
                        "capabilities": ["completion"],
                    }
                ]
            }
        )
    async with serve(host, catalogue=FixedCatalogue()) as served:
        assert (await fetch(served.port, "GET", "/api/tags")).json == {"models": []}


async def test_ollama_ps_counts_down_longest_first(host: ReadyHost) -> None:
    host.resident = [
        Child(expires_in_s=60.0),
        Child(model="org/model:Q4", child="org/model:Q4", expires_in_s=None, memory_bytes=0, device_bytes=0),
        Child(model="gone", child="gone", state="failed"),
        Child(model="gone", child="gone#2", state="stopping"),
    ]
    async with serve(host, catalogue=CATALOGUE) as served:
        before = time.time()
        models = (await fetch(served.port, "GET", "/api/ps")).json["models"]
    assert [model["name"] for model in models] == ["org/model:Q4", "m"]
    assert models[0]["expires_at"] > "2300"
    assert models[0]["size"] == 98_362_432
    expires = time.strptime(models[1]["expires_at"][:19], "%Y-%m-%dT%H:%M:%S")
    assert 55 < time.mktime(expires) - time.timezone - before < 90
    assert (models[1]["size"], models[1]["size_vram"], models[1]["context_length"]) == (200_000_000, 150_000_000, 4096)
    assert models[1]["details"]["parameter_size"] == "134.52M"


@pytest.mark.parametrize(
    ("method", "path", "envelope"),
    [
        ("GET", "/nothing", "openai"),
        ("POST", "/v1/moderations", "openai"),
        ("POST", "/v1/messages/nothing", "anthropic"),
        ("POST", "/api/nothing", "ollama"),
        ("PUT", "/%2e%2e/etc/passwd", "openai"),
        ("GET", "/v1/models/", "list"),
    ],
)
async def test_what_does_not_exist_is_404_json_in_its_dialect(
    host: ReadyHost, method: str, path: str, envelope: str
) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, method, path, b"{}")
    if envelope == "list":
        assert answer.json["object"] == "list"
        return
    assert answer.status == 404
    match envelope:
        case "openai":
            assert answer.json["error"]["code"] == "unsupported_endpoint"
        case "anthropic":
            assert answer.json["error"]["type"] == "not_found_error"
        case _:
            assert answer.json["code"] == "unsupported_endpoint"
            assert isinstance(answer.json["error"], str)


async def test_wrong_method_is_405_and_names_the_right_one(host: ReadyHost) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "GET", "/v1/chat/completions")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert answer.json["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize("path", ["//v1/chat/completions", "/v1/chat/completions/", "/chat/completions"])
async def test_chat_is_found_under_odd_spellings(host: ReadyHost, path: str) -> None:
    async with serve(host) as served:
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
        assert (await fetch(served.port, "POST", path, body)).status == 200
