"""The official client of Anthropic, on the stub and on the real engine."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic.types import MessageParam, ToolParam

GREEDY = {"temperature": 0}
"""Not among the client's own parameters any more, but still what older ones send."""

HELLO: list[MessageParam] = [{"role": "user", "content": "Say hello to the whole world, please."}]
WEATHER: ToolParam = {
    "name": "weather",
    "description": "Tells the weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@pytest.fixture(scope="module")
def client(lane: Any) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=lane.url, api_key="none", max_retries=0) as made:
        yield made


def scripted(**script: Any) -> list[MessageParam]:
    return [{"role": "user", "content": f"[[stub: {json.dumps(script)}]]"}]


def text_of(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def test_a_whole_message_with_usage(client: anthropic.Anthropic) -> None:
    message = client.messages.create(model="m", max_tokens=20, messages=HELLO, extra_body=GREEDY)
    assert message.role == "assistant"
    assert text_of(message)
    assert message.stop_reason in {"end_turn", "max_tokens"}
    assert message.usage.output_tokens > 0
    assert message._request_id


def test_a_stream_adds_up_to_the_whole_message(client: anthropic.Anthropic) -> None:
    whole = client.messages.create(model="m", max_tokens=20, messages=HELLO, extra_body=GREEDY)
    with client.messages.stream(model="m", max_tokens=20, messages=HELLO, extra_body=GREEDY) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == text_of(final) == text_of(whole)
    assert final.usage.output_tokens == whole.usage.output_tokens
    assert final.stop_reason == whole.stop_reason


def test_counted_tokens_agree_with_usage(client: anthropic.Anthropic) -> None:
    system = "You are brief."
    counted = client.messages.count_tokens(model="m", messages=HELLO, system=system)
    message = client.messages.create(model="m", max_tokens=1, messages=HELLO, system=system)
    used = message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0)
    assert abs(counted.input_tokens - used) <= 2


def test_max_tokens_is_said(client: anthropic.Anthropic) -> None:
    message = client.messages.create(model="m", max_tokens=2, messages=HELLO)
    assert (message.stop_reason, message.usage.output_tokens) == ("max_tokens", 2)


def test_the_stop_sequence_that_was_met_is_named(client: anthropic.Anthropic) -> None:
    whole = text_of(client.messages.create(model="m", max_tokens=20, messages=HELLO, extra_body=GREEDY))
    word = whole[2:5]
    cut = client.messages.create(
        model="m", max_tokens=20, messages=HELLO, extra_body=GREEDY, stop_sequences=["never-there", word]
    )
    assert (cut.stop_reason, cut.stop_sequence) == ("stop_sequence", word)
    assert text_of(cut) == whole[: whole.index(word)]
    assert cut.usage.output_tokens > 0


def test_a_conversation_with_system_images_refused_and_prefill(client: anthropic.Anthropic) -> None:
    history: list[MessageParam] = [*HELLO, {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "?"}]
    message = client.messages.create(
        model="m", max_tokens=5, messages=history, system=[{"type": "text", "text": "Be brief."}]
    )
    assert message.usage.output_tokens > 0
    picture: Any = {"type": "image", "source": {"type": "url", "url": "https://example.com/x.png"}}
    with pytest.raises(anthropic.BadRequestError, match="cannot see"):
        client.messages.create(model="m", max_tokens=5, messages=[{"role": "user", "content": [picture]}])


def test_errors_are_the_clients_own(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError, match="not found") as missing:
        client.messages.create(model="nobody", max_tokens=5, messages=HELLO)
    assert missing.value.request_id
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: [0-9]+ tokens > [0-9]+ maximum"):
        client.messages.create(model="m", max_tokens=5, messages=[{"role": "user", "content": "word " * 5000}])
    with (
        pytest.raises(anthropic.BadRequestError, match="prompt is too long"),
        client.messages.stream(
            model="m", max_tokens=5, messages=[{"role": "user", "content": "word " * 5000}]
        ) as stream,
    ):
        stream.get_final_message()


def test_models_are_listed_and_retrieved(client: anthropic.Anthropic) -> None:
    assert [model.id for model in client.models.list(limit=1)] == ["m"]
    assert client.models.retrieve("m").display_name == "m"


def test_a_forced_tool_is_called(client: anthropic.Anthropic, lane: Any) -> None:
    if lane.kind == "real":
        # 135 million parameters follow no schema unless the engine makes them; the whole way is what is shown here.
        message = client.messages.create(
            model="m", max_tokens=200, messages=HELLO, tools=[WEATHER], tool_choice={"type": "any"}, extra_body=GREEDY
        )
        assert message.stop_reason in {"tool_use", "end_turn", "max_tokens"}
        return
    message = client.messages.create(
        model="m", max_tokens=99, messages=HELLO, tools=[WEATHER], tool_choice={"type": "tool", "name": "weather"}
    )
    [call] = [block for block in message.content if block.type == "tool_use"]
    assert call.name == "weather"
    assert isinstance(call.input, dict)
    assert message.stop_reason == "tool_use"
    answer = client.messages.create(
        model="m",
        max_tokens=5,
        tools=[WEATHER],
        messages=[
            *HELLO,
            {"role": "assistant", "content": message.content},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}]},
        ],
    )
    assert answer.content


def test_parallel_calls_after_thinking_through_the_accumulator(client: anthropic.Anthropic, lane: Any) -> None:
    if lane.kind == "real":
        return
    calls = [{"index": 0, "id": f"call_{city}", "name": "weather", "arguments": {"city": city}} for city in "ab"]
    messages = scripted(reasoning="hm", tool_calls=calls)
    with client.messages.stream(model="m", max_tokens=99, messages=messages, tools=[WEATHER]) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_message()
    assert kinds[0] == "message_start"
    assert [block.type for block in final.content] == ["thinking", "tool_use", "tool_use"]
    assert [block.input for block in final.content if block.type == "tool_use"] == [{"city": "a"}, {"city": "b"}]
    assert final.stop_reason == "tool_use"


def test_an_engine_that_breaks_off_raises(client: anthropic.Anthropic, lane: Any) -> None:
    if lane.kind == "real":
        return
    messages = scripted(text="one two three four five six", close_after_tokens=3)
    with (
        pytest.raises(anthropic.APIStatusError),
        client.messages.stream(model="m", max_tokens=99, messages=messages) as stream,
    ):
        stream.get_final_message()
