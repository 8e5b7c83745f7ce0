"""From the engine's chat chunks to canonical events, repairing what engines get wrong.

Repairs, each seen in the field:

* parallel tool calls that all carry index 0: a new id at a known index is a new call;
* calls without an id, or with the id repeated in every piece; arguments as an object instead of a string;
* a tool turn that finishes with ``stop``: it is ``tool_calls``; ``length`` stays ``length``;
* reasoning under ``reasoning`` instead of ``reasoning_content``;
* chunks without ``choices``, with ``choices: []``, or that are ``null``.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from blazar_gateway.dialects.events import (
    Event,
    Failed,
    Finished,
    FinishReason,
    Reasoning,
    Started,
    Text,
    ToolCallArguments,
    ToolCallStarted,
    UsageReported,
)


class ChatEvents:
    """Turns the parsed chunks of one answer into events, in order.

    Args:
        new_call_id: Makes an id for a call that came without one.
    """

    def __init__(self, *, new_call_id: Callable[[], str]) -> None:
        self._new_call_id = new_call_id
        self._started = False
        self._finished = False
        self._calls: dict[Any, int] = {}
        self._ids: dict[int, str] = {}
        self._last_call = -1

    def read(self, chunk: object) -> Iterator[Event]:
        """Yield the events of one chunk, as parsed from a ``data:`` line."""
        if not isinstance(chunk, dict):
            return
        if error := chunk.get("error"):
            yield failure(error)
            return
        if not self._started:
            self._started = True
            yield Started(id=str(chunk.get("id") or ""), created=_integer(chunk.get("created")))
        for choice in chunk.get("choices") or ():
            if isinstance(choice, dict) and not choice.get("index"):
                yield from self._choice(choice)
        if "choices" not in chunk and isinstance(chunk.get("content"), str):
            yield from self._native(chunk)
        if usage := chunk.get("usage"):
            yield usage_reported(usage, chunk.get("timings"))

    def _choice(self, choice: Mapping[str, Any]) -> Iterator[Event]:
        delta = choice.get("delta") or choice.get("message") or {}
        if reasoning := delta.get("reasoning_content") or delta.get("reasoning"):
            yield Reasoning(str(reasoning))
        # Text completions have their text in the choice itself.
        if text := delta.get("content") or choice.get("text"):
            yield Text(str(text), _logprobs(choice.get("logprobs")))
        for call in delta.get("tool_calls") or ():
            if isinstance(call, dict):
                yield from self._tool_call(call)
        if (reason := choice.get("finish_reason")) and not self._finished:
            self._finished = True
            yield Finished(self._reason(str(reason)))

    def _native(self, chunk: Mapping[str, Any]) -> Iterator[Event]:
        """Yield the events of a chunk in llama-server's own form (``/completion``, ``/infill``)."""
        if chunk["content"]:
            yield Text(chunk["content"])
        if chunk.get("stop") and not self._finished:
            self._finished = True
            yield Finished(FinishReason.LENGTH if chunk.get("stop_type") == "limit" else FinishReason.STOP)
            counts = {
                "prompt_tokens": chunk.get("tokens_evaluated"),
                "completion_tokens": chunk.get("tokens_predicted"),
            }
            yield usage_reported(counts, chunk.get("timings"))

    def _tool_call(self, call: Mapping[str, Any]) -> Iterator[Event]:
        function = call.get("function") or {}
        wire_index, wire_id = call.get("index"), call.get("id") or None
        index = self._calls.get(wire_index)
        if index is None or (wire_id is not None and self._ids[index] != wire_id):
            known = next((known for known, id_ in self._ids.items() if id_ == wire_id), None)
            index = known if known is not None else self._last_call + 1
            self._calls[wire_index] = index
            if known is None:
                self._last_call = index
                self._ids[index] = wire_id or self._new_call_id()
                yield ToolCallStarted(index, self._ids[index], str(function.get("name") or ""))
        arguments = function.get("arguments")
        if isinstance(arguments, dict | list):
            yield ToolCallArguments(index, json.dumps(arguments, ensure_ascii=False))
        elif arguments:
            yield ToolCallArguments(index, str(arguments))

    def _reason(self, word: str) -> FinishReason:
        if word == "function_call" or (word == "stop" and self._ids):
            return FinishReason.TOOL_CALLS
        try:
            return FinishReason(word)
        except ValueError:
            return FinishReason.STOP


def usage_reported(usage: Mapping[str, Any], timings: object) -> UsageReported:
    """Return the engine's ``usage`` (and ``timings``) objects as an event."""
    prompt_details = usage.get("prompt_tokens_details") or {}
    completion_details = usage.get("completion_tokens_details") or {}
    clock = timings if isinstance(timings, dict) else {}
    return UsageReported(
        prompt_tokens=_integer(usage.get("prompt_tokens")),
        completion_tokens=_integer(usage.get("completion_tokens")),
        cached_tokens=_integer(prompt_details.get("cached_tokens")),
        reasoning_tokens=_integer(completion_details.get("reasoning_tokens")),
        prompt_ms=clock.get("prompt_ms"),
        predicted_ms=clock.get("predicted_ms"),
    )


def failure(error: object) -> Failed:
    """Return an ``error`` object found in the engine's stream as an event."""
    if isinstance(error, dict):
        status = error.get("code")
        return Failed(
            code="engine-error",
            message=str(error.get("message") or "the engine reported an error without a text"),
            status=status if isinstance(status, int) and 400 <= status <= 599 else 500,
        )
    return Failed(code="engine-error", message=str(error), status=500)


def _logprobs(value: object) -> tuple[Mapping[str, Any], ...]:
    content = value.get("content") if isinstance(value, dict) else None
    return tuple(entry for entry in content if isinstance(entry, dict)) if isinstance(content, list) else ()


def _integer(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0
