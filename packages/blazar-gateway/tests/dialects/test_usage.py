"""Tokens over choices and prompts."""

from blazar_gateway.dialects.openai.usage import Usage, UsageTally
from blazar_gateway.testing.frames import usage_object


def tally(*frames: dict[str, object], choices: int = 1, prompts: int = 1) -> UsageTally:
    made = UsageTally(choices=choices, prompts=prompts)
    for frame in frames:
        made.add(frame)
    return made


def test_one_frame_stays_as_the_engine_wrote_it() -> None:
    frame = {**usage_object(9, 4, 3), "queue_time": 0.5}
    assert tally(frame).object() is frame
    assert tally(frame).total() == Usage(9, 4, 3)


def test_choices_add_up_and_the_prompt_counts_once() -> None:
    frames = [usage_object(32, tokens, 31) for tokens in (2, 5, 7)]
    made = tally(*frames, choices=3)
    assert made.object() == usage_object(32, 14, 31)
    assert made.total() == Usage(32, 14, 31)


def test_prompts_add_up() -> None:
    assert tally(usage_object(2, 3), usage_object(5, 4), prompts=2).object() == usage_object(7, 7)


def test_prompts_times_choices() -> None:
    frames = [usage_object(2, 1), usage_object(2, 1), usage_object(5, 1), usage_object(5, 1)]
    assert tally(*frames, choices=2, prompts=2).object() == usage_object(7, 4)


def test_engine_that_sums_itself_is_believed() -> None:
    assert tally(usage_object(9, 30), choices=3).object() == usage_object(9, 30)


def test_engine_that_counts_in_each_chunk_is_read_at_the_end() -> None:
    assert tally(*(usage_object(9, tokens) for tokens in range(5))).object() == usage_object(9, 4)


def test_nothing_reported_is_nothing_counted() -> None:
    assert tally().total() == Usage()
    assert tally({"prompt_tokens": None, "prompt_tokens_details": None}).total() == Usage()


def test_answer_that_broke_off_counts_what_came() -> None:
    made = tally(choices=2)
    made.pieces = 12
    assert made.total() == Usage(completion_tokens=12)
    made.add(usage_object(9, 30))
    assert made.total() == Usage(9, 30)
