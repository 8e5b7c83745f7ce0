"""From the engine's chat chunks to canonical events, repairing what engines get wrong.

Repairs, each seen in the field:

* tool calls: see :mod:`~blazar_gateway.dialects.tool_calls`;
* a tool turn that finishes with ``stop``: it is ``tool_calls``; ``length`` stays ``length``;
* reasoning under ``reasoning`` instead of ``reasoning_content``;
* chunks without ``choices``, with ``choices: []``, or that are ``null``.
"""

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
from blazar_gateway.dialects.tool_calls import CallPieces


class ChatEvents:
    """Turns the parsed chunks of one answer into events, in order.

    Args:
        new_call_id: Makes an id for a call that came without one.
    """

    def __init__(self, *, new_call_id: Callable[[], str]) -> None:
        self._started = False
        self._finished = False
        self._calls = CallPieces(new_call_id=new_call_id)

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
            yield Text(chunk["content"], _logprobs({"content": chunk.get("completion_probabilities")}))
        if chunk.get("stop") and not self._finished:
            self._finished = True
            yield Finished(FinishReason.LENGTH if chunk.get("stop_type") == "limit" else FinishReason.STOP)
            counts = {
                "prompt_tokens": chunk.get("tokens_evaluated"),
                "completion_tokens": chunk.get("tokens_predicted"),
            }
            yield usage_reported(counts, chunk.get("timings"))

    def _tool_call(self, call: Mapping[str, Any]) -> Iterator[Event]:
        piece = self._calls.take(call)
        if piece.begins:
            yield ToolCallStarted(piece.index, piece.id, piece.name)
        if piece.arguments:
            yield ToolCallArguments(piece.index, piece.arguments)

    def _reason(self, word: str) -> FinishReason:
        if word == "function_call" or (word == "stop" and self._calls.count):
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
