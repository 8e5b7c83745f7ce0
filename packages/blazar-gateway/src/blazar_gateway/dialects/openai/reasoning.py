"""Reasoning under both names that clients read.

llama-server and sglang write ``reasoning_content``, vLLM-style engines and Ollama write ``reasoning``; clients look for
one or the other. Whichever an engine writes, the client finds both, with the same text.
"""

import re

from blazar_gateway.dialects.json_objects import JsonObject

MARK = b'"reasoning'
"""A frame without these bytes has no reasoning in it. In a JSON string they would carry a backslash."""

_FIELD = re.compile(rb'"reasoning(_content)?":\s*+("(?:[^"\\]++|\\.)*+")')


def name_twice(frames: bytes) -> bytes:
    """Return ``frames`` with each reasoning text under both names."""
    if b'"reasoning_content"' in frames and b'"reasoning"' in frames:
        return b"\n\n".join(_name_frame(frame) for frame in frames.split(b"\n\n"))
    return _FIELD.sub(_both, frames)


def _name_frame(frame: bytes) -> bytes:
    if b'"reasoning_content"' in frame and b'"reasoning"' in frame:
        return frame
    return _FIELD.sub(_both, frame)


def _both(found: re.Match[bytes]) -> bytes:
    value = found[2]
    return b'"reasoning_content":' + value + b',"reasoning":' + value


def name_twice_in(message: JsonObject) -> None:
    """Give a message, or a delta, its reasoning under both names."""
    if "reasoning_content" in message:
        message.setdefault("reasoning", message["reasoning_content"])
    elif "reasoning" in message:
        message["reasoning_content"] = message["reasoning"]
