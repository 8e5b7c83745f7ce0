"""What SDKs and coding agents really send: nulls, loose types, fields of other services, items of every kind."""

from typing import Any

import pytest

from blazar_gateway.testing import FixedCatalogue, ReadyHost, ScriptedEngine, card, fetch, serve
from blazar_gateway.testing.memory import MemoryInProcess

HI = [{"role": "user", "content": "hi"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": ["string", "null"]}}, "$defs": {}}
FUNCTION = {"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True}}
FLAT = {"type": "function", "name": "f", "description": "d", "parameters": SCHEMA, "strict": True}
ROW = FixedCatalogue(card(capabilities=("completion", "tools")))


async def ask(host: ReadyHost, path: str, body: Any, *, headers: dict[str, str] | None = None) -> Any:
    memory = MemoryInProcess(cap_bytes=1 << 20)
    async with serve(host, catalogue=ROW, memory=memory) as served:
        return await fetch(served.port, "POST", path, body, headers=headers)


def generated(engine: ScriptedEngine) -> Any:
    """Return the body that the engine was asked to generate from."""
    bodies = [exchange.json for exchange in engine.exchanges if exchange.path.endswith("completions")]
    assert len(bodies) == 1
    return bodies[0]


# --- /v1/chat/completions --------------------------------------------------------------------------------------------

NULLS = [
    "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "max_completion_tokens",
    "max_tokens", "metadata", "modalities", "n", "parallel_tool_calls", "prediction", "presence_penalty",
    "prompt_cache_key", "reasoning_effort", "response_format", "safety_identifier", "seed", "service_tier", "stop",
    "store", "stream", "stream_options", "temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user",
    "verbosity", "web_search_options", "keep_alive", "think", "chat_template_kwargs",
]  # fmt: skip


@pytest.mark.parametrize("name", NULLS)
async def test_null_is_absent_in_chats(host: ReadyHost, engine: ScriptedEngine, name: str) -> None:
    answer = await ask(host, "/v1/chat/completions", {"model": "m", "messages": HI, name: None})
    assert answer.status == 200, answer.body
    # What is asked for always: a stream with usage.
    asked_for = {"stream": True, "stream_options": {"include_usage": True}}
    assert generated(engine).get(name) == asked_for.get(name)


CHATS: dict[str, dict[str, Any]] = {
    "langchain": {"stream": True, "stream_options": {"include_usage": True}, "n": 1, "temperature": 0.7},
    "litellm": {"tools": [], "extra_body": {}, "metadata": {"a": "b"}, "max_tokens": 5, "max_completion_tokens": 7},
    "opencode": {
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [FUNCTION],
        "tool_choice": "auto",
        "max_tokens": 32000,
    },
    "aider": {"temperature": 0, "stream": True, "num_ctx": 9003},
    "open-webui": {"stream": True, "stream_options": None, "session_id": "x", "chat_id": "y", "features": {}},
    "seed-as-a-float": {"seed": 1.0, "max_tokens": 5.0, "top_k": 40.0},
    "stop-empty": {"stop": ""},
    "stop-with-empties": {"stop": ["", "x"]},
    "response-format-text": {"response_format": {"type": "text"}},
    "response-format-schema": {
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": SCHEMA}}
    },
    "tool-choice-function": {"tools": [FUNCTION], "tool_choice": {"type": "function", "function": {"name": "f"}}},
    "tool-choice-allowed": {
        "tools": [FUNCTION],
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
        },
    },
    "tool-choice-without-tools": {"tool_choice": "none"},
    "tools-empty-and-a-choice": {"tools": [], "tool_choice": "auto"},
    "services-of-others": {
        "store": True,
        "service_tier": "flex",
        "verbosity": "low",
        "modalities": ["text"],
        "prediction": {"type": "content", "content": "x"},
        "web_search_options": {},
        "moderation": "auto",
        "safety_identifier": "s",
        "prompt_cache_retention": "24h",
        "prompt_cache_options": {},
        "unheard_of": {"deep": [1, None, {"x": True}]},
    },
    "obfuscation": {"stream": True, "stream_options": {"include_obfuscation": False}},
    "logit-bias": {"logit_bias": {"50256": -100}},
    "effort": {"reasoning_effort": "minimal"},
}


@pytest.mark.parametrize("fields", [pytest.param(fields, id=name) for name, fields in CHATS.items()])
async def test_chats_as_clients_send_them(host: ReadyHost, engine: ScriptedEngine, fields: dict[str, Any]) -> None:
    answer = await ask(host, "/v1/chat/completions", {"model": "m", "messages": HI, **fields})
    assert answer.status == 200, answer.body
    sent = generated(engine)
    assert sent.get("tools") != []
    assert not isinstance(sent.get("tool_choice"), dict)
    assert "max_completion_tokens" not in sent


CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
HISTORIES: dict[str, list[dict[str, Any]]] = {
    "content-null": [{"role": "assistant", "content": None, "tool_calls": [CALL]}],
    "content-empty": [{"role": "assistant", "content": "", "tool_calls": [CALL]}],
    "content-absent": [{"role": "assistant", "tool_calls": [CALL]}],
    "content-empty-list": [{"role": "assistant", "content": [], "tool_calls": [CALL]}],
    "content-parts": [{"role": "assistant", "content": [{"type": "text", "text": "x"}], "tool_calls": [CALL]}],
    "result-in-parts": [{"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "x"}]}],
    "result-empty": [{"role": "tool", "tool_call_id": "c1", "content": ""}],
    "result-null": [{"role": "tool", "tool_call_id": "c1", "content": None}],
    "calls-empty": [{"role": "assistant", "content": "x", "tool_calls": []}],
    "calls-null": [{"role": "assistant", "content": "x", "tool_calls": None, "function_call": None, "audio": None}],
    "arguments-empty": [
        {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "f", "arguments": ""}}]},
    ],
    "arguments-as-an-object": [
        {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "f", "arguments": {"a": 1}}}]},
    ],
    "reasoning-echoed": [{"role": "assistant", "content": "x", "reasoning_content": "hm"}],
    "refusal": [{"role": "assistant", "content": None, "refusal": "no"}],
    "refusal-part": [{"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}],
    "developer": [{"role": "developer", "content": "be brief"}],
    "names": [{"role": "user", "name": "ann", "content": "x"}],
    "cache-breakpoint": [
        {"role": "user", "content": [{"type": "text", "text": "x", "prompt_cache_breakpoint": {"type": "e"}}]}
    ],
    "two-systems": [{"role": "system", "content": "a"}, {"role": "system", "content": "b"}],
}


@pytest.mark.parametrize("history", [pytest.param(turns, id=name) for name, turns in HISTORIES.items()])
async def test_histories_as_clients_send_them(
    host: ReadyHost, engine: ScriptedEngine, history: list[dict[str, Any]]
) -> None:
    answer = await ask(host, "/v1/chat/completions", {"model": "m", "messages": [*HI, *history, *HI]})
    assert answer.status == 200, answer.body
    for message in generated(engine)["messages"]:
        assert message["role"] in {"system", "user", "assistant", "tool"}
        assert message.get("content") is not None or message.get("tool_calls")
        for call in message.get("tool_calls") or ():
            assert isinstance(call["function"]["arguments"], str)
            assert call["function"]["arguments"]


@pytest.mark.parametrize("content", [None, [], 7, {"type": "text"}])
async def test_a_user_turn_without_content_names_its_place(host: ReadyHost, content: object) -> None:
    answer = await ask(
        host, "/v1/chat/completions", {"model": "m", "messages": [*HI, {"role": "user", "content": content}]}
    )
    assert (answer.status, answer.json["error"]["param"]) == (400, "messages[1].content")


# --- /v1/responses ---------------------------------------------------------------------------------------------------

ITEMS: dict[str, Any] = {
    "a-bare-string": "hi",
    "easy-messages": [{"role": "user", "content": "hi"}],
    "parts": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
    "developer-first": [{"type": "message", "role": "developer", "content": "x", "id": "msg_1"}, *HI],
    "assistant-history": [
        *HI,
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_1",
            "status": "completed",
            "phase": None,
            "content": [{"type": "output_text", "text": "x", "annotations": [], "logprobs": []}],
        },
        *HI,
    ],
    "refusal-history": [
        *HI,
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        *HI,
    ],
    "calls-and-outputs": [
        *HI,
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "e",
        },
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}", "status": "completed"},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
    ],
    "output-in-parts": [
        *HI,
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": ""},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "ok"}]},
        {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "output_text", "text": "ok"}]},
        {"type": "function_call", "call_id": "c3", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c3", "output": None},
    ],
    "custom-calls": [
        *HI,
        {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
    ],
    "shell-calls": [
        *HI,
        {
            "type": "local_shell_call",
            "call_id": "c1",
            "action": {"type": "exec", "command": ["ls"]},
            "status": "completed",
        },
        {"type": "local_shell_call_output", "id": "c1", "output": "x"},
    ],
    "of-other-services": [
        *HI,
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "image_generation_call", "id": "ig_1", "result": "x"},
        {"type": "mcp_list_tools", "id": "m", "tools": []},
        {"type": "additional_tools", "tools": [FLAT]},
        {"type": "compaction", "encrypted_content": "x"},
    ],
    "reasoning-without-content": [*HI, {"type": "reasoning", "id": "rs_1", "summary": []}, *HI],
}


