"""OpenAI's Responses over real sockets: what reaches the client, what reaches the child, what is kept."""

import json
from typing import Any

import pytest

from blazar_gateway.testing import (
    Exchange,
    FixedCatalogue,
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
from blazar_gateway.testing.memory import MemoryInProcess, check_memory, kept_response
from blazar_gateway.testing.transcripts import named_events, response_items
from blazar_routing.errors import EngineCrashed
from blazar_store.types import KeptResponse

ASK = {"model": "m", "input": "hi"}
STREAM = {**ASK, "stream": True}
EMOJI = ["a😀", "é", "鶴", "b"]


def says(*pieces: bytes) -> Any:
    async def script(exchange: Exchange) -> None:
        await exchange.stream(pieces)

    return script


async def test_a_stream_in_full_order(host: ReadyHost) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/responses", STREAM)
    events = named_events(answer.body)
    [item] = response_items(events)
    assert item["content"][0]["text"] == "Hello wörld"
    assert events[-1]["type"] == "response.completed"
    usage = events[-1]["response"]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (9, 3, 12)
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    assert [event["delta"] for event in deltas] == ["Hello", " ", "wörld"]
    assert all(event["logprobs"] == [] and event["content_index"] == 0 for event in deltas)


async def test_a_whole_response(host: ReadyHost) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/responses", {**ASK, "max_output_tokens": 50})
    assert answer.json["status"] == "completed"
    assert answer.json["output"][0]["content"][0]["text"] == "Hello wörld"
    assert answer.json["max_output_tokens"] == 50
    assert answer.json["store"] is False


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 13, 64, 257])
async def test_a_character_cut_anywhere_arrives_whole(host: ReadyHost, engine: ScriptedEngine, size: int) -> None:
    whole = chat_stream(EMOJI)
    engine.script = says(*[whole[at : at + size] for at in range(0, len(whole), size)])
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/responses", STREAM)
    events = named_events(answer.body)
    assert response_items(events)[0]["content"][0]["text"] == "".join(EMOJI)
    assert len([event for event in events if event["type"] == "response.output_text.delta"]) == len(EMOJI)


async def test_parallel_calls_with_reasoning_in_front(host: ReadyHost, engine: ScriptedEngine) -> None:
    def call(call_id: str, arguments: str) -> bytes:
        function = {"name": "f", "arguments": arguments}
        return chat_frame({"tool_calls": [{"index": 0, "id": call_id, "type": "function", "function": function}]})

    frames = [chat_frame({"reasoning_content": "hm"}), call("call_a", '{"x":1}'), call("call_b", '{"y":2}')]
    engine.script = says(*frames, chat_frame({}, finish="stop"), done_frame())
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/responses", STREAM)
    reasoning, *calls = response_items(named_events(answer.body))
    assert reasoning["content"][0]["text"] == "hm"
    assert [(item["call_id"], json.loads(item["arguments"])) for item in calls] == [
        ("call_a", {"x": 1}),
        ("call_b", {"y": 2}),
    ]
    assert all(item["id"] != item["call_id"] for item in calls)


async def test_a_cut_answer_is_incomplete(host: ReadyHost, engine: ScriptedEngine) -> None:
    engine.script = says(chat_stream(["a"], finish="length"))
    async with serve(host) as served:
        streamed = named_events((await fetch(served.port, "POST", "/v1/responses", STREAM)).body)
        whole = await fetch(served.port, "POST", "/v1/responses", ASK)
    assert streamed[-1]["type"] == "response.incomplete"
    assert whole.json["status"] == "incomplete"
    assert whole.json["incomplete_details"] == {"reason": "max_output_tokens"}


