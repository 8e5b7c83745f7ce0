"""Canonical events, as the Responses API's stream and as its finished object.

One writer serves both: a client that did not ask for a stream gets the object that the stream's last event carries.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from blazar_gateway.dialects.responses.response import usage_object


class ResponseStream:
    """Writes one response as server-sent events and builds its object along the way.

    Args:
        response: The object as :func:`~blazar_gateway.dialects.responses.response.response_object` gives it; it is
            filled in as events come.
        new_id: Makes an id with the prefix given: ``msg``, ``fc``, ``rs``.
        now: Gives unix seconds.
        custom_tools: Names of free-form tools: their calls are told as ``custom_tool_call`` items.
    """

    def __init__(
        self,
        response: dict[str, Any],
        *,
        new_id: Callable[[str], str],
        now: Callable[[], int],
        custom_tools: frozenset[str] = frozenset(),
    ) -> None:
        self.response = response
        self._new_id = new_id
        self._now = now
        self._custom = custom_tools
        self._sequence = 0
        self._begun = False
        self._open: dict[str, Any] | None = None
        self._calls: dict[int, dict[str, Any]] = {}
        self._pieces: list[str] = []
        self._logprobs: list[dict[str, Any]] = []
        self._text_at: tuple[bytes, bytes] | None = None
        self._finished: Finished | None = None
        self._usage: UsageReported | None = None

    @property
    def finished(self) -> bool:
        """Whether the model said why it stopped; otherwise the answer broke off."""
        return self._finished is not None

    def begin(self) -> Iterator[bytes]:
        """Yield the opening frames; they may be sent before the engine has said anything."""
        if not self._begun:
            self._begun = True
            yield self._frame("response.created", {"response": self.response})
            yield self._frame("response.in_progress", {"response": self.response})

    def write(self, event: Event) -> Iterator[bytes]:
        """Yield the frames for one event."""
        yield from self.begin()
        match event:
            case Started():
                pass
            case Reasoning(text):
                yield from self._ensure("reasoning")
                yield self._delta("response.reasoning_text.delta", text)
            case Texts(pieces):
                for text in pieces:
                    yield from self.write(Text(text))
            case Text(text, entries):
                yield from self._ensure("message")
                logprobs = logprobs_of(entries)
                self._logprobs += logprobs
                yield self._delta("response.output_text.delta", text, logprobs=logprobs)
            case ToolCallStarted(index, call_id, name):
                yield from self._close()
                yield from self._add_call(index, call_id, name)
            case ToolCallArguments(index, fragment):
                yield from self._arguments(index, fragment)
            case Finished():
                self._finished = event
            case UsageReported():
                self._usage = event
            case Failed():
                yield from self._fail(event)

    def write_all(self, events: Sequence[Event]) -> bytes:
        """Return the frames for some events."""
        out: list[bytes] = []
        for event in events:
            if type(event) is Texts and self._text_at:
                # What nearly every event is: more pieces of the message that is open.
                self._pieces += event.pieces
                head, middle = self._text_at
                numbers = range(self._sequence, self._sequence + len(event.pieces))
                self._sequence = numbers.stop
                out += [
                    b"%b%d%b%b}\n\n" % (head, number, middle, orjson.dumps(text))
                    for number, text in zip(numbers, event.pieces, strict=True)
                ]
            else:
                out += self.write(event)
        return b"".join(out)

    def end(self) -> Iterator[bytes]:
        """Yield the closing frames of an answer that finished, and complete the object."""
        assert self._finished is not None, "an answer that did not finish has no tidy end"
        yield from self.begin()
        yield from self._close()
        for index in list(self._calls):
            yield from self._finish_call(index)
        self.response["usage"] = usage_object(self._usage)
        self.response["completed_at"] = self._now()
        if self._finished.reason is FinishReason.LENGTH:
            self.response["status"] = "incomplete"
            self.response["incomplete_details"] = {"reason": "max_output_tokens"}
            yield self._frame("response.incomplete", {"response": self.response})
        elif self._finished.reason is FinishReason.CONTENT_FILTER:
            self.response["status"] = "incomplete"
            self.response["incomplete_details"] = {"reason": "content_filter"}
            yield self._frame("response.incomplete", {"response": self.response})
        else:
            self.response["status"] = "completed"
            yield self._frame("response.completed", {"response": self.response})

    def _fail(self, event: Failed) -> Iterator[bytes]:
        self.response["status"] = "failed"
        self.response["error"] = {"code": "server_error", "message": event.message}
        self.response["usage"] = usage_object(self._usage)
        yield self._frame("response.failed", {"response": self.response})

    def _ensure(self, kind: str) -> Iterator[bytes]:
        """Have an item of ``kind`` (``message`` or ``reasoning``) open."""
        if self._open is not None and self._open["type"] == kind:
            return
        yield from self._close()
        if kind == "message":
            item: dict[str, Any] = {"type": "message", "id": self._new_id("msg"), "status": "in_progress"}
            item.update(role="assistant", content=[])
            part: dict[str, Any] = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        else:
            item = {"type": "reasoning", "id": self._new_id("rs"), "status": "in_progress", "summary": []}
            item.update(content=[], encrypted_content=None)
            part = {"type": "reasoning_text", "text": ""}
        self._open, self._pieces, self._logprobs = item, [], []
        yield from self._added(item)
        yield self._frame("response.content_part.added", {**self._at(item), "content_index": 0, "part": part})
        if kind == "message":
            where = orjson.dumps({**self._at(item), "content_index": 0, "logprobs": []})[1:-1]
            head = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":'
            self._text_at = head, b"," + where + b',"delta":'

    def _delta(self, kind: str, text: str, **more: Any) -> bytes:
        assert self._open is not None
        self._pieces.append(text)
        return self._frame(kind, {**self._at(self._open), "content_index": 0, "delta": text, **more})

    def _close(self) -> Iterator[bytes]:
        """Close the open message or reasoning item."""
        item, self._open, self._text_at = self._open, None, None
        if item is None:
            return
        at = {**self._at(item), "content_index": 0}
        text = "".join(self._pieces)
        if item["type"] == "message":
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": self._logprobs}
            yield self._frame("response.output_text.done", {**at, "text": text, "logprobs": self._logprobs})
        else:
            part = {"type": "reasoning_text", "text": text}
            yield self._frame("response.reasoning_text.done", {**at, "text": text})
        yield self._frame("response.content_part.done", {**at, "part": part})
        item["content"] = [part]
        yield from self._done(item)

    def _add_call(self, index: int, call_id: str, name: str) -> Iterator[bytes]:
        kind, field = ("custom_tool_call", "input") if name in self._custom else ("function_call", "arguments")
        item = {"type": kind, "id": self._new_id("fc"), "status": "in_progress"}
        item.update({"call_id": call_id, "name": name, field: ""})
        self._calls[index] = {"item": item, "arguments": ""}
        yield from self._added(item)

    def _arguments(self, index: int, fragment: str) -> Iterator[bytes]:
        call = self._calls.get(index)
        if call is None:
            return
        call["arguments"] += fragment
        if call["item"]["type"] == "function_call":
            body = {**self._at(call["item"]), "delta": fragment}
            yield self._frame("response.function_call_arguments.delta", body)

    def _finish_call(self, index: int) -> Iterator[bytes]:
        call = self._calls.pop(index)
        item, arguments = call["item"], call["arguments"] or "{}"
        if item["type"] == "function_call":
            item["arguments"] = arguments
            body = {**self._at(item), "name": item["name"], "arguments": arguments}
            yield self._frame("response.function_call_arguments.done", body)
        else:
            item["input"] = free_form_input(arguments)
            yield self._frame("response.custom_tool_call_input.done", {**self._at(item), "input": item["input"]})
        yield from self._done(item)

    def _added(self, item: dict[str, Any]) -> Iterator[bytes]:
        self.response["output"].append(item)
        shown = {"output_index": self._index(item), "item": item}
        yield self._frame("response.output_item.added", shown)

    def _done(self, item: dict[str, Any]) -> Iterator[bytes]:
        item["status"] = "completed"
        yield self._frame("response.output_item.done", {"output_index": self._index(item), "item": item})

    def _at(self, item: dict[str, Any]) -> dict[str, Any]:
        return {"item_id": item["id"], "output_index": self._index(item)}

    def _index(self, item: dict[str, Any]) -> int:
        return next(at for at, other in enumerate(self.response["output"]) if other is item)

    def _frame(self, kind: str, body: dict[str, Any]) -> bytes:
        # The first events show the response as it was then: nothing in its output yet.
        data = {"type": kind, "sequence_number": self._sequence, **body}
        self._sequence += 1
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        return f"event: {kind}\ndata: {text}\n\n".encode("utf-8", "replace")


def logprobs_of(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return chat entries as this API has them: without the engine's own members."""
    kept = ("token", "logprob", "bytes", "top_logprobs")
    return [{name: entry[name] for name in kept if name in entry} for entry in entries]


def free_form_input(arguments: str) -> str:
    """Return the one string of a free-form tool's call."""
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    return str(value.get("input", "")) if isinstance(value, dict) else arguments
