"""A chat's deltas where an engine writes them wrongly: what the client is to see instead."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_gateway.dialects.engine_stream import EngineStream
from blazar_gateway.dialects.events import Reasoning, Text, Texts
from blazar_gateway.dialects.openai.delta_repair import DeltaRepair
from blazar_gateway.dialects.openai.stream_filter import StreamFilter
from blazar_gateway.testing.frames import chat_frame, chat_stream, done_frame, usage_frame


def filtered(data: bytes, *, cuts: tuple[int, ...] = (), choices: int = 1, one_call: bool = False) -> bytes:
    """Return what a client sees of a stream that is read in pieces."""
    numbers = itertools.count()
    repair = DeltaRepair(choices=choices, new_call_id=lambda: f"call_new{next(numbers)}", one_call=one_call)
    sieve = StreamFilter(usage_asked=True, choices=choices, repair=repair)
    bounds = [0, *sorted(cuts), len(data)]
    return b"".join(sieve.feed(data[start:end]) for start, end in itertools.pairwise(bounds)) + sieve.finish()


def chunks_of(frames: bytes) -> list[Any]:
    """Return the chunks, the end marker left out."""
    return [json.loads(frame[6:]) for frame in frames.split(b"\n\n") if frame and frame != b"data: [DONE]"]


def put_together(frames: bytes, index: int = 0) -> dict[str, Any]:
    """Return one choice's message as an SDK accumulates it: text by name, calls by index."""
    out: dict[str, Any] = {"content": "", "reasoning_content": "", "reasoning": "", "calls": {}, "finish": None}
    for chunk in chunks_of(frames):
        for choice in chunk["choices"]:
            if choice["index"] != index:
                continue
            delta = choice["delta"]
            for name in ("content", "reasoning_content", "reasoning"):
                out[name] += delta.get(name) or ""
            for call in delta.get("tool_calls") or ():
                known = out["calls"].setdefault(call["index"], {"id": "", "name": "", "arguments": ""})
                known["id"] += call.get("id") or ""
                known["name"] += call["function"].get("name") or ""
                known["arguments"] += call["function"]["arguments"]
            out["finish"] = choice["finish_reason"] or out["finish"]
    return out


def call(index: int | None = None, id_: str | None = None, name: str | None = None, arguments: Any = "") -> Any:
    given: dict[str, Any] = {"index": index, "id": id_, "function": {"name": name, "arguments": arguments}}
    function = {key: value for key, value in given["function"].items() if value is not None}
    return {**{key: value for key, value in given.items() if value is not None}, "function": function}


def calls_stream(*calls: Any, finish: str = "tool_calls") -> bytes:
    """Return a stream in which each call is a delta of its own; a list of calls is one delta."""
    frames = [chat_frame({"role": "assistant", "content": None})]
    frames += [chat_frame({"tool_calls": one if isinstance(one, list) else [one]}) for one in calls]
    return b"".join([*frames, chat_frame({}, finish=finish), usage_frame(5, 4), done_frame()])


GOOD = {"type": "function"}


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(chat_stream(["Hello", " ", "wörld 😀"]), id="text"),
        pytest.param(chat_stream(["<b>bold</b>", "  "]), id="text-that-begins-with-another-tag"),
        pytest.param(
            calls_stream(
                {**call(0, "c0", "f"), **GOOD}, {"index": 0, "function": {"arguments": "{}"}}, finish="tool_calls"
            ),
            id="calls",
        ),
        pytest.param(calls_stream({**call(0, "c0", "f", "{"), **GOOD}, finish="length"), id="cut-in-a-call"),
        pytest.param(
            chat_frame({"reasoning_content": "hm", "reasoning": "hm"}) + chat_stream(["<think>", " is a tag"]),
            id="tag-after-an-engines-own-reasoning",
        ),
    ],
)
def test_right_frames_stay_the_engines_bytes(stream: bytes) -> None:
    for cut in range(len(stream)):
        assert filtered(stream, cuts=(cut,)) == stream


