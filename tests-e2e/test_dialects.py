"""The same engine in four dialects: every stream that the daemon writes keeps its protocol's order of events."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from blazar_gateway.testing import transcripts as seen
from blazar_gateway.testing.transcripts import Said
from blazar_stubs import StubModel
from e2e.served import Served


def _events(body: bytes) -> list[dict[str, Any]]:
    frames = [frame for frame in body.split(b"\n\n") if frame and not frame.startswith(b":")]
    return seen.named_events(b"".join(frame + b"\n\n" for frame in frames))


def _turn(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


Dialect = tuple[str, Callable[[str], dict[str, Any]], Callable[[bytes], Said]]
DIALECTS: dict[str, Dialect] = {
    "openai": (
        "/v1/chat/completions",
        lambda text: {"messages": _turn(text), "think": True},
        seen.chat_chunks,
    ),
    "responses": (
        "/v1/responses",
        lambda text: {"input": text, "reasoning": {"effort": "low"}},
        lambda body: seen.response_said(_events(body)),
    ),
    "anthropic": (
        "/v1/messages",
        lambda text: {"messages": _turn(text), "max_tokens": 400, "thinking": {"type": "adaptive"}},
        lambda body: seen.message_said(_events(body)),
    ),
    "ollama": (
        "/api/chat",
        lambda text: {"messages": _turn(text), "think": True},
        lambda body: seen.chat_lines(seen.lines_of(body)),
    ),
}
CALL = {"function": {"name": "f", "arguments": '{"n":1}'}, "type": "function"}
SCRIPTS: dict[str, tuple[dict[str, Any], tuple[str, str, list[tuple[str, Any]]]]] = {
    "text": ({"text": "Hi \U0001f600"}, ("", "Hi \U0001f600", [])),
    "reasoning": ({"reasoning": "hm", "text": "Hi"}, ("hm", "Hi", [])),
    "tags": (
        {"chunks": [{"content": "<thi"}, {"content": "nk>hm</think>Hi"}, {"finish_reason": "stop"}]},
        ("hm", "Hi", []),
    ),
    "calls-all-with-index-0": (
        {
            "chunks": [
                {"tool_calls": [{**CALL, "index": 0, "id": "a"}]},
                {"tool_calls": [{**CALL, "index": 0, "id": "b"}]},
                {"finish_reason": "stop"},
            ]
        },
        ("", "", [("f", {"n": 1}), ("f", {"n": 1})]),
    ),
    "cut-at-every-byte": ({"text": "a€b", "cut_every": 1}, ("", "a€b", [])),
}


@pytest.fixture(scope="module")
def model(shared: Served) -> StubModel:
    return shared.add_model("m", thinking=True, tools=True)


@pytest.mark.promise("stream:own-order")
@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.usefixtures("model")
def test_a_stream_keeps_the_order_of_its_protocol(shared: Served, dialect: str, script: str) -> None:
    path, body, read = DIALECTS[dialect]
    directive, expected = SCRIPTS[script]
    asked = {"model": "m", "stream": True, **body(f"[[stub: {json.dumps(directive)}]]")}
    answer = shared.client.post(path, asked)
    assert answer.status == 200, answer.body
    said = read(answer.body)
    assert (said.thinking, said.text, said.calls) == expected
