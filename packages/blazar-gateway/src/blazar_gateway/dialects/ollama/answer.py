"""Canonical events, as Ollama's answers: lines of JSON, or the last line with everything in it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from blazar_gateway.dialects.events import (
    Event,
    Failed,
    Finished,
    FinishReason,
    Reasoning,
    Started,
    Text,
    Texts,
    ToolCallArguments,
    ToolCallStarted,
    UsageReported,
)

_MS = 1_000_000


@dataclass(slots=True)
class Clock:
    """The times that an answer reports.

    Attributes:
        created_at: Gives the time now, RFC 3339 in UTC with ``Z``.
        elapsed_ns: Gives the nanoseconds since the request came.
        load_ns: Nanoseconds of them that went into loading the model.
    """

    created_at: Callable[[], str]
    elapsed_ns: Callable[[], int]
    load_ns: int = 0


@dataclass(slots=True)
class _Call:
    id: str
    name: str
    arguments: list[str] = field(default_factory=list)


class Lines:
    """Writes one answer as lines.

    Args:
        model: As the client wrote it.
        chat: Whether ``/api/chat`` was asked (a ``message``), not ``/api/generate`` (a ``response``).
        clock: The times to report.
    """

    def __init__(self, *, model: str, chat: bool, clock: Clock) -> None:
        self._model = model
        self._chat = chat
        self._clock = clock
        self._text_tail = b'},"done":false}\n' if chat else b',"done":false}\n'
        self._calls: dict[int, _Call] = {}
        self._finished: Finished | None = None
        self._usage: UsageReported | None = None

    @property
    def finished(self) -> bool:
        """Whether the model said why it stopped; otherwise the answer broke off."""
        return self._finished is not None

    def write_all(self, events: Sequence[Event]) -> bytes:
        """Return the lines for some events."""
        out: list[bytes] = []
        head = b""
        for event in events:
            if type(event) is Texts:
                # What nearly every event is. Those of one read have one time.
                head, tail = head or self._text_head(), self._text_tail
                out += [head + orjson.dumps(text) + tail for text in event.pieces]
            else:
                out += self.write(event)
        return b"".join(out)

    def _text_head(self) -> bytes:
        start = orjson.dumps({"model": self._model, "created_at": self._clock.created_at()})[:-1]
        return start + (b',"message":{"role":"assistant","content":' if self._chat else b',"response":')

    def write(self, event: Event) -> Iterator[bytes]:
        """Yield the lines for one event. A tool call is told whole, when the next begins or the answer ends."""
        match event:
            case Text(text, logprobs):
                yield self._line(text=text, logprobs=logprobs)
            case Texts(pieces):
                for text in pieces:
                    yield self._line(text=text)
            case Reasoning(text):
                yield self._line(thinking=text)
            case ToolCallStarted(index, call_id, name):
                yield from self._whole_calls()
                self._calls[index] = _Call(call_id, name)
            case ToolCallArguments(index, fragment):
                if index in self._calls:
                    self._calls[index].arguments.append(fragment)
            case Finished():
                yield from self._whole_calls(all_of_them=True)
                self._finished = event
            case UsageReported():
                self._usage = event
            case Failed():
                yield line({"error": event.message})
            case Started():
                pass

    def end(self, extra: dict[str, Any] | None = None) -> bytes:
        """Return the last line of an answer that finished, with ``extra`` fields in it."""
        assert self._finished is not None, "an answer that did not finish has no last line"
        return line({**self._frame(), **last_fields(self._finished, self._usage, self._clock), **(extra or {})})

    def _whole_calls(self, *, all_of_them: bool = False) -> Iterator[bytes]:
        """Yield the calls whose arguments are complete, or all that are left."""
        for index, call in list(self._calls.items()):
            arguments = parsed_arguments("".join(call.arguments))
            if not all_of_them and (arguments is None or not call.arguments):
                continue
            del self._calls[index]
            function = {"index": index, "name": call.name, "arguments": arguments or {}}
            yield self._line(calls=[{"id": call.id, "function": function}])

    def _line(
        self,
        *,
        text: str = "",
        thinking: str = "",
        calls: list[dict[str, Any]] | None = None,
        logprobs: Sequence[Mapping[str, Any]] = (),
    ) -> bytes:
        more = {"logprobs": logprobs_of(logprobs)} if logprobs else {}
        return line({**self._frame(text, thinking, calls), "done": False, **more})

    def _frame(self, text: str = "", thinking: str = "", calls: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        frame: dict[str, Any] = {"model": self._model, "created_at": self._clock.created_at()}
        if not self._chat:
            frame["response"] = text
            if thinking:
                frame["thinking"] = thinking
            return frame
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if thinking:
            message["thinking"] = thinking
        if calls:
            message["tool_calls"] = calls
        frame["message"] = message
        return frame


def whole(events: Iterable[Event], *, model: str, chat: bool, clock: Clock) -> tuple[dict[str, Any], Failed | None]:
    """Return the answer as one object, and the failure if it broke."""
    texts: list[str] = []
    thoughts: list[str] = []
    logprobs: list[Mapping[str, Any]] = []
    calls: dict[int, _Call] = {}
    finished = Finished(FinishReason.STOP)
    usage: UsageReported | None = None
    failed: Failed | None = None
    for event in events:
        match event:
            case Text(text, entries):
                texts.append(text)
                logprobs += entries
            case Texts(pieces):
                texts += pieces
            case Reasoning(text):
                thoughts.append(text)
            case ToolCallStarted(index, call_id, name):
                calls[index] = _Call(call_id, name)
            case ToolCallArguments(index, fragment):
                calls[index].arguments.append(fragment)
            case Finished():
                finished = event
            case UsageReported():
                usage = event
            case Failed():
                failed = event
            case Started():
                pass
    body: dict[str, Any] = {"model": model, "created_at": clock.created_at()}
    said: dict[str, Any] = {"role": "assistant", "content": "".join(texts)} if chat else {"response": "".join(texts)}
    if thoughts:
        said["thinking"] = "".join(thoughts)
    if calls:
        said["tool_calls"] = [
            {
                "id": call.id,
                "function": {
                    "index": index,
                    "name": call.name,
                    "arguments": parsed_arguments("".join(call.arguments)) or {},
                },
            }
            for index, call in calls.items()
        ]
    body.update({"message": said} if chat else said)
    if logprobs:
        body["logprobs"] = logprobs_of(logprobs)
    body.update(last_fields(finished, usage, clock))
    return body, failed


def logprobs_of(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return OpenAI's entries in Ollama's form: without the engine's own members."""
    kept = ("token", "logprob", "bytes", "top_logprobs")
    return [{name: entry[name] for name in kept if name in entry} for entry in entries]


