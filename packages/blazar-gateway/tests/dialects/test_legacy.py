"""Text completions: three lists of probabilities, the prompt in front, and the best of several."""

import json
from typing import Any

from blazar_gateway.dialects.openai.legacy import Echo, Reshaping, Wishes, check_prompts, take_wishes
from blazar_gateway.testing.frames import completion_frame, done_frame


def wishes(prompt: object = "Once", **fields: Any) -> Wishes:
    return take_wishes(dict(fields), check_prompts(prompt))


def entry(token: str, logprob: float, **others: float) -> dict[str, Any]:
    alternatives = [{"token": name, "logprob": value, "bytes": None} for name, value in others.items()]
    return {"id": 1, "token": token, "logprob": logprob, "bytes": None, "top_logprobs": alternatives}


def choice(text: str, *entries: dict[str, Any], index: int = 0, finish: str | None = "stop") -> dict[str, Any]:
    logprobs = {"content": list(entries)} if entries else None
    return {"text": text, "index": index, "logprobs": logprobs, "finish_reason": finish}


def test_probabilities_are_lists_beside_each_other() -> None:
    answer = {"choices": [choice(" upon a", entry(" upon", -0.5, **{" upon": -0.5, " the": -1.0}), entry(" a", -0.25))]}
    made: Any = Reshaping(wishes(logprobs=2)).answer(answer)
    assert made["choices"] == [
        {
            "text": " upon a",
            "index": 0,
            "logprobs": {
                "tokens": [" upon", " a"],
                "token_logprobs": [-0.5, -0.25],
                "top_logprobs": [{" upon": -0.5, " the": -1.0}, {" a": -0.25}],
                "text_offset": [0, 5],
            },
            "finish_reason": "stop",
        }
    ]


def test_an_echo_comes_first_and_its_tokens_have_no_probabilities() -> None:
    reshaping = Reshaping(wishes(logprobs=1, echo=True), [Echo("Once upon", ["Once", " upon"])])
    made: Any = reshaping.answer({"choices": [choice(" a", entry(" a", -0.25))]})
    [shown] = made["choices"]
    assert shown["text"] == "Once upon a"
    assert shown["logprobs"] == {
        "tokens": ["Once", " upon", " a"],
        "token_logprobs": [None, None, -0.25],
        "top_logprobs": [None, None, {" a": -0.25}],
        "text_offset": [0, 4, 9],
    }
    assert "".join(shown["logprobs"]["tokens"]) == shown["text"]


def test_each_prompt_is_echoed_before_each_of_its_choices() -> None:
    reshaping = Reshaping(wishes(["a", "b"], n=2, echo=True), [Echo("a"), Echo("b")])
    made: Any = reshaping.answer({"choices": [choice(str(index), index=index) for index in range(4)]})
    assert [shown["text"] for shown in made["choices"]] == ["a0", "a1", "b2", "b3"]
    assert [shown["logprobs"] for shown in made["choices"]] == [None] * 4


def test_the_likeliest_of_each_prompt_are_kept_and_numbered_anew() -> None:
    given = [(0, "x", -2.0), (1, "y", -0.5), (2, "z", -1.0), (3, "u", -0.1), (4, "v", -3.0), (5, "w", -0.2)]
    answer = {"choices": [choice(text, entry(text, value), index=index) for index, text, value in given]}
    made: Any = Reshaping(wishes(["a", "b"], n=2, best_of=3)).answer(answer)
    assert [(shown["index"], shown["text"]) for shown in made["choices"]] == [(0, "y"), (1, "z"), (2, "u"), (3, "w")]
    assert [shown["logprobs"] for shown in made["choices"]] == [None] * 4


def test_likelihood_is_by_token_not_by_length() -> None:
    long = choice("aaa", *(entry("a", -0.4) for _ in range(3)), index=0)
    short = choice("b", entry("b", -1.0), index=1)
    made: Any = Reshaping(wishes(best_of=2)).answer({"choices": [short, long]})
    assert [shown["text"] for shown in made["choices"]] == ["aaa"]


def chunks_of(frames: bytes) -> list[Any]:
    return [json.loads(frame[6:]) for frame in frames.split(b"\n\n") if frame and frame != b"data: [DONE]"]


def test_a_stream_counts_its_offsets_through_and_echoes_once() -> None:
    reshaping = Reshaping(wishes(logprobs=1, echo=True), [Echo("Once", ["Once"])])
    frames = b"".join(
        completion_frame(text, logprobs={"content": [entry(text, -0.5)]}) for text in (" upon", " a", " time")
    )
    frames += completion_frame("", finish="stop") + done_frame()
    out = reshaping.stream(frames)
    assert out.endswith(done_frame())
    shown = [chunk["choices"][0] for chunk in chunks_of(out)]
    assert [one["text"] for one in shown] == ["Once upon", " a", " time", ""]
    assert [one["logprobs"]["text_offset"] for one in shown] == [[0, 4], [9], [11], []]


def test_nothing_generated_is_only_the_echo() -> None:
    reshaping = Reshaping(wishes(max_tokens=0, echo=True), [Echo("Once")])
    made: Any = reshaping.answer({"choices": [choice(" upon", finish="length")]})
    assert [(shown["text"], shown["finish_reason"]) for shown in made["choices"]] == [("Once", "length")]


def test_frames_that_are_no_choices_pass() -> None:
    frames = b": ping\n\n" + b'data: {"choices":[],"usage":{}}\n\n' + b'data: {"error":{"message":"x"}}\n\n'
    assert Reshaping(wishes(echo=True), [Echo("Once")]).stream(frames) == frames