@pytest.mark.parametrize("how", ["dies", "says-so"])
async def test_death_in_the_middle_is_a_failed_response(host: ReadyHost, engine: ScriptedEngine, how: str) -> None:
    async def breaks(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(chat_frame({"content": "one"}))
        if how == "dies":
            exchange.die()
        else:
            await exchange.chunk(error_frame("Context size has been exceeded."))
            await exchange.end_stream()

    engine.script = breaks
    host.obituary = EngineCrashed(model="m", how="signal 11")
    memory = MemoryInProcess()
    async with serve(host, memory=memory) as served:
        events = named_events((await fetch(served.port, "POST", "/v1/responses", STREAM)).body)
        whole = await fetch(served.port, "POST", "/v1/responses", ASK)
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"]["message"]
    assert "response.completed" not in [event["type"] for event in events]
    assert whole.status >= 500
    assert list(await memory.list("")) == []


async def test_an_engines_refusal_has_its_own_status(host: ReadyHost, engine: ScriptedEngine) -> None:
    async def refuses(exchange: Exchange) -> None:
        error = {"code": 400, "message": "request (6024 tokens) exceeds", "type": "exceed_context_size_error"}
        await exchange.answer(json.dumps({"error": error}).encode(), status=400)

    engine.script = refuses
    async with serve(host) as served:
        for body in (STREAM, ASK):
            answer = await fetch(served.port, "POST", "/v1/responses", body)
            assert (answer.status, answer.json["error"]["code"]) == (400, "context_length_exceeded")


async def test_a_response_is_gone_on_from_by_its_id(host: ReadyHost, engine: ScriptedEngine) -> None:
    async with serve(host, memory=MemoryInProcess()) as served:
        first = (await fetch(served.port, "POST", "/v1/responses", {**ASK, "instructions": "only once"})).json
        second = {**ASK, "input": "and?", "previous_response_id": first["id"]}
        events = named_events((await fetch(served.port, "POST", "/v1/responses", {**second, "stream": True})).body)
        third = {**ASK, "input": "so", "previous_response_id": events[-1]["response"]["id"]}
        await fetch(served.port, "POST", "/v1/responses", third)
    sent: Any = engine.exchanges[2].json
    assert [(message["role"], message["content"]) for message in sent["messages"]] == [
        ("user", "hi"),
        ("assistant", "Hello wörld"),
        ("user", "and?"),
        ("assistant", "Hello wörld"),
        ("user", "so"),
    ]


async def test_calls_are_gone_on_from_with_their_outputs_alone(host: ReadyHost, engine: ScriptedEngine) -> None:
    function = {"name": "f", "arguments": '{"x":1}'}
    call = chat_frame({"tool_calls": [{"index": 0, "id": "call_a", "type": "function", "function": function}]})
    engine.scripts = [says(call, chat_frame({}, finish="tool_calls"), done_frame())]
    async with serve(host, memory=MemoryInProcess()) as served:
        first = (await fetch(served.port, "POST", "/v1/responses", ASK)).json
        output = [{"type": "function_call_output", "call_id": "call_a", "output": "7"}]
        await fetch(served.port, "POST", "/v1/responses", {**ASK, "input": output, "previous_response_id": first["id"]})
    sent: Any = engine.exchanges[1].json
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "tool"]
    assert sent["messages"][1]["tool_calls"][0]["id"] == sent["messages"][2]["tool_call_id"] == "call_a"


async def test_a_kept_response_can_be_shown_listed_and_forgotten(host: ReadyHost) -> None:
    async with serve(host, memory=MemoryInProcess()) as served:
        made = (await fetch(served.port, "POST", "/v1/responses", ASK)).json
        path = f"/v1/responses/{made['id']}"
        assert made["store"] is True
        assert (await fetch(served.port, "GET", path)).json == made
        items = (await fetch(served.port, "GET", f"{path}/input_items?order=asc&limit=5")).json
        cancelled = await fetch(served.port, "POST", f"{path}/cancel")
        deleted = await fetch(served.port, "DELETE", path)
        gone = await fetch(served.port, "GET", path)
        again = await fetch(served.port, "DELETE", path)
    assert items["data"][0]["content"] == [{"type": "input_text", "text": "hi"}]
    assert (items["first_id"], items["has_more"]) == (items["data"][0]["id"], False)
    assert (cancelled.status, "completed" in cancelled.json["error"]["message"]) == (400, True)
    assert deleted.json == {"id": made["id"], "object": "response", "deleted": True}
    assert (gone.status, again.status, gone.json["error"]["code"]) == (404, 404, "response_not_found")


