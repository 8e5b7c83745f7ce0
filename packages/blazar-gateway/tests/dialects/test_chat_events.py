"""The engine's chunks become canonical events, with what engines get wrong repaired."""

import itertools
from typing import Any

import pytest

from blazar_gateway.dialects.chat_events import ChatEvents
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

STARTED = Started("chatcmpl-1", 1)


def events(*chunks: object) -> list[Event]:
    numbers = itertools.count()
    reader = ChatEvents(new_call_id=lambda: f"call_new{next(numbers)}")
    return [event for chunk in chunks for event in reader.read(chunk)]


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "chatcmpl-1", "created": 1, "choices": choices, **more}


def call(index: int | None, call_id: str | None, name: str | None, arguments: Any) -> dict[str, Any]:
    return {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}


def tools(*calls: dict[str, Any]) -> dict[str, Any]:
    return chunk({"tool_calls": list(calls)})


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        pytest.param([chunk({"role": "assistant", "content": None})], [], id="the-role-alone-says-nothing"),
        pytest.param([chunk({"content": "a"}), chunk({"content": "b"})], [Text("a"), Text("b")], id="text"),
        pytest.param([chunk({"reasoning_content": "t"})], [Reasoning("t")], id="reasoning-as-llamacpp-says-it"),
        pytest.param([chunk({"reasoning": "t"})], [Reasoning("t")], id="reasoning-as-vllm-says-it"),
        pytest.param(
            [tools(call(0, "a", "f", "")), tools(call(0, None, None, '{"x"')), tools(call(0, None, None, ":1}"))],
            [ToolCallStarted(0, "a", "f"), ToolCallArguments(0, '{"x"'), ToolCallArguments(0, ":1}")],
            id="one-call-in-pieces",
        ),
        pytest.param(
            [tools(call(0, "a", "f", "{}"), call(0, "b", "g", "{}"), call(0, "c", "f", "{}"))],
            [
                e
                for i, (id_, n) in enumerate([("a", "f"), ("b", "g"), ("c", "f")])
                for e in (ToolCallStarted(i, id_, n), ToolCallArguments(i, "{}"))
            ],
            id="parallel-calls-all-at-index-0",
        ),
        pytest.param(
            [
                tools(call(0, "a", "f", "{")),
                tools(call(1, "b", "g", "{")),
                tools(call(0, "a", None, "}")),
                tools(call(1, None, None, "}")),
            ],
            [
                ToolCallStarted(0, "a", "f"),
                ToolCallArguments(0, "{"),
                ToolCallStarted(1, "b", "g"),
                ToolCallArguments(1, "{"),
                ToolCallArguments(0, "}"),
                ToolCallArguments(1, "}"),
            ],
            id="interleaved-calls-with-the-id-repeated",
        ),
        pytest.param(
            [tools(call(3, "a", "f", "{}"))],
            [ToolCallStarted(0, "a", "f"), ToolCallArguments(0, "{}")],
            id="indices-are-closed-up",
        ),
        pytest.param(
            [tools(call(None, None, "f", {"x": "é"}))],
            [ToolCallStarted(0, "call_new0", "f"), ToolCallArguments(0, '{"x":"é"}')],
            id="no-id-and-an-object-for-arguments",
        ),
        pytest.param([chunk({}, "stop")], [Finished(FinishReason.STOP)], id="stop"),
        pytest.param([chunk({}, "length")], [Finished(FinishReason.LENGTH)], id="length"),
        pytest.param([chunk({}, "eos")], [Finished(FinishReason.STOP)], id="an-unknown-word"),
        pytest.param(
            [tools(call(0, "a", "f", "{}")), chunk({}, "stop")],
            [ToolCallStarted(0, "a", "f"), ToolCallArguments(0, "{}"), Finished(FinishReason.TOOL_CALLS)],
            id="a-tool-turn-that-says-stop",
        ),
        pytest.param(
            [tools(call(0, "a", "f", "{}")), chunk({}, "length")],
            [ToolCallStarted(0, "a", "f"), ToolCallArguments(0, "{}"), Finished(FinishReason.LENGTH)],
            id="a-tool-turn-cut-short-stays-length",
        ),
    ],
)
def test_chunks_become_events(chunks: list[object], expected: list[Event]) -> None:
    assert events(*chunks) == [STARTED, *expected]


def test_usage_and_timings() -> None:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    last = {
        "id": "chatcmpl-1",
        "created": 1,
        "choices": [],
        "usage": usage,
        "timings": {"prompt_ms": 1.5, "predicted_ms": 2.5},
    }
    assert events(last) == [STARTED, UsageReported(9, 3, 4, 2, 1.5, 2.5)]


@pytest.mark.parametrize("odd", [None, [], "x", 1, {"id": "chatcmpl-1", "created": 1, "choices": None}])
def test_odd_chunks_say_nothing(odd: object) -> None:
    assert [event for event in events(odd) if event != STARTED] == []


def test_other_choices_are_left_out() -> None:
    other = {"id": "chatcmpl-1", "created": 1, "choices": [{"index": 1, "delta": {"content": "x"}}]}
    assert events(other) == [STARTED]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(
            {"code": 500, "message": "Context size has been exceeded."},
            (500, "Context size has been exceeded."),
            id="object",
        ),
        pytest.param({"code": "x"}, (500, "the engine reported an error without a text"), id="no-message"),
        pytest.param("boom", (500, "boom"), id="a-bare-string"),
    ],
)
def test_an_error_in_the_stream_is_a_failure(error: object, expected: tuple[int, str]) -> None:
    status, message = expected
    assert events({"error": error}) == [Failed("engine-error", message, status)]