@pytest.mark.parametrize(
    ("pieces", "thought", "text"),
    [
        pytest.param(["<think>", "\n", "hm", "\n", "</think>", "\n\n", "Hi", "!"], "hm", "Hi!", id="whole-tags"),
        pytest.param(["<th", "ink>h", "m</thi", "nk>H", "i"], "hm", "Hi", id="cut-tags"),
        pytest.param(["<think>hm</think>Hi"], "hm", "Hi", id="one-piece"),
        pytest.param(["<think>", "</think>", "\n\nHi"], "", "Hi", id="no-thoughts"),
        pytest.param(["<think>", "never closed"], "never closed", "", id="never-closed"),
        pytest.param(["<thin", " ice"], "", "<thin ice", id="only-begins-like-a-tag"),
        pytest.param([" ", "\n", "<b>"], "", " \n<b>", id="another-tag-after-blanks"),
        pytest.param(["<thi"], "", "<thi", id="ends-like-a-tag"),
        pytest.param(["a", "<think>b</think>"], "", "a<think>b</think>", id="tag-in-the-text"),
        pytest.param(["<think>a\nb\n\nc\n</think>d"], "a\nb\n\nc", "d", id="lines-in-thoughts"),
    ],
)
@pytest.mark.parametrize("finish", ["stop", "length"])
def test_thoughts_between_tags_are_reasoning_under_both_names(
    pieces: list[str], thought: str, text: str, finish: str
) -> None:
    seen = put_together(filtered(chat_stream(pieces, finish=finish)))
    assert (seen["reasoning_content"], seen["reasoning"], seen["content"]) == (thought, thought, text)
    assert seen["finish"] == finish


def test_thoughts_do_not_depend_on_cuts() -> None:
    stream = chat_stream(["<th", "ink>thöught 😀", "</think>\n", "wörld"])
    whole = filtered(stream)
    for cut in range(len(stream)):
        assert filtered(stream, cuts=(cut,)) == whole
    assert filtered(stream, cuts=tuple(range(len(stream)))) == whole


def test_every_delta_is_of_one_kind_and_none_is_empty_before_the_finish() -> None:
    chunks = chunks_of(filtered(chat_stream(["<think>a", "b</think>c", "d"])))
    kinds = [tuple(choice["delta"]) for chunk in chunks for choice in chunk["choices"]]
    assert kinds == [
        ("role", "content"),
        ("reasoning_content", "reasoning"),
        ("reasoning_content", "reasoning"),
        ("content",),
        ("content",),
        (),
    ]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == 3


def test_text_that_was_held_back_is_not_lost_when_there_is_no_finish() -> None:
    stream = chat_frame({"content": "<thi"}) + done_frame()
    assert put_together(filtered(stream))["content"] == "<thi"


def test_the_last_text_may_come_with_the_finish() -> None:
    stream = chat_frame({"content": "He"}) + chat_frame({"content": "llo"}, finish="stop") + done_frame()
    assert filtered(stream) == stream
    tagged = chat_frame({"content": "<think>a</think>b"}, finish="stop") + done_frame()
    seen = put_together(filtered(tagged))
    assert (seen["reasoning"], seen["content"], seen["finish"]) == ("a", "b", "stop")


