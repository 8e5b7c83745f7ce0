"""Ollama's calls about models and vectors over real sockets."""

import base64
import json
import struct
from typing import Any

import pytest

from blazar_gateway.ports import ModelDetails
from blazar_gateway.testing import Exchange, FixedCatalogue, ReadyHost, ScriptedEngine, card, fetch, serve
from blazar_gateway.testing.registry import MemoryRegistry
from blazar_gateway.testing.residents import FakeResident
from blazar_gateway.testing.transcripts import lines_of
from blazar_routing.errors import InvalidRequest

FOUND = ModelDetails(
    model_info={"general.architecture": "llama", "llama.block_count": 30, "tokenizer.ggml.tokens": None},
    template="{{ tools }}",
    parameters={"stop": ["<end>"], "temperature": 0.5},
    system="be brief",
    license="MIT",
)


async def show(host: ReadyHost, body: object, registry: MemoryRegistry | None = None) -> Any:
    async with serve(host, registry=registry) as served:
        return await fetch(served.port, "POST", "/api/show", body)


@pytest.mark.parametrize("field", ["model", "name"])
async def test_show_tells_what_editors_decide_by(host: ReadyHost, field: str) -> None:
    answer = await show(host, {field: "m:latest", "verbose": True}, MemoryRegistry(found=FOUND))
    body = answer.json
    assert body["model_info"]["llama.context_length"] == 8192
    assert body["model_info"]["llama.block_count"] == 30
    assert body["model_info"]["tokenizer.ggml.tokens"] is None
    assert body["capabilities"] == ["completion", "tools"]
    assert set(body["details"]) == {
        "parent_model",
        "format",
        "family",
        "families",
        "parameter_size",
        "quantization_level",
    }
    assert (body["template"], body["system"], body["license"]) == ("{{ tools }}", "be brief", "MIT")
    assert body["parameters"].split("\n")[0].split() == ["stop", '"<end>"']
    assert "FROM /weights/m.gguf" in body["modelfile"]
    assert body["modified_at"].endswith("Z")


async def test_show_without_a_registry_still_has_model_info(host: ReadyHost) -> None:
    answer = await show(host, {"model": "m"})
    assert answer.json["model_info"]["general.architecture"] == "llama"
    assert answer.json["model_info"]["general.parameter_count"] == 134_515_008


async def test_show_of_nothing_and_nobody(host: ReadyHost) -> None:
    missing, nameless = await show(host, {"model": "nobody"}), await show(host, {})
    assert (missing.status, nameless.status) == (404, 400)
    assert "model 'nobody' not found" in missing.json["error"]
    assert nameless.json["error"] == "model is required"


async def test_tags_and_show_tell_the_same_capabilities(host: ReadyHost) -> None:
    row = card(capabilities=("completion", "tools", "thinking"))
    async with serve(host, catalogue=FixedCatalogue(row)) as served:
        tags = (await fetch(served.port, "GET", "/api/tags")).json
        shown = (await fetch(served.port, "POST", "/api/show", {"model": "m"})).json
    assert tags["models"][0]["capabilities"] == shown["capabilities"] == ["completion", "tools", "thinking"]


async def test_ps_counts_down_and_tells_the_context(host: ReadyHost) -> None:
    host.resident = [FakeResident(ctx_tokens=4096, expires_in_s=60.0)]
    async with serve(host) as served:
        [loaded] = (await fetch(served.port, "GET", "/api/ps")).json["models"]
    assert (loaded["context_length"], loaded["size_vram"]) == (4096, 0)
    assert loaded["expires_at"].endswith("Z")


async def test_delete_unloads_first_and_answers_with_nothing(host: ReadyHost) -> None:
    registry = MemoryRegistry()
    async with serve(host, registry=registry) as served:
        answer = await fetch(served.port, "DELETE", "/api/delete", {"model": "m"})
        missing = await fetch(served.port, "DELETE", "/api/delete", {"name": "nobody"})
    assert (answer.status, answer.body) == (200, b"")
    assert (host.unloaded, registry.deleted) == (["m"], ["m"])
    assert (missing.status, "not found" in missing.json["error"]) == (404, True)


async def test_copy_gives_a_second_name(host: ReadyHost) -> None:
    registry = MemoryRegistry()
    async with serve(host, registry=registry) as served:
        answer = await fetch(served.port, "POST", "/api/copy", {"source": "m", "destination": "mine:latest"})
        missing = await fetch(served.port, "POST", "/api/copy", {"source": "x", "destination": "y"})
    assert (answer.status, answer.body) == (200, b"")
    assert registry.copied == [("m", "mine")]
    assert missing.status == 404


@pytest.mark.parametrize("name", ["a#2", "a@vision", "a@embed", "../a", "a/../b", "x" * 300, "a\nb", "", " ", None])
async def test_reserved_names_cannot_be_taken(host: ReadyHost, name: object) -> None:
    registry = MemoryRegistry()
    async with serve(host, registry=registry) as served:
        answer = await fetch(served.port, "POST", "/api/copy", {"source": "m", "destination": name})
    assert answer.status == 400
    assert registry.copied == []


