"""Work for which a model has an instance of its own: vectors of a text model, and images."""

import json
from typing import Any

import pytest

from blazar_gateway.testing import Exchange, FixedCatalogue, ReadyHost, ScriptedEngine, card, chat_stream, fetch, serve
from blazar_gateway.testing.residents import FakeResident
from blazar_gateway.truncation import cut_tokens
from blazar_routing.instances import Role

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
SEES = FixedCatalogue(card(capabilities=("completion", "vision")))


class EmbeddingEngine:
    """Makes a vector of one number for each input, and complains as llama-server does."""

    def __init__(self, *, limit: int | None = None, pool_takes: int | None = None) -> None:
        self.limit = limit
        self.pool_takes = pool_takes
        self.asked: list[Any] = []

    async def __call__(self, exchange: Exchange) -> None:
        body: Any = exchange.json
        if exchange.path == "/tokenize":
            tokens = list(range(10, 10 + len(body["content"].split())))
            await self._say(exchange, {"tokens": [1, *tokens, 2] if body["add_special"] else tokens})
            return
        inputs = body["input"]
        self.asked.append(inputs)
        if self.pool_takes is not None and len(inputs) > self.pool_takes:
            error = {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}
            await exchange.answer(json.dumps({"error": error}).encode(), status=500)
            return
        data = [{"index": index, "embedding": [float(len(item))]} for index, item in enumerate(inputs)]
        await self._say(exchange, {"data": data, "usage": {"prompt_tokens": 3 * len(inputs)}})

    async def _say(self, exchange: Exchange, answer: dict[str, Any]) -> None:
        await exchange.answer(json.dumps(answer).encode())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": "a"}),
        ("/embeddings", {"input": "a"}),
        ("/api/embed", {"input": "a"}),
        ("/api/embeddings", {"prompt": "a"}),
    ],
)
async def test_vectors_of_a_text_model_come_from_an_instance_of_its_own(
    host: ReadyHost, engine: ScriptedEngine, path: str, body: dict[str, Any]
) -> None:
    engine.script = EmbeddingEngine()
    host.companions = frozenset({Role.EMBED})
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", path, {"model": "m", "keep_alive": 9, **body})
    assert answer.status == 200
    assert [ticket.model for ticket in host.tickets] == ["m@embed"]
    assert host.kept == [("m@embed", 9.0)]
    assert engine.exchanges[0].json["model"] == "m"
    # What was used is the model's, whichever of its instances served it.
    assert {model for _, model in served.gateway.admission.ledger.totals} == {"m"}


async def test_an_embedder_needs_no_companion(host: ReadyHost, engine: ScriptedEngine) -> None:
    engine.script = EmbeddingEngine()
    async with serve(host, catalogue=FixedCatalogue(card(capabilities=("embedding",)))) as served:
        await fetch(served.port, "POST", "/v1/embeddings", {"model": "m", "input": ["a", "b"]})
    (ticket,) = host.tickets
    assert (ticket.model, ticket.slots) == ("m", 2)


async def test_inputs_that_do_not_fit_together_are_asked_for_one_by_one(
    host: ReadyHost, engine: ScriptedEngine
) -> None:
    engine.script = script = EmbeddingEngine(pool_takes=1)
    async with serve(host) as served:
        body = {"model": "m", "input": ["a", "bb", "ccc"]}
        answer = (await fetch(served.port, "POST", "/v1/embeddings", body)).json
    assert [row["embedding"] for row in answer["data"]] == [[1.0], [2.0], [3.0]]
    assert answer["usage"]["prompt_tokens"] == 9
    assert script.asked == [["a", "bb", "ccc"], ["a"], ["bb"], ["ccc"]]


async def test_ollama_cuts_what_is_too_long_only_when_told_to(engine: ScriptedEngine) -> None:
    engine.script = script = EmbeddingEngine()
    host = ReadyHost(engine, resident=[FakeResident(ctx_tokens=16)])
    long = "word " * 40
    async with serve(host) as served:
        body = {"model": "m", "input": [long, "short"]}
        refused = await fetch(served.port, "POST", "/api/embed", body)
        cut = await fetch(served.port, "POST", "/api/embed", {**body, "truncate": True})
        odd = await fetch(served.port, "POST", "/api/embed", {**body, "truncate": "yes"})
    assert refused.status == 400
    assert "too long" in refused.json["error"]
    assert cut.status == 200
    assert script.asked == [[[1, *range(10, 24), 2], "short"]]
    assert odd.status == 400


@pytest.mark.parametrize(
    ("whole", "bare", "limit", "cut"),
    [
        ([101, 5, 6, 7, 102], [5, 6, 7], 4, [101, 5, 6, 102]),
        ([1, 5, 6, 7], [5, 6, 7], 2, [1, 5]),
        ([5, 6, 7], [5, 6, 7], 2, [5, 6]),
        ([9, 9, 9], [5, 6], 2, [9, 9]),
        ([101, 5, 102], [5], 1, [101]),
    ],
)
def test_what_the_engine_adds_at_both_ends_is_kept(
    whole: list[int], bare: list[int], limit: int, cut: list[int]
) -> None:
    assert cut_tokens(whole, bare, limit) == cut


async def test_an_empty_input_only_loads(host: ReadyHost) -> None:
    host.companions = frozenset({Role.EMBED})
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/api/embed", {"model": "m", "input": ""})
    assert answer.json["embeddings"] == []
    (ticket,) = host.tickets
    assert (ticket.model, ticket.slots) == ("m@embed", 0)


CHATS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": [IMAGE]}]},
    "/api/chat": {"messages": [{"role": "user", "content": "x", "images": ["iVBORw0KGgo="]}], "stream": False},
    "/v1/messages": {
        "max_tokens": 9,
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
                ],
            }
        ],
    },
    "/v1/responses": {
        "input": [
            {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}]}
        ]
    },
}


@pytest.mark.parametrize("path", CHATS)
async def test_images_go_to_the_instance_that_sees_and_text_to_the_plain_one(
    host: ReadyHost, engine: ScriptedEngine, path: str
) -> None:
    async def chats(exchange: Exchange) -> None:
        await exchange.stream(chat_stream(["yes"]))

    engine.script = chats
    host.companions = frozenset({Role.VISION})
    text: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, "stream": False}
    if path == "/v1/responses":
        text = {"input": "hi"}
    async with serve(host, catalogue=SEES) as served:
        seen = await fetch(served.port, "POST", path, {"model": "m", **CHATS[path]})
        read = await fetch(served.port, "POST", path, {"model": "m", **text})
    assert (seen.status, read.status) == (200, 200)
    assert [ticket.model for ticket in host.tickets] == ["m@vision", "m"]
    assert {exchange.json["model"] for exchange in engine.exchanges} == {"m"}
    assert {model for _, model in served.gateway.admission.ledger.totals} == {"m"}
