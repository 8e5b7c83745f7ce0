"""What strict validators of each API's schema look for: keys that are there though they be null, ids, and no 501."""

import json
from typing import Any

import pytest

from blazar_gateway.testing import (
    FixedCatalogue,
    ReadyHost,
    ScriptedEngine,
    card,
    chat_frame,
    done_frame,
    fetch,
    serve,
)
from blazar_gateway.testing import transcripts as seen
from blazar_gateway.testing.frames import usage_frame

HI = [{"role": "user", "content": "hi"}]
CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.fixture
def thinks_talks_and_calls(engine: ScriptedEngine) -> ScriptedEngine:
    deltas: list[Any] = [{"reasoning_content": "hm"}, {"content": "Yes"}, {"tool_calls": [CALL]}]

    async def script(exchange: Any) -> None:
        frames = [chat_frame(delta) for delta in deltas]
        await exchange.stream([*frames, chat_frame({}, finish="tool_calls"), usage_frame(5, 3), done_frame()])

    engine.script = script
    return engine


async def ask(host: ReadyHost, path: str, body: Any) -> Any:
    async with serve(host, catalogue=FixedCatalogue(card(capabilities=("completion", "tools")))) as served:
        return await fetch(served.port, "POST", path, {"model": "m", **body})


def has(value: Any, keys: str) -> None:
    missing = {key for key in keys.replace(",", " ").split() if key not in value}
    assert not missing, f"{sorted(missing)} missing in {value}"


RESPONSE = """id object created_at completed_at status incomplete_details model previous_response_id instructions output
    error tools tool_choice truncation parallel_tool_calls text top_p presence_penalty frequency_penalty top_logprobs
    temperature reasoning usage max_output_tokens max_tool_calls store background service_tier metadata
    safety_identifier prompt_cache_key"""


@pytest.mark.usefixtures("thinks_talks_and_calls")
async def test_a_chat_answer_has_every_key(host: ReadyHost) -> None:
    answer = (await ask(host, "/v1/chat/completions", {"messages": HI})).json
    has(answer, "id object created model choices usage")
    has(answer["choices"][0], "finish_reason index message logprobs")
    has(answer["choices"][0]["message"], "role content refusal tool_calls")
    has(answer["usage"], "prompt_tokens completion_tokens total_tokens")


@pytest.mark.usefixtures("thinks_talks_and_calls")
async def test_a_chat_chunk_has_every_key(host: ReadyHost) -> None:
    answer = await ask(host, "/v1/chat/completions", {"messages": HI, "stream": True})
    for frame in answer.frames[:-1]:
        has(json.loads(frame[6:]), "id object created model choices")


@pytest.mark.usefixtures("thinks_talks_and_calls")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_has_every_key_in_its_first_events_too(host: ReadyHost, *, stream: bool) -> None:
    answer = await ask(host, "/v1/responses", {"input": "hi", "stream": stream})
    events = seen.named_events(answer.body) if stream else [{"response": answer.json}]
    shown = [event["response"] for event in events if "response" in event]
    for response in shown:
        has(response, RESPONSE)
    for item in shown[-1]["output"]:
        match item["type"]:
            case "message":
                has(item, "type id status role content")
                for part in item["content"]:
                    has(part, "type text annotations logprobs")
            case "function_call":
                has(item, "type id call_id name arguments status")
            case "reasoning":
                has(item, "type id summary content encrypted_content")
            case kind:
                raise AssertionError(kind)
    has(shown[-1]["usage"], "input_tokens input_tokens_details output_tokens output_tokens_details total_tokens")


@pytest.mark.usefixtures("thinks_talks_and_calls")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_message_has_every_key(host: ReadyHost, *, stream: bool) -> None:
    body = {"messages": HI, "max_tokens": 5, "thinking": {"type": "adaptive"}, "stream": stream}
    answer = await ask(host, "/v1/messages", body)
    if stream:
        events = seen.named_events(answer.body)
        message = events[0]["message"]
        blocks = [event["content_block"] for event in events if event["type"] == "content_block_start"]
        has(events[-2]["delta"], "stop_reason stop_sequence")
    else:
        message, blocks = answer.json, answer.json["content"]
    has(message, "id type role content model stop_reason stop_sequence stop_details usage container")
    usage = "input_tokens output_tokens cache_creation cache_creation_input_tokens cache_read_input_tokens"
    has(message["usage"], f"{usage} inference_geo output_tokens_details server_tool_use service_tier")
    keys = {"text": "type text citations", "tool_use": "type id name input caller", "thinking": "thinking signature"}
    assert {block["type"] for block in blocks} == set(keys)
    for block in blocks:
        has(block, keys[block["type"]])


PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/api/chat", "/v1/models", "/x")


@pytest.mark.parametrize("path", PATHS)
async def test_every_answer_has_an_id(host: ReadyHost, path: str) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", path, {"model": "m"})
    assert answer.headers["x-request-id"]
    if path.startswith("/v1/messages"):
        assert answer.headers["request-id"].startswith("req_")


LATER = [
    "/v1/files",
    "/v1/batches",
    "/v1/images/generations",
    "/v1/images/edits",
    "/v1/audio/speech",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    "/v1/moderations",
    "/v1/fine_tuning/jobs",
    "/v1/responses/compact",
    "/v1/realtime/sessions",
    "/v1/assistants",
    "/v1/messages/batches",
    "/v1/complete",
    "/v1/skills",
]


@pytest.mark.parametrize("path", LATER)
@pytest.mark.parametrize("headers", [{}, {"anthropic-version": "2023-06-01"}], ids=["openai", "anthropic"])
async def test_what_is_not_served_is_404_in_the_clients_words(
    host: ReadyHost, path: str, headers: dict[str, str]
) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", path, {"model": "m", "input": "x"}, headers=headers)
    assert answer.status == 404
    error = answer.json["error"]
    assert path in error["message"]
    if "request_id" in answer.json:
        assert error["type"] == "not_found_error"
    else:
        assert (error["type"], error["code"]) == ("invalid_request_error", "unsupported_endpoint")
