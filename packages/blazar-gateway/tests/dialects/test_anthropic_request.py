"""Requests that agents and SDKs really send, as canonical chat."""

from typing import Any

import pytest

from blazar_gateway.dialects.anthropic.request import to_chat
from blazar_routing.errors import InvalidRequest

PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
PNG_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


def translate(**fields: Any) -> dict[str, Any]:
    request = {"model": "m", "max_tokens": 4096, "messages": [{"role": "user", "content": "hi"}], **fields}
    return to_chat(request).body


def messages(*turns: tuple[str, Any], **fields: Any) -> list[dict[str, Any]]:
    turned = translate(messages=[{"role": role, "content": content} for role, content in turns], **fields)["messages"]
    assert isinstance(turned, list)
    return turned


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        pytest.param([("user", "hi")], [{"role": "user", "content": "hi"}], id="a-string"),
        pytest.param(
            [
                (
                    "user",
                    [
                        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
                        {"type": "text", "text": " "},
                        {"type": "text", "text": "b"},
                    ],
                )
            ],
            [{"role": "user", "content": "a\nb"}],
            id="text-blocks-are-flattened-and-blank-ones-left-out",
        ),
        pytest.param([("user", "a"), ("user", "b")], [{"role": "user", "content": "a\nb"}], id="neighbours-are-joined"),
        pytest.param(
            [("user", "a"), ("user", [PNG])],
            [{"role": "user", "content": [{"type": "text", "text": "a"}, PNG_PART]}],
            id="text-and-image-neighbours",
        ),
        pytest.param(
            [("user", [{"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}])],
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]}],
            id="image-by-url",
        ),
        pytest.param(
            [("user", "q"), ("system", [{"type": "text", "text": "note"}]), ("user", "r")],
            [{"role": "user", "content": "q"}, {"role": "system", "content": "note"}, {"role": "user", "content": "r"}],
            id="a-system-turn-in-the-middle-stays-in-place",
        ),
        pytest.param(
            [
                ("user", "q"),
                (
                    "assistant",
                    [
                        {"type": "thinking", "thinking": "hm", "signature": "s"},
                        {"type": "redacted_thinking", "data": "x"},
                        {"type": "text", "text": "let me see"},
                        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"x": 1}},
                    ],
                ),
                (
                    "user",
                    [
                        {"type": "text", "text": "and then?"},
                        {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "42"}]},
                    ],
                ),
            ],
            [
                {"role": "user", "content": "q"},
                {
                    "role": "assistant",
                    "content": "let me see",
                    "reasoning_content": "hm",
                    "tool_calls": [
                        {"id": "toolu_1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
                    ],
                },
                {"role": "tool", "tool_call_id": "toolu_1", "content": "42"},
                {"role": "user", "content": "and then?"},
            ],
            id="a-tool-turn-results-first",
        ),
        pytest.param(
            [("user", [{"type": "tool_result", "tool_use_id": "t", "is_error": True, "content": "boom"}])],
            [{"role": "tool", "tool_call_id": "t", "content": "Error: boom"}],
            id="a-tool-that-failed",
        ),
        pytest.param(
            [("user", [{"type": "tool_result", "tool_use_id": "t"}])],
            [{"role": "tool", "tool_call_id": "t", "content": ""}],
            id="a-result-without-content",
        ),
        pytest.param(
            [("user", [{"type": "tool_result", "tool_use_id": "t", "content": [PNG]}])],
            [{"role": "tool", "tool_call_id": "t", "content": ""}, {"role": "user", "content": [PNG_PART]}],
            id="an-image-in-a-result-goes-to-the-user-turn",
        ),
        pytest.param(
            [
                (
                    "user",
                    [
                        {
                            "type": "document",
                            "title": "T",
                            "source": {"type": "text", "media_type": "text/plain", "data": "body"},
                        }
                    ],
                )
            ],
            [{"role": "user", "content": "T\nbody"}],
            id="a-text-document",
        ),
        pytest.param(
            [("user", "q"), ("assistant", "The answer is")],
            [{"role": "user", "content": "q"}, {"role": "assistant", "content": "The answer is"}],
            id="a-prefill-stays-last",
        ),
        pytest.param(
            [("user", "q"), ("assistant", []), ("user", "r")],
            [{"role": "user", "content": "q\nr"}],
            id="an-empty-assistant-turn-vanishes",
        ),
    ],
)
def test_turns(turns: list[tuple[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert messages(*turns) == expected


@pytest.mark.parametrize(
    ("system", "text"),
    [
        pytest.param("be brief", "be brief", id="string"),
        pytest.param(
            [
                {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1;"},
                {"type": "text", "text": "one", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
                {"type": "text", "text": "two"},
            ],
            "one\ntwo",
            id="blocks-without-the-billing-line",
        ),
    ],
)
def test_the_system_prompt_comes_first(system: Any, text: str) -> None:
    assert messages(("user", "hi"), system=system)[0] == {"role": "system", "content": text}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, {"chat_template_kwargs": {"enable_thinking": False}}, id="absent-thinking-is-off"),
        pytest.param(
            {"thinking": {"type": "disabled"}}, {"chat_template_kwargs": {"enable_thinking": False}}, id="disabled"
        ),
        pytest.param(
            {"thinking": {"type": "adaptive"}}, {"chat_template_kwargs": {"enable_thinking": True}}, id="adaptive"
        ),
        pytest.param(
            {"thinking": {"type": "enabled", "budget_tokens": 2048}},
            {"chat_template_kwargs": {"enable_thinking": True}, "thinking_budget_tokens": 2048},
            id="enabled",
        ),
        pytest.param({"output_config": {"effort": "high"}}, {"reasoning_effort": "high"}, id="effort"),
        pytest.param(
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "output", "schema": {"type": "object"}},
                }
            },
            id="format",
        ),
        pytest.param({"temperature": 0.2, "top_k": 5, "top_p": None}, {"temperature": 0.2, "top_k": 5}, id="sampling"),
        pytest.param({"metadata": {"user_id": "u"}}, {"user": "u"}, id="user"),
    ],
)
def test_parameters(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    assert expected.items() <= translate(**fields).items()


def test_unknown_fields_are_ignored() -> None:
    assert translate(context_management={"edits": []}, speed="fast", container=None).keys() == translate().keys()


TOOL = {"name": "f", "description": "d", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}
OFFERED = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "description": "d"}}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        pytest.param(None, {}, id="none-given"),
        pytest.param({"type": "auto"}, {"tool_choice": "auto"}, id="auto"),
        pytest.param(
            {"type": "any", "disable_parallel_tool_use": True},
            {"tool_choice": "required", "parallel_tool_calls": False},
            id="any",
        ),
        pytest.param({"type": "none"}, {"tool_choice": "none"}, id="none"),
        pytest.param(
            {"type": "tool", "name": "f"}, {"tool_choice": {"type": "function", "function": {"name": "f"}}}, id="named"
        ),
    ],
)
def test_tool_choice(choice: Any, expected: dict[str, Any]) -> None:
    body = translate(tools=[TOOL, {"type": "web_search_20250305", "name": "web_search"}], tool_choice=choice)
    assert body["tools"] == [OFFERED]
    assert {name: body[name] for name in ("tool_choice", "parallel_tool_calls") if name in body} == expected


