"""Canonical events, as Anthropic's answers: one message, or its stream of events.

The stream keeps one content block open at a time. A block opens with the first piece of its kind and closes when
another kind begins, so indices are contiguous and no empty text block stands in front. What arrives between the slices
of a call's arguments is held back until they are complete, since a call is one block.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
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
from blazar_gateway.dialects.tool_calls import is_complete

SIGNATURE = "blazar"
"""Thinking blocks must carry a signature; nobody checks ours, so it says where it comes from."""

CALLER = {"type": "direct"}
"""Who calls a tool: the model itself, not code that it has written."""

_STOP_REASONS = {
    FinishReason.STOP: "end_turn",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.TOOL_CALLS: "tool_use",
    FinishReason.CONTENT_FILTER: "refusal",
}


_Piece = Reasoning | Text | ToolCallStarted | ToolCallArguments


class MessageStream:
    """Writes one answer as server-sent events.

    Args:
        message_id: ``msg_...``.
        model: As the client wrote it.
        show_thinking: Whether thinking blocks carry their text.
        prompt_tokens: An estimate for ``message_start``; the exact count comes at the end.
    """

    def __init__(self, *, message_id: str, model: str, show_thinking: bool, prompt_tokens: int = 0) -> None:
        self._message = empty_message(message_id, model, prompt_tokens)
        self._show_thinking = show_thinking
        self._index = -1
        self._open: str | None = None
        self._finished: Finished | None = None
        self._usage: UsageReported | None = None
        self._started = False
        self._text_head = b""
        self._call: int | None = None
        self._arguments = ""
        self._held: list[_Piece] = []

    def begin(self) -> Iterator[bytes]:
        """Yield the opening frame, once; it may be sent before the engine has said anything."""
        if not self._started:
            self._started = True
            yield frame("message_start", {"message": self._message})

    def write_all(self, events: Sequence[Event]) -> bytes:
        """Return the frames for some events."""
        out: list[bytes] = []
        for event in events:
            if type(event) is Texts and self._open == "text":
                # What nearly every event is; the block is open and no call is, so the frames are all there is to it.
                head = self._text_head
                out += [head + orjson.dumps(text) + b"}}\n\n" for text in event.pieces]
            else:
                out += self.write(event)
        return b"".join(out)

    def write(self, event: Event) -> Iterator[bytes]:
        """Yield the frames for one event."""
        if not isinstance(event, Failed):
            yield from self.begin()
        match event:
            case Started():
                pass
            case Texts(pieces):
                for text in pieces:
                    yield from self._piece(Text(text))
            case Finished():
                self._finished = event
            case UsageReported():
                self._usage = event
            case Failed():
                yield frame("error", {"error": {"type": error_type(event.status), "message": event.message}})
            case _:
                yield from self._piece(event)

    def end(self) -> Iterator[bytes]:
        """Yield the closing frames of an answer that finished."""
        assert self._finished is not None, "an answer that did not finish has no tidy end"
        while self._held:
            yield from self._release()
        yield from self._close()
        reason, sequence = stop_reason(self._finished)
        delta = {"stop_reason": reason, "stop_sequence": sequence, "stop_details": None, "container": None}
        yield frame("message_delta", {"delta": delta, "usage": usage_body(self._usage)})
        yield frame("message_stop", {})

    @property
    def finished(self) -> bool:
        """Whether the model said why it stopped; otherwise the answer broke off."""
        return self._finished is not None

    def _piece(self, event: _Piece) -> Iterator[bytes]:
        """Yield the frames of one piece, or hold it back while a call's arguments are incomplete."""
        if self._call is None:
            yield from self._show(event)
        elif isinstance(event, ToolCallArguments) and event.index == self._call:
            yield from self._show(event)
            if self._held and is_complete(self._arguments):
                yield from self._release()
        elif self._held or not is_complete(self._arguments):
            self._held.append(event)
        else:
            yield from self._show(event)

    def _release(self) -> Iterator[bytes]:
        """Leave the open call and let what was held back follow."""
        held, self._held, self._call = self._held, [], None
        for event in held:
            yield from self._piece(event)

    def _show(self, event: _Piece) -> Iterator[bytes]:
        match event:
            case Reasoning(text):
                yield from self._ensure("thinking", {"type": "thinking", "thinking": "", "signature": ""})
                if self._show_thinking:
                    yield self._delta({"type": "thinking_delta", "thinking": text})
            case Text(text):
                yield from self._ensure("text", {"type": "text", "text": "", "citations": None})
                yield self._delta({"type": "text_delta", "text": text})
            case ToolCallStarted(index, call_id, name):
                block = {"type": "tool_use", "id": tool_use_id(call_id), "name": name, "input": {}, "caller": CALLER}
                yield from self._ensure(f"tool {index}", block)
                self._call, self._arguments = index, ""
            case ToolCallArguments(index, fragment):
                # Slices for a call whose arguments were complete already say nothing new.
                if self._open == f"tool {index}":
                    self._arguments += fragment
                    yield self._delta({"type": "input_json_delta", "partial_json": fragment})

    def _ensure(self, kind: str, block: dict[str, Any]) -> Iterator[bytes]:
        if self._open == kind:
            return
        yield from self._close()
        self._index += 1
        self._open = kind
        self._text_head = (
            f'event: content_block_delta\ndata: {{"type":"content_block_delta","index":{self._index},'
            '"delta":{"type":"text_delta","text":'
        ).encode()
        yield frame("content_block_start", {"index": self._index, "content_block": block})

    def _close(self) -> Iterator[bytes]:
        if self._open is None:
            return
        if self._open == "thinking":
            yield self._delta({"type": "signature_delta", "signature": SIGNATURE})
        self._open = self._call = None
        yield frame("content_block_stop", {"index": self._index})

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return frame("content_block_delta", {"index": self._index, "delta": delta})


