"""Streams that a stock llama-server wrote (b10068, a real model), through every dialect, cut anywhere.

They lie in ``tests/transcripts``, byte for byte as they came.
"""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blazar_gateway.dialects.anthropic.answer import MessageStream
from blazar_gateway.dialects.engine_stream import EngineStream
from blazar_gateway.dialects.ollama.answer import Clock, Lines
from blazar_gateway.dialects.openai.assembly import Assembly
from blazar_gateway.dialects.openai.delta_repair import DeltaRepair
from blazar_gateway.dialects.openai.generation import Surface
from blazar_gateway.dialects.openai.stream_filter import StreamFilter
from blazar_gateway.dialects.responses.response import response_object
from blazar_gateway.dialects.responses.stream import ResponseStream
from blazar_gateway.testing import transcripts as seen
from blazar_gateway.testing.transcripts import Said

RECORDED = {file.stem: file.read_bytes() for file in sorted((Path(__file__).parents[1] / "transcripts").glob("*.sse"))}
CHATS = [name for name in RECORDED if name.startswith("chat")]
ONE_CHOICE = [name for name in CHATS if name != "chat-two-choices"]
CUTS = st.lists(st.integers(min_value=0, max_value=5000), max_size=12)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(bounds)]


def passed_on(name: str, cuts: list[int], *, usage: bool) -> bytes:
    choices = 2 if name == "chat-two-choices" else 1
    prompts = 2 if name == "completion-two-prompts" else 1
    repair = DeltaRepair(choices=choices, new_call_id=lambda: "call_new") if name in CHATS else None
    sieve = StreamFilter(usage_asked=usage, choices=choices, prompts=prompts, repair=repair)
    out = b"".join(sieve.feed(piece) for piece in pieces(RECORDED[name], cuts)) + sieve.finish()
    assert sieve.complete
    assert sieve.tally.total().completion_tokens > 0
    return out


def number() -> Any:
    """Return what makes ids."""
    made = iter(range(1000))
    return lambda prefix="id": f"{prefix}_{next(made)}"


def as_message(name: str, cuts: list[int]) -> Said:
    reader = EngineStream(new_call_id=lambda: "call_new")
    stream = MessageStream(message_id="msg_1", model="m", show_thinking=True)
    body = b"".join(stream.write_all(reader.feed(piece)) for piece in pieces(RECORDED[name], cuts))
    body += stream.write_all(reader.finish()) + b"".join(stream.end())
    return seen.message_said(seen.named_events(body))


def as_response(name: str, cuts: list[int]) -> Said:
    reader = EngineStream(new_call_id=lambda: "call_new")
    response = response_object({}, response_id="resp_1", created_at=1, model="m", store=False)
    stream = ResponseStream(response, new_id=number(), now=lambda: 2)
    body = b"".join(stream.begin())
    body += b"".join(stream.write_all(reader.feed(piece)) for piece in pieces(RECORDED[name], cuts))
    body += stream.write_all(reader.finish()) + b"".join(stream.end())
    return seen.response_said(seen.named_events(body))


def as_lines(name: str, cuts: list[int]) -> Said:
    reader = EngineStream(new_call_id=lambda: "call_new")
    clock = Clock(created_at=lambda: "2026-01-01T00:00:00Z", elapsed_ns=lambda: 5)
    lines = Lines(model="m", chat=True, clock=clock)
    body = b"".join(lines.write_all(reader.feed(piece)) for piece in pieces(RECORDED[name], cuts))
    body += lines.write_all(reader.finish()) + lines.end()
    return seen.chat_lines(seen.lines_of(body))


def assembled(name: str, cuts: list[int]) -> Any:
    surface = Surface.CHAT if name in CHATS else Surface.COMPLETIONS
    choices = 2 if name == "chat-two-choices" else 1
    prompts = 2 if name == "completion-two-prompts" else 1
    made = Assembly(surface=surface, choices=choices, prompts=prompts, new_call_id=lambda: "call_new")
    for piece in pieces(RECORDED[name], cuts):
        made.feed(piece)
    made.finish()
    assert made.complete
    return made.object()


def test_there_are_recordings() -> None:
    assert {"chat", "chat-logprobs", "chat-schema", "chat-two-choices", "completion"} <= set(RECORDED)


@pytest.mark.parametrize("name", ONE_CHOICE)
@given(cuts=CUTS)
@settings(max_examples=30)
def test_every_dialect_says_the_same_in_its_own_order(name: str, cuts: list[int]) -> None:
    plain = seen.chat_chunks(passed_on(name, cuts, usage=False))
    assert plain.text
    assert seen.chat_chunks(passed_on(name, cuts, usage=True), usage=True).text == plain.text
    assert seen.chat_answer(assembled(name, cuts)).text == plain.text
    for told in (as_message, as_response, as_lines):
        assert told(name, cuts).text == plain.text
    assert as_lines(name, cuts).finish == plain.finish


@given(cuts=CUTS)
@settings(max_examples=30)
def test_two_choices_are_both_there_and_counted_together(cuts: list[int]) -> None:
    body = passed_on("chat-two-choices", cuts, usage=True)
    answer = assembled("chat-two-choices", cuts)
    for index, choice in enumerate(answer["choices"]):
        assert seen.chat_chunks(body, usage=True, index=index).text == choice["message"]["content"]
    assert answer["usage"]["completion_tokens"] == 8


@pytest.mark.parametrize("name", [name for name in RECORDED if name not in CHATS])
@given(cuts=CUTS)
@settings(max_examples=30)
def test_text_completions_add_up(name: str, cuts: list[int]) -> None:
    frames = [frame for frame in passed_on(name, cuts, usage=False).split(b"\n\n") if frame]
    assert frames.pop() == b"data: [DONE]"
    texts: dict[int, str] = {}
    for frame in frames:
        for choice in json.loads(frame[6:])["choices"]:
            texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
    assert [choice["text"] for choice in assembled(name, cuts)["choices"]] == [texts[index] for index in sorted(texts)]
