"""The canonical event stream: what every dialect's stream is written from.

A stream is ``Started``, then any of ``Reasoning``, ``Text``, ``ToolCallStarted`` and ``ToolCallArguments``, then one
``Finished``, then ``UsageReported`` if the engine counted. A broken stream ends with ``Failed`` instead and has no
``Finished``. Only the first choice is told; dialects other than OpenAI's know no more than one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class FinishReason(StrEnum):
    """Why the model stopped, in OpenAI's words."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"


@dataclass(frozen=True, slots=True)
class Started:
    """The engine began to answer.

    Attributes:
        id: The engine's id of the answer.
        created: Unix seconds.
    """

    id: str
    created: int


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A piece of the model's thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the answer.

    Attributes:
        text: Some characters of it.
        logprobs: OpenAI's entries for its tokens, where they were asked for.
    """

    text: str
    logprobs: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Texts:
    """Several pieces of the answer in a row: what most of a stream is, so it costs one object for each read.

    Attributes:
        pieces: As the engine wrote them, none empty.
    """

    pieces: Sequence[str]


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """A call of a tool begins.

    Attributes:
        index: 0, 1, 2 ... in order of appearance, without gaps.
        id: Unique and not empty.
        name: The function's name.
    """

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallArguments:
    """A piece of a call's arguments; the pieces of one call together are JSON.

    Attributes:
        index: The call's.
        fragment: Some characters of it.
    """

    index: int
    fragment: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The model stopped.

    Attributes:
        reason: Why.
        stop_sequence: The stop string that was met, where that is known.
    """

    reason: FinishReason
    stop_sequence: str | None = None


@dataclass(frozen=True, slots=True)
class UsageReported:
    """The engine's count of tokens.

    Attributes:
        prompt_tokens: All of the prompt, cached ones included.
        completion_tokens: All that was generated, reasoning included.
        cached_tokens: The part of the prompt that was not evaluated anew.
        reasoning_tokens: The part of the completion that was thinking, where the engine says.
        prompt_ms: Milliseconds of prefill, where the engine says.
        predicted_ms: Milliseconds of generation, where the engine says.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    prompt_ms: float | None = None
    predicted_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The stream broke.

    Attributes:
        code: A :class:`blazar_routing.errors.LaneError` code, or ``engine-error`` for what the engine itself said.
        message: The text for people.
        status: The HTTP status it would have had before the first byte.
    """

    code: str
    message: str
    status: int


Event = Started | Reasoning | Text | Texts | ToolCallStarted | ToolCallArguments | Finished | UsageReported | Failed