async def test_create_hands_over_the_overlay(host: ReadyHost) -> None:
    registry = MemoryRegistry()
    body = {
        "model": "mine",
        "from": "m",
        "system": "be brief",
        "parameters": {"temperature": 0.1},
        "messages": [{"role": "user", "content": "hi"}],
    }
    async with serve(host, registry=registry) as served:
        streamed = await fetch(served.port, "POST", "/api/create", body)
        whole = await fetch(served.port, "POST", "/api/create", {**body, "stream": False})
        old = await fetch(served.port, "POST", "/api/create", {"name": "x", "modelfile": "FROM m"})
    assert lines_of(streamed.body)[-1] == whole.json == {"status": "success"}
    overlay = registry.created[0]
    assert (overlay.name, overlay.source, overlay.system) == ("mine", "m", "be brief")
    assert overlay.parameters == {"temperature": 0.1}
    assert (old.status, old.json["error"]) == (400, "neither 'from' or 'files' was specified")


async def test_blobs_are_checked_by_their_digest(host: ReadyHost) -> None:
    registry = MemoryRegistry()
    good = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    path, wrong = f"/api/blobs/{good}", f"/api/blobs/sha256:{'0' * 64}"
    async with serve(host, registry=registry) as served:
        assert (await fetch(served.port, "HEAD", path)).status == 404
        assert (await fetch(served.port, "POST", path, b"hello")).status == 201
        assert (await fetch(served.port, "POST", path, b"hello")).status == 200
        assert (await fetch(served.port, "HEAD", path)).status == 200
        mismatch = await fetch(served.port, "POST", wrong, b"hello")
        assert (await fetch(served.port, "POST", "/api/blobs/x", b"hello")).status == 400
    assert mismatch.status == 400
    assert mismatch.json["error"].startswith("digest mismatch, expected sha256:000")


@pytest.mark.parametrize(
    ("method", "path", "body", "says"),
    [
        ("DELETE", "/api/delete", {"model": "m"}, "blazar models rm m"),
        ("POST", "/api/copy", {"source": "m", "destination": "b"}, "blazar models add"),
        ("POST", "/api/create", {"model": "b", "from": "m"}, "blazar models add"),
        ("POST", "/api/push", {"model": "m"}, "never uploads"),
        ("POST", "/api/pull", {"model": "nobody"}, "blazar models add"),
        ("POST", f"/api/blobs/sha256:{'0' * 64}", {}, "blazar models add"),
    ],
)
async def test_what_this_server_does_not_do_is_refused_with_what_to_type(
    host: ReadyHost, method: str, path: str, body: object, says: str
) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, method, path, body)
    assert answer.status == 400
    assert says in answer.json["error"]


async def test_pulling_what_is_there_succeeds(host: ReadyHost) -> None:
    async with serve(host) as served:
        streamed = await fetch(served.port, "POST", "/api/pull", {"model": "m"})
        whole = await fetch(served.port, "POST", "/api/pull", {"model": "m", "stream": False})
    assert lines_of(streamed.body)[-1] == whole.json == {"status": "success"}


async def test_a_refusal_of_the_registry_reaches_the_client(host: ReadyHost) -> None:
    registry = MemoryRegistry(refusal=InvalidRequest("the name 'b' is taken."))
    async with serve(host, registry=registry) as served:
        answer = await fetch(served.port, "POST", "/api/copy", {"source": "m", "destination": "b"})
    assert (answer.status, answer.json["error"]) == (400, "the name 'b' is taken.")


@pytest.mark.parametrize("path", ["/api/me", "/api/signout", "/api/experimental/web_search"])
async def test_what_belongs_to_ollamas_cloud_is_not_there(host: ReadyHost, path: str) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", path, {})
    assert answer.status == 404
    assert isinstance(answer.json["error"], str)


EMBEDDER = FixedCatalogue(card(capabilities=("embedding",)))


async def vectors(exchange: Exchange) -> None:
    inputs: Any = exchange.json["input"]
    data = [{"index": index, "embedding": [3.0, 4.0, float(index)]} for index in range(len(inputs))]
    usage = {"prompt_tokens": 2 * len(inputs), "total_tokens": 2 * len(inputs)}
    # Out of order, as nothing promises one.
    await exchange.answer(json.dumps({"data": data[::-1], "usage": usage}).encode())


