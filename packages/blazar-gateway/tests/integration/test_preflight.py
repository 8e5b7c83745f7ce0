"""A prompt that comes near the context is counted by the engine; one that does not fit is refused, never cut."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from blazar_gateway.testing import Exchange, FixedCatalogue, ReadyHost, ScriptedEngine, card, fetch, serve
from blazar_gateway.testing.residents import FakeResident

CTX = 100
LONG = "word " * 80
"""400 bytes: an estimate of 100 tokens."""
EMBEDDER = "e"
ROWS = FixedCatalogue(card(context_length=4096), card(EMBEDDER, capabilities=("embedding",)))
COUNT = "/v1/chat/completions/input_tokens"

CHATS: dict[str, Any] = {
    "/v1/chat/completions": {"model": "m", "messages": [{"role": "user", "content": LONG}]},
    "/v1/messages": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": LONG}]},
    "/v1/responses": {"model": "m", "input": LONG},
    "/api/chat": {"model": "m", "messages": [{"role": "user", "content": LONG}], "stream": False},
    "/api/generate": {"model": "m", "prompt": LONG, "stream": False},
}
TEXTS: dict[str, Any] = {
    "/v1/completions": {"model": "m", "prompt": LONG},
    "/v1/embeddings": {"model": EMBEDDER, "input": ["short", LONG]},
    "/api/embed": {"model": EMBEDDER, "input": [LONG]},
    "/api/embeddings": {"model": EMBEDDER, "prompt": LONG},
    "/api/generate": {"model": "m", "prompt": LONG, "raw": True, "stream": False},
}


@pytest.fixture
def small(engine: ScriptedEngine) -> ReadyHost:
    """A host whose children have a context of 100 tokens."""
    residents = [FakeResident(model=name, child=name, ctx_tokens=CTX) for name in ("m", EMBEDDER)]
    return ReadyHost(engine, resident=list(residents))


def counting(engine: ScriptedEngine, tokens: int) -> None:
    """Let the engine count every prompt as ``tokens``, and answer as before otherwise."""
    well = engine.script

    async def script(exchange: Exchange) -> None:
        if exchange.path == COUNT:
            await exchange.answer(json.dumps({"input_tokens": tokens}).encode())
        elif exchange.path == "/tokenize":
            await exchange.answer(json.dumps({"tokens": [1] * tokens}).encode())
        elif exchange.path == "/v1/embeddings":
            inputs = json.loads(exchange.body)["input"]
            rows = [{"embedding": [1.0], "index": index} for index, _ in enumerate(inputs)]
            await exchange.answer(json.dumps({"data": rows, "usage": {"prompt_tokens": 1}}).encode())
        else:
            await well(exchange)

    engine.script = script


def paths(engine: ScriptedEngine) -> list[str]:
    return [exchange.path for exchange in engine.exchanges]


@pytest.mark.parametrize(("path", "body"), [*CHATS.items(), *TEXTS.items()])
async def test_what_does_not_fit_is_refused_with_figures_and_levers(
    small: ReadyHost, engine: ScriptedEngine, path: str, body: dict[str, Any]
) -> None:
    counting(engine, 101)
    async with serve(small, catalogue=ROWS) as served:
        answer = await fetch(served.port, "POST", path, body)
    assert answer.status == 400
    error = answer.json["error"]
    text = error if isinstance(error, str) else error["message"]
    available = CTX if body["model"] == EMBEDDER else CTX - 1
    assert text.startswith(f"prompt is too long: 101 tokens > {available} maximum. ")
    assert "`ctx = 1024`" in text
    assert "Send less" in text
    assert len(engine.exchanges) == 1, "the engine was only asked to count"
    if path == "/v1/messages":
        assert answer.json["type"] == "error"
        assert error["type"] == "invalid_request_error"
    elif isinstance(error, dict):
        assert (error["code"], error["n_prompt_tokens"], error["n_ctx"]) == ("context_length_exceeded", 101, CTX)
    else:
        assert answer.json["code"] == "context_length_exceeded"


@pytest.mark.parametrize(("path", "body"), [*CHATS.items(), *TEXTS.items()])
async def test_what_fits_after_all_is_served(
    small: ReadyHost, engine: ScriptedEngine, path: str, body: dict[str, Any]
) -> None:
    counting(engine, 50)
    async with serve(small, catalogue=ROWS) as served:
        assert (await fetch(served.port, "POST", path, body)).status == 200
    assert paths(engine)[0] in {COUNT, "/tokenize"}


@pytest.mark.parametrize(("path", "body"), [*CHATS.items(), *TEXTS.items()])
async def test_a_short_prompt_costs_no_question(
    small: ReadyHost, engine: ScriptedEngine, path: str, body: dict[str, Any]
) -> None:
    counting(engine, 999)
    short = json.loads(json.dumps(body).replace(LONG, "Hi"))
    async with serve(small, catalogue=ROWS) as served:
        assert (await fetch(served.port, "POST", path, short)).status == 200
    assert COUNT not in paths(engine)[:1]
    assert "/tokenize" not in paths(engine)[:1]


async def test_a_stream_that_does_not_fit_has_its_own_status(small: ReadyHost, engine: ScriptedEngine) -> None:
    counting(engine, 101)
    async with serve(small, catalogue=ROWS) as served:
        for path in CHATS:
            answer = await fetch(served.port, "POST", path, {**CHATS[path], "stream": True})
            assert (answer.status, answer.headers["content-type"].split(";")[0]) == (400, "application/json")


async def test_the_threshold_is_nine_tenths_of_the_context(small: ReadyHost, engine: ScriptedEngine) -> None:
    counting(engine, 50)
    frame = len(json.dumps({"model": "m", "prompt": "", "stream": True, "stream_options": {"include_usage": True}}))
    async with serve(small, catalogue=ROWS) as served:
        for size in (360 - frame - 40, 361):
            await fetch(served.port, "POST", "/v1/completions", {"model": "m", "prompt": "x" * size})
    assert paths(engine) == ["/v1/completions", "/tokenize", "/v1/completions"]


async def test_tokens_are_counted_without_the_engine(small: ReadyHost, engine: ScriptedEngine) -> None:
    counting(engine, 1)
    async with serve(small, catalogue=ROWS) as served:
        for number, status in ((99, 200), (100, 400)):
            answer = await fetch(served.port, "POST", "/v1/completions", {"model": "m", "prompt": [10_000] * number})
            assert answer.status == status
    assert paths(engine) == ["/v1/completions"]


async def test_a_picture_is_no_text(small: ReadyHost, engine: ScriptedEngine) -> None:
    counting(engine, 999)
    rows = FixedCatalogue(card(capabilities=("completion", "vision")))
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 5000}}
    body = {"model": "m", "messages": [{"role": "user", "content": [picture]}]}
    async with serve(small, catalogue=rows) as served:
        assert (await fetch(served.port, "POST", "/v1/chat/completions", body)).status == 200
    assert paths(engine) == ["/v1/chat/completions"]


async def test_an_engine_without_the_route_renders_and_counts(small: ReadyHost, engine: ScriptedEngine) -> None:
    asked: list[Any] = []

    async def older(exchange: Exchange) -> None:
        asked.append((exchange.path, exchange.json))
        match exchange.path:
            case "/apply-template":
                await exchange.answer(b'{"prompt":"<user>word"}')
            case "/tokenize":
                await exchange.answer(json.dumps({"tokens": [1] * 101}).encode())
            case _:
                await exchange.answer(b'{"error":{"message":"File Not Found","code":404}}', status=404)

    engine.script = older
    async with serve(small, catalogue=ROWS) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHATS["/v1/chat/completions"])
    assert answer.status == 400
    assert "101 tokens > 99 maximum" in answer.json["error"]["message"]
    assert [path for path, _ in asked] == [COUNT, "/apply-template", "/tokenize"]
    assert asked[2][1] == {"content": "<user>word", "add_special": True, "parse_special": True}


async def test_an_engine_that_cannot_count_decides_itself(small: ReadyHost, engine: ScriptedEngine) -> None:
    async def counts_not(exchange: Exchange) -> None:
        if exchange.path == "/v1/chat/completions":
            error = {"code": 400, "message": "no", "type": "exceed_context_size_error", "n_prompt_tokens": 120}
            await exchange.answer(json.dumps({"error": {**error, "n_ctx": 100}}).encode(), status=400)
        else:
            await exchange.answer(b"nothing here", status=404)

    engine.script = counts_not
    async with serve(small, catalogue=ROWS) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHATS["/v1/chat/completions"])
    # The engine's own refusal is told with the same text.
    assert answer.json["error"]["message"].startswith("prompt is too long: 120 tokens > 99 maximum. ")
    assert answer.json["error"]["code"] == "context_length_exceeded"


async def test_a_model_that_was_not_trained_for_more_is_told_so(small: ReadyHost, engine: ScriptedEngine) -> None:
    counting(engine, 5000)
    async with serve(small, catalogue=ROWS) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHATS["/v1/chat/completions"])
    assert (
        "choose a model with a longer context: this one was trained for 4096 tokens" in answer.json["error"]["message"]
    )


@pytest.fixture(autouse=True)
async def every_lease_comes_back(small: ReadyHost) -> AsyncIterator[None]:
    yield
    assert small.held == 0
