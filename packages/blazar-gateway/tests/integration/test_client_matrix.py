"""What the official clients can do, each with what it offers, on the stub and on the stock engine.

`scripts/client_matrix` prints the counts. Of a real model only that is asserted which it cannot vary.
"""

import json
from collections.abc import Callable
from typing import Any

import anthropic
import ollama
import openai
import pytest

Feature = Callable[[Any, Any], None]
MATRIX: dict[tuple[str, str], Feature] = {}

ASK = "Say hello."
HI: list[Any] = [{"role": "user", "content": ASK}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION: Any = {"type": "function", "function": {"name": "weather", "description": "d", "parameters": PARAMETERS}}
FLAT: Any = {"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": False}
TOOL: Any = {"name": "weather", "description": "d", "input_schema": PARAMETERS}
FEW = 6
MAKES_A_CALL = {"tool_calls": [{"name": "weather", "arguments": {"city": "Rome"}}]}


def scripted(script: Any) -> list[Any]:
    return [{"role": "user", "content": f"[[stub: {json.dumps(script)}]]"}]


def feature(client: str) -> Callable[[Feature], Feature]:
    """Enter a function into the matrix under a client and its own name."""

    def enter(function: Feature) -> Feature:
        MATRIX[client, function.__name__.removeprefix(f"{client}_").replace("_", " ")] = function
        return function

    return enter


def has_text(text: str | None, lane: Any) -> None:
    assert text is not None
    if lane.kind == "stub":
        assert text


# --- OpenAI: chat ----------------------------------------------------------------------------------------------------


@feature("chat")
def chat_whole(client: openai.OpenAI, lane: Any) -> None:
    made = client.chat.completions.create(model="m", messages=HI, max_completion_tokens=FEW)
    has_text(made.choices[0].message.content, lane)
    assert made.usage is not None
    assert made.usage.total_tokens == made.usage.prompt_tokens + made.usage.completion_tokens
    assert made.model == "m"
    assert made._request_id


@feature("chat")
def chat_stream(client: openai.OpenAI, lane: Any) -> None:
    chunks = list(client.chat.completions.create(model="m", messages=HI, max_tokens=FEW, stream=True))
    assert all(chunk.choices for chunk in chunks)
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    assert chunks[-1].choices[0].finish_reason in {"stop", "length"}
    has_text("".join(chunk.choices[0].delta.content or "" for chunk in chunks), lane)


@feature("chat")
def chat_stream_with_usage(client: openai.OpenAI, lane: Any) -> None:
    options: Any = {"include_usage": True}
    stream = client.chat.completions.create(model="m", messages=HI, max_tokens=FEW, stream=True, stream_options=options)
    *_, last = list(stream)
    assert last.choices == []
    assert last.usage is not None
    assert 0 < last.usage.completion_tokens <= FEW


@feature("chat")
def chat_stream_helper(client: openai.OpenAI, lane: Any) -> None:
    limit: Any = {} if lane.kind == "stub" else {"stop": ["e"], "max_tokens": 64}
    try:
        with client.chat.completions.stream(model="m", messages=HI, **limit) as stream:
            stream.until_done()
            assert stream.get_final_completion().choices[0].finish_reason == "stop"
    except openai.LengthFinishReasonError:
        assert lane.kind == "real"


@feature("chat")
def chat_calls_a_tool(client: openai.OpenAI, lane: Any) -> None:
    turns = scripted(MAKES_A_CALL) if lane.kind == "stub" else HI
    made = client.chat.completions.create(model="m", messages=turns, tools=[FUNCTION], max_tokens=64)
    if lane.kind == "stub":
        assert made.choices[0].finish_reason == "tool_calls"
        [call] = made.choices[0].message.tool_calls or []
        assert isinstance(call, openai.types.chat.ChatCompletionMessageFunctionToolCall)
        assert json.loads(call.function.arguments) == {"city": "Rome"}


@feature("chat")
def chat_goes_on_after_a_tool(client: openai.OpenAI, lane: Any) -> None:
    call: Any = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}}
    turns: list[Any] = [
        *HI,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "sunny"}]},
    ]
    made = client.chat.completions.create(model="m", messages=turns, tools=[FUNCTION], max_tokens=FEW)
    has_text(made.choices[0].message.content, lane)


@feature("chat")
def chat_json_object(client: openai.OpenAI, lane: Any) -> None:
    made = client.chat.completions.create(
        model="m", messages=HI, max_tokens=FEW, response_format={"type": "json_object"}
    )
    if lane.kind == "real":
        assert (made.choices[0].message.content or "{").lstrip().startswith("{")


