"""The Responses API: what agents send, and event sequences without a gap."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from blazar_gateway.dialects.responses.request import Translated, to_chat
from blazar_gateway.dialects.responses.response import response_object
from blazar_gateway.dialects.responses.stream import ResponseStream
from blazar_gateway.testing.transcripts import named_event, response_items
from blazar_routing.errors import InvalidRequest


def translate(**fields: Any) -> Translated:
    return to_chat({"model": "m", "input": "hi", **fields})


def messages(*items: dict[str, Any]) -> Any:
    return translate(input=list(items)).body["messages"]


CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "f",
    "arguments": '{"x":1}',
    "status": "completed",
}
WIRE_CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}


def text_item(role: str, text: str, kind: str = "input_text") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        pytest.param([{"role": "user", "content": "hi"}], [{"role": "user", "content": "hi"}], id="an-easy-message"),
        pytest.param(
            [text_item("developer", "be brief"), text_item("user", "hi")],
            [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
            id="developer-is-system",
        ),
        pytest.param(
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "what?"},
                        {"type": "input_image", "image_url": "data:image/png;base64,aGk="},
                    ],
                }
            ],
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "what?"},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
                    ],
                }
            ],
            id="an-image",
        ),
        pytest.param(
            [
                text_item("user", "q"),
                {
                    "type": "reasoning",
                    "id": "rs_1",
                    "summary": [{"type": "summary_text", "text": "hm"}],
                    "encrypted_content": None,
                },
                text_item("assistant", "let me see", "output_text"),
                CALL,
                {"type": "function_call_output", "call_id": "call_1", "output": "42"},
            ],
            [
                {"role": "user", "content": "q"},
                {"role": "assistant", "content": "let me see", "reasoning_content": "hm", "tool_calls": [WIRE_CALL]},
                {"role": "tool", "tool_call_id": "call_1", "content": "42"},
            ],
            id="one-assistant-turn-from-three-items",
        ),
        pytest.param([CALL], [{"role": "assistant", "content": None, "tool_calls": [WIRE_CALL]}], id="a-call-alone"),
        pytest.param(
            [
                {
                    "type": "function_call_output",
                    "call_id": "c",
                    "output": [{"type": "input_text", "text": "a"}, {"type": "output_text", "text": "b"}],
                }
            ],
            [{"role": "tool", "tool_call_id": "c", "content": "a\nb"}],
            id="an-output-of-parts-of-either-kind",
        ),
        pytest.param(
            [
                {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin"},
                {"type": "custom_tool_call_output", "call_id": "c", "output": "ok"},
            ],
            [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "c",
                            "type": "function",
                            "function": {"name": "patch", "arguments": '{"input": "*** Begin"}'},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "c", "content": "ok"},
            ],
            id="a-free-form-tool",
        ),
        pytest.param(
            [text_item("assistant", "one", "output_text"), text_item("assistant", "two", "output_text")],
            [{"role": "assistant", "content": "one"}, {"role": "assistant", "content": "two"}],
            id="two-assistant-messages-stay-two",
        ),
        pytest.param(
            [
                {"type": "web_search_call", "id": "ws_1"},
                {"type": "additional_tools", "tools": []},
                text_item("user", "hi"),
            ],
            [{"role": "user", "content": "hi"}],
            id="items-of-hosted-tools-are-dropped",
        ),
        pytest.param(
            [
                {"role": "user", "content": "q"},
                {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
            ],
            [{"role": "user", "content": "q"}, {"role": "assistant", "content": "no"}],
            id="a-refusal-in-history",
        ),
    ],
)
def test_input_items(items: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert messages(*items) == expected


def test_history_comes_before_the_input_and_instructions_before_both() -> None:
    history = [text_item("user", "first"), text_item("assistant", "answer", "output_text")]
    body = to_chat({"model": "m", "input": "second", "instructions": "be brief"}, history).body
    assert [message["content"] for message in body["messages"]] == ["be brief", "first", "answer", "second"]


FUNCTION = {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": False}
OFFERED = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "description": "d"}}


def test_functions_are_kept_and_other_tools_skipped_with_a_note() -> None:
    translated = translate(
        tools=[
            FUNCTION,
            {"type": "web_search"},
            {"type": "namespace", "name": "n", "tools": [{**FUNCTION, "name": "g"}]},
            {"type": "mcp"},
        ]
    )
    assert [tool["function"]["name"] for tool in translated.body["tools"]] == ["f", "g"]
    assert translated.body["tools"][0] == OFFERED
    assert translated.skipped_tools == ("web_search", "mcp")


def test_a_free_form_tool_becomes_a_function_of_one_string() -> None:
    [tool] = translate(tools=[{"type": "custom", "name": "patch", "format": {"type": "grammar"}}]).body["tools"]
    assert tool["function"]["parameters"]["required"] == ["input"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"max_output_tokens": 64}, {"max_tokens": 64}, id="limit"),
        pytest.param({"reasoning": {"effort": "low"}}, {"reasoning_effort": "low"}, id="effort"),
        pytest.param({"reasoning": {"summary": "auto"}}, {}, id="summary-alone"),
        pytest.param({"text": {"format": {"type": "text"}, "verbosity": "low"}}, {}, id="text"),
        pytest.param(
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": True}}},
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": True}}},
            id="schema",
        ),
        pytest.param({"temperature": None, "top_p": 0.5}, {"top_p": 0.5}, id="sampling"),
        pytest.param(
            {"stream": True, "store": False, "include": ["x"], "client_metadata": {}},
            {"stream": True},
            id="what-is-not-the-engines",
        ),
        pytest.param(
            {"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "f"}},
            {"tools": [OFFERED], "tool_choice": {"type": "function", "function": {"name": "f"}}},
            id="a-named-tool",
        ),
        pytest.param(
            {"tools": [FUNCTION], "tool_choice": {"type": "web_search_preview"}},
            {"tools": [OFFERED], "tool_choice": "auto"},
            id="a-hosted-tool-chosen",
        ),
    ],
)
def test_parameters(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    body = translate(**fields).body
    assert {name: value for name, value in body.items() if name not in {"model", "messages"}} == expected


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        pytest.param({"input": 3}, "`input`", id="input-a-number"),
        pytest.param({"input": ["x"]}, "input[0]", id="input-of-strings"),
        pytest.param({"input": []}, "nothing for the model", id="no-input"),
        pytest.param({"input": [{"type": "hologram"}]}, "'hologram'", id="unknown-item"),
        pytest.param({"input": [{"role": "robot", "content": "x"}]}, "input[0].role", id="unknown-role"),
        pytest.param({"input": [{"role": "user", "content": [{"type": "smell"}]}]}, "'smell'", id="unknown-part"),
        pytest.param(
            {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
            "send the data itself",
            id="image-by-id",
        ),
        pytest.param({"input": [{"type": "function_call_output", "output": "x"}]}, "call_id", id="output-of-nothing"),
        pytest.param(
            {"input": [{"type": "item_reference", "id": "msg_1"}]},
            "'item_reference'",
            id="reference-that-nobody-resolved",
        ),
        pytest.param({"max_output_tokens": "many"}, "max_output_tokens", id="limit"),
        pytest.param({"tools": {}}, "`tools`", id="tools"),
        pytest.param({"tools": [{"type": "function"}]}, "tools[0].name", id="tool-without-name"),
        pytest.param(
            {"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "g"}}, "'g'", id="unknown-choice"
        ),
        pytest.param({"tools": [FUNCTION], "tool_choice": "maybe"}, "tool_choice", id="choice-a-word"),
        pytest.param({"text": {"format": {"type": "xml"}}}, "text.format", id="format"),
        pytest.param({"instructions": ["x"]}, "instructions", id="instructions"),
    ],
)
def test_malformed_requests_name_the_field(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        translate(**fields)
    assert says in str(caught.value)


STARTED = Started("chatcmpl-1", 1)
USAGE = UsageReported(10, 5, cached_tokens=4, reasoning_tokens=1)
STOP = Finished(FinishReason.STOP)


def written(*events: Event, custom: frozenset[str] = frozenset()) -> list[dict[str, Any]]:
    numbers = itertools.count()
    response = response_object({"temperature": 0.5}, response_id="resp_1", created_at=1, model="m", store=True)
    writer = ResponseStream(
        response, new_id=lambda prefix: f"{prefix}_{next(numbers)}", now=lambda: 2, custom_tools=custom
    )
    frames = [frame for event in events for frame in writer.write(event)]
    if writer.finished:
        frames += writer.end()
    return [named_event(frame) for frame in frames]


def test_a_text_answer_in_full() -> None:
    frames = written(STARTED, Text("Hel"), Text("lo"), STOP, USAGE)
    assert [frame["type"] for frame in frames] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    [item] = response_items(frames)
    assert item["content"] == [{"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}]
    final = frames[-1]["response"]
    assert final["status"] == "completed"
    assert final["temperature"] == 0.5
    assert final["usage"] == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 15,
    }


def test_reasoning_comes_before_the_message() -> None:
    items = response_items(written(STARTED, Reasoning("hm"), Text("a"), STOP))
    assert [item["type"] for item in items] == ["reasoning", "message"]


def test_parallel_calls_have_their_own_items_and_ids() -> None:
    items = response_items(
        written(
            STARTED,
            ToolCallStarted(0, "call_a", "f"),
            ToolCallStarted(1, "call_b", "g"),
            ToolCallArguments(0, '{"x":'),
            ToolCallArguments(1, "{}"),
            ToolCallArguments(0, "1}"),
            Finished(FinishReason.TOOL_CALLS),
        )
    )
    assert [(item["call_id"], item["name"], item["arguments"]) for item in items] == [
        ("call_a", "f", '{"x":1}'),
        ("call_b", "g", "{}"),
    ]
    assert all(item["id"] != item["call_id"] for item in items)


def test_a_free_form_call_carries_its_input() -> None:
    frames = written(
        STARTED,
        ToolCallStarted(0, "c", "patch"),
        ToolCallArguments(0, '{"input": "*** Begin"}'),
        Finished(FinishReason.TOOL_CALLS),
        custom=frozenset({"patch"}),
    )
    [item] = response_items(frames)
    assert (item["type"], item["input"]) == ("custom_tool_call", "*** Begin")


@pytest.mark.parametrize(
    ("reason", "kind", "why"),
    [
        pytest.param(FinishReason.LENGTH, "response.incomplete", "max_output_tokens", id="cut-by-tokens"),
        pytest.param(FinishReason.CONTENT_FILTER, "response.incomplete", "content_filter", id="filtered"),
    ],
)
def test_an_incomplete_answer_says_why(reason: FinishReason, kind: str, why: str) -> None:
    last = written(STARTED, Text("a"), Finished(reason), USAGE)[-1]
    assert last["type"] == kind
    assert last["response"]["status"] == "incomplete"
    assert last["response"]["incomplete_details"] == {"reason": why}


def test_a_broken_stream_fails_and_does_not_complete() -> None:
    frames = written(STARTED, Text("half"), Failed("engine-crashed", "it died", 502))
    assert frames[-1]["type"] == "response.failed"
    assert frames[-1]["response"]["error"] == {"code": "server_error", "message": "it died"}
    assert not any(frame["type"] == "response.completed" for frame in frames)


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
                events.append(ToolCallArguments(calls - 1, "{}"))
        elif not isinstance(piece, str):
            events.append(piece)
    items = response_items(written(*events, STOP))
    said = "".join(item["content"][0]["text"] for item in items if item["type"] == "message")
    assert said == "".join(event.text for event in events if isinstance(event, Text))
    assert sum(item["type"] == "function_call" for item in items) == calls
