"""The official client of OpenAI with the Responses API, on the stub and on the real engine."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

ASK = "Say hello to the whole world, please."
WEATHER: Any = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}


@pytest.fixture(scope="module")
def client(lane: Any) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{lane.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def scripted(**script: Any) -> str:
    return f"[[stub: {json.dumps(script)}]]"


def test_a_whole_response_and_the_helpers_stream_are_the_same(client: openai.OpenAI, lane: Any) -> None:
    # The helper knows no end but `response.completed`, which a real model of this size may never come to by itself.
    limit: Any = {"max_output_tokens": 16} if lane.kind == "real" else {}
    whole = client.responses.create(model="m", input=ASK, temperature=0, **limit)
    with client.responses.stream(model="m", input=ASK, temperature=0, **limit) as stream:
        events: list[Any] = list(stream)
        final = events[-1].response if lane.kind == "real" else stream.get_final_response()
    assert whole.output_text
    assert final.output_text == whole.output_text
    assert events[0].type == "response.created"
    assert final.usage is not None
    assert whole.usage is not None
    assert final.usage.output_tokens == whole.usage.output_tokens
    assert whole.status in {"completed", "incomplete"}


def test_a_conversation_goes_on_by_id(client: openai.OpenAI) -> None:
    first = client.responses.create(model="m", input="My name is Ada.", max_output_tokens=16)
    second = client.responses.create(
        model="m", input="What is my name?", previous_response_id=first.id, max_output_tokens=16
    )
    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.input_tokens > first.usage.input_tokens + first.usage.output_tokens
    assert second.previous_response_id == first.id


def test_a_response_is_retrieved_listed_and_deleted(client: openai.OpenAI) -> None:
    made = client.responses.create(model="m", input=ASK, max_output_tokens=16)
    assert client.responses.retrieve(made.id).output_text == made.output_text
    [item] = client.responses.input_items.list(made.id).data
    assert item.type == "message"
    client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="m", input=ASK, previous_response_id=made.id)
    assert refused.value.code == "previous_response_not_found"


def test_what_is_not_to_be_stored_is_not(client: openai.OpenAI) -> None:
    made = client.responses.create(model="m", input=ASK, max_output_tokens=16, store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)


def test_input_tokens_agree_with_usage(client: openai.OpenAI) -> None:
    counted = client.responses.input_tokens.count(model="m", input=ASK, instructions="Be brief.")
    made = client.responses.create(model="m", input=ASK, instructions="Be brief.", max_output_tokens=16)
    assert made.usage is not None
    assert abs(counted.input_tokens - made.usage.input_tokens) <= 2


def test_a_cut_answer_is_incomplete(client: openai.OpenAI) -> None:
    made = client.responses.create(model="m", input=ASK, max_output_tokens=1)
    assert made.status == "incomplete"
    assert made.incomplete_details is not None
    assert made.incomplete_details.reason == "max_output_tokens"


def test_errors_are_the_clients_own(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.responses.create(model="nobody", input=ASK)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as too_long:
        client.responses.create(model="m", input="word " * 5000)
    assert too_long.value.code == "context_length_exceeded"


def test_functions_are_called_and_answered(client: openai.OpenAI, lane: Any) -> None:
    if lane.kind == "real":
        return
    calls = [{"index": 0, "id": f"call_{city}", "name": "weather", "arguments": {"city": city}} for city in "ab"]
    ask = scripted(reasoning="hm", tool_calls=calls)
    with client.responses.stream(model="m", input=ask, tools=[WEATHER]) as stream:
        for _ in stream:
            pass
        final = stream.get_final_response()
    assert [item.type for item in final.output] == ["reasoning", "function_call", "function_call"]
    made = [item for item in final.output if item.type == "function_call"]
    assert [json.loads(item.arguments) for item in made] == [{"city": "a"}, {"city": "b"}]
    outputs: Any = [{"type": "function_call_output", "call_id": item.call_id, "output": "sunny"} for item in made]
    after = client.responses.create(model="m", input=outputs, previous_response_id=final.id, tools=[WEATHER])
    assert after.status == "completed"


def test_an_engine_that_breaks_off_fails_the_response(client: openai.OpenAI, lane: Any) -> None:
    if lane.kind == "real":
        return
    ask = scripted(text="one two three four five six", close_after_tokens=3)
    events = list(client.responses.create(model="m", input=ask, stream=True))
    assert events[-1].type == "response.failed"
