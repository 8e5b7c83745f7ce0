"""Ollama's requests and answers, as its own clients send and read them."""

import itertools
import json
from typing import Any

import pytest

from blazar_gateway.dialects.events import (
    Event,
    Failed,
    Finished,
    FinishReason,
    Reasoning,
    Started,
    Text,
    ToolCallArguments,
    ToolCallStarted,
    UsageReported,
)
from blazar_gateway.dialects.ollama.answer import Clock, Lines, loaded, whole
from blazar_gateway.dialects.ollama.options import translate_options
from blazar_gateway.dialects.ollama.request import Kind, Translated, chat, generate
from blazar_routing.errors import InvalidRequest

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def chatted(messages: Any = None, **fields: Any) -> Translated:
    numbers = itertools.count()
    if messages is None:
        messages = [{"role": "user", "content": "hi"}]
    return chat({"model": "m", "messages": messages, **fields}, new_call_id=lambda: f"call_{next(numbers)}")


CALL = {"function": {"name": "f", "arguments": {"x": 1}}}
WIRE_CALL = {"type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param(
            [{"role": "user", "content": "hi", "images": []}], [{"role": "user", "content": "hi"}], id="empty-images"
        ),
        pytest.param(
            [{"role": "user", "content": "what?", "images": [PNG]}],
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "what?"},
                        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                    ],
                }
            ],
            id="an-image",
        ),
        pytest.param(
            [
                {
                    "role": "assistant",
                    "content": "",
                    "thinking": "hm",
                    "tool_calls": [CALL, {"function": {"name": "g", "arguments": {}}}],
                },
                {"role": "tool", "content": "2", "tool_name": "g"},
                {"role": "tool", "content": "1"},
            ],
            [
                {
                    "role": "assistant",
                    "content": "",
                    "reasoning_content": "hm",
                    "tool_calls": [
                        {"id": "call_0", **WIRE_CALL},
                        {"id": "call_1", "type": "function", "function": {"name": "g", "arguments": "{}"}},
                    ],
                },
                {"role": "tool", "tool_call_id": "call_1", "content": "2"},
                {"role": "tool", "tool_call_id": "call_0", "content": "1"},
            ],
            id="results-are-tied-by-name-and-then-by-order",
        ),
        pytest.param(
            [
                {"role": "assistant", "content": None, "tool_calls": [{"id": "abc", **CALL}]},
                {"role": "tool", "tool_call_id": "abc", "content": "1"},
            ],
            [
                {"role": "assistant", "content": "", "tool_calls": [{"id": "abc", **WIRE_CALL}]},
                {"role": "tool", "tool_call_id": "abc", "content": "1"},
            ],
            id="results-are-tied-by-id",
        ),
    ],
)
def test_histories(messages: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert chatted(messages).body["messages"] == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param(
            {"tools": [], "format": None, "options": None, "think": None, "logprobs": None},
            {},
            id="nulls-and-empty-lists",
        ),
        pytest.param({"format": ""}, {}, id="empty-format"),
        pytest.param({"format": "json"}, {"response_format": {"type": "json_object"}}, id="json"),
        pytest.param(
            {"format": {"type": "object", "$defs": {}}},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "output", "schema": {"type": "object", "$defs": {}}},
                }
            },
            id="a-schema",
        ),
        pytest.param({"logprobs": True, "top_logprobs": 3}, {"logprobs": True, "top_logprobs": 3}, id="logprobs"),
        pytest.param(
            {"options": {"temperature": 0, "num_predict": 5}}, {"temperature": 0.0, "max_tokens": 5}, id="options"
        ),
    ],
)
def test_chat_parameters(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    body = chatted(**fields).body
    assert {name: value for name, value in body.items() if name not in {"model", "messages"}} == expected


def test_streaming_is_the_default() -> None:
    assert chatted().stream
    assert chatted(stream=None).stream
    assert not chatted(stream=False).stream


@pytest.mark.parametrize("messages", [pytest.param([], id="empty"), pytest.param(None, id="absent")])
def test_a_chat_without_messages_only_loads(messages: Any) -> None:
    assert chat({"model": "m", "messages": messages}, new_call_id=str).kind is Kind.LOAD


@pytest.mark.parametrize(
    ("options", "fields", "num_ctx"),
    [
        pytest.param({"num_ctx": 8192, "num_gpu": 99, "use_mmap": True}, {}, 8192, id="load-time-options"),
        pytest.param(
            {"num_ctx": 8192.0, "seed": 1.0, "top_k": 40.0}, {"seed": 1, "top_k": 40}, 8192, id="whole-floats"
        ),
        pytest.param({"num_predict": -1}, {}, None, id="unlimited"),
        pytest.param({"num_predict": -2}, {}, None, id="until-the-context-is-full"),
        pytest.param({"stop": "x"}, {"stop": ["x"]}, None, id="one-stop-string"),
        pytest.param({"stop": ["x", ""]}, {"stop": ["x"]}, None, id="empty-stop-strings-are-left-out"),
        pytest.param(
            {"repeat_last_n": -1, "num_keep": 4, "mirostat": 2, "typical_p": 1},
            {"repeat_last_n": -1, "n_keep": 4, "mirostat": 2, "typical_p": 1.0},
            None,
            id="the-rarer-ones",
        ),
        pytest.param({"temperature": None, "invented": 3}, {}, None, id="null-and-unknown"),
    ],
)
def test_options(options: dict[str, Any], fields: dict[str, Any], num_ctx: int | None) -> None:
    translated = translate_options(options)
    assert (translated.fields, translated.num_ctx) == (fields, num_ctx)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        pytest.param({"model": ""}, "model is required", id="no-model"),
        pytest.param({"think": "loud"}, "invalid think value", id="think"),
        pytest.param(
            {"format": "xml"}, 'invalid format: "xml"; expected "json" or a valid JSON Schema object', id="format"
        ),
        pytest.param({"options": {"temperature": "hot"}}, 'option "temperature" must be of type float32', id="option"),
        pytest.param({"options": {"seed": 1.5}}, 'option "seed" must be of type integer', id="broken-seed"),
        pytest.param({"options": {"num_ctx": 0}}, "num_ctx", id="no-context"),
        pytest.param({"options": []}, "options", id="options-a-list"),
        pytest.param({"messages": [{"role": "robot"}]}, "messages[0].role", id="role"),
        pytest.param({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content", id="content-a-list"),
        pytest.param(
            {"messages": [{"role": "user", "content": "", "images": ["%%%%"]}]}, "images[0]", id="image-not-base64"
        ),
        pytest.param(
            {"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "tool_calls[0]", id="call-without-name"
        ),
        pytest.param({"top_logprobs": 21}, "top_logprobs", id="top-logprobs"),
        pytest.param({"stream": "yes"}, "stream", id="stream"),
        pytest.param({"tools": "f"}, "tools", id="tools"),
    ],
)
def test_malformed_chats_say_what(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        chat({"model": "m", "messages": [], **fields}, new_call_id=str)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("request_body", "kind", "body"),
    [
        pytest.param({"prompt": ""}, Kind.LOAD, {}, id="no-prompt-loads"),
        pytest.param({"prompt": "hi"}, Kind.CHAT, {"messages": [{"role": "user", "content": "hi"}]}, id="prompt"),
        pytest.param(
            {"prompt": "hi", "system": "be brief"},
            Kind.CHAT,
            {"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]},
            id="system",
        ),
        pytest.param({"prompt": "hi", "raw": True}, Kind.COMPLETION, {"prompt": "hi"}, id="raw"),
        pytest.param(
            {"prompt": "def f(", "suffix": "return 1"},
            Kind.INFILL,
            {"input_prefix": "def f(", "input_suffix": "return 1"},
            id="suffix",
        ),
    ],
)
def test_generate(request_body: dict[str, Any], kind: Kind, body: dict[str, Any]) -> None:
    translated = generate({"model": "m", **request_body})
    assert translated.kind is kind
    assert translated.body == {"model": "m", **body}


def test_raw_goes_with_nothing_that_needs_a_template() -> None:
    with pytest.raises(InvalidRequest, match="raw mode does not support template, system, or context"):
        generate({"model": "m", "prompt": "x", "raw": True, "system": "y"})


CLOCK = Clock(created_at=lambda: "2026-01-02T03:04:05.6Z", elapsed_ns=lambda: 9_000_000, load_ns=5)
STARTED = Started("chatcmpl-1", 1)
USAGE = UsageReported(10, 5, prompt_ms=1.5, predicted_ms=2.25)
LAST = {
    "done": True,
    "done_reason": "stop",
    "total_duration": 9_000_000,
    "load_duration": 5,
    "prompt_eval_count": 10,
    "prompt_eval_duration": 1_500_000,
    "eval_count": 5,
    "eval_duration": 2_250_000,
}
FRAME = {"model": "m", "created_at": "2026-01-02T03:04:05.6Z"}


def lines(*events: Event, chat: bool = True) -> list[dict[str, Any]]:
    writer = Lines(model="m", chat=chat, clock=CLOCK)
    written = b"".join(line for event in events for line in writer.write(event))
    if writer.finished:
        written += writer.end()
    assert b"\n\n" not in written
    return [json.loads(line) for line in written.splitlines()]


def test_a_chat_stream() -> None:
    said = lines(STARTED, Reasoning("hm"), Text("Hi"), Finished(FinishReason.STOP), USAGE)
    assert said == [
        {**FRAME, "message": {"role": "assistant", "content": "", "thinking": "hm"}, "done": False},
        {**FRAME, "message": {"role": "assistant", "content": "Hi"}, "done": False},
        {**FRAME, "message": {"role": "assistant", "content": ""}, **LAST},
    ]


def test_a_generate_stream() -> None:
    said = lines(STARTED, Text("Hi"), Finished(FinishReason.LENGTH), USAGE, chat=False)
    assert said == [
        {**FRAME, "response": "Hi", "done": False},
        {**FRAME, "response": "", **LAST, "done_reason": "length"},
    ]


def test_a_call_arrives_whole_with_an_object_for_arguments() -> None:
    events: list[Event] = [ToolCallStarted(0, "a", "f"), ToolCallArguments(0, '{"x"'), ToolCallArguments(0, ": 1}")]
    events += [ToolCallStarted(1, "b", "g"), Finished(FinishReason.TOOL_CALLS)]
    said = lines(STARTED, *events, USAGE)
    calls = [call for line in said for call in line["message"].get("tool_calls", [])]
    assert calls == [
        {"id": "a", "function": {"index": 0, "name": "f", "arguments": {"x": 1}}},
        {"id": "b", "function": {"index": 1, "name": "g", "arguments": {}}},
    ]
    assert said[-1]["done_reason"] == "stop"


def test_interleaved_calls_lose_nothing() -> None:
    said = lines(
        ToolCallStarted(0, "a", "f"),
        ToolCallStarted(1, "b", "g"),
        ToolCallArguments(0, '{"x": 1}'),
        ToolCallArguments(1, '{"y": 2}'),
        Finished(FinishReason.TOOL_CALLS),
    )
    calls = [call["function"]["arguments"] for line in said for call in line["message"].get("tool_calls", [])]
    assert calls == [{"x": 1}, {"y": 2}]


def test_a_broken_stream_ends_with_an_error_line() -> None:
    assert lines(STARTED, Text("half"), Failed("engine-crashed", "it died", 502))[-1] == {"error": "it died"}


def test_a_whole_answer() -> None:
    events: list[Event] = [
        STARTED,
        Reasoning("hm"),
        Text("a"),
        Text("b"),
        ToolCallStarted(0, "a", "f"),
        ToolCallArguments(0, "{}"),
    ]
    body, failed = whole([*events, Finished(FinishReason.TOOL_CALLS), USAGE], model="m", chat=True, clock=CLOCK)
    assert failed is None
    call = {"id": "a", "function": {"index": 0, "name": "f", "arguments": {}}}
    assert body == {
        **FRAME,
        "message": {"role": "assistant", "content": "ab", "thinking": "hm", "tool_calls": [call]},
        **LAST,
    }


def test_loading_and_unloading() -> None:
    assert loaded(model="m", chat=True, clock=CLOCK, unload=False) == {
        **FRAME,
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "load",
    }
    assert loaded(model="m", chat=False, clock=CLOCK, unload=True) == {
        **FRAME,
        "response": "",
        "done": True,
        "done_reason": "unload",
    }
