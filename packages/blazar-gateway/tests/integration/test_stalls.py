"""Children that take a request and say nothing: at work, or hanging."""

import asyncio
import json

import pytest

from blazar_gateway.testing import (
    Exchange,
    HangingLease,
    HangsThenRecovers,
    PlainSettings,
    RawClient,
    ReadyHost,
    ScriptedEngine,
    chat_frame,
    fetch,
    serve,
    until,
)

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
QUICK = PlainSettings(child_header_timeout_secs=0.05)


async def says_nothing(exchange: Exchange) -> None:
    await exchange.client_left.wait()


def leases(host: ReadyHost) -> list[HangingLease]:
    return [lease for lease in host.leases if isinstance(lease, HangingLease)]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_hanging_child_is_condemned_and_another_answers(engine: ScriptedEngine, *, stream: bool) -> None:
    engine.scripts = [says_nothing]
    host = HangsThenRecovers(engine, hangs=1)
    async with serve(host, settings=QUICK) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", {**CHAT, "stream": stream})
    assert answer.status == 200
    assert [lease.condemned for lease in leases(host)] == [True, False]
    assert len(engine.exchanges) == 2


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_second_hang_is_the_end(engine: ScriptedEngine, *, stream: bool) -> None:
    engine.script = says_nothing
    host = HangsThenRecovers(engine, hangs=2)
    async with serve(host, settings=QUICK) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", {**CHAT, "stream": stream})
    assert (answer.status, answer.json["error"]["code"]) == (504, "engine_stalled")
    assert answer.headers["x-should-retry"] == "false"
    assert [lease.condemned for lease in leases(host)] == [True, True]
    assert len(engine.exchanges) == 2


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_silent_child_that_moves_is_left_alone(engine: ScriptedEngine, *, stream: bool) -> None:
    host = HangsThenRecovers(engine, moves=True)
    well = engine.script

    async def works_long(exchange: Exchange) -> None:
        await until(lambda: leases(host)[0].asked >= 3)
        await well(exchange)

    engine.script = works_long
    async with serve(host, settings=QUICK) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", {**CHAT, "stream": stream})
    assert answer.status == 200
    assert len(engine.exchanges) == 1
    assert not leases(host)[0].condemned


async def test_lease_that_cannot_tell_is_never_found_to_hang(host: ReadyHost, engine: ScriptedEngine) -> None:
    well = engine.script

    async def works_long(exchange: Exchange) -> None:
        await asyncio.sleep(0.2)
        await well(exchange)

    engine.script = works_long
    async with serve(host, settings=QUICK) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert answer.status == 200
    assert len(engine.exchanges) == 1


async def test_limit_of_zero_waits_for_ever(engine: ScriptedEngine) -> None:
    engine.script = says_nothing
    host = HangsThenRecovers(engine)
    settings = PlainSettings(child_header_timeout_secs=0)
    async with serve(host, settings=settings) as served, RawClient(served.port) as client:
        await client.post("/v1/chat/completions", CHAT)
        await engine.arrived(1)
        await asyncio.sleep(0.1)
    assert leases(host)[0].asked == 0


async def test_stream_that_moves_is_never_asked_about(engine: ScriptedEngine) -> None:
    async def keeps_talking(exchange: Exchange) -> None:
        await exchange.begin_stream()
        for _ in range(30):
            await exchange.chunk(chat_frame({"content": "x"}))
            await asyncio.sleep(0.01)
        await exchange.chunk(b"data: [DONE]\n\n")
        await exchange.end_stream()

    engine.script = keeps_talking
    host = HangsThenRecovers(engine)
    settings = PlainSettings(child_header_timeout_secs=2)
    async with serve(host, settings=settings) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", {**CHAT, "stream": True})
    assert len(answer.frames) == 31
    assert leases(host)[0].asked == 0


async def test_hang_in_the_middle_of_a_stream_is_an_error_event_and_no_second_try(engine: ScriptedEngine) -> None:
    async def stops_talking(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(chat_frame({"content": "one"}))
        await exchange.client_left.wait()

    engine.script = stops_talking
    host = HangsThenRecovers(engine)
    async with serve(host, settings=QUICK) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", {**CHAT, "stream": True})
    first, last = answer.frames
    assert b"one" in first
    assert json.loads(last[6:])["error"]["code"] == "engine_unreachable"
    assert leases(host)[0].condemned
    assert len(engine.exchanges) == 1


async def test_hang_in_the_middle_of_a_whole_answer_may_be_tried_again(engine: ScriptedEngine) -> None:
    async def stops_talking(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(chat_frame({"content": "one"}))
        await exchange.client_left.wait()

    engine.scripts = [stops_talking]
    host = HangsThenRecovers(engine)
    async with serve(host, settings=QUICK) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert answer.json["choices"][0]["message"]["content"] == "Hello wörld"


async def test_tokenize_that_hangs_is_answered(engine: ScriptedEngine) -> None:
    engine.script = says_nothing
    host = HangsThenRecovers(engine)
    async with serve(host, settings=QUICK) as served:
        answer = await fetch(served.port, "POST", "/tokenize", {"model": "m", "content": "x"})
    assert (answer.status, answer.json["error"]["code"]) == (504, "engine_stalled")


async def test_client_that_reads_slowly_is_not_its_childs_hang(engine: ScriptedEngine) -> None:
    frame = chat_frame({"content": "x" * 60_000})

    async def floods(exchange: Exchange) -> None:
        await exchange.stream([*[frame] * 300, b"data: [DONE]\n\n"])

    engine.script = floods
    host = HangsThenRecovers(engine)
    async with serve(host, settings=QUICK) as served, RawClient(served.port) as client:
        await client.post("/v1/chat/completions", {**CHAT, "stream": True})
        await client.read_until(b"\r\n\r\n")
        # Several limits pass in which the child cannot send because the client does not read.
        await asyncio.sleep(0.4)
        await client.read_until(b"0\r\n\r\n")
    assert leases(host)[0].asked == 0
    assert not leases(host)[0].condemned