@pytest.mark.parametrize(
    ("encoding", "inputs"),
    [(None, "a"), ("float", ["a", "b"]), ("base64", ["a", "b"]), ("base64", [1, 2]), (None, [[1], [2, 3]])],
)
async def test_openai_embeddings_in_order_and_in_the_encoding_asked_for(
    host: ReadyHost, engine: ScriptedEngine, encoding: str | None, inputs: Any
) -> None:
    engine.script = vectors
    async with serve(host, catalogue=EMBEDDER) as served:
        body = {"model": "m", "input": inputs, "encoding_format": encoding}
        answer = (await fetch(served.port, "POST", "/v1/embeddings", body)).json
    count = 1 if inputs in ("a", [1, 2]) else 2
    assert answer["usage"] == {"prompt_tokens": 2 * count, "total_tokens": 2 * count}
    for index, row in enumerate(answer["data"]):
        vector = row["embedding"]
        if encoding == "base64":
            vector = list(struct.unpack("<3f", base64.b64decode(vector)))
        assert (row["index"], vector) == (index, [3.0, 4.0, float(index)])
    assert len(answer["data"]) == count


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"encoding_format": "int8"}, "encoding_format"),
        ({"input": []}, "input"),
        ({"input": ""}, "input"),
        ({"input": [""]}, "input"),
        ({"input": None}, "input"),
        ({"dimensions": 9}, "dimensions"),
    ],
)
async def test_odd_embedding_requests_name_the_field(
    host: ReadyHost, engine: ScriptedEngine, changes: dict[str, Any], says: str
) -> None:
    engine.script = vectors
    async with serve(host, catalogue=EMBEDDER) as served:
        answer = await fetch(served.port, "POST", "/v1/embeddings", {"model": "m", "input": "a", **changes})
    assert answer.status == 400
    assert says in answer.json["error"]["message"]


async def test_ollama_vectors_have_length_1(host: ReadyHost, engine: ScriptedEngine) -> None:
    engine.script = vectors
    async with serve(host, catalogue=EMBEDDER) as served:
        body = {"model": "m", "input": ["a", "b"], "dimensions": 2}
        both = (await fetch(served.port, "POST", "/api/embed", body)).json
        none = (await fetch(served.port, "POST", "/api/embed", {"model": "m", "input": []})).json
        old = (await fetch(served.port, "POST", "/api/embeddings", {"model": "m", "prompt": "a"})).json
        empty = (await fetch(served.port, "POST", "/api/embeddings", {"model": "m"})).json
        bad = await fetch(served.port, "POST", "/api/embed", {"model": "m", "input": 5})
    assert both["embeddings"] == [[0.6, 0.8], [0.6, 0.8]]
    assert both["prompt_eval_count"] == 4
    assert none["embeddings"] == empty["embedding"] == []
    assert old["embedding"] == [3.0, 4.0, 0.0]
    assert (bad.status, bad.json["error"]) == (400, "invalid input type")


@pytest.mark.parametrize(
    ("path", "body", "row", "says"),
    [
        ("/v1/embeddings", {"input": "a"}, card(engine="mlx"), "/v1/chat/completions"),
        ("/api/embed", {"input": "a"}, card(engine="mlx"), "/v1/chat/completions"),
        ("/v1/embeddings", {"input": "a"}, card(capabilities=("rerank",)), "/v1/rerank"),
        ("/api/embeddings", {"prompt": "a"}, card(engine="sdcpp"), "images"),
        ("/v1/rerank", {"query": "a", "documents": ["b"]}, card(), "/v1/chat/completions"),
        ("/v2/rerank", {"query": "a", "documents": ["b"]}, card(capabilities=("embedding",)), "/v1/embeddings"),
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": "x"}]},
            card(capabilities=("rerank",)),
            "/v1/rerank",
        ),
        (
            "/api/chat",
            {"messages": [{"role": "user", "content": "x"}]},
            card(capabilities=("embedding",)),
            "embeddings",
        ),
        (
            "/v1/messages",
            {"max_tokens": 1, "messages": [{"role": "user", "content": "x"}]},
            card(engine="sdcpp"),
            "images",
        ),
        ("/api/generate", {"prompt": "x", "raw": True}, card(engine="whisper"), "transcriptions"),
    ],
)
async def test_the_wrong_kind_of_model_is_told_the_right_endpoint(
    host: ReadyHost, path: str, body: dict[str, Any], row: Any, says: str
) -> None:
    async with serve(host, catalogue=FixedCatalogue(row)) as served:
        answer = await fetch(served.port, "POST", path, {"model": "m", **body})
    assert answer.status == 400
    assert says in json.dumps(answer.json["error"])
    assert host.tickets == []


@pytest.mark.parametrize("path", ["/v1/embeddings", "/api/embed"])
async def test_late_chunking_is_refused_and_never_passed_over(host: ReadyHost, path: str) -> None:
    embedder = FixedCatalogue(card(capabilities=("embedding",)))
    async with serve(host, catalogue=embedder) as served:
        answer = await fetch(served.port, "POST", path, {"model": "m", "input": ["a", "b"], "late_chunking": True})
    assert answer.status == 400
    assert b"late_chunking is not served" in answer.body
