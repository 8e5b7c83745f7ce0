"""Streams over real sockets: what reaches the client, what reaches the child."""

import asyncio
import json

import pytest

from blazar_gateway.testing import (
    Exchange,
    RawClient,
    ReadyHost,
    ScriptedEngine,
    chat_frame,
    chat_stream,
    completion_frame,
    done_frame,
    error_frame,
    fetch,
    serve,
)
from blazar_gateway.testing.frames import usage_object
from blazar_routing.errors import EngineCrashed, ModelStopped

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
PIECES = ["Hello", " ", "wörld"]


async def test_client_sees_the_engines_bytes_as_if_usage_had_not_been_asked_for(host: ReadyHost) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert answer.status == 200
    assert answer.body == chat_stream(PIECES, with_usage=False)


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ("absent", False),
        (None, False),
        ({}, False),
        ({"include_usage": False}, False),
        ({"include_usage": True}, True),
    ],
)
async def test_usage_frame_comes_when_asked_for_and_tokens_count_always(
    host: ReadyHost, engine: ScriptedEngine, options: object, *, asked: bool
) -> None:
    body = CHAT if options == "absent" else {**CHAT, "stream_options": options}
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", body)
        traffic = served.gateway.traffic
        assert (traffic.prompt_tokens, traffic.completion_tokens) == (9, 3)
    assert answer.body == chat_stream(PIECES, with_usage=asked)
    assert engine.exchanges[0].json["stream_options"] == {"include_usage": True}


async def test_headers_tell_proxies_not_to_collect_the_stream(host: ReadyHost) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.headers["x-blazar-cache"] == "bypass"
    assert answer.headers["x-blazar-queue-ms"] == "0"
    assert answer.headers["x-blazar-load-ms"] == "0"
    assert answer.headers["x-request-id"] == answer.headers["x-blazar-request-id"]
    assert "content-encoding" not in answer.headers


