"""Reading a streamed chat answer: lines of an event stream in, typed events out."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from blazar_cli.client import read_error
from blazar_cli.errors import ApiRefused, CliError


class AnswerIncomplete(CliError):
    """The stream ended without its end marker."""

    def __init__(self) -> None:
        super().__init__(
            "the answer ended too early: the stream has no end marker. Ask again; `blazar logs` may say what happened."
        )


@dataclass(frozen=True, slots=True)
class Thinking:
    """A piece of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """A comment of the server while the request waits."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer is complete.

    Attributes:
        reason: ``stop``, ``length``, ``tool_calls`` or what else the engine says.
        usage: Token counts as the server gave them.
        timings: The engine's own measurements, milliseconds and tokens per second.
    """

    reason: str = ""
    usage: dict[str, object] = field(default_factory=dict)
    timings: dict[str, object] = field(default_factory=dict)


Event = Thinking | Text | Note | Finished


def read_answer(lines: Iterable[bytes]) -> Iterator[Event]:
    """Yield the events of a streamed chat completion; the last one is :class:`Finished`.

    Args:
        lines: The stream's lines without their ends.

    Raises:
        ApiRefused: The server reported an error inside the stream.
        AnswerIncomplete: The stream ended before its end marker.
    """
    reason = ""
    usage: dict[str, object] = {}
    timings: dict[str, object] = {}
    for line in lines:
        if line.startswith(b":"):
            yield Note(line[1:].decode(errors="replace").strip())
            continue
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            yield Finished(reason, usage, timings)
            return
        chunk = _chunk(data)
        usage = _object(chunk.get("usage")) or usage
        timings = _object(chunk.get("timings")) or timings
        for choice in _objects(chunk.get("choices")):
            yield from _pieces(_object(choice.get("delta")))
            reason = str(choice.get("finish_reason") or reason)
    raise AnswerIncomplete


def _pieces(delta: dict[str, object]) -> Iterator[Event]:
    thinking = delta.get("reasoning_content") or delta.get("reasoning")
    if isinstance(thinking, str) and thinking:
        yield Thinking(thinking)
    text = delta.get("content")
    if isinstance(text, str) and text:
        yield Text(text)


def _chunk(data: bytes) -> dict[str, object]:
    try:
        chunk = _object(json.loads(data))
    except ValueError:
        return {}
    if (found := read_error(data)) is not None:
        text, code = found
        raise ApiRefused(text, code=code, http_status=200)
    return chunk


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[dict[str, object]]:
    return [_object(item) for item in value] if isinstance(value, list) else []
