"""Anthropic's event order, whatever the engine sends."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_gateway.dialects.anthropic.answer import MessageStream, message
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
from blazar_gateway.testing.transcripts import message_blocks, named_event

STARTED = Started("chatcmpl-1", 1)
USAGE = UsageReported(10, 5, cached_tokens=4)


def stream(*events: Event, show_thinking: bool = True) -> list[dict[str, Any]]:
    writer = MessageStream(message_id="msg_1", model="m", show_thinking=show_thinking)
    frames = [frame for event in events for frame in writer.write(event)]
    if writer.finished:
        frames += writer.end()
    return [named_event(frame) for frame in frames]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([Reasoning("a")], [("thinking", "a")], id="reasoning-only"),
        pytest.param(
            [Reasoning("a"), Text("b"), Text("c")], [("thinking", "a"), ("text", "bc")], id="reasoning-then-text"
        ),
        pytest.param([Text("b")], [("text", "b")], id="text-only"),
        pytest.param([], [], id="an-empty-answer"),
        pytest.param(
            [
                Reasoning("a"),
                ToolCallStarted(0, "call_x", "f"),
                ToolCallArguments(0, '{"q":'),
                ToolCallArguments(0, "1}"),
                ToolCallStarted(1, "call_y", "g"),
                ToolCallArguments(1, "{}"),
            ],
            [("thinking", "a"), ("tool_use", '{"q":1}'), ("tool_use", "{}")],
            id="two-parallel-tools",
        ),
        pytest.param(
            [Text("a"), ToolCallStarted(0, "call_x", "f"), ToolCallArguments(0, "{}"), Text("late")],
            [("text", "a"), ("tool_use", "{}"), ("text", "late")],
            id="late-text-opens-a-new-block",
        ),
    ],
)
def test_blocks_in_order(events: list[Event], expected: list[tuple[str, str]]) -> None:
    blocks = message_blocks(stream(STARTED, *events, Finished(FinishReason.STOP), USAGE))
    shown = {"text": "text", "thinking": "thinking", "tool_use": "json"}
    assert [(block["type"], block[shown[block["type"]]]) for block in blocks] == expected


def test_reasoning_between_the_slices_of_a_tool_does_not_split_it() -> None:
    frames = stream(
        STARTED,
        ToolCallStarted(0, "call_x", "f"),
        ToolCallArguments(0, '{"a":'),
        Reasoning("hm"),
        ToolCallArguments(0, "1}"),
        Finished(FinishReason.TOOL_CALLS),
    )
    tool = next(block for block in message_blocks(frames) if block["type"] == "tool_use")
    assert tool["json"] == '{"a":1}'


def test_a_tool_block_starts_with_an_empty_input_and_its_own_prefix() -> None:
    frames = stream(STARTED, ToolCallStarted(0, "call_x", "f"), Finished(FinishReason.TOOL_CALLS))
    start = next(frame for frame in frames if frame["type"] == "content_block_start")
    assert start["content_block"] == {
        "type": "tool_use",
        "id": "toolu_x",
        "name": "f",
        "input": {},
        "caller": {"type": "direct"},
    }


@pytest.mark.parametrize(
    ("finished", "reason", "sequence"),
    [
        pytest.param(Finished(FinishReason.STOP), "end_turn", None, id="end"),
        pytest.param(Finished(FinishReason.STOP, "END"), "stop_sequence", "END", id="stop-sequence"),
        pytest.param(Finished(FinishReason.LENGTH), "max_tokens", None, id="length"),
        pytest.param(Finished(FinishReason.TOOL_CALLS), "tool_use", None, id="tools"),
        pytest.param(Finished(FinishReason.CONTENT_FILTER), "refusal", None, id="filter"),
    ],
)
def test_stop_reasons(finished: Finished, reason: str, sequence: str | None) -> None:
    delta = stream(STARTED, Text("x"), finished, USAGE)[-2]
    assert delta["delta"]["stop_reason"] == reason
    assert delta["delta"]["stop_sequence"] == sequence
    body, _ = message([STARTED, Text("x"), finished, USAGE], message_id="msg_1", model="m", show_thinking=True)
    assert (body["stop_reason"], body["stop_sequence"]) == (reason, sequence)


def test_usage_leaves_cached_tokens_out_of_the_input() -> None:
    usage = stream(STARTED, Finished(FinishReason.STOP), USAGE)[-2]["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (6, 4, 5)


def test_a_broken_stream_has_an_error_and_no_tidy_end() -> None:
    frames = stream(STARTED, Text("half"), Failed("engine-crashed", "it died", 502))
    assert [frame["type"] for frame in frames][-1] == "error"
    assert frames[-1]["error"] == {"type": "api_error", "message": "it died"}
    assert not any(frame["type"] in {"message_delta", "message_stop"} for frame in frames)


def test_omitted_thinking_keeps_its_block_without_text() -> None:
    blocks = message_blocks(
        stream(STARTED, Reasoning("secret"), Text("a"), Finished(FinishReason.STOP), show_thinking=False)
    )
    assert [(block["type"], block.get("thinking")) for block in blocks] == [("thinking", ""), ("text", None)]


def test_a_whole_message_orders_thinking_text_tools_and_parses_the_input() -> None:
    body, failed = message(
        [
            STARTED,
            Reasoning("t"),
            ToolCallStarted(0, "call_x", "f"),
            ToolCallArguments(0, '{"q": 1}'),
            Text("b"),
            ToolCallStarted(1, "call_y", "g"),
            ToolCallArguments(1, "not json"),
            Finished(FinishReason.TOOL_CALLS),
            USAGE,
        ],
        message_id="msg_1",
        model="m",
        show_thinking=True,
    )
    assert failed is None
    assert [block["type"] for block in body["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert [block["input"] for block in body["content"][2:]] == [{"q": 1}, {}]
    assert body["usage"]["input_tokens"] == 6


PIECES = st.one_of(
    st.builds(Reasoning, st.text(min_size=1, max_size=3)),
    st.builds(Text, st.text(min_size=1, max_size=3)),
    st.just("tool"),
    st.just("arguments"),
)


@given(st.lists(PIECES, max_size=20))
def test_any_order_of_pieces_keeps_the_rules(pieces: list[Reasoning | Text | str]) -> None:
    events: list[Event] = [STARTED]
    calls = 0
    for piece in pieces:
        if piece == "tool":
            events.append(ToolCallStarted(calls, f"call_{calls}", "f"))
            calls += 1
        elif piece == "arguments":
            if calls:
                events.append(ToolCallArguments(calls - 1, "x"))
        elif not isinstance(piece, str):
            events.append(piece)
    blocks = message_blocks(stream(*events, Finished(FinishReason.STOP), USAGE))
    assert sum(block["type"] == "tool_use" for block in blocks) == calls
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    assert text == "".join(event.text for event in events if isinstance(event, Text))
    arguments = "".join(block["json"] for block in blocks if block["type"] == "tool_use")
    assert arguments == "x" * sum(isinstance(event, ToolCallArguments) for event in events)
