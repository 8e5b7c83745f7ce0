"""Clients that leave: the child is told at once, and everything comes back."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from blazar_gateway import event_stream
from blazar_gateway.testing import (
    Exchange,
    LoadingHost,
    PlainSettings,
    RawClient,
    ReadyHost,
    ScriptedEngine,
    chat_frame,
    chat_stream,
    serve,
    until,
)

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


async def never_answers(exchange: Exchange) -> None:
    await exchange.client_left.wait()


async def sends_headers_only(exchange: Exchange) -> None:
    await exchange.begin_stream()
    await exchange.client_left.wait()


async def streams_slowly(exchange: Exchange) -> None:
    await exchange.begin_stream()
    while not exchange.client_left.is_set():
        await exchange.chunk(chat_frame({"content": "x"}))
        await asyncio.sleep(0.005)


LEAVE: dict[str, Callable[[RawClient], None]] = {"FIN": RawClient.close, "RST": RawClient.reset}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("way", LEAVE)
@pytest.mark.parametrize("script", [never_answers, sends_headers_only, streams_slowly])
async def test_child_sees_the_close_within_a_second(
    host: ReadyHost,
    engine: ScriptedEngine,
    caplog: pytest.LogCaptureFixture,
    script: Callable[[Exchange], Awaitable[None]],
    way: str,
    *,
    stream: bool,
) -> None:
    engine.script = script
    async with serve(host) as served, RawClient(served.port) as client:
        await client.post("/v1/chat/completions", {**CHAT, "stream": stream})
        exchange = await engine.arrived(1)
        if stream and script is streams_slowly:
            await client.read_until(b"\n\n")
        LEAVE[way](client)
        await asyncio.wait_for(exchange.client_left.wait(), 30)
        await served.at_rest()
        assert served.gateway.traffic.abandoned == 1
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_leaving_while_the_model_loads_withdraws_the_request(engine: ScriptedEngine, *, stream: bool) -> None:
    host = LoadingHost(engine)
    async with serve(host) as served, RawClient(served.port) as client:
        await client.post("/v1/chat/completions", {**CHAT, "stream": stream})
        await until(lambda: host.waiters)
        client.close()
        await served.at_rest()
    assert host.waiters == 0
    assert not host.leases
    assert not engine.exchanges


async def test_client_that_stops_reading_and_then_leaves_frees_the_child(
    host: ReadyHost, engine: ScriptedEngine
) -> None:
    async def floods(exchange: Exchange) -> None:
        await exchange.begin_stream()
        while not exchange.client_left.is_set():
            await exchange.chunk(chat_frame({"content": "x" * 10_000}))

    engine.script = floods
    async with serve(host) as served, RawClient(served.port) as client:
        await client.post("/v1/chat/completions", {**CHAT, "stream": True})
        await client.read_until(b"\n\n")
        client.reset()
        await asyncio.wait_for(engine.exchanges[0].client_left.wait(), 30)


async def test_tokenize_can_be_left_too(host: ReadyHost, engine: ScriptedEngine) -> None:
    engine.script = never_answers
    async with serve(host) as served, RawClient(served.port) as client:
        await client.post("/tokenize", {"model": "m", "content": "x"})
        exchange = await engine.arrived(1)
        client.close()
        await asyncio.wait_for(exchange.client_left.wait(), 30)


async def test_next_request_is_served_at_once_after_one_that_left(host: ReadyHost, engine: ScriptedEngine) -> None:
    async with serve(host) as served:
        well = engine.script
        for _ in range(20):
            engine.script = streams_slowly
            async with RawClient(served.port) as client:
                await client.post("/v1/chat/completions", {**CHAT, "stream": True})
                await client.read_until(b"\n\n")
            engine.script = well
            async with RawClient(served.port) as client:
                await client.post("/v1/chat/completions", CHAT)
                assert (await client.answer()).status == 200


async def test_body_that_never_ends_is_left_with_its_client(host: ReadyHost) -> None:
    async with serve(host) as served, RawClient(served.port) as client:
        await client.post("/v1/chat/completions", b'{"model":', headers={"Content-Length": "1000"})
        await until(lambda: served.gateway.traffic.requests)
        client.close()
    assert not host.tickets


async def floods(exchange: Exchange) -> None:
    await exchange.begin_stream()
    while not exchange.client_left.is_set():
        await exchange.chunk(chat_frame({"content": "x" * 60_000}))


async def test_client_that_has_stopped_reading_is_given_up_in_the_end(
    host: ReadyHost, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "PATIENCE_S", 0.1)
    engine.script = floods
    settings = PlainSettings(stream_ping_secs=0.02)
    async with serve(host, settings=settings) as served, RawClient(served.port) as client:
        await client.post("/v1/chat/completions", {**CHAT, "stream": True})
        await client.read_until(b"\n\n")
        client.stop_reading()
        await asyncio.wait_for((await engine.arrived(1)).client_left.wait(), 30)
        await served.at_rest()
        assert served.gateway.traffic.abandoned == 1


async def test_client_that_does_not_take_the_last_bytes_is_given_up_too(
    host: ReadyHost, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answers_at_length(exchange: Exchange) -> None:
        await exchange.stream(chat_stream(["x" * 100_000] * 200))

    monkeypatch.setattr(event_stream, "PATIENCE_S", 0.1)
    engine.script = answers_at_length
    async with serve(host) as served, RawClient(served.port) as client:
        client.stop_reading()
        await client.post("/v1/chat/completions", CHAT)
        await engine.arrived(1)
        await served.at_rest()
        assert served.gateway.traffic.abandoned == 1