@pytest.mark.parametrize("value", [pytest.param(value, id=name) for name, value in ITEMS.items()])
async def test_input_items_as_agents_send_them(host: ReadyHost, engine: ScriptedEngine, value: Any) -> None:
    answer = await ask(host, "/v1/responses", {"model": "m", "input": value, "store": False})
    assert answer.status == 200, answer.body
    assert generated(engine)["messages"]


RESPONSES: dict[str, dict[str, Any]] = {
    "codex": {
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"summary": "auto"},
        "tools": [
            FLAT,
            {"type": "namespace", "name": "n", "tools": [{**FLAT, "name": "inner"}]},
            {"type": "web_search", "external_web_access": False},
            {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
            {"type": "local_shell"},
            {"type": "image_generation"},
            {"type": "mcp", "server_label": "x", "server_url": "https://x"},
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "prompt_cache_key": "k",
        "client_metadata": {"a": "b"},
        "text": {"verbosity": "low"},
    },
    "nulls": dict.fromkeys(
        [
            "instructions", "max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls", "temperature",
            "previous_response_id", "prompt", "reasoning", "service_tier", "stream", "stream_options", "text",
            "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user", "include", "conversation",
            "background", "store", "safety_identifier",
        ]
    ),
    "named-tool": {"tools": [FLAT], "tool_choice": {"type": "function", "name": "f"}},
    "allowed-tools": {
        "tools": [FLAT],
        "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
    },
    "only-tools-that-cannot-be-served": {"tools": [{"type": "web_search"}], "tool_choice": "auto"},
    "a-choice-of-a-skipped-tool": {"tools": [FLAT, {"type": "web_search"}], "tool_choice": {"type": "web_search"}},
    "text-format": {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}}},
    "json-object": {"text": {"format": {"type": "json_object"}}},
    "effort": {"reasoning": {"effort": "medium", "summary": None}},
    "few-tokens": {"max_output_tokens": 1},
}  # fmt: skip