def loaded(*, model: str, chat: bool, clock: Clock, unload: bool) -> dict[str, Any]:
    """Return the answer to a request that only loads (or unloads) the model."""
    body: dict[str, Any] = {"model": model, "created_at": clock.created_at()}
    body.update({"message": {"role": "assistant", "content": ""}} if chat else {"response": ""})
    body.update(done=True, done_reason="unload" if unload else "load")
    return body


def last_fields(finished: Finished, usage: UsageReported | None, clock: Clock) -> dict[str, Any]:
    """Return the fields that close an answer; durations are whole nanoseconds."""
    counted = usage or UsageReported(0, 0)
    return {
        "done": True,
        "done_reason": "length" if finished.reason is FinishReason.LENGTH else "stop",
        "total_duration": clock.elapsed_ns(),
        "load_duration": clock.load_ns,
        "prompt_eval_count": counted.prompt_tokens,
        "prompt_eval_duration": round((counted.prompt_ms or 0) * _MS),
        "eval_count": counted.completion_tokens,
        "eval_duration": round((counted.predicted_ms or 0) * _MS),
    }


def parsed_arguments(text: str) -> dict[str, Any] | None:
    """Return a call's arguments as an object, or ``None`` while they are not one."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def line(body: dict[str, Any]) -> bytes:
    """Return one line of JSON; a blank line between two would crash clients."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
