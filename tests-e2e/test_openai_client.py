"""The official client of OpenAI talks to the daemon unchanged."""

import json
from typing import Any

import openai
import pytest

from blazar_stubs import StubModel
from e2e.served import Served


@pytest.fixture(scope="module")
def model(shared: Served) -> StubModel:
    return shared.add_model("m", tools=True)


@pytest.fixture(scope="module")
def client(shared: Served, model: StubModel) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{shared.daemon.url}/v1", api_key="none", max_retries=0)


def scripted(**script: Any) -> list[Any]:
    return [{"role": "user", "content": f"[[stub: {json.dumps(script)}]]"}]


@pytest.mark.promise("client:openai")
def test_a_whole_answer(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="m", messages=scripted(text="hello there"))
    assert answer.choices[0].message.content == "hello there"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == "m"
    assert answer.usage
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


@pytest.mark.promise("client:openai")
def test_a_stream_with_usage(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="m", messages=scripted(text="hello there"), stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "hello there"
    assert chunks[-1].usage


@pytest.mark.promise("client:openai")
def test_tool_calls(client: openai.OpenAI) -> None:
    calls = [{"name": "weather", "arguments": {"city": city}, "id": city} for city in ("Rome", "Oslo")]
    answer = client.chat.completions.create(model="m", messages=scripted(tool_calls=calls, finish_reason="tool_calls"))
    assert answer.choices[0].finish_reason == "tool_calls"
    made = answer.choices[0].message.tool_calls
    assert made
    functions = [call.function for call in made if call.type == "function"]
    assert [json.loads(function.arguments)["city"] for function in functions] == ["Rome", "Oslo"]


@pytest.mark.promise("client:openai")
def test_models_are_listed(client: openai.OpenAI) -> None:
    assert "m" in [model.id for model in client.models.list()]


@pytest.mark.promise("client:openai")
def test_a_refusal_is_the_client_s_own_exception_with_the_text(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        client.chat.completions.create(model="nobody", messages=scripted(text="x"))
    assert refused.value.code == "model_not_found"
    assert "blazar models list" in refused.value.message