async def test_first_frame_leaves_while_the_second_is_not_yet_written(host: ReadyHost, engine: ScriptedEngine) -> None:
    seen = asyncio.Event()

    async def waits_for_the_client(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(chat_frame({"content": "one"}))
        await seen.wait()
        await exchange.chunk(chat_frame({"content": "two"}) + done_frame())
        await exchange.end_stream()

    engine.script = waits_for_the_client
    async with serve(host) as served, RawClient(served.port) as client:
        await client.post("/v1/chat/completions", CHAT)
        assert b'"one"' in await client.read_until(b"\n\n\r\n")
        seen.set()
        assert b'"two"' in await client.read_until(b"0\r\n\r\n")


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_frames_are_whole_however_the_engine_cuts_them(
    host: ReadyHost, engine: ScriptedEngine, size: int
) -> None:
    stream = chat_stream(["🦀é€", "x"])

    async def cuts(exchange: Exchange) -> None:
        await exchange.stream(stream[at : at + size] for at in range(0, len(stream), size))

    engine.script = cuts
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert answer.body == chat_stream(["🦀é€", "x"], with_usage=False)


async def test_text_completions_stream(host: ReadyHost, engine: ScriptedEngine) -> None:
    async with serve(host) as served:
        body = {"model": "m", "prompt": "Once upon", "stream": True}
        plain = await fetch(served.port, "POST", "/v1/completions", body)
        asked = await fetch(served.port, "POST", "/completions", {**body, "stream_options": {"include_usage": True}})
    assert plain.body == b"".join(
        [completion_frame(" the"), completion_frame("", finish="length", usage=usage_object(2, 1)), done_frame()]
    )
    assert json.loads(asked.frames[-2][6:])["usage"] == usage_object(2, 1)
    assert [exchange.path for exchange in engine.exchanges] == ["/v1/completions"] * 2


async def test_large_stream_to_a_slow_reader_keeps_its_lease_to_the_last_byte(
    host: ReadyHost, engine: ScriptedEngine
) -> None:
    frame = chat_frame({"content": "x" * 5000})

    async def floods(exchange: Exchange) -> None:
        await exchange.stream([*[frame] * 2000, done_frame()])

    engine.script = floods
    async with serve(host) as served, RawClient(served.port) as client:
        await client.post("/v1/chat/completions", CHAT)
        await client.read_until(b"\r\n\r\n")
        assert host.held == 1
        await client.read_until(b"[DONE]\n\n\r\n0\r\n\r\n")
    assert host.held == 0


async def test_connection_to_the_engine_is_used_again(host: ReadyHost, engine: ScriptedEngine) -> None:
    async with serve(host) as served:
        for _ in range(5):
            await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert engine.connections == 1


# --- Failures ------------------------------------------------------------------------------------------------------


async def test_engines_refusal_before_the_first_byte_keeps_its_status(host: ReadyHost, engine: ScriptedEngine) -> None:
    async def refuses(exchange: Exchange) -> None:
        error = {"code": 400, "message": "too long", "type": "exceed_context_size_error", "n_ctx": 2048}
        await exchange.answer(json.dumps({"error": error}).encode(), status=400)

    engine.script = refuses
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert answer.status == 400
    assert answer.json["error"]["code"] == "context_length_exceeded"
    assert answer.headers["content-type"] == "application/json"


async def dies_after_two_frames(exchange: Exchange) -> None:
    await exchange.begin_stream()
    await exchange.chunk(chat_frame({"content": "one"}))
    await exchange.chunk(chat_frame({"content": "two"}) + b'data: {"choi')
    exchange.die()


async def ends_without_marker(exchange: Exchange) -> None:
    await exchange.stream(chat_frame({"content": "one"}) + chat_frame({"content": "two"}))


async def ends_without_last_chunk(exchange: Exchange) -> None:
    await exchange.begin_stream()
    await exchange.chunk(chat_frame({"content": "one"}) + chat_frame({"content": "two"}))
    exchange.hang_up()


@pytest.mark.parametrize("script", [dies_after_two_frames, ends_without_marker, ends_without_last_chunk])
async def test_death_in_the_middle_is_an_error_event_and_no_normal_finish(
    host: ReadyHost, engine: ScriptedEngine, script: object
) -> None:
    engine.script = script  # type: ignore[assignment]  # parametrised
    host.obituary = EngineCrashed(model="m", how="signal 9")
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
        assert served.gateway.traffic.failed == 1
        assert served.gateway.traffic.completion_tokens == 2
    assert answer.status == 200
    assert answer.whole
    *frames, last = answer.frames
    assert [json.loads(frame[6:])["choices"][0]["delta"] for frame in frames] == [
        {"content": "one"},
        {"content": "two"},
    ]
    assert json.loads(last[6:])["error"] == {
        "message": str(host.obituary),
        "type": "server_error",
        "param": None,
        "code": "engine_crashed",
    }


async def test_error_frame_of_the_engine_ends_the_stream_without_a_marker(
    host: ReadyHost, engine: ScriptedEngine
) -> None:
    async def runs_out_of_context(exchange: Exchange) -> None:
        await exchange.stream([chat_frame({"content": "one"}), error_frame("Context size has been exceeded.")])

    engine.script = runs_out_of_context
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert b"[DONE]" not in answer.body
    assert json.loads(answer.frames[-1][6:])["error"]["message"] == "Context size has been exceeded."


async def test_death_before_the_first_byte_has_its_own_status(host: ReadyHost, engine: ScriptedEngine) -> None:
    async def dies(exchange: Exchange) -> None:
        exchange.die()

    engine.script = dies
    host.obituary = EngineCrashed(model="m", how="signal 9")
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert (answer.status, answer.json["error"]["code"]) == (502, "engine_crashed")
    assert answer.headers["x-should-retry"] == "true"


async def test_engine_that_is_not_there_is_explained(host: ReadyHost, engine: ScriptedEngine) -> None:
    await engine.stop()
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert (answer.status, answer.json["error"]["code"]) == (502, "engine_unreachable")


async def test_stream_asked_for_but_not_given_is_the_engines_fault(host: ReadyHost, engine: ScriptedEngine) -> None:
    async def answers_plainly(exchange: Exchange) -> None:
        await exchange.answer(b'{"choices":[]}')

    engine.script = answers_plainly
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert answer.status == 502


async def test_revoked_lease_closes_the_child_and_tells_the_client(host: ReadyHost, engine: ScriptedEngine) -> None:
    async def goes_on_for_ever(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(chat_frame({"content": "one"}))
        await exchange.client_left.wait()

    engine.script = goes_on_for_ever
    async with serve(host) as served, RawClient(served.port) as client:
        await client.post("/v1/chat/completions", CHAT)
        await client.read_until(b"one")
        host.leases[0].revoke(ModelStopped(model="m"))
        answer = await client.read_until(b"0\r\n\r\n")
        await asyncio.wait_for(engine.exchanges[0].client_left.wait(), 30)
    assert b'"code":"model_stopped"' in answer
    assert b"[DONE]" not in answer


async def test_lease_revoked_before_it_is_used_is_answered_with_a_status(engine: ScriptedEngine) -> None:
    class RevokesAtOnce(ReadyHost):
        def _grant(self, model: str):  # type: ignore[no-untyped-def]
            lease = super()._grant(model)
            lease.revoke(ModelStopped(model=model))
            return lease

    async with serve(RevokesAtOnce(engine)) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
