"""Real models on a stock llama-server answer through the daemon."""

import json
from typing import Any

import openai
import pytest

from e2e.served import Served

SMOLLM2, TINY, TOOLS = "smollm2", "tiny", "tiny-tools"
COUNTED = "one two three four five six seven eight nine ten"
FIRM = {"temperature": 0, "seed": 1, "max_tokens": 24}


@pytest.fixture(scope="session")
def client(real: Served) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{real.daemon.url}/v1", api_key="none", max_retries=0, timeout=300)


@pytest.mark.promise("real:answers")
def test_a_chat_model_answers_the_official_client(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=SMOLLM2,
        messages=[{"role": "user", "content": "What is the capital of France? Answer in one word."}],
        temperature=0,
        max_tokens=16,
    )
    assert "Paris" in (answer.choices[0].message.content or "")
    assert answer.model == SMOLLM2
    assert answer.usage
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


@pytest.mark.promise("real:answers")
def test_a_stream_says_the_same_as_a_whole_answer(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "Name three colours."}]
    asked: Any = {"model": SMOLLM2, "messages": messages, **FIRM}
    whole = client.chat.completions.create(**asked)
    chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert text.strip()
    assert chunks[-1].usage
    assert whole.usage
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    finishes = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices and chunk.choices[0].finish_reason]
    assert finishes == [whole.choices[0].finish_reason]


@pytest.mark.promise("real:answers")
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_model_made_by_our_own_writer_says_what_is_in_it(real: Served, stream: bool) -> None:
    answer = real.client.chat(TINY, stream=stream)
    assert answer.status == 200
    assert answer.content() == COUNTED


@pytest.mark.promise("real:answers")
def test_run_answers_on_the_command_line(real: Served) -> None:
    assert real.home.ok("run", TINY, "count").strip() == COUNTED


@pytest.mark.promise("stream:usage-when-asked")
@pytest.mark.parametrize(
    ("options", "asked"),
    [
        pytest.param({}, False, id="absent"),
        pytest.param({"stream_options": None}, False, id="null"),
        pytest.param({"stream_options": {"include_usage": False}}, False, id="false"),
        pytest.param({"stream_options": {"include_usage": True}}, True, id="true"),
    ],
)
def test_the_usage_frame_comes_exactly_when_it_was_asked_for(
    real: Served, options: dict[str, Any], asked: bool
) -> None:
    *events, done = real.client.chat(TINY, stream=True, **options).events()
    assert done == "[DONE]"
    with_usage = [event for event in events if event.get("usage")]
    assert len(with_usage) == (1 if asked else 0)
    if asked:
        assert with_usage == [events[-1]]
        assert events[-1]["choices"] == []
    # The engine's own timings stay, wherever it puts them.
    assert "timings" in events[-1]


@pytest.mark.promise("stream:usage-when-asked")
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_several_choices_are_counted_together(real: Served, stream: bool) -> None:
    alone = real.client.chat(TINY).json()["usage"]
    answer = real.client.chat(TINY, n=3, stream=stream, stream_options={"include_usage": True} if stream else None)
    assert answer.status == 200, answer.text()
    if stream:
        usages = [event["usage"] for event in answer.events()[:-1] if event.get("usage")]
        assert len(usages) == 1
        usage = usages[0]
    else:
        assert len(answer.json()["choices"]) == 3
        usage = answer.json()["usage"]
    assert usage["completion_tokens"] == 3 * alone["completion_tokens"]


CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.promise("request:assistant-content")
@pytest.mark.parametrize(
    "assistant",
    [
        pytest.param({"content": None, "tool_calls": [CALL]}, id="null"),
        pytest.param({"content": "", "tool_calls": [CALL]}, id="empty"),
        pytest.param({"tool_calls": [CALL]}, id="absent"),
        pytest.param({"content": [], "tool_calls": [CALL]}, id="no parts"),
        pytest.param({"content": [{"type": "text", "text": "let me look"}], "tool_calls": [CALL]}, id="text parts"),
    ],
)
@pytest.mark.parametrize("tool", ["42", [{"type": "text", "text": "42"}], "", None], ids=json.dumps)
def test_an_assistant_turn_without_text_is_taken_by_a_template_with_tools(
    real: Served, assistant: dict[str, Any], tool: Any
) -> None:
    messages = [
        {"role": "user", "content": "what is it?"},
        {"role": "assistant", **assistant},
        {"role": "tool", "tool_call_id": "call_1", "content": tool},
    ]
    answer = real.client.post("/v1/chat/completions", {"model": TOOLS, "messages": messages, "max_tokens": 2})
    assert answer.status == 200, answer.text()


@pytest.mark.promise("request:loose-values")
@pytest.mark.parametrize(
    "fields",
    [
        {"seed": None},
        {"temperature": None},
        {"stop": None},
        {"stop": ""},
        {"tools": []},
        {"tools": None},
        {"tool_choice": None},
        {"format": ""},
        {"options": None},
        {"response_format": {"type": "text"}},
        {"max_tokens": None, "max_completion_tokens": 5},
        {"seed": 1.0},
        {"never_heard_of": {"deep": [1, None]}},
    ],
    ids=json.dumps,
)
def test_null_means_absent_on_a_real_engine(real: Served, fields: dict[str, Any]) -> None:
    answer = real.client.chat(TINY, **{"max_tokens": 2, **fields})
    assert answer.status == 200, answer.text()


@pytest.mark.promise("route:engine-calls")
def test_tokens_and_templates_are_the_engine_s_own(real: Served) -> None:
    tokens = real.client.post("/tokenize", {"model": SMOLLM2, "content": "hello there"}).json()["tokens"]
    assert 1 < len(tokens) < 8
    assert real.client.post("/detokenize", {"model": SMOLLM2, "tokens": tokens}).json()["content"] == "hello there"
    body = {"model": SMOLLM2, "messages": [{"role": "user", "content": "hi"}]}
    assert "<|im_start|>user\nhi<|im_end|>" in real.client.post("/apply-template", body).json()["prompt"]


@pytest.mark.promise("stream:refusal-keeps-its-status")
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_prompt_that_is_too_long_is_a_400_with_both_numbers(real: Served, stream: bool) -> None:
    answer = real.client.chat(TINY, "word " * 20_000, stream=stream)
    assert answer.status == 400
    message = answer.json()["error"]["message"]
    assert "4096" in message


@pytest.mark.promise("real:memory")
def test_ps_shows_context_and_the_memory_that_the_engine_says_it_holds(real: Served) -> None:
    assert real.client.chat(SMOLLM2, max_tokens=1).status == 200
    shown = {resident["child"]: resident for resident in real.home.json("ps")}[SMOLLM2]
    assert shown["state"] == "ready"
    assert shown["context_length"] >= 2048
    assert shown["size"] > 90 << 20
