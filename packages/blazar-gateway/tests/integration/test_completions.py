"""``/v1/completions``: what is older than chats, over sockets."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from blazar_gateway.testing import (
    Exchange,
    FixedCatalogue,
    ReadyHost,
    ScriptedEngine,
    card,
    completion_frame,
    done_frame,
    fetch,
    serve,
)
from blazar_gateway.testing.frames import usage_object

ASK = {"model": "m", "prompt": "Once", "max_tokens": 4}


def entry(token: str, logprob: float) -> dict[str, Any]:
    return {"token": token, "logprob": logprob, "bytes": None, "top_logprobs": [{"token": token, "logprob": logprob}]}


def answers(*texts: str) -> Any:
    """Return a script: each text is one choice in one chunk, and prompts are tokenized by character."""

    async def script(exchange: Exchange) -> None:
        body: Any = exchange.json
        if exchange.path == "/tokenize":
            tokens = [{"id": ord(letter), "piece": letter} for letter in body["content"]]
            return await exchange.answer(json.dumps({"tokens": tokens}).encode())
        if exchange.path == "/detokenize":
            content = "".join(chr(token) for token in body["tokens"])
            return await exchange.answer(json.dumps({"content": content}).encode())
        frames = []
        for index, text in enumerate(texts):
            logprobs = {"content": [entry(text, -1.0 - index)]} if body.get("logprobs") else None
            frames.append(completion_frame(text, index=index, logprobs=logprobs))
            frames.append(completion_frame("", index=index, finish="stop", usage=usage_object(2, 1)))
        return await exchange.stream([*frames, done_frame()])

    return script


async def test_an_echo_precedes_the_text(host: ReadyHost, engine: ScriptedEngine) -> None:
    engine.script = answers(" upon")
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/completions", {**ASK, "echo": True})
    assert answer.json["choices"][0]["text"] == "Once upon"
    assert "echo" not in engine.exchanges[0].json


async def test_tokens_are_echoed_as_text(host: ReadyHost, engine: ScriptedEngine) -> None:
    engine.script = answers(" upon")
    async with serve(host) as served:
        prompt = [ord(letter) for letter in "Once"]
        answer = await fetch(served.port, "POST", "/v1/completions", {**ASK, "prompt": prompt, "echo": True})
    assert answer.json["choices"][0]["text"] == "Once upon"
    assert engine.exchanges[-1].json["prompt"] == prompt


@pytest.mark.parametrize("stream", [False, True])
async def test_probabilities_of_an_echo(host: ReadyHost, engine: ScriptedEngine, *, stream: bool) -> None:
    engine.script = answers(" upon")
    async with serve(host) as served:
        body = {**ASK, "echo": True, "logprobs": 1, "stream": stream}
        answer = await fetch(served.port, "POST", "/v1/completions", body)
    chunks = [json.loads(frame[6:]) for frame in answer.frames[:-1]] if stream else [answer.json]
    tokens, values, offsets = [], [], []
    for chunk in chunks:
        shown = chunk["choices"][0]["logprobs"]
        tokens += shown["tokens"]
        values += shown["token_logprobs"]
        offsets += shown["text_offset"]
    assert tokens == ["O", "n", "c", "e", " upon"]
    assert values == [None, None, None, None, -1.0]
    assert offsets == [0, 1, 2, 3, 4]


async def test_the_best_of_several_is_the_one_shown(host: ReadyHost, engine: ScriptedEngine) -> None:
    engine.script = answers("good", "worse", "worst")
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/completions", {**ASK, "best_of": 3})
    assert [choice["text"] for choice in answer.json["choices"]] == ["good"]
    assert engine.exchanges[0].json["n"] == 3
    assert host.tickets[0].slots == 3


def infills(content: str = "gap", *, status: int = 200) -> Any:
    async def script(exchange: Exchange) -> None:
        if status != 200:
            error = {"code": status, "message": "Infill is not supported by this model", "type": "not_supported_error"}
            return await exchange.answer(json.dumps({"error": error}).encode(), status=status)
        pieces = [{"content": letter, "stop": False} for letter in content]
        if exchange.json.get("n_probs"):
            pieces = [{**one, "completion_probabilities": [entry(str(one["content"]), -0.5)]} for one in pieces]
        last = {"content": "", "stop": True, "stop_type": "eos", "tokens_evaluated": 5, "tokens_predicted": 3}
        frames = [b"data: " + json.dumps(one).encode() + b"\n\n" for one in [*pieces, last]]
        return await exchange.stream(frames)

    return script


@pytest.mark.parametrize("stream", [False, True])
async def test_a_suffix_is_a_gap_to_fill(host: ReadyHost, engine: ScriptedEngine, *, stream: bool) -> None:
    engine.script = infills("<think>")
    body = {**ASK, "suffix": " end", "stream": stream, "stop": ["\n"], "temperature": 0.5, "logprobs": 1}
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/completions", body)
    sent = engine.exchanges[0]
    assert sent.path == "/infill"
    assert {name: sent.json[name] for name in ("input_prefix", "input_suffix", "n_predict", "stop", "temperature")} == {
        "input_prefix": "Once",
        "input_suffix": " end",
        "n_predict": 4,
        "stop": ["\n"],
        "temperature": 0.5,
    }
    chunks = [json.loads(frame[6:]) for frame in answer.frames[:-1]] if stream else [answer.json]
    assert {chunk["object"] for chunk in chunks} == {"text_completion"}
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "<think>"
    assert [token for chunk in chunks for token in chunk["choices"][0]["logprobs"]["tokens"]] == list("<think>")
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    if stream:
        assert answer.frames[-1] == b"data: [DONE]"
    else:
        assert answer.json["usage"] == {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}


async def test_a_streamed_gap_tells_its_usage_only_when_asked(host: ReadyHost, engine: ScriptedEngine) -> None:
    engine.script = infills()
    body = {**ASK, "suffix": "x", "stream": True, "stream_options": {"include_usage": True}}
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/completions", body)
    assert json.loads(answer.frames[-2][6:])["usage"]["total_tokens"] == 8


async def test_a_suffix_for_a_model_without_the_tokens_is_refused(host: ReadyHost, engine: ScriptedEngine) -> None:
    engine.script = infills(status=501)
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/v1/completions", {**ASK, "suffix": "x"})
    assert answer.status == 400
    assert answer.json["error"]["message"].startswith('"m" does not support insert')


async def test_a_text_of_tags_stays_a_text(host: ReadyHost, engine: ScriptedEngine) -> None:
    engine.script = answers("<think>x</think>y")
    row = card(capabilities=("completion", "thinking"))
    async with serve(host, catalogue=FixedCatalogue(row)) as served:
        answer = await fetch(served.port, "POST", "/v1/completions", ASK)
    assert answer.json["choices"][0]["text"] == "<think>x</think>y"


# --- The official client, on the stub and on the stock engine --------------------------------------------------------


@pytest.fixture
def client(lane: Any) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{lane.url}/v1", api_key="x", max_retries=0) as made:
        yield made


def test_the_client_reads_legacy_probabilities(client: openai.OpenAI) -> None:
    made = client.completions.create(model="m", prompt="Once upon", max_tokens=3, logprobs=2, echo=True, temperature=0)
    [choice] = made.choices
    assert choice.text.startswith("Once upon")
    listed = choice.logprobs
    assert listed is not None
    assert listed.tokens is not None
    assert listed.token_logprobs is not None
    assert listed.text_offset is not None
    assert listed.top_logprobs is not None
    assert len(listed.tokens) == len(listed.token_logprobs) == len(listed.text_offset) == len(listed.top_logprobs)
    assert listed.text_offset[0] == 0
    assert isinstance(listed.token_logprobs[-1], float)


def test_several_prompts_with_choices_keep_their_order(client: openai.OpenAI) -> None:
    made = client.completions.create(model="m", prompt=["One", "Two"], n=2, max_tokens=2, echo=True)
    assert [choice.index for choice in made.choices] == [0, 1, 2, 3]
    assert [choice.text[:3] for choice in made.choices] == ["One", "One", "Two", "Two"]


def test_the_best_of_two_is_one(client: openai.OpenAI) -> None:
    made = client.completions.create(model="m", prompt="Once", best_of=2, max_tokens=2, extra_body={"ignore_eos": True})
    assert [choice.index for choice in made.choices] == [0]
    assert made.usage is not None
    assert made.usage.completion_tokens == 4


def test_sixteen_tokens_are_the_most_unasked(client: openai.OpenAI) -> None:
    made = client.completions.create(model="m", prompt="Once upon a time", extra_body={"ignore_eos": True})
    assert made.usage is not None
    assert made.usage.completion_tokens == 16
    assert made.choices[0].finish_reason == "length"


def test_a_stream_adds_up_to_the_whole_answer(client: openai.OpenAI) -> None:
    stream = client.completions.create(model="m", prompt="Once", max_tokens=4, temperature=0, stream=True, echo=True)
    text = "".join(chunk.choices[0].text for chunk in stream if chunk.choices)
    whole = client.completions.create(model="m", prompt="Once", max_tokens=4, temperature=0, echo=True)
    assert text.startswith("Once")
    assert whole.choices[0].text.startswith("Once")
