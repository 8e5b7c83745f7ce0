"""Anthropic's Messages over real sockets: what reaches the client, what reaches the child."""

import asyncio
import json
from typing import Any

import pytest

from blazar_gateway.testing import (
    Exchange,
    FixedCatalogue,
    LoadingHost,
    PlainSettings,
    RawClient,
    ReadyHost,
    ScriptedEngine,
    card,
    chat_frame,
    chat_stream,
    done_frame,
    error_frame,
    fetch,
    serve,
)
from blazar_gateway.testing.frames import usage_frame
from blazar_gateway.testing.transcripts import message_blocks, named_events
from blazar_routing.errors import EngineCrashed, LoadFailed

ASK = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "hi"}]}
STREAM = {**ASK, "stream": True}
VERSION = {"anthropic-version": "2023-06-01"}
EMOJI = ["a😀", "é", "鶴", "b"]


def says(*pieces: bytes) -> Any:
    async def script(exchange: Exchange) -> None:
        await exchange.stream(pieces)

    return script


def tool_chunks(*calls: tuple[int, str | None, str, object]) -> bytes:
    out = b""
    for index, call_id, name, arguments in calls:
        call: dict[str, object] = {"index": index, "type": "function", "function": {"name": name}}
        if call_id is not None:
            call["id"] = call_id
        call["function"] = {"name": name, "arguments": arguments}
        out += chat_frame({"tool_calls": [call]})
    return out


