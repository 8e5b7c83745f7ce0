"""Answers in one piece, which are put together from a stream so that they can be cancelled."""

import json
from typing import Any

import pytest

from blazar_gateway.testing import (
    Exchange,
    ReadyHost,
    ScriptedEngine,
    chat_frame,
    chat_stream,
    error_frame,
    fetch,
    serve,
)
from blazar_gateway.testing.frames import TIMINGS, usage_object
from blazar_routing.errors import EngineCrashed

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


async def test_answer_is_the_engines_own_field_for_field(host: ReadyHost, engine: ScriptedEngine) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
        assert served.gateway.traffic.completion_tokens == 3
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json == {
        "choices": [
            {
                "finish_reason": "stop",
                "index": 0,
                "message": {"role": "assistant", "content": "Hello wörld", "refusal": None},
                "logprobs": None,
            }
        ],
        "created": 1796025319,
        "model": "m",
        "system_fingerprint": "b1-7e4c0a9",
        "object": "chat.completion",
        "usage": usage_object(9, 3),
        "id": "chatcmpl-ZyjEDr3G3MPz5M4eMGv7tZJwADLaAwyw",
        "timings": TIMINGS,
    }
    assert engine.exchanges[0].json["stream"] is True


async def test_text_completion(host: ReadyHost) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/completions", {"model": "m", "prompt": "Once upon"})
    assert answer.json["object"] == "text_completion"
    assert answer.json["choices"][0]["text"] == " the"


PLAIN: dict[str, Any] = {
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hi", "refusal": None},
            "finish_reason": "stop",
            "logprobs": None,
        }
    ],
    "created": 1,
    "model": "m",
    "object": "chat.completion",
    "usage": {"completion_tokens": 1, "prompt_tokens": 2, "total_tokens": 3},
    "id": "chatcmpl-1",
    "x": 1,
}


async def test_answer_of_an_engine_that_does_not_stream_is_relayed(host: ReadyHost, engine: ScriptedEngine) -> None:
    async def answers_plainly(exchange: Exchange) -> None:
        await exchange.answer(json.dumps(PLAIN).encode())

    engine.script = answers_plainly
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert answer.json == PLAIN


async def loses_track_of_the_tool_call(exchange: Exchange) -> None:
    await exchange.stream([chat_frame({"content": "a"}), error_frame("Invalid diff: now finding less tool calls!")])


async def test_parse_trouble_is_retried_once_without_a_stream(host: ReadyHost, engine: ScriptedEngine) -> None:
    async def answers_plainly(exchange: Exchange) -> None:
        calls = [{"function": {"name": "f", "arguments": {"a": 1}}}]
        choice = {"index": 0, "message": {"content": None, "tool_calls": calls}, "finish_reason": "stop"}
        await exchange.answer(json.dumps({**PLAIN, "choices": [choice]}).encode())

    engine.scripts = [loses_track_of_the_tool_call, answers_plainly]
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", {**CHAT, "stream": False})
    choice = answer.json["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a":1}'}
    first, second = (exchange.json for exchange in engine.exchanges)
    assert first["stream"] is True
    assert second["stream"] is False
    assert "stream_options" not in second
    assert len(host.leases) == 1


async def test_parse_trouble_without_a_stream_is_the_clients_to_see(host: ReadyHost, engine: ScriptedEngine) -> None:
    async def fails_too(exchange: Exchange) -> None:
        await exchange.answer(error_frame("Failed to parse input at pos 3")[6:-2], status=500)

    engine.scripts = [loses_track_of_the_tool_call, fails_too]
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert (answer.status, answer.json["error"]["message"]) == (500, "Failed to parse input at pos 3")
    assert len(engine.exchanges) == 2


async def test_other_errors_in_the_stream_have_their_status_and_are_not_retried(
    host: ReadyHost, engine: ScriptedEngine
) -> None:
    async def runs_out_of_context(exchange: Exchange) -> None:
        await exchange.stream([chat_frame({"content": "a"}), error_frame("Context size has been exceeded.")])

    engine.script = runs_out_of_context
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert (answer.status, answer.json["error"]["code"]) == (500, "engine_error")
    assert len(engine.exchanges) == 1


@pytest.mark.parametrize("frames", [chat_frame({"content": "a"}), b""])
async def test_answer_that_breaks_off_is_no_answer(host: ReadyHost, engine: ScriptedEngine, frames: bytes) -> None:
    async def dies(exchange: Exchange) -> None:
        await exchange.begin_stream()
        if frames:
            await exchange.chunk(frames)
        exchange.die()

    engine.script = dies
    host.obituary = EngineCrashed(model="m", how="signal 9")
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert (answer.status, answer.json["error"]["code"]) == (502, "engine_crashed")