@pytest.mark.parametrize("memory", [None, MemoryInProcess()], ids=["switched-off", "store-false"])
async def test_what_is_not_kept_is_not_found(host: ReadyHost, memory: MemoryInProcess | None) -> None:
    async with serve(host, memory=memory) as served:
        made = (await fetch(served.port, "POST", "/v1/responses", {**ASK, "store": False})).json
        shown = await fetch(served.port, "GET", f"/v1/responses/{made['id']}")
        after = await fetch(served.port, "POST", "/v1/responses", {**ASK, "previous_response_id": made["id"]})
    assert made["store"] is False
    assert shown.status == 404
    assert (after.status, after.json["error"]["code"]) == (400, "previous_response_not_found")


async def test_references_to_kept_items_become_the_items(host: ReadyHost, engine: ScriptedEngine) -> None:
    memory = MemoryInProcess()
    await memory.put("", kept_response("resp_1", "remember me"))
    value = [{"type": "item_reference", "id": "msg_resp_1"}, {"id": "out_resp_1"}, {"role": "user", "content": "so"}]
    async with serve(host, memory=memory) as served:
        answer = await fetch(served.port, "POST", "/v1/responses", {**ASK, "input": value})
        missing = await fetch(served.port, "POST", "/v1/responses", {**ASK, "input": [{"id": "msg_x"}]})
    sent: Any = engine.exchanges[0].json
    assert answer.status == 200
    assert [message["content"] for message in sent["messages"]] == ["remember me", "remember me", "so"]
    assert missing.status == 400
    assert "msg_x" in missing.json["error"]["message"]


@pytest.mark.parametrize("output", ["7", [{"type": "input_text", "text": "7"}], [{"type": "output_text", "text": "7"}]])
async def test_what_codex_sends_reaches_the_engine_as_a_plain_chat(
    host: ReadyHost, engine: ScriptedEngine, output: object
) -> None:
    body = {
        **STREAM,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"summary": "auto"},
        "client_metadata": {"x": "y"},
        "input": [
            {"type": "message", "id": "msg_1", "role": "developer", "content": [{"type": "input_text", "text": "be"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None},
            {"type": "function_call", "call_id": "call_a", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_a", "output": output},
            {"type": "additional_tools", "tools": []},
        ],
        "tools": [
            {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False},
            {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "g", "parameters": {}}]},
            {"type": "web_search"},
            {"type": "mcp", "server_label": "x"},
            {"type": "image_generation"},
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
    }
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/responses", body)
    assert answer.status == 200
    assert answer.headers["x-blazar-skipped-tools"] == "image_generation,mcp,web_search"
    sent: Any = engine.exchanges[0].json
    assert [message["role"] for message in sent["messages"]] == ["system", "user", "assistant", "tool"]
    assert sent["messages"][3]["content"] == "7"
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["f", "g"]


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        ({"model": None}, 400, "model"),
        ({"model": "nobody"}, 404, "nobody"),
        ({"input": []}, 400, "input"),
        ({"input": [{"type": "hologram"}]}, 400, "hologram"),
        ({"input": 5}, 400, "input"),
        ({"conversation": "conv_1"}, 400, "previous_response_id"),
        ({"background": True}, 400, "background"),
        ({"reasoning": {"effort": "wild"}}, 400, "reasoning_effort"),
        ({"text": {"format": {"type": "xml"}}}, 400, "text.format"),
    ],
)
async def test_refusals_name_what_is_wrong(host: ReadyHost, changes: dict[str, Any], status: int, says: str) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/responses", {**ASK, **changes})
    assert answer.status == status
    assert says in answer.json["error"]["message"]