@feature("chat")
def chat_json_schema(client: openai.OpenAI, lane: Any) -> None:
    form: Any = {"type": "json_schema", "json_schema": {"name": "place", "schema": PARAMETERS, "strict": True}}
    made = client.chat.completions.create(model="m", messages=HI, max_tokens=FEW, response_format=form)
    if lane.kind == "real":
        assert (made.choices[0].message.content or "{").lstrip().startswith("{")


@feature("chat")
def chat_logprobs(client: openai.OpenAI, lane: Any) -> None:
    # At temperature 0 and with several tokens, since an engine says nothing of half a character.
    made = client.chat.completions.create(
        model="m", messages=HI, max_tokens=FEW, temperature=0, logprobs=True, top_logprobs=2
    )
    logprobs = made.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content
    assert len(logprobs.content[0].top_logprobs) == 2


@feature("chat")
def chat_two_choices(client: openai.OpenAI, lane: Any) -> None:
    made = client.chat.completions.create(model="m", messages=HI, max_tokens=2, n=2, extra_body={"ignore_eos": True})
    assert [choice.index for choice in made.choices] == [0, 1]
    assert made.usage is not None
    assert made.usage.completion_tokens == 4


@feature("chat")
def chat_stop(client: openai.OpenAI, lane: Any) -> None:
    made = client.chat.completions.create(model="m", messages=HI, max_tokens=32, stop=["e", "o"])
    assert not set("eo") & set(made.choices[0].message.content or "")


@feature("chat")
def chat_developer_and_parts(client: openai.OpenAI, lane: Any) -> None:
    turns: list[Any] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": ASK}, {"type": "text", "text": "Please."}]},
    ]
    made = client.chat.completions.create(model="m", messages=turns, max_tokens=FEW, seed=1, store=True, user="u")
    has_text(made.choices[0].message.content, lane)


@feature("chat")
def chat_errors(client: openai.OpenAI, lane: Any) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="nobody", messages=HI)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as malformed:
        client.chat.completions.create(model="m", messages=[])
    assert malformed.value.param == "messages"
    image: Any = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with pytest.raises(openai.BadRequestError, match="cannot see"):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": [image]}])
    with pytest.raises(openai.NotFoundError) as unsupported:
        client.moderations.create(input="x")
    assert unsupported.value.code == "unsupported_endpoint"


@feature("chat")
def chat_a_prompt_that_is_too_long(client: openai.OpenAI, lane: Any) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "word " * 5000}])
    assert refused.value.code == "context_length_exceeded"


@feature("chat")
def chat_models(client: openai.OpenAI, lane: Any) -> None:
    assert [model.id for model in client.models.list()] == ["m"]
    assert client.models.retrieve("m").object == "model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("own/repo:Q4")


# --- OpenAI: text completions ----------------------------------------------------------------------------------------


@feature("completions")
def completions_whole(client: openai.OpenAI, lane: Any) -> None:
    made = client.completions.create(model="m", prompt="Once", max_tokens=FEW)
    assert made.object == "text_completion"
    has_text(made.choices[0].text, lane)


@feature("completions")
def completions_stream(client: openai.OpenAI, lane: Any) -> None:
    chunks = list(client.completions.create(model="m", prompt="Once", max_tokens=FEW, stream=True))
    assert chunks[-1].choices[0].finish_reason in {"stop", "length"}
    has_text("".join(chunk.choices[0].text for chunk in chunks), lane)


@feature("completions")
def completions_echo_and_logprobs(client: openai.OpenAI, lane: Any) -> None:
    made = client.completions.create(model="m", prompt="Once", max_tokens=2, echo=True, logprobs=2)
    assert made.choices[0].text.startswith("Once")
    assert made.choices[0].logprobs is not None
    assert made.choices[0].logprobs.text_offset


@feature("completions")
def completions_several_prompts(client: openai.OpenAI, lane: Any) -> None:
    made = client.completions.create(model="m", prompt=["One", "Two"], max_tokens=2, echo=True)
    assert [choice.text[:3] for choice in made.choices] == ["One", "Two"]


@feature("completions")
def completions_tokens(client: openai.OpenAI, lane: Any) -> None:
    made = client.completions.create(model="m", prompt=[65, 66, 67], max_tokens=1, best_of=1)
    assert made.usage is not None
    assert made.usage.prompt_tokens >= 3


# --- OpenAI: responses -----------------------------------------------------------------------------------------------


@feature("responses")
def responses_whole(client: openai.OpenAI, lane: Any) -> None:
    made = client.responses.create(model="m", input=ASK, max_output_tokens=FEW, store=False)
    assert made.status in {"completed", "incomplete"}
    has_text(made.output_text, lane)
    assert made.usage is not None
    assert made.usage.output_tokens_details.reasoning_tokens == 0


