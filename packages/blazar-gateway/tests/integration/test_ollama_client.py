"""The official client of Ollama, on the stub and on the real engine."""

import json
from collections.abc import Iterator
from typing import Any

import ollama
import pytest

HELLO = [{"role": "user", "content": "Say hello to the whole world, please."}]
GREEDY = {"temperature": 0, "num_predict": 16}


@pytest.fixture(scope="module")
def client(lane: Any) -> Iterator[ollama.Client]:
    made = ollama.Client(host=lane.url)
    yield made
    made._client.close()  # the client has no public way to end it


def scripted(**script: Any) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"[[stub: {json.dumps(script)}]]"}]


def weather(city: str) -> str:
    """Tell the weather.

    Args:
        city: Of which city.

    Returns:
        A word.
    """
    return f"sunny in {city}"


def test_a_whole_answer_and_the_stream_are_the_same(client: ollama.Client) -> None:
    whole = client.chat(model="m", messages=HELLO, options=GREEDY)
    parts = list(client.chat(model="m", messages=HELLO, options=GREEDY, stream=True))
    assert whole.message.content
    assert "".join(part.message.content or "" for part in parts) == whole.message.content
    assert (parts[-1].done, parts[-1].done_reason) == (True, whole.done_reason)
    assert parts[-1].eval_count == whole.eval_count
    assert whole.total_duration is not None
    assert whole.total_duration > 0


def test_generate_goes_on_from_its_context(client: ollama.Client) -> None:
    first = client.generate(model="m", prompt="Name a colour.", options=GREEDY)
    assert first.response
    assert first.context
    again = client.generate(model="m", prompt="Another one.", context=first.context, options=GREEDY)
    assert again.context
    assert list(again.context[: len(first.context)]) == list(first.context)
    assert (again.prompt_eval_count or 0) >= len(first.context)


def test_raw_goes_without_a_template(client: ollama.Client) -> None:
    raw = client.generate(model="m", prompt="Once upon a time", raw=True, options=GREEDY)
    assert raw.response
    assert raw.context is None
    streamed = client.generate(model="m", prompt="Once upon a time", raw=True, options=GREEDY, stream=True)
    assert "".join(part.response or "" for part in streamed) == raw.response


def test_a_form_is_kept_to(client: ollama.Client, lane: Any) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    messages = HELLO if lane.kind == "real" else scripted(text='{"name": "x"}')
    for form in ("json", schema):
        answer = client.chat(model="m", messages=messages, format=form, options={"temperature": 0, "num_predict": 200})
        if answer.done_reason == "stop":
            assert isinstance(json.loads(answer.message.content or ""), dict)


def test_loading_and_unloading_say_so(client: ollama.Client) -> None:
    assert client.generate(model="m").done_reason == "load"
    assert client.chat(model="m").done_reason == "load"
    assert client.generate(model="m", keep_alive=0).done_reason == "unload"


def test_listings(client: ollama.Client, lane: Any) -> None:
    [row] = client.list().models
    assert row.model == "m"
    shown = client.show("m")
    assert shown.modelinfo
    assert shown.modelinfo["llama.context_length"] == 8192
    assert shown.capabilities == ["completion", "tools"]
    [loaded] = client.ps().models
    assert loaded.context_length == 2048


def test_rows_are_copied_created_and_deleted_through_the_registry(client: ollama.Client, lane: Any) -> None:
    assert client.copy("m", "second").status == "success"
    assert client.create(model="mine", from_="m", system="Be brief.").status == "success"
    assert [part.status for part in client.create(model="mine", from_="m", stream=True)][-1] == "success"
    assert client.delete("m").status == "success"
    assert lane.registry.copied == [("m", "second")]
    assert (lane.registry.created[0].name, lane.registry.created[0].system) == ("mine", "Be brief.")
    assert lane.registry.deleted == ["m"]


def test_errors_are_the_clients_own(client: ollama.Client) -> None:
    with pytest.raises(ollama.ResponseError, match="not found") as missing:
        client.chat(model="nobody", messages=HELLO)
    assert missing.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="does not support thinking"):
        client.chat(model="m", messages=HELLO, think=True)
    with pytest.raises(ollama.ResponseError, match="never uploads"):
        client.push("m")
    with pytest.raises(ollama.ResponseError, match="blazar models add"):
        client.pull("nobody")
    with pytest.raises(ollama.ResponseError, match="does not support embeddings"):
        client.embed(model="m", input="x")
    with pytest.raises(ollama.ResponseError, match="context"):
        client.chat(model="m", messages=[{"role": "user", "content": "word " * 5000}])


def test_a_context_that_is_not_served_is_refused_and_a_smaller_one_taken(client: ollama.Client) -> None:
    assert client.chat(model="m", messages=HELLO, options={**GREEDY, "num_ctx": 1024}).message.content
    assert client.chat(model="m", messages=HELLO, options={**GREEDY, "num_ctx": 9003}).message.content
    with pytest.raises(ollama.ResponseError, match="num_ctx is 9003"):
        client.chat(model="m", messages=HELLO, options={"num_ctx": 9003, "num_predict": 4000})


async def test_the_asynchronous_client_streams(lane: Any) -> None:
    client = ollama.AsyncClient(host=lane.url)
    parts = [part async for part in await client.chat(model="m", messages=HELLO, options=GREEDY, stream=True)]
    assert parts[-1].done
    await client._client.aclose()  # the client has no public way to end it


def test_tools_are_called_with_objects(client: ollama.Client, lane: Any) -> None:
    if lane.kind == "real":
        return
    calls = [{"index": 0, "name": "weather", "arguments": {"city": city}} for city in ("Rome", "Oslo")]
    made: list[Any] = []
    for stream in (False, True):
        answers: Any = client.chat(model="m", messages=scripted(tool_calls=calls), tools=[weather], stream=stream)
        made = [call for part in (answers if stream else [answers]) for call in part.message.tool_calls or ()]
        assert [weather(**call.function.arguments) for call in made] == ["sunny in Rome", "sunny in Oslo"]
    history: list[dict[str, Any]] = [
        *HELLO,
        {"role": "assistant", "content": "", "tool_calls": [call.model_dump() for call in made]},
    ]
    history += [{"role": "tool", "content": "sunny", "tool_name": "weather"}] * 2
    assert client.chat(model="m", messages=history).message.content


def test_a_stream_that_breaks_raises(client: ollama.Client, lane: Any) -> None:
    if lane.kind == "real":
        return
    with pytest.raises(ollama.ResponseError):
        list(client.chat(model="m", messages=scripted(text="one two three four", close_after_tokens=2), stream=True))
