import json

import pytest

from blazar_cli.chat.answer import AnswerIncomplete, Finished, Note, Text, Thinking, read_answer
from blazar_cli.errors import ApiRefused
from blazar_cli.exit_codes import ExitCode


def data(chunk: object) -> bytes:
    return b"data: " + json.dumps(chunk).encode()


def delta(**fields: object) -> bytes:
    return data({"choices": [{"index": 0, "delta": fields, "finish_reason": None}]})


DONE = b"data: [DONE]"


def test_text_and_thinking_are_told_apart_under_both_names() -> None:
    lines = [
        delta(role="assistant", content=None),
        b"",
        delta(reasoning_content="Hm. "),
        delta(reasoning="So."),
        delta(content="Yes"),
        data({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "timings": {"predicted_per_second": 9}}),
        data({"choices": [], "usage": {"completion_tokens": 3}}),
        DONE,
    ]
    assert list(read_answer(lines)) == [
        Thinking("Hm. "),
        Thinking("So."),
        Text("Yes"),
        Finished("stop", {"completion_tokens": 3}, {"predicted_per_second": 9}),
    ]


def test_comments_are_notes_and_other_fields_are_passed_over() -> None:
    lines = [b": loading m", b"event: x", b"retry: 3", b"data:", data("odd"), data({"choices": None}), DONE]
    assert list(read_answer(lines)) == [Note("loading m"), Finished()]


def test_an_error_inside_the_stream_ends_it_with_the_servers_own_text_and_code() -> None:
    lines = [delta(content="Half"), data({"error": {"message": "it died", "code": "engine_crashed", "type": "x"}})]
    events = read_answer(lines)
    assert next(events) == Text("Half")
    with pytest.raises(ApiRefused) as refused:
        next(events)
    assert str(refused.value) == "it died"
    assert refused.value.exit_code is ExitCode.ENGINE


def test_a_stream_without_its_end_marker_is_not_taken_for_an_answer() -> None:
    with pytest.raises(AnswerIncomplete):
        list(read_answer([delta(content="Half")]))
