"""Bodies of the two OpenAI routes: what passes, what is repaired, what is refused by name."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_gateway.dialects.json_objects import parse_object
from blazar_gateway.dialects.openai.generation import Generation, parse_chat, parse_completion
from blazar_routing.errors import InvalidRequest

USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
OTHER = {"type": "function", "function": {"name": "g"}}


def chat(**fields: object) -> Generation:
    return parse_chat(orjson.dumps({"model": "m", "messages": [USER], **fields}))


def sent(generation: Generation) -> Any:
    return json.loads(generation.streamed_body())


# --- What reaches the engine ---------------------------------------------------------------------------------------


def test_stream_and_usage_are_appended_to_the_clients_own_bytes() -> None:
    body = b'{"model":"m", "messages":[{"role":"user","content":"\\u00e9"}] }\n'
    assert parse_chat(body).streamed_body() == (
        b'{"model":"m", "messages":[{"role":"user","content":"\\u00e9"}] '
        b',"stream":true,"stream_options":{"include_usage":true}}'
    )


def test_streams_own_flag_is_not_repeated() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true}'
    generation = parse_chat(body)
    assert generation.stream
    assert generation.streamed_body() == body[:-1] + b',"stream_options":{"include_usage":true}}'


@pytest.mark.parametrize("options", [{}, {"include_usage": False}, {"include_usage": True}, {"include_obfuscation": 1}])
def test_other_stream_options_are_kept(options: dict[str, object]) -> None:
    generation = chat(stream=True, stream_options=options)
    assert generation.usage_asked is (options.get("include_usage") is True)
    assert sent(generation)["stream_options"] == {**options, "include_usage": True}


def test_explicit_false_becomes_a_stream_for_the_engine_only() -> None:
    generation = chat(stream=False)
    assert not generation.stream
    assert sent(generation)["stream"] is True
    assert "stream_options" not in json.loads(generation.plain_body())
    assert json.loads(generation.plain_body())["stream"] is False


def test_unknown_fields_are_forwarded() -> None:
    assert sent(chat(mirostat=2, x_unknown={"a": [1]}))["x_unknown"] == {"a": [1]}


def test_byte_order_mark_does_not_reach_the_engine() -> None:
    body = b"\xef\xbb\xbf" + orjson.dumps({"model": "m", "messages": [USER]})
    assert sent(parse_chat(body))["messages"] == [USER]


def test_row_name_replaces_another_spelling() -> None:
    generation = parse_chat(orjson.dumps({"model": "m:latest", "messages": [USER]})).for_row("m")
    assert sent(generation)["model"] == "m"
    assert generation.for_row("m") is generation


@pytest.mark.parametrize(
    "name",
    [
        "seed",
        "temperature",
        "stop",
        "tools",
        "tool_choice",
        "response_format",
        "max_tokens",
        "max_completion_tokens",
        "stream",
        "stream_options",
        "n",
        "logit_bias",
        "logprobs",
        "metadata",
        "user",
    ],
)
def test_null_is_absent(name: str) -> None:
    assert chat(**{name: None}).choices == 1


@pytest.mark.parametrize(
    ("fields", "forwarded"),
    [
        pytest.param({"seed": 1.0}, {"seed": 1}, id="whole number as a float"),
        pytest.param({"top_k": 40.0}, {"top_k": 40}, id="another"),
        pytest.param({"n": 2.0}, {"n": 2}, id="count as a float"),
        pytest.param({"stop": ""}, {"stop": []}, id="empty stop would stop at once"),
        pytest.param({"stop": ["", "a", ""]}, {"stop": ["a"]}, id="empty stops among others"),
        pytest.param({"stop": "a"}, {"stop": "a"}, id="plain stop"),
        pytest.param({"tools": []}, {"tools": None}, id="empty tools are none"),
        pytest.param({"tools": [], "tool_choice": "auto"}, {"tool_choice": None}, id="choice without tools"),
        pytest.param({"max_completion_tokens": 7}, {"max_tokens": 7}, id="newer name of the limit"),
        pytest.param({"max_completion_tokens": 7, "max_tokens": 9}, {"max_tokens": 7}, id="newer name wins"),
        pytest.param({"max_completion_tokens": None, "max_tokens": 9}, {"max_tokens": 9}, id="null newer name"),
        pytest.param({"max_completion_tokens": 8, "max_tokens": None}, {"max_tokens": 8}, id="null older name"),
        pytest.param({"response_format": {"type": "text"}}, {"response_format": {"type": "text"}}, id="text format"),
        pytest.param(
            {"response_format": {"type": "json_object"}},
            {"response_format": {"type": "json_object", "schema": {"type": "object"}}},
            id="json_object needs a schema to be constrained",
        ),
        pytest.param(
            {"response_format": {"type": "json_object", "schema": {"a": 1}}},
            {"response_format": {"type": "json_object", "schema": {"a": 1}}},
            id="its own schema is kept",
        ),
        pytest.param(
            {"tools": [TOOL, OTHER], "tool_choice": {"type": "function", "function": {"name": "g"}}},
            {"tools": [OTHER], "tool_choice": "required"},
            id="chosen tool alone",
        ),
        pytest.param(
            {
                "tools": [TOOL, OTHER],
                "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [TOOL]}},
            },
            {"tools": [TOOL], "tool_choice": "auto"},
            id="allowed tools",
        ),
        pytest.param({"tools": [TOOL], "tool_choice": "none"}, {"tool_choice": "none"}, id="choice as a word"),
    ],
)
def test_parameters_are_made_regular(fields: dict[str, object], forwarded: dict[str, object]) -> None:
    body = sent(chat(**fields))
    assert {name: body.get(name) for name in forwarded} == forwarded
    assert "max_completion_tokens" not in body or body["max_completion_tokens"] is None


@pytest.mark.parametrize(
    ("message", "forwarded"),
    [
        pytest.param({"role": "developer", "content": "x"}, {"role": "system", "content": "x"}, id="developer"),
        pytest.param({"role": "assistant"}, {"role": "assistant", "content": ""}, id="assistant without content"),
        pytest.param({"role": "assistant", "content": None}, {"role": "assistant", "content": ""}, id="null content"),
        pytest.param({"role": "assistant", "content": []}, {"role": "assistant", "content": ""}, id="empty list"),
        pytest.param({"role": "assistant", "content": ""}, {"role": "assistant", "content": ""}, id="empty text"),
        pytest.param(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}],
            },
            id="null content beside calls is the usual form",
        ),
        pytest.param(
            {"role": "assistant", "content": None, "tool_calls": []},
            {"role": "assistant", "content": ""},
            id="empty calls are none",
        ),
        pytest.param(
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": ""}}]},
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
            id="empty arguments",
        ),
        pytest.param(
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f"}}]},
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
            id="no arguments",
        ),
        pytest.param(
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": '{"a":1}'}}]},
            id="arguments as an object",
        ),
        pytest.param(
            {"role": "tool", "tool_call_id": "a", "content": None},
            {"role": "tool", "tool_call_id": "a", "content": ""},
            id="tool result null",
        ),
        pytest.param(
            {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "r"}]},
            {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "r"}]},
            id="tool result in parts",
        ),
        pytest.param(
            {"role": "assistant", "content": [{"type": "text", "text": "a"}], "reasoning_content": "r", "name": "n"},
            {"role": "assistant", "content": [{"type": "text", "text": "a"}], "reasoning_content": "r", "name": "n"},
            id="parts and what else is there",
        ),
    ],
)
def test_history_takes_a_shape_that_templates_know(message: dict[str, object], forwarded: dict[str, object]) -> None:
    assert sent(chat(messages=[USER, message, USER]))["messages"] == [USER, forwarded, USER]


# --- What is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": None}, "model"),
        ({"model": ""}, "model"),
        ({"model": 7}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": {"role": "user"}}, "messages"),
        ({"messages": [USER, "hi"]}, "messages[1]"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [USER, {"role": "robot", "content": "x"}]}, "messages[1].role"),
        ({"messages": [{"role": 1, "content": "x"}]}, "messages[0].role"),
        ({"messages": [USER, {"role": "user", "content": None}]}, "messages[1].content"),
        ({"messages": [USER, USER, {"role": "user"}]}, "messages[2].content"),
        ({"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": {"text": "x"}}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "assistant", "tool_calls": {}}]}, "messages[0].tool_calls"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "a"}]}]}, "messages[0].tool_calls[0]"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 7}}]}]},
            "messages[0].tool_calls[0].function.arguments",
        ),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": [1]}, "top_p"),
        ({"seed": 1.5}, "seed"),
        ({"seed": "1"}, "seed"),
        ({"n": 0}, "n"),
        ({"n": -1}, "n"),
        ({"n": True}, "n"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"max_tokens": -2}, "max_tokens"),
        ({"max_completion_tokens": 1.5}, "max_completion_tokens"),
        ({"stream": "true"}, "stream"),
        ({"stream_options": []}, "stream_options"),
        ({"stop": 7}, "stop"),
        ({"stop": ["a", 7]}, "stop[1]"),
        ({"logit_bias": "x"}, "logit_bias"),
        ({"logprobs": 3}, "logprobs"),
        ({"top_logprobs": True}, "top_logprobs"),
        ({"tools": "x"}, "tools"),
        ({"tools": ["x"]}, "tools[0]"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [TOOL], "tool_choice": "always"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": 7}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "h"}}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "custom", "custom": {"name": "f"}}}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": 7}}}, "response_format.json_schema"),
        ({"metadata": 7}, "metadata"),
    ],
    ids=lambda value: value if isinstance(value, str) else json.dumps(value),
)
def test_nonsense_is_refused_with_the_fields_name(fields: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        chat(**fields)
    assert caught.value.param == param
    assert param.split(".", maxsplit=1)[0].split("[", maxsplit=1)[0] in str(caught.value)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(b"", "missing request body", id="nothing"),
        pytest.param(b" \n", "missing request body", id="blank"),
        pytest.param(b'{"model"', "not valid JSON", id="cut off"),
        pytest.param(b"{'model':1}", "not valid JSON", id="single quotes"),
        pytest.param(b'{"a":NaN}', "not valid JSON", id="not a number"),
        pytest.param(b'[{"model":"m"}]', "not an array", id="array"),
        pytest.param(b'"text"', "not a string", id="string"),
        pytest.param(b"null", "not null", id="null"),
        pytest.param(b"12", "not a number", id="number"),
        pytest.param(b"true", "not a boolean", id="boolean"),
        pytest.param(b'{"a":"\\ud800"}', "half a character", id="lone surrogate"),
        pytest.param(b'{"a":"\xff"}', "not UTF-8: its byte 6 is 0xff", id="no UTF-8"),
        pytest.param(b'{"a":"\xed\xa0\x80"}', "not UTF-8", id="surrogate in UTF-8"),
        pytest.param('{"a":1}'.encode("utf-16"), "not UTF-8", id="UTF-16"),
        pytest.param('{"a":1}'.encode("utf-16-be"), "not UTF-8", id="UTF-16 without a mark"),
        pytest.param('{"a":1}'.encode("utf-32-le"), "not UTF-8", id="UTF-32"),
        pytest.param(b"[" * 100_000, "not valid JSON", id="deep nesting"),
        pytest.param(b'{"a":' * 100_000, "not valid JSON", id="deep nesting of objects"),
        pytest.param(b"%PDF-1.7", "not valid JSON", id="another format"),
    ],
)
def test_bodies_that_are_no_object_are_refused(body: bytes, text: str) -> None:
    with pytest.raises(InvalidRequest, match=text):
        parse_object(body)


def test_huge_integer_becomes_a_float_and_passes() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"x"}],"seed":%d}' % 2**200
    generation = parse_chat(body)
    assert generation.fields["seed"] == 2**200
    assert sent(generation.for_row("other"))["seed"] == 2**200


def test_nesting_that_cannot_be_written_again_is_refused() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"x"}],"x":' + b"[" * 600 + b"]" * 600 + b"}"
    generation = parse_chat(body)
    assert generation.streamed_body().startswith(body[:-1])
    with pytest.raises(InvalidRequest, match="cannot be passed on"):
        generation.for_row("other").streamed_body()


def test_huge_count_is_refused_like_any_other_nonsense() -> None:
    with pytest.raises(InvalidRequest, match="n must be"):
        parse_chat(b'{"model":"m","messages":[{"role":"user","content":"x"}],"n":%d}' % 2**200)


@given(st.binary(max_size=200))
def test_no_bytes_make_it_raise_anything_else(body: bytes) -> None:
    for parse in (parse_chat, parse_completion):
        try:
            parse(body)
        except InvalidRequest:
            continue


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    "messages",
    "prompt",
    "tools",
    "tool_choice",
    "response_format",
    "stop",
    "n",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "logit_bias",
]


@given(fields=st.dictionaries(st.sampled_from(FIELDS), ANYTHING), role=ANYTHING, content=ANYTHING, calls=ANYTHING)
def test_no_values_make_it_raise_anything_else(
    fields: dict[str, Any], role: object, content: object, calls: object
) -> None:
    message = {"role": role, "content": content, "tool_calls": calls}
    for parse in (parse_chat, parse_completion):
        for messages in ([message], fields.get("messages")):
            body = orjson.dumps({"model": "m", **fields, "messages": messages})
            try:
                generation = parse(body)
            except InvalidRequest:
                continue
            again = json.loads(generation.streamed_body())
            assert again["stream"] is True
            assert again["stream_options"]["include_usage"] is True


# --- Text completions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [("x", 1), ("", 1), (["a", "b"], 2), ([1, 2, 3], 1), ([[1], [2, 3]], 2), (["a", [1]], 2)],
)
def test_prompts_are_counted(prompt: object, prompts: int) -> None:
    assert parse_completion(orjson.dumps({"model": "m", "prompt": prompt})).prompts == prompts


@pytest.mark.parametrize(
    ("prompt", "param"),
    [(None, "prompt"), ([], "prompt"), (7, "prompt"), ({}, "prompt"), (["a", None], "prompt[1]"), ([[]], "prompt[0]")],
)
def test_odd_prompts_are_refused(prompt: object, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_completion(orjson.dumps({"model": "m", "prompt": prompt}))
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        pytest.param({}, {"max_tokens": 16}, id="openais-own-default"),
        pytest.param({"max_tokens": None}, {"max_tokens": 16}, id="null-is-absent"),
        pytest.param({"max_tokens": -1}, {"max_tokens": -1}, id="no-limit"),
        pytest.param({"max_tokens": 0}, {"max_tokens": 1}, id="nothing-at-all"),
        pytest.param({"logprobs": 2}, {"max_tokens": 16, "logprobs": 2}, id="logprobs"),
        pytest.param({"logprobs": 0}, {"max_tokens": 16, "logprobs": 1}, id="only-the-tokens-own"),
        pytest.param({"logprobs": True}, {"max_tokens": 16, "logprobs": 1}, id="chats-spelling"),
        pytest.param({"logprobs": False}, {"max_tokens": 16}, id="chats-spelling-of-none"),
        pytest.param({"echo": True}, {"max_tokens": 16}, id="echo-is-the-gateways"),
        pytest.param({"best_of": 1}, {"max_tokens": 16}, id="best-of-one"),
        pytest.param({"n": 2}, {"max_tokens": 16, "n": 2}, id="n"),
        pytest.param({"n": 2, "best_of": 2}, {"max_tokens": 16, "n": 2}, id="best-of-as-many"),
        pytest.param({"n": 1, "best_of": 3}, {"max_tokens": 16, "n": 3, "logprobs": 1}, id="best-of-more"),
        pytest.param({"n": None, "best_of": None, "echo": None, "suffix": None}, {"max_tokens": 16}, id="nulls"),
    ],
)
def test_what_only_completions_have_becomes_what_engines_know(
    fields: dict[str, object], sent: dict[str, object]
) -> None:
    asked = parse_completion(orjson.dumps({"model": "m", "prompt": "x", **fields}))
    body = json.loads(asked.streamed_body())
    del body["stream"], body["stream_options"]
    assert body == {"model": "m", "prompt": "x", **sent}


def test_a_completion_that_needs_no_change_keeps_its_bytes() -> None:
    body = b'{"model":"m","prompt":"x","max_tokens":5}'
    assert parse_completion(body).raw == body


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 3, "best_of": 2}, "best_of"),
        ({"best_of": 2, "stream": True}, "best_of"),
        ({"best_of": 0}, "best_of"),
        ({"logprobs": -1}, "logprobs"),
        ({"logprobs": "x"}, "logprobs"),
        ({"echo": "yes"}, "echo"),
        ({"suffix": 7}, "suffix"),
        ({"suffix": "x", "n": 2}, "suffix"),
        ({"suffix": "x", "prompt": ["a", "b"]}, "suffix"),
        ({"suffix": "x", "prompt": [1, 2]}, "suffix"),
    ],
)
def test_wishes_that_do_not_go_together_are_refused(fields: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_completion(orjson.dumps({"model": "m", "prompt": "x", **fields}))
    assert caught.value.param == param