async def test_stream_without_its_marker_is_no_answer(host: ReadyHost, engine: ScriptedEngine) -> None:
    async def stops_short(exchange: Exchange) -> None:
        await exchange.stream(chat_frame({"content": "a"}))

    engine.script = stops_short
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert (answer.status, answer.json["error"]["code"]) == (502, "engine_unreachable")


@pytest.mark.parametrize("status", [400, 404, 422, 500, 503])
async def test_engines_own_refusal_is_passed_on(host: ReadyHost, engine: ScriptedEngine, status: int) -> None:
    async def refuses(exchange: Exchange) -> None:
        await exchange.answer(b'{"error":{"message":"no","type":"t","code":%d}}' % status, status=status)

    engine.script = refuses
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert (answer.status, answer.json["error"]["message"]) == (status, "no")
    assert answer.json["error"]["code"] == "t"


async def test_daemons_own_key_refused_is_not_the_clients_401(host: ReadyHost, engine: ScriptedEngine) -> None:
    async def refuses(exchange: Exchange) -> None:
        await exchange.answer(b'{"error":{"message":"Invalid API Key","type":"authentication_error"}}', status=401)

    engine.script = refuses
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert (answer.status, answer.json["error"]["code"]) == (502, "engine_unreachable")


async def test_large_answer_arrives_whole(host: ReadyHost, engine: ScriptedEngine) -> None:
    async def says_much(exchange: Exchange) -> None:
        await exchange.stream(chat_stream(["word " * 1000] * 300))

    engine.script = says_much
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", CHAT)
    assert answer.json["choices"][0]["message"]["content"] == "word " * 300_000


@pytest.mark.parametrize(
    ("given", "kept"),
    [("5m", [("m", 300.0)]), (-1, [("m", None)]), (0, [("m", 0.0)]), (None, []), ("", [])],
)
async def test_keep_alive_reaches_the_host_while_the_lease_is_held(
    host: ReadyHost, given: object, kept: list[tuple[str, float | None]]
) -> None:
    async with serve(host) as served:
        await fetch(served.port, "POST", "/v1/chat/completions", {**CHAT, "keep_alive": given})
    assert host.kept == kept


async def test_odd_keep_alive_is_refused_before_anything_is_loaded(host: ReadyHost) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", {**CHAT, "keep_alive": "5x"})
    assert (answer.status, answer.json["error"]["param"]) == (400, "keep_alive")
    assert not host.tickets


async def test_ticket_says_what_the_queue_needs(host: ReadyHost) -> None:
    async with serve(host) as served:
        headers = {"x-blazar-priority": "high", "x-blazar-deadline-ms": "900", "x-blazar-session": "s"}
        await fetch(served.port, "POST", "/v1/chat/completions", {**CHAT, "n": 2, "max_tokens": 10}, headers=headers)
    ticket = host.tickets[0]
    assert (ticket.priority, ticket.deadline_s, ticket.session, ticket.slots) == (0, 0.9, "s", 2)
    assert ticket.cells >= 20


async def test_model_that_is_not_there_is_named_with_its_neighbours(host: ReadyHost) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", {**CHAT, "model": "mistral"})
    assert (answer.status, answer.json["error"]["code"]) == (404, "model_not_found")
    assert answer.json["error"]["param"] == "model"
    assert "'m'" in answer.json["error"]["message"]


async def test_row_name_reaches_an_engine_that_was_named_otherwise(host: ReadyHost, engine: ScriptedEngine) -> None:
    async with serve(host) as served:
        await fetch(served.port, "POST", "/v1/chat/completions", {**CHAT, "model": "m:latest"})
    assert engine.exchanges[0].json["model"] == "m"
    assert host.tickets[0].model == "m"


async def test_what_is_wrong_with_a_body_is_said_in_openais_envelope(host: ReadyHost) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", {**CHAT, "temperature": "hot"})
    assert answer.status == 400
    assert answer.json == {
        "error": {
            "message": "temperature must be a number, not a string.",
            "type": "invalid_request_error",
            "param": "temperature",
            "code": "invalid_request",
        }
    }


async def test_prompts_are_not_logged(
    host: ReadyHost, engine: ScriptedEngine, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuses(exchange: Exchange) -> None:
        await exchange.answer(b'{"error":{"message":"boom","type":"server_error","code":500}}', status=500)

    engine.script = refuses
    caplog.set_level("DEBUG", logger="blazar.gateway")
    secret = {"model": "m", "messages": [{"role": "user", "content": "my secret"}]}
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", secret)
        await fetch(served.port, "POST", "/v1/chat/completions", json.dumps(secret).encode() + b"x")
    assert "my secret" not in caplog.text
    assert answer.headers["x-request-id"] in caplog.text