def test_each_choice_has_thoughts_of_its_own() -> None:
    frames = [
        chat_frame({"content": text}, index=index)
        for index, text in ((0, "<think>"), (1, "plain"), (0, "a</think>"), (1, " text"), (0, "b"))
    ]
    frames += [chat_frame({}, finish="stop", index=index) for index in range(2)]
    out = filtered(b"".join([*frames, done_frame()]), choices=2)
    assert put_together(out)["reasoning"] == "a"
    assert put_together(out)["content"] == "b"
    assert put_together(out, 1)["content"] == "plain text"


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        pytest.param(
            [call(0, f"c{n}", "f", f'{{"n":{n}}}') for n in range(3)],
            [(f"c{n}", "f", f'{{"n":{n}}}') for n in range(3)],
            id="all-with-index-0",
        ),
        pytest.param(
            [[call(0, f"c{n}", "f", f'{{"n":{n}}}') for n in range(3)]],
            [(f"c{n}", "f", f'{{"n":{n}}}') for n in range(3)],
            id="all-with-index-0-in-one-delta",
        ),
        pytest.param(
            [call(0, None, "f", '{"n":1}'), call(0, None, "g", '{"n":2}')],
            [("call_new0", "f", '{"n":1}'), ("call_new1", "g", '{"n":2}')],
            id="all-with-index-0-and-no-ids",
        ),
        pytest.param(
            [call(1, "a", "f"), call(1, None, None, "{}"), call(2, "b", "g", "{}")],
            [("a", "f", "{}"), ("b", "g", "{}")],
            id="indices-from-1",
        ),
        pytest.param(
            [call(0, "a", "f", '{"x":'), call(0, "a", "f", "1}")],
            [("a", "f", '{"x":1}')],
            id="id-and-name-repeated",
        ),
        pytest.param([call(0, None, "f", {"x": "ü"})], [("call_new0", "f", '{"x":"ü"}')], id="arguments-as-an-object"),
        pytest.param([call(None, "a", "f"), call(None, None, None, "{}")], [("a", "f", "{}")], id="no-index-at-all"),
        pytest.param(
            [
                call(0, "a", "f", '{"x":'),
                call(0, "b", "g", '{"y":'),
                call(0, "a", None, "1}"),
                call(0, "b", None, "2}"),
            ],
            [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')],
            id="interleaved-by-id",
        ),
    ],
)
@pytest.mark.parametrize("finish", ["stop", "tool_calls", "function_call"])
def test_calls_get_their_own_indices_and_ids(
    calls: list[Any], expected: list[tuple[str, str, str]], finish: str
) -> None:
    stream = calls_stream(*calls, finish=finish)
    seen = put_together(filtered(stream))
    assert [(one["id"], one["name"], one["arguments"]) for one in seen["calls"].values()] == expected
    assert list(seen["calls"]) == list(range(len(expected)))
    assert seen["finish"] == "tool_calls"
    for made in seen["calls"].values():
        json.loads(made["arguments"])
    assert filtered(stream, cuts=tuple(range(len(stream)))) == filtered(stream)


def test_one_call_at_a_time_keeps_the_first() -> None:
    stream = calls_stream(*[call(n, f"c{n}", "f", "{}") for n in range(3)])
    seen = put_together(filtered(stream, one_call=True))
    assert [made["id"] for made in seen["calls"].values()] == ["c0"]
    assert seen["finish"] == "tool_calls"


def test_a_turn_that_was_cut_stays_cut() -> None:
    seen = put_together(filtered(calls_stream(call(0, "a", "f", '{"x'), finish="length")))
    assert seen["finish"] == "length"


def test_text_that_speaks_of_tool_calls_is_no_call() -> None:
    stream = chat_stream(['{"tool_calls": [', '"x"]}'])
    assert filtered(stream) == stream


ODD = (
    b"data: {}\n\n",
    b'data: {"choices":null}\n\n',
    b'data: {"choices":[null]}\n\n',
    b'data: {"choices":[{"index":"x","delta":{"content":"a"}}]}\n\n',
    b'data: {"choices":[{"index":7,"delta":{"content":"a"}}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":null}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[null]}}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"function":null}]}}]}\n\n',
    b"data: not json\n\n",
    b": comment\n\n",
)


@pytest.mark.parametrize("odd", ODD)
def test_odd_frames_do_not_break_the_stream(odd: bytes) -> None:
    assert put_together(filtered(odd + chat_stream(["Hi"])).replace(odd, b""))["content"].endswith("Hi")


PIECES = st.lists(
    st.sampled_from(["<think>", "</think>", "<th", "ink>", "a", "\n", " ", "😀", "</", "think>"]), min_size=1
)


@given(pieces=PIECES)
def test_passthrough_and_translation_tell_the_same_thoughts_apart(pieces: list[str]) -> None:
    stream = chat_stream(pieces)
    seen = put_together(filtered(stream))
    reader = EngineStream(new_call_id=lambda: "call_new")
    thought = text = ""
    for event in [*reader.feed(stream), *reader.finish()]:
        match event:
            case Reasoning(piece):
                thought += piece
            case Text(piece):
                text += piece
            case Texts(several):
                text += "".join(several)
            case _:
                pass  # nothing is said
    assert (seen["reasoning"], seen["content"]) == (thought, text)