def test_stop_sequences_stay_with_the_gateway() -> None:
    translated = to_chat(
        {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}], "stop_sequences": ["END", ""]}
    )
    assert translated.stop_sequences == ("END",)
    assert "stop" not in translated.body


def test_counting_needs_no_max_tokens() -> None:
    assert (
        "max_tokens" not in to_chat({"model": "m", "messages": [{"role": "user", "content": "x"}]}, counting=True).body
    )


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        pytest.param({"max_tokens": None}, "max_tokens", id="max-tokens-missing"),
        pytest.param({"max_tokens": 0}, "max_tokens", id="max-tokens-zero"),
        pytest.param({"max_tokens": "9"}, "max_tokens", id="max-tokens-text"),
        pytest.param({"messages": []}, "messages", id="no-messages"),
        pytest.param({"messages": "hi"}, "messages", id="messages-not-a-list"),
        pytest.param({"messages": [7]}, "messages[0]", id="a-number-for-a-message"),
        pytest.param({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role", id="unknown-role"),
        pytest.param({"messages": [{"role": "user", "content": 5}]}, "messages[0].content", id="content-a-number"),
        pytest.param(
            {"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]", id="block-not-an-object"
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "hologram"}]}]}, "'hologram'", id="unknown-block"
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64"}}]}]},
            "content[0].source",
            id="image-without-data",
        ),
        pytest.param(
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}]}
                ]
            },
            "content[0].source",
            id="image-by-file",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "image"}]}]},
            "content[0].source",
            id="image-without-source",
        ),
        pytest.param(
            {
                "messages": [
                    {"role": "user", "content": [{"type": "document", "source": {"type": "base64", "data": "x"}}]}
                ]
            },
            "send its text",
            id="pdf",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}]},
            "tool_use_id",
            id="result-of-nothing",
        ),
        pytest.param({"system": 3}, "system", id="system-a-number"),
        pytest.param({"system": [{"type": "image"}]}, "system[0]", id="system-an-image"),
        pytest.param(
            {"thinking": {"type": "enabled", "budget_tokens": 4096}},
            "greater than `thinking.budget_tokens`",
            id="budget-not-below-max-tokens",
        ),
        pytest.param({"thinking": {"type": "enabled", "budget_tokens": 100}}, "at least 1024", id="budget-too-small"),
        pytest.param({"thinking": {"type": "enabled"}}, "budget_tokens", id="no-budget"),
        pytest.param({"thinking": "yes"}, "thinking.type", id="thinking-a-word"),
        pytest.param(
            {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "g"}}, "'g'", id="choice-of-an-unknown-tool"
        ),
        pytest.param({"tools": [TOOL], "tool_choice": "auto"}, "tool_choice", id="choice-a-word"),
        pytest.param({"tools": [{"input_schema": {}}]}, "tools[0].name", id="a-tool-without-name"),
        pytest.param({"stop_sequences": "END"}, "stop_sequences", id="stop-a-string"),
        pytest.param({"output_config": {"format": {"type": "xml"}}}, "output_config.format", id="format-unknown"),
    ],
)
def test_malformed_requests_name_the_field(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        translate(**fields)
    assert says in str(caught.value)