@pytest.mark.parametrize("fields", [pytest.param(fields, id=name) for name, fields in RESPONSES.items()])
async def test_responses_as_agents_ask_for_them(
    host: ReadyHost, engine: ScriptedEngine, fields: dict[str, Any]
) -> None:
    answer = await ask(host, "/v1/responses", {"model": "m", "input": "hi", **fields})
    assert answer.status == 200, answer.body
    assert not isinstance(generated(engine).get("tool_choice"), dict)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "invented"},
        {"type": "function_call", "name": "f"},
        {"type": "function_call_output", "output": "x"},
        {"role": "robot", "content": "x"},
        {"role": "user", "content": [{"type": "input_hologram"}]},
        {"role": "user", "content": 7},
        7,
        None,
    ],
)
async def test_items_that_make_no_sense_are_named(host: ReadyHost, item: object) -> None:
    answer = await ask(host, "/v1/responses", {"model": "m", "input": [item]})
    assert answer.status == 400
    assert answer.json["error"]["param"].startswith("input[0]")


# --- /v1/messages ----------------------------------------------------------------------------------------------------

TOOL = {"name": "f", "description": "d", "input_schema": SCHEMA}
MESSAGES: dict[str, dict[str, Any]] = {
    "claude-code": {
        "stream": True,
        "max_tokens": 32000,
        "thinking": {"type": "adaptive", "display": "omitted"},
        "output_config": {"effort": "high"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "metadata": {"user_id": '{"device_id":"x"}'},
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=1;"},
            {"type": "text", "text": "You are", "cache_control": {"type": "ephemeral"}},
        ],
        "tools": [
            {**TOOL, "cache_control": {"type": "ephemeral", "ttl": "1h"}, "eager_input_streaming": True},
            {**TOOL, "name": "g", "defer_loading": True, "input_examples": [{}], "allowed_callers": ["direct"]},
            {"type": "bash_20250124", "name": "bash"},
            {"type": "custom", **TOOL, "strict": True},
        ],
    },
    "nulls": dict.fromkeys(
        [
            "system", "stop_sequences", "stream", "tools", "tool_choice", "thinking", "output_config", "metadata",
            "service_tier", "container", "context_management", "mcp_servers", "temperature", "top_p", "top_k",
            "cache_control", "inference_geo", "speed",
        ]
    ),
    "langchain": {"temperature": 1, "top_k": 40, "top_p": 0.9, "stop_sequences": ["\n\nHuman:"]},
    "litellm": {"metadata": {}, "tools": [], "system": ""},
    "empty-turns": {
        "messages": [*HI, {"role": "assistant", "content": ""}, {"role": "user", "content": [{"type": "text", "text": " "}]}, *HI]
    },
    "prefill": {"messages": [*HI, {"role": "assistant", "content": "Sure:"}]},
    "mid-conversation-system": {"messages": [*HI, {"role": "system", "content": [{"type": "text", "text": "x"}]}, *HI]},
    "history-of-tools": {
        "tools": [TOOL],
        "messages": [
            *HI,
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "redacted_thinking", "data": "x"},
                    {"type": "text", "text": "x", "citations": None},
                    {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}, "caller": {"type": "direct"}},
                    {"type": "tool_use", "id": "toolu_2", "name": "f", "input": {"city": None}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "before"},
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "x"}]},
                    {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": True},
                    {"type": "text", "text": "go on", "cache_control": {"type": "ephemeral"}},
                ],
            },
        ],
    },
    "server-tools-in-history": {
        "messages": [
            *HI,
            {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}]},
            *HI,
        ]
    },
    "documents": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}, "title": "t"},
                    {"type": "search_result", "title": "t", "source": "s", "content": [{"type": "text", "text": "x"}]},
                    {"type": "text", "text": "?"},
                ],
            }
        ]
    },
    "any-tool": {"tools": [TOOL], "tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
    "named-tool": {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "f"}},
    "a-schema": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    "thinking-off": {"thinking": {"type": "disabled"}},
}  # fmt: skip
BETAS = "claude-code-20250219,interleaved-thinking-2025-05-14,invented-2031-01-01"