@pytest.mark.parametrize(
    ("fields", "kwargs"),
    [
        ({}, {"enable_thinking": False}),
        ({"reasoning": {"effort": "high"}}, {"enable_thinking": True, "reasoning_effort": "high"}),
        ({"reasoning": {"effort": "none"}}, {"enable_thinking": False}),
    ],
)
async def test_effort_as_the_template_is_told(
    host: ReadyHost, engine: ScriptedEngine, fields: dict[str, Any], kwargs: object
) -> None:
    row = card(capabilities=("completion", "thinking"))
    async with serve(host, catalogue=FixedCatalogue(row)) as served:
        await fetch(served.port, "POST", "/v1/responses", {**ASK, **fields})
    assert engine.exchanges[0].json["chat_template_kwargs"] == kwargs


async def test_a_form_is_passed_on_as_a_constraint(host: ReadyHost, engine: ScriptedEngine) -> None:
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    async with serve(host) as served:
        await fetch(served.port, "POST", "/v1/responses", {**ASK, "text": {"format": form}})
    sent: Any = engine.exchanges[0].json
    assert sent["response_format"]["json_schema"]["schema"] == {"type": "object"}


async def test_logprobs_come_with_the_text(host: ReadyHost, engine: ScriptedEngine) -> None:
    entry = {"id": 5, "token": "x", "logprob": -0.5, "bytes": [120], "top_logprobs": []}
    engine.script = says(
        chat_frame({"content": "a"}),
        chat_frame({"content": "x"}, logprobs={"content": [entry]}),
        chat_frame({}, finish="stop"),
        done_frame(),
    )
    async with serve(host) as served:
        events = named_events((await fetch(served.port, "POST", "/v1/responses", {**STREAM, "top_logprobs": 1})).body)
    [item] = response_items(events)
    del entry["id"]
    assert item["content"][0]["logprobs"] == [entry]
    assert engine.exchanges[0].json["logprobs"] is True


async def test_input_tokens_are_counted_by_the_engine(host: ReadyHost, engine: ScriptedEngine) -> None:
    async def counts(exchange: Exchange) -> None:
        await exchange.answer(b'{"input_tokens":26,"object":"response.input_tokens"}')

    engine.script = counts
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/responses/input_tokens", ASK)
    assert answer.json == {"object": "response.input_tokens", "input_tokens": 26}


async def test_the_memory_in_process_keeps_the_contract() -> None:
    await check_memory(MemoryInProcess())


async def test_the_oldest_are_forgotten_when_room_or_time_is_up() -> None:
    now = 0.0
    memory = MemoryInProcess(cap_bytes=600, retention_s=10, now=lambda: now)
    for number in range(5):
        await memory.put("", kept_response(f"resp_{number}"))
    ids = list(await memory.list(""))
    assert ids == [f"resp_{number}" for number in range(4, 4 - len(ids), -1)]
    assert 1 <= len(ids) < 5
    now = 11.0
    assert list(await memory.list("")) == []
    assert await memory.get("", "resp_4") is None


class FullMemory(MemoryInProcess):
    """Memory on a disk without room."""

    async def put(self, key: str, kept: KeptResponse) -> None:
        raise OSError(f"responses.db: no room for {kept.id} of {key}")


async def test_an_answer_is_not_lost_because_it_cannot_be_kept(host: ReadyHost) -> None:
    async with serve(host, memory=FullMemory()) as served:
        whole = await fetch(served.port, "POST", "/v1/responses", ASK)
        streamed = await fetch(served.port, "POST", "/v1/responses", STREAM)
    assert (whole.status, whole.json["status"], whole.json["store"]) == (200, "completed", False)
    assert named_events(streamed.body)[-1]["type"] == "response.completed"