async def test_a_stream_in_anthropics_order_with_usage(host: ReadyHost) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/messages?beta=true", STREAM, headers=VERSION)
        assert served.gateway.traffic.completion_tokens == 3
    events = named_events(answer.body)
    [block] = message_blocks(events)
    assert block["text"] == "Hello wörld"
    assert [event["type"] for event in events] == [
        "message_start",
        "content_block_start",
        *["content_block_delta"] * 3,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert events[-2]["delta"]["stop_reason"] == "end_turn"
    assert (events[-2]["usage"]["input_tokens"], events[-2]["usage"]["output_tokens"]) == (9, 3)
    assert events[0]["message"]["model"] == "m"
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["request-id"] == answer.headers["x-request-id"]


async def test_a_whole_message(host: ReadyHost, engine: ScriptedEngine) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/messages", ASK)
    assert answer.status == 200
    assert answer.json["content"] == [{"type": "text", "text": "Hello wörld", "citations": None}]
    assert answer.json["id"].startswith("msg_")
    assert answer.json["stop_reason"] == "end_turn"
    sent = engine.exchanges[0].json
    assert (sent["stream"], sent["max_tokens"]) == (True, 99)


@pytest.mark.parametrize("size", [*range(1, 40), 64, 257])
async def test_a_character_cut_anywhere_arrives_whole(host: ReadyHost, engine: ScriptedEngine, size: int) -> None:
    whole = chat_stream(EMOJI)
    engine.script = says(*[whole[at : at + size] for at in range(0, len(whole), size)])
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/messages", STREAM)
    events = named_events(answer.body)
    [block] = message_blocks(events)
    assert block["text"] == "".join(EMOJI)
    assert len([event for event in events if event["type"] == "content_block_delta"]) == len(EMOJI)


async def test_bytes_that_are_no_character_become_the_replacement_character(
    host: ReadyHost, engine: ScriptedEngine
) -> None:
    broken = chat_frame({"content": "X"}).replace(b"X", b"\xf0\x9f")
    engine.script = says(chat_frame({"content": "a"}), broken, chat_frame({}, finish="stop"), done_frame())
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/messages", STREAM)
    [block] = message_blocks(named_events(answer.body))
    assert block["text"] == "a\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "whole"])
async def test_a_stop_sequence_is_named_and_the_engine_is_told_to_stop(
    host: ReadyHost, engine: ScriptedEngine, *, streamed: bool
) -> None:
    left = asyncio.Event()

    async def goes_on(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(chat_frame({"role": "assistant", "content": None}))
        for number, piece in enumerate(["one ", "EN", "D"], start=1):
            timings = {"cache_n": 4, "prompt_n": 6, "predicted_n": number, "predicted_ms": 1.0}
            await exchange.chunk(chat_frame({"content": piece}, timings=timings))
        await exchange.client_left.wait()
        left.set()

    engine.script = goes_on
    async with serve(host) as served:
        body = {**ASK, "stream": streamed, "stop_sequences": ["END", "never"]}
        answer = await fetch(served.port, "POST", "/v1/messages", body)
        await asyncio.wait_for(left.wait(), 30)
        assert served.gateway.traffic.completion_tokens == 3
    assert "stop" not in engine.exchanges[0].json
    assert engine.exchanges[0].json["timings_per_token"] is True
    if streamed:
        events = named_events(answer.body)
        [block] = message_blocks(events)
        delta, usage, text = events[-2]["delta"], events[-2]["usage"], block["text"]
    else:
        delta, usage, text = answer.json, answer.json["usage"], answer.json["content"][0]["text"]
    assert text == "one "
    assert (delta["stop_reason"], delta["stop_sequence"]) == ("stop_sequence", "END")
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (6, 4, 3)


async def test_the_message_starts_with_the_first_ping_while_the_model_loads(engine: ScriptedEngine) -> None:
    host = LoadingHost(engine)
    async with serve(host, settings=PlainSettings(stream_ping_secs=0.02)) as served, RawClient(served.port) as client:
        await client.post("/v1/messages", STREAM)
        seen = await client.read_until(b"event: ping\ndata: ")
        assert b"event: message_start" in seen
        host.loaded.set()
        await client.read_until(b"event: message_stop")


async def test_pings_between_do_not_disturb_the_order(engine: ScriptedEngine) -> None:
    host = LoadingHost(engine)
    async with serve(host, settings=PlainSettings(stream_ping_secs=0.02)) as served:
        asked = asyncio.create_task(fetch(served.port, "POST", "/v1/messages", STREAM))
        await asyncio.sleep(0.1)
        host.loaded.set()
        answer = await asked
    assert len(message_blocks(named_events(answer.body))) == 1


async def test_an_engines_refusal_before_the_first_byte_has_its_own_status(
    host: ReadyHost, engine: ScriptedEngine
) -> None:
    async def refuses(exchange: Exchange) -> None:
        error = {"code": 400, "message": "no", "type": "exceed_context_size_error", "n_prompt_tokens": 6024}
        await exchange.answer(json.dumps({"error": {**error, "n_ctx": 2048}}).encode(), status=400)

    engine.script = refuses
    async with serve(host) as served:
        for body in (STREAM, ASK):
            answer = await fetch(served.port, "POST", "/v1/messages", body)
            assert answer.status == 400
            assert answer.json["type"] == "error"
            error = answer.json["error"]
            assert error["type"] == "invalid_request_error"
            # What Claude Code reads the figures from.
            assert error["message"].startswith("prompt is too long: 6024 tokens > 2047 maximum. ")


async def test_a_failed_load_after_a_ping_is_an_error_event(engine: ScriptedEngine) -> None:
    host = LoadingHost(engine, failure=LoadFailed(model="m", reason="out of memory", advice="Use less."))
    async with serve(host, settings=PlainSettings(stream_ping_secs=0.02)) as served, RawClient(served.port) as client:
        await client.post("/v1/messages", STREAM)
        await client.read_until(b"event: ping")
        host.loaded.set()
        rest = await client.read_until(b"0\r\n\r\n")
    assert b"event: error" in rest
    assert b"message_stop" not in rest


@pytest.mark.parametrize("how", ["dies", "says-so"])
async def test_death_in_the_middle_never_looks_like_success(host: ReadyHost, engine: ScriptedEngine, how: str) -> None:
    async def breaks(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(chat_frame({"content": "one"}) + chat_frame({"content": "two"}))
        if how == "dies":
            exchange.die()
        else:
            await exchange.chunk(error_frame("Context size has been exceeded."))
            await exchange.end_stream()

    engine.script = breaks
    host.obituary = EngineCrashed(model="m", how="signal 11")
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/messages", STREAM)
        assert served.gateway.traffic.completion_tokens == 2
    kinds = [event["type"] for event in named_events(answer.body)]
    assert kinds[-1] == "error"
    assert not {"message_delta", "message_stop"} & set(kinds)


async def test_parallel_calls_that_all_have_index_0_stay_apart(host: ReadyHost, engine: ScriptedEngine) -> None:
    calls = tool_chunks((0, "call_a", "f", '{"x":1}'), (0, "call_b", "g", '{"y":2}'))
    engine.script = says(calls, chat_frame({}, finish="stop"), usage_frame(9, 4), done_frame())
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/messages", STREAM)
        whole = await fetch(served.port, "POST", "/v1/messages", ASK)
    events = named_events(answer.body)
    blocks = message_blocks(events)
    assert [(block["name"], json.loads(block["json"])) for block in blocks] == [("f", {"x": 1}), ("g", {"y": 2})]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert [block["input"] for block in whole.json["content"]] == [{"x": 1}, {"y": 2}]


async def test_calls_without_ids_and_with_object_arguments_are_repaired(
    host: ReadyHost, engine: ScriptedEngine
) -> None:
    engine.script = says(tool_chunks((0, None, "f", {"x": 1})), chat_frame({}, finish="stop"), done_frame())
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/messages", ASK)
    [block] = answer.json["content"]
    assert block["id"].startswith("toolu_")
    assert block["input"] == {"x": 1}
    assert answer.json["stop_reason"] == "tool_use"


async def test_one_call_at_a_time_keeps_the_first(host: ReadyHost, engine: ScriptedEngine) -> None:
    calls = tool_chunks((0, "call_a", "f", "{}"), (1, "call_b", "f", "{}"))
    engine.script = says(calls, chat_frame({}, finish="tool_calls"), done_frame())
    tools = [{"name": "f", "input_schema": {"type": "object"}}]
    choice = {"type": "any", "disable_parallel_tool_use": True}
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/messages", {**ASK, "tools": tools, "tool_choice": choice})
    assert [block["id"] for block in answer.json["content"]] == ["toolu_a"]
    assert engine.exchanges[0].json["tool_choice"] == "required"


async def test_a_call_that_the_engine_cannot_parse_in_a_stream_is_asked_for_once_more(
    host: ReadyHost, engine: ScriptedEngine
) -> None:
    call = {"id": "call_a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}

    async def plain(exchange: Exchange) -> None:
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        answer = {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}
        await exchange.answer(json.dumps(answer).encode())

    engine.scripts = [says(error_frame("Invalid diff: now finding less tool calls!")), plain]
    async with serve(host) as served:
        tools = [{"name": "f", "input_schema": {"type": "object"}}]
        answer = await fetch(served.port, "POST", "/v1/messages", {**ASK, "tools": tools})
    assert [block["input"] for block in answer.json["content"]] == [{"x": 1}]
    assert engine.exchanges[1].json.get("stream") is False


@pytest.mark.parametrize(
    "deltas",
    [
        pytest.param([{"reasoning_content": "hm"}, {"content": "yes"}], id="reasoning_content"),
        pytest.param([{"reasoning": "hm"}, {"content": "yes"}], id="reasoning"),
        pytest.param([{"content": piece} for piece in ["<th", "ink>h", "m</thi", "nk>\n", "yes"]], id="tags-cut"),
    ],
)
async def test_reasoning_under_any_name_becomes_a_thinking_block(
    host: ReadyHost, engine: ScriptedEngine, deltas: list[dict[str, str]]
) -> None:
    engine.script = says(*[chat_frame(delta) for delta in deltas], chat_frame({}, finish="stop"), done_frame())
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/messages", STREAM)
    blocks = message_blocks(named_events(answer.body))
    assert [(block["type"], block.get("thinking") or block.get("text")) for block in blocks] == [
        ("thinking", "hm"),
        ("text", "yes"),
    ]


async def test_an_answer_that_only_begins_like_a_tag_loses_nothing(host: ReadyHost, engine: ScriptedEngine) -> None:
    engine.script = says(chat_frame({"content": "<thi"}), chat_frame({}, finish="stop"), done_frame())
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/messages", ASK)
    assert answer.json["content"][0]["text"] == "<thi"


THINKER = card("m", capabilities=("completion", "tools", "thinking"))
PLAIN = card("m", capabilities=("completion", "tools"))
UNREAD = card("m", capabilities=("completion",), template_readable=False)
ENABLED = {"type": "enabled", "budget_tokens": 1024}


@pytest.mark.parametrize(
    ("row", "fields", "kwargs"),
    [
        pytest.param(THINKER, {}, {"enable_thinking": False}, id="absent-is-off"),
        pytest.param(THINKER, {"thinking": {"type": "adaptive"}}, {"enable_thinking": True}, id="adaptive-is-on"),
        pytest.param(THINKER, {"thinking": {"type": "disabled"}}, {"enable_thinking": False}, id="disabled"),
        pytest.param(THINKER, {"thinking": ENABLED}, {"enable_thinking": True}, id="enabled"),
        pytest.param(
            THINKER,
            {"output_config": {"effort": "high"}},
            {"enable_thinking": True, "reasoning_effort": "high"},
            id="effort-beats-absence",
        ),
        pytest.param(PLAIN, {}, None, id="no-markers"),
        pytest.param(
            PLAIN,
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
            None,
            id="adaptive-is-served-without",
        ),
        pytest.param(UNREAD, {"thinking": ENABLED}, {"enable_thinking": True}, id="unreadable-fails-open"),
    ],
)
async def test_thinking_as_the_template_is_told(
    host: ReadyHost, engine: ScriptedEngine, row: Any, fields: dict[str, Any], kwargs: object
) -> None:
    async with serve(host, catalogue=FixedCatalogue(row)) as served:
        answer = await fetch(served.port, "POST", "/v1/messages", {**ASK, "max_tokens": 4096, **fields})
    assert answer.status == 200
    assert engine.exchanges[0].json.get("chat_template_kwargs") == kwargs


async def test_thinking_asked_for_of_a_template_without_markers_is_refused(host: ReadyHost) -> None:
    async with serve(host, catalogue=FixedCatalogue(PLAIN)) as served:
        answer = await fetch(
            served.port, "POST", "/v1/messages", {**ASK, "max_tokens": 4096, "thinking": ENABLED}, headers=VERSION
        )
    assert answer.status == 400
    assert '"m" does not support thinking' in answer.json["error"]["message"]
    assert host.tickets == []


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        pytest.param({"max_tokens": None}, 400, "max_tokens", id="no-max-tokens"),
        pytest.param({"messages": []}, 400, "messages", id="no-messages"),
        pytest.param({"model": "nobody"}, 404, "nobody", id="unknown-model"),
        pytest.param({"model": None}, 400, "model", id="no-model"),
        pytest.param(
            {"max_tokens": 1024, "thinking": {"type": "enabled", "budget_tokens": 1024}}, 400, "budget", id="budget"
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64"}}]}]},
            400,
            "source",
            id="malformed-image",
        ),
        pytest.param(
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "data:,x"}}]}
                ]
            },
            400,
            "cannot see",
            id="image-on-a-text-model",
        ),
        pytest.param({"messages": [{"role": "user", "content": [{"type": "what"}]}]}, 400, "what", id="unknown-block"),
    ],
)
async def test_refusals_in_anthropics_envelope(
    host: ReadyHost, changes: dict[str, Any], status: int, says: str
) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/messages", {**ASK, **changes})
    assert answer.status == status
    assert answer.json["type"] == "error"
    assert says in answer.json["error"]["message"]
    assert answer.json["request_id"] == answer.headers["request-id"]
    assert host.tickets == []


