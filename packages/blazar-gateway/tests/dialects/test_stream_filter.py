"""What a client sees of an engine's stream, wherever the engine's bytes were cut."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_gateway.dialects.openai.stream_filter import StreamFilter
from blazar_gateway.dialects.openai.usage import Usage
from blazar_gateway.testing import chat_frame, chat_stream, completion_frame, done_frame, error_frame
from blazar_gateway.testing.frames import TIMINGS, usage_frame, usage_object

PIECES = ["Hé", "llo ", "🦀", '"usage"', "\n\ndata: x", "[DONE]", "€", "usage", '{"error"']
"""Texts that contain what the filter looks for, and characters of two, three and four bytes."""


def run(
    stream: bytes, *, cuts: tuple[int, ...] = (), asked: bool = False, choices: int = 1, prompts: int = 1
) -> tuple[bytes, StreamFilter]:
    """Feed ``stream`` in pieces; return what came out, and the filter."""
    sieve = StreamFilter(usage_asked=asked, choices=choices, prompts=prompts)
    edges = sorted({0, *cuts, len(stream)})
    out = b"".join(sieve.feed(stream[start:end]) for start, end in pairwise(edges))
    return out + sieve.finish(), sieve


def objects(stream: bytes) -> list[Any]:
    """Return the JSON of every frame but the end marker."""
    frames = [frame for frame in stream.split(b"\n\n") if frame.startswith(b"data: ") and b"[DONE]" not in frame[:14]]
    return [json.loads(frame[6:]) for frame in frames]


# --- One choice ----------------------------------------------------------------------------------------------------


def test_without_asking_the_client_sees_what_the_engine_would_have_sent_unasked() -> None:
    out, sieve = run(chat_stream(PIECES, with_usage=True))
    assert out == chat_stream(PIECES, with_usage=False)
    assert sieve.complete
    assert sieve.tally.total() == Usage(9, len(PIECES))


def test_with_asking_it_sees_the_engines_bytes() -> None:
    stream = chat_stream(PIECES, with_usage=True)
    out, sieve = run(stream, asked=True)
    assert out == stream
    assert sieve.tally.total() == Usage(9, len(PIECES))


def check_every_cut(stream: bytes, *, asked: bool, choices: int = 1, prompts: int = 1) -> None:
    whole = run(stream, asked=asked, choices=choices, prompts=prompts)[0]
    for cut in range(len(stream)):
        assert run(stream, cuts=(cut,), asked=asked, choices=choices, prompts=prompts)[0] == whole, f"cut at {cut}"


@pytest.mark.parametrize("asked", [False, True])
def test_any_cut_gives_the_same_bytes(*, asked: bool) -> None:
    check_every_cut(chat_stream(PIECES), asked=asked)


@given(cuts=st.lists(st.integers(0, 4000), max_size=40).map(tuple), asked=st.booleans())
def test_any_cuts_give_the_same_bytes(cuts: tuple[int, ...], *, asked: bool) -> None:
    stream = chat_stream(PIECES)
    inside = tuple(cut for cut in cuts if cut < len(stream))
    assert run(stream, cuts=inside, asked=asked)[0] == run(stream, asked=asked)[0]


def test_one_byte_per_read_gives_the_same_bytes() -> None:
    stream = chat_stream(PIECES)
    assert run(stream, cuts=tuple(range(len(stream))))[0] == chat_stream(PIECES, with_usage=False)


def test_every_read_gives_whole_frames_at_once() -> None:
    sieve = StreamFilter(usage_asked=False)
    first, second = chat_frame({"content": "a"}), chat_frame({"content": "b"})
    assert sieve.feed(first) == first
    assert sieve.feed(second[:-1]) == b""
    assert sieve.feed(second[-1:]) == second


def test_bytes_that_are_no_characters_pass_unchanged() -> None:
    broken = chat_frame({"content": "X"}).replace(b'"X"', b'"\xf0\x9f"')
    stream = broken + chat_stream(["a"], with_usage=False)
    out, sieve = run(stream)
    assert out == stream
    assert sieve.complete


def test_engine_comments_pass() -> None:
    stream = b":\n\n" + chat_frame({"content": "a"}) + b": still here\n\n" + done_frame()
    assert run(stream)[0] == stream


def test_finish_frame_of_an_engine_without_usage_is_not_lost() -> None:
    stream = chat_frame({"content": "a"}) + chat_frame({}, finish="stop") + done_frame()
    for cut in range(len(stream)):
        assert run(stream, cuts=(cut,))[0] == stream


def test_stream_that_ends_right_after_its_finish_frame_gives_it_to_the_client() -> None:
    stream = chat_frame({"content": "a"}) + chat_frame({}, finish="stop")
    out, sieve = run(stream)
    assert out == stream
    assert not sieve.complete


def test_usage_without_choices_at_all_does_not_disturb() -> None:
    odd = b'data: {"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
    out, sieve = run(chat_frame({"content": "a"}) + odd + done_frame())
    assert out == chat_frame({"content": "a"}) + done_frame()
    assert sieve.tally.total() == Usage(3, 2)


@pytest.mark.parametrize(
    "frame",
    [
        b'data: {"choices":[],"usage":null}\n\n',
        b'data: {"choices":[{"delta":{"content":"usage"}}],"x":"usage"}\n\n',
        b'data: ["usage"]\n\n',
        b'data: "usage"\n\n',
        b'data: {"usage": broken\n\n',
    ],
)
def test_frames_that_only_look_like_usage_pass(frame: bytes) -> None:
    assert run(frame + done_frame())[0] == frame + done_frame()


def test_usage_in_a_finish_frame_stays_there_unasked() -> None:
    finish = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3}}\n\n'
    assert run(finish + done_frame())[0] == finish + done_frame()


def test_usage_in_a_finish_frame_moves_to_a_frame_of_its_own_when_asked_for() -> None:
    finish = b'data: {"id":"x","choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3}}\n\n'
    last, usage = objects(run(finish + done_frame(), asked=True)[0])
    assert "usage" not in last
    assert usage == {"id": "x", "choices": [], "usage": {"prompt_tokens": 3}}


def test_timings_that_are_not_last_are_still_moved() -> None:
    odd = b'data: {"choices":[],"timings":{"n":1},"usage":{"prompt_tokens":3}}\n\n'
    finish = objects(run(chat_frame({}, finish="stop") + odd + done_frame())[0])[0]
    assert finish["timings"] == {"n": 1}


# --- Several choices and prompts -----------------------------------------------------------------------------------

TWO_CHOICES = b"".join(
    [
        chat_frame({"role": "assistant", "content": None}, index=1),
        chat_frame({"role": "assistant", "content": None}, index=0),
        chat_frame({"content": "I"}, index=1),
        chat_frame({}, finish="length", index=1),
        usage_frame(32, 2, timings={"predicted_n": 2}),
        chat_frame({"content": "Just"}, index=0),
        chat_frame({}, finish="length", index=0),
        usage_frame(32, 3, timings={"predicted_n": 3}),
        done_frame(),
    ]
)


def test_choices_get_one_usage_frame_with_the_sum_before_the_end_marker() -> None:
    out, sieve = run(TWO_CHOICES, asked=True, choices=2)
    frames = objects(out)
    assert [frame["usage"] for frame in frames if "usage" in frame] == [usage_object(32, 5)]
    assert frames[-1]["choices"] == []
    assert out.endswith(done_frame())
    assert sieve.tally.total() == Usage(32, 5)


def test_choices_without_asking_keep_their_own_timings() -> None:
    frames = objects(run(TWO_CHOICES, choices=2)[0])
    timings = {frame["choices"][0]["index"]: frame["timings"] for frame in frames if "timings" in frame}
    assert timings == {1: {"predicted_n": 2}, 0: {"predicted_n": 3}}
    assert not [frame for frame in frames if "usage" in frame or not frame["choices"]]


@pytest.mark.parametrize("asked", [False, True])
def test_choices_do_not_depend_on_cuts(*, asked: bool) -> None:
    check_every_cut(TWO_CHOICES, asked=asked, choices=2)


TWO_PROMPTS = b"".join(
    [
        b"data: null\n\n",
        completion_frame(" was", index=1),
        completion_frame(" the", index=0),
        completion_frame("", index=1, finish="length", usage=usage_object(2, 2)),
        b"data: null\n\n",
        completion_frame("", index=0, finish="length", usage=usage_object(5, 3)),
        done_frame(),
    ]
)


@pytest.mark.parametrize("asked", [False, True])
def test_null_frames_are_left_out_wherever_they_are_cut(*, asked: bool) -> None:
    assert b"null\n\n" not in run(TWO_PROMPTS, asked=asked, prompts=2)[0]
    check_every_cut(TWO_PROMPTS, asked=asked, prompts=2)


def test_text_completions_have_usage_in_each_finish_frame_unasked() -> None:
    out = run(TWO_PROMPTS, prompts=2)[0]
    assert out == TWO_PROMPTS.replace(b"data: null\n\n", b"")


def test_text_completions_have_one_usage_frame_when_asked() -> None:
    frames = objects(run(TWO_PROMPTS, asked=True, prompts=2)[0])
    assert [frame["usage"] for frame in frames if "usage" in frame] == [usage_object(7, 5)]
    assert frames[-1]["choices"] == []
    assert frames[-1]["object"] == "text_completion"
    assert [frame["timings"] for frame in frames if "timings" in frame] == [TIMINGS, TIMINGS]


# --- Reasoning -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_offered_under_both_names(name: str) -> None:
    text = 'thinks "hard" \\ about 🦀'
    stream = chat_frame({name: text}) + chat_frame({"content": "42"}) + done_frame()
    first, second = objects(run(stream)[0])
    assert first["choices"][0]["delta"] == {"reasoning_content": text, "reasoning": text}
    assert second["choices"][0]["delta"] == {"content": "42"}


def test_engine_that_writes_both_names_is_left_alone() -> None:
    both = chat_frame({"reasoning_content": "a", "reasoning": "a"})
    one = chat_frame({"reasoning": "b"})
    frames = objects(run(both + one + done_frame())[0])
    assert frames[0] == json.loads(both[6:])
    assert frames[1]["choices"][0]["delta"] == {"reasoning_content": "b", "reasoning": "b"}


def test_text_about_reasoning_is_not_reasoning() -> None:
    stream = chat_frame({"content": '"reasoning_content":"x"'}) + chat_frame({"reasoning_content": None}) + done_frame()
    assert run(stream)[0] == stream


# --- Errors --------------------------------------------------------------------------------------------------------

BROKEN = chat_frame({"content": "a"}) + error_frame("Context size has been exceeded.")


@pytest.mark.parametrize("end", [b"", done_frame()])
def test_engines_error_reaches_the_client_in_openais_form(end: bytes) -> None:
    stream = BROKEN + end
    for cut in range(len(stream)):
        out, sieve = run(stream, cuts=(cut,))
        assert objects(out)[-1] == {
            "error": {
                "message": "Context size has been exceeded.",
                "type": "server_error",
                "param": None,
                "code": "engine_error",
            }
        }
        assert sieve.error is not None
        assert sieve.complete is bool(end)
        assert out.endswith(end or b"}}\n\n")


AFTER_AN_ERROR = {
    "comments": b":\n\n: bye\n\n",
    "a null": b"data: null\n\n",
    "text": chat_frame({"content": "b"}) + chat_frame({"content": "c"}),
    "a finish": chat_frame({}, finish="stop"),
    "usage": chat_frame({}, finish="stop") + usage_frame(9, 1),
    "an end marker and a comment": done_frame() + b":\n\n",
}


@pytest.mark.parametrize("tail", AFTER_AN_ERROR.values(), ids=AFTER_AN_ERROR)
@pytest.mark.parametrize("asked", [False, True])
def test_error_is_noticed_wherever_it_stands_in_a_read(tail: bytes, *, asked: bool) -> None:
    stream = BROKEN + tail
    whole, sieve = run(stream, asked=asked)
    assert sieve.error is not None
    assert [frame["error"]["code"] for frame in objects(whole) if frame and "error" in frame] == ["engine_error"]
    for cut in range(len(stream)):
        out, sieve = run(stream, cuts=(cut,), asked=asked)
        assert sieve.error is not None, f"cut at {cut}"
        assert out == whole, f"cut at {cut}"
        assert sieve.complete is (b"[DONE]" in tail)


@given(cuts=st.lists(st.integers(0, 2000), max_size=12).map(tuple), place=st.integers(0, len(PIECES)))
def test_error_between_any_frames_cut_anywhere(cuts: tuple[int, ...], place: int) -> None:
    frames = [chat_frame({"content": piece}) for piece in PIECES]
    frames.insert(place, error_frame("Context size has been exceeded."))
    stream = b"".join(frames)
    out, sieve = run(stream, cuts=tuple(cut for cut in cuts if cut < len(stream)))
    assert sieve.error is not None
    assert [number for number, chunk in enumerate(objects(out)) if "error" in chunk] == [place]


def test_end_marker_is_noticed_with_something_behind_it() -> None:
    stream = chat_stream(PIECES) + b": bye\n\n"
    for cut in range(len(stream)):
        out, sieve = run(stream, cuts=(cut,))
        assert sieve.complete, f"cut at {cut}"
        assert out == chat_stream(PIECES, with_usage=False) + b": bye\n\n"


@pytest.mark.parametrize(
    "frame", [b'data: {"error":"text"}\n\n', b'data: {"error":null}\n\n', b'data: {"error": x}\n\n']
)
def test_errors_of_any_form_end_the_stream_as_an_error(frame: bytes) -> None:
    out, sieve = run(chat_frame({"content": "a"}) + frame)
    assert sieve.error is not None
    assert objects(out)[-1]["error"]["code"] == "engine_error"


def test_broken_stream_keeps_back_half_a_frame_and_an_unconfirmed_finish() -> None:
    sieve = StreamFilter(usage_asked=False)
    content, finish = chat_frame({"content": "a"}), chat_frame({}, finish="stop")
    assert sieve.feed(content + finish + b'data: {"cho') == content
    assert not sieve.complete


def test_answer_that_breaks_off_counts_about_what_came() -> None:
    sieve = StreamFilter(usage_asked=False)
    for number in range(10):
        sieve.feed(chat_frame({"content": f"tok{number}"}))
        sieve.feed(b":\n\n")
    assert sieve.tally.total() == Usage(completion_tokens=10)
    sieve.feed(b"".join(chat_frame({"content": f"tok{number}"}) for number in range(5)))
    assert sieve.tally.total() == Usage(completion_tokens=15)
