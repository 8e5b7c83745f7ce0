"""While a model loads, a request queues, or the prompt is worked on."""

import asyncio
import json

from blazar_gateway.testing import (
    Exchange,
    LoadingHost,
    PlainSettings,
    RawClient,
    ReadyHost,
    RefusingHost,
    ScriptedEngine,
    chat_frame,
    chat_stream,
    done_frame,
    fetch,
    serve,
    until,
)
from blazar_gateway.testing.neighbours import Progress
from blazar_routing.errors import DeadlineMissed, LoadFailed, QueueFull

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
IMPATIENT = PlainSettings(stream_ping_secs=0.02)


async def test_load_is_told_in_comments_and_the_answer_follows(engine: ScriptedEngine) -> None:
    host = LoadingHost(engine, progress=Progress(fraction=0.42))
    async with serve(host, settings=IMPATIENT) as served, RawClient(served.port) as client:
        await client.post("/v1/chat/completions", CHAT)
        head = await client.read_until(b": loading 42 %\n\n")
        assert b"200 OK" in head
        assert b"text/event-stream" in head
        host.progress = Progress(state="queued", ahead=3)
        await client.read_until(b": queued, 3 ahead\n\n")
        host.progress = Progress()
        await client.read_until(b": loading\n\n")
        host.loaded.set()
        body = await client.read_until(b"0\r\n\r\n")
        assert b"[DONE]" in body


async def test_nothing_is_sent_before_the_first_interval_is_over(engine: ScriptedEngine) -> None:
    host = LoadingHost(engine)
    async with serve(host) as served, RawClient(served.port) as client:
        await client.post("/v1/chat/completions", CHAT)
        await until(lambda: host.waiters)
        host.loaded.set()
        answer = await client.answer()
    assert answer.body == chat_stream(["Hello", " ", "wörld"], with_usage=False)


async def test_failed_load_before_anything_was_sent_has_its_status(engine: ScriptedEngine) -> None:
    host = LoadingHost(engine, failure=LoadFailed(model="m", reason="the file is cut short", advice="Fetch it again."))
    host.loaded.set()
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert answer.status == 500
    assert answer.headers["x-should-retry"] == "false"
    assert answer.json["error"]["message"] == str(host.failure)


async def test_failed_load_after_a_comment_is_an_error_event(engine: ScriptedEngine) -> None:
    host = LoadingHost(engine, failure=LoadFailed(model="m", reason="the file is cut short", advice="Fetch it again."))
    async with serve(host, settings=IMPATIENT) as served, RawClient(served.port) as client:
        await client.post("/v1/chat/completions", CHAT)
        await client.read_until(b": loading\n\n")
        host.loaded.set()
        body = await client.read_until(b"0\r\n\r\n")
        assert served.gateway.traffic.failed == 1
    assert b'data: {"error":{"message":"' in body
    assert b"load_failed" in body
    assert b"[DONE]" not in body


async def test_engines_refusal_after_a_comment_is_an_error_event(engine: ScriptedEngine) -> None:
    async def refuses(exchange: Exchange) -> None:
        await exchange.answer(
            b'{"error":{"message":"too long","type":"exceed_context_size_error","code":400}}', status=400
        )

    engine.script = refuses
    host = LoadingHost(engine)
    async with serve(host, settings=IMPATIENT) as served, RawClient(served.port) as client:
        await client.post("/v1/chat/completions", CHAT)
        await client.read_until(b": loading\n\n")
        host.loaded.set()
        body = await client.read_until(b"0\r\n\r\n")
    assert b'data: {"error":{"message":"too long"' in body
    assert b"context_length_exceeded" in body


async def test_silence_of_the_engine_is_bridged_before_and_between_frames(
    host: ReadyHost, engine: ScriptedEngine
) -> None:
    go_on = asyncio.Event()
    finish = asyncio.Event()

    async def thinks(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await go_on.wait()
        await exchange.chunk(chat_frame({"content": "one"}) + b'data: {"half')
        await finish.wait()
        await exchange.chunk(b'":1}\n\n' + done_frame())
        await exchange.end_stream()

    engine.script = thinks
    async with serve(host, settings=IMPATIENT) as served, RawClient(served.port) as client:
        await client.post("/v1/chat/completions", CHAT)
        await client.read_until(b": waiting for the engine\n\n")
        go_on.set()
        await client.read_until(b"one")
        # A comment never falls into a frame, of which the engine has sent one half.
        await client.read_until(b": waiting for the engine\n\n")
        finish.set()
        body = await client.read_until(b"0\r\n\r\n")
    assert b'data: {"half":1}\n\n' in body


async def test_whole_answers_get_no_comments(engine: ScriptedEngine) -> None:
    host = LoadingHost(engine)
    async with serve(host, settings=IMPATIENT) as served, RawClient(served.port) as client:
        await client.post("/v1/chat/completions", {**CHAT, "stream": False})
        await until(lambda: host.waiters)
        await asyncio.sleep(0.1)
        host.loaded.set()
        answer = await client.answer()
    assert json.loads(answer.body)["object"] == "chat.completion"


async def test_no_comments_when_they_are_switched_off(engine: ScriptedEngine) -> None:
    host = LoadingHost(engine)
    async with serve(host, settings=PlainSettings(stream_ping_secs=0)) as served, RawClient(served.port) as client:
        await client.post("/v1/chat/completions", CHAT)
        await until(lambda: host.waiters)
        host.loaded.set()
        answer = await client.answer()
    assert not answer.comments


async def test_refusals_by_the_queue_say_when_to_try_again(engine: ScriptedEngine) -> None:
    full = RefusingHost(engine, refusal=QueueFull(model="m", waiting=256, retry_after_s=7))
    async with serve(full) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert (answer.status, answer.headers["retry-after"]) == (503, "7")
    late = RefusingHost(engine, refusal=DeadlineMissed(model="m", waited_s=2.0))
    async with serve(late) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", {**CHAT, "stream": False})
    assert (answer.status, answer.json["error"]["code"]) == (503, "deadline_missed")


async def test_wait_and_load_are_told_in_headers(engine: ScriptedEngine) -> None:
    class Slow(ReadyHost):
        def _grant(self, model: str):  # type: ignore[no-untyped-def]
            lease = super()._grant(model)
            lease.queue_s, lease.load_s = 1.25, 0.75
            return lease

    async with serve(Slow(engine)) as served:
        for body in (CHAT, {**CHAT, "stream": False}):
            answer = await fetch(served.port, "POST", "/v1/chat/completions", body)
            assert answer.headers["x-blazar-queue-ms"] == "1250"
            assert answer.headers["x-blazar-load-ms"] == "750"
