"""On the real engine: the bytes that leave it are the bytes that the client gets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.home import temporary_home
from e2e.http import Answer, decode_events
from e2e.recording_engine import install_recording_engine, recorded_answers
from e2e.served import Served, serving
from e2e.waiting import eventually

MODEL = "tiny"


@pytest.fixture(scope="module")
def recorded(engine: Path, weights: dict[str, Path]) -> Iterator[tuple[Served, Path]]:
    """A daemon whose engine's answers are written down, and where."""
    with temporary_home() as home:
        launcher, records = install_recording_engine(home.root / "engine", engine)
        home.ok("engine", "add-local", launcher)
        home.ok("models", "add", weights[MODEL], "--name", MODEL)
        with serving(home) as daemon:
            assert daemon.client.chat(MODEL, max_tokens=1).status == 200
            yield Served(home, daemon), records


def _streams(records: Path) -> list[Answer]:
    return [
        answer
        for answer in recorded_answers(records)
        if (answer.header("content-type") or "").startswith("text/event-stream")
    ]


def _ask(recorded: tuple[Served, Path], **fields: Any) -> tuple[Answer, Answer]:
    """Return what the engine sent and what the client got, for one streamed chat."""
    served, records = recorded
    before = len(_streams(records))
    got = served.client.chat(MODEL, stream=True, **fields)
    sent = eventually(lambda: _streams(records)[before:], what="the engine's answer is written down")
    assert len(sent) == 1
    return sent[0], got


@pytest.mark.promise("stream:verbatim")
def test_a_stream_with_usage_is_passed_on_byte_for_byte(recorded: tuple[Served, Path]) -> None:
    sent, got = _ask(recorded, stream_options={"include_usage": True})
    assert got.body == sent.body
    assert got.body.endswith(b"data: [DONE]\n\n")
    assert got.events()[0]["model"] == MODEL


@pytest.mark.promise("stream:verbatim")
def test_without_usage_only_the_usage_frame_is_missing(recorded: tuple[Served, Path]) -> None:
    sent, got = _ask(recorded)
    frames = sent.body.split(b"\n\n")
    usage = [frame for frame in frames if b'"usage"' in frame]
    assert len(usage) == 1
    ours = got.body.split(b"\n\n")
    # The finish frame takes over the timings that the engine moves to the usage frame; all else is untouched.
    assert [frame for frame in ours if b'"finish_reason":"' not in frame] == [
        frame for frame in frames if frame not in usage and b'"finish_reason":"' not in frame
    ]
    (finish,) = [frame for frame in decode_events(got.body)[:-1] if frame["choices"][0]["finish_reason"]]
    (counted,) = decode_events(usage[0] + b"\n\n")
    assert finish["timings"] == counted["timings"]


@pytest.mark.promise("stream:verbatim")
def test_a_whole_answer_has_the_fields_of_the_engine_s_own(recorded: tuple[Served, Path], engine: Path) -> None:
    served, _ = recorded
    assembled = served.client.chat(MODEL).json()
    assert set(assembled) == {
        *("choices", "created", "id", "model", "object", "system_fingerprint", "timings", "usage"),
    }
    # Two more than the engine's, null though they be: validators of OpenAI's schema want them.
    assert set(assembled["choices"][0]) == {"finish_reason", "index", "message", "logprobs"}
    assert assembled["choices"][0]["message"] == {
        "role": "assistant",
        "content": "one two three four five six seven eight nine ten",
        "refusal": None,
    }
    assert assembled["object"] == "chat.completion"
    assert set(assembled["usage"]) >= {"completion_tokens", "prompt_tokens", "total_tokens"}