async def test_what_agents_send_reaches_the_engine_as_a_plain_chat(host: ReadyHost, engine: ScriptedEngine) -> None:
    body = {
        **STREAM,
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=1;"},
            {"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}},
        ],
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "system", "content": "later"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "redacted_thinking", "data": "zzz"},
                    {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"x": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": True, "content": []},
                    {"type": "text", "text": "go on", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
                ],
            },
        ],
        "tools": [{"name": "f", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}],
        "metadata": {"user_id": '{"device":"1"}'},
        "context_management": {"edits": []},
        "future_field": {"x": 1},
    }
    headers = {**VERSION, "anthropic-beta": "unknown-2030-01-01,claude-code-20250219"}
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/messages?beta=true", body, headers=headers)
    assert answer.status == 200
    sent: Any = engine.exchanges[0].json
    roles = [(message["role"], message.get("content")) for message in sent["messages"]]
    assert roles == [
        ("system", "be brief"),
        ("user", "hi"),
        ("system", "later"),
        ("assistant", None),
        ("tool", "Error: "),
        ("user", "go on"),
    ]
    assert host.tickets[0].session == '{"device":"1"}'


async def test_claude_codes_session_header_names_the_session(host: ReadyHost) -> None:
    async with serve(host) as served:
        await fetch(served.port, "POST", "/v1/messages", ASK, headers={"X-Claude-Code-Session-Id": "s1"})
    assert host.tickets[0].session == "s1"


