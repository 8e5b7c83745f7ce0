"""Identical chats at once, over sockets and in every dialect that has chats."""

import asyncio
import json
from typing import Any

import pytest

from blazar_gateway.access.keyring import Key
from blazar_gateway.testing import (
    Exchange,
    RawClient,
    ReadyHost,
    ScriptedEngine,
    chat_stream,
    fetch,
    serve,
    until,
)
from blazar_store.key_secrets import hash_secret

ASKS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0},
    "/v1/messages": {"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], "temperature": 0},
    "/v1/responses": {"input": "Hi", "temperature": 0},
    "/api/chat": {"messages": [{"role": "user", "content": "Hi"}], "stream": False, "options": {"seed": 1}},
}


class Held:
    """An engine that evaluates, and answers, when it is told to."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self.evaluate = asyncio.Event()
        self.finish = asyncio.Event()
        self.engine = engine
        engine.script = self.script

    async def script(self, exchange: Exchange) -> None:
        text = f"answer {len(self.engine.exchanges)}"
        frames = chat_stream([text])
        cut = frames.index(b"\n\n") + 2
        await self.evaluate.wait()
        await exchange.begin_stream()
        await exchange.chunk(frames[:cut])
        await self.finish.wait()
        await exchange.chunk(frames[cut:])
        await exchange.end_stream()


@pytest.mark.parametrize(("path", "ask"), ASKS.items())
async def test_deterministic_chats_share_one_answer(
    host: ReadyHost, engine: ScriptedEngine, path: str, ask: dict[str, Any]
) -> None:
    held = Held(engine)
    async with serve(host) as served:
        jobs = [asyncio.ensure_future(fetch(served.port, "POST", path, {"model": "m", **ask})) for _ in range(5)]
        await until(lambda: served.gateway.flights.following == 4)
        held.evaluate.set()
        held.finish.set()
        answers = await asyncio.gather(*jobs)
        assert served.gateway.flights.shared == 4
    assert len(engine.exchanges) == 1
    assert {answer.status for answer in answers} == {200}
    assert all(b"answer 1" in answer.body for answer in answers)
    if path in {"/v1/messages", "/v1/responses"}:
        assert len({answer.json["id"] for answer in answers}) == 5, "each answer has its own id"


async def test_other_chats_wait_for_the_prefill_and_ask_for_themselves(host: ReadyHost, engine: ScriptedEngine) -> None:
    held = Held(engine)
    ask = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    async with serve(host) as served:
        jobs = [asyncio.ensure_future(fetch(served.port, "POST", "/v1/chat/completions", ask)) for _ in range(3)]
        await until(lambda: served.gateway.flights.following == 2)
        await engine.arrived(1)
        assert len(engine.exchanges) == 1
        held.evaluate.set()
        await engine.arrived(3)
        held.finish.set()
        texts = {answer.json["choices"][0]["message"]["content"] for answer in await asyncio.gather(*jobs)}
    assert texts == {"answer 1", "answer 2", "answer 3"}


async def test_the_leader_may_leave(host: ReadyHost, engine: ScriptedEngine) -> None:
    held = Held(engine)
    path = "/v1/chat/completions"
    ask = {"model": "m", **ASKS[path]}
    async with serve(host) as served:
        async with RawClient(served.port) as leader:
            await leader.post(path, ask)
            first = await engine.arrived(1)
            job = asyncio.ensure_future(fetch(served.port, "POST", path, ask))
            await until(lambda: served.gateway.flights.following == 1)
            leader.reset()
            await first.client_left.wait()
        await engine.arrived(2)
        held.evaluate.set()
        held.finish.set()
        answer = await job
    assert answer.json["choices"][0]["message"]["content"] == "answer 2"


@pytest.mark.parametrize(
    "difference",
    [
        {"stream": True},
        {"temperature": 0.0, "max_tokens": 3},
        {"messages": [{"role": "user", "content": "Ho"}]},
        {"keep_alive": "1m"},
    ],
    ids=["a stream", "another limit", "another text", "another stay"],
)
async def test_what_differs_is_asked_apart(
    host: ReadyHost, engine: ScriptedEngine, difference: dict[str, object]
) -> None:
    held = Held(engine)
    path = "/v1/chat/completions"
    ask = {"model": "m", **ASKS[path]}
    async with serve(host) as served:
        jobs = [asyncio.ensure_future(fetch(served.port, "POST", path, body)) for body in (ask, {**ask, **difference})]
        await engine.arrived(2)
        held.evaluate.set()
        held.finish.set()
        assert {answer.status for answer in await asyncio.gather(*jobs)} == {200}


@pytest.mark.parametrize("header", ["x-blazar-deadline-ms", "x-blazar-priority"])
async def test_another_deadline_or_class_is_asked_apart(host: ReadyHost, engine: ScriptedEngine, header: str) -> None:
    held = Held(engine)
    path = "/v1/chat/completions"
    ask = {"model": "m", **ASKS[path]}
    headers = {header: "60000" if "deadline" in header else "low"}
    async with serve(host) as served:
        jobs = [asyncio.ensure_future(fetch(served.port, "POST", path, ask, headers=each)) for each in ({}, headers)]
        await engine.arrived(2)
        held.evaluate.set()
        held.finish.set()
        await asyncio.gather(*jobs)


async def test_nothing_is_shared_across_keys_and_tokens_are_charged_once(
    host: ReadyHost, engine: ScriptedEngine
) -> None:
    held = Held(engine)
    path = "/v1/chat/completions"
    ask = {"model": "m", **ASKS[path]}
    keys = [Key(name=name, hash=hash_secret(name)) for name in ("a", "b")]
    async with serve(host, keys=keys) as served:
        jobs = [
            asyncio.ensure_future(fetch(served.port, "POST", path, ask, headers={"x-api-key": name}))
            for name in ("a", "a", "b")
        ]
        await until(lambda: served.gateway.flights.following == 1)
        await engine.arrived(2)
        held.evaluate.set()
        held.finish.set()
        await asyncio.gather(*jobs)
        totals = served.gateway.admission.ledger.totals
        # What the engine did is charged, to whom it did it for; requests are counted one by one.
        assert (totals["a", "m"].requests, totals["a", "m"].completion_tokens) == (2, 1)
        assert (totals["b", "m"].requests, totals["b", "m"].completion_tokens) == (1, 1)
    assert len(engine.exchanges) == 2


async def test_an_engines_refusal_is_shared(host: ReadyHost, engine: ScriptedEngine) -> None:
    path = "/v1/chat/completions"
    gate = asyncio.Event()

    async def refuses(exchange: Exchange) -> None:
        await gate.wait()
        error = {"code": 400, "message": "bad grammar", "type": "invalid_request_error"}
        await exchange.answer(json.dumps({"error": error}).encode(), status=400)

    engine.script = refuses
    ask = {"model": "m", **ASKS[path]}
    async with serve(host) as served:
        jobs = [asyncio.ensure_future(fetch(served.port, "POST", path, ask)) for _ in range(3)]
        await until(lambda: served.gateway.flights.following == 2)
        await engine.arrived(1)
        gate.set()
        answers = await asyncio.gather(*jobs)
    assert [(answer.status, answer.json["error"]["message"]) for answer in answers] == [(400, "bad grammar")] * 3
    assert len(engine.exchanges) == 1