@feature("responses")
def responses_stream(client: openai.OpenAI, lane: Any) -> None:
    events = list(client.responses.create(model="m", input=ASK, max_output_tokens=FEW, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].type in {"response.completed", "response.incomplete"}


@feature("responses")
def responses_conversation(client: openai.OpenAI, lane: Any) -> None:
    first = client.responses.create(model="m", input=ASK, max_output_tokens=FEW)
    second = client.responses.create(
        model="m", input="And then?", previous_response_id=first.id, max_output_tokens=FEW, instructions="Be brief."
    )
    assert second.previous_response_id == first.id
    assert client.responses.retrieve(first.id).id == first.id
    assert client.responses.input_items.list(first.id).data
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)


@feature("responses")
def responses_calls_a_tool(client: openai.OpenAI, lane: Any) -> None:
    asked: Any = scripted(MAKES_A_CALL) if lane.kind == "stub" else HI
    tools: list[Any] = [FLAT, {"type": "web_search"}]
    made = client.responses.create(model="m", input=asked, tools=tools, max_output_tokens=64, store=False)
    if lane.kind == "stub":
        [call] = [item for item in made.output if item.type == "function_call"]
        assert json.loads(call.arguments) == {"city": "Rome"}


@feature("responses")
def responses_goes_on_after_a_tool(client: openai.OpenAI, lane: Any) -> None:
    items: list[Any] = [
        *HI,
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city":"Rome"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
    ]
    made = client.responses.create(model="m", input=items, tools=[FLAT], max_output_tokens=FEW, store=False)
    has_text(made.output_text, lane)


@feature("responses")
def responses_form(client: openai.OpenAI, lane: Any) -> None:
    text: Any = {"format": {"type": "json_schema", "name": "place", "schema": PARAMETERS, "strict": True}}
    made = client.responses.create(model="m", input=ASK, text=text, max_output_tokens=FEW, store=False)
    if lane.kind == "real":
        assert (made.output_text or "{").lstrip().startswith("{")


# --- Anthropic -------------------------------------------------------------------------------------------------------


@feature("messages")
def messages_whole(client: anthropic.Anthropic, lane: Any) -> None:
    made = client.messages.create(model="m", max_tokens=FEW, messages=HI)
    assert made.stop_reason in {"end_turn", "max_tokens"}
    assert made._request_id
    has_text("".join(block.text for block in made.content if block.type == "text"), lane)


@feature("messages")
def messages_stream_helper(client: anthropic.Anthropic, lane: Any) -> None:
    with client.messages.stream(model="m", max_tokens=FEW, messages=HI) as stream:
        has_text("".join(stream.text_stream), lane)
        assert 0 < stream.get_final_message().usage.output_tokens <= FEW


@feature("messages")
def messages_system_and_cache_control(client: anthropic.Anthropic, lane: Any) -> None:
    system: Any = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    turns: list[Any] = [*HI, {"role": "system", "content": "Be kind."}, *HI]
    made = client.beta.messages.create(model="m", max_tokens=FEW, system=system, messages=turns, betas=["invented"])
    assert made.usage.input_tokens + (made.usage.cache_read_input_tokens or 0) > 0


@feature("messages")
def messages_calls_a_tool(client: anthropic.Anthropic, lane: Any) -> None:
    turns = scripted(MAKES_A_CALL) if lane.kind == "stub" else HI
    with client.messages.stream(model="m", max_tokens=64, messages=turns, tools=[TOOL]) as stream:
        made = stream.get_final_message()
    if lane.kind == "stub":
        assert made.stop_reason == "tool_use"
        [block] = [block for block in made.content if block.type == "tool_use"]
        assert block.input == {"city": "Rome"}


@feature("messages")
def messages_goes_on_after_a_tool(client: anthropic.Anthropic, lane: Any) -> None:
    use: Any = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome"}}
    result: Any = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "sunny"}]}
    turns: list[Any] = [*HI, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    made = client.messages.create(model="m", max_tokens=FEW, messages=turns, tools=[TOOL])
    has_text("".join(block.text for block in made.content if block.type == "text"), lane)


@feature("messages")
def messages_stop_sequence(client: anthropic.Anthropic, lane: Any) -> None:
    made = client.messages.create(model="m", max_tokens=64, messages=HI, stop_sequences=["e", "o"])
    text = "".join(block.text for block in made.content if block.type == "text")
    assert not set("eo") & set(text)
    if lane.kind == "stub":
        assert (made.stop_reason, made.stop_sequence) == ("stop_sequence", "o")


@feature("messages")
def messages_adaptive_thinking(client: anthropic.Anthropic, lane: Any) -> None:
    thinking: Any = {"type": "adaptive"}
    made = client.messages.create(model="m", max_tokens=FEW, messages=HI, thinking=thinking)
    assert made.type == "message"


@feature("messages")
def messages_counted(client: anthropic.Anthropic, lane: Any) -> None:
    counted = client.messages.count_tokens(model="m", messages=HI, system="Be brief. " * 9, tools=[TOOL])
    # A system prompt of its own, since templates have one for those that bring none.
    plain = client.messages.count_tokens(model="m", messages=HI, system="Be brief.")
    assert counted.input_tokens > plain.input_tokens > 0


@feature("messages")
def messages_models_and_errors(client: anthropic.Anthropic, lane: Any) -> None:
    assert [model.id for model in client.models.list()] == ["m"]
    assert client.models.retrieve("m").type == "model"
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(model="nobody", max_tokens=1, messages=HI)
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long: "):
        client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "word " * 5000}])
    budget: Any = {"type": "enabled", "budget_tokens": 2048}
    with pytest.raises(anthropic.BadRequestError, match="budget_tokens"):
        client.messages.create(model="m", max_tokens=1024, messages=HI, thinking=budget)


