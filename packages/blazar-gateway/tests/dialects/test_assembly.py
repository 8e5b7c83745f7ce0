"""One answer out of a stream."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_gateway.dialects.openai.assembly import Assembly
from blazar_gateway.dialects.openai.generation import Surface
from blazar_gateway.testing import chat_frame, chat_stream, completion_frame, done_frame, error_frame
from blazar_gateway.testing.frames import TIMINGS, usage_frame, usage_object

PIECES = ["Hé", "llo ", "🦀", "\n\ndata: ", '"']


def assemble(
    stream: bytes, *, cuts: tuple[int, ...] = (), surface: Surface = Surface.CHAT, choices: int = 1, prompts: int = 1
) -> Assembly:
    made = Assembly(surface=surface, choices=choices, prompts=prompts, new_call_id=lambda: "call_new")
    edges = sorted({0, *cuts, len(stream)})
    for start, end in pairwise(edges):
        made.feed(stream[start:end])
    made.finish()
    return made


def answer(stream: bytes, **how: Any) -> Any:
    return assemble(stream, **how).object()


def test_answer_has_llama_servers_members_in_its_order() -> None:
    made = answer(chat_stream(PIECES))
    assert list(made) == ["choices", "created", "model", "system_fingerprint", "object", "usage", "id", "timings"]
    assert made == {
        "choices": [
            {
                "finish_reason": "stop",
                "index": 0,
                "message": {"role": "assistant", "content": "".join(PIECES), "refusal": None},
                "logprobs": None,
            }
        ],
        "created": 1796025319,
        "model": "m",
        "system_fingerprint": "b1-7e4c0a9",
        "object": "chat.completion",
        "usage": usage_object(9, len(PIECES)),
        "id": "chatcmpl-ZyjEDr3G3MPz5M4eMGv7tZJwADLaAwyw",
        "timings": TIMINGS,
    }


def test_any_cut_gives_the_same_answer() -> None:
    stream = chat_stream(PIECES)
    whole = assemble(stream).object()
    for cut in range(len(stream)):
        assert assemble(stream, cuts=(cut,)).object() == whole, f"cut at {cut}"


@given(cuts=st.lists(st.integers(0, 3000), max_size=30).map(tuple))
def test_any_cuts_give_the_same_answer(cuts: tuple[int, ...]) -> None:
    stream = chat_stream(PIECES)
    inside = tuple(cut for cut in cuts if cut < len(stream))
    assert assemble(stream, cuts=inside).object() == assemble(stream).object()


@given(pieces=st.lists(st.text(), max_size=8))
def test_text_is_what_was_streamed(pieces: list[str]) -> None:
    made = answer(chat_stream(pieces))
    assert made["choices"][0]["message"]["content"] == "".join(pieces)


def test_completeness_needs_the_end_marker() -> None:
    stream = chat_stream(["a"])
    assert assemble(stream).complete
    assert not assemble(stream.removesuffix(done_frame())).complete
    assert assemble(stream.removesuffix(b"\n\n")).complete


def test_comments_between_frames_are_skipped() -> None:
    stream = b":\n\n" + chat_frame({"content": "a"}) + b": x\n\n" + chat_frame({"content": "b"}) + done_frame()
    assert answer(stream)["choices"][0]["message"]["content"] == "ab"


def test_no_content_is_an_empty_text() -> None:
    assert answer(chat_stream([]))["choices"][0]["message"] == {
        "role": "assistant",
        "content": "",
        "refusal": None,
    }


def test_tool_calls_are_put_together_by_index() -> None:
    first = {"index": 0, "id": "c0", "type": "function", "function": {"name": "f", "arguments": '{"a"'}}
    stream = b"".join(
        [
            chat_frame({"role": "assistant", "content": None}),
            chat_frame({"tool_calls": [first]}),
            chat_frame({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}),
            chat_frame({"tool_calls": [{"index": 1, "id": "c1", "function": {"name": "g", "arguments": ""}}]}),
            chat_frame({"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]}),
            chat_frame({}, finish="tool_calls"),
            done_frame(),
        ]
    )
    choice = answer(stream)["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"] == {
        "role": "assistant",
        "content": "",
        "refusal": None,
        "tool_calls": [
            {"type": "function", "function": {"name": "f", "arguments": '{"a":1}'}, "id": "c0"},
            {"type": "function", "function": {"name": "g", "arguments": "{}"}, "id": "c1"},
        ],
    }


def test_calls_that_share_an_index_but_not_an_id_are_two_calls() -> None:
    calls = [{"index": 0, "id": f"c{n}", "function": {"name": "f", "arguments": {"n": n}}} for n in range(3)]
    made = answer(chat_frame({"tool_calls": calls}) + done_frame())["choices"][0]["message"]["tool_calls"]
    assert [(call["id"], call["function"]["arguments"]) for call in made] == [
        ("c0", '{"n":0}'),
        ("c1", '{"n":1}'),
        ("c2", '{"n":2}'),
    ]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_offered_under_both_names(name: str) -> None:
    stream = chat_frame({name: "th"}) + chat_frame({name: "ink"}) + chat_frame({"content": "42"}) + done_frame()
    message = answer(stream)["choices"][0]["message"]
    assert message == {
        "role": "assistant",
        "content": "42",
        "refusal": None,
        "reasoning_content": "think",
        "reasoning": "think",
    }


def test_log_probabilities_are_joined() -> None:
    frames = [
        chat_frame({"content": token}, logprobs={"content": [{"token": token}], "refusal": None}) for token in "ab"
    ]
    choice = answer(b"".join(frames) + done_frame())["choices"][0]
    assert choice["logprobs"] == {"content": [{"token": "a"}, {"token": "b"}], "refusal": None}


def test_choices_are_ordered_and_counted_together() -> None:
    stream = b"".join(
        [
            chat_frame({"content": "one"}, index=1),
            chat_frame({"content": "zero"}, index=0),
            chat_frame({}, finish="length", index=1),
            usage_frame(32, 2, timings={"predicted_n": 2}),
            chat_frame({}, finish="stop", index=0),
            usage_frame(32, 3, timings={"predicted_n": 3}),
            done_frame(),
        ]
    )
    made = answer(stream, choices=2)
    assert [(c["index"], c["message"]["content"], c["finish_reason"]) for c in made["choices"]] == [
        (0, "zero", "stop"),
        (1, "one", "length"),
    ]
    assert made["usage"] == usage_object(32, 5)
    assert made["timings"] == {"predicted_n": 3}


def test_text_completions_of_several_prompts() -> None:
    stream = b"".join(
        [
            b"data: null\n\n",
            completion_frame(" was", index=1, logprobs={"content": [{"id": 1}]}),
            completion_frame(" the", index=0),
            completion_frame(" end", index=1, logprobs={"content": [{"id": 2}]}),
            completion_frame("", index=1, finish="length", usage=usage_object(2, 2)),
            completion_frame("", index=0, finish="stop", usage=usage_object(5, 3)),
            done_frame(),
        ]
    )
    made = answer(stream, surface=Surface.COMPLETIONS, prompts=2)
    assert list(made) == ["choices", "created", "model", "system_fingerprint", "object", "usage", "id", "timings"]
    assert made["object"] == "text_completion"
    assert made["choices"] == [
        {"text": " the", "index": 0, "logprobs": None, "finish_reason": "stop"},
        {
            "text": " was end",
            "index": 1,
            "logprobs": {"content": [{"id": 1}, {"id": 2}]},
            "finish_reason": "length",
        },
    ]
    assert made["usage"] == usage_object(7, 5)


def test_progress_and_timings_per_token_leave_the_last_figures_only() -> None:
    progress = (
        b'data: {"choices":[{"index":0,"delta":{}}],"prompt_progress":{"total":3},"timings":{"predicted_n":0}}\n\n'
    )
    made = answer(progress + chat_stream(["a"]))
    assert "prompt_progress" not in made
    assert made["timings"] == TIMINGS


def test_members_that_only_another_engine_has_are_kept() -> None:
    stream = (
        b'data: {"id":"x","service_tier":"default","choices":[{"index":0,"delta":{"content":"a","refusal":"r"}}]}\n\n'
    )
    made = answer(stream + done_frame())
    assert made["service_tier"] == "default"
    assert made["choices"][0]["message"]["refusal"] == "r"
    assert "system_fingerprint" not in made
    assert "usage" not in made


def test_engines_error_is_kept_for_its_reader() -> None:
    made = assemble(chat_frame({"content": "a"}) + error_frame("Invalid diff: x"))
    assert made.error == {"code": 500, "message": "Invalid diff: x", "type": "server_error"}
    assert assemble(b'data: {"error":"text"}\n\n').error == {"message": "text"}


def test_broken_bytes_become_replacement_characters() -> None:
    broken = chat_frame({"content": "X"}).replace(b'"X"', b'"a\xf0\x9fb"')
    assert answer(broken + done_frame())["choices"][0]["message"]["content"] == "a\ufffdb"


def test_events_that_are_no_json_are_an_error_not_a_crash() -> None:
    made = assemble(chat_frame({"content": "a"}) + b"data: {broken\n\n")
    assert made.error is not None
    assert "not JSON" in str(made.error["message"])