async def test_tokens_are_counted_by_the_engines_own_template(host: ReadyHost, engine: ScriptedEngine) -> None:
    async def counts(exchange: Exchange) -> None:
        await exchange.answer(b'{"input_tokens":26,"object":"response.input_tokens"}')

    engine.script = counts
    body = {"model": "m", "system": "s", "messages": ASK["messages"], "tools": [{"name": "f", "input_schema": {}}]}
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/messages/count_tokens", body)
    assert answer.json == {"input_tokens": 26}
    sent: Any = engine.exchanges[0].json
    assert engine.exchanges[0].path == "/v1/chat/completions/input_tokens"
    assert sent["tools"][0]["function"]["name"] == "f"
    assert host.tickets[0].slots == 0


async def test_models_in_anthropics_shape_by_header_and_in_pages(host: ReadyHost) -> None:
    rows = FixedCatalogue(card("a"), card("own/b:Q4"), card("c"))
    async with serve(host, catalogue=rows) as served:
        first = (await fetch(served.port, "GET", "/v1/models?limit=2", headers=VERSION)).json
        rest = (await fetch(served.port, "GET", "/v1/models?limit=2&after_id=own/b:Q4", headers=VERSION)).json
        one = (await fetch(served.port, "GET", "/v1/models/own%2Fb:Q4?beta=true", headers=VERSION)).json
        missing = await fetch(served.port, "GET", "/v1/models/nobody", headers=VERSION)
        bad = await fetch(served.port, "GET", "/v1/models?limit=x", headers=VERSION)
    assert ([row["id"] for row in first["data"]], first["has_more"]) == (["a", "own/b:Q4"], True)
    assert ([row["id"] for row in rest["data"]], rest["has_more"]) == (["c"], False)
    assert (one["id"], one["type"], one["max_input_tokens"]) == ("own/b:Q4", "model", 8192)
    assert (missing.status, missing.json["error"]["type"]) == (404, "not_found_error")
    assert bad.status == 400