# --- Ollama ----------------------------------------------------------------------------------------------------------

SHORT = {"num_predict": FEW}


@feature("ollama")
def ollama_chat(client: ollama.Client, lane: Any) -> None:
    made = client.chat("m", messages=HI, options=SHORT)
    has_text(made.message.content, lane)
    assert made.done
    assert made.done_reason in {"stop", "length"}
    assert (made.total_duration or 0) > 0


@feature("ollama")
def ollama_chat_stream(client: ollama.Client, lane: Any) -> None:
    lines = list(client.chat("m", messages=HI, options=SHORT, stream=True))
    assert [line.done for line in lines] == [False] * (len(lines) - 1) + [True]
    has_text("".join(line.message.content or "" for line in lines), lane)


@feature("ollama")
def ollama_generate(client: ollama.Client, lane: Any) -> None:
    made = client.generate("m", prompt=ASK, system="Be brief.", options=SHORT)
    has_text(made.response, lane)
    again = client.generate("m", prompt="More.", context=made.context, options=SHORT)
    assert len(again.context or ()) > len(made.context or ())


@feature("ollama")
def ollama_generate_raw_stream(client: ollama.Client, lane: Any) -> None:
    lines = list(client.generate("m", prompt="Once", raw=True, options=SHORT, stream=True))
    assert lines[-1].done
    assert lines[-1].context is None


@feature("ollama")
def ollama_forms(client: ollama.Client, lane: Any) -> None:
    for form in ("json", PARAMETERS):
        made = client.chat("m", messages=HI, format=form, options=SHORT)
        if lane.kind == "real":
            assert (made.message.content or "{").lstrip().startswith("{")


@feature("ollama")
def ollama_calls_a_tool(client: ollama.Client, lane: Any) -> None:
    turns = scripted(MAKES_A_CALL) if lane.kind == "stub" else HI
    made = client.chat("m", messages=turns, tools=[FUNCTION], options={"num_predict": 64})
    if lane.kind == "stub":
        [call] = made.message.tool_calls or []
        assert call.function.arguments == {"city": "Rome"}


@feature("ollama")
def ollama_goes_on_after_a_tool(client: ollama.Client, lane: Any) -> None:
    turns: list[Any] = [
        *HI,
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "weather", "arguments": {}}}]},
        {"role": "tool", "tool_name": "weather", "content": "sunny"},
    ]
    has_text(client.chat("m", messages=turns, options=SHORT).message.content, lane)


@feature("ollama")
def ollama_loads_and_unloads(client: ollama.Client, lane: Any) -> None:
    assert client.generate("m", keep_alive="5m").done_reason == "load"
    assert client.chat("m", keep_alive=0).done_reason == "unload"


@feature("ollama")
def ollama_listings(client: ollama.Client, lane: Any) -> None:
    assert [model.model for model in client.list().models] == ["m"]
    assert [model.model for model in client.ps().models] == ["m"]
    assert client.show("m").modelinfo


@feature("ollama")
def ollama_errors(client: ollama.Client, lane: Any) -> None:
    with pytest.raises(ollama.ResponseError, match="not found") as missing:
        client.chat("nobody", messages=HI)
    assert missing.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="does not support thinking"):
        client.chat("m", messages=HI, think=True)
    with pytest.raises(ollama.ResponseError, match="prompt is too long"):
        client.generate("m", prompt="word " * 5000)


# --- All of them -----------------------------------------------------------------------------------------------------


def make_client(name: str, url: str) -> Any:
    if name == "ollama":
        return ollama.Client(host=url)
    if name == "messages":
        return anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


@pytest.mark.parametrize(("client", "name"), [pytest.param(*key, id=": ".join(key)) for key in MATRIX])
def test_client(lane: Any, client: str, name: str) -> None:
    made = make_client(client, lane.url)
    try:
        MATRIX[client, name](made, lane)
    finally:
        close = getattr(made, "close", None)
        if close is not None:
            close()