@pytest.mark.parametrize("fields", [pytest.param(fields, id=name) for name, fields in MESSAGES.items()])
async def test_messages_as_agents_send_them(host: ReadyHost, engine: ScriptedEngine, fields: dict[str, Any]) -> None:
    body = {"model": "m", "max_tokens": 64, "messages": HI, **fields}
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": BETAS, "x-app": "cli"}
    answer = await ask(host, "/v1/messages?beta=true", body, headers=headers)
    assert answer.status == 200, answer.body
    sent = generated(engine)
    assert sent.get("tools") != []
    for message in sent["messages"]:
        assert message["role"] in {"system", "user", "assistant", "tool"}
        assert isinstance(message["content"], str) or message.get("tool_calls")


@pytest.mark.parametrize("fields", [pytest.param(fields, id=name) for name, fields in MESSAGES.items()])
async def test_what_can_be_sent_can_be_counted(host: ReadyHost, engine: ScriptedEngine, fields: dict[str, Any]) -> None:
    async def counts(exchange: Any) -> None:
        await exchange.answer(b'{"input_tokens":7}')

    engine.script = counts
    body = {name: value for name, value in {"model": "m", "messages": HI, **fields}.items() if name != "max_tokens"}
    answer = await ask(host, "/v1/messages/count_tokens?beta=true", body)
    assert (answer.status, answer.json) == (200, {"input_tokens": 7})