PING = b'event: ping\ndata: {"type":"ping"}\n\n'


def frame(kind: str, body: dict[str, Any]) -> bytes:
    """Return one event; both lines are needed, clients drop frames without ``event:``."""
    data = json.dumps({"type": kind, **body}, ensure_ascii=False, separators=(",", ":"))
    return f"event: {kind}\ndata: {data}\n\n".encode("utf-8", "replace")


def message(
    events: Iterable[Event], *, message_id: str, model: str, show_thinking: bool
) -> tuple[dict[str, Any], Failed | None]:
    """Return the whole answer as one message, and the failure if it broke."""
    thoughts: list[str] = []
    texts: list[str] = []
    calls: dict[int, tuple[str, str, list[str]]] = {}
    finished = Finished(FinishReason.STOP)
    usage: UsageReported | None = None
    failed: Failed | None = None
    for event in events:
        match event:
            case Started():
                pass
            case Reasoning(text):
                thoughts.append(text)
            case Text(text):
                texts.append(text)
            case Texts(pieces):
                texts += pieces
            case ToolCallStarted(index, call_id, name):
                calls[index] = (call_id, name, [])
            case ToolCallArguments(index, fragment):
                calls[index][2].append(fragment)
            case Finished():
                finished = event
            case UsageReported():
                usage = event
            case Failed():
                failed = event
    content: list[dict[str, Any]] = []
    if thoughts:
        shown = "".join(thoughts) if show_thinking else ""
        content.append({"type": "thinking", "thinking": shown, "signature": SIGNATURE})
    if texts:
        content.append({"type": "text", "text": "".join(texts), "citations": None})
    for call_id, name, pieces in calls.values():
        content.append(
            {
                "type": "tool_use",
                "id": tool_use_id(call_id),
                "name": name,
                "input": parsed_input("".join(pieces)),
                "caller": CALLER,
            }
        )
    reason, sequence = stop_reason(finished)
    body = empty_message(message_id, model, 0)
    body.update(content=content, stop_reason=reason, stop_sequence=sequence, usage=usage_body(usage))
    return body, failed


def empty_message(message_id: str, model: str, prompt_tokens: int) -> dict[str, Any]:
    """Return the message as it is before anything was generated, with every key validators ask for."""
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "usage": usage_body(UsageReported(prompt_tokens, 0)),
    }


def usage_body(usage: UsageReported | None) -> dict[str, Any]:
    """Return the counts in Anthropic's form: ``input_tokens`` leaves out the cached ones."""
    counted = usage or UsageReported(0, 0)
    return {
        "input_tokens": max(0, counted.prompt_tokens - counted.cached_tokens),
        "output_tokens": counted.completion_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": counted.cached_tokens,
        "cache_creation": None,
        "inference_geo": None,
        "output_tokens_details": {"thinking_tokens": counted.reasoning_tokens},
        "server_tool_use": None,
        "service_tier": "standard",
    }


def stop_reason(finished: Finished) -> tuple[str, str | None]:
    """Return Anthropic's word for why the model stopped, and the stop string it met."""
    if finished.stop_sequence is not None:
        return "stop_sequence", finished.stop_sequence
    return _STOP_REASONS[finished.reason], None


def tool_use_id(call_id: str) -> str:
    """Return a call's id with the prefix that Anthropic's have."""
    return call_id if call_id.startswith("toolu_") else f"toolu_{call_id.removeprefix('call_')}"


def parsed_input(arguments: str) -> dict[str, Any]:
    """Return a call's arguments as an object; what is not one becomes ``{}``, never a string."""
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def error_type(status: int) -> str:
    """Return Anthropic's error type for an HTTP status."""
    return {
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        409: "conflict_error",
        413: "request_too_large",
        429: "rate_limit_error",
        503: "overloaded_error",
        504: "timeout_error",
        529: "overloaded_error",
    }.get(status, "invalid_request_error" if status < 500 else "api_error")