# --- /api/chat and /api/generate -------------------------------------------------------------------------------------

OLLAMA: dict[str, dict[str, Any]] = {
    "python-client": {"stream": False, "tools": [], "format": None, "options": None, "keep_alive": None, "think": None},
    "langchain": {"options": {"temperature": 0.8, "num_ctx": 2048, "mirostat": None, "stop": None}, "format": ""},
    "open-webui": {"options": {"num_predict": -1, "use_mmap": True, "num_thread": 4}, "keep_alive": "5m"},
    "llama-index": {"options": {"num_ctx": 1024, "temperature": 1}},
    "litellm": {"messages": [{"role": "user", "content": "hi", "images": []}], "name": "m"},
    "aider": {"options": {"num_ctx": 2003, "temperature": 0}},
    "images-null": {"messages": [{"role": "user", "content": "hi", "images": None}]},
    "calls-without-ids": {
        "messages": [
            *HI,
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
            {"role": "tool", "content": "x", "tool_name": "f"},
        ]
    },
    "tools": {"tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]},
    "schema": {"format": SCHEMA},
    "unknown-options": {"options": {"invented": {"x": 1}, "low_vram": False}},
    "think-false": {"think": False},
    "truncate-and-shift": {"truncate": True, "shift": True},
}


@pytest.mark.parametrize("fields", [pytest.param(fields, id=name) for name, fields in OLLAMA.items()])
async def test_ollama_chats_as_clients_send_them(
    host: ReadyHost, engine: ScriptedEngine, fields: dict[str, Any]
) -> None:
    answer = await ask(host, "/api/chat", {"model": "m", "messages": HI, **fields})
    assert answer.status == 200, answer.body
    assert generated(engine)["messages"]


# --- Names that are no strings ----------------------------------------------------------------------------------------

NAMED = [
    "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/rerank", "/v2/rerank", "/v1/messages",
    "/v1/messages/count_tokens", "/v1/responses", "/v1/responses/input_tokens", "/api/chat", "/api/generate",
    "/api/embed", "/api/embeddings", "/api/show", "/api/pull", "/api/create", "/api/copy", "/api/stop",
]  # fmt: skip


@pytest.mark.parametrize("path", NAMED)
@pytest.mark.parametrize("name", [["m"], 5, {"name": "m"}, False], ids=str)
async def test_a_name_of_another_type_is_told_as_that(host: ReadyHost, path: str, name: object) -> None:
    answer = await ask(host, path, {"model": name, "source": name, "messages": HI, "prompt": "x", "input": "x"})
    assert answer.status == 400
    assert "must be a string, not " in answer.body.decode()


async def test_a_name_stands_in_the_second_field_where_the_first_is_empty(host: ReadyHost) -> None:
    answer = await ask(host, "/api/show", {"model": "", "name": "m"})
    assert answer.status == 200
    wrong = await ask(host, "/api/show", {"model": None, "name": ["m"]})
    assert wrong.json["error"] == "`name` must be a string, not an array."
